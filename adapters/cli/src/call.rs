//! `call`: one tool, once

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::model::{CallToolResult, Content};
use mcp_proto::{CallError, CallOptions, Progress, RawJson};
use serde_json::Value;

use crate::args;
use crate::escape;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::paint::Paint;
use crate::session::{self, Session};

pub(crate) fn run(args: &args::Call) -> Result<(), Failure> {
    let mut session = Session::open(&args.target)?;
    session.asked.total = args.total;
    let mut options = CallOptions::new();
    if let Some(total) = args.total {
        options = options.total(total);
    }
    let mut ticker = Ticker::new(args.target.trace);
    // As it came: `--json` is to show that and nothing else.
    let client = &mut session.client;
    let called = client
        .start_tool(&args.tool, &args.args, &options.with_progress())
        .and_then(|call| client.wait_with(call, &mut |progress| ticker.show(progress)));
    ticker.end();
    let outcome = match called {
        Ok(result) => answer(&result, args.json),
        Err(error) => Err(refused(&mut session, &args.tool, &error)),
    };
    // The answer is out before the server is given its time to end.
    session.close();
    outcome
}

/// A failure; when the server refused the call, possibly because it has no such tool, the one to say what it has
fn refused(session: &mut Session, tool: &str, error: &Error) -> Failure {
    let failure = session.failure(error);
    if !matches!(error, Error::Call(CallError::Rpc(_))) {
        return failure;
    }
    let Ok(tools) = session.client.list_tools() else { return failure };
    let mut names: Vec<_> = tools.into_iter().map(|tool| tool.name).collect();
    if names.iter().any(|name| name == tool) {
        return failure;
    }
    if names.is_empty() {
        return failure.hint("the server's list of tools is empty");
    }
    let more = if names.len() > NAMES { ", …" } else { "" };
    names.truncate(NAMES);
    failure.hint(format!(
        "there is no tool `{tool}` in the server's list; there are: {}{more}",
        names.join(", ")
    ))
}

/// Prints the result; a tool that says that it failed is a failure of ours, too
fn answer(result: &RawJson, json: bool) -> Result<(), Failure> {
    let read = result.parse::<CallToolResult<'_>>();
    if json {
        print_json(result)?;
    }
    let read =
        read.map_err(|error| Failure::failed(format!("the answer is no result of a tool: {error}")))?;
    if !json {
        print(&shown(&read, Paint::for_stdout()))?;
    }
    if read.failed() { Err(Failure::failed("the tool reports an error")) } else { Ok(()) }
}

/// A result for people: text as it is, the rest in a line each
fn shown(result: &CallToolResult<'_>, paint: Paint) -> String {
    let mut out = String::new();
    let mut said = false;
    for block in result.content.iter() {
        match block {
            Content::Text(text) => {
                out.push_str(&escape::lines(&text.text));
                if !out.ends_with('\n') {
                    out.push('\n');
                }
                said |= result.structured_content.as_ref().is_some_and(|value| is_json_of(&text.text, value));
            }
            block => {
                let shown = RawJson::encode(block).map_or_else(|e| e.to_string(), |block| other(&block));
                out.push_str(&format!("{}\n", paint.note(shown)));
            }
        }
    }
    if let Some(value) = result.structured_content.as_ref().filter(|_| !said) {
        out.push_str(&format!("{} {}\n", paint.dim("structured:"), escape::line(value.as_str())));
    }
    if out.is_empty() {
        out.push_str(&format!("{}\n", paint.dim("(an empty result)")));
    }
    out
}

/// A block that is no text, without its bulk
fn other(block: &RawJson) -> String {
    let mut value: Value = block.parse().unwrap_or_default();
    abridge(&mut value);
    let text = value.to_string();
    format!("[{}]", escape::line(&text))
}

/// Replaces base64 and other long texts by their length
fn abridge(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONG => *text = format!("… {} bytes …", text.len()),
        Value::Array(values) => values.iter_mut().for_each(abridge),
        Value::Object(members) => members.values_mut().for_each(abridge),
        _ => {}
    }
}

/// Whether a text block says the same as the structured content, as servers do for old clients (TOOL-014)
fn is_json_of(text: &str, value: &RawJson) -> bool {
    let text = serde_json::from_str::<Value>(text).ok();
    text.is_some() && text == value.parse().ok()
}

