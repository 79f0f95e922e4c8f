//! Worlds of many seeds, and a planted mistake that has to be found. `MCP_SIM_RUNS=10000` makes more runs.

extern crate alloc;

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError, Version, VersionSet, client, server};
use mcp_sim::{Application, Decisions, Draws, Entry, Lane, Marks, Plan, TransitEnd, What, World, search};

fn runs() -> u64 {
    let default = if std::env::var_os("MCP_TEST_FULL").is_some() { 200 } else { 24 };
    std::env::var("MCP_SIM_RUNS").map_or(default, |text| text.parse().expect("a number"))
}

const PLANS: [Plan; 16] = [
    Plan::CALM,
    Plan::STORM,
    Plan::TIGHT,
    Plan::HTTP_CALM,
    Plan::HTTP_STORM,
    Plan::HTTP_TIGHT,
    Plan::HTTP_SSE_CALM,
    Plan::HTTP_SSE_STORM,
    Plan::HTTP_SSE_TIGHT,
    Plan::HTTP_STORM.http1(true),
    Plan::HTTP_TIGHT.http1(true),
    Plan::HTTP_SSE_STORM.http1(true),
    Plan::HTTP_SSE_TIGHT.http1(true),
    Plan::STORM.max_memory(16 << 10),
    Plan::HTTP_STORM.max_memory(32 << 10),
    Plan::HTTP_SSE_STORM.http1(true).max_memory(32 << 10),
];

#[test]
fn servers_without_memory_refuse_requests_and_go_on() {
    for plan in [Plan::STORM.max_memory(16 << 10), Plan::HTTP_STORM.max_memory(32 << 10)] {
        let (mut refused, mut answered_later, mut flushed) = (0, 0, 0);
        for seed in 0..40 {
            let log = World::new(seed, plan, Marks::ALL).run().log;
            flushed += usize::from(log.iter().any(|entry| matches!(entry.what, What::Flushed)));
            let ends = log.iter().filter_map(|entry| match &entry.what {
                What::Ended { outcome, .. } => Some(outcome),
                _ => None,
            });
            let mut from_first = ends.skip_while(|outcome| !outcome.contains("memory for the request"));
            refused += usize::from(from_first.next().is_some());
            answered_later += usize::from(from_first.any(|outcome| outcome.starts_with('{')));
        }
        assert!(refused > 5 && answered_later > 5, "{plan:?}: {refused} and {answered_later} of 40 worlds");
        assert!(flushed > 5, "{plan:?}: notifications have memory at the end of {flushed} of 40 worlds");
    }
}

/// Worlds that `tests/worlds` has found. Nobody answers the first request of a batch while memory is full.
#[test]
fn servers_without_memory_come_to_rest_behind_their_last_message() {
    let (old, batches) = (VersionSet::only(Version::V2024_11_05), VersionSet::only(Version::V2025_03_26));
    let is_closed = vec![vec![0, 1], vec![112, 1, 6], vec![], vec![0, 1, 1], vec![122, 1], vec![114, 0, 5]];
    let is_open = vec![vec![0, 2], vec![109, 2, 6], vec![], vec![0, 2, 1], vec![121, 2], vec![50]];
    for (client_versions, steps) in [(old, is_closed), (batches, is_open)] {
        let application = Marks { client_versions, server_versions: batches };
        let plan = Plan::STORM.max_memory(16 << 10);
        let report = World::replay(Decisions { steps }, plan, application).run();
        let most = report.log.iter().find_map(|entry| match entry.what {
            What::Held { most, .. } => Some(most),
            _ => None,
        });
        assert!(most.is_some_and(|most| most >= 14 << 10), "memory is never short: {most:?}");
        assert!(report.log.iter().any(|entry| matches!(entry.what, What::Rest)), "{:?}", report.log);
        assert_eq!(report.violation, None);
    }
}

/// A world that `world_of_any_seed_keeps_invariants` has found.
#[test]
fn what_a_run_of_a_task_has_left_outlives_the_connection() {
    let plan = Plan::new().clients(3).steps(200).delay(40).cuts(true).reset(2).death(3).stall(4).hostile(6);
    let plan = plan.clock_jump(1).silence(8).changes(10).questions(5).tasks(4);
    let steps = vec![
        vec![0, 2, 1],
        vec![],
        vec![],
        vec![],
        vec![52, 2],
        vec![0, 2, 2],
        vec![],
        vec![],
        vec![149, 2],
        vec![0, 2],
        vec![101, 2],
        vec![135, 2],
    ];
    let report = World::replay(Decisions { steps }, plan, Marks::ALL).run();
    assert_eq!(report.violation, None);
}

