//! The guide: pages in the documentation of the packages, against the features that they have to explain.
//!
//! `features.tsv` names for each feature the page and the heading that explain it. The programs of the pages run as tests
//! of their packages (`cargo test --doc`).

mod addresses;
mod cargo_features;
mod lines;
mod metadata;
mod readme;

use alloc::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a page.
const MAX_LINES: usize = 250;
/// The first program of a page begins within so many lines.
const FIRST_PROGRAM: usize = 30;
/// Numbered features.
const FEATURES: u32 = 48;
/// Pages of the guide of the core that stand in its folder of documents.
const DOCUMENTS: [&str; 1] = ["core/docs/contract.md"];
/// The page that lists all others.
const INDEX: &str = "adapters/blocking/src/guide/index.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the root").to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[track_caller]
fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// A page, by its path from the root.
struct Page {
    path: String,
    text: String,
}

impl Page {
    fn folder(&self) -> &str {
        self.path.rsplit_once('/').expect("a folder").0
    }

    fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn module(&self) -> &str {
        self.file().trim_end_matches(".md")
    }

    /// True for reference pages: lists of messages, of attacks, of bounds and of features.
    fn is_reference(&self) -> bool {
        ["troubleshooting", "security", "cargo_features"].iter().any(|name| self.module().starts_with(name))
    }

    /// Returns the folder of its module, and its path from there.
    fn place(&self) -> (&str, String) {
        match self.folder() {
            "core/docs" => ("core/src/guide", format!("../../docs/{}", self.file())),
            folder => (folder, self.file().to_owned()),
        }
    }

    /// Returns the name of the library in whose documentation it is.
    fn library(&self) -> String {
        let package = self.place().0.trim_end_matches("/src/guide");
        match package.split_once('/') {
            Some((_, name)) => format!("mcp_{name}"),
            None => "mcp_proto".to_owned(),
        }
    }

    fn parts(&self) -> Vec<Part<'_>> {
        parts(&self.text)
    }
}

/// A line outside of blocks of code, or such a block.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    /// A heading, by its level.
    Heading(usize, &'a str),
    /// A line of a paragraph or of a list.
    Prose,
    /// A line of a table, or an empty line.
    Other,
    /// A block: the number of its first line, from 1, and its info string.
    Block(usize, &'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        match line.strip_prefix("```") {
            Some(info) if !is_inside => {
                found.push(Part::Block(index + 1, info));
                is_inside = true;
            }
            Some(_) => is_inside = false,
            None if is_inside => {}
            None if level > 0 => found.push(Part::Heading(level, line[level..].trim())),
            None if line.trim().is_empty() || line.starts_with('|') => found.push(Part::Other),
            None => found.push(Part::Prose),
        }
    }
    found
}

/// Returns whether the block with this info string is a program that `rustdoc` compiles.
fn is_program(info: &str) -> bool {
    info.is_empty() || info.split(',').next() == Some("rust")
}

/// Folders with pages.
fn folders() -> Vec<String> {
    let mut folders = vec!["core/src/guide".to_owned()];
    for top in ["core", "adapters"] {
        for entry in fs::read_dir(root().join(top)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            folders.push(format!("{top}/{name}/src/guide"));
        }
    }
    folders.retain(|folder| root().join(folder).is_dir());
    folders.sort();
    folders
}

fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for folder in folders() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            if name.ends_with(".md") {
                let path = format!("{folder}/{name}");
                pages.push(Page { text: read(&path), path });
            }
        }
    }
    pages.extend(DOCUMENTS.map(|path| Page { text: read(path), path: path.to_owned() }));
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(pages.len() > 10, "there is no guide");
    pages
}

/// A row of `features.tsv`.
struct Feature<'a> {
    number: &'a str,
    name: &'a str,
    method: &'a str,
    page: &'a str,
    heading: &'a str,
}

impl<'a> Feature<'a> {
    fn from_line(line: &'a str) -> Self {
        let columns: Vec<&str> = line.split('\t').collect();
        let [number, name, method, page, heading] = columns[..] else {
            panic!("tests/features.tsv: not five columns: {line}")
        };
        Self { number, name, method, page, heading }
    }
}

fn features(table: &str) -> Vec<Feature<'_>> {
    table.lines().filter(|line| !line.starts_with('#')).map(Feature::from_line).collect()
}

