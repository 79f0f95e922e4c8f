//! Runs the tour with each fault, in worker processes, and checks what it leaves behind.
//!
//! ```text
//! torture-blocking [--percent P] [--seed S] [FAULT [N]]
//! ```

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use core::time::Duration;
use std::alloc::System;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::faults::{self, Class, Effect, FAULTS, Fault, exempt};
use crate::tour::{self, BEGUN, ENDED, Failed, Failure};

/// A step that takes longer hangs: each of its calls has a timeout of 8 s.
const HANG: Duration = Duration::from_secs(25);
/// Bytes that a tour may leave in caches of the runtime.
const MEMORY_SLACK: isize = 64 << 10;

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the blocks are those of the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    children: usize,
    bytes: isize,
}

impl Held {
    fn now() -> Self {
        let entries = |path: &str| std::fs::read_dir(path).map_or(0, Iterator::count);
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            children: children.map(|all| all.split_whitespace().count()).sum(),
            bytes: LIVE.load(SeqCst),
        }
    }

    fn is_within(&self, other: &Self) -> bool {
        self.descriptors <= other.descriptors
            && self.threads <= other.threads
            && self.children <= other.children
            && self.bytes <= other.bytes + MEMORY_SLACK
    }
}

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["as-server"] => {
            std::panic::set_hook(Box::new(|_| {}));
            ExitCode::from(u8::from(tour::serve().is_err()))
        }
        ["worker", fault] => {
            work(fault.parse().ok());
            ExitCode::SUCCESS
        }
        _ => supervise(&arguments),
    }
}

/// The step that the tour is in.
struct Progress(Mutex<(String, Instant)>);

static PROGRESS: Mutex<Option<Progress>> = Mutex::new(None);

fn enter(step: &str) {
    exempt(|| {
        if let Some(progress) = &*PROGRESS.lock().expect("no panic") {
            *progress.0.lock().expect("no panic") = (step.to_owned(), Instant::now());
        }
    });
}

fn say(line: &str) {
    exempt(|| {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    });
}

