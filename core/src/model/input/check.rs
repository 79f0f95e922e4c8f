//! Validation of input requests and input responses (MRTR-008, MRTR-018, MRTR-027).

use serde::Deserialize;

use super::{InputRequest, InputResponse};
use crate::ascii::AsciiCaseExt as _;
use crate::methods::{CREATE_MESSAGE, ELICIT, LIST_ROOTS};
use crate::model::ValidationError;
use crate::model::elicitation::{ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams};
use crate::model::map::Map;
use crate::model::roots::ListRootsResult;
use crate::raw::RawJson;
use crate::uri::{has_host, is_uri};

impl<'a> InputRequest<'a> {
    /// Creates an input request from the method and parameters of a legacy request.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] if the method is no input request, or if the parameters are missing or do not match it.
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn from_parts(method: &str, params: Option<&'a RawJson>) -> Result<Self, ValidationError> {
        fn read<'a, T: Deserialize<'a>>(params: &'a RawJson) -> Result<T, ValidationError> {
            params.parse().map_err(|e| params_error(&e))
        }
        fn params_error(error: &serde_json::Error) -> ValidationError {
            ValidationError::from_read_error(error).prefixed("params")
        }
        let needed = || params.ok_or_else(|| ValidationError::new("missing field `params`"));
        match method {
            ELICIT => {
                ElicitParams::from_text(needed()?.as_str()).map(Self::Elicit).map_err(|e| params_error(&e))
            }
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
            let action = answer.member("action").and_then(|action| action.string());
            let action = action.as_deref().map(ElicitAction::from);
            let is_refusal = matches!(action, Some(ElicitAction::Decline | ElicitAction::Cancel));
            let is_visit = action == Some(ElicitAction::Accept) && matches!(request, ElicitParams::Url(_));
            if let Some(action) = action.filter(|_| is_refusal || is_visit) {
                let read = answer.parse::<ElicitResult>();
                let mut result = read.unwrap_or_else(|_| ElicitResult::new(action));
                result.content = result.content.filter(Map::is_empty);
                return Ok(InputResponse::Elicit(result));
            }
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
        let read = match method {
            ELICIT => answer.parse().map(Self::Elicit),
            CREATE_MESSAGE => answer.parse().map(Self::CreateMessage),
            LIST_ROOTS => answer.parse().map(Self::ListRoots),
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
#[path = "check_tests.rs"]
mod tests;
