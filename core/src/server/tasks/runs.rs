//! Runs of tasks: calls of the engine itself, which are answered as others are.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;

use super::entry::{
    Acknowledgement, Held, Owner, Question, TaskEntry, TaskOutcome, TaskPeers, TaskRequest, TaskState,
};
use super::host::{ServerTasks, requested_ttl};
use super::requests::TaskOptions;
use super::store::{Detail, text_room, write_members, write_related_task};
use super::table::{NewTask, error_outcome};
use super::{CallTask, RunAnswer, RunId, TaskContext, TaskOffer, TaskRequestFrame};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{CallId, InboundCall, NotificationThrottle, Progress, SendStatus};
use crate::calls::observing::continue_direct_answer;
use crate::error::{CallError, UseError};
use crate::json::object_members;
use crate::methods::{self, Capability};
use crate::model::InputRequests;
use crate::rpc::{RequestId, RpcError, envelope};
use crate::server::authorization::Caller;
use crate::server::channel::ServerEndpoint;
use crate::server::event::{Call, Event};
use crate::server::log;
use crate::server::parked::encode_requests;
use crate::server::receive::{CarriedAnswer, RetryContext};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// The message that a run is rebuilt as, before and after its parameters.
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":";

/// Shortest time between two notifications of which only the message differs.
const MESSAGE_INTERVAL: core::time::Duration = core::time::Duration::from_secs(1);

impl ServerTasks {
    /// Makes a call a task: its client is told, and the call is delivered again as a run of the task.
    ///
    /// # Errors
    ///
    /// The call stays open. [`UseError::Stale`], [`UseError::Full`], [`UseError::MissingPeerCapability`] without an
    /// offer.
    pub(in crate::server) fn begin_task(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: &Call,
        options: TaskOptions,
    ) -> Result<(), UseError> {
        let record = cx.endpoint.inbound.calls.get(call.id.0).ok_or(UseError::Stale)?;
        // Without a store it would end with the server, and its client would wait for nothing.
        if self.is_closing(cx) && self.table.store.is_none() {
            return Err(UseError::Closed);
        }
        if call.task_offer() == TaskOffer::None {
            let missing = if call.version < Version::V2026_07_28 {
                Capability::ToolTasks
            } else {
                Capability::TasksExtension
            };
            return Err(UseError::MissingPeerCapability(missing));
        }
        let (version, channel, token) = (call.version, call.channel.0, record.progress_token.clone());
        let newest_progress = newest_progress(record);
        let is_legacy = version < Version::V2026_07_28;
        // Valid if it is there: `offer` has refused any other value with the request.
        let asked = if is_legacy { requested_ttl(call).ok().flatten().flatten() } else { None };
        let runs_at_once = self.table.store.is_none() && self.table.has_place();
        let mut request = (!runs_at_once).then(|| keep(call));
        if let Some(request) = &mut request {
            self.table.share_meta(request);
        }
        let new = NewTask {
            version,
            // The principal of the channel may be another one by now.
            owner: Self::party_of(cx.endpoint, call.authorization(), channel, version),
            ttl: options.ttl.or(asked),
            poll_interval: options.poll_interval,
            message: options.message,
            session: is_legacy.then(|| cx.endpoint.root_channel(channel)),
            request,
        };
        let task = self.table.create(cx.endpoint.now, new)?;
        if let (Some(token), Some(entry)) = (token.filter(|_| is_legacy), self.table.get_mut(task)) {
            // TASK-033, TASK-127
            let progress_token = Some(token);
            entry.peers =
                Some(Box::new(TaskPeers { progress_token, newest_progress, ..TaskPeers::default() }));
        }
        if self.table.store.is_some() {
            // Its client may learn of a task only when a restart would not lose it.
            return hold_until_stored(self, cx, call.id.0, task);
        }
        // The client hears of the task before its run can tell it anything.
        self.announce(cx, call.id.0, task);
        // `has_place` has found the queue empty, so this task is the next one.
        if runs_at_once && self.table.take_turn() == Some(task) {
            // The message of the call is used as it is.
            let params = call.params;
            let origin = (call.caller.authorization.clone(), call.caller.peer_ip());
            self.deliver(cx, task, call.frame.clone(), params, call.retry.clone(), origin);
        } else {
            self.run_next(cx);
        }
        Ok(())
    }

    /// Runs the tasks that have their turn.
    pub(super) fn run_next(&mut self, cx: &mut TaskContext<'_>) {
        while !self.is_closing(cx) {
            let Some(task) = self.table.take_turn() else { return };
            self.run_again(cx, task);
        }
    }

