//! The commands: they ask the background process, and start it if there is none.

use core::time::Duration;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs, thread};

use mcp_proto_proxy::host::ClientIdentity;
use mcp_std::io::StreamAddress;
use serde::Serialize;

use super::args::ConnectArgs;
use super::control::{self, Answer, CONTROL_SOCKET, Request, Summary, Wanted};
use super::{keeper, process};
use crate::authorization;
use crate::connections;
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::handed_over;
use crate::output::{print, print_value};
use crate::paint::Paint;
use crate::server::Server;
use crate::session::note_end;

/// The connections for `--json`.
#[derive(Serialize)]
struct ConnectionsJson {
    process: Option<u32>,
    version: Option<String>,
    connections: Vec<Summary>,
}

/// Ended connections for `--json`.
#[derive(Serialize)]
struct DisconnectJson<'a> {
    ended: &'a [String],
}

/// Has a connection kept, lists those that are, or ends some.
///
/// # Errors
///
/// Fails if the command line is wrong, if the server cannot be reached, if the name is of another connection, or if there is none of a
/// name.
pub(crate) fn run(mut args: ConnectArgs) -> Result<(), CommandFailure> {
    if args.list {
        return list(args.json);
    }
    match args.name.take() {
        Some(name) => connect(name, args),
        None => disconnect(&args),
    }
}

fn connect(name: String, args: ConnectArgs) -> Result<(), CommandFailure> {
    let json = args.json;
    let wait = args.connection.connect_timeout.saturating_add(ANSWER_TIMEOUT);
    let may_ask = args.authorization.authorize || io::stdin().is_terminal();
    let wanted = resolve(name, args)?;
    if let Server::Stream(address) = &wanted.server {
        if let Some(name) = connections::name_at(address) {
            return Err(CommandFailure::usage(format!("@{name} is a connection already")));
        }
    }
    let text = serde_json::to_string(&wanted)
        .map_err(|error| CommandFailure::usage(format!("the server cannot be kept: {error}")))?;
    let request = Request::Connect { version: VERSION.to_owned(), wanted: text };
    let answer = match ask(&request, true, wait) {
        Err(failure) if failure.exit == Exit::Unauthorized && may_ask && wanted.server.is_remote() => {
            log_in(wanted)?;
            ask(&request, true, wait)?
        }
        asked => asked?,
    };
    let Some(Answer::Connected(summary)) = answer else { return Err(other_version()) };
    if json {
        return print_value(&summary);
    }
    let Summary { name, server, era, revision, is_new, .. } = &summary;
    let how = if *is_new { "connected to" } else { "is connected to" };
    print(&format!("@{name} {how} {} ({era} era, revision {revision})\n", escape::line(server)))
}

fn list(json: bool) -> Result<(), CommandFailure> {
    let report = match ask(&Request::List, false, ANSWER_TIMEOUT)? {
        None => ConnectionsJson { process: None, version: None, connections: Vec::new() },
        Some(Answer::Connections { process, version, connections }) => {
            ConnectionsJson { process: Some(process), version: Some(version), connections }
        }
        Some(_) => return Err(other_version()),
    };
    if json {
        return print_value(&report);
    }
    let (process, connections) = match report {
        ConnectionsJson { process: Some(process), connections, .. } if !connections.is_empty() => {
            (process, connections)
        }
        _ => return print("there are no connections\n"),
    };
    let paint = Paint::for_stdout();
    let mut out = String::new();
    for Summary { name, server, era, revision, seconds, idle, .. } in &connections {
        let idle = match idle {
            Some(idle) => format!("ends after {idle} s without use"),
            None => "stays without use".to_owned(),
        };
        let (name, server) = (paint.name(format!("@{name}")), escape::line(server));
        out.push_str(&format!(
            "{name}  {server}\n    {era} era, revision {revision}, {seconds} s old, {idle}\n"
        ));
    }
    print(&format!("{out}{}\n", paint.dim(format!("kept by process {process}"))))
}

fn disconnect(args: &ConnectArgs) -> Result<(), CommandFailure> {
    let wanted = &args.end;
    let names = (!args.end_all).then(|| wanted.clone());
    let ended = match ask(&Request::Disconnect(names), false, ANSWER_TIMEOUT)? {
        None => Vec::new(),
        Some(Answer::Disconnected(names)) => names,
        Some(_) => return Err(other_version()),
    };
    let missing = wanted.iter().find(|name| !ended.contains(name));
    let has_result = missing.is_none() || !ended.is_empty();
    if args.json && has_result {
        print_value(&DisconnectJson { ended: &ended })?;
    }
    if !args.json {
        for name in &ended {
            print(&format!("@{name} has ended\n"))?;
        }
    }
    let Some(name) = missing else { return Ok(()) };
    let failure = CommandFailure::missing_connection(name);
    Err(if has_result { failure.after_result() } else { failure })
}

/// Returns the server of a connection, for a command that needs connections of its own to it.
///
/// # Errors
///
/// Fails if there is no connection of this name.
#[cfg(feature = "check")]
pub(crate) fn server_of(name: &str) -> Result<Server, CommandFailure> {
    match ask(&Request::Server(name.to_owned()), false, ANSWER_TIMEOUT)? {
        None => Err(CommandFailure::missing_connection(name)),
        Some(Answer::Server(wanted)) => {
            serde_json::from_str(&wanted).map(|wanted: Wanted| wanted.server).map_err(|_| other_version())
        }
        Some(_) => Err(other_version()),
    }
}

