//! Options that name a server, shared by all commands that connect to one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mcp_std::io::{SerialConfig, StreamAddress};

/// A server and what to send to it: a program with its environment, or a URL with its header fields.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Passes on an environment variable, or sets one (may be repeated).
    ///
    /// Without it, the server gets only PATH, HOME and similar variables.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Sends this bearer token with each HTTP request.
    ///
    /// Other users of this machine can see a command line. Use env:NAME to take the token from an environment variable,
    /// or @PATH to read it from a file.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// Sends this header field with each HTTP request (may be repeated).
    ///
    /// The value can be env:NAME or @PATH, as for --bearer. It is never printed. Fields that the protocol sets itself
    /// are refused.
    // A string, because an error of clap would print the value.
    #[arg(long, value_name = "NAME:VALUE")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) place: ServerPlaceArgs,
}

/// A server: a program, a URL, a socket, a serial line, or an entry of a configuration file.
#[derive(Debug, Args)]
pub(crate) struct ServerPlaceArgs {
    /// Takes the server from a configuration file of an MCP client.
    ///
    /// That is the file that Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Copilot, opencode or Zed
    /// writes, or one of the same form. ${env:NAME} and ${NAME} in it are environment variables.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Names the server in the configuration file.
    ///
    /// Not needed if the file has only one.
    #[arg(long = "server", value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Talks to a server on this serial line, with one message per line.
    ///
    /// The baud rate is 115200 unless it is given, as in /dev/ttyUSB0:9600. The line has 8 data bits, no parity, 1 stop
    /// bit, no echo and no flow control. Lines that are no messages, of a starting board for example, are shown and
    /// skipped.
    #[arg(long, value_name = "DEVICE[:BAUD]", conflicts_with_all = ["command", "config", "server_name"])]
    pub(crate) serial: Option<SerialConfig>,
    /// Server: a program with its arguments, a URL, a socket, or @NAME.
    ///
    /// The program is started without a shell; the name mcp-probe means this program itself. A URL, for example
    /// http://127.0.0.1:8080/mcp, needs no -- before it, and neither does a socket that carries one message per line:
    /// tcp://HOST:PORT or unix:PATH. @NAME is a connection that `mcp-probe connect` keeps.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl ServerPlaceArgs {
    /// Returns whether the command line names a server.
    pub(crate) fn is_given(&self) -> bool {
        !self.command.is_empty() || self.config.is_some() || self.serial.is_some()
    }
}

/// Returns the URL given in place of a server command, if any.
pub(crate) fn url(command: &[OsString]) -> Option<&str> {
    only(command).filter(|word| is_url(word))
}

/// Returns the socket given in place of a server command, if any.
pub(crate) fn socket(command: &[OsString]) -> Option<&str> {
    only(command).filter(|word| StreamAddress::is_socket(word))
}

/// Returns the name of the connection given in place of a server command, if any.
pub(crate) fn connection(command: &[OsString]) -> Option<&str> {
    only(command)?.strip_prefix('@')
}

fn only(command: &[OsString]) -> Option<&str> {
    if let [only] = command { only.to_str() } else { None }
}

/// Returns whether a word is an `http` or `https` URL.
pub(crate) fn is_url(word: &str) -> bool {
    let begins =
        |scheme: &str| word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}
