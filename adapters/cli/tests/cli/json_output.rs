//! What commands print with `--json` fits the schemas of the program: with success, with failure, and with an invalid command line.

use alloc::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::thread;

use mcp_proto::RawJson;
use mcp_proto::router::SchemaValidator as _;
use mcp_std::schema::JsonSchemaValidator;
use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
#[cfg(target_os = "linux")]
use crate::connect::User;
use crate::protected_server::{Behaviour, ProtectedServer, browser_command, get};
use crate::shell_server::{ShellServer, error_action};
use crate::support::{ClosedAddress, PROBE, ProbeOutput, probe, probe_command, run, run_with_input};

/// Checks that a value fits a schema of the program.
pub(crate) fn assert_fits(name: &str, value: &Value) {
    let schema = probe(&["schema", name]).assert_ok();
    let schema = RawJson::new(schema.stdout.trim_end().to_owned()).expect("JSON");
    let schema = JsonSchemaValidator::new().compile(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
    let checked = schema.validate(RawJson::encode(value).expect("JSON").as_bytes());
    assert!(checked.is_ok(), "{name}: {checked:?}\n{value:#}");
}

/// Checks that each line of an output fits, and returns the lines.
fn fit_lines(name: &str, done: &ProbeOutput) -> Vec<Value> {
    let lines: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!lines.is_empty(), "{done}");
    lines.iter().for_each(|line| assert_fits(name, line));
    lines
}

/// Schemas by their names, with the words of their commands.
fn schemas() -> Vec<(String, Vec<String>)> {
    let listed = probe(&["schema", "--json"]).assert_ok().json();
    assert_fits("schema", &listed);
    let entry = |entry: &Value| {
        let command = entry["command"].as_str().expect("a command line");
        let words = command.split_whitespace().skip(1).map(str::to_owned).collect();
        (entry["name"].as_str().expect("a name").to_owned(), words)
    };
    listed.as_array().expect("a list").iter().map(entry).collect()
}

#[test]
fn result_without_content_is_printed_as_it_came_with_a_note() {
    for (result, code) in
        [(json!({"structuredContent": {"x": 1}}), 0), (json!({"isError": true, "why": 5}), 1)]
    {
        let server = ShellServer::legacy().with_result("tools/call", &result);
        let done = server.probe(&["call", "add", "--json"]).assert_code(code);
        assert_eq!(done.json(), result, "{done}");
        done.assert_stderr(&["the answer is not a result of a tool", "it is shown as it came"]);
        // Without `--json` there is nothing to show.
        server
            .probe(&["call", "add"])
            .assert_code(1)
            .assert_stderr(&["the answer is not a result of a tool"]);
    }
}

/// Output of a command on the server with everything.
struct Case<'a> {
    schema: &'a str,
    args: &'a [&'a str],
    code: i32,
}

const fn case<'a>(schema: &'a str, args: &'a [&'a str], code: i32) -> Case<'a> {
    Case { schema, args, code }
}

/// Schemas whose values need more than one command; a test below is about each.
const OTHERS: [&str; 18] = [
    "login",
    "login-forget",
    "login-show",
    "pin-check",
    "replay",
    "trace-show",
    "trace-diff",
    "schema",
    "check-rules",
    "events-receive",
    "events-send",
    "events-verify",
    "connect",
    "connect-list",
    "connect-end",
    "serve-list",
    "shell",
    "test",
];

