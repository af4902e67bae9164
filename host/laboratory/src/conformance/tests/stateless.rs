//! Faults in parsers, formatters and policies.

use super::*;

/// A parser with this addition.
fn saying(
    fake: &mut Fake,
    say: impl Fn(&mut State, &mswea_core::Reply) -> String + Send + Sync + 'static,
) {
    let parse = fake.parse.clone();
    fake.parse = Arc::new(move |state, reply| {
        let said = say(state, reply);
        let mut outcome = parse(state, reply)?;
        match &mut outcome {
            Parsed::Actions(actions) => {
                for action in actions {
                    action.extra.insert("said".into(), json!(said));
                }
            }
            Parsed::Malformed(problem) => problem.message = said,
        }
        Ok(outcome)
    });
}

#[tokio::test]
async fn parsers() {
    use Law::*;
    let count = Arc::new(AtomicUsize::new(0));
    planted(
        PARSER,
        "a parser with a random number",
        &[Deterministic, Disposable],
        |fake| {
            let count = count.clone();
            saying(fake, move |_, _| {
                count.fetch_add(1, Ordering::Relaxed).to_string()
            });
        },
    )
    .await;
    planted(PARSER, "tools that differ", &[Deterministic], |fake| {
        let (tools, count) = (fake.tools.clone(), count.clone());
        fake.tools = Arc::new(move || {
            let mut tools = tools();
            tools[0].description = count.fetch_add(1, Ordering::Relaxed).to_string();
            tools
        });
    })
    .await;
    planted(
        PARSER,
        "a parser that counts",
        &[Deterministic, Disposable],
        |fake| {
            saying(fake, |state, _| state.calls.to_string());
        },
    )
    .await;
    let report = planted(
        PARSER,
        "a parser that knows the first reply",
        &[Disposable],
        |fake| {
            saying(fake, |state, reply| {
                if state.memo.is_null() {
                    state.memo = json!(reply.message.text().len());
                }
                state.memo.to_string()
            });
        },
    )
    .await;
    // Two calls are enough to show it, and the finding has two.
    let finding = &report.law(Some(PARSER), Disposable).unwrap().findings[0];
    assert_eq!(
        finding.input["calls"].as_array().unwrap().len(),
        2,
        "{}",
        report.text()
    );
    planted(
        PARSER,
        "a parser that changes after many calls",
        &[Disposable],
        |fake| {
            saying(fake, |state, _| (state.calls >= 40).to_string());
        },
    )
    .await;
    planted(
        PARSER,
        "an action of a made-up tool call",
        &[Paired],
        |fake| {
            let parse = fake.parse.clone();
            fake.parse = Arc::new(move |state, reply| {
                let mut outcome = parse(state, reply)?;
                if let Parsed::Actions(actions) = &mut outcome {
                    actions[0].tool_call_id = Some("made-up-by-the-parser".into());
                }
                Ok(outcome)
            });
        },
    )
    .await;
    planted(PARSER, "two actions of one tool call", &[Paired], |fake| {
        let parse = fake.parse.clone();
        fake.parse = Arc::new(move |state, reply| {
            let mut outcome = parse(state, reply)?;
            if let Parsed::Actions(actions) = &mut outcome {
                actions.push(actions[0].clone());
            }
            Ok(outcome)
        });
    })
    .await;
}

