//! Conversations in both directions: who asks, who answers, who is told what, with all that can come of it
//!
//! `peers/talk.json` has what is asked, the steps, and what is to come of each; every client reports what it saw of a
//! step, every server notes what only it can see, and here both are compared. Ours are `src/bin/talker`, made of
//! `mcp_blocking` as its users have it.

mod differences;
mod told;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, thread};

use mcp_proto::{Instant, VersionSet};
use mcp_tests::harness::Watch;
use mcp_tests::schema::Direction;
use serde_json::Value;

use crate::hosted::{Hosted, until_noted};
use crate::peers::{
    node, node_ready, package, python, python_program, python_ready, rmcp_program, rmcp_ready,
};
use crate::proxy::Proxy;
use crate::run::{DEADLINE, Done, run, say};
use told::Told;

/// How long our server waits for answers in the part `time-out`; their servers as well.
const TIME_OUT_MS: &str = "2500";

/// Who talks
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sdk {
    Ours,
    /// `@modelcontextprotocol/sdk` 1.32.2
    Typescript1,
    /// `@modelcontextprotocol/client` and `server` 2.4.0
    Typescript2,
    /// `mcp` 2.3.0
    Python,
    /// `rmcp` 3.8.0; over HTTP only
    Rmcp,
}

/// What they talk over
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Wire {
    Stdio,
    /// Streamable HTTP
    Http,
    /// HTTP+SSE of 2024-11-05
    Sse,
    /// Streamable HTTP through nginx, with two servers behind it in the modern era
    Proxy,
}

/// What instances of one server share, so that each can read what another has sealed
const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

impl Sdk {
    pub(crate) fn ready(self) -> bool {
        match self {
            Self::Ours => true,
            Self::Typescript1 | Self::Typescript2 => node_ready(),
            Self::Python => python_ready(),
            Self::Rmcp => rmcp_ready(),
        }
    }

    pub(crate) fn program(self, role: &str) -> Vec<OsString> {
        match self {
            Self::Ours => {
                let role = if role == "server" { "serve" } else { role };
                vec![env!("CARGO_BIN_EXE_talker").into(), role.into(), talk_file().into()]
            }
            Self::Typescript1 | Self::Typescript2 => {
                let generation = if self == Self::Typescript1 { "1" } else { "2" };
                let script = node().join(format!("talk-{role}.mjs"));
                vec!["node".into(), script.into(), talk_file().into(), "--sdk".into(), generation.into()]
            }
            Self::Python => {
                let script = python().join(format!("talk_{role}.py"));
                vec![python_program().into(), script.into(), talk_file().into()]
            }
            Self::Rmcp => vec![rmcp_program().into(), role.into(), talk_file().into()],
        }
    }
}

fn talk_file() -> PathBuf {
    package().join("peers").join("talk.json")
}

fn talk() -> &'static Value {
    static TALK: OnceLock<Value> = OnceLock::new();
    TALK.get_or_init(|| {
        serde_json::from_slice(&fs::read(talk_file()).expect("a file of ours")).expect("JSON")
    })
}

/// A pair of programs in an era
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    client: Sdk,
    server: Sdk,
    era: &'static str,
    wire: Wire,
}

impl Pair {
    /// On stdio, in the newest revision of an era
    const fn new(client: Sdk, server: Sdk, era: &'static str) -> Self {
        Self { client, server, era, wire: Wire::Stdio }
    }

    /// Over HTTP
    pub(crate) const fn over(wire: Wire, client: Sdk, server: Sdk, era: &'static str) -> Self {
        Self { wire, ..Self::new(client, server, era) }
    }

    /// Runs some parts of the conversation
    fn run(self, parts: &'static str) -> Told {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let log = env::temp_dir().join(format!("mcp-interop-talk-{}-{number}.log", std::process::id()));
        let done = match self.wire {
            Wire::Stdio => self.run_on_pipes(parts, &log),
            Wire::Http | Wire::Sse | Wire::Proxy => self.run_over_http(parts, &log),
        };
        let parsed = |text: &str| -> Vec<Value> {
            let line =
                |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {done}"));
            text.lines().map(line).collect()
        };
        let noted = parsed(&fs::read_to_string(&log).unwrap_or_default());
        let _ = fs::remove_file(&log);
        for (sdk, role, direction) in [
            (self.client, "client", Direction::ClientToServer),
            (self.server, "server", Direction::ServerToClient),
        ] {
            if sdk == Sdk::Ours {
                self.check_wire(&log.with_extension(role), direction);
            }
        }
        let steps =
            parts.split(',').flat_map(|part| talk()["steps"][part].as_array().expect("a part")).collect();
        Told { pair: self, steps, parts, lines: parsed(&done.stdout), noted, done }
    }

