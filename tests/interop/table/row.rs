//! A row: who talks with whom over what, in which revision

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::net::TcpListener;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use mcp_tests::ours::{Runtime, Where};
use serde_json::Value;

use super::{Cells, Outcome, names, steps, table_file};
use crate::MODERN;
use crate::hosted::Hosted;
use crate::peers::{node, node_ready, probe};
use crate::run::{DEADLINE, run};
use crate::talk::{Sdk, Wire};

/// What is not ours
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Peer {
    Typescript1,
    Typescript2,
    Python,
    Rmcp,
    Everything,
    Filesystem,
}

impl Peer {
    pub(super) const ALL: [Self; 6] =
        [Self::Typescript1, Self::Typescript2, Self::Python, Self::Rmcp, Self::Everything, Self::Filesystem];

    /// None for those that are servers and nothing else
    const fn sdk(self) -> Option<Sdk> {
        match self {
            Self::Typescript1 => Some(Sdk::Typescript1),
            Self::Typescript2 => Some(Sdk::Typescript2),
            Self::Python => Some(Sdk::Python),
            Self::Rmcp => Some(Sdk::Rmcp),
            Self::Everything | Self::Filesystem => None,
        }
    }

    /// What stands in `table.json`
    const fn profile(self) -> &'static str {
        match self {
            Self::Everything => "server-everything",
            Self::Filesystem => "server-filesystem",
            _ => "talk",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typescript1 => "TypeScript 1.32.2",
            Self::Typescript2 => "TypeScript 2.4.0",
            Self::Python => "Python 2.3.0",
            Self::Rmcp => "rmcp 3.8.0",
            Self::Everything => "server-everything 2026.8.31",
            Self::Filesystem => "server-filesystem 2026.8.31",
        })
    }
}

/// Which side is ours
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Row {
    pub(super) peer: Peer,
    pub(super) ours: Side,
    pub(super) wire: Wire,
    pub(super) runtime: Runtime,
    pub(super) revision: &'static str,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [peer, ours, wire, runtime, revision] = self.values();
        write!(f, "{peer}, {ours}, {wire}, {runtime}, {revision}")
    }
}

