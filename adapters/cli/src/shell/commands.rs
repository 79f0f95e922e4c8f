//! The commands of the shell.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::io::{self, IsTerminal as _};
use std::sync::PoisonError;
use std::time::Instant;

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use mcp_blocking::Error;
use mcp_proto::client::{Paginator, SubscriptionKey};
use mcp_proto::model::{
    CallToolParams, CompleteParams, GetPromptParams, Map, ReadResourceParams, RequestParams,
    SubscriptionFilter,
};
use mcp_proto::{CallError, CallOptions, Change, EntryKind, RawJson};
use serde::Serialize;
use serde_json::json;
use terminal_size::{Width, terminal_size};

use super::ShellArgs;
use super::completion::Completer;
use super::editor::Completion;
use super::kept::KeptResults;
use super::line::{self, Statement};
use super::lists::Lists;
use crate::args::values::{JsonSource, NamedArgument, assignment, json_source, level};
use crate::changes::{ChangeEvent, change_name};
use crate::client::{Client, StartedCall};
use crate::completion_request;
use crate::entries;
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_json, print_value};
use crate::paint::Paint;
use crate::progress::ProgressDisplay;
use crate::request;
use crate::results;
use crate::screen;
use crate::session::{self, ClientSession};
use crate::stop::Interrupts;
use crate::tool_arguments::{self, ToolSchemas};

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

