//! Faults in history processors.

use super::*;

/// A processor whose whole view is a function of its state.
fn viewing(fake: &mut Fake, view: impl Fn(&mut State) -> Vec<Message> + Send + Sync + 'static) {
    fake.apply = Arc::new(move |state, change| {
        change.apply(&mut state.history);
        Ok(ProcessorAnswer::Done(Change::all(view(state)).into()))
    });
}

#[tokio::test]
async fn processors() {
    use Law::*;
    let size = 2;
    let count = Arc::new(AtomicUsize::new(0));
    let all: &[Law] = &[Deterministic, Disposable, Coherent];
    planted(PROCESSOR, "a random number", all, |fake| {
        let count = count.clone();
        viewing(fake, move |state| {
            let mut view = state.history.clone();
            let number = count.fetch_add(1, Ordering::Relaxed).to_string();
            if let Some(first) = view.first_mut() {
                first.content.push(Part::text(number));
            }
            view
        });
    })
    .await;
    planted(
        PROCESSOR,
        "a count of calls",
        &[Disposable, Coherent],
        |fake| {
            viewing(fake, |state| {
                let mut view = state.history.clone();
                if let Some(first) = view.first_mut() {
                    first.content.push(Part::text(state.calls.to_string()));
                }
                view
            });
        },
    )
    .await;
    planted(
        PROCESSOR,
        "a view that changes after many steps",
        &[Disposable],
        |fake| {
            viewing(fake, |state| {
                let mut view = state.history.clone();
                if state.calls >= 40 {
                    view[0].content.push(Part::text("enough"));
                }
                view
            });
        },
    )
    .await;
    planted(
        PROCESSOR,
        "a first message that is never read again",
        &[Coherent],
        |fake| {
            viewing(fake, |state| {
                if state.memo.is_null() {
                    state.memo = json!(state.history.first());
                }
                let mut view = state.history.clone();
                if let Ok(known) = serde_json::from_value(state.memo.clone())
                    && let Some(first) = view.first_mut()
                {
                    *first = known;
                }
                view
            });
        },
    )
    .await;
    type Spoil = fn(&mut ViewChange);
    let spoiled: [(&str, Spoil); 4] = [
        ("a change beyond the end", |change| change.start += 1000),
        ("places that are not increasing", |change| {
            if change.messages.len() > 1 {
                change.places = Some(vec![change.start; change.messages.len()]);
            }
        }),
        ("places that begin elsewhere", |change| {
            change.places = Some(
                (1..=change.messages.len())
                    .map(|n| change.start + n)
                    .collect(),
            );
        }),
        ("places beyond the end", |change| {
            change.places = Some(
                (0..change.messages.len())
                    .map(|n| change.start + 50 * n)
                    .collect(),
            );
        }),
    ];
    for (what, spoil) in spoiled {
        planted(PROCESSOR, what, &[Coherent], |fake| {
            let apply = fake.apply.clone();
            fake.apply = Arc::new(move |state, change| {
                let mut next = apply(state, change)?;
                if let ProcessorAnswer::Done(change) = &mut next
                    && !change.messages.is_empty()
                {
                    spoil(change);
                }
                Ok(next)
            });
        })
        .await;
    }
    planted(PROCESSOR, "a call without its result", &[Paired], |fake| {
        viewing(fake, |state| {
            let mut view = state.history.clone();
            view.truncate(view.len().max(2) - 1);
            view
        });
    })
    .await;
    planted(
        PROCESSOR,
        "results without their calls",
        &[Paired],
        |fake| {
            viewing(fake, |state| {
                let last = state.history.len().saturating_sub(1);
                let view = state.history.iter().enumerate();
                let keep =
                    |(index, m): &(usize, &Message)| m.tool_calls.is_empty() || *index == last;
                view.filter(keep)
                    .map(|(_, message)| message.clone())
                    .collect()
            });
        },
    )
    .await;
    let report = planted(
        PROCESSOR,
        "shortened messages that are new ones",
        &[ExtraKept],
        |fake| {
            viewing(fake, move |state| {
                let mut view = shortened(&state.history, size);
                for (message, was) in view.iter_mut().zip(&state.history) {
                    if message != was {
                        message.extra.clear();
                    }
                }
                view
            });
        },
    )
    .await;
    let finding = &report.law(Some(PROCESSOR), ExtraKept).unwrap().findings[0];
    assert!(finding.came == "no such key", "{finding:?}");
    planted(
        PROCESSOR,
        "tool calls that lose their extra",
        &[ExtraKept],
        |fake| {
            viewing(fake, |state| {
                let mut view = state.history.clone();
                view.iter_mut()
                    .flat_map(|m| &mut m.tool_calls)
                    .for_each(|call| call.extra.clear());
                view
            });
        },
    )
    .await;
    type Lose = fn(&mut Part);
    let lost: [(&str, Lose); 3] = [
        ("reasoning that loses its extra", |part| {
            if let Part::Reasoning { extra, .. } = part {
                extra.clear();
            }
        }),
        ("images that lose their extra", |part| {
            if let Part::Image { extra, .. } = part {
                extra.clear();
            }
        }),
        ("a provider's blocks that are changed", |part| {
            if let Part::Opaque { data, .. } = part {
                *data = json!(null);
            }
        }),
    ];
    for (what, lose) in lost {
        planted(PROCESSOR, what, &[ExtraKept], |fake| {
            viewing(fake, move |state| {
                let mut view = state.history.clone();
                view.iter_mut().flat_map(|m| &mut m.content).for_each(lose);
                view
            });
        })
        .await;
    }
    for (what, trigger) in [
        (
            "an empty history",
            (|history| history.is_empty()) as fn(&[Message]) -> bool,
        ),
        ("an unknown role", |history| {
            history.iter().any(|m| m.role == "developer")
        }),
        ("many messages", |history| history.len() > 180),
        ("a result of no call", |history| {
            history.len() == 3 && history[2].role == "tool"
        }),
        ("tags of another type", |history| {
            history
                .iter()
                .any(|m| m.extra.get("tags").is_some_and(Value::is_number))
        }),
    ] {
        planted(PROCESSOR, what, &[Total], |fake| {
            let apply = fake.apply.clone();
            fake.apply = Arc::new(move |state, change| {
                let mut history = state.history.clone();
                change.clone().apply(&mut history);
                match trigger(&history) {
                    true => Err(crash("it trapped")),
                    false => apply(state, change),
                }
            });
        })
        .await;
    }
}

