//! Outputs with too many lines: each is written into a file in the environment. The model sees the
//! file's first window, or a note with the file's path, to which a history processor adds a
//! summary.

use serde_json::json;

use crate::place::{LongOutputs, ToolsPlace, quoted};
use mswea_core::{Command, Executor, ExecutorError, Output, Stop};
use mswea_executor::TempFolder;

/// Commands that show a window or a short list themselves.
const WINDOWS: &[&str] = &[
    "create",
    "open",
    "edit",
    "scroll_up",
    "scroll_down",
    "goto",
    "search_file",
    "search_dir",
];

/// Commands whose outputs can't be summarised usefully.
const DUMPS: &[&str] = &["xxd", "hexdump", "strings"];

/// The longest output that is summarised, in characters.
const LONGEST: usize = 200_000;

/// The number of characters of the command in the name of the file.
const NAMED: usize = 50;

/// The key of an output with the data for the summary.
const KEY: &str = "long_output";

impl LongOutputs {
    /// Whether an output is too long.
    fn is_for(self, action: &str, output: &Output) -> bool {
        let shows_itself = WINDOWS.iter().any(|name| action.starts_with(name));
        !shows_itself
            && output.exception_info.is_empty()
            && output.output.lines().count() > self.lines
    }

    /// Writes the output of a command into a file, if it is too long.
    pub(crate) async fn shorten(
        self,
        action: &str,
        output: &mut Output,
        inner: &mut dyn Executor,
        place: &ToolsPlace,
        stop: &Stop,
    ) {
        if !self.is_for(action, output) || stop.is_stopped() {
            return;
        }
        let file = place.output_file(&named(action));
        if let Err(error) = write(&output.output, &file, inner, place).await {
            tracing::warn!("a long output is shown whole: {error}");
            return;
        }
        let lines = output.output.lines().count();
        let is_dump = DUMPS.iter().any(|name| action.starts_with(name));
        if self.is_summarised && !is_dump && output.output.chars().count() <= LONGEST {
            let note = format!(
                "The output has {lines} lines, more than are shown. It is in the file {file}, which `open {file}` shows."
            );
            let text = std::mem::replace(&mut output.output, note.clone());
            let long = json!({"command": action, "file": file, "note": note, "text": text});
            output.extra.insert(KEY.to_owned(), long);
            return;
        }
        let opening = format!("open {}", quoted(&file));
        let opened = inner.execute(&Command::new(&opening), stop).await;
        output.output = format!(
            "The output has {lines} lines, more than are shown. It is in the file {file}, which is now open:\n\n{}",
            opened.output
        );
    }
}

async fn write(
    text: &str,
    file: &str,
    inner: &mut dyn Executor,
    place: &ToolsPlace,
) -> Result<(), ExecutorError> {
    let folder = TempFolder::new(&place.run_id, "output")?;
    let path = folder.path().join("output");
    let text = text.to_owned();
    let written = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || std::fs::write(path, text))
    };
    let written = written.await.unwrap_or_else(|lost| Err(lost.into()));
    written.map_err(|error| ExecutorError {
        message: format!("`{}` can't be written: {error}", path.display()),
    })?;
    inner.upload(&path, file).await?;
    folder.remove().await;
    Ok(())
}

/// The file name for a command.
fn named(action: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
    action.chars().map(plain).take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_outputs_are_long() {
        let rule = LongOutputs {
            lines: 3,
            is_summarised: false,
        };
        let of = |text: &str| Output {
            output: text.to_owned(),
            ..Output::default()
        };
        for (action, text, expected) in [
            ("cat a", "1\n2\n3\n", false),
            ("cat a", "1\n2\n3\n4", true),
            ("cat a", "\n\n\n\n", true),
            ("open a", "1\n2\n3\n4\n", false),
            ("search_dir x", "1\n2\n3\n4\n", false),
            ("find_file x", "1\n2\n3\n4\n", true),
        ] {
            assert_eq!(
                rule.is_for(action, &of(text)),
                expected,
                "{action} {text:?}"
            );
        }
        let mut timed_out = of("1\n2\n3\n4\n");
        timed_out.exception_info = "x".to_owned();
        assert!(!rule.is_for("cat a", &timed_out));
    }

    #[test]
    fn files_are_named_by_their_commands() {
        for (action, expected) in [
            ("objdump -d ./a | less", "objdump__d___a___less"),
            ("echo \u{e9}", "echo_\u{e9}"),
            ("../..", "_____"),
        ] {
            assert_eq!(named(action), expected);
        }
        assert_eq!(named(&"x".repeat(99)).len(), NAMED);
    }
}
