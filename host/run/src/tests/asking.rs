//! Tests of processors' questions, and of queries that the run's time limit aborts: their cost, and
//! their events.

use std::collections::HashSet;

use super::*;
use mswea_core::{Asker, ModelFailure, Processor, ViewChange};
use mswea_record::journal::Record;

fn usage() -> Option<Usage> {
    Some(Usage {
        input_tokens: 10,
        ..Usage::default()
    })
}

/// A model that submits when queried. Questions are answered, fail after they were billed, or
/// hang, as may queries.
#[derive(Clone, Default)]
struct Curious {
    fails: bool,
    interrupted: bool,
    ask_hangs: bool,
    query_hangs: bool,
    /// A question is sent again, which is recorded.
    retries: bool,
    asked: Arc<Mutex<u32>>,
    unreported: Option<Usage>,
}

impl Curious {
    /// Behaves like a provider whose first attempt was billed and whose second one gets no answer.
    async fn hang(&mut self) -> ! {
        self.unreported = usage();
        std::future::pending().await
    }
}

#[async_trait]
impl Model for Curious {
    async fn query(&mut self, _: Change, _: &[Tool], _: &Context) -> Result<Reply, ModelError> {
        if self.query_hangs {
            self.hang().await;
        }
        let mut message = Message::new("assistant", "");
        message.tool_calls = vec![ToolCall {
            id: "c0".into(),
            name: "bash".into(),
            arguments: "submit x".into(),
            extra: Object::new(),
        }];
        Ok(Reply {
            message,
            usage: usage(),
            ..Reply::default()
        })
    }

    async fn ask(
        &mut self,
        _: Vec<Message>,
        _: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError> {
        *self.asked.lock().unwrap() += 1;
        if self.retries {
            let retry = Event::Retry {
                class: ErrorClass::Overloaded.into(),
                message: String::new(),
                attempt: 1,
                wait_seconds: 0.0,
            };
            let recorded = context.journal.record(&retry);
            recorded.map_err(|error| ModelError::new(ModelFailure::Journal, error.to_string()))?;
        }
        if self.ask_hangs {
            self.hang().await;
        }
        if self.interrupted {
            return Err(ModelError::new(ModelFailure::Interrupted, "stopped"));
        }
        if self.fails {
            return Err(ModelError {
                usage: usage(),
                ..ModelError::new(ErrorClass::Overloaded, "no luck")
            });
        }
        Ok(Reply {
            usage: usage(),
            ..Reply::default()
        })
    }

    fn take_unreported_usage(&mut self) -> Option<Usage> {
        self.unreported.take()
    }
}

/// Asks three questions, each of them twice, and returns the history unchanged.
struct Inquisitive(Vec<Message>, HashSet<&'static str>);

#[async_trait]
impl Processor for Inquisitive {
    fn name(&self) -> &str {
        "inquisitive"
    }
    fn needs_all(&self) -> bool {
        true
    }
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        for question in ["1?", "1?", "2?", "3?", "2?", "3?"] {
            let messages = vec![Message::new("user", question)];
            let known = asker.remembers("inquisitive", &messages);
            assert_eq!(known, !self.1.insert(question), "{question}");
            asker
                .ask("inquisitive", "test", messages)
                .await
                .map_err(|error| PluginFault::new(error.to_string()))?;
        }
        change.apply(&mut self.0);
        Ok(Change::all(self.0.clone()).into())
    }
    fn discard(&mut self) {
        self.0.clear();
    }
}

struct Outcome {
    ended: Ended,
    asked: u32,
    /// Kinds of the events about questions and failures.
    kinds: Vec<String>,
}

fn curious(model: Curious, global: Arc<GlobalAccount>) -> Parts {
    Parts {
        model: Box::new(model),
        parser: Box::new(Calls),
        formatter: Box::new(Plain),
        history: Chain::new(vec![Box::new(Inquisitive(Vec::new(), HashSet::new()))]),
        policies: Vec::new(),
        executor: Box::new(Echo {
            ran: Arc::default(),
            stop: None,
            is_replaced: false,
        }),
        pricing: Arc::new(OneDollar),
        global,
        prompts: Prompts {
            demonstrations: Vec::new(),
            system: "system".into(),
            instance: "task".into(),
            strategy: None,
            format_error: "{{error}}".into(),
            syntax_error: "{{bash_stderr}}".into(),
            trials: Vec::new(),
            variables: Arc::new(Variables::new(
                Arc::new(mswea_plugin_host::templates(None)),
                Object::new(),
                Value::clone,
            )),
        },
        person: Arc::new(Nobody),
        multimodal: None,
        onlookers: Vec::new(),
    }
}

async fn run(model: Curious, limits: RunLimits) -> Outcome {
    let (_source, stop) = StopSource::new();
    let journal = Arc::new(MemoryJournal::default());
    let asked = model.asked.clone();
    let global = Arc::new(GlobalAccount::default());
    let parts = curious(model, global.clone());
    let settings = RunSettings {
        limits,
        action_timeout: Duration::from_secs(5),
        ..RunSettings::default()
    };
    let context = Context::new(Arc::new(Silent), journal.clone() as Arc<dyn Journal>, stop);
    let ended = Agent::new(parts, settings, context, State::default())
        .run()
        .await;
    let records = journal.records();
    // The account that is computed from the journal is the same.
    let state = fold(&records);
    assert_eq!(state.account.cost, ended.account.cost);
    assert_eq!(state.account.usage, ended.account.usage);
    assert_eq!(state.account.queries, ended.account.queries);
    assert_eq!(state.account.questions, ended.account.questions);
    // Failed ones were billed as well.
    assert_eq!(global.used().0, ended.account.cost);
    let kinds = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Asked { .. } => Some("asked".to_owned()),
            Event::AskReply { .. } => Some("answered".to_owned()),
            Event::PluginFault { .. } => Some("fault".to_owned()),
            Event::QueryStarted { .. } => Some("query".to_owned()),
            Event::QueryFailed { class, .. } => Some(format!("failed {class}")),
            _ => None,
        })
        .collect();
    let asked = *asked.lock().unwrap();
    Outcome {
        ended,
        asked,
        kinds,
    }
}

