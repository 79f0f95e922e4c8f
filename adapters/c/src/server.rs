//! The functions of a server.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ffi::c_char;
use core::time::Duration;

use mcp_proto::model::{CallToolResult, ElicitParams, InputRequest, InputRequests, LoggingLevel};
use mcp_proto::pipe::Server;
use mcp_proto::server::{Call, CancelReason, Engine, Event, TaskOffer, TaskOptions};
use mcp_proto::{CallId, Change, Instant, Progress, RawJson, RpcError, UseError};

use crate::config::{ServerSetup, mcp_config, read_server};
use crate::event::mcp_event_kind::*;
use crate::event::{
    MCP_CHANGE_PROMPTS, MCP_CHANGE_RESOURCE, MCP_CHANGE_RESOURCES, MCP_CHANGE_TOOLS, MCP_EVENT_SUBSCRIBED,
    MCP_EVENT_TASK_ALLOWED, MCP_EVENT_TASK_REQUESTED, MCP_EVENT_TASK_RUN, MCP_EVENT_WANTS_PROGRESS,
    mcp_event, mcp_peer,
};
use crate::handle::{self, State};
use crate::json::copy_string;
use crate::slice::{Kept, check_output, mcp_slice, output};
use crate::status::mcp_status::{self, MCP_DONE, MCP_OK};
use crate::status::{Failure, call_status};
use crate::stream::{self, at};

/// A server on a byte stream. Only one thread may use it at a time.
pub struct mcp_server {
    _opaque: [u8; 0],
}

/// The state behind a server.
pub(crate) struct ServerState {
    pipe: Server,
    /// Calls that C knows and that have not ended, by their ids.
    calls: BTreeMap<u64, Arc<Call>>,
    ids: BTreeMap<CallId, u64>,
    last_id: u64,
    is_closed: bool,
    has_ended: bool,
    /// The call of the last event, whose memory its slices point to.
    event_call: Option<Arc<Call>>,
    event_memory: Kept,
    /// Memory of what a function read last.
    read_memory: Kept,
}

impl State for ServerState {
    type Opaque = mcp_server;
    const TAG: usize = 0x4d43_5053;
}

impl stream::StreamState for ServerState {
    type Pipe = Server;

    fn pipe(&mut self) -> &mut Server {
        &mut self.pipe
    }

    fn release_event(&mut self) {
        self.event_call = None;
        self.event_memory.clear();
    }

    fn translate(&mut self, event: Event) -> Option<mcp_event> {
        let memory = &mut self.event_memory;
        Some(match event {
            Event::Call(call) => self.deliver(call),
            Event::Cancelled { call, reason } => {
                let id = self.ids.remove(&call)?;
                self.calls.remove(&id);
                let text = memory.text(describe_cancellation(&reason));
                mcp_event { call: id, text, ..mcp_event::new(MCP_EVENT_CALL_CANCELLED) }
            }
            Event::ParkedCallDropped { state } => {
                mcp_event { text: memory.keep(state.into_vec()), ..mcp_event::new(MCP_EVENT_INPUT_DROPPED) }
            }
            Event::SessionOpened { version, .. } => {
                let text = memory.text(version.as_str());
                mcp_event { text, ..mcp_event::new(MCP_EVENT_SESSION_OPENED) }
            }
            Event::Notification(notification) => mcp_event {
                method: memory.text(&notification.method),
                json: memory.json(notification.params),
                ..mcp_event::new(MCP_EVENT_NOTIFICATION)
            },
            Event::ResourceInterest { uri, is_subscribed } => mcp_event {
                text: memory.keep(uri),
                flags: if is_subscribed { MCP_EVENT_SUBSCRIBED } else { 0 },
                ..mcp_event::new(MCP_EVENT_RESOURCE_INTEREST)
            },
            Event::Diagnostic { diagnostic, .. } => mcp_event {
                text: memory.keep(diagnostic.to_string()),
                ..mcp_event::new(MCP_EVENT_DIAGNOSTIC)
            },
            Event::Closed { channel, fault } => {
                if channel != self.pipe.channel() {
                    return None;
                }
                self.is_closed = true;
                mcp_event { text: memory.keep(fault.to_string()), ..mcp_event::new(MCP_EVENT_CLOSED) }
            }
            // This library sends no requests of its own.
            _ => return None,
        })
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn has_ended(&mut self) -> &mut bool {
        &mut self.has_ended
    }
}

impl ServerState {
    fn new(setup: ServerSetup, now: Instant) -> Self {
        let mut pipe = Server::new(Arc::new(setup.config), now);
        if let Some(tasks) = setup.tasks {
            pipe.engine().set_tasks(now, tasks);
        }
        Self {
            pipe,
            calls: BTreeMap::new(),
            ids: BTreeMap::new(),
            last_id: 0,
            is_closed: false,
            has_ended: false,
            event_call: None,
            event_memory: Kept::default(),
            read_memory: Kept::default(),
        }
    }

