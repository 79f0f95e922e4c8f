//! Reads one Rust file far enough to find its tests, what they cite, and the modules that it declares.
//!
//! This is no parser of Rust: it knows tokens, brackets and the few items that matter, and steps over the rest.

use core::mem;

use super::tokens::{Placed, Token, tokenize};

/// What was found in one file.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) tests: Vec<FoundTest>,
    pub(super) modules: Vec<Module>,
    /// The line of each mistake in a citation, with a description.
    pub(super) problems: Vec<(usize, String)>,
}

/// A test function, or a macro call that makes one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundTest {
    /// The path within the file, with `::`.
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) ids: Vec<String>,
    /// Made by a macro: its tests may also be in a module of that name.
    pub(super) generated: bool,
}

/// `mod name;`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// The modules of this file that the declaration is in.
    pub(super) within: Vec<String>,
    pub(super) name: String,
    /// The value of its `#[path]`.
    pub(super) path: Option<String>,
}

/// Reads `text`.
pub(super) fn parse(text: &str) -> Source {
    let mut parser = Parser { tokens: tokenize(text), source: Source::default() };
    let end = parser.tokens.len();
    parser.items(0, end, &mut Vec::new());
    parser.source
}

/// What stands above an item.
#[derive(Default)]
struct Above {
    ids: Vec<String>,
    line: Option<usize>,
    /// The citation ended with a comma: the next comment goes on with it.
    more: bool,
    test: bool,
    path: Option<String>,
}

struct Parser {
    tokens: Vec<Placed>,
    source: Source,
}

