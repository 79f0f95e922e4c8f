//! The scenarios of `auth/`: each connects to a protected server, lists its tools and calls one.

use core::time::Duration;
use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use mcp_auth::client::{
    Authorizer, Cancellation, ClientKey, Interaction, RedirectEnd, RedirectPage, RedirectReceiver,
};
use mcp_blocking::Error;
use mcp_oauth::{
    AssertionRequest, ClientAuth, ClientCredentials, Config, GrantType, IdentityProvider, Secret,
    redirect_query,
};
use mcp_proto::EntryKind;
use mcp_proto::http::client::Url;
use mcp_system_tests::adapters::{AdapterKind, ServerLocation};
use serde_json::{Value, json};

use super::ScenarioResult;

/// The client id metadata document that the suite expects.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// Scenarios whose authorization has to fail, with a part of the error.
const REFUSALS: &[(&str, &str)] = &[
    ("resource-mismatch", "`resource`"),
    ("iss-supported-missing", "`iss`"),
    ("iss-wrong-issuer", "`iss`"),
    ("iss-unexpected", "`iss`"),
    ("iss-normalized", "`iss`"),
    ("metadata-issuer-mismatch", "`issuer`"),
    ("scope-retry-limit", "scopes"),
];

pub(crate) fn run(runtime: AdapterKind, scenario: &str, url: &str) -> ScenarioResult {
    let server = ServerLocation::Protected(url.to_owned(), authorizer(scenario)?);
    let outcome = list_and_call(runtime, &server);
    let refusal = REFUSALS.iter().find(|(name, _)| *name == scenario);
    match (outcome, refusal) {
        (Ok(()), None) => Ok(()),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some((_, part))) if error.to_string().contains(part) => Ok(()),
        (Err(error), Some(_)) => Err(format!("another error than expected: {error}").into()),
        (Ok(()), Some(_)) => Err("the authorization succeeded".into()),
    }
}

fn list_and_call(runtime: AdapterKind, server: &ServerLocation) -> Result<(), Error> {
    let mut client = super::connect(runtime, server)?;
    client.list(EntryKind::Tool)?;
    client.call_tool("test-tool", &json!({}))?;
    client.close().map(drop)
}

fn authorizer(scenario: &str) -> Result<Authorizer, Box<dyn core::error::Error>> {
    let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let text = |name: &str| context[name].as_str().ok_or_else(|| format!("no `{name}` in the context"));
    let config = Config::new("mcp-proto conformance").legacy_fallback(scenario.starts_with("2025-03-26"));
    let secret = |name: &str| Ok::<_, String>(ClientAuth::Secret(text(name)?.into()));
    let mut key = None;
    let config = match scenario {
        // The others show how the client registers itself.
        "basic-cimd" => config.client_metadata_url(CLIENT_METADATA)?,
        "pre-registration" => {
            let client = ClientCredentials::new(text("client_id")?, secret("client_secret")?);
            config.credentials(client.issuer(text("issuer")?))
        }
        "client-credentials-basic" => config
            .grant(GrantType::ClientCredentials)
            .credentials(ClientCredentials::new(text("client_id")?, secret("client_secret")?)),
        "client-credentials-jwt" => {
            let pem = ClientKey::from_pem(text("private_key_pem")?)?;
            let auth = ClientAuth::PrivateKeyJwt { algorithm: pem.algorithm(), key_id: None };
            key = Some(pem);
            config
                .grant(GrantType::ClientCredentials)
                .credentials(ClientCredentials::new(text("client_id")?, auth))
        }
        "enterprise-managed-authorization" => {
            let there = ClientCredentials::new(text("idp_client_id")?, ClientAuth::None);
            let provider = IdentityProvider::at_token_endpoint(text("idp_token_endpoint")?, there)?;
            config
                .grant(GrantType::Enterprise(provider))
                .credentials(ClientCredentials::new(text("client_id")?, secret("client_secret")?))
        }
        "wif-jwt-bearer" => config
            .grant(GrantType::Assertion)
            .credentials(ClientCredentials::new(text("client_id")?, ClientAuth::None)),
        _ => config,
    };
    let assertion = ["idp_id_token", "valid_jwt"].into_iter().find_map(|name| context[name].as_str());
    let authorizer =
        Authorizer::new(config).interaction(DirectLogin { assertion: assertion.map(Secret::from) });
    Ok(match key {
        Some(key) => authorizer.client_key(key),
        None => authorizer,
    })
}

/// The user of the suite: the authorization endpoint redirects at once, and nothing listens at the redirect URI.
struct DirectLogin {
    assertion: Option<Secret>,
}

impl Interaction for DirectLogin {
    fn receive_redirects(&self, _preferred: Option<&str>) -> io::Result<Box<dyn RedirectReceiver>> {
        Ok(Box::new(DirectReceiver))
    }

    fn assertion(&self, _request: &AssertionRequest) -> io::Result<Secret> {
        self.assertion.clone().ok_or_else(|| io::Error::other("no assertion in the context"))
    }
}

struct DirectReceiver;

impl RedirectReceiver for DirectReceiver {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:3000/callback".into()
    }

    fn receive(
        &mut self,
        url: &Url,
        _deadline: Instant,
        _cancellation: &Cancellation,
        answer: &mut dyn FnMut(&str) -> RedirectPage,
    ) -> io::Result<RedirectEnd> {
        match answer(&redirect_query(&redirect_of(url)?)) {
            RedirectPage::Foreign | RedirectPage::CopyAddress => {
                Err(io::Error::other("the redirect has another state"))
            }
            RedirectPage::Done | RedirectPage::Failed(_) => Ok(RedirectEnd::Accepted),
        }
    }
}

/// Requests a page, and returns where it redirects to.
fn redirect_of(url: &Url) -> io::Result<String> {
    let origin = url.origin();
    let mut stream = TcpStream::connect((&*origin.host, origin.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", url.target(), origin.authority())?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("location") => {
                return Ok(value.trim().to_owned());
            }
            _ => {}
        }
    }
    Err(io::Error::other("the authorization endpoint does not redirect"))
}
