//! A driver of our flow for tests, with the fetcher, the store and the keys of `mcp-auth`, and the scripted browser.

use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_auth::client::{
    Cancellation, ClientKey, Fetcher as _, HttpFetcher, MemoryStore, TokenStore as _, generate_dpop_key,
    sign_dpop,
};
use mcp_oauth::{
    AccessToken, Config, Error, Event, Flow, RedirectOutcome, SigningKey, Trigger, redirect_query,
};
use mcp_proto::AuthChallenge;
use mcp_proto::http::client::Url;
use mcp_proto::{Entropy, Instant};
use mcp_std::{Clock, entropy};
use mcp_system_tests::browser::{Browser, BrowserScript, with_parameter};

use crate::authorization::protected_servers::send;

/// The browser is not expected to visit it: the driver passes the redirect to the flow.
const REDIRECT_URI: &str = "http://127.0.0.1:3/callback";
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// End of a flow.
#[derive(Debug)]
pub(crate) enum FlowEnd {
    Authorized(Box<AccessToken>),
    NoToken,
    Failed(Error),
    /// The client was killed before it saw the response of the token endpoint.
    Killed,
}

impl FlowEnd {
    /// Returns the access token; the flow must have got one.
    pub(crate) fn token(self) -> AccessToken {
        match self {
            Self::Authorized(token) => *token,
            other => panic!("no access token: {other:?}"),
        }
    }

    /// Returns the text of the error; the flow must have failed.
    pub(crate) fn error(self) -> String {
        match self {
            Self::Failed(error) => error.to_string(),
            other => panic!("no error: {other:?}"),
        }
    }
}

/// A client with its stored tokens.
pub(crate) struct FlowClient {
    config: Arc<Config>,
    key: Option<ClientKey>,
    store: MemoryStore,
    clock: Clock,
    /// User at the browser.
    pub(crate) script: BrowserScript,
    /// Whether the client is killed during its next token request.
    pub(crate) dies_at_token_request: bool,
    /// Parameter of the redirect to change, and its value.
    pub(crate) tampering: Option<(&'static str, String)>,
}

impl FlowClient {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config: Arc::new(config),
            key: None,
            store: MemoryStore::new(),
            clock: Clock::start(),
            script: BrowserScript::default(),
            dies_at_token_request: false,
            tampering: None,
        }
    }

    /// Sets the key for `private_key_jwt`.
    pub(crate) fn with_key(mut self, pem: &str) -> Self {
        self.key = Some(ClientKey::from_pem(pem).expect("a private key"));
        self
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sends a request without a token and authorizes by the challenge of the response.
    pub(crate) fn authorize(&self, url: &str) -> FlowEnd {
        let challenges = challenges(&send("POST", url, None));
        self.run(url, Trigger::Unauthorized { challenges, rejected: None })
    }

    /// Runs a flow to its end.
    pub(crate) fn run(&self, server: &str, trigger: Trigger) -> FlowEnd {
        let server = Url::parse(server).expect("a URL");
        let entropy = Entropy::new(entropy::seed().expect("randomness"), entropy::nonce());
        let mut flow =
            Flow::new(Arc::clone(&self.config), server, trigger, self.clock.anchor(), self.now(), entropy);
        let mut lock = None;
        loop {
            let Some(event) = flow.poll_event(self.now()) else {
                let deadline = flow.poll_timeout().expect("a flow that waits has a deadline");
                thread::sleep(self.clock.until(deadline));
                flow.handle_timeout(self.now());
                continue;
            };
            match event {
                Event::Lock { key } => {
                    lock = Some(self.store.lock(&key, LOCK_WAIT, &Cancellation::new()).expect("a lock"));
                    let loaded = self.store.load(&key).expect("memory");
                    flow.handle_loaded(self.now(), loaded.as_ref());
                }
                Event::Unlock { .. } => drop(lock.take()),
                Event::Authorized(token) => return FlowEnd::Authorized(token),
                Event::NoToken => return FlowEnd::NoToken,
                Event::Failed(error) => return FlowEnd::Failed(error),
                Event::Fetch(fetch)
                    if self.dies_at_token_request && fetch.url.target().ends_with("/token") =>
                {
                    // The request has its effect, but nobody takes the response.
                    HttpFetcher::new().fetch(&fetch).expect("a response");
                    return FlowEnd::Killed;
                }
                event => self.answer(&mut flow, event),
            }
        }
    }

    fn answer(&self, flow: &mut Flow, event: Event) {
        match event {
            Event::Fetch(fetch) => match HttpFetcher::new().fetch(&fetch) {
                Ok(response) => flow.handle_response(self.now(), fetch.id, response),
                Err(failure) => flow.handle_fetch_failure(self.now(), fetch.id, failure),
            },
            Event::Load { key } => {
                let loaded = self.store.load(&key).expect("memory");
                flow.handle_loaded(self.now(), loaded.as_ref());
            }
            Event::Save { key, value } => {
                match value {
                    Some(value) => self.store.save(&key, &value).expect("memory"),
                    None => self.store.remove(&key).expect("memory"),
                }
                flow.handle_saved(self.now());
            }
            Event::Replace { key, old, new } => {
                let is_replaced = self.store.replace(&key, old.as_ref(), new.as_ref()).expect("memory");
                assert!(is_replaced, "there is no other flow");
                flow.handle_saved(self.now());
            }
            Event::NeedRedirectUri { .. } => flow.set_redirect_uri(self.now(), REDIRECT_URI),
            Event::CreateKey => flow.handle_key(self.now(), generate_dpop_key().expect("a key")),
            Event::Sign(request) => {
                let signature = match &request.key {
                    SigningKey::Dpop(private) => sign_dpop(private, &request.input),
                    _ => self.key.as_ref().expect("a client with a key").sign(&request.input),
                };
                flow.handle_signature(self.now(), &signature.expect("a signature"));
            }
            Event::OpenBrowser { url } => self.browse(flow, &text(&url)),
            Event::ShowUserCode(code) => {
                let url = text(&code.verification_uri_complete.expect("oidc-provider has one"));
                Browser::new(self.script.clone()).verify_device(&url).expect("a confirmed code");
            }
            other => panic!("the driver has no answer to {other:?}"),
        }
    }

    fn browse(&self, flow: &mut Flow, url: &str) {
        let redirect = match Browser::new(self.script.clone()).authorize(url) {
            Ok(redirect) => redirect,
            // The user sees an error page and gives up.
            Err(error) => return flow.fail(self.now(), error.to_string()),
        };
        if let Some((name, value)) = &self.tampering {
            let changed = with_parameter(&redirect, name, Some(value));
            let outcome = flow.handle_redirect(self.now(), &redirect_query(&changed));
            if outcome != RedirectOutcome::Foreign {
                return;
            }
        }
        flow.handle_redirect(self.now(), &redirect_query(&redirect));
    }
}

fn text(url: &Url) -> String {
    format!("{}{}", url.origin(), url.target())
}

/// Returns the challenge of a response of a protected server.
pub(crate) fn challenges(response: &mcp_system_tests::browser::http::Response) -> Vec<AuthChallenge> {
    let field = response.fields("www-authenticate").next().expect("a challenge");
    let mut challenge = AuthChallenge::new("Bearer".into());
    for name in ["resource_metadata", "scope", "error"] {
        // The servers of the SDKs quote all values, and none of these has an escaped character.
        let value = field.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        challenge.params.extend(value.map(|(value, _)| (name.to_owned(), value.to_owned())));
    }
    vec![challenge]
}
