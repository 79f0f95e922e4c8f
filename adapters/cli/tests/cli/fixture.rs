//! Servers made of a few lines of shell: good ones, and what is to be wrong about them
//!
//! A good one breaks no rule of `mcp-probe check`, so that whatever is found is what was made wrong.

use serde_json::{Value, json};

use crate::support::{Done, probe};

/// A server as a script
#[derive(Clone)]
pub(crate) struct Server {
    /// Run before the first line is read
    prelude: String,
    /// Shell patterns of lines with what to do, looked at before all else; the first one counts
    wrong: Vec<(String, String)>,
    /// What a good server refuses whatever the method is
    screen: String,
    /// Patterns and what to do that come after that
    other: Vec<(String, String)>,
    /// The methods of a good server
    good: String,
    /// Run when the input has ended
    epilogue: String,
    args: Vec<&'static str>,
}

impl Server {
    /// A good server of the legacy era, with one of everything
    pub(crate) fn legacy() -> Self {
        let cases = [
            (method("initialize"), ok(&welcome("2025-11-25", &capabilities()))),
            (method("ping"), ok(&json!({}))),
            ("*'\"level\":\"mcp-probe\"'*".into(), err(-32602)),
            (method("logging/setLevel"), ok(&json!({}))),
        ];
        let cases = cases.into_iter().chain(offer(-32002, |result| result));
        Self::new("", cases, "legacy")
    }

    /// A good server of the modern era, with one of everything
    pub(crate) fn modern() -> Self {
        let data = json!({"supported": ["2026-07-28"], "requested": "1999-12-31"});
        let refusal = failure(&json!({"code": -32022, "message": "it speaks 2026-07-28", "data": data}));
        // These come first, as they hold for all methods.
        let mut look = format!("case $l in {}) {refusal}; continue;; esac\n", method("initialize"));
        for key in ["protocolVersion", "clientCapabilities"] {
            look += &format!(
                "case $l in *'\"io.modelcontextprotocol/{key}\"'*) ;; *) {}; continue;; esac\n",
                err(-32602)
            );
        }
        look += &format!("case $l in *1999-12-31*) {refusal}; continue;; esac\n");
        let cases = [(method("server/discover"), ok(&discovered()))];
        Self::new(&look, cases.into_iter().chain(offer(-32602, complete)), "modern")
    }

    fn new(look: &str, cases: impl Iterator<Item = (String, String)>, era: &'static str) -> Self {
        let cases: String = cases.map(|(pattern, action)| format!("{pattern}) {action};;\n")).collect();
        // What is no request is ignored; what is one of another JSON-RPC is refused.
        let screen = format!(
            "case $l in *'}}') ;; *) continue;; esac\n\
             case $l in *'\"method\":'*) ;; *) continue;; esac\n\
             case $l in *'\"id\":null'*) continue;; *'\"id\":'*) ;; *) continue;; esac\n\
             case $l in *'\"jsonrpc\":\"2.0\"'*) ;; *) {}; continue;; esac\n\
             case $l in *'\"method\":7'*) {}; continue;; *'\"params\":['*) {}; continue;; esac\n\
             {look}",
            err(-32600),
            err(-32600),
            err(-32602),
        );
        let good = format!("{cases}*) {};;\n", err(-32601));
        Self {
            prelude: String::new(),
            wrong: Vec::new(),
            screen,
            other: Vec::new(),
            good,
            epilogue: String::new(),
            args: vec!["--era", era],
        }
    }

    /// Does this upon a line that fits the pattern, unless one fits that was given before
    pub(crate) fn on(mut self, pattern: &str, action: &str) -> Self {
        self.wrong.push((pattern.into(), action.into()));
        self
    }

    /// Answers a request with this result, if it is a request by all rules
    pub(crate) fn instead(mut self, name: &str, action: &str) -> Self {
        self.other.push((method(name), action.into()));
        self
    }

    /// Answers a method with this result; cursors that were made up are still refused
    pub(crate) fn result(self, name: &str, result: &Value) -> Self {
        let made_up = format!("*'\"cursor\":\"mcp-probe'*'\"method\":\"{name}\"'*");
        let made_up = format!("{made_up}|*'\"method\":\"{name}\"'*'\"cursor\":\"mcp-probe'*");
        self.on(&made_up, &err(-32602)).on(&method(name), &ok(result))
    }

