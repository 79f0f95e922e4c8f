//! What the results of a run come to: stricter than the suite, which counts a scenario without any failure as passed

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use serde_json::Value;

/// Which side of ours the suite looks at
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Leg {
    Server,
    Client,
}

impl Leg {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// One side in one revision
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) leg: Leg,
    pub(crate) revision: &'static str,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.leg.as_str(), self.revision)
    }
}

/// Scenarios that are not run, or not looked at, by how their names begin, and why
pub(crate) struct LeftOut {
    pub(crate) begins: &'static str,
    pub(crate) but: &'static [&'static str],
    #[expect(dead_code, reason = "read by people")]
    pub(crate) why: &'static str,
}

/// A check that may come to nothing: `SKIPPED`, or `INFO` in place of a verdict
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuse {
    pub(crate) leg: Leg,
    pub(crate) revisions: &'static [&'static str],
    pub(crate) scenario: &'static str,
    pub(crate) check: &'static str,
    /// What stands in what the suite says of it: the same check may be made of several things
    pub(crate) says: &'static str,
    pub(crate) why: &'static str,
}

/// `INFO` that is a record of what passed, not a verdict that was not reached
const RECORDS: [&str; 11] = [
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
];

/// True of any server, and so no evidence: it also succeeds when only the suite itself has spoken
const NO_EVIDENCE: &str = "wire-schema-valid";

/// What a run came to
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) passed: usize,
    pub(crate) scenarios: usize,
    pub(crate) succeeded: usize,
    /// One line for each thing that is not as it should be
    pub(crate) problems: Vec<String>,
}

/// Whether the name is among those that are left out
pub(crate) fn is_left_out(name: &str, left_out: &[LeftOut]) -> bool {
    left_out.iter().any(|out| name.starts_with(out.begins) && !out.but.contains(&name))
}

