//! The report of a check for a terminal.

use mcp_check::{Category, Counts, Finding, Profile, Report, Severity, rules};

use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::paint::Paint;

/// Prints the findings grouped by rule, and a summary.
pub(super) fn print_report(report: &Report, paint: Paint) -> Result<(), CommandFailure> {
    let mut out = String::new();
    for found in report.findings.chunk_by(|one, next| one.rule == next.rule) {
        push_heading(&mut out, &found[0], report.profile, paint);
        for finding in found {
            // The revision is named only if two were checked and one is affected.
            let only = match finding.revisions.as_slice() {
                [one] if report.supported.len() > 1 => format!(" ({one} only)"),
                _ => String::new(),
            };
            out.push_str(&format!(
                "  {}: {}{only}\n",
                paint.name(escape::line(&finding.location)),
                escape::line(&finding.detail)
            ));
        }
        out.push('\n');
    }
    let Counts { errors, warnings, notes, .. } = report.counts();
    let counts = [count(errors, "error"), count(warnings, "warning"), count(notes, "note")].join(", ");
    out.push_str(&format!("{counts} (checked in {}; tools were not called)\n", report.revisions()));
    if report.profile == Profile::Owasp {
        out.push_str("OWASP MCP Top 10 (a beta):\n");
        for category in Category::ALL {
            let is_in = |finding: &&Finding| finding.rule.owasp.contains(&category);
            let number = report.findings.iter().filter(is_in).count();
            let found = if number == 0 { "no finding".into() } else { count(number, "finding") };
            out.push_str(&format!("  {} {}: {found}\n", category.id(), category.title()));
        }
    }
    print(&out)
}

fn push_heading(out: &mut String, Finding { rule, fix, .. }: &Finding, profile: Profile, paint: Paint) {
    let word = rule.severity.word();
    let word = match rule.severity {
        Severity::Error => paint.bad(word),
        Severity::Warning => paint.note(word),
        Severity::Note => paint.good(word),
    };
    let ids = rule.requirements(profile).join(", ");
    out.push_str(&format!("{word} {} [{ids}]: {}\n", paint.bold(rule.check), rule.line));
    out.push_str(&format!("  {} {}\n", paint.dim("fix:"), fix));
}

/// Prints the table of the rules of a profile.
pub(super) fn print_rules(profile: Profile, json: bool) -> Result<(), CommandFailure> {
    if json {
        return print_value(&rules(profile).collect::<Vec<_>>());
    }
    let mut out = String::new();
    for rule in rules(profile) {
        let (severity, ids) = (rule.severity.word(), rule.requirements(profile).join(", "));
        out.push_str(&format!("{severity:8} {:24} {} [{ids}]\n", rule.check, rule.line));
    }
    print(&out)
}
