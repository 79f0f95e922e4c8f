//! The last steps, which are the same for all servers: the revision and the lists.

use mcp_blocking::Error;
use mcp_check::diagnosis::{Ended, Fault, FaultKind, Passed, Steps};
use mcp_check::hints;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, EntryKind, HttpError};

use super::report::fault_of;
use crate::args::TargetArgs;
use crate::failure::{Exit, is_refusal};
use crate::output::count;
use crate::session::ClientSession;

/// Agrees on a revision and reads the lists that the server declares.
pub(super) fn diagnose(steps: &mut Steps<'_>, target: &TargetArgs) -> Result<(), Ended> {
    let opened = ClientSession::open(target, None).map_err(|failure| {
        let why = "it answers, but not as this client needs it to agree on a revision";
        fault_of(&failure, why, "`mcp-probe check` names each rule that the server breaks")
    });
    let mut session = steps.record("revision", opened.map(|session| (revision(&session), session)))?;
    let lists = read_lists(&mut session);
    session.close();
    steps.check("lists", lists)
}

fn revision(session: &ClientSession) -> Passed {
    let peer = session.client.peer();
    Passed::Ok(format!("{} era, revision {}", peer.era(), peer.version))
}

fn read_lists(session: &mut ClientSession) -> Result<Passed, Fault> {
    let mut found = Vec::new();
    for list in [EntryKind::Tool, EntryKind::Resource, EntryKind::ResourceTemplate, EntryKind::Prompt] {
        if !session.client.peer().has(list.capability()) {
            continue;
        }
        let pages = session.client.read_pages(list);
        let method = list.list_method();
        match pages.error {
            // Many servers with resources do not implement templates.
            Some(Error::Call(CallError::Rpc(error)))
                if list == EntryKind::ResourceTemplate && error.code == code::METHOD_NOT_FOUND => {}
            Some(error) => return Err(explain(session, method, &error)),
            None if pages.diagnostic.is_some() => {
                return Err(Fault::new(
                    format!("`{method}` has no end"),
                    "a page names a cursor that an earlier page named, so the pages repeat for ever",
                    "let the server leave `nextCursor` out on the last page, and use the cursor that it is sent",
                )
                .with_kind(FaultKind::Failed));
            }
            None if pages.is_cut => {
                return Err(Fault::new(
                    format!("`{method}` has no end"),
                    format!(
                        "after {} there is still a `nextCursor`, and the limit of pages or bytes is reached",
                        count(pages.entries.len(), &list.to_string())
                    ),
                    "let the server leave `nextCursor` out on the last page",
                )
                .with_kind(FaultKind::Failed));
            }
            None => found.push(count(pages.entries.len(), &list.to_string())),
        }
    }
    if found.is_empty() {
        return Ok(Passed::Warning("the server declares no tools, resources or prompts".into()));
    }
    Ok(Passed::Ok(found.join(", ")))
}

/// Explains why a list cannot be read.
fn explain(session: &ClientSession, method: &str, error: &Error) -> Fault {
    let failure = session.failure(error);
    let refused = |error: &HttpError| matches!(error, HttpError::Response(_)) && is_refusal(error);
    let (why, fix) = match error {
        _ if error.http().is_some_and(refused) || failure.exit == Exit::Unauthorized => {
            ("the server lets everybody in, and asks for a token only at its lists", hints::BEARER)
        }
        Error::Call(CallError::Rpc(error)) if error.code == code::METHOD_NOT_FOUND => (
            "the server declares the capability, but does not have the method",
            "let the server implement the method, or not declare the capability",
        ),
        Error::Call(CallError::Rpc(_)) => (
            "the server declares the list and answers with an error of its own",
            "read the error and the log of the server: often a service behind it is not reached, or has no credentials",
        ),
        Error::Call(CallError::TimedOut | CallError::TotalTimedOut | CallError::Misaddressed(_)) => (
            "the server agreed on a revision, and then did not answer this request",
            "find out what the server waits for (its log, a service behind it), or raise --timeout",
        ),
        Error::UnexpectedResult(_) => (
            "the result does not have the list that the method is for",
            "let the server send the list under its name, even if it is empty",
        ),
        _ => (
            "the connection did not survive the first request after the handshake",
            "read the stderr or the log of the server: it ended, or closed the connection",
        ),
    };
    fault_of(&failure.with_context(&format!("`{method}`")), why, fix)
}