    fn call(&self, id: u64) -> Result<Arc<Call>, Failure> {
        self.calls.get(&id).cloned().ok_or_else(Failure::stale)
    }

    /// Forgets a call that has ended.
    fn end_call(&mut self, id: u64) {
        if let Some(call) = self.calls.remove(&id) {
            self.ids.remove(&call.id());
        }
    }

    fn deliver(&mut self, call: Call) -> mcp_event {
        self.last_id += 1;
        let id = self.last_id;
        let call = Arc::new(call);
        self.ids.insert(call.id(), id);
        self.calls.insert(id, Arc::clone(&call));

        let mut flags = if call.wants_progress() { MCP_EVENT_WANTS_PROGRESS } else { 0 };
        flags |= match call.task_offer() {
            TaskOffer::None => 0,
            TaskOffer::Requested => MCP_EVENT_TASK_ALLOWED | MCP_EVENT_TASK_REQUESTED,
            _ => MCP_EVENT_TASK_ALLOWED,
        };
        if call.is_task_run() {
            flags |= MCP_EVENT_TASK_RUN;
        }
        let mut event = mcp_event {
            call: id,
            flags,
            attempt: call.attempt(),
            method: mcp_slice::of(call.method().as_bytes()),
            json: self.event_memory.json(call.params()),
            ..mcp_event::new(MCP_EVENT_CALL)
        };
        // A call without these is one of another method, or is not valid: then they stay empty.
        if let Ok(tool) = call.tool_call() {
            event.name = self.event_memory.text(&tool.name);
            event.arguments = mcp_slice::of(tool.arguments);
        }
        self.event_call = Some(call);
        event
    }
}

fn describe_cancellation(reason: &CancelReason) -> &str {
    match reason {
        CancelReason::Client(reason) => reason.as_deref().unwrap_or_default(),
        CancelReason::Disconnected => "the client is gone",
        CancelReason::Expired => "the call took too long",
        CancelReason::Shutdown => "the server is shutting down",
        _ => "cancelled",
    }
}

/// Creates a server on a byte stream.
///
/// `now` is in microseconds of a monotonic clock, here and everywhere: any epoch will do, the same for all functions of
/// a handle. An older `now` counts as the last one; a debug build of the library ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_new(
    config: *const mcp_config,
    now: u64,
    server: *mut *mut mcp_server,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::create(server, || Ok(ServerState::new(read_server(config, at(now))?, at(now)))) }
}

/// Frees a server. Null is ignored. `MCP_ERROR_BUSY` if another thread uses it: then it is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_free(server: *mut mcp_server) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::free::<ServerState>(server) }
}

/// Copies the message of the last error of this handle into `buffer`, with a NUL. It is cut to `capacity` bytes
/// (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_last_error(
    server: *const mcp_server,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::last_error::<ServerState>(server, buffer, capacity, length) }
}

