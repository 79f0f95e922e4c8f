//! A failing trace is reduced to the little that still fails.

use alloc::collections::BTreeSet;

use mcp_proto::{MemberEdit, RawJson};

use crate::record::{Content, Line, Record, Side, Text};
use crate::trace::Trace;

/// Reduces a trace while `fails` holds: first messages, then cuts and times, then members and texts of messages.
///
/// `fails` is called for smaller and smaller traces, at most `max_attempts` times. The result fails, if the trace did. No answer loses
/// its request, which would be a failure of its own.
#[must_use]
pub fn shrink(trace: &Trace, max_attempts: usize, fails: impl FnMut(&Trace) -> bool) -> Trace {
    let lone_answers = lone_answers(&trace.records);
    let mut shrinker = Shrinker { trace: trace.clone(), lone_answers, attempts: max_attempts, fails };
    loop {
        let before = size(&shrinker.trace);
        shrinker.remove_records();
        shrinker.remove_cuts();
        shrinker.shrink_messages();
        if size(&shrinker.trace) == before || shrinker.attempts == 0 {
            break;
        }
    }
    shrinker.trim_times();
    shrinker.trace
}

fn size(trace: &Trace) -> (usize, usize) {
    let lines = trace.records.iter().map(|record| match &record.content {
        Content::Line(Line { text: Text::Utf8(text), cuts, .. }) => text.len() + cuts.len(),
        _ => 1,
    });
    (trace.records.len(), lines.sum())
}

struct Shrinker<F> {
    trace: Trace,
    /// Answers without a request before them in the whole trace.
    lone_answers: BTreeSet<Subject>,
    attempts: usize,
    fails: F,
}

impl<F: FnMut(&Trace) -> bool> Shrinker<F> {
    /// Keeps a smaller trace, if it still fails.
    fn attempt(&mut self, records: Vec<Record>) -> bool {
        if self.attempts == 0 || !lone_answers(&records).is_subset(&self.lone_answers) {
            return false;
        }
        self.attempts -= 1;
        let smaller = Trace { records, ..self.trace.clone() };
        let keeps = (self.fails)(&smaller);
        if keeps {
            self.trace = smaller;
        }
        keeps
    }

