//! The laws: what each is called, what it promises, and what to do about a breach.

use crate::roles::RoleKind;

/// A law that plugins keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Law {
    /// The same calls give the same answers.
    Deterministic,
    /// An instance that is thrown away after every call gives what a kept one gives.
    Disposable,
    /// Every input gives a value or a reported error.
    Total,
    /// The config's schema says what the plugin takes.
    Schema,
    /// What comes of changes is what comes of the whole history.
    Coherent,
    /// Tool calls and their results stay paired.
    Paired,
    /// Unknown keys of `extra` are passed on.
    ExtraKept,
    /// A response may be cut anywhere.
    AnyCut,
    /// Each `head` starts over.
    StartsOver,
    /// Requests go only where the descriptor and the config say.
    Requests,
    /// A judgement depends on the action alone, and a rewrite keeps its tool call.
    Judgement,
    /// Questions are few, and a bad answer to one is survived.
    Asking,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Deterministic,
        Self::Disposable,
        Self::Total,
        Self::Schema,
        Self::Coherent,
        Self::Paired,
        Self::ExtraKept,
        Self::AnyCut,
        Self::StartsOver,
        Self::Requests,
        Self::Judgement,
        Self::Asking,
    ];

    /// Those that hold for a kind; for the plugin as such without one.
    pub fn of(kind: Option<RoleKind>) -> &'static [Self] {
        use Law::*;
        match kind {
            None => &[Deterministic, Total, Schema],
            Some(RoleKind::ActionParser | RoleKind::ObservationFormatter) => {
                &[Deterministic, Disposable, Total, Paired]
            }
            Some(RoleKind::ActionPolicy) => &[Deterministic, Disposable, Total, Judgement],
            Some(RoleKind::HistoryProcessor) => &[
                Deterministic,
                Disposable,
                Total,
                Coherent,
                Paired,
                ExtraKept,
                Asking,
            ],
            Some(RoleKind::ModelAdapter) => &[
                Deterministic,
                Disposable,
                Total,
                Coherent,
                AnyCut,
                StartsOver,
                Requests,
            ],
        }
    }

    /// Its name, for people and machines.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Disposable => "disposable",
            Self::Total => "total",
            Self::Schema => "schema",
            Self::Coherent => "coherent",
            Self::Paired => "paired",
            Self::ExtraKept => "extra-kept",
            Self::AnyCut => "any-cut",
            Self::StartsOver => "starts-over",
            Self::Requests => "requests",
            Self::Judgement => "judgement",
            Self::Asking => "asking",
        }
    }

    /// What it promises, in a line; for the plugin as such without a kind.
    pub fn promise(self, kind: Option<RoleKind>) -> &'static str {
        match (self, kind) {
            (Self::Deterministic, None) => "`describe` always answers the same",
            (Self::Deterministic, _) => "the same calls give the same answers",
            (Self::Disposable, _) => "a fresh instance for each call gives the same",
            (Self::Total, None) => "odd configs are taken or refused",
            (Self::Total, _) => "hostile input gives a value or a reported error",
            (Self::Schema, _) => "the descriptor and the config's schema are honest",
            (Self::Coherent, _) => "changes come to the same as the whole history",
            (Self::Paired, _) => "tool calls and results stay paired",
            (Self::ExtraKept, _) => "unknown keys of `extra` are passed on",
            (Self::AnyCut, _) => "a response may be cut anywhere",
            (Self::StartsOver, _) => "each `head` starts over",
            (Self::Requests, _) => "requests go only where they are declared to go",
            (Self::Judgement, _) => "a judgement depends on the action alone",
            (Self::Asking, _) => "questions are few, and bad answers are survived",
        }
    }

    /// What to do about a breach.
    pub fn remedy(self, kind: Option<RoleKind>) -> &'static str {
        match (self, kind) {
            (Self::Deterministic, None) => {
                "answer `describe` from constants, whatever was configured or called before"
            }
            (Self::Deterministic, _) => {
                "compute the answer from the config and the arguments alone: no counters, no \
                 random numbers, no unordered maps that are iterated"
            }
            (Self::Disposable, _) => {
                "keep no state that the next call's arguments do not bring back: the host may \
                 drop an instance between any two calls"
            }
            (Self::Total, None) => {
                "refuse what can't be used as `invalid-config`; never trap in `configure`"
            }
            (Self::Total, Some(RoleKind::ModelAdapter)) => {
                "answer what is no usable response with a `model-error` (`malformed-response`); \
                 check before indexing, allocating, slicing text or recursing"
            }
            (Self::Total, _) => {
                "handle this input, or report a `plugin-error`; check before indexing, slicing \
                 text or recursing, and let no loop run over all of the text for each character"
            }
            (Self::Schema, _) => {
                "make the schema say what `configure` takes; refuse the rest as \
                 `invalid-config`, with the JSON pointer of the value in `extra.pointer`"
            }
            (Self::Coherent, _) => {
                "drop everything from `start` on before the new messages are added, with all \
                 that was computed from it; answer from the first message of the view that \
                 differs on, and never beyond its end"
            }
            (Self::Paired, Some(RoleKind::HistoryProcessor)) => {
                "drop or keep a message with tool calls and all of its results together"
            }
            (Self::Paired, Some(RoleKind::ActionParser)) => {
                "give at most one action the id of a tool call, and only ids of the reply's calls"
            }
            (Self::Paired, _) => {
                "answer each action that has a `tool-call-id` and an output with one message \
                 of role `tool` with that id, and make no other such messages"
            }
            (Self::ExtraKept, _) => {
                "change a copy of the message instead of making a new one, so that the keys of \
                 `extra` that you do not know stay in it"
            }
            (Self::AnyCut, _) => {
                "collect bytes and decode only what is complete: a line, or the whole body"
            }
            (Self::StartsOver, _) => "clear all that belongs to a response in `head`",
            (Self::Requests, _) => {
                "build absolute http(s) URLs, and declare every secret and host that requests \
                 use by default in `describe`"
            }
            (Self::Judgement, _) => {
                "judge by the action and the config alone, and copy `tool-call-id` into a \
                 rewritten action"
            }
            (Self::Asking, _) => {
                "ask at most 8 questions in a step, each a conversation that can be sent; end \
                 with `done` or an error when an answer does not help"
            }
        }
    }
}

impl std::fmt::Display for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
