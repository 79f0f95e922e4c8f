//! A program that uses the library wrongly.

use std::path::{Path, PathBuf};

use crate::build::{Linked, compile, is_installed, run_words, under_valgrind};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/misuse.c")
}

fn check(compiler: &str, linked: Linked) {
    if is_installed(compiler) {
        let program = compile(compiler, &source(), linked);
        let done = run_words([program.display().to_string()]).assert_success();
        assert_eq!(done.stdout, "ok\n", "{done}");
    }
}

#[test]
fn misuse_is_noticed_by_gcc_program() {
    check("gcc", Linked::Shared);
}

#[test]
fn misuse_is_noticed_by_clang_program() {
    check("clang", Linked::Static);
}

#[test]
fn address_sanitizer_finds_nothing_in_misuse() {
    check("gcc", Linked::Sanitized);
    check("clang", Linked::Sanitized);
}

#[test]
fn valgrind_finds_nothing_in_misuse() {
    if is_installed("gcc") && is_installed("valgrind") {
        let program = compile("gcc", &source(), Linked::Static);
        // Valgrind runs one thread at a time, so two of them hardly meet.
        let words = under_valgrind(&program).into_iter().chain(["--one-thread".to_owned()]);
        assert_eq!(run_words(words).assert_success().stdout, "ok\n");
    }
}
