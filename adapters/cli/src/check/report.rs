//! What was found, and how it is shown

use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};

use mcp_proto::{RawJson, Version};
use serde::Serialize;

use super::rules::{self, Rule, Severity};
use crate::escape;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::paint::Paint;

/// Gathers findings; each step of the check adds what it sees
pub(super) struct Report {
    /// What messages come out of
    source: &'static str,
    findings: RefCell<Vec<Finding>>,
    /// How many findings were left out, by the name of the rule
    more: RefCell<BTreeMap<&'static str, usize>>,
    /// The revision that is being checked
    revision: Cell<Option<Version>>,
}

struct Finding {
    rule: &'static Rule,
    revisions: Vec<Version>,
    place: String,
    what: String,
}

/// A finding as `--json` prints it
#[derive(Serialize)]
struct Shown<'a> {
    severity: Severity,
    check: &'a str,
    rules: &'a [&'a str],
    revisions: Vec<&'a str>,
    #[serde(rename = "where")]
    place: &'a str,
    what: &'a str,
    fix: &'a str,
}

/// How many there are of each severity
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) errors: usize,
    pub(super) warnings: usize,
    notes: usize,
}

impl Report {
    /// Nothing yet, about a server whose messages come out of `source`
    pub(super) const fn new(source: &'static str) -> Self {
        Self {
            source,
            findings: RefCell::new(Vec::new()),
            more: RefCell::new(BTreeMap::new()),
            revision: Cell::new(None),
        }
    }

    /// What is found from now on is about this revision
    pub(super) fn revision(&self, version: Option<Version>) {
        self.revision.set(version);
    }

    /// Adds a finding; one that is there already, in another revision, is not repeated
    pub(super) fn add(&self, rule: &'static Rule, place: &str, what: impl Into<String>) {
        let revisions = self.revision.get().into_iter().collect();
        let (place, what) = (clip(place, PLACE), clip(&what.into(), WHAT));
        self.insert(Finding { rule, revisions, place, what });
    }

    /// Adds a finding about what came unasked
    pub(super) fn add_said(&self, rule: &'static Rule, what: impl Into<String>) {
        self.add(rule, self.source, what);
    }

    fn insert(&self, new: Finding) {
        let mut findings = self.findings.borrow_mut();
        let same = |old: &Finding| old.rule == new.rule && old.place == new.place && old.what == new.what;
        if let Some(at) = findings.iter().position(same) {
            let known = &mut findings[at].revisions;
            let more: Vec<_> = new.revisions.into_iter().filter(|version| !known.contains(version)).collect();
            known.extend(more);
        } else if findings.iter().filter(|old| old.rule == new.rule).count() < MOST {
            findings.push(new);
        } else {
            *self.more.borrow_mut().entry(new.rule.check).or_default() += 1;
        }
    }

    /// How often a rule was found to be broken
    pub(super) fn count(&self, rule: &'static Rule) -> usize {
        self.findings.borrow().iter().filter(|finding| finding.rule == rule).count()
    }

    /// Takes over what another one has gathered
    pub(super) fn absorb(&self, other: Self) {
        for finding in other.findings.into_inner() {
            self.insert(finding);
        }
        for (check, more) in other.more.into_inner() {
            *self.more.borrow_mut().entry(check).or_default() += more;
        }
    }

    /// All that was found: the worst first, then as in the table of rules, then as it came
    pub(super) fn finish(self) -> Findings {
        let mut findings = self.findings.into_inner();
        for (check, more) in self.more.into_inner() {
            let rule = rules::ALL.iter().copied().find(|rule| rule.check == check);
            findings.extend(rule.map(|rule| Finding {
                rule,
                revisions: Vec::new(),
                place: "elsewhere".into(),
                what: format!("{more} more of that kind"),
            }));
        }
        let row = |rule: &'static Rule| rules::ALL.iter().position(|other| *other == rule);
        findings.sort_by_key(|finding| (finding.rule.severity, row(finding.rule)));
        for finding in &mut findings {
            finding.revisions.sort_unstable();
        }
        Findings(findings)
    }
}

/// All that was found, in order
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.0 {
            *match finding.rule.severity {
                Severity::Error => &mut counts.errors,
                Severity::Warning => &mut counts.warnings,
                Severity::Note => &mut counts.notes,
            } += 1;
        }
        counts
    }

    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let shown: Vec<_> = self.0.iter().map(Finding::shown).collect();
        print_json(&encode(&shown)?)
    }

    /// For people: grouped, each rule once with the places where it is broken
    pub(super) fn print(&self, spoken: &[Version], paint: Paint) -> Result<(), Failure> {
        let mut out = String::new();
        let mut before: Option<&Finding> = None;
        for finding in &self.0 {
            let same = before.is_some_and(|before| before.rule == finding.rule);
            if !same {
                if before.is_some() {
                    out.push('\n');
                }
                heading(&mut out, finding.rule, paint);
            }
            before = Some(finding);
            // Where both eras were looked at and only one has it.
            let only = match finding.revisions.as_slice() {
                [one] if spoken.len() > 1 => format!(" ({one} only)"),
                _ => String::new(),
            };
            out.push_str(&format!(
                "  {}: {}{only}\n",
                paint.name(escape::line(&finding.place)),
                escape::line(&finding.what)
            ));
        }
        if before.is_some() {
            out.push('\n');
        }
        out.push_str(&self.counts().line(spoken));
        print(&out)
    }
}

fn heading(out: &mut String, rule: &Rule, paint: Paint) {
    let word = match rule.severity {
        Severity::Error => paint.bad("error"),
        Severity::Warning => paint.note("warning"),
        Severity::Note => paint.good("note"),
    };
    let ids = rule.rules.join(", ");
    out.push_str(&format!("{word} {} [{ids}]: {}\n", paint.bold(rule.check), rule.line));
    out.push_str(&format!("  {} {}\n", paint.dim("to do:"), rule.fix));
}

impl Finding {
    fn shown(&self) -> Shown<'_> {
        Shown {
            severity: self.rule.severity,
            check: self.rule.check,
            rules: self.rule.rules,
            revisions: self.revisions.iter().map(|version| version.as_str()).collect(),
            place: &self.place,
            what: &self.what,
            fix: self.rule.fix,
        }
    }
}

impl Counts {
    fn line(self, spoken: &[Version]) -> String {
        let Self { errors, warnings, notes } = self;
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let counts = [count(errors, "error"), count(warnings, "warning"), count(notes, "note")].join(", ");
        let spoken: Vec<_> = spoken.iter().map(|version| version.as_str()).collect();
        let spoken = if spoken.is_empty() { "no revision".to_owned() } else { spoken.join(" and ") };
        format!("{counts} (checked in {spoken}; tools were not called)\n")
    }
}

/// Prints the table of rules
pub(super) fn print_rules(json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&encode(rules::ALL)?);
    }
    let mut out = String::new();
    for rule in rules::ALL {
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        out.push_str(&format!("{severity:8} {:24} {} [{}]\n", rule.check, rule.line, rule.rules.join(", ")));
    }
    print(&out)
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Result<RawJson, Failure> {
    RawJson::encode(value).map_err(|error| Failure::failed(error.to_string()))
}

/// No more of a text than a person wants to see
pub(super) fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Findings of one rule that are kept
const MOST: usize = 50;
/// Characters of a place that are shown
const PLACE: usize = 160;
/// Characters of what was found that are shown
const WHAT: usize = 400;
