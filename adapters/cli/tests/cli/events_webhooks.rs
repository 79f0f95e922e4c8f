//! The commands of `events` for webhooks: a subscription with its receiver, deliveries between two processes, and recorded ones.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::json_output::assert_fits;
use crate::support::{probe, probe_command, quoted};

/// The secret of the frozen vector: the bytes 0 to 31.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = concat!(
    r#"{"eventId":"evt-7001","name":"build.finished","timestamp":"2026-11-25T10:00:00Z","#,
    r#""data":{"build":7001,"ok":true},"cursor":"c-42"}"#
);
const HEAD: &str = "POST /mcp/a1 HTTP/1.1\r\nHost: hooks.example\r\nContent-Type: application/json\r\n\
    webhook-id: evt-7001\r\nwebhook-timestamp: 1795600800\r\n\
    webhook-signature: v1,tO84eROclO7g/JTEsLRXMhl5WXLq0x7AZixaHNFhl4M=\r\n\
    X-MCP-Subscription-Id: sub_33f8080817ec0c597ac0f4de1e7de5cd\r\n\r\n";

/// A folder of one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

/// `mcp-probe events ARGS`, which listens; killed when it is dropped.
struct Listening {
    child: Child,
    url: String,
    stderr: Option<thread::JoinHandle<String>>,
}

impl Listening {
    fn new(args: &[&str]) -> Self {
        let mut child = probe_command()
            .arg("events")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("UTF-8");
        let url = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Self { child, url, stderr: Some(stderr) }
    }

    /// Waits for the end. Returns both outputs.
    fn finish(mut self) -> (String, String) {
        let mut stdout = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut stdout).expect("UTF-8");
        let stderr = self.stderr.take().expect("not finished").join().expect("read");
        let status = self.child.wait().expect("waiting works");
        assert!(status.success(), "{status}: {stdout}\n{stderr}");
        (stdout, stderr)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// covers: EVT-090, EVT-092, EVT-114, EVT-120, EVT-126
#[test]
fn receiver_answers_a_challenge_and_prints_what_is_signed() {
    let folder = folder("receive");
    let secret = write(&folder, "secret", SECRET);
    let other = write(&folder, "other", "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7");
    let listen = ["receive", "--listen", "127.0.0.1:0", "--secret-file", &secret, "--count", "1", "--json"];
    let receiver = Listening::new(&listen);
    let send = |secret: &str, args: &[&str]| {
        probe(&[&["events", "send", &receiver.url, "--secret-file", secret], args].concat())
    };
    let named = ["--name", "build.finished", "--data", r#"{"build":7}"#];
    // Before the challenge, the id is not known.
    send(&secret, &named).assert_code(1).assert_stdout(&["status 503: evt_"]);
    send(&other, &["--challenge"]).assert_code(1).assert_stderr(&["status 401"]);
    let challenged = send(&secret, &["--challenge"]).assert_ok();
    assert_eq!(challenged.stdout, "status 200: the challenge is echoed\n");
    send(&other, &named).assert_code(1).assert_stdout(&["status 401: evt_", "is not acknowledged"]);
    let sent = send(&secret, &named).assert_ok().assert_stdout(&["status 204: evt_", "is acknowledged"]);
    let (stdout, stderr) = receiver.finish();
    let event: Value = serde_json::from_str(&stdout).expect("one line");
    assert_eq!((&event["name"], &event["data"]), (&json!("build.finished"), &json!({"build": 7})));
    for text in [&stdout, &stderr, &sent.stdout, &sent.stderr] {
        assert!(!text.contains("whsec_") && !text.contains(&SECRET[6..]), "{text}");
    }
}

// covers: EVT-126
#[test]
fn subscription_receives_here_and_is_unsubscribed_at_its_end() {
    let folder = folder("subscribe");
    let asked = folder.join("asked");
    let _ = fs::remove_file(&asked);
    let answer =
        |result: &Value| format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{result}}}\\n' $id");
    let welcome = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"events": {}},
        "serverInfo": {"name": "canned", "version": "1"},
    });
    let granted = json!({"id": "sub_1", "refreshBefore": null, "cursor": "c", "truncated": false});
    let script = format!(
        "while read -r l; do id=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); case $l in \
         *'\"initialize\"'*) {};; \
         *events/subscribe*) printf '%s' \"$l\" > {asked}.part; mv {asked}.part {asked}; {};; \
         *events/unsubscribe*) echo has unsubscribed >&2; {};; esac; done",
        answer(&welcome),
        answer(&granted),
        answer(&json!({})),
        asked = quoted(&asked),
    );
    let args = ["subscribe", "build.finished", "--url", "https://hooks.example/hook?q=1"];
    let rest = ["--listen", "127.0.0.1:0", "--count", "1", "--era", "legacy", "--stderr", "show", "--json"];
    let server = ["--", "sh", "-c", &script];
    let subscriber = Listening::new(&[&args[..], &rest, &server].concat());
    assert!(subscriber.url.ends_with("/hook"), "{}", subscriber.url);

    let begun = Instant::now();
    while !asked.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is subscribed");
        thread::sleep(Duration::from_millis(10));
    }
    let request: Value = serde_json::from_str(&fs::read_to_string(&asked).expect("a file")).expect("JSON");
    let delivery = &request["params"]["delivery"];
    assert_eq!(delivery["url"], "https://hooks.example/hook?q=1");
    let secret = delivery["secret"].as_str().expect("a secret");
    let file = write(&folder, "secret", secret);
    let send = ["events", "send", &subscriber.url, "--secret-file", &file, "--subscription", "sub_1"];
    probe(&[&send[..], &["--challenge"]].concat()).assert_ok();
    probe(&[&send[..], &["--name", "build.finished"]].concat()).assert_ok();
    let (stdout, stderr) = subscriber.finish();
    let event = serde_json::from_str(&stdout).expect("one line");
    assert_fits("events-subscribe", &event);
    assert_eq!(event["name"], "build.finished");
    for part in ["subscribed as sub_1 until ", "has unsubscribed"] {
        assert!(stderr.contains(part), "no {part:?}: {stderr}");
    }
    assert!(!stdout.contains(secret) && !stderr.contains(secret), "{stdout}\n{stderr}");
}

