//! The interface between handlers and the event loop of any transport.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::server::{Announcement, Audience, BufferedResult, Call, Engine, Event};
use mcp_proto::{CallId, Change, Instant, Limits, RawJson, RpcError, UseError};
use mcp_std::catch;

use super::cx::{Backend, CallState, Cx};
use super::dispatcher::Dispatcher;
use super::handler::{Handler, HandlerFailure};
use super::remote::{EncodedResult, HandlerOutcome};

/// The event loop without the handler, as a [`Cx`] needs it.
///
/// It does not require [`Debug`](core::fmt::Debug), because that would add the formatting code of all state to each program.
pub trait ServerLoop {
    /// Returns the engine.
    fn engine(&mut self) -> &mut Engine;

    /// Returns the time of the last [`tick`](Self::tick), without a system call.
    fn now(&self) -> Instant;

    /// Reads the clock.
    fn tick(&mut self) -> Instant;

    /// Returns the next event while a handler runs. Input is not decoded while too many events wait.
    fn poll_event_during_call(&mut self) -> Option<Event> {
        None
    }

    /// Keeps an event until the running handler has returned.
    fn defer(&mut self, event: Event) {
        let _ = event;
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    fn write(&mut self) -> bool {
        false
    }

    /// Waits for input, room to write or a deadline, until `until` at most.
    ///
    /// A loop that runs handlers itself needs this, `poll_event_during_call`, `defer` and `write`: a handler that waits calls them again and again.
    /// For others they do nothing.
    fn wait(&mut self, until: Instant) {
        let _ = until;
    }

    /// Publishes a change to its audience.
    fn publish(&mut self, announcement: &Announcement<'_>) {
        let now = self.tick();
        self.engine().publish(now, announcement);
    }

    /// Publishes a change of every subscribed resource.
    fn publish_resources(&mut self) {
        subscribed_resource_changes(self.engine()).iter().for_each(|change| self.publish(&change.into()));
    }

    /// Lets the client of a call poll for the answer, and returns whether this is supported for the call.
    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let _ = (call, retry);
        false
    }

    /// Shuts down: accepts no more requests, and ends when all calls are answered and written or after `grace`.
    ///
    /// [`Handle::shutdown`](super::Handle::shutdown) calls it.
    fn shutdown(&mut self, grace: Duration) {
        let _ = grace;
    }

    /// Returns whether clients are told apart, so that each may list its tasks.
    ///
    /// A method that takes the tasks would link their code in each program, because it would be part of a table.
    fn tells_clients_apart(&self) -> bool {
        true
    }

    /// Sets the tools whose calls may run again in another process, if the sessions are shared.
    fn set_repeatable_tools(&mut self, names: &[Box<str>]) {
        let _ = names;
    }

    /// Returns whether the transport supports [`poll_later`](Self::poll_later).
    fn supports_poll_later(&self) -> bool {
        false
    }
}

/// Returns a change for every subscribed resource.
#[must_use]
pub fn subscribed_resource_changes(engine: &Engine) -> Vec<Change> {
    engine.subscribed_uris().map(|uri| Change::Resource(uri.into())).collect()
}

/// Dispatches an event to a handler. A call is answered.
pub(crate) fn dispatch_event(
    server_loop: &mut dyn ServerLoop,
    dispatcher: &mut Dispatcher,
    handler: &mut dyn Handler,
    event: &Event,
) {
    if dispatcher.extend(server_loop, event) {
        return;
    }
    // The panic hook has reported the panic.
    let _ = match event {
        Event::Call(call) => return run_handler(server_loop, dispatcher, handler, call),
        Event::Cancelled { .. } => Ok(()),
        Event::Notification(notification) => catch(|| handler.notification(notification)),
        Event::Diagnostic { diagnostic, .. } => catch(|| handler.diagnostic(diagnostic)),
        other => catch(|| handler.event(other)),
    };
}

