//! Conversations in both directions: input requests, logs and changes, with all their outcomes.
//!
//! `peers/talk.json` holds the input requests, the steps, and their expected outcomes. Each client reports what it saw
//! of a step, each server logs what only it can see, and both are compared here. `src/bin/talker` is the client and
//! server of this workspace, built on `mcp_blocking` like a user program.

mod differences;
mod report;

use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, thread};

use mcp_proto::{Instant, VersionSet};
use mcp_tests::harness::MessageObserver;
use mcp_tests::schema::MessageDirection;
use serde_json::Value;

use crate::hosted_server::{HostedServer, wait_for_log};
use crate::interop::proxy::NginxProxy;
use crate::peers::{
    is_node_ready, is_python_ready, is_rmcp_ready, node, peers, probe, python, python_program, rmcp_program,
};
use crate::run::{DEADLINE, ProcessOutput, print_line, run};
use report::ConversationReport;

/// Time that every server waits for input responses in the part `time-out`.
const TIME_OUT_MS: &str = "2500";

/// An implementation of MCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Implementation {
    Own,
    /// `@modelcontextprotocol/sdk` 1.32.2.
    Typescript1,
    /// `@modelcontextprotocol/client` and `server` 2.4.0.
    Typescript2,
    /// `mcp` 2.3.0.
    Python,
    /// `rmcp` 3.11.0; over HTTP only.
    Rmcp,
}

/// Transport between client and server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InteropTransport {
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// Streamable HTTP through nginx, with two servers behind it in the modern era.
    Proxy,
}

/// Secret that the instances of one server share, so that each can open the sealed state of the others.
const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

impl Implementation {
    pub(crate) fn is_available(self) -> bool {
        match self {
            Self::Own => true,
            Self::Typescript1 | Self::Typescript2 => is_node_ready(),
            Self::Python => is_python_ready(),
            Self::Rmcp => is_rmcp_ready(),
        }
    }

    pub(crate) fn program(self, role: &str) -> Vec<OsString> {
        match self {
            Self::Own => {
                let role = if role == "server" { "serve" } else { role };
                vec![env!("CARGO_BIN_EXE_talker").into(), role.into(), conversation_file().into()]
            }
            Self::Typescript1 | Self::Typescript2 => {
                let generation = if self == Self::Typescript1 { "1" } else { "2" };
                let script = node().join(format!("talk-{role}.mjs"));
                vec![
                    "node".into(),
                    script.into(),
                    conversation_file().into(),
                    "--sdk".into(),
                    generation.into(),
                ]
            }
            Self::Python => {
                let script = python().join(format!("talk_{role}.py"));
                vec![python_program().into(), script.into(), conversation_file().into()]
            }
            Self::Rmcp => vec![rmcp_program().into(), role.into(), conversation_file().into()],
        }
    }
}

fn conversation_file() -> PathBuf {
    peers().join("talk.json")
}

fn conversation() -> &'static Value {
    static TALK: OnceLock<Value> = OnceLock::new();
    TALK.get_or_init(|| {
        serde_json::from_slice(&fs::read(conversation_file()).expect("a file of this repository"))
            .expect("JSON")
    })
}

/// A client and a server in one era.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImplementationPair {
    client: Implementation,
    server: Implementation,
    era: &'static str,
    transport: InteropTransport,
}

impl ImplementationPair {
    /// Returns a pair on stdio, in the newest revision of an era.
    const fn new(client: Implementation, server: Implementation, era: &'static str) -> Self {
        Self { client, server, era, transport: InteropTransport::Stdio }
    }

    /// Returns a pair on another transport.
    pub(crate) const fn with_transport(
        transport: InteropTransport,
        client: Implementation,
        server: Implementation,
        era: &'static str,
    ) -> Self {
        Self { transport, ..Self::new(client, server, era) }
    }

