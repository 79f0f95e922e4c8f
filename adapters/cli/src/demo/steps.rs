//! What is done in each step, and what has to come of it

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::model::{CallToolResult, Content};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Capability, Era, Version};
use mcp_std::child::How;
use serde::Serialize;
use serde_json::{Value, json};

use super::wire::{Message, Wire};
use crate::client::{Client, Pending};
use crate::session;

/// Does a step; tells what was found, or what is wrong
pub(super) type Run = fn(&mut Client, &Wire) -> Result<String, Wrong>;

/// What is wrong with a step
#[derive(Debug)]
pub(super) struct Wrong(pub(super) String);

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Wrong {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

pub(super) fn negotiated(client: &mut Client, wire: &Wire, wanted: Version) -> Result<String, Wrong> {
    let peer = client.peer();
    let info = peer.info.as_ref().ok_or("the server did not say who it is")?;
    let info: Value =
        info.parse().map_err(|error| format!("the server's identity cannot be read: {error}"))?;
    let (name, version) = (text(&info["name"]), text(&info["version"]));
    check(peer.version == wanted, || format!("agreed on {} instead of {wanted}", peer.version))?;
    check(name == "mcp-probe", || format!("talks to {name} instead of mcp-probe"))?;
    check(peer.has(Capability::Tools), || "the server offers no tools".into())?;
    let expected: &[&str] = match wanted.era() {
        Era::Modern => &["server/discover"],
        Era::Legacy => &["initialize", "notifications/initialized"],
    };
    // What is shown may come a moment after what is known.
    let deadline = Instant::now() + ANSWER;
    while wire.sent_methods().len() < expected.len() && Instant::now() < deadline {
        client.poll(SOON)?;
    }
    let asked = wire.sent_methods();
    check(asked == expected, || format!("sent {asked:?} instead of {expected:?}"))?;
    Ok(format!("revision {wanted} with {name} {version}, which offers tools"))
}

pub(super) fn list(client: &mut Client, _: &Wire) -> Result<String, Wrong> {
    let tools = client.list_tools()?;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let used = ["echo", "add", "count", "fail", "sign"];
    check(used.iter().all(|name| names.contains(name)), || format!("the tools are {names:?}"))?;
    for tool in &tools {
        let schema: Value = tool.input_schema.parse().unwrap_or_default();
        check(schema["type"] == "object", || format!("the arguments of {} are no object", tool.name))?;
    }
    Ok(format!("{} tools, among them {}", names.len(), used.join(", ")))
}

pub(super) fn call(client: &mut Client, _: &Wire) -> Result<String, Wrong> {
    let sent = "smörgås \"quoted\" \\ \u{1f980}";
    let result = client.call_tool("echo", &json!({ "text": sent }))?;
    let got = only_text(&result)?;
    check(got == sent, || format!("echo answered {got:?} to {sent:?}"))?;

    let result = client.call_tool("add", &json!({ "a": 20, "b": 22 }))?;
    let sum: Value = result.parse_structured().map_err(|error| format!("add answered no sum: {error}"))?;
    check(sum["sum"] == 42, || format!("20 + 22 is {sum}"))?;
    Ok("echo answered the same text, 20 + 22 is 42".into())
}

pub(super) fn error(client: &mut Client, _: &Wire) -> Result<String, Wrong> {
    // A tool that fails answers all the same: a model may read why.
    let result = client.call_tool("fail", &json!({}))?;
    check(result.failed(), || "the tool that always fails did not report an error".into())?;

    match client.call_tool("no-such-tool", &json!({})) {
        Err(Error::Call(CallError::Rpc(error))) if error.code == code::INVALID_PARAMS => {
            Ok(format!("the first answers isError, the second is refused: {error}"))
        }
        Err(other) => Err(format!("a tool that does not exist gave another error: {other}").into()),
        Ok(result) => Err(format!("a tool that does not exist answered {result:?}").into()),
    }
}

pub(super) fn progress(client: &mut Client, _: &Wire) -> Result<String, Wrong> {
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
    check(got == "counted to 4", || format!("count answered {got:?}"))?;
    let expected = [1.0, 2.0, 3.0, 4.0].map(|step| (step, Some(4.0)));
    check(seen == expected, || format!("progress was reported as {seen:?}"))?;
    Ok(format!("progress came {} times, each time higher, then the result: {got}", seen.len()))
}

pub(super) fn cancel(client: &mut Client, wire: &Wire) -> Result<String, Wrong> {
    let begun = wire.len();
    let call = start(client, 1_000, 20, &CallOptions::new().with_progress())?;
    // Cancelled once it has reported progress: by then the server is known to work on it.
    let deadline = Instant::now() + ANSWER;
    while wire.find(begun, is_progress).is_none() {
        check(Instant::now() < deadline, || "the call reported no progress".into())?;
        client.poll(Duration::from_millis(50))?;
    }
    client.cancel(call, "no longer needed")?;

    // The server has one thread: it answers this only if it has stopped.
    let options = CallOptions::new().timeout(ANSWER);
    let next = client.start_tool("echo", &json!({ "text": NEXT }), &options)?;
    match client.wait(next) {
        Err(Error::Call(CallError::TimedOut)) => {
            return Err("the server went on with the cancelled call".into());
        }
        result => {
            let result = result?;
            only_text(&result.parse().map_err(|error| format!("no result of a tool: {error}"))?)?
        }
    };
    let id = id_of(client, wire, begun)?.ok_or("the call was not seen on the wire")?;
    check(told(client, wire, begun, &id)?, || "the server was not told of the cancellation".into())?;
    let next = |message: &Message| !message.sent && message.json["result"]["content"][0]["text"] == NEXT;
    check(seen(client, wire, begun, next)?.is_some(), || "the answer was not seen on the wire".into())?;
    let answered = wire.find(begun, |message| !message.sent && message.json["id"] == id);
    check(answered.is_none(), || "the server answered the cancelled call".into())?;
    silent(client, wire)?;
    Ok("the server stopped, said nothing more about it, and answers the next call".into())
}

pub(super) fn timeout(client: &mut Client, wire: &Wire) -> Result<String, Wrong> {
    let begun = wire.len();
    let started = Instant::now();
    let limit = Duration::from_millis(300);
    let call = start(client, 1, 60_000, &CallOptions::new().timeout(limit))?;
    let outcome = client.wait(call);
    let took = started.elapsed();
    match outcome {
        Err(Error::Call(CallError::TimedOut)) => {}
        Err(other) => return Err(format!("the call ended otherwise: {other}").into()),
        Ok(result) => {
            return Err(format!("the call was answered although it takes a minute: {result}").into());
        }
    }
    check(took >= limit && took < limit + ANSWER, || {
        format!("the limit was {limit:?}, and it took {took:?}")
    })?;
    let alive = client.ping().map_err(|error| format!("the server no longer answers: {error}"))?;
    let id = id_of(client, wire, begun)?.ok_or("the call was not seen on the wire")?;
    check(told(client, wire, begun, &id)?, || "the server was not told that nobody waits any more".into())?;
    Ok(format!(
        "given up after {} ms, the server was told; it is alive (a round trip takes {} µs)",
        took.as_millis(),
        alive.as_micros()
    ))
}

pub(super) fn end(client: Client) -> Result<String, Wrong> {
    let ended = client.close()?.ok_or("there was no process to end")?;
    if let Some(complaint) = session::complaint(&ended) {
        return Err(complaint.into());
    }
    match ended.status {
        Some(status) if status.success() && ended.how == How::Exited => {
            Ok("it ended by itself, with exit code 0".into())
        }
        Some(status) => Err(format!("the server ended with {status}").into()),
        None => Err("nobody knows how the server ended".into()),
    }
}

// ---- what the steps share ----

pub(super) fn check(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(complaint().into()) }
}