/// Runs a handler for a call and applies its outcome.
fn run_handler(
    server_loop: &mut dyn ServerLoop,
    dispatcher: &mut Dispatcher,
    handler: &mut dyn Handler,
    call: &Call,
) {
    let mut state = CallState::default();
    let mut cx = Cx::new(Backend::Local(&mut *server_loop, &mut *dispatcher), call, &mut state);
    let outcome = catch(|| in_scope(call, || handler.call(&mut cx, call)));
    let outcome = state.into_outcome(call, outcome);
    apply_outcome(server_loop, call, outcome, &mut |call, failure| {
        _ = catch(|| handler.failed(call, failure))
    });
}

/// Runs a function in the scope of the observation of a call, if it has one.
///
/// # Panics
///
/// If the function panics, or if the observer calls it and does not return after that.
#[inline]
pub(super) fn in_scope<T>(call: &Call, run: impl FnOnce() -> T) -> T {
    let Some(observation) = call.caller().observation() else { return run() };
    let (mut run, mut outcome) = (Some(run), None);
    observation.in_scope(&mut || {
        if let Some(run) = run.take() {
            outcome = Some(run());
        }
    });
    if let Some(outcome) = outcome {
        return outcome;
    }
    match run {
        // The observer has not called it. A handler runs all the same.
        Some(run) => run(),
        None => panic!("the observer lost the outcome of a handler"),
    }
}

/// Applies the outcome of a handler. `on_failure` receives failures that the author of the handler should know.
///
/// Returns the buffer of the result.
pub(crate) fn apply_outcome(
    server_loop: &mut dyn ServerLoop,
    call: &Call,
    outcome: HandlerOutcome,
    on_failure: &mut dyn FnMut(&Call, &HandlerFailure),
) -> Option<Box<BufferedResult>> {
    let now = match &outcome {
        // The clock was read for the answer, which the handler gave itself.
        HandlerOutcome::Answered(_) => server_loop.now(),
        _ => answer_time(server_loop, call),
    };
    let engine = server_loop.engine();
    let (error, failure) = match outcome {
        HandlerOutcome::Answered(failure) => {
            if let Some(failure) = failure {
                on_failure(call, &failure);
            }
            return None;
        }
        HandlerOutcome::Complete(result, failure) => {
            let mut buffer: Option<Box<BufferedResult>> = None;
            let sent = match result {
                EncodedResult::Buffered(result) => buffer.insert(result).complete(engine, now, call.id()),
                EncodedResult::Prepared(result) => engine.complete_prepared(now, call.id(), &result),
                EncodedResult::Raw(result) => engine.complete_raw(now, call.id(), &result),
            };
            match sent {
                Err(refused) if refused != UseError::Stale => {
                    (RpcError::internal("the result cannot be sent").into(), Some(Arc::new(refused.into())))
                }
                // A stale call was cancelled meanwhile, and a cancelled call has no response.
                _ => {
                    if let Some(failure) = failure {
                        on_failure(call, &failure);
                    }
                    return buffer;
                }
            }
        }
        HandlerOutcome::InputRequired(input_required) => {
            if let Err(refused) = engine.require_input(now, call, &input_required) {
                on_failure(call, &HandlerFailure::InputRequest(refused));
            }
            return None;
        }
        HandlerOutcome::BeginTask(input, begin_task) => {
            let Err(refused) = begin_task(engine, now, call, &input) else { return None };
            let error = RpcError::internal("no task can be created");
            (error.into(), Some(Arc::new(HandlerFailure::Task(refused))))
        }
        HandlerOutcome::Fail(error, failure) => (error, failure),
    };
    // Refused if the call is answered or cancelled already: then nothing is to be sent.
    let _ = engine.fail(now, call.id(), &error);
    if let Some(failure) = failure {
        on_failure(call, &failure);
    }
    None
}

/// Returns the time at which a handler answers its call. The clock is read only for an observer that measures it.
pub(super) fn answer_time(server_loop: &mut dyn ServerLoop, call: &Call) -> Instant {
    let is_measured = call.caller().observation().is_some_and(|observation| observation.needs_end_time());
    if is_measured { server_loop.tick() } else { server_loop.now() }
}

