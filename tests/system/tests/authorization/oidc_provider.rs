//! The authorization server does what the tests of clients and servers rely on.

use core::time::Duration;
use std::thread;

use mcp_system_tests::browser::{Browser, BrowserError, BrowserScript, parameter, with_parameter};
use serde_json::{Value, json as value};

use crate::authorization::authorization_server::{AuthorizationServer, DOCUMENT_URL, document_option, json};
use crate::authorization::browser::{RESOURCE, VERIFIER, authorization_url};

const REDIRECT_URI: &str = "http://127.0.0.1:3/callback";

/// Logs in and returns an authorization code of the client `public`.
fn code(server: &AuthorizationServer, parameters: &[(&str, &str)]) -> String {
    let url = authorization_url(&server.issuer, REDIRECT_URI, parameters);
    let redirect = Browser::default().authorize(&url).expect("a redirect");
    parameter(&redirect, "code").unwrap_or_else(|| panic!("no code: {redirect}"))
}

fn redeem(server: &AuthorizationServer, code: &str) -> Value {
    json(&server.post(
        "/token",
        &[
            ("grant_type", "authorization_code"),
            ("client_id", "public"),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT_URI),
            ("resource", RESOURCE),
        ],
    ))
}

fn refresh(server: &AuthorizationServer, token: &Value) -> Value {
    let token = token.as_str().expect("a refresh token");
    let form = [("grant_type", "refresh_token"), ("client_id", "public"), ("refresh_token", token)];
    json(&server.post("/token", &[&form[..], &[("resource", RESOURCE)]].concat()))
}

#[test]
fn refresh_token_needs_consent_rotates_and_is_revoked_by_reuse() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let scope = ("scope", "mcp:read offline_access");
    let without = redeem(&server, &code(&server, &[scope]));
    assert_eq!((&without["refresh_token"], &without["scope"]), (&Value::Null, &"mcp:read".into()));

    let first = redeem(&server, &code(&server, &[scope, ("prompt", "consent")]));
    let second = refresh(&server, &first["refresh_token"]);
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_ne!(first["access_token"], second["access_token"]);
    // A used refresh token was stolen or replayed: everything of its grant ends.
    assert_eq!(refresh(&server, &first["refresh_token"])["error"], "invalid_grant");
    assert_eq!(refresh(&server, &second["refresh_token"])["error"], "invalid_grant");
    server.stop();
}

#[test]
fn code_is_bound_to_its_issuer_and_redeemed_once() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let Some(other) = AuthorizationServer::start(&[]) else { return };
    let code = code(&server, &[("scope", "mcp:read")]);
    assert_eq!(redeem(&other, &code)["error"], "invalid_grant");
    assert_eq!(redeem(&server, &code)["token_type"], "Bearer");
    assert_eq!(redeem(&server, &code)["error"], "invalid_grant");
    server.stop();
    other.stop();
}

#[test]
fn pkce_is_required_and_unknown_resource_refused() {
    let Some(server) = AuthorizationServer::start(&["--resource", "http://127.0.0.1:2/mcp"]) else { return };
    let error = |url: &str| {
        let redirect = Browser::default().authorize(url).expect("a redirect");
        parameter(&redirect, "error").unwrap_or_else(|| panic!("no error: {redirect}"))
    };
    let url = authorization_url(&server.issuer, REDIRECT_URI, &[("scope", "mcp:read")]);
    assert_eq!(error(&url), "invalid_target");
    let known = url.replace("127.0.0.1%3A1%2Fmcp", "127.0.0.1%3A2%2Fmcp");
    let plain = known.split('&').filter(|pair| !pair.starts_with("code_challenge"));
    assert_eq!(error(&plain.collect::<Vec<_>>().join("&")), "invalid_request");
    let redirect = Browser::default().authorize(&known).expect("a redirect");
    assert!(parameter(&redirect, "code").is_some(), "{redirect}");
    server.stop();
}

// covers: AUTH-042, AUTH-050
#[test]
fn metadata_lists_pkce_and_the_issuer_of_redirects() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    for name in ["oauth-authorization-server", "openid-configuration"] {
        let url = format!("{}/.well-known/{name}", server.issuer);
        let page = Browser::deliver(&url).expect("metadata");
        let metadata: Value = serde_json::from_str(&page.body).expect("JSON");
        assert_eq!(metadata["issuer"], server.issuer, "{name}");
        assert_eq!(metadata["code_challenge_methods_supported"], value!(["S256"]), "{name}");
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true, "{name}");
    }
    for script in [true, false].map(|consents| BrowserScript { consents, ..BrowserScript::default() }) {
        let url = authorization_url(&server.issuer, REDIRECT_URI, &[("scope", "mcp:read")]);
        let redirect = Browser::new(script).authorize(&url).expect("a redirect");
        assert_eq!(parameter(&redirect, "iss").as_deref(), Some(&*server.issuer), "{redirect}");
    }
    server.stop();
}

