//! `bench-crowd WHAT N [SECONDS] -- SERVER…`: holds N objects open at a server process and measures the cost of each.
//!
//! WHAT is `idle` (connections after one call), `session` (legacy sessions without a connection), `get` (legacy
//! sessions, each with its GET stream) or `listen` (modern listen streams for the list of tools). Then the tool
//! `change` publishes a change, and the time is measured until every stream has it. With SECONDS, the CPU time of the server
//! is measured for as long while nothing happens. `{port}` in the command stands for the port of the server. Prints one JSON
//! object.

use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use mcp_benches::epoll::Epoll;
use mcp_benches::process;
use mcp_benches::web::{Connection, Server};
use mcp_benches::wire::{RequestLine, WireEra, modern};
use memchr::memmem;

type BenchResult<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// Number of open objects at the first measurement of memory.
const WARM_UP: usize = 50;

/// Number of connections from one address.
const PER_ADDRESS: usize = 10_000;

/// Number of published changes.
const CHANGES: usize = 7;

/// Time after which unused buffers are released.
const SETTLE_PERIOD: Duration = Duration::from_millis(2_500);

/// Descriptors that either process needs for other purposes.
const SPARE_DESCRIPTORS: usize = 200;

fn main() -> ExitCode {
    match run() {
        Ok(figures) => {
            println!("{{{figures}}}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bench-crowd: {e}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConnectionKind {
    Idle,
    Session,
    Get,
    Listen,
}

impl ConnectionKind {
    const fn era(self) -> WireEra {
        match self {
            Self::Idle | Self::Listen => WireEra::Modern,
            Self::Session | Self::Get => WireEra::Legacy,
        }
    }

    const fn has_stream(self) -> bool {
        matches!(self, Self::Get | Self::Listen)
    }
}

fn run() -> BenchResult<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cut = args.iter().position(|arg| arg == "--").ok_or("no `-- SERVER` given")?;
    let (ask, command) = (&args[..cut], &args[cut + 1..]);
    let [what, n, idle @ ..] = ask else { return Err("WHAT N [SECONDS] -- SERVER…".into()) };
    let what = match &**what {
        "idle" => ConnectionKind::Idle,
        "session" => ConnectionKind::Session,
        "get" => ConnectionKind::Get,
        "listen" => ConnectionKind::Listen,
        other => return Err(format!("unknown: {other}").into()),
    };
    let idle: Option<u64> = idle.first().map(|seconds| seconds.parse()).transpose()?;
    let n = descriptor_capacity(n.parse()?, what);
    let server = Server::start(command)?;
    let mut crowd = ConnectionSet {
        control: server.connect()?,
        epoll: Epoll::new()?,
        connections: Vec::new(),
        change_counts: Vec::new(),
    };
    crowd.open(&server, what, WARM_UP)?;
    thread::sleep(SETTLE_PERIOD);
    let (before, cpu) = (process::memory(server.pid(), "VmRSS:"), process::cpu_time(server.pid()));
    crowd.open(&server, what, n)?;
    let opened = process::cpu_time(server.pid()) - cpu;
    thread::sleep(SETTLE_PERIOD);
    let after = process::memory(server.pid(), "VmRSS:");
    let mut figures = format!(
        "\"n\":{n},\"rss_before_kb\":{before},\"rss_after_kb\":{after},\"bytes_each\":{:.1},\"open_cpu_us\":{:.3}",
        after.saturating_sub(before) as f64 * 1024.0 / n as f64,
        opened as f64 / n as f64 / 1e3,
    );
    if let Some(seconds) = idle {
        let (cpu, switches) = (process::cpu_time(server.pid()), process::context_switches(server.pid()));
        thread::sleep(Duration::from_secs(seconds));
        figures += &format!(
            ",\"idle_cpu_ms_per_s\":{:.4},\"idle_switches\":{}",
            (process::cpu_time(server.pid()) - cpu) as f64 / 1e6 / seconds as f64,
            process::context_switches(server.pid()) - switches,
        );
    }
    if what.has_stream() {
        let mut walls = Vec::new();
        let mut cpus = Vec::new();
        for _ in 0..CHANGES {
            let (wall, cpu) = crowd.change(&server)?;
            walls.push(wall);
            cpus.push(cpu);
        }
        walls.sort_by(f64::total_cmp);
        cpus.sort_by(f64::total_cmp);
        let all = crowd.connections.len();
        figures += &format!(
            ",\"told\":{all},\"told_ms\":{:.2},\"told_least_ms\":{:.2},\"told_cpu_us\":{:.4}",
            walls[CHANGES / 2],
            walls[0],
            cpus[0] / all as f64,
        );
    }
    Ok(figures)
}

/// Raises the limit of descriptors of this process and its children as far as possible, and returns how many of `n`
/// objects fit.
fn descriptor_capacity(n: usize, what: ConnectionKind) -> usize {
    #[cfg(unix)]
    if what != ConnectionKind::Session {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            eprintln!("bench-crowd: the limit of descriptors cannot be raised: {error}");
        }
        let max = getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let max = max.saturating_sub(SPARE_DESCRIPTORS + WARM_UP);
        if max < n {
            eprintln!("bench-crowd: NOT {n}: `ulimit -n` allows only {max} in each of the two processes");
            return max;
        }
    }
    let _ = what;
    n
}

struct ConnectionSet {
    /// Connection for requests outside the streams.
    control: Connection,
    epoll: Epoll,
    connections: Vec<Connection>,
    /// Number of changes received on each stream.
    change_counts: Vec<usize>,
}

impl ConnectionSet {
    fn open(&mut self, server: &Server, what: ConnectionKind, n: usize) -> BenchResult<()> {
        for _ in 0..n {
            let session =
                if what.era() == WireEra::Legacy { self.control.initialize()? } else { String::new() };
            if what == ConnectionKind::Session {
                continue;
            }
            let mut connection =
                server.connect_from(u8::try_from(self.connections.len() / PER_ADDRESS + 1)?)?;
            match what {
                ConnectionKind::Idle => call(&mut connection)?,
                ConnectionKind::Get => {
                    let fields = Connection::request_fields(WireEra::Legacy, &session, "", "");
                    connection.write(&connection.head("GET", &fields, 0))?;
                    connection.read_until(|come| {
                        is_stream_open(come) && memmem::find(come, b"\r\n\r\n").is_some()
                    })?;
                }
                ConnectionKind::Listen => {
                    let fields = Connection::request_fields(WireEra::Modern, "", "subscriptions/listen", "");
                    let body = format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{{\
                         \"notifications\":{{\"toolsListChanged\":true}},{}}}}}",
                        modern()
                    );
                    connection.write(&connection.post(&fields, body.as_bytes()))?;
                    connection.read_until(|come| {
                        is_stream_open(come) && memmem::find(come, b"acknowledged").is_some()
                    })?;
                }
                ConnectionKind::Session => {}
            }
            if what.has_stream() {
                connection.stream().set_nonblocking(true)?;
                self.epoll.add(connection.stream(), self.connections.len())?;
            }
            self.connections.push(connection);
            self.change_counts.push(0);
        }
        Ok(())
    }

    /// Publishes a change; returns the ms until all streams have it, and the CPU time of the server in µs.
    fn change(&mut self, server: &Server) -> BenchResult<(f64, f64)> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"name\":\"change\",\"arguments\":{{}},{}}}}}",
            modern()
        );
        let fields = Connection::request_fields(WireEra::Modern, "", "tools/call", "change");
        let request = self.control.post(&fields, body.as_bytes());
        let expected = self.change_counts.iter().max().map_or(1, |max| max + 1);
        let (mut left, mut ready, mut piece) = (self.connections.len(), Vec::new(), vec![0; 16 << 10]);
        let mut lobby = self.control.stream().try_clone()?;
        let (cpu, begun) = (process::cpu_time(server.pid()), Instant::now());
        lobby.write_all(&request)?;
        while left > 0 {
            self.epoll.wait(Some(30_000), &mut ready)?;
            if ready.is_empty() {
                return Err(format!("{left} streams got no notification within 30 s").into());
            }
            for at in &ready {
                let read = match self.connections[*at].stream().read(&mut piece) {
                    Ok(0) => return Err("the server ended a stream".into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    read => read?,
                };
                let count = memmem::find_iter(&piece[..read], b"list_changed").count();
                let known = self.change_counts[*at];
                self.change_counts[*at] += count;
                left -= usize::from(count > 0 && known < expected && known + count >= expected);
            }
        }
        let wall = begun.elapsed().as_secs_f64() * 1e3;
        self.control.read_until(|come| memmem::find(come, b"\"id\":7").is_some())?;
        // The work of the server after the last notification counts too.
        thread::sleep(Duration::from_millis(300));
        Ok((wall, (process::cpu_time(server.pid()) - cpu) as f64 / 1e3))
    }
}

fn is_stream_open(come: &[u8]) -> bool {
    come.starts_with(b"HTTP/1.1 200")
}

/// Makes one call of `echo`.
fn call(connection: &mut Connection) -> BenchResult<()> {
    let fields = Connection::request_fields(WireEra::Modern, "", "tools/call", "echo");
    let request =
        RequestLine::new(WireEra::Modern, 100).into_post(|len| connection.head("POST", &fields, len));
    let status = connection.exchange(request.line())?.status;
    if status == 200 { Ok(()) } else { Err(format!("status {status}").into()) }
}
