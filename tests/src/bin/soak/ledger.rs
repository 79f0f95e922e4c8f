//! What the client knows of its calls: one outcome for each, one answer on the wire for each at most

use alloc::sync::Arc;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_blocking::ClientHandler;
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Diagnostic, Limits};
use serde::Deserialize;

use crate::Failed;
use crate::tally::Report;

/// How a call ended at the client
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Answered,
    Cancelled,
}

/// All calls; shared by those who make them and by what watches the wire
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    /// By number
    open: Vec<bool>,
    answered: usize,
    cancelled: usize,
    /// Requests on the wire, by id
    requests: HashMap<u64, Request>,
    late: usize,
    server: Option<Report>,
    /// What is wrong; the first few
    wrong: Vec<String>,
}

/// A request on the wire
#[derive(Clone, Copy, Default, Debug)]
struct Request {
    answered: bool,
    cancelled: bool,
}

/// What a ledger comes to
#[derive(Debug)]
pub(crate) struct Counts {
    answered: usize,
    cancelled: usize,
    late: usize,
    begun: usize,
}

impl core::fmt::Display for Counts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { answered, cancelled, late, begun } = self;
        write!(
            f,
            "{answered} answered, {cancelled} cancelled ({late} answers too late), {begun} handlers ran"
        )
    }
}

impl Ledger {
    pub(crate) fn new(calls: usize) -> Self {
        // Room for all of them from the beginning: growing would look like a leak.
        let requests = HashMap::with_capacity(calls + 1_000);
        let open = vec![true; calls];
        let wrong = Vec::new();
        let book = Book { open, answered: 0, cancelled: 0, requests, late: 0, server: None, wrong };
        Self(Arc::new(Mutex::new(book)))
    }

    /// Call `number` has ended; how many have
    pub(crate) fn end(&self, number: usize, outcome: Outcome) -> usize {
        let mut book = self.book();
        if !book.open.get_mut(number).is_some_and(core::mem::take) {
            book.wrong(format!("call {number} ended twice"));
        }
        match outcome {
            Outcome::Answered => book.answered += 1,
            Outcome::Cancelled => book.cancelled += 1,
        }
        book.answered + book.cancelled
    }

    /// What the server says in the end
    pub(crate) fn server(&self, report: Report) {
        self.book().server = Some(report);
    }

    /// What watches the wire, under [`watched`]
    pub(crate) fn watch(&self) -> Watch {
        Watch(self.clone())
    }

    pub(crate) fn check(&self) -> Result<Counts, Failed> {
        let mut book = self.book();
        let open = book.open.iter().filter(|open| **open).count();
        let unanswered = book.requests.values().filter(|r| !r.answered && !r.cancelled).count();
        let server = book.server.take().ok_or("the server was not asked")?;
        let (answered, cancelled, late, begun) = (book.answered, book.cancelled, book.late, server.begun);
        if open > 0 {
            book.wrong(format!("{open} calls have no outcome"));
        }
        if unanswered > 0 {
            book.wrong(format!("{unanswered} requests have no answer and were not cancelled"));
        }
        if server.running > 0 {
            book.wrong(format!("{} handlers run still", server.running));
        }
        // Those that were cancelled may have been so before they began.
        if begun < answered || begun > answered + cancelled {
            book.wrong(format!("{begun} handlers ran, {answered} were answered, {cancelled} cancelled"));
        }
        server.odd.iter().for_each(|odd| book.wrong(format!("the server says: {odd}")));
        if !book.wrong.is_empty() {
            return Err(book.wrong.join("\n").into());
        }
        Ok(Counts { answered, cancelled, late, begun })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn wrong(&mut self, what: String) {
        if self.wrong.len() < 10 {
            self.wrong.push(what);
        }
    }

    fn is_cancelled(&self, id: &str) -> bool {
        let request = id.parse().ok().and_then(|id: u64| self.requests.get(&id));
        request.is_some_and(|request| request.cancelled)
    }

    fn sent(&mut self, message: &Message) {
        if let (Some(id), true) = (message.id, message.method) {
            if self.requests.insert(id, Request::default()).is_some() {
                self.wrong(format!("the id {id} was used twice"));
            }
        } else if let Some(Params { request: Some(id) }) = message.params {
            self.requests.entry(id).or_default().cancelled = true;
        }
    }

    fn received(&mut self, message: &Message) {
        let (Some(id), false) = (message.id, message.method) else { return };
        let Some(request) = self.requests.get_mut(&id) else {
            return self.wrong(format!("an answer to {id}, which was not asked"));
        };
        if core::mem::replace(&mut request.answered, true) {
            self.wrong(format!("{id} was answered twice"));
        }
    }
}

/// Limits under which everything that passes is shown
pub(crate) fn watched() -> Limits {
    let mut limits = Limits::default();
    limits.tap_records = 10_000;
    limits.tap_bytes = 16 << 20;
    limits
}

/// Sees what passes
#[derive(Debug)]
pub(crate) struct Watch(Ledger);

impl ClientHandler for Watch {
    fn tap(&mut self, record: &TapRecord) {
        let mut book = self.0.book();
        match serde_json::from_slice(&record.bytes) {
            Ok(message) if record.direction == Direction::Out => book.sent(&message),
            Ok(message) => book.received(&message),
            Err(error) => book.wrong(format!("{error}: {}", String::from_utf8_lossy(&record.bytes))),
        }
    }

