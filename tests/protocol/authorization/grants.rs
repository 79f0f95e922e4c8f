//! The ways in which a client authenticates, and the grants without a user.

use mcp_oauth::{
    Algorithm, AssertionRequest, ClientAuth, ClientCredentials, Config, GrantType, IdentityProvider, Secret,
    Step, Trigger,
};
use mcp_tests::harness::authorization::{AuthServer, Outcome, Reply, World, jwt};
use serde_json::{Value, json};

use super::config;

fn secret() -> Secret {
    "known-s3cret".into()
}

fn private_key() -> ClientAuth {
    ClientAuth::PrivateKeyJwt { algorithm: Algorithm::Es256, key_id: Some("k1".into()) }
}

/// Returns a world whose server knows one client.
fn world(method: &str, listed: &Value) -> World {
    let mut world = World::new();
    world.issuer().add_client(
        "known",
        method,
        if method.starts_with("client_secret") { "known-s3cret" } else { "" },
    );
    world.issuer().metadata["token_endpoint_auth_methods_supported"] = listed.clone();
    world
}

fn machine(auth: ClientAuth) -> Config {
    config().grant(GrantType::ClientCredentials).credentials(ClientCredentials::new("known", auth))
}

// covers: AUTH-035, AUTH-067
#[test]
fn a_client_authenticates_by_each_method_that_the_server_supports() {
    let basic = || ClientAuth::SecretBasic(secret());
    let post = || ClientAuth::SecretPost(secret());
    let any = || ClientAuth::Secret(secret());
    for (auth, method, listed) in [
        (ClientAuth::None, "none", json!(["none"])),
        (basic(), "client_secret_basic", json!(["client_secret_basic"])),
        (post(), "client_secret_post", json!(["client_secret_post"])),
        (any(), "client_secret_basic", json!(["client_secret_post", "client_secret_basic"])),
        (any(), "client_secret_post", json!(["client_secret_post"])),
        (any(), "client_secret_basic", Value::Null),
        (private_key(), "private_key_jwt", json!(["private_key_jwt"])),
        (private_key(), "private_key_jwt", Value::Null),
    ] {
        for config in
            [machine(auth.clone()), config().credentials(ClientCredentials::new("known", auth.clone()))]
        {
            let mut world = world(method, &listed);
            world.unauthorized(&config).token();
            // And for the refresh.
            world.wait(4_000);
            world.run(&config, Trigger::Connect).token();
            assert_eq!(world.grants("refresh_token").len(), 1, "{method}");
        }
    }
    for (auth, listed) in [(any(), json!(["none"])), (private_key(), json!(["client_secret_basic"]))] {
        let error = world("none", &listed).unauthorized(&machine(auth)).error();
        assert_eq!(error.step(), Step::Registration);
    }
}

// covers: AUTH-035
#[test]
fn an_assertion_of_the_client_is_short_lived_and_for_the_issuer() {
    let mut world = world("private_key_jwt", &json!(["private_key_jwt"]));
    world.unauthorized(&machine(private_key())).token();
    let (header, claims) = jwt(world.grants("client_credentials")[0].param("client_assertion"));
    assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k1")));
    assert_eq!(claims["aud"], "https://as.test");
    let lifetime = claims["exp"].as_u64().zip(claims["iat"].as_u64()).map(|(exp, iat)| exp - iat);
    assert_eq!(lifetime, Some(60));
}

// covers: AUTH-067, AUTH-043
#[test]
fn a_client_gets_a_token_for_itself() {
    let mut world = world("client_secret_basic", &json!(["client_secret_basic"]));
    let config = machine(ClientAuth::Secret(secret()));
    world.challenged(&config, &[("scope", "jobs")]).token();
    let request = world.grants("client_credentials")[0];
    assert_eq!((request.param("scope"), request.param("resource")), ("jobs", "https://mcp.test/mcp"));
    assert_eq!(config.extensions(), ["io.modelcontextprotocol/oauth-client-credentials"]);
    // PKCE is for codes.
    world.issuer().metadata["code_challenge_methods_supported"] = Value::Null;
    world.issuer().revoke_all();
    world.wait(4_000);
    world.unauthorized(&config).token();
    // Without credentials nothing can be done, and nobody is asked.
    let alone = super::config().grant(GrantType::ClientCredentials);
    let error = World::new().unauthorized(&alone).error();
    assert_eq!(error.rule(), "AUTH-031");
}

