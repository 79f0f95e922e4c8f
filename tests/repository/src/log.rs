//! Parser for the output of `cargo test`: the tests that each binary ran, and their outcomes.

/// Outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Passed,
    Failed,
    Ignored,
}

/// Output of one run of one test binary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogSection {
    /// Root file as cargo prints it: `unittests src/lib.rs`, or `tests/name.rs`.
    pub(super) header: String,
    /// Name of the binary, without the hash that cargo appends.
    pub(super) binary: String,
    /// Name of the binary with the hash, which distinguishes two builds or two packages.
    pub(super) executable: String,
    pub(super) results: Vec<(String, TestOutcome)>,
}

/// Returns all runs in `text`. Doctests are left out, because they have no names to cite.
pub(super) fn parse(text: &str) -> Vec<LogSection> {
    let mut sections: Vec<LogSection> = Vec::new();
    let mut current = false;
    let mut pending: Option<String> = None;
    for line in text.lines() {
        let line = strip_colors(line);
        let line = line.trim();
        if let Some(section) = header(line) {
            sections.push(section);
            (current, pending) = (true, None);
        } else if line.starts_with("Doc-tests ") {
            (current, pending) = (false, None);
        }
        let Some(section) = sections.last_mut().filter(|_| current) else { continue };
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            pending = match outcome(rest) {
                Some(outcome) => {
                    section.results.push((test_name(name), outcome));
                    None
                }
                // The test's own output stands between its name and its outcome.
                None => Some(test_name(name)),
            };
        } else if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ...")) {
            pending = Some(test_name(name));
        } else if let Some(outcome) = outcome(line).filter(|_| pending.is_some()) {
            section.results.extend(pending.take().map(|name| (name, outcome)));
        }
    }
    sections
}

/// Parses `Running unittests src/lib.rs (target/debug/deps/mcp_proto-0123456789abcdef)`.
fn header(line: &str) -> Option<LogSection> {
    let (header, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let executable = path.rsplit(['/', '\\']).next()?.trim_end_matches(".exe");
    let (binary, hash) = executable.rsplit_once('-')?;
    let known = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    known.then(|| LogSection {
        header: header.replace('\\', "/"),
        binary: binary.to_owned(),
        executable: path.replace('\\', "/"),
        results: Vec::new(),
    })
}

fn test_name(name: &str) -> String {
    name.trim_end_matches(" - should panic").to_owned()
}

fn outcome(text: &str) -> Option<TestOutcome> {
    // With `--report-time` the duration follows.
    let text = text.split(" <").next()?.trim();
    match text {
        "ok" => Some(TestOutcome::Passed),
        "FAILED" => Some(TestOutcome::Failed),
        _ if text == "ignored" || text.starts_with("ignored, ") => Some(TestOutcome::Ignored),
        _ => None,
    }
}

fn strip_colors(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_yields_sections_and_outcomes() {
        let log = "   Compiling x v0.1.0\n\
            \u{1b}[1m\u{1b}[32m     Running\u{1b}[0m unittests src/lib.rs (target/debug/deps/mcp_proto-0123456789abcdef)\n\
            \nrunning 4 tests\ntest a::b ... \u{1b}[32mok\u{1b}[m\ntest c ... ignored, needs a network\n\
            test d - should panic ... ok\ntest e ... FAILED\n\ntest result: FAILED. 2 passed\n\
            \n     Running tests/demo.rs (target\\debug\\deps\\demo-fedcba9876543210.exe)\n\
            test a ... ok <0.001s>\ntest b ... said something\nmore\nok\ntest c ...\nok\nok\n\
            \n   Doc-tests mcp_proto\ntest src/lib.rs - x (line 3) ... ok\n";
        let results = |names: &[(&str, TestOutcome)]| {
            names.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect::<Vec<_>>()
        };
        let passed = TestOutcome::Passed;
        let expected = [
            LogSection {
                header: "unittests src/lib.rs".into(),
                binary: "mcp_proto".into(),
                executable: "target/debug/deps/mcp_proto-0123456789abcdef".into(),
                results: results(&[
                    ("a::b", passed),
                    ("c", TestOutcome::Ignored),
                    ("d", passed),
                    ("e", TestOutcome::Failed),
                ]),
            },
            LogSection {
                header: "tests/demo.rs".into(),
                binary: "demo".into(),
                executable: "target/debug/deps/demo-fedcba9876543210.exe".into(),
                results: results(&[("a", passed), ("b", passed), ("c", passed)]),
            },
        ];
        assert_eq!(parse(log), expected);
    }

    #[test]
    fn other_output_yields_no_tests() {
        assert_eq!(
            parse("test a ... ok\nRunning away (from x)\nRunning `target/debug/x`\ntest b ... ok"),
            []
        );
    }
}
