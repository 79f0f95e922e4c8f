//! What is in the lists: names, texts, URIs, annotations, icons

use alloc::collections::BTreeSet;

use mcp_proto::router::check_tool_name;
use mcp_proto::router::template::{Mismatch, Screen, Template};
use mcp_proto::{RawJson, Version};
use serde_json::{Map, Value};

use super::handshake::absent;
use super::lists::{Kind, Lists};
use super::report::Report;
use super::rules::{self, Rule};
use super::schemas;
use super::stream::kind as kind_of;
use super::talk::Talk;

/// Looks at all entries of all lists
pub(super) fn check(talk: &Talk<'_>, lists: &Lists) {
    for kind in Kind::ALL {
        let mut lacks = Lacks::default();
        for (index, raw) in lists.of(kind).iter().enumerate() {
            let value: Value = raw.parse().unwrap_or_default();
            let name =
                value[kind.key()].as_str().map_or_else(|| (index + 1).to_string(), |key| format!("`{key}`"));
            let place = format!("{} {name}", kind.singular());
            let Some(members) = value.as_object() else {
                talk.report.add(
                    rules::ENTRY,
                    &place,
                    format!("it is {}, and has to be an object", kind_of(&value)),
                );
                continue;
            };
            let entry = Entry { report: talk.report, version: talk.version(), place, value: members };
            entry.common(kind, &mut lacks, &name);
            match kind {
                Kind::Tools => entry.tool(raw),
                Kind::Resources => entry.resource(&mut lacks, &name),
                Kind::Templates => entry.template(),
                Kind::Prompts => entry.prompt(),
            }
        }
        lacks.tell(talk.report, kind);
    }
}

/// Entries that lack something, told all at once
#[derive(Default)]
struct Lacks {
    description: Vec<String>,
    title: Vec<String>,
    mime_type: Vec<String>,
}

impl Lacks {
    fn tell(self, report: &Report, kind: Kind) {
        let tell = |rule: &'static Rule, member: &str, names: Vec<String>| {
            if !names.is_empty() {
                let place = format!("{}s", kind.singular());
                report.add(rule, &place, format!("{} without `{member}`: {}", names.len(), names.join(", ")));
            }
        };
        tell(rules::NO_DESCRIPTION, "description", self.description);
        tell(rules::NO_TITLE, "title", self.title);
        tell(rules::NO_MIME_TYPE, "mimeType", self.mime_type);
    }
}

/// One entry of a list
struct Entry<'a> {
    report: &'a Report,
    version: Version,
    place: String,
    value: &'a Map<String, Value>,
}

