//! Authorization of the program at protected servers: logging in, using and renewing tokens, logging out.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::protected_server::{Behaviour, ProtectedServer, browser_command, expire_tokens, form, get};
use crate::support::{PROBE, ProbeOutput, run, run_with_input};

/// A folder with a token store, and the commands that use it.
struct User {
    folder: TemporaryDirectory,
}

impl User {
    fn new() -> Self {
        Self { folder: TemporaryDirectory::new() }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("tokens.json")
    }

    fn environment(&self) -> String {
        self.store().display().to_string()
    }

    fn run(&self, args: &[&str]) -> ProbeOutput {
        run(args, &[("MCP_TOKEN_STORE", &self.environment())])
    }

    /// Runs a command with `--browser`, and logs in at the address that it opens. `visit` gets the redirect.
    fn run_with_browser(
        &self,
        server: &ProtectedServer,
        args: &[&str],
        visit: impl FnOnce(&str) + Send + 'static,
    ) -> ProbeOutput {
        let opened = self.folder.path().join("opened");
        let _ = std::fs::remove_file(&opened);
        let browser = browser_command(&opened);
        let server = server.clone();
        let visitor = thread::spawn(move || visit(&server.follow(&opened)));
        let done = self.run(&[args, &["--browser", &browser]].concat());
        visitor.join().expect("no panic");
        done
    }

    fn log_in(&self, server: &ProtectedServer) -> ProbeOutput {
        self.run_with_browser(server, &["login", &server.url], |redirect| {
            assert_eq!(get(redirect).0, 200);
        })
    }

    /// Starts a command whose stdin and stderr are pipes.
    fn start(&self, args: &[&str]) -> Child {
        Command::new(PROBE)
            .args(args)
            .env("MCP_TOKEN_STORE", self.store())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts")
    }
}

fn assert_no_secret(done: &ProbeOutput) {
    for secret in ["s3cret", "c0de", "d3vice"] {
        assert!(!done.stdout.contains(secret) && !done.stderr.contains(secret), "{secret}: {done}");
    }
}

// covers: AUTH-040, AUTH-043, AUTH-045, AUTH-064, SEC-019
#[test]
fn login_stores_tokens_that_other_commands_use_until_logout() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let done = user.log_in(&server).assert_ok();
    let done =
        done.assert_stdout(&["logged in to", &server.url, "registered (dynamic)", "read call", "in 24 h"]);
    assert_no_secret(&done);
    assert_eq!(std::fs::metadata(user.store()).expect("stored").permissions().mode() & 0o777, 0o600);
    // The challenge is learned without a token, and its scopes are asked for.
    assert!(server.requests("/mcp").iter().all(|request| !request.fields.contains_key("authorization")));
    let redeemed = server.token_forms().remove(0);
    assert_eq!((&*redeemed["grant_type"], &*redeemed["resource"]), ("authorization_code", &*server.url));

    for (command, wanted) in
        [(&["ping", "-n", "1"][..], "round trip"), (&["inspect"], "greet"), (&["call", "greet"], "hello")]
    {
        for runtime in ["blocking", "threads", "smol"] {
            let args = [command, &["--runtime", runtime, "--trace", &server.url]].concat();
            let done = user.run(&args).assert_ok().assert_stdout(&[wanted]);
            assert_no_secret(&done.assert_stderr(&["Authorization: [redacted]"]));
        }
    }
    assert_eq!(server.token_forms().len(), 1);

    let who = user.run(&["login", "--show", "--json", &server.url]).assert_ok().json();
    let expires = who["expires_at"].as_u64().expect("a time");
    let issuer = server.url.trim_end_matches("/mcp");
    let expected = json!({
        "resource": server.url, "issuer": issuer, "client_id": "registered", "registration": "dynamic",
        "scopes": ["read", "call"], "needed_scopes": [], "expires_at": expires, "refreshable": true, "dpop": false,
    });
    assert_eq!(who, expected);
    assert_no_secret(
        &user.run(&["login", "--show", &server.url]).assert_ok().assert_stdout(&["then refreshed"]),
    );

    let done = user
        .run(&["login", "--forget", &server.url])
        .assert_ok()
        .assert_stdout(&["logged out of", &server.url]);
    assert_no_secret(&done);
    let revoked = form(&server.requests("/revoke").remove(0).body);
    assert_eq!((&*revoked["token"], &*revoked["token_type_hint"]), ("s3cret-refresh-1", "refresh_token"));
    user.run(&["login", "--forget", &server.url]).assert_ok().assert_stdout(&["nobody is logged in"]);
    let done = user.run(&["login", "--show", "--json", &server.url]).assert_code(6);
    assert_eq!(
        (&done.json()["error"]["kind"], &done.json()["error"]["exitCode"]),
        (&json!("unauthorized"), &json!(6))
    );
    done.assert_stderr(&["nobody is logged in", "mcp-probe login http"]);
}

