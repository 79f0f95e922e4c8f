//! Readers in other languages: one process for all inputs of a kind.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::compare::Comparison;
use crate::h11::{run_command, unpack_h11};

/// Reads a line of hexadecimal digits per input and writes a line of JSON: the value, or null if it is refused.
const PYTHON_LOOP: &str = "
import json, sys
for line in sys.stdin:
    try: value = read(bytes.fromhex(line))
    except Exception: value = None
    print(json.dumps(value))
";

/// The same in JavaScript. What is read at once has no limit of the pipe.
const NODE_LOOP: &str = "
const answers = require('node:fs').readFileSync(0, 'latin1').split('\\n').slice(0, -1).map((line) => {
  try {
    return JSON.stringify(read(Buffer.from(line, 'hex')) ?? null);
  } catch {
    return 'null';
  }
});
require('node:fs').writeFileSync(1, answers.join('\\n') + '\\n');
";

/// A reader, and the inputs that it has to read, with our value and the class of each.
pub(crate) struct Process {
    reader: &'static str,
    /// The reason if it cannot be run here.
    command: Result<Command, String>,
    inputs: Vec<(Vec<u8>, Value, &'static str)>,
}

impl Process {
    /// A reader in Python, from its standard library.
    pub(crate) fn python(reader: &'static str, script: &str) -> Self {
        let mut version = Command::new("python3");
        version.arg("--version");
        let command = run_command(version).map(|_| {
            let mut python = Command::new("python3");
            python.args(["-X", "utf8", "-c"]).arg(format!("{script}{PYTHON_LOOP}"));
            python
        });
        Self { reader, command, inputs: Vec::new() }
    }

    /// A reader in Python that uses h11.
    pub(crate) fn h11(script: &str) -> Self {
        let mut reader = Self::python("h11", script);
        let folder = unpack_h11(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        reader.command = reader.command.and_then(|mut python| {
            python.env("PYTHONPATH", folder?);
            Ok(python)
        });
        reader
    }

    /// A reader in JavaScript, from the library of Node 20.
    pub(crate) fn node(reader: &'static str, script: &str) -> Self {
        let mut version = Command::new("node");
        version.arg("--version");
        let command = run_command(version).and_then(|version| {
            let mut node = Command::new("node");
            node.args(["--no-deprecation", "-e"]).arg(format!("{script}{NODE_LOOP}"));
            if version.starts_with("v20.") {
                Ok(node)
            } else {
                Err(format!("Node 20 is needed, this is {version}"))
            }
        });
        Self { reader, command, inputs: Vec::new() }
    }

    /// A reader in JavaScript that uses the package that a folder of `tests/peers` has in its lock file.
    pub(crate) fn npm(reader: &'static str, folder: &str, script: &str) -> Self {
        let mut reader = Self::node(reader, script);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers").join(folder);
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        let modules = folder.join("node_modules");
        let ready = if modules.is_dir() { Ok(String::new()) } else { run_command(install) };
        reader.command = reader.command.and_then(|mut node| {
            ready?;
            node.env("NODE_PATH", modules);
            Ok(node)
        });
        reader
    }

    pub(crate) fn ask(&mut self, input: &[u8], ours: Value, class: &'static str) {
        self.inputs.push((input.to_vec(), ours, class));
    }

    /// Runs the script over all inputs. If that is impossible it prints why, or fails if `CI` is `true`.
    pub(crate) fn compare(self, comparison: &mut Comparison) {
        let reader = self.reader;
        let mut command = match self.command {
            Ok(command) => command,
            Err(reason) => {
                let line = format!("NOT CHECKED: {reader}: {reason}");
                assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
                let _ = writeln!(std::io::stderr(), "{line}");
                return comparison.skip(reader);
            }
        };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the reader starts");
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
            comparison.check(reader, input, ours, Some(&theirs), class);
        }
    }
}
