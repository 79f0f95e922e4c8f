//! What was recorded beside what is said now: counterparts, names that differ, the first difference.

use alloc::collections::VecDeque;

use mcp_proto::{Instant, RawJson};

use super::relation::{Relation, compare, first_difference};
use super::translation::Translation;
use super::{Difference, Replayed};
use crate::message::Message;
use crate::record::{Content, Record, Side};
use crate::trace::Trace;

/// A message that the engine has said and that was not found in the recording yet.
#[derive(Debug)]
struct Said {
    at: Instant,
    text: Vec<u8>,
    message: Option<Message>,
}

/// Why what a server says of its tasks is not said again: they are made by its application.
pub(crate) const NO_TASKS: &str = "tasks are not replayed";

/// Most messages without a counterpart.
const MAX_SAID: usize = 100_000;

/// The comparison of one side with its recording.
#[derive(Debug)]
pub(crate) struct Comparison<'t> {
    trace: &'t Trace,
    pub(crate) names: Translation,
    said: VecDeque<Said>,
    /// Recorded messages that were not said yet: they may come later.
    awaited: Vec<(usize, Message)>,
    /// Whether something was said since the last look.
    has_news: bool,
    /// Ids of the requests by which a client asks for the era.
    probes: Vec<String>,
    /// Ids of the requests about tasks.
    about_tasks: Vec<String>,
    pub(crate) outcome: Replayed,
}

