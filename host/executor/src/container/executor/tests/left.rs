//! Containers that a killed host left behind are found and removed, and no others.

use super::*;
use crate::container::engine::KEY;
use crate::container::leftovers::{self, remove_leftovers};
use crate::container::record::{ContainerEntry, ContainerRecord, all};
use crate::leftovers::Fate;
use crate::owner::Owner;

/// Makes a container as a run of `owner` does, with a record of it.
fn leave(name: &str, run: &str, owner: &str) -> ContainerRecord {
    let mut entry = ContainerEntry::new(
        &ContainerSettings {
            run_id: run.to_owned(),
            ..settings()
        },
        name,
    );
    entry.owner = owner.to_owned();
    let mut record = entry.write().unwrap();
    record.found(&make(name, run, owner, &record.entry.key, BASH));
    record
}

/// Makes a container with the labels of a run's; returns its id.
fn make(name: &str, run: &str, owner: &str, key: &str, image: &str) -> String {
    let labels = [(leftovers::RUN, run), (leftovers::OWNER, owner), (KEY, key)];
    let labels = labels.map(|(name, value)| format!("--label={name}={value}"));
    let [run, owner, key] = labels.each_ref().map(String::as_str);
    let made = client(&[
        "run", "-d", "--name", name, run, owner, key, image, "sleep", "300",
    ]);
    assert!(!made.is_empty(), "{name}");
    made
}

/// The owner strings of a process that is gone, and of one on another machine.
fn owners() -> (String, String) {
    let me = Owner::current().to_string();
    let parts: Vec<&str> = me.split('/').collect();
    let dead = [parts[0], parts[1], parts[2], parts[3], "2147483647", "1"].join("/");
    let foreign = ["elsewhere", parts[1], parts[2], parts[3], "1", "1"].join("/");
    (dead, foreign)
}

#[tokio::test]
async fn only_containers_of_dead_owners_are_removed() {
    if !docker("only_containers_of_dead_owners_are_removed") {
        return;
    }
    let me = Owner::current().to_string();
    let (dead, foreign) = owners();
    for transport in [Transport::Api, Transport::Cli] {
        let id = format!("left-{}-{transport:?}", std::process::id());
        let name = |kind: &str| format!("mswea-{id}-{kind}");
        let run = |kind: &str| format!("{id}-{kind}");
        let mut records = Vec::new();
        for (kind, owner) in [("dead", &dead), ("mine", &me), ("foreign", &foreign)] {
            records.push(leave(&name(kind), &run(kind), owner));
        }
        // Only the labels show that it is this program's.
        make(&name("bare"), &run("bare"), &dead, "none", BASH);
        // Only the named one, and only reported.
        let wanted = run("foreign");
        let said = remove_leftovers("docker", transport, Some(&wanted), true)
            .await
            .unwrap();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(
            (said[0].name.as_str(), &said[0].fate),
            (name("foreign").as_str(), &Fate::Found)
        );
        assert!(is_there(&name("foreign")));

        let done = remove_leftovers("docker", transport, None, false)
            .await
            .unwrap();
        let of = |kind: &str| done.iter().find(|left| left.name == name(kind));
        assert!(!is_there(&name("dead")), "{done:?}");
        // Another test's start may have removed it first.
        assert!(
            of("dead").is_none_or(|left| left.fate == Fate::Removed && left.run_id == run("dead"))
        );
        for kind in ["mine", "foreign", "bare"] {
            assert!(is_there(&name(kind)), "{kind}");
            assert!(matches!(of(kind).unwrap().fate, Fate::Left(_)));
        }
        // A living run keeps its container even if it is named.
        let mine = remove_leftovers("docker", transport, Some(&run("mine")), false)
            .await
            .unwrap();
        assert!(
            matches!(&mine[0].fate, Fate::Left(why) if why.contains("is using it")),
            "{mine:?}"
        );
        let named = remove_leftovers("docker", transport, Some(&wanted), false)
            .await
            .unwrap();
        assert!(named[0].fate == Fate::Removed && !is_there(&name("foreign")));
        client(&["rm", "-f", &name("mine"), &name("bare")]);
        records[1].forget();
        // Removed containers have no record any more.
        assert!(!all().iter().any(|record| record.entry.run.starts_with(&id)));
    }
    let error = remove_leftovers("no-such-engine", Transport::Auto, None, false).await;
    assert!(error.unwrap_err().to_string().contains("no-such-engine"));
}

#[tokio::test]
async fn containers_of_a_committed_image_stay() {
    if !docker("containers_of_a_committed_image_stay") {
        return;
    }
    let (dead, _) = owners();
    let run = format!("commit-{}", std::process::id());
    let (ours, theirs) = (format!("mswea-{run}"), format!("copy-{run}"));
    let image = format!("mswea-test-container/{run}");
    leave(&ours, &run, &dead);
    client(&["commit", &ours, &image]);
    client(&["run", "-d", "--name", &theirs, &image]);
    assert!(is_there(&theirs));
    for only in [None, Some(run.as_str())] {
        let done = remove_leftovers("docker", Transport::Api, only, false)
            .await
            .unwrap();
        assert!(!is_there(&ours), "{done:?}");
        let left = done.iter().find(|left| left.name == theirs).unwrap();
        assert!(
            matches!(&left.fate, Fate::Left(why) if why.contains("docker commit")),
            "{left:?}"
        );
        assert!(is_there(&theirs));
    }
    // Also under the name that this test's container had.
    client(&["rename", &theirs, &ours]);
    let done = remove_leftovers("docker", Transport::Api, Some(&run), false).await;
    assert!(is_there(&ours), "{done:?}");
    client(&["rm", "-f", &ours]);
    client(&["rmi", &image]);
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
