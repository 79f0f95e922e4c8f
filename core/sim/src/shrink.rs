//! Search for a failing seed, and its reduction to a test.

use core::cell::Cell;
use core::fmt::Write as _;
use std::sync::Once;

use crate::decisions::Decisions;
use crate::plan::Plan;
use crate::world::{Application, Report, Violation, World};

/// A run that violates an invariant, reduced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Seed of the run that was found.
    pub seed: u64,
    /// Plan of the run.
    pub plan: Plan,
    /// What is left of its decisions.
    pub decisions: Decisions,
    /// The invariant that they violate.
    pub violation: Violation,
}

/// Runs the world of each seed; the first that violates an invariant is reduced, with at most `attempts` runs.
///
/// Panics of a run do not reach the [panic hook](std::panic::set_hook); that of the reduced run does, once. For this the first search
/// wraps the hook of the process. Panics of other threads are reported as before, and a hook that is set later gets all of them.
pub fn search<A: Application>(
    seeds: impl IntoIterator<Item = u64>,
    plan: Plan,
    attempts: usize,
    mut application: impl FnMut() -> A,
) -> Option<Failure> {
    for seed in seeds {
        let report = World::new(seed, plan, application()).run_and_report(false);
        if let Some(violation) = report.violation {
            let mut run = |decisions: &Decisions, reports_panics| {
                World::replay(decisions.clone(), plan, application()).run_and_report(reports_panics)
            };
            let (decisions, violation) =
                shrink(report.decisions, violation, attempts, &mut |decisions| run(decisions, false));
            if violation.invariant == "no_panic" {
                run(&decisions, true);
            }
            return Some(Failure { seed, plan, decisions, violation });
        }
    }
    None
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the panics of this thread from the hook of the process while it lives.
pub(crate) struct Quiet;

impl Quiet {
    pub(crate) fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if !IS_QUIET.get() {
                    report(panic);
                }
            }));
        });
        IS_QUIET.set(true);
        Self
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(false);
    }
}

/// Removes steps, and zeroes and halves draws, while the same invariant is violated.
fn shrink(
    mut best: Decisions,
    mut violation: Violation,
    mut attempts: usize,
    run: &mut impl FnMut(&Decisions) -> Report,
) -> (Decisions, Violation) {
    let mut try_one = |candidate: Decisions, best: &mut Decisions| {
        if attempts == 0 || candidate == *best {
            return false;
        }
        attempts -= 1;
        match run(&candidate).violation.filter(|found| found.invariant == violation.invariant) {
            Some(found) => {
                (*best, violation) = (candidate, found);
                true
            }
            None => false,
        }
    };
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut candidate = best.clone();
            candidate.steps.drain(at..(at + size).min(best.steps.len()));
            if !try_one(candidate, &mut best) {
                at += size;
            }
        }
        size /= 2;
    }
    for step in 0..best.steps.len() {
        for draw in 0..best.steps[step].len() {
            for smaller in [0, best.steps[step][draw] / 2] {
                let mut candidate = best.clone();
                candidate.steps[step][draw] = smaller;
                if try_one(candidate, &mut best) {
                    break;
                }
            }
        }
        // A missing draw is 0.
        while best.steps[step].last() == Some(&0) {
            best.steps[step].pop();
        }
    }
    (best, violation)
}

impl Failure {
    /// Writes the failure as a unit test. `application` is the expression of the application.
    #[must_use]
    pub fn to_test(&self, application: &str) -> String {
        // The text of a panic may have several lines.
        let reason = self.violation.reason.replace('\n', "\n// ");
        let mut text = format!("// {}: {reason}\n", self.violation.invariant);
        let _ = write!(
            text,
            "#[test]\nfn world_of_seed_{}_keeps_its_invariants() {{\n    let plan = {};\n    let steps = vec![\n",
            self.seed,
            self.plan.to_source()
        );
        for step in &self.decisions.steps {
            let _ = writeln!(text, "        vec!{step:?},");
        }
        let _ = write!(
            text,
            "    ];\n    let decisions = mcp_sim::Decisions {{ steps }};\n    \
             let report = mcp_sim::World::replay(decisions, plan, {application}).run();\n    \
             assert_eq!(report.violation, None);\n}}\n"
        );
        text
    }
}