impl<'t> Comparison<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            names: Translation::default(),
            said: VecDeque::new(),
            awaited: Vec::new(),
            has_news: false,
            probes: Vec::new(),
            about_tasks: Vec::new(),
            outcome: Replayed::default(),
        }
    }

    /// Returns the number of messages that have no counterpart yet.
    pub(crate) fn unmatched(&self) -> usize {
        self.said.len()
    }

    /// Returns the recorded messages that have no counterpart yet, by their records.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = usize> {
        self.awaited.iter().map(|(record, _)| *record)
    }

    /// Translates a recorded line for the side that hears it. `heard` gets each of its messages.
    pub(crate) fn translate(&mut self, recorded: &[u8], heard: &mut dyn FnMut(&Message)) -> Vec<u8> {
        let Some(message) = Message::parse(recorded) else { return recorded.to_vec() };
        let mut is_changed = false;
        let translated: Vec<_> = message
            .parts()
            .into_iter()
            .map(|member| {
                let translated = self.names.input(&Message::new(member.clone()));
                is_changed |= translated != member;
                let message = Message::new(translated.clone());
                match message.method.as_deref() {
                    Some("server/discover") => self.probes.extend(message.id_text()),
                    Some(method) if method.starts_with("tasks/") => {
                        self.about_tasks.extend(message.id_text());
                    }
                    _ => {}
                }
                heard(&message);
                translated
            })
            .collect();
        let texts: Vec<_> = translated.iter().map(RawJson::as_str).collect();
        match message.is_batch() {
            _ if !is_changed => recorded.to_vec(),
            true => format!("[{}]", texts.join(",")).into_bytes(),
            false => texts.concat().into_bytes(),
        }
    }

    /// Takes a line that is said.
    pub(crate) fn say(&mut self, at: Instant, text: Vec<u8>) {
        // A peer that talks on and on is heard no further.
        if self.said.len() >= MAX_SAID {
            return;
        }
        let message = Message::parse(&text);
        self.said.push_back(Said { at, text, message });
        self.has_news = true;
    }

    /// Looks for what is awaited among what was said since the last look.
    pub(crate) fn settle_awaited(&mut self, now: Instant) {
        if !core::mem::take(&mut self.has_news) {
            return;
        }
        for (record, message) in core::mem::take(&mut self.awaited) {
            if !self.settle(now, record, &message) {
                self.awaited.push((record, message));
            }
        }
    }

    /// Waits for a recorded message.
    pub(crate) fn await_message(&mut self, record: usize, message: Message) {
        self.awaited.push((record, message));
    }

    /// Compares a recorded message with its counterpart. Returns whether there was one.
    pub(crate) fn settle(&mut self, now: Instant, record: usize, recorded: &Message) -> bool {
        let mut counterpart = None;
        for (index, said) in self.said.iter().enumerate() {
            let Some(message) = &said.message else { continue };
            if recorded.is_batch() != message.is_batch() {
                continue;
            }
            // A request has got its id from the engine: the first one of this method.
            if recorded.is_request() && message.is_request() && recorded.method == message.method {
                if recorded.id.as_ref().is_some_and(|id| self.names.engine_id(id).is_none()) {
                    self.names.learn(recorded, message);
                }
            } else {
                self.names.learn_state(recorded, message);
            }
            let translated = self.names.output(message);
            // A legacy server may refuse the probe by any error (VER-025).
            let is_probe = |message: &Message| {
                message.error.is_some() && message.id_text().is_some_and(|id| self.probes.contains(&id))
            };
            let is_refused = recorded.id == translated.id && is_probe(recorded) && is_probe(&translated);
            let relation = match compare(recorded, &translated) {
                Relation::Different if is_refused => Relation::Reworded,
                // By another name.
                Relation::Identical if translated.json != message.json => Relation::Equal,
                relation => relation,
            };
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
        if relation == Relation::Different && recorded.id.is_none() && !recorded.is_batch() {
            return false;
        }
        self.said.remove(index);
        match relation {
            Relation::Identical => self.outcome.identical += 1,
            Relation::Equal => self.outcome.equal += 1,
            Relation::Reworded => self.outcome.reworded += 1,
            // An engine without tasks answers by itself.
            Relation::Different if recorded.id_text().is_some_and(|id| self.about_tasks.contains(&id)) => {
                self.outcome.unplayed.push((record, NO_TASKS.into()));
            }
            Relation::Different => {
                let reason = first_difference(&recorded.json, &translated.json);
                let replayed = translated.json.as_bytes().to_vec();
                self.differ(now, Some(record), Some(recorded.json.as_bytes()), Some(&replayed), reason);
            }
        }
        true
    }

    pub(crate) fn differ(
        &mut self,
        now: Instant,
        record: Option<usize>,
        recorded: Option<&[u8]>,
        replayed: Option<&[u8]>,
        reason: String,
    ) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let at = record
            .and_then(|record| self.trace.records.get(record))
            .map_or(now.as_micros(), |record| record.at);
        self.outcome.differences.push(Difference {
            record,
            at,
            recorded: recorded.map(text),
            replayed: replayed.map(text),
            reason,
        });
    }

    /// Reports what is left on either side of an engine's replay: the first message.
    pub(crate) fn finish(&mut self, now: Instant, side: Side) {
        if !self.awaited.is_empty() {
            self.awaited.truncate(1);
            return self.give_up(now);
        }
        // At its end a recording may lack what was said last.
        let is_end = |record: &Record| record.from == side && matches!(record.content, Content::End(_));
        let has_ended = self.trace.records.iter().any(is_end);
        let last = self.trace.records.iter().map(|record| record.at).max().unwrap_or_default();
        let settled = match has_ended {
            true => last,
            false => last.saturating_sub(1_000_000),
        };
        self.said.retain(|said| said.at < Instant::from_micros(settled));
        self.report_extra();
        self.outcome.differences.truncate(1);
    }

    /// Reports each awaited message as a difference, and awaits it no longer.
    pub(crate) fn give_up(&mut self, now: Instant) {
        for (record, message) in core::mem::take(&mut self.awaited) {
            // The notification that was said instead, if there is one of its kind.
            let is_similar =
                |said: &Said| said.message.as_ref().is_some_and(|said| said.is_counterpart(&message));
            let similar = self.said.iter().position(is_similar).and_then(|index| self.said.remove(index));
            let reason = match similar.as_ref().and_then(|said| said.message.as_ref()) {
                Some(said) => first_difference(&message.json, &said.json),
                None => "it is not said".into(),
            };
            let replayed = similar.map(|said| said.text);
            self.differ(now, Some(record), Some(message.json.as_bytes()), replayed.as_deref(), reason);
        }
    }

    /// Reports what is said and was not recorded.
    pub(crate) fn report_extra(&mut self) {
        // What a side gives up of its own it may cancel, or not (CANC-001).
        let is_cancellation = |said: &Said| {
            said.message
                .as_ref()
                .is_some_and(|said| said.method.as_deref() == Some("notifications/cancelled"))
        };
        for said in core::mem::take(&mut self.said) {
            if !is_cancellation(&said) {
                let reason = "it was not recorded".into();
                self.differ(said.at, None, None, Some(&said.text), reason);
            }
        }
    }
}
