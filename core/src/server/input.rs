//! Input requests of a handler: sent to the client, gathered, delivered with the call again (MRTR).
//!
//! In the modern era the server keeps nothing. The input requests are the answer to the call, state travels sealed, and
//! the client's retry is a new call. In the legacy era the call is [parked](super::parked).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TaskOptions;
#[cfg(doc)]
use super::Tasks;
use super::engine::Engine;
use super::event::Call;
use super::input_tasks::QuestionTasks;
use super::parked::ParkedCalls;
use super::receive::RetryContext;
use super::receive::{CarriedAnswer, carried_answers, kept_key};
use super::reply::{MEMBERS_ROOM, RESULT_CAPACITY};
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{EncodeError, Serializer, room, write_str};
use crate::limits::Limit;
#[cfg(feature = "schemars")]
use crate::model::ElicitOutcome;
use crate::model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult,
    ElicitSchema, ElicitUrlParams, InputRequest, InputRequests, InputResponse, ListRootsResult,
    ValidationError,
};
use crate::raw::RawJson;
use crate::rpc::{self, RpcError};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;
use crate::{methods, shape};

impl Engine {
    /// Sends input requests for a call. The call is delivered again with the responses.
    ///
    /// In the modern era, the call is answered with `requests` and the sealed `state` (MRTR-001, MRTR-004, MRTR-021).
    /// The client's retry is the next delivery, and a client need not retry (MRTR-025). In the legacy era, each of
    /// `requests` is sent as a request, and the call is delivered again when all of them have ended. They wait for
    /// `notifications/initialized` (LIFE-006), at most until the call is
    /// [`Limits::max_call_age`](crate::Limits::max_call_age) old; then it ends with an error.
    ///
    /// When it is delivered again, in both eras, the call has a new key, [`Call::answer`] returns the responses so far,
    /// and [`Call::state`] returns `state`.
    ///
    /// # Errors
    ///
    /// Nothing was sent, and the call stays open.
    ///
    /// - [`UseError::Stale`]: the call has ended. [`UseError::Closed`]: its client is gone.
    /// - [`UseError::ReservedMethod`]: the method is not `tools/call`, `prompts/get` or `resources/read` (MRTR-002,
    ///   MRTR-003), or both `requests` and `state` are empty (MRTR-005).
    /// - [`UseError::MissingPeerCapability`]: the client did not declare the capability (MRTR-009, ELIC-005, SAMP-002,
    ///   SAMP-008, ROOT-010).
    /// - [`UseError::NotInVersion`]: the revision has no form for a request.
    /// - [`UseError::InvalidInputRequest`]: a request or its key is not valid.
    /// - [`UseError::Full`]: one of [`Limits::max_input_rounds`](crate::Limits::max_input_rounds),
    ///   [`Limits::max_inputs`](crate::Limits::max_inputs) (with earlier responses) and
    ///   [`Limits::max_request_state`](crate::Limits::max_request_state) is exceeded. For a legacy client also
    ///   [`Limits::max_pending_calls`](crate::Limits::max_pending_calls) and
    ///   [`Limits::max_retained_bytes`](crate::Limits::max_retained_bytes).
    /// - [`UseError::NoSealKeys`]: state or responses have to be sealed, and no key is configured.
    pub fn need_input(
        &mut self,
        now: Instant,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
    ) -> Result<(), UseError> {
        begin_round(self, now, call, Round { requests, state, kept: &[], tasks: None })
    }

    /// Cancels the input requests of a parked call (legacy) or of a task (both eras) and delivers the call again at once, or at the
    /// next turn of the task.
    ///
    /// `state` is the state that the handler [kept](Self::need_input); it identifies the call. Unanswered input
    /// requests end with [`CallError::Cancelled`](crate::CallError::Cancelled), and a legacy client receives the cancellation with
    /// `reason`. Returns false if neither a parked call nor a task waits with this state. A modern call that is no task is never parked.
    pub fn withdraw_input(&mut self, now: Instant, state: &[u8], reason: Option<&str>) -> bool {
        self.endpoint.tick(now);
        let parked = self.parked.as_mut();
        let resumed = parked.and_then(|parked| parked.withdraw(&mut self.endpoint, state, reason));
        let is_found = resumed.is_some();
        self.events.extend(resumed);
        is_found || self.with_tasks(|tasks, cx| tasks.withdraw_input(cx, state, reason)) == Some(true)
    }

