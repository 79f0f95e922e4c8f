//! What has to be there: our own program, the peers of others, and what these run on

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, thread};

use core::time::Duration;

use serde_json::Value;

use crate::run::{DEADLINE, command, run, say};

/// Fetching and unpacking about a hundred packages, possibly over a slow line.
const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
/// A cold build of the probe and all that it depends on.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn node() -> PathBuf {
    package().join("peers").join("node")
}

/// The `mcp-probe` under test: `MCP_PROBE`, or the one that cargo builds beside this test.
pub(crate) fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        if let Some(given) = env::var_os("MCP_PROBE") {
            return given.into();
        }
        let test = env::current_exe().expect("the path of this test");
        let profile =
            test.parent().and_then(Path::parent).expect("a test binary is in <target>/<profile>/deps");
        let probe = profile.join(format!("mcp-probe{}", env::consts::EXE_SUFFIX));
        // Also when there is one already: cargo builds no binaries of other packages for a test, so the one that
        // lies there may be older than the code. It costs little when there is nothing to do. Without cargo around
        // (the test was started by hand) what lies there has to do.
        let cargo = match env::var_os("CARGO") {
            Some(cargo) => cargo,
            None if probe.exists() => return probe,
            None => "cargo".into(),
        };
        let mut build = Command::new(cargo);
        build.current_dir(package()).args(["build", "--package", "mcp-probe", "--bin", "mcp-probe"]);
        build.arg("--target-dir").arg(profile.parent().expect("a profile is in a target directory"));
        match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => {}
            Some(name) => _ = build.args(["--profile", name]),
        }
        run(build, BUILD_DEADLINE).expect("cargo runs").ok();
        assert!(probe.exists(), "cargo built mcp-probe, but not at {}", probe.display());
        probe
    })
}

/// Whether the peers on Node can be run; if not, says so loudly, and in CI fails.
pub(crate) fn node_ready() -> bool {
    npm_ready(&node(), "interop with the official TypeScript SDKs")
}

/// Whether what the lock file of a folder names is installed there; if not, says so loudly, and in CI fails.
pub(crate) fn npm_ready(dir: &Path, what: &str) -> bool {
    ready(&prepare_npm(dir), what)
}

/// Whether the peer on Python can be run; if not, says so loudly, and in CI fails.
pub(crate) fn python_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    ready(READY.get_or_init(prepare_python), "interop with the official Python SDK")
}

/// The Rust peer, a package of its own with a lock file of its own.
fn rmcp() -> PathBuf {
    package().join("peers").join("rmcp")
}

/// Where cargo puts it: beside what it builds of ours.
fn rmcp_target() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    test.ancestors().nth(3).expect("a test binary is in <target>/<profile>/deps").join("peers")
}

pub(crate) fn rmcp_program() -> PathBuf {
    rmcp_target().join("debug").join(format!("mcp-interop-rmcp{}", env::consts::EXE_SUFFIX))
}

/// Whether the Rust peer can be run; if not, says so loudly, and in CI fails.
pub(crate) fn rmcp_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    ready(READY.get_or_init(prepare_rmcp), "interop with the official Rust SDK")
}

fn prepare_rmcp() -> Result<(), String> {
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(rmcp()).args(["build", "--locked", "--target-dir"]).arg(rmcp_target());
    let done = run(build, BUILD_DEADLINE).map_err(|error| format!("no cargo: {error}"))?;
    match done.succeeded() {
        true => Ok(()),
        false => Err(format!("the Rust peer was not built: {done}")),
    }
}

pub(crate) fn ready(ready: &Result<(), String>, what: &str) -> bool {
    if let Err(why) = ready {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("NOT CHECKED: {test} ({what}): {why}");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        say(&line);
    }
    ready.is_ok()
}

fn prepare_npm(dir: &Path) -> Result<(), String> {
    // Tests of one process that need the same do not install it side by side.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let version =
        run(command(["node", "--version"]), DEADLINE).map_err(|error| format!("no node: {error}"))?;
    let major =
        version.stdout.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < 20) {
        return Err(format!("node 20 or later is needed, this is {:?}", version.stdout.trim()));
    }
    if npm_installed(dir) {
        return Ok(());
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    // No scripts of packages: none of these needs one, and a test should not run strangers' install code.
    let mut install = command([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    install.current_dir(dir);
    let done = run(install, INSTALL_DEADLINE).map_err(|error| format!("no npm: {error}"))?;
    match npm_installed(dir) {
        true => Ok(()),
        false => Err(format!("npm ci did not install what it should: {done}")),
    }
}

/// By version, not by presence: an older installation would quietly test other peers than those of the lock file.
fn npm_installed(dir: &Path) -> bool {
    let read =
        |path: PathBuf| fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let manifest = read(dir.join("package.json")).expect("a package.json");
    let wanted = manifest["dependencies"].as_object().expect("dependencies");
    wanted.iter().all(|(name, version)| {
        let own = dir.join("node_modules").join(name).join("package.json");
        read(own).is_some_and(|own| own["version"] == *version)
    })
}

pub(crate) fn python() -> PathBuf {
    package().join("peers").join("python")
}

/// The interpreter of the environment that the Python peer lives in.
pub(crate) fn python_program() -> PathBuf {
    let place = if cfg!(windows) { ["Scripts", "python.exe"] } else { ["bin", "python"] };
    place.iter().fold(python().join(".venv"), |path, part| path.join(part))
}

fn prepare_python() -> Result<(), String> {
    let lock = fs::read_to_string(python().join("requirements.txt")).map_err(|error| error.to_string())?;
    // What was installed last: an older installation would quietly test other peers than those of the lock file.
    let stamp = python().join(".venv").join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let base = if cfg!(windows) { "python" } else { "python3" };
    let check = "import ensurepip, sys; sys.exit(sys.version_info < (3, 10))";
    let version =
        run(command([base, "-c", check]), DEADLINE).map_err(|error| format!("no {base}: {error}"))?;
    if !version.succeeded() {
        return Err(format!("python 3.10 or later with venv and pip is needed: {version}"));
    }
    let mut create = command([base, "-m", "venv", "--clear", ".venv"]);
    create.current_dir(python());
    // No code of packages: wheels are only unpacked, and have to be those of the lock file.
    let mut install = Command::new(python_program());
    install.current_dir(python()).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--only-binary", ":all:", "--require-hashes", "--requirement", "requirements.txt"]);
    for step in [create, install] {
        let done = run(step, INSTALL_DEADLINE).map_err(|error| format!("no {base}: {error}"))?;
        if !done.succeeded() {
            return Err(format!("the Python peer was not installed: {done}"));
        }
    }
    fs::write(stamp, lock).map_err(|error| error.to_string())
}
