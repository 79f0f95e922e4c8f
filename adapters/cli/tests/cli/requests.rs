//! The commands `read`, `prompt` and `complete`, and results of `call` that are not text.

use serde_json::json;

use crate::support::{PROBE, ProbeOutput, REVISIONS, probe, probe_command};

/// Runs `mcp-probe ARGS -- mcp-probe serve --everything`.
fn everything(args: &[&str]) -> ProbeOutput {
    probe(&[args, &["--", PROBE, "serve", "--everything"]].concat())
}

// covers: RES-005, RES-015, RES-016, RES-020
#[test]
fn read_prints_text_and_describes_binary_contents() {
    for (revision, era) in REVISIONS {
        let pin = ["--protocol-version", revision];
        let done = everything(&[&["read", "test://static-text"], &pin[..]].concat()).assert_ok();
        assert_eq!(done.stdout, "This is the content of the static text resource.\n");
        assert_eq!(done.stderr, "");
        let server = ["--", PROBE, "serve", "--everything"];
        let binary = [&["read", "test://static-binary"], &pin[..], &server].concat();
        let written = probe_command().args(binary).output().expect("it runs").stdout;
        assert!(written.starts_with(b"\x89PNG\r\n") && written.len() == 93, "{written:?}");
        let done = everything(&[&["read", "atlas://norway/oslo", "--json"], &pin[..]].concat()).assert_ok();
        let contents = json!([{
            "uri": "atlas://norway/oslo",
            "mimeType": "text/plain",
            "text": "oslo in norway has 724000 inhabitants.",
        }]);
        assert_eq!(done.json()["contents"], contents, "{done}");

        let done = everything(&[&["read", "test://nope", "--json"], &pin[..]].concat()).assert_code(1);
        let code = if era == "modern" { -32602 } else { -32002 };
        assert_eq!(done.json()["error"]["code"], code, "{done}");
        done.assert_stderr(&[&code.to_string(), "there are: test://static-text", "atlas://{country}/{city}"]);
    }
}

// covers: PROMPT-004, PROMPT-006, PROMPT-010
#[test]
fn prompt_prints_role_and_content_of_messages() {
    for (revision, _) in REVISIONS {
        let pin = ["--protocol-version", revision];
        let args = r#"{"country":"norway","days":"5"}"#;
        let done = everything(&[&["prompt", "travel_plan", "--args", args], &pin[..]].concat()).assert_ok();
        let want = "user          I want to spend 5 days in norway. What should I see?\n\
                    assistant     Let me think about what is there, and what lies on the way.\n";
        assert_eq!(done.stdout, want);
        let done = everything(&[&["prompt", "test_prompt_with_image"], &pin[..]].concat()).assert_ok();
        done.assert_stdout(&["user          [image, image/png, 93 bytes]\nuser          Please analyze"]);
        let done = everything(&[&["prompt", "test_simple_prompt", "--json"], &pin[..]].concat()).assert_ok();
        let text = json!({ "type": "text", "text": "This is a simple prompt for testing." });
        assert_eq!(done.json()["messages"], json!([{ "role": "user", "content": text }]), "{done}");
    }
    let done = everything(&["prompt", "travel_plan"]).assert_code(1);
    done.assert_stderr(&["-32602", "`country` is missing", "takes country, city?, days?"]);
    let done = everything(&["prompt", "travel"]).assert_code(1);
    done.assert_stderr(&["unknown prompt", "there are: test_simple_prompt,", "travel_plan"]);
}

