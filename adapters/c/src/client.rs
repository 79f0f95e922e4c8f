//! The functions of a client.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ffi::c_char;

use mcp_proto::client::{Event, Input, InputId, Peer, SubscriptionKey, TaskRequest};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::pipe::Client;
use mcp_proto::{
    CallError, CallId, CallKey, CallOptions, Change, EntryKind, Era, Instant, RawJson, RpcError, UseError,
};
use serde::Serialize;

use crate::config::{mcp_call_options, mcp_config, read_client, read_options};
use crate::event::mcp_event_kind::*;
use crate::event::{
    MCP_CHANGE_PROMPTS, MCP_CHANGE_RESOURCE, MCP_CHANGE_RESOURCES, MCP_CHANGE_TOOLS, MCP_EVENT_RETRY_LEGACY,
    mcp_event, mcp_peer,
};
use crate::handle::{self, State};
use crate::slice::{Kept, check_output, mcp_slice, output};
use crate::status::mcp_status::{self, MCP_ERROR_CLOSED, MCP_ERROR_NOT_READY, MCP_OK};
use crate::status::{Failure, call_status};
use crate::stream::{self, at};

/// A client on a byte stream. Only one thread may use it at a time.
pub struct mcp_client {
    _opaque: [u8; 0],
}

/// A list: tools.
pub const MCP_LIST_TOOLS: u32 = 1;
/// A list: resources.
pub const MCP_LIST_RESOURCES: u32 = 2;
/// A list: resource templates.
pub const MCP_LIST_RESOURCE_TEMPLATES: u32 = 3;
/// A list: prompts.
pub const MCP_LIST_PROMPTS: u32 = 4;

/// Keys of one kind, with the numbers that stand for them in C.
struct Ids<K> {
    keys: BTreeMap<u64, K>,
    ids: BTreeMap<K, u64>,
}

impl<K: Copy + Ord> Ids<K> {
    const fn new() -> Self {
        Self { keys: BTreeMap::new(), ids: BTreeMap::new() }
    }

    /// Returns the id of a key, which is a new one if there was none.
    fn enter(&mut self, key: K, last_id: &mut u64) -> u64 {
        *self.ids.entry(key).or_insert_with(|| {
            *last_id += 1;
            self.keys.insert(*last_id, key);
            *last_id
        })
    }

    fn key(&self, id: u64) -> Result<K, Failure> {
        self.keys.get(&id).copied().ok_or_else(Failure::stale)
    }

    fn id(&self, key: K) -> u64 {
        self.ids.get(&key).copied().unwrap_or_default()
    }

    /// Forgets a key, and returns its id.
    fn end(&mut self, key: K) -> Option<u64> {
        let id = self.ids.remove(&key)?;
        self.keys.remove(&id);
        Some(id)
    }
}

/// The state behind a client.
pub(crate) struct ClientState {
    pipe: Client,
    calls: Ids<CallKey>,
    inputs: Ids<InputId>,
    subscriptions: Ids<SubscriptionKey>,
    requests: Ids<CallId>,
    /// The last number that stands for a key of any kind.
    last_id: u64,
    is_closed: bool,
    has_ended: bool,
    /// Memory of the last event.
    event_memory: Kept,
    /// Memory of what a function read last.
    read_memory: Kept,
}

impl State for ClientState {
    type Opaque = mcp_client;
    const TAG: usize = 0x4d43_5043;
}

impl stream::StreamState for ClientState {
    type Pipe = Client;

    fn pipe(&mut self) -> &mut Client {
        &mut self.pipe
    }

