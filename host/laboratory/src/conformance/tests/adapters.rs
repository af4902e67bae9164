//! Faults in model adapters.

use super::*;

#[tokio::test]
async fn adapters() {
    use Law::*;
    let count = Arc::new(AtomicUsize::new(0));
    planted(
        ADAPTER,
        "a random number",
        &[Deterministic, Disposable, Coherent],
        |fake| {
            let (query, count) = (fake.query.clone(), count.clone());
            fake.query = Arc::new(move |state, change| {
                let next = query(state, change)?;
                let AdapterNext::Send(mut request) = next else {
                    return Ok(next);
                };
                let number = count.fetch_add(1, Ordering::Relaxed).to_string();
                request
                    .headers
                    .push(("x-id".into(), HeaderValue::Plain(number)));
                Ok(AdapterNext::Send(request))
            });
        },
    )
    .await;
    planted(ADAPTER, "a history that only grows", &[Coherent], |fake| {
        fake.query = Arc::new(|state, change| {
            if change.start == 0 {
                state.history.clear();
            }
            let start = state.history.len();
            Change { start, ..change }.apply(&mut state.history);
            Ok(AdapterNext::Send(request(state)))
        });
    })
    .await;
    planted(
        ADAPTER,
        "a count of queries",
        &[Disposable, Coherent],
        |fake| {
            let query = fake.query.clone();
            fake.query = Arc::new(move |state, change| {
                let next = query(state, change)?;
                let AdapterNext::Send(mut request) = next else {
                    return Ok(next);
                };
                let queries = state.memo.as_u64().unwrap_or(0) + 1;
                state.memo = json!(queries);
                request
                    .headers
                    .push(("x-queries".into(), HeaderValue::Plain(queries.to_string())));
                Ok(AdapterNext::Send(request))
            });
        },
    )
    .await;
    planted(
        ADAPTER,
        "a request that changes after many queries",
        &[Disposable],
        |fake| {
            let query = fake.query.clone();
            fake.query = Arc::new(move |state, change| {
                let queries = state.memo.as_u64().unwrap_or(0) + 1;
                state.memo = json!(queries);
                let next = query(state, change)?;
                let AdapterNext::Send(mut request) = next else {
                    return Ok(next);
                };
                if queries >= 30 {
                    let value = HeaderValue::Plain("yes".into());
                    request.headers.push(("x-late".into(), value));
                }
                Ok(AdapterNext::Send(request))
            });
        },
    )
    .await;
    planted(
        ADAPTER,
        "pieces that are decoded one by one",
        &[AnyCut],
        |fake| {
            fake.feed = Arc::new(|state, bytes| {
                state.body.extend(String::from_utf8_lossy(&bytes).bytes());
                Vec::new()
            });
        },
    )
    .await;
    planted(
        ADAPTER,
        "a response that is not forgotten",
        &[StartsOver],
        |fake| {
            let query = fake.query.clone();
            fake.query = Arc::new(move |state, change| {
                state.body.clear();
                query(state, change)
            });
            fake.head = Arc::new(|state, status| state.status = status);
        },
    )
    .await;
    type Spoil = fn(&mut mswea_core::HttpRequest);
    let spoiled: [(&str, Spoil); 6] = [
        ("a relative URL", |request| request.url = "/v1/chat".into()),
        ("another scheme", |request| {
            request.url = "file:///etc/passwd".into();
        }),
        ("another host", |request| {
            request.url = "https://elsewhere.example/".into();
        }),
        ("another secret", |request| {
            let value = HeaderValue::Secret {
                name: "AWS_SECRET".into(),
                prefix: String::new(),
            };
            request.headers.push(("x-key".into(), value));
        }),
        ("two headers in one", |request| {
            request
                .headers
                .push(("x-a".into(), HeaderValue::Plain("1\r\nx-b: 2".into())));
        }),
        ("no method", |request| request.method.clear()),
    ];
    for (what, spoil) in spoiled {
        planted(ADAPTER, what, &[Requests], |fake| {
            let query = fake.query.clone();
            fake.query = Arc::new(move |state, change| {
                let mut next = query(state, change)?;
                if let AdapterNext::Send(request) = &mut next {
                    spoil(request);
                }
                Ok(next)
            });
        })
        .await;
    }
    type Trigger = fn(u16, &[u8]) -> bool;
    let crashing: [(&str, Trigger); 6] = [
        ("an empty body", |_, body| body.is_empty()),
        ("bytes that are no UTF-8", |_, body| {
            std::str::from_utf8(body).is_err()
        }),
        ("no choices", |_, body| {
            body == b"{\"choices\":[],\"content\":[],\"candidates\":[],\"output\":[]}"
        }),
        ("an odd status", |status, _| status == 999),
        ("deep nesting", |_, body| body.starts_with(&[b'['; 500])),
        ("a far index", |_, body| {
            body.windows(10).any(|window| window == b"4294967295")
        }),
    ];
    for (what, trigger) in crashing {
        planted(ADAPTER, what, &[Total], |fake| {
            fake.finish = Arc::new(move |state, ()| match trigger(state.status, &state.body) {
                true => Err(mswea_core::ModelError::new(
                    mswea_core::ModelFailure::Plugin,
                    "it trapped",
                )),
                false => finish(state),
            });
        })
        .await;
    }
}
