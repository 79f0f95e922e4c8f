//! Servers from configuration files of MCP clients.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::recording_server::RecordingServer;
use crate::support::{PROBE, ProbeOutput, probe, run};

/// A temporary directory that is removed when this is dropped.
pub(crate) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("mcp-probe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn probe_config(command: &[&str], config: &str, server: &str) -> ProbeOutput {
    let environment =
        [("PROBE_PATH", PROBE), ("PROBE_ERA", "legacy"), ("PROBE_SECRET", "hunter2"), ("PROBE_EMPTY", "")];
    run(&[command, &["--config", config, "--server", server]].concat(), &environment)
}

#[test]
fn server_is_started_from_each_form_of_file() {
    let directory = TemporaryDirectory::new();
    let entry = json!({"command": PROBE, "args": ["serve", "--era", "legacy"]});
    let commented = format!(
        "// Servers\n{{\n  \"inputs\": [],\n  \"servers\": {{\n    /* one */ \"demo\": {},\n  }},\n}}\n",
        json!({"type": "stdio", "command": PROBE, "args": ["serve", "--era", "legacy"]})
    );
    let files = [
        (
            "claude_desktop_config.json",
            json!({"theme": "dark", "mcpServers": {"other": {}, "demo": entry}}).to_string(),
        ),
        (".vscode/mcp.json", commented),
        ("settings.json", json!({"mcp": {"servers": {"demo": entry}}}).to_string()),
        (
            ".cursor/mcp.json",
            json!({"mcpServers": {"demo": {
            "command": "${PROBE_PATH}", "args": ["serve", "--era", "${env:PROBE_ERA}"]}}})
            .to_string(),
        ),
        (
            "default.json",
            json!({"mcpServers": {"demo": {
            "command": "mcp-probe", "args": ["serve", "--era", "${PROBE_EMPTY:-legacy}"]}}})
            .to_string(),
        ),
    ];
    for (name, text) in files {
        let file = directory.write(name, &text);
        let done = probe_config(&["inspect", "--json"], &file, "demo").assert_ok();
        assert_eq!(done.json()["era"], "legacy", "{name}: {done}");
        assert_eq!(done.stderr, "", "{name}");
    }
    // The name of the only server may be left out.
    let file = directory.write("one.json", &json!({"mcpServers": {"demo": entry}}).to_string());
    probe(&["ping", "-n", "1", "--config", &file]).assert_ok();
}

/// Files as the clients write them; the name of the server is `demo`.
#[test]
fn server_is_started_from_the_file_of_each_client() {
    let directory = TemporaryDirectory::new();
    let args = ["serve", "--era", "legacy"];
    let whole = [&[PROBE], &args[..]].concat();
    let entry = json!({"type": "stdio", "command": PROBE, "args": args, "env": {}});
    let here = std::env::current_dir().expect("a folder");
    let files = [
        (
            "windsurf/mcp_config.json",
            json!({"mcpServers": {"demo": {"command": PROBE, "args": args, "disabled": false, "disabledTools": []}}}),
        ),
        (
            ".gemini/settings.json",
            json!({
                "selectedAuthType": "gemini-api-key", "mcp": {"allowed": ["demo"]},
                "mcpServers": {"demo": {"command": PROBE, "args": args, "cwd": ".", "timeout": 30000, "trust": false}},
            }),
        ),
        (
            ".copilot/mcp-config.json",
            json!({"mcpServers": {"demo": {"type": "local", "command": PROBE, "args": args, "tools": ["*"]}}}),
        ),
        (
            ".claude.json",
            json!({"numStartups": 3, "mcpServers": {}, "projects": {
                "/nowhere/else": {"mcpServers": {"demo": {"command": "none"}}},
                (here.to_str().expect("UTF-8")): {"allowedTools": [], "mcpServers": {"demo": entry}},
            }}),
        ),
        (
            "claude-of-another-project.json",
            json!({"projects": {"/nowhere": {"mcpServers": {"demo": entry}}, "/void": {"mcpServers": {}}}}),
        ),
        (
            "opencode.jsonc",
            json!({"$schema": "https://opencode.ai/config.json", "mcp": {
                "demo": {"type": "local", "command": whole, "enabled": true, "environment": {"A": "b"}},
                "other": {"type": "remote", "url": "https://example.com/mcp", "enabled": false},
            }}),
        ),
        ("opencode-2.json", json!({"mcp": {"servers": {"demo": {"type": "local", "command": whole}}}})),
        (
            ".zed/settings.json",
            json!({"theme": "One", "context_servers": {
                "demo": {"source": "custom", "enabled": true, "command": PROBE, "args": args, "env": {}},
                "other": {"source": "extension", "settings": {}},
            }}),
        ),
        (
            "zed-before.json",
            json!({"context_servers": {"demo": {"command": {"path": PROBE, "args": args}, "settings": {}}}}),
        ),
    ];
    for (name, text) in files {
        let file = directory.write(name, &format!("// {name}\n{text}"));
        let done = probe_config(&["inspect", "--json"], &file, "demo").assert_ok();
        let is_quiet = done.stderr.is_empty() || done.stderr.contains("members that are not followed: t");
        assert!(done.json()["era"] == "legacy" && is_quiet, "{name}: {done}");
    }
    // What cannot be chosen from is named.
    let other = json!({"context_servers": {"demo": {"source": "extension", "settings": {}}}});
    let several = json!({"projects": {
        "/a": {"mcpServers": {"demo": entry}}, "/b": {"mcpServers": {"demo": {"command": "x"}}},
    }});
    for (text, wanted) in [
        (other, "context_servers.demo: comes from an extension of the editor"),
        (several, "`demo` is a server of several projects: run this in the folder of one: /a, /b"),
        (json!({"mcp": {"demo": {"type": "local", "command": []}}}), "mcp.demo.command: must not be empty"),
        (json!({"context_servers": {"demo": {"command": {}}}}), "demo.command: has no `path`"),
    ] {
        let file = directory.write("wrong.json", &text.to_string());
        probe_config(&["inspect"], &file, "demo").assert_code(2).assert_stderr(&[&file, wanted]);
    }
}