    /// An answer may cross the cancellation; everything else is wrong
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        let mut book = self.0.book();
        match diagnostic {
            Diagnostic::LateResponse(id) if book.is_cancelled(&id.to_string()) => book.late += 1,
            other => book.wrong(format!("the client says: {other}")),
        }
    }
}

/// What is looked at of a message
#[derive(Deserialize)]
struct Message {
    /// Ours are numbers
    id: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    method: bool,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "requestId")]
    request: Option<u64>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(begun: usize) -> Report {
        Report { begun, running: 0, odd: Vec::new(), resident: 0 }
    }

    /// Two calls: the first is answered, the second is cancelled and answered too late
    fn good() -> Ledger {
        let ledger = Ledger::new(2);
        ledger.server(report(2));
        ledger.end(0, Outcome::Answered);
        ledger.end(1, Outcome::Cancelled);
        let mut book = ledger.book();
        for line in [
            r#"{"id":1,"method":"m"}"#,
            r#"{"id":2,"method":"m"}"#,
            r#"{"method":"c","params":{"requestId":2}}"#,
        ] {
            book.sent(&serde_json::from_str(line).expect("a message"));
        }
        for line in [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{}}"#] {
            book.received(&serde_json::from_str(line).expect("a message"));
        }
        drop(book);
        ledger
    }

    #[track_caller]
    fn fails(ledger: &Ledger, why: &str) {
        let said = ledger.check().expect_err("something is wrong").to_string();
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn each_call_ends_once() {
        assert!(good().check().is_ok());
        let twice = good();
        twice.end(0, Outcome::Answered);
        fails(&twice, "call 0 ended");
        let open = Ledger::new(3);
        open.server(report(0));
        fails(&open, "3 calls have no outcome");
    }

    #[test]
    fn each_request_is_answered_once() {
        for (line, why) in
            [(r#"{"id":1,"result":{}}"#, "answered twice"), (r#"{"id":3,"error":{}}"#, "not asked")]
        {
            let ledger = good();
            ledger.book().received(&serde_json::from_str(line).expect("a message"));
            fails(&ledger, why);
        }
        for (line, why) in
            [(r#"{"id":1,"method":"m"}"#, "used twice"), (r#"{"id":4,"method":"m"}"#, "no answer")]
        {
            let ledger = good();
            ledger.book().sent(&serde_json::from_str(line).expect("a message"));
            fails(&ledger, why);
        }
    }

    #[test]
    fn the_server_is_believed() {
        let with = |change: fn(&mut Report)| {
            let ledger = good();
            let mut report = report(2);
            change(&mut report);
            ledger.server(report);
            ledger
        };
        fails(&with(|report| report.begun = 3), "3 handlers ran");
        fails(&with(|report| report.begun = 0), "0 handlers ran");
        fails(&with(|report| report.running = 1), "1 handlers run still");
        fails(&with(|report| report.odd.push("call 1 ran twice".into())), "ran twice");
        let unasked = Ledger::new(0);
        fails(&unasked, "was not asked");
    }

    #[test]
    fn only_what_was_cancelled_may_be_late() {
        let ledger = good();
        let mut watch = ledger.watch();
        watch.diagnostic(&Diagnostic::LateResponse(2.into()));
        assert_eq!(ledger.check().expect("all is well").late, 1);
        ledger.server(report(2));
        watch.diagnostic(&Diagnostic::LateResponse(1.into()));
        fails(&ledger, "too late");
    }
}
