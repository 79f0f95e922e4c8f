//! `bench-drive WHAT … -- SERVER…`: calls a server process over pipes and measures its cost.
//!
//! - `calls ERA WINDOW N`: N calls of `echo` with WINDOW in flight; CPU time per call, and latency (WINDOW 1)
//! - `large ERA N`: N echoes of 10,000,000 bytes; CPU time of each, growth of the peak of the resident memory
//! - `start ERA N`: N starts; wall time until the first reply
//!
//! Every reply is checked. The figures come from `/proc`, so this works on Linux only. Prints one JSON object.

use core::error::Error;
use core::time::Duration;
use std::io::Write;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use mcp_benches::lines::LineBuffer;
use mcp_benches::process;
use mcp_benches::process::quantile;
use mcp_benches::wire::{FIRST_ID, INITIALIZE, INITIALIZED, RequestLine, WireEra, text};
use memchr::memmem;

type BenchResult<T> = Result<T, Box<dyn Error>>;

/// Number of calls before the measured ones.
const WARM_UP: u32 = 500;

/// Bytes of text in a large call.
const LARGE: usize = 10_000_000;

fn main() -> ExitCode {
    match run() {
        Ok(figures) => {
            println!("{{{figures}}}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("bench-drive: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> BenchResult<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cut = args.iter().position(|a| a == "--").ok_or("no `-- SERVER` given")?;
    let (ask, server) = (&args[..cut], &args[cut + 1..]);
    let number = |at: usize| -> BenchResult<u32> { Ok(ask.get(at).ok_or("a number is missing")?.parse()?) };
    let era = ask.get(1).and_then(|name| WireEra::BOTH.into_iter().find(|e| e.name() == name));
    let era = era.ok_or("the era is `legacy` or `modern`")?;
    match ask[0].as_str() {
        "calls" => calls(server, era, number(2)?, number(3)?),
        "large" => large(server, era, number(2)?),
        "start" => start(server, era, number(2)?),
        other => Err(format!("unknown: {other}").into()),
    }
}

/// Measures the CPU time of many small calls.
fn calls(server: &[String], era: WireEra, window: u32, n: u32) -> BenchResult<String> {
    let mut server = StdioServer::spawn(server, era)?;
    let mut request = RequestLine::new(era, 100);
    server.call(&mut request, window, WARM_UP)?;
    server.times.clear();
    let (cpu, switches, start) =
        (process::cpu_time(server.pid()), process::context_switches(server.pid()), Instant::now());
    server.call(&mut request, window, n)?;
    let wall = start.elapsed();
    let cpu = process::cpu_time(server.pid()) - cpu;
    let switches = process::context_switches(server.pid()) - switches;
    let (rss, each) = (process::memory(server.pid(), "VmRSS:"), f64::from(n));
    let mut times = core::mem::take(&mut server.times);
    times.sort_unstable();
    let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
    server.end()?;
    Ok(format!(
        "\"cpu_us\":{:.4},\"wall_us\":{:.4},\"switches\":{:.3},\"rss_kb\":{rss},\
         \"p50_us\":{p50:.2},\"p99_us\":{p99:.2}",
        cpu as f64 / each / 1e3,
        wall.as_secs_f64() * 1e6 / each,
        switches as f64 / each,
    ))
}

/// Measures the CPU time and memory of calls with large texts.
fn large(server: &[String], era: WireEra, n: u32) -> BenchResult<String> {
    let mut server = StdioServer::spawn(server, era)?;
    server.call(&mut RequestLine::new(era, 100), 1, 10)?;
    let mut request = RequestLine::new(era, LARGE);
    let expected = text(LARGE);
    let (before, mut least) = (process::memory(server.pid(), "VmRSS:"), u64::MAX);
    for _ in 0..n {
        let cpu = process::cpu_time(server.pid());
        server.call_large(&mut request, expected.as_bytes())?;
        least = least.min(process::cpu_time(server.pid()) - cpu);
    }
    let (peak, after) = (process::memory(server.pid(), "VmHWM:"), process::memory(server.pid(), "VmRSS:"));
    server.end()?;
    Ok(format!(
        "\"cpu_ms\":{:.3},\"peak_over_payload\":{:.3},\"rss_before_kb\":{before},\"peak_kb\":{peak},\
         \"rss_after_kb\":{after}",
        least as f64 / 1e6,
        (peak - before) as f64 * 1024.0 / LARGE as f64,
    ))
}

/// Measures the wall time from the start of the process to its first reply.
fn start(server: &[String], era: WireEra, n: u32) -> BenchResult<String> {
    let mut least = f64::MAX;
    for _ in 0..n {
        let begin = Instant::now();
        let mut server = StdioServer::spawn(server, era)?;
        server.call(&mut RequestLine::new(era, 100), 1, 1)?;
        least = least.min(begin.elapsed().as_secs_f64() * 1e3);
        server.end()?;
    }
    Ok(format!("\"wall_ms\":{least:.3}"))
}

/// A server process with its pipes.
struct StdioServer {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    lines: LineBuffer,
    /// Duration in ns of each call that was alone in flight.
    times: Vec<u32>,
}

impl StdioServer {
    fn spawn(command: &[String], era: WireEra) -> BenchResult<Self> {
        let [program, args @ ..] = command else { return Err("no server given".into()) };
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut server = Self { child, input, output, lines: LineBuffer::new(256 << 10), times: Vec::new() };
        if era == WireEra::Legacy {
            server.input.write_all(&[INITIALIZE, b"\n"].concat())?;
            server.reply(|line| memmem::find(line, b"\"result\"").is_some())?;
            server.input.write_all(&[INITIALIZED, b"\n"].concat())?;
        }
        Ok(server)
    }

    /// Makes `n` calls with `window` in flight.
    fn call(&mut self, request: &mut RequestLine, window: u32, n: u32) -> BenchResult<()> {
        let expected = text(100);
        let mut open = vec![false; FIRST_ID as usize * 9];
        let (mut sent_count, mut answered) = (0, 0);
        let mut out = Vec::new();
        while answered < n {
            out.clear();
            while sent_count < n && sent_count - answered < window {
                out.extend_from_slice(request.advance());
                open[(request.id() - FIRST_ID) as usize] = true;
                sent_count += 1;
            }
            let begun = Instant::now();
            self.input.write_all(&out)?;
            if !self.lines.fill(&mut self.output)? {
                return Err("the server ended its output".into());
            }
            while let Some(line) = self.lines.take() {
                let line = self.lines.get(line);
                let open = id(line).and_then(|id| open.get_mut(id.checked_sub(FIRST_ID)? as usize));
                if !open.is_some_and(core::mem::take) || memmem::find(line, expected.as_bytes()).is_none() {
                    return Err(format!("unexpected reply: {}", String::from_utf8_lossy(line)).into());
                }
                answered += 1;
            }
            if window == 1 {
                self.times.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    /// Makes one call. It reads while it writes, so that neither side blocks the other.
    fn call_large(&mut self, request: &mut RequestLine, expected: &[u8]) -> BenchResult<()> {
        let line = request.advance();
        let input = &mut self.input;
        let (lines, output) = (&mut self.lines, &mut self.output);
        let found = thread::scope(|scope| {
            let writer = scope.spawn(|| input.write_all(line));
            let found = loop {
                if let Some(reply) = lines.take() {
                    break Ok(memmem::find(lines.get(reply), expected).is_some());
                }
                match lines.fill(output) {
                    Ok(true) => {}
                    Ok(false) => break Err("the server ended its output".into()),
                    Err(e) => break Err(e.to_string()),
                }
            };
            match writer.join() {
                Ok(Ok(())) => found,
                Ok(Err(e)) => Err(e.to_string()),
                Err(_) => Err("the writer panicked".into()),
            }
        })?;
        if found { Ok(()) } else { Err("the reply does not contain the text".into()) }
    }

    fn reply(&mut self, accept: impl Fn(&[u8]) -> bool) -> BenchResult<()> {
        loop {
            if let Some(line) = self.lines.take() {
                let line = self.lines.get(line);
                if accept(line) {
                    return Ok(());
                }
                return Err(format!("unexpected reply: {}", String::from_utf8_lossy(line)).into());
            }
            if !self.lines.fill(&mut self.output)? {
                return Err("the server ended its output".into());
            }
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the input and waits for the exit; kills the process if it does not exit.
    fn end(mut self) -> BenchResult<()> {
        drop(self.input);
        for _ in 0..500 {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(format!("the server exited with {status}").into())
                };
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.child.kill()?;
        self.child.wait()?;
        Err("the server did not exit at the end of its input".into())
    }
}

/// Returns the number after `"id":`.
fn id(line: &[u8]) -> Option<u32> {
    const KEY: &[u8] = b"\"id\":";
    let at = memmem::find(line, KEY)? + KEY.len();
    let mut digits = line.get(at..)?.iter().take_while(|b| b.is_ascii_digit());
    digits.try_fold(0u32, |n, b| n.checked_mul(10)?.checked_add(u32::from(b - b'0')))
}
