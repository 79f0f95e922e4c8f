//! Several clients in front of one server: a message without a call reaches its owner, or no client.

use core::time::Duration;

use mcp_proto::model::LoggingLevel;
use mcp_proto::{ChannelId, Version, client};
use serde_json::{Value, json};

use super::harness::{ALL_CAPABILITIES, BridgeHarness, call_of_other, handshake_of_other};
use crate::ClientCount;
use crate::relayed_call::CANCEL_GRACE_PERIOD;

/// Revisions of the clients. The server is a legacy one, whose questions and log messages name no call.
const CLIENT_REVISIONS: [Version; 2] = [Version::V2025_11_25, Version::V2026_07_28];
const SERVER_REVISION: Version = Version::V2025_11_25;
/// Longer than questions are gathered.
pub(super) const GATHERED: Duration = Duration::from_millis(60);

/// A client over HTTP that never returns with an answer keeps no other client from being asked.
#[test]
fn client_that_never_answers_over_http_does_not_count() {
    let (down, all) = (Version::V2026_07_28, &ALL_CAPABILITIES);
    let mut chain = BridgeHarness::with_capabilities(down, SERVER_REVISION, all, all, ClientCount::Many);
    let other = OtherClient::connect(&mut chain, down);
    chain.call_unknown_tool();
    ask_for_roots(&mut chain);
    assert_eq!(chain.take_inputs().len(), 1, "the owner is asked");
    other.call(&mut chain);
    other.take_received(&mut chain);
    ask_for_roots_as(&mut chain, "roots again");
    assert!(has_question(&other.take_received(&mut chain)));
}

/// Returns a bridge for several clients, of which one is connected.
fn shared_bridge(down: Version) -> BridgeHarness {
    let all = &ALL_CAPABILITIES;
    BridgeHarness::with_capabilities(down, SERVER_REVISION, all, all, ClientCount::Streams)
}

/// A client on a channel of its own.
struct OtherClient {
    channel: ChannelId,
    version: Version,
}

impl OtherClient {
    fn connect(chain: &mut BridgeHarness, version: Version) -> Self {
        let mut opened = None;
        chain.with_relay(|_, engines| opened = Some(engines.downstream.open_channel(engines.now)));
        let other = Self { channel: opened.expect("a channel"), version };
        handshake_of_other(version).iter().for_each(|message| other.send(chain, message));
        other
    }

    fn send(&self, chain: &mut BridgeHarness, message: &Value) {
        let message = message.to_string();
        chain.with_relay(|_, engines| {
            engines.downstream.handle_message(engines.now, self.channel, message.into());
        });
        chain.settle();
    }

    fn call(&self, chain: &mut BridgeHarness) {
        self.send(chain, &call_of_other(self.version, "book"));
    }

    /// Returns all that was sent to the client since the last time.
    fn take_received(&self, chain: &mut BridgeHarness) -> String {
        let mut received = String::new();
        chain.with_relay(|_, engines| {
            let Some(outbox) = engines.downstream.outbox(self.channel) else { return };
            received = String::from_utf8_lossy(outbox.transmit()).into_owned();
            outbox.consume(received.len());
        });
        received
    }
}

/// Asks for roots. The request does not say for which call.
fn ask_for_roots(chain: &mut BridgeHarness) {
    ask_for_roots_as(chain, "roots");
}

fn ask_for_roots_as(chain: &mut BridgeHarness, id: &str) {
    chain.sent_to_server.clear();
    chain.with_relay(|_, engines| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}).to_string();
        let channel = engines.upstream.open_channel(engines.upstream_now);
        engines.upstream.handle_message(engines.upstream_now, channel, message.into());
    });
    chain.settle();
    chain.wait(GATHERED);
}

