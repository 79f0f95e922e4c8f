//! Each bound under attack: a hostile peer that pushes against it for as long as it takes, and the most bytes that it gets,
//! beside the worst case that the page about deployment names (`tests/limits.tsv`).
//!
//! The worst case may not be exceeded, and has to be reached by half: a bound that is much too high says nothing. The bytes
//! are those of a growing buffer while it is moved, too: old and new block are there at once.

use core::fmt::{Debug, Write as _};
use std::path::Path;
use std::{env, fs};

use alloc::sync::Arc;

use mcp_proto::h1::{self, HttpLimits};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::model::{CallToolResult, InputRequest, InputRequests};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{Anchor, CallOptions, Capabilities, Capability, Instant, Limit, Limits, UseError, client};
use serde_json::{Value, json};

use crate::{NOW, call, confirm, echo, feed, line, meta, server, within};

/// The fields whose bound is a number or a time, or bytes that are part of others, and the test in which it is reached: what is
/// within passes, and what is beyond does not.
const COUNTED: &[(&str, &str, &str)] = &[
    ("max_noise_bytes", "protocol/tolerance.rs", "long_noise_is_truncated"),
    ("max_faulty_messages", "protocol/limits.rs", "connection_closes_after_max_faulty_messages_in_a_row"),
    (
        "max_early_cancellations",
        "protocol/http_server/early_cancellation.rs",
        "early_cancellations_are_bounded_per_session_and_in_total",
    ),
    ("max_events", "protocol/http_server/retention.rs", "notifications_beyond_max_events_are_503"),
    ("max_batch", "protocol/batches.rs", "batch_beyond_max_batch_is_refused"),
    ("max_input_rounds", "protocol/rounds.rs", "call_fails_after_max_input_rounds"),
    ("max_inputs", "protocol/http_server/retention.rs", "session_is_limited_in_pending_input_requests"),
    ("max_meta_cache", "protocol/limits.rs", "metadata_beyond_max_meta_cache_is_not_cached"),
    ("memory_reserve", "bounded_heap/hostile.rs", "client_that_reads_no_answers_ends_nothing_and_loses_none"),
    (
        "max_memory",
        "bounded_heap/max_memory.rs",
        "max_memory_holds_over_http_and_the_next_client_is_told_and_then_served",
    ),
    ("call_timeout", "protocol/timeouts.rs", "default_timeouts_are_configurable"),
    ("call_total_timeout", "protocol/timeouts.rs", "default_timeouts_are_configurable"),
    ("input_backoff", "protocol/rounds.rs", "state_only_rounds_are_retried_with_growing_delay"),
    ("probe_timeout", "protocol/slow_start.rs", "probe_and_init_timeouts_are_configurable"),
    ("init_timeout", "protocol/slow_start.rs", "probe_and_init_timeouts_are_configurable"),
    ("max_call_age", "protocol/batches.rs", "unfinished_batch_is_answered_at_max_call_age"),
    ("input_timeout", "protocol/inputs_server.rs", "request_state_expires_after_input_timeout"),
    ("eof_grace_period", "protocol/limits.rs", "calls_end_after_eof_grace_period"),
    ("idle_trim_delay", "protocol/limits.rs", "memory_is_released_after_idle_trim_delay"),
    ("progress_burst", "protocol/progress.rs", "progress_limits_are_per_call_and_configurable"),
    ("progress_rate", "protocol/progress.rs", "progress_limits_are_per_call_and_configurable"),
    ("tap_records", "protocol/tap.rs", "records_beyond_the_tap_limits_are_counted_as_dropped"),
    ("max_drain", "smuggling/exchanges.rs", "early_response_drops_small_rest_and_closes_on_large_rest"),
    ("head_timeout", "smuggling/timeouts.rs", "head_times_out_ten_seconds_after_its_first_byte"),
    ("body_idle_timeout", "smuggling/timeouts.rs", "body_times_out_after_pause_or_five_minutes"),
    ("body_timeout", "smuggling/timeouts.rs", "body_times_out_after_pause_or_five_minutes"),
    ("keep_alive", "smuggling/timeouts.rs", "idle_connection_is_closed_without_response"),
    ("max_linger", "protocol/connection_admission.rs", "lingering_ends_after_a_bounded_number_of_bytes"),
    ("min_rate", "protocol/connection_admission.rs", "reader_of_single_bytes_is_evicted"),
    ("max_request_state", HERE, "state_beyond_max_request_state_is_refused"),
    ("max_fields", HERE, "requests_pass_at_each_http_limit_and_are_refused_beyond_it"),
    ("max_body", HERE, "requests_pass_at_each_http_limit_and_are_refused_beyond_it"),
    ("max_extensions", HERE, "requests_pass_at_each_http_limit_and_are_refused_beyond_it"),
    ("max_interim", "smuggling/responses.rs", "response_rows_have_expected_outcome_at_every_cut"),
    ("drain_timeout", HERE, "connection_that_drains_or_is_idle_changes_at_its_time"),
    ("idle_trim", HERE, "connection_that_drains_or_is_idle_changes_at_its_time"),
];

