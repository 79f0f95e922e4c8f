//! The `gateway` command in front of real servers: merged lists, calls, failures, changes of the file, wrong files.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bridge::{BridgeProcess, FlagFolder, MORTAL_SERVER};
use crate::config_file::TemporaryDirectory;
use crate::http::ServingProcess;
use crate::protection::Issuer;
use crate::support::{PROBE, probe, probe_command, run};

/// Returns the entry of a server that is started.
pub(crate) fn program(serve: &[&str]) -> Value {
    let args = [&["serve"], serve].concat();
    json!({"command": PROBE, "args": args})
}

pub(crate) fn file_of(servers: &Value) -> String {
    json!({"mcpServers": servers}).to_string()
}

/// Starts a gateway over HTTP.
pub(crate) fn over_http(config: &str, args: &[&str]) -> ServingProcess {
    ServingProcess::listening(&["gateway", "--http", "127.0.0.1:0", "--config", config], args)
}

/// Returns the names of the tools at a URL.
fn tools(url: &str) -> Vec<String> {
    let seen = probe(&["inspect", "--json", url]).json();
    let tools = seen["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

/// Waits until the tools at a URL are as they have to be.
pub(crate) fn wait_for_tools(url: &str, are_right: impl Fn(&[String]) -> bool) {
    let begun = Instant::now();
    loop {
        let tools = tools(url);
        if are_right(&tools) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{tools:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A command that runs until this is dropped.
struct Running<R> {
    child: Child,
    lines: BufReader<R>,
}

impl Running<ChildStderr> {
    /// Starts a call that counts without an end, and waits for its progress.
    fn count(url: &str, tool: &str) -> Self {
        let args = json!({"to": 1_000_000, "delay_ms": 20}).to_string();
        let mut command = probe_command();
        command.args(["call", tool, "--era", "modern", "--args", &args, url]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut running = Self { child, lines };
        running.wait_for("progress");
        running
    }
}

impl Running<ChildStdout> {
    /// Starts to listen for one change, and waits until the server has agreed to tell it.
    fn listen(url: &str) -> Self {
        let mut command = probe_command();
        command.args(["listen", "--count", "1", "--era", "legacy", url]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut running = Self { child, lines };
        running.wait_for("");
        running
    }
}

impl<R: Read> Running<R> {
    /// Reads lines up to one with this text.
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("UTF-8") > 0, "no {text:?}");
            if line.contains(text) {
                return;
            }
        }
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn has(tools: &[String], name: &str) -> bool {
    tools.iter().any(|tool| tool == name)
}

#[test]
fn gateway_shows_programs_and_urls_as_one_server_to_both_eras() {
    let remote = ServingProcess::new(&["--everything"]);
    let directory = TemporaryDirectory::new();
    let servers = json!({
        "tide": program(&["--era", "legacy"]),
        "my_dock": program(&["--everything", "--era", "modern"]),
        "far": {"type": "http", "url": remote.url},
        "off": {"command": "/nowhere/at/all", "disabled": true},
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let gateway = over_http(&file, &[]);
    let stdio = ["--", PROBE, "gateway", "--config", &file];
    for front in [&[&*gateway.url][..], &stdio] {
        for era in ["legacy", "modern"] {
            let ask = |args: &[&str]| probe(&[args, &["--era", era], front].concat()).assert_ok();
            let done = ask(&["inspect", "--json"]);
            let seen = done.json();
            assert_eq!(seen["server"]["name"], "mcp-probe-gateway", "{done}");
            let tools = seen["tools"].as_array().expect("tools");
            let count = |prefix: &str| {
                let names = tools.iter().filter_map(|tool| tool["name"].as_str());
                names.filter(|name| name.starts_with(prefix)).count()
            };
            assert_eq!(count("tide_"), 4, "{done}");
            assert!(count("my-dock_") > 10 && count("my-dock_") == count("far_"), "{done}");
            assert_eq!(count(""), count("tide_") + count("my-dock_") + count("far_"), "{done}");
            for server in ["tide", "my-dock", "far"] {
                let (add, count) = (format!("{server}_add"), format!("{server}_count"));
                ask(&["call", &add, "a=20", "b=22"]).assert_stdout(&["42"]);
                ask(&["call", &count, "to=2"])
                    .assert_stdout(&["counted to 2"])
                    .assert_stderr(&["progress 1/2"]);
            }
            let answer = r#"elicit={"name":"Ada"}"#;
            ask(&["call", "far_sign", "--answer", answer]).assert_stdout(&["Hello, Ada!"]);
            ask(&["read", "test://static-text"]).assert_stdout(&["static text resource"]);
            ask(&["prompt", "my-dock_test_simple_prompt"]).assert_stdout(&["simple prompt"]);
        }
    }
}

#[test]
fn server_that_dies_or_does_not_start_is_named_and_others_go_on() {
    let (flag, directory) = (FlagFolder::new("gateway"), TemporaryDirectory::new());
    let servers = json!({
        "mortal": {"command": "sh", "args": ["-c", MORTAL_SERVER, PROBE, flag.0]},
        "sound": program(&[]),
        "none": {"command": "/nowhere/at/all"},
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let mut gateway = BridgeProcess::start(&["gateway", "--era", "legacy", "--config", &file]);
    let mut ask = |id: u32, method: &str, params: &Value| {
        gateway
            .send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        loop {
            let message: Value = serde_json::from_str(&gateway.read_line()).expect("JSON");
            if message["id"] == id {
                return message;
            }
        }
    };
    let echo = |server: &str| json!({"name": format!("{server}_echo"), "arguments": {"text": "x"}});
    let died = ask(2, "tools/call", &echo("mortal"));
    let message = died["error"]["message"].as_str().expect("an error");
    assert!(message.starts_with("`mortal`: ") && message.contains("is gone"), "{died}");
    // The successor of one is waited for.
    let listed = ask(3, "tools/list", &json!({}));
    let missing = listed["result"]["_meta"]["io.github.mcp-proto/unavailable"].as_object().expect("names");
    let why = "its program does not start, or is no MCP server";
    assert!(
        missing.len() == 1 && missing["none"].as_str().is_some_and(|text| text.ends_with(why)),
        "{listed}"
    );
    assert!(ask(4, "tools/call", &echo("sound"))["result"].is_object());
    assert!(ask(5, "tools/call", &echo("mortal"))["result"].is_object());
    let (code, stderr) = gateway.close();
    assert_eq!(code, Some(0));
    for part in [
        "`none` cannot be started, and is tried again: cannot start \"/nowhere/at/all\"",
        "`mortal` is started again: \"sh\" ended in the middle of the session",
        "`sound` is ready: mcp-probe",
    ] {
        assert!(stderr.contains(part), "no {part:?}: {stderr}");
    }
    assert_eq!(stderr.matches("`mortal` is ready: ").count(), 2, "{stderr}");
}

#[test]
fn changed_file_adds_replaces_and_removes_servers_while_others_go_on() {
    let directory = TemporaryDirectory::new();
    let stays = program(&["--runtime", "threads"]);
    let first = json!({"stays": stays, "goes": program(&[]), "changes": program(&["--era", "legacy"])});
    let file = directory.write("mcp.json", &file_of(&first));
    let gateway = over_http(&file, &[]);
    wait_for_tools(&gateway.url, |tools| has(tools, "goes_echo") && has(tools, "changes_echo"));
    let mut counting = Running::count(&gateway.url, "stays_count");
    let mut listening = Running::listen(&gateway.url);
    // A wrong file changes nothing.
    directory.write("mcp.json", "{\"mcpServers\": {\n");
    thread::sleep(Duration::from_secs(3));
    assert!(has(&tools(&gateway.url), "goes_echo"));
    let everything = program(&["--everything"]);
    let second = json!({"stays": stays, "changes": everything, "comes": program(&[])});
    directory.write("mcp.json", &file_of(&second));
    wait_for_tools(&gateway.url, |tools| {
        has(tools, "comes_echo") && has(tools, "changes_sign") && !has(tools, "goes_echo")
    });
    probe(&["call", "comes_add", "a=1", "b=2", &gateway.url]).assert_ok().assert_stdout(&["3"]);
    probe(&["call", "goes_add", "a=1", "b=2", &gateway.url]).assert_code(1).assert_stderr(&["goes_add"]);
    // A call that had failed would have ended its process.
    counting.wait_for("progress");
    assert!(counting.child.try_wait().expect("a child").is_none());
    listening.wait_for("changed");
    let stderr = gateway.stop();
    for part in [
        "the file has changed, and the servers go on as before: ",
        "mcp.json: is not valid JSON",
        "`goes` is removed",
        "`changes` is removed",
    ] {
        assert!(stderr.contains(part), "no {part:?}: {stderr}");
    }
    assert_eq!(stderr.matches("`stays` is ready").count(), 1, "{stderr}");
}

#[test]
fn rules_hide_entries_and_limits_refuse_calls() {
    let directory = TemporaryDirectory::new();
    let with = |members: Value| {
        let mut entry = program(&["--everything", "--runtime", "threads"]);
        for (name, value) in members.as_object().expect("an object") {
            entry[name] = value.clone();
        }
        entry
    };
    let servers = json!({
        "open": with(json!({"limits": {"calls": 1, "timeout": "60s"}})),
        "few": with(json!({"allow": ["add", "test_simple_*"], "principals": {"alice": {}}})),
        "less": with(json!({"hide": ["e*", "test://static-text"]})),
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let gateway = over_http(&file, &[]);
    wait_for_tools(&gateway.url, |tools| {
        ["open_add", "few_add", "less_add"].iter().all(|name| has(tools, name))
    });
    let tools = tools(&gateway.url);
    let few: Vec<_> = tools.iter().filter(|name| name.starts_with("few_")).collect();
    assert_eq!(few, ["few_test_simple_text", "few_add"]);
    assert!(has(&tools, "open_echo") && !has(&tools, "less_echo"), "{tools:?}");
    probe(&["call", "few_echo", "text=x", &gateway.url]).assert_code(1).assert_stderr(&["few_echo"]);
    // It is still there by another server.
    probe(&["read", "test://static-text", &gateway.url]).assert_ok();
    let call = || probe(&["call", "open_count", "to=1", "delay_ms=1", "--era", "modern", &gateway.url]);
    let running = Running::count(&gateway.url, "open_count");
    call()
        .assert_code(1)
        .assert_stderr(&["`open`: 1 calls are in flight, which is the limit of this server"]);
    drop(running);
    let begun = Instant::now();
    while !call().stdout.contains("counted to 1") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the place is given back");
    }
}

// covers: AUTH-010, AUTH-011
#[test]
fn principals_of_tokens_see_what_they_may_and_servers_get_no_tokens_of_clients() {
    let (issuer, directory) = (Issuer::new(), TemporaryDirectory::new());
    let remote = ServingProcess::new(&["--trace"]);
    let mut few = program(&[]);
    few["allow"] = json!([]);
    few["principals"] = json!({"ada": {"allow": ["*"], "hide": ["add"]}});
    let mut none = program(&[]);
    none["principals"] = json!({"ada": {"allow": []}});
    let servers = json!({"few": few, "none": none, "far": {"url": remote.url, "allow": ["echo"]}});
    let file = directory.write("mcp.json", &file_of(&servers));
    let gateway = over_http(&file, &["--protect", &issuer.0]);
    for era in ["legacy", "modern"] {
        let header = format!("Authorization: Bearer {}", issuer.token(&gateway.url, ""));
        let ask = |args: &[&str]| probe(&[args, &["--era", era, "--header", &header, &gateway.url]].concat());
        let seen = ask(&["inspect", "--json"]).assert_ok().json();
        let tools = seen["tools"].as_array().expect("tools");
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["far_echo", "few_echo", "few_count", "few_fail"]);
        ask(&["call", "far_echo", "text=x"]).assert_ok().assert_stdout(&["x"]);
        ask(&["call", "few_add", "a=1", "b=2"]).assert_code(1).assert_stderr(&["few_add"]);
        ask(&["call", "none_echo", "text=x"]).assert_code(1).assert_stderr(&["none_echo"]);
        probe(&["inspect", "--era", era, &gateway.url]).assert_code(6).assert_stderr(&["401"]);
    }
    drop(gateway);
    let trace = remote.stop();
    assert!(trace.contains("POST /mcp") && !trace.contains("Authorization"), "{trace}");
}

#[cfg(target_os = "linux")]
#[test]
fn hangup_has_the_file_read_again_though_it_is_as_before() {
    use rustix::process::{Pid, Signal, kill_process};

    let directory = TemporaryDirectory::new();
    directory.write("option", "--draft");
    let entry = json!({"command": PROBE, "args": ["serve", "${file:option}"]});
    let file = directory.write("mcp.json", &file_of(&json!({"one": entry})));
    let gateway = over_http(&file, &[]);
    wait_for_tools(&gateway.url, |tools| has(tools, "one_echo"));
    directory.write("option", "--everything");
    let id = Pid::from_raw(gateway.id().try_into().expect("small")).expect("a process");
    kill_process(id, Signal::HUP).expect("it runs");
    wait_for_tools(&gateway.url, |tools| has(tools, "one_sign"));
}

#[test]
fn file_of_the_same_time_and_length_is_read_again() {
    let directory = TemporaryDirectory::new();
    let of = |name: &str| file_of(&json!({name: program(&[])}));
    let file = directory.write("mcp.json", &of("one"));
    let gateway = over_http(&file, &[]);
    wait_for_tools(&gateway.url, |tools| has(tools, "one_echo"));
    // Another file takes its place, as editors do it.
    let before = std::fs::metadata(&file).expect("a file");
    let next = directory.write("next.json", &of("two"));
    let written = std::fs::File::options().append(true).open(&next).expect("a file");
    written.set_modified(before.modified().expect("a time")).expect("it is ours");
    std::fs::rename(&next, &file).expect("it is ours");
    let after = std::fs::metadata(&file).expect("a file");
    let seen = |data: &std::fs::Metadata| (data.len(), data.modified().expect("a time"));
    assert_eq!(seen(&before), seen(&after));
    wait_for_tools(&gateway.url, |tools| has(tools, "two_echo") && !has(tools, "one_echo"));
}

#[test]
fn configuration_of_the_page_is_read_in_full() {
    let page = include_str!("../../../../core/src/guide/bridging.md");
    let mut blocks = page.split("```json\n").filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("principals")).expect("a file of a gateway");
    let directory = TemporaryDirectory::new();
    let file = directory.write("mcp.json", block);
    // Without input it ends at once.
    let done = run(&["gateway", "--config", &file], &[("HOME", "/nowhere")]).assert_ok();
    assert_eq!(done.stderr, "");
}

#[test]
fn wrong_file_is_refused_with_its_member_and_line() {
    let directory = TemporaryDirectory::new();
    let of = |members: &str| format!("{{\"mcpServers\": {{\n  \"a\": {{\n{members}}}\n}}}}");
    let with = |members: &str| of(&format!("\"command\": \"x\",\n{members}"));
    let cases = [
        (
            "{\"mcpServers\": {".to_owned(),
            "mcp.json: is not valid JSON: EOF while parsing an object at line 1",
        ),
        ("{}".to_owned(), "mcp.json: has no `mcpServers` and no `servers`"),
        ("{\"mcpServers\": []}".to_owned(), "mcp.json: mcpServers: must be an object (line 1)"),
        ("{\"mcpServers\": {\"a\":\n[]}}".to_owned(), "mcp.json: mcpServers.a: must be an object (line 1)"),
        (
            "{\"mcpServers\":\n{\"\": {\"command\": \"x\"}}}".to_owned(),
            "mcp.json: mcpServers.: has no name (line 2)",
        ),
        (
            "{\"mcpServers\": {\"a_b\": {\"command\": \"x\"},\n\"a.b\": {\"command\": \"x\"}}}".to_owned(),
            "mcp.json: mcpServers.a_b: is named `a-b` behind the gateway, as `a.b` is: rename one (line 1)",
        ),
        (of(""), "mcp.json: mcpServers.a: has neither `command` nor `url` (line 2)"),
        (of("\"url\": 7"), "mcp.json: mcpServers.a.url: must be a string (line 3)"),
        (of("\"url\":\n\"ftp://x\""), "mcp.json: mcpServers.a.url: must be an http or https URL (line 3)"),
        (of("\n\"type\": \"carrier-pigeon\""), "mcp.json: mcpServers.a.type: must be stdio, http or sse"),
        (with("\"args\": [\"y\",\n{}]"), "mcp.json: mcpServers.a.args[1]: must be a string (line 5)"),
        (
            with("\"env\": {\n\"TOKEN\": \"${GATEWAY_NOT_SET}\"}"),
            "mcp.json: mcpServers.a.env.TOKEN: the variable GATEWAY_NOT_SET: it is not set (line 5)",
        ),
        (with("\"limits\": 3"), "mcp.json: mcpServers.a.limits: must be an object (line 4)"),
        (
            with("\"limits\": {\"calls\": 0}"),
            "mcp.json: mcpServers.a.limits.calls: must be a number from 1 to 1024 (line 4)",
        ),
        (
            with("\"limits\": {\"timeout\": 30}"),
            "mcp.json: mcpServers.a.limits.timeout: must be a string, for example \"30s\" (line 4)",
        ),
        (
            with("\"limits\": {\"timeout\": \"soon\"}"),
            "mcp.json: mcpServers.a.limits.timeout: must be a duration",
        ),
        (
            with("\"limits\": {\n\n\"rate\": 1}"),
            "mcp.json: mcpServers.a.limits.rate: is no limit: there are `calls` and `timeout` (line 6)",
        ),
        (with("\"allow\": \"x\""), "mcp.json: mcpServers.a.allow: must be an array of strings (line 4)"),
        (
            with("\"hide\": [\"x\", \"\"]"),
            "mcp.json: mcpServers.a.hide[1]: must be a name or a URI; * stands for any characters (line 4)",
        ),
        (with("\"principals\": []"), "mcp.json: mcpServers.a.principals: must be an object (line 4)"),
        (
            with("\"principals\": {\"eve\": 1}"),
            "mcp.json: mcpServers.a.principals.eve: must be an object (line 4)",
        ),
        (
            with("\"principals\": {\n\"eve\": {\"deny\": []}}"),
            "mcp.json: mcpServers.a.principals.eve.deny: is no rule: there are `allow` and `hide` (line 5)",
        ),
        (
            with("\"allow\": [\"file:///a/%2e%2e/b\"]"),
            "mcp.json: mcpServers.a.allow[0]: must have no segment `.` or `..`: write where it leads to (line 4)",
        ),
        (
            with("\"deny\": []"),
            "mcp.json: mcpServers.a.deny: is no rule: there are `allow`, `hide`, `principals` and `limits` (line 4)",
        ),
        (with("\"Hide\": []"), "mcp.json: mcpServers.a.Hide: is no rule: there are `allow`, `hide`, "),
        (
            with("\"hide\": [\"x\"],\n\"hide\": []"),
            "mcp.json: the member `hide` is there twice at line 5 column",
        ),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"x\"}}}".to_owned(),
            "mcp.json: the member `a` is there twice at line 2 column",
        ),
    ];
    for (text, why) in cases {
        let file = directory.write("mcp.json", &text);
        probe(&["gateway", "--config", &file]).assert_code(2).assert_stderr(&[why]);
    }
    probe(&["gateway", "--config", "/nowhere/mcp.json"]).assert_code(2).assert_stderr(&["/nowhere/mcp.json"]);
    probe(&["gateway"]).assert_code(2).assert_stderr(&["--config <FILE>"]);
    // What is not known does no harm, and is said.
    let file = directory.write("mcp.json", &with("\"disabledTools\": [], \"\\u001b[1m\": 1"));
    let done = run(&["gateway", "--config", &file], &[]).assert_ok();
    done.assert_stderr(&["mcp.json: mcpServers.a: not used: \\u001b[1m, disabledTools"]);
}
