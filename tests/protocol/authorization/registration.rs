//! The client at an authorization server: configured, by a document, registered, named by a user.

use mcp_oauth::{
    ApplicationType, ClientAuth, ClientCredentials, Config, ErrorKind, GrantType, IdentityProvider,
    Registration, Step, Trigger,
};
use mcp_tests::harness::authorization::{Outcome, Reply, World};
use serde_json::{Value, json};

use super::{config, log_in, run};

const DOCUMENT: &str = "https://app.test/client.json";

fn with_document() -> Config {
    config().client_metadata_url(DOCUMENT).expect("a client id")
}

fn configured(issuer: Option<&str>) -> Config {
    let client = ClientCredentials::new("known", ClientAuth::Secret("known-s3cret".into()));
    config().credentials(match issuer {
        Some(issuer) => client.issuer(issuer),
        None => client,
    })
}

fn registrations(world: &World) -> Vec<Value> {
    let requests = world.requests.iter().filter(|request| request.url.ends_with("/register"));
    requests.map(|request| serde_json::from_str(&request.body).expect("JSON")).collect()
}

fn know(world: &mut World) {
    for issuer in &mut world.issuers {
        issuer.add_client("known", "client_secret_basic", "known-s3cret");
        issuer.metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    }
}

// covers: AUTH-031, AUTH-032, AUTH-033, AUTH-017, AUTH-018
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn registrations_have_a_priority() {
    for (config, supports_documents, has_endpoint, expected) in [
        (configured(None), true, true, Some(Registration::PreRegistered)),
        (with_document(), true, true, Some(Registration::MetadataDocument)),
        (with_document(), false, true, Some(Registration::Dynamic)),
        (config(), true, true, Some(Registration::Dynamic)),
        (config(), true, false, None),
        (config().dynamic_registration(false), false, true, None),
    ] {
        let (world, outcome) = run(&config, |world| {
            know(world);
            world.issuer().metadata["client_id_metadata_document_supported"] = json!(supports_documents);
            world.issuer().metadata["token_endpoint_auth_methods_supported"] =
                json!(["none", "client_secret_basic"]);
            if !has_endpoint {
                world.issuer().metadata["registration_endpoint"] = Value::Null;
            }
        });
        assert_eq!(world.record().map(|record| record.registration()), expected);
        match expected {
            Some(registration) => assert_eq!(outcome.token().registration, registration),
            None => {
                assert!(world.events.contains(&"client"), "the user is asked");
                assert!(matches!(outcome.error().kind(), ErrorKind::Local(_)));
            }
        }
    }
}

// covers: AUTH-031, AUTH-032
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn a_client_that_a_user_names_is_used_again() {
    let mut world = World::new();
    know(&mut world);
    let config = config().dynamic_registration(false);
    world.named_client = Some(ClientCredentials::new("known", ClientAuth::Secret("known-s3cret".into())));
    world.unauthorized(&config).token();
    // Nobody is asked again: to connect, to refresh, to step up.
    world.named_client = None;
    world.run(&config, Trigger::Connect).token();
    world.wait(4_000);
    world.run(&config, Trigger::Connect).token();
    assert_eq!(world.grants("refresh_token").len(), 1);
    world.insufficient_scope(&config, "more").token();
    assert!(!world.events.contains(&"client"));
}

// covers: AUTH-037, AUTH-059, AUTH-062
#[test]
fn a_registration_says_what_the_client_is() {
    for (kind, name) in [(ApplicationType::Native, "native"), (ApplicationType::Web, "web")] {
        let (world, _) = run(&config().application_type(kind).client_uri("https://app.test/"), |_| {});
        let body = &registrations(&world)[0];
        assert_eq!(body["application_type"], name);
        assert_eq!(body["client_name"], "Harbor");
        assert_eq!(body["client_uri"], "https://app.test/");
        assert_eq!(body["redirect_uris"], json!(["http://127.0.0.1:7777/callback"]));
        assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(body["response_types"], json!(["code"]));
        assert_eq!(body["token_endpoint_auth_method"], "none");
    }
}

