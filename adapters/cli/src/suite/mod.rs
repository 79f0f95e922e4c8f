//! The `test` command: runs the steps of a file and compares their results.

mod args;
mod expectation;
mod file;
mod mismatch;
mod report;
mod snapshot;
mod variables;

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::model::{
    CallToolResult, CompleteParams, GetPromptParams, Map, ReadResourceParams, RequestParams,
};
use mcp_proto::{CallError, CallOptions, EntryKind, Progress, RawJson, RpcError};
use serde_json::{Value, json};

use crate::completion_request;
use crate::failure::{CommandFailure, Exit, format_seconds};
use crate::output::count;
use crate::session::ClientSession;
pub(crate) use args::TestArgs;
use file::{ExpectedAnswer, Request, Step, Suite};
use mcp_std::json_file::values::shown;
use mismatch::Mismatch;
use report::{Outcome, Report, StepReport};
use variables::Saved;

pub(crate) fn run(mut args: TestArgs) -> Result<(), CommandFailure> {
    let mut suite = Suite::read(&args.file)?;
    if let Some(text) = &args.filter {
        suite.filter(text)?;
    }
    let place = &mut args.target.server.place;
    if let Some(server) = suite.server.filter(|_| !place.is_given()) {
        // A name of the command line alone chooses among the entries of the file's configuration.
        let name = place.server_name.take();
        *place = server;
        place.server_name = name.or_else(|| place.server_name.take());
    }
    let given = &args.answer_args;
    let answers = (!given.answer.is_empty() || !given.root.is_empty()).then_some(given);
    // The report of a run that a signal ends. A pipe has room for one report alone.
    if args.junit.as_ref().is_some_and(|path| path.metadata().map_or(true, |found| found.is_file())) {
        report::write_unrun(&args, &suite.steps, "the run has ended before its report")?;
    }
    let mut session = match ClientSession::open(&args.target, answers) {
        Ok(session) => session,
        Err(failure) => {
            // Why there is no session is more than why there is no report.
            let _ = report::write_unrun(&args, &suite.steps, &failure.message());
            return Err(failure);
        }
    };
    session.settle_roots();
    let mut runner = Runner { args: &args, session, saved: Saved::new(), stopped: None };
    if runner.session.is_remote()
        && suite.steps.iter().any(|step| matches!(step.request, Request::Call { .. }))
    {
        // Arguments that header fields repeat are known from the list (XHDR-030). A server may have tools without one.
        let _ = runner.session.client.list(EntryKind::Tool);
    }
    let begun = Instant::now();
    let mut report = Report::new(&args, &runner.session);
    let mut shown = Ok(());
    for step in &suite.steps {
        let done = runner.run(step);
        shown = shown.and_then(|()| report.add(done));
    }
    let Runner { session, .. } = runner;
    session.close();
    let finished = report.finish(begun.elapsed());
    shown.and(finished)
}

/// Runs steps one after the other.
struct Runner<'a> {
    args: &'a TestArgs,
    session: ClientSession,
    saved: Saved,
    /// The reason why no more steps run.
    stopped: Option<String>,
}

/// The answer to a request: its result, or the error of the server.
type Answer = Result<Value, RpcError>;