// covers: SEC-019
#[test]
fn remote_server_is_reached_from_the_file_of_each_client() {
    let directory = TemporaryDirectory::new();
    let server = RecordingServer::new(404);
    let (url, wrong) = (&server.url, "http://127.0.0.1:9/sse");
    directory.write("token", "hunter2\n");
    let absolute = format!("Bearer ${{file:{}}}", directory.path().join("token").display());
    let files = [
        json!({"mcpServers": {"demo": {"serverUrl": url, "headers": {"Authorization": absolute}}}}),
        json!({"mcpServers": {"demo": {
            "httpUrl": url, "url": wrong, "timeout": 5000, "headers": {"Authorization": "Bearer $PROBE_SECRET"}}}}),
        json!({"mcpServers": {"demo": {
            "type": "http", "url": url, "tools": ["*"], "headers": {"Authorization": "Bearer ${PROBE_SECRET}"}}}}),
        json!({"projects": {"/nowhere": {"mcpServers": {"demo": {
            "type": "http", "url": url, "headers": {"Authorization": "Bearer ${PROBE_SECRET:-none}"}}}}}}),
        json!({"mcp": {"demo": {
            "type": "remote", "url": url, "oauth": false, "headers": {"Authorization": "Bearer {env:PROBE_SECRET}"}}}}),
        json!({"mcp": {"demo": {"type": "remote", "url": url, "headers": {"Authorization": "Bearer {file:./token}"}}}}),
        json!({"context_servers": {"demo": {"url": url, "headers": {"Authorization": "Bearer hunter2"}}}}),
    ];
    for text in files {
        let file = directory.write("mcp.json", &text.to_string());
        let done = probe_config(&["ping"], &file, "demo");
        let heads = server.take_heads();
        assert!(!heads.is_empty(), "{text}: {done}");
        for head in heads {
            assert!(head.contains("Authorization: Bearer hunter2\r\n"), "{text}: {head}");
        }
        assert!(!done.stderr.contains("hunter2"), "{done}");
    }
}

