//! Helpers of the client tests of asynchronous and shared clients.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use std::sync::mpsc;

use mcp_blocking::{Call, Cx, Handler, Program, Stderr};
use mcp_proto::client;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, CancelReason};
use mcp_proto::{Capabilities, Capability, Change, Progress, RpcError};
use mcp_std::process::ShutdownTimeouts;

use crate::adapter::{Client, Options};
use crate::support::{DEADLINE, example};

#[expect(deprecated, reason = "tested until its removal")]
pub(crate) fn server_config() -> server::Config {
    server::Config::new("test", "1").capabilities(
        Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::ToolsListChanged)
            .with(Capability::Logging),
    )
}

/// Makes a blocking handler with tools that echo, count, publish a change, or sleep until their call is cancelled.
pub(crate) fn tool_handler(events: mpsc::Sender<String>) -> impl Handler + Send {
    move |cx: &mut Cx, call: &Call| {
        let tool = call.tool_call()?;
        let arguments: serde_json::Value = tool.parse()?;
        match &*tool.name {
            "echo" => cx.complete(&CallToolResult::text(arguments["text"].as_str().unwrap_or_default())),
            "count" => {
                for step in 1..=5 {
                    cx.progress(Progress::new(f64::from(step)))?;
                }
                cx.complete(&CallToolResult::text("counted"))
            }
            "endless" => {
                let _ = events.send("begun".into());
                let slept = cx.sleep(DEADLINE * 2);
                let _ = events.send(match cx.cancel_reason() {
                    Some(CancelReason::Client(reason)) => format!("cancelled {reason:?}"),
                    other => format!("{other:?}"),
                });
                slept?;
                cx.complete(&CallToolResult::text("never"))
            }
            "changes" => {
                cx.publish(&Change::Tools);
                cx.complete(&CallToolResult::text("changed"))
            }
            other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
        }
    }
}

/// Returns the example server that misbehaves as `mode` names.
pub(crate) fn odd_server(mode: &str) -> Program {
    Program::new(example("odd_server")).arg(mode).stderr(Stderr::Capture)
}

/// Returns the same server, started by a shell after `setup`.
#[cfg(target_os = "linux")]
pub(crate) fn odd_server_after(setup: &str, mode: &str) -> Program {
    let script = format!("{setup} exec \"$0\" {mode}");
    Program::new("sh").arg("-c").arg(script).arg(example("odd_server")).stderr(Stderr::Capture)
}

/// Returns client options with short shutdown timeouts, in which a busy machine ends a process all the same.
pub(crate) fn short_timeouts() -> Options {
    Client::options(client::Config::new("test", "1"))
        .shutdown_timeouts(ShutdownTimeouts::uniform(core::time::Duration::from_secs(2)))
}

/// Returns whether a process exists and is no zombie.
#[cfg(target_os = "linux")]
pub(crate) fn is_running(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns the running child process of this process that has the given argument.
#[cfg(target_os = "linux")]
pub(crate) fn child_with(argument: &str) -> Option<u32> {
    let parent = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap();
    let mut ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.find(|id: &u32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let stat = read("stat");
        let is_child = stat.contains(&format!(" {parent} ")) && !stat.contains(") Z ");
        is_child && read("cmdline").split('\0').any(|arg| arg == argument)
    })
}

/// Returns the command lines of all processes that contain `text`.
#[cfg(target_os = "linux")]
pub(crate) fn command_lines_with(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok()?;
        line.contains(text).then_some(line)
    });
    all.collect()
}
