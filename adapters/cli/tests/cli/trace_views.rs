//! The command `trace`: each view of a trace file, and files that are none.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::support::{probe, run, run_with_input};

const HEADER: &str =
    r#"{"mcpTrace":1,"by":"test 1","unixMillis":1785578402000,"command":["server"],"masked":true}"#;

fn line(at: u64, from: &str, message: &Value) -> String {
    json!({ "t": at, "from": from, "line": message.to_string() }).to_string()
}

fn text(result: &str) -> String {
    let call = json!({ "id": 1, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": "<b>\u{202e}" } } });
    let records = [
        HEADER.to_owned(),
        line(1_000, "client", &call),
        json!({ "t": 1_500, "from": "server", "stderr": "\u{1b}[2Jstarted" }).to_string(),
        line(3_000, "server", &json!({ "id": 1, "result": { "content": result } })),
        line(4_000, "client", &json!({ "id": 2, "method": "tools/list" })),
        json!({ "t": 5_000, "from": "server", "end": "exit code 0" }).to_string(),
    ];
    records.join("\n") + "\n"
}

fn write(folder: &TemporaryDirectory, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A file of 2 GB is not read to its end, whatever is done with it.
#[test]
#[cfg(target_os = "linux")]
fn trace_of_two_gigabytes_is_refused_in_words() {
    let folder = TemporaryDirectory::new();
    let file = write(&folder, "large.ndjson", &format!("{HEADER}\n"));
    fs::File::options().write(true).open(&file).unwrap().set_len(2 << 30).unwrap();
    let long = "line 2 of the trace is no record: it is longer than 134217728 bytes";
    for args in [
        &["trace", "show", &*file] as &[&str],
        &["trace", "html", &file, "--out", "-"],
        &["replay", "--engine", "server", &file],
        &["shrink", "--engine", "server", &file],
        &["serve", "--mock", &file],
    ] {
        probe(args).assert_code(2).assert_stderr(&[&file, long]);
    }
}

#[test]
fn a_trace_is_shown_in_each_view() {
    let folder = TemporaryDirectory::new();
    let file = write(&folder, "a.ndjson", &text("one"));
    let shown = run(&["trace", "show", &file], &[("COLUMNS", "80")]).assert_ok().assert_stdout(&[
        "trace of server\n",
        r#"→ tools/call echo #1 {"text":"<b>\u202e"}"#,
        r#"← tools/call echo #1 2.00 ms {"content":"one"}"#,
        r"stderr: \u001b[2Jstarted",
        "tools/list #2 (no response)",
        "end: exit code 0",
        "3 messages: 2 of the client, 1 of the server; 1 line of stderr",
    ]);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let calls = probe(&["trace", "show", "--json", &file]).assert_ok().json();
    assert_eq!(calls[0]["duration"], 2.0);
    assert_eq!((&calls[0]["target"], &calls[1]["outcome"]), (&json!("echo"), &json!("unanswered")));
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    let piped = run_with_input(&["trace", "show", "-"], &[], &text("one")).assert_ok();
    assert!(piped.stdout.contains("tools/list #2"), "{piped}");

    let page = folder.path().join("a.html");
    probe(&["trace", "html", &file, "--out", page.to_str().unwrap()]).assert_ok();
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&page).unwrap().permissions()) & 0o777,
        0o600
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<b>") && !page.contains('\u{202e}'));
    let (_, data) = page.split_once(r#"id="data">"#).unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(data["rows"].as_array().map(Vec::len), Some(5));
    assert!(data["rows"][0]["b"].as_str().unwrap().contains(r"<b>\u202e"), "{data}");

    let spans = probe(&["trace", "otlp", &file]).assert_ok().json();
    let spans = &spans["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!((&spans[0]["name"], &spans[1]["name"]), (&json!("tools/call echo"), &json!("tools/list")));
    probe(&["trace", "har", &file]).assert_code(1).assert_stderr(&["byte stream", "trace show"]);
    let http = write(
        &folder,
        "http.ndjson",
        &format!(
            "{HEADER}\n{{\"t\":1,\"from\":\"client\",\"exchange\":1,\"head\":\"GET /mcp\\nHost: h\"}}\n"
        ),
    );
    let har = probe(&["trace", "har", &http]).assert_ok().json();
    assert_eq!(har["log"]["entries"][0]["request"]["url"], "http://h/mcp");
}

#[test]
fn traces_that_differ_are_compared_by_pointer() {
    let folder = TemporaryDirectory::new();
    let (first, second) =
        (write(&folder, "a.ndjson", &text("one")), write(&folder, "b.ndjson", &text("two")));
    let moved = write(&folder, "c.ndjson", &text("one").replace(r#"\"id\":1"#, r#"\"id\":\"x\""#));
    probe(&["trace", "diff", &first, &moved]).assert_ok().assert_stdout(&["the traces are the same"]);
    probe(&["trace", "diff", &first, &second])
        .assert_code(1)
        .assert_stdout(&["response to tools/call echo: /result/content\n  - \"one\"\n  + \"two\""])
        .assert_stderr(&["1 difference between the traces"]);
    let lines: Vec<String> = text("one").lines().map(|line| format!("{line}\n")).collect();
    let short = write(&folder, "d.ndjson", &lines[..lines.len() - 1].concat());
    probe(&["trace", "diff", &first, &short])
        .assert_code(1)
        .assert_stdout(&[" and -", "only in the first trace"]);
    probe(&["trace", "diff", &short, &first])
        .assert_code(1)
        .assert_stdout(&["lines - and ", "only in the second trace"]);
}

#[test]
fn what_is_no_trace_is_refused_and_one_that_is_cut_is_shown() {
    let folder = TemporaryDirectory::new();
    let whole = text("one");
    let cut = write(&folder, "cut.ndjson", &whole[..whole.len() - 20]);
    probe(&["trace", "show", &cut])
        .assert_ok()
        .assert_stdout(&["tools/list #2"])
        .assert_stderr(&["ends within a line, and was read up to there"]);
    let missing = folder.path().join("missing");
    for (file, options, reason) in [
        (missing.to_str().unwrap(), &[][..], "cannot be used"),
        (&*write(&folder, "x", "{}\n"), &[], "this is no trace"),
        (&*write(&folder, "y", "{\"mcpTrace\":2}\n"), &[], "version 2"),
        (&*write(&folder, "z", &whole), &["--max-size", "100"], "larger than 100 bytes"),
    ] {
        for view in ["show", "html", "har", "otlp"] {
            probe(&[&["trace", view, file], options].concat()).assert_code(2).assert_stderr(&[reason]);
        }
        probe(&[&["trace", "diff", file, file], options].concat()).assert_code(2).assert_stderr(&[reason]);
    }
    let failed = probe(&["trace", "show", "--json", missing.to_str().unwrap()]).assert_code(2).json();
    assert_eq!(failed["error"]["kind"], "usage");
    let nowhere = Path::new(&cut).join("page.html");
    probe(&["trace", "html", &cut, "--out", nowhere.to_str().unwrap()])
        .assert_code(1)
        .assert_stderr(&["cannot write"]);
}