#[test]
fn command_without_terminal_asks_nobody_and_says_what_to_run() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    for runtime in ["blocking", "threads", "smol"] {
        let done = user.run(&["inspect", "--runtime", runtime, &server.url]).assert_code(6);
        let login = format!("`mcp-probe login {}`", server.url);
        done.assert_stderr(&[
            "the authorization request at http://",
            "a user has to log in",
            &login,
            "--authorize",
        ]);
    }
    assert_eq!((server.requests("/register").len(), server.token_forms().len()), (0, 0));
}

#[test]
fn command_with_authorize_lets_the_user_log_in() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let args = ["call", "greet", "--authorize", "--connect-timeout", "2s", &server.url];
    // The time to log in does not count as time to connect.
    let done = user.run_with_browser(&server, &args, |redirect| {
        thread::sleep(Duration::from_secs(3));
        assert_eq!(get(redirect).0, 200);
    });
    assert_eq!(done.assert_ok().assert_stderr(&["/authorize?", "if none appears"]).stdout, "hello\n");
    user.run(&["call", "greet", &server.url]).assert_ok();
    assert_eq!(server.token_forms().len(), 1);
}

#[test]
fn expired_token_is_refreshed_before_use_and_revoked_one_after_a_401() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    expire_tokens(&user.store());
    let before = server.requests("/mcp").len();
    user.run(&["ping", "-n", "1", &server.url]).assert_ok();
    let refreshed = server.token_forms().remove(1);
    assert_eq!(
        (&*refreshed["grant_type"], &*refreshed["refresh_token"]),
        ("refresh_token", "s3cret-refresh-1")
    );
    let authorized =
        |request: &crate::protected_server::Received| request.fields.contains_key("authorization");
    assert!(server.requests("/mcp")[before..].iter().all(authorized));
    server.revoke_tokens();
    expire_tokens(&user.store());
    user.run(&["ping", "-n", "1", &server.url]).assert_ok();
}

/// Without the options `resource` is in each form, and `scope` in none of a refresh.
#[test]
fn options_about_resource_and_scope_reach_the_forms_of_a_login_and_of_later_refreshes() {
    for options in [&[][..], &["--no-resource", "--refresh-scope"]] {
        let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
        let login = [&["login"], options, &[&server.url]].concat();
        user.run_with_browser(&server, &login, |redirect| assert_eq!(get(redirect).0, 200)).assert_ok();
        expire_tokens(&user.store());
        user.run(&["ping", "-n", "1", &server.url]).assert_ok();
        let forms = server.token_forms();
        let has = |form: usize, name: &str| forms[form].contains_key(name);
        let default = options.is_empty();
        assert_eq!([has(0, "resource"), has(1, "resource")], [default; 2], "{forms:?}");
        assert_eq!(has(1, "scope"), !default, "{forms:?}");
    }
}

