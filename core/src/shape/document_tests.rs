//! Test that `model/revisions.md`, the table for users, agrees with the shaping rules.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::rules::RULES;
use super::{Version, code_in_revision};
use crate::json::{RevisionMask, ShapeRule};
use crate::methods::REQUESTS;
use crate::rpc::code;

const DOCUMENT: &str = include_str!("../model/revisions.md");
const ALL: RevisionMask = 0b1_1111;

/// Headings of rules that have more than a type name.
const HEADINGS: &[(&str, &str)] = &[
    ("CallToolResult+object", "[`CallToolResult`] with an object as `structuredContent`"),
    ("CallToolResult+value", "[`CallToolResult`] with another value as `structuredContent`"),
    ("ClientCapabilities+url", "[`ClientCapabilities`] with elicitation by web pages alone"),
    ("CreateMessageParams+many", "[`CreateMessageParams`] with several blocks in a message"),
    ("CreateMessageParams+tools", "[`CreateMessageParams`] with `tools` or `toolChoice`"),
    ("CreateMessageResult+many", "[`CreateMessageResult`] with several blocks"),
    ("ElicitChoices", "[`ElicitValue::Choices`]"),
    ("ElicitUrlParams+anonymous", "[`ElicitUrlParams`] without `elicitationId`"),
    ("Tool+value", "[`Tool`] with an `outputSchema` whose root is not of type `object`"),
    ("ToolResultContent+value", "[`ToolResultContent`] with a `structuredContent` that is no object"),
];

/// Results of extensions, whose types are in `mcp-extensions`.
const EXTENSIONS: [&str; 3] = ["GetSkillResult", "ListSkillsResult", "ReadDirectoryResult"];

/// Descriptions of the substitutes of each type, in the order of its rule.
const SUBSTITUTES: &[(&str, &[&str])] = &[
    ("AudioContent", &["a text that names the kind, the media type and the size"]),
    ("CallToolResult+object", &["the result without it, and with it as a text block if there is none"]),
    ("CallToolResult+value", &["the result without it, and with it as a text block if there is none"]),
    ("CreateMessageParams+many", &["several messages of one block each"]),
    ("CreateMessageResult+many", &["the only block, or all of them in one text"]),
    ("ResourceLink", &["a text: the title (or name), the URI, the description"]),
    ("TitledSingleSelectEnumSchema", &["`enum` with `enumNames`"]),
    ("ToolResultContent", &["a text that says what came of which call"]),
    (
        "ToolResultContent+value",
        &[
            "the result without it, and with it as a text block if there is none",
            "a text that says what came of which call",
        ],
    ),
    ("ToolUseContent", &["a text that says what was called with what"]),
];

fn look_up<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(n, _)| *n == name).map(|(_, found)| *found)
}

fn versions(set: RevisionMask) -> Vec<Version> {
    Version::ALL.into_iter().filter(|v| set & 1 << *v as u8 != 0).collect()
}

/// Describes a set of revisions.
fn span(set: RevisionMask) -> String {
    match &*versions(set) {
        all if all.len() == 5 => "always".into(),
        [only] if *only != Version::V2026_07_28 => format!("{only} only"),
        [first, ..] if set == ALL & ALL << *first as u8 => format!("since {first}"),
        [Version::V2024_11_05, .., last] if versions(set).len() == *last as usize + 1 => {
            format!("until {last}")
        }
        [first, .., last] if versions(set).len() == *last as usize - *first as usize + 1 => {
            format!("{first} to {last}")
        }
        some => panic!("{some:?} have no words"),
    }
}

/// Describes what happens to a type in the revisions that lack it.
fn describe_missing(rule: &ShapeRule) -> String {
    let words = look_up(SUBSTITUTES, rule.name).unwrap_or_default();
    assert_eq!(words.len(), rule.substitutes.len(), "{}: each substitute has words", rule.name);
    let mut missing = ALL & !rule.revisions;
    let mut out = String::new();
    for ((revisions, _), words) in rule.substitutes.iter().zip(words) {
        let replaced = revisions & missing;
        missing &= !replaced;
        match &*versions(replaced) {
            _ if missing == 0 => return out + words,
            [only] => out += &format!("in {only} {words}; before, "),
            some => panic!("{some:?} have no words"),
        }
    }
    out + "refused"
}

/// Returns the rule of the base type of a form, if it has one.
fn base(form: &ShapeRule) -> Option<&'static ShapeRule> {
    let (name, _) = form.name.split_once('+')?;
    RULES.iter().find(|rule| rule.name == name)
}

