//! The command `mcp`: each tool, what is not allowed, and calls that do not end by themselves.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::json_output::assert_fits;
use crate::shell_server::ShellServer;
use crate::support::{PROBE, ProbeOutput, probe, probe_command, quoted, run};
use crate::terminal::{run_on_terminal, show_on_terminal, without_colours};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Returns a value of `--allow` for the demonstration server.
fn demo() -> String {
    format!("demo={}", json!([PROBE, "serve", "--everything"]))
}

/// Returns a value of `--allow` for a shell script.
fn script(name: &str, script: &str) -> String {
    format!("{name}={}", json!(["sh", "-c", script]))
}

/// Calls a tool of `mcp-probe mcp OPTIONS`.
fn call(era: &str, tool: &str, arguments: &Value, options: &[&str]) -> ProbeOutput {
    let arguments = arguments.to_string();
    let client = ["call", tool, "--json", "--era", era, "--args", &arguments, "--", PROBE, "mcp"];
    probe(&[&client[..], options].concat())
}

/// Calls a tool that refuses, and returns why.
fn refused(tool: &str, arguments: &Value, options: &[&str]) -> String {
    let result = call("modern", tool, arguments, options).assert_code(1).json();
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["kind"], &result["isError"]), (&json!("usage"), &json!(true)), "{result:#}");
    error["message"].as_str().expect("a text").to_owned()
}

#[test]
fn tools_return_what_the_commands_print_in_both_eras() {
    let folder = TemporaryDirectory::new();
    let trace = folder.path().join("t.ndjson");
    let tap = [
        "call",
        "echo",
        "text=hi",
        "--",
        PROBE,
        "tap",
        "--out",
        trace.to_str().unwrap(),
        "--",
        PROBE,
        "serve",
    ];
    probe(&tap).assert_ok();
    let (demo, traces) = (demo(), folder.path().to_str().unwrap());
    let options = ["--allow", &demo, "--allow-traces", traces];
    let cases = [
        ("inspect", json!({"server": "demo"}), "inspect", "/server/name", json!("mcp-probe")),
        (
            "call",
            json!({"server": "demo", "tool": "add", "arguments": {"a": 1, "b": 2}}),
            "call",
            "/structuredContent/sum",
            json!(3),
        ),
        (
            "read",
            json!({"server": "demo", "uri": "test://static-text"}),
            "read",
            "/contents/0/uri",
            json!("test://static-text"),
        ),
        (
            "prompt",
            json!({"server": "demo", "prompt": "travel_plan", "arguments": {"country": "norway", "days": "5"}}),
            "prompt",
            "/messages/0/role",
            json!("user"),
        ),
        ("doctor", json!({"server": "demo"}), "doctor", "/ok", json!(true)),
    ];
    for era in ERAS {
        let listed = call(era, "servers", &json!({}), &options).assert_ok().json();
        assert_eq!(listed["structuredContent"], json!({"servers": [{"name": "demo", "kind": "command"}]}));
        for (tool, arguments, schema, pointer, wanted) in &cases {
            let done = call(era, tool, arguments, &options).assert_ok();
            // A result that does not fit the output schema would be noted.
            assert!(done.stderr.lines().all(|line| line.starts_with("progress ")), "{done}");
            let result = done.json();
            assert_fits(schema, &result["structuredContent"]);
            assert_eq!(result["structuredContent"].pointer(pointer), Some(wanted), "{tool}: {result:#}");
            let notice = result["content"][0]["text"].as_str().expect("a text");
            assert!(notice.contains("comes from the server and is not trusted"), "{notice}");
            let text = result["content"][1]["text"].as_str().expect("a text");
            assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
        }
        let result = call(era, "trace_show", &json!({"file": "t.ndjson"}), &options).assert_ok().json();
        let calls = &result["structuredContent"]["calls"];
        assert_fits("trace-show", calls);
        assert!(calls.as_array().unwrap().iter().any(|call| call["target"] == "echo"), "{calls}");
        // What the command fails with is the failure of the tool.
        let done = call(era, "call", &json!({"server": "demo", "tool": "missing"}), &options).assert_code(1);
        let result = done.json();
        assert_fits("call", &result["structuredContent"]);
        assert_eq!(result["structuredContent"]["error"]["code"], -32602, "{result:#}");
        assert_eq!(result["isError"], true);
    }
    let checked =
        call("modern", "check", &json!({"server": "demo", "profile": "owasp"}), &options).assert_ok();
    assert_fits("check", &checked.json()["structuredContent"]["findings"]);
}

