//! A world for flows of authorization: a protected server, authorization servers, a store, a browser, and a clock.
//!
//! [`World::run`] drives a [`Flow`] in it to its end and checks on the way:
//!
//! * Secrets go by POST to endpoints that the metadata of an issuer named, and nowhere else.
//! * A flow makes at most 32 requests, and asks one question at a time.
//! * Nothing that is shown (`Debug`, `Display`) holds a secret.
//! * After its end a flow emits nothing and holds no lock; a token was stored before it is handed out.

mod checks;
mod message;
mod server;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use mcp_oauth::{
    AccessToken, AssertionRequest, ClientCredentials, Config, DpopKey, Error, Event, FetchFailure, Flow,
    RedirectOutcome, Secret, TokenRecord, Trigger, UserCode,
};
use mcp_proto::http::client::Url;
use mcp_proto::{Anchor, AuthChallenge, Entropy, Instant};
use serde_json::{Value, json};

use self::checks::Checks;
pub use self::message::{Reply, Request, encoded, form, jwt};
pub use self::server::{AuthServer, KnownClient};

/// Bound of the events of one flow.
const MAX_EVENTS: usize = 2_000;
/// Unix time at the start of a world.
const EPOCH: u64 = 1_800_000_000;

/// Function that may change the reply to a request.
type Alter = Box<dyn FnMut(&Request, &mut Reply)>;
/// Function that gives the queries of the redirects, from the URL and the right query.
type Browser = Box<dyn FnMut(&str, String) -> Vec<String>>;

/// The end of a flow.
#[derive(Debug)]
pub enum Outcome {
    /// It has a token.
    Authorized(Box<AccessToken>),
    /// It ended without a token.
    NoToken,
    /// It failed.
    Failed(Error),
    /// It was dropped after the number of events that [`World::stop_after`] says.
    Stopped,
}

impl Outcome {
    /// Returns the token.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn token(self) -> AccessToken {
        match self {
            Self::Authorized(token) => *token,
            other => panic!("no token: {other:?}"),
        }
    }

    /// Returns the error.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            other => panic!("no error: {other:?}"),
        }
    }
}

