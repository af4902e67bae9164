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
    /// Size of the component in bytes.
    pub size: usize,
    packed: &'static [u8],
    /// SHA-256 of the component, in hex.
    pub sha256: &'static str,
    /// Set if it is a component of another name with a config of its own.
    pub variant: Option<Variant>,
}

/// What makes a plugin of its own of a component that several share: `variants.json` in the
/// component's folder has them.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The component's own name.
    pub of: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// JSON object: what the config is where the user says nothing else.
    pub config: &'static str,
}

impl Builtin {
    /// The component. It is kept packed (deflate): most runs use its compiled code only, and the
    /// binary is copied into containers.
    pub fn wasm(&self) -> Vec<u8> {
        miniz_oxide::inflate::decompress_to_vec(self.packed)
            .expect("invariant: the build script packed it")
    }
}

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));
