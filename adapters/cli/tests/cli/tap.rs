//! `tap` between clients and servers, and what `replay` and `shrink` make of its traces.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bridge::assert_all_features;
use crate::http::ServingProcess;
use crate::support::{PROBE, ProbeOutput, probe, probe_command};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// An empty folder for traces.
struct Traces(PathBuf);

impl Traces {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traces").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Returns all traces in the folder.
    fn all(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder").map(|entry| entry.expect("a file").path());
        let mut paths: Vec<_> = entries.map(|path| path.to_str().expect("UTF-8").to_owned()).collect();
        paths.sort();
        paths
    }
}

fn lines(trace: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(trace).expect("a trace");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Replays a trace into both engines without a difference; returns how many messages came out with the same bytes.
fn assert_replays(trace: &str) -> u64 {
    let done = probe(&["replay", trace, "--json"]).assert_ok();
    let sides = done.json();
    let sides = sides.as_array().expect("two engines");
    assert_eq!(sides.len(), 2, "{done}");
    for side in sides {
        assert_eq!(side["differences"], serde_json::json!([]), "{trace}: {done}");
        // State that the server has sealed with keys of its own.
        assert!(side["equal"].as_u64().is_some_and(|count| count <= 3), "{trace}: {done}");
    }
    sides.iter().map(|side| side["identical"].as_u64().expect("a number")).sum()
}

/// Each byte passes, of every feature in both eras; and what was recorded comes out of the engines.
#[test]
fn tap_passes_everything_on_stdio_and_its_traces_are_replayed() {
    for era in ERAS {
        let traces = Traces::new(&format!("stdio-{era}"));
        let out = traces.path("all.ndjson");
        let ask = |args: &[&str]| -> ProbeOutput {
            let server =
                ["--", PROBE, "tap", "--out", &out, "--", PROBE, "serve", "--everything", "--era", era];
            probe(&[args, &server].concat())
        };
        assert_all_features(&ask, era);
        // Each client has started a server of its own.
        let all = traces.all();
        assert!(all.len() >= 8, "{all:?}");
        let identical: u64 = all.iter().map(|trace| assert_replays(trace)).sum();
        assert!(identical > 50, "{identical}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&out).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "nobody else reads a conversation");
        }
    }
}

#[test]
fn tap_passes_everything_over_http() {
    for era in ERAS {
        let serving = ServingProcess::new(&["--everything", "--era", era]);
        let traces = Traces::new(&format!("http-{era}"));
        let out = traces.path("all.ndjson");
        let tap = ServingProcess::spawn(
            probe_command().args(["tap", "--out", &out, "--http", "127.0.0.1:0", &serving.url]),
            &[],
        );
        assert_all_features(&|args| probe(&[args, &[&tap.url]].concat()), era);
        let records = lines(&out);
        let count = |member: &str| records.iter().filter(|record| record.get(member).is_some()).count();
        let heads = count("head");
        assert!(heads > 40 && count("line") > 40, "{heads} heads");
        // Event streams are recorded event by event.
        assert!(count("event") > 5, "{}", count("event"));
        let text = fs::read_to_string(&out).expect("a trace");
        assert!(era == "modern" || text.contains("Mcp-Session-Id: [masked]"), "a session id is a secret");
        tap.stop();
    }
}

#[test]
fn tap_finds_names_below_localhost() {
    let (serving, traces) = (ServingProcess::below_localhost(), Traces::new("localhost"));
    let out = traces.path("all.ndjson");
    let tap = ServingProcess::listening(&["tap", "--http", "127.0.0.1:0", "--out", &out, &serving.url], &[]);
    probe(&["ping", "-n", "1", &tap.url]).assert_ok();
}

/// As many as it has room for.
#[test]
fn silent_connections_do_not_lock_a_tap_over_http() {
    let serving = ServingProcess::new(&[]);
    let out = Traces::new("http-silent").path("t.ndjson");
    let tap = ServingProcess::spawn(
        probe_command().args(["tap", "--out", &out, "--http", "127.0.0.1:0", &serving.url]),
        &[],
    );
    let at = tap.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let connect = |_| std::net::TcpStream::connect(at).expect("a connection");
    let _silent: Vec<_> = (0..256).map(connect).collect();
    for _ in 0..3 {
        probe(&["ping", "--timeout", "5s", &tap.url]).assert_ok();
    }
    tap.stop();
    serving.stop();
}

/// One client over HTTP: its messages come out of the engines, too.
#[test]
fn a_session_over_http_is_replayed() {
    for era in ERAS {
        let serving = ServingProcess::new(&["--era", era]);
        let traces = Traces::new(&format!("http-one-{era}"));
        let out = traces.path("one.ndjson");
        let tap = ServingProcess::spawn(
            probe_command().args(["tap", "--out", &out, "--http", "127.0.0.1:0", &serving.url]),
            &[],
        );
        probe(&["call", "count", "to=3", &tap.url]).assert_ok().assert_stdout(&["counted to 3"]);
        tap.stop();
        assert!(assert_replays(&out) >= 6, "{era}");
    }
}

/// A page of another origin that has rebound a name to this machine is refused, as the server itself would do.
// covers: HTTP-003
#[test]
fn tap_over_http_refuses_other_names() {
    use std::io::Read as _;
    let serving = ServingProcess::new(&[]);
    let traces = Traces::new("http-host");
    let out = traces.path("t.ndjson");
    let tap = ServingProcess::spawn(
        probe_command().args(["tap", "--out", &out, "--http", "127.0.0.1:0", &serving.url]),
        &[],
    );
    let address =
        tap.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let mut stream = std::net::TcpStream::connect(address).expect("the tap listens");
    stream
        .write_all(
            b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    // Of a server that is away, the client hears so.
    serving.stop();
    let done = probe(&["call", "echo", "text=x", &tap.url]).assert_code(3);
    assert!(done.stderr.contains("502"), "{done}");
}

/// Secrets are not in the trace, and pass nevertheless.
// covers: SEC-019
#[test]
fn secrets_pass_and_are_not_recorded() {
    let traces = Traces::new("secrets");
    let out = traces.path("t.ndjson");
    let token = "ghp_0123456789012345678901";
    let done = probe(&[
        "call",
        "echo",
        &format!("text={token}"),
        "--",
        PROBE,
        "tap",
        "--out",
        &out,
        "--",
        PROBE,
        "serve",
    ]);
    done.assert_ok().assert_stdout(&[token]);
    let text = fs::read_to_string(&out).expect("a trace");
    assert!(!text.contains(token) && text.contains("[masked]"), "{text}");
}

/// A disk that is full, or a trace that is as long as it may be, ends the recording and not the connection.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_or_a_full_trace_ends_the_recording_alone() {
    // Files of 64 KiB are the longest here: a write beyond that fails, as on a full disk.
    let limited = [
        "trap '' XFSZ; ulimit -f 128; exec \"$@\"",
        "the trace: File too large (os error 27); the connection goes on without being recorded",
    ];
    let bounded = [
        "exec \"$@\"",
        "the trace is as long as --max-size allows; the connection goes on without being recorded",
    ];
    for [shell, want] in [limited, bounded] {
        end_of_a_recording(shell, want);
    }
}

#[cfg(target_os = "linux")]
fn end_of_a_recording(shell: &str, want: &str) {
    let mut command = Command::new("sh");
    for (name, value) in probe_command().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command
        .args(["-c", shell, "sh", PROBE])
        .args(["tap", "--max-size", "1", "--out", &Traces::new("full").path("t.ndjson"), "--"])
        // Each line comes back.
        .args(["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let long = "x".repeat(400_000);
    for number in 0..8 {
        writeln!(stdin, "{number}{long}").expect("written");
        let mut line = String::new();
        stdout.read_line(&mut line).expect("read");
        assert!(line.len() == long.len() + 2 && line.starts_with(&number.to_string()), "{number}");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.matches(want).count() == 1, "{stderr}");
}

/// What a server says on stderr, and how it ends, is recorded.
#[test]
#[cfg(unix)]
fn stderr_and_the_end_of_a_server_are_recorded() {
    let traces = Traces::new("end");
    let out = traces.path("t.ndjson");
    let script = "echo starting >&2; read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; exit 3";
    let mut child = probe_command()
        .args(["tap", "--out", &out, "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    writeln!(child.stdin.as_mut().expect("piped"), "{{}}").expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("starting") && stderr.contains("exit status: 3"), "{stderr}");
    let records = lines(&out);
    let has = |member: &str, value: &str| records.iter().any(|record| record[member] == value);
    assert!(has("stderr", "starting") && has("end", "exit status: 3"), "{records:?}");
}

/// A trace is a client for a server, and a server for a client.
#[test]
fn a_trace_is_played_to_a_server_and_to_a_client() {
    for era in ERAS {
        let traces = Traces::new(&format!("played-{era}"));
        let trace = traces.path("t.ndjson");
        let call = ["call", "count", "to=3", "--era", era, "--no-cache", "--"];
        let tap = [PROBE, "tap", "--out", &trace, "--", PROBE, "serve"];
        probe(&[&call[..], &tap].concat()).assert_ok();

        let done = probe(&["replay", &trace, "--", PROBE, "serve"]).assert_ok();
        assert!(done.stdout.contains("0 but for words") && !done.stdout.contains("recorded: "), "{done}");
        // Another server says something else, which is told.
        let other = ["replay", &trace, "--timeout", "2s", "--", PROBE, "serve", "--everything"];
        let done = probe(&other).assert_code(1);
        assert!(done.stdout.contains("`/result/") && done.stdout.contains("recorded: {"), "{done}");

        let strict = [PROBE, "replay", &trace, "--serve"];
        probe(&[&call[..], &strict].concat()).assert_ok().assert_stdout(&["counted to 3"]);
        let loose = [PROBE, "replay", &trace, "--serve", "--any-order"];
        probe(&[&call[..], &loose].concat()).assert_ok().assert_stdout(&["counted to 3"]);
        let other = ["call", "count", "to=4", "--era", era, "--no-cache", "--"];
        let done = probe(&[&other[..], &loose].concat()).assert_code(1);
        assert!(done.stderr.contains("no `tools/call` with these parameters"), "{done}");
    }
}

/// A replay against a program compares the text of results, and a result with `isError` is listed by `--errors`.
#[test]
fn results_are_compared_and_failures_in_them_are_errors() {
    for era in ERAS {
        let traces = Traces::new(&format!("results-{era}"));
        let trace = traces.path("t.ndjson");
        let call = ["call", "fail", "--era", era, "--no-cache", "--"];
        let tap = [PROBE, "tap", "--out", &trace, "--", PROBE, "serve"];
        probe(&[&call[..], &tap].concat()).assert_code(1);
        let done = probe(&["trace", "show", "--errors", &trace]).assert_ok();
        done.assert_stdout(&["→ tools/call fail", "this tool always fai"]);
        let done = probe(&["trace", "show", "--errors", "--json", &trace]).assert_ok();
        assert_eq!(done.json()[0]["outcome"], "tool_error", "{done}");

        let recorded = fs::read_to_string(&trace).expect("a trace");
        fs::write(&trace, recorded.replace("this tool always fails", "it never does")).expect("a trace");
        let done = probe(&["replay", &trace, "--", PROBE, "serve"]).assert_code(1);
        let place =
            "`/result/content/0/text`: recorded \"it never does\", replayed \"this tool always fails\"";
        assert_eq!(done.stdout.matches(place).count(), 1, "{done}");
        // An engine is given what a tool says.
        probe(&["replay", &trace]).assert_ok();
        probe(&["shrink", &trace, "--engine", "server"]).assert_code(1).assert_stderr(&["nothing to shrink"]);
    }
}

/// A server that answers with a wrong id: recorded, replayed, and reduced to a test.
#[test]
#[cfg(unix)]
fn a_bug_is_recorded_replayed_and_shrunk_to_a_test() {
    let traces = Traces::new("shrunk");
    let trace = traces.path("t.ndjson");
    // A server in a shell, which takes the id of the second call for a text.
    let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n'"#;
    let init = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    let script = format!(
        r#"id() {{ printf %s "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }}
        while read -r line; do case $line in
        *discover*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$(id "$line")";;
        *'"initialize"'*) {answer} "$(id "$line")" '{init}';;
        *tools/list*) {answer} "$(id "$line")" '{{"tools":[{{"name":"a","inputSchema":{{"type":"object"}}}}]}}';;
        *tools/call*) {answer} "\"$(id "$line")\"" '{{"content":[]}}';;
        esac; done"#
    );
    let call =
        ["call", "a", "--timeout", "1s", "--", PROBE, "tap", "--out", &trace, "--", "sh", "-c", &script];
    probe(&call).assert_code(4);
    let done = probe(&["replay", &trace, "--engine", "server"]).assert_code(1);
    assert!(done.stdout.contains("which is not"), "{done}");
    let small = traces.path("small.ndjson");
    let done = probe(&["shrink", &trace, "--engine", "server", "--out", &small]).assert_ok();
    assert!(done.stdout.starts_with("#[test]\n") && done.stdout.lines().count() <= 30, "{done}");
    assert!(lines(&small).len() <= 4, "{done}");
    probe(&["replay", &small, "--engine", "server"]).assert_code(1);
    // The client has done nothing wrong.
    probe(&["replay", &trace, "--engine", "client"]).assert_ok();
    // Nothing to shrink where nothing differs.
    let unused = format!("{small}.unused");
    let done = probe(&["shrink", &trace, "--engine", "client", "--out", &unused]).assert_code(1);
    assert!(!Path::new(&unused).exists());
    assert!(done.stderr.contains("nothing to shrink"), "{done}");
}

#[test]
fn traces_that_cannot_be_read_are_named() {
    let traces = Traces::new("wrong");
    let write = |name: &str, text: &str| {
        let path = traces.path(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let header = r#"{"mcpTrace":1,"by":"t","unixMillis":0,"masked":true}"#;
    let cases = [
        (traces.path("none"), "No such file"),
        (write("empty", ""), "this is no trace"),
        (write("other", "{\"jsonrpc\":\"2.0\"}\n"), "this is no trace"),
        (write("newer", "{\"mcpTrace\":9}\n"), "version 9 of the format"),
        (write("line", &format!("{header}\n{{\"t\":0}}\n")), "line 2 of the trace is no record"),
    ];
    for (path, want) in &cases {
        for command in [&["replay", path][..], &["shrink", path, "--engine", "server"]] {
            let done = probe(command).assert_code(2);
            assert!(done.stderr.contains(want), "{done}");
        }
    }
    // One whose recorder was killed is read up to there.
    let cut =
        write("cut", &format!("{header}\n{{\"t\":0,\"from\":\"client\",\"line\":\"{{}}\"}}\n{{\"t\":1,\"fr"));
    let done = probe(&["replay", &cut, "--engine", "server"]).assert_ok();
    assert!(done.stderr.contains("ends within a line"), "{done}");
}

/// What stands between two programs must not be the reason why either waits, or hears something else.
#[test]
fn tap_over_http_is_an_intermediary() {
    use core::time::Duration;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = upstream.local_addr().expect("bound");
    let traces = Traces::new("http-intermediary");
    let out = traces.path("t.ndjson");
    let tap = ServingProcess::spawn(
        probe_command().args([
            "tap",
            "--out",
            &out,
            "--http",
            "127.0.0.1:0",
            &format!("http://{address}/mcp"),
        ]),
        &[],
    );
    // Answers each request with its number, and ends after the third one.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = upstream.accept().expect("the tap connects");
        let mut lines = BufReader::new(stream.try_clone().expect("a descriptor"));
        let mut seen = Vec::new();
        for number in 1..=3 {
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).expect("a line");
                if line == "\r\n" {
                    break;
                }
                seen.push(line);
            }
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 1\r\n\r\n{number}"
            )
            .expect("sent");
        }
        seen
    });
    let at = tap.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let mut stream = TcpStream::connect(at).expect("the tap listens");
    let request =
        format!("GET /mcp HTTP/1.1\r\nHost: {at}\r\nConnection: X-Own\r\nX-Own: 1\r\nX-End: 1\r\n\r\n");
    // Three at once.
    let begun = Instant::now();
    stream.write_all(request.repeat(3).as_bytes()).expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut answers = String::new();
    let mut part = [0; 1024];
    while answers.matches("\r\n\r\n").count() < 3 || !answers.ends_with('3') {
        let length = stream.read(&mut part).expect("answers");
        answers.push_str(core::str::from_utf8(&part[..length]).expect("UTF-8"));
    }
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert!(
        !answers.contains("X-Hop") && begun.elapsed() < Duration::from_secs(2),
        "{answers} {:?}",
        begun.elapsed()
    );
    let seen = server.join().expect("no panic").concat();
    assert!(seen.matches("X-End").count() == 3 && !seen.contains("X-Own"), "{seen}");
    tap.stop();
    let ends = lines(&out).iter().filter(|record| record["end"] == "complete").count();
    assert_eq!(ends, 3);
}

