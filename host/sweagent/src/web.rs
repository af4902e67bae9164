//! Requests to GitHub's API and for images: one client, bounded answers, errors in words.

use std::time::Duration;

use serde_json::Value;

/// The variable with the URL of another API than GitHub's own, for servers of a company.
const API: &str = "GITHUB_API_URL";
const TOKEN: &str = "GITHUB_TOKEN";
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const LIMIT: usize = 16 << 20;

/// Looks up a variable of this process.
pub(crate) type Variable<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The token for GitHub, if there is one. A file from which it was read may have ended with a line end.
pub fn github_token(variable: Variable<'_>) -> Option<String> {
    let token = variable(TOKEN)?.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

/// A client for this URL: without trusted certificates if TLS is not used.
pub(crate) fn client(url: &str, variable: Variable<'_>) -> Result<reqwest::Client, String> {
    let tls = match url.starts_with("http:") {
        true => mswea_tls::trusting_nobody(),
        false => mswea_tls::trusting_roots(&|name| variable(name), &["h2", "http/1.1"]),
    }?;
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .timeout(TIME_LIMIT)
        .build();
    client.map_err(|error| in_words(&error))
}

/// The messages of an error and its causes.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    why
}

/// The body of an answer; none if it is larger than `limit`.
pub(crate) async fn body(
    response: &mut reqwest::Response,
    limit: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| in_words(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > limit {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// The host of the repositories that belong to the API, and its port if it is not the default one;
/// none if the API's URL is invalid.
pub fn github_server(variable: Variable<'_>) -> Option<(String, Option<u16>)> {
    let base = reqwest::Url::parse(&GithubApi::of(variable).base).ok()?;
    let host = base.host_str()?;
    // Servers of a company have the API below their own host name.
    let is_githubs = |rest: &&str| *rest == "github.com" || rest.ends_with(".ghe.com");
    let server = host.strip_prefix("api.").filter(is_githubs);
    Some((server.unwrap_or(host).to_owned(), base.port()))
}

/// GitHub's API.
pub(crate) struct GithubApi<'v> {
    base: String,
    pub(crate) token: Option<String>,
    variable: Variable<'v>,
}

impl<'v> GithubApi<'v> {
    /// The API that the variables configure.
    pub(crate) fn of(variable: Variable<'v>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let base = set(API).unwrap_or_else(|| "https://api.github.com".to_owned());
        Self {
            base: base.trim_end_matches('/').to_owned(),
            token: github_token(variable),
            variable,
        }
    }

    /// Reads `path`; `what` is its name in errors.
    ///
    /// # Errors
    /// A message with the remedy if the request fails, or the API refuses.
    pub(crate) async fn get(&self, path: &str, what: &str) -> Result<Value, String> {
        self.send(path, what, None).await
    }

    /// Posts `given` to `path`.
    ///
    /// # Errors
    /// A message with the remedy in the cases of [`Self::get`].
    pub(crate) async fn post(
        &self,
        path: &str,
        what: &str,
        given: &Value,
    ) -> Result<Value, String> {
        self.send(path, what, Some(given)).await
    }

    async fn send(&self, path: &str, what: &str, given: Option<&Value>) -> Result<Value, String> {
        let (base, url) = (&self.base, format!("{}{path}", self.base));
        let doing = match given {
            None => "read from",
            Some(_) => "made at",
        };
        let failed = |why: String| format!("{what} can't be {doing} `{base}`: {why}");
        let client = client(base, self.variable).map_err(failed)?;
        let mut request = match given {
            None => client.get(&url),
            Some(given) => client
                .post(&url)
                .header("content-type", "application/json")
                .body(given.to_string()),
        };
        request = request
            .header("accept", "application/vnd.github+json")
            .header("user-agent", "mswea-host");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|error| failed(in_words(&error)))?;
        let status = response.status();
        let body = body(&mut response, LIMIT).await.map_err(failed)?;
        let body = body.ok_or_else(|| format!("{what} is too large"))?;
        if !status.is_success() {
            let remedy = match (status.as_u16(), &self.token) {
                (401, Some(_)) => "; the token in `GITHUB_TOKEN` is not accepted",
                (401 | 403 | 404 | 429, None) => {
                    "; set `GITHUB_TOKEN`, which private repositories and many requests need"
                }
                (403 | 404, Some(_)) => {
                    "; correct the address, or let the token read (and write) the repository"
                }
                _ => "",
            };
            let status = status.as_u16();
            return Err(format!("`{base}` answers {status} for {what}{remedy}"));
        }
        serde_json::from_slice(&body)
            .map_err(|error| format!("`{base}` answers no JSON for {what}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_follows_from_the_api() {
        for (api, expected) in [
            ("", Some(("github.com", None))),
            ("https://api.github.com/", Some(("github.com", None))),
            ("https://api.mine.ghe.com", Some(("mine.ghe.com", None))),
            ("https://git.mine.org/api/v3", Some(("git.mine.org", None))),
            ("https://api.mine.org:81", Some(("api.mine.org", Some(81)))),
            ("mine", None),
        ] {
            let found = github_server(&|name| (name == API).then(|| api.to_owned()));
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(found, expected, "{api}");
        }
    }
}
