//! Several clients of a gateway: messages and questions of an upstream that name no call.

use mcp_proto::model::LoggingLevel;
use mcp_proto::{ChannelId, Version};
use serde_json::{Value, json};

use super::gateway::tools;
use super::gateway_harness::GatewayHarness;
use super::harness::{call_of_other, handshake_of_other};
use super::several_clients::GATHERED;
use crate::relayed_call::CANCEL_GRACE_PERIOD;
use crate::{ClientCount, Decision, Gateway};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;
/// Its questions and log messages name no call.
const TIDE: [(&str, Version); 1] = [("tide", LEGACY)];

/// A client on a channel of its own.
struct OtherClient {
    channel: ChannelId,
    version: Version,
}

impl OtherClient {
    fn connect(chain: &mut GatewayHarness, version: Version) -> Self {
        let now = chain.now;
        let other = Self { channel: chain.downstream.engine().open_channel(now), version };
        handshake_of_other(version).iter().for_each(|message| other.send(chain, message));
        other
    }

    fn send(&self, chain: &mut GatewayHarness, message: &Value) {
        let now = chain.now;
        chain.downstream.engine().handle_message(now, self.channel, message.to_string().into());
        chain.settle();
    }

    fn call_tool(&self, chain: &mut GatewayHarness, name: &str) {
        self.send(chain, &call_of_other(self.version, name));
    }

    /// Returns whether a log message and a question reached the client since the last time.
    fn take_received(&self, chain: &mut GatewayHarness) -> (bool, bool) {
        let outbox = chain.downstream.engine().outbox(self.channel).expect("a channel");
        let received = String::from_utf8_lossy(outbox.transmit()).into_owned();
        outbox.consume(received.len());
        (received.contains("of whom"), received.contains("roots/list"))
    }
}

/// Lets the upstream log something and ask for roots.
fn log_and_ask(chain: &mut GatewayHarness, id: &str) {
    let (now, channel) = (chain.now, chain.sides[0].server.channel());
    let engine = chain.sides[0].server.engine();
    #[expect(deprecated, reason = "tested until its removal")]
    let sent = engine.log_session(now, channel, &LoggingLevel::Error, None, "of whom");
    sent.expect("it logs");
    chain.with_gateway_of(|_, engines| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}).to_string();
        let engine = engines.upstreams.engine(0).expect("an upstream").engine;
        let channel = engine.open_channel(now);
        engine.handle_message(now, channel, message.into());
    });
    chain.settle();
    chain.wait(GATHERED);
}

#[test]
fn what_belongs_to_a_list_reaches_no_other_client() {
    for down in [LEGACY, MODERN] {
        for is_cancelled in [false, true] {
            let gateway = Gateway::new(ClientCount::Streams);
            let mut chain = GatewayHarness::with_gateway(down, &TIDE, gateway);
            let other = OtherClient::connect(&mut chain, down);
            let list = chain.call("tools/list", &json!({}));
            let asked = chain.take_call(0);
            other.call_tool(&mut chain, "tide_book");
            other.take_received(&mut chain);
            log_and_ask(&mut chain, "during");
            assert_eq!(other.take_received(&mut chain), (false, false), "{down}");
            if is_cancelled {
                let now = chain.now;
                chain.client.engine().cancel(now, list, None).expect("it is open");
                chain.settle();
                log_and_ask(&mut chain, "soon after");
                assert_eq!(other.take_received(&mut chain), (false, false), "{down}: it may still run");
                chain.wait(CANCEL_GRACE_PERIOD);
            } else {
                chain.complete(0, &asked, &tools(&["book"]));
            }
            log_and_ask(&mut chain, "after");
            assert_eq!(other.take_received(&mut chain), (true, true), "{down}: only its call runs");
        }
    }
}

#[test]
fn with_a_policy_what_names_no_call_reaches_none_of_several_clients() {
    for down in [LEGACY, MODERN] {
        for (clients, reaches) in
            [(ClientCount::Streams, false), (ClientCount::Many, false), (ClientCount::One, true)]
        {
            let gateway = Gateway::new(clients).policy(|_| Decision::Allow);
            let mut chain = GatewayHarness::with_gateway(down, &TIDE, gateway);
            let other = OtherClient::connect(&mut chain, down);
            other.call_tool(&mut chain, "tide_book");
            other.take_received(&mut chain);
            log_and_ask(&mut chain, "during");
            assert_eq!(other.take_received(&mut chain), (reaches, reaches), "{down} {clients:?}");
        }
    }
}
