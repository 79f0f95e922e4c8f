//! What a server needs of the application: one event and one answer, whatever the era (MRTR, ELIC, SAMP, ROOT).

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
use crate::calls::outbound::{CallKey, OutCall};
use crate::error::{CallError, UseError};
use crate::json::Noted;
use crate::model::{ElicitParams, InputRequest, InputResponse};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;
use crate::vocab::Capability;

/// Something that a server needs
///
/// Stale once it is answered, refused or gone; a stale key is refused and never hits another input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InputId(pub(super) Source);

/// Where an answer goes
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Source {
    /// To a request of a legacy server
    Request(Key),
    /// Into the call that is repeated with it, by a number that is never used again
    Round(u64),
}

/// A server needs something: answer it with exactly one of [`answer`](super::Engine::answer) and
/// [`refuse`](super::Engine::refuse), unless [`Event::InputGone`] comes first
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Input {
    /// The key to answer with
    pub id: InputId,
    /// The call that it is needed for; legacy servers do not say
    pub call: Option<CallKey>,
    /// The server's name for it (modern), unique within the call's round
    pub key: Option<Box<str>>,
    /// What is needed; `Other` never occurs
    pub request: Box<InputRequest<'static>>,
}

/// What [`Engine::refuse`] refuses
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Asked {
    /// A request of a legacy server with a method of the application's own
    Request(CallId),
    /// Something that the server needs
    Input(InputId),
}

impl From<CallId> for Asked {
    fn from(request: CallId) -> Self {
        Self::Request(request)
    }
}

impl From<InputId> for Asked {
    fn from(input: InputId) -> Self {
        Self::Input(input)
    }
}

/// What legacy servers wait for
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// With their methods
    requests: Vec<(Key, &'static str)>,
    /// When the first of these came
    since: Instant,
    /// When the last one ended
    until: Instant,
    /// How long there was something, before the first of these
    before: Duration,
}

impl Owed {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn begin(&mut self, now: Instant, request: Key, method: &'static str) {
        if self.requests.is_empty() {
            self.since = now;
        }
        self.requests.push((request, method));
    }

    fn method(&self, request: Key) -> Option<&'static str> {
        self.requests.iter().find(|(key, _)| *key == request).map(|(_, method)| *method)
    }

    /// False when the request was no input
    fn end(&mut self, now: Instant, request: Key) -> bool {
        let Some(at) = self.requests.iter().position(|(key, _)| *key == request) else { return false };
        self.requests.swap_remove(at);
        self.until = now;
        if self.requests.is_empty() {
            self.before += now.saturating_duration_since(self.since);
        }
        true
    }

    /// How long the application has owed something, in all
    pub(super) fn waited(&self, now: Instant) -> Duration {
        let open = if self.requests.is_empty() { now } else { self.since };
        self.before + now.saturating_duration_since(open)
    }

    /// The outcome of a call whose deadline has come, or when to look again
    ///
    /// Nobody knows which call it was that the server needed something for, so all have the time (TIME-008): none is
    /// idle while something is owed, and the total leaves that time out, unless it was set for the call.
    fn overdue(&self, now: Instant, call: &OutCall) -> Result<CallError, Instant> {
        let heard = if self.requests.is_empty() { self.until } else { now };
        let idle_at = call.idle_at.max(heard + call.timeout);
        let more = if call.total_is_set { Duration::ZERO } else { self.waited(now) };
        let total_at = call.total_at + more;
        match now {
            _ if now >= total_at => Ok(CallError::TotalTimedOut),
            _ if now >= idle_at => Ok(CallError::TimedOut),
            _ => Err(idle_at.min(total_at)),
        }
    }
}

/// Why something that a server needs cannot be given
pub(super) enum Unfit {
    Invalid(String),
    NotDeclared(Capability),
}

impl From<Unfit> for CallError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Invalid(why) => Self::BadInputRequest { why },
            Unfit::NotDeclared(capability) => Self::NotDeclared(capability),
        }
    }
}

impl From<Unfit> for RpcError {
    fn from(unfit: Unfit) -> Self {
        // ELIC-031, SAMP-009, SAMP-014
        Self::invalid_params(match unfit {
            Unfit::Invalid(why) => why,
            Unfit::NotDeclared(Capability::ElicitationForm) => {
                "Elicitation mode form was not declared".into()
            }
            Unfit::NotDeclared(Capability::ElicitationUrl) => "Elicitation mode url was not declared".into(),
            Unfit::NotDeclared(capability) => format!("`{capability}` was not declared"),
        })
    }
}

impl Config {
    /// Whether something that a server of `version` needs is in order, and was declared to it
    pub(super) fn screen(&self, request: &mut InputRequest<'_>, version: Version) -> Result<(), Unfit> {
        let parts = version >= Version::V2025_11_25;
        match request {
            // Members that these revisions do not know.
            InputRequest::CreateMessage(params) if !parts => {
                (params.tools, params.tool_choice) = (None, None)
            }
            // A mode of later revisions.
            InputRequest::Elicit(ElicitParams::Url(_)) if !parts => {
                return Err(Unfit::NotDeclared(Capability::ElicitationUrl));
            }
            // ELIC-009
            InputRequest::Elicit(ElicitParams::Url(page))
                if version == Version::V2025_11_25 && page.elicitation_id.is_none() =>
            {
                return Err(Unfit::Invalid("`elicitationId` is missing".into()));
            }
            _ => {}
        }
        // To ask for context without leave is bad manners, and to give none is the client's right (SAMP-010, SAMP-018).
        let missing = self.capabilities.missing(&request.needs(version));
        match missing.iter().find(|capability| *capability != Capability::SamplingContext) {
            Some(capability) => Err(Unfit::NotDeclared(capability)),
            // A default that does not fit, or a choice that stands twice, is no reason to ask nobody.
            None => match request {
                InputRequest::Elicit(ElicitParams::Form(form)) => form.requested_schema.readable(),
                request => request.validate(),
            }
            .map_err(|misfit| Unfit::Invalid(misfit.to_string())),
        }
    }
}

