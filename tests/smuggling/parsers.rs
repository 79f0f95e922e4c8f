//! The same inputs through the parsers of others: h11 (Python) and Node's own.
//!
//! Where one of them makes something else of an input than we do, `differences.tsv` says what, and why that is as it
//! should be. A difference that is not listed fails the test, and so does one that has gone.

use alloc::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io, thread};

use mcp_proto::h1::Limits;
use serde_json::Value;

use crate::drive::{Seen, client, read, server};
use crate::table::Row;
use crate::{requests, responses};

/// Peer, row, what the peer makes of it, and why
const DIFFERENCES: &str = include_str!("differences.tsv");

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What an input comes to: complete messages, and whether something was refused
fn verdict(messages: &[String], refused: bool) -> String {
    let end = if refused { "refused" } else { "ok" };
    messages.iter().map(String::as_str).chain([end]).collect::<Vec<_>>().join(" ")
}

/// Every input with its kind and what we make of it
fn inputs() -> Vec<(&'static str, Row, String)> {
    let ours = |seen: Seen| verdict(&seen.messages, seen.fault.is_some());
    let asked = requests::rows().into_iter().map(|row| {
        let ours = ours(read(server(requests::limits()), &[&row.input], false));
        ("request", row, ours)
    });
    let answered = responses::rows().into_iter().map(|row| {
        let ours = ours(read(client(Limits::default(), "GET"), &[&row.input], false));
        ("response", row, ours)
    });
    asked.chain(answered).collect()
}

/// Runs a reader over all inputs, and holds what differs against the list
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
    let said = String::from_utf8(done.stdout).expect("text");
    assert_eq!(
        (said.lines().count(), done.status.success()),
        (inputs.len(), true),
        "one line for each: {said}"
    );

    let listed: BTreeMap<&str, &str> = DIFFERENCES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            assert!(columns.len() == 4 && columns.iter().all(|c| !c.is_empty()), "four columns: {line}");
            (columns[0] == peer).then_some((columns[1], columns[2]))
        })
        .collect();
    let mut found = BTreeMap::new();
    let mut new = Vec::new();
    for ((_, row, ours), said) in inputs.iter().zip(said.lines()) {
        let said: Value = serde_json::from_str(said).expect("JSON");
        let messages: Vec<String> = serde_json::from_value(said["messages"].clone()).expect("messages");
        let theirs = verdict(&messages, said.get("error").is_some());
        if theirs == *ours {
            continue;
        }
        if listed.get(&*row.name) != Some(&&*theirs) {
            new.push(format!("{peer}\t{}\t{theirs}\tours: {ours}; {}", row.name, said["error"]));
        }
        assert!(found.insert(row.name.clone(), theirs).is_none(), "two rows are called {}", row.name);
    }
    let gone: Vec<&&str> = listed.keys().filter(|name| !found.contains_key(**name)).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed:\n{}\nno longer found: {gone:#?}", new.join("\n"));
}

/// Says loudly what was not checked, and in CI fails
fn not_checked(why: &str) {
    let line = format!("NOT CHECKED: {}: {why}", thread::current().name().unwrap_or("a test"));
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
    // Goes around the test harness, which keeps what passing tests print.
    let _ = writeln!(io::stderr(), "{line}");
}

fn succeeds(mut command: Command) -> Result<String, String> {
    let name = format!("{:?}", command.get_program());
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("no {name}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(format!("{name} ended with {}: {}", done.status, text(&done.stderr)))
    }
}

/// Where h11 lies, unpacked
fn h11() -> Result<PathBuf, String> {
    let pinned = package().join("peers/http/requirements.txt");
    let text = fs::read_to_string(&pinned).expect("the pinned package");
    let hash = text.split("sha256:").nth(1).map(str::trim).expect("a hash");
    // By hash: another version is another folder.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("h11-{}", &hash[..16]));
    if folder.join("h11").is_dir() {
        return Ok(folder);
    }
    let fresh = folder.with_extension(std::process::id().to_string());
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(&fresh).arg("--requirement").arg(&pinned);
    succeeds(pip)?;
    // Whole or not at all, also when two runs prepare it at once.
    let _ = fs::rename(&fresh, &folder);
    let _ = fs::remove_dir_all(&fresh);
    if folder.join("h11").is_dir() { Ok(folder) } else { Err("the package holds no h11".into()) }
}

// covers: SEC-018
#[test]
fn h11_differs_only_where_the_list_says() {
    match h11() {
        Err(why) => not_checked(&why),
        Ok(folder) => {
            let mut python = Command::new("python3");
            python.arg(package().join("peers/http/read.py")).env("PYTHONPATH", folder);
            compare("h11", python);
        }
    }
}

// covers: SEC-018
#[test]
fn node_differs_only_where_the_list_says() {
    let mut version = Command::new("node");
    version.arg("--version");
    match succeeds(version) {
        Err(why) => not_checked(&why),
        Ok(version) if !version.starts_with("v20.") => {
            not_checked(&format!("Node 20 is needed, this is {version}"))
        }
        Ok(_) => {
            let mut node = Command::new("node");
            node.arg(package().join("peers/http/read.mjs"));
            compare("node", node);
        }
    }
}