#[test]
fn world_of_any_seed_keeps_invariants() {
    let sets =
        [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN, VersionSet::only(Version::V2025_03_26)];
    for client_versions in sets {
        for server_versions in sets {
            for plan in PLANS {
                let application = || Marks { client_versions, server_versions };
                if let Some(failure) = search(0..runs().div_ceil(8), plan, 2_000, application) {
                    let application = format!("{:?}", application());
                    panic!("{:?}\n{}", failure.violation, failure.to_test(&application));
                }
            }
        }
    }
}

#[test]
fn storm_has_results_and_every_fault() {
    let mut texts = String::new();
    for seed in 0..30 {
        for entry in World::new(seed, Plan::STORM, Marks::ALL).run().log {
            match entry.what {
                What::Ended { outcome, .. } => texts += &outcome,
                What::Fault { text } => texts += &text,
                What::Died => texts += "died",
                What::Cancelled { .. } => texts += "cancelled",
                _ => {}
            }
        }
    }
    for expected in
        ["mark-", "connection ended", "died", "breaks", "clock jumps", "foreign line", "cancelled"]
    {
        assert!(texts.contains(expected), "{expected}");
    }
}

#[test]
fn session_has_the_newest_version_of_both() {
    let versions: Vec<_> = VersionSet::LEGACY.iter().collect();
    for bits in 1_u32..1 << versions.len() {
        let of_bits = |set: VersionSet, (at, version): (usize, &Version)| {
            if bits & (1 << at) == 0 { set } else { set.with(*version) }
        };
        let first = versions[bits.trailing_zeros() as usize];
        let served = versions.iter().enumerate().fold(VersionSet::only(first), of_bits);
        let application = Marks { client_versions: VersionSet::LEGACY, server_versions: served };
        let report = World::new(bits.into(), Plan::CALM.steps(40), application).run();
        let newest = format!(r#""protocolVersion":"{}""#, served.newest().expect("a version").as_str());
        let is_agreed = |entry: &Entry| match (&entry.what, entry.lane) {
            (What::Sent { line }, Lane::Server(_)) => line.contains(&newest),
            _ => false,
        };
        assert!(report.log.iter().any(is_agreed), "{newest}: {:?}", report.log);
    }
}

#[test]
fn decisions_of_a_run_repeat_it() {
    for seed in 0..10 {
        let report = World::new(seed, Plan::STORM, Marks::ALL).run();
        let again = World::replay(report.decisions.clone(), Plan::STORM, Marks::ALL).run();
        assert_eq!(report.decisions, again.decisions);
        assert_eq!(report.log, again.log);
    }
}

/// A server that gives the second call of a client the mark of the first one, if it is broken.
struct Cached {
    is_broken: bool,
    last: Option<RawJson>,
}

impl Application for Cached {
    fn client(&self) -> client::Config {
        Marks::ALL.client()
    }

    fn server(&self) -> server::Config {
        Marks::ALL.server()
    }

    fn request(&mut self, mark: &str, draws: &mut Draws) -> (String, RawJson) {
        { Marks::ALL }.request(mark, draws)
    }

    fn answer(&mut self, call: &Call) -> Result<RawJson, RpcError> {
        let answer = { Marks::ALL }.answer(call)?;
        let cached = self.last.replace(answer.clone());
        Ok(cached.filter(|_| self.is_broken).unwrap_or(answer))
    }

    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String> {
        Marks::ALL.check(mark, result)
    }
}

/// The test that the search below writes, compiled: it passes once the server is mended.
mod mended {
    fn cached() -> super::Cached {
        super::Cached { is_broken: false, last: None }
    }

    include!("worlds/generated.rs");
}

#[test]
fn search_of_a_mistake_reduces_it_to_a_test() {
    let broken = || Cached { is_broken: true, last: None };
    let failure = search(0..100, Plan::STORM, 2_000, broken).expect("a mistake");
    assert_eq!(failure.violation.invariant, "result_reaches_its_call");
    assert!(failure.decisions.steps.len() <= 4, "{:?}", failure.decisions);
    assert!(World::replay(failure.decisions.clone(), failure.plan, broken()).run().violation.is_some());
    let text = failure.to_test("cached()");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/worlds/generated.rs");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path, &text).expect("a file");
    }
    assert_eq!(text, include_str!("worlds/generated.rs"), "UPDATE_GENERATED=1 writes it again");
}

