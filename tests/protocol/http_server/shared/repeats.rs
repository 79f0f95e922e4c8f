//! Calls that another process runs again, because the one that they came to was killed or does not answer.

use mcp_proto::Progress;
use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::{Call, Event};
use serde_json::{Value, json};

use super::super::{ECHO_PARAMS, answer_call, legacy_request};
use super::relays::{resume, stream_call};
use super::{Cluster, call};
use crate::protocol::common::{ms, secs};

/// Processes whose tool `echo` may run again, and a session of them.
fn cluster(count: u8) -> (Cluster, String) {
    cluster_of(count, "2025-11-25")
}

fn cluster_of(count: u8, version: &str) -> (Cluster, String) {
    let mut all = Cluster::new(count, Config::new);
    all.is_repeatable = true;
    for web in &mut all.processes {
        web.server.shared_sessions().set_repeatable_tools(["echo".into()]);
    }
    let id = all.open(0, version);
    (all, id)
}

/// Returns processes whose second one was killed after it had begun call 77, their session, and the id of the call's first event.
fn killed(count: u8) -> (Cluster, String, String) {
    let (mut all, id) = cluster(count);
    let (_, _, begun) = stream_call(&mut all, 1, &id, 77);
    all.kill(1, 9);
    (all, id, begun)
}

/// Waits until a process takes the one that it has asked for ended.
fn wait(all: &mut Cluster, at: usize) {
    all.processes[at].advance(secs(2));
    all.settle();
}

/// Resumes a stream, and waits until the process that is asked for it counts as ended.
fn seek(all: &mut Cluster, at: usize, id: &str, after: &str) -> ExchangeId {
    let x = resume(all, at, id, after);
    wait(all, at);
    x
}

fn answer(all: &mut Cluster, at: usize, running: &Call) {
    answer_call(&mut all.processes[at], running);
    all.settle();
}

/// Takes the next call of a process, and answers it.
fn run_call(all: &mut Cluster, at: usize) {
    let running = call(&mut all.processes[at], &mut |_| {});
    answer(all, at, &running);
}

fn progress(all: &mut Cluster, at: usize, running: &Call, value: f64) {
    let web = &mut all.processes[at];
    web.server.engine().progress(web.now, running.id(), Progress::new(value)).expect("open");
    web.transmit_all();
    all.settle();
}

fn answers(all: &Cluster, at: usize, x: ExchangeId) -> Vec<Value> {
    let messages = all.processes[at].response(x).messages();
    messages.into_iter().filter(|message| message.get("id").is_some()).collect()
}

#[track_caller]
fn assert_done(all: &Cluster, at: usize, x: ExchangeId, id: u32) {
    let [answer] = &answers(all, at, x)[..] else { panic!("{:?}", all.processes[at].response(x)) };
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!("done")));
    assert!(all.processes[at].response(x).is_complete);
}

#[track_caller]
fn assert_lost(all: &Cluster, at: usize, x: ExchangeId, id: u32) {
    let [answer] = &answers(all, at, x)[..] else { panic!("{:?}", all.processes[at].response(x)) };
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)));
}

fn has_call(all: &mut Cluster, at: usize) -> bool {
    core::iter::from_fn(|| all.processes[at].poll_event()).any(|event| matches!(event, Event::Call(_)))
}

// covers: SSE-021
#[test]
fn resumption_that_names_a_modern_revision_takes_over_no_call_and_ends() {
    // From 2025-06-18 on the revision of a session decides.
    let (mut all, id) = cluster_of(2, "2025-03-26");
    all.post(1, &id, &legacy_request(77, "tools/call", ECHO_PARAMS));
    call(&mut all.processes[1], &mut |_| {});
    all.kill(1, 9);
    // Streams of the process that was killed and of the one that is asked; the note is that of request 77.
    for after in ["2097152-1-Nzc", "2000-1-Nzc"] {
        let fields =
            [("Mcp-Session-Id", &*id), ("Last-Event-ID", after), ("MCP-Protocol-Version", "2026-07-28")];
        let x = all.processes[0].send_request("GET", "/mcp", &fields, "");
        all.settle();
        all.processes[0].advance(ms(1_999));
        assert_eq!(all.processes[0].response(x).status, 0, "{after}: it waits for its whole time");
        all.processes[0].advance(ms(1));
        all.settle();
        assert_eq!(all.processes[0].response(x).status, 503, "{after}");
        assert!(!has_call(&mut all, 0));
        assert_eq!(all.kept.len(), 1, "{after}: it is left to a client that can have its answer");
    }
}

