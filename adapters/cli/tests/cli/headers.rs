//! Header fields of the command line.

use crate::recording_server::RecordingServer;
use crate::support::{probe, run};

/// Every command that connects to a URL.
const COMMANDS: [&[&str]; 9] = [
    &["inspect"],
    &["call", "x"],
    &["read", "a:b"],
    &["prompt", "x"],
    &["complete", "prompt:x", "y"],
    &["listen"],
    &["ping"],
    &["check", "--timeout", "1s"],
    &["bridge", "--http", "127.0.0.1:0"],
];

// covers: SEC-019
#[test]
fn every_command_sends_header_fields_without_printing_them() {
    let server = RecordingServer::new(404);
    let file = std::env::temp_dir().join(format!("mcp-probe-header-{}", std::process::id()));
    std::fs::write(&file, "from-a-file\n").expect("a file");
    let from_file = format!("X-File:@{}", file.display());
    for command in COMMANDS {
        let fields =
            ["--header", "X-Plain: hunter2", "--header", "X-Env:env:PROBE_FIELD", "--header", &from_file];
        let done = run(
            &[command, &fields, &["--trace", &server.url]].concat(),
            &[("PROBE_FIELD", "from-a-variable")],
        );
        let heads = server.take_heads();
        assert!(!heads.is_empty(), "{done}");
        for head in heads {
            for want in ["X-Plain: hunter2\r\n", "X-Env: from-a-variable\r\n", "X-File: from-a-file\r\n"] {
                assert!(head.contains(want), "no {want:?} in {head}: {done}");
            }
        }
        for secret in ["hunter2", "from-a-variable", "from-a-file"] {
            assert!(!done.stderr.contains(secret) && !done.stdout.contains(secret), "{done}");
        }
        if command[0] != "check" {
            done.assert_stderr(&["X-Plain: [redacted]"]);
        }
    }
    std::fs::remove_file(file).expect("it was there");
}

#[test]
fn authorization_field_is_sent_once() {
    let server = RecordingServer::new(404);
    for command in [&["ping"][..], &["check", "--timeout", "1s"]] {
        let done = probe(&[command, &["--header", "authorization: Basic hunter2", &server.url]].concat());
        let mut heads = server.take_heads();
        if command[0] == "check" {
            // The first request asks for the challenge.
            assert!(!heads.remove(0).to_lowercase().contains("authorization:"), "{done}");
        }
        assert!(!heads.is_empty(), "{done}");
        for head in heads {
            assert_eq!(
                head.to_lowercase().matches("authorization: basic hunter2").count(),
                1,
                "{head}: {done}"
            );
        }
        let both = [command, &["--bearer", "x", "--header", "authorization: Basic y", &server.url]].concat();
        probe(&both)
            .assert_code(2)
            .assert_stderr(&["--bearer and --header Authorization exclude each other"]);
    }
}

// covers: SEC-019, HTTP-037
#[test]
fn header_field_of_the_protocol_or_with_an_invalid_form_is_refused() {
    let server = RecordingServer::new(404);
    for (field, wanted) in [
        ("Mcp-Session-Id: hunter2", "--header Mcp-Session-Id: the client sets this field itself"),
        ("mcp-protocol-version: hunter2", "the client sets this field itself"),
        ("mcp-param-x: hunter2", "the client sets this field itself"),
        ("Accept: hunter2", "the client sets this field itself"),
        ("content-type: hunter2", "the client sets this field itself"),
        ("Host: hunter2", "the client sets this field itself"),
        ("Content-Length: hunter2", "the client sets this field itself"),
        ("X Y: hunter2", "the field name is not a token"),
        ("X-A: hunter2\r\nHost: x", "characters that are not allowed"),
        ("hunter2", "--header: must be NAME:VALUE"),
        (": hunter2", "--header: must be NAME:VALUE"),
        ("X-A: env:PROBE_NONE", "--header X-A: the variable PROBE_NONE: it is not set"),
        ("X-A: @/nowhere/file", "--header X-A: the file /nowhere/file"),
    ] {
        for command in COMMANDS {
            let done = probe(&[command, &["--header", field, &server.url]].concat()).assert_code(2);
            assert!(!done.stderr.contains("hunter2"), "{done}");
            done.assert_stderr(&[wanted]);
        }
    }
    assert_eq!(server.take_heads(), [""; 0]);
    for command in COMMANDS {
        let done = probe(&[command, &["--header", "X-A: hunter2", "--", "true"]].concat()).assert_code(2);
        done.assert_stderr(&["--header needs a server over HTTP"]);
    }
}
