//! Both ends on `mcp-smol`

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mcp_proto::model::ListToolsResult;
use mcp_proto::{CallOptions, Diagnostic, RpcError, http};
use mcp_smol::block_on;
use mcp_smol::{Answered, Call, Client, Cx, Handler, HttpServer};

use crate::ledger::{Ledger, Outcome};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::tally::{self, Empty, Report, Tally, Work};
use crate::{AT_ONCE, CONNECTIONS, Failed, Given, Target, answered, end_of_stdin};

struct Server {
    tally: Tally,
    tools: ListToolsResult,
}

impl Handler for Server {
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match call.method() {
            "tools/call" => {}
            "tools/list" => return cx.complete(&self.tools),
            other => return Err(RpcError::method_not_found(other)),
        }
        let tool = call.tool()?;
        if tool.name == "tally" {
            return cx.complete(&self.tally.report()?);
        }
        let work: Work = tool.parse()?;
        let _running = self.tally.begin(work)?;
        if work.micros > 0 {
            cx.sleep(Duration::from_micros(work.micros)).await?;
        }
        cx.complete(&tally::done(work)?)
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

fn server(calls: usize) -> Server {
    Server { tally: Tally::new(calls), tools: tally::tools() }
}

pub(crate) fn serve_stdio(calls: usize) -> Result<(), Failed> {
    Ok(block_on(mcp_smol::serve_stdio(tally::config(), server(calls)))?)
}

pub(crate) fn serve_http(calls: usize) -> Result<(), Failed> {
    let http = http::server::Config::new();
    let path = http.get_path().to_owned();
    let bound = HttpServer::bind("127.0.0.1:0", tally::config(), http, server(calls))?;
    let server = bound.max_connections(CONNECTIONS).max_running(CONNECTIONS).shards(2);
    writeln!(io::stdout(), "http://{}{path}", server.address()?)?;
    let handle = server.handle();
    thread::spawn(move || {
        end_of_stdin();
        handle.shutdown(Duration::from_secs(1));
    });
    Ok(block_on(server.run())?)
}

/// Makes all calls, each thread one at a time: one of them drives for all, and hands that on
pub(crate) fn run(
    given: &Given,
    target: Target,
    plan: &Plan,
    ledger: &Ledger,
    memory: &mut Memory,
) -> Result<(), Failed> {
    let options = Client::options(given.config()).handler(ledger.watch());
    let client = match target {
        Target::Program(program) => block_on(options.spawn(program))?,
        Target::Url(url) => block_on(options.connect_url(&url))?,
    };
    let (next, shared) = (AtomicUsize::new(0), Mutex::new(&mut *memory));
    let calls = || -> Result<(), Failed> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= given.calls {
                return Ok(());
            }
            let ended = ledger.end(number, call(&client, plan, number)?);
            let mut memory = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if memory.is_due(ended) {
                memory.note(tally(&client)?.resident);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(calls)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    // Handlers may be told a little later that nobody wants them any more.
    let mut report = tally(&client)?;
    for _ in 0..100 {
        if report.running == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        report = tally(&client)?;
    }
    memory.note(report.resident);
    ledger.server(report);
    Ok(block_on(client.close()).map(drop)?)
}

fn call(client: &Client, plan: &Plan, number: usize) -> Result<Outcome, Failed> {
    let step = plan.step(number);
    let work = Work { number, micros: step.length.as_micros() as u64 };
    let mut call = client.start_tool("work", &work, &CallOptions::new())?;
    match step.cancel {
        None => return answered(number, &block_on(client.wait(call))?),
        Some(Duration::ZERO) => {}
        Some(after) => {
            if let Some(result) = block_on(client.wait_timeout(&mut call, after))? {
                return answered(number, &result);
            }
        }
    }
    client.cancel(call, Some("not wanted any more"))?;
    Ok(Outcome::Cancelled)
}

fn tally(client: &Client) -> Result<Report, Failed> {
    Ok(block_on(client.call_tool("tally", &Empty {}))?.parse_structured()?)
}
