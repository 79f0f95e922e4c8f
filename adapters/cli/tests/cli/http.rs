//! Client and server over HTTP, and URLs without an MCP server.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::support::{ClosedAddress, PROBE, REVISIONS, probe, probe_command, run};

/// A process `mcp-probe serve --http 127.0.0.1:0 ARGS` that ends when it is dropped.
pub(crate) struct ServingProcess {
    child: Child,
    pub(crate) url: String,
    pub(crate) sse: Option<String>,
    stderr: Option<thread::JoinHandle<String>>,
}

impl ServingProcess {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::listening_at("127.0.0.1:0", args)
    }

    pub(crate) fn listening_at(address: &str, args: &[&str]) -> Self {
        Self::spawn(probe_command().args(["serve", "--http", address]).args(args), args)
    }

    /// Starts a server that answers to a name below `localhost`, its URL.
    pub(crate) fn below_localhost() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.expect("a port").port();
        let mut serving = Self::listening_at(
            &format!("127.0.0.1:{port}"),
            &["--allow-host", &format!("a.localhost:{port}")],
        );
        serving.url = serving.url.replace("127.0.0.1", "a.localhost");
        serving
    }

    /// Starts `mcp-probe bridge --http 127.0.0.1:0 ARGS`.
    pub(crate) fn bridge(args: &[&str]) -> Self {
        Self::spawn(probe_command().args(["bridge", "--http", "127.0.0.1:0"]).args(args), args)
    }

    /// Starts `mcp-probe COMMAND ARGS`, which listens at an address.
    pub(crate) fn listening(command: &[&str], args: &[&str]) -> Self {
        Self::spawn(probe_command().args(command).args(args), args)
    }

    /// Starts a command that says its address, of which `--sse` among `args` makes two.
    pub(crate) fn spawn(command: &mut Command, args: &[&str]) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut next = || {
            let mut line = String::new();
            lines.read_line(&mut line).expect("UTF-8");
            let url =
                line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
            // The path of a socket may have spaces.
            url.trim_end_matches(" (2024-11-05)").to_owned()
        };
        let url = next();
        let sse = args.contains(&"--sse").then(next);
        // Drained, so that the process never blocks on stderr.
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            lines.read_to_string(&mut text).map_or_else(|error| error.to_string(), |_| text)
        });
        Self { child, url, sse, stderr: Some(stderr) }
    }

    /// Ends the process and returns what it wrote to stderr after the lines about its addresses.
    pub(crate) fn stop(mut self) -> String {
        self.child.kill().expect("it runs");
        self.stderr.take().expect("not taken yet").join().expect("no panic")
    }

    /// Returns the CPU time of the process in ticks of 10 ms, where the system provides it.
    pub(crate) fn cpu_ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    }

    /// Returns the number of threads with a name, where the system provides it.
    fn thread_count(&self, name: &str) -> usize {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return 0 };
        let names =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        names.filter(|other| other.trim() == name).count()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the process to end by itself and returns its exit code.
    pub(crate) fn wait_exit_code(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://").split('/').next().unwrap_or_default()
    }
}