#[test]
fn subscription_needs_a_receiver_and_a_server_that_delivers() {
    let everything = ["--", crate::support::PROBE, "serve", "--everything"];
    let args = ["events", "subscribe", "ship.arrived", "--url", "https://hooks.example/"];
    probe(&[&args[..], &everything].concat()).assert_code(2).assert_stderr(&["--listen"]);
    let listen = ["--listen", "127.0.0.1:0"];
    let refused = probe(&[&args[..], &listen, &everything].concat()).assert_code(1);
    refused.assert_stderr(&["the subscription has ended: "]);
}

// covers: EVT-092, EVT-120, EVT-121
#[test]
fn recorded_delivery_is_verified_and_each_failure_is_told() {
    let folder = folder("verify");
    let verify = |head: &str, body: &str, at: &str| {
        let (head, body) = (write(&folder, "head", head), write(&folder, "body", body));
        let secret = write(&folder, "secret", SECRET);
        let args = ["--head", &head, "--body", &body, "--at", at, "--secret-file", &secret];
        let done = probe(&[&["events", "verify"], &args[..]].concat());
        assert!(!done.stdout.contains(&SECRET[6..]) && !done.stderr.contains(&SECRET[6..]), "{done}");
        done
    };
    verify(HEAD, BODY, "1795600803").assert_ok().assert_stdout(&[
        "ok      field      webhook-id\n",
        "ok      signature  it fits id, time and body\n",
        "ok      time       3 s old\n",
        "ok      body       the event evt-7001 of `build.finished`\n",
    ]);
    verify(HEAD, BODY, "1795601100").assert_ok();
    let cases = [
        (HEAD.to_owned(), BODY.to_owned(), "1795601101", "time       301 s old, and 300 s are allowed"),
        (HEAD.to_owned(), BODY.to_owned(), "1795600499", "time       301 s in the future"),
        (HEAD.to_owned(), BODY.replace("7001,", "7002,"), "1795600800", "signature  no signature fits"),
        (
            HEAD.to_owned(),
            format!("{BODY}\n"),
            "1795600800",
            "signature  the signature fits the body with other",
        ),
        (
            HEAD.replace("webhook-id: evt-7001\r\n", ""),
            BODY.to_owned(),
            "1795600800",
            "field      webhook-id is missing",
        ),
        (
            format!("{HEAD}webhook-id: again"),
            BODY.to_owned(),
            "1795600800",
            "field      webhook-id is there 2 times",
        ),
        (
            HEAD.replace(
                "tO84eROclO7g/JTEsLRXMhl5WXLq0x7AZixaHNFhl4M=",
                "WRYrhtdwTc5cWQR3VJn2HTr2lOOcpldL1GVNOwj7mrA=",
            ),
            BODY.to_owned(),
            "1795600800",
            "signature  the signature was made with the text of the secret",
        ),
        (
            HEAD.replace("1795600800", "soon"),
            BODY.to_owned(),
            "1795600800",
            "time       `webhook-timestamp` is not",
        ),
    ];
    for (head, body, at, part) in cases {
        let done = verify(&head, &body, at).assert_code(1);
        done.assert_stdout(&[&format!("failed  {part}")]);
    }
}