// covers: COMP-002, COMP-003, COMP-004, COMP-006
#[test]
fn complete_prints_one_value_per_line() {
    for era in ["modern", "legacy"] {
        let era = ["--era", era];
        let done =
            everything(&[&["complete", "prompt:travel_plan", "country"], &era[..]].concat()).assert_ok();
        assert_eq!(done.stdout, "france\njapan\nnorway\nportugal\n");
        let ask = ["complete", "atlas://{country}/{city}", "city", "o", "--with", "country=norway"];
        let done = everything(&[&ask, &era[..]].concat()).assert_ok();
        assert_eq!(done.stdout, "oslo\ntromso\n");
        let done = everything(&[&ask[..4], &["--json"], &era[..]].concat()).assert_ok();
        assert_eq!(done.json()["completion"]["values"][0], "osaka", "{done}");
        let done =
            everything(&[&["complete", "prompt:travel_plan", "days", "1"], &era[..]].concat()).assert_ok();
        assert_eq!(done.stdout, "(no suggestions)\n");
    }
    let refused = |args: &[&str], wanted: &[&str]| {
        _ = everything(&[&["complete"], args].concat()).assert_code(1).assert_stderr(wanted)
    };
    refused(&["prompt:travel_plan", "colour"], &["no argument `colour`", "takes country, city?, days?"]);
    refused(&["prompt:travel", "country"], &["there is no prompt `travel`", "travel_plan"]);
    refused(
        &["atlas://{land}", "land"],
        &["there is no template `atlas://{land}`", "atlas://{country}/{city}"],
    );
}

#[test]
fn invalid_request_arguments_exit_with_2() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["prompt", "x", "--args", r#"{"days":3}"#], &["`days` must be a string", "write \"3\", not 3"]),
        (&["prompt", "x", "--args", "[]"], &["must be an object"]),
        (&["complete", "travel_plan", "country"], &["prompt:NAME"]),
        (&["complete", "prompt:p", "a", "", "--with", "country"], &["NAME=VALUE"]),
        (&["read"], &["<URI>"]),
    ];
    for (args, wanted) in cases {
        let done = everything(args).assert_code(2).assert_stderr(wanted);
        assert_eq!(done.stdout, "", "{done}");
    }
}

// covers: CONT-001, CONT-008, TOOL-018
#[test]
fn call_describes_content_that_is_not_text() {
    let picture = "Multiple content types test:\n[image, image/png, 93 bytes]\n\
                   [resource test://mixed-content-resource, application/json]\n{\"test\":\"data\",\"value\":123}\n";
    let done = everything(&["call", "test_multiple_content_types"]).assert_ok();
    assert_eq!(done.stdout, picture);
    let link = ["call", "city_link", "--args", r#"{"country":"norway","city":"oslo"}"#];
    let done = everything(&link).assert_ok();
    assert_eq!(done.stdout, "Read this:\n[link to atlas://norway/oslo, oslo, text/plain, oslo in norway]\n");
    // That revision has no resource links.
    let done = everything(&[&link[..], &["--protocol-version", "2025-03-26"]].concat()).assert_ok();
    done.assert_stdout(&["Read this:\noslo: atlas://norway/oslo"]);
}

// covers: TOOL-006, TOOL-026, RES-008, PROMPT-005, APP-005, APP-007, APP-009, APP-011
#[test]
fn inspect_shows_all_lists_and_annotations() {
    everything(&["inspect"]).assert_ok().assert_stdout(&[
        "capabilities  completions, events (listChanged), logging (deprecated), prompts (listChanged), \
         resources (listChanged, subscribe), tools (listChanged)\n",
        "extensions    io.modelcontextprotocol/events {\"listChanged\":true}\n",
        "              io.modelcontextprotocol/skills {\"directoryRead\":true}\n",
        "              io.modelcontextprotocol/tasks\n              io.modelcontextprotocol/ui\n",
        "tools (53)\n",
        "  find_cities  Find cities\n      Cities of the atlas, as a structured result\n",
        "filter.countries?       array of string ",
        "cities[].population  integer ≥ 0 ",
        "      hints    changes things, may destroy, may be repeated, stays inside\n",
        "resources (40)\n",
        "  test://static-binary  static-binary  image/png  93 bytes\n",
        "      is       for user and assistant, priority 0.2\n",
        "resource templates (2)\n",
        "  atlas://{country}/{city}  Cities  text/plain\n",
        "prompts (6)\n  test_simple_prompt\n      Says one thing\n",
        "      takes    country  string  Where to\n               city?    string  To one city only\n",
        "apps (2)\n  show_counter  ui://counter/page\n      for      model and app\n      asks for clipboard\n",
        "  raise_counter  ui://counter/page\n      for      app\n",
    ]);
}
