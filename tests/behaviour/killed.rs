//! A host that is killed at random moments leaves no processes, containers or folders behind and loses
//! no event.

use std::path::Path;

use crate::kills;
use crate::needs::Need;

#[test]
fn a_host_is_killed_at_random_moments() {
    let mut classes = vec!["local", "session", "remote"];
    for (need, class) in [
        (Need::Docker, "docker"),
        (Need::Bubblewrap, "bubblewrap"),
        (Need::Landlock, "landlock"),
    ] {
        if need.is_met() {
            classes.push(class);
        }
    }
    let rounds = std::env::var("MSWEA_KILLS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(32);
    let program = Path::new(env!("CARGO_BIN_EXE_mswea-host"));
    let report = kills::soak(program, rounds, &classes, &|_| {});
    assert_eq!(report.faults, Vec::<String>::new());
    assert!(report.early < report.rounds, "{report:?}");
    assert!(report.replies > 0, "{report:?}");
}
