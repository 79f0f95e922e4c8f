//! Runs of authorization flows for the fuzz targets: a store, a browser and servers that answer rightly, unless a target
//! answers in their place.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use mcp_oauth::{
    AccessToken, ClientAuth, ClientCredentials, Config, DpopKey, Event, Fetch, FetchFailure, FetchResponse,
    Flow, RedirectOutcome, Secret, TokenRecord, Trigger,
};
use mcp_proto::head::Fields;
use mcp_proto::http::client::Url;
use mcp_proto::{Anchor, Entropy, Instant};

/// The MCP server of most runs.
pub(super) const SERVER: &str = "https://h/mcp";
/// The authorization server of most runs.
pub(super) const ISSUER: &str = "https://as";
/// Largest number of requests of a flow, without polls.
const MAX_FETCHES: usize = 32;
/// Bound of the events of a flow.
const MAX_EVENTS: usize = 2_000;

/// The end of a flow.
#[derive(Debug)]
pub(super) enum End {
    Authorized(AccessToken),
    NoToken,
    Failed,
}

/// Gives the reply to a request.
type Respond<'a> = dyn FnMut(&Fetch) -> Result<FetchResponse, FetchFailure> + 'a;

/// Gives the queries of the redirects from the `state`.
type Redirect<'a> = dyn FnMut(&str) -> Vec<String> + 'a;

/// What the servers, the user and the store answer; runs of one script share its store.
pub(super) struct Script<'a> {
    respond: Box<Respond<'a>>,
    redirect: Box<Redirect<'a>>,
    /// The mark of the secrets.
    mark: &'a str,
    /// Texts by their keys.
    pub(super) store: BTreeMap<String, String>,
}

impl<'a> Script<'a> {
    /// Creates a script of right answers and an empty store.
    pub(super) fn right(mark: &'a str) -> Self {
        Self {
            respond: Box::new(|fetch| right(mark, fetch)),
            redirect: Box::new(|state| right_redirect(mark, state)),
            mark,
            store: BTreeMap::new(),
        }
    }

    /// Sets the replies to requests.
    pub(super) fn responding(
        mut self,
        respond: impl FnMut(&Fetch) -> Result<FetchResponse, FetchFailure> + 'a,
    ) -> Self {
        self.respond = Box::new(respond);
        self
    }

    /// Sets the queries of the redirects.
    pub(super) fn redirecting(mut self, redirect: impl FnMut(&str) -> Vec<String> + 'a) -> Self {
        self.redirect = Box::new(redirect);
        self
    }
}

/// Returns a part of each secret that the run hands to the flow. It depends on the whole input, so that no input has it.
pub(super) fn mark(data: &[u8]) -> String {
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("s3cret-{hash:016x}")
}

/// Returns the right reply to a request.
pub(super) fn right(mark: &str, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
    let body = match fetch.url.target().split('?').next().unwrap_or_default() {
        "/.well-known/oauth-protected-resource/mcp" => {
            format!(
                r#"{{"resource":"{SERVER}","authorization_servers":["{ISSUER}"],"scopes_supported":["a"]}}"#
            )
        }
        "/.well-known/oauth-authorization-server" => format!(
            r#"{{"issuer":"{ISSUER}","authorization_endpoint":"{ISSUER}/authorize","token_endpoint":"{ISSUER}/token",
                "registration_endpoint":"{ISSUER}/register","revocation_endpoint":"{ISSUER}/revoke",
                "device_authorization_endpoint":"{ISSUER}/device","code_challenge_methods_supported":["S256"],
                "dpop_signing_alg_values_supported":["ES256"],"client_id_metadata_document_supported":true}}"#
        ),
        "/register" => String::from(r#"{"client_id":"c"}"#),
        "/device" => format!(
            r#"{{"device_code":"{mark}-d","user_code":"U","verification_uri":"{ISSUER}/d","expires_in":60}}"#
        ),
        "/token" => {
            let kind = if fetch.fields.iter().any(|(name, _)| name == "DPoP") { "DPoP" } else { "Bearer" };
            format!(
                r#"{{"access_token":"{mark}-a","token_type":"{kind}","refresh_token":"{mark}-r","expires_in":60}}"#
            )
        }
        "/revoke" => String::new(),
        _ => return Ok(response(404, b"")),
    };
    Ok(response(200, body.as_bytes()))
}

/// Returns a response.
pub(super) fn response(status: u16, body: &[u8]) -> FetchResponse {
    FetchResponse { status, fields: Fields::new(), body: body.to_vec() }
}

/// Returns the right redirect.
fn right_redirect(mark: &str, state: &str) -> Vec<String> {
    vec![format!("code={mark}-c&state={state}")]
}