const HERE: &str = "bounded_heap/every_limit.rs";
/// What an engine takes before a peer has sent anything, with the first entries of its tables.
const EMPTY: usize = 8 << 10;

/// One attack: the field and its value, the documented worst case, its bytes, and the most bytes that were held.
struct Row {
    field: &'static str,
    value: usize,
    formula: String,
    documented: usize,
    highest: usize,
}

/// Returns the value of a field, as `Debug` writes it.
fn value(limits: &dyn Debug, field: &str) -> usize {
    let text = format!("{limits:?}");
    let (_, rest) = text.split_once(&format!(" {field}: ")).unwrap_or_else(|| panic!("no field {field}"));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or_else(|_| panic!("{field} is no number"))
}

/// Returns what the page about deployment says that a field costs.
fn formula(field: &str) -> String {
    let page = fs::read_to_string(root().join("core/src/guide/security_deployment.md")).expect("the page");
    let row = page.lines().find(|row| row.starts_with(&format!("| `{field}` |"))).expect("a row");
    row.trim_end_matches([' ', '|']).rsplit_once("| ").expect("a cell").1.replace('`', "")
}

/// Returns the bytes that a formula means: a sum of products of amounts and fields.
fn evaluate(formula: &str, limits: &dyn Debug) -> usize {
    let factor = |text: &str| match text.split_once(' ') {
        Some((number, "B")) => number.parse().expect("a number"),
        Some((number, "KiB")) => number.parse::<usize>().expect("a number") << 10,
        _ => text.parse().unwrap_or_else(|_| value(limits, text)),
    };
    formula.split(" + ").map(|term| term.split(" × ").map(factor).product::<usize>()).sum()
}

fn peak(attack: impl FnOnce()) -> usize {
    let ((), highest) = within(isize::MAX / 2, attack);
    usize::try_from(highest).expect("bytes")
}

fn row(field: &'static str, limits: &dyn Debug, attack: impl FnOnce()) -> Row {
    let formula = formula(field);
    let documented = evaluate(&formula, limits) + EMPTY;
    Row { field, value: value(limits, field), formula, documented, highest: peak(attack) }
}

/// Measures what a message takes beside one of the same length that does not push against the bound.
fn row_beside(field: &'static str, limits: &Limits, message: &[u8]) -> Row {
    let take = |message: &[u8]| {
        let mut server = server(limits.clone());
        server.handle_input(NOW, message);
        let Some(Event::Call(call)) = server.poll_event(NOW) else { panic!("{field}: a call") };
        drop(call);
    };
    let usual = call(1, "echo", message.len() - call(1, "echo", 0).len());
    let before = peak(|| take(&usual));
    let mut row = row(field, limits, || take(message));
    row.highest -= before;
    row
}

/// Feeds messages to a server for as long as it reads, in pieces of 4 KiB, and keeps its calls.
fn push(server: &mut Server, input: &[u8], calls: &mut Vec<Call>) {
    for piece in input.chunks(4 << 10) {
        if !server.wants_input() {
            return;
        }
        server.handle_input(NOW, piece);
        while let Some(event) = server.poll_event(NOW) {
            if let Event::Call(call) = event {
                calls.push(call);
            }
        }
    }
}

fn limits(set: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits);
    limits
}

fn calls(count: usize, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|id| call(id, "echo", length)).collect()
}

