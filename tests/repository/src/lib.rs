//! Coverage of the protocol's requirements by tests.
//!
//! `spec-map.tsv` lists the requirements by id. A test cites the requirements that it shows, in a line comment
//! directly above it, before, between or after its attributes. A remark in brackets may follow:
//!
//! ```text
//! // covers: BASE-001, BASE-017 (the request half)
//! #[test]
//! fn a_request_has_method_and_id() { … }
//! ```
//!
//! A test that shows a deviation from a requirement, and fails when there is none any more, says `gap:` instead:
//!
//! ```text
//! // gap: ERR-016
//! ```
//!
//! It covers nothing. Rows of `documents.tsv` that are not followed in full name such tests.
//!
//! A macro call whose first argument names the test, `pair_test!(name, …)`, or a module of tests is cited in the same
//! way as a test. A citation counts only if its test ran and passed, so the report reads the output of `cargo test`. Each
//! requirement of [`TRACKED_AREAS`] that the core or an adapter has to meet needs a test, or a reason in
//! `uncovered.tsv`; each one of `COMPLETE_AREAS` does, whoever has to meet it.

extern crate alloc;

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Write as _;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use self::log::{LogSection, TestOutcome};
use self::targets::{CitedTest, CitedTests};

mod documents;
mod log;
mod source;
mod targets;
mod tokens;

/// Areas in which each requirement of the core or an adapter needs a test or a reason.
pub const TRACKED_AREAS: [&str; 36] = [
    "BASE", "BATCH", "ERR", "LIFE", "TIME", "VER", "META", "STDIO", "PROG", "CANC", "PING", "TOOL", "RES",
    "PROMPT", "COMP", "PAGE", "CONT", "CACHE", "SCHEMA", "EXT", "SKILL", "APP", "MRTR", "ELIC", "SAMP",
    "ROOT", "SUB", "TASK", "LOG", "HTTP", "SSE", "HTTPSSE", "XHDR", "SEC", "AUTH", "EVT",
];

/// Areas in which each requirement needs a test or a reason, whoever has to meet it.
const COMPLETE_AREAS: [&str; 4] = ["AUTH", "SEC", "EXT", "APP"];

/// A row of `spec-map.tsv`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    id: String,
    /// Role that it binds, strength, and revisions.
    terms: [String; 3],
    /// Part of this workspace that meets it: `C` core, `A` adapter, `X` the application.
    job: String,
    text: String,
}

impl Requirement {
    fn area(&self) -> &str {
        self.id.split('-').next().unwrap_or_default()
    }

    fn needs_test(&self) -> bool {
        COMPLETE_AREAS.contains(&self.area())
            || (TRACKED_AREAS.contains(&self.area())
                && self.job.split('+').any(|job| matches!(job, "C" | "A")))
    }
}

/// The requirements, the reasons for gaps, and the tests of a workspace.
#[derive(Debug)]
pub struct Requirements {
    requirements: Vec<Requirement>,
    reasons: BTreeMap<String, String>,
    tests: CitedTests,
}

/// Outcome of [`Requirements::report`].
#[derive(Clone, Debug)]
pub struct CoverageReport {
    /// Text to print.
    pub text: String,
    /// Whether no problem was found.
    pub passed: bool,
}

impl Requirements {
    /// Reads the tables in `<root>/tests` and the tests of the workspace at `root`.
    ///
    /// # Errors
    ///
    /// The file and the reason, if a file cannot be read or a row is malformed.
    pub fn load(root: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let path = root.join("tests").join(name);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Self::new(&read("spec-map.tsv")?, &read("uncovered.tsv")?, targets::find(root)?)
    }

    fn new(spec_map: &str, uncovered: &str, tests: CitedTests) -> Result<Self, String> {
        let mut requirements: Vec<Requirement> = Vec::new();
        // The first row names the columns.
        for (line, row) in rows(spec_map).into_iter().skip(1) {
            let Ok([id, role, strength, revisions, job, text]) = <[String; 6]>::try_from(row) else {
                return Err(format!("spec-map.tsv:{line}: expected six columns"));
            };
            requirements.push(Requirement { id, terms: [role, strength, revisions], job, text });
        }
        let mut reasons = BTreeMap::new();
        for (line, row) in rows(uncovered) {
            match <[String; 2]>::try_from(row) {
                Ok([id, reason]) if !reason.is_empty() => match reasons.insert(id, reason) {
                    None => {}
                    Some(_) => return Err(format!("uncovered.tsv:{line}: duplicate id")),
                },
                _ => return Err(format!("uncovered.tsv:{line}: expected an id, a tab and a reason")),
            }
        }
        Ok(Self { requirements, reasons, tests })
    }

