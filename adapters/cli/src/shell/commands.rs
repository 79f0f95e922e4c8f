//! The commands of the shell.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use mcp_blocking::Error;
use mcp_proto::client::{Paginator, SubscriptionKey};
use mcp_proto::model::{Map, SubscriptionFilter};
use mcp_proto::{CallError, CallOptions, Change, EntryKind, RawJson};
use serde_json::json;
use terminal_size::{Width, terminal_size};

use super::ShellArgs;
use super::completion::Completer;
use super::editor::Completion;
use super::line::{self, Statement};
use super::lists::{Lists, MAX_LIST_BYTES};
use crate::args::values::level;
use crate::changes::{ChangeEvent, change_name};
use crate::client::{PageParams, take_pages};
use crate::entries;
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::notes;
use crate::output::{print, print_json, print_value};
use crate::paint::Paint;
use crate::request::{refusal_failure, take_result, unreadable_result};
use crate::screen;
use crate::session::{self, ClientSession, RequestError};
use crate::stop::Interrupts;
use crate::verb::call::Call;
use crate::verb::complete::Complete;
use crate::verb::kept::{KeptResults, parsed};
use crate::verb::prompt::Prompt;
use crate::verb::read::Read;
use crate::verb::{Answer, Verb};

/// A session, with what the shell remembers of it.
pub(super) struct Shell<'a> {
    args: &'a ShellArgs,
    is_terminal: bool,
    /// `None` after the connection was lost.
    session: Option<ClientSession>,
    kept: KeptResults,
    lists: Lists,
    /// Subscriptions to resources.
    subscriptions: BTreeMap<String, SubscriptionKey>,
    interrupts: Interrupts,
}

/// What happens after a line.
pub(super) enum Flow {
    Continue,
    Quit,
}