// covers: SSE-021
#[test]
fn call_of_a_process_that_is_killed_is_repeated_where_its_client_resumes_it() {
    let (mut all, id) = cluster(3);
    let (_, _, begun) = stream_call(&mut all, 1, &id, 77);
    assert_eq!(all.kept.len(), 1);
    all.kill(1, 9);
    let first = resume(&mut all, 0, &id, &begun);
    assert!(!has_call(&mut all, 0), "the other process may be slow");
    wait(&mut all, 0);
    call(&mut all.processes[0], &mut |_| {});
    assert!(all.processes[0].response(first).is_event_stream() && answers(&all, 0, first).is_empty());
    // The second process is killed, too. Its client may know the last event of the first one alone.
    all.kill(0, 10);
    let second = seek(&mut all, 2, &id, &begun);
    assert!(!has_call(&mut all, 2), "the second process may be slow, too");
    wait(&mut all, 2);
    run_call(&mut all, 2);
    assert_done(&all, 2, second, 77);
    assert!(all.kept.is_empty(), "no process repeats it any more");
    // After it is over, it can be read again where it ran, and the next call is another one.
    let again = resume(&mut all, 2, &id, &begun);
    assert_done(&all, 2, again, 77);
    let last = all.processes[2].response(again).events().pop().expect("the answer").id;
    let again = resume(&mut all, 2, &id, &last);
    let response = all.processes[2].response(again);
    assert!(response.is_complete && response.messages().is_empty(), "it has all: {response:?}");
    let next = all.post(2, &id, &legacy_request(78, "tools/call", ECHO_PARAMS));
    run_call(&mut all, 2);
    assert_eq!(all.processes[2].response(next).message()["id"], 78);
    assert!(all.kept.is_empty());
}

// covers: SSE-021, SSE-022
#[test]
fn events_of_a_repeated_call_follow_those_that_were_received() {
    let (mut all, id, begun) = killed(3);
    let x = seek(&mut all, 0, &id, &begun);
    let running = call(&mut all.processes[0], &mut |_| {});
    // Its client moves on while it runs: to another process, which asks the new owner, and back.
    let moved = seek(&mut all, 2, &id, &begun);
    assert!(all.processes[2].response(moved).is_event_stream() && !has_call(&mut all, 2));
    let back = resume(&mut all, 0, &id, &begun);
    answer(&mut all, 0, &running);
    assert_done(&all, 0, back, 77);
    assert!(answers(&all, 0, x).is_empty() && answers(&all, 2, moved).is_empty());
    let last = all.processes[0].response(back).events().pop().expect("the answer").id;
    let parts = |id: &str| id.split('-').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((&parts(&last)[0], &parts(&last)[2]), (&parts(&begun)[0], &parts(&begun)[2]));
    assert!(parts(&last)[1].parse::<u32>().unwrap() > parts(&begun)[1].parse::<u32>().unwrap());
}

// covers: SSE-021
#[test]
fn of_two_requests_that_resume_a_call_one_repeats_it() {
    let (mut all, id, begun) = killed(3);
    let asking = [(0, resume(&mut all, 0, &id, &begun)), (2, resume(&mut all, 2, &id, &begun))];
    let again = resume(&mut all, 0, &id, &begun);
    for at in [0, 2] {
        all.processes[at].advance(secs(2));
    }
    all.settle();
    let running = call(&mut all.processes[0], &mut |_| {});
    assert!(!has_call(&mut all, 2) && !has_call(&mut all, 0));
    answer(&mut all, 0, &running);
    // The one that came last has the stream.
    let all_answers = [(0, again), asking[0], asking[1]].map(|(at, x)| answers(&all, at, x).len());
    assert_eq!(all_answers.iter().sum::<usize>(), 1, "{all_answers:?}");
}

