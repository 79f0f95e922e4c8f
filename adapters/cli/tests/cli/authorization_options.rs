//! Options of authorization: wrong ones, each grant, and the exit codes of failures.

use std::path::Path;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::protected_server::{Behaviour, ProtectedServer, expire_tokens};
use crate::support::{ClosedAddress, ProbeOutput, run};

const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/client-key.pem");

/// Runs `mcp-probe login` with a store of its own.
fn log_in(args: &[&str]) -> ProbeOutput {
    let folder = TemporaryDirectory::new();
    let store = folder.path().join("tokens.json").display().to_string();
    run(
        &[&["login", "--json"], args].concat(),
        &[("MCP_TOKEN_STORE", &store), ("PROBE_SECRET", "t0p"), ("PROBE_EMPTY", "")],
    )
}

fn write(folder: &TemporaryDirectory, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

// covers: SEC-019
#[test]
fn wrong_options_exit_with_2_before_anything_is_sent() {
    let server = ProtectedServer::new(Behaviour::default());
    let folder = TemporaryDirectory::new();
    let token = format!("@{}", write(&folder, "token", "hunter2"));
    let (empty, damaged) = (write(&folder, "empty", ""), write(&folder, "damaged", "-----BEGIN hunter2"));
    let empty = format!("@{empty}");
    let client = ["--client-id", "c"];
    let cases: &[(&[&str], &str)] = &[
        (&["--client-secret", "hunter2"], "--client-id"),
        (&["--client-key", KEY], "--client-key needs --client-id"),
        (&["--client-id", "c", "--client-secret", "hunter2", "--client-key", KEY], "cannot be used with"),
        (&["--client-id", "c", "--client-metadata", "https://c/x"], "cannot be used with"),
        (
            &["--client-id", "c", "--client-secret", "env:PROBE_UNSET"],
            "the variable PROBE_UNSET: it is not set",
        ),
        (&["--client-id", "c", "--client-secret", "env:PROBE_EMPTY"], "--client-secret: it is empty"),
        (&["--client-id", "c", "--client-secret", "@/no/such/file"], "the file /no/such/file"),
        (&["--client-id", "c", "--client-key", "/no/such/key"], "the file /no/such/key"),
        (&["--client-id", "c", "--client-key", &damaged], "--client-key: the file"),
        (
            &["--client-metadata", "http://c.example/client.json"],
            "--client-metadata: the client id metadata document",
        ),
        (&["--client-metadata", "c.json"], "--client-metadata: the client id metadata document"),
        (&["--grant", "password"], "invalid value 'password'"),
        (&["--grant", "client-credentials"], "--grant client-credentials needs --client-id"),
        (&[client[0], client[1], "--grant", "client-credentials"], "needs --client-secret or --client-key"),
        (&[client[0], client[1], "--grant", "enterprise"], "--grant enterprise needs --id-token and --idp"),
        (
            &[client[0], client[1], "--grant", "enterprise", "--id-token", &token],
            "needs --id-token and --idp",
        ),
        (&[client[0], client[1], "--idp", "https://idp"], "needs --id-token and --idp"),
        (&[client[0], client[1], "--idp", "http://idp", "--id-token", &token], "--idp: must be https"),
        (&[client[0], client[1], "--idp", "ftp://idp", "--id-token", &token], "--idp:"),
        (&["--idp", "https://idp", "--id-token", &token], "--grant enterprise needs --client-id"),
        (&[client[0], client[1], "--grant", "assertion"], "--grant assertion needs --assertion"),
        (&["--assertion", &token], "--grant assertion needs --client-id"),
        (&[client[0], client[1], "--assertion", "hunter2"], "--assertion: must be @FILE or env:NAME"),
        (&[client[0], client[1], "--assertion", "@/no/such/file"], "--assertion: the file /no/such/file"),
        (&[client[0], client[1], "--assertion", &empty], "--assertion: it is empty"),
        (
            &[client[0], client[1], "--assertion", &token, "--grant", "code"],
            "--assertion contradicts --grant code",
        ),
        (&[client[0], client[1], "--assertion", &token, "--browser", "x"], "asks no user"),
        (&["--assertion", &token, "--id-token", &token], "cannot be used with"),
        (&["--device", "--grant", "code"], "--device contradicts --grant code"),
        (&["--device", "--no-browser"], "cannot be used with"),
        (&["--browser", "x", "--no-browser"], "cannot be used with"),
        (&["--browser", "'x"], "--browser: the browser command"),
        (&["--browser", ""], "--browser: the browser command"),
        (&["--scope", "a\"b"], "--scope: a scope has a character"),
        (&["--scope", ""], "--scope: a scope has a character"),
        (&["--dpop", "sometimes"], "invalid value 'sometimes'"),
        (&["--login-wait", "0"], "longer than 0"),
        (&["--login-wait", "soon"], "must be a duration"),
        (&["--allow-http", "http://h"], "--allow-http: must be the name of a host"),
        (&["--allow-http", "h:8080"], "--allow-http: must be the name of a host"),
        (&["--allow-http", "h/x"], "--allow-http: must be the name of a host"),
        (&["--token-store", ""], "a value is required for '--token-store"),
        (&["--era", "modern", "--protocol-version", "2025-03-26"], "belongs to the legacy era"),
    ];
    for (options, wanted) in cases {
        let done = log_in(&[options, &[&*server.url][..]].concat()).assert_code(2).assert_stderr(&[wanted]);
        assert!(!done.stderr.contains("hunter2") && !done.stdout.contains("hunter2"), "{done}");
        assert_eq!(done.json()["error"]["kind"], "usage");
    }
    assert!(server.requests("/mcp").is_empty());
}

#[test]
fn options_of_other_commands_are_checked_alike() {
    let server = ProtectedServer::new(Behaviour { is_open: true, ..Behaviour::default() });
    let url = &*server.url;
    let cases: &[(&[&str], &str)] = &[
        (&["ping", "--browser", "x", url], "--browser says how to log in: add --authorize"),
        (&["ping", "--no-browser", url], "--no-browser says how to log in"),
        (&["ping", "--device", url], "--device says how to log in"),
        (&["ping", "--login-wait", "5", url], "--login-wait says how to log in"),
        (&["ping", "--authorize", "--", "true"], "--authorize needs a server over HTTP"),
        (&["ping", "--token-store", "x", "--", "true"], "--token-store needs a server over HTTP"),
        (&["ping", "--dpop", "never", "--", "true"], "--dpop needs a server over HTTP"),
        (&["call", "x", "--args", "-", "--authorize", "--no-browser", url], "where --args comes from"),
        (&["bridge", "--authorize", "--no-browser", url], "where the messages of the client come from"),
        (&["bridge", "--client-metadata", "http://c/x", url], "--client-metadata"),
        (&["ping", "--grant", "enterprise", "--client-id", "c", url], "--grant enterprise needs"),
        (&["login", "--", "true"], "servers over HTTP"),
        (&["login", "--forget", "--", "true"], "servers over HTTP"),
        (&["login", "--show", "--", "true"], "servers over HTTP"),
        (&["login"], "no server is given"),
        (&["login", "--forget", "--client-secret", "x", url], "--client-id"),
        (&["login", "--forget", "--show", url], "cannot be used with"),
        (
            &["login", "--show", "--client-id", "c", url],
            "--show asks nobody, so --client-id means nothing there",
        ),
        (&["login", "--forget", "--device", url], "--forget gets no tokens, so --device means nothing"),
        (&["login", "--forget", "--scope", "s", url], "--scope"),
        (
            &["login", "--forget", "--client-id", "c", "--client-secret", "env:PROBE_UNSET", url],
            "it is not set",
        ),
    ];
    for (args, wanted) in cases {
        run(args, &[]).assert_code(2).assert_stderr(&[wanted]);
    }
    assert!(server.requests("/mcp").is_empty());
}

// covers: AUTH-061
#[test]
fn token_over_http_to_another_machine_needs_permission_by_name() {
    // No such host exists: nothing is sent in either case.
    let url = "http://mcp.invalid:1/mcp";
    for args in [
        &["login", url][..],
        &["ping", "--authorize", url],
        &["ping", "--bearer", "t", url],
        &["ping", "--header", "Authorization: Bearer t", url],
    ] {
        let done = run(args, &[]).assert_code(2);
        done.assert_stderr(&["http://mcp.invalid:1", "in the clear", "--allow-http mcp.invalid"]);
    }
    for args in [
        &["login", "--allow-http", "MCP.invalid", url][..],
        &["ping", "--allow-http", "mcp.invalid", "--bearer", "t", url],
        // Without a token there is nothing to protect.
        &["ping", url],
    ] {
        run(args, &[]).assert_code(3).assert_stderr(&["mcp.invalid"]);
    }
}

#[test]
fn grants_send_what_they_are_about() {
    let server = ProtectedServer::new(Behaviour { no_registration: true, ..Behaviour::default() });
    let issuer = server.url.trim_end_matches("/mcp").to_owned();
    let folder = TemporaryDirectory::new();
    let (secret, token) = (write(&folder, "secret", "t0p\n"), write(&folder, "token", "a.b.c\n"));
    let (secret, token) = (format!("@{secret}"), format!("@{token}"));
    let last = || server.token_forms().pop().expect("a token request");

    for value in ["t0p", "env:PROBE_SECRET", &secret] {
        let options =
            ["--grant", "client-credentials", "--client-id", "ci", "--client-secret", value, &server.url];
        let done = log_in(&options).assert_ok();
        let told = done.json();
        assert_eq!((&told["client_id"], &told["registration"]), (&json!("ci"), &json!("pre-registered")));
        assert_eq!(told["refreshable"], false);
        assert!(!done.stdout.contains("t0p") && !done.stderr.contains("t0p"), "{done}");
        let sent = server.requests("/token").pop().expect("a token request");
        let basic = base64::engine::general_purpose::STANDARD.encode("ci:t0p");
        assert_eq!(sent.fields["authorization"], format!("Basic {basic}"));
        assert_eq!((&*last()["grant_type"], &*last()["scope"]), ("client_credentials", "read call"));
    }
    let options = ["--grant", "client-credentials", "--client-id", "ci", "--client-key", KEY, &server.url];
    log_in(&options).assert_ok();
    assert_eq!(last()["client_assertion"].split('.').count(), 3);

    let options =
        ["--assertion", &token, "--client-id", "job", "--scope", "x", "--scope", "y z", &server.url];
    assert_eq!(log_in(&options).assert_ok().json()["scopes"], json!(["x", "y", "z"]));
    let sent = last();
    let expected = ("urn:ietf:params:oauth:grant-type:jwt-bearer", "a.b.c", "x y z");
    assert_eq!((&*sent["grant_type"], &*sent["assertion"], &*sent["scope"]), expected);

    // The identity provider is the authorization server itself.
    let options =
        ["--id-token", &token, "--idp", &issuer, "--client-id", "e", "--client-secret", "t0p", &server.url];
    log_in(&options).assert_ok();
    let forms = server.token_forms();
    let (exchange, presented) = (&forms[forms.len() - 2], &forms[forms.len() - 1]);
    assert_eq!((&*exchange["subject_token"], &*exchange["client_id"]), ("a.b.c", "e"));
    assert!(!exchange.contains_key("client_secret"));
    assert_eq!(presented["assertion"], "id-jag");

    let options = ["--device", "--client-metadata", "https://c.example/client.json", &server.url];
    assert_eq!(log_in(&options).assert_ok().json()["registration"], "metadata-document");
    assert_eq!(last()["client_id"], "https://c.example/client.json");

    for (mode, bound) in [("always", true), ("never", false), ("auto", false)] {
        let told = log_in(&["--device", "--client-id", "c", "--dpop", mode, &server.url]).assert_ok().json();
        assert_eq!(told["dpop"], bound, "{mode}");
    }
}

#[test]
fn grants_without_a_user_need_no_login() {
    let server = ProtectedServer::new(Behaviour::default());
    let folder = TemporaryDirectory::new();
    let file = folder.path().join("tokens.json");
    let store = file.display().to_string();
    let client = ["--token-store", &store, "--client-id", "ci", "--client-secret", "t0p"];
    let ping = ["ping", "-n", "1", "--grant", "client-credentials"];
    for count in 1..3 {
        run(&[&ping[..], &client, &[&*server.url]].concat(), &[]).assert_ok();
        assert_eq!(server.token_forms().len(), count);
        expire_tokens(&file);
    }
    // A secret alone does not choose the grant.
    let done = run(&[&["ping"][..], &client, &[&*server.url]].concat(), &[]).assert_code(6);
    done.assert_stderr(&["a user has to log in"]);
}

#[test]
fn tokens_of_a_client_that_is_not_named_again_are_used_and_forgotten() {
    let server = ProtectedServer::new(Behaviour { no_registration: true, ..Behaviour::default() });
    let folder = TemporaryDirectory::new();
    let store = folder.path().join("tokens.json").display().to_string();
    let clients: [&[&str]; 2] =
        [&["--client-id", "known"], &["--client-metadata", "https://c.example/client.json"]];
    for client in clients {
        run(&[&["login", "--device", "--token-store", &store][..], client, &[&*server.url]].concat(), &[])
            .assert_ok();
        run(&["ping", "-n", "1", "--token-store", &store, &server.url], &[]).assert_ok();
        let other = ["ping", "--token-store", &store, "--client-id", "other", &server.url];
        run(&other, &[]).assert_code(6);
        run(&["login", "--forget", "--token-store", &store, &server.url], &[]).assert_ok();
        run(&["login", "--show", "--token-store", &store, &server.url], &[]).assert_code(6);
    }
    assert_eq!(server.requests("/revoke").len(), 2);
}

#[test]
fn failures_name_the_step_the_server_and_the_rule() {
    let base = Behaviour::default();
    let cases = [
        (
            Behaviour { token_error: Some("access_denied"), ..base.clone() },
            6,
            &["the token request at http://", "`access_denied`", "\\u{1b}[31mtoday", "RFC"][..],
        ),
        (
            Behaviour { other_issuer: Some("https://evil.example"), ..base.clone() },
            6,
            &["the authorization server metadata at http://", "`issuer`", "AUTH-030", "mcp-probe check"],
        ),
        (
            Behaviour { no_registration: true, ..base.clone() },
            6,
            &["the client registration at http://", "not registered", "mcp-probe login --client-id ID"],
        ),
        (
            Behaviour { no_resource_metadata: true, ..base },
            6,
            &["the protected resource metadata at http://", "(404)", "mcp-probe check"],
        ),
    ];
    for (behaviour, code, wanted) in cases {
        let server = ProtectedServer::new(behaviour);
        let args = ["--device", "--no-legacy-auth", &server.url];
        let done = log_in(&args).assert_code(code).assert_stderr(wanted);
        assert_eq!(done.json()["error"]["kind"], "unauthorized");
        assert!(!done.stderr.contains('\u{1b}'), "{done}");
    }
}

// covers: AUTH-013, AUTH-069
#[test]
fn server_without_metadata_is_its_own_authorization_server_unless_option_or_revision_forbids_it() {
    let run = |options: &[&str]| {
        let server = ProtectedServer::new(Behaviour { no_resource_metadata: true, ..Behaviour::default() });
        let done = log_in(&[&["--device"], options, &[&*server.url]].concat());
        (done, server.url.trim_end_matches("/mcp").to_owned())
    };
    for options in [&[][..], &["--legacy-auth"], &["--protocol-version", "2025-03-26"], &["--era", "legacy"]]
    {
        let (done, issuer) = run(options);
        let done = done.assert_ok().assert_stderr(&["note:", "--no-legacy-auth"]);
        assert_eq!(done.json()["issuer"], issuer);
        assert_eq!(done.stderr.matches("note:").count(), 1, "{done}");
    }
    for options in [&["--no-legacy-auth"][..], &["--protocol-version", "2025-06-18"], &["--era", "modern"]] {
        run(options).0.assert_code(6).assert_stderr(&["the protected resource metadata"]);
    }
}

#[test]
fn unreachable_and_silent_hosts_have_their_own_exit_codes() {
    let closed = ClosedAddress::new();
    let url = format!("http://{closed}/mcp");
    log_in(&[&url]).assert_code(3).assert_stderr(&["not reached"]);
    run(&["ping", &url], &[]).assert_code(3);

    let server = ProtectedServer::new(Behaviour::default());
    let folder = TemporaryDirectory::new();
    let token = format!("@{}", write(&folder, "token", "a.b.c"));
    let idp = format!("http://{closed}");
    let options = ["--id-token", &token, "--idp", &idp, "--client-id", "e", &server.url];
    let done = log_in(&options).assert_code(3);
    assert_eq!(done.json()["error"]["kind"], Value::from("connection"));

    let server = ProtectedServer::new(Behaviour { is_token_silent: true, ..Behaviour::default() });
    let options = ["--grant", "client-credentials", "--client-id", "c", "--client-secret", "s", &server.url];
    log_in(&options).assert_code(4).assert_stderr(&["the token request at http://", "no answer in time"]);
}

#[test]
fn token_store_is_named_by_option_then_variable_then_data_folder() {
    let server = ProtectedServer::new(Behaviour::default());
    let folder = TemporaryDirectory::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let login = ["login", "--device", &server.url];
    let (option, variable, data) = (path("option.json"), path("variable.json"), path("data"));
    let environment = [("MCP_TOKEN_STORE", &*variable), ("XDG_DATA_HOME", &*data)];
    run(&[&login[..], &["--token-store", &option]].concat(), &environment).assert_ok();
    assert_eq!([&option, &variable, &data].map(|path| Path::new(path).exists()), [true, false, false]);
    run(&login, &environment).assert_ok();
    assert_eq!([&variable, &data].map(|path| Path::new(path).exists()), [true, false]);
    let environment = [("MCP_TOKEN_STORE", ""), ("XDG_DATA_HOME", &*data), ("HOME", &*data)];
    run(&login, &environment).assert_ok();
    assert!(Path::new(&data).exists());
}
