//! The key with which compiled plugins are authenticated.
//!
//! The host runs machine code from a file as its own. The model's commands may be processes of the
//! same user, so file permissions do not prevent them from forging such a file. A later host
//! process differs from a command of an earlier run in what each inherited: the kernel passes the
//! *session keyring* from a login on to the processes that are started in it, and a possessor of a
//! keyring can read keys that other processes of the same user can't. So the key is kept there,
//! readable by possessors alone. Before anything else, the program takes the key ([`withdraw`]) and
//! continues in a new session keyring, which has every entry of the old one but the key; commands
//! inherit the new one.
//!
//! Only a direct member of the session keyring is accepted as the key. Keyrings inside it are not
//! searched: one of them is the user's own, which `pam_keyinit` links into that of every login, and
//! commands can write to it. The session keyring itself can be written to by its possessors only
//! (otherwise there is no key), and commands do not possess it. A command that gets a process into
//! the login, by tracing one there or through a server that starts programs there (tmux, `systemd
//! --user`), can read the key; it can then control the user's shell as well.
//!
//! Without such a keyring (no login made one, or a container's filter forbids the calls) there is
//! no key, and compiled code is read from nowhere but beside the program ([`beside`]).

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::beside;

/// The variable that chooses how the cache is used; see [`CacheUse`].
pub const VARIABLE: &str = "MSWEA_PLUGIN_CACHE";

/// The key's name in the keyring.
const NAME: &str = "mswea-host:compiled-plugins";

/// A key for a message authentication code.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthenticationKey([u8; 32]);

/// The use of the cache in this process.
#[derive(Clone)]
pub enum CacheUse {
    /// Code is authenticated with a key that commands do not have.
    Keyed(AuthenticationKey),
    /// The user allows every process that can write to the cache to run code as the host.
    Trusting,
    /// There is no key. Code is kept in this folder beside the program, where only those who can change the
    /// program can write; the key is not secret, and stands for the program's present state.
    Beside(PathBuf, AuthenticationKey),
    /// The cache is not used; the text is the reason.
    None(String),
}

impl AuthenticationKey {
    /// The authentication code of a text in parts: HMAC-SHA256.
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

    /// An identifier of the key that does not reveal it.
    pub fn id(&self) -> String {
        super::hex(&self.code(&[b"id"])).chars().take(8).collect()
    }

    /// A key that is public, which makes authentication codes mere checksums.
    pub fn public() -> Self {
        Self([0; 32])
    }
}

impl std::fmt::Debug for AuthenticationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthenticationKey({})", self.id())
    }
}

static USE: OnceLock<CacheUse> = OnceLock::new();

/// Takes the key, and removes it from what processes started later inherit.
///
/// Only for a program's `main`, before it starts a second thread, because credentials belong to a
/// thread.
pub fn withdraw() {
    let _ = USE.set(match take() {
        Ok(key) => wanted(CacheUse::Keyed(key)),
        Err(why) => wanted(match beside::found() {
            Some((folder, state)) => CacheUse::Beside(folder, AuthenticationKey(state)),
            None => CacheUse::None(why),
        }),
    });
}

/// The key that [`withdraw`] took, or the reason why there is none.
pub fn found() -> CacheUse {
    USE.get()
        .cloned()
        .unwrap_or_else(|| CacheUse::None("the program has not asked for a key".to_owned()))
}

fn wanted(found: CacheUse) -> CacheUse {
    match std::env::var(VARIABLE).as_deref() {
        Ok("trust") => CacheUse::Trusting,
        Ok("off") => CacheUse::None(format!("`{VARIABLE}` is `off`")),
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
/// Possessors may view, read, find and link it; others have no permissions.
const POSSESSORS: u32 = 0x1b00_0000;
/// Permissions of others with which they could possess a keyring, change it, or read keys in it:
/// write, search, link, set attributes.
const TAKING: u32 = 0x003c_3c3c;

fn keyctl(operation: i64, a: i64, b: i64, c: i64, d: i64) -> Result<i64, rustix::io::Errno> {
    // SAFETY: for each operation, the callers below pass numbers, C strings, or pointers to memory
    // of theirs with its length.
    let answer = unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) };
    if answer < 0 {
        let number = io::Error::last_os_error().raw_os_error();
        return Err(rustix::io::Errno::from_raw_os_error(
            number.unwrap_or(libc::EIO),
        ));
    }
    Ok(answer)
}

/// The kernel's description of a key.
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

