//! The Makefile and the pkg-config file.

use std::fs;
use std::process::Command;

use crate::adapter;
use crate::build::{example, is_installed, library};
use crate::run::{DEADLINE, run};

#[test]
fn installed_library_is_found_by_pkg_config() {
    if !(is_installed("gcc") && is_installed("make") && is_installed("pkg-config")) {
        return;
    }
    let built = library();
    let prefix = built.join("mcp-c-installed");
    let _ = fs::remove_dir_all(&prefix);
    let mut make = Command::new("make");
    make.current_dir(adapter()).args(["install", "PROFILE=dev"]);
    make.arg(format!("PREFIX={}", prefix.display()));
    make.arg(format!("CARGO_TARGET_DIR={}", built.parent().expect("a target directory").display()));
    run(make, DEADLINE * 5).expect("make starts").assert_success();

    let mut flags = Command::new("pkg-config");
    flags.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "mcp"]);
    let flags = run(flags, DEADLINE).expect("pkg-config starts").assert_success().stdout;
    let program = prefix.join("server");
    let mut compile = Command::new("gcc");
    compile.arg(example("server.c")).args(flags.split_whitespace()).arg("-o").arg(&program);
    run(compile, DEADLINE).expect("gcc starts").assert_success();
    let mut server = Command::new(&program);
    server.env("LD_LIBRARY_PATH", prefix.join("lib"));
    run(server, DEADLINE).expect("the server starts").assert_success();

    let mut version = Command::new("pkg-config");
    version.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--modversion", "mcp"]);
    let version = run(version, DEADLINE).expect("pkg-config starts").assert_success().stdout;
    let manifest = fs::read_to_string(adapter().join("../../Cargo.toml")).expect("the workspace");
    assert!(manifest.contains(&format!("\nversion = \"{}\"\n", version.trim())), "{version}");
}
