//! The files of the page, which are embedded in the program.

use hyper::StatusCode;

use crate::answers::{PageAnswer, answer};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../page/page.html")),
    ("/style.css", STYLE, include_str!("../page/style.css")),
    ("/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/tools.js", SCRIPT, include_str!("../page/tools.js")),
    ("/list.js", SCRIPT, include_str!("../page/list.js")),
    ("/run.js", SCRIPT, include_str!("../page/run.js")),
    ("/chart.js", SCRIPT, include_str!("../page/chart.js")),
    ("/diff.js", SCRIPT, include_str!("../page/diff.js")),
    ("/notes.js", SCRIPT, include_str!("../page/notes.js")),
    ("/search.js", SCRIPT, include_str!("../page/search.js")),
    ("/compare.js", SCRIPT, include_str!("../page/compare.js")),
    ("/batch.js", SCRIPT, include_str!("../page/batch.js")),
    ("/step.js", SCRIPT, include_str!("../page/step.js")),
];

/// The file of the page at this path.
pub(crate) fn file(path: &str) -> Option<PageAnswer> {
    let (_, kind, text) = FILES.iter().find(|(name, _, _)| *name == path)?;
    Some(answer(StatusCode::OK, kind, *text))
}
