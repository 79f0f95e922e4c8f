//! Every sequence of events and commands of a connection, beside the transitions in `docs/h1-states.md`.
//!
//! A sequence goes on after its last step had an effect: what is refused leaves everything as it was, which is checked, so that a
//! longer sequence with it is one without it.

use alloc::format;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use super::connection::{self, Role};
use super::table::{RecvState, SendState, State, TRIGGERS, Trigger};
use super::table_tests::{DOCUMENT, MEANINGS};
use super::{HttpLimits, WriteError, client, server};
use crate::head::{BodySize, Fields};
use crate::testing::exhaustive;
use crate::time::Instant;

/// A cell of the document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell<S> {
    To(S),
    Fault,
    Over,
    Impossible,
}

type Row<S> = [Cell<S>; TRIGGERS];

/// The tables of one role, as the document shows them.
struct Document {
    recv: Vec<Row<RecvState>>,
    send: Vec<Row<SendState>>,
}

const RECV: [RecvState; 11] = {
    use RecvState::{Body, Closed, Discard, Done, Due, Head, Idle, Lingering, Overrun, Unsent, Unsolicited};
    [Idle, Unsent, Due, Head, Body, Discard, Done, Unsolicited, Overrun, Lingering, Closed]
};
const SEND: [SendState; 8] = {
    use SendState::{Body, Closed, Done, Due, Expected, Idle, Reset, UntilClose};
    [Idle, Expected, Due, Body, UntilClose, Done, Reset, Closed]
};

/// Reads the table below a heading of a section.
fn read_table<S: Copy + Debug>(section: &'static str, heading: &str, states: &[S]) -> Vec<Row<S>> {
    let below = section.split(heading).nth(1).expect("a heading");
    let mut lines = below.lines().skip_while(|line| !line.starts_with("| |"));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).skip(1);
    let columns: Vec<&str> = cells(lines.next().expect("a table")).collect();
    // A trigger without a column keeps every state.
    let mut rows: Vec<Row<S>> = states.iter().map(|state| [Cell::To(*state); TRIGGERS]).collect();
    let mut found = 0;
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let name = line.split("**").nth(1).expect("a state");
        let at = states.iter().position(|state| format!("{state:?}") == name).expect("a known state");
        for (column, cell) in columns.iter().zip(cells(line)) {
            let trigger = MEANINGS.iter().find(|(trigger, _)| format!("{trigger:?}") == *column);
            let to = states.iter().find(|state| format!("{state:?}") == cell);
            rows[at][trigger.expect("a known trigger").0 as usize] = match (cell, to) {
                ("=", _) => Cell::To(states[at]),
                ("×", _) => Cell::Over,
                ("", _) => Cell::Impossible,
                (_, Some(to)) => Cell::To(*to),
                (fault, None) => {
                    assert!(fault.starts_with('*'), "{fault}");
                    Cell::Fault
                }
            };
        }
        found += 1;
    }
    assert!(found > 3, "{heading}");
    rows
}

impl Document {
    fn new(role: &str) -> Self {
        let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(role)).expect("a role");
        Self {
            recv: read_table(section, "### Receiving", &RECV),
            send: read_table(section, "### Sending", &SEND),
        }
    }

    /// Returns the state after a trigger, or the error of a command that is refused.
    fn next(&self, from: State, trigger: Trigger) -> Result<State, WriteError> {
        let recv = self.recv[from.recv as usize][trigger as usize];
        let send = self.send[from.send as usize][trigger as usize];
        match (recv, send) {
            (Cell::To(recv), Cell::To(send)) => Ok(State { recv, send }),
            (Cell::Over, _) | (Cell::To(_), Cell::Over) => Err(WriteError::Closed),
            _ => Err(WriteError::OutOfOrder),
        }
    }

    /// Returns the states to which any of the triggers lead, one after the other.
    fn closure(&self, from: State, triggers: &[Trigger]) -> Vec<State> {
        let mut reached = Vec::from([from]);
        let mut at = 0;
        while let Some(state) = reached.get(at).copied() {
            at += 1;
            for next in triggers.iter().filter_map(|trigger| self.next(state, *trigger).ok()) {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        reached
    }
}

/// Transitions of a connection itself while it is polled and there is no event.
const QUIET: [Trigger; 9] = {
    use Trigger::{Blank, Close, Continue, EndEarly, Eof, Input, RecvEnd, Reuse, Timeout};
    [Blank, Eof, Timeout, Continue, RecvEnd, Reuse, Input, EndEarly, Close]
};
/// Those that follow the end of an exchange.
const AFTER_EXCHANGE: [Trigger; 5] =
    [Trigger::RecvEnd, Trigger::Reuse, Trigger::Input, Trigger::EndEarly, Trigger::Close];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Input(&'static str),
    Eof,
    Later,
    /// Begins a response, or a request.
    Begin(BodySize),
    Write,
    End,
    Sent,
    WriteFailed,
    Broken,
    Abort,
    Close,
    Poll,
}

/// An event, without its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Head,
    Body,
    End,
    Gone,
    Fault,
}

