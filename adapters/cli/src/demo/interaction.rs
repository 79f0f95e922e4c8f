//! Steps with traffic in both directions: an input request during a call, change notifications, and a task.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::client::StartedTask;
use mcp_proto::model::{ResourceContents, SubscriptionFilter};
use mcp_proto::{Change, Era};
use serde_json::json;

use super::steps::{ANSWER_TIMEOUT, StepError, ensure, expect_message, only_text};
use super::wire::{USER_NAME, WireLog, WireMessage};
use crate::changes::ChangeEvent;
use crate::client::Client;

const GUESTBOOK_URI: &str = "guestbook://page";

pub(super) fn run_ask(client: &mut Client, wire: &WireLog) -> Result<String, StepError> {
    let begun = wire.len();
    let result = client.call_tool("sign", &json!({}))?;
    let asked: fn(&WireMessage) -> bool = match client.peer().era() {
        Era::Modern => {
            |message| message.json["result"]["inputRequests"]["guest"]["method"] == ELICITATION_METHOD
        }
        Era::Legacy => |message| message.json["method"] == ELICITATION_METHOD,
    };
    expect_message(client, wire, begun, asked, "the server did not request input")?;
    let got = only_text(&result)?;
    ensure(got == format!("Hello, {USER_NAME}!"), || format!("the server turned the answer into {got:?}"))?;
    let how = match client.peer().era() {
        Era::Modern => "the answer was a form; the call was repeated, filled in",
        Era::Legacy => "the server sent a form, and continued when it was filled in",
    };
    Ok(format!("{how}: {got}"))
}

pub(super) fn run_change(client: &mut Client, wire: &WireLog) -> Result<String, StepError> {
    let filter = SubscriptionFilter::new().resource_subscriptions([GUESTBOOK_URI.to_owned()]);
    let (subscription, honoured) = client.subscribe(&filter)?;
    ensure(honoured == filter, || format!("the server honours only {honoured:?}"))?;
    only_text(&client.call_tool("sign", &json!({}))?)?;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let wanted = ChangeEvent::Changed(Change::Resource(GUESTBOOK_URI.into()));
    while !wire.changes.take().contains(&wanted) {
        ensure(Instant::now() < deadline, || "the server did not report the change".into())?;
        client.poll(Duration::from_millis(50))?;
    }
    let page = client.read_resource(GUESTBOOK_URI)?;
    let text = match &*page.contents {
        [ResourceContents::Text(text)] => &*text.text,
        _ => return Err("the guest book is not text".into()),
    };
    ensure(text.lines().last() == Some(USER_NAME), || format!("the guest book says {text:?}"))?;
    client.unsubscribe(subscription)?;
    Ok("the server reported the change, and the client read the new contents".into())
}

pub(super) fn run_task(client: &mut Client, wire: &WireLog) -> Result<String, StepError> {
    let begun = wire.len();
    let StartedTask::Task(task) = client.start_task("multi_input", &json!({}))? else {
        return Err("the server made no task of the call".into());
    };
    let result = client.wait_task(&task)?;
    let is_poll = |message: &WireMessage| message.json["method"] == GET_METHOD;
    expect_message(client, wire, begun, is_poll, "the client did not ask for the state of the task")?;
    let asked: fn(&WireMessage) -> bool = match client.peer().era() {
        Era::Modern => |message| message.json["result"]["inputRequests"].is_object(),
        Era::Legacy => |message| message.json["method"] == ELICITATION_METHOD,
    };
    expect_message(client, wire, begun, asked, "the task did not ask")?;
    let got = only_text(&result)?;
    ensure(got == format!("{USER_NAME} and {USER_NAME}"), || format!("the task answered {got:?}"))?;
    Ok(format!("the task asked, got its answers, and has a result: {got}"))
}

const GET_METHOD: &str = "tasks/get";
const ELICITATION_METHOD: &str = "elicitation/create";