/// Takes bytes that were read. They are copied, and decoded by `mcp_server_poll_event`.
///
/// Read only while `mcp_server_wants_input`, or what waits here has no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_handle_input(
    server: *mut mcp_server,
    now: u64,
    data: *const u8,
    len: usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_input::<ServerState>(server, now, data, len) }
}

/// Reports the end of the input. Calls that are open may be answered for 5 s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_handle_eof(server: *mut mcp_server, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_eof::<ServerState>(server, now) }
}

/// Processes the deadlines that have passed. Early calls have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_handle_timeout(server: *mut mcp_server, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_timeout::<ServerState>(server, now) }
}

/// Records that the caller does not read at present, so that silence of the client is no missed ping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_hold_keep_alive(server: *mut mcp_server, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::hold_keep_alive::<ServerState>(server, now) }
}

/// Stores the next event in `event`. `MCP_DONE` if there is none until there is more input or time has passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_poll_event(
    server: *mut mcp_server,
    now: u64,
    event: *mut mcp_event,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::poll_event::<ServerState>(server, now, event) }
}

/// Stores when `mcp_server_handle_timeout` is to be called. `MCP_DONE` if nothing waits for a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_poll_timeout(server: *mut mcp_server, deadline: *mut u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::poll_timeout::<ServerState>(server, deadline) }
}

/// Stores the bytes to write next. They are valid until the next function on this handle. `MCP_DONE` if there are none.
///
/// Call `mcp_server_consume` with the number of bytes that were written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_transmit(server: *mut mcp_server, bytes: *mut mcp_slice) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::transmit::<ServerState>(server, bytes) }
}

/// Removes the first `count` bytes of what `mcp_server_transmit` stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_consume(server: *mut mcp_server, count: usize) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::consume::<ServerState>(server, count) }
}

/// Returns whether to read. False holds the client back until calls are answered or output is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_wants_input(server: *const mcp_server) -> bool {
    // SAFETY: the rules of this library.
    unsafe { stream::wants_input::<ServerState>(server) }
}

/// Returns whether the connection is finished: closed, no call open, nothing to write, no event left. True for a handle
/// that cannot be used, so that no loop waits for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_is_drained(server: *const mcp_server) -> bool {
    // SAFETY: the rules of this library.
    unsafe { stream::is_drained::<ServerState>(server) }
}

/// Refuses new requests, and ends the connection when all calls are answered, or after `grace` microseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_shutdown(server: *mut mcp_server, now: u64, grace: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::end::<ServerState>(server, |pipe| pipe.shutdown(at(now), Duration::from_micros(grace))) }
}

/// Answers a call with a result: a JSON object. The library adds what the revision requires in every result.
///
/// Members that the revision of the client does not have are sent as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_respond(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    result: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let result = result.object()?;
            state.answer_call(call, |engine, call| engine.complete_raw(at(now), call.id(), &result))
        })
    }
}

/// Answers a call of a tool with one block of text. `is_error` says that the tool failed, which a model can read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_respond_text(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    text: mcp_slice,
    is_error: bool,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let text = text.text()?;
            let result = if is_error { CallToolResult::error(text) } else { CallToolResult::text(text) };
            state.answer_call(call, |engine, call| engine.complete(at(now), call.id(), &result))
        })
    }
}

/// Answers a call of a tool with a JSON object as its structured result, and as text for clients that know no structured
/// results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_respond_structured(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    structured: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let result = CallToolResult::structured(structured.object()?);
            state.answer_call(call, |engine, call| engine.complete(at(now), call.id(), &result))
        })
    }
}

/// Answers a call with an error: a code of JSON-RPC or of the application, a sentence, and JSON data or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_respond_error(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    code: i64,
    message: mcp_slice,
    data: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let mut error = RpcError::new(code, message.text()?.to_owned());
            if let Some(data) = data.optional_json()? {
                error = error.with_data(data);
            }
            state.answer_call(call, |engine, call| engine.fail(at(now), call.id(), &error))
        })
    }
}

