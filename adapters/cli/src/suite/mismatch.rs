//! A difference between what was expected and what was found.

use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::escape;
use mcp_std::json_file::values::{MAX_SHOWN, shown};

/// A difference. Its texts are not escaped.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mismatch {
    /// A JSON pointer into the result, or the part of the answer.
    #[serde(rename = "where")]
    pub(super) at: String,
    pub(super) expected: String,
    pub(super) found: String,
    /// Lines that differ, if the values have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<String>,
}

impl Mismatch {
    pub(super) fn new(at: &str, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { at: at.to_owned(), expected: expected.into(), found: found.into(), diff: None }
    }

    /// Creates the difference between two values.
    pub(super) fn between(at: &str, expected: &Value, found: &Value) -> Self {
        let diff = match (expected, found) {
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => {
                diff(&pretty(expected), &pretty(found))
            }
            _ => None,
        };
        Self { diff, ..Self::new(at, shown(expected), shown(found)) }
    }

    /// Formats the difference: a line, and the lines that differ if there are any. It is escaped.
    pub(super) fn describe(&self) -> String {
        let at = if self.at.is_empty() { "the result" } else { &self.at };
        let Some(diff) = &self.diff else {
            return format!(
                "{}: expected {}, found {}",
                escape::line(at),
                escape::line(&self.expected),
                escape::line(&self.found)
            );
        };
        let mut text = format!("{}: expected (-) and found (+) differ", escape::line(at));
        for line in diff.lines() {
            text.push_str("\n  ");
            text.push_str(&escape::line(line));
        }
        text
    }
}

/// Formats a value in lines, with the members of objects in the order of their names.
pub(super) fn pretty(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    format!("{sorted:#}")
}

/// Returns the lines that differ, with one line before and behind them. `None` if there are too many lines to compare.
fn diff(expected: &str, found: &str) -> Option<String> {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    if expected.len() + found.len() > MAX_COMPARED {
        return None;
    }
    let mut lines: Vec<String> = Vec::new();
    let ops = capture_diff_slices(Algorithm::Myers, &expected, &found);
    for (index, op) in ops.iter().enumerate() {
        let (old, new) = (&expected[op.old_range()], &found[op.new_range()]);
        if op.tag() == DiffTag::Equal {
            let (first, last) = (index == 0, index + 1 == ops.len());
            match old {
                [only] => lines.push(format!("  {only}")),
                [begin, .., end] => {
                    lines.extend((!first).then(|| format!("  {begin}")));
                    lines.extend((!first && !last && old.len() > 2).then(|| "  …".to_owned()));
                    lines.extend((!last).then(|| format!("  {end}")));
                }
                [] => {}
            }
            continue;
        }
        lines.extend(old.iter().map(|line| format!("- {line}")));
        lines.extend(new.iter().map(|line| format!("+ {line}")));
    }
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        lines.push("…".to_owned());
    }
    let short = lines.iter().map(|line| escape::shortened(line, MAX_SHOWN));
    Some(short.collect::<Vec<_>>().join("\n"))
}

/// Maximum number of lines of a difference.
const MAX_LINES: usize = 40;
/// Maximum number of lines that are compared: the work is at most the square of it.
const MAX_COMPARED: usize = 8_000;
