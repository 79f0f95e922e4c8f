//! Event types as an application registers them, and what publishes their events.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use std::time::SystemTime;

use mcp_proto::router::{SchemaError, SchemaValidator, Validate, Violations};
use mcp_proto::server::{Caller, parse_arguments};
use mcp_proto::{EncodeError, RawJson, iso_8601};
use mcp_std::catch;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Events;
use crate::source::{Filter, LogLimits};
use crate::wire::{DeliveryMode, EventOccurrence, EventType, EventsError, MAX_NAME};

type IsVisible = Box<dyn Fn(&Caller) -> bool + Send + Sync>;
type Authorize<A> = Box<dyn Fn(&A, &Caller) -> Result<(), EventsError> + Send + Sync>;
type Matches<A, P> = alloc::sync::Arc<dyn Fn(Option<&str>, &A, &P) -> bool + Send + Sync>;
type Accept = Box<dyn Fn(&RawJson, &Caller) -> Result<Filter, EventsError> + Send + Sync>;

/// An event type to register: arguments `A` of its subscriptions, and payloads `P` of its events.
///
/// By default it is polled and streamed, everybody sees it, and every subscription gets every event.
pub struct Event<A = RawJson, P = RawJson> {
    described: EventType,
    limits: LogLimits,
    is_visible: Option<IsVisible>,
    authorize: Option<Authorize<A>>,
    matches: Option<Matches<A, P>>,
}

impl Event {
    /// Creates a type by its schemas.
    ///
    /// Arguments are checked by [`authorize`](Self::authorize) alone, and payloads by nobody: whoever publishes sees to it that
    /// they are as the schema says (EVT-033). With [`Events::validator`] the schemas decide about both.
    #[must_use]
    pub fn new(name: impl Into<String>, input_schema: RawJson, payload_schema: RawJson) -> Self {
        Self::with_schemas(name, input_schema, payload_schema)
    }
}

#[cfg(feature = "schemars")]
impl<A, P> Event<A, P>
where
    A: mcp_proto::router::schema::schemars::JsonSchema,
    P: mcp_proto::router::schema::schemars::JsonSchema,
{
    /// Creates a type by those of its arguments (`()` for none) and payloads. The documentation comment of the payload becomes the
    /// description.
    ///
    /// ```
    /// use mcp_events::server::{Event, Events};
    /// use mcp_proto::router::schema::schemars;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Branch { branch: String }
    ///
    /// /// A build has ended.
    /// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// struct Build { branch: String, ok: bool }
    ///
    /// let events = Events::new()?;
    /// let finished = Event::<Branch, Build>::typed("build.finished")
    ///     .matching(|wanted, build| wanted.branch == build.branch);
    /// let finished = events.add(finished)?;
    /// finished.publish(&Build { branch: "main".into(), ok: true })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn typed(name: impl Into<String>) -> Self {
        use mcp_proto::router::schema::{self, Profile};
        let name = name.into();
        let payload_schema = schema::result::<P>(Profile::Standard);
        let description = payload_schema.member("description").and_then(|text| text.string());
        let mut event =
            Self::with_schemas(name.clone(), schema::tool::<A>(name).input_schema, payload_schema);
        event.described.description = description;
        event
    }
}