#[tokio::test]
async fn questions_are_charged_and_keep_to_the_limits() {
    let failing = Curious {
        fails: true,
        ..Curious::default()
    };
    let cost = |cost| RunLimits {
        cost,
        ..RunLimits::default()
    };
    // Model, limits, status, dollars, queries, events.
    for (model, limits, status, dollars, queries, kinds) in [
        (
            Curious::default(),
            RunLimits::default(),
            "Submitted",
            4.0,
            1,
            "asked answered asked answered asked answered query",
        ),
        (
            failing.clone(),
            RunLimits::default(),
            "Submitted",
            2.0,
            1,
            "asked failed overloaded fault query",
        ),
        (
            Curious::default(),
            cost(2.0),
            "LimitsExceeded",
            2.0,
            0,
            "asked answered asked answered",
        ),
        (
            Curious::default(),
            cost(3.0),
            "LimitsExceeded",
            3.0,
            0,
            "asked answered asked answered asked answered",
        ),
        // A question is a step like a query.
        (
            Curious::default(),
            RunLimits {
                steps: 2,
                ..RunLimits::default()
            },
            "LimitsExceeded",
            2.0,
            0,
            "asked answered asked answered",
        ),
        // A stop of the run is not recorded as a fault of the processor.
        (
            Curious {
                interrupted: true,
                ..Curious::default()
            },
            RunLimits::default(),
            "Interrupted",
            0.0,
            0,
            "asked failed interrupted",
        ),
        (
            failing,
            cost(1.0),
            "LimitsExceeded",
            1.0,
            0,
            "asked failed overloaded fault",
        ),
    ] {
        let model = Curious {
            asked: Arc::default(),
            ..model
        };
        let outcome = run(model, limits.clone()).await;
        let account = &outcome.ended.account;
        assert_eq!(outcome.ended.end.exit_status(), status, "{limits:?}");
        assert_eq!(outcome.kinds.join(" "), kinds, "{limits:?}");
        assert_eq!(account.cost, dollars, "{limits:?}");
        assert_eq!(account.queries, queries, "{limits:?}");
        assert_eq!(
            outcome.asked as usize,
            outcome.kinds.iter().filter(|kind| *kind == "asked").count(),
        );
    }
}

