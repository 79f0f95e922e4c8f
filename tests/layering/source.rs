//! Rust source with what does not count taken out: comments, the insides of strings, and what only tests see.

use std::fs;
use std::path::Path;

/// One file
pub(crate) struct Source {
    /// Path below the folder that was read, with forward slashes
    pub(crate) path: String,
    /// The code; what was taken out is blank, so that lines keep their numbers
    pub(crate) code: String,
    /// String literals and the lines on which they begin, escapes as they stand
    pub(crate) strings: Vec<(usize, String)>,
    /// Lines up to the tests at the end
    pub(crate) length: usize,
    text: String,
}

/// All Rust files in a folder and those in it, in the order of their paths
pub(crate) fn read(folder: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|e| panic!("{}: {e}", next.display())) {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name =
                    path.strip_prefix(folder).expect("below the folder").to_string_lossy().replace('\\', "/");
                sources.push(Source::new(&name, &fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

impl Source {
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
        let strings =
            strings.into_iter().filter(|(at, _)| seen(*at)).map(|(at, s)| (line_of(at), s)).collect();
        let length = code.trim_end().lines().count();
        Self { path: path.to_owned(), code, strings, length, text: text.to_owned() }
    }

    /// The module at the root of the crate that the file belongs to
    pub(crate) fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// A line as it was written
    pub(crate) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number - 1).unwrap_or_default().trim()
    }

    /// Numbers of the lines on which `word` stands on its own
    pub(crate) fn lines_with(&self, word: &str) -> Vec<usize> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let stands = |line: &str| {
            line.match_indices(word).any(|(at, _)| {
                let inside = word.starts_with(is_part) && line[..at].ends_with(is_part);
                let goes_on = word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
                !inside && !goes_on
            })
        };
        self.code.lines().enumerate().filter(|(_, line)| stands(line)).map(|(i, _)| i + 1).collect()
    }

    /// The first names of all paths that begin at the root of the crate, with their lines
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
                    None => paths.push((line, identifier(rest))),
                }
            }
        }
        paths.retain(|(_, name)| name != "super");
        paths
    }
}

fn identifier(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names in a brace group, nested groups left out
fn group(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut begin) = (Vec::new(), 0usize, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begin = true,
            c if begin && depth == 0 && !c.is_whitespace() => {
                names.push(identifier(&list[at..]));
                begin = false;
            }
            _ => {}
        }
    }
    names
}

/// Whether a number of the range that JSON-RPC and MCP use for errors stands in the text
pub(crate) fn has_error_number(text: &str) -> bool {
    text.match_indices("-32").any(|(at, _)| {
        let digits: String =
            text[at + 1..].chars().filter(|c| *c != '_').take_while(char::is_ascii_digit).collect();
        digits.len() == 5
    })
}

/// Blanks comments and the insides of literals; the string literals with their positions
fn strip(text: &str) -> (String, Vec<(usize, String)>) {
    let mut code = text.as_bytes().to_vec();
    let mut strings = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let in_a_name = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        // Where the inside begins and ends, and how much closes it.
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

/// Where the inside of a string that begins with its quote ends
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

/// The hashes of a raw string that begins here
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a character literal that begins here; none for a lifetime
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

/// Where the items under `#[cfg(test)]` begin and end
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
fn what_does_not_count_is_taken_out() {
    let text = r##"
use crate::{a, b::{c, d}, e};
/* crate::no /* nested */ */ // crate::no
fn f<'a>(x: &'a str) -> char { crate::g::h("crate::no \" // -32700", r#"a"b"#, b'"', '\'', '"'); super::i() }
#[cfg(test)]
mod tests { use crate::no; const N: &str = "no"; }
const M: i64 = -32_601;
"##;
    let source = Source::new("x.rs", text);
    let paths: Vec<String> = source.root_paths().into_iter().map(|(_, name)| name).collect();
    assert_eq!(paths, ["a", "b", "e", "g", "i"]);
    let strings: Vec<&str> = source.strings.iter().map(|(_, s)| &**s).collect();
    assert_eq!(strings, ["crate::no \\\" // -32700", "a\"b"]);
    assert_eq!(source.root_paths()[3].0, 4);
    assert!(has_error_number(source.line(7)) && !has_error_number("-3260"));
    assert_eq!(source.lines_with("f"), [4]);
    assert!(
        Source::new("a/b.rs", "use super::x; use super::super::y;").root_paths() == [(1, "y".to_owned())]
    );
}
