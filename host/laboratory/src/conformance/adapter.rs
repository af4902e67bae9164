//! The laws of model adapters.

use serde_json::{Value, json};

use super::adapter_session::{AdapterSession, Query};
use super::answer::unequal;
use super::exam::{Crash, Exam};
use super::histories::{self, HistoryStep, is_lawful};
use super::law::Law;
use super::options::Response;
use super::requests::AllowedRequests;
use super::responses;
use super::schema_law::LawInput;
use mswea_core::{Maker, Message, Refused, Tool};

/// How conversations are repeated on a second adapter for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rerun {
    /// With the same calls.
    Same,
    /// With an instance that is discarded after every query.
    Fresh,
    /// With a new instance and the whole history for every query; the requests are compared.
    Whole,
    /// With each response in one piece.
    Uncut,
    /// Without the attempts that were broken off.
    Unbroken,
    /// With bodies that are passed whole.
    Unpieced,
}

impl Rerun {
    const ALL: [Self; 6] = [
        Self::Same,
        Self::Fresh,
        Self::Whole,
        Self::Uncut,
        Self::Unbroken,
        Self::Unpieced,
    ];

    fn law(self) -> Law {
        match self {
            Self::Same => Law::Deterministic,
            Self::Fresh => Law::Disposable,
            Self::Whole => Law::Coherent,
            Self::Uncut => Law::AnyCut,
            Self::Unbroken => Law::StartsOver,
            Self::Unpieced => Law::Pieces,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Same => "the same queries on two instances",
            Self::Fresh => "the same queries on an instance that is kept and on fresh ones",
            Self::Whole => "queries by changes, and with the whole history on fresh instances",
            Self::Uncut => "a response in pieces, and in one piece",
            Self::Unbroken => "a response after attempts that broke off, and alone",
            Self::Unpieced => "the same queries with bodies in pieces, and with whole ones",
        }
    }
}

/// The result of a comparison.
#[derive(Default)]
struct ComparedConversations {
    /// Whether it sent a request.
    sent: bool,
    differs: Option<(String, String)>,
    crash: Option<(usize, Crash)>,
    breach: Option<(usize, String, String)>,
}

async fn compare(
    maker: &dyn Maker,
    config: &Value,
    allowed: &AllowedRequests,
    queries: &[Query],
    again: Rerun,
) -> Result<ComparedConversations, Refused> {
    // Bodies in pieces have a law of their own, and only that law reports breaches by them.
    let start = async |fresh| {
        let mut session = AdapterSession::start(maker, config, fresh, allowed).await?;
        session.say_whole();
        Ok::<_, Refused>(session)
    };
    let mut compared = ComparedConversations::default();
    let mut kept = match again {
        Rerun::Unpieced => AdapterSession::start(maker, config, false, allowed).await?,
        _ => start(false).await?,
    };
    let mut other = start(again == Rerun::Fresh).await?;
    for (index, query) in queries.iter().enumerate() {
        let one = kept.query(query).await;
        let mut second = query.clone();
        match again {
            Rerun::Same | Rerun::Fresh | Rerun::Unpieced => {}
            Rerun::Whole => {
                second.step = HistoryStep {
                    start: 0,
                    messages: kept.history.clone(),
                };
                other = start(false).await?;
            }
            Rerun::Uncut => second
                .answer
                .iter_mut()
                .for_each(|answer| answer.cuts.clear()),
            Rerun::Unbroken => second.broken.clear(),
        }
        let measure = other.query(&second).await;
        let (expected, came) = match again {
            Rerun::Same | Rerun::Fresh | Rerun::Unpieced => (measure.whole(), one.whole()),
            // Some adapters answer without a request.
            Rerun::Whole if measure.sent.is_empty() => (measure.end, one.end),
            Rerun::Whole => (json!(measure.sent.first()), json!(one.sent.first())),
            // Deltas may depend on how a response is cut, so they are not compared.
            Rerun::Uncut | Rerun::Unbroken => (measure.end, one.end),
        };
        compared.sent |= !one.sent.is_empty();
        if let Some((expected, came)) = one.breach {
            compared.breach.get_or_insert((index, expected, came));
        }
        for crash in [one.crash, measure.crash].into_iter().flatten() {
            compared.crash.get_or_insert((index, crash));
        }
        if compared.crash.is_some() || one.void {
            break;
        }
        compared.differs = unequal(&expected, &came);
        if compared.differs.is_some() {
            break;
        }
    }
    Ok(compared)
}