/// Reports progress of a call. A negative `total` is not known; `message` may be empty.
///
/// Sent only if the client asks for it and `progress` is higher than before, and not too often.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_progress(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    progress: f64,
    total: f64,
    message: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            if !progress.is_finite() || !total.is_finite() {
                return Err(Failure::argument("the progress is not a number"));
            }
            let mut report = Progress::new(progress);
            if total >= 0.0 {
                report = report.with_total(total);
            }
            if let Some(message) = message.optional_text()? {
                report = report.with_message(message);
            }
            let key = state.call(call)?.id();
            state.pipe.engine().progress(at(now), key, report)?;
            Ok(MCP_OK)
        })
    }
}

/// Sends a log message about a call; for `call` 0 one about none, which only clients of revisions up to 2025-11-25 get.
///
/// `level` is that of RFC 5424: `debug`, `info`, `warning`, `error` and others. `data` is any JSON value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_log(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    level: mcp_slice,
    logger: mcp_slice,
    data: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let level = LoggingLevel::from(level.text()?);
            let (logger, data) = (logger.optional_text()?, data.json()?);
            #[expect(deprecated, reason = "supported until its removal")]
            if call == 0 {
                let channel = state.pipe.channel();
                state.pipe.engine().log_session(at(now), channel, &level, logger, &data)?;
            } else {
                let key = state.call(call)?.id();
                state.pipe.engine().log(at(now), key, &level, logger, &data)?;
            }
            Ok(MCP_OK)
        })
    }
}

/// Publishes a change to the subscribers: `MCP_CHANGE_…`, with the URI for a resource and nothing otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_publish(
    server: *mut mcp_server,
    now: u64,
    change: u32,
    uri: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let change = match (change, uri.optional_text()?) {
                (MCP_CHANGE_TOOLS, None) => Change::Tools,
                (MCP_CHANGE_PROMPTS, None) => Change::Prompts,
                (MCP_CHANGE_RESOURCES, None) => Change::Resources,
                (MCP_CHANGE_RESOURCE, Some(uri)) => Change::Resource(uri.to_owned()),
                _ => {
                    return Err(Failure::argument(
                        "an unknown change, or a URI that is missing or of no use",
                    ));
                }
            };
            state.pipe.engine().publish(at(now), &change);
            Ok(MCP_OK)
        })
    }
}

/// Sends a notification with a custom method. `params` is a JSON object or empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_notify(
    server: *mut mcp_server,
    now: u64,
    method: mcp_slice,
    params: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let (method, params) = (method.text()?, params.optional_json()?);
            let channel = state.pipe.channel();
            state.pipe.engine().notify(at(now), channel, method, params.as_ref())?;
            Ok(MCP_OK)
        })
    }
}

/// Asks the client for input that a call needs. The call is delivered again with the answers, under a new id.
///
/// `requests` is a JSON object: by keys of your choice, objects with `method` and `params`, as the specification has
/// them. `state` is any bytes for the next delivery; to keep some, a server needs `mcp_config.entropy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_ask(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    requests: mcp_slice,
    state: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |server| {
            let (requests, kept) = (requests.object()?, state.bytes()?);
            let requests: InputRequests<'_> = requests.parse().map_err(Failure::value)?;
            server.answer_call(call, |engine, call| engine.need_input(at(now), call, &requests, kept))
        })
    }
}

/// Asks the user of the client to fill in a form: `mcp_server_ask` with one elicitation.
///
/// `schema` is a JSON object with the fields: `{"type":"object","properties":{"name":{"type":"string"}}}`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_elicit(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    key: mcp_slice,
    message: mcp_slice,
    schema: mcp_slice,
    state: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |server| {
            let (key, message) = (key.text()?, message.text()?);
            let (schema, kept) = (schema.object()?, state.bytes()?);
            let form = ElicitParams::form(message, schema.parse().map_err(Failure::value)?);
            let mut requests = InputRequests::new();
            requests.insert(key, InputRequest::Elicit(form));
            server.answer_call(call, |engine, call| engine.need_input(at(now), call, &requests, kept))
        })
    }
}

