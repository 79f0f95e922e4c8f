//! The two tools: what clients see of them, their arguments, the calls of them that wait, and their answers.

use alloc::collections::BTreeSet;

use mcp_proto::model::{CallToolResult, Map};
use mcp_proto::server::{Call, Engine};
use mcp_proto::{CallId, EncodeError, Instant, RawJson, UseError};
use serde::{Deserialize, Serialize};

use super::catalogue::IndexedTool;
use super::ranking::{Document, rank};
use crate::convert;
use crate::lists::{LIST_TIMEOUT, given_cursor, unknown_cursor_error};

/// Name of the tool that finds tools.
pub(crate) const SEARCH: &str = "search";
/// Name of the tool that calls a tool.
pub(crate) const CALL: &str = "call";

/// The list that clients see.
pub(crate) const LIST: &str = include_str!("tools.json").trim_ascii_end();

/// What a client searches for.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) limit: usize,
}

/// What a waiting call is for.
#[derive(Debug)]
pub(crate) enum Wanted {
    Tools(Query),
    /// A tool of this name, which is called with these parameters.
    Tool(String, RawJson),
}

/// Calls that wait for tools. Their number is bounded by [`mcp_proto::Limits::max_live_calls`].
#[derive(Debug, Default)]
pub(crate) struct ToolSearch {
    waiting: Vec<WaitingCall>,
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    pub(crate) call: Call,
    pub(crate) wanted: Wanted,
    deadline: Instant,
    /// Upstreams whose tools are not read yet.
    pub(crate) open: BTreeSet<usize>,
}

impl ToolSearch {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }

    /// Lets a call wait for the tools of some upstreams, which are in use meanwhile.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        call: Call,
        wanted: Wanted,
        open: impl IntoIterator<Item = usize>,
    ) {
        let (deadline, open) = (now + LIST_TIMEOUT, open.into_iter().collect());
        self.waiting.push(WaitingCall { call, wanted, deadline, open });
    }

    /// Returns whether a call waits for the tools of an upstream.
    pub(crate) fn awaits(&self, upstream: usize) -> bool {
        self.waiting.iter().any(|waiting| waiting.open.contains(&upstream))
    }

    /// Forgets a waiting call that its client has cancelled, if the call is one.
    pub(crate) fn cancel(&mut self, id: CallId) {
        self.waiting.retain(|waiting| waiting.call.id() != id);
    }

    /// Takes the calls that go on: those that wait for no upstream any more whose tools are to come, and those whose time is over.
    pub(crate) fn take_over(&mut self, now: Instant, is_open: impl Fn(usize) -> bool) -> Vec<WaitingCall> {
        for waiting in &mut self.waiting {
            waiting.open.retain(|upstream| is_open(*upstream));
        }
        let is_over = |waiting: &WaitingCall| waiting.open.is_empty() || waiting.deadline <= now;
        let (over, waiting) = core::mem::take(&mut self.waiting).into_iter().partition(is_over);
        self.waiting = waiting;
        over
    }
}

/// Reads what a call wants, or `None` of a call that is for neither of the two tools. Returns nothing if it is answered: one for the
/// list, and one with wrong arguments.
pub(crate) fn read(engine: &mut Engine, now: Instant, call: Call) -> Option<(Call, Option<Wanted>)> {
    let name = call.tool_call().map(|tool| tool.name.into_owned());
    let wanted = match (call.method(), name.as_deref()) {
        ("tools/list", _) => {
            answer_list(engine, now, &call);
            return None;
        }
        ("tools/call", Ok(SEARCH)) => query(&call),
        ("tools/call", Ok(CALL)) => called(&call),
        _ => return Some((call, None)),
    };
    match wanted {
        Ok(wanted) => Some((call, Some(wanted))),
        Err(why) => {
            answer(engine, now, &call, &CallToolResult::error(why));
            None
        }
    }
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    limit: Option<f64>,
}

#[derive(Deserialize)]
struct CallArguments {
    name: String,
    arguments: Option<RawJson>,
}

