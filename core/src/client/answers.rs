//! Answers to requests of a legacy server.

use serde::Serialize;

use super::engine::Engine;
use crate::calls::inbound::{CallId, Progress, SendStatus};
use crate::error::UseError;
use crate::json::{Serializer, TopLevelMembers};
use crate::methods::{self, Capability};
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;

impl Engine {
    /// Answers a request of the server with a result, which must serialize as a JSON object.
    ///
    /// Types of [`model`](crate::model) are shaped for the negotiated revision.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended, or an encoding error.
    pub fn respond<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        request: CallId,
        result: &T,
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        self.write_result(request.0, result, |_, _| Ok(()))
    }

    /// Notifies a legacy server that the roots have changed, if the client declared `roots.listChanged` (ROOT-004).
    ///
    /// Does nothing in the modern era, where the server requests the roots each time.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`] if there is no open connection, [`UseError::Full`] if the outbox
    /// is full.
    pub fn notify_roots_changed(&mut self, now: Instant) -> Result<(), UseError> {
        self.endpoint.tick(now);
        let (main, _) = self.ready_channel()?;
        if !self.is_modern() && self.config.capabilities.has(Capability::RootsListChanged) {
            self.check_capacity(1)?;
            self.endpoint.send(main, |out| {
                encode::notification_head(out, methods::ROOTS_CHANGED);
                encode::end(out);
            });
        }
        Ok(())
    }

    /// Reports progress of a request of the server (legacy; PROG-001).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended.
    pub fn progress(
        &mut self,
        now: Instant,
        request: CallId,
        progress: Progress,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        self.endpoint.report_progress(request.0, progress)
    }

    pub(super) fn write_result<T: Serialize + ?Sized>(
        &mut self,
        request: Key,
        result: &T,
        check: impl FnOnce(TopLevelMembers, &[u8]) -> Result<(), UseError>,
    ) -> Result<(), UseError> {
        let before = self.outbox_len();
        let record = self.endpoint.inbound.calls.get(request).ok_or(UseError::Stale)?;
        let c = self.endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::result_head(out, &record.id);
        let start = out.len();
        let written = Serializer::object(out, result, shape::table(record.version)).map_err(UseError::from);
        if let Err(e) = written.and_then(|members| check(members, out.get(start..).unwrap_or_default())) {
            c.outbox.rollback(mark);
            return Err(e);
        }
        encode::end(out);
        self.endpoint.commit_answer(request, mark);
        self.count_answer(before);
        Ok(())
    }

    pub(super) fn write_error(&mut self, request: Key, error: &RpcError) -> Result<(), UseError> {
        let before = self.outbox_len();
        let version = self.endpoint.inbound.calls.get(request).ok_or(UseError::Stale)?.version;
        self.endpoint.fail(request, &shape::error_in_revision(error, version)).ok_or(UseError::Stale)?;
        self.count_answer(before);
        Ok(())
    }
}
