//! Every request of every flow, answered in every wrong way: the flow ends in a token or one error, and the invariants
//! of the world hold.
//!
//! `MCP_SIM_SEED=7` repeats one run of the mutations, `MCP_SIM_RUNS=10000` makes more runs.

use std::{env, panic};

use mcp_oauth::{
    Algorithm, ClientAuth, ClientCredentials, Config, DpopMode, FetchFailure, GrantType, IdentityProvider,
    Trigger,
};
use mcp_tests::harness::authorization::{AuthServer, Outcome, Reply, World};
use mcp_tests::harness::{Rng, rounds};
use serde_json::{Value, json};

use super::config;

/// A kind of flow, with its configuration and its world.
struct Scenario {
    name: &'static str,
    config: Config,
    prepare: fn() -> World,
    trigger: fn(&World) -> Trigger,
}

fn log_in(_: &World) -> Trigger {
    Trigger::LogIn { challenges: Vec::new() }
}

fn refused(world: &World) -> Trigger {
    Trigger::Unauthorized { challenges: Vec::new(), rejected: world.stored_token() }
}

fn fresh() -> World {
    let mut world = World::new();
    world.issuer().metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    world.issuer().add_client("known", "client_secret_basic", "known-s3cret");
    world.issuer().add_client("signer", "private_key_jwt", "");
    let methods = json!(["none", "client_secret_basic", "private_key_jwt"]);
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = methods;
    let mut provider = AuthServer::new("https://idp.test");
    provider.add_client("known", "client_secret_basic", "known-s3cret");
    provider.metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    world.issuers.push(provider);
    world
}

fn due() -> World {
    let mut world = fresh();
    world.unauthorized(&config().dpop(DpopMode::Always)).token();
    world.wait(4_000);
    world
}

fn legacy() -> World {
    let mut world = World::with("https://mcp.test/mcp", &["https://mcp.test"]);
    world.resource_metadata.clear();
    world
}

fn scenarios() -> Vec<Scenario> {
    let known = || ClientCredentials::new("known", ClientAuth::Secret("known-s3cret".into()));
    let signer = ClientAuth::PrivateKeyJwt { algorithm: Algorithm::Es256, key_id: None };
    let provider = IdentityProvider::new("https://idp.test", known()).expect("a URL");
    let enterprise = config().grant(GrantType::Enterprise(provider)).credentials(known());
    let machine = config().grant(GrantType::ClientCredentials).dpop(DpopMode::Always);
    let machine = machine.credentials(ClientCredentials::new("signer", signer));
    let code = || config().dpop(DpopMode::Always).max_document(16 << 10);
    let scenario = |name, config, prepare, trigger| Scenario { name, config, prepare, trigger };
    vec![
        scenario("code", code(), fresh as fn() -> World, log_in as fn(&World) -> Trigger),
        scenario("secret", config().credentials(known()), fresh, log_in),
        scenario("legacy", config().legacy_fallback(true), legacy, log_in),
        scenario("refresh", code(), due, refused),
        scenario("connect", code(), due, |_| Trigger::Connect),
        scenario("log out", code(), due, |_| Trigger::LogOut),
        scenario("device", code().grant(GrantType::DeviceCode), fresh, log_in),
        scenario("machine", machine, fresh, log_in),
        scenario("enterprise", enterprise, fresh, log_in),
        scenario("assertion", config().grant(GrantType::Assertion).credentials(known()), fresh, log_in),
    ]
}

