//! Shaping of values for a revision: the table of types and members, and the substitutes for missing types (DESIGN-35).
//!
//! The table is pure data. It knows types by name and depends on none of them. `model/revisions.md` is the same table
//! in words for users; a test compares the two.

mod rules;
mod substitute;

use alloc::borrow::Cow;

use crate::built::Legacy;
use crate::json::ShapeTable;
use crate::rpc::{RpcError, code};
use crate::version::Version;

static TABLES: [ShapeTable; 5] = {
    const fn table(version: Version) -> ShapeTable {
        ShapeTable::new(version.as_str(), 1 << version as u8, rules::RULES)
    }
    [
        table(Version::V2024_11_05),
        table(Version::V2025_03_26),
        table(Version::V2025_06_18),
        table(Version::V2025_11_25),
        table(Version::V2026_07_28),
    ]
};

/// Returns the shaping rules of a revision; the newest one has rules too, because it dropped some members.
pub(crate) fn table(version: Version) -> Option<&'static ShapeTable> {
    if !Legacy::IS_BUILT {
        return TABLES.last();
    }
    TABLES.get(version as usize)
}

/// Returns an error with the code that the revision has for it.
pub(crate) fn error_in_revision(error: &RpcError, version: Version) -> Cow<'_, RpcError> {
    let code = code_in_revision(error.code, version);
    if code == error.code { Cow::Borrowed(error) } else { Cow::Owned(RpcError { code, ..error.clone() }) }
}

/// Maps an error code to the code of a revision (ERR-003, ERR-005, ERR-009).
fn code_in_revision(code: i64, version: Version) -> i64 {
    let modern = version.is_modern();
    match code {
        code::RESOURCE_NOT_FOUND if modern => code::INVALID_PARAMS, // RES-016
        // Legacy servers answer with this code (ERR-017).
        code::UNSUPPORTED_PROTOCOL_VERSION if !modern => code::INVALID_PARAMS,
        // Legacy revisions have no such code; the request is not allowed in this form.
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY if !modern => code::INVALID_REQUEST,
        code::URL_ELICITATION_REQUIRED if version != Version::V2025_11_25 => code::INVALID_REQUEST,
        code => code,
    }
}

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod tests;
