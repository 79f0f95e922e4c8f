//! Requests of the server about hosted tasks: `tasks/get`, `tasks/result`, `tasks/cancel`, `tasks/list`.

use alloc::vec::Vec;

use super::RequestSource;
use super::hosted::{HostedTasks, Outcome, withdraw};
use crate::calls::inbound::InboundCall;
use crate::client::common::CommonState;
use crate::json::{object_members, string, write_str};
use crate::methods;
use crate::rpc::{RpcError, encode};
use crate::slab::Key;
use crate::slab::tree::TreeLinks;
use crate::tasks::params::task_id;
use crate::time::Instant;
use crate::version::Version;

/// Number of tasks in a page of `tasks/list`, and of bytes after which a page ends.
const PAGE_SIZE: usize = 50;
const PAGE_BYTES: usize = 32 << 10;

impl HostedTasks {
    /// Answers a request about tasks, now or later.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn handle(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &str,
        params: &[u8],
    ) -> Result<(), RpcError> {
        if method == methods::TASKS_LIST {
            return self.list(common, source, params);
        }
        let serial = self.find(common.endpoint.now, &task_id(params)?)?;
        let Some(task) = self.tasks.get(&serial) else { return Ok(()) };
        let has_ended = task.outcome.is_some();
        match method {
            methods::TASKS_RESULT => return self.collect(common, source, serial, has_ended),
            methods::TASKS_CANCEL if has_ended => {
                return Err(RpcError::invalid_params("the task has already ended")); // TASK-028
            }
            methods::TASKS_CANCEL => {
                withdraw(common, serial);
                self.end(common, serial, Outcome::Cancelled);
            }
            _ => {}
        }
        let Some(task) = self.tasks.get(&serial) else { return Ok(()) };
        common.endpoint.send_or_batch(source.channel, source.batch, source.id, 0, |out| {
            encode::result_head(out, source.id);
            out.push(b'{');
            self.write_state(out, task);
            out.push(b'}');
            encode::end(out);
        });
        Ok(())
    }

    /// Handles `tasks/result`: at once if the task has ended, else later (TASK-019, TASK-020).
    ///
    /// # Errors
    ///
    /// The error response to send: too many requests wait.
    fn collect(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        serial: u64,
        has_ended: bool,
    ) -> Result<(), RpcError> {
        if !has_ended && self.waiting >= self.limits.max_waiting {
            return Err(RpcError::internal("too many requests wait for tasks"));
        }
        let request =
            begin_request(common, source).ok_or_else(|| RpcError::internal("the connection has ended"))?;
        if has_ended {
            self.send_outcome(common, request, serial);
        } else if let Some(task) = self.tasks.get_mut(&serial) {
            task.waiting.push(request);
            self.waiting += 1;
        }
        Ok(())
    }

    /// Handles `tasks/list` (TASK-026, TASK-027).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn list(
        &self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        params: &[u8],
    ) -> Result<(), RpcError> {
        let mut cursor = None;
        object_members(params, |name, value| {
            if name == b"cursor" && value != b"null" {
                cursor = Some(string(value).and_then(|text| text.parse::<u64>().ok()));
            }
        });
        let after = match cursor {
            None => 0,
            Some(serial) => serial.ok_or_else(|| RpcError::invalid_params("`params.cursor` is not valid"))?,
        };
        let (mut page, mut last, now) = (Vec::new(), None, common.endpoint.now);
        let listed = self.tasks.range(after.saturating_add(1)..);
        let mut tasks = listed.filter(|(_, task)| task.expires_at > now);
        for (count, (serial, task)) in tasks.by_ref().enumerate() {
            page.extend_from_slice(if page.is_empty() { b"{" } else { b",{" });
            self.write_state(&mut page, task);
            page.push(b'}');
            last = Some(*serial);
            if count + 1 >= PAGE_SIZE || page.len() >= PAGE_BYTES {
                break;
            }
        }
        let next = last.filter(|_| tasks.next().is_some());
        common.endpoint.send_or_batch(source.channel, source.batch, source.id, page.len(), |out| {
            encode::result_head(out, source.id);
            out.extend_from_slice(b"{\"tasks\":[");
            out.extend_from_slice(&page);
            out.push(b']');
            if let Some(serial) = next {
                out.extend_from_slice(b",\"nextCursor\":");
                write_str(out, &alloc::format!("{serial}"));
            }
            out.push(b'}');
            encode::end(out);
        });
        Ok(())
    }
}

/// Adds a request to the table of calls. It ends with its task at the latest.
fn begin_request(common: &mut CommonState, source: RequestSource<'_>) -> Option<Key> {
    common.endpoint.begin_call(InboundCall {
        id: source.id.clone(),
        channel: source.channel,
        version: Version::V2025_11_25,
        cacheable: false,
        progress_token: None,
        throttle: None,
        expires_at: Instant::FAR_FUTURE,
        batch: source.batch,
        log_threshold: 0,
        is_owed: false,
        links: TreeLinks::default(),
    })
}