/// One end of a connection, with what its role alone has.
trait Side: Sized {
    fn begin(&mut self, now: Instant, size: BodySize) -> Result<(), WriteError>;
    /// Returns the trigger of `begin`.
    fn begin_trigger(&self, size: BodySize) -> Trigger;
    fn poll(&mut self, now: Instant) -> Option<Seen>;
    fn fail(&mut self, step: Step, now: Instant);
    fn role(&self) -> &'static str;
}

impl Side for server::Connection {
    fn begin(&mut self, now: Instant, size: BodySize) -> Result<(), WriteError> {
        self.respond(now, 200, &Fields::new(), size)
    }

    fn begin_trigger(&self, size: BodySize) -> Trigger {
        let is_until_close = size == BodySize::Stream && self.role.request.is_http10;
        if is_until_close { Trigger::SendUntilClose } else { Trigger::SendHead }
    }

    fn poll(&mut self, now: Instant) -> Option<Seen> {
        Some(match self.poll_event(now, |_, _| ())? {
            server::Event::Head(()) => Seen::Head,
            server::Event::Body(_) => Seen::Body,
            server::Event::End => Seen::End,
            server::Event::ClientGone => Seen::Gone,
            server::Event::Fault(_) => Seen::Fault,
        })
    }

    fn fail(&mut self, _: Step, _: Instant) {}

    fn role(&self) -> &'static str {
        "Server"
    }
}

impl Side for client::Connection {
    fn begin(&mut self, now: Instant, size: BodySize) -> Result<(), WriteError> {
        self.request(now, "POST", "/", "a", &Fields::new(), size)
    }

    fn begin_trigger(&self, _: BodySize) -> Trigger {
        Trigger::SendHead
    }

    fn poll(&mut self, now: Instant) -> Option<Seen> {
        Some(match self.poll_event(now, |_| ())? {
            client::Event::Head(()) => Seen::Head,
            client::Event::Body(_) => Seen::Body,
            client::Event::End => Seen::End,
            client::Event::Closed => Seen::Gone,
            client::Event::Fault(_) => Seen::Fault,
        })
    }

    fn fail(&mut self, step: Step, now: Instant) {
        if step == Step::Broken { self.handle_broken(now) } else { self.handle_write_failed() }
    }

    fn role(&self) -> &'static str {
        "Client"
    }
}

/// A connection, its clock, and its events so far.
struct Run<R> {
    connection: connection::Connection<R>,
    now: Instant,
    events: Vec<Seen>,
}

