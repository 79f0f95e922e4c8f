//! `mcp-probe test`: steps of a file against a server.

use std::fs;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::http::ServingProcess;
use crate::shell_server::{ShellServer, error_action, method_pattern, print_action, result_action};
use crate::support::{PROBE, ProbeOutput, probe};
#[cfg(target_os = "linux")]
use crate::terminal::{show_on_terminal, without_colours};

/// A test file in a folder of its own.
struct TestFile {
    folder: TemporaryDirectory,
    path: String,
}

impl TestFile {
    fn new(content: &str) -> Self {
        let folder = TemporaryDirectory::new();
        let path = folder.path().join("tests.json").to_str().unwrap().to_owned();
        fs::write(&path, content).unwrap();
        Self { folder, path }
    }

    fn of(steps: &Value) -> Self {
        Self::new(&json!({ "server": [PROBE, "serve", "--everything"], "steps": steps }).to_string())
    }

    /// Runs `mcp-probe test FILE ARGS`.
    fn run(&self, args: &[&str]) -> ProbeOutput {
        probe(&[&["test", &self.path], args].concat())
    }
}

#[test]
fn each_kind_of_step_passes_in_both_eras_and_over_http() {
    let file = TestFile::of(&json!([
        {"call": "add", "arguments": {"a": 20, "b": 22}, "within": "30s",
         "expect": {"/structuredContent/sum": 42.0, "/structuredContent": {"equals": {"sum": 42}, "length": 1, "type": "object"}}},
        {"call": "echo", "arguments": {"text": "hello"}, "save": {"said": "/content/0/text"},
         "expect": {"/content/0/text": {"matches": "^hel+o$", "contains": "ell", "length": 5, "type": "string"},
                    "/content": {"contains": {"type": "text"}}, "/none": {"exists": false}, "/content/0": {"exists": true}}},
        {"name": "says it again", "call": "echo", "arguments": {"text": "${said}, $${said}"},
         "expect": {"/content/0/text": "hello, ${said}"}},
        {"call": "fail", "isError": true, "expect": {"/isError": true}},
        {"call": "add", "name": "add two texts", "arguments": {"a": "x"}, "isError": true},
        {"call": "nowhere", "error": {"code": -32602, "message": {"matches": "nowhere"}}, "expect": {"/code": -32602}},
        {"read": "test://static-text", "expect": {"/contents/0/uri": "test://static-text"}},
        {"prompt": "travel_plan", "arguments": {"country": "norway", "days": "5"},
         "expect": {"/messages/0/content/text": {"contains": "norway"}}},
        {"list": "tools", "expect": {"/tools": {"contains": {"name": "add"}}}},
        {"list": "resources", "expect": {"": {"schema": {"properties": {"resources": {"minItems": 11}}}}}},
        {"list": "resourceTemplates"}, {"list": "prompts"},
        {"complete": "prompt:travel_plan", "argument": "country", "value": "n", "expect": {"/completion/values": {"contains": "norway"}}},
        {"complete": "atlas://{country}/{city}", "argument": "city", "with": {"country": "norway"},
         "expect": {"/completion/values": {"type": "array"}}},
        {"ping": true}
    ]));
    for era in ["legacy", "modern"] {
        let done = file.run(&["--era", era]).assert_ok();
        done.assert_stdout(&[
            "passed  call add (",
            "passed  says it again",
            "15 passed, 0 failed, 0 skipped",
        ]);
        let serving = ServingProcess::new(&["--everything", "--era", era]);
        file.run(&[&serving.url]).assert_ok().assert_stdout(&["15 passed"]);
    }
    let report = file.run(&["--json"]).assert_ok().json();
    assert_eq!(
        (&report["passed"], &report["failed"], &report["skipped"]),
        (&json!(15), &json!(0), &json!(0))
    );
    assert_eq!(report["steps"][3]["outcome"], "passed");
    assert_eq!(report["steps"][3]["failures"], json!([]));
}

