//! Discovery: the metadata of the protected server, and that of its authorization server.

use mcp_oauth::{Config, ErrorKind, FetchFailure, GrantType, Step, Trigger};
use mcp_proto::{Version, VersionSet};
use mcp_tests::harness::authorization::{Outcome, Reply, World};
use serde_json::json;

use super::{config, refused, run};

const RESOURCE: &str = "https://mcp.test/.well-known/oauth-protected-resource";

// covers: AUTH-022, AUTH-023, AUTH-068
#[test]
fn challenge_names_the_metadata_and_nothing_else_is_tried() {
    let mut world = World::new();
    world.move_resource_metadata("https://mcp.test/meta?v=1");
    let outcome = world.challenged(&config(), &[("resource_metadata", "https://mcp.test/meta?v=1")]);
    assert_eq!(world.urls()[0], "GET https://mcp.test/meta?v=1");
    outcome.token();
    // The document is missing there: the well-known places are not a substitute.
    let mut world = World::new();
    let error = world.challenged(&config(), &[("resource_metadata", "https://mcp.test/none")]).error();
    assert_eq!((error.rule(), world.requests.len()), ("AUTH-023", 1));
}

// covers: AUTH-022
#[test]
fn challenges_of_other_schemes_name_no_metadata() {
    use mcp_tests::harness::authorization::challenge;
    let mut world = World::new();
    let challenges = vec![
        challenge("Basic", &[("resource_metadata", "https://mcp.test/basic")]),
        challenge("bearer", &[("realm", "x")]),
        challenge("DPoP", &[("resource_metadata", "https://mcp.test/dpop")]),
    ];
    world.move_resource_metadata("https://mcp.test/dpop");
    let trigger = Trigger::Unauthorized { challenges, rejected: None };
    world.run(&config(), trigger).token();
    assert_eq!(world.urls()[0], "GET https://mcp.test/dpop");
}

// covers: AUTH-023
#[test]
fn path_inserted_metadata_comes_before_that_of_the_root() {
    let (world, outcome) = run(&config(), |_| {});
    outcome.token();
    assert_eq!(world.urls()[0], format!("GET {RESOURCE}/mcp"));
    let (world, outcome) = run(&config(), |world| world.move_resource_metadata(RESOURCE));
    outcome.token();
    assert_eq!(world.urls()[..2], [format!("GET {RESOURCE}/mcp"), format!("GET {RESOURCE}")]);
}

// covers: AUTH-027, AUTH-028, AUTH-029
#[test]
fn metadata_of_an_authorization_server_is_found_at_each_place_in_order() {
    let with_path = [
        "https://as.test/.well-known/oauth-authorization-server/t/1",
        "https://as.test/.well-known/openid-configuration/t/1",
        "https://as.test/t/1/.well-known/openid-configuration",
    ];
    let at_root = [
        "https://as.test/.well-known/oauth-authorization-server",
        "https://as.test/.well-known/openid-configuration",
    ];
    for (issuer, places) in [("https://as.test/t/1", &with_path[..]), ("https://as.test", &at_root[..])] {
        for (at, place) in places.iter().enumerate() {
            let mut world = World::with("https://mcp.test/mcp", &[issuer]);
            world.issuer().metadata_at = (*place).into();
            world.unauthorized(&config()).token();
            let expected: Vec<String> = places[..=at].iter().map(|place| format!("GET {place}")).collect();
            assert_eq!(world.urls()[1..at + 2], expected);
        }
    }
}

// covers: AUTH-024
#[test]
fn one_of_several_authorization_servers_is_chosen() {
    let world = || World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
    let chosen = |config: &Config, choice: usize| {
        let mut world = world();
        world.choice = choice;
        let outcome = world.unauthorized(config);
        (world.record().map(|record| record.issuer().to_owned()), outcome)
    };
    assert_eq!(chosen(&config(), 1).0.as_deref(), Some("https://a.test"), "the first one");
    let asks = config().choose_server(true);
    assert_eq!(chosen(&asks, 1).0.as_deref(), Some("https://b.test"));
    assert_eq!(chosen(&asks, 2).1.error().rule(), "AUTH-024", "none was chosen");
    let named = config().issuer("https://b.test");
    assert_eq!(chosen(&named, 0).0.as_deref(), Some("https://b.test"));
    let unknown = config().issuer("https://c.test");
    assert_eq!(chosen(&unknown, 0).1.error().rule(), "AUTH-039");
}