#[tokio::test]
async fn questions() {
    let asking: &[Law] = &[Law::Asking];
    planted(PROCESSOR, "endless questions", asking, |fake| {
        fake.resume =
            Arc::new(|_, _| Ok(ProcessorAnswer::Ask(vec![Message::new("user", "And now?")])));
    })
    .await;
    let report = planted(PROCESSOR, "questions until it is short", asking, |fake| {
        let resume = fake.resume.clone();
        fake.resume = Arc::new(move |state, reply| match reply.message.text().len() {
            0..200 => resume(state, reply),
            _ => Ok(ProcessorAnswer::Ask(vec![Message::new(
                "user",
                reply.message.text(),
            )])),
        });
    })
    .await;
    let findings = &report.law(Some(PROCESSOR), Law::Asking).unwrap().findings;
    assert!(
        findings[0].case.contains("with the question"),
        "{}",
        report.text()
    );
    planted(PROCESSOR, "an empty question", asking, |fake| {
        let apply = fake.apply.clone();
        fake.apply = Arc::new(move |state, change| match apply(state, change)? {
            ProcessorAnswer::Ask(_) => Ok(ProcessorAnswer::Ask(Vec::new())),
            next => Ok(next),
        });
    })
    .await;
    planted(
        PROCESSOR,
        "a question with half a tool call",
        asking,
        |fake| {
            let apply = fake.apply.clone();
            fake.apply = Arc::new(move |state, change| match apply(state, change)? {
                ProcessorAnswer::Ask(_) => {
                    let mut result = Message::new("tool", "x");
                    result.tool_call_id = Some("call".into());
                    Ok(ProcessorAnswer::Ask(vec![result]))
                }
                next => Ok(next),
            });
        },
    )
    .await;
    planted(PROCESSOR, "a crash without an answer", asking, |fake| {
        let resume = fake.resume.clone();
        fake.resume = Arc::new(move |state, reply| match reply.message.content.is_empty() {
            true => Err(crash("index out of bounds")),
            false => resume(state, reply),
        });
    })
    .await;
}