    fn release_event(&mut self) {
        self.event_memory.clear();
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn translate(&mut self, event: Event) -> Option<mcp_event> {
        let memory = &mut self.event_memory;
        Some(match event {
            Event::Ready(peer) => {
                mcp_event { text: memory.text(peer.version.as_str()), ..mcp_event::new(MCP_EVENT_READY) }
            }
            Event::Done { call, outcome, .. } => {
                let id = self.calls.end(call)?;
                let done = mcp_event { call: id, ..mcp_event::new(MCP_EVENT_DONE) };
                match outcome {
                    Ok(result) => mcp_event { json: memory.json(Some(result)), ..done },
                    Err(error) => with_error(done, memory, &error),
                }
            }
            Event::Progress { call, progress } => mcp_event {
                call: self.calls.id(call),
                progress: progress.progress,
                total: progress.total.unwrap_or(-1.0),
                text: progress.message.map_or(mcp_slice::EMPTY, |message| memory.keep(message)),
                ..mcp_event::new(MCP_EVENT_PROGRESS)
            },
            Event::Task { call, task } => mcp_event {
                call: self.calls.id(call),
                json: memory.json(RawJson::encode(&*task).ok()),
                ..mcp_event::new(MCP_EVENT_TASK)
            },
            Event::Input(input) => self.ask(&input),
            Event::InputWithdrawn(input) => {
                mcp_event { id: self.inputs.end(input)?, ..mcp_event::new(MCP_EVENT_INPUT_WITHDRAWN) }
            }
            Event::ElicitationComplete(id) => {
                mcp_event { text: memory.keep(id), ..mcp_event::new(MCP_EVENT_ELICITATION_COMPLETE) }
            }
            Event::Subscribed { key, honoured } => mcp_event {
                id: self.subscriptions.id(key),
                json: memory.json(RawJson::encode(&honoured).ok()),
                ..mcp_event::new(MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED)
            },
            Event::Changed { key, change } => {
                let (code, uri) = match change {
                    Change::Tools => (MCP_CHANGE_TOOLS, None),
                    Change::Prompts => (MCP_CHANGE_PROMPTS, None),
                    Change::Resources => (MCP_CHANGE_RESOURCES, None),
                    Change::Resource(uri) => (MCP_CHANGE_RESOURCE, Some(uri)),
                    _ => return None,
                };
                mcp_event {
                    id: key.map_or(0, |key| self.subscriptions.id(key)),
                    code: code.into(),
                    text: uri.map_or(mcp_slice::EMPTY, |uri| memory.keep(uri)),
                    ..mcp_event::new(MCP_EVENT_CHANGED)
                }
            }
            Event::SubscriptionEnded { key, graceful, error } => {
                let id = self.subscriptions.end(key)?;
                let ended = mcp_event { id, ..mcp_event::new(MCP_EVENT_SUBSCRIPTION_ENDED) };
                match error {
                    Some(error) => with_error(ended, memory, &error),
                    None if graceful => ended,
                    None => mcp_event { status: MCP_ERROR_CLOSED, ..ended },
                }
            }
            Event::Log(message) => mcp_event {
                call: message.call.map_or(0, |call| self.calls.id(call)),
                name: memory.text(message.level.as_str()),
                text: message.logger.map_or(mcp_slice::EMPTY, |logger| memory.keep(logger)),
                json: memory.json(Some(message.data)),
                ..mcp_event::new(MCP_EVENT_LOG)
            },
            Event::Request(request) => mcp_event {
                id: self.requests.enter(request.id, &mut self.last_id),
                method: memory.text(&request.method),
                json: memory.json(request.params),
                ..mcp_event::new(MCP_EVENT_REQUEST)
            },
            Event::RequestCancelled(request) => {
                mcp_event { id: self.requests.end(request)?, ..mcp_event::new(MCP_EVENT_REQUEST_CANCELLED) }
            }
            Event::Notification(notification) => mcp_event {
                method: memory.text(&notification.method),
                json: memory.json(notification.params),
                ..mcp_event::new(MCP_EVENT_NOTIFICATION)
            },
            Event::Diagnostic(diagnostic) => mcp_event {
                text: memory.keep(diagnostic.to_string()),
                ..mcp_event::new(MCP_EVENT_DIAGNOSTIC)
            },
            Event::Closed(fault) => {
                self.is_closed = true;
                mcp_event {
                    text: memory.keep(fault.to_string()),
                    flags: if fault.retry_with().is_some() { MCP_EVENT_RETRY_LEGACY } else { 0 },
                    ..mcp_event::new(MCP_EVENT_CLOSED)
                }
            }
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

impl ClientState {
    fn new(config: mcp_proto::client::Config, now: Instant) -> Self {
        Self {
            pipe: Client::new(Arc::new(config), now),
            calls: Ids::new(),
            inputs: Ids::new(),
            subscriptions: Ids::new(),
            requests: Ids::new(),
            last_id: 0,
            is_closed: false,
            has_ended: false,
            event_memory: Kept::default(),
            read_memory: Kept::default(),
        }
    }

    fn ask(&mut self, input: &Input) -> mcp_event {
        let memory = &mut self.event_memory;
        let request = RawJson::encode(&*input.request).ok();
        mcp_event {
            id: self.inputs.enter(input.id, &mut self.last_id),
            call: input.call.map_or(0, |call| self.calls.id(call)),
            method: memory.text(input.request.method().unwrap_or_default()),
            json: memory.json(request.and_then(|request| request.member("params"))),
            name: input.key.as_deref().map_or(mcp_slice::EMPTY, |key| memory.text(key)),
            ..mcp_event::new(MCP_EVENT_INPUT)
        }
    }

    /// Makes a call and stores its id.
    ///
    /// # Safety
    ///
    /// If it is not null, `place` is writable.
    unsafe fn begin(
        &mut self,
        place: *mut u64,
        make: impl FnOnce(&mut mcp_proto::client::Engine) -> Result<CallKey, UseError>,
    ) -> Result<mcp_status, Failure> {
        check_output(place)?;
        let key = make(self.pipe.engine())?;
        // SAFETY: the requirement of this function.
        unsafe { output(place, self.calls.enter(key, &mut self.last_id)) }?;
        Ok(MCP_OK)
    }
}

/// Adds a failure to an event.
fn with_error(event: mcp_event, memory: &mut Kept, error: &CallError) -> mcp_event {
    let (code, data) = match error {
        CallError::Rpc(error) => (error.code, error.data.clone()),
        _ => (0, None),
    };
    mcp_event {
        status: call_status(error),
        code,
        json: memory.json(data),
        text: memory.keep(error.to_string()),
        ..event
    }
}

fn list_kind(kind: u32) -> Result<EntryKind, Failure> {
    match kind {
        MCP_LIST_TOOLS => Ok(EntryKind::Tool),
        MCP_LIST_RESOURCES => Ok(EntryKind::Resource),
        MCP_LIST_RESOURCE_TEMPLATES => Ok(EntryKind::ResourceTemplate),
        MCP_LIST_PROMPTS => Ok(EntryKind::Prompt),
        _ => Err(Failure::argument("an unknown list")),
    }
}

/// Sends an answer, and forgets what it answers.
fn answer<K: Copy + Ord, T: Serialize + ?Sized>(
    ids: &mut Ids<K>,
    id: u64,
    value: &T,
    send: impl FnOnce(K, &T) -> Result<(), UseError>,
) -> Result<mcp_status, Failure> {
    let key = ids.key(id)?;
    send(key, value)?;
    ids.end(key);
    Ok(MCP_OK)
}

/// Creates a client on a byte stream. Its first request is ready to be written.
///
/// `now` is in microseconds of a monotonic clock, here and everywhere: any epoch will do, the same for all functions of
/// a handle. An older `now` counts as the last one; a debug build of the library ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_new(
    config: *const mcp_config,
    now: u64,
    client: *mut *mut mcp_client,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::create(client, || Ok(ClientState::new(read_client(config)?, at(now)))) }
}

/// Frees a client. Null is ignored. `MCP_ERROR_BUSY` if another thread uses it: then it is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_free(client: *mut mcp_client) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::free::<ClientState>(client) }
}

/// Copies the message of the last error of this handle into `buffer`, with a NUL. It is cut to `capacity` bytes
/// (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_last_error(
    client: *const mcp_client,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { handle::last_error::<ClientState>(client, buffer, capacity, length) }
}

/// Takes bytes that were read. They are copied, and decoded by `mcp_client_poll_event`.
///
/// Read only while `mcp_client_wants_input`, or what waits here has no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_handle_input(
    client: *mut mcp_client,
    now: u64,
    data: *const u8,
    len: usize,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_input::<ClientState>(client, now, data, len) }
}