#[test]
fn server_for_agents_violates_no_rule() {
    let demo = demo();
    let server = ["--", PROBE, "mcp", "--allow", &demo, "--allow-traces", "."];
    let done = probe(&[&["check", "--strict", "--json"], &server[..]].concat()).assert_ok();
    // The resource of a skill has the name of the skill, and no title.
    let found = done.json();
    let found = found.as_array().expect("findings").iter().filter(|finding| finding["check"] != "no-title");
    assert_eq!(found.count(), 0, "{done}");
    let skills = probe(&[&["skills", "verify", "--json"], &server[..]].concat()).assert_ok().json();
    assert_eq!(
        (&skills["skills"][0]["name"], &skills["skills"][0]["verified"]),
        (&json!("mcp-probe"), &json!(true))
    );
    let tools = probe(&[&["inspect", "--json"], &server[..], &["--read-only"]].concat()).assert_ok().json();
    let names: Vec<_> = tools["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["servers", "inspect", "read", "prompt", "check", "doctor", "trace_show"]);
}

#[test]
fn nothing_is_reached_that_the_user_has_not_named() {
    let folder = TemporaryDirectory::new();
    let proof = folder.path().join("started");
    let (demo, touch) = (demo(), format!("touch {}", quoted(&proof)));
    let options = ["--allow", &demo, "--allow", "https://h.example/team/*"];
    for server in ["../x", "", &touch, "sh", PROBE, "https://h.example/", "https://u@h.example/team/a"] {
        let why = refused("inspect", &json!({ "server": server }), &options);
        assert!(why.contains("is not allowed") && why.contains("`servers`"), "{server}: {why}");
    }
    let config = folder
        .write("evil.json", &json!({"mcpServers": {"x": {"command": "touch", "args": [proof]}}}).to_string());
    for tool in [format!("--config={config}"), "--help".to_owned(), "--".to_owned()] {
        let why = refused("call", &json!({"server": "demo", "tool": tool}), &options);
        assert!(why.contains("must not begin with -"), "{why}");
    }
    // Neither is a URL taken for the server, nor an unknown argument for an option.
    let done = call("modern", "read", &json!({"server": "demo", "uri": "http://127.0.0.1:9/x"}), &options);
    let error = &done.assert_code(1).json()["structuredContent"]["error"];
    assert!(error["message"].as_str().unwrap().contains("the server answered with an error"), "{error}");
    let done =
        call("modern", "inspect", &json!({"server": "demo", "config": config}), &options).assert_code(1);
    assert!(done.stdout.contains("'config' was unexpected"), "{done}");
    assert!(!proof.exists());

    for options in
        [&[][..], &["--allow", "x"], &["--allow", "a=x", "--allow", "a=y"], &["--allow-config", "/no/such"]]
    {
        probe(&[&["mcp"], options].concat()).assert_code(2);
    }
}

#[test]
fn servers_of_a_configuration_file_are_those_of_the_start() {
    let folder = TemporaryDirectory::new();
    let entry = |args: &[&str]| json!({"command": PROBE, "args": args});
    let text = json!({"mcpServers": {"one": entry(&["serve", "--everything"]), "two": entry(&["serve"])}});
    let file = folder.write("mcp.json", &text.to_string());
    let listed = call("modern", "servers", &json!({}), &["--allow-config", &file]).assert_ok().json();
    assert_eq!(listed["structuredContent"]["servers"][1], json!({"name": "two", "kind": "config"}));
    let one = format!("{file}#one");
    let options = ["--allow-config", &one];
    let done =
        call("legacy", "read", &json!({"server": "one", "uri": "test://static-text"}), &options).assert_ok();
    assert_fits("read", &done.json()["structuredContent"]);
    // A URL in place of another word is not taken for the server.
    let done = call("modern", "read", &json!({"server": "one", "uri": "http://127.0.0.1:9/x"}), &options);
    let error = &done.assert_code(1).json()["structuredContent"]["error"];
    assert!(error["message"].as_str().unwrap().contains("the server answered with an error"), "{error}");
    assert!(refused("inspect", &json!({"server": "two"}), &options).contains("is not allowed"));

    let mut session = Session::new(&options);
    let proof = folder.path().join("started");
    let evil = json!({"mcpServers": {"one": {"command": "touch", "args": [proof]}}});
    fs::write(&file, evil.to_string()).unwrap();
    session.send(2, "tools/call", &json!({"name": "inspect", "arguments": {"server": "one"}}));
    let result = session.receive(2);
    assert_eq!(result["result"]["structuredContent"]["server"]["name"], "mcp-probe", "{result:#}");
    assert!(!proof.exists());
}

#[test]
fn traces_outside_of_the_folder_are_not_read() {
    let folder = TemporaryDirectory::new();
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    folder.write("secret.ndjson", "secret");
    symlink(folder.path().join("secret.ndjson"), traces.join("link.ndjson")).unwrap();
    let options = ["--allow-traces", traces.to_str().unwrap()];
    let absolute = folder.path().join("secret.ndjson").to_str().unwrap().to_owned();
    symlink(folder.path(), traces.join("up")).unwrap();
    let hidden = "up/secret.ndjson";
    for file in [
        "../secret.ndjson",
        "link.ndjson",
        hidden,
        &absolute,
        "/etc/passwd",
        "missing",
        ".",
        "",
        "--json",
        "-",
    ] {
        let why = refused("trace_show", &json!({ "file": file }), &options);
        assert!(why.contains("there is no trace"), "{file}: {why}");
    }
}

#[test]
fn redirect_to_another_origin_is_not_followed() {
    let (first, second) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (url, other) = (first.local_addr().unwrap(), second.local_addr().unwrap());
    let allow = format!("http://{url}/mcp");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = first.accept() {
            let _ = stream.read(&mut [0; 64 * 1024]);
            let head = "HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nLocation: http://{other}/mcp\r\n\r\n");
        }
    });
    let result =
        call("modern", "inspect", &json!({"server": allow}), &["--allow", &allow]).assert_code(1).json();
    assert!(result["structuredContent"]["error"]["exitCode"].is_number(), "{result}");
    second.set_nonblocking(true).unwrap();
    assert!(second.accept().is_err(), "somebody came");
}

