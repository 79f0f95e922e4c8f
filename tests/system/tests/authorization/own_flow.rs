//! Our flow with the real authorization server and the protected servers of the official SDKs.

use std::fs;
use std::thread;

use core::time::Duration;

use mcp_oauth::{
    AccessToken, Algorithm, ClientAuth, ClientCredentials, Config, DpopMode, GrantType, Trigger,
};
use serde_json::{Value, json};

use crate::authorization::authorization_server::{
    AuthorizationServer, CLIENT_SECRET, DOCUMENT_URL, ODD_CLIENT_SECRET, client_key, document_option,
};
use crate::authorization::flow_driver::{FlowClient, FlowEnd, challenges};
use crate::authorization::protected_servers::{call, send};
use crate::authorization::sdk::Sdk;

/// Starts an authorization server and the protected server of the TypeScript SDK, if both can run here.
fn start(options: &[&str]) -> Option<(AuthorizationServer, crate::hosted_server::HostedServer)> {
    let issuer = AuthorizationServer::start(options)?;
    let server = Sdk::TypeScript.is_ready().then(|| Sdk::TypeScript.start_server(&issuer.issuer))?;
    Some((issuer, server))
}

fn config() -> Config {
    Config::new("tests")
}

/// Returns what the server knows about a token.
fn whoami(url: &str, token: &AccessToken) -> Value {
    let answer = call(url, token.token.expose(), "whoami");
    assert_eq!(answer.status, 200, "{answer:?}");
    let start = answer.body.find("{\\\"client\\\"").unwrap_or_else(|| panic!("{answer:?}"));
    let end = answer.body[start..].find('}').expect("an object") + start;
    serde_json::from_str(&answer.body[start..=end].replace("\\\"", "\"")).expect("JSON")
}

// covers: AUTH-031, AUTH-040, AUTH-043, AUTH-052, AUTH-053, AUTH-057
#[test]
fn flow_registers_logs_in_and_steps_up() {
    let Some((issuer, server)) = start(&["--strict-scopes"]) else { return };
    let client = FlowClient::new(config());
    let token = client.authorize(&server.url).token();
    assert_eq!(whoami(&server.url, &token)["scopes"], json!(["mcp:read"]));
    let refused = call(&server.url, token.token.expose(), "write");
    assert_eq!(refused.status, 403, "{refused:?}");
    let trigger = Trigger::InsufficientScope { challenges: challenges(&refused), rejected: token.token };
    let token = client.run(&server.url, trigger).token();
    assert_eq!(whoami(&server.url, &token)["scopes"], json!(["mcp:read", "mcp:write"]));
    assert_eq!(call(&server.url, token.token.expose(), "write").status, 200);
    assert_eq!(issuer.requests("/reg").len(), 1, "the registration serves both authorizations");
    for request in ["/auth", "/token"].iter().flat_map(|path| issuer.requests(path)) {
        assert_eq!(request["resource"], server.url, "{request}");
    }
    server.stop();
    issuer.stop();
}

#[test]
fn flow_refreshes_with_rotation_and_logs_out() {
    let Some((issuer, server)) = start(&["--access-ttl", "3"]) else { return };
    let client = FlowClient::new(config());
    assert!(matches!(client.run(&server.url, Trigger::Connect), FlowEnd::NoToken));
    let mut tokens = vec![client.authorize(&server.url).token()];
    for count in 1..=2 {
        thread::sleep(Duration::from_secs(3));
        tokens.push(client.run(&server.url, Trigger::Connect).token());
        whoami(&server.url, &tokens[count]);
        assert_eq!(issuer.grants("refresh_token").len(), count);
    }
    assert_ne!(tokens[1], tokens[2]);
    assert!(matches!(client.run(&server.url, Trigger::LogOut), FlowEnd::NoToken));
    let revoked = issuer.requests("/token/revocation");
    assert!(!revoked.is_empty() && revoked.iter().all(|request| request["status"] == 200), "{revoked:?}");
    assert!(matches!(client.run(&server.url, Trigger::Connect), FlowEnd::NoToken));
    server.stop();
    issuer.stop();
}