// covers: AUTH-017
#[test]
fn a_registration_asks_for_a_method_that_the_server_supports() {
    for (methods, expected) in [
        (json!(["client_secret_post"]), "client_secret_post"),
        (json!(["client_secret_post", "client_secret_basic"]), "client_secret_basic"),
        (json!(["client_secret_basic", "none"]), "none"),
        (json!(["private_key_jwt"]), "none"),
        (Value::Null, "none"),
    ] {
        let (world, outcome) = run(&config(), |world| {
            world.issuer().metadata["token_endpoint_auth_methods_supported"] = methods.clone();
        });
        outcome.token();
        assert_eq!(registrations(&world)[0]["token_endpoint_auth_method"], expected, "{methods}");
    }
}

// covers: AUTH-038
#[test]
fn a_refused_registration_says_what_the_server_refuses() {
    let (_, outcome) = run(&config(), |world| {
        world.alter = Box::new(|request, reply| {
            if request.url.ends_with("/register") {
                *reply = Reply::json(
                    400,
                    &json!({ "error": "invalid_redirect_uri", "error_description": "no loopback here" }),
                );
            }
        });
    });
    let error = outcome.error();
    assert_eq!(error.step(), Step::Registration);
    assert!(
        error.to_string().contains("invalid_redirect_uri") && error.to_string().contains("no loopback here")
    );
}

#[test]
fn a_wrong_answer_to_a_registration_is_an_error() {
    for (status, body) in [
        (201, json!({})),
        (201, json!({ "client_id": "" })),
        (201, json!({ "client_id": 7 })),
        (201, json!({ "client_id": "c", "token_endpoint_auth_method": "private_key_jwt" })),
        (201, json!({ "client_id": "c", "token_endpoint_auth_method": "client_secret_basic" })),
        (201, json!({ "client_id": "c", "client_secret": "s3cret-x", "client_secret_expires_at": "soon" })),
        (204, json!({ "client_id": "c" })),
        (302, json!({ "client_id": "c" })),
        (500, json!({ "client_id": "c" })),
    ] {
        let shown = body.to_string();
        let (world, outcome) = run(&config(), move |world| {
            world.alter = Box::new(move |request, reply| {
                if request.url.ends_with("/register") {
                    *reply = Reply::json(status, &body);
                }
            });
        });
        assert_eq!(outcome.error().step(), Step::Registration, "{status} {shown}");
        assert!(world.store.is_empty() && world.opened.is_empty(), "{status} {shown}");
    }
}

// covers: AUTH-039, AUTH-025
#[test]
fn a_registration_is_kept_by_its_issuer_and_used_again() {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    assert!(world.store.contains_key("client https://as.test"), "{:?}", world.store.keys());
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 0, "the same redirect URI");
    world.redirect_uri = "http://127.0.0.1:8888/callback".into();
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 1, "another redirect URI");
}

// covers: AUTH-039
#[test]
fn a_registration_whose_secret_expired_is_made_anew() {
    let mut world = World::new();
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    world.alter = Box::new(|request, reply| {
        if request.url.ends_with("/register") {
            reply.edit(|body| body["client_secret_expires_at"] = json!(1_800_000_500));
        }
    });
    world.unauthorized(&config()).token();
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 0);
    world.wait(1_800_000_500 - world.unix_secs());
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 1);
}

// covers: AUTH-025, AUTH-039
#[test]
fn a_change_of_the_authorization_server_registers_anew() {
    for config in [config(), with_document()] {
        let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
        for issuer in &mut world.issuers {
            issuer.metadata["client_id_metadata_document_supported"] = json!(true);
        }
        world.unauthorized(&config).token();
        world.wait(100);
        world.resource()["authorization_servers"] = json!(["https://b.test"]);
        world.unauthorized(&config).token();
        assert_eq!(world.record().expect("tokens").issuer(), "https://b.test");
        assert!(world.requests.iter().all(|request| !request.url.contains("//a.test")), "{:?}", world.urls());
    }
}

