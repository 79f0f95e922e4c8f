//! The command `pin`.

use std::fs;

use serde_json::json;

use crate::config_file::TemporaryDirectory;
use crate::support::{PROBE, probe};

#[test]
fn what_has_changed_since_a_server_was_pinned_is_told() {
    let folder = TemporaryDirectory::new();
    let lock = folder.path().join("demo.lock.json");
    let lock = lock.to_str().unwrap();
    let server = ["--", PROBE, "serve", "--everything"];
    for era in ["legacy", "modern"] {
        let run = |words: &[&str]| probe(&[words, &["--era", era], &server].concat());
        let pinned = run(&["pin", "--out", lock, "--overwrite"]).assert_ok();
        run(&["pin", "--out", lock]).assert_code(2).assert_stderr(&["mcp-probe pin --check", "--overwrite"]);
        assert!(pinned.stdout.starts_with("pinned ") && pinned.stdout.contains(" (sha256:"), "{pinned}");
        assert_eq!(run(&["pin"]).assert_ok().stdout, fs::read_to_string(lock).unwrap());
        run(&["pin", "--check", lock]).assert_ok().assert_stdout(&["everything is as it was pinned"]);
        let same = run(&["pin", "--check", lock, "--json"]).assert_ok().json();
        assert_eq!((&same["findings"], &same["pinned"]), (&json!([]), &same["listed"]));

        // As if the server had another description then.
        let text = fs::read_to_string(lock).unwrap();
        let damaged = text.replacen("Returns the given text", "Returns the given text. Always copy me", 1);
        assert_ne!(text, damaged);
        fs::write(lock, damaged).unwrap();
        run(&["pin", "--check", lock])
            .assert_code(2)
            .assert_stderr(&["the digest of the tool `", "` does not fit it"]);
    }
}

#[test]
fn differences_are_reported_as_text_json_and_sarif() {
    let folder = TemporaryDirectory::new();
    let lock = folder.path().join("demo #.lock.json");
    let lock = lock.to_str().unwrap();
    probe(&["pin", "--out", lock, "--", PROBE, "serve"]).assert_ok();
    let run = |words: &[&str]| {
        probe(&[&["pin", "--check", lock][..], words, &["--", PROBE, "serve", "--everything"]].concat())
    };
    let told = run(&[]).assert_code(1).assert_stderr(&["since the server was pinned"]);
    assert!(told.stdout.contains(" is not pinned\n"), "{told}");
    // What an entry was and is, and what a new one is.
    assert!(told.stdout.contains(" is not pinned\n  + {"), "{told}");
    let changed = |words: &[&str]| {
        let text = "{\"name\":\"t\",\"inputSchema\":{\"type\":\"object\"},\"description\":";
        let [before, after] = ["Adds.\"}", "Adds. Copy me.\"}"].map(|end| format!("{text}\"{end}"));
        let file = |tool: &str| folder.write("mock.json", &format!("{{\"tools\":[{tool}]}}"));
        let lock = folder.path().join("t.lock.json");
        let lock = lock.to_str().unwrap();
        let mock = file(&before);
        let server = ["--", PROBE, "serve", "--mock", &mock];
        probe(&[&["pin", "--out", lock, "--overwrite"], &server[..]].concat()).assert_ok();
        file(&after);
        probe(&[&["pin", "--check", lock], words, &server].concat()).assert_code(1)
    };
    changed(&[]).assert_stdout(&["`/description` is another one\n  - \"Adds.\"\n  + \"Adds. Copy me.\"\n"]);
    let report = changed(&["--json"]).json();
    let difference = &report["findings"][0]["differences"][0];
    assert_eq!((&difference["pinned"], &difference["listed"]), (&json!("Adds."), &json!("Adds. Copy me.")));
    let report = run(&["--json"]).assert_code(1).json();
    let added = report["findings"].as_array().unwrap();
    assert!(
        added.iter().any(|finding| finding["change"] == "added" && finding["kind"] == "prompt"),
        "{report}"
    );
    let report = run(&["--sarif"]).assert_code(1).json();
    assert_eq!(report["version"], "2.1.0");
    let results = report["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), added.len());
    let rules = report["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results {
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        // It stands elsewhere than the program.
        let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        let uri = uri.as_str().expect("a reference");
        assert!(uri.starts_with("file:///") && uri.ends_with("demo%20%23.lock.json"), "{uri}");
    }
}
