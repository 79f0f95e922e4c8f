//! `mcp_smol::block_on`: what wakes the thread that runs a future.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::futures::executors::{echo_call, server_program, with_http_server};
use crate::support::with_timeout;
use async_io::{Async, Timer};
use futures_lite::{AsyncReadExt, AsyncWriteExt, future};
use mcp_smol::{Client, block_on};

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
