//! What a rule is, and the order of all rules. Each rule stands beside the code that checks it.

use serde::Serialize;

use super::profile::{Category, Profile};
use super::{
    apps, authorization_server, conversation, entries, events, exposure, handshake, http_peer, lists,
    messages, modern, protection, report, requests, schemas, shutdown, subscriptions, texts, transport,
    versions,
};

/// Severity of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A MUST of the specification is violated.
    Error,
    /// A SHOULD of the specification is violated.
    Warning,
    /// Good practice is violated.
    Note,
}

impl Severity {
    /// Returns the name: `error`, `warning` or `note`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A rule that is checked.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// Name of the check. It is stable.
    pub check: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// Profiles that select the rule, besides the one of its categories.
    pub(super) profiles: &'static [Profile],
    /// Categories of the OWASP MCP Top 10 that a violation belongs to.
    pub owasp: &'static [Category],
    /// Ids of the requirements behind the rule.
    #[serde(rename = "rules")]
    pub ids: &'static [&'static str],
    /// The rule itself.
    pub line: &'static str,
    /// Advice for a server that violates the rule.
    pub fix: &'static str,
}

impl Rule {
    /// Returns whether a profile selects the rule.
    #[must_use]
    pub fn is_in(&self, profile: Profile) -> bool {
        let selection = profile.selection();
        self.profiles.contains(&selection) || (selection == Profile::Owasp && !self.owasp.is_empty())
    }

    /// Returns what a violation of the rule violates: ids of requirements, and categories where they count.
    #[must_use]
    pub fn requirements(&self, profile: Profile) -> Vec<&'static str> {
        let is_shown = profile == Profile::Owasp || self.ids.is_empty();
        let categories = self.owasp.iter().filter(|_| is_shown).map(|category| category.id());
        categories.chain(self.ids.iter().copied()).collect()
    }

    /// Returns the advice for a server over HTTP or on stdio. Over HTTP no command is involved.
    pub(super) fn fix_for(&self, is_http: bool) -> &'static str {
        if is_http && (self == conversation::NOT_A_SERVER || self == conversation::ECHOES) {
            "check the URL and its path; --trace shows the responses"
        } else {
            self.fix
        }
    }
}

/// Constants have no unique address, so rules are compared by name.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.check == other.check
    }
}

/// Declares rules beside the code that checks them: a constant for each, and one for all of the group, which [`GROUPS`] names.
///
/// A row has the name of the constant and of the check, the severity, the profiles, the categories, the ids of requirements, the rule, and
/// what to do.
macro_rules! rules_of {
    ($group:ident $($name:ident $check:literal $severity:ident [$($profile:ident)*] $($category:ident)* [$($id:literal)*]
        $line:literal $fix:literal)*) => {
        $(pub(super) const $name: &$crate::check::rules::Rule = &$crate::check::rules::Rule {
            check: $check, severity: $crate::check::rules::Severity::$severity, ids: &[$($id),*], line: $line, fix: $fix,
            profiles: &[$($crate::check::profile::Profile::$profile),*], owasp: &[$($crate::check::profile::Category::$category),*] };)*
        pub(super) const $group: &[&$crate::check::rules::Rule] = &[$($name),*];
    };
}
pub(super) use rules_of;

/// The groups of rules, in the order of reports.
const GROUPS: &[&[&Rule]] = &[
    conversation::RULES,
    messages::RULES,
    shutdown::RULES,
    protection::RULES,
    authorization_server::RULES,
    http_peer::RULES,
    transport::RULES,
    handshake::RULES,
    versions::RULES,
    modern::RULES,
    lists::CAPABILITIES,
    subscriptions::RULES,
    requests::RULES,
    lists::RULES,
    entries::RULES,
    schemas::RULES,
    entries::IDENTIFIERS,
    apps::RULES,
    events::RULES,
    entries::FORMS,
    report::RULES,
    entries::META,
    exposure::RULES,
    texts::RULES,
    protection::SCOPES,
    exposure::PACKAGES,
    texts::TOOLS,
    exposure::UNSEEN,
];

/// Returns all rules, in the order of reports.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    GROUPS.iter().copied().flatten().copied()
}

/// Returns the rules that a profile selects, in the order of reports.
pub fn rules(profile: Profile) -> impl Iterator<Item = &'static Rule> {
    all().filter(move |rule| rule.is_in(profile))
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn page_of_checks_has_every_rule() {
        let mut page = String::from(
            "# Checks of `mcp-probe check`\n\n\
             An error violates a MUST of the specification, a warning a SHOULD, a note good practice. The ids are those of the\n\
             requirements in `tests/spec-map.tsv`. `--profile` selects rules: `spec` is the default, `strict` the same with every finding\n\
             a failure, `hosted` for servers on the public internet, and `owasp` has the rules with a category of the OWASP MCP Top 10\n\
             (a beta), which are listed below. This page is written by a test from the rules themselves.\n\n\
             | check | | profiles | rule | requirements | what to do |\n|---|---|---|---|---|---|\n",
        );
        for rule in all() {
            let categories = rule.owasp.iter().map(|category| category.id());
            let selected = Profile::ALL.into_iter().filter(|profile| rule.is_in(*profile));
            let names = selected.map(|profile| profile.as_str().to_owned()).filter(|name| name != "strict");
            let profiles: Vec<_> = names.chain(categories.map(str::to_owned)).collect();
            let cells = [&profiles.join(", "), rule.line, &rule.ids.join(", "), rule.fix];
            let cells = cells.map(|text| text.replace('|', "\\|"));
            page += &format!("| `{}` | {} | {} |\n", rule.check, rule.severity.word(), cells.join(" | "));
        }
        page += "\nThe categories of the OWASP MCP Top 10:\n\n";
        for category in Category::ALL {
            page += &format!("- {}: {}\n", category.id(), category.title());
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/checks.md");
        if env::var_os("UPDATE_CHECKS").is_some() {
            fs::write(path, &page).expect("written");
        }
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "checks.md: run this test with UPDATE_CHECKS=1");
    }
}
