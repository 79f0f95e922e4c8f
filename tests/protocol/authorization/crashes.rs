//! Flows that are killed at every step: the next one goes on or asks a user, and never loops.

use mcp_oauth::{Config, DpopMode, GrantType, Trigger};
use mcp_tests::harness::authorization::{Outcome, World};
use serde_json::json;

use super::config;

/// Kills `trigger` after each of its events, then checks that the next start ends in a token.
fn kill_everywhere(config: &Config, prepare: impl Fn() -> World, trigger: impl Fn(&World) -> Trigger) {
    for at in 0.. {
        let mut world = prepare();
        world.stop_after = Some(at);
        let first = trigger(&world);
        let is_stopped = matches!(world.run(config, first), Outcome::Stopped);
        world.stop_after = None;
        let next = trigger(&world);
        // The next start goes on, or a user logs in once.
        let _ = world.run(config, Trigger::Connect);
        let outcome = world.run(config, next);
        assert!(matches!(outcome, Outcome::Authorized(_)), "killed after {at}: {outcome:?}");
        world.run(config, Trigger::Connect).token();
        if !is_stopped {
            assert!(at > 3, "the flow has some events");
            return;
        }
    }
}

fn refused(world: &World) -> Trigger {
    Trigger::Unauthorized { challenges: Vec::new(), rejected: world.stored_token() }
}

fn due(rotates: bool) -> World {
    let mut world = World::new();
    world.issuer().rotates = rotates;
    world.unauthorized(&config()).token();
    world.wait(4_000);
    world
}

#[test]
fn a_login_that_was_killed_is_begun_again() {
    kill_everywhere(&config(), World::new, |_| Trigger::LogIn { challenges: Vec::new() });
    let dpop = || {
        let mut world = World::new();
        world.issuer().metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        world.issuer().nonce = Some("n".into());
        world
    };
    kill_everywhere(&config().dpop(DpopMode::Always), dpop, |_| Trigger::LogIn { challenges: Vec::new() });
    let device = config().grant(GrantType::DeviceCode);
    kill_everywhere(&device, World::new, |_| Trigger::LogIn { challenges: Vec::new() });
}

// covers: AUTH-063
#[test]
fn a_refresh_that_was_killed_is_repeated_or_a_user_logs_in() {
    for rotates in [true, false] {
        kill_everywhere(&config(), || due(rotates), refused);
    }
}

#[test]
fn a_rotation_that_was_lost_leads_to_one_login() {
    // The server rotated, and the answer was lost: the old refresh token ends the grant.
    let mut world = due(true);
    world.alter = Box::new(|_, reply| *reply = mcp_tests::harness::authorization::Reply::Silence);
    assert!(world.run(&config(), Trigger::Connect).error().is_timeout());
    world.alter = Box::new(|_, _| {});
    assert!(matches!(world.run(&config(), Trigger::Connect), Outcome::NoToken));
    assert!(world.record().is_none(), "it is not tried a third time");
    world.unauthorized(&config()).token();
    assert_eq!(world.grants("authorization_code").len(), 1);
}

#[test]
fn a_logout_that_was_killed_is_repeated() {
    for at in 0..6 {
        let mut world = World::new();
        world.unauthorized(&config()).token();
        world.stop_after = Some(at);
        let _ = world.run(&config(), Trigger::LogOut);
        world.stop_after = None;
        assert!(matches!(world.run(&config(), Trigger::LogOut), Outcome::NoToken));
        assert!(world.record().is_none());
    }
}