#[test]
fn results_of_a_server_fit_the_schemas() {
    let cases = [
        case("inspect", &["inspect"], 0),
        case("doctor", &["doctor"], 0),
        case("check", &["check"], 0),
        case("check", &["check", "--profile", "owasp"], 0),
        case("call", &["call", "add", "a=1", "b=2"], 0),
        case("call", &["call", "fail"], 1),
        case("call", &["call", "missing"], 1),
        case("call", &["call", "count", "to=100", "--timeout", "100ms"], 4),
        case("call", &["call", "sign"], 5),
        case("read", &["read", "test://static-text"], 0),
        case("read", &["read", "test://missing"], 1),
        case("prompt", &["prompt", "travel_plan", "country=norway", "days=5"], 0),
        case("prompt", &["prompt", "missing"], 1),
        case("complete", &["complete", "prompt:travel_plan", "country", "n"], 0),
        case("complete", &["complete", "prompt:missing", "country"], 1),
        case("listen", &["listen", "clock://running", "--count", "1"], 0),
        case("events-list", &["events", "list"], 0),
        case("events-poll", &["events", "poll", "ship.arrived"], 0),
        case("events-poll", &["events", "poll", "missing"], 1),
        case("events-follow", &["events", "follow", "tide.changed", "harbour=Cobh", "--count", "1"], 0),
        case("skills-list", &["skills", "list"], 0),
        case("skills-show", &["skills", "show", "mooring"], 0),
        case("skills-show", &["skills", "show", "missing"], 1),
        case("skills-verify", &["skills", "verify"], 0),
        case("ping", &["ping", "-n", "1"], 0),
        case("bench", &["bench", "echo", "text=hi", "--calls", "5", "--warm-up", "0"], 0),
        case("bench", &["bench", "echo", "text=hi", "--calls", "2", "--rate", "50", "--warm-up", "0"], 0),
        case("bench", &["bench", "fail", "--calls", "2", "--warm-up", "0"], 1),
    ];
    let mut seen: BTreeSet<&str> = OTHERS.into();
    for Case { schema, args, code } in &cases {
        let done = probe(&[args, &["--json", "--", PROBE, "serve", "--everything"][..]].concat());
        let done = done.assert_code(*code);
        let lines = fit_lines(schema, &done);
        // What a tool reports is its result; anything else that fails is an error object.
        let is_error = *code != 0 && args[1] != "fail";
        assert_eq!(lines.last().is_some_and(|last| last.get("error").is_some()), is_error, "{done}");
        seen.insert(schema);
    }
    seen.extend(["complete-typed", "events-subscribe"]);
    let all: Vec<_> = schemas().into_iter().map(|(name, _)| name).collect();
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all.iter().map(String::as_str).collect());
}

#[test]
fn texts_as_they_are_typed_fit_the_schema() {
    let args = ["complete", "prompt:travel_plan", "country", "--typed", "--json"];
    let server = ["--", PROBE, "serve", "--everything"];
    let done = run_with_input(&[&args[..], &server].concat(), &[], "n\n").assert_ok();
    assert_eq!(fit_lines("complete-typed", &done)[0]["text"], "n");
}

#[test]
fn invalid_command_line_and_unreachable_server_are_error_objects() {
    for (name, words) in schemas() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = probe(&[&words[..], &["--no-such-option"]].concat()).assert_code(2);
        let lines = fit_lines(&name, &done);
        assert_eq!((&lines[0]["error"]["kind"], lines.len()), (&json!("usage"), 1), "{done}");
    }
    let closed = ClosedAddress::new();
    let url = format!("http://{closed}/mcp");
    for (schema, args) in [
        ("inspect", &["inspect"][..]),
        ("check", &["check"]),
        ("call", &["call", "x"]),
        ("listen", &["listen"]),
        ("events-follow", &["events", "follow", "x"]),
        ("skills-list", &["skills", "list"]),
        ("ping", &["ping"]),
        ("bench", &["bench", "echo"]),
        ("shell", &["shell"]),
    ] {
        let done = probe(&[args, &["--json", &url]].concat()).assert_code(3);
        let lines = fit_lines(schema, &done);
        assert_eq!((&lines[0]["error"]["exitCode"], lines.len()), (&json!(3), 1), "{done}");
    }
    // A diagnosis is a report, whatever is found.
    let done = probe(&["doctor", "--json", &url]).assert_code(3);
    assert_eq!(fit_lines("doctor", &done)[0]["ok"], false);
}