    /// Delivers the call of a task from what is kept for it.
    pub(super) fn run_again(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        if self.is_closing(cx) {
            // It runs after the restart.
            return self.table.postpone(task);
        }
        let Some(request) = self.table.take_request(task) else { return };
        let TaskRequest { params, meta, attempt, state, answers, authorization, creator_ip, .. } = request;
        let mut frame = Vec::with_capacity(HEAD.len() + params.len() + 1);
        frame.extend_from_slice(HEAD);
        match &meta {
            Some((at, meta)) => {
                let (head, tail) = params.split_at_checked(*at as usize).unwrap_or((&params, b""));
                frame.extend_from_slice(head);
                frame.extend_from_slice(meta);
                frame.extend_from_slice(tail);
            }
            None => frame.extend_from_slice(&params),
        }
        frame.push(b'}');
        let frame = cx.endpoint.memory.hold(Bytes::from(frame));
        let Ok(params) = envelope::parse(&frame, &cx.endpoint.limits, None).map(|envelope| envelope.params)
        else {
            // Only a record of a store can be wrong.
            let error = error_outcome(&RpcError::internal("the stored call cannot be read"));
            return self.end_run(cx, task, error);
        };
        let retry = Box::new(RetryContext { attempt, state: state.into(), answers, requested_keys: None });
        self.deliver(cx, task, frame, params, Some(retry), (authorization, creator_ip));
    }

    fn deliver(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        frame: Bytes,
        params: envelope::ParamsSpans,
        retry: Option<Box<RetryContext>>,
        (authorization, creator_ip): (Option<crate::server::Authorization>, Option<IpAddr>),
    ) {
        let Some(entry) = self.table.get_mut(task) else { return };
        let (version, run) = (entry.version, RunId(entry.head.id));
        let newest_progress = entry.peers.as_ref().and_then(|peers| peers.newest_progress);
        let throttle = newest_progress.map(|last_progress| {
            let new = NotificationThrottle::new(cx.endpoint.now, &cx.endpoint.limits);
            Box::new(NotificationThrottle { last_progress, ..new })
        });
        // Unique while the task exists, and no secret.
        let id = RequestId::int(i64::from_ne_bytes(u64::from(task).to_ne_bytes()));
        // Without a deadline: the task has an expiry of its own, which ends its run.
        let begun = cx.endpoint.begin_call(InboundCall {
            progress_token: entry.peers.as_ref().and_then(|peers| peers.progress_token.clone()),
            throttle,
            log_threshold: log::NONE,
            ..InboundCall::new(id, self.channel, version)
        });
        let Some(key) = begun else {
            let error = error_outcome(&RpcError::internal("the server is shutting down"));
            return self.end_run(cx, task, error);
        };
        entry.run = Some(key);
        self.runs += 1;
        cx.events.push_back(Event::Call(Call {
            id: CallId(key),
            channel: ChannelId(self.channel),
            version,
            method: methods::TOOLS_CALL.into(),
            frame,
            params,
            retry,
            caller: Caller { authorization, is_resumed: true, creator_ip, ..Caller::default() },
            task: CallTask::Run(run),
        }));
    }

    /// Returns the task that a call runs.
    pub(super) fn task_of_run(&self, endpoint: &ServerEndpoint, run: Key) -> Option<Key> {
        let id = endpoint.inbound.calls.get(run)?.id.as_int()?;
        let task = Key::from(u64::from_ne_bytes(id.to_ne_bytes()));
        // An earlier run of the task had the same id, and another key.
        self.table.get(task).filter(|entry| entry.run == Some(run)).map(|_| task)
    }

    /// Ends a run with the answer of its handler.
    pub(in crate::server) fn finish(&mut self, cx: &mut TaskContext<'_>, run: Key, answer: RunAnswer<'_>) {
        let task = self.task_of_run(cx.endpoint, run);
        if cx.endpoint.end_call(run).is_some() {
            self.runs = self.runs.saturating_sub(1);
        }
        cx.ended.push(self.channel);
        let Some(task) = task else { return };
        let outcome = match answer {
            RunAnswer::Error(error) => error_outcome(error),
            RunAnswer::Result(text) => {
                let mut failed = false;
                object_members(text, |name, value| failed |= name == b"isError" && value == b"true");
                TaskOutcome::Result(text.into(), failed)
            }
        };
        self.end_run(cx, task, outcome);
    }

