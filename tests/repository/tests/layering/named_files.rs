//! Source files that the pages name exist.

use alloc::collections::BTreeSet;
use std::fs;

use crate::layering::{assert_none, root};

/// The pages, from the root of the repository.
const PAGES: [&str; 7] = [
    "core/docs/architecture.md",
    "core/docs/decisions.md",
    "core/docs/size.md",
    "core/docs/porting.md",
    "core/docs/deprecations.md",
    ".github/CONTRIBUTING.md",
    ".github/TESTING.md",
];

fn collect(folder: &std::path::Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with(".git") && !path.ends_with("node_modules") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let below = path.strip_prefix(root()).expect("below the root");
            found.insert(format!("/{}", below.to_string_lossy().replace('\\', "/")));
        }
    }
}

#[test]
fn files_that_pages_name_exist() {
    let mut files = BTreeSet::new();
    for folder in ["core", "adapters", "tests", "fuzz", "benches"] {
        collect(&root().join(folder), &mut files);
    }
    let (mut named, mut missing) = (0, Vec::new());
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        for (number, line) in text.lines().enumerate() {
            // Code stands between every other backtick.
            for code in line.split('`').skip(1).step_by(2).filter(|code| code.ends_with(".rs")) {
                named += 1;
                let end = format!("/{}", code.trim_start_matches("../").trim_start_matches('/'));
                if !code.contains([' ', '*']) && !files.iter().any(|file| file.ends_with(&end)) {
                    missing.push(format!("{page}:{}: {code}", number + 1));
                }
            }
        }
    }
    assert!(named > 50, "the names were not found: {named}");
    assert_none("files that pages name and that do not exist", &missing);
}
