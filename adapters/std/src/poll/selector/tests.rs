//! Tests that run on each implementation of the selector.

/// A timeout that only a failure reaches.
const LONG_TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use rustix::fd::AsFd;

use crate::io::Duplex;
use crate::io::Listener;
use crate::io::Socket;
use crate::poll::{Interest, Ready};

const BOTH: Ready = Ready { readable: true, writable: true };
const READABLE: Ready = Ready { readable: true, writable: false };

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[cfg(unix)]
#[test]
fn selector_without_ready_sources_is_not_asked_again_until_the_next_wait() {
    use crate::poll::{Selector, WaitRequest};

    let ((mut near, far), mut selector) = (pair(), Selector::new().unwrap());
    selector.add(&far, 1, Interest::READ).unwrap();
    let wait_outside = |selector: &Selector| {
        WaitRequest::wait(&[WaitRequest::for_selector(selector, None)], Some(Duration::ZERO)).unwrap();
    };
    let look = |selector: &mut Selector| {
        let mut found = Vec::new();
        selector.wait(Some(Duration::ZERO), &mut found).unwrap();
        found
    };
    wait_outside(&selector);
    near.write_all(b"x").unwrap();
    assert_eq!(look(&mut selector), []);
    // Only once, and a wait outside that finds it says so.
    assert_eq!(look(&mut selector), [(1, READABLE)]);
    wait_outside(&selector);
    assert_eq!(look(&mut selector), [(1, READABLE)]);
    (&far).read_exact(&mut [0]).unwrap();
    // A change of the interest, and a wait that takes time, ask in any case.
    wait_outside(&selector);
    near.write_all(b"x").unwrap();
    selector.modify(&far, 1, Interest::READ).unwrap();
    assert_eq!(look(&mut selector), [(1, READABLE)]);
    (&far).read_exact(&mut [0]).unwrap();
    wait_outside(&selector);
    near.write_all(b"x").unwrap();
    let mut found = Vec::new();
    selector.wait(LONG_TIMEOUT, &mut found).unwrap();
    assert_eq!(found, [(1, READABLE)]);
}

