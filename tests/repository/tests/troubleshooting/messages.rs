//! Messages in the source: string literals that reach a person, in the forms of errors, refusals and notes.

use alloc::collections::BTreeMap;
use std::path::Path;

use crate::layering::source::{self, SourceFile};

/// A message as a page shows it, with the places of the source that hold it.
pub(crate) type Messages = BTreeMap<String, Vec<String>>;

/// Folders of source, below the workspace.
const FOLDERS: &[&str] = &[
    "core/src",
    "adapters/auth/src",
    "adapters/blocking/src",
    "adapters/c/src",
    "adapters/check/src",
    "adapters/cli/src",
    "adapters/embedded/src",
    "adapters/mock/src",
    "core/events/src",
    "core/extensions/src",
    "core/oauth/src",
    "core/proxy/src",
    "adapters/redis/src",
    "adapters/runtime/src",
    "adapters/smol/src",
    "adapters/std/src",
    "adapters/telemetry/src",
    "adapters/threads/src",
    "adapters/tokio/src",
    "adapters/tower/src",
    "core/trace/src",
];

/// The one file of `check` whose messages are no findings.
const CHECK_TOKEN: &str = "adapters/cli/src/check/token.rs";

/// Beginnings of paths whose literals are no messages of failures, with the reason.
const EXCLUDED: &[(&str, &str)] = &[
    ("adapters/cli/src/answer/dialogue.rs", "questions to the user"),
    ("adapters/cli/src/answer/field.rs", "hints within these questions"),
    ("adapters/cli/src/answer/url.rs", "warnings within these questions"),
    ("adapters/cli/src/args.rs", "usage lines"),
    ("adapters/cli/src/bench/report.rs", "a description of a measurement"),
    ("adapters/cli/src/bench/tally.rs", "kinds of failures in that description"),
    ("adapters/check/src/check/", "findings, which name their rule; `check --rules` lists them"),
    ("adapters/cli/src/check/", "a description of findings; how it fails is prose of the page"),
    ("adapters/cli/src/command/help.rs", "headings of `--help`"),
    ("adapters/cli/src/demo/", "a tour; how it fails is prose of the page"),
    (
        "adapters/check/src/diagnosis/",
        "findings, each with its cause and remedy; what it looks at is prose of the page",
    ),
    (
        "adapters/cli/src/doctor/",
        "findings, each with its cause and remedy; what it looks at is prose of the page",
    ),
    ("adapters/check/src/document.rs", "reasons within findings of `check` and `doctor`"),
    ("adapters/cli/src/entries.rs", "a description of a server"),
    ("adapters/check/src/exchange.rs", "reasons within findings of `check` and `doctor`"),
    ("adapters/cli/src/generate/functions.rs", "source code that is written"),
    ("adapters/cli/src/generate/layout.rs", "source code that is written"),
    ("adapters/cli/src/generate/types.rs", "source code that is written, with comments"),
    ("adapters/cli/src/inspect/", "a description of a server"),
    ("adapters/check/src/junit.rs", "a report in XML"),
    ("adapters/cli/src/mcp/definitions.rs", "content of the server for agents"),
    ("adapters/cli/src/serve/card.rs", "content of the demo server"),
    ("adapters/cli/src/serve/logged_router.rs", "content of the demo server"),
    ("adapters/mock/src/chaos/filter.rs", "what is sent to clients in place of messages, and notes of it"),
    ("adapters/mock/src/chaos/kind.rs", "the list of `serve --list`"),
    ("adapters/mock/src/demonstration.rs", "content of the demo server"),
    ("adapters/mock/src/everything/", "content of the demo server"),
    ("adapters/mock/src/tools/", "content of the demo server"),
    (
        "adapters/check/src/hints/start_fault.rs",
        "reasons of `doctor` and of hints, each with its cause and remedy",
    ),
    ("adapters/cli/src/suite/report.rs", "a description of the run of a test file"),
    ("adapters/check/src/hints/tls_causes.rs", "causes of messages of `mcp-std` and their remedies"),
    ("adapters/cli/src/tokens/report.rs", "a description of stored tokens"),
    ("adapters/cli/src/trace_views/diff.rs", "a description of two traces"),
    ("core/trace/src/views/diff.rs", "a description of two traces"),
    ("core/trace/src/views/html.rs", "a page, with notes in it about what it leaves out"),
    ("adapters/cli/src/trace_views/show.rs", "a description of a trace"),
    ("adapters/auth/src/folder_in_tests.rs", "tests"),
    ("adapters/auth/src/fuzz_tests.rs", "tests"),
    ("core/events/src/delivery/simulation.rs", "tests"),
    ("core/events/src/fuzz_tests.rs", "tests"),
    ("core/events/src/fuzzing.rs", "checks of a fuzz target"),
    ("core/extensions/src/folder_in_tests.rs", "tests"),
    ("core/oauth/src/extent.rs", "tests"),
    ("core/extensions/src/fuzz_tests.rs", "tests"),
    ("core/extensions/src/skills/message_tests.rs", "tests"),
    ("adapters/std/src/folder_in_tests.rs", "tests"),
    ("adapters/std/src/fuzz_tests.rs", "tests"),
    ("adapters/telemetry/src/metrics.rs", "descriptions of metrics"),
    ("adapters/std/src/process/guard.rs", "a script"),
    ("adapters/std/src/testing/", "checks of an adapter, whose messages are those of a failed test"),
    ("core/src/h1/server.rs", "reason phrases of HTTP"),
    ("core/src/model/test_support.rs", "tests"),
    ("core/src/testing", "tests"),
    ("core/src/time.rs", "reasons of deadlines, for logs"),
    ("core/trace/src/engine/mod.rs", "source code that is written"),
    ("core/trace/src/secrets.rs", "words and forms of secrets, and kinds of them within findings of `check`"),
];

