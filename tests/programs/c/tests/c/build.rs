//! The library, the programs in C, and the tools that they need.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use crate::adapter;
use crate::peers::report_readiness;
use crate::run::{DEADLINE, ProcessOutput, command, run};

/// Limit for a cold build of a package and its dependencies.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

/// The exit code of programs in which valgrind found something.
const FOUND: &str = "--error-exitcode=99";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Linked {
    Static,
    Shared,
    /// Static, with the address sanitizer.
    Sanitized,
}

/// Returns the folder of the target directory that has the results of the profile.
fn profile_dir() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    test.ancestors().nth(2).expect("a test binary is in <target>/<profile>/deps").to_owned()
}

/// Builds a package of the workspace beside this test, and returns the folder with the results.
fn build_package(package: &str) -> PathBuf {
    let folder = profile_dir();
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(adapter()).args(["build", "--locked", "--package", package, "--target-dir"]);
    build.arg(folder.parent().expect("a profile is in a target directory"));
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => _ = build.args(["--profile", name]),
    }
    run(build, BUILD_DEADLINE).expect("cargo runs").assert_success();
    folder
}

/// Returns the folder with `libmcp.a` and `libmcp.so`.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = build_package("mcp-c");
        // The loader searches for the soname.
        let name = folder.join(format!("libmcp.so.{}", abi_version()));
        if fs::symlink_metadata(&name).is_err() {
            std::os::unix::fs::symlink("libmcp.so", name).expect("a link beside the library");
        }
        folder
    })
}

/// Returns the version of the binary interface, as the header has it.
pub(crate) fn abi_version() -> u32 {
    let header = fs::read_to_string(adapter().join("include/mcp.h")).expect("include/mcp.h");
    let line = header.lines().find_map(|line| line.strip_prefix("#define MCP_ABI_VERSION "));
    line.expect("the version").trim().parse().expect("a number")
}

/// Returns `mcp-probe`.
pub(crate) fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| match env::var_os("MCP_PROBE") {
        Some(given) => given.into(),
        None => build_package("mcp-probe").join("mcp-probe"),
    })
}

/// Returns whether a program can be run. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_installed(program: &str) -> bool {
    let found = run(command([program, "--version"]), DEADLINE);
    let ready = match found {
        Ok(done) if done.succeeded() => Ok(()),
        Ok(done) => Err(format!("{program} does not work: {done}")),
        Err(error) => Err(format!("{program} is not installed: {error}")),
    };
    report_readiness(&ready, &format!("the C library with {program}"))
}

/// Compiles a program, and returns it.
pub(crate) fn compile(compiler: &str, source: &Path, linked: Linked) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let library = library();
    let folder = library.join("mcp-c-programs");
    fs::create_dir_all(&folder).expect("a folder beside the library");
    let name = source.file_stem().and_then(|name| name.to_str()).expect("a name");
    // Tests run at the same time, each with its own programs.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = folder.join(format!("{name}-{compiler}-{linked:?}-{number}"));
    let mut compile = Command::new(compiler);
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"]);
    if linked == Linked::Sanitized {
        compile.args([
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
        ]);
    }
    compile.arg("-I").arg(adapter().join("include")).arg(source).arg("-o").arg(&program);
    match linked {
        Linked::Shared => {
            compile.arg("-L").arg(library).arg("-lmcp").arg(format!("-Wl,-rpath,{}", library.display()));
        }
        Linked::Static | Linked::Sanitized => {
            compile.arg(library.join("libmcp.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    run(compile, DEADLINE).expect("the compiler starts").assert_success();
    program
}

pub(crate) fn example(name: &str) -> PathBuf {
    adapter().join("examples").join(name)
}

/// Returns the words of a command that runs a program under valgrind, where each block that is not freed is an error.
///
/// Also one that a variable still points to: a handle that its program forgot to free is often such a block.
pub(crate) fn under_valgrind(program: &Path) -> Vec<String> {
    [
        "valgrind",
        "--quiet",
        FOUND,
        "--leak-check=full",
        "--show-leak-kinds=all",
        "--errors-for-leak-kinds=all",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([program.display().to_string()])
    .collect()
}

/// Runs a command to its end.
pub(crate) fn run_words(words: impl IntoIterator<Item = String>) -> ProcessOutput {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    run(command, DEADLINE).expect("the program starts")
}