    pub(super) fn end_run(&mut self, cx: &mut TaskContext<'_>, task: Key, outcome: TaskOutcome) {
        if self.table.finish(cx.endpoint.now, task, outcome) {
            self.show_end(cx, task);
        }
        self.run_next(cx);
    }

    /// Keeps what a handler needs to run again when its questions are answered.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`], [`UseError::ReservedKey`] or an encoding error.
    pub(in crate::server) fn suspend(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: &[CarriedAnswer<'_>],
    ) -> Result<(), UseError> {
        let task = self.task_of_run(cx.endpoint, call.id.0).ok_or(UseError::Stale)?;
        let mut request = keep(call);
        request.state = state.into();
        let owned =
            |(key, answer): &CarriedAnswer<'_>| ((*key).into(), answer.cloned().map_err(CallError::clone));
        request.answers = answers.iter().map(owned).collect();
        for encoded in encode_requests(requests, call.version)? {
            request.questions.push(Question {
                name: encoded.name,
                key: None,
                method: encoded.method,
                params: (&*encoded.params).into(),
                answer: None,
                asked: None,
            });
        }
        // The last refusal, because the run ends below.
        self.table.suspend(cx.endpoint.now, task, request)?;
        if let Some(record) = cx.endpoint.end_call(call.id.0) {
            self.runs = self.runs.saturating_sub(1);
            if let Some(peers) = self.table.get_mut(task).and_then(|entry| entry.peers.as_mut()) {
                peers.newest_progress = newest_progress(&record);
            }
        }
        cx.ended.push(self.channel);
        if self.table.get(task).is_some_and(|entry| entry.state == TaskState::Asking) {
            self.ask(cx, task);
            self.notify(cx, task);
        }
        self.run_next(cx);
        Ok(())
    }

    /// Sets the message of the task that a call runs, and tells those who want to know, at most once a second.
    pub(in crate::server) fn change_message(
        &mut self,
        cx: &mut TaskContext<'_>,
        run: Key,
        message: &str,
    ) -> bool {
        let Some(task) = self.task_of_run(cx.endpoint, run) else { return false };
        let now = cx.endpoint.now;
        if !self.table.set_message(now, task, message) {
            return false;
        }
        let limits = cx.endpoint.limits.clone();
        let record = cx.endpoint.inbound.calls.get_mut(run);
        let throttle = record.map(|record| {
            record.throttle.get_or_insert_with(|| Box::new(NotificationThrottle::new(now, &limits)))
        });
        // The time of the last notification is kept with the throttle of the run.
        let is_due = throttle.is_some_and(|throttle| {
            let is_due = throttle.message_told_at.is_none_or(|last| now >= last + MESSAGE_INTERVAL);
            if is_due {
                throttle.message_told_at = Some(now);
            }
            is_due
        });
        if is_due {
            self.notify(cx, task);
        }
        true
    }

    /// Sends progress of a run to the session that created its task and asked for it (TASK-033), or defers it.
    ///
    /// It is dropped while the client of the session reads none of its streams.
    pub(in crate::server) fn report_progress(
        &self,
        cx: &mut TaskContext<'_>,
        run: Key,
        progress: Progress,
    ) -> SendStatus {
        let entry = self.task_of_run(cx.endpoint, run).and_then(|task| self.table.get(task));
        let Some((entry, channel)) = entry.and_then(|entry| Some((entry, progress_channel(cx, entry)?)))
        else {
            return SendStatus::Dropped;
        };
        let mut meta = Vec::new();
        write_related_task(&mut meta, entry);
        cx.endpoint.report_progress(run, progress, Some((channel, &meta))).unwrap_or(SendStatus::Dropped)
    }

    /// Sends the progress of a run that was held back, if that is possible now.
    pub(in crate::server) fn send_deferred_progress(&self, cx: &mut TaskContext<'_>, run: Key) {
        let entry = self.task_of_run(cx.endpoint, run).and_then(|task| self.table.get(task));
        if let Some(channel) = entry.and_then(|entry| progress_channel(cx, entry)) {
            return cx.endpoint.send_deferred(run, Some(channel));
        }
        // Its stream has ended since, and there may never be another.
        let throttle = cx.endpoint.inbound.calls.get_mut(run).and_then(|record| record.throttle.as_mut());
        if let Some(throttle) = throttle {
            (throttle.deferred_progress, throttle.due_at) = (None, None);
        }
    }
}

/// Returns the largest progress of a call that was sent or is held back.
fn newest_progress(call: &InboundCall) -> Option<f64> {
    call.throttle.as_ref().map(|throttle| throttle.newest_progress())
}

/// Returns the channel for progress of a task: the first with room that its session reads, or the first of them.
///
/// Messages about a task may use any stream of its session (TASK-037).
fn progress_channel(cx: &TaskContext<'_>, entry: &TaskEntry) -> Option<Key> {
    let session = entry.session?;
    let get_stream = cx.endpoint.channels.get(session);
    let is_read = get_stream.is_some_and(|c| !c.role.stream.has_no_get_stream() && c.input_end.is_none());
    let collectors = entry.peers.as_ref().map_or(&[][..], |peers| &peers.collectors);
    let streams = collectors.iter().filter_map(|call| Some(cx.endpoint.inbound.calls.get(*call)?.channel));
    // Another session may wait for the result, too; the token is not one of its requests.
    let streams = streams.filter(|stream| {
        let is_reachable = cx.endpoint.channels.get(*stream).is_some_and(|c| !c.role.stream.is_unreachable());
        is_reachable && cx.endpoint.root_channel(*stream) == session
    });
    let mut all = streams.chain(is_read.then_some(session));
    let high_water = cx.endpoint.limits.outbox_high_water;
    let has_room =
        |channel: &Key| cx.endpoint.channels.get(*channel).is_some_and(|c| c.outbox.len() < high_water);
    let first = all.next()?;
    Some(if has_room(&first) { first } else { all.find(has_room).unwrap_or(first) })
}

/// Holds the answer to a call that became a task until the store has the task.
fn hold_until_stored(
    tasks: &mut ServerTasks,
    cx: &mut TaskContext<'_>,
    call: Key,
    task: Key,
) -> Result<(), UseError> {
    // The key of the application is stale from now on.
    let held = cx.endpoint.rekey(call).ok_or(UseError::Stale)?;
    // A store that hangs must not hold the call for longer; the deadline was armed with the old key.
    let expires = cx.endpoint.inbound.calls.get(held).map(|call| call.expires_at);
    if let Some(expires) = expires.filter(|at| *at < Instant::FAR_FUTURE) {
        cx.endpoint.deadlines.arm(expires, EndpointTimer::CallAge(held));
    }
    tasks.held.insert_creation(held, task);
    if let Some(entry) = tasks.table.get_mut(task) {
        entry.peers_mut().creator = Some(held);
    }
    Ok(())
}

/// Returns what is kept of a call, so that it can be delivered again.
fn keep(call: &Call) -> TaskRequest {
    let whole = call.params.whole.slice(&call.frame).unwrap_or(b"{}");
    let mut request = TaskRequest {
        authorization: call.caller.authorization.clone(),
        creator_ip: call.caller.peer_ip(),
        ..TaskRequest::default()
    };
    // Without `_meta` it wraps, and is not used.
    let at = call.params.meta.whole.start.wrapping_sub(call.params.whole.start);
    match call.params.meta.whole.slice(&call.frame) {
        Some(meta) => {
            let (head, rest) = whole.split_at_checked(at as usize).unwrap_or((whole, b""));
            let tail = rest.get(meta.len()..).unwrap_or_default();
            request.params = [head, tail].concat().into();
            request.meta = Some((at, meta.into()));
        }
        None => request.params = whole.into(),
    }
    if let Some(retry) = &call.retry {
        (request.attempt, request.state) = (retry.attempt, retry.state.as_slice().into());
        request.answers.clone_from(&retry.answers);
    }
    request
}

// Requests and calls that wait for a task: for its result, or until the store has a change.

impl ServerTasks {
    /// Begins a call that waits for a task. It ends with the task at the latest.
    ///
    /// # Errors
    ///
    /// The error response: too many requests wait, of this party or in all. Nothing has changed.
    pub(super) fn hold(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        version: Version,
        held: Held,
    ) -> Result<Key, RpcError> {
        let party = match Self::party(cx.endpoint, request.source.channel, version) {
            // Nothing but its connection tells it from others.
            Owner::Holder => Owner::Session(request.source.root),
            party => party,
        };
        let is_full = self.held.len() >= cx.endpoint.limits.max_live_calls as usize;
        if is_full || self.held.of_party(held, &party) >= self.table.limits.max_waiting_requests {
            return Err(RpcError::internal("too many requests wait for tasks"));
        }
        let call = Self::begin_call(cx, request, version)?;
        self.held.insert(call, held, party);
        Ok(call)
    }

