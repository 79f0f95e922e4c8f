//! MCP servers as shell scripts: correct ones, and modifications that make them faulty.
//!
//! A correct server violates no rule of `mcp-probe check`, so every finding is caused by a modification.

use serde_json::{Value, json};

use crate::support::{ProbeOutput, probe};

/// A server as a shell script.
#[derive(Clone)]
pub(crate) struct ShellServer {
    /// Commands that run before the first line is read.
    prelude: String,
    /// Shell patterns of lines and their actions, tried first. The first match counts.
    overrides: Vec<(String, String)>,
    /// Commands that refuse invalid messages of any method.
    validation: String,
    /// Patterns and actions that are tried after the validation.
    fallbacks: Vec<(String, String)>,
    /// Methods of a correct server.
    methods: String,
    /// Commands that run after the end of the input.
    epilogue: String,
    args: Vec<&'static str>,
}

impl ShellServer {
    /// Creates a correct legacy server with one entry in each list.
    pub(crate) fn legacy() -> Self {
        let cases = [
            (method_pattern("initialize"), result_action(&welcome("2025-11-25", &capabilities()))),
            (method_pattern("ping"), result_action(&json!({}))),
            ("*'\"level\":\"mcp-probe\"'*".into(), error_code_action(-32602)),
            (method_pattern("logging/setLevel"), result_action(&json!({}))),
        ];
        let cases = cases.into_iter().chain(method_cases(-32002, |result| result));
        Self::new("", cases, "legacy")
    }

    /// Creates a correct modern server with one entry in each list.
    pub(crate) fn modern() -> Self {
        let data = json!({"supported": ["2026-07-28"], "requested": "1999-12-31"});
        let refusal = error_action(&json!({"code": -32022, "message": "it speaks 2026-07-28", "data": data}));
        // These apply to all methods, so they come first.
        let mut look = format!("case $l in {}) {refusal}; continue;; esac\n", method_pattern("initialize"));
        for key in ["protocolVersion", "clientCapabilities"] {
            look += &format!(
                "case $l in *'\"io.modelcontextprotocol/{key}\"'*) ;; *) {}; continue;; esac\n",
                error_code_action(-32602)
            );
        }
        look += &format!("case $l in *1999-12-31*) {refusal}; continue;; esac\n");
        let cases = [(method_pattern("server/discover"), result_action(&discovered()))];
        Self::new(&look, cases.into_iter().chain(method_cases(-32602, complete)), "modern")
    }

    fn new(look: &str, cases: impl Iterator<Item = (String, String)>, era: &'static str) -> Self {
        let cases: String = cases.map(|(pattern, action)| format!("{pattern}) {action};;\n")).collect();
        // Lines that are not requests are ignored; requests that violate JSON-RPC are refused.
        let screen = format!(
            "case $l in *'}}') ;; *) continue;; esac\n\
             case $l in *'\"method\":'*) ;; *) continue;; esac\n\
             case $l in *'\"id\":null'*) continue;; *'\"id\":'*) ;; *) continue;; esac\n\
             case $l in *'\"jsonrpc\":\"2.0\"'*) ;; *) {}; continue;; esac\n\
             case $l in *'\"method\":7'*) {}; continue;; *'\"params\":['*) {}; continue;; esac\n\
             {look}",
            error_code_action(-32600),
            error_code_action(-32600),
            error_code_action(-32602),
        );
        let good = format!("{cases}*) {};;\n", error_code_action(-32601));
        Self {
            prelude: String::new(),
            overrides: Vec::new(),
            validation: screen,
            fallbacks: Vec::new(),
            methods: good,
            epilogue: String::new(),
            args: vec!["--era", era],
        }
    }

    /// Adds an action for lines that match a pattern. Patterns that were added before take precedence.
    pub(crate) fn on_line(mut self, pattern: &str, action: &str) -> Self {
        self.overrides.push((pattern.into(), action.into()));
        self
    }

    /// Replaces the action of a method. Invalid requests are still refused.
    pub(crate) fn replace_method(mut self, name: &str, action: &str) -> Self {
        self.fallbacks.push((method_pattern(name), action.into()));
        self
    }

    /// Answers a method with this result. Unknown cursors are still refused.
    pub(crate) fn with_result(self, name: &str, result: &Value) -> Self {
        let made_up = format!("*'\"cursor\":\"mcp-probe'*'\"method\":\"{name}\"'*");
        let made_up = format!("{made_up}|*'\"method\":\"{name}\"'*'\"cursor\":\"mcp-probe'*");
        self.on_line(&made_up, &error_code_action(-32602))
            .on_line(&method_pattern(name), &result_action(result))
    }

    /// Answers a method with an error of this code.
    pub(crate) fn with_error(self, name: &str, code: i64) -> Self {
        self.on_line(&method_pattern(name), &error_code_action(code))
    }

    /// Sets a member of the entry in a list; null removes it.
    pub(crate) fn with_member(self, list: &str, member: &str, value: &Value) -> Self {
        let (name, mut entry) = entries().into_iter().find(|(name, _)| *name == list).expect("a list");
        match value {
            Value::Null => _ = entry.as_object_mut().expect("an object").remove(member),
            value => entry[member] = value.clone(),
        }
        self.with_result(&format!("{name}/list"), &json!({(member_of(name)): [entry]}))
    }

