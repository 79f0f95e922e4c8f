//! Digests, lock files, and every kind of change.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use mcp_proto::{EntryKind, RawJson};
use serde_json::{Value, json};

use super::{DefinitionDigest, PinError, Pins};

fn raw(value: &Value) -> RawJson {
    RawJson::encode(value).unwrap()
}

fn tools(all: &[Value]) -> Pins {
    let all: Vec<RawJson> = all.iter().map(raw).collect();
    Pins::new().entries(EntryKind::Tool, &all).unwrap()
}

fn told(then: &[Value], now: &[Value]) -> Vec<String> {
    tools(then).compare(&tools(now)).iter().map(ToString::to_string).collect()
}

#[test]
fn digest_is_of_the_canonical_form() {
    let digest = |text: &str| DefinitionDigest::of(&RawJson::new(text.to_owned()).unwrap()).unwrap();
    assert_eq!(digest(r#"{"b":"\u00e9", "a":1.0}"#), digest(r#"{"a":1,"b":"é"}"#));
    // By another program.
    let expected = "sha256:09ad9fd2fb648cb2f62141215828ea00a62c299db05d20aa9ade2f527a301cc6";
    assert_eq!(digest(r#"{"a":1,"b":"é"}"#).to_string(), expected);
    assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":2}"#));
}

#[test]
fn every_change_is_told() {
    let schema = |schema: Value| json!({ "name": "t", "inputSchema": schema });
    let property = |name: &str, of: Value| schema(json!({ "properties": { name: of } }));
    for (then, now, expected) in [
        (json!({ "name": "t" }), json!({ "name": "t", "description": "x" }), "`/description` was added"),
        (json!({ "name": "t", "title": "x" }), json!({ "name": "t" }), "`/title` was removed"),
        (
            json!({ "name": "t", "description": "a" }),
            json!({ "name": "t", "description": "b" }),
            "`/description` is another one",
        ),
        (
            json!({ "name": "t", "annotations": { "readOnlyHint": true } }),
            json!({ "name": "t", "annotations": { "readOnlyHint": false } }),
            "`/annotations/readOnlyHint` has flipped",
        ),
        (
            json!({ "name": "t", "icons": { "a/b": 1 } }),
            json!({ "name": "t", "icons": { "a/b": 2 } }),
            "`/icons/a~1b` is another one",
        ),
        (schema(json!({})), property("bcc", json!({})), "`/inputSchema/properties/bcc` was added"),
        (property("a", json!({})), schema(json!({})), "`/inputSchema/properties/a` was removed"),
        (
            property("a", json!({ "type": "integer" })),
            property("a", json!({ "type": "number" })),
            "`/inputSchema/properties/a/type` is wider",
        ),
        (
            property("a", json!({ "type": ["string", "null"] })),
            property("a", json!({ "type": "string" })),
            "`/inputSchema/properties/a/type` is narrower",
        ),
        (
            property("a", json!({ "enum": [1] })),
            property("a", json!({ "enum": [1, 2] })),
            "`/inputSchema/properties/a/enum` is wider",
        ),
        (
            property("a", json!({ "enum": [1] })),
            property("a", json!({ "enum": [2] })),
            "`/inputSchema/properties/a/enum` is another one",
        ),
        (schema(json!({})), schema(json!({ "required": ["a"] })), "`/inputSchema/required` is narrower"),
        (
            schema(json!({ "required": ["a", "b"] })),
            schema(json!({ "required": ["b"] })),
            "`/inputSchema/required` is wider",
        ),
        (
            schema(json!({ "additionalProperties": false })),
            schema(json!({})),
            "`/inputSchema/additionalProperties` is wider",
        ),
        (
            property("a", json!({ "items": {} })),
            property("a", json!({ "items": false })),
            "`/inputSchema/properties/a/items` is narrower",
        ),
        (
            property("a", json!({ "maxLength": 5 })),
            property("a", json!({ "maxLength": 6 })),
            "`/inputSchema/properties/a/maxLength` is wider",
        ),
        (
            property("a", json!({ "minimum": 5 })),
            property("a", json!({ "minimum": 6 })),
            "`/inputSchema/properties/a/minimum` is narrower",
        ),
        (
            property("a", json!({ "pattern": "x" })),
            property("a", json!({})),
            "`/inputSchema/properties/a/pattern` is wider",
        ),
        (
            property("a", json!({ "pattern": "x" })),
            property("a", json!({ "pattern": "y" })),
            "`/inputSchema/properties/a/pattern` is another one",
        ),
        (
            schema(json!({ "anyOf": [{}] })),
            schema(json!({ "anyOf": [{}, { "type": "null" }] })),
            "`/inputSchema/anyOf` is wider",
        ),
        (
            schema(json!({ "allOf": [{}] })),
            schema(json!({ "allOf": [{}, { "type": "null" }] })),
            "`/inputSchema/allOf` is narrower",
        ),
        (
            property("a", json!({ "description": "x" })),
            property("a", json!({ "description": "y" })),
            "`/inputSchema/properties/a/description` is another one",
        ),
    ] {
        assert_eq!(
            told(core::slice::from_ref(&then), &[now]),
            [format!("tool `t` has changed: {expected}")],
            "{then}"
        );
    }
}

#[test]
fn entries_come_go_and_change_their_names() {
    let [a, b, c] = ["a", "b", "c"].map(|name| json!({ "name": name, "description": name }));
    let renamed = json!({ "name": "z", "description": "a" });
    assert_eq!(told(&[a.clone(), b.clone()], &[b.clone(), a.clone()]), [""; 0]);
    assert_eq!(told(core::slice::from_ref(&a), &[a.clone(), c]), ["tool `c` is not pinned"]);
    assert_eq!(told(&[a.clone(), b.clone()], core::slice::from_ref(&a)), ["tool `b` is not there any more"]);
    assert_eq!(told(&[a, b.clone()], &[renamed, b]), ["tool `z` is `a` under another name"]);
    // Two with one text: each new name is one of them.
    let [x, y] = ["x", "y"].map(|name| json!({ "name": name }));
    assert_eq!(
        told(&[x, y], &[json!({ "name": "u" })]),
        ["tool `u` is `y` under another name", "tool `x` is not there any more"]
    );
    let then = Pins::new().instructions(Some("Be kind"));
    let changes = |now: Option<&str>| {
        then.compare(&Pins::new().instructions(now)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(changes(Some("Be kind")), [""; 0]);
    assert_eq!(changes(Some("Be quick")), ["the instructions of the server have changed"]);
    assert_eq!(changes(None), ["the instructions of the server are not there any more"]);
}

#[test]
fn every_entry_of_a_list_gets_its_verdict() {
    let pins = tools(&[json!({ "name": "a", "title": "A" }), json!({ "name": "b" }), json!({ "name": "c" })]);
    let now = [
        json!({ "title": "A", "name": "a" }),
        json!({ "name": "b", "title": "B" }),
        json!({ "name": "d" }),
        json!({ "title": "nameless" }),
        json!({ "name": "e" }),
        json!({ "name": "e" }),
    ];
    let checked = pins.check_list(EntryKind::Tool, &now.iter().map(raw).collect::<Vec<_>>());
    let told: Vec<String> = checked
        .values()
        .map(|verdict| verdict.as_ref().map_or_else(ToString::to_string, |()| String::new()))
        .collect();
    assert_eq!(
        told,
        [
            "",
            "tool `b` has changed: `/title` was added",
            "tool `c` is not there any more",
            "tool `d` is not pinned",
            "tool `e` cannot be compared: the tool `e` is listed twice",
        ]
    );
}

#[test]
fn what_cannot_be_pinned_is_refused() {
    let pinned = |texts: &[&str]| {
        let all: Vec<RawJson> = texts.iter().map(|text| RawJson::new((*text).to_owned()).unwrap()).collect();
        Pins::new().entries(EntryKind::Tool, &all)
    };
    assert!(matches!(pinned(&["{}"]), Err(PinError::Unnamed { member: "name", .. })));
    assert!(matches!(pinned(&["[]"]), Err(PinError::Unnamed { .. })));
    assert!(matches!(
        pinned(&[r#"{"name":"a"}"#, r#"{"name":"a","title":"b"}"#]),
        Err(PinError::Twice { .. })
    ));
    assert!(matches!(
        pinned(&[r#"{"name":"a","x":1e400}"#]),
        Err(PinError::Unnamed { .. } | PinError::Canonical { .. })
    ));
}

#[test]
fn lock_file_is_read_as_it_was_written_and_no_other() {
    let resource = raw(&json!({ "uri": "file:///a", "name": "A" }));
    let template = raw(&json!({ "uriTemplate": "file:///{x}", "name": "X" }));
    let pins = tools(&[json!({ "name": "b", "title": "é" }), json!({ "name": "a" })])
        .instructions(Some("Be kind"))
        .entries(EntryKind::Resource, &[resource])
        .and_then(|pins| pins.entries(EntryKind::ResourceTemplate, &[template]))
        .unwrap();
    let lock = serde_json::to_value(&pins).unwrap();
    assert_eq!(lock["tools"]["b"]["definition"]["title"], "é");
    assert_eq!(serde_json::from_value::<Pins>(lock.clone()).unwrap(), pins);
    assert_eq!(pins.names(EntryKind::Tool).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(pins.names(EntryKind::Prompt).count(), 0);
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut lock = lock.clone();
        change(&mut lock);
        serde_json::from_value::<Pins>(lock).unwrap_err().to_string()
    };
    for (expected, change) in [
        ("versions of version 2", &(|lock: &mut Value| lock["version"] = json!(2)) as &dyn Fn(&mut Value)),
        ("the digest of the tool `a` does not fit it", &|lock| {
            lock["tools"]["a"]["definition"]["title"] = json!("x")
        }),
        ("the tool `a` is defined as `c`", &|lock| lock["tools"]["a"]["definition"]["name"] = json!("c")),
        ("the digest of the lock file does not fit it", &|lock| lock["instructions"] = json!("Be quick")),
        ("unknown field `more`", &|lock| lock["more"] = json!(1)),
    ] {
        let expected = expected.replace("versions of version", "lock files of version");
        let told = refusal(change);
        assert!(told.contains(&expected), "{told}");
    }
    // An entry that is left out changes the digest of everything.
    let told = refusal(&|lock| _ = lock["tools"].as_object_mut().map(|tools| tools.remove("a")));
    assert_eq!(told, "the digest of the lock file does not fit it");
    assert_eq!(pins.digest().to_string(), lock["digest"].as_str().unwrap().to_owned());
}
