//! The lists of a server, as far as they can be read.

use mcp_blocking::Error;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, EntryKind, RawJson};
use serde::Serialize;

use crate::failure::{CommandFailure, Exit};
use crate::notes;
use crate::session::{self, ClientSession};

/// A part of the report that could not be read, or not to its end.
#[derive(Serialize)]
pub(super) struct FailedPart {
    #[serde(skip)]
    pub(super) list: EntryKind,
    /// Name of the list in the report.
    part: &'static str,
    pub(super) message: String,
}

/// Reads the lists of a server, and collects what fails.
#[derive(Default)]
pub(super) struct ListReader {
    pub(super) failed: Vec<FailedPart>,
    /// Failure of the command, if a part failed.
    failure: Option<CommandFailure>,
}

impl ListReader {
    /// Returns the entries of a list, or those of the pages before a failure.
    ///
    /// There are none if the server does not declare the capability. Nothing is requested after the end of the connection or
    /// a refused authorization, which every further request would meet again.
    pub(super) fn read(&mut self, session: &mut ClientSession, list: EntryKind) -> Vec<RawJson> {
        if !session.client.peer().has(list.capability()) {
            return Vec::new();
        }
        if self.failure.as_ref().is_some_and(is_final) {
            self.record(list, CommandFailure::failed("not requested after the failure before it"));
            return Vec::new();
        }
        let pages = session.client.read_pages(list);
        session::note_incomplete(list, pages.diagnostic.as_ref(), pages.is_cut);
        match pages.error {
            None => {}
            // Many servers with resources do not implement templates.
            Some(Error::Call(CallError::Rpc(error)))
                if list == EntryKind::ResourceTemplate && error.code == code::METHOD_NOT_FOUND =>
            {
                notes::print_note(&format!("the server does not list {}: {error}", list.list_member()));
            }
            Some(error) => self.record(list, session.failure(&error)),
        }
        pages.entries
    }

    fn record(&mut self, list: EntryKind, failure: CommandFailure) {
        let part = list.list_member();
        self.failed.push(FailedPart { list, part, message: failure.message() });
        let failure = failure.with_context(&format!("listing {part}"));
        let failure = if is_final(&failure) { failure } else { failure.with_exit(Exit::Failed) };
        self.failure = Some(match self.failure.take() {
            Some(before) => before.and(failure),
            None => failure,
        });
    }

    /// Returns the failure of the command, whose report is on stdout.
    pub(super) fn into_failure(self) -> Option<CommandFailure> {
        self.failure.map(CommandFailure::after_result)
    }
}

/// Returns whether every further request would fail likewise.
fn is_final(failure: &CommandFailure) -> bool {
    matches!(failure.exit, Exit::Connection | Exit::Unauthorized)
}
