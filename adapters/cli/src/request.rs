//! One request and its answer: the common part of `call`, `read`, `prompt` and `complete`.

use core::fmt::Display;

use mcp_blocking::Error;
use mcp_proto::EntryKind;
use mcp_proto::model::{ElicitUrlParams, Prompt, PromptArgument, RequestParams, UrlElicitationRequired};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Progress, RawJson, RpcError};

use crate::answer::{self, AnswerArgs};
use crate::args::RequestArgs;
use crate::client::Client;
use crate::failure::{CommandFailure, Exit};
use crate::output::{MAX_NAMES_SHOWN, join_names, nearest, print, print_json};
use crate::paint::Paint;
use crate::progress::ProgressDisplay;
use crate::session::{ClientSession, print_note};

/// Properties of a command that sends one request.
pub(crate) struct RequestCommand<'a, R: RequestParams> {
    /// Noun for messages about an unreadable result, for example "a tool".
    pub(crate) noun: &'a str,
    /// Formats the result.
    pub(crate) show: fn(&R::Result, Paint) -> String,
    /// Returns a hint for a request that the server refused.
    pub(crate) hint: &'a dyn Fn(&mut Client) -> Option<String>,
}

/// Sends the request and returns the result undecoded. Progress goes to the callback.
pub(crate) type StartRequest<'a> = &'a dyn Fn(
    &mut ClientSession,
    &CallOptions,
    &mut (dyn FnMut(&Progress) + Send),
) -> Result<RawJson, StartError>;