impl Drop for ServingProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// covers: HTTP-001, HTTPSSE-001, HTTPSSE-012
#[test]
fn every_command_accepts_a_url() {
    let server = ServingProcess::new(&["--everything", "--sse"]);
    for (revision, era) in REVISIONS {
        // 2024-11-05 has a separate transport.
        let url = if revision == "2024-11-05" { server.sse.as_deref().expect("said") } else { &server.url };
        let pin = |args: &[&str]| probe(&[args, &["--protocol-version", revision]].concat()).assert_ok();
        let found = pin(&["inspect", url, "--json"]).json();
        assert_eq!((&found["revision"], &found["era"]), (&revision.into(), &era.into()));
        assert!(found["tools"].as_array().is_some_and(|tools| tools.len() > 20), "{found}");
        pin(&["call", "count", "--args", r#"{"to":2,"delay_ms":20}"#, url]).assert_stdout(&["counted to 2"]);
        pin(&["read", "test://static-text", url]).assert_stdout(&["static text resource"]);
        pin(&["prompt", "test_simple_prompt", url]).assert_stdout(&["simple prompt"]);
        pin(&["ping", "-n", "1", url]).assert_stdout(&["1 round trip"]);
        pin(&["listen", "clock://running", "--count", "1", url])
            .assert_stdout(&["changed    clock://running"]);
        if !["2024-11-05"].contains(&revision) {
            pin(&["complete", "prompt:travel_plan", "country", "n", url]).assert_stdout(&["norway"]);
        }
        if ["2025-06-18", "2025-11-25", "2026-07-28"].contains(&revision) {
            let answer = r#"elicit={"name":"Ada"}"#;
            pin(&["call", "sign", "--answer", answer, url]).assert_stdout(&["Hello, Ada!"]);
        }
    }
    // Both eras at once, and a URL after `--`.
    let done = probe(&["inspect", "--json", "--", &server.url]).assert_ok();
    assert_eq!(done.json()["revision"], "2026-07-28", "{done}");
    // The server cuts the stream and the client resumes it.
    let call = ["call", "test_reconnection", "--protocol-version", "2025-11-25", "--trace", &server.url];
    probe(&call).assert_ok().assert_stdout(&["Whoever came back"]).assert_stderr(&["Last-Event-ID"]);
}

#[test]
fn names_below_localhost_are_this_machine_for_every_command() {
    let serving = ServingProcess::below_localhost();
    for command in [&["ping", "-n", "1"][..], &["check"], &["doctor"], &["call", "echo", "text=x"]] {
        probe(&[command, &[&serving.url]].concat()).assert_ok();
    }
}

#[test]
fn connections_are_distributed_to_shards() {
    for args in [&["--runtime", "threads"][..], &["--runtime", "smol"]] {
        let server = ServingProcess::new(&[args, &["--shards", "3"]].concat());
        // More clients than shards, each with its own connection. Sessions are found from any shard.
        for era in ["modern", "legacy"].repeat(4) {
            let call = ["call", "count", "--args", r#"{"to":2,"delay_ms":1}"#, "--era", era, &server.url];
            probe(&call).assert_ok().assert_stdout(&["counted to 2"]);
        }
        if cfg!(target_os = "linux") {
            assert_eq!(server.thread_count("mcp-shard"), 2, "{args:?}: the first is none of its own");
        }
    }
}

// covers: SEC-019
#[test]
fn trace_shows_http_heads_without_secrets() {
    let server = ServingProcess::new(&["--trace"]);
    let call = ["call", "echo", "--args", r#"{"text":"x"}"#, "--trace", "--bearer", "hunter2", &server.url];
    for era in ["modern", "legacy"] {
        let done = probe(&[&call[..], &["--era", era]].concat()).assert_ok();
        assert!(!done.stderr.contains("hunter2"), "{done}");
        let done = done.assert_stderr(&["→ POST /mcp", "Authorization: [redacted]", "← 200"]);
        if era == "legacy" {
            done.assert_stderr(&["Mcp-Session-Id: [redacted]", "→ DELETE /mcp"]);
        }
    }
}

#[test]
fn slow_http_server_is_awaited_until_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 8192]);
            // More than half of the connect timeout.
            thread::sleep(Duration::from_millis(3_500));
            let _ = stream.write_all(b"HTTP/1.1 418 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    probe(&["ping", "--era", "modern", "--connect-timeout", "6s", &url])
        .assert_code(3)
        .assert_stderr(&["418"]);
    let done = probe(&["ping", "--connect-timeout", "500ms", &url]).assert_code(3);
    done.assert_stderr(&["did not answer", "--connect-timeout (now 0.5s)"]);
}

#[test]
fn http_server_killed_during_call_exits_with_3() {
    let mut server = ServingProcess::new(&[]);
    let count = ["call", "count", "--args", r#"{"to":1000,"delay_ms":100}"#, "--era", "modern"];
    let mut client = probe_command();
    client.args(count).arg(&server.url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut call = client.spawn().expect("the program under test starts");
    let mut stderr = BufReader::new(call.stderr.take().expect("piped"));
    let mut text = String::new();
    while !text.contains("progress") {
        assert_ne!(stderr.read_line(&mut text).expect("UTF-8"), 0, "{text}");
    }
    server.child.kill().expect("it runs");
    stderr.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(call.wait().expect("it ends").code(), Some(3), "{text}");
    assert!(text.contains("the answer was lost"), "{text}");
}

// covers: XHDR-012
#[test]
fn every_tool_with_an_invalid_header_annotation_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 8192];
            let n = stream.read(&mut request).unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..n]).into_owned();
            let result = if request.contains("server/discover") {
                r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}"#.to_owned()
            } else {
                let bad = |n: u32| {
                    format!(
                        r#",{{"name":"mislabelled{n}","inputSchema":{{"type":"object","properties":
                            {{"a":{{"type":"string","x-mcp-header":"a b"}}}}}}}}"#
                    )
                };
                let bad: String = (1..=5).map(bad).collect();
                format!(r#""tools":[{{"name":"good","inputSchema":{{"type":"object"}}}}{bad}]"#)
            };
            let id = request.rsplit("\"id\":").next().and_then(|rest| rest.split([',', '}']).next());
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","ttlMs":0,"cacheScope":"private",{result}}}}}"#,
                id.unwrap_or("0")
            );
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let done = probe(&["inspect", &url]).assert_ok().assert_stdout(&["good"]);
    assert!(!done.stdout.contains("mislabelled"), "{done}");
    let named = (1..=5).map(|n| format!("note: the tool `mislabelled{n}` was left out: "));
    let named: Vec<_> = named.collect();
    let named: Vec<_> = named.iter().map(String::as_str).collect();
    let done = done.assert_stderr(&named).assert_stderr(&["x-mcp-header", "not a token"]);
    assert_eq!(done.stderr.lines().count(), 5, "{done}");
    // A bridge leaves them out as well.
    let bridged = ["ping", "-n", "1", "--", PROBE, "bridge", &url];
    assert_eq!(probe(&bridged).assert_ok().stderr, "", "no list was read");
    let bridged = ["inspect", "--", PROBE, "bridge", &url];
    let done = probe(&bridged).assert_ok().assert_stdout(&["good"]).assert_stderr(&named);
    assert_eq!(done.stderr.lines().count(), 5, "{done}");
}

