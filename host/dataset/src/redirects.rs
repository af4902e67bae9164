//! Which redirects are followed: the Hub may redirect to the servers of its files, but to no server
//! that only this machine or its network can reach.

use std::net::IpAddr;

use reqwest::redirect::Policy;
use url::{Host, Url};

/// The most redirects of one request.
const MOST: usize = 10;

/// The redirects that are followed from a Hub at this address.
pub(crate) fn of(endpoint: &Url) -> Policy {
    let may_own = is_own(endpoint);
    Policy::custom(move |attempt| {
        let from = attempt.previous().last();
        let why = refused(may_own, from, attempt.url(), attempt.previous().len());
        match why {
            Some(why) => attempt.error(why),
            None => attempt.follow(),
        }
    })
}

fn refused(may_own: bool, from: Option<&Url>, to: &Url, count: usize) -> Option<&'static str> {
    if count > MOST {
        return Some("it redirects too often");
    }
    if from.is_some_and(|from| from.scheme() == "https") && to.scheme() != "https" {
        return Some("it redirects from HTTPS to an address without");
    }
    if !may_own && (is_own(to) || is_link_local(to)) {
        return Some("it redirects to an address of this machine or of its own network link");
    }
    None
}

/// Whether the address is on this machine.
pub(crate) fn is_own(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        _ => address(url).is_some_and(|it| it.is_loopback() || it.is_unspecified()),
    }
}

/// Whether an address is link-local: services of clouds that give out keys have such addresses.
fn is_link_local(url: &Url) -> bool {
    address(url).is_some_and(|address| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    })
}

fn address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
        Host::Domain(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_redirect_may_lead() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (endpoint, from, to, is_followed) in [
            ("https://hub", "https://hub/a", "https://files.hub/b", true),
            ("https://hub", "https://hub/a", "http://files.hub/b", false),
            ("http://hub", "http://hub/a", "https://files.hub/b", true),
            ("http://hub", "http://hub/a", "http://10.0.0.1/b", true),
            ("https://hub", "https://hub/a", "https://localhost/b", false),
            (
                "https://hub",
                "https://hub/a",
                "https://a.localhost./b",
                false,
            ),
            (
                "http://hub",
                "http://hub/a",
                "http://169.254.169.254/b",
                false,
            ),
            ("http://hub", "http://hub/a", "http://0xa9fea9fe/b", false),
            (
                "http://hub",
                "http://hub/a",
                "http://[::ffff:169.254.169.254]/b",
                false,
            ),
            ("http://hub", "http://hub/a", "http://[fe80::1]/b", false),
            ("http://hub", "http://hub/a", "http://[::1]/b", false),
            ("http://hub", "http://hub/a", "http://0.0.0.0/b", false),
            (
                "http://127.0.0.1:1",
                "http://127.0.0.1:1/a",
                "http://127.0.0.1:2/b",
                true,
            ),
        ] {
            let why = refused(is_own(&url(endpoint)), Some(&url(from)), &url(to), 1);
            assert_eq!(why.is_none(), is_followed, "{from} {to}: {why:?}");
        }
        assert!(refused(true, None, &url("http://hub"), MOST + 1).is_some());
    }
}