/// Returns what is missing below a heading of a page: the heading, prose, or a program.
fn missing_below(page: &[Part<'_>], heading: &str) -> Option<&'static str> {
    let at = page.iter().position(|part| matches!(part, Part::Heading(_, text) if *text == heading));
    let Some(at) = at else { return Some("there is no such heading") };
    let Part::Heading(level, _) = page[at] else { unreachable!("found as a heading") };
    let ends = |part: &Part<'_>| matches!(part, Part::Heading(other, _) if *other <= level);
    let end = page[at + 1..].iter().position(ends).map_or(page.len(), |length| at + 1 + length);
    let section = &page[at + 1..end];
    if !section.contains(&Part::Prose) {
        return Some("there is no prose below it");
    }
    let has_program = section.iter().any(|part| matches!(part, Part::Block(_, info) if is_program(info)));
    (!has_program).then_some("there is no program below it")
}

#[test]
fn every_feature_has_a_page_with_prose_and_a_program() {
    let table = read("tests/features.tsv");
    let features = features(&table);
    let mut found = Vec::new();
    let numbers: Vec<u32> = features.iter().filter_map(|row| row.number.parse().ok()).collect();
    for number in 1..=FEATURES {
        match numbers.iter().filter(|other| **other == number).count() {
            1 => {}
            count => found.push(format!("feature {number} has {count} rows")),
        }
    }
    for row in &features {
        let Ok(text) = fs::read_to_string(root().join(row.page)) else {
            found.push(format!("{} {}: {} does not exist", row.number, row.name, row.page));
            continue;
        };
        if let Some(missing) = missing_below(&parts(&text), row.heading) {
            found.push(format!("{} {}: {}, \"{}\": {missing}", row.number, row.name, row.page, row.heading));
        }
    }
    assert_none("features without documentation", &found);
}

#[test]
fn feature_names_and_methods_are_aliases_of_their_page() {
    let table = read("tests/features.tsv");
    let mut found = Vec::new();
    for row in features(&table) {
        let folder = row.page.rsplit_once('/').expect("a folder").0;
        let modules = read(&format!("{folder}/mod.rs")).to_lowercase();
        // Aliases stand between the page and its module.
        let (_, attributes) = modules
            .split_once(&format!("include_str!(\"{}\")", &row.page[folder.len() + 1..]))
            .unwrap_or_default();
        let attributes = attributes.split("pub mod ").next().unwrap_or_default();
        // The search of rustdoc does not distinguish capitals.
        for alias in [row.name, row.method].into_iter().filter(|alias| !alias.is_empty()) {
            if !attributes.contains(&format!("\"{}\"", alias.to_lowercase())) {
                found.push(format!("{folder}/mod.rs: `{alias}` is no alias of {}", row.page));
            }
        }
    }
    assert_none("names that the search of rustdoc does not find", &found);
}

#[test]
fn every_page_is_short_and_begins_with_a_program() {
    let mut found = Vec::new();
    for page in pages() {
        let lines = page.text.lines().count();
        if lines > MAX_LINES {
            found.push(format!("{} has {lines} lines, at most {MAX_LINES} are allowed", page.path));
        }
        if page.is_reference() {
            continue;
        }
        let first = page.parts().into_iter().find_map(|part| match part {
            Part::Block(line, info) if is_program(info) => Some(line),
            _ => None,
        });
        if first.is_none_or(|line| line > FIRST_PROGRAM) {
            found.push(format!("{}: no program begins in its first {FIRST_PROGRAM} lines", page.path));
        }
    }
    assert_none("pages", &found);
}

#[test]
fn every_program_is_compiled() {
    let mut found = Vec::new();
    for page in pages() {
        for part in page.parts() {
            let Part::Block(line, info) = part else { continue };
            if info.split(',').any(|word| matches!(word, "ignore" | "compile_fail" | "should_panic")) {
                found.push(format!("{}:{line}: `{info}`", page.path));
            }
        }
    }
    assert_none("programs that are not compiled", &found);
    // The pages of `mcp-blocking` are tested there alone, and nothing else would tell.
    let tested = read("tests/system/src/guide.rs");
    let untested = |page: &Page| {
        page.path.starts_with("adapters/blocking") && !tested.contains(&format!("/{}\")", page.path))
    };
    let untested: Vec<String> = pages().into_iter().filter(untested).map(|page| page.path).collect();
    assert_none("pages whose programs are not run", &untested);
}

#[test]
fn every_page_tells_of_the_other_era_and_of_limits() {
    let mut found = Vec::new();
    for page in pages().into_iter().filter(|page| page.path != INDEX && !page.is_reference()) {
        let parts = page.parts();
        let has = |word: &str| {
            parts.iter().any(|part| match part {
                Part::Heading(_, text) => {
                    text.to_lowercase().split(|c: char| !c.is_alphabetic()).any(|w| w == word)
                }
                _ => false,
            })
        };
        for word in ["era", "limits"] {
            if !has(word) {
                found.push(format!("{}: no heading has the word \"{word}\"", page.path));
            }
        }
    }
    assert_none("pages", &found);
}

#[test]
fn every_page_is_in_a_module_and_in_the_index() {
    let index = read(INDEX);
    let mut found = Vec::new();
    for page in pages() {
        let (folder, path) = page.place();
        if !read(&format!("{folder}/mod.rs")).contains(&format!("include_str!(\"{path}\")")) {
            found.push(format!("{}: not included in {folder}/mod.rs", page.path));
        }
        let links =
            [format!("{}/guide/{}/", page.library(), page.module()), format!("self::{})", page.module())];
        let is_own = page.folder() == INDEX.rsplit_once('/').expect("a folder").0;
        if page.path != INDEX && !index.contains(&links[0]) && !(is_own && index.contains(&links[1])) {
            found.push(format!("{}: not linked in {INDEX}", page.path));
        }
    }
    assert_none("pages that nobody finds", &found);
}

#[test]
fn names_of_features_are_unique() {
    let table = read("tests/features.tsv");
    let rows = features(&table);
    for column in [|row: &Feature<'_>| row.number.to_owned(), |row: &Feature<'_>| row.name.to_owned()] {
        let names: BTreeSet<_> = rows.iter().map(|row| column(row)).collect();
        assert_eq!(names.len(), rows.len());
    }
}

#[test]
fn section_needs_prose_and_a_program_of_its_own() {
    let page = "# Page\n\nText.\n\n## A\n\nText.\n\n### B\n\n```rust\n# hidden\n```\n\n## C\n\n| a |\n\n```toml\n```\n\n## D\n\nText.\n";
    let page = parts(page);
    assert_eq!(missing_below(&page, "A"), None);
    assert_eq!(missing_below(&page, "B"), Some("there is no prose below it"));
    assert_eq!(missing_below(&page, "C"), Some("there is no prose below it"));
    assert_eq!(missing_below(&page, "D"), Some("there is no program below it"));
    assert_eq!(missing_below(&page, "hidden"), Some("there is no such heading"));
}