// covers: SSE-021
#[test]
fn answer_of_a_process_that_was_only_slow_is_dropped_after_its_call_was_taken_over() {
    let (mut all, id) = cluster(2);
    let (slow, held, begun) = stream_call(&mut all, 1, &id, 77);
    all.is_silent.insert(1);
    let x = seek(&mut all, 0, &id, &begun);
    let running = call(&mut all.processes[0], &mut |_| {});
    answer(&mut all, 1, &slow);
    assert!(answers(&all, 1, held).is_empty() && all.processes[1].response(held).is_complete);
    answer(&mut all, 0, &running);
    assert_done(&all, 0, x, 77);
}

// covers: SSE-021
#[test]
fn call_runs_once_its_message_is_stored_and_is_answered_once_it_is_removed() {
    let (mut all, id) = cluster(2);
    let ask =
        |all: &mut Cluster, request| all.post(1, &id, &legacy_request(request, "tools/call", ECHO_PARAMS));
    // Killed before the message is stored, and between that and the handler: its client has no id to resume by.
    all.held = Some(Vec::new());
    ask(&mut all, 70);
    assert!(!has_call(&mut all, 1) && all.kept.is_empty());
    all.kill(1, 9);
    all.answer_held();
    assert!(all.kept.is_empty());
    // A plain answer, and one of an event stream.
    for is_stream in [false, true] {
        all.held = Some(Vec::new());
        let x = ask(&mut all, 71 + u32::from(is_stream));
        all.answer_held();
        let running = call(&mut all.processes[1], &mut |_| {});
        if is_stream {
            all.processes[1].advance(secs(5));
        }
        all.held = Some(Vec::new());
        answer(&mut all, 1, &running);
        assert!(answers(&all, 1, x).is_empty());
        // The client changes its connection meanwhile.
        let x = match all.processes[1].response(x).events().first() {
            Some(event) => resume(&mut all, 1, &id, &event.id.clone()),
            None => x,
        };
        assert!(answers(&all, 1, x).is_empty());
        all.answer_held();
        assert!(all.kept.is_empty());
        assert_eq!(answers(&all, 1, x).len(), 1, "{is_stream}");
    }
    // Killed after the handler, before its message is removed: it runs once more.
    let (running, _, begun) = stream_call(&mut all, 1, &id, 73);
    all.held = Some(Vec::new());
    answer(&mut all, 1, &running);
    all.kill(1, 10);
    all.held = None;
    let x = seek(&mut all, 0, &id, &begun);
    run_call(&mut all, 0);
    assert_done(&all, 0, x, 73);
}

// covers: SSE-021
#[test]
fn store_that_does_not_answer_holds_no_call_for_longer_than_its_timeout() {
    let (mut all, id) = cluster(2);
    let timeout = secs(5);
    all.held = Some(Vec::new());
    let x = all.post(1, &id, &legacy_request(70, "tools/call", ECHO_PARAMS));
    all.processes[1].advance(timeout - ms(1));
    assert!(!has_call(&mut all, 1));
    all.processes[1].advance(ms(1));
    let running = call(&mut all.processes[1], &mut |_| {});
    answer_call(&mut all.processes[1], &running);
    assert_eq!(answers(&all, 1, x).len(), 1);
    all.answer_held();
    assert!(all.kept.is_empty(), "what was stored too late is removed");
    // One that fails at once.
    all.store_is_up = false;
    let (_, _, begun) = stream_call(&mut all, 1, &id, 71);
    all.store_is_up = true;
    // The removal is slow.
    let (running, x, _) = stream_call(&mut all, 1, &id, 72);
    all.held = Some(Vec::new());
    answer(&mut all, 1, &running);
    all.processes[1].advance(timeout - ms(1));
    assert!(answers(&all, 1, x).is_empty());
    all.processes[1].advance(ms(1));
    assert_done(&all, 1, x, 72);
    all.answer_held();
    assert_done(&all, 1, x, 72);
    // The search for a call is slow: its client asks again.
    let (_, _, slow) = stream_call(&mut all, 1, &id, 73);
    all.kill(1, 9);
    let x = seek(&mut all, 0, &id, &begun);
    assert_lost(&all, 0, x, 71);
    all.held = Some(Vec::new());
    let x = seek(&mut all, 0, &id, &slow);
    all.processes[0].advance(timeout + secs(2) - ms(1));
    assert_eq!(all.processes[0].response(x).status, 0);
    all.processes[0].advance(ms(1));
    assert_eq!(all.processes[0].response(x).status, 503);
    all.answer_held();
    assert!(!has_call(&mut all, 0), "its client is gone, so another process may take it over");
    let x = seek(&mut all, 0, &id, &slow);
    run_call(&mut all, 0);
    assert_done(&all, 0, x, 73);
}

