//! Findings in the formats of other programs: SARIF and JUnit.

use alloc::borrow::Cow;
use std::path::Path;

use mcp_proto::Version;
use serde_json::{Value, json};

use super::report::{Finding, Findings, revisions};
use super::rules::{self, Severity};
use crate::answer::uri_reference;
use crate::escape;
use crate::sarif;
use crate::server::Server;

/// Returns where findings about a server are located: the first word of its command that is a file, as a reference of RFC 3986, or
/// its URL. `None` if there is neither.
pub(super) fn artifact(server: &Server) -> Option<String> {
    match server {
        Server::Program(program) => {
            program.words().map(Path::new).find(|word| word.is_file()).and_then(uri_reference)
        }
        Server::Remote(_) => Some(server.display_name()),
        Server::Stream(_) => None,
    }
}

impl Findings {
    /// Returns a report in SARIF 2.1.0, which lists every rule.
    pub(super) fn to_sarif(&self, artifact: Option<&str>) -> Value {
        let rules: Vec<Value> = rules::ALL
            .iter()
            .map(|rule| {
                json!({
                    "id": rule.check,
                    "shortDescription": { "text": rule.line },
                    "help": { "text": rule.fix },
                    "defaultConfiguration": { "level": rule.severity.word() },
                    "properties": { "tags": rule.rules },
                })
            })
            .collect();
        let artifact = artifact.map_or_else(|| json!({}), |uri| json!({ "uri": uri }));
        let results: Vec<Value> = self
            .0
            .iter()
            .map(|finding| {
                let revisions: Vec<_> = finding.revisions.iter().map(|version| version.as_str()).collect();
                json!({
                    "ruleId": finding.rule.check,
                    "level": finding.rule.severity.word(),
                    "message": { "text": format!("{}: {}", finding.location, finding.detail) },
                    "locations": [{
                        "physicalLocation": { "artifactLocation": artifact },
                        "logicalLocations": [{ "name": finding.location }],
                    }],
                    "properties": { "revisions": revisions },
                })
            })
            .collect();
        sarif::report(&rules, &results)
    }

    /// Returns a report in JUnit's XML. Findings that are no failures are the output of their test case.
    pub(super) fn to_junit(&self, server: &str, supported: &[Version], is_strict: bool) -> String {
        let fails = |finding: &Finding| match finding.rule.severity {
            Severity::Error => true,
            Severity::Warning => is_strict,
            Severity::Note => false,
        };
        let by_rule = || self.0.chunk_by(|one, next| one.rule == next.rule);
        let (tests, failures) = (by_rule().count() + 1, by_rule().filter(|found| fails(&found[0])).count());
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\"");
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites name=\"mcp-probe check\" {counts}>\n  <testsuite name=\"{}\" {counts}>\n",
            xml(server)
        );
        // Without findings there would be no test case, which some CI servers take for a failure.
        push_case(&mut out, &format!("checked in {}", revisions(supported)), "");
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
            let message = format!("{} [{}]", rule.line, rule.rules.join(", "));
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