#[test]
fn doctor_uses_the_stored_token_and_tells_when_it_is_refused() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    let token_step = |report: &Value| {
        let steps = report["steps"].as_array().expect("steps");
        steps.iter().find(|step| step["step"] == "token").expect("the step")["detail"].clone()
    };
    let done = user.run(&["doctor", "--json", &server.url]).assert_ok();
    assert_eq!(token_step(&done.json()), "the stored one is accepted", "{done}");
    assert_no_secret(&done);
    server.revoke_tokens();
    let done = user.run(&["doctor", "--json", &server.url]).assert_ok();
    assert_eq!(token_step(&done.json()), "the stored one was refused, and is renewed", "{done}");

    server.refuse_all_tokens();
    let done = user.run(&["doctor", "--json", &server.url]).assert_code(6);
    let failure = &done.json()["failure"];
    assert_eq!(failure["what"], "the server refuses the token with the status 401", "{done}");
    assert_no_secret(&done);

    // Such a login gives no refresh token.
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.run(&["login", "--device", &server.url]).assert_ok();
    expire_tokens(&user.store());
    let done = user.run(&["doctor", "--json", &server.url]).assert_code(6);
    let failure = &done.json()["failure"];
    assert_eq!(failure["step"], "token", "{done}");
    assert!(failure["why"].as_str().is_some_and(|why| why.contains("it has expired")), "{done}");
}

// covers: AUTH-045
#[test]
fn redirect_with_foreign_state_gets_an_error_page_and_the_wait_goes_on() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let done = user.run_with_browser(&server, &["login", &server.url], |redirect| {
        let (place, query) = redirect.split_once('?').expect("a query");
        let state = &form(query)["state"];
        let (status, page) = get(&format!("{place}?{}", query.replace(&**state, "of-somebody-else")));
        assert!(status == 400 && page.contains("was not expected"), "{page}");
        assert_eq!(get(redirect).0, 200);
    });
    done.assert_ok();
    assert_eq!(server.token_forms().len(), 1);
}

#[test]
fn pasted_redirect_may_be_a_whole_address_or_its_query() {
    for query_alone in [false, true] {
        let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
        let mut login = user.start(&["login", "--no-browser", "--json", &server.url]);
        let mut shown = BufReader::new(login.stderr.take().expect("piped"));
        let mut address = String::new();
        while !address.trim().starts_with("http") {
            address.clear();
            assert_ne!(shown.read_line(&mut address).expect("UTF-8"), 0, "no address was shown");
        }
        let redirect = server.redirect_of(address.trim());
        let pasted = if query_alone { redirect.split_once('?').expect("a query").1 } else { &redirect };
        let mut stdin = login.stdin.take().expect("piped");
        // An empty line and the redirect of another login are no reason to give up.
        writeln!(stdin, "\nhttp://127.0.0.1/callback?code=x&state=other\n{pasted}").expect("it is read");
        let (mut stdout, mut rest) = (String::new(), String::new());
        login.stdout.take().expect("piped").read_to_string(&mut stdout).expect("UTF-8");
        shown.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(login.wait().expect("it ends").code(), Some(0), "{rest}");
        assert!(rest.contains("not the redirect of this login"), "{rest}");
        assert_eq!(serde_json::from_str::<Value>(&stdout).expect("JSON")["scopes"], json!(["read", "call"]));
    }
}

