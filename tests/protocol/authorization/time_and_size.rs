//! Bounds: the time of each step, the size of documents, and answers that nobody asked for.

use core::time::Duration;

use mcp_oauth::DpopKey;
use mcp_oauth::{DpopMode, ErrorKind, Event, FetchFailure, GrantType, Step, Trigger};
use mcp_tests::harness::authorization::{Reply, World};
use serde_json::json;

use super::{config, log_in};

/// Returns the method and URL of each request of a whole login.
fn requests() -> Vec<String> {
    let mut world = World::new();
    log_in(&mut world, &config()).token();
    world.urls()
}

#[test]
fn each_request_has_a_time() {
    for at in 0..requests().len() {
        let mut world = World::new();
        let (start, mut n) = (world.now, 0);
        world.alter = Box::new(move |_, reply| {
            if n == at {
                *reply = Reply::Silence;
            }
            n += 1;
        });
        let error = log_in(&mut world, &config().fetch_timeout(Duration::from_secs(8))).error();
        assert_eq!(error.kind(), &ErrorKind::Fetch(FetchFailure::TimedOut), "request {at}");
        assert!(error.is_timeout());
        assert_eq!(world.now.saturating_duration_since(start), Duration::from_secs(13), "five more");
    }
}

#[test]
fn a_user_has_a_time() {
    let mut world = World::new();
    world.browser = Box::new(|_, _| Vec::new());
    let start = world.now;
    let error = log_in(&mut world, &config().login_timeout(Duration::from_secs(42))).error();
    let uri = "http://127.0.0.1:7777/callback".into();
    let kind = ErrorKind::NoRedirect { uri, forgets_client: false };
    assert_eq!((error.step(), error.kind()), (Step::Authorization, &kind));
    assert_eq!(world.now.saturating_duration_since(start), Duration::from_secs(42));
}

#[test]
fn the_longest_times_and_lifetimes_are_accepted() {
    let mut world = World::new();
    world.issuer().lifetime = Some(u64::MAX);
    let config = config().login_timeout(Duration::MAX).fetch_timeout(Duration::MAX);
    log_in(&mut world, &config).token();
    let device = config.grant(GrantType::DeviceCode);
    world.alter = Box::new(|request, reply| {
        if request.url.ends_with("/device") {
            reply.edit(|body| body["expires_in"] = json!(u64::MAX));
        }
    });
    log_in(&mut world, &device).token();
}

// covers: SEC-018
#[test]
fn documents_have_a_largest_size() {
    for at in 0..requests().len() {
        for is_reported in [true, false] {
            let mut world = World::new();
            let mut n = 0;
            world.reports_size = is_reported;
            world.alter = Box::new(move |_, reply| {
                if n == at {
                    if let Reply::Response { body, .. } = reply {
                        // White space in front of a JSON text changes nothing else.
                        *body = [" ".repeat(4_097).as_bytes(), body].concat();
                    }
                }
                n += 1;
            });
            let error = log_in(&mut world, &config().max_document(4_096)).error();
            assert_eq!(error.kind(), &ErrorKind::Fetch(FetchFailure::TooLarge), "request {at}");
        }
        let mut world = World::new();
        world.alter = Box::new(|_, reply| {
            if let Reply::Response { body, .. } = reply {
                *body = [" ".repeat(4_096 - body.len()).as_bytes(), body].concat();
            }
        });
        log_in(&mut world, &config().max_document(4_096)).token();
    }
}

#[test]
fn early_calls_of_the_timer_change_nothing() {
    let mut world = World::new();
    let mut flow = world.flow(&config(), Trigger::LogIn { challenges: Vec::new() });
    loop {
        flow.handle_timeout(world.now);
        let event = flow.poll_event(world.now).expect("an event");
        if world.answer(&mut flow, event).is_some() {
            break;
        }
    }
    assert!(world.record().is_some());
}