/// A tool that was found.
#[derive(Serialize)]
struct Found<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<RawJson>,
    #[serde(rename = "inputSchema")]
    input_schema: RawJson,
}

/// Reads the arguments of a `search`.
///
/// # Errors
///
/// Returns what is wrong, for the model.
fn query(call: &Call) -> Result<Wanted, String> {
    let SearchArguments { query: text, limit } = arguments(call, SEARCH)?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1.0..=MAX_LIMIT).contains(&limit) || limit.fract() != 0.0 {
        return Err(format!("`{SEARCH}`: `limit` is not a whole number from 1 to {MAX_LIMIT}"));
    }
    // In these bounds the number is exact.
    Ok(Wanted::Tools(Query { text, limit: limit as usize }))
}

/// Reads the arguments of a `call`.
///
/// # Errors
///
/// Returns what is wrong, for the model.
fn called(call: &Call) -> Result<Wanted, String> {
    let CallArguments { name, arguments } = arguments(call, CALL)?;
    let arguments = arguments.filter(|arguments| arguments.as_str() != "null");
    let arguments = arguments.unwrap_or_else(RawJson::empty_object);
    if !arguments.is_object() {
        return Err(format!("`{CALL}`: `arguments` is not an object"));
    }
    let params = call.params().unwrap_or_else(RawJson::empty_object);
    let params = convert::with_member(&params, "name", RawJson::encode(&name).ok());
    let params = params.and_then(|params| convert::with_member(&params, "arguments", Some(arguments)));
    let wanted = params.map(|params| Wanted::Tool(name, params));
    wanted.ok_or_else(|| format!("`{CALL}`: the parameters cannot be read"))
}

fn arguments<T: for<'de> Deserialize<'de>>(call: &Call, tool: &str) -> Result<T, String> {
    let arguments = call.params().and_then(|params| params.member("arguments"));
    let arguments = arguments.unwrap_or_else(RawJson::empty_object);
    arguments.parse().map_err(|error| convert::clip(&format!("`{tool}`: wrong arguments: {error}")))
}

/// Returns the result of a search among these tools, or that of a call of none of them.
pub(crate) fn result(wanted: &Wanted, tools: &[&IndexedTool]) -> CallToolResult<'static> {
    match wanted {
        Wanted::Tools(query) => match found(query, tools) {
            Ok(found) => CallToolResult::structured(found),
            Err(error) => CallToolResult::error(error.to_string()),
        },
        Wanted::Tool(name, _) => CallToolResult::error(unknown(name, tools)),
    }
}

/// Returns the best of these tools for a query, as an object with the list `tools`.
///
/// # Errors
///
/// Fails if they cannot be encoded.
fn found(query: &Query, tools: &[&IndexedTool]) -> Result<RawJson, EncodeError> {
    let best = best(&query.text, tools, query.limit);
    let best = best.into_iter().map(|tool| Found {
        name: &tool.shown,
        description: tool.entry.member("description"),
        input_schema: tool.entry.member("inputSchema").unwrap_or_else(RawJson::empty_object),
    });
    RawJson::encode(&Map::from([("tools", best.collect::<Vec<_>>())]))
}

/// Returns what is said of a name that no tool has: the names that are nearest, by spelling and then by words.
fn unknown(name: &str, tools: &[&IndexedTool]) -> String {
    let spelled = |tool: &&&IndexedTool| {
        let allowed = name.chars().count().min(tool.shown.chars().count()) / 4;
        distance(name, &tool.shown).filter(|distance| *distance <= allowed)
    };
    let mut near: Vec<_> = tools.iter().filter_map(|tool| Some((spelled(&tool)?, &*tool.shown))).collect();
    near.sort_unstable();
    let mut near: Vec<&str> = near.into_iter().map(|(_, name)| name).take(NEAREST).collect();
    for tool in best(name, tools, NEAREST) {
        if near.len() < NEAREST && !near.contains(&&*tool.shown) {
            near.push(&tool.shown);
        }
    }
    let name: String = name.chars().take(64).collect();
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match near.is_empty() {
        true => format!("no tool is named `{name}`: find one with `{SEARCH}`"),
        false => {
            format!("no tool is named `{name}`: did you mean {}? `{SEARCH}` finds others", near.join(", "))
        }
    }
}

