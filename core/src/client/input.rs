//! What a server needs of the application: one event and one answer, whatever the era (MRTR, ELIC, SAMP, ROOT).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde::Serialize;

use super::config::Config;
use super::engine::Engine;
use super::event::Event;
use crate::calls::inbound::CallId;
use crate::calls::outbound::{CallKey, OutCall};
use crate::error::{CallError, UseError};
use crate::json::Noted;
use crate::model::{ElicitParams, InputRequest};
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
    requests: Vec<Key>,
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

    fn begin(&mut self, now: Instant, request: Key) {
        if self.requests.is_empty() {
            self.since = now;
        }
        self.requests.push(request);
    }

    /// False when the request was no input
    fn end(&mut self, now: Instant, request: Key) -> bool {
        let Some(at) = self.requests.iter().position(|r| *r == request) else { return false };
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
            Unfit::NotDeclared(Capability::ElicitationUrl) => "Elicitation mode url was not declared".into(),
            Unfit::NotDeclared(capability) => format!("`{capability}` was not declared"),
        })
    }
}

impl Config {
    /// Whether something that a server of `version` needs is in order, and was declared to it
    pub(super) fn screen(&self, request: &mut InputRequest<'_>, version: Version) -> Result<(), Unfit> {
        let invalid = |why: &str| Err(Unfit::Invalid(why.into()));
        let needs = |capability| {
            let declared = self.capabilities.has(capability);
            if declared { Ok(()) } else { Err(Unfit::NotDeclared(capability)) }
        };
        match request {
            InputRequest::Elicit(ElicitParams::Form(_)) => needs(Capability::Elicitation),
            InputRequest::Elicit(ElicitParams::Url(page)) => {
                needs(Capability::ElicitationUrl)?;
                match version {
                    // ELIC-009
                    Version::V2025_11_25 if page.elicitation_id.is_none() => {
                        invalid("`elicitationId` is missing")
                    }
                    _ if version < Version::V2025_11_25 => {
                        Err(Unfit::NotDeclared(Capability::ElicitationUrl))
                    }
                    _ => Ok(()),
                }
            }
            InputRequest::Elicit(_) => invalid("unknown elicitation mode"),
            InputRequest::CreateMessage(params) => {
                needs(Capability::Sampling)?;
                if version < Version::V2025_11_25 {
                    // Members that this revision does not know.
                    (params.tools, params.tool_choice) = (None, None);
                    return Ok(());
                }
                if params.tools.is_some() || params.tool_choice.is_some() {
                    needs(Capability::SamplingTools)?; // SAMP-007, SAMP-009
                }
                params.check_tool_results().or_else(invalid)
            }
            InputRequest::ListRoots(_) => needs(Capability::Roots),
            InputRequest::Other(_) => invalid("unknown method"), // MRTR-008
        }
    }
}

impl Engine {
    /// Gives a server what it needs: an [`ElicitResult`](crate::model::ElicitResult),
    /// [`CreateMessageResult`](crate::model::CreateMessageResult) or
    /// [`ListRootsResult`](crate::model::ListRootsResult), as the input asks
    ///
    /// Written as a JSON object in the shape of the revision in use. That a user declined or closed a form is an
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
                self.write_result(key, response, bare)?;
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
        read: serde_json::Result<InputRequest<'_>>,
        version: Version,
    ) -> Result<Box<InputRequest<'static>>, RpcError> {
        let mut request = read.map_err(|e| RpcError::invalid_params(e.to_string()))?;
        self.config.screen(&mut request, version)?;
        Ok(Box::new(request.into_owned()))
    }

    /// A legacy server has asked for something
    pub(super) fn input_in(&mut self, key: Key, request: Box<InputRequest<'static>>) {
        self.inputs.get_or_insert_default().owed.begin(self.link.now, key);
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
        let gone = self.input_over(key);
        self.events.push_back(if gone {
            Event::InputGone(InputId(Source::Request(key)))
        } else {
            Event::RequestCancelled(CallId(key))
        });
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
            Ok(outcome) => self.abandon(key, Some("no answer in time"), outcome), // TIME-002, TIME-003
            Err(at) => self.link.deadlines.arm(at, crate::calls::link::Timer::Out(key)),
        }
    }
}

/// Refuses what a bare result has not (MRTR-018)
pub(super) fn bare(noted: Noted) -> Result<(), UseError> {
    if noted.has(Noted::RESULT_TYPE) { Err(UseError::ReservedKey("resultType".into())) } else { Ok(()) }
}