// covers: AUTH-024, AUTH-025
#[test]
fn the_authorization_server_of_the_stored_tokens_is_kept() {
    let mut world = World::with("https://mcp.test/mcp", &["https://a.test", "https://b.test"]);
    world.unauthorized(&config().issuer("https://b.test")).token();
    world.wait(100);
    world.issuers[1].revoke_all();
    super::log_in(&mut world, &config()).token();
    assert_eq!(world.record().expect("tokens").issuer(), "https://b.test");
}

// covers: AUTH-019, AUTH-044
#[test]
fn metadata_of_another_resource_is_refused() {
    for other in [
        "https://evil.test/mcp",
        "https://mcp.test/other",
        "https://mcp.test/mcp/deeper",
        "https://mcp.test/m",
        "https://mcp.test:8443/mcp",
        "http://mcp.test/mcp",
        "https://mcp.test/mcp#x",
        "mcp",
        "",
    ] {
        let (rule, text) = refused(&config(), |world| world.resource()["resource"] = json!(other));
        assert!(!rule.is_empty() && text.contains("`resource`"), "{other}: {text}");
    }
    let servers = [json!([]), json!(null), json!("https://as.test"), json!([1])];
    for servers in servers {
        let (_, text) =
            refused(&config(), |world| world.resource()["authorization_servers"] = servers.clone());
        assert!(text.contains("`authorization_servers`"), "{servers}: {text}");
    }
}

// covers: AUTH-043, AUTH-044
#[test]
fn resource_is_sent_as_the_metadata_spells_it() {
    for identifier in
        ["https://mcp.test/mcp", "https://mcp.test/", "https://MCP.test:443", "https://mcp.test/mcp/"]
    {
        let (world, outcome) = run(&config(), |world| world.resource()["resource"] = json!(identifier));
        outcome.token();
        assert_eq!(world.query()["resource"], identifier);
        assert_eq!(world.grants("authorization_code")[0].param("resource"), identifier);
    }
}

// covers: AUTH-030
#[test]
fn metadata_of_another_issuer_is_not_used() {
    for other in ["https://as.test/", "https://AS.test", "https://as.test:443", "https://evil.test", ""] {
        let (rule, text) = refused(&config(), |world| world.issuer().metadata["issuer"] = json!(other));
        assert_eq!(rule, "AUTH-030", "{other}: {text}");
    }
    let (rule, _) = refused(&config(), |world| {
        world.issuer().metadata.as_object_mut().expect("an object").remove("issuer");
    });
    assert_eq!(rule, "AUTH-030");
}

// covers: AUTH-030
#[test]
fn the_right_document_at_a_later_place_is_used() {
    let mut world = World::new();
    world.issuer().metadata_at = "https://as.test/.well-known/openid-configuration".into();
    world.alter = Box::new(|request, reply| {
        if request.url.ends_with("oauth-authorization-server") {
            *reply = Reply::json(
                200,
                &json!({ "issuer": "https://evil.test", "token_endpoint": "https://evil.test/t" }),
            );
        }
    });
    world.unauthorized(&config()).token();
}

// covers: SEC-011
#[test]
fn redirects_of_documents_are_followed_three_times_to_acceptable_places() {
    let (world, outcome) = run(&config(), |world| {
        world.alter = Box::new(|request, reply| match &*request.url {
            "https://mcp.test/.well-known/oauth-protected-resource/mcp" => *reply = Reply::redirect("/1"),
            "https://mcp.test/1" => *reply = Reply::redirect("https://cdn.test/2"),
            "https://cdn.test/2" => *reply = Reply::redirect("3"),
            "https://cdn.test/3" => {
                *reply = Reply::json(
                    200,
                    &json!({ "resource": "https://mcp.test/mcp", "authorization_servers": ["https://as.test"] }),
                );
            }
            _ => {}
        });
    });
    outcome.token();
    assert_eq!(world.urls()[3], "GET https://cdn.test/3");
    for to in
        ["http://mcp.test/x", "https://127.0.0.1/x", "https://169.254.169.254/", "javascript:x", "ftp://h"]
    {
        let to = to.to_owned();
        let (rule, text) = refused(&config(), move |world| {
            world.alter = Box::new(move |request, reply| {
                if request.method == "GET" {
                    *reply = Reply::redirect(&to);
                }
            });
        });
        assert_eq!(rule, "SEC-011", "{text}");
    }
    let (world, outcome) = run(&config(), |world| {
        world.alter = Box::new(|_, reply| *reply = Reply::redirect("/again"));
    });
    assert!(matches!(outcome.error().kind(), ErrorKind::Redirected(_)));
    assert_eq!(world.requests.len(), 4, "the place and three redirects");
}

