//! The steps of a diagnosis: their states, and how they are printed.

use core::fmt::Write as _;

use serde::Serialize;

use super::quote::{clip, masked};
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_value, wrapped_line};
use crate::paint::Paint;
use mcp_proto_trace::Secrets;
use crate::start_fault::StartFault;

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
    secrets: Secrets,
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

impl From<StartFault> for Finding {
    fn from(StartFault { what, why, fix, .. }: StartFault) -> Self {
        Self::new(what, masked(&why), fix)
    }
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
        let reasons = masked(&failure.deviations().join("; "));
        let mut why = if reasons.is_empty() { why.to_owned() } else { reasons };
        if let Some(line) = failure.last_stderr_line() {
            let _ = write!(why, "; its last words on stderr are {:?}", clip(line));
        }
        let fix = failure.hint().unwrap_or(fix);
        Self::new(masked(&failure.message()), why, fix).with_exit(failure.exit())
    }
}

impl Diagnosis {
    pub(super) fn new(is_json: bool) -> Self {
        let secrets = Secrets::default();
        Self { is_json, paint: Paint::for_stdout(), secrets, steps: Vec::new(), failure: None }
    }

    /// Hides a value in the texts of all later steps, for a server may send back what it is sent.
    pub(super) fn hide(&mut self, secret: &str) {
        self.secrets.add(secret);
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
        let detail = self.secrets.redact(detail);
        if !self.is_json {
            print(&format_row(self.paint, state, step, &detail))?;
        }
        self.steps.push(StepReport { step, state, detail });
        Ok(())
    }

    fn fail(&mut self, step: &'static str, finding: Finding) -> CommandFailure {
        let Finding { exit, what, why, fix } = finding;
        let [what, why, fix] = [what, why, fix].map(|text| self.secrets.redact(text));
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
    let text = wrapped_line(escape::line(text).trim(), WIDTH - indent - 1);
    let _ = write!(row, " {}", text.replace('\n', &format!("\n{:indent$} ", "")));
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
    fn failure_of_a_client_is_told_without_secrets() {
        let key = format!("sk-{}", "a1b2c3d4".repeat(4));
        let failure = CommandFailure::failed(format!("no {key} at http://localhost/?q=cafebabe"))
            .with_stderr_tail(&format!("key {key} at http://localhost/?TOKEN=deadbeef"))
            .with_deviations(vec![format!("sent {key}")]);
        let finding = Finding::from_failure(&failure, "why", "fix");
        let told = format!("{finding:?}");
        assert!(!told.contains(&key) && !told.contains("deadbeef") && !told.contains("cafebabe"), "{told}");
        assert!(told.contains("[masked]") && told.contains("last words"), "{told}");
    }

    #[test]
    fn what_is_hidden_is_in_no_text_of_a_step() {
        let mut diagnosis = Diagnosis::new(true);
        diagnosis.hide("Bearer s3cr3ttoken-abcdef");
        let text = || "no such key: s3cr3ttoken-abcdef".to_owned();
        assert!(diagnosis.check("a", Ok(Passed::Warning(text()))).is_ok());
        assert!(diagnosis.check("b", Err(Finding::new(text(), text(), text()))).is_err());
        let failure = diagnosis.failure.as_ref().expect("a failure");
        let texts = diagnosis.steps.iter().map(|step| &step.detail);
        for text in texts.chain([&failure.what, &failure.why, &failure.fix]) {
            assert_eq!(text, "no such key: …");
        }
    }

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
