//! The examples: client and server in C, each with the other and with `mcp-probe`, and the client in Python.

use std::path::Path;

use crate::build::{Linked, compile, example, is_installed, library, probe, run_words, under_valgrind};
use crate::run::ProcessOutput;

/// The steps of the client.
const STEPS: usize = 19;

fn assert_all_steps(done: ProcessOutput) {
    let done = done.assert_success();
    let ok = done.stdout.lines().filter(|line| line.starts_with("ok: ")).count();
    assert_eq!(ok, STEPS, "{done}");
}

fn words(programs: &[&Path], more: &[&str]) -> Vec<String> {
    let programs = programs.iter().map(|program| program.display().to_string());
    programs.chain(more.iter().map(|word| (*word).to_owned())).collect()
}

fn check_pair(compiler: &str, linked: Linked) {
    if is_installed(compiler) {
        let client = compile(compiler, &example("client.c"), linked);
        let server = compile(compiler, &example("server.c"), linked);
        assert_all_steps(run_words(words(&[&client, &server], &[])));
    }
}

#[test]
fn examples_by_gcc_work_with_static_library() {
    check_pair("gcc", Linked::Static);
}

#[test]
fn examples_by_gcc_work_with_shared_library() {
    check_pair("gcc", Linked::Shared);
}

#[test]
fn examples_by_clang_work_with_static_library() {
    check_pair("clang", Linked::Static);
}

#[test]
fn examples_by_clang_work_with_shared_library() {
    check_pair("clang", Linked::Shared);
}

#[test]
fn address_sanitizer_of_gcc_finds_nothing_in_examples() {
    check_pair("gcc", Linked::Sanitized);
}

#[test]
fn address_sanitizer_of_clang_finds_nothing_in_examples() {
    check_pair("clang", Linked::Sanitized);
}

#[test]
fn valgrind_finds_nothing_in_examples() {
    if is_installed("gcc") && is_installed("valgrind") {
        let client = compile("gcc", &example("client.c"), Linked::Static);
        let server = compile("gcc", &example("server.c"), Linked::Static);
        let both = under_valgrind(&client).into_iter().chain(under_valgrind(&server));
        assert_all_steps(run_words(both));
    }
}

#[test]
fn client_uses_mcp_probe_in_both_eras() {
    if is_installed("gcc") {
        let client = compile("gcc", &example("client.c"), Linked::Static);
        for era in ["modern", "legacy"] {
            assert_all_steps(run_words(words(&[&client, probe()], &["serve", "--everything", "--era", era])));
        }
    }
}

#[test]
fn python_calls_tool_of_c_server() {
    if is_installed("gcc") && is_installed("python3") {
        let server = compile("gcc", &example("server.c"), Linked::Static);
        let (python, client) = (Path::new("python3"), example("client.py"));
        let done = run_words(words(&[python, &client, &library().join("libmcp.so"), &server], &[]));
        done.assert_success().assert_output_contains("hello from Python");
    }
}

#[test]
fn readers_can_take_in_the_examples() {
    for (name, most) in [("server.c", 100), ("client.c", 100), ("client.py", 40)] {
        let lines = std::fs::read_to_string(example(name)).expect("an example").lines().count();
        assert!(lines <= most, "{name} has {lines} lines");
    }
}
