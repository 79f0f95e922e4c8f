//! Events of the client engine.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::input::{Input, InputId};
use crate::calls::inbound::{CallId, Progress};
use crate::calls::outbound::CallKey;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::identity::{Capabilities, declared_extension};
use crate::json::{object_members, string, write_str};
use crate::meta;
use crate::model::{Implementation, LoggingLevel, SubscriptionFilter, Task};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::version::{Era, Version};

/// The key of a subscription.
///
/// It is stale after [`Event::SubscriptionEnded`] or [`Engine::unsubscribe`](super::Engine::unsubscribe). A stale key is
/// refused and never reaches another subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionKey {
    /// The serial number, which is never reused.
    serial: u64,
    key: Key,
}

impl SubscriptionKey {
    pub(super) const fn new(serial: u64, key: Key) -> Self {
        Self { serial, key }
    }

    pub(super) const fn slab_key(self) -> Key {
        self.key
    }
}

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection is ready, and queued calls have been sent. Reported once.
    Ready(Peer),
    /// A call has ended. Reported exactly once per call.
    Done {
        /// The call; its key is stale.
        call: CallKey,
        /// The result object, or the reason why there is none.
        outcome: Result<RawJson, CallError>,
        /// Whether the call was sent again, for example with input responses.
        ///
        /// Such a result must not be cached (CACHE-011).
        retried: bool,
    },
    /// Progress of a call (PROG-006).
    Progress {
        /// The call.
        call: CallKey,
        /// The progress report.
        progress: Progress,
    },
    /// A call follows a task from now on, or the status or the message of the task has changed.
    ///
    /// The call still ends with [`Done`](Self::Done).
    Task {
        /// The call.
        call: CallKey,
        /// The state of the task. Its id may be a secret ([`TaskHandle`](super::TaskHandle)).
        task: Box<Task<'static>>,
    },
    /// An input request of the server.
    ///
    /// Answer it with exactly one of [`answer`](super::Engine::answer) and [`refuse`](super::Engine::refuse).
    Input(Input),
    /// An input request was cancelled, or its call has ended. Its key is stale.
    ///
    /// An [`Input`](Self::Input) event that was not polled yet is removed instead, so no user is asked for nothing.
    InputWithdrawn(InputId),
    /// The user has finished an elicitation by URL; the value is its `elicitationId` (2025-11-25; ELIC-025).
    ///
    /// A call that was refused with -32042 may succeed now (ELIC-028).
    ElicitationComplete(String),
    /// The server has acknowledged a subscription and reports changes from now on.
    ///
    /// Over HTTP, a subscription that had to be renewed is reported again. Changes in between may have been missed, so all
    /// that it covers is reported as [changed](Self::Changed). A resource that could not be renewed, because a limit was reached, is
    /// missing in `honoured`: subscribe to it anew.
    Subscribed {
        /// The subscription.
        key: SubscriptionKey,
        /// The part of the filter that the server honours (SUB-006, SUB-007).
        honoured: SubscriptionFilter,
    },
    /// A list or a resource has changed. Equal changes are reported as one until the event is polled.
    Changed {
        /// The subscription; `None` if a legacy server announces a change that no subscription asked for.
        key: Option<SubscriptionKey>,
        /// The change.
        change: Change,
    },
    /// A subscription has ended without [`unsubscribe`](super::Engine::unsubscribe). Its key is stale.
    SubscriptionEnded {
        /// The subscription.
        key: SubscriptionKey,
        /// Whether the server announced the end; if not, changes may have been missed (SUB-013, SUB-015).
        graceful: bool,
        /// The reason, if the end was not graceful.
        error: Option<CallError>,
    },
    /// A log message of the server.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    Log(LogMessage),
    /// A request of a legacy server with a custom method ([`Config::custom_method`](super::Config::custom_method)).
    ///
    /// Answer it with exactly one of [`respond`](super::Engine::respond) and [`refuse`](super::Engine::refuse).
    Request(ServerRequest),
    /// A request of the server was cancelled or was not answered in time. Its key is stale.
    RequestCancelled(CallId),
    /// A notification that belongs to a long-lived call ([`CallOptions::long_lived`](crate::CallOptions::long_lived)).
    CallNotification {
        /// The call.
        call: CallKey,
        /// The notification.
        notification: Notification,
    },
    /// A notification that the engine does not handle.
    Notification(Notification),
    /// The peer deviated from the protocol. Nothing else is affected.
    Diagnostic(Diagnostic),
    /// The connection has ended. Reported once, as the last event.
    Closed(Fault),
}

