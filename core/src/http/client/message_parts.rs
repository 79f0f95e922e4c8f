//! The parts of an outgoing message that its header fields repeat.

use alloc::borrow::Cow;

use crate::json::{object_members, string};
use crate::meta;
use crate::methods;
use crate::rpc::RequestId;

/// The parts of an outgoing message that its header fields repeat.
#[derive(Debug, Default)]
pub(super) struct MessageParts<'a> {
    pub(super) id: Option<RequestId>,
    pub(super) method: Option<Cow<'a, str>>,
    /// The revision in its `_meta`.
    pub(super) version: Option<Cow<'a, str>>,
    /// The name or URI that it addresses (HTTP-033, XHDR-036).
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) arguments: Option<&'a [u8]>,
    /// The request that it cancels.
    pub(super) cancelled_request: Option<RequestId>,
    /// It requests a page other than the first.
    pub(super) has_cursor: bool,
}

impl<'a> MessageParts<'a> {
    /// Parses a message of this client; a batch of responses has no parts.
    pub(super) fn parse(message: &'a [u8]) -> Self {
        let mut parts = Self::default();
        let mut params: &[u8] = &[];
        if message.first() != Some(&b'{') {
            return parts;
        }
        object_members(message, |name, value| match name {
            b"id" => parts.id = RequestId::from_json(value, value.len()),
            b"method" => parts.method = string(value),
            b"params" => params = value,
            _ => {}
        });
        let member = parts.method.as_deref().and_then(methods::subject_member).unwrap_or_default();
        if params.is_empty() {
            return parts;
        }
        object_members(params, |name, value| match name {
            b"_meta" => {
                _ = object_members(value, |name, value| {
                    if name == meta::PROTOCOL_VERSION.as_bytes() {
                        parts.version = string(value);
                    }
                })
            }
            b"arguments" => parts.arguments = Some(value),
            b"requestId" => parts.cancelled_request = RequestId::from_json(value, value.len()),
            b"cursor" => parts.has_cursor = true,
            name if name == member.as_bytes() => parts.name = string(value),
            _ => {}
        });
        parts
    }
}

/// Returns whether a message is a response, or a notification that the protocol defines.
pub(super) fn is_protocol_message(message: &[u8]) -> bool {
    let method = MessageParts::parse(message).method;
    let known = [methods::INITIALIZED, methods::CANCELLED, methods::PROGRESS, methods::ROOTS_CHANGED];
    method.is_none_or(|method| known.contains(&&*method))
}

/// Returns whether a message is a notification that the protocol does not define.
pub(super) fn is_custom_notification(message: &[u8]) -> bool {
    let parts = MessageParts::parse(message);
    parts.id.is_none() && parts.method.is_some_and(|method| !methods::is_spec_notification(&method))
}