/// Judges what the suite wrote of each scenario; what was expected and has no results is missing.
pub(crate) fn judge(
    set: Set,
    expected: &[String],
    results: &BTreeMap<String, Vec<Value>>,
    excuses: &[Excuse],
) -> Verdict {
    let mut verdict = Verdict { scenarios: expected.len(), ..Verdict::default() };
    if expected.is_empty() {
        verdict.problems.push(format!("{set}: the suite names no scenario"));
    }
    let here = |excuse: &&Excuse| excuse.leg == set.leg && excuse.revisions.contains(&set.revision);
    let mut used = BTreeSet::new();
    for name in expected {
        let before = verdict.problems.len();
        let mut problem = |what: &str| verdict.problems.push(format!("{set} {name}: {what}"));
        let Some(checks) = results.get(name) else {
            problem("no results: it was not run, or was given up");
            continue;
        };
        let mut real = 0;
        for check in checks {
            let id = check["id"].as_str().unwrap_or("a check without an id");
            let said =
                ["errorMessage", "description"].iter().find_map(|of| check[*of].as_str()).unwrap_or_default();
            match check["status"].as_str() {
                Some("SUCCESS") => {
                    verdict.succeeded += 1;
                    real += usize::from(id != NO_EVIDENCE);
                }
                Some("INFO") if RECORDS.contains(&id) => {}
                Some("SKIPPED" | "INFO") => {
                    let fits = |e: &&Excuse| e.scenario == name && e.check == id && said.contains(e.says);
                    match excuses.iter().filter(here).find(fits) {
                        Some(excuse) => _ = used.insert((excuse.scenario, excuse.check, excuse.says)),
                        None => problem(&format!("{} {id}: {said}", check["status"])),
                    }
                }
                _ => problem(&format!("{} {id}: {said}", check["status"])),
            }
        }
        if real == 0 {
            problem("nothing succeeded");
        }
        verdict.passed += usize::from(verdict.problems.len() == before);
    }
    for excuse in excuses.iter().filter(here) {
        let Excuse { scenario, check, says, why, .. } = excuse;
        if !used.contains(&(*scenario, *check, *says)) {
            verdict
                .problems
                .push(format!("{set} {scenario}: {check} {says:?} is excused ({why}), and needs not be"));
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SET: Set = Set { leg: Leg::Server, revision: "2025-11-25" };

    fn check(id: &str, status: &str) -> Value {
        json!({"id": id, "status": status, "errorMessage": "because"})
    }

    /// The problems of one scenario, `a`
    fn problems(checks: &[(&str, &str)], excuses: &[Excuse]) -> Vec<String> {
        let checks = checks.iter().map(|(id, status)| check(id, status)).collect();
        judge(SET, &["a".into()], &BTreeMap::from([("a".into(), checks)]), excuses).problems
    }

    #[test]
    fn what_succeeds_passes() {
        assert_eq!(problems(&[("a", "SUCCESS"), ("wire-schema-valid", "SUCCESS")], &[]), [""; 0]);
        let records = RECORDS.map(|id| (id, "INFO"));
        assert_eq!(problems(&[&[("a", "SUCCESS")], &records[..]].concat(), &[]), [""; 0]);
    }

    #[test]
    fn whatever_else_is_said_fails() {
        for status in ["FAILURE", "WARNING", "SKIPPED", "INFO", "PENDING"] {
            let [problem] = &*problems(&[("a", "SUCCESS"), ("b", status)], &[]) else { panic!("{status}") };
            assert_eq!(*problem, format!("server 2025-11-25 a: \"{status}\" b: because"));
        }
    }

    #[test]
    fn one_bad_occurrence_is_enough() {
        assert_eq!(problems(&[("a", "SUCCESS"), ("a", "FAILURE"), ("a", "SUCCESS")], &[]).len(), 1);
    }

    #[test]
    fn nothing_is_no_success() {
        for checks in [&[][..], &[("wire-schema-valid", "SUCCESS")], &[("incoming-request", "INFO")]] {
            assert_eq!(problems(checks, &[]), ["server 2025-11-25 a: nothing succeeded"]);
        }
    }

    #[test]
    fn a_scenario_that_was_not_run_fails() {
        let verdict = judge(SET, &["a".into()], &BTreeMap::new(), &[]);
        assert_eq!((verdict.passed, verdict.scenarios), (0, 1));
        assert!(verdict.problems[0].contains("a: no results"), "{verdict:?}");
        assert!(!judge(SET, &[], &BTreeMap::new(), &[]).problems.is_empty());
    }

    #[test]
    fn an_excuse_holds_for_its_check_alone_and_has_to_be_needed() {
        let excuse = Excuse {
            leg: Leg::Server,
            revisions: &["2025-11-25"],
            scenario: "a",
            check: "b",
            says: "cause",
            why: "it has to",
        };
        let checks = [("a", "SUCCESS"), ("b", "SKIPPED")];
        assert_eq!(problems(&checks, &[excuse]), [""; 0]);
        assert_eq!(problems(&[("a", "SUCCESS"), ("c", "SKIPPED")], &[excuse]).len(), 2);
        // A failure is never excused, and leaves the excuse unused.
        assert_eq!(problems(&[("a", "SUCCESS"), ("b", "FAILURE")], &[excuse]).len(), 2);
        assert_eq!(problems(&checks[..1], &[excuse]).len(), 1, "stale");
        for elsewhere in [
            Excuse { leg: Leg::Client, ..excuse },
            Excuse { says: "other", revisions: &[], ..excuse },
            Excuse { revisions: &["2026-07-28"], ..excuse },
            Excuse { scenario: "b", revisions: &[], ..excuse },
        ] {
            assert_eq!(problems(&checks, &[elsewhere]).len(), 1, "{elsewhere:?}");
            assert_eq!(problems(&checks[..1], &[elsewhere]).len(), 0, "{elsewhere:?}");
        }
    }

    #[test]
    fn who_is_left_out() {
        let out = [LeftOut { begins: "auth/", but: &["auth/in"], why: "" }];
        assert!(is_left_out("auth/out", &out));
        assert!(!is_left_out("auth/in", &out));
        assert!(!is_left_out("tools_call", &out));
    }
}
