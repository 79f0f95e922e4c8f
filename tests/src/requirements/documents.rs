//! The documents that the project follows, requirement group by requirement group: `documents.tsv` and `DOCUMENTS.md`.
//!
//! A row names tests by package, binary and path. Each of them must exist and cite a requirement of the row; a row that
//! claims to be followed in full needs a named test for every one of its requirements. A row with a gap needs a test that
//! shows the gap, so that the reason cannot outlive it.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Write as _;

use super::targets::CitedTest;
use super::{Requirements, rows};

const HEAD: &str = "\
# Documents

The project follows five documents. Each row below is a group of their requirements, with the tests that show it. *Partly*
and *not followed* say what differs; at least one of their tests shows the gap, and fails when it closes. *Shared* says what
is left to the program that uses the library, beside what the tests show. *Application* marks duties of that program alone.
The ids are those of [`spec-map.tsv`](spec-map.tsv); `cargo run -p mcp-tests --bin requirements -- show ID` prints
one with all of its tests, of which this page names the most direct ones.

This page is written from [`documents.tsv`](documents.tsv) by `UPDATE_DOCUMENTS=1 cargo test -p mcp-tests --lib documents`.
";

/// A document: its title and a remark on its text.
struct Document {
    key: String,
    title: String,
    remark: String,
}

/// How far a requirement group is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conformance {
    Followed,
    /// The library does a part, the application the rest.
    Shared,
    Partly,
    Application,
    NotFollowed,
}

/// A requirement group of a document.
struct RequirementGroup {
    /// Line in `documents.tsv`.
    line: usize,
    document: String,
    section: String,
    text: String,
    ids: Vec<String>,
    conformance: Conformance,
    tests: Vec<String>,
    note: Option<String>,
}

/// Returns the parts of a column, which is `-` if it has none.
fn parts(column: &str, separator: &str) -> Vec<String> {
    match column {
        "-" => Vec::new(),
        column => column.split(separator).map(str::to_owned).collect(),
    }
}

fn parse(text: &str) -> Result<(Vec<Document>, Vec<RequirementGroup>), String> {
    let (mut documents, mut groups) = (Vec::<Document>::new(), Vec::new());
    for (line, row) in rows(text) {
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        let (document, section, text, ids, state, tests, note) = match row[..] {
            ["@", key, title, remark] => {
                let [key, title, remark] = [key, title, remark].map(str::to_owned);
                documents.push(Document { key, title, remark });
                continue;
            }
            [document, section, text, ids, state, tests, note] => {
                (document, section, text, ids, state, tests, note)
            }
            _ => return Err(format!("documents.tsv:{line}: expected 4 columns after @, or 7")),
        };
        let conformance = match state {
            "yes" => Conformance::Followed,
            "shared" => Conformance::Shared,
            "partly" => Conformance::Partly,
            "application" => Conformance::Application,
            "no" => Conformance::NotFollowed,
            _ => return Err(format!("documents.tsv:{line}: unknown state {state:?}")),
        };
        groups.push(RequirementGroup {
            line,
            document: document.into(),
            section: section.into(),
            text: text.into(),
            ids: parts(ids, " "),
            conformance,
            tests: parts(tests, "; "),
            note: Some(note).filter(|note| *note != "-").map(str::to_owned),
        });
    }
    Ok((documents, groups))
}

/// Returns the name of a test in `documents.tsv`.
fn test_name(test: &CitedTest) -> String {
    format!("{} {} {}", test.package, test.binary, test.path)
}

impl Requirements {
    /// Returns whether the workspace has a test, named as in `documents.tsv`: package, binary and path.
    #[must_use]
    pub fn has_test(&self, name: &str) -> bool {
        self.tests.tests.iter().any(|test| test_name(test) == name)
    }

    /// Renders `DOCUMENTS.md` from the text of `documents.tsv`.
    ///
    /// # Errors
    ///
    /// All problems, one per line: a malformed row, an unknown document, requirement or test, a test that cites no
    /// requirement of its row, a row without what its state needs, a gap that no test shows.
    pub fn documents(&self, text: &str) -> Result<String, String> {
        let (documents, groups) = parse(text)?;
        let tests: BTreeMap<String, &CitedTest> =
            self.tests.tests.iter().map(|test| (test_name(test), test)).collect();
        let mut problems = Vec::new();
        for group in &groups {
            if !documents.iter().any(|document| document.key == group.document) {
                problems.push((group.line, format!("unknown document {}", group.document)));
            }
            self.check_group(group, &tests, &mut |problem| problems.push((group.line, problem)));
        }
        if problems.is_empty() {
            return Ok(render(&documents, &groups, &tests));
        }
        let lines = problems.iter().map(|(line, problem)| format!("documents.tsv:{line}: {problem}\n"));
        Err(lines.collect())
    }