/// A server whose process has ended is gone, whatever holds its stdout.
#[test]
#[cfg(unix)]
fn a_server_that_has_left_something_behind_has_ended() {
    let begun = std::time::Instant::now();
    let out = Traces::new("left").path("t.ndjson");
    let mut child = probe_command()
        .args(["tap", "--out", &out, "--", "sh", "-c", "sleep 40 & exit 3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program under test starts");
    let status = child.wait().expect("it ends");
    assert!(status.code() == Some(3) && begun.elapsed().as_secs() < 20, "{status} {:?}", begun.elapsed());
}

/// A server that talks of other things gains no time, and one that answers before it reads is heard.
#[test]
#[cfg(unix)]
fn a_replay_ends_whatever_the_server_does() {
    let traces = Traces::new("ends");
    let trace = traces.path("t.ndjson");
    let large = "x".repeat(300_000);
    let mut text = r#"{"mcpTrace":1,"by":"t","unixMillis":0,"masked":true}"#.to_owned();
    for id in 0..3 {
        text += &format!(
            "\n{{\"t\":{id},\"from\":\"client\",\"line\":\"{{\\\"id\\\":{id},\\\"method\\\":\\\"m\\\",\\\"params\\\":\\\"{large}\\\"}}\"}}"
        );
    }
    for id in 0..3 {
        text += &format!(
            "\n{{\"t\":9,\"from\":\"server\",\"line\":\"{{\\\"id\\\":{id},\\\"result\\\":\\\"{large}\\\"}}\"}}"
        );
    }
    fs::write(&trace, text + "\n").expect("a file");
    let echo = r#"sed -u 's/"method":"m","params"/"result"/'"#;
    let done = probe(&["replay", &trace, "--timeout", "5s", "--", "sh", "-c", echo]).assert_ok();
    assert!(done.stdout.contains("3 messages as recorded"), "{done}");
    let talker = r#"while :; do echo '{"method":"notifications/x"}'; sleep 0.1; done"#;
    let begun = std::time::Instant::now();
    probe(&["replay", &trace, "--timeout", "1s", "--", "sh", "-c", talker]).assert_code(1);
    assert!(begun.elapsed().as_secs() < 25, "{:?}", begun.elapsed());
}

/// A client that leaves an event stream is gone for the server, too: that is how a modern call is cancelled.
#[test]
fn the_end_of_a_client_passes_a_tap_over_http() {
    use core::time::Duration;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = upstream.local_addr().expect("bound");
    let out = Traces::new("http-gone").path("t.ndjson");
    let url = format!("http://{address}/mcp");
    let tap = ServingProcess::spawn(
        probe_command().args(["tap", "--out", &out, "--http", "127.0.0.1:0", &url]),
        &[],
    );
    let at = tap.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let mut client = TcpStream::connect(at).expect("the tap listens");
    write!(client, "GET /mcp HTTP/1.1\r\nHost: {at}\r\n\r\n").expect("sent");
    let (mut server, _) = upstream.accept().expect("the tap connects");
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut request = [0; 1024];
    assert!(server.read(&mut request).expect("a request") > 0);
    server
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: a\n\n\r\n")
        .expect("sent");
    let mut answer = [0; 1024];
    assert!(client.read(&mut answer).expect("an answer") > 0);
    drop(client);
    // Without a further byte of the server.
    assert_eq!(server.read(&mut request).expect("the end"), 0);
    tap.stop();
    assert!(lines(&out).iter().any(|record| record["end"] == "the client closed the connection"));
}
