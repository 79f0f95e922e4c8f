//! Completion of a line: commands, names, arguments and values.

use std::time::Instant;

use mcp_proto::model::{CompleteParams, CompleteResult, Prompt, RequestParams};
use mcp_proto::{CallOptions, EntryKind, RawJson};
use serde_json::Value;

use super::commands::{COMMANDS, LOG_LEVELS};
use super::editor::{COMPLETION_TIMEOUT, Candidate, Completion};
use super::line::{self, LastWord};
use super::lists::Lists;
use crate::completion_request::{self, CompletionTarget};
use crate::escape;
use crate::ordered;
use crate::schema;
use crate::session::ClientSession;
use crate::tool_arguments::find_tool;
use crate::verb::kept::{KeptResult, KeptResults, escaped};

/// What a completion knows and may ask.
pub(super) struct Completer<'a> {
    pub(super) session: Option<&'a mut ClientSession>,
    pub(super) lists: &'a mut Lists,
    pub(super) kept: &'a KeptResults,
}

/// A word that the last one may become.
struct Word {
    text: String,
    /// Whether the word is complete, so that a blank follows.
    is_whole: bool,
}

impl Completer<'_> {
    /// Completes the end of a line.
    pub(super) fn complete(&mut self, line: &str) -> Completion {
        let until = Instant::now() + COMPLETION_TIMEOUT * 9 / 10;
        let LastWord { before, start, text } = line::last_word(line);
        let words = before.get(line::split_name(&before).1..).unwrap_or_default();
        let found = self.words(words, &text, until);
        let fits = |word: &Word| {
            word.text.starts_with(&text) && !word.text.contains(|c| escape::is_unsafe(c) || c == '\n')
        };
        let candidate = |word: Word| {
            let blank = if word.is_whole { " " } else { "" };
            Candidate { replacement: line::quoted(&word.text) + blank, shown: word.text }
        };
        let candidates = found.into_iter().filter(fits).take(MAX_CANDIDATES).map(candidate).collect();
        Completion { start, candidates }
    }

    /// Returns what may stand behind these words.
    fn words(&mut self, words: &[String], text: &str, until: Instant) -> Vec<Word> {
        let Some((command, rest)) = words.split_first() else {
            return whole(COMMANDS.iter().map(|(name, ..)| (*name).to_owned()));
        };
        if is_of_result(text) {
            return whole(self.results());
        }
        let first = rest.first().map(String::as_str);
        match (command.as_str(), first) {
            ("help", None) => whole(COMMANDS.iter().map(|(name, ..)| (*name).to_owned())),
            ("log", None) => whole(LOG_LEVELS.iter().map(|level| (*level).to_owned())),
            ("show", None) => whole(self.results()),
            ("call", None) => texts(self.names(EntryKind::Tool, "name", until)),
            ("call", Some(tool)) => self.tool_argument(tool, rest.get(1..).unwrap_or_default(), text, until),
            ("prompt", None) => texts(self.names(EntryKind::Prompt, "name", until)),
            ("prompt", Some(prompt)) => {
                self.prompt_argument(prompt, rest.get(1..).unwrap_or_default(), text, until)
            }
            ("describe", None) => {
                let mut names = self.names(EntryKind::Tool, "name", until);
                names.extend(self.names(EntryKind::Prompt, "name", until));
                names.extend(self.names(EntryKind::Resource, "uri", until));
                names.extend(self.names(EntryKind::ResourceTemplate, "uriTemplate", until));
                texts(names)
            }
            ("read" | "subscribe" | "unsubscribe", None) => {
                let mut found = texts(self.names(EntryKind::Resource, "uri", until));
                for template in self.names(EntryKind::ResourceTemplate, "uriTemplate", until) {
                    found.extend(self.template_variable(&template, text, until));
                }
                found
            }
            ("complete", None) => {
                let prompts = self.names(EntryKind::Prompt, "name", until);
                let mut names: Vec<_> = prompts.into_iter().map(|name| format!("prompt:{name}")).collect();
                names.extend(self.names(EntryKind::ResourceTemplate, "uriTemplate", until));
                whole(names)
            }
            _ => Vec::new(),
        }
    }

    fn results(&self) -> Vec<String> {
        self.kept.all().iter().map(KeptResult::label).collect()
    }

    fn entries(&mut self, kind: EntryKind, until: Instant) -> Vec<RawJson> {
        match &mut self.session {
            Some(session) => self.lists.get(session, kind, until),
            None => Vec::new(),
        }
    }

    fn names(&mut self, kind: EntryKind, member: &str, until: Instant) -> Vec<String> {
        self.entries(kind, until).iter().filter_map(|entry| entry.member(member)?.string()).collect()
    }

    /// Completes the name or the value of an argument of a tool, by its schema.
    fn tool_argument(&mut self, tool: &str, given: &[String], text: &str, until: Instant) -> Vec<Word> {
        let tool = self.kept.text(tool).unwrap_or_default();
        let input = find_tool(self.entries(EntryKind::Tool, until), &tool);
        let input = input.and_then(|entry| entry.member("inputSchema"));
        let Some(root) = input else { return Vec::new() };
        let object = schema::resolve_ref(&root, root.clone());
        let properties = object.member("properties").map(|of| ordered::members(&of)).unwrap_or_default();
        match text.split_once('=') {
            Some((_, value)) if is_of_result(value) => prefixed(text, self.results()),
            Some((name, _)) => {
                let name = name.strip_suffix(':').unwrap_or(name);
                let property = properties.into_iter().find(|(property, _)| property == name);
                let values = property.map(|(_, schema)| known_values(&root, schema, MAX_NESTING));
                prefixed(text, values.unwrap_or_default().into_iter().map(escaped))
            }
            None => {
                let required: Vec<String> =
                    object.member("required").and_then(|of| of.parse().ok()).unwrap_or_default();
                let names = properties.into_iter().map(|(name, _)| (required.contains(&name), name));
                argument_names(names.collect(), given)
            }
        }
    }

    /// Completes the name or the value of an argument of a prompt. The server knows its values.
    fn prompt_argument(&mut self, name: &str, given: &[String], text: &str, until: Instant) -> Vec<Word> {
        let name = self.kept.text(name).unwrap_or_default();
        match text.split_once('=') {
            Some((_, value)) if is_of_result(value) => prefixed(text, self.results()),
            Some((argument, value)) => {
                let known = given.iter().filter_map(|word| word.split_once('='));
                let text_of = |value: &str| self.kept.text(value).unwrap_or_default();
                let known: Vec<_> = known.map(|(name, value)| (name.to_owned(), text_of(value))).collect();
                let (value, target) = (text_of(value), CompletionTarget::Prompt(name));
                let values = self.ask(&target, argument, &value, &known, until);
                prefixed(text, values.into_iter().map(escaped))
            }
            None => {
                let prompts = self.entries(EntryKind::Prompt, until);
                let mut prompts = prompts.iter().filter_map(|entry| entry.parse::<Prompt>().ok());
                let Some(prompt) = prompts.find(|prompt| prompt.name == name) else { return Vec::new() };
                let names = prompt
                    .arguments
                    .into_iter()
                    .map(|argument| (argument.required == Some(true), argument.name));
                argument_names(names.collect(), given)
            }
        }
    }

    /// Completes the variable of a template that the end of a URI is in.
    fn template_variable(&mut self, template: &str, text: &str, until: Instant) -> Vec<Word> {
        let Some(typed) = TypedVariable::find(template, text) else { return Vec::new() };
        let target = CompletionTarget::Template(template.to_owned());
        let values = if typed.name.is_empty() {
            vec![String::new()]
        } else {
            self.ask(&target, &typed.name, &typed.value, &typed.known, until)
        };
        let is_whole = typed.is_last;
        let word = |value: String| Word { text: format!("{}{value}{}", typed.before, typed.after), is_whole };
        values.into_iter().map(word).collect()
    }

    /// Asks the server for values.
    fn ask(
        &mut self,
        target: &CompletionTarget,
        argument: &str,
        value: &str,
        known: &[(String, String)],
        until: Instant,
    ) -> Vec<String> {
        let left = until.saturating_duration_since(Instant::now());
        let Some(session) = self.session.as_mut().filter(|_| !left.is_zero()) else { return Vec::new() };
        let params = completion_request::params(target, argument, value, known);
        let options = CallOptions::new().timeout(left).total_timeout(left);
        let answer = session.client.request(CompleteParams::METHOD, &params, &options, &mut |_| {});
        let result = answer.ok().and_then(|result| result.parse::<CompleteResult>().ok());
        result.map(|result| result.completion.values).unwrap_or_default()
    }
}

