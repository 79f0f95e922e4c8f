//! Tokens that are bound to a key: proofs of the client, made by a real key, verified by the server.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_auth::client::{generate_dpop_key, sign_dpop};
use mcp_auth::token::DpopVerifier;
use mcp_oauth::{DpopKey, DpopProofs, SigningKey};
use mcp_proto::http::client::{self as http_client, Credential};
use mcp_proto::http::server::{Config, Denial, Dpop, Protected};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Identity;
use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, VersionSet, client, server};
use mcp_tests::harness::{Chunker, HttpClientHarness, HttpServerHarness, SentRequest};
use serde_json::json;
use sha2::{Digest as _, Sha256};

const TOKEN: &str = "t0k3n";
const UNIX_SECS: u64 = 1_800_000_000;

/// A client and a server with one clock, of which the test moves the messages.
struct Ends {
    client: HttpClientHarness,
    proofs: DpopProofs,
    server: HttpServerHarness,
    time: Arc<AtomicU64>,
}

impl Ends {
    /// A server that requires nonces, with a new one after each minute.
    fn new(key: &DpopKey, thumbprint: &str) -> Self {
        let credential = Credential::dpop(TOKEN);
        let http = http_client::Config::new("http://localhost/mcp").expect("a URL").handle_challenges(true);
        let http = http.credential(credential.expect("a token"));
        let client = HttpClientHarness::new(
            client::Config::new("harbor-client", "0.3.0").versions(VersionSet::MODERN),
            http,
            Chunker::Whole,
        );
        let time = Arc::new(AtomicU64::new(UNIX_SECS));
        let (clock, thumbprint) = (time.clone(), thumbprint.to_owned());
        let verifier = DpopVerifier::new().nonce_secret(&[7; 32], Duration::from_secs(60));
        let verifier = verifier.clock(move || clock.load(Ordering::SeqCst));
        let config =
            server::Config::new("tide", "1").capabilities(Capabilities::new().with(Capability::Tools));
        let resource = Protected::new("http://localhost/mcp", "https://login.example").expect("valid");
        let http = Config::new().protected(resource.dpop(Dpop::Required));
        let mut server = HttpServerHarness::new(config, http);
        server.server.set_validator(move |request| {
            let is_known = request.token.matches(TOKEN);
            let key = if is_known {
                verifier.verify(request, Some(&thumbprint))
            } else {
                Err(Denial::invalid_token())
            };
            Some(key.map(|key| Arc::new(Identity::new("alice").proven_key(key))))
        });
        let clock = Anchor::new(Instant::ZERO, UNIX_SECS);
        let proofs = DpopProofs::new(key.clone(), clock, [1; 32], client.now);
        Self { client, proofs, server, time }
    }

    /// Signs the next proof, and returns the request.
    fn next_request(&mut self, method: &str) -> SentRequest {
        self.client.pump();
        let (now, request) = (self.client.now, self.client.client.authorization().poll_proof());
        let request = request.expect("a proof to make");
        let nonce = request.nonce.as_deref();
        let sign = self.proofs.begin(now, request.method, &request.url, nonce, request.token());
        let SigningKey::Dpop(private) = &sign.key else { panic!("another key") };
        let signature = sign_dpop(private, &sign.input).expect("signed");
        let proof = sign.finish(&signature);
        self.client.client.authorization().handle_proof(now, request.exchange, &proof);
        self.client.pump();
        self.client.expect_post(method)
    }

    /// Passes a request to the server and the response back. Returns the status, and the nonce of the response.
    fn exchange(&mut self, request: &SentRequest) -> (u16, Option<String>) {
        let fields: Vec<_> = request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let x = self.server.post(&fields, &request.body.to_string());
        if self.server.response(x).status == 0 {
            let call = self.server.expect_call();
            let (now, result) = (self.server.now, CallToolResult::text("done"));
            self.server.server.engine().complete(now, call.id(), &result).expect("a live call");
            self.server.transmit_all();
        }
        let response = self.server.response(x);
        let fields: Vec<_> = response.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.client.respond_with(request.id, response.status, &fields, &response.body);
        (response.status, response.field("dpop-nonce").map(Into::into))
    }

