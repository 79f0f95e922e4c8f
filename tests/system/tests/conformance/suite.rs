//! The suite as a program: its list of scenarios, its runs, and its results.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

use serde_json::Value;

use super::evaluation::{ScenarioSet, SuiteRole};
use crate::node::locked_node;
use crate::peers::{is_npm_ready, peers};
use crate::run::{DEADLINE, run};

/// Limit for all scenarios of a set, which run one after the other.
const SET_DEADLINE: Duration = Duration::from_secs(300);
/// Number of client scenarios that run at once. Each is one process of the suite and one of ours.
const MAX_CONCURRENT: usize = 2;

pub(crate) struct ConformanceSuite {
    node: PathBuf,
    program: PathBuf,
}

impl ConformanceSuite {
    /// Installs the suite and the Node version that it needs, unless they are installed.
    pub(crate) fn new() -> Option<Self> {
        let dir = peers().join("conformance");
        if !is_npm_ready(&dir, "the official conformance suite") {
            return None;
        }
        let modules = dir.join("node_modules");
        let program = ["@modelcontextprotocol", "conformance", "dist", "index.js"];
        let program = program.iter().fold(modules.clone(), |path, part| path.join(part));
        Some(Self { node: locked_node(&modules), program })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.program).args(words);
        command
    }

    /// Returns the scenarios of a set: those that its requirements name, or in an older revision all.
    pub(crate) fn scenarios(&self, set: ScenarioSet) -> Vec<String> {
        let words = match is_required(set.revision) {
            true => vec!["list", "--requirements", set.revision],
            false => {
                let option = if set.role == SuiteRole::Server { "--server" } else { "--client" };
                vec!["list", option, "--spec-version", set.revision]
            }
        };
        let listed = run(self.command(&words), DEADLINE).expect("node runs").assert_success();
        names(set.role, &listed.stdout)
    }

    /// Runs all scenarios of a set with a server.
    pub(crate) fn run_server(&self, set: ScenarioSet, url: &str, out: &Path) {
        let to = out.to_str().expect("a path in UTF-8");
        let mut words = vec!["server", "--url", url, "-o", to];
        match is_required(set.revision) {
            true => words.extend(["--requirements", set.revision]),
            false => words.extend(["--suite", "all", "--spec-version", set.revision]),
        }
        // The exit code is ignored: our evaluation is stricter, and the suite also counts excluded scenarios.
        let _ = run(self.command(&words), SET_DEADLINE).expect("node runs");
    }

    /// Runs some scenarios with a server, one after the other, and returns the failures that the exit codes report.
    pub(crate) fn run_server_scenarios(
        &self,
        set: ScenarioSet,
        url: &str,
        names: &[String],
        out: &Path,
    ) -> Vec<String> {
        let to = out.to_str().expect("a path in UTF-8");
        let mut failures = Vec::new();
        for name in names {
            let words = [
                "server",
                "--url",
                url,
                "--scenario",
                name,
                "--spec-version",
                set.revision,
                "--force",
                "-o",
                to,
            ];
            let done = run(self.command(&words), DEADLINE).expect("node runs");
            if !done.succeeded() {
                failures.push(format!("{set} {name}: the suite reports a failure:\n{done}"));
            }
        }
        failures
    }

    /// Runs some scenarios with a client, each in a run of its own, and returns the failures that the exit codes
    /// report.
    ///
    /// The suite checks how the client exits only in a run of one scenario.
    pub(crate) fn run_client(
        &self,
        set: ScenarioSet,
        client: &str,
        names: &[String],
        out: &Path,
    ) -> Vec<String> {
        let queue = Mutex::new(names.iter());
        let failures = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..MAX_CONCURRENT {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().expect("no panic under this lock").next();
                        let Some(name) = next else { break };
                        let to = out.to_str().expect("a path in UTF-8");
                        let words = [
                            "client",
                            "--command",
                            client,
                            "--scenario",
                            name,
                            "--spec-version",
                            set.revision,
                            "--force",
                            "-o",
                            to,
                        ];
                        let done = run(self.command(&words), DEADLINE).expect("node runs");
                        if !done.succeeded() {
                            let line = format!("{set} {name}: the suite reports a failure:\n{done}");
                            failures.lock().expect("no panic under this lock").push(line);
                        }
                    }
                });
            }
        });
        failures.into_inner().expect("no panic under this lock")
    }
}

/// Returns whether the suite has requirements for a revision.
fn is_required(revision: &str) -> bool {
    matches!(revision, "2025-11-25" | "2026-07-28")
}

/// Returns the scenarios of one side in the output of `list`.
fn names(role: SuiteRole, listed: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut section = None;
    for line in listed.lines() {
        section = match line.split(' ').next() {
            Some("Server") => Some(Some(SuiteRole::Server)),
            Some("Client") => Some(Some(SuiteRole::Client)),
            // Neither scored nor bound to one side.
            Some("Run") => Some(None),
            _ => section,
        };
        let Some(entry) = line.trim_start().strip_prefix("- ") else { continue };
        let (name, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        let is_mine = match section {
            Some(Some(of)) => of == role,
            Some(None) => rest == format!("[{}]", role.as_str()),
            None => false,
        };
        if is_mine {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the checks that the suite wrote for each scenario. A scenario has a folder of its name and the time, nested
/// if the name has a slash.
pub(crate) fn results(role: SuiteRole, out: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![(out.to_path_buf(), String::new())];
    while let Some((dir, name)) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                let name = if name.is_empty() { file } else { format!("{name}/{file}") };
                dirs.push((entry.path(), name));
            } else if file == "checks.json" {
                let checks = fs::read(entry.path()).expect("a file of the suite");
                let checks = serde_json::from_slice(&checks).expect("JSON");
                all.insert(scenario(role, &name).to_owned(), checks);
            }
        }
    }
    all
}

fn scenario(role: SuiteRole, folder: &str) -> &str {
    let folder =
        if role == SuiteRole::Server { folder.strip_prefix("server-").unwrap_or(folder) } else { folder };
    // Example: -2026-11-20T18-12-32-908Z
    folder.len().checked_sub(25).and_then(|end| folder.get(..end)).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_from_both_forms_of_lists() {
        let required = "Required for 2025-11-25 (3 scenarios)\n\nServer scenarios (test against a server):\n  - ping\n\
            \x20 - tools-list\n\nClient scenarios (test against a client):\n  - initialize\n\n\
            Run and reported, but never scored:\n  pending (2):\n    - server-sse-polling [server]\n    - x [client]\n";
        assert_eq!(names(SuiteRole::Server, required), ["ping", "tools-list", "server-sse-polling"]);
        assert_eq!(names(SuiteRole::Client, required), ["initialize", "x"]);
        let applicable = "Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n";
        assert_eq!(names(SuiteRole::Server, applicable), ["ping"]);
        assert_eq!(names(SuiteRole::Client, applicable), [""; 0]);
    }

    #[test]
    fn scenario_is_parsed_from_folder_name() {
        assert_eq!(
            scenario(SuiteRole::Server, "server-server-initialize-2026-11-20T18-12-32-908Z"),
            "server-initialize"
        );
        assert_eq!(scenario(SuiteRole::Client, "auth/dpop-2026-11-20T18-12-32-908Z"), "auth/dpop");
    }
}
