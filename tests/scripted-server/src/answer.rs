//! Turns a turn and a request into an answer: status, headers, body, and how it ends.

use serde_json::{Value, json};

use crate::fault::Fault;
use crate::request::Asked;
use crate::turn::Turn;
use crate::wire::{self, Reply};

/// What the server does with a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Closes the connection.
    HangUp,
    /// Does nothing until the client closes.
    Silence,
    /// Sends a response.
    Response(Response),
}

/// A response, before it is put on the wire.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Ends of the stream's events in `body`; empty if it is no stream.
    pub(crate) events: Vec<usize>,
    pub(crate) end: End,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The whole body is sent.
    Whole,
    /// After this many bytes of the body, the connection is closed.
    Cut(usize),
    /// After this many bytes of the body, nothing more is sent.
    Stall(usize),
    /// The body is sent again and again.
    Endless,
}

impl Response {
    /// JSON with a status.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::plain(status, "application/json", body.to_string())
    }

    fn plain(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.into(),
            events: Vec::new(),
            end: End::Whole,
        }
    }

    fn stream(status: u16, events: &[String]) -> Self {
        let mut out = Self::plain(status, "text/event-stream", Vec::new());
        for event in events {
            out.body.extend_from_slice(event.as_bytes());
            out.events.push(out.body.len());
        }
        out
    }

    fn header(&mut self, name: &str, value: String) {
        match self
            .headers
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            Some(entry) => entry.1 = value,
            None => self.headers.push((name.to_owned(), value)),
        }
    }
}

/// The answer to a request for a reply.
pub(crate) fn answer(turn: &Turn, asked: &Asked) -> Answer {
    match turn.fault {
        Some(Fault::HangUp) => return Answer::HangUp,
        Some(Fault::Silence) => return Answer::Silence,
        _ => {}
    }
    let mut response = content(turn, asked);
    for (name, value) in &turn.headers {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        response.header(name, value);
    }
    damage(&mut response, turn);
    Answer::Response(response)
}

/// The answer to a request after the last turn.
pub(crate) fn exhausted() -> Answer {
    Answer::Response(Response::json(
        500,
        &json!({"error": {
            "message": "scenario exhausted", "type": "server_error", "param": null,
            "code": "scenario_exhausted",
        }}),
    ))
}

/// The response to a turn, before [`damage`].
fn content(turn: &Turn, asked: &Asked) -> Response {
    let status = turn.status.unwrap_or(200);
    let reply = Reply::new(turn, asked);
    let of_choices = |choices: Option<Value>| {
        if asked.stream {
            Response::stream(status, &reply.lone_event(choices))
        } else {
            Response::json(status, &reply.completion(choices))
        }
    };
    match turn.fault {
        Some(Fault::Html) => return Response::plain(status, "text/html", wire::PAGE),
        Some(Fault::EmptyBody) => return Response::plain(status, "application/json", ""),
        Some(Fault::NoChoices) => return of_choices(None),
        Some(Fault::EmptyChoices) => return of_choices(Some(json!([]))),
        Some(Fault::InvalidJson) => {
            let text = "{\"choices\": [}";
            return if asked.stream {
                let events = [format!("data: {text}\n\n"), "data: [DONE]\n\n".to_owned()];
                Response::stream(status, &events)
            } else {
                Response::plain(status, "application/json", text)
            };
        }
        Some(Fault::ErrorInBody) => return Response::json(status, &reply.error(500)),
        Some(Fault::ErrorInStream) if !asked.stream => {
            return Response::json(status, &reply.error(500));
        }
        Some(Fault::ErrorInStream) => {
            let mut events = reply.events();
            events.truncate(turn.at.unwrap_or(events.len() / 2));
            events.push(reply.foreign_event(&reply.error(500)));
            return Response::stream(status, &events);
        }
        Some(Fault::Endless) => {
            let text = "on and on ".repeat(400);
            return if asked.stream {
                Response::stream(status, &[reply.delta_event(&text)])
            } else {
                Response::plain(status, "application/json", text)
            };
        }
        _ => {}
    }
    if let Some(url) = &turn.redirect {
        let mut response = Response::plain(turn.status.unwrap_or(302), "text/plain", "moved\n");
        response.header("location", url.clone());
        return response;
    }
    match &turn.body {
        Some(Value::String(text)) => return Response::plain(status, "text/plain", text.clone()),
        Some(body) => return Response::json(status, body),
        None => {}
    }
    if turn.error.is_some() || status >= 300 {
        Response::json(status, &reply.error(status))
    } else if asked.stream {
        Response::stream(status, &reply.events())
    } else {
        Response::json(status, &reply.whole())
    }
}

