//! Prerequisites of the tests: our program, the SDK peers, and the runtimes of these.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs, thread};

use core::time::Duration;

use serde_json::Value;

use crate::run::{DEADLINE, command, print_line, run};

/// Limit for fetching and unpacking about a hundred packages over a slow connection.
const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
/// Limit for a cold build of the Rust peer and its dependencies.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the peers. Tests of `tests/programs` include this file, too.
pub(crate) fn peers() -> PathBuf {
    package()
        .ancestors()
        .map(|folder| folder.join("peers"))
        .find(|peers| peers.is_dir())
        .expect("tests/peers")
}

pub(crate) fn node() -> PathBuf {
    peers().join("node")
}

/// Returns the `mcp-probe` under test: `MCP_PROBE`, or the program of this package.
pub(crate) fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| match (env::var_os("MCP_PROBE"), option_env!("CARGO_BIN_EXE_full-probe")) {
        (Some(given), _) => given.into(),
        (None, Some(own)) => own.into(),
        (None, None) => panic!("only tests of mcp-system-tests have a program of their own"),
    })
}

/// Returns the command `mcp-probe` for a client, which remembers nothing of earlier runs.
pub(crate) fn probe_client() -> Command {
    let mut command = Command::new(probe());
    // Its parent is a file.
    command.envs(["XDG_CACHE_HOME", "LOCALAPPDATA"].map(|name| (name, probe().join("cache"))));
    command
}

/// Returns whether the Node peers can run. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_node_ready() -> bool {
    is_npm_ready(&node(), "interop with the official TypeScript SDKs")
}

/// Returns whether the packages of a lock file are installed. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_npm_ready(dir: &Path, what: &str) -> bool {
    report_readiness(&prepare_npm(dir), what)
}

/// Returns whether the Python peer can run. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_python_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(|| prepare_venv(&python()));
    report_readiness(ready, "interop with the official Python SDK")
}

/// Returns whether the packages of a `requirements.txt` are installed in the virtual environment beside it. If not, prints a
/// warning, and fails if `CI` is `true`.
pub(crate) fn is_venv_ready(dir: &Path, what: &str) -> bool {
    report_readiness(&prepare_venv(dir), what)
}

/// Returns the folder of the Rust peer, a package of the workspace `benches/peers`.
fn rmcp() -> PathBuf {
    peers().join("rmcp")
}

/// Returns the target directory of the Rust peer, beside that of this workspace.
fn rmcp_target() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    test.ancestors().nth(3).expect("a test binary is in <target>/<profile>/deps").join("peers")
}

pub(crate) fn rmcp_program() -> PathBuf {
    rmcp_target().join("debug").join(format!("mcp-interop-rmcp{}", env::consts::EXE_SUFFIX))
}

/// Returns whether the Rust peer can run. If not, prints a warning, and fails if `CI` is `true`.
pub(crate) fn is_rmcp_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    report_readiness(READY.get_or_init(prepare_rmcp), "interop with the official Rust SDK")
}

fn prepare_rmcp() -> Result<(), String> {
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .current_dir(rmcp())
        .args(["build", "--locked", "--package", "mcp-interop-rmcp", "--target-dir"])
        .arg(rmcp_target());
    let done = run(build, BUILD_DEADLINE).map_err(|error| format!("no cargo: {error}"))?;
    match done.succeeded() {
        true => Ok(()),
        false => Err(format!("the Rust peer was not built: {done}")),
    }
}

pub(crate) fn report_readiness(ready: &Result<(), String>, what: &str) -> bool {
    if let Err(reason) = ready {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("NOT CHECKED: {test} ({what}): {reason}");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        print_line(&line);
    }
    ready.is_ok()
}

/// Tests that need the same packages install them one after another.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prepare_npm(dir: &Path) -> Result<(), String> {
    let _one = one_at_a_time();
    let version =
        run(command(["node", "--version"]), DEADLINE).map_err(|error| format!("no node: {error}"))?;
    let major =
        version.stdout.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < 20) {
        return Err(format!("expected node 20 or later, found {:?}", version.stdout.trim()));
    }
    if is_npm_installed(dir) {
        return Ok(());
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    // Without install scripts of packages: no package needs one, and a test should not run foreign code.
    let mut install = command([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    install.current_dir(dir);
    let done = run(install, INSTALL_DEADLINE).map_err(|error| format!("cannot run npm: {error}"))?;
    match is_npm_installed(dir) {
        true => Ok(()),
        false => Err(format!("`npm ci` did not install the packages of the lock file: {done}")),
    }
}

/// Compares what npm lists at the end of an installation with the lock file: an older or interrupted one would silently
/// test other peers.
fn is_npm_installed(dir: &Path) -> bool {
    let packages = |path: PathBuf| {
        let bytes = fs::read(path).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()?["packages"].as_object().cloned()
    };
    let locked = packages(dir.join("package-lock.json")).expect("a lock file");
    let Some(installed) = packages(dir.join("node_modules").join(".package-lock.json")) else { return false };
    // The package itself is not listed, and neither are packages for other systems.
    let is_same = |(path, package): (&String, &Value)| match installed.get(path) {
        Some(found) => found["version"] == package["version"] && dir.join(path).is_dir(),
        None => path.is_empty() || package["optional"] == true,
    };
    locked.iter().all(is_same)
}

pub(crate) fn python() -> PathBuf {
    peers().join("python")
}

/// Returns the interpreter of the virtual environment of the Python peer.
pub(crate) fn python_program() -> PathBuf {
    venv_program(&python(), "python")
}

/// Returns a program of the virtual environment in a folder.
pub(crate) fn venv_program(dir: &Path, name: &str) -> PathBuf {
    let (folder, suffix) = if cfg!(windows) { ("Scripts", ".exe") } else { ("bin", "") };
    dir.join(".venv").join(folder).join(format!("{name}{suffix}"))
}

fn prepare_venv(dir: &Path) -> Result<(), String> {
    let _one = one_at_a_time();
    let lock = fs::read_to_string(dir.join("requirements.txt")).map_err(|error| error.to_string())?;
    // The lock file of the last installation. An older one would silently test other peers.
    let stamp = dir.join(".venv").join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let base = if cfg!(windows) { "python" } else { "python3" };
    let check = "import ensurepip, sys; sys.exit(sys.version_info < (3, 10))";
    let version =
        run(command([base, "-c", check]), DEADLINE).map_err(|error| format!("no {base}: {error}"))?;
    if !version.succeeded() {
        return Err(format!("expected python 3.10 or later with venv and pip: {version}"));
    }
    let mut create = command([base, "-m", "venv", "--clear", ".venv"]);
    create.current_dir(dir);
    // No code of packages is run: wheels are only unpacked, and their hashes are those of the lock file.
    let mut install = Command::new(venv_program(dir, "python"));
    install.current_dir(dir).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--only-binary", ":all:", "--require-hashes", "--requirement", "requirements.txt"]);
    for step in [create, install] {
        let done = run(step, INSTALL_DEADLINE).map_err(|error| format!("no {base}: {error}"))?;
        if !done.succeeded() {
            return Err(format!("the packages of requirements.txt were not installed: {done}"));
        }
    }
    fs::write(stamp, lock).map_err(|error| error.to_string())
}
