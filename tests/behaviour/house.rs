//! Rules for the source that the compiler does not check: no circle between sibling modules, no file of
//! more than 800 lines that does not say why, no two types of the same name, and nothing that two cargo commands build twice.
//!
//! The modules of one folder may use each other in one direction only. An item that a parent
//! re-exports counts as used from the module that defines it. A module may use its parent, and a
//! parent its children. Test code is left out.

mod builds;
mod names;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use paths::{TEST_ONLY, Use, is_word, split, uses, without_tests, without_text};

/// The largest number of lines of a file that gives no reason for its length.
const MOST_LINES: usize = 800;

/// How the line of a module's first comment begins that gives the reason.
const REASON: &str = "//! Long because ";

fn root() -> PathBuf {
    let host = Path::new(env!("CARGO_MANIFEST_DIR"));
    host.parent()
        .expect("the host's folder is in the repository")
        .to_owned()
}

/// All Rust files below `folder`, sorted.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !path.is_symlink() {
            if name != "target" && !name.starts_with('.') {
                rust_files(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

fn house_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["host", "plugins", "sdk", "tests", "examples"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 500, "only {} files were found", files.len());
    files
}

#[test]
fn a_file_of_more_than_800_lines_says_why() {
    let root = root();
    let long: Vec<String> = house_files()
        .iter()
        .filter(|file| is_long_without_a_reason(&fs::read_to_string(file).unwrap()))
        .map(|file| file.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    assert!(
        long.is_empty(),
        "over {MOST_LINES} lines without a line `{REASON}...` in the first comment: {long:#?}"
    );
}

fn is_long_without_a_reason(text: &str) -> bool {
    text.lines().count() > MOST_LINES
        && !text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .any(|line| line.starts_with(REASON))
}

#[test]
fn a_long_file_is_found_unless_its_first_comment_gives_the_reason() {
    let lines = "x\n".repeat(MOST_LINES);
    assert!(!is_long_without_a_reason(&lines));
    assert!(is_long_without_a_reason(&format!("//! A table.\n{lines}")));
    let reason = format!("//! A table.\n//!\n{REASON}it is one table.\n");
    assert!(!is_long_without_a_reason(&format!("{reason}{lines}")));
    assert!(is_long_without_a_reason(&format!("{lines}{reason}")));
}

#[test]
fn no_circle_between_modules_of_one_folder() {
    let circles: Vec<String> = crate_roots()
        .iter()
        .flat_map(|crate_root| Crate::read(crate_root).circles())
        .map(|circle| format!("{}\n{}", circle.name, circle.uses.join("\n")))
        .collect();
    assert!(
        circles.is_empty(),
        "modules that use each other in a circle:\n{}",
        circles.join("\n\n")
    );
}

#[test]
fn a_circle_is_found_also_through_a_re_export() {
    let files = [
        (
            "",
            "mod a; mod b; mod c;\npub use b::{Thing, other as Other};",
        ),
        ("a", "use super::{Thing};\n// use super::c::Nothing;"),
        (
            "b",
            "fn f() -> &'static str { crate::a::g('\"'); \"super::c::Nothing\" }",
        ),
        (
            "c",
            "use super::a::{self, b};\n#[cfg(test)]\nmod tests { use crate::b; }",
        ),
    ];
    let mut read = Crate::default();
    for (module, text) in files {
        read.add(split(module), "x.rs", text);
    }
    let circles = read.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].name, "x: a b");
    assert_eq!(
        circles[0].uses,
        [
            "x.rs:1 a uses b: super::Thing",
            "x.rs:1 b uses a: crate::a::g"
        ]
    );
}

fn crate_roots() -> BTreeSet<PathBuf> {
    let roots: BTreeSet<PathBuf> = house_files()
        .into_iter()
        .filter(|file| {
            file.ends_with("src/lib.rs")
                || file.ends_with("src/main.rs")
                || file.ends_with("behaviour/main.rs")
        })
        .filter_map(|file| file.parent().map(Path::to_owned))
        .collect();
    assert!(roots.len() > 10, "only {roots:#?}");
    roots
}

/// A module's path in its crate.
type Module = Vec<String>;

#[derive(Default)]
struct Crate {
    name: String,
    files: BTreeMap<Module, (String, Vec<Use>)>,
    /// Modules that are test code.
    tests: BTreeSet<Module>,
}

/// Modules that use each other in a circle.
struct Circle {
    name: String,
    uses: Vec<String>,
}

impl Crate {
    fn read(source: &Path) -> Self {
        let mut paths = Vec::new();
        rust_files(source, &mut paths);
        let root = root();
        let mut read = Self {
            name: source.strip_prefix(&root).unwrap().display().to_string(),
            ..Self::default()
        };
        for path in paths {
            let mut module: Module = path
                .strip_prefix(source)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if matches!(
                module.last().map(String::as_str),
                Some("mod" | "lib" | "main")
            ) {
                module.pop();
            }
            let shown = path.strip_prefix(&root).unwrap().display().to_string();
            read.add(module, &shown, &fs::read_to_string(&path).unwrap());
        }
        read
    }