#[test]
fn login_without_a_redirect_ends_with_stdin_or_in_time() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let done = user.run(&["login", "--no-browser", &server.url]).assert_code(6);
    done.assert_stderr(&["the authorization request at http://", "stdin ended", "mcp-probe login"]);

    // A pipe that stays open.
    let mut waiting = user.start(&["login", "--no-browser", "--login-wait", "1", &server.url]);
    let stdin = waiting.stdin.take();
    let begun = Instant::now();
    assert_eq!(waiting.wait().expect("it ends").code(), Some(4));
    assert!(begun.elapsed() < Duration::from_secs(20) && stdin.is_some());
    let mut shown = String::new();
    waiting.stderr.take().expect("piped").read_to_string(&mut shown).expect("UTF-8");
    assert!(
        shown.contains("no redirect to http://127.0.0.1:") && shown.contains("registers it anew"),
        "{shown}"
    );

    // The browser does not start, and nobody opens the address.
    let done =
        user.run(&["login", "--browser", "false", "--login-wait", "500ms", &server.url]).assert_code(4);
    done.assert_stderr(&["open this address", "no redirect to http://127.0.0.1:", "--login-wait"]);
}

#[test]
fn redirect_of_a_registered_client_is_received_where_the_option_says() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let uri = format!("http://localhost:{}/oauth/cb", port.expect("a port").port());
    let expected = format!("{uri}?");
    let done =
        user.run_with_browser(&server, &["login", "--redirect-uri", &uri, &server.url], move |redirect| {
            assert!(redirect.starts_with(&expected), "{redirect}");
            assert_eq!(get(redirect).0, 200);
        });
    done.assert_ok();
    let done =
        user.run(&["login", "--redirect-uri", "https://example.com/cb", "--browser", "false", &server.url]);
    done.assert_code(6)
        .assert_stderr(&["the redirect URI https://example.com/cb: it has to be http at 127.0.0.1"]);
}

#[test]
fn device_code_is_shown_escaped() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    for (store, how) in [("a", &["--device"][..]), ("b", &["--grant", "device"])] {
        let path = user.folder.path().join(store).display().to_string();
        let done = user.run(&[&["login", "--token-store", &path], how, &[&server.url]].concat()).assert_ok();
        assert_no_secret(&done);
        done.assert_stderr(&["/activate\n", "enter the code ABCD-\\u001b[2J", "/activate?code=ABCD"]);
        assert_eq!(server.token_forms().pop().expect("a form")["device_code"], "d3vice");
    }
}

#[test]
fn server_that_asks_for_nothing_is_said_so() {
    let open = Behaviour { is_open: true, no_resource_metadata: true, ..Behaviour::default() };
    let (user, server) = (User::new(), ProtectedServer::new(open));
    let done = user.run(&["login", &server.url]).assert_ok().assert_stdout(&["asks for no authorization"]);
    assert!(!done.stderr.contains("note:"), "{done}");
    assert_eq!(user.run(&["login", "--json", &server.url]).assert_ok().json(), Value::Null);
    // It does not count as its own authorization server.
    let done = user.run(&["login", "--legacy-auth", &server.url]).assert_ok();
    done.assert_stdout(&["asks for no authorization"]);
    user.run(&["inspect", &server.url]).assert_ok();
    assert!(!user.store().exists());
    // A server may ask only after the handshake.
    let server = ProtectedServer::new(Behaviour { opens_handshake: true, ..Behaviour::default() });
    user.log_in(&server).assert_ok().assert_stdout(&["read call"]);
    // Or it refuses calls alone: its metadata says what it asks for.
    let server = ProtectedServer::new(Behaviour { is_open: true, ..Behaviour::default() });
    user.log_in(&server).assert_ok().assert_stdout(&["logged in to", "read"]);
    user.run(&["login", "--show", &server.url]).assert_ok();
}

#[test]
fn open_server_whose_metadata_breaks_a_rule_is_said_so() {
    let behaviour = Behaviour { is_open: true, other_resource: true, ..Behaviour::default() };
    let (user, server) = (User::new(), ProtectedServer::new(behaviour));
    let done = user.run(&["login", &server.url]).assert_ok().assert_stdout(&["asks for no authorization"]);
    done.assert_stderr(&["note:", "`resource`", "RFC 9728"]);
}

