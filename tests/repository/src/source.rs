//! Scanner of one Rust file: its tests, their citations, and the modules that it declares.
//!
//! It is not a parser of Rust. It knows tokens, brackets and a few items, and skips the rest.

use core::mem;

use super::tokens::{SourceToken, SpannedToken, tokenize};

/// Begins a citation of requirements from which a test shows a deviation.
const GAP: &str = "gap:";

/// Beginnings of the comments that cite requirements.
const CITATIONS: [&str; 2] = ["covers:", GAP];

/// Tests, modules and faulty citations of one file.
#[derive(Debug, Default)]
pub(super) struct SourceItems {
    pub(super) tests: Vec<TestItem>,
    pub(super) modules: Vec<ModuleItem>,
    /// Line and description of each faulty citation.
    pub(super) problems: Vec<(usize, String)>,
}

/// A test function, or a macro call that makes one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestItem {
    /// Path within the file, joined by `::`.
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) ids: Vec<String>,
    /// Requirements from which the test shows a deviation.
    pub(super) gaps: Vec<String>,
    /// Whether a macro makes it. Its tests may then also be in a module of that name.
    pub(super) is_generated: bool,
}

/// A declaration `mod name;`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModuleItem {
    /// Modules of this file that enclose the declaration.
    pub(super) ancestors: Vec<String>,
    pub(super) name: String,
    /// Value of its `#[path]`.
    pub(super) path: Option<String>,
}

/// Scans `text`.
pub(super) fn parse(text: &str) -> SourceItems {
    let mut parser = SourceParser { tokens: tokenize(text), source: SourceItems::default() };
    let end = parser.tokens.len();
    parser.items(0, end, &mut Vec::new());
    parser.source
}

/// Comments and attributes above an item.
#[derive(Default)]
struct ItemPrelude {
    ids: Vec<String>,
    gaps: Vec<String>,
    line: Option<usize>,
    /// Keyword of a citation that ended with a comma, so that the next comment continues it.
    continues: Option<&'static str>,
    is_test: bool,
    path: Option<String>,
}

struct SourceParser {
    tokens: Vec<SpannedToken>,
    source: SourceItems,
}

impl SourceParser {
    fn token(&self, at: usize) -> Option<&SourceToken> {
        self.tokens.get(at).map(|placed| &placed.token)
    }

