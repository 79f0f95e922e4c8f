//! The source of a client: a method for each tool, prompt and resource template, then the types.

use mcp_proto::RawJson;
use mcp_proto::router::template::Template;
use serde_json::Value;

use super::layout::{literal, push_docs, push_joined, push_line, push_signature, push_wrapped};
use super::names::{Names, pascal, snake};
use super::types::TypeWriter;
use crate::escape;

/// What a server says about itself.
pub(super) struct ServerDescription {
    pub(super) name: String,
    pub(super) version: String,
    /// The server as the user names it, without secrets.
    pub(super) source: String,
    pub(super) tools: Vec<RawJson>,
    pub(super) prompts: Vec<RawJson>,
    pub(super) templates: Vec<RawJson>,
}

/// The parts of a source that is being written.
#[derive(Default)]
struct Writer {
    types: TypeWriter,
    methods: Names,
    /// The source of the methods.
    body: String,
    reads_results: bool,
    expands_templates: bool,
    returns: [bool; 3],
}

/// Results of the model that methods return.
const RESULTS: [&str; 3] = ["CallToolResult", "GetPromptResult", "ReadResourceResult"];

/// Returns the source of a client.
pub(super) fn source(server: &ServerDescription) -> String {
    let mut writer = Writer { types: TypeWriter::new(), ..Writer::default() };
    let client = writer.types.names.claim(&pascal(&server.name), "");
    for tool in &server.tools {
        writer.push_tool(tool);
    }
    for prompt in &server.prompts {
        writer.push_prompt(prompt);
    }
    let skipped: Vec<_> =
        server.templates.iter().filter_map(|template| writer.push_template(template)).collect();
    let mut out = head(server, &skipped);
    writer.push_uses(&mut out);
    out.push_str(RESULT);
    push_docs(&mut out, 0, [&*format!("Calls the server `{}`.", server.name.replace('`', "'"))]);
    push_line(&mut out, 0, "#[derive(Clone, Copy, Debug)]");
    push_line(&mut out, 0, &format!("pub struct {client}<'a, B>(pub &'a BlockingCalls<B>);"));
    out.push('\n');
    if writer.body.is_empty() {
        push_line(&mut out, 0, &format!("impl<B: ClientBackend> {client}<'_, B> {{}}"));
    } else {
        push_line(&mut out, 0, &format!("impl<B: ClientBackend> {client}<'_, B> {{"));
        out.push_str(&writer.body);
        push_line(&mut out, 0, "}");
    }
    for item in &writer.types.items {
        out.push('\n');
        out.push_str(item);
    }
    if writer.reads_results {
        out.push_str(READ_RESULT);
    }
    if writer.expands_templates {
        out.push_str(EXPAND_TEMPLATE);
    }
    out
}

/// Returns the comment at the head of the source.
fn head(server: &ServerDescription, skipped: &[String]) -> String {
    let mut out = String::new();
    let line = |text: &str| escape::line(text).into_owned();
    let (name, version, source) = (line(&server.name), line(&server.version), line(&server.source));
    push_wrapped(&mut out, 0, "//", &format!("A client of the server `{name}` {version}."));
    push_line(&mut out, 0, "//");
    let again = format!(
        "Written by `mcp-probe generate rust` from the lists of {source}: run it again instead of editing \
         this file."
    );
    push_wrapped(&mut out, 0, "//", &again);
    push_line(&mut out, 0, "//");
    push_wrapped(
        &mut out,
        0,
        "//",
        "It needs the packages mcp-proto, mcp-runtime, serde (with `derive`) and serde_json.",
    );
    for template in skipped {
        push_wrapped(&mut out, 0, "//", &format!("Without a method: the resource template {template}."));
    }
    out.push_str("\n#![allow(dead_code, reason = \"a program need not call every method\")]\n\n");
    out
}

impl Writer {
    fn push_uses(&self, out: &mut String) {
        let names: Vec<_> =
            RESULTS.iter().zip(self.returns).filter(|(_, is_used)| *is_used).map(|(name, _)| *name).collect();
        match names[..] {
            [] => {}
            [only] => push_line(out, 0, &format!("use mcp_proto::model::{only};")),
            _ => push_line(out, 0, &format!("use mcp_proto::model::{{{}}};", names.join(", "))),
        }
        if self.expands_templates {
            push_line(out, 0, "use mcp_proto::router::template::{Template, Values};");
        }
        push_line(out, 0, "use mcp_runtime::client::{BlockingCalls, ClientBackend};");
        if !self.types.items.is_empty() {
            push_line(out, 0, "use serde::{Deserialize, Serialize};");
        }
        match (self.types.uses_map, self.types.uses_value) {
            (true, _) => push_line(out, 0, "use serde_json::{Map, Value};"),
            (false, true) => push_line(out, 0, "use serde_json::Value;"),
            (false, false) => {}
        }
        if self.types.uses_tree {
            push_line(out, 0, "use std::collections::BTreeMap;");
        }
    }

