use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
use super::*;
use crate::model::Role;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

// covers: RES-003, RES-004, RES-008, RES-009
#[test]
fn resource_lists_round_trip() {
    let annotations = Annotations::new().audience([Role::Assistant]).last_modified("2025-01-01T00:00:00Z");
    let resource = Resource::new("chart://n/1", "n1")
        .title("N 1")
        .description("d")
        .mime_type("image/png")
        .size(1u64 << 40)
        .annotations(annotations.clone())
        .icons([Icon::new("https://x.example/i")])
        .meta(raw("{}"));
    let template = ResourceTemplate::new("chart://{sea}/{n}", "charts")
        .title("Charts")
        .description("d")
        .mime_type("image/png")
        .annotations(annotations)
        .icons([Icon::new("https://x.example/i")])
        .meta(raw("{}"));
    assert_round_trip(&resource);
    assert_round_trip(&template);
    assert_round_trip(
        &ListResourcesResult::new(alloc::vec![resource])
            .next_cursor("c")
            .ttl_ms(-1)
            .cache_scope(CacheScope::Private)
            .result_type(ResultType::Complete)
            .meta(raw("{}")),
    );
    assert_round_trip(
        &ListResourceTemplatesResult::new(alloc::vec![template])
            .next_cursor("c")
            .ttl_ms(0)
            .cache_scope("shared")
            .result_type(ResultType::Complete)
            .meta(raw("{}")),
    );
    assert_missing::<Resource>(r#"{"uri":"a:b"}"#, "name");
    assert_missing::<ResourceTemplate>(r#"{"name":""}"#, "uriTemplate");
    // A list of tests for 2025-03-26 allows it.
    let unnamed: ResourceTemplate =
        serde_json::from_str(r#"{"uriTemplate":"chart://{n}"}"#).expect("a template");
    assert_eq!(unnamed, ResourceTemplate::new("chart://{n}", "chart://{n}"));
    assert_missing::<ListResourcesResult>("{}", "resources");
    assert_missing::<ListResourceTemplatesResult>("{}", "resourceTemplates");
}

// covers: RES-005, RES-006, CONT-003
#[test]
fn resource_contents_are_text_or_blob() {
    let contents = |text: &str| serde_json::from_str::<ResourceContents<'_>>(text).map(|c| c.into_owned());
    let text = TextResourceContents::new("a:b", "x").mime_type("text/plain").meta(raw("{}"));
    let blob = BlobResourceContents::new("a:b", "aGk=").mime_type("image/png").meta(raw("{}"));
    for one in [ResourceContents::from(text.clone()), blob.clone().into()] {
        assert_borrowed_round_trip(&one, contents);
        assert_eq!((one.uri(), one.as_text().is_some()), ("a:b", one.mime_type() == Some("text/plain")));
    }
    assert_borrowed_round_trip(&text, |t| {
        serde_json::from_str::<TextResourceContents<'_>>(t).map(|c| c.into_owned())
    });
    assert_borrowed_round_trip(&blob, |t| {
        serde_json::from_str::<BlobResourceContents<'_>>(t).map(|c| c.into_owned())
    });
    assert_missing::<ResourceContents<'_>>(r#"{"uri":"a:b"}"#, "text");
    assert_missing::<ResourceContents<'_>>(r#"{"text":"x"}"#, "uri");
    assert_missing::<BlobResourceContents<'_>>(r#"{"uri":"a:b"}"#, "blob");
    // Both members at once: the text counts, and the blob is kept in `extra`.
    let both = r#"{"uri":"a:b","text":"x","blob":"eA=="}"#;
    assert_eq!(serde_json::to_string(&contents(both).expect("contents")).expect("JSON"), both);
    let read = |t: &str| serde_json::from_str::<ReadResourceResult<'_>>(t).map(|r| r.into_owned());
    assert_borrowed_round_trip(
        &ReadResourceResult::new([text.into(), blob.into()])
            .ttl_ms(1)
            .cache_scope(CacheScope::Public)
            .result_type(ResultType::Complete)
            .meta(raw("{}")),
        read,
    );
    assert_borrowed_round_trip(&ReadResourceResult::new([]), read);
    assert_missing::<ReadResourceResult<'_>>("{}", "contents");
    let borrows = r#"{"contents":[{"uri":"a:b","text":"x"}]}"#;
    let result: ReadResourceResult<'_> = serde_json::from_str(borrows).expect("a result");
    assert!(matches!(&result.contents[0], ResourceContents::Text(t) if matches!(t.text, Cow::Borrowed(_))));
}

// covers: RES-005, RES-010, RES-011, RES-013
#[test]
fn resource_requests_and_notifications_round_trip() {
    assert_borrowed_round_trip(&ReadResourceParams::new("a:b").request_state("s").meta(raw("{}")), |t| {
        serde_json::from_str::<ReadResourceParams<'_>>(t).map(|p| p.into_owned())
    });
    assert_round_trip(&SubscribeParams::new("a:b").meta(raw("{}")));
    assert_round_trip(&ResourceUpdatedParams::new("a:b").meta(raw("{}")));
    assert_missing::<ReadResourceParams<'_>>("{}", "uri");
    assert_missing::<SubscribeParams>("{}", "uri");
    assert_missing::<ResourceUpdatedParams>("{}", "uri");
}
