//! Wakers of streams: any number of wakes ends exactly one wait, before it or during it.

use core::time::Duration;
use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::support::with_deadline;
use mcp_std::io::{Duplex, Interest, memory_pair};

/// Checks the waker of `io`, to which no peer writes.
fn check_waker(mut io: impl Duplex + Send + 'static) {
    with_deadline(move || {
        assert_eq!(io.wait(Interest::default(), None).unwrap_err().kind(), ErrorKind::InvalidInput);
        let waker = io.waker().unwrap();

        // Before a wait, and more than once.
        for interest in [Interest::READ, Interest::default()] {
            (0..1000).for_each(|_| waker.wake_by_ref());
            assert!(io.wait(interest, None).unwrap().is_empty());
            let started = Instant::now();
            assert!(io.wait(interest, Some(Duration::from_millis(20))).unwrap().is_empty());
            assert!(started.elapsed() >= Duration::from_millis(20), "woken for nothing");
        }

        // During a wait, most likely.
        let (began, begins) = mpsc::channel();
        let clone = io.waker().unwrap();
        let other = thread::spawn(move || {
            for round in 0..100 {
                let Ok(()) = begins.recv() else { return };
                if round % 10 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
                if round % 2 == 0 { &waker } else { &clone }.wake_by_ref();
            }
        });
        for _ in 0..100 {
            began.send(()).unwrap();
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
        }
        other.join().unwrap();
        assert!(io.wait(Interest::READ, Some(Duration::from_millis(5))).unwrap().is_empty());

        // A wait that is woken still reports readiness.
        io.waker().unwrap().wake();
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        // The same through a pointer.
        let pointer: &mut dyn Duplex = &mut io;
        pointer.waker().unwrap().wake();
        assert!(pointer.wait(Interest::READ, None).unwrap().is_empty());

        // A waker may outlive the stream.
        let waker = io.waker().unwrap();
        drop(io);
        waker.wake();
    });
}

#[test]
fn memory_end_is_woken() {
    let (near, mut far) = memory_pair(10);
    let (other, _kept) = memory_pair(10);
    check_no_wake_is_lost(other);
    check_waker(near);
    // Only the other end was woken.
    far.waker().unwrap();
    assert!(far.wait(Interest::default(), Some(Duration::ZERO)).unwrap().is_empty());
}