/// Drives a flow for `server` to its end, and checks:
///
/// - It ends, with at most 32 requests, and emits nothing afterwards.
/// - Each URL is `https`, because the server is; only a POST carries a secret.
/// - Nothing that is shown holds a secret that the run handed out.
/// - A lock is released, and a token was stored before it is handed out.
pub(super) fn drive(config: Config, server: &Url, trigger: Trigger, script: &mut Script<'_>) -> End {
    let mark = script.mark;
    let mut now = Instant::from_micros(1);
    let clock = Anchor::new(Instant::ZERO, 1_800_000_000);
    let entropy = Entropy::new([3; 32], 1);
    let mut flow = Flow::new(Arc::new(config), server.clone(), trigger, clock, now, entropy);
    let (mut fetches, mut is_locked) = (0, false);
    for _ in 0..MAX_EVENTS {
        let Some(event) = flow.poll_event(now) else {
            now = now.max(flow.poll_timeout().expect("the flow waits for something"));
            flow.handle_timeout(now);
            continue;
        };
        assert!(!format!("{event:?}{flow:?}").contains(mark), "a secret is shown: {event:?}");
        match event {
            Event::Fetch(fetch) => {
                fetches += usize::from(!contains(&fetch.body, b"grant-type%3Adevice_code&"));
                check_fetch(&fetch, server, mark, fetches);
                match (script.respond)(&fetch) {
                    Ok(response) => flow.handle_response(now, fetch.id, response),
                    Err(failure) => flow.handle_fetch_failure(now, fetch.id, failure),
                }
            }
            Event::Load { key } => {
                flow.handle_loaded(now, script.store.get(&key).map(|text| Secret::from(&**text)).as_ref());
            }
            Event::Lock { key } => {
                assert!(!core::mem::replace(&mut is_locked, true), "locked twice");
                flow.handle_loaded(now, script.store.get(&key).map(|text| Secret::from(&**text)).as_ref());
            }
            Event::Unlock { .. } => assert!(core::mem::take(&mut is_locked), "not locked"),
            Event::Replace { key, old, new } => {
                assert_eq!(script.store.get(&key).map(String::as_str), old.as_ref().map(Secret::expose));
                match new {
                    Some(new) => script.store.insert(key, new.expose().into()),
                    None => script.store.remove(&key),
                };
                flow.handle_saved(now);
            }
            Event::Save { key, value } => {
                match value {
                    Some(value) => script.store.insert(key, value.expose().into()),
                    None => script.store.remove(&key),
                };
                flow.handle_saved(now);
            }
            Event::ChooseServer { issuers } => flow.choose(now, issuers.len() - 1),
            Event::NeedClient { .. } => {
                flow.set_client(now, &ClientCredentials::new("named", ClientAuth::None));
            }
            Event::NeedRedirectUri { .. } => flow.set_redirect_uri(now, "http://127.0.0.1:1/callback"),
            Event::CreateKey => {
                let private = format!("{mark}-p").into();
                flow.handle_key(now, DpopKey { private, public: [1; 64] });
            }
            Event::Sign(_) => flow.handle_signature(now, &vec![7; 64]),
            Event::OpenBrowser { url } => {
                assert!(url.origin().secure, "{url:?}");
                let state = url.target().split(['?', '&']).find_map(|part| part.strip_prefix("state="));
                for query in (script.redirect)(state.expect("a state")) {
                    let outcome = flow.handle_redirect(now, &query);
                    assert!(!format!("{outcome:?}").contains(mark), "{outcome:?}");
                    if outcome != RedirectOutcome::Foreign {
                        break;
                    }
                }
            }
            Event::ShowUserCode(code) => assert!(code.verification_uri.origin().secure, "{code:?}"),
            Event::NeedAssertion(_) => flow.handle_assertion(now, format!("{mark}-i").into()),
            Event::Authorized(token) => {
                let stored = script.store.get(&TokenRecord::key(server)).expect("stored tokens");
                assert!(TokenRecord::parse(&Secret::from(&**stored)).is_ok(), "what was stored can be read");
                let text = token.token.expose();
                assert!(!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()), "{text}");
                return ended(&mut flow, now, is_locked, End::Authorized(*token));
            }
            Event::NoToken => return ended(&mut flow, now, is_locked, End::NoToken),
            Event::Failed(error) => {
                let shown = error.to_string();
                assert!(!shown.contains(mark) && !shown.contains(['\r', '\n']), "{shown}");
                return ended(&mut flow, now, is_locked, End::Failed);
            }
            other => panic!("unknown event: {other:?}"),
        }
    }
    panic!("the flow does not end: {flow:?}");
}

fn ended(flow: &mut Flow, now: Instant, is_locked: bool, end: End) -> End {
    assert!(!is_locked && flow.is_ended() && flow.poll_timeout().is_none(), "{flow:?}");
    flow.handle_saved(now);
    assert!(flow.poll_event(now).is_none(), "an event after the end");
    flow.handle_timeout(Instant::FAR_FUTURE);
    assert!(flow.poll_event(Instant::FAR_FUTURE).is_none(), "an event after the end");
    end
}

fn check_fetch(fetch: &Fetch, server: &Url, mark: &str, fetches: usize) {
    assert!(fetches <= MAX_FETCHES, "{fetches} requests");
    assert!(fetch.url.origin().secure || !server.origin().secure, "{fetch:?}");
    if fetch.method == "GET" {
        let sends = |name: &str| fetch.fields.iter().any(|(other, _)| other == name);
        assert!(fetch.body.is_empty() && !sends("Authorization") && !sends("DPoP"), "{fetch:?}");
    }
    assert!(!fetch.url.target().contains(mark), "a secret in a URL");
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