/// Can't write one event, and all others.
#[derive(Default)]
struct NoRetries(MemoryJournal);

impl Journal for NoRetries {
    fn record(&self, event: &Event) -> std::io::Result<f64> {
        match event {
            Event::Retry { .. } => Err(std::io::Error::other("no room")),
            _ => self.0.record(event),
        }
    }
}

#[tokio::test]
async fn a_question_that_the_journal_can_not_hold_ends_the_run() {
    let journal = Arc::new(NoRetries::default());
    let model = Curious {
        retries: true,
        ..Curious::default()
    };
    let parts = curious(model, Arc::default());
    let context = Context::new(Arc::new(Silent), journal.clone(), Stop::never());
    let agent = Agent::new(parts, RunSettings::default(), context, State::default());
    let ended = agent.run().await;
    assert!(matches!(ended.end, End::Journal { .. }), "{:?}", ended.end);
    // Nothing more was sent.
    assert_eq!((ended.account.questions, ended.account.queries), (1, 0));
}

#[tokio::test]
async fn what_was_billed_before_the_time_was_up_is_charged() {
    let limits = RunLimits {
        wall_time_seconds: 1,
        ..RunLimits::default()
    };
    let in_query = Curious {
        query_hangs: true,
        ..Curious::default()
    };
    let in_question = Curious {
        ask_hangs: true,
        ..Curious::default()
    };
    let (in_query, in_question) =
        tokio::join!(run(in_query, limits.clone()), run(in_question, limits));
    for (outcome, dollars, queries, kinds) in [
        (
            in_query,
            4.0,
            1,
            "asked answered asked answered asked answered query failed interrupted",
        ),
        (in_question, 1.0, 0, "asked failed interrupted"),
    ] {
        assert_eq!(outcome.ended.end, End::TimeExceeded);
        assert_eq!(outcome.kinds.join(" "), kinds);
        assert_eq!(outcome.ended.account.cost, dollars, "{kinds}");
        assert_eq!(outcome.ended.account.queries, queries, "{kinds}");
    }
}

#[tokio::test]
async fn a_resumed_run_asks_nothing_again() {
    let agent = |model, journal: &Arc<MemoryJournal>, state| {
        let context = Context::new(Arc::new(Silent), journal.clone(), Stop::never());
        let mut parts = curious(model, Arc::default());
        if state != State::default() {
            let known = HashSet::from(["1?", "2?", "3?"]);
            parts.history = Chain::new(vec![Box::new(Inquisitive(Vec::new(), known))]);
        }
        Agent::new(parts, RunSettings::default(), context, state)
    };
    let journal = Arc::new(MemoryJournal::default());
    let first = Curious::default();
    agent(first.clone(), &journal, State::default()).run().await;
    assert_eq!(*first.asked.lock().unwrap(), 3);
    let records = journal.records();
    let is_query = |record: &Record| matches!(record.event, Event::QueryStarted { .. });
    let end = records.iter().position(is_query).unwrap();
    let second = Curious::default();
    let resumed = agent(second.clone(), &journal, fold(&records[..end]));
    let began = Event::RunResumed {
        host_version: String::new(),
        config: Value::Null,
        plugins: Value::Null,
    };
    resumed.begin(&began).unwrap();
    assert_eq!(resumed.run().await.end, End::Submitted);
    assert_eq!(*second.asked.lock().unwrap(), 0);
}