#[test]
fn example_of_the_guide_passes() {
    let page = include_str!("../../../runtime/src/guide/troubleshooting_mcp_probe_test.md");
    let (_, example) = page.split_once("```json\n").unwrap();
    let file = TestFile::new(example.split_once("```").unwrap().0);
    file.run(&["--update"]).assert_ok().assert_stdout(&["6 passed", "snapshot written"]);
    file.run(&[]).assert_ok().assert_stdout(&["6 passed"]);
}

#[test]
fn failures_name_step_pointer_expected_and_found() {
    let steps = json!([
        {"call": "add", "arguments": {"a": 1, "b": 1}, "expect": {"/structuredContent": {"equals": {"sum": 3, "of": 2}}}},
        {"name": "text", "call": "echo", "arguments": {"text": "a\u{1b}[2J\u{202e}"}, "save": {"x": "/none"},
         "expect": {"/content/0/text": {"matches": "^b", "contains": "c", "length": 1, "type": "number"},
                    "/content/1": {"type": "object"}, "/content": {"exists": false},
                    "": {"schema": {"required": ["other"]}}}},
        {"name": "uses x", "call": "echo", "arguments": {"text": "${x}"}},
        {"call": "fail"},
        {"name": "no failure", "call": "add", "arguments": {"a": 1, "b": 1}, "isError": true},
        {"name": "no error", "call": "add", "arguments": {"a": 1, "b": 1}, "error": true},
        {"call": "nowhere", "error": {"code": 1, "message": "x"}},
        {"read": "test://nowhere"}
    ]);
    let file = TestFile::of(&steps);
    let junit = file.folder.path().join("report.xml");
    let done = file.run(&["--json", "--junit", junit.to_str().unwrap()]).assert_code(1);
    done.assert_stderr(&["error: 7 of 8 steps have failed"]);
    let report = file.run(&["--json"]).json();
    let failures = |step: usize| -> Vec<[String; 3]> {
        let failures = report["steps"][step]["failures"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        failures.iter().map(|f| [text(&f["where"]), text(&f["expected"]), text(&f["found"])]).collect()
    };
    assert_eq!(
        failures(0),
        [["/structuredContent", "{\"of\":2,\"sum\":3}", "{\"sum\":2}"].map(str::to_owned)]
    );
    assert!(
        report["steps"][0]["failures"][0]["diff"].as_str().unwrap().contains("-   \"of\": 2"),
        "{report}"
    );
    let places: Vec<_> = failures(1).into_iter().map(|[at, ..]| at).collect();
    let text = "/content/0/text";
    assert_eq!(places, ["", "/content", text, text, text, text, "/content/1", "/none"], "{report}");
    assert_eq!(report["steps"][2]["reason"], "the step that saves `x` has not saved it");
    for (step, found) in [(3, "an error of the tool"), (4, "a result without an error"), (5, "the result {")]
    {
        assert!(failures(step)[0][2].starts_with(found), "{report}");
    }
    assert_eq!(failures(6)[0], ["error", "the code 1", "-32602"].map(str::to_owned));
    assert!(failures(7)[0][2].starts_with("the error -"), "{report}");
    let junit = fs::read_to_string(junit).unwrap();
    for part in [
        "tests=\"8\" failures=\"7\" errors=\"0\" skipped=\"1\"",
        "name=\"uses x\"><skipped",
        "expected &quot;x&quot;",
    ] {
        assert!(junit.contains(part), "no {part}: {junit}");
    }
    assert!(!junit.contains('\u{1b}') && !junit.contains('\u{202e}'), "{junit}");
}

#[test]
fn a_file_that_is_not_understood_is_refused_before_the_server_starts() {
    let step = |step: &str| format!("{{\"steps\": [\n// a comment\n{step},]}}");
    let cases = [
        ("[]".to_owned(), "must be an object"),
        ("{\"steps\": []}".into(), "`steps` must be an array of 1 to 1000 steps"),
        (
            "{\"steps\": [{\"ping\": true}], \"x\": 1}".into(),
            "x: is not known; the members here are server, steps",
        ),
        ("{\"steps\": [{\"ping\": true}], \"server\": 1}".into(), "server: must be a URL, an array"),
        ("{\"steps\": [".into(), "is not valid JSON"),
        (step("{\"call\": \"a\", \"call\": \"b\"}"), "the member `call` is there twice at line 3"),
        (
            step("{}"),
            "must have exactly one of the members call, read, prompt, list, complete, ping (line 3)",
        ),
        (step("{\"call\": \"a\", \"ping\": true}"), "must have exactly one of the members"),
        (step("{\"call\": 5}"), "must be a text"),
        (step("{\"ping\": false}"), "must be true"),
        (
            step("{\"ping\": true, \"expects\": {}}"),
            "steps[0].expects: is not known; the members here are name,",
        ),
        (step("{\"ping\": true, \"arguments\": {}}"), "arguments: does not belong to `ping`"),
        (step("{\"list\": \"tool\"}"), "must be one of tools, resources, resourceTemplates, prompts, skills"),
        (
            step("{\"prompt\": \"a\", \"arguments\": {\"n\": 3}}"),
            "must be a text, as all arguments of prompts",
        ),
        (step("{\"complete\": \"prompt:a\"}"), "needs the member `argument`"),
        (step("{\"ping\": true, \"expect\": {\"a\": 1}}"), "must be a JSON pointer"),
        (step("{\"ping\": true, \"expect\": {\"/~2\": 1}}"), "must be a JSON pointer"),
        (
            step("{\"ping\": true, \"expect\": {\"/a\": {\"sum\": 1}}}"),
            "is no rule; the rule `equals` has an object",
        ),
        (step("{\"ping\": true, \"expect\": {\"/a\": {}}}"), "has no rule"),
        (step("{\"ping\": true, \"expect\": {\"/a\": {\"matches\": \"(\"}}}"), "is no regular expression"),
        (
            step("{\"ping\": true, \"expect\": {\"/a\": {\"schema\": {\"type\": 5}}}}"),
            "the schema is not valid",
        ),
        (step("{\"ping\": true, \"expect\": {\"/a\": {\"length\": -1}}}"), "must be a number, 0 or more"),
        (
            step("{\"ping\": true, \"expect\": {\"/a\": {\"type\": \"text\"}}}"),
            "must be one of string, number",
        ),
        (
            step("{\"ping\": true, \"expect\": {\"/a\": {\"exists\": false, \"length\": 1}}}"),
            "has no other rule",
        ),
        (step("{\"call\": \"a\", \"isError\": true, \"error\": true}"), "either an error or a result"),
        (step("{\"ping\": true, \"within\": \"2h\"}"), "must be a duration"),
        (step("{\"ping\": true, \"ignore\": [\"/a\"]}"), "belongs to a snapshot"),
        (step("{\"ping\": true, \"snapshot\": true, \"ignore\": [\"\"]}"), "leaves out the whole result"),
        (
            step("{\"ping\": true, \"expect\": {\"/\\\\\\\"1\": -100000000000000000002}}"),
            "an integer has more than 64 bits, and would be changed: write a text or 1e30 (line 3)",
        ),
        (
            step("{\"ping\": true, \"expect\": {\"\": {\"matches\": \"((a?){50}(a*)*){300}\"}}}"),
            "is no regular expression",
        ),
        (step("{\"ping\": true, \"save\": {\"a b\": \"/a\"}}"), "the name of a variable has"),
        (step("{\"read\": \"a:${b}\"}"), "no earlier step saves `b`"),
        (step("{\"ping\": true}, {\"ping\": true}"), "another step has the name `ping`"),
        (
            step(
                "{\"ping\": true, \"name\": \"a b\", \"snapshot\": true}, {\"ping\": true, \"name\": \"A-b\", \"snapshot\": true}",
            ),
            "the snapshot of another step has the file a-b.json",
        ),
        (" ".repeat((4 << 20) + 1), "is larger than 4194304 bytes"),
    ];
    for (text, why) in cases {
        // No such program: a message about it would mean that it was started.
        TestFile::new(&text).run(&["--", "/nonexistent"]).assert_code(2).assert_stderr(&[why, "tests.json"]);
    }
    let object = TestFile::new("{}").run(&["--json", "--", "/nonexistent"]).assert_code(2).json();
    assert_eq!(object["error"]["kind"], "usage");
    TestFile::new(&step("{\"ping\": true}")).run(&[]).assert_code(2).assert_stderr(&["no server"]);
}

#[test]
fn snapshots_are_written_on_demand_compared_and_never_leave_their_folder() {
    let file = TestFile::of(&json!([
        {"name": "../../sum of 3", "call": "add", "arguments": {"a": 1, "b": 2}, "snapshot": true, "ignore": ["/content"]},
        {"call": "fail", "snapshot": true}
    ]));
    let folder = file.folder.path().join("tests.json.snapshots");
    file.run(&[]).assert_code(1).assert_stdout(&["no such file; --update writes it"]);
    assert!(!folder.exists());
    file.run(&["--update"]).assert_code(1).assert_stdout(&["snapshot written", "failed  call fail"]);
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["------sum-of-3.json"], "a step that fails has no snapshot");
    let path = folder.join("------sum-of-3.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\n  \"structuredContent\": {\n    \"sum\": 3\n  }\n}\n") && text.contains("(ignored)"),
        "{text}"
    );
    file.run(&["--filter", "sum"]).assert_ok();
    fs::write(&path, text.replace(": 3", ": 4")).unwrap();
    let done = file.run(&["--filter", "sum"]).assert_code(1);
    done.assert_stdout(&[
        "snapshot: expected (-) and found (+) differ",
        "-     \"sum\": 4",
        "+     \"sum\": 3",
    ]);
    fs::write(&path, "{").unwrap();
    file.run(&["--filter", "sum"]).assert_code(1).assert_stdout(&["a file that is not JSON"]);
}

