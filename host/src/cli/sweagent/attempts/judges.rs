//! The models that judge attempts: the reviewer, or the preselector and the chooser. Their
//! questions and answers are in journals of their own beside the attempts.

use serde_json::{Value, json};

use super::AttemptSeries;
use mswea_core::{CONTENT_LIST, Message, ModelError, ModelFailure, Progress};
use mswea_executor::aside;
use mswea_plugin_host::{Cache, templates};
use mswea_record::Account;
use mswea_run::Inquiry;
use mswea_session::{Job, SetupError, new_run_id};
use mswea_sweagent::GivenTree;
use mswea_sweagent::attempts::{
    AttemptJudge, ChooserSettings, ModelStats, best_of, candidates, choice_question, chosen,
    preselected, review_question,
};
use mswea_template::TemplateError;

/// The models that judge the attempts at one problem.
pub(super) struct Judges {
    /// The reviewer, or the chooser.
    main: Inquiry,
    preselector: Option<Inquiry>,
    /// The account of the reviewer's questions.
    reviews: ModelStats,
}

/// Why there is no judgement.
pub(super) enum Unjudged {
    /// The user has stopped the run.
    Stopped,
}

/// The review of an attempt.
pub(super) struct AttemptReview {
    pub(super) score: f64,
    pub(super) is_accepted: bool,
    /// The review as the trajectory has it.
    pub(super) shown: Value,
}

impl Judges {
    /// Prepares the models.
    pub(super) async fn of(attempts: &AttemptSeries<'_>) -> Result<Self, SetupError> {
        let (main, preselector) = match &attempts.plan.settings.judge {
            AttemptJudge::Reviewer(reviewer) => {
                (inquiry(attempts, &reviewer.model, "reviewer").await?, None)
            }
            AttemptJudge::Chooser(chooser) => {
                let before = match &chooser.preselector {
                    Some(it) => Some(inquiry(attempts, &it.model, "preselector").await?),
                    None => None,
                };
                (inquiry(attempts, &chooser.model, "chooser").await?, before)
            }
        };
        Ok(Self {
            main,
            preselector,
            reviews: ModelStats::default(),
        })
    }

    /// The account of the reviews.
    pub(super) fn reviews(&self) -> ModelStats {
        self.reviews
    }

    /// Asks for the score of an attempt; none if attempts are not scored.
    pub(super) async fn review(
        &mut self,
        attempts: &AttemptSeries<'_>,
        number: usize,
        made: &Value,
    ) -> Result<Option<AttemptReview>, Unjudged> {
        let AttemptJudge::Reviewer(settings) = &attempts.plan.settings.judge else {
            return Ok(None);
        };
        let (of, problem, shown) = (settings.clone(), attempts.problem.clone(), made.clone());
        let question =
            aside(move || review_question(&templates(Cache::of_user()), &of, &problem, &shown));
        let mut numbers = Vec::new();
        let mut outputs = Vec::new();
        let mut asked = Value::Null;
        if let Some(question) = rendered(attempts, question.await) {
            asked = shown_messages(&settings.system, &question);
            for sample in 0..settings.samples {
                let asker = format!("reviewer {number}.{sample}");
                let mut messages = messages(&settings.system, &question);
                if settings.samples > 1 {
                    mark_for_cache(&mut messages);
                }
                let reply = self.main.ask(&asker, "score an attempt", messages).await;
                self.reviews = stats(&self.main.account());
                let text = match reply {
                    Ok(reply) => reply.message.text(),
                    Err(error) => {
                        failed(attempts, "the reviewer", &error)?;
                        match error.class {
                            // The next question would not be sent either.
                            ModelFailure::Limit | ModelFailure::Journal => break,
                            _ => continue,
                        }
                    }
                };
                match settings.rules.number(&text) {
                    Some(score) => {
                        numbers.push(score);
                        outputs.push(text);
                    }
                    None => {
                        let words =
                            format!("a reply of the reviewer has no score: `{}`", short(&text));
                        attempts.front.show(&Progress::Warning(&words));
                    }
                }
            }
        }
        if outputs.is_empty() {
            outputs.push("no reply of the reviewer could be used".to_owned());
        }
        let status = made["info"]["exit_status"].as_str().unwrap_or_default();
        let score = settings.rules.score(&numbers, status);
        tracing::info!("attempt {number} has the score {score}");
        Ok(Some(AttemptReview {
            score,
            is_accepted: score >= settings.accept_score,
            shown: json!({"accept": score, "outputs": outputs, "messages": asked}),
        }))
    }

