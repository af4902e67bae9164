//! Pulls from a real registry on this machine: Debian's `docker-registry`.

use std::process::{Child, Stdio};
use std::sync::Mutex;

use super::*;

/// A registry on the loopback device; its images are removed with it.
struct Registry {
    process: Child,
    folder: tempfile::TempDir,
    host: String,
}

const USER: &str = "tester";
const PASSWORD: &str = "pass:word";

impl Registry {
    /// A registry; none if the program is not installed.
    fn start(test: &str, guarded: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: '{}'}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
            at("data")
        );
        if guarded {
            let made = Command::new("htpasswd")
                .args(["-Bbn", USER, PASSWORD])
                .output();
            let Ok(made) = made else {
                missing("htpasswd", "it is in apache2-utils", test);
                return None;
            };
            std::fs::write(folder.path().join("users"), made.stdout).unwrap();
            config.push_str(&format!(
                "auth: {{htpasswd: {{realm: test, path: '{}'}}}}\n",
                at("users")
            ));
        }
        std::fs::write(folder.path().join("config.yml"), config).unwrap();
        let process = Command::new("docker-registry")
            .args(["serve", &at("config.yml")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            missing("docker-registry", "it is not installed", test);
            return None;
        };
        let host = format!("localhost:{port}");
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < LIMIT, "the registry does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            process,
            folder,
            host,
        })
    }

    /// Puts an image of a few megabytes there, and nowhere else.
    fn fill(&self, config: &Path) -> String {
        let image = format!("{}/mswea/image:1", self.host);
        let docker = |args: &[&str]| {
            let run = Command::new("docker")
                .arg("--config")
                .arg(config)
                .args(args)
                .output()
                .unwrap();
            assert!(run.status.success(), "{run:?}");
        };
        docker(&["tag", IMAGE, &image]);
        docker(&["push", &image]);
        docker(&["rmi", &image]);
        image
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn forget(image: &str) {
    let _ = Command::new("docker").args(["rmi", image]).output();
}

async fn docker_engines(test: &str) -> Vec<(&'static str, Arc<dyn Engine>)> {
    let mut engines = engines(test).await;
    engines.retain(|(name, _)| name.starts_with("docker"));
    engines
}

#[tokio::test]
async fn images_are_pulled_with_progress() {
    let engines = docker_engines("images_are_pulled_with_progress").await;
    if engines.is_empty() {
        return;
    }
    let Some(registry) = Registry::start("images_are_pulled_with_progress", false) else {
        return;
    };
    let image = registry.fill(registry.folder.path());
    for (name, engine) in engines {
        assert_eq!(engine.image(&image).await.unwrap(), None, "{name}");
        let told = Mutex::new(Vec::new());
        let tell = |text: &str| told.lock().unwrap().push(text.to_owned());
        engine.pull(&image, None, &tell).await.unwrap();
        let told = told.into_inner().unwrap();
        assert!(
            told.iter().all(|told| told.contains("layers")),
            "{name}: {told:?}"
        );
        let found = engine.image(&image).await.unwrap().unwrap();
        assert_eq!(found.os, "linux", "{name}");
        forget(&image);
        for (bad, platform) in [
            ("mswea/image:2", None),
            ("mswea/none", None),
            ("mswea/image:1", Some("linux/s390x")),
        ] {
            let bad = format!("{}/{bad}", registry.host);
            match engine.pull(&bad, platform, &|_| {}).await {
                Ok(()) => {
                    // Docker takes the existing image if it has only one platform.
                    assert!(platform.is_some(), "{name}: {bad}");
                    forget(&bad);
                }
                Err(error) => {
                    let _ = writeln!(std::io::stderr(), "{name}: {error}");
                    assert_eq!(error.kind, EngineErrorKind::NoImage, "{name}: {error}");
                    assert!(error.message.contains(&bad), "{name}: {error}");
                }
            }
        }
    }
    let host = registry.host.clone();
    drop(registry);
    for (name, engine) in docker_engines("images_are_pulled_with_progress").await {
        let image = format!("{host}/mswea/image:1");
        let error = engine.pull(&image, None, &|_| {}).await.unwrap_err();
        assert!(
            error.message.contains("does not reach the registry"),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn registries_ask_for_credentials() {
    if let Ok(folder) = std::env::var("MSWEA_TEST_DOCKER_CONFIG") {
        return with_password(Path::new(&folder)).await;
    }
    let engines = docker_engines("registries_ask_for_credentials").await;
    if engines.is_empty() {
        return;
    }
    let Some(registry) = Registry::start("registries_ask_for_credentials", true) else {
        return;
    };
    let config = registry.folder.path().join("client");
    let login = Command::new("docker")
        .arg("--config")
        .arg(&config)
        .args(["login", "-u", USER, "-p", PASSWORD, &registry.host])
        .output()
        .unwrap();
    assert!(login.status.success(), "{login:?}");
    let image = registry.fill(&config);
    for (name, engine) in engines {
        let error = engine.pull(&image, None, &|_| {}).await.unwrap_err();
        let _ = writeln!(std::io::stderr(), "{name}: {error}");
        assert_eq!(error.kind, EngineErrorKind::Denied, "{name}: {error}");
        assert!(error.message.contains("login"), "{name}: {error}");
    }
    std::fs::write(config.join("image"), &image).unwrap();
    // In a process of its own, whose environment names the configuration.
    let test = std::thread::current().name().unwrap().to_owned();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env("MSWEA_TEST_DOCKER_CONFIG", &config)
        .env("DOCKER_CONFIG", &config)
        .output()
        .unwrap();
    assert!(again.status.success(), "{again:?}");
    assert!(
        String::from_utf8_lossy(&again.stdout).contains("1 passed"),
        "{again:?}"
    );
}

async fn with_password(config: &Path) {
    let image = std::fs::read_to_string(config.join("image")).unwrap();
    for (name, engine) in docker_engines("registries_ask_for_credentials").await {
        assert_eq!(engine.image(&image).await.unwrap(), None, "{name}");
        engine.pull(&image, None, &|_| {}).await.unwrap();
        assert!(engine.image(&image).await.unwrap().is_some(), "{name}");
        forget(&image);
    }
}
