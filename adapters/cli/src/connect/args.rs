//! Options of `connect`.

use core::time::Duration;

use clap::Args;

use crate::args::values::{duration, duration_or_zero};
use crate::args::{AuthorizationArgs, ConnectionArgs, RevisionArgs, ServerArgs, usage};
use crate::connections::name;

/// Keeps a connection to a server, for the commands that name it: @NAME.
///
/// A background process, one for each user, keeps the server and its session: what a tool has stored or opened is there for the next
/// command. It outlives the terminal, and ends with its last connection.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = concat!(
    usage!("mcp-probe connect <NAME> [OPTIONS]"),
    "\n       mcp-probe connect --list [--json]\n       mcp-probe connect (--end <NAME>... | --end-all) [--json]"
))]
pub(crate) struct ConnectArgs {
    /// Name of the connection: letters, digits, '-', '_' and '.'.
    #[arg(value_parser = name, required_unless_present_any = ["list", "end", "end_all"])]
    pub(crate) name: Option<String>,
    /// Lists the connections that are kept.
    #[arg(long, conflicts_with_all = NOT_MADE, conflicts_with_all = ["end", "end_all"])]
    pub(crate) list: bool,
    /// Ends these connections, and their servers.
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = name)]
    #[arg(conflicts_with_all = NOT_MADE, conflicts_with = "end_all")]
    pub(crate) end: Vec<String>,
    /// Ends all connections, and the background process.
    #[arg(long, conflicts_with_all = NOT_MADE)]
    pub(crate) end_all: bool,
    /// Ends the connection when no command has used it for this time: 30m or 90s.
    ///
    /// In use it is while a command is connected. 0 never ends it.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration_or_zero)]
    pub(crate) idle_timeout: Duration,
    /// Limits the time to wait for one answer of the server.
    ///
    /// Progress restarts the time. The commands have their own timeouts.
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Prints one JSON object instead.
    ///
    /// Its members: name, server, era, revision, seconds (since it was made), idle (seconds until it ends without use, or null),
    /// isNew (whether this command made it). With --list: process (id of the background process, or null if there is none), version
    /// (of it, or null), connections (as above). With --end: ended (names of the connections that have ended). If there is none of
    /// a name, the exit code is 2; the object is printed all the same if others have ended, and one with the member error if none
    /// has.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

/// Keeps the connections of a user. The command `connect` starts it.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {}

/// Options of a connection that is made.
const NOT_MADE: [&str; 9] =
    ["name", "command", "config", "serial", "env", "bearer", "header", "idle_timeout", "timeout"];

const HELP: &str = "\
Every command that takes a server takes @NAME, before or after its own words. A
command is a client of its own; the session with the server is one, and its
questions go to the command whose call asks. The server is told of no roots and
no sampling. If it dies, running calls get an error, and the next call starts it
again, without what it had in its memory.

The server gets the working directory of `connect`, and of its environment what
any server gets: PATH, HOME and similar variables, and those of --env. Tokens
that `login` has stored are used and renewed; on a terminal `connect` asks for a
login if the server does. The same command in the same folder with the same
variables changes nothing; with others it is another connection. What the
server writes to its stderr is shown if it does not start, and dropped later.

The sockets are in the folder mcp-probe in XDG_RUNTIME_DIR, or in one of this
user among the temporary files; nobody else may use it. At most 64 connections.

Examples:
  mcp-probe connect lab -- mcp-probe serve --everything
  mcp-probe call @lab echo text=hello
  mcp-probe inspect @lab
  mcp-probe connect lights --idle-timeout 0 --serial /dev/ttyACM0
  mcp-probe connect --list
  mcp-probe connect --end lab";
