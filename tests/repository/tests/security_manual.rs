//! The security pages of the guide: each test that they name exists, and each bound has its value from the code.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Debug;
use std::fs;
use std::path::Path;

use mcp_proto::Limits;
use mcp_proto::h1::HttpLimits;
use mcp_proto::server::TaskLimits;

/// Longest page, in lines.
const MAX_LINES: usize = 250;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace")
}

fn page(name: &str) -> String {
    let text = fs::read_to_string(root().join("core/src/guide").join(name)).expect("a page");
    assert!(text.lines().count() <= MAX_LINES, "{name} has more than {MAX_LINES} lines");
    text
}

/// Returns the rows of all tables whose heading fulfils `is_wanted`, without their headings.
fn rows(page: &str, is_wanted: impl Fn(&[&str]) -> bool) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let cells = |line| -> Vec<&str> { str::trim_matches(line, '|').split('|').map(str::trim).collect() };
        let is_heading = line.starts_with('|') && lines.peek().is_some_and(|next| next.starts_with("|---"));
        if !is_heading {
            continue;
        }
        let is_wanted = is_wanted(&cells(line));
        lines.next();
        while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
            if is_wanted {
                found.push(cells(row));
            }
        }
    }
    found
}

/// Returns the names of all tests below a folder: functions after an attribute that ends in `test`, and those of tables
/// for a `main` of their own, `("name", name)`.
fn tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of source") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            tests(&path, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let (mut is_test, mut is_ignored, mut in_attribute) = (false, false, false);
            for line in text.lines().map(str::trim_start) {
                if in_attribute || line.starts_with("#[") {
                    is_test |= line.contains("test]") || line.contains("test(");
                    is_ignored |= line.starts_with("#[ignore");
                    in_attribute = !line.ends_with(']');
                } else if let Some(rest) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
                    let name = rest.split('(').next().unwrap_or_default();
                    if (is_test && !is_ignored) || text.contains(&format!("(\"{name}\", {name})")) {
                        names.insert(name.to_owned());
                    }
                    (is_test, is_ignored) = (false, false);
                } else if !line.is_empty() && !line.starts_with("//") {
                    (is_test, is_ignored) = (false, false);
                }
            }
        }
    }
}

#[test]
fn every_test_that_the_manual_names_exists() {
    let text = page("security.md");
    let mut known = BTreeSet::new();
    for folder in ["core", "adapters", "tests"] {
        tests(&root().join(folder), &mut known);
    }
    let entries: Vec<&str> = text.lines().filter(|line| line.starts_with("- **")).collect();
    assert!(entries.len() > 50, "the entries were not found");
    let mut wrong = Vec::new();
    for entry in entries {
        let parts: Vec<&str> = entry.split("<br>").collect();
        let [_, _, default, tests] = parts[..] else {
            wrong.push(format!("not a class, its prevention, its default and tests: {entry}"));
            continue;
        };
        let names = tests.strip_prefix("Test: ").or_else(|| tests.strip_prefix("Tests: "));
        let tests: Vec<&str> = names.unwrap_or_default().split('`').skip(1).step_by(2).collect();
        if !default.starts_with("Default: ") || tests.is_empty() {
            wrong.push(format!("no default or no test: {entry}"));
        }
        wrong.extend(
            tests.iter().filter(|test| !known.contains(**test)).map(|test| format!("no such test: {test}")),
        );
    }
    assert!(wrong.is_empty(), "core/src/guide/security.md: {wrong:#?}");
}

/// Returns the fields of a structure by its `Debug` output.
fn fields(value: &impl Debug) -> BTreeMap<String, String> {
    let text = format!("{value:?}");
    let (_, inner) = text.split_once(" { ").expect("a structure");
    let inner = inner.strip_suffix(" }").expect("its end");
    let field = |text: &str| {
        let (name, value) = text.split_once(": ")?;
        let value = value.strip_prefix("Some(").and_then(|v| v.strip_suffix(')')).unwrap_or(value);
        Some((name.to_owned(), value.to_owned()))
    };
    inner.split(", ").map(|text| field(text).expect("a field")).collect()
}

/// Returns a value of the page as `Debug` writes it: `8 KiB` is 8192, `3,600 s` is 3600s.
fn amount(cell: &str) -> String {
    let text = cell.replace(',', "");
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let times =
        |factor: u64| number.parse::<u64>().map_or_else(|_| cell.to_owned(), |n| (n * factor).to_string());
    match unit {
        "KiB" => times(1 << 10),
        "MiB" => times(1 << 20),
        "" if number == "none" => "None".to_owned(),
        unit => format!("{number}{unit}"),
    }
}

/// Compares the table of a structure with its values, one column for each.
fn compare(name: &str, columns: &[BTreeMap<String, String>]) {
    let text = page("security_deployment.md");
    let heading = format!("`{name}`");
    let rows = rows(&text, |cells| cells[0] == heading);
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for row in &rows {
        let field = row[0].trim_matches('`');
        listed.insert(field);
        for (column, cell) in columns.iter().zip(&row[1..]) {
            match column.get(field) {
                Some(value) if *value == amount(cell) => {}
                value => wrong.push(format!("`{field}` is {value:?}, and the page says {cell:?}")),
            }
        }
    }
    wrong.extend(
        columns[0].keys().filter(|f| !listed.contains(&***f)).map(|f| format!("`{f}` is not listed")),
    );
    assert!(wrong.is_empty(), "`{name}` in core/src/guide/security_deployment.md: {wrong:#?}");
}

#[test]
fn every_limit_is_in_the_table_of_bounds_with_its_values() {
    compare("Limits", &[fields(&Limits::default()), fields(&Limits::small()), fields(&Limits::tiny())]);
    compare("HttpLimits", &[fields(&HttpLimits::default()), fields(&HttpLimits::small())]);
    compare("TaskLimits", &[fields(&TaskLimits::default())]);
}

#[test]
fn amounts_are_those_of_debug() {
    for (cell, value) in
        [("8 KiB", "8192"), ("3,600 s", "3600s"), ("none", "None"), ("65,536", "65536"), ("250 ms", "250ms")]
    {
        assert_eq!(amount(cell), value);
    }
}