    fn add(&mut self, module: Module, file: &str, text: &str) {
        if self.name.is_empty() {
            self.name = "x".to_owned();
        }
        let text = without_text(text);
        for rest in text.split(TEST_ONLY).skip(1) {
            let mut declared = rest.trim_start();
            while let Some((_, after)) = declared
                .strip_prefix("#[")
                .and_then(|rest| rest.split_once(']'))
            {
                declared = after.trim_start();
            }
            let (_, name) = declared.split_once("mod ").unwrap_or_default();
            if declared.starts_with("mod ") || declared.starts_with("pub") {
                let name: String = name.chars().take_while(|c| is_word(*c)).collect();
                self.tests.insert([&module[..], &[name]].concat());
            }
        }
        let uses = uses(&without_tests(&text));
        let (_, all) = self
            .files
            .entry(module)
            .or_insert_with(|| (file.to_owned(), Vec::new()));
        all.extend(uses);
    }

    fn is_test(&self, module: &[String]) -> bool {
        (1..=module.len()).any(|length| {
            let last = &module[length - 1];
            last == "tests" || last.ends_with("_tests") || self.tests.contains(&module[..length])
        })
    }

    /// The module that a path in `module` leads to; none if it is in another crate.
    fn target(&self, module: &[String], path: &[String], depth: usize) -> Option<Module> {
        let mut at = module.to_vec();
        let mut rest = path;
        let mut is_ours = false;
        while let Some((first, more)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                _ => break,
            }
            is_ours = true;
            rest = more;
        }
        while let Some((first, more)) = rest.split_first() {
            let child = [&at[..], std::slice::from_ref(first)].concat();
            if !self.files.contains_key(&child) {
                break;
            }
            at = child;
            rest = more;
            is_ours = true;
        }
        if !is_ours {
            return None;
        }
        // An item that the module only imports is used from the module that defines it.
        if let (Some(name), true) = (rest.first(), depth < 8) {
            let (_, uses) = self.files.get(&at)?;
            let brought = uses.iter().find(|found| found.name.as_ref() == Some(name));
            if let Some(brought) = brought
                && at != module
                && let Some(end) = self.target(&at, &brought.path, depth + 1)
            {
                return Some(end);
            }
        }
        Some(at)
    }

    /// The circles among the children of every module.
    fn circles(&self) -> Vec<Circle> {
        // For each folder, which module uses which, each with one place that shows it.
        let mut edges: BTreeMap<Module, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (module, (file, uses)) in &self.files {
            if self.is_test(module) {
                continue;
            }
            for used in uses {
                let Some(target) = self.target(module, &used.path, 0) else {
                    continue;
                };
                let shared = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    edges
                        .entry(module[..shared].to_vec())
                        .or_default()
                        .entry((from.clone(), to.clone()))
                        .or_insert_with(|| {
                            format!(
                                "{file}:{} {from} uses {to}: {}",
                                used.line,
                                used.path.join("::")
                            )
                        });
                }
            }
        }
        let mut circles = Vec::new();
        for (folder, edges) in edges {
            let reached = reached(&edges);
            let mut seen = BTreeSet::new();
            for start in reached.keys() {
                if seen.contains(start) {
                    continue;
                }
                let ring: Vec<&String> = reached
                    .iter()
                    .filter(|(other, theirs)| {
                        reached[start].contains(*other) && theirs.contains(start)
                    })
                    .map(|(other, _)| other)
                    .collect();
                if ring.len() < 2 {
                    continue;
                }
                seen.extend(ring.iter().copied().cloned());
                let place: Vec<&str> = std::iter::once(self.name.as_str())
                    .chain(folder.iter().map(String::as_str))
                    .collect();
                let names: Vec<&str> = ring.iter().map(|name| name.as_str()).collect();
                circles.push(Circle {
                    name: format!("{}: {}", place.join("::"), names.join(" ")),
                    uses: edges
                        .iter()
                        .filter(|((from, to), _)| ring.contains(&from) && ring.contains(&to))
                        .map(|(_, shown)| shown.clone())
                        .collect(),
                });
            }
        }
        circles
    }
}

/// All modules that each module uses, directly or through others.
fn reached(edges: &BTreeMap<(String, String), String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut reached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        reached.entry(from.clone()).or_default().insert(to.clone());
        reached.entry(to.clone()).or_default();
    }
    loop {
        let mut grew = false;
        for module in reached.keys().cloned().collect::<Vec<_>>() {
            let further: BTreeSet<String> = reached[&module]
                .iter()
                .flat_map(|used| reached[used].iter().cloned())
                .collect();
            let known = reached.get_mut(&module).unwrap();
            let before = known.len();
            known.extend(further);
            grew |= known.len() > before;
        }
        if !grew {
            return reached;
        }
    }
}