/// A server as it describes itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Negotiated revision.
    pub version: Version,
    /// `Implementation` object of the server, if it sent one.
    pub info: Option<RawJson>,
    /// Capability object of the server, as received.
    pub capabilities: RawJson,
    /// Instructions for the use of the server by a model; untrusted text (LIFE-016).
    pub instructions: Option<String>,
    /// The capabilities that the engine knows.
    pub(super) declared: Capabilities,
}

impl Peer {
    /// Returns the era of the negotiated revision.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// Returns whether results carry cache hints (CACHE-001).
    pub(super) const fn sends_cache_hints(&self) -> bool {
        matches!(self.era(), Era::Modern)
    }

    /// Returns whether the server declared `capability`.
    #[must_use]
    pub const fn has(&self, capability: crate::Capability) -> bool {
        self.declared.has(capability)
    }

    /// Returns the identity of the server, read as its type, or `None` if it sent none or one without a name or version.
    ///
    /// It is for display and logs: the server chose it, and nobody verified it (META-019).
    #[must_use]
    pub fn info(&self) -> Option<Implementation> {
        self.info.as_ref()?.parse().ok()
    }

    /// Returns the settings of an extension, `{}` for none, or `None` if the server did not declare it (EXT-004).
    ///
    /// A declaration of `io.modelcontextprotocol/tasks` before 2026-07-28 has no effect (TASK-130).
    #[must_use]
    pub fn extension(&self, id: &str) -> Option<RawJson> {
        declared_extension(&self.capabilities, id, self.version)
    }
}

/// A request of a legacy server with a custom method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The key to answer with.
    pub id: CallId,
    /// Method of the request.
    pub method: Cow<'static, str>,
    /// Parameters of the request.
    pub params: Option<RawJson>,
}

/// A notification from a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Method of the notification.
    pub method: Box<str>,
    /// Parameters of the notification.
    pub params: Option<RawJson>,
}

// The events that the application has not polled.

/// Events in order. Some are merged with later ones, or removed, until they are polled.
///
/// A search walks over unpolled events, and only if there is one that may be found. Reading pauses at
/// [`Limits::max_events`](crate::Limits), which bounds the walk.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<Event>,
    /// Number of events that may be merged or removed.
    revocable: u32,
}

const fn is_revocable(event: &Event) -> bool {
    matches!(
        event,
        Event::Input(_) | Event::Progress { .. } | Event::Changed { .. } | Event::Subscribed { .. }
    )
}

impl EventQueue {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn push_back(&mut self, event: Event) {
        self.revocable += u32::from(is_revocable(&event));
        self.events.push_back(event);
    }

    pub(super) fn pop_front(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.revocable -= u32::from(is_revocable(&event));
        Some(event)
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.events.shrink_to_fit();
    }

    /// Queues a progress report; it replaces an earlier one of the call that was not polled (PROG-013).
    pub(super) fn push_progress(&mut self, call: CallKey, progress: Progress) {
        let unread = self.revocable().rev().find_map(|event| match event {
            Event::Progress { call: other, progress } if *other == call => Some(progress),
            _ => None,
        });
        match unread {
            Some(old) => *old = progress,
            None => self.push_back(Event::Progress { call, progress }),
        }
    }

