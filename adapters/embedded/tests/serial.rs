//! The polled server on a line that is full, broken, or handed to another client.

#[path = "support/lines.rs"]
mod lines;
mod support;

use embedded_io::{ErrorKind, ErrorType, Read, ReadReady, Write, WriteReady};
use mcp_embedded::serial::SerialServer;
use mcp_embedded::{Application, Turn};
use mcp_proto::server::{Engine, Event};
use mcp_proto::{CallId, Instant, RawJson};

use crate::lines::{START as NOW, call, messages, server};

/// A line that takes `room` bytes, and whose reader may fail once.
#[derive(Default)]
struct Line {
    input: Vec<u8>,
    output: Vec<u8>,
    room: usize,
    fails: bool,
}

impl ErrorType for Line {
    type Error = ErrorKind;
}

impl ReadReady for Line {
    fn read_ready(&mut self) -> Result<bool, ErrorKind> {
        Ok(self.fails || !self.input.is_empty())
    }
}

impl Read for Line {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ErrorKind> {
        if core::mem::take(&mut self.fails) {
            return Err(ErrorKind::Other);
        }
        let n = bytes.len().min(self.input.len());
        bytes[..n].copy_from_slice(&self.input[..n]);
        self.input.drain(..n);
        Ok(n)
    }
}

impl WriteReady for Line {
    fn write_ready(&mut self) -> Result<bool, ErrorKind> {
        Ok(self.room > 0)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        let n = bytes.len().min(self.room);
        self.output.extend_from_slice(&bytes[..n]);
        self.room -= n;
        Ok(n)
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        panic!("a turn never waits")
    }
}

/// Keeps the calls that it gets.
#[derive(Default)]
struct Calls {
    open: Vec<CallId>,
    cancelled: usize,
}

impl Application for Calls {
    fn handle_event(&mut self, _: Instant, _: &mut Engine, event: Event) {
        match event {
            Event::Call(call) => self.open.push(call.id()),
            Event::Cancelled { call, .. } => {
                self.open.retain(|open| *open != call);
                self.cancelled += 1;
            }
            _ => {}
        }
    }
}

/// Polls until nothing is left to do.
fn settle(server: &mut SerialServer, line: &mut Line, app: &mut Calls) {
    while server.poll(NOW, line, app).expect("a sound line") == Turn::Busy {}
}

#[test]
fn full_line_holds_output_until_there_is_room() {
    let (mut server, mut app) = (server(), Calls::default());
    let mut line = Line { input: call(1), ..Line::default() };
    settle(&mut server, &mut line, &mut app);
    let result = RawJson::new("{\"content\":[]}").expect("JSON");
    server.engine().complete_raw(NOW, app.open[0], &result).expect("an open call");
    settle(&mut server, &mut line, &mut app);
    assert!(line.output.is_empty());
    while messages_end(&line) {
        line.room = 7;
        settle(&mut server, &mut line, &mut app);
    }
    assert_eq!(messages(&line.output)[0]["id"], 1);
}

/// Returns whether the message on the line is not complete.
fn messages_end(line: &Line) -> bool {
    line.output.last() != Some(&b'\n')
}

#[test]
fn error_of_line_loses_nothing_but_its_bytes() {
    let (mut server, mut app) = (server(), Calls::default());
    let mut line = Line { input: call(1), room: 1_000, ..Line::default() };
    settle(&mut server, &mut line, &mut app);
    line.fails = true;
    assert_eq!(server.poll(NOW, &mut line, &mut app), Err(ErrorKind::Other));
    line.input = call(2);
    settle(&mut server, &mut line, &mut app);
    assert_eq!((app.open.len(), app.cancelled), (2, 0));
}

#[test]
fn restart_cancels_calls_and_ends_half_a_message() {
    let (mut server, mut app) = (server(), Calls::default());
    let mut line = Line { input: [call(1), call(2)].concat(), room: 10, ..Line::default() };
    settle(&mut server, &mut line, &mut app);
    let result = RawJson::new("{\"content\":[]}").expect("JSON");
    server.engine().complete_raw(NOW, app.open[0], &result).expect("an open call");
    settle(&mut server, &mut line, &mut app);
    assert_eq!(line.output.len(), 10, "half a message");
    line.room = 10_000;
    server.restart(NOW, &mut line, &mut app).expect("a sound line");
    assert_eq!((app.cancelled, line.output.last()), (1, Some(&b'\n')));
    line.output.clear();
    // The ids of the earlier client are free.
    line.input = call(2);
    app.open.clear();
    settle(&mut server, &mut line, &mut app);
    server.engine().complete_raw(NOW, app.open[0], &result).expect("an open call");
    settle(&mut server, &mut line, &mut app);
    assert_eq!(messages(&line.output)[0]["id"], 2);
}

#[test]
fn turns_combine_to_the_earliest() {
    let (soon, late) = (Some(Instant::from_micros(5)), Some(Instant::from_micros(9)));
    assert_eq!(Turn::Idle(soon).and(Turn::Idle(late)), Turn::Idle(soon));
    assert_eq!(Turn::Idle(None).and(Turn::Busy), Turn::Busy);
    assert_eq!(Turn::Closed.and(Turn::Idle(late)), Turn::Idle(late));
}