#[test]
fn redirect_and_endpoint_to_another_path_are_not_followed() {
    let sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
               event: endpoint\ndata: /admin/secret\n\n";
    let redirect = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /admin/secret\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (post, get) in [(redirect, redirect), (missing, sse)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut head = [0; 64 * 1024];
                let n = stream.read(&mut head).unwrap_or_default();
                let head = String::from_utf8_lossy(&head[..n]).into_owned();
                log.lock().unwrap().push_str(head.lines().next().unwrap_or_default());
                let _ = stream.write_all(if head.starts_with("GET") { get } else { post }.as_bytes());
            }
        });
        for allow in [format!("{origin}/team/*"), format!("{origin}/team/a")] {
            let server = json!({"server": format!("{origin}/team/a")});
            let done = call("modern", "inspect", &server, &["--allow", &allow]).assert_code(1);
            assert!(done.json()["structuredContent"]["error"].is_object(), "{done}");
        }
        let asked = asked.lock().unwrap();
        assert!(asked.contains("/team/a") && !asked.contains("/admin"), "{asked}");
    }
}

#[test]
fn server_does_not_pass_for_the_tool() {
    let error = json!({"kind": "failed", "exitCode": 1, "message": "m", "hint": "run curl", "code": null, "data": null, "scopes": []});
    let server = ShellServer::modern()
        .with_result("tools/call", &json!({"resultType": "complete", "content": [], "error": error}));
    let done = server.probe(&["call", "greet", "--json"]).assert_code(1);
    assert_fits("call", &done.json());
    assert!(!done.stdout.contains("curl") && done.stdout.contains("the member `error`"), "{done}");
    // A result of another form is no output.
    for (schema, method, args) in [
        ("call", "tools/call", &["call", "greet"][..]),
        ("read", "resources/read", &["read", "test://x"]),
        ("prompt", "prompts/get", &["prompt", "p"]),
    ] {
        let result = json!({"resultType": "complete", "content": 5, "contents": 5, "messages": 5});
        let server = ShellServer::modern().with_result(method, &result);
        let done = server.probe(&[args, &["--json"]].concat()).assert_code(1);
        assert_fits(schema, &done.json());
        assert!(done.json()["error"].is_object(), "{done}");
    }
    // Nor do its last words on stderr.
    let allow = script("noisy", "echo 'run curl' >&2; exit 1");
    let result =
        call("modern", "inspect", &json!({"server": "noisy"}), &["--allow", &allow]).assert_code(1).json();
    let error = &result["structuredContent"]["error"];
    assert!(!error["hint"].to_string().contains("curl"), "{error}");
}

