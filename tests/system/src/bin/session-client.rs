//! A client that uses a session until its input ends, while the processes of the server end and start.
//!
//! At the end it prints one JSON line, in the format of `tests/peers/node/session-client.mjs`.

extern crate alloc;

use alloc::sync::Arc;
use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use std::{env, io, thread};

use mcp_blocking::{Client, ClientHandler, RpcError};
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult, SubscriptionFilter};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{CallOptions, Capabilities, Capability, Change, Limits, Version, VersionSet};
use serde_json::{Value, json};

/// Limit of one call, above its duration on a busy machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a change has to be heard of after all calls.
const NEWS_TIMEOUT: Duration = Duration::from_secs(10);

/// What was done and heard.
#[derive(Default)]
struct Notes {
    calls: u64,
    asked: u64,
    updates: u64,
    /// Number of handshakes: one more for each session that was lost.
    handshakes: usize,
    errors: Vec<String>,
}

#[derive(Clone, Default)]
struct NotingClient(Arc<Mutex<Notes>>);

impl NotingClient {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Notes the outcome of a call, whose result has to contain `expected`.
    fn note(&self, what: &str, outcome: Result<String, mcp_blocking::Error>, expected: &str) {
        let mut notes = self.lock();
        match outcome {
            Ok(text) if text.contains(expected) && !text.contains(r#""isError":true"#) => notes.calls += 1,
            Ok(text) => notes.errors.push(format!("{what} answers {text}")),
            Err(error) => notes.errors.push(format!("{what}: {error}")),
        }
    }
}

impl ClientHandler for NotingClient {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.lock().asked += 1;
        Ok(ElicitResult::accept([("username", "u".into()), ("email", "u@example.com".into())]))
    }

    fn changed(&self, _: &Change) {
        self.lock().updates += 1;
    }

    fn tap(&self, record: &TapRecord) {
        let is_sent = matches!(record.direction, Direction::Out);
        let message: Value = serde_json::from_slice(&record.bytes).unwrap_or_default();
        if is_sent && message["method"] == "initialize" {
            self.lock().handshakes += 1;
        }
    }
}

/// Makes a call of each kind at once, and waits for their results.
fn call_all(client: &Client, notes: &NotingClient, n: usize) {
    let options = CallOptions::new().timeout(CALL_TIMEOUT);
    let text = format!("text {n}");
    let calls = [
        ("count", json!({"to": 4, "delay_ms": 100}), options.clone().with_progress(), "content"),
        ("test_elicitation", json!({"message": "Who?"}), options.clone(), "accept"),
        ("echo", json!({"text": text}), options, &*text),
    ];
    let started = calls.map(|(tool, arguments, options, expected)| {
        let params = json!({"name": tool, "arguments": arguments});
        (tool, client.start("tools/call", &params, &options), expected)
    });
    for (tool, call, expected) in started {
        let outcome = call.and_then(|call| client.wait(call)).map(|result| result.as_str().to_owned());
        notes.note(tool, outcome, expected);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let (Some(url), Some(revision)) = (words.next(), words.next()) else {
        return Err("usage: session-client URL REVISION".into());
    };
    let version = Version::from_name(&revision).ok_or("unknown revision")?;
    let mut limits = Limits::default();
    limits.tap_records = 1_000;
    limits.tap_bytes = 16 << 20;
    let config = Config::new("session-client", "1.0.0").versions(VersionSet::only(version)).limits(limits);
    let config = config.capabilities(Capabilities::new().with(Capability::ElicitationForm));
    let notes = NotingClient::default();
    let client = Client::options(config).handler(notes.clone()).connect_url(&url)?;
    let filter = SubscriptionFilter::new().resource_subscriptions(["clock://running".into()]);
    // The process that is asked may be one that is killed.
    let subscribed = (0..10).find_map(|_| client.subscribe(&filter).ok());
    let (_, honoured) = subscribed.ok_or("nothing is subscribed to")?;
    if honoured.resource_subscriptions.is_none() {
        return Err("the server offers no subscriptions".into());
    }

    let is_ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&is_ended);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        end.store(true, Ordering::Relaxed);
    });
    let mut n = 0;
    while !is_ended.load(Ordering::Relaxed) {
        call_all(&client, &notes, n);
        client.poll(Duration::from_millis(20))?;
        n += 1;
    }
    // A change after all that happened.
    let before = notes.lock().updates;
    let end = Instant::now() + NEWS_TIMEOUT;
    while notes.lock().updates == before && Instant::now() < end {
        client.poll(Duration::from_millis(100))?;
    }
    {
        let notes = notes.lock();
        println!(
            "{}",
            json!({
                "calls": notes.calls,
                "asked": notes.asked,
                "updates": notes.updates,
                "errors": notes.errors,
                "sessions": (1..=notes.handshakes).collect::<Vec<_>>(),
                "heardAfter": notes.updates > before,
            })
        );
    }
    client.close()?;
    Ok(())
}
