//! The tools that apps of a server may call (APP-008).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};

use crate::change::Change;
use crate::error::UseError;
use crate::model::{Tool, UiToolVisibility};
use crate::raw::RawJson;

/// Visibility of the tools of a server, for the calls of its apps (extension `io.modelcontextprotocol/ui`).
///
/// Independent of the engine: create one per connection from the complete list of tools, and ask it before each call that
/// the page of an app requests. Pages call tools of their own server only, so one connection's table is never used for
/// another one.
///
/// A list takes a while, over all of its pages, and may change meanwhile. Ask for the
/// [`generation`](Self::generation) before the first page, and pass it with the list to
/// [`set_listed`](Self::set_listed): a list that began before a change does not apply. Before the first list, and after a
/// change, no tool may be called.
///
/// It keeps the names of all listed tools, and nothing else of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppTools {
    tools: BTreeMap<Box<str>, Access>,
    generation: u64,
}

/// Answer to a call of an app for a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    Granted,
    NotVisible,
    /// `_meta.ui.visibility` cannot be read, for this reason.
    Invalid(Box<str>),
}

impl AppTools {
    /// Creates the table of the complete list of tools.
    #[must_use]
    pub fn new(tools: &[RawJson]) -> Self {
        let mut table = Self::default();
        table.set_tools(tools);
        table
    }

    /// Returns the number of changes of the list so far.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the table by what a complete list of tools says, unless the list has changed since `generation`. Returns
    /// whether it applies.
    pub fn set_listed(&mut self, generation: u64, tools: &[RawJson]) -> bool {
        let is_current = generation == self.generation;
        if is_current {
            self.set_tools(tools);
        }
        is_current
    }

    /// Clears the table if the list of tools has changed.
    pub fn handle_change(&mut self, change: &Change) {
        if *change == Change::Tools {
            self.tools.clear();
            self.generation += 1;
        }
    }

    /// Replaces the table by what the complete list of tools says.
    ///
    /// Of several tools with one name, each has to permit calls.
    pub fn set_tools(&mut self, tools: &[RawJson]) {
        let mut table = BTreeMap::new();
        for tool in tools {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let mut this = Tool::new("", RawJson::trusted(bytes::Bytes::new()));
            this.meta = tool.member("_meta");
            let access = match this.is_visible_to(&UiToolVisibility::App) {
                Ok(true) => Access::Granted,
                Ok(false) => Access::NotVisible,
                Err(error) => Access::Invalid(error.to_string().into()),
            };
            // Of two tools with one name the stricter one counts: it is unknown which of them the server runs.
            let known = table.entry(name.into()).or_insert_with(|| access.clone());
            if access != Access::Granted {
                *known = access;
            }
        }
        self.tools = table;
    }

    /// Returns whether the list has a tool with this name.
    #[must_use]
    pub fn contains(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Checks whether an app may call a tool.
    ///
    /// # Errors
    ///
    /// [`UseError::NotForApps`] if the tool is not visible to apps, its visibility cannot be read, or the list has no such
    /// tool.
    pub fn check(&self, tool: &str) -> Result<(), UseError> {
        let reason: String = match self.tools.get(tool) {
            Some(Access::Granted) => return Ok(()),
            Some(Access::NotVisible) => "its `_meta.ui.visibility` does not contain `app`".into(),
            Some(Access::Invalid(reason)) => (&**reason).into(),
            None => "the server does not list it".into(),
        };
        Err(UseError::NotForApps { tool: tool.into(), reason })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    // covers: APP-007, APP-008
    #[test]
    fn calls_of_apps_need_visibility() {
        let tools = [
            r#"{"name":"open"}"#,
            r#"{"name":"both","_meta":{"ui":{"visibility":["model","app"]}}}"#,
            r#"{"name":"refresh","_meta":{"ui":{"visibility":["app"]}}}"#,
            r#"{"name":"model","_meta":{"ui":{"visibility":["model"]}}}"#,
            r#"{"name":"broken","_meta":{"ui":{"visibility":"app"}}}"#,
            r#"{"name":"twice"}"#,
            r#"{"name":"twice","_meta":{"ui":{"visibility":[]}}}"#,
            r#"{"name":"twice"}"#,
            r#"{"title":"nameless"}"#,
        ];
        let table = AppTools::new(&tools.map(|tool| RawJson::new(tool).expect("JSON")));
        for tool in ["open", "both", "refresh"] {
            assert_eq!(table.check(tool), Ok(()), "{tool}");
        }
        let refused = |tool| table.check(tool).expect_err(tool).to_string();
        let hidden = "its `_meta.ui.visibility` does not contain `app`";
        assert_eq!(refused("model"), alloc::format!("the tool `model` cannot be called by an app: {hidden}"));
        assert_eq!(refused("twice"), alloc::format!("the tool `twice` cannot be called by an app: {hidden}"));
        assert!(refused("broken").contains("`_meta.ui.visibility`: invalid type: string"));
        assert!(refused("other").ends_with("the server does not list it"));
        assert!(table.contains("broken") && !table.contains("other"));
    }

    // covers: APP-008
    #[test]
    fn list_that_began_before_a_change_permits_nothing() {
        let tools = [RawJson::new(r#"{"name":"open"}"#).expect("JSON")];
        let mut table = AppTools::default();
        assert!(table.check("open").is_err(), "the list is unknown");
        let before = table.generation();
        table.handle_change(&Change::Prompts);
        assert!(table.set_listed(before, &tools) && table.check("open").is_ok());
        table.handle_change(&Change::Tools);
        assert!(!table.contains("open") && table.check("open").is_err());
        assert!(!table.set_listed(before, &tools), "an old list");
        assert!(table.check("open").is_err());
        assert!(table.set_listed(table.generation(), &tools) && table.check("open").is_ok());
    }
}
