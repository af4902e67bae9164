//! The first-party plugins as components, embedded by this crate's build script.
//!
//! The same bytes lie under `target/plugins/` as files. See `build.rs` for how they are made.

/// A plugin inside the binary.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its folder: `models`, `parsers`, `formatters`, `history` or `policies`.
    pub folder: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub wasm: &'static [u8],
    /// SHA-256 of the component, in hex.
    pub sha256: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));