    /// Runs some parts of the conversation.
    fn run(self, parts: &'static str) -> ConversationReport {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let log = env::temp_dir().join(format!("mcp-interop-talk-{}-{number}.log", std::process::id()));
        let output = match self.transport {
            InteropTransport::Stdio => self.run_on_pipes(parts, &log),
            InteropTransport::Http | InteropTransport::Sse | InteropTransport::Proxy => {
                self.run_over_http(parts, &log)
            }
        };
        let parsed = |text: &str| -> Vec<Value> {
            let line =
                |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}: {output}"));
            text.lines().map(line).collect()
        };
        let server_log = parsed(&fs::read_to_string(&log).unwrap_or_default());
        let _ = fs::remove_file(&log);
        for (sdk, role, direction) in [
            (self.client, "client", MessageDirection::ClientToServer),
            (self.server, "server", MessageDirection::ServerToClient),
        ] {
            if sdk == Implementation::Own {
                self.check_wire(&log.with_extension(role), direction);
            }
        }
        let steps = parts
            .split(',')
            .flat_map(|part| conversation()["steps"][part].as_array().expect("a part"))
            .collect();
        ConversationReport {
            pair: self,
            steps,
            parts,
            client_lines: parsed(&output.stdout),
            server_log,
            output,
            problems: RefCell::default(),
        }
    }

    /// Returns the command of the client, without the address of its server.
    fn client_command(self, parts: &str, log: &Path) -> Command {
        let mut words = self.client.program("client").into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--era", self.era, "--part", parts]);
        if self.client == Implementation::Own {
            command.arg("--log").arg(log);
        }
        command
    }

    fn server_args(self, parts: &str, log: &Path) -> Vec<OsString> {
        let mut words = self.server.program("server");
        if !matches!(self.server, Implementation::Python | Implementation::Rmcp) {
            words.extend(["--era".into(), self.era.into()]);
        }
        words.extend(["--log".into(), log.into()]);
        // Over HTTP, a legacy client that hangs up does not count as gone. In other parts, a client gives up after the same time.
        let waits = parts == "vanish"
            && (self.transport != InteropTransport::Stdio
                || self.known_difference("outlives", parts).is_some());
        if parts == "time-out" || waits {
            words.extend(["--time-out".into(), TIME_OUT_MS.into()]);
        }
        words
    }

    fn run_on_pipes(self, parts: &str, log: &Path) -> ProcessOutput {
        let mut command = self.client_command(parts, log);
        command.arg("--").args(self.server_args(parts, log));
        run(command, DEADLINE).expect("the client starts")
    }

    /// Runs the server separately and stops it when the client has ended.
    fn run_over_http(self, parts: &str, log: &Path) -> ProcessOutput {
        let count = if self.transport == InteropTransport::Proxy && self.is_modern() { 2 } else { 1 };
        let servers: Vec<_> = (0..count).map(|_| self.host(parts, log)).collect();
        let urls: Vec<_> = servers.iter().map(|server| &*server.url).collect();
        let proxy = (self.transport == InteropTransport::Proxy).then(|| NginxProxy::start(&urls));
        let mut client = self.client_command(parts, log);
        // The client of this workspace detects HTTP+SSE by itself.
        if self.transport == InteropTransport::Sse && self.client != Implementation::Own {
            client.arg("--sse");
        }
        client.args(["--", proxy.as_ref().map_or(urls[0], |proxy| &*proxy.url)]);
        let output = run(client, DEADLINE).expect("the client starts");
        if parts == "vanish" {
            self.wait_for_dead_client(log);
        }
        for server in servers {
            server.stop();
        }
        output
    }

    fn host(self, parts: &str, log: &Path) -> HostedServer {
        let mut words = self.server_args(parts, log).into_iter();
        let mut server = Command::new(words.next().expect("a program"));
        server.args(words).args(["--http", "0"]);
        if self.transport == InteropTransport::Sse {
            server.arg("--sse");
        }
        if self.transport == InteropTransport::Proxy && self.server == Implementation::Own {
            server.args(["--secret", SECRET]);
        }
        let server = HostedServer::start(server);
        // The server of this workspace handles no signals, and logs at its end.
        if self.server == Implementation::Own { server.stopping_at_eof() } else { server }
    }

    /// Waits until the server has noticed that its client is dead: by the end of the event stream, or by the timeout of
    /// an input request.
    fn wait_for_dead_client(self, log: &Path) {
        let is_noticed = wait_for_log(log, |server_log| {
            if self.server == Implementation::Own
                && (self.is_modern() || self.transport == InteropTransport::Sse)
            {
                server_log.contains(r#""wanted":false"#)
            } else if self.is_modern() {
                true
            } else {
                server_log.contains("gave-up") || server_log.contains("aborted")
            }
        });
        assert!(
            is_noticed,
            "{self:?}: the server did not notice its dead client: {:?}",
            fs::read_to_string(log)
        );
    }

    /// Checks that all messages of our side are well-formed and valid in their revision.
    fn check_wire(self, path: &Path, direction: MessageDirection) {
        let log = fs::read(path).expect("a file of the talker");
        let _ = fs::remove_file(path);
        let mut observer =
            MessageObserver::new(if self.is_modern() { VersionSet::MODERN } else { VersionSet::LEGACY });
        for line in log.split(|b| *b == b'\n') {
            match line {
                [b'>', line @ ..] => _ = observer.record_emitted(Instant::ZERO, direction, line),
                [b'<', line @ ..] => observer.record_fed(Instant::ZERO, direction.reverse(), line),
                _ => assert_eq!(line, b"", "unknown direction of a line"),
            }
        }
        assert!(observer.messages.len() > 3, "{self:?}: too few messages were recorded");
    }

    const fn is_modern(self) -> bool {
        matches!(self.era.as_bytes(), b"modern")
    }

    /// Runs all parts of the conversation.
    pub(crate) fn assert_conversation(self) {
        if !self.client.is_available() || !self.server.is_available() {
            return;
        }
        // Parts that need no process of their own form one conversation, to keep the number of processes small. A
        // legacy server does not end a subscription. A modern server holds nothing open while it waits (MRTR-025), so
        // no part times out.
        let single_process_parts =
            if self.is_modern() { "answers,logs,news,farewell" } else { "answers,gate,logs,news" };
        let count = move |parts| self.run(parts).check().map(|count| format!("{parts} {count}"));
        // A timeout needs no processor, so it runs beside the rest.
        let outcomes = thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let vanished = self.run("vanish").check_vanished().map(|()| "vanish".to_owned());
                let timed_out = (!self.is_modern()).then(|| count("time-out"));
                timed_out.into_iter().chain([vanished])
            });
            let mut outcomes = vec![count(single_process_parts), count("poor")];
            outcomes.extend(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)));
            outcomes
        });
        let problems: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().err()).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n\n"));
        let Self { client, server, era, transport, .. } = self;
        let counts = outcomes.into_iter().flatten().collect::<Vec<_>>().join(", ");
        print_line(&format!("interop, client {client:?}, server {server:?}, {transport:?}, {era}: {counts}"));
    }

    /// Runs the parts that are possible while requests reach different instances of the server.
    pub(crate) fn assert_conversation_through_proxy(self) {
        if !self.client.is_available() || !self.server.is_available() {
            return;
        }
        let parts = if self.is_modern() { "answers,logs" } else { "answers,gate,logs,news" };
        let count = self.run(parts).check().unwrap_or_else(|problems| panic!("{problems}"));
        let Self { client, server, era, .. } = self;
        print_line(&format!(
            "interop, client {client:?}, server {server:?}, through nginx, {era}: {count} steps"
        ));
    }

    /// Records the conversation by `mcp-probe tap`, and replays it into both of our engines without a difference.
    fn assert_replayed(self) {
        if !self.client.is_available() || !self.server.is_available() {
            return;
        }
        let parts = if self.is_modern() { "answers,logs,news" } else { "answers,gate,logs,news" };
        let Self { client, server, era, .. } = self;
        let folder = env::temp_dir()
            .join(format!("mcp-interop-trace-{}-{client:?}-{server:?}-{era}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let mut command = self.client_command(parts, &folder.join("client.log"));
        command.arg("--").arg(probe()).args(["tap", "--out"]).arg(folder.join("trace.ndjson")).arg("--");
        command.args(self.server_args(parts, &folder.join("server.log")));
        run(command, DEADLINE).expect("the client starts").assert_success();
        let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("a file").path());
        let traces: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|name| name == "ndjson")).collect();
        let mut counts = Vec::new();
        for trace in &traces {
            let mut replay = Command::new(probe());
            replay.arg("replay").arg(trace).arg("--json");
            let done = run(replay, DEADLINE).expect("our program starts").assert_success();
            let sides: Value = serde_json::from_str(&done.stdout).expect("JSON");
            let count = |name: &str| {
                sides.as_array().into_iter().flatten().filter_map(|side| side[name].as_u64()).sum::<u64>()
            };
            counts.push(count("identical") + count("equal") + count("reworded"));
        }
        // The second generation of TypeScript starts a server to ask for its era, and another one.
        assert!(counts.iter().sum::<u64>() > 60, "{counts:?}");
        let _ = fs::remove_dir_all(&folder);
        print_line(&format!(
            "interop, client {client:?}, server {server:?}, {era}: {counts:?} messages replayed"
        ));
    }

    /// Cuts event streams and checks that the client resumes them.
    pub(crate) fn assert_resumes_after_cut(self) {
        if !self.client.is_available() || !self.server.is_available() {
            return;
        }
        let told = self.run("cut");
        let count = told.check().unwrap_or_else(|problems| panic!("{problems}"));
        let Self { client, server, .. } = self;
        let took = told.elapsed();
        print_line(&format!("interop, {client:?} cut off by {server:?}: {count} steps in {took:.1?}"));
    }
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn own_server_conversation_with_typescript_1_client() {
    ImplementationPair::new(Implementation::Typescript1, Implementation::Own, "legacy").assert_conversation();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn own_server_conversation_with_typescript_2_client_legacy() {
    ImplementationPair::new(Implementation::Typescript2, Implementation::Own, "legacy").assert_conversation();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn own_server_conversation_with_typescript_2_client_modern() {
    ImplementationPair::new(Implementation::Typescript2, Implementation::Own, "modern").assert_conversation();
}

// covers: ELIC-005, ELIC-006, ELIC-009, ELIC-018, ELIC-020, ELIC-025, ELIC-026, ELIC-029, ELIC-030, ERR-012, SAMP-002
// covers: SAMP-003, SAMP-004, SAMP-008, SAMP-016, ROOT-002, ROOT-010, LOG-003, LOG-005, RES-010, RES-011, RES-012
// covers: RES-028, PROMPT-009, TIME-002, CANC-001, CANC-003, CANC-010, STDIO-021
#[test]
fn own_server_conversation_with_python_client_legacy() {
    ImplementationPair::new(Implementation::Python, Implementation::Own, "legacy").assert_conversation();
}

// covers: MRTR-001, MRTR-002, MRTR-004, MRTR-006, MRTR-009, MRTR-010, MRTR-025, MRTR-026, ELIC-007, ELIC-020
// covers: ELIC-032, SAMP-003, ROOT-003, ERR-007, LOG-007, LOG-008, SUB-003, SUB-004, SUB-006, SUB-013, RES-012
// covers: RES-014, PROMPT-009, STDIO-021
#[test]
fn own_server_conversation_with_python_client_modern() {
    ImplementationPair::new(Implementation::Python, Implementation::Own, "modern").assert_conversation();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn own_client_conversation_with_typescript_1_server() {
    ImplementationPair::new(Implementation::Own, Implementation::Typescript1, "legacy").assert_conversation();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn own_client_conversation_with_typescript_2_server_legacy() {
    ImplementationPair::new(Implementation::Own, Implementation::Typescript2, "legacy").assert_conversation();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, ROOT-001, ROOT-007, MRTR-011, MRTR-012
// covers: MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
#[test]
fn own_client_conversation_with_typescript_2_server_modern() {
    ImplementationPair::new(Implementation::Own, Implementation::Typescript2, "modern").assert_conversation();
}

// covers: ELIC-001, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-007, ROOT-001, ROOT-004, ERR-021, LOG-004, RES-010
// covers: CANC-013, CANC-014
#[test]
fn own_client_conversation_with_python_server_legacy() {
    ImplementationPair::new(Implementation::Own, Implementation::Python, "legacy").assert_conversation();
}

// covers: ELIC-002, ELIC-018, ELIC-020, SAMP-001, SAMP-005, SAMP-027, SAMP-009, ROOT-001, ROOT-007, MRTR-011
// covers: MRTR-012, MRTR-014, MRTR-018, MRTR-031, META-012, SUB-001, SUB-007, SUB-012, RES-013
#[test]
fn own_client_conversation_with_python_server_modern() {
    ImplementationPair::new(Implementation::Own, Implementation::Python, "modern").assert_conversation();
}

#[test]
fn own_client_conversation_with_own_server() {
    for era in ["legacy", "modern"] {
        ImplementationPair::new(Implementation::Own, Implementation::Own, era).assert_conversation();
    }
}

/// What official SDKs say to each other is what our engines say in their place.
#[test]
fn conversations_of_official_sdks_are_replayed_into_our_engines() {
    use Implementation::{Python, Rmcp, Typescript1, Typescript2};
    for (client, server, era) in [
        (Typescript1, Typescript1, "legacy"),
        (Typescript2, Typescript2, "legacy"),
        (Typescript2, Typescript2, "modern"),
        (Python, Python, "legacy"),
        (Python, Python, "modern"),
        (Typescript2, Rmcp, "legacy"),
        (Typescript2, Rmcp, "modern"),
    ] {
        ImplementationPair::new(client, server, era).assert_replayed();
    }
}
