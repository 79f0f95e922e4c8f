//! Conversations with the process of the server, in both eras, beside a library and an authorization server.

mod issuer;
mod library;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_tokio::mcp_proto::http::client::{Config as Http, Credential};
use mcp_tokio::mcp_proto::{CallOptions, Era, VersionSet, client::Config};
use mcp_tokio::{Client, Error};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use issuer::Issuer;
use library::{KEY, Library};

const DEADLINE: Duration = Duration::from_secs(30);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

struct Setup {
    process: Child,
    url: String,
    issuer: Issuer,
    library: Arc<Library>,
}

impl Setup {
    async fn start() -> Self {
        let (library, api) = Library::start().await;
        Self::start_with(library, &api, KEY).await
    }

    async fn start_with(library: Arc<Library>, api: &str, key: &str) -> Self {
        let issuer = Issuer::start().await;
        let mut process = Command::new(env!("CARGO_BIN_EXE_mcp-library"))
            .env("LIBRARY_ADDRESS", "127.0.0.1:0")
            .env("LIBRARY_ISSUER", &issuer.url)
            .env("LIBRARY_API", api)
            .env("LIBRARY_API_KEY", key)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().unwrap();
        // The pipe is read to the end, so that the process can write.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { process, url, issuer, library }
    }

    async fn try_connect(&self, era: Era, token: &str) -> Result<Client, Error> {
        let config = Config::new("test", "1").versions(VersionSet::ALL.era(era));
        let http = Http::new(&self.url).unwrap().credential(Credential::bearer(token).unwrap());
        Client::options(config).connect_http(http).await
    }

    async fn connect(&self, era: Era, scope: &str) -> Client {
        let token = self.issuer.sign(&self.issuer.claims(&self.url, scope));
        self.try_connect(era, &token).await.unwrap()
    }

    /// Sends a request over a plain socket and returns the response.
    async fn get(&self, path: &str, fields: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }
}

/// Calls a tool. Returns its structured result, or the text of its error.
async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, String> {
    let result = client.call_tool(tool, &arguments).await.unwrap();
    if result.is_failure() {
        return Err(result.content[0].as_text().unwrap().to_owned());
    }
    Ok(result.parse_structured().unwrap())
}

async fn search(client: &Client, query: &str) -> Result<Value, String> {
    call(client, "search", json!({"query": query})).await
}

#[tokio::test]
async fn tools_call_the_library_for_the_user_without_the_token() {
    let setup = Setup::start().await;
    for era in ERAS {
        let client = setup.connect(era, "library:read library:lend").await;
        assert_eq!(client.peer().version.era(), era);
        let (mut titles, mut page) = (Vec::new(), json!(1));
        while !page.is_null() {
            let books = call(&client, "search", json!({"query": "a & ü/?", "page": page})).await.unwrap();
            titles.push((books["books"][0]["id"].clone(), books["books"][0]["title"].clone()));
            page = books["next_page"].clone();
        }
        assert_eq!(titles, [1, 2, 3].map(|id| (json!(id), json!("a & ü/?"))));
        let loan = call(&client, "lend", json!({"book": 1})).await.unwrap();
        assert_eq!(loan, json!({"book": 1, "until": "2030-01-01"}));
    }
    let seen = setup.library.seen.lock().unwrap();
    assert_eq!(seen.len(), 8);
    for fields in &*seen {
        assert_eq!(fields["authorization"], format!("Bearer {KEY}"));
        assert_eq!(fields["x-user"], "Ann%20M%C3%BCller");
        // No part of a JWT is in any field.
        assert!(fields.values().all(|value| !value.to_str().unwrap().contains("eyJ")), "{fields:?}");
    }
}