// covers: SEC-011, AUTH-022
#[test]
fn metadata_at_another_origin_than_the_server_is_refused() {
    for url in
        ["https://evil.test/meta", "http://mcp.test/meta", "javascript:x", "file:///etc/passwd", "/meta"]
    {
        let mut world = World::new();
        let error = world.challenged(&config(), &[("resource_metadata", url)]).error();
        assert_eq!(
            (error.rule(), error.step(), world.requests.len()),
            ("SEC-011", Step::Challenge, 0),
            "{url}"
        );
    }
}

// covers: SEC-011, SEC-014, SEC-016, AUTH-061
#[test]
fn endpoints_and_issuers_at_unacceptable_places_are_refused() {
    for url in [
        "http://as.test/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://169.254.169.254/latest",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "https://user:pw@as.test/x",
    ] {
        for name in
            ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
        {
            let (rule, text) = refused(&config(), |world| world.issuer().metadata[name] = json!(url));
            assert!(rule == "AUTH-061" && text.contains(name), "{url}: {text}");
        }
        let (rule, _) = refused(&config(), |world| world.resource()["authorization_servers"] = json!([url]));
        assert_eq!(rule, "SEC-011", "{url}");
    }
}

// covers: AUTH-061, SEC-011
#[test]
fn plain_http_is_for_loopback_servers_and_hosts_that_are_named() {
    let error = World::with("http://mcp.test/mcp", &["https://as.test"]).unauthorized(&config()).error();
    assert_eq!(error.rule(), "AUTH-061");
    // A server there that needs no token is used without one.
    let outcome = World::with("http://mcp.test/mcp", &["https://as.test"]).run(&config(), Trigger::Connect);
    assert!(matches!(outcome, Outcome::NoToken), "{outcome:?}");
    let mut world = World::with("http://mcp.test/mcp", &["http://as.test"]);
    world.permit_http("mcp.test");
    world.permit_http("as.test");
    let error = world.unauthorized(&config().allow_http("mcp.test")).error();
    assert_eq!(error.rule(), "SEC-011", "the authorization server is not named");
    world.unauthorized(&config().allow_http("MCP.test").allow_http("as.test")).token();
    // A local server may have a local or a public authorization server, over http only if it is local.
    World::with("http://localhost:8080/mcp", &["http://127.0.0.1:9"]).unauthorized(&config()).token();
    World::with("http://[::1]:8080/mcp", &["https://as.test"]).unauthorized(&config()).token();
    let error = World::with("http://localhost:8080/mcp", &["http://as.test"]).unauthorized(&config()).error();
    assert_eq!(error.rule(), "SEC-011");
    // A public server refers to nothing local.
    let error = World::with("https://mcp.test/mcp", &["http://127.0.0.1:9"]).unauthorized(&config()).error();
    assert_eq!(error.rule(), "SEC-011");
}

/// Returns a world of 2025-03-26: the server is its own authorization server, without protected resource metadata.
fn legacy(has_metadata: bool) -> World {
    let mut world = World::with("https://mcp.test/v1/mcp", &["https://mcp.test"]);
    world.resource_metadata.clear();
    if !has_metadata {
        world.issuer().metadata_at = String::new();
        world.issuer().metadata["authorization_response_iss_parameter_supported"] = json!(false);
        for name in ["authorize", "token", "register"] {
            world.permit_endpoint(&format!("https://mcp.test/{name}"));
        }
    }
    world
}

