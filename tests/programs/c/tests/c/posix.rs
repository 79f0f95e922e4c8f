//! The helpers of `mcp_posix.h`, in a program of their own.

use std::path::Path;

use crate::build::{Linked, compile, is_installed, run_words, under_valgrind};

fn check(compiler: &str, linked: Linked) {
    if is_installed(compiler) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/posix.c");
        let program = compile(compiler, &source, linked);
        assert_eq!(run_words([program.display().to_string()]).assert_success().stdout, "ok\n");
    }
}

#[test]
fn turns_of_loops_move_what_pipes_take() {
    check("gcc", Linked::Static);
    check("clang", Linked::Shared);
}

#[test]
fn sanitizer_and_valgrind_find_nothing_in_turns_of_loops() {
    check("clang", Linked::Sanitized);
    if is_installed("gcc") && is_installed("valgrind") {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/posix.c");
        let program = compile("gcc", &source, Linked::Static);
        assert_eq!(run_words(under_valgrind(&program)).assert_success().stdout, "ok\n");
    }
}
