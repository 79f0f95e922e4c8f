//! `mcp-probe shell` with a script on stdin.

use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, run_with_input};

/// Runs `mcp-probe shell OPTIONS -- mcp-probe serve SERVE` with this script.
fn shell(options: &[&str], serve: &[&str], script: &str) -> ProbeOutput {
    run_with_input(&[&["shell"], options, &["--", PROBE, "serve"], serve].concat(), &[], script)
}

/// Parses stdout as one JSON value per line.
fn values(output: &ProbeOutput) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn results_of_a_script_are_used_by_name_with_their_types() {
    for runtime in ["blocking", "threads", "smol", "tokio"] {
        let script = "# a comment\n\nsum = call add a=1 b=2\n\
                      call add a=$sum/structuredContent/sum b=$1/structuredContent/sum\n\
                      call echo 'text=it is $_' \n\
                      call echo text=$_/content/0/text\n\
                      call echo text=$$_\nshow $sum/structuredContent\nquit\nfoo\n";
        let output = shell(&["--runtime", runtime], &[], script).assert_ok();
        let want = "{\"sum\":3}\n{\"sum\":6}\nit is $_\nit is $_\n$_\n{\"sum\":3}\n";
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (want, ""), "{runtime}: {output}");
    }
}

#[test]
fn script_ends_at_the_first_failure_with_its_exit_code() {
    for (script, code, wanted) in [
        ("ping\nfoo\nping\n", 2, "line 2: there is no command `foo`"),
        ("call\n", 2, "the form is: call TOOL [NAME=VALUE]..."),
        ("call add a=x b=1\n", 2, "line 1: tool `add`: the argument `a` must be a number"),
        ("call fail\n", 1, "line 1: the tool reports an error"),
        ("call nothing\n", 1, "there is no tool `nothing`"),
        ("call add a=$x b=1\n", 2, "there is no result `$x`"),
        ("x = call add a=1 b=2\nshow $x/a/b\n", 2, "the result `$x` has nothing at /a/b: there is no `a`"),
        ("x = ping\n", 2, "`ping` has no result to name"),
        ("x =\n", 2, "a command is missing behind `x =`"),
        ("call echo 'text=a\n", 2, "line 1: a quote is not closed"),
        ("describe nothing\n", 1, "there is nothing with the name `nothing`"),
        ("show x\n", 2, "`x` is no result"),
        ("unsubscribe a:b\n", 2, "there is no subscription to a:b"),
        ("call add --args -\n", 2, "--args takes a JSON object or @FILE here"),
    ] {
        let output = shell(&[], &[], script).assert_code(code).assert_stderr(&[wanted]);
        assert!(output.stdout.matches("answered in").count() <= 1, "{output}");
    }
    let output = shell(&["--keep-going"], &[], "call fail\nfoo\ncall echo text=last\n").assert_code(1);
    output.assert_stdout(&["\nlast\n"]).assert_stderr(&["line 1: ", "line 2: ", "2 of the lines failed"]);
}

#[test]
fn lists_prompts_resources_and_completions_are_shown() {
    let script = "tools\nprompts\nresources\ndescribe add\nprompt travel_plan country=norway days=5\n\
                  read test://static-text\ncomplete prompt:travel_plan country nor\n\
                  complete atlas://{country}/{city} city os country=norway\nresults\n";
    let output = shell(&[], &["--everything"], script).assert_ok();
    let output = output.assert_stdout(&[
        "\n  add  ",
        "travel_plan",
        "atlas://{country}/{city}",
        "takes",
        "5 days in norway",
        "\nnorway\n",
        "\noslo\n",
        "$1  prompt travel_plan, ",
    ]);
    // No width is known, so nothing is cut.
    assert!(!output.stdout.contains('…'), "{output}");
}

#[test]
fn results_are_printed_as_json_lines() {
    let script = "tools\nx = call add a=1 b=2\nping\nresults\ncall fail\ncall nothing\n";
    let output = shell(&["--json", "--keep-going"], &[], script).assert_code(1);
    let values = values(&output);
    assert_eq!(values[0]["tools"][1]["name"], "add", "{output}");
    assert_eq!(values[1]["structuredContent"], json!({"sum": 3}));
    assert!(values[2]["milliseconds"].is_number() && values[4]["isError"] == true, "{output}");
    assert_eq!(
        (&values[3]["results"][0]["name"], &values[3]["results"][0]["of"]),
        (&json!("$x"), &json!("call add"))
    );
    assert_eq!(values[5]["error"]["kind"], "failed", "{output}");
}

#[test]
fn changes_of_a_resource_are_reported_after_a_subscription() {
    let script = "subscribe test://watched-resource\ncall test_touch_watched_resource\nping\n\
                  unsubscribe test://watched-resource\n";
    for era in ["modern", "legacy"] {
        let output = shell(&["--era", era], &["--everything"], script).assert_ok();
        output.assert_stderr(&["note: the resource test://watched-resource has changed"]);
    }
}

#[test]
fn input_is_answered_by_options_and_missing_input_fails_the_line() {
    let answer = "guest={\"name\": \"Ada\"}";
    shell(&["--answer", answer], &["--everything"], "call sign\n")
        .assert_ok()
        .assert_stdout(&["Hello, Ada!"]);
    shell(&[], &["--everything"], "call sign\n").assert_code(5);
}

#[cfg(unix)]
#[test]
fn lost_connection_is_opened_anew_and_results_stay() {
    use crate::config_file::TemporaryDirectory;

    let directory = TemporaryDirectory::new();
    let pid = directory.path().join("pid");
    let serve = format!("echo $$ > {}; exec {PROBE} serve", pid.display());
    let kill = format!("kill -9 $(cat {})", pid.display());
    // The second server is told to kill the first one's successor: each session writes its own process id.
    let script = "x = call add a=1 b=2\n";
    let mut child = crate::support::probe_command()
        .args(["shell", "--keep-going", "--", "sh", "-c", &serve])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdin.write_all(script.as_bytes()).unwrap();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"sum\":3}\n");
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    stdin
        .write_all(
            b"call add a=1 b=2\ncall add a=1 b=2\nreconnect\ncall add a=$x/structuredContent/sum b=1\n",
        )
        .unwrap();
    drop(stdin);
    let (mut rest, mut stderr) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*rest), (Some(3), "{\"sum\":4}\n"), "{stderr}");
    for wanted in
        ["`reconnect` opens the session anew", "line 3: there is no connection", "2 of the lines failed"]
    {
        assert!(stderr.contains(wanted), "no {wanted:?}: {stderr}");
    }
}

/// A server may write more to stderr than a terminal can show.
#[cfg(unix)]
#[test]
fn flood_on_stderr_blocks_no_line() {
    let serve = format!("(yes flood | head -n 200000 >&2) & exec {PROBE} serve");
    let args = ["shell", "--stderr", "show", "--", "sh", "-c", &serve];
    let output = run_with_input(&args, &[], "call echo text=a\ncall echo text=b\n").assert_ok();
    assert_eq!(output.stdout, "a\nb\n");
}
