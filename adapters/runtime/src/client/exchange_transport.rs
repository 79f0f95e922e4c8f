//! The HTTP transport of a client over an HTTP implementation of the application.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::thread;

use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::head::ResponseHead;
use mcp_proto::http::client::{
    Action, Challenge, Client, Config as Http, Credential, ExchangeFailure, ExchangeId, OutgoingRequest, Url,
};
use mcp_proto::{Diagnostic, Instant};

use mcp_std::poll::Interest;
use mcp_std::process::ShutdownTimeouts;
use mcp_std::{Clock, Panic, catch};

use super::transport::{ClientTransport, CloseAction, ExitInfo, answer_challenge};

/// An exchange that the HTTP implementation of the application performs: a request that is sent, and its response.
///
/// Dropping it aborts the exchange.
pub trait Exchange: Send {
    /// Continues the exchange, and reports what has arrived of the response. Ready at the end of its body, or when it has
    /// failed; it is not polled again then.
    ///
    /// While [`ResponseSink::wants_body`] is false it returns `Pending` without reading; it is polled again when that has
    /// changed.
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Poll<Result<(), ExchangeFailure>>;
}

/// Starts exchanges. It must not block.
pub type StartExchange = Box<dyn FnMut(OutgoingRequest) -> Pin<Box<dyn Exchange>> + Send>;

/// Receives the response of an [`Exchange`].
pub struct ResponseSink<'a> {
    client: &'a mut Client,
    now: Instant,
    exchange: ExchangeId,
    is_full: bool,
}

impl ResponseSink<'_> {
    /// Receives the head, once.
    pub fn head(&mut self, head: &ResponseHead<'_>) {
        self.client.handle_head(self.now, self.exchange, head);
    }

    /// Returns whether the body is to be read on. Otherwise the connection has enough to do with what was read.
    pub fn wants_body(&mut self) -> bool {
        self.is_full = !self.client.wants_body(self.exchange);
        !self.is_full
    }

    /// Receives the next part of the body.
    pub fn body(&mut self, part: &[u8]) {
        self.client.handle_body(self.now, self.exchange, part);
    }
}

impl fmt::Debug for ResponseSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseSink").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// The exchanges of one client over an HTTP implementation of the application.
pub(crate) struct ExchangeTransport {
    client: Client,
    start: StartExchange,
    running: Vec<RunningExchange>,
    /// Woken when an exchange can continue.
    waker: Waker,
    /// Whether no task polls the connection any more. Exchanges belong to tasks, so all of them end then.
    is_abandoned: Arc<AtomicBool>,
    url: String,
    clock: Clock,
    now: Instant,
}

struct RunningExchange {
    id: ExchangeId,
    exchange: Pin<Box<dyn Exchange>>,
    wake_flag: Arc<WakeFlag>,
    /// Whether it waits until its body is wanted.
    is_full: bool,
}

/// Notes that an exchange was woken, and wakes the connection.
struct WakeFlag {
    is_woken: AtomicBool,
    connection: Waker,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.connection.wake_by_ref();
        }
    }
}

impl ExchangeTransport {
    /// Creates a transport that has not sent anything. `waker` is woken when an exchange can continue; after `is_abandoned`
    /// was set, no exchange is started or polled any more.
    pub(crate) fn new(
        config: Config,
        http: Http,
        start: StartExchange,
        waker: Waker,
        is_abandoned: Arc<AtomicBool>,
    ) -> Self {
        let clock = Clock::start();
        let now = clock.now();
        let url = format!("{:?}", http.endpoint());
        let client = Client::new(Arc::new(config), Arc::new(http), now);
        Self { client, start, running: Vec::new(), waker, is_abandoned, url, clock, now }
    }

    /// Returns whether polling an exchange may have an effect.
    fn can_continue(&self) -> bool {
        self.running.iter().any(|running| running.can_continue(&self.client))
    }

