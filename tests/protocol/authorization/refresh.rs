//! Stored tokens: their use, their refresh by one flow at a time, and what follows a refusal.

use alloc::borrow::ToOwned as _;

use mcp_oauth::{ErrorKind, Event, FetchFailure, Secret, Step, Trigger};
use mcp_tests::harness::authorization::{Outcome, Reply, World};
use serde_json::json;

use super::config;

/// Returns a world with stored tokens.
fn logged_in() -> World {
    let mut world = World::new();
    world.unauthorized(&config()).token();
    world
}

#[test]
fn a_stored_token_is_used_and_renewed_before_it_expires() {
    let mut world = logged_in();
    let first = world.run(&config(), Trigger::Connect).token();
    assert_eq!(world.events, ["load", "authorized"]);
    world.wait(3_565);
    assert_eq!(world.run(&config(), Trigger::Connect).token().token, first.token, "not due yet");
    world.wait(10);
    let second = world.run(&config(), Trigger::Connect).token();
    assert_eq!(world.events, ["load", "lock", "save", "fetch", "save", "unlock", "authorized"]);
    assert_ne!(second.token, first.token);
    assert_eq!(world.grants("refresh_token")[0].param("resource"), "https://mcp.test/mcp");
    // A caller that still has the first one gets the second one, without a request.
    assert_eq!(world.run(&config(), Trigger::Due(first.token)).token().token, second.token);
    assert!(world.requests.is_empty());
}

#[test]
fn nothing_stored_is_no_token_until_a_server_asks() {
    assert!(matches!(World::new().run(&config(), Trigger::Connect), Outcome::NoToken));
}

#[test]
fn short_lifetimes_are_renewed_and_never_without_end() {
    for (lifetime, is_used_for) in [(0, 0), (1, 0), (10, 7), (100, 79)] {
        let mut world = World::new();
        world.issuer().lifetime = Some(lifetime);
        let token = world.unauthorized(&config()).token();
        assert!(token.renew_at.is_some_and(|at| at > world.unix_secs()), "{lifetime}");
        world.wait(is_used_for);
        assert_eq!(world.run(&config(), Trigger::Connect).token().token, token.token, "{lifetime}");
        world.wait(2);
        assert_ne!(world.run(&config(), Trigger::Connect).token().token, token.token, "{lifetime}");
    }
}

#[test]
fn a_lifetime_counts_from_the_request() {
    // The response takes 10 s; the lifetime may have begun at its start.
    for (lifetime, is_due_after) in [(3_600, 3_560), (20, 6), (5, 1)] {
        let mut world = World::new();
        world.issuer().lifetime = Some(lifetime);
        let mut flow = world.flow(&config(), Trigger::LogIn { challenges: Vec::new() });
        let token = loop {
            let event = flow.poll_event(world.now).expect("an event");
            if matches!(&event, Event::Fetch(fetch) if fetch.url.target() == "/token") {
                world.wait(10);
            }
            if let Some(outcome) = world.answer(&mut flow, event) {
                break outcome.token();
            }
        };
        let left = token.renew_at.map(|at| at - world.unix_secs());
        assert_eq!(left, Some(is_due_after), "{lifetime}");
        assert!(world.record().expect("tokens").expires_at() >= token.renew_at, "{lifetime}");
    }
}

// covers: AUTH-063
#[test]
fn a_rotated_refresh_token_is_stored_before_the_access_token_is_used() {
    let mut world = logged_in();
    for _ in 0..5 {
        world.wait(4_000);
        world.run(&config(), Trigger::Connect).token();
        let save = world.events.iter().position(|event| *event == "save");
        let end = world.events.iter().position(|event| *event == "authorized");
        assert!(save.is_some() && save < end);
    }
}

