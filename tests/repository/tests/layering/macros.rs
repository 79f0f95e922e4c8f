//! Length of the macros of the adapters: readers and error messages should end in ordinary code.

use crate::layering::{adapters, assert_none};

/// Largest number of lines of a macro.
const MAX_LINES: usize = 150;

/// Returns the name and the number of lines of each macro of a text.
fn macros(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("macro_rules!") {
        let rest = &code[at + "macro_rules!".len()..];
        let Some(open) = rest.find('{') else { continue };
        let mut depth = 0usize;
        let end = rest[open..].find(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let body = end.map_or(rest, |end| &rest[..open + end]);
        found.push((rest[..open].trim().to_owned(), 1 + body.matches('\n').count()));
    }
    found
}

#[test]
fn macros_of_the_adapters_have_at_most_150_lines() {
    assert_eq!(
        macros("x\nmacro_rules! a {\n    () => { {} };\n}\nmacro_rules! b { }"),
        [("a".into(), 3), ("b".into(), 1)]
    );
    let mut all = Vec::new();
    for source in adapters() {
        all.extend(macros(&source.code).into_iter().map(|(name, n)| (source.path.clone(), name, n)));
    }
    assert!(all.iter().any(|(_, name, n)| name == "setters" && *n > 30), "the macros were not found");
    let long = all.iter().filter(|(.., n)| *n > MAX_LINES);
    assert_none(
        "macros that are too long",
        &long.map(|(path, name, n)| format!("{path}: `{name}`: {n} lines")).collect::<Vec<_>>(),
    );
}
