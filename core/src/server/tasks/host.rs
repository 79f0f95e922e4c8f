//! The tasks of an engine: the table, and the calls and listeners that it is connected with.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::entry::{Held, HeldCalls, Owner, TaskState};
use super::record::TaskRecordError;
use super::store::{Detail, Milestone, text_room, write_members};
use super::table::{TaskTable, error_outcome};
use super::{TaskContext, TaskOffer, TaskRequestFrame};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{self, CallId};
use crate::error::CallError;
use crate::identity::declared_extension;
use crate::json;
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::server::authorization::Authorization;
use crate::server::channel::{ServerEndpoint, authorization, session};
use crate::server::event::{Call, CancelReason, Event};
use crate::slab::Key;
use crate::tasks::ledger::unknown_task;
use crate::tasks::text::TaskBits;
use crate::time::Instant;
use crate::version::Version;
use crate::{meta, methods};

/// Time until something that found no room is tried again.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The tasks of an engine.
#[derive(Debug)]
pub(in crate::server) struct ServerTasks {
    pub(super) table: TaskTable,
    /// The channel of the calls that run tasks. No connection belongs to it.
    pub(in crate::server) channel: Key,
    /// Number of calls that run tasks.
    pub(super) runs: usize,
    /// Calls that wait for a task.
    pub(super) held: HeldCalls,
    pub(super) listeners: TaskListeners,
    /// Sessions that have ended, and when their tasks end, in this order.
    pub(super) leaving: Vec<(Instant, Key)>,
    /// Tasks with questions that are not asked yet because there is no room.
    pub(super) unasked: Vec<Key>,
    /// Times of the timers that were armed, the earliest last.
    armed: Vec<Instant>,
    /// Time at which notifications or questions that found no room are tried again.
    pub(super) retry_at: Option<Instant>,
}

impl ServerTasks {
    pub(in crate::server) fn new(table: TaskTable, channel: Key) -> Self {
        Self {
            table,
            channel,
            runs: 0,
            held: HeldCalls::default(),
            listeners: TaskListeners::default(),
            leaving: Vec::new(),
            unasked: Vec::new(),
            armed: Vec::new(),
            retry_at: None,
        }
    }

    /// Returns whether the server is shutting down, so that no task runs any more.
    pub(super) fn is_closing(&self, cx: &TaskContext<'_>) -> bool {
        cx.endpoint.channels.get(self.channel).is_none_or(|c| c.input_end.is_some())
    }

    /// Ends the task of a run that is aborted because the server shuts down.
    ///
    /// One in a store is left as it is: it is reported as interrupted after the restart.
    fn end_aborted_run(&mut self, cx: &mut TaskContext<'_>, call: Key) {
        let Some(task) = self.task_of_run(cx.endpoint, call) else { return };
        self.runs = self.runs.saturating_sub(1);
        if let Some(entry) = self.table.get_mut(task) {
            entry.run = None;
        }
        if self.table.store.is_none() {
            self.end_run(cx, task, error_outcome(&RpcError::internal("the server is shutting down")));
        }
    }

    /// Arms the timer for the next deadline, after each command and message.
    pub(super) fn arm(&mut self, cx: &mut TaskContext<'_>) {
        let leaving = self.leaving.first().map(|(at, _)| *at);
        let deadline = self.table.next_deadline().into_iter().chain(self.retry_at).chain(leaving).min();
        let Some(at) = deadline else { return };
        // An earlier timer that is armed finds this deadline as well.
        if self.armed.last().is_none_or(|earliest| at < *earliest) {
            cx.endpoint.deadlines.arm(at, EndpointTimer::Tasks);
            self.armed.push(at);
        }
    }

    /// Returns the party that a request acts for (TASK-034).
    pub(super) fn party(endpoint: &ServerEndpoint, channel: Key, version: Version) -> Owner {
        Self::party_of(endpoint, authorization(endpoint, channel), channel, version)
    }

