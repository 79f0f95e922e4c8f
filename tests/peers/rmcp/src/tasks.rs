//! A client of the tasks extension (2026-07-28), for `mcp-probe serve --everything`.
//!
//! One JSON line per step goes to stdout, as in `../node/steps.mjs`.

use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::PeerArgs;

const POLL: Duration = Duration::from_millis(50);
/// Limit above the duration of any task of the server but the one that is cancelled.
const POLLS: usize = 400;

#[derive(Clone)]
struct TaskClient;

impl ClientHandler for TaskClient {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"elicitation": {"form": {}}, "extensions": {TASKS_EXTENSION_ID: {}}});
        let capabilities = serde_json::from_value(capabilities).expect("capabilities");
        ClientConfig::new(capabilities, Implementation::new("tasks-client", "3.11.0"))
    }
}

type Client = RunningService<RoleClient, TaskClient>;

pub(crate) async fn run(given: PeerArgs) {
    let at = given.args.iter().position(|word| word == "--").expect("--");
    let server = &given.args[at + 1..];
    let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = if server[0].starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(server[0].clone());
        TaskClient.serve_with_lifecycle(transport, mode).await
    } else {
        let mut command = Command::new(&server[0]);
        command.args(&server[1..]);
        TaskClient.serve_with_lifecycle(TokioChildProcess::new(command).expect("a process"), mode).await
    };
    let client = client.expect("a connection");
    report("negotiate", Ok(json!({})));
    report("plain", plain(&client).await);
    report("complete", complete(&client).await);
    report("failed-tool", failed_tool(&client).await);
    report("error", error(&client).await);
    report("input", input(&client).await);
    report("two-inputs", two_inputs(&client).await);
    report("ask-first", ask_first(&client).await);
    report("cancel", cancel(&client).await);
    report("unknown", unknown(&client).await);
    let _ = client.cancel().await;
    report("end", Ok(json!({})));
}

fn report(step: &str, outcome: Result<Value, String>) {
    let mut line = match outcome {
        Ok(detail) => detail,
        Err(error) => json!({"ok": false, "error": error}),
    };
    line["step"] = json!(step);
    if line.get("ok").is_none() {
        line["ok"] = json!(true);
    }
    println!("{line}");
}

fn params(name: &str, arguments: Value) -> CallToolRequestParams {
    serde_json::from_value(json!({"name": name, "arguments": arguments})).expect("parameters")
}

async fn start(client: &Client, name: &str, arguments: Value) -> Result<Task, String> {
    match client.call_tool_once(params(name, arguments)).await {
        Ok(CallToolResponse::Task(created)) => Ok(created.task),
        other => Err(format!("not a task: {other:?}")),
    }
}

/// Polls until the task has ended, or needs input.
async fn wait(client: &Client, id: &str) -> Result<DetailedTask, String> {
    for _ in 0..POLLS {
        let got = client.get_task(GetTaskParams::new(id)).await.map_err(|error| error.to_string())?;
        let task: DetailedTask =
            serde_json::from_value(json!(got)).map_err(|error| format!("{error}: {got:?}"))?;
        if task.status() != TaskStatus::Working {
            return Ok(task);
        }
        tokio::time::sleep(POLL).await;
    }
    Err("the task does not end".into())
}

async fn finish(client: &Client, id: &str) -> Result<Value, String> {
    match wait(client, id).await?.payload {
        TaskPayload::Completed { result } => Ok(json!(result)),
        other => Err(format!("not completed: {other:?}")),
    }
}

/// Answers the input requests with these keys.
async fn answer(client: &Client, id: &str, keys: &[String], content: Value) -> Result<(), String> {
    let answers: serde_json::Map<_, _> =
        keys.iter().map(|key| (key.clone(), json!({"action": "accept", "content": content}))).collect();
    let update =
        serde_json::from_value(json!({"taskId": id, "inputResponses": answers})).expect("parameters");
    acknowledged(client.update_task(update).await)
}

/// Checks an acknowledgement.
fn acknowledged(outcome: Result<(), ServiceError>) -> Result<(), String> {
    outcome.map_err(|error| error.to_string())
}

