//! `actions.open_pr`: checks whether a pull request may be opened for an issue, and makes its text
//! and the request. The caller pushes the branch.

use serde_json::{Value, json};

use crate::github::IssueSource;
use crate::problem::short_hash;
use crate::web::{GithubApi, Variable};

/// The longest text of a pull request in characters: GitHub accepts 65,536.
const LONGEST: usize = 60_000;

/// A pull request that may be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenPullRequest {
    issue: IssueSource,
    title: String,
    /// The branch of the repository into which it is to be merged.
    pub base: String,
}

/// Checks whether a pull request may be opened for an issue. `skip_if_fixed`: not if a commit refers
/// to the issue.
///
/// # Errors
/// The reason why none may be opened; a message with the remedy if the API can't be read.
pub async fn pull_request_for(
    issue: &IssueSource,
    skip_if_fixed: bool,
    variable: Variable<'_>,
) -> Result<OpenPullRequest, String> {
    let api = GithubApi::of(variable);
    let found = issue.read(&api).await?;
    let words = issue.words();
    if found["state"] != "open" {
        let state = found["state"].as_str().unwrap_or("of no known state");
        return Err(format!("{words} is {state}"));
    }
    if let Some(who) = found["assignee"]["login"].as_str() {
        return Err(format!("{words} is assigned to `{who}`"));
    }
    if found["locked"] == true {
        return Err(format!("{words} is locked"));
    }
    if skip_if_fixed && let Some(commit) = fixing_commit(issue, &api).await? {
        let remedy = "set `actions.pr_config.skip_if_commits_reference_issue` to `false` to open one all the same";
        return Err(format!("the commit `{commit}` refers to {words}: {remedy}"));
    }
    let repository = api
        .get(issue.repository().as_str(), "the repository")
        .await?;
    Ok(OpenPullRequest {
        issue: issue.clone(),
        title: found["title"].as_str().unwrap_or_default().to_owned(),
        base: repository["default_branch"]
            .as_str()
            .unwrap_or("main")
            .to_owned(),
    })
}

/// A commit whose message says that it fixes the issue.
async fn fixing_commit(issue: &IssueSource, api: &GithubApi<'_>) -> Result<Option<String>, String> {
    let number = issue.number();
    let events = api
        .get(
            &format!("{}/events?per_page=100", issue.path()),
            "the issue's events",
        )
        .await?;
    for event in events.as_array().into_iter().flatten() {
        let Some(id) = event["commit_id"].as_str() else {
            continue;
        };
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            continue;
        }
        let path = format!("{}/commits/{id}", issue.repository());
        let commit = api.get(&path, "a commit of the issue").await?;
        let message = commit["commit"]["message"].as_str().unwrap_or_default();
        if refers(message, number) {
            return Ok(Some(id.to_owned()));
        }
    }
    Ok(None)
}

/// Whether a commit's message says that it fixes or closes this issue.
fn refers(message: &str, number: &str) -> bool {
    let message = message.to_lowercase();
    ["fixes", "closes"].iter().any(|word| {
        let wanted = format!("{word} #{number}");
        message.match_indices(&wanted).any(|(place, _)| {
            let after = message[place + wanted.len()..].chars().next();
            !after.is_some_and(|c| c.is_ascii_digit())
        })
    })
}

impl OpenPullRequest {
    /// The name of the branch. `unique` distinguishes it from others for the same issue.
    pub fn branch(&self, unique: &str) -> String {
        format!(
            "swe-agent-fix-#{}-{}",
            self.issue.number(),
            short_hash(unique)
        )
    }

    /// The message of the commit.
    pub fn commit_message(&self) -> String {
        format!("Fix: {}\n\nCloses #{}", self.title, self.issue.number())
    }

    /// Opens the pull request as a draft, for a branch that was pushed. Returns its URL.
    ///
    /// # Errors
    /// A message with the remedy if the API refuses.
    pub async fn open(
        &self,
        branch: &str,
        trajectory: &Value,
        variable: Variable<'_>,
    ) -> Result<String, String> {
        let given = json!({
            "title": format!("Fix: {}", self.title),
            "head": branch,
            "base": self.base,
            "body": self.body(trajectory),
            "draft": true,
        });
        let path = format!("{}/pulls", self.issue.repository());
        let api = GithubApi::of(variable);
        let made = api.post(&path, "the pull request", &given).await?;
        Ok(made["html_url"].as_str().unwrap_or_default().to_owned())
    }

    fn body(&self, trajectory: &Value) -> String {
        let number = self.issue.number();
        let mut text = format!(
            "An agent has made this draft for #{number}. Nobody has looked at it yet.\n\nCloses #{number}.\n\n\
             <details><summary>What the agent did</summary>\n"
        );
        let steps = trajectory["trajectory"].as_array().into_iter().flatten();
        for (place, step) in steps.enumerate() {
            let part = |key: &str| step[key].as_str().unwrap_or_default().replace("```", "");
            text.push_str(&format!(
                "\n**Step {place}**\n\n{}\n\n```\n{}\n```\n\n```\n{}\n```\n",
                part("thought").trim(),
                part("action").trim(),
                part("observation").trim(),
            ));
        }
        let end = "\n</details>\n";
        if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(cut);
            text.push_str("\n```\n\nThe rest is left out.\n");
        }
        text + end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_refer_to_their_issue_only() {
        for (message, expected) in [
            ("Fixes #5", true),
            ("it closes #5.", true),
            ("closes #51", false),
            ("fixes #51, fixes #5", true),
            ("see #5", false),
            ("", false),
        ] {
            assert_eq!(refers(message, "5"), expected, "{message}");
        }
    }

    #[test]
    fn a_long_trajectory_is_cut_and_fences_do_not_end_early() {
        let request = OpenPullRequest {
            issue: IssueSource::of_url("https://github.com/o/r/issues/5").unwrap(),
            title: "t".to_owned(),
            base: "main".to_owned(),
        };
        let step = json!({"thought": "why", "action": "ls", "observation": "a\n```\nb"});
        let body = request.body(&json!({"trajectory": [step]}));
        assert!(body.contains("```\na\n\nb\n```"), "{body}");
        let long = json!({"thought": "", "action": "", "observation": "é".repeat(90_000)});
        let body = request.body(&json!({"trajectory": [long]}));
        assert!(body.chars().count() < 65_536 && body.ends_with("</details>\n"));
        assert_eq!(request.branch("abc"), "swe-agent-fix-#5-ba7816");
    }
}
