//! Counts for information, which fail no test: shared type names, questions in docs, long files and functions.

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use crate::layering::root;
use crate::layering::source::{self, SourceFile};

/// Type names that every Rust crate repeats.
const EVERYDAY: &[&str] =
    &["Config", "Event", "Client", "Server", "Connection", "Error", "State", "Kind", "Iter"];

const LONG_FILE: usize = 600;
const LONG_FUNCTION: usize = 70;

/// The name that a line defines as a type.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|w| w.starts_with("pub"));
    matches!(words.next()?, "struct" | "enum" | "trait" | "union").then_some(())?;
    let name = words.next()?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
    name.get(..end).filter(|n| n.starts_with(char::is_uppercase))
}

/// Functions longer than the bound: the line on which they begin, and their length.
fn long_functions(source: &SourceFile) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = source.code.lines().collect();
    let mut found = Vec::new();
    for (begin, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line.trim_start();
        let is_function = head.starts_with("fn ")
            || (head.starts_with("pub") || head.starts_with("async ") || head.starts_with("const "))
                && head.contains(" fn ");
        if !is_function || head.trim_end().ends_with(';') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let length = lines.get(begin..).and_then(|rest| rest.iter().position(|l| l.trim_end() == close));
        if let Some(length) = length.filter(|n| *n > LONG_FUNCTION) {
            found.push((begin + 1, length));
        }
    }
    found
}

#[test]
fn counts_are_printed() {
    let mut text = String::new();
    let folders = [
        "core/src",
        "core/oauth/src",
        "adapters/std/src",
        "adapters/auth/src",
        "core/extensions/src",
        "core/events/src",
        "adapters/runtime/src",
        "adapters/blocking/src",
        "adapters/threads/src",
        "adapters/smol/src",
        "adapters/tokio/src",
        "adapters/tower/src",
        "adapters/telemetry/src",
        "adapters/redis/src",
        "core/proxy/src",
        "core/trace/src",
        "core/sim/src",
        "adapters/mock/src",
        "adapters/check/src",
        "adapters/c/src",
        "adapters/cli/src",
    ];
    for folder in folders {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut questions = 0;
        let sources = source::read(&root().join(folder));
        for source in &sources {
            let written = fs::read_to_string(root().join(folder).join(&source.path)).expect("UTF-8");
            for line in written.lines() {
                if let Some(name) = type_name(line) {
                    *names.entry(name.to_owned()).or_default() += 1;
                }
                let doc = line.trim_start().trim_start_matches("//").trim_start_matches(['/', '!']);
                let is_doc = line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
                let first = doc.split_whitespace().next().unwrap_or_default();
                questions += usize::from(is_doc && matches!(first, "What" | "Who" | "Whose" | "Whom"));
            }
            if source.length > LONG_FILE {
                let _ = writeln!(text, "note: {folder}/{} has {} lines", source.path, source.length);
            }
            for (line, length) in long_functions(source) {
                let _ = writeln!(text, "note: {folder}/{}:{line}: a function of {length} lines", source.path);
            }
        }
        let all: usize = names.values().sum();
        let shared: usize =
            names.iter().filter(|(name, n)| **n > 1 && !EVERYDAY.contains(&&***name)).map(|(_, n)| *n).sum();
        assert!(all > 0, "{folder} has no types");
        let _ = writeln!(
            text,
            "note: {folder}: {shared} of {all} types share their name ({} %), {questions} docs begin with What or Who",
            shared * 100 / all
        );
    }
    // Past the capture of the test harness: it is meant to be seen.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
