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
//! Only a direct member of the session keyring is the key. The keyrings inside it are not looked
//! into: one is the user's own, which `pam_keyinit` links into every login's, and commands can write
//! to that one. Only its possessors can write to the session keyring itself (else there is no key),
//! and commands are none. What is left to a command is to get into the login: by tracing a process
//! there, or by a server there that starts programs for it (tmux, `systemd --user`). Whoever can do
//! that has the key, and the user's shell too.
//!
//! Where there is no such keyring (no login made one, a container's filter forbids the calls), there
//! is no key, and nothing compiled is taken from the disk.

use std::ffi::CString;
use std::io;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

/// Names the way in which the cache is used; see [`Use`].
pub const VARIABLE: &str = "MSWEA_PLUGIN_CACHE";

/// The key's name in the keyring.
const NAME: &str = "mswea-host:compiled-plugins";

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
const READ: i64 = 11;
const INVALIDATE: i64 = 21;
/// Possessors may see it, read it, find it and link it; nobody may do anything else.
const POSSESSORS: u32 = 0x1b00_0000;
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

/// What the kernel tells of a key.
struct Description {
    kind: String,
    owner: u32,
    permissions: u32,
    name: String,
}

fn describe(key: i64) -> Option<Description> {
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
    let mut fields = std::str::from_utf8(text).ok()?.splitn(5, ';');
    let kind = fields.next()?.to_owned();
    let owner = fields.next()?.parse().ok()?;
    let permissions = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
    let name = fields.next()?.to_owned();
    Some(Description {
        kind,
        owner,
        permissions,
        name,
    })
}

/// The direct members of a keyring.
fn members(keyring: i64) -> Result<Vec<i64>, rustix::io::Errno> {
    let mut all = vec![0_u8; 4 << 10];
    loop {
        let length = keyctl(READ, keyring, all.as_mut_ptr() as i64, all.len() as i64, 0)?;
        let length = usize::try_from(length).unwrap_or_default();
        if length <= all.len() {
            all.truncate(length);
            break;
        }
        all.resize(length, 0);
    }
    let serials = all.as_chunks().0.iter();
    Ok(serials.map(|id| i32::from_ne_bytes(*id).into()).collect())
}

/// The key of the session, which is made if it is not there; afterwards this process is in another
/// session keyring.
fn take() -> Result<Key, String> {
    let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0)
        .map_err(|error| format!("the kernel's keyrings can't be used here ({error})"))?;
    let me = rustix::process::geteuid().as_raw();
    match describe(session) {
        Some(session) if session.owner == me && session.permissions & TAKING == 0 => {}
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
    let is_ours = |key: &i64| {
        describe(*key).is_some_and(|key| {
            (key.kind.as_str(), key.name.as_str()) == ("user", NAME)
                && (key.owner, key.permissions) == (me, POSSESSORS)
        })
    };
    // Not by `KEYCTL_SEARCH`, which looks into the keyrings within, the user's own among them.
    match members(session).map_err(failed)?.into_iter().find(is_ours) {
        Some(key) => Ok(key),
        None => make(session),
    }
}

/// Makes a key and puts it into the keyring, in the place of one of that name.
fn make(session: i64) -> Result<i64, String> {
    let mut bytes = [0_u8; 32];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err("the kernel gives no random bytes".to_owned());
    }
    // First where nobody else gets: in the session's keyring it would become new content of a key
    // of that name, whoever else has that one.
    let made = add(NAME, &bytes, THE_PROCESS)
        .map_err(|error| format!("the kernel takes no key ({error})"))?;
    let put = keyctl(SETPERM, made, POSSESSORS.into(), 0, 0)
        .and_then(|_| keyctl(LINK, made, session, 0, 0));
    let _ = keyctl(UNLINK, made, THE_PROCESS, 0, 0);
    put.map_err(|error| format!("the session's keyring takes no key ({error})"))?;
    Ok(made)
}

