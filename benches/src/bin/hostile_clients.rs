//! `bench-hostile [--streams N] [--hostile N] [--rate R] [--seconds S] [--check] -- SERVER…`: latency of honest clients
//! beside crowds.
//!
//! Honest clients make R calls per second (2,000), for S seconds (5) each: alone, then beside N listen streams, then
//! also beside N hostile sockets. A fifth of the calls uses a new connection. Latency counts from the time at which a
//! call was due. A hostile socket sends nothing, one byte per second, half a head, or calls without reading; it is
//! opened again when the server has closed it. Prints one JSON object.
//!
//! `--check` fails if a call failed, a stream ended, or the 99th percentile beside a crowd exceeds three times the one
//! without. `{port}` stands for the port.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use mcp_benches::web::{Connection, Server};
use mcp_benches::wire::{RequestLine, WireEra, modern};
use memchr::memmem;

type BenchResult<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// Threads of honest clients.
const HONEST_THREADS: usize = 8;
/// Of so many calls, one uses a new connection.
const NEW_CONNECTION_EVERY: usize = 5;
/// Largest ratio of the 99th percentiles.
const MAX_RATIO: f64 = 3.0;
/// Below this the percentile without a crowd is noise of the scheduler, in seconds.
const NOISE: f64 = 0.001;

struct Args {
    streams: usize,
    hostile: usize,
    rate: usize,
    seconds: u64,
    checks: bool,
    server: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-hostile: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_args() -> BenchResult<Args> {
    let mut args =
        Args { streams: 0, hostile: 0, rate: 2_000, seconds: 5, checks: false, server: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match &*word {
            "--streams" => args.streams = value()?.parse()?,
            "--hostile" => args.hostile = value()?.parse()?,
            "--rate" => args.rate = value()?.parse()?,
            "--seconds" => args.seconds = value()?.parse()?,
            "--check" => args.checks = true,
            "--" => args.server = words.by_ref().collect(),
            other => return Err(format!("unknown argument: {other}").into()),
        }
    }
    Ok(args)
}

fn run() -> BenchResult<String> {
    let args = parse_args()?;
    raise_descriptor_limit();
    let server = Server::start(&args.server)?;
    let span = Duration::from_secs(args.seconds);
    // Fills caches and pools.
    measure(&server, args.rate, Duration::from_secs(1));
    let alone = measure(&server, args.rate, span);
    let mut figures = format!("{{\"rate\":{},\"alone\":{}", args.rate, alone.to_json());
    let mut faults = alone.faults(None);

    let mut streams = open_streams(&server, args.streams)?;
    if args.streams > 0 {
        let beside = measure(&server, args.rate, span);
        figures += &format!(",\"streams\":{},\"beside_streams\":{}", args.streams, beside.to_json());
        faults.extend(beside.faults(Some(&alone)));
    }
    if args.hostile > 0 {
        let ends = AtomicBool::new(false);
        let closed = AtomicUsize::new(0);
        let beside = thread::scope(|scope| {
            scope.spawn(|| be_hostile(&server, args.hostile, &ends, &closed));
            // All are connected, and some have been closed by now.
            thread::sleep(Duration::from_secs(2));
            let beside = measure(&server, args.rate, span);
            ends.store(true, Ordering::Relaxed);
            beside
        });
        let closed = closed.into_inner();
        figures += &format!(
            ",\"hostile\":{},\"hostile_closed\":{closed},\"beside_hostile\":{}",
            args.hostile,
            beside.to_json()
        );
        faults.extend(beside.faults(Some(&alone)));
    }
    let ended = streams.iter_mut().filter_map(|stream| has_ended(stream).then_some(())).count();
    figures += &format!(",\"streams_ended\":{ended}}}");
    if ended > 0 {
        faults.push(format!("{ended} streams ended"));
    }
    if args.checks && !faults.is_empty() {
        return Err(format!("{}\n{figures}", faults.join("; ")).into());
    }
    Ok(figures)
}

fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            eprintln!("bench-hostile: the limit of descriptors cannot be raised: {error}");
        }
    }
}

/// Latencies of calls in seconds, and the failures.
#[derive(Default)]
struct Latencies {
    seconds: Vec<f64>,
    failed: usize,
    first_failure: Option<String>,
}

impl Latencies {
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.seconds.len() * percent / 100).min(self.seconds.len().saturating_sub(1));
        self.seconds.get(at).copied().unwrap_or(f64::NAN)
    }

    fn to_json(&self) -> String {
        format!(
            "{{\"calls\":{},\"failed\":{},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"most_ms\":{:.3}}}",
            self.seconds.len(),
            self.failed,
            self.percentile(50) * 1e3,
            self.percentile(99) * 1e3,
            self.percentile(100) * 1e3,
        )
    }

    fn faults(&self, alone: Option<&Self>) -> Vec<String> {
        let mut faults = Vec::new();
        if self.failed > 0 {
            faults.push(format!(
                "{} calls failed: {}",
                self.failed,
                self.first_failure.as_deref().unwrap_or_default()
            ));
        }
        let Some(alone) = alone else { return faults };
        let ratio = self.percentile(99) / alone.percentile(99).max(NOISE);
        if ratio.is_nan() || ratio > MAX_RATIO {
            faults.push(format!("the 99th percentile is {ratio:.1} times the one without the crowd"));
        }
        faults
    }
}

