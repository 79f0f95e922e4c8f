//! Rust identifiers from the names of a server.

use alloc::collections::{BTreeMap, BTreeSet};

/// Characters of the longest identifier, without what makes it unique.
const MAX_IDENTIFIER: usize = 60;

/// Identifiers of one scope. Each is given once.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// The next number of names that were wanted more than once: a list may have one name a million times.
    numbers: BTreeMap<String, u64>,
}

impl Names {
    /// Creates a scope in which these names are taken.
    pub(super) fn with_taken(names: &[&str]) -> Self {
        Self { taken: names.iter().map(|name| (*name).to_owned()).collect(), numbers: BTreeMap::new() }
    }

    /// Returns an identifier, with a number if it was given before: the order of the requests decides.
    pub(super) fn claim(&mut self, wanted: &str, separator: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.taken.insert(name.clone()) {
            let number = self.numbers.entry(wanted.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{}{separator}{number}", wanted.trim_end_matches('_'));
        }
        name
    }
}

/// Returns the name of a function, a parameter or a field.
pub(super) fn snake(name: &str) -> String {
    let mut out = cut(&words(name).join("_"));
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, 'n');
    }
    if KEYWORDS.contains(&&*out) {
        out.push('_');
    }
    out
}

/// Returns the name of a type or a variant.
pub(super) fn pascal(name: &str) -> String {
    let words = words(name);
    let mut out =
        cut(&words.iter().map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect::<String>());
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, 'N');
    }
    if out == "Self" { "SelfValue".into() } else { out }
}

fn cut(name: &str) -> String {
    // Words are ASCII.
    name[..name.len().min(MAX_IDENTIFIER)].trim_end_matches('_').to_owned()
}

/// Returns the words of a name in lower case: runs of letters and digits of ASCII, and the parts of `camelCase`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let begins = c.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if begins || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    if words.is_empty() { vec!["unnamed".into()] } else { words }
}

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, function, kind) in [
            ("add", "add", "Add"),
            ("getUserById", "get_user_by_id", "GetUserById"),
            ("get-user.name/x", "get_user_name_x", "GetUserNameX"),
            ("HTTPServer", "httpserver", "Httpserver"),
            ("type", "type_", "Type"),
            ("Self", "self_", "SelfValue"),
            ("3d", "n3d", "N3d"),
            ("", "unnamed", "Unnamed"),
            ("日本", "unnamed", "Unnamed"),
            ("größe", "gr_e", "GrE"),
            ("*/ fn main() {}", "fn_main", "FnMain"),
            ("_", "unnamed", "Unnamed"),
        ] {
            assert_eq!((&*snake(name), &*pascal(name)), (function, kind), "{name}");
        }
        assert!(snake(&"long_".repeat(50)).len() <= MAX_IDENTIFIER);
        let mut names = Names::with_taken(&["String"]);
        let given: Vec<_> = ["A", "A", "A", "String"].iter().map(|name| names.claim(name, "")).collect();
        assert_eq!(given, ["A", "A2", "A3", "String2"]);
    }
}