/// Returns whether a word is completed to a result, and is no text behind `$$`.
fn is_of_result(word: &str) -> bool {
    word.starts_with('$') && !word.starts_with("$$")
}

/// Returns words that stand for these texts.
fn texts(texts: impl IntoIterator<Item = String>) -> Vec<Word> {
    whole(texts.into_iter().map(escaped))
}

fn whole(texts: impl IntoIterator<Item = String>) -> Vec<Word> {
    texts.into_iter().map(|text| Word { text, is_whole: true }).collect()
}

/// Returns words with what stands before the value in `text`.
fn prefixed(text: &str, values: impl IntoIterator<Item = String>) -> Vec<Word> {
    let head = text.split_once('=').map_or("", |(head, _)| head);
    whole(values.into_iter().map(|value| format!("{head}={value}")))
}

/// Returns the names of arguments that are not given yet, required ones first.
fn argument_names(mut names: Vec<(bool, String)>, given: &[String]) -> Vec<Word> {
    let is_given = |name: &str| {
        given.iter().any(|word| {
            let before = word.split_once('=').map(|(name, _)| name.strip_suffix(':').unwrap_or(name));
            before == Some(name)
        })
    };
    names.retain(|(_, name)| !is_given(name));
    names.sort_by_key(|(is_required, _)| !is_required);
    names.into_iter().map(|(_, name)| Word { text: format!("{name}="), is_whole: false }).collect()
}

