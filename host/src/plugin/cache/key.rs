//! The key that compiled plugins are authenticated with.
//!
//! Machine code from a file is run by the host as its own. The model's commands may be processes of
//! the same user, so permissions keep nobody from forging such a file. What tells the host of
//! tomorrow from a command of today is what each was started with: the kernel hands the *session
//! keyring* down from a login to what is started in it, and its possessor can read what others of
//! the same user can't. So the key lies in there, readable by possessors alone. The program takes
//! it out first of all ([`withdraw`]) and goes on in a new session keyring, which has everything of
//! the old one but the key; that is the one that commands inherit.
//!
//! Where there is no such keyring (no login made one, a container's filter forbids the calls), there
//! is no key, and nothing compiled is taken from the disk.

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

/// Names the way in which the cache is used; see [`Use`].
pub const VARIABLE: &str = "MSWEA_PLUGIN_CACHE";

/// The key's name in the keyring.
const NAME: &CStr = c"mswea-host:compiled-plugins";

/// A key for a message authentication code.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// What this process does with the cache.
#[derive(Clone)]
pub enum Use {
    /// Code is authenticated with a key that commands do not have.
    Keyed(Key),
    /// The user says that whoever can write to the cache may run code as the host.
    Trusting,
    /// There is none; the text says why.
    None(String),
}

impl Key {
    /// The code of a text in parts: HMAC-SHA256.
    pub fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        let pad = |byte: u8| {
            let mut block = [byte; 64];
            for (place, key) in block.iter_mut().zip(self.0) {
                *place ^= key;
            }
            block
        };
        let mut inner = Sha256::new_with_prefix(pad(0x36));
        for part in parts {
            inner.update(part);
        }
        let inner = inner.finalize();
        let mut outer = Sha256::new_with_prefix(pad(0x5c));
        outer.update(inner);
        outer.finalize().into()
    }

    /// Tells keys apart without giving them away.
    pub fn id(&self) -> String {
        super::hex(&self.code(&[b"id"])).chars().take(8).collect()
    }

    /// A key that everybody knows: what it makes is a checksum.
    pub fn public() -> Self {
        Self([0; 32])
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

static USE: OnceLock<Use> = OnceLock::new();

/// Takes the key out of the reach of everything that this process will start.
///
/// For programs, and before they have a second thread: credentials are each thread's own.
pub fn withdraw() {
    let _ = USE.set(match take() {
        Ok(key) => wanted(Use::Keyed(key)),
        Err(why) => wanted(Use::None(why)),
    });
}

/// What [`withdraw`] has found.
pub fn found() -> Use {
    USE.get()
        .cloned()
        .unwrap_or_else(|| Use::None("the program has not asked for a key".to_owned()))
}

fn wanted(found: Use) -> Use {
    match std::env::var(VARIABLE).as_deref() {
        Ok("trust") => Use::Trusting,
        Ok("off") => Use::None(format!("`{VARIABLE}` is `off`")),
        _ => found,
    }
}

// From the kernel's `keyctl.h` and `key.h`.
const THE_SESSION: i64 = -3;
const THE_PROCESS: i64 = -2;
const GET_KEYRING_ID: i64 = 0;
const JOIN_SESSION_KEYRING: i64 = 1;
const SETPERM: i64 = 5;
const DESCRIBE: i64 = 6;
const LINK: i64 = 8;
const UNLINK: i64 = 9;
const SEARCH: i64 = 10;
const READ: i64 = 11;
const INVALIDATE: i64 = 21;
/// Possessors may see it, read it and find it; nobody may do anything else.
const POSSESSORS: i64 = 0x0b00_0000;
/// By which others than possessors could bring a keyring into their own, change it, or read keys
/// in it: to write, search, link, set attributes.
const TAKING: u32 = 0x003c_3c3c;

fn keyctl(operation: i64, a: i64, b: i64, c: i64, d: i64) -> Result<i64, rustix::io::Errno> {
    // SAFETY: the callers below pass, for each operation, numbers or pointers to memory of theirs
    // that is as long as they say, and C strings.
    let answer = unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) };
    if answer < 0 {
        let number = io::Error::last_os_error().raw_os_error();
        return Err(rustix::io::Errno::from_raw_os_error(
            number.unwrap_or(libc::EIO),
        ));
    }
    Ok(answer)
}

/// Owner and permissions of a key.
fn describe(key: i64) -> Option<(u32, u32)> {
    let mut text = [0_u8; 512];
    let length = keyctl(
        DESCRIBE,
        key,
        text.as_mut_ptr() as i64,
        text.len() as i64,
        0,
    )
    .ok()?;
    let text = text.get(..usize::try_from(length).ok()?.checked_sub(1)?)?;
    // type;uid;gid;permissions;name
    let mut fields = std::str::from_utf8(text).ok()?.split(';').skip(1);
    let owner = fields.next()?.parse().ok()?;
    let permissions = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
    Some((owner, permissions))
}

