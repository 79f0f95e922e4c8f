//! JSON-RPC envelopes, read by `serde_json` and `jiter`.

use jiter::JsonValue;
use mcp_proto::Limits;
use mcp_proto::internals::Message;
use mcp_proto::testing::for_each_text;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::compare::{Comparison, for_each_input};

const EXAMPLES: [&str; 7] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,-2.5e3,null,true]},"_meta":{"k":"é"}}}"#,
    r#"{"jsonrpc":"2.0","id":"a\u00e9\n","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"\ud83d\ude00"}}"#,
    r#" { "jsonrpc" : "2.0" , "id" : -7 , "result" : { "content" : [ ] , "isError" : false } } "#,
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no \"such\" method","data":{"a":[{}]}}}"#,
    r#"{"params":{"_meta":{"progressToken":1},"arguments":{}},"method":"x","id":0,"jsonrpc":"2.0"}"#,
    r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{"n":123456789012345678901234567890,"x":1e400}}"#,
];

const PIECES: [&str; 14] = [
    "{",
    "}",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":1",
    "\"id\":\"a\"",
    "\"method\":\"m\"",
    "\"params\":{}",
    "\"result\":{}",
    ",",
    " ",
    "\"i\\u0064\":2",
    "\"x\":[1]",
    "\"error\":{\"code\":1,\"message\":\"\"}",
    "null",
];

/// What may follow the first member of an envelope.
const MEMBERS: [&str; 11] = [
    ",\"id\":1",
    ",\"id\":\"\\u00e9\"",
    ",\"method\":\"m\"",
    ",\"params\":{}",
    ",\"params\":{\"_meta\":{\"k\":1},\"arguments\":{\"a\":[]}}",
    ",\"result\":{}",
    ",\"error\":{\"code\":1,\"message\":\"e\"}",
    ",\"error\":{\"message\":\"\\u00e9\",\"data\":[1],\"code\":-2}",
    ",\"x\":1",
    ",\"y\":null",
    " ",
];

/// The members of a message: names and values, in the spelling of one reader.
type Members = Vec<(&'static str, Option<String>)>;

/// What an envelope consists of. Values are in the form that the reader gives them, written again.
fn ours(message: &Message<'_>, write: impl Fn(&[u8]) -> Option<String>) -> Members {
    let [params, arguments, meta, result] = message.values();
    let id = message.id().filter(|id| id != b"null");
    let method = (!message.is_response()).then(|| serde_json::to_string(message.method()).expect("a string"));
    Vec::from([
        ("id", id.and_then(|id| write(&id))),
        ("method", method.and_then(|method| write(method.as_bytes()))),
        ("params", params.and_then(&write)),
        ("arguments", arguments.and_then(&write)),
        ("_meta", meta.and_then(&write)),
        ("result", result.and_then(&write)),
    ])
}

/// Looks up the members by a function that finds the only member of a name; none if a name occurs twice.
fn theirs<V: Clone>(
    whole: V,
    find: impl Fn(&V, &str) -> Option<Option<V>>,
    write: impl Fn(&V) -> String,
) -> Option<Members> {
    let params = find(&whole, "params")?;
    let inner = |name| params.as_ref().map_or(Some(None), |params| find(params, name));
    let id = find(&whole, "id")?.map(|id| write(&id)).filter(|id| id != "null" && id != "Null");
    Some(Vec::from([
        ("id", id),
        ("method", find(&whole, "method")?.map(|v| write(&v))),
        ("params", params.as_ref().map(&write)),
        ("arguments", inner("arguments")?.map(|v| write(&v))),
        ("_meta", inner("_meta")?.map(|v| write(&v))),
        ("result", find(&whole, "result")?.map(|v| write(&v))),
    ]))
}

/// All members of an object, with the texts of their values: a map would hide that a name occurs twice.
struct RawMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RawMembers<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn find_raw<'a>(object: &&'a str, name: &str) -> Option<Option<&'a str>> {
    let members = serde_json::from_str::<RawMembers<'a>>(object).ok()?.0;
    let mut found = members.into_iter().filter(|(other, _)| other == name).map(|(_, value)| value.get());
    let first = found.next();
    found.next().is_none().then_some(first)
}

fn find_jiter<'a>(object: &JsonValue<'a>, name: &str) -> Option<Option<JsonValue<'a>>> {
    let JsonValue::Object(members) = object else { return None };
    let mut found = members.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone());
    let first = found.next();
    found.next().is_none().then_some(first)
}

/// Normal form of a text: the value of a string, and the text of anything else, so that no digit of a number is lost.
fn write_raw(text: &str) -> String {
    serde_json::from_str::<String>(text).map_or_else(|_| text.trim().into(), |string| format!("{string:?}"))
}

#[test]
fn envelope_that_is_accepted_is_read_alike_by_serde_json_and_jiter() {
    let mut comparison = Comparison::new("envelope");
    let limits = Limits::default();
    let mut check = |input: &[u8]| {
        let Some(message) = comparison.count(input, Message::parse(input, &limits).ok()) else { return };
        let text = str::from_utf8(input).expect("an accepted message is UTF-8");
        if let Some(printed) = message.write() {
            let again = Message::parse(&printed, &limits).expect("our own spelling");
            assert_eq!(again.write().as_ref(), Some(&printed), "{text}");
        }
        if let Some((code, message)) =
            message.is_response().then(|| message.outcome().err()).flatten().map(|e| (e.code, e.message))
        {
            let error = find_raw(&text.trim(), "error").flatten().unwrap_or_default();
            let code_of = |error| find_raw(error, "code")?.and_then(|code| serde_json::from_str(code).ok());
            let message_of =
                |error| find_raw(error, "message")?.and_then(|text| serde_json::from_str(text).ok());
            let theirs = code_of(&error).zip(message_of(&error));
            comparison.check("serde_json", input, &(code, message.into_owned()), theirs.as_ref(), "");
        }
        let members = ours(&message, |value| str::from_utf8(value).ok().map(write_raw));
        let raw = theirs(text.trim(), find_raw, |value| write_raw(value));
        let has_large =
            serde_json::from_str::<Value>(text).is_err_and(|e| e.to_string().contains("out of range"));
        comparison.check("serde_json", input, &members, raw.as_ref(), "");
        let is_tree = serde_json::from_str::<Value>(text).is_ok();
        comparison.check(
            "serde_json",
            input,
            &true,
            Some(&is_tree),
            if has_large { "number beyond all floats" } else { "" },
        );
        let by_jiter = |value: &[u8]| JsonValue::parse(value, false).ok().map(|value| format!("{value:?}"));
        let members = ours(&message, by_jiter);
        let whole = JsonValue::parse(input, false).ok();
        let found = whole.and_then(|whole| theirs(whole, find_jiter, |value| format!("{value:?}")));
        comparison.check("jiter", input, &members, found.as_ref(), "");
    };
    for_each_input("line", &EXAMPLES, &PIECES, 5, &mut check);
    for_each_text(&MEMBERS.map(str::as_bytes), 5, |members| {
        check(&[b"{\"jsonrpc\":\"2.0\"", members, b"}"].concat());
    });
    comparison.finish(10_000);
}
