//! Notes: tools with effects, and resources that are registered while the server runs.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::Change;
use mcp_proto::EntryKind;
use mcp_proto::model::{Resource, ToolAnnotations};
use mcp_proto::router::schema::schemars;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Router;
use mcp_std::sync::lock;

/// Maximum number of notes.
const MAX_NOTES: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    /// Title: lower-case letters, digits and hyphens.
    #[schemars(extend("pattern" = TITLE_PATTERN))]
    title: String,
    /// Text of the note.
    #[schemars(length(max = 10_000))]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteTitle {
    /// Title: lower-case letters, digits and hyphens.
    #[schemars(extend("pattern" = TITLE_PATTERN))]
    title: String,
}

/// Titles that may stand in a URI without encoding.
const TITLE_PATTERN: &str = "^[a-z0-9-]{1,40}$";

pub(super) fn register(router: &mut Router) {
    let notes = Arc::new(Mutex::new(BTreeMap::<String, String>::new()));
    let hints = || ToolAnnotations::new().read_only_hint(false).open_world_hint(false).idempotent_hint(true);

    let (later, kept) = (router.updates(), Arc::clone(&notes));
    let write = handler!(|cx, Note { title, text }: Note| {
        let uri = note_uri(&title);
        let mut notes = lock(&kept);
        if !notes.contains_key(&title) {
            if notes.len() >= MAX_NOTES {
                return Err(format!("there are {MAX_NOTES} notes already: delete one first"));
            }
            let (uri, title, kept) = (uri.clone(), title.clone(), Arc::clone(&kept));
            later.schedule(move |router| {
                let resource =
                    Resource::new(uri, title.clone()).description("A note").mime_type("text/plain");
                router.resource(resource, handler!(|_, _| lock(&kept).get(&title).cloned()));
            });
        }
        notes.insert(title, text);
        drop(notes);
        cx.publish(&Change::Resource(uri.clone()));
        Ok(format!("written to {uri}"))
    });
    router
        .tool("write_note", write)
        .title("Write a note")
        .description("Writes a note, which can then be read as the resource note://TITLE")
        .annotations(hints().destructive_hint(false));

    let later = router.updates();
    let delete = handler!(|_, NoteTitle { title }: NoteTitle| {
        lock(&notes).remove(&title).ok_or_else(|| format!("there is no note {title}"))?;
        let uri = note_uri(&title);
        later.schedule(move |router| _ = router.core().remove(EntryKind::Resource, &uri));
        Ok::<_, String>("deleted")
    });
    router
        .tool("delete_note", delete)
        .title("Delete a note")
        .description("Deletes a note")
        .annotations(hints().destructive_hint(true));
}

fn note_uri(title: &str) -> String {
    format!("note://{title}")
}