fn tools() -> Vec<Tool> {
    vec![Tool {
        name: "bash".into(),
        description: "Runs a command.".into(),
        parameters: json!({
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command."}},
            "required": ["command"],
        }),
        extra: Default::default(),
    }]
}

/// Examines an adapter with one config.
pub(super) async fn examine(exam: &mut Exam<'_>, config: &Value, known: &LawInput, is_first: bool) {
    let allowed = AllowedRequests::new(known, config);
    let good = understood(exam, config, &allowed).await;
    let mut random = exam.random("conversations");
    let has_pieces = match AdapterSession::start(exam.maker, config, false, &allowed).await {
        Ok(mut session) => session.say_whole(),
        Err(_) => false,
    };
    for again in Rerun::ALL {
        if again == Rerun::Unpieced && !has_pieces {
            continue;
        }
        exam.begin();
        let laws = [again.law(), Law::Requests];
        let spliced = matches!(again, Rerun::Whole | Rerun::Unpieced);
        let samples = exam.options.samples.histories.clone();
        let purpose = exam.random(again.words());
        let mut courses = histories::courses(purpose, &exam.scale, spliced, &samples);
        if matches!(again, Rerun::Fresh | Rerun::Unpieced) {
            courses.push(histories::long(exam.random("long")));
        }
        for course in courses {
            // Further cases would show the same breach.
            if exam.is_broken(laws[0]) || exam.enough(&laws[..1]) {
                break;
            }
            let queries = talk(course.steps, again, &good, &mut random);
            one_talk(exam, config, &allowed, &queries, again).await;
        }
        exam.finish(&laws[..1]);
    }
    total(exam, config, &allowed, &good, is_first).await;
}

/// The good responses from which this adapter makes a reply, and all samples.
async fn understood(
    exam: &mut Exam<'_>,
    config: &Value,
    allowed: &AllowedRequests,
) -> Vec<responses::LabelledResponse> {
    let samples = exam.options.samples.responses.iter().enumerate();
    let mut good: Vec<responses::LabelledResponse> = samples
        .map(|(index, sample)| {
            (
                format!("response {} of the samples", index + 1),
                sample.clone(),
            )
        })
        .collect();
    let known = good.len();
    let all = good.clone().into_iter().chain(responses::good());
    for (index, (label, response)) in all.enumerate() {
        let Ok(mut session) = AdapterSession::start(exam.maker, config, false, allowed).await
        else {
            continue;
        };
        let query = asked(Some(response.clone()));
        let trace = session.query(&query).await;
        let came = match (&trace.reply, &trace.crash) {
            (Some(_), _) => Ok(()),
            (None, Some(_)) => Err(None),
            (None, None) => {
                let said = trace.end["error"]["message"].as_str();
                Err(Some(said.unwrap_or("no reply")))
            }
        };
        exam.ordinary(&label, config, &json!({ "queries": [query] }), came);
        if index >= known && trace.reply.is_some() && !trace.sent.is_empty() {
            good.push((label, response));
        }
    }
    good
}

/// A simple query.
fn asked(answer: Option<Response>) -> Query {
    let messages = vec![Message::new("system", "s"), Message::new("user", "u")];
    Query {
        step: HistoryStep { start: 0, messages },
        tools: tools(),
        broken: Vec::new(),
        answer,
    }
}