// covers: AUTH-013, AUTH-014, AUTH-015, AUTH-040, AUTH-069
#[test]
fn a_server_of_2025_03_26_is_its_own_authorization_server_unless_that_is_forbidden() {
    let metadata = "https://mcp.test/.well-known/oauth-authorization-server";
    let only = |version| config().versions(VersionSet::only(version));
    for (has_metadata, config) in [true, false].into_iter().flat_map(|has_metadata| {
        [config(), config().legacy_fallback(true), only(Version::V2025_03_26)]
            .map(|config| (has_metadata, config))
    }) {
        let mut world = legacy(has_metadata);
        assert!(world.unauthorized(&config).token().is_server_its_issuer);
        let request = world.requests.iter().find(|request| request.url == metadata).expect("a request");
        assert_eq!(request.field("MCP-Protocol-Version"), Some("2025-03-26"));
        assert_eq!(world.query()["code_challenge_method"], "S256");
        assert_eq!(world.query()["resource"], "https://mcp.test/v1/mcp");
        // It is said once, not for a token that is stored.
        assert!(!world.run(&config, Trigger::Connect).token().is_server_its_issuer);
        world.wait(4_000);
        assert!(!world.run(&config, Trigger::Connect).token().is_server_its_issuer);
    }
    for (has_metadata, config) in [true, false].into_iter().flat_map(|has_metadata| {
        let modern = config().versions(VersionSet::MODERN);
        [config().legacy_fallback(false), modern, only(Version::V2025_06_18)]
            .map(|config| (has_metadata, config))
    }) {
        let mut world = legacy(has_metadata);
        let error = world.unauthorized(&config).error();
        assert_eq!(error.step(), Step::ResourceMetadata);
        assert!(world.requests.iter().all(|request| request.url.contains("oauth-protected-resource")));
    }
}

// covers: AUTH-014, AUTH-069
#[test]
fn a_server_without_authorization_endpoints_is_none_of_2025_03_26() {
    use mcp_oauth::{ClientAuth, ClientCredentials, GrantType};
    let client = |id: &str| ClientCredentials::new(id, ClientAuth::None);
    let secret = ClientCredentials::new("machine", ClientAuth::Secret("s3cret".into()));
    let machine = config().grant(GrantType::ClientCredentials).credentials(secret);
    for (status, body) in [(404, "<html>"), (405, ""), (200, "<!doctype html>"), (500, ""), (401, "{}")] {
        for config in [
            config(),
            machine.clone(),
            config().grant(GrantType::DeviceCode),
            config().credentials(client("mine")),
        ] {
            let mut world = legacy(false);
            world.alter = Box::new(move |request, reply| {
                let is_metadata = request.url.contains(".well-known");
                *reply = if is_metadata { Reply::text(404, "") } else { Reply::text(status, body) };
            });
            let error = world.unauthorized(&config).error();
            assert_eq!(error.step(), Step::ResourceMetadata, "{status} {body}: {error}");
            let alone = world.unauthorized(&config.interactive(false)).error();
            assert_eq!(alone.step(), Step::ResourceMetadata, "no user is sent to log in: {alone}");
            assert!(error.to_string().contains("oauth-protected-resource"), "{error}");
            assert!(world.opened.is_empty());
        }
    }
    // A refusal shows that there is one.
    let mut world = legacy(false);
    world.alter = Box::new(|request, reply| {
        if request.url.ends_with("/register") {
            *reply = Reply::error("invalid_redirect_uri");
        }
    });
    let error = world.unauthorized(&config()).error();
    assert!(error.to_string().contains("refused with `invalid_redirect_uri`"), "{error}");
    // A client that is registered there by hand has to say that the server is its own authorization server.
    let mut world = legacy(false);
    world.issuer().add_client("mine", "none", "");
    world.unauthorized(&config().credentials(client("mine")).legacy_fallback(true)).token();
    assert_eq!(world.query()["client_id"], "mine");
}