impl<A, P> Event<A, P> {
    /// Creates a type by types of its arguments and payloads, and schemas that describe them.
    #[must_use]
    pub fn with_schemas(name: impl Into<String>, input_schema: RawJson, payload_schema: RawJson) -> Self {
        let modes = Vec::from([DeliveryMode::Poll, DeliveryMode::Push]);
        Self {
            described: EventType::new(name, modes, input_schema).payload_schema(payload_schema),
            limits: LogLimits::default(),
            is_visible: None,
            authorize: None,
            matches: None,
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.described.description = Some(description.into());
        self
    }

    /// Sets the modes of delivery (EVT-012).
    #[must_use]
    pub fn modes(mut self, modes: impl IntoIterator<Item = DeliveryMode>) -> Self {
        self.described.delivery = modes.into_iter().collect();
        self
    }

    /// Sets what is kept of its events.
    #[must_use]
    pub const fn log(mut self, limits: LogLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets who sees the type: to all others it is as if it did not exist. If it panics, lists are without the type, and calls are
    /// refused with [`EventsError::Internal`].
    #[must_use]
    pub fn visible_to(mut self, is_visible: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.is_visible = Some(Box::new(is_visible));
        self
    }

    /// Sets who may subscribe with which arguments. It returns the error to answer with: [`EventsError::Forbidden`] or
    /// [`EventsError::InvalidParams`] (EVT-070). A webhook subscription ends when its refresh is refused with `Forbidden`, or
    /// the type is hidden from its subscriber by then: `terminated` is delivered, and nothing else (EVT-162). Refuse what may
    /// work a moment later with [`EventsError::Internal`], which is also what follows from a panic.
    #[must_use]
    pub fn authorize(
        mut self,
        authorize: impl Fn(&A, &Caller) -> Result<(), EventsError> + Send + Sync + 'static,
    ) -> Self {
        self.authorize = Some(Box::new(authorize));
        self
    }

    /// Sets which events a subscription gets, by its arguments.
    ///
    /// It is called for each event and subscription, on the loop of the server and while others wait: it must be fast, and must
    /// not publish. Events for which it panics are not delivered.
    #[must_use]
    pub fn matching(self, matches: impl Fn(&A, &P) -> bool + Send + Sync + 'static) -> Self {
        self.matching_for(move |_, arguments, payload| matches(arguments, payload))
    }

    /// Sets which events a subscription gets, as [`matching`](Self::matching) does, by its principal as well: each user gets the
    /// mail that is his, for example. There is no principal without authentication.
    #[must_use]
    pub fn matching_for(
        mut self,
        matches: impl Fn(Option<&str>, &A, &P) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.matches = Some(alloc::sync::Arc::new(matches));
        self
    }
}

impl<A: DeserializeOwned + Send + Sync + 'static, P: DeserializeOwned + 'static> Event<A, P> {
    pub(super) fn into_parts(
        self,
        validator: Option<&dyn SchemaValidator>,
    ) -> Result<(EventType, LogLimits, Access), AddEventError> {
        let Self { described, limits, is_visible, authorize, matches } = self;
        check(&described)?;
        let checks = validator.map(|validator| Checks::compile(&described, validator)).transpose()?;
        let accept = move |arguments: &RawJson, caller: &Caller| -> Result<Filter, EventsError> {
            let arguments: A = parse_arguments(arguments)
                .map_err(|error| EventsError::InvalidParams(error.message.into()))?;
            if let Some(authorize) = &authorize {
                authorize(&arguments, caller)?;
            }
            let Some(matches) = matches.clone() else { return Ok(Box::new(|_| true)) };
            let principal = caller.principal().map(String::from);
            Ok(Box::new(move |event| {
                let is_match = || {
                    let payload = event.data.parse::<P>();
                    payload.is_ok_and(|payload| matches(principal.as_deref(), &arguments, &payload))
                };
                catch(is_match).unwrap_or(false)
            }))
        };
        Ok((described, limits, Access { is_visible, checks, accept: Box::new(accept) }))
    }
}

impl<A, P> fmt::Debug for Event<A, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("described", &self.described)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Refuses a type that clients would not read (EVT-011, EVT-012).
fn check(described: &EventType) -> Result<(), AddEventError> {
    let EventType { name, delivery, input_schema, payload_schema, .. } = described;
    if !(1..=MAX_NAME).contains(&name.len()) {
        return Err(AddEventError::Name { length: name.len() });
    }
    let wrong = |reason| Err(AddEventError::Modes { name: name.clone(), reason });
    if delivery.is_empty() {
        return wrong("it has none");
    }
    if delivery.iter().any(|mode| matches!(mode, DeliveryMode::Other(_))) {
        return wrong("they are `poll`, `push` and `webhook`");
    }
    if delivery.iter().enumerate().any(|(at, mode)| delivery.iter().take(at).any(|other| other == mode)) {
        return wrong("one is repeated");
    }
    for (member, schema) in [("inputSchema", Some(input_schema)), ("payloadSchema", payload_schema.as_ref())]
    {
        if !schema.is_some_and(RawJson::is_object) {
            return Err(AddEventError::Schema { name: name.clone(), member });
        }
    }
    Ok(())
}

/// Reason why a type was not added; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddEventError {
    /// The name is empty, or longer than [`MAX_NAME`] bytes.
    #[error("the name of the event type has {length} bytes instead of 1 to {MAX_NAME}")]
    Name {
        /// Bytes of the name.
        length: usize,
    },
    /// The modes are not a non-empty set of `poll`, `push` and `webhook` (EVT-012).
    #[error("the event type `{name}` has wrong modes of delivery: {reason}")]
    Modes {
        /// Name of the type.
        name: String,
        /// Rule that the modes break.
        reason: &'static str,
    },
    /// The [validator](Events::validator) cannot use a schema.
    #[error("the event type `{name}` cannot be added: `{member}` {reason}")]
    InvalidSchema {
        /// Name of the type.
        name: String,
        /// The member of the type.
        member: &'static str,
        /// What is wrong with the schema.
        reason: SchemaError,
    },
    /// A schema is not a JSON object (EVT-011).
    #[error("the event type `{name}` cannot be added: `{member}` is not a JSON object")]
    Schema {
        /// Name of the type.
        name: String,
        /// The member of the type.
        member: &'static str,
    },
}

/// The schemas of a type, compiled.
struct Checks {
    arguments: Box<dyn Validate>,
    payload: Box<dyn Validate>,
}

impl Checks {
    fn compile(described: &EventType, validator: &dyn SchemaValidator) -> Result<Self, AddEventError> {
        let compile = |member, schema: &RawJson| {
            let failed =
                |reason| AddEventError::InvalidSchema { name: described.name.clone(), member, reason };
            validator.compile(schema).map_err(failed)
        };
        let any = RawJson::empty_object();
        Ok(Self {
            arguments: compile("inputSchema", &described.input_schema)?,
            payload: compile("payloadSchema", described.payload_schema.as_ref().unwrap_or(&any))?,
        })
    }
}

/// Who sees a type, which subscriptions to it are accepted, and which payloads.
pub(super) struct Access {
    is_visible: Option<IsVisible>,
    checks: Option<Checks>,
    accept: Accept,
}

impl Access {
    /// Checks that a caller sees the type.
    ///
    /// # Errors
    ///
    /// [`EventsError::EventNotFound`], or [`EventsError::Internal`] if the application panics.
    pub(super) fn check_visible(&self, caller: &Caller) -> Result<(), EventsError> {
        match self.is_visible.as_ref().map(|is_visible| catch(|| is_visible(caller))) {
            None | Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(EventsError::EventNotFound),
            Some(Err(_)) => Err(undecided()),
        }
    }

