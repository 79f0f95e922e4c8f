//! Help, usage lines and shell completion.

#[cfg(unix)]
use std::io::Write as _;
#[cfg(unix)]
use std::process::{Command, Stdio};

#[cfg(unix)]
use crate::support::PROBE;
use crate::support::{probe, run};

/// Every command that connects to a server.
const CLIENT_COMMANDS: [&str; 9] =
    ["inspect", "call", "check", "read", "prompt", "complete", "listen", "ping", "bridge"];

#[test]
fn help_command_explains_another_command() {
    for command in CLIENT_COMMANDS.into_iter().chain(["serve", "gateway", "demo", "completions"]) {
        let long = probe(&[command, "--help"]).assert_ok();
        assert_eq!(probe(&["help", command]).assert_ok().stdout, long.stdout);
    }
    assert_eq!(probe(&["help"]).assert_ok().stdout, probe(&["--help"]).assert_ok().stdout);
    probe(&["help", "inspekt"]).assert_code(2).assert_stderr(&["inspekt"]);
}

#[test]
fn usage_lines_show_each_form_of_a_server() {
    for command in CLIENT_COMMANDS {
        for help in ["-h", "--help"] {
            let done = probe(&[command, help]).assert_ok();
            let usage =
                done.stdout.split("Usage: ").nth(1).expect("usage").split("\n\n").next().expect("lines");
            let lines: Vec<_> = usage.lines().map(str::trim).collect();
            let start = format!("mcp-probe {command} [OPTIONS]");
            assert!(
                lines.iter().any(|line| line.starts_with(&start) && line.ends_with(" <SERVER>")),
                "{done}"
            );
            for form in [
                "<SERVER>: <URL>",
                "tcp://<HOST>:<PORT> | unix:<PATH> | --serial <DEVICE[:BAUD]>",
                "-- <CMD>...",
                "--config <FILE> --server <NAME>",
            ] {
                assert!(lines.contains(&form), "no {form:?}: {done}");
            }
        }
    }
}

#[test]
fn help_fits_into_80_columns() {
    let others: [&[&str]; 9] = [
        &[],
        &["test"],
        &["serve"],
        &["gateway"],
        &["demo"],
        &["completions"],
        &["login"],
        &["generate"],
        &["generate", "rust"],
    ];
    let skills: [&[&str]; 4] = [&["skills"], &["skills", "list"], &["skills", "show"], &["skills", "verify"]];
    let clients = CLIENT_COMMANDS.iter().map(core::slice::from_ref);
    for command in others.into_iter().chain(skills).chain(clients) {
        for help in ["-h", "--help"] {
            let done = run(&[command, &[help]].concat(), &[("COLUMNS", "80")]).assert_ok();
            let wide: Vec<_> = done.stdout.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "mcp-probe {command:?} {help}: {wide:#?}");
        }
    }
}

#[test]
fn word_in_place_of_a_server_is_answered_with_both_forms() {
    for command in [&["inspect"][..], &["ping"], &["check"], &["bridge"], &["read", "a:b"]] {
        let done = probe(&[command, &["foo"]].concat()).assert_code(2);
        done.assert_stderr(&[
            "'foo'",
            &format!("mcp-probe {} http://HOST:PORT/PATH", command.join(" ")),
            &format!("mcp-probe {} tcp://HOST:PORT", command.join(" ")),
            &format!("mcp-probe {} -- foo", command.join(" ")),
        ]);
    }
    let done = probe(&["events", "list", "--json", "my server", "x"]).assert_code(2);
    done.assert_stderr(&["mcp-probe events list --json -- 'my server' x"]);
    // Values that may be secrets are not repeated.
    let secret = ["inspect", "--bearer", "s3cret", "--header", "X-Key: s3cret", "--era=legacy", "server.py"];
    let done = probe(&secret).assert_code(2).assert_stderr(&["-- server.py"]);
    assert!(!done.stderr.contains("s3cret"), "{done}");
    // Without a name of a tool no line of `call` is possible.
    assert!(!probe(&["trace", "show", "a", "b"]).assert_code(2).stderr.contains("HOST:PORT"));
    // An option is no server.
    let done = probe(&["inspect", "--jsn", "--", "foo"]).assert_code(2).assert_stderr(&["--json"]);
    assert!(!done.stderr.contains("HOST:PORT"), "{done}");
    assert!(!probe(&["serve", "foo"]).assert_code(2).stderr.contains("HOST:PORT"));
}

