//! Number of methods per type of the core: a type that does too many things is cut into several.

use alloc::collections::BTreeMap;

use crate::layering::source::SourceFile;
use crate::layering::{assert_none, core};

/// Largest number of inherent methods of a type, over all its `impl` blocks.
const MAX_METHODS: usize = 80;

/// Returns the name of the type of an inherent `impl`, after the word `impl`.
fn inherent_type(header: &str) -> Option<String> {
    let header = &*header.replace("->", "  ");
    let mut rest = header.trim_start();
    if rest.starts_with('<') {
        let mut depth = 0usize;
        let end = rest.char_indices().find_map(|(at, c)| {
            match c {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at + 1)
        })?;
        rest = rest[end..].trim_start();
    }
    if header.contains(" for ") {
        return None;
    }
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Counts the functions directly inside each inherent `impl` of a file, by the name of the type.
fn count(source: &SourceFile) -> Vec<(String, usize)> {
    let mut counts = Vec::new();
    let mut rest = &*source.code;
    while let Some(at) = rest.find("\nimpl") {
        rest = &rest[at + "\nimpl".len()..];
        let Some(open) = rest.find('{') else { break };
        let Some(name) = inherent_type(&rest[..open]).filter(|_| rest.starts_with(['<', ' '])) else {
            continue;
        };
        let (mut depth, mut methods, mut end) = (0usize, 0, rest.len());
        for (at, c) in rest[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                'f' if depth == 1 && rest[open + at..].starts_with("fn ") => {
                    methods += usize::from(rest[..open + at].ends_with([' ', '\n']));
                }
                _ => {}
            }
            if depth == 0 {
                end = open + at;
                break;
            }
        }
        counts.push((name, methods));
        rest = &rest[end..];
    }
    counts
}

/// Returns the name of the part of the core that a file belongs to: types of one name are told apart by it.
fn part(path: &str) -> String {
    let mut folders: Vec<&str> = path.split('/').collect();
    let file = folders.pop().unwrap_or_default();
    let nested: &[&str] = &["server.rs", "client.rs"];
    if folders.is_empty() || (folders.len() == 1 && nested.contains(&file)) {
        folders.push(file.strip_suffix(".rs").unwrap_or(file));
    }
    folders.truncate(2);
    folders.join("::")
}

#[test]
fn types_have_at_most_eighty_methods() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in core() {
        for (name, methods) in count(&source) {
            *counts.entry(format!("{}::{name}", part(&source.path))).or_default() += methods;
        }
    }
    assert!(counts.get("calls::Endpoint").is_some_and(|n| *n > 40), "the methods were not counted");
    let mut wrong = Vec::new();
    for (name, methods) in &counts {
        if *methods > MAX_METHODS {
            wrong.push(format!("`{name}`: {methods} methods, at most {MAX_METHODS}"));
        }
    }
    assert_none("types with too many methods", &wrong);
}

#[test]
fn methods_of_inherent_implementations_are_counted() {
    let text = "
impl<T: Fn() -> u8> A<T> {
    pub fn a(&self) { let f = |x| { x }; fn inner() {} }
    const fn b() {}
}
impl Clone for A<u8> { fn clone(&self) -> Self { Self } }
impl B {
    fn c() {}
}
impl A<u8> { fn d() {} }
";
    let counts = count(&SourceFile::new("x/y.rs", text));
    assert_eq!(counts, [("A".to_owned(), 2), ("B".to_owned(), 1), ("A".to_owned(), 1)]);
}
