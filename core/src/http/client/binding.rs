//! The client: its state, what drives it, and the commands that are not the engine's.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::config::{Config, Credential};
use super::exchange::{Action, Challenge, Class, Exchange, ExchangeId, Failure, Phase, Then, Tries, What};
use super::session::{Gate, Session};
use super::tools::Tools;
use super::url::Url;
use crate::client::{self, Engine, Event};
use crate::deadlines::Deadlines;
use crate::error::{HttpError, UseError};
use crate::head;
use crate::outbox::Outbox;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};
use crate::tap::ChannelId;
use crate::time::Instant;

/// Bytes of an answer that nobody waits for which are read to keep its connection
pub(super) const DRAIN: usize = 64 << 10;

/// Notifications and responses that are on their way at once, and those that wait to be sent again
const MAX_MESSAGES: usize = 64;

/// What a deadline is for
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    Exchange(Key),
    Gate,
}

/// A client over HTTP
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::{Instant, client, head};
/// use mcp_proto::http::client::{Action, Client, Config};
///
/// let config = Config::new("http://localhost:3000/mcp").unwrap();
/// let engine = Arc::new(client::Config::new("demo", "1.0"));
/// let now = Instant::ZERO;
/// let mut client = Client::new(engine, Arc::new(config), now);
/// // The first question:
/// let Some(Action::Open(open)) = client.poll_exchange(now) else { panic!("a request") };
/// assert_eq!((open.method, open.url.target()), ("POST", "/mcp"));
/// assert!(open.fields.iter().any(|f| f == ("Mcp-Method", b"server/discover")));
/// // What the server says to it:
/// let fields: [head::Field<'_>; 1] = [("content-type", b"application/json")];
/// client.handle_head(now, open.exchange, &head::Response { status: 200, fields: &fields });
/// client.handle_body(now, open.exchange, br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
///     "supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}"#);
/// client.handle_end(now, open.exchange);
/// assert!(matches!(client.poll_event(now), Some(client::Event::Ready(_))));
/// ```
#[derive(Debug)]
pub struct Client {
    pub(super) engine: Engine,
    pub(super) channel: ChannelId,
    pub(super) config: Arc<Config>,
    pub(super) exchanges: Slab<Exchange>,
    pub(super) actions: VecDeque<Action>,
    /// Exchanges with events to take out
    pub(super) ready: VecDeque<Key>,
    pub(super) deadlines: Deadlines<Timer>,
    pub(super) now: Instant,
    pub(super) session: Session,
    pub(super) tools: Tools,
    pub(super) credential: Option<Credential>,
    /// Which credential that is
    pub(super) credentials: u32,
    challenges: VecDeque<Challenge>,
    /// The held exchange that the application was asked about
    asked: Option<Key>,
    /// What was tried to find out what the server speaks
    pub(super) attempts: Vec<String>,
    /// What was tried for requests that are sent again under these ids
    pub(super) carried: Vec<(RequestId, Tries)>,
    /// Requests that had ended before they were sent, and were not
    pub(super) unsent: Vec<RequestId>,
    /// Everything was given up
    pub(super) over: bool,
}

impl Client {
    /// A client whose first question is ready to be sent
    #[must_use]
    pub fn new(client: Arc<client::Config>, config: Arc<Config>, now: Instant) -> Self {
        let mut engine = Engine::over_exchanges(client);
        let channel = engine.open_channel(now);
        Self {
            engine,
            channel,
            exchanges: Slab::new(),
            actions: VecDeque::new(),
            ready: VecDeque::new(),
            deadlines: Deadlines::new(),
            now,
            session: Session::default(),
            tools: Tools::default(),
            credential: config.credential.clone(),
            credentials: 0,
            challenges: VecDeque::new(),
            asked: None,
            attempts: Vec::new(),
            carried: Vec::new(),
            unsent: Vec::new(),
            over: false,
            config,
        }
    }

    /// The engine, for calls and other commands; [`poll_exchange`](Self::poll_exchange) afterwards
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    // ---- what is asked of whoever speaks HTTP ----------------------------------------------------------------

    /// The next exchange to perform or to give up
    pub fn poll_exchange(&mut self, now: Instant) -> Option<Action> {
        self.tick(now);
        self.settle();
        loop {
            while self.actions.is_empty() && self.session.gate == Gate::Open && !self.is_busy() {
                let Some(message) = self.engine.outbox(self.channel).and_then(Outbox::pop_message) else {
                    self.unsent.clear();
                    return None;
                };
                if !self.over {
                    self.send(message);
                }
            }
            match self.actions.pop_front()? {
                Action::Open(open)
                    if self.exchanges.get(open.exchange.0).is_some_and(|x| self.is_gone(x)) =>
                {
                    if let Some(x) = self.remove(open.exchange.0) {
                        self.unsent(x);
                    }
                }
                action => return Some(action),
            }
        }
    }