// covers: AUTH-036, AUTH-062
#[test]
fn client_metadata_document_is_fetched_and_validated() {
    const OTHER_URL: &str = "https://client.example/other.json";
    let dir = std::env::temp_dir().join(format!("mcp-document-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let document = document_option(&dir);
    // The same document at another address, which is not its `client_id`.
    let misplaced = document.replace(DOCUMENT_URL, OTHER_URL);
    let options = ["--document", &document, "--document", &misplaced];
    let Some(server) = AuthorizationServer::start(&options) else { return };
    let authorize = |client: &str, redirect_uri: &str| {
        let url = authorization_url(&server.issuer, redirect_uri, &[("scope", "mcp:read")]);
        Browser::default().authorize(&with_parameter(&url, "client_id", Some(client)))
    };
    let redirect = authorize(DOCUMENT_URL, REDIRECT_URI).expect("a redirect");
    assert!(parameter(&redirect, "code").is_some(), "{redirect}");
    for (client, redirect_uri, reason) in [
        (OTHER_URL, REDIRECT_URI, "invalid_client"),
        (DOCUMENT_URL, "http://127.0.0.1:3/elsewhere", "invalid_redirect_uri"),
        ("https://client.example/none.json", REDIRECT_URI, "invalid_client"),
    ] {
        match authorize(client, redirect_uri) {
            Err(BrowserError::Page(400, _, text)) => assert!(text.contains(reason), "{client}: {text}"),
            other => panic!("{client}: {other:?}"),
        }
    }
    let events = server.events();
    assert!(events.iter().any(|event| event["event"] == "document" && event["found"] == true), "{events:?}");
    server.stop();
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn opaque_token_is_introspected_and_revoked() {
    let Some(server) = AuthorizationServer::start(&["--opaque"]) else { return };
    let tokens = redeem(&server, &code(&server, &[("scope", "mcp:read")]));
    let token = tokens["access_token"].as_str().expect("a token");
    assert!(!token.contains('.'), "a JWT instead of an opaque token");
    let introspect = || {
        // resource-server:secret-of-the-tests
        let credentials = "Basic cmVzb3VyY2Utc2VydmVyOnNlY3JldC1vZi10aGUtdGVzdHM=";
        json(&server.post_with(
            "/token/introspection",
            &[("token", token)],
            &[("Authorization", credentials)],
        ))
    };
    let active = introspect();
    assert_eq!((&active["active"], &active["aud"]), (&true.into(), &RESOURCE.into()));
    assert_eq!((&active["scope"], &active["sub"]), (&"mcp:read".into(), &"tester".into()));
    let revoked = server.post("/token/revocation", &[("token", token), ("client_id", "public")]);
    assert_eq!(revoked.status, 200);
    assert_eq!(introspect()["active"], false);
    server.stop();
}

#[test]
fn device_gets_token_after_user_confirms() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let start = || {
        let form = [("client_id", "device"), ("scope", "mcp:read"), ("resource", RESOURCE)];
        json(&server.post("/device/auth", &form))
    };
    let text = |value: &Value, name: &str| value[name].as_str().expect("a text").to_owned();
    let poll = |device: &Value| {
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        let code = text(device, "device_code");
        let form = [("grant_type", grant), ("client_id", "device"), ("device_code", &*code)];
        json(&server.post("/token", &[&form[..], &[("resource", RESOURCE)]].concat()))
    };

    let device = start();
    assert_eq!(poll(&device)["error"], "authorization_pending");
    let mut typo = Browser::new(BrowserScript { user_code: Some("AAAA-AAAA".into()), ..Default::default() });
    typo.verify_device(&text(&device, "verification_uri")).expect_err("an unknown code");
    let script = BrowserScript { user_code: Some(text(&device, "user_code")), ..Default::default() };
    Browser::new(script).verify_device(&text(&device, "verification_uri")).expect("the code is known");
    assert_eq!(poll(&device)["scope"], "mcp:read");

    let device = start();
    let mut declining = Browser::new(BrowserScript { consents: false, ..BrowserScript::default() });
    declining.verify_device(&text(&device, "verification_uri_complete")).expect("the code is known");
    assert_eq!(poll(&device)["error"], "access_denied");
    server.stop();
}

#[test]
fn restarted_server_has_rotated_its_keys() {
    let Some(server) = AuthorizationServer::start(&[]) else { return };
    let keys = |server: &AuthorizationServer| {
        let page = Browser::deliver(&format!("{}/jwks", server.issuer)).expect("keys");
        serde_json::from_str::<Value>(&page.body).expect("JSON")["keys"].clone()
    };
    let (issuer, before) = (server.issuer.clone(), keys(&server));
    let port = issuer.rsplit(':').next().expect("a port").to_owned();
    server.stop();
    let server = AuthorizationServer::start(&["--port", &port, "--alg", "RS256"]).expect("it ran before");
    assert_eq!(server.issuer, issuer);
    assert_ne!(keys(&server), before);
    // The header {"alg":"RS256", in Base64.
    assert!(server.machine_token(RESOURCE, "mcp:read").starts_with("eyJhbGciOiJSUzI1NiIs"));
    server.stop();
}

#[test]
fn token_request_has_its_effect_before_its_response() {
    let Some(server) = AuthorizationServer::start(&["--token-delay", "2000"]) else { return };
    thread::scope(|scope| {
        let request = scope.spawn(|| server.machine_token(RESOURCE, "mcp:read"));
        // A client that is killed now has a token that it does not know.
        while server.grants("client_credentials").is_empty() {
            assert!(!request.is_finished(), "the response came before the log");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!request.is_finished());
        assert!(!request.join().expect("no panic").is_empty());
    });
    server.stop();
}