    /// The chosen attempt, and the trajectory's data about the choice.
    pub(super) async fn choose(
        &mut self,
        attempts: &AttemptSeries<'_>,
        made: &[Value],
        scores: &[f64],
    ) -> Result<(usize, Option<Value>), Unjudged> {
        let settings = match &attempts.plan.settings.judge {
            AttemptJudge::Chooser(settings) => settings,
            AttemptJudge::Reviewer(_) => {
                let calls = made.iter().map(|it| ModelStats::of(it).calls);
                let scored: Vec<(f64, u32)> = scores.iter().copied().zip(calls).collect();
                return Ok((best_of(&scored).unwrap_or_default(), None));
            }
        };
        let status = |it: &Value| {
            it["info"]["exit_status"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let statuses: Vec<String> = made.iter().map(status).collect();
        let statuses: Vec<&str> = statuses.iter().map(String::as_str).collect();
        let mut left = candidates(&statuses);
        let mut before = Value::Null;
        if let (Some(inquiry), Some(of)) = (&mut self.preselector, &settings.preselector)
            && left.len() > 2
        {
            let asked = ask(attempts, inquiry, of, "the preselector", made, &left).await?;
            if let Some((reply, messages)) = asked {
                let named = preselected(&reply, &left);
                before = json!({"chosen_idx": named, "response": reply, "messages": messages});
                left = named;
            }
        }
        let first = left.first().copied().unwrap_or_default();
        if left.len() < 2 {
            let shown = json!({"chosen_idx": first, "response": "", "preselector_output": before, "messages": []});
            return Ok((first, Some(shown)));
        }
        let asked = ask(
            attempts,
            &mut self.main,
            settings,
            "the chooser",
            made,
            &left,
        )
        .await?;
        let (reply, messages) = asked.unwrap_or_default();
        let place = match reply.is_empty() {
            true => first,
            false => chosen(&reply, &left).unwrap_or(first),
        };
        let mut used = stats(&self.main.account());
        if let Some(inquiry) = &self.preselector {
            used = used.plus(stats(&inquiry.account()));
        }
        let shown = json!({
            "chosen_idx": place,
            "response": reply,
            "preselector_output": before,
            "messages": messages,
            // SWE-agent does not count it.
            "model_stats": used.value(),
        });
        Ok((place, Some(shown)))
    }

    /// Ends the journals. Returns the account of all questions.
    pub(super) fn end(self, attempts: &AttemptSeries<'_>, is_whole: bool) -> Account {
        let mut sum = Account::default();
        for inquiry in [Some(self.main), self.preselector].into_iter().flatten() {
            if let Err(error) = inquiry.end(is_whole) {
                attempts.warn(&format!("the journal of the questions: {error}"));
            }
            super::add(&mut sum, &inquiry.account());
        }
        sum
    }
}

/// Asks for a choice among the attempts of `left`. Returns the reply and the question; none if
/// there is no reply.
async fn ask(
    attempts: &AttemptSeries<'_>,
    inquiry: &mut Inquiry,
    settings: &ChooserSettings,
    who: &str,
    made: &[Value],
    left: &[usize],
) -> Result<Option<(String, Value)>, Unjudged> {
    let shown: Vec<Value> = left.iter().map(|place| made[*place].clone()).collect();
    let (of, problem) = (settings.clone(), attempts.problem.clone());
    let question = aside(move || {
        let shown: Vec<&Value> = shown.iter().collect();
        choice_question(&templates(Cache::of_user()), &of, &problem, &shown)
    });
    let Some(question) = rendered(attempts, question.await) else {
        return Ok(None);
    };
    let messages = messages(&settings.system, &question);
    match inquiry.ask(who, "choose an attempt", messages).await {
        Ok(reply) => {
            let asked = shown_messages(&settings.system, &question);
            Ok(Some((reply.message.text(), asked)))
        }
        Err(error) => {
            failed(attempts, who, &error)?;
            Ok(None)
        }
    }
}

/// Renders a question; none if its template failed, with a warning for the user.
fn rendered(
    attempts: &AttemptSeries<'_>,
    question: Option<Result<String, TemplateError>>,
) -> Option<String> {
    match question? {
        Ok(question) => Some(question),
        Err(error) => {
            attempts.warn(&error.to_string());
            None
        }
    }
}

/// Warns about a question without a reply, unless the user has stopped it.
fn failed(attempts: &AttemptSeries<'_>, who: &str, error: &ModelError) -> Result<(), Unjudged> {
    if error.class == ModelFailure::Interrupted {
        return Err(Unjudged::Stopped);
    }
    attempts.warn(&format!("no reply of {who}: {}", error.message));
    Ok(())
}

async fn inquiry(
    attempts: &AttemptSeries<'_>,
    model: &GivenTree,
    name: &str,
) -> Result<Inquiry, SetupError> {
    let planned = attempts.plan.judge(model, &name.to_uppercase());
    let planned = planned.map_err(super::unusable)?;
    let run_id = new_run_id();
    let job = Job {
        layers: Some(&planned.layers),
        ..Job::new(&attempts.problem.text, &planned.config, &run_id)
    };
    let journal = attempts.file(&attempts.folder, &format!("{name}.events.jsonl"));
    let (front, stop) = (attempts.front.clone(), attempts.stop.clone());
    attempts.runtime.inquiry(job, &journal, front, stop).await
}

fn messages(system: &str, question: &str) -> Vec<Message> {
    vec![
        Message::new("system", system),
        Message::new("user", question),
    ]
}

/// Marks the last message for the provider's cache, because it will be sent again.
fn mark_for_cache(messages: &mut [Message]) {
    if let Some(last) = messages.last_mut() {
        last.extra.insert(CONTENT_LIST.to_owned(), true.into());
        let mark = json!({"type": "ephemeral"});
        last.extra.insert("cache_control".to_owned(), mark);
    }
}

fn shown_messages(system: &str, question: &str) -> Value {
    json!([
        {"role": "system", "content": system},
        {"role": "user", "content": question},
    ])
}

fn stats(account: &Account) -> ModelStats {
    ModelStats {
        cost: account.cost,
        sent: account.usage.input_tokens,
        received: account.usage.output_tokens,
        calls: account.questions,
    }
}

/// The end of a reply, which has its score.
fn short(text: &str) -> String {
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(80);
    text.chars().skip(skipped).collect()
}
