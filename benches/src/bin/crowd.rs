//! `bench-crowd WHAT N -- SERVER…`: holds N of something open at a server process, and says what each costs the server.
//!
//! WHAT is `idle` (connections on which one call was made), `session` (legacy sessions, no connection of their own), `get`
//! (legacy sessions, each with its GET stream) or `listen` (modern streams of news about the list of tools). Streams are
//! then told of a change, which the tool `change` publishes: how long until all of them know. `{port}` in the command
//! stands for the port where it is to listen. Prints one JSON object.

use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use mcp_benches::epoll::Epoll;
use mcp_benches::process;
use mcp_benches::web::{Connection, Server};
use mcp_benches::wire::{Era, Request, modern};
use memchr::memmem;

type Outcome<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// So many are open before memory is looked at for the first time
const WARM_UP: usize = 50;

/// How often a change is published
const CHANGES: usize = 7;

/// After so long buffers that nobody needs are given back
const CALM: Duration = Duration::from_millis(2_500);

/// Descriptors that either process needs besides
const SPARE: usize = 200;

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
enum What {
    Idle,
    Session,
    Get,
    Listen,
}

impl What {
    const fn era(self) -> Era {
        match self {
            Self::Idle | Self::Listen => Era::Modern,
            Self::Session | Self::Get => Era::Legacy,
        }
    }

    const fn streams(self) -> bool {
        matches!(self, Self::Get | Self::Listen)
    }
}

fn run() -> Outcome<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, n, dashes, command @ ..] = &args[..] else { return Err("WHAT N -- SERVER…".into()) };
    let what = match &**what {
        "idle" => What::Idle,
        "session" => What::Session,
        "get" => What::Get,
        "listen" => What::Listen,
        other => return Err(format!("unknown: {other}").into()),
    };
    if dashes != "--" {
        return Err("no `-- SERVER` given".into());
    }
    let n = room(n.parse()?, what);
    let server = Server::start(command)?;
    let mut crowd =
        Crowd { lobby: server.connect()?, epoll: Epoll::new()?, held: Vec::new(), news: Vec::new() };
    crowd.open(&server, what, WARM_UP)?;
    thread::sleep(CALM);
    let (before, cpu) = (process::memory(server.pid(), "VmRSS:"), process::cpu(server.pid()));
    crowd.open(&server, what, n)?;
    let opened = process::cpu(server.pid()) - cpu;
    thread::sleep(CALM);
    let after = process::memory(server.pid(), "VmRSS:");
    let mut figures = format!(
        "\"n\":{n},\"rss_before_kb\":{before},\"rss_after_kb\":{after},\"bytes_each\":{:.1},\"open_cpu_us\":{:.3}",
        after.saturating_sub(before) as f64 * 1024.0 / n as f64,
        opened as f64 / n as f64 / 1e3,
    );
    if what.streams() {
        let mut walls = Vec::new();
        let mut cpus = Vec::new();
        for _ in 0..CHANGES {
            let (wall, cpu) = crowd.change(&server)?;
            walls.push(wall);
            cpus.push(cpu);
        }
        walls.sort_by(f64::total_cmp);
        cpus.sort_by(f64::total_cmp);
        let all = crowd.held.len();
        figures += &format!(
            ",\"told\":{all},\"told_ms\":{:.2},\"told_least_ms\":{:.2},\"told_cpu_us\":{:.4}",
            walls[CHANGES / 2],
            walls[0],
            cpus[0] / all as f64,
        );
    }
    Ok(figures)
}

/// How many of `n` there is room for, once this process, and those that it starts, may have as many descriptors as it goes
fn room(n: usize, what: What) -> usize {
    #[cfg(unix)]
    if what != What::Session {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            eprintln!("bench-crowd: the limit of descriptors cannot be raised: {error}");
        }
        let most = getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let most = most.saturating_sub(SPARE + WARM_UP);
        if most < n {
            eprintln!(
                "bench-crowd: NOT {n}: ulimit -n leaves room for {most} only, in each of the two processes"
            );
            return most;
        }
    }
    let _ = what;
    n
}