// covers: SSE-021
#[test]
fn calls_beyond_the_bounds_are_lost_with_their_process() {
    let (mut all, id) = cluster(2);
    let begun: Vec<String> = (70..79).map(|request| stream_call(&mut all, 1, &id, request).2).collect();
    assert_eq!(all.kept.len(), 8);
    // Those of another session have bounds of their own.
    let other = all.open(0, "2025-11-25");
    stream_call(&mut all, 1, &other, 70);
    assert_eq!(all.kept.len(), 9);
    let long = |text: &str, id: &str| {
        legacy_request(60, "tools/call", &format!("\"name\":\"echo\",\"arguments\":{{\"text\":\"{text}\"}}"))
            .replace("\"id\":60", &format!("\"id\":{id}"))
    };
    let quoted = format!("\"{}\"", "x".repeat(63));
    let third = all.open(0, "2025-11-25");
    for body in [
        long(&"x".repeat(16 << 10), "60"),
        long("x", &quoted),
        long("x", "61").replace("echo", "other"),
        legacy_request(62, "tools/list", ""),
        legacy_request(63, "prompts/get", "\"name\":\"echo\""),
    ] {
        all.post(1, &third, &body);
    }
    assert_eq!(all.kept.len(), 9);
    // The longest message that is kept, and one byte more.
    let short = long("", "65").len();
    for (length, kept) in [((16 << 10) + 1, 9), (16 << 10, 10)] {
        all.post(1, &third, &long(&"x".repeat(length - short), &format!("{}", 64 + kept % 2)));
        assert_eq!(all.kept.len(), kept, "{length}");
    }
    all.kill(1, 9);
    let resumed: Vec<_> = begun.iter().map(|begun| resume(&mut all, 0, &id, begun)).collect();
    wait(&mut all, 0);
    assert_lost(&all, 0, resumed[8], 78);
    for (request, x) in (70..78).zip(&resumed) {
        run_call(&mut all, 0);
        assert_done(&all, 0, *x, request);
    }
}

// covers: SSE-021
#[test]
fn request_that_calls_no_tool_is_not_kept_whatever_it_names() {
    let (mut all, id) = cluster(1);
    all.held = Some(Vec::new());
    for (request, method, is_kept) in [(70, "prompts/get", false), (71, "tools/call", true)] {
        all.post(0, &id, &legacy_request(request, method, ECHO_PARAMS));
        assert_eq!(all.held.as_ref().is_some_and(|held| !held.is_empty()), is_kept, "{method}");
    }
}

// covers: PROG-005
#[test]
fn repeated_call_sends_no_progress() {
    let (mut all, id) = cluster(2);
    let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
    let x = all.post(1, &id, &legacy_request(70, "tools/call", &params));
    let running = call(&mut all.processes[1], &mut |_| {});
    progress(&mut all, 1, &running, 5.0);
    let begun = all.processes[1].response(x).events().pop().expect("progress").id;
    all.kill(1, 9);
    let x = seek(&mut all, 0, &id, &begun);
    let running = call(&mut all.processes[0], &mut |_| {});
    progress(&mut all, 0, &running, 1.0);
    answer(&mut all, 0, &running);
    assert_done(&all, 0, x, 70);
    assert_eq!(all.processes[0].response(x).messages().len(), 1, "the answer alone");
}