    /// Returns the party that a request with this authorization acts for, on the channel of the request.
    pub(super) fn party_of(
        endpoint: &ServerEndpoint,
        authorization: Option<&Authorization>,
        channel: Key,
        version: Version,
    ) -> Owner {
        // A principal is the same party in all its sessions, so it comes before them.
        if let Some(party) = authorization.map(Authorization::identity) {
            return Owner::Principal(party.shared_principal().clone());
        }
        let root = endpoint.root_channel(channel);
        // A stateless session ends with its request, so it can own no task.
        match session(endpoint, root).filter(|s| !s.is_stateless && version < Version::V2026_07_28) {
            Some(_) => Owner::Session(root),
            None => Owner::Holder,
        }
    }

    /// Ends a call with the result object that `write` appends; `extra` is as for `Endpoint::send`.
    pub(super) fn respond(
        cx: &mut TaskContext<'_>,
        call: Key,
        extra: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        cx.ended.extend(inbound::respond(cx.endpoint, call, extra, write));
    }

    /// Ends a call with an error.
    pub(super) fn refuse(cx: &mut TaskContext<'_>, call: Key, error: &RpcError) {
        cx.ended.extend(cx.endpoint.fail(call, error));
    }

    /// Tells the requestor of a new task about it (TASK-009, TASK-108, TASK-109).
    pub(super) fn announce(&mut self, cx: &mut TaskContext<'_>, call: Key, task: Key) {
        let Some(task) = self.table.get(task) else { return };
        let result_meta = &cx.config.result_meta;
        Self::respond(cx, call, text_room(task) + result_meta.len(), |out| {
            if task.version < Version::V2026_07_28 {
                out.extend_from_slice(b"{\"task\":{");
                write_members(out, task, Detail::Bare);
                out.extend_from_slice(b"}}");
                return;
            }
            out.extend_from_slice(b"{\"resultType\":\"task\",");
            write_members(out, task, Detail::Bare);
            if !result_meta.is_empty() {
                out.extend_from_slice(b",\"_meta\":{");
                out.extend_from_slice(result_meta);
                out.push(b'}');
            }
            out.push(b'}');
        });
    }

    /// Takes the call that waits for the creation of a task.
    fn take_creator(&mut self, task: Key) -> Option<Key> {
        let call = self.table.get_mut(task)?.peers.as_mut()?.creator.take()?;
        self.held.remove(call);
        Some(call)
    }

    fn handle_milestone(&mut self, cx: &mut TaskContext<'_>, milestone: Milestone) {
        match milestone {
            Milestone::Nothing => {}
            Milestone::Created(task) => {
                if let Some(call) = self.take_creator(task) {
                    self.announce(cx, call, task);
                }
            }
            Milestone::NotCreated(task) => {
                if let Some(call) = self.take_creator(task) {
                    Self::refuse(cx, call, &RpcError::internal("the task cannot be stored"));
                }
                self.table.remove(task);
            }
            Milestone::Started(task) => self.run_again(cx, task),
            Milestone::Ended(task) => self.show_end(cx, task),
        }
        self.run_next(cx);
    }

    /// Answers those who wait for the end of a task, which clients see from now on.
    pub(super) fn show_end(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        let collectors = self.table.get_mut(task).and_then(|entry| entry.peers.as_mut());
        let collectors = collectors.map(|peers| core::mem::take(&mut peers.collectors)).unwrap_or_default();
        for call in collectors {
            self.held.remove(call);
            self.send_result(cx, call, task);
        }
        self.acknowledge_saved(cx, task);
        self.notify(cx, task);
    }

    /// Removes a task and its record, and ends everything that waits for it.
    pub(super) fn discard(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        reason: CancelReason,
        error: &RpcError,
    ) {
        self.withdraw_questions(cx, task, Some("the task has ended"));
        self.stop_run(cx, task, reason);
        self.refuse_waiting(cx, task, error);
        self.listeners.remove_task(task);
        self.table.remove(task);
    }