#[test]
fn bearer_token_sets_the_stored_one_aside() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    for own in [["--bearer", "mine"], ["--header", "Authorization: Bearer mine"]] {
        let done = user.run(&["ping", own[0], own[1], &server.url]).assert_code(6);
        done.assert_stderr(&["/mcp refused the request: HTTP status 401", "--bearer", "`mcp-probe login`"]);
        let sent = server.requests("/mcp").pop().expect("a request");
        assert_eq!(sent.fields["authorization"], "Bearer mine");
        user.run(&["ping", "--authorize", own[0], own[1], &server.url]).assert_code(2);
        user.run(&["login", own[0], own[1], &server.url]).assert_code(2).assert_stderr(&["leave --bearer"]);
    }
    assert_eq!(server.token_forms().len(), 1);
}

#[test]
fn check_uses_the_stored_token_or_gets_one() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let check = ["check", "--era", "modern", "--timeout", "1s", &server.url];
    user.run(&check).assert_code(6);
    let tokens = || {
        let requests = server.requests("/mcp");
        let sent = requests.iter().filter_map(|request| request.fields.get("authorization"));
        // The invalid token of the check itself does not count.
        sent.filter(|value| !value.contains("mcp-probe")).count()
    };
    assert_eq!((tokens(), server.token_forms().len()), (0, 0));
    let opened = user.run_with_browser(&server, &[&check[..], &["--authorize"]].concat(), |redirect| {
        assert_eq!(get(redirect).0, 200);
    });
    assert_no_secret(&opened);
    let first = tokens();
    assert!(first > 0, "{opened}");
    assert_no_secret(&user.run(&[&check[..], &["--trace"]].concat()));
    assert!(tokens() > first);
    assert_eq!(server.token_forms().len(), 1);
    // Whatever its outcome: a token that is bound to a key cannot be used.
    let bound = ["login", "--device", "--dpop", "always", &server.url];
    user.run(&bound).assert_ok();
    user.run(&check).assert_code(6).assert_stderr(&["bound to a key", "--dpop never"]);
}

// covers: SEC-019
#[test]
fn header_fields_go_to_the_mcp_server_alone() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    let args = ["login", "--header", "X-Api-Key: k3y", &server.url];
    user.run_with_browser(&server, &args, |redirect| assert_eq!(get(redirect).0, 200)).assert_ok();
    user.run(&["ping", "-n", "1", "--header", "X-Api-Key: k3y", &server.url]).assert_ok();
    let has_key =
        |path: &str| server.requests(path).iter().all(|request| request.fields.contains_key("x-api-key"));
    assert!(has_key("/mcp"));
    for path in
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/token"]
    {
        assert!(!server.requests(path).is_empty() && !has_key(path), "{path}");
    }
}

#[test]
fn damaged_store_is_named_and_not_overwritten() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    std::fs::write(user.store(), "not a store").expect("a file");
    for args in [&["login", "--show"][..], &["login", "--forget"], &["ping"], &["login", "--grant", "device"]]
    {
        let done = user.run(&[args, &[&server.url]].concat()).assert_code(6);
        done.assert_stderr(&["the token store at http", &user.environment(), "--token-store"]);
    }
    assert_eq!(std::fs::read_to_string(user.store()).expect("a file"), "not a store");
    assert_eq!(server.token_forms().len(), 0);
}

// covers: AUTH-064
#[test]
fn store_that_others_can_read_is_repaired_and_said() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    std::fs::set_permissions(user.store(), std::fs::Permissions::from_mode(0o644)).expect("our file");
    let done = user.run(&["ping", "-n", "1", &server.url]).assert_ok();
    done.assert_stderr(&["note:", "open to other users (mode 0644)", &user.environment()]);
    assert_eq!(std::fs::metadata(user.store()).expect("stored").permissions().mode() & 0o777, 0o600);
    let done = user.run(&["ping", "-n", "1", &server.url]).assert_ok();
    assert!(!done.stderr.contains("open to other users"), "{done}");
}