    fn find(&self, id: &str) -> Option<&Requirement> {
        self.requirements.iter().find(|requirement| requirement.id == id)
    }

    /// Returns the text of a requirement and the tests that cite it, or `None` if the id does not exist.
    #[must_use]
    pub fn show(&self, id: &str) -> Option<String> {
        let Requirement { id, terms: [role, strength, revisions], job, text } = self.find(id)?;
        let mut shown = format!("{id}  {strength} ({role}, {revisions}, job {job})\n  {text}\n");
        if let Some(reason) = self.reasons.get(id) {
            let _ = writeln!(shown, "  not covered: {reason}");
        }
        let citing: Vec<&CitedTest> = self.tests.tests.iter().filter(|test| test.ids.contains(id)).collect();
        for test in &citing {
            let _ = writeln!(shown, "  {}  {}", test.location, name(test));
        }
        if citing.is_empty() {
            shown.push_str("  cited by no test\n");
        }
        Some(shown)
    }

    /// Compares the citations with the output of `cargo test` in `logs`.
    ///
    /// With `strict`, every citing test must have run and passed.
    #[must_use]
    pub fn report(&self, logs: &[String], strict: bool) -> CoverageReport {
        let sections: Vec<LogSection> = logs.iter().flat_map(|log| log::parse(log)).collect();
        let runs = TestRuns::new(&sections, &self.tests.tests);
        let mut problems = self.tests.problems.clone();
        if sections.is_empty() {
            problems.push("found no output of `cargo test` in the logs".into());
        }
        let mut covered: BTreeSet<&str> = BTreeSet::new();
        let mut not_run = Vec::new();
        let citing = |test: &&CitedTest| !test.ids.is_empty() || !test.gaps.is_empty();
        for test in self.tests.tests.iter().filter(citing) {
            match runs.state(test) {
                "passed" => covered.extend(test.ids.iter().map(String::as_str)),
                state => not_run.push(format!("{}  {}  {state}", test.location, name(test))),
            }
            for id in test.ids.iter().chain(&test.gaps).filter(|id| self.find(id).is_none()) {
                problems.push(format!("{}: unknown requirement {id}", test.location));
            }
        }
        covered.retain(|id| self.find(id).is_some());
        for id in self.reasons.keys() {
            if self.find(id).is_none() {
                problems.push(format!("uncovered.tsv: unknown requirement {id}"));
            } else if covered.contains(id.as_str()) {
                problems.push(format!("uncovered.tsv: {id} is covered by a test, remove its row"));
            }
        }
        let (mut gaps, mut unexplained) = (Vec::new(), false);
        for requirement in self.requirements.iter().filter(|requirement| requirement.needs_test()) {
            let id = &requirement.id;
            match self.reasons.get(id) {
                _ if covered.contains(id.as_str()) => {}
                Some(reason) => gaps.push(format!("{id:<10} {reason}")),
                None => {
                    gaps.push(format!("{id:<10} NO TEST, NO REASON: {}", requirement.text));
                    unexplained = true;
                }
            }
        }
        let passed = problems.is_empty() && !unexplained && (not_run.is_empty() || !strict);
        let mut text = self.counts(&covered);
        list(&mut text, &format!("without a test that ran ({})", TRACKED_AREAS.join(" ")), &gaps);
        list(&mut text, "cited but not run", &not_run);
        list(&mut text, "problems", &problems);
        CoverageReport { text, passed }
    }

    fn counts(&self, covered: &BTreeSet<&str>) -> String {
        let mut areas: Vec<(&str, usize, usize)> = Vec::new();
        for requirement in &self.requirements {
            let cited = usize::from(covered.contains(requirement.id.as_str()));
            match areas.iter_mut().find(|(area, ..)| *area == requirement.area()) {
                Some((_, sum, total)) => (*sum, *total) = (*sum + cited, *total + 1),
                None => areas.push((requirement.area(), cited, 1)),
            }
        }
        let total = self.requirements.len();
        let mut text = format!("requirements cited by tests that ran: {} of {total}\n\n", covered.len());
        for (area, cited, total) in areas {
            let _ = writeln!(text, "  {area:<8} {cited:>3}/{total}");
        }
        text
    }
}

/// Returns the rows of a table with their lines: columns are separated by tabs, comments begin with `#`.
fn rows(text: &str) -> Vec<(usize, Vec<String>)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| (index + 1, line.split('\t').map(str::to_owned).collect())).collect()
}

fn name(test: &CitedTest) -> String {
    format!("{} {} {}", test.package, test.header, test.path)
}