    /// Continues the exchanges that were woken. Returns whether there were any.
    fn poll_exchanges(&mut self) -> bool {
        let Self { client, running, now, .. } = self;
        let mut any = false;
        let mut index = 0;
        while let Some(current) = running.get_mut(index) {
            if !current.can_continue(client) {
                index += 1;
                continue;
            }
            any = true;
            // Before the poll, so that a wake-up from inside of it counts.
            current.wake_flag.is_woken.store(false, Ordering::Release);
            let waker = Waker::from(current.wake_flag.clone());
            let id = current.id;
            let mut sink = ResponseSink { client: &mut *client, now: *now, exchange: id, is_full: false };
            let mut context = Context::from_waker(&waker);
            // A panic of the HTTP implementation ends this exchange alone.
            let outcome = catch(|| current.exchange.as_mut().poll(&mut context, &mut sink))
                .unwrap_or_else(|panic| Poll::Ready(Err(ExchangeFailure::interrupted(panic_text(&panic)))));
            current.is_full = sink.is_full;
            let Poll::Ready(outcome) = outcome else {
                index += 1;
                continue;
            };
            let ended = running.swap_remove(index);
            let _ = catch(|| drop(ended));
            match outcome {
                Ok(()) => client.handle_end(*now, id),
                Err(failure) => client.handle_failure(*now, id, failure),
            }
        }
        any
    }
}

impl RunningExchange {
    fn can_continue(&self, client: &Client) -> bool {
        if self.is_full {
            client.wants_body(self.id)
        } else {
            self.wake_flag.is_woken.load(Ordering::Acquire)
        }
    }
}

impl ClientTransport for ExchangeTransport {
    fn engine(&mut self) -> &mut Engine {
        self.client.engine()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.client.poll_event(self.now)
    }

    /// Starts and aborts exchanges.
    fn write(&mut self) -> bool {
        let mut any = false;
        while let Some(action) = self.client.poll_exchange(self.now) {
            any = true;
            match action {
                Action::Send(_) if self.is_abandoned.load(Ordering::Relaxed) => {}
                Action::Send(request) => {
                    let id = request.exchange;
                    let exchange = match catch(|| (self.start)(request)) {
                        Ok(exchange) => exchange,
                        Err(panic) => {
                            let failure = ExchangeFailure::unsent(panic_text(&panic));
                            self.client.handle_failure(self.now, id, failure);
                            continue;
                        }
                    };
                    // Set, because the first poll needs no wake-up.
                    let wake_flag =
                        WakeFlag { is_woken: AtomicBool::new(true), connection: self.waker.clone() };
                    let wake_flag = Arc::new(wake_flag);
                    self.running.push(RunningExchange { id, exchange, wake_flag, is_full: false });
                }
                Action::Abort { exchange } => {
                    let at = self.running.iter().position(|running| running.id == exchange);
                    let aborted = at.map(|at| self.running.swap_remove(at));
                    // Its destructor may panic as well.
                    let _ = catch(|| drop(aborted));
                }
                _ => {}
            }
        }
        any
    }

    fn wait(&mut self, until: Option<Instant>) {
        let now = self.tick();
        if self.is_abandoned.load(Ordering::Relaxed) {
            self.running.clear();
        } else if !self.poll_exchanges() {
            // Only a thread without other work waits here: tasks come back when they are woken.
            let left = until.into_iter().chain(self.next_deadline()).min();
            let left = left.map_or(LONGEST_SLEEP, |until| until.saturating_duration_since(now));
            if !left.is_zero() {
                thread::sleep(left.min(LONGEST_SLEEP));
                self.tick();
            }
        }
        if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.now);
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        if self.can_continue() { Some(self.now) } else { self.client.poll_timeout() }
    }

    fn interest(&mut self) -> Interest {
        Interest { read: self.can_continue(), write: false }
    }

    fn close(&mut self) {
        self.client.close(self.now);
    }

    fn is_drained(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed) || self.client.is_drained()
    }

    fn poll_closing_diagnostic(&mut self) -> Option<Diagnostic> {
        self.client.poll_closing_diagnostic()
    }

    fn poll_challenge(&mut self) -> Option<Challenge> {
        self.client.authorization().poll_challenge()
    }

    fn authorize(&mut self, exchange: ExchangeId, credential: Option<Credential>) {
        // A user may have taken long.
        let now = self.tick();
        answer_challenge(&mut self.client, now, exchange, credential);
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(self.waker.clone())
    }

    fn exit_info(&mut self, _: Duration) -> ExitInfo {
        ExitInfo { url: Some(self.url.clone()), ..ExitInfo::default() }
    }

    fn take_close_action(&mut self, _: ShutdownTimeouts, _: Instant) -> CloseAction {
        self.running.clear();
        CloseAction::Nothing
    }
}

impl fmt::Debug for ExchangeTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeTransport")
            .field("url", &self.url)
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

fn panic_text(panic: &Panic) -> String {
    // It may quote the URL of a request (SEC-019).
    Url::redacted_in(&format!("the HTTP client {panic}"))
}

/// Longest sleep of a wait, after which exchanges are looked at again.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);
