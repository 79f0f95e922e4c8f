//! A flow against an authorization server of a few lines.

use mcp_oauth::{Fetch, FetchResponse, Url};
use mcp_oauth_alone::token;

const RESOURCE: &str =
    r#"{"resource":"https://api.example/v1","authorization_servers":["https://as.example"]}"#;
const SERVER: &str = r#"{"issuer":"https://as.example","authorization_endpoint":"https://as.example/a",
    "token_endpoint":"https://as.example/token","response_types_supported":["code"],
    "grant_types_supported":["client_credentials"],"token_endpoint_auth_methods_supported":["client_secret_basic"],
    "code_challenge_methods_supported":["S256"]}"#;

fn answer(fetch: &Fetch) -> FetchResponse {
    let (status, body) = match fetch.url.target() {
        "/.well-known/oauth-protected-resource/v1" => (200, RESOURCE),
        "/.well-known/oauth-authorization-server" => (200, SERVER),
        "/token" => (200, r#"{"access_token":"t0k3n","token_type":"Bearer","expires_in":3600}"#),
        _ => (404, ""),
    };
    let mut response = FetchResponse { status, body: body.into(), ..FetchResponse::default() };
    response.fields.push("Content-Type", b"application/json");
    response
}

#[test]
fn token_is_got_without_an_engine() {
    let service = || Url::parse("https://api.example/v1").expect("a URL");
    let got = token(service(), "batch", "s3cret", answer).expect("a token").expect("a token");
    assert_eq!(got.expose(), "t0k3n");
    let refused =
        token(service(), "batch", "s3cret", |_| FetchResponse { status: 500, ..FetchResponse::default() });
    let error = refused.expect_err("no metadata").to_string();
    assert!(error.contains("metadata") && !error.contains("s3cret"), "{error}");
}
