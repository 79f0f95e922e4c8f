//! Servers and clients that a user starts in a terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::connect::User;
use crate::protected_server::{Behaviour, ProtectedServer, browser_command, get};
use crate::support::{PROBE, probe_command, quoted, run};

/// Opens a terminal. Returns the side of the user and the side of the program.
pub(crate) fn open_terminal() -> (File, File) {
    // No program holds the side of the user.
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let path = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    (File::from(controller), File::options().read(true).write(true).open(path).unwrap())
}

/// Runs `mcp-probe call sign` with stdin and stderr on a terminal, and types these lines. Returns the exit code, stdout
/// and what the terminal has shown.
fn call_on_terminal(args: &[&str], typed: &str) -> (Option<i32>, String, String) {
    run_on_terminal(&[&["call", "sign"], args].concat(), &[], typed)
}

/// Runs `mcp-probe ARGS` in the same way.
pub(crate) fn run_on_terminal(
    args: &[&str],
    environment: &[(&str, &str)],
    typed: &str,
) -> (Option<i32>, String, String) {
    let (mut user, program) = open_terminal();
    let mut client = probe_command()
        .args(args)
        .envs(environment.iter().copied())
        .stdin(program.try_clone().unwrap())
        .stderr(program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The terminal keeps the lines until they are read.
    user.write_all(typed.as_bytes()).unwrap();
    let mut stdout = String::new();
    client.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let code = client.wait().unwrap().code();
    // After the end of the program, reading fails as soon as nothing is left.
    let mut shown = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = user.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..n]);
    }
    (code, stdout, String::from_utf8_lossy(&shown).into_owned())
}

// covers: ELIC-017, ELIC-020
#[test]
fn form_filled_in_wrongly_is_asked_again_a_bounded_number_of_times() {
    let long = "x".repeat(41);
    for era in ["modern", "legacy"] {
        let server = ["--era", era, "--", PROBE, "serve", "--everything"];
        let (code, stdout, shown) = call_on_terminal(&server, &format!("\n{long}\nAda\ny\n"));
        assert_eq!((code, stdout.as_str()), (Some(0), "Hello, Ada!\n"), "{shown}");
        for wanted in [
            "`name` must be filled in (attempt 1 of 5)",
            "`name` must have 40 characters or fewer (attempt 2 of 5)",
        ] {
            assert!(shown.contains(wanted), "no {wanted:?}: {shown}");
        }
        let (code, stdout, shown) = call_on_terminal(&server, &"\n".repeat(5));
        assert_eq!((code, stdout.contains("Hello")), (Some(5), false), "{shown}");
        assert!(shown.contains("wrongly 5 times: `name` must be filled in"), "{shown}");
        assert!(shown.contains("the server requests input") && !shown.contains("attempt 6"), "{shown}");
    }
}

