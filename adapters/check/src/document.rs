//! Metadata documents: fetched from where clients fetch them, as JSON objects.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use mcp_auth::client::{Fetcher as _, HttpFetcher};
use mcp_oauth::{Fetch, FetchFailure, FetchPolicy, resource_metadata_locations, server_metadata_locations};
use mcp_proto::http::client::Url;
use serde_json::Value;

/// Maximum number of authorization servers that are asked; a server seldom names more than one.
pub(crate) const MAX_SERVERS: usize = 4;
/// Size of the largest document, in bytes.
const MAX_DOCUMENT: usize = 64 << 10;
/// Maximum number of redirects that are followed for one document.
const MAX_REDIRECTS: u8 = 3;

/// The reason why there is no document.
pub(crate) struct DocumentError {
    /// True if the party that has the document could not be asked.
    pub(crate) is_unreachable: bool,
    what: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Returns whether a URL is `https`, or leads to this machine.
pub(crate) fn is_safe(url: &Url) -> bool {
    url.origin().secure || url.origin().is_loopback()
}

/// Fetches the metadata of a resource from where a challenge says, or else from its well-known locations (AUTH-023).
pub(crate) fn fetch_resource_metadata(
    named: Option<&str>,
    server: &Url,
    timeout: Duration,
) -> Result<Value, String> {
    match named {
        Some(url) => fetch_named(url, server, timeout).map_err(|why| format!("`resource_metadata`: {why}")),
        None => {
            let why = |error: DocumentError| format!("the challenge has no `resource_metadata`; {error}");
            fetch_first(&resource_metadata_locations(server), server, timeout, |_| true).map_err(why)
        }
    }
}

/// Returns whether a resource is the server, or a path above it on the same origin.
pub(crate) fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (above, path) = (resource.target().trim_end_matches('/'), server.target());
    let rest = path.strip_prefix(above);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

/// Fetches a JSON object that the server at `server` refers to, by a URL that may be none.
fn fetch_named(url: &str, server: &Url, timeout: Duration) -> Result<Value, DocumentError> {
    match Url::parse(url) {
        Ok(url) => fetch(&url, server, Instant::now() + timeout),
        Err(error) => {
            Err(DocumentError { is_unreachable: false, what: format!("{}: {error}", Url::redacted(url)) })
        }
    }
}

/// Fetches the first JSON object at these places that fits; if none fits, the first one. The error is about all places, and
/// so is the timeout.
fn fetch_first(
    places: &[Url],
    server: &Url,
    timeout: Duration,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value, DocumentError> {
    let until = Instant::now() + timeout;
    let (mut failures, mut other) = (Vec::new(), None);
    for place in places {
        match fetch(place, server, until) {
            Ok(document) if fits(&document) => return Ok(document),
            Ok(document) => _ = other.get_or_insert(document),
            Err(error) => failures.push(error),
        }
    }
    if let Some(other) = other {
        return Ok(other);
    }
    let is_unreachable = failures.iter().all(|failure| failure.is_unreachable);
    let what = failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Err(DocumentError { is_unreachable, what })
}

/// Fetches the metadata of an authorization server that the server at `server` names: of its issuer, if there is such a document at one of
/// its well-known locations.
pub(crate) fn fetch_server_metadata(
    issuer: &str,
    url: &Url,
    server: &Url,
    timeout: Duration,
) -> Result<Value, DocumentError> {
    // Clients pass over a document of another issuer (AUTH-030).
    fetch_first(&server_metadata_locations(url), server, timeout, |metadata| metadata["issuer"] == *issuer)
}

/// Fetches a JSON object that the server at `server` refers to; follows redirects as clients do (SEC-011).
fn fetch(url: &Url, server: &Url, until: Instant) -> Result<Value, DocumentError> {
    let shown = Url::redacted(&format!("{}{}", url.origin(), url.target()));
    let error = |is_unreachable, what| DocumentError { is_unreachable, what };
    let fetcher = HttpFetcher::new();
    let get = |url: &Url| {
        let timeout = until.saturating_duration_since(Instant::now());
        let policy = FetchPolicy::new(timeout, MAX_DOCUMENT).reachable_from(server.origin().clone());
        fetcher.fetch(&Fetch::get(url.clone(), policy)).map_err(|failure| {
            let is_unreachable = matches!(failure, FetchFailure::Unreachable(_) | FetchFailure::TimedOut);
            error(is_unreachable, format!("{shown}: {failure}"))
        })
    };
    let (mut url, mut response) = (url.clone(), get(url)?);
    for _ in 0..MAX_REDIRECTS {
        if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
            break;
        }
        let Some(next) = response.field("location").and_then(|to| url.resolve(to).ok()) else { break };
        if !is_safe(&next) {
            break;
        }
        url = next;
        response = get(&url)?;
    }
    if response.status != 200 {
        return Err(error(false, format!("{shown} has the status {}", response.status)));
    }
    match serde_json::from_slice(&response.body) {
        Ok(document @ Value::Object(_)) => Ok(document),
        _ => Err(error(false, format!("{shown} is not a JSON object"))),
    }
}
