//! Reads the output of `cargo test`: which tests of which binary ran, and how they ended.

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// What one run of one test binary said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// As cargo shows the root file: `unittests src/lib.rs`, or `tests/name.rs`.
    pub(super) header: String,
    /// The name of the binary, without the hash that cargo appends.
    pub(super) binary: String,
    /// With the hash: tells two builds or two packages apart.
    pub(super) executable: String,
    pub(super) results: Vec<(String, Outcome)>,
}

/// Reads all runs in `text`; documentation tests are left out, for they have no names to cite by.
pub(super) fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut current = false;
    let mut pending: Option<String> = None;
    for line in text.lines() {
        let line = strip_colours(line);
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

/// `Running unittests src/lib.rs (target/debug/deps/mcp_proto-0123456789abcdef)`
fn header(line: &str) -> Option<Section> {
    let (header, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let executable = path.rsplit(['/', '\\']).next()?.trim_end_matches(".exe");
    let (binary, hash) = executable.rsplit_once('-')?;
    let known = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    known.then(|| Section {
        header: header.replace('\\', "/"),
        binary: binary.to_owned(),
        executable: path.replace('\\', "/"),
        results: Vec::new(),
    })
}

fn test_name(name: &str) -> String {
    name.trim_end_matches(" - should panic").to_owned()
}

fn outcome(text: &str) -> Option<Outcome> {
    // With `--report-time` the duration follows.
    let text = text.split(" <").next()?.trim();
    match text {
        "ok" => Some(Outcome::Passed),
        "FAILED" => Some(Outcome::Failed),
        _ if text == "ignored" || text.starts_with("ignored, ") => Some(Outcome::Ignored),
        _ => None,
    }
}

fn strip_colours(line: &str) -> String {
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
    fn sections_and_outcomes() {
        let log = "   Compiling x v0.1.0\n\
            \u{1b}[1m\u{1b}[32m     Running\u{1b}[0m unittests src/lib.rs (target/debug/deps/mcp_proto-0123456789abcdef)\n\
            \nrunning 4 tests\ntest a::b ... \u{1b}[32mok\u{1b}[m\ntest c ... ignored, needs a network\n\
            test d - should panic ... ok\ntest e ... FAILED\n\ntest result: FAILED. 2 passed\n\
            \n     Running tests/demo.rs (target\\debug\\deps\\demo-fedcba9876543210.exe)\n\
            test a ... ok <0.001s>\ntest b ... said something\nmore\nok\ntest c ...\nok\nok\n\
            \n   Doc-tests mcp_proto\ntest src/lib.rs - x (line 3) ... ok\n";
        let results = |names: &[(&str, Outcome)]| {
            names.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect::<Vec<_>>()
        };
        let passed = Outcome::Passed;
        let expected = [
            Section {
                header: "unittests src/lib.rs".into(),
                binary: "mcp_proto".into(),
                executable: "target/debug/deps/mcp_proto-0123456789abcdef".into(),
                results: results(&[
                    ("a::b", passed),
                    ("c", Outcome::Ignored),
                    ("d", passed),
                    ("e", Outcome::Failed),
                ]),
            },
            Section {
                header: "tests/demo.rs".into(),
                binary: "demo".into(),
                executable: "target/debug/deps/demo-fedcba9876543210.exe".into(),
                results: results(&[("a", passed), ("b", passed), ("c", passed)]),
            },
        ];
        assert_eq!(parse(log), expected);
    }

    #[test]
    fn other_output_is_no_test() {
        assert_eq!(
            parse("test a ... ok\nRunning away (from x)\nRunning `target/debug/x`\ntest b ... ok"),
            []
        );
    }
}
