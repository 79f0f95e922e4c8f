//! Events with packages of others: a client with its receiver, a server, and a verifier of signatures.
//!
//! `peers/events` has the programs. Each test performs its rows of the section about events of `tests/INTEROP.md`, and compares
//! them with the page. This command runs them all and writes the section:
//!
//! ```sh
//! cargo test -p mcp-system-tests --features every-peer --test system -- --ignored events_section
//! ```

mod peer;

use alloc::sync::Arc;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use mcp_blocking::Client;
use mcp_events::client::{BlockingEventsClient, WebhookOptions};
use mcp_events::receive::{ReceiverServer, ServerTls};
use mcp_events::receiver::{Limits, Message, Receiver};
use mcp_events::subscription::SubscriptionEvent;
use mcp_events::webhook::{Secret, SubscriptionKey};
use mcp_events::wire::{
    DeliveryMode, EventsError, EventsErrorKind, Profile, SubscribeEventsParams, UnsubscribeEventsParams,
    WebhookDelivery, WebhookTarget,
};
use mcp_proto::client::Config as ClientConfig;
use mcp_proto::http::client::{Config as HttpClient, Credential};
use mcp_proto::{RawJson, VersionSet};
use serde_json::{Value, json};

use super::table::page::{EVENTS, split_sections};
use super::table::page_file;
use super::{LEGACY, MODERN};
use crate::hosted_server::HostedServer;
use crate::node::locked_node;
use crate::peers::{is_npm_ready, is_venv_ready, peers, probe_client, venv_program};
use crate::run::{DEADLINE, ProcessOutput, print_line, run};
use peer::{NOBODY, OwnServer, Peer, USER, certificate};

const HEAD: &str = "
The Events extension (SEP-3415) with packages of others, as npm and PyPI have them (`tests/peers/events`). The codes of errors
are those of the SEP (-3202x) or those of its sketch and ChatGPT (-3201x). `@ai-sdk/mcp` is a client and a receiver of webhooks,
`mcp-webhook-events` a server; `standardwebhooks` verifies signatures, and our ids are compared with those that
`mcp-webhook-events` makes. FastMCP 4.2.3, `@mastra/mcp` 2.0.0, `@tanstack/ai-mcp` 0.2.5 and `skybridge` 2.0.0 are the newest that
the registries had in November 2026, and have no events; nothing of Upstash was found there. This command writes this section:

```sh
cargo test -p mcp-system-tests --features every-peer --test system \\
    -- --ignored events_section
```

| step | what is done |
|---|---|
| list | the event types arrive, with their modes |
| challenge | the receiver takes the challenge, and the subscription is granted |
| id | the subscription has the id that our construction gives |
| deliver | events that match arrive at the receiver, verified, and no others |
| refresh | the same subscription is granted again |
| rotate | the secret is replaced, and what is delivered then is verified |
| gap, terminated | both control envelopes arrive |
| refusal | a receiver that is not there is told by code and reason |
| unsubscribe | it succeeds, and nothing is delivered any more |

";

const STEPS: [&str; 10] = [
    "list",
    "challenge",
    "id",
    "deliver",
    "refresh",
    "rotate",
    "gap",
    "terminated",
    "refusal",
    "unsubscribe",
];

const NO_CONTROLS: &str =
    "ChatGPT's profile has no control envelopes: a gap is `truncated` at the next refresh";
const ONE_SECRET: &str = "this client keeps one secret for a subscription";
const WEBHOOKS_ALONE: &str = "this server sends no control envelopes";
const NO_LIST: &str = "no client of a peer takes part";

/// Outcome of the steps of a peer, in the order of [`STEPS`]: none if a step passes, and else why the peer cannot do it.
struct Row {
    name: String,
    cells: [Option<&'static str>; STEPS.len()],
}

impl Row {
    fn new(name: String) -> Self {
        Self { name, cells: [None; STEPS.len()] }
    }

    fn cannot(mut self, steps: &[&str], reason: &'static str) -> Self {
        for step in steps {
            let at = STEPS.iter().position(|name| name == step).expect("a step");
            self.cells[at] = Some(reason);
        }
        self
    }

