//! Findings of a check.

use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};

use mcp_proto::{DeprecatedFeature, Version};
use serde::{Serialize, Serializer};

use super::profile::{Category, Profile};
use super::rules::{Rule, Severity, all, rules_of};
use super::texts::without_secrets;

rules_of! {
    RULES
    DEPRECATED "deprecated-feature" Note [Spec Hosted] ["LOG-015" "ROOT-013" "SAMP-026" "AUTH-018"]
        "a server uses no feature that the specification deprecates"
        "migrate before the earliest removal"
}

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

/// A violation of a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Revisions in which it is violated, in order; none if it is not of one.
    pub revisions: Vec<Version>,
    /// Where: a method, an entry, or another part of the server. Of at most 160 characters of the server, without secrets.
    pub location: String,
    /// What is wrong. Of at most 400 characters, without secrets.
    pub detail: String,
    /// What to do.
    pub fix: &'static str,
}

/// A finding in JSON.
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

/// Numbers of findings by severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Number of notes.
    pub notes: usize,
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
    pub(super) fn add(&self, rule: &'static Rule, location: &str, what: impl Into<String>) {
        let revisions = self.revision.get().into_iter().collect();
        let (location, what) = (clip(location, MAX_LOCATION_CHARS), clip(&what.into(), MAX_DETAIL_CHARS));
        self.insert(Finding { rule, revisions, location, detail: what, fix: rule.fix_for(self.is_http) });
    }

    /// Adds a finding about an unsolicited message.
    pub(super) fn add_unsolicited(&self, rule: &'static Rule, what: impl Into<String>) {
        self.add(rule, self.source, what);
    }

    /// Adds a note that the server offers or uses a deprecated feature; one for each feature.
    pub(super) fn add_deprecated(&self, feature: DeprecatedFeature) {
        let (decision, removal) = (feature.decided_in(), feature.earliest_removal());
        let what = format!(
            "{feature} ({decision}); earliest removal: {removal}; use instead: {}",
            feature.replacement()
        );
        self.add(DEPRECATED, "the server", what);
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
    pub(super) fn count(&self, rule: &'static Rule) -> usize {
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

    /// Returns the report of a profile. Its findings are ordered: by severity, then in the order of the rules, then in order of discovery.
    pub(super) fn finish(self, profile: Profile, supported: Vec<Version>) -> Report {
        let mut findings = self.findings.into_inner();
        for (check, more) in self.omitted.into_inner() {
            let rule = all().find(|rule| rule.check == check);
            findings.extend(rule.map(|rule| Finding {
                rule,
                revisions: Vec::new(),
                location: "elsewhere".into(),
                detail: format!("{more} more of this kind"),
                fix: rule.fix_for(self.is_http),
            }));
        }
        findings.retain(|finding| finding.rule.is_in(profile));
        let row = |rule: &'static Rule| all().position(|other| other == rule);
        findings.sort_by_key(|finding| (finding.rule.severity, row(finding.rule)));
        for finding in &mut findings {
            finding.revisions.sort_unstable();
        }
        Report { findings, supported, profile }
    }
}

/// The report of a check.
///
/// It serializes as an array of findings, with the members `severity`, `check`, `rules`, `revisions`, `where`, `what`, `fix`, and of
/// [`Profile::Owasp`] also `owasp`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The findings: by severity, then in the order of the rules, then in order of discovery.
    ///
    /// Of a rule there are at most 50; how many more there are is one.
    pub findings: Vec<Finding>,
    /// The revisions in which the server was checked. None if it supports none, or if it wants another token.
    pub supported: Vec<Version>,
    /// The profile that selected the findings.
    pub profile: Profile,
}

impl Report {
    /// Counts the findings.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.findings {
            *match finding.rule.severity {
                Severity::Error => &mut counts.errors,
                Severity::Warning => &mut counts.warnings,
                Severity::Note => &mut counts.notes,
            } += 1;
        }
        counts
    }

    /// Returns the worst severity of a finding, and the number of findings of it; `None` if all are milder than `mildest`.
    #[must_use]
    pub fn failures(&self, mildest: Severity) -> Option<(Severity, usize)> {
        let worst = self.findings.first()?.rule.severity;
        let number = self.findings.iter().filter(|finding| finding.rule.severity == worst).count();
        (worst <= mildest).then_some((worst, number))
    }

    /// Names the revisions in which the server was checked, for a sentence.
    #[must_use]
    pub fn revisions(&self) -> String {
        let supported: Vec<_> = self.supported.iter().map(|version| version.as_str()).collect();
        if supported.is_empty() { "no revision".to_owned() } else { supported.join(" and ") }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.findings.iter().map(|finding| FindingJson {
            severity: finding.rule.severity,
            check: finding.rule.check,
            rules: finding.rule.ids,
            owasp: if self.profile == Profile::Owasp { finding.rule.owasp } else { &[] },
            revisions: finding.revisions.iter().map(|version| version.as_str()).collect(),
            location: &finding.location,
            what: &finding.detail,
            fix: finding.fix,
        }))
    }
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
