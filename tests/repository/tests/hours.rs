//! `.ci/hours` in a repository of stubs: slices in turn, a pause, findings, and one row for each target.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::layering::root;

/// Takes a moment, notes the priority of its session, and records a slice. The second target has a finding at first.
const FUZZ: &str = r#"#!/usr/bin/env bash
cd "$(dirname "$0")"
[ "$1" != 0 ] || exit 0
target=$4
sleep 0.3
[ ! -e /proc/self/autogroup ] || cat /proc/self/autogroup >>groups
if [ "$target" = two ] && [ ! -f artifacts/two/input ]; then
    mkdir -p artifacts/two && touch artifacts/two/input
    ../.ci/hours record fuzz two 36 0 abcdef12 1
    exit 1
fi
../.ci/hours record fuzz "$target" 36 7 abcdef12 0
"#;
const WORLDS: &str = "#!/usr/bin/env bash\ncd \"$(dirname \"$0\")/..\"\n[ \"$1\" != 0 ] || exit 0\n\
    sleep 0.3\n.ci/hours record worlds \"$3\" 36 3 abcdef12 0\n";

struct Stubs(PathBuf);

impl Stubs {
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        // The lock of this test, not that of the machine.
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.0)
            .env("TMPDIR", self.0.join("fuzz"))
            .env_remove("HOURS_SLICES")
            .output()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    fn slices(&self) -> String {
        fs::read_to_string(self.0.join("fuzz/hours/slices.tsv")).unwrap_or_default()
    }

    fn wait(&self, what: &str, done: impl Fn(&str) -> bool) {
        // Its priority is the lowest: on a machine that has other work it waits for that.
        let until = Instant::now() + Duration::from_secs(600);
        while !done(&self.slices()) {
            assert!(Instant::now() < until, "{what}: {}", self.slices());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = Command::new("./.ci/hours").arg("stop").current_dir(&self.0).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn hours_run_in_turn_are_paused_and_have_one_row_for_each_target() {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    let missing: Vec<&str> = ["git", "python3", "bash"].into_iter().filter(|program| !has(program)).collect();
    if !missing.is_empty() || !Path::new("/proc/self").exists() {
        println!("NOT CHECKED: .ci/hours, without {missing:?} or /proc");
        assert!(std::env::var_os("CI").is_none(), "CI has what .ci/hours needs");
        return;
    }
    let stubs = Stubs(std::env::temp_dir().join(format!("hours of stubs {}", std::process::id())));
    stubs.write(".ci/hours", &fs::read_to_string(root().join(".ci/hours")).expect("the script"));
    stubs.write("fuzz/run", FUZZ);
    stubs.write("tests/worlds", WORLDS);
    stubs.write("tests/trust", "#!/bin/sh\ncp tests/hours.tsv fuzz/page\n");
    stubs.write(".gitignore", "/target\n/fuzz/hours\n/fuzz/artifacts\n");
    stubs.write("fuzz/fuzz_targets/one.rs", "");
    stubs.write("fuzz/fuzz_targets/two.rs", "");
    stubs.run("git", &["init", "--quiet"]);
    stubs.run("git", &["add", "--all"]);
    stubs.run(
        "git",
        &["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--message=x"],
    );

    stubs.run("./.ci/hours", &["start"]);
    assert!(stubs.run("./.ci/hours", &["start"]).contains("already"));
    // Each kind in turn: whoever has the fewest hours is next, and what has a finding rests.
    stubs.wait("each has a slice", |slices| {
        ["one", "two", "pipe", "http", "http-sse", "events"]
            .iter()
            .all(|t| slices.contains(&format!("\t{t}\t")))
    });
    stubs.wait("`one` has a second slice", |slices| slices.matches("\tone\t").count() == 2);
    // Where the system shares itself out among sessions, that of a slice has the lowest share.
    if Path::new("/proc/self/autogroup").exists() {
        let clone = stubs.0.join("target/hours/clone/fuzz/groups");
        let groups = fs::read_to_string(clone).expect("the groups of slices");
        assert!(groups.contains(" nice 19"), "{groups}");
    }
    let count = "wc -l <fuzz/hours/slices.tsv; sleep 2; wc -l <fuzz/hours/slices.tsv";
    let paused = stubs.run("./.ci/hours", &["pause", "bash", "-c", count]);
    let (before, after) = paused.trim().split_once('\n').expect("two counts");
    assert_eq!(before, after, "a slice ended while paused");
    stubs.wait("it goes on", |slices| slices.lines().count() > before.parse().expect("a count"));

    // As if the machine had gone away while a line was written.
    let slices = stubs.slices() + "fuzz\tone\t0.0";
    stubs.run("./.ci/hours", &["stop"]);
    let table = fs::read_to_string(stubs.0.join("tests/hours.tsv")).expect("the table");
    let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.iter().filter(|row| row[1] == "one").count(), 1, "{table}");
    let one = rows.iter().find(|row| row[1] == "one").expect("a row");
    assert!(
        one[2].parse::<f64>().expect("hours") >= 0.02 && one[3].parse::<u32>().expect("runs") >= 14,
        "{table}"
    );
    assert_eq!(
        rows.iter().find(|row| row[1] == "two").map(|row| (row[3], row[4])),
        Some(("0", "1")),
        "{table}"
    );
    assert!(stubs.0.join("fuzz/artifacts/two/input").exists(), "the input of the finding");
    assert_eq!(stubs.slices(), "");

    // Folded again: sums go on, and what is cut off does not count.
    stubs.write("fuzz/hours/slices.tsv", &slices);
    stubs.run("./.ci/hours", &["fold"]);
    let folded = fs::read_to_string(stubs.0.join("tests/hours.tsv")).expect("the table");
    assert_eq!(folded.lines().count(), table.lines().count());
    assert_eq!(fs::read_to_string(stubs.0.join("fuzz/page")).expect("the page of results"), folded);
    assert!(folded.len() >= table.len() && folded != table, "{folded}");
    let check = Command::new("./.ci/hours").arg("check").current_dir(&stubs.0).output().expect("python3");
    assert!(
        !check.status.success() && String::from_utf8_lossy(&check.stdout).contains("fuzz target two: 0.0"),
        "{check:?}"
    );
}
