//! The remembered era of servers on stdio.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::shell_server::{ShellServer, error_code_action, method_pattern, result_action, welcome};
use crate::support::{PROBE, ProbeOutput, probe, quoted, run};

/// A server script that can be replaced, and a cache folder of its own.
struct Fixture {
    directory: TemporaryDirectory,
    cache: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let directory = TemporaryDirectory::new();
        let cache = directory.path().join("cache");
        Self { directory, cache }
    }

    fn script(&self) -> String {
        self.directory.path().join("server.sh").to_str().expect("UTF-8").to_owned()
    }

    fn file(&self) -> PathBuf {
        self.cache.join("mcp-probe").join("eras.json")
    }

    /// Replaces the server by a script that reads lines to `$l` and their ids to `$id`, and has these cases.
    fn serve_cases(&self, cases: &[(&str, &Value)]) {
        let cases: String = cases
            .iter()
            .map(|(method, result)| format!("{}) {};;\n", method_pattern(method), result_action(result)))
            .collect();
        let script = format!(
            "while IFS= read -r l; do id=${{l#*'\"id\":'}}; id=${{id%%,*}}; id=${{id%%'}}'*}}\n\
             case $l in *server/discover*) echo probe >> \"$0.log\";; *'\"initialize\"'*) echo initialize >> \"$0.log\";; esac\n\
             case $l in\n{cases}esac\ndone\n"
        );
        fs::write(self.script(), script).expect("a file");
    }

    /// Replaces the server by a legacy one that ignores unknown methods.
    fn serve_legacy(&self, version: &str) {
        let mut initialized = welcome("2025-11-25", &json!({}));
        initialized["serverInfo"]["version"] = version.into();
        self.serve_cases(&[("initialize", &initialized), ("ping", &json!({}))]);
    }

    /// Lets the server end when it is asked for modern revisions.
    fn end_at_probe(&self) {
        let script = fs::read_to_string(self.script()).expect("a script");
        fs::write(
            self.script(),
            script.replace("echo probe >> \"$0.log\"", "echo probe >> \"$0.log\"; exit 1"),
        )
        .expect("a file");
    }

    /// Replaces the server by one of this program.
    fn serve_own(&self, args: &str) {
        fs::write(self.script(), format!("exec {} serve {args}\n", quoted(PROBE))).expect("a file");
    }

    fn probe(&self, args: &[&str]) -> ProbeOutput {
        let script = self.script();
        let cache = self.cache.to_str().expect("UTF-8");
        let wait = ["--connect-timeout", "4s", "--", "sh", &script];
        run(&[args, &wait].concat(), &[("XDG_CACHE_HOME", cache)])
    }

    /// Connects once, and returns the first requests that the script has got.
    fn requests_of(&self, args: &[&str]) -> String {
        let done = self.probe(&[&["ping", "-n", "1"], args].concat()).assert_ok();
        let is_about_era = |line: &str| line.starts_with("note: this ") && line.contains("legacy");
        assert!(done.stderr.lines().all(is_about_era), "{done}");
        self.take_log()
    }

    fn take_log(&self) -> String {
        let log = format!("{}.log", self.script());
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        text.lines().collect::<Vec<_>>().join(" ")
    }
}

// covers: VER-023, VER-027
#[test]
fn server_that_ignores_the_probe_is_probed_once() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    for runtime in ["blocking", "threads", "smol"] {
        assert_eq!(fixture.requests_of(&["--runtime", runtime]), "initialize");
    }
    assert_eq!(fixture.requests_of(&["--no-cache"]), "probe initialize");
    // Another command is another server.
    assert_eq!(fixture.requests_of(&["--env", "A=b"]), "probe initialize");
    assert_eq!(fixture.requests_of(&["--env", "A=c"]), "initialize");
    let text = fs::read_to_string(fixture.file()).expect("a cache");
    assert!(!text.contains("server.sh") && !text.contains("fixture"), "not only hashes: {text}");
    // No other files are left.
    assert_eq!(fs::read_dir(fixture.file().parent().expect("a folder")).expect("a folder").count(), 1);
}

#[test]
fn no_cache_and_answering_servers_leave_no_file() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&["--no-cache"]), "probe initialize");
    assert_eq!(fixture.requests_of(&["--era", "legacy"]), "initialize");
    fixture.serve_own("--era legacy");
    fixture.requests_of(&[]);
    fixture.serve_own("");
    fixture.requests_of(&[]);
    assert!(!fixture.cache.exists());
}