// covers: SEC-019
#[test]
fn configured_server_is_shown_by_its_name_not_by_its_secrets() {
    let directory = TemporaryDirectory::new();
    let file = directory.path().join("mcp.json");
    let entry = json!({"command": PROBE, "args": ["serve", "--everything", "--trace", "--hide", "hunter2"]});
    std::fs::write(&file, json!({"mcpServers": {"guests": entry}}).to_string()).unwrap();
    let config = ["--config", file.to_str().unwrap(), "--stderr", "null"];
    let (code, _, shown) = call_on_terminal(&config, "Ada\ny\n");
    assert!(code == Some(0) && shown.contains("? guests asks you") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn command_on_terminal_lets_the_user_log_in_by_itself() {
    let (directory, server) = (TemporaryDirectory::new(), ProtectedServer::new(Behaviour::default()));
    let (store, opened) = (directory.path().join("tokens.json"), directory.path().join("opened"));
    let browser = browser_command(&opened);
    let visited = server.clone();
    let visitor = thread::spawn(move || assert_eq!(get(&visited.follow(&opened)).0, 200));
    let environment = [("MCP_TOKEN_STORE", store.to_str().unwrap()), ("BROWSER", &*browser)];
    let (code, stdout, shown) = run_on_terminal(&["call", "greet", &server.url], &environment, "");
    assert_eq!((code, &*stdout), (Some(0), "hello\n"), "{shown}");
    visitor.join().unwrap();
    assert!(shown.contains("/authorize?") && !shown.contains("s3cret"), "{shown}");
    let done = run(&["call", "greet", &server.url], &environment).assert_ok();
    assert_eq!((&*done.stdout, server.token_forms().len()), ("hello\n", 1));
}

#[test]
fn kept_connection_logs_in_on_its_terminal_and_outlives_it() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let (store, opened) = (user.folder.join("tokens.json"), user.folder.join("opened"));
    let browser = browser_command(&opened);
    let visited = server.clone();
    let visitor = thread::spawn(move || assert_eq!(get(&visited.follow(&opened)).0, 200));
    let stored = [("MCP_TOKEN_STORE", store.to_str().unwrap()), ("BROWSER", &*browser)];
    let environment = [&user.environment()[..], &stored].concat();
    let (mut near, far) = open_terminal();
    for width in [80, 200] {
        tcsetwinsize(&far, Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        // The shell has the terminal for its own, and gets SIGHUP when that is closed, even if the tests run under `nohup`.
        let connect = format!("{} connect greeter {}", quoted(PROBE), quoted(&server.url));
        let script = format!("{connect} && echo done && exec sleep 1000");
        let mut shell = std::process::Command::new("setsid");
        shell
            .args(["--ctty", "env", "--default-signal=HUP", "sh", "-c", &script])
            .envs(environment.iter().copied());
        let [input, output, errors] = [(); 3].map(|()| far.try_clone().unwrap());
        let mut shell = shell.stdin(input).stdout(output).stderr(errors).spawn().expect("util-linux");
        let mut shown = String::new();
        let mut lines = BufReader::new(&mut near);
        while !shown.ends_with("done\r\n") {
            assert!(lines.read_line(&mut shown).expect("the terminal") > 0, "{shown}");
        }
        let is_new = width == 80;
        let how = if is_new { "connected to" } else { "is connected to" };
        assert!(shown.contains(&format!("@greeter {how} {}", server.url)), "{shown}");
        assert_eq!(shown.contains("/authorize?"), is_new, "{shown}");
        assert!(shown.lines().all(|line| !line.contains("s3cret")), "{shown}");
        if width == 200 {
            let listed = user.run(&["connect", "--list"]).assert_ok();
            assert!(listed.stdout.lines().all(|line| line.chars().count() <= 80), "{listed}");
            // The terminal is closed.
            drop((near, far));
            assert!(!shell.wait().unwrap().success());
            break;
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
    visitor.join().unwrap();
    user.run(&["call", "@greeter", "greet"]).assert_ok().assert_stdout(&["hello"]);
    assert_eq!(server.token_forms().len(), 1);
}

#[test]
fn server_on_terminal_prints_a_usage_hint() {
    for runtime in ["blocking", "threads", "smol"] {
        let (mut typed, terminal) = open_terminal();
        let mut server = probe_command()
            .args(["serve", "--runtime", runtime])
            .stdin(terminal)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(server.stderr.take().unwrap());
        let mut hint = String::new();
        stderr.read_line(&mut hint).unwrap();
        for words in ["mcp-probe serve", "from stdin", "JSON-RPC", "Ctrl-D", "--help"] {
            assert!(hint.contains(words), "{hint}");
        }
        // It still serves, line by line.
        let mut output = BufReader::new(server.stdout.take().unwrap());
        for id in 1..3 {
            let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            typed.write_all(format!("{ping}\n").as_bytes()).unwrap();
            let mut answer = String::new();
            output.read_line(&mut answer).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["id"], id);
        }
        // Ctrl-D.
        typed.write_all(b"\x04").unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(server.wait().unwrap().success());
    }
}

/// Runs `mcp-probe ARGS` with all that it has on a terminal of so many columns. Returns the exit code and what is shown.
pub(crate) fn show_on_terminal(args: &[&str], columns: u16) -> (Option<i32>, String) {
    let (mut user, program) = open_terminal();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size).unwrap();
    let mut tool = probe_command()
        .args(args)
        .env("TERM", "xterm-256color")
        .env_remove("COLUMNS")
        .stdin(program.try_clone().unwrap())
        .stderr(program.try_clone().unwrap())
        .stdout(program)
        .spawn()
        .unwrap();
    // Read meanwhile: a terminal has no room for all of it.
    let reader = thread::spawn(move || {
        let (mut shown, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = user.read(&mut chunk) {
            shown.extend_from_slice(&chunk[..n]);
        }
        shown
    });
    let code = tool.wait().unwrap().code();
    drop(tool);
    (code, String::from_utf8_lossy(&reader.join().unwrap()).into_owned())
}

/// Returns a text without the escapes that set colours; any other escape is a failure.
pub(crate) fn without_colours(shown: &str) -> String {
    let mut plain = String::new();
    let mut parts = shown.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let parameters = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        let Some((colour, rest)) = parameters else { panic!("an escape that sets no colour: {shown:?}") };
        assert!(colour.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{shown:?}");
        plain.push_str(rest);
    }
    plain.replace('\r', "")
}

/// A session of recording, looking, playing again and asking why, at two widths. What a server says moves no cursor.
#[test]
fn sessions_of_tap_trace_replay_and_doctor_fit_a_terminal() {
    let directory = TemporaryDirectory::new();
    let trace = directory.path().join("t.ndjson");
    let trace = trace.to_str().unwrap();
    // Escapes, direction marks and a bell, from both sides.
    let hostile = "text=\u{1b}]0;title\u{7}\u{202e}abc\u{1b}[2J";
    let tap = ["call", "echo", hostile, "--", PROBE, "tap", "--out", trace, "--", PROBE, "serve"];
    let (code, shown) = show_on_terminal(&tap, 80);
    assert_eq!(code, Some(0), "{shown}");
    without_colours(&shown);
    for columns in [80, 200] {
        let (code, shown) = show_on_terminal(&["trace", "show", trace], columns);
        let plain = without_colours(&shown);
        assert_eq!(code, Some(0), "{shown}");
        assert!(plain.contains("tools/call echo") && !plain.contains('\u{202e}'), "{plain}");
        let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        // As wide as there is room for, and no wider.
        assert!(
            widest <= usize::from(columns) && widest > usize::from(columns) - 20,
            "{columns}: {widest}\n{plain}"
        );

        for (args, wanted) in [
            (&["trace", "show", "--full", trace][..], "tools/call"),
            (&["replay", trace], "as recorded"),
            (&["trace", "diff", trace, trace], ""),
            (&["doctor", "--", PROBE, "serve"], "4 tools"),
        ] {
            let (code, shown) = show_on_terminal(args, columns);
            let plain = without_colours(&shown);
            assert!(
                code == Some(0) && plain.contains(wanted) && !plain.contains('\u{202e}'),
                "{args:?}: {plain}"
            );
        }
        let (code, shown) = show_on_terminal(&["doctor", "--", "sh", "-c", "echo hello; exit 3"], columns);
        let plain = without_colours(&shown);
        let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(code == Some(3) && plain.contains("why") && plain.contains("fix") && widest <= 80, "{plain}");
    }
}

/// A session of search, of a check with profiles, of generated code and of what belongs to an installation.
#[test]
fn sessions_of_search_profiles_generate_and_installation_fit_a_terminal() {
    // A server whose lists move the cursor where they are shown unescaped.
    let hostile = json!({"tools": [{"name": "shout", "description": "Loud \u{1b}[2J\u{202e}text\u{7}",
        "inputSchema": {"type": "object"}, "answers": [{"text": "\u{1b}]0;title\u{7}hi"}]}]});
    let directory = TemporaryDirectory::new();
    let file = directory.path().join("mock.json");
    std::fs::write(&file, hostile.to_string()).unwrap();
    let server = [PROBE, "serve", "--mock", file.to_str().unwrap()];
    let behind = |args: &[&'static str]| [args, &["--"], &server].concat();
    for columns in [80, 200] {
        for (args, code, wanted) in [
            (
                &[
                    "call",
                    "search",
                    "query=loud",
                    "--stderr",
                    "inherit",
                    "--",
                    PROBE,
                    "bridge",
                    "--search",
                    "--",
                ][..],
                0,
                &["tokens"][..],
            ),
            (&["inspect", "--", PROBE, "bridge", "--search", "--"], 0, &["search", "call"]),
            (&["check", "--profile", "spec", "--"], 0, &["0 errors"]),
            (
                &["check", "--profile", "owasp", "--"],
                0,
                &["OWASP MCP Top 10 (a beta)", "MCP03 Tool Poisoning: 1"],
            ),
            (&["generate", "rust", "--"], 0, &["pub fn shout"]),
            (&["call", "shout", "--"], 0, &["hi"]),
        ] {
            let args = [args, &server].concat();
            let (exit, shown) = show_on_terminal(&args, columns);
            let plain = without_colours(&shown);
            let is_there = wanted.iter().all(|part| plain.contains(part));
            assert!(
                exit == Some(code) && is_there && !plain.contains(['\u{202e}', '\u{7}']),
                "{args:?}: {plain}"
            );
        }
        // Code is formatted, and reports are for people.
        let (_, shown) = show_on_terminal(&behind(&["generate", "rust"]), columns);
        assert!(without_colours(&shown).lines().all(|line| line.chars().count() <= 100), "{shown}");
        for args in [&["completions", "bash"][..], &["help"], &["help", "check"], &["schema"]] {
            let (exit, shown) = show_on_terminal(args, columns);
            let plain = without_colours(&shown);
            assert!(exit == Some(0) && plain.len() > 500, "{args:?}: {plain}");
            let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(args[0] != "help" || widest <= usize::from(columns), "{args:?}: {widest}: {plain}");
        }
    }
}
