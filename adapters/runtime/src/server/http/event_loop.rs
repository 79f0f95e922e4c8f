//! The event loop of an HTTP server, independent of the type of its handler.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;

use mcp_proto::http::server as http;
use mcp_proto::http::server::{Denial, ExchangeId, TokenRequest};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Event};
use mcp_proto::{Entropy, Instant};
use mcp_std::io::Listener;
use mcp_std::{catch, entropy};

use super::shards::ShardMessage;
use super::state::{State, TokenOutcome, TokenQueue, TokenWorkers};
use crate::Error;
use crate::inline_map::ErasedBox;
use crate::server::attachments::Attachments;
use crate::server::connections::Connections;
use crate::server::dispatcher::Dispatcher;
use crate::server::handler::Handler;
use crate::server::server_loop::{ServerLoop as _, dispatch_event};
use crate::server::session_sharing::ShareSessions;
use crate::server::stream::{CallRunner, SendCallRunner};
use crate::server::stream_core::MAX_PASSES_PER_TURN;
use crate::server::tasks::StorePlace;

/// The server without its handler.
#[derive(Debug)]
pub(super) struct HttpLoop {
    pub(super) state: State,
    pub(super) dispatcher: Dispatcher,
    pub(super) remote_runner: RemoteRunner,
    /// Decides about the tokens that need waiting.
    pub(super) tokens: Option<TokenQueue>,
    /// Ends a wait of the loop.
    waker: Option<Waker>,
    /// Whether the last turn ended before all work was done.
    pub(super) has_more_work: bool,
}

/// Starts remote handlers. `None` if handlers run on this thread.
pub(super) struct RemoteRunner(pub(super) Option<Box<SendCallRunner>>);

/// A handler as the loop uses it.
///
/// Code that reads the schemas of tools becomes part of a program only if its handler lists tools.
pub(super) trait LoopHandler {
    fn as_handler(&mut self) -> &mut dyn Handler;
    fn register_tools(&mut self, state: &mut State) -> Result<(), Error>;
}

impl<H: Handler> LoopHandler for H {
    fn as_handler(&mut self) -> &mut dyn Handler {
        self
    }

    fn register_tools(&mut self, state: &mut State) -> Result<(), Error> {
        state.register_tools(self)
    }
}

impl HttpLoop {
    pub(super) fn new(state: State) -> ErasedBox<Self> {
        ErasedBox::new(Self {
            state,
            dispatcher: Dispatcher::new(1),
            remote_runner: RemoteRunner(None),
            tokens: None,
            waker: None,
            has_more_work: false,
        })
    }

    pub(super) fn bind(
        listener: Listener,
        config: Config,
        http: http::Config,
    ) -> Result<ErasedBox<Self>, Error> {
        let connections = Connections::new(listener)?;
        let seed = entropy::seed()?;
        let anchor = connections.anchor();
        // A separate key, so that sealed state is independent of session ids.
        let keys = entropy::seed()?;
        let config = config.max_memory_by_default(mcp_std::memory::max_memory());
        let config = Arc::new(config.seal_by_default(|| Some((Keys::new(keys), anchor))));
        let http = Arc::new(http);
        Ok(Self::new(State::new(connections, config, http, Entropy::new(seed, entropy::nonce()))))
    }

