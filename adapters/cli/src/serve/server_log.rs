//! Output of the demonstration server on stderr.

use alloc::sync::Arc;

use mcp_proto::Diagnostic;
use mcp_proto::http::HeadRecord;
use mcp_proto::server::Call;
use mcp_proto::tap::TapRecord;
use mcp_runtime::server::HandlerFailure;

use super::layers::AuditFile;
use crate::endpoint::refusals::ClientNotes;
use crate::failure::CommandFailure;
use crate::notes;
use crate::paint::Paint;
use crate::serve::ServeArgs;
use crate::trace::{self, HeadRedaction};
use mcp_std::sync::lock;

/// Prints diagnostics, messages and heads of HTTP messages.
pub(super) struct ServerLog {
    head_redaction: HeadRedaction,
    paint: Paint,
    client_notes: ClientNotes,
    pub(super) audit_file: Option<Arc<AuditFile>>,
}

impl ServerLog {
    /// Creates the log, and opens the file of the audit log.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be written.
    pub(super) fn new(args: &ServeArgs) -> Result<Arc<Self>, CommandFailure> {
        let audit_file = args.layers.audit_log.as_deref().map(AuditFile::open).transpose()?.map(Arc::new);
        Ok(Arc::new(Self {
            head_redaction: HeadRedaction::of_members(!args.hide.is_empty()),
            paint: Paint::for_stderr(),
            client_notes: ClientNotes::new(),
            audit_file,
        }))
    }

    pub(super) fn diagnostic(&self, diagnostic: &Diagnostic) {
        match diagnostic {
            // What a definition of tools lacks is told by `check`: whoever starts the server reads the address in its first line.
            Diagnostic::UndescribedTool { .. } => {}
            Diagnostic::DeprecatedFeature { .. } => {
                lock(&self.client_notes.deviations).note(&diagnostic.to_string());
            }
            other => self.client_notes.note(other),
        }
    }

    pub(super) fn failed(&self, call: &Call, failure: &HandlerFailure) {
        notes::print_note(&format!("{} failed: {failure}", call.method()));
    }

    pub(super) fn tap(&self, record: &TapRecord) {
        notes::print_stderr(&trace::format_record(record, self.paint));
    }

    pub(super) fn head(&self, record: &HeadRecord) {
        notes::print_stderr(&trace::format_head(record, &self.head_redaction, self.paint));
    }
}