// covers: SSE-021
#[test]
fn calls_whose_clients_have_moved_count_for_the_bound() {
    let (mut all, id) = cluster(2);
    let begun: Vec<String> = (70..78).map(|request| stream_call(&mut all, 1, &id, request).2).collect();
    begun.iter().for_each(|begun| _ = resume(&mut all, 1, &id, begun));
    stream_call(&mut all, 1, &id, 78);
    assert_eq!(all.kept.len(), 8);
    // Those that run again count as well.
    all.kill(1, 9);
    begun.iter().for_each(|begun| _ = resume(&mut all, 0, &id, begun));
    wait(&mut all, 0);
    (70..78).for_each(|_| _ = call(&mut all.processes[0], &mut |_| {}));
    stream_call(&mut all, 0, &id, 79);
    assert_eq!(all.kept.len(), 8);
}

// covers: SSE-021
#[test]
fn message_of_a_call_is_not_that_of_a_later_one_with_its_id() {
    let (mut all, id) = cluster(2);
    let other = legacy_request(77, "tools/call", &ECHO_PARAMS.replace("hi", "other"));
    // While the first one is being stored, and while it runs.
    all.held = Some(Vec::new());
    let first = all.post(1, &id, &legacy_request(77, "tools/call", ECHO_PARAMS));
    let second = all.post(1, &id, &other);
    assert_eq!(all.processes[1].response(second).status, 400);
    all.answer_held();
    let message = |all: &Cluster| all.kept.values().next().expect("it is kept").1.clone();
    let kept = message(&all);
    let running = call(&mut all.processes[1], &mut |_| {});
    let third = all.post(1, &id, &other);
    assert_eq!(all.processes[1].response(third).status, 400);
    assert_eq!((message(&all), all.kept.len()), (kept, 1));
    // While its answer waits: that one runs, and is not kept.
    all.held = Some(Vec::new());
    answer(&mut all, 1, &running);
    all.post(1, &id, &other);
    call(&mut all.processes[1], &mut |_| {});
    all.answer_held();
    assert_eq!((answers(&all, 1, first).len(), all.kept.len()), (1, 0));
}

// covers: SSE-021
#[test]
fn message_of_a_call_that_is_refused_is_removed() {
    let (mut all, id) = cluster(2);
    all.held = Some(Vec::new());
    let mut post = |request| all.post(1, &id, &legacy_request(request, "tools/call", ECHO_PARAMS));
    let waiting: Vec<ExchangeId> = (1..9).map(&mut post).collect();
    // As many calls as a session may have, which run because no more may wait.
    (9..73).for_each(|request| _ = post(request));
    all.answer_held();
    for x in waiting {
        assert_eq!(all.processes[1].response(x).status, 503);
    }
    assert!(all.kept.is_empty());
}

fn cancel(all: &mut Cluster, at: usize, id: &str, request: u32) -> ExchangeId {
    let params = json!({ "requestId": request });
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    all.post(at, id, &message.to_string())
}

// covers: SSE-021, CANC-010
#[test]
fn call_that_is_cancelled_after_its_process_has_ended_is_not_repeated() {
    let (mut all, id, begun) = killed(2);
    let x = cancel(&mut all, 0, &id, 77);
    assert_eq!(all.processes[0].response(x).status, 202);
    let x = seek(&mut all, 0, &id, &begun);
    assert_lost(&all, 0, x, 77);
    assert!(!has_call(&mut all, 0) && all.kept.is_empty());
}

