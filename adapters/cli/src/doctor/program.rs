//! The steps of a server that is started, or reached at a socket: from the program to its first answer.

use core::time::Duration;
use std::env;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use mcp_std::io::StreamAddress;
use mcp_std::process::{Child, ProcessStatus};

use super::output::{FirstOutput, http_address, http_server};
use super::quote::clip;
use super::report::{Diagnosis, Finding, Passed};
use crate::args::StderrChoice;
use crate::client::SHUTDOWN_TIMEOUTS;
use crate::failure::{CommandFailure, UNREACHABLE_HINT};
use crate::server::ServerProgram;
use crate::start_fault::StartFault;

/// Starts the program and reads its first answer.
pub(super) fn diagnose(
    diagnosis: &mut Diagnosis,
    program: &ServerProgram,
    timeout: Duration,
) -> Result<(), CommandFailure> {
    diagnosis.check("directory", check_directory(program))?;
    let spawned = program.program(StderrChoice::Capture).spawn();
    let shown = Path::new(first_word(program)).display();
    let spawned = spawned.map(|child| (Passed::Ok(format!("{shown} is started")), child));
    let mut child = diagnosis.record("program", spawned.map_err(|error| StartFault::of(&error).into()))?;
    let name = program_name(program);
    let mut io = child.take_io().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let heard = FirstOutput::read(&mut io, timeout);
    let ended = check_running(program, &name, &heard, &mut child);
    let stderr = child.stderr_tail();
    child.shutdown(Some(io), SHUTDOWN_TIMEOUTS);
    diagnosis.check("start", ended)?;
    // A program that prints nothing may tell on stderr why.
    let told = heard.is_silent().then(|| explain_silence(program, &name, &stderr)).flatten();
    diagnosis.check("output", told.map_or_else(|| heard.judge(&name), Err))
}

/// Connects to a socket or a serial line and reads the first answer.
pub(super) fn diagnose_stream(
    diagnosis: &mut Diagnosis,
    address: &StreamAddress,
    timeout: Duration,
) -> Result<(), CommandFailure> {
    let connected = address.connect(timeout).map_err(|error| {
        let (why, fix) = match error.kind() {
            ErrorKind::ConnectionRefused => ("nothing listens there", UNREACHABLE_HINT),
            ErrorKind::NotFound => (
                "there is no such socket or device",
                "start the server first, and compare the path with the one that it was given",
            ),
            ErrorKind::PermissionDenied => (
                "this user may not open it",
                "change the permissions of the socket or the device, or join its group (often `dialout`)",
            ),
            ErrorKind::TimedOut => (
                "nothing answers, not even with a refusal: a firewall drops it, or the host is off",
                UNREACHABLE_HINT,
            ),
            _ => ("the operating system reports it", UNREACHABLE_HINT),
        };
        Finding::new(error.to_string(), why, fix)
    });
    let mut io = diagnosis.record("connect", connected.map(|io| (Passed::Ok(address.to_string()), io)))?;
    let heard = FirstOutput::read(&mut io, timeout);
    let name = address.to_string();
    let outcome = match heard.ended_silently() {
        true => Err(Finding::new(
            format!("{name} closes the connection without an answer"),
            "another kind of server listens there, or it takes no more connections",
            "compare the address with that of the MCP server, and end other connections to it",
        )),
        false => heard.judge(&name),
    };
    diagnosis.check("output", outcome)
}

fn check_directory(program: &ServerProgram) -> Result<Passed, Finding> {
    let Some(directory) = program.directory() else {
        return Ok(Passed::Skipped("that of this command".into()));
    };
    match directory.is_dir() {
        true => Ok(Passed::Ok(directory.display().to_string())),
        false => Err(StartFault::of_directory(directory).into()),
    }
}

/// Checks that the program did not end without a word.
fn check_running(
    program: &ServerProgram,
    name: &str,
    heard: &FirstOutput,
    child: &mut Child,
) -> Result<Passed, Finding> {
    if !heard.ended_silently() {
        return Ok(Passed::Ok(format!(
            "{name} {}",
            if heard.is_closed() { "prints something" } else { "runs" }
        )));
    }
    let ended = match child.wait_timeout(Duration::from_millis(500)) {
        ProcessStatus::Exited(Some(status)) => format!(" with {status}"),
        ProcessStatus::Exited(None) => String::new(),
        ProcessStatus::Running => {
            return Err(Finding::new(
                format!("{name} closes its output"),
                "it still runs, but has closed its stdout, as programs do that go to the background",
                "start it so that it stays in the foreground, and let it keep stdout for messages",
            ));
        }
    };
    let what = format!("{name} ends{ended} before it answers");
    let stderr = child.stderr_tail();
    if let Some(finding) = explain_stderr(program, &what, &stderr) {
        return Err(finding);
    }
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    if let Some(line) = last {
        return Err(Finding::new(
            what,
            format!("its last words on stderr are {:?}", clip(line.trim())),
            "correct what it complains about; run the same command in a shell to see all of it",
        ));
    }
    if lacks_interactive(program) {
        return Err(missing_interactive(what));
    }
    Err(Finding::new(
        what,
        "it printed nothing, neither on stdout nor on stderr: it is no server, or needs another argument to serve on stdio",
        "run the same command in a shell: a server waits for input there, until Ctrl-D",
    ))
}

/// Explains a silent program by what it printed on stderr, and by its command.
fn explain_silence(program: &ServerProgram, name: &str, stderr: &str) -> Option<Finding> {
    if lacks_interactive(program) {
        return Some(missing_interactive(format!("{name} does not answer")));
    }
    if let Some(address) = stderr.lines().find_map(http_address) {
        return Some(http_server(name, address));
    }
    explain_stderr(program, &format!("{name} does not answer"), stderr)
}

