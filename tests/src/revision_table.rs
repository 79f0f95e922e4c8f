//! Independent reading of the published table of revisions (`core/src/model/revisions.md`).
//!
//! It lowers a value to an older revision as the table says, apart from the code that shapes messages, so that the two
//! can be compared.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cell::RefCell;

use mcp_proto::Version;
use serde_json::{Map, Value, json};

mod parts;
mod replacements;

const TABLE: &str = include_str!("../../core/src/model/revisions.md");

/// A row about a type or some of its members.
#[derive(Debug)]
struct RevisionRow {
    /// Condition under which the row applies to a value; `None` for all values of the type.
    condition: Option<String>,
    /// Members that the row is about; empty if it is about the whole value.
    members: Vec<String>,
    versions: Vec<Version>,
    replacement: String,
}

/// A row about a member that a value gets in a revision, if it has none.
#[derive(Debug)]
struct AddedMember {
    kind: String,
    member: String,
    version: Version,
    value: Value,
}

/// The published table.
#[derive(Debug)]
pub struct RevisionTable {
    added: Vec<AddedMember>,
    types: BTreeMap<String, Vec<RevisionRow>>,
    methods: BTreeMap<String, Vec<Version>>,
    errors: BTreeMap<i64, (Vec<Version>, i64)>,
    /// Types of the table of which no value was lowered so far.
    unused_types: RefCell<BTreeSet<String>>,
}

/// The revision has no form for a value, according to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRepresentable;

