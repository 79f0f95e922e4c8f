//! The steps of a diagnosis: their states, and how they are printed.

use core::fmt::Write as _;

use serde::Serialize;

use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_value};
use crate::paint::Paint;

/// Why a step failed, in three sentences.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) exit: Exit,
    /// What failed.
    pub(super) what: String,
    /// The reason.
    pub(super) why: String,
    /// What to do.
    pub(super) fix: String,
}

/// The outcome of a step that did not fail, with its detail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Ok(String),
    /// It works, but may not for other clients or at another time.
    Warning(String),
    /// There is nothing to look at.
    Skipped(String),
}

/// The steps so far.
pub(super) struct Diagnosis {
    is_json: bool,
    paint: Paint,
    steps: Vec<StepReport>,
    failure: Option<FailureReport>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct DiagnosisReport<'a> {
    ok: bool,
    steps: &'a [StepReport],
    failure: Option<&'a FailureReport>,
}

#[derive(Serialize)]
struct StepReport {
    step: &'static str,
    state: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct FailureReport {
    step: &'static str,
    what: String,
    why: String,
    fix: String,
}

impl Finding {
    /// Creates a finding about a connection that is not made, or not to an MCP server.
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { exit: Exit::Connection, what: what.into(), why: why.into(), fix: fix.into() }
    }

    pub(super) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Creates a finding from a failure of a client. `why` and `fix` stand in for what the failure does not tell.
    pub(super) fn from_failure(failure: &CommandFailure, why: &str, fix: &str) -> Self {
        let reasons = failure.deviations().join("; ");
        let mut why = if reasons.is_empty() { why.to_owned() } else { reasons };
        if let Some(line) = failure.last_stderr_line() {
            let _ = write!(why, "; its last words on stderr are {line:?}");
        }
        let fix = failure.hint().unwrap_or(fix);
        Self::new(failure.message(), why, fix).with_exit(failure.exit())
    }
}

impl Diagnosis {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, paint: Paint::for_stdout(), steps: Vec::new(), failure: None }
    }

    /// Records the outcome of a step and prints it. Returns the value of a step that passed.
    ///
    /// # Errors
    ///
    /// Fails if the step did.
    pub(super) fn record<T>(
        &mut self,
        step: &'static str,
        outcome: Result<(Passed, T), Finding>,
    ) -> Result<T, CommandFailure> {
        match outcome {
            Ok((passed, value)) => self.pass(step, passed).map(|()| value),
            Err(finding) => Err(self.fail(step, finding)),
        }
    }

    /// Does the same for a step without a value.
    ///
    /// # Errors
    ///
    /// Fails if the step did.
    pub(super) fn check(
        &mut self,
        step: &'static str,
        outcome: Result<Passed, Finding>,
    ) -> Result<(), CommandFailure> {
        self.record(step, outcome.map(|passed| (passed, ())))
    }

    fn pass(&mut self, step: &'static str, passed: Passed) -> Result<(), CommandFailure> {
        let (state, detail) = match passed {
            Passed::Ok(detail) => ("ok", detail),
            Passed::Warning(detail) => ("warning", detail),
            Passed::Skipped(detail) => ("skipped", detail),
        };
        if !self.is_json {
            print(&format_row(self.paint, state, step, &detail))?;
        }
        self.steps.push(StepReport { step, state, detail });
        Ok(())
    }

    fn fail(&mut self, step: &'static str, finding: Finding) -> CommandFailure {
        let Finding { exit, what, why, fix } = finding;
        let failure = CommandFailure::new(exit, format!("the step `{step}` failed")).after_result();
        if !self.is_json {
            let rows = [("failed", step, &what), ("", "why", &why), ("", "fix", &fix)];
            let text: String =
                rows.map(|(state, label, text)| format_row(self.paint, state, label, text)).concat();
            if let Err(error) = print(&text) {
                return error;
            }
        }
        self.steps.push(StepReport { step, state: "failed", detail: what.clone() });
        self.failure = Some(FailureReport { step, what, why, fix });
        failure
    }

    /// Prints the report of `--json`.
    ///
    /// # Errors
    ///
    /// Fails if stdout cannot be written to.
    pub(super) fn print_json(&self) -> Result<(), CommandFailure> {
        if !self.is_json {
            return Ok(());
        }
        let failure = self.failure.as_ref();
        print_value(&DiagnosisReport { ok: failure.is_none(), steps: &self.steps, failure })
    }
}

/// Formats a row of the report, wrapped at [`WIDTH`].
fn format_row(paint: Paint, state: &str, step: &str, text: &str) -> String {
    let shown = if state == "skipped" { "-" } else { state };
    let state = format!("{shown:STATE_WIDTH$}");
    let state = match shown {
        "ok" => paint.good(state).to_string(),
        "warning" => paint.note(state).to_string(),
        "failed" => paint.bad(state).to_string(),
        _ => paint.dim(state).to_string(),
    };
    let mut row = format!("{state} {step:STEP_WIDTH$}");
    let indent = STATE_WIDTH + 1 + STEP_WIDTH;
    let mut column = indent;
    for word in escape::line(text).split_whitespace() {
        let width = word.chars().count();
        if column > indent && column + 1 + width > WIDTH {
            let _ = write!(row, "\n{:indent$}", "");
            column = indent;
        }
        let _ = write!(row, " {word}");
        column += 1 + width;
    }
    row.truncate(row.trim_end().len());
    row.push('\n');
    row
}

/// Width of the output in columns.
const WIDTH: usize = 80;
const STATE_WIDTH: usize = 7;
const STEP_WIDTH: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_wrapped_at_80_columns_and_escaped() {
        let text = format!("{} \u{1b}[2J {}", "word ".repeat(20), "x".repeat(90));
        let row = format_row(Paint::PLAIN, "failed", "dns", &text);
        let lines: Vec<&str> = row.lines().collect();
        assert!(lines[0].starts_with("failed  dns       word word"), "{row}");
        assert!(lines[1..].iter().all(|line| line.starts_with(&" ".repeat(18))), "{row}");
        // A word that is longer than a line stays whole, so that it can be copied.
        assert!(lines.iter().all(|line| line.len() <= WIDTH || line.contains(&"x".repeat(90))), "{row}");
        assert!(row.contains("\\u001b[2J") && lines.len() > 2, "{row}");
        assert_eq!(format_row(Paint::PLAIN, "skipped", "tls", "http"), "-       tls       http\n");
    }
}
