//! A client as the role of a module, with commands and events for its host.
//!
//! Commands return the number of a call, above zero, or a [`Status`]. Events are JSON objects with a member `type`: `ready`,
//! `done`, `progress`, `input`, `withdrawn`, `changed` and `closed`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mcp_proto::client::{Config, Event, InputId};
use mcp_proto::model::InputRequest;
use mcp_proto::pipe::{Client, Pipe};
use mcp_proto::{
    CallError, CallKey, CallOptions, Capabilities, Capability, Instant, Limits, RawJson, RpcError, VersionSet,
};
use serde::Serialize;

use crate::{Status, check_headroom, instant, status, with_role};

/// A client, and the numbers by which its host knows calls and input requests.
pub(crate) struct Role {
    pipe: Client,
    /// Bounded by `Limits::max_pending_calls`.
    calls: Numbers<CallKey>,
    /// Bounded by `Limits::max_live_calls` and `Limits::max_inputs`.
    inputs: Numbers<InputId>,
}

/// Keys by numbers that are never used again.
struct Numbers<K> {
    last: i32,
    entries: Vec<(i32, K)>,
}

impl<K: Copy + PartialEq> Numbers<K> {
    const fn new() -> Self {
        Self { last: 0, entries: Vec::new() }
    }

    fn insert(&mut self, key: K) -> i32 {
        // More numbers than a connection lives.
        self.last = self.last.saturating_add(1);
        self.entries.push((self.last, key));
        self.last
    }

    fn key(&self, number: i32) -> Result<K, Status> {
        self.entries.iter().find(|entry| entry.0 == number).map(|entry| entry.1).ok_or(Status::Refused)
    }

    fn number(&self, key: K) -> i32 {
        self.entries.iter().find(|entry| entry.1 == key).map_or(0, |entry| entry.0)
    }

    fn remove(&mut self, key: K) -> i32 {
        let number = self.number(key);
        self.entries.retain(|entry| entry.0 != number);
        number
    }
}

// A client on a byte stream has no secrets. The entropy is required all the same, so that all modules have one interface.
pub(crate) fn open(now: Instant, versions: VersionSet, _: [u8; 32], _: u64) -> Role {
    let config = Config::new("wasm-client", "1.0")
        .capabilities(Capabilities::new().with(Capability::Elicitation))
        .versions(versions)
        .limits(Limits::small());
    Role { pipe: Client::new(Arc::new(config), now), calls: Numbers::new(), inputs: Numbers::new() }
}

impl Role {
    pub(crate) fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        self.pipe.handle_input(now, bytes);
    }

    pub(crate) fn handle_eof(&mut self, now: Instant) {
        self.pipe.handle_eof(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.pipe.handle_timeout(now);
    }

    pub(crate) fn transmit(&self) -> &[u8] {
        self.pipe.transmit()
    }

    pub(crate) fn consume(&mut self, n: usize) {
        self.pipe.consume(n);
    }

    // A client has no calls that wait for room in the output.
    pub(crate) fn resume(&mut self) {}

    pub(crate) fn wants_input(&self) -> bool {
        self.pipe.wants_input()
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        self.pipe.poll_timeout()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.pipe.is_drained()
    }
}

/// An event as the host reads it.
#[derive(Serialize, Default)]
struct HostEvent<'a> {
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a InputRequest<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<HostError<'a>>,
}

/// The reason why a call has failed, in one word, and the answer of the server if it is that.
#[derive(Serialize)]
struct HostError<'a> {
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> From<&'a CallError> for HostError<'a> {
    fn from(error: &'a CallError) -> Self {
        let reason = match error {
            CallError::Rpc(error) => {
                return Self { reason: "error", code: Some(error.code), message: Some(&error.message) };
            }
            CallError::TimedOut | CallError::TotalTimedOut | CallError::Misaddressed(_) => "timed-out",
            CallError::Cancelled => "cancelled",
            CallError::Closed(_) => "closed",
            CallError::InputRefused(_) => "input-refused",
            _ => "failed",
        };
        Self { reason, code: None, message: None }
    }
}

