//! The replay of one side: steps in, messages out, each compared with what was recorded.

use alloc::collections::VecDeque;

use mcp_proto::pipe::Pipe;
use mcp_proto::{Instant, RawJson};

use crate::compare::Replayed;
use crate::compare::comparison::Comparison;
use crate::compare::steps::{Action, Piece, Step, Steps};
use crate::message::Message;
use crate::record::Side;
use crate::trace::Trace;

/// Deadlines that may pass at one time without a message. A deadline that is due again at once would never end.
const MAX_IDLE_DEADLINES: usize = 10_000;

/// Most requests of one command: as many as an engine takes by default.
const MAX_JOINED: usize = 64;

/// One side of the protocol, played by its engine.
pub(super) trait Role {
    /// The engine on its byte stream.
    type Engine: Pipe;

    /// Returns the engine.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Notes a message of the peer, as the engine gets it.
    fn note_input(&mut self, recorded: &Message);

    /// Takes an event of the engine.
    fn handle_event(&mut self, now: Instant, event: <Self::Engine as Pipe>::Event);

    /// Returns whether one command sends the message together with others of its kind that follow it.
    fn is_joined(&self, recorded: &Message) -> bool;

    /// Does what an application did that had this message sent, with those that are [joined](Self::is_joined) with it.
    ///
    /// # Errors
    ///
    /// Nothing was done.
    fn act(&mut self, now: Instant, recorded: &[Message]) -> Result<(), Refusal>;
}

/// The reason why a recorded message is not said.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The engine has no command for it.
    NoCommand(String),
    /// There is nothing that it could belong to, or the engine refuses it.
    Refused(String),
}

impl<E: core::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Refused(error.to_string())
    }
}

struct Player<'t, R> {
    steps: Steps,
    role: R,
    now: Instant,
    comparison: Comparison<'t>,
    /// Bytes of the engine that are no whole line yet.
    unfinished: Vec<u8>,
    /// Text of the input line that is being read, in the words of the engine.
    line: Option<(usize, Vec<u8>)>,
}

/// Replays a trace.
pub(super) fn play<R: Role>(trace: &Trace, side: Side, role: R) -> Replayed {
    let steps = Steps::new(trace, side);
    let comparison = Comparison::new(trace);
    let now = Instant::ZERO;
    let mut player = Player { steps, role, now, comparison, unfinished: Vec::new(), line: None };
    player.run(side);
    player.comparison.outcome
}

impl<R: Role> Player<'_, R> {
    fn run(&mut self, side: Side) {
        for index in core::mem::take(&mut self.steps.missing) {
            self.comparison.outcome.unplayed.push((index, "its bytes were not recorded".into()));
        }
        self.collect();
        let mut steps: VecDeque<_> = core::mem::take(&mut self.steps.steps).into();
        while let Some(Step { at, action }) = steps.pop_front() {
            self.advance(Instant::from_micros(at));
            match action {
                Action::Read(pieces) => self.read(&pieces),
                Action::InputEnds => {
                    let now = self.now;
                    self.role.engine().handle_eof(now);
                }
                Action::Expect { record, text } => self.expect(record, &text, &steps),
            }
            self.collect();
            if self.comparison.outcome.difference().is_some() {
                return;
            }
        }
        // A second later: what waits for a rate comes out.
        self.advance(self.now + core::time::Duration::from_secs(1));
        self.collect();
        self.comparison.finish(self.now, side);
    }

    /// Lets the deadlines pass until `to`.
    fn advance(&mut self, to: Instant) {
        let mut idle = 0;
        while let Some(due) = self.role.engine().poll_timeout().filter(|due| *due <= to) {
            self.now = self.now.max(due);
            let now = self.now;
            self.role.engine().handle_timeout(now);
            let said = self.comparison.unmatched();
            self.collect();
            idle = if self.comparison.unmatched() > said { 0 } else { idle + 1 };
            if idle > MAX_IDLE_DEADLINES {
                break;
            }
        }
        self.now = self.now.max(to);
    }

    /// Passes the bytes of one read to the engine.
    fn read(&mut self, pieces: &[Piece]) {
        let mut bytes = Vec::new();
        for piece in pieces {
            if self.line.as_ref().is_none_or(|(line, _)| *line != piece.line) {
                let recorded =
                    self.steps.lines.get(piece.line).map(|line| line.text.clone()).unwrap_or_default();
                let role = &mut self.role;
                let text = self.comparison.translate(&recorded, &mut |message| role.note_input(message));
                self.line = Some((piece.line, text));
            }
            let Some((_, text)) = &self.line else { continue };
            let end = piece.end.unwrap_or(text.len()).min(text.len());
            bytes.extend_from_slice(text.get(piece.begin.min(end)..end).unwrap_or_default());
            if piece.end.is_none() {
                if self.steps.lines.get(piece.line).is_some_and(|line| !line.open) {
                    bytes.push(b'\n');
                }
                self.line = None;
            }
        }
        let now = self.now;
        self.role.engine().handle_input(now, &bytes);
    }

    /// Takes all events and all output of the engine.
    fn collect(&mut self) {
        let now = self.now;
        while let Some(event) = self.role.engine().poll_event(now) {
            self.role.handle_event(now, event);
        }
        let engine = self.role.engine();
        loop {
            let bytes = engine.transmit();
            let length = bytes.len();
            if length == 0 {
                break;
            }
            self.unfinished.extend_from_slice(bytes);
            engine.consume(length);
        }
        while let Some(newline) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let mut text: Vec<u8> = self.unfinished.drain(..=newline).collect();
            text.pop();
            self.comparison.say(now, text);
        }
        self.comparison.settle_awaited(now);
    }

    /// Finds a recorded message among those that the engine says.
    fn expect(&mut self, record: usize, text: &[u8], next: &VecDeque<Step>) {
        if text.is_empty() {
            return;
        }
        let Some(message) = Message::parse(text) else {
            let reason = "the recorded line is no JSON text".into();
            return self.comparison.differ(self.now, Some(record), Some(text), None, reason);
        };
        if self.comparison.settle(self.now, record, &message) {
            return;
        }
        let members = message.parts();
        for member in members {
            let now = self.now;
            let mut joined = vec![Message::new(member)];
            if self.role.is_joined(&message) {
                joined.extend(self.joined(next));
            }
            match self.role.act(now, &joined) {
                Ok(()) => {}
                Err(Refusal::NoCommand(reason)) => {
                    self.comparison.outcome.unplayed.push((record, reason));
                    return;
                }
                Err(Refusal::Refused(reason)) => {
                    return self.comparison.differ(self.now, Some(record), Some(text), None, reason);
                }
            }
        }
        self.collect();
        if self.comparison.outcome.difference().is_none()
            && !self.comparison.settle(self.now, record, &message)
        {
            self.comparison.await_message(record, message);
        }
    }

    /// Returns the messages that follow at once and belong to the same command.
    fn joined(&self, next: &VecDeque<Step>) -> Vec<Message> {
        let messages = next.iter().map_while(|step| match &step.action {
            Action::Expect { text, .. } => {
                Message::parse(text).filter(|message| self.role.is_joined(message))
            }
            Action::Read(_) | Action::InputEnds => None,
        });
        messages.take(MAX_JOINED).collect()
    }
}

/// Returns the members of an object that belong to the application: none of the protocol's own.
pub(super) fn without(object: &RawJson, is_own: impl Fn(&str) -> bool) -> RawJson {
    object.retain_members(|name| !is_own(name)).unwrap_or_else(RawJson::empty_object)
}