    pub(super) fn waker(&mut self) -> Result<Waker, Error> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        Ok(self.waker.insert(self.state.connections.waker()?).clone())
    }

    /// Lets messages of handlers and commands wake the loop.
    pub(super) fn enable_waker(&mut self) -> Result<(), Error> {
        let waker = self.waker()?;
        self.dispatcher.register(&waker);
        Ok(())
    }

    pub(super) fn poll_io(&mut self) -> Result<(), Error> {
        let now = self.state.connections.tick();
        self.state.wait_until(Some(now));
        self.state.error.take().map_or(Ok(()), |error| Err(Error::Io(error)))
    }

    pub(super) fn prepare_wait(&mut self) -> Result<Option<Instant>, Error> {
        let reads = self.state.can_read();
        let due = self.state.connections.prepare_wait(&mut self.state.server, reads)?;
        let ends = self.state.shutdown_deadline.into_iter().chain(self.state.next_end.map(|(at, _)| at));
        Ok(due.into_iter().chain(ends).chain(self.dispatcher.next_deadline()).min())
    }

    /// Runs one turn of the event loop. Returns `false` when the server has stopped.
    pub(super) fn turn(
        &mut self,
        handler: &mut dyn LoopHandler,
        until: Option<Instant>,
    ) -> Result<bool, Error> {
        let has_messages_first = self.dispatcher.processes_messages_first();
        // The last turn ended before all was done, or there is more to do, so this one does not wait.
        let has_more_work = core::mem::take(&mut self.has_more_work) || self.dispatcher.has_messages();
        let at_once = has_more_work.then(|| self.state.connections.now());
        let held = self.dispatcher.next_deadline();
        let ends = self.state.shutdown_deadline.into_iter().chain(self.state.next_end.map(|(at, _)| at));
        let until = until.into_iter().chain(ends).chain(at_once).chain(held).min();
        // Commands of the application may have produced output since the last turn.
        self.state.write();
        self.dispatch_tap(handler);
        if !self.is_over() && !has_messages_first {
            self.state.wait_until(until);
            if let Some(error) = self.state.error.take() {
                return Err(Error::Io(error));
            }
        }
        // Taken out, because `process` borrows the whole loop.
        let mut runner = self.remote_runner.0.take();
        self.process(handler, runner.as_mut().map(|runner| &mut **runner as &mut CallRunner<'_>));
        self.remote_runner.0 = runner;
        Ok(!self.is_over())
    }

    /// Takes what the handler gives to its loop.
    pub(super) fn attach(&mut self, attachments: &Attachments) -> Result<(), Error> {
        if attachments.is_empty() {
            return Ok(());
        }
        // The store of tasks and the extensions wake the loop.
        self.enable_waker()?;
        let (anchor, place) =
            (self.state.connections.anchor(), StorePlace::Worker(self.dispatcher.commands()));
        attachments.install(&mut self.dispatcher, &mut self.state, anchor, place)
    }

    /// Returns whether the server has ended: it was shut down, no connection is open, and no task runs.
    pub(super) fn is_over(&self) -> bool {
        let is_past = |at| at <= self.state.connections.now();
        let has_tasks =
            self.dispatcher.running_tasks() > 0 && !self.state.shutdown_deadline.is_some_and(is_past);
        self.state.connections.is_over() && !has_tasks && !self.state.is_ending()
    }

    /// Lets stores write what they have not written, once the server has ended.
    pub(super) fn finish_stores(&mut self) {
        if self.is_over() {
            self.dispatcher.finish_tasks(&mut self.state);
            if let Some(sharing) = self.state.sharing.take() {
                sharing.finish();
            }
        }
    }

    /// Does all work that is ready. Returns whether there was any.
    pub(super) fn process(
        &mut self,
        handler: &mut dyn LoopHandler,
        mut runner: Option<&mut CallRunner<'_>>,
    ) -> bool {
        self.state.end_if_due();
        if self.state.shutdown_deadline.is_some_and(|at| at <= self.state.connections.now()) {
            // Tell the clients about aborted calls, as far as that is possible without waiting.
            self.state.write();
            self.state.connections.abandon(&mut self.state.server);
        }
        // One connection at a time, so that no answer waits for the requests of other connections.
        let mut progressed = self.process_events(handler, runner.as_deref_mut());
        while self.state.process_next_connection() {
            progressed = true;
            self.process_events(handler, runner.as_deref_mut());
        }
        self.finish_stores();
        progressed
    }

    /// Handles all events and writes all output, until only waiting is left. Returns whether there was any.
    ///
    /// Stops after [`MAX_PASSES_PER_TURN`], so that other connections get their turn.
    fn process_events(
        &mut self,
        handler: &mut dyn LoopHandler,
        mut runner: Option<&mut CallRunner<'_>>,
    ) -> bool {
        let mut any = false;
        for _ in 0..MAX_PASSES_PER_TURN {
            let mut progressed = self.state.process_shard_messages();
            progressed |= self.process_messages(handler);
            while let Some(event) = self.state.next_event() {
                self.dispatch_tap(handler);
                self.handle_event(handler, event, runner.is_some());
                progressed = true;
            }
            if let Some(runner) = &mut runner {
                runner(&mut core::iter::from_fn(|| self.dispatcher.next_call(&mut self.state)));
                // Handlers that ended immediately do not need another pass.
                progressed |= self.process_messages(handler);
            }
            progressed |= self.dispatcher.drive(&mut self.state);
            let overloaded = self.dispatcher.is_congested(self.state.config.effective_limits());
            // HTTP refuses requests early instead of letting them wait (DESIGN-14).
            self.state.server.set_overloaded(overloaded);
            if core::mem::take(&mut self.state.tools_changed) {
                // A schema that cannot be used is not checked. It was reported at the start.
                let _ = handler.register_tools(&mut self.state);
            }
            progressed |= self.validate_tokens();
            progressed |= self.state.drive_sharing();
            progressed |= self.state.write();
            self.dispatch_tap(handler);
            if !progressed {
                return any;
            }
            any = true;
        }
        self.has_more_work = true;
        any
    }

    /// Applies messages of remote handlers and commands. Returns whether there were any.
    fn process_messages(&mut self, handler: &mut dyn LoopHandler) -> bool {
        let Self { state, dispatcher, .. } = self;
        dispatcher.process_messages(state, &mut |call, failure| {
            _ = catch(|| handler.as_handler().failed(call, failure))
        })
    }

    fn handle_event(&mut self, handler: &mut dyn LoopHandler, event: Event, is_remote: bool) {
        let event =
            if is_remote { self.dispatcher.accept_event(&mut self.state, event) } else { Some(event) };
        let Some(event) = event else { return };
        if matches!(event, Event::Call(_)) {
            // Answers to other calls must not wait for this handler.
            self.state.write();
        }
        dispatch_event(&mut self.state, &mut self.dispatcher, handler.as_handler(), &event);
        // The handler may have taken long: timeouts of the next output start now.
        self.state.connections.tick();
        if core::mem::take(&mut self.state.tools_changed) {
            // A schema that cannot be used was reported at the start.
            let _ = handler.register_tools(&mut self.state);
        }
    }

    /// Sets what takes sessions to a store.
    pub(super) fn set_sharing(&mut self, sharing: Box<dyn ShareSessions>) -> Result<(), Error> {
        sharing.register(&self.waker()?);
        let names = self.state.repeatable_tools.iter().cloned();
        if names.len() > 0 {
            self.state.server.shared_sessions().set_repeatable_tools(names);
        }
        self.state.sharing = Some(sharing);
        Ok(())
    }

    /// Sets what decides about tokens.
    pub(super) fn set_tokens(&mut self, tokens: TokenWorkers) {
        self.tokens = Some(TokenQueue::new(tokens, &mut self.state.server));
    }

    /// Has received tokens decided about. Returns whether there were any.
    fn validate_tokens(&mut self) -> bool {
        let mut any = false;
        // First: tokens whose exchange is gone leave their places to new ones.
        if let Some(tokens) = &mut self.tokens {
            tokens.discard(&self.state.server);
        }
        while let Some((exchange, request)) = self.state.pending_tokens.pop_front() {
            any = true;
            if let Some(outcome) = self.validate_token(exchange, request) {
                self.state.apply_token_outcome(exchange, outcome);
            }
        }
        any
    }

    /// Returns the decision about a token, or `None` if it arrives later.
    fn validate_token(&mut self, exchange: ExchangeId, request: TokenRequest) -> Option<TokenOutcome> {
        if self.tokens.is_none() {
            return Some(Err(Denial::invalid_token()));
        }
        if !self.state.shard_inbox.has_waker() {
            let Ok(waker) = self.waker() else { return Some(Err(Denial::Unavailable)) };
            self.state.shard_inbox.register(&waker);
        }
        let sender = self.state.shard_inbox.sender();
        // Bounded by the tokens that wait. The loop may have ended.
        let reply =
            Box::new(move |outcome| _ = sender.send_unbounded(ShardMessage::Token(exchange, outcome)));
        self.tokens.as_mut()?.submit(exchange, request, reply).err().map(Err)
    }

    fn dispatch_tap(&mut self, handler: &mut dyn LoopHandler) {
        while let Some(record) = self.state.connections.poll_head() {
            let _ = catch(|| handler.as_handler().head(&record));
        }
        while let Some(record) = self.state.server.engine().poll_tap() {
            let _ = catch(|| handler.as_handler().tap(&record));
        }
    }
}

impl fmt::Debug for RemoteRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteRunner").field(&self.0.is_some()).finish()
    }
}
