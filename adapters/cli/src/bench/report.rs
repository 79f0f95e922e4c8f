//! The report of `bench`, for people and for programs.

use std::env;

use serde::Serialize;

use super::processes::{Memory, ServerUsage};
use super::tally::Tally;
use super::{BenchArgs, Run};
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, pad_label, print, print_value, terminal_width};
use crate::paint::Paint;

/// Widest line with a bar.
const MAX_WIDTH: usize = 120;

/// Output of `--json`, as its help documents it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    request: String,
    connections: u32,
    in_flight: Option<u32>,
    rate: Option<f64>,
    seconds: f64,
    interrupted: bool,
    calls: u64,
    succeeded: u64,
    failed: u64,
    unanswered: u64,
    calls_per_second: f64,
    milliseconds: Option<Latencies>,
    histogram: Vec<Bucket>,
    errors: Vec<ErrorKind>,
    server: Option<ServerUsage>,
}

#[derive(Clone, Copy, Serialize)]
struct Latencies {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Calls whose latency is from `from` up to below `to`, in milliseconds.
#[derive(Serialize)]
struct Bucket {
    from: f64,
    to: f64,
    calls: u64,
}

#[derive(Serialize)]
struct ErrorKind {
    kind: String,
    calls: u64,
    example: String,
}

impl Report {
    pub(super) fn new(args: &BenchArgs, tally: &Tally, run: Run) -> Self {
        let (succeeded, failed) = (tally.latencies.len(), tally.failed());
        let millis = |micros: u64| round(micros as f64 / 1e3);
        let at = |quantile| millis(tally.latencies.value_at_quantile(quantile));
        let latencies = (succeeded > 0).then(|| Latencies {
            min: millis(tally.latencies.min()),
            mean: round(tally.latencies.mean() / 1e3),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: millis(tally.latencies.max()),
        });
        let bucket = |(limit, calls)| Bucket { from: millis(limit / 2), to: millis(limit), calls };
        let errors = tally.errors.iter().map(|(kind, errors)| ErrorKind {
            kind: kind.clone(),
            calls: errors.calls,
            example: errors.example.clone(),
        });
        Self {
            request: match (&args.tool, args.method) {
                (_, Some(method)) => method.as_str().to_owned(),
                (tool, None) => format!("tool {}", tool.as_deref().unwrap_or_default()),
            },
            connections: args.connections,
            in_flight: args.rate.is_none().then_some(args.in_flight),
            rate: args.rate,
            seconds: round(run.seconds),
            interrupted: run.is_interrupted,
            calls: succeeded + failed + tally.unanswered,
            succeeded,
            failed,
            unanswered: tally.unanswered,
            calls_per_second: if run.seconds > 0.0 { round(succeeded as f64 / run.seconds) } else { 0.0 },
            milliseconds: latencies,
            histogram: tally.octaves().into_iter().map(bucket).collect(),
            errors: errors.collect(),
            server: run.server,
        }
    }

    /// Prints the report.
    ///
    /// # Errors
    ///
    /// Fails if stdout cannot be written to.
    pub(super) fn print(&self, json: bool) -> Result<(), CommandFailure> {
        if json {
            print_value(self)
        } else {
            print(&self.text(terminal_width(), has_blocks(), Paint::for_stdout()))
        }
    }