/// Reports the end of the input: the server is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_handle_eof(client: *mut mcp_client, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_eof::<ClientState>(client, now) }
}

/// Processes the deadlines that have passed. Early calls have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_handle_timeout(client: *mut mcp_client, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::handle_timeout::<ClientState>(client, now) }
}

/// Records that the caller does not read at present, so that silence of the server is no missed ping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_hold_keep_alive(client: *mut mcp_client, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::hold_keep_alive::<ClientState>(client, now) }
}

/// Stores the next event in `event`. `MCP_DONE` if there is none until there is more input or time has passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_poll_event(
    client: *mut mcp_client,
    now: u64,
    event: *mut mcp_event,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::poll_event::<ClientState>(client, now, event) }
}

/// Stores when `mcp_client_handle_timeout` is to be called. `MCP_DONE` if nothing waits for a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_poll_timeout(client: *mut mcp_client, deadline: *mut u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::poll_timeout::<ClientState>(client, deadline) }
}

/// Stores the bytes to write next. They are valid until the next function on this handle. `MCP_DONE` if there are none.
///
/// Call `mcp_client_consume` with the number of bytes that were written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_transmit(client: *mut mcp_client, bytes: *mut mcp_slice) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::transmit::<ClientState>(client, bytes) }
}

/// Removes the first `count` bytes of what `mcp_client_transmit` stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_consume(client: *mut mcp_client, count: usize) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::consume::<ClientState>(client, count) }
}

