//! Log in again, and log out.

use mcp_oauth::{ClientAuth, ClientCredentials, FetchFailure, Step, Trigger};
use mcp_tests::harness::authorization::{Outcome, Reply, World};
use serde_json::Value;

use super::refresh::run_with_change;
use super::{config, log_in};

fn logged_in() -> World {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    world
}

#[test]
fn a_login_gets_another_token_whatever_is_stored() {
    let mut world = logged_in();
    let first = world.stored_token();
    let token = log_in(&mut world, &config()).token();
    assert_ne!(first, Some(token.token));
    assert!(world.grants("refresh_token").is_empty() && world.grants("authorization_code").len() == 1);
}

#[test]
fn a_logout_revokes_the_refresh_token_and_forgets_the_tokens() {
    let mut world = logged_in();
    assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
    assert_eq!(world.events, ["load", "lock", "fetch", "remove", "unlock", "no-token"]);
    assert_eq!(world.requests[0].url, "https://as.test/revoke");
    assert_eq!(world.requests[0].param("token_type_hint"), "refresh_token");
    assert!(world.record().is_none());
    assert!(world.store.contains_key("client https://as.test"), "the registration is kept");
    assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
    assert_eq!(world.events, ["load", "no-token"]);
    // Without a refresh token, the access token is revoked.
    let mut world = World::new();
    world.issuer().issues_refresh = false;
    world.unauthorized(&config()).token();
    assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
    assert_eq!(world.requests[0].param("token_type_hint"), "access_token");
}

#[test]
fn a_logout_without_a_revocation_endpoint_forgets_the_tokens() {
    let mut world = World::new();
    world.issuer().metadata["revocation_endpoint"] = Value::Null;
    world.unauthorized(&config()).token();
    assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
    assert!(world.requests.is_empty() && world.record().is_none());
}

#[test]
fn a_logout_whose_revocation_fails_forgets_the_tokens_and_says_so() {
    for reply in [
        Reply::text(503, ""),
        Reply::error("unsupported_token_type"),
        Reply::redirect("https://evil.test/"),
        Reply::Failure(FetchFailure::Unreachable("refused".into())),
        Reply::Silence,
    ] {
        let mut world = logged_in();
        world.alter = Box::new(move |_, answer| *answer = reply.clone());
        assert_eq!(world.run(&config(), Trigger::LogOut).error().step(), Step::Revocation);
        assert!(world.record().is_none());
    }
}

#[test]
fn a_logout_waits_for_a_refresh_and_revokes_its_tokens() {
    let mut world = logged_in();
    let stale = world.store.clone();
    world.wait(4_000);
    world.run(&config(), Trigger::Connect).token();
    world.stored_meanwhile = Some(core::mem::replace(&mut world.store, stale));
    let fresh = world.stored_meanwhile.clone().expect("a store");
    assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
    let revoked = world.requests[0].param("token");
    assert!(fresh.values().any(|value| value.contains(revoked)), "the newer refresh token");
    assert!(world.record().is_none());
}

#[test]
fn a_logout_forgets_the_tokens_of_any_client_without_the_secret_of_another() {
    let mut world = World::new();
    world.issuer().add_client("first", "client_secret_basic", "first-s3cret");
    world.issuer().metadata["token_endpoint_auth_methods_supported"] =
        serde_json::json!(["client_secret_basic"]);
    let with = |id: &str, secret: &str| {
        config().credentials(ClientCredentials::new(id, ClientAuth::Secret(secret.into())))
    };
    for other in [config(), with("second", "second-s3cret")] {
        world.unauthorized(&with("first", "first-s3cret")).token();
        assert!(matches!(world.run(&other, Trigger::LogOut), Outcome::NoToken));
        assert!(world.requests.is_empty() && world.record().is_none());
    }
}

#[test]
fn tokens_of_a_client_are_used_where_the_configuration_names_none() {
    let mut world = World::new();
    world.issuer().add_client("first", "none", "");
    let with = |id: &str| config().credentials(ClientCredentials::new(id, ClientAuth::None));
    world.unauthorized(&with("first")).token();
    world.run(&config(), Trigger::Connect).token();
    assert!(matches!(world.run(&with("second"), Trigger::Connect), Outcome::NoToken));
    world.wait(4_000);
    world.run(&config(), Trigger::Connect).token();
    assert_eq!(world.grants("refresh_token")[0].param("client_id"), "first");
}

/// Tokens that another process stores meanwhile are not those that the user logs out of.
// covers: AUTH-063
#[test]
fn a_logout_leaves_the_tokens_of_a_login_that_came_meanwhile() {
    for is_revoked in [true, false] {
        let mut world = logged_in();
        let stale = world.store.clone();
        log_in(&mut world, &config()).token();
        let fresh = core::mem::replace(&mut world.store, stale);
        let stored = fresh.iter().find(|(key, _)| key.starts_with("token")).expect("tokens").1;
        if !is_revoked {
            world.alter = Box::new(|_, reply| *reply = Reply::text(503, ""));
        }
        match run_with_change(&mut world, Trigger::LogOut, 1, Some(stored)) {
            Outcome::NoToken => assert!(is_revoked),
            outcome => assert!(outcome.error().step() == Step::Revocation && !is_revoked),
        }
        assert_eq!((world.requests.len(), &world.store), (1, &fresh));
    }
}