    /// Appends the comment and the signature of a method, after the methods before it.
    fn begin_method(&mut self, docs: &[&str], name: &str, parameters: &[String], result: &str) {
        if !self.body.is_empty() {
            self.body.push('\n');
        }
        push_docs(&mut self.body, 4, docs.iter().copied());
        push_signature(&mut self.body, 4, name, parameters, result);
    }

    /// Returns the type of a result of the model.
    fn model_result(&mut self, index: usize) -> String {
        self.returns[index] = true;
        format!("Result<{}<'static>>", RESULTS[index])
    }

    fn push_tool(&mut self, tool: &RawJson) {
        let described: Value = tool.parse().unwrap_or_default();
        let Some(name) = described["name"].as_str() else { return };
        let method = self.methods.claim(&snake(name), "_");
        let prefix = pascal(name);
        let arguments = tool.member("inputSchema").map(|schema| self.types.arguments(&schema, &prefix));
        let (parameters, value, arguments_note) = match arguments.flatten() {
            None => (Vec::new(), "&serde_json::json!({})", None),
            Some(kind) => (vec![format!("arguments: &{}", kind.text)], "arguments", kind.note),
        };
        let output = tool.member("outputSchema").map(|schema| self.types.root(&schema, &prefix, "Result"));
        let result = match &output {
            Some(kind) => format!("Result<{}>", kind.text),
            None => self.model_result(0),
        };
        let about = |what: &str, note: Option<&String>| {
            note.map(|note| format!("The {what} is any JSON value: {note}."))
        };
        let arguments_note = about("argument", arguments_note.as_ref()).unwrap_or_default();
        let result_note =
            about("result", output.as_ref().and_then(|kind| kind.note.as_ref())).unwrap_or_default();
        let title = described["title"].as_str().or_else(|| described["annotations"]["title"].as_str());
        let description = described["description"].as_str().unwrap_or_default();
        let docs = [title.unwrap_or_default(), description, &arguments_note, &result_note];
        self.begin_method(&docs, &method, &parameters, &result);
        push_joined(&mut self.body, 8, "let name =", &format!("{};", literal(name)));
        if output.is_some() {
            (self.reads_results, self.returns[0]) = (true, true);
            push_line(&mut self.body, 8, &format!("read_result(&self.0.call_tool(name, {value})?)"));
        } else {
            push_line(&mut self.body, 8, &format!("self.0.call_tool(name, {value})"));
        }
        push_line(&mut self.body, 4, "}");
    }

    fn push_prompt(&mut self, prompt: &RawJson) {
        let described: Value = prompt.parse().unwrap_or_default();
        let Some(name) = described["name"].as_str() else { return };
        let end = if name.ends_with("prompt") { "" } else { "_prompt" };
        let method = self.methods.claim(&snake(&format!("{name}{end}")), "_");
        let mut members: Vec<(String, String, bool)> = Vec::new();
        for argument in described["arguments"].as_array().into_iter().flatten() {
            let Some(name) = argument["name"].as_str() else { continue };
            let description = argument["description"].as_str().unwrap_or_default();
            if members.iter().all(|(other, ..)| other != name) {
                members.push((name.to_owned(), description.to_owned(), argument["required"] == true));
            }
        }
        let (parameters, value) = if members.is_empty() {
            (Vec::new(), "&()")
        } else {
            let docs = format!("Arguments of the prompt `{}`.", name.replace('`', "'"));
            let kind =
                self.types.texts(&members, &docs, &format!("{}Arguments", pascal(&format!("{name}{end}"))));
            (vec![format!("arguments: &{kind}")], "arguments")
        };
        let result = self.model_result(1);
        let [title, description] =
            ["title", "description"].map(|member| described[member].as_str().unwrap_or_default());
        self.begin_method(&[title, description], &method, &parameters, &result);
        push_joined(&mut self.body, 8, "let name =", &format!("{};", literal(name)));
        push_line(&mut self.body, 8, &format!("self.0.get_prompt(name, {value})"));
        push_line(&mut self.body, 4, "}");
    }

