//! Scopes: which ones are asked for, and when more of them.

use mcp_oauth::{Config, ErrorKind, Event, GrantType, Scopes, Trigger};
use mcp_tests::harness::authorization::{Outcome, World, challenge};
use serde_json::json;

use super::{config, log_in};

fn scopes(text: &str) -> Scopes {
    Scopes::parse(text).expect("scopes")
}

fn asked(world: &World) -> Option<String> {
    world.query().get("scope").cloned()
}

// covers: AUTH-052, AUTH-053
#[test]
fn the_first_scopes_are_those_of_the_challenge_then_of_the_metadata_then_none() {
    for (challenged, listed, configured, expected) in [
        (Some("a b"), Some(json!(["c"])), None, Some("a b")),
        (None, Some(json!(["c", "d"])), None, Some("c d")),
        (None, None, None, None),
        (None, Some(json!([])), None, None),
        (Some("a"), Some(json!(["c"])), Some("x y"), Some("x y")),
        (Some(""), Some(json!(["c"])), None, None),
    ] {
        let mut world = World::new();
        if let Some(listed) = listed {
            world.resource()["scopes_supported"] = listed;
        }
        let config = configured.map_or_else(config, |chosen| config().scopes(scopes(chosen)));
        let params: Vec<(&str, &str)> = challenged.iter().map(|scope| ("scope", *scope)).collect();
        world.challenged(&config, &params).token();
        assert_eq!(asked(&world).as_deref(), expected, "{challenged:?}");
    }
}

