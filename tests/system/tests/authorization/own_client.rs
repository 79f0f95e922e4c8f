//! Our client on each adapter, with its own listener and a command as the browser.

use core::time::Duration;

use mcp_auth::client::{Authorizer, Browser, BrowserLogin};
use mcp_oauth::Config as AuthConfig;
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult};
use mcp_proto::{EntryKind, RpcError, VersionSet};
use mcp_system_tests::adapters::{self, AdapterClient, AdapterKind, ServerLocation};
use serde_json::{Value, json};

use crate::authorization::authorization_server::AuthorizationServer;
use crate::authorization::sdk::{Sdk, browser_command};

/// Handler that is never asked.
struct NoHandler;

impl mcp_blocking::ClientHandler for NoHandler {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::decline())
    }
}

/// Returns an authorizer whose browser is the scripted one, with options.
pub(crate) fn authorizer(options: &str) -> Authorizer {
    let command = format!("{} {options}", browser_command());
    let browser = Browser::command(command.trim()).expect("a command");
    Authorizer::new(AuthConfig::new("tests")).interaction(BrowserLogin::new(browser))
}

pub(crate) fn connect(
    runtime: AdapterKind,
    versions: VersionSet,
    url: &str,
    authorizer: Authorizer,
) -> Result<Box<dyn AdapterClient>, mcp_blocking::Error> {
    let server = ServerLocation::Protected(url.to_owned(), authorizer);
    adapters::connect(runtime, Config::new("tests", "0").versions(versions), NoHandler, &server)
}

/// Calls a tool without arguments and returns its text.
pub(crate) fn call(client: &mut dyn AdapterClient, tool: &str) -> Result<String, mcp_blocking::Error> {
    let result = client.request("tools/call", &json!({"name": tool, "arguments": {}}), &mut |_| {})?;
    Ok(result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned())
}

fn whoami(client: &mut dyn AdapterClient) -> Value {
    let text = call(client, "whoami").expect("an answer");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

// covers: AUTH-057
#[test]
fn own_client_authorizes_refreshes_and_steps_up_on_every_adapter() {
    if !Sdk::TypeScript.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(&["--access-ttl", "3"]) else { return };
    let server = Sdk::TypeScript.start_server(&issuer.issuer);
    let runs = [
        (AdapterKind::Blocking, VersionSet::MODERN),
        (AdapterKind::Threads, VersionSet::MODERN),
        (AdapterKind::Smol, VersionSet::MODERN),
        (AdapterKind::Blocking, VersionSet::LEGACY),
    ];
    for (count, (runtime, versions)) in runs.into_iter().enumerate() {
        let mut client = connect(runtime, versions, &server.url, authorizer("")).expect("a connection");
        assert_eq!(client.list(EntryKind::Tool).expect("tools").len(), 2, "{runtime}");
        let before = whoami(&mut *client);
        assert_eq!((&before["scopes"], &before["subject"]), (&json!(["mcp:read"]), &json!("tester")));
        client.pause(Duration::from_secs(3)).expect("an open connection");
        assert_eq!(whoami(&mut *client)["client"], before["client"], "{runtime}");
        assert_eq!(call(&mut *client, "write").expect("more scopes"), "written", "{runtime}");
        assert_eq!(whoami(&mut *client)["scopes"], json!(["mcp:read", "mcp:write"]), "{runtime}");
        client.close().expect("a graceful end");
        assert_eq!(issuer.grants("authorization_code").len(), 2 * (count + 1), "{runtime}");
        assert_eq!(issuer.requests("/reg").len(), count + 1, "{runtime}: both logins use one registration");
        assert!(issuer.grants("refresh_token").len() > count, "{runtime}");
    }
    server.stop();
    issuer.stop();
}

#[test]
fn own_client_uses_protected_servers_of_every_sdk() {
    let Some(issuer) = AuthorizationServer::start(&["--path", "/tenant/a"]) else { return };
    let runs = [
        (AdapterKind::Threads, Sdk::Python, VersionSet::MODERN),
        (AdapterKind::Smol, Sdk::Python, VersionSet::LEGACY),
        (AdapterKind::Smol, Sdk::Rmcp, VersionSet::MODERN),
        (AdapterKind::Threads, Sdk::Rmcp, VersionSet::LEGACY),
        (AdapterKind::Blocking, Sdk::TypeScript, VersionSet::ALL),
    ];
    for (runtime, sdk, versions) in runs {
        if !sdk.is_ready() {
            continue;
        }
        let server = sdk.start_server(&issuer.issuer);
        let browser = authorizer("--user alice");
        let mut client = connect(runtime, versions, &server.url, browser).expect("a connection");
        assert_eq!(whoami(&mut *client)["subject"], "alice", "{runtime} with {sdk:?}");
        client.close().expect("a graceful end");
        server.stop();
    }
    issuer.stop();
}

// covers: AUTH-045, AUTH-047
#[test]
fn own_client_ignores_foreign_redirects_and_reports_refusals() {
    if !Sdk::TypeScript.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = Sdk::TypeScript.start_server(&issuer.issuer);
    for (script, grants) in [("--before state=foreign", 1), ("--twice", 2)] {
        let mut client = connect(AdapterKind::Blocking, VersionSet::MODERN, &server.url, authorizer(script))
            .expect("a connection");
        assert_eq!(whoami(&mut *client)["subject"], "tester", "{script}");
        client.close().expect("a graceful end");
        // Of two redirects one is taken: a code that is sent twice would revoke its tokens.
        assert_eq!(issuer.requests("/token").len(), grants, "{script}");
    }
    for (script, part) in [("--decline", "access_denied"), ("--set iss=http://127.0.0.1:1", "iss")] {
        let connected = connect(AdapterKind::Blocking, VersionSet::MODERN, &server.url, authorizer(script));
        let error = match connected.map(|mut client| call(&mut *client, "whoami")) {
            Ok(Ok(text)) => panic!("{script}: {text}"),
            Ok(Err(error)) | Err(error) => error.to_string(),
        };
        assert!(error.contains(part), "{script}: {error}");
    }
    assert_eq!(issuer.requests("/token").len(), 2, "a refused redirect leads to no token request");
    server.stop();
    issuer.stop();
}
