//! Arguments of tools and prompts: words, JSON, files and stdin.

use serde_json::json;

use crate::config_file::TemporaryDirectory;
use crate::support::{PROBE, ProbeOutput, probe_own_server, run_with_input};

fn call(args: &[&str]) -> ProbeOutput {
    probe_own_server(&[&["call"], args].concat(), &[])
}

#[test]
fn words_become_values_of_the_types_of_the_schema() {
    for era in ["modern", "legacy"] {
        let done = call(&["add", "a=20", "b=22.5", "--era", era]).assert_ok();
        assert_eq!(done.stdout, "{\"sum\":42.5}\n");
        // A string, although it could be a number.
        assert_eq!(call(&["echo", "text=42", "--era", era]).assert_ok().stdout, "42\n");
        assert_eq!(call(&["echo", "text=a=b c", "--era", era]).assert_ok().stdout, "a=b c\n");
        assert_eq!(call(&["count", "to=1", "delay_ms=0", "--era", era]).assert_ok().stdout, "counted to 1\n");
    }
    let done = call(&["echo", "text=", "--trace"]).assert_ok();
    done.assert_stderr(&["\"arguments\":{\"text\":\"\"}"]);
    // Raw JSON needs no schema, so the list of tools is not fetched.
    let done = call(&["add", "a:=1", "b:= 2", "--trace"]).assert_ok();
    assert_eq!(done.stdout, "{\"sum\":3}\n");
    assert!(!done.stderr.contains("tools/list"), "{done}");
    // The server judges what the schema does not say.
    call(&["echo", "text:=7"]).assert_code(1).assert_stdout(&["not valid"]);
    call(&["echoo", "text=7"]).assert_code(1).assert_stderr(&["there is no tool `echoo`"]);
}

#[test]
fn words_replace_members_of_args() {
    let directory = TemporaryDirectory::new();
    let file = directory.path().join("args.json");
    std::fs::write(&file, "{\"a\": 1,\n \"b\": 2}\n").expect("a file");
    let from_file = format!("@{}", file.display());
    assert_eq!(call(&["add", "--args", &from_file]).assert_ok().stdout, "{\"sum\":3}\n");
    assert_eq!(call(&["add", "b=5", "--args", &from_file]).assert_ok().stdout, "{\"sum\":6}\n");
    assert_eq!(call(&["add", "--args", r#"{"a":1,"b":"x"}"#, "b:=5"]).assert_ok().stdout, "{\"sum\":6}\n");
    let stdin = ["call", "add", "a=3", "--args", "-", "--", PROBE, "serve"];
    let done = run_with_input(&stdin, &[], "{\"b\": 4}").assert_ok();
    assert_eq!(done.stdout, "{\"sum\":7}\n");
}

#[test]
fn arguments_of_prompts_are_words_too() {
    let prompt = |args: &[&str]| {
        let command = [&["prompt", "travel_plan", "--trace"], args].concat();
        probe_own_server(&command, &["--everything"])
    };
    let done = prompt(&["country=norway", "--args", r#"{"country":"peru","days":"5"}"#]);
    done.assert_stderr(&["\"country\":\"norway\"", "\"days\":\"5\""]);
    prompt(&["country=a", "country=b"]).assert_code(2).assert_stderr(&["`country` is given twice"]);
    prompt(&["--args", r#"{"days":5}"#]).assert_code(2).assert_stderr(&["`days` must be a string"]);
}

#[test]
fn invalid_argument_is_refused_with_its_name() {
    let directory = TemporaryDirectory::new();
    let file = directory.path().join("args.json");
    std::fs::write(&file, "[1]").expect("a file");
    let (from_file, long) = (format!("@{}", file.display()), format!("a={}", "x".repeat(500)));
    for (args, wanted) in [
        (
            &["add", "a=twenty", "b=2"][..],
            &["tool `add`: the argument `a` must be a number, but is \"twenty\"", "a:=JSON"][..],
        ),
        (&["add", &long], &["x\" …"]),
        (&["count", "to=1.5"], &["`to` must be a whole number, but is \"1.5\""]),
        (&["add", "a=1", "a=2"], &["the argument `a` is given twice"]),
        (&["add", "a:=x"], &["the value behind := must be JSON"]),
        (&["add", "twenty"], &["'twenty'", "must be NAME=VALUE or NAME:=JSON", "behind --"]),
        (&["add", "=1"], &["must be NAME=VALUE"]),
        (&["add", r#"{"a": 1}"#], &["a JSON object is given with --args"]),
        (&["add", "--args", &from_file], &["--args @", "args.json: must be an object"]),
        (&["add", "--args", "@/nowhere/args.json"], &["--args @/nowhere/args.json: "]),
        (&["add", "--args", "@"], &["must name a file"]),
        (&["add", "--args", "-"], &["--args -: must be JSON"]),
    ] {
        let done = call(args).assert_code(2).assert_stderr(wanted);
        assert_eq!(done.stdout, "", "{done}");
    }
}

#[test]
fn misplaced_arguments_are_named() {
    let hint = |args: &[&str]| probe_own_server(&["call", "echo"], args);
    for word in ["text=hello", "text:=1"] {
        let done = hint(&[word]).assert_code(3);
        done.assert_stderr(&[&format!(
            "`{word}` behind -- is for the server's command: write arguments of the tool before --"
        )]);
    }
    let args = json!({"text": "hello"}).to_string();
    hint(&["--args", &args])
        .assert_code(3)
        .assert_stderr(&["`--args` behind -- is for the server's command"]);
    let done = crate::support::probe(&["call", "echo", "--", "text=hello"]).assert_code(3);
    done.assert_stderr(&["`text=hello` behind --", "--env NAME=VALUE"]);
    // Neither a word of another program nor a call with arguments.
    for command in [
        &["call", "echo", "--", "env", "A=b", "false"][..],
        &["call", "echo", "text=x", "--", "false", "a=b"],
    ] {
        let done = crate::support::probe(command).assert_code(3);
        assert!(!done.stderr.contains("behind --"), "{done}");
    }
}
