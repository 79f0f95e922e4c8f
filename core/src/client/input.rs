//! Input requests of a server, with one event and one answer in both eras (MRTR, ELIC, SAMP, ROOT).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use bytes::Bytes;

use super::config::Config;
use crate::built::Conversing;
use crate::calls::inbound::CallId;
use crate::calls::outbound::CallKey;
use crate::error::{CallError, UseError};
use crate::json::TopLevelMembers;
use crate::methods::Capability;
use crate::model::{ElicitParams, InputRequest, InputResponse};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::version::Version;

/// The key of an input request.
///
/// It is stale once the request has been answered, refused or cancelled. A stale key is refused and never reaches
/// another input request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InputId(pub(super) InputSource);

/// The destination of an input response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum InputSource {
    /// A request of a legacy server.
    Request(Key),
    /// A round of this modern call; the serial number is never reused.
    Round(Key, u64),
    /// A task of 2026-07-28; the serial number is never reused.
    Task(u64),
    /// A task that this client hosts (2025-11-25); the serial number is never reused.
    Hosted(u64),
}

/// An input request of a server.
///
/// Answer it with exactly one of [`answer`](super::Engine::answer) and [`refuse`](super::Engine::refuse), unless
/// [`Event::InputWithdrawn`](crate::client::Event::InputWithdrawn) is reported first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Input {
    /// The key to answer with.
    pub id: InputId,
    /// The call that needs the input; `None` in the legacy era, where it is unknown unless the call follows a task.
    pub call: Option<CallKey>,
    /// The server's key for the input request, unique within the round of the call, or within its task (modern).
    pub key: Option<Box<str>>,
    /// The request; never `Other`.
    pub request: Box<InputRequest<'static>>,
    pub(super) _marker: Conversing,
}

/// The target of [`Engine::refuse`](crate::client::Engine::refuse).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefuseTarget {
    /// A request of a legacy server with a custom method.
    Request(CallId),
    /// An input request.
    Input(InputId),
}

impl From<CallId> for RefuseTarget {
    fn from(request: CallId) -> Self {
        Self::Request(request)
    }
}

impl From<InputId> for RefuseTarget {
    fn from(input: InputId) -> Self {
        Self::Input(input)
    }
}

/// The reason why an input request cannot be presented.
pub(super) enum InputRequestError {
    Invalid(String),
    NotDeclared(Capability),
}

impl From<InputRequestError> for CallError {
    fn from(error: InputRequestError) -> Self {
        match error {
            InputRequestError::Invalid(reason) => Self::InvalidInputRequest { reason },
            InputRequestError::NotDeclared(capability) => Self::NotDeclared(capability),
        }
    }
}

impl From<InputRequestError> for RpcError {
    fn from(error: InputRequestError) -> Self {
        // ELIC-031, SAMP-009, SAMP-014
        Self::invalid_params(match error {
            InputRequestError::Invalid(reason) => reason,
            InputRequestError::NotDeclared(Capability::ElicitationForm) => {
                "Elicitation mode form was not declared".into()
            }
            InputRequestError::NotDeclared(Capability::ElicitationUrl) => {
                "Elicitation mode url was not declared".into()
            }
            InputRequestError::NotDeclared(capability) => format!("`{capability}` was not declared"),
        })
    }
}

impl Config {
    /// Checks that an input request is valid and that the client declared the capability for it.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn check_input_request(
        &self,
        request: &mut InputRequest<'_>,
        version: Version,
    ) -> Result<(), InputRequestError> {
        let has_new_features = version >= Version::V2025_11_25;
        match request {
            // These revisions do not have the members.
            InputRequest::CreateMessage(params) if !has_new_features => {
                (params.tools, params.tool_choice) = (None, None)
            }
            // Elicitation by URL exists since 2025-11-25.
            InputRequest::Elicit(ElicitParams::Url(_)) if !has_new_features => {
                return Err(InputRequestError::NotDeclared(Capability::ElicitationUrl));
            }
            // ELIC-009
            InputRequest::Elicit(ElicitParams::Url(page))
                if version == Version::V2025_11_25 && page.elicitation_id.is_none() =>
            {
                return Err(InputRequestError::Invalid("`elicitationId` is missing".into()));
            }
            _ => {}
        }
        // A request for undeclared context is tolerated: the client may leave it out (SAMP-010, SAMP-018).
        let missing = self.settings.capabilities.missing(&request.required_capabilities(version));
        match missing.iter().find(|capability| *capability != Capability::SamplingContext) {
            Some(capability) => Err(InputRequestError::NotDeclared(capability)),
            // An invalid default or a repeated choice does not prevent the form from being shown.
            None => match request {
                InputRequest::Elicit(ElicitParams::Form(form)) => {
                    form.requested_schema.validate_field_kinds()
                }
                request => request.validate(),
            }
            .map_err(|error| InputRequestError::Invalid(error.to_string())),
        }
    }
}

/// Checks that a response is a plain result of the method (MRTR-018, ELIC-018, SAMP-005, ROOT-005).
///
/// # Errors
///
/// [`UseError::ReservedKey`] or [`UseError::InvalidInputResponse`].
pub(super) fn check_input_response(
    method: &str,
    members: TopLevelMembers,
    text: &[u8],
) -> Result<(), UseError> {
    if members.contains(TopLevelMembers::RESULT_TYPE) {
        return Err(UseError::ReservedKey("resultType".into()));
    }
    let answer = RawJson::trusted(Bytes::copy_from_slice(text));
    let read = InputResponse::parse(method, &answer);
    read.map(drop).map_err(|error| UseError::InvalidInputResponse { reason: error.to_string() })
}
