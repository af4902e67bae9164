//! Plugins that compute the messages that the model gets in place of the history.
//!
//! [`SimpleProcessor`] is enough for most plugins: one plain function of the whole history.
//! [`Processor`] is the protocol itself, for plugins whose cost per step should depend only on the
//! change, or that send queries to the model.

use serde_json::Value;

use crate::bindings::processor::exports::mswea::plugin::history_processor as wit;
use crate::plugin::{Descriptor, Holder, Plugin};
use crate::types::{Change, Message, PluginError, Reply};

pub use wit::{Next, Query};

/// Changes the view of the history that the model gets; the whole protocol.
pub trait Processor: Plugin {
    /// Applies a change of the input since the last call (`start = 0` and all messages on a new
    /// instance). Returns the change of the view.
    ///
    /// # Errors
    ///
    /// If the plugin can't compute its view; the host then uses the input as its view.
    fn apply(&mut self, change: Change) -> Result<Next, PluginError>;

    /// The model's answer to a [`Next::Ask`].
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply); `unsupported` for processors that never ask.
    fn resume(&mut self, reply: Reply) -> Result<Next, PluginError> {
        let _ = reply;
        Err(PluginError::unsupported(
            "this processor has asked nothing, so it can't resume; this is a fault of the host",
        ))
    }
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Processor,
{
    fn apply(change: Change) -> Result<Next, PluginError> {
        H::with(|processor| processor.apply(change))?
    }

    fn resume(reply: Reply) -> Result<Next, PluginError> {
        H::with(|processor| processor.resume(reply))?
    }
}

/// A processor as one plain function of the whole history.
///
/// The SDK keeps the history, applies the host's changes, and returns only the part of the view
/// that differs from the last one. Export it with `mswea_sdk::export!(simple_processor: MyType)`.
pub trait SimpleProcessor: Plugin {
    /// The view of `history`. The same history must always give the same view.
    fn process(&mut self, history: &[Message]) -> Vec<Message>;
}

/// Makes a [`Processor`] of a [`SimpleProcessor`].
pub struct Diffing<P> {
    inner: P,
    history: Vec<Message>,
    view: Vec<Message>,
}

impl<P: SimpleProcessor> Plugin for Diffing<P> {
    fn describe() -> Descriptor {
        P::describe()
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        Ok(Self {
            inner: P::configure(config)?,
            history: Vec::new(),
            view: Vec::new(),
        })
    }
}

impl<P: SimpleProcessor> Processor for Diffing<P> {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        check_start(&change, self.history.len())?;
        // After `start = 0` the host has no earlier view.
        if change.start == 0 {
            self.view.clear();
        }
        change.apply(&mut self.history);
        let view = self.inner.process(&self.history);
        let common = view
            .iter()
            .zip(&self.view)
            .take_while(|(new, old)| new == old)
            .count();
        let answer = Change::tail(common, view[common..].to_vec());
        self.view = view;
        Ok(Next::Done(answer))
    }
}