    /// Queues a change, unless an equal one was not polled yet.
    pub(super) fn push_change(&mut self, subscription: Option<SubscriptionKey>, change: Change) {
        let is_queued = self.revocable().any(|event| match event {
            Event::Changed { key, change: other } => *key == subscription && *other == change,
            _ => false,
        });
        if !is_queued {
            self.push_back(Event::Changed { key: subscription, change });
        }
    }

    /// Reports that an input request has ended, or removes its event if that was not polled.
    pub(super) fn withdraw_input(&mut self, id: InputId) {
        let found = self.revocable().position(|event| matches!(event, Event::Input(input) if input.id == id));
        match found {
            Some(index) => {
                self.revocable -= 1;
                self.events.remove(index);
            }
            None => self.push_back(Event::InputWithdrawn(id)),
        }
    }

    /// Removes the reports for a subscription.
    pub(super) fn remove_subscription(&mut self, subscription: SubscriptionKey) {
        if self.revocable == 0 {
            return;
        }
        let Self { events, revocable } = self;
        events.retain(|event| {
            let stays = match event {
                Event::Subscribed { key, .. } => *key != subscription,
                Event::Changed { key, .. } => *key != Some(subscription),
                _ => true,
            };
            *revocable -= u32::from(!stays);
            stays
        });
    }

    /// Returns all events if one of them may be merged or removed, and none otherwise.
    fn revocable(&mut self) -> impl DoubleEndedIterator<Item = &mut Event> + ExactSizeIterator {
        let searched = if self.revocable == 0 { 0 } else { self.events.len() };
        self.events.range_mut(..searched)
    }
}

// Log messages of the server (LOG).

/// A log message of the server (LOG-003). It is untrusted: escape it before it is displayed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// Severity of the message.
    pub level: LoggingLevel,
    /// Part of the server that logged the message.
    pub logger: Option<String>,
    /// The message: any JSON value.
    pub data: RawJson,
    /// The call that the message is about, if the transport shows it; never on a byte stream.
    pub call: Option<CallKey>,
}

/// The log level that the application has set.
#[derive(Debug)]
pub(super) struct LogSettings {
    /// The least severe level that is reported; `None` for no messages.
    level: Option<LoggingLevel>,
    /// Members of `_meta` for modern requests at this level.
    request_meta: Vec<u8>,
}

impl LogSettings {
    pub(super) fn request_meta(&self) -> &[u8] {
        &self.request_meta
    }
}

impl LogSettings {
    /// Creates the settings for a level. `request_meta` is that of requests without a level; none for a legacy server.
    pub(super) fn new(level: Option<LoggingLevel>, request_meta: Option<&[u8]>) -> Self {
        let mut with_level = Vec::new();
        if let Some(request_meta) = request_meta {
            with_level.extend_from_slice(request_meta);
            if let Some(level) = &level {
                with_level.push(b',');
                write_str(&mut with_level, meta::LOG_LEVEL);
                with_level.push(b':');
                write_str(&mut with_level, level.as_str());
            }
        }
        Self { level, request_meta: with_level }
    }

    /// Returns the least severe level that is reported; `None` for no messages.
    pub(super) const fn level(&self) -> Option<&LoggingLevel> {
        self.level.as_ref()
    }
}

impl LogMessage {
    /// Parses the parameters of `notifications/message`, which lie in `frame`.
    pub(super) fn parse(frame: &Bytes, params: &[u8]) -> Option<Self> {
        let (mut level, mut logger, mut data) = (None, Some(None), None);
        object_members(params, |name, value| match name {
            b"level" => level = string(value).map(|word| LoggingLevel::from(&*word)),
            b"logger" if value == b"null" => logger = Some(None),
            b"logger" => logger = string(value).map(Cow::into_owned).map(Some),
            b"data" => data = Some(RawJson::trusted(frame.slice_ref(value))),
            _ => {}
        });
        Some(Self { level: level?, logger: logger?, data: data?, call: None })
    }
}

#[cfg(test)]
mod log_tests {
    use super::*;

