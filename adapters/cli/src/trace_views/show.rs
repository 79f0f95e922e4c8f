//! `trace show`: one line for each record, and a summary.

use alloc::collections::BTreeMap;
use core::iter;

use mcp_proto_trace::{Call, Calls, Content, Line, Message, Outcome, Record, Side, Text, Trace};
use serde_json::{Value, json};

use super::args::{ShowArgs, SideChoice};
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value, terminal_width};
use crate::paint::Paint;
use crate::trace;

/// Text that is printed at once.
const CHUNK: usize = 1 << 16;
/// Fewest characters of a message that are shown, on however narrow a terminal.
const MIN_TEXT: usize = 20;

pub(crate) fn run(args: &ShowArgs) -> Result<(), CommandFailure> {
    let trace = trace::read_file(&args.file, args.size.max_size)?;
    let calls = Calls::new(&trace);
    if args.json {
        let shown = calls.calls.iter().filter(|call| is_call_shown(args, call));
        return print_value(&shown.map(|call| describe(&trace, call)).collect::<Vec<_>>());
    }
    let paint = Paint::for_stdout();
    let mut view =
        View { calls: &calls, paint, width: if args.full { usize::MAX } else { terminal_width() } };
    let mut out = String::new();
    for line in title(&trace) {
        let line = trace::truncate(escape::line(&line).into_owned(), view.width);
        out.push_str(&format!("{}\n", paint.dim(line)));
    }
    for (index, record) in trace.records.iter().enumerate() {
        view.push(&mut out, index, record, args);
        if out.len() >= CHUNK {
            print(&core::mem::take(&mut out))?;
        }
    }
    view.width = terminal_width();
    view.push_summary(&mut out, &trace);
    print(&out)
}

/// Describes what was recorded, and by what.
fn title(trace: &Trace) -> [String; 2] {
    let header = &trace.header;
    let begun = mcp_proto::iso_8601(header.unix_millis / 1_000);
    let masked = if header.masked { "secrets masked" } else { "secrets not masked" };
    let of = if header.command.is_empty() { "a server".to_owned() } else { header.command.join(" ") };
    [format!("trace of {of}"), format!("{begun}, by {}, {masked}", header.by)]
}

fn is_from_shown(args: &ShowArgs, from: Side) -> bool {
    args.from.is_none_or(|wanted| (wanted == SideChoice::Client) == (from == Side::Client))
}

fn is_method_shown(args: &ShowArgs, method: Option<&str>) -> bool {
    let Some(wanted) = &args.method else { return true };
    method.is_some_and(|method| match wanted.strip_suffix('*') {
        Some(start) => method.starts_with(start),
        None => method == wanted,
    })
}

fn is_call_shown(args: &ShowArgs, call: &Call) -> bool {
    is_from_shown(args, call.from)
        && is_method_shown(args, Some(&call.method))
        && (!args.errors || call.outcome != Outcome::Succeeded)
}

/// Returns a call for programs.
fn describe(trace: &Trace, call: &Call) -> Value {
    let millis = |micros: u64| micros as f64 / 1e3;
    let error = match &call.outcome {
        Outcome::Failed { code, message } => json!({ "code": code, "message": message }),
        _ => Value::Null,
    };
    json!({
        "id": call.id,
        "method": call.method,
        "target": call.target,
        "from": call.from,
        "exchange": trace.records.get(call.request).and_then(|record| record.exchange),
        "start": millis(call.start),
        "duration": call.duration().map(millis),
        "outcome": call.outcome.name(),
        "error": error,
        "requestBytes": call.request_bytes,
        "responseBytes": call.response.map(|_| call.response_bytes),
    })
}

/// How a line is painted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tone {
    Message,
    Error,
    Aside,
}

struct View<'a> {
    calls: &'a Calls,
    paint: Paint,
    /// Characters of a line.
    width: usize,
}