    /// Ends the run of a task whose answer is not wanted any more, or drops what a run has left for the next one.
    pub(super) fn stop_run(&mut self, cx: &mut TaskContext<'_>, task: Key, reason: CancelReason) {
        let Some(entry) = self.table.get_mut(task) else { return };
        let Some(run) = entry.run.take() else {
            let state = entry.request.as_ref().map(|request| request.state.clone());
            let dropped = state.filter(|state| !state.is_empty());
            return cx.events.extend(dropped.map(|state| Event::ParkedCallDropped { state }));
        };
        if cx.endpoint.drop_call(run).is_some() {
            self.runs = self.runs.saturating_sub(1);
            cx.events.push_back(Event::Cancelled { call: CallId(run), reason });
        }
    }

    /// Ends the requests for results on a stream whose client has left it.
    pub(in crate::server) fn abandon_stream(&mut self, cx: &mut TaskContext<'_>, stream: Key) {
        let on_stream =
            |call: &Key| cx.endpoint.inbound.calls.get(*call).is_some_and(|c| c.channel == stream);
        let held = self.held.iter().filter(|(call, held)| matches!(held, Held::Result(_)) && on_stream(call));
        for (call, held) in held.collect::<Vec<_>>() {
            self.release(cx, call);
            cx.endpoint.drop_call(call);
            cx.ended.push(stream);
            // A question on this stream may not have left: the next request for the result gets it.
            self.take_back_questions(cx, held.task(), stream);
            self.ask(cx, held.task());
        }
    }
}

/// Returns whether a modern request declares the extension (TASK-101, TASK-102).
fn declares_tasks(capabilities: Option<&[u8]>, frame: &bytes::Bytes, version: Version) -> bool {
    let Some(text) = capabilities else { return false };
    let needle = meta::TASKS_EXTENSION.as_bytes();
    // Most clients declare no extension: their capabilities are not parsed. An escaped spelling is not looked for.
    if memchr::memmem::find(text, needle).is_none() {
        return false;
    }
    declared_extension(&RawJson::trusted(frame.slice_ref(text)), meta::TASKS_EXTENSION, version).is_some()
}

impl ServerTasks {
    /// Returns the number of calls in the table of calls that no handler works at, or whose handlers run a task.
    pub(in crate::server) fn held_calls(&self) -> usize {
        self.held.len() + self.runs
    }

    /// Returns whether a call may or must become a task.
    ///
    /// # Errors
    ///
    /// The error response: the requested time to live is not valid.
    pub(in crate::server) fn offer(&self, version: Version, call: &Call) -> Result<TaskOffer, RpcError> {
        if *call.method != *methods::TOOLS_CALL {
            return Ok(TaskOffer::None);
        }
        if version >= Version::V2026_07_28 {
            let capabilities = call.params.meta.capabilities.slice(&call.frame);
            let declares = declares_tasks(capabilities, &call.frame, version);
            return Ok(if declares { TaskOffer::Allowed } else { TaskOffer::None });
        }
        if version < Version::V2025_11_25 {
            return Ok(TaskOffer::None);
        }
        requested_ttl(call).map(|asked| if asked.is_some() { TaskOffer::Requested } else { TaskOffer::None })
    }

    /// Answers a request about tasks, now or later.
    pub(in crate::server) fn answer(&mut self, cx: &mut TaskContext<'_>, request: &TaskRequestFrame<'_>) {
        if let Err(error) = self.handle_request(cx, request) {
            cx.endpoint.send_error(request.source.channel, request.source.batch, Some(request.id), &error);
        }
    }

