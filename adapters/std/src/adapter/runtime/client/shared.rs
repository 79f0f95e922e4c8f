//! State of a connection that its handles and the futures that wait for it share.

use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

use super::driver::ConnectionDriver;
use super::leader::LeaderQueue;
use crate::adapter::client::ConnectionHandle;
use crate::adapter::runtime::Runtime;

/// State shared by handles and [`Run`](super::Run).
pub(super) struct ClientShared<R: Runtime> {
    pub(super) caller: ConnectionHandle,
    pub(super) leader_queue: Arc<LeaderQueue>,
    /// Locked by the leader.
    pub(super) driver: Mutex<ConnectionDriver<R>>,
}

impl<R: Runtime> ClientShared<R> {
    /// Returns whether the connection was closed by this side.
    pub(super) fn is_closed(&self) -> bool {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.state_mut().is_none_or(|inner| inner.is_closing)
    }
}
