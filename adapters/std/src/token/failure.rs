//! Failures of the authorization servers on which validators depend.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use mcp_proto::auth::{FetchFailure, FetchResponse};
use mcp_proto::http::client::Url;
use serde_json::{Map, Value};

use super::jose::object;

/// A request to an authorization server that gave a validator nothing to use.
///
/// Clients get 503 for what cannot be decided meanwhile, and are not told why. This is for the logs of the server; it
/// holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceFailure {
    /// The URL of the request, without its query.
    pub url: String,
    /// The reason.
    pub reason: ServiceFailureReason,
}

/// The reason of a [`ServiceFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceFailureReason {
    /// There was no response.
    Fetch(FetchFailure),
    /// The response has another status than 200. Redirects are not followed.
    Status(u16),
    /// The response is not what it has to be; the text says what is wrong.
    Content(&'static str),
}

impl ServiceFailure {
    pub(super) fn new(url: &Url, reason: ServiceFailureReason) -> Self {
        Self { url: Url::redacted(&format!("{}{}", url.origin(), url.target())), reason }
    }

    pub(super) fn content(url: &Url, what: &'static str) -> Self {
        Self::new(url, ServiceFailureReason::Content(what))
    }
}

impl fmt::Display for ServiceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, reason } = self;
        match reason {
            ServiceFailureReason::Fetch(failure) => write!(f, "{url}: {failure}"),
            ServiceFailureReason::Status(status) => write!(f, "{url}: the status is {status}"),
            ServiceFailureReason::Content(what) => write!(f, "{url}: {what}"),
        }
    }
}

impl core::error::Error for ServiceFailure {}

/// The function of a callback for failures.
type OnFailure = dyn Fn(&ServiceFailure) + Send + Sync;

/// A callback of the application for failures.
#[derive(Default)]
pub(super) struct FailureCallback(Option<Box<OnFailure>>);

impl FailureCallback {
    pub(super) fn new(callback: impl Fn(&ServiceFailure) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(callback)))
    }

    /// Reports a failure. A panic of the callback changes no decision; the panic hook has reported it.
    pub(super) fn report(&self, failure: &ServiceFailure) {
        if let Some(callback) = &self.0 {
            let _ = catch_unwind(AssertUnwindSafe(|| callback(failure)));
        }
    }
}

/// Reads the JSON object of a response with status 200 that is at most `limit` bytes long.
pub(super) fn read_object(
    url: &Url,
    response: Result<FetchResponse, FetchFailure>,
    limit: usize,
) -> Result<Map<String, Value>, ServiceFailure> {
    let response =
        response.map_err(|failure| ServiceFailure::new(url, ServiceFailureReason::Fetch(failure)))?;
    if response.status != 200 {
        return Err(ServiceFailure::new(url, ServiceFailureReason::Status(response.status)));
    }
    // The fetcher of an application may have missed the limit.
    if response.body.len() > limit {
        return Err(ServiceFailure::new(url, ServiceFailureReason::Fetch(FetchFailure::TooLarge)));
    }
    object(&response.body).ok_or_else(|| ServiceFailure::content(url, "the answer is not a JSON object"))
}
