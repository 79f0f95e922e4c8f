//! Tasks: the proxy has tasks of its own for its clients, and follows those of its servers.
//!
//! A task of a client is a relayed call that goes on after its client was told of the task: the engine in front delivers it again, as
//! the run of the task. So each side has tasks in the form of its revision, or none, whatever the other one has.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use core::time::Duration;

use mcp_proto::client::{Peer, TaskRequest};
use mcp_proto::model::{Map, Task, TaskSupport};
use mcp_proto::rpc::code;
use mcp_proto::server::{Call, Engine, InputRequired, TaskLimits, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capability, ChannelId, Entropy, EntryKind, Instant, Limit,
    RawJson, RpcError, UseError, Version,
};

use super::convert;
use super::relay::{Engines, Relay, fail};
use super::relayed_call::{Delivery, DownstreamCall, RelayedCall, RetryToken};

/// How a server makes tasks of tools.
#[derive(Debug, Default)]
pub(super) struct ServerTasks {
    /// Whether calls ask for tasks. Which tools have them, or require them, the server's refusals tell.
    are_on_request: bool,
    /// Whether the server makes tasks of calls as it likes.
    are_by_itself: bool,
    /// Tools that were refused as tasks. Bounded by [`MAX_PLAIN_TOOLS`].
    plain: BTreeSet<String>,
}

impl ServerTasks {
    pub(super) fn new(peer: &Peer) -> Self {
        Self {
            are_on_request: peer.has(Capability::ToolTasks),
            are_by_itself: peer.has(Capability::TasksExtension),
            plain: BTreeSet::new(),
        }
    }
}

/// Returns whether the relay knows the call that is delivered: its client was asked, or it has become a task.
pub(super) fn is_continued(call: &Call) -> bool {
    call.attempt() > 0 || call.is_task_run()
}

impl Relay {
    /// Calls the server: a tool as a task if `form` says so, or else if the client has tasks. `origin` is the channel of the client of a
    /// task.
    pub(super) fn send(
        &mut self,
        engines: &mut Engines<'_>,
        delivery: Delivery,
        form: Option<bool>,
        origin: Option<ChannelId>,
    ) {
        let offer = delivery.call.task_offer();
        if offer == TaskOffer::Requested && self.calls.task_count() >= MAX_TASKS {
            // Before the server has begun to work on it.
            let error = self.named(RpcError::internal(format!(
                "{MAX_TASKS} tasks of this server run, and no more have room: call again when one has ended, or without a task"
            )));
            return self.fail_delivery(engines, delivery.call, delivery.others, error);
        }
        let (key, other_form) = match self.call_server(engines, &delivery, form) {
            Ok(sent) => sent,
            Err(error) => return self.fail_delivery(engines, delivery.call, delivery.others, error),
        };
        let number = self.calls.add(key, delivery, other_form, origin);
        if offer == TaskOffer::Requested {
            if let Err(refused) = self.begin_task(engines, number, TaskOptions::new()) {
                let Some(relayed) = self.calls.take(number) else { return };
                self.cancel_upstream(engines, &relayed, "it cannot become a task");
                if let DownstreamCall::Delivered(call) = &relayed.downstream {
                    fail(engines, call.id(), &convert::refused_call_error(&refused, call.method()));
                }
            }
        }
    }

    /// Calls the server, and returns the call with the other form, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error to answer the call with.
    fn call_server(
        &mut self,
        engines: &mut Engines<'_>,
        delivery: &Delivery,
        form: Option<bool>,
    ) -> Result<(CallKey, Option<bool>), RpcError> {
        let (call, now) = (&delivery.call, engines.upstream_now);
        let params = convert::convert_params(delivery, self.version, self.prefix.as_deref())?;
        let mut options = CallOptions::new();
        options.wants_progress = call.wants_progress();
        options.meta = call.application_meta();
        let is_tool = self.tasks.are_on_request && call.method() == "tools/call";
        let tool = is_tool.then(|| params.tool()).flatten();
        if let (Some(false), Some((name, _))) = (form, &tool) {
            if self.tasks.plain.len() < MAX_PLAIN_TOOLS && name.len() <= MAX_PLAIN_NAME {
                self.tasks.plain.insert(name.clone());
            }
        }
        let is_known = tool.as_ref().is_some_and(|(name, _)| !self.tasks.plain.contains(name));
        let is_task = form.unwrap_or_else(|| is_known && call.task_offer() != TaskOffer::None);
        let other_form = (tool.is_some() && form.is_none()).then_some(!is_task);
        let key = match tool.filter(|_| is_task) {
            Some((name, arguments)) => {
                engines.upstream.call_tool_as_task(now, &name, &arguments, task_request(call), &options)
            }
            None => engines.upstream.call(now, call.method(), &params, &options),
        };
        key.map(|key| (key, other_form))
            .map_err(|refused| convert::refused_call_error(&refused, call.method()))
    }