impl Entry<'_> {
    fn add(&self, rule: &'static Rule, what: impl Into<String>) {
        self.report.add(rule, &self.place, what);
    }

    /// A string that may be left out
    fn text(&self, member: &str) -> Option<&str> {
        match self.value.get(member) {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.add(rules::ENTRY, format!("`{member}` is {}, and has to be a string", kind_of(other)));
                None
            }
        }
    }

    fn common(&self, kind: Kind, lacks: &mut Lacks, name: &str) {
        for member in ["name", kind.key()] {
            let value = self.value.get(member);
            if !value.is_some_and(Value::is_string) {
                self.add(rules::ENTRY, format!("`{member}` is {}, and has to be a string", absent(value)));
            }
            if kind.key() == "name" {
                break;
            }
        }
        if self.text("description").is_none_or(|text| text.trim().is_empty()) {
            lacks.description.push(name.to_owned());
        }
        let annotations = self.value.get("annotations");
        let titled = annotations.is_some_and(|annotations| annotations["title"].is_string());
        if self.version >= Version::V2025_06_18 && self.text("title").is_none() && !titled {
            lacks.title.push(name.to_owned());
        }
        if let Some(text) = self.text("mimeType").filter(|text| !is_mime_type(text)) {
            self.add(rules::MIME_TYPE, format!("`mimeType` is {text:?}"));
        }
        if let Some(meta) = self.value.get("_meta").filter(|_| self.version >= Version::V2025_06_18) {
            meta_keys(self.report, &self.place, meta);
        }
        icons_of(self.report, self.version, &self.place, self.value.get("icons"));
        match annotations {
            None => {}
            // They came later, and mean nothing there.
            Some(_) if kind == Kind::Tools && self.version < Version::V2025_03_26 => {}
            Some(Value::Object(annotations)) if kind == Kind::Tools => self.tool_annotations(annotations),
            Some(Value::Object(annotations)) => self.annotations(annotations),
            Some(other) => {
                self.add(rules::ANNOTATION_VALUE, format!("`annotations` is {}", kind_of(other)));
            }
        }
    }

    fn tool(&self, raw: &RawJson) {
        let name = self.value.get("name").and_then(Value::as_str);
        // Earlier revisions do not say what a name may be.
        if self.version >= Version::V2025_11_25 {
            if let Some(Err(why)) = name.map(check_tool_name) {
                self.add(rules::TOOL_NAME, why);
            }
        } else if let Some(why) = name.and_then(odd_name) {
            self.add(rules::PLAIN_NAME, why);
        }
        schemas::check(
            self.report,
            self.version,
            &self.place,
            "inputSchema",
            raw.member("inputSchema").as_ref(),
        );
        if let Some(output) = raw.member("outputSchema").filter(|_| self.version >= Version::V2025_06_18) {
            schemas::check(self.report, self.version, &self.place, "outputSchema", Some(&output));
        }
    }

    fn tool_annotations(&self, annotations: &Map<String, Value>) {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            if let Some(other) = annotations.get(hint).filter(|value| !value.is_boolean()) {
                self.add(rules::ANNOTATION_VALUE, format!("`annotations.{hint}` is {}", kind_of(other)));
            }
        }
        if let Some(other) = annotations.get("title").filter(|value| !value.is_string()) {
            self.add(rules::ANNOTATION_VALUE, format!("`annotations.title` is {}", kind_of(other)));
        }
        let says = |hint: &str| annotations.get(hint) == Some(&Value::Bool(true));
        if says("readOnlyHint") && says("destructiveHint") {
            self.add(rules::ANNOTATIONS_CONTRADICT, "it says both `readOnlyHint` and `destructiveHint`");
        }
    }

    fn annotations(&self, annotations: &Map<String, Value>) {
        let roles = |value: &Value| {
            value
                .as_array()
                .is_some_and(|roles| roles.iter().all(|role| role == "user" || role == "assistant"))
        };
        let between = |value: &Value| value.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n));
        let time = |value: &Value| value.as_str().is_some_and(is_time);
        let rows = [
            ("audience", annotations.get("audience").is_none_or(roles)),
            ("priority", annotations.get("priority").is_none_or(between)),
            ("lastModified", annotations.get("lastModified").is_none_or(time)),
        ];
        for (member, right) in rows {
            if !right {
                self.add(
                    rules::ANNOTATION_VALUE,
                    format!("`annotations.{member}` is {}", annotations[member]),
                );
            }
        }
    }

    fn resource(&self, lacks: &mut Lacks, name: &str) {
        if let Some(Err(why)) = self.value.get("uri").and_then(Value::as_str).map(check_uri) {
            self.add(rules::RESOURCE_URI, why);
        }
        if self.value.get("size").is_some_and(|size| !size.is_u64()) {
            self.add(
                rules::ENTRY,
                format!("`size` is {}, and has to be a number of bytes", self.value["size"]),
            );
        }
        if !self.value.contains_key("mimeType") {
            lacks.mime_type.push(name.to_owned());
        }
    }

    fn template(&self) {
        let Some(text) = self.value.get("uriTemplate").and_then(Value::as_str) else { return };
        match Template::new(text) {
            Err(why) => self.add(rules::URI_TEMPLATE, why.to_string()),
            Ok(template) if template.variables().next().is_none() => {
                self.add(rules::TEMPLATE_PLAIN, "it has no variables");
            }
            Ok(_) => {}
        }
    }

    fn prompt(&self) {
        if let Some(why) = self.value.get("name").and_then(Value::as_str).and_then(odd_name) {
            self.add(rules::PLAIN_NAME, why);
        }
        let arguments = match self.value.get("arguments") {
            None => return,
            Some(Value::Array(arguments)) => arguments,
            Some(other) => {
                return self
                    .add(rules::ENTRY, format!("`arguments` is {}, and has to be an array", kind_of(other)));
            }
        };
        let mut names = BTreeSet::new();
        let mut bare = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let Some(name) = argument["name"].as_str() else {
                let what = format!("argument {} has no `name` that is a string", index + 1);
                self.add(rules::ENTRY, what);
                continue;
            };
            if !names.insert(name) {
                self.add(rules::DUPLICATE_ARGUMENT, format!("there are two arguments `{name}`"));
            }
            if let Some(why) = odd_name(name) {
                self.add(rules::PLAIN_NAME, format!("argument `{name}`: {why}"));
            }
            if argument.get("required").is_some_and(|required| !required.is_boolean()) {
                self.add(
                    rules::ENTRY,
                    format!("`required` of the argument `{name}` is {}", kind_of(&argument["required"])),
                );
            }
            if !argument["description"].is_string() {
                bare.push(format!("`{name}`"));
            }
        }
        if !bare.is_empty() {
            let what = format!("arguments without `description`: {}", bare.join(", "));
            self.add(rules::NO_ARGUMENT_DESCRIPTION, what);
        }
    }
}

/// The icons of something that has them directly
pub(super) fn icons(talk: &Talk<'_>, version: Version, place: &str, of: &Value) {
    icons_of(talk.report, version, place, of.get("icons"));
}

