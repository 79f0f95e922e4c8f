//! Tests of what tools and resources say about apps.

use alloc::string::ToString;

use super::super::test_support::assert_round_trip;
use super::super::{BlobResourceContents, TextResourceContents};
use super::*;

fn json(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn tool(meta: &'static str) -> Tool {
    Tool::new("t", json(r#"{"type":"object"}"#)).meta(json(meta))
}

const MODEL: &UiToolVisibility = &UiToolVisibility::Model;
const APP: &UiToolVisibility = &UiToolVisibility::App;

// covers: APP-005, APP-009, APP-010, APP-011, APP-012
#[test]
fn all_members_round_trip() {
    let ui =
        UiToolMeta::new().resource_uri("ui://a/b").visibility([UiToolVisibility::Model, "future".into()]);
    let text = assert_round_trip(&ui);
    assert_eq!(text, r#"{"resourceUri":"ui://a/b","visibility":["model","future"]}"#);
    let domains = |name: &str| Vec::from([String::from(name)]);
    let csp = UiResourceCsp::new()
        .connect_domains(domains("wss://c"))
        .resource_domains(domains("https://*.r"))
        .frame_domains(domains("https://f"))
        .base_uri_domains(domains("https://b"));
    assert_round_trip(&csp);
    let permissions = UiResourcePermissions::new()
        .camera(Map::new())
        .microphone(Map::new())
        .geolocation(Map::new())
        .clipboard_write(Map::new());
    assert_eq!(
        assert_round_trip(&permissions),
        r#"{"camera":{},"microphone":{},"geolocation":{},"clipboardWrite":{}}"#
    );
    let page =
        UiResourceMeta::new().csp(csp).permissions(permissions).domain("x.example").prefers_border(false);
    assert_round_trip(&page);
    assert_round_trip(&UiClientCapabilities::html());
}

// covers: APP-005, APP-006
#[test]
fn tool_names_its_page_in_either_form() {
    let page = |meta| UiToolMeta::from_tool(&tool(meta)).expect("valid").resource_uri;
    assert_eq!(page("{}"), None);
    assert_eq!(UiToolMeta::from_tool(&Tool::new("t", json("{}"))), Ok(UiToolMeta::new()));
    assert_eq!(
        page(r#"{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://old"}"#).as_deref(),
        Some("ui://a")
    );
    assert_eq!(page(r#"{"ui/resourceUri":"ui://old"}"#).as_deref(), Some("ui://old"));
    assert_eq!(
        page(r#"{"ui":{"visibility":["app"]},"ui/resourceUri":"UI://old"}"#).as_deref(),
        Some("UI://old")
    );
    let kept = UiToolMeta::from_tool(&tool(r#"{"ui":{"future":1}}"#)).expect("valid");
    assert_eq!(kept.extra.get("future"), Some(&json("1")));
}

// covers: APP-001, APP-005, EXT-010
#[test]
fn wrong_members_are_named() {
    let rows = [
        (r#"{"ui":"dark"}"#, "`_meta.ui`: invalid type: string"),
        (r#"{"ui":{"resourceUri":5}}"#, "`_meta.ui.resourceUri`: invalid type: integer `5`"),
        (
            r#"{"ui":{"resourceUri":"https://a"}}"#,
            "`_meta.ui.resourceUri`: the URI of a page begins with `ui://`",
        ),
        (r#"{"ui/resourceUri":5}"#, "`_meta.ui/resourceUri`: must be a string"),
        (r#"{"ui/resourceUri":"ui:/a"}"#, "`_meta.ui/resourceUri`: the URI of a page begins with `ui://`"),
        (r#"{"ui":{"visibility":"app"}}"#, "`_meta.ui.visibility`: invalid type: string"),
        (
            r#"{"ui":{"visibility":["app"],"visibility":["model"]}}"#,
            "`_meta.ui`: duplicate field `visibility`",
        ),
    ];
    for (meta, expected) in rows {
        let error = UiToolMeta::from_tool(&tool(meta)).expect_err(meta).to_string();
        assert!(error.starts_with(expected), "{meta}: {error}");
    }
    let resource = Resource::app("ui://a", "a").meta(json(r#"{"ui":{"csp":{"connectDomains":"x"}}}"#));
    let error = UiResourceMeta::from_resource(&resource).expect_err("wrong").to_string();
    assert!(error.starts_with("`_meta.ui.csp.connectDomains`: invalid type: string"), "{error}");
    let contents =
        TextResourceContents::new("ui://a", "x").meta(json(r#"{"ui":{"permissions":{"camera":true}}}"#));
    let error = UiResourceMeta::from_contents(&contents.into()).expect_err("wrong").to_string();
    assert!(error.starts_with("`_meta.ui.permissions.camera`: invalid type: boolean"), "{error}");
}

// covers: APP-007, APP-008
#[test]
fn visibility_defaults_to_model_and_apps() {
    let rows = [
        ("{}", true, true),
        (r#"{"ui":{}}"#, true, true),
        (r#"{"ui":"dark"}"#, true, true),
        (r#"{"ui":{"visibility":null}}"#, true, true),
        (r#"{"ui":{"visibility":["model","app"]}}"#, true, true),
        (r#"{"ui":{"visibility":["model"]}}"#, true, false),
        (r#"{"ui":{"visibility":["app"],"resourceUri":5}}"#, false, true),
        (r#"{"ui":{"visibility":["future"]}}"#, false, false),
        (r#"{"ui":{"visibility":[]}}"#, false, false),
    ];
    for (meta, model, app) in rows {
        let tool = tool(meta);
        assert_eq!((tool.is_visible_to(MODEL), tool.is_visible_to(APP)), (Ok(model), Ok(app)), "{meta}");
        if let Ok(ui) = UiToolMeta::from_tool(&tool) {
            assert_eq!((ui.is_visible_to(MODEL), ui.is_visible_to(APP)), (model, app), "{meta}");
        }
    }
    assert_eq!(tool("{}").is_visible_to(&"future".into()), Ok(false));
    for (meta, expected) in [
        (r#"{"ui":{"visibility":"app"}}"#, "`_meta.ui.visibility`: "),
        (r#"{"ui":{"visibility":[1]}}"#, "`_meta.ui.visibility`: "),
        (r#"{"ui":{"visibility":["app"],"visibility":["model"]}}"#, "`_meta.ui`: "),
    ] {
        let error = tool(meta).is_visible_to(MODEL).expect_err(meta).to_string();
        assert!(error.starts_with(expected), "{meta}: {error}");
    }
}

#[test]
fn builders_keep_other_metadata() {
    let ui = UiToolMeta::new().resource_uri("ui://a");
    let tool = tool(r#"{"com.example/x":1,"ui":{"resourceUri":"ui://old"}}"#).ui(ui);
    assert_eq!(tool.meta.expect("meta").as_str(), r#"{"com.example/x":1,"ui":{"resourceUri":"ui://a"}}"#);
    let border = UiResourceMeta::new().prefers_border(true);
    let template = ResourceTemplate::new("ui://{x}", "x").meta(json("[1]")).ui(border.clone());
    assert_eq!(template.meta.expect("meta").as_str(), r#"{"ui":{"prefersBorder":true}}"#);
    assert_eq!(
        UiResourceMeta::from_resource(&Resource::app("ui://a", "a").ui(border.clone())),
        Ok(Some(border))
    );
    assert_eq!(UiResourceMeta::from_resource(&Resource::app("ui://a", "a")), Ok(None));
}

// covers: APP-009, APP-016
#[test]
fn contents_of_pages_get_the_metadata_of_their_resource() {
    let ui = json(r#"{"prefersBorder":true}"#);
    let complete = |mut contents: ResourceContents<'static>| {
        complete_contents(&mut contents, &ui);
        match contents {
            ResourceContents::Text(text) => text.meta.map(|meta| meta.to_string()),
            ResourceContents::Blob(blob) => blob.meta.map(|meta| meta.to_string()),
        }
    };
    let text = || TextResourceContents::new("ui://a", "<p>").mime_type(UI_MIME_TYPE);
    let added = Some(String::from(r#"{"ui":{"prefersBorder":true}}"#));
    assert_eq!(complete(text().into()), added);
    assert_eq!(complete(BlobResourceContents::new("ui://a", "PHA+").mime_type(UI_MIME_TYPE).into()), added);
    assert_eq!(complete(text().meta(json(r#"{"ui":{}}"#)).into()), Some(r#"{"ui":{}}"#.into()));
    assert_eq!(
        complete(text().meta(json(r#"{"x":1}"#)).into()),
        Some(r#"{"x":1,"ui":{"prefersBorder":true}}"#.into())
    );
    assert_eq!(complete(TextResourceContents::new("ui://a", "x").mime_type("text/plain").into()), None);
}

// covers: APP-012, APP-013
#[test]
fn client_settings_name_the_media_types_it_shows() {
    let supports = |settings: &'static str| UiClientCapabilities::is_html_supported(Some(&json(settings)));
    assert!(supports(r#"{"mimeTypes":["text/html;profile=mcp-app"],"features":["x"]}"#));
    assert!(supports(r#"{"mimeTypes":["a/b","TEXT/HTML; charset=utf-8; Profile=\"mcp-app\""]}"#));
    for settings in
        ["{}", "[]", r#"{"mimeTypes":[]}"#, r#"{"mimeTypes":["text/html"]}"#, r#"{"mimeTypes":"x"}"#]
    {
        assert!(!supports(settings), "{settings}");
    }
    assert!(!UiClientCapabilities::is_html_supported(None));
    assert!(!is_ui_mime_type("text/html;profile=mcp-apps") && !is_ui_mime_type("profile=mcp-app"));
    let error = UiClientCapabilities::from_settings(&json("{}")).expect_err("missing").to_string();
    assert!(error.starts_with("missing field `mimeTypes`"), "{error}");
    let error =
        UiClientCapabilities::from_settings(&json(r#"{"mimeTypes":[1]}"#)).expect_err("wrong").to_string();
    assert!(error.starts_with("`mimeTypes"), "{error}");
}

// covers: APP-001
#[test]
fn pages_have_the_scheme_ui() {
    assert!(is_ui_uri("ui://a") && is_ui_uri("UI://a"));
    for uri in ["ui:/a", "ui", "", "uix://a", "https://ui://a", "uí://"] {
        assert!(!is_ui_uri(uri), "{uri}");
    }
}
