//! Endpoints of a role for tests; a heap without memory is a reserve that no allocator has.

use super::*;
use crate::calls::inbound::tests::call;
use crate::calls::outbound::{CallOptions, CallPurpose};
use crate::rpc::recover::RecoveredMessage;

/// A role that counts the requests of its channel.
#[derive(Debug, Default)]
pub(in crate::calls) struct Counting {
    pub(in crate::calls) is_unreachable: bool,
    pub(in crate::calls) open_requests: i32,
}

impl Role for Counting {
    type Shared = ();

    fn is_reachable(&self) -> bool {
        !self.is_unreachable
    }

    fn request_started(&mut self) {
        self.open_requests += 1;
    }

    fn request_finished(&mut self, (): &mut ()) {
        self.open_requests -= 1;
    }
}

/// Returns an endpoint with an open channel.
pub(in crate::calls) fn endpoint(limits: Limits) -> (Endpoint<Counting>, Key) {
    let mut settings = Settings::new("x", "1");
    settings.limits = Arc::new(limits);
    with_channel(&settings)
}

pub(in crate::calls) fn with_channel(settings: &Settings) -> (Endpoint<Counting>, Key) {
    let mut endpoint = Endpoint::new(settings);
    let channel = endpoint.open_channel(IdlessErrors::Unsent, Counting::default());
    (endpoint, channel)
}

pub(in crate::calls) fn outbox(endpoint: &mut Endpoint<Counting>, channel: Key) -> &mut Outbox {
    &mut endpoint.channels.get_mut(channel).expect("a channel").outbox
}

/// Appends a message of `length` bytes, the newline included.
pub(in crate::calls) fn queue(endpoint: &mut Endpoint<Counting>, channel: Key, length: usize) {
    let outbox = outbox(endpoint, channel);
    let mark = outbox.mark();
    outbox.tail().extend(core::iter::repeat_n(b'x', length - 1).chain([b'\n']));
    outbox.commit(mark);
}

/// Takes the only message of a channel.
pub(in crate::calls) fn sent(endpoint: &mut Endpoint<Counting>, channel: Key) -> String {
    let outbox = outbox(endpoint, channel);
    let message = outbox.pop_message().expect("a message");
    assert!(outbox.is_empty());
    String::from_utf8(message.to_vec()).expect("text")
}

/// Takes the memory of an endpoint away, or gives it back.
pub(in crate::calls) fn set_memory(endpoint: &mut Endpoint<Counting>, is_there: bool) {
    let memory_reserve = if is_there { 1 } else { usize::MAX };
    endpoint.limits = Arc::new(Limits { memory_reserve, ..Limits::clone(&endpoint.limits) });
}

