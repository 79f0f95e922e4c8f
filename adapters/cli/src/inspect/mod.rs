//! The `inspect` command: shows what a server is and what it offers.

mod apps;
mod lists;

use clap::Args;
use mcp_proto::client::Peer;
use mcp_proto::meta::is_extension_id;
use mcp_proto::model::Implementation;
use mcp_proto::{DeprecatedFeature, EntryKind, RawJson};
use serde::Serialize;
use serde_json::{Map, Value};

use self::apps::AppReport;
use self::lists::{FailedPart, ListReader};
use crate::args::{TargetArgs, usage};
use crate::content;
use crate::entries;
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::output::{self, LABEL_WIDTH, pad_label, print, print_value, push_row};
use crate::paint::Paint;
use crate::session::ClientSession;

/// Shows what a server is and what it offers.
///
/// Starts the server, finds out which era and revision of the protocol it speaks, and lists its tools, resources,
/// resource templates, prompts and skills. A list that cannot be read is named, and the exit code is 1 then.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe inspect [OPTIONS]"))]
pub(crate) struct InspectArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: era, revision, server, capabilities, instructions, tools, resources, resourceTemplates, prompts,
    /// skills; and failures (part, message) if a list could not be read.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Output of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InspectReport<'a> {
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
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    failures: &'a [FailedPart],
}

pub(crate) fn run(args: &InspectArgs) -> Result<(), CommandFailure> {
    let opened = ClientSession::open_for_apps(&args.target);
    let mut session = opened.map_err(|failure| match failure.exit {
        Exit::Connection | Exit::Timeout => {
            failure.add_hint("`mcp-probe doctor` with the same server says why")
        }
        _ => failure,
    })?;
    let mut lists = ListReader::default();
    let printed = print_report(&mut session, &mut lists, args.json);
    session.close();
    printed?;
    lists.into_failure().map_or(Ok(()), Err)
}

fn print_report(
    session: &mut ClientSession,
    lists: &mut ListReader,
    is_json: bool,
) -> Result<(), CommandFailure> {
    let tools = lists.read(session, EntryKind::Tool);
    let resources = lists.read(session, EntryKind::Resource);
    let apps = apps::collect(session, &tools, &resources);
    let resource_templates = lists.read(session, EntryKind::ResourceTemplate);
    let prompts = lists.read(session, EntryKind::Prompt);
    let skills = lists.read(session, EntryKind::Skill);
    let peer = session.client.peer();
    let report = InspectReport {
        era: peer.era().to_string(),
        revision: peer.version.to_string(),
        server: peer.info.clone(),
        capabilities: peer.capabilities.clone(),
        instructions: peer.instructions.clone(),
        tools,
        resources,
        resource_templates,
        prompts,
        skills,
        apps,
        failures: &lists.failed,
    };
    if !is_json {
        return print(&report.format(peer, Paint::for_stdout()));
    }
    print_value(&report)
}

/// Function that appends an entry of a list to the output.
type PushEntry = fn(&mut String, &RawJson, Paint);

const LISTS: [(EntryKind, &str, PushEntry); 5] = [
    (EntryKind::Tool, "tools", entries::push_tool),
    (EntryKind::Resource, "resources", entries::push_resource),
    (EntryKind::ResourceTemplate, "resource templates", entries::push_template),
    (EntryKind::Prompt, "prompts", entries::push_prompt),
    (EntryKind::Skill, "skills", content::push_skill),
];

