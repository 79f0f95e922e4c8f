//! Fixtures of the conformance suite for tasks, and a question that runs as a task of the client.

use core::time::Duration;

use mcp_proto::RpcError;
use mcp_proto::model::{
    BooleanSchema, CallToolResult, ElicitResult, ElicitSchema, ElicitValue, StringSchema, TaskSupport,
};
use mcp_proto::router::schema::{NoArguments, schemars};
use mcp_runtime::server::ServerTasks;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Router;
use crate::TourStep;

#[derive(Deserialize, JsonSchema)]
struct GreetArguments {
    /// Name to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct ComputeArguments {
    /// Seconds until the result.
    seconds: f64,
    /// Label of the result.
    #[serde(default)]
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct DeleteArguments {
    /// Name of the file, which is not deleted.
    filename: String,
}

/// Registers the tools; `broken` is the step of the tour to perform wrongly.
pub(super) fn register(router: &mut Router, broken: Option<TourStep>) {
    router.tasks(ServerTasks::new());
    router
        .tool("greet", handler!(|_cx, GreetArguments { name }: GreetArguments| format!("Hello, {name}!")))
        .description("Greets, never as a task");

    let compute = handler!(|cx, ComputeArguments { seconds, label }: ComputeArguments| {
        let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().min(MAX_COMPUTE);
        for step in 1..=COMPUTE_STEPS {
            cx.working(format!("step {step} of {COMPUTE_STEPS}"))?;
            wait!(cx.sleep(whole / COMPUTE_STEPS))?;
        }
        Ok::<_, RpcError>(format!("computed {label} for {seconds} s"))
    });
    router
        .tool("slow_compute", compute)
        .description("Takes some seconds, as a task if the client supports it")
        .task_support(TaskSupport::Optional);

    let failing = handler!(|cx, _: NoArguments| {
        wait!(cx.sleep(Duration::from_secs(1)))?;
        Ok::<_, RpcError>(CallToolResult::error("this job always fails"))
    });
    router
        .tool("failing_job", failing)
        .description("Fails as a tool does, and only as a task")
        .task_support(TaskSupport::Required);

    let erring = handler!(|cx, _: NoArguments| {
        wait!(cx.sleep(Duration::from_millis(100)))?;
        Err::<(), _>(RpcError::internal("this job always ends with an error"))
    });
    router
        .tool("protocol_error_job", erring)
        .description("Ends with a protocol error")
        .task_support(TaskSupport::Optional);

    let delete = handler!(|cx, DeleteArguments { filename }: DeleteArguments| {
        let form = ElicitSchema::default().field("confirm", BooleanSchema::new());
        let answer = cx.elicit("confirm", format!("Delete {filename}?"), form)?;
        let is_confirmed = matches!(value(&answer, "confirm"), Some(ElicitValue::Boolean(true)));
        let did = if is_confirmed { "deleted" } else { "kept" };
        Ok::<_, RpcError>(format!("{filename} was {did}"))
    });
    router
        .tool("confirm_delete", delete)
        .description("Asks for a confirmation in the middle of a task, and deletes nothing")
        .task_support(TaskSupport::Optional);

    let inputs = handler!(|cx, _: NoArguments| {
        let first = cx.elicit("first", "What is the first name?", name_form());
        let second = cx.elicit("second", "What is the second name?", name_form());
        Ok::<_, RpcError>(format!("{} and {}", name(&first?), name(&second?)))
    });
    router
        .tool("multi_input", inputs)
        .description("Asks for two things at once in the middle of a task")
        .task_support(match broken {
            Some(TourStep::Task) => TaskSupport::Forbidden,
            _ => TaskSupport::Optional,
        });

    let deferred = handler!(|cx, _: NoArguments| {
        let answer = cx.elicit("user_name", "What is your name?", name_form())?;
        cx.begin_task()?;
        Ok::<_, RpcError>(format!("Hello, {}!", name(&answer)))
    });
    router
        .tool("test_tool_with_task", deferred)
        .description("Asks for a name, and then becomes a task")
        .task_support(TaskSupport::Optional)
        .defer_task();

    let hosted = handler!(|cx, _: NoArguments| {
        cx.ask_as_tasks(None);
        let answer = cx.elicit("name", "What is your name?", name_form())?;
        Ok::<_, RpcError>(format!("Hello, {}!", name(&answer)))
    });
    router
        .tool("ask_as_task", hosted)
        .description("Asks for a name, by a task of the client if it hosts such tasks (2025-11-25)");
}

fn name_form() -> ElicitSchema {
    ElicitSchema::default().field("name", StringSchema::new())
}

fn value<'a>(answer: &'a ElicitResult, field: &str) -> Option<&'a ElicitValue> {
    answer.content.as_ref()?.get(field)
}

fn name(answer: &ElicitResult) -> &str {
    match value(answer, "name") {
        Some(ElicitValue::Text(name)) => name,
        _ => "nobody",
    }
}

const COMPUTE_STEPS: u32 = 10;
const MAX_COMPUTE: Duration = Duration::from_secs(3_600);