    /// Cancels the input requests of a parked call that is over, or ends what a call waits for at a task.
    ///
    /// Returns false if the call is not parked and waits for no task.
    pub(super) fn unpark(&mut self, call: Key, reason: &str) -> bool {
        if self.with_tasks(|tasks, cx| tasks.release(cx, call)) == Some(true) {
            return true;
        }
        let parked = self.parked.as_mut();
        let Some(dropped) = parked.and_then(|parked| parked.unpark(&mut self.endpoint, call, reason)) else {
            return false;
        };
        self.events.extend(dropped);
        true
    }

    /// Fails the parked calls of a channel, or of all streams of a root channel, when responses can no longer arrive.
    pub(super) fn fail_parked(&mut self, channel: Key, message: &'static str) {
        while let Some(call) = self.parked.as_mut().and_then(|p| p.find_on(&self.endpoint, channel)) {
            // First, because the parked call is found by the entry that `fail` removes.
            self.unpark(call, "the call is over");
            self.endpoint.fail(call, &RpcError::internal(message));
        }
    }
}

/// Answers a call of the modern era with its input requests.
fn answer_input_required(
    engine: &mut Engine,
    call: &Call,
    requests: &InputRequests<'_>,
    state: &[u8],
    answers: &[CarriedAnswer<'_>],
) -> Result<(), UseError> {
    // Keys that were configured lazily are made with the first answer of this kind.
    engine.sealing.init(&engine.config);
    // Before the outbox is touched, because sealing may be refused (`Limits::max_request_state`).
    let sealed = engine.sealing.seal(&engine.endpoint, &engine.config, call, requests, state, answers)?;
    let endpoint = &mut engine.endpoint;
    let reserve = endpoint.limits.hold_reserve().ok_or(EncodeError::OutOfMemory)?;
    let record = endpoint.inbound.calls.get(call.id.0).ok_or(UseError::Stale)?;
    let c = endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
    let (channel, mark) = (record.channel, c.outbox.mark());
    let out = c.outbox.tail();
    room(out, RESULT_CAPACITY)?;
    rpc::result_head(out, &record.id);
    out.extend_from_slice(b"{\"resultType\":\"input_required\"");
    if !requests.is_empty() {
        out.extend_from_slice(b",\"inputRequests\":");
        if let Err(e) = Serializer::object(out, requests, shape::table(call.version)) {
            c.outbox.rollback(mark);
            return Err(e.into());
        }
    }
    let sealed_bytes = sealed.as_ref().map_or(0, |sealed| sealed.len());
    if let Err(e) = room(out, sealed_bytes + engine.config.result_meta.len() + MEMBERS_ROOM) {
        c.outbox.rollback(mark);
        return Err(e.into());
    }
    if let Some(sealed) = sealed {
        out.extend_from_slice(b",\"requestState\":");
        write_str(out, &sealed);
    }
    if !engine.config.result_meta.is_empty() {
        out.extend_from_slice(b",\"_meta\":{");
        out.extend_from_slice(&engine.config.result_meta);
        out.push(b'}');
    }
    out.push(b'}');
    rpc::end(out);
    drop(reserve);
    endpoint.commit_answer(call.id.0, mark)?;
    engine.close_if_finished(channel);
    Ok(())
}

/// Input requests of a handler, and what goes with them.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) requests: &'a InputRequests<'a>,
    pub(super) state: &'a [u8],
    /// Values for the next delivery.
    pub(super) kept: &'a [(Box<str>, RawJson)],
    /// The wish that the requests run as tasks.
    pub(super) tasks: Option<QuestionTasks>,
}

