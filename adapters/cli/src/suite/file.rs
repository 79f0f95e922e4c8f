//! Files of tests: what they say, checked before anything is run.

use alloc::collections::BTreeSet;
use core::time::Duration;
use std::path::Path;

use mcp_proto::EntryKind;
use serde_json::{Map, Value};

use super::expectation::{Expectation, check_pointer};
use super::{snapshot, variables};
use crate::args::{ServerPlaceArgs, is_url};
use crate::completion_request::CompletionTarget;
use crate::failure::CommandFailure;
use mcp_std::json_file::{self, Location, Object};

/// The steps of a file, and its server if it names one.
pub(super) struct Suite {
    pub(super) server: Option<ServerPlaceArgs>,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) name: String,
    pub(super) request: Request,
    pub(super) answer: ExpectedAnswer,
    /// Expectations with their JSON pointers.
    pub(super) expectations: Vec<(String, Expectation)>,
    pub(super) within: Option<Duration>,
    /// Pointers that the snapshot leaves out, if there is a snapshot.
    pub(super) snapshot: Option<Vec<String>>,
    /// Names of variables with the pointers of their values.
    pub(super) saves: Vec<(String, String)>,
}

pub(super) enum Request {
    Call { tool: String, arguments: Value },
    Read { uri: String },
    Prompt { name: String, arguments: Map<String, Value> },
    List(EntryKind),
    Complete { of: CompletionTarget, argument: String, value: String, known: Map<String, Value> },
    Ping,
}

pub(super) enum ExpectedAnswer {
    Result,
    /// A result that reports an error of the tool.
    ToolError,
    Error {
        code: Option<i64>,
        message: Option<Expectation>,
    },
}

impl Suite {
    /// Reads a file and checks all of it.
    ///
    /// # Errors
    ///
    /// Fails if something in it is not understood. The message names the member and its line.
    pub(super) fn read(path: &Path) -> Result<Self, CommandFailure> {
        let (at, root) = json_file::read(path, MAX_FILE_BYTES, HINT)?;
        at.check_members()?;
        at.check_integers()?;
        Self::parse(&root, at, path.parent().unwrap_or_else(|| Path::new("")))
            .map_err(|failure| failure.with_hint(HINT))
    }

    fn parse(root: &Value, at: Location, folder: &Path) -> Result<Self, CommandFailure> {
        let object = Object::new(root, at, &["server", "steps"])?;
        let server = object.get("server").map(|(value, at)| server(value, &at, folder)).transpose()?;
        let elements = object.elements("steps")?;
        if elements.is_empty() || elements.len() > MAX_STEPS {
            let why = format!("`steps` must be an array of 1 to {MAX_STEPS} steps");
            return Err(object.at().failure(&why).into());
        }
        let mut steps: Vec<Step> = Vec::new();
        let (mut names, mut files, mut saved) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (value, at) in elements {
            let step = Step::parse(value, &at)?;
            if !names.insert(step.name.clone()) {
                let why = format!("another step has the name `{}`: give this one a `name`", step.name);
                return Err(at.failure(&why).into());
            }
            if step.snapshot.is_some() && !files.insert(snapshot::file_name(&step.name)) {
                let why = format!(
                    "the snapshot of another step has the file {}: choose another `name`",
                    snapshot::file_name(&step.name)
                );
                return Err(at.failure(&why).into());
            }
            for name in step.request.variables().map_err(|why| at.failure(&why))? {
                if !saved.contains(&name) {
                    let why = format!(
                        "no earlier step saves `{name}`; a text that contains ${{ is written with $${{"
                    );
                    return Err(at.failure(&why).into());
                }
            }
            saved.extend(step.saves.iter().map(|(name, _)| name.clone()));
            steps.push(step);
        }
        Ok(Self { server, steps })
    }

    /// Keeps the steps whose names contain a text, and those that save what these use.
    ///
    /// # Errors
    ///
    /// Fails if there is no such step.
    pub(super) fn filter(&mut self, text: &str) -> Result<(), CommandFailure> {
        let mut needed = BTreeSet::new();
        let mut kept = Vec::new();
        for step in core::mem::take(&mut self.steps).into_iter().rev() {
            let saves = step.saves.iter().any(|(name, _)| needed.contains(name));
            if saves || step.name.contains(text) {
                needed.extend(step.request.variables().unwrap_or_default());
                kept.push(step);
            }
        }
        if kept.is_empty() {
            return Err(CommandFailure::usage(format!(
                "--filter: no step has a name that contains `{text}`"
            )));
        }
        kept.reverse();
        self.steps = kept;
        Ok(())
    }
}