/// The key of the session; makes one if there is none. Afterwards this process has another session
/// keyring.
fn take() -> Result<AuthenticationKey, String> {
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
        // Commands would inherit this keyring with the key in it, so the key is removed.
        let _ = keyctl(INVALIDATE, key, 0, 0, 0);
        let _ = keyctl(UNLINK, key, session, 0, 0);
    }
    let unusable =
        |error: rustix::io::Errno| format!("the session's keyring can't be used ({error})");
    left.map_err(unusable)?;
    match read.map_err(unusable)? {
        32 => Ok(AuthenticationKey(bytes)),
        _ => Err("the key in the session's keyring was not made by this program".to_owned()),
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
    // Without `KEYCTL_SEARCH`, which also searches the keyrings inside, the user's own among them.
    match members(session).map_err(failed)?.into_iter().find(is_ours) {
        Some(key) => Ok(key),
        None => make(session),
    }
}

/// Makes a key and puts it into the keyring, replacing one of that name.
fn make(session: i64) -> Result<i64, String> {
    let mut bytes = [0_u8; 32];
    // SAFETY: the buffer has the given length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err("the kernel returned no random bytes".to_owned());
    }
    // The key is made in the process keyring first, which other processes can't reach. If it were
    // made in the session keyring, and a key of this name existed there, that key would get the new
    // content, and other processes may possess it.
    let made = add(NAME, &bytes, THE_PROCESS)
        .map_err(|error| format!("the kernel can't add a key ({error})"))?;
    let put = keyctl(SETPERM, made, POSSESSORS.into(), 0, 0)
        .and_then(|_| keyctl(LINK, made, session, 0, 0));
    let _ = keyctl(UNLINK, made, THE_PROCESS, 0, 0);
    put.map_err(|error| format!("the key can't be added to the session's keyring ({error})"))?;
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

/// Continues in a new session keyring that has every entry of `session` but `key`: the user's
/// tickets and tokens may be there, which commands need.
fn leave(session: i64, key: i64) -> Result<(), rustix::io::Errno> {
    let all = members(session)?;
    // The process keyring, which no child inherits, holds it until everything is linked: only a
    // possessor may link a key.
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
        // RFC 4231, test case 1; its key is shorter and padded with zeros.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        assert_eq!(
            super::super::hex(&AuthenticationKey(key).code(&[b"Hi ", b"There"])),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
    }

    /// Runs `body` in a thread of its own, which has credentials of its own, in a session keyring
    /// as a login makes it.
    fn in_a_session(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // If a container's filter forbids the call, there is nothing to test.
                if keyctl(JOIN_SESSION_KEYRING, 0, 0, 0, 0).is_ok() {
                    body();
                }
            });
            thread.join().unwrap();
        });
    }

    /// A key of this name in the session keyring or the keyrings inside.
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
            // The user's own keys are still there. The cache's key is not, by name or by number,
            // and the old keyring can't be opened again.
            assert_eq!(find("a ticket"), Some(ticket));
            assert_eq!(find(NAME), None);
            assert!(keyctl(LINK, session, THE_SESSION, 0, 0).is_err());
            // No key can be added to the old keyring, and its permissions can't be changed.
            assert!(add(NAME, &[1; 32], session).is_err());
            assert!(keyctl(LINK, ticket, session, 0, 0).is_err());
            assert!(keyctl(SETPERM, session, 0x3f3f_0000, 0, 0).is_err());
            let all = std::fs::read_to_string("/proc/keys").unwrap_or_default();
            let seen = |number: i64| all.contains(&format!("{number:08x} "));
            assert!(seen(ticket) && !seen(number), "{all}");
            // The new session makes another key.
            let second = take().unwrap();
            assert_ne!(first.0, second.0);
        });
    }

    #[test]
    fn a_key_in_the_users_keyring_is_not_taken() {
        in_a_session(|| {
            const THE_USER: i64 = -4;
            // `pam_keyinit` does the same in every login.
            keyctl(LINK, THE_USER, THE_SESSION, 0, 0).unwrap();
            // A key as a command of an earlier login could add it. It is one keyring deeper,
            // because the user's keyring is shared with other programs of this machine.
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
        // Others can read it; its possessors can change it.
        for permissions in [0x1b02_0000, 0x3f00_0000] {
            in_a_session(|| {
                let session = keyctl(GET_KEYRING_ID, THE_SESSION, 0, 0, 0).unwrap();
                let planted = add(NAME, &[7; 32], session).unwrap();
                // Another keyring holds the key too, and would see new content.
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
            // As the keyring of a user without a login session.
            keyctl(SETPERM, session, 0x3f3f_0000, 0, 0).unwrap();
            let why = take().unwrap_err();
            assert!(why.contains("no login session"), "{why}");
        });
    }
}
