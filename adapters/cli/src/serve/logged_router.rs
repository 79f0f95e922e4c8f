//! Output of the demonstration server on stderr.

use std::sync::Mutex;

use mcp_proto::Diagnostic;
use mcp_proto::http::HeadRecord;
use mcp_proto::server::Call;
use mcp_proto::tap::TapRecord;
use mcp_std::adapter::server::HandlerFailure;

use super::clock::lock;
use crate::args;
use crate::paint::Paint;
use crate::session::{self, LimitedNotes};
use crate::trace::{self, HeadRedaction};

/// Prints diagnostics, messages and heads of HTTP messages.
pub(super) struct ServerLog {
    head_redaction: HeadRedaction,
    paint: Paint,
    client_notes: Mutex<LimitedNotes>,
}

impl ServerLog {
    pub(super) fn new(args: &args::ServeArgs) -> Self {
        Self {
            head_redaction: HeadRedaction::of_members(!args.hide.is_empty()),
            paint: Paint::for_stderr(),
            client_notes: Mutex::new(LimitedNotes(20)),
        }
    }

    pub(super) fn diagnostic(&self, diagnostic: &Diagnostic) {
        // Neither side is at fault: a cancellation crossed the response, or overtook its request.
        let usual = matches!(
            diagnostic,
            Diagnostic::UnknownCancellation(_)
                | Diagnostic::EarlyCancellation(_)
                | Diagnostic::LateResponse(_)
        );
        if matches!(diagnostic, Diagnostic::DeprecatedFeature { .. }) {
            lock(&self.client_notes).note(&diagnostic.to_string());
        } else if !usual {
            lock(&self.client_notes).note(&format!("the client deviated from the protocol: {diagnostic}"));
        }
    }

    pub(super) fn failed(&self, call: &Call, failure: &HandlerFailure) {
        session::print_note(&format!("{} failed: {failure}", call.method()));
    }

    pub(super) fn tap(&self, record: &TapRecord) {
        session::print_stderr(&trace::format_record(record, self.paint));
    }

    pub(super) fn head(&self, record: &HeadRecord) {
        session::print_stderr(&trace::format_head(record, &self.head_redaction, self.paint));
    }
}

/// Defines `LoggedRouter`: the router of an adapter with a [`ServerLog`].
///
/// The parameters describe how handlers of the adapter are borrowed and awaited.
macro_rules! logged_router {
    ($adapter:ident: $this:ident, context: $cx:ty, mut: [$($mut:tt)?], async: [$($async:tt)?], await: [$($await:tt)*]) => {
        struct LoggedRouter {
            router: $adapter::Router,
            log: alloc::sync::Arc<$crate::serve::logged_router::ServerLog>,
        }

        impl $adapter::Handler for LoggedRouter {
            $($async)? fn call(
                &$($mut)? $this,
                cx: &mut $cx,
                call: &mcp_proto::server::Call,
            ) -> Result<$adapter::Answered, mcp_proto::RpcError> {
                $this.router.call(cx, call)$($await)*
            }

            fn failed(&$($mut)? $this, call: &mcp_proto::server::Call, failure: &$adapter::HandlerFailure) {
                $this.log.failed(call, failure);
            }

            fn notification(&$($mut)? $this, notification: &mcp_proto::server::Notification) {
                $this.router.notification(notification);
            }

            fn event(&$($mut)? $this, event: &mcp_proto::server::Event) {
                $this.router.event(event);
            }

            fn diagnostic(&$($mut)? $this, diagnostic: &mcp_proto::Diagnostic) {
                $this.log.diagnostic(diagnostic);
            }

            fn tap(&$($mut)? $this, record: &mcp_proto::tap::TapRecord) {
                $this.log.tap(record);
            }

            fn head(&$($mut)? $this, record: &mcp_proto::http::HeadRecord) {
                $this.log.head(record);
            }

            fn tasks(&$($mut)? $this) -> Option<mcp_std::adapter::server::TaskSource> {
                $this.router.task_source()
            }

            fn for_each_tool(&$($mut)? $this, tell: &mut dyn FnMut(&str, &mcp_proto::RawJson)) {
                $this.router.for_each_tool(tell);
            }
        }
    };
}

pub(super) use logged_router;
