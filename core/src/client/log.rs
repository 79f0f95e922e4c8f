//! Log messages of the server (LOG).

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
use crate::methods::{self, Capability};
use crate::model::LoggingLevel;
use crate::raw::RawJson;
use crate::time::Instant;
use crate::version::Version;

/// A log message of the server (LOG-003). It is untrusted: escape it before it is displayed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// Severity of the message.
    pub level: LoggingLevel,
    /// Part of the server that logged the message.
    pub logger: Option<String>,
    /// The message: any JSON value.
    pub data: RawJson,
    /// The call that the message is about, if the transport shows it; never on a byte stream.
    pub call: Option<CallKey>,
}

/// The log level that the application has set.
#[derive(Debug)]
pub(super) struct LogSettings {
    /// The least severe level that is reported; `None` for no messages.
    level: Option<LoggingLevel>,
    /// Members of `_meta` for modern requests at this level.
    request_meta: Vec<u8>,
}

impl LogSettings {
    pub(super) fn request_meta(&self) -> &[u8] {
        &self.request_meta
    }
}

impl Engine {
    /// Sets the least severe level of log messages, or turns them off (LOG-004, LOG-007, META-012).
    ///
    /// A legacy server receives the level immediately; messages that it sends in spite of `None` are dropped. A modern
    /// server receives the level with each later request. Before the first call, a legacy server chooses the level, and
    /// a modern server sends no messages.
    ///
    /// # Errors
    ///
    /// [`UseError::MissingPeerCapability`] if the server did not declare `logging`. [`UseError::NotInVersion`] for an
    /// unknown level. [`UseError::NotReady`], [`UseError::Closed`] or [`UseError::Full`] if no request can be sent.
    pub fn set_log_level(&mut self, now: Instant, level: Option<LoggingLevel>) -> Result<(), UseError> {
        #[derive(Serialize)]
        struct SetLogLevelParams<'a> {
            level: &'a str,
        }
        self.endpoint.tick(now);
        let (main, version) = self.ready_channel()?;
        if !self.peer.as_ref().is_some_and(|p| p.has(Capability::Logging)) {
            return Err(UseError::MissingPeerCapability(Capability::Logging));
        }
        if let Some(LoggingLevel::Other(word)) = &level {
            // The server would refuse each request for it (LOG-006, LOG-010).
            let feature = alloc::format!("log level {}", crate::rpc::clip(word));
            return Err(UseError::NotInVersion { feature, version });
        }
        let mut request_meta = Vec::new();
        if self.is_modern() {
            request_meta.extend_from_slice(self.config.request_meta(Version::V2026_07_28));
            if let Some(level) = &level {
                request_meta.push(b',');
                write_str(&mut request_meta, meta::LOG_LEVEL);
                request_meta.push(b':');
                write_str(&mut request_meta, level.as_str());
            }
        } else {
            // No level turns messages off, so the highest one is set.
            let least = level.as_ref().unwrap_or(&LoggingLevel::Emergency);
            self.check_capacity(1)?;
            self.send_internal_request(
                main,
                methods::SET_LEVEL,
                &SetLogLevelParams { level: least.as_str() },
            )?;
        }
        self.notifications.get_or_insert_default().log_settings = Some(LogSettings { level, request_meta });
        Ok(())
    }

    /// Sends the log level to a legacy server again, for a new session.
    #[cfg(feature = "http")]
    pub(super) fn renew_log_level(&mut self) {
        let level =
            self.notifications.as_ref().and_then(|n| n.log_settings.as_ref()).map(|logs| logs.level.clone());
        if let Some(level) = level {
            // It was accepted before, so it can fail only because the outbox is full.
            let _ = self.set_log_level(self.endpoint.now, level);
        }
    }

    /// Handles `notifications/message`.
    pub(super) fn receive_log(&mut self, frame: &Bytes, params: &[u8]) {
        let muted = self
            .notifications
            .as_ref()
            .and_then(|n| n.log_settings.as_ref())
            .is_some_and(|logs| logs.level.is_none());
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
                self.events.push_back(Event::Log(LogMessage { level, logger, data, call: None }));
            }
            _ => self.diagnose(Diagnostic::InvalidNotification(methods::MESSAGE.into())),
        }
    }
}