impl Runner<'_> {
    fn run(&mut self, step: &Step) -> StepReport {
        let skipped = |reason: String| StepReport::new(step, None, Outcome::Skipped(reason));
        if let Some(reason) = &self.stopped {
            return skipped(reason.clone());
        }
        let begun = Instant::now();
        let answer = match self.send(&step.request, step.within) {
            Ok(answer) => answer,
            Err(SendError::Unsaved(name)) => {
                return skipped(format!("the step that saves `{name}` has not saved it"));
            }
            Err(SendError::Unusable(why)) => {
                let mismatch = Mismatch::new("answer", step.answer.describe(), why);
                return StepReport::new(step, None, Outcome::Failed(vec![mismatch]));
            }
            Err(SendError::Client(error)) => return self.failed(step, &error, begun.elapsed()),
        };
        let time = begun.elapsed();
        let mut mismatches = Vec::new();
        if let Some(failure) = self.session.unanswered.failure() {
            let found = format!("{}; --answer and --root answer a server that asks", failure.message());
            mismatches.push(Mismatch::new("answer", "no open question of the server", found));
        }
        if let Some(limit) = step.within.filter(|limit| time > *limit) {
            mismatches.push(Mismatch::new(
                "time",
                format!("at most {}", format_seconds(limit)),
                format_seconds(time),
            ));
        }
        let value = check_answer(step, answer, &mut mismatches);
        if let Some(value) = &value {
            for (pointer, expectation) in &step.expectations {
                mismatches.extend(expectation.check(pointer, value.pointer(pointer)));
            }
            self.save(step, value, &mut mismatches);
        }
        let mut is_written = false;
        match (&step.snapshot, &value) {
            (Some(ignored), Some(value)) if !self.args.update => {
                mismatches.extend(snapshot::check(&self.args.file, &step.name, value, ignored));
            }
            (Some(ignored), Some(value)) if mismatches.is_empty() => {
                let written = snapshot::write(&self.args.file, &step.name, value, ignored).err();
                is_written = written.is_none();
                mismatches
                    .extend(written.map(|failure| Mismatch::new("snapshot", "a file", failure.message())));
            }
            _ => {}
        }
        let outcome = match mismatches.is_empty() {
            true => Outcome::Passed { is_written },
            false => Outcome::Failed(mismatches),
        };
        StepReport::new(step, Some(time), outcome)
    }

    /// Keeps the values that later steps use.
    fn save(&mut self, step: &Step, value: &Value, mismatches: &mut Vec<Mismatch>) {
        for (name, pointer) in &step.saves {
            match value.pointer(pointer) {
                Some(value) => drop(self.saved.insert(name.clone(), value.clone())),
                None => {
                    mismatches.push(Mismatch::new(pointer, format!("a value to save as `{name}`"), "nothing"))
                }
            }
        }
    }

    /// Reports a step without an answer. If there is no use in going on, later steps are skipped.
    fn failed(&mut self, step: &Step, error: &Error, time: Duration) -> StepReport {
        let failure = self.session.failure(error);
        let reason = match failure.exit {
            Exit::Connection => Some("the connection has ended"),
            Exit::Timeout => Some("a step before had no answer in time"),
            Exit::Unauthorized => Some("the server asks for authorization"),
            _ => None,
        };
        self.stopped = reason.map(str::to_owned);
        let mismatch = match (failure.exit, step.within) {
            (Exit::Timeout, Some(limit)) if time >= limit => Mismatch::new(
                "time",
                format!("at most {}", format_seconds(limit)),
                "no answer until then; the call was cancelled",
            ),
            _ => Mismatch::new("answer", step.answer.describe(), failure.message()),
        };
        StepReport::new(step, Some(time), Outcome::Failed(vec![mismatch]))
    }

    fn send(&mut self, request: &Request, within: Option<Duration>) -> Result<Answer, SendError> {
        let begun = Instant::now();
        // Each page of a list has what is left of the time.
        let left = || match within {
            Some(limit) => CallOptions::new()
                .total_timeout(limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(1))),
            None => CallOptions::new(),
        };
        let options = left();
        let saved = &self.saved;
        let filled = |text: &str| variables::fill_text(text, saved).map_err(SendError::Unsaved);
        let client = &mut self.session.client;
        let on_progress: &mut (dyn FnMut(&Progress) + Send) = &mut |_| {};
        let answered = match request {
            Request::Call { tool, arguments } => {
                let arguments = variables::fill(arguments, saved).map_err(SendError::Unsaved)?;
                let arguments =
                    RawJson::encode(&arguments).map_err(|error| SendError::Unusable(error.to_string()))?;
                let result = client.call_tool_raw(tool, &arguments, &options, on_progress);
                if let Some(Err(error)) = result.as_ref().ok().map(RawJson::parse::<CallToolResult<'_>>) {
                    return Err(SendError::unreadable(&error));
                }
                result
            }
            Request::Read { uri } => {
                let params = ReadResourceParams::new(filled(uri)?);
                client.request(ReadResourceParams::METHOD, &params, &options, on_progress)
            }
            Request::Prompt { name, arguments } => {
                let mut params = GetPromptParams::new(name.as_str());
                params.arguments =
                    Some(texts::<Map<_>>(arguments, filled)?).filter(|arguments| !arguments.is_empty());
                client.request(GetPromptParams::METHOD, &params, &options, on_progress)
            }
            Request::Complete { of, argument, value, known } => {
                let (value, known) = (filled(value)?, texts::<Vec<_>>(known, filled)?);
                let params = completion_request::params(of, argument, &value, &known);
                client.request(CompleteParams::METHOD, &params, &options, on_progress)
            }
            Request::List(kind) => {
                let pages = client.read_pages_with(*kind, left);
                if let Some(error) = pages.error {
                    return answer(Err(error));
                }
                if let Some(diagnostic) = pages.diagnostic {
                    return Err(SendError::Unusable(diagnostic.to_string()));
                }
                if pages.is_cut {
                    let why = "a list that has more pages or bytes than are read";
                    return Err(SendError::Unusable(why.to_owned()));
                }
                let entries = pages.entries.iter().map(RawJson::parse).collect::<Result<Vec<Value>, _>>();
                let entries = entries.map_err(|error| SendError::unreadable(&error))?;
                return Ok(Ok(json!({ kind.list_member(): entries })));
            }
            Request::Ping => {
                let answered = client.request(client.ping_method(), &json!({}), &options, on_progress);
                answered.map(|_| RawJson::empty_object())
            }
        };
        answer(answered)
    }
}

