//! Input requests of a server, with one event and one answer in both eras (MRTR, ELIC, SAMP, ROOT).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::common::CommonState;
use super::config::{Config, InputSupport, ReadRound};
use crate::calls::inbound::CallId;
use crate::calls::outbound::{CallKey, OutboundCall};
use crate::deprecation::DeprecatedFeature;
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{self, TopLevelMembers};
use crate::methods::{self, Capability};
use crate::model::message::MemberKey;
use crate::model::{
    ElicitParams, ElicitUrlParams, IncludeContext, InputRequest, InputRequests, InputResponse, TaskId,
};
use crate::raw::{CheckedText, RawJson};
use crate::rpc::RpcError;
use crate::slab::list::{List, ListLinks};
use crate::slab::{Key, Slab, links};
use crate::sync::Arc;
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

crate::model::union::from!(RefuseTarget, request: CallId => Self::Request(request));
crate::model::union::from!(RefuseTarget, input: InputId => Self::Input(input));

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

/// The beginning of an [`ElicitResult`](crate::model::ElicitResult) of a user who has accepted.
const ACCEPTED: &[u8] = br#"{"action":"accept""#;

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
    // Nearly every answer. The type that wrote it has no wrong member, and may have any content beside this action.
    let is_accepted = members.contains(TopLevelMembers::ELICIT_RESULT) && text.starts_with(ACCEPTED);
    if is_accepted && method == methods::ELICIT {
        return Ok(());
    }
    // Our serializer wrote the text, so it is not validated again.
    let read = InputResponse::from_text(method, core::str::from_utf8(text).unwrap_or_default());
    read.map(drop).map_err(|error| UseError::InvalidInputResponse { reason: error.to_string() })
}

// The code that reads input requests, as a table that only a configuration with capabilities holds.
//
// Forms, conversations and pages are the largest messages of the protocol. A client that declares no capability gets
// none of them, and is linked without the code that reads them.

impl Config {
    /// Declares the capabilities (LIFE-012, ERR-021).
    ///
    /// Requests that need others are refused before the application sees them.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.inputs = Some(InputSupport {
            read: |config, method, params, version| {
                let mut request = InputRequest::from_parts(method, params)?;
                config.check_input_request(&mut request, version)?;
                Ok(Box::new(request.into_owned()))
            },
            read_round,
            read_pages: |error| {
                error.as_url_elicitation_required().map(|refusal| refusal.elicitations).unwrap_or_default()
            },
        });
        self.settings.capabilities = Arc::new(capabilities);
        // The new capabilities replace the old ones, with what tasks had declared there.
        if self.tasks.is_some() {
            self = self.declare_tasks();
        }
        if self.input_tasks.is_some() {
            self = self.declare_input_tasks();
        }
        self.rebuild_request_meta()
    }

    /// Reads and checks an input request of a legacy server (ERR-021).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn read_input_request(
        &self,
        method: &str,
        params: Option<&RawJson>,
        version: Version,
    ) -> Result<Box<InputRequest<'static>>, RpcError> {
        match self.inputs {
            Some(support) => (support.read)(self, method, params, version),
            None => Err(RpcError::method_not_found(method)),
        }
    }

    /// Reads the result that begins a round, and checks its input requests (MRTR-008, MRTR-009).
    ///
    /// # Errors
    ///
    /// The outcome of the call.
    pub(super) fn read_round<'r>(
        &self,
        result: &'r [u8],
        max: usize,
        version: Version,
    ) -> Result<ReadRound<'r>, CallError> {
        match self.inputs {
            Some(support) => (support.read_round)(self, result, max, version),
            None => refuse_round(result, version),
        }
    }

    /// Returns the pages that the user must visit first, if a call was refused for them (ELIC-029).
    pub(super) fn read_pages(&self, error: &RpcError) -> Vec<ElicitUrlParams> {
        self.inputs.map(|support| (support.read_pages)(error)).unwrap_or_default()
    }
}