/// The key of the session, which is made if it is not there; afterwards this process is in another
/// session keyring.
fn take() -> Result<Key, String> {
    let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0)
        .map_err(|error| format!("the kernel's keyrings can't be used here ({error})"))?;
    let me = rustix::process::geteuid().as_raw();
    match describe(session) {
        Some((owner, permissions)) if owner == me && permissions & TAKING == 0 => {}
        _ => {
            return Err("this process is in no login session with a keyring of its own".to_owned());
        }
    }
    let key = find_or_make(session, me)?;
    let mut bytes = [0_u8; 32];
    let read = keyctl(READ, key, bytes.as_mut_ptr() as i64, 32, 0);
    let left = leave(session, key);
    if left.is_err() {
        // Commands are going to inherit this keyring: better no key than one that they can read.
        let _ = keyctl(INVALIDATE, key, 0, 0, 0);
        let _ = keyctl(UNLINK, key, session, 0, 0);
    }
    let unusable =
        |error: rustix::io::Errno| format!("the session's keyring can't be used ({error})");
    left.map_err(unusable)?;
    match read.map_err(unusable)? {
        32 => Ok(Key(bytes)),
        _ => Err("the session's key is not one of ours".to_owned()),
    }
}

fn find_or_make(session: i64, me: u32) -> Result<i64, String> {
    let failed =
        |error: rustix::io::Errno| format!("the session's keyring can't be used ({error})");
    let (kind, name) = (c"user".as_ptr(), NAME.as_ptr());
    if let Ok(key) = keyctl(SEARCH, session, kind as i64, name as i64, 0) {
        return match describe(key) {
            Some((owner, permissions)) if owner == me && permissions & 0x00ff_ffff == 0 => Ok(key),
            _ => Err("the session's key can be read by others".to_owned()),
        };
    }
    let mut bytes = [0_u8; 32];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err("the kernel gives no random bytes".to_owned());
    }
    // SAFETY: two C strings, and a buffer with its length.
    let made = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind,
            name,
            bytes.as_ptr(),
            bytes.len(),
            session,
        )
    };
    if made < 0 {
        return Err(format!(
            "the session's keyring takes no key ({})",
            io::Error::last_os_error()
        ));
    }
    // Until now, others of this user could see that it is there, and no more.
    if let Err(error) = keyctl(SETPERM, made, POSSESSORS, 0, 0) {
        let _ = keyctl(UNLINK, made, session, 0, 0);
        return Err(failed(error));
    }
    Ok(made)
}

/// Goes on in a new session keyring that has everything of `session` but `key`: a user's tickets
/// and tokens may lie there, which commands need.
fn leave(session: i64, key: i64) -> Result<(), rustix::io::Errno> {
    let mut all = vec![0_u8; 4 << 10];
    loop {
        let length = keyctl(READ, session, all.as_mut_ptr() as i64, all.len() as i64, 0)?;
        let length = usize::try_from(length).unwrap_or_default();
        if length <= all.len() {
            all.truncate(length);
            break;
        }
        all.resize(length, 0);
    }
    // Held by the process keyring, which no child inherits, until all is linked: only who possesses
    // a key may link it.
    keyctl(LINK, session, THE_PROCESS, 0, 0)?;
    let joined = keyctl(JOIN_SESSION_KEYRING, 0, 0, 0, 0);
    if joined.is_ok() {
        for id in all.chunks_exact(4) {
            let id = i32::from_ne_bytes([id[0], id[1], id[2], id[3]]);
            if i64::from(id) != key {
                let _ = keyctl(LINK, i64::from(id), THE_SESSION, 0, 0);
            }
        }
    }
    keyctl(UNLINK, session, THE_PROCESS, 0, 0)?;
    joined.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_hmac_sha256() {
        // RFC 4231, test case 1; a key shorter than ours is filled up with zeros there too.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        assert_eq!(
            super::super::hex(&Key(key).code(&[b"Hi ", b"There"])),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
    }

    /// In a thread of its own, which has its own credentials, as a login would make it.
    fn in_a_session(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // Where a container's filter forbids it, there is nothing to be tested.
                if keyctl(JOIN_SESSION_KEYRING, 0, 0, 0, 0).is_ok() {
                    body();
                }
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_session_has_one_key_and_what_is_started_later_does_not_find_it() {
        in_a_session(|| {
            let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            let (kind, name) = (c"user".as_ptr() as i64, c"a ticket".as_ptr());
            // SAFETY: two C strings, and a buffer with its length.
            let ticket = unsafe {
                libc::syscall(libc::SYS_add_key, kind, name, b"t".as_ptr(), 1, THE_SESSION)
            };
            assert!(ticket > 0);
            let first = take().unwrap();
            let now = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            assert_ne!(now, session);
            // The user's own keys are still there; ours is not, by name or by number, nor can
            // the old keyring be had back.
            let find = |name: &CStr| keyctl(SEARCH, THE_SESSION, kind, name.as_ptr() as i64, 0);
            assert_eq!(find(c"a ticket"), Ok(ticket));
            assert!(find(NAME).is_err());
            assert!(keyctl(LINK, session, THE_SESSION, 0, 0).is_err());
            let all = std::fs::read_to_string("/proc/keys").unwrap_or_default();
            assert!(!all.contains("compiled-plugins"), "{all}");
            // In the new session there is another key.
            let second = take().unwrap();
            assert_ne!(first.0, second.0);
        });
    }

    #[test]
    fn a_keyring_that_others_can_link_gives_no_key() {
        in_a_session(|| {
            let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            // As that of a user without a login session is.
            keyctl(SETPERM, session, 0x3f3f_0000, 0, 0).unwrap();
            let why = take().unwrap_err();
            assert!(why.contains("no login session"), "{why}");
        });
    }
}
