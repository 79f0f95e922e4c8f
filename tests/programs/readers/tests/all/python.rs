//! Readers of Python's standard library: one process for all inputs of a kind.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::compare::Comparison;

/// Reads a line of hexadecimal digits per input and writes a line of JSON: the value, or null if it is refused.
const LOOP: &str = "
import json, sys
for line in sys.stdin:
    try: value = read(bytes.fromhex(line))
    except Exception: value = None
    print(json.dumps(value))
";

/// A reader, and the inputs that it has to read, with our value and the class of each.
pub(crate) struct Python {
    reader: &'static str,
    script: &'static str,
    inputs: Vec<(Vec<u8>, Value, &'static str)>,
}

impl Python {
    pub(crate) fn new(reader: &'static str, script: &'static str) -> Self {
        Self { reader, script, inputs: Vec::new() }
    }

    pub(crate) fn ask(&mut self, input: &[u8], ours: Value, class: &'static str) {
        self.inputs.push((input.to_vec(), ours, class));
    }

    /// Runs the script over all inputs. Without Python it prints that, or fails if `CI` is `true`.
    pub(crate) fn compare(self, comparison: &mut Comparison) {
        let mut command = Command::new("python3");
        command.args(["-X", "utf8", "-c"]).arg(format!("{}{LOOP}", self.script));
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            let line = format!("NOT CHECKED: {}: there is no python3", self.reader);
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
            let _ = writeln!(std::io::stderr(), "{line}");
            return comparison.skip(self.reader);
        };
        let mut stdin = child.stdin.take().expect("its input");
        let mut lines = String::new();
        for (input, ..) in &self.inputs {
            input.iter().for_each(|byte| write!(lines, "{byte:02x}").expect("a string"));
            lines.push('\n');
        }
        let feed = thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let done = child.wait_with_output().expect("the reader ends");
        feed.join().expect("a thread").expect("the reader reads");
        let output = String::from_utf8(done.stdout).expect("text");
        assert_eq!(output.lines().count(), self.inputs.len(), "expected a line per input");
        for ((input, ours, class), line) in self.inputs.iter().zip(output.lines()) {
            let theirs: Value = serde_json::from_str(line).expect("JSON");
            comparison.check(self.reader, input, ours, Some(&theirs), class);
        }
    }
}
