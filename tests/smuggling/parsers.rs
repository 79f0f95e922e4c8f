//! The same inputs through other parsers: h11 (Python) and that of Node.
//!
//! `differences.tsv` lists the inputs that another parser reads in another way, with the reason. A difference that is
//! not listed fails the test, and so does a listed one that no longer occurs.

use alloc::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io, thread};

use mcp_proto::h1::HttpLimits;
use serde_json::Value;

use crate::smuggling::drive::{ReadOutcome, client, read, server};
use crate::smuggling::h11::{run_command, unpack_h11};
use crate::smuggling::table::ParseCase;
use crate::smuggling::{requests, responses};

/// Parser, row, its result, and the reason of the difference.
const DIFFERENCES: &str = include_str!("differences.tsv");

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the result of an input: complete messages, and whether something was refused.
fn describe_result(messages: &[String], refused: bool) -> String {
    let end = if refused { "refused" } else { "ok" };
    messages.iter().map(String::as_str).chain([end]).collect::<Vec<_>>().join(" ")
}

/// Returns every input with its kind and our result.
fn inputs() -> Vec<(&'static str, ParseCase, String)> {
    let own_result = |seen: ReadOutcome| describe_result(&seen.messages, seen.fault.is_some());
    let request_cases = requests::cases().into_iter().map(|row| {
        let own_result = own_result(read(server(requests::limits()), &[&row.input], false));
        ("request", row, own_result)
    });
    let response_cases = responses::cases().into_iter().map(|row| {
        let own_result = own_result(read(client(HttpLimits::default(), "GET"), &[&row.input], false));
        ("response", row, own_result)
    });
    request_cases.chain(response_cases).collect()
}

/// Runs a reader over all inputs and compares the differences with the list.
fn compare(peer: &str, mut reader: Command) {
    let inputs = inputs();
    let mut child = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the reader starts");
    let mut stdin = child.stdin.take().expect("its input");
    let lines: Vec<String> = inputs
        .iter()
        .map(|(kind, row, _)| {
            let hex: String = row.input.iter().map(|b| format!("{b:02x}")).collect();
            format!("{kind} {hex}\n")
        })
        .collect();
    let feed = thread::spawn(move || lines.iter().try_for_each(|line| stdin.write_all(line.as_bytes())));
    let done = child.wait_with_output().expect("the reader ends");
    feed.join().expect("a thread").expect("the reader reads");
    let output = String::from_utf8(done.stdout).expect("text");
    assert_eq!(
        (output.lines().count(), done.status.success()),
        (inputs.len(), true),
        "expected one line per input: {output}"
    );

    let listed: BTreeMap<&str, &str> = DIFFERENCES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            assert!(
                columns.len() == 4 && columns.iter().all(|c| !c.is_empty()),
                "expected four columns: {line}"
            );
            (columns[0] == peer).then_some((columns[1], columns[2]))
        })
        .collect();
    let mut found = BTreeMap::new();
    let mut new = Vec::new();
    for ((_, row, own_result), output) in inputs.iter().zip(output.lines()) {
        let output: Value = serde_json::from_str(output).expect("JSON");
        let messages: Vec<String> = serde_json::from_value(output["messages"].clone()).expect("messages");
        let other_result = describe_result(&messages, output.get("error").is_some());
        if other_result == *own_result {
            continue;
        }
        if listed.get(&*row.name) != Some(&&*other_result) {
            new.push(format!(
                "{peer}\t{}\t{other_result}\tours: {own_result}; {}",
                row.name, output["error"]
            ));
        }
        assert!(
            found.insert(row.name.clone(), other_result).is_none(),
            "two rows have the name {}",
            row.name
        );
    }
    let gone: Vec<&&str> = listed.keys().filter(|name| !found.contains_key(**name)).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed:\n{}\nno longer found: {gone:#?}", new.join("\n"));
}

/// Prints a warning about a skipped test, and fails if `CI` is `true`.
fn report_skipped(reason: &str) {
    let line = format!("NOT CHECKED: {}: {reason}", thread::current().name().unwrap_or("a test"));
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
    // Bypasses the test harness, which captures what passing tests print.
    let _ = writeln!(io::stderr(), "{line}");
}

// covers: SEC-018
#[test]
fn h11_differs_only_as_listed() {
    match unpack_h11(package()) {
        Err(reason) => report_skipped(&reason),
        Ok(folder) => {
            let mut python = Command::new("python3");
            python.arg(package().join("peers/http/read.py")).env("PYTHONPATH", folder);
            compare("h11", python);
        }
    }
}

// covers: SEC-018
#[test]
fn node_differs_only_as_listed() {
    let mut version = Command::new("node");
    version.arg("--version");
    match run_command(version) {
        Err(reason) => report_skipped(&reason),
        Ok(version) if !version.starts_with("v20.") => {
            report_skipped(&format!("Node 20 is needed, this is {version}"))
        }
        Ok(_) => {
            let mut node = Command::new("node");
            node.arg(package().join("peers/http/read.mjs"));
            compare("node", node);
        }
    }
}