/// Messages that are too long, too deep, or have too many members.
fn of_messages() -> Vec<Row> {
    let long = limits(|l| l.max_frame = 1 << 20);
    let message = call(1, "echo", long.max_frame + 5_000);
    let nested = |text: &str| {
        let params = json!({ "name": "echo", "arguments": { "text": 0 }, "_meta": meta() });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        line(&request)
            .split_inclusive(|byte| *byte == b'}')
            .flat_map(|part| {
                String::from_utf8(part.to_vec()).expect("text").replace("\"text\":0", text).into_bytes()
            })
            .collect::<Vec<u8>>()
    };
    let deep = limits(|l| l.max_depth = 1 << 20);
    let levels = deep.max_depth as usize - 4;
    let depth = nested(&format!("\"text\":{}{}", "[".repeat(levels), "]".repeat(levels)));
    let wide = limits(|l| l.max_members = 65_536);
    let members: Vec<String> = (0..wide.max_members).map(|n| format!("\"m{n}\":0")).collect();
    let members = nested(&members.join(","));
    vec![
        row("max_frame", &long, || {
            push(&mut server(long.clone()), &message[..=long.max_frame], &mut Vec::new())
        }),
        row_beside("max_depth", &deep, &depth),
        row_beside("max_members", &wide, &members),
    ]
}

/// Calls that no handler ends, and those that wait behind them.
fn of_calls() -> Vec<Row> {
    let mut rows = Vec::new();
    let live = limits(|l| (l.max_live_calls, l.max_frame) = (64, 32 << 10));
    let ids = limits(|l| (l.max_live_calls, l.max_id) = (64, 8 << 10));
    let with_ids: Vec<Vec<u8>> = (0..70)
        .map(|n| {
            let id = format!("{n:0>width$}", width = ids.max_id - 2);
            let params = json!({ "name": "echo", "_meta": meta() });
            line(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
        })
        .collect();
    for (field, limits, messages) in
        [("max_live_calls", live, calls(72, (32 << 10) - 300)), ("max_id", ids, with_ids)]
    {
        rows.push(row(field, &limits, || {
            let mut server = server(limits.clone());
            let mut calls = Vec::with_capacity(64);
            messages.iter().for_each(|message| push(&mut server, message, &mut calls));
            assert_eq!(calls.len(), 64, "{field}");
        }));
    }
    let bytes = limits(|l| {
        (l.max_live_calls, l.max_waiting_requests, l.max_waiting_bytes, l.max_frame) =
            (1, 10_000, 1 << 20, 1 << 20);
    });
    // The last one that waits exceeds the bound by as much as a message may have.
    let longest = [calls(1, 10), calls(4, (1 << 20) - 300).split_off(1)].concat();
    let requests = limits(|l| {
        (l.max_live_calls, l.max_waiting_requests, l.max_waiting_bytes) = (1, 4_096, 1 << 30);
    });
    for (field, limits, messages) in
        [("max_waiting_bytes", bytes, longest), ("max_waiting_requests", requests, calls(5_000, 0))]
    {
        rows.push(row(field, &limits, || {
            let mut server = server(limits.clone());
            let mut calls = Vec::with_capacity(1);
            messages.iter().for_each(|message| push(&mut server, message, &mut calls));
            assert!(!server.wants_input(), "{field}");
        }));
    }
    rows
}

/// Answers that nobody reads, and records that nobody takes.
fn of_output() -> Vec<Row> {
    let mut rows = Vec::new();
    let messages = calls(400, 7_000);
    let outbox = limits(|l| (l.outbox_high_water, l.max_live_calls, l.max_frame) = (1 << 20, 16, 64 << 10));
    let longest = calls(16, (64 << 10) - 300);
    rows.push(row("outbox_high_water", &outbox, || {
        let mut server = server(outbox.clone());
        // As many answers as are just too few, and calls that are answered then.
        for message in &messages[..(1 << 20) / 7_400] {
            let mut calls = Vec::new();
            push(&mut server, message, &mut calls);
            calls.into_iter().for_each(|call| echo(&mut server, call));
        }
        let mut calls = Vec::new();
        longest.iter().for_each(|message| push(&mut server, message, &mut calls));
        assert_eq!(calls.len(), 16);
        calls.into_iter().for_each(|call| echo(&mut server, call));
        assert!(!server.wants_input());
    }));
    let tap = limits(|l| (l.tap_records, l.tap_bytes) = (100_000, 1 << 20));
    rows.push(row("tap_bytes", &tap, || {
        let mut server = server(tap.clone());
        for message in &messages {
            feed_whole(&mut server, message);
        }
        assert!(server.engine().tap_dropped() > 0);
    }));
    let batch = limits(|l| (l.max_batch_bytes, l.outbox_high_water) = (1 << 20, 8 << 20));
    let text = "z".repeat(30_000);
    let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let first = line(&json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params }));
    let second = line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "echo", "arguments": {} } });
    let third = line(&(0..60).map(call).collect::<Value>());
    rows.push(row("max_batch_bytes", &batch, || {
        let mut server = server(batch.clone());
        feed_whole(&mut server, &first);
        feed_whole(&mut server, &second);
        server.consume(server.transmit().len());
        feed(&mut server, &third, &mut |server, call| {
            server.engine().complete(NOW, call.id(), &CallToolResult::text(&*text)).expect("an answer");
        });
        assert!(server.transmit().windows(7).any(|part| part == b"\"error\""), "not all fit");
    }));
    rows
}

