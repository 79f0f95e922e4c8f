//! `mcp_smol::block_on`: what wakes the thread that runs a future

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
use support::{Tools, example, in_time, server};

type Socket = Async<std::os::unix::net::UnixStream>;

#[test]
fn another_thread_wakes_it() {
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
fn what_the_reactor_watches_goes_on() {
    let (mut near, mut far) = Socket::pair().unwrap();
    let (slept, heard) = block_on(future::zip(
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
    assert_eq!(heard.unwrap(), *b"x");
}

#[test]
fn one_within_another_and_one_after_another() {
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

fn echo(client: &Client, n: u32) -> impl Future<Output = ()> {
    let text = n.to_string();
    async move {
        let result = client.call_tool("echo", &serde_json::json!({ "text": text })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(&*text));
    }
}

fn process() -> Program {
    Program::new(example("echo_smol"))
}

/// A server over HTTP in a thread of its own, until the client that `f` makes of its URL has done its work
fn over_http<T>(f: impl FnOnce(&str) -> T) -> T {
    let server = HttpServer::bind("127.0.0.1:0", server(), Config::new(), Tools::new().0).unwrap();
    let (handle, address) = (server.handle(), server.address().unwrap());
    let serving = thread::spawn(move || block_on(server.run()));
    let output = f(&format!("http://{address}/mcp"));
    handle.shutdown(Duration::from_secs(5));
    serving.join().unwrap().unwrap();
    output
}

#[test]
fn clients_of_a_process_and_of_a_url() {
    in_time(|| {
        over_http(|url| {
            block_on(async {
                let clients =
                    [Client::spawn(process()).await.unwrap(), Client::connect_url(url).await.unwrap()];
                for client in clients {
                    for n in 0..100 {
                        echo(&client, n).await;
                    }
                    future::zip(echo(&client, 1), future::zip(echo(&client, 2), echo(&client, 3))).await;
                    client.close().await.unwrap();
                }
            });
        });
    });
}

#[test]
fn a_client_and_a_server_on_one_thread() {
    in_time(|| {
        let server = HttpServer::bind("127.0.0.1:0", server(), Config::new(), Tools::new().0).unwrap();
        let (handle, address) = (server.handle(), server.address().unwrap());
        let calls = async {
            let client = Client::connect_url(&format!("http://{address}/mcp")).await.unwrap();
            for n in 0..100 {
                echo(&client, n).await;
            }
            client.close().await.unwrap();
            handle.shutdown(Duration::from_secs(5));
        };
        let (served, ()) = block_on(future::zip(server.run(), calls));
        served.unwrap();
    });
}

/// What was waited for outside is waited for inside, while the outer one is blocked
#[test]
fn calls_that_block_within_another_future() {
    in_time(|| {
        over_http(|url| {
            block_on(async {
                let clients =
                    [Client::spawn(process()).await.unwrap(), Client::connect_url(url).await.unwrap()];
                for client in clients {
                    for n in 0..2000 {
                        block_on(echo(&client, n));
                    }
                    echo(&client, 1).await;
                    block_on(client.close()).unwrap();
                }
            });
        });
    });
}

/// Nobody waits for a client between two calls, and each call may be waited for in another way, or in several
#[test]
fn a_client_goes_from_one_way_of_waiting_to_another() {
    in_time(|| {
        over_http(|url| {
            for spawned in [true, false] {
                let client = async_io::block_on(async {
                    if spawned { Client::spawn(process()).await } else { Client::connect_url(url).await }
                });
                let client = client.unwrap();
                for n in 0..200 {
                    let mut call = Box::pin(echo(&client, n));
                    // Asked here, and then left.
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
fn a_client_of_two_threads() {
    in_time(|| {
        let client = block_on(Client::spawn(process())).unwrap();
        thread::scope(|scope| {
            for way in 0..3 {
                let client = &client;
                scope.spawn(move || {
                    for n in 0..200 {
                        match way {
                            0 => async_io::block_on(echo(client, n)),
                            _ => block_on(echo(client, n)),
                        }
                    }
                });
            }
        });
        block_on(client.close()).unwrap();
    });
}

/// The thread that waits for the server's output is another one than that which lets go of the client
#[test]
fn a_client_that_is_dropped_elsewhere_ends_its_server() {
    in_time(|| {
        let client = block_on(Client::spawn(process())).unwrap();
        let (asked, is_asked) = mpsc::channel();
        let idle = client.clone();
        let waiting = thread::spawn(move || {
            block_on(async {
                let mut run = Box::pin(idle.run());
                assert!(future::poll_once(&mut run).await.is_none());
                asked.send(()).unwrap();
                run.await
            })
        });
        is_asked.recv().unwrap();
        block_on(client.close()).unwrap();
        let _ = waiting.join().unwrap();
    });
}

/// A future that always wants to go on does not keep others from what they wait for
#[test]
fn a_busy_future_lets_others_read() {
    in_time(|| {
        let busy = async {
            loop {
                future::yield_now().await;
            }
        };
        let calls = async {
            let client = Client::spawn(process()).await.unwrap();
            echo(&client, 1).await;
            client.close().await.unwrap();
        };
        block_on(future::or(calls, busy));
    });
}

#[test]
fn it_sleeps_while_there_is_nothing() {
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
    // A signal may wake it besides.
    assert!(polls < 10, "{polls}");
}
