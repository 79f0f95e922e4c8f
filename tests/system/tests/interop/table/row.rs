//! Rows: peer, direction, transport, adapter and revision.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::net::TcpListener;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use mcp_system_tests::adapters::{AdapterKind, ServerLocation};
use serde_json::Value;

use super::{CellOutcome, Cells, names, steps, table_file};
use crate::hosted_server::HostedServer;
use crate::interop::MODERN;
use crate::interop::conversation::{Implementation, InteropTransport};
use crate::peers::{is_node_ready, node, probe};
use crate::run::{DEADLINE, run};

/// A peer implementation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TablePeer {
    Typescript1,
    Typescript2,
    Python,
    Rmcp,
    Everything,
    Filesystem,
}

impl TablePeer {
    pub(super) const ALL: [Self; 6] =
        [Self::Typescript1, Self::Typescript2, Self::Python, Self::Rmcp, Self::Everything, Self::Filesystem];

    /// Returns the SDK, or `None` for a peer that is only a server.
    const fn sdk(self) -> Option<Implementation> {
        match self {
            Self::Typescript1 => Some(Implementation::Typescript1),
            Self::Typescript2 => Some(Implementation::Typescript2),
            Self::Python => Some(Implementation::Python),
            Self::Rmcp => Some(Implementation::Rmcp),
            Self::Everything | Self::Filesystem => None,
        }
    }

    /// Returns the name in `table.json`.
    const fn profile_name(self) -> &'static str {
        match self {
            Self::Everything => "server-everything",
            Self::Filesystem => "server-filesystem",
            _ => "talk",
        }
    }
}

impl fmt::Display for TablePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typescript1 => "TypeScript 1.32.2",
            Self::Typescript2 => "TypeScript 2.4.0",
            Self::Python => "Python 2.3.0",
            Self::Rmcp => "rmcp 3.11.0",
            Self::Everything => "server-everything 2026.8.31",
            Self::Filesystem => "server-filesystem 2026.8.31",
        })
    }
}

/// The role of our side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum OwnRole {
    Client,
    Server,
}

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TableRow {
    pub(super) peer: TablePeer,
    pub(super) own_role: OwnRole,
    pub(super) transport: InteropTransport,
    pub(super) runtime: AdapterKind,
    pub(super) revision: &'static str,
}

impl fmt::Display for TableRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [peer, own_role, transport, runtime, revision] = self.values();
        write!(f, "{peer}, {own_role}, {transport}, {runtime}, {revision}")
    }
}

impl TableRow {
    /// Returns the whole table.
    pub(super) fn all_rows() -> Vec<Self> {
        let mut rows = Vec::new();
        for peer in TablePeer::ALL {
            for own_role in [OwnRole::Client, OwnRole::Server] {
                for transport in [InteropTransport::Stdio, InteropTransport::Http, InteropTransport::Sse] {
                    for runtime in AdapterKind::ALL {
                        let all = REVISIONS.iter();
                        let rows_of =
                            all.map(|revision| Self { peer, own_role, transport, runtime, revision });
                        rows.extend(rows_of.filter(|row| row.is_supported()));
                    }
                }
            }
        }
        rows
    }

    /// Returns whether the peer has this role, transport and revision, in combination.
    fn is_supported(&self) -> bool {
        let newest = match self.peer {
            TablePeer::Typescript1 | TablePeer::Everything | TablePeer::Filesystem => crate::interop::LEGACY,
            TablePeer::Typescript2 | TablePeer::Python | TablePeer::Rmcp => MODERN,
        };
        let has_side = self.peer.sdk().is_some() || self.own_role == OwnRole::Client;
        let has_wire = match self.transport {
            InteropTransport::Stdio => true,
            InteropTransport::Http => self.peer != TablePeer::Filesystem && self.revision > "2024-11-05",
            // The newer TypeScript SDK has only the client.
            InteropTransport::Sse => match self.peer {
                TablePeer::Typescript1 | TablePeer::Python | TablePeer::Everything => {
                    self.revision == "2024-11-05"
                }
                TablePeer::Typescript2 => self.revision == "2024-11-05" && self.own_role == OwnRole::Server,
                TablePeer::Rmcp | TablePeer::Filesystem => false,
            },
            InteropTransport::Proxy => false,
        };
        has_side && has_wire && self.revision <= newest
    }

    /// Returns the values of the axes.
    pub(super) fn values(&self) -> [String; 5] {
        let side = match self.own_role {
            OwnRole::Client => "our client",
            OwnRole::Server => "our server",
        };
        let transport = match self.transport {
            InteropTransport::Stdio => "stdio",
            InteropTransport::Http => "HTTP",
            InteropTransport::Sse => "HTTP+SSE",
            InteropTransport::Proxy => "nginx",
        };
        let own = |text: &str| text.to_owned();
        [self.peer.to_string(), own(side), own(transport), self.runtime.to_string(), own(self.revision)]
    }

    pub(super) fn is_available(&self) -> bool {
        self.peer.sdk().map_or_else(is_node_ready, Implementation::is_available)
    }