    fn text(&self, width: usize, has_blocks: bool, paint: Paint) -> String {
        let mut out = String::new();
        let mut row = |label: &str, text: &str| {
            out.push_str(&format!("{} {}\n", paint.bold(pad_label(label)), escape::line(text)));
        };
        let loop_kind = match (self.rate, self.in_flight) {
            (Some(rate), _) => format!("{rate} calls/s due"),
            (None, in_flight) => format!("{} in flight on each", in_flight.unwrap_or(1)),
        };
        let connections = count(self.connections, "connection");
        row("request", &format!("{}, {connections}, {loop_kind}", self.request));
        let unanswered = match self.unanswered {
            0 => String::new(),
            n => format!(", {n} unanswered"),
        };
        row(
            "calls",
            &format!(
                "{} in {:.2} s: {} succeeded ({:.1}/s), {} failed{unanswered}",
                self.calls, self.seconds, self.succeeded, self.calls_per_second, self.failed
            ),
        );
        if let Some(latencies) = self.milliseconds {
            let Latencies { min, mean, p50, p90, p99, p999, max } = latencies;
            let [min, mean, p50, p90, p99, p999, max] =
                [min, mean, p50, p90, p99, p999, max].map(format_millis);
            row("latency", &format!("min {min}, mean {mean}, max {max}"));
            row("", &format!("p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}"));
        }
        let most = self.histogram.iter().map(|bucket| bucket.calls).max().unwrap_or(0);
        for (index, bucket) in self.histogram.iter().enumerate() {
            let label = if index == 0 { "histogram" } else { "" };
            let head = format!("< {:>8} ", format_millis(bucket.to));
            let tail = format!(" {}", bucket.calls);
            let used = pad_label("").len() + 1 + head.chars().count() + most.to_string().len() + 1;
            let room = width.min(MAX_WIDTH).saturating_sub(used).max(1);
            row(label, &format!("{head}{}{tail}", bar(bucket.calls, most, room, has_blocks)));
        }
        for (index, error) in self.errors.iter().enumerate() {
            let label = if index == 0 { "errors" } else { "" };
            row(label, &format!("{} × {}: {}", error.calls, error.kind, error.example));
        }
        match &self.server {
            Some(server) => {
                let memory = |Memory { sum, largest }: &Memory| {
                    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
                    match server.processes {
                        1 => mebibytes(*sum),
                        _ => format!("{} (largest {})", mebibytes(*sum), mebibytes(*largest)),
                    }
                };
                let processes = match server.processes {
                    1 => "1 process".to_owned(),
                    n => format!("{n} processes"),
                };
                row("server", &format!("{processes}, {:.2} s of CPU", server.cpu_milliseconds as f64 / 1e3));
                row(
                    "memory",
                    &format!("peak {}, now {}", memory(&server.peak_bytes), memory(&server.resident_bytes)),
                );
            }
            None => row("memory", "not known"),
        }
        out
    }
}

/// Returns a bar of at most `room` characters. One call is seen, however many others there are.
fn bar(calls: u64, most: u64, room: usize, has_blocks: bool) -> String {
    let length = (calls as f64 / most.max(1) as f64 * room as f64).round() as usize;
    let length = length.clamp(usize::from(calls > 0), room);
    (if has_blocks { "█" } else { "#" }).repeat(length)
}

/// Returns whether the locale has characters beyond ASCII.
fn has_blocks() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(env::var_os).find(|value| !value.is_empty());
    let locale = locale.map(|value| value.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    cfg!(windows) || locale.contains("utf-8") || locale.contains("utf8")
}

/// Formats a time with three digits or more.
fn format_millis(millis: f64) -> String {
    match millis {
        _ if millis < 1.0 => format!("{:.0} µs", millis * 1e3),
        _ if millis < 10.0 => format!("{millis:.2} ms"),
        _ if millis < 1e3 => format!("{millis:.1} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

/// Rounds to three digits behind the point; further ones are noise.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(calls: &[u64]) -> Report {
        let bucket = |(index, calls): (usize, &u64)| Bucket {
            from: f64::from(1 << index) / 2.0,
            to: f64::from(1 << index),
            calls: *calls,
        };
        Report {
            request: "tool x\u{1b}[31m".into(),
            connections: 2,
            in_flight: None,
            rate: Some(50.0),
            seconds: 1.5,
            interrupted: true,
            calls: 12,
            succeeded: 9,
            failed: 2,
            unanswered: 1,
            calls_per_second: 6.0,
            milliseconds: Some(Latencies {
                min: 0.25,
                mean: 2.0,
                p50: 1.0,
                p90: 2.0,
                p99: 30.5,
                p999: 31.0,
                max: 1_234.0,
            }),
            histogram: calls.iter().enumerate().map(bucket).collect(),
            errors: vec![ErrorKind {
                kind: "toolError".into(),
                calls: 2,
                example: "\u{1b}[2J\u{202e}".into(),
            }],
            server: Some(ServerUsage { processes: 2, cpu_milliseconds: 10, ..ServerUsage::default() }),
        }
    }

    #[test]
    fn bars_fit_into_the_width_and_each_call_is_seen() {
        for width in [20, 80, 200] {
            let text = report(&[1, 1_000_000, 0, 500_000]).text(width, true, Paint::PLAIN);
            let bars: Vec<&str> =
                text.lines().filter(|line| line.contains(" < ") || line.contains("< ")).collect();
            assert_eq!(bars.len(), 4, "{text}");
            let blocks: Vec<usize> = bars.iter().map(|line| line.matches('█').count()).collect();
            assert!(blocks[0] == 1 && blocks[2] == 0 && blocks[1] >= blocks[3], "{text}");
            if width >= 80 {
                assert!(bars.iter().all(|line| line.chars().count() <= width), "{text}");
                assert_eq!(blocks[1].div_ceil(2), blocks[3], "{text}");
            }
        }
        assert!(report(&[3]).text(80, false, Paint::PLAIN).contains("<  1.00 ms ###"));
    }

    #[test]
    fn text_of_the_server_is_escaped() {
        let text = report(&[1]).text(80, true, Paint::PLAIN);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        for words in [
            "2 × toolError: \\u001b[2J",
            "1 unanswered",
            "p99 30.5 ms, p99.9 31.0 ms",
            "min 250 µs",
            "max 1.23 s",
        ] {
            assert!(text.contains(words), "no {words:?}: {text}");
        }
    }
}
