//! The outcomes of calls: latencies, and failures by kind.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::time::Instant;

use hdrhistogram::Histogram;
use mcp_blocking::Error;
use mcp_proto::model::CallToolResult;
use mcp_proto::{CallError, HttpError, Limit, RawJson, UseError};

use crate::failure::CommandFailure;

/// Longest latency that is told apart, in microseconds; a longer one counts as this.
const MAX_MICROS: u64 = 3_600_000_000;
/// Characters of an example that are kept.
const MAX_EXAMPLE: usize = 300;

/// Latencies and failures.
pub(super) struct Tally {
    /// Latencies of calls that succeeded, in microseconds.
    pub(super) latencies: Histogram<u64>,
    pub(super) errors: BTreeMap<String, CallErrors>,
    /// Number of calls that were open or overdue when the measurement was interrupted.
    pub(super) unanswered: u64,
    /// Number of connections that ended before their calls were made.
    pub(super) lost: u32,
    /// Whether the calls are those of a tool.
    is_tool: bool,
    /// Time of the last answer.
    pub(super) last: Option<Instant>,
}

/// Failures of one kind.
pub(super) struct CallErrors {
    pub(super) calls: u64,
    pub(super) example: String,
}

impl Tally {
    /// Creates an empty tally.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for it.
    pub(super) fn new(is_tool: bool) -> Result<Self, CommandFailure> {
        let latencies = Histogram::new_with_bounds(1, MAX_MICROS, 3);
        let latencies = latencies.map_err(|error| CommandFailure::failed(error.to_string()))?;
        Ok(Self { latencies, errors: BTreeMap::new(), unanswered: 0, lost: 0, is_tool, last: None })
    }

    /// Records the end of a call that took `latency`.
    pub(super) fn record(&mut self, outcome: &Result<RawJson, Error>, latency: Duration) {
        match outcome {
            Ok(result) => match self.result_failure(result) {
                Some((kind, text)) => self.fail(kind.into(), &text),
                None => {
                    self.latencies
                        .saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_MICROS).max(1));
                }
            },
            // What follows the text of a call is for programs with a client of their own.
            Err(error @ Error::Call(call)) => self.fail(kind(error), &call.to_string()),
            Err(error) => self.fail(kind(error), &error.to_string()),
        }
    }

    /// Returns the kind of failure that a result is, and its text, if it is one.
    fn result_failure(&self, result: &RawJson) -> Option<(&'static str, String)> {
        if !self.is_tool {
            return None;
        }
        match result.parse::<CallToolResult<'_>>() {
            Err(error) => Some(("malformed", error.to_string())),
            Ok(result) if result.is_error == Some(true) => {
                let text = result.content.iter().find_map(|block| block.as_text().map(str::to_owned));
                Some(("toolError", text.unwrap_or_default()))
            }
            Ok(_) => None,
        }
    }

    fn fail(&mut self, kind: String, example: &str) {
        let errors = self.errors.entry(kind);
        let errors = errors.or_insert_with(|| CallErrors {
            calls: 0,
            example: example.lines().next().unwrap_or_default().chars().take(MAX_EXAMPLE).collect(),
        });
        errors.calls += 1;
    }

    /// Adds what another connection has measured.
    ///
    /// # Errors
    ///
    /// Fails if the histograms differ in their bounds, which they do not.
    pub(super) fn add(&mut self, other: Self) -> Result<(), CommandFailure> {
        let added = self.latencies.add(&other.latencies);
        added.map_err(|error| CommandFailure::failed(error.to_string()))?;
        for (kind, CallErrors { calls, example }) in other.errors {
            self.errors.entry(kind).or_insert(CallErrors { calls: 0, example }).calls += calls;
        }
        self.unanswered += other.unanswered;
        self.lost += other.lost;
        self.last = self.last.max(other.last);
        Ok(())
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.values().map(|errors| errors.calls).sum()
    }

    /// Returns the number of calls below each power of two, in microseconds, from the lowest that has any to the highest.
    pub(super) fn octaves(&self) -> Vec<(u64, u64)> {
        let mut octaves: Vec<(u64, u64)> = Vec::new();
        for value in self.latencies.iter_recorded() {
            let limit = value.value_iterated_to().saturating_add(1).next_power_of_two();
            if let Some((last, _)) = octaves.last().copied() {
                let mut next = last;
                while next < limit {
                    next *= 2;
                    octaves.push((next, 0));
                }
            } else {
                octaves.push((limit, 0));
            }
            if let Some((_, calls)) = octaves.last_mut() {
                *calls += value.count_at_value();
            }
        }
        octaves
    }
}

