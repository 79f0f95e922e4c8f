//! Input requests of 2026-07-28 and their responses (MRTR), with `roots/list` (ROOT).

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, de};

use super::base::{EmptyParams, IntoStatic};
use super::elicitation::{ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams};
use super::map::{Extra, Map};
use super::message::{MemberKey, message, prefix_path};
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::{ValidationError, union};
use crate::ascii::AsciiCaseExt as _;
use crate::json::{object_members, read_str};
use crate::methods::{CREATE_MESSAGE, ELICIT, LIST_ROOTS};
use crate::raw::{CheckedText, RawJson};
use crate::uri::{has_host, is_uri};

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

union::from!(<'a> InputResponse<'a>, result: ElicitResult => Self::Elicit(result));
union::from!(<'a> InputResponse<'a>, result: CreateMessageResult<'a> => Self::CreateMessage(result));
union::from!(<'a> InputResponse<'a>, result: ListRootsResult => Self::ListRoots(result));

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

union::serialize_variants! { InputResponse<'_>: Elicit CreateMessage ListRoots Other }

impl<'de: 'a, 'a> Deserialize<'de> for InputResponse<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let CheckedText(text) = CheckedText::deserialize(deserializer)?;
        let (mut action, mut model, mut roots) = (false, false, false);
        object_members(text.as_bytes(), |name, _| match name {
            b"action" => action = true,
            b"model" => model = true,
            b"roots" => roots = true,
            _ => {}
        });
        match (action, model, roots) {
            (true, ..) => read_str(text).map(Self::Elicit),
            (_, true, _) => read_str(text).map(Self::CreateMessage),
            (.., true) => read_str(text).map(Self::ListRoots),
            _ => {
                // Kept as it is, unless a member occurs twice.
                if text.starts_with('{') {
                    read_str::<Map<de::IgnoredAny>>(text).map_err(de::Error::custom)?;
                }
                return Ok(Self::Other(RawJson::trusted(Bytes::copy_from_slice(text.as_bytes()))));
            }
        }
        .map_err(de::Error::custom)
    }
}

// `roots/list`: directories of the client that a server may work in (ROOT).

message! {
    /// Result of `roots/list` (ROOT-002).
    ListRootsResult {
        /// The roots.
        roots: Vec<Root> as List = "roots",
    } {
        /// Metadata (up to and including 2025-11-25).
        opt meta: RawJson as Object = "_meta",
    }

    /// A location where a server may work: information, not access control (ROOT-013).
    Root {
        /// A `file://` URI (ROOT-005).
        uri: String = "uri",
    } {
        /// Name for display.
        opt name: String = "name",
        /// Metadata (since 2025-06-18).
        opt meta: RawJson as Object = "_meta",
    }
}

// Validation of input requests and input responses (MRTR-008, MRTR-018, MRTR-027).

impl<'a> InputRequest<'a> {
    /// Creates an input request from the method and parameters of a legacy request.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] if the method is no input request, or if the parameters are missing or do not match it.
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn from_parts(method: &str, params: Option<&'a RawJson>) -> Result<Self, ValidationError> {
        fn read<'a, T: Deserialize<'a>>(params: &'a RawJson) -> Result<T, ValidationError> {
            params.parse().map_err(|e| ValidationError::from_read_error(&e).prefixed("params"))
        }
        let needed = || params.ok_or_else(|| ValidationError::new("missing field `params`"));
        match method {
            ELICIT => read(needed()?).map(Self::Elicit),
            CREATE_MESSAGE => read(needed()?).map(Self::CreateMessage),
            LIST_ROOTS => params.map(read).transpose().map(Self::ListRoots),
            _ => Err(ValidationError::at_member("method", "is not the method of an input request")),
        }
    }

    /// Returns whether `key` can be the key of an input request: 1 to 64 characters, no control characters.
    ///
    /// The protocol leaves keys to servers (MRTR-007). This rule holds for the keys that this crate sends; a client
    /// accepts any key.
    #[must_use]
    pub fn is_valid_key(key: &str) -> bool {
        (1..=64).contains(&key.chars().count()) && !key.chars().any(char::is_control)
    }

