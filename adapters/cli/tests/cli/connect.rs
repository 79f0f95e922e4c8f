//! Connections that stay: `connect`, and `@NAME` in other commands.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, probe_command, run};

/// A user without connections. Their background process ends with this.
pub(crate) struct User {
    /// Short, because the path of a socket is.
    pub(crate) folder: PathBuf,
}

impl User {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mcp-c{}-{n}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        Self { folder }
    }

    pub(crate) fn environment(&self) -> [(&str, &str); 1] {
        [("XDG_RUNTIME_DIR", self.folder.to_str().expect("UTF-8"))]
    }

    pub(crate) fn run(&self, args: &[&str]) -> ProbeOutput {
        run(args, &self.environment())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = probe_command();
        command.args(args).envs(self.environment());
        command
    }

    /// Connects to `mcp-probe serve ARGS`.
    pub(crate) fn connect(&self, name: &str, options: &[&str], serve: &[&str]) -> ProbeOutput {
        self.run(&[&["connect", name], options, &["--", PROBE, "serve"], serve].concat())
    }

    fn sockets(&self) -> PathBuf {
        self.folder.join("mcp-probe")
    }

    fn connections(&self) -> Value {
        self.run(&["connect", "--list", "--json"]).assert_ok().json()
    }

    /// Returns the id of the background process.
    fn process(&self) -> Option<u32> {
        self.connections()["process"].as_u64().map(|id| id.try_into().expect("an id"))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            self.run(&["connect", "--end-all"]);
            if !thread::panicking() {
                assert!(has_ended(process), "the background process stays");
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until a process has ended.
fn has_ended(id: u32) -> bool {
    within(|| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
    })
}

fn within(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Returns the servers of a background process: its children but the one that ends them if it is killed.
fn servers(id: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |child: &u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let is_guard = |child: &u32| {
        let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("mcp-std guard")
    };
    ids.filter(|child| parent(child) == Some(id) && !is_guard(child)).collect()
}

fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id.try_into().expect("an id")).expect("an id"), signal).expect("it runs");
}

/// A server that does not end with its input.
const STAYING: &str = r#""$0" serve; exec sleep 1000"#;

