//! What the server knows of its calls

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Diagnostic, RawJson, RpcError};
use serde::{Deserialize, Serialize};

use crate::memory;

/// Arguments of the tool `work`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) number: usize,
    pub(crate) micros: u64,
}

/// Arguments of the tool `tally`
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Empty {}

/// Result of the tool `tally`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Handlers that began
    pub(crate) begun: usize,
    /// Of them those that are not over
    pub(crate) running: usize,
    /// What is wrong
    pub(crate) odd: Vec<String>,
    /// Resident memory in KiB
    pub(crate) resident: i64,
}

/// Which calls were begun; one for all handlers
#[derive(Clone, Debug)]
pub(crate) struct Tally(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// By number
    unseen: Mutex<Vec<bool>>,
    begun: AtomicUsize,
    running: AtomicUsize,
    odd: Mutex<Vec<String>>,
}

/// A handler at work; over when it is dropped, however that comes
#[derive(Debug)]
pub(crate) struct Running(Arc<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    pub(crate) fn new(calls: usize) -> Self {
        let (unseen, odd) = (Mutex::new(vec![true; calls]), Mutex::new(Vec::new()));
        Self(Arc::new(Inner { unseen, begun: AtomicUsize::new(0), running: AtomicUsize::new(0), odd }))
    }

    /// A handler begins
    pub(crate) fn begin(&self, work: Work) -> Result<Running, RpcError> {
        let mut unseen = self.0.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = unseen.get_mut(work.number).ok_or_else(|| RpcError::invalid_params("no such number"))?;
        if !core::mem::take(slot) {
            self.odd(format!("call {} ran twice", work.number));
        }
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Ok(Running(Arc::clone(&self.0)))
    }

    /// A cancellation and the answer may cross; everything else is wrong
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        if !matches!(diagnostic, Diagnostic::UnknownCancel(_) | Diagnostic::CancelledEarly(_)) {
            self.odd(diagnostic.to_string());
        }
    }

    fn odd(&self, what: String) {
        let mut odd = self.0.odd.lock().unwrap_or_else(PoisonError::into_inner);
        if odd.len() < 10 {
            odd.push(what);
        }
    }

    pub(crate) fn report(&self) -> Result<CallToolResult<'static>, RpcError> {
        let odd = self.0.odd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let load = |n: &AtomicUsize| n.load(Ordering::Relaxed);
        let (begun, running) = (load(&self.0.begun), load(&self.0.running));
        structured(&Report { begun, running, odd, resident: memory::resident() })
    }
}

/// What the tool `work` answers with: the number that it was given
pub(crate) fn done(work: Work) -> Result<CallToolResult<'static>, RpcError> {
    structured(&work)
}

fn structured<T: Serialize>(value: &T) -> Result<CallToolResult<'static>, RpcError> {
    let value = RawJson::encode(value).map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(CallToolResult::structured(value))
}

pub(crate) fn tools() -> ListToolsResult {
    let schema = || RawJson::new(r#"{"type":"object"}"#).expect("a constant");
    ListToolsResult::new(vec![Tool::new("work", schema()), Tool::new("tally", schema())])
}

pub(crate) fn config() -> Config {
    Config::new("soak", "1.0").capabilities(Capabilities::new().with(Capability::Tools))
}
