//! The typed client as programs use it, with everything that SDK servers offer.

use core::time::Duration;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use mcp_blocking::{Client, Program, Stderr};
use mcp_proto::{VersionSet, client};
use serde_json::Value;

use crate::interop::LEGACY;
use crate::interop::steps::StepRunner;
use crate::peers::{is_node_ready, node, peers};
use crate::run::print_line;

/// A small image.
const PICTURE: &[u8] = include_bytes!("../../../../adapters/mock/src/everything/dot.png");

/// Performs the steps of a file with an SDK server.
fn run_steps(server: &str, args: &[OsString], steps: &[Value]) {
    let entry = ["node_modules", "@modelcontextprotocol", server, "dist", "index.js"];
    let entry = entry.iter().fold(node(), |path, part| path.join(part));
    let mut config = client::Config::new("interop", "1").versions(VersionSet::LEGACY);
    // More than the default: these servers start slowly on a busy machine.
    let mut limits = mcp_proto::Limits::default();
    limits.init_timeout = Duration::from_secs(50);
    config = config.limits(limits);
    let program = Program::new("node").arg(entry).args(args).stderr(Stderr::Capture);
    let mut session = StepRunner::new(Client::spawn_with(config, program).expect("a connection"));
    assert_eq!(session.client.peer().version.as_str(), LEGACY);
    session.perform(steps);
    session.client.close().expect("an end");
    print_line(&format!("interop, our typed client, {server}: {} steps, all that it offers", steps.len()));
}

/// Returns the steps of `peers/NAME.json`, with `directory` in place of `$DIR`.
fn client_steps(name: &str, directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(peers().join(format!("{name}.json"))).expect("a file of this repository");
    let directory = serde_json::to_string(directory.to_str().expect("UTF-8")).expect("JSON");
    serde_json::from_str(&text.replace("$DIR", directory.trim_matches('"'))).expect("JSON")
}

// covers: TOOL-005, TOOL-006, TOOL-010, TOOL-013, TOOL-014, TOOL-018, TOOL-022, RES-003, RES-004, RES-005, RES-020
// covers: PROMPT-003, PROMPT-004, PROMPT-006, COMP-002, COMP-003, COMP-004, COMP-006, CONT-001, CONT-003, CONT-004, PROG-007
#[test]
fn typed_client_uses_all_features_of_server_everything() {
    if is_node_ready() {
        run_steps("server-everything", &["stdio".into()], &client_steps("server-everything", Path::new("")));
    }
}

// covers: TOOL-005, TOOL-006, TOOL-010, TOOL-013, TOOL-014, TOOL-022, CONT-001, CONT-003
#[test]
fn typed_client_uses_all_features_of_server_filesystem() {
    if !is_node_ready() {
        return;
    }
    let directory = TempDirectory::new();
    fs::write(directory.0.join("dot.png"), PICTURE).expect("room for a file");
    run_steps(
        "server-filesystem",
        &[directory.0.clone().into()],
        &client_steps("server-filesystem", &directory.0),
    );
}

/// A directory that is removed with the test.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("mcp-interop-files-{}", std::process::id()));
        fs::create_dir_all(&path).expect("room for a directory");
        // The server prints paths without links.
        Self(fs::canonicalize(path).expect("a path"))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