    /// Returns the line of the page.
    fn line(&self) -> String {
        const REASONS: [&str; 4] = [NO_CONTROLS, ONE_SECRET, WEBHOOKS_ALONE, NO_LIST];
        let mut line = format!("| {} |", self.name);
        for cell in self.cells {
            let letter = cell
                .and_then(|reason| ["a", "b", "c", "d"].into_iter().zip(REASONS).find(|(_, r)| *r == reason));
            line.push_str(&format!(" {} |", letter.map_or("pass", |(letter, _)| letter)));
        }
        line
    }
}

/// Prints rows, and compares them with the page.
fn check(rows: &[Row]) {
    let page = fs::read_to_string(page_file()).expect("the page");
    let [_, committed, _] = split_sections(&page);
    for row in rows {
        let line = row.line();
        print_line(&format!("interop of events: {line}"));
        let is_there = committed.lines().any(|other| other == line);
        assert!(is_there, "tests/INTEROP.md has no row {line}; run `events_section` to update it");
    }
}

fn folder() -> PathBuf {
    peers().join("events")
}

fn is_ready(needs_node: bool) -> bool {
    let what = "interop of events with packages of others";
    match needs_node {
        true => is_npm_ready(&folder(), what),
        false => is_venv_ready(&folder(), what),
    }
}

fn key(url: &str, name: &str, arguments: &Value) -> String {
    let arguments = RawJson::encode(arguments).expect("JSON");
    SubscriptionKey::new(USER, url, name, &arguments).expect("canonical").id()
}

/// Returns the event ids of `count` lines of a peer.
fn branches(peer: &mut Peer, count: usize) -> Vec<String> {
    let branch = |line: &Value| line["event"]["data"]["branch"].as_str().expect("a branch").to_owned();
    (0..count).map(|_| branch(&peer.line("event"))).collect()
}

// ---- a client of others ------------------------------------------------------------------------------------------

/// Performs the steps of the AI SDK with our server.
fn ai_sdk(profile: Profile, codes: &str, revision: &str) -> Row {
    let era = if revision == MODERN { "modern" } else { "legacy" };
    let mut words = Command::new(locked_node(&folder().join("node_modules")));
    words.current_dir(folder()).arg("client.mjs").args([USER, "--era", era]);
    words.arg("--certificate").arg(certificate("server.pem")).arg("--key").arg(certificate("key.pem"));
    let mut client = Peer::start(words);
    let callback = client.line("listening")["listening"].as_str().expect("a URL").to_owned();
    let server = OwnServer::start(profile, &[&callback]);

    let connected = client.ask(&json!(["connect", server.url]));
    assert_eq!(connected["revision"], revision);
    let listed = client.ask(&json!(["list"]));
    let described = &listed["events"][0];
    assert_eq!(described["name"], "build.finished");
    let modes = if era == "modern" { json!(["poll", "push", "webhook"]) } else { json!(["poll", "webhook"]) };
    assert_eq!(described["delivery"], modes);

    let main = json!({"branch": "main", "limit": 5});
    let granted = client.ask(&json!(["subscribe", "build.finished", main]));
    assert_eq!(client.line("answered")["answered"], 200, "the challenge");
    let (url, of_client) = (granted["url"].as_str().expect("a URL"), &granted["key"]);
    assert_eq!(granted["id"], key(url, "build.finished", &main));
    assert!(granted["refreshBefore"].is_string() && granted["cursor"].is_string(), "{granted}");
    ["main", "other", "main"].into_iter().for_each(|branch| server.publish(branch));
    assert_eq!(branches(&mut client, 2), ["main", "main"]);
    let refreshed = client.ask(&json!(["refresh", of_client]));
    assert_eq!((&refreshed["id"], &refreshed["truncated"]), (&granted["id"], &json!(false)));

    server.publisher.report_gap().expect("a type");
    if profile.has_control_envelopes {
        let gap = client.line("gap");
        assert!(gap["gap"]["cursor"].is_string() && gap["id"] == granted["id"], "{gap}");
    } else {
        assert_eq!(client.ask(&json!(["refresh", of_client]))["truncated"], true);
    }

    let refused = client.try_ask(&json!(["subscribe", "build.finished", main, NOBODY]));
    let error = &refused["error"];
    let code = EventsErrorKind::CallbackEndpoint.code(profile.codes);
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(code), &json!("connection_refused")));

    client.ask(&json!(["unsubscribe", of_client]));
    server.publish("main");
    let other = client.ask(&json!(["subscribe", "build.finished", {"branch": "other"}]));
    server.publish("other");
    assert_eq!(branches(&mut client, 1), ["other"]);
    let revoked = EventsError::Forbidden("revoked".into());
    assert_eq!(server.events.terminate(|_, _| Some(revoked.clone())), 1);
    if profile.has_control_envelopes {
        let end = client.line("terminated");
        let code = EventsErrorKind::Forbidden.code(profile.codes);
        assert_eq!((&end["terminated"]["error"]["code"], &end["id"]), (&json!(code), &other["id"]));
    }
    client.ask(&json!(["end"]));
    // A delivery of what was unsubscribed would be refused: the client has forgotten it.
    let rest = client.end();
    let is_bad =
        |line: &Value| line.get("answered").is_none_or(|status| !matches!(status.as_u64(), Some(200 | 204)));
    assert!(!rest.iter().any(is_bad), "{rest:?}");
    server.stop();
    let row = Row::new(format!("`@ai-sdk/mcp` 2.0.99 | our server | {revision} | {codes}"));
    let row = row.cannot(&["rotate"], ONE_SECRET);
    if profile.has_control_envelopes { row } else { row.cannot(&["gap", "terminated"], NO_CONTROLS) }
}