    /// Whether so many messages wait for being accepted that no more go out
    fn is_busy(&self) -> bool {
        self.exchanges.len() >= MAX_MESSAGES && self.messages(false) >= MAX_MESSAGES
    }

    /// Whether so many messages were not taken, and wait to be sent again, that no more of them do
    pub(super) fn is_full(&self) -> bool {
        self.messages(true) >= MAX_MESSAGES
    }

    fn messages(&self, waiting: bool) -> usize {
        let is_one = |(_, x): &(Key, &Exchange)| {
            x.what.class() == Class::Message && matches!(x.phase, Phase::Waiting(_)) == waiting
        };
        self.exchanges.iter().filter(is_one).count()
    }

    /// Whether an exchange is open: something of it may still be told
    #[must_use]
    pub fn is_open(&self, exchange: ExchangeId) -> bool {
        self.exchanges.get(exchange.0).is_some()
    }

    /// Whether the body of this exchange is to be read on now
    ///
    /// False while the application has not taken what came before; then it pays to let the server wait.
    #[must_use]
    pub fn wants_body(&self, exchange: ExchangeId) -> bool {
        match self.exchanges.get(exchange.0).and_then(|x| x.events.as_ref()) {
            Some(events) => {
                events.decoder.buffered() <= self.max_frame().saturating_mul(2) && !self.engine.is_stalled()
            }
            None => true,
        }
    }

    // ---- what whoever speaks HTTP tells ----------------------------------------------------------------------

    /// The head of an answer has come; those of interim responses (1xx) are ignored
    pub fn handle_head(&mut self, now: Instant, exchange: ExchangeId, head: &head::Response<'_>) {
        self.tick(now);
        let waits = self.exchanges.get(exchange.0).is_some_and(|x| matches!(x.phase, Phase::Sent));
        if waits && head.status >= 200 {
            self.head_in(exchange.0, head);
            self.settle();
        }
    }