#[test]
fn what_is_found_is_remembered_for_doctor_too_and_told() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    let found = fixture.probe(&["doctor"]).assert_ok();
    found.assert_stderr(&["for 7 days it is not asked again"]);
    // What doctor asks first is `initialize`.
    assert_eq!(fixture.take_log(), "initialize probe initialize");
    let known = fixture.probe(&["doctor"]).assert_ok();
    known.assert_stderr(&["was found to be a legacy one, and is not asked again (--no-cache asks)"]);
    assert_eq!(fixture.take_log(), "initialize initialize");
    fixture.probe(&["doctor", "--no-cache"]).assert_ok();
    assert_eq!(fixture.take_log(), "initialize probe initialize");
    // One that ends at the question costs a second start.
    fs::remove_file(fixture.file()).expect("a cache");
    fixture.end_at_probe();
    for (runtime, want) in [("blocking", "probe initialize"), ("smol", "initialize")] {
        assert_eq!(fixture.requests_of(&["--runtime", runtime]), want);
    }
}

#[test]
fn server_whose_program_is_another_file_is_asked_again() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    // Which costs no time.
    fixture.end_at_probe();
    let script = fs::read_to_string(fixture.script()).expect("a script");
    let program = fixture.directory.path().join("server");
    let ask = |more: &str, seconds: u64| {
        fs::write(&program, format!("#!/bin/sh\n{script}{more}")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        let file = fs::File::options().write(true).open(&program).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
        drop(file);
        let cache = fixture.cache.to_str().expect("UTF-8");
        let args = ["ping", "-n", "1", "--", program.to_str().expect("UTF-8")];
        run(&args, &[("XDG_CACHE_HOME", cache)]).assert_ok();
        let log = program.with_extension("log");
        let text = fs::read_to_string(&log).expect("a log");
        fs::remove_file(log).expect("it was there");
        text.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!([ask("", 1), ask("", 1)], ["probe initialize", "initialize"]);
    // Its length, and its time alone.
    assert_eq!([ask("# longer\n", 1), ask("# longer\n", 2)], ["probe initialize"; 2]);
    assert_eq!(ask("# longer\n", 2), "initialize");
}

#[test]
fn stderr_before_a_revision_is_agreed_on_is_shown_only_if_it_helps() {
    let run =
        |script: &str| probe(&["ping", "-n", "1", "--connect-timeout", "30s", "--", "sh", "-c", script]);
    let complains = ShellServer::legacy().on_line(
        &method_pattern("server/discover"),
        &format!(
            "for i in 1 2 3 4; do echo \"validation error $i\" >&2; done; {}",
            error_code_action(-32602)
        ),
    );
    assert_eq!(run(&complains.script()).assert_ok().stderr, "");
    // What comes later is shown, and so is what somebody may have to act on.
    let later = complains
        .on_line(&method_pattern("ping"), &format!("echo pinged >&2; {}", result_action(&json!({}))));
    assert_eq!(run(&later.script()).assert_ok().stderr, "server: pinged\n");
    let waits = ShellServer::legacy().with_prelude("echo open https://example.com/login >&2; sleep 4");
    assert_eq!(run(&waits.script()).assert_ok().stderr, "server: open https://example.com/login\n");
    let traced = probe(&["ping", "-n", "1", "--trace", "--", "sh", "-c", &later.script()]).assert_ok();
    traced.assert_stderr(&["server: validation error 1"]);
    // A server that ends after the agreement has said why before it.
    let ends = ShellServer::legacy()
        .with_prelude("echo config missing >&2")
        .on_line(&method_pattern("ping"), "echo pinged >&2; exit 3")
        .script();
    for options in [&[][..], &["--stderr", "capture"], &["--runtime", "smol"]] {
        let command = [&["ping", "-n", "1"], options, &["--", "sh", "-c", &ends]].concat();
        let done = probe(&command).assert_code(3);
        for line in ["config missing", "pinged"] {
            assert_eq!(done.stderr.matches(line).count(), 1, "{line}: {done}");
        }
    }
    // Of very many lines the number of those that are left out is said.
    let flood = "i=0; while [ $i -lt 700 ]; do i=$((i+1)); echo line $i >&2; done; exit 3";
    let done = run(flood).assert_code(3);
    assert_eq!(done.stderr.matches("server: line ").count(), 500, "{done}");
    done.assert_stderr(&["server: … 200 lines before that left out\nserver: line 201\n"]);
}

#[test]
fn program_that_fails_is_started_once_and_its_words_are_shown_once() {
    let fixture = Fixture::new();
    for options in [&[][..], &["--stderr", "capture"], &["--runtime", "threads"], &["--runtime", "smol"]] {
        fs::write(fixture.script(), "echo start >> \"$0.log\"; echo no database >&2; exit 3\n")
            .expect("a file");
        let done = fixture.probe(&[&["ping"], options].concat()).assert_code(3);
        assert_eq!(
            (done.stderr.matches("no database").count(), &*fixture.take_log()),
            (1, "start"),
            "{done}"
        );
    }
    // One that is known, and fails since.
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    fs::write(fixture.script(), "echo start >> \"$0.log\"; exit 3\n").expect("a file");
    fixture.probe(&["ping"]).assert_code(3);
    assert_eq!(fixture.take_log(), "start");
}

// covers: VER-042
#[test]
fn server_that_has_changed_is_probed_again() {
    let era = |fixture: &Fixture| {
        let done = fixture.probe(&["inspect", "--json"]).assert_ok();
        done.json()["era"].as_str().expect("an era").to_owned()
    };
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    // A server that refuses `initialize`.
    fixture.serve_own("--era modern");
    assert_eq!(era(&fixture), "modern");
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize", "the entry is not forgotten");
    // A server that speaks both eras.
    fixture.serve_own("");
    assert_eq!(era(&fixture), "modern");
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize", "the entry is not forgotten");
    // Another version of the legacy server: probed once, then remembered.
    fixture.serve_legacy("2");
    assert_eq!(fixture.requests_of(&[]), "initialize probe initialize");
    assert_eq!(fixture.requests_of(&[]), "initialize");
    // A modern server that ignores `initialize`.
    let discovered = json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "supportedVersions": ["2026-07-28"], "capabilities": {},
    });
    fixture.serve_cases(&[("server/discover", &discovered)]);
    assert_eq!(era(&fixture), "modern");
    assert_eq!(fixture.take_log(), "initialize probe");
    // A modern server that ends at `initialize`.
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    fixture.serve_cases(&[("server/discover", &discovered)]);
    let script = fs::read_to_string(fixture.script()).expect("a script");
    fs::write(fixture.script(), script.replace("echo initialize", "exit 1; echo")).expect("a script");
    assert_eq!(era(&fixture), "modern");
}