    /// Removes records: halves, then quarters, down to single ones. A call goes with its response and what is about it.
    fn remove_records(&mut self) {
        let mut length = self.trace.records.len().div_ceil(2);
        while length > 0 {
            let mut begin = 0;
            while begin < self.trace.records.len() {
                let end = (begin + length).min(self.trace.records.len());
                let without = |keeps: &dyn Fn(usize, &Record) -> bool| -> Vec<Record> {
                    let records = self.trace.records.iter().enumerate();
                    records
                        .filter(|(index, record)| keeps(*index, record))
                        .map(|(_, record)| record.clone())
                        .collect()
                };
                let removed = begin..end;
                let ids: Vec<_> = self
                    .trace
                    .records
                    .get(removed.clone())
                    .unwrap_or_default()
                    .iter()
                    .filter_map(subject)
                    .collect();
                let alone = without(&|index, _| !removed.contains(&index));
                let related = without(&|index, record| {
                    !removed.contains(&index) && !subject(record).is_some_and(|id| ids.contains(&id))
                });
                // Both together first: a response does not stay without its request.
                let smaller = related.len() < alone.len() && self.attempt(related);
                if !smaller && !self.attempt(alone) {
                    begin = end;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }

    fn remove_cuts(&mut self) {
        let uncut = |record: &mut Record| {
            if let Content::Line(line) = &mut record.content {
                line.cuts.clear();
                line.joined = false;
            }
        };
        let mut records = self.trace.records.clone();
        records.iter_mut().for_each(uncut);
        if records == self.trace.records || self.attempt(records) {
            return;
        }
        for index in 0..self.trace.records.len() {
            let mut records = self.trace.records.clone();
            records.get_mut(index).into_iter().for_each(uncut);
            if records != self.trace.records {
                self.attempt(records);
            }
        }
    }

    /// Removes members, elements and most of long texts from messages.
    fn shrink_messages(&mut self) {
        for index in 0..self.trace.records.len() {
            let mut place = 0;
            // Each round changes one place of the message, or moves on to the next one.
            while let Some(Record { content: Content::Line(line), .. }) = self.trace.records.get(index) {
                let Some(json) = line.text.to_bytes().and_then(|text| RawJson::new(text).ok()) else { break };
                let mut count = 0;
                let Some(smaller) = edit(&json, &mut count, place) else { break };
                let mut records = self.trace.records.clone();
                if let Some(Record { content: Content::Line(line), .. }) = records.get_mut(index) {
                    line.text = Text::new(smaller.as_bytes());
                }
                if smaller == json || !self.attempt(records) {
                    place += 1;
                }
                if self.attempts == 0 {
                    return;
                }
            }
        }
    }

    /// Times become multiples of a millisecond, if that is enough.
    fn trim_times(&mut self) {
        let mut records = self.trace.records.clone();
        let mut last = 0;
        for record in &mut records {
            last += 1_000;
            record.at = last;
            if let Content::Line(line) = &mut record.content {
                for cut in &mut line.cuts {
                    last += 1_000;
                    cut.at = last;
                }
            }
        }
        self.attempt(records);
    }
}

/// Returns the subjects of answers whose request is not before them.
fn lone_answers(records: &[Record]) -> BTreeSet<Subject> {
    let (mut requests, mut lone) = (BTreeSet::new(), BTreeSet::new());
    for record in records {
        match subject(record) {
            Some(subject) if !is_response(record) => _ = requests.insert(subject),
            Some(subject) if !requests.contains(&subject) => _ = lone.insert(subject),
            _ => {}
        }
    }
    lone
}

fn is_response(record: &Record) -> bool {
    let Content::Line(line) = &record.content else { return false };
    let message = line.text.to_bytes().and_then(|text| RawJson::new(text).ok());
    message.is_some_and(|message| message.member("method").is_none() && message.member("id").is_some())
}

/// The id of a request, and whether the client has allotted it.
type Subject = (bool, String);

/// Returns what a record is about.
fn subject(record: &Record) -> Option<Subject> {
    let Content::Line(line) = &record.content else { return None };
    let message = RawJson::new(line.text.to_bytes()?).ok()?;
    let from_client = record.from == Side::Client;
    let id = |json: RawJson| json.as_str().to_owned();
    match (message.member("method"), message.member("id")) {
        (Some(_), Some(request)) => Some((from_client, id(request))),
        (None, Some(response)) => Some((!from_client, id(response))),
        (Some(_), None) => Some((from_client, id(message.member("params")?.member("requestId")?))),
        (None, None) => None,
    }
}

/// Returns a message with its `place`-th part made smaller, or `None` if it has no such part.
fn edit(json: &RawJson, count: &mut usize, place: usize) -> Option<RawJson> {
    let is_here = |count: &mut usize| {
        *count += 1;
        *count - 1 == place
    };
    if let Some(elements) = json.elements() {
        for (index, element) in elements.iter().enumerate() {
            if is_here(count) {
                let rest = elements.iter().enumerate().filter(|(other, _)| *other != index);
                return array(rest.map(|(_, element)| element.as_str()));
            }
            if let Some(smaller) = edit(element, count, place) {
                let all = elements.iter().enumerate();
                return array(all.map(
                    |(other, element)| if other == index { smaller.as_str() } else { element.as_str() },
                ));
            }
        }
        return None;
    }
    if json.is_object() {
        let mut is_found = false;
        let edited = json.edit_members(|_, value| {
            if is_found {
                return MemberEdit::Keep;
            }
            if is_here(count) {
                is_found = true;
                return MemberEdit::Drop;
            }
            match edit(&value, count, place) {
                Some(smaller) => {
                    is_found = true;
                    MemberEdit::Replace(smaller)
                }
                None => MemberEdit::Keep,
            }
        });
        return edited.filter(|_| is_found);
    }
    let text = json.string().filter(|text| text.len() > SHORT)?;
    if is_here(count) {
        return RawJson::encode(&text.chars().take(SHORT / 4).collect::<String>()).ok();
    }
    None
}

/// Texts of at most so many bytes stay.
const SHORT: usize = 16;

fn array<'a>(elements: impl Iterator<Item = &'a str>) -> Option<RawJson> {
    RawJson::new(format!("[{}]", elements.collect::<Vec<_>>().join(","))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cut, Header};

    fn record(from: Side, text: &str) -> Record {
        Record::new(5, from, Content::Line(Line::new(Text::new(text.as_bytes()))))
    }

    fn texts(trace: &Trace) -> Vec<String> {
        let lines = trace.records.iter().map(|record| match &record.content {
            Content::Line(line) => line.text.to_string(),
            other => format!("{other:?}"),
        });
        lines.collect()
    }

    /// One message of two hundred fails, by one member of its many.
    #[test]
    fn a_trace_is_reduced_to_the_member_that_fails() {
        let mut records = Vec::new();
        for id in 0..100 {
            let text = format!(
                r#"{{"id":{id},"method":"m","params":{{"a":[1,2,{{"deep":{{"bad":{},"x":1}}}}],"b":"{}"}}}}"#,
                id == 57,
                "text ".repeat(30)
            );
            records.push(record(Side::Client, &text));
            records.push(record(Side::Server, &format!(r#"{{"id":{id},"result":{{}}}}"#)));
        }
        if let Content::Line(line) = &mut records[114].content {
            line.cuts.push(Cut { offset: 3, at: 6 });
        }
        let trace = Trace::new(Header::new("test 1", 0), records);
        let mut calls = 0;
        let fails = |trace: &Trace| texts(trace).iter().any(|text| text.contains(r#""bad":true"#));
        let shrunk = shrink(&trace, 10_000, |trace| {
            calls += 1;
            fails(trace)
        });
        assert_eq!(texts(&shrunk), [r#"{"params":{"a":[{"deep":{"bad":true}}]}}"#]);
        assert!(calls < 200, "{calls}");
    }

    #[test]
    fn a_request_goes_with_its_response() {
        let records = vec![
            record(Side::Client, r#"{"id":1,"method":"a"}"#),
            record(Side::Client, r#"{"id":2,"method":"b"}"#),
            record(Side::Server, r#"{"id":2,"result":{}}"#),
            record(Side::Server, r#"{"id":1,"result":{}}"#),
        ];
        // Each response needs its request.
        let is_whole = |trace: &Trace| {
            let count =
                |id: u32| texts(trace).iter().filter(|text| text.contains(&format!(r#""id":{id}"#))).count();
            count(1) == 2 && (count(2) == 0 || count(2) == 2)
        };
        let shrunk = shrink(&Trace::new(Header::new("test 1", 0), records), 1_000, is_whole);
        assert_eq!(shrunk.records.len(), 2);
    }

    #[test]
    fn an_answer_keeps_its_request_whatever_fails() {
        let records = vec![
            record(Side::Client, r#"{"id":1,"method":"a","params":{"x":1}}"#),
            record(Side::Client, r#"{"id":2,"method":"b"}"#),
            record(Side::Server, r#"{"id":2,"result":{}}"#),
            // Its id was never asked with.
            record(Side::Server, r#"{"id":"1","result":{"is":"bad"}}"#),
            record(Side::Server, r#"{"id":1,"result":{"is":"bad"}}"#),
        ];
        let trace = Trace::new(Header::new("test 1", 0), records);
        let fails =
            |trace: &Trace| texts(trace).iter().any(|text| text.contains(r#""id":1,"result":{"is":"bad""#));
        let shrunk = shrink(&trace, 1_000, fails);
        assert_eq!(texts(&shrunk), [r#"{"id":1,"method":"a"}"#, r#"{"id":1,"result":{"is":"bad"}}"#]);
        let is_odd = |trace: &Trace| texts(trace).iter().any(|text| text.contains(r#""id":"1""#));
        assert_eq!(shrink(&trace, 1_000, is_odd).records.len(), 1);
    }

    #[test]
    fn no_more_attempts_are_made_than_allowed() {
        let records = (0..50).map(|id| record(Side::Client, &format!(r#"{{"id":{id}}}"#))).collect();
        let mut calls = 0;
        let _ = shrink(&Trace::new(Header::new("test 1", 0), records), 10, |_| {
            calls += 1;
            false
        });
        assert_eq!(calls, 10);
    }
}