    fn advance(&mut self, span: Duration) {
        self.client.advance(span);
        self.server.advance(span);
        self.time.fetch_add(span.as_secs(), Ordering::SeqCst);
    }

    /// Calls a tool; returns the outcomes of its requests.
    fn call(&mut self) -> Vec<(u16, Option<String>)> {
        let key = self.client.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
        let mut outcomes = Vec::new();
        while outcomes.last().is_none_or(|(status, _)| *status == 401) {
            let request = self.next_request("tools/call");
            outcomes.push(self.exchange(&request));
        }
        assert!(self.client.expect_done(key).is_ok());
        outcomes
    }
}

/// The thumbprint of a key (RFC 7638).
fn thumbprint(key: &DpopKey) -> String {
    let (x, y) = key.public.split_at(32);
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let json = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, encode(x), encode(y));
    encode(&Sha256::digest(json))
}

// covers: AUTH-006, AUTH-007, AUTH-009
#[test]
fn client_learns_the_nonces_of_the_server_and_keeps_up_with_them() {
    let key = generate_dpop_key().expect("a key");
    let mut ends = Ends::new(&key, &thumbprint(&key));
    let first = ends.next_request("server/discover");
    let (status, nonce) = ends.exchange(&first);
    assert!(status == 401 && nonce.is_some());
    let discovery = ends.next_request("server/discover");
    assert_eq!(ends.exchange(&discovery), (200, None), "the nonce is the current one");
    ends.client.expect_ready();
    assert_eq!(ends.call(), [(200, None)]);
    // The response tells the next nonce once the client uses the one before.
    ends.advance(Duration::from_secs(60));
    let outcomes = ends.call();
    let [(200, Some(second))] = &*outcomes else { panic!("{outcomes:?}") };
    assert_ne!(Some(second), nonce.as_ref());
    assert_eq!(ends.call(), [(200, None)]);
    // A client that was silent for longer is told it in a refusal, which costs one request.
    ends.advance(Duration::from_secs(180));
    let outcomes = ends.call();
    assert!(matches!(&*outcomes, [(401, Some(third)), (200, None)] if third != second), "{outcomes:?}");
    assert!(ends.client.client.authorization().poll_challenge().is_none());
}

// covers: AUTH-009
#[test]
fn proof_is_accepted_once_and_for_its_own_key() {
    let key = generate_dpop_key().expect("a key");
    let mut ends = Ends::new(&key, &thumbprint(&key));
    let first = ends.next_request("server/discover");
    ends.exchange(&first);
    let mut request = ends.next_request("server/discover");
    assert_eq!(ends.exchange(&request).0, 200);
    let fields: Vec<_> = request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let x = ends.server.post(&fields, &request.body.to_string());
    let challenge = ends.server.response(x).field("www-authenticate").unwrap_or_default();
    assert!(challenge.contains("the proof was used before"), "{challenge}");
    // The token alone is worth nothing.
    request.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("dpop"));
    for authorization in ["Bearer t0k3n", "DPoP t0k3n"] {
        let fields = request.fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        fields.expect("a token").1 = authorization.into();
        let fields: Vec<_> = request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let x = ends.server.post(&fields, &request.body.to_string());
        assert_eq!(ends.server.response(x).status, 401, "{authorization}");
    }
    let other = generate_dpop_key().expect("a key");
    let mut thief = Ends::new(&other, &thumbprint(&key));
    let request = thief.next_request("server/discover");
    assert_eq!(thief.exchange(&request), (401, None));
    let challenge = thief.client.expect_challenge();
    assert!(challenge.challenges.iter().any(|c| c.param("error") == Some("invalid_dpop_proof")));
}
