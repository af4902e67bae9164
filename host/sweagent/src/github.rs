//! Issues of GitHub, read over its API.

use serde_json::Value;

use crate::web::{GithubApi, Variable};

/// An issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueSource {
    owner: String,
    repo: String,
    number: String,
}

impl IssueSource {
    /// The issue with this URL of a web page.
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

    /// The issue's path in the API.
    pub(crate) fn path(&self) -> String {
        let number = &self.number;
        format!("{}/issues/{number}", self.repository())
    }

    /// The path of its repository in the API.
    pub(crate) fn repository(&self) -> String {
        format!("/repos/{}", self.repository_name())
    }

    /// The name of its repository, `OWNER/NAME`.
    pub fn repository_name(&self) -> String {
        format!("{}/{}", self.owner, self.repo)
    }

    /// Its number.
    pub(crate) fn number(&self) -> &str {
        &self.number
    }

    /// The issue for messages.
    pub(crate) fn words(&self) -> String {
        format!("the issue `{}/{}#{}`", self.owner, self.repo, self.number)
    }

    /// Reads the issue over the API.
    pub(crate) async fn read(&self, api: &GithubApi<'_>) -> Result<Value, String> {
        api.get(&self.path(), &self.words()).await
    }

    /// The id of its instance.
    pub fn id(&self) -> String {
        format!("{}__{}-i{}", self.owner, self.repo, self.number)
    }
}

/// The title and the text of an issue.
///
/// # Errors
/// A message with the remedy if the issue can't be read.
pub async fn read_issue(issue: &IssueSource, variable: Variable<'_>) -> Result<String, String> {
    let issue = issue.read(&GithubApi::of(variable)).await?;
    let text = |key: &str| issue[key].as_str().unwrap_or_default().to_owned();
    Ok(format!("{}\n{}\n", text("title"), text("body")))
}