/// Reads the server of a file.
fn server(value: &Value, at: &Location, folder: &Path) -> Result<ServerPlaceArgs, CommandFailure> {
    let mut place = ServerPlaceArgs { config: None, server_name: None, serial: None, command: Vec::new() };
    match value {
        Value::String(address) if is_url(address) || mcp_std::io::StreamAddress::is_socket(address) => {
            place.command.push(address.into());
        }
        Value::Array(words) if !words.is_empty() && words.iter().all(Value::is_string) => {
            place.command.extend(words.iter().filter_map(Value::as_str).map(Into::into));
        }
        Value::Object(_) => {
            let object = Object::new(value, at.clone(), &["config", "name"])?;
            let config = object.text("config")?.ok_or_else(|| at.failure("has no member `config`"))?;
            place.config = Some(folder.join(config));
            place.server_name = object.text("name")?.map(str::to_owned);
        }
        _ => {
            let why =
                "must be a URL, an array of the words of a command, or an object with the member `config`";
            return Err(at.failure(why).into());
        }
    }
    Ok(place)
}

impl Step {
    fn parse(value: &Value, at: &Location) -> Result<Self, CommandFailure> {
        let object = Object::new(value, at.clone(), STEP_MEMBERS)?;
        let verbs: Vec<_> = VERBS.iter().filter(|(verb, _)| object.has(verb)).collect();
        let [(verb, own)] = verbs[..] else {
            let known: Vec<_> = VERBS.iter().map(|(verb, _)| *verb).collect();
            return Err(at
                .failure(&format!("must have exactly one of the members {}", known.join(", ")))
                .into());
        };
        let others = VERBS.iter().flat_map(|(_, members)| *members);
        if let Some(other) = others.copied().find(|member| object.has(member) && !own.contains(member)) {
            return Err(at.member(other).failure(&format!("does not belong to `{verb}`")).into());
        }
        let request = Request::parse(verb, &object)?;
        let name = object.text("name")?.map_or_else(|| request.describe(), str::to_owned);
        let answer = ExpectedAnswer::parse(&object)?;
        let mut expectations = Vec::new();
        for (pointer, value, at) in object.members("expect")? {
            check_pointer(pointer).map_err(|why| at.failure(&why))?;
            expectations.push((pointer.clone(), Expectation::parse(value, &at)?));
        }
        let is_snapshot = object.flag("snapshot")?;
        let mut ignored = Vec::new();
        for (value, at) in object.elements("ignore")? {
            let pointer = value.as_str().ok_or_else(|| at.failure("must be a JSON pointer"))?;
            check_pointer(pointer).map_err(|why| at.failure(&why))?;
            if pointer.is_empty() {
                return Err(at.failure("leaves out the whole result: leave out the snapshot instead").into());
            }
            ignored.push(pointer.to_owned());
        }
        if !is_snapshot && object.has("ignore") {
            return Err(at.member("ignore").failure("belongs to a snapshot: add \"snapshot\": true").into());
        }
        let mut saves = Vec::new();
        for (name, value, at) in object.members("save")? {
            let pointer = value.as_str().ok_or_else(|| at.failure("must be a JSON pointer"))?;
            check_pointer(pointer)
                .and_then(|()| variables::check_name(name))
                .map_err(|why| at.failure(&why))?;
            saves.push((name.clone(), pointer.to_owned()));
        }
        let within = object.duration("within")?;
        Ok(Self {
            name,
            request,
            answer,
            expectations,
            within,
            snapshot: is_snapshot.then_some(ignored),
            saves,
        })
    }
}

