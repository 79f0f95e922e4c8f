use super::super::for_tests::{borrowed, missing};
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

/// Every kind, with everything that it can have
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
fn every_kind_is_written_and_read_back() {
    for block in every_kind() {
        borrowed(&block, content);
        let text = borrowed(&block, content);
        // The kind need not come first.
        let (kind, rest) = text[1..].split_once(',').expect("members");
        let turned = format!("{{{},{kind}}}", &rest[..rest.len() - 1]);
        assert_eq!(content(&turned).expect("a block"), block, "{turned}");
    }
    borrowed(&TextContent::new("x"), |t| serde_json::from_str::<TextContent<'_>>(t).map(|c| c.into_owned()));
}

// covers: CONT-001
#[test]
fn what_is_missing_or_wrong_is_named() {
    missing::<Content<'_>>(r#"{"text":"x"}"#, "type");
    missing::<Content<'_>>(r#"{"type":"text"}"#, "text");
    missing::<Content<'_>>(r#"{"type":"image","data":""}"#, "mimeType");
    missing::<Content<'_>>(r#"{"mimeType":"","type":"audio"}"#, "data");
    missing::<Content<'_>>(r#"{"type":"resource_link","uri":""}"#, "name");
    missing::<Content<'_>>(r#"{"type":"resource"}"#, "resource");
    missing::<TextContent<'_>>(r#"{"text":"x"}"#, "type");
    for (text, path) in [
        (r#"{"type":"text","text":1}"#, "`text`: invalid type: integer `1`, expected a string"),
        (r#"{"text":1,"type":"text"}"#, "`text`: invalid type: integer `1`, expected a string"),
        (r#"{"type":1}"#, "`type`: invalid type: integer `1`"),
        (r#"{"type":"resource","resource":{"uri":1,"text":""}}"#, "`resource.uri`: invalid type: integer"),
        (
            r#"{"type":"text","text":"","annotations":{"priority":"x"}}"#,
            "`annotations.priority`: invalid type",
        ),
        (
            r#"{"type":"resource_link","uri":"","name":"","size":-1}"#,
            "`size`: `-1` is not an integer from 0 on",
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
    assert!(format!("{kind}").starts_with("`type`: it is not `text`"), "{kind}");
}

// covers: CONT-007
#[test]
fn an_unknown_kind_is_kept() {
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
fn strings_are_borrowed_where_they_can_be() {
    let text = r#"{"type":"image","data":"aGk=","mimeType":"image\/png"}"#;
    let Ok(Content::Image(image)) = serde_json::from_str::<Content<'_>>(text) else { panic!("an image") };
    assert!(matches!(image.data, Cow::Borrowed("aGk=")));
    assert!(matches!(&image.mime_type, Cow::Owned(owned) if owned == "image/png"));
}

#[test]
fn nesting_is_bounded_whatever_comes_first() {
    // Text that nobody has checked before: what stands before the kind is read when the kind is known.
    let deep = |n: usize| format!("{}{}", r#"{"a":"#.repeat(n), "}".repeat(n));
    for kind in ["text", "new"] {
        let text = format!(r#"{{"x":{},"type":"{kind}","text":""}}"#, deep(100_000).replace("}}", "1}}"));
        assert!(content(&text).is_err());
    }
}

// covers: TOOL-013
#[test]
fn one_block_stands_without_an_allocation() {
    let read = |text: &str| serde_json::from_str::<Blocks<'_>>(text).map(|b| b.into_owned()).expect("blocks");
    let block = r#"{"type":"text","text":"a"}"#;
    assert!(matches!(read(&format!("[{block}]")), Blocks::One(_)));
    assert!(read("[]").is_empty());
    assert_eq!(read(&format!("[{block},{block},{block}]")).len(), 3);
    assert_eq!(read(&format!("[{block}]")), Blocks::Many(vec![Content::text("a")]));
    assert!(serde_json::from_str::<Blocks<'_>>("{}").is_err());
    let owned: String = Content::from("a").as_text().expect("text").into();
    assert_eq!(owned, "a");
}

#[test]
fn blocks_are_small() {
    assert!(size_of::<Content<'_>>() <= 136, "{}", size_of::<Content<'_>>());
}

// covers: CONT-002, RES-020
#[cfg(feature = "base64")]
#[test]
fn bytes_go_out_in_base64() {
    let (bytes, text) = ([0xfb, 0xff, 0], "+/8A");
    assert_eq!(Content::image_bytes(&bytes, "image/png"), Content::image(text, "image/png"));
    assert_eq!(Content::audio_bytes(&bytes, "audio/wav"), Content::audio(text, "audio/wav"));
    assert_eq!(ResourceContents::blob_bytes("a:b", &bytes), ResourceContents::blob("a:b", text));
}
