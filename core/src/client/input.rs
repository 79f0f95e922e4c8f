//! Input requests of a server, with one event and one answer in both eras (MRTR, ELIC, SAMP, ROOT).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::config::Config;
use super::engine::Engine;
use super::event::Event;
use crate::calls::inbound::CallId;
use crate::calls::outbound::{CallKey, OutboundCall};
use crate::error::{CallError, UseError};
use crate::json::TopLevelMembers;
use crate::methods::Capability;
use crate::model::{ElicitParams, InputRequest, InputResponse};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::time::Instant;
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
    /// A retry of a modern call; the serial number is never reused.
    Round(u64),
}

/// An input request of a server.
///
/// Answer it with exactly one of [`answer`](super::Engine::answer) and [`refuse`](super::Engine::refuse), unless
/// [`Event::InputWithdrawn`] is reported first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Input {
    /// The key to answer with.
    pub id: InputId,
    /// The call that needs the input; `None` in the legacy era, where it is unknown.
    pub call: Option<CallKey>,
    /// The server's key for the input request, unique within the round of the call (modern).
    pub key: Option<Box<str>>,
    /// The request; never `Other`.
    pub request: Box<InputRequest<'static>>,
}

/// The target of [`Engine::refuse`].
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

/// Open input requests of a legacy server.
#[derive(Debug, Default)]
pub(super) struct PendingInputs {
    /// Keys and methods of the requests.
    requests: Vec<(Key, &'static str)>,
    /// Arrival of the first open request.
    waiting_since: Instant,
    /// End of the last request.
    last_ended: Instant,
    /// Total time with open requests, before `waiting_since`.
    previous_wait: Duration,
}

impl PendingInputs {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn begin(&mut self, now: Instant, request: Key, method: &'static str) {
        if self.requests.is_empty() {
            self.waiting_since = now;
        }
        self.requests.push((request, method));
    }

    fn method(&self, request: Key) -> Option<&'static str> {
        self.requests.iter().find(|(key, _)| *key == request).map(|(_, method)| *method)
    }

    /// Removes a request; returns false if it is not an input request.
    fn end(&mut self, now: Instant, request: Key) -> bool {
        let Some(at) = self.requests.iter().position(|(key, _)| *key == request) else { return false };
        self.requests.swap_remove(at);
        self.last_ended = now;
        if self.requests.is_empty() {
            self.previous_wait += now.saturating_duration_since(self.waiting_since);
        }
        true
    }

    /// Returns the total time with open requests.
    pub(super) fn total_wait(&self, now: Instant) -> Duration {
        let open_since = if self.requests.is_empty() { now } else { self.waiting_since };
        self.previous_wait + now.saturating_duration_since(open_since)
    }

