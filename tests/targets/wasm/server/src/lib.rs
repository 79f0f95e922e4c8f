//! A server with three tools on the core alone: `echo`, `wait` and `greet`.
//!
//! It performs no I/O. Its driver passes bytes, time and entropy in, and takes bytes and the next deadline out.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

#[cfg(feature = "ask")]
use mcp_proto::model::CallToolResult;
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{
    CallId, Capabilities, Capability, Instant, Limits, Progress, RawJson, RpcError, UseError, VersionSet,
};

/// The entry of `greet` in the list.
#[cfg(feature = "ask")]
macro_rules! greet_tool {
    () => {
        r#",{"name":"greet","description":"Asks for a name and greets it","inputSchema":{"type":"object"}}"#
    };
}
#[cfg(not(feature = "ask"))]
macro_rules! greet_tool {
    () => {
        ""
    };
}
/// The list of tools, as it is sent.
const TOOLS: &str = concat!(
    r#"{"tools":[{"name":"echo","description":"Returns the text that it is given","inputSchema":{"type":"object","#,
    r#""properties":{"text":{"type":"string"}},"required":["text"]}},"#,
    r#"{"name":"wait","description":"Returns after some milliseconds","inputSchema":{"type":"object","#,
    r#""properties":{"ms":{"type":"integer","minimum":0}},"required":["ms"]}}"#,
    greet_tool!(),
    "]}"
);

/// A call of `wait` that is not answered yet. At most `Limits::max_live_calls` exist.
struct Wait {
    call: CallId,
    until: Instant,
}

/// The server on one byte stream.
pub struct ToolServer {
    pipe: Server,
    waits: Vec<Wait>,
    /// The latest time that was passed in. A clock that jumps back does not move it.
    now: Instant,
}

impl ToolServer {
    /// Creates a server that speaks `versions`, within the limits of a small device.
    #[cfg(not(feature = "ask"))]
    #[must_use]
    pub fn new(now: Instant, versions: VersionSet) -> Self {
        Self::with_config(now, config(versions))
    }

    /// Creates a server that speaks `versions`, within the limits of a small device.
    ///
    /// `secret` is 32 bytes of a cryptographic source, by which state is sealed. `unix_seconds` is the time of day at `now`:
    /// sealed state expires.
    #[cfg(feature = "ask")]
    #[must_use]
    pub fn new(now: Instant, versions: VersionSet, secret: [u8; 32], unix_seconds: u64) -> Self {
        let anchor = mcp_proto::Anchor::new(now, unix_seconds);
        Self::with_config(now, config(versions).seal(mcp_proto::seal::Keys::new(secret), anchor))
    }

    fn with_config(now: Instant, config: Config) -> Self {
        Self { pipe: Server::new(Arc::new(config), now), waits: Vec::new(), now }
    }

