//! How our protected server validates the tokens of the real authorization server: by introspection, and with proofs.

use core::time::Duration;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_auth::client::{HttpFetcher, generate_dpop_key, sign_dpop};
use mcp_auth::token::{IntrospectionValidator, JwtValidator};
use mcp_oauth::{AccessToken, Config, DpopKey, DpopMode, Secret, Trigger};
use mcp_proto::VersionSet;
use mcp_proto::http::server::{Dpop, Protected};
use mcp_system_tests::adapters::AdapterKind;
use mcp_system_tests::browser::http::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::authorization::authorization_server::{AuthorizationServer, CLIENT_SECRET};
use crate::authorization::flow_driver::{FlowClient, FlowEnd};
use crate::authorization::own_client;
use crate::authorization::own_server::OwnServer;
use crate::authorization::protected_servers::{call, call_with, challenge};

const INTROSPECTION: &str = "/token/introspection";
const ELSEWHERE: &str = "http://127.0.0.1:1/mcp";

/// Starts our server, which asks the authorization server about each token and keeps the answers for so long.
fn start_introspecting(issuer: &AuthorizationServer, dpop: Dpop, keep: Duration) -> OwnServer {
    let endpoint = format!("{}{INTROSPECTION}", issuer.issuer);
    OwnServer::start_with(&issuer.issuer, dpop, |protected: &Protected| {
        let secret = Secret::from(CLIENT_SECRET);
        IntrospectionValidator::new(protected, &endpoint, "resource-server", &secret, HttpFetcher::new())
            .expect("an address on this machine")
            .cache_for(keep)
    })
}

/// Checks that a request was refused because of its token.
fn assert_invalid_token(response: &Response) {
    assert_eq!(response.status, 401, "{response:?}");
    assert!(challenge(response).contains("invalid_token"), "{response:?}");
}

// covers: AUTH-009, AUTH-010, SEC-007
#[test]
fn introspected_token_is_accepted_until_it_is_revoked() {
    let Some(issuer) = AuthorizationServer::start(&["--opaque"]) else { return };
    let Some(other) = AuthorizationServer::start(&["--opaque"]) else { return };
    let server = start_introspecting(&issuer, Dpop::Off, Duration::ZERO);
    let client = FlowClient::new(Config::new("tests"));
    let token = client.authorize(&server.url).token();
    let text = token.token.expose();
    assert!(!text.contains('.'), "a JWT instead of an opaque token");
    let answer = call(&server.url, text, "whoami");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("tester") && answer.body.contains("mcp:read"), "{answer:?}");
    // A scope that the token lacks.
    assert_eq!(call(&server.url, text, "write").status, 403);
    for foreign in [
        issuer.machine_token(ELSEWHERE, "mcp:read"),
        other.machine_token(&server.url, "mcp:read"),
        "invented".to_owned(),
    ] {
        assert_invalid_token(&call(&server.url, &foreign, "whoami"));
    }
    let asked = issuer.requests(INTROSPECTION);
    assert_eq!(asked.len(), 5);
    let is_right = |request: &Value| {
        (&request["status"], &request["authentication"]) == (&json!(200), &json!("client_secret_basic"))
    };
    assert!(asked.iter().all(is_right), "{asked:?}");
    assert_eq!(other.requests(INTROSPECTION).len(), 0, "the token of one server was shown to another");

    assert!(matches!(client.run(&server.url, Trigger::LogOut), FlowEnd::NoToken));
    assert_invalid_token(&call(&server.url, text, "whoami"));
    server.stop();
    issuer.stop();
    other.stop();
}

#[test]
fn answers_of_introspection_are_kept_for_their_time() {
    let Some(issuer) = AuthorizationServer::start(&["--opaque"]) else { return };
    // Long enough for three requests and a revocation on a busy machine.
    let keep = Duration::from_secs(10);
    let server = start_introspecting(&issuer, Dpop::Off, keep);
    let token = issuer.machine_token(&server.url, "mcp:read");
    for _ in 0..3 {
        assert_eq!(call(&server.url, &token, "whoami").status, 200);
    }
    let form = [("token", &*token), ("client_id", "machine-post"), ("client_secret", CLIENT_SECRET)];
    assert_eq!(issuer.post("/token/revocation", &form).status, 200);
    assert_eq!(call(&server.url, &token, "whoami").status, 200, "the answer is kept");
    assert_eq!(issuer.requests(INTROSPECTION).len(), 1);
    thread::sleep(keep + Duration::from_secs(1));
    assert_invalid_token(&call(&server.url, &token, "whoami"));
    assert_eq!(issuer.requests(INTROSPECTION).len(), 2);
    server.stop();
    issuer.stop();
}

