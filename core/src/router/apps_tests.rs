//! Tests of the apps of a router.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::model::{
    Resource, ResourceTemplate, Tool, UI_EXTENSION, UI_MIME_TYPE, UiResourceMeta, UiToolMeta,
};
use crate::raw::RawJson;

type Router = super::Router<()>;

fn plain_tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

fn tool(page: &str) -> Tool {
    plain_tool("t").ui(UiToolMeta::new().resource_uri(page))
}

fn problems(router: &Router, has_other_resources: bool) -> Vec<String> {
    match router.check_apps(has_other_resources) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(|error| error.to_string()).collect(),
    }
}

// covers: APP-001, APP-002
#[test]
fn pages_have_the_scheme_and_the_media_type() {
    let mut router = Router::new("s", "1");
    router.resource(Resource::app("ui://a", "a").ui(UiResourceMeta::new()), ()).unwrap();
    router.resource(Resource::new("https://a/html", "a").mime_type("text/html"), ()).unwrap();
    router.resource_template(ResourceTemplate::new("ui://t/{x}", "t").mime_type(UI_MIME_TYPE), ()).unwrap();
    let broken = RawJson::new(r#"{"ui":{"domain":1}}"#).unwrap();
    let rows = [
        (Resource::new("ui://b", "b"), "`ui://b`", "the media type of a page is `text/html;profile=mcp-app`"),
        (Resource::new("ui://b", "b").mime_type("text/html"), "`ui://b`", "the media type of a page is"),
        (Resource::app("https://b", "b"), "`https://b`", "the URI of a page begins with `ui://`"),
        (Resource::app("ui://b", "b").meta(broken), "`ui://b`", "`_meta.ui.domain`: invalid type: integer"),
    ];
    for (resource, name, reason) in rows {
        let error = router.resource(resource, ()).unwrap_err().to_string();
        let expected = format!("the resource {name} is not a valid part of an app: {reason}");
        assert!(error.starts_with(&expected), "{error}");
    }
    for family in [
        ResourceTemplate::new("ui://b/{x}", "b"),
        ResourceTemplate::new("https://b/{x}", "b").mime_type(UI_MIME_TYPE),
    ] {
        let error = router.resource_template(family, ()).unwrap_err().to_string();
        assert!(error.contains("is not a valid part of an app"), "{error}");
    }
    assert_eq!(problems(&router, false), [""; 0]);
}

// covers: APP-001, APP-002, APP-004
#[test]
fn pages_of_tools_exist() {
    let check = |page: &str, has_other_resources| {
        let mut router = Router::new("s", "1");
        router.resource(Resource::app("ui://Host/a", "a"), ()).unwrap();
        router.resource(Resource::app("ui://hidden", "a"), ()).unwrap();
        router.enable(crate::methods::EntryKind::Resource, "ui://hidden", false).unwrap();
        let family = ResourceTemplate::new("ui://family/{x}", "x").mime_type(UI_MIME_TYPE);
        router.resource_template(family, ()).unwrap();
        router.tool(tool(page), ()).unwrap();
        problems(&router, has_other_resources)
    };
    for page in ["ui://host/a", "ui://hidden", "ui://family/1"] {
        assert_eq!(check(page, false), [""; 0], "{page}");
    }
    let refused = |reason: &str| [format!("the tool `t` is not a valid part of an app: {reason}")];
    assert_eq!(check("ui://b", false), refused("its page `ui://b` is not registered"));
    assert_eq!(check("ui://b", true), [""; 0]);
    let scheme = "`_meta.ui.resourceUri`: the URI of a page begins with `ui://`";
    assert_eq!(check("https://b", true), refused(scheme));

    let mut router = Router::new("s", "1");
    router.tool(plain_tool("t"), ()).unwrap();
    router.tool_entry("t").meta(RawJson::new(r#"{"ui/resourceUri":"ui://old"}"#).unwrap());
    assert_eq!(problems(&router, false), refused("its page `ui://old` is not registered"));
}

// covers: APP-012, EXT-001, EXT-006
#[test]
fn extension_is_declared_by_routers_with_apps() {
    let mut router = Router::new("s", "1");
    router.tool(plain_tool("plain").meta(RawJson::empty_object()), ()).unwrap();
    assert!(!router.capabilities().has_extension(UI_EXTENSION));
    let mut inner = Router::new("s", "1");
    inner.tool(tool("ui://a"), ()).unwrap();
    assert!(inner.capabilities().has_extension(UI_EXTENSION));
    router.nest("inner", inner).unwrap();
    assert!(router.capabilities().has_extension(UI_EXTENSION));
    let settings = RawJson::new(r#"{"x":1}"#).unwrap();
    router.extension(UI_EXTENSION, settings.clone()).unwrap();
    assert!(router.capabilities().extensions().eq([(UI_EXTENSION, &settings)]));
    let mut pages = Router::new("s", "1");
    pages.resource(Resource::app("ui://a", "a"), ()).unwrap();
    assert!(pages.capabilities().has_extension(UI_EXTENSION));
}