impl View<'_> {
    /// Appends the lines of a record.
    fn push(&self, out: &mut String, index: usize, record: &Record, args: &ShowArgs) {
        if !is_from_shown(args, record.from) {
            return;
        }
        let is_all = args.method.is_none();
        let (tone, text) = match &record.content {
            Content::Line(line) => {
                let messages = Message::of(record);
                for message in &messages {
                    self.push_message(out, index, record, message, args);
                }
                // An empty line is none that anyone has to hear of.
                if !messages.is_empty() || !is_all || line.text == Text::default() {
                    return;
                }
                (Tone::Error, format!("no message: {}", line_text(line)))
            }
            Content::Lost(bytes) if is_all => (Tone::Error, format!("{bytes} bytes were not recorded")),
            Content::Head(head) if is_all && !args.errors => (Tone::Aside, head.replace('\n', " · ")),
            Content::End(how) if is_all && !args.errors => (Tone::Aside, format!("end: {how}")),
            Content::Stderr(line) if is_all && !args.errors => (Tone::Aside, format!("stderr: {line}")),
            _ => return,
        };
        self.push_line(out, record, tone, &text);
    }

    fn push_message(
        &self,
        out: &mut String,
        index: usize,
        record: &Record,
        message: &Message,
        args: &ShowArgs,
    ) {
        let call = self.calls.call_of(index, message);
        let method = call.map(|call| call.method.as_str()).or(message.method.as_deref());
        let has_failed =
            call.map_or_else(|| message.is_response(), |call| !matches!(call.outcome, Outcome::Succeeded));
        if !is_method_shown(args, method) || (args.errors && !has_failed) {
            return;
        }
        let mut head = method.map_or_else(|| "response to no request".to_owned(), str::to_owned);
        if let Some(target) = call.and_then(|call| call.target.as_deref()) {
            head.push_str(&format!(" {target}"));
        }
        if let Some(id) = &message.id {
            head.push_str(&format!(" #{}", id.as_str()));
        }
        let body = if message.is_response() {
            if let Some(duration) = call.and_then(Call::duration) {
                head.push_str(&format!(" {}", format_duration(duration)));
            }
            match &message.error {
                Some(error) => {
                    head.push_str(" error");
                    Some(error.clone())
                }
                None => message.result.clone(),
            }
        } else {
            match call.map(|call| &call.outcome) {
                Some(Outcome::Cancelled) => head.push_str(" (cancelled)"),
                Some(Outcome::Unanswered) => head.push_str(" (no response)"),
                _ => {}
            }
            // The name is shown already.
            let arguments = message.params.as_ref().and_then(|params| params.member("arguments"));
            arguments.filter(|_| !args.full).or_else(|| message.params.clone())
        };
        let tone = if has_failed { Tone::Error } else { Tone::Message };
        let body = body.map(|body| if args.full { body.as_str().to_owned() } else { trace::abridged(&body) });
        self.push_line(out, record, tone, &format!("{head} {}", body.unwrap_or_default()));
    }

    fn push_line(&self, out: &mut String, record: &Record, tone: Tone, text: &str) {
        let paint = self.paint;
        let time = trace::format_time(record.at);
        let exchange = record.exchange.map(|exchange| format!("({exchange}) ")).unwrap_or_default();
        let (arrow, side) = match record.from {
            Side::Client => ("→", "client"),
            Side::Server => ("←", "server"),
        };
        let room = self.width.saturating_sub(time.chars().count() + 3 + exchange.len()).max(MIN_TEXT);
        let text = trace::truncate(escape::line(text.trim_end()).into_owned(), room);
        let time = paint.dim(time);
        out.push_str(&match (tone, side) {
            (Tone::Error, _) => format!("{time} {} {exchange}{}\n", paint.bad(arrow), paint.bad(text)),
            (Tone::Aside, _) => format!("{time} {arrow} {exchange}{}\n", paint.dim(text)),
            (_, "client") => format!("{time} {} {exchange}{}\n", paint.name(arrow), paint.name(text)),
            _ => format!("{time} {} {exchange}{}\n", paint.good(arrow), paint.good(text)),
        });
    }

    fn push_summary(&self, out: &mut String, trace: &Trace) {
        let mut counts = Counts::default();
        for record in &trace.records {
            counts.add(record);
        }
        out.push_str(&format!("\n{}\n", counts.describe()));
        let mut methods: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in &self.calls.calls {
            methods.entry(&call.method).or_default().push(call);
        }
        if !methods.is_empty() {
            let longest = methods.keys().map(|method| escape::line(method).chars().count()).max();
            let column =
                longest.unwrap_or_default().clamp(6, self.width.saturating_sub(COLUMNS).max(MIN_TEXT));
            let header = format!(
                "{:column$} {:>7} {:>7} {:>10} {:>10} {:>10}",
                "method", "calls", "failed", "unanswered", "p50", "max"
            );
            out.push_str(&format!("{}\n", self.paint.bold(header)));
            for (method, calls) in methods {
                let method = trace::truncate(escape::line(method).into_owned(), column);
                out.push_str(&format!("{method:column$} {}\n", row(&calls)));
            }
        }
        let reused = self.calls.calls.iter().filter(|call| call.is_id_reused).count();
        let notes = [
            (self.calls.unmatched.len(), "response", "to no request of the trace"),
            (reused, "request", "with the id of one that had no response yet"),
        ];
        for (n, thing, what) in notes.into_iter().filter(|(n, ..)| *n > 0) {
            out.push_str(&format!("{}\n", self.paint.note(format!("{} {what}", count(n, thing)))));
        }
    }
}

/// Columns of a row of the summary after the method.
const COLUMNS: usize = 49;

/// Formats the columns of the calls of one method.
fn row(calls: &[&Call]) -> String {
    let is_failed = |call: &&&Call| {
        matches!(call.outcome, Outcome::Failed { .. } | Outcome::ToolError | Outcome::Cancelled)
    };
    let failed = calls.iter().filter(is_failed).count();
    let unanswered = calls.iter().filter(|call| call.outcome == Outcome::Unanswered).count();
    let mut durations: Vec<u64> = calls.iter().filter_map(|call| call.duration()).collect();
    durations.sort_unstable();
    let at =
        |index: usize| durations.get(index).map_or_else(|| "-".to_owned(), |time| format_duration(*time));
    let median = at(durations.len().saturating_sub(1) / 2);
    let max = at(durations.len().saturating_sub(1));
    format!("{:>7} {failed:>7} {unanswered:>10} {median:>10} {max:>10}", calls.len())
}

