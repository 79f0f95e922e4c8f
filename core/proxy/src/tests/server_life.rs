//! Servers that end, because nobody uses them or by themselves, and the servers after them.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallOptions, Change, Era, Version};
use serde_json::json;

use super::harness::{ALL_CAPABILITIES, BridgeHarness, IDLE_TIMEOUT, REVISION_PAIRS};
use crate::ClientCount;

/// Returns what the client learnt to have changed since the last time.
fn changes(chain: &mut BridgeHarness) -> Vec<Change> {
    let events = chain.take_client_events().into_iter();
    let changes = events.filter_map(|event| match event {
        Event::Changed { change, .. } => Some(change),
        _ => None,
    });
    changes.collect()
}

/// Lets the client follow a resource.
fn follow(chain: &mut BridgeHarness, uri: &str) {
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = Some(vec![uri.to_owned()]);
    let now = chain.now;
    chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
    chain.settle();
}

#[test]
fn unused_server_ends_and_the_next_call_starts_another() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        chain.wait(IDLE_TIMEOUT - Duration::from_secs(1));
        let first = chain.call_unknown_tool();
        let call = chain.take_server_call();
        // A running call is use, however long it takes, and the time runs anew after it.
        chain.wait(Duration::from_secs(50));
        chain.complete(&call, &json!({"content": []}));
        chain.result(first);
        chain.wait(IDLE_TIMEOUT - Duration::from_secs(1));
        assert!(chain.relay.is_server_running(), "{down} {up}");
        chain.wait(Duration::from_secs(2));
        assert!(!chain.relay.is_server_running(), "{down} {up}");
        assert!(chain.starts.is_empty(), "nobody needs it");

        let options = CallOptions::new().with_progress();
        let key = chain.call_with("tools/call", &json!({"name": "book"}), &options);
        assert!(!chain.has_server_call() && !chain.has_ended(key), "it waits");
        chain.start_server(up);
        let call = chain.take_server_call();
        assert!(call.wants_progress());
        chain.complete(&call, &json!({"content": []}));
        assert_eq!(chain.result(key), json!({"content": []}), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn followed_resource_keeps_the_server() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        follow(&mut chain, "tide://now");
        chain.wait(IDLE_TIMEOUT * 2);
        assert!(chain.relay.is_server_running(), "{down} {up}");
        changes(&mut chain);
        chain.publish(&Change::Resource("tide://now".into()));
        assert_eq!(changes(&mut chain), [Change::Resource("tide://now".into())], "{down} {up}");
    }
}

#[test]
fn calls_of_a_dead_server_fail_and_later_ones_wait_for_the_next() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        let lost = chain.call_unknown_tool();
        chain.kill_server();
        let error = chain.error(lost);
        assert!(error.message.contains("the server behind the bridge is gone"), "{error}");
        assert!(!chain.relay.is_server_running() && chain.starts.is_empty(), "not at once");
        let waiting = chain.call_unknown_tool();
        let cancelled = chain.call_unknown_tool();
        let now = chain.now;
        chain.client.engine().cancel(now, cancelled, None).expect("open");
        chain.wait(Duration::from_secs(1));
        assert!(!chain.has_ended(waiting));
        chain.start_server(up);
        let call = chain.take_server_call();
        chain.complete(&call, &json!({"content": []}));
        chain.result(waiting);
        assert!(!chain.has_server_call(), "the cancelled call is not sent");
        assert_eq!(chain.relay.pending_calls(), 0);
    }
}

#[test]
fn server_that_dies_at_once_is_started_more_and_more_seldom() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2026_07_28);
    chain.kill_server();
    let (mut last, mut delays) = (chain.now, Vec::new());
    while delays.len() < 12 {
        chain.wait(Duration::from_millis(50));
        if let Some(start) = chain.starts.pop() {
            delays.push(start.saturating_duration_since(last).as_secs_f64());
            last = start;
            chain.with_relay(|relay, engines| relay.handle_start_failure(engines, "no such program"));
        }
    }
    assert_eq!(delays, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]);
    // A call does not wait for so long.
    let key = chain.call_unknown_tool();
    let error = chain.error(key);
    assert!(
        error.message.contains("cannot be started: no such program; it is started again in 60 s"),
        "{error}"
    );
    // One that works for a minute is forgiven.
    chain.wait(Duration::from_secs(60));
    chain.start_server(Version::V2026_07_28);
    chain.wait(Duration::from_secs(61));
    chain.kill_server();
    let due = chain.relay.poll_timeout().expect("a start is due");
    assert!(due.saturating_duration_since(chain.now) < Duration::from_secs(1));
}

