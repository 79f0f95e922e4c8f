//! Log messages: levels, thresholds, and the rate limit of a session (LOG).

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::Serialize;

use crate::calls::inbound::TokenBucket;
use crate::error::UseError;
use crate::json::{Serializer, string, write_str};
use crate::limits::Limits;
use crate::model::LoggingLevel;
use crate::time::Instant;
use crate::{methods, rpc};

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

/// The log messages of a session that belong to no call: the level that its client set, and the rate limit.
#[derive(Debug, Default)]
pub(super) struct SessionLog {
    /// Boxed, because most sessions have neither a level nor a message.
    state: Option<Box<LogState>>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Least severe level that the client asked for, once it has set one.
    threshold: Option<Threshold>,
    /// Created with the first message.
    bucket: Option<TokenBucket>,
    /// The latest message that was held back.
    deferred: Option<Box<[u8]>>,
}

/// The output of the channel of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogOutput {
    /// Number of bytes that wait to be sent.
    pub(super) unsent: usize,
    /// The session is over HTTP and has no GET stream.
    pub(super) has_no_reader: bool,
}

/// Outcome of a log message.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum LogOutcome {
    /// It is to be sent now.
    Send(Box<[u8]>),
    /// It is held back. A timer is to be set for the time, unless the rate is zero or one is set already.
    Deferred(Option<Instant>),
    Dropped,
}

impl SessionLog {
    /// Returns the least severe level that is sent.
    pub(super) fn threshold(&self) -> Threshold {
        self.set_level().unwrap_or(ALL)
    }

    pub(super) fn set_threshold(&mut self, threshold: Threshold) {
        self.state.get_or_insert_default().threshold = Some(threshold);
    }

    /// Returns the level that the client set, as a number.
    pub(super) fn set_level(&self) -> Option<Threshold> {
        self.state.as_ref().and_then(|state| state.threshold)
    }

    /// Returns the level that the client set.
    pub(super) fn level(&self) -> Option<LoggingLevel> {
        self.set_level().and_then(|set| LEVELS.into_iter().find(|level| level.severity() == Some(set)))
    }

    /// Returns the length of the message that is held back.
    pub(super) fn deferred_len(&self) -> usize {
        self.state.as_ref().and_then(|state| state.deferred.as_ref()).map_or(0, |message| message.len())
    }

    /// Takes a message that is severe enough.
    pub(super) fn push(
        &mut self,
        now: Instant,
        limits: &Limits,
        output: LogOutput,
        message: Vec<u8>,
    ) -> LogOutcome {
        // Most clients never open that stream, so what waits for it must not grow.
        if output.has_no_reader && output.unsent + message.len() > MAX_UNREAD_LOG_BYTES {
            return LogOutcome::Dropped;
        }
        let LogState { bucket, deferred, .. } = &mut **self.state.get_or_insert_default();
        let bucket =
            bucket.get_or_insert_with(|| TokenBucket::new(now, limits.progress_burst, limits.progress_rate));
        let has_room = output.unsent < limits.outbox_high_water;
        // While a message is held back, a newer one replaces it instead of overtaking it.
        if deferred.is_none() && has_room && bucket.take(now) {
            return LogOutcome::Send(message.into());
        }
        let is_first = deferred.replace(message.into()).is_none();
        LogOutcome::Deferred(bucket.ready_at().filter(|_| is_first))
    }

    /// Handles the timer of the message that was held back.
    pub(super) fn handle_timeout(&mut self, now: Instant, limits: &Limits, output: LogOutput) -> LogOutcome {
        let Some(LogState { bucket: Some(bucket), deferred, .. }) = self.state.as_deref_mut() else {
            return LogOutcome::Dropped;
        };
        let Some(message) = deferred else { return LogOutcome::Dropped };
        if output.has_no_reader && output.unsent + message.len() > MAX_UNREAD_LOG_BYTES {
            // A message that was held back counts as a new one does: what waits for a stream must not grow.
            *deferred = None;
            return LogOutcome::Dropped;
        }
        if output.unsent >= limits.outbox_high_water || !bucket.take(now) {
            return LogOutcome::Deferred(bucket.ready_at());
        }
        deferred.take().map_or(LogOutcome::Dropped, LogOutcome::Send)
    }
}

/// Length in bytes of the longest level, if each of its characters is an escape.
const MAX_LEVEL_TEXT: usize = 6 * 9 + 2;

