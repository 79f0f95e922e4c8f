//! One operation beside `n` others of its kind: nothing may be walked per operation.
//!
//! Each scenario is built with `n` others and keeps that number while it runs, so that the slope between two run lengths
//! is the cost of one operation. Operations visit the others in a scattered order, because an operation on the first or
//! the last of them may be cheaper than one in the middle.

mod calls;
mod client;
mod client_calls;
mod client_subscriptions;
mod engine;
mod http_client;
mod http_server;
mod pool;
mod resumption;
mod router;
mod subscriptions;

use core::hint::black_box;
use core::time::Duration;

use mcp_proto::Limits;
use mcp_proto::client::KnownEra;

use super::Scenario;

/// Returns the scenario of an HTTP client with one connection, whose requests bring this token.
pub(super) fn http_client_call(token: Option<&str>) -> Box<dyn Scenario> {
    Box::new(pool::client_call(token))
}

/// Returns the scenario `growth-OPERATION-N`, without its first part: OPERATION with N others.
pub(super) fn by_name(name: &str) -> Option<Box<dyn Scenario>> {
    let (operation, n) = name.rsplit_once('-')?;
    let n = n.parse().ok().filter(|n| *n > 0)?;
    Some(match operation {
        "call-up" => Box::new(calls::CallBeside::new(calls::IdOrder::Up, n)),
        "call-down" => Box::new(calls::CallBeside::new(calls::IdOrder::Down, n)),
        "call-random" => Box::new(calls::CallBeside::new(calls::IdOrder::Random, n)),
        "call-text" => Box::new(calls::CallBeside::new(calls::IdOrder::Text, n)),
        "call-apart" => Box::new(calls::CallOfSession::new(n)),
        "cancel" => Box::new(calls::CancelCall::new(n)),
        "expire" => Box::new(calls::ExpireCall::new(n)),
        "session" => Box::new(calls::OpenSession::new(n)),
        "waiting" => Box::new(calls::WaitingCall::new(n, false)),
        "waiting-apart" => Box::new(calls::WaitingCall::new(n, true)),
        "waiting-cancel" => Box::new(calls::CancelWaiting::new(n)),
        "round" => Box::new(calls::LegacyRound::new(n, false)),
        "round-apart" => Box::new(calls::LegacyRound::new(n, true)),
        "listen" => Box::new(subscriptions::Listen::new(n, true)),
        "listen-together" => Box::new(subscriptions::Listen::new(n, false)),
        "subscribe" => Box::new(subscriptions::SubscribeResource::new(n, false)),
        "subscribe-apart" => Box::new(subscriptions::SubscribeResource::new(n, true)),
        "publish" => Box::new(subscriptions::PublishOne::new(n)),
        "client-call" => Box::new(client_calls::PendingCalls::new(n)),
        "client-cancel" => Box::new(client_calls::CancelPending::new(n)),
        "client-expire" => Box::new(client_calls::ExpirePending::new(n)),
        "client-queued" => Box::new(client_calls::QueuedCalls::new(n)),
        "client-input" => Box::new(client_calls::PendingInputs::new(n)),
        "client-url" => Box::new(client_calls::PendingPages::new(n)),
        "client-round" => Box::new(client_calls::PendingRounds::new(n)),
        "outbox" => Box::new(client_calls::QueuedMessages::new(n)),
        "client-subscribe" => Box::new(client_subscriptions::Subscribe::new(KnownEra::Modern, n)),
        "client-subscribe-legacy" => Box::new(client_subscriptions::Subscribe::new(KnownEra::Legacy, n)),
        "client-change" => Box::new(client_subscriptions::ReceiveChange::new(KnownEra::Modern, n)),
        "client-change-legacy" => Box::new(client_subscriptions::ReceiveChange::new(KnownEra::Legacy, n)),
        "http-client-call" => Box::new(http_client::OpenExchanges::new(http_client::Operation::Call, n)),
        "http-client-message" => {
            Box::new(http_client::OpenExchanges::new(http_client::Operation::Message, n))
        }
        "http-client-cancel" => Box::new(http_client::OpenExchanges::new(http_client::Operation::Cancel, n)),
        "http-client-stream" => Box::new(http_client::OpenStreams::new(false, n)),
        "http-client-event" => Box::new(http_client::OpenStreams::new(true, n)),
        "pool" => Box::new(pool::BusyConnections::new(n)),
        "http-sessions" => Box::new(http_server::CallOverHttp::new(http_server::Others::Sessions, n)),
        "http-exchanges" => Box::new(http_server::CallOverHttp::new(http_server::Others::Exchanges, n)),
        "http-together" => Box::new(http_server::CallOverHttp::new(http_server::Others::SessionCalls, n)),
        "http-streams" => Box::new(http_server::CallOverHttp::new(http_server::Others::GetStreams, n)),
        "http-session" => Box::new(http_server::SessionOverHttp::new(n)),
        "http-expiry" => Box::new(http_server::ExpiryCheck::new(n)),
        "http-store" => Box::new(http_server::StoreSession::new(n)),
        "http-gone" => Box::new(http_server::DisconnectCall::new(n)),
        "http-listen" => Box::new(http_server::ListenOverHttp::new(n)),
        "resume-get" => Box::new(resumption::ResumeAll::new(false, n)),
        "resume-call" => Box::new(resumption::ResumeAll::new(true, n)),
        "router-call" => Box::new(router::CallOfMany::new(n)),
        "router-page" => Box::new(router::PageOfMany::new(n)),
        "router-change" => Box::new(router::ReplaceTool::new(n)),
        _ => return None,
    })
}