impl Parser {
    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|placed| &placed.token)
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.token(at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The position behind the bracket that closes the one at `open`.
    fn behind(&self, open: usize, end: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..end {
            match self.token(at) {
                Some(Token::Open(_)) => depth += 1,
                Some(Token::Close) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        end
    }

    fn items(&mut self, start: usize, end: usize, within: &mut Vec<String>) {
        let mut above = Above::default();
        let mut at = start;
        while at < end {
            let line = self.tokens[at].line;
            at = match self.token(at) {
                Some(Token::Comment(text)) => {
                    let text = text.clone();
                    self.cite(&text, line, &mut above);
                    at + 1
                }
                Some(Token::Sign('#')) => self.attribute(at, end, &mut above),
                Some(Token::Word(word)) if word == "fn" && self.word(at + 1).is_some() => {
                    self.function(at, end, within, &mut above)
                }
                Some(Token::Word(word)) if word == "mod" && self.word(at + 1).is_some() => {
                    self.module(at, end, within, &mut above)
                }
                Some(Token::Word(_)) if self.token(at + 1) == Some(&Token::Sign('!')) => {
                    self.macro_call(at, end, within, &mut above)
                }
                Some(Token::Open(bracket)) => {
                    let ends_item = *bracket == '{';
                    let behind = self.behind(at, end);
                    self.no_citations(at, behind);
                    if ends_item {
                        self.drop_citation(&mut above);
                    }
                    behind
                }
                Some(Token::Sign(';')) => {
                    self.drop_citation(&mut above);
                    at + 1
                }
                _ => at + 1,
            };
        }
        self.drop_citation(&mut above);
    }

    fn cite(&mut self, comment: &str, line: usize, above: &mut Above) {
        let text = match comment.strip_prefix("covers:") {
            Some(text) => text,
            None if above.more => comment,
            None => return,
        };
        above.line.get_or_insert(line);
        // A remark may follow in brackets.
        let text = text.split('(').next().unwrap_or_default().trim();
        above.more = text.ends_with(',');
        for id in text.split([',', ' ']).filter(|id| !id.is_empty()) {
            if is_id(id) {
                above.ids.push(id.to_owned());
            } else {
                self.source.problems.push((line, format!("{id:?} is no requirement id")));
            }
        }
        if text.is_empty() {
            self.source.problems.push((line, "`covers:` names no id".into()));
        }
    }

    fn attribute(&mut self, at: usize, end: usize, above: &mut Above) -> usize {
        let inner = self.token(at + 1) == Some(&Token::Sign('!'));
        let open = at + 1 + usize::from(inner);
        if self.token(open) != Some(&Token::Open('[')) {
            return at + 1;
        }
        let behind = self.behind(open, end);
        let mut last = open + 1;
        while self.token(last + 1) == Some(&Token::Sign(':')) && self.word(last + 3).is_some() {
            last += 3;
        }
        match (self.word(last), self.token(last + 2)) {
            (Some("test"), _) => above.test = true,
            (Some("path"), Some(Token::Text(path))) => above.path = Some(path.clone()),
            _ => {}
        }
        behind
    }

    fn function(&mut self, at: usize, end: usize, within: &[String], above: &mut Above) -> usize {
        let found = mem::take(above);
        if found.test {
            let name = self.word(at + 1).unwrap_or_default();
            let path = within.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::");
            let line = self.tokens[at].line;
            self.source.tests.push(FoundTest { path, line, ids: found.ids, generated: false });
        } else {
            self.drop_citation(&mut { found });
        }
        let mut at = at + 2;
        while at < end {
            match self.token(at) {
                Some(Token::Sign(';')) => return at + 1,
                Some(Token::Open(bracket)) => {
                    let body = *bracket == '{';
                    let behind = self.behind(at, end);
                    self.no_citations(at, behind);
                    if body {
                        return behind;
                    }
                    at = behind;
                }
                _ => at += 1,
            }
        }
        end
    }

    fn module(&mut self, at: usize, end: usize, within: &mut Vec<String>, above: &mut Above) -> usize {
        let name = self.word(at + 1).unwrap_or_default().to_owned();
        let path = above.path.take();
        self.drop_citation(above);
        if self.token(at + 2) != Some(&Token::Open('{')) {
            self.source.modules.push(Module { within: within.clone(), name, path });
            return at + 2;
        }
        let behind = self.behind(at + 2, end);
        within.push(name);
        self.items(at + 3, behind.saturating_sub(1), within);
        within.pop();
        behind
    }

    fn macro_call(&mut self, at: usize, end: usize, within: &mut Vec<String>, above: &mut Above) -> usize {
        let definition = self.word(at) == Some("macro_rules");
        let open = at + 2 + usize::from(definition);
        if !matches!(self.token(open), Some(Token::Open(_))) {
            return at + 2;
        }
        let behind = self.behind(open, end);
        let name = self.word(open + 1).map(str::to_owned);
        if let (Some(name), false) = (&name, definition || above.ids.is_empty()) {
            let path = within.iter().chain([name]).map(String::as_str).collect::<Vec<_>>().join("::");
            let line = self.tokens[at].line;
            let ids = mem::take(above).ids;
            self.source.tests.push(FoundTest { path, line, ids, generated: true });
        }
        self.drop_citation(above);
        if definition || name.is_some() {
            self.no_citations(open, behind);
        } else {
            // A macro around whole items.
            self.items(open + 1, behind.saturating_sub(1), within);
        }
        behind
    }

    /// Ends an item that is no test.
    fn drop_citation(&mut self, above: &mut Above) {
        if let Some(line) = mem::take(above).line {
            self.source.problems.push((line, "`covers:` is not directly above a test".into()));
        }
    }

    fn no_citations(&mut self, start: usize, end: usize) {
        for placed in &self.tokens[start..end] {
            if matches!(&placed.token, Token::Comment(text) if text.starts_with("covers:")) {
                let problem = "`covers:` is not directly above a test".into();
                self.source.problems.push((placed.line, problem));
            }
        }
    }
}

/// `AREA-001`
fn is_id(text: &str) -> bool {
    let Some((area, number)) = text.split_once('-') else { return false };
    let digits = number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    digits && !area.is_empty() && area.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(path: &str, line: usize, ids: &[&str], generated: bool) -> FoundTest {
        FoundTest { path: path.into(), line, ids: ids.iter().map(|id| (*id).to_owned()).collect(), generated }
    }

    #[test]
    fn functions_with_and_without_citations() {
        let source = parse(
            "// covers: BASE-001, BASE-017\n#[test]\nfn one() {}\n\
             #[test]\n// an ordinary comment\n// covers: ERR-001 (one half)\n#[ignore]\npub(crate) fn two() {}\n\
             mod deep { mod er { #[tokio::test] async fn three() -> Result<(), ()> { Ok(()) } } }\n\
             fn no_test() {}\n",
        );
        let tests = [
            test("one", 3, &["BASE-001", "BASE-017"], false),
            test("two", 8, &["ERR-001"], false),
            test("deep::er::three", 9, &[], false),
        ];
        assert_eq!(source.tests, tests);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn several_lines_of_ids() {
        let source =
            parse("// covers: BASE-001,\n// BASE-002\n// covers: ERR-001\n// prose\n#[test]\nfn one() {}");
        assert_eq!(source.tests, [test("one", 6, &["BASE-001", "BASE-002", "ERR-001"], false)]);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn macros_name_their_test_first() {
        let source = parse(
            "macro_rules! pair_test { ($name:ident) => { #[test] fn $name() {} } }\n\
             mod pairs {\n// covers: VER-001\npair_test!(newest, 1);\n// covers: VER-002\ncrate::pair_test! { oldest }\n}\n\
             other!(uncited);\n\
             wrap! { #![setting] // covers: VER-003\n #[test] fn inside(a in 0..3) {} }",
        );
        let tests = [
            test("pairs::newest", 4, &["VER-001"], true),
            test("pairs::oldest", 6, &["VER-002"], true),
            test("inside", 10, &["VER-003"], false),
        ];
        assert_eq!(source.tests, tests);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn modules_in_files_of_their_own() {
        let source = parse("#[cfg(test)]\n#[path = \"../x.rs\"]\nmod a;\npub mod b { mod c; }\nmod d;");
        let module = |within: &[&str], name: &str, path: Option<&str>| Module {
            within: within.iter().map(|name| (*name).to_owned()).collect(),
            name: name.into(),
            path: path.map(str::to_owned),
        };
        let modules = [module(&[], "a", Some("../x.rs")), module(&["b"], "c", None), module(&[], "d", None)];
        assert_eq!(source.modules, modules);
    }

    #[test]
    fn text_that_only_looks_like_a_citation() {
        let source = parse(
            "//! // covers: BASE-001\n/// // covers: BASE-001\nstruct S<'a>(&'a str, char);\n\
             /* // covers: BASE-001\n /* nested */ fn x() { */\n\
             const A: &str = \"// covers: BASE-001 { \\\" \";\nconst B: &[u8] = br#\"\n// covers: X \"{ \"#;\n\
             const C: [char; 3] = ['{', '\\'', b'\"' as char];\n\
             fn f<'a>(r: fn(&'a str), r#mod: u8) where 'a: 'a {}\n#[test]\nfn end() {}",
        );
        assert_eq!(source.tests, [test("end", 12, &[], false)]);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn citations_that_would_be_lost() {
        for (text, line) in [
            ("// covers: BASE-001\nfn no_test() {}", 1),
            ("#[test]\nfn t() {\n // covers: BASE-001\n}", 3),
            ("// covers: BASE-001\nmod m { #[test] fn t() {} }", 1),
            ("// covers: BASE-001\nuse a::b;\n#[test] fn t() {}", 1),
            ("impl S {\n// covers: BASE-001\n#[test] fn t() {} }", 2),
            ("#[test] fn t() {}\n// covers: BASE-001", 2),
            ("macro_rules! m { () => {\n// covers: BASE-001\n} }", 2),
            ("// covers: base-1\n#[test] fn t() {}", 1),
            ("// covers:\n#[test] fn t() {}", 1),
        ] {
            let problems = parse(text).problems;
            assert_eq!(
                problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(),
                [line],
                "{text}: {problems:?}"
            );
        }
    }
}
