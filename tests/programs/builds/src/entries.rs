//! The tools and resources of the server.

use std::sync::Arc;
use std::time::Duration;

use mcp_tokio::mcp_proto::Change;
use mcp_tokio::mcp_proto::model::{
    ResourceTemplate, ResourceTemplateReference, TaskSupport, ToolAnnotations,
};
use mcp_tokio::mcp_proto::router::{CompletionTarget, ResourceTarget, suggest};
use mcp_tokio::{Cx, Handle, Router, ServerTasks, Typed};

use crate::config::Config;
use crate::runner::{Runner, log_uri};

/// URI template of a log.
const LOG: &str = "build://runs/{run}/log";
/// Time between two notices of new lines.
const NOTICE_INTERVAL: Duration = Duration::from_millis(200);

/// Creates the server: a tool for each command, and the logs.
pub fn router(config: Config) -> (Router, Arc<Runner>) {
    let commands = config.commands.clone();
    let runner = Arc::new(Runner::new(config));
    let mut router = Router::new("builds", env!("CARGO_PKG_VERSION"));
    router.tasks(ServerTasks::new()).subscriptions(|_, _| {});

    for (name, command) in commands {
        let description = format!("Runs `{}`, with its output as progress", command.join(" "));
        let runner = runner.clone();
        let run = async move |cx: &mut Cx, (): ()| runner.run(cx, &command).await.map(Typed);
        router
            .tool(&name, run)
            .description(description)
            .annotations(ToolAnnotations::new().destructive_hint(false))
            .task_support(TaskSupport::Optional);
    }
    let (logs, runs) = (runner.clone(), runner.clone());
    router
        .resource_template(
            ResourceTemplate::new(LOG, "log")
                .title("Output of a run")
                .description(
                    "The last 256 KiB of the output, and how the run ended; the latest 20 runs are kept",
                )
                .mime_type("text/plain"),
            async move |_: &mut Cx, read: &ResourceTarget<'_>| {
                logs.logs.text(read.variables.get("run")?.parse().ok()?)
            },
        )
        .completion(
            ResourceTemplateReference::new(LOG),
            "run",
            async move |_: &mut Cx, typed: &CompletionTarget<'_>| {
                let runs: Vec<String> = runs.logs.runs().iter().rev().map(u64::to_string).collect();
                suggest(runs.iter().map(String::as_str), typed.value())
            },
        );
    (router, runner)
}

/// Publishes new lines to subscribers, as long as the server runs.
pub async fn announce(runner: Arc<Runner>, server: Handle) {
    while !server.is_over() {
        for run in runner.logs.take_changed() {
            // Refused if the server has just ended.
            let _ = server.publish(&Change::Resource(log_uri(run)));
        }
        tokio::time::sleep(NOTICE_INTERVAL).await;
    }
}
