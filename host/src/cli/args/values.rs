//! Parsers of single flag values in which a typing error would otherwise be found much later.

/// An `http:` or `https:` URL with a host.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    const EXAMPLE: &str = "for example `http://127.0.0.1:8000/v1`";
    let url =
        url::Url::parse(text).map_err(|error| format!("{error}: give a whole URL, {EXAMPLE}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "`{}:` is neither `http:` nor `https:`: give a whole URL, {EXAMPLE}",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a password in the URL would be written to the trajectory: put it into the model's key instead"
            .to_owned());
    }
    Ok(text.to_owned())
}

/// The name and the value of a header.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("give the name and the value of a header, for example `X-Session-ID=s1`")?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err("the name of a header has letters, digits and `-`".to_owned());
    }
    if !value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err("the value of a header has only printable ASCII characters".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `host` or `host:port`.
pub(super) fn host(text: &str) -> Result<String, String> {
    let what = "give `host` or `host:port`, without scheme and path";
    if let Ok(url) = url::Url::parse(text)
        && text.contains("://")
        && let Some(host) = url.host_str()
    {
        let port = url
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        return Err(format!("{what}: `{host}{port}`"));
    }
    match url::Url::parse(&format!("http://{text}/")) {
        Ok(url)
            if url.path() == "/"
                && url.query().is_none()
                && url.fragment().is_none()
                && url.username().is_empty()
                && !text.ends_with('/')
                && !text.contains(char::is_whitespace) =>
        {
            Ok(text.to_ascii_lowercase())
        }
        _ => Err(format!("this is not a host: {what}")),
    }
}

/// Dollars: zero or more.
pub(super) fn dollars(text: &str) -> Result<f64, String> {
    match text.strip_prefix('$').unwrap_or(text).parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        Ok(amount) if amount < 0.0 => {
            Err("the amount can't be negative: 0 means no limit".to_owned())
        }
        _ => Err("give dollars as a number, for example `2.50`; 0 means no limit".to_owned()),
    }
}

/// A whole number: zero or more.
pub(super) fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        let most = u32::MAX;
        format!("give a whole number from 0 to {most}; 0 means no limit")
    })
}

/// The number of a step: zero or more.
pub(super) fn step(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        "give a step of the run as a whole number; 0 is before the first one".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for good in [
            "http://127.0.0.1:8000/v1",
            "https://api.openai.com/v1",
            "http://[::1]:80",
        ] {
            assert_eq!(base_url(good).unwrap(), good);
        }
        let bad = [
            ("127.0.0.1:8000/v1", "whole URL"),
            ("localhost:8000", "neither `http:` nor `https:`"),
            ("file:///etc", "neither `http:` nor `https:`"),
            ("https://user:pass@host/v1", "password"),
            ("", "whole URL"),
            ("http://", "whole URL"),
        ];
        for (text, part) in bad {
            let message = base_url(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn hosts() {
        let good = [
            ("api.example.com", "api.example.com"),
            ("API.Example.com:8443", "api.example.com:8443"),
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("[::1]:8000", "[::1]:8000"),
        ];
        for (text, expected) in good {
            assert_eq!(host(text).unwrap(), expected);
        }
        let bad = [
            ("https://api.example.com:8443/v1", "`api.example.com:8443`"),
            ("https://api.example.com", "`api.example.com`"),
            ("example.com/v1", "not a host"),
            ("example.com/", "not a host"),
            ("a b", "not a host"),
            (" a", "not a host"),
            ("", "not a host"),
            ("host:port", "not a host"),
            ("u@host", "not a host"),
        ];
        for (text, part) in bad {
            let message = host(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(dollars("2.5"), Ok(2.5));
        assert_eq!(dollars("$3"), Ok(3.0));
        assert_eq!(dollars("0"), Ok(0.0));
        for bad in ["-1", "nan", "inf", "1,5", ""] {
            assert!(dollars(bad).unwrap_err().contains("0 means no limit"));
        }
        assert_eq!(count("0"), Ok(0));
        for bad in ["-1", "1.5", "5000000000", "ten"] {
            assert!(count(bad).unwrap_err().contains("whole number"));
        }
    }
}
