//! Source files that the pages name exist.

use std::fs;

use crate::layering::{assert_none, root, source};

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

#[test]
fn files_that_pages_name_exist() {
    let folders = ["core", "adapters", "tests", "fuzz", "benches"].into_iter();
    let below = |folder| {
        let names = source::rust_files(&root().join(folder)).into_keys();
        names.map(move |name| format!("/{folder}/{name}"))
    };
    let files: Vec<String> = folders.flat_map(below).collect();
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