/// Operations before the first measured one, for the steady state of buffers.
const WARM_UP: usize = 20;

/// Runs a scenario until its buffers have their size.
fn warmed_up<S: Scenario>(mut scenario: S) -> S {
    (0..WARM_UP).for_each(|_| scenario.run_once());
    settle_allocator();
    scenario
}

/// Lets the allocator sort the blocks that the set-up has freed, which it does at the next large request.
fn settle_allocator() {
    // Smaller than what the system allocators map separately, larger than what they serve from lists of small blocks.
    drop(black_box(Vec::<u8>::with_capacity(100 << 10)));
}

/// Visits the numbers below `len` in a scattered order.
///
/// The stride is prime and larger than any `len`, so it visits each number once in `len` steps.
#[derive(Debug)]
struct Scattered {
    len: usize,
    at: usize,
}

impl Scattered {
    const STRIDE: usize = 1_000_003;

    const fn new(len: usize) -> Self {
        Self { len, at: 0 }
    }

    const fn advance(&mut self) -> usize {
        self.at = (self.at + Self::STRIDE) % self.len;
        self.at
    }
}

/// Returns limits that leave room for `n` of everything.
fn limits(n: usize) -> Limits {
    let (room, bytes) = (n + 1_000, 1 << 40);
    let mut limits = Limits::default();
    limits.max_live_calls = u32::try_from(room).expect("a number of calls");
    limits.max_pending_calls = limits.max_live_calls;
    limits.max_waiting_requests = room;
    limits.max_waiting_bytes = bytes;
    limits.max_events = room;
    limits.max_queued_bytes = bytes;
    limits.max_retained_bytes = bytes;
    limits.outbox_high_water = bytes;
    limits.max_subscriptions = room;
    limits.max_subscribed_resources = room;
    limits.max_inputs = room;
    // No deadline of a call or a buffer passes during a measurement, unless the scenario is about deadlines.
    limits.call_timeout = Duration::from_secs(3_600);
    limits.call_total_timeout = Duration::from_secs(3_600);
    limits.idle_trim_delay = Duration::from_secs(3_600);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations that `benches/measure` measures.
    fn operations() -> impl Iterator<Item = &'static str> {
        let script = include_str!("../../../growth.py");
        script.lines().filter_map(|line| line.strip_prefix("        (\"")?.split('"').next())
    }

    #[test]
    fn every_operation_of_the_script_runs_beside_others() {
        assert!(operations().count() > 40);
        for operation in operations() {
            for n in [1, 7] {
                let name = format!("{operation}-{n}");
                let mut scenario = by_name(&name).unwrap_or_else(|| panic!("no scenario {name}"));
                (0..3).for_each(|_| scenario.run_once());
            }
        }
        assert!(by_name("call-up-0").is_none() && by_name("nothing-1").is_none());
    }
}
