//! The command `events`: lists, polls, follows and subscribes to the events of a server, and tests webhooks without one.

mod args;
mod follow;
mod receive;
mod send;
mod subscribe;
mod verify;

use alloc::collections::BTreeMap;

use mcp_events::client::{Error, EventsClient};
use mcp_events::webhook::Secret;
use mcp_events::wire::{EventOccurrence, EventType, PollEventsParams, PollEventsResult};
use mcp_proto::RawJson;
use mcp_runtime::client::{AsyncCalls, ClientBackend};

use crate::args::values::ArgumentValue;
use crate::client::ClientOperation;
use crate::entries;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes;
use crate::output::{join_names, print, print_value};
use crate::paint::Paint;
use crate::server::read_secret;
use crate::session::ClientSession;
use crate::tool_arguments;
pub(crate) use args::EventsCommand;
use args::{EventArgs, EventsListArgs, EventsPollArgs, WebhookSecretArgs};

pub(crate) fn run(command: &EventsCommand) -> Result<(), CommandFailure> {
    match command {
        EventsCommand::List(args) => ClientSession::run(&args.target, |session| list(session, args)),
        EventsCommand::Poll(args) => ClientSession::run(&args.target, |session| poll(session, args)),
        EventsCommand::Follow(args) => ClientSession::run(&args.target, |session| follow::run(session, args)),
        EventsCommand::Subscribe(args) => subscribe::run(args),
        EventsCommand::Receive(args) => receive::run(args),
        EventsCommand::Verify(args) => verify::run(args),
        EventsCommand::Send(args) => send::run(args),
    }
}

struct List;

impl ClientOperation for List {
    type Value = Vec<EventType>;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, Error> {
        EventsClient::new(calls).list().await
    }
}

fn list(session: &ClientSession, args: &EventsListArgs) -> Result<(), CommandFailure> {
    let events = session.client.run(List).map_err(|error| failure(session, &error))?;
    if args.json {
        return print_value(&BTreeMap::from([("events", events)]));
    }
    let (mut out, paint) = (String::new(), Paint::for_stdout());
    for described in &events {
        entries::push_event_type(&mut out, described, paint);
    }
    if events.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(the server lists no event types)")));
    }
    print(&out)
}

struct Poll<'a>(PollEventsParams<'a>);

impl ClientOperation for Poll<'_> {
    type Value = PollEventsResult;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, Error> {
        EventsClient::new(calls).poll(&self.0).await
    }
}

fn poll(session: &ClientSession, args: &EventsPollArgs) -> Result<(), CommandFailure> {
    let mut params = PollEventsParams::new(&*args.event.name).arguments(arguments(session, &args.event)?);
    if let Some(cursor) = &args.event.cursor {
        params = params.cursor(cursor.clone());
    }
    let polled = session.client.run(Poll(params)).map_err(|error| failure(session, &error))?;
    if args.json {
        return print_value(&polled);
    }
    let mut out: String = polled.events.iter().map(event_line).collect();
    match polled.cursor.as_ref().and_then(|cursor| cursor.0.as_deref()) {
        Some(cursor) => out.push_str(&format!("cursor     {}\n", escape::line(cursor))),
        None => out.push_str("cursor     none: the type has no replay\n"),
    }
    if polled.truncated == Some(true) {
        out.push_str("truncated  events were skipped\n");
    }
    match (polled.has_more, polled.next_poll_ms) {
        (Some(true), _) => out.push_str("next poll  now: more events are there\n"),
        (_, Some(millis)) => out.push_str(&format!("next poll  in {millis} ms\n")),
        _ => {}
    }
    print(&out)
}

/// Returns the arguments for an event type, with values of the types that its schema gives. The list is read if that is needed.
///
/// # Errors
///
/// Fails if an argument is given twice or does not have its type, or if the list cannot be read or lacks the type.
fn arguments(session: &ClientSession, event: &EventArgs) -> Result<RawJson, CommandFailure> {
    let EventArgs { name, arguments, .. } = event;
    tool_arguments::check_unique(arguments.iter().map(|argument| &argument.name))?;
    let mut schema = None;
    if arguments.iter().any(|argument| matches!(argument.value, ArgumentValue::Text(_))) {
        let types = session.client.run(List).map_err(|error| failure(session, &error))?;
        let names = join_names(types.iter().map(|described| &*described.name));
        let described = types.iter().find(|described| described.name == *name);
        let described = described.ok_or_else(|| {
            CommandFailure::failed(Error::UnknownType(name.clone()).to_string())
                .with_hint(format!("there are: {names}"))
        })?;
        schema = Some(described.input_schema.clone());
    }
    let of = format!("event type `{name}`");
    tool_arguments::merge(&of, arguments, &RawJson::empty_object(), schema.as_ref())
}

/// Creates the failure for an error of the events of a client.
fn failure(session: &ClientSession, error: &Error) -> CommandFailure {
    match error {
        Error::Client(error) => session.failure(error),
        Error::UnknownType(_) => {
            CommandFailure::failed(error.to_string()).with_hint("`mcp-probe events list` shows the types")
        }
        other => CommandFailure::failed(other.to_string()),
    }
}

/// Reads the secret of a webhook; `None` if no option names one.
///
/// # Errors
///
/// Fails if it cannot be read, or is none. No message has a part of it (SEC-019).
fn webhook_secret(args: &WebhookSecretArgs) -> Result<Option<Secret>, CommandFailure> {
    let (option, text) = match (&args.secret_env, &args.secret_file) {
        (Some(name), _) => ("--secret-env", read_secret(&format!("env:{name}"), "--secret-env")?),
        (_, Some(path)) => ("--secret-file", read_secret(&format!("@{}", path.display()), "--secret-file")?),
        (None, None) => return Ok(None),
    };
    let secret = Secret::parse(&text);
    secret.map(Some).map_err(|error| CommandFailure::usage(format!("{option}: {error}")))
}

/// Reads the secret of a webhook.
///
/// # Errors
///
/// As [`webhook_secret`], and if no option names one.
fn required_secret(args: &WebhookSecretArgs) -> Result<Secret, CommandFailure> {
    webhook_secret(args)?.ok_or_else(|| {
        CommandFailure::usage("no secret is given: write --secret-env NAME or --secret-file FILE")
    })
}

/// Prints an event: a line, or its JSON.
fn print_event(event: &EventOccurrence, as_json: bool) -> Result<(), CommandFailure> {
    if as_json { print_value(event) } else { print(&event_line(event)) }
}

fn event_line(event: &EventOccurrence) -> String {
    let EventOccurrence { event_id, name, timestamp, data, .. } = event;
    format!("{}\n", escape::line(&format!("{timestamp}  {name}  {event_id}  {data}")))
}

/// Tells on stderr that events may be missing.
fn note_gap(why: &str) {
    notes::print_note(&format!("events may be missing: {why}"));
}
