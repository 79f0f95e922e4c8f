use super::*;
use crate::calls::endpoint::Settings;
use crate::calls::endpoint::tests::{Counting, outbox, queue, seconds, sent, with_channel};
use crate::limits::Limits;
use crate::sync::Arc;

const INTERVAL: Duration = Duration::from_secs(10);
const HIGH_WATER: usize = 100;

/// Returns an endpoint that pings its peer, with one miss allowed.
fn pinging(max_pending_calls: u32) -> (Endpoint<Counting>, Key) {
    let mut settings = Settings::new("x", "1");
    let limits = Limits { outbox_high_water: HIGH_WATER, max_pending_calls, ..Limits::default() };
    (settings.limits, settings.keep_alive) = (Arc::new(limits), Some(KeepAlivePing::new(INTERVAL, 1)));
    let (mut endpoint, channel) = with_channel(&settings);
    endpoint.begin_keep_alive(channel);
    (endpoint, channel)
}

/// Advances to the time of a ping and handles it.
fn handle(endpoint: &mut Endpoint<Counting>, channel: Key, now: Instant) -> PeerHealth {
    endpoint.tick(now);
    assert_eq!(endpoint.pop_due(), Some(EndpointTimer::KeepAlive(channel)));
    endpoint.handle_keep_alive(channel)
}

/// Sends the first ping, and returns its call.
fn ping(endpoint: &mut Endpoint<Counting>, channel: Key) -> Key {
    assert!(matches!(handle(endpoint, channel, seconds(10)), PeerHealth::Alive));
    assert!(sent(endpoint, channel).contains("\"method\":\"ping\""));
    let [key] = endpoint.outbound_keys(channel)[..] else { panic!("one ping") };
    key
}

fn misses(endpoint: &Endpoint<Counting>, channel: Key) -> u32 {
    endpoint.channels.get(channel).and_then(|c| c.keep_alive.as_ref()).expect("pings").misses
}

// covers: PING-004
#[test]
fn ping_is_sent_below_the_high_water_mark_alone() {
    for length in [HIGH_WATER - 1, HIGH_WATER] {
        let (mut endpoint, channel) = pinging(8);
        queue(&mut endpoint, channel, length);
        handle(&mut endpoint, channel, seconds(10));
        assert_eq!(outbox(&mut endpoint, channel).len() > length, length < HIGH_WATER);
    }
}

// covers: PING-004, PING-005
#[test]
fn peer_that_takes_no_output_is_missed_from_the_second_interval_on_if_this_side_was_there() {
    // What happens before the second interval ends, and how late its end is handled.
    for (taken, late, is_missed) in [(0, 0, true), (0, 100, true), (0, 101, false), (1, 0, false)] {
        let (mut endpoint, channel) = pinging(8);
        queue(&mut endpoint, channel, 2 * HIGH_WATER);
        assert!(matches!(handle(&mut endpoint, channel, seconds(10)), PeerHealth::Alive));
        outbox(&mut endpoint, channel).consume(taken);
        let health = handle(&mut endpoint, channel, seconds(20) + Duration::from_millis(late));
        assert_eq!(matches!(health, PeerHealth::Missed(_)), is_missed, "{taken} {late}");
        assert_eq!(misses(&endpoint, channel), u32::from(is_missed));
    }
}

#[test]
fn pings_leave_three_quarters_of_the_table_of_calls_and_no_full_one_is_extended() {
    for (calls, pings, max, is_sent) in [
        (7, 0, 8, true),
        (8, 0, 8, false),
        (0, 1, 8, true),
        (0, 2, 8, false),
        (7, 1, 8, false),
        (0, 0, 1, true),
        (0, 1, 3, false),
    ] {
        let (mut endpoint, channel) = pinging(max);
        let purposes = [(calls, CallPurpose::Application), (pings, CallPurpose::KeepAlive)];
        for purpose in purposes.into_iter().flat_map(|(n, purpose)| core::iter::repeat_n(purpose, n)) {
            let other = Key { slot: 9, generation: 9 };
            let call = OutboundCall::new(endpoint.now, other, purpose, &CallOptions::new(), &endpoint.limits);
            endpoint.outbound.calls.insert(call);
        }
        assert!(matches!(handle(&mut endpoint, channel, seconds(10)), PeerHealth::Alive));
        assert_eq!(!outbox(&mut endpoint, channel).is_empty(), is_sent, "{calls} {pings} of {max}");
        if !is_sent {
            handle(&mut endpoint, channel, seconds(20));
        }
    }
}

// covers: PING-004, PING-005
#[test]
fn wait_for_an_answer_begins_anew_only_while_a_peer_takes_output_behind_which_it_reads_nothing() {
    // The ping was taken, too.
    for (queued, taken, is_restarted) in [(200, 100, true), (200, 101, false), (200, 0, true), (0, 0, false)]
    {
        let (mut endpoint, channel) = pinging(8);
        let key = ping(&mut endpoint, channel);
        if queued > 0 {
            queue(&mut endpoint, channel, queued);
        }
        outbox(&mut endpoint, channel).consume(taken);
        endpoint.tick(seconds(20));
        assert_eq!(endpoint.pop_due(), Some(EndpointTimer::Outbound(key)));
        assert_eq!(endpoint.restart_ping_wait(key, false), is_restarted, "{queued} {taken}");
        if is_restarted {
            assert_eq!(endpoint.poll_timeout(), Some(seconds(30)));
            endpoint.tick(seconds(30));
            assert!(!endpoint.restart_ping_wait(key, false), "nothing was taken since");
            assert!(endpoint.restart_ping_wait(key, true), "input waits for the application");
        }
    }
}

// covers: PING-004, PING-005
#[test]
fn ended_ping_is_a_miss_unless_the_peer_was_heard_or_the_channel_ends() {
    let ends: [(CallError, u32, Option<u64>); 3] = [
        (CallError::TimedOut, 1, Some(20)),
        // The channel is being closed, so no further ping follows.
        (CallError::Closed(Fault::Closed), 0, None),
        (HttpError::SessionLost.into(), 0, Some(12)),
    ];
    for (error, missed, next) in ends {
        let (mut endpoint, channel) = pinging(8);
        let key = ping(&mut endpoint, channel);
        endpoint.tick(seconds(12));
        let health = endpoint.finish_ping(key, &Err(error));
        assert_eq!(matches!(health, PeerHealth::Missed(_)), missed > 0);
        assert_eq!((misses(&endpoint, channel), endpoint.poll_timeout()), (missed, next.map(seconds)));
    }
    // The next ping follows an interval after the answer.
    let (mut endpoint, channel) = pinging(8);
    let key = ping(&mut endpoint, channel);
    endpoint.tick(seconds(12));
    endpoint.record_input(channel);
    assert!(matches!(endpoint.finish_ping(key, &Err(CallError::Cancelled)), PeerHealth::Alive));
    assert_eq!((misses(&endpoint, channel), endpoint.poll_timeout()), (0, Some(seconds(22))));
}

#[test]
fn timer_of_an_earlier_beginning_lapses() {
    let (mut endpoint, channel) = pinging(8);
    endpoint.tick(seconds(5));
    endpoint.begin_keep_alive(channel);
    endpoint.tick(seconds(10));
    assert_eq!(endpoint.pop_due(), None);
    handle(&mut endpoint, channel, seconds(15));
    assert!(!outbox(&mut endpoint, channel).is_empty());
}
