//! A container is found again by a later process of its run.

use super::*;
use crate::leftovers::Fate;

#[tokio::test]
async fn a_container_that_runs_is_used_again() {
    if !docker("a_container_that_runs_is_used_again") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        let settings = ContainerSettings {
            keep: true,
            transport,
            run_id: format!("again-{}", crate::local::fresh_id()),
            ..settings()
        };
        let (context, shown) = context_with(Stop::never());
        let mut first = ContainerExecutor::new(settings.clone());
        let ready = first.start(&context, None).await.unwrap();
        assert_eq!(ready.replaced, None);
        let stop = Stop::never();
        first.execute(&Command::new("echo x >/kept"), &stop).await;
        let name = first.container_name().unwrap().to_owned();
        first.cleanup().await;
        assert!(is_there(&name));

        let mut later = ContainerExecutor::new(ContainerSettings {
            keep: false,
            ..settings.clone()
        });
        let again = later.start(&context, Some(&ready.handle)).await.unwrap();
        assert_eq!(again, ready, "{:?}", shown.all());
        let output = later.execute(&Command::new("cat /kept"), &stop).await;
        assert_eq!(output.output, "x\n");
        // The container belongs to the later process, which removes it at its end. No other one
        // does.
        let swept = crate::container::remove_leftovers("docker", transport, None, false).await;
        let swept = swept.unwrap();
        assert!(
            swept
                .iter()
                .any(|it| it.name == name && matches!(it.fate, Fate::Left(_)))
        );
        later.cleanup().await;
        assert!(!is_there(&name));

        let mut third = ContainerExecutor::new(ContainerSettings {
            keep: false,
            ..settings
        });
        let made = third.start(&context, Some(&ready.handle)).await.unwrap();
        let why = made.replaced.unwrap();
        assert!(why.contains(&name) && why.contains("was removed"), "{why}");
        let output = third.execute(&Command::new("cat /kept"), &stop).await;
        assert_ne!(output.returncode, 0);
        // A container with the recorded id and another key is not used.
        let mut other = made.handle.clone();
        other["key"] = "0".into();
        let mut fourth = ContainerExecutor::new(settings_of(transport));
        let made = fourth.start(&context, Some(&other)).await.unwrap();
        assert!(made.replaced.is_some());
        fourth.cleanup().await;
        third.cleanup().await;
    }
}

fn settings_of(transport: Transport) -> ContainerSettings {
    ContainerSettings {
        transport,
        ..settings()
    }
}
