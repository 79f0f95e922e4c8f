//! `listen`: tells what changes at a server, until that is enough

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, IsTerminal, Read};
use std::thread;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, Change, RawJson};
use serde_json::{Value, json};

use crate::args;
use crate::escape;
use crate::failure::Failure;
use crate::news::Item;
use crate::output::{print, print_json};
use crate::session::{self, Session};

pub(crate) fn run(args: &args::Listen) -> Result<(), Failure> {
    let mut session = Session::open(&args.target, None)?;
    let outcome = Listener { args, session: &mut session, heard: 0 }.listen();
    session.close();
    outcome
}

struct Listener<'a> {
    args: &'a args::Listen,
    session: &'a mut Session,
    /// How many changes were told
    heard: u64,
}

/// Why there is no more to be told
enum End {
    /// As many as were wanted
    Count,
    /// As long as was wanted
    Time,
    /// The person has closed the input
    Input,
    /// The server has ended the subscription
    Graceful,
    /// The server is gone, or says that it cannot go on
    Lost(Error),
}

impl Listener<'_> {
    fn listen(mut self) -> Result<(), Failure> {
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
        let (tells, silent) = (parts(&honoured), missing(&wanted, &honoured));
        if tells.is_empty() {
            return Err(Failure::failed(format!("the server tells of none of this: {}", silent.join(", "))));
        }
        if !silent.is_empty() {
            session::note(&format!("the server does not tell of {}", silent.join(", ")));
        }
        self.say(&format!("listening  {}", tells.join(", ")), || json!({ "listening": honoured }))?;

        let until = self.args.time.map(|time| begun + time);
        let input = watch_input();
        let end = loop {
            if let Some(end) = self.tell()? {
                break end;
            }
            if input.load(Ordering::Relaxed) {
                break End::Input;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break End::Time;
            }
            if let Err(error) = self.session.client.poll(left.unwrap_or(LOOK).min(LOOK)) {
                // What came before the end is told before it.
                match self.tell()? {
                    None | Some(End::Lost(_)) => break End::Lost(error),
                    Some(end) => break end,
                }
            }
        };
        if matches!(end, End::Count | End::Time | End::Input) {
            // Refused when it has ended in this very moment.
            let _ = self.session.client.unsubscribe(subscription);
        }
        self.finish(end)
    }

    /// Tells what has come; why that is the end, if it is
    fn tell(&mut self) -> Result<Option<End>, Failure> {
        for item in self.session.news.take() {
            match item {
                Item::Changed(change) => {
                    let line = format!("changed    {}", name(&change));
                    self.say(&line, || match &change {
                        Change::Resource(uri) => json!({"changed": "resource", "uri": uri}),
                        list => json!({"changed": name(list)}),
                    })?;
                    self.heard += 1;
                    if self.args.count.is_some_and(|count| self.heard >= count) {
                        return Ok(Some(End::Count));
                    }
                }
                Item::Ended(None) => return Ok(Some(End::Graceful)),
                Item::Ended(Some(error)) => return Ok(Some(End::Lost(Error::Call(error)))),
            }
        }
        Ok(None)
    }

    fn finish(&self, end: End) -> Result<(), Failure> {
        let (word, text) = match &end {
            End::Count => ("count", "as many changes as were wanted"),
            End::Time => ("time", "the time is over"),
            End::Input => ("input", "the input has ended"),
            End::Graceful => ("graceful", "the server has ended the subscription"),
            End::Lost(_) => ("lost", "the subscription is lost"),
        };
        self.say(&format!("ended      {text}"), || json!({ "ended": word }))?;
        match end {
            End::Lost(Error::Call(CallError::Rpc(error))) => {
                Err(Failure::failed(format!("the subscription is lost: {error}")))
            }
            End::Lost(error @ Error::Call(CallError::Http(_))) => {
                Err(self.session.failure(&error).while_doing("the subscription is lost"))
            }
            End::Lost(error) => Err(self.session.failure(&error)),
            _ => Ok(()),
        }
    }

    /// One line, for people or for programs
    fn say(&self, text: &str, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        if !self.args.json {
            return print(&format!("{}\n", escape::line(text)));
        }
        let json = RawJson::encode(&value()).map_err(|error| Failure::failed(error.to_string()))?;
        print_json(&json)
    }
}

fn name(change: &Change) -> &str {
    match change {
        Change::Tools => "tools",
        Change::Prompts => "prompts",
        Change::Resources => "resources",
        Change::Resource(uri) => uri,
        _ => "something",
    }
}

/// What a filter is about
fn parts(filter: &SubscriptionFilter) -> Vec<&str> {
    let lists = [
        (filter.tools_list_changed, "tools"),
        (filter.prompts_list_changed, "prompts"),
        (filter.resources_list_changed, "resources"),
    ];
    let lists = lists.into_iter().filter(|(is, _)| *is == Some(true)).map(|(_, name)| name);
    lists.chain(filter.resource_subscriptions.iter().flatten().map(|uri| &**uri)).collect()
}

/// What of it the server does not tell of
fn missing<'a>(wanted: &'a SubscriptionFilter, honoured: &SubscriptionFilter) -> Vec<&'a str> {
    let honoured = parts(honoured);
    parts(wanted).into_iter().filter(|part| !honoured.contains(part)).collect()
}

/// Set when a person closes the input; what is no terminal may be closed from the beginning, and says nothing
fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    if io::stdin().is_terminal() {
        let told = Arc::clone(&ended);
        thread::spawn(move || {
            let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
            told.store(true, Ordering::Relaxed);
        });
    }
    ended
}

/// How often it is looked whether the input has ended
const LOOK: Duration = Duration::from_millis(200);
