//! Validation of messages against the JSON Schema of their revision.
//!
//! The schemas are not part of this repository: the environment variable `MCP_SCHEMA_DIR` names a folder that holds
//! `<revision>/schema.json` for each revision. Without it nothing is validated, and a line on stderr reports that. If
//! `CI` is `true`, a missing variable is a failure.
//!
//! [`SchemaSet::check`] selects the types itself. A message must match its JSON-RPC envelope *and* the type of its
//! method, of the method that it answers, or of its error code. The envelopes alone accept nearly any message.

use alloc::sync::Arc;
use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use self::revision::RevisionSchema;

mod revision;

/// Environment variable that names the folder of the schemas.
pub const SCHEMA_DIR: &str = "MCP_SCHEMA_DIR";

/// Every revision that has a schema, oldest first.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The only revision with batches.
const BATCHES: &str = "2025-03-26";
/// The first modern revision: each request carries its metadata, and only the client sends requests.
const MODERN: &str = "2026-07-28";
/// Requests of older revisions that are an extension in the modern one, whose schema leaves them out.
const EXTENSION_REQUESTS: [&str; 2] = ["tasks/get", "tasks/cancel"];
/// Requests that may be answered by `input_required` (MRTR-002, MRTR-003).
const INPUT_REQUESTERS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
/// Requests that 2025-11-25 may answer with a task.
const TASK_STARTERS: [&str; 3] = ["tools/call", "sampling/createMessage", "elicitation/create"];
/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageDirection {
    /// Sent by the client.
    ClientToServer,
    /// Sent by the server.
    ServerToClient,
}

impl MessageDirection {
    /// Returns the opposite direction, in which a message is answered.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::ClientToServer => Self::ServerToClient,
            Self::ServerToClient => Self::ClientToServer,
        }
    }

    fn sender(self) -> &'static str {
        match self {
            Self::ClientToServer => "the client",
            Self::ServerToClient => "the server",
        }
    }
}

/// A check to make: the value at `pointer` in the message must match the type `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedType {
    /// Name of the type in the schema of the revision.
    pub name: String,
    /// JSON pointer into the message; empty for the message itself.
    pub pointer: &'static str,
}

impl ExpectedType {
    fn new(name: impl Into<String>, pointer: &'static str) -> Self {
        Self { name: name.into(), pointer }
    }
}

/// The schemas of all revisions. Clones share what is loaded and compiled.
#[derive(Clone)]
pub struct SchemaSet {
    inner: Arc<SchemaSetInner>,
}

// Left out of failure messages: the schemas are half a megabyte.
impl core::fmt::Debug for SchemaSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SchemaSet").finish_non_exhaustive()
    }
}

struct SchemaSetInner {
    revisions: Vec<RevisionSchema>,
    /// The methods of all revisions. Other methods belong to applications.
    methods: HashMap<String, MethodKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MethodKind {
    Request,
    Notification,
}

impl SchemaSet {
    /// Loads the schemas once per process from the folder that `MCP_SCHEMA_DIR` names.
    ///
    /// Returns `None` and writes a line to stderr if the variable is not set.
    ///
    /// # Panics
    ///
    /// If a schema cannot be read, or if it is not the document that the relaxations were written for. Also if the
    /// variable is not set while `CI` is `true`, so that an unchecked message cannot pass as a checked one.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        static LOADED: OnceLock<Option<SchemaSet>> = OnceLock::new();
        let load = || {
            // Not `eprintln!`: the test harness would capture the line and drop it.
            Self::from_vars(env::var_os(SCHEMA_DIR), env::var_os("CI"), &mut io::stderr())
        };
        LOADED.get_or_init(load).clone()
    }

    fn from_vars(dir: Option<OsString>, ci: Option<OsString>, stderr: &mut dyn Write) -> Option<Self> {
        let Some(dir) = dir.filter(|dir| !dir.is_empty()) else {
            let line = format!("NOT CHECKED: messages are not validated, because {SCHEMA_DIR} is not set");
            assert!(ci.is_none_or(|ci| ci != "true"), "{line}");
            let _ = writeln!(stderr, "{line}");
            return None;
        };
        match Self::load(Path::new(&dir)) {
            Ok(schemas) => Some(schemas),
            Err(problem) => panic!("{SCHEMA_DIR}: {problem}"),
        }
    }