// covers: AUTH-043
#[test]
fn resource_is_left_out_and_scope_is_sent_again_where_the_login_said_so() {
    use mcp_oauth::{GrantType, Scopes};
    let own = || config().scopes(Scopes::parse("a b").expect("scopes"));
    for grant in [GrantType::AuthorizationCode, GrantType::DeviceCode] {
        for (omits, repeats) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut world = World::new();
            world.issuer().refuses_resource = omits;
            world.issuer().granted = Some("a".into());
            let asked = own().grant(grant.clone()).omit_resource(omits).scope_on_refresh(repeats);
            world.unauthorized(&asked).token();
            assert_eq!(world.record().expect("tokens").resource(), "https://mcp.test/mcp");
            // A later command does not know what that of the login was told.
            for _ in 0..2 {
                world.wait(4_000);
                world.run(&own().grant(grant.clone()), Trigger::Connect).token();
                let refresh = world.grants("refresh_token")[0];
                assert_eq!(refresh.param("resource").is_empty(), omits);
                assert_eq!(refresh.param("scope"), if repeats { "a" } else { "" });
            }
        }
    }
}

#[test]
fn a_refresh_token_that_is_not_rotated_is_kept() {
    let mut world = World::new();
    world.issuer().rotates = false;
    world.unauthorized(&config()).token();
    for _ in 0..3 {
        world.wait(4_000);
        world.run(&config(), Trigger::Connect).token();
        assert!(world.record().expect("tokens").is_refreshable());
    }
}

#[test]
fn what_another_process_refreshed_meanwhile_is_used() {
    let mut world = logged_in();
    let (stale, old) = (world.store.clone(), world.stored_token().expect("a token"));
    world.wait(4_000);
    let fresh = world.run(&config(), Trigger::Connect).token();
    for trigger in [
        Trigger::Connect,
        Trigger::Due(old.clone()),
        Trigger::Unauthorized { challenges: Vec::new(), rejected: Some(old) },
    ] {
        world.stored_meanwhile = Some(core::mem::replace(&mut world.store, stale.clone()));
        assert_eq!(world.run(&config(), trigger).token().token, fresh.token);
        assert!(world.requests.is_empty(), "one refresh for both");
        assert_eq!(world.events, ["load", "lock", "unlock", "authorized"]);
    }
}

/// Runs a flow whose `n`-th write of the tokens (the mark, or the tokens themselves) meets another entry: `other`.
pub(super) fn run_with_change(world: &mut World, trigger: Trigger, n: usize, other: Option<&str>) -> Outcome {
    let key = world.store.keys().find(|key| key.starts_with("token")).expect("tokens").clone();
    let mut flow = world.flow(&config(), trigger);
    let mut writes = 0;
    loop {
        let event = flow.poll_event(world.now).expect("an event");
        if matches!(event, Event::Replace { .. }) {
            writes += 1;
            if writes == n {
                world.store.remove(&key);
                world.store.extend(other.map(|other| (key.clone(), other.to_owned())));
            }
        }
        world.note(&event);
        if let Some(outcome) = world.answer(&mut flow, event) {
            return outcome;
        }
    }
}

// covers: AUTH-063
#[test]
fn tokens_that_came_during_a_refresh_are_used_and_stay() {
    let mut world = logged_in();
    world.wait(4_000);
    let due = world.store.clone();
    world.run(&config(), Trigger::Connect).token();
    let (fresh, token) = (world.store.clone(), world.stored_token());
    let stored = fresh.iter().find(|(key, _)| key.starts_with("token")).expect("tokens").1;
    for n in [1, 2] {
        let mut world = logged_in();
        world.wait(4_000);
        world.store = due.clone();
        let outcome = run_with_change(&mut world, Trigger::Connect, n, Some(stored));
        assert_eq!(Some(outcome.token().token), token, "{n}");
        assert_eq!((&world.store, world.grants("refresh_token").len()), (&fresh, n - 1));
        // A logout is respected, too.
        let mut world = logged_in();
        world.wait(4_000);
        assert!(matches!(run_with_change(&mut world, Trigger::Connect, n, None), Outcome::NoToken));
        assert!(world.record().is_none());
    }
    // And the tokens of a refresh that was refused.
    let mut world = logged_in();
    world.issuer().revoke_all();
    world.wait(4_000);
    let outcome = run_with_change(&mut world, Trigger::Connect, 2, Some(stored));
    assert_eq!((Some(outcome.token().token), world.stored_token()), (token.clone(), token));
}