/// Makes a call: the buffer holds a method of `method_len` bytes and then parameters, `len` bytes together.
#[unsafe(no_mangle)]
pub extern "C" fn call(now: f64, method_len: usize, len: usize) -> i32 {
    with_role(|role, buffer| {
        let now = instant(now)?;
        let (method, params) = buffer
            .get(..len)
            .and_then(|bytes| bytes.split_at_checked(method_len))
            .ok_or(Status::BadLength)?;
        let method = core::str::from_utf8(method).map_err(|_| Status::BadArgument)?;
        check_headroom()?;
        let params = RawJson::new(params.to_vec()).map_err(|_| Status::BadArgument)?;
        let options = CallOptions::new().with_progress();
        let key = role.pipe.engine().call(now, method, &params, &options).map_err(|_| Status::Refused)?;
        Ok(role.calls.insert(key))
    })
    .unwrap_or_else(|status| status as i32)
}

/// Cancels a call. It still ends with `done`.
#[unsafe(no_mangle)]
pub extern "C" fn cancel(now: f64, call: i32) -> i32 {
    status(with_role(|role, _| {
        let (now, key) = (instant(now)?, role.calls.key(call)?);
        check_headroom()?;
        role.pipe.engine().cancel(now, key, None).map_err(|_| Status::Refused)
    }))
}

/// Answers an input request with the first `len` bytes of the buffer, an object as the protocol has it.
#[unsafe(no_mangle)]
pub extern "C" fn answer(now: f64, input: i32, len: usize) -> i32 {
    status(with_role(|role, buffer| {
        let (now, key) = (instant(now)?, role.inputs.key(input)?);
        let response = buffer.get(..len).ok_or(Status::BadLength)?;
        check_headroom()?;
        let response = RawJson::new(response.to_vec()).map_err(|_| Status::BadArgument)?;
        role.pipe.engine().answer(now, key, &response).map_err(|_| Status::Refused)?;
        role.inputs.remove(key);
        Ok(())
    }))
}

/// Refuses an input request.
#[unsafe(no_mangle)]
pub extern "C" fn refuse(now: f64, input: i32) -> i32 {
    status(with_role(|role, _| {
        let (now, key) = (instant(now)?, role.inputs.key(input)?);
        check_headroom()?;
        let error = RpcError::invalid_params("the host gives no input");
        role.pipe.engine().refuse(now, key, &error).map_err(|_| Status::Refused)?;
        role.inputs.remove(key);
        Ok(())
    }))
}

/// Returns the length of the next event, which is then at `event`, and 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn poll_event(now: f64) -> i32 {
    with_role(|role, buffer| {
        let now = instant(now)?;
        check_headroom()?;
        while let Some(event) = role.pipe.poll_event(now) {
            if let Some(text) = role.encode(&event) {
                *buffer = text.into_bytes().into();
                return Ok(i32::try_from(buffer.len()).unwrap_or(i32::MAX));
            }
        }
        Ok(0)
    })
    .unwrap_or_else(|status| status as i32)
}

/// Returns the place of the last event. It is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn event() -> *const u8 {
    with_role(|_, buffer| Ok(buffer.as_ptr())).unwrap_or(core::ptr::null())
}

impl Role {
    /// Returns an event for the host, or `None` if it does not concern it.
    fn encode(&mut self, event: &Event) -> Option<RawJson> {
        let nothing = HostEvent::default();
        let event = match event {
            Event::Ready(peer) => HostEvent {
                r#type: "ready",
                version: Some(peer.version.as_str()),
                server: peer.info.as_ref(),
                ..nothing
            },
            Event::Done { call, outcome, .. } => HostEvent {
                r#type: "done",
                call: Some(self.calls.remove(*call)),
                result: outcome.as_ref().ok(),
                error: outcome.as_ref().err().map(HostError::from),
                ..nothing
            },
            Event::Progress { call, progress } => HostEvent {
                r#type: "progress",
                call: Some(self.calls.number(*call)),
                progress: Some(progress.progress),
                ..nothing
            },
            Event::Input(input) => HostEvent {
                r#type: "input",
                input: Some(self.inputs.insert(input.id)),
                request: Some(&input.request),
                ..nothing
            },
            Event::InputWithdrawn(input) => {
                HostEvent { r#type: "withdrawn", input: Some(self.inputs.remove(*input)), ..nothing }
            }
            Event::Changed { .. } => HostEvent { r#type: "changed", ..nothing },
            Event::Closed(_) => HostEvent { r#type: "closed", ..nothing },
            _ => return None,
        };
        RawJson::encode(&event).ok()
    }
}
