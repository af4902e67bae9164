//! Issues of GitHub, read over its API.

use std::time::Duration;

use serde_json::Value;

/// The variable with the address of another API than GitHub's own, for servers of a company.
const API: &str = "GITHUB_API_URL";
const TOKEN: &str = "GITHUB_TOKEN";
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const LIMIT: usize = 16 << 20;

/// An issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueSource {
    owner: String,
    repo: String,
    number: String,
}

impl IssueSource {
    /// The issue of an address of a web page.
    pub fn of_url(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("github.com/")?;
        let mut parts = rest.split('/');
        let (owner, repo) = (parts.next()?, parts.next()?);
        if parts.next()? != "issues" || owner.is_empty() || repo.is_empty() {
            return None;
        }
        let number = parts.next()?;
        let end = number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len());
        (end > 0).then(|| Self {
            owner: owner.to_owned(),
            repo: repo.to_owned(),
            number: number[..end].to_owned(),
        })
    }

    /// The name of its instance.
    pub fn id(&self) -> String {
        format!("{}__{}-i{}", self.owner, self.repo, self.number)
    }
}

/// The title and the text of an issue.
///
/// # Errors
/// A message with the remedy.
pub async fn read_issue(
    issue: &IssueSource,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let base = set(API).unwrap_or_else(|| "https://api.github.com".to_owned());
    let base = base.trim_end_matches('/');
    let IssueSource {
        owner,
        repo,
        number,
    } = issue;
    let url = format!("{base}/repos/{owner}/{repo}/issues/{number}");
    let tls = match base.starts_with("http:") {
        true => mswea_tls::trusting_nobody(),
        false => mswea_tls::trusting_roots(&|name| variable(name), &["h2", "http/1.1"]),
    }?;
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .timeout(PATIENCE)
        .build();
    let failed = |error: &dyn std::error::Error| {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            why = format!("{why}: {cause}");
            source = cause.source();
        }
        format!("the issue `{owner}/{repo}#{number}` can't be read from `{base}`: {why}")
    };
    let mut request = client
        .map_err(|error| failed(&error))?
        .get(&url)
        .header("accept", "application/vnd.github+json")
        .header("user-agent", "mswea-host");
    let token = set(TOKEN);
    if let Some(token) = &token {
        request = request.bearer_auth(token);
    }
    let mut response = request.send().await.map_err(|error| failed(&error))?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > LIMIT {
            return Err(format!("the issue `{owner}/{repo}#{number}` is too large"));
        }
    }
    if !status.is_success() {
        let remedy = match (status.as_u16(), &token) {
            (401, Some(_)) => "; the token in `GITHUB_TOKEN` is not accepted",
            (401 | 403 | 404 | 429, None) => {
                "; set `GITHUB_TOKEN`, which private repositories and many requests need"
            }
            (404, Some(_)) => "; correct the address, or let the token read the repository",
            _ => "",
        };
        return Err(format!(
            "`{base}` answers {} for the issue `{owner}/{repo}#{number}`{remedy}",
            status.as_u16()
        ));
    }
    let issue: Value = serde_json::from_slice(&body)
        .map_err(|error| format!("`{base}` answers no JSON for the issue: {error}"))?;
    let text = |key: &str| issue[key].as_str().unwrap_or_default().to_owned();
    Ok(format!("{}\n{}\n", text("title"), text("body")))
}