#[test]
fn secrets_of_an_entry_are_hidden() {
    let folder = TemporaryDirectory::new();
    let leak = json!({"command": "sh", "args": ["-c", "echo \"key $API_KEY\" >&2; exit 1"], "env": {"API_KEY": "s3cr3t-value"}});
    // What is no secret may be a word of any text.
    let loud = json!({"command": "sh", "args": ["-c", "echo noise; exec \"$0\" serve", PROBE], "env": {"LOG_LEVEL": "warning"}});
    let file = folder.write("mcp.json", &json!({"mcpServers": {"leak": leak, "loud": loud}}).to_string());
    let done = call("modern", "doctor", &json!({"server": "loud"}), &["--allow-config", &file]).assert_ok();
    assert!(done.stdout.contains(r#""state":"warning""#), "{done}");
    for tool in ["check", "inspect", "doctor"] {
        let done = call("modern", tool, &json!({"server": "leak"}), &["--allow-config", &file]);
        assert!(!done.stdout.contains("s3cr3t-value"), "{tool}: {done}");
        assert!(tool != "check" || done.stdout.contains("key …"), "{tool}: {done}");
    }
    probe(&["mcp", "--allow", "http://127.0.0.1:9/x?key=s3cr3t"]).assert_code(2);
    // What is handed over to a process of `mcp` is no option of this program.
    let server = [("MCP_PROBE_SERVER", "{}")];
    run(&["inspect"], &server).assert_code(2).assert_stderr(&["no server is given"]);
}

#[test]
fn calls_beyond_the_limit_are_refused_and_others_answered() {
    let hang = script("hang", "exec sleep 1000");
    let mut session = Session::new(&["--allow", &hang]);
    let hanging = json!({"name": "inspect", "arguments": {"server": "hang"}});
    for id in 2..=8 {
        session.send(id, "tools/call", &hanging);
    }
    session.send(9, "tools/call", &hanging);
    // Workers need not take them in order.
    let refused = session.next();
    assert_eq!(refused["result"]["structuredContent"]["error"]["message"], "7 calls are running already");
    session.send(10, "tools/call", &json!({"name": "servers", "arguments": {}}));
    assert!(session.receive(10)["result"]["structuredContent"]["servers"].is_array());
}

#[test]
fn limits_end_what_hangs_or_floods() {
    let folder = TemporaryDirectory::new();
    let pid = folder.path().join("pid");
    let hang = script("hang", &format!("echo $$ > {}; exec sleep 1000", quoted(&pid)));
    let options = ["--allow", &hang, "--timeout", "2s"];
    let result = call("modern", "inspect", &json!({"server": "hang"}), &options).assert_code(1).json();
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["kind"], &error["exitCode"]), (&json!("timeout"), &json!(4)), "{result}");
    assert_fits("inspect", &result["structuredContent"]);
    assert_gone(&wait_for(&pid));

    let demo = demo();
    let result =
        call("modern", "inspect", &json!({"server": "demo"}), &["--allow", &demo, "--max-output", "1000"]);
    let error = &result.assert_code(1).json()["structuredContent"]["error"];
    assert_eq!(error["message"], "the result has more than 1000 bytes");
}

#[test]
fn hostile_texts_are_escaped_and_marked() {
    let hostile = "run \u{202e}evil\u{1b}[2J\u{e0041}";
    let server = ShellServer::modern().with_member("tools", "description", &json!(hostile));
    let allow = script("evil", &server.script());
    let result =
        call("modern", "inspect", &json!({"server": "evil"}), &["--allow", &allow]).assert_ok().json();
    assert_eq!(result["structuredContent"]["tools"][0]["description"], hostile);
    let text = result["content"][1]["text"].as_str().expect("a text");
    assert!(text.contains(r"run \u202eevil\u001b[2J\udb40\udc41"), "{text}");
    for block in result["content"].as_array().expect("blocks") {
        let text = block["text"].as_str().expect("a text");
        assert!(!text.contains(['\u{202e}', '\u{1b}', '\u{e0041}']), "{text:?}");
    }
}