impl Request {
    fn parse(verb: &str, object: &Object<'_>) -> Result<Self, CommandFailure> {
        if verb == "ping" {
            return match object.flag(verb)? {
                true => Ok(Self::Ping),
                false => Err(object.at().member(verb).failure("must be true").into()),
            };
        }
        let target = object.text(verb)?.unwrap_or_default().to_owned();
        let at = object.at().member(verb);
        let texts = |member: &str| -> Result<Map<String, Value>, CommandFailure> {
            let members = object.members(member)?.into_iter().map(|(name, value, at)| match value {
                Value::String(_) => Ok((name.clone(), value.clone())),
                _ => {
                    Err(at.failure("must be a text, as all arguments of prompts: write \"3\", not 3").into())
                }
            });
            members.collect()
        };
        Ok(match verb {
            "call" => {
                let arguments = object.members("arguments")?.into_iter();
                let arguments = arguments.map(|(name, value, _)| (name.clone(), value.clone()));
                Self::Call { tool: target, arguments: Value::Object(arguments.collect()) }
            }
            "read" => Self::Read { uri: target },
            "prompt" => Self::Prompt { name: target, arguments: texts("arguments")? },
            "list" => {
                let kind = EntryKind::ALL.into_iter().find(|kind| kind.list_member() == target);
                let known = EntryKind::ALL.map(EntryKind::list_member).join(", ");
                Self::List(kind.ok_or_else(|| at.failure(&format!("must be one of {known}")))?)
            }
            _ => {
                let of = CompletionTarget::new(&target);
                let argument =
                    object.text("argument")?.ok_or_else(|| at.failure("needs the member `argument`"))?;
                let value = object.text("value")?.unwrap_or_default().to_owned();
                Self::Complete { of, argument: argument.to_owned(), value, known: texts("with")? }
            }
        })
    }

    /// Returns the name of a step that has none.
    fn describe(&self) -> String {
        match self {
            Self::Call { tool, .. } => format!("call {tool}"),
            Self::Read { uri } => format!("read {uri}"),
            Self::Prompt { name, .. } => format!("prompt {name}"),
            Self::List(kind) => format!("list {}", kind.list_member()),
            Self::Complete {
                of: CompletionTarget::Prompt(of) | CompletionTarget::Template(of),
                argument,
                ..
            } => {
                format!("complete {of} {argument}")
            }
            Self::Ping => "ping".to_owned(),
        }
    }

    /// Returns the names of the variables that it uses.
    fn variables(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Call { arguments, .. } => variables::names(arguments),
            Self::Read { uri } => variables::names(&uri.as_str().into()),
            Self::Prompt { arguments, .. } => variables::names(&arguments.clone().into()),
            Self::Complete { value, known, .. } => {
                variables::names(&Value::Array(vec![value.as_str().into(), known.clone().into()]))
            }
            Self::List(_) | Self::Ping => Ok(Vec::new()),
        }
    }
}

impl ExpectedAnswer {
    fn parse(object: &Object<'_>) -> Result<Self, CommandFailure> {
        let is_tool_error = object.flag("isError")?;
        let Some((value, at)) = object.get("error") else {
            return Ok(if is_tool_error { Self::ToolError } else { Self::Result });
        };
        if is_tool_error {
            return Err(at
                .failure("an answer is either an error or a result with `isError`: leave one out")
                .into());
        }
        if *value == Value::Bool(true) {
            return Ok(Self::Error { code: None, message: None });
        }
        let error = Object::new(value, at, &["code", "message"])?;
        let code = error.get("code").map(|(value, at)| {
            value.as_i64().ok_or_else(|| at.failure("must be a whole number, for example -32602"))
        });
        let message = error.get("message").map(|(value, at)| Expectation::parse(value, &at));
        Ok(Self::Error { code: code.transpose()?, message: message.transpose()? })
    }
}

/// What a step asks for, each with the members that belong to it.
const VERBS: &[(&str, &[&str])] = &[
    ("call", &["arguments", "isError"]),
    ("read", &[]),
    ("prompt", &["arguments"]),
    ("list", &[]),
    ("complete", &["argument", "value", "with"]),
    ("ping", &[]),
];
const STEP_MEMBERS: &[&str] = &[
    "name",
    "call",
    "read",
    "prompt",
    "list",
    "complete",
    "ping",
    "arguments",
    "argument",
    "value",
    "with",
    "expect",
    "isError",
    "error",
    "within",
    "snapshot",
    "ignore",
    "save",
];
const HINT: &str = "`mcp-probe test --help` explains the members and shows an example";
/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of steps.
const MAX_STEPS: usize = 1_000;