/// Prefixes of literals that are no message, or that only a defect of this library shows.
const NO_MESSAGE: &[&str] = &[
    // Texts of `--help`.
    "HELP: &str =",
    ".expect(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".contains(",
    ".starts_with(",
    ".ends_with(",
    "panic!(",
    "unreachable!(",
    "compile_error!(",
    "include_str!(",
];

/// Beginnings of literals that are no prose: names, keys, and parts of HTTP.
const NO_PROSE: &[&str] = &[
    "$never::",
    "/",
    "<!DOCTYPE ",
    "Accept, ",
    "Application Support",
    "Basic ",
    "Bearer ",
    "Connection: ",
    "Content-Length: ",
    "Content-Type, ",
    "DPoP-Nonce, ",
    "GET, HEAD",
    "HTTP/1.1 ",
    "POST, DELETE",
    "POST, GET",
    "Transfer-Encoding: ",
    "application/json, ",
    "default-src ",
    "mcp stream",
    "mcp-proto ",
    "mcp-std ",
    "public, max-age",
    "text/html; ",
];

/// Literals that are keys of stored records and names of principals.
const KEYS: &[&str] = &["client …", "token …"];

/// Returns all messages of the workspace.
pub(crate) fn read(root: &Path) -> Messages {
    let mut messages = Messages::new();
    for folder in FOLDERS {
        for file in source::read(&root.join(folder)) {
            let path = format!("{folder}/{}", file.path);
            let is_excluded = EXCLUDED.iter().any(|(excluded, _)| path.starts_with(excluded));
            if source::is_test_file(&path) || (is_excluded && path != CHECK_TOKEN) {
                continue;
            }
            for (line, text) in of_file(&file) {
                messages.entry(text).or_default().push(format!("{path}:{line}"));
            }
        }
    }
    messages
}

/// Returns the entries of [`EXCLUDED`] that exclude nothing.
pub(crate) fn stale_exclusions(root: &Path) -> Vec<&'static str> {
    EXCLUDED.iter().map(|(path, _)| *path).filter(|path| !root.join(path).exists()).collect()
}

