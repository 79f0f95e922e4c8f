//! `events receive`: a receiver of webhooks without a server, and the receiving side of `events subscribe`.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use mcp_events::receive::{ReceiverServer, RunningReceiver};
use mcp_events::receiver::{Limits, Message, Receiver};

use super::args::{EndArgs, EventsReceiveArgs};
use super::{note_gap, print_event, required_secret};
use crate::failure::{CommandFailure, Exit};
use crate::notes;
use crate::output::is_unread;

pub(super) fn run(args: &EventsReceiveArgs) -> Result<(), CommandFailure> {
    let mut receiver = Receiver::new(Limits::default());
    let refused = |error: mcp_events::receiver::ReceiverError| CommandFailure::failed(error.to_string());
    let registration = receiver.register(required_secret(&args.secret)?).map_err(refused)?;
    if let Some(id) = &args.subscription {
        receiver.bind(registration, id).map_err(refused)?;
    }
    let until = args.end.time.map(|time| Instant::now() + time);
    let received =
        Received::start(args.listen, &args.path, &Arc::new(Mutex::new(receiver)), args.end, args.json)?;
    while !received.wait(CHECK_INTERVAL, until) {}
    received.finish();
    Ok(())
}

/// Deliveries that arrive at this program, and are printed.
pub(super) struct Received {
    end: EndArgs,
    progress: Arc<Progress>,
    server: RunningReceiver,
}

/// What was received so far.
#[derive(Default)]
struct Progress {
    /// Number of events, and whether the server has ended the subscription.
    state: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Received {
    /// Starts to receive, and prints where on stderr.
    ///
    /// # Errors
    ///
    /// Fails if the address is not available.
    pub(super) fn start(
        address: SocketAddr,
        path: &str,
        receiver: &Arc<Mutex<Receiver>>,
        end: EndArgs,
        as_json: bool,
    ) -> Result<Self, CommandFailure> {
        let failed = |error: std::io::Error| {
            CommandFailure::new(Exit::Connection, format!("cannot listen at {address}: {error}"))
        };
        let server = ReceiverServer::bind(address, receiver.clone()).map_err(failed)?.path(path);
        let progress = Arc::<Progress>::default();
        let shared = progress.clone();
        let server = server.start(move |_, message| shared.keep(message, end, as_json)).map_err(failed)?;
        notes::print_stderr(&format!("listening at http://{}{path}", server.address()));
        Ok(Self { end, progress, server })
    }

    /// Waits for `time` at most. Returns whether it is over: `--count` is reached, `until` has passed, the server has ended the
    /// subscription, or nobody reads what is printed.
    pub(super) fn wait(&self, time: Duration, until: Option<Instant>) -> bool {
        let left = until.map_or(time, |until| until.saturating_duration_since(Instant::now()).min(time));
        let state = mcp_std::sync::lock(&self.progress.state);
        let is_over = |(events, has_ended): &(u64, bool)| {
            *has_ended || self.end.count.is_some_and(|limit| *events >= limit)
        };
        let waited = self.progress.changed.wait_timeout_while(state, left, |state| !is_over(state));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_over(&state) || is_unread() || until.is_some_and(|until| until <= Instant::now())
    }

    /// Stops, after what has begun to arrive was answered.
    pub(super) fn finish(self) {
        let _ = self.server.finish(FINISH_TIME);
    }
}

impl Progress {
    /// Prints a message. Returns whether that succeeded: else the sender tries again.
    fn keep(&self, message: &Message, end: EndArgs, as_json: bool) -> bool {
        let mut state = mcp_std::sync::lock(&self.state);
        match message {
            // Beyond the limit it would be acknowledged, and lost for the next receiver.
            Message::Event(_) if end.count.is_some_and(|limit| state.0 >= limit) => return false,
            Message::Event(event) => {
                // EVT-123: what nobody reads is lost.
                if print_event(event, as_json).is_err() || is_unread() {
                    return false;
                }
                state.0 += 1;
            }
            Message::Gap { .. } => note_gap("the server has skipped some"),
            Message::Terminated(error) => {
                notes::print_note(&format!(
                    "the server has ended the subscription: {} ({})",
                    error.message, error.code
                ));
                state.1 = true;
            }
            _ => {}
        }
        self.changed.notify_all();
        true
    }
}

/// Time for answers that are on their way at the end.
const FINISH_TIME: Duration = Duration::from_secs(2);
/// Interval at which the limits and the reader of the output are looked at.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(200);