#[test]
fn completion_scripts_name_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let done = probe(&["completions", shell]).assert_ok();
        for word in CLIENT_COMMANDS.into_iter().chain(["connect-timeout", "header", "config"]) {
            assert!(done.stdout.contains(word), "{shell}: no {word}");
        }
        assert!(!done.stdout.contains("break"), "{shell}: a hidden option");
    }
    probe(&["completions", "cmd"]).assert_code(2).assert_stderr(&["bash", "zsh", "fish"]);
    probe(&["completions"]).assert_code(2);
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_and_values() {
    if Command::new("bash").args(["-c", "true"]).stdin(Stdio::null()).status().is_err() {
        // Not `eprintln!`: the test harness would capture the line and drop it.
        let _ = writeln!(std::io::stderr(), "NOT CHECKED: bash is not installed");
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "bash is required in CI");
        return;
    }
    let complete = |words: &str| {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             $(complete -p mcp-probe | sed 's/.*-F \\([^ ]*\\).*/\\1/') mcp-probe \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        // It complains about a locale that is not installed, and runs the file in BASH_ENV first.
        let mut bash = Command::new("bash");
        bash.args(["-c", &script, PROBE]).env("LC_ALL", "C").env_remove("BASH_ENV");
        let output = bash.output().expect("bash runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    assert_eq!(complete("mcp-probe insp"), "inspect");
    assert_eq!(complete("mcp-probe inspect --connect"), "--connect-timeout");
    assert_eq!(complete("mcp-probe inspect --era m"), "modern");
}

/// Returns the words of every command, hidden ones apart.
fn commands() -> Vec<Vec<String>> {
    let (mut found, mut left) = (Vec::new(), vec![(Vec::new(), mcp_probe::command())]);
    while let Some((words, command)) = left.pop() {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        left.extend(
            below.map(|below| ([&words[..], &[below.get_name().to_owned()]].concat(), below.clone())),
        );
        found.push(words);
    }
    found.sort();
    found
}

#[test]
fn help_is_short_and_what_was_agreed() {
    let mut rows = String::from("command\tlines\tdigest\n");
    for command in commands() {
        for (option, most) in [("-h", if command.is_empty() { 45 } else { 60 }), ("--help", usize::MAX)] {
            let words: Vec<&str> = command.iter().map(|word| &**word).chain([option]).collect();
            let shown = run(&words, &[("COLUMNS", "100")]).assert_ok().stdout;
            let lines = shown.lines().count();
            assert!(lines <= most, "mcp-probe {words:?} has {lines} lines:\n{shown}");
            // FNV-1a.
            let digest = shown.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            rows.push_str(&format!("{}\t{lines}\t{digest:016x}\n", words.join(" ")));
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help.tsv");
    if std::env::var_os("UPDATE_HELP").is_some() {
        std::fs::write(&path, &rows).expect("written");
    }
    let agreed = std::fs::read_to_string(&path).expect("a file");
    let changed: Vec<&str> =
        rows.lines().filter(|row| !agreed.lines().any(|agreed| agreed == *row)).collect();
    assert!(
        changed.is_empty() && rows.len() == agreed.len(),
        "changed: {changed:#?}\nWhat users see has changed: CHANGELOG.md says why, and UPDATE_HELP=1 writes help.tsv anew."
    );
}

#[test]
fn each_command_stands_below_a_heading_or_among_the_others() {
    let shown = probe(&["--help"]).assert_ok().stdout;
    let (listed, others) = shown.split_once("\nAlso: ").expect("others");
    let others: Vec<&str> = others.lines().next().expect("a line").split(", ").collect();
    let rows = listed.lines().filter(|line| line.starts_with("  "));
    let rows: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    let mut found: Vec<&str> = rows.into_iter().chain(others).collect();
    found.sort_unstable();
    let commands = commands().into_iter().filter(|words| words.len() == 1).flatten();
    assert_eq!(found, commands.collect::<Vec<_>>());
    assert_eq!(listed.lines().filter(|line| line.ends_with(':')).count(), 6, "{listed}");
}

#[test]
fn word_that_was_a_command_names_the_new_one() {
    for (words, new) in [
        (&["connections", "--json"][..], "connect --list"),
        (&["disconnect", "lab"], "connect --end NAME"),
        (&["logout", "http://localhost/mcp"], "login --forget URL"),
        (&["verify", "lock.json", "--", "true"], "pin --check LOCKFILE"),
        (&["whoami", "http://localhost/mcp"], "login --show URL"),
        (&["help", "verify"], "pin --check LOCKFILE"),
    ] {
        let old = if words[0] == "help" { words[1] } else { words[0] };
        let said = format!("`{old}` is `mcp-probe {new}` now");
        let done = probe(words).assert_code(2);
        assert_eq!(done.stderr, format!("error: {said}\n"));
        let is_json = words.contains(&"--json");
        assert_eq!(done.stdout.is_empty(), !is_json);
        if is_json {
            assert_eq!(done.json()["error"]["message"], said);
        }
    }
}

#[test]
fn options_of_a_connection_that_is_made_are_for_no_other_use_of_connect() {
    for words in [
        &["connect", "--list", "--idle-timeout", "3s"][..],
        &["connect", "--list", "lab"],
        &["connect", "--end-all", "--bearer", "x"],
        &["connect", "--end", "lab", "--timeout", "1s"],
        &["pin", "--check", "lock.json", "--overwrite", "--", "true"],
    ] {
        probe(words).assert_code(2).assert_stderr(&["cannot be used with"]);
    }
}
