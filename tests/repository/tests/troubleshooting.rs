//! The troubleshooting pages: each message that a person may meet is explained, and no page explains what no source says.
//!
//! A message is the string literal of an `#[error]` attribute, or any other one of two words and more. `{name}` is `…` on a
//! page. `messages::EXCLUDED` names what is no message of a failure.

mod messages;
mod pages;

use alloc::collections::BTreeSet;
use core::fmt::Write as _;
use std::path::Path;

/// The source of `mcp-probe` with that of its bridge, and the beginning of the pages about it.
const TOOL_SOURCES: [&str; 6] = [
    "adapters/check/",
    "adapters/cli/",
    "adapters/mock/",
    "adapters/std/src/json_file",
    "core/proxy/",
    "core/trace/",
];
const TOOL_PAGES: &str = "adapters/runtime/src/guide/troubleshooting_mcp_probe";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace")
}

/// Compares the messages of the source with those of the pages.
fn differences(messages: &messages::Messages, pages: &[pages::Page]) -> String {
    let (explained, faults) = pages::messages(pages);
    let mut report = String::new();
    for fault in faults {
        let _ = writeln!(report, "{fault}");
    }
    for (message, places) in messages {
        let Some(pages) = explained.get(message) else {
            let _ = writeln!(report, "in no page: {message:?}, from {}", places.join(", "));
            continue;
        };
        // The same words of the tool and of a library have different causes.
        for is_tool in [true, false] {
            let is_from =
                |place: &&String| TOOL_SOURCES.iter().any(|source| place.starts_with(source)) == is_tool;
            let from: Vec<_> = places.iter().filter(is_from).cloned().collect();
            if !from.is_empty() && !pages.iter().any(|page| page.starts_with(TOOL_PAGES) == is_tool) {
                let _ = writeln!(report, "in no page about it: {message:?}, from {}", from.join(", "));
            }
        }
        let files: BTreeSet<_> = places.iter().map(|place| place.split(':').next()).collect();
        let is_repeated = pages.iter().collect::<BTreeSet<_>>().len() < pages.len();
        if is_repeated || pages.len() > files.len() {
            let _ = writeln!(report, "explained more than once: {message:?}, in {}", pages.join(", "));
        }
    }
    for (message, pages) in explained.iter().filter(|(message, _)| !messages.contains_key(*message)) {
        let _ = writeln!(report, "in no source: {message:?}, in {}", pages.join(", "));
    }
    report
}

#[test]
fn every_message_of_the_tool_and_of_the_libraries_is_explained_and_no_other() {
    let report = differences(&messages::read(root()), &pages::read(root()));
    assert!(
        report.is_empty(),
        "The troubleshooting pages (`core/src/guide`, `adapters/runtime/src/guide`, `core/events/src`) and the source differ:\n{report}"
    );
}

#[test]
fn added_and_removed_message_fail_the_comparison() {
    let pages = pages::read(root());
    let mut messages = messages::read(root());
    messages.insert("a message that nobody explains".into(), vec!["x.rs:1".into()]);
    assert!(
        differences(&messages, &pages)
            .contains("in no page: \"a message that nobody explains\", from x.rs:1")
    );
    messages.pop_last();
    let (removed, _) = messages.pop_first().expect("a message");
    assert!(differences(&messages, &pages).contains(&format!("in no source: {removed:?}")));
}

#[test]
fn every_exit_code_of_mcp_probe_is_explained() {
    let source = std::fs::read_to_string(root().join("adapters/cli/src/failure.rs")).expect("UTF-8");
    let page =
        pages::read(root()).into_iter().find(|page| page.path.ends_with("mcp_probe.md")).expect("a page");
    let (_, variants) = source.split_once("enum Exit {").expect("the exit codes");
    let (variants, names) = variants.split_once('}').expect("the end of the enum");
    let mut codes = Vec::new();
    for variant in variants.split(',').map(str::trim).filter(|variant| !variant.is_empty()) {
        let (variant, code) = variant.split_once(" = ").expect("an exit code");
        let name = names.split_once(&format!("Self::{variant} => \"")).expect("its name in JSON").1;
        let name = &name[..name.find('"').expect("the end of a literal")];
        assert!(
            page.text.contains(&format!("\n| {code} | `{name}` | ")),
            "{code} `{name}` is not in {}",
            page.path
        );
        codes.push(code.to_owned());
    }
    codes.insert(0, "0".into());
    let rows =
        page.text.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0.to_owned()));
    assert_eq!(rows.filter(|cell| cell.parse::<u8>().is_ok()).collect::<Vec<_>>(), codes);
}

#[test]
fn exclusions_name_files_that_exist() {
    assert_eq!(messages::stale_exclusions(root()), [""; 0]);
}