/// Returns the answer that a request got, unless it got none.
fn answer(answered: Result<RawJson, Error>) -> Result<Answer, SendError> {
    match answered {
        Ok(result) => result.parse().map(Ok).map_err(|error| SendError::unreadable(&error)),
        Err(Error::Call(CallError::Rpc(error))) => Ok(Err(error)),
        Err(error) => Err(SendError::Client(error)),
    }
}

/// The reason why a request has no answer.
enum SendError {
    /// It uses a variable that was not saved.
    Unsaved(String),
    /// It cannot be written, or what came for it is of no use.
    Unusable(String),
    Client(Error),
}

impl SendError {
    fn unreadable(error: &serde_json::Error) -> Self {
        Self::Unusable(format!("a result that cannot be read: {error}"))
    }
}

/// Fills in the texts of an object of texts.
fn texts<T: FromIterator<(String, String)>>(
    members: &serde_json::Map<String, Value>,
    filled: impl Fn(&str) -> Result<String, SendError>,
) -> Result<T, SendError> {
    let text =
        |(name, value): (&String, &Value)| Ok((name.clone(), filled(value.as_str().unwrap_or_default())?));
    members.iter().map(text).collect()
}

/// Checks the kind of an answer. Returns the value that the pointers of the step lead into, if it is of the expected kind.
fn check_answer(step: &Step, answer: Answer, mismatches: &mut Vec<Mismatch>) -> Option<Value> {
    let expected = step.answer.describe();
    match (answer, &step.answer) {
        (Err(error), ExpectedAnswer::Error { code, message }) => {
            if let Some(code) = code.filter(|code| *code != error.code) {
                mismatches.push(Mismatch::new("error", format!("the code {code}"), error.code.to_string()));
            }
            if let Some(message) = message {
                mismatches.extend(message.check("error", Some(&error.message.as_ref().into())));
            }
            let mut value = json!({ "code": error.code, "message": error.message });
            if let Some(data) = error.data.as_ref().and_then(|data| data.parse::<Value>().ok()) {
                value["data"] = data;
            }
            Some(value)
        }
        (Err(error), _) => {
            mismatches.push(Mismatch::new(
                "answer",
                expected,
                format!("the error {}: {}", error.code, error.message),
            ));
            None
        }
        (Ok(value), ExpectedAnswer::Error { .. }) => {
            mismatches.push(Mismatch::new("answer", expected, format!("the result {}", shown(&value))));
            None
        }
        (Ok(value), kind) => {
            let is_tool_error = value.get("isError") == Some(&Value::Bool(true));
            if is_tool_error != matches!(kind, ExpectedAnswer::ToolError) {
                let what = if is_tool_error { "an error of the tool" } else { "a result without an error" };
                mismatches.push(Mismatch::new("answer", expected, format!("{what}: {}", shown(&value))));
                return None;
            }
            Some(value)
        }
    }
}

impl ExpectedAnswer {
    fn describe(&self) -> String {
        match self {
            Self::Result => "a result".to_owned(),
            Self::ToolError => "a result with an error of the tool".to_owned(),
            Self::Error { code: Some(code), .. } => format!("an error with the code {code}"),
            Self::Error { code: None, .. } => "an error".to_owned(),
        }
    }
}

/// Returns the failure of a run in which so many steps have failed.
fn run_failure(failed: usize, all: usize) -> CommandFailure {
    let verb = if failed == 1 { "has" } else { "have" };
    CommandFailure::failed(format!("{failed} of {} {verb} failed", count(all, "step"))).after_result()
}
