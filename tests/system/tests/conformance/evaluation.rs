//! Evaluation of a run: stricter than the suite, which counts a scenario without a failure as passed.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use serde_json::Value;

/// The side of ours that the suite tests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SuiteRole {
    Server,
    Client,
}

impl SuiteRole {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The scenarios for one side in one revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScenarioSet {
    pub(crate) role: SuiteRole,
    pub(crate) revision: &'static str,
}

impl fmt::Display for ScenarioSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.as_str(), self.revision)
    }
}

/// Scenarios that are not run or not evaluated, by the prefix of their names.
pub(crate) struct ScenarioExclusion {
    pub(crate) prefix: &'static str,
    pub(crate) except: &'static [&'static str],
    #[expect(dead_code, reason = "read by people")]
    pub(crate) reason: &'static str,
}

/// A check that may be without result: `SKIPPED`, or `INFO` instead of an outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckException {
    pub(crate) role: SuiteRole,
    pub(crate) revisions: &'static [&'static str],
    pub(crate) scenario: &'static str,
    pub(crate) check: &'static str,
    /// Part of the suite's message, because the same check may be made several times.
    pub(crate) message: &'static str,
    pub(crate) reason: &'static str,
}

/// Checks whose `INFO` is a log entry, not a missing outcome.
const INFORMATIONAL_CHECKS: [&str; 12] = [
    "incoming-request",
    "outgoing-response",
    "outgoing-request",
    "incoming-response",
    "incoming-sse-event",
    "outgoing-sse-event",
    "stream-closed",
    "outgoing-stream-close",
    "server-info",
    "incoming-auth-request",
    "outgoing-auth-response",
    "scope-retry-auth-attempt",
];

/// A check that any server passes. It is no evidence: it succeeds even if only the suite sent messages.
const TRIVIAL_CHECK: &str = "wire-schema-valid";

/// Outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub(crate) passed: usize,
    pub(crate) scenarios: usize,
    pub(crate) succeeded: usize,
    /// One line per problem.
    pub(crate) problems: Vec<String>,
}

/// Returns whether a scenario is excluded.
pub(crate) fn is_excluded(name: &str, exclusions: &[ScenarioExclusion]) -> bool {
    exclusions.iter().any(|out| name.starts_with(out.prefix) && !out.except.contains(&name))
}