pub(in crate::calls) fn seconds(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

fn outbound(endpoint: &Endpoint<Counting>, channel: Key, purpose: CallPurpose) -> OutboundCall {
    OutboundCall::new(endpoint.now, channel, purpose, &CallOptions::new(), &endpoint.limits)
}

#[test]
fn room_for_a_message_is_always_there_unless_the_heap_is_bounded_and_full() {
    let (mut endpoint, channel) = endpoint(Limits::default());
    assert!(endpoint.make_room(channel, 1 << 20));
    assert_eq!(outbox(&mut endpoint, channel).capacity(), 0, "nothing is reserved");
    assert!(can_answer(&mut endpoint, channel));
    queue(&mut endpoint, channel, 100);
    set_memory(&mut endpoint, false);
    assert!(!endpoint.make_room(channel, 1 << 20) && !can_answer(&mut endpoint, channel));
    assert_eq!(endpoint.check_outbox_room(channel, 1 << 20), Err(UseError::Full(Limit::Memory)));
    assert!(!endpoint.send(channel, 1 << 20, |_| unreachable!()));
    set_memory(&mut endpoint, true);
    assert!(endpoint.make_room(channel, 1 << 20) && can_answer(&mut endpoint, channel));
}

#[test]
fn text_is_appended_without_a_copy_and_dropped_by_a_closed_channel() {
    let (mut endpoint, channel) = endpoint(Limits::default());
    let mut text = b"whole\n".to_vec();
    assert!(send_text(&mut endpoint, channel, &mut text) && text.is_empty());
    assert_eq!(sent(&mut endpoint, channel), "whole");
    endpoint.channels.get_mut(channel).expect("a channel").closed = true;
    assert!(send_text(&mut endpoint, channel, &mut b"late\n".to_vec()), "no memory is lacking");
    assert!(outbox(&mut endpoint, channel).is_empty());
}

#[test]
fn idle_endpoint_trims_once_after_its_last_message() {
    let delay = Duration::from_secs(10);
    let (mut endpoint, _) = endpoint(Limits { idle_trim_delay: delay, ..Limits::default() });
    assert!(endpoint.is_idle(), "nothing was received");
    endpoint.record_activity();
    assert!(!endpoint.is_idle());
    endpoint.tick(seconds(4));
    endpoint.record_activity();
    let key = endpoint.begin_call(call(RequestId::int(1))).expect("a new id");
    assert!(endpoint.drop_call(key).is_some());
    endpoint.deadlines.arm(seconds(99), EndpointTimer::CallAge(Key { slot: 7, generation: 7 }));
    for (now, due, trims) in [(9, false, false), (10, true, false), (13, false, false), (14, true, true)] {
        endpoint.tick(seconds(now));
        assert_eq!(endpoint.pop_due(), due.then_some(EndpointTimer::Trim), "{now}");
        assert_eq!(due && endpoint.trim(), trims, "{now}");
        assert_eq!(endpoint.is_idle(), trims, "{now}");
    }
    assert_eq!((endpoint.poll_timeout(), endpoint.deadlines.len()), (None, 0));
    assert_eq!(endpoint.inbound.calls.capacity(), 0);
}

/// Deadlines of what has ended are at most as many as twice the calls and channels, and 32.
#[test]
fn deadlines_of_ended_calls_are_dropped_when_they_outnumber_the_live_ones() {
    let mut settings = Settings::new("x", "1");
    settings.keep_alive = Some(KeepAlivePing::new(Duration::from_secs(1), 0));
    let (mut endpoint, channel) = with_channel(&settings);
    for n in 0..10 {
        endpoint.begin_call(call(RequestId::int(n))).expect("a new id");
        let call = outbound(&endpoint, channel, CallPurpose::Internal);
        endpoint.outbound.calls.insert(call);
        endpoint.open_channel(IdlessErrors::Unsent, Counting::default());
    }
    let (mut longest, live) = (0, 10 + 10 + 11);
    for n in 0..1_000 {
        endpoint.deadlines.arm(seconds(n), EndpointTimer::CallAge(Key { slot: 99, generation: 0 }));
        endpoint.sweep();
        longest = longest.max(endpoint.deadlines.len());
    }
    assert_eq!(longest, 2 * live + 32);
}

#[test]
fn deadlines_of_a_closed_channel_and_pings_after_the_end_of_input_lapse() {
    let mut settings = Settings::new("x", "1");
    settings.keep_alive = Some(KeepAlivePing::new(Duration::from_secs(10), 0));
    for (ends, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut endpoint, channel) = with_channel(&settings);
        endpoint.begin_keep_alive(channel);
        if ends {
            assert!(endpoint.end_input(channel, Fault::Closed, Duration::from_secs(20)));
            assert!(!endpoint.end_input(channel, Fault::Closed, Duration::from_secs(30)), "it has ended");
        }
        endpoint.channels.get_mut(channel).expect("a channel").closed = closes;
        endpoint.tick(seconds(40));
        let due: Vec<_> = core::iter::from_fn(|| endpoint.pop_due()).collect();
        let expected = match (ends, closes) {
            (_, true) => Vec::new(),
            (false, _) => alloc::vec![EndpointTimer::KeepAlive(channel)],
            (true, _) => alloc::vec![EndpointTimer::Grace(channel)],
        };
        assert_eq!(due, expected, "{ends} {closes}");
    }
}

#[test]
fn rejected_long_line_is_a_response_only_without_a_method() {
    let (endpoint, _) = endpoint(Limits::default());
    for (has_method, is_response) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut recovered = RecoveredMessage::default();
        (recovered.has_method, recovered.is_response) = (has_method, is_response);
        let rejected =
            endpoint.oversize_rejection(Oversize { length: 1, is_out_of_memory: false, recovered });
        assert_eq!(rejected.is_response, is_response && !has_method, "{has_method} {is_response}");
    }
}

#[test]
fn any_custom_method_is_accepted_but_none_of_the_protocol() {
    let mut settings = Settings::new("x", "1");
    assert!(!settings.accepts_as_custom_method("x/y"));
    settings.accepts_any_custom_method = true;
    assert!(settings.accepts_as_custom_method("x/y") && !settings.accepts_as_custom_method("tools/call"));
}

#[test]
fn endpoint_has_a_tap_only_with_a_limit_for_its_records() {
    for tap_records in [0, 1] {
        let (endpoint, _) = endpoint(Limits { tap_records, ..Limits::default() });
        assert_eq!(endpoint.has_tap(), tap_records > 0);
    }
}
