//! What has changed between two definitions.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use mcp_proto::EntryKind;
use serde_json::{Map, Value};

use super::{KINDS, Pin, PinError, Pins, name_member};

/// An entry that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the entry; `None` for the instructions of the server.
    pub kind: Option<EntryKind>,
    /// The name of the entry now, or before if it is not listed any more. Empty for the instructions.
    pub name: String,
    /// What has happened to it.
    pub change: Change,
}

/// What has happened to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It had another name, and is the same otherwise.
    Renamed {
        /// The name before.
        from: String,
    },
    /// Its definition is another one.
    Changed(Vec<Difference>),
    /// Its definition cannot be compared.
    Unreadable(PinError),
}

/// A difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Where: a JSON pointer (RFC 6901) into the definition.
    pub pointer: String,
    /// What.
    pub kind: DifferenceKind,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The member was added.
    Added,
    /// The member was removed.
    Removed,
    /// The value is another one.
    Changed,
    /// A hint or flag is the opposite of what it was.
    Flipped,
    /// The schema accepts more than before.
    Wider,
    /// The schema accepts less than before.
    Narrower,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is, has) = match self.kind {
            // The name is the text of a stranger.
            Some(kind) => {
                write!(f, "{kind} `{}` ", self.name.escape_debug())?;
                ("is", "has")
            }
            None => {
                f.write_str("the instructions of the server ")?;
                ("are", "have")
            }
        };
        match &self.change {
            Change::Added => write!(f, "{is} not pinned"),
            Change::Removed => write!(f, "{is} not there any more"),
            Change::Renamed { from } => write!(f, "is `{}` under another name", from.escape_debug()),
            Change::Unreadable(reason) => write!(f, "cannot be compared: {reason}"),
            Change::Changed(differences) => {
                write!(f, "{has} changed")?;
                for (index, difference) in differences.iter().enumerate() {
                    write!(f, "{}{difference}", if index == 0 { ": " } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DifferenceKind::Added => "was added",
            DifferenceKind::Removed => "was removed",
            DifferenceKind::Changed => "is another one",
            DifferenceKind::Flipped => "has flipped",
            DifferenceKind::Wider => "is wider",
            DifferenceKind::Narrower => "is narrower",
        };
        write!(f, "`{}` {what}", self.pointer.escape_debug())
    }
}

pub(super) fn compare(then: &Pins, now: &Pins) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in KINDS {
        // Definitions without their names, of entries that are gone.
        let mut gone: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, pin) in then.of_kind(kind).filter(|(name, _)| now.get(kind, name).is_none()) {
            gone.entry(nameless(kind, pin)).or_default().push(name);
        }
        for (name, pin) in now.of_kind(kind) {
            let change = match then.get(kind, name) {
                Some(pinned) => match changed(pinned, pin) {
                    Some(change) => change,
                    None => continue,
                },
                None => match gone.get_mut(&nameless(kind, pin)).and_then(Vec::pop) {
                    Some(from) => Change::Renamed { from: from.to_owned() },
                    None => Change::Added,
                },
            };
            findings.push(Finding { kind: Some(kind), name: name.to_owned(), change });
        }
        let mut removed: Vec<&str> = gone.into_values().flatten().collect();
        removed.sort_unstable();
        findings.extend(removed.into_iter().map(|name| Finding {
            kind: Some(kind),
            name: name.to_owned(),
            change: Change::Removed,
        }));
    }
    if then.instructions != now.instructions {
        let change = match (&then.instructions, &now.instructions) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ => Change::Changed(Vec::new()),
        };
        findings.push(Finding { kind: None, name: String::new(), change });
    }
    findings
}

/// Returns a definition without its name, to find it again under another one.
fn nameless(kind: EntryKind, pin: &Pin) -> String {
    let mut value = pin.value();
    if let Value::Object(members) = &mut value {
        members.remove(name_member(kind));
    }
    // Members of a map are in one order.
    value.to_string()
}

/// Returns what has changed.
pub(super) fn changed(then: &Pin, now: &Pin) -> Option<Change> {
    if then.digest == now.digest {
        return None;
    }
    let mut differences = Vec::new();
    let (then, now) = (then.value(), now.value());
    let none = Map::new();
    let (then, now) = (then.as_object().unwrap_or(&none), now.as_object().unwrap_or(&none));
    for name in names(then, now) {
        let pointer = pointer("", name);
        match (then.get(name), now.get(name)) {
            (Some(then), Some(now)) if matches!(&**name, "inputSchema" | "outputSchema") => {
                compare_schemas(then, now, &pointer, &mut differences);
            }
            (then, now) => compare_values(then, now, &pointer, &mut differences),
        }
    }
    Some(Change::Changed(differences))
}

fn names<'a>(then: &'a Map<String, Value>, now: &'a Map<String, Value>) -> BTreeSet<&'a String> {
    then.keys().chain(now.keys()).collect()
}

/// Returns the pointer of a member.
fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn note(differences: &mut Vec<Difference>, pointer: &str, kind: DifferenceKind) {
    differences.push(Difference { pointer: pointer.to_owned(), kind });
}

