//! What handlers run on, whatever the calls come by: an engine, a clock, and what keeps things moving meanwhile

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::catch;
use mcp_proto::server::{Call, Engine, Event};
use mcp_proto::{CallId, Change, Instant, Limits, RpcError, UseError};

use super::cx::Cx;
use super::desk::Desk;
use super::handler::{Failure, Handler};
use super::remote::{Done, Verdict};

/// Everything but the handler: what a [`Cx`] needs
///
/// Not [`Debug`](fmt::Debug): each host would bring the printing of everything that it holds into the program.
pub trait Host {
    /// The engine
    fn engine(&mut self) -> &mut Engine;

    /// The time as of the last look at the clock; cheap
    fn now(&self) -> Instant;

    /// Looks at the clock
    fn tick(&mut self) -> Instant;

    /// The next event while a handler runs; nothing more is taken in when enough waits already
    fn next_meanwhile(&mut self) -> Option<Event>;

    /// Keeps an event until the handler that runs has returned
    fn defer(&mut self, event: Event);

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self) -> bool;

    /// Waits for input, room to write or a deadline, at most until `until`
    fn wait(&mut self, until: Instant);

    /// Tells everybody who wants to know that something has changed
    fn publish(&mut self, change: &Change) {
        let now = self.tick();
        self.engine().publish(now, change);
    }

    /// Tells everybody who follows a resource that it may have changed
    fn publish_resources(&mut self) {
        followed(self.engine()).iter().for_each(|change| self.publish(change));
    }

    /// Has the client of a call come back for the answer later, where there is such a thing
    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let _ = (call, retry);
        false
    }

    /// Takes no more requests; ends when those in work are answered and written, or after `grace`; what a
    /// [`Handle`](super::Handle) asks for
    fn shutdown(&mut self, grace: Duration) {
        let _ = grace;
    }

    /// Whether there is such a thing at all
    fn polls(&self) -> bool {
        false
    }
}

/// All resources that somebody follows
pub(super) fn followed(engine: &Engine) -> Vec<Change> {
    engine.followed().map(|uri| Change::Resource(uri.into())).collect()
}

/// An engine at hand, for a handler that runs on the loop's thread, and what commands from elsewhere come by
pub struct Here<'a>(pub &'a mut dyn Host, pub &'a mut Desk);

impl fmt::Debug for Here<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Here")
    }
}

/// Has a handler see an event; calls are answered
pub fn handle(host: &mut dyn Host, desk: &mut Desk, handler: &mut dyn Handler, event: &Event) {
    // A panic ends what panicked and nothing else; the panic hook has said it.
    let _ = match event {
        Event::Call(call) => return run(host, desk, handler, call),
        Event::Cancelled { .. } => Ok(()),
        Event::Notification(notification) => catch(|| handler.notification(notification)),
        Event::Diagnostic { diagnostic, .. } => catch(|| handler.diagnostic(diagnostic)),
        other => catch(|| handler.event(other)),
    };
}

/// Has a handler answer a call
fn run(host: &mut dyn Host, desk: &mut Desk, handler: &mut dyn Handler, call: &Call) {
    let mut here = Here(host, desk);
    let mut cx: Cx<'_> = Cx::new(&mut here, call);
    let outcome = catch(|| handler.call(&mut cx, call));
    let verdict = cx.verdict(outcome);
    settle(host, call, verdict, &mut |call, failure| _ = catch(|| handler.failed(call, failure)));
}

/// Does with a call what its handler has decided; `failed` hears what the author of the handler should know
pub fn settle(host: &mut dyn Host, call: &Call, verdict: Verdict, failed: &mut dyn FnMut(&Call, &Failure)) {
    let now = host.now();
    let engine = host.engine();
    let (error, failure) = match verdict {
        Verdict::Answered => return,
        Verdict::Complete(done, failure) => {
            let outcome = match &done {
                Done::Prepared(result) => engine.complete_prepared(now, call.id(), result),
                Done::Raw(result) => engine.complete_raw(now, call.id(), result),
            };
            match outcome {
                Ok(()) | Err(UseError::Stale) => {
                    if let Some(failure) = failure {
                        failed(call, &failure);
                    }
                    return;
                }
                Err(refused) => {
                    (RpcError::internal("the result cannot be sent"), Some(Arc::new(refused.into())))
                }
            }
        }
        Verdict::Ask(asking) => {
            if let Err(refused) = engine.ask(now, call, &asking) {
                failed(call, &Failure::Ask(refused));
            }
            return;
        }
        Verdict::Fail(error, failure) => (error, failure),
    };
    // Refused when the call was answered after all, or is cancelled: then nobody waits for this.
    let _ = engine.fail(now, call.id(), &error);
    if let Some(failure) = failure {
        failed(call, &failure);
    }
}

/// What happened while a handler ran, for after it
#[derive(Debug, Default)]
pub struct Backlog {
    /// With what they keep
    events: VecDeque<(Event, usize)>,
    bytes: usize,
}

impl Backlog {
    /// Keeps an event; the end of a call takes the call out instead
    pub fn push(&mut self, event: Event) {
        if let Event::Cancelled { call, .. } = &event {
            self.events.retain(|(other, _)| !matches!(other, Event::Call(waiting) if waiting.id() == *call));
            self.bytes = self.events.iter().map(|(_, cost)| cost).sum();
            return;
        }
        let cost = cost(&event);
        self.bytes += cost;
        self.events.push_back((event, cost));
    }

    /// The event that has waited longest
    pub fn pop(&mut self) -> Option<Event> {
        let (event, cost) = self.events.pop_front()?;
        self.bytes -= cost;
        Some(event)
    }

    /// Whether so much waits that no more is taken in
    pub fn is_full(&self, limits: &Limits) -> bool {
        self.events.len() >= limits.max_waiting || self.bytes >= limits.max_waiting_bytes
    }
}

/// About how many bytes an event keeps
fn cost(event: &Event) -> usize {
    let params = match event {
        Event::Call(call) => call.params(),
        Event::Notification(notification) => notification.params.clone(),
        Event::Done { outcome, .. } => outcome.as_ref().ok().cloned(),
        _ => None,
    };
    size_of::<Event>() + params.map_or(0, |params| params.as_bytes().len())
}