#[tokio::test]
async fn tokens_are_validated_and_scopes_required() {
    let setup = Setup::start().await;
    let good = setup.issuer.claims(&setup.url, "library:read");
    let other = Issuer::start().await;
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        setup.issuer.sign(&claims)
    };
    for era in ERAS {
        for (token, problem) in [
            ("nonsense".into(), "401"),
            (other.sign(&good), "401"),
            (with("aud", json!("http://127.0.0.1:1/mcp")), "401"),
            (with("exp", json!(1_000_000_000)), "401"),
            (with("iss", json!(other.url)), "401"),
            (with("scope", json!("library:lend")), "403"),
        ] {
            let error = setup.try_connect(era, &token).await.unwrap_err().to_string();
            assert!(error.contains(problem), "{era:?} {token}: {error}");
        }
        // The tool needs another scope.
        let client = setup.connect(era, "library:read").await;
        let error = client.call_tool("lend", &json!({"book": 1})).await.unwrap_err().to_string();
        assert!(error.contains("403") || error.contains("scope"), "{error}");
        assert!(search(&client, "x").await.is_ok());
    }
    let challenge = setup.get("/mcp", "Accept: text/event-stream\r\n").await;
    assert!(challenge.starts_with("HTTP/1.1 401 "), "{challenge}");
    assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp"), "{challenge}");
    let metadata = setup.get("/.well-known/oauth-protected-resource/mcp", "").await;
    let metadata: Value = serde_json::from_str(metadata.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(metadata["resource"], setup.url);
    assert_eq!(metadata["authorization_servers"], json!([setup.issuer.url]));
    assert_eq!(metadata["scopes_supported"], json!(["library:read"]));
    assert!(setup.get("/health", "").await.ends_with("\r\n\r\nok"));
    assert!(setup.get("/other", "").await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test]
async fn failures_of_the_library_are_told_to_the_model() {
    let setup = Setup::start().await;
    for era in ERAS {
        let client = setup.connect(era, "library:read library:lend").await;
        for (query, problem) in [
            ("broken", "the library is not available (502 Bad Gateway); try again later"),
            ("busy", "the library is not available (429 Too Many Requests); try again later"),
            ("large", "the answer of the library is too large; ask for less"),
            ("html", "the answer of the library cannot be read"),
        ] {
            assert_eq!(search(&client, query).await.unwrap_err(), problem);
        }
        let lent = call(&client, "lend", json!({"book": 2})).await.unwrap_err();
        assert_eq!(lent, "the library refuses: book 2 is lent already");
        let missing = call(&client, "lend", json!({"book": 3})).await.unwrap_err();
        assert_eq!(missing, "the library refuses: 404 Not Found");
    }
    let client = setup.connect(Era::Modern, "library:read").await;
    assert_eq!(
        search(&client, "never").await.unwrap_err(),
        "the library did not answer within 5 s; try again later"
    );

    let (library, api) = Library::start().await;
    let wrong_key = Setup::start_with(library, &api, "wrong").await;
    let client = wrong_key.connect(Era::Modern, "library:read").await;
    let error = search(&client, "x").await.unwrap_err();
    assert_eq!(error, "the library does not accept this server; its operator has to check the key");
    let nowhere = Setup::start_with(Arc::default(), "http://127.0.0.1:1", KEY).await;
    let client = nowhere.connect(Era::Modern, "library:read").await;
    assert_eq!(search(&client, "x").await.unwrap_err(), "the library cannot be reached; try again later");
}

/// Waits until a counter has a value.
async fn reaches(counter: &std::sync::atomic::AtomicUsize, value: usize) {
    let wait = async {
        while counter.load(Ordering::SeqCst) < value {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, wait).await.expect("in time");
}

#[tokio::test]
async fn cancelled_call_drops_the_request_to_the_library() {
    let setup = Setup::start().await;
    for (count, era) in (1..).zip(ERAS) {
        let client = setup.connect(era, "library:read").await;
        tokio::spawn(client.run());
        let query = json!({"query": "never"});
        let call = client.start_tool("search", &query, &CallOptions::new()).unwrap();
        reaches(&setup.library.waiting, count).await;
        let cancelled = tokio::time::Instant::now();
        client.cancel(call, None).unwrap();
        reaches(&setup.library.left, count).await;
        // Otherwise it was the timeout.
        assert!(cancelled.elapsed() < Duration::from_secs(4), "{era:?}");
    }
}

#[tokio::test]
async fn server_ends_by_a_signal() {
    let mut setup = Setup::start().await;
    let client = setup.connect(Era::Legacy, "library:read").await;
    assert!(search(&client, "x").await.is_ok());
    let id = setup.process.id().unwrap();
    assert!(Command::new("sh").args(["-c", &format!("kill {id}")]).status().await.unwrap().success());
    let status = timeout(DEADLINE, setup.process.wait()).await.expect("in time").unwrap();
    assert!(status.success(), "{status}");
}