/// Compares members, and the members of objects in them.
fn compare_values(then: Option<&Value>, now: Option<&Value>, at: &str, differences: &mut Vec<Difference>) {
    match (then, now) {
        (None, None) => {}
        (None, Some(_)) => note(differences, at, DifferenceKind::Added),
        (Some(_), None) => note(differences, at, DifferenceKind::Removed),
        (Some(then), Some(now)) if then == now => {}
        (Some(Value::Bool(_)), Some(Value::Bool(_))) => note(differences, at, DifferenceKind::Flipped),
        (Some(Value::Object(then)), Some(Value::Object(now))) => {
            for name in names(then, now) {
                compare_values(then.get(name), now.get(name), &pointer(at, name), differences);
            }
        }
        _ => note(differences, at, DifferenceKind::Changed),
    }
}

// ---- schemas ----------------------------------------------------------------------------------------------------

/// Compares schemas: which keywords accept more than before, and which less. Where neither can be said, the keyword counts as
/// another one.
fn compare_schemas(then: &Value, now: &Value, at: &str, differences: &mut Vec<Difference>) {
    match (then, now) {
        _ if then == now => {}
        (Value::Object(then), Value::Object(now)) => {
            for name in names(then, now) {
                let pair = (then.get(name), now.get(name));
                compare_keyword(name, pair, &pointer(at, name), differences);
            }
        }
        // A schema that accepts everything, or nothing.
        (Value::Bool(true), _) | (_, Value::Bool(false)) => note(differences, at, DifferenceKind::Narrower),
        (Value::Bool(false), _) | (_, Value::Bool(true)) => note(differences, at, DifferenceKind::Wider),
        _ => note(differences, at, DifferenceKind::Changed),
    }
}

fn compare_keyword(
    name: &str,
    (then, now): (Option<&Value>, Option<&Value>),
    at: &str,
    differences: &mut Vec<Difference>,
) {
    const EVERYTHING: Value = Value::Bool(true);
    if then == now {
        return;
    }
    let kind = match name {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            let none = Map::new();
            let members = |value: Option<&'_ Value>| value.and_then(Value::as_object).cloned();
            let (then, now) = (members(then).unwrap_or_else(|| none.clone()), members(now).unwrap_or(none));
            for name in names(&then, &now) {
                let at = pointer(at, name);
                match (then.get(name), now.get(name)) {
                    (Some(then), Some(now)) => compare_schemas(then, now, &at, differences),
                    (None, _) => note(differences, &at, DifferenceKind::Added),
                    (_, None) => note(differences, &at, DifferenceKind::Removed),
                }
            }
            return;
        }
        "additionalProperties" | "unevaluatedProperties" | "items" | "unevaluatedItems" | "propertyNames" => {
            return compare_schemas(then.unwrap_or(&EVERYTHING), now.unwrap_or(&EVERYTHING), at, differences);
        }
        // What is not listed is refused.
        "type" | "enum" | "anyOf" | "oneOf" => by_set(then, now, DifferenceKind::Wider),
        // What is listed has to be there.
        "required" | "allOf" => by_set(then, now, DifferenceKind::Narrower),
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains" => {
            by_bound(then, now, DifferenceKind::Wider)
        }
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains" => {
            by_bound(then, now, DifferenceKind::Narrower)
        }
        "const" | "pattern" | "multipleOf" | "uniqueItems" | "not" | "contains" => match (then, now) {
            (None, _) => DifferenceKind::Narrower,
            (_, None) => DifferenceKind::Wider,
            _ => DifferenceKind::Changed,
        },
        _ => return compare_values(then, now, at, differences),
    };
    note(differences, at, kind);
}

const fn opposite(kind: DifferenceKind) -> DifferenceKind {
    match kind {
        DifferenceKind::Wider => DifferenceKind::Narrower,
        DifferenceKind::Narrower => DifferenceKind::Wider,
        other => other,
    }
}

/// Compares sets, of which a larger one means `larger`. An absent set of what is allowed allows everything, and an absent set of
/// what is needed needs nothing.
fn by_set(then: Option<&Value>, now: Option<&Value>, larger: DifferenceKind) -> DifferenceKind {
    let set = |value: &Value| -> BTreeSet<String> {
        let all = value.as_array().map_or_else(|| core::slice::from_ref(value), Vec::as_slice);
        let mut all: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        if all.contains("\"number\"") {
            // Those of the keyword `type`: each integer is a number.
            all.insert("\"integer\"".to_owned());
        }
        all
    };
    match (then, now) {
        (None, _) => DifferenceKind::Narrower,
        (_, None) => DifferenceKind::Wider,
        (Some(then), Some(now)) => match (set(then), set(now)) {
            (then, now) if then == now => DifferenceKind::Changed,
            (then, now) if then.is_subset(&now) => larger,
            (then, now) if now.is_subset(&then) => opposite(larger),
            _ => DifferenceKind::Changed,
        },
    }
}

/// Compares bounds, of which a larger one means `larger`.
fn by_bound(then: Option<&Value>, now: Option<&Value>, larger: DifferenceKind) -> DifferenceKind {
    match (then, now) {
        (None, _) => DifferenceKind::Narrower,
        (_, None) => DifferenceKind::Wider,
        (Some(then), Some(now)) => match (then.as_f64(), now.as_f64()) {
            (Some(then), Some(now)) if then < now => larger,
            (Some(then), Some(now)) if then > now => opposite(larger),
            _ => DifferenceKind::Changed,
        },
    }
}