macro_rules! selector_tests {
    ($platform:ident) => {
        mod $platform {
            use super::super::$platform::PlatformSelector as Selector;
            use super::*;

            fn wait(selector: &mut Selector, timeout: Option<Duration>) -> Vec<(u64, Ready)> {
                let mut found = Vec::new();
                selector.wait(timeout, &mut found).unwrap();
                found
            }

            #[test]
            fn wait_reports_only_ready_sources_with_interest() {
                let listener = Listener::bind("127.0.0.1:0").unwrap();
                let address = listener.address().unwrap();
                assert!(listener.accept().unwrap().is_none());
                let mut selector = Selector::new().unwrap();
                assert!(wait(&mut selector, Some(Duration::ZERO)).is_empty());
                selector.add(listener.as_fd(), 1000, Interest::READ).unwrap();
                let mut clients: Vec<TcpStream> =
                    (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
                let mut sockets = Vec::new();
                while sockets.len() < clients.len() {
                    assert_eq!(wait(&mut selector, LONG_TIMEOUT), [(1000, READABLE)]);
                    sockets
                        .extend(core::iter::from_fn(|| listener.accept().unwrap()).map(|(socket, _)| socket));
                }
                for (socket, token) in sockets.iter().zip(0..) {
                    selector.add(socket.as_fd(), token, Interest::READ).unwrap();
                }
                for at in [3, 17, 3] {
                    clients[at].write_all(b"x").unwrap();
                    // The byte may take a moment to arrive. Level-triggered: reported until it is read.
                    for _ in 0..2 {
                        assert_eq!(wait(&mut selector, LONG_TIMEOUT), [(at as u64, READABLE)]);
                    }
                    assert_eq!(sockets[at].read(&mut [0; 8]).unwrap(), 1);
                }
                assert!(wait(&mut selector, Some(Duration::from_millis(1))).is_empty());
                // A changed interest takes effect, and only it is reported.
                selector.modify(sockets[3].as_fd(), 3, Interest::BOTH).unwrap();
                assert_eq!(
                    wait(&mut selector, LONG_TIMEOUT),
                    [(3, Ready { readable: false, writable: true })]
                );
                clients[3].write_all(b"x").unwrap();
                selector.modify(sockets[3].as_fd(), 3, Interest::default()).unwrap();
                assert!(wait(&mut selector, Some(Duration::from_millis(1))).is_empty());
                selector.modify(sockets[3].as_fd(), 3, Interest::READ).unwrap();
                assert_eq!(wait(&mut selector, LONG_TIMEOUT), [(3, READABLE)]);
                selector.remove(sockets[3].as_fd(), 3).unwrap();
                assert!(wait(&mut selector, Some(Duration::from_millis(1))).is_empty());
            }

            #[test]
            fn broken_source_is_reported_without_interest() {
                let (near, far) = pair();
                let mut far = Socket::tcp(far).unwrap();
                let mut selector = Selector::new().unwrap();
                selector.add(near.as_fd(), 5, Interest::default()).unwrap();
                far.write(b"x").unwrap();
                assert!(wait(&mut selector, Some(Duration::from_millis(1))).is_empty());
                far.set_reset_on_drop().unwrap();
                drop(far);
                assert_eq!(wait(&mut selector, LONG_TIMEOUT), [(5, BOTH)]);
                near.set_nonblocking(true).unwrap();
                // Some systems drop the byte with the connection.
                let read = (&near).read(&mut [0; 8]);
                assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
            }

            #[test]
            fn closed_selector_keeps_no_source_open() {
                let (near, mut far) = pair();
                let mut selector = Selector::new().unwrap();
                selector.add(near.as_fd(), 5, Interest::READ).unwrap();
                let waker = selector.waker().unwrap();
                drop((selector, near));
                // No duplicate is left, so the peer sees the end.
                assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
                waker.wake();
            }

            #[test]
            fn unknown_or_duplicate_source_is_refused() {
                let (near, far) = pair();
                let mut selector = Selector::new().unwrap();
                selector.add(near.as_fd(), 5, Interest::READ).unwrap();
                let again = selector.add(near.as_fd(), 5, Interest::READ).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::AlreadyExists);
                let unknown = selector.modify(far.as_fd(), 6, Interest::READ).unwrap_err();
                assert_eq!(unknown.kind(), ErrorKind::NotFound);
                assert_eq!(selector.remove(far.as_fd(), 6).unwrap_err().kind(), ErrorKind::NotFound);
                selector.remove(near.as_fd(), 5).unwrap();
                selector.add(near.as_fd(), 7, Interest::WRITE).unwrap();
                assert_eq!(wait(&mut selector, LONG_TIMEOUT)[0].0, 7);
            }

            #[test]
            fn connecting_socket_becomes_writable() {
                let listener = Listener::bind("127.0.0.1:0").unwrap();
                let address = listener.address().unwrap();
                let connected = |socket: &Socket| {
                    let mut selector = Selector::new().unwrap();
                    selector.add(socket.as_fd(), 1, Interest::WRITE).unwrap();
                    assert!(wait(&mut selector, LONG_TIMEOUT)[0].1.writable);
                    socket.connect_result()
                };
                let mut socket = Socket::connect(address).unwrap();
                connected(&socket).unwrap();
                socket.write(b"hi").unwrap();
                drop(listener);
                // Connecting fails without a listener; some systems report that immediately.
                let error = match Socket::connect(address) {
                    Ok(socket) => connected(&socket).unwrap_err(),
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            }

            #[test]
            fn one_wake_ends_one_wait() {
                let (near, mut far) = pair();
                let mut selector = Selector::new().unwrap();
                selector.add(near.as_fd(), 5, Interest::READ).unwrap();
                let waker = selector.waker().unwrap();
                (0..100).for_each(|_| waker.wake_by_ref());
                assert!(wait(&mut selector, None).is_empty());
                let started = Instant::now();
                assert!(wait(&mut selector, Some(Duration::from_millis(20))).is_empty());
                assert!(started.elapsed() >= Duration::from_millis(20), "woken for nothing");
                let (clone, other) = (selector.waker().unwrap(), waker);
                let thread = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(5));
                    clone.wake();
                });
                assert!(wait(&mut selector, None).is_empty());
                thread.join().unwrap();
                // Sources that are ready are reported in the same wait.
                other.wake_by_ref();
                far.write_all(b"x").unwrap();
                assert_eq!(wait(&mut selector, None), [(5, READABLE)]);
                drop(selector);
                other.wake();
            }
        }
    };
}

#[cfg(target_os = "linux")]
selector_tests!(epoll);
selector_tests!(portable);

#[test]
#[cfg(target_os = "linux")]
fn selector_can_watch_another_selector() {
    let (near, mut far) = pair();
    let (mut inner, mut outer) = (super::Selector::new().unwrap(), super::Selector::new().unwrap());
    let mut found = Vec::new();
    outer.add(&inner, 1, Interest::READ).unwrap();
    let mut count_ready = |outer: &mut super::Selector| {
        outer.wait(Some(Duration::ZERO), &mut found).unwrap();
        found.len()
    };
    inner.add(&near, 2, Interest::READ).unwrap();
    assert_eq!(count_ready(&mut outer), 0);
    far.write_all(b"x").unwrap();
    assert_eq!(count_ready(&mut outer), 1);
    (&near).read_exact(&mut [0]).unwrap();
    assert_eq!(count_ready(&mut outer), 0);
    inner.waker().unwrap().wake();
    assert_eq!(count_ready(&mut outer), 1);
    inner.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
    assert_eq!(count_ready(&mut outer), 0);
    let taken = inner.add(&far, u64::MAX, Interest::READ).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidInput);
}