/// Returns the threshold of a level's JSON text, or `None` if the level is unknown (LOG-002).
pub(super) fn parse_threshold(text: &[u8]) -> Option<Threshold> {
    // A longer text is no level, however its characters are spelled.
    let text = Some(text).filter(|text| text.len() <= MAX_LEVEL_TEXT)?;
    LoggingLevel::from(&*string(text)?).severity()
}

pub(super) fn write_log_message<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    level: &LoggingLevel,
    logger: Option<&str>,
    data: &T,
) -> Result<(), UseError> {
    rpc::notification_head(out, methods::MESSAGE);
    out.extend_from_slice(b",\"params\":{\"level\":");
    write_str(out, level.as_str());
    if let Some(logger) = logger {
        out.extend_from_slice(b",\"logger\":");
        write_str(out, logger);
    }
    out.extend_from_slice(b",\"data\":");
    Serializer::any(out, data)?;
    out.push(b'}');
    rpc::end(out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: LogOutput = LogOutput { unsent: 0, has_no_reader: false };

    // covers: LOG-004, LOG-005
    #[test]
    fn threshold_is_the_level_that_the_client_set_last() {
        let mut log = SessionLog::default();
        assert_eq!((log.threshold(), log.level()), (ALL, None));
        for level in LEVELS {
            log.set_threshold(level.severity().expect("a level"));
            assert_eq!(log.level(), Some(level));
        }
    }

    #[test]
    fn latest_held_back_message_is_sent_when_the_rate_allows_it() {
        let limits = Limits { progress_burst: 1, progress_rate: 1, ..Limits::default() };
        let (mut log, start) = (SessionLog::default(), Instant::ZERO);
        let second = |n: u64| Instant::from_micros(n * 1_000_000);
        assert_eq!(log.push(start, &limits, FREE, b"a".to_vec()), LogOutcome::Send(b"a"[..].into()));
        assert_eq!(log.push(start, &limits, FREE, b"b".to_vec()), LogOutcome::Deferred(Some(second(1))));
        assert_eq!(log.push(start, &limits, FREE, b"c".to_vec()), LogOutcome::Deferred(None));
        assert_eq!(log.handle_timeout(start, &limits, FREE), LogOutcome::Deferred(Some(second(1))));
        let full = LogOutput { unsent: limits.outbox_high_water, ..FREE };
        assert!(matches!(log.handle_timeout(second(1), &limits, full), LogOutcome::Deferred(Some(_))));
        assert_eq!(log.handle_timeout(second(1), &limits, FREE), LogOutcome::Send(b"c"[..].into()));
        assert_eq!(log.handle_timeout(second(2), &limits, FREE), LogOutcome::Dropped);
    }

    #[test]
    fn messages_without_a_reader_are_dropped_beyond_four_kibibytes() {
        let (mut log, limits) = (SessionLog::default(), Limits::default());
        let output = LogOutput { unsent: MAX_UNREAD_LOG_BYTES, has_no_reader: true };
        assert_eq!(log.push(Instant::ZERO, &limits, output, b"a".to_vec()), LogOutcome::Dropped);
        let last = LogOutput { unsent: MAX_UNREAD_LOG_BYTES - 1, has_no_reader: true };
        let mut other = SessionLog::default();
        assert_eq!(
            other.push(Instant::ZERO, &limits, last, b"a".to_vec()),
            LogOutcome::Send(b"a"[..].into())
        );
        let exhausted = Limits { progress_burst: 0, progress_rate: 0, ..Limits::default() };
        let output = LogOutput { unsent: 0, has_no_reader: true };
        assert_eq!(log.push(Instant::ZERO, &exhausted, output, b"a".to_vec()), LogOutcome::Deferred(None));
        let output = LogOutput { unsent: MAX_UNREAD_LOG_BYTES, has_no_reader: true };
        assert_eq!(log.handle_timeout(Instant::ZERO, &exhausted, output), LogOutcome::Dropped);
        let one = Limits { progress_burst: 1, progress_rate: 1, ..Limits::default() };
        let mut log = SessionLog::default();
        assert!(matches!(log.push(Instant::ZERO, &one, FREE, b"a".to_vec()), LogOutcome::Send(_)));
        assert!(matches!(log.push(Instant::ZERO, &one, FREE, b"b".to_vec()), LogOutcome::Deferred(_)));
        let later = Instant::from_micros(2_000_000);
        assert_eq!(log.handle_timeout(later, &one, last), LogOutcome::Send(b"b"[..].into()));
    }
}