/// A server that panics in every call.
struct Panicking;

impl Application for Panicking {
    fn client(&self) -> client::Config {
        Marks::ALL.client()
    }

    fn server(&self) -> server::Config {
        Marks::ALL.server()
    }

    fn request(&mut self, mark: &str, draws: &mut Draws) -> (String, RawJson) {
        { Marks::ALL }.request(mark, draws)
    }

    fn answer(&mut self, _: &Call) -> Result<RawJson, RpcError> {
        panic!("a planted panic\nof two lines")
    }

    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String> {
        Marks::ALL.check(mark, result)
    }
}

#[test]
fn search_of_a_panic_reduces_it() {
    let failure = search(0..10, Plan::STORM, 500, || Panicking).expect("a panic");
    assert_eq!(failure.violation.invariant, "no_panic");
    assert_eq!(failure.violation.reason, "a planted panic\nof two lines");
    assert!(failure.decisions.steps.len() <= 4, "{:?}", failure.decisions);
}

#[test]
fn search_of_a_panic_reports_it_once() {
    // Another thread of this process must not write between the lines that are counted.
    const NAME: &str = "search_of_a_panic_reduces_it";
    let program = std::env::current_exe().expect("this program");
    let run = std::process::Command::new(program).args([NAME, "--exact", "--nocapture"]).output();
    let reports = String::from_utf8_lossy(&run.expect("a run").stderr).into_owned();
    assert_eq!(reports.matches("a planted panic").count(), 1, "{reports}");
}

#[test]
fn plan_of_a_kept_test_has_what_was_set_alone() {
    let failure = |plan| {
        let text = search(0..10, plan, 0, || Panicking).expect("a panic").to_test("Panicking");
        assert!(text.starts_with("// no_panic: a planted panic\n// of two lines\n#[test]\n"), "{text}");
        text.lines().skip(4).take_while(|line| !line.contains("steps =")).collect::<String>()
    };
    assert_eq!(failure(Plan::new().steps(40)), "    let plan = mcp_sim::Plan::new()        .steps(40);");
    let tight = failure(Plan::HTTP_TIGHT.clients(0));
    for set in [".binding(mcp_sim::Binding::Http)", ".clients(0)", ".cuts(true)", ".tight(true);"] {
        assert!(tight.contains(set), "{tight}");
    }
    assert!(!tight.contains("clock_jump"), "{tight}");
}

#[test]
fn world_whose_sides_are_looked_at_runs_alike() {
    let mut phases = BTreeSet::new();
    for seed in 0..30 {
        for plan in PLANS {
            let mut world = World::new(seed, plan, Marks::ALL);
            let mut arrived = 0;
            while world.step() {
                for side in world.sides() {
                    phases.insert(format!("{:?}", side.phase));
                    assert!(side.deadline.is_none_or(|(at, _)| at >= world.now()), "{side:?}");
                    arrived += side.arrived;
                }
            }
            assert_eq!(world.sides(), [], "all have ended");
            assert!(arrived > 0, "nothing has arrived with seed {seed} of {plan:?}");
            let is_equal = world.log() == World::new(seed, plan, Marks::ALL).run().log;
            assert!(is_equal, "to look at the sides changes the run of seed {seed}");
        }
    }
    let all = ["Dead", "Ended", "Handshake", "Open", "Ready", "ShuttingDown"];
    assert!(phases.iter().eq(all), "{phases:?}");
}

