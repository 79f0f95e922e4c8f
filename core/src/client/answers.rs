//! Answers to requests of a legacy server.

use serde::Serialize;

use super::engine::Engine;
use crate::calls::inbound::{CallId, Progress, Sent};
use crate::error::UseError;
use crate::json::{Noted, Serializer};
use crate::rpc::{RpcError, encode};
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;
use crate::vocab::{self, Capability};

impl Engine {
    /// Answers a request of the server with a result, which must be written as a JSON object; types of
    /// [`model`](crate::model) go out in the shape of the revision in use
    pub fn respond<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        request: CallId,
        result: &T,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        self.write_result(request.0, result, |_, _| Ok(()))
    }

    /// Tells a legacy server that the roots have changed, if that was promised; a modern one asks each time (ROOT-004)
    pub fn roots_changed(&mut self, now: Instant) -> Result<(), UseError> {
        self.link.tick(now);
        let (main, _) = self.ready_channel()?;
        if !self.is_modern() && self.config.capabilities.has(Capability::RootsListChanged) {
            self.room_for(1)?;
            self.link.send(main, |out| {
                encode::notification_head(out, vocab::ROOTS_CHANGED);
                encode::end(out);
            });
        }
        Ok(())
    }

    /// Reports how far a request of the server has come (legacy; PROG-001)
    pub fn progress(&mut self, now: Instant, request: CallId, progress: Progress) -> Result<Sent, UseError> {
        self.link.tick(now);
        self.link.report(request.0, progress)
    }

    pub(super) fn write_result<T: Serialize + ?Sized>(
        &mut self,
        request: Key,
        result: &T,
        check: impl FnOnce(Noted, &[u8]) -> Result<(), UseError>,
    ) -> Result<(), UseError> {
        let before = self.outbox_len();
        let record = self.link.inbound.calls.get(request).ok_or(UseError::Stale)?;
        let c = self.link.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::result_head(out, &record.id);
        let start = out.len();
        let written = Serializer::object(out, result, shape::table(record.version)).map_err(UseError::from);
        if let Err(e) = written.and_then(|noted| check(noted, out.get(start..).unwrap_or_default())) {
            c.outbox.undo(mark);
            return Err(e);
        }
        encode::end(out);
        self.link.answered(request, mark);
        self.owe(before);
        Ok(())
    }

    pub(super) fn write_error(&mut self, request: Key, error: &RpcError) -> Result<(), UseError> {
        let before = self.outbox_len();
        let version = self.link.inbound.calls.get(request).ok_or(UseError::Stale)?.version;
        self.link.fail(request, &shape::error(error, version)).ok_or(UseError::Stale)?;
        self.owe(before);
        Ok(())
    }
}
