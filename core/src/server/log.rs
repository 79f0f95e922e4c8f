//! Log messages: what is wanted of them, and how fast they may go (LOG).

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::Serialize;

use super::engine::Engine;
use crate::calls::bucket::Bucket;
use crate::calls::inbound::{CallId, Sent};
use crate::error::UseError;
use crate::json::{Serializer, write_str};
use crate::model::{LoggingLevel, SetLevelParams};
use crate::rpc::{RpcError, encode};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Era;
use crate::vocab::{self, Capability};

/// The least serious level that is wanted, as a number; above all levels when none is
pub(crate) type Threshold = u8;
pub(crate) const ALL: Threshold = 0;
pub(crate) const NONE: Threshold = u8::MAX;

/// All levels
const LEVELS: [LoggingLevel; 8] = [
    LoggingLevel::Debug,
    LoggingLevel::Info,
    LoggingLevel::Notice,
    LoggingLevel::Warning,
    LoggingLevel::Error,
    LoggingLevel::Critical,
    LoggingLevel::Alert,
    LoggingLevel::Emergency,
];

/// Bytes that wait for a session to open its stream
const UNHEARD: usize = 4 << 10;

/// The log messages of a session that belong to no call
#[derive(Debug)]
pub(super) struct SessionLog {
    bucket: Bucket,
    /// The latest one that came too fast
    held: Option<Box<[u8]>>,
}

/// The threshold that a level's JSON text names; none for a level that is not known (LOG-002)
pub(super) fn threshold(text: &[u8]) -> Option<Threshold> {
    serde_json::from_slice::<LoggingLevel>(text).ok()?.severity()
}

impl Engine {
    /// Logs something about a call
    ///
    /// Sent when the client asked for such messages: in the request itself in the modern era (LOG-007, LOG-008), for its
    /// session in the legacy one, where all are wanted until it says otherwise (LOG-005). Messages come at a limited
    /// rate, as progress does; the latest one that was held back goes out when the rate allows. `data` is any JSON; it
    /// must hold no secrets (LOG-013).
    pub fn log<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        call: CallId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<Sent, UseError> {
        self.link.tick(now);
        let severity = self.loggable(level)?;
        let record = self.link.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let wanted = match record.version.era() {
            Era::Modern => record.log,
            Era::Legacy => self.session_threshold(record.channel),
        };
        if severity < wanted {
            return Ok(Sent::Dropped);
        }
        let mut message = Vec::new();
        write(&mut message, level, logger, data)?;
        Ok(self.link.say(call.0, message))
    }

    /// Logs something that belongs to no call, to the session of a channel
    ///
    /// Only legacy sessions take such messages; without one it is dropped (LOG-009, LOG-016), and so it is over HTTP where
    /// the session has no stream open and 4 KiB wait for that. Otherwise as [`log`](Self::log).
    pub fn log_session<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<Sent, UseError> {
        self.link.tick(now);
        // What belongs to no call goes out on the session's own stream.
        let channel = ChannelId(self.link.home(channel.0));
        let severity = self.loggable(level)?;
        if severity < self.session_threshold(channel.0) {
            return Ok(Sent::Dropped);
        }
        let mut message = Vec::new();
        write(&mut message, level, logger, data)?;
        let (now, limits) = (self.link.now, &*self.link.limits);
        let Some(c) = self.link.channels.get_mut(channel.0).filter(|c| !c.closed) else {
            return Err(UseError::Closed);
        };
        if c.extra.stream.is_unheard() && c.outbox.len() + message.len() > UNHEARD {
            return Ok(Sent::Dropped);
        }
        let Some(session) = c.extra.session.as_mut() else { return Ok(Sent::Dropped) };
        let log = session.log.get_or_insert_with(|| {
            let bucket = Bucket::new(now, limits.progress_burst, limits.progress_rate);
            Box::new(SessionLog { bucket, held: None })
        });
        if log.held.is_none() && c.outbox.len() < limits.outbox_mark && log.bucket.take(now) {
            self.link.send(channel.0, |out| out.extend_from_slice(&message));
            return Ok(Sent::Queued);
        }
        if log.held.replace(message.into()).is_none() {
            self.hold_log(channel.0);
        }
        Ok(Sent::Held)
    }

    /// Has the held log message of a session sent as soon as the rate allows; never where that is never
    fn hold_log(&mut self, channel: Key) {
        let session = self.link.channels.get(channel).and_then(|c| c.extra.session.as_ref());
        let ready = session.and_then(|s| s.log.as_ref()?.bucket.ready_at());
        if let Some(ready) = ready {
            self.look_later(channel, ready);
        }
    }

    /// Sends the held log message of a session if that is possible by now
    pub(super) fn release_log(&mut self, channel: Key) {
        let (now, mark) = (self.link.now, self.link.limits.outbox_mark);
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        let (waiting, unheard) = (c.outbox.len(), c.extra.stream.is_unheard());
        let Some(log) = c.extra.session.as_mut().and_then(|s| s.log.as_mut()) else { return };
        let Some(held) = &log.held else { return };
        if unheard && waiting + held.len() > UNHEARD {
            log.held = None;
            return;
        }
        if waiting >= mark || !log.bucket.take(now) {
            self.hold_log(channel);
        } else if let Some(message) = log.held.take() {
            self.link.send(channel, |out| out.extend_from_slice(&message));
        }
    }

    /// From which level on the session of a channel wants log messages; none until it has said so, and where there is no
    /// session
    ///
    /// For who has others log for it. Messages below it are dropped in any case (LOG-004).
    #[must_use]
    pub fn log_level(&self, channel: ChannelId) -> Option<LoggingLevel> {
        let threshold = self.session(self.link.home(channel.0))?.threshold?;
        LEVELS.into_iter().find(|level| level.severity() == Some(threshold))
    }

    /// `logging/setLevel` (LOG-004, LOG-006)
    pub(super) fn set_level(&mut self, channel: Key, params: &[u8]) -> Result<(), RpcError> {
        let params: SetLevelParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let Some(severity) = params.level.severity() else {
            return Err(RpcError::invalid_params("`params.level` is not a known level"));
        };
        if let Some(session) = self.link.channels.get_mut(channel).and_then(|c| c.extra.session.as_mut()) {
            session.threshold = Some(severity);
        }
        Ok(())
    }

    fn session_threshold(&self, channel: Key) -> Threshold {
        self.session(channel).map_or(NONE, |s| s.threshold.unwrap_or(ALL))
    }

    /// The number of a level, if this server may log at all (LOG-001)
    fn loggable(&self, level: &LoggingLevel) -> Result<u8, UseError> {
        if !self.config.capabilities.has(Capability::Logging) {
            return Err(UseError::NotDeclared(Capability::Logging));
        }
        level.severity().ok_or_else(|| UseError::NotYours(level.as_str().into()))
    }
}

fn write<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    level: &LoggingLevel,
    logger: Option<&str>,
    data: &T,
) -> Result<(), UseError> {
    encode::notification_head(out, vocab::MESSAGE);
    out.extend_from_slice(b",\"params\":{\"level\":");
    write_str(out, level.as_str());
    if let Some(logger) = logger {
        out.extend_from_slice(b",\"logger\":");
        write_str(out, logger);
    }
    out.extend_from_slice(b",\"data\":");
    Serializer::any(out, data)?;
    out.push(b'}');
    encode::end(out);
    Ok(())
}
