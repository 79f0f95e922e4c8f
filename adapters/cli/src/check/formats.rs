//! Findings in the formats of other programs: SARIF and JUnit.

use alloc::borrow::Cow;
use std::path::{Path, PathBuf};

use mcp_proto::Version;
use serde_json::{Value, json};

use super::report::{Finding, Findings, revisions};
use super::rules::{self, Severity};
use crate::answer::uri_reference;
use crate::escape;
use crate::failure::CommandFailure;
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
        let by_rule = || self.all.chunk_by(|one, next| one.rule == next.rule);
        let (tests, failures) = (by_rule().count() + 1, by_rule().filter(|found| fails(&found[0])).count());
        // Of a server that asks for authorization only that was checked, and what it says about it.
        let is_unchecked = supported.is_empty() && failures == 0;
        let counts =
            format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{}\"", usize::from(is_unchecked));
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites name=\"mcp-probe check\" {counts}>\n  <testsuite name=\"{}\" {counts}>\n",
            xml(server)
        );
        // Without findings there would be no test case, which some CI servers take for a failure.
        let inner = if is_unchecked { "<error message=\"authorization is needed\"/>" } else { "" };
        push_case(&mut out, &format!("checked in {}", revisions(supported)), inner);
        for found in by_rule() {
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
            let inner = if fails(&found[0]) {
                let message = xml(&message);
                format!("<failure type=\"{word}\" message=\"{message}\">{}</failure>", xml(&text))
            } else {
                format!("<system-out>{}</system-out>", xml(&format!("{word}: {message}\n{text}")))
            };
            push_case(&mut out, rule.check, &inner);
        }
        out.push_str("  </testsuite>\n</testsuites>\n");
        out
    }
}

fn push_case(out: &mut String, name: &str, inner: &str) {
    let begin = format!("    <testcase classname=\"mcp-probe.check\" name=\"{}\"", xml(name));
    out.push_str(&if inner.is_empty() { begin + "/>\n" } else { begin + ">" + inner + "</testcase>\n" });
}

/// Escapes text for XML 1.0. What it may not contain at all is replaced.
fn xml(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| {
        !matches!(c, '&' | '<' | '>' | '"' | '\u{fffe}' | '\u{ffff}') && (c == '\n' || !c.is_control())
    };
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if is_plain(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    Cow::Owned(out)
}