/// Evaluates what the suite wrote for each scenario. An expected scenario without results is a problem.
pub(crate) fn evaluate(
    set: ScenarioSet,
    expected: &[String],
    results: &BTreeMap<String, Vec<Value>>,
    exceptions: &[CheckException],
) -> Evaluation {
    let mut evaluation = Evaluation { scenarios: expected.len(), ..Evaluation::default() };
    if expected.is_empty() {
        evaluation.problems.push(format!("{set}: the suite lists no scenario"));
    }
    let is_in_scope = |exception: &&CheckException| {
        exception.role == set.role && exception.revisions.contains(&set.revision)
    };
    let mut used = BTreeSet::new();
    for name in expected {
        let previous = evaluation.problems.len();
        let mut problem = |what: &str| evaluation.problems.push(format!("{set} {name}: {what}"));
        let Some(checks) = results.get(name) else {
            problem("no results: it was not run, or it timed out");
            continue;
        };
        let mut real = 0;
        for check in checks {
            let id = check["id"].as_str().unwrap_or("a check without an id");
            let message =
                ["errorMessage", "description"].iter().find_map(|of| check[*of].as_str()).unwrap_or_default();
            match check["status"].as_str() {
                Some("SUCCESS") => {
                    evaluation.succeeded += 1;
                    real += usize::from(id != TRIVIAL_CHECK);
                }
                Some("INFO") if INFORMATIONAL_CHECKS.contains(&id) => {}
                Some("SKIPPED" | "INFO") => {
                    let fits = |e: &&CheckException| {
                        e.scenario == name && e.check == id && message.contains(e.message)
                    };
                    match exceptions.iter().filter(is_in_scope).find(fits) {
                        Some(exception) => {
                            _ = used.insert((exception.scenario, exception.check, exception.message))
                        }
                        None => problem(&format!("{} {id}: {message}", check["status"])),
                    }
                }
                _ => problem(&format!("{} {id}: {message}", check["status"])),
            }
        }
        if real == 0 {
            problem("nothing succeeded");
        }
        evaluation.passed += usize::from(evaluation.problems.len() == previous);
    }
    for exception in exceptions.iter().filter(is_in_scope) {
        let CheckException { scenario, check, message: text, reason, .. } = exception;
        if !used.contains(&(*scenario, *check, *text)) {
            evaluation.problems.push(format!(
                "{set} {scenario}: {check} {text:?} has an exception ({reason}) that is not needed"
            ));
        }
    }
    evaluation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SET: ScenarioSet = ScenarioSet { role: SuiteRole::Server, revision: "2025-11-25" };

    fn check(id: &str, status: &str) -> Value {
        json!({"id": id, "status": status, "errorMessage": "because"})
    }

    /// Returns the problems of one scenario, `a`.
    fn problems(checks: &[(&str, &str)], exceptions: &[CheckException]) -> Vec<String> {
        let checks = checks.iter().map(|(id, status)| check(id, status)).collect();
        evaluate(SET, &["a".into()], &BTreeMap::from([("a".into(), checks)]), exceptions).problems
    }

    #[test]
    fn scenario_with_success_passes() {
        assert_eq!(problems(&[("a", "SUCCESS"), ("wire-schema-valid", "SUCCESS")], &[]), [""; 0]);
        let records = INFORMATIONAL_CHECKS.map(|id| (id, "INFO"));
        assert_eq!(problems(&[&[("a", "SUCCESS")], &records[..]].concat(), &[]), [""; 0]);
    }

    #[test]
    fn check_without_success_fails() {
        for status in ["FAILURE", "WARNING", "SKIPPED", "INFO", "PENDING"] {
            let [problem] = &*problems(&[("a", "SUCCESS"), ("b", status)], &[]) else { panic!("{status}") };
            assert_eq!(*problem, format!("server 2025-11-25 a: \"{status}\" b: because"));
        }
    }

    #[test]
    fn one_failed_occurrence_fails_the_scenario() {
        assert_eq!(problems(&[("a", "SUCCESS"), ("a", "FAILURE"), ("a", "SUCCESS")], &[]).len(), 1);
    }

    #[test]
    fn scenario_without_success_fails() {
        for checks in [&[][..], &[("wire-schema-valid", "SUCCESS")], &[("incoming-request", "INFO")]] {
            assert_eq!(problems(checks, &[]), ["server 2025-11-25 a: nothing succeeded"]);
        }
    }

    #[test]
    fn scenario_that_was_not_run_fails() {
        let evaluation = evaluate(SET, &["a".into()], &BTreeMap::new(), &[]);
        assert_eq!((evaluation.passed, evaluation.scenarios), (0, 1));
        assert!(evaluation.problems[0].contains("a: no results"), "{evaluation:?}");
        assert!(!evaluate(SET, &[], &BTreeMap::new(), &[]).problems.is_empty());
    }

    #[test]
    fn exception_applies_to_its_check_and_must_be_needed() {
        let exception = CheckException {
            role: SuiteRole::Server,
            revisions: &["2025-11-25"],
            scenario: "a",
            check: "b",
            message: "cause",
            reason: "a reason",
        };
        let checks = [("a", "SUCCESS"), ("b", "SKIPPED")];
        assert_eq!(problems(&checks, &[exception]), [""; 0]);
        assert_eq!(problems(&[("a", "SUCCESS"), ("c", "SKIPPED")], &[exception]).len(), 2);
        // A failure is never excused, and leaves the exception unused.
        assert_eq!(problems(&[("a", "SUCCESS"), ("b", "FAILURE")], &[exception]).len(), 2);
        assert_eq!(problems(&checks[..1], &[exception]).len(), 1, "stale");
        for elsewhere in [
            CheckException { role: SuiteRole::Client, ..exception },
            CheckException { message: "other", revisions: &[], ..exception },
            CheckException { revisions: &["2026-07-28"], ..exception },
            CheckException { scenario: "b", revisions: &[], ..exception },
        ] {
            assert_eq!(problems(&checks, &[elsewhere]).len(), 1, "{elsewhere:?}");
            assert_eq!(problems(&checks[..1], &[elsewhere]).len(), 0, "{elsewhere:?}");
        }
    }

    #[test]
    fn exclusions_apply_by_prefix_except_listed() {
        let out = [ScenarioExclusion { prefix: "auth/", except: &["auth/in"], reason: "" }];
        assert!(is_excluded("auth/out", &out));
        assert!(!is_excluded("auth/in", &out));
        assert!(!is_excluded("tools_call", &out));
    }
}
