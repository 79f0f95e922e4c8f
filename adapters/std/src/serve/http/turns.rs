//! The loop of a server over HTTP, whatever its handler is

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;

use mcp_proto::http::server::{self as http, Denial};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Event};
use mcp_proto::{Entropy, Instant};

use super::state::State;
use crate::held::Held;
use crate::serve::desk::Desk;
use crate::serve::handler::Handler;
use crate::serve::host::{self, Host as _};
use crate::serve::peers::Peers;
use crate::serve::stream::{Away, HandOut, ROUNDS};
use crate::{Error, Listener, catch, entropy};

/// Everything but the handler
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) state: State,
    pub(super) desk: Desk,
    pub(super) away: Elsewhere,
    /// Ends waiting
    waker: Option<Waker>,
    /// There was more to do than one turn is for
    busy: bool,
}

/// Takes calls to where their handlers run; none if that is here
pub(super) struct Elsewhere(pub(super) Option<Box<Away>>);

/// A handler as the loop knows it
///
/// What reads the schemas of tools is in a program only if its handler tells of any.
pub(super) trait Teller {
    fn heard(&mut self) -> &mut dyn Handler;
    fn tell_tools(&mut self, state: &mut State) -> Result<(), Error>;
}

impl<H: Handler> Teller for H {
    fn heard(&mut self) -> &mut dyn Handler {
        self
    }

    fn tell_tools(&mut self, state: &mut State) -> Result<(), Error> {
        state.tell_tools(self)
    }
}

impl Loop {
    pub(super) fn new(state: State) -> Held<Self> {
        Held::new(Self { state, desk: Desk::new(1), away: Elsewhere(None), waker: None, busy: false })
    }

    pub(super) fn bind(listener: Listener, config: Config, http: http::Config) -> Result<Held<Self>, Error> {
        let peers = Peers::new(listener)?;
        let seed = entropy::seed()?;
        let anchor = peers.anchor();
        // Its own, so that what is sealed has nothing to do with ids of sessions.
        let keys = entropy::seed()?;
        let config = Arc::new(config.seal_by_default(|| Some((Keys::new(keys), anchor))));
        let http = Arc::new(http);
        Ok(Self::new(State::new(peers, config, http, Entropy::new(seed, entropy::nonce()))))
    }