struct Crowd {
    /// For what is no stream
    lobby: Connection,
    epoll: Epoll,
    held: Vec<Connection>,
    /// How often each was told of a change
    news: Vec<usize>,
}

impl Crowd {
    fn open(&mut self, server: &Server, what: What, n: usize) -> Outcome<()> {
        for _ in 0..n {
            let session = if what.era() == Era::Legacy { self.lobby.initialize()? } else { String::new() };
            if what == What::Session {
                continue;
            }
            let mut connection = server.connect()?;
            match what {
                What::Idle => call(&mut connection)?,
                What::Get => {
                    let fields = Connection::fields(Era::Legacy, &session, "", "");
                    connection.write(&connection.head("GET", &fields, 0))?;
                    connection
                        .read_until(|come| opened(come) && memmem::find(come, b"\r\n\r\n").is_some())?;
                }
                What::Listen => {
                    let fields = Connection::fields(Era::Modern, "", "subscriptions/listen", "");
                    let body = format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{{\
                         \"notifications\":{{\"toolsListChanged\":true}},{}}}}}",
                        modern()
                    );
                    connection.write(&connection.post(&fields, body.as_bytes()))?;
                    connection
                        .read_until(|come| opened(come) && memmem::find(come, b"acknowledged").is_some())?;
                }
                What::Session => {}
            }
            if what.streams() {
                connection.stream().set_nonblocking(true)?;
                self.epoll.add(connection.stream(), self.held.len())?;
            }
            self.held.push(connection);
            self.news.push(0);
        }
        Ok(())
    }

    /// Has a change published: ms until all streams know of it, and µs of CPU time that it took the server
    fn change(&mut self, server: &Server) -> Outcome<(f64, f64)> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"name\":\"change\",\"arguments\":{{}},{}}}}}",
            modern()
        );
        let fields = Connection::fields(Era::Modern, "", "tools/call", "change");
        let request = self.lobby.post(&fields, body.as_bytes());
        let want = self.news.iter().max().map_or(1, |most| most + 1);
        let (mut left, mut ready, mut piece) = (self.held.len(), Vec::new(), vec![0; 16 << 10]);
        let mut lobby = self.lobby.stream().try_clone()?;
        let (cpu, begun) = (process::cpu(server.pid()), Instant::now());
        lobby.write_all(&request)?;
        while left > 0 {
            self.epoll.wait(Some(30_000), &mut ready)?;
            if ready.is_empty() {
                return Err(format!("{left} streams were told nothing within 30 s").into());
            }
            for at in &ready {
                let read = match self.held[*at].stream().read(&mut piece) {
                    Ok(0) => return Err("the server ended a stream".into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    read => read?,
                };
                let told = memmem::find_iter(&piece[..read], b"list_changed").count();
                let known = self.news[*at];
                self.news[*at] += told;
                left -= usize::from(told > 0 && known < want && known + told >= want);
            }
        }
        let wall = begun.elapsed().as_secs_f64() * 1e3;
        self.lobby.read_until(|come| memmem::find(come, b"\"id\":7").is_some())?;
        // What the server has to tidy up belongs to it.
        thread::sleep(Duration::from_millis(300));
        Ok((wall, (process::cpu(server.pid()) - cpu) as f64 / 1e3))
    }
}

fn opened(come: &[u8]) -> bool {
    come.starts_with(b"HTTP/1.1 200")
}

/// One call of `echo`
fn call(connection: &mut Connection) -> Outcome<()> {
    let fields = Connection::fields(Era::Modern, "", "tools/call", "echo");
    let request = Request::new(Era::Modern, 100).posted(|len| connection.head("POST", &fields, len));
    let status = connection.exchange(request.line())?.status;
    if status == 200 { Ok(()) } else { Err(format!("status {status}").into()) }
}
