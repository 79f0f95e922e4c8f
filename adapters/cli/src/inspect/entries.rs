//! The entries of a server's lists, for people

use mcp_proto::RawJson;
use mcp_proto::model::{Annotations, Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;

use crate::content;
use crate::escape;
use crate::paint::Paint;
use crate::schema::{self, Member};

pub(super) fn tool(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(tool) = read::<Tool>(out, raw, paint) else { return };
    let title = Some(tool.display_name()).filter(|title| *title != tool.name);
    heading(out, &tool.name, &[title], tool.description.as_deref(), paint);
    table(out, "takes", &schema::members(&tool.input_schema), paint);
    let returns = tool.output_schema.as_ref().map(schema::members).unwrap_or_default();
    table(out, "returns", &returns, paint);
    let hints = tool.annotations.as_ref().map(hinted).unwrap_or_default();
    aside(out, "says it", &hints.join(", "), paint);
}

pub(super) fn resource(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(resource) = read::<Resource>(out, raw, paint) else { return };
    let size = resource.size.map(|size| format!("{size} bytes"));
    let title = resource.title.as_deref().unwrap_or(&resource.name);
    let about = [Some(title), resource.mime_type.as_deref(), size.as_deref()];
    heading(out, &resource.uri, &about, resource.description.as_deref(), paint);
    meant(out, resource.annotations.as_ref(), paint);
}

pub(super) fn template(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(template) = read::<ResourceTemplate>(out, raw, paint) else { return };
    let title = template.title.as_deref().unwrap_or(&template.name);
    let about = [Some(title), template.mime_type.as_deref()];
    heading(out, &template.uri_template, &about, template.description.as_deref(), paint);
    meant(out, template.annotations.as_ref(), paint);
}

pub(super) fn prompt(out: &mut String, raw: &RawJson, paint: Paint) {
    let Some(prompt) = read::<Prompt>(out, raw, paint) else { return };
    let title = prompt.title.as_deref().filter(|title| *title != prompt.name);
    heading(out, &prompt.name, &[title], prompt.description.as_deref(), paint);
    let members = prompt.arguments.into_iter().map(|argument| Member {
        name: if argument.required == Some(true) { argument.name } else { argument.name + "?" },
        kind: "string".into(),
        description: argument.description.or(argument.title).unwrap_or_default(),
    });
    table(out, "takes", &members.collect::<Vec<_>>(), paint);
}

/// An entry as what it should be; one that is not is shown as it came, so that it is not lost
fn read<T: DeserializeOwned>(out: &mut String, raw: &RawJson, paint: Paint) -> Option<T> {
    let why = match raw.parse() {
        Ok(entry) => return Some(entry),
        Err(why) => why,
    };
    let json = content::abridged(raw);
    let short: String = json.chars().take(SHOWN).collect();
    let more = if short.len() < json.len() { " …" } else { "" };
    let why = paint.dim(escape::line(&why.to_string()).into_owned());
    out.push_str(&format!("  {}  {}{more}\n      {why}\n", paint.bad("(unreadable)"), escape::line(&short)));
    None
}

fn heading(out: &mut String, name: &str, about: &[Option<&str>], description: Option<&str>, paint: Paint) {
    out.push_str(&format!("  {}", paint.name(escape::line(name))));
    for text in about.iter().flatten() {
        out.push_str(&format!("  {}", paint.dim(escape::line(text))));
    }
    out.push('\n');
    for line in description.into_iter().flat_map(str::lines) {
        out.push_str(format!("      {}", escape::line(line)).trim_end());
        out.push('\n');
    }
}

/// What a tool says about itself, which nobody has to believe (TOOL-026)
fn hinted(hints: &ToolAnnotations) -> Vec<&'static str> {
    // What cannot change anything can neither destroy nor repeat it (TOOL-027).
    let changes = hints.read_only_hint != Some(true);
    let words = [
        (hints.read_only_hint, "changes nothing", "changes things"),
        (hints.destructive_hint.filter(|_| changes), "may destroy", "destroys nothing"),
        (hints.idempotent_hint.filter(|_| changes), "may be repeated", "has effects each time"),
        (hints.open_world_hint, "reaches outside", "stays inside"),
    ];
    words.iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { *yes } else { *no })).collect()
}

/// For whom a resource is, how much it matters, and when it changed
fn meant(out: &mut String, annotations: Option<&Annotations>, paint: Paint) {
    let Some(annotations) = annotations else { return };
    let audience = annotations.audience.iter().map(|roles| {
        let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        format!("for {}", roles.join(" and "))
    });
    let priority = annotations.priority.iter().map(|priority| format!("priority {priority}"));
    let modified = annotations.last_modified.iter().map(|time| format!("changed {time}"));
    let words: Vec<_> = audience.chain(priority).chain(modified).collect();
    aside(out, "is", &words.join(", "), paint);
}

fn aside(out: &mut String, what: &str, text: &str, paint: Paint) {
    if !text.is_empty() {
        out.push_str(&format!("      {} {}\n", paint.dim(format!("{what:8}")), escape::line(text)));
    }
}

/// Members in columns
fn table(out: &mut String, what: &str, members: &[Member], paint: Paint) {
    let shown: Vec<_> = members
        .iter()
        .map(|m| [escape::line(&m.name), escape::line(&m.kind), escape::line(&m.description)])
        .collect();
    // A single long one does not push all others away.
    let width = |column: usize| shown.iter().map(|m| m[column].chars().count()).max().unwrap_or(0).min(28);
    let (names, kinds) = (width(0), width(1));
    for (index, [name, kind, description]) in shown.iter().enumerate() {
        let what = paint.dim(format!("{:8}", if index == 0 { what } else { "" }));
        let kind =
            if description.is_empty() { format!("{kind}") } else { format!("{kind:kinds$}  {description}") };
        out.push_str(&format!("      {what} {}  {kind}\n", paint.good(format!("{name:names$}"))));
    }
}

/// Characters of an entry that cannot be read
const SHOWN: usize = 500;