#[test]
fn filter_keeps_the_steps_that_save_what_others_use() {
    let file = TestFile::of(&json!([
        {"name": "first", "call": "echo", "arguments": {"text": "a"}, "save": {"a": "/content/0/text"}},
        {"name": "unneeded", "call": "fail"},
        {"name": "second", "call": "echo", "arguments": {"text": "${a}b"}, "save": {"b": "/content/0/text"}},
        {"name": "third", "call": "echo", "arguments": {"text": "${b}"}, "expect": {"/content/0/text": "ab"}}
    ]));
    let done = file.run(&["--filter", "third"]).assert_ok().assert_stdout(&["3 passed"]);
    assert!(!done.stdout.contains("unneeded"), "{done}");
    file.run(&["--filter", "fourth"])
        .assert_code(2)
        .assert_stderr(&["no step has a name that contains `fourth`"]);
}

#[test]
fn after_a_step_without_an_answer_the_rest_is_skipped() {
    let steps = json!([
        {"name": "slow", "call": "count", "arguments": {"to": 100}, "within": "300ms"},
        {"ping": true}
    ]);
    let done = TestFile::of(&steps).run(&[]).assert_code(1);
    let done = done
        .assert_stdout(&["time: expected at most 0.3s", "skipped ping: a step before had no answer in time"]);
    done.assert_stdout(&["0 passed, 1 failed, 1 skipped"]).assert_stderr(&["1 of 2 steps has failed"]);

    // A server that answers the handshake and ends then.
    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#;
    let id = r#"id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"#;
    let script = format!(
        "read -r line; {id}; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}'; read -r line; read -r line; exit 3"
    );
    let done = TestFile::of(&json!([{"call": "a"}, {"call": "b", "name": "b"}]))
        .run(&["--era", "legacy", "--", "sh", "-c", &script])
        .assert_code(1);
    done.assert_stdout(&["failed  call a", "skipped b: the connection has ended"]);
}

