//! The first-party plugins as components, embedded by this crate's build script.
//!
//! The same bytes are in `target/plugins/` as files. `build.rs` makes them.

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
    /// Set if this plugin is a variant: a component with another name, and a config.
    pub variant: Option<Variant>,
}

/// The properties of a plugin that shares its component with others; they are in `variants.json` in
/// the component's folder.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The component's own name.
    pub of: &'static str,
    /// One line that says what it does.
    pub summary: &'static str,
    /// JSON object: the defaults of its config.
    pub config: &'static str,
}

impl Builtin {
    /// The component. It is compressed (deflate) in the binary: most runs need only its compiled
    /// code, and the binary is copied into containers.
    pub fn wasm(&self) -> Vec<u8> {
        miniz_oxide::inflate::decompress_to_vec(self.packed)
            .expect("invariant: the build script packed it")
    }
}

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));