    /// Appends a method. Returns the name of a template that cannot have one.
    fn push_template(&mut self, raw: &RawJson) -> Option<String> {
        let described: Value = raw.parse().unwrap_or_default();
        let text = described["uriTemplate"].as_str()?;
        let Ok(template) = Template::new(text) else { return Some(escape::line(text).into_owned()) };
        let name = described["name"].as_str().unwrap_or_default();
        let method = self.methods.claim(&snake(&format!("read_{name}")), "_");
        let mut names = Names::with_taken(&["expand", "template", "text", "values"]);
        let mut variables: Vec<(&str, String)> = Vec::new();
        for variable in template.variables() {
            if variables.iter().all(|(other, _)| *other != variable) {
                variables.push((variable, names.claim(&snake(variable), "_")));
            }
        }
        let optional = optional_variables(text);
        let kind = |variable| if optional.contains(variable) { "Option<&str>" } else { "&str" };
        let parameters: Vec<_> =
            variables.iter().map(|(variable, name)| format!("{name}: {}", kind(variable))).collect();
        let result = self.model_result(2);
        let uri = format!("Reads `{}`.", text.replace('`', "%60"));
        let [title, description] =
            ["title", "description"].map(|member| described[member].as_str().unwrap_or_default());
        self.expands_templates = true;
        self.begin_method(&[title, description, &uri], &method, &parameters, &result);
        push_joined(&mut self.body, 8, "let template =", &format!("{};", literal(text)));
        if variables.is_empty() {
            push_line(&mut self.body, 8, "let values = Values::new();");
        } else {
            push_line(&mut self.body, 8, "let mut values = Values::new();");
        }
        for (variable, name) in &variables {
            if optional.contains(variable) {
                push_line(&mut self.body, 8, &format!("if let Some(text) = {name} {{"));
                push_value(&mut self.body, 12, variable, "text");
                push_line(&mut self.body, 8, "}");
            } else {
                push_value(&mut self.body, 8, variable, name);
            }
        }
        push_line(&mut self.body, 8, "self.0.read_resource(&expand(template, &values)?)");
        push_line(&mut self.body, 4, "}");
        None
    }
}

/// Returns the variables of a template that are members of a query or path parameters, which may be left out.
fn optional_variables(template: &str) -> Vec<&str> {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let optional = expressions.filter_map(|(expression, _)| expression.strip_prefix(['?', '&', ';']));
    optional
        .flat_map(|names| names.split(','))
        .map(|name| name.split([':', '*']).next().unwrap_or(name))
        .collect()
}

/// Appends the line that sets a variable, or several if it is too long.
fn push_value(out: &mut String, indent: usize, variable: &str, value: &str) {
    let variable = literal(variable);
    if variable.chars().count() + 2 + value.len() <= CALL_WIDTH {
        return push_line(out, indent, &format!("values = values.text({variable}, {value});"));
    }
    push_line(out, indent, "values = values.text(");
    push_line(out, indent + 4, &format!("{variable},"));
    push_line(out, indent + 4, &format!("{value},"));
    push_line(out, indent, ");");
}

/// Width of the arguments of a call on one line.
const CALL_WIDTH: usize = 60;
/// The result of all methods.
const RESULT: &str = "
/// The result of a method.
pub type Result<T> = core::result::Result<T, mcp_runtime::Error>;

";
/// The function that methods of tools with an output schema use.
const READ_RESULT: &str = "
/// Reads the structured result of a tool. A tool that reports a failure has none.
fn read_result<T: serde::de::DeserializeOwned>(result: &CallToolResult<'_>) -> Result<T> {
    let read = result.parse_structured();
    read.map_err(|error| mcp_runtime::Error::UnexpectedResult(error.to_string()))
}
";
/// The function that methods of resource templates use.
const EXPAND_TEMPLATE: &str = "
/// Fills in a URI template.
fn expand(template: &str, values: &Values<'_>) -> Result<String> {
    let failed = |text: String| mcp_runtime::Error::UnexpectedResult(text);
    let template = Template::new(template).map_err(|error| failed(error.to_string()))?;
    let uri = template.expand(values);
    uri.map_err(|error| failed(error.to_string()))
}
";
