//! `inspect`: what a server says about itself

mod entries;

use mcp_blocking::Error;
use mcp_proto::client::{Kind, Peer};
use mcp_proto::model::Implementation;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, RawJson};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args;
use crate::content;
use crate::failure::Failure;
use crate::output::{label, print, print_json, row};
use crate::paint::Paint;
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
    let mut session = Session::open(&args.target, None)?;
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

const LISTS: [(Kind, &str, Show); 4] = [
    (Kind::Tool, "tools", entries::tool),
    (Kind::Resource, "resources", entries::resource),
    (Kind::ResourceTemplate, "resource templates", entries::template),
    (Kind::Prompt, "prompts", entries::prompt),
];

impl Report {
    fn list(&self, of: Kind) -> &[RawJson] {
        match of {
            Kind::Tool => &self.tools,
            Kind::Resource => &self.resources,
            Kind::ResourceTemplate => &self.resource_templates,
            Kind::Prompt => &self.prompts,
            _ => &[],
        }
    }

    fn shown(&self, peer: &Peer, paint: Paint) -> String {
        let mut out = String::new();
        let head = |out: &mut String, name: &str, text: &str| row(out, &paint.bold(label(name)), text);
        head(&mut out, "server", &self.server.as_ref().map_or_else(|| "(does not say)".into(), identity));
        head(&mut out, "era", &format!("{}, revision {}", self.era, self.revision));
        head(&mut out, "capabilities", &capabilities(&self.capabilities));
        if let Some(text) = &self.instructions {
            head(&mut out, "instructions", text);
        }
        for (list, name, show) in LISTS {
            if !peer.has(list.capability()) {
                continue;
            }
            let entries = self.list(list);
            out.push_str(&format!("\n{} ({})\n", paint.bold(name), entries.len()));
            for entry in entries {
                show(&mut out, entry, paint);
            }
        }
        out
    }
}

fn identity(info: &RawJson) -> String {
    let Ok(Implementation { name, version, title, description, website_url, .. }) = info.parse() else {
        return content::abridged(info);
    };
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