#[test]
fn message_of_an_exchange_arrives_or_is_lost() {
    let (mut arrived, mut lost) = (0, 0);
    for seed in 0..60 {
        let plan = if seed % 2 == 0 { Plan::HTTP_STORM } else { Plan::HTTP_SSE_STORM };
        let plan = plan.http1(seed % 4 > 1);
        let mut world = World::new(seed, plan, Marks::ALL);
        while world.step() {}
        let sent = |entry: &&Entry| matches!(entry.what, What::Sent { .. });
        let log = world.log();
        let transits = world.transits();
        let of_messages = transits.iter().filter(|transit| sent(&&log[transit.sent])).count();
        assert_eq!(of_messages, log.iter().filter(sent).count(), "seed {seed}");
        for transit in transits {
            let from = &log[transit.sent];
            match (from.lane, transit.to) {
                (Lane::Client(a), Lane::Server(b)) | (Lane::Server(a), Lane::Client(b)) => assert_eq!(a, b),
                _ => panic!("{transit:?} of {from:?}"),
            }
            let Some(end) = transit.end else { continue };
            assert!(transit.sent < end.entry && from.at <= end.at, "{transit:?} of {from:?}");
            arrived += u32::from(!end.is_lost);
            lost += u32::from(end.is_lost);
        }
        // Each result has come with a message before it.
        let mut results = BTreeMap::new();
        for (entry, Entry { lane, what, .. }) in log.iter().enumerate() {
            let What::Ended { outcome, .. } = what else { continue };
            let count = results.entry(*lane).or_insert(0);
            *count += usize::from(outcome.starts_with('{'));
            let is_before = |end: TransitEnd| !end.is_lost && end.entry <= entry;
            let messages = transits.iter().filter(|t| t.to == *lane && t.end.is_some_and(is_before)).count();
            assert!(
                *count <= messages,
                "seed {seed}: {count} results with {messages} messages at entry {entry}"
            );
        }
    }
    assert!(arrived > 500 && lost > 20, "{arrived} have arrived, {lost} are lost");
}

#[test]
fn storms_have_answered_questions_and_runs_of_tasks() {
    for plan in [Plan::STORM, Plan::HTTP_STORM] {
        for set in [VersionSet::LEGACY, VersionSet::MODERN] {
            let (mut answered, mut runs) = (0, 0);
            for seed in 0..30 {
                let application = Marks { client_versions: set, server_versions: set };
                for entry in World::new(seed, plan, application).run().log {
                    match entry.what {
                        What::Replied { .. } => answered += 1,
                        What::Received { request } => runs += u32::from(request.starts_with("task")),
                        _ => {}
                    }
                }
            }
            assert!(answered > 1 && runs > 1, "{answered} questions and {runs} tasks in {plan:?}, {set}");
        }
    }
}

#[test]
fn http_storm_has_every_fault() {
    let (mut texts, mut resumed, mut repeated) = (String::new(), 0, 0);
    for seed in 0..30 {
        let set = if seed % 2 == 0 { VersionSet::LEGACY } else { VersionSet::ALL };
        let application = Marks { client_versions: set, server_versions: set };
        let mut ids = BTreeSet::new();
        for entry in World::new(seed, Plan::HTTP_STORM, application).run().log {
            match entry.what {
                What::Ended { outcome, .. } => texts += &outcome,
                What::Fault { text } | What::Overheard { text, .. } => texts += &text,
                What::Restored => texts += "restored",
                What::Died => texts += "died",
                What::Cancelled { .. } => texts += "cancelled",
                What::Requested { resumes: Some(_), .. } => resumed += 1,
                What::Streamed { id, .. } => repeated += u32::from(!ids.insert(id)),
                _ => {}
            }
        }
    }
    for expected in [
        "mark-",
        "died",
        "restored",
        "cancelled",
        "breaks",
        "exchanges of client",
        "shuts down",
        "clock jumps",
        "401: ",
        "404: ",
        "200: ",
        "a stranger",
        r#""method":"tasks/result""#,
        r#""tasks":[]"#,
    ] {
        assert!(texts.contains(expected), "{expected}");
    }
    assert!(resumed > 30 && repeated > 2, "{resumed} streams were resumed, {repeated} events repeated");
}

