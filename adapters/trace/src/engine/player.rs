//! The replay of one side: steps in, messages out, each compared with what was recorded.

use alloc::collections::VecDeque;

use mcp_proto::pipe::Pipe;
use mcp_proto::{Instant, RawJson};

use super::message::{Message, Relation, compare, first_difference};
use super::steps::{Action, Piece, Step, Steps};
use super::translation::Translation;
use super::{Difference, Replayed};
use crate::record::{Content, Side};
use crate::trace::Trace;

/// Deadlines that may pass at one time without a message. A deadline that is due again at once would never end.
const MAX_IDLE_DEADLINES: usize = 10_000;

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

/// A message that the engine has said and that was not found in the recording yet.
#[derive(Debug)]
struct Said {
    at: Instant,
    text: Vec<u8>,
    message: Option<Message>,
}

struct Player<'t, R> {
    trace: &'t Trace,
    steps: Steps,
    role: R,
    names: Translation,
    now: Instant,
    said: VecDeque<Said>,
    /// Bytes of the engine that are no whole line yet.
    unfinished: Vec<u8>,
    /// Recorded messages that the engine has not said yet: it may say them later.
    awaited: Vec<(usize, Message)>,
    /// Text of the input line that is being read, in the words of the engine.
    line: Option<(usize, Vec<u8>)>,
    outcome: Replayed,
}

/// Replays a trace.
pub(super) fn play<R: Role>(trace: &Trace, side: Side, role: R) -> Replayed {
    let steps = Steps::new(trace, side);
    let mut player = Player {
        trace,
        steps,
        role,
        names: Translation::default(),
        now: Instant::ZERO,
        said: VecDeque::new(),
        unfinished: Vec::new(),
        awaited: Vec::new(),
        line: None,
        outcome: Replayed::default(),
    };
    player.run(side);
    player.outcome
}