#[test]
fn a_server_that_asks_is_answered_from_the_command_line() {
    let file = TestFile::of(&json!([{"call": "sign", "expect": {"/content/0/text": "Hello, Ada!"}}]));
    for era in ["legacy", "modern"] {
        file.run(&[
            "--era",
            era,
            "--answer",
            "guest={\"name\": \"Ada\"}",
            "--answer",
            "elicit={\"name\": \"Ada\"}",
        ])
        .assert_ok();
        file.run(&["--era", era]).assert_code(1);
    }
}

#[test]
fn server_of_a_configuration_is_found_beside_the_file() {
    let file = TestFile::new(
        r#"{"server": {"config": "mcp.json", "name": "a"}, "steps": [{"call": "fail", "isError": true}]}"#,
    );
    let entry = |args: &[&str]| json!({ "command": PROBE, "args": args });
    let config = json!({"mcpServers": {"a": entry(&["serve"]), "b": entry(&["nonsense"])}}).to_string();
    fs::write(file.folder.path().join("mcp.json"), config).unwrap();
    file.run(&[]).assert_ok();
    file.run(&["--server", "b"]).assert_code(3);
    file.run(&["--", PROBE, "serve", "--era", "modern"]).assert_ok().assert_stdout(&["revision 2026-07-28"]);
}

