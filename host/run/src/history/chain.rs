//! The chain of history processors: each takes the change of the view before it and returns the
//! change of its own view. The stored history itself is never changed.

use std::sync::Arc;

use super::pairing;
use mswea_core::{Asker, Change, Manner, Message, PluginFault, Processor, ViewChange};

/// The error of a processor that failed or broke the pairing of calls and results; for this step
/// its output is its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// The processor's name.
    pub processor: String,
    /// The cause.
    pub message: String,
    /// The class of the failure.
    pub manner: Manner,
}

struct ChainedProcessor {
    processor: Box<dyn Processor>,
    view: Vec<Arc<Message>>,
}

/// Processors in order.
#[derive(Default)]
pub struct Chain {
    links: Vec<ChainedProcessor>,
}

impl Chain {
    /// A chain of these processors.
    pub fn new(processors: Vec<Box<dyn Processor>>) -> Self {
        let links = processors
            .into_iter()
            .map(|processor| ChainedProcessor {
                processor,
                view: Vec::new(),
            })
            .collect();
        Self { links }
    }

    /// Whether there are no processors, so that the view is the history.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Discards the state of all processors: the next change has to begin at 0.
    pub fn forget(&mut self) {
        for link in &mut self.links {
            link.processor.discard();
            link.view.clear();
        }
    }

    /// Passes a change through the chain: `history` is the whole history, and differs from the last
    /// call's from `start` on. Returns the change of the last view.
    pub async fn apply(
        &mut self,
        history: &[Arc<Message>],
        start: usize,
        asker: &mut dyn Asker,
    ) -> (Change, Vec<ChainFault>) {
        let mut faults = Vec::new();
        let mut change = Change {
            start,
            messages: history[start..].to_vec(),
        };
        for index in 0..self.links.len() {
            let (before, rest) = self.links.split_at_mut(index);
            let link = &mut rest[0];
            let view = before.last().map_or(history, |link| &link.view);
            let all = || Change::all(view.iter().cloned());
            let given = if link.processor.needs_all() {
                all()
            } else {
                change
            };
            let name = link.processor.name().to_owned();
            change = match link.step(given, asker).await {
                Ok(change) => change,
                Err(fault) => {
                    link.processor.discard();
                    faults.push(ChainFault {
                        processor: name,
                        message: fault.message,
                        manner: fault.manner,
                    });
                    link.replace(all())
                }
            };
        }
        (change, faults)
    }
}

impl ChainedProcessor {
    async fn step(&mut self, given: Change, asker: &mut dyn Asker) -> Result<Change, PluginFault> {
        let broke = |reason: String| PluginFault::new(reason).in_manner(Manner::Broke);
        let name = self.processor.name().to_owned();
        let fresh = self.processor.needs_all();
        let change = self.processor.apply(given, asker).await?;
        let ViewChange {
            start,
            messages,
            places,
        } = change;
        if fresh && start > 0 {
            return Err(broke(format!(
                "plugin `{name}` broke the contract: a fresh instance has no view yet, but its change starts at message {start}"
            )));
        }
        if start > self.view.len() {
            return Err(broke(format!(
                "plugin `{name}` broke the contract: its change starts at message {start}, its view has {}",
                self.view.len()
            )));
        }
        let places = places.unwrap_or_else(|| (start..start + messages.len()).collect());
        // The part before the change must be present.
        let mut reach = if fresh { 0 } else { self.view.len() };
        for place in &places {
            if *place > reach {
                return Err(broke(format!(
                    "plugin `{name}` broke the contract: its change has a message for place {place}, its view has nothing at {reach}"
                )));
            }
            reach = reach.max(place + 1);
        }
        self.lay(start, &places, messages).map_err(|reason| {
            broke(format!(
                "plugin `{name}` broke the pairing of tool calls and results: {reason}"
            ))
        })
    }

    /// Writes the messages of a change to their indexes and ends the view after the last one. If
    /// that breaks the pairing, the view stays as it was. Returns the part of the view that is new.
    fn lay(
        &mut self,
        start: usize,
        places: &[usize],
        messages: Vec<Arc<Message>>,
    ) -> Result<Change, String> {
        let view = &mut self.view;
        let end = places.last().map_or(start, |last| last + 1);
        let rest = view.split_off(end.min(view.len()));
        let len = view.len();
        let mut old = Vec::new();
        // If a processor returns messages that did not change (a fresh instance does), they are not
        // passed on.
        let mut first = end;
        for (place, message) in places.iter().zip(messages) {
            match view.get_mut(*place) {
                Some(there) => {
                    if *there != message {
                        first = first.min(*place);
                    }
                    old.push(std::mem::replace(there, message));
                }
                None => {
                    first = first.min(*place);
                    view.push(message);
                }
            }
        }
        if let Err(reason) = pairing::check(view, start) {
            // The caller uses the input instead.
            view.truncate(len);
            for (place, message) in places.iter().zip(old) {
                view[*place] = message;
            }
            view.extend(rest);
            return Err(reason);
        }
        Ok(Change {
            start: first,
            messages: view[first..].to_vec(),
        })
    }

