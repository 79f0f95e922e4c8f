//! Our client and our server as processes, with everything that the server offers: is each message valid in its revision?

use alloc::sync::Arc;
use std::fs;
use std::sync::Mutex;

use mcp_blocking::{Client, ClientHandler, Error, Options, Program};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, Limits, VersionSet, client};
use serde_json::Value;

use crate::peers::probe;
use crate::recorded;
use crate::steps::Session;
use crate::their_clients::everything;

/// Keeps what passes.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<TapRecord>>>);

impl ClientHandler for Records {
    fn tap(&mut self, record: &TapRecord) {
        self.0.lock().expect("no panic under this lock").push(record.clone());
    }
}

// covers: TOOL-006, TOOL-007, TOOL-009, TOOL-013, RES-003, RES-004, RES-005, PROMPT-003, PROMPT-004, COMP-004, CONT-001
// covers: CONT-003, CONT-008, CACHE-001
#[test]
fn everything_that_our_server_offers_is_valid_in_every_revision() {
    let steps = fs::read(everything()).expect("a file of ours");
    let steps: Vec<Value> = serde_json::from_slice(&steps).expect("JSON");
    for version in VersionSet::ALL.iter() {
        let records = Records::default();
        let mut limits = Limits::default();
        limits.tap_records = 10_000;
        limits.tap_bytes = 64 << 20;
        let versions = VersionSet::only(version);
        let config = client::Config::new("watched", "1").versions(versions).limits(limits);
        let program =
            Program::new(probe()).args(["serve", "--everything", "--protocol-version", version.as_str()]);
        let client: Client =
            Options::new(config).handler(records.clone()).spawn(program).expect("a connection");
        let mut session = Session::new(client);
        for of in ["tools", "resources", "templates", "prompts"] {
            assert!(!session.list(of).is_empty(), "{version}: no {of}");
        }
        for step in steps.iter().filter(|step| step.get("list").is_none()) {
            // Here it is not the content that matters, which older revisions have less of.
            match session.ask(step, &mut Vec::new()) {
                Ok(_) | Err(Error::Call(CallError::Rpc(_))) => {}
                Err(other) => panic!("{version}: {step}: {other}"),
            }
        }
        session.client.close().expect("an end");

        let records = core::mem::take(&mut *records.0.lock().expect("no panic under this lock"));
        recorded::are_valid("our client, our server --everything", version, &records);
    }
}