/// Everything around a flow.
pub struct World {
    /// The URL of the MCP server.
    pub server: String,
    /// The metadata of the MCP server, and where it is served.
    pub resource_metadata: BTreeMap<String, Value>,
    /// The authorization servers; an identity provider is one, too.
    pub issuers: Vec<AuthServer>,
    /// The store.
    pub store: BTreeMap<String, String>,
    /// The requests of all flows.
    pub requests: Vec<Request>,
    /// The user codes that were shown.
    pub user_codes: Vec<UserCode>,
    /// The URLs that the browser opened.
    pub opened: Vec<String>,
    /// What became of the redirects.
    pub redirects: Vec<RedirectOutcome>,
    /// The names of the events of the last flow.
    pub events: Vec<&'static str>,
    /// Changes replies.
    pub alter: Alter,
    /// The browser.
    pub browser: Browser,
    /// The authorization server to choose.
    pub choice: usize,
    /// The client to name.
    pub named_client: Option<ClientCredentials>,
    /// The URI at which redirects are received.
    pub redirect_uri: String,
    /// The assertion or identity token.
    pub assertion: String,
    /// Requests for assertions, which replace a user.
    pub assertion_requests: Vec<AssertionRequest>,
    /// Drops the flow after this number of events.
    pub stop_after: Option<usize>,
    /// What another process stores while the flow waits for the lock.
    pub stored_meanwhile: Option<BTreeMap<String, String>>,
    /// Whether the sender of requests notices that a body is too large.
    pub reports_size: bool,
    /// The time.
    pub now: Instant,
    locked: Option<String>,
    checks: Checks,
    flows: u64,
    keys: u8,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl World {
    /// Creates a world with the MCP server `https://mcp.test/mcp` and the authorization server `https://as.test`.
    #[must_use]
    pub fn new() -> Self {
        Self::with("https://mcp.test/mcp", &["https://as.test"])
    }

    /// Creates a world with an MCP server and its authorization servers.
    #[must_use]
    pub fn with(server: &str, issuers: &[&str]) -> Self {
        let url = Url::parse(server).expect("a URL");
        let place = format!("{}/.well-known/oauth-protected-resource{}", url.origin(), url.target());
        let metadata = json!({ "resource": server, "authorization_servers": issuers });
        Self {
            server: server.into(),
            resource_metadata: BTreeMap::from([(place, metadata)]),
            issuers: issuers.iter().map(|issuer| AuthServer::new(issuer)).collect(),
            store: BTreeMap::new(),
            requests: Vec::new(),
            user_codes: Vec::new(),
            opened: Vec::new(),
            redirects: Vec::new(),
            events: Vec::new(),
            alter: Box::new(|_, _| {}),
            browser: Box::new(|_, right| vec![right]),
            choice: 0,
            named_client: None,
            redirect_uri: "http://127.0.0.1:7777/callback".into(),
            assertion: "assertion-s3cret-0".into(),
            assertion_requests: Vec::new(),
            stop_after: None,
            stored_meanwhile: None,
            reports_size: true,
            now: Instant::from_micros(1_000_000),
            locked: None,
            checks: Checks::default(),
            flows: 0,
            keys: 0,
        }
    }

    /// Returns the first authorization server.
    pub fn issuer(&mut self) -> &mut AuthServer {
        &mut self.issuers[0]
    }

    /// Returns the metadata of the MCP server.
    pub fn resource(&mut self) -> &mut Value {
        self.resource_metadata.values_mut().next().expect("metadata")
    }

    /// Moves the metadata of the MCP server to another URL.
    pub fn move_resource_metadata(&mut self, url: &str) {
        let (_, metadata) = self.resource_metadata.pop_first().expect("metadata");
        self.resource_metadata.insert(url.into(), metadata);
    }

    /// Permits requests with secrets to an endpoint that no metadata names.
    pub fn permit_endpoint(&mut self, url: &str) {
        self.checks.endpoints.insert(url.into());
    }

    /// Permits plain http to a host, as the configuration under test does.
    pub fn permit_http(&mut self, host: &str) {
        self.checks.http_hosts.push(host.into());
    }

    /// Lets time pass.
    pub fn wait(&mut self, secs: u64) {
        self.now = self.now + Duration::from_secs(secs);
    }

    /// Returns the Unix time.
    #[must_use]
    pub const fn unix_secs(&self) -> u64 {
        Anchor::new(Instant::ZERO, EPOCH).unix_secs(self.now)
    }

    /// Returns whether a flow holds the lock of an entry.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// Returns the stored tokens.
    #[must_use]
    pub fn record(&self) -> Option<TokenRecord> {
        let key = TokenRecord::key(&Url::parse(&self.server).expect("a URL"));
        let text = self.store.get(&key)?;
        Some(TokenRecord::parse(&Secret::from(&**text)).expect("a valid record"))
    }

    /// Returns the requests of the last flow as method and URL.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.requests.iter().map(|request| format!("{} {}", request.method, request.url)).collect()
    }

