//! Servers reached over HTTP: processes that print their address, and are stopped after use.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use std::{fs, thread};

use crate::run::{DEADLINE, bypass_proxies, signal_tree};

/// Longest time that a server may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A listening server.
pub(crate) struct HostedServer {
    command_line: String,
    child: Child,
    pub(crate) url: String,
    output: Arc<Mutex<String>>,
    /// Whether it stops at the end of its input, not only by a signal.
    stops_at_eof: bool,
}

impl HostedServer {
    /// Starts a server and waits until it has printed its address to stderr.
    pub(crate) fn start(mut command: Command) -> Self {
        let command_line = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        bypass_proxies(&mut command);
        // A process group of its own, so that one signal reaches all its children.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command_line}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        let (found, urls) = channel();
        for stream in [
            Box::new(child.stdout.take().expect("piped above")) as Box<dyn std::io::Read + Send>,
            Box::new(child.stderr.take().expect("piped above")),
        ] {
            let (output, found) = (Arc::clone(&output), found.clone());
            thread::spawn(move || collect_output(stream, &output, &found));
        }
        drop(found);
        let url = urls.recv_timeout(DEADLINE);
        let mut hosted = Self { command_line, child, url: String::new(), output, stops_at_eof: false };
        match url {
            Ok(url) => hosted.url = url,
            Err(reason) => panic!("{hosted}\n-- did not print its address: {reason}"),
        }
        hosted
    }

    /// Starts a server that does not print its address, and waits until the port accepts connections.
    pub(crate) fn start_at(mut command: Command, port: u16, path: &str) -> Self {
        let command_line = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bypass_proxies(&mut command);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command_line}: {error}"));
        let url = format!("http://127.0.0.1:{port}{path}");
        let hosted = Self { command_line, child, url, output: Arc::default(), stops_at_eof: false };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < DEADLINE, "{hosted}\n-- does not accept connections");
            thread::sleep(Duration::from_millis(20));
        }
        hosted
    }

    /// Makes `stop` end the input instead of sending a signal, for a server without a signal handler.
    pub(crate) fn stopping_at_eof(mut self) -> Self {
        self.stops_at_eof = true;
        self
    }

    /// Stops the server, which must exit with success or by the signal sent to it.
    pub(crate) fn stop(mut self) {
        drop(self.child.stdin.take());
        if !self.stops_at_eof {
            self.signal("-TERM");
        }
        let stop_time = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    assert!(status.success() || is_terminated_by_sigterm(status), "{self}\n-- {status}");
                    return;
                }
                Ok(None) if stop_time.elapsed() < STOP_TIMEOUT => thread::sleep(Duration::from_millis(10)),
                other => panic!("{self}\n-- did not exit within {STOP_TIMEOUT:?}: {other:?}"),
            }
        }
    }

    /// Returns the output so far.
    pub(crate) fn output(&self) -> String {
        self.output.lock().expect("no panic under this lock").clone()
    }

    fn signal(&self, signal: &str) {
        signal_tree(self.child.id(), signal);
    }
}

/// Returns whether a process was ended by SIGTERM.
fn is_terminated_by_sigterm(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(15);
    // Without signals the process is killed.
    #[cfg(not(unix))]
    return !status.success();
}

impl Drop for HostedServer {
    fn drop(&mut self) {
        self.signal("-KILL");
        let _ = self.child.wait();
    }
}

impl fmt::Display for HostedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}\n-- output:\n{}", self.command_line, self.url, self.output())
    }
}

/// Collects the output and finds the URL in it.
fn collect_output(stream: impl std::io::Read, output: &Mutex<String>, found: &Sender<String>) {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some(from) = text.find("http://") {
            let url = text[from..].split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
            // Only the first URL is received.
            let _ = found.send(url.to_owned());
        }
        output.lock().expect("no panic under this lock").push_str(&text);
        line.clear();
    }
}

/// Waits until the log of a server satisfies `wanted`; returns `false` after [`STOP_TIMEOUT`].
pub(crate) fn wait_for_log(log: &std::path::Path, wanted: impl Fn(&str) -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < STOP_TIMEOUT {
        if wanted(&fs::read_to_string(log).unwrap_or_default()) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}