/// Reads the input requests of a round strictly, because they are presented to a user.
fn read_round<'r>(
    config: &Config,
    result: &'r [u8],
    max: usize,
    version: Version,
) -> Result<ReadRound<'r>, CallError> {
    let invalid = |reason| CallError::InvalidInputRequest { reason };
    let read = json::read::<RequiredMembers<'_>>(result).map_err(|e| invalid(e.to_string()))?;
    let state = read.state.map(|CheckedText(text)| text);
    let Some(requests) = read.requests else { return Ok(ReadRound { inputs: None, state }) };
    if requests.len() > max {
        return Err(invalid(format!("it has more than {max} input requests")));
    }
    let mut inputs = Vec::with_capacity(requests.len());
    for (name, mut request) in requests {
        config.check_input_request(&mut request, version)?;
        inputs.push((name.into(), Box::new(request.into_owned())));
    }
    Ok(ReadRound { inputs: Some(inputs), state })
}

/// Members of an `InputRequiredResult`, which is read once.
#[derive(Default)]
struct RequiredMembers<'de> {
    requests: Option<InputRequests<'de>>,
    state: Option<CheckedText<'de>>,
}

impl<'de> Deserialize<'de> for RequiredMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RequiredMembersVisitor;
        impl<'de> Visitor<'de> for RequiredMembersVisitor {
            type Value = RequiredMembers<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequiredMembers<'de>, A::Error> {
                let mut read = RequiredMembers::default();
                while let Some(name) = map.next_key::<MemberKey<'_>>()? {
                    match &*name.0 {
                        "requestState" => read.state = Some(map.next_value()?),
                        "inputRequests" => {
                            let requests = map.next_value();
                            read.requests = Some(
                                requests
                                    .map_err(|e| de::Error::custom(format_args!("`inputRequests`: {e}")))?,
                            );
                        }
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(RequiredMembersVisitor)
    }
}

/// Reads a round for a client without capabilities, which ends a call whose server asks for input (MRTR-009).
///
/// # Errors
///
/// The outcome of the call, if there are input requests.
fn refuse_round(result: &[u8], version: Version) -> Result<ReadRound<'_>, CallError> {
    let mut read = ReadRound::default();
    let mut requests = None;
    json::object_members(result, |name, value| match name {
        b"requestState" => read.state = core::str::from_utf8(value).ok(),
        b"inputRequests" => requests = Some(value),
        _ => {}
    });
    let Some(requests) = requests else { return Ok(read) };
    let (mut missing, mut is_empty) = (None, requests.first() == Some(&b'{'));
    json::object_members(requests, |_, request| {
        is_empty = false;
        json::object_members(request, |name, value| {
            let method = (name == b"method").then(|| json::string(value)).flatten();
            let rule = method.and_then(|method| methods::request_rule(&method));
            missing = missing.or_else(|| rule.and_then(|rule| rule.required_capability_in(version)));
        });
    });
    let invalid = || CallError::InvalidInputRequest { reason: "`inputRequests`: an unknown kind".into() };
    if !is_empty {
        return Err(missing.map_or_else(invalid, CallError::NotDeclared));
    }
    read.inputs = Some(Vec::new());
    Ok(read)
}

// Ids of elicitations by URL that may be completed (2025-11-25; ELIC-025 to ELIC-028).

/// Ids of elicitations by URL; the oldest are evicted.
///
/// Invariant: `by_id` and `order` hold exactly the ids in `ids`.
#[derive(Debug, Default)]
pub(super) struct UrlElicitations {
    ids: Slab<ElicitationId>,
    /// Sorted by the ids.
    by_id: Vec<(Box<str>, Key)>,
    /// From the oldest to the newest.
    order: List,
}

#[derive(Debug)]
struct ElicitationId {
    id: Box<str>,
    links: ListLinks,
}

links! { ElicitationId: list links }

