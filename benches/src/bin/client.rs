//! `bench-client ERA N -- SERVER…`: N calls of `echo` with our blocking client, one at a time, to a server process.
//!
//! Prints the CPU time that client and server took for each, as one JSON object.

use core::error::Error;
use std::process::ExitCode;

use mcp_benches::process;
use mcp_benches::wire::text;
use mcp_blocking::Client;
use mcp_proto::client::{Config, Verdict};
use mcp_std::child::Program;
use serde::Serialize;

/// Calls that go before those that count
const WARM_UP: u32 = 500;

#[derive(Serialize)]
struct Echo<'a> {
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
    let [era, n, dashes, program, rest @ ..] = &args[..] else { return Err("ERA N -- SERVER…".into()) };
    let verdict = match era.as_str() {
        "legacy" => Verdict::Legacy,
        "modern" => Verdict::Modern,
        _ => return Err("the era is `legacy` or `modern`".into()),
    };
    if dashes != "--" {
        return Err("no `-- SERVER` given".into());
    }
    let n: u32 = n.parse()?;
    let config = Config::new("mcpdrive", "1.0.0").verdict(Some(verdict));
    let mut client = Client::spawn_with(config, Program::new(program).args(rest))?;
    call(&mut client, WARM_UP)?;
    let servers = process::children();
    let cpu =
        || (process::cpu(std::process::id()), servers.iter().map(|pid| process::cpu(*pid)).sum::<u64>());
    let before = cpu();
    call(&mut client, n)?;
    let after = cpu();
    client.close()?;
    let each = |nanos: u64| nanos as f64 / f64::from(n.max(1)) / 1e3;
    let (ours, theirs) = (each(after.0 - before.0), each(after.1 - before.1));
    Ok(format!("\"client_us\":{ours:.4},\"server_us\":{theirs:.4},\"both_us\":{:.4}", ours + theirs))
}

fn call(client: &mut Client, n: u32) -> Result<(), Box<dyn Error>> {
    let text = text(100);
    for _ in 0..n {
        let result = client.call_tool("echo", &Echo { text: &text })?;
        if result.content.first().and_then(|block| block.as_text()) != Some(&text) {
            return Err(format!("not the answer: {result:?}").into());
        }
    }
    Ok(())
}