impl RevisionTable {
    /// Reads the table.
    ///
    /// # Panics
    ///
    /// If a row cannot be parsed.
    #[must_use]
    pub fn read() -> Self {
        let mut published = Self {
            added: Vec::new(),
            types: BTreeMap::new(),
            methods: BTreeMap::new(),
            errors: BTreeMap::new(),
            unused_types: RefCell::default(),
        };
        let mut head = "";
        for line in TABLE.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            match (cells[0], &*cells) {
                ("Type" | "Method" | "Error", _) => head = cells[0],
                (_, [name, member, "always", added]) if head == "Type" => {
                    let mut parts = added.split('`');
                    let value = parts.nth(1).and_then(|text| serde_json::from_str(text).ok()).expect("JSON");
                    let version = parts.next().and_then(|words| words.strip_prefix(" in "));
                    let version = version.and_then(|words| Version::from_name(words.split(',').next()?));
                    published.added.push(AddedMember {
                        kind: name.trim_matches(['[', '`', ']']).into(),
                        member: member.trim_matches('`').into(),
                        version: version.expect("a revision"),
                        value,
                    });
                }
                (_, [name, members, exists, elsewhere]) if head == "Type" => {
                    published.add(name, members, exists, elsewhere);
                }
                (_, [name, exists, "refused"]) if head == "Method" => {
                    published.methods.insert(name.trim_matches('`').into(), parse_versions(exists));
                }
                (_, [name, exists, elsewhere]) if head == "Error" => {
                    let code =
                        |text: &str| text.split(' ').next().and_then(|c| c.parse().ok()).expect("a code");
                    published.errors.insert(code(name), (parse_versions(exists), code(elsewhere)));
                }
                _ => panic!("malformed row: {line}"),
            }
        }
        assert!(published.types.len() > 50 && published.methods.len() > 5 && published.errors.len() == 5);
        published
    }

    fn add(&mut self, name: &str, members: &str, exists: &str, elsewhere: &str) {
        let (name, with) = match name.split_once("`] ") {
            Some((name, with)) => (name.trim_start_matches("[`"), Some(with.to_owned())),
            // Without brackets: the types of extensions are elsewhere.
            None => (name.trim_matches(['[', '`', ']']), None),
        };
        self.unused_types.get_mut().insert(name.into());
        let members = members.split(", ").filter(|m| !m.is_empty());
        self.types.entry(name.into()).or_default().push(RevisionRow {
            condition: with,
            members: members.map(|m| m.trim_matches('`').to_owned()).collect(),
            versions: parse_versions(exists),
            replacement: elsewhere.into(),
        });
    }

    /// Returns the types of the table of which no value was [lowered](Self::lower), at any depth.
    #[must_use]
    pub fn unused_types(&self) -> Vec<String> {
        self.unused_types.borrow().iter().cloned().collect()
    }

    /// Returns whether a revision has a method.
    #[must_use]
    pub fn has_method(&self, version: Version, method: &str) -> bool {
        self.methods.get(method).is_none_or(|exists| exists.contains(&version))
    }

    /// Returns the code that a revision uses for an error.
    #[must_use]
    pub fn error_code(&self, version: Version, code: i64) -> i64 {
        match self.errors.get(&code) {
            Some((exists, elsewhere)) if !exists.contains(&version) => *elsewhere,
            _ => code,
        }
    }

    /// Returns the form of `value` in a revision; `value` may have everything that any revision has.
    ///
    /// # Errors
    ///
    /// [`NotRepresentable`] if the table says that the value is refused.
    pub fn lower(&self, version: Version, name: &str, value: &Value) -> Result<Value, NotRepresentable> {
        let name = parts::concrete_type(name, value);
        self.unused_types.borrow_mut().remove(name);
        let rows = self.types.get(name).map_or(&[][..], Vec::as_slice);
        let applies = |row: &&RevisionRow| {
            row.condition.as_deref().is_none_or(|with| parts::matches_condition(with, value))
        };
        let lacking = |row: &&RevisionRow| applies(row) && !row.versions.contains(&version);
        let whole = || rows.iter().filter(lacking).filter(|row| row.members.is_empty());
        if whole().any(|row| replacements::replacement_for(row, version) == "refused") {
            return Err(NotRepresentable);
        }
        let mut value = value.clone();
        if let Value::Object(members) = &mut value {
            for row in rows.iter().filter(lacking) {
                for member in &row.members {
                    members.remove(member);
                }
            }
            for (member, part) in members.iter_mut() {
                if let Some(kind) = parts::part_type(name, member) {
                    *part = self.lower_part(version, kind, part)?;
                }
            }
        }
        // A row about a form of a type precedes a row about the type.
        let row = whole().max_by_key(|row| row.condition.is_some());
        let mut value = match row {
            Some(row) => replacements::build_replacement(replacements::replacement_for(row, version), &value),
            None => value,
        };
        for added in self.added.iter().filter(|added| added.kind == name && added.version == version) {
            let members = value.as_object_mut().expect("an object");
            members.entry(&added.member).or_insert_with(|| added.value.clone());
        }
        Ok(value)
    }

    fn lower_part(&self, version: Version, kind: &str, part: &Value) -> Result<Value, NotRepresentable> {
        match (kind.strip_suffix("{}"), part) {
            (Some(kind), Value::Object(named)) => {
                let each = named.iter().map(|(k, v)| Ok((k.clone(), self.lower(version, kind, v)?)));
                Ok(Value::Object(each.collect::<Result<Map<_, _>, _>>()?))
            }
            (None, Value::Array(list)) if kind != "ElicitValue" => {
                list.iter().map(|item| self.lower(version, kind, item)).collect()
            }
            _ => self.lower(version, kind, part),
        }
    }
}

/// Returns the revisions that an entry of the table names.
fn parse_versions(words: &str) -> Vec<Version> {
    let named = |name: &str| Version::from_name(name).unwrap_or_else(|| panic!("unknown revisions: {words}"));
    let (first, last) = if let Some(first) = words.strip_prefix("since ") {
        (named(first), Version::V2026_07_28)
    } else if let Some(last) = words.strip_prefix("until ") {
        (Version::V2024_11_05, named(last))
    } else if let Some(only) = words.strip_suffix(" only") {
        (named(only), named(only))
    } else {
        let (first, last) = words.split_once(" to ").unwrap_or_else(|| panic!("unknown revisions: {words}"));
        (named(first), named(last))
    };
    Version::ALL.into_iter().filter(|v| (first..=last).contains(v)).collect()
}

/// Returns `value` with all numbers as floating point, so that equal numbers compare equal.
#[must_use]
pub fn normalize_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normalize_numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), normalize_numbers(v))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