#[tokio::test]
async fn crashes() {
    type Trigger = fn(&mswea_core::Reply) -> bool;
    let table: [(&str, Trigger); 12] = [
        ("no content", |reply| reply.message.content.is_empty()),
        ("NUL", |reply| reply.message.text().contains('\0')),
        ("a long text", |reply| reply.message.text().len() > 30_000),
        ("many line breaks", |reply| {
            reply.message.text().lines().count() > 30_000
        }),
        ("an open fence", |reply| {
            reply.message.text().ends_with("```bash\necho hi\n")
        }),
        ("many calls", |reply| reply.message.tool_calls.len() > 150),
        ("many parts", |reply| reply.message.content.len() > 150),
        ("an empty name", |reply| {
            reply
                .message
                .tool_calls
                .iter()
                .any(|call| call.name.is_empty())
        }),
        ("deep arguments", |reply| {
            reply
                .message
                .tool_calls
                .iter()
                .any(|call| call.arguments.contains(&"[".repeat(5000)))
        }),
        ("a lone surrogate", |reply| {
            reply
                .message
                .tool_calls
                .iter()
                .any(|call| call.arguments.contains(r"\ud800"))
        }),
        ("tokens without bounds", |reply| {
            reply
                .usage
                .as_ref()
                .is_some_and(|usage| usage.output_tokens == u64::MAX)
        }),
        ("unknown extra", |reply| {
            reply.message.extra.contains_key("tags")
        }),
    ];
    for (what, trigger) in table {
        // All crashes are reported alike, traps as well as invalid answers.
        for manner in [Manner::Crashed, Manner::Broke] {
            if manner == Manner::Broke && what != "NUL" {
                continue;
            }
            let report = planted(PARSER, what, &[Law::Total], |fake| {
                let parse = fake.parse.clone();
                fake.parse = Arc::new(move |state, reply| match trigger(reply) {
                    true => Err(crash("it trapped").in_manner(manner)),
                    false => parse(state, reply),
                });
            })
            .await;
            let findings = &report.law(Some(PARSER), Law::Total).unwrap().findings;
            assert_eq!(
                findings.len(),
                1,
                "the same is said once:\n{}",
                report.text()
            );
        }
        // A reported error is no breach.
        let mut fake = Fake::good(PARSER);
        let parse = fake.parse.clone();
        fake.parse = Arc::new(move |state, reply| match trigger(reply) {
            true => Err(PluginFault::new("it is too odd (invalid-input)")),
            false => parse(state, reply),
        });
        assert!(examine(&fake, &options()).await.passed(), "{what}");
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_left_alone() {
    let since = Instant::now();
    let report = planted(PARSER, "a hang", &[Law::Total], |fake| {
        let parse = fake.parse.clone();
        fake.parse = Arc::new(move |state, reply| {
            if reply.message.tool_calls.is_empty() {
                return parse(state, reply);
            }
            std::thread::sleep(Duration::from_millis(750));
            Err(crash("it was still running after 750 ms"))
        });
    })
    .await;
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    let law = report.law(Some(PARSER), Law::Disposable).unwrap();
    let LawOutcome::NotApplicable(reason) = &law.outcome else {
        panic!("{}", report.text());
    };
    assert!(reason.contains("4 calls ran into the deadline"), "{reason}");
}

#[tokio::test]
async fn formatters() {
    type Change = fn(&mut Vec<Message>);
    let table: [(&str, Change); 5] = [
        ("a message too few", |messages| drop(messages.pop())),
        ("a message twice", |messages| {
            messages.extend(messages.last().cloned());
        }),
        ("results of the user's", |messages| {
            for message in messages {
                message.role = "user".into();
            }
        }),
        ("results without ids", |messages| {
            for message in messages {
                message.tool_call_id = None;
            }
        }),
        ("a result of no call", |messages| {
            messages.push(Message::new("tool", "x"));
        }),
    ];
    for (what, change) in table {
        let report = planted(FORMATTER, what, &[Law::Paired], |fake| {
            let format = fake.format.clone();
            fake.format = Arc::new(move |state, actions, outputs| {
                let mut messages = format(state, actions, outputs)?;
                change(&mut messages);
                Ok(messages)
            });
        })
        .await;
        let finding = &report.law(Some(FORMATTER), Law::Paired).unwrap().findings[0];
        assert!(finding.expected.contains("of role `tool`"), "{finding:?}");
    }
    planted(
        FORMATTER,
        "a count of failures",
        &[Law::Deterministic, Law::Disposable],
        |fake| {
            let format = fake.format.clone();
            fake.format = Arc::new(move |state, actions, outputs| {
                let mut messages = format(state, actions, outputs)?;
                for message in &mut messages {
                    message.content.push(Part::text(state.calls.to_string()));
                }
                Ok(messages)
            });
        },
    )
    .await;
}

#[tokio::test]
async fn policies() {
    planted(
        POLICY,
        "a rewrite without its tool call",
        &[Law::Judgement],
        |fake| {
            let judge = fake.judge.clone();
            fake.judge = Arc::new(move |state, action| match judge(state, action)? {
                Verdict::Rewrite(action) => Ok(Verdict::Rewrite(Action {
                    tool_call_id: None,
                    ..action
                })),
                verdict => Ok(verdict),
            });
        },
    )
    .await;
    planted(
        POLICY,
        "a policy that learns",
        &[Law::Disposable, Law::Judgement],
        |fake| {
            let judge = fake.judge.clone();
            fake.judge = Arc::new(move |state, action| {
                let verdict = judge(state, action)?;
                if state.memo == json!(true) && verdict == Verdict::Allow {
                    return Ok(Verdict::Deny("you wanted an editor before".into()));
                }
                if matches!(verdict, Verdict::Deny(_)) {
                    state.memo = json!(true);
                }
                Ok(verdict)
            });
        },
    )
    .await;
    planted(
        POLICY,
        "a policy that has enough after many calls",
        &[Law::Disposable, Law::Judgement],
        |fake| {
            let judge = fake.judge.clone();
            fake.judge = Arc::new(move |state, action| match state.calls {
                0..40 => judge(state, action),
                _ => Ok(Verdict::Deny("that is enough".into())),
            });
        },
    )
    .await;
    planted(POLICY, "a policy that slices text", &[Law::Total], |fake| {
        let judge = fake.judge.clone();
        fake.judge = Arc::new(
            move |state, action| match action.command.is_char_boundary(2) {
                false => Err(crash("byte index 2 is not a char boundary")),
                true => judge(state, action),
            },
        );
    })
    .await;
}
