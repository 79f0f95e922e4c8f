//! Helpers that the tests of all adapters share: deadlines, configurations, messages and example programs.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

use alloc::sync::Arc;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use mcp_proto::model::CallToolResult;
use mcp_proto::{Capabilities, Capability, Era, RawJson, VersionSet, client, server};

/// Deadline of a whole test and of each of its waits. Test machines are slow, so only a test that hangs reaches it.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Frames of a legacy client that open its session.
pub const INITIALIZE: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
                           \"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n\
                           {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

/// Returns the frame of a tool call. Its progress token equals its id.
pub fn call_line(id: u32, tool: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"_meta\":{{\"progressToken\":{id}}}}}}}\n"
    )
}

/// Returns the frame that cancels request `id`.
pub fn cancel_line(id: u32) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
    )
}

/// Returns the request ids of the responses in `written`, in order.
pub fn response_ids(written: &str) -> Vec<i64> {
    let ids =
        written.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64());
    ids.flatten().collect()
}

pub fn server_config() -> server::Config {
    server::Config::new("test", "1")
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::Resources))
}

pub fn client_config(versions: VersionSet) -> client::Config {
    client::Config::new("test", "1").versions(versions)
}

pub fn version_set(era: Era) -> VersionSet {
    VersionSet::ALL.era(era)
}

pub fn text(result: &CallToolResult<'_>) -> String {
    result.content[0].as_text().expect("text").to_owned()
}

/// Returns the text of an encoded [`CallToolResult`].
pub fn raw_text(result: &RawJson) -> String {
    text(&result.parse().expect("the result of a tool"))
}

/// Lines that the handlers of a test record. Clones share them.
#[derive(Clone, Default)]
pub struct NoteLog(Arc<Mutex<Vec<String>>>);

impl NoteLog {
    pub fn record(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs `f` on a thread.
///
/// # Panics
///
/// Panics if `f` panics or does not return within [`DEADLINE`].
pub fn with_timeout<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || drop(tx.send(f())));
    match rx.recv_timeout(DEADLINE) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test exceeds its deadline"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!(),
        },
    }
}

/// Returns the path of an example program of the tested package or of `mcp-blocking`.
///
/// Cargo builds examples together with all tests, but not for a selection of them, and not those of another package: then
/// this function builds them.
pub fn example(name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let test = std::env::current_exe().expect("the path of the test program");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/profile/deps");
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if is_current(&path) {
        return path;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--locked", "-p", env!("CARGO_PKG_NAME"), "-p", "mcp-blocking", "--examples"])
        .env("CARGO_TARGET_DIR", profile.parent().expect("the target directory"));
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => _ = build.args(["--profile", name]),
    }
    assert!(build.status().expect("cargo starts").success(), "cargo cannot build the examples");
    assert!(path.exists(), "cargo built the examples, but not at {}", path.display());
    path
}

/// Returns whether a program exists and is not older than its sources, which cargo lists beside it.
fn is_current(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let Ok(listed) = std::fs::read_to_string(program.with_extension("d")) else { return false };
    let Some((_, sources)) = listed.trim_end().split_once(": ") else { return false };
    // A space in a path has a backslash before it.
    let sources = sources.replace("\\ ", "\0");
    let is_older = |source: &str| {
        let source = modified(Path::new(&source.replace('\0', " ")));
        source.is_some() && source <= modified(program)
    };
    sources.split(' ').all(is_older)
}