/// Queries along a course, with responses that suit the law.
fn talk(
    steps: Vec<HistoryStep>,
    again: Rerun,
    good: &[responses::LabelledResponse],
    random: &mut fastrand::Rng,
) -> Vec<Query> {
    let failed = responses::failed();
    let all = responses::good();
    let pick = |random: &mut fastrand::Rng| {
        let failed = &failed;
        let list = match random.u8(0..6) {
            0 => failed,
            1 => &all,
            _ if good.is_empty() => &all,
            _ => good,
        };
        list[random.usize(0..list.len())].1.clone()
    };
    let with_tools = random.u8(0..4) > 0;
    let queries = steps.into_iter().map(|step| {
        let mut query = Query {
            step,
            tools: if with_tools { tools() } else { Vec::new() },
            broken: Vec::new(),
            answer: Some(pick(random)),
        };
        if again == Rerun::Uncut || random.u8(0..3) == 0 {
            query
                .answer
                .iter_mut()
                .for_each(|answer| cut(answer, random));
        }
        if matches!(again, Rerun::Unbroken | Rerun::Unpieced) {
            query.broken = (0..random.usize(1..3)).map(|_| pick(random)).collect();
            query
                .broken
                .iter_mut()
                .for_each(|broken| cut(broken, random));
        }
        // Some queries are broken off.
        if matches!(again, Rerun::Same | Rerun::Fresh | Rerun::Unpieced) && random.u8(0..10) == 0 {
            query.answer = None;
        }
        query
    });
    queries.collect()
}

/// Cuts a body: everywhere, or at random places, many of them inside a character.
fn cut(response: &mut Response, random: &mut fastrand::Rng) {
    let body = &response.body.0;
    response.cuts = match random.u8(0..3) {
        0 if body.len() < 3000 => (1..body.len()).collect(),
        1 => {
            let within = (1..body.len()).filter(|at| body[*at] & 0xc0 == 0x80);
            within.collect()
        }
        _ => {
            let mut cuts: Vec<usize> = (0..random.usize(1..8))
                .map(|_| random.usize(0..=body.len()))
                .collect();
            cuts.sort_unstable();
            cuts
        }
    };
}

async fn one_talk(
    exam: &mut Exam<'_>,
    config: &Value,
    allowed: &AllowedRequests,
    queries: &[Query],
    again: Rerun,
) {
    let maker = exam.maker;
    let law = again.law();
    let compared = match compare(maker, config, allowed, queries, again).await {
        Ok(compared) => compared,
        Err(refused) => return exam.unmade(config, &refused),
    };
    if compared.sent {
        exam.case(Law::Requests);
    }
    if compared.sent || !matches!(again, Rerun::Uncut | Rerun::Unbroken) {
        exam.case(law);
    }
    if let Some((index, crash)) = &compared.crash {
        found_crash(
            exam,
            config,
            allowed,
            again.words(),
            &queries[..=*index],
            crash,
        )
        .await;
    }
    if let Some((index, expected, came)) = compared.breach
        && !exam.is_full(Law::Requests)
    {
        let input = json!({ "queries": &queries[index..=index] });
        exam.find(Law::Requests, "a request", config, &input, expected, came);
    }
    let Some((expected, came)) = compared.differs else {
        return;
    };
    let smallest = exam
        .shrink(queries.to_vec(), async |queries: &Vec<Query>| {
            let steps: Vec<HistoryStep> = queries.iter().map(|query| query.step.clone()).collect();
            let lawful = is_lawful(&steps);
            lawful
                && compare(maker, config, allowed, queries, again)
                    .await
                    .is_ok_and(|compared| compared.differs.is_some())
        })
        .await;
    let shown = compare(maker, config, allowed, &smallest, again).await;
    let shown = shown.ok().and_then(|compared| compared.differs);
    let (expected, came) = shown.unwrap_or((expected, came));
    let input = json!({ "queries": smallest });
    exam.find(law, again.words(), config, &input, expected, came);
}

