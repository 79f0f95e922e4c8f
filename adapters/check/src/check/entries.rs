//! Checks of list entries: names, texts, URIs, annotations and icons.

use alloc::collections::BTreeSet;

use mcp_proto::router::check_tool_name;
use mcp_proto::router::template::{Template, TemplateMismatch, VariablePolicy};
use mcp_proto::{EntryKind, RawJson, Version};
use serde_json::{Map, Value};

use super::conversation::CheckConversation;
use super::handshake::describe_missing;
use super::lists::{LISTS, ServerLists, key_member};
use super::messages::value_kind as kind_of;
use super::report::CheckReport;
use super::rules::{Rule, rules_of};
use super::schemas::{self, CONSTRAINTS_UNSEEN};

rules_of! {
    RULES
    ENTRY "entry" Error [Spec Hosted] ["TOOL-006" "RES-008" "RES-009" "PROMPT-005" "SCHEMA-011"]
        "list entries have the required members, with the right types"
        "see the schema of the revision"
    TOOL_NAME "tool-name" Warning [Spec Hosted] ["TOOL-028"]
        "tool names have 1 to 128 characters: letters, digits, `_`, `-` and `.`"
        "rename it"
    PLAIN_NAME "plain-name" Note [Spec] ["PROMPT-005"]
        "names have 1 to 128 characters, none of them a control character"
        "rename it"
    NO_DESCRIPTION "no-description" Note [Spec] ["TOOL-006" "RES-008" "RES-009" "PROMPT-005"]
        "entries have a description"
        "add `description`: models and users choose by it"
    NO_TITLE "no-title" Note [Spec] ["META-035"]
        "entries have a title for users"
        "add `title`, for people to read; the name is for programs"
    NO_ARGUMENT_DESCRIPTION "no-argument-description" Note [Spec] ["TOOL-006" "PROMPT-005"]
        "arguments are described"
        "add `description`"
    NO_MIME_TYPE "no-mime-type" Note [Spec] ["RES-008"]
        "resources have a MIME type"
        "add `mimeType`"
    ANNOTATIONS_CONTRADICT "annotations-contradict" Warning [Spec Hosted] Mcp03 ["TOOL-027"]
        "annotations of a tool do not contradict each other"
        "leave `destructiveHint` out where `readOnlyHint` is true"
    ANNOTATION_VALUE "annotation-value" Error [Spec Hosted] ["CONT-004" "BASE-046" "TOOL-027"]
        "annotations have values of the right type"
        "`audience` is an array of `user` and `assistant`, `priority` lies between 0 and 1, hints are true or false"
}

rules_of! {
    IDENTIFIERS
    DUPLICATE_ARGUMENT "duplicate-argument" Warning [Spec Hosted] ["PROMPT-005"]
        "each argument of a prompt has its own name"
        "rename one of them"
    RESOURCE_URI "resource-uri" Error [Spec Hosted] ["RES-026" "RES-008"]
        "resource URIs are valid (RFC 3986)"
        "start it with a scheme, and write invalid characters as %XX"
    URI_TEMPLATE "uri-template" Error [Spec Hosted] ["RES-009"]
        "URI templates are valid (RFC 6570)"
        "correct it"
}

rules_of! {
    FORMS
    TEMPLATE_PLAIN "template-plain" Note [Spec] ["RES-009"]
        "templates have variables"
        "list it as a resource"
    MIME_TYPE "mime-type" Warning [Spec Hosted] ["CONT-003"]
        "MIME types have the form `type/subtype`"
        "correct it"
    ICON "icon" Error [Spec Hosted] ["META-027"]
        "icons have a `src` that is a URL with https or http, or a data: URI, and sizes, for example `48x48` or `any`"
        "correct it"
    ICON_HTTP "icon-http" Note [Spec] ["META-031"]
        "icons use https or data:, because clients refuse other schemes"
        "use https"
}

rules_of! {
    META
    META_KEY "meta-key" Error [Spec Hosted] ["META-003" "META-004"]
        "keys of `_meta` are a name, or a prefix of labels with dots, a slash and a name"
        "rename it"
}