impl ServerState {
    /// Answers a call, and forgets it.
    fn answer_call(
        &mut self,
        id: u64,
        answer: impl FnOnce(&mut Engine, &Call) -> Result<(), UseError>,
    ) -> Result<mcp_status, Failure> {
        let call = self.call(id)?;
        answer(self.pipe.engine(), &call)?;
        self.end_call(id);
        Ok(MCP_OK)
    }

    /// Returns the answer to an input request of a call.
    fn answer(&self, call: u64, key: &str) -> Result<Option<RawJson>, Failure> {
        match self.call(call)?.answer(key) {
            None => Ok(None),
            Some(Ok(json)) => Ok(Some(json.clone())),
            Some(Err(error)) => Err(Failure::new(call_status(error), error.to_string())),
        }
    }
}

/// Makes a call of a tool a task (`MCP_EVENT_TASK_ALLOWED`). Its client gets the task at once, and the call is delivered
/// again under a new id, to run it (`MCP_EVENT_TASK_RUN`).
///
/// `message` for the client may be empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_begin_task(
    server: *mut mcp_server,
    now: u64,
    call: u64,
    message: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            let mut options = TaskOptions::new();
            if let Some(message) = message.optional_text()? {
                options = options.message(message);
            }
            state.answer_call(call, |engine, call| engine.tasks(at(now)).begin(call, options).map(drop))
        })
    }
}

/// Stores the answer to an input request of an open call: a JSON object, valid until the next function that reads
/// something of this handle.
///
/// `MCP_DONE` if there is none. If the client refused or did not answer in time, the status of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_call_answer(
    server: *mut mcp_server,
    call: u64,
    key: mcp_slice,
    answer: *mut mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            check_output(answer)?;
            let found = state.answer(call, key.text()?)?;
            state.read_memory.clear();
            let status = if found.is_some() { MCP_OK } else { MCP_DONE };
            output(answer, state.read_memory.json(found))?;
            Ok(status)
        })
    }
}

/// Decodes a JSON string in the answer to an input request into `buffer`, with a NUL: `mcp_server_call_answer` and
/// `mcp_json_string` in one. `MCP_DONE` if there is no answer, or nothing at the path.
///
/// For a form, the path is `/content/` and the name of a field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_answer_string(
    server: *mut mcp_server,
    call: u64,
    key: mcp_slice,
    path: mcp_slice,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| match state.answer(call, key.text()?)? {
            Some(answer) => copy_string(answer.as_str(), path.text()?, buffer, capacity, length),
            None => Ok(MCP_DONE),
        })
    }
}

/// Stores the state that was kept for an open call, valid until the next function that reads something of this handle.
/// `MCP_DONE` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_call_state(
    server: *mut mcp_server,
    call: u64,
    kept: *mut mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            check_output(kept)?;
            let call = state.call(call)?;
            state.read_memory.clear();
            let found = call.state().map(<[u8]>::to_vec);
            let status = if found.is_some() { MCP_OK } else { MCP_DONE };
            output(kept, found.map_or(mcp_slice::EMPTY, |found| state.read_memory.keep(found)))?;
            Ok(status)
        })
    }
}

/// Stores the client that made an open call. Its slices are valid until the next function that reads something of this
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_call_peer(
    server: *mut mcp_server,
    call: u64,
    peer: *mut mcp_peer,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ServerState>(server, |state| {
            check_output(peer)?;
            let call = state.call(call)?;
            let found = state.pipe.engine().peer(&call);
            let memory = &mut state.read_memory;
            memory.clear();
            let described = mcp_peer {
                revision: memory.text(found.version.as_str()),
                info: memory.json(found.info),
                capabilities: memory.json(Some(found.capabilities)),
                instructions: mcp_slice::EMPTY,
                is_modern: u32::from(found.version.era() == mcp_proto::Era::Modern),
            };
            output(peer, described)?;
            Ok(MCP_OK)
        })
    }
}
