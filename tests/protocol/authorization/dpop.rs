//! Tokens that are bound to a key (DPoP, RFC 9449), with the nonces of the authorization server.

use mcp_oauth::{Config, DpopMode, ErrorKind, GrantType, Step, Trigger};
use mcp_tests::harness::authorization::{Outcome, Reply, World, challenge, jwt};
use serde_json::json;

use super::config;

/// Returns a world whose authorization server offers DPoP.
fn offering() -> World {
    let mut world = World::new();
    world.issuer().metadata["dpop_signing_alg_values_supported"] = json!(["RS256", "ES256"]);
    world
}

fn with(mode: DpopMode) -> Config {
    config().dpop(mode)
}

#[test]
fn a_key_is_used_where_it_is_offered_and_asked_for() {
    for (mode, offers, asks, expected) in [
        (DpopMode::Auto, true, true, true),
        (DpopMode::Auto, true, false, false),
        (DpopMode::Auto, false, true, false),
        (DpopMode::Always, true, false, true),
        (DpopMode::Never, true, true, false),
    ] {
        let mut world = if offers { offering() } else { World::new() };
        if asks {
            world.resource()["dpop_bound_access_tokens_required"] = json!(true);
        }
        let token = world.unauthorized(&with(mode)).token();
        assert_eq!(token.dpop.is_some(), expected, "{mode:?} {offers} {asks}");
        assert_eq!(world.record().expect("tokens").is_dpop(), expected);
        assert_eq!(world.query().contains_key("dpop_jkt"), expected);
    }
    // A challenge asks, too.
    let mut world = offering();
    let challenges = vec![challenge("Bearer", &[]), challenge("dpop", &[("algs", "ES256")])];
    let trigger = Trigger::Unauthorized { challenges, rejected: None };
    assert!(world.run(&with(DpopMode::Auto), trigger).token().dpop.is_some());
    let error = World::new().unauthorized(&with(DpopMode::Always)).error();
    assert_eq!(error.rule(), "RFC 9449, 5.1");
}

#[test]
fn nonces_of_the_authorization_server_are_used() {
    let mut world = offering();
    world.issuer().nonce = Some("nonce-1".into());
    world.unauthorized(&with(DpopMode::Always)).token();
    let redeemed = world.grants("authorization_code");
    assert_eq!(redeemed.len(), 2, "without the nonce, then with it");
    let proof = |at: usize| jwt(redeemed[at].field("dpop").expect("a proof")).1;
    assert_eq!((proof(0).get("nonce"), &proof(1)["nonce"]), (None, &json!("nonce-1")));
    // The key is stored and used for the refresh.
    world.wait(4_000);
    let token = world.run(&with(DpopMode::Always), Trigger::Connect).token();
    assert!(token.dpop.is_some());
    assert_eq!(world.grants("refresh_token").len(), 2);
}

#[test]
fn a_nonce_of_a_refused_poll_is_used_for_the_next_one() {
    let mut world = offering();
    world.issuer().nonce = Some("nonce-1".into());
    world.issuer().device_answers = vec!["authorization_pending", "authorization_pending"];
    world.unauthorized(&with(DpopMode::Always).grant(GrantType::DeviceCode)).token();
    assert_eq!(world.grants("device_code").len(), 4, "one poll without the nonce, three with it");
}

#[test]
fn a_server_that_asks_for_a_nonce_for_ever_is_refused() {
    let mut world = offering();
    let mut n = 0;
    world.alter = Box::new(move |request, reply| {
        if request.grant() == "authorization_code" {
            n += 1;
            *reply = Reply::error("use_dpop_nonce").with_field("DPoP-Nonce", &format!("n{n}"));
        }
    });
    let error = world.unauthorized(&with(DpopMode::Always)).error();
    assert!(matches!(error.kind(), ErrorKind::Refused { code, .. } if &**code == "use_dpop_nonce"));
    assert_eq!(world.grants("authorization_code").len(), 3);
}

#[test]
fn a_malformed_nonce_is_not_used() {
    for nonce in ["", "a b", "a\"b", "é"] {
        let mut world = offering();
        world.alter = Box::new(move |request, reply| {
            if request.grant() == "authorization_code" {
                *reply = Reply::error("use_dpop_nonce").with_field("DPoP-Nonce", nonce);
            }
        });
        assert_eq!(world.unauthorized(&with(DpopMode::Always)).error().step(), Step::Token);
        assert_eq!(world.grants("authorization_code").len(), 1, "{nonce}");
    }
}

#[test]
fn a_token_of_the_wrong_type_is_refused() {
    let answer = |kind: &'static str| {
        move |world: &mut World| {
            world.alter = Box::new(move |request, reply| {
                if request.grant() == "authorization_code" {
                    reply.edit(|body| body["token_type"] = json!(kind));
                }
            });
        }
    };
    let mut world = offering();
    answer("Bearer")(&mut world);
    assert!(
        matches!(world.unauthorized(&with(DpopMode::Always)), Outcome::Failed(_)),
        "a token without a key"
    );
    let mut world = offering();
    answer("DPoP")(&mut world);
    assert!(matches!(world.unauthorized(&with(DpopMode::Never)), Outcome::Failed(_)), "a token with no key");
    assert!(world.record().is_none());
    // Where the key is a wish, a bearer token will do.
    let mut world = offering();
    answer("Bearer")(&mut world);
    world.resource()["dpop_bound_access_tokens_required"] = json!(true);
    assert!(world.unauthorized(&with(DpopMode::Auto)).token().dpop.is_none());
}

#[test]
fn the_key_is_kept_for_a_refresh_token_whose_access_token_is_not_bound() {
    let mut world = offering();
    world.resource()["dpop_bound_access_tokens_required"] = json!(true);
    // The server binds refresh tokens alone (RFC 9449, 5).
    world.alter = Box::new(|request, reply| {
        if matches!(request.grant(), "authorization_code" | "refresh_token") {
            reply.edit(|body| body["token_type"] = json!("Bearer"));
        }
    });
    assert!(world.unauthorized(&with(DpopMode::Auto)).token().dpop.is_none());
    assert!(!world.record().expect("tokens").is_dpop());
    for _ in 0..2 {
        world.wait(4_000);
        assert!(world.run(&with(DpopMode::Auto), Trigger::Connect).token().dpop.is_none());
        assert!(world.grants("refresh_token")[0].field("dpop").is_some(), "a proof by the first key");
    }
    // A server that then binds the access token gets proofs for it.
    world.alter = Box::new(|_, _| {});
    world.wait(4_000);
    assert!(world.run(&with(DpopMode::Auto), Trigger::Connect).token().dpop.is_some());
    assert!(world.record().expect("tokens").is_dpop());
}

#[test]
fn another_key_than_that_of_the_code_is_refused_by_the_server() {
    let mut world = offering();
    world.unauthorized(&with(DpopMode::Always)).token();
    let jkt = world.query()["dpop_jkt"].clone();
    super::log_in(&mut world, &with(DpopMode::Always)).token();
    assert_ne!(jkt, world.query()["dpop_jkt"], "each authorization has a key of its own");
}
