//! `bridge`: a client here, a server there, whatever transport and era each of them speaks

mod ask;
mod back;
mod front;
mod logs;
mod news;
mod opening;
mod passage;
mod relay;
mod shape;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::io;

use mcp_proto::server::Event;
use mcp_proto::{Diagnostic, Limits};
use mcp_std::child::end_all;
use mcp_std::{Listener, Outlook, Stdio};

use crate::args;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::serve::http;
use crate::session::{self, Few};
use crate::stop::{self, Word};
use crate::trace;
use back::Back;
use front::{Front, OnHttp, OnStream};
use opening::{Opening, able};
use relay::{Clients, Ends, Relay, server_config, server_limits};

/// Bridges until the client or the server is gone
pub(crate) fn run(args: &args::Bridge) -> Result<(), Failure> {
    let versions = args.client_era.set();
    let word = Word::new().map_err(|error| Failure::failed(error.to_string()))?;
    if let Some(address) = &args.http.address {
        #[cfg(feature = "tls")]
        let tls = http::tls(&args.http)?;
        let listener = Listener::bind(&**address).map_err(|error| http::refused(address, &error.into()))?;
        return over_http(
            args,
            listener,
            versions,
            word,
            #[cfg(feature = "tls")]
            tls,
        );
    }
    session::hint_at_terminal("bridge");
    let failed = |error: io::Error| Failure::failed(format!("stdin and stdout cannot be used: {error}"));
    let mut stream = Stdio::guarded().map_err(failed)?;
    // First the client, since the server may want to know whom it talks to.
    let limits = Limits::default();
    let Some(opening) = Opening::of(&mut stream, limits.max_frame).map_err(failed)? else { return Ok(()) };
    let Opening { info, capabilities, bytes } = opening;
    let back = Back::open(args, info, capabilities)?;
    let config = server_config(&back.peer, versions, tapped(server_limits(limits), args));
    let front = OnStream::new(hidden(config, args), stream, &bytes);
    bridge(args, Box::new(front), back, Clients::One, word)
}

fn over_http(
    args: &args::Bridge,
    listener: Listener,
    versions: mcp_proto::VersionSet,
    word: Word,
    #[cfg(feature = "tls")] tls: Option<mcp_std::tls::ServerTls>,
) -> Result<(), Failure> {
    let back = Back::open(args, None, able())?;
    let config = server_config(&back.peer, versions, tapped(server_limits(Limits::default()), args));
    let at = listener.address().map_err(|error| Failure::failed(error.to_string()))?;
    let http_config = http::config(&args.http).max_sessions(MAX_SESSIONS, MAX_SESSIONS);
    #[allow(unused_mut, reason = "that TLS is spoken is said afterwards")]
    let mut front = OnHttp::new(hidden(config, args), http_config, listener)?;
    #[cfg(feature = "tls")]
    front.set_tls(tls);
    http::listening(&args.http, Ok(at))?;
    bridge(args, Box::new(front), back, Clients::Many, word)
}

/// Turns the loop until everything is over
fn bridge(
    args: &args::Bridge,
    front: Box<dyn Front>,
    back: Back,
    clients: Clients,
    word: Word,
) -> Result<(), Failure> {
    let relay = Relay::new(clients, &back.peer);
    let mut bridge = Bridge {
        front,
        back,
        relay,
        oddities: Few(20),
        trace: args.trace,
        paint: Paint::for_stderr(),
        word,
        ending: false,
    };
    bridge.run()?;
    let Bridge { mut front, mut back, relay, word, .. } = bridge;
    word.set_turns(false);
    if word.is_told() {
        // Whoever told us does not wait for a server that takes its time.
        end_all(stop::PATIENCE);
    }
    if let Some(fault) = relay.fault() {
        return Err(back.failure(fault));
    }
    let flushed = front.flush();
    back.close();
    match (front.take_error(), flushed) {
        (Some(error), _) => Err(Failure::failed(format!("the bridge stopped: {error}"))),
        (None, Err(error)) if !mcp_std::is_peer_gone(&error) => {
            Err(Failure::failed(format!("the bridge stopped: {error}")))
        }
        _ => Ok(()),
    }
}

struct Bridge {
    front: Box<dyn Front>,
    back: Back,
    relay: Relay,
    /// What clients do that they should not
    oddities: Few,
    trace: bool,
    paint: Paint,
    /// Says when the process is to end
    word: Word,
    /// The clients' side was told to end
    ending: bool,
}

