//! The facts of a request that spans and metrics share.

use alloc::borrow::Cow;
use alloc::sync::Arc;

use mcp_proto::Version;
use mcp_proto::observe::{Direction, RequestStart};

use crate::labels::{self, ErrorType, MAX_NAME, MAX_URI};
use crate::targets::{Names, SubjectKind, Target, Targets};

/// A request.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) direction: Direction,
    pub(crate) version: Option<Version>,
    /// Method, with the name of the tool or prompt if that is known.
    pub(crate) target: Arc<Target>,
    /// Name of the tool or prompt if it is not known, or URI of the resource.
    subject: Option<Box<str>>,
}

impl Operation {
    #[inline]
    pub(crate) fn new(start: &RequestStart<'_>, targets: &Targets) -> Self {
        let method = targets.method(start.method);
        let (target, subject) = match (method.kind, start.subject.as_deref()) {
            (Some(kind), Some(subject)) => match targets.names(kind) {
                Some(names) => look_up(names, subject),
                None => (None, Some(labels::clean(subject, MAX_URI).into())),
            },
            _ => (None, None),
        };
        let target = target.unwrap_or_else(|| Arc::clone(method));
        Self { direction: start.direction, version: start.version, target, subject }
    }

    /// Returns the subject, if it is of this kind.
    pub(crate) fn subject(&self, kind: SubjectKind) -> Option<&str> {
        if self.target.kind != Some(kind) {
            return None;
        }
        self.target.name().or(self.subject.as_deref())
    }

    /// Returns the target of a request that has ended. Its name is known from now on if it has shown that it exists.
    #[inline]
    pub(crate) fn target_at_end<'a>(
        &'a self,
        targets: &'a Targets,
        error: Option<ErrorType>,
    ) -> Cow<'a, Arc<Target>> {
        let names = self.target.kind.and_then(|kind| targets.names(kind));
        let (Some(names), Some(name)) = (names, &self.subject) else { return Cow::Borrowed(&self.target) };
        let is_unknown = error.is_some_and(|error| error.leaves_name_unknown(self.direction));
        let added = if is_unknown { None } else { names.add(name) };
        added.map_or(Cow::Borrowed(names.other()), Cow::Owned)
    }
}

/// Returns the target of a name, or the name if it is not known.
fn look_up(names: &Names, name: &str) -> (Option<Arc<Target>>, Option<Box<str>>) {
    if let Some(target) = names.get(name) {
        return (Some(target), None);
    }
    // Names are added as they are cleaned.
    let cleaned = labels::clean(name, MAX_NAME);
    match names.get(&cleaned) {
        Some(target) => (Some(target), None),
        None => (None, Some(cleaned.into())),
    }
}
