//! The document at [`HEALTH_PATH`], which tells monitors of the servers behind a gateway.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_std::sync::lock;

use mcp_proto::RawJson;
use mcp_proto::http::server::PublicDocument;
use serde::Serialize;

use super::rules::SharedRules;

/// State of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServerState {
    /// It was connected, and has not been seen to end.
    Ready,
    /// It is being started, or will be when a client needs it.
    Idle,
    /// It died, or could not be started, and has not been started again since.
    Failed,
}

/// The servers behind a gateway, shared by its loop and the document.
#[derive(Clone, Debug)]
pub(super) struct Health {
    /// By the index of their upstream.
    servers: Arc<Mutex<BTreeMap<usize, ServerHealth>>>,
    rules: SharedRules,
}

#[derive(Debug, Serialize)]
struct ServerHealth {
    name: String,
    state: ServerState,
}

#[derive(Serialize)]
struct HealthDocument<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<Vec<&'a ServerHealth>>,
}

impl Health {
    pub(super) fn new(rules: SharedRules) -> Self {
        Self { servers: Arc::default(), rules }
    }

    /// Returns the document, which is read without a token. It tells of the servers of which the rules hide not all. Without
    /// `shows_servers` it names none, and its status is that of all.
    pub(super) fn document(&self, shows_servers: bool) -> PublicDocument {
        let health = self.clone();
        PublicDocument::live(HEALTH_PATH, "application/json", move || health.to_json(shows_servers))
    }

    pub(super) fn add(&self, index: usize, name: &str) {
        lock(&self.servers).insert(index, ServerHealth { name: name.to_owned(), state: ServerState::Idle });
    }

    pub(super) fn set(&self, index: usize, state: ServerState) {
        if let Some(server) = lock(&self.servers).get_mut(&index) {
            server.state = state;
        }
    }

    pub(super) fn remove(&self, index: usize) {
        lock(&self.servers).remove(&index);
    }

    fn to_json(&self, shows_servers: bool) -> RawJson {
        let servers = lock(&self.servers);
        let is_told_of = |server: &&ServerHealth| !shows_servers || self.rules.shows_server(&server.name);
        let servers: Vec<_> = servers.values().filter(is_told_of).collect();
        let status = match servers.iter().filter(|server| server.state == ServerState::Failed).count() {
            0 => "ok",
            failed if failed < servers.len() => "degraded",
            _ => "down",
        };
        let document = HealthDocument { status, servers: shows_servers.then_some(servers) };
        RawJson::encode(&document).unwrap_or_else(|_| RawJson::empty_object())
    }
}

/// Path of [`Gateway::health`](super::Gateway::health).
pub const HEALTH_PATH: &str = "/health";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_of_failed_servers() {
        let health = Health::new(SharedRules::default());
        let text = |shows| health.to_json(shows).as_str().to_owned();
        assert_eq!(text(true), r#"{"status":"ok","servers":[]}"#);
        for (index, name) in ["files", "search"].into_iter().enumerate() {
            health.add(index, name);
        }
        health.set(0, ServerState::Ready);
        let [files, search] = [r#"{"name":"files","state":"ready"}"#, r#"{"name":"search","state":"idle"}"#];
        assert_eq!(text(true), format!(r#"{{"status":"ok","servers":[{files},{search}]}}"#));
        health.set(1, ServerState::Failed);
        assert_eq!(text(false), r#"{"status":"degraded"}"#);
        health.remove(0);
        assert_eq!(text(true), r#"{"status":"down","servers":[{"name":"search","state":"failed"}]}"#);
        // One that is removed has no state any more.
        health.set(0, ServerState::Failed);
        health.set(1, ServerState::Ready);
        assert_eq!(text(false), r#"{"status":"ok"}"#);
    }
}
