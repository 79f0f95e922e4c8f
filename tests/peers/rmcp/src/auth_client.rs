//! A client that authorizes itself by the OAuth state machine of the SDK.

use std::error::Error;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::*;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{
    AuthClient, AuthorizationCallback, AuthorizationManager, AuthorizationRequest, ClientCredentialsConfig,
    OAuthState,
};
use rmcp::transport::streamable_http_client::{InsufficientScopeError, StreamableHttpClientTransportConfig};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::PeerArgs;

/// Longer than any login on a busy machine, and shorter than the deadline of the test that runs this program.
const REDIRECT_TIMEOUT: Duration = Duration::from_secs(30);

type PeerResult<T> = Result<T, Box<dyn Error>>;

struct NamedClient;

impl ClientHandler for NamedClient {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("auth-client", "3.11.0"))
    }
}

fn report(step: &str, mut detail: Value) {
    detail["step"] = step.into();
    println!("{detail}");
}

/// Listener for redirects at a loopback address (RFC 8252, section 7.3).
struct RedirectListener {
    listener: TcpListener,
    redirect_uri: String,
}

impl RedirectListener {
    async fn new() -> PeerResult<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect_uri = format!("http://{}/callback", listener.local_addr()?);
        Ok(Self { listener, redirect_uri })
    }

    /// Waits for a redirect and returns its URL.
    async fn receive(&self) -> PeerResult<String> {
        loop {
            let (socket, _) = self.listener.accept().await?;
            let mut socket = BufReader::new(socket);
            let mut line = String::new();
            socket.read_line(&mut line).await?;
            let mut field = String::new();
            // The whole head is read, because unread bytes would reset the connection before the response arrives.
            while socket.read_line(&mut field).await? > 2 {
                field.clear();
            }
            let target = line.split(' ').nth(1).unwrap_or_default();
            let query = target.strip_prefix("/callback?");
            let status = if query.is_some() { "200 OK" } else { "404 Not Found" };
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            socket.write_all(response.as_bytes()).await?;
            if let Some(query) = query {
                return Ok(format!("{}?{query}", self.redirect_uri));
            }
        }
    }

    /// Opens an authorization URL by the command of the arguments, and waits for the redirect.
    async fn browse(&self, given: &PeerArgs, url: &str) -> PeerResult<String> {
        let asked = reqwest::Url::parse(url)?;
        let asked = |name: &str| {
            asked.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
        };
        report(
            "authorize",
            json!({"client": asked("client_id"), "resource": asked("resource"), "scope": asked("scope")}),
        );
        let browser =
            given.option("--browser").ok_or("authorization is needed, but there is no --browser")?;
        // Every second part is in quotes, and one word.
        let parts = browser.split('\'').enumerate();
        let mut words = parts.flat_map(|(number, part)| {
            let words = part.split(move |c| number % 2 == 0 && c == ' ');
            words.filter(|word| !word.is_empty())
        });
        let mut browser = tokio::process::Command::new(words.next().unwrap_or_default());
        let _browser = browser.args(words).arg(url).stdout(Stdio::null()).spawn()?;
        tokio::time::timeout(REDIRECT_TIMEOUT, self.receive()).await?
    }
}

/// Returns the challenge of a server to a request without an access token.
async fn challenge(url: &str) -> PeerResult<Option<String>> {
    let response = reqwest::Client::new().post(url).header("content-type", "application/json").body("{}");
    let response = response.send().await?;
    let field = response.headers().get("www-authenticate");
    Ok(field.and_then(|field| field.to_str().ok()).map(str::to_owned))
}

/// Authorizes with a code.
async fn authorize_with_code(
    given: &PeerArgs,
    url: &str,
    listener: &RedirectListener,
    state: &mut OAuthState,
) -> PeerResult<()> {
    let mut request = AuthorizationRequest::new(&listener.redirect_uri)
        .with_initial_scope_selection()
        .with_client_name("auth-client")
        .with_application_type("native");
    if let Some(challenge) = challenge(url).await? {
        request = request.with_challenge(challenge);
    }
    if let Some(id) = given.option("--client-id") {
        request = request.with_preregistered_client(id);
    }
    if let Some(secret) = given.option("--client-secret") {
        request = request.with_client_secret(secret);
    }
    if let Some(url) = given.option("--client-metadata") {
        request = request.with_client_metadata_url(url);
    }
    state.start_authorization(request).await?;
    let authorization_url = state.get_authorization_url().await?;
    let redirect = listener.browse(given, &authorization_url).await?;
    state.handle_callback_url(&redirect).await?;
    Ok(())
}