    /// Takes bytes that were read, and answers the calls in them.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        self.pipe.handle_input(now, bytes);
        self.run(now);
    }

    /// Reports the end of the input.
    pub fn handle_eof(&mut self, now: Instant) {
        self.pipe.handle_eof(now);
        self.run(now);
    }

    /// Processes the deadlines that have passed. Early calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.pipe.handle_timeout(now);
        self.run(now);
    }

    /// Removes the first `n` bytes of the output, which were written. Call [`resume`](Self::resume) after it.
    pub fn consume(&mut self, n: usize) {
        self.pipe.consume(n);
    }

    /// Answers calls that waited until output was written.
    pub fn resume(&mut self) {
        self.run(self.now);
    }

    /// Returns the bytes to write next, or an empty slice.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.pipe.transmit()
    }

    /// Returns whether the driver should read.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.pipe.wants_input()
    }

    /// Returns whether the connection is finished.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.pipe.is_drained()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let engine = self.pipe.poll_timeout();
        [engine, self.poll_wait()].into_iter().flatten().min()
    }

    /// Returns when the first call of `wait` is due: the only deadline that a driver with blocking reads must meet.
    #[must_use]
    pub fn poll_wait(&self) -> Option<Instant> {
        self.waits.iter().map(|wait| wait.until).min()
    }

    fn run(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.finish_waits();
        while let Some(event) = self.pipe.poll_event(self.now) {
            match event {
                Event::Call(call) => self.begin(&call),
                Event::Cancelled { call, .. } => self.waits.retain(|wait| wait.call != call),
                _ => {}
            }
        }
    }

    fn finish_waits(&mut self) {
        let (now, engine) = (self.now, self.pipe.engine());
        let Ok(waited) = text_result(br#""waited""#) else { return };
        self.waits.retain(|wait| {
            let is_due = wait.until <= now;
            if is_due {
                // A call that has ended meanwhile needs no answer.
                let _ = engine.complete_raw(now, wait.call, &waited);
            }
            !is_due
        });
    }

    fn begin(&mut self, call: &Call) {
        if let Err(error) = self.answer(call) {
            // A call that has ended meanwhile needs no answer.
            let _ = self.pipe.engine().fail(self.now, call.id(), &error);
        }
    }

    /// Answers a call, or keeps it.
    fn answer(&mut self, call: &Call) -> Result<(), RpcError> {
        let (now, id) = (self.now, call.id());
        let engine = self.pipe.engine();
        match call.method() {
            "tools/list" => {
                let tools = RawJson::new(TOOLS).map_err(|_| RpcError::internal("not JSON"))?;
                engine.complete_raw(now, id, &tools)
            }
            "tools/call" => {
                let tool = call.tool_call()?;
                match &*tool.name {
                    "echo" => {
                        let text = tool.member("text").filter(|text| text.starts_with(b"\""));
                        let text =
                            text.ok_or_else(|| RpcError::invalid_params("`text` is missing or no string"))?;
                        engine.complete_raw(now, id, &text_result(text)?)
                    }
                    "wait" => {
                        let ms =
                            tool.member("ms").and_then(|ms| str::from_utf8(ms).ok()?.parse::<u32>().ok());
                        let ms =
                            ms.ok_or_else(|| RpcError::invalid_params("`ms` is missing or no integer"))?;
                        self.waits.push(Wait { call: id, until: now + Duration::from_millis(ms.into()) });
                        engine.progress(now, id, Progress::new(0.0).with_total(1.0)).map(|_| ())
                    }
                    #[cfg(feature = "ask")]
                    "greet" => return self.greet(call),
                    _ => return Err(RpcError::invalid_params("there is no such tool")),
                }
            }
            method => return Err(RpcError::method_not_found(method)),
        }
        .or_else(ignore_stale)
    }

    /// Asks for a name: by a request in the legacy era, by `input_required` and sealed state in the modern one.
    #[cfg(feature = "ask")]
    fn greet(&mut self, call: &Call) -> Result<(), RpcError> {
        use mcp_proto::model::{ElicitSchema, ElicitValue, StringSchema};
        use mcp_proto::server::{InputError, InputRequired};

        let mut input = InputRequired::new();
        let form = ElicitSchema::default().field("name", StringSchema::new());
        let answer = match input.elicit(call, "name", "What is your name?", form) {
            Err(InputError::Pending) => {
                // If it is refused, the call has been answered with the reason.
                let _ = self.pipe.engine().require_input(self.now, call, &input);
                return Ok(());
            }
            answer => answer?,
        };
        let mut greeting = alloc::string::String::from("Hello");
        if let Some(ElicitValue::Text(name)) = answer.content.as_ref().and_then(|form| form.get("name")) {
            greeting.push_str(", ");
            greeting.push_str(name);
        }
        self.pipe
            .engine()
            .complete(self.now, call.id(), &CallToolResult::text(greeting))
            .or_else(ignore_stale)
    }
}

fn config(versions: VersionSet) -> Config {
    Config::new("wasm-tools", "1.0")
        .capabilities(Capabilities::new().with(Capability::Tools))
        .versions(versions)
        .limits(Limits::small())
}

/// Returns the result with a text, of which `quoted` is the JSON string.
///
/// So the code is not linked that shapes typed results for each revision, nor that which decodes arguments by `serde`.
fn text_result(quoted: &[u8]) -> Result<RawJson, RpcError> {
    let text = [br#"{"content":[{"type":"text","text":"#, quoted, b"}]}"].concat();
    RawJson::new(text).map_err(|_| RpcError::internal("not JSON"))
}

/// A call that has ended meanwhile needs no answer; any other refusal is answered.
fn ignore_stale(refused: UseError) -> Result<(), RpcError> {
    match refused {
        UseError::Stale => Ok(()),
        _ => Err(RpcError::internal("the result could not be sent")),
    }
}