// covers: AUTH-032, AUTH-033, AUTH-035
#[test]
fn flow_authenticates_known_clients_in_every_way() {
    let dir = std::env::temp_dir().join(format!("mcp-flow-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder");
    let document = document_option(&dir);
    let Some((issuer, server)) = start(&["--no-registration", "--document", &document]) else { return };
    let pem = fs::read_to_string(client_key()).expect("a key");
    let secret = || ClientAuth::Secret(CLIENT_SECRET.into());
    let jwt = || ClientAuth::PrivateKeyJwt { algorithm: Algorithm::Es256, key_id: Some("client-key".into()) };
    let known = |id: &str, auth| config().credentials(ClientCredentials::new(id, auth));
    let machine = |id: &str, auth| known(id, auth).grant(GrantType::ClientCredentials);
    let runs = [
        (DOCUMENT_URL, config().client_metadata_url(DOCUMENT_URL).expect("an address")),
        ("public", known("public", ClientAuth::None)),
        ("basic-odd", known("basic-odd", ClientAuth::SecretBasic(ODD_CLIENT_SECRET.into()))),
        ("post", known("post", ClientAuth::SecretPost(CLIENT_SECRET.into()))),
        ("jwt", known("jwt", jwt())),
        ("machine-basic", machine("machine-basic", secret())),
        ("machine-jwt", machine("machine-jwt", jwt())),
        ("device", known("device", ClientAuth::None).grant(GrantType::DeviceCode)),
    ];
    for (id, config) in runs {
        let token = FlowClient::new(config).with_key(&pem).authorize(&server.url).token();
        assert_eq!(whoami(&server.url, &token)["client"], id);
    }
    let methods: Vec<_> =
        issuer.requests("/token").iter().map(|request| request["authentication"].clone()).collect();
    for method in ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"] {
        assert!(methods.contains(&method.into()), "{methods:?}");
    }
    server.stop();
    issuer.stop();
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn flow_binds_tokens_with_nonces() {
    let Some((issuer, server)) = start(&["--dpop-nonces"]) else { return };
    let token = FlowClient::new(config().dpop(DpopMode::Always)).authorize(&server.url).token();
    assert!(token.dpop.is_some());
    let requests = issuer.requests("/token");
    let outcomes: Vec<_> =
        requests.iter().map(|request| (request["error"].clone(), request["dpop"].clone())).collect();
    assert_eq!(outcomes, [(json!("use_dpop_nonce"), json!(true)), (Value::Null, json!(true))]);
    server.stop();
    issuer.stop();
}

// covers: AUTH-022, AUTH-028
#[test]
fn flow_authorizes_for_every_server_and_finds_issuer_with_path() {
    let Some(issuer) = AuthorizationServer::start(&["--path", "/tenant/a"]) else { return };
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let server = sdk.start_server(&issuer.issuer);
        let token = FlowClient::new(config()).authorize(&server.url).token();
        let accepted = send("POST", &server.url, Some(token.token.expose()));
        assert_eq!(accepted.status, 200, "{sdk:?}: {accepted:?}");
        server.stop();
    }
    issuer.stop();
}

// covers: AUTH-045, AUTH-047
#[test]
fn flow_fails_if_user_declines_or_issuer_of_redirect_is_another() {
    let Some((issuer, server)) = start(&[]) else { return };
    let mut client = FlowClient::new(config());
    client.script.consents = false;
    let error = client.authorize(&server.url).error();
    assert!(error.contains("access_denied"), "{error}");

    let mut client = FlowClient::new(config());
    client.tampering = Some(("iss", "http://127.0.0.1:1".into()));
    let error = client.authorize(&server.url).error();
    assert!(error.contains("AUTH-046") || error.contains("iss"), "{error}");
    assert_eq!(issuer.requests("/token").len(), 0, "a code was sent");

    // A redirect with another state is not of this flow, which then takes its own.
    let mut client = FlowClient::new(config());
    client.tampering = Some(("state", "other".into()));
    client.authorize(&server.url).token();
    server.stop();
    issuer.stop();
}

