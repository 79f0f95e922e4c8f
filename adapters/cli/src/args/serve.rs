//! Options of `serve`, and those of each command that serves.

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use mcp_std::io::{SerialConfig, StreamAddress};

use super::values::{self, connection_count, duration, frame_size};
use super::{RevisionArgs, Runtime};
use crate::demo::TourStep;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Offers something of every kind.
    ///
    /// That is the fixtures of the conformance suite, and more to try manually.
    #[arg(long)]
    pub(crate) everything: bool,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Follows the drafts of the specification where they differ from the releases.
    ///
    /// Error codes are those of the drafts, and header fields are required in sessions over HTTP, too. `mcp_proto::draft`
    /// lists what differs.
    #[arg(long)]
    pub(crate) draft: bool,
    /// Limits the length of a received message, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = frame_size)]
    pub(crate) max_frame: usize,
    /// Shows every message on stderr: → to the client, ← from it.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Hides the values of members with this name in the trace.
    ///
    /// Applies at any depth. May be repeated.
    #[arg(long, value_name = "MEMBER", requires = "trace")]
    pub(crate) hide: Vec<String>,
    /// Selects the adapter that the server runs on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) http: ServeHttpArgs,
    /// Serves one client on this serial line instead of stdin and stdout.
    ///
    /// The baud rate is 115200 unless it is given, as in /dev/ttyGS0:9600.
    #[arg(long, value_name = "DEVICE[:BAUD]", conflicts_with = "listener")]
    pub(crate) serial: Option<SerialConfig>,
    #[command(flatten)]
    pub(crate) protection: ProtectionArgs,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
    #[command(flatten)]
    pub(crate) sessions: SessionArgs,
    /// Pings silent legacy clients in this interval.
    ///
    /// The session of one that misses three pings in a row ends. Over HTTP only sessions with an open GET stream are pinged.
    /// Modern clients take no requests. At least 1s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) keep_alive: Option<Duration>,
    /// Sets the number of threads that serve HTTP.
    ///
    /// Each thread has its own connections and sessions. Needs --runtime threads, smol or tokio, without --everything.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "address")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) shards: u8,
    /// Performs one step of the demo wrongly, for tests.
    #[arg(long = "break", value_name = "STEP", hide = true)]
    pub(crate) broken: Option<TourStep>,
}

/// Options of the layers around the calls of a server.
#[derive(Args, Debug)]
pub(crate) struct LayerArgs {
    /// Limits the calls of tools and completions of each client.
    ///
    /// For example 100/1m; TIME is 1s unless it is given. A call beyond the limit is refused with the time to wait. Each of
    /// several shards counts for itself.
    #[arg(long, value_name = "CALLS[/TIME]", value_parser = values::call_rate)]
    pub(crate) rate_limit: Option<CallRate>,
    /// Appends a line of JSON to this file for each call.
    ///
    /// Its members: time (seconds since 1970), method, entry, principal, peer, paramsBytes, outcome, code (of an error),
    /// milliseconds. Arguments and results are not recorded.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
}

/// A number of calls in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallRate {
    pub(crate) calls: u32,
    pub(crate) period: Duration,
}

/// Options of a server that shares its sessions with other processes.
#[derive(Args, Debug)]
pub(crate) struct SessionArgs {
    /// Keeps the sessions of clients in this store, which other processes share.
    ///
    /// STORE is the URL of a Redis or Valkey, such as redis://127.0.0.1:6379/0, or a folder for the processes of this machine.
    /// Each request of a client can then go to any of the processes. All have the same options. With --everything the server has
    /// no tasks then.
    #[arg(long, value_name = "STORE", requires_all = ["address", "session_key"])]
    pub(crate) session_store: Option<String>,
    /// Reads the keys that seal what is stored from this file, one on each line.
    ///
    /// A key is 64 hexadecimal digits, from a cryptographic source. The first one seals; the others still open.
    #[arg(long, value_name = "FILE", requires = "session_store")]
    #[arg(value_parser = PathBufValueParser::new().try_map(SessionKeyFile::read))]
    pub(crate) session_key: Option<SessionKeyFile>,
}

/// The content of the file of keys.
#[derive(Clone)]
#[cfg_attr(not(feature = "sessions"), expect(dead_code, reason = "a store needs the feature"))]
pub(crate) struct SessionKeyFile {
    pub(crate) current: [u8; 32],
    pub(crate) older: Vec<[u8; 32]>,
}

impl SessionKeyFile {
    fn read(path: PathBuf) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Option<Vec<[u8; 32]>> = lines.map(parse_key).collect();
        let mut keys = keys.ok_or("each line has to be a key of 64 hexadecimal digits")?.into_iter();
        let current = keys.next().ok_or("there is no key in it")?;
        Ok(Self { current, older: keys.collect() })
    }
}

/// Shows no keys.
impl fmt::Debug for SessionKeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeyFile").finish_non_exhaustive()
    }
}

