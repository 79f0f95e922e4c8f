//! Results of requests, and hints for those that the server refused.

use core::fmt::Display;

use mcp_blocking::Error;
use mcp_proto::EntryKind;
use mcp_proto::model::{ElicitUrlParams, Prompt, PromptArgument, RequestParams, UrlElicitationRequired};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, RawJson, RpcError};

use crate::answer;
use crate::client::Client;
use crate::failure::{CommandFailure, Exit};
use crate::notes::print_note;
use crate::output::{MAX_NAMES_SHOWN, join_names, nearest, print_json};
use crate::session::ClientSession;

/// Reads a result, which `--json` prints as the server sent it. Returns it unless it is printed.
///
/// # Errors
///
/// Fails if it cannot be read, if it looks like a failure of this program, for which a server must not pass, or if stdout cannot be
/// written to.
pub(crate) fn take_result<R: RequestParams>(
    noun: &str,
    result: &RawJson,
    is_json: bool,
) -> Result<Option<R::Result>, CommandFailure> {
    match R::read(result) {
        Ok(read) if !is_json => return Ok(Some(read)),
        Ok(_) => {}
        Err(why) => {
            let failure = unreadable_result(noun, &why);
            let has_content =
                ["content", "contents", "messages"].iter().any(|name| result.member(name).is_some());
            // What is there and has another form is no output of this program.
            if !is_json || !result.is_object() || has_content {
                return Err(failure);
            }
            print_note(&format!("{}; it is shown as it came", failure.message()));
        }
    }
    match result.member("error") {
        Some(_) => Err(unreadable_result(noun, &IMITATION)),
        None => print_json(result).map(|()| None),
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
    hint: impl Fn(&mut ClientSession) -> Option<String>,
) -> CommandFailure {
    let failure = session.failure(error);
    let Error::Call(CallError::Rpc(answered)) = error else { return failure };
    if let Some(pages) = url_hint(answered) {
        return failure.with_exit(Exit::Unanswered).with_hint(pages);
    }
    if requires_input_capability(answered) {
        return failure.with_exit(Exit::Unanswered).with_hint(answer::UNANSWERED_HINT);
    }
    match hint(session) {
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
fn prompt_signature(prompt: &Prompt) -> String {
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

/// Returns a hint: the prompts that exist, or the arguments of the one that was named, unless `argument` is one of them.
pub(crate) fn prompt_hint(client: &mut Client, name: &str, argument: Option<&str>) -> Option<String> {
    if let Some(hint) = alternatives(client, EntryKind::Prompt, "prompt", "name", name) {
        return Some(hint);
    }
    let prompt = client.list_prompts().ok()?.into_iter().find(|prompt| prompt.name == name)?;
    let is_known = prompt.arguments.iter().any(|known| Some(&*known.name) == argument);
    (!is_known).then(|| prompt_signature(&prompt))
}