#[cfg(unix)]
#[test]
fn variable_without_braces_is_replaced_in_the_environment_alone() {
    let directory = TemporaryDirectory::new();
    let script = "A='$PROBE_SECRET'; echo \"<$A> <$SET> <$UNSET> <$DIGIT> <$PART>\" >&2; exec \"$0\" serve";
    let entry = json!({
        "command": "sh", "args": ["-c", script, PROBE],
        "env": {"SET": "$PROBE_SECRET", "UNSET": "$PROBE_NONE", "DIGIT": "$5", "PART": "a$PROBE_SECRET"},
    });
    let file = directory.write("settings.json", &json!({"mcpServers": {"sh": entry}}).to_string());
    let done = probe_config(&["ping", "-n", "1", "--stderr", "inherit"], &file, "sh").assert_ok();
    done.assert_stderr(&["<$PROBE_SECRET> <hunter2> <$PROBE_NONE> <$5> <a$PROBE_SECRET>"]);
}

#[cfg(unix)]
#[test]
fn server_gets_its_environment_and_directory() {
    let directory = TemporaryDirectory::new();
    let script = "echo \"<$SET> <$FROM> <$COUNT> <$MORE> <$PROBE_ERA> <$(pwd)>\" >&2; exec \"$0\" serve";
    let entry = json!({
        "command": "sh", "args": ["-c", script, PROBE],
        "env": {"SET": "a=b", "FROM": "${PROBE_SECRET}", "COUNT": 3, "MORE": "file"},
        "cwd": "${workspaceFolder}/inner",
    });
    let file = directory.write(".vscode/mcp.json", &json!({"servers": {"sh": entry}}).to_string());
    fs::create_dir(directory.path().join("inner")).expect("a directory");
    let inner = fs::canonicalize(directory.path().join("inner")).expect("a path");
    let command = ["ping", "-n", "1", "--stderr", "inherit", "--env", "MORE=line"];
    let done = probe_config(&command, &file, "sh").assert_ok();
    done.assert_stderr(&[&format!("<a=b> <hunter2> <3> <line> <> <{}>", inner.display())]);
}