// covers: AUTH-013, AUTH-039
#[test]
fn a_server_does_not_take_the_place_of_the_issuer_that_the_application_names() {
    use mcp_oauth::{ClientAuth, ClientCredentials, GrantType};
    let secret = || ClientCredentials::new("machine", ClientAuth::Secret("s3cret".into()));
    let elsewhere = secret().issuer("https://login.test");
    for config in [
        config().issuer("https://login.test"),
        config().credentials(elsewhere.clone()),
        config().grant(GrantType::ClientCredentials).credentials(elsewhere),
    ] {
        for has_metadata in [true, false] {
            let mut world = legacy(has_metadata);
            let error = world.unauthorized(&config).error();
            assert_eq!(error.step(), Step::ResourceMetadata, "{error}");
            assert!(world.requests.iter().all(|request| request.url.contains("oauth-protected-resource")));
        }
    }
    // The secret is neither shown to the default endpoints of a server that has not answered, nor bound to it.
    let mut world = legacy(false);
    let machine = config().grant(GrantType::ClientCredentials).credentials(secret());
    assert_eq!(world.unauthorized(&machine).error().step(), Step::ResourceMetadata);
    assert!(world.requests.iter().all(|request| request.method == "GET") && world.store.is_empty());
    // The origin itself may be named.
    legacy(true).unauthorized(&config().issuer("https://mcp.test")).token();
}

// covers: AUTH-014, AUTH-057
#[test]
fn a_user_of_a_server_with_default_endpoints_is_told_to_log_in_again() {
    let mut world = legacy(false);
    world.issuer().issues_refresh = false;
    world.unauthorized(&config()).token();
    world.wait(4_000);
    let alone = config().interactive(false);
    assert!(world.unauthorized(&alone).error().is_login_required());
    assert!(world.insufficient_scope(&alone, "write").error().is_login_required());
}

// covers: AUTH-024
#[test]
fn the_next_authorization_server_is_tried_when_one_cannot_be_used() {
    let two = |alter: fn(&mut World)| {
        let mut world = World::with("https://mcp.test/mcp", &["https://one.test", "https://two.test"]);
        alter(&mut world);
        world
    };
    let defects: [fn(&mut World); 6] = [
        |world| {
            world.alter = Box::new(|request, reply| {
                if request.url.starts_with("https://one.test") {
                    *reply = Reply::Failure(FetchFailure::Unreachable("no route".into()));
                }
            });
        },
        |world| world.issuers[0].metadata_at = String::new(),
        |world| world.issuers[0].metadata["issuer"] = json!("https://other.test"),
        |world| world.issuers[0].metadata["code_challenge_methods_supported"] = json!(["plain"]),
        |world| drop(world.issuers[0].metadata.as_object_mut().expect("an object").remove("token_endpoint")),
        |world| {
            world.alter = Box::new(|request, reply| {
                if request.url.starts_with("https://one.test") {
                    *reply = Reply::text(503, "");
                }
            });
        },
    ];
    for (at, alter) in defects.into_iter().enumerate() {
        let mut world = two(alter);
        world.unauthorized(&config()).token();
        assert_eq!(world.record().expect("tokens").issuer(), "https://two.test", "{at}");
        // The one that the application or the user wants is not replaced.
        let mut world = two(alter);
        world.unauthorized(&config().issuer("https://one.test")).error();
        assert!(world.opened.is_empty(), "{at}");
    }
    // The error is that of the first one, if none can be used.
    let mut world = two(|world| {
        world.issuers[0].metadata["issuer"] = json!("https://other.test");
        world.issuers[1].metadata_at = String::new();
    });
    let error = world.unauthorized(&config()).error();
    assert_eq!(error.rule(), "AUTH-030", "{error}");
}

// covers: AUTH-041
#[test]
fn metadata_need_not_list_pkce_where_no_revision_of_the_client_asks_for_it() {
    let unlisted = || {
        let mut world = World::new();
        world
            .issuer()
            .metadata
            .as_object_mut()
            .expect("an object")
            .remove("code_challenge_methods_supported");
        world
    };
    let until = |version: Version| {
        config().versions(
            VersionSet::ALL
                .iter()
                .filter(|v| *v <= version)
                .fold(VersionSet::only(version), VersionSet::with),
        )
    };
    for config in [until(Version::V2025_06_18), until(Version::V2025_03_26), config().unlisted_pkce(true)] {
        let mut world = unlisted();
        world.unauthorized(&config).token();
        assert_eq!(world.query()["code_challenge_method"], "S256");
        // A list without it says that there is none.
        let mut world = World::new();
        world.issuer().metadata["code_challenge_methods_supported"] = json!(["plain"]);
        assert_eq!(world.unauthorized(&config).error().rule(), "AUTH-041");
    }
    for config in [config(), until(Version::V2025_11_25), config().versions(VersionSet::MODERN)] {
        assert_eq!(unlisted().unauthorized(&config).error().rule(), "AUTH-041");
    }
}