// covers: AUTH-039
#[test]
fn a_configured_client_is_not_used_at_another_issuer() {
    let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
    know(&mut world);
    let error = world.unauthorized(&configured(Some("https://c.test"))).error();
    assert_eq!(error.rule(), "AUTH-039");
    // Without an issuer, it belongs to the one whose tokens are stored, with a secret or without one.
    let public = config().credentials(ClientCredentials::new("public", ClientAuth::None));
    for config in [configured(None), public] {
        let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
        know(&mut world);
        for issuer in &mut world.issuers {
            issuer.add_client("public", "none", "");
            issuer.metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic", "none"]);
        }
        world.unauthorized(&config).token();
        world.wait(100);
        world.resource()["authorization_servers"] = json!(["https://b.test"]);
        let error = world.unauthorized(&config).error();
        assert_eq!((error.step(), error.rule()), (Step::Registration, "AUTH-039"));
        assert!(world.requests.iter().all(|request| request.method == "GET") && world.opened.len() == 1);
    }
}

// covers: AUTH-025, AUTH-039
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn a_user_names_a_client_for_each_authorization_server() {
    let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
    know(&mut world);
    let config = config().dynamic_registration(false);
    world.named_client = Some(ClientCredentials::new("known", ClientAuth::Secret("known-s3cret".into())));
    world.unauthorized(&config).token();
    world.wait(100);
    world.resource()["authorization_servers"] = json!(["https://b.test"]);
    world.unauthorized(&config).token();
    assert!(world.events.contains(&"client"), "the one for the other server is not used");
    assert_eq!(world.record().expect("tokens").issuer(), "https://b.test");
}

// covers: AUTH-039
#[test]
fn stored_tokens_of_another_issuer_than_that_of_the_credentials_are_not_refreshed() {
    let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
    know(&mut world);
    world.unauthorized(&configured(Some("https://a.test"))).token();
    world.wait(4_000);
    let outcome = world.run(&configured(Some("https://b.test")), Trigger::Connect);
    assert!(matches!(outcome, Outcome::NoToken) && world.requests.is_empty());
}

#[test]
fn a_stored_registration_is_forgotten_if_no_redirect_comes() {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    // The page says that the client is unknown, and redirects to nowhere.
    world.issuer().clients.clear();
    let error = log_in(&mut world, &config()).error();
    let no_redirect = |forgets_client| {
        let uri = "http://127.0.0.1:7777/callback".into();
        ErrorKind::NoRedirect { uri, forgets_client }
    };
    assert_eq!((error.step(), error.kind()), (Step::Authorization, &no_redirect(true)));
    assert!(error.is_timeout() && registrations(&world).is_empty());
    assert!(world.record().is_some(), "the tokens are another matter");
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 1);
    // A registration of this very flow is not in doubt.
    let mut world = World::new();
    world.browser = Box::new(|_, _| Vec::new());
    assert_eq!(log_in(&mut world, &config()).error().kind(), &no_redirect(false));
    let error = log_in(&mut world, &config()).error();
    assert_eq!((error.kind(), registrations(&world).len()), (&no_redirect(true), 0));
    // Nor is a client that was registered by somebody else.
    let mut world = World::new();
    know(&mut world);
    world.unauthorized(&configured(None)).token();
    world.browser = Box::new(|_, _| Vec::new());
    assert_eq!(log_in(&mut world, &configured(None)).error().kind(), &no_redirect(false));
}

#[test]
fn a_client_that_the_server_forgot_registers_anew() {
    let forget = |world: &mut World| {
        world.issuer().clients.clear();
        world.issuer().add_client("other", "none", "");
    };
    // At the refresh: the next authorization is with another client.
    let mut world = World::new();
    world.unauthorized(&config()).token();
    forget(&mut world);
    world.wait(4_000);
    world.unauthorized(&config()).token();
    assert_eq!(registrations(&world).len(), 1);
    // A flow that asks nobody also forgets the client, so that the next one does not send a user to the server with it.
    let unauthorized = Trigger::Unauthorized { challenges: Vec::new(), rejected: None };
    for (own, trigger) in [(config(), Trigger::Connect), (config().interactive(false), unauthorized)] {
        let mut world = World::new();
        world.unauthorized(&config()).token();
        forget(&mut world);
        world.wait(4_000);
        world.run(&own, trigger);
        assert!(world.store.is_empty(), "{:?}", world.store.keys());
    }
    // At the code: this flow fails, the next one registers.
    let mut world = World::new();
    world.unauthorized(&config()).token();
    world.browser = Box::new(|_, right| vec![right]);
    world.alter = Box::new(|request, reply| {
        if request.grant() == "authorization_code" {
            *reply = Reply::json(401, &json!({ "error": "invalid_client" }));
        }
    });
    let error = log_in(&mut world, &config()).error();
    assert!(matches!(error.kind(), ErrorKind::Refused { code, .. } if &**code == "invalid_client"));
    assert!(!world.store.contains_key("client https://as.test"));
    world.alter = Box::new(|_, _| {});
    log_in(&mut world, &config()).token();
    assert_eq!(registrations(&world).len(), 1);
}

