//! Roots that a legacy server asks for after the handshake.

use core::time::Duration;

use crate::support::{PROBE, ProbeOutput, probe};

/// Returns a server that asks for roots after the handshake, `ask` being the command for it, and says in a call whether it
/// has them.
fn server(ask: &str) -> String {
    let welcome = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"rooted","version":"1"}}"#;
    let script = r#"
has=none
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r l; do
    id=$(printf '%s' "$l" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $l in
        *'"method":"initialize"'*) reply 'WELCOME';;
        *notifications/initialized*) ASK;;
        *'"roots":['*) sleep 0.2; has=some;;
        *'"method":"ping"'*) reply '{}';;
        *tools/call*) reply '{"content":[{"type":"text","text":"roots: '$has'"}]}';;
    esac
done"#;
    script.replace("WELCOME", welcome).replace("ASK", ask)
}

fn call(script: &str, more: &[&str]) -> ProbeOutput {
    probe(&[&["call", "x", "--era", "legacy"], more, &["--", "sh", "-c", script, PROBE]].concat())
}

/// Returns a server that reads the roots in the background, and answers other requests meanwhile.
fn server_that_reads_later() -> String {
    let script = server(r#"f=$(mktemp); echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'"#);
    let script = script.replace("sleep 0.2; has=some", "(sleep 0.1; echo some >\"$f\") &");
    script.replace("*tools/call*) ", "*tools/call*) has=$(cat \"$f\"); rm \"$f\"; ")
}

// covers: ROOT-002
#[test]
fn call_waits_for_a_server_that_answers_others_while_it_reads_the_roots() {
    for runtime in ["blocking", "threads", "smol", "tokio"] {
        let done = call(&server_that_reads_later(), &["--root", "/tmp", "--runtime", runtime]).assert_ok();
        assert_eq!(done.stdout, "roots: some\n", "{done}");
    }
}

// covers: ROOT-002
#[test]
fn call_waits_until_a_server_that_asks_for_roots_has_them() {
    let asks = server(r#"sleep 0.3; echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'"#);
    for runtime in ["blocking", "threads", "smol", "tokio"] {
        let done = call(&asks, &["--root", "/tmp", "--runtime", runtime]).assert_ok();
        assert_eq!(done.stdout, "roots: some\n", "{done}");
    }
    assert_eq!(call(&asks, &["--answer", r#"roots=["/tmp"]"#]).assert_ok().stdout, "roots: some\n");
    // One that does not ask is called after a second, and without roots nothing is waited for.
    let silent = server("true");
    let done = call(&silent, &["--root", "/tmp"]).assert_ok();
    assert!(done.stdout == "roots: none\n" && done.elapsed < Duration::from_secs(20), "{done}");
    assert_eq!(call(&silent, &[]).assert_ok().stdout, "roots: none\n");
}

/// A server that is silent is called 300 ms after its roots, and one that never is, nevertheless. A busy machine makes it later.
// covers: ROOT-002
#[test]
#[cfg(target_os = "linux")]
fn call_comes_after_300_ms_of_silence_and_to_a_server_that_is_never_silent() {
    let ask = r#"asked=$(date +%s%N); echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'"#;
    let talk = r#"(while echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; do sleep 0.05; done) &"#;
    for (ask, end) in [(ask.to_owned(), ""), (format!("{talk} {ask}"), "kill $!")] {
        let script =
            server(&ask).replace("sleep 0.2; has=some", "has=some").replace("'$has'", "'\"$has $ms\"'");
        let script =
            script.replace("*tools/call*) ", "*tools/call*) ms=$((($(date +%s%N) - asked) / 1000000)); ");
        let done = call(&format!("{script}\n{end}"), &["--root", "/tmp"]).assert_ok();
        let ms = done.stdout.trim().strip_prefix("roots: some ").unwrap_or_else(|| panic!("{done}"));
        assert!(ms.parse::<u32>().expect("a number") >= 300, "{done}");
    }
}