#[test]
fn failing_server_fails_as_without_a_cache() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    fs::write(fixture.script(), "exit 7\n").expect("a script");
    let done = fixture.probe(&["ping"]).assert_code(3);
    done.assert_stderr(&["is not an MCP server", "exit status: 7"]);
}

#[test]
fn damaged_cache_loses_nothing_and_is_replaced() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    let file = fixture.file();
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let long = format!("{{\"legacy\": [], \"x\": \"{}\"}}", "x".repeat(100_000));
    for text in ["", "garbage", "{}", "{\"legacy\": 5}", "[\u{0}]", &long] {
        fs::write(&file, text).expect("a file");
        assert_eq!(fixture.requests_of(&[]), "probe initialize", "{text:.20}");
        assert_eq!(fixture.requests_of(&[]), "initialize", "{text:.20}");
    }
    fs::write(&file, b"\xff\xfe").expect("a file");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    assert_eq!(fixture.requests_of(&[]), "initialize");
    // An entry counts for seven days.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    let mut entries: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("a cache")).expect("JSON");
    let left = entries["legacy"][0]["expires"].as_u64().expect("a time") - now;
    assert!((7 * 86_400 - 600..=7 * 86_400).contains(&left), "{left}");
    for (expires, want) in [(now + 600, "initialize"), (now - 1, "probe initialize")] {
        entries["legacy"][0]["expires"] = json!(expires);
        fs::write(&file, entries.to_string()).expect("a file");
        assert_eq!(fixture.requests_of(&[]), want);
    }
}

#[test]
fn cache_that_cannot_be_written_is_done_without() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    // A folder in place of the file, then a file in place of the folder.
    fs::create_dir_all(fixture.file().join("inner")).expect("a folder");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    assert_eq!(fs::read_dir(fixture.file().parent().expect("a folder")).expect("a folder").count(), 1);
    fs::remove_dir_all(&fixture.cache).expect("it was there");
    fs::write(&fixture.cache, "").expect("a file");
    for _ in 0..2 {
        assert_eq!(fixture.requests_of(&[]), "probe initialize");
    }
}

#[test]
fn cache_keeps_a_bounded_number_of_newest_entries() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    let file = fixture.file();
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let entries: Vec<_> = (0..300)
        .map(|n| json!({"command": format!("{n:016x}"), "server": format!("{n:016x}"), "expires": 1_u64 << 40}))
        .collect();
    fs::write(&file, json!({"legacy": entries}).to_string()).expect("a file");
    assert_eq!(fixture.requests_of(&[]), "probe initialize");
    let kept: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a cache")).expect("JSON");
    let kept = kept["legacy"].as_array().expect("a list");
    assert_eq!(kept.len(), 128);
    assert_eq!(kept[1]["command"], format!("{:016x}", 0));
    assert_eq!(fixture.requests_of(&[]), "initialize");
}

// covers: VER-023
#[test]
fn bridge_remembers_its_server() {
    let fixture = Fixture::new();
    fixture.serve_legacy("1");
    let (script, cache) = (fixture.script(), fixture.cache.to_str().expect("UTF-8").to_owned());
    let variable = format!("XDG_CACHE_HOME={cache}");
    for want in ["probe initialize", "initialize"] {
        let bridge = [PROBE, "bridge", "--connect-timeout", "4s", "--", "sh", &script];
        let ping = ["ping", "-n", "1", "--no-cache", "--era", "legacy", "--env", &variable, "--"];
        run(&[&ping[..], &bridge].concat(), &[]).assert_ok();
        assert_eq!(fixture.take_log(), want);
    }
}