/// Checks that a change begins inside a list of `len` messages, or right at its end.
///
/// # Errors
///
/// `invalid-input` if it does not, which is a fault of the host.
pub fn check_start(change: &Change, len: usize) -> Result<(), PluginError> {
    if change.start as usize <= len {
        return Ok(());
    }
    Err(PluginError::invalid_input(format!(
        "a change starts at message {}, but only {len} are known; send the whole history with \
         `start` 0",
        change.start
    )))
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;
    use crate::parser::{Outcome, Parser};
    use crate::policy::{Policy, Verdict};
    use crate::testing::{
        Driver, check_fresh_instances, check_fresh_instances_answering, reply_text,
    };
    use crate::types::Action;
    use serde_json::json;

    /// Marks all but the last message as old.
    struct Old;

    impl Plugin for Old {
        fn describe() -> Descriptor {
            Descriptor::new("old", "0.1.0", "Marks old messages")
        }

        fn configure(_config: Value) -> Result<Self, PluginError> {
            Ok(Self)
        }
    }

    impl SimpleProcessor for Old {
        fn process(&mut self, history: &[Message]) -> Vec<Message> {
            let last = history.len().saturating_sub(1);
            let mut view = history.to_vec();
            for message in &mut view[..last] {
                message.role = "old".to_owned();
            }
            view
        }
    }

    // One type may have several kinds.
    impl Parser for Old {
        fn parse(&mut self, _reply: Reply) -> Result<Outcome, PluginError> {
            Ok(Outcome::Actions(Vec::new()))
        }
    }

    impl Policy for Old {
        fn judge(&mut self, _action: Action) -> Result<Verdict, PluginError> {
            Ok(Verdict::Allow)
        }
    }

    crate::export!(parser: Old, policy: Old);
    crate::export!(simple_processor: Old);

    fn messages(texts: &[&str]) -> Vec<Message> {
        texts
            .iter()
            .map(|text| Message::new("user", *text))
            .collect()
    }

    #[test]
    fn only_the_changed_tail_goes_back() {
        let mut driver = Driver::<Diffing<Old>>::new(json!({}));
        for (change, start, len) in [
            (Change::all(messages(&["a", "b", "c"])), 0, 3),
            // `c` becomes old, so the view changes from there on.
            (Change::tail(3, messages(&["d"])), 2, 4),
            (Change::tail(4, Vec::new()), 4, 4),
            (Change::tail(1, messages(&["x"])), 1, 2),
            (Change::all(messages(&["a"])), 0, 1),
        ] {
            let view = driver.apply(change).to_vec();
            assert_eq!((driver.last_start(), view.len()), (start, len));
            assert!(
                view.iter()
                    .rev()
                    .skip(1)
                    .all(|message| message.role == "old")
            );
        }
    }

    #[test]
    fn a_spread_change_leaves_what_lies_between() {
        for (differing, extra, expected) in [
            (
                &[(1, "B"), (4, "e")][..],
                Some(r#"{"places":[1, 4]}"#),
                "aBcde",
            ),
            (&[(0, "A"), (2, "C")], Some(r#"{"places":[0, 2]}"#), "AbC"),
            (&[(3, "D"), (4, "e"), (5, "f")], None, "abcDef"),
            (&[], None, ""),
        ] {
            let message = |(place, text): &(usize, &str)| (*place, Message::new("user", *text));
            let change = Change::spread(differing.iter().map(message).collect());
            assert_eq!(change.extra.as_deref(), extra);
            let mut view = messages(&["a", "b", "c", "d"]);
            change.apply(&mut view);
            let texts: String = view.iter().map(Message::text).collect();
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn a_fresh_instance_sees_the_same() {
        let views = check_fresh_instances::<Diffing<Old>>(
            &json!({}),
            &[
                Change::all(messages(&["a"])),
                Change::tail(1, messages(&["b", "c"])),
                Change::tail(2, messages(&["d"])),
            ],
        );
        assert_eq!(views.last().map(Vec::len), Some(3));
    }

    #[test]
    fn a_change_beyond_the_end_is_refused() {
        let mut processor =
            crate::testing::configure::<Diffing<Old>>(json!({})).expect("`Old` takes any config");
        let error = processor.apply(Change::tail(1, Vec::new())).err();
        assert_eq!(
            error.map(|error| error.code).as_deref(),
            Some("invalid-input")
        );
        let error = processor.resume(Reply::default()).err();
        assert_eq!(
            error.map(|error| error.code).as_deref(),
            Some("unsupported")
        );
    }

    /// Asks for the meaning of the last message, and shows only the answer. With `FORGETFUL` the
    /// question differs on instances that have had several calls.
    struct Asking<const FORGETFUL: bool> {
        history: Vec<Message>,
        calls: usize,
    }

    impl<const FORGETFUL: bool> Plugin for Asking<FORGETFUL> {
        fn describe() -> Descriptor {
            Descriptor::new("asking", "0.1.0", "Asks")
        }

        fn configure(_config: Value) -> Result<Self, PluginError> {
            Ok(Self {
                history: Vec::new(),
                calls: 0,
            })
        }
    }

    impl<const FORGETFUL: bool> Processor for Asking<FORGETFUL> {
        fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
            change.apply(&mut self.history);
            self.calls += 1;
            let mut messages: Vec<Message> = self.history.last().cloned().into_iter().collect();
            if FORGETFUL {
                messages.push(Message::new("user", self.calls.to_string()));
            }
            Ok(Next::Ask(Query {
                messages,
                purpose: "test".to_owned(),
                extra: None,
            }))
        }

        fn resume(&mut self, reply: Reply) -> Result<Next, PluginError> {
            Ok(Next::Done(Change::all(vec![reply.message])))
        }
    }

    fn asked() -> [Change; 3] {
        ["a", "b", "a"].map(|text| Change::all(messages(&[text])))
    }

    #[test]
    fn questions_are_answered_once_and_remembered() {
        let mut count = 0;
        let answer = move |query: &Query| {
            count += 1;
            reply_text(&format!("{} {count}", query.messages[0].text()))
        };
        let views = check_fresh_instances_answering::<Asking<false>>(&json!({}), &asked(), answer);
        let texts: Vec<_> = views.iter().map(|view| view[0].text()).collect();
        assert_eq!(texts, ["a 1", "b 2", "a 1"]);

        let mut driver = Driver::<Asking<false>>::new(json!({})).answering(|_| reply_text("x"));
        assert_eq!(driver.questions(), 0);
        driver.apply(Change::all(messages(&["a"])));
        assert_eq!(driver.questions(), 1);
    }

    #[test]
    #[should_panic(expected = "which the warm one has not asked")]
    fn a_question_that_depends_on_the_past_is_found() {
        check_fresh_instances_answering::<Asking<true>>(&json!({}), &asked(), |_| reply_text("x"));
    }
}