#[test]
fn reports_about_faulty_servers_fit_the_schemas() {
    let broken =
        ShellServer::legacy().with_error("prompts/list", -32603).with_tool_schema(&json!({"type": 5}));
    let lines = fit_lines("inspect", &broken.probe(&["inspect", "--json"]).assert_code(1));
    assert_eq!((&lines[0]["failures"][0]["part"], lines.len()), (&json!("prompts"), 1));
    let lines = fit_lines("check", &broken.probe(&["check", "--json"]).assert_code(1));
    assert!(lines.len() == 1 && lines[0].as_array().is_some_and(|found| !found.is_empty()), "{lines:?}");
    let rules = probe(&["check", "--rules", "--json"]).assert_ok();
    fit_lines("check-rules", &rules);
}

#[test]
fn kinds_of_disturbances_fit_the_schema() {
    let kinds = fit_lines("serve-list", &probe(&["serve", "--list", "--json"]).assert_ok());
    assert!(kinds.len() == 1 && kinds[0].as_array().is_some_and(|kinds| kinds.len() > 10), "{kinds:?}");
    let done = probe(&["serve", "--list", "--json", "--mock", "/nowhere/mock.json"]);
    assert_eq!(fit_lines("serve-list", &done), kinds, "the list is all that is asked for");
}

#[test]
fn lines_of_the_shell_fit_the_schema() {
    let shell = |options: &[&str], server: &[&str], script: &str, code: i32| {
        let args = [&["shell", "--json"], options, &["--"], server].concat();
        fit_lines("shell", &run_with_input(&args, &[], script).assert_code(code))
    };
    let server = [PROBE, "serve", "--everything"];
    let script = "help\ntools\nprompts\nresources\ndescribe add\ndescribe travel_plan\ndescribe test://static-text\n\
                  describe atlas://{country}/{city}\nx = call add a=1 b=2\nread test://static-text\n\
                  prompt travel_plan country=norway days=5\ncomplete prompt:travel_plan country n\nping\nresults\n\
                  show $x/structuredContent/sum\nlog info\ncall fail\nread test://missing\nfoo\n";
    let lines = shell(&["--keep-going"], &server, script, 1);
    // `log` prints nothing, and the failure of `fail` is its result. The last line is the outcome of all.
    assert_eq!(lines.len(), 19, "{lines:#?}");
    assert!(lines[0]["commands"].as_array().is_some_and(|commands| commands.len() > 10), "{}", lines[0]);
    assert_eq!((&lines[14], &lines[15]["isError"]), (&json!({"value": 3}), &json!(true)));
    let kinds = [16, 17, 18].map(|line| lines[line]["error"]["kind"].as_str().expect("a kind"));
    assert_eq!(kinds, ["failed", "usage", "failed"]);

    for (script, code, is_error) in [("ping\ncall fail\nping\n", 1, false), ("ping\nfoo\nping\n", 2, true)] {
        let lines = shell(&[], &server, script, code);
        assert_eq!((lines.len(), lines[1].get("error").is_some()), (2, is_error), "{lines:?}");
    }
    // What is no result of the protocol is a failure alone.
    let odd = ShellServer::legacy().with_result("tools/call", &json!({"content": 5})).script();
    let lines = shell(&[], &["sh", "-c", &odd], "call tool\n", 1);
    assert_eq!((&lines[0]["error"]["kind"], lines.len()), (&json!("failed"), 1));
}

