//! Completion of texts as they are typed (`--typed`): one request after a pause, and none for a text that is known.

use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use mcp_proto::client::{Completer, Keystroke, KeystrokeKey};
use mcp_proto::model::{CompleteParams, CompleteResult, RequestParams};
use mcp_proto::{CallOptions, RawJson};
use mcp_std::Clock;
use serde::Serialize;

use super::{Complete, CompleteArgs};
use crate::authorization;
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{print, print_value};
use crate::paint::Paint;
use crate::request;
use crate::results;
use crate::session::ClientSession;

/// Output of `--json` for one text.
#[derive(Serialize)]
struct TypedCompletion<'a> {
    text: &'a str,
    result: &'a CompleteResult,
}

pub(super) fn run(args: &CompleteArgs) -> Result<(), CommandFailure> {
    authorization::check_stdin(&args.request_args.target.authorization, "where the texts come from")?;
    let mut session = ClientSession::open_for_requests(&args.request_args, None)?;
    let field = TypedField {
        args,
        completer: Completer::new(),
        clock: Clock::start(),
        lines: read_lines(),
        text: String::new(),
        has_ended: false,
    };
    let outcome = field.complete(&mut session);
    session.close();
    outcome
}

/// An input field whose text comes from stdin.
struct TypedField<'a> {
    args: &'a CompleteArgs,
    completer: Completer,
    clock: Clock,
    lines: Receiver<io::Result<String>>,
    /// The text of the field.
    text: String,
    /// Whether the input has ended. The last text is still completed.
    has_ended: bool,
}

impl TypedField<'_> {
    fn complete(mut self, session: &mut ClientSession) -> Result<(), CommandFailure> {
        while self.read_until_due()? {
            let Some((key, params)) = self.completer.poll_request(self.clock.now()) else { continue };
            self.request(session, key, &params)?;
        }
        Ok(())
    }

    /// Reads texts until a request is due. Returns false at the end of the input, when none will be.
    fn read_until_due(&mut self) -> Result<bool, CommandFailure> {
        loop {
            let due = self.completer.poll_timeout();
            let line = match due {
                Some(due) if self.has_ended => {
                    thread::sleep(self.clock.until(due));
                    return Ok(true);
                }
                None if self.has_ended => return Ok(false),
                Some(due) => self.lines.recv_timeout(self.clock.until(due)),
                None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match line {
                Ok(line) => self.take(line)?,
                Err(RecvTimeoutError::Timeout) => return Ok(true),
                Err(RecvTimeoutError::Disconnected) => self.has_ended = true,
            }
        }
    }

    /// Takes a new text, and prints its completion if that is known.
    fn take(&mut self, line: io::Result<String>) -> Result<(), CommandFailure> {
        self.text = line.map_err(|error| CommandFailure::failed(format!("stdin cannot be read: {error}")))?;
        let Complete { reference, argument, with, .. } = &self.args.complete;
        let params = super::params(reference, argument, &self.text, with);
        let pressed = self.completer.handle_keystroke(self.clock.now(), &params);
        match pressed.map_err(|error| CommandFailure::failed(error.to_string()))? {
            Keystroke::Known(result) => self.print(&result),
            Keystroke::Pending(_) => Ok(()),
        }
    }

    /// Sends a request, and prints its result unless another text came meanwhile.
    fn request(
        &mut self,
        session: &mut ClientSession,
        key: KeystrokeKey,
        params: &RawJson,
    ) -> Result<(), CommandFailure> {
        let mut options = CallOptions::new();
        if let Some(total) = self.args.request_args.total {
            options = options.total_timeout(total);
        }
        let answered = session.client.request(CompleteParams::METHOD, params, &options, &mut |_| {});
        let answered = answered.map_err(|error| session.failure(&error))?;
        let result = CompleteParams::read(&answered)
            .map_err(|why| request::unreadable_result("a completion", &why))?;
        while let Ok(line) = self.lines.try_recv() {
            self.take(line)?;
        }
        if self.completer.handle_result(self.clock.now(), key, &result) {
            self.print(&result)
        } else {
            Ok(())
        }
    }

    fn print(&self, result: &CompleteResult) -> Result<(), CommandFailure> {
        if self.args.request_args.json {
            return print_value(&TypedCompletion { text: &self.text, result });
        }
        let paint = Paint::for_stdout();
        let head = paint.bold(format!("{}:", escape::line(&self.text)));
        print(&format!("{head}\n{}", results::format_completion(result, paint)))
    }
}

/// Maximum number of lines that wait. The input is not read further while there are as many.
const MAX_WAITING_LINES: usize = 256;

/// Reads the lines of stdin on a thread of their own, because a request is due although none comes.
fn read_lines() -> Receiver<io::Result<String>> {
    let (sender, lines) = mpsc::sync_channel(MAX_WAITING_LINES);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