/// Renders the table of types and members.
fn types() -> String {
    let mut out = String::from("| Type | Member | Exists | Elsewhere |\n|---|---|---|---|\n");
    for rule in RULES {
        let is_elsewhere = EXTENSIONS.contains(&rule.name);
        let name = || if is_elsewhere { format!("`{}`", rule.name) } else { format!("[`{}`]", rule.name) };
        let head = look_up(HEADINGS, rule.name).map_or_else(name, String::from);
        if rule.revisions != ALL {
            out += &format!("| {head} | | {} | {} |\n", span(rule.revisions), describe_missing(rule));
        }
        let mut spans: Vec<(RevisionMask, Vec<&str>)> = Vec::new();
        for (member, revisions) in rule.members {
            // A form of a type has the members of its base type, except those that its rule lists.
            if base(rule).is_some_and(|base| base.members.contains(&(member, *revisions))) {
                continue;
            }
            match spans.iter_mut().find(|(known, _)| known == revisions) {
                Some((_, members)) => members.push(member),
                None => spans.push((*revisions, [*member].into())),
            }
        }
        if let Some((revisions, member, value)) = rule.added.filter(|_| base(rule).is_none()) {
            let [only] = &*versions(revisions) else { panic!("{revisions} has no words") };
            out += &format!("| {head} | `{member}` | always | `{value}` in {only}, if it is missing |\n");
        }
        for (revisions, members) in spans {
            // A substitute of the type may have members of its own.
            if revisions == rule.revisions && rule.substitutes.is_empty() {
                continue;
            }
            let members: Vec<_> = members.iter().map(|m| format!("`{m}`")).collect();
            out += &format!("| {head} | {} | {} | left out |\n", members.join(", "), span(revisions));
        }
    }
    out
}

fn methods() -> String {
    let mut out = String::from("| Method | Exists | Elsewhere |\n|---|---|---|\n");
    for rule in REQUESTS {
        let revisions = Version::ALL.into_iter().filter(|v| rule.exists_in(*v));
        let revisions = revisions.fold(0, |set, v| set | 1 << v as u8);
        if revisions != ALL {
            out += &format!("| `{}` | {} | refused |\n", rule.name, span(revisions));
        }
    }
    out
}

fn errors() -> String {
    let mut out = String::from("| Error | Exists | Elsewhere |\n|---|---|---|\n");
    for (code, what) in [
        (code::RESOURCE_NOT_FOUND, "resource not found"),
        (code::HEADER_MISMATCH, "header mismatch"),
        (code::MISSING_CLIENT_CAPABILITY, "missing client capability"),
        (code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version"),
        (code::URL_ELICITATION_REQUIRED, "URL elicitation required"),
    ] {
        let mapped = |v: &Version| code_in_revision(code, *v);
        let revisions = Version::ALL.iter().filter(|v| mapped(v) == code);
        let revisions = revisions.fold(0, |set, v| set | 1 << *v as u8);
        let others: BTreeSet<i64> = Version::ALL.iter().map(mapped).filter(|c| *c != code).collect();
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        out += &format!("| {code} {what} | {} | {} |\n", span(revisions), others.join(", "));
    }
    out
}

/// Renders the whole file.
fn render_document() -> String {
    format!("{}\n{}\n{}", types(), methods(), errors())
}

#[test]
fn revisions_page_matches_shape_rules() {
    let rendered_text = render_document();
    if std::env::var_os("UPDATE_REVISIONS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/revisions.md");
        std::fs::write(path, &rendered_text).expect("written");
        return;
    }
    let (rendered, document): (Vec<_>, Vec<_>) =
        (rendered_text.lines().collect(), DOCUMENT.lines().collect());
    for (line, (want, got)) in rendered.iter().zip(&document).enumerate() {
        assert_eq!(got, want, "model/revisions.md:{}: run this test with UPDATE_REVISIONS=1", line + 1);
    }
    assert_eq!(rendered_text, DOCUMENT, "model/revisions.md: run this test with UPDATE_REVISIONS=1");
}

#[test]
fn every_heading_and_substitute_text_is_used() {
    let rules: BTreeMap<_, _> = RULES.iter().map(|rule| (rule.name, rule)).collect();
    assert!(HEADINGS.iter().all(|(name, _)| rules.contains_key(name)));
    assert!(SUBSTITUTES.iter().all(|(name, _)| !rules[name].substitutes.is_empty()));
    for rule in RULES {
        let plain = rule.name.contains('+') || rule.name == "ElicitChoices";
        assert_eq!(look_up(HEADINGS, rule.name).is_some(), plain, "{}: forms need words", rule.name);
        for (member, _) in base(rule).map_or(&[][..], |base| base.members) {
            // A member that the form never has needs no rule.
            let has = rule.members.iter().any(|(m, _)| m == member) || *member == "elicitationId";
            assert!(has, "{}: {member} is said of its base only", rule.name);
        }
    }
}