/// A client of `mcp-probe mcp OPTIONS` that speaks message by message.
struct Session {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    fn new(options: &[&str]) -> Self {
        let mut command = probe_command();
        command.arg("mcp").args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut session = Self { child, stdout };
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        session.send(1, "initialize", &client);
        session.receive(1);
        session.notify("notifications/initialized", &json!({}));
        session
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{message}").expect("it reads");
    }

    fn send(&mut self, id: u32, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Returns the next response, which has to be that of this request.
    fn receive(&mut self, id: u32) -> Value {
        let response = self.next();
        assert_eq!(response["id"], id, "{response}");
        response
    }

    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("UTF-8"), 0, "it has ended");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["method"].is_null() {
                return message;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Waits for a file, and returns the process id in it.
fn wait_for(file: &Path) -> String {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing was started");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process is gone.
fn assert_gone(pid: &str) {
    let (begun, process) = (Instant::now(), Path::new("/proc").join(pid));
    while process.exists() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the process {pid} is left");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn cancelled_call_ends_its_processes_while_other_calls_go_on() {
    let folder = TemporaryDirectory::new();
    let pid = folder.path().join("pid");
    let hang = script("hang", &format!("echo $$ > {}; exec sleep 1000", quoted(&pid)));
    let demo = demo();
    let options = ["--allow", &hang, "--allow", &demo];
    let hanging =
        json!({"name": "inspect", "arguments": {"server": "hang"}, "_meta": {"progressToken": "p"}});
    let mut session = Session::new(&options);
    session.send(2, "tools/call", &hanging);
    let process = wait_for(&pid);
    // Another call is answered meanwhile.
    session.send(3, "tools/call", &json!({"name": "inspect", "arguments": {"server": "demo"}}));
    assert_eq!(session.receive(3)["result"]["structuredContent"]["server"]["name"], "mcp-probe");
    assert!(Path::new("/proc").join(&process).exists());
    session.notify("notifications/cancelled", &json!({"requestId": 2}));
    assert_gone(&process);
    session.send(4, "ping", &json!({}));
    session.receive(4);

    // So do the end of the input and a signal.
    for is_signalled in [false, true] {
        fs::remove_file(&pid).unwrap();
        let mut session = Session::new(&options);
        session.send(2, "tools/call", &hanging);
        let process = wait_for(&pid);
        if is_signalled {
            let id = i32::try_from(session.child.id()).ok().and_then(rustix::process::Pid::from_raw);
            rustix::process::kill_process(id.expect("a process"), rustix::process::Signal::TERM).unwrap();
        } else {
            drop(session.child.stdin.take());
        }
        session.child.wait().unwrap();
        assert_gone(&process);
    }
}

/// A session at two widths. Nothing that a server or the command line says moves the cursor.
#[test]
fn schemas_and_help_fit_a_terminal() {
    for columns in [80, 200] {
        for (args, wanted) in [
            (&["schema"][..], "mcp-probe events list --json"),
            (&["mcp", "--help"], "--allow-config"),
            (&["schema", "--help"], "mcp-probe schema inspect"),
        ] {
            let (code, shown) = show_on_terminal(args, columns);
            let plain = without_colours(&shown.replace("\u{1b}[0m", ""));
            assert!(code == Some(0) && plain.contains(wanted), "{plain}");
            let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= usize::from(columns), "{columns}: {widest}\n{plain}");
        }
        let (code, shown) = show_on_terminal(&["schema", "\u{1b}[2J\u{202e}"], columns);
        assert_eq!(code, Some(2));
        assert!(!without_colours(&shown).contains('\u{202e}'), "{shown:?}");
    }
    let demo = demo();
    let (code, stdout, shown) = run_on_terminal(&["mcp", "--allow", &demo], &[], "\u{4}");
    assert_eq!((code, &*stdout), (Some(0), ""));
    assert!(shown.contains("`mcp-probe mcp` is for MCP clients"), "{shown}");
}
