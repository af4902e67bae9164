//! The chain of history processors. Changes go in at one end and come out at the other; the
//! stored history itself is never touched.

use super::pairing;
use crate::roles::{Asker, Change, Message, Processor};

/// A processor that failed, or broke the pairing; its view was its input, for this step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// Which one.
    pub processor: String,
    /// What happened.
    pub message: String,
}

struct Link {
    processor: Box<dyn Processor>,
    view: Vec<Message>,
}

/// Processors in order.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
}

impl Chain {
    /// A chain of these.
    pub fn new(processors: Vec<Box<dyn Processor>>) -> Self {
        let links = processors
            .into_iter()
            .map(|processor| Link {
                processor,
                view: Vec::new(),
            })
            .collect();
        Self { links }
    }

    /// The history is now `history`, and differs from the last call's from `start` on.
    /// Answers how the last view changed.
    pub async fn apply(
        &mut self,
        history: &[Message],
        start: usize,
        asker: &mut dyn Asker,
    ) -> (Change, Vec<ChainFault>) {
        let mut faults = Vec::new();
        let mut change = Change {
            start,
            messages: history[start..].iter().map(Message::light).collect(),
        };
        for index in 0..self.links.len() {
            let (before, rest) = self.links.split_at_mut(index);
            let link = &mut rest[0];
            let input: &[Message] = before.last().map_or(history, |link| &link.view);
            let all = || Change::all(input.iter().map(Message::light).collect());
            let given = if link.processor.needs_all() {
                all()
            } else {
                change
            };
            let name = link.processor.name().to_owned();
            change = match link.step(given, asker).await {
                Ok(change) => change,
                Err(message) => {
                    link.processor.discard();
                    faults.push(ChainFault {
                        processor: name,
                        message,
                    });
                    link.replace(all())
                }
            };
        }
        (change, faults)
    }
}

impl Link {
    async fn step(&mut self, given: Change, asker: &mut dyn Asker) -> Result<Change, String> {
        let name = self.processor.name().to_owned();
        let fresh = self.processor.needs_all();
        let change = self
            .processor
            .apply(given, asker)
            .await
            .map_err(|fault| fault.message)?;
        if fresh && change.start > 0 {
            return Err(format!(
                "plugin `{name}` broke the contract: a fresh instance has no view yet, but its change starts at message {}",
                change.start
            ));
        }
        if change.start > self.view.len() {
            return Err(format!(
                "plugin `{name}` broke the contract: its change starts at message {}, its view has {}",
                change.start,
                self.view.len()
            ));
        }
        let mut view = std::mem::take(&mut self.view);
        let old_tail = view.split_off(change.start);
        view.extend(change.messages);
        let start = change.start;
        if let Err(reason) = pairing::check(&view, start) {
            // Back to what it was: the caller puts the input in its place.
            view.truncate(start);
            view.extend(old_tail);
            self.view = view;
            return Err(format!(
                "plugin `{name}` broke the pairing of tool calls and results: {reason}"
            ));
        }
        // A processor that answers with more than what changed (a fresh instance does) costs
        // the ones behind it nothing.
        let same = view[start..]
            .iter()
            .zip(&old_tail)
            .take_while(|(new, old)| new == old)
            .count();
        let messages = view[start + same..].to_vec();
        self.view = view;
        Ok(Change {
            start: start + same,
            messages,
        })
    }

    /// Puts a whole view in place of what there was.
    fn replace(&mut self, whole: Change) -> Change {
        let same = whole
            .messages
            .iter()
            .zip(&self.view)
            .take_while(|(new, old)| new == old)
            .count();
        self.view = whole.messages;
        Change {
            start: same,
            messages: self.view[same..].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::{ModelError, PluginFault, Reply};
    use async_trait::async_trait;

    struct Nobody;

    #[async_trait]
    impl Asker for Nobody {
        async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
            panic!("nobody asks here")
        }
    }

    /// Keeps every message but those that say `drop`; `fail` makes it fail, `forget` makes it
    /// a fresh instance after each call.
    #[derive(Default)]
    struct Filter {
        input: Vec<Message>,
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
        ) -> Result<Change, PluginFault> {
            assert!(change.start == 0 || !self.fresh);
            change.apply(&mut self.input);
            self.fresh = self.forget;
            if self.input.iter().any(|message| message.text() == "fail") {
                return Err(PluginFault::new("it failed"));
            }
            Ok(Change::all(
                self.input
                    .iter()
                    .filter(|message| message.text() != "drop")
                    .cloned()
                    .collect(),
            ))
        }
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        messages.iter().map(Message::text).collect()
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
            let mut history: Vec<Message> = ["a", "drop", "b"]
                .map(|text| Message::new("user", text))
                .to_vec();
            let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
            assert_eq!(
                (change.start, texts(&change.messages)),
                (0, vec!["a".into(), "b".into()])
            );
            assert!(faults.is_empty());
            history.push(Message::new("user", "c"));
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
        let mut history = vec![Message::new("user", "drop"), Message::new("user", "fail")];
        let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
        assert_eq!(texts(&change.messages), ["drop", "fail"]);
        assert_eq!(faults[0].processor, "filter");
        history[1] = Message::new("user", "a");
        let (change, faults) = chain.apply(&history, 1, &mut Nobody).await;
        assert_eq!(
            (change.start, texts(&change.messages)),
            (0, vec!["a".to_owned()])
        );
        assert!(faults.is_empty());
    }

    #[tokio::test]
    async fn a_broken_pairing_is_refused_and_named() {
        let mut chain = Chain::new(vec![Box::new(Filter::default())]);
        let mut call = Message::new("assistant", "drop");
        call.tool_calls = vec![crate::roles::ToolCall {
            id: "1".into(),
            name: "bash".into(),
            arguments: String::new(),
            extra: Default::default(),
        }];
        let mut result = Message::new("tool", "out");
        result.tool_call_id = Some("1".into());
        let history = vec![Message::new("user", "a"), call, result];
        let (change, faults) = chain.apply(&history, 0, &mut Nobody).await;
        assert_eq!(change.messages, history);
        assert!(
            faults[0].message.contains("`filter` broke the pairing"),
            "{faults:?}"
        );
    }
}
