//! The official conformance suite with our server and our client, without exceptions other than those of `sets.rs`.

mod evaluation;
mod sets;
mod suite;

use std::env;
use std::process::Command;

use crate::hosted_server::HostedServer;
use evaluation::SuiteRole;
use mcp_system_tests::adapters::AdapterKind;

/// Returns the only revision that an adapter is tested with, or `None` for the adapter tested with all.
const fn pinned_revision(runtime: AdapterKind) -> Option<&'static str> {
    match runtime {
        AdapterKind::Blocking => None,
        AdapterKind::Threads => Some("2026-07-28"),
        AdapterKind::Smol => Some("2025-11-25"),
        AdapterKind::Tokio => Some("2026-07-28"),
    }
}

/// Starts our server, or returns the URL in `MCP_CONFORMANCE_SERVER`.
fn server(runtime: AdapterKind) -> (Option<HostedServer>, String) {
    if let Ok(url) = env::var("MCP_CONFORMANCE_SERVER") {
        return (None, url);
    }
    let mut command = Command::new(crate::peers::probe());
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
        format!("exec '{}' --runtime {runtime}", beside.join("conformance-client").display())
    })
}

fn assert_server_conforms(runtime: AdapterKind) {
    let (hosted, url) = server(runtime);
    let only = pinned_revision(runtime);
    sets::assert_conforms(runtime.as_str(), SuiteRole::Server, only, |suite, set, _, out| {
        suite.run_server(set, &url, out);
        Vec::new()
    });
    if let Some(hosted) = hosted {
        hosted.stop();
    }
}

fn assert_client_conforms(runtime: AdapterKind) {
    let client = client_command(runtime);
    let only = pinned_revision(runtime);
    sets::assert_conforms(runtime.as_str(), SuiteRole::Client, only, |suite, set, names, out| {
        suite.run_client(set, &client, names, out)
    });
}

/// Runs the scenarios of skills on both sides.
fn assert_skills_conform(runtime: AdapterKind) {
    let (hosted, url) = server(runtime);
    sets::assert_skills_conform(runtime.as_str(), SuiteRole::Server, |suite, set, names, out| {
        suite.run_server_scenarios(set, &url, names, out)
    });
    if let Some(hosted) = hosted {
        hosted.stop();
    }
    let client = client_command(runtime);
    sets::assert_skills_conform(runtime.as_str(), SuiteRole::Client, |suite, set, names, out| {
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
