//! Commands whose output nobody reads any more: those that print again and again end, and lose nothing that they were to print.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

use crate::http::ServingProcess;
use crate::support::{PROBE, probe, probe_command};

/// A second, and what a busy machine takes.
const SOON: Duration = Duration::from_secs(8);

/// `mcp-probe ARGS` with an input that stays open.
fn start(args: &[&str]) -> Child {
    let mut command = probe_command();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program under test starts")
}

/// Reads up to a line that has a text. What follows is read and dropped.
fn await_line(from: impl Read + Send + 'static, text: &str) {
    let mut lines = BufReader::new(from).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    while let Some(line) = lines.next() {
        if line.contains(text) {
            thread::spawn(move || lines.for_each(drop));
            return;
        }
        seen.push(line);
    }
    panic!("no {text:?}: {seen:?}");
}

/// Returns the exit code of a program that ends soon.
fn code_of(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if let Some(status) = child.try_wait().expect("waiting works") {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it can be killed");
    panic!("it runs on");
}

#[test]
fn commands_that_print_again_and_again_end_with_their_reader() {
    let server = ["--", PROBE, "serve", "--everything"];
    // What they say on stderr when they have begun; nothing if it is on stdout.
    let suite = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread-suite.json");
    let slow = r#"{"steps": [{"call": "echo", "arguments": {"text": "a"}}, {"call": "count", "arguments": {"to": 600, "delay_ms": 100}}]}"#;
    std::fs::write(&suite, slow).expect("a file");
    let cases: [(&[&str], &str, i32); 11] = [
        // It prints, and it has nothing to print.
        (&["events", "follow", "tide.changed", "harbour=Cobh"], "following by a stream", 0),
        (&["events", "follow", "lighthouse.lit"], "following by a stream", 0),
        (&["events", "follow", "ship.arrived", "--poll"], "following by polls", 0),
        (&["listen"], "", 0),
        (&["complete", "prompt:travel_plan", "country", "--typed"], "", 0),
        (&["test", suite.to_str().expect("UTF-8")], "", 141),
        (&["doctor"], "", 141),
        (&["demo"], "", 141),
        (&["ping", "-n", "1000"], "", 141),
        (&["bench", "count", "to=3", "delay_ms=1", "--for", "60s"], "", 141),
        (&["shell"], "", 141),
    ];
    for (args, begun, code) in cases {
        // It has servers of its own.
        let server = if args == ["demo"] { &[][..] } else { &server };
        let mut child = start(&[args, server].concat());
        let (mut stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        if ["listen", "test", "doctor", "demo", "ping"].contains(&args[0]) {
            let mut first = [0];
            stdout.read_exact(&mut first).expect("a line");
            assert!(args != ["listen"] || &first == b"l", "{first:?}");
        } else if !begun.is_empty() {
            await_line(stderr, begun);
        } else {
            thread::sleep(Duration::from_millis(300));
        }
        drop(stdout);
        assert_eq!(code_of(&mut child), Some(code), "{args:?}");
    }
}

// covers: EVT-123
#[test]
fn receiver_acknowledges_nothing_that_nobody_reads() {
    let listen = ["events", "receive", "--listen", "127.0.0.1:0", "--subscription", "sub_probe"];
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread");
    std::fs::create_dir_all(&folder).expect("a folder");
    let secret = folder.join("secret");
    std::fs::write(&secret, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a file");
    let secret = ["--secret-file", secret.to_str().expect("UTF-8")];
    let mut child = start(&[&listen[..], &secret].concat());
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("UTF-8");
    let url = line.trim().strip_prefix("listening at ").expect("a URL").to_owned();
    let send = || probe(&[&["events", "send", &url], &secret[..]].concat());
    send().assert_ok().assert_stdout(&["is acknowledged"]);
    drop(child.stdout.take());
    let refused = send();
    assert!(!refused.stdout.contains("is acknowledged"), "{refused}");
    assert_eq!(code_of(&mut child), Some(0));
}

// covers: EVT-065
#[test]
fn follower_that_ends_after_each_event_gets_on() {
    let serving = ServingProcess::new(&["--everything"]);
    let follow = ["events", "follow", "tide.changed", "harbour=Cobh", "--count", "1", "--json"];
    for how in [&["--poll"][..], &["--era", "modern"]] {
        let (mut cursor, mut ids) = (None::<String>, Vec::new());
        for _ in 0..4 {
            let from = cursor.as_deref().map(|cursor| ["--cursor", cursor]);
            let from: &[&str] = from.as_ref().map_or(&[], |from| from);
            let done = probe(&[&follow[..], how, from, &[&serving.url]].concat()).assert_ok();
            let event = done.json();
            ids.push(event["eventId"].as_str().expect("an id").to_owned());
            let told = done.stderr.lines().find_map(|line| line.strip_prefix("cursor "));
            assert_eq!(
                (event["cursor"].as_str(), &*done.stderr.matches("note").collect::<String>()),
                (told, "")
            );
            cursor = told.map(str::to_owned);
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 4, "{how:?}: {ids:?}");
    }
    serving.stop();
}
