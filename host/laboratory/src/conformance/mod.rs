//! The conformance kit: examines whether a plugin keeps the laws of its kind. It calls the plugin
//! only through [`Maker`] and the roles, so it does not depend on WebAssembly.
//!
//! | law | kinds | what the kit does | a breach is |
//! |---|---|---|---|
//! | `schema` | the plugin | reads the descriptor; makes instances with configs that the schema accepts (those given, its examples, the defaults, each enum value and bound) and with ones that it excludes (wrong types, unknown keys, values beyond enums and bounds, missing required keys, broken regular expressions and templates) | an empty name or a malformed version, secrets or hosts of a plugin that is no adapter, a schema that does not describe objects, a valid config that is refused, an invalid one that is accepted, or refused without naming its key |
//! | `deterministic` | all | asks `describe` before and after `configure`; makes the same calls on two instances; makes each call of a parser, formatter or policy twice | different answers |
//! | `disposable` | all | makes the same calls on a kept instance and on one that is discarded after every call, also in one long sequence | different answers |
//! | `total` | all | calls with empty, huge, deeply nested, malformed and unexpected inputs | a trap, an exceeded deadline or limit, an answer that breaks the contract; errors for every ordinary input |
//! | `coherent` | processors, adapters | changes a history anywhere, also with tool calls, and shortens it | a view or a request that differs from a fresh instance's for the whole history; a change beyond the view, wrong `places` |
//! | `paired` | parsers, formatters, processors | checks the tool calls in every answer | an action with an id that no call has, an output without its message, a view whose calls and results do not match |
//! | `extra-kept` | processors | marks every message and part with unknown keys | a message or part of the view without its marks, a changed opaque part |
//! | `any-cut` | adapters | feeds a response in pieces, also cut within a character | another reply than from one piece |
//! | `starts-over` | adapters | breaks responses off, and then feeds a whole one | another reply than without the broken-off responses |
//! | `requests` | adapters | checks every request | a URL that is not absolute http(s), a host or secret that neither the descriptor nor the config names, an invalid header |
//! | `pieces` | adapters with `body-pieces` | makes the same queries with offers to take bodies in pieces, and without | another body, a piece that is not in the last body |
//! | `judgement` | policies | judges actions after others and alone | different judgements; a rewritten action without its tool call's id |
//! | `asking` | processors that ask | answers questions badly or not at all | more than 8 questions in a step, a question that can't be sent, anything but a view or an error |
//!
//! A crash is a breach of `total`, whatever law was being examined; a wrongly handled config is one
//! of `schema`. The input of a finding is made small, and the report names the remedy. The same
//! seed leads to the same examination. Each group of laws has a time limit, each law a limit of
//! findings; a plugin that exceeds its deadline four times is no longer called for that kind.

mod adapter;
mod adapter_session;
mod answer;
mod answerer;
mod asking;
mod calls;
mod configs;
mod exam;
mod histories;
mod law;
mod options;
mod processor;
mod processor_session;
mod report;
mod requests;
mod responses;
mod schema_law;
mod shrink;
mod stateless;
mod texts;
mod values;

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use law::Law;
pub use options::{Effort, ExaminationOptions, Response, ResponseBody, Samples, StepSample};
pub use report::{ConformanceReport, Finding, LawOutcome, LawReport};

use exam::Exam;
use mswea_core::{Maker, RoleKind};

/// Examines a plugin. It makes many instances of it, which takes seconds.
pub async fn examine(maker: &dyn Maker, options: &ExaminationOptions) -> ConformanceReport {
    let identity = maker.identity();
    let wanted = |kind: &RoleKind| options.kinds.is_empty() || options.kinds.contains(kind);
    let kinds: Vec<RoleKind> = identity.kinds.iter().copied().filter(wanted).collect();
    let mut exam = Exam::new(maker, options);
    let mut configs = Vec::new();
    if let Some(first) = kinds.first() {
        exam.section(None);
        let known = schema_law::examine(&mut exam, *first).await;
        for kind in kinds {
            exam.section(Some(kind));
            for (index, config) in known.configs.iter().enumerate() {
                if !exam.is_stopped() {
                    one_config(&mut exam, kind, &known, config, index == 0).await;
                    exam.finish(Law::of(Some(kind)));
                }
            }
            if known.configs.is_empty() {
                for law in Law::of(Some(kind)) {
                    exam.not_applicable(*law, "no config is known that the plugin accepts");
                }
            }
            exam.end_of_kind();
            for (law, reason) in [
                (Law::Asking, "it asked no question"),
                (Law::AnyCut, "it sent no request"),
                (Law::StartsOver, "it sent no request"),
                (Law::Requests, "it sent no request"),
            ] {
                if Law::of(Some(kind)).contains(&law) && exam.cases(law) == 0 {
                    exam.not_applicable(law, reason);
                }
            }
        }
        configs = known.configs;
    }
    ConformanceReport {
        name: identity.name.clone(),
        version: identity.version.clone(),
        digest: identity.digest.clone(),
        seed: options.seed,
        effort: options.effort,
        configs,
        laws: exam.reports(),
    }
}

async fn one_config(
    exam: &mut Exam<'_>,
    kind: RoleKind,
    known: &schema_law::LawInput,
    config: &serde_json::Value,
    is_first: bool,
) {
    exam.share(is_first);
    match kind {
        RoleKind::ModelAdapter => adapter::examine(exam, config, known, is_first).await,
        RoleKind::HistoryProcessor => processor::examine(exam, config, is_first).await,
        RoleKind::ActionParser | RoleKind::ObservationFormatter | RoleKind::ActionPolicy => {
            stateless::examine(exam, kind, config, is_first).await;
        }
    }
}
