//! Ending a wait from elsewhere: once for however many wakes, before the wait or during it, and never for nothing

mod support;

use core::time::Duration;
use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_std::{Duplex, Interest, memory_pair};
use support::in_time;

/// Nobody writes to `io` here
fn is_woken(mut io: impl Duplex + Send + 'static) {
    in_time(move || {
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

        // During one, most likely.
        let (began, begins) = mpsc::channel();
        let clone = io.waker().unwrap();
        let other = thread::spawn(move || {
            for turn in 0..100 {
                let Ok(()) = begins.recv() else { return };
                if turn % 10 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
                if turn % 2 == 0 { &waker } else { &clone }.wake_by_ref();
            }
        });
        for _ in 0..100 {
            began.send(()).unwrap();
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
        }
        other.join().unwrap();
        assert!(io.wait(Interest::READ, Some(Duration::from_millis(5))).unwrap().is_empty());

        // What else is there to be found is found besides.
        io.waker().unwrap().wake();
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        // The same through a pointer.
        let pointer: &mut dyn Duplex = &mut io;
        pointer.waker().unwrap().wake();
        assert!(pointer.wait(Interest::READ, None).unwrap().is_empty());

        // A waker may be the last to go.
        let waker = io.waker().unwrap();
        drop(io);
        waker.wake();
    });
}

#[test]
fn memory() {
    let (near, mut far) = memory_pair(10);
    let (other, _kept) = memory_pair(10);
    sees_what_came_before_the_wake(other);
    is_woken(near);
    // It was its own end that was woken.
    far.waker().unwrap();
    assert!(far.wait(Interest::default(), Some(Duration::ZERO)).unwrap().is_empty());
}

/// No wake is lost, however it meets the waits
fn sees_what_came_before_the_wake(mut io: impl Duplex + Send + 'static) {
    in_time(move || {
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
fn streams_that_know_no_waker_say_so() {
    struct Plain;
    impl Duplex for Plain {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Ok(0)
        }
        fn wait(&mut self, _: Interest, _: Option<Duration>) -> std::io::Result<mcp_std::Ready> {
            Ok(mcp_std::Ready::default())
        }
        fn shutdown_write(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(Plain.waker().unwrap_err().kind(), ErrorKind::Unsupported);
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
    use mcp_std::{Ready, Socket, Stdio, Threaded};

    fn pipe() -> (File, File) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (reader.into(), writer.into())
    }

    #[test]
    fn threaded() {
        let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
        is_woken(Threaded::new(r1, w2).unwrap());
    }

    #[test]
    fn sockets() {
        let (near, far) = UnixStream::pair().unwrap();
        is_woken(Socket::unix(near).unwrap());
        let (near, _far) = UnixStream::pair().unwrap();
        sees_what_came_before_the_wake(Socket::unix(near).unwrap());
        drop(far);
    }

    #[test]
    fn pipes() {
        let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        assert!(io.wait(Interest::READ, None).unwrap().readable, "left to `read`");
        is_woken(io);
    }

    #[test]
    fn the_end_in_writing_is_no_reason_not_to_be_woken() {
        in_time(|| {
            let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
            let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
            io.shutdown_write().unwrap();
            io.waker().unwrap().wake();
            assert!(io.wait(Interest::READ, None).unwrap().is_empty());
        });
    }

    /// The wait is left to `read` as long as nobody can wake it
    #[test]
    fn a_read_waits_while_nobody_holds_a_waker() {
        in_time(|| {
            let ((r1, mut w1), (_r2, w2)) = (pipe(), pipe());
            let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
            let left_to_read = Ready { readable: true, writable: false };
            let waker = io.waker().unwrap();
            let other = thread::spawn(move || waker.wake());
            // Used and gone, seen or not: this wake is not lost.
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

    /// Bytes and the end are read without a wait, and whoever shares the handle sees no difference
    fn read_first(input: OwnedFd, mut peer: impl Write + Send + 'static) {
        let shared = input.try_clone().unwrap();
        let (_r, w) = pipe();
        let mut io = Stdio::from_fds(input, w.into()).unwrap();
        in_time(move || {
            io.never_block().unwrap();
            io.never_block().unwrap();
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
    fn pipes_are_read_first() {
        let (r, w) = pipe();
        read_first(r.into(), w);
    }

    #[test]
    fn sockets_are_read_first() {
        let (near, far) = UnixStream::pair().unwrap();
        read_first(near.into(), far);
    }

    /// A new description of a pipe with a name would not tell its end
    #[test]
    #[cfg(target_os = "linux")]
    fn named_pipes_are_read_first() {
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
        in_time(move || {
            io.never_block().unwrap();
            assert_eq!(io.read(&mut [0; 4]).unwrap(), 1);
            assert!(io.wait(Interest::READ, Some(support::DEADLINE)).unwrap().readable);
            assert_eq!(io.read(&mut [0; 4]).unwrap(), 0);
        });
    }

    #[test]
    fn files_are_read_first() {
        let (_r, w) = pipe();
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let mut io = Stdio::from_fds(file.into(), w.into()).unwrap();
        io.never_block().unwrap();
        assert_eq!(io.read(&mut [0; 4]).unwrap(), 4);
    }

    /// What a reactor finds is what `wait` finds
    #[test]
    fn descriptors() {
        let ((r1, mut w1), (mut r2, w2)) = (pipe(), pipe());
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        let found = |io: &dyn Duplex| {
            let all = io.descriptors();
            assert!(all.aside.is_none());
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