    /// Returns the filter of a subscription.
    ///
    /// # Errors
    ///
    /// Those of the application, and [`EventsError::Internal`] if it panics.
    pub(super) fn accept(&self, arguments: &RawJson, caller: &Caller) -> Result<Filter, EventsError> {
        let decide = || {
            let checked = self.checks.as_ref().map(|checks| checks.arguments.validate(arguments.as_bytes()));
            if let Some(Err(violations)) = checked {
                return Err(EventsError::InvalidParams(alloc::format!("`params.arguments`: {violations}")));
            }
            (self.accept)(arguments, caller)
        };
        catch(decide).unwrap_or_else(|_| Err(undecided()))
    }

    /// Checks the data of an event (EVT-033).
    pub(super) fn check_payload(&self, data: &RawJson) -> Result<(), Violations> {
        self.checks.as_ref().map_or(Ok(()), |checks| checks.payload.validate(data.as_bytes()))
    }
}

/// Returns the error for a panic of the application. It says nothing about access, so it ends no subscription (EVT-162).
fn undecided() -> EventsError {
    EventsError::Internal("the server failed to decide".into())
}

/// Publishes the events of one type, from any thread. Clones publish the same type. After it was removed they publish nothing,
/// also if another type was added with its name.
pub struct Publisher<P> {
    events: Events,
    name: String,
    /// Number of the type.
    number: u64,
    payload: PhantomData<fn(&P)>,
}

impl<P> Clone for Publisher<P> {
    fn clone(&self) -> Self {
        Self::new(self.events.clone(), self.name.clone(), self.number)
    }
}

impl<P> Publisher<P> {
    pub(super) const fn new(events: Events, name: String, number: u64) -> Self {
        Self { events, name, number, payload: PhantomData }
    }

    /// Returns the name of the type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports an error that passes, of what the events come from, on every open stream of the type. They go on (EVT-054).
    /// Polls and webhooks have no place for it.
    ///
    /// # Errors
    ///
    /// [`PublishError::Removed`].
    pub fn report_error(&self, error: &EventsError) -> Result<(), PublishError> {
        self.events.report_error(&self.name, self.number, error)
    }

    /// Reports that events were lost before they could be published: streams get `active` again (EVT-055), the next polls
    /// `truncated` (EVT-145), and webhooks a `gap` (EVT-104), or `truncated` at the next refresh if their profile has no control
    /// envelopes. The position of a gap is kept as that of an event is; a type without positions has none (EVT-147).
    ///
    /// # Errors
    ///
    /// [`PublishError::Removed`].
    pub fn report_gap(&self) -> Result<(), PublishError> {
        self.events.report_gap(&self.name, self.number)
    }
}

impl<P: Serialize> Publisher<P> {
    /// Publishes an event that happens now, with a new id.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; nothing was published then.
    pub fn publish(&self, payload: &P) -> Result<(), PublishError> {
        self.publish_as(self.events.random_id(), SystemTime::now(), payload)
    }

    /// Publishes an event with the id that it has where it comes from, so that it is the same on every path (EVT-031), and the
    /// time at which it happened.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; nothing was published then.
    pub fn publish_as(
        &self,
        id: impl Into<String>,
        happened_at: SystemTime,
        payload: &P,
    ) -> Result<(), PublishError> {
        let unix = happened_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let data = RawJson::encode(payload)?;
        if !data.is_object() {
            return Err(EncodeError::NotAnObject.into());
        }
        let event = EventOccurrence::new(id, &*self.name, iso_8601(unix.as_secs()), data);
        self.events.publish_to(Some(self.number), &event)
    }
}

impl<P> fmt::Debug for Publisher<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reason why an event was not published; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The type was removed.
    #[error("the event type was removed")]
    Removed,
    /// The id is empty, longer than 256 bytes, or has other characters than visible ASCII ones.
    #[error("the event id is not 1 to 256 visible ASCII characters")]
    EventId,
    /// The store did not take it, with the reason.
    #[error("the store did not take the event: {0}")]
    Store(String),
    /// The payload is not as its schema says (EVT-033), with the places; only with a [validator](Events::validator).
    #[error("the payload does not match its schema: {0}")]
    Schema(Violations),
    /// The payload, or the metadata of the event, cannot be written as a JSON object.
    #[error("the payload cannot be written: {0}")]
    Payload(#[from] EncodeError),
}