/// Starts a server that answers 401. Returns its URL and the last `Authorization` value it received.
fn unauthorized_server() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    let seen = Arc::new(Mutex::new(String::new()));
    let recorded = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 8192];
            let n = stream.read(&mut head).unwrap_or_default();
            let text = String::from_utf8_lossy(&head[..n]).into_owned();
            let shown =
                text.lines().find_map(|line| line.strip_prefix("Authorization: ")).unwrap_or_default();
            shown.clone_into(&mut recorded.lock().expect("no panic"));
            let _ = stream.write_all(b"HTTP/1.1 401 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (url, seen)
}

// covers: AUTH-006, SEC-019
#[test]
fn bearer_token_is_read_from_variable_or_file() {
    let (url, seen) = unauthorized_server();
    let file = std::env::temp_dir().join(format!("mcp-probe-token-{}", std::process::id()));
    std::fs::write(&file, "from-a-file\n").expect("a file");
    let from_file = format!("@{}", file.display());
    let environment = [("PROBE_TOKEN", "from-a-variable")];
    for (bearer, want) in
        [("plain", "plain"), ("env:PROBE_TOKEN", "from-a-variable"), (&from_file, "from-a-file")]
    {
        let done = run(&["ping", "--bearer", bearer, "--trace", &url], &environment).assert_code(6);
        done.assert_stderr(&["401", "Authorization: [redacted]", "hint: --bearer"]);
        assert_eq!(*seen.lock().expect("no panic"), format!("Bearer {want}"));
        run(&["check", "--timeout", "1s", "--bearer", bearer, &url], &environment);
        assert_eq!(*seen.lock().expect("no panic"), format!("Bearer {want}"));
    }
    std::fs::write(&file, "two words").expect("a file");
    for (bearer, what) in [
        ("env:PROBE_NONE", "the variable PROBE_NONE"),
        ("@/nowhere/token", "the file /nowhere/token"),
        ("env:PROBE_ODD", "characters"),
        (&from_file, "characters"),
    ] {
        let done = run(&["ping", "--bearer", bearer, &url], &[("PROBE_ODD", "s3cret s3cret")]).assert_code(2);
        let done = done.assert_stderr(&["--bearer", what]);
        assert!(!done.stderr.contains("s3cret") && !done.stderr.contains("two words"), "{done}");
    }
    std::fs::remove_file(file).expect("it was there");
}