#[allow(private_bounds, reason = "there are no other roles")]
impl<R: Role> Run<R>
where
    connection::Connection<R>: Side,
{
    fn new() -> Self {
        let now = Instant::from_micros(1);
        // No step but `Later` lets a deadline pass.
        let connection = connection::Connection::new(now, HttpLimits::default());
        Self { connection, now, events: Vec::new() }
    }

    fn parts(&self) -> (State, usize, usize, bool, bool) {
        let c = &self.connection;
        (c.state, c.unsent_len(), c.unread_len(), c.closing, c.input_end.is_some())
    }

    /// Takes a step, compares the states with the document, and returns whether it had an effect.
    fn step(&mut self, step: Step, document: &Document) -> bool {
        let (before, now) = (self.parts(), self.now);
        let from = before.0;
        let refused = |run: &Self, found: Result<(), WriteError>, expected: Result<State, WriteError>| match (
            found, expected,
        ) {
            (Ok(()), Ok(to)) => Some(to),
            (Err(error), Err(expected)) => {
                assert_eq!(error, expected, "{from:?} {step:?}");
                assert_eq!(run.parts(), before, "{from:?} {step:?}");
                None
            }
            other => panic!("{} {from:?} {step:?}: {other:?}", run.connection.role()),
        };
        // The states that may follow: all that the document has on the way.
        let allowed = match step {
            Step::Input(text) => {
                let is_open = !before.4;
                self.connection.handle_input(now, text.as_bytes());
                Vec::from([document.next(from, Trigger::Input).ok().filter(|_| is_open).unwrap_or(from)])
            }
            Step::Eof => {
                self.connection.handle_eof(now);
                Vec::from([from])
            }
            Step::Later => {
                self.now = self.now + Duration::from_secs(400);
                let is_due = self.connection.poll_timeout().is_some_and(|at| at <= self.now);
                if is_due {
                    self.connection.handle_timeout(self.now);
                }
                assert_eq!(self.connection.state, from, "a timeout takes effect at the next poll");
                return is_due;
            }
            Step::Begin(size) => {
                let trigger = self.connection.begin_trigger(size);
                let found = self.connection.begin(now, size);
                if self.connection.role() == "Client" && before.4 && from == State::IDLE {
                    // The server sends no more.
                    assert_eq!(found, Err(WriteError::Closed));
                    assert_eq!(self.parts(), before);
                    return false;
                }
                let Some(to) = refused(self, found, document.next(from, trigger)) else { return false };
                Vec::from([to])
            }
            Step::Write => {
                let found = self.connection.write_body(b"d");
                let Some(to) = refused(self, found, document.next(from, Trigger::SendData)) else {
                    return false;
                };
                Vec::from([to])
            }
            Step::End => {
                let found = self.connection.end(now);
                let Some(to) = refused(self, found, document.next(from, Trigger::SendEnd)) else {
                    return false;
                };
                // An early response ends the request for the application, too.
                if self.connection.role() == "Server" && from.recv == RecvState::Body {
                    self.events.push(Seen::End);
                }
                document.closure(to, &AFTER_EXCHANGE)
            }
            Step::Sent => {
                let sent = self.connection.unsent_len();
                self.connection.consume(sent);
                let to = document.next(from, Trigger::Sent).ok().filter(|_| sent > 0);
                Vec::from([to.unwrap_or(from)])
            }
            Step::WriteFailed => {
                self.connection.fail(step, now);
                Vec::from([document.next(from, Trigger::WriteFailed).unwrap_or(from)])
            }
            Step::Broken => {
                self.connection.fail(step, now);
                Vec::from([from])
            }
            Step::Abort => {
                self.connection.abort(now);
                Vec::from([document.next(from, Trigger::Abort).unwrap_or(from)])
            }
            Step::Close => {
                self.connection.close(now);
                Vec::from([document.next(from, Trigger::Close).unwrap_or(from)])
            }
            Step::Poll => return self.poll_all(document),
        };
        let to = self.connection.state;
        assert!(allowed.contains(&to), "{}: {from:?} {step:?} {to:?}", self.connection.role());
        self.parts() != before
    }

    /// Polls until there is no event, and compares each transition with the document.
    fn poll_all(&mut self, document: &Document) -> bool {
        let before = (self.parts(), self.events.len());
        loop {
            let from = self.connection.state;
            let event = self.connection.poll(self.now);
            let to = self.connection.state;
            // What happens before an event, by which trigger it comes, and what happens behind it.
            let (earlier, causes): (&[Trigger], &[Trigger]) = match event {
                None => (&QUIET, &[]),
                Some(Seen::Head) => {
                    // The rest of the request before is dropped first.
                    let earlier: &[Trigger] = match from.recv {
                        RecvState::Discard => &[Trigger::RecvEnd, Trigger::Reuse, Trigger::Input],
                        _ => &[],
                    };
                    (earlier, &[Trigger::RecvHead, Trigger::RecvExpecting])
                }
                Some(Seen::Body) => (&[Trigger::Continue], &[Trigger::Continue]),
                Some(Seen::End) => (&[Trigger::Continue], &[Trigger::RecvEnd]),
                Some(Seen::Gone) => (&[], &[Trigger::Eof]),
                Some(Seen::Fault) => (&QUIET, &[Trigger::Reject, Trigger::Fail, Trigger::Abort]),
            };
            let mut allowed = document.closure(from, earlier);
            if !causes.is_empty() && event != Some(Seen::Body) {
                let all = causes
                    .iter()
                    .flat_map(|cause| allowed.iter().filter_map(|state| document.next(*state, *cause).ok()));
                let all: Vec<State> = all.collect();
                let behind: &[Trigger] = if event == Some(Seen::End) { &AFTER_EXCHANGE } else { &[] };
                allowed = all.iter().flat_map(|state| document.closure(*state, behind)).collect();
            }
            assert!(allowed.contains(&to), "{}: {from:?} {event:?} {to:?}", self.connection.role());
            let Some(event) = event else { break };
            self.check_order(event);
            self.events.push(event);
        }
        (self.parts(), self.events.len()) != before
    }

    /// Checks that an event may follow those before it: heads, bodies and ends in turn, and nothing after the last one.
    fn check_order(&self, event: Seen) {
        let is_open = |last: Option<&Seen>| matches!(last, Some(Seen::Head | Seen::Body));
        let last = self.events.last();
        let fits = match event {
            _ if matches!(last, Some(Seen::Gone | Seen::Fault)) => false,
            Seen::Head => !is_open(last),
            Seen::Body | Seen::End => is_open(last),
            Seen::Gone => !is_open(last),
            Seen::Fault => true,
        };
        assert!(fits, "{}: {:?} {event:?}", self.connection.role(), self.events);
        let is_last = matches!(event, Seen::Gone | Seen::Fault);
        assert!(!is_last || self.connection.state.is_over(), "{event:?} ends the connection");
    }
}