/// Checks all entries of all lists.
pub(super) fn check_entries(conversation: &CheckConversation<'_>, lists: &ServerLists) {
    for kind in LISTS {
        let mut missing = MissingMembers::default();
        for (index, raw) in lists.entries(kind).iter().enumerate() {
            let value: Value = raw.parse().unwrap_or_default();
            let name = value[key_member(kind)]
                .as_str()
                .map_or_else(|| (index + 1).to_string(), |key| format!("`{key}`"));
            let location = format!("{} {name}", kind);
            let Some(members) = value.as_object() else {
                conversation.report.add(
                    ENTRY,
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
                EntryKind::Tool => {
                    if schemas::is_constrained(&value["inputSchema"]) {
                        missing.constrained.push(name);
                    }
                    entry.check_tool(raw);
                }
                EntryKind::Resource => entry.check_resource(&mut missing, &name),
                EntryKind::ResourceTemplate => entry.check_template(),
                _ => entry.check_prompt(),
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
    fn report(self, report: &CheckReport, kind: EntryKind) {
        let report_missing = |rule: &'static Rule, member: &str, names: Vec<String>| {
            if !names.is_empty() {
                let location = format!("{}s", kind);
                report.add(
                    rule,
                    &location,
                    format!("{} without `{member}`: {}", names.len(), names.join(", ")),
                );
            }
        };
        report_missing(NO_DESCRIPTION, "description", self.description);
        report_missing(NO_TITLE, "title", self.title);
        report_missing(NO_MIME_TYPE, "mimeType", self.mime_type);
        if !self.constrained.is_empty() {
            let number = self.constrained.len();
            let mut names = self.constrained;
            if number > MAX_NAMES {
                names.truncate(MAX_NAMES);
                names.push("…".into());
            }
            let tools = if number == 1 { "tool" } else { "tools" };
            let what = format!("{number} {tools} with limits of arguments: {}", names.join(", "));
            report.add(CONSTRAINTS_UNSEEN, "tools", what);
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

    /// Reports a member of the wrong type, or one that is missing.
    fn add_wrong_type(&self, member: &str, value: Option<&Value>, expected: &str) {
        self.add_finding(ENTRY, format!("`{member}` is {}, but must be {expected}", describe_missing(value)));
    }

    /// Returns an optional string member. A value of another type is a finding.
    fn optional_text(&self, member: &str) -> Option<&str> {
        match self.value.get(member) {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.add_wrong_type(member, Some(other), "a string");
                None
            }
        }
    }

    fn check_common(&self, kind: EntryKind, missing: &mut MissingMembers, name: &str) {
        for member in ["name", key_member(kind)] {
            let value = self.value.get(member);
            if !value.is_some_and(Value::is_string) {
                self.add_wrong_type(member, value, "a string");
            }
            if key_member(kind) == "name" {
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
            self.add_finding(MIME_TYPE, format!("`mimeType` is {text:?}"));
        }
        if let Some(meta) = self.value.get("_meta").filter(|_| self.version >= Version::V2025_06_18) {
            check_meta_keys(self.report, &self.location, meta);
        }
        check_icon_list(self.report, self.version, &self.location, self.value.get("icons"));
        match annotations {
            None => {}
            // Later revisions added annotations; they have no meaning here.
            Some(_) if kind == EntryKind::Tool && self.version < Version::V2025_03_26 => {}
            Some(Value::Object(annotations)) if kind == EntryKind::Tool => {
                self.check_tool_annotations(annotations)
            }
            Some(Value::Object(annotations)) => self.check_annotations(annotations),
            Some(other) => {
                self.add_finding(ANNOTATION_VALUE, format!("`annotations` is {}", kind_of(other)));
            }
        }
    }

    fn check_tool(&self, raw: &RawJson) {
        let name = self.value.get("name").and_then(Value::as_str);
        // Earlier revisions do not restrict names.
        if self.version >= Version::V2025_11_25 {
            if let Some(Err(why)) = name.map(check_tool_name) {
                self.add_finding(TOOL_NAME, why);
            }
        } else if let Some(why) = name.and_then(name_problem) {
            self.add_finding(PLAIN_NAME, why);
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
                self.add_finding(ANNOTATION_VALUE, format!("`annotations.{hint}` is {}", kind_of(other)));
            }
        }
        if let Some(other) = annotations.get("title").filter(|value| !value.is_string()) {
            self.add_finding(ANNOTATION_VALUE, format!("`annotations.title` is {}", kind_of(other)));
        }
        let is_true = |hint: &str| annotations.get(hint) == Some(&Value::Bool(true));
        if is_true("readOnlyHint") && is_true("destructiveHint") {
            self.add_finding(ANNOTATIONS_CONTRADICT, "both `readOnlyHint` and `destructiveHint` are true");
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
                    ANNOTATION_VALUE,
                    format!("`annotations.{member}` is {}", annotations[member]),
                );
            }
        }
    }

    fn check_resource(&self, missing: &mut MissingMembers, name: &str) {
        if let Some(Err(why)) = self.value.get("uri").and_then(Value::as_str).map(check_uri) {
            self.add_finding(RESOURCE_URI, why);
        }
        if self.value.get("size").is_some_and(|size| !size.is_u64()) {
            self.add_finding(
                ENTRY,
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
            Err(why) => self.add_finding(URI_TEMPLATE, why.to_string()),
            Ok(template) if template.variables().next().is_none() => {
                self.add_finding(TEMPLATE_PLAIN, "it has no variables");
            }
            Ok(_) => {}
        }
    }

    fn check_prompt(&self) {
        if let Some(why) = self.value.get("name").and_then(Value::as_str).and_then(name_problem) {
            self.add_finding(PLAIN_NAME, why);
        }
        let arguments = match self.value.get("arguments") {
            None => return,
            Some(Value::Array(arguments)) => arguments,
            other => return self.add_wrong_type("arguments", other, "an array"),
        };
        let mut names = BTreeSet::new();
        let mut bare = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let Some(name) = argument["name"].as_str() else {
                let what = format!("argument {} has no `name` that is a string", index + 1);
                self.add_finding(ENTRY, what);
                continue;
            };
            if !names.insert(name) {
                self.add_finding(DUPLICATE_ARGUMENT, format!("there are two arguments `{name}`"));
            }
            if let Some(why) = name_problem(name) {
                self.add_finding(PLAIN_NAME, format!("argument `{name}`: {why}"));
            }
            if argument.get("required").is_some_and(|required| !required.is_boolean()) {
                self.add_finding(
                    ENTRY,
                    format!("`required` of the argument `{name}` is {}", kind_of(&argument["required"])),
                );
            }
            if !argument["description"].is_string() {
                bare.push(format!("`{name}`"));
            }
        }
        if !bare.is_empty() {
            let what = format!("arguments without `description`: {}", bare.join(", "));
            self.add_finding(NO_ARGUMENT_DESCRIPTION, what);
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
        Some(other) => return report.add(ICON, location, format!("`icons` is {}", kind_of(other))),
    };
    for icon in list {
        match icon["src"].as_str() {
            None => report.add(ICON, location, format!("`src` is {}", describe_missing(icon.get("src")))),
            Some(src) => {
                match src.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
                    Some("https" | "data") => {}
                    Some("http") => report.add(ICON_HTTP, location, format!("`src` is {src:?}")),
                    _ => report.add(ICON, location, format!("`src` is {src:?}")),
                }
            }
        }
        let is_size = |size: &Value| size.as_str().is_some_and(is_size);
        if let Some(sizes) = icon.get("sizes") {
            if !sizes.as_array().is_some_and(|sizes| sizes.iter().all(is_size)) {
                report.add(ICON, location, format!("`sizes` is {sizes}"));
            }
        }
        if let Some(theme) = icon.get("theme").filter(|theme| *theme != "light" && *theme != "dark") {
            report.add(ICON, location, format!("`theme` is {theme}"));
        }
        if icon.get("mimeType").is_some_and(|kind| !kind.as_str().is_some_and(is_mime_type)) {
            report.add(ICON, location, format!("`mimeType` is {}", icon["mimeType"]));
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
        return report.add(ENTRY, location, format!("`_meta` is {}, but must be an object", kind_of(meta)));
    };
    for key in members.keys().filter(|key| !is_meta_key(key)) {
        report.add(META_KEY, location, format!("the key {key:?}"));
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
