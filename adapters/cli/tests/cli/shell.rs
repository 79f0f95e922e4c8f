//! `mcp-probe shell` with a script on stdin.

use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, quoted, run_with_input};

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
        ("ping\ncall echo text=it's\nping\nping\n", 2, "line 2: a quote is not closed"),
        ("ping\ncall nothing 'text=a\nb\nc'\n", 1, "line 2: the server answered with an error: unknown tool"),
        ("x = call add a=1 b=2\ncall add --args $x/content\n", 2, "--args must be a JSON object"),
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
    let serve = format!("echo $$ > {}; exec {} serve", quoted(&pid), quoted(PROBE));
    let kill = format!("kill -9 $(cat {})", quoted(&pid));
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
    let serve = format!("(yes flood | head -n 200000 >&2) & exec {} serve", quoted(PROBE));
    let args = ["shell", "--stderr", "show", "--", "sh", "-c", &serve];
    let output = run_with_input(&args, &[], "call echo text=a\ncall echo text=b\n").assert_ok();
    assert_eq!(output.stdout, "a\nb\n");
}

#[test]
fn object_of_a_result_is_taken_as_the_arguments() {
    let script = "call add a=1 b=2\ncall echo text=x --args $1/structuredContent\n";
    let output = shell(&["--trace"], &[], script);
    output.assert_stderr(&["\"sum\":3,\"text\":\"x\""]);
}

#[cfg(unix)]
#[test]
fn line_that_is_no_text_fails_alone() {
    let script = "printf 'ping\\n\\377\\ncall echo text=last\\n' | \"$0\" shell --keep-going -- \"$0\" serve";
    let output = std::process::Command::new("sh").args(["-c", script, PROBE]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stdout.ends_with("\nlast\n"), "{stdout}");
    assert!(stderr.contains("line 2: the line is not UTF-8"), "{stderr}");
}

/// Before, each line of an open quote was read again with all before it.
#[test]
fn long_statement_is_read_once() {
    let script = format!("call echo 'text={}'\n", "x\n".repeat(20_000));
    let output = shell(&[], &[], &script).assert_ok();
    assert!(output.elapsed < core::time::Duration::from_secs(20), "{:?}", output.elapsed);
}

/// A server may ping, and give up without an answer.
#[cfg(unix)]
#[test]
fn server_is_answered_while_the_script_is_quiet() {
    use crate::shell_server::ShellServer;
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    let server = ShellServer::legacy()
        .on_line("*notifications/initialized*", r#"printf '{"jsonrpc":"2.0","id":"own","method":"ping"}\n'"#)
        .on_line("*'\"own\"'*", "echo answered >&2");
    let mut child = crate::support::probe_command()
        .args(["shell", "--stderr", "show", "--", "sh", "-c", &server.script()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let (sender, shown) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut text, mut chunk) = (String::new(), [0; 256]);
        while let Ok(n @ 1..) = stderr.read(&mut chunk) {
            text += &String::from_utf8_lossy(&chunk[..n]);
            if text.contains("answered") {
                let _ = sender.send(());
            }
        }
    });
    let answered = shown.recv_timeout(core::time::Duration::from_secs(20));
    let _ = stdin.write_all(b"quit\n");
    let code = child.wait().unwrap().code();
    assert_eq!((answered, code), (Ok(()), Some(0)));
}