#[test]
fn http_sse_storm_has_every_fault() {
    let (mut texts, mut results, mut streams, mut ends) = (String::new(), 0, 0, 0);
    for seed in 0..30 {
        let client_versions =
            [VersionSet::ALL, VersionSet::LEGACY, VersionSet::only(Version::V2024_11_05)][seed as usize % 3];
        let application = Marks { client_versions, server_versions: VersionSet::ALL };
        let mut of_clients = BTreeSet::new();
        for entry in World::new(seed, Plan::HTTP_SSE_STORM, application).run().log {
            match entry.what {
                What::Ended { outcome, .. } => {
                    results += u32::from(outcome.starts_with('{'));
                    texts += &outcome;
                }
                What::Endpoint { exchange, .. } => {
                    of_clients.insert(exchange);
                    streams += 1;
                }
                What::Lost { exchange, .. } => ends += u32::from(of_clients.contains(&exchange)),
                What::Fault { text } | What::Overheard { text, .. } => texts += &text,
                What::Restored => texts += "restored",
                What::Died => texts += "died",
                What::Cancelled { .. } => texts += "cancelled",
                What::Replied { .. } => texts += "replied",
                What::Received { request } => texts += &request,
                What::Streamed { id, .. } => panic!("seed {seed}: the event {id}"),
                _ => {}
            }
        }
    }
    for expected in [
        "mark-",
        "died",
        "restored",
        "cancelled",
        "replied",
        "task (",
        "exchange ",
        "exchanges of client",
        "shuts down",
        "clock jumps",
        "a stranger",
        "401: ",
        "404: ",
        "405: ",
        "/messages?sessionId=",
        r#""method":"tasks/result""#,
        r#""tasks":[]"#,
    ] {
        assert!(texts.contains(expected), "{expected}");
    }
    assert!(
        results > 200 && streams > 100 && ends > 50,
        "{results} results, {ends} of {streams} streams are lost"
    );
}

#[test]
fn world_with_events_keeps_invariants() {
    let [tight, http_tight] = [Plan::TIGHT, Plan::HTTP_TIGHT].map(|plan| plan.events(60));
    for plan in [Plan::EVENTS, Plan::HTTP_EVENTS, tight, http_tight, Plan::CALM.events(60)] {
        for versions in [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN] {
            let application = || Marks { client_versions: versions, server_versions: versions };
            if let Some(failure) = search(0..runs().div_ceil(4), plan, 2_000, application) {
                let application = format!("{:?}", application());
                panic!("{:?}\n{}", failure.violation, failure.to_test(&application));
            }
        }
    }
}

/// A world that the hours have found: the last place of a server was that of a call which asked for a task, and which its client has
/// given up without a word.
#[test]
fn call_that_nobody_may_cancel_does_not_keep_a_place_from_polls() {
    let steps: [&[u32]; 10] = [
        &[0, 0, 0, 1, 0, 8],
        &[167, 2, 14],
        &[56, 2, 0, 0, 1],
        &[98, 0, 2160],
        &[186, 0, 42, 14],
        &[51, 2],
        &[206, 0, 44],
        &[122, 2],
        &[173, 0, 42],
        &[121, 2, 9],
    ];
    let steps = steps.map(<[u32]>::to_vec).to_vec();
    let server_versions = VersionSet::only(Version::V2025_11_25);
    let marks = Marks { client_versions: VersionSet::LEGACY, server_versions };
    let report = World::replay(Decisions { steps }, Plan::TIGHT.events(60), marks).run();
    assert_eq!(report.violation, None);
}

#[test]
fn events_are_followed_in_each_way_and_meet_each_fault() {
    for plan in [Plan::EVENTS, Plan::HTTP_EVENTS] {
        let (mut counts, mut forged) = (BTreeMap::new(), String::new());
        for seed in 0..40 {
            for entry in World::new(seed, plan, Marks::ALL).run().log {
                let (what, follower) = match entry.what {
                    What::HandedOut { follower, .. } => ("handed out", follower),
                    What::Gap { follower, .. } => ("gap", follower),
                    What::Unfollowed { follower, .. } => ("unfollowed", follower),
                    What::Posted { is_last: true, .. } => ("given up", String::new()),
                    What::Fault { text } if text == "the store of events is lost" => ("lost", String::new()),
                    What::Forged { text, .. } => {
                        forged += &text;
                        continue;
                    }
                    _ => continue,
                };
                let way = follower.split('-').next().unwrap_or_default().to_owned();
                *counts.entry((what, way)).or_insert(0) += 1;
            }
        }
        let count = |what, way: &str| counts.get(&(what, way.to_owned())).copied().unwrap_or(0);
        for way in ["polls", "streams", "webhook"] {
            assert!(count("handed out", way) > 20, "{way}: {counts:?}");
        }
        assert!(
            count("gap", "polls") + count("gap", "streams") > 2 && count("gap", "webhook") > 0,
            "{counts:?}"
        );
        assert!(count("unfollowed", "webhook") > 0 && count("lost", "") > 2, "{counts:?}");
        assert!(count("given up", "") > 0, "{counts:?}");
        for text in ["is replayed: 2", "another body: 401", "another time: 401", "a stranger signs: 401"] {
            assert!(forged.contains(text), "{text} in {plan:?}");
        }
    }
}