impl Bridge {
    fn run(&mut self) -> Result<(), Failure> {
        self.word.set_turns(true);
        for event in self.back.take_early() {
            self.with(|relay, ends| relay.client_event(ends, event));
        }
        loop {
            if self.word.is_told() && !core::mem::replace(&mut self.ending, true) {
                self.front.shutdown(stop::GRACE);
            }
            self.settle();
            if self.front.is_over() {
                return Ok(());
            }
            // Looked at before waiting as well: what one side said may have been an answer that is there by now.
            let reads = self.reads();
            self.front.look(reads);
            self.back.look();
            self.tick();
            if self.settle() || self.front.is_over() {
                continue;
            }
            let due = self.relay.poll_timeout();
            let due = due.map(|at| at.saturating_duration_since(self.front.now()));
            let reads = self.reads();
            let outlooks = [self.front.outlook(reads), self.back.wire().outlook(), self.word.outlook()];
            if let Err(error) = Outlook::wait(&outlooks, due) {
                return Err(Failure::failed(format!("the bridge stopped: {error}")));
            }
        }
    }

    /// Whether clients are read from: not while the server does not take what they said before
    fn reads(&mut self) -> bool {
        !self.back.wire().engine().is_congested()
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Relay, &mut Ends<'_>) -> R) -> R {
        let now = self.front.now();
        let up_now = self.back.wire().now();
        let mut ends = Ends { now, down: self.front.engine(), up_now, up: self.back.wire().engine() };
        act(&mut self.relay, &mut ends)
    }

    fn tick(&mut self) {
        let due = self.relay.poll_timeout();
        if due.is_some_and(|at| at <= self.front.now()) {
            self.with(|relay, ends| relay.handle_timeout(ends));
        }
    }

    /// Passes on all that was read, and writes what comes of it, until there is nothing left to do but wait; whether there
    /// was anything
    fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut moved = false;
            // Each is taken from while the other one can be written to.
            while self.reads() {
                let Some(event) = self.front.poll_event() else { break };
                self.note(&event);
                self.with(|relay, ends| relay.server_event(ends, event));
                moved = true;
            }
            while !self.front.is_congested() {
                let Some(event) = self.back.poll_event() else { break };
                self.with(|relay, ends| relay.client_event(ends, event));
                moved = true;
            }
            self.with(Relay::settle);
            while let Some((tool, schema)) = self.relay.poll_tool() {
                self.front.tool(&tool, &schema);
            }
            if self.relay.fault().is_some() && !core::mem::replace(&mut self.ending, true) {
                // Everybody was told by then.
                self.front.shutdown(FAREWELL);
                moved = true;
            }
            self.show_tap();
            moved |= self.front.write();
            moved |= self.back.wire().write();
            any |= moved;
            if !moved {
                return any;
            }
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::Diagnostic { diagnostic, .. } = event {
            // Those that are nobody's fault: a cancellation has crossed the answer, or overtaken its request.
            let usual = matches!(
                diagnostic,
                Diagnostic::UnknownCancel(_) | Diagnostic::CancelledEarly(_) | Diagnostic::LateResponse(_)
            );
            if !usual {
                self.oddities.note(&format!("the client did something odd: {diagnostic}"));
            }
        }
    }

    fn show_tap(&mut self) {
        if !self.trace {
            return;
        }
        while let Some(record) = self.front.engine().poll_tap() {
            session::say(&format!("{} {}", self.paint.dim("client"), trace::line(&record, self.paint)));
        }
        self.back.show_tap();
    }
}

fn tapped(mut limits: Limits, args: &args::Bridge) -> Limits {
    if args.trace {
        (limits.tap_records, limits.tap_bytes) = (100_000, 64 << 20);
    }
    limits
}

fn hidden(mut config: mcp_proto::server::Config, args: &args::Bridge) -> mcp_proto::server::Config {
    for member in &args.hide {
        config = config.hide_in_tap(member);
    }
    config
}

/// Sessions over HTTP: they share one connection to the server, and what one wants is asked of all of them
const MAX_SESSIONS: usize = 1_024;
/// How long clients have to take what they are told at the end
const FAREWELL: Duration = Duration::from_secs(2);