    /// Replaces the whole view.
    fn replace(&mut self, whole: Change) -> Change {
        // As a plugin would return them.
        let whole = whole.messages.into_iter().map(Message::lightened);
        let whole: Vec<_> = whole.collect();
        let same = whole
            .iter()
            .zip(&self.view)
            .take_while(|(new, old)| new == old)
            .count();
        self.view = whole;
        Change {
            start: same,
            messages: self.view[same..].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use mswea_core::{ModelError, PluginFault, Reply};

    struct Nobody;

    #[async_trait]
    impl Asker for Nobody {
        async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
            panic!("this chain asks nothing")
        }
    }

    /// Keeps every message except those with the text `drop`; `fail` makes it fail, `forget` makes
    /// it a fresh instance after each call.
    #[derive(Default)]
    struct Filter {
        input: Vec<Arc<Message>>,
        forget: bool,
        fresh: bool,
    }

    #[async_trait]
    impl Processor for Filter {
        fn name(&self) -> &str {
            "filter"
        }
        fn needs_all(&self) -> bool {
            self.fresh
        }
        fn discard(&mut self) {
            self.fresh = true;
            self.input.clear();
        }
        async fn apply(
            &mut self,
            change: Change,
            _: &mut dyn Asker,
        ) -> Result<ViewChange, PluginFault> {
            assert!(change.start == 0 || !self.fresh);
            change.apply(&mut self.input);
            self.fresh = self.forget;
            if self.input.iter().any(|message| message.text() == "fail") {
                return Err(PluginFault::new("it failed"));
            }
            let view = self.input.iter().filter(|message| message.text() != "drop");
            // As of a plugin.
            Ok(Change::all(view.cloned().map(Message::lightened)).into())
        }
    }

    fn texts(messages: &[Arc<Message>]) -> Vec<String> {
        messages.iter().map(|message| message.text()).collect()
    }

    /// A call and its result.
    fn step(says: &str) -> [Message; 2] {
        let mut call = Message::new("assistant", says);
        call.tool_calls = vec![mswea_core::ToolCall {
            id: "1".into(),
            name: "bash".into(),
            arguments: String::new(),
            extra: Default::default(),
        }];
        let mut result = Message::new("tool", "out");
        result.tool_call_id = Some("1".into());
        [call, result]
    }

    #[tokio::test]
    async fn changes_compose_and_stay_small() {
        for forget in [false, true] {
            let filter = || {
                Box::new(Filter {
                    forget,
                    ..Filter::default()
                }) as Box<dyn Processor>
            };
            let mut chain = Chain::new(vec![filter(), filter()]);
            let mut history: Vec<Arc<Message>> = ["a", "drop", "b"]
                .map(|text| Message::new("user", text).into())
                .to_vec();
            let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
            assert_eq!(
                (change.start, texts(&change.messages)),
                (0, vec!["a".into(), "b".into()])
            );
            assert!(faults.is_empty());
            history.push(Message::new("user", "c").into());
            let (change, _) = chain.apply(&history, 3, &mut Nobody).await;
            assert_eq!(
                (change.start, texts(&change.messages)),
                (2, vec!["c".to_owned()])
            );
        }
    }

    #[tokio::test]
    async fn a_failed_processor_shows_its_input_and_recovers() {
        let mut chain = Chain::new(vec![Box::new(Filter::default())]);
        let mut history = ["drop", "fail"].map(|text| Arc::new(Message::new("user", text)));
        let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
        assert_eq!(texts(&change.messages), ["drop", "fail"]);
        assert_eq!(faults[0].processor, "filter");
        history[1] = Message::new("user", "a").into();
        let (change, faults) = chain.apply(&history, 1, &mut Nobody).await;
        assert_eq!(
            (change.start, texts(&change.messages)),
            (0, vec!["a".to_owned()])
        );
        assert!(faults.is_empty());

        // What the processor returns after a failure differs only where its input differs.
        let mut bulky = Message::new("user", "b");
        bulky.extra.insert("raw_output".into(), "b".into());
        chain.forget();
        let mut history = [bulky, Message::new("user", "fail")].map(Arc::new);
        chain.apply(&history, 0, &mut Nobody).await;
        history[1] = Message::new("user", "c").into();
        let (change, _) = chain.apply(&history, 1, &mut Nobody).await;
        assert_eq!(
            (change.start, texts(&change.messages)),
            (1, vec!["c".to_owned()])
        );
    }

    /// Answers with the given changes.
    struct Scripted(Vec<ViewChange>);

    #[async_trait]
    impl Processor for Scripted {
        fn name(&self) -> &str {
            "scripted"
        }
        fn needs_all(&self) -> bool {
            false
        }
        fn discard(&mut self) {}
        async fn apply(&mut self, _: Change, _: &mut dyn Asker) -> Result<ViewChange, PluginFault> {
            Ok(self.0.remove(0))
        }
    }

    #[tokio::test]
    async fn a_change_may_leave_out_what_stays() {
        let change = |start, list: &[(usize, &str)]| ViewChange {
            start,
            messages: list
                .iter()
                .map(|(_, text)| Message::new("user", *text).into())
                .collect(),
            places: Some(list.iter().map(|(place, _)| *place).collect()),
        };
        let whole = ["a", "b", "c", "d"].map(|text| Arc::new(Message::new("user", text)));
        // The processor's answer; the expected start of the change and the view, or the fault.
        let steps = [
            (change(1, &[(1, "B"), (4, "e")]), Ok((1, "aBcde"))),
            (change(4, &[(4, "E"), (5, "f")]), Ok((4, "aBcdEf"))),
            // A message that is sent again unchanged; and an end that is removed.
            (change(0, &[(0, "a"), (5, "f")]), Ok((6, "aBcdEf"))),
            (change(0, &[(0, "a"), (2, "c")]), Ok((3, "aBc"))),
            (change(1, &[(1, "b"), (2, "C"), (3, "d")]), Ok((1, "abCd"))),
            (change(1, &[]), Ok((1, "a"))),
            (change(0, &[(0, "a"), (2, "c")]), Err("nothing at 1")),
            (change(7, &[(7, "x")]), Err("starts at message 7")),
        ];
        let mut script = vec![Change::all(whole.to_vec()).into()];
        script.extend(steps.iter().map(|(change, _)| change.clone()));
        let mut chain = Chain::new(vec![Box::new(Scripted(script))]);
        chain.apply(&whole, 0, &mut Nobody).await;
        for (change, expected) in steps {
            let (answer, faults) = chain.apply(&whole, 4, &mut Nobody).await;
            match expected {
                Ok((start, view)) => {
                    assert!(faults.is_empty(), "{faults:?}");
                    assert_eq!(texts(&chain.links[0].view).concat(), view);
                    assert_eq!(answer.start, start, "{change:?}");
                    assert_eq!(answer.messages, chain.links[0].view[start..]);
                }
                Err(fault) => {
                    assert!(faults[0].message.contains(fault), "{faults:?}");
                    // The input is its view.
                    assert_eq!(chain.links[0].view, whole);
                    chain.links[0].view.truncate(1);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_broken_pairing_leaves_what_there_was() {
        let [call, result] = step("c").map(Arc::new);
        let user = |text: &str| Arc::new(Message::new("user", text));
        let view = vec![user("a"), call.clone(), result, user("b"), user("c")];
        let mut link = ChainedProcessor {
            processor: Box::new(Scripted(Vec::new())),
            view: view.clone(),
        };
        let broken = [
            (vec![0, 2], vec![user("x"), user("no result")]),
            (vec![3, 4, 5], vec![user("y"), user("z"), call.clone()]),
            (vec![0, 1], vec![user("x"), call]),
        ];
        for (places, messages) in broken {
            let reason = link.lay(places[0], &places, messages).unwrap_err();
            assert!(reason.contains("`1` has no result"), "{reason}");
            assert_eq!(link.view, view);
        }
    }

    #[tokio::test]
    async fn a_broken_pairing_is_refused_and_named() {
        let mut chain = Chain::new(vec![Box::new(Filter::default())]);
        let [call, result] = step("drop");
        let history = [Message::new("user", "a"), call, result].map(Arc::new);
        let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
        assert_eq!(change.messages, history);
        assert!(
            faults[0].message.contains("`filter` broke the pairing"),
            "{faults:?}"
        );
    }
}