    pub(super) fn waker(&mut self) -> Result<Waker, Error> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        Ok(self.waker.insert(self.state.peers.waker()?).clone())
    }

    /// Has the loop woken by what handlers and commands have to say
    pub(super) fn wake(&mut self) -> Result<(), Error> {
        let waker = self.waker()?;
        self.desk.register(&waker);
        Ok(())
    }

    pub(super) fn look(&mut self) -> Result<(), Error> {
        let now = self.state.peers.tick();
        self.state.wait_until(Some(now));
        self.state.error.take().map_or(Ok(()), |error| Err(Error::Io(error)))
    }

    pub(super) fn arm(&mut self) -> Result<Option<Instant>, Error> {
        let reads = self.state.reads();
        let due = self.state.peers.arm(&mut self.state.server, reads)?;
        Ok(due.into_iter().chain(self.state.ends_at).min())
    }

    /// One turn of the loop; false when everything is over
    pub(super) fn turn(&mut self, handler: &mut dyn Teller, until: Option<Instant>) -> Result<bool, Error> {
        let at_once = core::mem::take(&mut self.busy).then(|| self.state.peers.now());
        let until = until.into_iter().chain(self.state.ends_at).chain(at_once).min();
        // Commands may have been given since.
        self.state.write();
        self.show_tap(handler);
        if !self.state.peers.is_over() {
            self.state.wait_until(until);
            if let Some(error) = self.state.error.take() {
                return Err(Error::Io(error));
            }
        }
        let mut away = self.away.0.take();
        self.act(handler, away.as_mut().map(|away| &mut **away as &mut HandOut<'_>));
        self.away.0 = away;
        Ok(!self.state.peers.is_over())
    }

    /// Does everything there is to do now; whether there was anything
    pub(super) fn act(&mut self, handler: &mut dyn Teller, mut away: Option<&mut HandOut<'_>>) -> bool {
        if self.state.ends_at.is_some_and(|at| at <= self.state.peers.now()) {
            // Those whose calls are given up are told so, as far as it goes now.
            self.state.write();
            self.state.peers.abandon(&mut self.state.server);
        }
        // One after the other, so that nobody's answer waits for what others want.
        let mut moved = self.settle(handler, away.as_deref_mut());
        while self.state.next_peer() {
            moved = true;
            self.settle(handler, away.as_deref_mut());
        }
        moved
    }

    /// Handles everything that was read or reported, then writes everything, until there is nothing left to do but wait,
    /// or others want to have their turn; whether there was anything
    fn settle(&mut self, handler: &mut dyn Teller, mut away: Option<&mut HandOut<'_>>) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut moved = self.state.cross();
            moved |= self.apply(handler);
            while let Some(event) = self.state.next_event() {
                self.show_tap(handler);
                self.take(handler, event, away.is_some());
                moved = true;
            }
            if let Some(away) = &mut away {
                away(&mut core::iter::from_fn(|| self.desk.next_call(&mut self.state)));
                // Those that were done at once need no other round.
                moved |= self.apply(handler);
            }
            let overloaded = self.desk.is_congested(self.state.config.get_limits());
            self.state.server.set_overloaded(overloaded);
            if core::mem::take(&mut self.state.tools_changed) {
                // What cannot be used is not checked; it was told of at the start.
                let _ = handler.tell_tools(&mut self.state);
            }
            moved |= self.judge(handler);
            moved |= self.state.write();
            self.show_tap(handler);
            if !moved {
                return any;
            }
            any = true;
        }
        self.busy = true;
        any
    }

    /// Does what handlers that run elsewhere and commands have to say; whether there was anything
    fn apply(&mut self, handler: &mut dyn Teller) -> bool {
        let Self { state, desk, .. } = self;
        desk.apply(state, &mut |call, failure| _ = catch(|| handler.heard().failed(call, failure)))
    }

    fn take(&mut self, handler: &mut dyn Teller, event: Event, elsewhere: bool) {
        let event = if elsewhere { self.desk.take_in(event) } else { Some(event) };
        let Some(event) = event else { return };
        if matches!(event, Event::Call(_)) {
            // Whoever waits for the answers to other calls need not wait for this handler.
            self.state.write();
        }
        host::handle(&mut self.state, &mut self.desk, handler.heard(), &event);
        // However long that took: what is written next was not waiting meanwhile.
        self.state.peers.tick();
        if core::mem::take(&mut self.state.tools_changed) {
            let _ = handler.tell_tools(&mut self.state);
        }
    }

    /// Has the handler judge the tokens that came; whether there were any
    fn judge(&mut self, handler: &mut dyn Teller) -> bool {
        let mut any = false;
        while let Some((exchange, token)) = self.state.held.pop_front() {
            any = true;
            let verdict = catch(|| handler.heard().token(&token));
            let (now, server) = (self.state.peers.tick(), &mut self.state.server);
            match verdict {
                Ok(Ok(principal)) => server.grant(now, exchange, &principal),
                Ok(Err(denial)) => server.deny(now, exchange, &denial),
                Err(_) => server.deny(now, exchange, &Denial::InvalidToken),
            }
            self.state.peers.drive(server, exchange);
        }
        any
    }

    fn show_tap(&mut self, handler: &mut dyn Teller) {
        while let Some(record) = self.state.peers.poll_head() {
            let _ = catch(|| handler.heard().head(&record));
        }
        while let Some(record) = self.state.server.engine().poll_tap() {
            let _ = catch(|| handler.heard().tap(&record));
        }
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Elsewhere").field(&self.0.is_some()).finish()
    }
}
