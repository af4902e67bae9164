//! The helper as a static program, embedded by this crate's build script.
//!
//! `build.rs` builds it.

/// The architecture of the program, by Go's name, which container engines use: `amd64`, `arm64`.
pub const ARCHITECTURE: &str = env!("MSWEA_HELPER_ARCHITECTURE");

/// The program's bytes. The binary contains them packed (deflate).
pub fn bytes() -> Vec<u8> {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/helper.deflate"));
    miniz_oxide::inflate::decompress_to_vec(packed).expect("invariant: the build script packed it")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    #[test]
    fn it_is_small_and_runs() {
        let bytes = super::bytes();
        assert!(bytes.starts_with(b"\x7fELF"));
        assert!(bytes.len() <= 450_000, "{}", bytes.len());
        let path = std::env::temp_dir().join(format!("mswea-helper-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o755))
            .unwrap();
        drop(file);
        let mut run = Command::new(&path);
        let status = run.status();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(status.unwrap().code(), Some(125));
    }
}