impl Row {
    /// The whole table
    pub(super) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for peer in Peer::ALL {
            for ours in [Side::Client, Side::Server] {
                for wire in [Wire::Stdio, Wire::Http, Wire::Sse] {
                    for runtime in Runtime::ALL {
                        let all = REVISIONS.iter();
                        let rows_of = all.map(|revision| Self { peer, ours, wire, runtime, revision });
                        rows.extend(rows_of.filter(|row| row.exists()));
                    }
                }
            }
        }
        rows
    }

    /// Whether the peer has this side, this transport and this revision, and these go together
    fn exists(&self) -> bool {
        let newest = match self.peer {
            Peer::Typescript1 | Peer::Everything | Peer::Filesystem => crate::LEGACY,
            Peer::Typescript2 | Peer::Python | Peer::Rmcp => MODERN,
        };
        let has_side = self.peer.sdk().is_some() || self.ours == Side::Client;
        let has_wire = match self.wire {
            Wire::Stdio => true,
            Wire::Http => self.peer != Peer::Filesystem && self.revision > "2024-11-05",
            // The newer TypeScript SDK has the client alone.
            Wire::Sse => match self.peer {
                Peer::Typescript1 | Peer::Python | Peer::Everything => self.revision == "2024-11-05",
                Peer::Typescript2 => self.revision == "2024-11-05" && self.ours == Side::Server,
                Peer::Rmcp | Peer::Filesystem => false,
            },
            Wire::Proxy => false,
        };
        has_side && has_wire && self.revision <= newest
    }

    /// The values of its axes
    pub(super) fn values(&self) -> [String; 5] {
        let side = match self.ours {
            Side::Client => "our client",
            Side::Server => "our server",
        };
        let wire = match self.wire {
            Wire::Stdio => "stdio",
            Wire::Http => "HTTP",
            Wire::Sse => "HTTP+SSE",
            Wire::Proxy => "nginx",
        };
        let own = |text: &str| text.to_owned();
        [self.peer.to_string(), own(side), own(wire), self.runtime.to_string(), own(self.revision)]
    }

    pub(super) fn ready(&self) -> bool {
        self.peer.sdk().map_or_else(node_ready, Sdk::ready)
    }

    const fn era(&self) -> &'static str {
        if matches!(self.revision.as_bytes(), b"2026-07-28") { "modern" } else { "legacy" }
    }

    /// What comes of its steps
    pub(super) fn run(&self) -> Cells {
        let run = || match self.ours {
            Side::Client => self.run_our_client(),
            Side::Server => self.run_our_server(),
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            vec![Outcome::Fail(why.unwrap_or_default()); names().len()]
        })
    }

    /// A client of theirs with our server
    fn run_our_server(&self) -> Cells {
        let mut server = Command::new(probe());
        server.args(["serve", "--everything", "--runtime", self.runtime.as_str()]);
        let mut client = self.their_client();
        if self.wire == Wire::Stdio {
            let words = [server.get_program()].into_iter().chain(server.get_args());
            client.arg("--").args(words);
            return reported(client);
        }
        server.args(["--http", "127.0.0.1:0", "--path", "/mcp"]);
        if self.wire == Wire::Sse {
            server.arg("--sse");
            client.arg("--sse");
        }
        let server = Hosted::start(server);
        let url =
            if self.wire == Wire::Sse { server.url.replace("/mcp", "/sse") } else { server.url.clone() };
        client.args(["--", &url]);
        let cells = reported(client);
        server.end();
        cells
    }

    fn their_client(&self) -> Command {
        let mut words = self.peer.sdk().expect("a client").table_client().into_iter();
        let mut client = Command::new(words.next().expect("a program"));
        client.args(words).args(["--profile", "ours", "--era", self.era(), "--revision", self.revision]);
        client
    }

    /// Our client with a server of theirs
    fn run_our_client(&self) -> Cells {
        let place = Place::new();
        let mut server = self.their_server(&place);
        let scene = steps::Scene {
            profile: self.peer.profile(),
            revision: self.revision,
            wire: self.wire,
            runtime: self.runtime,
            directory: &place.0,
            log: &place.log(),
        };
        if self.wire == Wire::Stdio {
            return scene.perform(&Where::Process(server));
        }
        let server = match self.peer {
            // It is told where to listen, and does not say where it does.
            Peer::Everything => {
                let (mode, path) = match self.wire {
                    Wire::Sse => ("sse", "/sse"),
                    _ => ("streamableHttp", "/mcp"),
                };
                let port =
                    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
                server.arg(mode).env("PORT", port.to_string());
                Hosted::at(server, port, path)
            }
            _ => {
                server.args(["--http", "0"]);
                if self.wire == Wire::Sse {
                    server.arg("--sse");
                }
                Hosted::start(server)
            }
        };
        let cells = scene.perform(&Where::Url(server.url.clone()));
        server.end();
        cells
    }

    fn their_server(&self, place: &Place) -> Command {
        let Some(sdk) = self.peer.sdk() else {
            let name = self.peer.profile();
            let entry = ["node_modules", "@modelcontextprotocol", name, "dist", "index.js"];
            let mut server = Command::new("node");
            server.arg(entry.iter().fold(node(), |path, part| path.join(part)));
            match (self.peer, self.wire) {
                (Peer::Everything, Wire::Stdio) => _ = server.arg("stdio"),
                (Peer::Filesystem, _) => _ = server.arg(&place.0),
                _ => {}
            }
            return server;
        };
        let mut words = sdk.program("server").into_iter();
        let mut server = Command::new(words.next().expect("a program"));
        server.args(words).args(["--era", self.era()]).arg("--log").arg(place.log());
        server
    }
}

/// The lines of a client, each of which is a step
fn reported(client: Command) -> Cells {
    let done = run(client, DEADLINE).expect("the client starts");
    let lines: Vec<Value> = done.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let cell = |name| {
        let Some(line) = lines.iter().find(|line| line["step"] == name) else {
            return Outcome::Fail(format!("not reported: {done}"));
        };
        match &line["ok"] {
            Value::Bool(true) => Outcome::Pass,
            Value::String(cannot) if cannot == "peer-cannot" => {
                Outcome::Cannot(line["why"].as_str().expect("a reason").to_owned())
            }
            _ => Outcome::Fail(line["error"].as_str().unwrap_or_default().to_owned()),
        }
    };
    names().into_iter().map(cell).collect()
}

impl Sdk {
    /// The words of a client that performs the steps of the table
    fn table_client(self) -> Vec<OsString> {
        let mut words = self.program("client");
        let [script, table] = [words.len() - 2, words.len() - 1];
        match self {
            Self::Rmcp => words[script] = "table".into(),
            Self::Python => words[script] = crate::peers::python().join("table_client.py").into(),
            _ => {
                // Behind these are `--sdk` and which one.
                words[1] = node().join("table-client.mjs").into();
                words[2] = table_file().into();
                return words;
            }
        }
        words[table] = table_file().into();
        words
    }
}

/// A directory that goes with the row
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("mcp-interop-table-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("room for a directory");
        // What `server-filesystem` lists.
        fs::write(path.join("dot.png"), b"").expect("room for a file");
        // It shows paths without links in them.
        Self(fs::canonicalize(path).expect("a path"))
    }

    /// Where a server notes what only it can see; it lists no directory
    fn log(&self) -> PathBuf {
        self.0.with_extension("log")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(self.log());
    }
}

/// What a server has noted
pub(super) fn noted(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}
