//! The Makefile and the pkg-config file.

use std::process::{self, Command};
use std::{env, fs};

use crate::adapter;
use crate::build::{abi_version, example, is_installed, library};
use crate::run::{DEADLINE, run};

#[test]
fn installed_library_is_found_by_pkg_config() {
    if !(is_installed("gcc") && is_installed("make") && is_installed("pkg-config")) {
        return;
    }
    let built = library();
    // pkg-config writes words for a shell, but leaves parentheses in a path as they are.
    let prefix = env::temp_dir().join(format!("mcp-c-installed-{}", process::id()));
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
    // The path of temporary files may have spaces.
    let mut compile = Command::new("sh");
    compile.args(["-c", r#"eval "exec gcc \"\$1\" $2 -o \"\$3\"""#, "sh"]);
    compile.arg(example("server.c")).arg(flags.trim()).arg(&program);
    run(compile, DEADLINE).expect("gcc starts").assert_success();
    let mut server = Command::new(&program);
    server.env("LD_LIBRARY_PATH", prefix.join("lib"));
    run(server, DEADLINE).expect("the server starts").assert_success();

    let mut version = Command::new("pkg-config");
    version.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--modversion", "mcp"]);
    let version = run(version, DEADLINE).expect("pkg-config starts").assert_success().stdout;
    let manifest = fs::read_to_string(adapter().join("../../Cargo.toml")).expect("the workspace");
    assert!(manifest.contains(&format!("\nversion = \"{}\"\n", version.trim())), "{version}");
    fs::remove_dir_all(&prefix).expect("what was installed");
}

#[test]
fn shared_library_names_its_version_and_exports_only_the_interface() {
    if !(is_installed("nm") && is_installed("readelf")) {
        return;
    }
    let library = library().join("libmcp.so");
    let mut readelf = Command::new("readelf");
    let dynamic = run_on(readelf.arg("--dynamic").arg(&library));
    let soname = format!("[libmcp.so.{}]", abi_version());
    assert!(dynamic.contains(&soname), "no {soname} in {dynamic}");

    let mut nm = Command::new("nm");
    let symbols = run_on(nm.args(["--dynamic", "--defined-only"]).arg(&library));
    let header = fs::read_to_string(adapter().join("include/mcp.h")).expect("include/mcp.h");
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.len() > 50, "{symbols}");
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is exported, and not in the header");
    }
}

#[test]
fn headers_are_good_for_cpp() {
    if !is_installed("g++") {
        return;
    }
    let source = library().join("mcp-c-header.cpp");
    fs::write(&source, "#include <mcp_posix.h>\nint main() { return mcp_str(mcp_version()).len == 0; }\n")
        .expect("a file");
    let program = source.with_extension("out");
    let mut compile = Command::new("g++");
    compile
        .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(adapter().join("include"));
    compile.arg(&source).arg("-o").arg(&program).arg(library().join("libmcp.a")).args([
        "-lpthread",
        "-ldl",
        "-lm",
    ]);
    run_on(&mut compile);
    run_on(&mut Command::new(program));
}

/// Runs a command that succeeds, and returns its output.
fn run_on(command: &mut Command) -> String {
    let command = core::mem::replace(command, Command::new("true"));
    run(command, DEADLINE).expect("the program starts").assert_success().stdout
}
