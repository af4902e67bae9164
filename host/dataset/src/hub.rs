//! The Hugging Face Hub, or a mirror of it: lists a data set's files, and fetches those of a split
//! into a cache. Files in the cache are used again, also without a network.
//!
//! The cache has a folder per repository with one folder per commit, whose files never change, and the
//! Hub's last answer (`listing.json`), which names the newest commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, RequestBuilder, Response};

use crate::download::{self, FileAt, TRIES};
use crate::error::DatasetError;
use crate::file_rows::LIMIT;
use crate::listing::RepoListing;
use crate::redirects::{self, is_own};

/// The address of the Hub, if `HF_ENDPOINT` names no mirror.
const ENDPOINT: &str = "https://huggingface.co";
/// The branch that is fetched.
const REVISION: &str = "main";
const CONNECT: Duration = Duration::from_secs(20);
/// How long a server may send nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// The largest list of files that is read.
const LIST: usize = 64 << 20;

/// The characters that are not escaped in a URL's path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The server from which data sets are fetched, and the folder in which they are kept.
#[derive(Debug)]
pub struct Hub {
    endpoint: String,
    token: Option<String>,
    cache: PathBuf,
    is_offline: bool,
    client: Client,
}

impl Hub {
    /// The Hub as the variables of the `huggingface_hub` library configure it: `HF_ENDPOINT`,
    /// `HF_TOKEN` (or `HUGGING_FACE_HUB_TOKEN`, or the file that `HF_TOKEN_PATH` or `HF_HOME`
    /// names) and `HF_HUB_OFFLINE`. Fetched files are stored in the folder `cache`.
    ///
    /// # Errors
    /// [`DatasetError::Refused`] if the certificates or the address can't be used.
    pub fn new(
        variable: &dyn Fn(&str) -> Option<String>,
        cache: PathBuf,
    ) -> Result<Self, DatasetError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim().trim_end_matches('/').to_owned();
        let url = url::Url::parse(&endpoint).ok();
        let Some(url) = url.filter(|url| ["http", "https"].contains(&url.scheme())) else {
            return Err(DatasetError::Refused(format!(
                "`HF_ENDPOINT` is `{endpoint}`, which is no address: write it as `{ENDPOINT}`"
            )));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(DatasetError::Refused(
                "`HF_ENDPOINT` has a user's name or a password in it, which messages would show: give a token in `HF_TOKEN`"
                    .to_owned(),
            ));
        }
        let tls = match url.scheme() {
            "http" => mswea_tls::trusting_nobody(),
            _ => mswea_tls::trusting_roots(variable, &["h2", "http/1.1"]),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls.map_err(DatasetError::Refused)?)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(redirects::of(&url))
            .user_agent("mswea-host")
            .build()
            .map_err(|error| {
                DatasetError::Refused(format!("no HTTP client can be made: {error}"))
            })?;
        let is_yes = |value: String| ["1", "true", "yes", "on"].contains(&&*value.to_lowercase());
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN"));
        Ok(Self {
            endpoint,
            token: token
                .or_else(|| token_file(&set))
                .map(|it| it.trim().to_owned()),
            cache,
            is_offline: set("HF_HUB_OFFLINE").is_some_and(is_yes),
            client,
        })
    }

    /// Fetches the files of a split, from this configuration of the data set or the default one.
    /// `said` gets messages about the progress.
    ///
    /// # Errors
    /// [`DatasetError`] if the Hub has no such data set or split, or if it can't be reached and the cache
    /// does not hold the data set.
    pub async fn fetch(
        &self,
        repo: &str,
        config: Option<&str>,
        split: &str,
        said: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<PathBuf>, DatasetError> {
        let folder = self.cache.join(repo.replace('/', "--"));
        let listing = self.listing(repo, &folder, said).await?;
        let files = listing.files(split, config).map_err(|reason| {
            DatasetError::Refused(format!("the data set `{repo}` can't be used: {reason}"))
        })?;
        let of_commit = folder.join(&listing.sha);
        let mut paths = Vec::new();
        let mut wanted = Vec::new();
        for file in files {
            if file.size.is_some_and(|size| size > LIMIT) {
                return Err(download::too_large(&file.path));
            }
            let path = of_commit.join(&file.path);
            let size = fs::metadata(&path).ok().map(|it| it.len());
            if size.is_none() || file.size.is_some_and(|it| Some(it) != size) {
                wanted.push((file, path.clone()));
            }
            paths.push(path);
        }
        if wanted.is_empty() {
            return Ok(paths);
        }
        if self.is_offline {
            return Err(DatasetError::Unreachable(format!(
                "the split `{split}` of `{repo}` is not in the cache, and `HF_HUB_OFFLINE` forbids to fetch it: run it once without"
            )));
        }
        let sizes = wanted.iter().filter_map(|(file, _)| file.size);
        let bytes = sizes.fold(0, u64::saturating_add);
        #[allow(clippy::cast_precision_loss)]
        let size = bytes as f64 / 1e6;
        said(&format!(
            "fetching `{repo}` ({split}: {} files, {size:.1} MB) from {} into `{}`",
            wanted.len(),
            self.endpoint,
            folder.display()
        ));
        for (file, path) in wanted {
            let place = utf8_percent_encode(&file.path, PATH);
            let url = format!(
                "{}/datasets/{repo}/resolve/{}/{place}",
                self.endpoint, listing.sha
            );
            let at = FileAt {
                url,
                path: &path,
                size: file.size,
                sha256: file.lfs.and_then(|it| it.sha256),
            };
            download::fetch(&|url| self.get(url), &at, |status, url| {
                self.refused(status, repo, url)
            })
            .await?;
        }
        Ok(paths)
    }

    /// The newest list of the repository's files, or the one in the cache if the Hub can't be reached.
    async fn listing(
        &self,
        repo: &str,
        folder: &Path,
        said: &(dyn Fn(&str) + Sync),
    ) -> Result<RepoListing, DatasetError> {
        let kept = folder.join("listing.json");
        let of_cache = || {
            let text = fs::read(&kept).ok()?;
            serde_json::from_slice::<RepoListing>(&text)
                .ok()
                .filter(|it| is_commit(&it.sha))
        };
        if self.is_offline {
            return of_cache().ok_or_else(|| {
                DatasetError::Unreachable(format!(
                    "the data set `{repo}` is not in the cache `{}`, and `HF_HUB_OFFLINE` forbids to fetch it: run it once without",
                    folder.display()
                ))
            });
        }
        let url = format!(
            "{}/api/datasets/{repo}/revision/{REVISION}?blobs=true",
            self.endpoint
        );
        let answer = match self.list(&url, repo).await {
            Ok(answer) => answer,
            Err(DatasetError::Unreachable(reason)) => {
                return match of_cache() {
                    Some(listing) => {
                        said(&format!(
                            "{reason}; the data set is used as it is in the cache"
                        ));
                        Ok(listing)
                    }
                    None => Err(DatasetError::Unreachable(reason)),
                };
            }
            Err(error) => return Err(error),
        };
        let listing: Result<RepoListing, _> = mswea_text::read_json(&answer);
        let why = match listing {
            Ok(listing) if is_commit(&listing.sha) => {
                let made = fs::create_dir_all(folder).map_err(DatasetError::io("make", folder));
                // The files may still be in a cache to which this process can't write.
                if let Err(error) = made.and_then(|()| download::replace(&kept, &answer)) {
                    said(&format!("{error}; the list of the data set is not kept"));
                }
                return Ok(listing);
            }
            Ok(_) => "it names no commit".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(DatasetError::Unreachable(format!(
            "`{}` does not answer as the Hub does for the data set `{repo}`: {why}; `HF_ENDPOINT` names another address",
            self.endpoint
        )))
    }

    async fn list(&self, url: &str, repo: &str) -> Result<Vec<u8>, DatasetError> {
        let mut wait = Duration::from_millis(500);
        let mut number = 0;
        loop {
            number += 1;
            let fault = match self.list_once(url).await {
                Ok(answer) => return Ok(answer),
                Err(ListFault::Status(status)) if status < 500 && status != 429 => {
                    return Err(self.refused(status, repo, url));
                }
                Err(ListFault::Status(status)) => self.refused(status, repo, url),
                Err(ListFault::Network(why)) => DatasetError::Unreachable(format!(
                    "`{}` can't be reached for the data set `{repo}`: {why}",
                    self.endpoint
                )),
            };
            if number == TRIES {
                return Err(fault);
            }
            tracing::info!("listing again: {fault}");
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
    }

    async fn list_once(&self, url: &str) -> Result<Vec<u8>, ListFault> {
        let failed = |error: reqwest::Error| ListFault::Network(download::said(error));
        let mut response: Response = self.get(url).send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(ListFault::Status(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            answer.extend_from_slice(&chunk);
            if answer.len() > LIST {
                return Err(ListFault::Network("the answer is too long".to_owned()));
            }
        }
        Ok(answer)
    }

    /// Only the Hub itself gets the token, and only over an encrypted connection or on this
    /// machine: the client leaves out the token when it is redirected to another host.
    fn get(&self, url: &str) -> RequestBuilder {
        let request = self.client.get(url);
        let may_have = self.endpoint.starts_with("https:") || is_loopback(&self.endpoint);
        match &self.token {
            Some(token) if may_have => request.bearer_auth(token),
            _ => request,
        }
    }

    fn refused(&self, status: u16, repo: &str, url: &str) -> DatasetError {
        let remedy = match (status, self.token.is_some()) {
            (401 | 403 | 404, false) => {
                "correct the name, or set `HF_TOKEN` if the data set is private or asks for consent"
            }
            (401 | 403, true) => "the token in `HF_TOKEN` may not read it",
            (404, true) => "correct the name, or let the token in `HF_TOKEN` read it",
            (429, _) => "wait, or set `HF_TOKEN`, which is allowed more requests",
            _ => "try again later, or name a mirror with `HF_ENDPOINT`",
        };
        let text = format!("`{url}` answers {status} for the data set `{repo}`: {remedy}");
        match status {
            429 | 500.. => DatasetError::Unreachable(text),
            _ => DatasetError::Refused(text),
        }
    }
}

/// Why there is no list.
enum ListFault {
    Status(u16),
    Network(String),
}

/// The commit's id is the name of a folder.
fn is_commit(sha: &str) -> bool {
    !sha.is_empty() && sha.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_loopback(endpoint: &str) -> bool {
    url::Url::parse(endpoint).is_ok_and(|url| is_own(&url))
}

/// The token that `huggingface-cli login` has stored.
fn token_file(set: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let path = set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| {
        let home = set("HF_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(&set("XDG_CACHE_HOME")?).join("huggingface")));
        let home = home.or_else(|| Some(Path::new(&set("HOME")?).join(".cache/huggingface")));
        Some(home?.join("token"))
    })?;
    let text = mswea_files::read_text(&path, 4096).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