// covers: AUTH-067
#[test]
fn an_assertion_of_the_application_is_exchanged_for_a_token() {
    let mut world = world("none", &json!(["none"]));
    let client = ClientCredentials::new("known", ClientAuth::None);
    let config = config().grant(GrantType::Assertion).credentials(client).interactive(false);
    world.challenged(&config, &[("scope", "jobs")]).token();
    let request = world.grants("jwt-bearer")[0];
    assert_eq!(request.param("assertion"), world.assertion);
    assert_eq!((request.param("scope"), request.param("resource")), ("jobs", "https://mcp.test/mcp"));
    let audience = "https://as.test".into();
    assert_eq!(world.assertion_requests, [AssertionRequest::Assertion { audience }]);
}

/// Returns a world with an identity provider.
fn enterprise() -> World {
    let mut world = world("none", &json!(["none"]));
    let mut provider = AuthServer::new("https://idp.test");
    provider.add_client("desk", "client_secret_post", "desk-s3cret");
    provider.metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    world.issuers.push(provider);
    world
}

fn with_provider(provider: IdentityProvider) -> Config {
    let client = ClientCredentials::new("known", ClientAuth::None);
    config().grant(GrantType::Enterprise(provider)).credentials(client).interactive(false)
}

fn desk(auth: fn(Secret) -> ClientAuth) -> ClientCredentials {
    ClientCredentials::new("desk", auth("desk-s3cret".into()))
}

// covers: AUTH-067
#[test]
fn an_identity_provider_vouches_for_the_user() {
    let found = IdentityProvider::new("https://idp.test", desk(ClientAuth::Secret)).expect("a URL");
    let named = IdentityProvider::at_token_endpoint("https://idp.test/token", desk(ClientAuth::SecretPost));
    for (provider, is_named) in [(found, false), (named.expect("a URL"), true)] {
        let mut world = enterprise();
        world.permit_endpoint("https://idp.test/token");
        let config = with_provider(provider);
        assert_eq!(config.extensions(), ["io.modelcontextprotocol/enterprise-managed-authorization"]);
        world.challenged(&config, &[("scope", "jobs")]).token();
        assert_eq!(world.assertion_requests, [AssertionRequest::IdToken]);
        let exchange = world.grants("token-exchange")[0];
        assert_eq!(exchange.url, "https://idp.test/token");
        assert_eq!(exchange.param("subject_token"), world.assertion);
        assert_eq!(exchange.param("audience"), "https://as.test");
        assert_eq!(exchange.param("resource"), "https://mcp.test/mcp");
        assert_eq!(exchange.param("requested_token_type"), "urn:ietf:params:oauth:token-type:id-jag");
        let presented = world.grants("jwt-bearer")[0];
        assert!(
            presented.url == "https://as.test/token" && presented.param("assertion").starts_with("id-jag")
        );
        let is_discovered = world.requests.iter().any(|request| request.url.contains("idp.test/.well-known"));
        assert_eq!(is_discovered, !is_named);
        // The application has named the provider, and the MCP server all others.
        for request in &world.requests {
            let expected = (!request.url.starts_with("https://idp.test/")).then_some("https://mcp.test");
            assert_eq!(request.reachable_from.as_deref(), expected, "{request:?}");
        }
    }
}

// covers: AUTH-067
#[test]
fn an_assertion_for_an_identity_provider_is_for_its_issuer_or_its_endpoint() {
    let client = || ClientCredentials::new("desk", private_key());
    let found = IdentityProvider::new("https://idp.test", client()).expect("a URL");
    let named = IdentityProvider::at_token_endpoint("https://idp.test/token", client()).expect("a URL");
    for (provider, audience) in [(found, "https://idp.test"), (named, "https://idp.test/token")] {
        let mut world = enterprise();
        world.permit_endpoint("https://idp.test/token");
        world.issuers[1].add_client("desk", "private_key_jwt", "");
        world.issuers[1].metadata["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt"]);
        world.unauthorized(&with_provider(provider)).token();
        let (_, claims) = jwt(world.grants("token-exchange")[0].param("client_assertion"));
        assert_eq!(claims["aud"], audience);
    }
}

