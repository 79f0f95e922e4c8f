//! Events of a server on any adapter: its types, what it publishes, and the answers to its clients (feature `server`).
//!
//! [`Events`] is an extension of a router (`router.extension(events.clone())`). Its methods are answered on the loops of the
//! server, beside the handlers: an open stream takes neither a thread nor a place among the running calls. Clones share the same
//! events, and publish from any thread.
//!
//! ```
//! use mcp_events::server::{Event, Events};
//! use mcp_proto::RawJson;
//!
//! let events = Events::new()?;
//! let any = || RawJson::new(r#"{"type":"object"}"#);
//! let finished = events.add(Event::new("build.finished", any()?, any()?).description("A build has ended"))?;
//! finished.publish(&RawJson::new(r#"{"build":7,"ok":true}"#)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `schemars`, `Event::typed` takes the schemas from types. [`Events::webhooks`] delivers to webhooks,
//! too, by the thread of the module `post` for example. [`Events::with_store`] lets cursors and webhook subscriptions outlive a
//! restart, and [`Events::finish`] delivers what is queued before the end. Changes of the types are announced to those who
//! subscribed to [`EVENTS_LIST`].

mod event_loop;
mod file_store;
mod keeper;
mod registration;
mod shared;
#[cfg(test)]
mod tests;
mod webhooks;

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use core::fmt;
use std::io;

use mcp_proto::router::SchemaValidator;
use mcp_proto::server::{Caller, Config, CustomMethod};
use mcp_proto::{EncodeError, Entropy, Instant};
use mcp_runtime::server::{CommandSender, LoopExtension, ServerExtension, ServerLoop};
use mcp_std::entropy;

pub use file_store::{FileStore, FileStoreError};
pub use keeper::{EventStore, MemoryStore};
pub use registration::{AddEventError, Event, PublishError, Publisher};
pub use webhooks::{WebhookFailure, WebhookFailureKind};

pub use crate::wire::EVENTS_LIST;

use crate::source::{Source, SourceConfig, UnknownType};
use crate::store::Record;
use crate::wire::{self, EventOccurrence, EventsCapability, EventsError, Profile};
use event_loop::EventsLoop;
use keeper::Keeper;
use shared::{Registered, Shared, State};
use webhooks::Webhooks;

/// The events of a server.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

impl Events {
    /// Creates events without types, with the default bounds and [`Profile::SEP`].
    ///
    /// # Errors
    ///
    /// The operating system has no source of randomness.
    pub fn new() -> io::Result<Self> {
        Self::with(SourceConfig::default(), Profile::SEP)
    }

    /// Creates events without types.
    ///
    /// # Errors
    ///
    /// The operating system has no source of randomness.
    pub fn with(config: SourceConfig, profile: Profile) -> io::Result<Self> {
        Self::create(config, profile, None)
    }

    /// Creates events that outlive a restart: their logs and webhook subscriptions are in a store (EVT-084).
    ///
    /// A type that is [added](Self::add) goes on with its log, and its cursors are valid. Its subscriptions go on as soon as
    /// there are [webhooks](Self::webhooks), too: what they have missed is delivered, and their filters are made again from
    /// their arguments. Whom [`Event::authorize`] refuses then, by his name and the scopes of that time, is told that his
    /// subscription has ended (EVT-162). Subscriptions wait for a type that is not added, until they expire; those without
    /// expiry wait until its name is [removed](Self::remove).
    ///
    /// An event is in the store before it is published. Progress of deliveries follows a moment later, so the latest ones may be
    /// delivered again. All this takes the time of the store while others wait.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or the operating system has no source of randomness.
    pub fn with_store(
        config: SourceConfig,
        profile: Profile,
        store: impl EventStore + 'static,
    ) -> io::Result<Self> {
        Self::create(config, profile, Some(Box::new(store)))
    }

    fn create(
        config: SourceConfig,
        profile: Profile,
        store: Option<Box<dyn EventStore>>,
    ) -> io::Result<Self> {
        let entropy = || io::Result::Ok(Entropy::new(entropy::seed()?, entropy::nonce()));
        let mut source = Source::new(config, entropy()?);
        let keeper = store.map(|store| Keeper::load(store, &mut source)).transpose()?;
        Ok(Self(Arc::new(Shared::new(profile, source, entropy()?, keeper))))
    }

    /// Sets what checks arguments and payloads against the schemas of the types that are [added](Self::add) from now on:
    /// `mcp_std::schema::JsonSchemaValidator` for example. Arguments of subscriptions that are not as `inputSchema` says are
    /// refused with [`EventsError::InvalidParams`], and payloads that are not as `payloadSchema` says with
    /// [`PublishError::Schema`] (EVT-033).
    ///
    /// Types of `Event::typed` are right without one, as far as their types are. Without one, the schemas of others are
    /// descriptions, and whoever publishes keeps to them.
    pub fn validator(&self, validator: impl SchemaValidator + 'static) {
        self.0.lock().validator = Some(Arc::new(validator));
    }

