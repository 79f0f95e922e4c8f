//! Log messages of the server (LOG).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::calls::outbound::CallKey;
use crate::json::{object_members, string, write_str};
use crate::meta;
use crate::model::LoggingLevel;
use crate::raw::RawJson;

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

impl LogSettings {
    /// Creates the settings for a level. `request_meta` is that of requests without a level; none for a legacy server.
    pub(super) fn new(level: Option<LoggingLevel>, request_meta: Option<&[u8]>) -> Self {
        let mut with_level = Vec::new();
        if let Some(request_meta) = request_meta {
            with_level.extend_from_slice(request_meta);
            if let Some(level) = &level {
                with_level.push(b',');
                write_str(&mut with_level, meta::LOG_LEVEL);
                with_level.push(b':');
                write_str(&mut with_level, level.as_str());
            }
        }
        Self { level, request_meta: with_level }
    }

    /// Returns the least severe level that is reported; `None` for no messages.
    pub(super) const fn level(&self) -> Option<&LoggingLevel> {
        self.level.as_ref()
    }
}

impl LogMessage {
    /// Parses the parameters of `notifications/message`, which lie in `frame`.
    pub(super) fn parse(frame: &Bytes, params: &[u8]) -> Option<Self> {
        let (mut level, mut logger, mut data) = (None, Some(None), None);
        object_members(params, |name, value| match name {
            b"level" => level = string(value).map(|word| LoggingLevel::from(&*word)),
            b"logger" if value == b"null" => logger = Some(None),
            b"logger" => logger = string(value).map(Cow::into_owned).map(Some),
            b"data" => data = Some(RawJson::trusted(frame.slice_ref(value))),
            _ => {}
        });
        Some(Self { level: level?, logger: logger?, data: data?, call: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: META-012
    #[test]
    fn level_is_added_to_the_members_of_modern_requests() {
        let settings = |level| LogSettings::new(level, Some(b"\"a\":1"));
        assert_eq!(settings(None).request_meta(), b"\"a\":1");
        let with_level = settings(Some(LoggingLevel::Error));
        assert_eq!(with_level.request_meta(), b"\"a\":1,\"io.modelcontextprotocol/logLevel\":\"error\"");
        assert_eq!(with_level.level(), Some(&LoggingLevel::Error));
        assert_eq!(LogSettings::new(Some(LoggingLevel::Error), None).request_meta(), b"");
    }
}
