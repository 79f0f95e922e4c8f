//! What an older revision makes of a value, by the table that users read (`core/src/model/revisions.md`): written
//! apart from the code that shapes, so that the two can be compared.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cell::RefCell;

use mcp_proto::Version;
use serde_json::{Map, Value, json};

mod instead;
mod parts;

const TABLE: &str = include_str!("../../core/src/model/revisions.md");

/// A row about a type or some of its members
#[derive(Debug)]
struct Row {
    /// What has to be so for the row to concern a value; none for all values of the type
    with: Option<String>,
    /// None when the row is about the whole
    members: Vec<String>,
    exists: Vec<Version>,
    elsewhere: String,
}

/// The published table
#[derive(Debug)]
pub struct Published {
    types: BTreeMap<String, Vec<Row>>,
    methods: BTreeMap<String, Vec<Version>>,
    errors: BTreeMap<i64, (Vec<Version>, i64)>,
    /// Types that no value was of so far
    unseen: RefCell<BTreeSet<String>>,
}

/// The table says that the revision has no form for a value
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Published {
    /// Reads the table
    ///
    /// # Panics
    ///
    /// When it cannot be understood.
    #[must_use]
    pub fn read() -> Self {
        let mut published = Self {
            types: BTreeMap::new(),
            methods: BTreeMap::new(),
            errors: BTreeMap::new(),
            unseen: RefCell::default(),
        };
        let mut head = "";
        for line in TABLE.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            match (cells[0], &*cells) {
                ("Type" | "Method" | "Error", _) => head = cells[0],
                (_, [name, members, exists, elsewhere]) if head == "Type" => {
                    published.add(name, members, exists, elsewhere);
                }
                (_, [name, exists, "refused"]) if head == "Method" => {
                    published.methods.insert(name.trim_matches('`').into(), versions(exists));
                }
                (_, [name, exists, elsewhere]) if head == "Error" => {
                    let code =
                        |text: &str| text.split(' ').next().and_then(|c| c.parse().ok()).expect("a code");
                    published.errors.insert(code(name), (versions(exists), code(elsewhere)));
                }
                _ => panic!("{line}"),
            }
        }
        assert!(published.types.len() > 50 && published.methods.len() > 5 && published.errors.len() == 5);
        published
    }

    fn add(&mut self, name: &str, members: &str, exists: &str, elsewhere: &str) {
        let (name, with) = match name.split_once("`] ") {
            Some((name, with)) => (name.trim_start_matches("[`"), Some(with.to_owned())),
            None => (name.trim_start_matches("[`").trim_end_matches("`]"), None),
        };
        self.unseen.get_mut().insert(name.into());
        let members = members.split(", ").filter(|m| !m.is_empty());
        self.types.entry(name.into()).or_default().push(Row {
            with,
            members: members.map(|m| m.trim_matches('`').to_owned()).collect(),
            exists: versions(exists),
            elsewhere: elsewhere.into(),
        });
    }

    /// The types of the table that no value was of that was [lowered](Self::lower), at any depth
    #[must_use]
    pub fn unseen(&self) -> Vec<String> {
        self.unseen.borrow().iter().cloned().collect()
    }

    /// Whether a revision has a method
    #[must_use]
    pub fn has_method(&self, version: Version, method: &str) -> bool {
        self.methods.get(method).is_none_or(|exists| exists.contains(&version))
    }

    /// The code under which a revision tells an error
    #[must_use]
    pub fn error_code(&self, version: Version, code: i64) -> i64 {
        match self.errors.get(&code) {
            Some((exists, elsewhere)) if !exists.contains(&version) => *elsewhere,
            _ => code,
        }
    }

    /// What becomes of a `value` of a type, which has everything that any revision has
    ///
    /// # Errors
    ///
    /// The table says that it is refused.
    pub fn lower(&self, version: Version, name: &str, value: &Value) -> Result<Value, Refused> {
        let name = parts::kind(name, value);
        self.unseen.borrow_mut().remove(name);
        let rows = self.types.get(name).map_or(&[][..], Vec::as_slice);
        let concerned = |row: &&Row| row.with.as_deref().is_none_or(|with| parts::is_with(with, value));
        let lacking = |row: &&Row| concerned(row) && !row.exists.contains(&version);
        let whole = || rows.iter().filter(lacking).filter(|row| row.members.is_empty());
        if whole().any(|row| instead::words(row, version) == "refused") {
            return Err(Refused);
        }
        let mut value = value.clone();
        if let Value::Object(members) = &mut value {
            for row in rows.iter().filter(lacking) {
                for member in &row.members {
                    members.remove(member);
                }
            }
            for (member, part) in members.iter_mut() {
                if let Some(kind) = parts::part(name, member) {
                    *part = self.lower_part(version, kind, part)?;
                }
            }
        }
        // What is said of a form of a type goes before what is said of the type.
        let row = whole().max_by_key(|row| row.with.is_some());
        Ok(match row {
            Some(row) => instead::make(instead::words(row, version), &value),
            None => value,
        })
    }

    fn lower_part(&self, version: Version, kind: &str, part: &Value) -> Result<Value, Refused> {
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

/// The revisions that words of the table stand for
fn versions(words: &str) -> Vec<Version> {
    let named = |name: &str| Version::from_name(name).unwrap_or_else(|| panic!("{words}"));
    let (first, last) = if let Some(first) = words.strip_prefix("since ") {
        (named(first), Version::V2026_07_28)
    } else if let Some(last) = words.strip_prefix("until ") {
        (Version::V2024_11_05, named(last))
    } else if let Some(only) = words.strip_suffix(" only") {
        (named(only), named(only))
    } else {
        let (first, last) = words.split_once(" to ").unwrap_or_else(|| panic!("{words}"));
        (named(first), named(last))
    };
    Version::ALL.into_iter().filter(|v| (first..=last).contains(v)).collect()
}

/// Whether two values are the same, numbers compared by what they are
#[must_use]
pub fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), plain(v))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