#[test]
fn flow_killed_in_refresh_asks_to_log_in_again() {
    let Some((issuer, server)) = start(&["--access-ttl", "2"]) else { return };
    let mut client = FlowClient::new(config());
    client.authorize(&server.url).token();
    thread::sleep(Duration::from_secs(2));
    client.dies_at_token_request = true;
    assert!(matches!(client.run(&server.url, Trigger::Connect), FlowEnd::Killed));
    client.dies_at_token_request = false;
    // The authorization server has rotated, and takes the second use of the old refresh token for a theft.
    let end = client.run(&server.url, Trigger::Connect);
    assert!(matches!(end, FlowEnd::NoToken), "{end:?}");
    assert_eq!(issuer.requests("/token").len(), 3, "a code, a refresh, and one that is refused");
    let end = client.run(&server.url, Trigger::Connect);
    assert!(matches!(end, FlowEnd::NoToken), "{end:?}");
    assert_eq!(issuer.requests("/token").len(), 3, "the refresh token is forgotten");
    whoami(&server.url, &client.authorize(&server.url).token());
    server.stop();
    issuer.stop();
}

// covers: AUTH-025, AUTH-039
#[test]
fn flow_registers_anew_at_another_issuer_and_known_client_is_refused_there() {
    let Some((issuer, server)) = start(&[]) else { return };
    let Some(other) = AuthorizationServer::start(&[]) else { return };
    let url = server.url.clone();
    let port = url.trim_end_matches("/mcp").rsplit(':').next().expect("a port").to_owned();
    let client = FlowClient::new(config());
    let public = || ClientCredentials::new("public", ClientAuth::None);
    let known = FlowClient::new(config().credentials(public().issuer(&issuer.issuer)));
    // Without an issuer the credentials belong to the first one at which they are used.
    let loose = FlowClient::new(config().credentials(public()));
    let [first, first_known, first_loose] =
        [&client, &known, &loose].map(|client| client.authorize(&url).token());
    server.stop();
    let server = Sdk::TypeScript.start_server_with(&other.issuer, &["--port", &port]);
    assert_eq!(server.url, url);

    let refused = call(&url, first.token.expose(), "whoami");
    assert_eq!(refused.status, 401, "{refused:?}");
    let rejection = |token: AccessToken| {
        let challenges = challenges(&refused);
        Trigger::Unauthorized { challenges, rejected: Some(token.token) }
    };
    let second = client.run(&url, rejection(first));
    whoami(&url, &second.token());
    assert_eq!((issuer.requests("/reg").len(), other.requests("/reg").len()), (1, 1));
    for (client, token) in [(known, first_known), (loose, first_loose)] {
        let error = client.run(&url, rejection(token)).error();
        assert!(error.contains("AUTH-039"), "{error}");
    }
    assert_eq!(other.requests("/auth").len(), 1, "a known client was taken to another issuer");
    server.stop();
    issuer.stop();
    other.stop();
}

// covers: AUTH-030
#[test]
fn flow_refuses_issuer_that_differs_by_slash() {
    if !Sdk::Python.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = Sdk::Python.start_server_with(&issuer.issuer, &["--slash"]);
    let error = FlowClient::new(config()).authorize(&server.url).error();
    assert!(error.contains("AUTH-030") && error.contains("issuer"), "{error}");
    assert_eq!(issuer.requests("/reg").len(), 0);
    server.stop();
    issuer.stop();
}

#[test]
fn flow_registers_anew_after_server_forgot_its_client() {
    let Some((issuer, server)) = start(&["--access-ttl", "2"]) else { return };
    let client = FlowClient::new(config());
    client.authorize(&server.url).token();
    // The authorization server keeps everything in memory.
    let port = issuer.issuer.rsplit(':').next().expect("a port").to_owned();
    issuer.stop();
    let issuer = AuthorizationServer::start(&["--port", &port]).expect("it ran before");
    thread::sleep(Duration::from_secs(2));
    assert!(matches!(client.run(&server.url, Trigger::Connect), FlowEnd::NoToken));
    whoami(&server.url, &client.authorize(&server.url).token());
    server.stop();
    issuer.stop();
}
