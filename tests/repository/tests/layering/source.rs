//! Rust source without comments, contents of strings, and test code.

use alloc::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Whether only tests use the file at this path.
pub(crate) fn is_test_file(path: &str) -> bool {
    let is_below = |folder: &str| path.split('/').rev().skip(1).any(|part| part == folder);
    ["tests.rs", "test_support.rs"].iter().any(|end| path.ends_with(end))
        || is_below("tests")
        || is_below("exhaustive")
}

/// A source file.
#[derive(Clone)]
pub(crate) struct SourceFile {
    /// Path below the folder that was read, with forward slashes.
    pub(crate) path: String,
    /// The code. Removed parts are blank, so that lines keep their numbers.
    pub(crate) code: String,
    /// String literals with their lines. Escapes are kept as written.
    pub(crate) strings: Vec<(usize, String)>,
    /// Positions in `code` of these literals: of the quote, or of the prefix of a raw string.
    #[allow(
        dead_code,
        reason = "`troubleshooting` reads the code around a literal, and `layering` does not"
    )]
    pub(crate) positions: Vec<usize>,
    /// Number of lines up to the tests at the end.
    pub(crate) length: usize,
    text: String,
}

/// Returns all Rust files below a folder, in the order of their paths. Each folder is read once for all tests.
pub(crate) fn read(folder: &Path) -> Vec<SourceFile> {
    static READ: Mutex<BTreeMap<PathBuf, Vec<SourceFile>>> = Mutex::new(BTreeMap::new());
    let mut folders = READ.lock().unwrap_or_else(PoisonError::into_inner);
    folders.entry(folder.to_owned()).or_insert_with(|| read_now(folder)).clone()
}

fn read_now(folder: &Path) -> Vec<SourceFile> {
    let files = rust_files(folder).into_iter();
    files.map(|(name, path)| SourceFile::new(&name, &fs::read_to_string(path).expect("UTF-8"))).collect()
}

/// Returns all Rust files below a folder by their paths from there, with forward slashes, in order. What builds left is not among
/// them.
pub(crate) fn rust_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|e| panic!("{}: {e}", next.display())) {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("node_modules") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name =
                    path.strip_prefix(folder).expect("below the folder").to_string_lossy().replace('\\', "/");
                files.insert(name, path);
            }
        }
    }
    files
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (code, strings) = strip(text);
        let tests = test_items(&code);
        let blank = |range: &(usize, usize), code: &mut Vec<u8>| {
            for byte in code.get_mut(range.0..range.1).unwrap_or_default() {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        };
        let mut bytes = code.into_bytes();
        tests.iter().for_each(|range| blank(range, &mut bytes));
        let code = String::from_utf8(bytes).expect("only whole items were blanked");
        let seen = |at: usize| !tests.iter().any(|(from, to)| (*from..*to).contains(&at));
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        let (positions, strings) =
            strings.into_iter().filter(|(at, _)| seen(*at)).map(|(at, s)| (at, (line_of(at), s))).unzip();
        let length = code.trim_end().lines().count();
        Self { path: path.to_owned(), code, strings, positions, length, text: text.to_owned() }
    }

    /// Returns the module at the root of the crate that the file belongs to.
    pub(crate) fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Returns a line as written.
    pub(crate) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number - 1).unwrap_or_default().trim()
    }

    /// Returns the numbers of the lines that contain `word` as a whole word.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<usize> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_word = |line: &str| {
            line.match_indices(word).any(|(at, _)| {
                let inside = word.starts_with(is_part) && line[..at].ends_with(is_part);
                let goes_on = word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
                !inside && !goes_on
            })
        };
        self.code.lines().enumerate().filter(|(_, line)| is_word(line)).map(|(i, _)| i + 1).collect()
    }

    /// Returns the paths after `prefix` (`crate::`, `super::` or `pub use `), with their lines. Groups are split.
    pub(crate) fn code_paths(&self, prefix: &str) -> Vec<(usize, Vec<String>)> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices(prefix) {
            let before = self.code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let line = self.code[..at].matches('\n').count() + 1;
            let mut paths = Vec::new();
            expand(&self.code[at + prefix.len()..], &mut Vec::new(), &mut paths);
            found.extend(paths.into_iter().map(|path| (line, path)));
        }
        found
    }

    /// Returns the first names of all paths that begin at the root of the crate, with their lines.
    pub(crate) fn root_paths(&self) -> Vec<(usize, String)> {
        let depth = self.path.matches('/').count() + usize::from(!self.path.ends_with("mod.rs"));
        let to_root = "super::".repeat(depth);
        let mut paths = Vec::new();
        for prefix in ["crate::", &to_root] {
            for (at, _) in self.code.match_indices(prefix) {
                let before = &self.code[..at];
                // `super::super::` begins once, and `$crate::` elsewhere.
                if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | ':')) {
                    continue;
                }
                let line = before.matches('\n').count() + 1;
                let rest = &self.code[at + prefix.len()..];
                match rest.strip_prefix('{') {
                    Some(list) => paths.extend(group(list).into_iter().map(|name| (line, name))),
                    None => paths.push((line, leading_identifier(rest))),
                }
            }
        }
        paths.retain(|(_, name)| name != "super");
        paths
    }
}