    /// Returns the tasks of a filter that the client may listen to (TASK-126).
    ///
    /// # Errors
    ///
    /// The error response: the client did not declare the extension (TASK-125).
    pub(in crate::server) fn accept_listener(
        &mut self,
        cx: &TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        ids: &[TaskId],
    ) -> Result<Vec<TaskId>, RpcError> {
        self.check_extension(request)?;
        let party = Self::party(cx.endpoint, request.source.channel, Version::V2026_07_28);
        let now = cx.endpoint.now;
        let mut accepted: Vec<TaskId> = Vec::new();
        // More are not honoured, as more resources are not (DEC-032).
        for id in ids.iter().take(cx.endpoint.limits.max_subscribed_resources) {
            let known = self.table.find(now, id.as_str().as_bytes(), &party, Version::V2026_07_28);
            if known.is_some() && !accepted.contains(id) {
                accepted.push(id.clone());
            }
        }
        Ok(accepted)
    }

    /// Registers a listener for tasks that were accepted.
    pub(in crate::server) fn listen(
        &mut self,
        cx: &mut TaskContext<'_>,
        channel: Key,
        id: &RequestId,
        ids: &[TaskId],
    ) {
        let party = Self::party(cx.endpoint, channel, Version::V2026_07_28);
        for task in ids {
            let now = cx.endpoint.now;
            let found = self.table.find(now, task.as_str().as_bytes(), &party, Version::V2026_07_28);
            let Some(task) = found else { continue };
            self.listeners.add(task, channel, id);
            // What happened before the client listened.
            if self.table.get(task).is_some_and(|entry| entry.has_ended() || entry.state == TaskState::Asking)
            {
                self.notify_listener(cx, task, channel, id.clone());
            }
        }
    }

    /// Cancels the open questions of a task that waits with `state`, so that it runs again. Returns false if there is none.
    pub(in crate::server) fn withdraw_input(
        &mut self,
        cx: &mut TaskContext<'_>,
        state: &[u8],
        reason: Option<&str>,
    ) -> bool {
        let Some((task, count)) = self.table.find_asking(state) else { return false };
        self.withdraw_questions(cx, task, reason);
        // Those that are answered are passed by.
        for at in 0..count {
            self.record_answer(cx, task, at, Err(CallError::Cancelled));
        }
        true
    }

    /// Forgets a call that waits for a task: its client cancelled it or is gone. Returns false if it does not wait.
    pub(in crate::server) fn release(&mut self, cx: &mut TaskContext<'_>, call: Key) -> bool {
        let is_held = self.forget_held(call);
        if !is_held {
            self.end_aborted_run(cx, call);
        }
        is_held
    }

    /// Returns the session that created the task of a run.
    pub(in crate::server) fn session_of_run(&self, endpoint: &ServerEndpoint, run: Key) -> Option<Key> {
        self.table.get(self.task_of_run(endpoint, run)?)?.session
    }

    /// Processes the deadlines that have passed.
    pub(in crate::server) fn handle_timeout(&mut self, cx: &mut TaskContext<'_>) {
        let now = cx.endpoint.now;
        // They have come, so `arm` must not wait for them.
        while self.armed.last().is_some_and(|at| *at <= now) {
            self.armed.pop();
        }
        while let Some(task) = self.table.next_expired(now) {
            self.discard(cx, task, CancelReason::Expired, &unknown_task());
        }
        self.end_left_sessions(cx);
        self.table.retry_store(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            // Before the attempts, which set it again if there is still no room.
            self.retry_at = None;
            for task in core::mem::take(&mut self.unasked) {
                self.ask(cx, task);
            }
            self.retry_notifications(cx);
        }
        self.run_next(cx);
    }

    /// Frees spare memory.
    pub(in crate::server) fn trim(&mut self) {
        self.table.trim();
    }

    /// Takes the outcome of a save.
    pub(in crate::server) fn handle_saved(
        &mut self,
        cx: &mut TaskContext<'_>,
        id: &TaskId,
        version: u32,
        is_ok: bool,
    ) {
        let milestone = self.table.handle_saved(cx.endpoint.now, id, version, is_ok);
        self.handle_milestone(cx, milestone);
        // Looked for again, because the milestone may have removed it.
        let task = TaskBits::parse(id.as_str().as_bytes()).and_then(|bits| self.table.find_bits(bits));
        if let Some(task) = task {
            self.acknowledge_saved(cx, task);
        }
    }

