use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::*;
use crate::json::{EncodeError, Serializer};
use crate::model::*;
use crate::raw::RawJson;

const V1: Version = Version::V2024_11_05;
const V2: Version = Version::V2025_03_26;
const V3: Version = Version::V2025_06_18;
const V4: Version = Version::V2025_11_25;
const V5: Version = Version::V2026_07_28;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn shaped<T: Serialize>(value: &T, version: Version) -> String {
    let json = encode_for(version, value).expect("a form for it");
    assert!(RawJson::new(json.as_bytes().to_vec()).is_ok(), "well-formed: {json}");
    json.as_str().into()
}

fn refused<T: Serialize>(value: &T, version: Version) -> &'static str {
    match encode_for(version, value) {
        Err(EncodeError::NotInVersion { what, revision }) if revision == version.as_str() => what,
        other => panic!("{version}: {other:?}"),
    }
}

#[test]
fn shape_rules_are_sorted_and_have_effect() {
    assert!(rules::RULES.windows(2).all(|w| w[0].name < w[1].name), "each type once");
    for rule in rules::RULES {
        let everywhere = rule.revisions == 0b1_1111;
        let changes = !rule.members.is_empty() || rule.added.is_some();
        assert!(!everywhere || (changes && rule.substitutes.is_empty()), "{}", rule.name);
        assert!(everywhere || !rule.refusal.is_empty() || !rule.substitutes.is_empty(), "{}", rule.name);
        assert!(
            rule.members.iter().all(|(_, revisions)| *revisions & 0b1_1111 == *revisions),
            "{}",
            rule.name
        );
    }
}