fn feed_whole(server: &mut Server, message: &[u8]) {
    server.handle_input(NOW, message);
    while let Some(event) = server.poll_event(NOW) {
        if let Event::Call(call) = event {
            confirm(server, call);
        }
    }
    server.consume(server.transmit().len());
}

/// What a server keeps of its client: subscriptions, and the description.
fn of_sessions() -> Vec<Row> {
    let mut rows = Vec::new();
    // The longest ids, which are kept.
    let listen = |n: usize, filter: &Value| {
        let params = json!({ "notifications": filter, "_meta": meta() });
        let id = format!("{n:0>254}");
        line(&json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params }))
    };
    for (field, resources, uri) in
        [("max_subscribed_resources", 1_024, 256), ("max_uri", 64, 8 << 10), ("max_subscriptions", 2_048, 0)]
    {
        let messages: Vec<Vec<u8>> = (0..resources + 8)
            .map(|n| match uri {
                0 => listen(n, &json!({ "toolsListChanged": true })),
                _ => listen(
                    n,
                    &json!({ "resourceSubscriptions": [format!("x://{n:u>width$}", width = uri - 4)] }),
                ),
            })
            .collect();
        let limits = limits(|l| {
            l.max_subscribed_resources = resources;
            l.max_subscriptions = if uri == 0 { resources } else { 4 * resources };
            l.max_live_calls = 10_000;
            l.max_uri = uri.max(64);
        });
        rows.push(row(field, &limits, || {
            let mut server = server(limits.clone());
            let mut refused = 0;
            for message in &messages {
                push(&mut server, message, &mut Vec::new());
                refused += usize::from(server.transmit().windows(7).any(|part| part == b"\"error\""));
                server.consume(server.transmit().len());
            }
            // What has no resource left is accepted, and not honoured.
            assert_eq!(refused, if field == "max_subscriptions" { 8 } else { 0 }, "{field}");
        }));
    }
    let info = limits(|l| l.max_peer_info = 256 << 10);
    let name = "n".repeat(info.max_peer_info - 100);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" } });
    let message = line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    rows.push(row("max_peer_info", &info, || {
        let mut server = server(info.clone());
        push(&mut server, &message, &mut Vec::new());
        assert!(!server.transmit().windows(7).any(|part| part == b"\"error\""));
    }));
    rows
}

/// Calls of a client whose server answers nothing, before and after its handshake.
fn of_clients() -> Vec<Row> {
    let queued = limits(|l| l.max_queued_bytes = 1 << 20);
    let retained = limits(|l| (l.max_retained_bytes, l.max_pending_calls) = (1 << 20, 10_000));
    let pending = limits(|l| l.max_pending_calls = 2_048);
    [
        ("max_queued_bytes", queued, 5_000, false),
        ("max_retained_bytes", retained, 5_000, true),
        ("max_pending_calls", pending, 0, true),
    ]
    .map(|(field, limits, length, is_ready)| {
        let arguments = json!({ "text": "q".repeat(length) });
        row(field, &limits, || {
            let config = client::Config::new("c", "1").limits(limits.clone());
            let mut client = Client::new(Arc::new(config), NOW);
            if is_ready {
                client.engine().call_tool(NOW, "echo", &json!({}), &CallOptions::new()).expect("a call");
                let sent: Value = serde_json::from_slice(client.transmit()).expect("a probe");
                client.consume(client.transmit().len());
                let result = json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "resultType": "complete" });
                client.handle_input(NOW, &line(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": result })));
                while client.poll_event(NOW).is_some() {}
            }
            let mut count = 0;
            let refused = loop {
                if is_ready {
                    client.consume(client.transmit().len());
                }
                match client.engine().call_tool(NOW, "echo", &arguments, &CallOptions::new()) {
                    Ok(_) => count += 1,
                    Err(refused) => break refused,
                }
                assert!(count < 10_000, "{field}");
            };
            assert!(matches!(&refused, UseError::Full(limit) if limit.name() == field), "{field}: {refused}");
        })
    })
    .into()
}

