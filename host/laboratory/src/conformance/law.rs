//! The laws: their names, what they promise, and the remedies for a breach.

use mswea_core::RoleKind;

/// A law that plugins keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Law {
    /// The same calls give the same answers.
    Deterministic,
    /// An instance that is discarded after every call gives the same results as one that is kept.
    Disposable,
    /// Every input leads to a value or a reported error.
    Total,
    /// The config's schema says which configs the plugin accepts.
    Schema,
    /// The result of changes is the same as that of the whole history.
    Coherent,
    /// Tool calls and their results stay paired.
    Paired,
    /// Unknown keys of `extra` are passed on.
    ExtraKept,
    /// A response may be cut anywhere.
    AnyCut,
    /// Each `head` starts over.
    StartsOver,
    /// Requests go only to hosts that the descriptor or the config names.
    Requests,
    /// A body that is passed in pieces equals the body that is passed whole.
    Pieces,
    /// A judgement depends on the action alone, and a rewritten action keeps its tool call.
    Judgement,
    /// There are few questions, and a bad answer to one is handled.
    Asking,
}

impl Law {
    /// All laws.
    pub const ALL: [Self; 13] = [
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
        Self::Pieces,
        Self::Judgement,
        Self::Asking,
    ];

    /// The laws of a kind; without a kind, those of the plugin as a whole. [`Law::Pieces`] is not among
    /// them: it holds only for adapters that export `body-pieces`.
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

    /// Its name, in reports and in JSON.
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
            Self::Pieces => "pieces",
            Self::Judgement => "judgement",
            Self::Asking => "asking",
        }
    }

    /// Its promise, in one line; without a kind, that of the plugin as a whole.
    pub fn promise(self, kind: Option<RoleKind>) -> &'static str {
        match (self, kind) {
            (Self::Deterministic, None) => "`describe` always answers the same",
            (Self::Deterministic, _) => "the same calls give the same answers",
            (Self::Disposable, _) => "a fresh instance for each call gives the same",
            (Self::Total, None) => "odd configs are accepted or refused",
            (Self::Total, _) => "hostile input gives a value or a reported error",
            (Self::Schema, _) => "the descriptor and the config's schema are correct",
            (Self::Coherent, _) => "changes give the same as the whole history",
            (Self::Paired, _) => "tool calls and results stay paired",
            (Self::ExtraKept, _) => "unknown keys of `extra` are passed on",
            (Self::AnyCut, _) => "a response may be cut anywhere",
            (Self::StartsOver, _) => "each `head` starts over",
            (Self::Requests, _) => "requests go only where they are declared to go",
            (Self::Pieces, _) => "a body in pieces equals the body passed whole",
            (Self::Judgement, _) => "a judgement depends on the action alone",
            (Self::Asking, _) => "questions are few, and bad answers are handled",
        }
    }

    /// The remedy for a breach.
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
                "keep no state that can't be restored from the next call's arguments: the host may \
                 drop an instance between any two calls"
            }
            (Self::Total, None) => {
                "refuse what can't be used as `invalid-config`; never trap in `configure`"
            }
            (Self::Total, Some(RoleKind::ModelAdapter)) => {
                "answer what is not a usable response with a `model-error` (`malformed-response`); \
                 check before indexing, allocating, slicing text or recursing"
            }
            (Self::Total, _) => {
                "handle this input, or report a `plugin-error`; check before indexing, slicing \
                 text or recursing, and let no loop run over all of the text for each character"
            }
            (Self::Schema, _) => {
                "make the schema describe what `configure` accepts; refuse the rest as \
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
            (Self::StartsOver, _) => "in `head`, clear all state of an earlier response",
            (Self::Requests, _) => {
                "build absolute http(s) URLs, and declare every secret and host that requests \
                 use by default in `describe`"
            }
            (Self::Pieces, _) => {
                "keep only bytes that are in the last body, of the size that `offer` gives, and \
                 pass everything from the first byte that differs on as new bytes"
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
