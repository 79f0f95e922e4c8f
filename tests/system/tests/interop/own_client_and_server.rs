//! Everything that our server offers, used by our client: each message must be valid in its revision.

use alloc::sync::Arc;
use std::fs;
use std::sync::Mutex;

use mcp_blocking::{Client, ClientHandler, Error, Options, Program};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, Limits, VersionSet, client};
use serde_json::Value;

use crate::interop::sdk_clients::everything;
use crate::interop::steps::StepRunner;
use crate::interop::tap_records;
use crate::peers::probe;

/// A client handler that records the messages.
#[derive(Clone, Default)]
struct RecordLog(Arc<Mutex<Vec<TapRecord>>>);

impl ClientHandler for RecordLog {
    fn tap(&self, record: &TapRecord) {
        self.0.lock().expect("no panic under this lock").push(record.clone());
    }
}

// covers: TOOL-006, TOOL-007, TOOL-009, TOOL-013, RES-003, RES-004, RES-005, PROMPT-003, PROMPT-004, COMP-004, CONT-001
// covers: CONT-003, CONT-008, CACHE-001
#[test]
fn own_server_results_are_valid_in_every_revision() {
    let steps = fs::read(everything()).expect("a file of this repository");
    let steps: Vec<Value> = serde_json::from_slice(&steps).expect("JSON");
    for version in VersionSet::ALL.iter() {
        let records = RecordLog::default();
        let mut limits = Limits::default();
        limits.tap_records = 10_000;
        limits.tap_bytes = 64 << 20;
        let versions = VersionSet::only(version);
        let config = client::Config::new("watched", "1").versions(versions).limits(limits);
        let program =
            Program::new(probe()).args(["serve", "--everything", "--protocol-version", version.as_str()]);
        let client: Client =
            Options::new(config).handler(records.clone()).spawn(program).expect("a connection");
        let mut session = StepRunner::new(client);
        for of in ["tools", "resources", "templates", "prompts"] {
            assert!(!session.list(of).is_empty(), "{version}: no {of}");
        }
        for step in steps.iter().filter(|step| step.get("list").is_none() && step.get("leave").is_none()) {
            // The content is not checked: older revisions have less of it.
            match session.perform_request(step, &mut Vec::new()) {
                Ok(_) | Err(Error::Call(CallError::Rpc(_))) => {}
                Err(other) => panic!("{version}: {step}: {other}"),
            }
        }
        session.client.close().expect("an end");

        let records = core::mem::take(&mut *records.0.lock().expect("no panic under this lock"));
        tap_records::assert_records_valid("our client, our server --everything", version, &records);
    }
}
