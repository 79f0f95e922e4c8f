//! Checks of list entries: names, texts, URIs, annotations and icons.

use alloc::collections::BTreeSet;

use mcp_proto::router::check_tool_name;
use mcp_proto::router::template::{Template, TemplateMismatch, VariablePolicy};
use mcp_proto::{RawJson, Version};
use serde_json::{Map, Value};

use super::conversation::CheckConversation;
use super::handshake::describe_missing;
use super::lists::{ListKind, ServerLists};
use super::messages::value_kind as kind_of;
use super::report::CheckReport;
use super::rules::{self, Rule};
use super::schemas;

/// Checks all entries of all lists.
pub(super) fn check_entries(conversation: &CheckConversation<'_>, lists: &ServerLists) {
    for kind in ListKind::ALL {
        let mut missing = MissingMembers::default();
        for (index, raw) in lists.entries(kind).iter().enumerate() {
            let value: Value = raw.parse().unwrap_or_default();
            let name =
                value[kind.key()].as_str().map_or_else(|| (index + 1).to_string(), |key| format!("`{key}`"));
            let location = format!("{} {name}", kind.singular());
            let Some(members) = value.as_object() else {
                conversation.report.add(
                    rules::ENTRY,
                    &location,
                    format!("it is {}, but must be an object", kind_of(&value)),
                );
                continue;
            };
            let entry = CheckedEntry {
                report: conversation.report,
                version: conversation.version(),
                location,
                value: members,
            };
            entry.check_common(kind, &mut missing, &name);
            match kind {
                ListKind::Tools => {
                    if schemas::is_constrained(&value["inputSchema"]) {
                        missing.constrained.push(name);
                    }
                    entry.check_tool(raw);
                }
                ListKind::Resources => entry.check_resource(&mut missing, &name),
                ListKind::Templates => entry.check_template(),
                ListKind::Prompts => entry.check_prompt(),
            }
        }
        missing.report(conversation.report, kind);
    }
}

/// Names of entries with missing members, reported together.
#[derive(Default)]
struct MissingMembers {
    description: Vec<String>,
    title: Vec<String>,
    mime_type: Vec<String>,
    /// Tools whose arguments have limits, which is no member that is missing.
    constrained: Vec<String>,
}

impl MissingMembers {
    fn report(self, report: &CheckReport, kind: ListKind) {
        let report_missing = |rule: &'static Rule, member: &str, names: Vec<String>| {
            if !names.is_empty() {
                let location = format!("{}s", kind.singular());
                report.add(
                    rule,
                    &location,
                    format!("{} without `{member}`: {}", names.len(), names.join(", ")),
                );
            }
        };
        report_missing(rules::NO_DESCRIPTION, "description", self.description);
        report_missing(rules::NO_TITLE, "title", self.title);
        report_missing(rules::NO_MIME_TYPE, "mimeType", self.mime_type);
        if !self.constrained.is_empty() {
            let number = self.constrained.len();
            let mut names = self.constrained;
            if number > MAX_NAMES {
                names.truncate(MAX_NAMES);
                names.push("…".into());
            }
            let tools = if number == 1 { "tool" } else { "tools" };
            let what = format!("{number} {tools} with limits of arguments: {}", names.join(", "));
            report.add(rules::CONSTRAINTS_UNSEEN, "tools", what);
        }
    }
}

/// An entry of a list.
struct CheckedEntry<'a> {
    report: &'a CheckReport,
    version: Version,
    location: String,
    value: &'a Map<String, Value>,
}