/// Returns whether an error ends the connection.
pub(super) const fn is_final(error: &Error) -> bool {
    matches!(error, Error::Closed(_) | Error::Io(_))
}

/// Returns whether an error says that the server cannot be reached.
pub(super) fn is_lost(error: &Error) -> bool {
    is_final(error) || matches!(error.http(), Some(HttpError::Unreachable { .. } | HttpError::Lost { .. }))
}

/// Returns the kind of a failure, as the help documents it.
fn kind(error: &Error) -> String {
    match error {
        _ if is_lost(error) => "connection".into(),
        // The server did not read, so that there was no room for the call.
        Error::Use(UseError::Full(Limit::OutboxHighWater)) => "timeout".into(),
        Error::Call(CallError::Rpc(error)) => format!("error {}", error.code),
        Error::Call(CallError::TimedOut | CallError::TotalTimedOut | CallError::Misaddressed(_)) => {
            "timeout".into()
        }
        Error::Call(
            CallError::Malformed(_) | CallError::TooLarge { .. } | CallError::UnknownResultType(_),
        ) => "malformed".into(),
        _ => "other".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(micros: &[u64]) -> Tally {
        let mut tally = Tally::new(true).expect("memory");
        for time in micros {
            let result = Ok(RawJson::new(r#"{"content":[]}"#).expect("JSON"));
            tally.record(&result, Duration::from_micros(*time));
        }
        tally
    }

    #[test]
    fn octaves_have_every_call_once_and_no_gap() {
        let tally = tally(&[0, 1, 2, 3, 4, 1_023, 1_024, 5_000, 5_001, 70_000_000]);
        let octaves = tally.octaves();
        assert_eq!(octaves.iter().map(|(_, calls)| calls).sum::<u64>(), tally.latencies.len());
        assert_eq!(octaves[..3], [(2, 2), (4, 2), (8, 1)]);
        assert!(octaves.windows(2).all(|pair| pair[1].0 == 2 * pair[0].0), "{octaves:?}");
        assert_eq!(octaves.iter().find(|(limit, _)| *limit == 1_024), Some(&(1_024, 1)));
        assert_eq!(octaves.iter().find(|(limit, _)| *limit == 8_192), Some(&(8_192, 2)));
    }

    #[test]
    fn tallies_are_added_by_kind() {
        let mut all = tally(&[10, 20]);
        let mut other = tally(&[30]);
        for example in ["first", "second"] {
            let result = format!(r#"{{"isError":true,"content":[{{"type":"text","text":"{example}"}}]}}"#);
            other.record(&Ok(RawJson::new(result).expect("JSON")), Duration::ZERO);
        }
        other.record(&Err(Error::Call(CallError::TimedOut)), Duration::ZERO);
        for result in ["{}", r#"{"isError":"true","content":[]}"#] {
            other.record(&Ok(RawJson::new(result).expect("JSON")), Duration::ZERO);
        }
        all.add(other).expect("the same bounds");
        let errors: Vec<_> =
            all.errors.iter().map(|(kind, errors)| (&**kind, errors.calls, &*errors.example)).collect();
        assert_eq!((errors[0].0, errors[0].1), ("malformed", 2));
        assert_eq!(errors[1..], [("timeout", 1, "no answer in time"), ("toolError", 2, "first")]);
        assert_eq!((all.latencies.len(), all.failed()), (3, 5));
    }
}
