//! `doctor`: broken servers on stdio and on sockets, each told by its own cause. Those over HTTP are in `doctor_http`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};

use crate::shell_server::{ShellServer, method_pattern, result_action};
use crate::support::{ClosedAddress, PROBE, ProbeOutput, probe_own_server, run};

/// A set-up that does not work: its name, its exit code, the step that has to fail, and words of its cause.
pub(crate) type Broken<'a> = (&'a str, i32, &'a str, &'a [&'a str]);

/// Short waits, for a server that says nothing.
const BRIEF: [&str; 4] = ["--connect-timeout", "4s", "--timeout", "4s"];

/// Runs `doctor --json` and checks which step fails, in which words, and that it tells what to do.
pub(crate) fn assert_broken(
    (name, code, step, words): Broken<'_>,
    args: &[&str],
    environment: &[(&str, &str)],
) -> Value {
    let done = run(&[&["doctor", "--json"], args].concat(), environment).assert_code(code);
    let report = done.json();
    let failure = &report["failure"];
    assert_eq!((&report["ok"], &failure["step"]), (&json!(false), &json!(step)), "{name}: {done}");
    let told = format!("{} {}", failure["what"], failure["why"]);
    for word in words {
        assert!(told.contains(word), "{name}: no {word:?} in: {done}");
    }
    assert!(failure["fix"].as_str().is_some_and(|fix| fix.len() > 10), "{name}: {done}");
    let steps = report["steps"].as_array().expect("steps");
    let failed: Vec<_> = steps.iter().filter(|step| step["state"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{name}: {done}");
    assert_eq!(steps.last().map(|last| &last["step"]), Some(&json!(step)), "{name}: {done}");
    report
}

/// Returns the state and the detail of a step.
pub(crate) fn step<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let mut steps = report["steps"].as_array().expect("steps").iter();
    let step = steps.find(|step| step["step"] == name).unwrap_or_else(|| panic!("no {name}: {report}"));
    (step["state"].as_str().expect("a state"), step["detail"].as_str().expect("a detail"))
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// Writes a file with a mode and returns its path.
fn file(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn program_that_does_not_start_is_told_by_its_cause() {
    let folder = folder("programs");
    let closed = file(&folder, "closed.py", "print()", 0o644);
    let script = file(&folder, "script", "#!/no/such/interpreter\n", 0o755);
    let windows = file(&folder, "windows", "#!/bin/sh\r\necho\r\n", 0o755);
    let bare = file(&folder, "bare", "print('hello')\n", 0o755);
    let here = folder.to_str().expect("UTF-8");
    let beside = format!("{here}/no-such-folder/server");
    let missing = format!("{here}/server");
    let spaced = format!("{here}/no such folder/inner/my server");
    let rows: &[(Broken<'_>, &[&str])] = &[
        (("unknown", 3, "program", &["no directory of PATH"]), &["no-such-program-anywhere"]),
        (("one word", 3, "program", &["the whole command line is one word"]), &["npx -y a-server"]),
        (("home", 3, "program", &["replaced by a shell"]), &["~/server"]),
        (("address", 3, "program", &["address of a server over HTTP"]), &["localhost:8080/mcp"]),
        (("no folder", 3, "program", &["no-such-folder does not exist"]), &[&beside]),
        (("space", 3, "program", &["/no such folder does not exist"]), &[&spaced]),
        (("no file", 3, "program", &["no such file in that directory"]), &[&missing]),
        (("folder", 3, "program", &["it is a directory"]), &[here]),
        (("mode", 3, "program", &["not executable"]), &[&closed]),
        (("interpreter", 3, "program", &["/no/such/interpreter"]), &[&script]),
        (("CRLF", 3, "program", &["carriage return"]), &[&windows]),
        (("no interpreter", 3, "program", &["without `#!`"]), &[&bare]),
    ];
    for (row, command) in rows {
        assert_broken(*row, &[&["--"], *command].concat(), &[]);
    }
    let launcher = ("npx", 3, "program", &["comes with Node.js"][..]);
    assert_broken(launcher, &["--env", "PATH=/no-such-folder", "--", "npx", "-y", "a-server"], &[]);
    let config =
        json!({"mcpServers": {"files": {"command": PROBE, "args": ["serve"], "cwd": "/no/such/folder"}}});
    let config = file(&folder, "mcp.json", &config.to_string(), 0o644);
    let row = ("cwd", 3, "directory", &["/no/such/folder", "nothing at this path"][..]);
    assert_broken(row, &["--config", &config, "--server", "files"], &[]);
}

#[test]
fn program_that_ends_is_told_by_what_it_leaves_on_stderr() {
    let container = file(&folder("containers"), "docker", "#!/bin/sh\nexec </dev/null\ncat\n", 0o755);
    let rows: &[(Broken<'_>, &str)] = &[
        (("words", 3, "start", &["exit status: 3", "the disk is full"]), "echo the disk is full >&2; exit 3"),
        (("silent", 3, "start", &["printed nothing"]), "exit 0"),
        (("signal", 3, "start", &["SIGKILL"]), "kill -9 $$"),
        (
            ("python", 3, "start", &["Python module"]),
            "echo \"ModuleNotFoundError: No module named 'mcp'\" >&2; exit 1",
        ),
        (
            ("old SDK", 3, "start", &["does not have any more", "FastMCP"]),
            "echo \"ImportError: cannot import name 'FastMCP' from 'mcp.server'\" >&2; exit 1",
        ),
        (
            ("moved module", 3, "start", &["does not have any more"]),
            "echo \"ModuleNotFoundError: No module named 'mcp.server.fastmcp'\" >&2; exit 1",
        ),
        (
            ("old export", 3, "start", &["does not have any more"]),
            "echo \"SyntaxError: The requested module 'x' does not provide an export named 'McpServer'\" >&2; exit 1",
        ),
        (
            ("refused key", 3, "start", &["refuses the key that it has"]),
            "echo 'openai: Incorrect API key provided' >&2; exit 1",
        ),
        (
            ("node", 3, "start", &["JavaScript module"]),
            "echo 'Error: Cannot find module /dist/index.js' >&2; exit 1",
        ),
        (
            ("port", 3, "start", &["the port that it wants is taken"]),
            "echo 'listen EADDRINUSE: :::3000' >&2; exit 1",
        ),
        (
            ("key", 3, "start", &["a variable that it does not get"]),
            "echo 'Error: set the WEATHER_API_KEY' >&2; exit 1",
        ),
        (
            ("package", 3, "start", &["does not exist under this name"]),
            "echo 'npm error code E404' >&2; exit 1",
        ),
        (
            ("network", 3, "start", &["needs the network"]),
            "echo 'getaddrinfo EAI_AGAIN registry' >&2; exit 1",
        ),
        (("background", 3, "start", &["closed its stdout"]), "exec >&-; sleep 20"),
        (("inner", 3, "start", &["another program that is not installed"]), "no-such-program-inside"),
    ];
    for (row, script) in rows {
        assert_broken(*row, &["--", "sh", "-c", script], &[]);
    }
    let row = ("docker", 3, "start", &["without -i"][..]);
    assert_broken(row, &["--", &container, "run", "--rm", "image"], &[]);
}

#[test]
fn output_that_is_no_answer_is_told_by_its_form() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let say = |format: &str| format!("read l; printf '{format}'; sleep 20");
    let rows: &[(Broken<'_>, String)] = &[
        (("nothing", 4, "output", &["printed nothing within 4s"]), "sleep 20".into()),
        (("text", 3, "output", &["Hello, world"]), "echo Hello, world; sleep 20".into()),
        (("text and end", 3, "output", &["bye", "closed its output"]), "echo bye".into()),
        (
            ("HTTP on stdout", 3, "output", &["is an HTTP server", "http://127.0.0.1:8000"]),
            "echo 'Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C)'; sleep 20".into(),
        ),
        (
            ("HTTP on stderr", 3, "output", &["is an HTTP server", "http://localhost:3000/mcp"]),
            "echo 'ready at http://localhost:3000/mcp.' >&2; sleep 20".into(),
        ),
        (("echo", 3, "output", &["echoes its input"]), "cat".into()),
        (("BOM", 3, "output", &["byte order mark"]), say(&format!("\\357\\273\\277{answer}\\n"))),
        (
            ("UTF-16", 3, "output", &["UTF-16"]),
            say(&format!("\\377\\376{}", answer.chars().map(|c| format!("{c}\\000")).collect::<String>())),
        ),
        (
            ("framing", 3, "output", &["Content-Length header"]),
            say(&format!("Content-Length: {}\\r\\n\\r\\n{answer}", answer.len())),
        ),
        (
            ("framing of input", 3, "output", &["Content-Length header"]),
            format!(
                "read a; read b; printf 'Content-Length: {}\\r\\n\\r\\n{answer}'; sleep 20",
                answer.len()
            ),
        ),
        (("no line break", 3, "output", &["no line break at its end"]), say(answer)),
        (("indented", 3, "output", &["spread over several lines"]), say(&answer.replace(',', ",\\n  "))),
        (
            ("id", 3, "output", &["the id of its answer is", "1"]),
            say(&format!("{}\\n", answer.replace("\"id\":1", "\"id\":\"1\""))),
        ),
        (
            ("parse error", 3, "output", &["belongs to no request", "-32700"]),
            say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n"#),
        ),
        (
            ("usage", 3, "output", &["arguments are not what it expects"]),
            "echo 'Usage: server [--stdio]'".into(),
        ),
    ];
    // Together, since each of them is waited for.
    thread::scope(|scope| {
        for (row, script) in rows {
            scope.spawn(|| assert_broken(*row, &[&BRIEF[..], &["--", "sh", "-c", script]].concat(), &[]));
        }
    });
}

#[test]
fn variable_that_is_withheld_from_a_server_is_named() {
    let script = "test -n \"$WEATHER_TOKEN\" || { echo \"KeyError: 'WEATHER_TOKEN'\" >&2; exit 1; }; cat >&2";
    let args = [&BRIEF[..], &["--", "sh", "-c", script]].concat();
    let set = [("WEATHER_TOKEN", "x7")];
    let words = ["WEATHER_TOKEN, which is set here and not passed on"];
    let report = assert_broken(("withheld", 3, "start", &words), &args, &set);
    let fix = report["failure"]["fix"].as_str().unwrap_or_default();
    assert!(fix.contains("--env WEATHER_TOKEN"), "{report}");
    // Where it is not set either, nothing is known of it.
    assert_broken(("unset", 3, "start", &["KeyError: 'WEATHER_TOKEN'"]), &args, &[]);
    // The remedy is tried.
    let args = [&BRIEF[..], &["--env", "WEATHER_TOKEN", "--", "sh", "-c", script]].concat();
    assert_broken(("passed on", 4, "output", &["does not answer"]), &args, &set);
}

#[test]
fn secrets_that_a_program_prints_are_not_told() {
    let wanted = "echo \"Invalid API key: $API_KEY\" >&2; exit 1";
    let printed = "echo \"say $API_KEY\"; cat >&2";
    let address = "echo 'at http://localhost:6274/?MCP_PROXY_AUTH_TOKEN=deadbeef'; cat >&2";
    let form = "echo 'no ghp_0123456789abcdefghijABCDEFGHIJ012345' >&2; exit 1";
    let rows: [(Broken<'_>, &str); 4] = [
        (("variable", 3, "start", &["Invalid API key"]), wanted),
        (("output", 3, "output", &["say"]), printed),
        (("address", 3, "output", &["localhost:6274"]), address),
        (("form", 3, "start", &["last words"]), form),
    ];
    for (row, script) in rows {
        for variable in ["API_KEY=my-live-abc123", "API_KEY"] {
            let args = ["--connect-timeout", "2s", "--env", variable, "--", "sh", "-c", script];
            let report = assert_broken(row, &args, &[("API_KEY", "my-live-abc123")]);
            let text = report.to_string();
            let is_shown = ["live-abc", "deadbeef", "ghp_0"].iter().any(|secret| text.contains(secret));
            assert!(!is_shown, "{report}");
        }
    }
}

#[test]
fn server_that_answers_may_fail_at_the_handshake_or_its_lists() {
    let legacy = ShellServer::legacy;
    let page = result_action(&json!({"tools": [], "nextCursor": "again"}));
    let next = r#"n=$((n+1)); printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"%s"}}\n' "$id" "$n""#;
    let rows: &[(Broken<'_>, ShellServer)] = &[
        (("new cursors", 1, "lists", &["has no end", "limit of pages"]), legacy().on_line(&method_pattern("tools/list"), next)),
        (("refused", 3, "revision", &["refused the handshake"]), legacy().with_error("initialize", -32603)),
        (
            ("unknown revision", 3, "revision", &["1999-01-01"]),
            legacy().with_result("initialize", &json!({
                "protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"},
            })),
        ),
        (("error", 1, "lists", &["tools/list", "an error of its own"]), legacy().with_error("tools/list", -32603)),
        (("no method", 1, "lists", &["declares the capability"]), legacy().with_error("prompts/list", -32601)),
        (("no list", 1, "lists", &["does not have the list"]), legacy().with_result("tools/list", &json!({}))),
        (("no end", 1, "lists", &["names a cursor"]), legacy().on_line(&method_pattern("tools/list"), &page)),
        (("no answer", 4, "lists", &["did not answer this request"]), legacy().on_line(&method_pattern("tools/list"), ":")),
        (("death", 3, "lists", &["did not survive"]), legacy().on_line(&method_pattern("resources/list"), "exit 7")),
    ];
    thread::scope(|scope| {
        for (row, server) in rows {
            scope
                .spawn(|| assert_broken(*row, &["--timeout", "4s", "--", "sh", "-c", &server.script()], &[]));
        }
    });
}

#[test]
fn socket_that_does_not_work_is_told_by_its_cause() {
    let closed = ClosedAddress::new();
    let row = ("refused", 3, "connect", &["nothing listens there"][..]);
    assert_broken(row, &[&format!("tcp://{closed}")], &[]);
    assert_broken(("no socket", 3, "connect", &["no such socket"]), &["unix:/no/such/socket"], &[]);
    for (row, answer) in [
        (("ends", 3, "output", &["closes the connection"][..]), ""),
        (("HTTP", 3, "output", &["HTTP server listens there"][..]), "HTTP/1.1 400 Bad Request\r\n\r\n"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            // Reads first, since an end with unread input is a reset.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        });
        assert_broken(row, &[&format!("tcp://{address}")], &[]);
    }
}

#[test]
fn server_that_works_passes_all_steps_in_both_eras() {
    for (era, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28")] {
        let report = probe_own_server(&["doctor", "--json"], &["--era", era]).assert_ok().json();
        assert_eq!((&report["ok"], &report["failure"]), (&json!(true), &Value::Null), "{report}");
        assert_eq!(step(&report, "revision"), ("ok", &*format!("{era} era, revision {revision}")));
        assert_eq!(step(&report, "lists"), ("ok", "4 tools"));
        assert_eq!(step(&report, "directory").0, "skipped");
    }
    // A modern server may ignore what it does not know.
    let server = ShellServer::modern().on_line(&method_pattern("initialize"), ":");
    let done = run(&["doctor", "--json", "--connect-timeout", "4s", "--", "sh", "-c", &server.script()], &[]);
    assert!(step(&done.assert_ok().json(), "revision").1.contains("2026-07-28"));
}

#[test]
fn output_that_only_some_clients_take_is_a_warning() {
    for (prelude, words) in
        [("echo Starting; echo up", "2 lines that are no message"), ("printf '\\r\\n'", "CRLF")]
    {
        let script = ShellServer::legacy().with_prelude(prelude).script();
        let done = run(&["doctor", "--json", "--", "sh", "-c", &script], &[]).assert_ok();
        let report = done.json();
        let (state, detail) = step(&report, "output");
        assert!(state == "warning" && detail.contains(words), "{done}");
        assert_eq!(report["ok"], true);
    }
}

#[test]
fn text_is_readable_at_80_columns_and_ends_with_the_finding() {
    let shown = |args: &[&str]| -> ProbeOutput {
        let done = run(&[&["doctor"], args].concat(), &[]);
        assert!(done.stdout.lines().all(|line| line.chars().count() <= 80), "{done}");
        done
    };
    let done = shown(&["--", "sh", "-c", "printf 'no \\033[2J key\\n' >&2; exit 1"]).assert_code(3);
    done.assert_stdout(&[
        "ok      program   sh is started\n",
        "failed  start     sh ends with exit status: 1",
        "\n        why       ",
        "\n        fix       ",
        "\\u{1b}",
    ])
    .assert_stderr(&["error: the step `start` failed"]);
    shown(&["--", PROBE, "serve"])
        .assert_ok()
        .assert_stdout(&["-       directory that of this command\n", "ok      lists     4 tools\n"]);
}

#[test]
fn command_line_without_a_server_is_a_usage_error() {
    let done = run(&["doctor", "--json"], &[]).assert_code(2);
    assert_eq!(done.json()["error"]["kind"], "usage", "{done}");
    let done = run(&["doctor", "--authorize", "http://localhost/mcp"], &[]).assert_code(2);
    done.assert_stderr(&["asks nobody to log in", "mcp-probe login URL"]);
    run(&["doctor", "http://localhost:99999/mcp"], &[]).assert_code(2).assert_stderr(&["localhost:99999"]);
}