/// Reads one path, or a group of paths, and returns the rest of the text.
fn expand<'t>(text: &'t str, stem: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(end) = rest.strip_prefix('}') {
                return end;
            }
            let depth = stem.len();
            let next = expand(rest, stem, found).trim_start();
            stem.truncate(depth);
            if next.len() == rest.len() {
                return next;
            }
            rest = next.trim_start_matches(|c: char| c != ',' && c != '}');
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
    }
    let name = leading_identifier(text);
    if name.is_empty() {
        return text;
    }
    let rest = &text[name.len()..];
    stem.push(name);
    if let Some(next) = rest.strip_prefix("::") {
        let depth = stem.len();
        let next = expand(next, stem, found);
        if stem.len() == depth && !rest["::".len()..].trim_start().starts_with('{') {
            found.push(stem.clone());
        }
        return next;
    }
    found.push(stem.clone());
    rest
}

fn leading_identifier(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns the first names in a brace group, without nested groups.
fn group(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut begin) = (Vec::new(), 0usize, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begin = true,
            c if begin && depth == 0 && !c.is_whitespace() => {
                names.push(leading_identifier(&list[at..]));
                begin = false;
            }
            _ => {}
        }
    }
    names
}

/// Returns whether the text contains a number of the range that JSON-RPC and MCP use for errors.
pub(crate) fn has_error_number(text: &str) -> bool {
    text.match_indices("-32").any(|(at, _)| {
        let digits: String =
            text[at + 1..].chars().filter(|c| *c != '_').take_while(char::is_ascii_digit).collect();
        digits.len() == 5
    })
}

/// Blanks comments and the contents of literals; returns the string literals with their positions.
fn strip(text: &str) -> (String, Vec<(usize, String)>) {
    let mut code = text.as_bytes().to_vec();
    let mut strings = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let skipped =
            text.as_bytes()[at..].iter().position(|byte| matches!(byte, b'/' | b'"' | b'\'' | b'b' | b'r'));
        let Some(skipped) = skipped else { break };
        at += skipped;
        let rest = &text[at..];
        let in_a_name = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        // Start and end of the content, and the length of the closing delimiter.
        let (from, to, close) = if rest.starts_with("//") {
            (0, rest.find('\n').unwrap_or(rest.len()), 0)
        } else if rest.starts_with("/*") {
            (0, block_comment(rest), 0)
        } else if rest.starts_with('"') {
            (1, string_end(rest), 1)
        } else if let Some(hashes) = raw_string(rest).filter(|_| !in_a_name) {
            let open = rest.find('"').unwrap_or_default() + 1;
            let end = rest[open..].find(&format!("\"{}", "#".repeat(hashes))).unwrap_or(rest.len() - open);
            (open, open + end, 1 + hashes)
        } else if let Some(length) = char_literal(rest) {
            (1, length - 1, 1)
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if close > 0 && !rest.starts_with('\'') {
            strings.push((at, rest[from..to].to_owned()));
        }
        for byte in &mut code[at + from..at + to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += to + close;
    }
    (String::from_utf8(code).expect("whole characters were blanked"), strings)
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Returns the end of the content of a string; `text` begins with its quote.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Returns the number of hashes of a raw string at the start of `text`.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a character literal at the start of `text`; `None` for a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let mut chars = rest.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (at, c) = chars.next()?;
        return Some(rest[at + c.len_utf8()..].find('\'')? + at + c.len_utf8() + 2);
    }
    let (at, after) = chars.next()?;
    (after == '\'').then_some(at + 2)
}

/// Returns the ranges of the items under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let (mut depth, mut end) = (0usize, code.len());
        for (offset, c) in code[at + "#[cfg(test)]".len()..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && matches!(c, '}' | ';') {
                end = at + "#[cfg(test)]".len() + offset + 1;
                break;
            }
        }
        items.push((at, end));
    }
    items
}

#[test]
fn comments_literals_and_test_items_are_removed() {
    let text = r##"
use crate::{a, b::{c, d}, e};
/* crate::no /* nested */ */ // crate::no
fn f<'a>(x: &'a str) -> char { crate::g::h("crate::no \" // -32700", r#"a"b"#, b'"', '\'', '"'); super::i() }
#[cfg(test)]
mod tests { use crate::no; const N: &str = "no"; }
const M: i64 = -32_601;
"##;
    let source = SourceFile::new("x.rs", text);
    let paths: Vec<String> = source.root_paths().into_iter().map(|(_, name)| name).collect();
    assert_eq!(paths, ["a", "b", "e", "g", "i"]);
    let strings: Vec<&str> = source.strings.iter().map(|(_, s)| &**s).collect();
    assert_eq!(strings, ["crate::no \\\" // -32700", "a\"b"]);
    assert_eq!(source.root_paths()[3].0, 4);
    assert!(has_error_number(source.line(7)) && !has_error_number("-3260"));
    assert_eq!(source.lines_with("f"), [4]);
    assert!(
        SourceFile::new("a/b.rs", "use super::x; use super::super::y;").root_paths() == [(1, "y".to_owned())]
    );
}
