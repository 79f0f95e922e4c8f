//! The budget: how much there is to read in each package (`tests/repository/budget.tsv`).
//!
//! A number may rise only in a commit whose message says why. Tests and documentation cost nothing.

use core::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::layering::root;
use crate::layering::source::{self, SourceFile};

/// Lines of code below which a file counts as short.
const SHORT_FILE: usize = 60;
const HEAD: &str = "package\tfiles\tshort\tlines\ttraits\tboxes\tpointers";

/// The counts of a package.
struct Weight {
    files: usize,
    /// Files with less than 60 lines of code.
    short: usize,
    /// Lines of code, without comments, blank lines and tests.
    lines: usize,
    /// Private traits with exactly one implementation.
    traits: usize,
    /// `Option<Box<`.
    boxes: usize,
    /// Fields of function pointers.
    pointers: usize,
}

impl Weight {
    fn of(sources: &[SourceFile]) -> Self {
        let lines = |source: &SourceFile| source.code.lines().filter(|line| !line.trim().is_empty()).count();
        let files: Vec<usize> = sources.iter().map(lines).filter(|n| *n > 0).collect();
        let code: String = sources.iter().map(|source| &*source.code).collect();
        Self {
            files: files.len(),
            short: files.iter().filter(|n| **n < SHORT_FILE).count(),
            lines: files.iter().sum(),
            traits: single_traits(&code),
            boxes: code.matches("Option<Box<").count(),
            pointers: code.lines().filter(|line| is_pointer_field(line)).count(),
        }
    }

    fn cells(&self) -> [usize; 6] {
        [self.files, self.short, self.lines, self.traits, self.boxes, self.pointers]
    }
}

/// Counts private traits that exactly one type implements.
fn single_traits(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().map(str::trim_start).collect();
    // Of a public trait `pub` alone stands before.
    let private_name = |line: &str| {
        let rest = line
            .split_once("trait ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub("))?
            .1;
        rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().map(str::to_owned)
    };
    let names = lines.iter().filter_map(|line| private_name(line));
    names.filter(|name| implementations(&lines, name) == 1).count()
}

fn implementations(lines: &[&str], name: &str) -> usize {
    let is_one = |line: &&&str| {
        line.starts_with("impl")
            && line.split_once(" for ").is_some_and(|(before, _)| {
                let generic = before.rsplit_once('<').map_or(before, |(before, _)| before);
                [before, generic].iter().any(|text| text.rsplit([' ', ':']).next() == Some(name))
            })
    };
    lines.iter().filter(is_one).count()
}

fn is_pointer_field(line: &str) -> bool {
    let Some((before, kind)) = line.trim().split_once(": ") else { return false };
    let kind = kind.strip_prefix("Option<").unwrap_or(kind);
    let kind =
        if kind.starts_with("for<") { kind.split_once("> ").map_or(kind, |(_, rest)| rest) } else { kind };
    kind.starts_with("fn(") && !before.contains('(') && line.trim_end().ends_with(',')
}

fn packages() -> Vec<(String, Weight)> {
    let mut folders = vec![("core".to_owned(), root().join("core/src"))];
    for entry in fs::read_dir(root().join("adapters")).expect("the adapters") {
        let entry = entry.expect("an entry");
        let folder = entry.path().join("src");
        if folder.is_dir() {
            folders.push((entry.file_name().to_string_lossy().into_owned(), folder));
        }
    }
    folders.sort();
    let is_code = |source: &SourceFile| !source::is_test_file(&source.path);
    let weigh = |(name, folder): (String, PathBuf)| {
        let sources: Vec<SourceFile> = source::read(&folder).into_iter().filter(is_code).collect();
        (name, Weight::of(&sources))
    };
    folders.into_iter().map(weigh).collect()
}

#[test]
fn packages_keep_their_budget() {
    let path = root().join("tests/repository/budget.tsv");
    let found = packages();
    let mut text = format!("{HEAD}\n");
    for (name, weight) in &found {
        let cells: Vec<String> = weight.cells().iter().map(ToString::to_string).collect();
        writeln!(text, "{name}\t{}", cells.join("\t")).expect("a string");
    }
    if std::env::var_os("UPDATE_BUDGET").is_some() {
        fs::write(&path, &text).expect("written");
        return;
    }
    let budget = fs::read_to_string(&path).expect("the budget");
    let (head, rows) = budget.split_once('\n').expect("rows");
    assert_eq!(head, HEAD);
    let mut over = Vec::new();
    for (name, weight) in &found {
        let row = rows.lines().find(|row| row.split('\t').next() == Some(name));
        let Some(row) = row else {
            over.push(format!("`{name}` has no row"));
            continue;
        };
        for ((column, allowed), has) in HEAD.split('\t').zip(row.split('\t')).skip(1).zip(weight.cells()) {
            let allowed: usize = allowed.parse().expect("a number");
            if has > allowed {
                over.push(format!("{name}: {has} {column}, budget {allowed}"));
            }
        }
    }
    assert!(
        over.is_empty(),
        "over budget:\n{}\nMake it smaller, or run this test with UPDATE_BUDGET=1 and say in the commit why.",
        over.join("\n")
    );
}

#[test]
fn weights_are_counted() {
    let text = "trait One {}\nimpl One for u8 {}\npub(super) trait Two {}\nimpl<T: Two> Two for Vec<T> {}\n\
        impl Two for u8 {}\npub trait Public {}\nimpl Public for u8 {}\n\
        struct X {\n    a: Option<Box<u8>>,\n    b: fn(u8),\n    c: Option<for<'a> fn(&'a u8) -> u8>,\n}\n";
    let weight = Weight::of(&[SourceFile::new("x.rs", text)]);
    assert_eq!(weight.cells(), [1, 1, 12, 1, 1, 2]);
}