/// What makes a request and keeps its result. Returns `false` if its words have another form.
type RunRequest = fn(&mut Shell<'_>, Option<&str>, &[String]) -> Result<bool, CommandFailure>;

/// The commands with their words, and what runs those that are requests.
pub(super) const COMMANDS: &[(&str, &str, Option<RunRequest>)] = &[
    ("call", Call::FORM, Some(request::<Call>)),
    ("complete", Complete::FORM, Some(request::<Complete>)),
    ("describe", "NAME", None),
    ("help", "", None),
    ("log", "LEVEL", None),
    ("ping", "", None),
    ("prompt", Prompt::FORM, Some(request::<Prompt>)),
    ("prompts", "", None),
    ("quit", "", None),
    ("read", Read::FORM, Some(request::<Read>)),
    ("reconnect", "", None),
    ("resources", "", None),
    ("results", "", None),
    ("show", "$NAME[/POINTER]", None),
    ("subscribe", "URI", None),
    ("tools", "", None),
    ("unsubscribe", "URI", None),
];

/// Levels of log messages, as `log` takes them.
pub(super) const LOG_LEVELS: &[&str] =
    &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl<'a> Shell<'a> {
    /// Opens the session.
    ///
    /// # Errors
    ///
    /// Fails if there is no connection.
    pub(super) fn open(args: &'a ShellArgs, is_terminal: bool) -> Result<Self, CommandFailure> {
        let mut shell = Self {
            args,
            is_terminal,
            session: None,
            kept: KeptResults::default(),
            lists: Lists::default(),
            subscriptions: BTreeMap::new(),
            interrupts: Interrupts::new(screen::end_editing),
        };
        screen::set_interrupts(&shell.interrupts);
        shell.connect()?;
        Ok(shell)
    }

    fn connect(&mut self) -> Result<(), CommandFailure> {
        let args = self.args;
        let mut session = ClientSession::open_for_requests(&args.request_args, Some(&args.answer_args))?;
        session.interrupts = Some(self.interrupts.clone());
        self.session = Some(session);
        Ok(())
    }

    pub(super) fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    /// Subscribes to changes of the lists, for completions. Without it they are read more often.
    pub(super) fn follow_lists(&mut self) {
        let Some(session) = &mut self.session else { return };
        let wanted = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true);
        let Ok((_, honoured)) = session.client.subscribe(&wanted) else { return };
        let mut watched = Vec::new();
        for (is_watched, kinds) in [
            (honoured.tools_list_changed, &[EntryKind::Tool][..]),
            (honoured.prompts_list_changed, &[EntryKind::Prompt]),
            (honoured.resources_list_changed, &[EntryKind::Resource, EntryKind::ResourceTemplate]),
        ] {
            if is_watched == Some(true) {
                watched.extend_from_slice(kinds);
            }
        }
        self.lists.set_watched(watched);
    }

    // ---- between the lines -----------------------------------------------------------------------------------------

    /// Waits for the user, and processes messages of the server meanwhile.
    ///
    /// `next` waits for the user, at most for a time, and without end if there is none.
    pub(super) fn wait_for<E>(&mut self, next: impl Fn(Option<Duration>) -> Option<E>) -> E {
        // The next line of a script is there in no time.
        let mut time = READY_TIME;
        loop {
            if let Some(event) = next(self.session.is_some().then_some(time)) {
                return event;
            }
            time = Duration::ZERO;
            if let Some(session) = &mut self.session {
                if let Err(error) = session.client.poll(IDLE_INTERVAL) {
                    let failure = session.failure(&error);
                    self.lose(&failure);
                }
            }
            self.print_changes();
        }
    }

    /// Completes the end of a line.
    pub(super) fn complete(&mut self, line: &str) -> Completion {
        let session = self.session.as_mut();
        Completer { session, lists: &mut self.lists, kept: &self.kept }.complete(line)
    }

    /// Prints a failure, with `--json` also as an object.
    pub(super) fn report(&self, failure: &CommandFailure) {
        if self.args.request_args.json {
            failure.print_json();
        }
        failure.report();
    }

    /// Ends the session after its connection was lost.
    fn lose(&mut self, failure: &CommandFailure) {
        notes::print_note(&format!("{}; `reconnect` opens the session anew", failure.message()));
        self.close();
        self.subscriptions.clear();
        self.lists.clear();
    }

    /// Prints changes that the server has reported.
    fn print_changes(&mut self) {
        let Some(session) = &self.session else { return };
        for event in session.changes.take() {
            match event {
                ChangeEvent::Changed(change) => {
                    self.lists.handle_change(&change);
                    let name = change_name(&change);
                    notes::print_note(&match change {
                        Change::Resource(_) => format!("the resource {name} has changed"),
                        _ => format!("the list of {name} has changed"),
                    });
                }
                ChangeEvent::Ended(error) => {
                    // It does not matter which one: lists are read more often without.
                    self.lists.set_watched(Vec::new());
                    let why = error.map(|error| format!(": {error}")).unwrap_or_default();
                    notes::print_note(&format!("a subscription has ended{why}"));
                }
            }
        }
    }

    // ---- commands --------------------------------------------------------------------------------------------------

    /// Runs a line.
    ///
    /// # Errors
    ///
    /// Fails if the line is wrong, or if its command fails.
    pub(super) fn run_line(&mut self, text: &str) -> Result<Flow, CommandFailure> {
        let Some(statement) = line::parse(text)? else { return Ok(Flow::Continue) };
        let outcome = self.run(&statement);
        if let Some(session) = &mut self.session {
            // A call may have failed because the connection has ended.
            if let Err(error) = session.client.poll(Duration::ZERO) {
                let failure = session.failure(&error);
                self.lose(&failure);
            }
        }
        self.print_changes();
        outcome
    }

    fn run(&mut self, statement: &Statement) -> Result<Flow, CommandFailure> {
        let Statement { name, command, words } = statement;
        let known = COMMANDS.iter().find(|(name, ..)| name == command);
        let request = known.and_then(|(_, _, request)| *request);
        if name.is_some() && request.is_none() {
            let why = format!("`{command}` has no result to name: write x = call add a=1");
            return Err(CommandFailure::usage(why).with_hint(HELP_HINT));
        }
        let is_json = self.args.request_args.json;
        match (command.as_str(), words.as_slice()) {
            ("quit" | "exit", []) => return Ok(Flow::Quit),
            ("help", _) if is_json => {
                let rows = COMMANDS.iter().map(|(name, words, _)| json!({ "name": name, "words": words }));
                print_value(&json!({ "commands": rows.collect::<Vec<_>>() }))?;
            }
            ("help", _) => print(&help())?,
            ("tools", []) => self.list(&[EntryKind::Tool])?,
            ("prompts", []) => self.list(&[EntryKind::Prompt])?,
            ("resources", []) => self.list(&[EntryKind::Resource, EntryKind::ResourceTemplate])?,
            ("describe", [entry]) => self.describe(entry)?,
            ("ping", []) => self.ping()?,
            ("log", [level]) => self.log(level)?,
            ("subscribe", [uri]) => self.subscribe(uri)?,
            ("unsubscribe", [uri]) => self.unsubscribe(uri)?,
            ("results", []) => self.show_results()?,
            ("show", [word]) => match self.kept.lookup(word)? {
                Some(value) if is_json => print_value(&BTreeMap::from([("value", value)]))?,
                Some(value) => print_json(&value)?,
                None => {
                    return Err(CommandFailure::usage(format!("`{word}` is no result: write show $1"))
                        .with_hint(HELP_HINT));
                }
            },
            ("reconnect", []) => self.reconnect()?,
            _ if request.map(|run| run(self, name.as_deref(), words)).transpose()?.unwrap_or_default() => {}
            _ => {
                let why = match known {
                    Some((name, words, _)) => {
                        format!("the form is: {}", format!("{name} {words}").trim_end())
                    }
                    None => format!("there is no command `{command}`"),
                };
                return Err(CommandFailure::usage(why).with_hint(HELP_HINT));
            }
        }
        Ok(Flow::Continue)
    }

    fn session(&mut self) -> Result<&mut ClientSession, CommandFailure> {
        self.session.as_mut().ok_or_else(|| {
            CommandFailure::new(Exit::Connection, "there is no connection")
                .with_hint("`reconnect` opens the session anew")
        })
    }

    fn reconnect(&mut self) -> Result<(), CommandFailure> {
        self.close();
        self.subscriptions.clear();
        self.lists.clear();
        self.connect()?;
        if self.is_terminal {
            self.follow_lists();
        }
        Ok(())
    }

    /// Returns what was received for a request, unless the server got no answer to a question of its own.
    fn accept<T>(
        &mut self,
        received: Result<T, RequestError>,
        hint: impl Fn(&mut ClientSession) -> Option<String>,
    ) -> Result<T, CommandFailure> {
        let session = self.session()?;
        match (received, session.unanswered.failure()) {
            (Err(RequestError::Command(failure)), _) | (_, Some(failure)) => Err(failure),
            (Err(RequestError::Client(error)), None) => Err(refusal_failure(session, &error, hint)),
            (Ok(received), None) => Ok(received),
        }
    }

    fn ping(&mut self) -> Result<(), CommandFailure> {
        let session = self.session()?;
        let begin = Instant::now();
        let pong = session.request(session.client.ping_method(), &Map::<()>::new(), &CallOptions::new());
        self.accept(pong, |_| None)?;
        let millis = (begin.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        match self.args.request_args.json {
            true => print_value(&json!({ "milliseconds": millis })),
            false => print(&format!("answered in {millis:.3} ms\n")),
        }
    }

    fn log(&mut self, word: &str) -> Result<(), CommandFailure> {
        let level = parsed(word, level)?;
        let session = self.session()?;
        session.client.set_log_level(level.clone()).map_err(|error| session.failure(&error))?;
        *mcp_std::sync::lock(&session.log_level) = Some(level);
        Ok(())
    }

    fn subscribe(&mut self, uri: &str) -> Result<(), CommandFailure> {
        let uri = self.kept.text(uri)?;
        let session = self.session()?;
        let wanted = SubscriptionFilter::new().resource_subscriptions(vec![uri.clone()]);
        let (key, honoured) = session.client.subscribe(&wanted).map_err(|error| session.failure(&error))?;
        if !honoured.resource_subscriptions.iter().flatten().any(|honoured| **honoured == *uri) {
            return Err(CommandFailure::failed(format!(
                "the server does not report changes of any of these: {uri}"
            )));
        }
        if let Some(before) = self.subscriptions.insert(uri, key) {
            // It has the same changes.
            let _ = self.session()?.client.unsubscribe(before);
        }
        Ok(())
    }

    fn unsubscribe(&mut self, uri: &str) -> Result<(), CommandFailure> {
        let uri = self.kept.text(uri)?;
        let key = self.subscriptions.remove(&uri).ok_or_else(|| {
            CommandFailure::usage(format!("there is no subscription to {uri}")).with_hint(HELP_HINT)
        })?;
        let session = self.session()?;
        session.client.unsubscribe(key).map_err(|error| session.failure(&error))
    }

    // ---- what is shown ---------------------------------------------------------------------------------------------

    /// Reads lists anew, and prints a line for each entry.
    fn list(&mut self, kinds: &[EntryKind]) -> Result<(), CommandFailure> {
        let mut members = serde_json::Map::new();
        let mut rows = Vec::new();
        for kind in kinds.iter().copied() {
            let mut entries = Vec::new();
            if self.session()?.client.peer().has(kind.capability()) {
                entries = match self.read_list(kind) {
                    Ok(entries) => entries,
                    // Many servers with resources do not implement templates.
                    Err(RequestError::Client(Error::Call(CallError::Rpc(_))))
                        if kind == EntryKind::ResourceTemplate =>
                    {
                        Vec::new()
                    }
                    Err(RequestError::Client(error)) => return Err(self.session()?.failure(&error)),
                    Err(RequestError::Command(failure)) => return Err(failure),
                };
            }
            rows.extend(entries.iter().map(|entry| short_entry(kind, entry)));
            let values = entries.iter().map(|entry| entry.parse().unwrap_or_default()).collect();
            members.insert(kind.list_member().to_owned(), serde_json::Value::Array(values));
            self.lists.set(kind, entries);
        }
        if self.args.request_args.json {
            return print_value(&members);
        }
        if rows.is_empty() {
            return print(&format!("{}\n", Paint::for_stdout().dim("(none)")));
        }
        print(&format_rows(&rows))
    }

    /// Reads the pages of a list. An interrupt ends that.
    fn read_list(&mut self, kind: EntryKind) -> Result<Vec<RawJson>, RequestError> {
        let session = self.session().map_err(RequestError::Command)?;
        let method = kind.list_method();
        let mut pages = Paginator::new(kind, MAX_LIST_BYTES);
        let request = |params: &PageParams<'_>| session.request(method, params, &CallOptions::new());
        take_pages(&mut pages, request, |why| RequestError::Command(unreadable_result(method, &why)))?;
        session::note_incomplete(kind, pages.diagnostic().as_ref(), pages.is_cut());
        Ok(pages.into_entries())
    }

    /// Prints an entry of any list in full.
    fn describe(&mut self, word: &str) -> Result<(), CommandFailure> {
        let name = self.kept.text(word)?;
        let is_json = self.args.request_args.json;
        let paint = Paint::for_stdout();
        for (kind, members, push) in [
            (EntryKind::Tool, &["name"][..], entries::push_tool as fn(&mut String, &RawJson, Paint)),
            (EntryKind::Prompt, &["name"], entries::push_prompt),
            (EntryKind::Resource, &["uri", "name"], entries::push_resource),
            (EntryKind::ResourceTemplate, &["uriTemplate", "name"], entries::push_template),
        ] {
            if !self.session()?.client.peer().has(kind.capability()) {
                continue;
            }
            let is_named = |entry: &RawJson| {
                let text = |member: &&str| entry.member(member).and_then(|of| of.string());
                members.iter().filter_map(text).any(|of| of == name)
            };
            let entries = match self.read_list(kind) {
                Err(RequestError::Command(failure)) => return Err(failure),
                read => read.unwrap_or_default(),
            };
            if let Some(entry) = entries.into_iter().find(is_named) {
                if is_json {
                    return print_json(&entry);
                }
                let mut out = String::new();
                push(&mut out, &entry, paint);
                return print(&out);
            }
        }
        Err(CommandFailure::failed(format!(
            "there is nothing with the name `{name}` in the lists of the server"
        ))
        .with_hint("`tools`, `resources` and `prompts` show what there is"))
    }

    fn show_results(&self) -> Result<(), CommandFailure> {
        let rows = self.kept.all().iter().map(|kept| (kept.label(), &kept.of, kept.value.as_str().len()));
        if self.args.request_args.json {
            let rows = rows.map(|(name, of, bytes)| json!({"name": name, "of": of, "bytes": bytes}));
            return print_value(&json!({"results": rows.collect::<Vec<_>>()}));
        }
        let rows = rows.map(|(name, of, bytes)| (name, format!("{of}, {bytes} bytes")));
        print(&format_rows(&rows.collect::<Vec<_>>()))
    }
}

/// Makes a request, and prints and keeps its result. `name` is that of the result.
fn request<V: Verb>(
    shell: &mut Shell<'_>,
    name: Option<&str>,
    words: &[String],
) -> Result<bool, CommandFailure> {
    let request_args = &shell.args.request_args;
    let Some((line, mut verb)) = V::from_words(words, &shell.kept)? else { return Ok(false) };
    verb.prepare(&request_args.target.authorization)?;
    let received = verb.send(shell.session()?, &request_args.call_options());
    let Answer { result, note, outcome } = shell.accept(received, |session| verb.hint(session))?;
    let read = take_result::<V::Request>(V::NOUN, &result, request_args.json)?;
    let paint = Paint::for_stdout();
    let shown = read.map(|read| (V::SHOW)(&read, paint));
    let label = shell.kept.keep(name, &line, result);
    shown.iter().try_for_each(|shown| print(shown))?;
    match label {
        Some(label) if shell.is_terminal && !request_args.json => {
            print(&format!("{}\n", paint.dim(label)))?;
        }
        Some(_) => {}
        None => notes::print_note("the result is not kept: the results with names fill the room for all"),
    }
    note.iter().for_each(|note| notes::print_note(note));
    outcome.map(|()| true)
}

/// Returns the name of an entry, and the first line of its description.
fn short_entry(kind: EntryKind, entry: &RawJson) -> (String, String) {
    let text = |member: &str| entry.member(member).and_then(|value| value.string());
    let name = match kind {
        EntryKind::Resource => text("uri"),
        EntryKind::ResourceTemplate => text("uriTemplate"),
        _ => text("name"),
    };
    let about = text("description").or_else(|| text("title")).or_else(|| text("name")).unwrap_or_default();
    (name.unwrap_or_else(|| "(unreadable)".into()), about.lines().next().unwrap_or_default().to_owned())
}

/// Formats rows of a name and a text, as wide as the terminal.
fn format_rows(rows: &[(String, String)]) -> String {
    let columns = match terminal_size() {
        Some((Width(columns), _)) if io::stdout().is_terminal() => usize::from(columns),
        _ => usize::MAX,
    };
    format_rows_within(columns, rows, Paint::for_stdout())
}

fn format_rows_within(columns: usize, rows: &[(String, String)], paint: Paint) -> String {
    let cut = |text: &str, room: usize| match room {
        0 => String::new(),
        room => truncate_str(text, room, "…").into_owned(),
    };
    // What is escaped has no control sequence, so its width is what the terminal shows.
    let shown = |(name, about): &(String, String)| {
        (cut(&escape::line(name), columns.saturating_sub(NAME_INDENT)), escape::line(about).into_owned())
    };
    let rows: Vec<_> = rows.iter().map(shown).collect();
    let width = rows.iter().map(|(name, _)| measure_text_width(name)).max().unwrap_or(0).min(MAX_NAME_WIDTH);
    let mut out = String::new();
    for (name, about) in rows {
        let used = measure_text_width(&name).max(width) + 2 * NAME_INDENT;
        let about = cut(&about, columns.saturating_sub(used));
        let name = pad_str(&name, width, Alignment::Left, None);
        let row = format!("  {}  {about}", paint.name(name));
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}

/// Returns the commands with their words.
fn help() -> String {
    let mut out = String::new();
    for (name, words, _) in COMMANDS {
        out.push_str(format!("  {name} {words}").trim_end());
        out.push('\n');
    }
    out + "A result gets a name by NAME = COMMAND, and $NAME/POINTER stands for its value.\n"
}

/// Interval at which messages of the server and the user are looked at in turn.
const IDLE_INTERVAL: Duration = Duration::from_millis(25);
/// Time in which a line that is there already is read.
const READY_TIME: Duration = Duration::from_millis(5);
/// Blanks before a name, and behind it.
const NAME_INDENT: usize = 2;
/// Maximum width that names are aligned to.
const MAX_NAME_WIDTH: usize = 32;
const HELP_HINT: &str = "`help` lists the commands";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_long_texts_stay_in_their_rows() {
        let row = |name: &str, about: &str| (name.to_owned(), about.to_owned());
        let rows = [
            row(&"漢".repeat(60), "x"),
            row("a", &"字".repeat(60)),
            row(&"n".repeat(100), "x"),
            row("b", &"e\u{301}".repeat(60)),
        ];
        let shown = format_rows_within(80, &rows, Paint::for_stdout());
        assert_eq!(shown.lines().count(), rows.len());
        for line in shown.lines() {
            assert!(measure_text_width(line) <= 80, "{line}");
        }
        assert!(format_rows_within(usize::MAX, &rows, Paint::for_stdout()).contains(&rows[1].1));
    }
}
