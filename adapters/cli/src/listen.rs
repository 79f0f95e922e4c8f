//! The `listen` command: prints changes of lists and resources.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, IsTerminal, Read};
use std::thread;
use std::time::Instant;

use clap::Args;
use mcp_blocking::Error;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, Change};
use serde_json::{Value, json};

use crate::args::{TargetArgs, duration, usage};
use crate::changes::{ChangeEvent, change_name};
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes;
use crate::output::{print, print_value};
use crate::session::ClientSession;

/// Follows changes of lists and resources.
///
/// Prints what the server agreed to report, then one line for each change. Ends on Ctrl-C, on Ctrl-D at a terminal,
/// or at the limit that --for or --count sets.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe listen [OPTIONS] [URI]..."))]
pub(crate) struct ListenArgs {
    /// Resources to follow.
    #[arg(value_name = "URI")]
    pub(crate) uris: Vec<String>,
    /// Prints one JSON object per line instead.
    ///
    /// Its members: listening (the filter), changed (tools, prompts, resources, or resource with its uri), ended
    /// (count, time, input, graceful, lost), and error after a failure.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ends after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Ends after this number of changes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

pub(crate) fn run(args: &ListenArgs) -> Result<(), CommandFailure> {
    ClientSession::run(&args.target, |session| ListenCommand { args, session, change_count: 0 }.listen())
}

struct ListenCommand<'a> {
    args: &'a ListenArgs,
    session: &'a mut ClientSession,
    /// Number of changes printed so far.
    change_count: u64,
}

/// Reason why listening ends.
enum ListenEnd {
    /// `--count` is reached.
    Count,
    /// `--for` has elapsed.
    Time,
    /// The input was closed at the terminal.
    Input,
    /// The server ended the subscription gracefully.
    Graceful,
    /// The connection is lost, or the server ended the subscription with an error.
    Lost(Error),
}

impl ListenCommand<'_> {
    fn listen(mut self) -> Result<(), CommandFailure> {
        let wanted = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true);
        let wanted = if self.args.uris.is_empty() {
            wanted
        } else {
            wanted.resource_subscriptions(self.args.uris.clone())
        };
        let begun = Instant::now();
        let subscribed = self.session.client.subscribe(&wanted);
        let (subscription, honoured) = subscribed.map_err(|error| self.session.failure(&error))?;
        let (accepted, refused) = (filter_parts(&honoured), unhonoured_parts(&wanted, &honoured));
        if accepted.is_empty() {
            return Err(CommandFailure::failed(format!(
                "the server does not report changes of any of these: {}",
                refused.join(", ")
            )));
        }
        if !refused.is_empty() {
            notes::print_note(&format!("the server does not report changes of {}", refused.join(", ")));
        }
        self.print_line(&format!("listening  {}", accepted.join(", ")), || json!({ "listening": honoured }))?;

        let until = self.args.time.map(|time| begun + time);
        let input = watch_input();
        let end = loop {
            if let Some(end) = self.print_changes()? {
                break end;
            }
            if input.load(Ordering::Relaxed) {
                break ListenEnd::Input;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break ListenEnd::Time;
            }
            if let Err(error) = self.session.client.poll(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)) {
                // Changes that arrived before the failure are printed before it.
                match self.print_changes()? {
                    None | Some(ListenEnd::Lost(_)) => break ListenEnd::Lost(error),
                    Some(end) => break end,
                }
            }
        };
        if matches!(end, ListenEnd::Count | ListenEnd::Time | ListenEnd::Input) {
            // Fails if the subscription has ended meanwhile; that is harmless.
            let _ = self.session.client.unsubscribe(subscription);
        }
        self.finish(end)
    }

    /// Prints queued events. Returns the reason to end, if there is one.
    fn print_changes(&mut self) -> Result<Option<ListenEnd>, CommandFailure> {
        for item in self.session.changes.take() {
            match item {
                ChangeEvent::Changed(change) => {
                    let line = format!("changed    {}", change_name(&change));
                    self.print_line(&line, || match &change {
                        Change::Resource(uri) => json!({"changed": "resource", "uri": uri}),
                        list => json!({"changed": change_name(list)}),
                    })?;
                    self.change_count += 1;
                    if self.args.count.is_some_and(|count| self.change_count >= count) {
                        return Ok(Some(ListenEnd::Count));
                    }
                }
                ChangeEvent::Ended(None) => return Ok(Some(ListenEnd::Graceful)),
                ChangeEvent::Ended(Some(error)) => return Ok(Some(ListenEnd::Lost(Error::Call(error)))),
            }
        }
        Ok(None)
    }

    fn finish(&self, end: ListenEnd) -> Result<(), CommandFailure> {
        let (word, text) = match &end {
            ListenEnd::Count => ("count", "the requested number of changes has arrived"),
            ListenEnd::Time => ("time", "the time has elapsed"),
            ListenEnd::Input => ("input", "the input has ended"),
            ListenEnd::Graceful => ("graceful", "the server has ended the subscription"),
            ListenEnd::Lost(_) => ("lost", "the subscription is lost"),
        };
        self.print_line(&format!("ended      {text}"), || json!({ "ended": word }))?;
        match end {
            ListenEnd::Lost(Error::Call(CallError::Rpc(error))) => {
                Err(CommandFailure::failed(format!("the subscription is lost: {error}")))
            }
            ListenEnd::Lost(error @ Error::Call(CallError::Http(_))) => {
                Err(self.session.failure(&error).with_context("the subscription is lost"))
            }
            ListenEnd::Lost(error) => Err(self.session.failure(&error)),
            _ => Ok(()),
        }
    }

    /// Prints one line: text, or JSON with `--json`.
    fn print_line(&self, text: &str, value: impl FnOnce() -> Value) -> Result<(), CommandFailure> {
        if !self.args.json {
            return print(&format!("{}\n", escape::line(text)));
        }
        print_value(&value())
    }
}

/// Lists the parts of a filter by name.
fn filter_parts(filter: &SubscriptionFilter) -> Vec<&str> {
    let lists = [
        (filter.tools_list_changed, "tools"),
        (filter.prompts_list_changed, "prompts"),
        (filter.resources_list_changed, "resources"),
    ];
    let lists = lists.into_iter().filter(|(is, _)| *is == Some(true)).map(|(_, name)| name);
    lists.chain(filter.resource_subscriptions.iter().flatten().map(|uri| &**uri)).collect()
}

/// Returns the wanted parts that the server did not accept.
fn unhonoured_parts<'a>(wanted: &'a SubscriptionFilter, honoured: &SubscriptionFilter) -> Vec<&'a str> {
    let honoured = filter_parts(honoured);
    filter_parts(wanted).into_iter().filter(|part| !honoured.contains(part)).collect()
}

/// Returns a flag that is set when the input is closed at a terminal.
///
/// Input that is not a terminal may be closed from the start. It is ignored.
fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    if io::stdin().is_terminal() {
        let flag = Arc::clone(&ended);
        thread::spawn(move || {
            let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
            flag.store(true, Ordering::Relaxed);
        });
    }
    ended
}

/// Interval at which the end of the input is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

const HELP: &str = "\
A change names what has changed, not how. Several changes of one list or
resource may be reported as one. The exit code is 0 when the server ends the
subscription gracefully, 3 when the connection is lost. With --log, log messages
of a legacy server are shown on stderr. Modern servers log only during calls.

Examples:
  mcp-probe listen clock://running --count 3 -- mcp-probe serve --everything
  mcp-probe listen --json --for 60s -- my-server | jq -r .changed";