async fn found_crash(
    exam: &mut Exam<'_>,
    config: &Value,
    allowed: &AllowedRequests,
    label: &str,
    queries: &[Query],
    crash: &Crash,
) {
    if !exam.count_crash(crash) {
        return;
    }
    let maker = exam.maker;
    let mut smallest = queries.to_vec();
    if !crash.is_slow() {
        smallest = exam
            .shrink(smallest, async |queries: &Vec<Query>| {
                crashes(maker, config, allowed, queries).await.is_some()
            })
            .await;
    }
    exam.find_crash(label, config, &json!({ "queries": smallest }), crash);
}

/// The index of the first query in which a kept instance crashes.
async fn crashes(
    maker: &dyn Maker,
    config: &Value,
    allowed: &AllowedRequests,
    queries: &[Query],
) -> Option<Crash> {
    let mut session = AdapterSession::start(maker, config, false, allowed)
        .await
        .ok()?;
    for query in queries {
        if query.step.start > session.history.len() {
            return None;
        }
        if let Some(crash) = session.query(query).await.crash {
            return Some(crash);
        }
    }
    None
}

/// Law `total`: requests, replies or errors for every history, tool and response.
async fn total(
    exam: &mut Exam<'_>,
    config: &Value,
    allowed: &AllowedRequests,
    good: &[responses::LabelledResponse],
    is_first: bool,
) {
    let law = Law::Total;
    exam.begin();
    let mut random = exam.random("hostile");
    let scale = exam.scale;
    let all = responses::good();
    let measure = if good.is_empty() { &all } else { good };
    let answer = measure.first().map(|(_, response)| response.clone());
    let mut cases: Vec<(String, Vec<Query>)> = Vec::new();
    for (label, mut response) in responses::hostile(random.fork(), &scale, measure) {
        if random.u8(0..3) == 0 {
            cut(&mut response, &mut random);
        }
        // Afterwards a good response must still work.
        cases.push((label, vec![asked(Some(response)), asked(answer.clone())]));
    }
    for course in histories::hostile(random.fork(), &scale) {
        let query = |step| Query {
            step,
            ..asked(answer.clone())
        };
        cases.push((course.label, course.steps.into_iter().map(query).collect()));
    }
    for (label, tools) in odd_tools(&scale) {
        cases.push((
            label,
            vec![Query {
                tools,
                ..asked(answer.clone())
            }],
        ));
    }
    for (label, queries) in cases {
        if exam.enough(&[law]) {
            return;
        }
        let size = |query: &Query| {
            query
                .answer
                .as_ref()
                .map_or(0, |answer| answer.body.0.len())
        };
        let texts = queries.iter().flat_map(|query| &query.step.messages);
        let texts: usize = texts.map(|message| message.text().len()).sum();
        if !is_first && texts + queries.iter().map(size).sum::<usize>() > 50_000 {
            continue;
        }
        exam.case(law);
        if let Some(crash) = crashes(exam.maker, config, allowed, &queries).await {
            found_crash(exam, config, allowed, &label, &queries, &crash).await;
        }
    }
}

fn odd_tools(scale: &super::options::Scale) -> Vec<(String, Vec<Tool>)> {
    let tool = |name: &str, parameters: Value| Tool {
        name: name.to_owned(),
        description: "\u{0}\u{1f980}".to_owned(),
        parameters,
        extra: super::values::odd_extra(),
    };
    vec![
        (
            "a tool without a name".to_owned(),
            vec![tool("", json!({}))],
        ),
        (
            "a tool whose parameters are no schema".to_owned(),
            vec![tool("a b\n", json!([1, null]))],
        ),
        (
            "a tool whose parameters are null".to_owned(),
            vec![tool("x", Value::Null)],
        ),
        (
            "one tool twice".to_owned(),
            vec![tool("x", json!({})), tool("x", json!({}))],
        ),
        (
            "very many tools".to_owned(),
            (0..scale.many / 4)
                .map(|n| tool(&n.to_string(), json!({})))
                .collect(),
        ),
    ]
}
