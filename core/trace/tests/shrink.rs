//! A bug that was planted in a recorded session is reduced to a test, which compiles.

use std::fs;
use std::path::Path;

use mcp_proto_trace::engine::{replay, rust_test};
use mcp_proto_trace::{Content, Line, Side, Text, Trace, shrink};

/// The test that the shrinker wrote. It fails as long as the server has the bug.
mod shrunk;

/// Returns a session of 110 messages in which a server has answered one call with its id as a string.
fn session_with_bug() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/typescript-1.ndjson");
    let mut trace = Trace::read(&*fs::read(path).expect("a file"), u64::MAX).expect("a trace");
    let mut responses = trace.records.iter_mut().filter(|record| record.from == Side::Server);
    let content = responses.find_map(|record| match &mut record.content {
        Content::Line(line) if line.text.to_string().contains(r#""id":7"#) => Some(line),
        _ => None,
    });
    let line = content.expect("a response");
    *line = Line::new(Text::new(line.text.to_string().replace(r#""id":7"#, r#""id":"7""#).as_bytes()));
    trace
}

#[test]
fn planted_bug_is_reduced_to_a_test_of_a_few_lines() {
    let trace = session_with_bug();
    assert!(trace.records.len() > 100, "{}", trace.records.len());
    let planted = replay(&trace, Side::Server).differences.remove(0);
    let small = shrink(&trace, 20_000, |trace| {
        replay(trace, Side::Server).difference().is_some_and(|found| planted.is_like(found))
    });
    let text = rust_test(&small, Side::Server);
    assert!(text.lines().count() <= 30 && text.len() < 2_000, "{text}");

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shrunk/mod.rs");
    // The bug is still there.
    let text = format!("// Written by `UPDATE_SHRUNK=1 cargo test -p mcp-proto-trace`.\n\n{text}")
        .replace("#[test]\n", "#[test]\n#[should_panic(expected = \"which is not\")]\n");
    if std::env::var_os("UPDATE_SHRUNK").is_some() {
        fs::write(&path, &text).expect("a file");
    }
    let committed = fs::read_to_string(path).expect("the test");
    assert_eq!(committed, text, "UPDATE_SHRUNK=1 writes it again");
}