    /// Calls a tool in the other form, as a task or plainly, if its server refuses the one that it was called in. Returns whether it did.
    pub(super) fn send_in_other_form(
        &mut self,
        engines: &mut Engines<'_>,
        number: u64,
        outcome: &Result<RawJson, CallError>,
    ) -> bool {
        let is_refused =
            matches!(outcome, Err(CallError::Rpc(error)) if error.code == code::METHOD_NOT_FOUND);
        let again = is_refused.then(|| self.calls.take_other_form(number)).flatten();
        let is_sent = again.is_some();
        if let Some((delivery, form, origin)) = again {
            self.send(engines, delivery, Some(form), origin);
        }
        is_sent
    }

    /// Makes a call of a client a task, whose run is delivered next.
    ///
    /// # Errors
    ///
    /// As [`Tasks::begin`](mcp_proto::server::Tasks::begin). The call goes on as it is.
    fn begin_task(
        &mut self,
        engines: &mut Engines<'_>,
        number: u64,
        options: TaskOptions,
    ) -> Result<(), UseError> {
        let instance = self.calls.instance;
        if self.calls.task_count() >= MAX_TASKS {
            return Err(UseError::Full(Limit::Tasks));
        }
        let relayed = self.calls.get_mut(number).ok_or(UseError::Stale)?;
        let call = relayed.delivered_call().ok_or(UseError::Stale)?;
        let channel = call.channel();
        let mut kept = InputRequired::new();
        kept.set_state(RetryToken { instance, number, round: relayed.round + 1 }.encode());
        kept.begin_task(engines.downstream, engines.now, call, options)?;
        relayed.round += 1;
        relayed.origin = Some(channel);
        self.calls.suspend(number, Instant::FAR_FUTURE);
        Ok(())
    }

    /// Handles a task that a server has made of a call, or its new state: a client with tasks gets one too.
    pub(super) fn handle_task(&mut self, engines: &mut Engines<'_>, call: CallKey, task: &Task<'_>) {
        let Some(number) = self.calls.number_of(call) else { return };
        self.calls.note_work(number);
        let Some(delivered) = self.calls.get(number).and_then(RelayedCall::delivered_call) else { return };
        if delivered.task_offer() == TaskOffer::Allowed {
            let mut options = TaskOptions::new();
            options.ttl = task.time_to_live().and_then(|ttl| ttl.duration());
            options.poll_interval = task.suggested_interval();
            options.message = task.status_message.as_deref().map(str::to_owned);
            // Without room for a task the client waits for the result.
            let _ = self.begin_task(engines, number, options);
        } else if let Some(message) = &task.status_message {
            engines.downstream.tasks(engines.now).working(delivered.id(), message);
        }
    }

    /// Says in a list that its tools can be called as tasks, for a client that has to ask for them at a server that decides itself.
    pub(super) fn with_task_support<'r>(&self, result: &'r RawJson, to: Version) -> Cow<'r, RawJson> {
        if !self.tasks.are_by_itself || to != Version::V2025_11_25 {
            return Cow::Borrowed(result);
        }
        let list = EntryKind::Tool.list_member();
        let support = RawJson::encode(&Map::from([("taskSupport", TaskSupport::Optional)])).ok();
        let tools = result.member(list).and_then(|tools| tools.elements()).unwrap_or_default();
        let marked = tools
            .into_iter()
            .map(|tool| convert::with_member(&tool, "execution", support.clone()).unwrap_or(tool));
        let marked = RawJson::encode(&marked.collect::<Vec<_>>()).ok();
        convert::with_member(result, list, marked).map_or(Cow::Borrowed(result), Cow::Owned)
    }
}

/// Returns the request for a task of a server, which is kept for as long as that of the client.
fn task_request(call: &Call) -> TaskRequest {
    let ttl = call.params().and_then(|params| params.member("task")?.member("ttl")?.parse::<f64>().ok());
    let ttl = ttl.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
    ttl.into_iter().fold(TaskRequest::followed(), TaskRequest::ttl)
}

/// Gives an engine that faces clients the tasks that a relay makes of calls, if its configuration has tasks. Call it before the first
/// message arrives.
///
/// At most 512 calls of one server are tasks that have not ended. A further call that asks for a task is refused, and one that may become
/// a task is answered with its result.
pub fn set_tasks(engine: &mut Engine, now: Instant, entropy: Entropy, anchor: Anchor) {
    if engine.config().effective_capabilities().has(Capability::TasksExtension) {
        // The run of a task is delivered at once: the server does the work. So all of them may run.
        let limits = TaskLimits::new().max_running(TaskLimits::new().max_tasks);
        engine.set_tasks(now, TaskTable::new(entropy, anchor).limits(limits));
    }
}

/// Maximum number of tasks that a relay has made of calls and that have not ended. The engines have room for as many plain calls beside them.
const MAX_TASKS: usize = 512;
/// Maximum number of tools that are remembered as ones that run as no tasks.
const MAX_PLAIN_TOOLS: usize = 4_096;
/// Maximum length of the name of such a tool in bytes.
const MAX_PLAIN_NAME: usize = 256;
