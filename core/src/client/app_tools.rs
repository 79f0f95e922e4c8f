//! The tools that apps of a server may call (APP-008).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};

use crate::error::UseError;
use crate::model::{Tool, UiToolVisibility};
use crate::raw::RawJson;

/// Visibility of the tools of a server, for the calls of its apps (extension `io.modelcontextprotocol/ui`).
///
/// Independent of the engine: create one per connection from the complete list of tools, and ask it before each call that
/// the page of an app requests. Pages call tools of their own server only, so one connection's table is never used for
/// another one.
///
/// It keeps the names of all listed tools, and nothing else of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppTools(BTreeMap<Box<str>, Access>);

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
    ///
    /// Of several tools with one name, each has to permit calls.
    #[must_use]
    pub fn new(tools: &[RawJson]) -> Self {
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
            let known = table.entry(name.into()).or_insert_with(|| access.clone());
            if access != Access::Granted {
                *known = access;
            }
        }
        Self(table)
    }

    /// Returns whether the list has a tool with this name.
    #[must_use]
    pub fn contains(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }

    /// Checks whether an app may call a tool.
    ///
    /// # Errors
    ///
    /// [`UseError::NotForApps`] if the tool is not visible to apps, its visibility cannot be read, or the list has no such
    /// tool.
    pub fn check(&self, tool: &str) -> Result<(), UseError> {
        let reason: String = match self.0.get(tool) {
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
}
