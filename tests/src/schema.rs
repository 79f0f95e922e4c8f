//! Validates messages against the JSON Schema of their protocol revision.
//!
//! The schemas are no part of this project: the environment variable `MCP_SCHEMA_DIR` names a folder that holds
//! `<revision>/schema.json` for each revision. Without it nothing is checked, and a line on stderr says so;
//! where `CI` is `true` that is a failure.
//!
//! [`Schemas::check`] picks the type by itself. A message has to be an instance of its JSON-RPC envelope *and*
//! of the type that its method, the method it answers, or its error code calls for: the envelopes alone are so
//! open that nearly anything passes.

use alloc::sync::Arc;
use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use self::revision::Revision;

mod revision;

/// The variable that names the folder of the schemas.
pub const SCHEMA_DIR: &str = "MCP_SCHEMA_DIR";

/// Every revision that has a schema, oldest first.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The one revision with batches.
const BATCHES: &str = "2025-03-26";
/// From here on there is no session: each request carries its metadata, and only the client sends requests.
const MODERN: &str = "2026-07-28";
/// Requests of core revisions that live on in the modern one as an extension, which its schema leaves out.
const EXTENSION_REQUESTS: [&str; 2] = ["tasks/get", "tasks/cancel"];
/// The requests that may be answered by asking for input (MRTR-002, MRTR-003).
const INPUT_REQUESTERS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
/// The requests that 2025-11-25 may answer with a task.
const TASK_STARTERS: [&str; 3] = ["tools/call", "sampling/createMessage", "elicitation/create"];
/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Sent by the client.
    ClientToServer,
    /// Sent by the server.
    ServerToClient,
}

impl Direction {
    /// The direction of an answer to a message of this one.
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

/// One thing that has to validate: the value at `pointer` in the message, against the type `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The name of the type in the schema of the revision.
    pub name: String,
    /// A JSON pointer into the message; empty for the message itself.
    pub pointer: &'static str,
}

impl Expected {
    fn new(name: impl Into<String>, pointer: &'static str) -> Self {
        Self { name: name.into(), pointer }
    }
}

/// The schemas of all revisions. Clones share what is loaded and compiled.
#[derive(Clone)]
pub struct Schemas {
    inner: Arc<Inner>,
}

// Half a megabyte, in every failure that shows what it was checked with.
impl core::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

struct Inner {
    revisions: Vec<Revision>,
    /// The methods of any revision: one that is not here is an application's own.
    methods: HashMap<String, Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Notification,
}