/// The commands with their words.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("call", "TOOL [NAME=VALUE]..."),
    ("complete", "prompt:NAME|TEMPLATE ARGUMENT [TEXT] [NAME=VALUE]..."),
    ("describe", "NAME"),
    ("help", ""),
    ("log", "LEVEL"),
    ("ping", ""),
    ("prompt", "NAME [NAME=VALUE]..."),
    ("prompts", ""),
    ("quit", ""),
    ("read", "URI"),
    ("reconnect", ""),
    ("resources", ""),
    ("results", ""),
    ("show", "$NAME[/POINTER]"),
    ("subscribe", "URI"),
    ("tools", ""),
    ("unsubscribe", "URI"),
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
            interrupts: Interrupts::new(),
        };
        screen::set_interrupts(&shell.interrupts);
        shell.connect()?;
        Ok(shell)
    }

    fn connect(&mut self) -> Result<(), CommandFailure> {
        let request_args = &self.args.request_args;
        let mut session = ClientSession::open(&request_args.target, Some(&self.args.answer_args))?;
        session.failure_context.total_timeout = request_args.total;
        session.settle_roots();
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
        session::print_note(&format!("{}; `reconnect` opens the session anew", failure.message()));
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
                    session::print_note(&match change {
                        Change::Resource(_) => format!("the resource {name} has changed"),
                        _ => format!("the list of {name} has changed"),
                    });
                }
                ChangeEvent::Ended(error) => {
                    // It does not matter which one: lists are read more often without.
                    self.lists.set_watched(Vec::new());
                    let why = error.map(|error| format!(": {error}")).unwrap_or_default();
                    session::print_note(&format!("a subscription has ended{why}"));
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
            session.progress.end();
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
        let name = name.as_deref();
        if name.is_some() && !matches!(command.as_str(), "call" | "read" | "prompt" | "complete") {
            let why = format!("`{command}` has no result to name: write x = call add a=1");
            return Err(CommandFailure::usage(why).with_hint(HELP_HINT));
        }
        match (command.as_str(), words.as_slice()) {
            ("quit" | "exit", []) => return Ok(Flow::Quit),
            ("help", _) if self.args.request_args.json => {
                let row = |(name, words): &(&str, &str)| json!({ "name": name, "words": words });
                print_value(&json!({ "commands": COMMANDS.iter().map(row).collect::<Vec<_>>() }))?;
            }
            ("help", _) => print(&help())?,
            ("tools", []) => self.list(&[EntryKind::Tool])?,
            ("prompts", []) => self.list(&[EntryKind::Prompt])?,
            ("resources", []) => self.list(&[EntryKind::Resource, EntryKind::ResourceTemplate])?,
            ("describe", [entry]) => self.describe(entry)?,
            ("call", [tool, arguments @ ..]) => self.call(name, tool, arguments)?,
            ("read", [uri]) => self.read(name, uri)?,
            ("prompt", [prompt, arguments @ ..]) => self.prompt(name, prompt, arguments)?,
            ("complete", [of, argument, rest @ ..]) => self.complete_argument(name, of, argument, rest)?,
            ("ping", []) => self.ping()?,
            ("log", [level]) => self.log(level)?,
            ("subscribe", [uri]) => self.subscribe(uri)?,
            ("unsubscribe", [uri]) => self.unsubscribe(uri)?,
            ("results", []) => self.show_results()?,
            ("show", [word]) => match self.kept.lookup(word)? {
                Some(value) if self.args.request_args.json => print_value(&ShownJson { value })?,
                Some(value) => print_json(&value)?,
                None => {
                    return Err(CommandFailure::usage(format!("`{word}` is no result: write show $1"))
                        .with_hint(HELP_HINT));
                }
            },
            ("reconnect", []) => self.reconnect()?,
            (known, _) => {
                let form = COMMANDS.iter().find(|(name, _)| *name == known);
                let why = match form {
                    Some((name, words)) => format!("the form is: {}", format!("{name} {words}").trim_end()),
                    None => format!("there is no command `{known}`"),
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

    /// Waits for a call. An interrupt cancels it.
    fn wait(
        &mut self,
        started: Result<StartedCall, Error>,
        hint: Hint<'_>,
    ) -> Result<RawJson, CommandFailure> {
        let answered = self.wait_for_answer(started)?;
        let session = self.session()?;
        match (answered, session.unanswered.failure()) {
            (Ok(None), _) => Err(cancelled()),
            (_, Some(unanswered)) => Err(unanswered),
            (Ok(Some(result)), None) => Ok(result),
            (Err(error), None) => Err(request::refusal_failure(session, &error, hint)),
        }
    }

    /// Waits for the answer of a call, which is `None` if an interrupt has cancelled it.
    fn wait_for_answer(
        &mut self,
        started: Result<StartedCall, Error>,
    ) -> Result<Result<Option<RawJson>, Error>, CommandFailure> {
        let (interrupts, stderr) = (self.interrupts.clone(), self.args.request_args.target.stderr);
        let session = self.session()?;
        session.progress.begin(ProgressDisplay::new(stderr));
        interrupts.begin();
        let answered = started.and_then(|mut call| {
            loop {
                if let Some(result) = session.client.wait_timeout(&mut call, INTERRUPT_INTERVAL)? {
                    return Ok(Some(result));
                }
                if interrupts.is_requested() {
                    session.client.cancel(call, "interrupted by the user")?;
                    return Ok(None);
                }
            }
        });
        interrupts.end();
        session.progress.end();
        Ok(answered)
    }

    fn options(&self) -> CallOptions {
        let options = CallOptions::new().with_progress();
        match self.args.request_args.total {
            Some(total) => options.total_timeout(total),
            None => options,
        }
    }

    /// Sends a request, and prints and keeps its result.
    fn request<R: RequestParams + Serialize>(
        &mut self,
        of: &Naming<'_>,
        params: &R,
        show: fn(&R::Result, Paint) -> String,
        hint: Hint<'_>,
    ) -> Result<(), CommandFailure> {
        let options = self.options();
        let started = self.session()?.client.start(R::METHOD, params, &options);
        let result = self.wait(started, hint)?;
        self.finish::<R>(of, result, show)
    }

    /// Prints and keeps a result.
    fn finish<R: RequestParams>(
        &mut self,
        of: &Naming<'_>,
        result: RawJson,
        show: fn(&R::Result, Paint) -> String,
    ) -> Result<(), CommandFailure> {
        let is_json = self.args.request_args.json;
        let read = request::read_result::<R>(of.noun, &result, is_json)?;
        if is_json {
            request::print_result(of.noun, &result)?;
        }
        let paint = Paint::for_stdout();
        let shown = read.as_ref().filter(|_| !is_json).map(|read| show(read, paint));
        let label = self.kept.keep(of.name, &of.of, result);
        if let Some(shown) = shown {
            print(&shown)?;
        }
        match label {
            Some(label) if self.is_terminal && !self.args.request_args.json => {
                print(&format!("{}\n", paint.dim(label)))?;
            }
            Some(_) => {}
            None => {
                session::print_note("the result is not kept: the results with names fill the room for all")
            }
        }
        Ok(())
    }

    fn call(&mut self, name: Option<&str>, tool: &str, words: &[String]) -> Result<(), CommandFailure> {
        let tool = self.kept.text(tool)?;
        let (mut arguments, mut object) =
            (Vec::<NamedArgument>::new(), JsonSource::Json(RawJson::empty_object()));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--args" {
                let of_result = words.as_slice().first().map(|word| self.kept.lookup(word)).transpose()?;
                let source = match (of_result.flatten(), words.next()) {
                    (Some(value), _) => Some(object_source(value)),
                    (None, word) => word.map(|word| json_source(word)),
                };
                object = match source {
                    Some(Ok(JsonSource::Stdin)) | None => {
                        return Err(CommandFailure::usage("--args takes a JSON object or @FILE here"));
                    }
                    Some(source) => source.map_err(|why| CommandFailure::usage(format!("--args {why}")))?,
                };
            } else {
                arguments.push(self.kept.argument(word)?);
            }
        }
        tool_arguments::check_unique(arguments.iter().map(|argument| &argument.name))?;
        let object = tool_arguments::read_object(&object, &self.args.request_args.target.authorization)?;
        let (options, interrupts) = (self.options(), self.interrupts.clone());
        let session = self.session()?;
        let hint: Hint<'_> = &|client| request::alternatives(client, EntryKind::Tool, "tool", "name", &tool);
        // An interrupt ends the call when the list is there.
        interrupts.begin();
        let fetched = ToolSchemas::fetch(&tool, &arguments, session);
        let is_interrupted = interrupts.is_requested();
        interrupts.end();
        if is_interrupted {
            return Err(cancelled());
        }
        let mut schemas = match fetched {
            Ok(schemas) => schemas,
            Err(error) => return Err(request::refusal_failure(session, &error, hint)),
        };
        let of = format!("tool `{tool}`");
        let arguments = tool_arguments::merge(&of, &arguments, &object, schemas.input.as_ref())?;
        let started =
            session.client.start_tool(&tool, &arguments, &options).map_err(|error| schemas.explain(error));
        let hint: Hint<'_> = &|client| tool_arguments::advice(client, &tool, &arguments);
        let result = self.wait(started, hint)?;
        let mismatch = schemas.describe_mismatch(&tool, &result);
        let naming = Naming { name, noun: "a tool", of: format!("call {tool}") };
        let is_failure = request::reports_failure(&result);
        self.finish::<CallToolParams<'_>>(&naming, result, results::format_tool_result)?;
        if let Some(mismatch) = mismatch {
            session::print_note(&mismatch);
        }
        if is_failure {
            let failure = CommandFailure::failed("the tool reports an error").after_result();
            let advice = hint(&mut self.session()?.client);
            return Err(advice.into_iter().fold(failure, CommandFailure::with_hint));
        }
        Ok(())
    }

    fn read(&mut self, name: Option<&str>, uri: &str) -> Result<(), CommandFailure> {
        let uri = self.kept.text(uri)?;
        let naming = Naming { name, noun: "reading a resource", of: format!("read {uri}") };
        let params = ReadResourceParams::new(&*uri);
        self.request(&naming, &params, results::format_resource, &|client| {
            request::resource_hint(client, &uri)
        })
    }

    fn prompt(&mut self, name: Option<&str>, prompt: &str, words: &[String]) -> Result<(), CommandFailure> {
        let prompt = self.kept.text(prompt)?;
        let arguments = self.assignments(words)?;
        tool_arguments::check_unique(arguments.iter().map(|(name, _)| name))?;
        let mut params = GetPromptParams::new(&*prompt);
        if !arguments.is_empty() {
            params.arguments = Some(arguments.into_iter().collect::<Map<_>>());
        }
        let naming = Naming { name, noun: "a prompt", of: format!("prompt {prompt}") };
        self.request(&naming, &params, results::format_prompt, &|client| {
            request::prompt_hint(client, &prompt)
        })
    }

    fn complete_argument(
        &mut self,
        name: Option<&str>,
        of: &str,
        argument: &str,
        rest: &[String],
    ) -> Result<(), CommandFailure> {
        let target = completion_request::reference(of)
            .map_err(|why| CommandFailure::usage(format!("`{of}` {why}")))?;
        let (value, known) = match rest.split_first() {
            Some((value, known)) => (self.kept.text(value)?, self.assignments(known)?),
            None => (String::new(), Vec::new()),
        };
        let params = completion_request::params(&target, argument, &value, &known);
        let naming = Naming { name, noun: "a completion", of: format!("complete {of} {argument}") };
        self.request::<CompleteParams<'_>>(&naming, &params, results::format_completion, &|_| None)
    }

    /// Parses `NAME=VALUE`, whose values are texts or those of results.
    fn assignments(&self, words: &[String]) -> Result<Vec<(String, String)>, CommandFailure> {
        let assigned = words.iter().map(|word| {
            let (name, value) =
                assignment(word).map_err(|why| CommandFailure::usage(format!("`{word}` {why}")))?;
            Ok((name, self.kept.text(&value)?))
        });
        assigned.collect()
    }

    fn ping(&mut self) -> Result<(), CommandFailure> {
        let client = &mut self.session()?.client;
        let begin = Instant::now();
        let started = client.start(client.ping_method(), &Map::<()>::new(), &CallOptions::new());
        self.wait(started, &|_| None)?;
        let millis = (begin.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        match self.args.request_args.json {
            true => print_value(&json!({ "milliseconds": millis })),
            false => print(&format!("answered in {millis:.3} ms\n")),
        }
    }

    fn log(&mut self, word: &str) -> Result<(), CommandFailure> {
        let level = level(word).map_err(|why| CommandFailure::usage(format!("`{word}` {why}")))?;
        let session = self.session()?;
        session.client.set_log_level(level.clone()).map_err(|error| session.failure(&error))?;
        *session.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
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
                entries = match self.read_list(kind)? {
                    Ok(entries) => entries,
                    // Many servers with resources do not implement templates.
                    Err(Error::Call(CallError::Rpc(_))) if kind == EntryKind::ResourceTemplate => Vec::new(),
                    Err(error) => return Err(self.session()?.failure(&error)),
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
    fn read_list(&mut self, kind: EntryKind) -> Result<Result<Vec<RawJson>, Error>, CommandFailure> {
        let mut pages = Paginator::new(kind, MAX_LIST_BYTES);
        loop {
            let mut params = Map::new();
            if let Some(cursor) = pages.cursor() {
                params.insert("cursor".to_owned(), cursor.to_owned());
            }
            let started = self.session()?.client.start(kind.list_method(), &params, &CallOptions::new());
            let page = match self.wait_for_answer(started)? {
                Ok(Some(page)) => page,
                Ok(None) => return Err(cancelled()),
                Err(error) => return Ok(Err(error)),
            };
            let has_more = pages
                .take(&page)
                .map_err(|why| request::unreadable_result(kind.list_method(), &why.to_string()))?;
            if !has_more {
                session::note_incomplete(kind, pages.diagnostic().as_ref(), pages.is_cut());
                return Ok(Ok(pages.into_entries()));
            }
        }
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
                members.iter().any(|member| {
                    entry.member(member).and_then(|of| of.string()).is_some_and(|of| of == name)
                })
            };
            let found = self.read_list(kind)?;
            if let Some(entry) = found.ok().and_then(|entries| entries.into_iter().find(is_named)) {
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
        let all = self.kept.all();
        if self.args.request_args.json {
            let row = |kept: &super::kept::KeptResult| json!({"name": kept.label(), "of": kept.of, "bytes": kept.value.as_str().len()});
            return print_value(&json!({"results": all.iter().map(row).collect::<Vec<_>>()}));
        }
        let row = |kept: &super::kept::KeptResult| {
            (kept.label(), format!("{}, {} bytes", kept.of, kept.value.as_str().len()))
        };
        print(&format_rows(&all.iter().map(row).collect::<Vec<_>>()))
    }
}

/// A kept value for `--json`.
#[derive(Serialize)]
struct ShownJson {
    value: RawJson,
}

/// Returns a hint for a request that the server refused.
type Hint<'a> = &'a dyn Fn(&mut Client) -> Option<String>;

/// What is said of a result.
struct Naming<'a> {
    /// Name under which it is kept.
    name: Option<&'a str>,
    /// Noun for messages about an unreadable result.
    noun: &'a str,
    /// The line that it is of.
    of: String,
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

/// Takes a value of a result as the arguments of a tool.
fn object_source(value: RawJson) -> Result<JsonSource, String> {
    match value.as_str().starts_with('{') {
        true => Ok(JsonSource::Json(value)),
        false => Err("must be a JSON object: the value of the result is none".into()),
    }
}

fn cancelled() -> CommandFailure {
    CommandFailure::failed("the call was cancelled")
}

/// Returns the commands with their words.
fn help() -> String {
    let mut out = String::new();
    for (name, words) in COMMANDS {
        out.push_str(format!("  {name} {words}").trim_end());
        out.push('\n');
    }
    out + "A result gets a name by NAME = COMMAND, and $NAME/POINTER stands for its value.\n"
}

/// Interval at which messages of the server and the user are looked at in turn.
const IDLE_INTERVAL: Duration = Duration::from_millis(25);
/// Time in which a line that is there already is read.
const READY_TIME: Duration = Duration::from_millis(5);
/// Interval at which a running call looks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);
/// Blanks before a name, and behind it.
const NAME_INDENT: usize = 2;
/// Maximum size of a list in bytes. The page that exceeds it is the last one.
const MAX_LIST_BYTES: usize = 16 << 20;
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
