//! The steps in which both sides speak: a question in the middle of a call, and news

use core::time::Duration;
use std::time::Instant;

use mcp_proto::model::{ResourceContents, SubscriptionFilter};
use mcp_proto::{Change, Era};
use serde_json::json;

use super::steps::{ANSWER, Wrong, check, only_text, seen};
use super::wire::{GUEST, Message, Wire};
use crate::client::Client;
use crate::news::Item;

const PAGE: &str = "guestbook://page";

pub(super) fn ask(client: &mut Client, wire: &Wire) -> Result<String, Wrong> {
    let begun = wire.len();
    let result = client.call_tool("sign", &json!({}))?;
    let asked: fn(&Message) -> bool = match client.peer().era() {
        Era::Modern => |message| message.json["result"]["inputRequests"]["guest"]["method"] == FORM,
        Era::Legacy => |message| message.json["method"] == FORM,
    };
    check(seen(client, wire, begun, asked)?.is_some(), || "the server asked nothing".into())?;
    let got = only_text(&result)?;
    check(got == format!("Hello, {GUEST}!"), || format!("the server made {got:?} of the answer"))?;
    let how = match client.peer().era() {
        Era::Modern => "the call was answered with a form, and made again with what was filled in",
        Era::Legacy => "the server sent a form, and went on when it was filled in",
    };
    Ok(format!("{how}: {got}"))
}

pub(super) fn change(client: &mut Client, wire: &Wire) -> Result<String, Wrong> {
    let filter = SubscriptionFilter::new().resource_subscriptions([PAGE.to_owned()]);
    let (subscription, honoured) = client.subscribe(&filter)?;
    check(honoured == filter, || format!("of what is to be told the server tells only {honoured:?}"))?;
    only_text(&client.call_tool("sign", &json!({}))?)?;
    let deadline = Instant::now() + ANSWER;
    let wanted = Item::Changed(Change::Resource(PAGE.into()));
    while !wire.news.take().contains(&wanted) {
        check(Instant::now() < deadline, || "the server did not tell of the change".into())?;
        client.poll(Duration::from_millis(50))?;
    }
    let page = client.read_resource(PAGE)?;
    let text = match &*page.contents {
        [ResourceContents::Text(text)] => &*text.text,
        _ => return Err("the guest book is no text".into()),
    };
    check(text.lines().last() == Some(GUEST), || format!("the guest book says {text:?}"))?;
    client.unsubscribe(subscription)?;
    Ok("the server told of the change, and the client read what is new".into())
}

const FORM: &str = "elicitation/create";
