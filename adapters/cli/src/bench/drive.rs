//! The calls of one connection, on one thread.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use mcp_blocking::{Client, Error};
use mcp_proto::{CallKey, CallOptions, RawJson};

use super::tally::{Tally, is_final, is_lost};

/// Calls of a connection without an answer. The client has room for 1,024.
const MAX_OPEN: usize = 1_000;
/// Longest wait between two looks at whether the measurement was interrupted.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The request that is sent again and again.
pub(super) enum Request {
    Tool { name: String, arguments: RawJson },
    Method(&'static str),
}

impl Request {
    fn start(&self, client: &Client) -> Result<CallKey, Error> {
        match self {
            Self::Tool { name, arguments } => client.start_tool(name, arguments, &CallOptions::new()),
            Self::Method(method) => {
                client.start(method, &mcp_proto::model::Extra::new(), &CallOptions::new())
            }
        }
    }
}

/// State that all connections share.
pub(super) struct Shared {
    pub(super) is_interrupted: AtomicBool,
    /// Number of measured calls that may still be started.
    calls_left: AtomicU64,
}

impl Shared {
    pub(super) fn new(calls: Option<u64>) -> Self {
        Self { is_interrupted: AtomicBool::new(false), calls_left: AtomicU64::new(calls.unwrap_or(u64::MAX)) }
    }

    /// Takes one of the calls that are left. Returns whether there was one.
    fn claim(&self) -> bool {
        let left =
            self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.is_ok()
    }
}

/// When calls are due.
pub(super) enum Pace {
    /// Whenever fewer than this many are open.
    Closed { in_flight: usize },
    /// At fixed instants.
    Open { next: Instant, interval: Duration },
}

impl Pace {
    /// Returns the instant at which the next call was due, if it is to be started now.
    fn due(&self, now: Instant, open: usize) -> Option<Instant> {
        match self {
            Self::Closed { in_flight } => (open < *in_flight).then_some(now),
            Self::Open { next, .. } => Some(*next).filter(|next| *next <= now && open < MAX_OPEN),
        }
    }

    /// Goes on to the next call.
    fn advance(&mut self) {
        if let Self::Open { next, interval } = self {
            *next += *interval;
        }
    }

    /// Counts the measured calls that are due and were not started.
    fn count_overdue(&mut self, measure_from: Instant, end: Option<Instant>, shared: &Shared) -> u64 {
        let (now, mut overdue) = (Instant::now(), 0);
        while let Self::Open { next, .. } = self {
            if *next > now || end.is_some_and(|end| *next >= end) {
                break;
            }
            if *next >= measure_from {
                if !shared.claim() {
                    break;
                }
                overdue += 1;
            }
            self.advance();
        }
        overdue
    }

    /// Returns the time until a call is due, if that does not depend on answers.
    fn until_next(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { next, .. } => {
                Some(next.saturating_duration_since(now)).filter(|time| !time.is_zero())
            }
        }
    }
}

/// A call without an answer.
struct OpenCall {
    key: CallKey,
    /// When it was due.
    due: Instant,
    is_measured: bool,
}

/// Makes calls until `end`, or until none is left. Those that were due before `measure_from` are not measured.
pub(super) fn drive(
    client: &Client,
    request: &Request,
    mut pace: Pace,
    (measure_from, end): (Instant, Option<Instant>),
    shared: &Shared,
    tally: &mut Tally,
) {
    let mut open: Vec<OpenCall> = Vec::new();
    let mut is_over = false;
    // A server that is gone is not asked as fast as possible.
    let mut paused_until = None;
    'look: loop {
        if shared.is_interrupted.load(Ordering::Relaxed) {
            let measured = open.iter().filter(|call| call.is_measured).count();
            tally.unanswered += u64::try_from(measured).unwrap_or(u64::MAX);
            if !is_over {
                tally.unanswered += pace.count_overdue(measure_from, end, shared);
            }
            return;
        }
        // The end of the connection, as long as no call has told of it.
        let mut end_of_stream = None;
        let mut is_connected = true;
        while let Some(due) =
            Some(Instant::now()).and_then(|now| pace.due(now, open.len())).filter(|_| !is_over)
        {
            if paused_until.is_some_and(|until| Instant::now() < until) {
                break;
            }
            let is_measured = due >= measure_from;
            if end.is_some_and(|end| due >= end) || (is_measured && !shared.claim()) {
                is_over = true;
                break;
            }
            pace.advance();
            match request.start(client) {
                Ok(key) => open.push(OpenCall { key, due, is_measured }),
                Err(error) => {
                    is_connected = !is_final(&error);
                    if shared.is_interrupted.load(Ordering::Relaxed) {
                        // It had no room until then, or its server was ended.
                        tally.unanswered += u64::from(is_measured);
                        continue 'look;
                    }
                    if is_measured {
                        tally.record(&Err(error), due.elapsed());
                    } else if !is_connected {
                        end_of_stream = Some(error);
                    }
                    // A call that cannot be made at all must not be tried as fast as possible.
                    break;
                }
            }
        }
        let before = open.len();
        open.retain(|call| {
            // It does not wait, nor read from the connection.
            let outcome = match client.wait_timeout(call.key, Duration::ZERO) {
                Ok(None) => return true,
                Ok(Some(result)) => Ok(result),
                Err(error) => Err(error),
            };
            is_connected &= outcome.as_ref().err().is_none_or(|error| !is_final(error));
            if outcome.as_ref().is_err_and(is_lost) {
                paused_until = Some(Instant::now() + LOOK_INTERVAL);
            }
            if call.is_measured {
                let now = Instant::now();
                tally.last = Some(now);
                tally.record(&outcome, now.duration_since(call.due));
            } else if let Err(error) = outcome {
                end_of_stream = Some(error).filter(is_final);
            }
            false
        });
        if let (Some(error), false) = (end_of_stream, is_connected) {
            // Even before calls are measured: a server that is gone is no success.
            tally.record(&Err(error), Duration::ZERO);
        }
        if !is_connected || (is_over && open.is_empty()) {
            tally.lost += u32::from(!is_over && !shared.is_interrupted.load(Ordering::Relaxed));
            return;
        }
        if open.len() < before && paused_until.is_none() {
            continue;
        }
        let now = Instant::now();
        let paused = paused_until.map(|until: Instant| until.saturating_duration_since(now));
        let paused = paused.filter(|left| !left.is_zero());
        paused_until = paused_until.filter(|_| paused.is_some());
        let wait = paused
            .or_else(|| pace.until_next(now))
            .filter(|_| !is_over)
            .unwrap_or(LOOK_INTERVAL)
            .min(LOOK_INTERVAL);
        if let (Err(error), true) = (client.poll(wait), open.is_empty()) {
            // With open calls, each of them reports the end.
            tally.record(&Err(error), Duration::ZERO);
            tally.lost += u32::from(!is_over);
            return;
        }
    }
}