fn best<'t>(query: &str, tools: &[&'t IndexedTool], limit: usize) -> Vec<&'t IndexedTool> {
    let documents: Vec<(&str, &Document)> = tools.iter().map(|tool| (&*tool.shown, &tool.document)).collect();
    rank(query, &documents, limit).into_iter().filter_map(|at| tools.get(at).copied()).collect()
}

/// Returns the number of characters to insert, remove or replace to make one name of another; `None` for a long one.
fn distance(one: &str, other: &str) -> Option<usize> {
    if one.len().max(other.len()) > MAX_NAME {
        return None;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, c) in one.chars().enumerate() {
        let mut left = line + 1;
        let mut next = vec![left];
        for ((above, before), d) in row.iter().skip(1).zip(&row).zip(&other) {
            left = (left + 1).min(above + 1).min(before + usize::from(c != *d));
            next.push(left);
        }
        row = next;
    }
    row.last().copied()
}

/// Answers a call for the list, which has one page.
fn answer_list(engine: &mut Engine, now: Instant, call: &Call) {
    let answered = match (given_cursor(call), RawJson::new(LIST)) {
        (None, Ok(list)) => engine.complete_raw(now, call.id(), &list),
        _ => engine.fail(now, call.id(), &unknown_cursor_error()),
    };
    fail_unanswered(engine, now, call, answered);
}

/// Answers a call with the result of a tool.
pub(crate) fn answer(engine: &mut Engine, now: Instant, call: &Call, result: &CallToolResult<'_>) {
    let answered = engine.complete(now, call.id(), result);
    fail_unanswered(engine, now, call, answered);
}

/// Answers a call with an error if its result cannot be sent. A call that has ended meanwhile is ignored.
fn fail_unanswered(engine: &mut Engine, now: Instant, call: &Call, answered: Result<(), UseError>) {
    if let Err(refused) = answered {
        let _ = engine.fail(now, call.id(), &convert::unreadable_result_error(&refused));
    }
}

const DEFAULT_LIMIT: f64 = 5.0;
const MAX_LIMIT: f64 = 20.0;
/// Number of names that are told for an unknown one.
const NEAREST: usize = 3;
/// Longest name in bytes that is compared by spelling.
const MAX_NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (one, other, expected) in
            [("", "abc", 3), ("tide_heigth", "tide_height", 2), ("ä", "a", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(one, other), Some(expected), "{one} {other}");
        }
        assert_eq!(distance(&"x".repeat(MAX_NAME + 1), "x"), None);
    }

    #[test]
    fn unknown_name_is_answered_with_near_ones() {
        let tools = ["tide_heights", "tide_currents", "dock_book_berth", "dock_free", "dock_tide_table"];
        let tools = tools.map(|name| {
            let entry = RawJson::encode(&Map::from([("name", name)])).expect("JSON");
            IndexedTool::new("", &entry).expect("a name")
        });
        let tools: Vec<&IndexedTool> = tools.iter().collect();
        let text = unknown("tide_hieghts", &tools);
        assert!(text.contains("did you mean `tide_heights`,"), "{text}");
        assert!(unknown("book_berth", &tools).contains("did you mean `dock_book_berth`"));
        assert_eq!(unknown("zebra", &tools), "no tool is named `zebra`: find one with `search`");
        assert!(unknown(&"x".repeat(1 << 20), &tools).len() < 200);
    }

    #[test]
    fn list_is_valid_and_short() {
        let list = RawJson::new(LIST).expect("JSON");
        let tools = list.member("tools").and_then(|tools| tools.elements()).expect("a list");
        let names = tools.iter().map(|tool| tool.member("name").and_then(|name| name.string()));
        assert!(names.eq([SEARCH, CALL].map(|name| Some(name.to_owned()))));
        assert!(LIST.len() < 1_200, "{}", LIST.len());
    }
}