/// Progress on stderr: one line that changes on a terminal, otherwise a line for each report; where they come faster
/// than anybody reads, the latest ones
struct Ticker {
    live: bool,
    drawn: bool,
    rate: Rate,
    /// The latest report that was not shown
    held: Option<Progress>,
}

/// Lines that may be shown now, which grow again with time
struct Rate {
    left: f64,
    at: Instant,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self { left: LINES, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * LINES).min(LINES);
        self.at = now;
        let any = self.left >= 1.0;
        if any {
            self.left -= 1.0;
        }
        any
    }
}

impl Ticker {
    fn new(trace: bool) -> Self {
        // A line that is drawn over does not go together with other lines.
        Self {
            live: io::stderr().is_terminal() && !trace,
            drawn: false,
            rate: Rate::new(Instant::now()),
            held: None,
        }
    }

    fn show(&mut self, progress: &Progress) {
        if self.rate.take(Instant::now()) {
            self.held = None;
            self.draw(progress);
        } else {
            self.held = Some(progress.clone());
        }
    }

    fn draw(&mut self, progress: &Progress) {
        let line = progress_line(progress);
        if self.live {
            let short: String = line.chars().take(WIDTH).collect();
            let _ = write!(io::stderr(), "\r\x1b[2K{short}");
            self.drawn = true;
        } else {
            session::say(&line);
        }
    }

    fn end(&mut self) {
        if let Some(progress) = self.held.take().filter(|_| !self.live) {
            self.draw(&progress);
        }
        if core::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn progress_line(progress: &Progress) -> String {
    let Progress { progress: done, total, message, .. } = progress;
    let mut line = format!("progress {done}");
    if let Some(total) = total {
        line += &format!("/{total}");
        if *total > 0.0 {
            line += &format!(" ({:.0} %)", (done / total * 100.0).clamp(0.0, 100.0));
        }
    }
    if let Some(message) = message {
        line += &format!(" {}", escape::line(message));
    }
    line
}

/// Tools that are named to who asked for one that does not exist
const NAMES: usize = 20;
/// Bytes of a text in a block that are shown at most
const LONG: usize = 200;
/// Lines of progress in a second, and at once
const LINES: f64 = 10.0;
/// Characters that fit on any terminal
const WIDTH: usize = 78;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn show(json: &'static str) -> String {
        let result = RawJson::new(json).expect("JSON");
        shown(&result.parse().expect("a result"), Paint::PLAIN)
    }

    #[test]
    fn results_are_put_on_lines() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"a\nb"},{"type":"text","text":"c\n"}]}"#, "a\nb\nc\n"),
            (r#"{"content":[{"type":"text","text":"a\u001b[2J"}]}"#, "a\\u001b[2J\n"),
            (r#"{"content":[]}"#, "(an empty result)\n"),
            (r#"{"content":[],"structuredContent":{"x":1}}"#, "structured: {\"x\":1}\n"),
            // Said twice on the wire, shown once.
            (
                r#"{"content":[{"type":"text","text":"{ \"x\": 1 }"}],"structuredContent":{"x":1}}"#,
                "{ \"x\": 1 }\n",
            ),
            (
                r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
                "[{\"data\":\"AAAA\",\"mimeType\":\"image/png\",\"type\":\"image\"}]\n",
            ),
        ];
        for (result, want) in cases {
            assert_eq!(show(result), want);
        }
        let long = format!("{{\"data\":\"{}\"}}", "A".repeat(1_000));
        assert_eq!(other(&RawJson::new(long).expect("JSON")), "[{\"data\":\"… 1000 bytes …\"}]");
    }

    #[test]
    fn progress_is_shown_at_a_rate() {
        let begun = Instant::now();
        let mut rate = Rate::new(begun);
        // A thousand reports in each of three seconds.
        let shown = (0..3_000).filter(|n| rate.take(begun + Duration::from_millis(*n))).count();
        assert!((38..=40).contains(&shown), "{shown}");
    }

    #[test]
    fn progress_is_put_into_words() {
        let cases = [
            (Progress::new(1.5), "progress 1.5"),
            (Progress::new(1.0).of(3.0), "progress 1/3 (33 %)"),
            (Progress::new(5.0).of(4.0), "progress 5/4 (100 %)"),
            (Progress::new(1.0).of(0.0).saying("x\r\u{202e}"), "progress 1/0 x\\r\\u202e"),
        ];
        for (progress, want) in cases {
            assert_eq!(progress_line(&progress), want);
        }
    }
}