async fn input_keys(client: &Client, id: &str) -> Result<Vec<String>, String> {
    match wait(client, id).await?.payload {
        TaskPayload::InputRequired { input_requests } => Ok(input_requests.into_keys().collect()),
        other => Err(format!("no input is required: {other:?}")),
    }
}

async fn plain(client: &Client) -> Result<Value, String> {
    match client.call_tool_once(params("greet", json!({"name": "rmcp"}))).await {
        Ok(CallToolResponse::Complete(result)) => Ok(json!({"result": result})),
        other => Err(format!("{other:?}")),
    }
}

async fn complete(client: &Client) -> Result<Value, String> {
    let task = start(client, "slow_compute", json!({"seconds": 1, "label": "interop"})).await?;
    if task.status != TaskStatus::Working {
        return Err(format!("{task:?}"));
    }
    Ok(json!({"result": finish(client, &task.task_id).await?}))
}

async fn failed_tool(client: &Client) -> Result<Value, String> {
    let task = start(client, "failing_job", json!({})).await?;
    Ok(json!({"result": finish(client, &task.task_id).await?}))
}

async fn error(client: &Client) -> Result<Value, String> {
    let task = start(client, "protocol_error_job", json!({})).await?;
    match wait(client, &task.task_id).await?.payload {
        TaskPayload::Failed { error } => Ok(json!({"error": error})),
        other => Err(format!("not failed: {other:?}")),
    }
}

async fn input(client: &Client) -> Result<Value, String> {
    let task = start(client, "confirm_delete", json!({"filename": "a.txt"})).await?;
    let keys = input_keys(client, &task.task_id).await?;
    answer(client, &task.task_id, &keys, json!({"confirm": true})).await?;
    Ok(json!({"keys": keys.len(), "result": finish(client, &task.task_id).await?}))
}

async fn two_inputs(client: &Client) -> Result<Value, String> {
    let task = start(client, "multi_input", json!({})).await?;
    let keys = input_keys(client, &task.task_id).await?;
    answer(client, &task.task_id, &keys[..1], json!({"name": "Alice"})).await?;
    let left = input_keys(client, &task.task_id).await?;
    if left != keys[1..] {
        return Err(format!("{left:?} of {keys:?} are left"));
    }
    answer(client, &task.task_id, &left, json!({"name": "Bob"})).await?;
    Ok(json!({"keys": keys.len(), "result": finish(client, &task.task_id).await?}))
}

async fn ask_first(client: &Client) -> Result<Value, String> {
    let mut params = params("test_tool_with_task", json!({}));
    let first = client.call_tool_once(params.clone()).await;
    let Ok(CallToolResponse::InputRequired(required)) = first else { return Err(format!("{first:?}")) };
    let required = json!(required);
    let keys = required["inputRequests"].as_object().ok_or("no input requests")?.keys();
    let answers: serde_json::Map<_, _> =
        keys.map(|key| (key.clone(), json!({"action": "accept", "content": {"name": "Alice"}}))).collect();
    let mut retry = json!(params);
    retry["inputResponses"] = json!(answers);
    retry["requestState"] = required["requestState"].clone();
    params = serde_json::from_value(retry).map_err(|error| error.to_string())?;
    match client.call_tool_once(params).await {
        Ok(CallToolResponse::Task(created)) => {
            Ok(json!({"result": finish(client, &created.task.task_id).await?}))
        }
        other => Err(format!("not a task: {other:?}")),
    }
}

async fn cancel(client: &Client) -> Result<Value, String> {
    let task = start(client, "slow_compute", json!({"seconds": 60, "label": "long"})).await?;
    let id = task.task_id;
    acknowledged(client.cancel_task(CancelTaskParams::new(&*id)).await)?;
    let ended = wait(client, &id).await?.status();
    // A task that has ended is cancelled once more without an error.
    acknowledged(client.cancel_task(CancelTaskParams::new(&*id)).await)?;
    Ok(json!({"status": ended}))
}

async fn unknown(client: &Client) -> Result<Value, String> {
    match client.get_task(GetTaskParams::new("AAAAAAAAAAAAAAAAAAAAAA")).await {
        Err(ServiceError::McpError(error)) => Ok(json!({"code": error.code})),
        other => Err(format!("{other:?}")),
    }
}
