//! Which proxy a request goes through, by the variables that users know: `HTTPS_PROXY`,
//! `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, lower case first where both are set.
//!
//! This is done here and not by the HTTP client, so that a bad value is an error and not ignored,
//! that messages can name the proxy, and that requests to this machine never leave it: a key may go
//! to a local server over plain http only because no other machine is in between.

use std::net::IpAddr;

use url::{Host, Url};

use super::EnvironmentLookup;
use super::plain_http::{is_loopback, is_near};

/// A proxy and the variable that names it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    /// Its address, with user name and password if it has them.
    pub url: Url,
    /// The variable that names it.
    pub variable: &'static str,
}

impl Proxy {
    /// Its address without credentials, for messages.
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        // Both calls fail only for URLs without a host, which `parse` refuses.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let text = url.as_str().trim_end_matches('/');
        format!("`{text}` (from `{}`)", self.variable)
    }
}

/// The proxy for `target`, if any. Requests to a near address over plain `http` do not go through a
/// proxy that is not near itself.
///
/// # Errors
/// A message if the variable's value is not a proxy address.
pub(super) fn for_url(
    environment: &EnvironmentLookup,
    target: &Url,
) -> Result<Option<Proxy>, String> {
    if is_loopback(target) {
        return Ok(None);
    }
    let names: [&'static str; 4] = if target.scheme() == "https" {
        ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let get = |name: &str| {
        environment(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let Some((variable, value)) = names.into_iter().find_map(|name| Some((name, get(name)?)))
    else {
        return Ok(None);
    };
    if let Some(list) = get("no_proxy").or_else(|| get("NO_PROXY"))
        && is_exempt(&list, target)
    {
        return Ok(None);
    }
    let url = parse(&value).ok_or_else(|| {
        format!(
            "the value of `{variable}` is not a proxy address: write `http://host:port`, \
             `https://host:port`, `socks5://host:port` or `socks5h://host:port`"
        )
    })?;
    // A request to a near address may carry a key in clear text, which a proxy outside the user's
    // network must not read.
    if target.scheme() == "http" && is_near(target) && !is_near(&url) {
        return Ok(None);
    }
    Ok(Some(Proxy { url, variable }))
}

fn parse(value: &str) -> Option<Url> {
    let url = if value.contains("://") {
        Url::parse(value)
    } else {
        Url::parse(&format!("http://{value}"))
    }
    .ok()?;
    let known = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];
    (known.contains(&url.scheme()) && url.host_str().is_some_and(|host| !host.is_empty()))
        .then_some(url)
}

/// Whether `NO_PROXY` names the host of `url`: `*`, a domain (which includes its subdomains,
/// with or without a leading dot), an address, a CIDR block; each with an optional port.
fn is_exempt(list: &str, url: &Url) -> bool {
    let address = match url.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        _ => None,
    };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    list.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| {
            if entry == "*" {
                return true;
            }
            if let Some(address) = address {
                return covers(entry, address, url.port_or_known_default());
            }
            let (name, port) = match entry.rsplit_once(':') {
                Some((name, port)) => (name, port.parse().ok()),
                None => (entry, None),
            };
            if port.is_some() && port != url.port_or_known_default() {
                return false;
            }
            let name = name
                .trim_start_matches("*.")
                .trim_matches('.')
                .to_ascii_lowercase();
            !name.is_empty()
                && host
                    .strip_suffix(&name)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

fn covers(entry: &str, address: IpAddr, target_port: Option<u16>) -> bool {
    let unbracket = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    if let Some((network, bits)) = entry.split_once('/') {
        let (Some(network), Ok(bits)) = (unbracket(network), bits.parse::<u32>()) else {
            return false;
        };
        return match (network, address) {
            (IpAddr::V4(net), IpAddr::V4(ip)) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        };
    }
    if let Some(exact) = unbracket(entry) {
        return exact == address;
    }
    entry.rsplit_once(':').is_some_and(|(host, port)| {
        unbracket(host) == Some(address) && port.parse().ok() == target_port
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn choice() {
        let p = |text: &str| Some(text.to_owned());
        for (variables, target, expected) in [
            (&[][..], "https://a.com/", None),
            (
                &[("HTTPS_PROXY", "http://p:1")],
                "https://a.com/",
                p("`http://p:1` (from `HTTPS_PROXY`)"),
            ),
            (&[("HTTPS_PROXY", "http://p:1")], "http://a.com/", None),
            (
                &[("HTTP_PROXY", "p:1")],
                "http://a.com/",
                p("`http://p:1` (from `HTTP_PROXY`)"),
            ),
            (
                &[("https_proxy", "http://q:1"), ("HTTPS_PROXY", "http://p:1")],
                "https://a.com/",
                p("`http://q:1` (from `https_proxy`)"),
            ),
            (
                &[("all_proxy", "socks5h://p:1")],
                "https://a.com/",
                p("`socks5h://p:1` (from `all_proxy`)"),
            ),
            (
                &[("ALL_PROXY", "http://p"), ("HTTP_PROXY", " ")],
                "http://a.com/",
                p("`http://p` (from `ALL_PROXY`)"),
            ),
            // credentials are not shown
            (
                &[("HTTPS_PROXY", "http://me:hidden@p:1/")],
                "https://a.com/",
                p("`http://p:1` (from `HTTPS_PROXY`)"),
            ),
            // plain http to a near address does not go through a proxy that is not near
            (
                &[("HTTP_PROXY", "http://proxy.example.com:3128")],
                "http://node17:8000/v1",
                None,
            ),
            (
                &[("ALL_PROXY", "http://93.184.216.34:3128")],
                "http://10.9.8.7/v1",
                None,
            ),
            (
                &[("HTTP_PROXY", "http://10.0.0.1:3128")],
                "http://node17:8000/v1",
                p("`http://10.0.0.1:3128` (from `HTTP_PROXY`)"),
            ),
            (
                &[("HTTPS_PROXY", "http://proxy.example.com:3128")],
                "https://node17:8000/v1",
                p("`http://proxy.example.com:3128` (from `HTTPS_PROXY`)"),
            ),
            // this machine is never reached through a proxy
            (
                &[("ALL_PROXY", "http://p:1")],
                "http://127.0.0.1:8000/",
                None,
            ),
            (&[("ALL_PROXY", "http://p:1")], "http://localhost/", None),
            (
                &[("ALL_PROXY", "http://p:1"), ("NO_PROXY", "b.com, .a.com")],
                "https://x.a.com/",
                None,
            ),
            (
                &[("ALL_PROXY", "http://p:1"), ("no_proxy", "a.com")],
                "https://A.com/",
                None,
            ),
        ] {
            let variables = variables.to_vec();
            let environment: EnvironmentLookup = Arc::new(move |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            let found = for_url(&environment, &target.parse().unwrap()).unwrap();
            assert_eq!(found.map(|proxy| proxy.shown()), expected, "{target}");
        }
        for bad in ["ftp://p:1", "http://", "://", "http://me:hidden@", "p:x"] {
            let environment: EnvironmentLookup =
                Arc::new(|name| (name == "HTTPS_PROXY").then(|| bad.to_owned()));
            let error = for_url(&environment, &"https://a.com".parse().unwrap());
            let Err(error) = error else { panic!("{bad}") };
            assert!(
                error.contains("`HTTPS_PROXY`") && !error.contains("hidden"),
                "{error}"
            );
        }
    }

    #[test]
    fn exemptions() {
        for (list, target, expected) in [
            ("*", "https://a.com/", true),
            ("a.com", "https://a.com/", true),
            ("a.com", "https://b.a.com/", true),
            ("a.com", "https://ba.com/", false),
            ("*.a.com", "https://b.a.com/", true),
            ("a.com:443", "https://a.com/", true),
            ("a.com:8443", "https://a.com/", false),
            ("10.0.0.1", "http://10.0.0.1/", true),
            ("10.0.0.0/8", "http://10.9.9.9/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("0.0.0.0/0", "http://11.0.0.1/", true),
            ("10.0.0.1:80", "http://10.0.0.1/", true),
            ("10.0.0.1:81", "http://10.0.0.1/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("[fd12::1]:80", "http://[fd12::1]/", true),
            ("fd12::1", "http://[fd12::1]:9/", true),
            ("0.1", "http://10.0.0.1/", false),
            ("b.com c.com,,a.com", "https://a.com/", true),
            ("", "https://a.com/", false),
        ] {
            let target = target.parse().unwrap();
            assert_eq!(is_exempt(list, &target), expected, "{list} {target}");
        }
    }
}
