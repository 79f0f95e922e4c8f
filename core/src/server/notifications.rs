//! Notifications that the application sends: changes, log messages, progress, custom ones.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::audience::Announcement;
use super::channel::{LegacySession, principal, session};
use super::config::Config;
use super::engine::Engine;
use super::log::{self, LogOutcome, LogOutput, Threshold};
use super::tasks::unlisten;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::{CallId, Progress, SendStatus};
use crate::deprecation::DeprecatedFeature;
use crate::diagnostic::Diagnostic;
use crate::error::UseError;
use crate::json::{max_escaped_len, write_str};
use crate::methods::{self, Capability};
use crate::model::LoggingLevel;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::{rpc, shape};

/// Time until the outbox of a slow peer is checked again.
const RETRY_DELAY: core::time::Duration = core::time::Duration::from_millis(50);

impl Engine {
    /// Publishes a change to its audience among all subscribers. Returns their number.
    ///
    /// A [`Change`](crate::Change) is for everyone, an [`Announcement`] has its audience. The [caller](super::Caller) of a
    /// subscription is that of its `subscriptions/listen`, or of its session. Changes of a resource get to know only those
    /// of its [audience](super::Config::resource_audience), too.
    ///
    /// Modern clients are notified on each `subscriptions/listen` whose filter matches (SUB-003, SUB-008). Legacy
    /// sessions are notified if the capability promises it (RES-012, PROMPT-009) or if they subscribed to the resource
    /// (RES-011, RES-028); they have no [custom lists](crate::CustomList). Notifications are level-triggered: while one
    /// waits to be sent, an equal change adds none. A peer that does not read is notified when it does. URIs are compared
    /// literally.
    pub fn publish<'a>(&mut self, now: Instant, change: impl Into<Announcement<'a>>) -> usize {
        self.endpoint.tick(now);
        self.changes.publish(&mut self.endpoint, &self.config, &change.into())
    }

    /// Returns the URIs of all resources that clients subscribe to, as the clients spelled them.
    ///
    /// Useful for an application that only knows that some resources have changed.
    pub fn subscribed_uris(&self) -> impl Iterator<Item = &str> {
        self.changes.uris()
    }

    /// Ends every `subscriptions/listen` of a channel gracefully (SUB-013, SUB-014).
    ///
    /// The client learns that its subscriptions have ended. Its other calls continue.
    pub fn end_subscriptions(&mut self, now: Instant, channel: ChannelId) {
        self.endpoint.tick(now);
        let unsubscribed = self.changes.end_gracefully(&mut self.endpoint, channel.0);
        self.events.extend(unsubscribed);
        unlisten(&mut self.tasks, channel.0, None);
    }

    /// Ends every `subscriptions/listen` of all channels gracefully.
    ///
    /// See [`end_subscriptions`](Self::end_subscriptions). Over HTTP each subscription has a channel of its own.
    pub fn end_all_subscriptions(&mut self, now: Instant) {
        for channel in self.endpoint.open_channels() {
            self.end_subscriptions(now, ChannelId(channel));
        }
    }

    /// Sends a log message about a call.
    ///
    /// A modern client sets the level in the request (LOG-007, LOG-008). A legacy client sets it for its session, and
    /// gets all messages before it does (LOG-005). Messages are rate-limited like progress: the latest message that was
    /// held back is sent when the rate allows it. `data` is any JSON value; it must not contain secrets (LOG-013).
    ///
    /// # Errors
    ///
    /// [`UseError::NotDeclared`] without the capability `logging`, [`UseError::Stale`] if the call has ended,
    /// [`UseError::ReservedMethod`] for an unknown level, or an encoding error.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    pub fn log<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        call: CallId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        let severity = log_severity(&self.config, level)?;
        let record = self.endpoint.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let threshold = match record.version.era() {
            Era::Modern => record.log_threshold,
            Era::Legacy => threshold(session(&self.endpoint, record.channel)),
        };
        if severity < threshold || self.is_run(call.0) {
            return Ok(SendStatus::Dropped); // TASK-127
        }
        let mut message = Vec::new();
        log::write_log_message(&mut message, level, logger, data)?;
        Ok(self.endpoint.send_log(call.0, message))
    }

    /// Sends a log message that belongs to no call to the session of a channel.
    ///
    /// Only legacy sessions receive such messages; without a session the message is dropped (LOG-009, LOG-016). Over
    /// HTTP it is also dropped while the session has no GET stream and 4 KiB wait for one. See [`log`](Self::log) for
    /// the rest.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log), and [`UseError::Closed`] if the channel is closed.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    pub fn log_session<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        level: &LoggingLevel,
        logger: Option<&str>,
        data: &T,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        // Messages that belong to no call use the GET stream of the session.
        let channel = self.endpoint.root_channel(channel.0);
        let severity = log_severity(&self.config, level)?;
        if severity < threshold(session(&self.endpoint, channel)) {
            return Ok(SendStatus::Dropped);
        }
        let mut message = Vec::new();
        log::write_log_message(&mut message, level, logger, data)?;
        if self.endpoint.channels.get(channel).is_none_or(|c| c.closed) {
            return Err(UseError::Closed);
        }
        Ok(self.advance_log(channel, Some(message)))
    }

    /// Passes a log message to the session of a channel, or the time if there is none, and does what follows.
    pub(super) fn advance_log(&mut self, channel: Key, message: Option<Vec<u8>>) -> SendStatus {
        let held = session(&self.endpoint, channel).map_or(0, |session| session.log.deferred_len());
        let has_room =
            self.endpoint.check_outbox_room(channel, message.as_ref().map_or(held, Vec::len)).is_ok();
        let (now, limits) = (self.endpoint.now, &*self.endpoint.limits);
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return SendStatus::Dropped };
        // Without memory the outbox counts as full, so the message waits and is not lost.
        let unsent = if has_room { c.outbox.len() } else { limits.outbox_high_water };
        let output = LogOutput { unsent, has_no_reader: c.role.stream.has_no_get_stream() };
        let Some(session) = c.role.session.as_mut() else { return SendStatus::Dropped };
        let outcome = match message {
            Some(message) => session.log.push(now, limits, output, message),
            None => session.log.handle_timeout(now, limits, output),
        };
        match outcome {
            LogOutcome::Dropped => SendStatus::Dropped,
            LogOutcome::Send(message) => {
                // Memory cannot be lacking: `check_outbox_room` has made this room above.
                self.endpoint.send(channel, message.len(), |out| out.extend_from_slice(&message));
                SendStatus::Queued
            }
            LogOutcome::Deferred(at) => {
                if let Some(at) = at {
                    // Not at once: the bucket may have a token while the outbox is full.
                    self.endpoint
                        .deadlines
                        .arm(at.max(now + RETRY_DELAY), EndpointTimer::SessionLog(channel));
                }
                SendStatus::Deferred
            }
        }
    }

    /// Returns the log level of the session of a channel, or `None` before the client sets one.
    ///
    /// For an application whose log messages come from elsewhere. Less severe messages are dropped in any case
    /// (LOG-004).
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[must_use]
    pub fn log_level(&self, channel: ChannelId) -> Option<LoggingLevel> {
        session(&self.endpoint, channel.0)?.log.level()
    }

    /// Reports progress of a call (PROG-006, PROG-010).
    ///
    /// Values are sent only if the client asked for them, only if they increase, and at a limited rate. The latest
    /// value that was held back is sent when the rate allows it (PROG-007, PROG-013). Progress of the run of a task is
    /// dropped while its client reads no stream of its session.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the call has ended.
    pub fn progress(
        &mut self,
        now: Instant,
        call: CallId,
        progress: Progress,
    ) -> Result<SendStatus, UseError> {
        self.endpoint.tick(now);
        // The channel of a run has no connection: the session that created its task is told.
        if self.is_run(call.0) {
            let reported = self.with_tasks(|tasks, cx| tasks.report_progress(cx, call.0, progress));
            return Ok(reported.unwrap_or(SendStatus::Dropped));
        }
        self.endpoint.report_progress(call.0, progress, None)
    }

    /// Sends a custom notification on a channel.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] or [`UseError::Closed`] if the channel is closed, [`UseError::Full`] if its outbox is full,
    /// [`UseError::ReservedMethod`] for a method of the protocol, or an encoding error.
    pub fn notify<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        method: &str,
        params: Option<&T>,
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        if self.tasks.as_ref().is_some_and(|tasks| tasks.channel == channel.0) {
            // No connection belongs to the runs of tasks.
            return Err(UseError::Closed);
        }
        let session = self.endpoint.channels.get(channel.0).and_then(|c| c.role.session.as_ref());
        let table = session.and_then(|s| shape::table(s.version));
        self.endpoint.notify(channel.0, method, params, table)
    }

    /// Notifies a client that an elicitation by URL is complete (2025-11-25 only; ELIC-025, ELIC-026).
    ///
    /// `id` is the `elicitationId` of a request that was sent to this client. Returns false if the revision has no such
    /// notification, or if [`Limits::outbox_high_water`](crate::Limits::outbox_high_water) bytes wait to be sent. Over
    /// HTTP, use the channel of [`SessionOpened`](super::Event::SessionOpened): that of a call ends with the call.
    pub fn notify_elicitation_complete(&mut self, now: Instant, channel: ChannelId, id: &str) -> bool {
        self.endpoint.tick(now);
        if session(&self.endpoint, channel.0).is_none_or(|s| s.version != Version::V2025_11_25) {
            return false;
        }
        let extra = max_escaped_len(id.len());
        if self.endpoint.check_outbox_room(channel.0, extra).is_err() {
            return false;
        }
        self.endpoint.send(channel.0, extra, |out| {
            rpc::notification_head(out, methods::ELICITATION_COMPLETE);
            out.extend_from_slice(b",\"params\":{\"elicitationId\":");
            write_str(out, id);
            out.push(b'}');
            rpc::end(out);
        });
        true
    }
}