    /// Loads `<dir>/<revision>/schema.json` of every revision.
    ///
    /// # Errors
    ///
    /// The file and the reason, if a file cannot be read, is not JSON, or does not fit the relaxations.
    pub fn load(dir: &Path) -> Result<Self, String> {
        let mut revisions = Vec::new();
        for name in REVISIONS {
            let path = dir.join(name).join("schema.json");
            let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let document =
                serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            revisions.push(
                RevisionSchema::new(name, document)
                    .map_err(|problem| format!("{}: {problem}", path.display()))?,
            );
        }
        let mut methods = HashMap::new();
        for (_, method) in revisions.iter().flat_map(|revision| revision.types.keys()) {
            let notification = method.starts_with("notifications/");
            methods.insert(
                method.clone(),
                if notification { MethodKind::Notification } else { MethodKind::Request },
            );
        }
        Ok(Self { inner: Arc::new(SchemaSetInner { revisions, methods }) })
    }

    /// Checks whether `message`, sent in `direction` on a byte stream, is valid in `revision`.
    ///
    /// `request_method` is the method that a response answers. Without it, only the envelope of a result is checked.
    /// Requests and notifications of no revision belong to the application: only their envelopes are checked.
    ///
    /// # Errors
    ///
    /// All violations that were found.
    pub fn check(
        &self,
        revision: &str,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<(), Vec<String>> {
        self.validate(revision, direction, message, request_method, false)
    }

    /// Checks like [`check`](Self::check) the body of an HTTP response, where an error may lack its `id`.
    ///
    /// # Errors
    ///
    /// All violations that were found.
    pub fn check_http_body(
        &self,
        revision: &str,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<(), Vec<String>> {
        self.validate(revision, MessageDirection::ServerToClient, message, request_method, true)
    }

    /// Returns the types that [`check`](Self::check) validates a single message against.
    ///
    /// # Errors
    ///
    /// The reason, if no content makes the message valid: for example, the revision does not have the method.
    pub fn expected(
        &self,
        revision: &str,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<Vec<ExpectedType>, String> {
        self.plan(self.revision(revision)?, direction, message, request_method, false)
    }

    /// Checks whether `value` matches the type `name` of `revision`.
    ///
    /// # Errors
    ///
    /// All violations that were found.
    pub fn check_type(&self, revision: &str, name: &str, value: &Value) -> Result<(), Vec<String>> {
        let revision = self.revision(revision).map_err(|problem| vec![problem])?;
        let problems = revision.validate(&ExpectedType::new(name, ""), value);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Returns the schema of the type `name` of `revision`, or `None` if the revision has no such type.
    #[must_use]
    pub fn definition(&self, revision: &str, name: &str) -> Option<&Value> {
        self.revision(revision).ok()?.definition(name)
    }

    fn revision(&self, name: &str) -> Result<&RevisionSchema, String> {
        let found = self.inner.revisions.iter().find(|revision| revision.name == name);
        found.ok_or_else(|| format!("unknown revision {name:?}"))
    }

    fn validate(
        &self,
        revision: &str,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
        http: bool,
    ) -> Result<(), Vec<String>> {
        let revision = self.revision(revision).map_err(|problem| vec![problem])?;
        let problems = match message {
            Value::Array(members) => self.batch_problems(revision, direction, message, members),
            _ => self.problems(revision, direction, message, request_method, http),
        };
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn batch_problems(
        &self,
        revision: &RevisionSchema,
        direction: MessageDirection,
        batch: &Value,
        members: &[Value],
    ) -> Vec<String> {
        if revision.name != BATCHES {
            return vec![format!("{} has no batches", revision.name)];
        }
        if members.is_empty() {
            // The schema allows an empty batch, JSON-RPC does not (BATCH-006).
            return vec!["batch is empty, expected at least one member".into()];
        }
        let calls = members.iter().any(|member| member.get("method").is_some());
        let name = if calls { "JSONRPCBatchRequest" } else { "JSONRPCBatchResponse" };
        let mut problems = revision.validate(&ExpectedType::new(name, ""), batch);
        for (index, member) in members.iter().enumerate() {
            if member.get("method").is_some_and(|method| method == "initialize") {
                problems.push(format!("[{index}]: `initialize` may not be part of a batch"));
            }
            let found = self.problems(revision, direction, member, None, false);
            problems.extend(found.into_iter().map(|problem| format!("[{index}]: {problem}")));
        }
        problems
    }

    fn problems(
        &self,
        revision: &RevisionSchema,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
        http: bool,
    ) -> Vec<String> {
        match self.plan(revision, direction, message, request_method, http) {
            Ok(expected) => {
                expected.iter().flat_map(|expected| revision.validate(expected, message)).collect()
            }
            Err(problem) => vec![problem],
        }
    }

    fn plan(
        &self,
        revision: &RevisionSchema,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
        http: bool,
    ) -> Result<Vec<ExpectedType>, String> {
        let Value::Object(members) = message else {
            return Err("message is not an object".into());
        };
        let has = |name: &str| members.contains_key(name);
        match (has("method"), has("result"), has("error")) {
            (true, false, false) => self.plan_call(revision, direction, message),
            (false, true, false) | (false, false, true)
                if revision.name == MODERN && direction == MessageDirection::ClientToServer =>
            {
                Err(format!("a client may not send responses in {MODERN}"))
            }
            (false, true, false) => self.plan_result(revision, direction, message, request_method),
            (false, false, true) => Ok(revision.plan_error(message, http)),
            _ => Err("message must have exactly one of `method`, `result` and `error`".into()),
        }
    }

    fn plan_call(
        &self,
        revision: &RevisionSchema,
        direction: MessageDirection,
        message: &Value,
    ) -> Result<Vec<ExpectedType>, String> {
        let (kind, envelope) = if message.get("id").is_some() {
            (MethodKind::Request, "JSONRPCRequest")
        } else {
            (MethodKind::Notification, "JSONRPCNotification")
        };
        let mut expected = vec![ExpectedType::new(envelope, "")];
        let Some(method) = message["method"].as_str() else {
            return Ok(expected); // The envelope check reports the reason.
        };
        let modern = revision.name == MODERN;
        if modern && kind == MethodKind::Request && direction == MessageDirection::ServerToClient {
            return Err(format!("a server may not send requests in {MODERN}"));
        }
        if self.inner.methods.get(method).is_some_and(|known| *known != kind) {
            return Err(format!("{method} must be sent as a {kind:?}"));
        }
        match self.method_type(revision, direction, method)? {
            Some(name) => expected.push(ExpectedType::new(name, "")),
            // The envelope leaves `params` open, but each request must carry the metadata (META-009, META-013).
            None if modern && kind == MethodKind::Request => {
                expected.push(ExpectedType::new("RequestParams", "/params"))
            }
            None => {}
        }
        Ok(expected)
    }

    /// Returns the type of a method of the revision, or `None` for a method outside the core protocol.
    fn method_type<'a>(
        &self,
        revision: &'a RevisionSchema,
        direction: MessageDirection,
        method: &str,
    ) -> Result<Option<&'a str>, String> {
        if let Some(name) = revision.types.get(&(direction, method.to_owned())) {
            return Ok(Some(name));
        }
        let extension = revision.name == MODERN && EXTENSION_REQUESTS.contains(&method);
        if !extension && self.inner.methods.contains_key(method) {
            return Err(format!("{} has no {method} sent by {}", revision.name, direction.sender()));
        }
        Ok(None)
    }

    fn plan_result(
        &self,
        revision: &RevisionSchema,
        direction: MessageDirection,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<Vec<ExpectedType>, String> {
        let result = &message["result"];
        let name = revision.first_of(&["JSONRPCResultResponse", "JSONRPCResponse"]);
        let mut expected = vec![ExpectedType::new(name, "")];
        let request = match request_method {
            Some(method) => self.method_type(revision, direction.reverse(), method)?,
            None => None,
        };
        let result_type = result.get("resultType").and_then(Value::as_str);
        match result_type.filter(|_| revision.name == MODERN) {
            Some("input_required") => {
                if let Some(method) = request_method.filter(|method| !INPUT_REQUESTERS.contains(method)) {
                    return Err(format!("{method} cannot be answered with input_required"));
                }
                expected.push(ExpectedType::new("InputRequiredResult", "/result"));
                return Ok(expected);
            }
            // A result type of an extension: nothing else is known about it.
            Some(other) if other != "complete" => return Ok(expected),
            _ => {}
        }
        if let (Some(request), Some(method)) = (request, request_method) {
            let task = TASK_STARTERS.contains(&method) && result.get("task").is_some();
            expected.push(ExpectedType::new(revision.result_type(request, task), "/result"));
        }
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn missing_variable_warns_and_fails_in_ci() {
        for (dir, ci) in [(None, None), (Some(OsString::new()), None), (None, Some("false".into()))] {
            let mut line = Vec::new();
            assert!(SchemaSet::from_vars(dir, ci, &mut line).is_none());
            assert!(line.starts_with(b"NOT CHECKED: "));
        }
        let failure = catch_unwind(|| SchemaSet::from_vars(None, Some("true".into()), &mut io::sink()));
        assert!(failure.unwrap_err().downcast_ref::<String>().unwrap().starts_with("NOT CHECKED: "));
    }

    #[test]
    fn wrong_folder_differs_from_missing_variable() {
        let failure =
            catch_unwind(|| SchemaSet::from_vars(Some("/nonexistent".into()), None, &mut io::sink()));
        assert!(failure.unwrap_err().downcast_ref::<String>().unwrap().contains("2024-11-05"));
    }
}
