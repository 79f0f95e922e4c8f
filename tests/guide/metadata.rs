//! The metadata of packages, by the rules of crates.io that only its server checks.

use serde_json::Value;

use super::cargo_features::metadata;
use super::{assert_none, root};

/// The registry's names of the categories that packages of this repository have.
const CATEGORIES: [&str; 11] = [
    "api-bindings",
    "command-line-utilities",
    "development-tools::debugging",
    "development-tools::profiling",
    "embedded",
    "external-ffi-bindings",
    "network-programming",
    "no-std",
    "os",
    "web-programming",
    "web-programming::http-server",
];

fn words<'a>(package: &'a Value, member: &str) -> Vec<&'a str> {
    package[member].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_keyword(word: &str) -> bool {
    word.len() <= 20
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
}

#[test]
fn metadata_is_what_the_registry_accepts() {
    let mut wrong = Vec::new();
    let mut packages = 0;
    for manifest in ["Cargo.toml", "adapters/embedded/Cargo.toml"] {
        let metadata = metadata(manifest);
        let published = |package: &&Value| package["publish"].is_null();
        for package in metadata["packages"].as_array().expect("packages").iter().filter(published) {
            packages += 1;
            let name = package["name"].as_str().expect("a name");
            for member in ["description", "documentation", "license", "readme", "repository", "rust_version"]
            {
                if package[member].as_str().is_none_or(str::is_empty) {
                    wrong.push(format!("{name}: no {member}"));
                }
            }
            let keywords = words(package, "keywords");
            if keywords.is_empty() || keywords.len() > 5 {
                wrong.push(format!("{name}: {} keywords", keywords.len()));
            }
            let words_wrong = keywords.iter().filter(|word| !is_keyword(word));
            wrong.extend(words_wrong.map(|word| format!("{name}: keyword {word}")));
            let categories = words(package, "categories");
            if categories.is_empty() || categories.len() > 5 {
                wrong.push(format!("{name}: {} categories", categories.len()));
            }
            let unknown = categories.iter().filter(|category| !CATEGORIES.contains(category));
            wrong.extend(unknown.map(|category| format!("{name}: category {category}")));
            let folder = package["manifest_path"].as_str().expect("a path").trim_end_matches("Cargo.toml");
            if !root().join(folder).join(package["readme"].as_str().unwrap_or_default()).is_file() {
                wrong.push(format!("{name}: its README is not there"));
            }
        }
    }
    assert!(packages >= 11, "{packages} packages");
    assert_none("metadata", &wrong);
}

#[test]
fn long_keyword_is_none() {
    assert!(is_keyword("modelcontextprotocol") && !is_keyword("model-context-protocol"));
    assert!(!is_keyword("c c") && !is_keyword("-c"));
}
