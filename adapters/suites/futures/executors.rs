//! Suite: clients and servers under each executor of the adapter.
//!
//! `crate::adapter` names the adapter under test.

use core::future::Future;
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use futures_lite::future;
use mcp_proto::http::server::Config;

use crate::adapter::package::{Client, HttpServer, Program};
use crate::adapter::{EXAMPLE, block_on, block_on_reactor, yield_now};
use crate::support::{Tools, example, server_config, with_timeout};

pub(crate) fn echo_call(client: &Client, n: u32) -> impl Future<Output = ()> {
    let text = n.to_string();
    async move {
        let result = client.call_tool("echo", &serde_json::json!({ "text": text })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(&*text));
    }
}

pub(crate) fn server_program() -> Program {
    Program::new(example(EXAMPLE))
}

/// Runs `f` with the URL of an HTTP server on a thread of its own.
pub(crate) fn with_http_server<T>(f: impl FnOnce(&str) -> T) -> T {
    let server = HttpServer::bind("127.0.0.1:0", server_config(), Config::new(), Tools::new().0).unwrap();
    let (handle, address) = (server.handle(), server.address().unwrap());
    let serving = thread::spawn(move || block_on(server.run()));
    let output = f(&format!("http://{address}/mcp"));
    handle.shutdown(Duration::from_secs(5));
    serving.join().unwrap().unwrap();
    output
}

#[test]
fn executor_runs_clients_of_process_and_url() {
    with_timeout(|| {
        with_http_server(|url| {
            block_on(async {
                let clients =
                    [Client::spawn(server_program()).await.unwrap(), Client::connect_url(url).await.unwrap()];
                for client in clients {
                    for n in 0..100 {
                        echo_call(&client, n).await;
                    }
                    future::zip(
                        echo_call(&client, 1),
                        future::zip(echo_call(&client, 2), echo_call(&client, 3)),
                    )
                    .await;
                    client.close().await.unwrap();
                }
            });
        });
    });
}

#[test]
fn client_and_server_share_one_thread() {
    with_timeout(|| {
        let server = HttpServer::bind("127.0.0.1:0", server_config(), Config::new(), Tools::new().0).unwrap();
        let (handle, address) = (server.handle(), server.address().unwrap());
        let calls = async {
            let client = Client::connect_url(&format!("http://{address}/mcp")).await.unwrap();
            for n in 0..100 {
                echo_call(&client, n).await;
            }
            client.close().await.unwrap();
            handle.shutdown(Duration::from_secs(5));
        };
        let (served, ()) = block_on(future::zip(server.run(), calls));
        served.unwrap();
    });
}

/// Between two calls no task drives the client. Each call may be awaited by another executor, or by several in turn.
#[test]
fn client_moves_between_executors() {
    with_timeout(|| {
        with_http_server(|url| {
            for spawned in [true, false] {
                let client = block_on_reactor(async {
                    if spawned {
                        Client::spawn(server_program()).await
                    } else {
                        Client::connect_url(url).await
                    }
                });
                let client = client.unwrap();
                for n in 0..200 {
                    let mut call = Box::pin(echo_call(&client, n));
                    // The call is polled here once, and then elsewhere.
                    if n % 3 == 0 && block_on(future::poll_once(&mut call)).is_some() {
                        continue;
                    }
                    match n % 4 {
                        0 => block_on_reactor(call),
                        1 => thread::scope(|scope| scope.spawn(|| block_on(call)).join().unwrap()),
                        _ => block_on(call),
                    }
                }
                block_on(client.close()).unwrap();
            }
        });
    });
}

#[test]
fn client_is_shared_by_threads() {
    with_timeout(|| {
        let client = block_on(Client::spawn(server_program())).unwrap();
        thread::scope(|scope| {
            for way in 0..3 {
                let client = &client;
                scope.spawn(move || {
                    for n in 0..200 {
                        match way {
                            0 => block_on_reactor(echo_call(client, n)),
                            _ => block_on(echo_call(client, n)),
                        }
                    }
                });
            }
        });
        block_on(client.close()).unwrap();
    });
}

/// One thread waits for the output of the server, another one closes the client.
#[test]
fn close_on_other_thread_ends_running_client() {
    with_timeout(|| {
        let client = block_on(Client::spawn(server_program())).unwrap();
        let (polled, polls) = mpsc::channel();
        let idle = client.clone();
        let waiting = thread::spawn(move || {
            block_on(async {
                let mut run = Box::pin(idle.run());
                assert!(future::poll_once(&mut run).await.is_none());
                polled.send(()).unwrap();
                run.await
            })
        });
        polls.recv().unwrap();
        block_on(client.close()).unwrap();
        let _ = waiting.join().unwrap();
    });
}

/// A future that is always ready to run does not starve I/O.
#[test]
fn busy_future_does_not_starve_io() {
    with_timeout(|| {
        let busy = async {
            loop {
                yield_now().await;
            }
        };
        let calls = async {
            let client = Client::spawn(server_program()).await.unwrap();
            echo_call(&client, 1).await;
            client.close().await.unwrap();
        };
        block_on(future::or(calls, busy));
    });
}