    /// Sets the input schema of the tool.
    pub(crate) fn with_tool_schema(self, schema: &Value) -> Self {
        self.with_member("tools", "inputSchema", schema)
    }

    pub(crate) fn with_prelude(mut self, script: &str) -> Self {
        self.prelude = script.into();
        self
    }

    pub(crate) fn with_epilogue(mut self, script: &str) -> Self {
        self.epilogue = script.into();
        self
    }

    /// Replaces the arguments of the check, which name the era otherwise.
    pub(crate) fn with_args(mut self, args: &[&'static str]) -> Self {
        self.args = args.to_vec();
        self
    }

    /// Runs `mcp-probe check` against this server.
    pub(crate) fn check(&self, more: &[&str]) -> ProbeOutput {
        let waits = ["--timeout", "3s", "--connect-timeout", "20s"];
        self.probe(&[&["check"], &waits[..], &self.args, more].concat())
    }

    /// Runs `mcp-probe ARGS` against this server.
    pub(crate) fn probe(&self, args: &[&str]) -> ProbeOutput {
        probe(&[args, &["--", "sh", "-c", &self.script()]].concat())
    }

    /// Returns the script of this server.
    pub(crate) fn script(&self) -> String {
        let cases = |cases: &[(String, String)]| -> String {
            cases.iter().map(|(pattern, action)| format!("{pattern}) {action}; continue;;\n")).collect()
        };
        format!(
            "{}\nwhile IFS= read -r l; do\n\
             id=${{l#*'\"id\":'}}; id=${{id%%',\"jsonrpc\"'*}}; id=${{id%%',\"method\"'*}}\n\
             case $l in\n{}esac\n{}case $l in\n{}{}esac\ndone\n{}",
            self.prelude,
            cases(&self.overrides),
            self.validation,
            cases(&self.fallbacks),
            self.methods,
            self.epilogue
        )
    }
}

/// Returns the methods of a correct server. `code` is the error for an unknown resource.
fn method_cases(code: i64, wrap: fn(Value) -> Value) -> impl Iterator<Item = (String, String)> {
    let mut cases = vec![("*'\"cursor\":'*".to_owned(), error_code_action(-32602))];
    for (name, entry) in entries() {
        cases.push((
            method_pattern(&format!("{name}/list")),
            result_action(&wrap(json!({(member_of(name)): [entry]}))),
        ));
    }
    for name in ["tools/call", "prompts/get", "completion/complete"] {
        cases.push((method_pattern(name), error_code_action(-32602)));
    }
    let data = json!({"uri": "mcp-probe-unknown://unknown/unknown"});
    let unknown = error_action(&json!({"code": code, "message": "no such resource", "data": data}));
    cases.push((
        method_pattern("resources/read"),
        format!("case $l in *'\"uri\":'*) {unknown};; *) {};; esac", error_code_action(-32602)),
    ));
    cases.into_iter()
}

/// Returns the lists with one correct entry each.
fn entries() -> [(&'static str, Value); 4] {
    let text = json!({"type": "string", "description": "A text"});
    let schema = json!({"type": "object", "properties": {"text": text}, "required": ["text"]});
    let argument = json!({"name": "topic", "description": "What about", "required": true});
    [
        (
            "tools",
            json!({"name": "echo", "title": "Echo", "description": "Says it again", "inputSchema": schema}),
        ),
        (
            "resources",
            json!({"name": "a", "title": "A", "description": "The letter", "uri": "demo:///a", "mimeType": "text/plain"}),
        ),
        (
            "resources/templates",
            json!({"name": "b", "title": "B", "description": "Letters", "uriTemplate": "demo:///{letter}"}),
        ),
        (
            "prompts",
            json!({"name": "ask", "title": "Ask", "description": "A question", "arguments": [argument]}),
        ),
    ]
}

fn member_of(list: &str) -> &str {
    if list == "resources/templates" { "resourceTemplates" } else { list }
}

/// Returns the result of `initialize`.
pub(crate) fn welcome(version: &str, capabilities: &Value) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": {"name": "fixture", "version": "1"},
    })
}

/// Returns all capabilities of a legacy server that are checked.
pub(crate) fn capabilities() -> Value {
    json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}})
}

/// Returns the result of `server/discover`.
pub(crate) fn discovered() -> Value {
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}});
    complete(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}))
}

/// Adds the members that every modern result needs.
pub(crate) fn complete(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(0);
    result["cacheScope"] = json!("private");
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "fixture", "version": "1"}});
    result
}

/// Returns the pattern of lines with a method.
pub(crate) fn method_pattern(name: &str) -> String {
    format!("*'\"method\":\"{name}\"'*")
}

/// Returns the action that answers with a result.
pub(crate) fn result_action(result: &Value) -> String {
    format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}'")
}

/// Returns the action that answers with an error of this code.
pub(crate) fn error_code_action(code: i64) -> String {
    error_action(&json!({"code": code, "message": "no"}))
}

/// Returns the action that answers with this error.
pub(crate) fn error_action(error: &Value) -> String {
    format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}}\\n' \"$id\" '{error}'")
}

/// Returns the action that writes a line.
pub(crate) fn print_action(line: &str) -> String {
    format!("printf '%s\\n' '{line}'")
}
