//! Builds the first-party plugins in nested cargo calls, one for each profile, and embeds them.
//! `MSWEA_BUNDLED_PLUGINS=DIR` takes prebuilt ones instead (`DIR/parsers/text_regex.wasm`).
#![allow(clippy::print_stdout, clippy::print_stderr)] // a build script talks to Cargo by printing

mod nested;

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nested::{Nested, Result, outer_target_dir};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

const TARGET: &str = "wasm32-wasip2";
const FOLDERS: [&str; 5] = ["models", "parsers", "formatters", "history", "policies"];

/// What renders templates: a component of the host that is no plugin.
const TEMPLATES: &str = "template";

/// The plugins that most runs have in every step; they are built for speed.
const FAST: [&str; 4] = ["openai", "toolcall", "jinja", "last_n_observations"];

struct Plugin {
    folder: &'static str,
    name: String,
    package: String,
    variants: Vec<Variant>,
}

impl Plugin {
    /// The profile of `Cargo.toml` that it is built with.
    fn profile(&self) -> &'static str {
        match FAST.contains(&&*self.name) {
            true => "fast-plugin",
            false => "plugin",
        }
    }
}

/// A name under which the plugin is also offered, with a config of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    summary: String,
    config: serde_json::Map<String, serde_json::Value>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    println!("cargo::rerun-if-env-changed=MSWEA_BUNDLED_PLUGINS");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(2)
        .ok_or("plugins/bundle has no workspace above it")?
        .to_owned();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let plugins = find_plugins(&root)?;
    let built = match env::var_os("MSWEA_BUNDLED_PLUGINS") {
        Some(folder) if !folder.is_empty() => take_prebuilt(Path::new(&folder), &plugins)?,
        _ => build(&root, &outer_target_dir(&out)?, &plugins)?,
    };
    embed(&out, &outer_target_dir(&out)?, &plugins, &built)
}

/// Every crate in the plugin folders, in a fixed order.
fn find_plugins(root: &Path) -> Result<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for folder in FOLDERS {
        let path = root.join("plugins").join(folder);
        println!("cargo::rerun-if-changed={}", path.display());
        let mut names: Vec<OsString> = fs::read_dir(&path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<_>>()?;
        names.sort();
        for name in names {
            let manifest = path.join(&name).join("Cargo.toml");
            let Ok(text) = fs::read_to_string(&manifest) else {
                continue;
            };
            let package = text
                .lines()
                .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
                .ok_or_else(|| format!("{}: no `name = \"...\"` line", manifest.display()))?;
            plugins.push(Plugin {
                folder,
                name: name.to_string_lossy().into_owned(),
                package: package.to_owned(),
                variants: variants(&path.join(&name).join("variants.json"))?,
            });
        }
    }
    plugins.push(Plugin {
        folder: TEMPLATES,
        name: "template_engine".to_owned(),
        package: "mswea-template-engine".to_owned(),
        variants: Vec::new(),
    });
    for name in FAST {
        if !plugins.iter().any(|plugin| plugin.name == name) {
            return Err(format!(
                "`FAST` in plugins/bundle/build.rs has the plugin `{name}`, which is in none of the folders {FOLDERS:?}"
            )
            .into());
        }
    }
    // The root manifest holds the guests' profiles.
    for input in [
        "plugins/wire",
        "host/template/engine",
        "host/python",
        "host/expression",
        "sdk/rust/src",
        "sdk/rust/Cargo.toml",
        "wit",
        "Cargo.lock",
        "Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    Ok(plugins)
}

/// The variants of a plugin; most have none.
fn variants(path: &Path) -> Result<Vec<Variant>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| format!("{}: {error}", path.display()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

fn take_prebuilt(folder: &Path, plugins: &[Plugin]) -> Result<Vec<PathBuf>> {
    plugins
        .iter()
        .map(|plugin| {
            let path = folder
                .join(plugin.folder)
                .join(format!("{}.wasm", plugin.name));
            println!("cargo::rerun-if-changed={}", path.display());
            if !path.is_file() {
                return Err(format!(
                    "MSWEA_BUNDLED_PLUGINS={}: there is no `{}/{}.wasm` in it",
                    folder.display(),
                    plugin.folder,
                    plugin.name
                )
                .into());
            }
            Ok(path)
        })
        .collect()
}

fn build(root: &Path, target: &Path, plugins: &[Plugin]) -> Result<Vec<PathBuf>> {
    let nested = target.join("plugins-build");
    for profile in ["plugin", "fast-plugin"] {
        let packages = plugins.iter().filter(|plugin| plugin.profile() == profile);
        let packages: Vec<&str> = packages.map(|plugin| &*plugin.package).collect();
        Nested {
            root,
            target_dir: &nested,
            triple: TARGET,
            profile,
            flags: &["-Ctarget-feature=+simd128"],
            variables: &[],
            what: "the plugins",
            instead: "MSWEA_BUNDLED_PLUGINS=DIR takes prebuilt ones",
        }
        .build(&packages)?;
    }
    let folder = nested.join(TARGET);
    let built = |plugin: &Plugin| {
        let file = format!("{}.wasm", plugin.name);
        folder.join(plugin.profile()).join(file)
    };
    Ok(plugins.iter().map(built).collect())
}

fn embed(out: &Path, target: &Path, plugins: &[Plugin], built: &[PathBuf]) -> Result<()> {
    let mut code = String::from(
        "/// The first-party plugins, by folder and name.\npub static BUILTIN: &[Builtin] = &[\n",
    );
    let mut packs = String::new();
    let mut engine = String::new();
    for (index, (plugin, path)) in plugins.iter().zip(built).enumerate() {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = format!("{}.wasm", plugin.name);
        // The embedded component and the file beside it have the same bytes.
        let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 9);
        let packed_file = format!("{}.deflate", plugin.name);
        write_if_changed(
            &target.join("plugins").join(plugin.folder).join(&file),
            &bytes,
        )?;
        write_if_changed(&out.join(plugin.folder).join(&packed_file), &packed)?;
        let digest = Sha256::digest(&bytes)
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        writeln!(
            packs,
            "static PACKED_{index}: &[u8] = include_bytes!(concat!(env!(\"OUT_DIR\"), {:?}));",
            format!("/{}/{packed_file}", plugin.folder),
        )?;
        let shared = format!(
            "folder: {:?}, size: {}, packed: PACKED_{index}, sha256: {digest:?}",
            plugin.folder,
            bytes.len(),
        );
        let builtin = format!(
            "Builtin {{ name: {:?}, {shared}, variant: None }}",
            plugin.name
        );
        if plugin.folder == TEMPLATES {
            write!(
                engine,
                "/// The component that renders templates.\npub static TEMPLATE_ENGINE: Builtin = {builtin};\n"
            )?;
            continue;
        }
        writeln!(code, "    {builtin},")?;
        for variant in &plugin.variants {
            writeln!(
                code,
                "    Builtin {{ name: {:?}, {shared}, variant: Some(Variant {{ of: {:?}, summary: {:?}, config: {:?} }}) }},",
                variant.name,
                plugin.name,
                variant.summary,
                serde_json::to_string(&variant.config)?,
            )?;
        }
    }
    code.push_str("];\n");
    code.push_str(&engine);
    code.push_str(&packs);
    fs::write(out.join("bundle.rs"), code)?;
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes)?;
    }
    Ok(())
}
