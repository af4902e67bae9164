//! `setup`: asks for a key and a model at a terminal, tries them, and keeps them where every run reads them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::terminal::Terminal;

fn server(turns: Vec<Turn>) -> Server {
    Server::start(Scenario::new(turns))
}

fn file(root: &std::path::Path) -> std::path::PathBuf {
    root.join("home/.config/mini-swe-agent/.env")
}

#[test]
fn what_is_given_is_tried_and_kept() {
    let server = server(vec![
        Turn::text("Hello there"),
        Turn::error(401, "invalid_api_key", "wrong key"),
    ]);
    let host = || Host::new().env("OPENAI_BASE_URL", server.url());
    let Some(terminal) = Terminal::start(host().arg("setup"), 100, 30) else {
        return;
    };
    terminal.until("provider [1]:");
    terminal.line("nowhere");
    terminal.until("there is no provider `nowhere` with a key");
    terminal.line("2");
    terminal.until("key, for `OPENAI_API_KEY` (it is not shown):");
    terminal.line("sk-of-the-'user");
    terminal.until("model [openai/gpt-5]:");
    terminal.line("gpt-5-mini");
    let screen = terminal.ends(0);
    assert!(screen.contains("`openai/gpt-5-mini` answers"), "{screen}");
    assert!(screen.contains("Hello there"), "{screen}");
    assert!(!screen.contains("sk-of"), "{screen}");
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let root = terminal.root();
    let text = fs::read_to_string(file(root.path())).unwrap();
    assert_eq!(
        text,
        "MSWEA_MODEL_NAME='openai/gpt-5-mini'\nOPENAI_API_KEY='sk-of-the-\\'user'\n"
    );
    let mode = fs::metadata(file(root.path()))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    // A key that is refused is kept only if the user wants it.
    let terminal = Terminal::start(host().arg("setup"), 100, 30).unwrap();
    terminal.until("provider [1]:");
    terminal.line("openai");
    terminal.until("key, for");
    terminal.line("wrong");
    terminal.until("model [");
    terminal.line("");
    terminal.until("keep it all the same?");
    terminal.line("");
    let screen = terminal.ends(1);
    assert!(screen.contains("nothing was changed"), "{screen}");
    assert!(!file(terminal.root().path()).exists());

    // Ctrl-C while the key is typed changes nothing, and the terminal shows what is typed again.
    let terminal = Terminal::start(host().arg("setup"), 100, 30).unwrap();
    terminal.until("provider [1]:");
    terminal.line("openai");
    terminal.until("key, for");
    terminal.keys(&["hidden", "C-c"]);
    let screen = terminal.ends(130);
    assert!(!screen.contains("hidden"), "{screen}");
    terminal.line("echo shown");
    terminal.until("shown");
}

#[test]
fn without_a_terminal_nothing_is_asked() {
    let run = Host::new().arg("setup").run().expect(2);
    run.says(&["asks at a terminal", "MSWEA_MODEL_NAME", "mode 0600"]);
    let run = Host::new()
        .args(["setup", "--try", "openai/gpt-5"])
        .run()
        .expect(5);
    run.says(&["no key for `openai/gpt-5`", "OPENAI_API_KEY"]);
}