/// Begins a call of `count`
fn start(client: &mut Client, to: u32, delay_ms: u32, options: &CallOptions) -> Result<Pending, Wrong> {
    #[derive(Serialize)]
    struct Count {
        to: u32,
        delay_ms: u32,
    }
    Ok(client.start_tool("count", &Count { to, delay_ms }, options)?)
}

/// The text of a result that is exactly one text and no error
pub(super) fn only_text(result: &CallToolResult<'_>) -> Result<String, Wrong> {
    match &*result.content {
        [Content::Text(text)] if !result.failed() => Ok(text.text.clone().into_owned()),
        _ => Err(format!("the answer is not one text: {result:?}").into()),
    }
}

fn is_progress(message: &Message) -> bool {
    !message.sent && message.json["method"] == "notifications/progress"
}

/// The id of the first tool call since `from`
fn id_of(client: &mut Client, wire: &Wire, from: usize) -> Result<Option<Value>, Wrong> {
    let call = seen(client, wire, from, |message| message.sent && message.json["method"] == "tools/call")?;
    Ok(call.map(|call| call["id"].clone()))
}

/// The first message since `from` for which this holds, which may be told a moment after what came of it
pub(super) fn seen(
    client: &mut Client,
    wire: &Wire,
    from: usize,
    holds: impl Fn(&Message) -> bool,
) -> Result<Option<Value>, Wrong> {
    let deadline = Instant::now() + ANSWER;
    loop {
        match wire.find(from, &holds) {
            None if Instant::now() < deadline => client.poll(SOON)?,
            found => return Ok(found),
        }
    }
}

/// Whether a cancellation of that request was sent
fn told(client: &mut Client, wire: &Wire, from: usize, id: &Value) -> Result<bool, Wrong> {
    let is_it = |message: &Message| {
        message.sent
            && message.json["method"] == "notifications/cancelled"
            && message.json["params"]["requestId"] == *id
    };
    Ok(seen(client, wire, from, is_it)?.is_some())
}

/// Listens for a moment in which nothing may come
fn silent(client: &mut Client, wire: &Wire) -> Result<(), Wrong> {
    let from = wire.len();
    client.poll(Duration::from_millis(100))?;
    let stray = wire.find(from, |message| !message.sent);
    check(stray.is_none(), || format!("the server still says {}", stray.unwrap_or_default()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// What is asked next
const NEXT: &str = "still there?";
/// Between two looks
const SOON: Duration = Duration::from_millis(10);
/// How long an answer may take that takes no time, also on a busy machine
pub(super) const ANSWER: Duration = Duration::from_secs(3);
