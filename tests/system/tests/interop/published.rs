//! Published servers, as their users install them, inspected and checked by `mcp-probe`.
//!
//! `peers/published` has the servers, at exact versions. This command installs them and writes the last section of
//! `tests/INTEROP.md`. What a server does wrong is a result; what a server makes our client do wrong fails the test.
//!
//! ```sh
//! cargo test -p mcp-system-tests --features every-peer --test system -- --ignored published_servers
//! ```

use alloc::collections::BTreeMap;
use core::fmt::Write as _;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::table::page::{PUBLISHED, split_sections};
use super::table::page_file;
use crate::peers::{is_npm_ready, is_venv_ready, peers, probe_client, venv_program};
use crate::run::{ProcessOutput, command, print_line, run};

/// Limit for all that is asked of one server. Some load for ten seconds on a busy machine.
const SERVER_DEADLINE: Duration = Duration::from_secs(180);

const HEAD: &str = "
Servers of others, as npm and PyPI have them, with `mcp-probe inspect` and `mcp-probe check` over stdio. `inspect` passes if
all that the server declares could be read, in its newest revision. `check` compares the server with the specification and calls
no tool. Its errors and warnings are faults of the server, by the names of `mcp-probe check --rules`; the number is that of the
places. `tests/peers/published` has the commands. This command runs all rows and writes this section:

```sh
cargo test -p mcp-system-tests --features every-peer --test system \\
    -- --ignored published_servers
```

| server | version | revision | tools | resources | templates | prompts | inspect | check |
|---|---|---|---|---|---|---|---|---|
";

/// A server of `servers.json`.
struct PublishedServer {
    name: String,
    version: String,
    command: Vec<PathBuf>,
}

fn folder() -> PathBuf {
    peers().join("published")
}

/// Returns the version of a Python package in `requirements.txt`.
fn locked_version<'a>(requirements: &'a str, name: &str) -> Option<&'a str> {
    let version = requirements.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=="))?;
    version.split_whitespace().next()
}

/// Reads the servers. Their arguments name the folder `scratch`.
fn servers(scratch: &Path) -> Vec<PublishedServer> {
    let read = |name: &str| fs::read_to_string(folder().join(name)).expect("a file of this repository");
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).expect("JSON");
    let (rows, packages, requirements) =
        (json("servers.json"), json("package-lock.json"), read("requirements.txt"));
    let row = |row: &Value| {
        let program = row["program"].as_str().expect("a program");
        let (name, version, program) = match (row["npm"].as_str(), row["pypi"].as_str()) {
            (Some(name), None) => {
                let version = packages["packages"][format!("node_modules/{name}")]["version"].as_str();
                (name, version, folder().join("node_modules/.bin").join(program))
            }
            (None, Some(name)) => {
                (name, locked_version(&requirements, name), venv_program(&folder(), program))
            }
            _ => panic!("one registry: {row}"),
        };
        let place = scratch.to_str().expect("UTF-8");
        let arguments = row["arguments"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|argument| PathBuf::from(argument.as_str().expect("a text").replace("{folder}", place)));
        PublishedServer {
            name: name.to_owned(),
            version: version.unwrap_or_else(|| panic!("{name} is not locked")).to_owned(),
            command: [program].into_iter().chain(arguments).collect(),
        }
    };
    rows.as_array().expect("servers").iter().map(row).collect()
}

impl PublishedServer {
    fn probe(&self, scratch: &Path, arguments: &[&str]) -> ProcessOutput {
        let mut client: Command = probe_client();
        client
            .current_dir(scratch)
            .args(arguments)
            .args(["--json", "--timeout", "60", "--"])
            .args(&self.command);
        // A home of its own: no settings of this machine, and nothing that is left in them.
        client.envs(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, scratch)));
        run(client, SERVER_DEADLINE).expect("mcp-probe starts")
    }

    /// Returns the row of the page, or why our client failed.
    fn row(&self, scratch: &Path) -> Result<String, String> {
        let inspected = self.probe(scratch, &["inspect"]);
        let report = serde_json::from_str::<Value>(&inspected.stdout)
            .ok()
            .filter(|_| inspected.succeeded())
            .ok_or_else(|| format!("{}: {inspected}", self.name))?;
        let count = |member: &str| report[member].as_array().map_or(0, Vec::len);
        let checked = self.probe(scratch, &["check"]);
        // It ends with 1 if there are errors; another end has no findings.
        let findings = serde_json::from_str::<Vec<Value>>(&checked.stdout)
            .map_err(|error| format!("{}: {error}: {checked}", self.name))?;
        let mut by_severity: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for finding in &findings {
            let text = |member: &str| finding[member].as_str().expect("a text");
            *by_severity.entry(text("severity")).or_default().entry(text("check")).or_default() += 1;
        }
        let mut parts = Vec::new();
        for severity in ["error", "warning"] {
            let Some(rules) = by_severity.get(severity) else { continue };
            let rules: Vec<String> = rules.iter().map(|(rule, count)| format!("`{rule}` {count}×")).collect();
            parts.push(format!("{severity}s: {}", rules.join(", ")));
        }
        let check = if parts.is_empty() { "pass".to_owned() } else { parts.join("; ") };
        let Self { name, version, .. } = self;
        let (tools, resources) = (count("tools"), count("resources"));
        let (templates, prompts) = (count("resourceTemplates"), count("prompts"));
        Ok(format!(
            "| `{name}` | {version} | {} | {tools} | {resources} | {templates} | {prompts} | pass | {check} |\n",
            report["revision"].as_str().expect("a revision")
        ))
    }
}

/// Returns an empty folder that is a repository of git, which some servers want.
fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let mut git = command(["git", "init", "--quiet"]);
    git.current_dir(&folder);
    run(git, SERVER_DEADLINE).expect("git starts").assert_success();
    folder
}

#[test]
#[ignore = "installs hundreds of packages; writes tests/INTEROP.md"]
fn published_servers_are_inspected_and_checked() {
    let what = "published servers";
    if !is_npm_ready(&folder(), what) || !is_venv_ready(&folder(), what) {
        return;
    }
    let scratch = scratch();
    let (mut section, mut failures) = (format!("{PUBLISHED}{HEAD}"), Vec::new());
    for server in servers(&scratch) {
        match server.row(&scratch) {
            Ok(row) => {
                print_line(&format!("published servers: {}", row.trim_end()));
                section.push_str(&row);
            }
            Err(why) => {
                let PublishedServer { name, version, .. } = &server;
                let _ = writeln!(section, "| `{name}` | {version} | | | | | | FAIL | |");
                failures.push(why);
            }
        }
    }
    let page = fs::read_to_string(page_file()).expect("the page of the table");
    let [table, events, _] = split_sections(&page);
    fs::write(page_file(), format!("{table}{events}{section}")).expect("room for the page");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
