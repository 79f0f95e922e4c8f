//! The request to run a tool as a task.

use alloc::vec::Vec;
use core::time::Duration;

use crate::json::write_int;

/// The request to run a tool as a task.
///
/// A server of 2025-11-25 that runs tools as tasks gets it as the parameter `task` (TASK-008). In 2026-07-28 the server
/// alone decides, so nothing is sent (TASK-103). Servers without tasks run the tool as usual (TASK-003, TASK-004).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TaskRequest {
    /// Time for which the server is asked to keep the task; the server may choose another (TASK-016).
    ///
    /// It is sent in whole milliseconds, from 1 to 10^12 (some 31 years).
    pub ttl: Option<Duration>,
    /// Whether the engine follows the task to its result. If not, the result of the call describes the task.
    pub follow: bool,
}

/// Longest time for which a server is asked to keep a task, in milliseconds. It is exact in every JSON number.
const MAX_TTL_MILLIS: i64 = 1_000_000_000_000;

impl TaskRequest {
    /// Creates the request for a task that the engine follows to its result.
    #[must_use]
    pub const fn followed() -> Self {
        Self { ttl: None, follow: true }
    }

    /// Creates the request for a task that is not followed: [`StartedTask`](crate::client::StartedTask) reads the result.
    #[must_use]
    pub const fn detached() -> Self {
        Self { ttl: None, follow: false }
    }

    /// Sets the time for which the server is asked to keep the task.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl TaskRequest {
    /// Appends the member `task` to parameters, which are an object (TASK-008).
    pub(crate) fn append_to(self, params: &mut Vec<u8>) {
        params.pop();
        params.extend_from_slice(if params.last() == Some(&b'{') { b"\"task\":{" } else { b",\"task\":{" });
        if let Some(ttl) = self.ttl {
            params.extend_from_slice(b"\"ttl\":");
            write_int(
                params,
                i64::try_from(ttl.as_millis()).unwrap_or(MAX_TTL_MILLIS).clamp(1, MAX_TTL_MILLIS),
            );
        }
        params.extend_from_slice(b"}}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-008
    #[test]
    fn request_is_a_member_of_the_parameters() {
        for (params, request, expected) in [
            ("{}", TaskRequest::followed(), r#"{"task":{}}"#),
            (r#"{"name":"a"}"#, TaskRequest::detached(), r#"{"name":"a","task":{}}"#),
            (
                r#"{"name":"a"}"#,
                TaskRequest::followed().ttl(Duration::from_secs(60)),
                r#"{"name":"a","task":{"ttl":60000}}"#,
            ),
            ("{}", TaskRequest::followed().ttl(Duration::from_micros(900)), r#"{"task":{"ttl":1}}"#),
            ("{}", TaskRequest::followed().ttl(Duration::MAX), r#"{"task":{"ttl":1000000000000}}"#),
        ] {
            let mut text = params.as_bytes().to_vec();
            request.append_to(&mut text);
            assert_eq!(core::str::from_utf8(&text), Ok(expected));
        }
    }
}
