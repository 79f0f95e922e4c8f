//! Tests of cards and catalogs.

use alloc::string::ToString;
use alloc::vec;

use super::*;

fn card() -> ServerCard {
    ServerCard::new("com.example/tides", "1.2.0", "Tide tables")
}

fn with(remote: CardRemote) -> ServerCard {
    card().remotes([remote])
}

fn error(card: &ServerCard) -> String {
    let error = card.check().expect_err("not valid").to_string();
    assert_eq!(card.to_card().expect_err("not written").to_string(), error);
    assert_eq!(card.to_server_json().expect_err("not written").to_string(), error);
    error
}

fn variables<const N: usize>(names: [&str; N]) -> Map<CardInput> {
    names.into_iter().map(|name| (name, CardInput::new())).collect()
}

#[test]
fn card_and_server_json_differ_in_schema_and_packages() {
    let transport = CardPackageTransport::new(CardTransport::Stdio);
    let remote =
        CardRemote::http("https://tides.example/mcp").supported_protocol_versions(["2026-07-28".into()]);
    let card = with(remote)
        .title("Tides")
        .packages([CardPackage::new("cargo", "tides", transport).version("1.2.0")])
        .meta(RawJson::new(r#"{"com.example/x":1}"#).expect("JSON"));
    assert_eq!(
        card.to_card().expect("valid").as_str(),
        r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json","name":"com.example/tides","version":"1.2.0","description":"Tide tables","title":"Tides","remotes":[{"type":"streamable-http","url":"https://tides.example/mcp","supportedProtocolVersions":["2026-07-28"]}],"_meta":{"com.example/x":1}}"#
    );
    assert_eq!(
        card.to_server_json().expect("valid").as_str(),
        r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"com.example/tides","version":"1.2.0","description":"Tide tables","title":"Tides","remotes":[{"type":"streamable-http","url":"https://tides.example/mcp"}],"packages":[{"registryType":"cargo","identifier":"tides","transport":{"type":"stdio"},"version":"1.2.0"}],"_meta":{"com.example/x":1}}"#
    );
    // A written card can be read again; its schema is among the other members, and is written once.
    let read: ServerCard = card.to_card().expect("valid").parse().expect("a card");
    assert_eq!(read.to_card(), card.to_card());
}

#[test]
fn examples_of_the_schema_are_read_and_written() {
    let templated = r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json","name":"example-org/with-remote","version":"2.1.0","description":"A templated endpoint.","websiteUrl":"https://example.com","remotes":[{"type":"streamable-http","url":"https://{tenant}.example.com/mcp","headers":[{"name":"Authorization","description":"Token.","isRequired":true,"isSecret":true,"value":"Bearer {token}","variables":{"token":{"description":"API token.","isRequired":true,"isSecret":true}}}],"variables":{"tenant":{"description":"Subdomain.","isRequired":true,"default":"default"}},"supportedProtocolVersions":["2025-06-18","2025-11-25"]}]}"#;
    let minimal = r#"{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json","name":"example-org/minimal","version":"1.0.0","description":"Smallest valid Server Card."}"#;
    for text in [templated, minimal] {
        let card: ServerCard = serde_json::from_str(text).expect("a card");
        assert_eq!(card.to_card().expect("valid").as_str(), text);
    }
}

#[test]
fn card_of_a_server_has_what_the_server_says() {
    let icons = ["https://a/b.png", "file:///etc/passwd"].map(Icon::new);
    let mut info = Implementation::new("com.example/tides", "1")
        .title("T")
        .description("D")
        .website_url("https://a")
        .icons(icons);
    let card = ServerCard::from_info(&info);
    assert_eq!((card.check(), card.icons.len()), (Ok(()), 1));
    assert_eq!((card.title.as_deref(), card.website_url.as_deref()), (Some("T"), Some("https://a")));
    info.description = None;
    assert_eq!(error(&ServerCard::from_info(&info)), "`description`: is empty");
    let name = "`name`: is not in reverse-DNS form with one slash, as in `com.example/weather`";
    assert_eq!(error(&ServerCard::from_info(&Implementation::new("tides", "1").description("D"))), name);
}

#[test]
fn wrong_members_are_named() {
    let named = |name: &str| ServerCard::new(name, "1", "D");
    for name in ["a/b", "com.example/a_b.c-1", &alloc::format!("a/{}", "b".repeat(198))] {
        assert_eq!(named(name).check(), Ok(()), "{name}");
    }
    for name in
        ["", "tides", "a/b/c", "/b", "a/", "a b/c", "a_b/c", "a/é", &alloc::format!("a/{}", "b".repeat(199))]
    {
        assert!(error(&named(name)).starts_with("`name`: "), "{name}");
    }
    for version in ["1.0.2", "2.1.0-alpha", "2026-11-22", "1.0.0-x.1", "v1", "1.0+linux.x"] {
        assert_eq!(ServerCard::new("a/b", version, "D").check(), Ok(()), "{version}");
    }
    for version in ["", "^1.2.3", "~1.2.3", ">=1.2.3", "1.x", "1.*", "*", "1 - 2", "1 || 2", &"1".repeat(256)]
    {
        assert!(error(&ServerCard::new("a/b", version, "D")).starts_with("`version`: "), "{version}");
    }
    let long = "ü".repeat(101);
    assert_eq!(error(&ServerCard::new("a/b", "1", &*long)), "`description`: has more than 100 characters");
    assert_eq!(ServerCard::new("a/b", "1", "ü".repeat(100)).check(), Ok(()));
    assert_eq!(error(&card().title("")), "`title`: is empty");
    assert!(error(&card().website_url("tides.example")).starts_with("`websiteUrl`: the URL begins neither"));
    assert!(error(&card().icons([Icon::new("file:///a")])).starts_with("`icons[0].src`: the scheme"));
    let repository = |url: &str| CardRepository::new(url, "github");
    assert_eq!(card().repository(repository("https://a.example/b").subfolder("src/a")).check(), Ok(()));
    assert!(error(&card().repository(repository("git@a.example:b"))).starts_with("`repository.url`: "));
    for path in ["", "/a", "a/../b", "a//b", "./a", "a\\b", "c:/a"] {
        let wrong = card().repository(repository("https://a.example").subfolder(path));
        assert!(error(&wrong).starts_with("`repository.subfolder`: "), "{path}");
    }
    assert_eq!(
        error(&card().repository(CardRepository::new("https://a", ""))),
        "`repository.source`: is empty"
    );
}

#[test]
fn urls_of_remotes_are_https_or_described_templates() {
    let remote = |url: &str| CardRemote::http(url).variables(variables(["tenant", "_1"]));
    for url in [
        "https://a.example/mcp",
        "http://127.0.0.1:8000/mcp",
        "http://localhost/mcp",
        "https://{tenant}.a.example:8443/{_1}/mcp?x={tenant}",
        "{tenant}/mcp",
    ] {
        assert_eq!(with(remote(url)).check(), Ok(()), "{url}");
    }
    for (url, reason) in [
        ("http://a.example/mcp", "is not `https`"),
        ("/mcp", "the URL begins neither with `http://` nor with `https://`"),
        ("https://a b/mcp", "the host of the URL is missing or malformed"),
        ("https://user:pass@a.example/mcp", "the URL contains a user name or a password"),
        ("https://{other}.example/mcp", "`variables` does not describe the placeholder `{other}`"),
        ("https://{a-b}.example/mcp", "a placeholder is not the name of a variable"),
        ("https://{}.example/mcp", "a placeholder is not the name of a variable"),
        ("https://a.example/{tenant", "a `{` is not closed"),
        ("https://a.example/}{tenant}", "a `}` is not opened"),
        ("https://a.example/tenant}", "a `}` is not opened"),
        ("ftp://a.example/{tenant}", "the URL begins neither with `http://` nor with `https://`"),
    ] {
        assert_eq!(error(&with(remote(url))), alloc::format!("`remotes[0].url`: {reason}"), "{url}");
    }
    for (transport, reason) in
        [(CardTransport::Stdio, "`remotes[0].type`"), ("ws".into(), "`remotes[0].type`")]
    {
        assert!(error(&with(CardRemote::new(transport, "https://a.example"))).starts_with(reason));
    }
    let old = with(CardRemote::new(CardTransport::Sse, "https://a.example/sse"));
    assert!(old.check().is_ok() && old.has_deprecated_remote() && !card().has_deprecated_remote());
    let unnamed = CardRemote::http("https://a.example").supported_protocol_versions([String::new()]);
    assert_eq!(error(&with(unnamed)), "`remotes[0].supportedProtocolVersions[0]`: is empty");
    let misnamed = CardRemote::http("https://a.example").variables(variables(["a b"]));
    assert_eq!(error(&with(misnamed)), "`remotes[0].variables.a b`: is not the name of a variable");
}

#[test]
fn secrets_have_no_fixed_values() {
    let check = |header: CardHeader| with(CardRemote::http("https://a.example").headers([header])).check();
    let message = |header| check(header).expect_err("refused").to_string();
    let secret = || CardHeader::new("X-Tenant").is_secret(true);
    let token = || variables(["token"]);
    assert_eq!(check(secret()), Ok(()));
    assert_eq!(check(CardHeader::new("X-Tenant").value("blue").choices(["blue".into()])), Ok(()));
    assert_eq!(check(CardHeader::new("Authorization").value("Bearer {token}").variables(token())), Ok(()));
    let fixed = "is fixed in a public document, but the input is confidential";
    for (header, member) in [
        (secret().value("hunter2"), "value"),
        (secret().default("hunter2"), "default"),
        // The name says it, whether or not the author did.
        (CardHeader::new("Authorization").value("Bearer hunter2"), "value"),
        (CardHeader::new("X-Api-Key").default("hunter2"), "default"),
    ] {
        let message = message(header);
        assert_eq!(message, alloc::format!("`remotes[0].headers[0].{member}`: {fixed}"));
        assert!(!message.contains("hunter2"));
    }
    let input = CardInput::new().is_secret(true).value("hunter2");
    let header = secret().value("Bearer {token}").variables([("token", input)]);
    assert_eq!(message(header), alloc::format!("`remotes[0].headers[0].variables.token.value`: {fixed}"));
    // The user is asked for nothing: all of it is in the document.
    for filled in [CardInput::new().value("hunter2"), CardInput::new().default("hunter2")] {
        let header = secret().value("Bearer {token}").variables([("token", filled)]);
        assert_eq!(message(header), alloc::format!("`remotes[0].headers[0].value`: {fixed}"));
    }
    let both = [("token", CardInput::new()), ("scheme", CardInput::new().default("Bearer"))];
    assert_eq!(check(secret().value("{scheme} {token}").variables(both)), Ok(()));
    assert!(message(secret().choices(["a".into()])).starts_with("`remotes[0].headers[0].choices`: "));
    assert!(message(secret().value("{other}")).contains("does not describe the placeholder `{other}`"));
    assert!(message(CardHeader::new("a b")).ends_with("is not the name of a header field"));
    assert!(message(CardHeader::new("X-A").value("a\r\nb")).ends_with("contains a control character"));
    assert!(
        message(CardHeader::new("X-A").value("a").choices(["b".into()])).ends_with("is none of the choices")
    );
    assert!(message(CardHeader::new("X-A").format("date")).starts_with("`remotes[0].headers[0].format`"));
    let twice =
        CardRemote::http("https://a.example").headers(vec![CardHeader::new("A"), CardHeader::new("a")]);
    assert_eq!(error(&with(twice)), "`remotes[0].headers[1].name`: another header has this name");
}

#[test]
fn packages_are_exact() {
    let stdio = || CardPackageTransport::new(CardTransport::Stdio);
    let package = || CardPackage::new("npm", "tides", stdio()).version("1.0.0");
    assert_eq!(card().packages([package().file_sha256("0a".repeat(32))]).check(), Ok(()));
    let http = CardPackageTransport::new(CardTransport::StreamableHttp);
    for (package, path) in [
        (CardPackage::new("", "tides", stdio()), "`packages[0].registryType`"),
        (CardPackage::new("npm", "", stdio()), "`packages[0].identifier`"),
        (package().version("latest"), "`packages[0].version`"),
        (package().version("^1"), "`packages[0].version`"),
        (package().file_sha256("0A".repeat(32)), "`packages[0].fileSha256`"),
        (package().registry_base_url("npmjs.org"), "`packages[0].registryBaseUrl`"),
        (CardPackage::new("npm", "tides", http), "`packages[0].transport.url`"),
        (CardPackage::new("mcpb", "https://a.example/x.mcpb", stdio()), "`packages[0].fileSha256`"),
        (
            CardPackage::new("npm", "tides", stdio().headers([CardHeader::new("A")])),
            "`packages[0].transport.headers`",
        ),
        (CardPackage::new("npm", "tides", stdio().url("https://a")), "`packages[0].transport.url`"),
        (CardPackage::new("npm", "tides", CardPackageTransport::new("ws")), "`packages[0].transport.type`"),
        (
            package().environment_variables([CardHeader::new("A=B")]),
            "`packages[0].environmentVariables[0].name`",
        ),
        (
            package().environment_variables([CardHeader::new("KEY").is_secret(true).default("x")]),
            "`packages[0].environmentVariables[0].default`",
        ),
    ] {
        assert!(error(&card().packages([package])).starts_with(path), "{path}");
    }
}

#[test]
fn server_json_allows_less_than_a_card() {
    let icon = |src: &str| Icon::new(src);
    let long = alloc::format!("https://a.example/{}", "b".repeat(255));
    for (wrong, message) in [
        (card().icons([icon("data:image/png;base64,AA==")]), "`icons[0].src`: is not an `https` URL"),
        (card().icons([icon("http://a.example/b.png")]), "`icons[0].src`: is not an `https` URL"),
        (card().icons([icon(&long)]), "`icons[0].src`: is not an `https` URL"),
        (card().icons([icon("https://a/b").mime_type("image/gif")]), "`icons[0].mimeType`: "),
        (card().icons([icon("https://a/b").sizes(["any".into(), "48".into()])]), "`icons[0].sizes[1]`: "),
        (card().icons([icon("https://a/b").sizes(["48x".into()])]), "`icons[0].sizes[0]`: "),
        (
            with(CardRemote::http("{tenant}/mcp").variables(variables(["tenant"]))),
            "`remotes[0].url`: begins with a placeholder",
        ),
    ] {
        assert!(wrong.to_card().is_ok(), "{message}");
        let error = wrong.to_server_json().expect_err("refused").to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let good = icon("https://a/b").mime_type("image/webp").sizes(["any".into(), "48x48".into()]);
    assert!(card().icons([good]).to_server_json().is_ok());
}

#[test]
fn braces_around_other_text_are_literal() {
    let transport = || CardPackageTransport::new(CardTransport::Stdio);
    let package = |value: &str| {
        let argument = CardArgument::named("--config").value(value).variables(variables(["key"]));
        card().packages([CardPackage::new("npm", "tides", transport()).package_arguments([argument])])
    };
    for value in [r#"{"a": 1}"#, "{}", "a}", "{", "{a b}", r#"{"a": "{key}"}"#, "{{key}}"] {
        assert_eq!(package(value).check(), Ok(()), "{value}");
    }
    for value in ["{other}", r#"{"a": "{other}"}"#, "{key}{{other}"] {
        assert!(error(&package(value)).ends_with("does not describe the placeholder `{other}`"), "{value}");
    }
    // Literal braces ask the user for nothing.
    let secret = CardHeader::new("X-Key").is_secret(true).value("{hunter 2}");
    assert!(error(&with(CardRemote::http("https://a.example").headers([secret]))).contains("is fixed"));
}

#[test]
fn values_have_their_format() {
    let check = |input: CardInput| {
        with(CardRemote::http("https://a.example/{x}").variables([("x", input)]))
            .check()
            .map_err(|e| e.to_string())
    };
    for (format, good, bad) in [
        ("number", &["0", "-1", "12.50"][..], &["", "-", "1.", ".5", "1e3", "0x1", "one", "--1"][..]),
        ("boolean", &["true", "false"], &["", "True", "1"]),
        ("string", &["", "x"], &[]),
        ("filepath", &["/a"], &[]),
    ] {
        let input = || CardInput::new().format(format);
        for text in good.iter().copied() {
            let given = [input().value(text), input().default(text), input().choices([text.into()])];
            assert!(given.into_iter().all(|input| check(input).is_ok()), "{format}: {text}");
        }
        for text in bad.iter().copied() {
            for (input, member) in [
                (input().value(text), "value"),
                (input().default(text), "default"),
                (input().choices([text.into()]), "choices[0]"),
            ] {
                let error = check(input).expect_err(text);
                assert!(
                    error.starts_with(&alloc::format!("`remotes[0].variables.x.{member}`: is n")),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn arguments_are_typed_and_checked() {
    let package = || {
        let http =
            CardPackageTransport::new(CardTransport::StreamableHttp).url("http://localhost:{--port}/{PATH_}");
        CardPackage::new("npm", "tides", http)
            .runtime_arguments([CardArgument::named("-y"), CardArgument::positional("image").value("tides")])
            .package_arguments([
                CardArgument::named("--port").format("number").default("8000").is_required(true),
                CardArgument::positional("folder").format("filepath").is_repeated(true),
            ])
            .environment_variables([CardHeader::new("PATH_"), CardHeader::new("KEY").is_secret(true)])
    };
    let written = card().packages([package()]).to_server_json().expect("valid");
    for part in [
        r#""url":"http://localhost:{--port}/{PATH_}""#,
        r#""runtimeArguments":[{"type":"named","name":"-y"},{"type":"positional","valueHint":"image","value":"tides"}]"#,
        r#"{"type":"named","name":"--port","isRequired":true,"format":"number","default":"8000"}"#,
        r#"{"type":"positional","valueHint":"folder","isRepeated":true,"format":"filepath"}"#,
    ] {
        assert!(written.as_str().contains(part), "{part} is not in {}", written.as_str());
    }
    let read: ServerCard = written.parse().expect("a card");
    assert_eq!(read.to_server_json(), Ok(written));

    let secret = || CardArgument::named("--key").is_secret(true);
    let asked = secret().value("k={key}").variables(variables(["key"]));
    assert_eq!(card().packages([package().runtime_arguments([asked])]).check(), Ok(()));
    for (argument, member) in [
        (CardArgument::new(CardArgumentKind::Named), "name`: is missing"),
        (CardArgument::named(""), "name`: is missing"),
        (CardArgument::positional("a").name("--a"), "name`: has no meaning"),
        (CardArgument::new(CardArgumentKind::Positional), "valueHint`: is missing"),
        (CardArgument::positional(""), "valueHint`: is empty"),
        (CardArgument::new("flag"), "type`: is neither"),
        (CardArgument::named("--n").format("number").default("many"), "default`: is not a number"),
        (CardArgument::named("--n").value("{n}"), "value`: `variables` does not describe"),
        (secret().value("hunter2"), "value`: is fixed"),
        (secret().default("hunter2"), "default`: is fixed"),
        (
            secret().value("k={key}").variables([("key", CardInput::new().value("hunter2"))]),
            "value`: is fixed",
        ),
    ] {
        let message = error(&card().packages([package().runtime_arguments([argument])]));
        assert!(
            message.starts_with(&alloc::format!("`packages[0].runtimeArguments[0].{member}")),
            "{message}"
        );
        assert!(!message.contains("hunter2"));
    }
    for (url, reason) in [
        ("http://localhost:{port}/mcp", "no argument or environment variable describes `{port}`"),
        ("http://localhost:{--port/mcp", "a `{` is not closed"),
        ("localhost", "the URL begins neither"),
        ("{PATH_}/mcp", "begins with a placeholder"),
    ] {
        let http = CardPackageTransport::new(CardTransport::StreamableHttp).url(url);
        let package = CardPackage::new("npm", "tides", http);
        let message = error(&card().packages([package.environment_variables([CardHeader::new("PATH_")])]));
        assert!(message.contains("packages[0].transport.url") && message.contains(reason), "{message}");
    }
    let header = CardHeader::new("Authorization").value("Bearer hunter2");
    let http = CardPackageTransport::new(CardTransport::Sse).url("http://localhost/sse").headers([header]);
    let message = error(&card().packages([CardPackage::new("npm", "tides", http)]));
    assert!(message.starts_with("`packages[0].transport.headers[0].value`: is fixed"), "{message}");
}

#[test]
fn catalog_names_the_card_or_holds_it() {
    let catalog = |card: &ServerCard| card.to_catalog().expect("valid").to_json();
    assert_eq!(
        catalog(&with(CardRemote::http("https://a.example/mcp/"))).as_str(),
        r#"{"specVersion":"1.0","entries":[{"identifier":"urn:air:example.com:mcp:tides","type":"application/mcp-server-card+json","url":"https://a.example/mcp/server-card"}]}"#
    );
    let templated = CardRemote::http("https://{t}.example").variables(variables(["t"]));
    let inline = catalog(&with(templated));
    let entry = inline.member("entries").and_then(|entries| entries.elements()).expect("entries").remove(0);
    assert!(entry.member("url").is_none());
    assert!(entry.member("data").expect("a card").as_str().starts_with(r#"{"$schema":"#));
    assert!(ServerCard::new("x", "1", "D").to_catalog().is_err());
    let error = AiCatalog::default().with_card(&card(), "mcp/server-card").expect_err("no URL").to_string();
    assert!(error.starts_with("`url`: "), "{error}");
}

#[test]
fn card_that_nests_too_deep_is_refused() {
    let meta = |depth: usize| {
        RawJson::new(format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)))
            .expect("JSON within its depth")
    };
    assert!(card().meta(meta(100)).to_card().expect("valid").as_str().contains("\"a\":1}"));
    let error = card().meta(meta(128)).to_card().expect_err("a member more than can be read");
    assert!(error.to_string().contains("nests too deep"), "{error}");
}
