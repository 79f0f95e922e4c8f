//! The `inspect` command: shows what a server is and what it offers.

mod apps;
mod entries;

use mcp_blocking::Error;
use mcp_proto::EntryKind;
use mcp_proto::client::Peer;
use mcp_proto::model::Implementation;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, RawJson};
use serde::Serialize;
use serde_json::{Map, Value};

use self::apps::AppReport;
use crate::args;
use crate::content;
use crate::failure::CommandFailure;
use crate::output::{pad_label, print, print_json, push_row};
use crate::paint::Paint;
use crate::session::{self, ClientSession};
use crate::skills;

/// Output of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InspectReport {
    era: String,
    revision: String,
    server: Option<RawJson>,
    capabilities: RawJson,
    instructions: Option<String>,
    tools: Vec<RawJson>,
    resources: Vec<RawJson>,
    resource_templates: Vec<RawJson>,
    prompts: Vec<RawJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skills: Vec<RawJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    apps: Vec<AppReport>,
}

pub(crate) fn run(args: &args::InspectArgs) -> Result<(), CommandFailure> {
    let mut session = ClientSession::open_for_apps(&args.target)?;
    let outcome = collect_report(&mut session).and_then(|report| {
        if !args.json {
            return print(&report.format(session.client.peer(), Paint::for_stdout()));
        }
        let json = RawJson::encode(&report).map_err(|error| CommandFailure::failed(error.to_string()))?;
        print_json(&json)
    });
    session.close();
    outcome
}

fn collect_report(session: &mut ClientSession) -> Result<InspectReport, CommandFailure> {
    let tools = fetch_list(session, EntryKind::Tool)?;
    let resources = fetch_list(session, EntryKind::Resource)?;
    let apps = apps::collect(session, &tools, &resources);
    let peer = session.client.peer();
    Ok(InspectReport {
        era: peer.era().to_string(),
        revision: peer.version.to_string(),
        server: peer.info.clone(),
        capabilities: peer.capabilities.clone(),
        instructions: peer.instructions.clone(),
        tools,
        resources,
        resource_templates: fetch_list(session, EntryKind::ResourceTemplate)?,
        prompts: fetch_list(session, EntryKind::Prompt)?,
        skills: fetch_list(session, EntryKind::Skill)?,
        apps,
    })
}

/// Fetches a list. It is empty if the server does not declare the capability.
fn fetch_list(session: &mut ClientSession, list: EntryKind) -> Result<Vec<RawJson>, CommandFailure> {
    if !session.client.peer().has(list.capability()) {
        return Ok(Vec::new());
    }
    match session.client.list(list) {
        // Many servers with resources do not implement templates.
        Err(Error::Call(CallError::Rpc(error))) if error.code == code::METHOD_NOT_FOUND => {
            session::print_note(&format!("the server does not list {}: {error}", list.list_member()));
            Ok(Vec::new())
        }
        Err(error) => Err(session.failure(&error).with_context(&format!("listing {}", list.list_member()))),
        Ok(entries) => Ok(entries),
    }
}

/// Function that appends an entry of a list to the output.
type PushEntry = fn(&mut String, &RawJson, Paint);

const LISTS: [(EntryKind, &str, PushEntry); 5] = [
    (EntryKind::Tool, "tools", entries::push_tool),
    (EntryKind::Resource, "resources", entries::push_resource),
    (EntryKind::ResourceTemplate, "resource templates", entries::push_template),
    (EntryKind::Prompt, "prompts", entries::push_prompt),
    (EntryKind::Skill, "skills", skills::push_skill),
];

impl InspectReport {
    fn entries(&self, of: EntryKind) -> &[RawJson] {
        match of {
            EntryKind::Tool => &self.tools,
            EntryKind::Resource => &self.resources,
            EntryKind::ResourceTemplate => &self.resource_templates,
            EntryKind::Prompt => &self.prompts,
            EntryKind::Skill => &self.skills,
            _ => &[],
        }
    }

    fn format(&self, peer: &Peer, paint: Paint) -> String {
        let mut out = String::new();
        let head =
            |out: &mut String, name: &str, text: &str| push_row(out, &paint.bold(pad_label(name)), text);
        head(&mut out, "server", &self.server.as_ref().map_or_else(|| "(unknown)".into(), format_identity));
        head(&mut out, "era", &format!("{}, revision {}", self.era, self.revision));
        head(&mut out, "capabilities", &format_capabilities(&self.capabilities));
        if let Some(text) = &self.instructions {
            head(&mut out, "instructions", text);
        }
        for (list, name, show) in LISTS {
            if !peer.has(list.capability()) {
                continue;
            }
            let entries = self.entries(list);
            out.push_str(&format!("\n{} ({})\n", paint.bold(name), entries.len()));
            for entry in entries {
                show(&mut out, entry, paint);
            }
        }
        apps::push_apps(&mut out, &self.apps, paint);
        out
    }
}

fn format_identity(info: &RawJson) -> String {
    let Ok(Implementation { name, version, title, description, website_url, .. }) = info.parse() else {
        return content::abridge_json(info);
    };
    let mut text = format!("{name} {version}");
    for more in [title, description, website_url].into_iter().flatten() {
        text += &format!(", {more}");
    }
    text
}

/// Formats capabilities: `tools (listChanged), logging`.
fn format_capabilities(raw: &RawJson) -> String {
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
