//! Both ends on `mcp-blocking`.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::thread;

use mcp_blocking::{Answered, Call, Client, Cx, Handler, HttpServer};
use mcp_proto::model::ListToolsResult;
use mcp_proto::{CallKey, CallOptions, Diagnostic, RpcError, http};
use mcp_tests::harness::Rng;

use crate::ledger::{CallLedger, SoakOutcome};
use crate::memory::MemoryTrend;
use crate::plan::CallPlan;
use crate::tally::{self, NoArguments, ServerReport, ServerTally, WorkArguments};
use crate::{
    BoxError, MAX_CONCURRENT, MAX_CONNECTIONS, SoakArgs, SoakTarget, check_answer, wait_for_stdin_eof,
};

struct SoakServer {
    tally: ServerTally,
    tools: ListToolsResult,
}

impl Handler for SoakServer {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match call.method() {
            "tools/call" => {}
            "tools/list" => return cx.complete(&self.tools),
            other => return Err(RpcError::method_not_found(other)),
        }
        let tool = call.tool_call()?;
        if tool.name == "tally" {
            return cx.complete(&self.tally.report_result()?);
        }
        let work: WorkArguments = tool.parse()?;
        let _running = self.tally.begin(work)?;
        if work.micros > 0 {
            cx.sleep(Duration::from_micros(work.micros))?;
        }
        cx.complete(&tally::work_result(work)?)
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

fn server(calls: usize) -> SoakServer {
    SoakServer { tally: ServerTally::new(calls), tools: tally::tools() }
}

pub(crate) fn serve_stdio(calls: usize) -> Result<(), BoxError> {
    Ok(mcp_blocking::serve_stdio(tally::config(), server(calls))?)
}

pub(crate) fn serve_http(calls: usize) -> Result<(), BoxError> {
    let http = http::server::Config::new();
    let path = http.endpoint_path().to_owned();
    let mut server = HttpServer::bind("127.0.0.1:0", tally::config(), http, server(calls))?
        .max_connections(MAX_CONNECTIONS);
    writeln!(io::stdout(), "http://{}{path}", server.address()?)?;
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        wait_for_stdin_eof();
        tell.store(true, Ordering::Relaxed);
    });
    while !ended.load(Ordering::Relaxed) {
        server.poll(Duration::from_millis(50))?;
    }
    server.shutdown(Duration::from_secs(1));
    while server.poll(Duration::from_millis(50))? {}
    Ok(())
}

/// Makes all calls.
pub(crate) fn run(
    args: &SoakArgs,
    target: SoakTarget,
    plan: &CallPlan,
    ledger: &CallLedger,
    memory: &mut MemoryTrend,
) -> Result<(), BoxError> {
    let options = Client::options(args.config()).handler(ledger.tap());
    let mut client = match target {
        SoakTarget::Program(program) => options.spawn(program)?,
        SoakTarget::Url(url) => options.connect_url(&url)?,
    };
    let mut rng = Rng::new(args.seed);
    let mut open: VecDeque<(usize, CallKey)> = VecDeque::new();
    let mut next = 0;
    let mut ended = 0;
    while ended < args.calls {
        while open.len() < MAX_CONCURRENT && next < args.calls {
            let work =
                WorkArguments { number: next, micros: plan.planned_call(next).length.as_micros() as u64 };
            open.push_back((next, client.start_tool("work", &work, &CallOptions::new())?));
            next += 1;
        }
        // A random call is awaited; the others continue meanwhile.
        let Some((number, key)) = open.swap_remove_back(rng.below(open.len())) else { break };
        let outcome = match plan.planned_call(number).cancel {
            Some(Duration::ZERO) => {
                client.cancel(key, None)?;
                SoakOutcome::Cancelled
            }
            Some(after) => match client.wait_timeout(key, after)? {
                Some(result) => check_answer(number, &result)?,
                None => {
                    client.cancel(key, Some("no longer needed"))?;
                    SoakOutcome::Cancelled
                }
            },
            None => check_answer(number, &client.wait(key)?)?,
        };
        ended = ledger.record_end(number, outcome);
        if memory.is_due(ended) {
            memory.note(fetch_report(&mut client)?.resident);
        }
    }
    // Cancellations may reach their handlers a little later.
    let mut report = fetch_report(&mut client)?;
    for _ in 0..100 {
        if report.running == 0 {
            break;
        }
        client.poll(Duration::from_millis(20))?;
        report = fetch_report(&mut client)?;
    }
    memory.note(report.resident);
    ledger.record_server_report(report);
    Ok(client.close().map(drop)?)
}

fn fetch_report(client: &mut Client) -> Result<ServerReport, BoxError> {
    Ok(client.call_tool("tally", &NoArguments {})?.parse_structured()?)
}