/// Returns a bridge whose modern clients have no connection while they do nothing.
fn bridge_for_many(up: Version) -> BridgeHarness {
    let all = &ALL_CAPABILITIES;
    BridgeHarness::with_capabilities(Version::V2026_07_28, up, all, all, ClientCount::Many)
}

/// One that ends by itself, for want of work, is not started for nobody.
#[test]
fn dead_server_without_clients_is_not_started_before_the_next_call() {
    for up in [Version::V2025_11_25, Version::V2026_07_28] {
        let down = Version::V2026_07_28;
        let mut chain = bridge_for_many(up);
        for _ in 0..3 {
            chain.kill_server();
            chain.wait(IDLE_TIMEOUT);
            assert!(chain.starts.is_empty(), "{down} {up}: nobody needs it");
            let key = chain.call_unknown_tool();
            chain.start_server(up);
            let call = chain.take_server_call();
            chain.complete(&call, &json!({"content": []}));
            chain.result(key);
        }
        // A call just after the end waits as long as before.
        chain.kill_server();
        let key = chain.call_unknown_tool();
        assert!(chain.starts.is_empty() && !chain.has_ended(key), "{down} {up}: not at once");
        chain.wait(Duration::from_secs(5));
        chain.start_server(up);
        let call = chain.take_server_call();
        chain.complete(&call, &json!({"content": []}));
        chain.result(key);
    }
}

#[test]
fn next_server_is_not_started_beside_the_last_one() {
    let mut chain = BridgeHarness::new(Version::V2025_11_25, Version::V2025_11_25);
    follow(&mut chain, "tide://now");
    chain.keeps_ended_server = true;
    chain.kill_server();
    chain.wait(IDLE_TIMEOUT);
    assert!(chain.starts.is_empty());
    // Nor does the driver wait for it in vain.
    assert!(chain.relay.poll_timeout().is_none());
    chain.keeps_ended_server = false;
    chain.settle();
    assert_eq!(chain.starts.len(), 1);
}

/// A call that is told to come back later is no reason to try meanwhile.
#[test]
fn refused_call_starts_no_server() {
    let mut chain = bridge_for_many(Version::V2025_11_25);
    for _ in 0..8 {
        chain.with_relay(|relay, engines| relay.handle_start_failure(engines, "no such program"));
    }
    let key = chain.call_unknown_tool();
    let error = chain.error(key);
    assert!(error.message.contains("it is started again in 32 s"), "{error}");
    chain.wait(Duration::from_secs(40));
    assert!(chain.starts.is_empty());
    let key = chain.call_unknown_tool();
    assert_eq!(chain.starts.len(), 1);
    assert!(!chain.has_ended(key), "it waits for the start");
}

#[test]
fn calls_that_wait_for_a_start_fail_with_it() {
    let mut chain = BridgeHarness::new(Version::V2026_07_28, Version::V2025_11_25);
    chain.wait(IDLE_TIMEOUT);
    let key = chain.call_unknown_tool();
    assert_eq!(chain.starts.len(), 1);
    chain.with_relay(|relay, engines| relay.handle_start_failure(engines, "no such program"));
    chain.settle();
    let error = chain.error(key);
    assert!(
        error.message.contains("the server behind the bridge cannot be started: no such program"),
        "{error}"
    );
}

/// The client may keep what it knows of the first server. It learns that all of it may have changed.
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn clients_learn_of_a_new_server() {
    for (down, up) in REVISION_PAIRS {
        let mut chain = BridgeHarness::new(down, up);
        if down.era() == Era::Legacy {
            let now = chain.now;
            chain.client.engine().set_log_level(now, Some(LoggingLevel::Warning)).expect("it has a log");
        } else {
            let mut filter = SubscriptionFilter::new();
            filter.tools_list_changed = Some(true);
            let now = chain.now;
            chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
        }
        follow(&mut chain, "tide://now");
        changes(&mut chain);
        chain.kill_server();
        let events = chain.take_client_events();
        let told = events.iter().any(|event| {
            matches!(event, Event::Log(log) if log.level == LoggingLevel::Warning && log.data.to_string().contains("started again"))
        });
        assert_eq!(told, down.era() == Era::Legacy, "{down} {up}: {events:?}");
        chain.wait(Duration::from_secs(1));
        chain.start_server(up);
        let found = changes(&mut chain);
        for change in [Change::Tools, Change::Resource("tide://now".into())] {
            assert!(found.contains(&change), "{down} {up}: {found:?}");
        }
        // The next server knows what is followed.
        chain.publish(&Change::Resource("tide://now".into()));
        assert_eq!(changes(&mut chain), [Change::Resource("tide://now".into())], "{down} {up}");
    }
}