#[test]
fn a_refresh_among_endless_changes_ends() {
    let mut world = logged_in();
    world.wait(4_000);
    let key = world.store.keys().find(|key| key.starts_with("token")).expect("tokens").clone();
    let mut flow = world.flow(&config(), Trigger::Connect);
    let error = loop {
        let event = flow.poll_event(world.now).expect("an event");
        if matches!(event, Event::Replace { .. }) {
            world.store.get_mut(&key).expect("tokens").push(' ');
        }
        if let Some(outcome) = world.answer(&mut flow, event) {
            break outcome.error();
        }
    };
    assert!(error.is_timeout() && matches!(error.kind(), ErrorKind::Locked(_)), "{error}");
    assert!(!world.is_locked() && world.grants("refresh_token").is_empty());
}

// covers: AUTH-063
#[test]
fn a_store_that_cannot_be_written_costs_no_refresh_token() {
    let mut world = logged_in();
    world.wait(4_000);
    let mut flow = world.flow(&config(), Trigger::Connect);
    let error = loop {
        let event = flow.poll_event(world.now).expect("an event");
        if matches!(event, Event::Replace { .. }) {
            flow.fail(world.now, "the disk is full");
        } else if let Some(outcome) = world.answer(&mut flow, event) {
            break outcome.error();
        }
    };
    assert_eq!(error.kind(), &ErrorKind::Local("the disk is full".into()));
    assert!(world.grants("refresh_token").is_empty(), "it is not sent");
    world.run(&config(), Trigger::Connect).token();
}

#[test]
fn a_logout_of_another_process_meanwhile_ends_the_refresh() {
    let mut world = logged_in();
    world.wait(4_000);
    let store = world.store.clone();
    world.stored_meanwhile = Some(Default::default());
    assert!(matches!(world.run(&config(), Trigger::Connect), Outcome::NoToken));
    assert!(world.requests.is_empty());
    world.store = store;
    world.stored_meanwhile = Some(Default::default());
    world.unauthorized(&config()).token();
    assert!(world.grants("refresh_token").is_empty() && !world.opened.is_empty());
}

#[test]
fn a_refused_refresh_token_is_forgotten_and_a_user_asked() {
    let mut world = logged_in();
    world.issuer().revoke_all();
    world.wait(4_000);
    assert!(matches!(world.run(&config(), Trigger::Connect), Outcome::NoToken), "nobody is asked to connect");
    assert!(world.record().is_none());
    let mut world = logged_in();
    world.issuer().revoke_all();
    world.wait(4_000);
    world.unauthorized(&config()).token();
    assert_eq!((world.grants("refresh_token").len(), world.grants("authorization_code").len()), (1, 1));
    let mut world = logged_in();
    world.issuer().revoke_all();
    world.wait(4_000);
    assert!(world.unauthorized(&config().interactive(false)).error().is_login_required());
}

#[test]
fn trouble_at_the_server_keeps_the_refresh_token() {
    for reply in [
        Reply::text(500, "<html>"),
        Reply::text(503, ""),
        Reply::text(429, ""),
        // The body is that of whoever limits the rate, and no judgement of the grant.
        Reply::json(429, &json!({ "error": "invalid_grant" })),
        Reply::json(408, &json!({ "error": "invalid_client" })),
        Reply::error("temporarily_unavailable"),
        Reply::redirect("https://evil.test/"),
        Reply::Failure(FetchFailure::Unreachable("refused".into())),
        Reply::Silence,
        Reply::text(200, "{}"),
    ] {
        let mut world = logged_in();
        // The server did nothing: the token was not rotated.
        world.issuer().rotates = false;
        let store = world.store.clone();
        world.wait(4_000);
        let shown = format!("{reply:?}");
        world.alter = Box::new(move |_, answer| *answer = reply.clone());
        assert_eq!(world.run(&config(), Trigger::Connect).error().step(), Step::Refresh, "{shown}");
        assert_eq!(world.store_without_marks(), store, "{shown}");
        world.alter = Box::new(|_, _| {});
        world.run(&config(), Trigger::Connect).token();
    }
}