fn parse_key(line: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if line.len() != 64 || !line.is_ascii() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(line.as_bytes().chunks_exact(2)) {
        *byte =
            u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok().filter(|_| digits[0] != b'+')?;
    }
    Some(key)
}

/// Options of a server that requires access tokens.
#[derive(Args, Debug)]
pub(crate) struct ProtectionArgs {
    /// Requires an access token of this authorization server.
    ///
    /// ISSUER is its issuer identifier, an https URL (http on this machine). Tokens are JWTs; the keys come from the
    /// metadata of the authorization server. The server describes itself at
    /// /.well-known/oauth-protected-resource/PATH, and its challenges name that document.
    #[arg(long = "protect", value_name = "ISSUER", requires = "address")]
    pub(crate) issuer: Option<String>,
    /// Sets the URL for which tokens have to be issued.
    ///
    /// This is the URL of the server as clients know it. By default it is that at which the server listens; at an address
    /// such as 0.0.0.0 it has to be given.
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub(crate) audience: Option<String>,
    /// Requires this scope of every token.
    ///
    /// May be repeated.
    #[arg(long, value_name = "SCOPE", requires = "issuer")]
    pub(crate) require_scope: Vec<String>,
}

/// HTTP options of the commands that serve.
#[derive(Debug, Args)]
pub(crate) struct ServeHttpArgs {
    /// Serves HTTP at this address instead of stdin and stdout.
    ///
    /// For example 127.0.0.1:8080; with port 0 the system chooses a port. The URL is printed on stderr. Everyone who
    /// can reach the address can use the server; if other machines can, a note on stderr says what guards it.
    #[arg(long = "http", value_name = "ADDR", group = "listener")]
    pub(crate) address: Option<String>,
    /// Serves a socket instead of stdin and stdout, with one message per line.
    ///
    /// ADDRESS is tcp://HOST:PORT or unix:PATH; with port 0 the system chooses a port. Each connection has a session of its
    /// own. There is no encryption, no authorization and no check of who connects: everyone who can reach the address can
    /// use the server. Only this user can open a Unix socket.
    #[arg(long, value_name = "ADDRESS", group = "listener")]
    pub(crate) listen: Option<StreamAddress>,
    /// Serves HTTPS with the certificates in this PEM file.
    ///
    /// The certificate of the server comes first.
    #[arg(long, value_name = "FILE", requires_all = ["address", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Reads the private key of the certificate from this PEM file.
    ///
    /// The key must not be encrypted. It may be in the same file as the certificates.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Sets the path of the endpoint.
    #[arg(long, value_name = "PATH", default_value = "/mcp", requires = "address", value_parser = values::path)]
    pub(crate) path: String,
    /// Serves HTTP+SSE of 2024-11-05 as well, at /sse and /messages.
    #[arg(long, requires = "address")]
    pub(crate) sse: bool,
    /// Accepts requests for this host, besides the names of this machine.
    ///
    /// For example example.com or example.com:8080. May be repeated.
    #[arg(long, value_name = "HOST", requires = "address")]
    pub(crate) allow_host: Vec<String>,
    /// Allows web pages of this origin to send requests and read responses.
    ///
    /// The origin starts with its scheme. May be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "address")]
    pub(crate) allow_origin: Vec<String>,
    /// Limits the open connections, including event streams.
    ///
    /// By default the descriptor limit, which is raised as far as possible, less 128, and at most 10,000. A
    /// client beyond it gets 503 unless an idle or slow connection can be closed. With --listen the default is 64, and a
    /// connection beyond it is closed at once unless another one is silent, or was idle for 10 minutes.
    #[arg(long, value_name = "N", requires = "listener", value_parser = connection_count)]
    pub(crate) max_connections: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_64_hexadecimal_digits() {
        assert_eq!(parse_key(&"0f".repeat(32)), Some([15; 32]));
        for text in ["", "0f", &"0f".repeat(33), &"+f".repeat(32), &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }

    #[test]
    fn file_of_keys_is_read_once_and_shown_by_nobody() {
        let path = std::env::temp_dir().join(format!("mcp-probe-keys-{}", std::process::id()));
        for (text, why) in [("\n \n", "there is no key in it"), ("0f", "each line has to be a key")] {
            std::fs::write(&path, text).expect("a file");
            assert!(SessionKeyFile::read(path.clone()).expect_err("no keys").starts_with(why));
        }
        std::fs::write(&path, format!("{}\n\n {}\n", "0f".repeat(32), "0A".repeat(32))).expect("a file");
        let keys = SessionKeyFile::read(path.clone()).expect("two keys");
        std::fs::remove_file(&path).expect("a file");
        assert_eq!((keys.current, &*keys.older), ([15; 32], &[[10; 32]][..]));
        assert_eq!(format!("{keys:?}"), "SessionKeyFile { .. }");
        assert!(SessionKeyFile::read(path).is_err());
    }
}
