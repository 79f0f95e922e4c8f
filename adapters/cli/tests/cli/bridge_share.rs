//! Clients of a socket that share one server of a bridge: what is of one does not reach another.

use core::time::Duration;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bridge::BridgeProcess;
use crate::config_file::TemporaryDirectory;
use crate::gateway::{file_of, program};
use crate::http::ServingProcess;
use crate::support::{PROBE, probe};

/// A client on the socket of a bridge.
struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects, with the ids of requests that every client uses.
    fn new(bridge: &ServingProcess, capabilities: &Value) -> Self {
        let path = bridge.url.strip_prefix("unix:").expect("a Unix socket");
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut client = Self { stream: BufReader::new(stream) };
        let info = json!({"name": "c", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        client.send(&json!({"id": 1, "method": "initialize", "params": params}));
        assert_eq!(client.next()["result"]["serverInfo"]["name"], "mcp-probe");
        client.send(&json!({"method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        writeln!(self.stream.get_mut(), "{message}").expect("it reads");
    }

    fn call(&mut self, id: u32, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": 7}});
        self.send(&json!({"id": id, "method": "tools/call", "params": params}));
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a message in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Returns the messages up to the answer of a call.
    fn until_answer(&mut self, id: u32) -> Vec<Value> {
        let mut all = Vec::new();
        while all.last().is_none_or(|last: &Value| last["id"] != id || !last["method"].is_null()) {
            all.push(self.next());
        }
        all
    }
}

fn text_of(answer: Option<&Value>) -> &str {
    answer.and_then(|answer| answer["result"]["content"][0]["text"].as_str()).unwrap_or_default()
}

/// Starts a bridge in front of a server whose calls run beside each other.
fn shared_bridge(name: &str, era: &str) -> ServingProcess {
    let server = ["--", PROBE, "serve", "--everything", "--runtime", "threads", "--era", era];
    ServingProcess::listening(&["bridge", "--share", "--listen", &address(name, era)], &server)
}

fn address(name: &str, era: &str) -> String {
    let path = env::temp_dir().join(format!("mcp-share-{name}-{era}-{}.sock", std::process::id()));
    format!("unix:{}", path.display())
}

/// Starts a bridge that has room for one client.
fn bridge_for_one(name: &str) -> ServingProcess {
    let server = ["--", PROBE, "serve", "--everything", "--era", "legacy"];
    let listen = address(name, "one");
    ServingProcess::listening(&["bridge", "--share", "--listen", &listen, "--max-connections", "1"], &server)
}

/// Connects without a word.
fn connect(bridge: &ServingProcess) -> UnixStream {
    UnixStream::connect(bridge.url.strip_prefix("unix:").expect("a Unix socket")).expect("it listens")
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Returns the first line that a new client gets, if there is one.
fn first_answer(bridge: &ServingProcess) -> Option<String> {
    let mut stream = BufReader::new(connect(bridge));
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    writeln!(stream.get_mut(), "{INITIALIZE}").ok()?;
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(line)
}

/// Waits until a new client is served. Returns how long that took.
fn time_until_served(bridge: &ServingProcess) -> Duration {
    let begun = Instant::now();
    while first_answer(bridge).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no client gets a place");
        thread::sleep(Duration::from_millis(100));
    }
    begun.elapsed()
}

#[test]
fn calls_of_clients_with_one_server_are_kept_apart() {
    for era in ["legacy", "modern"] {
        let bridge = shared_bridge("calls", era);
        let mut clients = [(); 4].map(|()| Client::new(&bridge, &json!({})));
        // Equal ids and progress tokens, and answers that differ.
        for (n, client) in clients.iter_mut().enumerate() {
            client.call(2, "count", &json!({"to": n + 2, "delay_ms": 50}));
        }
        clients[3].send(&json!({"method": "notifications/cancelled", "params": {"requestId": 2}}));
        for (n, client) in clients.iter_mut().enumerate().take(3) {
            let all = client.until_answer(2);
            assert_eq!(text_of(all.last()), format!("counted to {}", n + 2), "{era}");
            let progress = all.iter().filter(|message| message["method"] == "notifications/progress");
            let progress: Vec<&Value> = progress.map(|message| &message["params"]["total"]).collect();
            assert!(!progress.is_empty() && progress.iter().all(|total| **total == json!(n + 2)), "{all:?}");
        }
        // The cancelled call has no answer, and its client goes on.
        clients[3].call(3, "echo", &json!({"text": "x"}));
        let all = clients[3].until_answer(3);
        assert!(all.iter().all(|message| message["id"] != 2), "{all:?}");
    }
}

#[test]
fn clients_with_one_server_have_one_process() {
    let bridge = shared_bridge("process", "legacy");
    let clients = [(); 5].map(|()| Client::new(&bridge, &json!({})));
    #[cfg(target_os = "linux")]
    {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", bridge.id()));
        let children = children.expect("it runs");
        let commands = children.split_whitespace().map(|child| {
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).into_owned()
        });
        assert_eq!(commands.filter(|command| command.contains("\0serve\0")).count(), 1);
    }
    drop(clients);
    // Another client, of the other era, with the same server.
    probe(&["call", "echo", "--args", r#"{"text":"x"}"#, "--era", "modern", &bridge.url])
        .assert_ok()
        .assert_stdout(&["x"]);
}

/// Each session of a socket that is not shared, and each gateway, starts a program of its own.
#[test]
fn many_sessions_start_the_same_program() {
    const SESSIONS: usize = 20;
    const GATEWAYS: usize = 5;
    let server = ["serve", "--everything", "--era", "legacy"];
    let bridge = ServingProcess::listening(
        &["bridge", "--listen", &address("many", "legacy")],
        &[&["--", PROBE], &server[..]].concat(),
    );
    let directory = TemporaryDirectory::new();
    let file = directory.write("mcp.json", &file_of(&json!({"one": program(&server[1..])})));
    // All run at the same time, and each reads back what it has written itself.
    let all_have_written = Barrier::new(SESSIONS + GATEWAYS);
    let write = |n: usize| json!({"title": "mine", "text": format!("note {n}")});
    let read = json!({"uri": "note://mine"});
    thread::scope(|scope| {
        for n in 0..SESSIONS {
            let (bridge, read, wait) = (&bridge, &read, &all_have_written);
            scope.spawn(move || {
                let mut client = Client::new(bridge, &json!({}));
                client.call(2, "write_note", &write(n));
                client.until_answer(2);
                wait.wait();
                client.send(&json!({"id": 3, "method": "resources/read", "params": read}));
                let answer = client.until_answer(3).pop().expect("an answer");
                assert_eq!(answer["result"]["contents"][0]["text"], format!("note {n}"), "{answer}");
            });
        }
        for n in SESSIONS..SESSIONS + GATEWAYS {
            let (file, read, wait) = (&file, &read, &all_have_written);
            scope.spawn(move || {
                let mut gateway = BridgeProcess::start(&["gateway", "--config", file]);
                let mut ask = |id: u32, method: &str, params: &Value| {
                    gateway.send_line(
                        &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
                    );
                    loop {
                        let answer: Value = serde_json::from_str(&gateway.read_line()).expect("JSON");
                        if answer["id"] == id {
                            return answer;
                        }
                    }
                };
                ask(2, "tools/call", &json!({"name": "one_write_note", "arguments": write(n)}));
                wait.wait();
                let answer = ask(3, "resources/read", read);
                assert_eq!(answer["result"]["contents"][0]["text"], format!("note {n}"), "{answer}");
            });
        }
    });
}

#[test]
fn question_goes_to_the_client_whose_call_asks() {
    for era in ["legacy", "modern"] {
        let bridge = shared_bridge("question", era);
        let able = json!({"elicitation": {}});
        let (mut asked, mut other) = (Client::new(&bridge, &able), Client::new(&bridge, &able));
        asked.call(2, "sign", &json!({}));
        let all = loop {
            let message = asked.next();
            if message["method"] == "elicitation/create" {
                break message;
            }
            assert!(message["id"].is_null(), "{era}: {message}");
        };
        // The other one calls meanwhile, and is asked nothing.
        other.call(2, "echo", &json!({"text": "x"}));
        assert_eq!(text_of(other.until_answer(2).last()), "x", "{era}");
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        asked.send(&json!({"id": all["id"], "result": answer}));
        assert!(text_of(asked.until_answer(2).last()).contains("Hello, Ada!"), "{era}");
        // One that cannot be asked has a call that says so.
        let mut unable = Client::new(&bridge, &json!({}));
        unable.call(2, "sign", &json!({}));
        let all = unable.until_answer(2);
        assert!(all.iter().all(|message| message["method"] != "elicitation/create"), "{era}: {all:?}");
        assert!(!text_of(all.last()).contains("Hello"), "{era}: {all:?}");
    }
}

/// A legacy server on stdio does not say whose call it asks for.
#[test]
fn question_that_may_be_for_either_client_goes_to_neither() {
    let bridge = shared_bridge("either", "legacy");
    let able = json!({"elicitation": {}});
    let (mut asking, mut other) = (Client::new(&bridge, &able), Client::new(&bridge, &able));
    other.call(2, "count", &json!({"to": 6, "delay_ms": 1000}));
    assert_eq!(other.next()["method"], "notifications/progress");
    asking.call(2, "sign", &json!({}));
    for all in [asking.until_answer(2), other.until_answer(2)] {
        assert!(all.iter().all(|message| message["method"] != "elicitation/create"), "{all:?}");
    }
    // Alone it is asked.
    asking.call(3, "sign", &json!({}));
    while asking.next()["method"] != "elicitation/create" {}
}

#[test]
fn resource_is_followed_until_the_last_client_leaves_it() {
    for era in ["legacy", "modern"] {
        let bridge = shared_bridge("follow", era);
        let mut clients = [(); 3].map(|()| Client::new(&bridge, &json!({})));
        let follow = |client: &mut Client, id: u32, method: &str| {
            client.send(&json!({"id": id, "method": method, "params": {"uri": "clock://running"}}));
            client.until_answer(id);
        };
        let is_update = |message: &Value| message["method"] == "notifications/resources/updated";
        for client in &mut clients {
            follow(client, 2, "resources/subscribe");
        }
        let [mut leaving, vanishing, mut staying] = clients;
        follow(&mut leaving, 3, "resources/unsubscribe");
        drop(vanishing);
        // More than one: the first may be from before the others left.
        for _ in 0..3 {
            while !is_update(&staying.next()) {}
        }
        leaving.call(4, "echo", &json!({"text": "x"}));
        let all = leaving.until_answer(4);
        assert!(!all.iter().any(is_update), "{era}: {all:?}");
    }
}

#[test]
fn silent_client_gives_its_place_to_a_new_one() {
    let bridge = bridge_for_one("silent");
    let _silent = connect(&bridge);
    // Alone it might be silent for 30 seconds.
    let time = time_until_served(&bridge);
    assert!(time < Duration::from_secs(20), "{time:?}");
}

#[test]
fn client_without_a_place_is_refused_with_a_note() {
    let bridge = bridge_for_one("refused");
    let mut first = Client::new(&bridge, &json!({}));
    assert_eq!(first_answer(&bridge), None, "closed at once");
    first.call(2, "echo", &json!({"text": "x"}));
    assert_eq!(text_of(first.until_answer(2).last()), "x");
    let stderr = bridge.stop();
    assert!(
        stderr.contains("a client is refused, because all places are taken (--max-connections 1)"),
        "{stderr}"
    );
}

/// Its end is heard, and its last answers find no reader.
#[test]
fn ended_client_that_reads_nothing_gives_its_place_back() {
    let bridge = bridge_for_one("unread");
    let mut deaf = Client::new(&bridge, &json!({}));
    let text = "x".repeat(100_000);
    for id in 2..12 {
        deaf.call(id, "echo", &json!({"text": text}));
    }
    deaf.stream.get_ref().shutdown(Shutdown::Write).expect("open");
    time_until_served(&bridge);
}

/// A listener without free descriptors stays ready.
#[test]
#[cfg(target_os = "linux")]
fn bridge_without_descriptors_waits_for_some() {
    let listen = address("descriptors", "none");
    let script = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 24; exec \"$0\" \"$@\"";
    let server = ["--", PROBE, "serve", "--everything", "--era", "legacy"];
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, PROBE, "bridge", "--share", "--listen", &listen]).args(server);
    let bridge = ServingProcess::spawn(&mut command, &server);
    let mut clients: Vec<UnixStream> = (0..40).map(|_| connect(&bridge)).collect();
    for client in &mut clients {
        writeln!(client, "{INITIALIZE}").expect("it is in the queue");
    }
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bridge.id())).expect("it runs");
        let fields: Vec<i64> = stat
            .rsplit(')')
            .next()
            .expect("fields")
            .split_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect();
        // Of the fields after the name and the state, in ticks of 10 ms: user and system.
        fields[10] + fields[11]
    };
    thread::sleep(Duration::from_millis(500));
    let before = used();
    thread::sleep(Duration::from_secs(2));
    let ticks = used() - before;
    assert!(ticks < 40, "it spins: {ticks} ticks of 200");
    // The others come when the first ones leave.
    drop(clients);
    time_until_served(&bridge);
}