impl UrlElicitations {
    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the position of an id among the sorted ones, or the one that it would have.
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.by_id.binary_search_by(|(known, _)| (**known).cmp(id))
    }

    /// Remembers an id, up to `max` of them. A known id keeps its place.
    pub(super) fn remember(&mut self, id: &str, max: usize) {
        if self.position(id).is_ok() {
            return;
        }
        // The server chooses the ids, and many pages are never completed.
        if self.ids.len() >= max {
            if let Some(oldest) = self.order.first(&self.ids).and_then(|key| self.ids.get(key)) {
                let id = oldest.id.clone();
                self.take(&id);
            }
        }
        let key = self.ids.insert(ElicitationId { id: id.into(), links: ListLinks::NONE });
        // Searched again, because an eviction moves the position.
        let at = self.position(id).unwrap_or_else(|at| at);
        self.by_id.insert(at, (id.into(), key));
        self.order.push(&mut self.ids, key);
    }

    /// Forgets an id and returns it, or `None` if it is unknown.
    pub(super) fn take(&mut self, id: &str) -> Option<String> {
        let (_, key) = self.by_id.remove(self.position(id).ok()?);
        self.order.remove(&mut self.ids, key);
        self.ids.remove(key).map(|known| known.id.into())
    }
}

// Deprecated features that input requests use (ROOT-013, SAMP-010, SAMP-026).

/// Reports the deprecated features that an input request uses.
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn report_deprecated(common: &mut CommonState, request: &InputRequest<'_>) {
    match request {
        InputRequest::ListRoots(_) => common.report_deprecated(DeprecatedFeature::Roots),
        InputRequest::CreateMessage(params) => {
            common.report_deprecated(DeprecatedFeature::Sampling);
            if let Some(IncludeContext::ThisServer | IncludeContext::AllServers) = params.include_context {
                common.report_deprecated(DeprecatedFeature::IncludeContext);
            }
        }
        _ => {}
    }
}

// Properties of a request, for code around calls.

/// Returns the name that a request of a client is about: of the tool or prompt, the URI of the resource, or the id of the
/// task.
///
/// For the methods that have one it is the value of the header field `Mcp-Name` (HTTP-033). Returns `None` for other
/// methods, and without a string there.
#[must_use]
pub fn request_name(method: &str, params: &RawJson) -> Option<String> {
    let member = match method {
        methods::TASKS_RESULT => "taskId",
        methods::SKILLS_GET | methods::DIRECTORY_READ => "uri",
        _ => methods::subject_member(method)?,
    };
    params.member(member)?.string()
}

/// Returns whether a method of the protocol only reads: lists, reads, prompts, completions, and the state of tasks.
///
/// Such a request may be repeated, as safe methods of HTTP may. Tools are not among them, and neither are methods that the
/// protocol does not know.
#[must_use]
pub fn is_safe_method(method: &str) -> bool {
    matches!(
        method,
        methods::TOOLS_LIST
            | methods::RESOURCES_LIST
            | methods::TEMPLATES_LIST
            | methods::RESOURCES_READ
            | methods::PROMPTS_LIST
            | methods::PROMPTS_GET
            | methods::COMPLETE
            | methods::SKILLS_LIST
            | methods::SKILLS_GET
            | methods::DIRECTORY_READ
            | methods::TASKS_GET
            | methods::TASKS_RESULT
            | methods::TASKS_LIST
    )
}

/// Open input requests of a legacy server, and the time that they take. They have no deadlines of their own: each is an
/// inbound call, whose age is in the shared heap.
#[derive(Debug, Default)]
pub(super) struct LegacyInputs {
    /// The requests, by the slots of their calls.
    requests: Vec<Option<LegacyInput>>,
    /// Number of open requests.
    open: usize,
    /// Number of open questions of tasks that the client hosts. They are kept elsewhere, and only their time counts here.
    hosted: usize,
    /// Arrival of the first open request.
    waiting_since: Instant,
    /// End of the last request.
    last_ended: Instant,
    /// Total time with open requests, before `waiting_since`.
    previous_wait: Duration,
}

