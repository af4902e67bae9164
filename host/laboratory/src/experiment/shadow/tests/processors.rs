//! Shadows of history processors.

use super::*;

/// Answers questions, and counts them.
struct Model(u32);

#[async_trait::async_trait]
impl Asker for Model {
    async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
        self.0 += 1;
        Ok(testing::reply("", "summary"))
    }
}

fn history(steps: usize) -> Vec<Message> {
    let mut list = vec![Message::new("system", "s"), Message::new("user", "u")];
    for step in 0..steps {
        let id = step.to_string();
        list.push(testing::reply(&id, "c").message);
        let mut result = Message::new("tool", format!("out {step}"));
        result.tool_call_id = Some(id);
        list.push(result);
    }
    list
}

/// The views of a run with these processors, query by query, and how many questions were asked.
async fn views(run: &Run, processor: Box<dyn Processor>, steps: usize) -> (Vec<Vec<Message>>, u32) {
    let mut chain = Chain::new(vec![processor]);
    let mut model = Model(0);
    let all = Change::all(history(steps)).messages;
    let (mut view, mut views, mut seen) = (Vec::new(), Vec::new(), 0);
    for step in 0..=steps {
        run.query(step as u32 + 1);
        let here = &all[..2 + 2 * step];
        let (change, _) = chain.apply(here, seen, &mut model).await;
        change.apply(&mut view);
        seen = here.len();
        views.push(view.clone());
    }
    (views, model.0)
}

fn last(count: usize) -> ConfiguredRole {
    testing::processor(move |input| Ok(input[input.len().saturating_sub(count)..].to_vec()))
}

/// A run's processor with a shadow.
fn beside(shadow: &Shadow, real: Box<dyn Processor>) -> Box<dyn Processor> {
    let mut with = cast();
    with.processors.push(real);
    shadow.over(with).processors.remove(0)
}

#[tokio::test]
async fn processors_are_followed_by_changes() {
    let run = Run::new();
    // The real one fails once and breaks the pairing once; the comparison follows what the chain
    // makes of that.
    let real = || {
        processor_of(testing::processor(|input| match input.len() {
            6 => Err(PluginFault::new("not now")),
            8 => Ok(input[3..].to_vec()),
            len => Ok(input[len.saturating_sub(6)..].to_vec()),
        }))
    };
    let (alone, _) = views(&Run::new(), real(), 7).await;
    let candidate = maker("last-4", || last(4));
    let settings = ShadowSettings::default();
    let shadow = run
        .shadow(candidate, RoleKind::HistoryProcessor, settings)
        .await;
    let processor = beside(&shadow, real());
    let (views, _) = views(&run, processor, 7).await;
    assert_eq!(views, alone, "the run's own views");
    let found = shadow.finish(LONG).await;
    // Queries 1 and 2 have up to 4 messages; 3 and 4 failed.
    assert_eq!(
        Degree::ALL.map(|degree| found.counts.of(degree)),
        [2, 0, 4, 2, 0]
    );
    let case = &found.cases[2];
    assert_eq!(
        (&case.old["messages_in_view"], &case.new["messages_in_view"]),
        (&json!(6), &json!(4))
    );
}

#[tokio::test]
async fn a_candidate_that_un_pairs_or_asks() {
    let run = Run::new();
    let tears = maker("tears", || {
        testing::processor(|input| Ok(input[input.len() / 2..].to_vec()))
    });
    let settings = ShadowSettings {
        crashes: 100,
        ..ShadowSettings::default()
    };
    let shadow = run
        .shadow(tears, RoleKind::HistoryProcessor, settings)
        .await;
    let processor = shadow.over(cast()).processors.remove(0);
    assert_eq!(processor.name(), "nothing");
    let (seen, _) = views(&run, processor, 4).await;
    assert_eq!(seen.last(), Some(&history(4)));
    let found = shadow.finish(LONG).await;
    // The second halves of six and of ten messages begin with a result.
    assert_eq!(
        (
            found.counts.of(Degree::OneFailed),
            found.counts.of(Degree::Different)
        ),
        (2, 3)
    );
    assert!(found.cases.iter().any(|case| case.new["failed"] == "broke"));

    // A candidate that changes nothing, beside no processor: a plugin does not get what only the
    // trajectory has.
    let same = maker("same", || {
        testing::processor(|input| Ok(input.iter().map(Message::light).collect()))
    });
    let shadow = run.shadow(same, RoleKind::HistoryProcessor, settings).await;
    let processor = shadow.over(cast()).processors.remove(0);
    let mut chain = Chain::new(vec![processor]);
    let mut all = history(4);
    for message in &mut all[2..] {
        for key in ["response", "raw_output"] {
            message.extra.insert(key.into(), json!("large"));
        }
    }
    let all = Change::all(all).messages;
    for step in 0..=4 {
        run.query(step as u32 + 1);
        let start = if step == 0 { 0 } else { 2 * step };
        chain
            .apply(&all[..2 * step + 2], start, &mut Model(0))
            .await;
    }
    let found = shadow.finish(LONG).await;
    assert_eq!(found.counts.of(Degree::Same), 5);

    let asks = || {
        testing::processor(|mut input| {
            input[0] = Message::new("ask", "what?");
            Ok(input)
        })
    };
    let shadow = run
        .shadow(maker("asks", asks), RoleKind::HistoryProcessor, settings)
        .await;
    let (_, asked) = views(&run, beside(&shadow, processor_of(asks())), 3).await;
    assert_eq!(
        asked, 4,
        "the real one's questions are sent, the candidate's are not"
    );
    let found = shadow.finish(LONG).await;
    assert_eq!((found.new.asked, found.counts.compared()), (4, 0));
    let why = "the candidate asked the model, and a shadow's questions are not sent";
    assert_eq!(found.not_compared[why], 4);
    assert_eq!(
        found.brief(),
        "shadow `asks` beside `fake` (history-processor): nothing was compared: the candidate asked the model, and a shadow's questions are not sent (4 times)"
    );
}

#[tokio::test]
async fn changes_that_found_no_room_are_not_lost() {
    let run = Run::new();
    let settings = ShadowSettings {
        queue: 1,
        ..ShadowSettings::default()
    };
    let slow = maker("slow", || {
        testing::processor(|input| {
            std::thread::sleep(Duration::from_millis(8));
            Ok(input[input.len().saturating_sub(4)..].to_vec())
        })
    });
    let shadow = run.shadow(slow, RoleKind::HistoryProcessor, settings).await;
    let processor = beside(&shadow, processor_of(last(4)));
    let mut chain = Chain::new(vec![processor]);
    let all = Change::all(history(40)).messages;
    for step in 0..=40 {
        run.query(step + 1);
        let seen = (2 * step) as usize;
        let start = if step == 0 { 0 } else { seen };
        chain.apply(&all[..seen + 2], start, &mut Model(0)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let found = shadow.finish(LONG).await;
    let missed = found.not_compared["the candidate's queue was full"];
    assert_eq!(found.counts.compared() + missed, 41);
    assert!(missed > 5 && found.counts.compared() > 2, "{found:?}");
    assert!(found.agrees(), "{:?}", found.cases);
}
