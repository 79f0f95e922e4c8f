//! `mcp-probe` with the real authorization server, the scripted browser, and the protected servers of the SDKs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use mcp_system_tests::browser::{Browser, BrowserScript};
use serde_json::json;

use crate::authorization::authorization_server::{
    AuthorizationServer, CLIENT_SECRET, DOCUMENT_URL, client_key, document_option,
};
use crate::authorization::own_server::OwnServer;
use crate::authorization::sdk::{Sdk, browser_command};
use crate::hosted_server::HostedServer;
use crate::peers::probe_client;
use crate::run::{DEADLINE, ProcessOutput, run};

/// A folder for the tokens of one user.
struct User(PathBuf);

impl User {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mcp-probe-user-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = probe_client();
        command.args(words).env("MCP_TOKEN_STORE", self.0.join("tokens.json"));
        command
    }

    fn run(&self, words: &[&str]) -> ProcessOutput {
        run(self.command(words), DEADLINE).expect("it starts")
    }

    /// Logs in with the scripted browser, which gets `script`.
    fn log_in(&self, url: &str, options: &[&str], script: &str) -> ProcessOutput {
        let browser = format!("{} {script}", browser_command());
        self.run(&[&["login", "--json", "--browser", &browser], options, &[url]].concat())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts an authorization server and the protected server of the TypeScript SDK, if both can run here.
fn start(options: &[&str]) -> Option<(AuthorizationServer, HostedServer)> {
    let issuer = AuthorizationServer::start(options)?;
    let server = Sdk::TypeScript.is_ready().then(|| Sdk::TypeScript.start_server(&issuer.issuer))?;
    Some((issuer, server))
}

#[test]
fn probe_logs_in_calls_refreshes_and_logs_out() {
    let Some((issuer, server)) = start(&["--access-ttl", "3"]) else { return };
    let (user, url) = (User::new(), &*server.url);
    let told = user.log_in(url, &[], "").assert_success().json();
    assert_eq!((&told["issuer"], &told["registration"]), (&json!(issuer.issuer), &json!("dynamic")));
    assert_eq!((&told["resource"], &told["refreshable"]), (&json!(url), &json!(true)));
    assert_eq!(user.run(&["login", "--show", "--json", url]).assert_success().json(), told);
    for runtime in ["blocking", "threads", "smol"] {
        let done = user.run(&["call", "whoami", "--runtime", runtime, "--trace", url]).assert_success();
        assert!(done.stdout.contains(told["client_id"].as_str().expect("an id")), "{done}");
        assert!(done.stderr.contains("Authorization: [redacted]") && !done.stderr.contains("eyJ"), "{done}");
        // The next command refreshes.
        thread::sleep(Duration::from_secs(3));
    }
    assert!(issuer.grants("refresh_token").len() >= 2);
    assert_eq!(issuer.grants("authorization_code").len(), 1);
    user.run(&["login", "--forget", url]).assert_success();
    assert!(!issuer.requests("/token/revocation").is_empty());
    assert_eq!(user.run(&["login", "--show", "--json", url]).assert_failure().json()["error"]["exitCode"], 6);
    assert_eq!(user.run(&["ping", "--json", url]).assert_failure().json()["error"]["exitCode"], 6);
    server.stop();
    issuer.stop();
}

#[test]
fn probe_explains_that_a_server_takes_no_bound_tokens() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    let (user, server) = (User::new(), OwnServer::start(&issuer.issuer));
    user.log_in(&server.url, &["--dpop", "always"], "").assert_success();
    let refused = user.run(&["ping", "--json", &server.url]).assert_failure().json();
    assert_eq!(refused["error"]["exitCode"], 6);
    let hint = refused["error"]["hint"].as_str().expect("a hint");
    assert!(hint.contains(&format!("`mcp-probe login --dpop never {}`", server.url)), "{hint}");
    user.log_in(&server.url, &["--dpop", "never"], "").assert_success();
    user.run(&["ping", &server.url]).assert_success();
    server.stop();
    issuer.stop();
}

