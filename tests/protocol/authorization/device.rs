//! The device flow (RFC 8628): polls, their pace, and their end.

use core::time::Duration;

use mcp_oauth::{Config, ErrorKind, FetchFailure, GrantType, Step};
use mcp_tests::harness::authorization::{Outcome, Reply, World};
use serde_json::{Value, json};

use super::config;

fn device() -> Config {
    config().grant(GrantType::DeviceCode)
}

/// Runs a device flow; returns the seconds from the user code to its end.
fn run(config: &Config, change: impl FnOnce(&mut World)) -> (World, Outcome, u64) {
    let mut world = World::new();
    change(&mut world);
    let start = world.now;
    let outcome = world.unauthorized(config);
    let took = world.now.saturating_duration_since(start).as_secs();
    (world, outcome, took)
}

#[test]
fn a_user_authorizes_on_another_device() {
    let (world, outcome, took) = run(&device(), |world| {
        world.issuer().device_answers = vec!["authorization_pending", "authorization_pending"];
    });
    outcome.token();
    assert_eq!((world.grants("device_code").len(), took), (3, 15));
    let shown = &world.user_codes[0];
    assert_eq!((&*shown.user_code, shown.expires_in), ("WDJB-MJHT", 120));
    assert_eq!(world.grants("device_code")[0].param("resource"), "https://mcp.test/mcp");
    assert!(world.opened.is_empty() && !world.events.contains(&"redirect-uri"));
    assert!(world.record().expect("tokens").is_refreshable());
}

#[test]
fn slow_down_makes_the_polls_slower() {
    let (world, outcome, took) = run(&device(), |world| {
        world.issuer().device_answers = vec!["slow_down", "authorization_pending", "slow_down"];
    });
    outcome.token();
    assert_eq!((world.grants("device_code").len(), took), (4, 5 + 10 + 10 + 15));
}

#[test]
fn refusals_end_the_flow() {
    for code in ["access_denied", "expired_token", "invalid_grant", "anything"] {
        let (_, outcome, _) = run(&device(), |world| world.issuer().device_answers = vec![code]);
        let error = outcome.error();
        assert!(
            matches!(error.kind(), ErrorKind::Refused { code: found, .. } if **found == *code),
            "{error}"
        );
    }
}

#[test]
fn polls_end_with_the_code_and_with_the_time_of_the_user() {
    let pending = |world: &mut World| world.issuer().device_answers = vec!["authorization_pending"; 900];
    let (world, outcome, took) = run(&device(), pending);
    assert!(outcome.error().is_timeout() && took <= 120, "the code is valid for 120 s");
    assert_eq!(world.grants("device_code").len(), 24, "more than the bound of other requests would allow");
    let (_, outcome, took) = run(&device().login_timeout(Duration::from_secs(30)), pending);
    assert!(outcome.error().is_timeout() && took <= 30);
    // Hundreds of polls do not count against the bound of requests.
    let (world, outcome, _) = run(&device().login_timeout(Duration::from_secs(3_600)), |world| {
        pending(world);
        world.alter = Box::new(|request, reply| {
            if request.url.ends_with("/device") {
                reply.edit(|body| {
                    body["expires_in"] = json!(3_600);
                    body["interval"] = json!(0);
                });
            }
        });
    });
    outcome.token();
    assert_eq!(world.grants("device_code").len(), 901);
}

#[test]
fn trouble_of_the_connection_is_waited_out_five_times_in_a_row() {
    let troubles = [
        Reply::Silence,
        Reply::Failure(FetchFailure::Unreachable("reset".into())),
        Reply::text(503, ""),
        Reply::json(429, &json!({ "error": "slow_down" })),
    ];
    for trouble in troubles {
        for (count, succeeds) in [(5, true), (6, false)] {
            let trouble = trouble.clone();
            let is_silent = matches!(trouble, Reply::Silence);
            let (_, outcome, took) = run(&device().login_timeout(Duration::from_secs(9_000)), |world| {
                let mut left = count;
                world.alter = Box::new(move |request, reply| {
                    if request.url.ends_with("/device") {
                        reply.edit(|body| body["expires_in"] = json!(9_000));
                    } else if request.grant() == "device_code" && left > 0 {
                        left -= 1;
                        *reply = trouble.clone();
                    }
                });
            });
            assert_eq!(matches!(outcome, Outcome::Authorized(_)), succeeds, "{count}");
            // Each pause is twice the one before, up to two minutes.
            assert!(is_silent || took == 5 + 10 + 20 + 40 + 80 + 120, "{took}");
        }
    }
}

#[test]
fn a_late_answer_to_an_earlier_poll_counts_for_nothing() {
    use mcp_oauth::{Event, FetchResponse, Trigger};
    let mut world = World::new();
    let mut flow = world.flow(&device(), Trigger::LogIn { challenges: Vec::new() });
    let mut polls = Vec::new();
    // The polls are not answered; all other events are.
    while polls.len() < 2 {
        let Some(event) = flow.poll_event(world.now) else {
            let at = flow.poll_timeout().expect("a time");
            world.now = world.now.max(at);
            flow.handle_timeout(world.now);
            continue;
        };
        match event {
            Event::Fetch(fetch) if fetch.url.target() == "/token" => polls.push(fetch.id),
            event => assert!(world.answer(&mut flow, event).is_none()),
        }
    }
    assert_ne!(polls[0], polls[1]);
    let body = br#"{"access_token":"late","token_type":"Bearer"}"#.to_vec();
    let late = FetchResponse { status: 200, body, ..FetchResponse::default() };
    flow.handle_response(world.now, polls[0], late);
    assert!(flow.poll_event(world.now).is_none() && world.record().is_none());
}

// covers: SEC-011, AUTH-061
#[test]
fn a_wrong_answer_of_the_device_endpoint_is_refused() {
    for (name, value) in [
        ("device_code", Value::Null),
        ("device_code", json!("")),
        ("user_code", json!(7)),
        ("expires_in", Value::Null),
        ("expires_in", json!("soon")),
        ("interval", json!(-1)),
        ("verification_uri", Value::Null),
        ("verification_uri", json!("javascript:alert(1)")),
        ("verification_uri", json!("http://as.test/activate")),
        ("verification_uri_complete", json!("file:///x")),
    ] {
        let shown = value.to_string();
        let (world, outcome, _) = run(&device(), move |world| {
            world.alter = Box::new(move |request, reply| {
                if request.url.ends_with("/device") {
                    reply.edit(|body| body[name] = value.clone());
                }
            });
        });
        assert_eq!(outcome.error().step(), Step::DeviceAuthorization, "{name} {shown}");
        assert!(world.user_codes.is_empty());
    }
    let (_, outcome, _) = run(&device(), |world| {
        world.issuer().metadata["device_authorization_endpoint"] = Value::Null;
    });
    assert!(outcome.error().to_string().contains("device_authorization_endpoint"));
}
