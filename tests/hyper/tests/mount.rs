//! The client of `mcp-blocking` against the exchange level under `hyper`.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mcp_blocking::Client;
use mcp_proto::http::server::{Config, Server};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Event;
use mcp_proto::{
    CallOptions, Capabilities, Capability, Change, Entropy, Era, Progress, RawJson, VersionSet, client,
    server,
};
use serde_json::json;

/// Starts a server with the tools `echo`, `count` and `never`; returns its address and its log.
fn start() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    let (tell, address) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server::Config::new("mounted", "1").capabilities(capabilities);
        let server = Server::new(Arc::new(config), Arc::new(Config::new()), Entropy::new([7; 32], 0));
        let open = Rc::new(RefCell::new(Vec::new()));
        let handle = Box::new(move |server: &mut Server, now, event| match event {
            Event::Call(call) if call.method() == "tools/list" => {
                let list = RawJson::new(r#"{"tools":[]}"#).unwrap();
                server.engine().complete_raw(now, call.id(), &list).unwrap();
            }
            Event::Call(call) => {
                let name = call.tool_call().unwrap().name.into_owned();
                match &*name {
                    "echo" => {
                        let text =
                            call.tool_call().unwrap().parse::<serde_json::Value>().unwrap().to_string();
                        server.engine().complete(now, call.id(), &CallToolResult::text(text)).unwrap();
                    }
                    "count" => {
                        for n in 1..=3 {
                            server.engine().progress(now, call.id(), Progress::new(n.into())).unwrap();
                        }
                        server.engine().publish(now, &Change::Tools);
                        server.engine().complete(now, call.id(), &CallToolResult::text("counted")).unwrap();
                    }
                    _ => {
                        notes.lock().unwrap().push("begun".into());
                        open.borrow_mut().push(call);
                    }
                }
            }
            Event::Cancelled { .. } => notes.lock().unwrap().push("cancelled".into()),
            _ => {}
        });
        runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            mcp_hyper::serve(listener, server, handle).await.unwrap();
        }));
    });
    (address.recv_timeout(Duration::from_secs(60)).unwrap(), told)
}

fn connect(address: SocketAddr, era: Era) -> Client {
    let config = client::Config::new("test", "1").versions(VersionSet::ALL.era(era));
    Client::options(config).connect_url(&format!("http://{address}/mcp")).unwrap()
}

fn wait_for_event(told: &Mutex<Vec<String>>, what: &str) {
    for _ in 0..6_000 {
        if told.lock().unwrap().iter().any(|note| note == what) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("never {what}");
}

#[test]
fn it_serves_both_eras() {
    let (address, _) = start();
    for era in [Era::Modern, Era::Legacy] {
        let client = connect(address, era);
        assert_eq!(client.peer().era(), era);
        assert!(client.list_tools().unwrap().is_empty());
        for text in ["short", &"long".repeat(500_000)] {
            let answer = client.call_tool("echo", &json!({ "text": text })).unwrap();
            assert_eq!(answer.content[0].as_text(), Some(&*json!({ "text": text }).to_string()));
        }
        let mut seen = Vec::new();
        let told = &mut |progress: &Progress| seen.push(progress.progress);
        client.call_tool_with("count", &json!({}), &CallOptions::new(), told).unwrap();
        assert!(!seen.is_empty() && seen.is_sorted(), "{seen:?}");
        client.close().unwrap();
    }
}

#[test]
fn a_client_that_leaves_ends_its_modern_call() {
    let (address, told) = start();
    let client = connect(address, Era::Modern);
    let call = client.start_tool("never", &json!({}), &CallOptions::new()).unwrap();
    client.poll(Duration::from_millis(1)).unwrap();
    wait_for_event(&told, "begun");
    client.cancel(call, None).unwrap();
    client.poll(Duration::from_millis(1)).unwrap();
    wait_for_event(&told, "cancelled");
    client.close().unwrap();
}

#[test]
fn strangers_are_kept_out() {
    use std::io::{Read, Write};
    let (address, _) = start();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(
            b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        )
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}