    fn check_group(
        &self,
        group: &RequirementGroup,
        tests: &BTreeMap<String, &CitedTest>,
        report: &mut dyn FnMut(String),
    ) {
        for id in group.ids.iter().filter(|id| self.find(id).is_none()) {
            report(format!("unknown requirement {id}"));
        }
        let (mut shown, mut shows_gap) = (BTreeSet::new(), false);
        for name in &group.tests {
            let Some(test) = tests.get(name) else {
                report(format!("no such test: {name}"));
                continue;
            };
            let cited = group.ids.iter().filter(|id| test.ids.contains(id)).collect::<Vec<_>>();
            let gap = group.ids.iter().any(|id| test.gaps.contains(id));
            shows_gap |= gap;
            if cited.is_empty() && !gap {
                report(format!("cites no requirement of the row: {name}"));
            }
            shown.extend(cited);
        }
        let (has_tests, has_note) = (!group.tests.is_empty(), group.note.is_some());
        let expected = match group.conformance {
            Conformance::Followed => (true, false),
            Conformance::Shared | Conformance::Partly | Conformance::NotFollowed => (true, true),
            Conformance::Application => (false, true),
        };
        if (has_tests, has_note) != expected {
            report(format!("{:?}: expected (tests, note) = {expected:?}", group.conformance));
        }
        let has_gap = matches!(group.conformance, Conformance::Partly | Conformance::NotFollowed);
        if has_tests && has_gap != shows_gap {
            let problem = if has_gap { "no named test shows the gap" } else { "a named test shows a gap" };
            report(format!("{:?}: {problem}", group.conformance));
        }
        if group.conformance == Conformance::Followed {
            for id in group.ids.iter().filter(|id| !shown.contains(id)) {
                report(format!("no named test cites {id}"));
            }
        }
    }
}

fn render(
    documents: &[Document],
    groups: &[RequirementGroup],
    tests: &BTreeMap<String, &CitedTest>,
) -> String {
    let mut page = HEAD.to_owned();
    for Document { key, title, remark } in documents {
        let _ = write!(
            page,
            "\n## {title}\n\n{remark}\n\n| section | requirement | ids | followed |\n|---|---|---|---|\n"
        );
        for group in groups.iter().filter(|group| group.document == *key) {
            let RequirementGroup { section, text, ids, .. } = group;
            let shown = outcome(group, tests);
            let _ = writeln!(page, "| {section} | {text} | {} | {shown} |", ids.join(", "));
        }
    }
    page
}