fn list(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{title}: {}", lines.len());
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
}

/// A test: the root file of its binary, the name of the binary, and its path.
type TestKey<'a> = (&'a str, &'a str, &'a str);

/// Outcomes of the tests in all logs.
struct TestRuns<'a> {
    /// Outcome in each executable.
    outcomes: HashMap<TestKey<'a>, Vec<(&'a str, TestOutcome)>>,
    /// Number of tests with the same key. Two packages may have equal names of binaries and tests, and the logs do not
    /// name the package. Therefore as many executables as there are such tests must have run the test.
    same_name_counts: HashMap<TestKey<'a>, usize>,
}

impl<'a> TestRuns<'a> {
    fn new(sections: &'a [LogSection], tests: &'a [CitedTest]) -> Self {
        let mut outcomes: HashMap<_, Vec<_>> = HashMap::new();
        for section in sections {
            for (path, outcome) in &section.results {
                let key = (section.header.as_str(), section.binary.as_str(), path.as_str());
                outcomes.entry(key).or_default().push((section.executable.as_str(), *outcome));
            }
        }
        let mut namesakes = HashMap::new();
        for test in tests {
            *namesakes
                .entry((test.header.as_str(), test.binary.as_str(), test.path.as_str()))
                .or_default() += 1;
        }
        Self { outcomes, same_name_counts: namesakes }
    }