    /// The client, yet to be told where its server is
    fn client_command(self, parts: &str, log: &Path) -> Command {
        let mut words = self.client.program("client").into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--era", self.era, "--part", parts]);
        if self.client == Sdk::Ours {
            command.arg("--log").arg(log);
        }
        command
    }

    fn server_words(self, parts: &str, log: &Path) -> Vec<OsString> {
        let mut words = self.server.program("server");
        if !matches!(self.server, Sdk::Python | Sdk::Rmcp) {
            words.extend(["--era".into(), self.era.into()]);
        }
        words.extend(["--log".into(), log.into()]);
        // Over HTTP nobody in the legacy era is gone for having hung up.
        let waits = parts == "vanish" && self.wire != Wire::Stdio;
        if parts == "time-out" || waits || self.differs("outlives", "vanish").is_some() {
            words.extend(["--time-out".into(), TIME_OUT_MS.into()]);
        }
        words
    }

    fn run_on_pipes(self, parts: &str, log: &Path) -> Done {
        let mut command = self.client_command(parts, log);
        command.arg("--").args(self.server_words(parts, log));
        run(command, DEADLINE).expect("the client starts")
    }

    /// The server runs by itself, and is told to end when the client is done
    fn run_over_http(self, parts: &str, log: &Path) -> Done {
        let count = if self.wire == Wire::Proxy && self.is_modern() { 2 } else { 1 };
        let servers: Vec<_> = (0..count).map(|_| self.host(parts, log)).collect();
        let urls: Vec<_> = servers.iter().map(|server| &*server.url).collect();
        let proxy = (self.wire == Wire::Proxy).then(|| Proxy::start(&urls));
        let mut client = self.client_command(parts, log);
        // Ours finds it out by itself.
        if self.wire == Wire::Sse && self.client != Sdk::Ours {
            client.arg("--sse");
        }
        client.args(["--", proxy.as_ref().map_or(urls[0], |proxy| &*proxy.url)]);
        let done = run(client, DEADLINE).expect("the client starts");
        if parts == "vanish" {
            self.wait_for_the_vanished(log);
        }
        for server in servers {
            server.end();
        }
        done
    }

    fn host(self, parts: &str, log: &Path) -> Hosted {
        let mut words = self.server_words(parts, log).into_iter();
        let mut server = Command::new(words.next().expect("a program"));
        server.args(words).args(["--http", "0"]);
        if self.wire == Wire::Sse {
            server.arg("--sse");
        }
        if self.wire == Wire::Proxy && self.server == Sdk::Ours {
            server.args(["--secret", SECRET]);
        }
        let server = Hosted::start(server);
        // Ours has no handler for signals, and something to note at its end.
        if self.server == Sdk::Ours { server.until_eof() } else { server }
    }

