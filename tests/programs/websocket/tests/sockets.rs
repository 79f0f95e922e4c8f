//! Both bindings over real sockets.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, Engine};
use mcp_proto::{CallOptions, Capabilities, Capability, Era, Progress, VersionSet, client};
use mcp_websocket::socket::{ClientSocket, serve};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

/// Starts a server with the tools `echo` and `never`. It reports cancelled calls.
fn start() -> (std::net::SocketAddr, mpsc::Receiver<()>) {
    let ((tell, address), (report, cancelled)) = (mpsc::channel(), mpsc::channel());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config =
            server::Config::new("sockets", "1").capabilities(Capabilities::new().with(Capability::Tools));
        let engine = Engine::new(Arc::new(config));
        let handle = Box::new(move |engine: &mut Engine, now, event| match event {
            server::Event::Call(call) => {
                let tool = call.tool_call().unwrap();
                if tool.name == "echo" {
                    let text =
                        tool.parse::<serde_json::Value>().unwrap()["text"].as_str().unwrap().to_owned();
                    engine.progress(now, call.id(), Progress::new(1.0)).unwrap();
                    engine.complete(now, call.id(), &CallToolResult::text(text)).unwrap();
                }
            }
            server::Event::Cancelled { .. } => report.send(()).unwrap(),
            _ => {}
        });
        runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            serve(listener, engine, handle).await.unwrap();
        }));
    });
    (address.recv_timeout(Duration::from_secs(60)).unwrap(), cancelled)
}

async fn connect(address: std::net::SocketAddr, era: Era) -> ClientSocket {
    let config = client::Config::new("client", "1").versions(VersionSet::ALL.era(era));
    ClientSocket::connect(TcpStream::connect(address).await.unwrap(), config).await.unwrap()
}

/// Waits for the outcome of a call; returns the text of its result, and the number of progress reports.
async fn outcome(socket: &mut ClientSocket) -> (String, usize) {
    let mut reports = 0;
    loop {
        match socket.event().await.expect("the connection is open") {
            client::Event::Done { outcome, .. } => {
                let result: serde_json::Value = serde_json::from_slice(outcome.unwrap().as_bytes()).unwrap();
                return (result["content"][0]["text"].as_str().unwrap().to_owned(), reports);
            }
            client::Event::Progress { .. } => reports += 1,
            _ => {}
        }
    }
}

#[test]
fn clients_of_both_eras_share_a_server() {
    let (address, cancelled) = start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let work = async {
        for era in [Era::Legacy, Era::Modern] {
            let (mut one, mut two) = (connect(address, era).await, connect(address, era).await);
            let long = "x".repeat(300_000);
            for (socket, text) in [(&mut one, &*long), (&mut two, "short")] {
                let (engine, now) = socket.engine();
                engine
                    .call_tool(now, "echo", &json!({"text": text}), &CallOptions::new().with_progress())
                    .unwrap();
                assert_eq!(outcome(socket).await, (text.to_owned(), 1), "{era:?}");
            }
            let (engine, now) = one.engine();
            let call = engine.call_tool(now, "never", &json!({}), &CallOptions::new()).unwrap();
            // The request leaves before it is cancelled.
            tokio::time::timeout(Duration::from_millis(200), one.event()).await.expect_err("nothing happens");
            let (engine, now) = one.engine();
            engine.cancel(now, call, None).unwrap();
            assert!(matches!(one.event().await, Some(client::Event::Done { .. })));
            tokio::time::timeout(Duration::from_millis(200), one.event()).await.expect_err("nothing happens");
            cancelled.recv_timeout(Duration::from_secs(60)).unwrap();

            // A connection that ends cancels its calls.
            let (engine, now) = two.engine();
            engine.call_tool(now, "never", &json!({}), &CallOptions::new()).unwrap();
            tokio::time::timeout(Duration::from_millis(200), two.event()).await.expect_err("nothing happens");
            drop(two);
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancelled.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await.expect("in time") });
}

#[test]
fn client_that_sends_no_frames_of_the_binding_is_disconnected() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    let (address, _cancelled) = start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let work = async {
        for bad in [Message::text("{}"), Message::binary(b"1 {}".as_slice())] {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut socket, _) =
                tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await.unwrap();
            socket.send(bad).await.unwrap();
            assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
        }
        // The server serves others.
        let mut socket = connect(address, Era::Modern).await;
        let (engine, now) = socket.engine();
        engine.call_tool(now, "echo", &json!({"text": "well"}), &CallOptions::new()).unwrap();
        assert_eq!(outcome(&mut socket).await.0, "well");
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await.expect("in time") });
}
