//! `bench-http ERA CONNECTIONS N [THREADS] -- SERVER…`: calls a server process over HTTP and says what that cost the server.
//!
//! N calls of `echo` in all, or as many as are made in three seconds, one at a time on each connection, which are kept
//! alive; `{port}` in the command stands for the port where it is to listen. The connections are shared out to THREADS
//! threads of the driver (1); if there are several, each stays on a core of its own. Every answer is checked. Prints one
//! JSON object.

use core::time::Duration;
use std::io::{self, Read as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use mcp_benches::epoll::{Epoll, write_all};
use mcp_benches::process;
use mcp_benches::web::{Connection, Server, parse};
use mcp_benches::wire::{Era, Request, text};
use mcp_std::Cores;
use memchr::memmem;

type Outcome<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// Calls on each connection that go before those that count
const WARM_UP: usize = 50;

/// No run takes longer
const LONGEST: Duration = Duration::from_secs(3);

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

fn run() -> Outcome<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cut = args.iter().position(|a| a == "--").ok_or("no `-- SERVER` given")?;
    let (ask, command) = (&args[..cut], &args[cut + 1..]);
    let era = ask.first().and_then(|name| Era::BOTH.into_iter().find(|e| e.name() == name));
    let era = era.ok_or("the era is `legacy` or `modern`")?;
    let number = |at: usize| -> Outcome<usize> { Ok(ask.get(at).ok_or("a number is missing")?.parse()?) };
    let (connections, n) = (number(1)?, number(2)?);
    let threads = if ask.len() > 3 { number(3)? } else { 1 };
    let server = Server::start(command)?;
    let shares = (0..threads).map(|at| connections / threads + usize::from(at < connections % threads));
    let mut loads = all(shares, |connections| Load::new(&server, era, connections))?;
    all(loads.iter_mut(), |load| load.calls(WARM_UP * load.lanes.len()))?;
    loads.iter_mut().for_each(|load| load.times.clear());
    let (cpu, switches, start) =
        (process::cpu(server.pid()), process::switches(server.pid()), Instant::now());
    all(loads.iter_mut(), |load| load.calls(n / threads))?;
    let wall = start.elapsed();
    let cpu = process::cpu(server.pid()) - cpu;
    let switches = process::switches(server.pid()) - switches;
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
        process::share(&times, 0.5),
        process::share(&times, 0.99),
        times.len(),
        process::memory(server.pid(), "VmRSS:"),
    ))
}

/// Does something with all of them at the same time, each on a thread and core of its own if there are several
fn all<P: Send, R: Send>(
    parts: impl Iterator<Item = P>,
    does: impl Fn(P) -> Outcome<R> + Sync,
) -> Outcome<Vec<R>> {
    let mut parts: Vec<P> = parts.collect();
    if parts.len() == 1 {
        return parts.drain(..).map(does).collect();
    }
    let (cores, does) = (Cores::all(), &does);
    thread::scope(|scope| {
        let threads: Vec<_> = (parts.into_iter().zip(0..))
            .map(|(part, at)| {
                let cores = &cores;
                scope.spawn(move || {
                    cores.stay(at);
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

/// Connections of one thread
struct Load {
    epoll: Epoll,
    lanes: Vec<Lane>,
    want: String,
    /// Of each call, in ns
    times: Vec<u32>,
}

struct Lane {
    connection: Connection,
    request: Request,
    held: Vec<u8>,
    asked: Instant,
}

impl Load {
    fn new(server: &Server, era: Era, connections: usize) -> Outcome<Self> {
        let epoll = Epoll::new()?;
        let mut lanes = Vec::new();
        for at in 0..connections {
            let mut connection = server.connect()?;
            let session = if era == Era::Legacy { connection.initialize()? } else { String::new() };
            let fields = Connection::fields(era, &session, "tools/call", "echo");
            let request = Request::new(era, 100).posted(|len| connection.head("POST", &fields, len));
            connection.stream().set_nonblocking(true)?;
            epoll.add(connection.stream(), at)?;
            lanes.push(Lane { connection, request, held: Vec::new(), asked: Instant::now() });
        }
        Ok(Self { epoll, lanes, want: text(100), times: Vec::new() })
    }

    fn calls(&mut self, n: usize) -> Outcome<()> {
        let (begun, mut asked, mut answered, mut ready) = (Instant::now(), 0, 0, Vec::new());
        let mut piece = vec![0; 64 << 10];
        for lane in self.lanes.iter_mut().take(n) {
            lane.ask()?;
            asked += 1;
        }
        while answered < asked {
            self.epoll.wait(Some(30_000), &mut ready)?;
            if ready.is_empty() {
                return Err(format!("no answer for 30 s, after {answered}").into());
            }
            for number in &ready {
                let lane = &mut self.lanes[*number];
                if !lane.read(&mut piece, &self.want)? {
                    continue;
                }
                self.times.push(u32::try_from(lane.asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
                answered += 1;
                if asked < n && begun.elapsed() < LONGEST {
                    lane.ask()?;
                    asked += 1;
                }
            }
        }
        Ok(())
    }
}

impl Lane {
    fn ask(&mut self) -> io::Result<()> {
        self.asked = Instant::now();
        write_all(self.connection.stream(), self.request.advance())
    }

    /// Whether the answer is there
    fn read(&mut self, piece: &mut [u8], want: &str) -> Outcome<bool> {
        let read = self.connection.stream().read(piece)?;
        if read == 0 {
            return Err("the server closed a connection".into());
        }
        self.held.extend_from_slice(&piece[..read]);
        let Some(reply) = parse(&self.held)? else { return Ok(false) };
        let id = format!("\"id\":{},", self.request.id());
        let last = format!("\"id\":{}}}", self.request.id());
        let has = |what: &str| memmem::find(reply.body, what.as_bytes()).is_some();
        if reply.status != 200 || reply.len != self.held.len() || !(has(&id) || has(&last)) || !has(want) {
            return Err(format!("not the answer: {}", String::from_utf8_lossy(&self.held)).into());
        }
        self.held.clear();
        Ok(true)
    }
}
