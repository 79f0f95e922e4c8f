//! Findings of a check and their output.

use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};

use mcp_proto::{DeprecatedFeature, Version};
use serde::Serialize;

use super::profile::{Category, Profile};
use super::rules::{self, CheckRule, Severity};
use super::texts::without_secrets;
use crate::escape;
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::paint::Paint;

/// Collects findings. All steps of a check add to it.
pub(super) struct CheckReport {
    /// Source of unsolicited messages, used as their location.
    source: &'static str,
    /// Whether the server is reached over HTTP.
    is_http: bool,
    findings: RefCell<Vec<Finding>>,
    /// Number of omitted findings, by the name of the check.
    omitted: RefCell<BTreeMap<&'static str, usize>>,
    /// Revision that is being checked.
    revision: Cell<Option<Version>>,
}

pub(super) struct Finding {
    pub(super) rule: &'static CheckRule,
    pub(super) revisions: Vec<Version>,
    pub(super) location: String,
    pub(super) detail: String,
    pub(super) fix: &'static str,
}

/// A finding as `--json` prints it.
#[derive(Serialize)]
struct FindingJson<'a> {
    severity: Severity,
    check: &'a str,
    rules: &'a [&'a str],
    /// Categories of the OWASP MCP Top 10, for the profile that is about them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    owasp: &'a [Category],
    revisions: Vec<&'a str>,
    #[serde(rename = "where")]
    location: &'a str,
    what: &'a str,
    fix: &'a str,
}

/// Number of findings of each severity.
#[derive(Clone, Copy, Default)]
pub(super) struct SeverityCounts {
    pub(super) errors: usize,
    pub(super) warnings: usize,
    pub(super) notes: usize,
}

impl CheckReport {
    /// Creates an empty report. `source` names the source of unsolicited messages.
    pub(super) const fn new(source: &'static str, is_http: bool) -> Self {
        Self {
            source,
            is_http,
            findings: RefCell::new(Vec::new()),
            omitted: RefCell::new(BTreeMap::new()),
            revision: Cell::new(None),
        }
    }

    /// Sets the revision of the following findings.
    pub(super) fn set_revision(&self, version: Option<Version>) {
        self.revision.set(version);
    }

    /// Adds a finding. If it exists for another revision, only the revision is added to it.
    pub(super) fn add(&self, rule: &'static CheckRule, location: &str, what: impl Into<String>) {
        let revisions = self.revision.get().into_iter().collect();
        let (location, what) = (clip(location, MAX_LOCATION_CHARS), clip(&what.into(), MAX_DETAIL_CHARS));
        self.insert(Finding { rule, revisions, location, detail: what, fix: rule.fix_for(self.is_http) });
    }

    /// Adds a finding about an unsolicited message.
    pub(super) fn add_unsolicited(&self, rule: &'static CheckRule, what: impl Into<String>) {
        self.add(rule, self.source, what);
    }

    /// Adds a note that the server offers or uses a deprecated feature; one for each feature.
    pub(super) fn add_deprecated(&self, feature: DeprecatedFeature) {
        let (decision, removal) = (feature.decided_in(), feature.earliest_removal());
        let what = format!(
            "{feature} ({decision}); earliest removal: {removal}; use instead: {}",
            feature.replacement()
        );
        self.add(rules::DEPRECATED, "the server", what);
    }

    fn insert(&self, new: Finding) {
        let mut findings = self.findings.borrow_mut();
        let same =
            |old: &Finding| old.rule == new.rule && old.location == new.location && old.detail == new.detail;
        if let Some(at) = findings.iter().position(same) {
            let known = &mut findings[at].revisions;
            let more: Vec<_> = new.revisions.into_iter().filter(|version| !known.contains(version)).collect();
            known.extend(more);
        } else if findings.iter().filter(|old| old.rule == new.rule).count() < MAX_PER_RULE {
            findings.push(new);
        } else {
            *self.omitted.borrow_mut().entry(new.rule.check).or_default() += 1;
        }
    }

    /// Returns the number of findings of a rule.
    pub(super) fn count(&self, rule: &'static CheckRule) -> usize {
        self.findings.borrow().iter().filter(|finding| finding.rule == rule).count()
    }

    /// Moves all findings of another report into this one.
    pub(super) fn absorb(&self, other: Self) {
        for finding in other.findings.into_inner() {
            self.insert(finding);
        }
        for (check, more) in other.omitted.into_inner() {
            *self.omitted.borrow_mut().entry(check).or_default() += more;
        }
    }

