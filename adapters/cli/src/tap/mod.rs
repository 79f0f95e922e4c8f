//! The `tap` command: stands between a client and a server, and records what passes.

use alloc::sync::Arc;
use core::time::Duration;
use std::env;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

use clap::Args;
use mcp_proto_trace::io::{Recording, pump, serve_http};
use mcp_proto_trace::{Header, Mask, Recorder, Side};
use mcp_std::Clock;
use mcp_std::io::{Duplex, Stdio};
use mcp_std::process::{ProcessStatus, ShutdownTimeouts, Stderr};

use crate::args::{ServerArgs, StderrChoice, usage};
use crate::endpoint::http::bind_failure;
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::notes::{print_note, print_stderr};
use crate::output::{create_private_file, create_private_folder, state_folder};
use crate::server::Server;
use crate::session::describe_abnormal_exit;

/// Stands between a client and a server, and records what passes.
///
/// Put `mcp-probe tap --` before the command of the server in the configuration of any MCP client. Each byte passes as it is, in both
/// directions. The trace has each line with its time and the cuts of its reads; `mcp-probe trace show` shows it, and
/// `mcp-probe replay` plays it again. Secrets are masked in the trace, unless --no-mask is given.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe tap [OPTIONS]"))]
pub(crate) struct TapArgs {
    /// Listens here for clients of a server over HTTP, 127.0.0.1:8081 for example.
    ///
    /// What they send goes to the server at the URL, whatever its path. Only programs of this machine can use a loopback
    /// address, and no web page can by another name for it.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Writes the trace to this file. If it exists, to one with a number in its name.
    ///
    /// Clients start a server several times. Without it the trace is a new file in the folder for the state of this user. The
    /// name of a file that was chosen is printed on stderr.
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
    /// Limits the trace: the recording ends there, and the connection goes on.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    max_size: u64,
    /// Masks the values of these members, too (may be repeated).
    ///
    /// Those that usually hold secrets are masked without it: password, token, apiKey, authorization and the like, and words
    /// that look like tokens wherever they stand.
    #[arg(long, value_name = "NAME", conflicts_with = "no_mask")]
    mask: Vec<String>,
    /// Records secrets as they are.
    #[arg(long)]
    no_mask: bool,
    #[command(flatten)]
    server: ServerArgs,
}

const HELP: &str = "\
The environment of mcp-probe is that of the server, whose stderr is passed on
and recorded. A recording that cannot go on, because the disk is full for
example, ends with a note on stderr; the connection does not.

Over HTTP the tap ends on Ctrl-C. It removes Accept-Encoding, so that what
passes can be read. A server that checks Host sees its own name.

The trace is NDJSON: a header, then an object for each line, with its time in
microseconds (t), the side that it comes from, and where reads cut it. It is
written line by line, so it is there after a crash.