/// Replaces all that depends on the environment and the working directory of this process.
fn resolve(name: String, args: ConnectArgs) -> Result<Wanted, CommandFailure> {
    let here = env::current_dir()
        .map_err(|error| CommandFailure::failed(format!("there is no working directory: {error}")))?;
    let mut server = Server::from_args(&args.server)?;
    let shown = server.display_name();
    server.resolve(&here);
    let mut authorization = args.authorization;
    if server.is_remote() {
        authorization::resolve(&mut authorization, &here)?;
    }
    // Nobody sees the background process.
    authorization.asks_nobody = true;
    connections::address(&name).map_err(CommandFailure::usage)?;
    let ConnectArgs { idle_timeout: idle, timeout, revisions, connection, .. } = args;
    Ok(Wanted { name, shown, server, authorization, revisions, connection, timeout, idle })
}

/// Lets the user log in, by a connection that ends at once. The tokens are stored.
fn log_in(mut wanted: Wanted) -> Result<(), CommandFailure> {
    wanted.authorization.asks_nobody = false;
    note_end("", &keeper::opener(wanted)?.open(&ClientIdentity::shared())?.close());
    Ok(())
}

fn other_version() -> CommandFailure {
    CommandFailure::failed("the background process is of another version")
        .with_hint("`mcp-probe connect --end-all` of that version ends it, and so does its SIGTERM")
}

/// Asks the background process; `None` if there is none and none is to be started.
///
/// # Errors
///
/// Fails if it gives no answer, or answers with a failure.
fn ask(request: &Request, starts: bool, wait: Duration) -> Result<Option<Answer>, CommandFailure> {
    let folder = connections::folder();
    check_folder(&folder, starts)?;
    let control = folder.join(CONTROL_SOCKET);
    let begun = Instant::now();
    let mut has_started = false;
    let is_safe_to_repeat =
        |sent: Instant| !matches!(request, Request::Connect { .. }) || sent.elapsed() < keeper::LINGER;
    loop {
        let sent = Instant::now();
        let failed = |error: &io::Error| no_answer(&control, error, wait);
        match UnixStream::connect(&control) {
            Ok(stream) => match exchange(&stream, request, wait) {
                Ok(Some(Answer::Failed(failure))) => return Err(failure),
                Ok(Some(answer)) => return Ok(Some(answer)),
                // It was about to end, and takes no more requests.
                Ok(None) if is_safe_to_repeat(sent) => {}
                Err(error) if is_gone(&error) && is_safe_to_repeat(sent) => {}
                Ok(None) => return Err(CommandFailure::failed("the background process was ended meanwhile")),
                Err(error) => return Err(failed(&error)),
            },
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                if !starts {
                    return Ok(None);
                }
                start()?;
                has_started = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(&error)),
        }
        if begun.elapsed() > START_TIMEOUT {
            let why = if has_started { "ends at once" } else { "takes no requests" };
            return Err(CommandFailure::failed(format!("the background process {why}")));
        }
        thread::sleep(RETRY_PAUSE);
    }
}

fn exchange(stream: &UnixStream, request: &Request, wait: Duration) -> io::Result<Option<Answer>> {
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    control::write(stream, request)?;
    control::read(stream)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn no_answer(control: &Path, error: &io::Error, wait: Duration) -> CommandFailure {
    let address = StreamAddress::Unix(control.to_owned());
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => CommandFailure::new(
            Exit::Timeout,
            format!("the background process at {address} gave no answer within {} s", wait.as_secs()),
        )
        .with_hint(match fs::read_to_string(control.with_file_name(process::LOCK_FILE)) {
            Ok(process) => format!("it is process {}, which may be stopped", process.trim()),
            Err(_) => "it may be stopped".to_owned(),
        }),
        ErrorKind::InvalidData => other_version(),
        _ => CommandFailure::failed(format!("the background process at {address} cannot be asked: {error}")),
    }
}

/// Starts the background process, and waits until it takes requests.
fn start() -> Result<(), CommandFailure> {
    let failed =
        |error: io::Error| CommandFailure::failed(format!("the background process does not start: {error}"));
    let program = env::current_exe().map_err(failed)?;
    // It must not hold what the first shell has open: a pipe that is read to its end, or a lock. A script has numbers up to 9 for that.
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(START_SCRIPT.join(" ")).arg(program);
    // What `mcp` allows this process is not for all.
    command.env_remove(handed_over::SERVER).env_remove(handed_over::PATH);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.take(MAX_START_BYTES).read_to_string(&mut said).map_err(failed)?;
    }
    match said.trim() {
        process::READY => Ok(()),
        "" => Err(CommandFailure::failed("the background process ended at once")),
        why => Err(CommandFailure::failed(format!("the background process does not start: {why}"))),
    }
}

/// Checks that no other user has access to the folder. Creates it first if `creates` is set.
fn check_folder(folder: &Path, creates: bool) -> Result<(), CommandFailure> {
    let shown = folder.display();
    let failed = |why: &str| CommandFailure::failed(format!("connections cannot be kept in {shown}: {why}"));
    if creates {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(&error.to_string())),
            _ => {}
        }
    }
    match fs::symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => Err(failed("it is no folder")),
        Ok(found) if found.uid() != rustix::process::getuid().as_raw() => {
            Err(failed("it is of another user"))
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            Err(failed("others can use it").with_hint(format!("`chmod 700 {shown}` changes that")))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && !creates => Ok(()),
        Err(error) => Err(failed(&error.to_string())),
    }
}

/// Words of a script that starts `$0` without the descriptors from 3 to 9.
const START_SCRIPT: [&str; 10] =
    ["exec", "\"$0\"", "keep-connections", "3>&-", "4>&-", "5>&-", "6>&-", "7>&-", "8>&-", "9>&-"];
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time in which the background process answers what needs no server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Time in which it takes a request after it was started.
const START_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Maximum length of what it says when it starts.
const MAX_START_BYTES: u64 = 4 << 10;