fn ai_sdk_rows() -> Vec<Row> {
    let rows = [
        (Profile::SEP, "SEP", MODERN),
        (Profile::CHATGPT, "sketch", MODERN),
        (Profile::CHATGPT, "sketch", LEGACY),
    ];
    rows.into_iter().map(|(profile, codes, revision)| ai_sdk(profile, codes, revision)).collect()
}

// covers: EVT-001, EVT-010, EVT-074, EVT-075, EVT-076, EVT-080, EVT-090, EVT-091, EVT-092, EVT-104, EVT-113, EVT-115, EVT-130
#[test]
fn client_of_ai_sdk_receives_from_own_server() {
    if is_ready(true) {
        check(&ai_sdk_rows());
    }
}

// ---- a server of others ------------------------------------------------------------------------------------------

/// Runs `mcp-probe ARGS`.
fn probe(args: &[&str]) -> ProcessOutput {
    let mut client = probe_client();
    client.args(args);
    run(client, DEADLINE).expect("mcp-probe starts")
}

/// Writes a new secret to a file, and returns its path.
fn secret_file(name: &str, secret: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, secret).expect("room for a file");
    path.to_str().expect("UTF-8").to_owned()
}

const SECRETS: [&str; 2] =
    ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7"];

/// Performs the steps of `mcp-probe` with the server on Python, whose deliveries `mcp-probe events receive` takes.
fn python_server(revision: &str) -> Row {
    let mut words = Command::new(venv_program(&folder(), "python"));
    words.current_dir(folder()).args(["server.py", "--user", USER]);
    words.env("SSL_CERT_FILE", certificate("root.pem"));
    let server = HostedServer::start(words);
    let url = &*server.url;
    let at = ["--protocol-version", revision, url];
    let command = |args: &[&str]| probe(&[args, &at].concat());

    let listed = command(&["events", "list", "--json"]).assert_success().json();
    let described = &listed["events"][0];
    assert_eq!((&described["name"], &described["delivery"]), (&json!("ticket.updated"), &json!(["webhook"])));
    command(&["events", "poll", "ticket.updated", "ticket=T-1"]).assert_failure();
    command(&["events", "follow", "ticket.updated", "ticket=T-1"])
        .assert_failure()
        .assert_stderr_contains("the event type offers neither streams nor polls to this client");

    let file = secret_file(&format!("secret-{revision}"), SECRETS[0]);
    let mut receiving = probe_client();
    receiving.args(["events", "receive", "--listen", "127.0.0.1:0", "--secret-file", &file, "--json"]);
    let receiver = HostedServer::start(receiving);
    let hook = &*receiver.url;
    let arguments = ["ticket.updated", "ticket=T-1"];
    let subscribe = |hook: &str| {
        let delivery = ["--url", hook, "--secret-file", &file];
        command(&[&["events", "subscribe"], &arguments[..], &delivery].concat())
    };
    let id = key(hook, "ticket.updated", &json!({"ticket": "T-1"}));
    for _ in 0..2 {
        let granted = subscribe(hook).assert_success().stdout;
        assert!(granted.starts_with(&format!("subscribed as {id} until 2")), "{granted}");
    }
    let publish = |ticket: &str| {
        let (ticket, summary) = (format!("ticket={ticket}"), "summary=Customer replied");
        command(&["call", "publish", &ticket, summary]).assert_success().stdout.replace([' ', '\n'], "")
    };
    assert!(publish("T-1").contains("\"delivered\":1"));
    assert!(publish("T-2").contains("\"queued\":0"));
    let begun = Instant::now();
    let event = loop {
        // Beside what is told on stderr.
        let received = receiver.output();
        let read = |line: &str| serde_json::from_str::<Value>(line).ok();
        if let Some(event) = received.lines().find_map(read) {
            break event;
        }
        assert!(begun.elapsed() < DEADLINE, "{received}");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&event["name"], &event["data"]["ticket"]), (&json!("ticket.updated"), &json!("T-1")));
    let nobody = subscribe("http://127.0.0.1:1/").assert_failure();
    assert!(nobody.stderr.contains("-32015") || nobody.stderr.contains("CallbackEndpoint"), "{nobody}");
    own_receiver_over_tls(url, revision);
    receiver.stop();
    server.stop();
    Row::new(format!("`mcp-webhook-events` 0.2.0 | our client and receiver | {revision} | sketch"))
        .cannot(&["gap", "terminated"], WEBHOOKS_ALONE)
}