    /// Returns the error of a call whose deadline has passed, or its next deadline.
    ///
    /// The server does not name the call that needs the input, so the timeouts of all calls are suspended (TIME-008).
    /// No call is idle while an input request is open. The total timeout excludes that time, unless it was set for the
    /// call.
    fn check_deadline(&self, now: Instant, call: &OutboundCall) -> Result<CallError, Instant> {
        let last_activity = if self.requests.is_empty() { self.last_ended } else { now };
        let idle_at = call.idle_deadline.max(last_activity + call.timeout);
        let extension = if call.has_explicit_total { Duration::ZERO } else { self.total_wait(now) };
        let total_at = call.total_deadline + extension;
        match now {
            _ if now >= total_at => Ok(CallError::TotalTimedOut),
            _ if now >= idle_at => Ok(CallError::TimedOut),
            _ => Err(idle_at.min(total_at)),
        }
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
        let missing = self.capabilities.missing(&request.required_capabilities(version));
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

impl Engine {
    /// Answers an input request.
    ///
    /// `response` is an [`ElicitResult`](crate::model::ElicitResult), a
    /// [`CreateMessageResult`](crate::model::CreateMessageResult) or a
    /// [`ListRootsResult`](crate::model::ListRootsResult), depending on the request. It is shaped for the negotiated
    /// revision. Whether it fits a form is checked by [`InputRequest::check_response`] only. A user who declines or
    /// closes a form gives a valid response. The last response of a round repeats the modern call, under its old key.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the input request has ended. [`UseError::InvalidInputResponse`] if the response is of
    /// another kind or fails [`InputResponse::validate`]. [`UseError::ReservedKey`] if it has `resultType`. An encoding
    /// error if it cannot be serialized.
    pub fn answer<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        input: InputId,
        response: &T,
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        match input.0 {
            InputSource::Request(key) => {
                let inputs = self.inputs.as_ref().map(|inputs| &inputs.legacy_inputs);
                let method = inputs.and_then(|inputs| inputs.method(key)).ok_or(UseError::Stale)?;
                self.write_result(key, response, |members, text| {
                    check_input_response(method, members, text)
                })?;
                self.end_input_request(key);
                Ok(())
            }
            InputSource::Round(number) => self.answer_input(number, response),
        }
    }

    /// Refuses a request of the server.
    ///
    /// A legacy server receives the error as the answer. In the modern era the call ends with
    /// [`CallError::InputRefused`], and the server receives nothing more (MRTR-031, SAMP-027, ROOT-007).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended.
    pub fn refuse(
        &mut self,
        now: Instant,
        target: impl Into<RefuseTarget>,
        error: &RpcError,
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        match target.into() {
            RefuseTarget::Request(CallId(key)) => self.write_error(key, error),
            RefuseTarget::Input(InputId(InputSource::Request(key))) => {
                self.write_error(key, error)?;
                self.end_input_request(key);
                Ok(())
            }
            RefuseTarget::Input(InputId(InputSource::Round(number))) => self.refuse_input(number, error),
        }
    }

    /// Reads and checks an input request of a legacy server (ERR-021).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn read_input(
        &self,
        method: &str,
        params: Option<&RawJson>,
        version: Version,
    ) -> Result<Box<InputRequest<'static>>, RpcError> {
        let mut request = InputRequest::from_parts(method, params)?;
        self.config.check_input_request(&mut request, version)?;
        Ok(Box::new(request.into_owned()))
    }

    /// Records an input request of a legacy server and reports it.
    pub(super) fn receive_input_request(&mut self, key: Key, request: Box<InputRequest<'static>>) {
        let method = request.method().unwrap_or_default();
        self.inputs.get_or_insert_default().legacy_inputs.begin(self.endpoint.now, key, method);
        self.remember_url_elicitation(&request);
        let id = InputId(InputSource::Request(key));
        self.events.push_back(Event::Input(Input { id, call: None, key: None, request }));
    }

    /// Records the end of a request of the server; returns false if it was not an input request.
    fn end_input_request(&mut self, key: Key) -> bool {
        let now = self.endpoint.now;
        self.inputs.as_mut().is_some_and(|inputs| inputs.legacy_inputs.end(now, key))
    }

    /// Reports the end of a request of the server.
    pub(super) fn end_server_request(&mut self, key: Key) {
        if self.end_input_request(key) {
            self.withdraw_input(InputId(InputSource::Request(key)));
        } else {
            self.events.push_back(Event::RequestCancelled(CallId(key)));
        }
    }

    /// Reports that an input request has ended, or removes its event if that was not polled.
    pub(super) fn withdraw_input(&mut self, id: InputId) {
        let is_its_event = |event: &Event| matches!(event, Event::Input(input) if input.id == id);
        match self.events.iter().position(is_its_event) {
            Some(index) => drop(self.events.remove(index)),
            None => self.events.push_back(Event::InputWithdrawn(id)),
        }
    }

    /// Handles the timeout of a call.
    pub(super) fn handle_call_timeout(&mut self, key: Key) {
        let now = self.endpoint.now;
        let Some(call) = self.endpoint.outbound.calls.get(key) else { return };
        let end = match &self.inputs {
            Some(inputs) => inputs.legacy_inputs.check_deadline(now, call),
            None => call.timeout_error(now).ok_or_else(|| call.deadline()),
        };
        match end {
            // TIME-002, TIME-003
            Ok(outcome) => self.abandon(self.original_call(key), Some("no answer in time"), outcome),
            Err(at) => self.endpoint.deadlines.arm(at, crate::calls::endpoint::EndpointTimer::Outbound(key)),
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