// covers: CANC-010
#[test]
fn call_that_is_cancelled_while_it_is_being_stored_never_runs() {
    let (mut all, id) = cluster(2);
    all.held = Some(Vec::new());
    let x = all.post(1, &id, &legacy_request(77, "tools/call", ECHO_PARAMS));
    let relayed = all.relayed;
    let cancelled = cancel(&mut all, 1, &id, 77);
    assert_eq!(all.processes[1].response(cancelled).status, 202);
    all.answer_held();
    assert!(!has_call(&mut all, 1) && all.kept.is_empty());
    assert!(all.processes[1].response(x).is_complete && answers(&all, 1, x).is_empty());
    assert_eq!(all.relayed, relayed, "no other process has it");
    // The same by way of another process.
    all.held = Some(Vec::new());
    let x = all.post(1, &id, &legacy_request(78, "tools/call", ECHO_PARAMS));
    cancel(&mut all, 0, &id, 78);
    all.settle();
    all.answer_held();
    assert!(!has_call(&mut all, 1) && all.kept.is_empty());
    assert!(all.processes[1].response(x).is_complete && answers(&all, 1, x).is_empty());
}

// covers: SSE-021
#[test]
fn answer_of_a_process_that_ends_does_not_wait_for_the_store() {
    let (mut all, id) = cluster(2);
    let (running, x, _) = stream_call(&mut all, 1, &id, 77);
    all.held = Some(Vec::new());
    let web = &mut all.processes[1];
    web.server.shutdown(web.now, secs(10));
    answer(&mut all, 1, &running);
    assert_done(&all, 1, x, 77);
    all.answer_held();
    assert_eq!(answers(&all, 1, x).len(), 1);
}

// covers: SSE-021
#[test]
fn client_of_a_dropped_answer_gets_that_of_the_new_owner_wherever_it_resumes() {
    for at in [0, 1, 2] {
        let (mut all, id) = cluster(3);
        let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
        let held = all.post(1, &id, &legacy_request(77, "tools/call", &params));
        let slow = call(&mut all.processes[1], &mut |_| {});
        // An event that the slow one keeps.
        progress(&mut all, 1, &slow, 5.0);
        let begun = all.processes[1].response(held).events().pop().expect("progress").id;
        all.is_silent.insert(1);
        seek(&mut all, 0, &id, &begun);
        let running = call(&mut all.processes[0], &mut |_| {});
        answer(&mut all, 1, &slow);
        assert!(all.processes[1].response(held).is_complete);
        all.is_silent.clear();
        let x = resume(&mut all, at, &id, &begun);
        answer(&mut all, 0, &running);
        assert_done(&all, at, x, 77);
        assert!((0..3).all(|at| !has_call(&mut all, at)));
    }
}

// covers: SSE-021
#[test]
fn call_whose_event_is_gone_runs_on_where_it_is() {
    let (mut all, id) = cluster(2);
    let (running, _, begun) = stream_call(&mut all, 1, &id, 77);
    let [stream, _, note] = begun.split('-').collect::<Vec<_>>()[..] else { panic!("{begun}") };
    let other: u32 = stream.parse::<u32>().expect("a number") + 7;
    for after in [format!("{stream}-99-{note}"), format!("{other}-1-{note}")] {
        for at in [0, 1] {
            let x = resume(&mut all, at, &id, &after);
            assert_eq!(all.processes[at].response(x).status, 400, "{after}");
        }
        // Its own process does not ask the store: if the call ended meanwhile, a message from there would run again.
        all.held = Some(Vec::new());
        let x = resume(&mut all, 1, &id, &after);
        assert_eq!(all.processes[1].response(x).status, 400, "{after}");
        assert!(all.held.take().expect("the store is slow").is_empty());
    }
    assert!(!has_call(&mut all, 0) && !has_call(&mut all, 1));
    let x = resume(&mut all, 0, &id, &begun);
    answer(&mut all, 1, &running);
    assert_done(&all, 0, x, 77);
}

// covers: SSE-021
#[test]
fn call_of_a_tool_that_may_not_run_again_here_is_lost() {
    let (mut all, id, begun) = killed(2);
    all.processes[0].server.shared_sessions().set_repeatable_tools(["another".into()]);
    let x = seek(&mut all, 0, &id, &begun);
    assert_lost(&all, 0, x, 77);
    assert!(!has_call(&mut all, 0));
}

