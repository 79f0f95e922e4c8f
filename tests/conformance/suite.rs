//! The suite as a program: what its sets are made of, running them, and what it wrote

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

use serde_json::Value;

use crate::judge::{Leg, Set};
use crate::peers::{npm_ready, package};
use crate::run::{DEADLINE, run};

/// All scenarios of a leg, one after the other
const SET_DEADLINE: Duration = Duration::from_secs(300);
/// How many scenarios of a client run at once, each of which is a process of the suite and one of ours
const AT_ONCE: usize = 2;

pub(crate) struct Suite {
    node: PathBuf,
    program: PathBuf,
}

impl Suite {
    /// Installs the suite, and the Node that it needs, where they are not there yet.
    pub(crate) fn new() -> Option<Self> {
        let dir = package().join("peers").join("conformance");
        if !npm_ready(&dir, "the official conformance suite") {
            return None;
        }
        let modules = dir.join("node_modules");
        let program = ["@modelcontextprotocol", "conformance", "dist", "index.js"];
        let program = program.iter().fold(modules.clone(), |path, part| path.join(part));
        let own = fs::read_dir(&modules).into_iter().flatten().flatten().map(|entry| entry.path());
        let own = own.map(|path| path.join("bin").join("node")).find(|path| path.exists());
        // Where there is none in the lock file the one of this machine has to be new enough.
        Some(Self { node: own.unwrap_or_else(|| "node".into()), program })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.program).args(words);
        command
    }

    /// The names of a set: all that its requirements name, or all that there is in an older revision.
    pub(crate) fn scenarios(&self, set: Set) -> Vec<String> {
        let words = match is_required(set.revision) {
            true => vec!["list", "--requirements", set.revision],
            false => {
                let leg = if set.leg == Leg::Server { "--server" } else { "--client" };
                vec!["list", leg, "--spec-version", set.revision]
            }
        };
        let listed = run(self.command(&words), DEADLINE).expect("node runs").ok();
        names(set.leg, &listed.stdout)
    }

    /// Runs all scenarios of a set on a server.
    pub(crate) fn run_server(&self, set: Set, url: &str, out: &Path) {
        let to = out.to_str().expect("a path in UTF-8");
        let mut words = vec!["server", "--url", url, "-o", to];
        match is_required(set.revision) {
            true => words.extend(["--requirements", set.revision]),
            false => words.extend(["--suite", "all", "--spec-version", set.revision]),
        }
        // Its own verdict is laxer than ours in everything, and scores what is left out here.
        let _ = run(self.command(&words), SET_DEADLINE).expect("node runs");
    }

    /// Runs some scenarios on a client, each by itself; what its exit codes have to say against it.
    ///
    /// By itself, since only then the suite looks at how the client ends.
    pub(crate) fn run_client(&self, set: Set, client: &str, names: &[String], out: &Path) -> Vec<String> {
        let left = Mutex::new(names.iter());
        let complaints = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let next = left.lock().expect("no panic under this lock").next();
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
                            let line = format!("{set} {name}: the suite is not content:\n{done}");
                            complaints.lock().expect("no panic under this lock").push(line);
                        }
                    }
                });
            }
        });
        complaints.into_inner().expect("no panic under this lock")
    }
}

/// Whether the suite has requirements for it
fn is_required(revision: &str) -> bool {
    matches!(revision, "2025-11-25" | "2026-07-28")
}

/// The scenarios of a leg in what `list` prints
fn names(leg: Leg, listed: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut section = None;
    for line in listed.lines() {
        section = match line.split(' ').next() {
            Some("Server") => Some(Some(Leg::Server)),
            Some("Client") => Some(Some(Leg::Client)),
            // Not scored, and of both legs.
            Some("Run") => Some(None),
            _ => section,
        };
        let Some(entry) = line.trim_start().strip_prefix("- ") else { continue };
        let (name, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        let is_mine = match section {
            Some(Some(of)) => of == leg,
            Some(None) => rest == format!("[{}]", leg.as_str()),
            None => false,
        };
        if is_mine {
            names.push(name.to_owned());
        }
    }
    names
}

/// What the suite wrote of each scenario: a folder each, named after it and the time, with a slash where the name has one
pub(crate) fn results(leg: Leg, out: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![(out.to_path_buf(), String::new())];
    while let Some((dir, name)) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                let name = if name.is_empty() { file } else { format!("{name}/{file}") };
                dirs.push((entry.path(), name));
            } else if file == "checks.json" {
                let checks = fs::read(entry.path()).expect("a file of the suite's");
                let checks = serde_json::from_slice(&checks).expect("JSON");
                all.insert(scenario(leg, &name).to_owned(), checks);
            }
        }
    }
    all
}

fn scenario(leg: Leg, folder: &str) -> &str {
    let folder = if leg == Leg::Server { folder.strip_prefix("server-").unwrap_or(folder) } else { folder };
    // -2026-11-20T18-12-32-908Z
    folder.len().checked_sub(25).and_then(|end| folder.get(..end)).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_kinds_of_lists() {
        let required = "Required for 2025-11-25 (3 scenarios)\n\nServer scenarios (test against a server):\n  - ping\n\
            \x20 - tools-list\n\nClient scenarios (test against a client):\n  - initialize\n\n\
            Run and reported, but never scored:\n  pending (2):\n    - server-sse-polling [server]\n    - x [client]\n";
        assert_eq!(names(Leg::Server, required), ["ping", "tools-list", "server-sse-polling"]);
        assert_eq!(names(Leg::Client, required), ["initialize", "x"]);
        let applicable = "Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n";
        assert_eq!(names(Leg::Server, applicable), ["ping"]);
        assert_eq!(names(Leg::Client, applicable), [""; 0]);
    }

    #[test]
    fn scenarios_are_found_in_names_of_folders() {
        assert_eq!(
            scenario(Leg::Server, "server-server-initialize-2026-11-20T18-12-32-908Z"),
            "server-initialize"
        );
        assert_eq!(scenario(Leg::Client, "auth/dpop-2026-11-20T18-12-32-908Z"), "auth/dpop");
    }
}
