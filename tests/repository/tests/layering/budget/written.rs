//! Lines that macros write: what one invocation makes of several items counts as if it had been written by hand.
//!
//! By pattern, without expanding anything: the lines of the longest arm with several items, or with an item that repeats, for each
//! element that an invocation between items has.

use super::weigh::File;
use super::words;

const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "impl", "const", "type", "mod"];

struct Macro {
    name: String,
    /// Lines of the arm.
    lines: usize,
    /// Whether the arm repeats its items for each element.
    repeats: bool,
}

/// Counts them in a package.
pub(super) fn count(files: &[File]) -> usize {
    let macros: Vec<Macro> = files.iter().flat_map(|file| macros(&file.text)).collect();
    files.iter().map(|file| invocations(&file.text, &macros)).sum()
}

fn macros(text: &str) -> Vec<Macro> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("macro_rules!") {
        let Some(open) = text[at..].find('{') else { continue };
        let name: String = text[at + 12..at + open].trim().to_owned();
        let body = inside(&text[at + open..]);
        let arms = arms(body).filter_map(|arm| {
            let lines = arm.lines().filter(|line| !line.trim().is_empty()).count();
            let repeats = repeats_an_item(arm);
            (repeats || items(arm) > 1).then_some((lines, repeats))
        });
        found.extend(arms.max().map(|(lines, repeats)| Macro { name, lines, repeats }));
    }
    found
}

/// Returns the text between the bracket at the start and the one that closes it.
fn inside(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        if depth == 0 {
            return text.get(1..at).unwrap_or_default();
        }
    }
    text
}

/// What each arm writes.
fn arms(body: &str) -> impl Iterator<Item = &str> {
    let mut rest = body;
    core::iter::from_fn(move || {
        let arrow = rest.find("=>")?;
        let open = arrow + rest[arrow..].find(['{', '(', '['])?;
        let arm = inside(&rest[open..]);
        rest = &rest[open + arm.len() + 2..];
        Some(arm)
    })
}

fn is_item(text: &str, at: usize, word: &str) -> bool {
    // Not `fn(u8)`, `impl Trait` in a type, or `const` of a pointer.
    let before = text[..at].trim_end();
    let goes_on = text[at + word.len()..].starts_with([' ', '\n', '<']);
    let begins = before.is_empty()
        || before.ends_with(['}', '{', ';', ']', ')', '*', '+'])
        || before.ends_with("pub")
        || before.ends_with("const")
        || before.ends_with("$vis");
    ITEMS.contains(&word) && goes_on && begins
}

fn items(arm: &str) -> usize {
    let depth = |at: usize| arm[..at].matches('{').count() - arm[..at].matches('}').count();
    words(arm).filter(|(at, word)| is_item(arm, *at, word) && depth(*at) == 0).count()
}

fn repeats_an_item(arm: &str) -> bool {
    arm.match_indices("$(").any(|(at, _)| {
        let part = inside(&arm[at + 1..]);
        words(part).any(|(at, word)| is_item(part, at, word) && !part[..at].contains(['{', '(']))
    })
}

fn invocations(text: &str, macros: &[Macro]) -> usize {
    let mut sum = 0;
    for (at, word) in words(text) {
        let rest = &text[at + word.len()..];
        let Some(macro_) = macros.iter().find(|m| m.name == word && rest.starts_with('!')) else { continue };
        let before =
            text[..at].trim_end_matches(|c: char| c.is_alphanumeric() || "_:$".contains(c)).trim_end();
        let arguments = rest[1..].trim_start();
        if !(before.is_empty() || before.ends_with([';', '}', '{', ']']))
            || !arguments.starts_with(['{', '(', '['])
        {
            continue;
        }
        sum += macro_.lines * if macro_.repeats { elements(inside(arguments)) } else { 1 };
    }
    sum
}

/// Counts what stands beside each other in an invocation: blocks, or parts between semicolons or commas.
fn elements(arguments: &str) -> usize {
    let (mut depth, mut blocks, mut semicolons, mut commas) = (0, 0, 0, 0);
    for c in arguments.trim().trim_end_matches([',', ';']).chars() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        blocks += usize::from(c == '}' && depth == 0);
        semicolons += usize::from(c == ';' && depth == 0);
        commas += usize::from(c == ',' && depth == 0);
    }
    if semicolons > 0 {
        semicolons + 1
    } else if blocks > 0 {
        blocks
    } else {
        commas + 1
    }
}

#[test]
fn lines_of_several_items_count_for_each_element() {
    let file = |text: &str| File { path: "x.rs".into(), text: text.into(), lines: 0, tests: 0, strings: 0 };
    let repeated = "macro_rules! each {\n($($t:ty),*) => {\n$(impl A for $t {\nfn a() {}\n})*\n};\n}\neach!(u8, u16, u32);\n";
    assert_eq!(count(&[file(repeated)]), 9);
    let two =
        "macro_rules! two { ($t:ident) => {\nstruct $t;\nimpl A for $t {}\n}; }\ntwo!(X);\ntwo! { Y }\n";
    assert_eq!(count(&[file(two)]), 4);
    // One item, and one in an expression.
    let one = "macro_rules! one { ($t:ty) => { impl A for $t {} }; }\none!(u8);\nmacro_rules! on { ($($x:expr),*) => { f($($x),*) }; }\nfn f() { on!(1, 2); }\n";
    assert_eq!(count(&[file(one)]), 0);
}
