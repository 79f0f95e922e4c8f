//! Runs processes to their end, with a limit, and reads all that they say

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use serde_json::Value;

/// Far above what any run needs: a machine that is busy with other builds must not turn into a failure here.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// What a finished process left behind.
pub(crate) struct Done {
    what: String,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }

    pub(crate) fn ok(self) -> Self {
        assert!(self.status.success(), "should have succeeded: {self}");
        self
    }

    pub(crate) fn failed(self) -> Self {
        assert!(!self.status.success(), "should have failed: {self}");
        self
    }

    /// The one JSON value that stdout has to be, whatever went to stderr beside it.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value ({error}): {self}"))
    }

    pub(crate) fn stderr_has(self, wanted: &str) -> Self {
        assert!(self.stderr.contains(wanted), "no {wanted:?} on stderr: {self}");
        self
    }

    /// For texts of which it is open on which of the two streams a person finds them.
    pub(crate) fn says(self, wanted: &str) -> Self {
        assert!(self.stdout.contains(wanted) || self.stderr.contains(wanted), "no {wanted:?}: {self}");
        self
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, status, stdout, stderr, took } = self;
        write!(f, "{what}\n-- {status} after {took:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}")
    }
}

enum Part {
    Exit(io::Result<ExitStatus>),
    Closed,
}

/// Runs to the end and reads everything, or kills it, and all that it started, when the deadline passes.
///
/// A run is over when the process has ended *and* both of its outputs are closed: a server left behind by its
/// client still holds them, and is found that way.
pub(crate) fn run(mut command: Command, deadline: Duration) -> io::Result<Done> {
    let what = format!("{command:?}");
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that one signal reaches the servers that it starts too.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);

    let mut child = command.spawn()?;
    let pid = child.id();
    let (parts, inbox) = channel();
    let stdout = collect(child.stdout.take().expect("piped above"), parts.clone());
    let stderr = collect(child.stderr.take().expect("piped above"), parts.clone());
    // The standard library cannot wait with a limit, so a thread waits and the limit is on the channel.
    thread::spawn(move || parts.send(Part::Exit(child.wait())));

    let mut status = None;
    for _ in 0..3 {
        let left = deadline.saturating_sub(started.elapsed());
        match inbox.recv_timeout(left) {
            Ok(Part::Exit(exit)) => status = Some(exit?),
            Ok(Part::Closed) => {}
            Err(_) => {
                kill_tree(pid);
                let state = match status {
                    Some(status) => format!("ended with {status}, but something that it started lives on"),
                    None => "did not end".to_owned(),
                };
                let (stdout, stderr) = (taken(&stdout), taken(&stderr));
                panic!("{what}\n-- {state}, after {deadline:?}\n-- stdout:\n{stdout}\n-- stderr:\n{stderr}");
            }
        }
    }
    let status = status.expect("one of the three parts");
    Ok(Done { what, status, stdout: taken(&stdout), stderr: taken(&stderr), took: started.elapsed() })
}

/// Shared rather than returned at the end, so that a run that has to be killed still shows what it said.
fn collect(mut from: impl Read + Send + 'static, parts: Sender<Part>) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&kept);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            into.lock().expect("no panic under this lock").extend_from_slice(&chunk[..read]);
        }
        parts.send(Part::Closed)
    });
    kept
}

fn taken(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().expect("no panic under this lock")).into_owned()
}

fn kill_tree(pid: u32) {
    signal_tree(pid, "-KILL");
}

/// Sends a signal to a process and those that it has started; where there are no signals they are ended.
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
    // Gone already is as good.
    let _ = killer.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

pub(crate) fn command(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut words = words.into_iter().map(Into::into);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Goes around the test harness, which keeps what passing tests print: what was shown, and above all what was not
/// checked, has to be seen.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