    /// Restores a task from its record. Returns false if it has expired.
    ///
    /// # Errors
    ///
    /// [`TaskRecordError`].
    pub(in crate::server) fn load(
        &mut self,
        cx: &mut TaskContext<'_>,
        id: &TaskId,
        record: &[u8],
    ) -> Result<bool, TaskRecordError> {
        let loaded = self.table.load(cx.endpoint.now, id, record)?.is_some();
        self.run_next(cx);
        Ok(loaded)
    }

    /// Returns the bytes that are kept for tasks, and the lengths of all tables and queues.
    #[cfg(test)]
    pub(in crate::server) fn sizes(&self, endpoint: &ServerEndpoint) -> Vec<usize> {
        let store = self.table.store.as_ref();
        let of_store = store.map_or(0, |s| s.unsaved.len() + s.retries.len() + s.pending_deletes());
        let mut sizes = alloc::vec![of_store, self.held.len(), self.leaving.len(), self.unasked.len()];
        sizes.extend([
            self.armed.len(),
            self.table.deadlines.len(),
            self.table.queue_len(),
            self.table.bytes,
        ]);
        sizes.extend([endpoint.deadlines.len(), endpoint.inbound.calls.len(), endpoint.outbound.calls.len()]);
        sizes
    }

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::server) fn check_sums(&self, endpoint: &ServerEndpoint) {
        self.table.check_sums();
        let runs = endpoint.inbound.calls.iter().filter(|(_, call)| call.channel == self.channel).count();
        assert_eq!(self.runs, runs, "the calls that run tasks");
        self.check_waiting(endpoint);
        self.listeners.check(&self.table);
    }
}

/// Returns the time to live that a call asks for: `None` if it asks for no task, and a duration if it names one.
///
/// # Errors
///
/// The error response: the value is not a positive number (TASK-008).
pub(super) fn requested_ttl(call: &Call) -> Result<Option<Option<Duration>>, RpcError> {
    let Some(params) = call.params.whole.slice(&call.frame) else { return Ok(None) };
    let Some(task) = json::member(params, "task") else { return Ok(None) };
    if task.first() != Some(&b'{') {
        return Err(RpcError::invalid_params("`params.task` is not an object"));
    }
    let mut ttl = None;
    json::object_members(task, |name, value| {
        if name == b"ttl" && value != b"null" {
            ttl = Some(value);
        }
    });
    let Some(ttl) = ttl else { return Ok(Some(None)) };
    match json::read::<f64>(ttl) {
        // Beyond the largest duration it is clamped anyway.
        Ok(millis) if millis > 0.0 => {
            Ok(Some(Some(Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(Duration::MAX))))
        }
        _ => Err(RpcError::invalid_params("`params.task.ttl` is not a positive number of milliseconds")),
    }
}

// Ends of sessions: the tasks of a session end with it, because no other party may use them.

impl ServerTasks {
    /// Ends the tasks of a session at a time, unless the server is shut down before.
    pub(in crate::server) fn end_tasks_of(&mut self, cx: &mut TaskContext<'_>, session: Key, at: Instant) {
        if at <= cx.endpoint.now {
            return self.end_session_tasks(cx, session);
        }
        // Also if it has no tasks yet: a call that still runs may become one.
        let place = self.leaving.partition_point(|(other, _)| *other <= at);
        self.leaving.insert(place, (at, session));
    }

    /// Ends the tasks of the sessions whose time is over.
    pub(super) fn end_left_sessions(&mut self, cx: &mut TaskContext<'_>) {
        let due = self.leaving.partition_point(|(at, _)| *at <= cx.endpoint.now);
        for (_, session) in self.leaving.drain(..due).collect::<Vec<_>>() {
            // After the shutdown the next process has them.
            if !self.is_closing(cx) {
                self.end_session_tasks(cx, session);
            }
        }
    }

