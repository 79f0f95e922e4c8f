//! The table for users, `model/revisions.md`, says what the table for writing does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::rules::RULES;
use super::{Version, error_code};
use crate::json::{Revisions, Rule};
use crate::rpc::code;
use crate::vocab::REQUESTS;

const WRITTEN: &str = include_str!("../model/revisions.md");
const ALL: Revisions = 0b1_1111;

/// Types whose rows are not headed by their names alone
const HEADED: &[(&str, &str)] = &[
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

/// What stands in for each type that has substitutes, in the order of its rule
const INSTEAD: &[(&str, &[&str])] = &[
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

fn looked_up<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(n, _)| *n == name).map(|(_, found)| *found)
}

fn versions(set: Revisions) -> Vec<Version> {
    Version::ALL.into_iter().filter(|v| set & 1 << *v as u8 != 0).collect()
}

/// A set of revisions in words
fn span(set: Revisions) -> String {
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

/// What becomes of a type in the revisions that lack it
fn elsewhere(rule: &Rule) -> String {
    let words = looked_up(INSTEAD, rule.name).unwrap_or_default();
    assert_eq!(words.len(), rule.instead.len(), "{}: each substitute has words", rule.name);
    let mut missing = ALL & !rule.lives;
    let mut out = String::new();
    for ((revisions, _), words) in rule.instead.iter().zip(words) {
        let here = revisions & missing;
        missing &= !here;
        match &*versions(here) {
            _ if missing == 0 => return out + words,
            [only] => out += &format!("in {only} {words}; before, "),
            some => panic!("{some:?} have no words"),
        }
    }
    out + "refused"
}

/// The type that this is a form of, where that has a row
fn base(form: &Rule) -> Option<&'static Rule> {
    let (name, _) = form.name.split_once('+')?;
    RULES.iter().find(|rule| rule.name == name)
}

/// The table of types and members, as it has to be
fn types() -> String {
    let mut out = String::from("| Type | Member | Exists | Elsewhere |\n|---|---|---|---|\n");
    for rule in RULES {
        let head = looked_up(HEADED, rule.name).map_or_else(|| format!("[`{}`]", rule.name), String::from);
        if rule.lives != ALL {
            out += &format!("| {head} | | {} | {} |\n", span(rule.lives), elsewhere(rule));
        }
        let mut spans: Vec<(Revisions, Vec<&str>)> = Vec::new();
        for (member, lives) in rule.members {
            // A form of a type is like the type, but for what is said about it.
            if base(rule).is_some_and(|base| base.members.contains(&(member, *lives))) {
                continue;
            }
            match spans.iter_mut().find(|(known, _)| known == lives) {
                Some((_, members)) => members.push(member),
                None => spans.push((*lives, [*member].into())),
            }
        }
        for (lives, members) in spans {
            // What stands in for the type may have members of its own.
            if lives == rule.lives && rule.instead.is_empty() {
                continue;
            }
            let members: Vec<_> = members.iter().map(|m| format!("`{m}`")).collect();
            out += &format!("| {head} | {} | {} | left out |\n", members.join(", "), span(lives));
        }
    }
    out
}

fn methods() -> String {
    let mut out = String::from("| Method | Exists | Elsewhere |\n|---|---|---|\n");
    for rule in REQUESTS {
        let lives = Version::ALL.into_iter().filter(|v| rule.exists_in(*v));
        let lives = lives.fold(0, |set, v| set | 1 << v as u8);
        if lives != ALL {
            out += &format!("| `{}` | {} | refused |\n", rule.name, span(lives));
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
        let mapped = |v: &Version| error_code(code, *v);
        let lives = Version::ALL.iter().filter(|v| mapped(v) == code);
        let lives = lives.fold(0, |set, v| set | 1 << *v as u8);
        let others: BTreeSet<i64> = Version::ALL.iter().map(mapped).filter(|c| *c != code).collect();
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        out += &format!("| {code} {what} | {} | {} |\n", span(lives), others.join(", "));
    }
    out
}

/// What the file has to hold
fn written() -> String {
    format!("{}\n{}\n{}", types(), methods(), errors())
}

#[test]
fn the_table_for_users_is_the_table_that_writes() {
    let now = written();
    if std::env::var_os("UPDATE_REVISIONS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/revisions.md");
        std::fs::write(path, &now).expect("written");
        return;
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = (now.lines().collect(), WRITTEN.lines().collect());
    for (line, (want, got)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(got, want, "model/revisions.md:{}: run this test with UPDATE_REVISIONS=1", line + 1);
    }
    assert_eq!(now, WRITTEN, "model/revisions.md: run this test with UPDATE_REVISIONS=1");
}

#[test]
fn every_word_of_the_table_is_used() {
    let rules: BTreeMap<_, _> = RULES.iter().map(|rule| (rule.name, rule)).collect();
    assert!(HEADED.iter().all(|(name, _)| rules.contains_key(name)));
    assert!(INSTEAD.iter().all(|(name, _)| !rules[name].instead.is_empty()));
    for rule in RULES {
        let plain = rule.name.contains('+') || rule.name == "ElicitChoices";
        assert_eq!(looked_up(HEADED, rule.name).is_some(), plain, "{}: forms need words", rule.name);
        for (member, _) in base(rule).map_or(&[][..], |base| base.members) {
            // What the form is without needs no rule.
            let has = rule.members.iter().any(|(m, _)| m == member) || *member == "elicitationId";
            assert!(has, "{}: {member} is said of its base only", rule.name);
        }
    }
}
