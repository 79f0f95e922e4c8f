//! Runs the program and looks at what it left behind

use core::fmt;
use core::time::Duration;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

/// The program under test
pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_mcp-probe");

/// The revisions, each with its era
pub(crate) const REVISIONS: [(&str, &str); 5] = [
    ("2024-11-05", "legacy"),
    ("2025-03-26", "legacy"),
    ("2025-06-18", "legacy"),
    ("2025-11-25", "legacy"),
    ("2026-07-28", "modern"),
];

/// Far above what any run needs, so that a busy machine is no failure
const DEADLINE: Duration = Duration::from_secs(60);

/// What a finished run left behind
pub(crate) struct Done {
    args: Vec<String>,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// `mcp-probe ARGS`
pub(crate) fn probe(args: &[&str]) -> Done {
    run(args, &[])
}

/// `mcp-probe ARGS -- mcp-probe serve SERVE`
pub(crate) fn probe_own(args: &[&str], serve: &[&str]) -> Done {
    run(&[args, &["--", PROBE, "serve"], serve].concat(), &[])
}

/// `mcp-probe ARGS` with more in its environment
pub(crate) fn run(args: &[&str], environment: &[(&str, &str)]) -> Done {
    let begun = Instant::now();
    let mut child = Command::new(PROBE)
        .args(args)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    let stdout = gather(child.stdout.take().expect("piped"));
    let stderr = gather(child.stderr.take().expect("piped"));
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
    Done { args: args.iter().copied().map(str::to_owned).collect(), status, stdout, stderr, took }
}

fn gather(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe");
        String::from_utf8(bytes).expect("UTF-8")
    })
}

impl Done {
    /// The run ended with this code
    pub(crate) fn code(self, wanted: i32) -> Self {
        assert_eq!(self.status.code(), Some(wanted), "{self}");
        self
    }

    pub(crate) fn ok(self) -> Self {
        self.code(0)
    }

    /// Stderr holds all of these
    pub(crate) fn complains(self, wanted: &[&str]) -> Self {
        for part in wanted {
            assert!(self.stderr.contains(part), "no {part:?} on stderr: {self}");
        }
        self
    }

    /// Stdout holds all of these
    pub(crate) fn says(self, wanted: &[&str]) -> Self {
        for part in wanted {
            assert!(self.stdout.contains(part), "no {part:?} on stdout: {self}");
        }
        self
    }

    /// The one JSON value on stdout
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { args, status, stdout, stderr, took } = self;
        write!(f, "mcp-probe {args:?}: {status} after {took:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}")
    }
}
