//! `gateway --search` and `bridge --search` with real servers: two tools, what they find and call, exact names, unknown names, changes.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::gateway::{file_of, over_http, program};
use crate::support::{PROBE, probe};

/// Searches until the tools that are found are as they have to be: those of servers that start are waited for, but a change of the
/// file is seen a second later.
fn wait_for(url: &str, query: &str, expected: &[&str]) {
    let begun = Instant::now();
    loop {
        let found = probe(&["call", "search", &format!("query={query}"), "--json", url]).json();
        let tools = found["structuredContent"]["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        if names == expected {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn search_finds_tools_of_all_servers_and_call_calls_them_in_both_eras() {
    let directory = TemporaryDirectory::new();
    let mut few = program(&["--runtime", "threads"]);
    few["allow"] = json!(["add"]);
    let servers = json!({
        "tide": program(&["--era", "legacy"]),
        "dock": program(&["--everything", "--era", "modern"]),
        "few": few,
    });
    let file = directory.write("mcp.json", &file_of(&servers));
    let gateway = over_http(&file, &["--search"]);
    let stdio = ["--", PROBE, "gateway", "--search", "--config", &file];
    for front in [&[&*gateway.url][..], &stdio] {
        for era in ["legacy", "modern"] {
            let ask = |args: &[&str]| probe(&[args, &["--era", era], front].concat());
            let seen = ask(&["inspect", "--json"]).assert_ok().json();
            let tools = seen["tools"].as_array().expect("tools");
            let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
            assert_eq!(names, ["search", "call"]);
            // Prompts are as they were.
            assert!(seen["prompts"].as_array().is_some_and(|prompts| !prompts.is_empty()), "{seen}");

            let found =
                ask(&["call", "search", "query=add two numbers", "limit=3", "--json"]).assert_ok().json();
            let tools = found["structuredContent"]["tools"].as_array().expect("tools");
            let mut names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["dock_add", "few_add", "tide_add"], "{found}");
            assert!(tools[0]["inputSchema"]["properties"]["a"].is_object(), "{found}");

            let call = |tool: &str, arguments: &str, more: &[&str]| {
                let (name, arguments) = (format!("name={tool}"), format!("arguments={arguments}"));
                ask(&[&["call", "call", &name, &arguments], more].concat())
            };
            for server in ["tide", "dock", "few"] {
                let add = format!("{server}_add");
                call(&add, r#"{"a":20,"b":22}"#, &[]).assert_ok().assert_stdout(&["42"]);
                ask(&["call", &add, "--args", r#"{"a":20,"b":22}"#]).assert_ok().assert_stdout(&["42"]);
            }
            call("tide_count", r#"{"to":2}"#, &[])
                .assert_ok()
                .assert_stdout(&["counted to 2"])
                .assert_stderr(&["progress 1/2"]);
            let answer = r#"elicit={"name":"Ada"}"#;
            call("dock_sign", "{}", &["--answer", answer]).assert_ok().assert_stdout(&["Hello, Ada!"]);
            call("tide_ad", "{}", &[]).assert_code(1).assert_stdout(&["did you mean `tide_add`"]);
            // Hidden by a rule.
            call("few_echo", "{}", &[]).assert_code(1).assert_stdout(&["no tool is named `few_echo`"]);
            ask(&["call", "few_echo", "text=x"]).assert_code(1).assert_stderr(&["few_echo"]);
        }
    }
    let stderr = gateway.stop();
    assert!(stderr.contains("search: 2 tools of about "), "{stderr}");
}

#[test]
fn changed_servers_change_what_is_found_and_the_list_stays() {
    let directory = TemporaryDirectory::new();
    let servers = |servers: &[&str]| {
        let entries = servers.iter().map(|name| ((*name).to_owned(), program(&["--draft"])));
        file_of(&Value::Object(entries.collect()))
    };
    let file = directory.write("mcp.json", &servers(&["one"]));
    let gateway = over_http(&file, &["--search"]);
    wait_for(&gateway.url, "one_echo", &["one_echo", "one_add", "one_count", "one_fail"]);
    directory.write("mcp.json", &servers(&["one", "two"]));
    wait_for(&gateway.url, "two_echo", &["two_echo", "one_echo", "two_add", "two_count", "two_fail"]);
    directory.write("mcp.json", &servers(&["two"]));
    wait_for(&gateway.url, "one_echo", &["two_echo"]);
    let stderr = gateway.stop();
    assert!(stderr.matches("search: 2 tools of about ").count() >= 3, "{stderr}");
}

#[test]
fn bridge_searches_the_tools_of_its_server() {
    for (client, server) in [("legacy", "modern"), ("modern", "legacy")] {
        let ask = |args: &[&str]| {
            let bridge = ["--stderr", "inherit", "--era", client, "--", PROBE, "bridge", "--search", "--"];
            probe(&[args, &bridge, &[PROBE, "serve", "--era", server]].concat())
        };
        let seen = ask(&["inspect", "--json"]).assert_ok().json();
        let tools = seen["tools"].as_array().expect("tools");
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["search", "call"]);
        let found = ask(&["call", "search", "query=adding numbers", "--json"]).assert_ok().json();
        assert_eq!(found["structuredContent"]["tools"][0]["name"], "add", "{found}");
        ask(&["call", "call", "name=add", r#"arguments={"a":20,"b":22}"#])
            .assert_ok()
            .assert_stdout(&["42"])
            .assert_stderr(&["search: 2 tools of about "]);
        ask(&["call", "add", "--args", r#"{"a":20,"b":22}"#]).assert_ok().assert_stdout(&["42"]);
        ask(&["call", "call", "name=ad"]).assert_code(1).assert_stdout(&["no tool is named `ad`"]);
    }
}