async fn authorize(
    given: &PeerArgs,
    url: &str,
    listener: &RedirectListener,
) -> PeerResult<AuthorizationManager> {
    let mut state = OAuthState::new(url, None).await?;
    if given.option("--grant") == Some("client-credentials") {
        let option = |name| given.option(name).map(str::to_owned).ok_or(name);
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: option("--client-id")?,
            client_secret: option("--client-secret")?,
            scopes: vec!["mcp:read".to_owned()],
            resource: Some(url.to_owned()),
        };
        state.authenticate_client_credentials(config).await?;
    } else {
        authorize_with_code(given, url, listener, &mut state).await?;
    }
    Ok(state.into_authorization_manager().ok_or("not authorized")?)
}

/// Returns the scopes that a refused call needs.
fn required_scope(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else { return None };
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(refusal) = error.downcast_ref::<InsufficientScopeError>() {
            return refusal.required_scope.clone();
        }
        source = error.source();
    }
    None
}

/// Authorizes for more scopes.
async fn step_up(
    given: &PeerArgs,
    manager: &Mutex<AuthorizationManager>,
    listener: &RedirectListener,
    scope: &str,
) -> PeerResult<()> {
    let manager = manager.lock().await;
    let url = manager.request_scope_upgrade(scope).await?;
    let redirect = listener.browse(given, &url).await?;
    let AuthorizationCallback { code, csrf_token, issuer, .. } =
        AuthorizationCallback::from_redirect_url(&redirect)?;
    manager.exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref()).await?;
    report("tokens", json!({"type": "Bearer", "scope": manager.get_current_scopes().await.join(" ")}));
    Ok(())
}

/// Returns the calls of the command line: the names of tools, with arguments after `=`.
fn calls(given: &PeerArgs) -> PeerResult<Vec<(String, Map<String, Value>)>> {
    let words = given.args.windows(2).filter(|pair| pair[0] == "--call").map(|pair| &pair[1]);
    words
        .map(|call| {
            let (name, arguments) = call.split_once('=').unwrap_or((call, "{}"));
            Ok((name.to_owned(), serde_json::from_str(arguments)?))
        })
        .collect()
}

async fn converse(given: &PeerArgs) -> PeerResult<bool> {
    let url = given.option("--").ok_or("no URL")?.to_owned();
    let is_modern = given.option("--era") == Some("modern");
    let listener = RedirectListener::new().await?;
    let manager = authorize(given, &url, &listener).await?;
    let scopes = manager.get_current_scopes().await.join(" ");
    report("tokens", json!({"type": "Bearer", "scope": scopes}));
    let http = AuthClient::new(reqwest::Client::default(), manager);
    let manager = Arc::clone(&http.auth_manager);
    let transport =
        StreamableHttpClientTransport::with_client(http, StreamableHttpClientTransportConfig::with_uri(url));
    let mode = match is_modern {
        true => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        false => ClientLifecycleMode::Initialize,
    };
    let client = NamedClient.serve_with_lifecycle(transport, mode).await?;
    let version = match is_modern {
        true => json!(ProtocolVersion::V_2026_07_28),
        false => json!(client.peer_info().ok_or("no server")?.protocol_version),
    };
    report("negotiate", json!({"era": if is_modern { "modern" } else { "legacy" }, "version": version}));
    let tools = client.list_all_tools().await?;
    report("tools", json!({"names": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>()}));
    let pause = given.option("--pause").map_or(Ok(0), str::parse)?;
    let mut good = true;
    for (at, (name, arguments)) in calls(given)?.into_iter().enumerate() {
        if at > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments);
        let mut called = client.call_tool(params.clone()).await;
        if let Some(scope) = called.as_ref().err().and_then(required_scope) {
            step_up(given, &manager, &listener, &scope).await?;
            called = client.call_tool(params).await;
        }
        let result = json!(called?);
        let is_error = result["isError"] == true;
        report("call", json!({"tool": name, "text": result["content"][0]["text"], "isError": is_error}));
        good &= !is_error;
    }
    client.cancel().await?;
    report("end", json!({}));
    Ok(good)
}

pub(crate) async fn run(given: PeerArgs) {
    match converse(&given).await {
        Ok(good) => process::exit(if good { 0 } else { 1 }),
        Err(error) => {
            eprintln!("auth-client: {error}");
            process::exit(1);
        }
    }
}