// covers: SEC-019
#[test]
fn messages_about_urls_contain_no_secrets() {
    let free = ClosedAddress::new();
    for (url, code) in [
        (&*format!("http://{free}/mcp?key=s3cret"), 3),
        ("http://me:s3cret@localhost/mcp", 2),
        ("https://localhost/mcp?key=s3cret", 3),
        ("http://localhost:x/mcp?key=s3cret", 2),
        ("HTTP://me:s3cret@localhost/", 2),
    ] {
        for command in [&["ping", "--trace"][..], &["check"], &["call", "x"]] {
            let done = probe(&[command, &[url]].concat()).assert_code(code);
            assert!(!done.stderr.contains("s3cret"), "{done}");
        }
    }
    let server = ServingProcess::new(&[]);
    let url = server.url.replace("http://", "HTTP://") + "?key=s3cret";
    for era in ["legacy", "modern"] {
        let done = probe(&["inspect", "--era", era, "--trace", &url]).assert_ok();
        let done = done.assert_stderr(&["POST /mcp?key=[redacted]"]);
        assert!(!done.stderr.contains("s3cret") && !done.stdout.contains("s3cret"), "{done}");
    }
}

// covers: HTTP-003, HTTP-008
#[test]
fn serve_applies_path_host_and_origin_options() {
    let args =
        ["--path", "/here", "--allow-host", "mcp.example.com", "--allow-origin", "https://app.example.com"];
    let server = ServingProcess::new(&args);
    assert!(server.url.ends_with("/here"));
    probe(&["ping", "-n", "1", &server.url]).assert_ok();
    probe(&["ping", "-n", "1", &server.url.replace("/here", "/mcp")])
        .assert_code(3)
        .assert_stderr(&["--trace"]);
    let status = |host: &str, origin: &str| {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        let head =
            format!("GET /nowhere HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("UTF-8");
        answer[9..12].to_owned()
    };
    assert_eq!(status("localhost", "http://localhost:3000"), "404");
    assert_eq!(status("mcp.example.com", "https://app.example.com"), "404");
    assert_eq!(status("evil.example.com", "https://app.example.com"), "403");
    assert_eq!(status("mcp.example.com", "https://evil.example.com"), "403");
}

/// Starts a server, ends it as soon as it listens, and returns what it has written to stderr.
pub(crate) fn stderr_of_server(args: &[&str]) -> String {
    let mut child = probe_command()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut text = String::new();
    stderr.read_line(&mut text).expect("UTF-8");
    // It answers requests after the last note.
    let address = text.split("://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let host = if address.starts_with('[') { "::1" } else { "127.0.0.1" };
    let mut stream = TcpStream::connect((host, port)).expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("taken");
    // A server with TLS refuses the request.
    let _ = stream.read_to_end(&mut Vec::new());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    stderr.read_to_string(&mut text).expect("UTF-8");
    text
}

// covers: HTTP-003, HTTP-008, HTTP-006
#[test]
fn server_at_routable_address_says_what_guards_it() {
    let own = ["--", PROBE, "serve"];
    for command in [
        &["serve"][..],
        &["serve", "--runtime", "threads", "--shards", "2"],
        &["serve", "--runtime", "smol"],
        &["bridge"],
    ] {
        let server = if command[0] == "bridge" { &own[..] } else { &[] };
        let stderr = |options: &[&str]| stderr_of_server(&[command, options, server].concat());
        let open = stderr(&[
            "--http",
            "0.0.0.0:0",
            "--allow-host",
            "a.example",
            "--allow-origin",
            "https://b.example",
        ]);
        for wanted in [
            "note: other machines can reach 0.0.0.0:",
            "localhost, 127.0.0.1, [::1], a.example (",
            "from this machine, https://b.example.",
            "No token is required",
            "there is no TLS",
        ] {
            assert_eq!(open.matches(wanted).count(), 1, "{command:?}: {wanted:?}: {open}");
        }
        let local = stderr(&["--http", "127.0.0.1:0"]);
        assert_eq!(local.lines().count(), 1, "{command:?}: {local}");
    }
    if let Err(error) = TcpListener::bind("[::1]:0") {
        // Not `eprintln!`: the test harness would capture the line and drop it.
        let _ = writeln!(std::io::stderr(), "NOT CHECKED: notes about addresses of IPv6: {error}");
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "IPv6 is required in CI");
        return;
    }
    assert!(stderr_of_server(&["serve", "--http", "[::]:0"]).contains("other machines can reach [::]:"));
    assert!(!stderr_of_server(&["serve", "--http", "[::1]:0"]).contains("note:"));
}

#[test]
fn invalid_or_unreachable_url_is_explained() {
    let free = ClosedAddress::new();
    let refused = format!("http://{free}/mcp");
    probe(&["ping", &refused]).assert_code(3).assert_stderr(&[&refused, "refused", "hint:"]);
    probe(&["ping", "http://"]).assert_code(2).assert_stderr(&["host"]);
    probe(&["check", &refused]).assert_code(3).assert_stderr(&[&refused, "refused", "hint:"]);
    probe(&["check", "--bearer", "x", "--", "true"]).assert_code(2).assert_stderr(&["--bearer"]);
    probe(&["ping", "--bearer", "x", "--", "true"]).assert_code(2).assert_stderr(&["--bearer"]);
    probe(&["ping", "--bearer", "x y", &refused]).assert_code(2).assert_stderr(&["--bearer"]);
    for address in ["nowhere", "8080"] {
        let done = probe(&["serve", "--http", address]).assert_code(2);
        done.assert_stderr(&[&format!("cannot listen at {address}"), "port"]);
        // The address is looked at before the folder of traces is, which cannot be below this home.
        let done =
            run(&["tap", "--http", address, &refused], &[("HOME", "/dev/null"), ("XDG_STATE_HOME", "")]);
        done.assert_code(2).assert_stderr(&["cannot listen at"]);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    for runtime in ["blocking", "threads", "smol"] {
        let done = probe(&["serve", "--http", &address, "--runtime", runtime]).assert_code(3);
        let done = done.assert_stderr(&["cannot listen at", &address, "in use", "another program", "port 0"]);
        assert_eq!(done.stderr.matches(&address).count(), 1, "{done}");
    }
    probe(&["serve", "--http", "127.0.0.1:0", "--path", "x"]).assert_code(2).assert_stderr(&["--path"]);
    probe(&["serve", "--path", "/x"]).assert_code(2).assert_stderr(&["--http"]);
    probe(&["serve", "--shards", "2"]).assert_code(2).assert_stderr(&["--http"]);
    let serve = ["serve", "--http", "127.0.0.1:0", "--shards"];
    probe(&[&serve[..], &["0"]].concat()).assert_code(2).assert_stderr(&["--shards"]);
    probe(&[&serve[..], &["2"]].concat()).assert_code(2).assert_stderr(&[
        "blocking",
        "one thread",
        "--runtime threads",
    ]);
    for runtime in ["threads", "smol"] {
        let done = probe(&[&serve[..], &["2", "--runtime", runtime, "--everything"]].concat()).assert_code(2);
        done.assert_stderr(&["--everything", "a server with tasks has one shard"]);
    }
}

#[test]
fn server_survives_more_connections_than_descriptors() {
    // About four file descriptors are left for connections, if none is inherited.
    let script =
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 14; exec \"$0\" serve --http 127.0.0.1:0";
    let server = ServingProcess::spawn(Command::new("sh").args(["-c", script, PROBE]), &[]);
    let ask = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("taken");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 404");
    };
    let connect = || TcpStream::connect(server.address()).expect("it listens");
    let mut crowd: Vec<TcpStream> = (0..30).map(|_| connect()).collect();
    // Silent connections are closed in favour of newer ones.
    ask(&mut crowd[29]);
    thread::sleep(Duration::from_millis(200));
    let spent = server.cpu_ticks();
    thread::sleep(Duration::from_secs(1));
    if let (Some(before), Some(after)) = (spent, server.cpu_ticks()) {
        assert!(after - before < 20, "it spins: {} ticks in a second", after - before);
    }
    ask(&mut connect());
    drop(crowd);
    (0..30).for_each(|_| ask(&mut connect()));
}

// covers: SEC-018
#[test]
fn max_connections_limits_the_server_and_the_bridge() {
    let serve = ["--max-connections", "2"];
    let bridged = [&serve[..], &["--", PROBE, "serve"]].concat();
    for server in [ServingProcess::new(&serve), ServingProcess::bridge(&bridged)] {
        // Two requests that are being received fill the server.
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Accept: application/json, text/event-stream\r\nExpect: 100-continue\r\nContent-Length: 4000000\r\n\r\n";
        let connect = || TcpStream::connect(server.address()).expect("it listens");
        let busy: Vec<TcpStream> = (0..2)
            .map(|_| {
                let mut stream = connect();
                stream.write_all(head.as_bytes()).expect("taken");
                let mut answer = [0; 25];
                stream.read_exact(&mut answer).expect("the head is read");
                assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
                stream.write_all(&[b' '; 100_000]).expect("taken");
                stream
            })
            .collect();
        let mut third = connect();
        third.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        third.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("taken");
        let mut answer = [0; 12];
        third.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 503");
        drop(busy);
    }
    let wrong = probe(&["serve", "--http", "127.0.0.1:0", "--max-connections", "0"]).assert_code(2);
    wrong.assert_stderr(&["--max-connections", "from 1 to 1000000"]);
}

// covers: HTTP-084, VER-031
#[test]
fn web_page_is_not_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 8192]);
            let page = "<!doctype html><title>Hello</title>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    for era in ["auto", "modern", "legacy"] {
        probe(&["ping", "--era", era, &url]).assert_code(3).assert_stderr(&["text/html", &url]);
    }
}

