//! Fuzz target for values in header fields, and for tool arguments that are mirrored there.

use mcp_proto::RawJson;
use mcp_proto::head::FieldLine;
use mcp_proto::http::fields::{decode_value, encode_value, find_repeated, single_decoded_value};
use mcp_proto::http::params::{HeaderMismatchKind, HeaderParams};

use super::input::FuzzInput;

/// Schema with all kinds of positions, for inputs without a schema of their own.
const SCHEMA: &str = r#"{"type":"object","properties":{
    "a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"b-B"},
    "o":{"properties":{"a":{"type":"boolean","x-mcp-header":"C"},"o":{"type":"string","x-mcp-header":"D",
    "properties":{"a":{"type":"string","x-mcp-header":"E"}}}}}}}"#;

/// Encodes, decodes and checks header values, and checks their invariants.
///
/// - An encoded value is valid in a header field, and decodes to the same text.
/// - Decoding, encoding and checking terminate for every input.
/// - The fields that are written for some arguments are accepted for them.
/// - A missing, changed or repeated field is refused.
pub fn fields(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let (change, has_schema) = (choices.byte(), choices.boolean());
    let rest = choices.rest();
    let _ = decode_value(rest);
    let text = String::from_utf8_lossy(rest);
    let encoded = encode_value(&*text);
    assert!(encoded.bytes().all(|b| matches!(b, b' '..=b'~')) && encoded.trim() == encoded, "{encoded:?}");
    assert_eq!(decode_value(encoded.as_bytes()).as_deref(), Ok(&*text));

    let (schema, arguments) = text.split_once('\n').unwrap_or((&text, &text));
    let schema = if has_schema { RawJson::new(String::from(schema)) } else { RawJson::new(SCHEMA) };
    let Ok(schema) = schema else { return };
    match HeaderParams::from_schema(&schema) {
        Ok(params) => {
            let names: Vec<&str> = params.names().collect();
            assert!(names.len() <= HeaderParams::MAX_PARAMS);
            let none: Vec<FieldLine<'_>> = names.iter().map(|n| (*n, &b""[..])).collect();
            assert_eq!(find_repeated(&none), None, "duplicate header names");
            assert_sides_agree(&params, arguments.as_bytes(), usize::from(change));
        }
        Err(bad) => assert!(!format!("{bad}").is_empty()),
    }
    if let Ok(params) = HeaderParams::from_draft_schema(&schema, mcp_proto::draft::Draft::ALL) {
        assert_sides_agree(&params, arguments.as_bytes(), usize::from(change));
    }
}

/// Checks that client and server agree on the fields for the same arguments.
fn assert_sides_agree(params: &HeaderParams, arguments: &[u8], change: usize) {
    let written: Vec<_> = params.values(arguments).collect();
    let mut fields: Vec<FieldLine<'_>> =
        written.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    for (name, value) in &written {
        assert_eq!(single_decoded_value(&fields, name), Ok(decode_value(value.as_bytes()).ok()));
    }
    let checked = params.check(arguments, &fields);
    // The only possible errors are those of the arguments.
    let kind = checked.as_ref().err().map(|mismatch| mismatch.kind);
    assert!(
        matches!(
            kind,
            None | Some(HeaderMismatchKind::Unrepresentable | HeaderMismatchKind::DuplicateMember)
        ),
        "{checked:?}"
    );
    assert!(kind != Some(HeaderMismatchKind::DuplicateMember) || written.is_empty());
    if checked.is_err() || fields.is_empty() {
        return;
    }
    let at = change % fields.len();
    let field = fields.remove(at);
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is missing");
    let other = [field.1, b"1"].concat();
    fields.push((field.0, &other));
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is changed");
    fields.push(field);
    assert!(params.check(arguments, &fields).is_err(), "{field:?} is repeated");
}
