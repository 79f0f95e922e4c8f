//! Readable rendering of content blocks, resources and skills.

use base64::Engine as _;
use mcp_extensions::skills::Skill;
use mcp_proto::RawJson;
use mcp_proto::model::{Content, ResourceContents};
use serde_json::Value;

use crate::escape;
use crate::output::count;
use crate::paint::Paint;

/// Appends a content block: text as it is, a description for any other type.
pub(crate) fn push_block(out: &mut String, block: &Content<'_>, paint: Paint) {
    match block {
        Content::Text(block) => push_text(out, &block.text),
        Content::Image(image) => {
            push_note(out, &["image", &image.mime_type, &base64_size(&image.data)], paint)
        }
        Content::Audio(audio) => {
            push_note(out, &["audio", &audio.mime_type, &base64_size(&audio.data)], paint)
        }
        Content::ResourceLink(link) => {
            let mime_type = link.mime_type.as_deref().unwrap_or_default();
            let bytes = link.size.map(|size| format!("{size} bytes")).unwrap_or_default();
            let title = link.title.as_deref().unwrap_or(&link.name);
            let about = link.description.as_deref().unwrap_or_default();
            push_note(out, &[&format!("link to {}", link.uri), title, mime_type, &bytes, about], paint);
        }
        Content::Resource(embedded) => push_resource(out, &embedded.resource, paint),
        other => {
            let json =
                RawJson::encode(other).map_or_else(|error| error.to_string(), |json| abridge_json(&json));
            push_note(out, &[&json], paint);
        }
    }
}

/// Appends the contents of a resource below a line that names it. A single blob is only described.
pub(crate) fn push_resource(out: &mut String, contents: &ResourceContents<'_>, paint: Paint) {
    let (uri, mime_type) = (format!("resource {}", contents.uri()), contents.mime_type().unwrap_or_default());
    match contents {
        ResourceContents::Text(contents) => {
            push_note(out, &[&uri, mime_type], paint);
            push_text(out, &contents.text);
        }
        ResourceContents::Blob(contents) => {
            push_note(out, &[&uri, mime_type, &base64_size(&contents.blob)], paint)
        }
        other => push_note(out, &[&uri, mime_type, &format!("{other:?}")], paint),
    }
}

/// Appends a text and completes its last line.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push_str(&escape::lines(text));
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Appends a line that describes content without a text form.
fn push_note(out: &mut String, parts: &[&str], paint: Paint) {
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).copied().collect();
    out.push_str(&format!("{}\n", paint.note(format!("[{}]", escape::line(&parts.join(", "))))));
}

/// Describes the decoded size of a Base64 text.
fn base64_size(base64: &str) -> String {
    match base64::engine::general_purpose::STANDARD.decode(base64) {
        Ok(bytes) => format!("{} bytes", bytes.len()),
        Err(_) => format!("{} characters that are no Base64", base64.chars().count()),
    }
}

/// Appends the entry of a skill: its name, URI and description, and the number and size of its files.
pub(crate) fn push_skill(out: &mut String, raw: &RawJson, paint: Paint) {
    let skill = match raw.parse::<Skill>() {
        Ok(skill) => skill,
        Err(error) => {
            let json = abridge_json(raw);
            out.push_str(&format!("  {}\n", escape::line(&format!("{json}: cannot be read: {error}"))));
            return;
        }
    };
    let name = skill.name().unwrap_or_else(|| "(no name)".into());
    let files = match skill.files() {
        Some(files) => {
            let size = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
            format!("{}, {size} bytes", count(files.len(), "file"))
        }
        None => "dynamic".into(),
    };
    let about = paint.dim(format!("({})", escape::line(&format!("{}, {files}", skill.uri))));
    out.push_str(&format!("  {} {about}\n", paint.bold(escape::line(&name))));
    for line in escape::lines(&skill.description().unwrap_or_default()).lines() {
        out.push_str(&format!("    {line}\n"));
    }
}

/// Formats JSON with long strings replaced by their length.
pub(crate) fn abridge_json(json: &RawJson) -> String {
    let mut value: Value = json.parse().unwrap_or_default();
    abridge_value(&mut value);
    value.to_string()
}

/// Replaces strings longer than [`MAX_TEXT_BYTES`] by their length.
fn abridge_value(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => *text = format!("… {} bytes …", text.len()),
        Value::Array(values) => values.iter_mut().for_each(abridge_value),
        Value::Object(members) => members.values_mut().for_each(abridge_value),
        _ => {}
    }
}

/// Maximum length of a JSON string that is shown in full, in bytes.
const MAX_TEXT_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CONT-001, CONT-002, CONT-003, CONT-007
    #[test]
    fn content_without_text_is_described() {
        let show = |json: &str| {
            let raw = RawJson::new(json.to_owned()).expect("JSON");
            let mut out = String::new();
            push_block(&mut out, &raw.parse().expect("content"), Paint::PLAIN);
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
        assert_eq!(abridge_json(&RawJson::new(long).expect("JSON")), "{\"data\":\"… 1000 bytes …\"}");
    }
}