#[cfg(target_os = "linux")]
#[test]
fn locked_store_is_waited_for() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    expire_tokens(&user.store());
    let locks = || std::fs::read_dir(user.folder.path()).expect("a folder").filter_map(Result::ok);
    // The lock of each key: a first refresh has created it.
    user.run(&["ping", "-n", "1", &server.url]).assert_ok();
    expire_tokens(&user.store());
    let held: Vec<std::fs::File> = locks()
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "lock"))
        .filter(|entry| entry.file_name() != "tokens.json.lock")
        .map(|entry| lock(&entry.path()))
        .collect();
    assert!(!held.is_empty());
    // Another process refreshes, at an authorization server that is slow.
    let releaser = thread::spawn(move || {
        thread::sleep(Duration::from_secs(12));
        drop(held);
    });
    let done = user.run(&["ping", "-n", "1", &server.url]).assert_ok();
    assert!(done.elapsed >= Duration::from_secs(11), "{done}");
    releaser.join().expect("no panic");
    // The file itself is locked for a moment at most.
    expire_tokens(&user.store());
    let _held = lock(&user.folder.path().join("tokens.json.lock"));
    let done = user.run(&["ping", "-n", "1", &server.url]).assert_code(4);
    assert!(done.elapsed >= Duration::from_secs(10), "{done}");
    done.assert_stderr(&[
        "the token store at http",
        &user.environment(),
        "was locked by another process or thread for 10s",
        "is another mcp-probe about to renew a token?",
    ]);
}

/// Locks a file as another process does.
#[cfg(target_os = "linux")]
fn lock(path: &std::path::Path) -> std::fs::File {
    let file = std::fs::File::options().write(true).open(path).expect("a lock");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("free");
    file
}

#[test]
fn refused_delete_after_a_good_answer_costs_a_diagnostic() {
    let behaviour = Behaviour { refuses_delete: true, ..Behaviour::default() };
    let (user, server) = (User::new(), ProtectedServer::new(behaviour));
    user.log_in(&server).assert_ok();
    for runtime in ["blocking", "threads", "smol"] {
        let args = ["call", "greet", "--era", "legacy", "--runtime", runtime, &server.url];
        let done = user.run(&args).assert_ok();
        assert_eq!(done.stdout, "hello\n");
        assert!(done.elapsed < Duration::from_secs(10) && !done.stderr.contains("DELETE"), "{done}");
        let done = user.run(&[&args[..], &["--trace"]].concat()).assert_ok();
        done.assert_stderr(&["note:", "the server refused to end the session (HTTP status 401)"]);
    }
    let deleted = server.requests("/mcp").iter().filter(|request| request.method == "DELETE").count();
    assert!(deleted >= 6, "{deleted}");
    assert_eq!(server.token_forms().len(), 1);
    user.run(&["login", "--show", &server.url]).assert_ok();
}

#[test]
fn bridge_uses_stored_tokens_and_writes_messages_alone() {
    let (user, server) = (User::new(), ProtectedServer::new(Behaviour::default()));
    user.log_in(&server).assert_ok();
    let call = ["call", "greet", "--", PROBE, "bridge", &server.url];
    assert_eq!(run_as(&user, &call).assert_ok().stdout, "hello\n");
    user.run(&["login", "--forget", &server.url]).assert_ok();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let environment = user.environment();
    let environment = [("MCP_TOKEN_STORE", &*environment)];
    let done =
        run_with_input(&["bridge", &server.url], &environment, &format!("{initialize}\n")).assert_code(6);
    for line in done.stdout.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {done}"));
    }
    done.assert_stderr(&["a user has to log in", "mcp-probe login"]);
    // A browser login beside the messages: nothing of it is on stdout.
    let opened = user.folder.path().join("opened-by-bridge");
    let browser = browser_command(&opened);
    let visited = server.clone();
    let visitor = thread::spawn(move || assert_eq!(get(&visited.follow(&opened)).0, 200));
    let call = ["call", "greet", "--", PROBE, "bridge", "--authorize", "--browser", &browser, &server.url];
    assert_eq!(run_as(&user, &call).assert_ok().stdout, "hello\n");
    visitor.join().expect("no panic");
}