/// Results that cannot be read as what they have to be.
#[test]
fn results_that_cannot_be_read_fail_their_steps() {
    let call = |name: &str, result: &str| {
        let pattern = format!("*'\"tools/call\"'*'\"name\":\"{name}\"'*");
        let action =
            format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}'");
        (pattern, action)
    };
    let cases = [
        call("large", r#"{"isError":true,"content":[],"structuredContent":{"x":1e400}}"#),
        call("text", r#"{"isError":"true","content":[]}"#),
        call("none", "{}"),
        call("number", r#"{"content":[],"structuredContent":{"n":9007199254740993}}"#),
    ];
    let server =
        cases.iter().fold(ShellServer::legacy(), |server, (pattern, action)| server.on_line(pattern, action));
    let page = json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "again"});
    let server = server.on_line(&method_pattern("tools/list"), &result_action(&page));
    let steps = json!([
        {"call": "large", "isError": true},
        {"name": "gone", "call": "large", "expect": {"/structuredContent/y": {"exists": false}}},
        {"call": "text"}, {"call": "none"}, {"list": "tools"},
        {"call": "number", "expect": {"/structuredContent/n": 9007199254740992.0}},
        {"name": "equal", "call": "number", "expect": {"/structuredContent/n": 9_007_199_254_740_993_u64}}
    ]);
    let script = server.script();
    let done =
        TestFile::of(&steps).run(&["--json", "--era", "legacy", "--", "sh", "-c", &script]).assert_code(1);
    let report = done.json();
    assert_eq!((&report["failed"], &report["passed"]), (&json!(6), &json!(1)), "{report:#}");
    for (step, words) in [
        (0, "cannot be read"),
        (1, "cannot be read"),
        (2, "cannot be read"),
        (3, "cannot be read"),
        (4, "cursor"),
        (5, "9007199254740993"),
    ] {
        let found = report["steps"][step]["failures"][0]["found"].as_str().unwrap();
        assert!(found.contains(words), "{found}");
    }
}

#[test]
fn limit_of_a_step_counts_for_pings_and_for_all_pages_together() {
    let server = ShellServer::legacy()
        .on_line(&method_pattern("ping"), ":")
        .on_line(
            &method_pattern("tools/list"),
            "n=$((${n:-0} + 1)); sleep 0.2; printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[],\"nextCursor\":\"%s\"}}\\n' \"$id\" $n",
        );
    for step in [json!({"ping": true, "within": "500ms"}), json!({"list": "tools", "within": "500ms"})] {
        let done = TestFile::of(&json!([step])).run(&["--era", "legacy", "--", "sh", "-c", &server.script()]);
        let done = done.assert_code(1).assert_stdout(&["time: expected at most 0.5s"]);
        assert!(done.elapsed.as_secs() < 15, "{done}");
    }
}

