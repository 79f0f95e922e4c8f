//! What servers say, in blocks and in resources, put on lines for people

use base64::Engine as _;
use mcp_proto::RawJson;
use mcp_proto::model::{Content, ResourceContents};
use serde_json::Value;

use crate::escape;
use crate::paint::Paint;

/// Adds a block: a text as it is, anything else described
pub(crate) fn block(out: &mut String, block: &Content<'_>, paint: Paint) {
    match block {
        Content::Text(block) => text(out, &block.text),
        Content::Image(image) => aside(out, &["image", &image.mime_type, &size(&image.data)], paint),
        Content::Audio(audio) => aside(out, &["audio", &audio.mime_type, &size(&audio.data)], paint),
        Content::ResourceLink(link) => {
            let mime_type = link.mime_type.as_deref().unwrap_or_default();
            let bytes = link.size.map(|size| format!("{size} bytes")).unwrap_or_default();
            let title = link.title.as_deref().unwrap_or(&link.name);
            let about = link.description.as_deref().unwrap_or_default();
            aside(out, &[&format!("link to {}", link.uri), title, mime_type, &bytes, about], paint);
        }
        Content::Resource(embedded) => resource(out, &embedded.resource, paint),
        other => {
            let json = RawJson::encode(other).map_or_else(|error| error.to_string(), |json| abridged(&json));
            aside(out, &[&json], paint);
        }
    }
}

/// Adds what a resource holds, under a line that says which one it is
pub(crate) fn resource(out: &mut String, contents: &ResourceContents<'_>, paint: Paint) {
    let (uri, mime_type) = (format!("resource {}", contents.uri()), contents.mime_type().unwrap_or_default());
    match contents {
        ResourceContents::Text(contents) => {
            aside(out, &[&uri, mime_type], paint);
            text(out, &contents.text);
        }
        ResourceContents::Blob(contents) => aside(out, &[&uri, mime_type, &size(&contents.blob)], paint),
        other => aside(out, &[&uri, mime_type, &format!("{other:?}")], paint),
    }
}

/// Adds a text, which ends its line
pub(crate) fn text(out: &mut String, text: &str) {
    out.push_str(&escape::lines(text));
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Adds a line about what cannot be shown
fn aside(out: &mut String, parts: &[&str], paint: Paint) {
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).copied().collect();
    out.push_str(&format!("{}\n", paint.note(format!("[{}]", escape::line(&parts.join(", "))))));
}

/// How much there is behind a text in Base64
fn size(base64: &str) -> String {
    match base64::engine::general_purpose::STANDARD.decode(base64) {
        Ok(bytes) => format!("{} bytes", bytes.len()),
        Err(_) => format!("{} characters that are no Base64", base64.chars().count()),
    }
}

/// JSON without its bulk
pub(crate) fn abridged(json: &RawJson) -> String {
    let mut value: Value = json.parse().unwrap_or_default();
    abridge(&mut value);
    value.to_string()
}

/// Replaces long texts by their length
fn abridge(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONG => *text = format!("… {} bytes …", text.len()),
        Value::Array(values) => values.iter_mut().for_each(abridge),
        Value::Object(members) => members.values_mut().for_each(abridge),
        _ => {}
    }
}

/// Bytes of a text in JSON that are shown at most
const LONG: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CONT-001, CONT-002, CONT-003, CONT-007
    #[test]
    fn what_is_no_text_is_described() {
        let show = |json: &str| {
            let raw = RawJson::new(json.to_owned()).expect("JSON");
            let mut out = String::new();
            block(&mut out, &raw.parse().expect("content"), Paint::PLAIN);
            out
        };
        let cases = [
            (r#"{"type":"text","text":"a\u001b"}"#, "a\\u001b\n"),
            (r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#, "[image, image/png, 3 bytes]\n"),
            (
                r#"{"type":"audio","mimeType":"audio/wav","data":"AA"}"#,
                "[audio, audio/wav, 2 characters that are no Base64]\n",
            ),
            (
                r#"{"type":"resource_link","uri":"a:b","name":"n\n","size":7,"description":"d"}"#,
                "[link to a:b, n\\n, 7 bytes, d]\n",
            ),
            (
                r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"x\ny"}}"#,
                "[resource a:b, text/plain]\nx\ny\n",
            ),
            (r#"{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}"#, "[resource a:b, 1 bytes]\n"),
            (r#"{"type":"hologram","x":"\u202e"}"#, "[{\"type\":\"hologram\",\"x\":\"\\u202e\"}]\n"),
        ];
        for (json, want) in cases {
            assert_eq!(show(json), want);
        }
        let long = format!("{{\"data\":\"{}\"}}", "A".repeat(1_000));
        assert_eq!(abridged(&RawJson::new(long).expect("JSON")), "{\"data\":\"… 1000 bytes …\"}");
    }
}
