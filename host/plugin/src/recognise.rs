//! Recognises a file by its bytes and names: no WebAssembly, no component, no plugin, a plugin of
//! another contract, a plugin with an import that the host does not offer. Each has its own
//! message.

use wasmtime::component::Component;

use super::engine::Shared;
use super::error::LoadError;
use super::kind::{self, RoleKind};
use super::quoted::one_line;
use super::shortage::shortage;

/// The largest component that is read, several times the size of a language's whole runtime.
pub(super) const LARGEST: u64 = 128 << 20;

/// Recognises files that are no components, before wasmtime reads them.
pub(super) fn check_bytes(label: &str, bytes: &[u8]) -> Result<(), LoadError> {
    let plugin = label.to_owned();
    if bytes.is_empty() {
        return Err(LoadError::Empty { plugin });
    }
    if !bytes.starts_with(b"\0asm") {
        let found = match std::str::from_utf8(&bytes[..bytes.len().min(8)]) {
            Ok(text) => format!("{text:?}"),
            Err(_) => format!("{:02x?}", &bytes[..bytes.len().min(4)]),
        };
        return Err(LoadError::NotWasm { plugin, found });
    }
    match bytes.get(4..8) {
        // Version 1 in layer 0 is a core module; components have layer 1.
        Some([_, _, 0, 0]) => Err(LoadError::CoreModule { plugin }),
        Some(_) => Ok(()),
        None => Err(LoadError::Damaged {
            plugin,
            detail: format!("it ends after {} bytes", bytes.len()),
        }),
    }
}

pub(super) fn exports(shared: &Shared, component: &Component) -> Vec<String> {
    component
        .component_type()
        .exports(&shared.engine)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The kinds among a component's exports, and the version of the contract that it was built for.
pub(super) fn kinds(label: &str, exports: &[String]) -> Result<(Vec<RoleKind>, String), LoadError> {
    let ours: Vec<kind::InterfaceName> = exports
        .iter()
        .filter_map(|name| kind::named(name))
        .collect();
    if ours.is_empty() {
        let shown: Vec<&str> = exports.iter().take(4).map(String::as_str).collect();
        return Err(LoadError::NoPlugin {
            plugin: label.to_owned(),
            exports: if shown.is_empty() {
                "nothing".into()
            } else {
                shown.join(", ")
            },
        });
    }
    for export in &ours {
        if !export.version.is_some_and(kind::compatible) {
            return Err(LoadError::version(label, export.version));
        }
    }
    let mut kinds: Vec<RoleKind> = RoleKind::ALL
        .into_iter()
        .filter(|kind| {
            ours.iter()
                .any(|export| export.interface == kind.interface())
        })
        .collect();
    kinds.sort_unstable();
    let plugin = label.to_owned();
    if kinds.is_empty() {
        let known: Vec<&str> = RoleKind::ALL.iter().map(|kind| kind.interface()).collect();
        return Err(LoadError::NoKind {
            plugin,
            known: known.join(", "),
        });
    }
    let Some(own) = ours.iter().find(|export| export.interface == "plugin") else {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        return Err(LoadError::NoDescriptor {
            plugin,
            kinds: kinds.join(", "),
            wanted: kind::show(kind::VERSION),
        });
    };
    let contract = own.version.map_or_else(String::new, kind::show);
    Ok((kinds, contract))
}

/// The WASI interfaces that the host links (with everything denied).
const WASI: [&str; 6] = [
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

pub(super) fn check_imports(label: &str, imports: &[String]) -> Result<(), LoadError> {
    for import in imports {
        let wasi = WASI.iter().any(|known| import.starts_with(known));
        if wasi && import.contains("@0.2.") {
            continue;
        }
        let remedy = match kind::named(import) {
            Some(named) if !named.version.is_some_and(kind::compatible) => {
                return Err(LoadError::version(label, named.version));
            }
            Some(named) if matches!(named.interface.as_str(), "host" | "types") => continue,
            Some(named) if RoleKind::ALL.iter().any(|kind| kind.interface() == named.interface) => {
                // The types of a kind's interface, which its own exports import.
                continue;
            }
            Some(_) => "update mswea-host, or build the plugin for an older contract".to_owned(),
            None if import.starts_with("wasi:http/") => {
                "plugins do no I/O; a model adapter describes its request and the host sends it (see `wit/model-adapter.wit`)".to_owned()
            }
            None => "plugins get WASI 0.2 (with everything denied) and `mswea:plugin/host`, nothing else".to_owned(),
        };
        return Err(LoadError::MissingImport {
            plugin: label.to_owned(),
            import: import.clone(),
            remedy,
        });
    }
    Ok(())
}

pub(super) fn mismatch(label: &str, error: &wasmtime::Error) -> LoadError {
    let plugin = label.to_owned();
    let text = format!("{error:#}");
    match shortage(&text) {
        Some(detail) => LoadError::Failed { plugin, detail },
        None => LoadError::Mismatch {
            plugin,
            wanted: kind::show(kind::VERSION),
            detail: one_line(&text),
        },
    }
}

/// The error for a component that wasmtime could not compile.
pub(super) fn uncompiled(label: &str, error: &str) -> LoadError {
    match shortage(error) {
        Some(detail) => LoadError::Failed {
            plugin: label.to_owned(),
            detail,
        },
        None => LoadError::compiling(label, &one_line(error)),
    }
}
