//! The sets of scenarios, how each is run, and the exceptions.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::evaluation::{self, CheckException, Evaluation, ScenarioExclusion, ScenarioSet, SuiteRole};
use super::suite::{self, ConformanceSuite};
use crate::run::print_line;

/// Scenarios of features outside this workspace, and one that checks nothing.
const EXCLUSIONS: &[ScenarioExclusion] = &[
    ScenarioExclusion { prefix: "tasks-status-notifications", except: &[], reason: "it has no checks" },
    ScenarioExclusion {
        prefix: "sep-2640-",
        except: &[],
        reason: "they are in no set, but in `SERVER_SKILLS` and `CLIENT_SKILLS`",
    },
];

/// Checks that may be without result. An exception that is not needed fails the test.
const EXCEPTIONS: &[CheckException] = &[
    CheckException { message: "did not send a initialize request", ..NO_HANDSHAKE },
    CheckException { message: "did not send a notifications/initialized request", ..NO_HANDSHAKE },
    NO_STREAM,
];

/// A list needs no stream and is answered as JSON. Other scenarios check streams.
const NO_STREAM: CheckException = CheckException {
    role: SuiteRole::Server,
    revisions: &["2025-11-25", "2026-07-28"],
    scenario: "server-sse-multiple-streams",
    check: "server-sse-streams-functional",
    message: "JSON responses",
    reason: "a list is answered as JSON",
};

const NO_HANDSHAKE: CheckException = CheckException {
    role: SuiteRole::Client,
    revisions: &["2026-07-28"],
    scenario: "http-standard-headers",
    check: "sep-2243-client-includes-standard-headers",
    message: "",
    reason: "the revision has no handshake",
};

/// Number of scenarios per set, so that a list that was parsed wrongly does not pass.
const SETS: &[(ScenarioSet, usize)] = &[
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-03-26" }, 1),
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-06-18" }, 27),
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-11-25" }, 33),
    (ScenarioSet { role: SuiteRole::Server, revision: "2026-07-28" }, 49),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-03-26" }, 2),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-06-18" }, 5),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-11-25" }, 25),
    (ScenarioSet { role: SuiteRole::Client, revision: "2026-07-28" }, 39),
];

/// Scenarios of skills for servers, which are in no set.
const SERVER_SKILLS: &[&str] =
    &["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"];

/// Scenarios of skills for clients, which are in no set.
const CLIENT_SKILLS: &[&str] = &[
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
];

/// Runs scenarios with `subject` and returns the failures that exit codes report.
///
/// Its arguments are the suite, the set, the names of the scenarios, and the folder for the results.
pub(crate) trait RunScenarios:
    Fn(&ConformanceSuite, ScenarioSet, &[String], &Path) -> Vec<String>
{
}

impl<F: Fn(&ConformanceSuite, ScenarioSet, &[String], &Path) -> Vec<String>> RunScenarios for F {}

/// Runs the sets of one side, or that of one revision only, and prints the result of each. Fails if there are problems.
pub(crate) fn assert_conforms(subject: &str, role: SuiteRole, only: Option<&str>, run: impl RunScenarios) {
    let Some(suite) = ConformanceSuite::new() else { return };
    let mut problems = Vec::new();
    for (set, count) in SETS.iter().filter(|(set, _)| set.role == role) {
        if only.is_some_and(|only| only != set.revision) {
            continue;
        }
        let begun = Instant::now();
        let mut names = suite.scenarios(*set);
        names.retain(|name| !evaluation::is_excluded(name, EXCLUSIONS));
        let out = results_of(subject, *set, "");
        let complaints = run(&suite, *set, &names, &out);
        let Evaluation { passed, scenarios, succeeded, problems: wrong } =
            evaluation::evaluate(*set, &names, &suite::results(role, &out), EXCEPTIONS);
        let took = begun.elapsed();
        print_line(&format!(
            "conformance on {subject}, {set}: {passed} of {scenarios} scenarios, {succeeded} checks, {took:.1?}, nothing expected to fail"
        ));
        if scenarios != *count {
            problems.push(format!("{set}: found {scenarios} scenarios, expected {count}"));
        }
        problems.extend(wrong);
        problems.extend(complaints);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Runs the scenarios of skills on one side, on the revision that they are written for. Fails if there are problems.
pub(crate) fn assert_skills_conform(subject: &str, role: SuiteRole, run: impl RunScenarios) {
    let Some(suite) = ConformanceSuite::new() else { return };
    let set = ScenarioSet { role, revision: "2026-07-28" };
    let names = if role == SuiteRole::Server { SERVER_SKILLS } else { CLIENT_SKILLS };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let out = results_of(subject, set, "-skills");
    let mut problems = run(&suite, set, &names, &out);
    let Evaluation { passed, scenarios, succeeded, problems: wrong } =
        evaluation::evaluate(set, &names, &suite::results(role, &out), &[]);
    print_line(&format!(
        "conformance on {subject}, {set}, skills: {passed} of {scenarios} scenarios, {succeeded} checks"
    ));
    problems.extend(wrong);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the emptied folder for the results of the suite.
fn results_of(subject: &str, set: ScenarioSet, ending: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let dir = dir.join(format!("{subject}-{}-{}{ending}", set.role.as_str(), set.revision));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("room for results");
    dir
}