/// Shows the description of a task. It has no effect after the end of the task.
pub(super) fn set_task_message(server_loop: &mut dyn ServerLoop, call: &Call, message: &str) {
    let now = server_loop.now();
    // Refused if the task has ended, and then nobody needs it.
    let _ = server_loop.engine().tasks(now).working(call.id(), message);
}

/// Returns how many tasks may run at a time.
pub(super) fn max_running_tasks(server_loop: &mut dyn ServerLoop) -> usize {
    let now = server_loop.now();
    server_loop.engine().tasks(now).max_running()
}

/// Events that arrived while a handler ran.
///
/// Invariant: `bytes` is the sum of the costs of `events`.
#[derive(Debug, Default)]
pub struct Backlog {
    events: VecDeque<Event>,
    bytes: usize,
}

impl Backlog {
    /// Adds an event. A cancellation instead removes the waiting call.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if let Event::Cancelled { call, .. } = &event {
            self.remove(*call);
            return;
        }
        self.bytes += event_cost(&event);
        self.events.push_back(event);
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, call: CallId) {
        self.events.retain(|other| !matches!(other, Event::Call(waiting) if waiting.id() == call));
        self.bytes = self.events.iter().map(event_cost).sum();
    }

    /// Removes and returns the oldest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.bytes -= self.events.front().map_or(0, event_cost);
        self.events.pop_front()
    }

    /// Returns whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns whether so many events wait that reading must pause.
    pub fn is_full(&self, limits: &Limits) -> bool {
        self.events.len() >= limits.max_waiting_requests || self.bytes >= limits.max_waiting_bytes
    }
}

/// Returns the approximate size of an event in bytes.
fn event_cost(event: &Event) -> usize {
    let len = |json: &RawJson| json.as_bytes().len();
    let params = match event {
        Event::Call(call) => call.params_len(),
        Event::Notification(notification) => notification.params.as_ref().map_or(0, len),
        Event::Done { outcome, .. } => outcome.as_ref().map_or(0, len),
        _ => 0,
    };
    size_of::<Event>() + params
}

// Changes that have not been published yet.

/// A set of changes, each with its audience.
///
/// It is bounded: beyond 256 KiB of resource changes, it stands for all resources. Then every subscriber of a resource
/// is notified that it may have changed.
///
/// Invariant: `includes_all_resources` ⇒ `changes` contains no resource and `bytes` is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Sorted changes without duplicates, and who gets to know of them.
    changes: Vec<(Change, Audience)>,
    /// Memory of the resource changes, in bytes; at most [`MAX_URI_BYTES`].
    bytes: usize,
    /// Whether any resource may have changed.
    includes_all_resources: bool,
}

impl ChangeSet {
    /// Creates a set that stands for all subscribed resources.
    #[must_use]
    pub fn all_resources() -> Self {
        Self { includes_all_resources: true, ..Self::default() }
    }

    /// Creates a set that stands for all lists and resources of the protocol.
    #[must_use]
    pub fn everything() -> Self {
        let mut changes = Self::all_resources();
        for list in [Change::Tools, Change::Prompts, Change::Resources] {
            changes.insert(list, &Audience::EVERYONE);
        }
        changes
    }

    /// Adds the changes of another set.
    pub fn merge(&mut self, other: &Self) {
        other.changes.iter().for_each(|(change, audience)| self.insert(change.clone(), audience));
        if other.includes_all_resources {
            self.collapse_resources();
        }
    }

    fn insert(&mut self, change: Change, audience: &Audience) {
        let index = match self.changes.binary_search_by(|(other, _)| other.cmp(&change)) {
            Ok(known) => return self.changes.get_mut(known).map_or((), |(_, all)| all.merge(audience)),
            Err(index) => index,
        };
        if let Change::Resource(uri) = &change {
            // `publish` announces each subscribed resource anyway.
            if self.includes_all_resources {
                return;
            }
            self.bytes += size_of::<Change>() + uri.len();
        }
        self.changes.insert(index, (change, audience.clone()));
        // Beyond the bound every resource counts as changed: a change notification may come too often, and must not be
        // lost.
        if self.bytes > MAX_URI_BYTES {
            self.collapse_resources();
        }
    }