    fn end_session_tasks(&mut self, cx: &mut TaskContext<'_>, session: Key) {
        for task in self.table.tasks_of(&Owner::Session(session)) {
            self.discard(cx, task, CancelReason::Disconnected, &RpcError::internal("the session has ended"));
        }
        self.run_next(cx);
    }
}

// Listeners of tasks: parts of `subscriptions/listen` requests (TASK-126).

/// The listeners of tasks.
///
/// Notifications are level-triggered: a listener that does not read gets the latest state when it does.
#[derive(Debug, Default)]
pub(super) struct TaskListeners {
    /// By task and channel; the value says whether a notification waits for room.
    pub(super) by_task: BTreeMap<(Key, Key, RequestId), bool>,
    by_channel: BTreeSet<(Key, RequestId, Key)>,
}

/// No key and no id is smaller: integers are before texts.
const FIRST: (Key, RequestId) = (Key { slot: 0, generation: 0 }, RequestId::int(i64::MIN));

impl TaskListeners {
    pub(super) fn add(&mut self, task: Key, channel: Key, id: &RequestId) {
        self.by_task.insert((task, channel, id.clone()), false);
        self.by_channel.insert((channel, id.clone(), task));
    }

    /// Removes the listener with this id of a channel, or all of the channel.
    pub(super) fn remove(&mut self, channel: Key, id: Option<&RequestId>) {
        let first = (channel, id.cloned().unwrap_or(FIRST.1), FIRST.0);
        let of_channel = self.by_channel.range(first..);
        let removed =
            of_channel.take_while(|(other, at, _)| *other == channel && id.is_none_or(|id| at == id));
        for (channel, id, task) in removed.cloned().collect::<Vec<_>>() {
            self.by_channel.remove(&(channel, id.clone(), task));
            self.by_task.remove(&(task, channel, id));
        }
    }

    pub(super) fn remove_task(&mut self, task: Key) {
        for (channel, id) in self.of_task(task) {
            self.by_task.remove(&(task, channel, id.clone()));
            self.by_channel.remove(&(channel, id, task));
        }
    }

    pub(super) fn of_task(&self, task: Key) -> Vec<(Key, RequestId)> {
        let first = (task, FIRST.0, FIRST.1);
        let of_task = self.by_task.range(first..).take_while(|((other, ..), _)| *other == task);
        of_task.map(|((_, channel, id), _)| (*channel, id.clone())).collect()
    }

    #[cfg(any(debug_assertions, test))]
    pub(super) fn check(&self, table: &TaskTable) {
        assert!(self.by_task.keys().all(|(task, ..)| table.get(*task).is_some()), "a listener has a task");
        assert_eq!(self.by_channel.len(), self.by_task.len(), "both indexes of listeners agree");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_a_request_or_of_a_channel_are_removed_and_no_others() {
        let key = |slot| Key { slot, generation: 0 };
        let ids = [RequestId::int(-1), RequestId::int(7), RequestId::from_json(b"\"7\"", 64).expect("an id")];
        let mut listeners = TaskListeners::default();
        listeners.remove(key(1), None);
        let mut known = Vec::new();
        for task in [10, 11] {
            for channel in [1, 2, 3] {
                for id in &ids {
                    listeners.add(key(task), key(channel), id);
                    known.push((key(task), key(channel), id.clone()));
                }
            }
        }
        for (channel, id) in
            [(2, Some(&ids[1])), (1, None), (3, Some(&ids[2])), (1, Some(&ids[0])), (2, None)]
        {
            listeners.remove(key(channel), id);
            known.retain(|(_, other, of)| *other != key(channel) || id.is_some_and(|id| of != id));
            assert!(listeners.by_task.keys().eq(&known), "{channel} {id:?}");
            assert_eq!(listeners.by_channel.len(), known.len());
        }
    }
}