/// Returns the least severe level that a session gets; none without a session.
fn threshold(session: Option<&LegacySession>) -> Threshold {
    session.map_or(log::NONE, |session| session.log.threshold())
}

/// Returns the number of a level.
///
/// # Errors
///
/// [`UseError::NotDeclared`] without the capability (LOG-001), [`UseError::ReservedMethod`] for an unknown level.
#[expect(deprecated, reason = "supported until its removal")]
fn log_severity(config: &Config, level: &LoggingLevel) -> Result<u8, UseError> {
    if !config.settings.capabilities.has(Capability::Logging) {
        return Err(UseError::NotDeclared(Capability::Logging));
    }
    level.severity().ok_or_else(|| UseError::ReservedMethod(level.as_str().into()))
}

// Deprecated features that clients use, each reported once per peer.

/// Reports that the client of a channel uses a deprecated feature, unless it was reported.
///
/// A peer is a session, a byte stream, or the principal of exchanges without a session.
#[cold]
pub(crate) fn report_deprecated(engine: &mut Engine, channel: Key, feature: DeprecatedFeature) {
    let channel = engine.endpoint.root_channel(channel);
    let principal = principal(&engine.endpoint, channel).map(String::from);
    let Some(c) = engine.endpoint.channels.get_mut(channel) else { return };
    // An exchange alone ends with its request, so it remembers nothing.
    let is_new = if c.role.stream.is_exchange() {
        engine.reported_features.insert(principal.as_deref(), feature)
    } else {
        c.role.reported_features.insert(feature)
    };
    if is_new {
        engine.diagnose(channel, Diagnostic::DeprecatedFeature { feature });
    }
}
