//! What holds in every run: where secrets go, what is shown, and how a flow ends.

use alloc::collections::BTreeSet;

use mcp_oauth::{Event, Fetch};
use mcp_proto::http::client::Url;

use super::message::{Reply, Request};

/// Largest number of requests of a flow, without the polls of the device flow.
const MAX_FETCHES: usize = 32;

/// The invariants of the flows in one world.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    /// Everything that may be neither shown nor sent to others.
    pub(super) secrets: BTreeSet<String>,
    /// The endpoints that validated metadata named.
    pub(super) endpoints: BTreeSet<String>,
    /// The hosts to which plain http is allowed.
    pub(super) http_hosts: Vec<String>,
    fetches: usize,
}

impl Checks {
    /// Begins with another flow.
    pub(super) fn begin_flow(&mut self) {
        self.fetches = 0;
    }

    /// Notes the secrets that the flow made itself.
    pub(super) fn learn(&mut self, request: &Request) {
        for name in ["code_verifier", "client_assertion", "assertion", "subject_token"] {
            self.add(request.param(name));
        }
        self.add(request.field("dpop").unwrap_or_default());
    }

    pub(super) fn add(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.secrets.insert(secret.into());
        }
    }

    /// Notes the endpoints of a document, if it is of an issuer that is known.
    pub(super) fn learn_document(&mut self, reply: &Reply, is_issuer: impl Fn(&str) -> bool) {
        let Some(document) = reply.document() else { return };
        if !document["issuer"].as_str().is_some_and(is_issuer) {
            return;
        }
        let members = document.as_object().into_iter().flatten();
        let urls = members.filter(|(name, _)| name.ends_with("_endpoint"));
        let urls = urls.filter_map(|(_, url)| Url::parse(url.as_str()?).ok());
        self.endpoints.extend(urls.map(|url| format!("{}{}", url.origin(), url.target())));
    }

    /// Checks a request before it is sent.
    pub(super) fn check_request(&mut self, fetch: &Fetch, request: &Request) {
        self.fetches += usize::from(request.grant() != "device_code");
        assert!(self.fetches <= MAX_FETCHES, "{} requests of one flow", self.fetches);
        let origin = fetch.url.origin();
        let is_loopback = origin.host.starts_with("127.") || matches!(&*origin.host, "localhost" | "::1");
        let is_allowed = self.http_hosts.iter().any(|host| **host == *origin.host);
        assert!(origin.secure || is_loopback || is_allowed, "plain http: {request:?}");
        assert!(!fetch.policy.timeout.is_zero() && fetch.policy.max_body > 0);
        let fields: Vec<String> = request.fields.iter().map(|(_, value)| value.clone()).collect();
        let values: Vec<&str> = request.params.values().map(|value| &**value).collect();
        let all = format!("{} {} {} {}", request.url, fields.join(" "), request.body, values.join(" "));
        let carries = self.secrets.iter().any(|secret| all.contains(&**secret))
            || request.field("authorization").is_some()
            || request.field("dpop").is_some();
        assert!(!self.secrets.iter().any(|secret| request.url.contains(&**secret)), "{request:?}");
        if carries {
            assert_eq!(request.method, "POST", "a GET with a secret: {request:?}");
            assert!(self.endpoints.contains(&request.url), "a secret for {}: {request:?}", request.url);
        }
        if request.method == "POST" {
            assert!(self.endpoints.contains(&request.url), "{} was named by nobody", request.url);
        }
    }

    /// Checks that a text shows no secret.
    pub(super) fn check_shown(&self, text: &str) {
        for secret in &self.secrets {
            assert!(!text.contains(&**secret), "a secret is shown: {text}");
        }
    }

    /// Checks what an event shows.
    pub(super) fn check_event(&self, event: &Event) {
        self.check_shown(&format!("{event:?}"));
        if let Event::Failed(error) = event {
            self.check_shown(&error.to_string());
            assert!(!error.to_string().contains(['\n', '\r']), "{error}");
        }
    }
}