// covers: AUTH-013, AUTH-014
#[test]
fn pages_count_as_absent_metadata_and_damaged_documents_do_not() {
    let with = |status: u16, body: &'static str| {
        let mut world = legacy(false);
        world.alter = Box::new(move |request, reply| {
            if request.method == "GET" {
                *reply = Reply::text(status, body);
            }
        });
        world.unauthorized(&config().legacy_fallback(true))
    };
    for (status, body) in [(404, ""), (401, "{}"), (200, "<!doctype html>"), (200, ""), (200, "null")] {
        assert!(matches!(with(status, body), Outcome::Authorized(_)), "{status} {body}");
    }
    for (status, body) in [(500, ""), (200, "{\"resource\":"), (200, "{\"a\":1,\"a\":1}"), (200, "{}")] {
        assert!(matches!(with(status, body), Outcome::Failed(_)), "{status} {body}");
    }
}

// covers: AUTH-041
#[test]
fn metadata_of_2025_03_26_need_not_list_pkce() {
    let mut world = legacy(true);
    world.issuer().metadata.as_object_mut().expect("an object").remove("code_challenge_methods_supported");
    world.unauthorized(&config()).token();
    assert_eq!(world.query()["code_challenge_method"], "S256");
    let mut world = legacy(true);
    world.issuer().metadata["code_challenge_methods_supported"] = json!(["plain"]);
    assert_eq!(world.unauthorized(&config()).error().rule(), "AUTH-041");
}

#[test]
fn a_server_without_a_needed_endpoint_is_refused_before_a_user_is_asked() {
    for name in ["token_endpoint", "authorization_endpoint"] {
        let (world, outcome) = run(&config(), |world| {
            world.issuer().metadata.as_object_mut().expect("an object").remove(name);
        });
        let error = outcome.error();
        assert_eq!(error.step(), Step::ServerMetadata);
        assert!(error.to_string().contains(name) && world.opened.is_empty(), "{error}");
    }
    let (world, outcome) = run(&config().grant(GrantType::DeviceCode), |world| {
        let metadata = world.issuer().metadata.as_object_mut().expect("an object");
        metadata.remove("device_authorization_endpoint");
    });
    assert_eq!(outcome.error().step(), Step::ServerMetadata);
    assert!(world.requests.iter().all(|request| request.method == "GET"), "it has not registered");
}

// covers: AUTH-024
#[test]
fn the_only_authorization_server_needs_no_choice() {
    let (world, outcome) = run(&config().choose_server(true), |_| {});
    outcome.token();
    assert!(!world.events.contains(&"choose"), "{:?}", world.events);
}

// covers: AUTH-024
#[test]
fn an_issuer_with_a_query_or_fragment_is_refused() {
    for issuer in ["https://as.test?x", "https://as.test/#x"] {
        let (rule, _) =
            refused(&config(), |world| world.resource()["authorization_servers"] = json!([issuer]));
        assert_eq!(rule, "RFC 8414, 2");
    }
}

// covers: SEC-011
#[test]
fn a_flow_makes_32_requests_at_most() {
    let issuers = ["https://as.test/a", "https://as.test/b", "https://as.test/c"];
    let search = |most: usize| {
        let mut world = World::with("https://mcp.test/mcp", &issuers);
        world.issuers.iter_mut().for_each(|issuer| issuer.metadata_at = String::new());
        let mut left = most;
        world.alter = Box::new(move |request, reply| {
            // Three redirects for each of three places of each document.
            if request.url.starts_with("https://as.test/") && !request.url.ends_with("xxx") && left > 0 {
                left -= 1;
                *reply = Reply::redirect(&format!("{}x", request.url));
            }
        });
        let error = world.unauthorized(&config()).error();
        (world.requests.len(), error.kind() == &ErrorKind::TooManyRequests)
    };
    // One for the metadata of the MCP server, nine places without a document, and the redirects.
    assert_eq!(
        [search(21), search(22), search(23), search(99)],
        [(31, false), (32, false), (32, true), (32, true)]
    );
}
