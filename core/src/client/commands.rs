//! Commands of the application besides calls: answers, subscriptions, the log level.

use serde::Serialize;

use super::engine::Engine;
use super::event::{LogSettings, SubscriptionKey};
use super::input::{InputId, InputSource, RefuseTarget, check_input_response};
use crate::calls::inbound::{CallId, Progress, SendStatus};
use crate::calls::outbound::CallPurpose;
use crate::error::UseError;
use crate::methods::{self, Capability};
use crate::model::{LoggingLevel, SubscriptionFilter};
use crate::rpc::{self, RpcError};
use crate::time::Instant;
use crate::version::Version;

impl Engine {
    /// Answers an input request.
    ///
    /// `response` is an [`ElicitResult`](crate::model::ElicitResult), a
    /// [`CreateMessageResult`](crate::model::CreateMessageResult) or a
    /// [`ListRootsResult`](crate::model::ListRootsResult), depending on the request. It is shaped for the negotiated
    /// revision. Whether it fits a form is checked by [`InputRequest::check_response`](crate::model::InputRequest::check_response) only. A user who declines or
    /// closes a form gives a valid response. The last response of a round repeats the modern call, under its old key.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the input request has ended. [`UseError::InvalidInputResponse`] if the response is of
    /// another kind or fails [`InputResponse::validate`](crate::model::InputResponse::validate). [`UseError::ReservedKey`] if it has `resultType`. An encoding
    /// error if it cannot be serialized. [`UseError::Full`] if a task cannot keep it (`InputTaskLimits::max_bytes`); the
    /// input request stays open.
    pub fn answer<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        input: InputId,
        response: &T,
    ) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        match input.0 {
            InputSource::Request(key) => {
                let (method, task) = self.calls.legacy_input(key).ok_or(UseError::Stale)?;
                // A response that does not pass its check leaves the request open, so that the application can answer
                // again.
                self.common.write_result(key, response, task, |members, text| {
                    check_input_response(method, members, text)
                })?;
                self.calls.end_input_request(&mut self.common, key);
                Ok(())
            }
            InputSource::Round(call, number) => {
                self.calls.answer_round(&mut self.common, call, number, response)
            }
            InputSource::Task(serial) => self.calls.answer_task(&mut self.common, serial, response),
            InputSource::Hosted(serial) => self.calls.answer_hosted(&mut self.common, serial, response),
        }
    }

    /// Refuses a request of the server.
    ///
    /// A legacy server receives the error as the answer. In the modern era the call ends with
    /// [`CallError::InputRefused`](crate::CallError::InputRefused), and the server receives nothing more (MRTR-031, SAMP-027, ROOT-007),
    /// except that the task of the call is cancelled.
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
        self.common.endpoint.tick(now);
        match target.into() {
            RefuseTarget::Request(CallId(key)) => self.common.write_error(key, error),
            RefuseTarget::Input(InputId(InputSource::Request(key))) => {
                self.common.write_error(key, error)?;
                self.calls.end_input_request(&mut self.common, key);
                Ok(())
            }
            RefuseTarget::Input(InputId(InputSource::Round(call, number))) => {
                self.calls.refuse_round(&mut self.common, call, number, error)
            }
            RefuseTarget::Input(InputId(InputSource::Task(serial))) => {
                self.calls.refuse_task(&mut self.common, serial, error)
            }
            RefuseTarget::Input(InputId(InputSource::Hosted(serial))) => {
                self.calls.refuse_hosted(&mut self.common, serial, error)
            }
        }
    }

    /// Answers a request of the server with a result, which must serialize as a JSON object.
    ///
    /// Types of [`model`](crate::model) are shaped for the negotiated revision.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended, or an encoding error.
    pub fn respond<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        request: CallId,
        result: &T,
    ) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        self.common.write_result(request.0, result, None, |_, _| Ok(()))
    }

    /// Notifies a legacy server that the roots have changed, if the client declared `roots.listChanged` (ROOT-004).
    ///
    /// Does nothing in the modern era, where the server requests the roots each time.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`] if there is no open connection, [`UseError::Full`] if the outbox
    /// is full.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn notify_roots_changed(&mut self, now: Instant) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        let (main, _) = self.common.ready_channel()?;
        if !self.common.is_modern()
            && self.common.config.settings.capabilities.has(Capability::RootsListChanged)
        {
            self.common.check_capacity(1)?;
            self.common.endpoint.send(main, 0, |out| {
                rpc::notification_head(out, methods::ROOTS_CHANGED);
                rpc::end(out);
            });
        }
        Ok(())
    }

    /// Reports progress of a request of the server (legacy; PROG-001).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended.
    pub fn progress(
        &mut self,
        now: Instant,
        request: CallId,
        progress: Progress,
    ) -> Result<SendStatus, UseError> {
        self.common.endpoint.tick(now);
        self.common.endpoint.report_progress(request.0, progress, None)
    }

    /// Subscribes to changes (SUB-001, SUB-010, RES-010, RES-013).
    ///
    /// [`Event::Subscribed`](super::Event::Subscribed) reports the part of the filter that the server honours; later
    /// changes arrive as [`Event::Changed`](super::Event::Changed). Earlier changes are not reported, so read the lists
    /// and resources after that event. [`Event::SubscriptionEnded`](super::Event::SubscriptionEnded) reports that the
    /// server has ended the subscription. On a byte stream, subscriptions end with the connection and are not renewed
    /// (SUB-016, SUB-017). An acknowledged subscription has no timeout (SUB-018).
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`] if there is no open connection. [`UseError::Full`] if there are
    /// too many subscriptions or resources, a URI is too long, or no request can be sent.
    pub fn subscribe(
        &mut self,
        now: Instant,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError> {
        self.common.endpoint.tick(now);
        self.subscriptions.subscribe(&mut self.common, filter)
    }

    /// Ends a subscription. Nothing more is reported for it (SUB-012).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the subscription has ended, [`UseError::Full`] if no request can be sent.
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionKey) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        self.subscriptions.unsubscribe(&mut self.common, subscription)
    }

    /// Sets the least severe level of log messages, or turns them off (LOG-004, LOG-007, META-012).
    ///
    /// A legacy server receives the level immediately; messages that it sends in spite of `None` are dropped. A modern
    /// server receives the level with each later request. Before the first call, a legacy server chooses the level, and
    /// a modern server sends no messages.
    ///
    /// # Errors
    ///
    /// [`UseError::MissingPeerCapability`] if the server did not declare `logging`. [`UseError::NotInVersion`] for an unknown
    /// level. [`UseError::NotReady`], [`UseError::Closed`] or [`UseError::Full`] if no request can be sent.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn set_log_level(&mut self, now: Instant, level: Option<LoggingLevel>) -> Result<(), UseError> {
        #[derive(Serialize)]
        struct SetLogLevelParams<'a> {
            level: &'a str,
        }
        self.common.endpoint.tick(now);
        let (main, version) = self.common.ready_channel()?;
        if !self.common.peer_has(Capability::Logging) {
            return Err(UseError::MissingPeerCapability(Capability::Logging));
        }
        if let Some(LoggingLevel::Other(word)) = &level {
            // The server would refuse each request for it (LOG-006, LOG-010).
            let feature = alloc::format!("log level {}", rpc::clip(word));
            return Err(UseError::NotInVersion { feature, version });
        }
        if self.common.is_modern() {
            // The level is in `_meta` of each later request, so nothing is sent now (META-012).
            let request_meta = self.common.config.request_meta(Version::V2026_07_28);
            let settings = LogSettings::new(level, Some(request_meta));
            self.common.log = Some(settings);
            return Ok(());
        }
        // No level turns messages off, so the highest one is set.
        let least = level.as_ref().unwrap_or(&LoggingLevel::Emergency);
        self.common.check_capacity(1)?;
        let params = SetLogLevelParams { level: least.as_str() };
        self.common.send_internal_request(main, CallPurpose::Internal, methods::SET_LEVEL, &params)?;
        // Recorded last: a refused command changes nothing (DESIGN-27).
        self.common.log = Some(LogSettings::new(level, None));
        Ok(())
    }
}
