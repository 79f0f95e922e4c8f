//! Findings in the formats of other programs: SARIF and JUnit.

use mcp_proto_trace::escape;
use serde_json::{Value, json};

use super::report::{Finding, Report};
use super::rules::{Severity, rules};
use crate::junit::{self, TestCase, TestOutcome};
use crate::sarif;

impl Report {
    /// Returns the report in SARIF 2.1.0, for code scanning. It lists every rule of the profile, and says whether the server was checked in
    /// a revision. `artifact` is where the findings are located: a relative reference (RFC 3986, 4.2), best to a file of the server.
    #[must_use]
    pub fn to_sarif(&self, artifact: &str) -> Value {
        let rules: Vec<Value> = rules(self.profile)
            .map(|rule| {
                json!({
                    "id": rule.check,
                    "shortDescription": { "text": rule.line },
                    "help": { "text": rule.fix },
                    "defaultConfiguration": { "level": rule.severity.word() },
                    "properties": { "tags": rule.requirements(self.profile) },
                })
            })
            .collect();
        let results: Vec<Value> = self
            .findings
            .iter()
            .map(|finding| {
                let revisions: Vec<_> = finding.revisions.iter().map(|version| version.as_str()).collect();
                json!({
                    "ruleId": finding.rule.check,
                    "level": finding.rule.severity.word(),
                    "message": { "text": format!("{}: {}", finding.location, finding.detail) },
                    "locations": [sarif::location(Some(artifact), &finding.location)],
                    "properties": { "revisions": revisions, "fix": finding.fix },
                })
            })
            .collect();
        let mut report = sarif::report(&rules, &results);
        report["runs"][0]["invocations"] = json!([{ "executionSuccessful": !self.supported.is_empty() }]);
        report
    }

    /// Returns the report in JUnit's XML, for CI servers. Each check with findings is a test case; those milder than `mildest_failure` are the
    /// output of their case. `server` is the name of the suite.
    #[must_use]
    pub fn to_junit(&self, server: &str, mildest_failure: Severity) -> String {
        let fails = |finding: &Finding| finding.rule.severity <= mildest_failure;
        // Without findings there would be no test case, which some CI servers take for a failure.
        let mut cases = vec![TestCase::new(format!("checked in {}", self.revisions()))];
        for found in self.findings.chunk_by(|one, next| one.rule == next.rule) {
            let rule = found[0].rule;
            let mut text = String::new();
            for finding in found {
                text.push_str(&format!(
                    "{}: {}\n",
                    escape::line(&finding.location),
                    escape::line(&finding.detail)
                ));
            }
            text.push_str(&format!("fix: {}", found[0].fix));
            let word = rule.severity.word();
            let message = format!("{} [{}]", rule.line, rule.requirements(self.profile).join(", "));
            let outcome = if fails(&found[0]) {
                TestOutcome::Failed { kind: word, message, text }
            } else {
                TestOutcome::Noted(format!("{word}: {message}\n{text}"))
            };
            cases.push(TestCase { outcome, ..TestCase::new(rule.check) });
        }
        // Of a server that asks for authorization only that was checked, and what it says about it.
        if self.supported.is_empty() && cases.iter().all(|case| !case.has_failed()) {
            cases[0].outcome = TestOutcome::Error("authorization is needed".into());
        }
        junit::report("check", server, &cases)
    }
}
