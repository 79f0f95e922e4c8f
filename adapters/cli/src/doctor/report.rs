//! The steps of a diagnosis: how they are printed, and how the command ends.

use core::fmt::Write as _;
use core::ops::ControlFlow;

use mcp_check::diagnosis::{Fault, FaultKind, Passed, Step, clip};
use mcp_proto::http::client::Url;
use mcp_proto_trace::masked;
use serde::Serialize;

use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_value, wrapped_line};
use crate::paint::Paint;

/// The steps so far.
pub(super) struct DiagnosisReport {
    is_json: bool,
    paint: Paint,
    steps: Vec<StepReport>,
    failure: Option<FailureReport>,
    /// How the command fails.
    ended: Option<CommandFailure>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct DiagnosisJson<'a> {
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

impl DiagnosisReport {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, paint: Paint::for_stdout(), steps: Vec::new(), failure: None, ended: None }
    }

    /// Prints a step, and keeps it for `--json`.
    pub(super) fn push(&mut self, Step { name: step, outcome }: Step) -> ControlFlow<()> {
        let (state, detail) = match outcome {
            Ok(Passed::Ok(detail)) => ("ok", detail),
            Ok(Passed::Warning(detail)) => ("warning", detail),
            Ok(Passed::Skipped(detail)) => ("skipped", detail),
            Err(Fault { kind, what, why, fix }) => {
                let failed = CommandFailure::new(exit(kind), format!("the step `{step}` failed"));
                self.ended = Some(failed.after_result());
                let detail = what.clone();
                self.failure = Some(FailureReport { step, what, why, fix });
                ("failed", detail)
            }
        };
        if !self.is_json {
            let mut text = format_row(self.paint, state, step, &detail);
            if let Some(FailureReport { why, fix, .. }) = &self.failure {
                text += &format_row(self.paint, "", "why", why);
                text += &format_row(self.paint, "", "fix", fix);
            }
            if let Err(error) = print(&text) {
                self.ended = Some(error);
                return ControlFlow::Break(());
            }
        }
        self.steps.push(StepReport { step, state, detail });
        ControlFlow::Continue(())
    }

    /// Prints the report of `--json`, and returns the outcome of the command.
    ///
    /// # Errors
    ///
    /// Fails if a step did, or if stdout cannot be written to.
    pub(super) fn finish(self) -> Result<(), CommandFailure> {
        if self.is_json {
            let failure = self.failure.as_ref();
            print_value(&DiagnosisJson { ok: failure.is_none(), steps: &self.steps, failure })?;
        }
        self.ended.map_or(Ok(()), Err)
    }
}

/// Creates a fault from a failure of a client. `why` and `fix` stand in for what the failure does not tell.
pub(super) fn fault_of(failure: &CommandFailure, why: &str, fix: &str) -> Fault {
    let masked = |text: &str| masked(&Url::redacted_in(text));
    let reasons = masked(&failure.deviations.join("; "));
    let mut why = if reasons.is_empty() { why.to_owned() } else { reasons };
    if let Some(line) = failure.last_stderr_line() {
        let _ = write!(why, "; its last words on stderr are {:?}", clip(line));
    }
    let kind =
        KINDS.iter().find(|(_, exit)| *exit == failure.exit).map_or(FaultKind::Failed, |(kind, _)| *kind);
    Fault::new(masked(&failure.message()), why, failure.hint.as_deref().unwrap_or(fix)).with_kind(kind)
}

fn exit(kind: FaultKind) -> Exit {
    KINDS.iter().find(|(other, _)| *other == kind).map_or(Exit::Failed, |(_, exit)| *exit)
}

/// Kinds of faults with the exit codes that tell them.
const KINDS: [(FaultKind, Exit); 4] = [
    (FaultKind::Connection, Exit::Connection),
    (FaultKind::TimedOut, Exit::Timeout),
    (FaultKind::Unauthorized, Exit::Unauthorized),
    (FaultKind::Usage, Exit::Usage),
];

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
        let fault = fault_of(&failure, "why", "fix");
        let told = format!("{fault:?}");
        assert!(!told.contains(&key) && !told.contains("deadbeef") && !told.contains("cafebabe"), "{told}");
        assert!(told.contains("[masked]") && told.contains("last words"), "{told}");
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
