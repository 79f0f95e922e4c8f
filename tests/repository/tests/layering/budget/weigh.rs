//! Lines of code: text without comments and the contents of strings, and which of its lines are tests.

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layering::source::rust_files;

/// Folders that hold no sources of the package itself.
const APART: [&str; 6] = ["target", "tests", "benches", "firmware", "web", "node_modules"];
/// Folders of which every file is a test.
const TEST_FOLDERS: [&str; 6] = ["tests", "benches", "examples", "test", "fuzz_targets", "fuzzing"];

/// A file of a package, without the lines of tests.
pub(super) struct File {
    /// Below `src`, with forward slashes.
    pub(super) path: String,
    /// The code. Lines of tests are empty, comments are gone, and a literal is one letter.
    pub(super) text: String,
    /// Lines with code.
    pub(super) lines: usize,
    /// Lines with tests.
    pub(super) tests: usize,
    /// Characters within literals outside of tests.
    pub(super) strings: usize,
}

/// Returns the name and the folder of sources of each package below `core/` and `adapters/`.
pub(super) fn packages(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for top in ["core", "adapters"] {
        let mut folders = vec![(root.join(top), String::new())];
        while let Some((folder, name)) = folders.pop() {
            if folder.join("Cargo.toml").is_file() && folder.join("src").is_dir() {
                found.push((if name.is_empty() { top.to_owned() } else { name.clone() }, folder.join("src")));
            }
            for entry in fs::read_dir(&folder).expect("a folder") {
                let entry = entry.expect("an entry");
                let own = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_dir() && !APART.contains(&&*own) {
                    let below = if name.is_empty() { own } else { format!("{name}/{own}") };
                    folders.push((entry.path(), below));
                }
            }
        }
    }
    found.sort();
    found
}

/// Reads the files of a package. Those that only tests use have no code.
pub(super) fn read(folder: &Path) -> Vec<File> {
    let mut parsed = BTreeMap::new();
    let mut test_modules = BTreeSet::new();
    for (path, place) in rust_files(folder) {
        let text = fs::read_to_string(place).expect("UTF-8");
        let file = parse(&path, &text);
        let stem = path.rsplit('/').next().unwrap_or_default();
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let base =
            if ["mod.rs", "lib.rs", "main.rs"].contains(&stem) { above } else { &path[..path.len() - 3] };
        let below = |name: &String| if base.is_empty() { name.clone() } else { format!("{base}/{name}") };
        test_modules.extend(file.test_modules.iter().map(below));
        parsed.insert(path, file);
    }
    let mut files = Vec::new();
    for (path, parsed) in parsed {
        let own = path.strip_suffix(".rs").unwrap_or(&path);
        let is_inside = |module: &String| own == module || own.starts_with(&format!("{module}/"));
        let mut file = parsed.file;
        if test_modules.iter().any(is_inside) || is_test_path(&path) {
            file.tests += core::mem::take(&mut file.lines);
            file.text.clear();
            file.strings = 0;
        }
        files.push(file);
    }
    files
}

fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder))
        || ["test", "tests", "build"].contains(&stem)
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
}

struct Parsed {
    file: File,
    /// Modules of other files that only tests have.
    test_modules: Vec<String>,
}