/// Returns whether to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_wants_input(client: *const mcp_client) -> bool {
    // SAFETY: the rules of this library.
    unsafe { stream::wants_input::<ClientState>(client) }
}

/// Returns whether the connection is finished: closed, nothing to write, no event left. True for a handle that cannot be
/// used, so that no loop waits for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_is_drained(client: *const mcp_client) -> bool {
    // SAFETY: the rules of this library.
    unsafe { stream::is_drained::<ClientState>(client) }
}

/// Ends the connection: open calls end with `MCP_ERROR_CLOSED`. What is ready to be written still can be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_close(client: *mut mcp_client, now: u64) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe { stream::end::<ClientState>(client, |pipe| pipe.engine().close(at(now))) }
}

/// Stores the server, once the connection is ready. Its slices are valid until the next call of this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_peer(client: *mut mcp_client, peer: *mut mcp_peer) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            check_output(peer)?;
            let memory = &mut state.read_memory;
            memory.clear();
            let found = state.pipe.engine().peer();
            let found =
                found.ok_or_else(|| Failure::new(MCP_ERROR_NOT_READY, "the connection is not ready yet"))?;
            output(peer, describe(found, memory))?;
            Ok(MCP_OK)
        })
    }
}

fn describe(peer: &Peer, memory: &mut Kept) -> mcp_peer {
    mcp_peer {
        revision: memory.text(peer.version.as_str()),
        info: memory.json(peer.info.clone()),
        capabilities: memory.json(Some(peer.capabilities.clone())),
        instructions: peer.instructions.as_deref().map_or(mcp_slice::EMPTY, |text| memory.text(text)),
        is_modern: u32::from(peer.era() == Era::Modern),
    }
}

/// Makes a call, and stores its id in `call`. Its outcome is an event (`MCP_EVENT_DONE`).
///
/// `params` is a JSON object or empty. `options` may be null. A call waits here until the connection is ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_call(
    client: *mut mcp_client,
    now: u64,
    method: mcp_slice,
    params: mcp_slice,
    options: *const mcp_call_options,
    call: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let (method, params, options) = (method.text()?, params.object()?, plain_options(options)?);
            state.begin(call, |engine| engine.call(at(now), method, &params, &options))
        })
    }
}

/// Reads the options of a call that cannot be a task.
///
/// # Safety
///
/// As `read_options`.
unsafe fn plain_options(options: *const mcp_call_options) -> Result<CallOptions, Failure> {
    // SAFETY: the requirement of this function.
    match unsafe { read_options(options) }? {
        (options, false) => Ok(options),
        _ => Err(Failure::argument("only a call of a tool can ask for a task")),
    }
}

/// Calls a tool, and stores the id of the call in `call`. `arguments` is a JSON object or empty; `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_call_tool(
    client: *mut mcp_client,
    now: u64,
    name: mcp_slice,
    arguments: mcp_slice,
    options: *const mcp_call_options,
    call: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let (name, arguments) = (name.text()?, arguments.object()?);
            let (options, as_task) = read_options(options)?;
            state.begin(call, |engine| match as_task {
                false => engine.call_tool(at(now), name, &arguments, &options),
                true => {
                    let task = TaskRequest::followed();
                    engine.call_tool_as_task(at(now), name, &arguments, task, &options)
                }
            })
        })
    }
}

