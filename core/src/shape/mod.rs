//! What each revision has of the protocol's types: the one table by which values are shaped, and what stands in for
//! what a revision lacks. Pure data: types are known by name, so this depends on none of them.
//!
//! The same table in words, for users, is `model/revisions.md`; a test keeps it the same.

mod rules;
mod substitute;

use alloc::borrow::Cow;

use crate::json::Table;
use crate::rpc::{RpcError, code};
use crate::version::Version;

static TABLES: [Table; 5] = {
    const fn table(version: Version) -> Table {
        Table::new(version.as_str(), 1 << version as u8, rules::RULES)
    }
    [
        table(Version::V2024_11_05),
        table(Version::V2025_03_26),
        table(Version::V2025_06_18),
        table(Version::V2025_11_25),
        table(Version::V2026_07_28),
    ]
};

/// How values are written for a revision; the newest has a table too, since it gave up a few members
pub(crate) fn table(version: Version) -> Option<&'static Table> {
    TABLES.get(version as usize)
}

/// An error under the code that a revision has for it
pub(crate) fn error(error: &RpcError, version: Version) -> Cow<'_, RpcError> {
    let code = error_code(error.code, version);
    if code == error.code { Cow::Borrowed(error) } else { Cow::Owned(RpcError { code, ..error.clone() }) }
}

/// The code that `code` has in a revision (ERR-003, ERR-005, ERR-009)
fn error_code(code: i64, version: Version) -> i64 {
    let modern = version >= Version::V2026_07_28;
    match code {
        code::RESOURCE_NOT_FOUND if modern => code::INVALID_PARAMS, // RES-016
        // As older servers say it (ERR-017).
        code::UNSUPPORTED_PROTOCOL_VERSION if !modern => code::INVALID_PARAMS,
        // No such code: the request is not allowed as it is.
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY if !modern => code::INVALID_REQUEST,
        code::URL_ELICITATION_REQUIRED if version != Version::V2025_11_25 => code::INVALID_REQUEST,
        code => code,
    }
}

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written_tests;