    /// Sets a callback for webhook subscriptions whose receivers fail, for logs or for whoever is responsible (EVT-085,
    /// EVT-100). It is called after the change, on the thread that notices it: that of the deliverer, or of a call of these
    /// events. Deliveries, or that caller, wait for it, so it must not block: hand what takes time to another thread. It may
    /// use these events except for [`finish`](Self::finish), which would wait for its own thread. Its panic changes nothing.
    pub fn on_webhook_failure(&self, on_failure: impl Fn(&WebhookFailure) + Send + Sync + 'static) {
        self.0.lock().on_webhook_failure = Some(Arc::new(on_failure));
    }

    /// Sets a callback for errors of the store that no call returns, for logs: a subscription or its progress could not be
    /// written. It is written with the next change; a restart before that loses it. The callback must not use these events.
    /// Default: a line on stderr.
    pub fn on_store_error(&self, on_error: impl Fn(&io::Error) + Send + 'static) {
        if let Some(keeper) = &mut self.0.lock().keeper {
            keeper.on_error(on_error);
        }
    }

    /// Chooses the profile of each caller by a function: the codes of errors, and what is written to webhooks. A webhook
    /// subscription keeps the profile that it was made with.
    ///
    /// What a server declares, and whether it serves revisions with a handshake, is the same for all: it is that of the profile
    /// which these events were created with, and so is that of a caller for whom the function panics. It must be fast.
    pub fn profile_for(&self, find_profile: impl Fn(&Caller) -> Profile + Send + Sync + 'static) {
        self.0.lock().find_profile = Some(Arc::new(find_profile));
    }

    /// Adds a type, or describes one anew that has changed additively (EVT-022). Returns what publishes its events.
    ///
    /// A type that changed otherwise is [removed](Self::remove) first, with [`EventsError::SchemaChanged`].
    ///
    /// # Errors
    ///
    /// [`AddEventError`]; nothing changed then.
    pub fn add<A, P>(&self, event: Event<A, P>) -> Result<Publisher<P>, AddEventError>
    where
        A: serde::de::DeserializeOwned + Send + Sync + 'static,
        P: serde::de::DeserializeOwned + 'static,
    {
        let validator = self.0.lock().validator.clone();
        let (described, limits, access) = event.into_parts(validator.as_deref())?;
        let name = described.name.clone();
        let mut state = self.0.lock();
        let begun = state.source.add(described, limits);
        state.keep(begun);
        let number = state.types.get(&name).map_or(state.last_type + 1, |known| known.number);
        state.last_type = state.last_type.max(number);
        state.types.insert(name.clone(), Registered { number, access: Arc::new(access) });
        drop(state);
        self.0.restore_subscriptions();
        self.0.announce_list();
        Ok(Publisher::new(self.clone(), name, number))
    }

    /// Removes a type, and ends its streams with `reason` (EVT-020, EVT-021). Returns whether there was one.
    pub fn remove(&self, name: &str, reason: &EventsError) -> bool {
        let is_known = self.0.change(|state, _| {
            state.epoch += 1;
            state.types.remove(name);
            if let Some(webhooks) = &mut state.webhooks {
                webhooks.terminate(&|other, _| (other == name).then(|| reason.clone()));
            }
            state.end_stored(&|_, stored| (stored.name == name).then(|| reason.clone()));
            let is_known = state.source.remove(name, reason);
            state.keep(is_known.then(|| Record::LogRemoved { name: name.into() }));
            is_known
        });
        if is_known {
            self.0.announce_list();
        }
        is_known
    }

    /// Publishes an event of a type, with an id and a time of its own.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; nothing was published then.
    pub fn publish(&self, event: &EventOccurrence) -> Result<(), PublishError> {
        self.publish_to(None, event)
    }

