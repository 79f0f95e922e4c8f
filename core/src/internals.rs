//! Access for the fuzz targets and `mcp-benches` to internal parts. Not a part of the API: no version promises anything here.

use alloc::vec::Vec;

use bytes::Bytes;

#[cfg(feature = "http")]
pub use crate::h1::HeadParser;
use crate::rpc::{
    self,
    envelope::{self, Envelope},
};
use crate::{Limits, MalformedMessage, RawJson, RpcError};
#[cfg(feature = "server")]
use crate::{router::template::Template, server};

/// Decodes a value from unchecked text with the reader of checked text, as a fuzz target does.
///
/// # Errors
///
/// The text is not of the type; or not JSON, as far as it was read.
pub fn read_unchecked<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    crate::json::read_str(text)
}

/// One message, whose parts were found without decoding them.
#[derive(Debug)]
pub struct Message<'a> {
    text: &'a [u8],
    envelope: Envelope<'a>,
}

/// A text that is no message.
#[derive(Debug)]
pub struct Refused {
    /// Reason.
    pub reason: MalformedMessage,
    /// Whether it has a `method`.
    pub has_method: bool,
    /// Whether it has a result or an error.
    pub is_response: bool,
}

impl<'a> Message<'a> {
    /// Parses one message that is not a batch.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the text is no message within `limits`.
    pub fn parse(text: &'a [u8], limits: &Limits) -> Result<Self, Refused> {
        match envelope::parse(text, limits, None) {
            Ok(envelope) => Ok(Self { text, envelope }),
            Err(rejected) => Err(Refused {
                reason: rejected.reason,
                has_method: rejected.has_method,
                is_response: rejected.is_response,
            }),
        }
    }

    /// Returns whether the parts are the same if an earlier message had the same `_meta`.
    #[must_use]
    pub fn survives_known_meta(&self, limits: &Limits) -> bool {
        let meta = self.envelope.params.meta;
        let Some(known) = meta.whole.slice(self.text).filter(|meta| meta.starts_with(b"{")) else {
            return true;
        };
        let parts = meta.shifted(0u32.wrapping_sub(meta.whole.start));
        envelope::parse(self.text, limits, Some((known, &parts)))
            .is_ok_and(|again| again.has_known_meta && again.params == self.envelope.params)
    }

    /// Returns the texts of the parameters, of their members `arguments` and `_meta`, and of the result.
    #[must_use]
    pub fn values(&self) -> [Option<&'a [u8]>; 4] {
        let Envelope { params, result, .. } = &self.envelope;
        [params.whole, params.arguments, params.meta.whole, *result].map(|span| span.slice(self.text))
    }

    /// Returns whether it is a response.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.envelope.kind == envelope::Kind::Response
    }

    /// Returns the id as JSON.
    #[must_use]
    pub fn id(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        self.envelope.id.as_ref()?.write(&mut text);
        Some(text)
    }

    /// Returns the method; empty for a response.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.envelope.method
    }

    /// Writes the message with the writer of the engines; `None` for requests with an id that no engine makes.
    #[must_use]
    pub fn write(&self) -> Option<Vec<u8>> {
        let (mut out, id) = (Vec::new(), self.envelope.id.as_ref());
        if self.is_response() {
            match (self.outcome(), id) {
                (Ok(result), Some(id)) => {
                    rpc::result_head(&mut out, id);
                    out.extend_from_slice(result.as_bytes());
                    rpc::end(&mut out);
                }
                (Ok(_), None) => return None,
                (Err(error), id) => rpc::error(&mut out, id, &error),
            }
            return Some(out);
        }
        match id {
            Some(id) => rpc::request_head(&mut out, id.as_int()?, self.method()),
            None => rpc::notification_head(&mut out, self.method()),
        }
        if let [Some(params), ..] = self.values() {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(params);
        }
        rpc::end(&mut out);
        Some(out)
    }

    /// Returns the outcome of a response.
    ///
    /// # Errors
    ///
    /// The error, if it is one.
    pub fn outcome(&self) -> Result<RawJson, RpcError> {
        self.envelope.outcome(&Bytes::copy_from_slice(self.text))
    }
}

/// Splits a batch into the texts of its members.
///
/// # Errors
///
/// The reason if the text is no batch within `limits`.
pub fn split_batch(text: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, MalformedMessage> {
    crate::calls::batch::split_batch(text, limits).map_err(|(reason, _)| reason)
}

/// Returns the number of steps that a match of `uri` takes, or `None` if it is not a URI.
#[cfg(feature = "server")]
#[must_use]
pub fn count_match_steps(template: &Template, uri: &str) -> Option<usize> {
    template.count_steps(uri)
}

/// Returns the channel in which the request ids of an exchange are unique, and whether it is that of a session.
#[cfg(all(feature = "http", feature = "server"))]
#[must_use]
pub fn find_session(engine: &mut server::Engine, exchange: crate::ChannelId) -> (crate::ChannelId, bool) {
    let exchanges = engine.exchanges();
    let channel = exchanges.parent_of(exchange.0).unwrap_or(exchange.0);
    (crate::ChannelId(channel), exchanges.session_of(channel).is_some())
}

/// Checks what a server keeps against sums over all of it. Does nothing in a release build.
///
/// # Panics
///
/// If a sum or an index is wrong.
#[cfg(feature = "server")]
pub fn check_server(engine: &server::Engine) {
    #[cfg(debug_assertions)]
    engine.check_sums();
    let _ = engine;
}

/// Checks what a client keeps for questions that are tasks. Does nothing in a release build.
///
/// # Panics
///
/// If a sum or an index is wrong.
#[cfg(feature = "client")]
pub fn check_client(engine: &crate::client::Engine) {
    #[cfg(debug_assertions)]
    engine.check_sums();
    let _ = engine;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Message<'_> {
        Message::parse(text.as_bytes(), &Limits::default())
            .unwrap_or_else(|refused| panic!("{text}: {refused:?}"))
    }

    // covers: BASE-001
    #[test]
    fn messages_are_written_again_as_they_were_read() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":"a","result":{"b":[1]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"bad"}}"#,
        ] {
            let message = parse(text);
            let written = message.write().unwrap_or_else(|| panic!("{text}: not written"));
            assert_eq!(core::str::from_utf8(&written), Ok(&*alloc::format!("{text}\n")));
            assert_eq!(message.is_response(), message.method().is_empty(), "{text}");
            assert!(message.survives_known_meta(&Limits::default()), "{text}");
        }
        // No engine makes such an id.
        assert_eq!(parse(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).write(), None);
    }

    #[test]
    fn parts_of_a_message_are_its_texts() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"b","arguments":[1],"_meta":{"c":2}}}"#;
        let message = parse(text);
        let params = r#"{"name":"b","arguments":[1],"_meta":{"c":2}}"#.as_bytes();
        assert_eq!(message.values(), [Some(params), Some(b"[1]"), Some(br#"{"c":2}"#), None]);
        assert_eq!((message.id().as_deref(), message.method()), (Some(&br#""a""#[..]), "tools/call"));
        assert!(message.survives_known_meta(&Limits::default()));
        let refused = Message::parse(br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, &Limits::default());
        let refused = refused.expect_err("another version");
        assert_eq!((refused.reason, refused.has_method), (MalformedMessage::Version, true));
        assert!(!refused.is_response);
        let batch = split_batch(&Bytes::from_static(b"[1, {}]"), &Limits::default()).expect("a batch");
        assert_eq!(batch, [&b"1"[..], b"{}"]);
    }
}
