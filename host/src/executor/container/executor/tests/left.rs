//! What a killed host left behind is found and removed, and only that.

use super::*;
use crate::executor::container::leftovers::{self, remove_leftovers};
use crate::executor::owner::Owner;

fn leave(name: &str, run: &str, owner: &str) {
    let label = |name: &str, value: &str| format!("{name}={value}");
    let made = client(&[
        "run",
        "-d",
        "--name",
        name,
        "--label",
        &label(leftovers::RUN, run),
        "--label",
        &label(leftovers::OWNER, owner),
        BASH,
        "sleep",
        "300",
    ]);
    assert!(!made.is_empty(), "{name}");
}

#[tokio::test]
async fn what_a_dead_owner_left_goes_and_nothing_else() {
    if !docker("what_a_dead_owner_left_goes_and_nothing_else") {
        return;
    }
    let me = Owner::current().to_string();
    let parts: Vec<&str> = me.split('/').collect();
    let dead = [parts[0], parts[1], parts[2], parts[3], "2147483647", "1"].join("/");
    let foreign = ["elsewhere", parts[1], parts[2], parts[3], "1", "1"].join("/");
    for transport in [Transport::Api, Transport::Cli] {
        let id = format!("left-{}-{transport:?}", std::process::id());
        let name = |kind: &str| format!("mswea-{id}-{kind}");
        let run = |kind: &str| format!("{id}-{kind}");
        for (kind, owner) in [("dead", &dead), ("mine", &me), ("foreign", &foreign)] {
            leave(&name(kind), &run(kind), owner);
        }
        // Only the named one, and only said.
        let wanted = run("foreign");
        let said = remove_leftovers("docker", transport, Some(&wanted), true)
            .await
            .unwrap();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(
            (said[0].name.as_str(), said[0].removed),
            (name("foreign").as_str(), false)
        );
        assert!(is_there(&name("foreign")));

        let done = remove_leftovers("docker", transport, None, false)
            .await
            .unwrap();
        let of = |kind: &str| done.iter().find(|left| left.name == name(kind));
        assert!(!is_there(&name("dead")), "{done:?}");
        // Another test's start may have been quicker.
        assert!(of("dead").is_none_or(|left| left.removed && left.run == run("dead")));
        for kind in ["mine", "foreign"] {
            assert!(is_there(&name(kind)), "{kind}");
            assert!(!of(kind).unwrap().removed);
        }
        // A living run keeps its container even if somebody names it.
        let mine = remove_leftovers("docker", transport, Some(&run("mine")), false)
            .await
            .unwrap();
        assert!(
            !mine[0].removed && mine[0].why.contains("is using it"),
            "{mine:?}"
        );
        let named = remove_leftovers("docker", transport, Some(&wanted), false)
            .await
            .unwrap();
        assert!(named[0].removed && !is_there(&name("foreign")));
        client(&["rm", "-f", &name("mine")]);
    }
    let error = remove_leftovers("no-such-engine", Transport::Auto, None, false).await;
    assert!(error.unwrap_err().to_string().contains("no-such-engine"));
}

#[tokio::test]
async fn containers_say_whose_they_are() {
    if !docker("containers_say_whose_they_are") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        let mut executor = started(ContainerSettings {
            transport,
            ..settings()
        })
        .await;
        let name = executor.container_name().unwrap();
        assert_eq!(name, format!("mswea-{}", executor.run_id()));
        let label = |label: &str| {
            let format = format!("{{{{index .Config.Labels \"{label}\"}}}}");
            client(&["inspect", "-f", &format, name])
        };
        assert_eq!(label(leftovers::RUN), executor.run_id());
        assert_eq!(label(leftovers::OWNER), Owner::current().to_string());
        assert!(label(leftovers::CREATED).parse::<u64>().unwrap() > 1_700_000_000);
        executor.cleanup().await;
    }
}