/// Explains a failure by words on stderr that have a known cause.
fn explain_stderr(program: &ServerProgram, what: &str, stderr: &str) -> Option<Finding> {
    if let Some(name) = withheld_variable(program, stderr) {
        let why = format!(
            "it speaks of {name}, which is set here and not passed on: a server gets only PATH, HOME and similar variables"
        );
        let fix = format!("pass it on with --env {name}, or set it in `env` of the configuration file");
        return Some(Finding::new(what, why, fix));
    }
    let (line, (_, why, fix)) = stderr.lines().rev().find_map(|line| {
        let lower = line.to_lowercase();
        let known = CAUSES.iter().find(|(words, ..)| words.iter().any(|word| lower.contains(word)))?;
        Some((line, known))
    })?;
    Some(Finding::new(what, format!("{why}: {:?}", clip(line.trim())), *fix))
}

/// Returns the first variable in a text that this process has and the program does not get.
fn withheld_variable<'t>(program: &ServerProgram, text: &'t str) -> Option<&'t str> {
    let given = program.program(StderrChoice::Null).environment();
    let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    let is_set = |word: &str| env::var_os(word).is_some_and(|value| !value.is_empty());
    words
        .filter(|word| word.len() > 3 && word.contains('_') && is_set(word))
        .find(|word| given.iter().all(|(name, _)| name != word))
}

/// Returns whether the command runs a container whose stdin is closed.
fn lacks_interactive(program: &ServerProgram) -> bool {
    let mut words = program.words().map(OsStr::to_string_lossy);
    let name = words.next().unwrap_or_default();
    let is_runner = Path::new(&*name).file_stem().is_some_and(|stem| stem == "docker" || stem == "podman");
    let words: Vec<_> = words.collect();
    let is_interactive = |word: &str| {
        word == "--interactive" || (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
    };
    is_runner && words.iter().any(|word| word == "run") && !words.iter().any(|word| is_interactive(word))
}

fn missing_interactive(what: String) -> Finding {
    Finding::new(
        what,
        "without -i the container has no stdin, so the server reads the end of its input at once",
        "write `docker run -i --rm IMAGE`, and leave -t out",
    )
}

fn first_word(program: &ServerProgram) -> &OsStr {
    program.words().next().unwrap_or_default()
}

/// Returns the name of the program for sentences.
fn program_name(program: &ServerProgram) -> String {
    let path = Path::new(first_word(program));
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Words on stderr in lower case, with the cause and the remedy.
const CAUSES: &[(&[&str], &str, &str)] = &[
    (
        &["address already in use", "eaddrinuse", "only one usage of each socket address"],
        "the port that it wants is taken, perhaps by itself from an earlier start",
        "end the other process, or give the server another port",
    ),
    (
        &["cannot import name", "no module named 'mcp.", "does not provide an export", "path_not_exported"],
        "it imports what the installed version of a package, often of its MCP SDK, does not have any more",
        "pin the version that the server was written for: `uvx --with 'mcp<2' SERVER`, `npm install @modelcontextprotocol/sdk@1`",
    ),
    (
        &["no module named", "modulenotfounderror"],
        "a Python module is missing in the environment that runs it",
        "install the package there, or start the server by the Python of its own environment (`uv run`, `.venv/bin/python`)",
    ),
    (
        &["cannot find module", "err_module_not_found"],
        "a JavaScript module or the built script is missing",
        "run `npm install` and the build of the server, and check the path of the script",
    ),
    (
        &["cannot connect to the docker daemon", "docker daemon is not running"],
        "Docker is not running",
        "start Docker, and check that this user may use it",
    ),
    (
        &["404 not found", "e404", "no matching distribution", "was not found in the package registry"],
        "the package does not exist under this name",
        "correct the name of the package, with its scope (@owner/name)",
    ),
    (
        &["enotfound", "eai_again", "etimedout", "econnrefused", "network is unreachable", "name resolution"],
        "it needs the network and does not reach it",
        "check the network and the proxy; variables such as HTTPS_PROXY are passed on only by --env HTTPS_PROXY",
    ),
    (
        &["invalid api key", "incorrect api key", "invalid_api_key", "401 unauthorized", "403 forbidden"],
        "the service behind it refuses the key that it has",
        "compare the key with that of the service: it may have expired, or belong to another account",
    ),
    (
        &[
            "api key",
            "api_key",
            "apikey",
            "environment variable",
            "env var",
            "token is required",
            "missing token",
        ],
        "it wants a variable that it does not get: a server gets only PATH, HOME and similar variables",
        "pass the variable on with --env NAME, or set it in `env` of the configuration file",
    ),
    (
        &["unsupported engine", "requires python", "requires node", "syntaxerror", "invalid syntax"],
        "its code is not for this version of its interpreter",
        "install the version that the server asks for, and start it by that one",
    ),
    (
        &["permission denied", "eacces", "operation not permitted"],
        "it may not open something that it needs",
        "change the permissions of the file that is named, or run it as another user",
    ),
    (
        &["command not found", ": not found", "is not recognized as"],
        "it starts another program that is not installed, or not on the PATH that it gets",
        "install that program, or pass on another PATH with --env PATH=…",
    ),
    (
        &[
            "unrecognized arguments",
            "unexpected argument",
            "unknown option",
            "invalid option",
            "unrecognized option",
            "usage:",
        ],
        "its arguments are not what it expects",
        "correct the arguments behind the program; its --help lists them",
    ),
    (
        &["no such file or directory", "enoent", "filenotfounderror", "can't open file"],
        "a file that it is given does not exist",
        "correct the path; a relative one starts at the working directory, which differs from client to client",
    ),
];