#[test]
fn commands_share_the_session_of_a_connection() {
    let user = User::new();
    for era in ["legacy", "modern"] {
        user.connect(era, &[], &["--everything", "--era", era])
            .assert_ok()
            .assert_stdout(&["connected to", era]);
        let at = format!("@{era}");
        user.run(&["call", &at, "write_note", "title=kept", "text=still here"]).assert_ok();
        // Before and after the words of the command.
        user.run(&["read", "note://kept", &at]).assert_ok().assert_stdout(&["still here"]);
        let shown = user.run(&["inspect", &at, "--json"]).assert_ok().assert_stdout(&["note://kept"]).json();
        // It is the server behind that is described.
        let revision = if era == "legacy" { "2025-11-25" } else { "2026-07-28" };
        assert_eq!((&shown["era"], &shown["revision"]), (&json!(era), &json!(revision)));
        let timed = user.run(&["ping", &at, "-n", "1", "--json"]).assert_ok().json();
        assert_eq!((&timed["era"], &timed["revision"]), (&json!(era), &json!(revision)));
        let words = format!("{era} era, revision {revision}");
        user.run(&["doctor", &at]).assert_ok().assert_stdout(&[&words]);
        user.run(&["bench", "echo", "text=x", "--for", "200ms", "--warm-up", "0", &at]).assert_ok();
        user.run(&["check", &at])
            .assert_ok()
            .assert_stdout(&[revision])
            .assert_stderr(&["in connections of its own", &at]);
        // Tools that may run as tasks, and one that has to.
        user.run(&["call", &at, "slow_compute", "seconds=1", "label=keel"])
            .assert_ok()
            .assert_stdout(&["computed keel for 1 s"]);
        user.run(&["call", &at, "failing_job"]).assert_code(1).assert_stdout(&["this job always fails"]);
        // What a command asks of its user, the server asks through the connection.
        user.run(&["call", "sign", "--answer", r#"elicit={"name":"Ada"}"#, &at])
            .assert_ok()
            .assert_stdout(&["Hello, Ada!"]);
    }
    let listed = user.connections();
    let names: Vec<_> = listed["connections"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["legacy", "modern"]);
    let process = user.process().expect("it runs");
    assert_eq!(servers(process).len(), 2, "a server each, in one process");
    user.run(&["connect", "--list"]).assert_ok().assert_stdout(&[
        "@legacy",
        "@modern",
        "ends after 1800 s without use",
    ]);
    user.run(&["connect", "--end", "legacy"]).assert_ok().assert_stdout(&["@legacy has ended"]);
    assert_eq!(servers(process).len(), 1);
    user.run(&["call", "@legacy", "echo", "text=x"])
        .assert_code(2)
        .assert_stderr(&["there is no connection @legacy", "there are: @modern"]);
    user.run(&["connect", "--end", "modern", "nowhere"])
        .assert_code(2)
        .assert_stdout(&["@modern has ended"])
        .assert_stderr(&["no connection @nowhere"]);
    assert!(has_ended(process), "nothing is left to keep");
    user.run(&["connect", "--list"]).assert_ok().assert_stdout(&["there are no connections"]);
    user.run(&["connect", "--end-all"]).assert_ok();
}

#[test]
fn shells_that_connect_at_once_get_one_process_and_one_server_of_a_name() {
    let user = User::new();
    let begun: Vec<_> = (0..12)
        .map(|n| {
            let name = format!("n{}", n % 3);
            let mut command = user.command(&["connect", &name, "--json", "--", PROBE, "serve"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    let mut new = 0;
    for command in begun {
        let output = command.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        new += u32::from(summary["isNew"] == true);
    }
    assert_eq!((new, servers(user.process().expect("it runs")).len()), (3, 3));
    let again = user.connect("n0", &["--json"], &[]).assert_ok().json();
    assert_eq!(
        (&again["isNew"], &again["name"], &again["idle"]),
        (&json!(false), &json!("n0"), &json!(1800))
    );
    user.connect("n0", &[], &["--everything"])
        .assert_code(2)
        .assert_stderr(&["@n0 is a connection to another"]);
    user.connect("n0", &["--idle-timeout", "5m"], &[])
        .assert_code(2)
        .assert_stderr(&["or with other options"]);
}

#[test]
fn connection_ends_when_it_is_not_used_and_not_before() {
    let user = User::new();
    user.connect("brief", &["--idle-timeout", "3s"], &[]).assert_ok();
    let process = user.process().expect("it runs");
    let [server] = *servers(process) else { panic!("one server") };
    // A command that is connected for longer than that.
    let output = user.run(&["call", "@brief", "count", "to=40", "delay_ms=100"]).assert_ok();
    assert!(output.elapsed > Duration::from_millis(3_900), "{output}");
    user.run(&["call", "@brief", "echo", "text=soon after"]).assert_ok();
    assert!(has_ended(server) && has_ended(process));
    user.run(&["call", "@brief", "echo", "text=x"])
        .assert_code(2)
        .assert_stderr(&["`mcp-probe connect brief"]);
}

#[test]
fn process_that_was_killed_leaves_no_server_and_is_replaced() {
    let user = User::new();
    user.run(&["connect", "lab", "--", "sh", "-c", STAYING, PROBE]).assert_ok();
    let process = user.process().expect("it runs");
    let [server] = *servers(process) else { panic!("one server") };
    signal(process, Signal::KILL);
    assert!(has_ended(process) && has_ended(server));
    assert!(user.sockets().join("lab.sock").exists(), "nobody removed it");
    user.run(&["call", "@lab", "echo", "text=x"]).assert_code(2).assert_stderr(&["no connection @lab"]);
    user.run(&["connect", "--list"]).assert_ok().assert_stdout(&["there are no connections"]);
    user.connect("other", &[], &[]).assert_ok();
    user.run(&["call", "@other", "echo", "text=again"]).assert_ok().assert_stdout(&["again"]);
    assert!(!user.sockets().join("lab.sock").exists(), "of a process that is gone");
}

#[test]
fn signal_ends_all_servers_even_those_that_stay() {
    let user = User::new();
    user.run(&["connect", "stays", "--", "sh", "-c", STAYING, PROBE]).assert_ok();
    user.connect("lab", &[], &[]).assert_ok();
    let process = user.process().expect("it runs");
    let both = servers(process);
    assert_eq!(both.len(), 2);
    // One is ended without the other.
    user.run(&["connect", "--end", "stays"]).assert_ok();
    user.run(&["call", "@lab", "echo", "text=goes on"]).assert_ok();
    user.run(&["connect", "stays", "--", "sh", "-c", STAYING, PROBE]).assert_ok();
    let all = [both, servers(process)].concat();
    signal(process, Signal::TERM);
    assert!(has_ended(process));
    for server in all {
        assert!(has_ended(server), "{server}");
    }
    assert_eq!(fs::read_dir(user.sockets()).unwrap().count(), 1, "the lock alone stays");
}

#[test]
fn server_that_dies_is_started_again() {
    let user = User::new();
    user.connect("lab", &[], &[]).assert_ok();
    let [server] = *servers(user.process().expect("it runs")) else { panic!("one server") };
    signal(server, Signal::KILL);
    assert!(within(|| user.run(&["call", "@lab", "echo", "text=back"]).stdout.contains("back")));
}

#[test]
fn server_gets_the_environment_and_the_folder_of_its_command() {
    let user = User::new();
    user.connect("first", &[], &[]).assert_ok();
    // The process began elsewhere, and without these variables.
    let folder = user.folder.join("work");
    fs::create_dir(&folder).unwrap();
    // A shell says where it is without links.
    let folder = folder.canonicalize().unwrap();
    fs::write(
        folder.join("serve.sh"),
        "#!/bin/sh\necho \"$PWD|$COLOUR|$PATH|$OTHER\" > told\nexec \"$1\" serve\n",
    )
    .unwrap();
    fs::set_permissions(folder.join("serve.sh"), fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let mut command = user.command(&["connect", "second", "--env", "COLOUR", "--", "./serve.sh", PROBE]);
    command.current_dir(&folder).env("COLOUR", "red").env("OTHER", "x").env("PATH", &path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = fs::read_to_string(folder.join("told")).unwrap();
    assert_eq!(told.trim(), format!("{}|red|{path}|", folder.display()));
    assert_eq!(user.connections()["connections"].as_array().unwrap().len(), 2);
}

#[test]
fn failure_of_the_server_is_that_of_the_command() {
    let user = User::new();
    user.run(&["connect", "bad", "--", "sh", "-c", "echo no database >&2; exit 3"])
        .assert_code(3)
        .assert_stderr(&["is not an MCP server", "exit status: 3", "no database"]);
    user.run(&["connect", "bad", "--json", "--", "/nowhere/server"])
        .assert_code(3)
        .assert_stdout(&[r#""kind":"connection""#]);
    user.run(&["connect", "bad", "--bearer", "env:NOT_SET_AT_ALL", "http://127.0.0.1:1/mcp"])
        .assert_code(2)
        .assert_stderr(&["NOT_SET_AT_ALL: it is not set"]);
    user.run(&["connect", "bad", "--scope", "x", "--", PROBE, "serve"])
        .assert_code(2)
        .assert_stderr(&["--scope needs a server over HTTP"]);
    user.run(&["connect", "../up", "--", PROBE, "serve"]).assert_code(2).assert_stderr(&["must be a name"]);
    user.run(&["connect", "bad", "@bad"]).assert_code(2).assert_stderr(&["no connection @bad"]);
    assert_eq!(user.connections()["connections"], json!([]));
}

/// Sends one line to a control socket, and returns the answer.
fn ask(control: &Path, line: &str) -> String {
    let mut stream = BufReader::new(UnixStream::connect(control).expect("it listens"));
    writeln!(stream.get_mut(), "{line}").expect("it reads");
    let mut answer = String::new();
    stream.read_line(&mut answer).expect("it answers");
    answer
}

#[test]
fn process_of_another_version_is_told_apart() {
    let user = User::new();
    user.connect("lab", &[], &[]).assert_ok();
    let control = user.sockets().join(".control");
    let answer = ask(&control, r#"{"connect":{"version":"0.0.7","wanted":"whatever"}}"#);
    assert!(answer.contains("this program of 0.0.7") && answer.contains("connect --end-all"), "{answer}");
    for foreign in ["{}", "not JSON", r#"{"list":3}"#, "[[[[[[[["] {
        assert!(ask(&control, foreign).contains("cannot be read"), "{foreign}");
    }
    // Silent, endless and vanishing clients cost it nothing.
    let silent = UnixStream::connect(&control).unwrap();
    let mut endless = UnixStream::connect(&control).unwrap();
    endless.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    while endless.write_all(&[b'x'; 1 << 16]).is_ok() {}
    drop(UnixStream::connect(&control).unwrap());
    user.run(&["call", "@lab", "echo", "text=there"]).assert_ok();
    assert_eq!(user.connections()["version"], env!("CARGO_PKG_VERSION"));
    drop(silent);
    user.run(&["connect", "--end-all"]).assert_ok();

    // An answer that no version of this program gives.
    assert!(within(|| !control.exists()));
    let listener = UnixListener::bind(&control).unwrap();
    let foreign = thread::spawn(move || {
        for answer in ["{\"strange\":1}\n", "nonsense\n", "{\"list"] {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            stream.read_line(&mut String::new()).unwrap();
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    for _ in 0..3 {
        user.run(&["connect", "lab", "--", PROBE, "serve"])
            .assert_code(1)
            .assert_stderr(&["the background process is of another version"]);
    }
    foreign.join().unwrap();
    fs::remove_file(control).unwrap();
}

#[test]
fn folder_that_others_can_use_is_refused() {
    let user = User::new();
    let sockets = user.sockets();
    fs::create_dir(&sockets).unwrap();
    for mode in [0o755, 0o770, 0o707] {
        fs::set_permissions(&sockets, fs::Permissions::from_mode(mode)).unwrap();
        user.connect("lab", &[], &[]).assert_code(1).assert_stderr(&["others can use it", "chmod 700"]);
    }
    fs::remove_dir(&sockets).unwrap();
    let elsewhere = user.folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, &sockets).unwrap();
    user.connect("lab", &[], &[]).assert_code(1).assert_stderr(&["it is no folder"]);
    fs::remove_file(&sockets).unwrap();
}

#[test]
fn flood_on_the_stderr_of_a_server_stops_nothing() {
    let user = User::new();
    let flood = r#"head -c 100000000 /dev/zero | tr '\0' x >&2; exec "$0" serve"#;
    user.run(&["connect", "loud", "--", "sh", "-c", flood, PROBE]).assert_ok();
    user.run(&["call", "@loud", "echo", "text=heard"]).assert_ok().assert_stdout(&["heard"]);
    let status = fs::read_to_string(format!("/proc/{}/status", user.process().unwrap())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < 60_000, "{peak} KB");
}

#[test]
fn connection_that_is_ending_is_made_anew() {
    let user = User::new();
    // It ends two seconds after it is asked to.
    let slow = r#"trap '' TERM; "$0" serve; exec sleep 1000"#;
    let connect = |idle| {
        user.run(&["connect", "slow", "--idle-timeout", idle, "--", "sh", "-c", slow, PROBE]).assert_ok()
    };
    connect("300ms");
    let first = user.process().map(servers).unwrap_or_default();
    assert!(within(|| user.connections()["connections"] == json!([])), "it ends without use");
    let again = connect("20s").assert_stdout(&["@slow connected to"]);
    user.run(&["call", "@slow", "echo", "text=new"]).assert_ok().assert_stdout(&["new"]);
    assert!(first.into_iter().all(has_ended), "{again}");
}

#[test]
fn interrupted_command_leaves_the_connection_to_another_that_asked_for_it() {
    let user = User::new();
    let connect = ["connect", "late", "--", "sh", "-c", r#"sleep 2; exec "$0" serve"#, PROBE];
    let mut first = user.command(&connect).stdout(Stdio::null()).spawn().unwrap();
    assert!(within(|| user.sockets().join("late.sock").exists()));
    let second = user.command(&connect).stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait_with_output().unwrap().status.success());
    user.run(&["call", "@late", "echo", "text=mine"]).assert_ok().assert_stdout(&["mine"]);

    // Nobody else asked for this one.
    let connect = ["connect", "alone", "--", "sh", "-c", r#"sleep 1; exec "$0" serve"#, PROBE];
    let mut only = user.command(&connect).stdout(Stdio::null()).spawn().unwrap();
    assert!(within(|| user.sockets().join("alone.sock").exists()));
    only.kill().unwrap();
    only.wait().unwrap();
    assert!(within(|| !user.sockets().join("alone.sock").exists()), "it ends by itself");
    assert_eq!(user.connections()["connections"].as_array().unwrap().len(), 1);
}

#[test]
fn background_process_holds_nothing_of_its_first_shell() {
    let user = User::new();
    // The pipe ends with the last process that holds it.
    let script = r#""$0" connect lab --idle-timeout 20s -- "$0" serve 3>&1 9>&1 | cat"#;
    let begun = Instant::now();
    let output = Command::new("sh").args(["-c", script, PROBE]).envs(user.environment()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("@lab connected to"), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(18), "{:?}", begun.elapsed());
    user.run(&["call", "@lab", "echo", "text=there"]).assert_ok();
}

#[test]
fn process_whose_folder_was_removed_leaves_the_next_one_alone() {
    let user = User::new();
    user.connect("old", &["--idle-timeout", "5s"], &[]).assert_ok();
    let old = user.process().expect("it runs");
    fs::remove_dir_all(user.sockets()).unwrap();
    user.connect("new", &[], &[]).assert_ok();
    assert!(has_ended(old));
    user.run(&["call", "@new", "echo", "text=here"]).assert_ok();
    assert_eq!(user.connections()["connections"][0]["name"], "new");
}

#[test]
fn process_that_is_stopped_is_named() {
    let user = User::new();
    user.connect("lab", &[], &[]).assert_ok();
    let process = user.process().expect("it runs");
    signal(process, Signal::STOP);
    user.run(&["connect", "--list"])
        .assert_code(4)
        .assert_stderr(&["gave no answer", &format!("it is process {process}")]);
    user.run(&["call", "@lab", "echo", "text=x", "--connect-timeout", "1s"])
        .assert_code(3)
        .assert_stderr(&["@lab"]);
    signal(process, Signal::CONT);
    user.run(&["call", "@lab", "echo", "text=goes on"]).assert_ok();
}

#[test]
fn process_that_is_ended_while_a_command_waits_is_not_replaced() {
    let user = User::new();
    user.connect("lab", &[], &[]).assert_ok();
    let process = user.process().expect("it runs");
    let waits =
        user.command(&["connect", "never", "--", "sleep", "1000"]).stderr(Stdio::piped()).spawn().unwrap();
    assert!(within(|| user.sockets().join("never.sock").exists()));
    thread::sleep(Duration::from_millis(1_500));
    signal(process, Signal::TERM);
    let output = waits.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(0) && !stderr.is_empty(), "{stderr}");
    assert!(has_ended(process));
    assert_eq!(user.process(), None, "{stderr}");
}

#[test]
fn folder_with_a_long_path_is_named() {
    let user = User::new();
    let deep = user.folder.join("d".repeat(90));
    fs::create_dir(&deep).unwrap();
    let environment = [("XDG_RUNTIME_DIR", deep.to_str().unwrap())];
    for args in [&["connect", "lab", "--", PROBE, "serve"][..], &["ping", "@lab"]] {
        run(args, &environment).assert_code(2).assert_stderr(&["set XDG_RUNTIME_DIR to a shorter one"]);
    }
}