/// Subscribes, rotates and unsubscribes with our client, and receives by HTTPS.
fn own_receiver_over_tls(url: &str, revision: &str) {
    let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
    let hooks = ReceiverServer::bind("127.0.0.1:0", receiver.clone()).expect("a port").path("/hook");
    let pem = |name| fs::read(certificate(name)).expect("a file of this repository");
    let tls = ServerTls::from_pem(&pem("server.pem"), &pem("key.pem")).expect("a certificate");
    let hook = format!("https://localhost:{}/hook", hooks.address().expect("a port").port());
    let (keep, kept) = mpsc::channel();
    let hooks = hooks.tls(tls).start(move |_, message| keep.send(message.clone()).is_ok()).expect("a thread");
    let versions = if revision == MODERN { VersionSet::MODERN } else { VersionSet::LEGACY };
    let config = ClientConfig::new("interop", "1").versions(versions);
    let client = Client::options(config).connect_url(url).expect("a connection");
    let events = BlockingEventsClient::new(&client);
    let arguments = json!({"ticket": "T-3"});
    let mut webhook =
        events.webhook("ticket.updated", &arguments, WebhookOptions::new(&*hook), &receiver).expect("room");
    let id = key(&hook, "ticket.updated", &arguments);
    for _ in 0..2 {
        let granted = events.next_of_webhook(&mut webhook, &receiver).expect("an answer");
        let Some(SubscriptionEvent::Granted { id: granted, .. }) = granted else { panic!("{granted:?}") };
        assert_eq!(granted, id);
        let published = client.call_tool("publish", &json!({"ticket": "T-3", "summary": "By HTTPS"}));
        published.expect("published");
        let message = kept.recv_timeout(DEADLINE).expect("a delivery");
        let Message::Event(event) = message else { panic!("{message:?}") };
        assert_eq!(event.data.member("ticket").and_then(|ticket| ticket.string()).as_deref(), Some("T-3"));
        events.rotate_webhook(&mut webhook, &receiver);
    }
    webhook.unsubscribe();
    let mut news = || events.next_of_webhook(&mut webhook, &receiver).expect("an answer");
    let ended = match news() {
        // The second rotation is sent first, or not at all.
        Some(SubscriptionEvent::Granted { .. }) => news(),
        other => other,
    };
    assert_eq!(ended, Some(SubscriptionEvent::Ended(None)));
    let published = client.call_tool("publish", &json!({"ticket": "T-3", "summary": "To nobody"}));
    published.expect("published");
    client.close().expect("closed");
    drop(hooks);
    assert!(kept.try_recv().is_err(), "it was unsubscribed");
}

fn python_server_rows() -> Vec<Row> {
    [MODERN, LEGACY].into_iter().map(python_server).collect()
}

// covers: EVT-004, EVT-073, EVT-074, EVT-076, EVT-081, EVT-120, EVT-125, EVT-126, EVT-128, EVT-140
#[test]
fn own_client_and_receiver_use_a_server_on_python() {
    if is_ready(false) {
        check(&python_server_rows());
    }
}

// ---- a verifier of others ----------------------------------------------------------------------------------------