    /// Returns `passed`, or the reason why the test does not count.
    fn state(&self, test: &CitedTest) -> &'static str {
        let key = (test.header.as_str(), test.binary.as_str(), test.path.as_str());
        let module = format!("{}::", test.path);
        let below = |path: &str| test.is_generated && path.starts_with(&module);
        let runs: Vec<&(&str, TestOutcome)> = self
            .outcomes
            .iter()
            .filter(|((header, binary, path), _)| {
                (*header, *binary) == (key.0, key.1) && (*path == key.2 || below(path))
            })
            .flat_map(|(_, runs)| runs)
            .collect();
        let passed = runs.iter().filter(|(_, outcome)| *outcome == TestOutcome::Passed);
        let executables: BTreeSet<&str> = passed.map(|(executable, _)| *executable).collect();
        if runs.iter().any(|(_, outcome)| *outcome == TestOutcome::Failed) {
            "failed"
        } else if executables.len() >= self.same_name_counts.get(&key).copied().unwrap_or(1) {
            "passed"
        } else if runs.iter().any(|(_, outcome)| *outcome == TestOutcome::Ignored) {
            "ignored"
        } else {
            "not in the logs"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC_MAP: &str = "id\twho\tstrength\trevisions\tjob\trequirement\n\
        BASE-001\tboth\tMUST\tall\tC\tFirst.\nBASE-002\tcli\tMAY\tall\tX\tSecond.\n\
        BASE-003\tsrv\tMUST\tall\tA+X\tThird.\nNOTE-001\tsrv\tMUST\tall\tC\tFourth.\n";

    fn test(package: &str, path: &str, ids: &[&str]) -> CitedTest {
        CitedTest {
            location: format!("{package}/{path}.rs:1"),
            package: package.into(),
            header: "tests/demo.rs".into(),
            binary: "demo".into(),
            path: path.into(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            gaps: Vec::new(),
            is_generated: path == "made",
        }
    }

    fn log(hash: char, lines: &[&str]) -> String {
        let hash = String::from_iter([hash; 16]);
        format!("Running tests/demo.rs (target/debug/deps/demo-{hash})\n{}\n", lines.join("\n"))
    }

    fn report(tests: Vec<CitedTest>, uncovered: &str, logs: &[String], strict: bool) -> CoverageReport {
        let tests = CitedTests { tests, problems: Vec::new() };
        Requirements::new(SPEC_MAP, uncovered, tests).unwrap().report(logs, strict)
    }

    #[test]
    fn report_passes_when_all_is_covered_or_explained() {
        let tests = vec![test("a", "one", &["BASE-001", "NOTE-001"]), test("a", "quiet", &[])];
        let found = report(tests, "# why\nBASE-003\tlater\n", &[log('0', &["test one ... ok"])], true);
        assert!(found.passed, "{}", found.text);
        assert_eq!(
            found.text,
            "requirements cited by tests that ran: 2 of 4\n\n  BASE       1/3\n  NOTE       1/1\n\n\
             without a test that ran (BASE BATCH ERR LIFE TIME VER META STDIO PROG CANC PING TOOL RES PROMPT COMP \
             PAGE CONT CACHE SCHEMA EXT SKILL APP MRTR ELIC SAMP ROOT SUB TASK LOG HTTP SSE HTTPSSE XHDR SEC AUTH EVT): 1\n  BASE-003   later\n"
        );
    }

    #[test]
    fn report_fails_for_gaps_and_unknown_ids() {
        let ran = [log('0', &["test one ... ok"])];
        let reason = "BASE-001\tlater\nBASE-003\tlater\n";
        for (ids, uncovered, problem) in [
            (&["BASE-001"][..], "", "BASE-003   NO TEST, NO REASON: Third."),
            (&["BASE-001", "BASE-003", "BASE-009"], "", "a/one.rs:1: unknown requirement BASE-009"),
            (&["BASE-003"], reason, "BASE-003 is covered by a test"),
            (&["BASE-001", "BASE-003"], "BASE-010\twhy\n", "unknown requirement BASE-010"),
        ] {
            let found = report(vec![test("a", "one", ids)], uncovered, &ran, false);
            assert!(!found.passed && found.text.contains(problem), "{problem}: {}", found.text);
        }
        assert!(!report(vec![], reason, &[String::new()], false).passed, "a log without tests must not pass");
        assert!(Requirements::new(SPEC_MAP, "BASE-001\n", CitedTests::default()).is_err());
        assert!(Requirements::new(SPEC_MAP, "BASE-001\ta\nBASE-001\tb\n", CitedTests::default()).is_err());
        assert!(Requirements::new("id\nBASE-001\tboth\n", "", CitedTests::default()).is_err());
    }

    #[test]
    fn strict_report_fails_for_cited_tests_that_did_not_run() {
        let reasons = "BASE-001\tlater\nBASE-003\tlater\n";
        for (line, state) in [
            ("test one ... ignored", "ignored"),
            ("test two ... ok", "not in the logs"),
            ("test one ... FAILED", "failed"),
        ] {
            let tests = || vec![test("a", "one", &["BASE-001"])];
            let found = report(tests(), reasons, &[log('0', &[line])], false);
            assert!(found.passed, "{}", found.text);
            let expected = format!("cited but not run: 1\n  a/one.rs:1  a tests/demo.rs one  {state}\n");
            assert!(found.text.ends_with(&expected), "{}", found.text);
            assert!(!report(tests(), reasons, &[log('0', &[line])], true).passed);
        }
    }

    #[test]
    fn tests_of_equal_names_must_all_run() {
        let tests = || vec![test("a", "one", &["BASE-001"]), test("b", "one", &["BASE-003"])];
        let line = log('0', &["test one ... ok"]);
        assert!(
            !report(tests(), "", &[line.clone(), line.clone()], false).passed,
            "one run must not count twice"
        );
        assert!(report(tests(), "", &[line, log('1', &["test one ... ok"])], true).passed);
    }

    #[test]
    fn generated_tests_may_be_in_a_module() {
        let tests = || vec![test("a", "made", &["BASE-001", "BASE-003"])];
        assert!(
            report(tests(), "", &[log('0', &["test made::newest ... ok", "test made::oldest ... ok"])], true)
                .passed
        );
        assert!(
            !report(tests(), "", &[log('0', &["test made::a ... ok", "test made::b ... FAILED"])], false)
                .passed
        );
        assert!(!report(tests(), "", &[log('0', &["test made_up ... ok"])], false).passed);
    }

    #[test]
    fn show_lists_citing_tests() {
        let tests = CitedTests { tests: vec![test("a", "one", &["BASE-001"])], problems: Vec::new() };
        let all = Requirements::new(SPEC_MAP, "BASE-003\tlater\n", tests).unwrap();
        let shown = all.show("BASE-001").unwrap();
        assert_eq!(shown, "BASE-001  MUST (both, all, job C)\n  First.\n  a/one.rs:1  a tests/demo.rs one\n");
        let shown = all.show("BASE-003").unwrap();
        assert!(shown.ends_with("Third.\n  not covered: later\n  cited by no test\n"), "{shown}");
        assert_eq!(all.show("NONE-099"), None);
    }

    #[test]
    fn tables_of_this_repository_are_valid() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let all = Requirements::load(root).unwrap();
        assert!(all.requirements.len() > 800);
        let ids: BTreeSet<&str> =
            all.requirements.iter().map(|requirement| requirement.id.as_str()).collect();
        assert_eq!(ids.len(), all.requirements.len(), "an id occurs twice");
        for id in all.reasons.keys() {
            let needs_test = all.find(id).is_some_and(Requirement::needs_test);
            assert!(needs_test, "{id} does not need a reason");
        }
    }
}
