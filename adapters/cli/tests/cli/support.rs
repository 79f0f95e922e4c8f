//! Runs the program under test and captures its output.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

/// Path of the program under test.
pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_mcp-probe");

/// All revisions with their eras.
pub(crate) const REVISIONS: [(&str, &str); 5] = [
    ("2024-11-05", "legacy"),
    ("2025-03-26", "legacy"),
    ("2025-06-18", "legacy"),
    ("2025-11-25", "legacy"),
    ("2026-07-28", "modern"),
];

/// Far above the time of any run, so that a busy machine causes no failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Output of a finished run.
pub(crate) struct ProbeOutput {
    args: Vec<String>,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

/// An address at which nobody listens, and nobody can while this lives: a connection has its port.
pub(crate) struct ClosedAddress {
    pub(crate) address: SocketAddr,
    _connection: [TcpStream; 2],
}

impl ClosedAddress {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (far, address) = listener.accept().expect("the connection");
        Self { address, _connection: [near, far] }
    }
}

impl fmt::Display for ClosedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Returns a path, or another text, as a word of a shell's line: folders may have spaces in their names.
pub(crate) fn quoted(word: &(impl AsRef<OsStr> + ?Sized)) -> String {
    let word = word.as_ref().to_str().expect("UTF-8");
    shlex::try_quote(word).expect("no NUL").into_owned()
}

/// Returns the command `mcp-probe`, which finds nothing of the user and of earlier runs.
pub(crate) fn probe_command() -> Command {
    let mut command = Command::new(PROBE);
    // No cache unless a test names a folder: its parent is a file.
    command.envs(["XDG_CACHE_HOME", "LOCALAPPDATA"].map(|name| (name, Path::new(PROBE).join("cache"))));
    // No tokens unless a test names a file, and no browser.
    let tokens = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-tokens").join("tokens.json");
    command.env("MCP_TOKEN_STORE", tokens).env("BROWSER", "false");
    // No connections that are kept.
    command.env("XDG_RUNTIME_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("nobody"));
    command
}

/// Runs `mcp-probe ARGS`.
pub(crate) fn probe(args: &[&str]) -> ProbeOutput {
    run(args, &[])
}

/// Runs `mcp-probe ARGS -- mcp-probe serve SERVE`.
pub(crate) fn probe_own_server(args: &[&str], serve: &[&str]) -> ProbeOutput {
    run(&[args, &["--", PROBE, "serve"], serve].concat(), &[])
}

/// Runs `mcp-probe ARGS` with additional environment variables.
pub(crate) fn run(args: &[&str], environment: &[(&str, &str)]) -> ProbeOutput {
    run_with_input(args, environment, "")
}

/// Runs `mcp-probe ARGS` with additional environment variables and this text on stdin, which must be short.
pub(crate) fn run_with_input(args: &[&str], environment: &[(&str, &str)], input: &str) -> ProbeOutput {
    let begun = Instant::now();
    let mut child = probe_command()
        .args(args)
        .envs(environment.iter().copied())
        .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).expect("it fits into the pipe");
    }
    let stdout = read_in_background(child.stdout.take().expect("piped"));
    let stderr = read_in_background(child.stderr.take().expect("piped"));
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting works") {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            let _ = child.kill();
            panic!("mcp-probe {args:?} did not end");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let took = begun.elapsed();
    let (stdout, stderr) = (stdout.join().expect("read"), stderr.join().expect("read"));
    ProbeOutput {
        args: args.iter().copied().map(str::to_owned).collect(),
        status,
        stdout,
        stderr,
        elapsed: took,
    }
}

fn read_in_background(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe");
        String::from_utf8(bytes).expect("UTF-8")
    })
}

impl ProbeOutput {
    /// Checks the exit code.
    pub(crate) fn assert_code(self, wanted: i32) -> Self {
        assert_eq!(self.status.code(), Some(wanted), "{self}");
        self
    }

    pub(crate) fn assert_ok(self) -> Self {
        self.assert_code(0)
    }

    /// Checks that stderr contains all parts.
    pub(crate) fn assert_stderr(self, wanted: &[&str]) -> Self {
        for part in wanted {
            assert!(self.stderr.contains(part), "no {part:?} on stderr: {self}");
        }
        self
    }

    /// Checks that stdout contains all parts.
    pub(crate) fn assert_stdout(self, wanted: &[&str]) -> Self {
        for part in wanted {
            assert!(self.stdout.contains(part), "no {part:?} on stdout: {self}");
        }
        self
    }

    /// Parses stdout as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for ProbeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { args, status, stdout, stderr, elapsed: took } = self;
        write!(f, "mcp-probe {args:?}: {status} after {took:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}")
    }
}
