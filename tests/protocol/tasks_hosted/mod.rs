//! Questions of a server of 2025-11-25 that run as tasks of the client: each end against messages written by hand, and
//! both ends together, on virtual time.

mod asking;
mod asking_failures;
mod hosting;
mod hosting_limits;
mod over_http;
mod pairs;

use mcp_proto::client::{self, InputTaskLimits, InputTasks};
use mcp_proto::model::{ElicitFormParams, ElicitSchema};
use mcp_proto::{Anchor, Capabilities, Capability, Entropy, Instant, RawJson, VersionSet};
use mcp_tests::harness::build::to_value;
use serde_json::{Value, json};

pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Time at the beginning of each test: 2026-08-01T10:00:00Z.
const START: u64 = 1_785_578_400;

#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn hosting_client(limits: InputTaskLimits) -> client::Config {
    let declared = [Capability::Elicitation, Capability::Sampling, Capability::Roots];
    let capabilities = declared.into_iter().fold(Capabilities::new(), Capabilities::with);
    let tasks = InputTasks::new(Entropy::new([3; 32], 0), Anchor::new(Instant::ZERO, START)).limits(limits);
    crate::protocol::common::client(VersionSet::ALL).input_tasks(tasks).capabilities(capabilities)
}

pub(super) fn schema() -> ElicitSchema {
    let schema = RawJson::new(r#"{"type":"object","properties":{"basin":{"type":"string"}}}"#).expect("JSON");
    schema.parse::<ElicitSchema>().expect("a form")
}

/// Returns the parameters of a form, with further members.
pub(super) fn form(more: &Value) -> Value {
    let form = RawJson::encode(&ElicitFormParams::new("Which basin?", schema())).expect("JSON");
    let mut form = to_value(&form);
    for (name, value) in more.as_object().expect("members") {
        form[name] = value.clone();
    }
    form
}

pub(super) fn accepted() -> Value {
    json!({"action": "accept", "content": {"basin": "east"}})
}

/// Returns an answer as `tasks/result` returns it.
pub(super) fn with_related(answer: &Value, id: &Value) -> Value {
    let mut answer = answer.clone();
    answer["_meta"] = json!({RELATED: {"taskId": id}});
    answer
}
