//! One request and its answer: what `call`, `read`, `prompt` and `complete` have in common

use mcp_blocking::Error;
use mcp_proto::client::Kind;
use mcp_proto::model::{ElicitUrlParams, Request, UrlElicitationRequired};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, CallOptions, Progress, RawJson, RpcError};

use crate::answer;
use crate::args::{Answering, Asking};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{print, print_json};
use crate::paint::Paint;
use crate::progress::Ticker;
use crate::session::Session;

/// What differs between the commands
pub(crate) struct Question<'a, R: Request> {
    /// What there should be a result of, for messages: "a tool"
    pub(crate) of: &'a str,
    /// Puts the result into words
    pub(crate) show: fn(&R::Result, Paint) -> String,
    /// What to say to who asked for what the server refused
    pub(crate) hint: &'a dyn Fn(&mut Client) -> Option<String>,
}

/// Asks, with whom to tell of progress; the answer as it came
pub(crate) type Start<'a> =
    &'a dyn Fn(&mut Client, &CallOptions, &mut (dyn FnMut(&Progress) + Send)) -> Result<RawJson, Error>;

/// Starts the server, asks, and prints the answer
pub(crate) fn run<R: Request>(
    asking: &Asking,
    answering: Option<&Answering>,
    start: Start<'_>,
    question: &Question<'_, R>,
) -> Result<R::Result, Failure> {
    let mut session = Session::open(&asking.target, answering)?;
    session.asked.total = asking.total;
    let mut options = CallOptions::new().with_progress();
    if let Some(total) = asking.total {
        options = options.total(total);
    }
    let mut ticker = Ticker::new(!asking.target.trace && asking.target.log.is_none());
    let client = &mut session.client;
    // As it came: `--json` is to show that and nothing else.
    let answered = start(client, &options, &mut |progress| ticker.show(progress));
    ticker.end();
    let outcome = answered.map_err(|error| refused(&mut session, &error, question)).and_then(|result| {
        let read = R::read(&result);
        if asking.json {
            print_json(&result)?;
        }
        let read = read
            .map_err(|why| Failure::failed(format!("the answer is no result of {}: {why}", question.of)))?;
        if !asking.json {
            print(&(question.show)(&read, Paint::for_stdout()))?;
        }
        Ok(read)
    });
    let unanswered = session.unanswered.failure();
    // The answer is out before the server is given its time to end.
    session.close();
    match unanswered {
        Some(failure) => Err(failure),
        None => outcome,
    }
}

/// A failure; when the server refused, with a hint
fn refused<R: Request>(session: &mut Session, error: &Error, question: &Question<'_, R>) -> Failure {
    let failure = session.failure(error);
    let Error::Call(CallError::Rpc(answered)) = error else { return failure };
    if let Some(pages) = pages(answered) {
        return failure.exit(Exit::Unanswered).hint(pages);
    }
    if lacks_answers(answered) {
        return failure.exit(Exit::Unanswered).hint(answer::HINT);
    }
    match (question.hint)(&mut session.client) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What to do first, when that is to visit web pages (ELIC-028, ELIC-029)
fn pages(error: &RpcError) -> Option<String> {
    let data = error.data.as_ref().filter(|_| error.code == code::URL_ELICITATION_REQUIRED)?;
    let required: UrlElicitationRequired = data.parse().ok()?;
    let page = |page: &ElicitUrlParams| format!("{} ({})", page.url, page.message);
    let pages: Vec<_> = required.elicitations.iter().take(NAMES).map(page).collect();
    Some(format!("visit this first, if you trust it, and then ask again: {}", pages.join(", ")))
}

/// Whether a server says that it needs more of its client, who has not declared it
fn lacks_answers(error: &RpcError) -> bool {
    error
        .data
        .as_ref()
        .is_some_and(|data| data.member("requiredCapabilities").is_some_and(|of| of.is_object()))
}

/// What a server has, for who asked for something that does not exist; none when it does exist
///
/// `what` is what it is called ("tool"), `member` where its name stands.
pub(crate) fn alternatives(
    client: &mut Client,
    kind: Kind,
    what: &str,
    member: &str,
    asked: &str,
) -> Option<String> {
    let entries = client.list(kind).ok()?;
    let mut names: Vec<_> = entries.iter().filter_map(|entry| entry.member(member)?.string()).collect();
    if names.iter().any(|name| name == asked) {
        return None;
    }
    if names.is_empty() {
        return Some(format!("the server's list of {what}s is empty"));
    }
    let more = if names.len() > NAMES { ", …" } else { "" };
    names.truncate(NAMES);
    Some(format!("there is no {what} `{asked}` in the server's list; there are: {}{more}", names.join(", ")))
}

/// So many are named
const NAMES: usize = 20;