fn of_http() -> Vec<Row> {
    let limits = |bytes: usize| {
        let mut limits = HttpLimits::default();
        (limits.max_head, limits.max_buffered) = (bytes, bytes);
        limits
    };
    let limits = limits(256 << 10);
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "y".repeat(2 * limits.max_head));
    let requests = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(limits.max_buffered / 13);
    [("max_head", head), ("max_buffered", requests)]
        .map(|(field, input)| {
            row(field, &limits, || {
                let mut connection = h1::server::Connection::new(NOW, limits.clone());
                for piece in input.as_bytes().chunks(4 << 10) {
                    if connection.wants_input() {
                        connection.handle_input(NOW, piece);
                        while connection.poll_event(NOW, |_, _| ()).is_some() {}
                    }
                }
            })
        })
        .into()
}

fn all_rows() -> Vec<Row> {
    [of_messages(), of_calls(), of_output(), of_sessions(), of_clients(), of_http()]
        .into_iter()
        .flatten()
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

#[test]
fn each_bound_of_memory_is_reached_and_not_exceeded() {
    let mut table = String::from("# field\tvalue\tdocumented worst case\tits bytes\thighest bytes held\n");
    let rows = all_rows();
    let mut wrong = String::new();
    for Row { field, value, formula, documented, highest } in &rows {
        println!("{field} = {value}: {highest} bytes, documented {formula}: {documented}");
        let _ = writeln!(table, "{field}\t{value}\t{formula}\t{documented}\t{highest}");
        if highest > documented {
            let _ = writeln!(wrong, "{field}: {highest} bytes are more than {documented}");
        } else if 2 * highest < *documented {
            let _ = writeln!(wrong, "{field}: {highest} bytes: {documented} says nothing");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let path = root().join("tests/limits.tsv");
    for (field, file, test) in COUNTED {
        let _ = writeln!(table, "{field}\t\tnot bytes\t\ttests/{file}: {test}");
    }
    if env::var_os("UPDATE_LIMITS").is_some() {
        return fs::write(path, table).expect("the table can be written");
    }
    let recorded = fs::read_to_string(path).expect("the table");
    assert_eq!(recorded.lines().count(), table.lines().count(), "UPDATE_LIMITS=1 writes the table");
    for (recorded, now) in recorded.lines().zip(table.lines()) {
        let ((left, was), (right, is)) =
            (recorded.rsplit_once('\t').expect("a row"), now.rsplit_once('\t').expect("a row"));
        // Sizes of structures differ between releases of the compiler, and of the crates that grow buffers.
        let is_near = match (was.parse::<usize>(), is.parse::<usize>()) {
            (Ok(was), Ok(is)) => was.abs_diff(is) <= was / 16,
            _ => was == is,
        };
        assert!(left == right && is_near, "{recorded} is now {now}: UPDATE_LIMITS=1 writes the table");
    }
}

/// Returns the fields of a structure of the core.
fn fields(file: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).expect("a source file");
    let start = text.find(&format!("pub struct {name} {{")).expect("the structure");
    let body = &text[start..];
    let body = &body[..body.find("\n}").expect("its end")];
    let field = |line: &str| Some(line.strip_prefix("    pub ")?.split_once(':')?.0.to_owned());
    body.lines().filter_map(field).collect()
}

#[test]
fn every_field_of_the_limits_is_attacked() {
    let table = fs::read_to_string(root().join("tests/limits.tsv")).expect("the table");
    let attacked: Vec<&str> =
        table.lines().skip(1).map(|row| row.split('\t').next().expect("a field")).collect();
    let mut all = fields("core/src/limits.rs", "Limits");
    all.extend(fields("core/src/h1/mod.rs", "HttpLimits"));
    assert!(all.len() > 50, "{all:?}");
    for field in &all {
        let count = attacked.iter().filter(|name| *name == field).count();
        assert_eq!(count, 1, "`{field}` has one attack");
    }
    assert_eq!(attacked.len(), all.len(), "there are attacks on other fields");
    for (field, file, test) in COUNTED {
        let text = fs::read_to_string(root().join("tests").join(file)).expect("the tests of a limit");
        assert!(text.contains(&format!("fn {test}(")), "{file} has no `{test}` for `{field}`");
    }
}

#[test]
fn requests_pass_at_each_http_limit_and_are_refused_beyond_it() {
    type Request<'a> = &'a dyn Fn(usize) -> String;
    let mut limits = HttpLimits::default();
    (limits.max_fields, limits.max_body, limits.max_extensions) = (9, 1_000, 50);
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    let with_fields = |n: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(n - 1));
    let with_body =
        |n: usize| format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {n}\r\n\r\n{}", "b".repeat(n));
    let with_extensions = |n: usize| format!("{chunked}{}\r\nb\r\n0\r\n\r\n", "e".repeat(n));
    let cases: [(&str, usize, &str, Request<'_>); 3] = [
        ("max_fields", 9, "431", &with_fields),
        ("max_body", 1_000, "413", &with_body),
        ("max_extensions", 50, "400", &with_extensions),
    ];
    for (field, most, status, request) in cases {
        assert_eq!(value(&limits, field), most);
        for length in [most, most + 1] {
            let mut connection = h1::server::Connection::new(NOW, limits.clone());
            connection.handle_input(NOW, request(length).as_bytes());
            while connection.poll_event(NOW, |_, _| ()).is_some() {}
            let is_refused = connection.transmit().starts_with(format!("HTTP/1.1 {status}").as_bytes());
            assert_eq!(
                (is_refused, connection.unsent_len() > 0),
                (length > most, length > most),
                "{field}: {length}"
            );
        }
    }
}

#[test]
fn connection_that_drains_or_is_idle_changes_at_its_time() {
    let mut limits = HttpLimits::default();
    limits.drain_timeout = core::time::Duration::from_millis(700);
    limits.idle_trim = core::time::Duration::from_millis(900);
    let mut connection = h1::server::Connection::new(NOW, limits.clone());
    connection.handle_input(NOW, b"nonsense\r\n\r\n");
    while connection.poll_event(NOW, |_, _| ()).is_some() {}
    connection.consume(connection.unsent_len());
    let end = NOW + limits.drain_timeout;
    assert_eq!(connection.poll_timeout(), Some(end));
    connection.handle_timeout(Instant::from_micros(end.as_micros() - 1));
    assert!(!connection.wants_close());
    connection.handle_timeout(end);
    assert!(connection.wants_close());
    let mut connection = h1::server::Connection::new(NOW, limits.clone());
    connection.handle_input(NOW, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    while connection.poll_event(NOW, |_, _| ()).is_some() {}
    connection.respond(NOW, 200, &Fields::new(), BodySize::None).expect("the response");
    connection.end(NOW).expect("its end");
    connection.consume(connection.unsent_len());
    while connection.poll_event(NOW, |_, _| ()).is_some() {}
    assert_eq!(connection.poll_timeout(), Some(NOW + limits.idle_trim));
    let held = crate::LIVE.get();
    connection.handle_timeout(Instant::from_micros((NOW + limits.idle_trim).as_micros() - 1));
    assert_eq!(crate::LIVE.get(), held);
    connection.handle_timeout(NOW + limits.idle_trim);
    assert!(crate::LIVE.get() < held, "the buffers are freed");
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn state_beyond_max_request_state_is_refused() {
    let limits = limits(|l| l.max_request_state = 1_000);
    let config = Config::new("server", "1")
        .capabilities(Capabilities::new().with(Capability::Tools))
        .limits(limits.clone())
        .seal(Keys::new([7; 32]), Anchor::new(NOW, 1_800_000_000));
    let mut server = Server::new(Arc::new(config), NOW);
    let mut requests = InputRequests::new();
    requests.insert("a", InputRequest::ListRoots(None));
    let (mut longest, mut refused) = (0, 0);
    for length in 0..1_000 {
        let mut meta = meta();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "roots": {} });
        let params = json!({ "name": "echo", "_meta": meta });
        server.handle_input(
            NOW,
            &line(&json!({ "jsonrpc": "2.0", "id": length, "method": "tools/call", "params": params })),
        );
        let Some(Event::Call(call)) = server.poll_event(NOW) else { panic!("a call") };
        match server.engine().need_input(NOW, &call, &requests, &vec![b's'; length]) {
            Ok(_) => {
                assert_eq!(refused, 0, "{length}: a shorter one was refused");
                let sent: Value = serde_json::from_slice(server.transmit()).expect("a result");
                longest = sent["result"]["requestState"].as_str().expect("a state").len();
            }
            Err(refusal) => {
                assert!(format!("{refusal:?}").contains("RequestState"), "{refusal:?}");
                assert_eq!(Limit::RequestState.name(), "max_request_state");
                refused += 1;
            }
        }
        server.consume(server.transmit().len());
    }
    assert!(refused > 0 && longest <= 1_000 && longest > 990, "{longest}");
}