/// Runs all sequences of steps of which each but the last has an effect, and returns how many there were.
#[allow(private_bounds, reason = "there are no other roles")]
fn explore<R: Role>(steps: &[Step], longest: usize, taken: &mut Vec<Step>, document: &Document) -> u64
where
    connection::Connection<R>: Side,
{
    let mut count = 0;
    for step in steps {
        let mut run = Run::<R>::new();
        for earlier in &*taken {
            run.step(*earlier, document);
        }
        count += 1;
        if run.step(*step, document) && taken.len() + 1 < longest {
            taken.push(*step);
            count += explore::<R>(steps, longest, taken, document);
            taken.pop();
        }
    }
    count
}

const REQUEST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
const EXPECTING: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
const OLD_REQUEST: &str = "GET / HTTP/1.0\r\n\r\n";
const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";

#[test]
fn exhaustive_states_of_a_server_are_those_of_the_document() {
    const STEPS: [Step; 14] = [
        Step::Input(REQUEST),
        Step::Input(EXPECTING),
        Step::Input(OLD_REQUEST),
        Step::Input("x"),
        Step::Input("\r\n"),
        Step::Eof,
        Step::Later,
        Step::Begin(BodySize::Stream),
        Step::Write,
        Step::End,
        Step::Sent,
        Step::Abort,
        Step::Close,
        Step::Poll,
    ];
    exhaustive(
        "HTTP/1.1 server: every command and event moves it as docs/h1-states.md shows, or is refused with its error and changes nothing",
        "sequences of 14 commands and events of which each but the last has an effect, up to a length of",
        [5, 7, 8],
        |longest| explore::<server::ServerRole>(&STEPS, longest, &mut Vec::new(), &Document::new("Server")),
    );
}

#[test]
fn exhaustive_states_of_a_client_are_those_of_the_document() {
    const STEPS: [Step; 14] = [
        Step::Begin(BodySize::Stream),
        Step::Write,
        Step::End,
        Step::Sent,
        Step::Input(RESPONSE),
        Step::Input("HTTP/1.1 200 OK\r\n\r\n"),
        Step::Input("x"),
        Step::Eof,
        Step::Broken,
        Step::WriteFailed,
        Step::Later,
        Step::Abort,
        Step::Close,
        Step::Poll,
    ];
    exhaustive(
        "HTTP/1.1 client: every command and event moves it as docs/h1-states.md shows, or is refused with its error and changes nothing",
        "sequences of 14 commands and events of which each but the last has an effect, up to a length of",
        [5, 7, 8],
        |longest| explore::<client::ClientRole>(&STEPS, longest, &mut Vec::new(), &Document::new("Client")),
    );
}
