//! The law of processors that ask the model: they ask few questions, and handle bad answers.

use serde_json::{Value, json};

use super::answerer::Manners;
use super::exam::Exam;
use super::histories::{self, HistoryStep, is_lawful};
use super::law::Law;
use super::processor_session::{ProcessorSession, StepFailure};
use mswea_core::{Maker, Refused};
use mswea_run::history::check_pairing;

/// Examines a processor that asks, with one config.
pub(super) async fn examine(exam: &mut Exam<'_>, config: &Value) {
    let law = Law::Asking;
    exam.begin();
    let maker = exam.maker;
    for manners in Manners::BAD {
        let random = exam.random("questions");
        for spliced in [false, true] {
            for course in histories::courses(random.clone(), &exam.scale, spliced, &[]) {
                if exam.enough(&[law]) {
                    return;
                }
                exam.case(law);
                let breach = match breach(maker, config, &course.steps, manners).await {
                    Ok(None) => continue,
                    Ok(Some(breach)) => breach,
                    Err(refused) => return exam.unmade(config, &refused),
                };
                let mut steps = course.steps;
                if !breach.slow {
                    steps = exam
                        .shrink(steps, async |steps: &Vec<HistoryStep>| {
                            let lawful = is_lawful(steps);
                            lawful
                                && matches!(
                                    self::breach(maker, config, steps, manners).await,
                                    Ok(Some(_))
                                )
                        })
                        .await;
                }
                let input = json!({ "changes": steps });
                exam.find(
                    law,
                    manners.words(),
                    config,
                    &input,
                    breach.expected,
                    breach.came,
                );
                break;
            }
        }
    }
}

struct AskingBreach {
    expected: String,
    came: String,
    slow: bool,
}

/// The breach when answers are of this kind; none if good answers lead to the same breach, because
/// another law reports it then.
async fn breach(
    maker: &dyn Maker,
    config: &Value,
    steps: &[HistoryStep],
    manners: Manners,
) -> Result<Option<AskingBreach>, Refused> {
    match breach_of(maker, config, steps, Manners::Echo).await? {
        None => breach_of(maker, config, steps, manners).await,
        Some(_) => Ok(None),
    }
}

async fn breach_of(
    maker: &dyn Maker,
    config: &Value,
    steps: &[HistoryStep],
    manners: Manners,
) -> Result<Option<AskingBreach>, Refused> {
    let mut session = ProcessorSession::start(maker, config, false, manners).await?;
    for step in steps {
        let result = session.step(step).await;
        if let Some((expected, came)) = session.answerer.breach.take() {
            let slow = false;
            return Ok(Some(AskingBreach {
                expected,
                came,
                slow,
            }));
        }
        let expected = "a view, or an error that the plugin reports itself".to_owned();
        let (came, slow) = match result {
            Err(StepFailure::Failed(crash)) => {
                let asked = session.answerer.asked;
                let plural = if asked == 1 { "" } else { "s" };
                (
                    format!("after {asked} question{plural}: {}", crash.message),
                    crash.is_slow(),
                )
            }
            Err(StepFailure::Broken(_, came)) => (came, false),
            Ok(_) => match check_pairing(&session.view, 0) {
                Ok(()) => continue,
                Err(reason) => (reason, false),
            },
            Err(StepFailure::Reported(_)) => continue,
        };
        return Ok(Some(AskingBreach {
            expected,
            came,
            slow,
        }));
    }
    Ok(None)
}
