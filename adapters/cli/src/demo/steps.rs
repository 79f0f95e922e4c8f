//! The steps of the tour and their expected outcomes.

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::model::{CallToolResult, Content};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Capability, Era, Version};
use mcp_std::process::ShutdownStage;
use serde::Serialize;
use serde_json::{Value, json};

use super::wire::{WireLog, WireMessage};
use crate::client::{Client, StartedCall};
use crate::session;

/// Runs a step. Returns a description of the outcome, or of the failure.
pub(super) type StepFn = fn(&mut Client, &WireLog) -> Result<String, StepError>;

/// Description of a failed step.
pub(super) type StepError = Box<dyn core::error::Error>;

pub(super) fn check_negotiated(
    client: &mut Client,
    wire: &WireLog,
    wanted: Version,
) -> Result<String, StepError> {
    let peer = client.peer();
    let info = peer.info.as_ref().ok_or("the server did not send its identity")?;
    let info: Value =
        info.parse().map_err(|error| format!("the server's identity cannot be read: {error}"))?;
    let (name, version) = (text(&info["name"]), text(&info["version"]));
    ensure(peer.version == wanted, || format!("agreed on {} instead of {wanted}", peer.version))?;
    ensure(name == "mcp-probe", || format!("talks to {name} instead of mcp-probe"))?;
    ensure(peer.has(Capability::Tools), || "the server offers no tools".into())?;
    let expected: &[&str] = match wanted.era() {
        Era::Modern => &["server/discover"],
        Era::Legacy => &["initialize", "notifications/initialized"],
    };
    // Messages may be recorded a moment after their effects are visible.
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    while wire.sent_methods().len() < expected.len() && Instant::now() < deadline {
        client.poll(POLL_INTERVAL)?;
    }
    let sent = wire.sent_methods();
    ensure(sent == expected, || format!("sent {sent:?} instead of {expected:?}"))?;
    Ok(format!("revision {wanted} with {name} {version}, which offers tools"))
}

pub(super) fn list(client: &mut Client, _: &WireLog) -> Result<String, StepError> {
    let tools = client.list_tools()?;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let used = ["echo", "add", "count", "fail", "sign"];
    ensure(used.iter().all(|name| names.contains(name)), || format!("the tools are {names:?}"))?;
    for tool in &tools {
        let schema: Value = tool.input_schema.parse().unwrap_or_default();
        ensure(schema["type"] == "object", || format!("the arguments of {} are not an object", tool.name))?;
    }
    Ok(format!("{} tools, among them {}", names.len(), used.join(", ")))
}

pub(super) fn call(client: &mut Client, _: &WireLog) -> Result<String, StepError> {
    let sent = "smörgås \"quoted\" \\ \u{1f980}";
    let result = client.call_tool("echo", &json!({ "text": sent }))?;
    let got = only_text(&result)?;
    ensure(got == sent, || format!("echo answered {got:?} to {sent:?}"))?;

    let result = client.call_tool("add", &json!({ "a": 20, "b": 22 }))?;
    let sum: Value =
        result.parse_structured().map_err(|error| format!("the result of add is not a sum: {error}"))?;
    ensure(sum["sum"] == 42, || format!("20 + 22 is {sum}"))?;
    Ok("echo answered the same text, 20 + 22 is 42".into())
}

pub(super) fn error(client: &mut Client, _: &WireLog) -> Result<String, StepError> {
    // A tool failure is a result, so that a model can read the reason.
    let result = client.call_tool("fail", &json!({}))?;
    ensure(result.is_failure(), || "the tool that always fails did not report an error".into())?;

    match client.call_tool("no-such-tool", &json!({})) {
        Err(Error::Call(CallError::Rpc(error))) if error.code == code::INVALID_PARAMS => {
            Ok(format!("isError, and an error: {error}"))
        }
        Err(other) => Err(format!("a tool that does not exist gave another error: {other}").into()),
        Ok(result) => Err(format!("a tool that does not exist answered {result:?}").into()),
    }
}

pub(super) fn progress(client: &mut Client, _: &WireLog) -> Result<String, StepError> {
    let mut seen = Vec::new();
    let result = client.call_tool_with(
        "count",
        &json!({ "to": 4, "delay_ms": 40 }),
        &CallOptions::new(),
        &mut |progress| {
            seen.push((progress.progress, progress.total));
        },
    )?;
    let got = only_text(&result)?;
    ensure(got == "counted to 4", || format!("count answered {got:?}"))?;
    let expected = [1.0, 2.0, 3.0, 4.0].map(|step| (step, Some(4.0)));
    ensure(seen == expected, || format!("progress was reported as {seen:?}"))?;
    Ok(format!("progress came {} times, each time higher, then the result: {got}", seen.len()))
}

