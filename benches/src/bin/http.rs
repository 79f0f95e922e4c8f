//! `bench-http ERA CONNECTIONS N [THREADS [TOOL]] -- SERVER…`: calls a server process over HTTP and measures its cost.
//!
//! Makes N calls of TOOL (`echo`) in all, or as many as fit in three seconds, one at a time on each keep-alive connection.
//! `{port}` in the command stands for the port of the server. The connections are spread over THREADS threads of the
//! driver (1); if there are several, each stays on a core of its own. Every answer is checked. Prints one JSON object.

use core::time::Duration;
use std::io::{self, Read as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use mcp_benches::epoll::{Epoll, write_all};
use mcp_benches::process;
use mcp_benches::web::{Connection, Server, parse};
use mcp_benches::wire::{RequestLine, WireEra, text};
use mcp_runtime::server::Cores;
use memchr::memmem;

type BenchResult<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// Number of calls on each connection before the measured ones.
const WARM_UP: usize = 50;

/// Longest duration of a run.
const MAX_DURATION: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    match run() {
        Ok(figures) => {
            println!("{{{figures}}}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bench-http: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> BenchResult<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cut = args.iter().position(|a| a == "--").ok_or("no `-- SERVER` given")?;
    let (ask, command) = (&args[..cut], &args[cut + 1..]);
    let era = ask.first().and_then(|name| WireEra::BOTH.into_iter().find(|e| e.name() == name));
    let era = era.ok_or("the era is `legacy` or `modern`")?;
    let number = |at: usize| -> BenchResult<usize> { Ok(ask.get(at).ok_or("a number is missing")?.parse()?) };
    let (connections, n) = (number(1)?, number(2)?);
    let threads = if ask.len() > 3 { number(3)? } else { 1 };
    let tool = ask.get(4).map_or("echo", |name| name);
    let server = Server::start(command)?;
    let shares = (0..threads).map(|at| connections / threads + usize::from(at < connections % threads));
    let mut loads = all(shares, |connections| LoadWorker::new(&server, era, tool, connections))?;
    all(loads.iter_mut(), |load| load.calls(WARM_UP * load.connections.len()))?;
    loads.iter_mut().for_each(|load| load.times.clear());
    let (cpu, switches, start) =
        (process::cpu_time(server.pid()), process::context_switches(server.pid()), Instant::now());
    all(loads.iter_mut(), |load| load.calls(n / threads))?;
    let wall = start.elapsed();
    let cpu = process::cpu_time(server.pid()) - cpu;
    let switches = process::context_switches(server.pid()) - switches;
    let mut times: Vec<u32> = loads.iter().flat_map(|load| load.times.iter().copied()).collect();
    times.sort_unstable();
    let each = times.len() as f64;
    Ok(format!(
        "\"cpu_us\":{:.4},\"wall_us\":{:.4},\"per_s\":{:.1},\"switches\":{:.3},\"p50_us\":{:.2},\"p99_us\":{:.2},\
         \"calls\":{},\"rss_kb\":{}",
        cpu as f64 / each / 1e3,
        wall.as_secs_f64() * 1e6 / each,
        each / wall.as_secs_f64(),
        switches as f64 / each,
        process::quantile(&times, 0.5),
        process::quantile(&times, 0.99),
        times.len(),
        process::memory(server.pid(), "VmRSS:"),
    ))
}

/// Runs `does` on all parts concurrently, each on a thread and core of its own if there are several.
fn all<P: Send, R: Send>(
    parts: impl Iterator<Item = P>,
    does: impl Fn(P) -> BenchResult<R> + Sync,
) -> BenchResult<Vec<R>> {
    let mut parts: Vec<P> = parts.collect();
    if parts.len() == 1 {
        return parts.drain(..).map(does).collect();
    }
    let (cores, does) = (Cores::available(), &does);
    thread::scope(|scope| {
        let threads: Vec<_> = (parts.into_iter().zip(0..))
            .map(|(part, at)| {
                let cores = &cores;
                scope.spawn(move || {
                    cores.pin_thread(at);
                    does(part)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread of the driver panicked")?)
            .collect()
    })
}

/// The connections of one thread.
struct LoadWorker {
    epoll: Epoll,
    connections: Vec<LoadConnection>,
    expected: String,
    /// Duration of each call in ns.
    times: Vec<u32>,
}

struct LoadConnection {
    connection: Connection,
    request: RequestLine,
    buffered: Vec<u8>,
    sent_at: Instant,
}

impl LoadWorker {
    fn new(server: &Server, era: WireEra, tool: &str, connections: usize) -> BenchResult<Self> {
        let epoll = Epoll::new()?;
        let mut lanes = Vec::new();
        for at in 0..connections {
            let mut connection = server.connect()?;
            let session = if era == WireEra::Legacy { connection.initialize()? } else { String::new() };
            let fields = Connection::request_fields(era, &session, "tools/call", tool);
            let request =
                RequestLine::of_tool(era, tool, 100).into_post(|len| connection.head("POST", &fields, len));
            connection.stream().set_nonblocking(true)?;
            epoll.add(connection.stream(), at)?;
            lanes.push(LoadConnection { connection, request, buffered: Vec::new(), sent_at: Instant::now() });
        }
        Ok(Self { epoll, connections: lanes, expected: text(100), times: Vec::new() })
    }

    fn calls(&mut self, n: usize) -> BenchResult<()> {
        let (start, mut sent_count, mut answered, mut ready) = (Instant::now(), 0, 0, Vec::new());
        let mut piece = vec![0; 64 << 10];
        for lane in self.connections.iter_mut().take(n) {
            lane.ask()?;
            sent_count += 1;
        }
        while answered < sent_count {
            self.epoll.wait(Some(30_000), &mut ready)?;
            if ready.is_empty() {
                return Err(format!("no answer for 30 s, after {answered}").into());
            }
            for number in &ready {
                let lane = &mut self.connections[*number];
                if !lane.read(&mut piece, &self.expected)? {
                    continue;
                }
                self.times.push(u32::try_from(lane.sent_at.elapsed().as_nanos()).unwrap_or(u32::MAX));
                answered += 1;
                if sent_count < n && start.elapsed() < MAX_DURATION {
                    lane.ask()?;
                    sent_count += 1;
                }
            }
        }
        Ok(())
    }
}

impl LoadConnection {
    fn ask(&mut self) -> io::Result<()> {
        self.sent_at = Instant::now();
        write_all(self.connection.stream(), self.request.advance())
    }

    /// Reads once; returns whether the answer is complete.
    fn read(&mut self, piece: &mut [u8], expected: &str) -> BenchResult<bool> {
        let read = self.connection.stream().read(piece)?;
        if read == 0 {
            return Err("the server closed a connection".into());
        }
        self.buffered.extend_from_slice(&piece[..read]);
        let Some(reply) = parse(&self.buffered)? else { return Ok(false) };
        let id = format!("\"id\":{},", self.request.id());
        let last = format!("\"id\":{}}}", self.request.id());
        let contains = |text: &str| memmem::find(reply.body, text.as_bytes()).is_some();
        if reply.status != 200
            || reply.len != self.buffered.len()
            || !(contains(&id) || contains(&last))
            || !contains(expected)
        {
            return Err(format!("unexpected answer: {}", String::from_utf8_lossy(&self.buffered)).into());
        }
        self.buffered.clear();
        Ok(true)
    }
}
