//! The entries of the server, written once for all adapters.
//!
//! Handlers are closures of one line over the functions below, which know nothing of MCP's messages.

use std::sync::Arc;

use anyhow::Context;
use mcp_blocking::mcp_proto::model::{
    Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate, ResourceTemplateReference,
    ToolAnnotations,
};
use mcp_blocking::mcp_proto::router::suggest;
use mcp_blocking::router::RegisterFunctions;
use mcp_blocking::{Cx, Typed, schemars};

use crate::store::{Note, NoteError, Store};

/// URI of the list of all notes.
pub const INDEX: &str = "notes://index";
/// URI template of a note.
pub const NOTE: &str = "note://{id}";

#[must_use]
pub fn note_uri(id: i64) -> String {
    format!("note://{id}")
}

/// Adds a note
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NewNote {
    /// Title, unique among all notes
    pub title: String,
    #[serde(default)]
    pub body: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Text {
    pub text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NoteId {
    pub id: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Found {
    pub notes: Vec<Note>,
}

/// Arguments of the prompt. They arrive as strings and are parsed into these types.
#[derive(serde::Deserialize)]
pub struct Summary {
    pub id: i64,
    pub style: Option<String>,
}

/// Styles of a summary, for completion.
pub const STYLES: [&str; 3] = ["bullet points", "one sentence", "poem"];

#[must_use]
pub fn index() -> Resource {
    Resource::new(INDEX, "index").title("All notes").mime_type("text/plain")
}

#[must_use]
pub fn note_template() -> ResourceTemplate {
    ResourceTemplate::new(NOTE, "note").title("A note").mime_type("text/markdown")
}

#[must_use]
pub fn note_reference() -> ResourceTemplateReference<'static> {
    ResourceTemplateReference::new(NOTE)
}

#[must_use]
pub fn summarize_prompt() -> Prompt {
    let id = PromptArgument::new("id").title("Note").description("Id of the note").required(true);
    let style = PromptArgument::new("style").title("Style").description("How the summary reads");
    Prompt::new("summarize").title("Summarize a note").arguments([id, style])
}

#[must_use]
pub fn summarize_reference() -> PromptReference<'static> {
    PromptReference::new("summarize")
}

pub fn add(store: &Store, note: &NewNote) -> Result<Typed<Note>, NoteError> {
    store.add(&note.title, &note.body).map(Typed)
}

pub fn search(store: &Store, text: &str) -> Result<Typed<Found>, NoteError> {
    Ok(Typed(Found { notes: store.search(text)? }))
}

/// Adds notes, with `anyhow`: each step says what it was about.
///
/// An error becomes a result that tells the model what went wrong. `{:#}` writes all causes; of an `anyhow::Error` the
/// client reads the outermost context alone.
pub fn import(store: &Store, text: &str) -> Result<String, String> {
    let run = || -> anyhow::Result<String> {
        let mut added = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let (title, body) =
                line.split_once(':').with_context(|| format!("line {number} has no colon"))?;
            store.add(title.trim(), body.trim()).with_context(|| format!("line {number}"))?;
            added += 1;
        }
        Ok(format!("{added} notes added"))
    };
    run().map_err(|error| format!("{error:#}"))
}

/// Returns one line for each of the first hundred notes.
pub fn list(store: &Store) -> Result<String, NoteError> {
    Ok(store.search("")?.iter().map(|note| format!("{} {}\n", note.id, note.title)).collect())
}

/// Returns the text of a note. `None` is answered with "resource not found".
pub fn read(store: &Store, id: Option<&str>) -> Result<Option<String>, NoteError> {
    let Some(id) = id.and_then(|id| id.parse().ok()) else { return Ok(None) };
    Ok(store.find(id)?.map(|note| format!("# {}\n\n{}\n", note.title, note.body)))
}

pub fn summarize(store: &Store, summary: &Summary) -> Result<String, NoteError> {
    let note = store.find(summary.id)?.ok_or(NoteError::NotFound(summary.id))?;
    let style = summary.style.as_deref().unwrap_or(STYLES[1]);
    Ok(format!("Summarize this note as {style}:\n\n# {}\n\n{}", note.title, note.body))
}

/// Suggests ids of notes that begin with `typed`.
pub fn suggest_ids(store: &Store, typed: &str) -> Result<Vec<String>, NoteError> {
    let notes = store.search("")?;
    let ids: Vec<String> = notes.iter().map(|note| note.id.to_string()).collect();
    Ok(suggest(ids.iter().map(String::as_str), typed))
}

/// Returns a handler that gets the store as its first argument.
fn with<A: 'static, T: 'static>(
    store: &Arc<Store>,
    run: fn(&Store, A) -> T,
) -> impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static {
    let store = store.clone();
    move |_, arguments| run(&store, arguments)
}

/// Adds the entries to the router of any adapter. They share the store.
pub fn add_entries(router: &mut impl RegisterFunctions, store: &Arc<Store>) {
    let adds = || ToolAnnotations::new().destructive_hint(false).open_world_hint(false);
    let reads = ToolAnnotations::new().read_only_hint(true).open_world_hint(false);
    let removes = ToolAnnotations::new().destructive_hint(true).idempotent_hint(true).open_world_hint(false);

    router
        .tool("add", with(store, |store, note: NewNote| add(store, &note)))
        .title("Add a note")
        .annotations(adds());
    router
        .tool("search", with(store, |store, Text { text }: Text| search(store, &text)))
        .title("Search notes")
        .description("Returns up to 100 notes with this text in title or body")
        .annotations(reads);
    router
        .tool("remove", with(store, |store, NoteId { id }: NoteId| store.remove(id)))
        .title("Remove a note")
        .description("Removes a note")
        .annotations(removes);
    router
        .tool("import", with(store, |store, Text { text }: Text| import(store, &text)))
        .title("Import notes")
        .description("Adds one note for each line of the form `title: body`")
        .annotations(adds());

    let [index_store, template_store, prompt_ids, template_ids] = [(); 4].map(|()| store.clone());
    router
        .resource(index(), move |_, _| list(&index_store))
        .resource_template(note_template(), move |_, read_target| {
            read(&template_store, read_target.variables.get("id"))
        })
        .prompt(summarize_prompt(), with(store, |store, summary: Summary| summarize(store, &summary)))
        .completion(summarize_reference(), "id", move |_, typed| suggest_ids(&prompt_ids, typed.value()))
        .completion(summarize_reference(), "style", |_, typed| suggest(STYLES, typed.value()))
        .completion(note_reference(), "id", move |_, typed| suggest_ids(&template_ids, typed.value()));
}
