//! Log messages: thresholds and rate limits (LOG).

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::Serialize;

use super::engine::Engine;
use crate::calls::inbound::{CallId, SendStatus};
use crate::calls::token_bucket::TokenBucket;
use crate::error::UseError;
use crate::json::{Serializer, write_str};
use crate::methods::{self, Capability};
use crate::model::{LoggingLevel, SetLevelParams};
use crate::rpc::{RpcError, encode};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Era;

/// The least severe level that is sent, as a number; [`NONE`] exceeds all levels.
pub(crate) type Threshold = u8;
pub(crate) const ALL: Threshold = 0;
pub(crate) const NONE: Threshold = u8::MAX;

/// All levels, least severe first.
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

/// Maximum number of bytes that wait until a session opens its GET stream.
const MAX_UNREAD_LOG_BYTES: usize = 4 << 10;

/// State of the log messages of a session that belong to no call.
#[derive(Debug)]
pub(super) struct SessionLog {
    bucket: TokenBucket,
    /// The latest message that was held back.
    deferred: Option<Box<[u8]>>,
}

/// Returns the threshold of a level's JSON text, or `None` if the level is unknown (LOG-002).
pub(super) fn parse_threshold(text: &[u8]) -> Option<Threshold> {
    serde_json::from_slice::<LoggingLevel>(text).ok()?.severity()
}

impl Engine {
    /// Sends a log message about a call.
    ///
    /// A modern client sets the level in the request (LOG-007, LOG-008). A legacy client sets it for its session, and
    /// gets all messages before it does (LOG-005). Messages are rate-limited like progress: the latest message that was
    /// held back is sent when the rate allows it. `data` is any JSON value; it must not contain secrets (LOG-013).
    ///
    /// # Errors
    ///
    /// [`UseError::NotDeclared`] without the capability `logging`, [`UseError::Stale`] if the call has ended,
    /// [`UseError::ReservedMethod`] for an unknown level, or an encoding error.
    pub fn log<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        call: CallId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        let severity = self.log_severity(level)?;
        let record = self.endpoint.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let threshold = match record.version.era() {
            Era::Modern => record.log_threshold,
            Era::Legacy => self.session_threshold(record.channel),
        };
        if severity < threshold {
            return Ok(SendStatus::Dropped);
        }
        let mut message = Vec::new();
        write_log_message(&mut message, level, logger, data)?;
        Ok(self.endpoint.send_log(call.0, message))
    }

    /// Sends a log message that belongs to no call to the session of a channel.
    ///
    /// Only legacy sessions receive such messages; without a session the message is dropped (LOG-009, LOG-016). Over
    /// HTTP it is also dropped while the session has no GET stream and 4 KiB wait for one. See [`log`](Self::log) for
    /// the rest.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log), and [`UseError::Closed`] if the channel is closed.
    pub fn log_session<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        // Messages that belong to no call use the GET stream of the session.
        let channel = ChannelId(self.endpoint.root_channel(channel.0));
        let severity = self.log_severity(level)?;
        if severity < self.session_threshold(channel.0) {
            return Ok(SendStatus::Dropped);
        }
        let mut message = Vec::new();
        write_log_message(&mut message, level, logger, data)?;
        let (now, limits) = (self.endpoint.now, &*self.endpoint.limits);
        let Some(c) = self.endpoint.channels.get_mut(channel.0).filter(|c| !c.closed) else {
            return Err(UseError::Closed);
        };
        if c.role.stream.has_no_get_stream() && c.outbox.len() + message.len() > MAX_UNREAD_LOG_BYTES {
            return Ok(SendStatus::Dropped);
        }
        let Some(session) = c.role.session.as_mut() else { return Ok(SendStatus::Dropped) };
        let log = session.log.get_or_insert_with(|| {
            let bucket = TokenBucket::new(now, limits.progress_burst, limits.progress_rate);
            Box::new(SessionLog { bucket, deferred: None })
        });
        if log.deferred.is_none() && c.outbox.len() < limits.outbox_high_water && log.bucket.take(now) {
            self.endpoint.send(channel.0, |out| out.extend_from_slice(&message));
            return Ok(SendStatus::Queued);
        }
        if log.deferred.replace(message.into()).is_none() {
            self.defer_log(channel.0);
        }
        Ok(SendStatus::Deferred)
    }

    /// Arms the timer for the deferred log message of a session, unless the rate is zero.
    fn defer_log(&mut self, channel: Key) {
        let session = self.endpoint.channels.get(channel).and_then(|c| c.role.session.as_ref());
        let ready = session.and_then(|s| s.log.as_ref()?.bucket.ready_at());
        if let Some(ready) = ready {
            self.schedule_changes(channel, ready);
        }
    }

    /// Sends the deferred log message of a session, if that is possible now.
    pub(super) fn send_deferred_log(&mut self, channel: Key) {
        let (now, high_water) = (self.endpoint.now, self.endpoint.limits.outbox_high_water);
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        let (waiting, has_no_stream) = (c.outbox.len(), c.role.stream.has_no_get_stream());
        let Some(log) = c.role.session.as_mut().and_then(|s| s.log.as_mut()) else { return };
        let Some(deferred) = &log.deferred else { return };
        if has_no_stream && waiting + deferred.len() > MAX_UNREAD_LOG_BYTES {
            log.deferred = None;
            return;
        }
        if waiting >= high_water || !log.bucket.take(now) {
            self.defer_log(channel);
        } else if let Some(message) = log.deferred.take() {
            self.endpoint.send(channel, |out| out.extend_from_slice(&message));
        }
    }

    /// Returns the log level of the session of a channel, or `None` before the client sets one.
    ///
    /// For an application whose log messages come from elsewhere. Less severe messages are dropped in any case
    /// (LOG-004).
    #[must_use]
    pub fn log_level(&self, channel: ChannelId) -> Option<LoggingLevel> {
        let threshold = self.session(self.endpoint.root_channel(channel.0))?.threshold?;
        LEVELS.into_iter().find(|level| level.severity() == Some(threshold))
    }

    /// Handles `logging/setLevel` (LOG-004, LOG-006).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn set_level(&mut self, channel: Key, params: &[u8]) -> Result<(), RpcError> {
        let params: SetLevelParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let Some(severity) = params.level.severity() else {
            return Err(RpcError::invalid_params("`params.level` is not a known level"));
        };
        if let Some(session) = self.endpoint.channels.get_mut(channel).and_then(|c| c.role.session.as_mut()) {
            session.threshold = Some(severity);
        }
        Ok(())
    }

    fn session_threshold(&self, channel: Key) -> Threshold {
        self.session(channel).map_or(NONE, |s| s.threshold.unwrap_or(ALL))
    }

    /// Returns the number of a level.
    ///
    /// # Errors
    ///
    /// [`UseError::NotDeclared`] without the capability (LOG-001), [`UseError::ReservedMethod`] for an unknown level.
    fn log_severity(&self, level: &LoggingLevel) -> Result<u8, UseError> {
        if !self.config.capabilities.has(Capability::Logging) {
            return Err(UseError::NotDeclared(Capability::Logging));
        }
        level.severity().ok_or_else(|| UseError::ReservedMethod(level.as_str().into()))
    }
}

fn write_log_message<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    level: &LoggingLevel,
    logger: Option<&str>,
    data: &T,
) -> Result<(), UseError> {
    encode::notification_head(out, methods::MESSAGE);
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