impl<R: Role> Player<'_, R> {
    fn run(&mut self, side: Side) {
        for index in core::mem::take(&mut self.steps.missing) {
            self.outcome.unplayed.push((index, "its bytes were not recorded".into()));
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
            if self.outcome.difference.is_some() {
                return;
            }
        }
        self.finish(side);
    }

    /// Lets the deadlines pass until `to`.
    fn advance(&mut self, to: Instant) {
        let mut idle = 0;
        while let Some(due) = self.role.engine().poll_timeout().filter(|due| *due <= to) {
            self.now = self.now.max(due);
            let now = self.now;
            self.role.engine().handle_timeout(now);
            let said = self.said.len();
            self.collect();
            idle = if self.said.len() > said { 0 } else { idle + 1 };
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
                self.line = Some((piece.line, self.translate_input(&recorded)));
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

    fn translate_input(&mut self, recorded: &[u8]) -> Vec<u8> {
        let Some(message) = Message::parse(recorded) else { return recorded.to_vec() };
        let members = match message.json.elements() {
            Some(members) => members,
            None => vec![message.json.clone()],
        };
        let translated: Vec<_> = members
            .into_iter()
            .map(|member| {
                let member = Message::new(member);
                let translated = self.names.input(&member);
                self.role.note_input(&Message::new(translated.clone()));
                (translated != member.json, translated)
            })
            .collect();
        if !translated.iter().any(|(changed, _)| *changed) {
            return recorded.to_vec();
        }
        let texts: Vec<_> = translated.iter().map(|(_, json)| json.as_str()).collect();
        match message.json.elements() {
            Some(_) => format!("[{}]", texts.join(",")).into_bytes(),
            None => texts.concat().into_bytes(),
        }
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
            let message = Message::parse(&text);
            self.said.push_back(Said { at: now, text, message });
        }
        for (record, message) in core::mem::take(&mut self.awaited) {
            if !self.settle(record, &message) {
                self.awaited.push((record, message));
            }
        }
    }

    /// Finds a recorded message among those that the engine says.
    fn expect(&mut self, record: usize, text: &[u8], next: &VecDeque<Step>) {
        if text.is_empty() {
            return;
        }
        let Some(message) = Message::parse(text) else {
            let reason = "the recorded line is no JSON text".into();
            return self.differ(Some(record), Some(text), None, reason);
        };
        if self.settle(record, &message) {
            return;
        }
        let members = message.json.elements().unwrap_or_else(|| vec![message.json.clone()]);
        for member in members {
            let now = self.now;
            let mut joined = vec![Message::new(member)];
            if self.role.is_joined(&message) {
                joined.extend(self.joined(next));
            }
            match self.role.act(now, &joined) {
                Ok(()) => {}
                Err(Refusal::NoCommand(reason)) => {
                    self.outcome.unplayed.push((record, reason));
                    return;
                }
                Err(Refusal::Refused(reason)) => {
                    return self.differ(Some(record), Some(text), None, reason);
                }
            }
        }
        self.collect();
        if self.outcome.difference.is_none() && !self.settle(record, &message) {
            self.awaited.push((record, message));
        }
    }

    /// Returns the messages that follow at once and belong to the same command.
    fn joined(&self, next: &VecDeque<Step>) -> Vec<Message> {
        let messages = next.iter().map_while(|step| match &step.action {
            Action::Expect { text, .. } => Message::parse(text),
            Action::Read(_) | Action::InputEnds => None,
        });
        messages.filter(|message| self.role.is_joined(message)).collect()
    }

    /// Compares a recorded message with its counterpart. Returns whether there was one.
    fn settle(&mut self, record: usize, recorded: &Message) -> bool {
        let is_array = |message: &Message| message.json.as_bytes().first() == Some(&b'[');
        let mut counterpart = None;
        for (index, said) in self.said.iter().enumerate() {
            let Some(message) = &said.message else { continue };
            if is_array(recorded) != is_array(message) {
                continue;
            }
            // A request has got its id from the engine: the first one of this method.
            let translated =
                if recorded.is_request() && message.is_request() && recorded.method == message.method {
                    let mut names = core::mem::take(&mut self.names);
                    if recorded.id.as_ref().is_some_and(|id| names.engine_id(id).is_none()) {
                        names.learn(recorded, message);
                    }
                    let translated = names.output(message);
                    self.names = names;
                    translated
                } else {
                    self.names.learn_state(recorded, message);
                    self.names.output(message)
                };
            let relation = compare(recorded, &translated);
            if relation != Relation::Different {
                counterpart = Some((index, relation, translated));
                break;
            }
            if counterpart.is_none() && recorded.is_counterpart(&translated) {
                counterpart = Some((index, relation, translated));
            }
        }
        let Some((index, relation, translated)) = counterpart else { return false };
        // Notifications of one method may come in another order.
        if relation == Relation::Different && recorded.id.is_none() && !is_array(recorded) {
            return false;
        }
        self.said.remove(index);
        match relation {
            Relation::Identical => self.outcome.identical += 1,
            Relation::Equal => self.outcome.equal += 1,
            Relation::Reworded => self.outcome.reworded += 1,
            Relation::Different => {
                let reason = first_difference(&recorded.json, &translated.json);
                let replayed = translated.json.as_bytes().to_vec();
                self.differ(Some(record), Some(recorded.json.as_bytes()), Some(&replayed), reason);
            }
        }
        true
    }

    fn differ(
        &mut self,
        record: Option<usize>,
        recorded: Option<&[u8]>,
        replayed: Option<&[u8]>,
        reason: String,
    ) {
        if self.outcome.difference.is_some() {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let at = record
            .and_then(|record| self.trace.records.get(record))
            .map_or(self.now.as_micros(), |record| record.at);
        self.outcome.difference = Some(Difference {
            record,
            at,
            recorded: recorded.map(text),
            replayed: replayed.map(text),
            reason,
        });
    }

    /// Reports what is left on either side.
    fn finish(&mut self, side: Side) {
        // A second later: what waits for a rate comes out.
        self.advance(self.now + core::time::Duration::from_secs(1));
        self.collect();
        if let Some((record, message)) = self.awaited.first() {
            // The notification that was said instead, if there is one of its kind.
            let similar = self
                .said
                .iter()
                .find(|said| said.message.as_ref().is_some_and(|said| said.is_counterpart(message)));
            let replayed = similar.map(|said| said.text.clone());
            let reason = match similar.and_then(|said| said.message.as_ref()) {
                Some(said) => first_difference(&message.json, &said.json),
                None => "the engine does not say it".into(),
            };
            let (record, text) = (*record, message.json.as_bytes().to_vec());
            return self.differ(Some(record), Some(&text), replayed.as_deref(), reason);
        }
        // At its end a recording may lack what was said last.
        let has_ended = self
            .trace
            .records
            .iter()
            .any(|record| record.from == side && matches!(record.content, Content::End(_)));
        let last = self.trace.records.iter().map(|record| record.at).max().unwrap_or_default();
        let settled = Instant::from_micros(last.saturating_sub(1_000_000));
        // What a side gives up of its own it may cancel, or not (CANC-001).
        let is_cancellation = |said: &Said| {
            said.message
                .as_ref()
                .is_some_and(|said| said.method.as_deref() == Some("notifications/cancelled"))
        };
        let is_early = |said: &Said| said.at < settled || (has_ended && said.at < Instant::from_micros(last));
        let extra = self.said.iter().find(|said| is_early(said) && !is_cancellation(said));
        if let Some(extra) = extra {
            let text = extra.text.clone();
            self.now = extra.at;
            self.differ(None, None, Some(&text), "the engine says what was not recorded".into());
        }
    }
}

/// Returns the members of an object that belong to the application: none of the protocol's own.
pub(super) fn without(object: &RawJson, is_own: impl Fn(&str) -> bool) -> RawJson {
    object.retain_members(|name| !is_own(name)).unwrap_or_else(RawJson::empty_object)
}
