//! Both ends on `mcp-smol` or `mcp-tokio`.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mcp_proto::model::ListToolsResult;
use mcp_proto::server::Call;
use mcp_proto::{CallOptions, Diagnostic, RpcError, http};
use mcp_runtime::runtime::client::Client;
use mcp_runtime::runtime::http::HttpServer;
use mcp_runtime::runtime::server::Server;
use mcp_runtime::server::{Answered, AsyncCx, AsyncHandler};
use mcp_system_tests::executor::Executor;

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

impl AsyncHandler for SoakServer {
    async fn call(&self, cx: &mut AsyncCx, call: &Call) -> Result<Answered, RpcError> {
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
            cx.sleep(Duration::from_micros(work.micros)).await?;
        }
        cx.complete(&tally::work_result(work)?)
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

fn server(calls: usize) -> SoakServer {
    SoakServer { tally: ServerTally::new(calls), tools: tally::tools() }
}

pub(crate) fn serve_stdio<R: Executor>(calls: usize) -> Result<(), BoxError> {
    // Tokio opens the stream in the context of its runtime only.
    Ok(R::run(async { Server::<R, _, _>::stdio(tally::config(), server(calls))?.run().await })?)
}

pub(crate) fn serve_http<R: Executor>(calls: usize) -> Result<(), BoxError> {
    let http = http::server::Config::new();
    let path = http.endpoint_path().to_owned();
    let bound = HttpServer::<R, _>::bind("127.0.0.1:0", tally::config(), http, server(calls))?;
    let server = bound.max_connections(MAX_CONNECTIONS).max_running(MAX_CONNECTIONS).shards(2);
    writeln!(io::stdout(), "http://{}{path}", server.address()?)?;
    let handle = server.handle();
    thread::spawn(move || {
        wait_for_stdin_eof();
        handle.shutdown(Duration::from_secs(1));
    });
    Ok(R::run(server.run())?)
}

/// Makes all calls, one at a time per thread. The threads share a connection, so one of them leads.
pub(crate) fn run<R: Executor>(
    args: &SoakArgs,
    target: SoakTarget,
    plan: &CallPlan,
    ledger: &CallLedger,
    memory: &mut MemoryTrend,
) -> Result<(), BoxError> {
    let options = Client::<R>::options(args.config()).handler(ledger.tap());
    let client = match target {
        SoakTarget::Program(program) => R::run(options.spawn(program))?,
        SoakTarget::Url(url) => R::run(options.connect_url(&url))?,
    };
    let (next, shared) = (AtomicUsize::new(0), Mutex::new(&mut *memory));
    let calls = || -> Result<(), BoxError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= args.calls {
                return Ok(());
            }
            let ended = ledger.record_end(number, call(&client, plan, number)?);
            let mut memory = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if memory.is_due(ended) {
                memory.note(fetch_report(&client)?.resident);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..MAX_CONCURRENT).map(|_| scope.spawn(calls)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    // Cancellations may reach their handlers a little later.
    let mut report = fetch_report(&client)?;
    for _ in 0..100 {
        if report.running == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        report = fetch_report(&client)?;
    }
    memory.note(report.resident);
    ledger.record_server_report(report);
    Ok(R::run(client.close()).map(drop)?)
}

fn call<R: Executor>(client: &Client<R>, plan: &CallPlan, number: usize) -> Result<SoakOutcome, BoxError> {
    let step = plan.planned_call(number);
    let work = WorkArguments { number, micros: step.length.as_micros() as u64 };
    let mut call = client.start_tool("work", &work, &CallOptions::new())?;
    match step.cancel {
        None => return check_answer(number, &R::run(client.wait(call))?),
        Some(Duration::ZERO) => {}
        Some(after) => {
            if let Some(result) = R::run(client.wait_timeout(&mut call, after))? {
                return check_answer(number, &result);
            }
        }
    }
    client.cancel(call, Some("no longer needed"))?;
    Ok(SoakOutcome::Cancelled)
}

fn fetch_report<R: Executor>(client: &Client<R>) -> Result<ServerReport, BoxError> {
    Ok(R::run(client.call_tool("tally", &NoArguments {}))?.parse_structured()?)
}