    /// Validates the input request itself.
    ///
    /// - A form must be answerable ([`ElicitSchema::validate`](crate::model::ElicitSchema::validate)).
    /// - A web page must have a usable URL ([`ElicitUrlParams::validate`]).
    /// - A conversation must be well-formed
    ///   ([`CreateMessageParams::validate`](crate::model::CreateMessageParams::validate)).
    /// - The kind must be known (MRTR-008).
    ///
    /// Whether the client supports it is a separate check: [`required_capabilities`](Self::required_capabilities).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first wrong member.
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn validate(&self) -> Result<(), ValidationError> {
        match self {
            Self::Elicit(ElicitParams::Form(form)) => {
                form.requested_schema.validate().map_err(|m| m.prefixed("requestedSchema"))
            }
            Self::Elicit(ElicitParams::Url(page)) => page.validate(),
            Self::Elicit(ElicitParams::Other(_)) => {
                Err(ValidationError::at_member("mode", "is neither `form` nor `url`"))
            }
            Self::CreateMessage(params) => params.validate(),
            Self::ListRoots(_) => Ok(()),
            Self::Other(_) => {
                Err(ValidationError::at_member("method", "is not the method of an input request"))
            }
        }
    }

    /// Reads a response to this input request, on either side: a bare result that matches it (MRTR-018, MRTR-027).
    ///
    /// Unknown members are accepted. So is `content`, whatever it is, where it has no meaning, and it is left out: beside a
    /// refusal, and for a web page (ELIC-018, ELIC-021, ELIC-034).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first member that does not match.
    pub fn parse_response<'r>(&self, answer: &'r RawJson) -> Result<InputResponse<'r>, ValidationError> {
        let Some(method) = self.method() else { return Ok(InputResponse::Other(answer.clone())) };
        if let Self::Elicit(request) = self {
            return request.read_result(answer).map(InputResponse::Elicit);
        }
        let response = InputResponse::parse(method, answer)?;
        self.check_valid_response(&response).map(|()| response)
    }

    /// Checks whether a response matches this input request (ELIC-020, SAMP-022).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first member that does not match.
    pub fn check_response(&self, answer: &InputResponse<'_>) -> Result<(), ValidationError> {
        answer.validate().and_then(|()| self.check_valid_response(answer))
    }

    /// Checks a response that is valid in itself against this input request.
    #[expect(deprecated, reason = "supported until its removal")]
    fn check_valid_response(&self, answer: &InputResponse<'_>) -> Result<(), ValidationError> {
        match (self, answer) {
            (Self::Elicit(request), InputResponse::Elicit(result)) => request.check_result(result),
            (Self::CreateMessage(request), InputResponse::CreateMessage(result)) => {
                request.check_result(result)
            }
            (Self::ListRoots(_), InputResponse::ListRoots(_)) | (Self::Other(_), _) => Ok(()),
            _ => Err(ValidationError::new("answers another kind of input request")),
        }
    }
}

impl<'a> InputResponse<'a> {
    /// Reads a response to an input request of which only the method is known: a bare result of that kind (MRTR-018).
    ///
    /// Checks everything that does not depend on the request; see [`validate`](Self::validate).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] if the method is no input request, or if the result does not match it.
    pub fn parse(method: &str, answer: &'a RawJson) -> Result<Self, ValidationError> {
        Self::from_text(method, answer.as_str())
    }

    /// Does what [`parse`](Self::parse) does, with JSON text that was checked already.
    pub(crate) fn from_text(method: &str, text: &'a str) -> Result<Self, ValidationError> {
        let read = match method {
            ELICIT => read_str(text).map(Self::Elicit),
            CREATE_MESSAGE => read_str(text).map(Self::CreateMessage),
            LIST_ROOTS => read_str(text).map(Self::ListRoots),
            _ => return Err(ValidationError::new("answers a method that is not an input request")),
        };
        let read = read.map_err(|e| ValidationError::from_read_error(&e))?;
        read.validate().map(|()| read)
    }