/// Requests a page of a list (`MCP_LIST_…`), and stores the id of the call in `call`.
///
/// `cursor` is the member `nextCursor` of the page before, decoded, or empty for the first page. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_list(
    client: *mut mcp_client,
    now: u64,
    list: u32,
    cursor: mcp_slice,
    options: *const mcp_call_options,
    call: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let (kind, cursor, options) =
                (list_kind(list)?, cursor.optional_text()?, plain_options(options)?);
            state.begin(call, |engine| engine.list(at(now), kind, cursor, &options))
        })
    }
}

/// Checks whether the server is alive, and stores the id of the call in `call`. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_ping(
    client: *mut mcp_client,
    now: u64,
    options: *const mcp_call_options,
    call: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let options = plain_options(options)?;
            state.begin(call, |engine| engine.ping(at(now), &options))
        })
    }
}

/// Cancels a call. It ends with `MCP_ERROR_CANCELLED`. `reason` may be empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_cancel(
    client: *mut mcp_client,
    now: u64,
    call: u64,
    reason: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let reason = reason.optional_text()?;
            let key = state.calls.key(call)?;
            state.pipe.engine().cancel(at(now), key, reason)?;
            Ok(MCP_OK)
        })
    }
}

/// Subscribes to changes, and stores the id of the subscription.
///
/// `filter` is a JSON object as `subscriptions/listen` has it: `{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_subscribe(
    client: *mut mcp_client,
    now: u64,
    filter: mcp_slice,
    subscription: *mut u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            check_output(subscription)?;
            let filter: SubscriptionFilter = filter.object()?.parse().map_err(Failure::value)?;
            let key = state.pipe.engine().subscribe(at(now), &filter)?;
            output(subscription, state.subscriptions.enter(key, &mut state.last_id))?;
            Ok(MCP_OK)
        })
    }
}

/// Ends a subscription. Nothing more is reported for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_unsubscribe(
    client: *mut mcp_client,
    now: u64,
    subscription: u64,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let key = state.subscriptions.key(subscription)?;
            state.pipe.engine().unsubscribe(at(now), key)?;
            state.subscriptions.end(key);
            Ok(MCP_OK)
        })
    }
}

/// Answers an input request. `response` is a JSON object, for a form `{"action":"accept","content":{"name":"Ada"}}`.
///
/// Whether it fits the form is not checked here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_answer(
    client: *mut mcp_client,
    now: u64,
    input: u64,
    response: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let response = response.object()?;
            let engine = state.pipe.engine();
            answer(&mut state.inputs, input, &response, |key, value| engine.answer(at(now), key, value))
        })
    }
}

/// Answers a request with a custom method. `result` is a JSON object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_respond(
    client: *mut mcp_client,
    now: u64,
    request: u64,
    result: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let result = result.object()?;
            let engine = state.pipe.engine();
            answer(&mut state.requests, request, &result, |key, value| engine.respond(at(now), key, value))
        })
    }
}

/// Refuses an input request or a request with a custom method, by its id, with a code and a sentence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_refuse(
    client: *mut mcp_client,
    now: u64,
    id: u64,
    code: i64,
    message: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let error = RpcError::new(code, message.text()?.to_owned());
            let engine = state.pipe.engine();
            if let Ok(input) = state.inputs.key(id) {
                engine.refuse(at(now), input, &error)?;
                state.inputs.end(input);
            } else {
                let request = state.requests.key(id)?;
                engine.refuse(at(now), request, &error)?;
                state.requests.end(request);
            }
            Ok(MCP_OK)
        })
    }
}

/// Sends a notification with a custom method. `params` is a JSON object or empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_notify(
    client: *mut mcp_client,
    now: u64,
    method: mcp_slice,
    params: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let (method, params) = (method.text()?, params.optional_json()?);
            state.pipe.engine().notify(at(now), method, params.as_ref())?;
            Ok(MCP_OK)
        })
    }
}

/// Sets the least severe level of log messages: `debug`, `info`, `warning`, `error` and others; empty for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_set_log_level(
    client: *mut mcp_client,
    now: u64,
    level: mcp_slice,
) -> mcp_status {
    // SAFETY: the rules of this library.
    unsafe {
        handle::enter::<ClientState>(client, |state| {
            let level = level.optional_text()?.map(LoggingLevel::from);
            #[expect(deprecated, reason = "supported until its removal")]
            state.pipe.engine().set_log_level(at(now), level)?;
            Ok(MCP_OK)
        })
    }
}
