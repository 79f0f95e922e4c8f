//! The outcome of the steps, as lines, as JSON and in JUnit's XML.

use core::time::Duration;
use std::fs;
use std::path::Path;

use mcp_check::junit::{self, TestCase, TestOutcome};
use serde::Serialize;

use super::file::Step;
use super::mismatch::Mismatch;
use super::{TestArgs, run_failure};
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::paint::Paint;
use crate::session::ClientSession;

/// A step that was run or skipped.
pub(super) struct StepReport {
    name: String,
    time: Option<Duration>,
    outcome: Outcome,
}

pub(super) enum Outcome {
    Passed {
        /// Whether its snapshot was written.
        is_written: bool,
    },
    Failed(Vec<Mismatch>),
    /// It was not run, for this reason.
    Skipped(String),
}

/// The steps so far.
pub(super) struct Report<'a> {
    args: &'a TestArgs,
    server: String,
    revision: String,
    steps: Vec<StepReport>,
    paint: Paint,
}

/// Output of `--json`.
#[derive(Serialize)]
struct ReportJson<'a> {
    file: String,
    server: &'a str,
    revision: &'a str,
    passed: usize,
    failed: usize,
    skipped: usize,
    milliseconds: u64,
    steps: Vec<StepJson<'a>>,
}

#[derive(Serialize)]
struct StepJson<'a> {
    name: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    failures: &'a [Mismatch],
}

impl StepReport {
    /// Creates the report of a step, with the time that it took if it was run.
    pub(super) fn new(step: &Step, time: Option<Duration>, outcome: Outcome) -> Self {
        Self { name: step.name.clone(), time, outcome }
    }

    /// Formats the step: a line, and one for each failure.
    fn describe(&self, paint: Paint) -> String {
        let name = escape::line(&self.name);
        let time = self.time.map(|time| paint.dim(format!(" ({} ms)", time.as_millis())).to_string());
        let time = time.unwrap_or_default();
        match &self.outcome {
            Outcome::Passed { is_written } => {
                let written = if *is_written { ", snapshot written" } else { "" };
                format!("{} {name}{time}{written}\n", paint.good("passed "))
            }
            Outcome::Failed(mismatches) => {
                let mut text = format!("{} {name}{time}\n", paint.bad("failed "));
                for mismatch in mismatches {
                    let described = mismatch.describe();
                    for line in described.lines() {
                        let line = match line.trim_start().chars().next() {
                            Some('-') if mismatch.diff.is_some() => paint.bad(line).to_string(),
                            Some('+') if mismatch.diff.is_some() => paint.good(line).to_string(),
                            _ => line.to_owned(),
                        };
                        text.push_str(&format!("  {line}\n"));
                    }
                }
                text
            }
            Outcome::Skipped(reason) => {
                format!("{} {name}: {}\n", paint.note("skipped"), escape::line(reason))
            }
        }
    }

    fn to_json(&self) -> StepJson<'_> {
        let (outcome, reason, failures): (_, _, &[Mismatch]) = match &self.outcome {
            Outcome::Passed { .. } => ("passed", None, &[]),
            Outcome::Failed(mismatches) => ("failed", None, mismatches),
            Outcome::Skipped(reason) => ("skipped", Some(&**reason), &[]),
        };
        let milliseconds = self.time.map(|time| time.as_millis() as u64);
        StepJson { name: &self.name, outcome, milliseconds, reason, failures }
    }

    fn to_test_case(&self) -> TestCase {
        let outcome = match &self.outcome {
            Outcome::Passed { .. } => TestOutcome::Passed,
            Outcome::Skipped(reason) => TestOutcome::Skipped(escape::line(reason).into_owned()),
            Outcome::Failed(mismatches) => {
                let texts: Vec<_> = mismatches.iter().map(Mismatch::describe).collect();
                let message =
                    texts.first().and_then(|text| text.lines().next()).unwrap_or_default().to_owned();
                TestOutcome::Failed { kind: "mismatch", message, text: texts.join("\n") }
            }
        };
        TestCase { time: self.time, outcome, ..TestCase::new(escape::line(&self.name)) }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a TestArgs, session: &ClientSession) -> Self {
        Self {
            args,
            server: session.server_name(),
            revision: session.client.peer().version.to_string(),
            steps: Vec::new(),
            paint: Paint::for_stdout(),
        }
    }

    /// Adds a step, and prints it unless the output is JSON.
    ///
    /// # Errors
    ///
    /// Fails if stdout cannot be written to.
    pub(super) fn add(&mut self, step: StepReport) -> Result<(), CommandFailure> {
        let printed = if self.args.json { Ok(()) } else { print(&step.describe(self.paint)) };
        self.steps.push(step);
        printed
    }

    /// Writes the file of `--junit`, and prints the summary or the object.
    ///
    /// # Errors
    ///
    /// Fails if a step has failed, or if the file cannot be written.
    pub(super) fn finish(self, time: Duration) -> Result<(), CommandFailure> {
        if let Some(path) = &self.args.junit {
            let cases: Vec<_> = self.steps.iter().map(StepReport::to_test_case).collect();
            let suite = format!("{} ({})", self.args.file.display(), self.server);
            write_junit(path, &suite, &cases)?;
        }
        let number = |is: fn(&Outcome) -> bool| self.steps.iter().filter(|step| is(&step.outcome)).count();
        let failed = number(|outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = number(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let passed = self.steps.len() - failed - skipped;
        if self.args.json {
            print_value(&ReportJson {
                file: self.args.file.display().to_string(),
                server: &self.server,
                revision: &self.revision,
                passed,
                failed,
                skipped,
                milliseconds: time.as_millis() as u64,
                steps: self.steps.iter().map(StepReport::to_json).collect(),
            })?;
        } else {
            let all = count(self.steps.len(), "step");
            let summary = format!("{passed} passed, {failed} failed, {skipped} skipped");
            print(&format!("{all} in revision {}: {summary}\n", self.revision))?;
        }
        if failed > 0 { Err(run_failure(failed, self.steps.len())) } else { Ok(()) }
    }
}

/// Writes a file of `--junit` in which no step was run, for this reason.
///
/// # Errors
///
/// Fails if it cannot be written.
pub(super) fn write_unrun(args: &TestArgs, steps: &[Step], why: &str) -> Result<(), CommandFailure> {
    let Some(path) = &args.junit else { return Ok(()) };
    let error = || TestOutcome::Error(escape::line(why).into_owned());
    let case = |step: &Step| TestCase { outcome: error(), ..TestCase::new(escape::line(&step.name)) };
    let cases: Vec<_> = steps.iter().map(case).collect();
    write_junit(path, &args.file.display().to_string(), &cases)
}

fn write_junit(path: &Path, suite: &str, cases: &[TestCase]) -> Result<(), CommandFailure> {
    fs::write(path, junit::report("test", &escape::line(suite), cases))
        .map_err(CommandFailure::unwritten(path))
}