/// Checks that no wake is lost, however it coincides with the waits.
fn check_no_wake_is_lost(mut io: impl Duplex + Send + 'static) {
    with_deadline(move || {
        let waker = io.waker().unwrap();
        let (posted, inbox) = mpsc::channel();
        let other = thread::spawn(move || {
            for number in 0..10_000_u32 {
                posted.send(number).unwrap();
                waker.wake_by_ref();
            }
        });
        let mut expected = 0;
        while expected < 10_000 {
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
            for number in inbox.try_iter() {
                assert_eq!(number, expected);
                expected += 1;
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn stream_without_waker_returns_unsupported() {
    struct NoWakerStream;
    impl Duplex for NoWakerStream {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Ok(0)
        }
        fn wait(&mut self, _: Interest, _: Option<Duration>) -> std::io::Result<mcp_std::io::Ready> {
            Ok(mcp_std::poll::Ready::default())
        }
        fn shutdown_write(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(NoWakerStream.waker().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::OFlags;

    use super::*;
    use mcp_std::io::{Ready, Socket, Stdio, Threaded};

    fn pipe() -> (File, File) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (reader.into(), writer.into())
    }

    #[test]
    fn threaded_stream_is_woken() {
        let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
        check_waker(Threaded::new(r1, w2).unwrap());
    }

    #[test]
    fn socket_is_woken() {
        let (near, far) = UnixStream::pair().unwrap();
        check_waker(Socket::unix(near).unwrap());
        let (near, _far) = UnixStream::pair().unwrap();
        check_no_wake_is_lost(Socket::unix(near).unwrap());
        drop(far);
    }

    #[test]
    fn stdio_over_pipes_is_woken() {
        let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        assert!(io.wait(Interest::READ, None).unwrap().readable, "left to `read`");
        check_waker(io);
    }

    #[test]
    fn stdio_is_woken_after_shutdown_write() {
        with_deadline(|| {
            let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
            let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
            io.shutdown_write().unwrap();
            io.waker().unwrap().wake();
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
        });
    }

    /// Checks that the wait is left to `read` while no waker exists.
    #[test]
    fn wait_is_left_to_read_while_no_waker_exists() {
        with_deadline(|| {
            let ((r1, mut w1), (_r2, w2)) = (pipe(), pipe());
            let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
            let left_to_read = Ready { readable: true, writable: false };
            let waker = io.waker().unwrap();
            let other = thread::spawn(move || waker.wake());
            // The waker is dropped after its use, before or during the wait; its wake is not lost.
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
            other.join().unwrap();
            assert_eq!(io.wait(Interest::READ, None).unwrap(), left_to_read);
            let waker = io.waker().unwrap();
            w1.write_all(b"x").unwrap();
            waker.wake_by_ref();
            assert_eq!(io.wait(Interest::READ, None).unwrap(), left_to_read);
            assert_eq!(io.read(&mut [0; 4]).unwrap(), 1);
            assert!(io.wait(Interest::READ, Some(Duration::from_millis(5))).unwrap().is_empty());
            drop(waker);
            assert_eq!(io.wait(Interest::READ, None).unwrap(), left_to_read);
        });
    }

    fn would_block(io: &mut Stdio) -> bool {
        io.read(&mut [0; 4]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Checks that bytes and the end are read without a wait, and that the shared handle stays blocking.
    fn check_read_before_wait(input: OwnedFd, mut peer: impl Write + Send + 'static) {
        let shared = input.try_clone().unwrap();
        let (_r, w) = pipe();
        let mut io = Stdio::from_fds(input, w.into()).unwrap();
        with_deadline(move || {
            io.set_read_nonblocking().unwrap();
            io.set_read_nonblocking().unwrap();
            assert!(would_block(&mut io));
            assert!(io.wait(Interest::READ, Some(Duration::from_millis(5))).unwrap().is_empty());
            peer.write_all(b"hello").unwrap();
            assert!(io.wait(Interest::READ, None).unwrap().readable);
            assert_eq!(io.read(&mut [0; 3]).unwrap(), 3);
            assert_eq!(io.read(&mut [0; 3]).unwrap(), 2);
            assert!(would_block(&mut io));
            assert!(!rustix::fs::fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK));
            drop(peer);
            assert!(io.wait(Interest::READ, None).unwrap().readable);
            assert_eq!(io.read(&mut [0; 3]).unwrap(), 0);
        });
    }

    #[test]
    fn pipe_can_be_read_before_a_wait() {
        let (r, w) = pipe();
        check_read_before_wait(r.into(), w);
    }

    #[test]
    fn socket_can_be_read_before_a_wait() {
        let (near, far) = UnixStream::pair().unwrap();
        check_read_before_wait(near.into(), far);
    }

    /// Named pipes are not opened again, as a new description would not report their end.
    #[test]
    #[cfg(target_os = "linux")]
    fn named_pipe_can_be_read_before_a_wait() {
        let path = std::env::temp_dir().join(format!("mcp-std-fifo-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let open = |flags| rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        let first = open(OFlags::RDONLY | OFlags::NONBLOCK);
        let mut writer = File::from(open(OFlags::WRONLY));
        let reader = open(OFlags::RDONLY);
        std::fs::remove_file(&path).unwrap();
        drop(first);
        let (_r, w) = pipe();
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut io = Stdio::from_fds(reader, w.into()).unwrap();
        with_deadline(move || {
            io.set_read_nonblocking().unwrap();
            assert_eq!(io.read(&mut [0; 4]).unwrap(), 1);
            assert!(io.wait(Interest::READ, Some(crate::support::DEADLINE)).unwrap().readable);
            assert_eq!(io.read(&mut [0; 4]).unwrap(), 0);
        });
    }

    #[test]
    fn file_can_be_read_before_a_wait() {
        let (_r, w) = pipe();
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let mut io = Stdio::from_fds(file.into(), w.into()).unwrap();
        io.set_read_nonblocking().unwrap();
        assert_eq!(io.read(&mut [0; 4]).unwrap(), 4);
    }

    /// Checks that a reactor finds the same readiness as `wait`.
    #[test]
    fn descriptors_report_the_readiness_of_wait() {
        let ((r1, mut w1), (mut r2, w2)) = (pipe(), pipe());
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        let found = |io: &dyn Duplex| {
            let all = io.descriptors();
            assert!(all.auxiliary.is_none());
            let mut entries = vec![PollFd::from_borrowed_fd(all.read.unwrap(), PollFlags::IN)];
            entries.extend(all.write.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
            poll(&mut entries, Some(&Timespec::default())).unwrap();
            entries.iter().map(|entry| !entry.revents().is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(found(&io), [false, true]);
        w1.write_all(b"x").unwrap();
        while io.write(&[0; 10_000]).is_ok() {}
        assert_eq!(found(&&mut io), [true, false]);
        assert!(r2.read(&mut [0; 10_000]).unwrap() > 0);
        io.shutdown_write().unwrap();
        assert_eq!(found(&io), [true]);

        let (near, _far) = UnixStream::pair().unwrap();
        let socket = Socket::unix(near).unwrap();
        assert_eq!(socket.descriptors().write.unwrap().as_raw_fd(), socket.as_fd().as_raw_fd());
        assert_eq!(found(&socket), [false, true]);
        assert!(memory_pair(1).0.descriptors().read.is_none());
    }
}