impl InspectReport<'_> {
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
        if let Some(text) = format_extensions(&self.capabilities) {
            head(&mut out, "extensions", &text);
        }
        if let Some(text) = &self.instructions {
            head(&mut out, "instructions", &output::wrap(text, LABEL_WIDTH + 1));
        }
        for (list, name, show) in LISTS {
            if !peer.has(list.capability()) {
                continue;
            }
            let entries = self.entries(list);
            let failure = self.failures.iter().find(|failed| failed.list == list);
            let count = match (failure, entries.len()) {
                (None, count) => count.to_string(),
                (Some(_), 0) => "not read".into(),
                (Some(_), count) => format!("{count}, not all"),
            };
            out.push_str(&format!("\n{} ({count})\n", paint.bold(name)));
            for entry in entries {
                show(&mut out, entry, paint);
            }
            if let Some(FailedPart { message, .. }) = failure {
                out.push_str(&format!("  {}  {}\n", paint.bad("(failed)"), escape::line(message)));
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

/// Formats capabilities without extensions: `tools (listChanged), logging (deprecated)`.
fn format_capabilities(raw: &RawJson) -> String {
    let members: Map<String, Value> = raw.parse().unwrap_or_default();
    let words = members.iter().filter(|(name, _)| *name != EXTENSIONS).map(|(name, value)| {
        let inner =
            value.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Bool(false));
        let mut inner: Vec<_> = inner.map(|(name, _)| name.as_str()).collect();
        // SEP-2577
        if DEPRECATED.iter().any(|feature| feature.to_string() == *name) {
            inner.push("deprecated");
        }
        if inner.is_empty() { name.clone() } else { format!("{name} ({})", inner.join(", ")) }
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

/// Formats extensions, one per line with its settings; `None` if there are none.
fn format_extensions(raw: &RawJson) -> Option<String> {
    let extensions: Map<String, Value> = raw.member(EXTENSIONS)?.parse().ok()?;
    let line = |(id, settings): (&String, &Value)| match settings {
        _ if !is_extension_id(id) => {
            format!("{id} (ignored: not an identifier with a prefix, as in `com.example/name`)")
        }
        Value::Object(settings) if settings.is_empty() => id.clone(),
        Value::Object(settings) => format!("{id} {}", Value::from(settings.clone())),
        _ => format!("{id} (ignored: the settings are not an object)"),
    };
    let lines: Vec<_> = extensions.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Capabilities that the specification deprecates, by the names of their features.
const DEPRECATED: [DeprecatedFeature; 3] =
    [DeprecatedFeature::Roots, DeprecatedFeature::Sampling, DeprecatedFeature::Logging];

/// Member with the extensions (EXT-001).
const EXTENSIONS: &str = "extensions";

const HELP: &str = "\
Examples:
  mcp-probe inspect -- python my_server.py
  mcp-probe inspect --era legacy --stderr null -- python my_server.py
  mcp-probe inspect --env API_TOKEN -- my-server   (passes API_TOKEN on)
  mcp-probe inspect --header 'X-Api-Key: env:API_KEY' https://example.com/mcp
  mcp-probe inspect --config .vscode/mcp.json --server files
  mcp-probe inspect tcp://192.168.4.1:7000   (a board on the network)
  mcp-probe inspect --serial /dev/ttyUSB0:115200   (a board on a serial line)
  mcp-probe inspect --json -- my-server | jq .tools[].name";

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LOG-015, ROOT-013, SAMP-026
    #[test]
    fn deprecated_capabilities_are_marked() {
        let capabilities = r#"{"logging":{},"roots":{"listChanged":true},"sampling":{"x":false},"tools":{"listChanged":true},"y":1,"extensions":{}}"#;
        let raw = RawJson::new(capabilities).expect("JSON");
        assert_eq!(
            format_capabilities(&raw),
            "logging (deprecated), roots (listChanged, deprecated), sampling (deprecated), tools (listChanged), y"
        );
        assert_eq!(format_extensions(&raw), None);
        assert_eq!(format_capabilities(&RawJson::new("{}").expect("JSON")), "none");
    }

    // covers: EXT-001, EXT-002, EXT-003
    #[test]
    fn extensions_are_shown_with_their_settings_and_defects() {
        let extensions =
            r#"{"extensions":{"a.example/b":{},"a.example/c":{"x":[1]},"mine":{},"z.example/d":true}}"#;
        let raw = RawJson::new(extensions).expect("JSON");
        let text = format_extensions(&raw).expect("extensions");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["a.example/b", r#"a.example/c {"x":[1]}"#]);
        assert!(lines[2].starts_with("mine (ignored: not an identifier with a prefix"), "{text}");
        assert_eq!(lines[3], "z.example/d (ignored: the settings are not an object)");
        assert_eq!(format_capabilities(&raw), "none");
    }
}