    /// Answers a method with an error of this code
    pub(crate) fn error(self, name: &str, code: i64) -> Self {
        self.on(&method(name), &err(code))
    }

    /// With this member in place of what the entry of a list has; null takes it away
    pub(crate) fn entry(self, list: &str, member: &str, value: &Value) -> Self {
        let (name, mut entry) = entries().into_iter().find(|(name, _)| *name == list).expect("a list");
        match value {
            Value::Null => _ = entry.as_object_mut().expect("an object").remove(member),
            value => entry[member] = value.clone(),
        }
        self.result(&format!("{name}/list"), &json!({(member_of(name)): [entry]}))
    }

    /// With this schema for what its tool takes
    pub(crate) fn schema(self, schema: &Value) -> Self {
        self.entry("tools", "inputSchema", schema)
    }

    pub(crate) fn prelude(mut self, script: &str) -> Self {
        self.prelude = script.into();
        self
    }

    pub(crate) fn epilogue(mut self, script: &str) -> Self {
        self.epilogue = script.into();
        self
    }

    /// Checked with these arguments instead of the era's
    pub(crate) fn args(mut self, args: &[&'static str]) -> Self {
        self.args = args.to_vec();
        self
    }

    /// `mcp-probe check` against it
    pub(crate) fn check(&self, more: &[&str]) -> Done {
        let cases = |cases: &[(String, String)]| -> String {
            cases.iter().map(|(pattern, action)| format!("{pattern}) {action}; continue;;\n")).collect()
        };
        let script = format!(
            "{}\nwhile IFS= read -r l; do\n\
             id=${{l#*'\"id\":'}}; id=${{id%%',\"jsonrpc\"'*}}; id=${{id%%',\"method\"'*}}\n\
             case $l in\n{}esac\n{}case $l in\n{}{}esac\ndone\n{}",
            self.prelude,
            cases(&self.wrong),
            self.screen,
            cases(&self.other),
            self.good,
            self.epilogue
        );
        let waits = ["--timeout", "3s", "--connect-timeout", "20s"];
        probe(&[&["check"], &waits[..], &self.args, more, &["--", "sh", "-c", &script]].concat())
    }
}

/// What all good servers offer; `code` is the one for unknown resources
fn offer(code: i64, wrap: fn(Value) -> Value) -> impl Iterator<Item = (String, String)> {
    let mut cases = vec![("*'\"cursor\":'*".to_owned(), err(-32602))];
    for (name, entry) in entries() {
        cases.push((method(&format!("{name}/list")), ok(&wrap(json!({(member_of(name)): [entry]})))));
    }
    for name in ["tools/call", "prompts/get", "completion/complete"] {
        cases.push((method(name), err(-32602)));
    }
    let data = json!({"uri": "mcp-probe-unknown://unknown/unknown"});
    let unknown = failure(&json!({"code": code, "message": "no such resource", "data": data}));
    cases.push((
        method("resources/read"),
        format!("case $l in *'\"uri\":'*) {unknown};; *) {};; esac", err(-32602)),
    ));
    cases.into_iter()
}

/// The lists with an entry of each, about which there is nothing to say
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

/// The result of `initialize`
pub(crate) fn welcome(version: &str, capabilities: &Value) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": {"name": "fixture", "version": "1"},
    })
}

/// All that a legacy server may declare of what is looked at
pub(crate) fn capabilities() -> Value {
    json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}})
}

/// The result of `server/discover`
pub(crate) fn discovered() -> Value {
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}});
    complete(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}))
}

/// A result as the modern era has it
pub(crate) fn complete(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(0);
    result["cacheScope"] = json!("private");
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "fixture", "version": "1"}});
    result
}

/// The pattern of a method
pub(crate) fn method(name: &str) -> String {
    format!("*'\"method\":\"{name}\"'*")
}

/// Answers with a result
pub(crate) fn ok(result: &Value) -> String {
    format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{result}'")
}

/// Answers with an error of this code
pub(crate) fn err(code: i64) -> String {
    failure(&json!({"code": code, "message": "no"}))
}

/// Answers with this error
pub(crate) fn failure(error: &Value) -> String {
    format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}}\\n' \"$id\" '{error}'")
}

/// Writes this line
pub(crate) fn say(line: &str) -> String {
    format!("printf '%s\\n' '{line}'")
}