#[test]
fn answers_that_nobody_asked_for_change_nothing() {
    let mut world = World::new();
    let mut flow = world.flow(&config(), Trigger::LogIn { challenges: Vec::new() });
    let now = world.now;
    let mut n = 0;
    while let Some(event) = flow.poll_event(now) {
        n += 1;
        let step = flow.step();
        // Each answer but the right one.
        let is = |names: &[&str]| names.iter().any(|name| format!("{event:?}").starts_with(name));
        if !is(&["Load", "Lock"]) {
            flow.handle_loaded(now, Some(&"damaged".into()));
        }
        if !is(&["Save"]) {
            flow.handle_saved(now);
        }
        if !is(&["ChooseServer"]) {
            flow.choose(now, 9);
        }
        if !is(&["NeedClient"]) {
            let client = mcp_oauth::ClientCredentials::new("x", mcp_oauth::ClientAuth::None);
            flow.set_client(now, &client);
        }
        if !is(&["NeedRedirectUri"]) {
            flow.set_redirect_uri(now, "http://evil.test/");
        }
        if !is(&["CreateKey"]) {
            flow.handle_key(now, DpopKey { private: "p".into(), public: [0; 64] });
        }
        if !is(&["Sign"]) {
            flow.handle_signature(now, &Vec::new());
        }
        if !is(&["NeedAssertion"]) {
            flow.handle_assertion(now, "a".into());
        }
        flow.handle_redirect(now, "state=x&code=y");
        flow.handle_timeout(now);
        assert_eq!(flow.step(), step, "{event:?}");
        let is_end = world.answer(&mut flow, event).is_some();
        if is_end {
            break;
        }
    }
    assert!(n > 8 && world.record().is_some());
}

#[test]
fn an_application_may_give_up_at_any_step() {
    for at in 0.. {
        let mut world = World::new();
        let mut flow =
            world.flow(&config(), Trigger::Unauthorized { challenges: Vec::new(), rejected: None });
        for _ in 0..at {
            let event = flow.poll_event(world.now).expect("an event");
            if world.answer(&mut flow, event).is_some() {
                return;
            }
        }
        // Before the question is polled: it is not asked any more. A lock is released.
        let is_locked = world.is_locked();
        flow.fail(world.now, "no store");
        if is_locked {
            assert!(matches!(flow.poll_event(world.now), Some(Event::Unlock { .. })));
        }
        let mut event = flow.poll_event(world.now).expect("an event");
        if matches!(event, Event::Save { .. }) {
            // The user has logged in: the tokens are stored without the lock.
            assert!(world.answer(&mut flow, event).is_none());
            event = flow.poll_event(world.now).expect("the end");
            assert!(matches!(event, Event::Authorized(_)));
        }
        match event {
            Event::Failed(error) => assert_eq!(error.kind(), &ErrorKind::Local("no store".into())),
            // The tokens were stored: the flow has ended before.
            event => assert!(matches!(event, Event::Authorized(_)) && world.record().is_some(), "{event:?}"),
        }
        assert!(flow.poll_event(world.now).is_none() && flow.is_ended());
    }
}

#[test]
fn a_flow_that_holds_a_lock_releases_it_when_it_is_given_up() {
    let mut world = World::new();
    log_in(&mut world, &config()).token();
    world.wait(4_000);
    let mut flow = world.flow(&config(), Trigger::Connect);
    while !world.events.contains(&"fetch") {
        let event = flow.poll_event(world.now).expect("an event");
        world.note(&event);
        if !matches!(event, Event::Fetch(_)) {
            assert!(world.answer(&mut flow, event).is_none());
        }
    }
    flow.fail(world.now, "stop");
    assert!(matches!(flow.poll_event(world.now), Some(Event::Unlock { .. })));
    assert!(matches!(flow.poll_event(world.now), Some(Event::Failed(_))));
}

// covers: AUTH-063
#[test]
fn whoever_waits_for_the_lock_outlasts_the_longest_refresh() {
    assert_eq!(config().lock_timeout(), Duration::from_secs(55));
    assert_eq!(config().fetch_timeout(Duration::MAX).lock_timeout(), Duration::MAX);
    let config = config().dpop(DpopMode::Always);
    let mut world = World::new();
    world.issuer().metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    log_in(&mut world, &config).token();
    world.wait(4_000);
    // Each response takes nearly the whole time, and each nonce is refused.
    let mut n = 0;
    world.alter = Box::new(move |_, reply| {
        n += 1;
        *reply = Reply::error("use_dpop_nonce").with_field("DPoP-Nonce", &format!("n{n}"));
    });
    let mut flow = world.flow(&config, Trigger::Connect);
    let (mut locked_at, mut held) = (None, None);
    loop {
        let event = flow.poll_event(world.now).expect("an event");
        match &event {
            Event::Lock { .. } => locked_at = Some(world.now),
            Event::Fetch(fetch) => world.now = world.now + fetch.policy.timeout - Duration::from_millis(1),
            Event::Unlock { .. } => held = locked_at.map(|at| world.now.saturating_duration_since(at)),
            _ => {}
        }
        if world.answer(&mut flow, event).is_some() {
            break;
        }
    }
    let held = held.expect("it was locked");
    assert!(
        held > Duration::from_secs(44) && held + Duration::from_secs(9) < config.lock_timeout(),
        "{held:?}"
    );
}
