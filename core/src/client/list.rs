//! The lists that a server has, and how their pages hang together.

use alloc::string::String;
use alloc::vec::Vec;

use crate::raw::RawJson;
use crate::vocab::{self, Capability};

/// A list of a server (PAGE-001)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum List {
    /// Its tools
    Tools,
    /// Its resources
    Resources,
    /// Its templates of resources
    ResourceTemplates,
    /// Its prompts
    Prompts,
}

impl List {
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Tools => vocab::TOOLS_LIST,
            Self::Resources => vocab::RESOURCES_LIST,
            Self::ResourceTemplates => vocab::TEMPLATES_LIST,
            Self::Prompts => vocab::PROMPTS_LIST,
        }
    }

    /// The capability that a server with this list declares
    #[must_use]
    pub const fn capability(self) -> Capability {
        match self {
            Self::Tools => Capability::Tools,
            Self::Resources | Self::ResourceTemplates => Capability::Resources,
            Self::Prompts => Capability::Prompts,
        }
    }

    /// The name under which a result carries the entries
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The entries of one page and the cursor of the next; an empty cursor is one too (PAGE-004, PAGE-007)
    #[must_use]
    pub fn page(self, result: &RawJson) -> Option<Page> {
        let entries = result.member(self.member())?.elements()?;
        Some(Page { entries, next: result.member("nextCursor").and_then(|c| c.string()) })
    }
}

/// One page of a list
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The entries, as they came
    pub entries: Vec<RawJson>,
    /// Where the next page begins; none on the last one
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: PAGE-003, PAGE-004, PAGE-007
    #[test]
    fn presence_of_a_cursor_decides_not_its_content() {
        let page = |text: &'static str| List::Tools.page(&RawJson::new(text).expect("JSON"));
        let Page { entries: tools, next } =
            page(r#"{"tools":[{"name":"a"}, 1],"nextCursor":""}"#).expect("a page");
        assert_eq!((tools.len(), tools[0].as_str(), next.as_deref()), (2, r#"{"name":"a"}"#, Some("")));
        assert_eq!(page(r#"{"tools":[]}"#).expect("a page").next, None);
        assert!(page(r#"{"prompts":[]}"#).is_none() && page(r#"{"tools":{}}"#).is_none());
    }
}