// covers: TOOL-010
#[test]
fn success_says_so_in_2025_03_26() {
    let plain = CallToolResult::text("x");
    let structured = CallToolResult::structured(raw(r#"{"a":1}"#));
    for (result, has_failed) in [
        (&plain, Some(false)),
        (&structured, Some(false)),
        (&CallToolResult::content(Vec::new()).structured_content(raw("1")).meta(raw("{}")), Some(false)),
        (&CallToolResult::error("x"), Some(true)),
    ] {
        let read = |version| {
            let text = shaped(result, version);
            serde_json::from_str::<CallToolResult<'_>>(&text).expect("a result").into_owned()
        };
        assert_eq!(read(V2).is_error, has_failed);
        let others = [V1, V3, V4, V5].map(read);
        assert!(others.iter().all(|other| other.is_error == result.is_error));
        assert_eq!(read(V2).content, others[0].content);
    }
    assert_eq!(shaped(&plain, V2), r#"{"content":[{"type":"text","text":"x"}],"isError":false}"#);
}

#[test]
fn application_newtype_is_not_shaped() {
    #[derive(Serialize)]
    struct InitializeParams<T>(T);
    let text = shaped(&InitializeParams([("resultType", 1)]), V5);
    assert_eq!(text, r#"[["resultType",1]]"#);
}

// covers: TOOL-006, TOOL-009, META-026
#[test]
fn tool_members_missing_in_revision_are_omitted() {
    let all = Tool::new("t", raw(r#"{"type":"object"}"#))
        .title("T")
        .output_schema(raw(r#"{"type":"object"}"#))
        .annotations(ToolAnnotations::new().read_only_hint(true))
        .icons([Icon::new("data:,")])
        .execution(ToolExecution::new().task_support(TaskSupport::Optional))
        .meta(raw("{}"));
    let members = |tool: &Tool, version| {
        let mut names: Vec<String> = Vec::new();
        crate::json::object_members(shaped(tool, version).as_bytes(), |name, _| {
            names.push(String::from_utf8_lossy(name).into_owned());
        });
        names.join(" ")
    };
    assert_eq!(members(&all, V1), "name inputSchema");
    assert_eq!(members(&all, V2), "name inputSchema annotations");
    assert_eq!(members(&all, V3), "name inputSchema title outputSchema annotations _meta");
    assert_eq!(members(&all, V4), "name inputSchema title outputSchema annotations icons execution _meta");
    assert_eq!(members(&all, V5), "name inputSchema title outputSchema annotations icons _meta");
    for open in [r#"{"oneOf":[]}"#, r#"{"type":"array"}"#, r#"{"type":["object","null"]}"#, "{}"] {
        let open = all.clone().output_schema(raw(open));
        assert!(!members(&open, V4).contains("outputSchema") && !members(&open, V3).contains("outputSchema"));
        assert!(members(&open, V5).contains("outputSchema"));
    }
}

// covers: CONT-008
#[test]
fn content_kind_missing_in_revision_becomes_text() {
    let meta = || raw(r#"{"a":1}"#);
    let audio = Content::from(
        AudioContent::new("aGVsbG8=", "audio/wav")
            .annotations(Annotations::new().priority(1).last_modified("x"))
            .meta(meta()),
    );
    let text =
        r#"{"type":"text","text":"[audio left out: audio/wav, 5 bytes]","annotations":{"priority":1}}"#;
    assert_eq!(shaped(&audio, V1), text);
    assert_eq!(
        shaped(&audio, V2),
        r#"{"type":"audio","data":"aGVsbG8=","mimeType":"audio/wav","annotations":{"priority":1}}"#
    );
    let link =
        ResourceLink::new("berth://C/14", "C14").description("By \"the\" pier").icons([Icon::new("data:,")]);
    let text = r#"{"type":"text","text":"C14: berth://C/14\nBy \"the\" pier"}"#;
    assert_eq!(shaped(&link, V1), text);
    assert_eq!(shaped(&link, V2), text);
    assert!(!shaped(&link, V3).contains("icons") && shaped(&link, V4).contains("icons"));
    let titled = link.title("Berth C14");
    assert!(shaped(&titled, V2).contains("Berth C14: berth"));
    let message = GetPromptResult::new([PromptMessage::user(titled)]);
    assert!(shaped(&message, V1).starts_with(r#"{"messages":[{"role":"user","content":{"type":"text""#));
}

// covers: TOOL-013, TOOL-014
#[test]
fn structured_result_becomes_text_in_older_revisions() {
    let object = CallToolResult::content(Vec::new()).structured_content(raw(r#"{"a":"b"}"#)).is_error(false);
    let text = r#"{"content":[{"type":"text","text":"{\"a\":\"b\"}"}],"isError":false}"#;
    assert_eq!(shaped(&object, V1), text);
    assert_eq!(shaped(&object, V2), text);
    for version in [V3, V4, V5] {
        assert_eq!(
            shaped(&object, version),
            r#"{"content":[],"structuredContent":{"a":"b"},"isError":false}"#
        );
    }
    let list =
        CallToolResult::content(alloc::vec![Content::image("", "image/png")]).structured_content(raw("[1]"));
    for version in [V1, V4] {
        let text =
            r#"{"content":[{"type":"image","data":"","mimeType":"image/png"},{"type":"text","text":"[1]"}]}"#;
        assert_eq!(shaped(&list, version), text);
    }
    assert!(shaped(&list, V5).contains(r#""structuredContent":[1]"#));
    let both = CallToolResult::structured(raw("null"));
    assert_eq!(shaped(&both, V4), r#"{"content":[{"type":"text","text":"null"}]}"#);
    // A substitute for a whole result is scanned again for its protocol members.
    let mut out = b"...".to_vec();
    let metaed = both.meta(raw(r#"{"k":1}"#));
    let found = Serializer::object(&mut out, &metaed, table(V4)).expect("JSON");
    assert!(out[found.meta.expect("_meta")..].starts_with(b"\"k\":1}"));
}

// covers: SAMP-005, SAMP-006, SAMP-008, CONT-008
#[test]
fn sampling_with_tools_is_shaped_for_older_revisions() {
    let call = || SamplingContent::from(ToolUseContent::new("u1", "depth", raw(r#"{"at":"A"}"#)));
    let answer = ToolResultContent::new("u1", Vec::new()).is_error(true);
    let params = CreateMessageParams::new(
        [
            SamplingMessage::user("hi").meta(raw("{}")),
            SamplingMessage::assistant(alloc::vec![SamplingContent::text("so"), call()]),
            SamplingMessage::user(alloc::vec![SamplingContent::from(answer)]),
            SamplingMessage::user(Vec::new()),
        ],
        9u32,
    );
    assert_eq!(
        shaped(&params, V3),
        concat!(
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},"#,
            r#"{"role":"assistant","content":{"type":"text","text":"so"}},"#,
            r#"{"role":"assistant","content":{"type":"text","text":"[tool call u1: depth {\"at\":\"A\"}]"}},"#,
            r#"{"role":"user","content":{"type":"text","text":"[error of tool call u1]"}}],"maxTokens":9}"#
        )
    );
    assert!(shaped(&params, V4).contains(r#""content":[{"type":"tool_result""#));
    assert!(shaped(&params, V4).contains("_meta"), "of a message");
    let with_tools = params.tool_choice(ToolChoice::new());
    assert_eq!(refused(&with_tools, V3), "sampling with tools");
    assert!(shaped(&with_tools, V5).contains("toolChoice"));

    let result = |content: Vec<SamplingContent<'static>>| CreateMessageResult::new("assistant", content, "m");
    let words = result(alloc::vec![SamplingContent::text("a"), call()]);
    let text = r#"{"role":"assistant","content":{"type":"text","text":"a\n[tool call u1: depth {\"at\":\"A\"}]"},"model":"m"}"#;
    assert_eq!(shaped(&words, V1), text);
    assert_eq!(shaped(&words, V2), text.replace("\"m\"}", "\"m\",\"stopReason\":\"endTurn\"}"));
    assert_eq!(
        shaped(&words.clone().stop_reason(StopReason::MaxTokens), V2),
        text.replace("\"m\"}", "\"m\",\"stopReason\":\"maxTokens\"}")
    );
    let only = result(alloc::vec![ImageContent::new("", "image/png").into()]);
    assert!(shaped(&only, V1).contains(r#""content":{"type":"image""#));
    assert!(shaped(&only, V4).contains(r#""content":[{"type":"image""#));

    let value = ToolResultContent::new("u", Vec::new()).structured_content(raw("1"));
    assert!(shaped(&value, V4).contains(r#""content":[{"type":"text","text":"1"}]"#));
    assert!(shaped(&value, V3).starts_with(r#"{"type":"text","text":"[result of tool call u]"#));
    assert!(shaped(&value, V5).contains(r#""structuredContent":1"#));
}

// covers: ELIC-005, ELIC-008, ELIC-015, ELIC-032
#[test]
fn elicitation_is_shaped_for_each_revision() {
    let choice =
        TitledSingleSelectEnumSchema::new([EnumOption::new("s", "Sloop"), EnumOption::new("k", "Ketch")])
            .title("Rig")
            .default("s");
    let form = ElicitFormParams::new(
        "?",
        ElicitSchema::default()
            .field("rig", choice)
            .optional("n", StringSchema::new().default("x"))
            .schema("d"),
    )
    .mode(ElicitMode::Form)
    .meta(raw("{}"));
    assert_eq!(
        shaped(&form, V3),
        concat!(
            r#"{"message":"?","requestedSchema":{"type":"object","properties":{"rig":{"type":"string","#,
            r#""enum":["s","k"],"enumNames":["Sloop","Ketch"],"title":"Rig"},"n":{"type":"string"}},"#,
            r#""required":["rig"]},"_meta":{}}"#
        )
    );
    assert!(shaped(&form, V4).contains("oneOf") && shaped(&form, V4).contains("_meta"));
    assert!(!shaped(&form, V5).contains("_meta") && shaped(&form, V5).contains("\"mode\":\"form\""));
    assert_eq!(refused(&form, V2), "elicitation/create");
    let several = UntitledMultiSelectEnumSchema::new(UntitledEnumItems::new(["a".into()]));
    let form = ElicitFormParams::new("?", ElicitSchema::default().field("some", several));
    assert_eq!(refused(&form, V3), "a field with several choices");
    let answer = ElicitResult::accept([("some", alloc::vec![String::from("a")].into())]);
    assert_eq!(refused(&answer, V3), "a field with several choices");
    assert!(shaped(&answer, V4).contains(r#"{"some":["a"]}"#));

    let page = ElicitParams::url("Pay", "https://x.example");
    assert_eq!(refused(&page, V3), "elicitation by a web page without `elicitationId`");
    assert_eq!(refused(&page, V4), "elicitation by a web page without `elicitationId`");
    let page = ElicitUrlParams::new("Pay", "https://x.example").elicitation_id("e");
    assert_eq!(refused(&page, V3), "elicitation by a web page");
    assert!(shaped(&page, V4).contains("elicitationId") && !shaped(&page, V5).contains("elicitationId"));
}

// covers: LIFE-013, LIFE-014, ELIC-001, ELIC-003, EXT-009, ROOT-001
#[test]
fn capabilities_are_shaped_for_each_revision() {
    let mut client = ClientCapabilities::new()
        .roots(RootsCapability::new().list_changed(true))
        .sampling(SamplingCapability::new().tools(Map::new()))
        .elicitation(ElicitationCapability::new().form(Map::new()).url(Map::new()))
        .tasks(TasksCapability::new())
        .extensions([("a/b", raw("{}"))]);
    let old = r#"{"roots":{"listChanged":true},"sampling":{},"extensions":{"a/b":{}}}"#;
    assert_eq!(shaped(&client, V1), old);
    assert_eq!(
        shaped(&client, V3),
        r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"extensions":{"a/b":{}}}"#
    );
    assert!(shaped(&client, V4).ends_with(r#""tasks":{},"extensions":{"a/b":{}}}"#));
    assert_eq!(
        shaped(&client, V5),
        r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"a/b":{}}}"#
    );
    client.elicitation = Some(ElicitationCapability::new().url(Map::new()));
    assert_eq!(shaped(&client, V3), old, "there it would mean forms");
    assert!(shaped(&client, V4).contains(r#""elicitation":{"url":{}}"#));
    let server =
        ServerCapabilities::new().completions(Map::new()).logging(Map::new()).tasks(TasksCapability::new());
    assert_eq!(shaped(&server, V1), r#"{"logging":{}}"#);
    assert_eq!(shaped(&server, V2), r#"{"logging":{},"completions":{}}"#);
}

// covers: CACHE-001, BASE-026, MRTR-002, MRTR-014
#[test]
fn members_of_other_era_are_omitted() {
    let page = ListToolsResult::new(alloc::vec![])
        .ttl_ms(5)
        .cache_scope(CacheScope::Public)
        .result_type(ResultType::Complete);
    assert_eq!(shaped(&page, V4), r#"{"tools":[]}"#);
    assert_eq!(shaped(&page, V5), r#"{"tools":[],"ttlMs":5,"cacheScope":"public","resultType":"complete"}"#);
    let mut call = CallToolParams::new("t").request_state("s").input_responses(Map::new());
    call.task = Some(TaskMetadata::new());
    call.extra.insert("x", raw("1"));
    assert_eq!(shaped(&call, V3), r#"{"name":"t","x":1}"#);
    assert_eq!(shaped(&call, V4), r#"{"name":"t","task":{},"x":1}"#);
    assert_eq!(shaped(&call, V5), r#"{"name":"t","inputResponses":{},"requestState":"s","x":1}"#);
    assert_eq!(refused(&InputRequiredResult::new(), V4), "a result that asks for input");
    assert_eq!(refused(&SetLevelParams::new("info"), V5), "logging/setLevel");
}

// covers: ERR-005, ERR-009, RES-015, RES-016
#[test]
fn error_codes_follow_revision() {
    let code = |code, version| error_in_revision(&RpcError::new(code, "m"), version).code;
    for version in [V1, V2, V3, V4] {
        assert_eq!(code(-32002, version), -32002);
        assert_eq!(
            [code(-32020, version), code(-32021, version), code(-32022, version)],
            [-32600, -32600, -32602]
        );
    }
    assert_eq!(code(-32002, V5), -32602);
    assert_eq!([V1, V2, V3, V4, V5].map(|v| code(-32042, v)), [-32600, -32600, -32600, -32042, -32600]);
    for other in [-32700, -32601, -32603, -1, 7] {
        assert!([V1, V2, V3, V4, V5].into_iter().all(|v| code(other, v) == other));
    }
    let not_found = RpcError::resource_not_found("a:b");
    assert_eq!(error_in_revision(&not_found, V5).data, not_found.data, "all else stays");
}

#[test]
fn rule_lookup_finds_exactly_effective_rules() {
    for version in [V1, V2, V3, V4, V5] {
        let table = table(version).expect("a table");
        for rule in rules::RULES {
            let found = table.rule(&alloc::format!("$mcp::{}", rule.name));
            let lacks = |revisions: &u8| revisions & table.bit == 0;
            let matters = lacks(&rule.revisions)
                || rule.members.iter().any(|(_, revisions)| lacks(revisions))
                || rule.added.iter().any(|(revisions, ..)| !lacks(revisions));
            assert_eq!(found.map(|f| f.name), matters.then_some(rule.name), "{version}");
        }
        for other in ["Tool", "$mcp::", "$mcp::x", "$mcp::ModelHint", "", "$mcp::ToolX", "mcp::Tool"] {
            assert!(table.rule(other).is_none(), "{other}");
        }
    }
}
