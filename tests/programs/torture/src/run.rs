//! Runs the tour with each fault, in worker processes, and checks what it leaves behind.
//!
//! ```text
//! torture-blocking [--tour NAME] [--percent P] [--seed S] [--jobs J] [--verbose] [FAULT [LEG [N]]]
//! ```

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use core::time::Duration;
use std::alloc::System;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;
use std::vec;

use mcp_proto::testing::Rng;

use crate::faults::{self, Class, Effect, FAULTS, Fault, exempt};
use crate::tour::{self, BEGUN, ENDED, Failed, Failure, LEGS, Leg, Outcome, Tour, UNCANCELLED};

/// A step that takes longer hangs: each of its calls has a timeout of 8 s.
const HANG: Duration = Duration::from_secs(25);
/// Texts of a client whose server met the fault: it sees the end of the connection alone.
const LOST: [&str; 4] =
    ["closed the connection", "connection closed", "closed it without a response", "was cut off"];
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
        ["as-server", tour] => {
            std::panic::set_hook(Box::new(|_| {}));
            ExitCode::from(u8::from(Tour::find(tour).is_none_or(|tour| tour::serve(tour).is_err())))
        }
        ["worker"] => {
            work();
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

/// Runs the places on stdin, each with its leg again without a fault after it, and reports on stdout.
fn work() {
    exempt(|| {
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
    let clean = |when: &str, legs: &[Leg]| {
        let Outcome { steps, failed } = tour::tour(legs, &folder, &|step| enter(&format!("{when}, {step}")));
        enter("");
        for Failed { step, failure } in &failed {
            say(&format!("bad: {when}, {step}: {failure:?}"));
        }
        if UNCANCELLED.swap(0, SeqCst) > 0 {
            say(&format!("bad: {when}: a cancelled call went on to its end"));
        }
        steps
    };
    // Twice before the baseline: what is made at the first use stays.
    clean("first tour", &LEGS);
    clean("second tour", &LEGS);
    settle(None);
    let held = exempt(Held::now);
    for leg in LEGS.chunks(1) {
        faults::arm(None);
        let steps = clean("counted tour", leg);
        faults::disarm();
        let counts: Vec<String> =
            FAULTS.iter().map(|fault| format!("{}", faults::count(fault.class))).collect();
        say(&format!("counts {steps} {}", counts.join(" ")));
    }
    say("ready");
    for line in exempt(|| std::io::stdin().lines()).map_while(Result::ok) {
        let numbers: Vec<usize> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [fault, leg, nth] = numbers[..] else { break };
        let leg = &LEGS[leg..=leg];
        let begun = (BEGUN.load(SeqCst), ENDED.load(SeqCst));
        faults::arm(Some((fault, nth)));
        let Outcome { failed, .. } = tour::tour(leg, &folder, &enter);
        let is_fired = faults::disarm();
        enter("");
        judge(&FAULTS[fault], is_fired, &failed);
        clean("the leg after it", leg);
        let is_clean = check_rest(begun, &held);
        say(&format!("done {}", u8::from(is_fired)));
        if !is_clean {
            // What it left would be found after each place that follows.
            break;
        }
    }
    let begun = (BEGUN.load(SeqCst), ENDED.load(SeqCst));
    clean("last tour", &LEGS);
    check_rest(begun, &held);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Reports handlers that have not ended, and what is held beyond `held`. Returns whether there is nothing of it.
fn check_rest(begun: (usize, usize), held: &Held) -> bool {
    settle(Some(held));
    let handlers = (BEGUN.load(SeqCst) - begun.0, ENDED.load(SeqCst) - begun.1);
    if handlers.0 != handlers.1 {
        say(&format!("bad: {} handlers begun, {} ended", handlers.0, handlers.1));
    }
    let left = exempt(Held::now);
    if !left.is_within(held) {
        say(&format!("bad: {left:?} left of {held:?}"));
    }
    handlers.0 == handlers.1 && left.is_within(held)
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
    if UNCANCELLED.swap(0, SeqCst) > 0 && fault.is_invisible {
        say("bad: a cancelled call went on to its end");
    }
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
        Failure::Error(text) if text == tour::NOT_HONOURED => true,
        Failure::Error(text) if fault.class == Class::Thread && text.contains(tour::NOT_VALIDATED) => true,
        Failure::Error(text) if faults::is_at_server() => {
            LOST.iter().any(|part| text.contains(part)) || text.contains(&words)
        }
        Failure::Error(text) => text.contains(&words),
        Failure::Wrong(_) => false,
    };
    let problems = core::mem::take(&mut *tour::PROBLEMS.lock().expect("no panic"));
    let is_reported = problems.iter().any(|problem| problem.contains(&words));
    if !failed.is_empty() && !is_reported && !failed.iter().any(is_named) {
        say(&format!("unnamed: {}: {:?}", failed[0].step, failed[0].failure));
    }
}

/// A worker process.
struct Worker {
    process: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Worker {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
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

    /// Runs a place. Returns whether it was reached, `None` if the worker ended instead, and the lines of its report.
    fn run(&mut self, place: Place) -> (Option<bool>, Vec<String>) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        // The read fails if the write does.
        let _ = writeln!(input, "{} {} {}", place.fault, place.leg, place.nth);
        let (done, lines) = self.read("done");
        (done.map(|done| done.ends_with('1')), lines)
    }

    /// Ends the worker. Returns the lines of its last tour.
    fn end(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let (_, lines) = self.read("done");
        let _ = self.process.wait();
        lines
    }
}

/// The `nth` call of a class in a leg.
#[derive(Clone, Copy)]
struct Place {
    fault: usize,
    leg: usize,
    nth: usize,
}

impl Place {
    /// Returns its place in a table of the faults of each tour.
    fn tally(self) -> usize {
        LEGS[self.leg].tour as usize * FAULTS.len() + self.fault
    }
}

/// Results of a fault in the legs of a tour.
#[derive(Clone, Default)]
struct Tally {
    places: usize,
    run: usize,
    reached: usize,
    bad: usize,
    time: Duration,
    texts: BTreeMap<String, usize>,
}

/// What is to be run, and what came of it, shared by the threads that have a worker each.
struct Plan {
    rest: Mutex<vec::IntoIter<Place>>,
    tallies: Mutex<Vec<Tally>>,
    /// Bad tours that belong to no place.
    others: AtomicUsize,
    is_verbose: bool,
}

fn is_bad(line: &str) -> bool {
    line.starts_with("bad") || line.starts_with("unnamed")
}

impl Plan {
    fn next(&self) -> Option<Place> {
        self.rest.lock().expect("no panic").next()
    }

    /// Reports a tour that belongs to no place.
    fn note(&self, when: &str, lines: &[String]) {
        for line in lines.iter().filter(|line| is_bad(line)) {
            println!("{when}: {line}");
            self.others.fetch_add(1, SeqCst);
        }
    }

    /// Runs places until there are no more.
    fn work(&self) {
        let mut next = self.next();
        while next.is_some() {
            let mut worker = Worker::start();
            let (ready, lines) = worker.read("ready");
            self.note("before any fault", &lines);
            if ready.is_none() {
                self.others.fetch_add(1, SeqCst);
                return;
            }
            let mut is_healthy = true;
            while let Some(place) = next.filter(|_| is_healthy) {
                let begun = Instant::now();
                let (reached, lines) = worker.run(place);
                is_healthy = self.record(place, begun.elapsed(), reached, &lines);
                next = self.next();
            }
            let lines = worker.end();
            if is_healthy {
                self.note("after all faults", &lines);
            }
        }
    }

    /// Returns whether the worker can go on.
    fn record(&self, place: Place, time: Duration, reached: Option<bool>, lines: &[String]) -> bool {
        let mut tallies = self.tallies.lock().expect("no panic");
        let tally = &mut tallies[place.tally()];
        let name = format!("{} {} {}", FAULTS[place.fault].name, place.leg, place.nth);
        tally.run += 1;
        tally.reached += usize::from(reached == Some(true));
        tally.time += time;
        let is_failed = reached.is_none() || lines.iter().any(|line| is_bad(line));
        tally.bad += usize::from(is_failed);
        if reached.is_none() && !lines.iter().any(|line| is_bad(line)) {
            println!("{name}: bad: the process ended");
        }
        for line in lines {
            if self.is_verbose || is_bad(line) {
                println!("{name}: {line}");
            }
            if let Some(text) = line.strip_prefix("text ") {
                let text = text.splitn(3, ": ").last().unwrap_or(text);
                *tally.texts.entry(text.to_owned()).or_default() += 1;
            }
        }
        reached.is_some()
            && !lines.iter().any(|line| line.contains(" left of ") || line.contains("handlers begun"))
    }
}

fn supervise(arguments: &[String]) -> ExitCode {
    let (mut percent, mut seed, mut jobs, mut is_verbose, mut named) = (100, 1, 2, false, Vec::new());
    let mut only_tour = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--tour" {
            let name = rest.next().map(String::as_str).unwrap_or_default();
            only_tour = Tour::find(name);
            if only_tour.is_none() {
                println!("no such tour; there are {}", Tour::ALL.map(Tour::name).join(", "));
                return ExitCode::FAILURE;
            }
            continue;
        }
        let mut number = || rest.next().and_then(|number| number.parse::<u64>().ok()).expect("a number");
        match argument.as_str() {
            "--percent" => percent = number(),
            "--seed" => seed = number(),
            "--jobs" => jobs = number(),
            "--verbose" => is_verbose = true,
            name => named.push(name),
        }
    }
    let numbered = |at: usize| named.get(at).map(|number| number.parse::<usize>().expect("a number"));
    let (only_leg, only_nth) = (numbered(1), numbered(2));
    if named.first().is_some_and(|name| FAULTS.iter().all(|fault| fault.name != *name)) {
        println!("no such fault; there are {}", FAULTS.map(|fault| fault.name).join(", "));
        return ExitCode::FAILURE;
    }
    let mut worker = Worker::start();
    let (ready, lines) = worker.read("ready");
    let lines: Vec<String> = lines.into_iter().chain(worker.end()).collect();
    if ready.is_none() || lines.iter().any(|line| is_bad(line)) {
        println!("the tour itself fails: {lines:#?}");
        return ExitCode::FAILURE;
    }
    let counts: Vec<Vec<usize>> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("counts "))
        .map(|counts| counts.split(' ').filter_map(|count| count.parse().ok()).collect())
        .collect();
    let (mut places, mut tallies) = (Vec::new(), vec![Tally::default(); Tour::ALL.len() * FAULTS.len()]);
    let mut random = Rng::new(seed);
    for fault in 0..FAULTS.len() {
        for (leg, counts) in counts.iter().enumerate() {
            let count = counts[fault + 1];
            tallies[Place { fault, leg, nth: 0 }.tally()].places += count;
            let is_chosen = named.first().is_none_or(|name| *name == FAULTS[fault].name)
                && only_tour.is_none_or(|tour| tour == LEGS[leg].tour)
                && only_leg.is_none_or(|number| number == leg);
            let numbers = only_nth.map_or(0..count, |nth| nth..nth + 1);
            places.extend(numbers.filter(|_| is_chosen && random.percent(percent)).map(|nth| Place {
                fault,
                leg,
                nth,
            }));
        }
    }
    let steps: usize = counts.iter().map(|counts| counts[0]).sum();
    println!("a tour of {steps} steps in {} legs, {percent} % of all faults, seed {seed}", LEGS.len());
    let plan = Plan {
        rest: Mutex::new(places.into_iter()),
        tallies: Mutex::new(tallies),
        others: AtomicUsize::new(0),
        is_verbose,
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(|| plan.work()))));
    let tallies = plan.tallies.into_inner().expect("no panic");
    let names = Tour::ALL.iter().flat_map(|tour| FAULTS.iter().map(|fault| (tour.name(), fault.name)));
    for ((tour, fault), tally) in names.zip(&tallies).filter(|(_, tally)| tally.run > 0) {
        println!(
            "{tour}, {fault}: {} of {} places, {} reached, {} bad, {:.1} s",
            tally.run,
            tally.places,
            tally.reached,
            tally.bad,
            tally.time.as_secs_f64()
        );
        if is_verbose {
            for (text, times) in &tally.texts {
                println!("    {times} x {text}");
            }
        }
    }
    let bad = tallies.iter().map(|tally| tally.bad).sum::<usize>() + plan.others.load(SeqCst);
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
