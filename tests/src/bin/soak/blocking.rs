//! Both ends on `mcp-blocking`

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
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
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
            cx.sleep(Duration::from_micros(work.micros))?;
        }
        cx.complete(&tally::done(work)?)
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

fn server(calls: usize) -> Server {
    Server { tally: Tally::new(calls), tools: tally::tools() }
}

pub(crate) fn serve_stdio(calls: usize) -> Result<(), Failed> {
    Ok(mcp_blocking::serve_stdio(tally::config(), server(calls))?)
}

pub(crate) fn serve_http(calls: usize) -> Result<(), Failed> {
    let http = http::server::Config::new();
    let path = http.get_path().to_owned();
    let mut server =
        HttpServer::bind("127.0.0.1:0", tally::config(), http, server(calls))?.max_connections(CONNECTIONS);
    writeln!(io::stdout(), "http://{}{path}", server.address()?)?;
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        end_of_stdin();
        tell.store(true, Ordering::Relaxed);
    });
    while !ended.load(Ordering::Relaxed) {
        server.poll(Duration::from_millis(50))?;
    }
    server.shutdown(Duration::from_secs(1));
    while server.poll(Duration::from_millis(50))? {}
    Ok(())
}

/// Makes all calls
pub(crate) fn run(
    given: &Given,
    target: Target,
    plan: &Plan,
    ledger: &Ledger,
    memory: &mut Memory,
) -> Result<(), Failed> {
    let options = Client::options(given.config()).handler(ledger.watch());
    let mut client = match target {
        Target::Program(program) => options.spawn(program)?,
        Target::Url(url) => options.connect_url(&url)?,
    };
    let mut rng = Rng::new(given.seed);
    let mut open: VecDeque<(usize, CallKey)> = VecDeque::new();
    let mut next = 0;
    let mut ended = 0;
    while ended < given.calls {
        while open.len() < AT_ONCE && next < given.calls {
            let work = Work { number: next, micros: plan.step(next).length.as_micros() as u64 };
            open.push_back((next, client.start_tool("work", &work, &CallOptions::new())?));
            next += 1;
        }
        // Whichever it is, the others go on meanwhile.
        let Some((number, key)) = open.swap_remove_back(rng.below(open.len())) else { break };
        let outcome = match plan.step(number).cancel {
            Some(Duration::ZERO) => {
                client.cancel(key, None)?;
                Outcome::Cancelled
            }
            Some(after) => match client.wait_timeout(key, after)? {
                Some(result) => answered(number, &result)?,
                None => {
                    client.cancel(key, Some("not wanted any more"))?;
                    Outcome::Cancelled
                }
            },
            None => answered(number, &client.wait(key)?)?,
        };
        ended = ledger.end(number, outcome);
        if memory.is_due(ended) {
            memory.note(tally(&mut client)?.resident);
        }
    }
    // Handlers may be told a little later that nobody wants them any more.
    let mut report = tally(&mut client)?;
    for _ in 0..100 {
        if report.running == 0 {
            break;
        }
        client.poll(Duration::from_millis(20))?;
        report = tally(&mut client)?;
    }
    memory.note(report.resident);
    ledger.server(report);
    Ok(client.close().map(drop)?)
}

fn tally(client: &mut Client) -> Result<Report, Failed> {
    Ok(client.call_tool("tally", &Empty {})?.parse_structured()?)
}
