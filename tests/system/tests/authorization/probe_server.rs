//! The clients of the official SDKs with `mcp-probe serve --protect`, and what it refuses.

use std::process::Command;

use serde_json::{Value, json};

use crate::authorization::authorization_server::{AuthorizationServer, CLIENT_SECRET, json as body};
use crate::authorization::own_server::OwnServer;
use crate::authorization::protected_servers::{challenge, send};
use crate::authorization::sdk::{Sdk, browser_command, identities, of_kind, steps};
use crate::hosted_server::HostedServer;
use crate::peers::probe;

const ECHO: &str = r#"echo={"text":"hi"}"#;
const ELSEWHERE: &str = "http://127.0.0.1:1/mcp";

/// Starts `mcp-probe serve` with access tokens of an issuer.
fn start_probe(issuer: &AuthorizationServer, options: &[&str]) -> HostedServer {
    let mut command = Command::new(probe());
    command.args(["serve", "--http", "127.0.0.1:0", "--protect", &issuer.issuer]).args(options);
    HostedServer::start(command)
}

/// Returns what a client has done: the scopes that it asked for, the names of the tools, and the texts of its calls.
fn summary(steps: &[Value]) -> [Vec<Value>; 3] {
    let members = |kind, member: &str| of_kind(steps, kind).iter().map(|step| step[member].clone()).collect();
    [members("authorize", "scope"), members("tools", "names"), members("call", "text")]
}

// covers: AUTH-010, AUTH-019, AUTH-051
#[test]
fn every_client_authorizes_for_our_server() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let runs = [
        (Sdk::TypeScript, "modern", "blocking"),
        (Sdk::TypeScript, "legacy", "smol"),
        (Sdk::Python, "modern", "threads"),
        (Sdk::Python, "legacy", "blocking"),
        (Sdk::Rmcp, "modern", "smol"),
        (Sdk::Rmcp, "legacy", "threads"),
    ];
    let mut logins = 0;
    for (sdk, era, runtime) in runs.into_iter().filter(|(sdk, ..)| sdk.is_ready()) {
        let server = start_probe(&issuer, &["--require-scope", "mcp:read", "--runtime", runtime]);
        let done = sdk.authorize(era, &["--call", ECHO], &server.url);
        let [scopes, tools, texts] = summary(&done);
        assert_eq!((scopes.len(), texts), (1, vec![json!("hi")]), "{sdk:?} {era}");
        assert!(scopes[0].as_str().is_some_and(|scope| scope.starts_with("mcp:read")), "{sdk:?}: {scopes:?}");
        assert_eq!(tools, [json!(["echo", "add", "count", "fail"])], "{sdk:?} {era}");
        assert_eq!(of_kind(&done, "authorize")[0]["resource"], server.url, "{sdk:?} {era}");
        assert_eq!(of_kind(&done, "negotiate")[0]["era"], era, "{sdk:?}");
        logins += 1;
        assert_eq!(issuer.grants("authorization_code").len(), logins, "{sdk:?} {era}");
        server.stop();
    }
    issuer.stop();
}

// covers: AUTH-054, AUTH-055
#[test]
fn every_client_steps_up_at_our_server() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = OwnServer::start(&issuer.issuer);
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let calls = ["--call", "whoami", "--call", "write", "--call", "whoami"];
        let done = sdk.authorize("modern", &calls, &server.url);
        let scopes: Vec<_> = identities(&done).iter().map(|who| who["scopes"].clone()).collect();
        assert_eq!(scopes, [json!(["mcp:read"]), json!(["mcp:read", "mcp:write"])], "{sdk:?}");
        assert_eq!(summary(&done)[2][1], "written", "{sdk:?}");
        assert_eq!(of_kind(&done, "authorize").len(), 2, "{sdk:?}");
    }
    server.stop();
    issuer.stop();
}

// covers: AUTH-004, AUTH-010, AUTH-054, SEC-007
#[test]
fn our_server_refuses_tokens_of_others_and_with_too_few_scopes() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let Some(other) = AuthorizationServer::start(&[]) else { return };
    for runtime in ["blocking", "threads", "smol"] {
        let options = ["--require-scope", "mcp:read", "--require-scope", "mcp:write", "--runtime", runtime];
        let server = start_probe(&issuer, &options);
        let metadata = server.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
        let document = body(&send("GET", &metadata, None));
        assert_eq!(
            (&document["resource"], &document["authorization_servers"]),
            (&json!(server.url), &json!([issuer.issuer]))
        );
        let good = send("POST", &server.url, Some(&issuer.machine_token(&server.url, "mcp:read mcp:write")));
        assert_eq!(good.status, 200, "{runtime}: {good:?}");
        for token in [
            issuer.machine_token(ELSEWHERE, "mcp:read mcp:write"),
            other.machine_token(&server.url, "mcp:read mcp:write"),
        ] {
            let refused = send("POST", &server.url, Some(&token));
            assert_eq!(refused.status, 401, "{runtime}: {refused:?}");
            let challenge = challenge(&refused);
            assert!(
                challenge.contains("invalid_token") && challenge.contains(&metadata),
                "{runtime}: {challenge}"
            );
        }
        let poor = send("POST", &server.url, Some(&issuer.machine_token(&server.url, "mcp:read")));
        assert_eq!(poor.status, 403, "{runtime}: {poor:?}");
        let challenge = challenge(&poor);
        for part in ["insufficient_scope", r#"scope="mcp:read mcp:write""#, &metadata] {
            assert!(challenge.contains(part), "{runtime}: {challenge}");
        }
        server.stop();
    }
    issuer.stop();
    other.stop();
}

/// Clients without a user are configured for `mcp:read` alone, and some go by the scopes that the server names.
#[test]
fn clients_are_refused_for_another_audience_and_for_missing_scopes() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let elsewhere = start_probe(&issuer, &["--audience", ELSEWHERE]);
    let strict = start_probe(&issuer, &["--require-scope", "mcp:write"]);
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let grants = issuer.grants("authorization_code").len();
        let options = ["--browser", &browser_command(), "--call", ECHO];
        let output = sdk.run_client("modern", &options, &elsewhere.url).assert_failure();
        assert!(of_kind(&steps(&output), "tools").is_empty(), "{sdk:?}: {output}");
        // The document names another resource than the server, so no client asks for a token for it.
        assert_eq!(issuer.grants("authorization_code").len(), grants, "{sdk:?}");

        let id = if sdk == Sdk::Rmcp { "machine-post" } else { "machine-basic" };
        let options = ["--grant", "client-credentials", "--client-id", id, "--client-secret", CLIENT_SECRET];
        let output = sdk.run_client("modern", &[&options[..], &["--call", ECHO]].concat(), &strict.url);
        if sdk == Sdk::Rmcp {
            // It does not look for the scopes that the server asks for.
            output.assert_failure().assert_stderr_contains("Insufficient scope");
        } else {
            assert_eq!(summary(&steps(&output.assert_success()))[2], [json!("hi")], "{sdk:?}");
        }
    }
    elsewhere.stop();
    strict.stop();
    issuer.stop();
}