#[derive(Debug)]
struct LegacyInput {
    key: Key,
    method: &'static str,
    /// The task that the request belongs to (2025-11-25; TASK-023).
    related_task: Option<TaskId>,
}

impl LegacyInputs {
    pub(super) const fn is_empty(&self) -> bool {
        self.open == 0 && self.hosted == 0
    }

    /// Sets the number of open questions of hosted tasks.
    pub(super) fn set_hosted(&mut self, now: Instant, hosted: usize) {
        let was_empty = self.is_empty();
        // An answer of the user restarts the idle time of calls; see `check_deadline`.
        if hosted < self.hosted {
            self.last_ended = now;
        }
        self.hosted = hosted;
        // Questions overlap, so their times are not added up: the time with any open question counts once.
        match (was_empty, self.is_empty()) {
            (true, false) => self.waiting_since = now,
            (false, true) => self.previous_wait += now.saturating_duration_since(self.waiting_since),
            _ => {}
        }
    }

    /// Adds a request.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        request: Key,
        method: &'static str,
        related_task: Option<TaskId>,
    ) {
        if self.is_empty() {
            self.waiting_since = now;
        }
        let slot = request.slot as usize;
        if slot >= self.requests.len() {
            self.requests.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.requests.get_mut(slot) {
            *entry = Some(LegacyInput { key: request, method, related_task });
            self.open += 1;
        }
    }

    /// Returns the method of a request, or `None` if it is not an open input request.
    pub(super) fn method(&self, request: Key) -> Option<&'static str> {
        self.find(request).map(|input| input.method)
    }

    /// Returns the task that a request belongs to.
    pub(super) fn related_task(&self, request: Key) -> Option<&TaskId> {
        self.find(request)?.related_task.as_ref()
    }

    /// Returns whether a request of this task is open.
    pub(super) fn is_open_for(&self, task: Option<&TaskId>) -> bool {
        self.requests.iter().flatten().any(|input| input.related_task.as_ref() == task)
    }

    fn find(&self, request: Key) -> Option<&LegacyInput> {
        let input = self.requests.get(request.slot as usize)?.as_ref()?;
        (input.key == request).then_some(input)
    }

    /// Removes a request; returns false if it is not an input request.
    pub(super) fn end(&mut self, now: Instant, request: Key) -> bool {
        let Some(entry) = self.requests.get_mut(request.slot as usize) else { return false };
        if entry.take_if(|input| input.key == request).is_none() {
            return false;
        }
        self.open -= 1;
        self.last_ended = now;
        if self.is_empty() {
            self.previous_wait += now.saturating_duration_since(self.waiting_since);
        }
        true
    }

    /// Returns the total time with open requests.
    pub(super) fn total_wait(&self, now: Instant) -> Duration {
        let open_since = if self.is_empty() { now } else { self.waiting_since };
        self.previous_wait + now.saturating_duration_since(open_since)
    }

    /// Returns the error of a call whose deadline has passed, or its next deadline.
    ///
    /// The server does not name the call that needs the input, so the timeouts of all calls are suspended (TIME-008).
    /// No call is idle while an input request is open. The total timeout excludes that time, unless it was set for the
    /// call.
    ///
    /// # Errors
    ///
    /// The next deadline, if none has passed.
    pub(super) fn check_deadline(&self, now: Instant, call: &OutboundCall) -> Result<CallError, Instant> {
        // While a question is open, the server waits for the user, so no call is idle.
        let last_activity = if self.is_empty() { self.last_ended } else { now };
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

#[cfg(test)]
mod legacy_inputs_tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn key(slot: u32, generation: u32) -> Key {
        Key { slot, generation }
    }

    #[test]
    fn request_is_found_by_its_key_until_it_ends() {
        let mut inputs = LegacyInputs::default();
        inputs.begin(at(1), key(4, 0), "a", None);
        inputs.begin(at(2), key(1, 7), "b", None);
        assert_eq!((inputs.method(key(4, 0)), inputs.method(key(1, 7))), (Some("a"), Some("b")));
        assert_eq!(
            (inputs.method(key(4, 1)), inputs.method(key(0, 0)), inputs.method(key(9, 0))),
            (None, None, None)
        );
        assert!(
            !inputs.end(at(3), key(4, 1)) && inputs.end(at(3), key(4, 0)) && !inputs.end(at(3), key(4, 0))
        );
        inputs.begin(at(4), key(4, 1), "c", None);
        assert_eq!((inputs.method(key(4, 0)), inputs.method(key(4, 1))), (None, Some("c")));
        assert!(!inputs.is_empty() && inputs.end(at(5), key(4, 1)) && inputs.end(at(5), key(1, 7)));
        assert!(inputs.is_empty());
    }

    // covers: TIME-008
    #[test]
    fn total_wait_is_the_time_with_at_least_one_open_request() {
        let mut inputs = LegacyInputs::default();
        assert_eq!(inputs.total_wait(at(9)), Duration::ZERO);
        inputs.begin(at(10), key(0, 0), "a", None);
        inputs.begin(at(12), key(1, 0), "a", None);
        assert!(inputs.end(at(15), key(0, 0)));
        assert_eq!(inputs.total_wait(at(16)), Duration::from_secs(6));
        assert!(inputs.end(at(20), key(1, 0)));
        assert_eq!(inputs.total_wait(at(99)), Duration::from_secs(10));
        inputs.begin(at(100), key(0, 1), "a", None);
        assert_eq!(inputs.total_wait(at(103)), Duration::from_secs(13));
        // Questions of hosted tasks count like the others.
        inputs.set_hosted(at(105), 2);
        assert!(inputs.end(at(110), key(0, 1)));
        inputs.set_hosted(at(112), 1);
        assert_eq!(inputs.total_wait(at(113)), Duration::from_secs(23));
        inputs.set_hosted(at(115), 0);
        assert_eq!(inputs.total_wait(at(120)), Duration::from_secs(25));
        inputs.set_hosted(at(130), 1);
        inputs.set_hosted(at(134), 0);
        assert_eq!(inputs.total_wait(at(140)), Duration::from_secs(29));
    }
}