pub(super) fn cancel(client: &mut Client, wire: &WireLog) -> Result<String, StepError> {
    let begun = wire.len();
    let call = start_count(client, 1_000, 20, &CallOptions::new().with_progress())?;
    // Cancelled after the first progress report, when the server certainly works on it.
    let is_progress =
        |message: &WireMessage| !message.is_sent && message.json["method"] == "notifications/progress";
    expect_message(client, wire, begun, is_progress, "the call reported no progress")?;
    client.cancel(call, "no longer needed")?;

    // The server has one thread, so it answers this only if the cancelled call has stopped.
    let options = CallOptions::new().timeout(ANSWER_TIMEOUT);
    let next = client.start_tool("echo", &json!({ "text": FOLLOW_UP_TEXT }), &options)?;
    match client.wait(next) {
        Err(Error::Call(CallError::TimedOut)) => {
            return Err("the server continued the cancelled call".into());
        }
        result => {
            let result = result?;
            only_text(&result.parse().map_err(|error| format!("not a result of a tool: {error}"))?)?
        }
    };
    let id = expect_cancellation(client, wire, begun, "no cancellation was sent to the server")?;
    let next = |message: &WireMessage| {
        !message.is_sent && message.json["result"]["content"][0]["text"] == FOLLOW_UP_TEXT
    };
    expect_message(client, wire, begun, next, "the answer was not seen on the wire")?;
    let answered = wire.find(begun, |message| !message.is_sent && message.json["id"] == id);
    ensure(answered.is_none(), || "the server answered the cancelled call".into())?;
    expect_silence(client, wire)?;
    Ok("the server stopped, sent nothing more about it, and answers the next call".into())
}

pub(super) fn timeout(client: &mut Client, wire: &WireLog) -> Result<String, StepError> {
    let begun = wire.len();
    let started = Instant::now();
    let limit = Duration::from_millis(300);
    let call = start_count(client, 1, 60_000, &CallOptions::new().timeout(limit))?;
    let outcome = client.wait(call);
    let took = started.elapsed();
    match outcome {
        Err(Error::Call(CallError::TimedOut)) => {}
        Err(other) => return Err(format!("the call ended otherwise: {other}").into()),
        Ok(result) => {
            return Err(format!("the call was answered although it takes a minute: {result}").into());
        }
    }
    ensure(took >= limit && took < limit + ANSWER_TIMEOUT, || {
        format!("the limit was {limit:?}, and it took {took:?}")
    })?;
    let alive = client.ping().map_err(|error| format!("the server no longer answers: {error}"))?;
    expect_cancellation(client, wire, begun, "no cancellation was sent after the timeout")?;
    Ok(format!(
        "timed out after {} ms; the server was told, and answers in {} µs",
        took.as_millis(),
        alive.as_micros()
    ))
}

pub(super) fn end(client: Client) -> Result<String, StepError> {
    let ended = client.close()?.ok_or("there was no process to end")?;
    if let Some(complaint) = session::describe_abnormal_exit(&ended) {
        return Err(complaint.into());
    }
    match ended.status {
        Some(status) if status.success() && ended.stage == ShutdownStage::Exited => {
            Ok("it ended by itself, with exit code 0".into())
        }
        Some(status) => Err(format!("the server ended with {status}").into()),
        None => Err("the exit status of the server is unknown".into()),
    }
}

// ---- shared ----

pub(super) fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), StepError> {
    if holds { Ok(()) } else { Err(complaint().into()) }
}

/// Starts a call of `count`.
fn start_count(
    client: &mut Client,
    to: u32,
    delay_ms: u32,
    options: &CallOptions,
) -> Result<StartedCall, StepError> {
    #[derive(Serialize)]
    struct CountRequest {
        to: u32,
        delay_ms: u32,
    }
    Ok(client.start_tool("count", &CountRequest { to, delay_ms }, options)?)
}

/// Returns the text of a result that consists of one text block and is not a failure.
pub(super) fn only_text(result: &CallToolResult<'_>) -> Result<String, StepError> {
    match &*result.content {
        [Content::Text(text)] if !result.is_failure() => Ok(text.text.clone().into_owned()),
        _ => Err(format!("the answer is not one text: {result:?}").into()),
    }
}

/// Waits for the first matching message since `from`, since messages may be recorded a moment after their effects are visible. Without
/// one the step fails with `complaint`.
pub(super) fn expect_message(
    client: &mut Client,
    wire: &WireLog,
    from: usize,
    holds: impl Fn(&WireMessage) -> bool,
    complaint: &str,
) -> Result<Value, StepError> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        match wire.find(from, &holds) {
            None if Instant::now() < deadline => client.poll(POLL_INTERVAL)?,
            found => return found.ok_or_else(|| complaint.into()),
        }
    }
}

/// Returns the id of the first tool call since `from`, once its cancellation is sent. Otherwise the step fails with `complaint`.
fn expect_cancellation(
    client: &mut Client,
    wire: &WireLog,
    from: usize,
    complaint: &str,
) -> Result<Value, StepError> {
    let is_call = |message: &WireMessage| message.is_sent && message.json["method"] == "tools/call";
    let call = expect_message(client, wire, from, is_call, "the call was not seen on the wire")?;
    let is_it = |message: &WireMessage| {
        message.is_sent
            && message.json["method"] == "notifications/cancelled"
            && message.json["params"]["requestId"] == call["id"]
    };
    expect_message(client, wire, from, is_it, complaint)?;
    Ok(call["id"].clone())
}

/// Checks that no message arrives for a moment.
fn expect_silence(client: &mut Client, wire: &WireLog) -> Result<(), StepError> {
    let from = wire.len();
    client.poll(Duration::from_millis(100))?;
    let stray = wire.find(from, |message| !message.is_sent);
    ensure(stray.is_none(), || format!("the server still sends {}", stray.unwrap_or_default()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Text of the call after the cancelled one.
const FOLLOW_UP_TEXT: &str = "still there?";
/// Interval at which recorded messages are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time for an immediate answer, even on a busy machine.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