fn parse(path: &str, source: &str) -> Parsed {
    let (text, literals) = strip(source);
    let mut tests = BTreeSet::new();
    let mut test_modules = Vec::new();
    for (at, after, is_test_function) in test_attributes(&text) {
        let (first, end) = (line_at(&text, at), end_of_item(&text, after));
        if is_test_function {
            if !tests.contains(&first) {
                tests.extend(first..=line_at(&text, end));
            }
        } else {
            test_modules.extend(declared_module(&text[after..end]));
            tests.extend(first..=line_at(&text, end));
        }
    }
    let is_filled = |line: &str| !line.trim().is_empty();
    let kept = |(number, line): (usize, &str)| (is_filled(line), tests.contains(&number));
    let lines = text.split('\n').enumerate().map(kept).filter(|(filled, _)| *filled);
    let (of_tests, code): (Vec<_>, Vec<_>) = lines.partition(|(_, is_test)| *is_test);
    let (lines, of_tests) = (code.len(), of_tests.len());
    let strings = literals.iter().filter(|(line, _)| !tests.contains(line)).map(|(_, length)| length).sum();
    let text = text.split('\n').enumerate().map(|(n, line)| if tests.contains(&n) { "" } else { line });
    let text = text.collect::<Vec<_>>().join("\n");
    Parsed { file: File { path: path.to_owned(), text, lines, tests: of_tests, strings }, test_modules }
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

/// Removes comments, and puts one letter for the content of each literal, or one for each of its lines. Returns the lines and the
/// lengths of the literals as well.
fn strip(source: &str) -> (String, Vec<(usize, usize)>) {
    let (mut out, mut literals, mut at, mut line) = (String::new(), Vec::new(), 0, 0);
    while at < source.len() {
        let begins = |byte: &u8| matches!(byte, b'/' | b'"' | b'\'' | b'r' | b'b' | b'c');
        let plain = source.as_bytes()[at..].iter().position(begins).unwrap_or(source.len() - at);
        let is_in_a_name = source[..at + plain].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (text, rest) = source[at..].split_at(plain);
        out.push_str(text);
        line += text.matches('\n').count();
        // What stands for the rest's beginning, and how long that is.
        let (kept, length) = if rest.starts_with("//") {
            (String::new(), rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            let end = block_comment(rest);
            ("\n".repeat(rest[..end].matches('\n').count()), end)
        } else if let Some((delimiters, end)) = string(rest, is_in_a_name) {
            literals.push((line, rest[..end].chars().count() - delimiters));
            ("S\n".repeat(rest[..end].matches('\n').count()) + "\"S\"", end)
        } else if let Some(end) = char_literal(rest) {
            ("'c'".to_owned(), end)
        } else {
            let next = rest.chars().next();
            (next.map(String::from).unwrap_or_default(), next.map_or(0, char::len_utf8))
        };
        line += kept.matches('\n').count();
        out.push_str(&kept);
        at += plain + length;
    }
    (out, literals)
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let step = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of what opens the string at the start of `text`, and of the whole string.
fn string(text: &str, is_in_a_name: bool) -> Option<(usize, usize)> {
    if let Some(content) = text.strip_prefix('"') {
        let mut escaped = false;
        let end = content.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some((2, end.map_or(text.len(), |end| end + 2)));
    }
    let prefix =
        ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix)).filter(|_| !is_in_a_name)?;
    let hashes = prefix.len() - prefix.trim_start_matches('#').len();
    let content = prefix[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let open = text.len() - content.len();
    Some((open + close.len(), content.find(&close).map_or(text.len(), |end| open + end + close.len())))
}

/// Returns the length of a character literal at the start of `text`; `None` for a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.char_indices().map(|(at, c)| (at + 1, c));
    let (_, first) = chars.next()?;
    if first != '\\' {
        let (at, after) = chars.next()?;
        return (after == '\'' && first != '\'' && first != '\n').then_some(at + 1);
    }
    let (_, escaped) = chars.next()?;
    let mut rest = chars.skip(match escaped {
        'x' => 2,
        'u' => text.find('}')?.checked_sub(2)?,
        _ => 0,
    });
    rest.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

/// Returns start and end of each attribute that makes the item after it a test, and whether it is that of a function. Those of
/// functions come last.
fn test_attributes(text: &str) -> Vec<(usize, usize, bool)> {
    let (mut found, mut functions) = (Vec::new(), Vec::new());
    for (at, _) in text.match_indices('#') {
        let Some(inside) = text[at + 1..].trim_start().strip_prefix('[') else { continue };
        let Some(end) = inside.find(']') else { continue };
        let after = text.len() - inside.len() + end + 1;
        let attribute = inside[..end].trim();
        let (path, arguments) = attribute.split_once('(').unwrap_or((attribute, ")"));
        let Some(arguments) = arguments.strip_suffix(')') else { continue };
        if path.trim() == "cfg" && is_test_cfg(arguments) {
            found.push((at, after, false));
        } else if path == "test" || path.ends_with("::test") {
            functions.push((at, after, true));
        }
    }
    found.append(&mut functions);
    found
}

fn is_test_cfg(condition: &str) -> bool {
    let has_word = super::words(condition).any(|(_, word)| word == "test");
    let dense: String = condition.split_whitespace().collect();
    has_word
        && !dense.contains("not(test")
        && (!dense.contains("feature") || dense.strip_prefix("all(").unwrap_or(&dense).starts_with("test"))
}

/// Returns the end of the item, or the field, that begins at `at`.
fn end_of_item(text: &str, at: usize) -> usize {
    let mut nested = 0;
    let mut chars = text[at..].char_indices();
    while let Some((offset, c)) = chars.next() {
        let here = at + offset;
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            '{' => {
                let mut depth = 1;
                let mut end = text.len();
                for (offset, c) in chars.by_ref() {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    if depth == 0 {
                        end = at + offset + 1;
                        break;
                    }
                }
                let rest = text[end..].trim_start();
                return if rest.starts_with(';') { text.len() - rest.len() + 1 } else { end };
            }
            ';' | ',' if nested == 0 => return here + 1,
            '}' => return here,
            _ => {}
        }
    }
    text.len()
}

/// Returns the name of a module of another file that the item declares.
fn declared_module(item: &str) -> Option<String> {
    super::words(item).find_map(|(at, word)| {
        let rest = item[at + word.len()..].trim_start();
        let (_, name) = super::words(rest).next().filter(|(at, _)| *at == 0)?;
        (word == "mod" && rest[name.len()..].trim_start().starts_with(';')).then(|| name.to_owned())
    })
}

#[test]
fn lines_of_tests_comments_and_literals_are_told_apart() {
    let text = "//! Page.\nuse a; // why\n/* x\n /* y */ */ fn f<'a>(c: char) { c == '\\'' || c == '\\u{1f}' || c == '\"'; }\n\
        const S: &str = \"one\n\\\" // two\";\nconst R: &str = r#\"a\"b\"#;\n#[cfg(all(test, feature = \"x\"))]\nmod tests;\n\
        #[cfg(not(test))]\nfn g() {}\n#[tokio::test]\nfn t() {\n    g();\n}\n#[cfg(any(test, feature = \"x\"))]\nfn h() {}\n";
    let parsed = parse("x.rs", text);
    assert_eq!((parsed.file.lines, parsed.file.tests), (9, 6), "{}", parsed.file.text);
    assert_eq!((parsed.file.strings, parsed.test_modules), (13 + 3 + 1, vec!["tests".to_owned()]));
    assert!(is_test_path("a/tests/b.rs") && is_test_path("slab_tests.rs") && !is_test_path("a/contest.rs"));
}
