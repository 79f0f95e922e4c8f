//! The `gateway` command while its file changes: an entry that goes stays hidden to its end, and one server follows another.

use core::time::Duration;
use std::fs;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bridge::BridgeProcess;
use crate::config_file::TemporaryDirectory;
use crate::gateway::{file_of, has, over_http, program, wait_for_tools};
use crate::support::PROBE;

/// Script of a server that answers the handshake, and nothing else.
const SILENT_SERVER: &str =
    r#"{ for i in 1 2; do read -r l; printf '%s\n' "$l"; done; cat > /dev/null; } | "$0" serve --era legacy"#;

/// Script of a server that takes two seconds to start and half of one to end, and writes both to a file.
const SLOW_SERVER: &str = r#"echo "begin $2" >> "$1"; echo "hello of $2" >&2; sleep 2; "$0" serve; sleep 0.5; echo "end $2" >> "$1""#;

#[test]
fn hidden_tools_of_a_removed_server_are_not_in_the_list_that_its_removal_completes() {
    let directory = TemporaryDirectory::new();
    let stays = program(&[]);
    let mut hidden = program(&["--era", "legacy"]);
    hidden["allow"] = json!([]);
    let servers = json!({
        "a-silent": {"command": "sh", "args": ["-c", SILENT_SERVER, PROBE]},
        "b-hidden": hidden,
        "c-stays": stays,
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let mut gateway = BridgeProcess::start(&["gateway", "--era", "legacy", "--config", &file]);
    gateway.send_line(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    // The others have answered, and the silent one is given 10 s.
    thread::sleep(Duration::from_secs(3));
    directory.write("mcp.json", &file_of(&json!({"c-stays": stays})));
    let listed = loop {
        let message: Value = serde_json::from_str(&gateway.read_line()).expect("JSON");
        if message["id"] == 2 {
            break message["result"].clone();
        }
    };
    let tools = listed["tools"].as_array().expect("tools");
    let is_of_stays = |tool: &Value| tool["name"].as_str().is_some_and(|name| name.starts_with("c-stays_"));
    assert!(!tools.is_empty() && tools.iter().all(is_of_stays), "{listed}");
    let missing = json!({"a-silent": "it was removed"});
    assert_eq!(listed["_meta"]["io.github.mcp-proto/unavailable"], missing, "{listed}");
}

#[test]
fn server_that_starts_while_it_is_replaced_or_removed_is_ended_before_the_next_one() {
    let directory = TemporaryDirectory::new();
    let log = directory.write("log", "");
    let wait_for_log = |wanted: &[&str]| {
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&log).expect("the log");
            if text.lines().collect::<Vec<_>>() == wanted {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "not {wanted:?}: {text}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let servers = |number: u32| {
        let slow =
            json!({"command": "sh", "args": ["-c", SLOW_SERVER, PROBE, log.as_str(), number.to_string()]});
        file_of(&json!({"slow": slow}))
    };
    let file = directory.write("mcp.json", &servers(1));
    let gateway = over_http(&file, &[]);
    wait_for_log(&["begin 1"]);
    // Replaced while it starts.
    directory.write("mcp.json", &servers(2));
    wait_for_log(&["begin 1", "end 1", "begin 2"]);
    wait_for_tools(&gateway.url, |tools| has(tools, "slow_echo"));
    // Replaced while it runs.
    directory.write("mcp.json", &servers(3));
    let mut lines = vec!["begin 1", "end 1", "begin 2", "end 2", "begin 3"];
    wait_for_log(&lines);
    // Removed while it starts.
    directory.write("mcp.json", &file_of(&json!({})));
    lines.push("end 3");
    wait_for_log(&lines);
    let stderr = gateway.stop();
    assert_eq!(stderr.matches("`slow` is ready").count(), 1, "{stderr}");
    for number in 1..=3 {
        assert!(stderr.contains(&format!("slow: hello of {number}\n")), "{stderr}");
    }
}