    /// Returns the requests to token endpoints with a grant type.
    #[must_use]
    pub fn grants(&self, grant: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.grant() == grant).collect()
    }

    /// Returns the parameters of the last authorization request.
    #[must_use]
    pub fn query(&self) -> BTreeMap<String, String> {
        let url = self.opened.last().expect("a browser was opened");
        form(url.split_once('?').expect("a query").1).into_iter().collect()
    }

    /// Runs a flow that a 401 without parameters started.
    pub fn unauthorized(&mut self, config: &Config) -> Outcome {
        self.challenged(config, &[])
    }

    /// Runs a flow that a 401 with a challenge started; the rejected token is the stored one.
    pub fn challenged(&mut self, config: &Config, params: &[(&str, &str)]) -> Outcome {
        let rejected = self.stored_token();
        self.run(config, Trigger::Unauthorized { challenges: vec![challenge("Bearer", params)], rejected })
    }

    /// Runs a flow that a 403 started.
    pub fn insufficient_scope(&mut self, config: &Config, scope: &str) -> Outcome {
        let rejected = self.stored_token().unwrap_or_else(|| Secret::from("other"));
        let challenges = vec![challenge("Bearer", &[("error", "insufficient_scope"), ("scope", scope)])];
        self.run(config, Trigger::InsufficientScope { challenges, rejected })
    }

    /// Returns the access token that is stored.
    #[must_use]
    pub fn stored_token(&self) -> Option<Secret> {
        let key = TokenRecord::key(&Url::parse(&self.server).expect("a URL"));
        let record: Value = serde_json::from_str(self.store.get(&key)?).ok()?;
        Some(Secret::from(record["access_token"].as_str()?))
    }

    /// Returns the store without the marks of refreshes whose outcome is not stored.
    #[must_use]
    pub fn store_without_marks(&self) -> BTreeMap<String, String> {
        let mut store = self.store.clone();
        for text in store.values_mut() {
            if let Some(at) = text.find(",\"attempt\":") {
                text.replace_range(at.., "}");
            }
        }
        store
    }

    /// Runs a flow to its end.
    pub fn run(&mut self, config: &Config, trigger: Trigger) -> Outcome {
        let mut flow = self.flow(config, trigger);
        self.drive(&mut flow)
    }

    /// Creates a flow.
    pub fn flow(&mut self, config: &Config, trigger: Trigger) -> Flow {
        self.flows += 1;
        self.requests.clear();
        self.events.clear();
        self.redirects.clear();
        self.checks.begin_flow();
        let server = Url::parse(&self.server).expect("a URL");
        let clock = Anchor::new(Instant::ZERO, EPOCH);
        let entropy = Entropy::new([9; 32], self.flows);
        Flow::new(Arc::new(config.clone()), server, trigger, clock, self.now, entropy)
    }

    /// Drives a flow to its end, checking the invariants.
    ///
    /// # Panics
    ///
    /// If an invariant is violated, or the flow neither ends nor waits for time.
    pub fn drive(&mut self, flow: &mut Flow) -> Outcome {
        for n in 0..MAX_EVENTS {
            for issuer in &self.issuers {
                self.checks.secrets.extend(issuer.secrets.iter().cloned());
            }
            self.checks.add(&self.assertion.clone());
            let shown = format!("{flow:?}");
            assert!(shown.starts_with("Flow { server: ") && shown.contains("step: "), "{shown}");
            self.checks.check_shown(&shown);
            assert!(!flow.is_ended(), "its last event is still to come");
            let Some(event) = flow.poll_event(self.now) else {
                let at = flow.poll_timeout().expect("the flow waits for something");
                self.now = self.now.max(at);
                flow.handle_timeout(self.now);
                continue;
            };
            self.checks.check_event(&event);
            self.note(&event);
            if self.stop_after == Some(n) {
                self.locked = None;
                return Outcome::Stopped;
            }
            if let Some(outcome) = self.answer(flow, event) {
                // Shown if the test fails.
                println!("{} -> {outcome:?}", self.events.join(" "));
                self.check_end(flow, &outcome);
                return outcome;
            }
        }
        panic!("the flow does not end: {:?}", self.events);
    }

    fn check_end(&self, flow: &mut Flow, outcome: &Outcome) {
        assert!(flow.is_ended() && flow.poll_timeout().is_none());
        flow.handle_saved(self.now);
        flow.handle_loaded(self.now, None);
        flow.fail(self.now, "late");
        assert!(flow.poll_event(self.now).is_none(), "an event after the end");
        flow.handle_timeout(Instant::FAR_FUTURE);
        assert!(flow.poll_event(Instant::FAR_FUTURE).is_none(), "an event after the end");
        assert_eq!(self.locked, None, "a lock is held after the end: {:?}", self.events);
        if let Outcome::Authorized(token) = outcome {
            let stored = self.stored_token();
            assert_eq!(stored.as_ref(), Some(&token.token), "the token was not stored");
        }
    }

    /// Notes the name of an event.
    pub fn note(&mut self, event: &Event) {
        self.events.push(name(event));
    }

    /// Answers one event; returns the outcome if it was the last one.
    ///
    /// # Panics
    ///
    /// If an invariant is violated.
    pub fn answer(&mut self, flow: &mut Flow, event: Event) -> Option<Outcome> {
        let waits = !matches!(
            event,
            Event::Unlock { .. }
                | Event::ShowUserCode(_)
                | Event::Authorized(_)
                | Event::NoToken
                | Event::Failed(_)
        );
        assert!(!waits || flow.poll_event(self.now).is_none(), "two questions at once: {:?}", self.events);
        let now = self.now;
        match event {
            Event::Fetch(fetch) => self.answer_fetch(flow, &fetch),
            Event::Load { key } => flow.handle_loaded(now, self.loaded(&key).as_ref()),
            Event::Lock { key } => {
                assert_eq!(self.locked.replace(key.clone()), None, "locked twice");
                if let Some(store) = self.stored_meanwhile.take() {
                    self.store = store;
                }
                flow.handle_loaded(now, self.loaded(&key).as_ref());
            }
            Event::Unlock { key } => assert_eq!(self.locked.take(), Some(key), "not locked"),
            Event::Replace { key, old, new } => {
                let found = self.loaded(&key);
                if found != old {
                    flow.handle_loaded(now, found.as_ref());
                    return None;
                }
                match new {
                    Some(new) => self.store.insert(key, new.expose().into()),
                    None => self.store.remove(&key),
                };
                flow.handle_saved(now);
            }
            Event::Save { key, value } => {
                match value {
                    Some(value) => self.store.insert(key, value.expose().into()),
                    None => self.store.remove(&key),
                };
                flow.handle_saved(now);
            }
            Event::ChooseServer { issuers } => {
                assert!(issuers.len() > 1);
                flow.choose(now, self.choice);
            }
            Event::NeedClient { .. } => match self.named_client.clone() {
                Some(client) => flow.set_client(now, &client),
                None => flow.fail(now, "nobody named a client"),
            },
            Event::NeedRedirectUri { .. } => flow.set_redirect_uri(now, &self.redirect_uri.clone()),
            Event::CreateKey => {
                self.keys += 1;
                let private = format!("private-s3cret-{}", self.keys);
                self.checks.add(&private);
                flow.handle_key(now, DpopKey { private: private.into(), public: [self.keys; 64] });
            }
            Event::Sign(sign) => {
                assert!(!sign.input.is_empty());
                flow.handle_signature(now, &vec![5; 64]);
            }
            Event::OpenBrowser { url } => self.open(flow, &format!("{}{}", url.origin(), url.target())),
            Event::ShowUserCode(code) => self.user_codes.push(code),
            Event::NeedAssertion(request) => {
                self.assertion_requests.push(request);
                flow.handle_assertion(now, self.assertion.clone().into());
            }
            Event::Authorized(token) => return Some(Outcome::Authorized(token)),
            Event::NoToken => return Some(Outcome::NoToken),
            Event::Failed(error) => return Some(Outcome::Failed(error)),
            other => panic!("an unknown event: {other:?}"),
        }
        None
    }

    fn loaded(&self, key: &str) -> Option<Secret> {
        self.store.get(key).map(|text| Secret::from(&**text))
    }

    fn answer_fetch(&mut self, flow: &mut Flow, fetch: &mcp_oauth::Fetch) {
        let request = Request::new(fetch);
        self.checks.learn(&request);
        self.checks.check_request(fetch, &request);
        // Otherwise a server may encode its answer as it likes.
        let encoding = fetch.fields.iter().find(|(name, _)| *name == "Accept-Encoding");
        assert_eq!(encoding.map(|(_, value)| value), Some(&b"identity"[..]), "{}", request.url);
        let unix_secs = self.unix_secs();
        let document = self.resource_metadata.get(&request.url).filter(|_| request.method == "GET");
        let mut reply = match document {
            Some(document) => Reply::json(200, document),
            None => {
                let found = self.issuers.iter_mut().find_map(|issuer| issuer.handle(&request, unix_secs));
                found.unwrap_or_else(|| Reply::text(404, "<html>not found</html>"))
            }
        };
        (self.alter)(&request, &mut reply);
        if request.method == "GET" {
            let issuers = &self.issuers;
            self.checks.learn_document(&reply, |name| issuers.iter().any(|issuer| issuer.issuer == name));
        }
        self.requests.push(request);
        match reply {
            Reply::Response { body, .. } if self.reports_size && body.len() > fetch.policy.max_body => {
                flow.handle_fetch_failure(self.now, fetch.id, FetchFailure::TooLarge);
            }
            Reply::Response { status, fields, body } => {
                flow.handle_response(self.now, fetch.id, message::response(status, &fields, &body));
                // A second response to the same request counts for nothing.
                flow.handle_response(self.now, fetch.id, message::response(500, &[], b""));
            }
            Reply::Failure(failure) => flow.handle_fetch_failure(self.now, fetch.id, failure),
            Reply::Silence => {}
        }
    }

    fn open(&mut self, flow: &mut Flow, url: &str) {
        let query = form(url.split_once('?').expect("a query").1);
        let state = query.into_iter().find(|(name, _)| name == "state").expect("a state").1;
        self.checks.add(&state);
        self.opened.push(url.into());
        let place = url.split('?').next().unwrap_or_default().to_owned();
        let fits = |issuer: &&mut AuthServer| {
            issuer.endpoint("authorization_endpoint").split('?').next() == Some(&*place)
        };
        let found = self.issuers.iter_mut().find(fits);
        let right = found.map(|issuer| issuer.authorize(url)).unwrap_or_default();
        for issuer in &self.issuers {
            self.checks.secrets.extend(issuer.secrets.iter().cloned());
        }
        for query in (self.browser)(url, right) {
            let outcome = flow.handle_redirect(self.now, &query);
            self.checks.check_shown(&format!("{outcome:?}"));
            self.redirects.push(outcome);
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a challenge.
#[must_use]
pub fn challenge(scheme: &str, params: &[(&str, &str)]) -> AuthChallenge {
    let mut challenge = AuthChallenge::new(scheme.into());
    challenge.params = params.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    challenge
}

const fn name(event: &Event) -> &'static str {
    match event {
        Event::Fetch(_) => "fetch",
        Event::Load { .. } => "load",
        Event::Lock { .. } => "lock",
        Event::Save { value: Some(_), .. } | Event::Replace { new: Some(_), .. } => "save",
        Event::Save { value: None, .. } | Event::Replace { new: None, .. } => "remove",
        Event::Unlock { .. } => "unlock",
        Event::ChooseServer { .. } => "choose",
        Event::NeedClient { .. } => "client",
        Event::NeedRedirectUri { .. } => "redirect-uri",
        Event::CreateKey => "key",
        Event::Sign(_) => "sign",
        Event::OpenBrowser { .. } => "browser",
        Event::ShowUserCode(_) => "user-code",
        Event::NeedAssertion(_) => "assertion",
        Event::Authorized(_) => "authorized",
        Event::NoToken => "no-token",
        Event::Failed(_) => "failed",
        _ => "other",
    }
}
