//! The features of the packages, against the page about them and the first page of each package.

use alloc::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::{assert_none, read, root};

/// The page that explains all features.
const PAGE: &str = "adapters/blocking/src/guide/cargo_features.md";
/// Adapters with the same features; the page explains them once.
const ADAPTERS: [&str; 4] = ["mcp-blocking", "mcp-threads", "mcp-smol", "mcp-tokio"];

/// A package of this repository.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder, from the root.
    pub(crate) folder: String,
    /// Features without `default`.
    pub(crate) features: BTreeSet<String>,
    /// Names of targets with their kinds: `bin`, `test`, `example`, …
    pub(crate) targets: Vec<(String, String)>,
    pub(crate) is_published: bool,
}

/// Returns the output of `cargo metadata` for a manifest, without its dependencies.
pub(crate) fn metadata(manifest: &str) -> Value {
    // By its path from the root, as the root is written: the current directory would resolve links.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(root().join(manifest))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{manifest}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns all packages, published or not, as `cargo metadata` describes them.
pub(crate) fn described_packages() -> Vec<Value> {
    let manifests = ["Cargo.toml", "tests/targets/Cargo.toml"];
    manifests.iter().flat_map(|manifest| array(&metadata(manifest)["packages"]).to_vec()).collect()
}

pub(crate) fn packages() -> Vec<Package> {
    let root = root();
    let mut found = Vec::new();
    for package in &described_packages() {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let features = package["features"].as_object().expect("features").keys().cloned();
        let path = text(&package["manifest_path"]);
        let folder = path.trim_end_matches("/Cargo.toml").trim_start_matches(&*root.to_string_lossy());
        let targets = array(&package["targets"]).iter();
        found.push(Package {
            name: text(&package["name"]),
            folder: folder.trim_start_matches('/').to_owned(),
            features: features.filter(|name| name != "default").collect(),
            targets: targets.map(|target| (text(&target["name"]), text(&target["kind"][0]))).collect(),
            is_published: package["publish"].is_null(),
        });
    }
    assert!(found.iter().filter(|package| package.is_published).count() >= 11, "packages are missing");
    found
}

/// Returns the lists of the page by their headings: a feature with the number of crates that it adds.
fn lists(page: &str) -> BTreeMap<&str, BTreeMap<&str, usize>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut heading = "";
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            heading = text;
            found.entry(heading).or_default();
        } else if let Some((name, rest)) = line.strip_prefix("- `").and_then(|rest| rest.split_once('`')) {
            let number = rest.strip_prefix(" (+").and_then(|rest| rest.split(' ').next());
            let number = number.map_or(0, |number| number.parse().expect("a number"));
            found.entry(heading).or_default().insert(name, number);
        }
    }
    found
}

/// Returns the words in code of the section about features of a crate or a text.
fn named(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_feature_of_a_package_is_explained() {
    let page = read(PAGE);
    let lists = lists(&page);
    let mut found = Vec::new();
    for package in packages().iter().filter(|package| package.is_published) {
        let heading = if ADAPTERS.contains(&&*package.name) { "Adapters" } else { &package.name };
        let Some(list) = lists.get(heading) else {
            found.push(format!("{PAGE}: no heading {heading:?}"));
            continue;
        };
        // Most are a list; those of the packages that adapters share are the adapters'.
        let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_default();
        let words = named(section.split("\n## ").next().unwrap_or_default());
        let is_listed = |name: &str| list.contains_key(name) || (list.is_empty() && words.contains(name));
        found.extend(
            package
                .features
                .iter()
                .filter(|name| !is_listed(name))
                .map(|name| format!("{PAGE}: `{name}` of {} is missing below \"{heading}\"", package.name)),
        );
        found.extend(
            list.keys()
                .filter(|name| !package.features.contains(**name))
                .map(|name| format!("{PAGE}: {} has no feature `{name}`", package.name)),
        );
    }
    assert_none("features of Cargo.toml", &found);
}

#[test]
fn first_page_of_a_package_names_its_features() {
    let mut found = Vec::new();
    for package in packages().iter().filter(|package| package.is_published) {
        let source = ["src/lib.rs", "src/main.rs"].map(|file| root().join(&package.folder).join(file));
        let source = source.iter().find_map(|path| std::fs::read_to_string(path).ok()).expect("a source");
        let docs: String = source
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .map(|line| format!("{line}\n"))
            .collect();
        let section = docs.split("\n # Features\n").nth(1).map(str::to_owned);
        // The page of `mcp-embedded` is its README.
        let section = section.unwrap_or_else(|| read(&format!("{}/README.md", package.folder)));
        let words = named(section.split("\n # ").next().unwrap_or_default());
        found.extend(
            package
                .features
                .iter()
                .filter(|name| !words.contains(&***name))
                .map(|name| format!("{}: the feature `{name}`", package.name)),
        );
    }
    assert_none("features that the first page of their package does not name", &found);
}

/// Returns the number of third-party crates, build dependencies included, as `tests/dependencies` counts them.
fn crates(package: &str, feature: Option<&str>) -> usize {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--package", package, "--edges", "normal,build"]);
    command.args(["--prefix", "none", "--format", "{p}", "--target", "x86_64-unknown-linux-gnu"]);
    command.args(feature.iter().flat_map(|feature| ["--features", feature]));
    let output = command.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    names.iter().filter(|name| !name.is_empty() && !name.starts_with("mcp-")).count()
}

#[test]
fn crates_that_a_feature_adds_are_counted() {
    let page = read(PAGE);
    let mut found = Vec::new();
    for (heading, list) in lists(&page) {
        let package = if heading == "Adapters" { "mcp-blocking" } else { heading };
        // `mcp-embedded` is in another workspace.
        if list.is_empty() || package == "mcp-embedded" {
            continue;
        }
        let least = crates(package, None);
        for (name, said) in list {
            let added = crates(package, Some(name)) - least;
            if added != said {
                found.push(format!(
                    "{PAGE}: `{name}` of {package} adds {added} crates, and the page says {said}"
                ));
            }
        }
    }
    assert_none("costs of features", &found);
}

#[test]
fn header_of_the_pages_is_the_same_in_each_package() {
    let header = read("core/docs.html");
    // docs.rs has no pages of programs.
    let has_pages = |package: &&Package| package.is_published && package.folder != "adapters/cli";
    for package in packages().iter().filter(has_pages) {
        assert!(
            read(&format!("{}/docs.html", package.folder)) == header,
            "{}/docs.html is not core/docs.html",
            package.folder
        );
        let manifest = read(&format!("{}/Cargo.toml", package.folder));
        assert!(
            manifest.contains(r#""--html-in-header", "docs.html""#),
            "{}: docs.rs does not use docs.html",
            package.name
        );
    }
}