/// The reason why a request has no result.
pub(crate) enum StartError {
    /// The client failed, or the server answered with an error.
    Client(Error),
    /// The request could not be made from the command line.
    Command(CommandFailure),
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<CommandFailure> for StartError {
    fn from(failure: CommandFailure) -> Self {
        Self::Command(failure)
    }
}

/// Connects to the server, sends the request and prints the result. Returns it, if it could be read.
///
/// # Errors
///
/// Fails if the connection or the request fails, or if an input request got no answer.
pub(crate) fn run<R: RequestParams>(
    request_args: &RequestArgs,
    answer_args: Option<&AnswerArgs>,
    start: StartRequest<'_>,
    command: &RequestCommand<'_, R>,
) -> Result<Option<R::Result>, CommandFailure> {
    let mut session = ClientSession::open(&request_args.target, answer_args)?;
    session.failure_context.total_timeout = request_args.total;
    let mut options = CallOptions::new().with_progress();
    if let Some(total) = request_args.total {
        options = options.total_timeout(total);
    }
    let mut progress_display = ProgressDisplay::new(request_args.target.stderr);
    session.settle_roots();
    // Kept undecoded: `--json` prints exactly what the server sent.
    let answered = start(&mut session, &options, &mut |progress| progress_display.show(progress));
    progress_display.end();
    let mut has_result = false;
    let outcome = answered
        .map_err(|error| match error {
            StartError::Client(error) => refusal_failure(&mut session, &error, command.hint),
            StartError::Command(failure) => failure,
        })
        .and_then(|result| {
            let read = read_result::<R>(command.noun, &result, request_args.json)?;
            if request_args.json {
                print_result(command.noun, &result)?;
            }
            has_result = true;
            if let Some(read) = read.as_ref().filter(|_| !request_args.json) {
                print(&(command.show)(read, Paint::for_stdout()))?;
            }
            Ok(read)
        });
    let unanswered = session.unanswered.failure();
    // The result is printed before the server gets its time to end.
    session.close();
    let outcome = match unanswered {
        Some(failure) => Err(failure),
        None => outcome,
    };
    outcome.map_err(|failure| if has_result { failure.after_result() } else { failure })
}

/// Returns whether a result says that its tool has failed.
pub(crate) fn reports_failure(result: &RawJson) -> bool {
    result.member("isError").is_some_and(|value| value.as_str() == "true")
}

/// Reads a result. `None` for an object without content, which `--json` shows nevertheless, as it came.
///
/// # Errors
///
/// Fails if it cannot be read, and is not shown either.
pub(crate) fn read_result<R: RequestParams>(
    noun: &str,
    result: &RawJson,
    is_json: bool,
) -> Result<Option<R::Result>, CommandFailure> {
    match R::read(result) {
        Ok(read) => Ok(Some(read)),
        Err(why) => {
            let failure = unreadable_result(noun, &why);
            let has_content =
                ["content", "contents", "messages"].iter().any(|name| result.member(name).is_some());
            // What is there and has another form is no output of this program.
            if !is_json || !result.is_object() || has_content {
                return Err(failure);
            }
            print_note(&format!("{}; it is shown as it came", failure.message()));
            Ok(None)
        }
    }
}

/// Prints a result as JSON.
///
/// # Errors
///
/// Fails if it looks like a failure of this program, for which a server must not pass, or if stdout cannot be written to.
pub(crate) fn print_result(noun: &str, result: &RawJson) -> Result<(), CommandFailure> {
    match result.member("error") {
        Some(_) => Err(unreadable_result(noun, &IMITATION)),
        None => print_json(result),
    }
}

/// Why a result is not printed as JSON.
const IMITATION: &str = "it has the member `error`, by which a failure of this program is told";

/// Creates the failure for an answer that is not a result of what was asked for.
pub(crate) fn unreadable_result(noun: &str, why: &dyn Display) -> CommandFailure {
    CommandFailure::failed(format!("the answer is not a result of {noun}: {why}"))
}

/// Creates a failure, with a hint if the server refused the request.
pub(crate) fn refusal_failure(
    session: &mut ClientSession,
    error: &Error,
    hint: &dyn Fn(&mut Client) -> Option<String>,
) -> CommandFailure {
    let failure = session.failure(error);
    let Error::Call(CallError::Rpc(answered)) = error else { return failure };
    if let Some(pages) = url_hint(answered) {
        return failure.with_exit(Exit::Unanswered).with_hint(pages);
    }
    if requires_input_capability(answered) {
        return failure.with_exit(Exit::Unanswered).with_hint(answer::UNANSWERED_HINT);
    }
    match hint(&mut session.client) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Returns a hint with the web pages to visit first (ELIC-028, ELIC-029).
fn url_hint(error: &RpcError) -> Option<String> {
    let data = error.data.as_ref().filter(|_| error.code == code::URL_ELICITATION_REQUIRED)?;
    let required: UrlElicitationRequired = data.parse().ok()?;
    let page = |page: &ElicitUrlParams| format!("{} ({})", page.url, page.message);
    let pages: Vec<_> = required.elicitations.iter().take(MAX_NAMES_SHOWN).map(page).collect();
    Some(format!("visit this page first, if you trust it, then repeat the request: {}", pages.join(", ")))
}

/// Returns whether the server requires a capability that the client did not declare.
fn requires_input_capability(error: &RpcError) -> bool {
    error
        .data
        .as_ref()
        .is_some_and(|data| data.member("requiredCapabilities").is_some_and(|of| of.is_object()))
}

/// Returns a hint that lists the existing entries of a kind, or `None` if `asked` is one of them.
///
/// `what` is the noun for an entry ("tool"). `member` is the member that holds its name.
pub(crate) fn alternatives(
    client: &mut Client,
    kind: EntryKind,
    what: &str,
    member: &str,
    asked: &str,
) -> Option<String> {
    alternatives_among(&client.list(kind).ok()?, what, member, asked)
}

/// Does so for a list that is known.
pub(crate) fn alternatives_among(
    entries: &[RawJson],
    what: &str,
    member: &str,
    asked: &str,
) -> Option<String> {
    let names: Vec<_> = entries.iter().filter_map(|entry| entry.member(member)?.string()).collect();
    if names.iter().any(|name| name == asked) {
        return None;
    }
    if names.is_empty() {
        return Some(format!("the server's list of {what}s is empty"));
    }
    let near = nearest(asked, names.iter().map(AsRef::as_ref));
    let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
    let names = join_names(names.iter().map(AsRef::as_ref));
    Some(format!("there is no {what} `{asked}` in the server's list{near}; there are: {names}"))
}

/// Formats the arguments of a prompt: ``the prompt `plan` takes from, to, days?``.
pub(crate) fn prompt_signature(prompt: &Prompt) -> String {
    let argument = |argument: &PromptArgument| {
        format!("{}{}", argument.name, if argument.required == Some(true) { "" } else { "?" })
    };
    let arguments: Vec<_> = prompt.arguments.iter().map(argument).collect();
    let arguments = if arguments.is_empty() { "no arguments".into() } else { arguments.join(", ") };
    format!("the prompt `{}` takes {arguments}", prompt.name)
}

/// Returns a hint: the resources and resource templates that exist.
pub(crate) fn resource_hint(client: &mut Client, uri: &str) -> Option<String> {
    let hint = alternatives(client, EntryKind::Resource, "resource", "uri", uri)?;
    let templates = client.list(EntryKind::ResourceTemplate).unwrap_or_default();
    let templates: Vec<_> =
        templates.iter().filter_map(|entry| entry.member("uriTemplate")?.string()).take(20).collect();
    if templates.is_empty() {
        return Some(hint);
    }
    Some(format!("{hint}; and these templates: {}", templates.join(", ")))
}

/// Returns a hint: the prompts that exist, or the arguments of the one that was named.
pub(crate) fn prompt_hint(client: &mut Client, name: &str) -> Option<String> {
    if let Some(hint) = alternatives(client, EntryKind::Prompt, "prompt", "name", name) {
        return Some(hint);
    }
    let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == name)?;
    Some(prompt_signature(&prompt))
}