    /// Who is gone is noticed when its stream of changes is, if it had one; a question is given up when its time is up
    fn wait_for_the_vanished(self, log: &Path) {
        let noticed = until_noted(log, |noted| {
            if self.server == Sdk::Ours && (self.is_modern() || self.wire == Wire::Sse) {
                noted.contains(r#""wanted":false"#)
            } else if self.is_modern() {
                true
            } else {
                noted.contains("gave-up") || noted.contains("aborted")
            }
        });
        assert!(noticed, "{self:?}: not noticed: {:?}", fs::read_to_string(log));
    }

    /// What our side wrote has to be right in itself, and valid in its revision
    fn check_wire(self, path: &Path, direction: Direction) {
        let wire = fs::read(path).expect("a file of our talker");
        let _ = fs::remove_file(path);
        let mut watch = Watch::new(if self.is_modern() { VersionSet::MODERN } else { VersionSet::LEGACY });
        for line in wire.split(|b| *b == b'\n') {
            match line {
                [b'>', line @ ..] => _ = watch.emitted(Instant::ZERO, direction, line),
                [b'<', line @ ..] => watch.fed(Instant::ZERO, direction.reverse(), line),
                _ => assert_eq!(line, b"", "a line of our talker's"),
            }
        }
        assert!(watch.messages.len() > 3, "{self:?}: nothing was looked at");
    }

    const fn is_modern(self) -> bool {
        matches!(self.era.as_bytes(), b"modern")
    }

    /// All parts of the conversation
    pub(crate) fn talks(self) {
        if !self.client.ready() || !self.server.ready() {
            return;
        }
        // As few processes as can be: what needs none of its own is one conversation. A legacy server does not end what
        // it was asked to tell; a modern one holds nothing open while it waits (MRTR-025), so nothing can time out.
        let most = if self.is_modern() { "answers,logs,news,farewell" } else { "answers,gate,logs,news" };
        let count = move |parts| format!("{parts} {}", self.run(parts).check());
        // Waiting for what never comes needs no processor, so it is done beside the rest.
        let counts = thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                self.run("vanish").check_vanished();
                (!self.is_modern()).then(|| count("time-out"))
            });
            let mut counts = vec![count(most), count("poor")];
            counts.extend(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)));
            counts
        });
        let Self { client, server, era, wire, .. } = self;
        let counts = counts.join(", ");
        say(&format!("interop, {client:?} asked by {server:?}, {wire:?}, {era}: {counts}, vanish"));
    }

    /// What can be said where a server is not the same from one request to the next, or always is
    pub(crate) fn talks_through_a_proxy(self) {
        if !self.client.ready() || !self.server.ready() {
            return;
        }
        let parts = if self.is_modern() { "answers,logs" } else { "answers,gate,logs,news" };
        let count = self.run(parts).check();
        let Self { client, server, era, .. } = self;
        say(&format!("interop, {client:?} asked by {server:?}, through nginx, {era}: {count} steps"));
    }

    /// Streams that are really cut, and gone on with
    pub(crate) fn goes_on_after_a_cut(self) {
        if !self.client.ready() || !self.server.ready() {
            return;
        }
        let told = self.run("cut");
        let count = told.check();
        let Self { client, server, .. } = self;
        let took = told.took();
        say(&format!("interop, {client:?} cut off by {server:?}: {count} steps in {took:.1?}"));
    }
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_typescript_1() {
    Pair::new(Sdk::Typescript1, Sdk::Ours, "legacy").talks();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_typescript_2_legacy() {
    Pair::new(Sdk::Typescript2, Sdk::Ours, "legacy").talks();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn our_server_asks_typescript_2_modern() {
    Pair::new(Sdk::Typescript2, Sdk::Ours, "modern").talks();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn our_server_asks_python_legacy() {
    Pair::new(Sdk::Python, Sdk::Ours, "legacy").talks();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn our_server_asks_python_modern() {
    Pair::new(Sdk::Python, Sdk::Ours, "modern").talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn our_client_answers_typescript_1() {
    Pair::new(Sdk::Ours, Sdk::Typescript1, "legacy").talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn our_client_answers_typescript_2_legacy() {
    Pair::new(Sdk::Ours, Sdk::Typescript2, "legacy").talks();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, ROOT-001, ROOT-007, MRTR-011, MRTR-012
// covers: MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
#[test]
fn our_client_answers_typescript_2_modern() {
    Pair::new(Sdk::Ours, Sdk::Typescript2, "modern").talks();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn our_client_answers_python_legacy() {
    Pair::new(Sdk::Ours, Sdk::Python, "legacy").talks();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, SAMP-009, ROOT-001, ROOT-007, MRTR-011
// covers: MRTR-012, MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
#[test]
fn our_client_answers_python_modern() {
    Pair::new(Sdk::Ours, Sdk::Python, "modern").talks();
}

#[test]
fn our_client_answers_our_server() {
    for era in ["legacy", "modern"] {
        Pair::new(Sdk::Ours, Sdk::Ours, era).talks();
    }
}
