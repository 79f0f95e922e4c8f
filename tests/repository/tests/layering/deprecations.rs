//! Marks of what the specification deprecates: their texts, the list in `core/docs/deprecations.md`, and uses of ours.

use alloc::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::layering::{assert_none, root};

/// Reasons of the expectations: in code that users run, and in tests.
const REASONS: [&str; 2] = ["supported until its removal", "tested until its removal"];

/// A mark: note, `Container::item`, and file.
type Mark = (String, String, String);

/// Returns the cells of the tables in `core/docs/deprecations.md` that have so many columns, without heads.
fn rows(columns: usize) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("core/docs/deprecations.md")).expect("the list");
    text.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").map(str::to_owned).collect::<Vec<_>>())
        .filter(|cells| cells.len() == columns && cells[0] != "feature")
        .collect()
}

/// Returns all Rust files below a folder, as written, with their paths below the root.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            // `tests/peers` is code on other SDKs, which mark items themselves.
            if !path.ends_with("target") && !path.ends_with("peers") {
                found.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name =
                path.strip_prefix(root()).expect("below the root").to_string_lossy().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).expect("UTF-8")));
        }
    }
    found
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the name of a type, a trait or an enum at whose beginning `line` is; `impl<T> Name<T> for Other {` is `Other`.
fn container(line: &str) -> Option<String> {
    let head = line.trim().strip_suffix('{')?;
    let head = head.split(" expects ").next().unwrap_or_default().trim();
    let head = head.rsplit(" for ").next().unwrap_or_default();
    let mut depth = 0;
    let flat: String = head
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<');
            let keeps = depth == 0;
            depth -= i32::from(*c == '>');
            keeps
        })
        .collect();
    flat.split(|c: char| !is_name(c)).rfind(|word| !word.is_empty()).map(str::to_owned)
}

/// Returns the marks of a file.
fn marks(path: &str, text: &str) -> Vec<Mark> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.trim().starts_with("#[deprecated")) {
        let note =
            line.trim().strip_prefix("#[deprecated(note = \"").and_then(|rest| rest.strip_suffix("\")]"));
        let item = lines[at..].iter().find(|line| !line.trim().starts_with("#[")).expect("an item");
        let item = item.split_once("fn ").map_or_else(|| item.trim(), |(_, name)| name);
        let name: String = item.chars().take_while(|c| is_name(*c)).collect();
        let outside = lines[..at]
            .iter()
            .rfind(|l| indentation(l) < indentation(line) && l.trim().ends_with('{'))
            .and_then(|line| container(line))
            .unwrap_or_default();
        found.push((note.unwrap_or(line).to_owned(), format!("{outside}::{name}"), path.to_owned()));
    }
    found
}

// covers: LOG-015, ROOT-013, SAMP-026
#[test]
fn marks_are_those_of_the_list_of_deprecated_features() {
    let features = rows(5);
    assert_eq!(features.len(), 6, "the registry of the specification has six features");
    let mut listed = BTreeSet::new();
    for row in rows(3) {
        let feature = features.iter().find(|cells| cells[0] == row[0]);
        let feature = feature.unwrap_or_else(|| panic!("{:?} is no feature of the first table", row[0]));
        let note = format!("MCP {}; earliest removal: {}", feature[2], feature[3]);
        let bare = |cell: &str| cell.trim_matches('`').to_owned();
        assert!(listed.insert((note, bare(&row[1]), bare(&row[2]))), "{row:?} is listed twice");
    }
    for feature in &features {
        assert!(rows(3).iter().any(|row| row[0] == feature[0]), "{}: nothing is marked", feature[0]);
    }
    let mut marked = BTreeSet::new();
    for folder in ["core", "adapters"] {
        for (path, text) in sources(&root().join(folder)) {
            marked.extend(marks(&path, &text));
        }
    }
    assert_none(
        "marks that core/docs/deprecations.md does not list, or with another note",
        &marked.difference(&listed).map(|mark| format!("{mark:?}")).collect::<Vec<_>>(),
    );
    assert_none(
        "items of core/docs/deprecations.md without that mark",
        &listed.difference(&marked).map(|mark| format!("{mark:?}")).collect::<Vec<_>>(),
    );
}

#[test]
fn uses_of_marked_items_are_expected_item_by_item() {
    let mut found = Vec::new();
    let mut expected = 0;
    for folder in ["core", "adapters", "tests", "benches", "fuzz"] {
        for (path, text) in sources(&root().join(folder)) {
            for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
                // Not the lines of this test, which are text.
                if !line.starts_with("#[") && !line.starts_with("#![") {
                    continue;
                }
                let allows = line.contains("allow(deprecated") || line.contains("allow(warnings");
                let is_blanket = line.starts_with("#![expect(deprecated");
                let expects = line.starts_with("#[expect(deprecated");
                expected += usize::from(expects);
                let has_reason = REASONS
                    .iter()
                    .any(|reason| line == format!("#[expect(deprecated, reason = \"{reason}\")]"));
                if allows || is_blanket || (expects && !has_reason) {
                    found.push(format!("{path}:{number}: {line}"));
                }
            }
        }
    }
    assert!(expected > 50, "the expectations were not found");
    assert_none("expectations without one of the reasons, or for more than one item", &found);
}

#[test]
fn marks_are_read_with_their_containers() {
    let text = r##"
pub trait Harbour<'a> {
    /// A berth.
    #[must_use]
    #[deprecated(note = "gone")]
    async fn berth(&self) {}
}
impl<T: Into<String>> Pier for Quay<T> {
    #[deprecated(note = "gone")]
    #[must_use]
    pub const fn length(&self) -> u8 {
        1
    }
    #[deprecated]
    fn width(&self) {}
}
"##;
    let names: Vec<_> = marks("x.rs", text).into_iter().map(|(note, item, _)| (note, item)).collect();
    let mark = |note: &str, item: &str| (note.to_owned(), item.to_owned());
    assert_eq!(
        names,
        [
            mark("gone", "Harbour::berth"),
            mark("gone", "Quay::length"),
            mark("    #[deprecated]", "Quay::width")
        ]
    );
}
