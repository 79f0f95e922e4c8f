//! Byte streams: two ends with full pipes never deadlock, and ends and errors are reported as documented.

use core::time::Duration;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::thread;
use std::time::Instant;

use crate::support::{pump, read_until, with_deadline};
#[cfg(unix)]
use mcp_std::io::is_peer_gone;
use mcp_std::io::{Duplex, Interest, Threaded, memory_pair};

const MB10: usize = 10_000_000;

/// Writes 10 MB from both ends at the same time, each on its own thread.
fn both_ways(mut near: impl Duplex + Send + 'static, mut far: impl Duplex + Send + 'static) {
    with_deadline(move || {
        let other = thread::spawn(move || {
            let received = pump(&mut far, MB10);
            far.flush(crate::support::DEADLINE).unwrap();
            received
        });
        assert_eq!(pump(&mut near, MB10), MB10);
        near.flush(crate::support::DEADLINE).unwrap();
        assert_eq!(other.join().unwrap(), MB10);
    });
}

#[test]
fn memory_pair_carries_bytes_both_ways() {
    let (near, far) = memory_pair(1000);
    both_ways(near, far);
}

#[test]
fn memory_write_wakes_the_other_end() {
    with_deadline(|| {
        let (mut near, mut far) = memory_pair(10);
        let echo = thread::spawn(move || {
            assert!(far.wait(Interest::READ, None).unwrap().readable);
            let mut buf = [0; 10];
            let n = far.read(&mut buf).unwrap();
            far.write(&buf[..n]).unwrap();
        });
        near.write(b"ping").unwrap();
        assert_eq!(read_until(&mut near, |_| false), b"ping");
        echo.join().unwrap();
    });
}

#[test]
fn wait_ends_at_its_timeout() {
    let (mut near, _far) = memory_pair(10);
    let started = Instant::now();
    assert!(near.wait(Interest::READ, Some(Duration::from_millis(30))).unwrap().is_empty());
    assert!(started.elapsed() >= Duration::from_millis(30));
    assert!(near.wait(Interest::default(), Some(Duration::from_millis(1))).unwrap().is_empty());
}

#[cfg(unix)]
fn pipe() -> (std::fs::File, std::fs::File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    (reader.into(), writer.into())
}

#[cfg(unix)]
mod threaded {
    use super::*;

    #[test]
    fn threaded_pipes_carry_bytes_both_ways() {
        let ((r1, w1), (r2, w2)) = (pipe(), pipe());
        both_ways(
            Threaded::with_capacity(1000, r1, w2).unwrap(),
            Threaded::with_capacity(100_000, r2, w1).unwrap(),
        );
    }

    #[test]
    fn flush_waits_for_a_slow_peer_until_its_timeout() {
        with_deadline(|| {
            let ((r1, _w1), (mut r2, w2)) = (pipe(), pipe());
            let mut io = Threaded::with_capacity(1 << 20, r1, w2).unwrap();
            let total = 1 << 19;
            assert_eq!(io.write(&vec![7; total]).unwrap(), total);
            assert_eq!(io.flush(Duration::from_millis(20)).unwrap_err().kind(), ErrorKind::TimedOut);
            io.shutdown_write().unwrap();
            let reader = thread::spawn(move || {
                let mut all = Vec::new();
                r2.read_to_end(&mut all).unwrap();
                all.len()
            });
            io.flush(crate::support::DEADLINE).unwrap();
            assert_eq!(reader.join().unwrap(), total);
        });
    }

    #[test]
    fn disconnected_peer_is_reported() {
        with_deadline(|| {
            let ((r1, w1), (r2, w2)) = (pipe(), pipe());
            let mut io = Threaded::new(r1, w2).unwrap();
            drop((w1, r2));
            assert_eq!(read_until(&mut io, |_| false), b"");
            io.write(b"lost").unwrap();
            let error = io.flush(crate::support::DEADLINE).unwrap_err();
            assert!(is_peer_gone(&error), "{error}");
            assert!(is_peer_gone(&io.write(b"more").unwrap_err()));
        });
    }
}

