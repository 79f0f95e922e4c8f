use super::super::test_support::{assert_borrowed_round_trip, assert_missing};
use super::*;
use crate::model::{IconTheme, Role};
use alloc::format;
use alloc::string::String;
use alloc::vec;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn annotations() -> Annotations {
    Annotations::new().audience([Role::User]).priority(0.25)
}

fn content(text: &str) -> serde_json::Result<Content<'static>> {
    serde_json::from_str::<Content<'_>>(text).map(|c| c.into_owned())
}

/// Every kind of block with all its members.
pub(in crate::model) fn every_kind() -> Vec<Content<'static>> {
    vec![
        TextContent::new("t\"e\n").annotations(annotations()).meta(raw("{}")).into(),
        ImageContent::new("aGk=", "image/png").annotations(annotations()).meta(raw("{}")).into(),
        AudioContent::new("aGk=", "audio/wav").annotations(annotations()).meta(raw("{}")).into(),
        ResourceLink::new("a:b", "n")
            .title("t")
            .description("d")
            .mime_type("text/plain")
            .size(7u32)
            .annotations(annotations())
            .icons([Icon::new("data:,").theme(IconTheme::Light)])
            .meta(raw("{}"))
            .into(),
        EmbeddedResource::new(ResourceContents::text("a:b", "x"))
            .annotations(annotations())
            .meta(raw("{}"))
            .into(),
        EmbeddedResource::new(ResourceContents::blob("a:b", "aGk=")).into(),
    ]
}

// covers: CONT-001, CONT-002, CONT-003, CONT-006
#[test]
fn every_content_kind_round_trips() {
    for block in every_kind() {
        assert_borrowed_round_trip(&block, content);
        let text = assert_borrowed_round_trip(&block, content);
        // The kind need not come first.
        let (kind, rest) = text[1..].split_once(',').expect("members");
        let turned = format!("{{{},{kind}}}", &rest[..rest.len() - 1]);
        assert_eq!(content(&turned).expect("a block"), block, "{turned}");
    }
    assert_borrowed_round_trip(&TextContent::new("x"), |t| {
        serde_json::from_str::<TextContent<'_>>(t).map(|c| c.into_owned())
    });
}

// covers: CONT-001
#[test]
fn content_error_names_missing_or_wrong_member() {
    assert_missing::<Content<'_>>(r#"{"text":"x"}"#, "type");
    assert_missing::<Content<'_>>(r#"{"type":"text"}"#, "text");
    assert_missing::<Content<'_>>(r#"{"type":"image","data":""}"#, "mimeType");
    assert_missing::<Content<'_>>(r#"{"mimeType":"","type":"audio"}"#, "data");
    assert_missing::<Content<'_>>(r#"{"type":"resource_link","uri":""}"#, "name");
    assert_missing::<Content<'_>>(r#"{"type":"resource"}"#, "resource");
    assert_missing::<TextContent<'_>>(r#"{"text":"x"}"#, "type");
    for (text, path) in [
        (r#"{"type":"text","text":1}"#, "`text`: invalid type: integer `1`, expected a string"),
        (r#"{"text":1,"type":"text"}"#, "`text`: invalid type: integer `1`, expected a string"),
        (r#"{"type":1}"#, "`type`: invalid type: integer `1`"),
        (r#"{"type":"resource","resource":{"uri":1,"text":""}}"#, "`resource.uri`: invalid type: integer"),
        (
            r#"{"type":"resource_link","uri":"","name":"","size":-1}"#,
            "`size`: `-1` is not a non-negative 64-bit integer",
        ),
        (r#"[]"#, "invalid type: sequence, expected a Content object"),
        (r#"{"type":"text","text":"","type":"text"}"#, "duplicate field `type`"),
        (r#"{"x":1,"type":"new","type":"new"}"#, "duplicate field `type`"),
        (r#"{"x":1,"type":"new","x":2}"#, "duplicate field `x`"),
    ] {
        let error = content(text).expect_err(text);
        assert!(format!("{error}").starts_with(path), "{text}: {error}");
    }
    let kind = serde_json::from_str::<TextContent<'_>>(r#"{"type":"image","text":""}"#).expect_err("wrong");
    assert!(format!("{kind}").starts_with("`type`: expected `text`"), "{kind}");
}

// covers: CONT-007
#[test]
fn unknown_content_kind_is_kept() {
    for text in [r#"{"type":"new","x":1}"#, r#"{"type":"","a":{"b":[null]},"c":"\"\n"}"#] {
        let read = content(text).expect("kept");
        assert!(matches!(&read, Content::Other(raw) if raw.as_str() == text), "{read:?}");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
        assert_eq!(read.as_text(), None);
    }
    let turned = content(r#"{"x":1,"type":"new","y":2}"#).expect("kept");
    assert!(matches!(&turned, Content::Other(raw) if raw.as_str() == r#"{"type":"new","x":1,"y":2}"#));
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let text = r#"{"type":"image","data":"aGk=","mimeType":"image\/png"}"#;
    let Ok(Content::Image(image)) = serde_json::from_str::<Content<'_>>(text) else { panic!("an image") };
    assert!(matches!(image.data, Cow::Borrowed("aGk=")));
    assert!(matches!(&image.mime_type, Cow::Owned(owned) if owned == "image/png"));
}

#[test]
fn nesting_before_kind_is_bounded() {
    // The input was not checked before: members before the kind are read after it is known.
    let deep = |n: usize| format!("{}{}", r#"{"a":"#.repeat(n), "}".repeat(n));
    for kind in ["text", "new"] {
        let text = format!(r#"{{"x":{},"type":"{kind}","text":""}}"#, deep(100_000).replace("}}", "1}}"));
        assert!(content(&text).is_err());
    }
}

// covers: TOOL-013
#[test]
fn single_block_needs_no_vector() {
    let read =
        |text: &str| serde_json::from_str::<ContentBlocks<'_>>(text).map(|b| b.into_owned()).expect("blocks");
    let block = r#"{"type":"text","text":"a"}"#;
    assert!(matches!(read(&format!("[{block}]")), ContentBlocks::One(_)));
    assert!(read("[]").is_empty());
    assert_eq!(read(&format!("[{block},{block},{block}]")).len(), 3);
    assert_eq!(read(&format!("[{block}]")), ContentBlocks::Many(vec![Content::text("a")]));
    assert!(serde_json::from_str::<ContentBlocks<'_>>("{}").is_err());
    let owned: String = Content::from("a").as_text().expect("text").into();
    assert_eq!(owned, "a");
}

#[test]
fn content_block_size_is_bounded() {
    assert!(size_of::<Content<'_>>() <= 136, "{}", size_of::<Content<'_>>());
}

// covers: CONT-002, RES-020
#[test]
fn bytes_are_encoded_in_base64() {
    let (bytes, text) = ([0xfb, 0xff, 0], "+/8A");
    assert_eq!(Content::image_bytes(&bytes, "image/png"), Content::image(text, "image/png"));
    assert_eq!(Content::audio_bytes(&bytes, "audio/wav"), Content::audio(text, "audio/wav"));
    assert_eq!(ResourceContents::blob_bytes("a:b", &bytes), ResourceContents::blob("a:b", text));
}