    /// Returns the findings of a profile: by severity, then in the order of the rules, then in order of discovery.
    pub(super) fn into_findings(self, profile: Profile) -> Findings {
        let mut findings = self.findings.into_inner();
        for (check, more) in self.omitted.into_inner() {
            let rule = rules::ALL.iter().copied().find(|rule| rule.check == check);
            findings.extend(rule.map(|rule| Finding {
                rule,
                revisions: Vec::new(),
                location: "elsewhere".into(),
                detail: format!("{more} more of this kind"),
                fix: rule.fix_for(self.is_http),
            }));
        }
        findings.retain(|finding| finding.rule.is_in(profile));
        let row = |rule: &'static CheckRule| rules::ALL.iter().position(|other| *other == rule);
        findings.sort_by_key(|finding| (finding.rule.severity, row(finding.rule)));
        for finding in &mut findings {
            finding.revisions.sort_unstable();
        }
        Findings { all: findings, profile }
    }
}

/// All findings of a profile, in order.
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
    pub(super) profile: Profile,
}

impl Findings {
    pub(super) fn counts(&self) -> SeverityCounts {
        let mut counts = SeverityCounts::default();
        for finding in &self.all {
            *match finding.rule.severity {
                Severity::Error => &mut counts.errors,
                Severity::Warning => &mut counts.warnings,
                Severity::Note => &mut counts.notes,
            } += 1;
        }
        counts
    }

    pub(super) fn print_json(&self) -> Result<(), CommandFailure> {
        let shown: Vec<_> = self.all.iter().map(|finding| finding.to_json(self.profile)).collect();
        print_value(&shown)
    }

    /// Prints the findings grouped by rule, and a summary.
    pub(super) fn print(&self, supported: &[Version], paint: Paint) -> Result<(), CommandFailure> {
        let mut out = String::new();
        let mut before: Option<&Finding> = None;
        for finding in &self.all {
            let same = before.is_some_and(|before| before.rule == finding.rule);
            if !same {
                if before.is_some() {
                    out.push('\n');
                }
                push_heading(&mut out, finding, self.profile, paint);
            }
            before = Some(finding);
            // The revision is named only if two were checked and one is affected.
            let only = match finding.revisions.as_slice() {
                [one] if supported.len() > 1 => format!(" ({one} only)"),
                _ => String::new(),
            };
            out.push_str(&format!(
                "  {}: {}{only}\n",
                paint.name(escape::line(&finding.location)),
                escape::line(&finding.detail)
            ));
        }
        if before.is_some() {
            out.push('\n');
        }
        out.push_str(&self.counts().summary(supported));
        if self.profile == Profile::Owasp {
            out.push_str("OWASP MCP Top 10 (a beta):\n");
            for category in Category::ALL {
                let number = self.all.iter().filter(|finding| finding.rule.owasp.contains(&category)).count();
                let found = if number == 0 { "no finding".into() } else { count(number, "finding") };
                out.push_str(&format!("  {} {}: {found}\n", category.id(), category.title()));
            }
        }
        print(&out)
    }
}

fn push_heading(out: &mut String, finding: &Finding, profile: Profile, paint: Paint) {
    let Finding { rule, fix, .. } = finding;
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

impl Finding {
    fn to_json(&self, profile: Profile) -> FindingJson<'_> {
        FindingJson {
            severity: self.rule.severity,
            check: self.rule.check,
            rules: self.rule.rules,
            owasp: if profile == Profile::Owasp { self.rule.owasp } else { &[] },
            revisions: self.revisions.iter().map(|version| version.as_str()).collect(),
            location: &self.location,
            what: &self.detail,
            fix: self.fix,
        }
    }
}

impl SeverityCounts {
    fn summary(self, supported: &[Version]) -> String {
        let Self { errors, warnings, notes } = self;
        let counts = [count(errors, "error"), count(warnings, "warning"), count(notes, "note")].join(", ");
        format!("{counts} (checked in {}; tools were not called)\n", revisions(supported))
    }
}

/// Names the revisions in which a server was checked.
pub(super) fn revisions(supported: &[Version]) -> String {
    let supported: Vec<_> = supported.iter().map(|version| version.as_str()).collect();
    if supported.is_empty() { "no revision".to_owned() } else { supported.join(" and ") }
}

/// Prints the table of the rules of a profile.
pub(super) fn print_rules(profile: Profile, json: bool) -> Result<(), CommandFailure> {
    let rules: Vec<_> = rules::in_profile(profile).collect();
    if json {
        return print_value(&rules);
    }
    let mut out = String::new();
    for rule in rules {
        let (severity, ids) = (rule.severity.word(), rule.requirements(profile).join(", "));
        out.push_str(&format!("{severity:8} {:24} {} [{ids}]\n", rule.check, rule.line));
    }
    print(&out)
}

/// Cuts a text to a maximum number of characters. Secrets are replaced before: a part of one would not be known as one.
pub(super) fn clip(text: &str, max_chars: usize) -> String {
    let text = &without_secrets(text);
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Maximum number of findings per rule.
const MAX_PER_RULE: usize = 50;
/// Maximum number of characters of a location.
const MAX_LOCATION_CHARS: usize = 160;
/// Maximum number of characters of a finding.
const MAX_DETAIL_CHARS: usize = 400;