#[test]
fn threaded_reports_a_broken_reader_and_a_panicking_writer() {
    struct BrokenReader;
    impl Read for BrokenReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }
    struct PanickingWriter;
    impl Write for PanickingWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("panicking writer of the application")
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    with_deadline(|| {
        let mut io =
            Threaded::new(Cursor::new(b"data".to_vec()).chain(BrokenReader), PanickingWriter).unwrap();
        let mut buf = [0; 10];
        io.wait(Interest::READ, None).unwrap();
        assert_eq!(io.read(&mut buf).unwrap(), 4);
        io.wait(Interest::READ, None).unwrap();
        assert_eq!(io.read(&mut buf).unwrap_err().to_string(), "torn");
        assert_eq!(io.read(&mut buf).unwrap(), 0);
        io.write(b"x").unwrap();
        assert_eq!(io.flush(crate::support::DEADLINE).unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// Checks that bytes which a buffered writer has accepted but cannot pass on yet are not written to it again.
#[test]
fn accepted_bytes_are_not_written_twice() {
    struct BufferedWriter {
        written: std::sync::mpsc::Sender<Vec<u8>>,
        full: u32,
    }
    impl Write for BufferedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            self.full = (self.full + 1) % 3;
            if self.full == 0 { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        }
    }
    with_deadline(|| {
        let (written, received) = std::sync::mpsc::channel();
        let mut io = Threaded::new(io::empty(), BufferedWriter { written, full: 0 }).unwrap();
        for bytes in [b"one", b"two"] {
            io.write(bytes).unwrap();
            io.flush(crate::support::DEADLINE).unwrap();
        }
        drop(io);
        assert_eq!(received.iter().collect::<Vec<_>>().concat(), b"onetwo");
    });
}

#[cfg(unix)]
mod sockets {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use mcp_std::io::Socket;

    #[test]
    fn unix_socket_carries_bytes_both_ways() {
        let (near, far) = UnixStream::pair().unwrap();
        both_ways(Socket::unix(near).unwrap(), Socket::unix(far).unwrap());
    }

    #[test]
    fn tcp_socket_carries_bytes_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        both_ways(Socket::tcp(near).unwrap(), Socket::tcp(far).unwrap());
    }

    #[test]
    fn bytes_of_a_disconnected_peer_are_readable() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut near = Socket::unix(near).unwrap();
        assert!(near.wait(Interest::READ, Some(Duration::ZERO)).unwrap().is_empty());
        assert_eq!(near.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        far.write_all(b"last words").unwrap();
        drop(far);
        assert_eq!(read_until(&mut near, |_| false), b"last words");
        assert!(is_peer_gone(&near.write(b"x").unwrap_err()));
        near.shutdown_write().unwrap();
        near.shutdown_write().unwrap();
    }
}

#[cfg(unix)]
mod inherited {
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use rustix::fs::OFlags;

    use super::*;
    use mcp_std::io::Stdio;

    fn is_blocking(fd: impl AsFd) -> bool {
        !rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
    }

    #[test]
    fn inherited_pipes_stay_blocking() {
        let ((r1, w1), (r2, w2)) = (pipe(), pipe());
        let shared = [r1.try_clone().unwrap(), w2.try_clone().unwrap()];
        let near = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        let far = Stdio::from_fds(r2.into(), w1.into()).unwrap();
        assert!(shared.iter().all(is_blocking));
        drop(shared);
        both_ways(near, far);
    }

    #[test]
    fn inherited_sockets_stay_blocking() {
        let (near, far) = UnixStream::pair().unwrap();
        let shared = near.try_clone().unwrap();
        let end = |stream: &UnixStream| {
            Stdio::from_fds(stream.try_clone().unwrap().into(), stream.try_clone().unwrap().into()).unwrap()
        };
        let (mut a, mut b) = (end(&near), end(&far));
        with_deadline(move || {
            let write = |io: &mut Stdio| {
                let mut total = 0;
                loop {
                    match io.write_vectored(&[io::IoSlice::new(&[1; 1000]), io::IoSlice::new(&[2; 100_000])])
                    {
                        Ok(n) => total += n,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            return total;
                        }
                    }
                }
            };
            let (there, back) = (write(&mut a), write(&mut b));
            assert!(there > 1000 && back > 1000);
            let read = |io: &mut Stdio, total: usize| {
                assert_eq!(read_until(io, |got| got.len() >= total).len(), total);
            };
            read(&mut b, there);
            read(&mut a, back);
        });
        assert!(is_blocking(&shared));
    }

    /// A device is no pipe, socket or file: it is written in small chunks, like a terminal.
    #[test]
    #[cfg(target_os = "linux")]
    fn device_is_written_in_chunks() {
        let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let mut io = Stdio::from_fds(null.try_clone().unwrap().into(), null.into()).unwrap();
        let big = vec![0; 10_000];
        assert_eq!(io.write(&big).unwrap(), 4096);
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        assert_eq!(io.write_vectored(&[io::IoSlice::new(b""), io::IoSlice::new(&big)]).unwrap(), 4096);
        assert_eq!(read_until(&mut io, |_| false), b"");
    }

    #[test]
    fn stdio_works_with_files() {
        let dir = std::env::temp_dir().join(format!("mcp-std-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (input, output) = (dir.join("in"), dir.join("out"));
        let text = "line\n".repeat(10_000);
        std::fs::write(&input, &text).unwrap();
        let fds: [OwnedFd; 2] =
            [std::fs::File::open(&input).unwrap().into(), std::fs::File::create(&output).unwrap().into()];
        let [input_fd, output_fd] = fds;
        let mut io = Stdio::from_fds(input_fd, output_fd).unwrap();
        // With and without a timeout: files are always ready.
        assert!(io.wait(Interest::READ, Some(Duration::from_secs(9))).unwrap().readable);
        let all = read_until(&mut io, |_| false);
        assert_eq!(all, text.as_bytes());
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        assert_eq!(io.write(&all).unwrap(), all.len());
        io.shutdown_write().unwrap();
        assert_eq!(io.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(std::fs::read_to_string(&output).unwrap(), text);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn stdio_handles_a_handle_made_non_blocking() {
        let ((r1, _w1), (_r2, w2)) = (pipe(), pipe());
        let other = r1.try_clone().unwrap();
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        // The handle is blocking: the wait is left to `read`.
        assert!(io.wait(Interest::READ, None).unwrap().readable);
        rustix::io::ioctl_fionbio(&other, true).unwrap();
        assert_eq!(io.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        // From now on `wait` waits.
        assert!(io.wait(Interest::READ, Some(Duration::from_millis(5))).unwrap().is_empty());
    }

    #[test]
    fn write_after_the_reader_left_is_an_error() {
        let ((r1, _w1), (r2, w2)) = (pipe(), pipe());
        let mut io = Stdio::from_fds(r1.into(), w2.into()).unwrap();
        drop(r2);
        assert!(io.wait(Interest::WRITE, None).unwrap().writable);
        assert!(is_peer_gone(&io.write(b"x").unwrap_err()));
    }
}