#[test]
fn a_malformed_scope_of_a_challenge_is_refused() {
    for scope in ["a\"b", "a\\b", "a\nb"] {
        let error = World::new().challenged(&config(), &[("scope", scope)]).error();
        assert!(error.to_string().contains("`scope`"), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

// covers: AUTH-059
#[test]
fn offline_access_is_asked_for_where_the_server_lists_it() {
    let run = |config: &Config, lists: bool, scope: &str| {
        let mut world = World::new();
        if lists {
            world.issuer().metadata["scopes_supported"] = json!(["a", "offline_access"]);
        }
        let params = [("scope", scope)];
        world.challenged(config, if scope.is_empty() { &[] } else { &params }).token();
        (asked(&world), world.query().get("prompt").cloned())
    };
    let consent = Some("consent".to_owned());
    assert_eq!(run(&config(), true, "a"), (Some("a offline_access".into()), consent));
    assert_eq!(run(&config(), false, "a"), (Some("a".into()), None));
    assert_eq!(run(&config().offline_access(false), true, "a"), (Some("a".into()), None));
    // Alone it would replace the default scopes.
    assert_eq!(run(&config(), true, ""), (None, None));
    // A full set is asked for without it.
    let full: String = (0..256).map(|n| format!("s{n} ")).collect();
    assert_eq!(run(&config(), true, full.trim()).0.as_deref(), Some(full.trim()));
}

// covers: AUTH-059
#[test]
fn a_token_without_a_refresh_token_is_used_until_it_is_due() {
    let mut world = World::new();
    world.issuer().issues_refresh = false;
    world.unauthorized(&config()).token();
    world.run(&config(), Trigger::Connect).token();
    world.wait(4_000);
    assert!(matches!(world.run(&config(), Trigger::Connect), Outcome::NoToken));
    world.unauthorized(&config()).token();
    assert!(world.grants("refresh_token").is_empty());
}

// covers: AUTH-057
#[test]
fn a_step_up_asks_for_the_union_and_ends_when_it_does_not_help() {
    let mut world = World::new();
    world.challenged(&config(), &[("scope", "read")]).token();
    world.insufficient_scope(&config(), "write admin").token();
    assert_eq!(asked(&world).as_deref(), Some("write admin read"));
    // The server still refuses: it was asked for, and is not asked for again.
    for scope in ["write", "admin read", ""] {
        let error = world.insufficient_scope(&config(), scope).error();
        assert_eq!(
            (error.kind(), error.rule()),
            (&ErrorKind::InsufficientScope { scopes: scopes(scope) }, "AUTH-057")
        );
        assert!(world.requests.is_empty());
    }
    world.insufficient_scope(&config(), "more").token();
    assert_eq!(asked(&world).as_deref(), Some("more write admin read"));
}

// covers: AUTH-057
#[test]
fn a_step_up_that_was_not_granted_is_not_repeated() {
    let mut world = World::new();
    world.issuer().granted = Some("read".into());
    world.challenged(&config(), &[("scope", "read")]).token();
    let token = world.insufficient_scope(&config(), "write").token();
    assert_eq!(token.scopes.as_str(), "read", "the server granted less");
    let refused = ErrorKind::InsufficientScope { scopes: scopes("write") };
    assert_eq!(world.insufficient_scope(&config(), "write").error().kind(), &refused);
}

// covers: AUTH-057
#[test]
fn a_step_up_keeps_the_scopes_of_the_configuration_even_of_a_full_set() {
    let mut world = World::new();
    let chosen = config().scopes(scopes("mine"));
    world.unauthorized(&chosen).token();
    world.insufficient_scope(&chosen, "more").token();
    assert_eq!(asked(&world).as_deref(), Some("more mine"));
    // 256 scopes of the configuration leave room for those of the challenge.
    let full: String = (0..256).map(|n| format!("s{n} ")).collect();
    let full = config().scopes(scopes(&full));
    let mut world = World::new();
    world.unauthorized(&full).token();
    world.insufficient_scope(&full, "more").token();
    let refused = ErrorKind::InsufficientScope { scopes: scopes("more") };
    assert_eq!(world.insufficient_scope(&full, "more").error().kind(), &refused);
}

// covers: AUTH-057
#[test]
fn a_step_up_of_another_flow_is_used() {
    let mut world = World::new();
    world.challenged(&config(), &[("scope", "read")]).token();
    let old = world.stored_token().expect("a token");
    world.insufficient_scope(&config(), "write").token();
    let challenges = vec![challenge("Bearer", &[("error", "insufficient_scope"), ("scope", "write")])];
    world.run(&config(), Trigger::InsufficientScope { challenges, rejected: old }).token();
    assert!(world.requests.is_empty(), "the stored token has the scopes");
}

// covers: AUTH-057
#[test]
fn a_step_up_without_a_user_is_what_the_next_login_asks_for() {
    let mut world = World::new();
    world.resource()["scopes_supported"] = json!(["read"]);
    log_in(&mut world, &config()).token();
    let alone = config().interactive(false);
    for (asked_for, needed) in
        [("write", "write read"), ("admin", "admin read write"), ("write", "write read admin")]
    {
        let error = world.insufficient_scope(&alone, asked_for).error();
        assert_eq!(error.kind(), &ErrorKind::LoginRequired { scopes: scopes(asked_for) });
        assert!(error.to_string().contains(&format!("the scopes `{asked_for}`")), "{error}");
        let record = world.record().expect("tokens");
        assert!(record.needed_scopes().contains_all(&scopes(needed)), "{record:?}");
        assert_eq!(record.scopes().as_str(), "read", "the token is kept");
        world.run(&alone, Trigger::Connect).token();
    }
    // A refresh keeps them.
    world.wait(4_000);
    world.run(&alone, Trigger::Connect).token();
    log_in(&mut world, &config()).token();
    let asked_for = scopes(&asked(&world).expect("scopes"));
    assert!(asked_for.contains_all(&scopes("read write admin")), "{asked_for:?}");
    assert!(world.record().expect("tokens").needed_scopes().is_empty());
    // It is granted: no circle.
    world.run(&alone, Trigger::Connect).token();
}

// covers: AUTH-057
#[test]
fn scopes_that_are_chosen_for_a_login_are_what_is_asked_for() {
    let mut world = World::new();
    log_in(&mut world, &config()).token();
    assert!(world.insufficient_scope(&config().interactive(false), "bogus").error().is_login_required());
    log_in(&mut world, &config().scopes(scopes("read"))).token();
    assert_eq!(asked(&world).as_deref(), Some("read"));
}

// covers: AUTH-057, AUTH-063
#[test]
fn a_step_up_without_a_user_overwrites_no_tokens_of_another_process() {
    let mut world = World::new();
    world.challenged(&config(), &[("scope", "read")]).token();
    let (stale, alone) = (world.store.clone(), config().interactive(false));
    world.wait(4_000);
    let fresh = world.run(&alone, Trigger::Connect).token();
    world.stored_meanwhile = Some(core::mem::replace(&mut world.store, stale));
    assert!(world.insufficient_scope(&alone, "write").error().is_login_required());
    assert_eq!(world.stored_token(), Some(fresh.token));
    assert_eq!(world.record().expect("tokens").needed_scopes().as_str(), "write read");
    // The store stays locked: the scopes are not kept.
    let challenges = vec![challenge("Bearer", &[("error", "insufficient_scope"), ("scope", "admin")])];
    let rejected = world.stored_token().expect("a token");
    let mut flow = world.flow(&alone, Trigger::InsufficientScope { challenges, rejected });
    let error = loop {
        match flow.poll_event(world.now).expect("an event") {
            Event::Lock { .. } => flow.fail(world.now, ErrorKind::Locked("another process".into())),
            Event::Failed(error) => break error,
            event => assert!(world.answer(&mut flow, event).is_none()),
        }
    };
    assert!(error.is_login_required(), "{error}");
    // It was logged out meanwhile.
    world.stored_meanwhile = Some(Default::default());
    assert!(world.insufficient_scope(&alone, "write").error().is_login_required());
    assert!(world.record().is_none());
}

// covers: AUTH-058
#[test]
fn a_client_of_its_own_steps_up_without_a_user() {
    use mcp_oauth::{ClientAuth, ClientCredentials};
    let mut world = World::new();
    world.issuer().add_client("machine", "client_secret_basic", "machine-s3cret");
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    let client = ClientCredentials::new("machine", ClientAuth::Secret("machine-s3cret".into()));
    let config = config().grant(GrantType::ClientCredentials).credentials(client).interactive(false);
    world.challenged(&config, &[("scope", "read")]).token();
    world.insufficient_scope(&config, "write").token();
    assert_eq!(world.grants("client_credentials")[0].param("scope"), "write read");
    assert!(world.opened.is_empty());
}

#[test]
fn a_login_asks_for_what_the_server_lists_and_not_for_what_was_asked_before() {
    let mut world = World::new();
    world.resource()["scopes_supported"] = json!(["read"]);
    world.challenged(&config(), &[("scope", "old")]).token();
    log_in(&mut world, &config()).token();
    assert_eq!(asked(&world).as_deref(), Some("read"));
}
