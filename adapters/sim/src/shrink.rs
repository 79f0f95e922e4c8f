//! Search for a failing seed, and its reduction to a test.

use core::fmt::Write as _;
use core::ops::Range;

use crate::decisions::Decisions;
use crate::world::{Application, Plan, Report, Violation, World};

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
pub fn search<A: Application>(
    seeds: Range<u64>,
    plan: Plan,
    attempts: usize,
    mut application: impl FnMut() -> A,
) -> Option<Failure> {
    for seed in seeds {
        let report = World::new(seed, plan, application()).run();
        if let Some(violation) = report.violation {
            let mut run = |decisions: &Decisions| World::replay(decisions.clone(), plan, application()).run();
            let (decisions, violation) = shrink(report.decisions, violation, attempts, &mut run);
            return Some(Failure { seed, plan, decisions, violation });
        }
    }
    None
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
        let Plan {
            binding,
            clients,
            steps,
            delay,
            cuts,
            reset,
            death,
            stall,
            hostile,
            clock_jump,
            silence,
            changes,
            questions,
            tasks,
            tight,
        } = self.plan;
        let mut text = format!("// {}: {}\n", self.violation.invariant, self.violation.reason);
        let _ = write!(
            text,
            "#[test]\nfn world_of_seed_{}_keeps_its_invariants() {{\n    let plan = mcp_sim::Plan {{\n        \
             binding: mcp_sim::Binding::{binding:?},\n        clients: {clients},\n        steps: {steps},\n        delay: {delay},\n        cuts: {cuts},\n        \
             reset: {reset},\n        death: {death},\n        stall: {stall},\n        hostile: {hostile},\n        \
             clock_jump: {clock_jump},\n        silence: {silence},\n        changes: {changes},\n        \
             questions: {questions},\n        tasks: {tasks},\n        tight: {tight},\n    }};\n    let steps = vec![\n",
            self.seed
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