/// Returns the values that a schema lists.
fn known_values(root: &RawJson, schema: RawJson, nesting: u32) -> Vec<String> {
    let schema = schema::resolve_ref(root, schema);
    let value: Value = schema.parse().unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(only) = value.get("const") {
        return vec![text(only)];
    }
    if let Some(Value::Array(values)) = value.get("enum") {
        return values.iter().map(text).collect();
    }
    if value.get("type").is_some_and(|kind| kind == "boolean") {
        return vec!["true".into(), "false".into()];
    }
    let mut found = Vec::new();
    for word in ["anyOf", "oneOf"].into_iter().filter(|_| nesting > 0) {
        for inner in schema.member(word).and_then(|inner| inner.elements()).into_iter().flatten() {
            found.extend(known_values(root, inner, nesting - 1));
        }
    }
    found
}

/// The variable of a template that the end of a URI is in.
#[derive(Debug, Default, PartialEq, Eq)]
struct TypedVariable {
    /// Name of the variable; empty if the end is in the text before a variable.
    name: String,
    value: String,
    /// Variables before it, with their values.
    known: Vec<(String, String)>,
    /// Text before the variable.
    before: String,
    /// Text between the variable and the next one.
    after: String,
    is_last: bool,
}

impl TypedVariable {
    /// Compares a template of simple variables (`{name}`) with the begin of a URI. Returns `None` if they differ.
    fn find(template: &str, text: &str) -> Option<Self> {
        let (mut typed, mut rest, mut template) = (Self::default(), text, template);
        loop {
            let (literal, behind) = template.split_once('{').unwrap_or((template, ""));
            if literal.starts_with(rest) && literal.len() > rest.len() {
                typed.before.push_str(literal);
                typed.is_last = behind.is_empty();
                return Some(typed);
            }
            rest = rest.strip_prefix(literal)?;
            typed.before.push_str(literal);
            let (name, behind) = behind.split_once('}')?;
            let next = behind.split('{').next().unwrap_or_default();
            let end = if next.is_empty() { None } else { rest.find(next) };
            let Some(end) = end else {
                (typed.name, typed.value) = (name.to_owned(), rest.to_owned());
                next.clone_into(&mut typed.after);
                typed.is_last = next.len() == behind.len();
                return Some(typed);
            };
            let (value, behind_value) = rest.split_at(end);
            typed.known.push((name.to_owned(), value.to_owned()));
            typed.before.push_str(value);
            (rest, template) = (behind_value, behind);
        }
    }
}

/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 1_000;
/// Maximum depth of alternatives in a schema.
const MAX_NESTING: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_a_template_is_found_at_the_end_of_a_uri() {
        let find = |text: &str| {
            let typed = TypedVariable::find("atlas://{country}/{city}", text)?;
            let known: Vec<_> = typed.known.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Some(format!(
                "{}|{}|{}|{}|{}",
                typed.before,
                typed.name,
                typed.value,
                typed.after,
                known.join(",")
            ))
        };
        for (text, want) in [
            ("", Some("atlas://||||")),
            ("atl", Some("atlas://||||")),
            ("atlas://", Some("atlas://|country||/|")),
            ("atlas://no", Some("atlas://|country|no|/|")),
            ("atlas://norway/", Some("atlas://norway/|city|||country=norway")),
            ("atlas://norway/os", Some("atlas://norway/|city|os||country=norway")),
            ("file://", None),
        ] {
            assert_eq!(find(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn names_of_arguments_are_those_not_given_required_first() {
        let names = vec![(false, "a".to_owned()), (true, "b".to_owned()), (false, "c".to_owned())];
        let found = argument_names(names, &["a:=1".to_owned()]);
        assert!(found.iter().map(|word| &*word.text).eq(["b=", "c="]));
    }

    #[test]
    fn values_come_from_the_schema() {
        let root = RawJson::new(
            r##"{"$defs":{"mode":{"enum":["fast","slow",3]}},"properties":{"m":{"$ref":"#/$defs/mode"},
                "b":{"type":"boolean"},"o":{"anyOf":[{"const":"all"},{"type":"number"}]},"s":{"type":"string"}}}"##,
        )
        .expect("JSON");
        let values = |name: &str| {
            let schema = root.member("properties").and_then(|of| of.member(name)).expect("a property");
            known_values(&root, schema, MAX_NESTING).join(" ")
        };
        assert_eq!(["m", "b", "o", "s"].map(values), ["fast slow 3", "true false", "all", ""]);
    }
}