// covers: SEC-019
#[test]
fn remote_server_gets_its_header_fields() {
    let directory = TemporaryDirectory::new();
    let server = RecordingServer::new(404);
    let entry = json!({
        "type": "http", "url": server.url.replace("/mcp", "/${PROBE_ERA}"),
        "headers": {"Authorization": "Bearer ${env:PROBE_SECRET}", "X-Team": "blue", "X-Other": "kept"},
    });
    let file = directory.write("mcp.json", &json!({"mcpServers": {"remote": entry}}).to_string());
    for command in [&["ping"][..], &["check", "--timeout", "1s"]] {
        let args = [command, &["--trace", "--header", "x-team: red"]].concat();
        let done = probe_config(&args, &file, "remote");
        let heads = server.take_heads();
        assert!(!heads.is_empty(), "{done}");
        for head in heads {
            for want in
                ["POST /legacy ", "Authorization: Bearer hunter2\r\n", "x-team: red\r\n", "X-Other: kept\r\n"]
            {
                // `check` asks once without credentials, to see the challenge.
                let is_bare = head.ends_with(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
                let may_lack = is_bare && want.starts_with("Authorization") && command[0] == "check";
                assert!(head.contains(want) || may_lack || !head.starts_with("POST"), "no {want:?}: {head}");
            }
            assert!(!head.contains("blue"), "{head}");
        }
        for secret in ["hunter2", "red\n", "kept"] {
            assert!(!done.stderr.contains(secret) && !done.stdout.contains(secret), "{done}");
        }
    }
}

// covers: SEC-019
#[test]
fn invalid_file_is_refused_with_file_and_member() {
    let directory = TemporaryDirectory::new();
    let entry = |value: Value| json!({"mcpServers": {"a": value, "b": {"command": "x"}}}).to_string();
    let cases = [
        ("{\"mcpServers\": {\n \"a\" 1}}".to_owned(), ": is not valid JSON: expected `:` at line 2 column 6"),
        ("# Codex\n[mcp_servers.a]\ncommand = \"x\"\n".to_owned(), ": is TOML, and has to be JSON"),
        ("model = \"o\"\n[mcp_servers.a]\n".to_owned(), ": is TOML, and has to be JSON"),
        ("mcpServers:\n  a:\n    command: x\n".to_owned(), ": is YAML, and has to be JSON"),
        ("[1, 2".to_owned(), ": is not valid JSON"),
        (json!({"other": 1}).to_string(), ": has no `mcpServers` and no `servers`"),
        (json!({"mcpServers": []}).to_string(), ": mcpServers: must be an object"),
        (json!({"servers": {}}).to_string(), ": servers: has no servers"),
        (
            json!({"mcpServers": {"b": {}, "c": {}}}).to_string(),
            "mcpServers: there is no server `a`; there are: b, c",
        ),
        (entry(json!("hunter2")), "mcpServers.a: must be an object"),
        (entry(json!({})), "mcpServers.a: has neither `command` nor `url`"),
        (entry(json!({"type": "stdio"})), "mcpServers.a: has no `command`"),
        (entry(json!({"type": "hunter2"})), "mcpServers.a.type: must be stdio, http or sse"),
        (entry(json!({"command": ["hunter2"]})), "mcpServers.a.command: must be a string"),
        (entry(json!({"command": "x", "args": "hunter2"})), "mcpServers.a.args: must be an array of strings"),
        (entry(json!({"command": "x", "args": ["y", 5]})), "mcpServers.a.args[1]: must be a string"),
        (
            entry(json!({"command": "x", "env": ["hunter2"]})),
            "mcpServers.a.env: must be an object of strings",
        ),
        (entry(json!({"command": "x", "env": {"K": true}})), "mcpServers.a.env.K: must be a string"),
        (
            entry(json!({"command": "${PROBE_NONE}"})),
            "mcpServers.a.command: the variable PROBE_NONE: it is not set",
        ),
        (entry(json!({"command": "x", "args": ["${input:key}"]})), "mcpServers.a.args[0]: ${input:key}"),
        (entry(json!({"url": "hunter2"})), "mcpServers.a.url: must be an http or https URL"),
        (entry(json!({"url": 5})), "mcpServers.a.url: must be a string"),
        (
            entry(json!({"url": "http://localhost/", "headers": {"Mcp-Name": "hunter2"}})),
            "mcpServers.a.headers.Mcp-Name: the client sets this field itself",
        ),
        (
            entry(json!({"url": "http://localhost/", "headers": {"X": "hunter2\n"}})),
            "mcpServers.a.headers.X: the field value has characters that are not allowed",
        ),
    ];
    for (text, wanted) in cases {
        let file = directory.write("mcp.json", &text);
        for command in ["inspect", "check", "bridge"] {
            let done = probe_config(&[command], &file, "a").assert_code(2).assert_stderr(&[&file, wanted]);
            assert!(!done.stderr.contains("hunter2"), "{done}");
        }
    }
    let file = directory.write("large.json", &" ".repeat((1 << 20) + 1));
    probe_config(&["ping"], &file, "a")
        .assert_code(2)
        .assert_stderr(&[&file, "is larger than 1048576 bytes"]);
    let file = directory.write("two.json", &entry(json!({"command": "x"})));
    let choose = "choose a server with --server NAME; there are: a, b";
    probe(&["ping", "--config", &file]).assert_code(2).assert_stderr(&[&file, choose]);
    let none = directory.path().join("none.json");
    let none = none.to_str().expect("UTF-8");
    probe_config(&["ping"], none, "a").assert_code(2).assert_stderr(&[none]);
    probe(&["ping", "--server", "a"]).assert_code(2).assert_stderr(&["--config"]);
    probe(&["ping", "--config", &file, "--", "x"])
        .assert_code(2)
        .assert_stderr(&["leave the URL or the command out"]);
    probe(&["ping", "--config", &file, "http://localhost/"]).assert_code(2);
    probe(&["ping"]).assert_code(2).assert_stderr(&["its URL", "-- CMD", "--config FILE --server NAME"]);
}

#[test]
fn unsupported_member_of_an_entry_is_noted() {
    let directory = TemporaryDirectory::new();
    let entry = json!({"command": PROBE, "args": ["serve"], "envFile": "${workspaceFolder}/.env"});
    let file = directory.write("mcp.json", &json!({"servers": {"demo": entry}}).to_string());
    let done = probe_config(&["ping", "-n", "1"], &file, "demo").assert_ok();
    done.assert_stderr(&["note:", &file, "servers.demo.envFile is not read"]);
    let entry = json!({
        "command": PROBE, "args": ["serve"], "timeout": 5, "autoApprove": ["x"], "disabled": false, "enabled": true,
    });
    let file = directory.write("mcp.json", &json!({"servers": {"demo": entry}}).to_string());
    let done = probe_config(&["ping", "-n", "1"], &file, "demo").assert_ok();
    done.assert_stderr(&["servers.demo: members that are not followed: autoApprove, timeout\n"]);
}
