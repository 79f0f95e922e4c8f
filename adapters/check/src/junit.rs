//! Reports in JUnit's XML, for CI servers.

use core::time::Duration;

use mcp_proto_trace::masked;

/// A test with its outcome.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// The name.
    pub name: String,
    /// How long it took, if that is known.
    pub time: Option<Duration>,
    /// The outcome.
    pub outcome: TestOutcome,
}

/// The outcome of a [`TestCase`].
#[derive(Clone, Debug)]
pub enum TestOutcome {
    /// It has passed.
    Passed,
    /// It has passed, and something is to be said about it.
    Noted(String),
    /// It has failed.
    Failed {
        /// The kind of failure.
        kind: &'static str,
        /// What is wrong, in one line.
        message: String,
        /// The details.
        text: String,
    },
    /// It could not be decided, for this reason.
    Error(String),
    /// It was not run, for this reason.
    Skipped(String),
}

impl TestCase {
    /// Creates a test that has passed.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), time: None, outcome: TestOutcome::Passed }
    }

    /// Returns whether it has failed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        matches!(self.outcome, TestOutcome::Failed { .. })
    }
}

/// Returns the report of one suite. `command` is that of `mcp-probe` which it is named after. Secrets are masked by their form.
#[must_use]
pub fn report(command: &str, suite: &str, cases: &[TestCase]) -> String {
    let number = |is: fn(&TestCase) -> bool| cases.iter().filter(|case| is(case)).count();
    let errors = number(|case| matches!(case.outcome, TestOutcome::Error(_)));
    let skipped = match number(|case| matches!(case.outcome, TestOutcome::Skipped(_))) {
        0 => String::new(),
        skipped => format!(" skipped=\"{skipped}\""),
    };
    let (tests, failures) = (cases.len(), number(TestCase::has_failed));
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"{skipped}");
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"mcp-probe {command}\" {counts}>\n  <testsuite name=\"{}\" {counts}>\n",
        xml(suite)
    );
    for case in cases {
        push_case(&mut out, command, case);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn push_case(out: &mut String, command: &str, case: &TestCase) {
    let time = case.time.map(|time| format!(" time=\"{:.3}\"", time.as_secs_f64())).unwrap_or_default();
    let begin = format!("    <testcase classname=\"mcp-probe.{command}\" name=\"{}\"{time}", xml(&case.name));
    let inner = match &case.outcome {
        TestOutcome::Passed => {
            out.push_str(&(begin + "/>\n"));
            return;
        }
        TestOutcome::Noted(text) => format!("<system-out>{}</system-out>", xml(text)),
        TestOutcome::Failed { kind, message, text } => {
            format!("<failure type=\"{kind}\" message=\"{}\">{}</failure>", xml(message), xml(text))
        }
        TestOutcome::Error(message) => format!("<error message=\"{}\"/>", xml(message)),
        TestOutcome::Skipped(message) => format!("<skipped message=\"{}\"/>", xml(message)),
    };
    out.push_str(&(begin + ">" + &inner + "</testcase>\n"));
}

/// Escapes text for XML 1.0, without secrets. What it may not contain at all is replaced.
fn xml(text: &str) -> String {
    let text = masked(text);
    let is_plain = |c: char| {
        !matches!(c, '&' | '<' | '>' | '"' | '\u{fffe}' | '\u{ffff}') && (c == '\n' || !c.is_control())
    };
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if is_plain(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_counts_each_outcome_and_escapes_what_xml_cannot_hold() {
        let case = |name: &str, outcome| TestCase { outcome, ..TestCase::new(name) };
        let cases = [
            TestCase { time: Some(Duration::from_millis(1_500)), ..TestCase::new("a<b") },
            case(
                "failed",
                TestOutcome::Failed { kind: "x", message: "\"\u{1b}".into(), text: "1\n2".into() },
            ),
            case("skipped", TestOutcome::Skipped("why".into())),
        ];
        let text = report("test", "s&s", &cases);
        for part in [
            "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"",
            "<testsuite name=\"s&amp;s\"",
            "name=\"a&lt;b\" time=\"1.500\"/>",
            "<failure type=\"x\" message=\"&quot;\u{fffd}\">1\n2</failure>",
            "<skipped message=\"why\"/>",
        ] {
            assert!(text.contains(part), "no {part}: {text}");
        }
        assert!(!report("test", "s", &cases[..1]).contains("skipped"));
    }
}
