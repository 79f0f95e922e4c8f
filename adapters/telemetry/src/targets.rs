//! What requests are for: their methods, and the names of tools and prompts, as labels.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use std::sync::{OnceLock, PoisonError, RwLock};

use mcp_proto::Version;
use mcp_proto::observe::Direction;
use opentelemetry::StringValue;

use crate::labels::{METHODS, OTHER};
use crate::metrics::Series;

/// Kind of the subject of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubjectKind {
    Tool,
    Prompt,
    Resource,
}

/// The name of a tool or prompt, as a label.
#[derive(Clone, Debug)]
enum TargetName {
    /// The requests have no label of that kind.
    Without,
    Known(Arc<str>),
    /// Any name that is not known.
    Other,
}

/// Revisions of a request, and one more for an unknown one.
const VERSIONS: usize = Version::ALL.len() + 1;

/// A method, with the name of the tool or prompt if that is known.
pub(crate) struct Target {
    /// Method, or [`OTHER`].
    pub(crate) method: &'static str,
    /// Kind of the subjects of the method.
    pub(crate) kind: Option<SubjectKind>,
    name: TargetName,
    /// Series of the requests that succeed, by direction and revision.
    series: [OnceLock<Series>; 2 * VERSIONS],
}

impl Target {
    fn new(method: &'static str, kind: Option<SubjectKind>, name: TargetName) -> Arc<Self> {
        Arc::new(Self { method, kind, name, series: [const { OnceLock::new() }; 2 * VERSIONS] })
    }

    /// Returns the name, if it is known.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.name {
            TargetName::Known(name) => Some(name),
            TargetName::Without | TargetName::Other => None,
        }
    }

    /// Returns the name as a label.
    pub(crate) fn label(&self) -> Option<StringValue> {
        match &self.name {
            TargetName::Known(name) => Some(Arc::clone(name).into()),
            TargetName::Other => Some(OTHER.into()),
            TargetName::Without => None,
        }
    }

    pub(crate) fn is_tool_call(&self) -> bool {
        self.kind == Some(SubjectKind::Tool)
    }

    /// Returns the attribute of the name of the tool or prompt.
    pub(crate) fn name_attribute(&self) -> &'static str {
        if self.is_tool_call() { "gen_ai.tool.name" } else { "gen_ai.prompt.name" }
    }

    /// Returns the series of the requests of a revision that succeed.
    pub(crate) fn series(&self, direction: Direction, version: Option<Version>) -> Option<&OnceLock<Series>> {
        let row = if direction == Direction::In { 0 } else { VERSIONS };
        let column = match version {
            None => 0,
            Some(version) => 1 + Version::ALL.iter().position(|known| *known == version)?,
        };
        self.series.get(row + column)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("method", &self.method)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The targets of an observer. Invariant: as many as there are methods, and `max_names` for tools and for prompts.
#[derive(Debug)]
pub(crate) struct Targets {
    /// Methods of the specification and of the application.
    methods: Vec<Arc<Target>>,
    /// The target of all other methods.
    other: Arc<Target>,
    tools: Names,
    prompts: Names,
}

impl Targets {
    pub(crate) fn new(of_application: &[&'static str], has_resource_uris: bool, max_names: usize) -> Self {
        let methods = METHODS
            .iter()
            .chain(of_application)
            .map(|&method| {
                let kind = match method {
                    "tools/call" => Some(SubjectKind::Tool),
                    "prompts/get" => Some(SubjectKind::Prompt),
                    "resources/read" | "resources/subscribe" | "resources/unsubscribe"
                        if has_resource_uris =>
                    {
                        Some(SubjectKind::Resource)
                    }
                    _ => None,
                };
                Target::new(method, kind, TargetName::Without)
            })
            .collect();
        let tools = Names::new("tools/call", SubjectKind::Tool, max_names);
        let prompts = Names::new("prompts/get", SubjectKind::Prompt, max_names);
        let other = Target::new(OTHER, None, TargetName::Without);
        Self { methods, other, tools, prompts }
    }

    /// Returns the target of a method, or the one of all others.
    pub(crate) fn method(&self, name: &str) -> &Arc<Target> {
        self.methods.iter().find(|known| known.method == name).unwrap_or(&self.other)
    }

    /// Returns the names of tools or prompts.
    pub(crate) const fn names(&self, kind: SubjectKind) -> Option<&Names> {
        match kind {
            SubjectKind::Tool => Some(&self.tools),
            SubjectKind::Prompt => Some(&self.prompts),
            SubjectKind::Resource => None,
        }
    }
}

/// Names that label metrics and spans: at most a number of distinct ones.
#[derive(Debug)]
pub(crate) struct Names {
    known: RwLock<BTreeMap<Arc<str>, Arc<Target>>>,
    /// The target of all other names.
    other: Arc<Target>,
    max: usize,
}

impl Names {
    fn new(method: &'static str, kind: SubjectKind, max: usize) -> Self {
        let other = Target::new(method, Some(kind), TargetName::Other);
        Self { known: RwLock::default(), other, max }
    }

    /// Returns the target of a name that was added before.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Target>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Adds a name, unless there are too many, and returns its target.
    pub(crate) fn add(&self, name: &str) -> Option<Arc<Target>> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = known.get(name) {
            return Some(Arc::clone(target));
        }
        if known.len() >= self.max {
            return None;
        }
        let name: Arc<str> = name.into();
        let target = Target::new(self.other.method, self.other.kind, TargetName::Known(Arc::clone(&name)));
        known.insert(name, Arc::clone(&target));
        Some(target)
    }

    /// Returns the target of names that are not known.
    pub(crate) const fn other(&self) -> &Arc<Target> {
        &self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let names = Names::new("tools/call", SubjectKind::Tool, 2);
        let name = |target: Option<Arc<Target>>| target.and_then(|target| target.name().map(str::to_owned));
        assert!(names.get("a").is_none());
        assert_eq!(name(names.add("a")).as_deref(), Some("a"));
        assert_eq!(name(names.add("b")).as_deref(), Some("b"));
        assert!(names.add("c").is_none());
        assert_eq!(name(names.get("a")).as_deref(), Some("a"));
        assert!(names.get("c").is_none());
        assert_eq!(name(names.add("b")).as_deref(), Some("b"), "a known one");
        assert_eq!((names.other().name(), names.other().label()), (None, Some(OTHER.into())));
    }

    #[test]
    fn methods_of_the_application_are_known_if_named() {
        let method =
            |name, of_application: &[&'static str]| Targets::new(of_application, true, 1).method(name).method;
        assert_eq!(method("tools/call", &[]), "tools/call");
        assert_eq!(method("example/ask", &[]), OTHER);
        assert_eq!(method("example/ask", &["example/ask"]), "example/ask");
    }

    #[test]
    fn each_direction_and_revision_has_a_series() {
        let target = Target::new("tools/list", None, TargetName::Without);
        let mut seen = Vec::new();
        for direction in [Direction::In, Direction::Out] {
            for version in [None].into_iter().chain(Version::ALL.map(Some)) {
                let place: *const _ = target.series(direction, version).expect("a place");
                assert!(!seen.contains(&place), "{direction:?} {version:?}");
                seen.push(place);
            }
        }
        assert_eq!(seen.len(), target.series.len());
    }
}
