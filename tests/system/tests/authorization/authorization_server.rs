//! The authorization server of the tests, a process of `oidc-provider`, and requests to its endpoints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use mcp_proto::http::client::Url;
use mcp_system_tests::browser::http::{Request, Response};
use mcp_system_tests::browser::{Browser, encode};
use serde_json::Value;

use crate::hosted_server::HostedServer;
use crate::node::locked_node;
use crate::peers::{is_npm_ready, peers};

/// Secret of the clients that the authorization server knows in advance.
pub(crate) const CLIENT_SECRET: &str = "secret-of-the-tests";
/// Secret of the client `basic-odd`, with characters that `client_secret_basic` has to encode.
pub(crate) const ODD_CLIENT_SECRET: &str = "secret+of/the=tests&100%";
/// Address of a client id metadata document that the authorization server reads from a file.
pub(crate) const DOCUMENT_URL: &str = "https://client.example/client.json";

/// Limit for a line of the log, which follows its request at once.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running authorization server.
pub(crate) struct AuthorizationServer {
    process: HostedServer,
    pub(crate) issuer: String,
    /// Number of requests that mark a position in the log.
    marks: AtomicUsize,
}

/// Returns the folder of the authorization server.
pub(crate) fn folder() -> PathBuf {
    peers().join("oidc")
}

/// Returns the key of the clients `jwt` and `machine-jwt`.
pub(crate) fn client_key() -> PathBuf {
    folder().join("client-key.pem")
}

/// Writes a client id metadata document for [`DOCUMENT_URL`] and returns the option that makes it known.
pub(crate) fn document_option(dir: &Path) -> String {
    let document = serde_json::json!({
        "client_id": DOCUMENT_URL,
        "client_name": "Client of the tests",
        "application_type": "native",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let file = dir.join("client.json");
    fs::write(&file, document.to_string()).expect("room for a document");
    format!("{DOCUMENT_URL}={}", file.display())
}

impl AuthorizationServer {
    /// Starts an authorization server with options of `server.mjs`, or warns that it cannot run here.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        let dir = folder();
        if !is_npm_ready(&dir, "authorization with oidc-provider") {
            return None;
        }
        let mut command = Command::new(locked_node(&dir.join("node_modules")));
        command.current_dir(&dir).arg("server.mjs").args(options);
        let process = HostedServer::start(command);
        let issuer = process.url.clone();
        Some(Self { process, issuer, marks: AtomicUsize::new(0) })
    }

    /// Stops the server, which must exit gracefully.
    pub(crate) fn stop(self) {
        self.process.stop();
    }

    /// Returns everything that the server has logged before this call.
    pub(crate) fn events(&self) -> Vec<Value> {
        // Output arrives a moment after the response. The line of this request comes after all lines of earlier ones.
        let path = format!("/mark-{}", self.marks.fetch_add(1, Ordering::Relaxed));
        let _ = Browser::deliver(&format!("{}{path}", self.issuer)).expect("a response");
        let start = Instant::now();
        loop {
            let output = self.process.output();
            let lines = output.lines().filter(|line| line.starts_with('{'));
            let parse = |line| serde_json::from_str::<Value>(line).expect("a line of the log");
            let mut events: Vec<_> = lines.map(parse).collect();
            if let Some(end) = events.iter().position(|event| event["path"] == path) {
                events.truncate(end);
                events.retain(|event| !event["path"].as_str().is_some_and(|path| path.starts_with("/mark-")));
                return events;
            }
            assert!(start.elapsed() < EVENT_TIMEOUT, "{}\n-- did not log {path}", self.process);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the logged requests to a path.
    pub(crate) fn requests(&self, path: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["event"] == "request" && event["path"] == path);
        events
    }

    /// Returns the logged token requests with a grant type that succeeded.
    pub(crate) fn grants(&self, grant: &str) -> Vec<Value> {
        let mut requests = self.requests("/token");
        requests.retain(|request| request["grant"] == grant && request["status"] == 200);
        requests
    }

    /// Sends a form to an endpoint.
    pub(crate) fn post(&self, path: &str, form: &[(&str, &str)]) -> Response {
        self.post_with(path, form, &[])
    }

    /// Sends a form with further fields to an endpoint.
    pub(crate) fn post_with(&self, path: &str, form: &[(&str, &str)], fields: &[(&str, &str)]) -> Response {
        let url = Url::parse(&format!("{}{path}", self.issuer)).expect("an endpoint");
        let mut all = vec![("Content-Type", "application/x-www-form-urlencoded")];
        all.extend_from_slice(fields);
        let body = encode(form.iter().copied());
        Request { method: "POST", url: &url, fields: &all, body: &body }.send().expect("a response")
    }

    /// Returns an access token for a resource by client credentials.
    pub(crate) fn machine_token(&self, resource: &str, scope: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", "machine-post"),
            ("client_secret", CLIENT_SECRET),
            ("resource", resource),
            ("scope", scope),
        ];
        let body = json(&self.post("/token", &form));
        body["access_token"].as_str().unwrap_or_else(|| panic!("no token: {body}")).to_owned()
    }
}

/// Returns the body of a response as JSON.
pub(crate) fn json(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}
