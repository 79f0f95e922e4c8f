//! The clients of the official SDKs with protected servers of the official SDKs.

use serde_json::{Value, json};

use crate::authorization::authorization_server::{
    AuthorizationServer, CLIENT_SECRET, DOCUMENT_URL, ODD_CLIENT_SECRET, client_key, document_option,
};
use crate::authorization::sdk::{Sdk, browser_command, identities, of_kind, steps};

/// Longer than the lifetime of access tokens in [`SHORT`], in milliseconds.
const PAUSE: &str = "2500";
const SHORT: &[&str] = &["--access-ttl", "2"];

#[test]
fn typescript_client_steps_up_and_refreshes_with_typescript_server() {
    if !Sdk::TypeScript.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(SHORT) else { return };
    let server = Sdk::TypeScript.start_server(&issuer.issuer);
    for (at, era) in ["modern", "legacy"].into_iter().enumerate() {
        let options = ["--call", "whoami", "--call", "write", "--pause", PAUSE, "--call", "whoami"];
        let steps = Sdk::TypeScript.authorize(era, &options, &server.url);
        let scopes: Vec<_> = identities(&steps).iter().map(|who| who["scopes"].clone()).collect();
        assert_eq!(scopes, [json!(["mcp:read"]), json!(["mcp:read", "mcp:write"])], "{era}");
        assert_eq!(of_kind(&steps, "negotiate")[0]["era"], era);
        let asked: Vec<_> = of_kind(&steps, "authorize").iter().map(|step| step["scope"].clone()).collect();
        assert_eq!(asked, ["mcp:read offline_access", "mcp:read mcp:write offline_access"], "{era}");
        // One login for each of the two authorizations. A slow machine refreshes more often than after each pause.
        let runs = at + 1;
        assert_eq!(issuer.grants("authorization_code").len(), 2 * runs, "{era}");
        assert!(issuer.grants("refresh_token").len() >= 2 * runs, "{era}");
        assert_eq!(issuer.requests("/reg").len(), runs, "{era}");
    }
    server.stop();
    issuer.stop();
}

#[test]
fn python_client_refreshes_with_python_server() {
    if !Sdk::Python.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(SHORT) else { return };
    let server = Sdk::Python.start_server(&issuer.issuer);
    for era in ["modern", "legacy"] {
        let options = ["--call", "whoami", "--pause", "2.5", "--call", "whoami"];
        let steps = Sdk::Python.authorize(era, &options, &server.url);
        let subjects: Vec<_> = identities(&steps).iter().map(|who| who["subject"].clone()).collect();
        assert_eq!(subjects, ["tester", "tester"], "{era}");
        assert_eq!(of_kind(&steps, "authorize").len(), 1, "{era}: a refresh needs no user");
        assert!(of_kind(&steps, "tokens").len() >= 2, "{era}");
    }
    assert!(issuer.grants("refresh_token").len() >= 2);
    server.stop();
    issuer.stop();
}

/// rmcp 3.11.0 asks for `offline_access` without `prompt=consent`, and therefore gets no refresh token.
#[test]
fn rmcp_client_uses_rmcp_server() {
    if !Sdk::Rmcp.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let server = Sdk::Rmcp.start_server(&issuer.issuer);
    for era in ["modern", "legacy"] {
        let steps = Sdk::Rmcp.authorize(era, &["--call", "whoami", "--call", "write"], &server.url);
        assert_eq!(identities(&steps)[0]["subject"], "tester", "{era}");
        assert_eq!(of_kind(&steps, "call")[1]["text"], "written", "{era}");
    }
    let prompted = |request: &Value| request["prompt"] != json!(null);
    assert!(!issuer.requests("/auth").iter().any(prompted), "rmcp has learned to ask for consent");
    assert!(!issuer.events().iter().any(|event| event["event"] == "refresh_token.saved"));
    server.stop();
    issuer.stop();
}

#[test]
fn every_client_authorizes_for_every_server() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let ready: Vec<_> = Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()).collect();
    for server_sdk in &ready {
        let server = server_sdk.start_server(&issuer.issuer);
        for client in &ready {
            // The runs of the same SDK on both sides are tests of their own.
            if client == server_sdk {
                continue;
            }
            let steps = client.authorize("modern", &["--call", "whoami"], &server.url);
            assert_eq!(identities(&steps)[0]["subject"], "tester", "{client:?} with {server_sdk:?}");
            let asked = of_kind(&steps, "authorize");
            assert_eq!(asked.len(), 1, "{client:?} with {server_sdk:?}");
            assert_eq!(asked[0]["resource"], server.url, "{client:?} with {server_sdk:?}");
        }
        server.stop();
    }
    issuer.stop();
}