/// Renders the last column of a row.
fn outcome(group: &RequirementGroup, tests: &BTreeMap<String, &CitedTest>) -> String {
    let link = |name: &String| {
        let test = tests.get(name)?;
        let file = test.location.rsplit_once(':')?.0;
        let file = file.strip_prefix("tests/").map_or_else(|| format!("../{file}"), str::to_owned);
        Some(format!("[`{}`]({file})", test.path))
    };
    let links = group.tests.iter().filter_map(link).collect::<Vec<_>>().join(", ");
    let note = group.note.as_deref().unwrap_or_default();
    match group.conformance {
        Conformance::Followed => links,
        Conformance::Shared => format!("*Shared.* {note}. {links}"),
        Conformance::Partly => format!("*Partly.* {note}. {links}"),
        Conformance::Application => format!("*Application.* {note}."),
        Conformance::NotFollowed => format!("*Not followed.* {note}. {links}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::targets::CitedTests;
    use super::*;

    const SPEC_MAP: &str = "id\twho\tstrength\trevisions\tjob\trequirement\n\
        BASE-001\tboth\tMUST\tall\tC\tFirst.\nBASE-002\tcli\tMAY\tall\tX\tSecond.\n";
    const DOCUMENT: &str = "@\tdoc\tA document\tA remark.\n";

    fn requirements() -> Requirements {
        let test = |path: &str, ids: &[&str], gaps: &[&str]| CitedTest {
            location: "tests/demo.rs:7".into(),
            package: "a".into(),
            header: "demo.rs".into(),
            binary: "demo".into(),
            path: path.into(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            gaps: gaps.iter().map(|id| (*id).to_owned()).collect(),
            is_generated: false,
        };
        let tests = vec![test("one", &["BASE-001"], &[]), test("lacks", &[], &["BASE-002"])];
        let tests = CitedTests { tests, problems: Vec::new() };
        Requirements::new(SPEC_MAP, "", tests).unwrap()
    }

    #[test]
    fn rows_render_with_tests_or_reasons() {
        let rows = "doc\t1\tFirst\tBASE-001\tyes\ta demo one\t-\n\
            doc\t2\tBoth\tBASE-001 BASE-002\tpartly\ta demo one; a demo lacks\tNot the second\n\
            doc\t3\tSecond\tBASE-002\tapplication\t-\tIts own matter\n\
            doc\t4\tThird\tBASE-002\tno\ta demo lacks\tNot released\n\
            doc\t5\tFirst\tBASE-001\tshared\ta demo one\tThe rest is its own\n";
        let page = requirements().documents(&format!("{DOCUMENT}{rows}")).unwrap();
        assert_eq!(
            page.strip_prefix(HEAD).unwrap(),
            "\n## A document\n\nA remark.\n\n| section | requirement | ids | followed |\n|---|---|---|---|\n\
             | 1 | First | BASE-001 | [`one`](demo.rs) |\n\
             | 2 | Both | BASE-001, BASE-002 | *Partly.* Not the second. [`one`](demo.rs), [`lacks`](demo.rs) |\n\
             | 3 | Second | BASE-002 | *Application.* Its own matter. |\n\
             | 4 | Third | BASE-002 | *Not followed.* Not released. [`lacks`](demo.rs) |\n\
             | 5 | First | BASE-001 | *Shared.* The rest is its own. [`one`](demo.rs) |\n"
        );
    }

    #[test]
    fn rows_without_what_their_state_needs_are_refused() {
        for (row, problem) in [
            ("doc\t1\tFirst\tBASE-001\tyes\ta demo two\t-", "no such test: a demo two"),
            ("doc\t1\tFirst\tBASE-009\tyes\ta demo one\t-", "unknown requirement BASE-009"),
            (
                "doc\t1\tFirst\tBASE-002\tpartly\ta demo one\tHow",
                "cites no requirement of the row: a demo one",
            ),
            ("doc\t1\tFirst\tBASE-001 BASE-002\tyes\ta demo one\t-", "no named test cites BASE-002"),
            ("doc\t1\tFirst\tBASE-001\tyes\t-\t-", "Followed: expected"),
            ("doc\t1\tFirst\tBASE-001\tpartly\ta demo one\t-", "Partly: expected"),
            ("doc\t1\tFirst\tBASE-001\tno\t-\tWhy", "NotFollowed: expected"),
            ("doc\t1\tFirst\tBASE-001\tno\ta demo one\tWhy", "NotFollowed: no named test shows the gap"),
            ("doc\t1\tFirst\tBASE-001\tpartly\ta demo one\tHow", "Partly: no named test shows the gap"),
            (
                "doc\t1\tBoth\tBASE-001 BASE-002\tshared\ta demo one; a demo lacks\tHow",
                "Shared: a named test shows a gap",
            ),
            ("doc\t1\tFirst\tBASE-001\tshared\ta demo one\t-", "Shared: expected"),
            ("doc\t1\tFirst\tBASE-001\tapplication\ta demo one\tWhy", "Application: expected"),
            ("other\t1\tFirst\tBASE-001\tyes\ta demo one\t-", "unknown document other"),
            ("doc\t1\tFirst\tBASE-001\tmaybe\ta demo one\t-", "unknown state \"maybe\""),
            ("doc\t1\tFirst", "expected 4 columns"),
        ] {
            let found = requirements().documents(&format!("{DOCUMENT}{row}\n")).unwrap_err();
            assert!(found.starts_with("documents.tsv:2: ") && found.contains(problem), "{row}: {found}");
        }
    }

    #[test]
    fn documents_page_matches_rows_and_tests_of_the_tree() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let requirements = Requirements::load(folder.parent().unwrap()).unwrap();
        let text = std::fs::read_to_string(folder.join("documents.tsv")).unwrap();
        let page = requirements.documents(&text).unwrap_or_else(|problems| panic!("\n{problems}"));
        let path = folder.join("DOCUMENTS.md");
        if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
            return std::fs::write(path, page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        for (line, (want, got)) in page.lines().zip(written.lines()).enumerate() {
            assert_eq!(got, want, "DOCUMENTS.md:{}: run this test with UPDATE_DOCUMENTS=1", line + 1);
        }
        assert_eq!(written, page, "DOCUMENTS.md: run this test with UPDATE_DOCUMENTS=1");
    }
}
