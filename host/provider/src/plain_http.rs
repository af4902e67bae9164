//! Decides where a key may be sent over plain `http`, which can be read along the route.
//!
//! To this machine: always. To a *near* address, one whose form shows that it is in the user's own
//! network: if the user set it as a base URL. To any other host: only if `model.plain_http_hosts`
//! names it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Suffixes of names that are reserved for private networks: ICANN's `.internal`
/// (`host.docker.internal`), RFC 6762, RFC 8375, RFC 6761.
const PRIVATE_SUFFIXES: [&str; 4] = [".internal", ".local", ".home.arpa", ".localhost"];

/// Whether `url` leads to a near address: a private or link-local one, a name of one label, a name
/// with a suffix for private networks, or this machine's own name.
#[must_use]
pub fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => is_near_v4(ip),
        Some(Host::Ipv6(ip)) => is_near_v6(ip),
        Some(Host::Domain(name)) => is_near_name(name, &own_name()),
        None => false,
    }
}

/// Whether what is sent to `url` stays on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => {
            ip.is_loopback()
                || ip
                    .to_ipv4_mapped()
                    .is_some_and(|ip| IpAddr::from(ip).is_loopback())
        }
        // Without `*.localhost`: some resolvers send queries for such names to the network.
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        None => false,
    }
}

fn is_near_v4(ip: Ipv4Addr) -> bool {
    // A connection to the unspecified address (0.0.0.0) stays on this machine; servers print this
    // address as their own.
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
}

fn is_near_v6(ip: Ipv6Addr) -> bool {
    match ip.to_ipv4_mapped() {
        Some(ip) => is_near_v4(ip),
        None => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
        }
    }
}

fn is_near_name(name: &str, own: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A trailing dot makes a name absolute: `ai.` is a host of the internet.
    (!name.is_empty() && !name.contains('.'))
        || PRIVATE_SUFFIXES.iter().any(|suffix| {
            let rest = name.trim_end_matches('.').strip_suffix(suffix);
            rest.is_some_and(|rest| !rest.is_empty())
        })
        || (!own.is_empty() && name == own.to_ascii_lowercase())
}

fn own_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far() {
        for (target, loopback, near) in [
            ("http://localhost:1/", true, true),
            ("http://a.localhost/", false, true),
            ("http://127.0.0.1/", true, true),
            ("http://127.9.9.9/", true, true),
            ("http://[::1]/", true, true),
            ("http://[::ffff:127.0.0.1]/", true, true),
            ("http://0.0.0.0:8000/", false, true),
            ("http://10.0.0.1/", false, true),
            ("http://172.16.3.4:8000/v1", false, true),
            ("http://192.168.1.7/", false, true),
            ("http://169.254.3.4/", false, true),
            ("http://[fd00::1]/", false, true),
            ("http://[fe80::1]/", false, true),
            ("http://[::ffff:10.0.0.1]/", false, true),
            ("http://node17:8000/v1", false, true),
            ("http://host.docker.internal:8000/v1", false, true),
            ("http://vllm.default.svc.cluster.local/", false, true),
            ("http://Server.Local/", false, true),
            ("http://router.home.arpa/", false, true),
            ("http://172.32.0.1/", false, false),
            ("http://100.64.0.1/", false, false),
            ("http://8.8.8.8/", false, false),
            ("http://[2001:db8::1]/", false, false),
            ("http://[::ffff:8.8.8.8]/", false, false),
            ("http://ai./", false, false),
            ("http://example.com/", false, false),
            ("http://localhost.evil.com/", false, false),
            ("http://127.0.0.1.evil.com/", false, false),
            ("http://10.0.0.1.nip.io/", false, false),
            ("http://internal.example.com/", false, false),
            ("http://docker-internal.com/", false, false),
        ] {
            let url: Url = target.parse().unwrap();
            assert_eq!(is_loopback(&url), loopback, "{target}");
            assert_eq!(is_near(&url), near, "{target}");
        }
        let own = "login1.cluster.example.edu";
        assert!(is_near_name("LOGIN1.cluster.example.edu", own));
        assert!(!is_near_name("login1.evil.com", own));
        assert!(!is_near_name("login2.cluster.example.edu", own));
        assert!(!is_near_name("example.com", ""));
    }
}
