//! Input requests of 2026-07-28 and their responses (MRTR).

use alloc::string::String;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, de};

use super::base::EmptyParams;
use super::elicitation::{ElicitParams, ElicitResult};
use super::into_static::IntoStatic;
use super::map::{Extra, Map};
use super::message::{MemberKey, message, prefix_path};
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::union;
use crate::json::object_members;
use crate::methods::{CREATE_MESSAGE, ELICIT, LIST_ROOTS};
use crate::raw::RawJson;

mod check;

/// Input requests by the server's keys (MRTR-006, MRTR-007).
pub type InputRequests<'a> = Map<InputRequest<'a>>;

/// Input responses by the keys of the requests (MRTR-014).
pub type InputResponses<'a> = Map<InputResponse<'a>>;

message! {
    /// Result of `tools/call`, `prompts/get` or `resources/read` with which the server asks for input.
    ///
    /// Since 2026-07-28 (MRTR-002, MRTR-004). It has at least one of `input_requests` and `request_state` (MRTR-005).
    InputRequiredResult<'a> ("resultType" = "input_required") {} {
        /// The input requests.
        opt input_requests: InputRequests<'a> = "inputRequests",
        /// Opaque state that the client returns with the input responses (MRTR-010, MRTR-011).
        opt request_state: String = "requestState",
        /// Metadata.
        opt meta: RawJson as Object = "_meta",
    }
}

/// An input request: elicitation, sampling or roots (MRTR-008).
///
/// On the wire it is an object with a method and its parameters. Other members are ignored and not kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputRequest<'a> {
    /// `elicitation/create`.
    Elicit(ElicitParams),
    /// `sampling/createMessage`.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    CreateMessage(CreateMessageParams<'a>),
    /// `roots/list`.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    ListRoots(Option<EmptyParams>),
    /// An unknown method, as JSON.
    Other(RawJson),
}

impl InputRequest<'_> {
    /// Returns the method, or `None` for an unknown one.
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub const fn method(&self) -> Option<&'static str> {
        match self {
            Self::Elicit(_) => Some(ELICIT),
            Self::CreateMessage(_) => Some(CREATE_MESSAGE),
            Self::ListRoots(_) => Some(LIST_ROOTS),
            Self::Other(_) => None,
        }
    }

    /// Converts to a value that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> InputRequest<'static> {
        self.into_static()
    }
}

impl IntoStatic for InputRequest<'_> {
    type Owned = InputRequest<'static>;
    #[expect(deprecated, reason = "supported until its removal")]
    fn into_static(self) -> InputRequest<'static> {
        match self {
            Self::Elicit(params) => InputRequest::Elicit(params),
            Self::CreateMessage(params) => InputRequest::CreateMessage(params.into_static()),
            Self::ListRoots(params) => InputRequest::ListRoots(params),
            Self::Other(raw) => InputRequest::Other(raw),
        }
    }
}

impl Serialize for InputRequest<'_> {
    #[expect(deprecated, reason = "supported until its removal")]
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Other(raw) = self {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("method", self.method().unwrap_or_default())?;
        match self {
            Self::Elicit(params) => map.serialize_entry("params", params)?,
            Self::CreateMessage(params) => map.serialize_entry("params", params)?,
            Self::ListRoots(Some(params)) => map.serialize_entry("params", params)?,
            Self::ListRoots(None) | Self::Other(_) => {}
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for InputRequest<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputRequestVisitor;
        impl<'de> de::Visitor<'de> for InputRequestVisitor {
            type Value = InputRequest<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a method and its parameters")
            }
            #[expect(deprecated, reason = "supported until its removal")]
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<InputRequest<'de>, A::Error> {
                let (kind, rest) = union::kind(map, "method")?;
                match &*kind.0 {
                    ELICIT => read_params(rest)?
                        .ok_or_else(|| de::Error::missing_field("params"))
                        .map(InputRequest::Elicit),
                    CREATE_MESSAGE => read_params(rest)?
                        .ok_or_else(|| de::Error::missing_field("params"))
                        .map(InputRequest::CreateMessage),
                    LIST_ROOTS => read_params(rest).map(InputRequest::ListRoots),
                    _ => union::read_unknown("method", &kind, rest).map(InputRequest::Other),
                }
            }
        }
        deserializer.deserialize_map(InputRequestVisitor)
    }
}