impl CheckedEntry<'_> {
    fn add_finding(&self, rule: &'static Rule, what: impl Into<String>) {
        self.report.add(rule, &self.location, what);
    }

    /// Returns an optional string member. A value of another type is a finding.
    fn optional_text(&self, member: &str) -> Option<&str> {
        match self.value.get(member) {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.add_finding(
                    rules::ENTRY,
                    format!("`{member}` is {}, but must be a string", kind_of(other)),
                );
                None
            }
        }
    }

    fn check_common(&self, kind: ListKind, missing: &mut MissingMembers, name: &str) {
        for member in ["name", kind.key()] {
            let value = self.value.get(member);
            if !value.is_some_and(Value::is_string) {
                self.add_finding(
                    rules::ENTRY,
                    format!("`{member}` is {}, but must be a string", describe_missing(value)),
                );
            }
            if kind.key() == "name" {
                break;
            }
        }
        if self.optional_text("description").is_none_or(|text| text.trim().is_empty()) {
            missing.description.push(name.to_owned());
        }
        let annotations = self.value.get("annotations");
        let titled = annotations.is_some_and(|annotations| annotations["title"].is_string());
        if self.version >= Version::V2025_06_18 && self.optional_text("title").is_none() && !titled {
            missing.title.push(name.to_owned());
        }
        if let Some(text) = self.optional_text("mimeType").filter(|text| !is_mime_type(text)) {
            self.add_finding(rules::MIME_TYPE, format!("`mimeType` is {text:?}"));
        }
        if let Some(meta) = self.value.get("_meta").filter(|_| self.version >= Version::V2025_06_18) {
            check_meta_keys(self.report, &self.location, meta);
        }
        check_icon_list(self.report, self.version, &self.location, self.value.get("icons"));
        match annotations {
            None => {}
            // Later revisions added annotations; they have no meaning here.
            Some(_) if kind == ListKind::Tools && self.version < Version::V2025_03_26 => {}
            Some(Value::Object(annotations)) if kind == ListKind::Tools => {
                self.check_tool_annotations(annotations)
            }
            Some(Value::Object(annotations)) => self.check_annotations(annotations),
            Some(other) => {
                self.add_finding(rules::ANNOTATION_VALUE, format!("`annotations` is {}", kind_of(other)));
            }
        }
    }

    fn check_tool(&self, raw: &RawJson) {
        let name = self.value.get("name").and_then(Value::as_str);
        // Earlier revisions do not restrict names.
        if self.version >= Version::V2025_11_25 {
            if let Some(Err(why)) = name.map(check_tool_name) {
                self.add_finding(rules::TOOL_NAME, why);
            }
        } else if let Some(why) = name.and_then(name_problem) {
            self.add_finding(rules::PLAIN_NAME, why);
        }
        schemas::check_schema(
            self.report,
            self.version,
            &self.location,
            "inputSchema",
            raw.member("inputSchema").as_ref(),
        );
        if let Some(output) = raw.member("outputSchema").filter(|_| self.version >= Version::V2025_06_18) {
            schemas::check_schema(self.report, self.version, &self.location, "outputSchema", Some(&output));
        }
    }

    fn check_tool_annotations(&self, annotations: &Map<String, Value>) {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            if let Some(other) = annotations.get(hint).filter(|value| !value.is_boolean()) {
                self.add_finding(
                    rules::ANNOTATION_VALUE,
                    format!("`annotations.{hint}` is {}", kind_of(other)),
                );
            }
        }
        if let Some(other) = annotations.get("title").filter(|value| !value.is_string()) {
            self.add_finding(rules::ANNOTATION_VALUE, format!("`annotations.title` is {}", kind_of(other)));
        }
        let is_true = |hint: &str| annotations.get(hint) == Some(&Value::Bool(true));
        if is_true("readOnlyHint") && is_true("destructiveHint") {
            self.add_finding(
                rules::ANNOTATIONS_CONTRADICT,
                "both `readOnlyHint` and `destructiveHint` are true",
            );
        }
    }

    fn check_annotations(&self, annotations: &Map<String, Value>) {
        let roles = |value: &Value| {
            value
                .as_array()
                .is_some_and(|roles| roles.iter().all(|role| role == "user" || role == "assistant"))
        };
        let between = |value: &Value| value.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n));
        let time = |value: &Value| value.as_str().is_some_and(is_timestamp);
        let rows = [
            ("audience", annotations.get("audience").is_none_or(roles)),
            ("priority", annotations.get("priority").is_none_or(between)),
            ("lastModified", annotations.get("lastModified").is_none_or(time)),
        ];
        for (member, right) in rows {
            if !right {
                self.add_finding(
                    rules::ANNOTATION_VALUE,
                    format!("`annotations.{member}` is {}", annotations[member]),
                );
            }
        }
    }

    fn check_resource(&self, missing: &mut MissingMembers, name: &str) {
        if let Some(Err(why)) = self.value.get("uri").and_then(Value::as_str).map(check_uri) {
            self.add_finding(rules::RESOURCE_URI, why);
        }
        if self.value.get("size").is_some_and(|size| !size.is_u64()) {
            self.add_finding(
                rules::ENTRY,
                format!("`size` is {}, but must be a number of bytes", self.value["size"]),
            );
        }
        if !self.value.contains_key("mimeType") {
            missing.mime_type.push(name.to_owned());
        }
    }

    fn check_template(&self) {
        let Some(text) = self.value.get("uriTemplate").and_then(Value::as_str) else { return };
        match Template::new(text) {
            Err(why) => self.add_finding(rules::URI_TEMPLATE, why.to_string()),
            Ok(template) if template.variables().next().is_none() => {
                self.add_finding(rules::TEMPLATE_PLAIN, "it has no variables");
            }
            Ok(_) => {}
        }
    }

    fn check_prompt(&self) {
        if let Some(why) = self.value.get("name").and_then(Value::as_str).and_then(name_problem) {
            self.add_finding(rules::PLAIN_NAME, why);
        }
        let arguments = match self.value.get("arguments") {
            None => return,
            Some(Value::Array(arguments)) => arguments,
            Some(other) => {
                return self.add_finding(
                    rules::ENTRY,
                    format!("`arguments` is {}, but must be an array", kind_of(other)),
                );
            }
        };
        let mut names = BTreeSet::new();
        let mut bare = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let Some(name) = argument["name"].as_str() else {
                let what = format!("argument {} has no `name` that is a string", index + 1);
                self.add_finding(rules::ENTRY, what);
                continue;
            };
            if !names.insert(name) {
                self.add_finding(rules::DUPLICATE_ARGUMENT, format!("there are two arguments `{name}`"));
            }
            if let Some(why) = name_problem(name) {
                self.add_finding(rules::PLAIN_NAME, format!("argument `{name}`: {why}"));
            }
            if argument.get("required").is_some_and(|required| !required.is_boolean()) {
                self.add_finding(
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
            self.add_finding(rules::NO_ARGUMENT_DESCRIPTION, what);
        }
    }
}