impl Schemas {
    /// Loads the schemas once per process from the folder that `MCP_SCHEMA_DIR` names.
    ///
    /// `None`, and a line on stderr, when the variable is not set.
    ///
    /// # Panics
    ///
    /// When a schema cannot be read or is not the document that the relaxations below know, and when the variable
    /// is missing where `CI` is `true`: there an unchecked message must not pass for a checked one.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        static LOADED: OnceLock<Option<Schemas>> = OnceLock::new();
        let load = || {
            // Not `eprintln!`: the test harness would capture the line and drop it.
            Self::from_vars(env::var_os(SCHEMA_DIR), env::var_os("CI"), &mut io::stderr())
        };
        LOADED.get_or_init(load).clone()
    }

    fn from_vars(dir: Option<OsString>, ci: Option<OsString>, stderr: &mut dyn Write) -> Option<Self> {
        let Some(dir) = dir.filter(|dir| !dir.is_empty()) else {
            let line =
                format!("NOT CHECKED: messages against their JSON Schemas, because {SCHEMA_DIR} is not set");
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
    /// What is wrong with which file.
    pub fn load(dir: &Path) -> Result<Self, String> {
        let mut revisions = Vec::new();
        for name in REVISIONS {
            let path = dir.join(name).join("schema.json");
            let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let document =
                serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            revisions.push(
                Revision::new(name, document).map_err(|problem| format!("{}: {problem}", path.display()))?,
            );
        }
        let mut methods = HashMap::new();
        for (_, method) in revisions.iter().flat_map(|revision| revision.types.keys()) {
            let notification = method.starts_with("notifications/");
            methods.insert(method.clone(), if notification { Kind::Notification } else { Kind::Request });
        }
        Ok(Self { inner: Arc::new(Inner { revisions, methods }) })
    }

    /// Whether `message`, sent in `direction` on a byte stream, is valid in `revision`.
    ///
    /// `request_method` is the method that a response answers; without it only the envelope of a result is
    /// checked. Requests and notifications of no revision are an application's own: only their envelopes are known.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the message.
    pub fn check(
        &self,
        revision: &str,
        direction: Direction,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<(), Vec<String>> {
        self.run(revision, direction, message, request_method, false)
    }

    /// Like [`check`](Self::check), for the body of an HTTP response, where an error may lack its `id`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the message.
    pub fn check_http_body(
        &self,
        revision: &str,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<(), Vec<String>> {
        self.run(revision, Direction::ServerToClient, message, request_method, true)
    }

    /// The types that [`check`](Self::check) validates a single message against.
    ///
    /// # Errors
    ///
    /// Why the message cannot be valid whatever its content, for instance a method that the revision does not have.
    pub fn expected(
        &self,
        revision: &str,
        direction: Direction,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<Vec<Expected>, String> {
        self.plan(self.revision(revision)?, direction, message, request_method, false)
    }

    /// Whether `value` is an instance of the type `name` of `revision`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the value.
    pub fn check_type(&self, revision: &str, name: &str, value: &Value) -> Result<(), Vec<String>> {
        let revision = self.revision(revision).map_err(|problem| vec![problem])?;
        let problems = revision.validate(&Expected::new(name, ""), value);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The schema of the type `name` of `revision`; none when the revision has no such type.
    #[must_use]
    pub fn definition(&self, revision: &str, name: &str) -> Option<&Value> {
        self.revision(revision).ok()?.definition(name)
    }

    fn revision(&self, name: &str) -> Result<&Revision, String> {
        let found = self.inner.revisions.iter().find(|revision| revision.name == name);
        found.ok_or_else(|| format!("no schema for revision {name:?}"))
    }

    fn run(
        &self,
        revision: &str,
        direction: Direction,
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
        revision: &Revision,
        direction: Direction,
        batch: &Value,
        members: &[Value],
    ) -> Vec<String> {
        if revision.name != BATCHES {
            return vec![format!("{} has no batches", revision.name)];
        }
        if members.is_empty() {
            // The schema allows it, JSON-RPC does not (BATCH-006).
            return vec!["a batch has at least one member".into()];
        }
        let calls = members.iter().any(|member| member.get("method").is_some());
        let name = if calls { "JSONRPCBatchRequest" } else { "JSONRPCBatchResponse" };
        let mut problems = revision.validate(&Expected::new(name, ""), batch);
        for (index, member) in members.iter().enumerate() {
            if member.get("method").is_some_and(|method| method == "initialize") {
                problems.push(format!("[{index}]: initialize is never part of a batch"));
            }
            let found = self.problems(revision, direction, member, None, false);
            problems.extend(found.into_iter().map(|problem| format!("[{index}]: {problem}")));
        }
        problems
    }

    fn problems(
        &self,
        revision: &Revision,
        direction: Direction,
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
        revision: &Revision,
        direction: Direction,
        message: &Value,
        request_method: Option<&str>,
        http: bool,
    ) -> Result<Vec<Expected>, String> {
        let Value::Object(members) = message else {
            return Err("a message is an object".into());
        };
        let has = |name: &str| members.contains_key(name);
        match (has("method"), has("result"), has("error")) {
            (true, false, false) => self.plan_call(revision, direction, message),
            (false, true, false) | (false, false, true)
                if revision.name == MODERN && direction == Direction::ClientToServer =>
            {
                Err(format!("the client sends no responses in {MODERN}"))
            }
            (false, true, false) => self.plan_result(revision, direction, message, request_method),
            (false, false, true) => Ok(revision.plan_error(message, http)),
            _ => Err("a message has exactly one of method, result and error".into()),
        }
    }

    fn plan_call(
        &self,
        revision: &Revision,
        direction: Direction,
        message: &Value,
    ) -> Result<Vec<Expected>, String> {
        let (kind, envelope) = if message.get("id").is_some() {
            (Kind::Request, "JSONRPCRequest")
        } else {
            (Kind::Notification, "JSONRPCNotification")
        };
        let mut expected = vec![Expected::new(envelope, "")];
        let Some(method) = message["method"].as_str() else {
            return Ok(expected); // The envelope says what is wrong.
        };
        let modern = revision.name == MODERN;
        if modern && kind == Kind::Request && direction == Direction::ServerToClient {
            return Err(format!("the server sends no requests in {MODERN}"));
        }
        if self.inner.methods.get(method).is_some_and(|known| *known != kind) {
            return Err(format!("{method} is sent as a {kind:?}"));
        }
        match self.method_type(revision, direction, method)? {
            Some(name) => expected.push(Expected::new(name, "")),
            // The envelope leaves `params` open, but the metadata is due on every request (META-009, META-013).
            None if modern && kind == Kind::Request => {
                expected.push(Expected::new("RequestParams", "/params"))
            }
            None => {}
        }
        Ok(expected)
    }

    /// The type of a method of the revision; `None` for one that is not of the protocol's core.
    fn method_type<'a>(
        &self,
        revision: &'a Revision,
        direction: Direction,
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
        revision: &Revision,
        direction: Direction,
        message: &Value,
        request_method: Option<&str>,
    ) -> Result<Vec<Expected>, String> {
        let result = &message["result"];
        let name = revision.first_of(&["JSONRPCResultResponse", "JSONRPCResponse"]);
        let mut expected = vec![Expected::new(name, "")];
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
                expected.push(Expected::new("InputRequiredResult", "/result"));
                return Ok(expected);
            }
            // An extension's own type of result: no more is known than that it is one.
            Some(other) if other != "complete" => return Ok(expected),
            _ => {}
        }
        if let (Some(request), Some(method)) = (request, request_method) {
            let task = TASK_STARTERS.contains(&method) && result.get("task").is_some();
            expected.push(Expected::new(revision.result_type(request, task), "/result"));
        }
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_missing_variable_is_loud_and_fails_in_ci() {
        for (dir, ci) in [(None, None), (Some(OsString::new()), None), (None, Some("false".into()))] {
            let mut line = Vec::new();
            assert!(Schemas::from_vars(dir, ci, &mut line).is_none());
            assert!(line.starts_with(b"NOT CHECKED: "));
        }
        let failure = catch_unwind(|| Schemas::from_vars(None, Some("true".into()), &mut io::sink()));
        assert!(failure.unwrap_err().downcast_ref::<String>().unwrap().starts_with("NOT CHECKED: "));
    }

    #[test]
    fn a_wrong_folder_is_no_missing_variable() {
        let failure = catch_unwind(|| Schemas::from_vars(Some("/nonexistent".into()), None, &mut io::sink()));
        assert!(failure.unwrap_err().downcast_ref::<String>().unwrap().contains("2024-11-05"));
    }
}