/// Returns the messages of one file with their lines.
pub(crate) fn of_file(file: &SourceFile) -> Vec<(usize, String)> {
    let attributes = attributes(&file.code);
    let mut found = Vec::new();
    for (&at, (line, text)) in file.positions.iter().zip(&file.strings) {
        let before = file.code[..at].trim_end();
        let attribute = attributes.iter().find(|(from, to)| (*from..*to).contains(&at));
        let text = shown(text);
        let is_message = match attribute {
            // The format of an error may be one word; what is put into it has to be prose.
            Some(_) if before.ends_with("#[error(") => has_words(&text, 1),
            Some((from, _)) if file.code[*from..].starts_with("#[error(") => has_words(&text, 2),
            Some(_) => false,
            None if NO_MESSAGE.iter().any(|end| before.ends_with(end)) => false,
            None if NO_PROSE.iter().any(|beginning| text.starts_with(beginning)) => false,
            None if KEYS.contains(&&*text) => false,
            None if is_assertion(before) => false,
            None => has_words(&text, 2),
        };
        if is_message {
            found.push((*line, text));
        }
    }
    found
}

/// Returns the text of a literal as a page shows it: `…` for each placeholder, on one line.
pub(crate) fn shown(literal: &str) -> String {
    let mut text = String::new();
    let mut chars = literal.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                // The line goes on after the indentation.
                Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n' | 'r' | 't') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            '\n' => text.push(' '),
            '{' if chars.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => text.push('}'),
            '{' if is_placeholder(chars.clone()) => {
                chars.by_ref().take_while(|c| *c != '}').for_each(drop);
                text.push('…');
            }
            c => text.push(c),
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a brace was opened for a placeholder. A literal that is no format may contain braces.
fn is_placeholder(mut rest: impl Iterator<Item = char>) -> bool {
    let is_part = |c: &char| c.is_alphanumeric() || "_.:?#$*<>^+-".contains(*c);
    rest.find(|c| !is_part(c)) == Some('}')
}

/// Returns whether the text has so many words, placeholders included, and a letter beside them.
fn has_words(text: &str, least: usize) -> bool {
    let is_word = |word: &&str| word.contains(|c: char| c.is_alphabetic() || c == '…');
    text.split(' ').filter(is_word).count() >= least && text.contains(char::is_alphabetic)
}

/// Returns the ranges of attributes.
fn attributes(code: &str) -> Vec<(usize, usize)> {
    let starts = code.match_indices("#[").chain(code.match_indices("#!["));
    starts.map(|(at, _)| (at, at + closing(&code[at..], '[', ']'))).collect()
}

/// Returns the position after the bracket that closes the first one.
fn closing(code: &str, open: char, close: char) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    code.len()
}

/// Returns whether the code ends within an assertion.
fn is_assertion(before: &str) -> bool {
    let Some(at) = before.rfind("assert!(").max(before.rfind("assert_eq!(")) else { return false };
    let mut depth = 0usize;
    // Open for as long as the first parenthesis is.
    !before[at..].chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return false,
        }
        depth == 0
    })
}

#[test]
fn messages_are_found_where_a_person_may_meet_them() {
    let file = SourceFile::new(
        "x.rs",
        r##"
#[error("`{name}` is \"bad\"")]
#[expect(dead_code, reason = "not a message at all")]
fn f() -> Result<(), String> {
    debug_assert!(a, "not a message either");
    assert!(match a { B { .. } => f(c) }, "not a message either");
    open().expect("never a message to anyone");
    Err(format!("the file {path:?} \
                 is {{gone}}"))
}
const NAME: &str = "name";
impl fmt::Display for X { fn fmt() { f.write_str("two words") } }
#[cfg(test)]
mod tests { const A: &str = "one two three"; }
"##,
    );
    let found: Vec<String> = of_file(&file).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["`…` is \"bad\"", "the file … is {gone}", "two words"]);
}