/// Adds a key of the type `user` to a keyring.
fn add(name: &str, bytes: &[u8], keyring: i64) -> io::Result<i64> {
    let name = CString::new(name)?;
    // SAFETY: two C strings, and a buffer with its length.
    let made = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            name.as_ptr(),
            bytes.as_ptr(),
            bytes.len(),
            keyring,
        )
    };
    match made {
        0.. => Ok(made),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Goes on in a new session keyring that has everything of `session` but `key`: a user's tickets
/// and tokens may lie there, which commands need.
fn leave(session: i64, key: i64) -> Result<(), rustix::io::Errno> {
    let all = members(session)?;
    // Held by the process keyring, which no child inherits, until all is linked: only who possesses
    // a key may link it.
    keyctl(LINK, session, THE_PROCESS, 0, 0)?;
    let joined = keyctl(JOIN_SESSION_KEYRING, 0, 0, 0, 0);
    if joined.is_ok() {
        for id in all.into_iter().filter(|id| *id != key) {
            let _ = keyctl(LINK, id, THE_SESSION, 0, 0);
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

    /// A key of this name, wherever it lies in the session's keyring or in those within.
    fn find(name: &str) -> Option<i64> {
        const SEARCH: i64 = 10;
        let (kind, name) = (c"user", CString::new(name).unwrap());
        let (kind, name) = (kind.as_ptr() as i64, name.as_ptr() as i64);
        keyctl(SEARCH, THE_SESSION, kind, name, 0).ok()
    }

    #[test]
    fn a_session_has_one_key_and_what_is_started_later_does_not_find_it() {
        in_a_session(|| {
            let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            let ticket = add("a ticket", b"t", THE_SESSION).unwrap();
            let me = rustix::process::geteuid().as_raw();
            let number = find_or_make(session, me).unwrap();
            let first = take().unwrap();
            let now = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            assert_ne!(now, session);
            // The user's own keys are still there; ours is not, by name or by number, nor can
            // the old keyring be had back.
            assert_eq!(find("a ticket"), Some(ticket));
            assert_eq!(find(NAME), None);
            assert!(keyctl(LINK, session, THE_SESSION, 0, 0).is_err());
            // Nor can a key be put into the old one, or its permissions be changed.
            assert!(add(NAME, &[1; 32], session).is_err());
            assert!(keyctl(LINK, ticket, session, 0, 0).is_err());
            assert!(keyctl(SETPERM, session, 0x3f3f_0000, 0, 0).is_err());
            let all = std::fs::read_to_string("/proc/keys").unwrap_or_default();
            let seen = |number: i64| all.contains(&format!("{number:08x} "));
            assert!(seen(ticket) && !seen(number), "{all}");
            // In the new session there is another key.
            let second = take().unwrap();
            assert_ne!(first.0, second.0);
        });
    }

    #[test]
    fn a_key_in_the_users_keyring_is_not_taken() {
        in_a_session(|| {
            const THE_USER: i64 = -4;
            // As `pam_keyinit` does in every login.
            keyctl(LINK, THE_USER, THE_SESSION, 0, 0).unwrap();
            // As a command of an earlier login would, but one keyring deeper: this one is shared
            // with whatever else runs on this machine.
            let folder = CString::new(format!("mswea-test-{}", std::process::id())).unwrap();
            // SAFETY: two C strings, and no content.
            let folder = unsafe {
                let (kind, none) = (c"keyring".as_ptr(), std::ptr::null::<u8>());
                libc::syscall(libc::SYS_add_key, kind, folder.as_ptr(), none, 0, THE_USER)
            };
            assert!(folder > 0);
            let planted = add(NAME, &[7; 32], folder).unwrap();
            keyctl(SETPERM, planted, POSSESSORS.into(), 0, 0).unwrap();
            let found = find(NAME);
            let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            let members_before = members(session).unwrap();
            let key = take();
            keyctl(UNLINK, folder, THE_USER, 0, 0).unwrap();
            assert_eq!(found, Some(planted), "the attack must be one");
            assert!(!members_before.contains(&planted));
            assert_ne!(key.unwrap().0, [7; 32]);
        });
    }

    #[test]
    fn a_key_that_others_may_use_is_replaced() {
        // Others may read it; its possessors may change it.
        for permissions in [0x1b02_0000, 0x3f00_0000] {
            in_a_session(|| {
                let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
                let planted = add(NAME, &[7; 32], session).unwrap();
                // Somebody else has it too, and would see what is written to it.
                const THE_THREAD: i64 = -1;
                let held = keyctl(LINK, planted, THE_THREAD, 0, 0);
                keyctl(SETPERM, planted, permissions, 0, 0).unwrap();
                let key = take().unwrap();
                let mut bytes = [0_u8; 32];
                let read = keyctl(READ, planted, bytes.as_mut_ptr() as i64, 32, 0);
                assert_eq!((held, read, bytes), (Ok(0), Ok(32), [7; 32]));
                assert_ne!(key.0, bytes);
            });
        }
    }

    #[test]
    fn a_session_keeps_its_key() {
        in_a_session(|| {
            let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
            let me = rustix::process::geteuid().as_raw();
            let first = find_or_make(session, me).unwrap();
            assert_eq!(find_or_make(session, me), Ok(first));
            assert_eq!(members(session), Ok(vec![first]));
            assert_ne!(take().unwrap().0, [0; 32]);
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