    const fn era(&self) -> &'static str {
        if matches!(self.revision.as_bytes(), b"2026-07-28") { "modern" } else { "legacy" }
    }

    /// Runs the steps and returns their outcomes.
    pub(super) fn run(&self) -> Cells {
        let run = || match self.own_role {
            OwnRole::Client => self.run_own_client(),
            OwnRole::Server => self.run_own_server(),
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            vec![CellOutcome::Fail(why.unwrap_or_default()); names().len()]
        })
    }

    /// Runs an SDK client with our server.
    fn run_own_server(&self) -> Cells {
        let mut server = Command::new(probe());
        server.args(["serve", "--everything", "--runtime", self.runtime.as_str()]);
        let mut client = self.peer_client_command();
        if self.transport == InteropTransport::Stdio {
            let words = [server.get_program()].into_iter().chain(server.get_args());
            client.arg("--").args(words);
            return run_reporting_client(client);
        }
        server.args(["--http", "127.0.0.1:0", "--path", "/mcp"]);
        if self.transport == InteropTransport::Sse {
            server.arg("--sse");
            client.arg("--sse");
        }
        let server = HostedServer::start(server);
        let url = if self.transport == InteropTransport::Sse {
            server.url.replace("/mcp", "/sse")
        } else {
            server.url.clone()
        };
        client.args(["--", &url]);
        let cells = run_reporting_client(client);
        server.stop();
        cells
    }

    fn peer_client_command(&self) -> Command {
        let mut words = self.peer.sdk().expect("a client").table_client().into_iter();
        let mut client = Command::new(words.next().expect("a program"));
        client.args(words).args(["--profile", "ours", "--era", self.era(), "--revision", self.revision]);
        client
    }

    /// Runs our client with an SDK server.
    fn run_own_client(&self) -> Cells {
        let directory = RunDirectory::new();
        let mut server = self.peer_server_command(&directory);
        let scene = steps::TableRun {
            profile: self.peer.profile_name(),
            revision: self.revision,
            transport: self.transport,
            runtime: self.runtime,
            directory: &directory.0,
            log: &directory.log_path(),
        };
        if self.transport == InteropTransport::Stdio {
            return scene.perform(&ServerLocation::Process(server));
        }
        let server = match self.peer {
            // This server is given a port and does not print its address.
            TablePeer::Everything => {
                let (mode, path) = match self.transport {
                    InteropTransport::Sse => ("sse", "/sse"),
                    _ => ("streamableHttp", "/mcp"),
                };
                let port =
                    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
                server.arg(mode).env("PORT", port.to_string());
                HostedServer::start_at(server, port, path)
            }
            _ => {
                server.args(["--http", "0"]);
                if self.transport == InteropTransport::Sse {
                    server.arg("--sse");
                }
                HostedServer::start(server)
            }
        };
        let cells = scene.perform(&ServerLocation::Url(server.url.clone()));
        server.stop();
        cells
    }

    fn peer_server_command(&self, directory: &RunDirectory) -> Command {
        let Some(sdk) = self.peer.sdk() else {
            let name = self.peer.profile_name();
            let entry = ["node_modules", "@modelcontextprotocol", name, "dist", "index.js"];
            let mut server = Command::new("node");
            server.arg(entry.iter().fold(node(), |path, part| path.join(part)));
            match (self.peer, self.transport) {
                (TablePeer::Everything, InteropTransport::Stdio) => _ = server.arg("stdio"),
                (TablePeer::Filesystem, _) => _ = server.arg(&directory.0),
                _ => {}
            }
            return server;
        };
        let mut words = sdk.program("server").into_iter();
        let mut server = Command::new(words.next().expect("a program"));
        server.args(words).args(["--era", self.era()]).arg("--log").arg(directory.log_path());
        server
    }
}

/// Runs a client and returns its reported steps.
fn run_reporting_client(client: Command) -> Cells {
    let done = run(client, DEADLINE).expect("the client starts");
    let lines: Vec<Value> = done.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let cell = |name| {
        let Some(line) = lines.iter().find(|line| line["step"] == name) else {
            return CellOutcome::Fail(format!("not reported: {done}"));
        };
        match &line["ok"] {
            Value::Bool(true) => CellOutcome::Pass,
            Value::String(cannot) if cannot == "peer-cannot" => {
                CellOutcome::Unsupported(line["why"].as_str().expect("a reason").to_owned())
            }
            _ => CellOutcome::Fail(line["error"].as_str().unwrap_or_default().to_owned()),
        }
    };
    names().into_iter().map(cell).collect()
}

impl Implementation {
    /// Returns the command of a client that performs the steps of the table.
    fn table_client(self) -> Vec<OsString> {
        let mut words = self.program("client");
        let [script, table] = [words.len() - 2, words.len() - 1];
        match self {
            Self::Rmcp => words[script] = "table".into(),
            Self::Python => words[script] = crate::peers::python().join("table_client.py").into(),
            _ => {
                // The arguments after these are `--sdk` and its name.
                words[1] = node().join("table-client.mjs").into();
                words[2] = table_file().into();
                return words;
            }
        }
        words[table] = table_file().into();
        words
    }
}

/// A directory that is removed with the row.
struct RunDirectory(PathBuf);

impl RunDirectory {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("mcp-interop-table-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("room for a directory");
        // `server-filesystem` lists this file.
        fs::write(path.join("dot.png"), b"").expect("room for a file");
        // The server prints paths without links.
        Self(fs::canonicalize(path).expect("a path"))
    }

    /// Returns the log file of the server; it is outside the directory, so it is never listed.
    fn log_path(&self) -> PathBuf {
        self.0.with_extension("log")
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(self.log_path());
    }
}

/// Returns the log of a server.
pub(super) fn read_log(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}
