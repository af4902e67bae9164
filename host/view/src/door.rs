//! Checks requests: only those that have the token and come from a page of this server are
//! answered.
//!
//! Any page in the user's browser can send requests to this machine, under any name that resolves
//! to it (DNS rebinding). So the name in `Host` must be an address or `localhost`, an `Origin` must
//! be the same, and the token is only in the address that the program has printed.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;

use hyper::header::{COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use mswea_executor::remote::AccessToken;

/// The result of the check.
pub(crate) enum DoorAnswer {
    /// The request is answered.
    Allowed,
    /// The request has the token in its address: the browser gets this cookie, and repeats the
    /// request without the token.
    Keeps(String),
    /// The request is refused, for this reason.
    Refused(&'static str),
}

/// The check of requests.
pub(crate) struct ViewDoor {
    token: AccessToken,
    /// The token as it is in the address.
    shown: String,
    /// The name of the cookie, which has the port: a browser shares cookies among all ports of a
    /// machine.
    cookie: String,
    /// The name in the address on which the server listens, if it is no IP address.
    name: Option<String>,
}

impl ViewDoor {
    /// A check with a new token. `listen`: the address as the user gave it.
    ///
    /// # Errors
    /// [`io::Error`] if the system provides no random bytes.
    pub(crate) fn new(listen: &str, port: u16) -> io::Result<Self> {
        let mut bytes = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = AccessToken::new(&shown).map_err(io::Error::other)?;
        let name = host_name(listen);
        Ok(Self {
            token,
            shown,
            cookie: format!("mswea-view-{port}"),
            name: Some(name.to_ascii_lowercase()).filter(|it| it.parse::<IpAddr>().is_err()),
        })
    }

    /// The token, for the address.
    pub(crate) fn token(&self) -> &str {
        &self.shown
    }

    /// Checks a request. `given`: the token in its address.
    pub(crate) fn check(&self, headers: &HeaderMap, given: Option<&str>) -> DoorAnswer {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else {
            return DoorAnswer::Refused("the request has to name one host");
        };
        if !self.is_ours(host) {
            return DoorAnswer::Refused(
                "this server is asked under its address, as it was printed, and under no other name",
            );
        }
        let is_same = |origin: &HeaderValue| {
            let origin = origin.to_str().ok();
            origin.and_then(|it| it.strip_prefix("http://")) == Some(host)
        };
        if !headers.get_all(ORIGIN).iter().all(is_same) {
            return DoorAnswer::Refused("another page may not ask this server");
        }
        let is_foreign = |from: &HeaderValue| !matches!(from.as_bytes(), b"same-origin" | b"none");
        if given.is_none() && headers.get_all("sec-fetch-site").iter().any(is_foreign) {
            return DoorAnswer::Refused("another page may not ask this server");
        }
        // The comparison is made even without a token, so that the time is the same.
        let is_given = self.token.is(given.unwrap_or_default().as_bytes());
        let is_kept = self.token.is(self.kept(headers).unwrap_or_default());
        match (is_given, is_kept) {
            (true, _) => DoorAnswer::Keeps(format!(
                "{}={}; Path=/; HttpOnly; SameSite=Strict",
                self.cookie, self.shown
            )),
            (false, true) => DoorAnswer::Allowed,
            (false, false) => DoorAnswer::Refused(
                "the token is missing or wrong: open the address that `mswea-host view` has printed",
            ),
        }
    }

    /// Whether a host name means this server and can't mean another machine. The port is not
    /// compared, because a tunnel may have another one.
    fn is_ours(&self, host: &str) -> bool {
        let name = host_name(host).to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || Some(name) == self.name
    }

    fn kept<'h>(&self, headers: &'h HeaderMap) -> Option<&'h [u8]> {
        let cookies = headers.get_all(COOKIE).iter();
        let mut cookies = cookies.flat_map(|all| all.as_bytes().split(|byte| *byte == b';'));
        cookies.find_map(|cookie| {
            let cookie = cookie.trim_ascii();
            let value = cookie.strip_prefix(self.cookie.as_bytes())?;
            value.strip_prefix(b"=")
        })
    }
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_name(address: &str) -> &str {
    if let Some(rest) = address.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match address.rsplit_once(':') {
        Some((name, _)) => name,
        None => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type DoorVector<'v> = (&'v [(&'static str, &'v str)], bool, &'v str);

    #[test]
    fn only_the_own_page_with_the_token_may_ask() {
        let door = ViewDoor::new("box.example:80", 80).unwrap();
        let token = door.token().to_owned();
        let cookie = format!("a=b; mswea-view-80={token}");
        let host = ("host", "127.0.0.1:80");
        let good = ("cookie", cookie.as_str());
        // The headers, whether the token is in the address, and the outcome.
        let vectors: [DoorVector<'_>; 16] = [
            (&[host], false, "refused"),
            (&[host], true, "keeps"),
            (&[host, good], false, "allowed"),
            (&[host, ("cookie", "mswea-view-80=x")], false, "refused"),
            (&[host, ("cookie", "mswea-view-80=")], false, "refused"),
            (&[good], false, "refused"),
            (&[("host", "localhost:1"), good], false, "allowed"),
            (&[("host", "LOCALHOST"), good], false, "allowed"),
            (&[("host", "[::1]:80"), good], false, "allowed"),
            (&[("host", "box.example:80"), good], false, "allowed"),
            (&[("host", "evil.example:80"), good], false, "refused"),
            (&[("host", "evil.example:80")], true, "refused"),
            (
                &[("host", "127.0.0.1.evil.example"), good],
                false,
                "refused",
            ),
            (
                &[host, good, ("origin", "http://127.0.0.1:80")],
                false,
                "allowed",
            ),
            (
                &[host, good, ("origin", "http://evil.example")],
                false,
                "refused",
            ),
            (
                &[host, good, ("sec-fetch-site", "cross-site")],
                false,
                "refused",
            ),
        ];
        for (headers, has_token, expected) in vectors {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_str(value).unwrap());
            }
            let found = match door.check(&map, has_token.then_some(&token)) {
                DoorAnswer::Allowed => "allowed",
                DoorAnswer::Keeps(_) => "keeps",
                DoorAnswer::Refused(_) => "refused",
            };
            assert_eq!(found, expected, "{headers:?} {has_token}");
        }
    }
}