    /// A part of the body of an answer has come, decoded of any transfer coding
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, part: &[u8]) {
        self.tick(now);
        self.body_in(exchange.0, part);
        self.settle();
    }

    /// An answer is complete
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        self.forget(exchange);
        self.end_in(exchange.0);
        self.settle();
    }

    /// An exchange broke off before its answer was complete
    pub fn handle_failure(&mut self, now: Instant, exchange: ExchangeId, failure: Failure) {
        self.tick(now);
        self.forget(exchange);
        self.failure_in(exchange.0, failure);
        self.settle();
    }

    /// What has ended need not be given up any more
    fn forget(&mut self, ended: ExchangeId) {
        self.actions.retain(|a| !matches!(a, Action::Abort { exchange } if *exchange == ended));
    }

    // ---- the application -------------------------------------------------------------------------------------

    /// The next event; messages are decoded here, one at a time
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.tick(now);
        loop {
            self.settle();
            self.end_unheard();
            let event = self.engine.poll_event(self.now);
            if event.is_some() || self.engine.is_stalled() {
                return event;
            }
            let key = self.ready.pop_front()?;
            self.decode(key);
        }
    }

    /// The next challenge, where [`Config::asks_for_credentials`] is set: one at a time, until it is answered
    pub fn poll_challenge(&mut self) -> Option<Challenge> {
        self.challenges.pop_front()
    }

    /// Answers a challenge: all exchanges that are held are sent again with this, and all later ones with it
    pub fn authorize(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        credential: Credential,
    ) -> Result<(), UseError> {
        self.tick(now);
        self.answer_challenge(exchange)?;
        self.credential = Some(credential);
        self.credentials += 1;
        for (mut held, since, _) in self.take_held() {
            held.tries.credentials += 1;
            if let Some(id) = held.what.request() {
                let time = self.now.saturating_duration_since(since);
                self.engine.release_request(self.now, self.channel, id, time);
            }
            self.resend(held);
        }
        Ok(())
    }

    /// Answers a challenge: there is no credential, and what was held ends
    pub fn refuse(&mut self, now: Instant, exchange: ExchangeId) -> Result<(), UseError> {
        self.tick(now);
        self.answer_challenge(exchange)?;
        self.refuse_held();
        self.settle();
        Ok(())
    }

    /// Ends the connection: every call ends, open streams are given up, and the session is ended at the server
    /// (HTTP-073)
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        self.engine.close(self.now);
        self.settle();
    }

    /// Whether everything is over: closed, nothing to perform, no event left
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.over && self.actions.is_empty() && self.exchanges.len() == 0 && self.engine.is_told()
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Lets deadlines pass; calling it early or in vain does no harm
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        self.engine.handle_timeout(self.now);
        self.settle();
        while let Some((at, timer)) = self.deadlines.pop_due(self.now) {
            match timer {
                Timer::Gate => {
                    if self.session.gate_until == Some(at) {
                        self.open_gate();
                    }
                }
                Timer::Exchange(key) => self.due(key, at),
            }
        }
        // What was sent again may have no time left.
        self.engine.handle_timeout(self.now);
        self.settle();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.own_timeout().into_iter().chain(self.engine.poll_timeout()).min()
    }

    /// As [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are given back
    pub fn poll_punctual(&mut self) -> Option<Instant> {
        self.own_timeout().into_iter().chain(self.engine.poll_punctual()).min()
    }

    fn own_timeout(&mut self) -> Option<Instant> {
        let Self { deadlines, exchanges, session, .. } = self;
        deadlines.next(|at, timer| match timer {
            Timer::Gate => session.gate_until == Some(at),
            Timer::Exchange(key) => exchanges.get(key).and_then(|x| x.due) == Some(at),
        })
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn due(&mut self, key: Key, at: Instant) {
        let Some(x) = self.exchanges.get(key).filter(|x| x.due == Some(at)) else { return };
        match x.phase {
            Phase::Drained { .. } => drop(self.abort(key)),
            Phase::Held { .. } => {
                self.asked = None;
                self.challenges.clear();
                self.refuse_held();
            }
            Phase::Waiting(then) => {
                let Some(x) = self.remove(key) else { return };
                match then {
                    _ if self.is_gone(&x) => {}
                    Then::Reconnect => self.reconnect(x),
                    Then::Repeat => self.repeat(&x),
                    Then::Again => self.resend(x),
                }
            }
            Phase::Sent | Phase::Events | Phase::Body(_) => {
                if let Some(x) = self.abort(key) {
                    self.failed(x, HttpError::Lost { why: "no answer in time".into() });
                }
            }
        }
    }

    // ---- the table -------------------------------------------------------------------------------------------

    pub(super) fn max_frame(&self) -> usize {
        self.engine.config().get_limits().frame()
    }

    /// Puts an exchange into a phase that ends by itself
    pub(super) fn park(&mut self, x: Exchange) -> Key {
        let deadline = x.due;
        let key = self.exchanges.insert(x);
        if let Some(at) = deadline {
            self.arm(at, Timer::Exchange(key));
        }
        key
    }

    pub(super) fn arm(&mut self, at: Instant, timer: Timer) {
        self.deadlines.arm(at, timer);
        let Self { deadlines, exchanges, session, .. } = self;
        deadlines.sweep(exchanges.len() + 1, |at, timer| match timer {
            Timer::Gate => session.gate_until == Some(at),
            Timer::Exchange(key) => exchanges.get(key).and_then(|x| x.due) == Some(at),
        });
    }

    /// Takes an exchange out of the table; whoever speaks HTTP is not told
    pub(super) fn remove(&mut self, key: Key) -> Option<Exchange> {
        let x = self.exchanges.remove(key)?;
        self.ended(&x);
        if self.asked == Some(key) {
            self.asked = None;
            self.challenges.clear();
            self.ask();
        }
        Some(x)
    }

    /// Takes an exchange out of which nothing more is wanted; the rest of its answer is let pass, if it is short
    pub(super) fn conclude(&mut self, key: Key) -> Option<Exchange> {
        let until = self.now + self.config.close_wait;
        let x = self.exchanges.get_mut(key)?;
        if matches!(x.phase, Phase::Drained { .. }) {
            return None;
        }
        if !x.is_under_way() {
            return self.remove(key);
        }
        let rest = Exchange {
            what: x.what.clone(),
            url: Arc::clone(&x.url),
            body: Bytes::new(),
            phase: Phase::Drained { left: DRAIN },
            due: Some(until),
            events: None,
            ..*x
        };
        let taken = core::mem::replace(x, rest);
        self.arm(until, Timer::Exchange(key));
        self.ended(&taken);
        Some(taken)
    }

    /// Gives an exchange up
    pub(super) fn abort(&mut self, key: Key) -> Option<Exchange> {
        let x = self.remove(key)?;
        if x.is_under_way() || matches!(x.phase, Phase::Drained { .. }) {
            // What was never taken out need not be aborted.
            let unseen = |a: &Action| matches!(a, Action::Open(open) if open.exchange.0 == key);
            match self.actions.iter().position(unseen) {
                Some(at) => drop(self.actions.remove(at)),
                None => self.actions.push_back(Action::Abort { exchange: ExchangeId(key) }),
            }
        }
        Some(x)
    }

    /// Whether nobody waits for the answer to its request any more
    pub(super) fn is_gone(&self, x: &Exchange) -> bool {
        x.what.request().is_some_and(|id| !self.engine.waits_for(self.channel, id))
    }

    /// Takes note of an exchange for a request that ended before it went out, or went out again: what was refused before
    /// was not executed, and nothing is to be cancelled
    pub(super) fn unsent(&mut self, x: Exchange) {
        if let What::Call { id, .. } = x.what {
            self.unsent.push(id);
        }
    }

    /// The exchange on which a request of the engine's is, or waits to be
    pub(super) fn exchange_of(&self, id: &RequestId) -> Option<Key> {
        let is = |x: &Exchange| x.what.request() == Some(id) && !matches!(x.phase, Phase::Drained { .. });
        self.exchanges.iter().find(|(_, x)| is(x)).map(|(key, _)| key)
    }

    // ---- credentials -----------------------------------------------------------------------------------------

    /// Holds an exchange until there is a credential, if that is to be; otherwise it comes back
    pub(super) fn hold(&mut self, mut x: Exchange, answer: Box<crate::HttpAnswer>) -> Option<Exchange> {
        if x.tries.credentials >= self.config.max_auth {
            return Some(x);
        }
        if x.credential != self.credentials {
            // Another one was given meanwhile.
            x.tries.credentials += 1;
            self.resend(x);
            return None;
        }
        if !self.config.asks || self.over {
            return Some(x);
        }
        if let Some(id) = x.what.request() {
            self.engine.hold_request(self.now, self.channel, id);
        }
        // People may be asked.
        let due = self.now + self.engine.config().get_limits().input_timeout;
        self.park(Exchange { phase: Phase::Held { since: self.now, answer }, due: Some(due), ..x });
        self.ask();
        None
    }

    /// Tells the application of the first exchange that is held, unless it was told of one
    fn ask(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let held = self.exchanges.iter().find_map(|(key, x)| match &x.phase {
            Phase::Held { answer, .. } => Some((key, answer, x.tries.credentials)),
            _ => None,
        });
        if let Some((key, answer, tried)) = held {
            self.asked = Some(key);
            let (status, challenges) = (answer.status, answer.challenges.clone());
            self.challenges.push_back(Challenge { exchange: ExchangeId(key), status, challenges, tried });
        }
    }

    fn answer_challenge(&mut self, exchange: ExchangeId) -> Result<(), UseError> {
        if self.asked != Some(exchange.0) {
            return Err(UseError::Stale);
        }
        self.asked = None;
        self.challenges.clear();
        Ok(())
    }

    fn take_held(&mut self) -> Vec<(Exchange, Instant, Box<crate::HttpAnswer>)> {
        let held = self.exchanges.iter().filter(|(_, x)| matches!(x.phase, Phase::Held { .. }));
        let keys: Vec<Key> = held.map(|(key, _)| key).collect();
        let mut taken = Vec::new();
        for key in keys {
            let Some(mut x) = self.exchanges.remove(key) else { continue };
            if let Phase::Held { since, answer } = core::mem::replace(&mut x.phase, Phase::Sent) {
                taken.push((x, since, answer));
            }
        }
        taken
    }

    fn refuse_held(&mut self) {
        for (held, _, answer) in self.take_held() {
            self.failed(held, HttpError::Answer(*answer));
        }
    }

    // ---- the end ---------------------------------------------------------------------------------------------

    /// Once the engine is closed, gives everything up that is not needed to say goodbye
    pub(super) fn settle(&mut self) {
        if self.over || !self.engine.is_closed() {
            return;
        }
        // What was said before the end still goes out, the answers that the server waits for above all; requests ended.
        let renewing = self.session.gate == Gate::Renewing;
        for _ in 0..MAX_MESSAGES {
            let Some(message) = self.engine.outbox(self.channel).and_then(Outbox::pop_message) else { break };
            if self.engine.peer().is_some() && !renewing {
                self.send(message);
            }
        }
        self.over = true;
        self.session.gate = Gate::Open;
        self.ready.clear();
        self.challenges.clear();
        self.asked = None;
        let all = self.exchanges.iter();
        // A notification that is on its way may be the one that stops somebody's work.
        let goes_on = |x: &Exchange| {
            (matches!(x.what, What::Message { .. }) && x.is_under_way())
                || matches!(x.phase, Phase::Drained { .. })
        };
        let others = all.filter(|(_, x)| !goes_on(x));
        let keys: Vec<Key> = others.map(|(key, _)| key).collect();
        for key in keys {
            self.abort(key);
        }
        self.end_session();
    }

    /// Where the requests of the engine go
    pub(super) fn endpoint(&self) -> Arc<Url> {
        Arc::clone(self.session.post_to.as_ref().unwrap_or(&self.config.endpoint))
    }
}
