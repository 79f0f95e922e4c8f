//! Runs processes to their end, with a time limit, and collects their output.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use std::{env, thread};

use serde_json::Value;

/// Limit far above the need of any run: a busy machine must not cause a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Result of a finished process.
pub(crate) struct ProcessOutput {
    command_line: String,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

impl ProcessOutput {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }

    pub(crate) fn assert_success(self) -> Self {
        assert!(self.status.success(), "expected success: {self}");
        self
    }

    pub(crate) fn assert_failure(self) -> Self {
        assert!(!self.status.success(), "expected a failure: {self}");
        self
    }

    /// Parses stdout as one JSON value; stderr is ignored.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value ({error}): {self}"))
    }

    pub(crate) fn assert_stderr_contains(self, wanted: &str) -> Self {
        assert!(self.stderr.contains(wanted), "stderr does not contain {wanted:?}: {self}");
        self
    }

    /// Checks the output where either of the two streams may hold the text.
    pub(crate) fn assert_output_contains(self, wanted: &str) -> Self {
        assert!(
            self.stdout.contains(wanted) || self.stderr.contains(wanted),
            "output does not contain {wanted:?}: {self}"
        );
        self
    }
}

impl fmt::Display for ProcessOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command_line, status, stdout, stderr, elapsed } = self;
        write!(f, "{command_line}\n-- {status} after {elapsed:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}")
    }
}

enum OutputEvent {
    Exit(io::Result<ExitStatus>),
    Closed,
}

/// Runs a process to its end and collects its output. If the deadline passes, kills it and all its children.
///
/// A run ends when the process has exited *and* both of its outputs are closed. A server left behind by its client
/// still holds them open, so this detects it.
pub(crate) fn run(mut command: Command, deadline: Duration) -> io::Result<ProcessOutput> {
    let command_line = format!("{command:?}");
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bypass_proxies(&mut command);
    // A process group of its own, so that one signal reaches the servers that it starts.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);

    let mut child = command.spawn()?;
    let pid = child.id();
    let (parts, inbox) = channel();
    let stdout = collect_output(child.stdout.take().expect("piped above"), parts.clone());
    let stderr = collect_output(child.stderr.take().expect("piped above"), parts.clone());
    // The standard library cannot wait with a limit: a thread waits, and the channel has the limit.
    thread::spawn(move || parts.send(OutputEvent::Exit(child.wait())));

    let mut status = None;
    for _ in 0..3 {
        let left = deadline.saturating_sub(started.elapsed());
        match inbox.recv_timeout(left) {
            Ok(OutputEvent::Exit(exit)) => status = Some(exit?),
            Ok(OutputEvent::Closed) => {}
            Err(_) => {
                kill_tree(pid);
                let state = match status {
                    Some(status) => format!("exited with {status}, but one of its children is still running"),
                    None => "did not exit".to_owned(),
                };
                let (stdout, stderr) = (take_text(&stdout), take_text(&stderr));
                panic!(
                    "{command_line}\n-- {state}, after {deadline:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}"
                );
            }
        }
    }
    let status = status.expect("one of the three parts");
    Ok(ProcessOutput {
        command_line,
        status,
        stdout: take_text(&stdout),
        stderr: take_text(&stderr),
        elapsed: started.elapsed(),
    })
}

/// Collects output in a shared buffer, so that a run that is killed still shows it.
fn collect_output(mut from: impl Read + Send + 'static, parts: Sender<OutputEvent>) -> Arc<Mutex<Vec<u8>>> {
    let buffer = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&buffer);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            sink.lock().expect("no panic under this lock").extend_from_slice(&chunk[..read]);
        }
        parts.send(OutputEvent::Closed)
    });
    buffer
}

fn take_text(buffer: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&buffer.lock().expect("no panic under this lock")).into_owned()
}

fn kill_tree(pid: u32) {
    signal_tree(pid, "-KILL");
}

/// Sends a signal to a process and its children. Without signals they are killed.
pub(crate) fn signal_tree(pid: u32, signal: &str) {
    let mut killer = if cfg!(windows) {
        let mut killer = Command::new("taskkill");
        killer.args(["/F", "/T", "/PID", &pid.to_string()]);
        killer
    } else {
        let mut killer = Command::new("kill");
        killer.args([signal, "--", &format!("-{pid}")]);
        killer
    };
    // A process that has already exited is fine.
    let _ = killer.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

pub(crate) fn command(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut words = words.into_iter().map(Into::into);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Keeps proxies of the environment away from connections to this machine: the SDKs for Python and Rust use them.
pub(crate) fn bypass_proxies(command: &mut Command) {
    for name in ["NO_PROXY", "no_proxy"] {
        let given = env::var(name).unwrap_or_default();
        command.env(name, format!("127.0.0.1,localhost,::1,{given}").trim_end_matches(','));
    }
}

/// Prints a line past the test harness, which captures what passing tests print. Results, and above all checks that
/// were skipped, have to be visible.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
