//! How times are written.

use core::time::Duration;

/// Writes a time in seconds, as options of `mcp-probe` take it: `0.5s`, not `500ms`.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
