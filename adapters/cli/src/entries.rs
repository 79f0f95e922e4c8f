//! Readable rendering of the entries of a server's lists.

use mcp_proto::RawJson;
use mcp_proto::model::{Annotations, Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;

use crate::content;
use crate::escape;
use crate::output;
use crate::paint::Paint;
use crate::schema::{self, SchemaMember};

pub(crate) fn push_tool(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(tool) = parse_entry::<Tool>(out, raw, paint) else { return };
    let title = Some(tool.display_name()).filter(|title| *title != tool.name);
    push_heading(out, &tool.name, &[title], tool.description.as_deref(), paint);
    push_table(out, "takes", &schema::members(&tool.input_schema), paint);
    let returns = tool.output_schema.as_ref().map(schema::members).unwrap_or_default();
    push_table(out, "returns", &returns, paint);
    let hints = tool.annotations.as_ref().map(hint_labels).unwrap_or_default();
    push_note(out, "hints", &hints.join(", "), paint);
}

pub(crate) fn push_resource(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(resource) = parse_entry::<Resource>(out, raw, paint) else { return };
    let size = resource.size.map(|size| format!("{size} bytes"));
    let title = resource.title.as_deref().unwrap_or(&resource.name);
    let about = [Some(title), resource.mime_type.as_deref(), size.as_deref()];
    push_heading(out, &resource.uri, &about, resource.description.as_deref(), paint);
    push_annotations(out, resource.annotations.as_ref(), paint);
}

pub(crate) fn push_template(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(template) = parse_entry::<ResourceTemplate>(out, raw, paint) else { return };
    let title = template.title.as_deref().unwrap_or(&template.name);
    let about = [Some(title).filter(|title| *title != template.uri_template), template.mime_type.as_deref()];
    push_heading(out, &template.uri_template, &about, template.description.as_deref(), paint);
    push_annotations(out, template.annotations.as_ref(), paint);
}

pub(crate) fn push_prompt(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(prompt) = parse_entry::<Prompt>(out, raw, paint) else { return };
    let title = prompt.title.as_deref().filter(|title| *title != prompt.name);
    push_heading(out, &prompt.name, &[title], prompt.description.as_deref(), paint);
    let members = prompt.arguments.into_iter().map(|argument| SchemaMember {
        name: if argument.required == Some(true) { argument.name } else { argument.name + "?" },
        kind: "string".into(),
        description: argument.description.or(argument.title).unwrap_or_default(),
    });
    push_table(out, "takes", &members.collect::<Vec<_>>(), paint);
}

/// Appends an event type: its name, modes and description, and the arguments that it takes.
#[cfg(feature = "events")]
pub(crate) fn push_event_type(out: &mut String, described: &mcp_events::wire::EventType, paint: Paint) {
    let modes: Vec<_> = described.delivery.iter().map(|mode| mode.as_str()).collect();
    push_heading(out, &described.name, &[Some(&modes.join(", "))], described.description.as_deref(), paint);
    push_table(out, "takes", &schema::members(&described.input_schema), paint);
}

/// Parses an entry. An unreadable one is shown as JSON with the error, so that it is not lost.
fn parse_entry<T: DeserializeOwned>(out: &mut String, raw: &RawJson, paint: Paint) -> Option<T> {
    let why = match raw.parse() {
        Ok(entry) => return Some(entry),
        Err(why) => why,
    };
    let short = escape::shortened(&content::abridge_json(raw), MAX_ENTRY_CHARS);
    let why = paint.dim(escape::line(&why.to_string()).into_owned());
    out.push_str(&format!("  {}  {}\n      {why}\n", paint.bad("(unreadable)"), escape::line(&short)));
    None
}

fn push_heading(
    out: &mut String,
    name: &str,
    about: &[Option<&str>],
    description: Option<&str>,
    paint: Paint,
) {
    out.push_str(&format!("  {}", paint.name(escape::line(name))));
    for text in about.iter().flatten() {
        out.push_str(&format!("  {}", paint.dim(escape::line(text))));
    }
    out.push('\n');
    for line in output::wrap(description.unwrap_or_default(), 6).lines() {
        out.push_str(format!("      {}", escape::line(line)).trim_end());
        out.push('\n');
    }
}

/// Returns labels for the annotations of a tool, which are hints and cannot be trusted (TOOL-026).
fn hint_labels(hints: &ToolAnnotations) -> Vec<&'static str> {
    // A read-only tool can neither destroy nor repeat anything (TOOL-027).
    let changes = hints.read_only_hint != Some(true);
    let words = [
        (hints.read_only_hint, "changes nothing", "changes things"),
        (hints.destructive_hint.filter(|_| changes), "may destroy", "destroys nothing"),
        (hints.idempotent_hint.filter(|_| changes), "may be repeated", "has effects each time"),
        (hints.open_world_hint, "reaches outside", "stays inside"),
    ];
    words.iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { *yes } else { *no })).collect()
}

/// Appends the audience, the priority and the time of the last change.
fn push_annotations(out: &mut String, annotations: Option<&Annotations>, paint: Paint) {
    let Some(annotations) = annotations else { return };
    let audience = annotations.audience.iter().map(|roles| {
        let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        format!("for {}", roles.join(" and "))
    });
    let priority = annotations.priority.iter().map(|priority| format!("priority {priority}"));
    let modified = annotations.last_modified.iter().map(|time| format!("changed {time}"));
    let words: Vec<_> = audience.chain(priority).chain(modified).collect();
    push_note(out, "is", &words.join(", "), paint);
}

fn push_note(out: &mut String, what: &str, text: &str, paint: Paint) {
    if !text.is_empty() {
        out.push_str(&format!("      {} {}\n", paint.dim(format!("{what:8}")), escape::line(text)));
    }
}

/// Appends members in columns.
fn push_table(out: &mut String, what: &str, members: &[SchemaMember], paint: Paint) {
    let shown: Vec<_> = members
        .iter()
        .map(|m| [escape::line(&m.name), escape::line(&m.kind), escape::line(&m.description)])
        .collect();
    // Capped, so that one long name does not shift all other rows.
    let width = |column: usize| shown.iter().map(|m| m[column].chars().count()).max().unwrap_or(0).min(28);
    let (names, kinds) = (width(0), width(1));
    for (index, [name, kind, description]) in shown.iter().enumerate() {
        let what = paint.dim(format!("{:8}", if index == 0 { what } else { "" }));
        // Below the first line of the description.
        let indent = 6 + 8 + 1 + names + 2 + kinds + 2;
        let description = output::wrap(description, indent).replace('\n', &format!("\n{:indent$}", ""));
        let kind =
            if description.is_empty() { format!("{kind}") } else { format!("{kind:kinds$}  {description}") };
        out.push_str(&format!("      {what} {}  {kind}\n", paint.good(format!("{name:names$}"))));
    }
}

/// Maximum number of characters shown of an unreadable entry.
const MAX_ENTRY_CHARS: usize = 500;
