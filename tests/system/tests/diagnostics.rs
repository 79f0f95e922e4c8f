//! Messages of the compiler for mistakes that users of the adapters make.
//!
//! Each program in `diagnostics/` has one mistake. It must not compile, and each of its lines that begin with `//~` is
//! part of a message. The programs in `diagnostics/without_schemars/` are compiled without the feature `schemars`.

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package is inside the workspace")
}

/// The programs of a folder, by name.
fn programs(folder: &Path) -> Vec<(String, PathBuf)> {
    let files =
        fs::read_dir(folder).expect("a folder of programs").map(|entry| entry.expect("a file").path());
    let mut programs: Vec<(String, PathBuf)> = files
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    programs.sort();
    programs
}

/// Returns a path as a string of JSON, which is one of TOML, too.
fn quoted(path: &Path) -> serde_json::Value {
    path.to_str().expect("UTF-8").into()
}

/// Compiles the programs of a folder, with these adapters as dependencies, and returns the messages of each.
fn compile(folder: &Path, adapters: &[&str], features: &str) -> Vec<(PathBuf, String)> {
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
    fs::create_dir_all(&package).expect("a folder for the package");
    let mut manifest =
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n");
    manifest.push_str("[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\n");
    for adapter in adapters {
        let path = quoted(&root().join("adapters").join(adapter));
        writeln!(
            manifest,
            "mcp-{adapter} = {{ path = {path}, default-features = false, features = [{features}] }}"
        )
        .expect("text");
    }
    let programs = programs(folder);
    for (name, path) in &programs {
        writeln!(manifest, "[[bin]]\nname = {name:?}\npath = {}", quoted(path)).expect("text");
    }
    fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
    // The versions of the workspace, so that nothing is downloaded.
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).expect("a lock file");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--bins", "--keep-going"])
        .args(["--message-format=json", "--target-dir"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnostics-target"))
        .current_dir(&package)
        .output()
        .expect("cargo");
    assert!(!output.status.success(), "the programs of {name} compile");
    let mut messages: Vec<(PathBuf, String)> =
        programs.into_iter().map(|(_, path)| (path, String::new())).collect();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a message of cargo");
        let source = value["target"]["src_path"].as_str().unwrap_or_default();
        if let Some((_, text)) = messages.iter_mut().find(|(path, _)| path.as_os_str() == source) {
            text.push_str(value["message"]["rendered"].as_str().unwrap_or_default());
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(messages.iter().any(|(_, text)| !text.is_empty()), "cargo failed: {errors}");
    messages
}

/// Panics unless every program has the messages that it expects.
fn check(messages: &[(PathBuf, String)]) {
    for (path, text) in messages {
        let source = fs::read_to_string(path).expect("UTF-8");
        let expected: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
        assert!(!expected.is_empty(), "{path:?} expects nothing");
        for line in expected {
            assert!(text.contains(line), "{path:?}: no {line:?} in:\n{text}");
        }
    }
}

#[test]
fn mistakes_in_handlers_are_explained() {
    let folder = root().join("tests/system/tests/diagnostics");
    check(&compile(&folder, &["blocking", "threads", "smol"], "\"schemars\""));
}

#[test]
fn missing_feature_is_named_for_the_package_of_the_user() {
    let folder = root().join("tests/system/tests/diagnostics/without_schemars");
    check(&compile(&folder, &["blocking"], ""));
}