    pub(super) fn begin_call(
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        version: Version,
    ) -> Result<Key, RpcError> {
        let begun = cx.endpoint.begin_call(InboundCall {
            batch: request.source.batch,
            log_threshold: log::NONE,
            ..InboundCall::new(request.id.clone(), request.source.channel, version)
        });
        let key = begun.ok_or_else(|| RpcError::internal("the connection has ended"))?;
        continue_direct_answer(cx.endpoint, key);
        Ok(key)
    }

    /// Answers a request that changed a task, as soon as the store has the change (TASK-029, TASK-118, TASK-123).
    pub(super) fn acknowledge_when_saved(&mut self, cx: &mut TaskContext<'_>, call: Key, task: Key) {
        match self.table.get_mut(task) {
            Some(entry) if !entry.is_saved() => {
                let revision = entry.revision;
                entry.peers_mut().acknowledgements.push(Acknowledgement { call, revision });
            }
            entry => {
                self.held.remove(call);
                Self::acknowledge(cx, call, entry.as_deref());
            }
        }
    }

    /// Answers the requests whose changes of a task the store has.
    pub(super) fn acknowledge_saved(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        let Some(entry) = self.table.get_mut(task) else { return };
        let saved = entry.saved;
        let Some(peers) = entry.peers.as_mut().filter(|peers| !peers.acknowledgements.is_empty()) else {
            return;
        };
        let (done, waiting): (Vec<_>, Vec<_>) =
            core::mem::take(&mut peers.acknowledgements).into_iter().partition(|a| a.revision <= saved);
        peers.acknowledgements = waiting;
        for Acknowledgement { call, .. } in done {
            self.held.remove(call);
            Self::acknowledge(cx, call, self.table.get(task));
        }
    }

