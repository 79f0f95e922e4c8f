//! Outcomes of registrations, also of whole routers: the changed lists, the errors, and the rules for names.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::hooks::Hook;
use super::registry::{Router, invalid_name, refuse_duplicate};
use super::template::{TemplateError, UriError};
use crate::methods::EntryKind;
use crate::validate::SchemaError;

/// Set of the lists of a router that have changed, for change notifications (TOOL-019, RES-012, PROMPT-009).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ChangedLists(u8);

impl ChangedLists {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set that contains only the list of `kind`.
    #[must_use]
    pub const fn from_kind(kind: EntryKind) -> Self {
        Self(1 << kind as u8)
    }

    /// Returns whether the list of `kind` has changed.
    #[must_use]
    pub const fn contains(self, kind: EntryKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns whether no list has changed.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOr for ChangedLists {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for ChangedLists {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for ChangedLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(EntryKind::ALL.into_iter().filter(|kind| self.contains(*kind))).finish()
    }
}

/// Reason why a registration was refused; the router is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is not valid (TOOL-028).
    #[error("the {kind} `{name}` cannot be registered: {reason}")]
    Name {
        /// Kind of the entry.
        kind: EntryKind,
        /// The refused name.
        name: String,
        /// Rule that the name breaks.
        reason: &'static str,
    },
    /// An entry with this name, URI or template is registered already (TOOL-028).
    #[error("the {kind} `{name}` is registered already")]
    Duplicate {
        /// Kind of the entry.
        kind: EntryKind,
        /// Name, URI or template of the entry.
        name: String,
    },
    /// No entry with this name, URI or template is registered.
    #[error("the {kind} `{name}` is not registered")]
    Unknown {
        /// Kind of the entry.
        kind: EntryKind,
        /// The requested name, URI or template.
        name: String,
    },
    /// The URI of a resource is not valid (RES-019, RES-026).
    #[error("the resource `{uri}` cannot be registered: {reason}")]
    Uri {
        /// The refused URI.
        uri: String,
        /// Rule that the URI breaks.
        reason: UriError,
    },
    /// The URI template is not valid (RES-009).
    #[error("the resource template `{template}` cannot be registered: {reason}")]
    Template {
        /// The refused template.
        template: String,
        /// Rule that the template breaks.
        reason: TemplateError,
    },
    /// A schema of a tool cannot be used (TOOL-007, SCHEMA-004, SCHEMA-005).
    #[error("the tool `{tool}` cannot be registered: its {which} {reason}")]
    Schema {
        /// Name of the tool.
        tool: String,
        /// Member that holds the schema: `inputSchema` or `outputSchema`.
        which: &'static str,
        /// Reason why the schema cannot be used.
        reason: SchemaError,
    },
    /// A skill, or its entry, is not valid (SKILL-002).
    #[error("the skill `{uri}` cannot be registered: {reason}")]
    Skill {
        /// URI of the `SKILL.md`.
        uri: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder cannot be registered.
    #[error("the skills in `{path}` cannot be registered: {reason}")]
    Folder {
        /// Path of the folder, or of what in it is refused.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What a tool or a resource says about an app is not valid (APP-001, APP-002, APP-004).
    #[error("the {kind} `{name}` is not a valid part of an app: {reason}")]
    App {
        /// Kind of the entry.
        kind: EntryKind,
        /// Name, URI or template of the entry.
        name: String,
        /// Reason why it is not valid.
        reason: String,
    },
    /// A tool requires tasks, and the server has none.
    #[error("the tool `{tool}` requires tasks, and the router has none: call `tasks` on it")]
    NoTasks {
        /// Name of the tool.
        tool: String,
    },
    /// A prompt declares an argument twice, or a completion names an argument or variable that does not exist.
    #[error("the prompt or template `{owner}` has {} argument `{argument}`", if *.is_duplicate { "more than one" } else { "no" })]
    Argument {
        /// Name of the prompt, or the template.
        owner: String,
        /// Name of the argument or variable.
        argument: String,
        /// Whether the argument is declared twice; otherwise it does not exist.
        is_duplicate: bool,
    },
}

/// All registrations that a router refused, in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RegisterErrors(Vec<RegisterError>);

impl RegisterErrors {
    /// Adds a refused registration.
    pub fn push(&mut self, error: RegisterError) {
        self.0.push(error);
    }

    /// Adds the refused registrations of another router.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns whether no registration was refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the refused registrations.
    pub fn iter(&self) -> core::slice::Iter<'_, RegisterError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a RegisterErrors {
    type Item = &'a RegisterError;
    type IntoIter = core::slice::Iter<'a, RegisterError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One error per line.
impl fmt::Display for RegisterErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl core::error::Error for RegisterErrors {}

/// Checks the name of a tool: 1 to 128 ASCII letters, digits, `_`, `-` and `.` (TOOL-028).
///
/// Models, headers and other programs have to spell these names, so the character set is small.
///
/// # Errors
///
/// The rule that `name` breaks, as a text for the error message.
pub fn check_tool_name(name: &str) -> Result<(), &'static str> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    match name.len() {
        0 => Err("a name must not be empty"),
        129.. => Err("a name may have at most 128 characters"),
        _ if !name.bytes().all(is_allowed) => {
            Err("a name may contain only letters, digits, `_`, `-` and `.`")
        }
        _ => Ok(()),
    }
}

/// Checks the name of a prompt or of an argument: 1 to 128 characters, none of them a control character.
///
/// # Errors
///
/// The rule that `name` breaks, as a text for the error message.
pub(super) fn check_prompt_name(name: &str) -> Result<(), &'static str> {
    match name.chars().count() {
        0 => Err("a name must not be empty"),
        129.. => Err("a name may have at most 128 characters"),
        _ if name.chars().any(char::is_control) => Err("a name must not contain control characters"),
        _ => Ok(()),
    }
}

// Nesting of one router in another.

impl<H, M: Hook> Router<H, M> {
    /// Moves all entries of another router behind the entries of this one.
    ///
    /// Tools and prompts get a prefix: `add` becomes `math.add` (TOOL-029). Resources, templates and skills keep their URIs,
    /// which are globally unique already, and which handlers write and users store.
    ///
    /// The hooks of `inner` keep observing its calls, and its visibility functions keep deciding about its entries. Its validator keeps checking its tools; without one, the
    /// validator of this router checks them. The capabilities and extensions that `inner` declared are declared here; of
    /// two equal extensions, the settings of this router hold. The identity of `inner`, its instructions, page sizes and
    /// cache hints for lists are dropped.
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Name`]: a name with its prefix is not valid.
    /// - [`RegisterError::Duplicate`]: a name, URI or template is registered here already.
    /// - [`RegisterError::Schema`]: the validator of this router cannot use a schema of `inner`.
    ///
    /// This router is unchanged then.
    pub fn nest(&mut self, prefix: &str, mut inner: Self) -> Result<ChangedLists, RegisterError> {
        // All checks come first, because a router that cannot be nested changes nothing.
        self.check_nested_names(prefix, &inner)?;
        self.prepare(&mut inner)?;
        let prefixed = |name: &str| format!("{prefix}.{name}");
        let bases = (self.scopes.nest(inner.scopes), self.visibility.nest(prefix, inner.visibility));
        // Only now, because nothing fails any more.
        self.declared.adopt_extensions(&inner.declared);
        // Extensions were adopted above: one that is declared here already keeps its settings.
        for capability in inner.declared.iter().filter(|capability| !capability.is_extension()) {
            self.declare(capability);
        }
        let tools = self.tools.adopt(inner.tools, bases, |name, tool, _, _| {
            tool.name = prefixed(&name);
            tool.name.as_str().into()
        });
        let resources = self.resources.adopt(inner.resources, bases, |uri, _, _, _| uri);
        let prefixes = &mut self.prefixes;
        let templates = self.templates.adopt(inner.templates, bases, |name, _, family, number| {
            prefixes.insert(family.template.literal_prefix(), number);
            name
        });
        let prompts = self.prompts.adopt(inner.prompts, bases, |name, prompt, _, _| {
            prompt.name = prefixed(&name);
            prompt.name.as_str().into()
        });
        let has_skills = inner.skills.is_some();
        if let Some(skills) = inner.skills {
            self.adopt_skills(*skills, bases.1);
        }
        let adopted = [tools, resources, templates, prompts, has_skills];
        let changed = EntryKind::ALL.into_iter().zip(adopted).filter(|(_, has)| *has);
        Ok(changed.fold(ChangedLists::NONE, |all, (kind, _)| all | ChangedLists::from_kind(kind)))
    }

    /// Checks the names of all entries of another router, as they would be here.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Name`] or [`RegisterError::Duplicate`].
    fn check_nested_names(&self, prefix: &str, inner: &Self) -> Result<(), RegisterError> {
        let prefixed = |kind, name: &str, check: fn(&str) -> Result<(), &'static str>| {
            let name = format!("{prefix}.{name}");
            check(&name).map_err(|reason| invalid_name(kind, &name, reason)).map(|()| name)
        };
        for name in inner.tools.names() {
            let name = prefixed(EntryKind::Tool, name, check_tool_name)?;
            refuse_duplicate(EntryKind::Tool, &name, self.tools.contains(&name))?;
        }
        for name in inner.prompts.names() {
            let name = prefixed(EntryKind::Prompt, name, check_prompt_name)?;
            refuse_duplicate(EntryKind::Prompt, &name, self.prompts.contains(&name))?;
        }
        for uri in inner.resources.names() {
            refuse_duplicate(EntryKind::Resource, uri, self.resources.contains(uri))?;
        }
        for uri in inner.skills.iter().flat_map(|skills| skills.uris()) {
            let taken = self.skills.as_ref().is_some_and(|skills| skills.contains(uri));
            refuse_duplicate(EntryKind::Skill, uri, taken)?;
        }
        for template in inner.templates.names() {
            refuse_duplicate(EntryKind::ResourceTemplate, template, self.templates.contains(template))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    // covers: TOOL-028
    #[test]
    fn tool_name_outside_specified_set_is_refused() {
        for name in ["a", "add_2", "a.b-c", "A", &"x".repeat(128)] {
            assert_eq!(check_tool_name(name), Ok(()), "{name}");
        }
        for name in ["", "a b", "a,b", "ä", "a/b", "a\0", &"x".repeat(129)] {
            assert!(check_tool_name(name).is_err(), "{name}");
        }
        assert!(check_prompt_name("Übersicht der Woche").is_ok());
        assert!(check_prompt_name("").is_err() && check_prompt_name("a\nb").is_err());
    }

    #[test]
    fn register_errors_are_listed_one_per_line() {
        let error = |name: &str| RegisterError::Duplicate { kind: EntryKind::Tool, name: name.into() };
        let (mut errors, mut more) = (RegisterErrors::default(), RegisterErrors::default());
        assert!(errors.is_empty());
        errors.push(error("a"));
        more.push(error("b"));
        errors.append(more);
        assert_eq!(errors.iter().collect::<Vec<_>>(), [&error("a"), &error("b")]);
        assert_eq!(
            format!("{errors}"),
            "the tool `a` is registered already\nthe tool `b` is registered already"
        );
    }

    #[test]
    fn changed_lists_combine() {
        let mut changed = ChangedLists::NONE;
        assert!(changed.is_empty());
        changed |= ChangedLists::from_kind(EntryKind::Tool) | ChangedLists::from_kind(EntryKind::Prompt);
        assert!(changed.contains(EntryKind::Prompt) && !changed.contains(EntryKind::Resource));
        assert_eq!(format!("{changed:?}"), "{Tool, Prompt}");
    }
}