/// Sends a request without a body and returns the response.
fn exchange(url: &str, method: &str, path: &str) -> String {
    let authority = url.split('/').nth(2).expect("an authority");
    let mut stream = TcpStream::connect(authority).expect("a connection");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("UTF-8");
    response
}

#[test]
fn serve_offers_its_card_on_each_runtime() {
    for runtime in ["blocking", "threads", "smol"] {
        // A free port; with port 0 the card would name no endpoint.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let address = format!("127.0.0.1:{port}");
        let server = ServingProcess::listening_at(&address, &["--runtime", runtime]);
        let card = exchange(&server.url, "GET", "/mcp/server-card");
        assert!(card.starts_with("HTTP/1.1 200 OK\r\n"), "{card}");
        assert!(card.contains("\r\nContent-Type: application/mcp-server-card+json\r\n"), "{card}");
        let (head, body) = card.split_once("\r\n\r\n").expect("a head");
        let document: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(document["name"], "io.github.mcp-proto/mcp-probe");
        assert_eq!(document["remotes"][0]["url"], server.url);
        assert!(
            document["remotes"][0]["supportedProtocolVersions"]
                .as_array()
                .is_some_and(|all| all.len() == REVISIONS.len())
        );
        let bare = exchange(&server.url, "HEAD", "/mcp/server-card");
        assert_eq!(bare.split_once("\r\n\r\n"), Some((head, "")), "HEAD is GET without the body");
        let catalog = exchange(&server.url, "GET", "/.well-known/ai-catalog.json");
        assert!(catalog.contains(&format!("\"url\":\"{}/server-card\"", server.url)), "{catalog}");
    }
    let server = ServingProcess::new(&[]);
    let card = exchange(&server.url, "GET", "/mcp/server-card");
    assert!(card.starts_with("HTTP/1.1 200 OK\r\n") && !card.contains("remotes"), "{card}");
}