/// The issuer has a path, and its metadata is at the last of the addresses where clients have to look.
#[test]
fn every_client_finds_issuer_with_path_and_steps_up() {
    let Some(issuer) = AuthorizationServer::start(&["--path", "/tenant/a"]) else { return };
    if !Sdk::TypeScript.is_ready() {
        return;
    }
    let server = Sdk::TypeScript.start_server(&issuer.issuer);
    for client in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let steps = client.authorize("modern", &["--call", "whoami", "--call", "write"], &server.url);
        assert_eq!(identities(&steps)[0]["scopes"], json!(["mcp:read"]), "{client:?}");
        assert_eq!(of_kind(&steps, "authorize").len(), 2, "{client:?}");
        assert_eq!(of_kind(&steps, "tokens")[1]["scope"], "mcp:read mcp:write", "{client:?}");
        assert_eq!(of_kind(&steps, "call")[1]["text"], "written", "{client:?}");
    }
    server.stop();
    issuer.stop();
}

#[test]
fn known_clients_need_no_registration() {
    let dir = std::env::temp_dir().join(format!("mcp-authorization-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let document = document_option(&dir);
    let Some(issuer) = AuthorizationServer::start(&["--no-registration", "--document", &document]) else {
        return;
    };
    let key = client_key();
    let key = key.to_str().expect("a path in UTF-8");
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let server = sdk.start_server(&issuer.issuer);
        let machine = |id: &'static str| {
            vec!["--grant", "client-credentials", "--client-id", id, "--client-secret", CLIENT_SECRET]
        };
        let mut runs = vec![
            (DOCUMENT_URL, vec!["--client-metadata", DOCUMENT_URL]),
            ("public", vec!["--client-id", "public"]),
            ("basic", vec!["--client-id", "basic", "--client-secret", CLIENT_SECRET]),
        ];
        match sdk {
            // It does not encode a secret for `client_secret_basic`.
            Sdk::TypeScript => {
                runs.push(("machine-basic", machine("machine-basic")));
                let signed =
                    vec!["--grant", "client-credentials", "--client-id", "machine-jwt", "--client-key", key];
                runs.push(("machine-jwt", signed));
            }
            Sdk::Python => {
                runs.push(("machine-basic", machine("machine-basic")));
                runs.push((
                    "basic-odd",
                    vec!["--client-id", "basic-odd", "--client-secret", ODD_CLIENT_SECRET],
                ));
            }
            Sdk::Rmcp => {
                runs.push(("machine-post", machine("machine-post")));
                runs.push((
                    "basic-odd",
                    vec!["--client-id", "basic-odd", "--client-secret", ODD_CLIENT_SECRET],
                ));
            }
        }
        for (client, mut options) in runs {
            options.extend(["--call", "whoami"]);
            let steps = sdk.authorize("modern", &options, &server.url);
            assert_eq!(identities(&steps)[0]["client"], client, "{sdk:?}");
        }
        server.stop();
    }
    assert_eq!(issuer.requests("/reg").len(), 0);
    issuer.stop();
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn clients_fail_if_user_declines_or_redirect_is_changed() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let server = sdk.start_server(&issuer.issuer);
        for script in ["--decline", "--set state=other", "--set iss=http://127.0.0.1:1"] {
            let browser = format!("{} {script}", browser_command());
            let options = ["--browser", &browser, "--call", "whoami"];
            let output = sdk.run_client("modern", &options, &server.url).assert_failure();
            assert!(!output.stdout.contains("\"tools\""), "{sdk:?} {script}: {output}");
        }
        server.stop();
    }
    assert_eq!(issuer.grants("authorization_code").len(), 0, "a changed redirect gave a token");
    issuer.stop();
}

/// The server is only for tokens without DPoP; the run shows that the authorization server binds tokens, with nonces.
#[test]
fn typescript_client_gets_bound_token_with_nonce() {
    if !Sdk::TypeScript.is_ready() {
        return;
    }
    let Some(issuer) = AuthorizationServer::start(&["--dpop-nonces"]) else { return };
    let server = Sdk::TypeScript.start_server(&issuer.issuer);
    let options = ["--browser", &browser_command(), "--dpop"];
    let output = Sdk::TypeScript.run_client("modern", &options, &server.url).assert_failure();
    assert_eq!(of_kind(&steps(&output), "tokens")[0]["type"], "DPoP", "{output}");
    let first = &issuer.requests("/token")[0];
    assert_eq!((&first["error"], &first["dpop"]), (&json!("use_dpop_nonce"), &json!(true)));
    server.stop();
    issuer.stop();
}