/// Returns the wrong answers to any request.
fn wrong_replies() -> Vec<Reply> {
    let mut replies = vec![
        Reply::Silence,
        Reply::Failure(FetchFailure::Unreachable("refused".into())),
        Reply::Failure(FetchFailure::TimedOut),
        Reply::Failure(FetchFailure::TooLarge),
        Reply::Failure(FetchFailure::Forbidden("10.0.0.1".into())),
        Reply::text(200, ""),
        Reply::text(200, "<!doctype html><title>Sign in</title>"),
        Reply::text(200, "{"),
        Reply::text(200, "[]"),
        Reply::text(200, "{}"),
        Reply::text(200, "{\"error\":1,\"error\":2}"),
        Reply::text(200, &" ".repeat(300 << 10)),
        Reply::text(200, &format!("{}{}", "{\"a\":".repeat(3_000), "}".repeat(3_000))),
        Reply::json(
            200,
            &json!({ "issuer": "https://evil.test", "token_endpoint": "https://evil.test/token" }),
        ),
        Reply::error("invalid_client"),
        Reply::error("invalid_grant"),
        Reply::error("use_dpop_nonce").with_field("DPoP-Nonce", "n"),
        Reply::error("authorization_pending"),
        Reply::error("slow_down"),
        Reply::error(&"x".repeat(9_000)),
        Reply::error("\u{1b}[31m\r\nX: y"),
    ];
    for status in [100, 201, 204, 301, 304, 400, 401, 403, 404, 429, 500, 503, 599] {
        replies.push(Reply::text(status, "{}"));
    }
    for to in ["https://evil.test/", "http://as.test/", "//evil.test/x", "/elsewhere", "javascript:x", ""] {
        replies.push(Reply::redirect(to));
    }
    replies
}

/// Runs a scenario in which the requests of `at` are answered by `change`; returns what happened.
fn run(
    scenario: &Scenario,
    is_changed: impl Fn(usize) -> bool + 'static,
    change: impl Fn(usize, &mut Reply) + 'static,
) -> (String, Outcome, usize) {
    let mut world = (scenario.prepare)();
    // The default endpoints of a server without metadata (AUTH-014).
    for name in ["authorize", "token", "register"] {
        world.permit_endpoint(&format!("https://mcp.test/{name}"));
    }
    let trigger = (scenario.trigger)(&world);
    let mut n = 0;
    world.alter = Box::new(move |_, reply| {
        if is_changed(n) {
            change(n, reply);
        }
        n += 1;
    });
    let outcome = world.run(&scenario.config, trigger);
    // The store is sound, whatever the servers said: the next flow reads it.
    world.alter = Box::new(|_, _| {});
    let next = world.run(&scenario.config, Trigger::Connect);
    if let Outcome::Failed(error) = &next {
        panic!("{}: the store is damaged: {error}", scenario.name);
    }
    (format!("{outcome:?} {:?}", world.urls()), outcome, world.requests.len())
}

/// Returns the number of requests of a scenario in which all goes well.
fn length(scenario: &Scenario) -> usize {
    let mut world = (scenario.prepare)();
    let trigger = (scenario.trigger)(&world);
    let outcome = world.run(&scenario.config, trigger);
    assert!(!matches!(outcome, Outcome::Failed(_)), "{}: {outcome:?}", scenario.name);
    world.requests.len()
}

// covers: AUTH-068, SEC-011, SEC-018, SEC-019
#[test]
fn each_request_may_be_answered_in_each_wrong_way() {
    let replies = wrong_replies();
    for scenario in scenarios() {
        for at in 0..length(&scenario) {
            let few = rounds(replies.len() as u64) as usize;
            for reply in replies.iter().cycle().skip(at * few).take(few) {
                let (once, always) = (reply.clone(), reply.clone());
                let _ = run(&scenario, move |n| n == at, move |_, answer| *answer = once.clone());
                // And from there on for ever.
                let _ = run(&scenario, move |n| n >= at, move |_, answer| *answer = always.clone());
            }
        }
    }
}