// covers: AUTH-057
#[test]
fn a_server_that_refuses_each_token_is_asked_a_few_times_alone() {
    let mut world = logged_in();
    let mut logins = 0;
    let mut outcomes = Vec::new();
    for _ in 0..10 {
        world.wait(1);
        let outcome = world.unauthorized(&config());
        logins += world.grants("authorization_code").len();
        outcomes.push(matches!(outcome, Outcome::Authorized(_)));
    }
    // A new one is renewed once, and nobody is asked.
    assert_eq!((logins, &outcomes[..2]), (0, &[true, false][..]));
    assert!(!outcomes[2..].contains(&true), "{outcomes:?}");
    // One in use for a minute is renewed first, whether it is due or not; then a user logs in; then it is an error.
    for (age, user_is_asked) in [(59, false), (60, true), (600, true), (4_000, true)] {
        let mut world = logged_in();
        world.wait(age);
        let login = (0, usize::from(user_is_asked));
        assert_eq!(refusals(&mut world), [(1, 0), login, (0, 0), (0, 0)], "{age}");
    }
}

/// Runs flows of refused tokens, a second apart. Returns the refreshes and the logins of each.
fn refusals(world: &mut World) -> [(usize, usize); 4] {
    core::array::from_fn(|_| {
        let outcome = world.unauthorized(&config());
        world.wait(1);
        let grants = (world.grants("refresh_token").len(), world.grants("authorization_code").len());
        // It is renewed, or the user is asked or told.
        match outcome {
            Outcome::Failed(error) => assert_eq!((error.rule(), grants), ("AUTH-057", (0, 0))),
            outcome => assert!(grants != (0, 0), "{outcome:?}"),
        }
        grants
    })
}

/// No server had refused the token before it.
// covers: AUTH-057
#[test]
fn a_token_that_was_renewed_because_it_was_due_is_renewed_once_more_before_a_user_is_asked() {
    let mut world = logged_in();
    world.wait(4_000);
    let due = world.stored_token().expect("a token");
    world.run(&config(), Trigger::Due(due)).token();
    world.wait(1);
    assert_eq!(refusals(&mut world), [(1, 0), (0, 0), (0, 0), (0, 0)]);
}

// covers: AUTH-057
#[test]
fn a_new_token_that_is_refused_is_renewed_once_where_no_user_is_needed() {
    use mcp_oauth::{ClientAuth, ClientCredentials, GrantType};
    let mut world = World::new();
    world.issuer().add_client("machine", "client_secret_basic", "machine-s3cret");
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    world.issuer().issues_refresh = false;
    let client = ClientCredentials::new("machine", ClientAuth::Secret("machine-s3cret".into()));
    let machine = config().grant(GrantType::ClientCredentials).credentials(client).interactive(false);
    let first = world.unauthorized(&machine).token();
    world.wait(1);
    assert_ne!(world.unauthorized(&machine).token().token, first.token);
    for _ in 0..3 {
        world.wait(1);
        let error = world.unauthorized(&machine).error();
        assert_eq!((error.kind(), error.rule()), (&ErrorKind::TokenRefused { is_bound: false }, "AUTH-057"));
        assert!(world.grants("client_credentials").is_empty());
    }
    // In use for a while, it may be renewed again.
    world.wait(600);
    world.unauthorized(&machine).token();
    // A user who has just logged in, without a refresh token, is not asked again.
    let mut world = World::new();
    world.issuer().issues_refresh = false;
    world.unauthorized(&config()).token();
    assert_eq!(world.unauthorized(&config()).error().kind(), &ErrorKind::TokenRefused { is_bound: false });
    assert!(world.grants("authorization_code").is_empty());
}

#[test]
fn a_clock_that_was_set_back_does_not_lock_the_user_out() {
    let mut world = logged_in();
    // The stored tokens are of a day that has not come.
    let key = world.store.keys().find(|key| key.starts_with("token")).expect("tokens").clone();
    let mut record: serde_json::Value = serde_json::from_str(&world.store[&key]).expect("JSON");
    record["issued_at"] = json!(world.unix_secs() + 86_400);
    record["renew_at"] = json!(world.unix_secs() + 90_000);
    world.store.insert(key, record.to_string());
    world.unauthorized(&config()).token();
    assert_eq!(world.grants("refresh_token").len(), 1);
}