    fn collapse_resources(&mut self) {
        self.changes.retain(|(change, _)| !matches!(change, Change::Resource(_)));
        (self.includes_all_resources, self.bytes) = (true, 0);
    }

    /// Publishes the changes to their audiences.
    pub(super) fn publish(&self, server_loop: &mut dyn ServerLoop) {
        self.iter().for_each(|announcement| server_loop.publish(&announcement));
        if self.includes_all_resources {
            server_loop.publish_resources();
        }
    }

    /// Returns the changes, without those that [`includes_all_resources`](Self::includes_all_resources) stands for.
    pub fn iter(&self) -> impl Iterator<Item = Announcement<'_>> {
        self.changes.iter().map(|(change, audience)| Announcement::from(change).to(audience.clone()))
    }

    /// Returns whether any resource may have changed in addition.
    #[must_use]
    pub const fn includes_all_resources(&self) -> bool {
        self.includes_all_resources
    }
}

impl From<Change> for ChangeSet {
    fn from(change: Change) -> Self {
        Announcement::new(change).into()
    }
}

impl From<Announcement<'_>> for ChangeSet {
    fn from(announcement: Announcement<'_>) -> Self {
        let (change, audience) = announcement.into_parts();
        let mut changes = Self::default();
        changes.insert(change.into_owned(), &audience);
        changes
    }
}

impl From<&Announcement<'_>> for ChangeSet {
    fn from(announcement: &Announcement<'_>) -> Self {
        announcement.clone().into()
    }
}

/// Maximum memory of individual resource changes, in bytes.
const MAX_URI_BYTES: usize = 256 << 10;

#[cfg(test)]
mod change_set_tests {
    use super::*;

    #[test]
    fn changes_are_unique_and_too_many_resources_become_all() {
        let mut changes = ChangeSet::from(Change::Tools);
        for round in 0..3 {
            for n in 0..100 {
                changes.merge(&Change::Resource(alloc::format!("file:///{n}")).into());
            }
            changes.merge(&Change::Tools.into());
            assert_eq!(
                (changes.changes.len(), changes.includes_all_resources),
                (101, false),
                "round {round}"
            );
        }
        let long = "x".repeat(1000);
        for n in 0..300 {
            changes.merge(&Change::Resource(alloc::format!("file:///{n}/{long}")).into());
            assert!(changes.bytes <= MAX_URI_BYTES);
        }
        assert_eq!(
            changes,
            ChangeSet {
                changes: [(Change::Tools, Audience::EVERYONE)].into(),
                bytes: 0,
                includes_all_resources: true
            }
        );
        // All resources include each single one, whichever set comes first.
        let mut other = ChangeSet::from(Change::Resource("file:///1".into()));
        other.merge(&changes);
        assert_eq!(other, changes);
    }

    #[test]
    fn merged_changes_reach_the_audiences_of_all() {
        let to_nobody = Announcement::new(Change::Tools).to(Audience::matching(|_| false));
        let mut changes = ChangeSet::from(&to_nobody);
        let audience = |changes: &ChangeSet| changes.iter().map(|a| a.audience().clone()).collect::<Vec<_>>();
        changes.merge(&(&to_nobody).into());
        assert_eq!(audience(&changes), [to_nobody.audience().clone()]);
        changes.merge(&Announcement::new(Change::Prompts).to(Audience::matching(|_| true)).into());
        assert_eq!(changes.iter().count(), 2);
        assert!(audience(&changes).iter().all(|audience| !audience.is_everyone()));
        changes.merge(&Change::Tools.into());
        assert!(audience(&changes).first().is_some_and(Audience::is_everyone));
    }
}