/// Checks the icons of an object that has them as a direct member.
pub(super) fn check_icons(
    conversation: &CheckConversation<'_>,
    version: Version,
    location: &str,
    of: &Value,
) {
    check_icon_list(conversation.report, version, location, of.get("icons"));
}

fn check_icon_list(report: &CheckReport, version: Version, location: &str, icons: Option<&Value>) {
    // Earlier revisions give this member no meaning.
    if version < Version::V2025_11_25 {
        return;
    }
    let list = match icons {
        None => return,
        Some(Value::Array(list)) => list,
        Some(other) => return report.add(rules::ICON, location, format!("`icons` is {}", kind_of(other))),
    };
    for icon in list {
        match icon["src"].as_str() {
            None => {
                report.add(rules::ICON, location, format!("`src` is {}", describe_missing(icon.get("src"))))
            }
            Some(src) => {
                match src.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
                    Some("https" | "data") => {}
                    Some("http") => report.add(rules::ICON_HTTP, location, format!("`src` is {src:?}")),
                    _ => report.add(rules::ICON, location, format!("`src` is {src:?}")),
                }
            }
        }
        let is_size = |size: &Value| size.as_str().is_some_and(is_size);
        if let Some(sizes) = icon.get("sizes") {
            if !sizes.as_array().is_some_and(|sizes| sizes.iter().all(is_size)) {
                report.add(rules::ICON, location, format!("`sizes` is {sizes}"));
            }
        }
        if let Some(theme) = icon.get("theme").filter(|theme| *theme != "light" && *theme != "dark") {
            report.add(rules::ICON, location, format!("`theme` is {theme}"));
        }
        if icon.get("mimeType").is_some_and(|kind| !kind.as_str().is_some_and(is_mime_type)) {
            report.add(rules::ICON, location, format!("`mimeType` is {}", icon["mimeType"]));
        }
    }
}

/// Returns whether a size is `48x48`, for example, or `any`.
fn is_size(size: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    size == "any" || size.split_once('x').is_some_and(|(width, height)| number(width) && number(height))
}

fn check_meta_keys(report: &CheckReport, location: &str, meta: &Value) {
    let Some(members) = meta.as_object() else {
        return report.add(
            rules::ENTRY,
            location,
            format!("`_meta` is {}, but must be an object", kind_of(meta)),
        );
    };
    for key in members.keys().filter(|key| !is_meta_key(key)) {
        report.add(rules::META_KEY, location, format!("the key {key:?}"));
    }
}

/// Returns whether a key is allowed in `_meta`: a name, or a prefix, a slash and a name.
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

/// Returns whether a text is `type/subtype`, optionally with parameters.
fn is_mime_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let essence = text.split_once(';').map_or(text, |(essence, _)| essence).trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// Returns whether a text starts with a calendar date of ISO 8601.
fn is_timestamp(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && date.bytes().all(|b| b.is_ascii_digit() || b"-+W".contains(&b))
}

/// Returns what is wrong with a URI, if anything.
pub(super) fn check_uri(uri: &str) -> Result<(), String> {
    // URIs are ASCII; other characters make an IRI, which must be encoded.
    if let Some(at) = uri.bytes().position(|b| !b.is_ascii()) {
        return Err(format!("the character at byte {at} must be written as %XX"));
    }
    // This template matches any value, so only the URI itself can be at fault.
    match Template::new("{+any}").map(|any| any.match_uri(uri, VariablePolicy::dangerously_off()).err()) {
        Ok(Some(TemplateMismatch::Uri(why))) => Err(why.to_string()),
        _ => Ok(()),
    }
}

/// Returns what is wrong with the name of a prompt or argument, if anything.
fn name_problem(name: &str) -> Option<&'static str> {
    match name.chars().count() {
        0 => Some("its name is empty"),
        129.. => Some("its name is longer than 128 characters"),
        _ if name.chars().any(char::is_control) => Some("its name has control characters"),
        _ => None,
    }
}

/// Maximum number of tools that a finding names. Further ones are left out.
const MAX_NAMES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_keys_media_types_timestamps_and_uris_are_validated() {
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
            assert!(is_timestamp(good), "{good}");
        }
        for bad in ["yesterday", "", "12 January 2025", "Z"] {
            assert!(!is_timestamp(bad), "{bad}");
        }
        for good in ["file:///a%20b", "demo://x", "urn:isbn:1", "a+b:c?d#e"] {
            assert_eq!(check_uri(good), Ok(()), "{good}");
        }
        for bad in ["a/b", "file:///a b", "x:%zz", "http://ü/", "", "1x:y"] {
            assert!(check_uri(bad).is_err(), "{bad}");
        }
    }
}