#[test]
fn report_for_ci_is_written_even_if_the_server_does_not_start() {
    let file = TestFile::of(&json!([{"ping": true}]));
    let junit = file.folder.path().join("report.xml");
    file.run(&["--junit", junit.to_str().unwrap(), "--", "/nonexistent"]).assert_code(3);
    let text = fs::read_to_string(junit).unwrap();
    assert!(text.contains("errors=\"1\"") && text.contains("name=\"ping\"><error message=\""), "{text}");
    file.run(&["--junit", "/nonexistent/report.xml"]).assert_code(1).assert_stderr(&["cannot write"]);
}

#[cfg(unix)]
#[test]
fn snapshot_that_is_a_link_is_replaced_and_not_followed() {
    let file = TestFile::of(&json!([{"call": "add", "arguments": {"a": 1, "b": 2}, "snapshot": true}]));
    let folder = file.folder.path().join("tests.json.snapshots");
    let other = file.folder.path().join("other");
    fs::create_dir(&folder).unwrap();
    fs::write(&other, "mine").unwrap();
    std::os::unix::fs::symlink(&other, folder.join("call-add.json")).unwrap();
    file.run(&["--update"]).assert_ok();
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    file.run(&[]).assert_ok();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

/// A hostile text moves no cursor, at two widths.
#[cfg(target_os = "linux")]
#[test]
fn session_of_test_is_harmless_on_a_terminal() {
    let hostile = "\u{1b}]0;title\u{7}\u{202e}abc\u{1b}[2J";
    let file = TestFile::of(&json!([
        {"name": hostile, "call": "echo", "arguments": {"text": hostile}, "expect": {"/content": []}},
        {"call": "echo", "arguments": {"text": hostile}, "expect": {"/content/0/text": "x"}},
        {"ping": true}
    ]));
    for columns in [80, 200] {
        let (code, shown) = show_on_terminal(&["test", &file.path], columns);
        let plain = without_colours(&shown);
        assert!(code == Some(1) && !plain.contains('\u{202e}') && !plain.contains('\u{7}'), "{plain}");
        for wanted in [
            "failed  call echo",
            "expected \"x\", found \"\\u001b]0;title",
            "passed  ping",
            "1 passed, 2 failed",
        ] {
            assert!(plain.contains(wanted), "no {wanted}: {plain}");
        }
    }
}

/// Secrets in the messages of a server are masked in JUnit reports, log messages and errors.
#[test]
fn secrets_of_a_server_are_masked_in_reports_logs_and_errors() {
    const SECRET: &str = "q7Rz2mXw9LpT4vKd8NbY";
    let said = format!("the request had OPENAI_API_KEY={SECRET}");
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": said}});
    let error = json!({"code": -32000, "message": said, "data": {"api_key": SECRET, "seen": said}});
    let action = format!("{}; {}", print_action(&log.to_string()), error_action(&error));
    let server = ShellServer::legacy().replace_method("tools/call", &action);
    for options in [&[][..], &["--json"]] {
        let done = server.probe(&[&["call", "x", "--log", "debug"], options].concat()).assert_code(1);
        for text in ["log: error the request had OPENAI_API_KEY=", "error: "] {
            assert!(done.stderr.contains(text), "{done}");
        }
        assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done}");
    }
    let server = ShellServer::legacy()
        .replace_method("tools/call", &result_action(&json!({"content": [{"type": "text", "text": said}]})));
    let file =
        TestFile::new(&json!({"steps": [{"call": "x", "expect": {"/content/0/text": "none"}}]}).to_string());
    let junit = file.folder.path().join("report.xml");
    server.probe(&["test", &file.path, "--junit", junit.to_str().unwrap()]).assert_code(1);
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("OPENAI_API_KEY=") && !junit.contains(SECRET), "{junit}");
}
