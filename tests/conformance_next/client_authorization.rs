//! Client leg, authorization: refresh, rotation, PKCE that is not supported, a foreign issuer, a URL with a query.

use mcp_oauth::{Config, Step, Trigger};
use mcp_tests::harness::authorization::{Reply, World};
use serde_json::json;

fn config() -> Config {
    Config::new("next")
}

/// Scenario `auth/token-refresh-basic`: a token of 2 s that expired is refreshed, and the new one is used.
// covers: AUTH-059
#[test]
fn expired_token_is_refreshed_and_the_new_one_used() {
    let mut world = World::new();
    world.issuer().lifetime = Some(2);
    world.issuer().rotates = false;
    let first = world.unauthorized(&config()).token();
    for _ in 0..3 {
        world.wait(3);
        let next = world.run(&config().interactive(false), Trigger::Connect).token();
        assert_ne!(next.token, first.token);
        assert_eq!(world.grants("refresh_token").len(), 1);
        assert!(world.grants("authorization_code").is_empty());
    }
}

/// Scenario `auth/token-refresh-rotation`: each refresh token is used once, and the newest next.
// covers: AUTH-063
#[test]
fn rotated_refresh_token_is_used_once() {
    let mut world = World::new();
    world.issuer().lifetime = Some(2);
    world.unauthorized(&config()).token();
    let mut used = alloc::collections::BTreeSet::new();
    for _ in 0..5 {
        world.wait(3);
        world.run(&config().interactive(false), Trigger::Connect).token();
        let refreshes = world.grants("refresh_token");
        assert_eq!(refreshes.len(), 1);
        assert!(
            used.insert(refreshes[0].param("refresh_token").to_owned()),
            "an old one is never used again"
        );
    }
}

/// Scenario `auth/pkce-no-s256-support`: the metadata is read, and nobody is sent to the page. The scenario as it is written is
/// passed by a client that does nothing, so the decisive step is looked for here.
// covers: AUTH-041
#[test]
fn authorization_server_without_s256_is_not_used() {
    let mut world = World::new();
    world.issuer().metadata["code_challenge_methods_supported"] = json!([]);
    let error = world.unauthorized(&config()).error();
    assert_eq!((error.step(), error.rule()), (Step::ServerMetadata, "AUTH-041"));
    assert!(world.opened.is_empty());
    assert!(world.requests.iter().any(|request| request.url.contains("oauth-authorization-server")));
}

/// Scenario `auth/issuer-mismatch`: metadata of another issuer leads to no authorization request.
// covers: AUTH-030
#[test]
fn metadata_of_another_issuer_is_not_used() {
    let mut world = World::new();
    world.issuer().metadata["issuer"] = json!("https://evil.example.com");
    assert_eq!(world.unauthorized(&config()).error().rule(), "AUTH-030");
    assert!(world.opened.is_empty());
}

/// Scenario `auth/metadata-query-params`: the query of the server stays in the place of its metadata, and in `resource`.
// covers: AUTH-022, AUTH-043
#[test]
fn query_of_the_server_is_kept_in_the_place_of_its_metadata() {
    let server = "https://mcp.test/mcp?tenant=alpha";
    let place = "https://mcp.test/.well-known/oauth-protected-resource/mcp?tenant=alpha";
    let mut world = World::with(server, &["https://as.test"]);
    world.move_resource_metadata(place);
    world.resource()["resource"] = json!(server);
    world.unauthorized(&config()).token();
    assert_eq!(world.urls()[0], format!("GET {place}"));
    assert_eq!(world.query()["resource"], server);
    assert_eq!(world.grants("authorization_code")[0].param("resource"), server);
    // A server that leaves the query out of its place is found, too.
    let mut world = World::with(server, &["https://as.test"]);
    world.move_resource_metadata("https://mcp.test/.well-known/oauth-protected-resource/mcp");
    world.resource()["resource"] = json!("https://mcp.test/mcp");
    world.alter = Box::new(move |request, reply| {
        if request.url == place {
            *reply = Reply::text(404, "");
        }
    });
    world.unauthorized(&config()).token();
}
