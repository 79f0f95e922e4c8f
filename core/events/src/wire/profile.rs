//! Profiles, in which implementations of the extension differ, and the capability.

use mcp_proto::{Capabilities, RawJson, Version};
use serde::{Deserialize, Serialize};

use super::{CAPABILITY, EXTENSION, ErrorCodes, LIST_CHANGED_SETTING};

/// How a server forms `webhook-id` of an event (EVT-091).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WebhookIdRule {
    /// It is the event id.
    EventId,
    /// It is an id of the message: `msg_event_…`.
    Message,
}

/// Choices on the wire in which implementations differ, for one peer.
///
/// Reading does not depend on it: each side reads what any profile writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Profile {
    /// Error codes.
    pub codes: ErrorCodes,
    /// `webhook-id` of events.
    pub webhook_id: WebhookIdRule,
    /// Whether [`EXTENSION`] is declared.
    pub declares_extension: bool,
    /// Whether [`CAPABILITY`] is declared.
    pub declares_member: bool,
    /// Whether the end of an unknown subscription is a success instead of `NotFound` (EVT-130).
    pub unsubscribe_is_idempotent: bool,
    /// Whether `gap` and `terminated` are sent to webhooks (EVT-104).
    pub has_control_envelopes: bool,
    /// Whether poll and webhook exist under revisions with a handshake (EVT-008).
    pub is_legacy_allowed: bool,
}

impl Profile {
    /// SEP-3415, declared in both places, so that every client finds it.
    pub const SEP: Self = Self {
        codes: ErrorCodes::Sep,
        webhook_id: WebhookIdRule::EventId,
        declares_extension: true,
        declares_member: true,
        unsubscribe_is_idempotent: false,
        has_control_envelopes: true,
        is_legacy_allowed: false,
    };

    /// ChatGPT, and clients that follow it.
    pub const CHATGPT: Self = Self {
        codes: ErrorCodes::Sketch,
        webhook_id: WebhookIdRule::EventId,
        declares_extension: true,
        declares_member: true,
        unsubscribe_is_idempotent: true,
        has_control_envelopes: false,
        is_legacy_allowed: true,
    };

    /// Declares events among the capabilities of a server (EVT-001, EVT-002).
    ///
    /// Clients of revisions with a handshake see a declaration only if their methods are there (EVT-008), and never
    /// `listChanged`: they have no `subscriptions/listen`.
    #[must_use]
    pub fn declare(&self, capabilities: Capabilities, events: EventsCapability) -> Capabilities {
        let legacy = EventsCapability::new();
        let declared =
            [(Version::V2024_11_05, legacy, self.is_legacy_allowed), (Version::V2026_07_28, events, true)];
        declared.into_iter().filter(|(.., is_declared)| *is_declared).fold(
            capabilities,
            |all, (since, events, _)| {
                let all = match self.declares_extension {
                    // The identifier is valid, so nothing is refused.
                    true => all.clone().extension_since(EXTENSION, events.settings(), since).unwrap_or(all),
                    false => all,
                };
                if self.declares_member { all.with_member(CAPABILITY, events.settings(), since) } else { all }
            },
        )
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::SEP
    }
}

/// What a server declares about events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventsCapability {
    /// Whether it sends `notifications/events/list_changed`.
    pub list_changed: bool,
}

impl EventsCapability {
    /// Creates the declaration of a server that does not announce changes.
    #[must_use]
    pub const fn new() -> Self {
        Self { list_changed: false }
    }

    fn settings(self) -> RawJson {
        let settings = if self.list_changed { r#"{"listChanged":true}"# } else { "{}" };
        RawJson::new(settings).unwrap_or_else(|_| RawJson::empty_object())
    }

    /// Sets whether changes of the list are announced.
    #[must_use]
    pub const fn list_changed(mut self, list_changed: bool) -> Self {
        self.list_changed = list_changed;
        self
    }
}

/// Returns what a capability object declares about events, in either place (EVT-001, EVT-004).
///
/// A setting that is not an object is malformed and declares nothing; `events` may be `true`. If both places declare
/// events, one `listChanged` is enough.
#[must_use]
pub fn declared(capabilities: &RawJson) -> Option<EventsCapability> {
    let extension = capabilities.member("extensions").and_then(|map| map.member(EXTENSION));
    let member = capabilities.member(CAPABILITY);
    let places =
        [extension.filter(RawJson::is_object), member.filter(|m| m.is_object() || m.as_str() == "true")];
    places.into_iter().flatten().fold(None, |found: Option<EventsCapability>, settings| {
        let list_changed = settings.member(LIST_CHANGED_SETTING).is_some_and(|flag| flag.as_str() == "true");
        Some(EventsCapability { list_changed: list_changed || found.is_some_and(|found| found.list_changed) })
    })
}
