//! The command `skills`, on the skills of `serve --everything` and on servers that contradict themselves.

use serde_json::{Value, json};

use crate::support::{PROBE, ProbeOutput, REVISIONS, probe};

fn everything(args: &[&str]) -> ProbeOutput {
    probe(&[args, &["--", PROBE, "serve", "--everything"]].concat())
}

/// Runs `mcp-probe ARGS` on a legacy server that answers each method with a fixed result.
fn canned(args: &[&str], results: &[(&str, Value)]) -> ProbeOutput {
    let welcome = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}},
        "serverInfo": {"name": "canned", "version": "1"},
    });
    let mut script = String::from(
        "while read -r l; do id=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); case $l in ",
    );
    for (method, result) in [("initialize", welcome)].iter().chain(results) {
        let result = result.to_string().replace('\'', "'\\''");
        script += &format!(
            "*'\"method\":\"{method}\"'*) printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}';; "
        );
    }
    script += "esac; done";
    probe(&[args, &["--era", "legacy", "--", "sh", "-c", &script]].concat())
}

const PLANNING: &str = "skill://harbour/berth-planning/SKILL.md";

// covers: SKILL-016, SKILL-020, SKILL-024, SKILL-029, SKILL-036
#[test]
fn skills_are_listed_shown_and_verified() {
    for (revision, _) in REVISIONS {
        let pin = ["--protocol-version", revision];
        let run = |args: &[&str]| everything(&[&["skills"], args, &pin[..]].concat());
        let list = run(&["list"]).assert_ok();
        assert!(list.stdout.starts_with(&format!("  berth-planning ({PLANNING}, 5 files, ")), "{list}");
        list.assert_stdout(&[
            "mooring (skill://mooring/SKILL.md, 1 file, ",
            "reports/daily/SKILL.md, dynamic)",
        ]);
        let json = run(&["list", "--json"]).assert_ok().json();
        assert_eq!(json["skills"][0]["frontmatter"]["metadata"]["languages"], json!(["en", "no"]));

        let shown = run(&["show", "mooring"]).assert_ok();
        assert!(
            shown.stdout.starts_with("---\nname: mooring\n") && shown.stdout.ends_with("Bow line first.\n")
        );
        for name in ["berth-planning", PLANNING] {
            let file = ["show", name, "--file", "templates/special/night.md"];
            run(&file).assert_ok().assert_stdout(&["The harbour master is on channel 12."]);
        }
        let file = run(&["show", "berth-planning", "--file", "assets/dot.png", "--json"]).assert_ok().json();
        assert_eq!(
            (&file["file"]["verified"], &file["file"]["mediaType"]),
            (&json!(true), &json!("image/png"))
        );
        assert!(file["file"]["blob"].is_string() && file["skill"]["uri"] == PLANNING);

        let verified = run(&["verify"]).assert_ok();
        verified.assert_stdout(&[
            &format!("ok {PLANNING} (5 files read)"),
            "dynamic skill://reports/daily/SKILL.md",
        ]);
        let json = run(&["verify", "mooring", "--json"]).assert_ok().json();
        let expected = json!({"uri": "skill://mooring/SKILL.md", "name": "mooring", "files": 1, "verified": true, "errors": []});
        assert_eq!(json["skills"], json!([expected]));
    }
    everything(&["inspect"]).assert_ok().assert_stdout(&["skills (3)", "berth-planning"]);
}

// covers: SKILL-025, SKILL-031
#[test]
fn unknown_skills_and_files_are_named() {
    let done = everything(&["skills", "show", "two words"]).assert_code(1);
    done.assert_stderr(&["there is no skill `two words`", "there are: berth-planning, mooring, daily"]);
    let done = everything(&["skills", "show", "skill://none/SKILL.md", "--json"]).assert_code(1);
    assert_eq!(done.json()["error"]["code"], -32602);
    let done = everything(&["skills", "show", "mooring", "--file", "none.md"]).assert_code(1);
    done.assert_stderr(&[
        "`skill://mooring/none.md` is not listed",
        "the files of the skill: skill://mooring/SKILL.md",
    ]);
    let done = everything(&["skills", "show", "mooring", "--file", "../harbour/SKILL.md"]).assert_code(1);
    done.assert_stderr(&["`..`"]);
    everything(&["skills"]).assert_code(2);
    let plain = probe(&["skills", "list", "--", PROBE, "serve"]).assert_code(1);
    plain.assert_stderr(&["does not have the capability `skills`"]);
}

// covers: SKILL-030, SKILL-052, LIFE-016
#[test]
fn mismatch_fails_and_control_characters_are_escaped() {
    let uri = "skill://a b/x/SKILL.md";
    let entry = |uri: &str, name: &str, size: u64| {
        let file = json!({"uri": uri, "digest": format!("sha256:{}", "0".repeat(64)), "size": size});
        json!({"uri": uri, "frontmatter": {"name": name, "description": "\u{1b}[2Jd"}, "resources": [file]})
    };
    let text = "---\nname: x\ndescription: d\n---\n";
    let contents = json!({"contents": [{"uri": uri, "text": text}]});
    let good = "skill://x/SKILL.md";
    let size = text.len() as u64;
    let skills = json!([
        entry(good, "x", size),
        entry("skill://y/SKILL.md", "x", 1),
        entry(uri, "with space", 1),
        {"uri": "z", "resources": "\u{202e}"},
    ]);
    let results = [("skills/list", json!({"skills": skills})), ("resources/read", contents)];
    let list = canned(&["skills", "list"], &results).assert_ok();
    assert!(!list.stdout.contains('\u{1b}') && !list.stdout.contains('\u{202e}'), "{list}");
    list.assert_stdout(&["with space", "cannot be read"]);
    let done = canned(&["skills", "verify"], &results).assert_code(1);
    done.assert_stderr(&["4 of 4 skills do not match"]).assert_stdout(&[
        "MISMATCH skill://x/SKILL.md (0 files read)",
        "expected the digest sha256:0000",
        "expected 1 bytes, found",
        "a character that a URI cannot have",
    ]);
    let json = canned(&["skills", "verify", "--json"], &results).assert_code(1).json();
    assert_eq!(json["skills"][0]["verified"], false);
    assert!(json["skills"][0]["errors"][0].as_str().is_some_and(|error| error.contains("digest")), "{json}");
    let done = canned(&["skills", "show", "x"], &results).assert_code(1);
    done.assert_stderr(&["several skills have the name `x`", "skill://x/SKILL.md", "skill://y/SKILL.md"]);
    let done = canned(&["skills", "show", "with space"], &results).assert_code(1);
    assert_eq!(done.stdout, "", "nothing unverified is shown");
}
