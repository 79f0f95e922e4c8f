//! Options of `serve`.

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use mcp_std::io::SerialConfig;

use super::chaos::ChaosArgs;
use crate::args::{ProtectionArgs, RevisionArgs, Runtime, ServeHttpArgs, duration};
use crate::serve::mock::{MOCK_HELP, MockArgs};
use crate::stop;
use crate::tour::{self, TourStep};

/// Runs a test server on stdio, a socket, a serial line or over HTTP.
///
/// A server to try clients with. It has the tools echo, add, count and fail; with --everything it offers something
/// of every kind. It ends when its input ends, on Ctrl-C or on SIGTERM. After a signal, running calls have one
/// second to finish.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = format!("{MOCK_HELP}\n\n{HELP}"))]
pub(crate) struct ServeArgs {
    /// Offers something of every kind.
    ///
    /// That is the fixtures of the conformance suite, and more to try manually.
    #[arg(long)]
    pub(crate) everything: bool,
    #[command(flatten)]
    pub(crate) mock: MockArgs,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the length of a received message, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = frame_size, hide_short_help = true)]
    pub(crate) max_frame: usize,
    /// Shows every message on stderr: → to the client, ← from it.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Hides the values of members with this name in the trace.
    ///
    /// Applies at any depth. May be repeated.
    #[arg(long, value_name = "MEMBER", requires = "trace", hide_short_help = true)]
    pub(crate) hide: Vec<String>,
    /// Selects the adapter that the server runs on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t, hide_short_help = true, hide = !cfg!(feature = "runtimes"))]
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
    #[command(flatten)]
    pub(super) chaos: ChaosArgs,
    /// Pings silent legacy clients in this interval.
    ///
    /// The session of one that misses three pings in a row ends. Over HTTP only sessions with an open GET stream are pinged.
    /// Modern clients take no requests. At least 1s.
    #[arg(long, value_name = "TIME", value_parser = duration, hide_short_help = true)]
    pub(crate) keep_alive: Option<Duration>,
    /// Sets the number of threads that serve HTTP.
    ///
    /// Each thread has its own connections and sessions. Needs --runtime threads, smol or tokio, without --everything.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "address")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) shards: u8,
    /// Performs one step of the demo wrongly, for tests.
    #[arg(long = "break", value_name = "STEP", hide = true, value_parser = tour::parser())]
    pub(crate) broken: Option<TourStep>,
}

impl ServeArgs {
    /// Returns the time that running calls have after a signal, for a server over HTTP.
    pub(super) const fn grace_period(&self) -> Duration {
        if self.sessions.session_store.is_some() { SHARED_GRACE_PERIOD } else { stop::GRACE_PERIOD }
    }
}

/// Options of the layers around the calls of a server.
#[derive(Args, Debug)]
pub(crate) struct LayerArgs {
    /// Limits the calls of tools and completions of each client.
    ///
    /// For example 100/1m; TIME is 1s unless it is given. A call beyond the limit is refused with the time to wait. Each of
    /// several shards counts for itself.
    #[arg(long, value_name = "CALLS[/TIME]", value_parser = call_rate)]
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
    #[arg(long, value_name = "FILE", requires = "session_store", hide_short_help = true)]
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

/// Parses a number of calls in a time: `10`, `100/1m`.
fn call_rate(text: &str) -> Result<CallRate, String> {
    let (calls, period) = text.split_once('/').unwrap_or((text, "1s"));
    let calls = calls.parse().ok().filter(|calls| *calls > 0);
    let calls = calls.ok_or("must be a number of calls, and a time: write 10, or 100/1m")?;
    Ok(CallRate { calls, period: duration(period)? })
}

/// Parses a frame size in bytes, at least [`MIN_FRAME_SIZE`].
fn frame_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size >= MIN_FRAME_SIZE => Ok(size),
        Ok(_) => Err(format!("must be at least {MIN_FRAME_SIZE} bytes: write 65536, not 64")),
        Err(_) => Err("must be a number of bytes: write 65536, not 64k".into()),
    }
}

/// Minimum frame size in bytes. A handshake needs more than this.
const MIN_FRAME_SIZE: usize = 1_024;
/// Grace period of a server that shares its sessions: its clients go on at other processes, and wait for nothing.
const SHARED_GRACE_PERIOD: Duration = Duration::from_secs(10);

const HELP: &str = "\
Examples:
  mcp-probe inspect -- mcp-probe serve --everything
  mcp-probe inspect -- mcp-probe serve
  mcp-probe call echo text=hello -- mcp-probe serve --era legacy
  mcp-probe serve --everything --http 127.0.0.1:8080
  mcp-probe serve --listen unix:/tmp/demo.sock
  mcp-probe inspect unix:/tmp/demo.sock   (in another terminal)
  mcp-probe serve --listen tcp://127.0.0.1:7000 --max-connections 4
  mcp-probe serve --serial /dev/ttyGS0:115200
  mcp-probe serve --mock shop.json
  mcp-probe serve --mock session.ndjson --http 127.0.0.1:8080
  mcp-probe serve --http 127.0.0.1:8080 --runtime threads --shards 2
  mcp-probe serve --http 127.0.0.1:8080 --rate-limit 100/1m \\
      --audit-log calls.jsonl
  mcp-probe serve --list   (the kinds of --chaos)
  mcp-probe call add a=1 b=2 --timeout 2s -- \\
      mcp-probe serve --chaos 7 --chaos-kinds late,twice --chaos-rate 50%
  mcp-probe serve --http [::]:8443 --allow-host tools.example.com \\
      --tls-cert chain.pem --tls-key key.pem

--tls-cert and --tls-key need an mcp-probe built with the feature tls.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_rate_is_a_number_with_or_without_a_time() {
        let rate = |calls, seconds| Ok(CallRate { calls, period: Duration::from_secs(seconds) });
        assert_eq!((call_rate("10"), call_rate("100/1m")), (rate(10, 1), rate(100, 60)));
        for text in ["", "0", "-1", "1/0", "1/", "x/1s", "1/soon"] {
            assert!(call_rate(text).is_err_and(|error| error.contains("must be")), "{text}");
        }
    }

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
