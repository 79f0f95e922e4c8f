//! Profiles: selections of rules, and the mildest severity that fails a check.

use serde::{Serialize, Serializer};

use super::rules::Severity;

/// A selection of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Profile {
    /// The specification and good practice.
    Spec,
    /// The same rules; every finding fails, also a note.
    Strict,
    /// What a server on the public internet needs, for a URL: one request has 16 MiB; rates are not tested.
    Hosted,
    /// The OWASP MCP Top 10, a beta: each finding with its category.
    ///
    /// Tools are not called, so this finds what a server shows, and names the categories that it does not show.
    Owasp,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Spec, Self::Strict, Self::Hosted, Self::Owasp];

    /// Returns the name: `spec`, `strict`, `hosted` or `owasp`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Strict => "strict",
            Self::Hosted => "hosted",
            Self::Owasp => "owasp",
        }
    }

    /// Returns the profile whose name the rules have.
    pub(super) const fn selection(self) -> Self {
        match self {
            Self::Strict => Self::Spec,
            other => other,
        }
    }

    /// Returns the mildest severity that fails the check; `is_strict` lets warnings fail in every profile.
    #[must_use]
    pub const fn mildest_failure(self, is_strict: bool) -> Severity {
        match (self, is_strict) {
            (Self::Strict, _) => Severity::Note,
            (_, true) => Severity::Warning,
            (_, false) => Severity::Error,
        }
    }
}

macro_rules! categories {
    ($($name:ident $id:literal $title:literal)*) => {
        /// A category of the OWASP MCP Top 10 of 2025, which is a beta.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Category {
            $(#[doc = concat!($title, ".")] $name),*
        }

        impl Category {
            /// All categories.
            pub const ALL: [Self; 10] = [$(Self::$name),*];

            /// Returns the id, for example `MCP01`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id),*
                }
            }

            /// Returns the title.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title),*
                }
            }
        }
    };
}

categories! {
    Mcp01 "MCP01" "Token Mismanagement & Secret Exposure"
    Mcp02 "MCP02" "Privilege Escalation via Scope Creep"
    Mcp03 "MCP03" "Tool Poisoning"
    Mcp04 "MCP04" "Software Supply Chain Attacks & Dependency Tampering"
    Mcp05 "MCP05" "Command Injection & Execution"
    Mcp06 "MCP06" "Intent Flow Subversion"
    Mcp07 "MCP07" "Insufficient Authentication & Authorization"
    Mcp08 "MCP08" "Lack of Audit and Telemetry"
    Mcp09 "MCP09" "Shadow MCP Servers"
    Mcp10 "MCP10" "Context Injection & Over-Sharing"
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
