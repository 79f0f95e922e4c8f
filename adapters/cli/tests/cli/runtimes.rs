//! `--runtime`: the same commands, whatever our client and our server run on

use crate::support::{PROBE, probe};

const RUNTIMES: [&str; 3] = ["blocking", "threads", "smol"];

#[test]
fn every_command_does_the_same_on_every_runtime() {
    let commands: [(&[&str], &str); 6] = [
        (&["call", "add", "--args", r#"{"a": 20, "b": 22}"#], "42"),
        (&["call", "sign", "--answer", r#"guest={"name": "Ada"}"#], "Hello, Ada!"),
        (&["read", "guestbook://page"], ""),
        (&["prompt", "test_simple_prompt"], "user"),
        (&["inspect"], "test_simple_text"),
        (&["ping", "--count", "2", "--interval", "10ms"], "2 round trips"),
    ];
    for client in RUNTIMES {
        for server in RUNTIMES {
            for (command, said) in commands {
                let ours = ["--runtime", client, "--", PROBE, "serve", "--everything", "--runtime", server];
                let done = probe(&[command, &ours].concat()).ok();
                assert!(done.stdout.contains(said) && done.stderr.is_empty(), "{client}, {server}: {done}");
            }
        }
    }
}

#[test]
fn progress_is_shown_and_lost_servers_are_named_on_every_runtime() {
    for client in RUNTIMES {
        let ours = ["--runtime", client, "--", PROBE, "serve"];
        let count = ["call", "count", "--args", r#"{"to": 3, "delay_ms": 1}"#];
        probe(&[&count, &ours[..]].concat()).ok().says(&["counted to 3"]).complains(&["3 of 3"]);
        let gone = ["call", "add", "--runtime", client, "--", "sh", "-c", "echo last words >&2; exit 7"];
        let done = probe(&gone).code(3);
        done.complains(&["exit status: 7", "last words"]);
    }
}
