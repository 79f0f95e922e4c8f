//! What a command and a line of the shell both do: one request to the server, and its answer.

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod kept;
pub(crate) mod prompt;
pub(crate) mod read;

use mcp_proto::model::RequestParams;
use mcp_proto::{CallOptions, RawJson};

use crate::answer::AnswerArgs;
use crate::args::{AuthorizationArgs, RequestArgs};
use crate::failure::CommandFailure;
use crate::notes;
use crate::output::{print, print_bytes};
use crate::paint::Paint;
use crate::request;
use crate::session::{ClientSession, RequestError};
use kept::KeptResults;

/// A request with its arguments: those of the command line, or the words of a line of the shell.
pub(crate) trait Verb: Clone {
    /// The request of the protocol.
    type Request: RequestParams;
    /// Noun for messages about an unreadable result, for example "a tool".
    const NOUN: &'static str;
    /// The words of a line behind its command, as the help of the shell shows them.
    const FORM: &'static str;

    /// Formats the result.
    const SHOW: ShowResult<Self>;

    /// Reads the words of a line, in which results stand for their values. Returns the line without arguments, too; `None` if the words
    /// are not as [`FORM`](Self::FORM) says.
    ///
    /// # Errors
    ///
    /// Fails if a word is wrong, or uses a result that is not there.
    fn from_words(words: &[String], kept: &KeptResults) -> Result<Option<(String, Self)>, CommandFailure>;

    /// Checks the arguments and reads their files, before the session opens.
    ///
    /// # Errors
    ///
    /// Fails if an argument is wrong.
    fn prepare(&mut self, _: &AuthorizationArgs) -> Result<(), CommandFailure> {
        Ok(())
    }

    /// Sends the request and waits for the answer.
    ///
    /// # Errors
    ///
    /// Fails if there is no result.
    fn send(&mut self, session: &mut ClientSession, options: &CallOptions) -> Result<Answer, RequestError>;

    /// Returns the bytes that a command writes in place of the text.
    fn bytes(_: &<Self::Request as RequestParams>::Result) -> Option<Vec<u8>> {
        None
    }

    /// Returns a hint for a request that the server refused.
    fn hint(&self, session: &mut ClientSession) -> Option<String>;
}

/// What formats the result of a request.
pub(crate) type ShowResult<V> = fn(&<<V as Verb>::Request as RequestParams>::Result, Paint) -> String;

/// The result of a request, and what is said of it.
pub(crate) struct Answer {
    pub(crate) result: RawJson,
    /// Note that is printed behind the result.
    pub(crate) note: Option<String>,
    /// Failure that the result reports, if it does.
    pub(crate) outcome: Result<(), CommandFailure>,
}

impl From<RawJson> for Answer {
    fn from(result: RawJson) -> Self {
        Self { result, note: None, outcome: Ok(()) }
    }
}

/// Runs a command: opens a session, sends the request, prints the result and closes the session.
///
/// # Errors
///
/// Fails if the connection or the request fails, if an input request got no answer, or if the result reports a failure.
pub(crate) fn run<V: Verb>(
    verb: &V,
    request_args: &RequestArgs,
    answer_args: Option<&AnswerArgs>,
) -> Result<(), CommandFailure> {
    let mut verb = verb.clone();
    verb.prepare(&request_args.target.authorization)?;
    let mut session = ClientSession::open_for_requests(request_args, answer_args)?;
    let (mut has_result, mut note) = (false, None);
    let outcome = match verb.send(&mut session, &request_args.call_options()) {
        Err(RequestError::Command(failure)) => Err(failure),
        Err(RequestError::Client(error)) => {
            Err(request::refusal_failure(&mut session, &error, |session| verb.hint(session)))
        }
        Ok(answer) => {
            note = answer.note;
            request::take_result::<V::Request>(V::NOUN, &answer.result, request_args.json).and_then(|read| {
                has_result = true;
                read.iter().try_for_each(|read| match V::bytes(read) {
                    Some(bytes) => print_bytes(&bytes),
                    None => print(&(V::SHOW)(read, Paint::for_stdout())),
                })?;
                answer.outcome
            })
        }
    };
    let unanswered = session.unanswered.failure();
    // The result is printed before the server gets its time to end.
    session.close();
    note.iter().for_each(|note| notes::print_note(note));
    let outcome = unanswered.map_or(outcome, Err);
    outcome.map_err(|failure| if has_result { failure.after_result() } else { failure })
}