In a client's configuration:
  {\"command\": \"mcp-probe\",
   \"args\": [\"tap\", \"--\", \"npx\", \"-y\", \"my-server\"]}

Examples:
  mcp-probe tap --out bug.ndjson -- python my_server.py
  mcp-probe call echo text=hi -- mcp-probe tap -o t.ndjson -- mcp-probe serve
  mcp-probe tap --mask pin -- my-server
  mcp-probe tap tcp://127.0.0.1:7000
  mcp-probe tap --http 127.0.0.1:8081 http://127.0.0.1:8080/mcp";

/// The command, in answers that the tap gives itself.
const NAME: &str = "mcp-probe tap";
/// Largest number in the name of a trace.
const MAX_NUMBER: u32 = 9_999;
/// Time to connect to a socket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Ends that a server has: as a client that waits for it would not.
const SHUTDOWN_TIMEOUTS: ShutdownTimeouts = ShutdownTimeouts {
    exit: Duration::from_secs(5),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_millis(500),
};

/// Runs until both sides have ended.
///
/// # Errors
///
/// Fails if the trace cannot be created, the server cannot be reached, or either side breaks.
pub(crate) fn run(args: &TapArgs) -> Result<(), CommandFailure> {
    let server = Server::from_args(&args.server)?;
    match &server {
        Server::Remote(remote) => {
            let Some(address) = &args.http else {
                return Err(CommandFailure::usage(
                    "a server over HTTP needs --http ADDRESS, where its clients connect",
                ));
            };
            if !args.server.header.is_empty() || args.server.bearer.is_some() {
                return Err(CommandFailure::usage(
                    "tap sends what the client sends: leave --bearer and --header out",
                ));
            }
            let url = remote.config()?.endpoint().clone();
            // A wrong address leaves no trace behind.
            let listener =
                TcpListener::bind(address).map_err(|error| bind_failure(address, &error.into()))?;
            let recording = open_recording(args, &server)?;
            let bound = listener.local_addr().map_err(|error| broken("the address is not known", &error))?;
            print_stderr(&format!("listening at http://{bound}{}", url.target()));
            if !bound.ip().is_loopback() {
                print_note(
                    "other machines reach this address: by its number, all that they send is recorded and passed on",
                );
            }
            serve_http(&listener, &url, &recording, NAME)
                .map_err(|error| broken("the address is not known", &error))
        }
        _ if args.http.is_some() => {
            Err(CommandFailure::usage("--http is for a server over HTTP: give its URL"))
        }
        Server::Stream(address) => {
            let front = open_front()?;
            let recording = open_recording(args, &server)?;
            let back = address.connect(CONNECT_TIMEOUT).map_err(|error| unreachable(&error.to_string()))?;
            relay(front, back, &mut || false, &recording)?;
            recording.record(|recorder, at| recorder.end(at, Side::Server, "closed"));
            Ok(())
        }
        Server::Program(program) => {
            let front = open_front()?;
            let recording = open_recording(args, &server)?;
            let heard = Arc::clone(&recording);
            let stderr = Stderr::lines(move |line| {
                let is_terminal = io::stderr().is_terminal();
                print_stderr(&if is_terminal { escape::line(line) } else { line.into() });
                heard.record(|recorder, at| recorder.stderr(at, line));
            });
            // The environment is that which the client has made for the server.
            let all = env::vars_os().map(|(name, _)| name);
            let program = program.program(StderrChoice::Capture).inherit_env(all).stderr(stderr);
            let mut child = program.spawn().map_err(|error| CommandFailure::from_spawn_error(&error))?;
            let back =
                child.take_io().map_err(|error| broken("the pipes of the server cannot be used", &error))?;
            let mut has_ended = || child.status() != ProcessStatus::Running;
            let back = relay(front, back, &mut has_ended, &recording)?;
            let report = child.shutdown(Some(back), SHUTDOWN_TIMEOUTS);
            let status = report.status.map_or_else(|| "ended".to_owned(), |status| status.to_string());
            recording.record(|recorder, at| recorder.end(at, Side::Server, &status));
            if let Some(abnormal) = describe_abnormal_exit(&report) {
                print_note(&abnormal);
            }
            match report.status.filter(|status| !status.success()) {
                Some(status) => Err(unreachable(&format!("the server ended: {status}"))),
                None => Ok(()),
            }
        }
    }
}

/// Passes bytes on until both sides have ended.
fn relay<B: Duplex>(
    mut front: Stdio,
    mut back: B,
    has_ended: &mut dyn FnMut() -> bool,
    recording: &Recording,
) -> Result<B, CommandFailure> {
    let outcome = pump(&mut front, &mut back, has_ended, &mut |from, bytes| {
        recording.record(|recorder, at| match bytes {
            Some(bytes) => recorder.bytes(at, from, bytes),
            // How the server has ended is known later.
            None if from == Side::Client => recorder.end(at, from, "end of input"),
            None => {}
        });
    });
    outcome.map_err(|error| broken("the tap stopped", &error))?;
    Ok(back)
}

/// Opens stdin and stdout, so that reading never blocks.
fn open_front() -> Result<Stdio, CommandFailure> {
    let opened = Stdio::guarded().and_then(|mut front| front.set_read_nonblocking().map(|()| front));
    opened.map_err(|error| broken("stdin and stdout cannot be used", &error))
}

/// Creates the trace.
fn open_recording(args: &TapArgs, server: &Server) -> Result<Arc<Recording>, CommandFailure> {
    let clock = Clock::start();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since_1970.as_millis()).unwrap_or_default();
    let path = match &args.out {
        Some(path) => path.clone(),
        None => {
            let folder = state_folder().map(|folder| folder.join("traces")).ok_or_else(|| {
                CommandFailure::usage("there is no folder for the state of this user: --out names a file")
            })?;
            create_private_folder(&folder).map_err(|error| {
                CommandFailure::failed(format!("cannot create {}: {error}", folder.display()))
            })?;
            folder.join(format!("{millis}-{}.ndjson", process::id()))
        }
    };
    let cannot = CommandFailure::unwritten(&path);
    let (file, created) = create_new_file(&path).map_err(&cannot)?;
    if args.out.as_ref() != Some(&created) {
        print_note(&format!("the trace is {}", created.display()));
    }
    let mask = match args.no_mask {
        true => Mask::none(),
        false => args.mask.iter().fold(Mask::default(), |mask, name| mask.name(name)),
    };
    let by = concat!("mcp-probe ", env!("CARGO_PKG_VERSION"));
    let header = Header::new(by, millis).command(words(server));
    let recorder = Recorder::new(file, header, mask, args.max_size << 20).map_err(cannot)?;
    let on_end = |failure: Option<&io::Error>| {
        let why = match failure {
            Some(error) => format!("cannot write the trace: {error}"),
            None => "the trace is as long as --max-size allows".into(),
        };
        print_note(&format!("{why}; the connection goes on without being recorded"));
    };
    Ok(Arc::new(Recording::new(recorder, clock, on_end)))
}

/// Returns the words that name the server.
fn words(server: &Server) -> Vec<String> {
    match server {
        Server::Program(program) => program.words().map(|word| word.to_string_lossy().into_owned()).collect(),
        other => vec![other.display_name()],
    }
}

/// Creates a file under this name, or one with a number if it exists. Returns it with its name.
fn create_new_file(path: &Path) -> io::Result<(File, PathBuf)> {
    let numbered = (2..=MAX_NUMBER).map(|number| {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number}"));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    });
    for path in core::iter::once(path.to_path_buf()).chain(numbered) {
        match create_private_file(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn unreachable(message: &str) -> CommandFailure {
    CommandFailure::new(Exit::Connection, message.to_owned())
}

fn broken(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("{what}: {error}"))
}
