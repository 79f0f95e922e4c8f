//! Program that reports the requirements of the protocol that the tests cover: see [`mcp_repository_tests`].

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use mcp_repository_tests::Requirements;

const USAGE: &str = "\
Reports which requirements of the protocol the tests cover.

usage:
  requirements report [--strict] LOG...   compare the citations with the output of `cargo test` in each LOG
  requirements show ID...                 print a requirement and the tests that cite it

A LOG holds stdout and stderr, without --quiet: `cargo test --workspace 2>&1 | tee LOG`.
`report` exits with 1 if a requirement has neither a test that ran nor a reason in tests/uncovered.tsv, or if a
citation or a reason is wrong. With --strict it also exits with 1 if a citing test did not run.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok((text, passed)) => {
            // A reader that closed the pipe needs no more output.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::from(u8::from(!passed))
        }
        Err(problem) => {
            eprintln!("requirements: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(String, bool), String> {
    let Some((command, arguments)) = arguments.split_first() else {
        return Err(format!("no command\n\n{USAGE}"));
    };
    let (options, operands): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with('-'));
    if command == "--help" || command == "-h" || options.contains(&"--help") {
        return Ok((USAGE.into(), true));
    }
    let strict = command == "report" && options == ["--strict"];
    if !(strict || options.is_empty()) {
        return Err(format!("unknown option {}\n\n{USAGE}", options.join(" ")));
    }
    if !matches!(command.as_str(), "report" | "show") || operands.is_empty() {
        return Err(format!("{command}: unknown command, or operand missing\n\n{USAGE}"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let requirements = Requirements::load(folder.ancestors().nth(2).unwrap_or(folder))?;
    if command == "show" {
        let show = |id: &&str| requirements.show(id).ok_or_else(|| format!("unknown requirement {id}"));
        return Ok((operands.iter().map(show).collect::<Result<String, _>>()?, true));
    }
    let read = |path: &&str| {
        // Tests may print any bytes.
        let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let logs = operands.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let report = requirements.report(&logs, strict);
    Ok((report.text, report.passed))
}