/// Starts a server that answers every request with this status, these fields and this body.
pub(crate) fn refusing_server(status: u16, fields: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 8192]);
            let head = format!("HTTP/1.1 {status} \r\n{fields}Connection: close\r\n");
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    url
}

// covers: VER-021, HTTP-088
#[test]
fn refusal_of_access_ends_the_negotiation_only_if_it_says_what_helps() {
    for (status, field, tries) in [
        (403, "", 3),
        (429, "", 3),
        (403, "WWW-Authenticate: Bearer\r\n", 1),
        (403, "Retry-After: 5\r\n", 1),
        (429, "Retry-After: 5\r\n", 1),
    ] {
        let done = probe(&["ping", &refusing_server(status, field, "")]);
        assert_eq!(done.stderr.matches(&format!("HTTP status {status}")).count(), tries, "{field:?}: {done}");
        assert_eq!(done.stderr.contains("`initialize`"), tries > 1, "{field:?}: {done}");
        if status == 429 && tries == 1 {
            done.assert_stderr(&["try again in 5 s"]);
        }
    }
}

// covers: SEC-019
#[test]
fn body_of_a_refusal_is_quoted_before_what_the_authorization_lacks() {
    const TEXT: &str = "Content-Type: text/plain\r\n";
    let body = "send your key t0ps3cret in X-Api-Key";
    for status in [401, 403] {
        let url = refusing_server(status, TEXT, body);
        let done = probe(&["ping", "--trace", &url]);
        let done = done.assert_stderr(&[body, &format!("← {body}")]);
        // The error quotes it, and a trace shows it each time.
        let error = done.stderr.split("error: ").nth(1).expect("an error");
        assert!(
            error.contains(&format!("HTTP status {status} with a body of type `text/plain`: {body}")),
            "{done}"
        );
        if status == 401 {
            let (quoted, missing) = (error.find(body), error.find("not authorized: "));
            assert!(quoted < missing, "{done}");
            done.assert_code(6).assert_stderr(&["--header NAME:VALUE sends a key", "--bearer"]);
        }
    }
    // A JSON-RPC error is one, too; secrets that the server quotes are not shown.
    let json = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-5,"message":"no key t0ps3cret"}}"#;
    let url = refusing_server(401, "Content-Type: application/json\r\nWWW-Authenticate: Bearer\r\n", json);
    let done = probe(&["ping", "--header", "X-Api-Key: t0ps3cret", "--trace", &url]).assert_code(6);
    assert!(!done.stderr.contains("t0ps3cret"), "{done}");
    done.assert_stderr(&["no key … (code -5); the server asks for", "← {\"jsonrpc\":\"2.0\",\"id\":null,"]);
    // Neither is what is hidden in messages.
    let done = probe(&["ping", "--trace", "--hide", "message", &url]).assert_code(6);
    done.assert_stderr(&[&format!("← [{} bytes]", json.len())]);
}