    /// Validates the response itself.
    ///
    /// The action must be one of three, with content only for `accept` (ELIC-018). Tools must be called with objects
    /// (SAMP-022). Roots must be `file:` URIs (ROOT-005).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] that names the first wrong member.
    pub fn validate(&self) -> Result<(), ValidationError> {
        match self {
            Self::Elicit(result) => result.validate(),
            Self::CreateMessage(result) => result.validate(),
            Self::ListRoots(result) => result.validate(),
            Self::Other(_) => Ok(()),
        }
    }
}

impl ElicitParams {
    fn read_result(&self, answer: &RawJson) -> Result<ElicitResult, ValidationError> {
        let ignores_content = |action: &ElicitAction| match action {
            ElicitAction::Decline | ElicitAction::Cancel => true,
            ElicitAction::Accept => matches!(self, Self::Url(_)),
            ElicitAction::Other(_) => false,
        };
        match answer.parse::<ElicitResult>() {
            Ok(mut result) if ignores_content(&result.action) => {
                result.content = result.content.filter(Map::is_empty);
                Ok(result)
            }
            Ok(result) => result.validate().and_then(|()| self.check_result(&result)).map(|()| result),
            // It may be the content that cannot be read.
            Err(error) => {
                let action = answer.member("action").and_then(|action| action.string());
                let action = action.map(|action| ElicitAction::from(&*action)).filter(ignores_content);
                action.map(ElicitResult::new).ok_or_else(|| ValidationError::from_read_error(&error))
            }
        }
    }

    fn check_result(&self, result: &ElicitResult) -> Result<(), ValidationError> {
        static NOTHING: Map<crate::model::ElicitValue> = Map::new();
        let content = result.content.as_ref().unwrap_or(&NOTHING);
        match self {
            Self::Form(form) if result.action == ElicitAction::Accept => {
                form.requested_schema.check(content).map_err(|m| m.prefixed("content"))
            }
            // ELIC-034
            Self::Url(_) if !content.is_empty() => {
                Err(ValidationError::at_member("content", "must be absent for a web page"))
            }
            _ => Ok(()),
        }
    }
}

impl ElicitUrlParams {
    /// Validates the page: its URL must be absolute and name a host (ELIC-009).
    ///
    /// The application decides which schemes it opens; outside of development the scheme should be `https` (ELIC-038).
    ///
    /// # Errors
    ///
    /// [`ValidationError`] for `url`.
    pub fn validate(&self) -> Result<(), ValidationError> {
        match is_uri(&self.url) && has_host(&self.url) {
            true => Ok(()),
            false => Err(ValidationError::at_member("url", "must be an absolute URL with a host")),
        }
    }
}

impl ElicitResult {
    fn validate(&self) -> Result<(), ValidationError> {
        match &self.action {
            ElicitAction::Accept => Ok(()),
            // Some clients send `{}` instead of no content.
            ElicitAction::Decline | ElicitAction::Cancel
                if self.content.as_ref().is_none_or(Map::is_empty) =>
            {
                Ok(())
            }
            ElicitAction::Decline | ElicitAction::Cancel => {
                Err(ValidationError::at_member("content", "must be absent unless `action` is `accept`"))
            }
            ElicitAction::Other(_) => {
                Err(ValidationError::at_member("action", "must be `accept`, `decline` or `cancel`"))
            }
        }
    }
}

impl ListRootsResult {
    /// Checks the scheme, in any case. The server checks the path (ROOT-008).
    fn validate(&self) -> Result<(), ValidationError> {
        let is_file = |uri: &str| uri.get(..7).is_some_and(|start| start.eq_ignore_case("file://"));
        match self.roots.iter().position(|root| !is_file(&root.uri)) {
            Some(at) => Err(ValidationError::at_member("uri", "must begin with `file://`")
                .at_index(at)
                .prefixed("roots")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod check_tests;

#[cfg(test)]
mod roots_tests {
    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: ROOT-002, ROOT-005
    #[test]
    fn roots_round_trip() {
        let meta = RawJson::new("{}").expect("JSON");
        let root = Root::new("file:///home").name("home").meta(meta.clone());
        assert_round_trip(&root);
        assert_round_trip(&ListRootsResult::new(alloc::vec![root, Root::new("file:///")]).meta(meta));
        assert_missing::<Root>("{}", "uri");
        assert_missing::<ListRootsResult>("{}", "roots");
    }
}

#[cfg(test)]
mod tests;
