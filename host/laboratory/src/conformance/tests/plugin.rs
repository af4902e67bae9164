//! Faults in a plugin's descriptor, and in how it handles its config.

use super::*;

#[tokio::test]
async fn what_a_plugin_says_of_itself() {
    let plugin = |what, laws, plant| found(None, PARSER, what, laws, plant);
    type Plant = fn(&mut Fake);
    let table: [(&str, &[Law], Plant); 14] = [
        (
            "a descriptor that knows the config",
            &[Law::Deterministic],
            |fake| {
                let describe = fake.describe.clone();
                fake.describe = Arc::new(move |config| {
                    let mut descriptor = describe(config);
                    descriptor["summary"] = json!(config.is_some());
                    descriptor
                });
            },
        ),
        ("a descriptor that counts", &[Law::Deterministic], |fake| {
            let (describe, count) = (fake.describe.clone(), AtomicUsize::new(0));
            fake.describe = Arc::new(move |config| {
                let mut descriptor = describe(config);
                descriptor["extra"] = json!({"n": count.fetch_add(1, Ordering::Relaxed)});
                descriptor
            });
        }),
        ("a name with a blank", &[Law::Schema], |fake| {
            named(fake, "name", json!("my parser"));
        }),
        ("no version", &[Law::Schema], |fake| {
            named(fake, "version", json!(""));
        }),
        ("a parser with secrets", &[Law::Schema], |fake| {
            named(fake, "secrets", json!(["KEY"]));
        }),
        ("hosts that are URLs", &[Law::Schema], |fake| {
            named(fake, "hosts", json!(["https://a/"]));
        }),
        ("a schema that is none", &[Law::Schema], |fake| {
            fake.identity.config_schema = json!({"type": "tabel"});
        }),
        ("a schema of texts", &[Law::Schema], |fake| {
            fake.identity.config_schema = json!({"type": "string"});
        }),
        ("a valid word that is refused", &[Law::Schema], |fake| {
            configure(fake, |config| match config["mode"].as_str() {
                Some("loud") => Err(refused("/mode", "`mode` is not known")),
                _ => Ok(()),
            });
        }),
        (
            "a config that is refused though it was given",
            &[Law::Schema],
            |fake| {
                configure(fake, |_| Err(refused("/other", "`other` is missing")));
            },
        ),
        (
            "a broken expression that is taken",
            &[Law::Schema],
            |fake| configure(fake, |_| Ok(())),
        ),
        ("a refusal that names nothing", &[Law::Schema], |fake| {
            configure(fake, |config| match config["find"].as_str() {
                Some("([") => Err(refused("", "bad config")),
                _ => Ok(()),
            });
        }),
        ("a trap in place of a refusal", &[Law::Schema], |fake| {
            configure(fake, |config| match config["find"].as_str() {
                Some("([") => Err(Refused::Failed("it trapped: unreachable".into())),
                _ => Ok(()),
            });
        }),
        ("a trap on an odd text", &[Law::Total], |fake| {
            let check = fake.configure.clone();
            fake.configure = Arc::new(move |config| match config["find"].as_str() {
                Some(text) if text.contains('\u{301}') => {
                    Err(Refused::Failed("char boundary".into()))
                }
                _ => check(config),
            });
        }),
    ];
    for (what, laws, plant) in table {
        plugin(what, laws, plant).await;
    }
}

fn named(fake: &mut Fake, key: &'static str, value: Value) {
    let describe = fake.describe.clone();
    if let Some(text) = value.as_str() {
        match key {
            "name" => fake.identity.name = text.to_owned(),
            _ => fake.identity.version = text.to_owned(),
        }
    }
    fake.describe = Arc::new(move |config| {
        let mut descriptor = describe(config);
        descriptor[key] = value.clone();
        descriptor
    });
}

fn configure(fake: &mut Fake, check: fn(&Value) -> Result<(), Refused>) {
    // The default of `find` is an expression; this test is about others.
    fake.configure = Arc::new(check);
}