    // covers: META-012
    #[test]
    fn level_is_added_to_the_members_of_modern_requests() {
        let settings = |level| LogSettings::new(level, Some(b"\"a\":1"));
        assert_eq!(settings(None).request_meta(), b"\"a\":1");
        let with_level = settings(Some(LoggingLevel::Error));
        assert_eq!(with_level.request_meta(), b"\"a\":1,\"io.modelcontextprotocol/logLevel\":\"error\"");
        assert_eq!(with_level.level(), Some(&LoggingLevel::Error));
        assert_eq!(LogSettings::new(Some(LoggingLevel::Error), None).request_meta(), b"");
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::{Input, InputSource};
    use super::*;
    use crate::model::InputRequest;
    use crate::slab::Key;
    use alloc::boxed::Box;

    fn input(serial: u64) -> InputId {
        InputId(InputSource::Round(Key { slot: 0, generation: 0 }, serial))
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn input_event(serial: u64) -> Event {
        let request = Box::new(InputRequest::ListRoots(None));
        Event::Input(Input { id: input(serial), call: None, key: None, request })
    }

    fn check(queue: &EventQueue) {
        let count = queue.events.iter().filter(|event| is_revocable(event)).count();
        assert_eq!(queue.revocable as usize, count);
    }

    #[test]
    fn number_of_revocable_events_equals_a_count_after_every_step() {
        let mut queue = EventQueue::default();
        let subscription = |n: u64| SubscriptionKey::new(n % 3, Key { slot: 0, generation: 0 });
        for step in 0..2_000_u64 {
            let call = CallKey(Key { slot: (step % 5) as u32, generation: 0 });
            match step * 7 % 11 {
                0 | 1 => queue.push_back(input_event(step)),
                2 => queue.push_progress(call, Progress::new(step as f64)),
                3 => queue.push_change(Some(subscription(step)), Change::Tools),
                4 => queue.push_change(None, Change::Resources),
                5 => queue.remove_subscription(subscription(step)),
                6 | 7 => queue.withdraw_input(input(step.saturating_sub(5))),
                8 => queue.push_back(Event::ElicitationComplete("e".into())),
                _ => drop(queue.pop_front()),
            }
            check(&queue);
        }
        while queue.pop_front().is_some() {
            check(&queue);
        }
        assert!(queue.is_empty() && queue.revocable == 0);
    }

    #[test]
    fn withdrawn_input_removes_its_unpolled_event_or_is_reported() {
        let mut queue = EventQueue::default();
        queue.push_back(input_event(1));
        queue.push_back(input_event(2));
        assert!(queue.pop_front().is_some());
        queue.withdraw_input(input(2));
        assert!(queue.is_empty());
        queue.withdraw_input(input(1));
        assert!(matches!(queue.pop_front(), Some(Event::InputWithdrawn(id)) if id == input(1)));
    }

    #[test]
    fn progress_of_another_call_is_not_merged() {
        let mut queue = EventQueue::default();
        let call = |slot| CallKey(Key { slot, generation: 0 });
        for (slot, progress) in [(0, 1.0), (1, 2.0), (0, 3.0)] {
            queue.push_progress(call(slot), Progress::new(progress));
        }
        for (slot, value) in [(0, 3.0), (1, 2.0)] {
            let Some(Event::Progress { call: of, progress }) = queue.pop_front() else {
                panic!("no progress")
            };
            assert_eq!((of, progress.progress), (call(slot), value));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn equal_change_and_newer_progress_are_merged_until_polled() {
        let (mut queue, call) = (EventQueue::default(), CallKey(Key { slot: 0, generation: 0 }));
        queue.push_change(None, Change::Tools);
        queue.push_change(None, Change::Tools);
        queue.push_progress(call, Progress::new(1.0));
        queue.push_progress(call, Progress::new(2.0));
        assert!(queue.len() == 2 && queue.pop_front().is_some());
        assert!(
            matches!(queue.pop_front(), Some(Event::Progress { progress, .. }) if progress.progress == 2.0)
        );
        queue.push_change(None, Change::Tools);
        assert_eq!(queue.len(), 1);
    }
}
