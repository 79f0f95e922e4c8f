//! Profiles: selections of rules, and the mildest severity that fails a check.

use serde::{Serialize, Serializer};

pub(super) use super::args::Profile;
use super::rules::Severity;

impl Profile {
    /// Returns the profile whose name the rules have.
    pub(super) const fn selection(self) -> Self {
        match self {
            Self::Strict => Self::Spec,
            other => other,
        }
    }

    /// Returns the mildest severity that fails the check. `is_strict` stands for the option `--strict`.
    pub(super) const fn mildest_failure(self, is_strict: bool) -> Severity {
        match (self, is_strict) {
            (Self::Strict, _) => Severity::Note,
            (_, true) => Severity::Warning,
            (_, false) => Severity::Error,
        }
    }
}

/// A category of the OWASP MCP Top 10 of 2025, which is a beta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Category {
    Mcp01,
    Mcp02,
    Mcp03,
    Mcp04,
    Mcp05,
    Mcp06,
    Mcp07,
    Mcp08,
    Mcp09,
    Mcp10,
}

impl Category {
    pub(super) const ALL: [Self; 10] = [
        Self::Mcp01,
        Self::Mcp02,
        Self::Mcp03,
        Self::Mcp04,
        Self::Mcp05,
        Self::Mcp06,
        Self::Mcp07,
        Self::Mcp08,
        Self::Mcp09,
        Self::Mcp10,
    ];

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Mcp01 => "MCP01",
            Self::Mcp02 => "MCP02",
            Self::Mcp03 => "MCP03",
            Self::Mcp04 => "MCP04",
            Self::Mcp05 => "MCP05",
            Self::Mcp06 => "MCP06",
            Self::Mcp07 => "MCP07",
            Self::Mcp08 => "MCP08",
            Self::Mcp09 => "MCP09",
            Self::Mcp10 => "MCP10",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Mcp01 => "Token Mismanagement & Secret Exposure",
            Self::Mcp02 => "Privilege Escalation via Scope Creep",
            Self::Mcp03 => "Tool Poisoning",
            Self::Mcp04 => "Software Supply Chain Attacks & Dependency Tampering",
            Self::Mcp05 => "Command Injection & Execution",
            Self::Mcp06 => "Intent Flow Subversion",
            Self::Mcp07 => "Insufficient Authentication & Authorization",
            Self::Mcp08 => "Lack of Audit and Telemetry",
            Self::Mcp09 => "Shadow MCP Servers",
            Self::Mcp10 => "Context Injection & Over-Sharing",
        }
    }
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