// covers: SEC-019, SEC-011
#[test]
fn each_member_of_each_answer_may_be_anything() {
    let values = [
        Value::Null,
        json!(""),
        json!(7),
        json!(-1),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
        json!(["S256", 7]),
        json!("https://evil.test/x"),
        json!("http://as.test/token"),
        json!("javascript:alert(1)"),
        json!("a\r\nb\u{0}"),
        json!("x".repeat(9_000)),
    ];
    for scenario in scenarios() {
        for at in 0..length(&scenario) {
            for member in (0..12).cycle().skip(at).take(rounds(12) as usize) {
                // Other values for each member, or all of them.
                let values = values.iter().cycle().skip(at * 12 + member).take(rounds(14) as usize);
                for value in values {
                    let value = value.clone();
                    let _ =
                        run(&scenario, move |n| n == at, move |_, answer| set_member(answer, member, &value));
                }
                let _ = run(&scenario, move |n| n == at, move |_, answer| double_member(answer, member));
            }
        }
    }
}

fn object(reply: &Reply) -> Option<serde_json::Map<String, Value>> {
    match reply {
        Reply::Response { body, .. } => serde_json::from_slice(body).ok(),
        _ => None,
    }
}

/// Replaces the value of the member with this number. The endpoints stay where invariants expect them.
fn set_member(reply: &mut Reply, member: usize, value: &Value) {
    let Some(mut found) = object(reply) else { return };
    if let Some((_, old)) = found.iter_mut().nth(member) {
        *old = value.clone();
        if let Reply::Response { body, .. } = reply {
            *body = Value::Object(found).to_string().into_bytes();
        }
    }
}

/// Repeats a member with another value.
fn double_member(reply: &mut Reply, member: usize) {
    let Some(found) = object(reply) else { return };
    let Some(name) = found.keys().nth(member) else { return };
    if let Reply::Response { body, .. } = reply {
        let text = String::from_utf8_lossy(body).into_owned();
        *body =
            format!("{{\"{name}\":\"https://evil.test\",{}", text.strip_prefix('{').unwrap_or("}")).into();
    }
}

/// Changes a reply at random: bytes, members, status, fields, or all of it.
fn mutate(rng: &mut Rng, reply: &mut Reply) {
    match rng.below(8) {
        0 => *reply = rng.pick(&wrong_replies()).clone(),
        1 => set_member(reply, rng.below(12), &json!(rng.below(100))),
        2 => double_member(reply, rng.below(12)),
        3 => {
            if let Reply::Response { status, .. } = reply {
                *status = *rng.pick(&[200, 201, 302, 400, 401, 404, 500]);
            }
        }
        4 => *reply = reply.clone().with_field("DPoP-Nonce", "fresh"),
        _ => {
            if let Reply::Response { body, .. } = reply {
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(body.len() + 1);
                    match rng.below(3) {
                        0 if at < body.len() => body[at] = u8::try_from(rng.below(256)).unwrap_or(0),
                        1 => body.truncate(at),
                        _ => body.insert(at, *rng.pick(b"{}[]\",:\\n01")),
                    }
                }
            }
        }
    }
}

// covers: AUTH-068, SEC-019
#[test]
fn random_answers_end_each_flow_and_equal_seeds_give_equal_runs() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("MCP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MCP_SIM_RUNS").unwrap_or_else(|| rounds(600)),
    };
    let scenarios = scenarios();
    for seed in seeds {
        let once = || {
            let mut rng = Rng::new(seed);
            let scenario = rng.pick(&scenarios);
            let percent = *rng.pick(&[10, 30, 80]);
            let changes = Rng::new(seed ^ 0x5eed);
            run(
                scenario,
                move |n| Rng::new(seed + n as u64 * 7_919).percent(percent),
                move |n, reply| mutate(&mut Rng::new(changes.clone().next() ^ n as u64), reply),
            )
            .0
        };
        let result = panic::catch_unwind(panic::AssertUnwindSafe(once));
        match result {
            Ok(transcript) => {
                if seed % 8 == 0 {
                    assert_eq!(transcript, once(), "two runs of seed {seed} differ");
                }
            }
            Err(failure) => {
                eprintln!("to repeat it: MCP_SIM_SEED={seed}");
                panic::resume_unwind(failure);
            }
        }
    }
}