#[test]
fn gateway_uses_stored_tokens_of_each_server() {
    let user = User::new();
    let [first, second] = [(); 2].map(|()| ProtectedServer::new(Behaviour::default()));
    user.log_in(&first).assert_ok();
    let servers = json!({"mcpServers": {"first": {"url": first.url}, "second": {"url": second.url}}});
    let file = user.folder.write("mcp.json", &servers.to_string());
    let call = |tool: &str| run_as(&user, &["call", tool, "--", PROBE, "gateway", "--config", &file]);
    assert_eq!(call("first_greet").assert_ok().stdout, "hello\n");
    // Nobody has logged in at the other one, and nobody is asked.
    call("second_greet").assert_code(1).assert_stderr(&[
        "`second`: the server behind the bridge cannot be started: ",
        "a user has to log in",
    ]);
}

/// The client gets the cause and the command without the URL of the server; the stderr of the proxy has the URL, too.
#[test]
fn login_that_ends_in_a_session_is_told_with_what_helps() {
    let user = User::new();
    for (command, tool) in [("bridge", "greet"), ("gateway", "first_greet")] {
        let server = ProtectedServer::new(Behaviour::default());
        user.log_in(&server).assert_ok();
        let servers = json!({"mcpServers": {"first": {"url": server.url}}}).to_string();
        let file = user.folder.write("mcp.json", &servers);
        let mut child = match command {
            "bridge" => user.start(&["bridge", &server.url]),
            _ => user.start(&["gateway", "--config", &file]),
        };
        let mut input = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut ask = |id: u8, method: &str, params: Value| {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            writeln!(input, "{request}").expect("it reads");
            let mut messages = lines.by_ref().map(|line| line.expect("UTF-8"));
            let answers = |line: &String| serde_json::from_str::<Value>(line).expect("JSON")["id"] == id;
            messages.find(answers).expect("an answer")
        };
        let client = json!({"name": "c", "version": "1"});
        ask(
            1,
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        );
        let answer = ask(2, "tools/call", json!({"name": tool, "arguments": {}}));
        assert!(answer.contains("hello"), "{command}: {answer}");
        server.refuse_all_tokens();
        let answer = ask(3, "tools/call", json!({"name": tool, "arguments": {}}));
        let told = "the login is missing or has ended; `mcp-probe login` with the URL of the server";
        assert!(answer.contains(told) && !answer.contains(&server.url), "{command}: {answer}");
        drop((input, lines));
        let mut stderr = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
        let help = format!("`mcp-probe login {}` logs in again", server.url);
        assert!(stderr.contains(&help), "{command}: {stderr}");
        child.wait().expect("it ends");
    }
}

/// Runs a command whose server is a bridge or a gateway, which gets the token store by `--env`.
fn run_as(user: &User, args: &[&str]) -> ProbeOutput {
    let (first, rest) = args.split_first().expect("a command");
    user.run(&[&[*first, "--env", "MCP_TOKEN_STORE"], rest].concat())
}

#[test]
fn tokens_are_forgotten_even_if_they_cannot_be_revoked() {
    let behaviour = Behaviour { is_revocation_down: true, ..Behaviour::default() };
    let (user, server) = (User::new(), ProtectedServer::new(behaviour));
    user.log_in(&server).assert_ok();
    let done = user.run(&["login", "--forget", &server.url]).assert_code(6);
    done.assert_stderr(&["forgotten here, but not revoked", "the revocation request", "503", "RFC 7009"]);
    user.run(&["login", "--show", &server.url]).assert_code(6);
}
