//! Findings in the formats of other programs: SARIF and JUnit.

use std::path::{Path, PathBuf};

use mcp_proto::Version;
use serde_json::{Value, json};

use super::report::{Finding, Findings, revisions};
use super::rules::{self, Severity};
use crate::answer::uri_reference;
use crate::escape;
use crate::failure::CommandFailure;
use crate::junit::{self, TestCase, TestOutcome};
use crate::sarif;
use crate::server::Server;

/// Returns where findings about a server are located, as a relative reference (RFC 3986, 4.2) that code scanning takes for a path:
/// the first word of its command that is a file of the current directory, its URL without scheme and query, or its name.
pub(super) fn artifact(server: &Server) -> Result<String, CommandFailure> {
    let path = match server {
        Server::Program(program) => {
            let file = program.words().map(Path::new).find(|word| word.is_relative() && word.is_file());
            file.map_or_else(|| server.report_name().into(), Path::to_owned)
        }
        Server::Remote(remote) => {
            let config = remote.config()?;
            let target = config.endpoint().target();
            let path = target.split_once('?').map_or(target, |(path, _)| path);
            PathBuf::from(config.endpoint().origin().authority() + path)
        }
        Server::Stream(_) => server.report_name().replace("://", "/").into(),
    };
    Ok(uri_reference(&path).unwrap_or_else(|| "server".into()))
}

impl Findings {
    /// Returns a report in SARIF 2.1.0, which lists every rule of the profile. It says whether the server was checked in a revision.
    pub(super) fn to_sarif(&self, artifact: &str, is_checked: bool) -> Value {
        let rules: Vec<Value> = rules::in_profile(self.profile)
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
            .all
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
        report["runs"][0]["invocations"] = json!([{ "executionSuccessful": is_checked }]);
        report
    }

    /// Returns a report in JUnit's XML. Findings milder than `mildest_failure` are the output of their test case.
    pub(super) fn to_junit(&self, server: &str, supported: &[Version], mildest_failure: Severity) -> String {
        let fails = |finding: &Finding| finding.rule.severity <= mildest_failure;
        // Without findings there would be no test case, which some CI servers take for a failure.
        let mut cases = vec![TestCase::new(format!("checked in {}", revisions(supported)))];
        for found in self.all.chunk_by(|one, next| one.rule == next.rule) {
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
        if supported.is_empty() && cases.iter().all(|case| !case.has_failed()) {
            cases[0].outcome = TestOutcome::Error("authorization is needed".into());
        }
        junit::report("check", server, &cases)
    }
}
