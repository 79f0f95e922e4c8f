//! `listen`: what is honoured, what changes, and how it ends

use core::time::Duration;

use serde_json::{Value, json};

use crate::support::{Done, PROBE, probe};

fn everything(args: &[&str]) -> Done {
    probe(&[&["listen"], args, &["--", PROBE, "serve", "--everything"]].concat())
}

// covers: SUB-002, SUB-006, SUB-012, RES-010, RES-011, RES-028
#[test]
fn changes_are_told_line_by_line() {
    for era in ["modern", "legacy"] {
        let done = everything(&["clock://running", "--count", "2", "--era", era]).ok();
        let want = "listening  tools, prompts, resources, clock://running\nchanged    clock://running\n\
                    changed    clock://running\nended      as many changes as were wanted\n";
        assert_eq!((&*done.stdout, &*done.stderr), (want, ""), "{era}");

        let done = everything(&["clock://running", "--count", "1", "--json", "--era", era]).ok();
        let lines: Vec<Value> = done.stdout.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["clock://running"]});
        let want = [
            json!({ "listening": filter }),
            json!({"changed": "resource", "uri": "clock://running"}),
            json!({"ended": "count"}),
        ];
        assert_eq!(lines, want, "{era}");

        let done = everything(&["--for", "300ms", "--era", era]).ok();
        assert!(done.took > Duration::from_millis(300), "{done}");
        assert_eq!(done.stdout, "listening  tools, prompts, resources\nended      the time is over\n");
    }
}

#[test]
fn what_changes_by_itself_is_told_on_every_runtime() {
    for (runtime, era) in
        [("threads", "modern"), ("threads", "legacy"), ("smol", "modern"), ("smol", "legacy")]
    {
        let ours = [PROBE, "serve", "--everything", "--runtime", runtime];
        let done =
            probe(&[&["listen", "clock://running", "--count", "2", "--era", era, "--"], &ours[..]].concat());
        done.ok().says(&["changed    clock://running", "as many changes as were wanted"]);
    }
}

#[test]
fn what_is_not_honoured_is_said() {
    for era in ["modern", "legacy"] {
        let done = probe(&["listen", "a:b", "--for", "0.1", "--era", era, "--", PROBE, "serve"]).ok();
        assert_eq!(done.stdout, "listening  tools\nended      the time is over\n");
        assert_eq!(done.stderr, "note: the server does not tell of prompts, resources, a:b\n");
    }
    for (args, wanted) in [(["--count", "0"], "--count"), (["--for", "0"], "longer than nothing")] {
        everything(&args).code(2).complains(&[wanted]);
    }
}

/// A legacy server that says these lines once it is ready, and then does `last`
#[cfg(unix)]
fn legacy(capabilities: &str, lines: &[&str], last: &str) -> Done {
    let welcome = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"x","version":"1"}}}}}}"#
    );
    let said: String = lines.iter().map(|line| format!("echo '{line}'\n")).collect();
    let script = format!("read -r l; echo '{welcome}'; read -r l\nsleep 0.3\n{said}{last}");
    probe(&["listen", "--for", "20s", "--era", "legacy", "--", "sh", "-c", &script])
}

/// A modern server that answers `subscriptions/listen` with these lines, in which ID is its id, and then does `last`
#[cfg(unix)]
fn modern(lines: &[&str], last: &str) -> Done {
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}}"#;
    let said: String =
        lines.iter().map(|line| format!("printf '%s\\n' '{line}' | sed \"s/ID/$id/g\"\n")).collect();
    let script = format!(
        "read -r l; printf '%s\\n' '{found}'; read -r l\nid=$(printf '%s' \"$l\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n{said}{last}"
    );
    probe(&["listen", "--for", "20s", "--era", "modern", "--", "sh", "-c", &script])
}

#[cfg(unix)]
const TOOLS: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

// covers: TOOL-019, SUB-015, STDIO-028
#[cfg(unix)]
#[test]
fn a_legacy_server_tells_and_is_lost() {
    let listens = r#"{"tools":{"listChanged":true}}"#;
    let done = legacy(listens, &[TOOLS], "exit 7").code(3);
    assert_eq!(done.stdout, "listening  tools\nchanged    tools\nended      the subscription is lost\n");
    done.complains(&["ended in the middle of the session", "exit status: 7"]);
    // Nothing of all this.
    let done = legacy("{}", &[], "cat >/dev/null").code(1);
    done.complains(&["the server tells of none of this: tools, prompts, resources"]);
}

// covers: SUB-003, SUB-006, SUB-013, SUB-015
#[cfg(unix)]
#[test]
fn a_modern_subscription_ends_well_or_is_lost() {
    let tagged = r#""_meta":{"io.modelcontextprotocol/subscriptionId":ID}"#;
    let acknowledged = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},{tagged}}}}}"#
    );
    let changed =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{tagged}}}}}"#);
    let farewell = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"resultType":"complete",{tagged}}}}}"#);
    let failed = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no more\u001b[2J"}}"#;

    let done = modern(&[&acknowledged, &changed, &farewell], "cat >/dev/null").ok();
    let told = "listening  tools\nchanged    tools\n";
    assert_eq!(done.stdout, format!("{told}ended      the server has ended the subscription\n"));
    done.complains(&["note: the server does not tell of prompts, resources"]);

    let done = modern(&[&acknowledged, &changed, failed], "cat >/dev/null").code(1);
    assert_eq!(done.stdout, format!("{told}ended      the subscription is lost\n"));
    done.complains(&["error: the subscription is lost: no more\\u001b[2J"]);

    let done = modern(&[&acknowledged, &changed], "exit 0").code(3);
    assert_eq!(done.stdout, format!("{told}ended      the subscription is lost\n"));
    done.complains(&["ended in the middle of the session"]);

    // Refused at once.
    let done = modern(&[failed], "cat >/dev/null").code(1);
    assert_eq!(done.stdout, "");
    done.complains(&["the server answered with an error: no more"]);
}
