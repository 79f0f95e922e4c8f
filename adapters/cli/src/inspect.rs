//! `inspect`: what a server says about itself

use mcp_blocking::Error;
use mcp_proto::client::{Kind, Peer};
use mcp_proto::model::ToolAnnotations;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, RawJson};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args;
use crate::escape;
use crate::failure::Failure;
use crate::output::{label, print, print_json, row};
use crate::paint::Paint;
use crate::schema::{self, Member};
use crate::session::{self, Session};

/// What `--json` prints
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    era: String,
    revision: String,
    server: Option<RawJson>,
    capabilities: RawJson,
    instructions: Option<String>,
    tools: Vec<RawJson>,
    resources: Vec<RawJson>,
    resource_templates: Vec<RawJson>,
    prompts: Vec<RawJson>,
}

pub(crate) fn run(args: &args::Inspect) -> Result<(), Failure> {
    let mut session = Session::open(&args.target)?;
    let outcome = look(&mut session).and_then(|report| {
        if !args.json {
            return print(&report.shown(session.client.peer(), Paint::for_stdout()));
        }
        let json = RawJson::encode(&report).map_err(|error| Failure::failed(error.to_string()))?;
        print_json(&json)
    });
    session.close();
    outcome
}

fn look(session: &mut Session) -> Result<Report, Failure> {
    let peer = session.client.peer();
    Ok(Report {
        era: peer.era().to_string(),
        revision: peer.version.to_string(),
        server: peer.info.clone(),
        capabilities: peer.capabilities.clone(),
        instructions: peer.instructions.clone(),
        tools: list(session, Kind::Tool)?,
        resources: list(session, Kind::Resource)?,
        resource_templates: list(session, Kind::ResourceTemplate)?,
        prompts: list(session, Kind::Prompt)?,
    })
}

/// A list; empty when the server does not declare that it has it
fn list(session: &mut Session, list: Kind) -> Result<Vec<RawJson>, Failure> {
    if !session.client.peer().has(list.capability()) {
        return Ok(Vec::new());
    }
    match session.client.list(list) {
        // Servers with resources often know nothing of templates.
        Err(Error::Call(CallError::Rpc(error))) if error.code == code::METHOD_NOT_FOUND => {
            session::note(&format!("the server does not list {}: {error}", list.member()));
            Ok(Vec::new())
        }
        Err(error) => Err(session.failure(&error).while_doing(&format!("listing {}", list.member()))),
        Ok(entries) => Ok(entries),
    }
}

/// Adds an entry of a list to what is shown
type Show = fn(&mut String, &RawJson, Paint);

impl Report {
    fn shown(&self, peer: &Peer, paint: Paint) -> String {
        let mut out = String::new();
        let head = |out: &mut String, name: &str, text: &str| row(out, &paint.bold(label(name)), text);
        head(&mut out, "server", &self.server.as_ref().map_or_else(|| "(does not say)".into(), identity));
        head(&mut out, "era", &format!("{}, revision {}", self.era, self.revision));
        head(&mut out, "capabilities", &capabilities(&self.capabilities));
        if let Some(text) = &self.instructions {
            head(&mut out, "instructions", text);
        }
        let lists: [(Kind, &str, &[RawJson], Show); 4] = [
            (Kind::Tool, "tools", &self.tools, tool),
            (Kind::Resource, "resources", &self.resources, resource),
            (Kind::ResourceTemplate, "resource templates", &self.resource_templates, resource),
            (Kind::Prompt, "prompts", &self.prompts, prompt),
        ];
        for (list, name, entries, show) in lists {
            if !peer.has(list.capability()) {
                continue;
            }
            out.push_str(&format!("\n{} ({})\n", paint.bold(name), entries.len()));
            for entry in entries {
                show(&mut out, entry, paint);
            }
        }
        out
    }
}

/// What entries of all lists have in common, as far as they have it
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    name: String,
    title: Option<String>,
    description: Option<String>,
    uri: Option<String>,
    uri_template: Option<String>,
    mime_type: Option<String>,
    annotations: Option<Value>,
    arguments: Vec<Argument>,
}

/// An argument of a prompt
#[derive(Default, Deserialize)]
#[serde(default)]
struct Argument {
    name: String,
    description: Option<String>,
    required: bool,
}

impl Entry {
    /// What cannot be read counts as not said: the whole is in `--json`
    fn of(raw: &RawJson) -> Self {
        raw.parse().unwrap_or_else(|_| Self {
            name: raw.member("name").and_then(|name| name.string()).unwrap_or_else(|| "(unreadable)".into()),
            ..Self::default()
        })
    }

    fn heading(&self, out: &mut String, name: &str, paint: Paint) {
        out.push_str(&format!("  {}", paint.name(escape::line(name))));
        let aside = [self.title.as_deref().filter(|title| *title != name), self.mime_type.as_deref()];
        for text in aside.into_iter().flatten() {
            out.push_str(&format!("  {}", paint.dim(escape::line(text))));
        }
        out.push('\n');
        for line in self.description.iter().flat_map(|text| text.lines()) {
            out.push_str(format!("      {}", escape::line(line)).trim_end());
            out.push('\n');
        }
    }
}

fn tool(out: &mut String, raw: &RawJson, paint: Paint) {
    let entry = Entry::of(raw);
    entry.heading(out, &entry.name, paint);
    let of = |member| raw.member(member).map(|schema| schema::members(&schema)).unwrap_or_default();
    table(out, "takes", &of("inputSchema"), paint);
    table(out, "returns", &of("outputSchema"), paint);
    let hints = entry.annotations.and_then(|value| serde_json::from_value(value).ok());
    let hints = hints.map(|hints| hinted(&hints)).unwrap_or_default();
    if !hints.is_empty() {
        out.push_str(&format!("      {} {}\n", paint.dim(format!("{:8}", "says it")), hints.join(", ")));
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

fn resource(out: &mut String, raw: &RawJson, paint: Paint) {
    let mut entry = Entry::of(raw);
    let uri = entry.uri.take().or_else(|| entry.uri_template.take()).unwrap_or_default();
    entry.title = entry.title.take().or_else(|| Some(core::mem::take(&mut entry.name)));
    entry.heading(out, &uri, paint);
}

fn prompt(out: &mut String, raw: &RawJson, paint: Paint) {
    let entry = Entry::of(raw);
    entry.heading(out, &entry.name, paint);
    let members = entry.arguments.into_iter().map(|argument| Member {
        name: if argument.required { argument.name } else { argument.name + "?" },
        kind: "string".into(),
        description: argument.description.unwrap_or_default(),
    });
    table(out, "takes", &members.collect::<Vec<_>>(), paint);
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

fn identity(info: &RawJson) -> String {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Identity {
        name: String,
        version: String,
        title: Option<String>,
        description: Option<String>,
        website_url: Option<String>,
    }
    let Identity { name, version, title, description, website_url } = info.parse().unwrap_or_default();
    let mut text = format!("{name} {version}");
    for more in [title, description, website_url].into_iter().flatten() {
        text += &format!(", {more}");
    }
    text
}

/// `tools (listChanged), logging`
fn capabilities(raw: &RawJson) -> String {
    let members: Map<String, Value> = raw.parse().unwrap_or_default();
    let words = members.iter().map(|(name, value)| {
        let inner =
            value.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Bool(false));
        let inner: Vec<_> = inner.map(|(name, _)| name.as_str()).collect();
        if inner.is_empty() { name.clone() } else { format!("{name} ({})", inner.join(", ")) }
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".into() } else { words.join(", ") }
}