/// Delivers to a receiver that verifies with the library of Standard Webhooks.
fn verifier(profile: Profile, codes: &str) -> Row {
    let arguments = json!({"limit": 5, "branch": "main"});
    let mut words = Command::new(venv_program(&folder(), "python"));
    words.current_dir(folder()).arg("receiver.py").env("SECRETS", SECRETS.join(" "));
    words.args(["--user", USER, "--name", "build.finished", "--arguments", &arguments.to_string()]);
    words.arg("--certificate").arg(certificate("server.pem")).arg("--key").arg(certificate("key.pem"));
    let mut receiver = Peer::start(words);
    let hook = receiver.line("listening")["listening"].as_str().expect("a URL").to_owned();
    let server = OwnServer::start(profile, &[&hook]);
    let http = HttpClient::new(&server.url).expect("a URL");
    let http = http.credential(Credential::bearer(USER).expect("a token"));
    let config = ClientConfig::new("interop", "1").versions(VersionSet::MODERN);
    let client = Client::options(config).connect_http(http).expect("a connection");
    let events = BlockingEventsClient::new(&client);
    let subscribe = |url: &str, secret: &str| {
        let delivery = WebhookDelivery::new(url, Secret::parse(secret).expect("a secret"));
        let params = SubscribeEventsParams::new("build.finished", delivery.mode(DeliveryMode::Webhook));
        events.subscribe(&params.arguments(RawJson::encode(&arguments).expect("JSON")))
    };
    let mut expect = |verified: &Value| {
        let line = receiver.line("verified");
        assert_eq!((&line["verified"], &line["id"]), (verified, &line["expected"]), "{line}");
        line
    };
    let granted = subscribe(&hook, SECRETS[0]).expect("a grant");
    let challenge = expect(&json!([0]));
    assert_eq!((&challenge["body"]["type"], &challenge["id"]), (&json!("verification"), &json!(granted.id)));
    server.publish("other");
    server.publish("main");
    let event = expect(&json!([0]));
    assert_eq!(
        (&event["body"]["data"]["branch"], &event["webhook-id"]),
        (&json!("main"), &event["body"]["eventId"])
    );
    // Signed by both secrets then.
    assert_eq!(subscribe(&hook, SECRETS[1]).expect("a grant").id, granted.id);
    server.publish("main");
    assert_eq!(expect(&json!([0, 1]))["body"]["name"], "build.finished");
    if profile.has_control_envelopes {
        server.publisher.report_gap().expect("a type");
        let gap = expect(&json!([0, 1]));
        assert!(
            gap["body"]["type"] == "gap"
                && gap["webhook-id"].as_str().expect("an id").starts_with("msg_gap_")
        );
    }
    let refused = subscribe(NOBODY, SECRETS[0]).expect_err("nobody is there");
    assert_eq!(refused.kind(), Some(EventsErrorKind::CallbackEndpoint));
    if profile.has_control_envelopes {
        let revoked = EventsError::Forbidden("revoked".into());
        assert_eq!(server.events.terminate(|_, _| Some(revoked.clone())), 1);
        let end = expect(&json!([0, 1]));
        let code = EventsErrorKind::Forbidden.code(profile.codes);
        assert_eq!(
            (&end["body"]["type"], &end["body"]["error"]["code"]),
            (&json!("terminated"), &json!(code))
        );
        subscribe(&hook, SECRETS[1]).expect("a grant");
    }
    let target = WebhookTarget::new(&*hook).mode(DeliveryMode::Webhook);
    let params = UnsubscribeEventsParams::new("build.finished", target);
    let params = params.arguments(RawJson::encode(&arguments).expect("JSON"));
    events.unsubscribe(&params).expect("an answer");
    server.publish("main");
    client.close().expect("closed");
    server.stop();
    assert_eq!(receiver.end(), Vec::<Value>::new());
    let row = Row::new(format!("`standardwebhooks` 1.1.0 | our server | {MODERN} | {codes}"));
    let row = row.cannot(&["list"], NO_LIST);
    if profile.has_control_envelopes { row } else { row.cannot(&["gap", "terminated"], NO_CONTROLS) }
}

fn verifier_rows() -> Vec<Row> {
    [(Profile::SEP, "SEP"), (Profile::CHATGPT, "sketch")]
        .map(|(profile, codes)| verifier(profile, codes))
        .into()
}

// covers: EVT-076, EVT-090, EVT-091, EVT-092, EVT-094, EVT-103, EVT-104, EVT-114, EVT-130
#[test]
fn deliveries_of_own_server_are_verified_by_standard_webhooks() {
    if is_ready(false) {
        check(&verifier_rows());
    }
}

#[test]
#[ignore = "writes tests/INTEROP.md"]
fn events_section_is_written() {
    assert!(is_ready(true) && is_ready(false), "the section needs all peers: some are not installed");
    let mut section = format!("{EVENTS}{HEAD}| peer | our side | revision | codes |");
    STEPS.iter().for_each(|step| section.push_str(&format!(" {step} |")));
    section.push_str(&format!("\n|{}\n", "---|".repeat(STEPS.len() + 4)));
    for row in [ai_sdk_rows(), python_server_rows(), verifier_rows()].into_iter().flatten() {
        section.push_str(&format!("{}\n", row.line()));
    }
    section.push_str(&format!(
        "\n- a: {NO_CONTROLS}\n- b: {ONE_SECRET}\n- c: {WEBHOOKS_ALONE}\n- d: {NO_LIST}\n"
    ));
    let page = fs::read_to_string(page_file()).expect("the page");
    let [table, _, published] = split_sections(&page);
    fs::write(page_file(), format!("{table}{section}{published}")).expect("room for the page");
}
