//! What a server needs first: the questions of 2026-07-28 and their answers (MRTR).

use alloc::string::String;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, de};

use super::base::EmptyParams;
use super::elicitation::{ElicitParams, ElicitResult};
use super::map::Map;
use super::message::{Name, message, within};
use super::own::Own;
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::union;
use crate::json::object_members;
use crate::raw::RawJson;
use crate::vocab::{CREATE_MESSAGE, ELICIT, LIST_ROOTS};

mod check;

/// What a server needs, by keys of its choice (MRTR-006, MRTR-007)
pub type InputRequests<'a> = Map<InputRequest<'a>>;

/// What it is given, by the same keys (MRTR-014)
pub type InputResponses<'a> = Map<InputResponse<'a>>;

message! {
    /// The result of `tools/call`, `prompts/get` or `resources/read` when the server needs something first
    /// (since 2026-07-28; MRTR-002, MRTR-004)
    ///
    /// Has one of the two members at least (MRTR-005).
    InputRequiredResult<'a> ("resultType" = "input_required") {} {
        /// What it needs
        opt input_requests: InputRequests<'a> = "inputRequests",
        /// To be sent back with the answers, unread (MRTR-010, MRTR-011)
        opt request_state: String = "requestState",
        /// Metadata
        opt meta: RawJson = "_meta",
    }
}

/// One thing that a server needs (MRTR-008)
///
/// On the wire a method and its parameters; other members of that object mean nothing and are not kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputRequest<'a> {
    /// `elicitation/create`
    Elicit(ElicitParams),
    /// `sampling/createMessage`
    CreateMessage(CreateMessageParams<'a>),
    /// `roots/list`
    ListRoots(Option<EmptyParams>),
    /// Something that this version does not know, as JSON
    Other(RawJson),
}

impl InputRequest<'_> {
    /// Its method; none for something that this version does not know
    #[must_use]
    pub const fn method(&self) -> Option<&'static str> {
        match self {
            Self::Elicit(_) => Some(ELICIT),
            Self::CreateMessage(_) => Some(CREATE_MESSAGE),
            Self::ListRoots(_) => Some(LIST_ROOTS),
            Self::Other(_) => None,
        }
    }

    /// The same, borrowing from nothing
    #[must_use]
    pub fn into_owned(self) -> InputRequest<'static> {
        self.own()
    }
}

impl Own for InputRequest<'_> {
    type Owned = InputRequest<'static>;
    fn own(self) -> InputRequest<'static> {
        match self {
            Self::Elicit(params) => InputRequest::Elicit(params),
            Self::CreateMessage(params) => InputRequest::CreateMessage(params.own()),
            Self::ListRoots(params) => InputRequest::ListRoots(params),
            Self::Other(raw) => InputRequest::Other(raw),
        }
    }
}

impl Serialize for InputRequest<'_> {
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
        struct Read;
        impl<'de> de::Visitor<'de> for Read {
            type Value = InputRequest<'de>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a method and its parameters")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<InputRequest<'de>, A::Error> {
                let (kind, rest) = union::kind(map, "method")?;
                match &*kind.0 {
                    ELICIT => params(rest)?
                        .ok_or_else(|| de::Error::missing_field("params"))
                        .map(InputRequest::Elicit),
                    CREATE_MESSAGE => params(rest)?
                        .ok_or_else(|| de::Error::missing_field("params"))
                        .map(InputRequest::CreateMessage),
                    LIST_ROOTS => params(rest).map(InputRequest::ListRoots),
                    _ => union::unknown("method", &kind, rest).map(InputRequest::Other),
                }
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// The parameters among what else may stand beside a method
fn params<'de, T: Deserialize<'de>, A: de::MapAccess<'de>>(mut map: A) -> Result<Option<T>, A::Error> {
    let mut params = None;
    while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
        match &*name {
            "method" => return Err(de::Error::duplicate_field("method")),
            "params" if params.is_some() => return Err(de::Error::duplicate_field("params")),
            "params" => params = Some(map.next_value::<Option<T>>().map_err(|e| within("params", &e))?),
            _ => drop(map.next_value::<de::IgnoredAny>()?),
        }
    }
    Ok(params.flatten())
}

/// One thing that a server is given: a bare result (MRTR-018)
///
/// As a part of a message it is told apart by its members. Where the question is known, [`InputRequest::read`] reads by
/// that, and an answer that does not fit spoils no more than itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse<'a> {
    /// Of `elicitation/create`: has an `action`
    Elicit(ElicitResult),
    /// Of `sampling/createMessage`: has a `model`
    CreateMessage(CreateMessageResult<'a>),
    /// Of `roots/list`: has `roots`
    ListRoots(ListRootsResult),
    /// Something that this version does not know, as JSON
    Other(RawJson),
}

impl InputResponse<'_> {
    /// The same, borrowing from nothing
    #[must_use]
    pub fn into_owned(self) -> InputResponse<'static> {
        self.own()
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

impl Own for InputResponse<'_> {
    type Owned = InputResponse<'static>;
    fn own(self) -> InputResponse<'static> {
        match self {
            Self::Elicit(result) => InputResponse::Elicit(result),
            Self::CreateMessage(result) => InputResponse::CreateMessage(result.own()),
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
        // Checked, nesting included, before it is read anew.
        let whole =
            RawJson::new(bytes::Bytes::copy_from_slice(raw.get().as_bytes())).map_err(de::Error::custom)?;
        let (mut action, mut model, mut roots) = (false, false, false);
        object_members(whole.as_bytes(), |name, _| match name {
            b"action" => action = true,
            b"model" => model = true,
            b"roots" => roots = true,
            _ => {}
        });
        let text = raw.get().as_bytes();
        match (action, model, roots) {
            (true, ..) => serde_json::from_slice(text).map(Self::Elicit),
            (_, true, _) => serde_json::from_slice(text).map(Self::CreateMessage),
            (.., true) => serde_json::from_slice(text).map(Self::ListRoots),
            _ => return Ok(Self::Other(whole)),
        }
        .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
