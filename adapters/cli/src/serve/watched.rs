//! What is seen on stderr of what the server does

use std::sync::Mutex;

use mcp_proto::Diagnostic;
use mcp_proto::http::HeadRecord;
use mcp_proto::tap::TapRecord;

use super::clock::lock;
use crate::args;
use crate::paint::Paint;
use crate::session::{self, Few};
use crate::trace;

/// Looks at what handlers are told
pub(super) struct Watch {
    /// Members of messages are hidden
    hides: bool,
    paint: Paint,
    oddities: Mutex<Few>,
}

impl Watch {
    pub(super) fn new(args: &args::Serve) -> Self {
        Self { hides: !args.hide.is_empty(), paint: Paint::for_stderr(), oddities: Mutex::new(Few(20)) }
    }

    pub(super) fn diagnostic(&self, diagnostic: &Diagnostic) {
        // Those that are nobody's fault: a cancellation has crossed the answer, or overtaken its request.
        let usual = matches!(
            diagnostic,
            Diagnostic::UnknownCancel(_) | Diagnostic::CancelledEarly(_) | Diagnostic::LateResponse(_)
        );
        if !usual {
            lock(&self.oddities).note(&format!("the client did something odd: {diagnostic}"));
        }
    }

    pub(super) fn tap(&self, record: &TapRecord) {
        session::say(&trace::line(record, self.paint));
    }

    pub(super) fn head(&self, record: &HeadRecord) {
        session::say(&trace::head(record, self.hides, self.paint));
    }
}

/// `Watched`: a router of an adapter, and what is seen of it; by how that adapter's handlers are held and awaited
macro_rules! watched {
    ($adapter:ident: $this:ident, mut: [$($mut:tt)?], async: [$($async:tt)?], await: [$($await:tt)*]) => {
        struct Watched {
            router: $adapter::Router,
            watch: alloc::sync::Arc<$crate::serve::watched::Watch>,
        }

        impl $adapter::Handler for Watched {
            $($async)? fn call(
                &$($mut)? $this,
                cx: &mut $adapter::Cx<'_>,
                call: &mcp_proto::server::Call,
            ) -> Result<$adapter::Answered, mcp_proto::RpcError> {
                $this.router.call(cx, call)$($await)*
            }

            fn failed(&$($mut)? $this, call: &mcp_proto::server::Call, failure: &$adapter::Failure) {
                $this.router.failed(call, failure);
            }

            fn notification(&$($mut)? $this, notification: &mcp_proto::server::Notification) {
                $this.router.notification(notification);
            }

            fn event(&$($mut)? $this, event: &mcp_proto::server::Event) {
                $this.router.event(event);
            }

            fn diagnostic(&$($mut)? $this, diagnostic: &mcp_proto::Diagnostic) {
                $this.watch.diagnostic(diagnostic);
            }

            fn tap(&$($mut)? $this, record: &mcp_proto::tap::TapRecord) {
                $this.watch.tap(record);
            }

            fn head(&$($mut)? $this, record: &mcp_proto::http::HeadRecord) {
                $this.watch.head(record);
            }

            fn token(
                &$($mut)? $this,
                token: &mcp_proto::http::server::Token,
            ) -> Result<String, mcp_proto::http::server::Denial> {
                $this.router.token(token)
            }

            fn tools(&$($mut)? $this, tell: &mut dyn FnMut(&str, &mcp_proto::RawJson)) {
                $this.router.tools(tell);
            }
        }
    };
}

pub(super) use watched;