impl Engine {
    /// Gives a server what it needs: an [`ElicitResult`](crate::model::ElicitResult),
    /// [`CreateMessageResult`](crate::model::CreateMessageResult) or
    /// [`ListRootsResult`](crate::model::ListRootsResult), as the input asks
    ///
    /// Written as a JSON object in the shape of the revision in use; refused when it is of another kind, or not right in
    /// itself ([`InputResponse::validate`]). Whether it fits a form, the request in the [`Input`] can say
    /// ([`InputRequest::check`]). That a user declined or closed a form is an
    /// answer too. With the last answer of a modern call the call is repeated, under its old key.
    pub fn answer<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        input: InputId,
        response: &T,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        match input.0 {
            Source::Request(key) => {
                let owed = self.inputs.as_ref().map(|inputs| &inputs.owed);
                let method = owed.and_then(|owed| owed.method(key)).ok_or(UseError::Stale)?;
                self.write_result(key, response, |noted, text| check(method, noted, text))?;
                self.input_over(key);
                Ok(())
            }
            Source::Round(number) => self.answer_round(number, response),
        }
    }

    /// Refuses something that a server asks for
    ///
    /// A legacy server gets the error as its answer. The call of a modern one ends with
    /// [`CallError::InputRefused`], and the server hears nothing more of it (MRTR-031, SAMP-027, ROOT-007).
    pub fn refuse(
        &mut self,
        now: Instant,
        asked: impl Into<Asked>,
        error: &RpcError,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        match asked.into() {
            Asked::Request(CallId(key)) => self.write_error(key, error),
            Asked::Input(InputId(Source::Request(key))) => {
                self.write_error(key, error)?;
                self.input_over(key);
                Ok(())
            }
            Asked::Input(InputId(Source::Round(number))) => self.refuse_round(number, error),
        }
    }

    /// What a legacy server needs, read and found in order; the error is the answer to give (ERR-021)
    pub(super) fn read_input(
        &self,
        method: &str,
        params: Option<&RawJson>,
        version: Version,
    ) -> Result<Box<InputRequest<'static>>, RpcError> {
        let mut request = InputRequest::of(method, params)?;
        self.config.screen(&mut request, version)?;
        Ok(Box::new(request.into_owned()))
    }

    /// A legacy server has asked for something
    pub(super) fn input_in(&mut self, key: Key, request: Box<InputRequest<'static>>) {
        let method = request.method().unwrap_or_default();
        self.inputs.get_or_insert_default().owed.begin(self.link.now, key, method);
        self.note_page(&request);
        let id = InputId(Source::Request(key));
        self.events.push_back(Event::Input(Input { id, call: None, key: None, request }));
    }

    /// A request of the server is over; false when it was none for input
    fn input_over(&mut self, key: Key) -> bool {
        let now = self.link.now;
        self.inputs.as_mut().is_some_and(|inputs| inputs.owed.end(now, key))
    }

    /// Says that a request of the server is over
    pub(super) fn request_over(&mut self, key: Key) {
        if self.input_over(key) {
            self.input_gone(InputId(Source::Request(key)));
        } else {
            self.events.push_back(Event::RequestCancelled(CallId(key)));
        }
    }

    /// Says that an input is gone, or takes it back if nobody has seen it: no user is to be asked in vain
    pub(super) fn input_gone(&mut self, id: InputId) {
        let is_it = |event: &Event| matches!(event, Event::Input(input) if input.id == id);
        match self.events.iter().position(is_it) {
            Some(unread) => drop(self.events.remove(unread)),
            None => self.events.push_back(Event::InputGone(id)),
        }
    }

    /// A call of ours has had no answer until its deadline
    pub(super) fn overdue(&mut self, key: Key) {
        let now = self.link.now;
        let Some(call) = self.link.outbound.calls.get(key) else { return };
        let end = match &self.inputs {
            Some(inputs) => inputs.owed.overdue(now, call),
            None => call.expired(now).ok_or_else(|| call.deadline()),
        };
        match end {
            // TIME-002, TIME-003
            Ok(outcome) => self.abandon(self.call_of(key), Some("no answer in time"), outcome),
            Err(at) => self.link.deadlines.arm(at, crate::calls::link::Timer::Out(key)),
        }
    }
}

/// Refuses what is no bare result of the method (MRTR-018, ELIC-018, SAMP-005, ROOT-005)
pub(super) fn check(method: &str, noted: Noted, text: &[u8]) -> Result<(), UseError> {
    if noted.has(Noted::RESULT_TYPE) {
        return Err(UseError::ReservedKey("resultType".into()));
    }
    let answer = RawJson::trusted(Bytes::copy_from_slice(text));
    let read = InputResponse::read(method, &answer);
    read.map(drop).map_err(|misfit| UseError::BadAnswer { why: misfit.to_string() })
}
