//! The metadata of packages, by the rules of crates.io that only its server checks.

use std::path::Path;

use serde_json::Value;

use super::assert_none;
use super::cargo_features::{array, described_packages};

/// The registry's names of the categories that packages of this repository have.
const CATEGORIES: [&str; 13] = [
    "api-bindings",
    "authentication",
    "command-line-utilities",
    "development-tools::debugging",
    "development-tools::profiling",
    "development-tools::testing",
    "embedded",
    "external-ffi-bindings",
    "network-programming",
    "no-std",
    "os",
    "web-programming",
    "web-programming::http-server",
];

fn is_keyword(word: &str) -> bool {
    word.len() <= 20
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
}

fn is_category(word: &str) -> bool {
    CATEGORIES.contains(&word)
}

#[test]
fn metadata_is_what_the_registry_accepts() {
    let mut wrong = Vec::new();
    let packages = described_packages();
    let published = packages.iter().filter(|package| package["publish"].is_null());
    assert!(published.clone().count() >= 14, "packages are missing");
    for package in published {
        let text = |member: &str| package[member].as_str().unwrap_or_default();
        let name = text("name");
        let members = ["description", "documentation", "license", "readme", "repository", "rust_version"];
        let missing = members.iter().filter(|member| text(member).is_empty());
        wrong.extend(missing.map(|member| format!("{name}: no {member}")));
        let is_word: fn(&str) -> bool = is_keyword;
        for (member, is_valid) in [("keywords", is_word), ("categories", is_category)] {
            let words: Vec<_> = array(&package[member]).iter().filter_map(Value::as_str).collect();
            if words.is_empty() || words.len() > 5 {
                wrong.push(format!("{name}: {} {member}", words.len()));
            }
            let invalid = words.iter().filter(|word| !is_valid(word));
            wrong.extend(invalid.map(|word| format!("{name}: {word} in {member}")));
        }
        if !Path::new(text("manifest_path")).with_file_name(text("readme")).is_file() {
            wrong.push(format!("{name}: its README is not there"));
        }
    }
    assert_none("metadata", &wrong);
}

#[test]
fn long_keyword_is_none() {
    assert!(is_keyword("modelcontextprotocol") && !is_keyword("model-context-protocol"));
    assert!(!is_keyword("c c") && !is_keyword("-c"));
}
