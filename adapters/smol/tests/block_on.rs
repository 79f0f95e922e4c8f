//! `mcp_smol::block_on`: what wakes the thread that runs a future.

#![cfg(unix)]

extern crate alloc;

mod support;

use core::future::{Future, poll_fn};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use async_io::{Async, Timer};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};
use mcp_proto::http::server::Config;
use mcp_smol::{Client, HttpServer, Program, block_on};
use support::{Tools, example, server_config, with_timeout};

type Socket = Async<std::os::unix::net::UnixStream>;

#[test]
fn other_thread_wakes_block_on() {
    for pause in [0, 20] {
        let (done, wait) = (AtomicBool::new(false), Mutex::new(None::<Waker>));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(pause));
                done.store(true, Ordering::SeqCst);
                if let Some(waker) = wait.lock().unwrap().take() {
                    waker.wake();
                }
            });
            block_on(poll_fn(|cx| {
                *wait.lock().unwrap() = Some(cx.waker().clone());
                if done.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            }));
        });
    }
}

#[test]
fn block_on_drives_reactor() {
    let (mut near, mut far) = Socket::pair().unwrap();
    let (slept, read) = block_on(future::zip(
        async {
            Timer::after(Duration::from_millis(5)).await;
            far.write_all(b"x").await
        },
        async {
            let mut byte = [0];
            near.read_exact(&mut byte).await.map(|()| byte)
        },
    ));
    slept.unwrap();
    assert_eq!(read.unwrap(), *b"x");
}

#[test]
fn block_on_nests_and_survives_panic() {
    let sum = block_on(async {
        let inner = block_on(async {
            Timer::after(Duration::from_millis(1)).await;
            2
        });
        future::yield_now().await;
        inner + block_on(async { 3 })
    });
    assert_eq!(sum, 5);
    let panics = std::panic::catch_unwind(|| block_on(async { panic!("on purpose") }));
    assert!(panics.is_err());
    block_on(async { Timer::after(Duration::from_millis(1)).await });
}

fn echo_call(client: &Client, n: u32) -> impl Future<Output = ()> {
    let text = n.to_string();
    async move {
        let result = client.call_tool("echo", &serde_json::json!({ "text": text })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(&*text));
    }
}

fn server_program() -> Program {
    Program::new(example("echo_smol"))
}

/// Runs `f` with the URL of an HTTP server on a thread of its own.
fn with_http_server<T>(f: impl FnOnce(&str) -> T) -> T {
    let server = HttpServer::bind("127.0.0.1:0", server_config(), Config::new(), Tools::new().0).unwrap();
    let (handle, address) = (server.handle(), server.address().unwrap());
    let serving = thread::spawn(move || block_on(server.run()));
    let output = f(&format!("http://{address}/mcp"));
    handle.shutdown(Duration::from_secs(5));
    serving.join().unwrap().unwrap();
    output
}

#[test]
fn block_on_runs_clients_of_process_and_url() {
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

/// The inner `block_on` drives what the blocked outer one waits for.
#[test]
fn nested_block_on_runs_calls() {
    with_timeout(|| {
        with_http_server(|url| {
            block_on(async {
                let clients =
                    [Client::spawn(server_program()).await.unwrap(), Client::connect_url(url).await.unwrap()];
                for client in clients {
                    for n in 0..2000 {
                        block_on(echo_call(&client, n));
                    }
                    echo_call(&client, 1).await;
                    block_on(client.close()).unwrap();
                }
            });
        });
    });
}

/// Between two calls no task drives the client. Each call may be awaited by another executor, or by several in turn.
#[test]
fn client_moves_between_executors() {
    with_timeout(|| {
        with_http_server(|url| {
            for spawned in [true, false] {
                let client = async_io::block_on(async {
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
                        0 => async_io::block_on(call),
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
                            0 => async_io::block_on(echo_call(client, n)),
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
                future::yield_now().await;
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

#[test]
fn block_on_sleeps_without_work() {
    let mut polls = 0;
    let begin = Instant::now();
    block_on(future::or(
        poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }),
        async { _ = Timer::after(Duration::from_millis(60)).await },
    ));
    assert!(begin.elapsed() >= Duration::from_millis(60));
    // Signals may cause spurious wake-ups.
    assert!(polls < 10, "{polls}");
}