#[cfg(test)]
mod request_info_tests {
    use alloc::string::ToString as _;

    use super::*;
    use crate::methods::EntryKind;

    // covers: HTTP-033
    #[test]
    fn name_of_request_is_that_of_its_subject() {
        let params =
            RawJson::new(r#"{"name":"a\u0062","uri":"test:///b","taskId":"c"}"#).expect("valid JSON");
        let name = |method| request_name(method, &params);
        for (method, expected) in [
            (methods::TOOLS_CALL, Some("ab")),
            (methods::PROMPTS_GET, Some("ab")),
            (methods::RESOURCES_READ, Some("test:///b")),
            (methods::SKILLS_GET, Some("test:///b")),
            (methods::TASKS_GET, Some("c")),
            (methods::TASKS_RESULT, Some("c")),
            (methods::TOOLS_LIST, None),
            ("x/custom", None),
        ] {
            assert_eq!(name(method), expected.map(|name| name.to_string()), "{method}");
        }
        let wrong = RawJson::new(r#"{"name":1}"#).expect("valid JSON");
        assert_eq!(request_name(methods::TOOLS_CALL, &wrong), None);
    }

    #[test]
    fn only_methods_that_read_are_safe() {
        assert!(EntryKind::ALL.into_iter().all(|kind| is_safe_method(kind.list_method())));
        assert!(is_safe_method(methods::RESOURCES_READ) && is_safe_method(methods::COMPLETE));
        for method in [methods::TOOLS_CALL, methods::TASKS_CANCEL, methods::TASKS_UPDATE, "x/custom"] {
            assert!(!is_safe_method(method), "{method}");
        }
    }
}

#[cfg(test)]
mod url_elicitations_tests {
    use super::*;
    use alloc::format;

    // covers: ELIC-027
    #[test]
    fn id_is_completed_once_and_the_oldest_is_evicted() {
        let mut known = UrlElicitations::default();
        for n in 0..5 {
            known.remember(&format!("e{n}"), 3);
        }
        known.remember("e2", 3);
        assert_eq!(["e0", "e1", "e5"].map(|id| known.take(id)), [None, None, None]);
        assert_eq!(known.take("e3").as_deref(), Some("e3"));
        assert_eq!(known.take("e3"), None);
        known.remember("e6", 3);
        known.remember("e7", 3);
        assert_eq!(known.take("e2"), None, "it was the oldest");
        assert!(["e4", "e6", "e7"].iter().all(|id| known.take(id).is_some()) && known.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Serializer;
    use crate::methods::Capability;
    use crate::model::{ElicitAction, ElicitResult};

    // covers: MRTR-018, ELIC-018
    #[test]
    fn answer_that_is_not_read_back_would_pass_the_check() {
        fn check<T: serde::Serialize>(method: &str, answer: &T) -> (bool, bool) {
            let mut text = Vec::new();
            let members = Serializer::object(&mut text, answer, None).expect("an object");
            let read = InputResponse::from_text(method, core::str::from_utf8(&text).expect("UTF-8"));
            (check_input_response(method, members, &text).is_ok(), read.is_ok())
        }
        let values = [
            1.5.into(),
            1e300.into(),
            7.into(),
            true.into(),
            "\"".into(),
            alloc::vec![String::from("a")].into(),
        ];
        for value in values {
            assert_eq!(check(methods::ELICIT, &ElicitResult::accept([("a", value)])), (true, true));
        }
        let accepted = || ElicitResult::accept([("a", "b".into())]);
        assert_eq!(check(methods::LIST_ROOTS, &accepted()), (false, false), "another method");
        let declined = ElicitResult { action: ElicitAction::Decline, ..accepted() };
        assert_eq!(check(methods::ELICIT, &declined), (false, false), "content beside a refusal");
        let other = ElicitResult::new(ElicitAction::Other("accepted".into()));
        assert_eq!(check(methods::ELICIT, &other), (false, false), "an unknown action");
        let forged: serde_json::Value = serde_json::json!({ "action": "accept", "content": { "a": {} } });
        assert_eq!(check(methods::ELICIT, &forged), (false, false), "a value of no form");
    }

    // covers: MRTR-009, ERR-021
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn client_without_capabilities_names_what_the_first_input_request_needs() {
        let config = Config::new("test", "1");
        let read = |requests: &str| {
            let result = format!(r#"{{"inputRequests":{requests}}}"#);
            config
                .read_round(result.as_bytes(), 8, Version::V2026_07_28)
                .map(|read| read.inputs.map(|all| all.len()))
        };
        assert_eq!(read("{}"), Ok(Some(0)));
        let roots = r#"{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{}}}"#;
        assert_eq!(read(roots), Err(CallError::NotDeclared(Capability::Roots)));
        let form = r#"{"a":{"params":{},"method":"elicitation/create"}}"#;
        assert_eq!(read(form), Err(CallError::NotDeclared(Capability::Elicitation)));
        for unknown in ["[]", "1", r#"{"a":{"method":"x"}}"#, r#"{"a":{}}"#, r#"{"a":1}"#] {
            assert!(matches!(read(unknown), Err(CallError::InvalidInputRequest { .. })), "{unknown}");
        }
        let refused = config.read_input_request("roots/list", None, Version::V2025_11_25);
        assert_eq!(refused.map(drop), Err(RpcError::method_not_found("roots/list")));
    }
}