    fn ident(&self, at: usize) -> Option<&str> {
        match self.token(at) {
            Some(SourceToken::Ident(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns the position behind the bracket that closes the one at `open`.
    fn end_of_group(&self, open: usize, end: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..end {
            match self.token(at) {
                Some(SourceToken::Open(_)) => depth += 1,
                Some(SourceToken::Close) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        end
    }

    fn items(&mut self, start: usize, end: usize, within: &mut Vec<String>) {
        let mut above = ItemPrelude::default();
        let mut at = start;
        while at < end {
            let line = self.tokens[at].line;
            at = match self.token(at) {
                Some(SourceToken::Comment(text)) => {
                    let text = text.clone();
                    self.parse_citation(&text, line, &mut above);
                    at + 1
                }
                Some(SourceToken::Punct('#')) => self.attribute(at, end, &mut above),
                Some(SourceToken::Ident(word)) if word == "fn" && self.ident(at + 1).is_some() => {
                    self.function(at, end, within, &mut above)
                }
                Some(SourceToken::Ident(word)) if word == "mod" && self.ident(at + 1).is_some() => {
                    self.module(at, end, within, &mut above)
                }
                Some(SourceToken::Ident(_)) if self.token(at + 1) == Some(&SourceToken::Punct('!')) => {
                    self.macro_call(at, end, within, &mut above)
                }
                Some(SourceToken::Open(bracket)) => {
                    let ends_item = *bracket == '{';
                    let after = self.end_of_group(at, end);
                    self.reject_citations(at, after);
                    if ends_item {
                        self.drop_citation(&mut above);
                    }
                    after
                }
                Some(SourceToken::Punct(';')) => {
                    self.drop_citation(&mut above);
                    at + 1
                }
                _ => at + 1,
            };
        }
        self.drop_citation(&mut above);
    }

    fn parse_citation(&mut self, comment: &str, line: usize, above: &mut ItemPrelude) {
        let cited = CITATIONS.into_iter().find_map(|keyword| Some((keyword, comment.strip_prefix(keyword)?)));
        let Some((keyword, text)) = cited.or_else(|| Some((above.continues?, comment))) else { return };
        above.line.get_or_insert(line);
        // A remark in brackets may follow.
        let text = text.split('(').next().unwrap_or_default().trim();
        above.continues = text.ends_with(',').then_some(keyword);
        for id in text.split([',', ' ']).filter(|id| !id.is_empty()) {
            if is_requirement_id(id) {
                let ids = if keyword == GAP { &mut above.gaps } else { &mut above.ids };
                ids.push(id.to_owned());
            } else {
                self.source.problems.push((line, format!("{id:?} is not a requirement id")));
            }
        }
        if text.is_empty() {
            self.source.problems.push((line, format!("`{keyword}` names no id")));
        }
    }

    fn attribute(&mut self, at: usize, end: usize, above: &mut ItemPrelude) -> usize {
        let inner = self.token(at + 1) == Some(&SourceToken::Punct('!'));
        let open = at + 1 + usize::from(inner);
        if self.token(open) != Some(&SourceToken::Open('[')) {
            return at + 1;
        }
        let after = self.end_of_group(open, end);
        let mut last = open + 1;
        while self.token(last + 1) == Some(&SourceToken::Punct(':')) && self.ident(last + 3).is_some() {
            last += 3;
        }
        match (self.ident(last), self.token(last + 2)) {
            (Some("test"), _) => above.is_test = true,
            (Some("path"), Some(SourceToken::StringLiteral(path))) => above.path = Some(path.clone()),
            _ => {}
        }
        after
    }

    fn function(&mut self, at: usize, end: usize, within: &[String], above: &mut ItemPrelude) -> usize {
        let found = mem::take(above);
        if found.is_test {
            let name = self.ident(at + 1).unwrap_or_default();
            let path = within.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::");
            let line = self.tokens[at].line;
            let ItemPrelude { ids, gaps, .. } = found;
            self.source.tests.push(TestItem { path, line, ids, gaps, is_generated: false });
        } else {
            self.drop_citation(&mut { found });
        }
        let mut at = at + 2;
        while at < end {
            match self.token(at) {
                Some(SourceToken::Punct(';')) => return at + 1,
                Some(SourceToken::Open(bracket)) => {
                    let body = *bracket == '{';
                    let after = self.end_of_group(at, end);
                    self.reject_citations(at, after);
                    if body {
                        return after;
                    }
                    at = after;
                }
                _ => at += 1,
            }
        }
        end
    }

    fn module(&mut self, at: usize, end: usize, within: &mut Vec<String>, above: &mut ItemPrelude) -> usize {
        let name = self.ident(at + 1).unwrap_or_default().to_owned();
        let path = above.path.take();
        self.drop_citation(above);
        if self.token(at + 2) != Some(&SourceToken::Open('{')) {
            self.source.modules.push(ModuleItem { ancestors: within.clone(), name, path });
            return at + 2;
        }
        let after = self.end_of_group(at + 2, end);
        within.push(name);
        self.items(at + 3, after.saturating_sub(1), within);
        within.pop();
        after
    }

    fn macro_call(
        &mut self,
        at: usize,
        end: usize,
        within: &mut Vec<String>,
        above: &mut ItemPrelude,
    ) -> usize {
        let definition = self.ident(at) == Some("macro_rules");
        let open = at + 2 + usize::from(definition);
        if !matches!(self.token(open), Some(SourceToken::Open(_))) {
            return at + 2;
        }
        let after = self.end_of_group(open, end);
        let name = self.ident(open + 1).map(str::to_owned);
        if let (Some(name), false) = (&name, definition || above.ids.is_empty() && above.gaps.is_empty()) {
            let path = within.iter().chain([name]).map(String::as_str).collect::<Vec<_>>().join("::");
            let line = self.tokens[at].line;
            let ItemPrelude { ids, gaps, .. } = mem::take(above);
            self.source.tests.push(TestItem { path, line, ids, gaps, is_generated: true });
        }
        self.drop_citation(above);
        if definition || name.is_some() {
            self.reject_citations(open, after);
        } else {
            // A macro around whole items.
            self.items(open + 1, after.saturating_sub(1), within);
        }
        after
    }

    /// Ends an item that is not a test.
    fn drop_citation(&mut self, above: &mut ItemPrelude) {
        if let Some(line) = mem::take(above).line {
            self.source.problems.push((line, "a citation is not directly above a test".into()));
        }
    }

    fn reject_citations(&mut self, start: usize, end: usize) {
        for placed in &self.tokens[start..end] {
            let SourceToken::Comment(text) = &placed.token else { continue };
            if CITATIONS.iter().any(|keyword| text.starts_with(keyword)) {
                let problem = "a citation is not directly above a test".into();
                self.source.problems.push((placed.line, problem));
            }
        }
    }
}

/// Returns whether `text` has the form `AREA-001`.
fn is_requirement_id(text: &str) -> bool {
    let Some((area, number)) = text.split_once('-') else { return false };
    let digits = number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    digits && !area.is_empty() && area.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(path: &str, line: usize, ids: &[&str], is_generated: bool) -> TestItem {
        TestItem {
            path: path.into(),
            line,
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            gaps: Vec::new(),
            is_generated,
        }
    }

    #[test]
    fn tests_are_found_with_and_without_citations() {
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
    fn citation_continues_after_a_comma() {
        let source =
            parse("// covers: BASE-001,\n// BASE-002\n// covers: ERR-001\n// prose\n#[test]\nfn one() {}");
        assert_eq!(source.tests, [test("one", 6, &["BASE-001", "BASE-002", "ERR-001"], false)]);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn gaps_are_cited_apart_from_what_is_covered() {
        let source = parse(
            "// covers: BASE-001\n// gap: ERR-001,\n// ERR-002\n#[test]\nfn one() {}\n// gap: VER-001\nmade!(two, 1);",
        );
        let mut expected = [test("one", 5, &["BASE-001"], false), test("two", 7, &[], true)];
        expected[0].gaps = vec!["ERR-001".into(), "ERR-002".into()];
        expected[1].gaps = vec!["VER-001".into()];
        assert_eq!(source.tests, expected);
        assert_eq!(source.problems, []);
    }

    #[test]
    fn macro_call_names_its_test_first() {
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
    fn module_declarations_are_found() {
        let source = parse("#[cfg(test)]\n#[path = \"../x.rs\"]\nmod a;\npub mod b { mod c; }\nmod d;");
        let module = |within: &[&str], name: &str, path: Option<&str>| ModuleItem {
            ancestors: within.iter().map(|name| (*name).to_owned()).collect(),
            name: name.into(),
            path: path.map(str::to_owned),
        };
        let modules = [module(&[], "a", Some("../x.rs")), module(&["b"], "c", None), module(&[], "d", None)];
        assert_eq!(source.modules, modules);
    }

    #[test]
    fn strings_and_block_comments_are_not_citations() {
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
    fn misplaced_citations_are_reported() {
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
            ("// gap: BASE-001\nfn no_test() {}", 1),
            ("#[test]\nfn t() {\n // gap: BASE-001\n}", 3),
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