fn icons_of(report: &Report, version: Version, place: &str, icons: Option<&Value>) {
    // Before, it is a member that means nothing.
    if version < Version::V2025_11_25 {
        return;
    }
    let list = match icons {
        None => return,
        Some(Value::Array(list)) => list,
        Some(other) => return report.add(rules::ICON, place, format!("`icons` is {}", kind_of(other))),
    };
    for icon in list {
        match icon["src"].as_str() {
            None => report.add(rules::ICON, place, format!("`src` is {}", absent(icon.get("src")))),
            Some(src) => {
                match src.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
                    Some("https" | "data") => {}
                    Some("http") => report.add(rules::ICON_HTTP, place, format!("`src` is {src:?}")),
                    _ => report.add(rules::ICON, place, format!("`src` is {src:?}")),
                }
            }
        }
        let is_size = |size: &Value| size.as_str().is_some_and(is_size);
        if let Some(sizes) = icon.get("sizes") {
            if !sizes.as_array().is_some_and(|sizes| sizes.iter().all(is_size)) {
                report.add(rules::ICON, place, format!("`sizes` is {sizes}"));
            }
        }
        if let Some(theme) = icon.get("theme").filter(|theme| *theme != "light" && *theme != "dark") {
            report.add(rules::ICON, place, format!("`theme` is {theme}"));
        }
        if icon.get("mimeType").is_some_and(|kind| !kind.as_str().is_some_and(is_mime_type)) {
            report.add(rules::ICON, place, format!("`mimeType` is {}", icon["mimeType"]));
        }
    }
}

/// `48x48`, or `any`
fn is_size(size: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    size == "any" || size.split_once('x').is_some_and(|(width, height)| number(width) && number(height))
}

fn meta_keys(report: &Report, place: &str, meta: &Value) {
    let Some(members) = meta.as_object() else {
        return report.add(
            rules::ENTRY,
            place,
            format!("`_meta` is {}, and has to be an object", kind_of(meta)),
        );
    };
    for key in members.keys().filter(|key| !is_meta_key(key)) {
        report.add(rules::META_KEY, place, format!("the key {key:?}"));
    }
}

/// Whether a key may stand in `_meta`: a name, or a prefix, a slash and a name
pub(super) fn is_meta_key(key: &str) -> bool {
    let edge = |text: &str, first: fn(&u8) -> bool, inner: fn(&u8) -> bool| {
        let bytes = text.as_bytes();
        bytes.first().is_some_and(first)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(inner)
    };
    let label = |text: &str| edge(text, u8::is_ascii_alphabetic, |b| b.is_ascii_alphanumeric() || *b == b'-');
    let name = |text: &str| {
        edge(text, u8::is_ascii_alphanumeric, |b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    match key.split_once('/') {
        Some((prefix, rest)) => prefix.split('.').all(label) && (rest.is_empty() || name(rest)),
        None => key.is_empty() || name(key),
    }
}

/// `type/subtype`, and perhaps parameters
fn is_mime_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let essence = text.split_once(';').map_or(text, |(essence, _)| essence).trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// ISO 8601, as far as a date of the calendar at its beginning tells
fn is_time(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && date.bytes().all(|b| b.is_ascii_digit() || b"-+W".contains(&b))
}

/// What is wrong with a URI
pub(super) fn check_uri(uri: &str) -> Result<(), String> {
    // A URI is written in ASCII; others are IRIs, which have to be encoded first.
    if let Some(at) = uri.bytes().position(|b| !b.is_ascii()) {
        return Err(format!("the character at byte {at} has to be written as %XX"));
    }
    // Anything is a value of this, so that what is left to fail is the URI.
    match Template::new("{+any}").map(|any| any.matches(uri, Screen::dangerously_off()).err()) {
        Ok(Some(Mismatch::Uri(why))) => Err(why.to_string()),
        _ => Ok(()),
    }
}

/// What is odd about the name of a prompt or of an argument
fn odd_name(name: &str) -> Option<&'static str> {
    match name.chars().count() {
        0 => Some("its name is empty"),
        129.. => Some("its name is longer than 128 characters"),
        _ if name.chars().any(char::is_control) => Some("its name has control characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_syntaxes() {
        for good in ["a", "a.b/c", "io.modelcontextprotocol/x", "x-y/", "", "0", "a_b.c"] {
            assert!(is_meta_key(good), "{good}");
        }
        for bad in ["/a", "a/b/c", "1a/b", "a-/b", ".a", "a b", "a..b/c"] {
            assert!(!is_meta_key(bad), "{bad}");
        }
        for good in ["text/plain", "text/html;profile=mcp-app", "inode/directory", "image/svg+xml"] {
            assert!(is_mime_type(good), "{good}");
        }
        for bad in ["text", "text/", "/plain", "text/pl ain", ""] {
            assert!(!is_mime_type(bad), "{bad}");
        }
        for good in ["2025-01-12T15:00:58Z", "2025-01-12", "2025-W02-7", "20250112"] {
            assert!(is_time(good), "{good}");
        }
        for bad in ["yesterday", "", "12 January 2025", "Z"] {
            assert!(!is_time(bad), "{bad}");
        }
        for good in ["file:///a%20b", "demo://x", "urn:isbn:1", "a+b:c?d#e"] {
            assert_eq!(check_uri(good), Ok(()), "{good}");
        }
        for bad in ["a/b", "file:///a b", "x:%zz", "http://ü/", "", "1x:y"] {
            assert!(check_uri(bad).is_err(), "{bad}");
        }
    }
}
