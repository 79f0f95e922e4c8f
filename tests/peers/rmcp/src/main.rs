//! The official Rust SDK as a peer: the conversations of `../talk.json` as a server and (over HTTP) as a client, the
//! steps of `../table.json` as a client, tasks as a client and as a server, and authorization as a protected server and as a client.
//!
//!     mcp-interop-rmcp server TALK [--http PORT] [--log FILE] [--time-out MS]
//!     mcp-interop-rmcp client TALK --era modern|legacy [--revision R] --part NAME[,NAME…] -- URL
//!     mcp-interop-rmcp table TABLE --profile NAME --era modern|legacy --revision R -- SERVER [ARGS...] | URL
//!     mcp-interop-rmcp tasks -- SERVER [ARGS...] | URL
//!     mcp-interop-rmcp task-server [--http PORT]
//!     mcp-interop-rmcp auth-server --issuer URL [--scope S] [--port PORT]
//!     mcp-interop-rmcp auth-client --era modern|legacy [OPTION...] --call NAME[=ARGUMENTS] ... -- URL
//!
//! The options of `auth-client` are those of `../node/auth-client.mjs`, without `--dpop`. The reports have the format of the peers in `../node`.

// The newest revision deprecates half of the methods used here.
#![allow(deprecated)]

mod auth_client;
mod auth_server;
mod client;
mod server;
mod table;
mod task_server;
mod tasks;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::Value;

/// Command-line arguments.
struct PeerArgs {
    script: Value,
    args: Vec<String>,
}

impl PeerArgs {
    fn option(&self, name: &str) -> Option<&str> {
        let at = self.args.iter().position(|word| word == name)?;
        self.args.get(at + 1).map(String::as_str)
    }

    /// Returns the steps of the requested parts.
    fn steps(&self) -> Vec<Value> {
        let parts = self.option("--part").expect("--part");
        let steps = parts.split(',').flat_map(|part| self.script["steps"][part].as_array().expect("a part"));
        steps.cloned().collect()
    }
}

/// Appends a line to the log that the test reads. It is not buffered, so that it survives the process.
fn record_event(log: Option<&str>, event: &Value) {
    if let Some(path) = log {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a log");
        file.write_all(format!("{event}\n").as_bytes()).expect("room for a line");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    match &*words[0] {
        "auth-server" => return auth_server::serve(PeerArgs { script: Value::Null, args: words }).await,
        "task-server" => return task_server::serve(PeerArgs { script: Value::Null, args: words }).await,
        "tasks" => return tasks::run(PeerArgs { script: Value::Null, args: words }).await,
        "auth-client" => return auth_client::run(PeerArgs { script: Value::Null, args: words }).await,
        _ => {}
    }
    let talk = fs::read(&words[1]).expect("TALK");
    let given = PeerArgs { script: serde_json::from_slice(&talk).expect("JSON"), args: words };
    match &*given.args[0] {
        "server" => server::serve(given).await,
        "client" => client::run(given).await,
        "table" => table::perform(given).await,
        other => panic!("what is {other}?"),
    }
}
