//! `bench-client RUNTIME ERA N -- SERVER…`: N calls of `echo` by a client of ours to a server process, one at a time.
//!
//! Prints the CPU time of client and server per call, as one JSON object.

use core::error::Error;
use std::process::ExitCode;

use mcp_benches::process;
use mcp_proto::client::{Config, KnownEra};
use mcp_proto::model::CallToolResult;
use mcp_std::process::Program;
use serde::Serialize;

/// 100 bytes, as in the other benches.
const TEXT: &str =
    "The quick brown fox jumps over the lazy dog 0123456789 and then echoes this text back, please. The q";

/// Number of calls before the measured ones.
const WARM_UP: u32 = 500;

#[derive(Serialize)]
struct EchoArguments<'a> {
    text: &'a str,
}

fn main() -> ExitCode {
    match run() {
        Ok(figures) => {
            println!("{{{figures}}}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bench-client: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, era, n, dashes, program, rest @ ..] = &args[..] else {
        return Err("RUNTIME ERA N -- SERVER…".into());
    };
    let verdict = match era.as_str() {
        "legacy" => KnownEra::Legacy,
        "modern" => KnownEra::Modern,
        _ => return Err("the era is `legacy` or `modern`".into()),
    };
    if dashes != "--" {
        return Err("no `-- SERVER` given".into());
    }
    let n: u32 = n.parse()?;
    let config = Config::new("mcpdrive", "1.0.0").known_era(Some(verdict));
    let program = Program::new(program).args(rest);
    match runtime.as_str() {
        "tokio" => {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            tokio.block_on(async {
                let client = mcp_tokio::Client::spawn_with(config, program).await?;
                let figures =
                    calls(n, async || Ok(client.call_tool("echo", &EchoArguments { text: TEXT }).await?))
                        .await;
                client.close().await?;
                figures
            })
        }
        // One loop for the others: the futures of the blocking ones are ready immediately.
        other => mcp_smol::block_on(measure(other, config, program, n)),
    }
}

async fn measure(runtime: &str, config: Config, program: Program, n: u32) -> Result<String, Box<dyn Error>> {
    match runtime {
        "blocking" => {
            let client = mcp_blocking::Client::spawn_with(config, program)?;
            let figures =
                calls(n, async || Ok(client.call_tool("echo", &EchoArguments { text: TEXT })?)).await;
            client.close()?;
            figures
        }
        "threads" => {
            let client = mcp_threads::Client::spawn_with(config, program)?;
            let figures =
                calls(n, async || Ok(client.call_tool("echo", &EchoArguments { text: TEXT })?)).await;
            client.close()?;
            figures
        }
        "smol" => {
            let client = mcp_smol::Client::spawn_with(config, program).await?;
            let figures =
                calls(n, async || Ok(client.call_tool("echo", &EchoArguments { text: TEXT }).await?)).await;
            client.close().await?;
            figures
        }
        _ => Err("the runtime is `blocking`, `threads`, `smol` or `tokio`".into()),
    }
}

/// Returns the CPU times of `n` calls.
async fn calls(
    n: u32,
    mut call: impl AsyncFnMut() -> Result<CallToolResult<'static>, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let mut calls = async |n: u32| -> Result<(), Box<dyn Error>> {
        for _ in 0..n {
            let result = call().await?;
            if result.content.first().and_then(|block| block.as_text()) != Some(TEXT) {
                return Err(format!("unexpected answer: {result:?}").into());
            }
        }
        Ok(())
    };
    calls(WARM_UP).await?;
    let servers = process::children();
    let cpu = || {
        (
            process::cpu_time(std::process::id()),
            servers.iter().map(|pid| process::cpu_time(*pid)).sum::<u64>(),
        )
    };
    let before = cpu();
    calls(n).await?;
    let after = cpu();
    let each = |nanos: u64| nanos as f64 / f64::from(n.max(1)) / 1e3;
    let (client_time, server_time) = (each(after.0 - before.0), each(after.1 - before.1));
    Ok(format!(
        "\"client_us\":{client_time:.4},\"server_us\":{server_time:.4},\"both_us\":{:.4}",
        client_time + server_time
    ))
}
