//! The official conformance suite with our server and our client, without exceptions other than those listed here.

extern crate alloc;

mod evaluation;
#[path = "../interop/hosted_server.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod hosted_server;
mod node;
#[path = "../interop/peers.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod peers;
#[path = "../interop/run.rs"]
#[expect(dead_code, reason = "only the interop tests use the rest")]
mod run;
mod suite;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use evaluation::{CheckException, Evaluation, ScenarioExclusion, ScenarioSet, SuiteRole};
use hosted_server::HostedServer;
use mcp_tests::adapters::AdapterKind;
use run::print_line;
use suite::ConformanceSuite;

/// Scenarios of features outside this workspace, and one that checks nothing.
const EXCLUSIONS: &[ScenarioExclusion] = &[
    ScenarioExclusion { prefix: "tasks-status-notifications", except: &[], reason: "it has no checks" },
    ScenarioExclusion { prefix: "sep-2640-", except: &[], reason: "they are in no set, but in `SKILLS`" },
];

/// Checks that may be without result. An exception that is not needed fails the test.
const EXCEPTIONS: &[CheckException] = &[
    CheckException { message: "did not send a initialize request", ..NO_HANDSHAKE },
    CheckException { message: "did not send a notifications/initialized request", ..NO_HANDSHAKE },
    NO_STREAM,
];

/// A list needs no stream and is answered as JSON. Other scenarios check streams.
const NO_STREAM: CheckException = CheckException {
    role: SuiteRole::Server,
    revisions: &["2025-11-25", "2026-07-28"],
    scenario: "server-sse-multiple-streams",
    check: "server-sse-streams-functional",
    message: "JSON responses",
    reason: "a list is answered as JSON",
};

const NO_HANDSHAKE: CheckException = CheckException {
    role: SuiteRole::Client,
    revisions: &["2026-07-28"],
    scenario: "http-standard-headers",
    check: "sep-2243-client-includes-standard-headers",
    message: "",
    reason: "the revision has no handshake",
};

/// Returns the only revision that an adapter is tested with, or `None` for the adapter tested with all.
const fn pinned_revision(runtime: AdapterKind) -> Option<&'static str> {
    match runtime {
        AdapterKind::Blocking => None,
        AdapterKind::Threads => Some("2026-07-28"),
        AdapterKind::Smol => Some("2025-11-25"),
        AdapterKind::Tokio => Some("2026-07-28"),
    }
}

/// Number of scenarios per set, so that a list that was parsed wrongly does not pass.
const SETS: &[(ScenarioSet, usize)] = &[
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-03-26" }, 1),
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-06-18" }, 27),
    (ScenarioSet { role: SuiteRole::Server, revision: "2025-11-25" }, 33),
    (ScenarioSet { role: SuiteRole::Server, revision: "2026-07-28" }, 49),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-03-26" }, 2),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-06-18" }, 5),
    (ScenarioSet { role: SuiteRole::Client, revision: "2025-11-25" }, 25),
    (ScenarioSet { role: SuiteRole::Client, revision: "2026-07-28" }, 39),
];

/// Scenarios of skills, which are in no set.
const SKILLS: &[(SuiteRole, &[&str])] = &[
    (
        SuiteRole::Server,
        &["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"],
    ),
    (
        SuiteRole::Client,
        &[
            "sep-2640-client-no-prefetch",
            "sep-2640-client-verify-digest",
            "sep-2640-client-verify-size",
            "sep-2640-client-verify-frontmatter",
        ],
    ),
];

/// Starts our server, or returns the URL in `MCP_CONFORMANCE_SERVER`.
fn server(runtime: AdapterKind) -> (Option<HostedServer>, String) {
    if let Ok(url) = env::var("MCP_CONFORMANCE_SERVER") {
        return (None, url);
    }
    let mut command = Command::new(peers::probe());
    command.args(["serve", "--everything", "--http", "127.0.0.1:0", "--path", "/mcp"]);
    command.args(["--runtime", runtime.as_str()]);
    let server = HostedServer::start(command);
    let url = server.url.clone();
    (Some(server), url)
}

/// Returns the command of our client, or the one in `MCP_CONFORMANCE_CLIENT`.
fn client_command(runtime: AdapterKind) -> String {
    env::var("MCP_CONFORMANCE_CLIENT").unwrap_or_else(|_| {
        let mut beside = env::current_exe().expect("the path of this test");
        beside.pop();
        beside.pop();
        // `exec`, so that a timeout ends the client and not only a shell.
        format!("exec {} --runtime {runtime}", beside.join("conformance-client").display())
    })
}