#[test]
fn runs_of_a_test_file_fit_the_schema() {
    let folder = TemporaryDirectory::new();
    let steps = json!([
        {"name": "adds", "call": "add", "arguments": {"a": 1, "b": 2}, "expect": {"/structuredContent": {"equals": {"sum": 3}}}},
        {"name": "differs", "call": "add", "arguments": {"a": 1, "b": 2}, "save": {"x": "/none"},
         "expect": {"/structuredContent": {"equals": {"sum": 4, "of": 2}}}},
        {"name": "uses x", "call": "echo", "arguments": {"text": "${x}"}},
        {"name": "is slow", "call": "count", "arguments": {"to": 100}, "within": "200ms"},
        {"name": "comes later", "ping": true}
    ]);
    let file = json!({"server": [PROBE, "serve", "--everything"], "steps": steps}).to_string();
    let file = folder.write("tests.json", &file);
    let test = |more: &[&str], code: i32| {
        let done = probe(&[&["test", &file, "--json"], more].concat()).assert_code(code);
        let mut lines = fit_lines("test", &done);
        assert_eq!(lines.len(), 1, "{done}");
        lines.remove(0)
    };
    let report = test(&[], 1);
    let outcomes = report["steps"].as_array().expect("steps").iter().map(|step| &step["outcome"]);
    assert_eq!(outcomes.collect::<Vec<_>>(), ["passed", "failed", "skipped", "failed", "skipped"]);
    assert!(report["steps"][1]["failures"][0]["diff"].is_string(), "{report}");
    assert!(report["steps"][2]["reason"].is_string() && report["steps"][3]["failures"][0]["where"] == "time");

    let selected = test(&["--filter", "adds"], 0);
    assert_eq!((&selected["passed"], selected["steps"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    // A step comes with the one that saves what it uses.
    let selected = test(&["--filter", "uses"], 1);
    assert_eq!((&selected["failed"], &selected["skipped"]), (&json!(1), &json!(1)));

    assert_eq!(test(&["--filter", "no such step"], 2)["error"]["kind"], "usage");
    let closed = ClosedAddress::new();
    assert_eq!(test(&[&format!("http://{closed}/mcp")], 3)["error"]["kind"], "connection");
    let missing = probe(&["test", "/nowhere/tests.json", "--json"]).assert_code(2);
    assert_eq!(fit_lines("test", &missing)[0]["error"]["kind"], "usage");
}

#[cfg(target_os = "linux")]
#[test]
fn connections_that_stay_fit_the_schemas() {
    let user = User::new();
    let list = || fit_lines("connect-list", &user.run(&["connect", "--list", "--json"]).assert_ok());
    let disconnect = |more: &[&str], code: i32| {
        let done = user.run(&[&["connect", "--json"], more].concat()).assert_code(code);
        let mut lines = fit_lines("connect-end", &done);
        assert_eq!(lines.len(), 1, "{done}");
        lines.remove(0)
    };
    assert_eq!(list(), [json!({"process": null, "version": null, "connections": []})]);
    assert_eq!(disconnect(&["--end-all"], 0), json!({"ended": []}));
    assert_eq!(disconnect(&["--end", "nowhere"], 2)["error"]["kind"], "usage");

    for (name, idle, is_new) in
        [("one", "0", true), ("one", "0", false), ("two", "1500ms", true), ("three", "60m", true)]
    {
        let done = user.connect(name, &["--json", "--idle-timeout", idle], &[]).assert_ok();
        let lines = fit_lines("connect", &done);
        assert_eq!((&lines[0]["isNew"], lines[0]["idle"].is_null()), (&json!(is_new), idle == "0"), "{done}");
    }
    let taken = user.connect("one", &["--json"], &["--everything"]).assert_code(2);
    assert_eq!(fit_lines("connect", &taken)[0]["error"]["kind"], "usage");
    assert!(list()[0]["connections"].as_array().is_some_and(|all| all.len() >= 2));
    assert_eq!(disconnect(&["--end", "one", "nowhere"], 2), json!({"ended": ["one"]}));
    assert_eq!(disconnect(&["--end", "three"], 0), json!({"ended": ["three"]}));
}

/// A failure comes through the background process as it comes to a command that connects itself.
#[cfg(target_os = "linux")]
#[test]
fn failure_to_connect_is_the_same_object_for_all_commands() {
    let user = User::new();
    let error =
        json!({"code": -32_603, "message": "closed today", "data": {"until": 12_345_678_901_234_567_u64}});
    let refuses = ShellServer::legacy().replace_method("initialize", &error_action(&error));
    let deviates =
        refuses.clone().with_prelude("echo '{\"jsonrpc\":\"2.0\",\"id\":[],\"result\":{}}'").script();
    let (refuses, protected) = (refuses.script(), ProtectedServer::new(Behaviour::default()));
    let url = &*protected.url;
    for (server, code, kind) in [
        (&["--", "/nowhere/server"][..], 3, "connection"),
        (&["--", "sh", "-c", "echo no database >&2; exit 3"], 3, "connection"),
        (&["--era", "legacy", "--", "sh", "-c", &refuses], 3, "connection"),
        (&["--era", "legacy", "--", "sh", "-c", &deviates], 3, "connection"),
        (&["--bearer", "env:NOT_SET_AT_ALL", url], 2, "usage"),
        (&[url], 6, "unauthorized"),
    ] {
        let [direct, kept] = [("ping", &["ping", "--json"][..]), ("connect", &["connect", "bad", "--json"])]
            .map(|(schema, args)| {
                let done = user.run(&[args, server].concat()).assert_code(code);
                let lines = fit_lines(schema, &done);
                assert_eq!(lines.len(), 1, "{done}");
                lines[0]["error"].clone()
            });
        assert_eq!((&kept, &kept["kind"]), (&direct, &json!(kind)));
        if server.last() == Some(&&*refuses) {
            assert_eq!((&kept["code"], &kept["data"]), (&error["code"], &error["data"]));
        }
        assert_eq!(kept.get("deviations").is_some(), server.last() == Some(&&*deviates), "{kept}");
        assert_eq!(kept["scopes"], if code == 6 { json!(["read", "call"]) } else { json!([]) });
    }
    assert_eq!(user.run(&["connect", "--list", "--json"]).assert_ok().json()["connections"], json!([]));
}

#[test]
fn pins_and_traces_fit_the_schemas() {
    let folder = TemporaryDirectory::new();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (lock, first, second) = (path("lock.json"), path("a.ndjson"), path("b.ndjson"));
    probe(&["pin", "--out", &lock, "--", PROBE, "serve"]).assert_ok();
    for (more, code) in [(&[][..], 0), (&["--everything"], 1)] {
        let done = probe(&[&["pin", "--check", &lock, "--json", "--", PROBE, "serve"], more].concat());
        assert_eq!(fit_lines("pin-check", &done.assert_code(code)).len(), 1);
    }
    for (trace, call) in [(&first, &["add", "a=1", "b=2"][..]), (&second, &["fail"])] {
        let tap = ["--", PROBE, "tap", "--out", trace, "--", PROBE, "serve"];
        probe(&[&["call"], call, &tap[..]].concat());
    }
    let calls = fit_lines("trace-show", &probe(&["trace", "show", "--json", &second]).assert_ok());
    assert!(
        calls[0].as_array().is_some_and(|calls| calls.iter().any(|call| call["outcome"] == "tool_error"))
    );
    let same = fit_lines("trace-diff", &probe(&["trace", "diff", "--json", &first, &first]).assert_ok());
    assert_eq!(same, [json!([])]);
    let differs =
        fit_lines("trace-diff", &probe(&["trace", "diff", "--json", &first, &second]).assert_code(1));
    assert!(differs[0][0]["change"].is_string() && differs.len() == 1, "{differs:?}");
    fit_lines("replay", &probe(&["replay", "--json", &first]).assert_ok());
    let server = ["--", PROBE, "serve", "--everything"];
    let done = probe(&[&["replay", "--json", &first], &server[..]].concat()).assert_code(1);
    let lines = fit_lines("replay", &done);
    assert!(lines.len() == 1 && lines[0][0]["differences"][0]["reason"].is_string(), "{done}");
    fit_lines("trace-show", &probe(&["trace", "show", "--json", &lock]).assert_code(2));
}

#[test]
fn deliveries_to_webhooks_fit_the_schemas() {
    let folder = TemporaryDirectory::new();
    let secret = folder.write("secret", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let key = ["--secret-file", &secret];
    let listen = ["events", "receive", "--listen", "127.0.0.1:0", "--count", "1", "--json"];
    let mut receiver = probe_command()
        .args(listen)
        .args(key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(receiver.stderr.take().expect("piped")).read_line(&mut line).expect("UTF-8");
    let url = line.trim().strip_prefix("listening at ").expect("the address").to_owned();
    let send = |more: &[&str]| probe(&[&["events", "send", &url, "--json"], &key[..], more].concat());
    let refused = fit_lines("events-send", &send(&[]).assert_code(1));
    assert_eq!((&refused[0]["acknowledged"], refused.len()), (&json!(false), 1));
    for args in [&["--challenge"][..], &[]] {
        assert_eq!(fit_lines("events-send", &send(args).assert_ok())[0]["acknowledged"], true);
    }
    let mut stdout = String::new();
    receiver.stdout.take().expect("piped").read_to_string(&mut stdout).expect("UTF-8");
    assert!(receiver.wait().expect("it ends").success());
    assert_fits("events-receive", &serde_json::from_str(&stdout).expect("one line"));

    let head = folder.write("head", "webhook-id: a\n");
    let body = folder.write("body", "{}");
    let verify = ["events", "verify", "--json", "--head", &head, "--body", &body];
    let checked = fit_lines("events-verify", &probe(&[&verify[..], &key].concat()).assert_code(1));
    assert_eq!((&checked[0]["ok"], checked.len()), (&json!(false), 1));
}

#[test]
fn authorizations_fit_the_schemas() {
    let (folder, server) = (TemporaryDirectory::new(), ProtectedServer::new(Behaviour::default()));
    let (store, opened) = (folder.path().join("tokens.json"), folder.path().join("opened"));
    let store = store.to_str().expect("UTF-8");
    let with_store = |args: &[&str]| run(args, &[("MCP_TOKEN_STORE", store)]);
    let nobody = with_store(&["login", "--show", "--json", &server.url]).assert_code(6);
    assert_eq!(fit_lines("login-show", &nobody)[0]["error"]["kind"], "unauthorized");
    let none =
        fit_lines("login-forget", &with_store(&["login", "--forget", "--json", &server.url]).assert_ok());
    assert_eq!((&none[0]["forgotten"], &none[0]["revoked"]), (&json!(false), &json!(false)));

    let (visited, browser) = (server.clone(), browser_command(&opened));
    let visitor = thread::spawn(move || assert_eq!(get(&visited.follow(&opened)).0, 200));
    let done = with_store(&["login", "--json", "--browser", &browser, &server.url]).assert_ok();
    visitor.join().expect("no panic");
    assert_eq!(fit_lines("login", &done)[0]["registration"], "dynamic");
    fit_lines("login-show", &with_store(&["login", "--show", "--json", &server.url]).assert_ok());
    let done =
        fit_lines("login-forget", &with_store(&["login", "--forget", "--json", &server.url]).assert_ok());
    assert_eq!((&done[0]["forgotten"], &done[0]["revoked"]), (&json!(true), &json!(true)));

    let open = Behaviour { is_open: true, no_resource_metadata: true, ..Behaviour::default() };
    let server = ProtectedServer::new(open);
    let done = with_store(&["login", "--json", &server.url]).assert_ok();
    assert_eq!(fit_lines("login", &done), [Value::Null]);
}

#[test]
fn schemas_are_printed_and_listed() {
    let listed = probe(&["schema"]).assert_ok();
    listed.assert_stdout(&["inspect           mcp-probe inspect --json\n", "mcp-probe events list --json"]);
    assert_fits("schema", &probe(&["schema", "inspect", "--json"]).assert_ok().json());
    let by_words = probe(&["schema", "events", "list"]).assert_ok();
    assert_eq!(by_words.stdout, probe(&["schema", "events-list"]).assert_ok().stdout);
    let missing = probe(&["schema", "nothing"]).assert_code(2);
    missing.assert_stderr(&["there is no schema `nothing`", "there are: inspect, "]);
    // The files of the repository are what the program prints.
    let file = format!("{}/schemas/ping.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
    assert_eq!(probe(&["schema", "ping"]).assert_ok().json()["anyOf"][0], file["anyOf"][0]);
}
