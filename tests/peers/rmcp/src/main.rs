//! The official Rust SDK, which holds the conversations of ../talk.json, as a server and (over HTTP) as a client, and
//! performs the steps of ../table.json
//!
//!     mcp-interop-rmcp server TALK [--http PORT] [--log FILE] [--time-out MS]
//!     mcp-interop-rmcp client TALK --era modern|legacy [--revision R] --part NAME[,NAME…] -- URL
//!     mcp-interop-rmcp table TABLE --profile NAME --era modern|legacy --revision R -- SERVER [ARGS...] | URL
//!
//! All of them speak and report as the peers of ../node do.

// Half of what is used here is deprecated by the newest revision, and says so.
#![allow(deprecated)]

mod client;
mod server;
mod table;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::Value;

/// What was said on the command line
struct Given {
    talk: Value,
    words: Vec<String>,
}

impl Given {
    fn option(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// The steps of the parts that are asked for
    fn steps(&self) -> Vec<Value> {
        let parts = self.option("--part").expect("--part");
        let steps = parts.split(',').flat_map(|part| self.talk["steps"][part].as_array().expect("a part"));
        steps.cloned().collect()
    }
}

/// Appends a line to the file that the test reads; at once, as a buffered one would be lost with the process
fn note(log: Option<&str>, event: &Value) {
    if let Some(path) = log {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a log");
        file.write_all(format!("{event}\n").as_bytes()).expect("room for a line");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let talk = fs::read(&words[1]).expect("TALK");
    let given = Given { talk: serde_json::from_slice(&talk).expect("JSON"), words };
    match &*given.words[0] {
        "server" => server::serve(given).await,
        "client" => client::talk(given).await,
        "table" => table::perform(given).await,
        other => panic!("what is {other}?"),
    }
}