/// Numbers of the records of a trace.
#[derive(Default)]
struct Counts {
    client: usize,
    server: usize,
    others: usize,
    stderr: usize,
    lost: u64,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        match &record.content {
            Content::Line(line) => match (Message::of(record).len(), record.from) {
                (0, _) => self.others += usize::from(line.text != Text::default()),
                (n, Side::Client) => self.client += n,
                (n, Side::Server) => self.server += n,
            },
            Content::Stderr(_) => self.stderr += 1,
            Content::Lost(bytes) => self.lost += bytes,
            _ => {}
        }
    }

    fn describe(&self) -> String {
        let Self { client, server, others, stderr, lost } = self;
        let messages = count(client + server, "message");
        let mut text = format!("{messages}: {client} of the client, {server} of the server");
        let further = [
            (*others, format!("{} outside of the protocol", count(*others, "line"))),
            (*stderr, format!("{} of stderr", count(*stderr, "line"))),
            (usize::from(*lost > 0), format!("{lost} bytes not recorded")),
        ];
        text.extend(
            further.into_iter().filter(|(n, _)| *n > 0).flat_map(|(_, text)| ["; ".to_owned(), text]),
        );
        text
    }
}

/// Formats a duration of microseconds.
fn format_duration(micros: u64) -> String {
    match micros {
        ..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

fn line_text(line: &Line) -> String {
    let open = line.open.then_some(" (without its newline)");
    iter::once(line.text.to_string()).chain(open.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use mcp_proto_trace::Header;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Options {
        #[command(flatten)]
        show: ShowArgs,
    }

    fn shown(width: usize, options: &[&str]) -> Vec<String> {
        let lines = [
            r#"{"t":1000,"from":"client","line":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"add\",\"arguments\":{\"a\":1}}}"}"#,
            r#"{"t":2000,"from":"client","exchange":7,"line":"{\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///a\"}}"}"#,
            r#"{"t":3500,"from":"server","line":"{\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no\\u001b\"}}"}"#,
            r#"{"t":3600,"from":"server","line":"{\"id\":9,\"result\":{}}"}"#,
            r#"{"t":3700,"from":"server","line":"noise \u001b[2J","open":true}"#,
            r#"{"t":3800,"from":"server","stderr":"hello"}"#,
            r#"{"t":3900,"from":"server","lost":12}"#,
            r#"{"t":4000,"from":"server","end":"exit code 0"}"#,
        ];
        let records = lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
        let trace = Trace::new(Header::new("test", 0), records);
        let calls = Calls::new(&trace);
        let args = Options::parse_from([&["show"], options, &["file"]].concat()).show;
        let view = View { calls: &calls, paint: Paint::PLAIN, width };
        let mut out = String::new();
        for (index, record) in trace.records.iter().enumerate() {
            view.push(&mut out, index, record, &args);
        }
        view.push_summary(&mut out, &trace);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_record_is_a_line_and_calls_are_summed_up() {
        let want = [
            r#"   0.001s → tools/call add #1 {"a":1}"#,
            r#"   0.002s → (7) resources/read file:///a #1 (no response) {"uri":"file:///a"}"#,
            r#"   0.003s ← tools/call add #1 2.50 ms error {"code":-32602,"message":"no\u001b"}"#,
            "   0.003s ← response to no request #9 {}",
            "   0.003s ← no message: noise \\u001b[2J (without its newline)",
            "   0.003s ← stderr: hello",
            "   0.003s ← 12 bytes were not recorded",
            "   0.004s ← end: exit code 0",
            "",
            "4 messages: 2 of the client, 2 of the server; 1 line outside of the protocol; 1 line of stderr; 12 bytes not recorded",
            "method           calls  failed unanswered        p50        max",
            "resources/read       1       0          1          -          -",
            "tools/call           1       1          0    2.50 ms    2.50 ms",
            "1 response to no request of the trace",
            "1 request with the id of one that had no response yet",
        ];
        assert_eq!(shown(200, &[]), want);
    }

    #[test]
    fn filters_select_lines() {
        let count =
            |options: &[&str]| shown(200, options).iter().position(String::is_empty).expect("a summary");
        assert_eq!(count(&["--method", "tools/*"]), 2);
        assert_eq!(count(&["--method", "tools"]), 0);
        assert_eq!(count(&["--from", "client"]), 2);
        assert_eq!(count(&["--errors"]), 6);
        assert_eq!(count(&["--errors", "--method", "tools/call", "--from", "server"]), 1);
    }

    #[test]
    fn lines_fit_the_width() {
        for width in [40, 80] {
            for line in shown(width, &[]).iter().take_while(|line| !line.is_empty()) {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
    }
}
