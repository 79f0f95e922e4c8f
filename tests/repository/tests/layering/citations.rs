//! Every rule id, `DEC-nnn` and `DESIGN-nn` in the tree names something inside the repository.

use alloc::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::layering::{assert_none, root};

const DECISIONS: &str = "core/docs/decisions.md";
const REQUIREMENTS: &str = "tests/spec-map.tsv";

/// Folders that hold no text of ours.
const SKIPPED: &[&str] = &[
    "target",
    ".git",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    "corpus",
    "artifacts",
    "seeds",
    "vectors",
];

/// Endings of files that may cite; files without an ending are scripts.
const ENDINGS: &[&str] = &["rs", "md", "tsv", "toml", "py", "ts", "mjs", "js", "sh", "yml", "json", "txt"];

fn texts(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // Cargo marks target directories with other names.
            if !SKIPPED.contains(&&*name) && !path.is_symlink() && !path.join("CACHEDIR.TAG").exists() {
                texts(&path, found);
            }
        } else if path.extension().is_none_or(|e| ENDINGS.iter().any(|ending| e == *ending)) {
            if let Ok(text) = fs::read_to_string(&path) {
                let below =
                    path.strip_prefix(root()).expect("below the root").to_string_lossy().replace('\\', "/");
                found.push((below, text));
            }
        }
    }
}

/// Words like `BASE-001`: capitals, a hyphen, then digits, `R` and digits among them.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| {
        word.split_once('-').is_some_and(|(area, number)| {
            let digits = number.strip_prefix('R').unwrap_or(number);
            area.len() >= 3
                && area.bytes().all(|b| b.is_ascii_uppercase())
                && matches!(digits.len(), 2 | 3)
                && digits.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

#[test]
fn every_citation_resolves_inside_the_repository() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a text of the repository");
    let mut known: BTreeSet<String> = BTreeSet::new();
    let requirements = read(REQUIREMENTS);
    known.extend(requirements.lines().filter_map(|l| l.split('\t').next()).map(str::to_owned));
    let decisions = read(DECISIONS);
    let headings = decisions.lines().filter_map(|l| l.strip_prefix("### ")?.split(':').next());
    known.extend(headings.map(str::to_owned));
    let areas: BTreeSet<&str> = known.iter().filter_map(|id| id.split('-').next()).collect();
    assert!(areas.len() > 20 && areas.contains("DEC") && areas.contains("DESIGN"), "{areas:?}");

    let mut files = Vec::new();
    texts(root(), &mut files);
    let (mut cited, mut wrong) = (0, Vec::new());
    for (path, text) in files.iter().filter(|(path, _)| !path.ends_with("layering/citations.rs")) {
        for (number, line) in text.lines().enumerate() {
            let mut report = |what: &str| wrong.push(format!("{path}:{}: {what}", number + 1));
            for id in ids(line).filter(|id| areas.contains(id.split('-').next().unwrap_or_default())) {
                cited += 1;
                if !known.contains(id) {
                    report(id);
                }
            }
            // Documents that are not part of the repository.
            for outside in ["design page", "(design,", "spec-map.md", "wire-tables", "lessons.md"] {
                if line.contains(outside) {
                    report(outside);
                }
            }
        }
    }
    assert!(cited > 1_000, "{cited} citations were found");
    assert_none("citations that do not resolve inside the repository", &wrong);
}

#[test]
fn ids_are_told_from_other_words() {
    let found: Vec<&str> =
        ids("// BASE-001, (DESIGN-R01) SHA-256 x-1 UTF-8 sep-2133 DEC-0004 HTTP-030 to HTTP-038").collect();
    assert_eq!(found, ["BASE-001", "DESIGN-R01", "SHA-256", "HTTP-030", "HTTP-038"]);
}
