//! Values in header fields, and arguments that are repeated there.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::dice::Dice;
use crate::head::Field;
use crate::http::fields::{decode_value, encode_value, only_decoded, repeated};
use crate::http::params::{HeaderParams, MismatchReason};
use crate::raw::RawJson;

/// A schema with all kinds of places, for inputs that do not bring one
const SCHEMA: &str = r#"{"type":"object","properties":{
    "a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"b-B"},
    "o":{"properties":{"a":{"type":"boolean","x-mcp-header":"C"},"o":{"type":"string","x-mcp-header":"D",
    "properties":{"a":{"type":"string","x-mcp-header":"E"}}}}}}}"#;

/// What is encoded comes back and is fit for a header; whatever is read, written and checked ends; what is written for
/// some arguments is accepted for them, and one changed field is not
pub fn fields(data: &[u8]) {
    let mut dice = Dice::new(data);
    let (change, own) = (dice.byte(), dice.flag());
    let rest = dice.rest();
    let _ = decode_value(rest);
    let text = String::from_utf8_lossy(rest);
    let encoded = encode_value(&*text);
    assert!(encoded.bytes().all(|b| matches!(b, b' '..=b'~')) && encoded.trim() == encoded, "{encoded:?}");
    assert_eq!(decode_value(encoded.as_bytes()).as_deref(), Ok(&*text));

    let (schema, arguments) = text.split_once('\n').unwrap_or((&text, &text));
    let schema = if own { RawJson::new(String::from(schema)) } else { RawJson::new(SCHEMA) };
    let Ok(schema) = schema else { return };
    match HeaderParams::of(&schema) {
        Ok(params) => {
            let names: Vec<&str> = params.names().collect();
            assert!(names.len() <= HeaderParams::MAX);
            let none: Vec<Field<'_>> = names.iter().map(|n| (*n, &b""[..])).collect();
            assert_eq!(repeated(&none), None, "names differ");
            agree(&params, arguments.as_bytes(), usize::from(change));
        }
        Err(bad) => assert!(!format!("{bad}").is_empty()),
    }
}

/// Client and server, given the same arguments
fn agree(params: &HeaderParams, arguments: &[u8], change: usize) {
    let written: Vec<_> = params.values(arguments).collect();
    let mut fields: Vec<Field<'_>> = written.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    for (name, value) in &written {
        assert_eq!(only_decoded(&fields, name), Ok(decode_value(value.as_bytes()).ok()));
    }
    let verdict = params.check(arguments, &fields);
    // All that may be wrong is with the arguments.
    let why = verdict.as_ref().err().map(|mismatch| mismatch.why);
    assert!(matches!(why, None | Some(MismatchReason::Arguments | MismatchReason::Twice)), "{verdict:?}");
    assert!(why != Some(MismatchReason::Twice) || written.is_empty());
    if verdict.is_err() || fields.is_empty() {
        return;
    }
    let at = change % fields.len();
    let field = fields.remove(at);
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is missing");
    let other = [field.1, b"1"].concat();
    fields.push((field.0, &other));
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is another");
    fields.push(field);
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is there twice");
}