// covers: AUTH-061
#[test]
fn an_identity_provider_over_plain_http_is_refused() {
    for url in ["http://idp.test", "http://10.0.0.1"] {
        let found = IdentityProvider::new(url, desk(ClientAuth::Secret)).expect("a URL");
        let named = IdentityProvider::at_token_endpoint(&format!("{url}/token"), desk(ClientAuth::Secret));
        for provider in [found, named.expect("a URL")] {
            let mut world = enterprise();
            let error = world.unauthorized(&with_provider(provider)).error();
            assert_eq!((error.rule(), error.server()), ("AUTH-061", url));
            assert!(world.requests.iter().all(|request| !request.url.contains("idp")));
        }
    }
}

#[test]
fn errors_at_an_identity_provider_name_it() {
    let provider = || IdentityProvider::new("https://idp.test", desk(ClientAuth::Secret)).expect("a URL");
    let changes: [fn(&mut World); 5] = [
        |world| {
            world.alter = Box::new(|request, reply| {
                if request.url.starts_with("https://idp.test") {
                    *reply = Reply::text(503, "");
                }
            });
        },
        |world| world.issuers[1].metadata["token_endpoint"] = Value::Null,
        |world| world.issuers[1].metadata["issuer"] = json!("https://evil.test"),
        |world| world.issuers[1].metadata["token_endpoint_auth_methods_supported"] = json!(["none"]),
        |world| world.issuers[1].clients.clear(),
    ];
    for change in changes {
        let mut world = enterprise();
        change(&mut world);
        // No other authorization server stands in for the provider.
        world.resource()["authorization_servers"] = json!(["https://as.test", "https://other.test"]);
        let error = world.unauthorized(&with_provider(provider())).error();
        assert!(error.server().starts_with("https://idp.test"), "{error}");
        assert!(!world.requests.iter().any(|request| request.url.starts_with("https://other.test")));
    }
}

#[test]
fn an_exchange_that_gives_something_else_is_refused() {
    let provider = IdentityProvider::new("https://idp.test", desk(ClientAuth::Secret)).expect("a URL");
    let mut world = enterprise();
    world.alter = Box::new(|request, reply| {
        if request.grant() == "token-exchange" {
            reply.edit(|body| {
                body["issued_token_type"] = json!("urn:ietf:params:oauth:token-type:access_token")
            });
        }
    });
    let outcome = world.unauthorized(&with_provider(provider));
    assert!(matches!(outcome, Outcome::Failed(_)) && world.grants("jwt-bearer").is_empty());
}

#[test]
fn an_assertion_for_another_server_is_not_presented() {
    // {"aud":"https://honest.test"} and {"aud":["https://as.test"]}
    for (claims, fits) in
        [("eyJhdWQiOiJodHRwczovL2hvbmVzdC50ZXN0In0", false), ("eyJhdWQiOlsiaHR0cHM6Ly9hcy50ZXN0Il19", true)]
    {
        let mut world = world("none", &json!(["none"]));
        world.assertion = format!("e30.{claims}.c2ln");
        let client = ClientCredentials::new("known", ClientAuth::None);
        let outcome = world.unauthorized(&config().grant(GrantType::Assertion).credentials(client));
        match fits {
            true => drop(outcome.token()),
            false => assert_eq!(outcome.error().rule(), "RFC 7523, 3"),
        }
        assert_eq!(world.grants("jwt-bearer").len(), usize::from(fits));
    }
}

/// The application has named the provider, so its policy is not that of the MCP server.
// covers: AUTH-061
#[test]
fn an_identity_provider_may_be_on_this_machine() {
    let client = desk(ClientAuth::Secret);
    assert_eq!(client.client_id(), "desk");
    let mut world = enterprise();
    world.issuers[1] = AuthServer::new("http://127.0.0.1:9");
    world.issuers[1].add_client("desk", "client_secret_post", "desk-s3cret");
    world.issuers[1].metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    let provider = IdentityProvider::new("http://127.0.0.1:9", client).expect("a URL");
    world.unauthorized(&with_provider(provider)).token();
    assert_eq!(world.grants("token-exchange")[0].url, "http://127.0.0.1:9/token");
}

/// Without metadata the default of RFC 8414 holds.
#[test]
fn a_secret_for_a_known_token_endpoint_goes_into_a_field() {
    let mut world = enterprise();
    world.issuers[1].clients.clear();
    world.issuers[1].add_client("desk", "client_secret_basic", "desk-s3cret");
    world.permit_endpoint("https://idp.test/token");
    let provider = IdentityProvider::at_token_endpoint("https://idp.test/token", desk(ClientAuth::Secret));
    world.unauthorized(&with_provider(provider.expect("a URL"))).token();
    assert!(world.grants("token-exchange")[0].field("authorization").is_some());
}