/// Does what [`Engine::need_input`] does, and keeps values for the next delivery.
pub(super) fn begin_round(
    engine: &mut Engine,
    now: Instant,
    call: &Call,
    round: Round<'_>,
) -> Result<(), UseError> {
    let Round { requests, state, kept, tasks } = round;
    engine.endpoint.tick(now);
    if engine.endpoint.inbound.calls.get(call.id.0).is_none() {
        return Err(UseError::Stale);
    }
    if !methods::may_need_input(&call.method) || (requests.is_empty() && state.is_empty()) {
        return Err(UseError::ReservedMethod(call.method().into()));
    }
    if call.attempt() >= engine.endpoint.limits.max_input_rounds {
        return Err(UseError::Full(Limit::InputRounds));
    }
    let answers = carried_answers(call.retry.as_deref(), requests, kept);
    // Carried answers count as well: otherwise each round could add as many again.
    if requests.len() + answers.len() > engine.endpoint.limits.max_inputs {
        return Err(UseError::Full(Limit::Inputs));
    }
    let is_run = engine.is_run(call.id.0);
    let text = engine.peer(call).capabilities;
    let declared = engine.request_check.read_capabilities(&text, &engine.endpoint.limits);
    for (key, request) in requests.iter() {
        if is_run && call.version.is_legacy() {
            // The client that collects the result is asked, which may be another one.
            let needed = request.required_capabilities(call.version);
            check_input_request(key, request, &needed, call.version)?;
        } else {
            check_input_request(key, request, &declared, call.version)?;
        }
    }
    if is_run {
        let asked = engine.with_tasks(|tasks, cx| tasks.suspend(cx, call, requests, state, &answers));
        return asked.unwrap_or(Err(UseError::Stale));
    }
    if call.version.is_modern() {
        return answer_input_required(engine, call, requests, state, &answers);
    }
    let parked = engine.parked.get_or_insert_with(|| Box::new(ParkedCalls::new()));
    let tasks = tasks.map(|tasks| (tasks, &declared));
    let resumed = parked.park(&mut engine.endpoint, call, requests, state, &answers, tasks)?;
    engine.events.extend(resumed);
    Ok(())
}

/// Checks that an input request is valid and that the client declared the capability for it.
///
/// # Errors
///
/// [`UseError::InvalidInputRequest`], [`UseError::MissingPeerCapability`] or [`UseError::NotInVersion`].
fn check_input_request(
    key: &str,
    request: &InputRequest<'_>,
    declared: &Capabilities,
    version: Version,
) -> Result<(), UseError> {
    let invalid = |reason: String| UseError::InvalidInputRequest { key: key.into(), reason };
    if matches!(request, InputRequest::Other(_)) {
        return Err(invalid("the request type is unknown".into())); // MRTR-008
    }
    if !InputRequest::is_valid_key(key) {
        return Err(invalid("a key must have 1 to 64 characters and no control characters".into()));
    }
    request.validate().map_err(|error| invalid(format!("{error}")))?;
    // The most specific missing capability; it includes the others.
    let Some(missing) = declared.missing(&request.required_capabilities(version)).iter().last() else {
        return Ok(());
    };
    // If the revision lacks the feature, no client can declare it, so that error is more useful.
    Serializer::object(&mut Vec::new(), request, shape::table(version))?;
    Err(UseError::MissingPeerCapability(missing))
}

// Input requests that a handler collects while it runs, as if the responses came at once.

