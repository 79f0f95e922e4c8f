//! The `--runtime` option: every combination of client and server adapters.

use crate::support::{PROBE, probe};

const RUNTIMES: [&str; 3] = ["blocking", "threads", "smol"];

#[test]
fn every_command_works_on_every_runtime() {
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
            for (command, expected) in commands {
                let server_args =
                    ["--runtime", client, "--", PROBE, "serve", "--everything", "--runtime", server];
                let done = probe(&[command, &server_args].concat()).assert_ok();
                assert!(
                    done.stdout.contains(expected) && done.stderr.is_empty(),
                    "{client}, {server}: {done}"
                );
            }
        }
    }
}

#[test]
fn progress_and_lost_server_are_reported_on_every_runtime() {
    for client in RUNTIMES {
        let server_args = ["--runtime", client, "--", PROBE, "serve"];
        let count = ["call", "count", "--args", r#"{"to": 3, "delay_ms": 1}"#];
        probe(&[&count, &server_args[..]].concat())
            .assert_ok()
            .assert_stdout(&["counted to 3"])
            .assert_stderr(&["3 of 3"]);
        let gone = ["call", "add", "--runtime", client, "--", "sh", "-c", "echo last words >&2; exit 7"];
        let done = probe(&gone).assert_code(3);
        done.assert_stderr(&["exit status: 7", "last words"]);
    }
}