/// Returns the emptied folder for the results of the suite.
fn results_of(runtime: AdapterKind, set: ScenarioSet, ending: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let dir = dir.join(format!("{runtime}-{}-{}{ending}", set.role.as_str(), set.revision));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("room for results");
    dir
}

/// Runs the sets of one side and prints the result of each.
fn assert_conforms(
    runtime: AdapterKind,
    role: SuiteRole,
    run: impl Fn(&ConformanceSuite, ScenarioSet, &[String], &Path) -> Vec<String>,
) {
    let Some(suite) = ConformanceSuite::new() else { return };
    let mut problems = Vec::new();
    for (set, count) in SETS.iter().filter(|(set, _)| set.role == role) {
        if pinned_revision(runtime).is_some_and(|only| only != set.revision) {
            continue;
        }
        let begun = Instant::now();
        let mut names = suite.scenarios(*set);
        names.retain(|name| !evaluation::is_excluded(name, EXCLUSIONS));
        let out = results_of(runtime, *set, "");
        let complaints = run(&suite, *set, &names, &out);
        let Evaluation { passed, scenarios, succeeded, problems: wrong } =
            evaluation::evaluate(*set, &names, &suite::results(role, &out), EXCEPTIONS);
        let took = begun.elapsed();
        print_line(&format!(
            "conformance on {runtime}, {set}: {passed} of {scenarios} scenarios, {succeeded} checks, {took:.1?}, nothing expected to fail"
        ));
        if scenarios != *count {
            problems.push(format!("{set}: found {scenarios} scenarios, expected {count}"));
        }
        problems.extend(wrong);
        problems.extend(complaints);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Runs the scenarios of skills on both sides, on the revision that they are written for.
fn assert_skills_conform(runtime: AdapterKind) {
    let Some(suite) = ConformanceSuite::new() else { return };
    let mut problems = Vec::new();
    for (role, names) in SKILLS {
        let set = ScenarioSet { role: *role, revision: "2026-07-28" };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let out = results_of(runtime, set, "-skills");
        match role {
            SuiteRole::Server => {
                let (hosted, url) = server(runtime);
                problems.extend(suite.run_server_scenarios(set, &url, &names, &out));
                if let Some(hosted) = hosted {
                    hosted.stop();
                }
            }
            SuiteRole::Client => {
                problems.extend(suite.run_client(set, &client_command(runtime), &names, &out));
            }
        }
        let Evaluation { passed, scenarios, succeeded, problems: wrong } =
            evaluation::evaluate(set, &names, &suite::results(*role, &out), &[]);
        print_line(&format!(
            "conformance on {runtime}, {set}, skills: {passed} of {scenarios} scenarios, {succeeded} checks"
        ));
        problems.extend(wrong);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn assert_server_conforms(runtime: AdapterKind) {
    let (hosted, url) = server(runtime);
    assert_conforms(runtime, SuiteRole::Server, |suite, set, _, out| {
        suite.run_server(set, &url, out);
        Vec::new()
    });
    if let Some(hosted) = hosted {
        hosted.stop();
    }
}

fn assert_client_conforms(runtime: AdapterKind) {
    let client = client_command(runtime);
    assert_conforms(runtime, SuiteRole::Client, |suite, set, names, out| {
        suite.run_client(set, &client, names, out)
    });
}

#[test]
fn server_conforms_on_blocking() {
    assert_server_conforms(AdapterKind::Blocking);
}

#[test]
fn server_conforms_on_threads() {
    assert_server_conforms(AdapterKind::Threads);
}

#[test]
fn server_conforms_on_smol() {
    assert_server_conforms(AdapterKind::Smol);
}

#[test]
fn server_conforms_on_tokio() {
    assert_server_conforms(AdapterKind::Tokio);
}

#[test]
fn client_conforms_on_blocking() {
    assert_client_conforms(AdapterKind::Blocking);
}

#[test]
fn client_conforms_on_threads() {
    assert_client_conforms(AdapterKind::Threads);
}

#[test]
fn client_conforms_on_smol() {
    assert_client_conforms(AdapterKind::Smol);
}

#[test]
fn client_conforms_on_tokio() {
    assert_client_conforms(AdapterKind::Tokio);
}

#[test]
fn skills_conform_on_blocking() {
    assert_skills_conform(AdapterKind::Blocking);
}

#[test]
fn skills_conform_on_threads() {
    assert_skills_conform(AdapterKind::Threads);
}

#[test]
fn skills_conform_on_smol() {
    assert_skills_conform(AdapterKind::Smol);
}

#[test]
fn skills_conform_on_tokio() {
    assert_skills_conform(AdapterKind::Tokio);
}
