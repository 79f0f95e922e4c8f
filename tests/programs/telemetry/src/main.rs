//! Three services, each a process on stdin and stdout that exports its spans and metrics:
//!
//! - `mcp-otlp server`: has the tool `look_up`, which returns the `_meta` of its call;
//! - `mcp-otlp bridge ERA SERVER...`: starts a server, and has the tool `ask`, which calls its `look_up`;
//! - `mcp-otlp client ERA TOOL CALLS SERVER...`: starts a server, calls a tool, and prints its last result.
//!
//! `ERA` is `legacy` or `modern`.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mcp_blocking::mcp_proto::model::{CallToolResult, Tool};
use mcp_blocking::mcp_proto::observe::Observer;
use mcp_blocking::mcp_proto::{RawJson, VersionSet, client};
use mcp_blocking::{Client, Cx, Options, Program, Router, ShutdownTimeouts};
use mcp_otlp::export;
use mcp_telemetry::Telemetry;
use serde_json::json;

const USAGE: &str = "usage: mcp-otlp server
       mcp-otlp bridge legacy|modern SERVER...
       mcp-otlp client legacy|modern TOOL CALLS SERVER...";

/// Time for the last spans. Clients wait 5 s for the end of a server.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the end of a server that does export its last spans.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Variables that a started server needs besides the default ones of [`Program`].
const VARIABLES: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
];

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["server"] => exporting("server", serve),
        ["bridge", era, server @ ..] => exporting("bridge", || bridge(versions(era)?, server)),
        ["client", era, tool, calls, server @ ..] => {
            exporting("client", || ask(versions(era)?, tool, calls.parse()?, server))
        }
        _ => Err(USAGE.into()),
    }
}

/// Runs a service, and then exports the rest of its spans and metrics.
fn exporting(service: &'static str, run: impl FnOnce() -> Outcome) -> Outcome {
    let exporters = export(service)?;
    let outcome = run();
    if let Err(error) = exporters.shutdown(EXPORT_TIMEOUT) {
        // Not a failure of the service.
        eprintln!("{service}: not everything was exported: {error}");
    }
    outcome
}

fn serve() -> Outcome {
    let mut router = Router::new("server", "1.0.0");
    router.observer(observer());
    router.tool_with(Tool::new("look_up", any_object()?), |cx: &mut Cx<'_>, (): ()| {
        // A part of the span of the call.
        tracing::info_span!("read the index").in_scope(|| {
            let meta = cx.call().meta();
            meta.as_ref().map_or("{}", RawJson::as_str).to_owned()
        })
    });
    Ok(router.serve_stdio()?)
}

fn bridge(versions: VersionSet, server: &[&str]) -> Outcome {
    let observer = observer();
    let client = connect(versions, server, Arc::clone(&observer))?;
    let mut router = Router::new("bridge", "1.0.0");
    router.observer(observer);
    router.tool_with(
        Tool::new("ask", any_object()?),
        move |_, (): ()| -> Result<String, mcp_blocking::Error> {
            Ok(text(&client.call_tool("look_up", &json!({}))?))
        },
    );
    Ok(router.serve_stdio()?)
}

fn ask(versions: VersionSet, tool: &str, calls: usize, server: &[&str]) -> Outcome {
    let client = connect(versions, server, observer())?;
    // A span of the application: the calls belong to its trace.
    let answer = tracing::info_span!("conversation").in_scope(|| -> Result<String, Box<dyn Error>> {
        let mut answer = String::new();
        for _ in 0..calls {
            let result = client.call_tool(tool, &json!({}))?;
            answer = text(&result);
            if result.is_failure() {
                return Err(answer.into());
            }
        }
        Ok(answer)
    })?;
    client.close()?;
    println!("{answer}");
    Ok(())
}

fn observer() -> Arc<dyn Observer> {
    Telemetry::new().transport("pipe").build()
}

fn connect(
    versions: VersionSet,
    server: &[&str],
    observer: Arc<dyn Observer>,
) -> Result<Client, Box<dyn Error>> {
    let (program, arguments) = server.split_first().ok_or(USAGE)?;
    let config = client::Config::new("client", "1.0.0").versions(versions).observer(observer);
    let options = Options::new(config).shutdown_timeouts(ShutdownTimeouts::uniform(SERVER_TIMEOUT));
    let program = Program::new(*program).args(arguments).inherit_env(VARIABLES);
    Ok(options.spawn(program)?)
}

fn versions(era: &str) -> Result<VersionSet, Box<dyn Error>> {
    match era {
        "legacy" => Ok(VersionSet::LEGACY),
        "modern" => Ok(VersionSet::MODERN),
        _ => Err(USAGE.into()),
    }
}

fn text(result: &CallToolResult<'_>) -> String {
    result.content.first().and_then(|content| content.as_text()).unwrap_or_default().to_owned()
}

fn any_object() -> Result<RawJson, Box<dyn Error>> {
    Ok(RawJson::new(r#"{"type":"object"}"#)?)
}
