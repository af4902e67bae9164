//! The pages of this repository: their links are valid, and their statements about config keys
//! agree with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page that git tracks, with its text.
fn pages() -> BTreeMap<String, String> {
    let listed = Command::new("git")
        // git refuses a repository of another user unless it is named as safe.
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "*.md",
        ])
        .current_dir(root())
        .output()
        .expect("git lists the pages");
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8(listed.stdout).unwrap();
    let names = names.split_terminator('\0');
    // A page that is removed and not committed yet is left out.
    let pages = names.filter_map(|name| {
        let text = fs::read_to_string(root().join(name)).ok()?;
        Some((name.to_owned(), text))
    });
    pages.collect()
}

/// The lines of a page that are not in a fenced block.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// The targets of a line's links: `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(page) {
        let Some(heading) = line.starts_with('#').then(|| line.trim_start_matches('#')) else {
            continue;
        };
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        });
        let anchor: String = kept.collect();
        let mut numbered = anchor.clone();
        for count in 1.. {
            if anchors.insert(numbered.clone()) {
                break;
            }
            numbered = format!("{anchor}-{count}");
        }
    }
    anchors
}

/// `a/b/../c` is `a/c`.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The invalid links in these pages.
fn broken_links(pages: &BTreeMap<String, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, page) in pages {
        for (line, text) in prose(page) {
            for target in targets(text) {
                if ["://", "mailto:", "data:"]
                    .iter()
                    .any(|scheme| target.contains(scheme))
                {
                    continue;
                }
                let (path, anchor) = match target.split_once('#') {
                    Some((path, anchor)) => (path, Some(anchor)),
                    None => (target, None),
                };
                let folder = Path::new(name).parent().unwrap_or(Path::new(""));
                let path = match path {
                    "" => PathBuf::from(name),
                    path => tidy(&folder.join(path)),
                };
                let page = path.to_str().and_then(|path| pages.get(path));
                let is_good = match (page, anchor) {
                    (Some(page), Some(anchor)) => anchors(page).contains(anchor),
                    (Some(_), None) => true,
                    (None, _) => exists(&path),
                };
                if !is_good {
                    broken.push(format!("{name}:{line}: {target}"));
                }
            }
        }
    }
    broken
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.contains_key("README.md"), "{:?}", pages.keys());
    let broken = broken_links(&pages, &|path| root().join(path).exists());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let pages = BTreeMap::from([
        (
            "a.md".to_owned(),
            "# Top `x`\n[b](d/b.md#one-two) [self](#top-x) [u](https://h/x.md)\n```sh\n[c](no.md)\n\
             ```\n[c](no.md) [d](d/b.md#three) [e](src) [f](nosrc) [g](#nothing)\n"
                .to_owned(),
        ),
        ("d/b.md".to_owned(), "## One: two\n[up](../a.md)\n".to_owned()),
    ]);
    let broken = broken_links(&pages, &|path| path == Path::new("src"));
    assert_eq!(
        broken,
        [
            "a.md:6: no.md",
            "a.md:6: d/b.md#three",
            "a.md:6: nosrc",
            "a.md:6: #nothing"
        ]
    );
}

/// The site has every page once, but for those of tests, of templates and of the demo.
#[test]
fn the_site_has_every_page_once() {
    let pages = pages();
    let summary = &pages["docs/SUMMARY.md"];
    let listed = prose(summary).flat_map(|(_, line)| targets(line));
    let mut listed: Vec<String> = listed
        .map(|it| tidy(&Path::new("docs").join(it)).display().to_string())
        .collect();
    listed.sort();
    let is_left_out = |page: &str| {
        page.starts_with("tests/")
            || page.starts_with("examples/demo/")
            || page.contains("/template/")
            || page == "docs/SUMMARY.md"
    };
    let expected: Vec<&String> = pages.keys().filter(|it| !is_left_out(it)).collect();
    assert_eq!(listed.iter().collect::<Vec<_>>(), expected);
}

/// The first page for newcomers stays short.
#[test]
fn the_first_page_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 250, "{}", readme.lines().count());
}

/// The entry of `config schema` for a dotted key.
fn schema_of<'a>(schema: &'a Value, dotted: &str) -> Option<&'a Value> {
    dotted.split('.').try_fold(schema, |schema, name| {
        let own = schema.get("properties").and_then(|own| own.get(name));
        own.or_else(|| {
            schema
                .get("additionalProperties")
                .filter(|any| any.is_object())
        })
    })
}

/// Words between backticks that look like a key: `agent.step_limit`.
fn keys_in(line: &str) -> impl Iterator<Item = &str> {
    const SECTIONS: [&str; 7] = [
        "agent",
        "model",
        "environment",
        "workspace",
        "run",
        "pipeline",
        "providers",
    ];
    line.split('`').skip(1).step_by(2).filter_map(|code| {
        let dotted = code.split([' ', '=']).next()?;
        let (section, rest) = dotted.split_once('.')?;
        let is_key = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '.');
        (SECTIONS.contains(&section) && rest.chars().all(is_key) && !rest.is_empty())
            .then_some(dotted)
    })
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    line.split('|').map(str::trim).collect()
}

#[test]
fn keys_that_the_pages_name_exist_and_have_these_defaults() {
    let output = Command::new(env!("CARGO_BIN_EXE_mswea-host"))
        .args(["config", "schema"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (mut wrong, mut named, mut compared) = (Vec::new(), 0, 0);
    for (name, page) in pages() {
        // Other pages, such as the SDKs', name keys of plugins' configs.
        if name != "README.md" && !name.starts_with("host/") {
            continue;
        }
        // Which columns of a table hold keys and defaults.
        let mut columns = None;
        for (line, text) in prose(&page) {
            for key in keys_in(text) {
                named += 1;
                if schema_of(&schema, key).is_none() {
                    wrong.push(format!("{name}:{line}: there is no key `{key}`"));
                }
            }
            if !text.starts_with('|') {
                columns = None;
                continue;
            }
            let cells = cells(text);
            let column = |word: &str| cells.iter().position(|cell| *cell == word);
            if let (Some(key), Some(default)) = (column("key"), column("default")) {
                columns = Some((key, default));
                continue;
            }
            let Some((key, default)) = columns else {
                continue;
            };
            let Some(key) = cells.get(key).and_then(|cell| keys_in(cell).next()) else {
                continue;
            };
            let said = cells.get(default).copied().unwrap_or_default();
            let said = said.split(':').next().unwrap_or_default();
            let meant = schema_of(&schema, key).and_then(|schema| schema.get("default"));
            let meant = meant.map(Value::to_string).unwrap_or_default();
            compared += 1;
            let said = if said == "unset" { "null" } else { said };
            if said != meant {
                wrong.push(format!(
                    "{name}:{line}: `{key}` is {meant} by default, not {said}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        named > 40 && compared > 8,
        "{named} keys, {compared} defaults"
    );
}
