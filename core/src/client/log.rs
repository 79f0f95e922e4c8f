//! Log messages of the server (LOG): which are wanted, and those that come.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Serialize;

use super::engine::Engine;
use super::event::Event;
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::error::UseError;
use crate::json::{object_members, write_str};
use crate::meta;
use crate::model::LoggingLevel;
use crate::raw::RawJson;
use crate::time::Instant;
use crate::version::Version;
use crate::vocab::{self, Capability};

/// A log message of the server (LOG-003): untrusted, and perhaps not fit to be shown as it is
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Log {
    /// How serious it is
    pub level: LoggingLevel,
    /// What part of the server speaks
    pub logger: Option<String>,
    /// The message: any JSON value
    pub data: RawJson,
    /// The call that it is about, where the transport says so; a byte stream does not
    pub call: Option<CallKey>,
}

/// What the application has said about log messages
#[derive(Debug)]
pub(super) struct Logs {
    /// The least serious ones that are wanted; none for none at all
    level: Option<LoggingLevel>,
    /// The `_meta` members of modern requests from now on
    stamp: Vec<u8>,
}

impl Logs {
    pub(super) fn stamp(&self) -> &[u8] {
        &self.stamp
    }
}

impl Engine {
    /// Says which log messages are wanted: those of `level` and above, or none (LOG-004, LOG-007, META-012)
    ///
    /// A legacy server is told at once, what it sends in spite of "none" is dropped. A modern one is told with each
    /// request from now on. Before the first time a legacy server sends what it likes, a modern one nothing.
    /// Refused where the server declared no logging.
    pub fn set_log_level(&mut self, now: Instant, level: Option<LoggingLevel>) -> Result<(), UseError> {
        #[derive(Serialize)]
        struct Params<'a> {
            level: &'a str,
        }
        self.link.tick(now);
        let (main, version) = self.ready_channel()?;
        if !self.peer.as_ref().is_some_and(|p| p.has(Capability::Logging)) {
            return Err(UseError::PeerLacks(Capability::Logging));
        }
        if let Some(LoggingLevel::Other(word)) = &level {
            // Each request would be refused for it (LOG-006, LOG-010).
            let what = alloc::format!("log level {}", crate::rpc::clip(word));
            return Err(UseError::NotInVersion { what, version });
        }
        let mut stamp = Vec::new();
        if self.is_modern() {
            stamp.extend_from_slice(self.config.stamp(Version::V2026_07_28));
            if let Some(level) = &level {
                stamp.push(b',');
                write_str(&mut stamp, meta::LOG_LEVEL);
                stamp.push(b':');
                write_str(&mut stamp, level.as_str());
            }
        } else {
            // There is no level above all: nearly nothing is the least that can be had.
            let least = level.as_ref().unwrap_or(&LoggingLevel::Emergency);
            self.room_for(1)?;
            self.errand(main, vocab::SET_LEVEL, &Params { level: least.as_str() })?;
        }
        self.news.get_or_insert_default().logs = Some(Logs { level, stamp });
        Ok(())
    }

    /// Tells a legacy server once more what is to be logged: it has forgotten
    #[cfg(feature = "http")]
    pub(super) fn log_level_again(&mut self) {
        let level = self.news.as_ref().and_then(|n| n.logs.as_ref()).map(|logs| logs.level.clone());
        if let Some(level) = level {
            // Accepted before, so accepted now, unless there is no room.
            let _ = self.set_log_level(self.link.now, level);
        }
    }

    /// A `notifications/message`
    pub(super) fn log_in(&mut self, frame: &Bytes, params: &[u8]) {
        let muted = self.news.as_ref().and_then(|n| n.logs.as_ref()).is_some_and(|logs| logs.level.is_none());
        let (mut level, mut logger, mut data) = (None, Ok(None), None);
        object_members(params, |name, value| match name {
            b"level" => level = serde_json::from_slice::<LoggingLevel>(value).ok(),
            b"logger" => logger = serde_json::from_slice::<Option<String>>(value),
            b"data" => data = Some(RawJson::trusted(frame.slice_ref(value))),
            _ => {}
        });
        match (level, logger, data) {
            _ if muted => {}
            (Some(level), Ok(logger), Some(data)) => {
                self.events.push_back(Event::Log(Log { level, logger, data, call: None }));
            }
            _ => self.diagnose(Diagnostic::InvalidNotification(vocab::MESSAGE.into())),
        }
    }
}