#[test]
fn only_a_registration_that_the_server_forgot_is_forgotten() {
    for (config, code) in [(config(), "invalid_grant"), (configured(None), "invalid_client")] {
        let mut world = World::new();
        know(&mut world);
        world.unauthorized(&super::config()).token();
        world.alter = Box::new(move |request, reply| {
            if request.grant() == "authorization_code" {
                *reply = Reply::json(400, &json!({ "error": code }));
            }
        });
        log_in(&mut world, &config).error();
        assert!(world.store.contains_key("client https://as.test"), "{code}");
    }
}

#[test]
fn nobody_is_asked_if_the_application_is_not_interactive() {
    let (world, outcome) = run(&config().interactive(false), |_| {});
    assert!(outcome.error().is_login_required());
    assert!(world.opened.is_empty() && world.requests.iter().all(|request| request.method == "GET"));
}

// covers: AUTH-025, AUTH-039
#[test]
fn a_secret_of_the_configuration_stays_at_its_first_authorization_server() {
    let mut world = World::with("https://mcp.test/mcp", &["https://as.test", "https://other.test"]);
    know(&mut world);
    world.resource()["authorization_servers"] = json!(["https://as.test"]);
    world.unauthorized(&configured(None)).token();
    // Neither a log out nor another MCP server leads the secret elsewhere.
    world.run(&configured(None), Trigger::LogOut);
    world.resource()["authorization_servers"] = json!(["https://other.test"]);
    let error = world.unauthorized(&configured(None)).error();
    assert_eq!((error.step(), error.rule()), (Step::Registration, "AUTH-039"));
    assert!(error.to_string().contains("https://as.test"), "{error}");
    // A client that is named for the other one is another matter.
    world.unauthorized(&configured(Some("https://other.test"))).token();
}

// covers: AUTH-039
#[test]
fn a_registration_is_for_its_grant() {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    world.store.retain(|key, _| key.starts_with("client "));
    world.unauthorized(&config().grant(GrantType::DeviceCode)).token();
    let grants: Vec<Value> =
        registrations(&world).iter().map(|sent| sent["grant_types"][0].clone()).collect();
    assert_eq!(grants, ["urn:ietf:params:oauth:grant-type:device_code"], "it registered anew");
    assert_eq!(registrations(&world)[0]["response_types"], json!([]));
    // A client that presents assertions needs neither a redirect nor a refresh token.
    let desk = ClientCredentials::new("desk", ClientAuth::SecretPost("desk-s3cret".into()));
    let provider = IdentityProvider::at_token_endpoint("https://idp.test/token", desk).expect("a URL");
    world.store.retain(|key, _| key.starts_with("client "));
    world.permit_endpoint("https://idp.test/token");
    world.unauthorized(&config().grant(GrantType::Enterprise(provider)));
    let sent = &registrations(&world)[0];
    assert_eq!(sent["grant_types"], json!(["urn:ietf:params:oauth:grant-type:jwt-bearer"]));
    assert_eq!((&sent["response_types"], &sent["redirect_uris"]), (&json!([]), &json!([])));
}

#[test]
fn a_wrong_secret_of_the_configuration_costs_no_tokens() {
    let mut world = World::new();
    know(&mut world);
    let issuer = Some("https://as.test");
    world.unauthorized(&configured(issuer)).token();
    let before = world.store.clone();
    world.wait(4_000);
    let wrong = ClientCredentials::new("known", ClientAuth::Secret("typo".into())).issuer("https://as.test");
    let error = world.run(&config().credentials(wrong), Trigger::Connect).error();
    assert!(
        matches!(error.kind(), ErrorKind::Refused { code, .. } if **code == *"invalid_client"),
        "{error}"
    );
    assert_eq!(world.store_without_marks(), before);
    world.run(&configured(issuer), Trigger::Connect).token();
}