// covers: SSE-021
#[test]
fn client_with_later_events_of_the_earlier_owner_gets_the_answer_of_the_new_one() {
    let (mut all, id, begun) = killed(2);
    seek(&mut all, 0, &id, &begun);
    let running = call(&mut all.processes[0], &mut |_| {});
    let [stream, event, note] = begun.split('-').collect::<Vec<_>>()[..] else { panic!("{begun}") };
    let later = format!("{stream}-{}-{note}", event.parse::<u32>().expect("a number") + 3);
    let x = resume(&mut all, 0, &id, &later);
    // A number that no stream has is that of no call.
    let other = format!("{}-{event}-{note}", stream.parse::<u32>().expect("a number") + 7);
    let made_up = seek(&mut all, 0, &id, &other);
    assert_eq!(all.processes[0].response(made_up).status, 400);
    answer(&mut all, 0, &running);
    assert_done(&all, 0, x, 77);
    let again = resume(&mut all, 0, &id, &later.replace(&format!("-{note}"), &format!("0-{note}")));
    assert_done(&all, 0, again, 77);
    assert!(!has_call(&mut all, 0));
}

// covers: SSE-021
#[test]
fn stream_that_is_resumed_outlives_the_time_limit_of_its_wait() {
    let (mut all, id) = cluster(2);
    let (running, _, begun) = stream_call(&mut all, 1, &id, 77);
    let x = resume(&mut all, 1, &id, &begun);
    all.processes[1].advance(secs(20));
    all.settle();
    answer(&mut all, 1, &running);
    assert_done(&all, 1, x, 77);
}

// covers: SSE-021, SEC-018
#[test]
fn call_is_not_repeated_beyond_the_calls_of_a_session() {
    let (mut all, id, begun) = killed(2);
    let running: Vec<Call> = (0..64)
        .map(|request| {
            all.post(0, &id, &legacy_request(request, "tools/call", ECHO_PARAMS));
            call(&mut all.processes[0], &mut |_| {})
        })
        .collect();
    let x = seek(&mut all, 0, &id, &begun);
    assert_eq!(all.processes[0].response(x).status, 503);
    assert!(!has_call(&mut all, 0));
    // Its message is in the store still.
    answer(&mut all, 0, &running[0]);
    let x = seek(&mut all, 0, &id, &begun);
    run_call(&mut all, 0);
    assert_done(&all, 0, x, 77);
}

// covers: HTTP-070, SSE-027
#[test]
fn call_of_a_session_that_ends_does_not_wait_for_the_store() {
    for ends_at in [1, 0] {
        let (mut all, id) = cluster(2);
        let (_, x, _) = stream_call(&mut all, 1, &id, 77);
        assert_eq!(all.kept.len(), 1);
        all.held = Some(Vec::new());
        let deleted = all.delete(ends_at, &id);
        assert_eq!(all.processes[ends_at].response(deleted).status, 204);
        assert!(all.processes[1].response(x).is_complete);
        all.answer_held();
        assert!(answers(&all, 1, x).is_empty());
        assert!(
            all.kept.is_empty(),
            "ended at {ends_at}: the store keeps the message of no call that is over"
        );
    }
}

// covers: HTTP-070
#[test]
fn call_of_a_session_that_ends_while_its_message_is_stored_leaves_nothing_there() {
    for ends_at in [1, 0] {
        let (mut all, id) = cluster(2);
        all.held = Some(Vec::new());
        let x = all.post(1, &id, &legacy_request(77, "tools/call", ECHO_PARAMS));
        all.delete(ends_at, &id);
        all.answer_held();
        assert_eq!(all.processes[1].response(x).status, 404);
        assert!(all.kept.is_empty() && !has_call(&mut all, 1), "ended at {ends_at}");
    }
}

#[test]
fn only_a_cancellation_cancels_a_call_elsewhere() {
    let (mut all, id) = cluster(2);
    for (method, cancels) in [("progress", false), ("cancelled", true)] {
        let params = json!({"requestId": 7, "progressToken": 99, "progress": 1});
        let message =
            json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params});
        all.post(0, &id, &message.to_string());
        assert_eq!(!all.cancelled.is_empty(), cancels, "{method}");
    }
}
