//! The official conformance suite with our server and our client, of which nothing is excused but what stands here

extern crate alloc;

#[path = "../interop/hosted.rs"]
#[expect(dead_code, reason = "the interop tests need more of it")]
mod hosted;
mod judge;
#[path = "../interop/peers.rs"]
#[expect(dead_code, reason = "the interop tests need more of it")]
mod peers;
#[path = "../interop/run.rs"]
#[expect(dead_code, reason = "the interop tests need more of it")]
mod run;
mod suite;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use hosted::Hosted;
use judge::{Excuse, LeftOut, Leg, Set, Verdict};
use mcp_tests::ours::Runtime;
use run::say;
use suite::Suite;

/// Scenarios of what this project does not have.
const LEFT_OUT: &[LeftOut] = &[
    LeftOut { begins: "auth/", but: AUTH, why: "flows of OAuth are their caller's business" },
    LeftOut { begins: "tasks-", but: &[], why: "the extension for tasks is not there" },
    LeftOut { begins: "sep-2640-", but: &[], why: "the extension for skills is not there" },
];

/// The scenarios of `auth/` that need no flow: what has to be read is read, and is a reason to stop.
const AUTH: &[&str] = &["auth/metadata-issuer-mismatch", "auth/resource-mismatch"];

/// Checks that may come to nothing; one that need not fails.
const EXCUSES: &[Excuse] = &[
    Excuse { says: "did not send a initialize request", ..NO_HANDSHAKE },
    Excuse { says: "did not send a notifications/initialized request", ..NO_HANDSHAKE },
    NO_STREAM,
];

/// A list needs nothing but its result, and is answered as JSON; what is said on streams other scenarios see.
const NO_STREAM: Excuse = Excuse {
    leg: Leg::Server,
    revisions: &["2025-11-25", "2026-07-28"],
    scenario: "server-sse-multiple-streams",
    check: "server-sse-streams-functional",
    says: "JSON responses",
    why: "a list is answered as JSON",
};

const NO_HANDSHAKE: Excuse = Excuse {
    leg: Leg::Client,
    revisions: &["2026-07-28"],
    scenario: "http-standard-headers",
    check: "sep-2243-client-includes-standard-headers",
    says: "",
    why: "the revision has no handshake",
};

/// The one revision whose sets a runtime is held to; none for the one that is held to all
const fn only(runtime: Runtime) -> Option<&'static str> {
    match runtime {
        Runtime::Blocking => None,
        Runtime::Threads => Some("2026-07-28"),
        Runtime::Smol => Some("2025-11-25"),
    }
}

/// How many scenarios there are: a list that was read wrongly would be a pass.
const SETS: &[(Set, usize)] = &[
    (Set { leg: Leg::Server, revision: "2025-03-26" }, 1),
    (Set { leg: Leg::Server, revision: "2025-06-18" }, 27),
    (Set { leg: Leg::Server, revision: "2025-11-25" }, 33),
    (Set { leg: Leg::Server, revision: "2026-07-28" }, 40),
    (Set { leg: Leg::Client, revision: "2025-06-18" }, 2),
    (Set { leg: Leg::Client, revision: "2025-11-25" }, 5),
    (Set { leg: Leg::Client, revision: "2026-07-28" }, 10),
];

/// Our fixture, or the server whose URL is in `MCP_CONFORMANCE_SERVER`
fn server(runtime: Runtime) -> (Option<Hosted>, String) {
    if let Ok(url) = env::var("MCP_CONFORMANCE_SERVER") {
        return (None, url);
    }
    let mut command = Command::new(peers::probe());
    command.args(["serve", "--everything", "--http", "127.0.0.1:0", "--path", "/mcp"]);
    command.args(["--runtime", runtime.as_str()]);
    let server = Hosted::start(command);
    let url = server.url.clone();
    (Some(server), url)
}

/// Our fixture, or the command in `MCP_CONFORMANCE_CLIENT`
fn client(runtime: Runtime) -> String {
    env::var("MCP_CONFORMANCE_CLIENT").unwrap_or_else(|_| {
        let mut beside = env::current_exe().expect("the path of this test");
        beside.pop();
        beside.pop();
        // `exec`, so that the client and not a shell is ended when its time is up.
        format!("exec {} --runtime {runtime}", beside.join("conformance-client").display())
    })
}

/// Where the suite writes, empty
fn results_of(runtime: Runtime, set: Set) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let dir = dir.join(format!("{runtime}-{}-{}", set.leg.as_str(), set.revision));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("room for results");
    dir
}

/// Runs the sets of a leg, and says what came of each
fn conforms(runtime: Runtime, leg: Leg, run: impl Fn(&Suite, Set, &[String], &Path) -> Vec<String>) {
    let Some(suite) = Suite::new() else { return };
    let mut problems = Vec::new();
    for (set, count) in SETS.iter().filter(|(set, _)| set.leg == leg) {
        if only(runtime).is_some_and(|only| only != set.revision) {
            continue;
        }
        let begun = Instant::now();
        let mut names = suite.scenarios(*set);
        names.retain(|name| !judge::is_left_out(name, LEFT_OUT));
        let out = results_of(runtime, *set);
        let complaints = run(&suite, *set, &names, &out);
        let Verdict { passed, scenarios, succeeded, problems: wrong } =
            judge::judge(*set, &names, &suite::results(leg, &out), EXCUSES);
        let took = begun.elapsed();
        say(&format!(
            "conformance on {runtime}, {set}: {passed} of {scenarios} scenarios, {succeeded} checks, {took:.1?}, nothing expected to fail"
        ));
        if scenarios != *count {
            problems.push(format!("{set}: there are {scenarios} scenarios, and should be {count}"));
        }
        problems.extend(wrong);
        problems.extend(complaints);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn server_conforms(runtime: Runtime) {
    let (hosted, url) = server(runtime);
    conforms(runtime, Leg::Server, |suite, set, _, out| {
        suite.run_server(set, &url, out);
        Vec::new()
    });
    if let Some(hosted) = hosted {
        hosted.end();
    }
}

fn client_conforms(runtime: Runtime) {
    let client = client(runtime);
    conforms(runtime, Leg::Client, |suite, set, names, out| suite.run_client(set, &client, names, out));
}

#[test]
fn our_server_conforms() {
    server_conforms(Runtime::Blocking);
}

#[test]
fn our_server_conforms_on_threads() {
    server_conforms(Runtime::Threads);
}

#[test]
fn our_server_conforms_on_smol() {
    server_conforms(Runtime::Smol);
}

#[test]
fn our_client_conforms() {
    client_conforms(Runtime::Blocking);
}

#[test]
fn our_client_conforms_on_threads() {
    client_conforms(Runtime::Threads);
}

#[test]
fn our_client_conforms_on_smol() {
    client_conforms(Runtime::Smol);
}