/// Applies the faults that change a finished response.
fn damage(response: &mut Response, turn: &Turn) {
    let length = response.body.len();
    let place = turn.at.unwrap_or(length / 2).min(length);
    match turn.fault {
        Some(Fault::Cut) => response.end = End::Cut(place),
        Some(Fault::Stall) => response.end = End::Stall(place),
        Some(Fault::Endless) => response.end = End::Endless,
        Some(Fault::HugeHeaders) => {
            response.header("x-padding", "p".repeat(turn.at.unwrap_or(1 << 20)));
        }
        Some(Fault::NoDone) if response.events.is_empty() => response.body.truncate(place),
        Some(Fault::NoDone) => {
            // The last two events, the finish reason and `[DONE]`, are always left out.
            let count = turn.at.unwrap_or(response.events.len() / 2);
            let most = response.events.len().saturating_sub(2);
            response.events.truncate(count.min(most));
            response
                .body
                .truncate(response.events.last().copied().unwrap_or(0));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(turn: &Turn, stream: bool) -> Response {
        assert_eq!(turn.problem(), None);
        let asked = Asked {
            stream,
            ..Asked::default()
        };
        match answer(turn, &asked) {
            Answer::Response(response) => response,
            other => panic!("no response: {other:?}"),
        }
    }

    fn seen(turn: &Turn, stream: bool) -> (u16, String, String) {
        let response = response(turn, stream);
        (
            response.status,
            response.headers[0].1.clone(),
            String::from_utf8(response.body).unwrap(),
        )
    }

    #[test]
    fn content_follows_the_turn() {
        let json = "application/json";
        let events = "text/event-stream";
        let vectors: Vec<(Turn, bool, u16, &str, &str)> = vec![
            (
                Turn::text("hello"),
                false,
                200,
                json,
                r#""content":"hello""#,
            ),
            (
                Turn::text("hello"),
                true,
                200,
                events,
                r#""content":"hello""#,
            ),
            (Turn::status(503), true, 503, json, "overloaded"),
            (
                Turn::status(418).with_body("teapot"),
                false,
                418,
                "text/plain",
                "teapot",
            ),
            (
                Turn::status(500).with_body(json!({"a": 1})),
                false,
                500,
                json,
                r#"{"a":1}"#,
            ),
            (
                Turn::fault(Fault::Html).with_status(502),
                true,
                502,
                "text/html",
                "<html>",
            ),
            (Turn::fault(Fault::InvalidJson), false, 200, json, "[}"),
            (
                Turn::fault(Fault::InvalidJson),
                true,
                200,
                events,
                "data: {\"choices\": [}\n\n",
            ),
            (
                Turn::fault(Fault::EmptyChoices),
                false,
                200,
                json,
                r#""choices":[]"#,
            ),
            (
                Turn::fault(Fault::EmptyChoices),
                true,
                200,
                events,
                r#""choices":[]"#,
            ),
            (
                Turn::fault(Fault::ErrorInBody),
                true,
                200,
                json,
                r#"{"error":"#,
            ),
            (
                Turn::fault(Fault::ErrorInStream),
                true,
                200,
                events,
                "data: {\"error\":",
            ),
            (
                Turn::fault(Fault::ErrorInStream),
                false,
                200,
                json,
                r#"{"error":"#,
            ),
            (
                Turn::text("x").with_header("Content-Type", "text/csv"),
                false,
                200,
                "text/csv",
                "x",
            ),
            (
                Turn::redirect("http://x/"),
                false,
                302,
                "text/plain",
                "moved",
            ),
        ];
        for (turn, stream, status, content_type, part) in vectors {
            let (got_status, got_type, body) = seen(&turn, stream);
            assert_eq!(
                (got_status, got_type.as_str()),
                (status, content_type),
                "{turn:?}"
            );
            assert!(body.contains(part), "{turn:?}: {body}");
        }
        assert_eq!(seen(&Turn::fault(Fault::EmptyBody), false).2, "");
        for stream in [false, true] {
            assert!(
                !seen(&Turn::fault(Fault::NoChoices), stream)
                    .2
                    .contains("choices")
            );
        }
    }

    #[test]
    fn damage_is_done_where_asked() {
        let whole = response(&Turn::text("hello"), false).body.len();
        let cut = |turn: Turn| response(&turn.with_text("hello"), false).end;
        assert_eq!(cut(Turn::fault(Fault::Cut)), End::Cut(whole / 2));
        assert_eq!(cut(Turn::fault(Fault::Cut).at(5)), End::Cut(5));
        assert_eq!(
            cut(Turn::fault(Fault::Stall).at(1 << 30)),
            End::Stall(whole)
        );
        let early = response(&Turn::fault(Fault::NoDone).at(7), false);
        assert_eq!((early.body.len(), early.end), (7, End::Whole));
    }

    #[test]
    fn streams_without_an_end_have_no_finish_reason() {
        for at in [None, Some(0), Some(1), Some(100)] {
            let turn = Turn {
                at,
                ..Turn::fault(Fault::NoDone).with_text("hello")
            };
            let (_, _, body) = seen(&turn, true);
            assert!(
                !body.contains("[DONE]") && !body.contains("\"stop\""),
                "{at:?}: {body}"
            );
            assert!(body.is_empty() || body.ends_with("\n\n"));
        }
    }
}
