//! The token that a client sends and a server requires.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mswea_files as regular_file;
use sha2::{Digest, Sha256};

/// The longest token, in bytes.
const LONGEST: u64 = 4096;
/// The fewest bytes of a token. `openssl rand -hex 16` writes twice as many; with fewer than this,
/// a token can be guessed.
const SHORTEST: usize = 16;

/// A token. `Debug` does not show its text.
#[derive(Clone)]
pub struct AccessToken(String);

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken(..)")
    }
}

impl AccessToken {
    /// A token of this text, without the white space around it.
    ///
    /// # Errors
    /// A message if it is shorter than 16 bytes, or has characters that an HTTP header can't
    /// contain.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::long(text, SHORTEST)
    }

    /// A token for another program's server, which may be short.
    ///
    /// # Errors
    /// A message if it is empty, or has characters that an HTTP header can't contain.
    pub fn foreign(text: &str) -> Result<Self, String> {
        Self::long(text, 1)
    }

    fn long(text: &str, shortest: usize) -> Result<Self, String> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "the token has white space or characters that are no printable ASCII: write one line, as `openssl rand -hex 32` does"
                    .to_owned(),
            );
        }
        if text.len() < shortest {
            return Err(format!(
                "the token has {} characters, and fewer than {shortest} can be guessed: make one with `openssl rand -hex 32`",
                text.len()
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The token in a file that only its owner may read.
    ///
    /// # Errors
    /// A message if the file can't be read, others may read it, or it has no valid token.
    pub fn read(path: &Path) -> Result<Self, String> {
        Self::read_with(path, Self::new)
    }

    /// The token for another program's server, which [`Self::foreign`] accepts, in such a file.
    ///
    /// # Errors
    /// A message in the cases of [`Self::read`].
    pub fn read_foreign(path: &Path) -> Result<Self, String> {
        Self::read_with(path, Self::foreign)
    }

    fn read_with(
        path: &Path,
        make: impl FnOnce(&str) -> Result<Self, String>,
    ) -> Result<Self, String> {
        let shown = path.display();
        let unreadable = |error: std::io::Error| format!("token file `{shown}`: {error}");
        let file = regular_file::open(path, LONGEST).map_err(unreadable)?;
        // The permissions of the opened file: the path could be replaced meanwhile.
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(format!(
                "token file `{shown}` has the mode {mode:o}, so that other users can read it: `chmod 600 {shown}`"
            ));
        }
        let text = regular_file::read_opened(&file, LONGEST)
            .and_then(regular_file::text)
            .map_err(unreadable)?;
        make(&text).map_err(|why| format!("token file `{shown}`: {why}"))
    }

    /// Whether `shown` is this token. The time does not depend on where they differ, because all
    /// bytes of their digests are compared.
    pub fn is(&self, shown: &[u8]) -> bool {
        let (own, other) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(shown));
        let pairs = own.iter().zip(other.iter());
        let differences = pairs.fold(0, |found, (own, other)| found | (own ^ other));
        std::hint::black_box(differences) == 0
    }

    /// The token itself.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The value of the `Authorization` header with the token.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = AccessToken::new(" 0123456789abcdef\n").unwrap();
        for (shown, expected) in [
            ("0123456789abcdef", true),
            ("0123456789abcdeF", false),
            ("1123456789abcdef", false),
            ("0123456789abcde", false),
            ("0123456789abcdef0", false),
            ("", false),
        ] {
            assert_eq!(token.is(shown.as_bytes()), expected, "{shown}");
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn files_of_others_and_poor_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (text, mode, told) in [
            ("0123456789abcdef\n", 0o600, ""),
            ("0123456789abcdef\n", 0o400, ""),
            ("0123456789abcdef\n", 0o640, "mode 640"),
            ("0123456789abcdef\n", 0o604, "chmod 600"),
            ("short\n", 0o600, "5 characters"),
            ("", 0o600, "0 characters"),
            ("0123456789abcdef x\n", 0o600, "white space"),
            ("0123456789abcdefé\n", 0o600, "white space"),
        ] {
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match AccessToken::read(&path) {
                Ok(_) => assert_eq!(told, "", "{text} {mode:o}"),
                Err(why) => assert!(!told.is_empty() && why.contains(told), "{why}"),
            }
        }
        let why = AccessToken::read(&folder.path().join("none")).unwrap_err();
        assert!(why.contains("none"), "{why}");
        assert!(AccessToken::read(folder.path()).is_err());
    }
}
