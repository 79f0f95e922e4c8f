//! The `generate` command: the clients that it writes are committed, compiled, and call the server.

use core::iter;
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use mcp_blocking::{Client, Error, Program};
use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::shell_server::ShellServer;
use crate::support::{PROBE, probe, probe_own_server};

/// Written from the lists of `mcp-probe serve --everything`.
#[rustfmt::skip]
#[path = "generated/everything.rs"]
#[allow(unreachable_pub, clippy::all, clippy::restriction, reason = "it is not for this workspace")]
mod everything;
/// Written from lists with names and texts that are no Rust.
#[rustfmt::skip]
#[path = "generated/hostile.rs"]
#[allow(unreachable_pub, clippy::all, clippy::restriction, reason = "it is not for this workspace")]
mod hostile;

/// Compares a source with the committed one, which `UPDATE_GENERATED=1` replaces, and checks its layout.
fn assert_committed(name: &str, source: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/generated").join(name);
    if env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, source).expect("written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == source, "{name}: run this test with UPDATE_GENERATED=1\n{source}");
    if Command::new("rustfmt").arg("--version").output().is_err() {
        // Not `eprintln!`: the test harness would capture the line and drop it.
        let _ = writeln!(std::io::stderr(), "NOT CHECKED: the layout of {name}: rustfmt is not installed");
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "rustfmt is required in CI");
        return;
    }
    // The defaults of `rustfmt`, not those of this workspace.
    let folder = TemporaryDirectory::new();
    let (config, copy) = (folder.write("rustfmt.toml", ""), folder.write(name, source));
    for edition in ["2021", "2024"] {
        let args = ["--check", "--edition", edition, "--config-path", &config, &copy];
        let done = Command::new("rustfmt").args(args).output().expect("rustfmt runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
}

/// A server whose lists try to leave the comments, literals and names of the source.
fn hostile_server() -> ShellServer {
    let evil = "\u{202e}*/ } fn main() {\r\n```\npanic!()\n```\n\"\\\" #[x] <b> `\u{e0041}";
    let node = json!({
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
        "required": ["value"],
    });
    let inner = json!({"type": "object", "properties": {(long("inner_")): {}}});
    let schema = json!({
        "type": "object",
        "title": "T",
        "description": evil,
        "$defs": {"Node": node, "a/b": {"type": "string", "enum": ["", "self", "Self", "a b", "a-b", "9"]}},
        "properties": {
            "type": {"type": "string", "description": evil, "default": "x\u{200b}"},
            "self": {"type": "boolean"},
            "a b": {"type": "number"},
            "a-b": {"type": "integer", "minimum": 0},
            "": {"type": "array", "items": {"type": ["string", "null"]}},
            "1st": {"$ref": "#/$defs/Node"},
            "größe": {"$ref": "#/$defs/a~1b"},
            "null": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "patterns": {"type": "object", "patternProperties": {"^x": {}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"type": "object"},
            "elsewhere": {"$ref": "https://example.com/x.json"},
            "kinds": {"type": ["string", "integer"]},
            "numbers": {"enum": [1, 2]},
            "maybe": {"enum": ["on", null]},
            "fixed": {"const": "yes"},
            (long("member_")): {"type": "array", "items": inner},
        },
        "required": ["type", "self", "a b", "a-b", "", "1st", "größe"],
    });
    let tool = |name: &str, input: &Value| json!({"name": name, "description": evil, "inputSchema": input});
    let any = json!({"type": "object"});
    let mut typed = tool("String", &json!({"type": "object", "properties": {}}));
    typed["outputSchema"] =
        json!({"type": "object", "properties": {"Ok": {"type": "null"}}, "required": ["Ok"]});
    let tools = [
        tool("fn", &schema),
        tool("fn", &any),
        tool("", &any),
        tool("*/ \u{1b}", &json!({"oneOf": [{}, {}], "type": "object"})),
        tool(&long("tool_"), &schema),
        tool("recursive", &json!({"type": "object", "properties": {"again": {"$ref": "#"}}})),
        typed,
    ];
    let argument = |name: &str| json!({"name": name, "description": evil});
    let arguments = [argument("a\"b"), argument("a\"b"), argument("crate"), argument(&long("argument_"))];
    let prompts = json!([
        {"name": "fn", "description": evil, "arguments": arguments},
        {"name": long("prompt_"), "arguments": [{"name": "a", "required": true}]},
        {"name": "plain prompt"},
    ]);
    let template = |name: &str, text: &str| json!({"name": name, "description": evil, "uriTemplate": text});
    let variable = long("variable_");
    let templates = json!([
        template("values", "x://{values}/{self}{?template,q*}"),
        template("values", &format!("x://{{{variable}}}{{?q{variable}}}")),
        template("none", "x://plain"),
        template("bad \u{202e}", "x://{"),
    ]);
    ShellServer::legacy()
        .with_result("tools/list", &json!({"tools": tools}))
        .with_result("prompts/list", &json!({"prompts": prompts}))
        .with_result("resources/templates/list", &json!({"resourceTemplates": templates}))
}

/// Returns a name that is longer than a line.
fn long(begin: &str) -> String {
    iter::once(begin).chain(iter::repeat_n("x1234_6789", 11)).collect()
}

#[test]
fn client_of_own_server_is_the_committed_one() {
    let done = probe_own_server(&["generate", "rust"], &["--everything"]).assert_ok();
    assert_committed("everything.rs", &done.stdout);
}

#[test]
fn client_of_a_hostile_server_is_the_committed_one() {
    let done = hostile_server().probe(&["generate", "rust"]).assert_ok();
    let unsafe_characters = ['\r', '\u{1b}', '\u{200b}', '\u{202e}', '\u{e0041}'];
    assert!(!done.stdout.contains(unsafe_characters), "{done}");
    assert_committed("hostile.rs", &done.stdout);
}

#[test]
fn generated_client_calls_the_server() {
    use everything::{
        AddArguments, FindCitiesArguments, FindCitiesArgumentsSort, McpProbe, TravelPlanPromptArguments,
    };
    let client = Client::spawn(Program::new(PROBE).args(["serve", "--everything"])).expect("a client");
    let server = McpProbe(&client);
    assert_eq!(server.add(&AddArguments { a: 20.0, b: 22.0 }).expect("a result").sum, 42.0);
    let arguments = FindCitiesArguments {
        limit: Some(1),
        sort: Some(FindCitiesArgumentsSort::Population),
        ..FindCitiesArguments::default()
    };
    let found = server.find_cities(&arguments).expect("a result");
    assert_eq!((found.cities.len(), found.more > 0), (1, true), "{found:?}");
    assert!(server.fail().expect("a result").is_failure());
    let plan = TravelPlanPromptArguments { country: "norway".into(), ..Default::default() };
    assert!(!server.travel_plan_prompt(&plan).expect("a prompt").messages.is_empty());
    let city = server.read_city("norway", "oslo").expect("a resource");
    assert_eq!(city.contents.len(), 1);
    let missing = server.read_city("norway", "no such/city");
    assert!(matches!(missing, Err(Error::Call(_))), "{missing:?}");
}

#[test]
fn generated_types_have_the_names_of_the_server() {
    use hostile::{FnA1b, FnArguments, FnNode};
    let arguments = FnArguments {
        type_: "t".into(),
        self_: true,
        a_b: 0.5,
        a_b_2: 7,
        unnamed: vec![None, Some("s".into())],
        n1st: FnNode { value: 1, next: Some(json!({"value": 2})) },
        gr_e: FnA1b::AB2,
        null: None,
        either: Some(json!(3)),
        patterns: None,
        map: Some([("k".to_owned(), 4)].into()),
        free: None,
        elsewhere: None,
        kinds: None,
        numbers: None,
        maybe: None,
        fixed: None,
        member_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x12: None,
    };
    let sent = serde_json::to_value(&arguments).expect("JSON");
    let wanted = json!({
        "type": "t", "self": true, "a b": 0.5, "a-b": 7, "": [null, "s"],
        "1st": {"value": 1, "next": {"value": 2}}, "größe": "a-b", "either": 3, "map": {"k": 4},
    });
    assert_eq!(sent, wanted);
    assert_eq!(serde_json::from_value::<FnArguments>(wanted).expect("arguments"), arguments);
}

#[test]
fn generated_source_goes_to_a_file_and_has_no_secrets() {
    let folder = TemporaryDirectory::new();
    let path = folder.path().join("client.rs");
    let out = path.to_str().expect("UTF-8");
    let done =
        probe(&["generate", "rust", "--out", out, "--", PROBE, "serve", "--era", "modern"]).assert_ok();
    assert!(done.stdout.starts_with("written from 4 tools"), "{done}");
    let source = fs::read_to_string(&path).expect("written");
    // Arguments of the command may be secrets.
    assert!(source.contains("from the lists of mcp-probe:") && !source.contains("modern"), "{source}");
    let done =
        probe(&["generate", "rust", "--out", "/no/such/folder/a.rs", "--", PROBE, "serve"]).assert_code(1);
    done.assert_stderr(&["cannot write the source: /no/such/folder/a.rs: "]);
    probe(&["generate", "--", "true"]).assert_code(2);
}