/// The input requests that one delivery of a call has collected.
///
/// A handler requests input where it needs it. If the response is there, the handler continues. If not, the request is
/// collected and the handler returns by `?`. [`Engine::require_input`] then sends the collected requests, and the call
/// is delivered again with the responses. The handler starts from its beginning and gets further. Everything before its
/// last input request must therefore be safe to repeat (DESIGN-19).
///
/// ```
/// use mcp_proto::RpcError;
/// use mcp_proto::model::{ElicitSchema, InputRequest, ElicitParams, InputResponse};
/// use mcp_proto::server::{Call, InputError, InputRequired};
///
/// fn greet(call: &Call, input: &mut InputRequired) -> Result<String, RpcError> {
///     let form = ElicitParams::form("What is your name?", ElicitSchema::default());
///     let answer = input.request_input(call, "name", InputRequest::Elicit(form))?;
///     Ok(format!("{answer:?}"))
/// }
/// # let _ = greet;
/// ```
#[derive(Debug, Default)]
pub struct InputRequired {
    collector: Option<Box<CollectedInput>>,
}

#[derive(Debug)]
struct CollectedInput {
    /// Sends what is collected. A pointer, so that only programs whose handlers ask link the code (`core/docs/size.md`).
    submit: fn(&Self, &mut Engine, Instant, &Call) -> Result<(), UseError>,
    /// [`InputRequests`], and `()` while there are none: the code that drops them is linked with the first one.
    requests: Box<dyn Any + Send + Sync>,
    state: Vec<u8>,
    /// Values for the next delivery.
    kept: Vec<(Box<str>, RawJson)>,
    tasks: Option<QuestionTasks>,
}

impl CollectedInput {
    fn new() -> Self {
        Self {
            submit: Self::submit,
            requests: Box::new(()),
            state: Vec::new(),
            kept: Vec::new(),
            tasks: None,
        }
    }

    fn add_request(&mut self, key: &str, request: InputRequest<'static>) {
        if self.is_empty() {
            self.requests = Box::new(InputRequests::default());
        }
        if let Some(requests) = self.requests.downcast_mut::<InputRequests<'static>>() {
            requests.insert(key, request);
        }
    }

    fn discard_requests(&mut self) {
        (self.requests, self.tasks) = (Box::new(()), None);
    }

    fn is_empty(&self) -> bool {
        self.requests.is::<()>()
    }

    fn carry_into(&self, retry: &mut RetryContext) {
        if !self.state.is_empty() {
            retry.state.clone_from(&self.state);
        }
        retry.answers.extend(self.kept.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))));
    }

    fn submit(&self, engine: &mut Engine, now: Instant, call: &Call) -> Result<(), UseError> {
        let Self { requests, state, kept, tasks, submit: _ } = self;
        let none = InputRequests::default();
        let requests = requests.downcast_ref().unwrap_or(&none);
        let outcome = begin_round(engine, now, call, Round { requests, state, kept, tasks: *tasks });
        if let Err(refused) = &outcome {
            // The call may have ended meanwhile, so nothing has to be answered.
            let _ = engine.fail(now, call.id(), &refusal_error(refused));
        }
        outcome
    }
}

/// The reason why there is no input response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input was requested just now. The handler should return.
    #[error("the input was requested and has not arrived yet")]
    Pending,
    /// The client refused or did not answer in time (legacy; a modern client does not repeat the call then).
    #[error("the client gives no answer: {0}")]
    Refused(CallError),
    /// The client was asked twice, and its last answer does not fit the request either.
    #[error("the client's answer cannot be used: {0}")]
    Unusable(ValidationError),
    /// The type cannot be expressed as a form. This is a mistake in the handler.
    #[error("the type cannot be expressed as a form: {0}")]
    UnsupportedForm(ValidationError),
}

/// Lets `?` leave a handler. The error is sent to the client unless the input is [pending](InputError::Pending).
impl From<InputError> for RpcError {
    fn from(error: InputError) -> Self {
        let message = alloc::format!("{error}");
        if matches!(error, InputError::Unusable(_)) {
            Self::invalid_params(message)
        } else {
            Self::internal(message)
        }
    }
}

impl InputRequired {
    /// Creates an empty collection.
    #[must_use]
    pub const fn new() -> Self {
        Self { collector: None }
    }

