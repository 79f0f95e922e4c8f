//! Unpacks h11, pinned by its hash, for the programs that compare with it: tests of two workspaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns what a command prints.
///
/// # Errors
///
/// The command does not start, or fails.
pub(crate) fn run_command(mut command: Command) -> Result<String, String> {
    let name = format!("{:?}", command.get_program());
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("no {name}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(format!("{name} ended with {}: {}", done.status, text(&done.stderr)))
    }
}

/// Returns the folder of the unpacked h11; `tests` is the folder of the tests of the repository.
///
/// # Errors
///
/// There is no Python, or the package cannot be downloaded.
pub(crate) fn unpack_h11(tests: &Path) -> Result<PathBuf, String> {
    let pinned = tests.join("peers/http/requirements.txt");
    let text = fs::read_to_string(&pinned).expect("the pinned package");
    let hash = text.split("sha256:").nth(1).map(str::trim).expect("a hash");
    // Named by the hash: another version has another folder.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("h11-{}", &hash[..16]));
    if folder.join("h11").is_dir() {
        return Ok(folder);
    }
    let fresh = folder.with_extension(std::process::id().to_string());
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(&fresh).arg("--requirement").arg(&pinned);
    run_command(pip)?;
    // A rename is atomic, also when two runs prepare the package at once.
    let _ = fs::rename(&fresh, &folder);
    let _ = fs::remove_dir_all(&fresh);
    if folder.join("h11").is_dir() { Ok(folder) } else { Err("the package contains no h11".into()) }
}