#[test]
fn probe_authorizes_within_a_command_at_the_servers_of_all_sdks() {
    let Some(issuer) = AuthorizationServer::start(&[]) else { return };
    for sdk in Sdk::ALL.into_iter().filter(|sdk| sdk.is_ready()) {
        let server = sdk.start_server(&issuer.issuer);
        let user = User::new();
        let words = ["call", "whoami", "--authorize", "--browser", &browser_command(), &server.url];
        user.run(&words).assert_success();
        user.run(&["inspect", &server.url]).assert_success();
        server.stop();
    }
    issuer.stop();
}

#[test]
fn probe_logs_in_as_each_kind_of_client() {
    let dir = User::new();
    let document = document_option(&dir.0);
    let Some((issuer, server)) = start(&["--no-registration", "--document", &document]) else { return };
    let key = client_key();
    let key = key.to_str().expect("UTF-8");
    let machine = ["--grant", "client-credentials", "--client-id"];
    let runs: [(&str, &str, &[&str]); 6] = [
        (DOCUMENT_URL, "metadata-document", &["--client-metadata", DOCUMENT_URL]),
        ("public", "pre-registered", &["--client-id", "public"]),
        ("post", "pre-registered", &["--client-id", "post", "--client-secret", CLIENT_SECRET]),
        ("jwt", "pre-registered", &["--client-id", "jwt", "--client-key", key]),
        (
            "machine-basic",
            "pre-registered",
            &[machine[0], machine[1], machine[2], "machine-basic", "--client-secret", CLIENT_SECRET],
        ),
        (
            "machine-jwt",
            "pre-registered",
            &[machine[0], machine[1], machine[2], "machine-jwt", "--client-key", key],
        ),
    ];
    for (id, registration, options) in runs {
        let user = User::new();
        // A grant without a user refuses an option that is about one.
        let done = match options.contains(&"--grant") {
            true => user.run(&[&["login", "--json"], options, &[&*server.url]].concat()),
            false => user.log_in(&server.url, options, ""),
        };
        let told = done.assert_success().json();
        assert_eq!((&told["client_id"], &told["registration"]), (&json!(id), &json!(registration)));
        let called = user.run(&["call", "whoami", &server.url]).assert_success();
        assert!(called.stdout.contains(id), "{called}");
    }
    let done = User::new().log_in(&server.url, &[], "").assert_failure();
    assert_eq!(done.json()["error"]["exitCode"], 6);
    assert!(
        done.stderr.contains("the client registration") && done.stderr.contains("--client-id ID"),
        "{done}"
    );
    server.stop();
    issuer.stop();
}

#[test]
fn probe_logs_in_on_another_device() {
    let Some((issuer, server)) = start(&[]) else { return };
    let user = User::new();
    let mut login = user
        .command(&["login", "--device", "--client-id", "device", &server.url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(login.stderr.take().expect("piped")).lines();
    let complete = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("with the code in it: ").map(|(_, address)| address.to_owned()));
    let mut browser = Browser::new(BrowserScript { user: "alice".into(), ..BrowserScript::default() });
    browser.verify_device(&complete.expect("an address")).expect("the code is accepted");
    assert!(login.wait().expect("it ends").success());
    user.run(&["call", "whoami", &server.url]).assert_success();
    server.stop();
    issuer.stop();
}

#[test]
fn probe_binds_tokens_to_a_key() {
    let Some((issuer, server)) = start(&["--dpop-nonces"]) else { return };
    let told = User::new().log_in(&server.url, &["--dpop", "always"], "").assert_success().json();
    assert_eq!(told["dpop"], true);
    server.stop();
    issuer.stop();
}

// covers: AUTH-045, AUTH-047
#[test]
fn probe_survives_foreign_redirects_and_reports_refusals() {
    let Some((issuer, server)) = start(&[]) else { return };
    User::new().log_in(&server.url, &[], "--before state=foreign --twice").assert_success();
    for (script, wanted) in [("--decline", "access_denied"), ("--set iss=http://127.0.0.1:1", "`iss`")] {
        let done = User::new().log_in(&server.url, &[], script).assert_failure();
        assert_eq!(done.json()["error"]["exitCode"], 6, "{done}");
        assert!(
            done.stderr.contains(wanted) && done.stderr.contains("the authorization request at"),
            "{done}"
        );
    }
    let done = User::new().log_in(&server.url, &["--login-wait", "2"], "--never").assert_failure();
    assert_eq!(done.json()["error"]["exitCode"], 4, "{done}");
    server.stop();
    issuer.stop();
}