/// Reads the parameters among the other members of an input request.
fn read_params<'de, T: Deserialize<'de>, A: de::MapAccess<'de>>(mut map: A) -> Result<Option<T>, A::Error> {
    let mut params = None;
    let mut others = Extra::new();
    while let Some(name) = map.next_key::<MemberKey<'de>>()? {
        match &*name.0 {
            "method" => return Err(de::Error::duplicate_field("method")),
            "params" if params.is_some() => return Err(de::Error::duplicate_field("params")),
            "params" => params = Some(map.next_value::<Option<T>>().map_err(|e| prefix_path("params", &e))?),
            _ => others.read(&name, &mut map)?,
        }
    }
    others.reject_duplicates()?;
    Ok(params.flatten())
}

/// An input response: a bare result (MRTR-018).
///
/// In a message its members tell which kind it is. Where the request is known, use [`InputRequest::parse_response`]: it
/// reads by the kind of the request, and an invalid response does not affect the others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse<'a> {
    /// Result of `elicitation/create`: has `action`.
    Elicit(ElicitResult),
    /// Result of `sampling/createMessage`: has `model`.
    CreateMessage(CreateMessageResult<'a>),
    /// Result of `roots/list`: has `roots`.
    ListRoots(ListRootsResult),
    /// An unknown result, as JSON.
    Other(RawJson),
}

impl InputResponse<'_> {
    /// Converts to a value that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> InputResponse<'static> {
        self.into_static()
    }
}

impl From<ElicitResult> for InputResponse<'_> {
    fn from(result: ElicitResult) -> Self {
        Self::Elicit(result)
    }
}

impl<'a> From<CreateMessageResult<'a>> for InputResponse<'a> {
    fn from(result: CreateMessageResult<'a>) -> Self {
        Self::CreateMessage(result)
    }
}

impl From<ListRootsResult> for InputResponse<'_> {
    fn from(result: ListRootsResult) -> Self {
        Self::ListRoots(result)
    }
}

impl IntoStatic for InputResponse<'_> {
    type Owned = InputResponse<'static>;
    fn into_static(self) -> InputResponse<'static> {
        match self {
            Self::Elicit(result) => InputResponse::Elicit(result),
            Self::CreateMessage(result) => InputResponse::CreateMessage(result.into_static()),
            Self::ListRoots(result) => InputResponse::ListRoots(result),
            Self::Other(raw) => InputResponse::Other(raw),
        }
    }
}

impl Serialize for InputResponse<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Elicit(result) => result.serialize(serializer),
            Self::CreateMessage(result) => result.serialize(serializer),
            Self::ListRoots(result) => result.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for InputResponse<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'de serde_json::value::RawValue = Deserialize::deserialize(deserializer)?;
        // The check includes nesting, before the text is parsed again.
        let whole =
            RawJson::new(bytes::Bytes::copy_from_slice(raw.get().as_bytes())).map_err(de::Error::custom)?;
        let (mut action, mut model, mut roots) = (false, false, false);
        object_members(whole.as_bytes(), |name, _| match name {
            b"action" => action = true,
            b"model" => model = true,
            b"roots" => roots = true,
            _ => {}
        });
        let text = raw.get();
        match (action, model, roots) {
            (true, ..) => serde_json::from_str(text).map(Self::Elicit),
            (_, true, _) => serde_json::from_str(text).map(Self::CreateMessage),
            (.., true) => serde_json::from_str(text).map(Self::ListRoots),
            _ => {
                // Kept as it is, unless a member occurs twice.
                if whole.is_object() {
                    serde_json::from_str::<Map<de::IgnoredAny>>(text).map_err(de::Error::custom)?;
                }
                return Ok(Self::Other(whole));
            }
        }
        .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
