//! Servers that are reached over HTTP: processes that say where they listen, and are ended when they are done with

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

use crate::run::{DEADLINE, signal_tree};

/// How long a server may take to end when it is told to.
const END: Duration = Duration::from_secs(10);

/// A server that listens.
pub(crate) struct Hosted {
    what: String,
    child: Child,
    pub(crate) url: String,
    said: Arc<Mutex<String>>,
    /// Whether it ends when its input does, and not only by a signal
    until_eof: bool,
}

impl Hosted {
    /// Starts a server, and waits until it has said on stderr where it listens.
    pub(crate) fn start(mut command: Command) -> Self {
        let what = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that one signal reaches all that it starts.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let said = Arc::new(Mutex::new(String::new()));
        let (found, urls) = channel();
        for stream in [
            Box::new(child.stdout.take().expect("piped above")) as Box<dyn std::io::Read + Send>,
            Box::new(child.stderr.take().expect("piped above")),
        ] {
            let (said, found) = (Arc::clone(&said), found.clone());
            thread::spawn(move || follow(stream, &said, &found));
        }
        drop(found);
        let url = urls.recv_timeout(DEADLINE);
        let mut hosted = Self { what, child, url: String::new(), said, until_eof: false };
        match url {
            Ok(url) => hosted.url = url,
            Err(why) => panic!("{hosted}\n-- does not say where it listens: {why}"),
        }
        hosted
    }

    /// Starts a server that does not say where it listens, and waits until somebody does there.
    pub(crate) fn at(mut command: Command, port: u16, path: &str) -> Self {
        let what = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let url = format!("http://127.0.0.1:{port}{path}");
        let hosted = Self { what, child, url, said: Arc::default(), until_eof: false };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < DEADLINE, "{hosted}\n-- does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        hosted
    }

    /// Is to be ended by the end of its input: what has no handler for signals could not end in good order otherwise.
    pub(crate) fn until_eof(mut self) -> Self {
        self.until_eof = true;
        self
    }

    /// Tells it to end; it has to do so in good order, or by the signal that is sent to it.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        if !self.until_eof {
            self.signal("-TERM");
        }
        let told = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    assert!(status.success() || by_term(status), "{self}\n-- {status}");
                    return;
                }
                Ok(None) if told.elapsed() < END => thread::sleep(Duration::from_millis(10)),
                other => panic!("{self}\n-- does not end after {END:?}: {other:?}"),
            }
        }
    }

    /// What it has printed until now.
    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("no panic under this lock").clone()
    }

    fn signal(&self, signal: &str) {
        signal_tree(self.child.id(), signal);
    }
}

/// Whether a process was ended by the signal that asks for it.
fn by_term(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(15);
    // There it is ended the hard way.
    #[cfg(not(unix))]
    return !status.success();
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.signal("-KILL");
        let _ = self.child.wait();
    }
}

impl fmt::Display for Hosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}\n-- said:\n{}", self.what, self.url, self.said())
    }
}

/// Keeps what is printed, and finds the URL in it.
fn follow(stream: impl std::io::Read, said: &Mutex<String>, found: &Sender<String>) {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some(from) = text.find("http://") {
            let url = text[from..].split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
            // Only the first is waited for.
            let _ = found.send(url.to_owned());
        }
        said.lock().expect("no panic under this lock").push_str(&text);
        line.clear();
    }
}

/// Waits until a file that a server appends to says something, for as long as anything may take.
pub(crate) fn until_noted(log: &std::path::Path, wanted: impl Fn(&str) -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < END {
        if wanted(&fs::read_to_string(log).unwrap_or_default()) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}