/// Runs the tour once for each number on stdin, with a clean one after it, and reports on stdout.
fn work(fault: Option<usize>) {
    faults::exempt(|| {
        *PROGRESS.lock().expect("no panic") = Some(Progress(Mutex::new((String::new(), Instant::now()))));
        std::panic::set_hook(Box::new(|_| {}));
        thread::spawn(|| {
            exempt(|| {
                loop {
                    thread::sleep(Duration::from_millis(200));
                    let step = PROGRESS.lock().expect("no panic").as_ref().and_then(|progress| {
                        let progress = progress.0.lock().expect("no panic");
                        (!progress.0.is_empty() && progress.1.elapsed() > HANG).then(|| progress.0.clone())
                    });
                    if let Some(step) = step {
                        say(&format!("bad: hangs in \"{step}\""));
                        std::process::exit(3);
                    }
                }
            });
        });
    });
    let folder = std::env::temp_dir().join(format!("mcp-torture-{}", std::process::id()));
    let clean = |when: &str| {
        let (steps, failed) = tour::tour(&folder, &|step| enter(&format!("{when}, {step}")));
        for Failed { step, failure } in &failed {
            say(&format!("bad: {when}, {step}: {failure:?}"));
        }
        steps
    };
    // Twice before the baseline: what is made at the first use stays.
    clean("first tour");
    clean("second tour");
    settle(None);
    let held = exempt(Held::now);
    faults::arm(None);
    let steps = clean("counted tour");
    faults::disarm();
    let counts: Vec<String> =
        FAULTS.iter().map(|fault| format!("{}", faults::count(fault.class))).collect();
    say(&format!("counts {steps} {}", counts.join(" ")));
    let Some(index) = fault else { return };
    for line in exempt(|| std::io::stdin().lines()).map_while(Result::ok) {
        let Ok(nth) = line.parse() else { break };
        let begun = (BEGUN.load(SeqCst), ENDED.load(SeqCst));
        faults::arm(Some((index, nth)));
        let (_, failed) = tour::tour(&folder, &enter);
        let is_fired = faults::disarm();
        enter("");
        judge(&FAULTS[index], is_fired, &failed);
        clean("tour after it");
        enter("");
        settle(Some(&held));
        let handlers = (BEGUN.load(SeqCst) - begun.0, ENDED.load(SeqCst) - begun.1);
        if handlers.0 != handlers.1 {
            say(&format!("bad: {} handlers begun, {} ended", handlers.0, handlers.1));
        }
        let left = exempt(Held::now);
        if !left.is_within(&held) {
            say(&format!("bad: {left:?} left of {held:?}"));
        }
        say(&format!("done {nth} {}", u8::from(is_fired)));
        if !left.is_within(&held) {
            break;
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Waits until no more is held than `held`, as what ends in the background does.
fn settle(held: Option<&Held>) {
    exempt(|| {
        let begun = Instant::now();
        let is_settled = || {
            held.map_or(begun.elapsed() > Duration::from_millis(500), |held| Held::now().is_within(held))
                && BEGUN.load(SeqCst) == ENDED.load(SeqCst)
        };
        while begun.elapsed() < Duration::from_secs(5) && !is_settled() {
            thread::sleep(Duration::from_millis(2));
        }
    });
}

/// Reports steps whose outcome does not fit the fault.
fn judge(fault: &Fault, is_fired: bool, failed: &[Failed]) {
    for Failed { step, failure } in failed {
        match failure {
            Failure::Wrong(what) => say(&format!("bad: {step}: {what}")),
            Failure::Error(text) if fault.is_invisible || !is_fired => {
                say(&format!("bad: {step} fails: {text}"));
            }
            Failure::Error(text) if fault.class != Class::Clock && text.contains("in time") => {
                say(&format!("bad: {step} only ends by its timeout: {text}"));
            }
            Failure::Error(text) => say(&format!("text {step}: {text}")),
        }
    }
    let Effect::Error(errno) = fault.effect else { return };
    let words = std::io::Error::from_raw_os_error(errno).to_string();
    let words = words.split(" (os").next().unwrap_or_default().to_owned();
    let is_named = |failed: &Failed| match &failed.failure {
        Failure::Error(text) if faults::is_at_server() => text.contains("closed the connection") || text.contains(&words),
        Failure::Error(text) => text.contains(&words),
        Failure::Wrong(_) => false,
    };
    if !failed.is_empty() && !failed.iter().any(is_named) {
        say(&format!("unnamed: {}: {:?}", failed[0].step, failed[0].failure));
    }
}

/// A worker process.
struct Worker {
    process: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Worker {
    fn start(fault: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["worker", fault]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a worker");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { process, lines }
    }

    /// Reads lines until one begins with `end`. Returns it, and the others.
    fn read(&mut self, end: &str) -> (Option<String>, Vec<String>) {
        let mut others = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.starts_with(end) {
                return (Some(line), others);
            }
            others.push(line);
        }
        (None, others)
    }
}

fn supervise(arguments: &[String]) -> ExitCode {
    let option = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)?.parse::<u64>().ok()
    };
    let (percent, seed) = (option("--percent").unwrap_or(100), option("--seed").unwrap_or(1));
    let is_verbose = arguments.iter().any(|argument| argument == "--verbose");
    let named: Vec<&String> = {
        let values = arguments.iter().enumerate().filter(|(place, argument)| {
            !argument.starts_with("--")
                && !matches!(place.checked_sub(1).map(|p| &*arguments[p]), Some("--percent" | "--seed"))
        });
        values.map(|(_, argument)| argument).collect()
    };
    let (mut worker, mut bad) = (Worker::start("none"), 0);
    let (counts, before) = worker.read("counts");
    let Some(counts) = counts else {
        println!("the tour itself fails: {before:?}");
        return ExitCode::FAILURE;
    };
    for line in &before {
        println!("without a fault: {line}");
        bad += 1;
    }
    let mut counts = counts.split(' ').skip(1).map(|count| count.parse().unwrap_or(0));
    let steps: usize = counts.next().unwrap_or(0);
    let counts: Vec<usize> = counts.collect();
    let _ = worker.process.wait();
    println!("a tour of {steps} steps, {percent} % of all faults, seed {seed}");
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (index, (fault, count)) in FAULTS.iter().zip(&counts).enumerate() {
        let chosen = named.first().is_none_or(|name| **name == fault.name);
        if !chosen {
            continue;
        }
        let mut numbers: Vec<usize> = match named.get(1).and_then(|number| number.parse().ok()) {
            Some(number) => vec![number],
            None => (0..*count).collect(),
        };
        if percent < 100 {
            numbers.retain(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % 100 < percent
            });
        }
        bad += torment(index, *count, &numbers, is_verbose);
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tour with one fault at each of these places. Returns the places with a bad outcome.
fn torment(index: usize, count: usize, numbers: &[usize], is_verbose: bool) -> usize {
    let (fault, begun) = (&FAULTS[index], Instant::now());
    let (mut bad, mut fired, mut rest) = (0, 0, numbers);
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    while !rest.is_empty() {
        let mut worker = Worker::start(&index.to_string());
        worker.read("counts");
        let mut input = worker.process.stdin.take().expect("a pipe");
        while let Some((nth, later)) = rest.split_first() {
            if writeln!(input, "{nth}").is_err() {
                break;
            }
            rest = later;
            let (done, lines) = worker.read("done");
            fired += usize::from(done.as_ref().is_some_and(|done| done.ends_with(" 1")));
            let mut is_bad = done.is_none();
            for line in &lines {
                is_bad |= line.starts_with("bad") || line.starts_with("unnamed");
                if is_verbose || line.starts_with("bad") || line.starts_with("unnamed") {
                    println!("{} {nth}: {line}", fault.name);
                }
                if let Some(text) = line.strip_prefix("text ") {
                    let text = text.split_once(": ").and_then(|(_, text)| text.split_once(": ")).map_or(text, |(_, text)| text);
                    *texts.entry(text.to_owned()).or_default() += 1;
                }
            }
            bad += usize::from(is_bad);
            if done.is_none() {
                break;
            }
        }
        drop(input);
        let _ = worker.process.wait();
    }
    println!(
        "{}: {} of {count} places, {fired} reached, {bad} bad, {:.1} s",
        fault.name,
        numbers.len(),
        begun.elapsed().as_secs_f64()
    );
    if is_verbose {
        for (text, times) in texts {
            println!("    {times} x {text}");
        }
    }
    bad
}