    /// Publishes an event of the type with a number; of any without one.
    fn publish_to(&self, number: Option<u64>, event: &EventOccurrence) -> Result<(), PublishError> {
        // It becomes a header field of deliveries.
        let id = &event.event_id;
        if !(1..=wire::MAX_EVENT_ID).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(PublishError::EventId);
        }
        // In the log, it would be in the way of all that comes behind it.
        if !event.data.is_object() || event.meta.as_ref().is_some_and(|meta| !meta.is_object()) {
            return Err(EncodeError::NotAnObject.into());
        }
        let access = self.0.lock().types.get(&event.name).map(|known| known.access.clone());
        // Without the lock, because it may take long.
        if let Some(access) = access {
            access.check_payload(&event.data).map_err(PublishError::Schema)?;
        }
        let record = |source: &Source, now| source.record(now, event);
        self.change_type(&event.name, number, record, |source, webhooks, now| {
            source.publish(now, event.clone())?;
            if let Some(webhooks) = webhooks {
                webhooks.publish(source, event);
            }
            Ok(())
        })
    }

    /// Reports that events of a type were lost: on streams, in polls, and to webhooks.
    fn report_gap(&self, name: &str, number: u64) -> Result<(), PublishError> {
        let record = |source: &Source, now| source.gap_record(now, name);
        self.change_type(name, Some(number), record, |source, webhooks, now| {
            source.report_gap(now, name)?;
            if let Some(webhooks) = webhooks {
                webhooks.report_gap(source, name);
            }
            Ok(())
        })
    }

    fn report_error(&self, name: &str, number: u64, error: &EventsError) -> Result<(), PublishError> {
        self.change_type(name, Some(number), |_, _| None, |source, _, _| source.report_error(name, error))
    }

    /// Changes the type of a name, unless it is another one than that with a number. The record of the change is stored first.
    fn change_type(
        &self,
        name: &str,
        number: Option<u64>,
        record: impl FnOnce(&Source, Instant) -> Option<Record>,
        change: impl FnOnce(&mut Source, Option<&mut Webhooks>, Instant) -> Result<(), UnknownType>,
    ) -> Result<(), PublishError> {
        self.0.change(|state, now| {
            let is_it = |known: &Registered| number.is_none_or(|number| known.number == number);
            if !state.types.get(name).is_some_and(is_it) {
                return Err(PublishError::Removed);
            }
            let record = record(&state.source, now);
            state.store(record.as_slice()).map_err(|error| PublishError::Store(error.to_string()))?;
            let State { source, webhooks, .. } = state;
            change(source, webhooks.as_deref_mut(), now).map_err(|_| PublishError::Removed)
        })
    }

    /// Ends the streams and webhook subscriptions for which `reason`, called with type and principal, returns one: their clients
    /// may not see these events any more, for example (EVT-162). Returns their number.
    ///
    /// `reason` must not use these events.
    pub fn terminate(&self, reason: impl Fn(&str, Option<&str>) -> Option<EventsError>) -> usize {
        self.0.change(|state, _| {
            state.epoch += 1;
            let of_stored = state.end_stored(&|_, stored| reason(&stored.name, Some(&stored.principal)));
            let of_webhooks = state
                .webhooks
                .as_mut()
                .map_or(0, |webhooks| webhooks.terminate(&|name, principal| reason(name, Some(principal))));
            of_stored + of_webhooks + state.source.terminate(reason)
        })
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.0.lock().source.open_streams()
    }

    /// Returns an id for an event that has none of its own.
    fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.0.lock().entropy.fill(&mut bytes);
        alloc::format!("evt_{:032x}", u128::from_le_bytes(bytes))
    }
}

/// Shows numbers alone: events belong to others.
impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Events");
        // Not while a function of the application runs under the lock; and what is written to may use these events.
        let numbers = self.0.try_lock().map(|state| {
            [
                ("types", state.types.len()),
                ("streams", state.source.open_streams()),
                ("loops", state.loops.len()),
            ]
        });
        for (name, number) in numbers.into_iter().flatten() {
            shown.field(name, &number);
        }
        shown.finish_non_exhaustive()
    }
}

impl ServerExtension for Events {
    fn configure(&self, config: Config) -> Config {
        let profile = &self.0.profile;
        let (config, announces) = match config.clone().custom_list(EVENTS_LIST) {
            Ok(config) => (config, true),
            // The application has given the names away.
            Err(_) => (config, false),
        };
        let capabilities = config.effective_capabilities().clone();
        let capability = EventsCapability::new().list_changed(announces);
        let config = config.capabilities(profile.declare(capabilities, capability));
        let method = |name: &str| {
            let method = CustomMethod::new(name);
            if profile.declares_extension { method.of_extension(wire::EXTENSION) } else { method }
        };
        [wire::LIST, wire::POLL, wire::SUBSCRIBE, wire::UNSUBSCRIBE]
            .into_iter()
            .fold(config, |config, name| config.custom_method(method(name)))
            .custom_method(method(wire::STREAM).long_lived())
    }

    fn identity(&self) -> Option<usize> {
        // Two parts on one loop would both take answers and cancellations of one call.
        Some(Arc::as_ptr(&self.0).addr())
    }

    fn join(&self, server_loop: &mut dyn ServerLoop, commands: CommandSender) -> Box<dyn LoopExtension> {
        Box::new(EventsLoop::join(self.0.clone(), server_loop, commands))
    }
}
