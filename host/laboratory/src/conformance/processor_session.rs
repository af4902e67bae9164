//! The host's side of a history processor: passes changes and applies the answers to a view.

use std::time::Instant;

use serde_json::{Value, json};

use super::answerer::{Answerer, Manners};
use super::exam::Crash;
use super::histories::HistoryStep;
use mswea_core::{
    Change, ConfiguredRole, Maker, Manner, Message, Processor, Refused, RoleKind, ViewChange,
};

/// The host's side of one processor: the history, and the view that results from its answers.
pub(super) struct ProcessorSession {
    processor: Box<dyn Processor>,
    pub history: Vec<Message>,
    pub view: Vec<Message>,
    pub answerer: Answerer,
}

/// Why a step has no view.
#[derive(Debug)]
pub(super) enum StepFailure {
    /// The plugin reported an error, or its question was not answered.
    Reported(String),
    /// It crashed.
    Failed(Crash),
    /// Its change breaks the contract: what was expected, and what came.
    Broken(String, String),
}

impl ProcessorSession {
    pub async fn start(
        maker: &dyn Maker,
        config: &Value,
        fresh: bool,
        manners: Manners,
    ) -> Result<Self, Refused> {
        match maker
            .make(RoleKind::HistoryProcessor, config, fresh)
            .await?
        {
            ConfiguredRole::Processor(processor) => Ok(Self {
                processor,
                history: Vec::new(),
                view: Vec::new(),
                answerer: Answerer::new(manners),
            }),
            _ => Err(Refused::Failed(
                "another role was made than asked for".into(),
            )),
        }
    }

    /// Applies a change to the history and passes it to the processor. After a step without a view,
    /// the next one passes the whole history.
    pub async fn step(&mut self, step: &HistoryStep) -> Result<Value, StepFailure> {
        step.change().apply(&mut self.history);
        let since = Instant::now();
        let change = if self.processor.needs_all() {
            self.view.clear();
            Change::all(self.history.clone())
        } else {
            step.change()
        };
        self.answerer.begin();
        let result = self.processor.apply(change, &mut self.answerer).await;
        let settled = match result {
            Ok(change) => {
                let raw = json!({
                    "start": change.start,
                    "messages": change.messages.iter().map(|it| &**it).collect::<Vec<&Message>>(),
                    "places": change.places,
                });
                lay(&mut self.view, change)
                    .map(|()| raw)
                    .map_err(|(expected, came)| StepFailure::Broken(expected, came))
            }
            Err(fault) if fault.manner == Manner::Reported => {
                Err(StepFailure::Reported(fault.message))
            }
            // The host refuses another question; the law `asking` reports that.
            Err(fault) if fault.manner == Manner::Broke && self.answerer.is_full() => {
                self.answerer.too_many();
                Err(StepFailure::Reported(fault.message))
            }
            Err(fault) => Err(StepFailure::Failed(Crash {
                manner: fault.manner,
                message: fault.message,
                took: since.elapsed(),
            })),
        };
        if settled.is_err() {
            self.processor.discard();
            self.view.clear();
        }
        settled
    }
}

/// Applies a change to a view, as the contract says. The error: what was expected, and what came.
fn lay(view: &mut Vec<Message>, change: ViewChange) -> Result<(), (String, String)> {
    let ViewChange {
        start,
        messages,
        places,
    } = change;
    if start > view.len() {
        return Err((
            format!(
                "a change that starts within the view, which has {} messages",
                view.len()
            ),
            format!("one that starts at message {start}"),
        ));
    }
    let Some(places) = places else {
        view.truncate(start);
        view.extend(messages.into_iter().map(Message::from));
        return Ok(());
    };
    let is_increasing = places.windows(2).all(|pair| pair[0] < pair[1]);
    let begins = places.first().is_none_or(|first| *first == start);
    if places.len() != messages.len() || !is_increasing || !begins {
        return Err((
            format!(
                "`places`: {} increasing indices, one for each message, the first of them {start}",
                messages.len()
            ),
            format!("{places:?}"),
        ));
    }
    for (place, message) in places.iter().zip(messages.into_iter().map(Message::from)) {
        let len = view.len();
        match view.get_mut(*place) {
            Some(there) => *there = message,
            None if *place == len => view.push(message),
            None => {
                return Err((
                    format!("`places` that leave out only what the view has, up to {len}"),
                    format!("a message for place {place}"),
                ));
            }
        }
    }
    view.truncate(places.last().map_or(start, |last| last + 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(texts: &[&str]) -> Vec<Message> {
        texts
            .iter()
            .map(|text| Message::new("user", *text))
            .collect()
    }

    #[test]
    fn changes_are_laid_as_the_contract_says() {
        type Row<'a> = (
            usize,
            &'a [&'a str],
            Option<&'a [usize]>,
            Result<&'a str, &'a str>,
        );
        let table: &[Row] = &[
            (3, &["d"], None, Ok("abcd")),
            (1, &["x"], None, Ok("ax")),
            (1, &[], None, Ok("a")),
            (0, &[], Some(&[]), Ok("")),
            (1, &["x", "y"], Some(&[1, 3]), Ok("axcy")),
            (1, &["x"], Some(&[1]), Ok("ax")),
            (4, &["x"], None, Err("starts at message 4")),
            (1, &["x", "y"], Some(&[1, 4]), Err("place 4")),
            (1, &["x", "y"], Some(&[1, 1]), Err("[1, 1]")),
            (1, &["x", "y"], Some(&[2, 1]), Err("[2, 1]")),
            (1, &["x"], Some(&[2]), Err("[2]")),
            (1, &["x", "y"], Some(&[1]), Err("[1]")),
        ];
        for (start, texts, places, expected) in table {
            let mut view = messages(&["a", "b", "c"]);
            let change = ViewChange {
                start: *start,
                messages: messages(texts).into_iter().map(Into::into).collect(),
                places: places.map(<[usize]>::to_vec),
            };
            match (lay(&mut view, change), expected) {
                (Ok(()), Ok(expected)) => {
                    assert_eq!(
                        view.iter().map(Message::text).collect::<String>(),
                        *expected
                    );
                }
                (Err((_, came)), Err(expected)) => assert!(came.contains(expected), "{came}"),
                (got, expected) => {
                    panic!("{start} {texts:?} {places:?}: {got:?}, not {expected:?}")
                }
            }
        }
    }
}