/// Makes `rate` calls per second for `span`.
fn measure(server: &Server, rate: usize, span: Duration) -> Latencies {
    let interval = Duration::from_secs_f64(HONEST_THREADS as f64 / rate as f64);
    let mut all = Latencies::default();
    thread::scope(|scope| {
        let begun = Instant::now();
        let clients: Vec<_> = (0..HONEST_THREADS)
            .map(|n| {
                let first = begun + interval * n as u32 / HONEST_THREADS as u32;
                scope.spawn(move || be_honest(server, first, interval, span))
            })
            .collect();
        for client in clients {
            let latencies = client.join().expect("no panic");
            all.seconds.extend(latencies.seconds);
            all.failed += latencies.failed;
            all.first_failure = all.first_failure.take().or(latencies.first_failure);
        }
    });
    all.seconds.sort_by(f64::total_cmp);
    all
}

fn be_honest(server: &Server, first: Instant, interval: Duration, span: Duration) -> Latencies {
    let mut latencies = Latencies::default();
    let mut kept: Option<Connection> = None;
    for n in 0.. {
        let due = first + interval * n;
        if due >= first + span {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if n as usize % NEW_CONNECTION_EVERY == 0 {
            kept = None;
        }
        // The server may have closed a kept connection in order.
        let outcome = match &mut kept {
            Some(connection) => call(connection).or_else(|_| {
                kept = None;
                call_anew(server, &mut kept)
            }),
            None => call_anew(server, &mut kept),
        };
        match outcome {
            Ok(()) => latencies.seconds.push(due.elapsed().as_secs_f64()),
            Err(error) => {
                kept = None;
                latencies.failed += 1;
                latencies.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
    latencies
}

fn call_anew(server: &Server, kept: &mut Option<Connection>) -> BenchResult<()> {
    call(kept.insert(server.connect()?))
}

/// Returns a call of `echo`.
fn request(connection: &Connection) -> RequestLine {
    let fields = Connection::request_fields(WireEra::Modern, "", "tools/call", "echo");
    RequestLine::new(WireEra::Modern, 100).into_post(|len| connection.head("POST", &fields, len))
}

fn call(connection: &mut Connection) -> BenchResult<()> {
    let request = request(connection);
    let status = connection.exchange(request.line())?.status;
    if status == 200 { Ok(()) } else { Err(format!("status {status}").into()) }
}

fn open_streams(server: &Server, n: usize) -> BenchResult<Vec<Connection>> {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{{\
         \"notifications\":{{\"toolsListChanged\":true}},{}}}}}",
        modern()
    );
    let open = |_| {
        let mut connection = server.connect()?;
        let fields = Connection::request_fields(WireEra::Modern, "", "subscriptions/listen", "");
        connection.write(&connection.post(&fields, body.as_bytes()))?;
        connection.read_until(|read| memmem::find(read, b"acknowledged").is_some())?;
        connection.stream().set_nonblocking(true)?;
        Ok(connection)
    };
    (0..n).map(open).collect()
}

/// Returns whether the server has closed or ended a stream. Keep-alive comments are read.
fn has_ended(stream: &mut Connection) -> bool {
    let mut piece = [0; 4096];
    loop {
        match stream.stream().read(&mut piece) {
            Ok(0) => return true,
            Ok(n) if memmem::find(&piece[..n], b"\r\n0\r\n\r\n").is_some() => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// A socket that stays connected as long as it can.
struct HostileSocket {
    connection: Connection,
    kind: usize,
    /// Number of bytes of the request that were sent.
    sent: usize,
}

impl HostileSocket {
    fn open(server: &Server, kind: usize) -> Option<Self> {
        let connection = server.connect().ok()?;
        connection.stream().set_nonblocking(true).ok()?;
        let mut socket = Self { connection, kind, sent: 0 };
        let request = request(&socket.connection).line().to_vec();
        let begin = match kind % 5 {
            0 => 0,
            1 => 1,
            2 => 100,
            // One byte per second of a body.
            3 => request.len() - 60,
            _ => request.len(),
        };
        socket.send(&request, begin)?;
        Some(socket)
    }

    fn send(&mut self, request: &[u8], until: usize) -> Option<()> {
        let rest = request.get(self.sent..until.min(request.len())).unwrap_or_default();
        match self.connection.stream().write(rest) {
            Ok(n) => self.sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        Some(())
    }

    /// Sends its next byte; `None` if the server has closed it.
    fn go_on(&mut self) -> Option<()> {
        let mut piece = [0; 1];
        let request = request(&self.connection).line().to_vec();
        match self.kind % 5 {
            1 | 3 => self.send(&request, self.sent + 1)?,
            // Calls again without reading.
            4 => {
                self.sent = 0;
                self.send(&request, request.len())?;
                return Some(());
            }
            _ => {}
        }
        match self.connection.stream().peek(&mut piece) {
            Ok(0) => None,
            Err(error) if error.kind() != ErrorKind::WouldBlock => None,
            _ => Some(()),
        }
    }
}

/// Keeps `n` hostile sockets open until `ends`; counts those that the server closed.
fn be_hostile(server: &Server, n: usize, ends: &AtomicBool, closed: &AtomicUsize) {
    let mut sockets: Vec<Option<HostileSocket>> =
        (0..n).map(|kind| HostileSocket::open(server, kind)).collect();
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
        for (kind, socket) in sockets.iter_mut().enumerate() {
            if socket.as_mut().is_none_or(|socket| socket.go_on().is_none()) {
                closed.fetch_add(1, Ordering::Relaxed);
                *socket = HostileSocket::open(server, kind);
            }
        }
    }
}