/// Returns whether the server got this error for its question.
fn is_refused(chain: &BridgeHarness, why: &str) -> bool {
    let sent = String::from_utf8_lossy(&chain.sent_to_server);
    sent.lines()
        .any(|line| line.contains(r#""id":"roots"#) && line.contains(r#""error""#) && line.contains(why))
}

fn log_without_call(chain: &mut BridgeHarness) {
    let (now, channel) = (chain.now, chain.server.channel());
    let level = LoggingLevel::Error;
    #[expect(deprecated, reason = "tested until its removal")]
    let sent = chain.server.engine().log_session(now, channel, &level, None, "of whom");
    sent.expect("it logs");
    chain.settle();
}

fn has_question(received: &str) -> bool {
    received.contains("roots/list")
}

#[test]
fn second_question_of_a_suspended_call_reaches_no_other_client() {
    for down in CLIENT_REVISIONS {
        let mut chain = shared_bridge(down);
        let other = OtherClient::connect(&mut chain, down);
        chain.call_unknown_tool();
        ask_for_roots(&mut chain);
        assert_eq!(chain.take_inputs().len(), 1, "{down}: the owner is asked");
        other.call(&mut chain);
        other.take_received(&mut chain);
        ask_for_roots_as(&mut chain, "roots again");
        assert!(!has_question(&other.take_received(&mut chain)), "{down}");
        assert!(chain.take_inputs().is_empty(), "{down}");
        assert!(is_refused(&chain, "cannot tell which of its clients"), "{down}");
    }
}

#[test]
fn log_of_a_suspended_call_reaches_no_other_client() {
    for down in CLIENT_REVISIONS {
        let mut chain = shared_bridge(down);
        let other = OtherClient::connect(&mut chain, down);
        chain.call_unknown_tool();
        ask_for_roots(&mut chain);
        assert_eq!(chain.take_inputs().len(), 1, "{down}: the owner is asked");
        other.call(&mut chain);
        log_without_call(&mut chain);
        let received = other.take_received(&mut chain);
        assert!(!received.contains("of whom"), "{down}: {received}");
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn log_reaches_the_only_client_whose_calls_run() {
    for down in CLIENT_REVISIONS {
        let mut chain = shared_bridge(down);
        let other = OtherClient::connect(&mut chain, down);
        other.call(&mut chain);
        log_without_call(&mut chain);
        let received = other.take_received(&mut chain);
        assert!(received.contains("of whom"), "{down}: {received}");
        let is_log = |event: &client::Event| matches!(event, client::Event::Log(_));
        assert!(!chain.take_client_events().iter().any(is_log), "{down}");
    }
}

/// A server learns of a cancellation late, and need not heed it at once.
#[test]
fn cancelled_call_asks_and_logs_at_no_other_client() {
    for down in CLIENT_REVISIONS {
        let mut chain = shared_bridge(down);
        let other = OtherClient::connect(&mut chain, down);
        let cancelled = chain.call_unknown_tool();
        other.call(&mut chain);
        other.take_received(&mut chain);
        let now = chain.now;
        chain.client.engine().cancel(now, cancelled, None).expect("open");
        chain.settle();
        ask_for_roots(&mut chain);
        log_without_call(&mut chain);
        let received = other.take_received(&mut chain);
        assert!(!has_question(&received) && !received.contains("of whom"), "{down}: {received}");
        assert!(is_refused(&chain, "cannot tell which of its clients"), "{down}");
        // After a while it counts as stopped.
        chain.wait(CANCEL_GRACE_PERIOD);
        log_without_call(&mut chain);
        ask_for_roots_as(&mut chain, "roots again");
        let received = other.take_received(&mut chain);
        assert!(has_question(&received) && received.contains("of whom"), "{down}: {received}");
    }
}

/// The own calls of a client that cancels do not suffer.
#[test]
fn client_that_cancelled_a_call_is_asked_for_its_others() {
    for down in CLIENT_REVISIONS {
        let mut chain = shared_bridge(down);
        let cancelled = chain.call_unknown_tool();
        chain.call_unknown_tool();
        let now = chain.now;
        chain.client.engine().cancel(now, cancelled, None).expect("open");
        chain.settle();
        ask_for_roots(&mut chain);
        assert_eq!(chain.take_inputs().len(), 1, "{down}");
    }
}

/// The server has answered the call without waiting for the answer to its question.
#[test]
fn question_of_an_ended_call_moves_to_no_other_client() {
    let down = Version::V2025_11_25;
    let mut chain = shared_bridge(down);
    let other = OtherClient::connect(&mut chain, down);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    ask_for_roots(&mut chain);
    assert_eq!(chain.take_inputs().len(), 1, "the owner is asked");
    other.call(&mut chain);
    other.take_received(&mut chain);
    chain.complete(&call, &json!({"content": []}));
    chain.wait(GATHERED);
    assert_eq!(chain.result(key), json!({"content": []}));
    assert!(!has_question(&other.take_received(&mut chain)));
    assert!(is_refused(&chain, "the call that this was for is over"));
}

/// A message that a server sends on its own may be about the client that has used it and is gone.
#[test]
fn message_after_the_call_of_another_client_reaches_no_client() {
    let down = Version::V2025_11_25;
    let mut chain = shared_bridge(down);
    let other = OtherClient::connect(&mut chain, down);
    let key = chain.call_unknown_tool();
    let call = chain.take_server_call();
    chain.complete(&call, &json!({"content": []}));
    assert_eq!(chain.result(key), json!({"content": []}));
    chain.close_client();
    other.take_received(&mut chain);
    log_without_call(&mut chain);
    ask_for_roots(&mut chain);
    let received = other.take_received(&mut chain);
    assert!(!received.contains("of whom") && !has_question(&received), "{received}");
    assert!(is_refused(&chain, "cannot tell which of its clients"));
}

#[test]
fn answer_for_another_instance_meets_no_call() {
    let mut chain = shared_bridge(Version::V2026_07_28);
    let key = chain.call_unknown_tool();
    ask_for_roots(&mut chain);
    let input = chain.take_inputs().remove(0);
    chain.relay.calls.instance = 7;
    chain.answer_input(&input, &json!({"roots": []}));
    assert!(chain.error(key).message.starts_with("nothing waits for these answers"));
}
