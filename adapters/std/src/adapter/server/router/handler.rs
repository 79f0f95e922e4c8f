//! Routers as handlers of servers.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use std::panic::{catch_unwind, resume_unwind};

#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::{Call, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, RawJson, RpcError};

use super::updates::lock;
use super::{Flavor, Functions, FutureFlavor, Router, SharedFunctions};
use crate::adapter::server::async_handler::AsyncHandler;
use crate::adapter::server::cx::{Answered, AsyncCx, CallCx, Cx, RunningCall};
use crate::adapter::server::handler::{Handler, HandlerFailure};
use crate::adapter::server::tasks::TaskSource;
use crate::catch::catch_async;

impl<F: Flavor> Router<F> {
    /// Applies the scheduled updates and publishes the changes, while other calls keep the state with which they
    /// started. Updates that the caller scheduled are applied on return.
    fn apply_pending_updates<B: RunningCall>(&self, cx: &mut CallCx<B>) {
        if self.updates.0.is_empty() {
            return;
        }
        // One thread at a time.
        let _guard = lock(&self.update_lock);
        let mut next = Self::from_state(self.state.load(), self.updates.0.clone());
        let changes = next.apply_updates(self.updates.0.take(), cx.running_call());
        self.state.store(next.state.load());
        for change in changes {
            cx.publish(change);
        }
    }

    /// Reports a failure to the author of the handlers; see [`Handler::failed`].
    pub fn handle_failure(&self, call: &Call, failure: &HandlerFailure) {
        self.state.load().report_failure(call, failure);
    }

    /// Visits the name and the input schema of each tool; see [`Handler::for_each_tool`].
    pub fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.state.load().core.tools().for_each(|tool| visit(&tool.name, &tool.input_schema));
    }

    /// Returns the tasks of the router; see [`Handler::tasks`].
    pub fn task_source(&self) -> Option<TaskSource> {
        self.state.load().tasks.clone()
    }

    /// Takes an event other than a call; see [`Handler::event`].
    pub fn handle_event(&self, event: &Event) {
        if let (Event::ResourceInterest { uri, is_subscribed }, Some(interest)) =
            (event, &self.state.load().on_interest)
        {
            interest(uri, *is_subscribed);
        }
    }
}

impl<R: 'static> Router<SharedFunctions<R>> {
    /// Answers a call. Several threads may do so at a time; each call sees the router as it was when it arrived.
    ///
    /// # Errors
    ///
    /// The error for the client.
    pub fn handle_call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&state, cx, call)));
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<R: 'static> Handler for Router<Functions<R>> {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.start_serving();
        let state = self.state.load();
        // The caller catches the panic and keeps using the router, so pending updates are applied first.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&state, cx, call)));
        // Released, so that the update can modify the state in place instead of copying it.
        drop(state);
        let changes = self.updates.0.take();
        for change in self.apply_updates(changes, call) {
            cx.publish(change);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn notification(&mut self, notification: &Notification) {
        self.handle_notification(notification);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.handle_diagnostic(diagnostic);
    }

    fn failed(&mut self, call: &Call, failure: &HandlerFailure) {
        self.handle_failure(call, failure);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.handle_tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&mut self, record: &HeadRecord) {
        self.handle_head(record);
    }

    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Self::for_each_tool(self, visit);
    }

    fn tasks(&mut self) -> Option<TaskSource> {
        self.task_source()
    }

    fn event(&mut self, event: &Event) {
        self.handle_event(event);
    }
}

impl<F: FutureFlavor> AsyncHandler for Router<F> {
    async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError> {
        let state = self.state.load();
        let outcome = {
            // Pinned here, as it is large and would be moved into `catch_async`.
            let answer = pin!(self.answer_async(&state, cx, call));
            catch_async(answer).await
        };
        self.apply_pending_updates(cx);
        outcome.unwrap_or_else(|panic| resume_unwind(Box::new(panic.message().to_owned())))
    }

    fn notification(&self, notification: &Notification) {
        self.handle_notification(notification);
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.handle_diagnostic(diagnostic);
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        self.handle_failure(call, failure);
    }

    fn tap(&self, record: &TapRecord) {
        self.handle_tap(record);
    }

    #[cfg(feature = "http")]
    fn head(&self, record: &HeadRecord) {
        self.handle_head(record);
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        Self::for_each_tool(self, visit);
    }

    fn tasks(&self) -> Option<TaskSource> {
        self.task_source()
    }

    fn event(&self, event: &Event) {
        self.handle_event(event);
    }
}