    /// Ends a call with the task (2025-11-25) or with an empty result.
    ///
    /// The empty result is without `_meta`: clients of rmcp before 3.9 take one with the identity of the server for the
    /// result of another method, and fail.
    fn acknowledge(cx: &mut TaskContext<'_>, call: Key, task: Option<&TaskEntry>) {
        Self::respond(cx, call, task.map_or(0, text_room), |out| {
            match task.filter(|task| task.version < Version::V2026_07_28) {
                Some(task) => {
                    out.push(b'{');
                    write_members(out, task, Detail::Bare);
                    out.push(b'}');
                }
                None => out.extend_from_slice(b"{\"resultType\":\"complete\"}"),
            }
        });
    }

    /// Forgets a call that waits for a task. Returns false if it does not wait.
    pub(super) fn forget_held(&mut self, call: Key) -> bool {
        let Some(held) = self.held.remove(call) else { return false };
        let peers = self.table.get_mut(held.task()).and_then(|entry| entry.peers.as_mut());
        match (held, peers) {
            // Its client never learns the id.
            (Held::Creation(task), _) => _ = self.table.remove(task),
            (Held::Result(_), Some(peers)) => peers.collectors.retain(|other| *other != call),
            (Held::Change(_), Some(peers)) => peers.acknowledgements.retain(|other| other.call != call),
            (_, None) => {}
        }
        true
    }

    /// Refuses everything that waits for a task, which is about to be removed.
    pub(super) fn refuse_waiting(&mut self, cx: &mut TaskContext<'_>, task: Key, error: &RpcError) {
        let peers = self.table.get_mut(task).and_then(|entry| entry.peers.take()).unwrap_or_default();
        if let Some(call) = peers.creator {
            self.held.remove(call);
            Self::refuse(cx, call, &RpcError::internal("the task could not be stored in time"));
        }
        let changes = peers.acknowledgements.into_iter().map(|change| change.call);
        for call in peers.collectors.into_iter().chain(changes) {
            self.held.remove(call);
            Self::refuse(cx, call, error);
        }
    }

    #[cfg(any(debug_assertions, test))]
    pub(super) fn check_waiting(&self, endpoint: &ServerEndpoint) {
        self.held.check();
        for (call, held) in self.held.iter() {
            assert!(endpoint.inbound.calls.get(call).is_some(), "a held call is in flight");
            let peers = self.table.get(held.task()).and_then(|entry| entry.peers.as_ref());
            assert!(
                peers.is_some_and(|peers| match held {
                    Held::Creation(_) => peers.creator == Some(call),
                    Held::Result(_) => peers.collectors.contains(&call),
                    Held::Change(_) => peers.acknowledgements.iter().any(|change| change.call == call),
                }),
                "a held call waits for a task"
            );
        }
    }
}
