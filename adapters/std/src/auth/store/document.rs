//! The content of the file of a store.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

/// The entries, as `{"version":1,"entries":{…}}`.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    version: u64,
    pub(super) entries: BTreeMap<String, String>,
}

/// The member that every version has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u64,
}

impl Document {
    pub(super) fn new() -> Self {
        Self { version: VERSION, entries: BTreeMap::new() }
    }

    /// Reads a document. The error says what is wrong and shows nothing of the content.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Box<str>> {
        if bytes.is_empty() {
            return Err("is empty".into());
        }
        let outcome = match serde_json::from_slice::<AnyVersion>(bytes) {
            Ok(AnyVersion { version }) if version != VERSION => {
                return Err(format!("has version {version}, and only version {VERSION} is known").into());
            }
            Ok(_) => serde_json::from_slice(bytes),
            Err(error) => Err(error),
        };
        // The text of the error may quote a value of the document.
        outcome.map_err(|error| {
            let what = match error.classify() {
                Category::Data => "does not have the members of a token store",
                Category::Io | Category::Syntax | Category::Eof => "is not JSON",
            };
            format!("{what} (line {}, column {})", error.line(), error.column()).into()
        })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// The version that this program reads and writes.
const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_the_documented_form() {
        let mut document = Document::new();
        document.entries.insert("k".into(), "a\"b".into());
        let bytes = document.to_bytes().unwrap();
        assert_eq!(bytes, br#"{"version":1,"entries":{"k":"a\"b"}}"#);
        assert_eq!(Document::parse(&bytes).ok().unwrap().entries, document.entries);
    }

    #[test]
    fn damaged_documents_are_described_without_their_content() {
        for (text, part) in [
            ("", "is empty"),
            ("hush", "is not JSON (line 1, column 1)"),
            ("{\"version\":1,\n\"entries\":{\"k\":\"hush", "is not JSON (line 2, column "),
            ("{\"version\":1,\"entries\":{}}hush", "is not JSON"),
            ("{\"version\":1,\"entries\":{\"k\":\"\u{1}hush\"}}", "is not JSON"),
            ("\"hush\"", "does not have the members"),
            ("{}", "does not have the members"),
            ("{\"version\":\"hush\",\"entries\":{}}", "does not have the members"),
            ("{\"version\":1}", "does not have the members"),
            ("{\"version\":1,\"entries\":\"hush\"}", "does not have the members"),
            ("{\"version\":1,\"entries\":{\"k\":[\"hush\"]}}", "does not have the members"),
            ("{\"version\":1,\"entries\":{},\"hush\":1}", "does not have the members"),
            ("{\"version\":2,\"hush\":1}", "has version 2, and only version 1 is known"),
        ] {
            let why = Document::parse(text.as_bytes()).err().unwrap();
            assert!(why.starts_with(part) && !why.contains("hush"), "{text}: {why}");
        }
    }
}