    /// Drops the collected requests. The state and the values for the next delivery stay.
    pub fn discard_requests(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.discard_requests();
        }
    }

    /// Returns the response to `question`, or collects the request. `key` must be unique within the call.
    ///
    /// To send several requests at once, call this for all of them before returning.
    ///
    /// # Errors
    ///
    /// [`InputError::Pending`] if there is no response yet, or only one that does not fit the request (MRTR-027,
    /// MRTR-029, ELIC-020). [`InputError::Refused`] if the client refused. [`InputError::Unusable`] if what does not fit is an
    /// answer to the second delivery of such requests or a later one: the client is asked once more at most.
    pub fn request_input<'c>(
        &mut self,
        call: &'c Call,
        key: &str,
        request: InputRequest<'static>,
    ) -> Result<InputResponse<'c>, InputError> {
        self.read_response(call, key, request, Ok)
    }

    /// Returns the response converted by `read`, or collects the request if there is none that can be used.
    fn read_response<'c, T>(
        &mut self,
        call: &'c Call,
        key: &str,
        request: InputRequest<'static>,
        read: impl FnOnce(InputResponse<'c>) -> Result<T, ValidationError>,
    ) -> Result<T, InputError> {
        match call.answer(key) {
            Some(Ok(answer)) => match request.parse_response(answer).and_then(read) {
                Ok(answer) => return Ok(answer),
                // An answer comes at attempt 1 at the earliest, so this is the second one or a later one.
                Err(mismatch) if call.attempt() > 1 => {
                    // Nothing else is asked either.
                    self.discard_requests();
                    return Err(InputError::Unusable(mismatch.prefixed(key)));
                }
                Err(_) => {}
            },
            Some(Err(error)) => return Err(InputError::Refused(error.clone())),
            None => {}
        }
        self.collector().add_request(key, request);
        Err(InputError::Pending)
    }

    /// Asks the user by a form: [`request_input`](Self::request_input) for elicitation.
    ///
    /// The user may decline: see [`ElicitResult::action`].
    ///
    /// # Errors
    ///
    /// As [`request_input`](Self::request_input).
    pub fn elicit(
        &mut self,
        call: &Call,
        key: &str,
        message: impl Into<String>,
        form: ElicitSchema,
    ) -> Result<ElicitResult, InputError> {
        let request = InputRequest::Elicit(ElicitParams::form(message, form));
        self.read_response(call, key, request, into_elicit_result)
    }

    /// Asks the user by the form of type `T` ([`ElicitSchema::for_type`]).
    ///
    /// A response that is not a valid `T` is requested again.
    ///
    /// # Errors
    ///
    /// As [`request_input`](Self::request_input), and [`InputError::UnsupportedForm`] if `T` cannot be expressed as a
    /// form.
    #[cfg(feature = "schemars")]
    pub fn elicit_as<T: schemars::JsonSchema + DeserializeOwned>(
        &mut self,
        call: &Call,
        key: &str,
        message: impl Into<String>,
    ) -> Result<ElicitOutcome<T>, InputError> {
        let form = ElicitSchema::for_type::<T>().map_err(InputError::UnsupportedForm)?;
        let request = InputRequest::Elicit(ElicitParams::form(message, form));
        self.read_response(call, key, request, |answer| {
            ElicitOutcome::from_result(&into_elicit_result(answer)?)
        })
    }

    /// Asks the user to visit a web page (since 2025-11-25).
    ///
    /// This is [`request_input`](Self::request_input) for elicitation by URL.
    ///
    /// Acceptance means that the page is opened, and nothing about what the user does there (ELIC-034). 2025-11-25
    /// requires an `elicitation_id`. Later revisions have none, and it is left out.
    ///
    /// # Errors
    ///
    /// As [`request_input`](Self::request_input).
    pub fn elicit_url(
        &mut self,
        call: &Call,
        key: &str,
        page: ElicitUrlParams,
    ) -> Result<ElicitAction, InputError> {
        let request = InputRequest::Elicit(page.into());
        self.read_response(call, key, request, into_elicit_result).map(|result| result.action)
    }

    /// Samples the client's model: [`request_input`](Self::request_input) for sampling.
    ///
    /// # Errors
    ///
    /// As [`request_input`](Self::request_input).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn sample<'c>(
        &mut self,
        call: &'c Call,
        key: &str,
        params: CreateMessageParams<'static>,
    ) -> Result<CreateMessageResult<'c>, InputError> {
        self.read_response(call, key, InputRequest::CreateMessage(params), |answer| match answer {
            InputResponse::CreateMessage(result) => Ok(result),
            _ => Err(another_kind()),
        })
    }

    /// Requests the directories that the client exposes: [`request_input`](Self::request_input) for roots.
    ///
    /// # Errors
    ///
    /// As [`request_input`](Self::request_input).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn list_roots(&mut self, call: &Call, key: &str) -> Result<ListRootsResult, InputError> {
        self.read_response(call, key, InputRequest::ListRoots(None), |answer| match answer {
            InputResponse::ListRoots(result) => Ok(result),
            _ => Err(another_kind()),
        })
    }

    /// Sets the value of [`Call::state`] for the next delivery. Unused if no input is requested.
    pub fn set_state(&mut self, state: impl Into<Vec<u8>>) {
        self.collector().state = state.into();
    }

    /// Lets the input requests of this delivery run as tasks of the client, whose answers are collected later.
    ///
    /// A client of 2025-11-25 that hosts tasks for elicitation or sampling is asked for one (TASK-003, TASK-008): it
    /// acknowledges the question at once, and the engine polls it at the interval that the client proposes, between 100 ms
    /// and 60 s. All others are asked as usual, and so are clients that collect the result of a task. The responses are the
    /// same. Five polls in a row may fail, and five requests for the answer; then the question fails. It ends at
    /// [`Limits::input_timeout`](crate::Limits::input_timeout) in any case, and a task that still runs is cancelled.
    ///
    /// `ttl` is the time for which the client is asked to keep the task, instead of that timeout.
    #[cfg(feature = "tasks")]
    pub fn ask_as_tasks(&mut self, ttl: Option<core::time::Duration>) {
        self.collector().tasks = Some(QuestionTasks { ttl });
    }

    /// Runs `run` at the first delivery of the call that gets here, and returns its value at every delivery.
    ///
    /// A handler runs again from its beginning when input responses arrive. This keeps what must not happen twice, such
    /// as placing an order, from being repeated: its value travels with the state of the call. `key` must be unique
    /// within the call. To keep errors as well, let `run` return a `Result` that can be serialized.
    ///
    /// A value counts as one input response for [`Limits::max_inputs`](crate::Limits::max_inputs), and by its bytes for
    /// [`max_request_state`](crate::Limits::max_request_state) (modern) and
    /// [`max_retained_bytes`](crate::Limits::max_retained_bytes) (legacy).
    ///
    /// # Errors
    ///
    /// An internal error if the value cannot be written as JSON, or if that of the first delivery is not a `T`.
    pub fn once<T: Serialize + DeserializeOwned>(
        &mut self,
        call: &Call,
        key: &str,
        run: impl FnOnce() -> T,
    ) -> Result<T, RpcError> {
        let value = match self.kept(call, key)? {
            Some(value) => return Ok(value),
            None => run(),
        };
        self.keep(key, &value)?;
        Ok(value)
    }

    /// Returns the value that was [kept](Self::keep) under this key.
    ///
    /// # Errors
    ///
    /// An internal error if it is not a `T`.
    pub fn kept<T: DeserializeOwned>(&self, call: &Call, key: &str) -> Result<Option<T>, RpcError> {
        let name = kept_key(key);
        let earlier = call.answer(&name).and_then(Result::ok).cloned();
        // A value of this delivery is not among the answers of the call yet.
        let kept = earlier.or_else(|| {
            let mut kept = self.collector.as_ref()?.kept.iter();
            kept.find(|(other, _)| *other == name).map(|(_, value)| value.clone())
        });
        let value = kept.map(|value| value.parse()).transpose();
        value.map_err(|error| RpcError::internal(alloc::format!("the kept value `{key}`: {error}")))
    }

    /// Makes a call a task, which gets the state and the values that the handler keeps; otherwise as [`Tasks::begin`].
    ///
    /// # Errors
    ///
    /// As [`Tasks::begin`].
    pub fn begin_task(
        &self,
        engine: &mut Engine,
        now: Instant,
        call: &Call,
        options: TaskOptions,
    ) -> Result<(), UseError> {
        let Some(collector) = &self.collector else { return engine.tasks(now).begin(call, options) };
        // The handler may have kept more than its call knows, so the task is made of a copy with both.
        let mut retry = call.retry.clone();
        collector.carry_into(retry.get_or_insert_default());
        let call = Call {
            id: call.id,
            channel: call.channel,
            version: call.version,
            method: call.method.clone(),
            frame: call.frame.clone(),
            params: call.params,
            retry,
            caller: call.caller.clone(),
            task: call.task,
        };
        engine.tasks(now).begin(&call, options)
    }

    /// Keeps a value for the later deliveries of the call; see [`once`](Self::once).
    ///
    /// # Errors
    ///
    /// An internal error if the value cannot be written as JSON.
    pub fn keep<T: Serialize>(&mut self, key: &str, value: &T) -> Result<(), RpcError> {
        let value = RawJson::encode(value).map_err(|error| {
            RpcError::internal(alloc::format!("the value `{key}` cannot be kept: {error}"))
        })?;
        self.collector().kept.push((kept_key(key), value));
        Ok(())
    }

    /// Returns whether no input was requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.collector.as_ref().is_none_or(|collector| collector.is_empty())
    }

    fn collector(&mut self) -> &mut CollectedInput {
        self.collector.get_or_insert_with(|| Box::new(CollectedInput::new()))
    }
}

