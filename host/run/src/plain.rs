//! The built-in formatter, which the loop uses if the configured one fails. It has no templates, so
//! it can't fail itself.

use std::fmt::Write as _;

use mswea_core::{Action, Message, Output};

/// One message per output, shortened to head and tail.
pub fn format(actions: &[Action], outputs: &[Output]) -> Vec<Message> {
    actions
        .iter()
        .zip(outputs)
        .map(|(action, output)| {
            let mut text = String::new();
            if !output.exception_info.is_empty() {
                let _ = writeln!(text, "<exception>{}</exception>", output.exception_info);
            }
            let _ = writeln!(text, "<returncode>{}</returncode>", output.returncode);
            let _ = write!(text, "<output>\n{}</output>", shorten(&output.output));
            let mut message = Message::new("user", text);
            if let Some(id) = &action.tool_call_id {
                message.role = "tool".into();
                message.tool_call_id = Some(id.clone());
            }
            message
        })
        .collect()
}

fn shorten(text: &str) -> String {
    const HALF: usize = 5000;
    let length = text.chars().count();
    if length <= 2 * HALF {
        return text.to_owned();
    }
    let head: String = text.chars().take(HALF).collect();
    let tail: String = text.chars().skip(length - HALF).collect();
    format!("{head}\n[{} characters elided]\n{tail}", length - 2 * HALF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_every_tool_call_and_shortens() {
        let action = Action {
            tool_call_id: Some("1".into()),
            ..Action::default()
        };
        let output = Output {
            output: "é".repeat(10_010),
            ..Output::default()
        };
        let messages = format(&[action], &[output]);
        assert_eq!(messages[0].role, "tool");
        assert_eq!(messages[0].tool_call_id.as_deref(), Some("1"));
        assert!(messages[0].text().contains("[10 characters elided]"));
    }
}