/// Starts our server, which takes only tokens that are bound to a key.
fn start_binding(issuer: &AuthorizationServer, is_opaque: bool) -> OwnServer {
    if is_opaque {
        return start_introspecting(issuer, Dpop::Required, Duration::from_secs(60));
    }
    let validator = |protected: &Protected| JwtValidator::new(protected, HttpFetcher::new());
    OwnServer::start_with(&issuer.issuer, Dpop::Required, validator)
}

// covers: AUTH-007
#[test]
fn own_client_binds_its_tokens_because_our_server_asks_for_it() {
    for options in [&["--dpop-nonces"][..], &["--dpop-nonces", "--opaque"]] {
        let Some(issuer) = AuthorizationServer::start(options) else { return };
        let server = start_binding(&issuer, options.contains(&"--opaque"));
        for runtime in AdapterKind::ALL {
            let authorizer = own_client::authorizer("");
            let mut client = own_client::connect(runtime, VersionSet::ALL, &server.url, authorizer)
                .unwrap_or_else(|error| panic!("{runtime} {options:?}: {error}"));
            for _ in 0..3 {
                let text = own_client::call(&mut *client, "whoami").expect("an answer");
                assert_eq!(text, r#"{"scopes":["mcp:read"],"subject":"tester"}"#, "{runtime}");
            }
            assert_eq!(own_client::call(&mut *client, "write").expect("more scopes"), "written", "{runtime}");
            client.close().expect("a graceful end");
        }
        let granted = issuer.grants("authorization_code");
        assert_eq!(granted.len(), 2 * AdapterKind::ALL.len(), "{options:?}");
        assert!(granted.iter().all(|request| request["dpop"] == true), "{granted:?}");
        server.stop();
        issuer.stop();
    }
}

/// Returns a proof of a key for a call with a token.
fn proof(key: &DpopKey, url: &str, token: &str, id: &str) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (x, y) = key.public.split_at(32);
    let jwk = json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)});
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk});
    let digest = encode(&Sha256::digest(token));
    let claims = json!({"jti": id, "htm": "POST", "htu": url, "iat": now, "ath": digest});
    let input =
        format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
    let signature = sign_dpop(&key.private, input.as_bytes()).expect("a signature");
    format!("{input}.{}", encode(&signature))
}

// covers: AUTH-009
#[test]
fn stolen_bound_token_is_of_no_use() {
    for is_opaque in [false, true] {
        let options: &[&str] = if is_opaque { &["--opaque"] } else { &[] };
        let Some(issuer) = AuthorizationServer::start(options) else { return };
        let server = start_binding(&issuer, is_opaque);
        let client = FlowClient::new(Config::new("tests").dpop(DpopMode::Always));
        let AccessToken { token, dpop: key, .. } = client.authorize(&server.url).token();
        let (token, key) = (token.expose(), key.expect("a key"));
        let present = |scheme: &str, proofs: &[&str]| {
            let authorization = format!("{scheme} {token}");
            let mut fields = vec![("Authorization", &*authorization)];
            fields.extend(proofs.iter().map(|proof| ("DPoP", *proof)));
            call_with(&server.url, &fields, "whoami")
        };
        let own = proof(&key, &server.url, token, "1");
        let answer = present("DPoP", &[&own]);
        assert_eq!(answer.status, 200, "{answer:?}");

        let thief = generate_dpop_key().expect("randomness");
        let foreign = proof(&thief, &server.url, token, "2");
        let elsewhere = proof(&key, ELSEWHERE, token, "3");
        let other_token = proof(&key, &server.url, "other", "4");
        let fresh = proof(&key, &server.url, token, "5");
        for proofs in
            [&[][..], &[&*own], &[&*foreign], &[&*elsewhere], &[&*other_token], &[&*fresh, &*foreign]]
        {
            let refused = present("DPoP", proofs);
            assert_eq!(refused.status, 401, "{proofs:?}: {refused:?}");
            assert!(challenge(&refused).contains("invalid_dpop_proof"), "{refused:?}");
        }
        let refused = present("Bearer", &[]);
        assert_eq!(refused.status, 401, "{refused:?}");
        server.stop();
        issuer.stop();
    }
}

// covers: AUTH-009, AUTH-010
#[test]
fn token_without_binding_is_refused_where_one_is_required() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = start_binding(&issuer, false);
    let token = issuer.machine_token(&server.url, "mcp:read");
    assert_eq!(call(&server.url, &token, "whoami").status, 401);
    let key = generate_dpop_key().expect("randomness");
    let fields =
        [("Authorization", &*format!("DPoP {token}")), ("DPoP", &*proof(&key, &server.url, &token, "1"))]
            .map(|(name, value)| (name, value.to_owned()));
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
    assert_invalid_token(&call_with(&server.url, &fields, "whoami"));
    server.stop();
    issuer.stop();
}