fn into_elicit_result(answer: InputResponse<'_>) -> Result<ElicitResult, ValidationError> {
    match answer {
        InputResponse::Elicit(result) => Ok(result),
        _ => Err(another_kind()),
    }
}

fn another_kind() -> ValidationError {
    ValidationError::new("answers another kind of input request")
}

impl Engine {
    /// Sends the input requests that a handler collected, or fails the call if that is not possible.
    ///
    /// # Errors
    ///
    /// As [`need_input`](Self::need_input); the call has been answered with an error then. The client reads which
    /// capability is missing (ERR-007). For all other reasons it reads a general message, because they concern the
    /// author of the handler.
    pub fn require_input(
        &mut self,
        now: Instant,
        call: &Call,
        input: &InputRequired,
    ) -> Result<(), UseError> {
        match &input.collector {
            Some(collector) => (collector.submit)(collector, self, now, call),
            None => {
                self.fail(now, call.id(), &unsupported_input_error())?;
                Err(UseError::ReservedMethod(call.method().into()))
            }
        }
    }
}

/// Returns the error response for a call whose input requests were refused.
fn refusal_error(refused: &UseError) -> RpcError {
    match refused {
        UseError::MissingPeerCapability(capability) => {
            let required = ClientCapabilities::from(&Capabilities::new().with(*capability));
            RpcError::missing_client_capability(required).unwrap_or_else(|_| unsupported_input_error())
        }
        UseError::NotInVersion { feature: what, version } => {
            RpcError::invalid_request(alloc::format!("this needs `{what}`, which {version} does not have"))
        }
        UseError::Full(Limit::InputRounds) => RpcError::internal(String::from("asked too often")),
        _ => unsupported_input_error(),
    }
}

fn unsupported_input_error() -> RpcError {
    RpcError::internal("what this needs cannot be asked for")
}