#[test]
fn damaged_records_are_named_and_not_overwritten() {
    for damage in ["", "{", "{}", "[]", "{\"version\":9}", "\u{0}"] {
        for trigger in [
            Trigger::Connect,
            Trigger::LogOut,
            Trigger::LogIn { challenges: Vec::new() },
            Trigger::Unauthorized { challenges: Vec::new(), rejected: None },
        ] {
            let mut world = logged_in();
            for value in world.store.values_mut() {
                *value = damage.into();
            }
            let store = world.store.clone();
            let error = world.run(&config(), trigger).error();
            assert_eq!(error.step(), Step::Store);
            assert!(matches!(error.kind(), ErrorKind::Local(_)));
            assert_eq!(world.store, store, "{damage}");
        }
    }
}

// covers: AUTH-061, SEC-011
#[test]
fn a_stored_endpoint_that_is_not_acceptable_is_not_used() {
    for endpoint in ["http://as.test/token", "https://127.0.0.1/token", "file:///x", ""] {
        let mut world = logged_in();
        let key = world.store.keys().find(|key| key.starts_with("token")).expect("tokens").clone();
        let mut record: serde_json::Value = serde_json::from_str(&world.store[&key]).expect("JSON");
        record["token_endpoint"] = json!(endpoint);
        world.store.insert(key, record.to_string());
        world.wait(4_000);
        assert!(!matches!(world.run(&config(), Trigger::Connect), Outcome::Authorized(_)));
        assert!(world.requests.is_empty(), "{endpoint}");
    }
}

#[test]
fn a_token_of_the_application_that_is_refused_leads_to_discovery() {
    let mut world = World::new();
    let rejected = Some(Secret::from("a token of the application"));
    world.run(&config(), Trigger::Unauthorized { challenges: Vec::new(), rejected }).token();
    assert_eq!(world.grants("authorization_code").len(), 1);
}

#[test]
fn a_client_that_may_not_refresh_gets_another_authorization() {
    // A token that is due is renewed before discovery, another one after it.
    for age in [4_000, 100] {
        let mut world = logged_in();
        world.wait(age);
        world.alter = Box::new(|request, reply| {
            if request.grant() == "refresh_token" {
                *reply = Reply::error("unauthorized_client");
            }
        });
        world.unauthorized(&config()).token();
        assert_eq!(world.grants("refresh_token").len(), 1);
        assert_eq!(world.grants("authorization_code").len(), 1);
        // What was discovered is still valid, and the registration, too.
        let mut places: Vec<_> =
            world.requests.iter().map(|request| (request.method, request.place())).collect();
        let all = places.len();
        places.sort_unstable();
        places.dedup();
        // The token endpoint was asked twice.
        assert_eq!(places.len(), all - 1, "{:?}", world.urls());
    }
}

#[test]
fn a_login_that_is_no_step_up_is_stored_nowhere() {
    let mut world = World::new();
    world.issuer().issues_refresh = false;
    world.unauthorized(&config()).token();
    world.wait(4_000);
    let store = world.store.clone();
    assert!(world.challenged(&config().interactive(false), &[("scope", "x")]).error().is_login_required());
    assert_eq!(world.store, store);
}

#[test]
fn tokens_of_a_metadata_document_are_those_of_its_client() {
    let with = |url: &str| config().client_metadata_url(url).expect("a URL");
    let own = with("https://client.test/metadata.json");
    for (other, is_refreshed) in [(own.clone(), true), (with("https://client.test/other.json"), false)] {
        let mut world = World::new();
        world.issuer().metadata["client_id_metadata_document_supported"] = json!(true);
        world.unauthorized(&own).token();
        world.wait(4_000);
        let outcome = world.run(&other, Trigger::Connect);
        assert_eq!(matches!(outcome, Outcome::Authorized(_)), is_refreshed, "{outcome:?}");
        assert_eq!(world.grants("refresh_token").len(), usize::from(is_refreshed));
    }
}
