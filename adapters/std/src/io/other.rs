//! Substitutes for sockets, serial lines and stdio on systems that cannot wait for several streams at once.

#[cfg(not(windows))]
pub(super) mod net {
    //! TCP listeners and connecting sockets, which this platform does not support.

    use core::convert::Infallible;
    use core::net::SocketAddr;
    use std::io::{self, ErrorKind};
    use std::net::ToSocketAddrs;

    use crate::io::Socket;

    /// A TCP listener; it cannot be created on this platform.
    #[derive(Debug)]
    pub struct Listener(Infallible);

    impl Listener {
        /// Fails on this platform.
        ///
        /// # Errors
        ///
        /// Always `Unsupported`.
        pub fn bind(_: impl ToSocketAddrs) -> io::Result<Self> {
            Err(unsupported())
        }

        /// Returns the address that the listener is bound to.
        ///
        /// # Errors
        ///
        /// None.
        pub fn address(&self) -> io::Result<SocketAddr> {
            match self.0 {}
        }

        /// Accepts the next connection.
        ///
        /// # Errors
        ///
        /// None.
        pub fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
            match self.0 {}
        }

        /// Returns whether a connection is waiting.
        #[must_use]
        pub fn has_waiting(&self) -> bool {
            match self.0 {}
        }
    }

    /// Returns whether `error` means that this process or machine has no resources for another connection now.
    #[must_use]
    pub fn is_resource_exhausted(_: &io::Error) -> bool {
        false
    }

    impl Socket {
        /// Fails on this platform.
        ///
        /// # Errors
        ///
        /// Always `Unsupported`.
        pub fn connect(_: SocketAddr) -> io::Result<Self> {
            Err(unsupported())
        }

        /// Returns the outcome of [`connect`](Self::connect).
        ///
        /// # Errors
        ///
        /// Always `Unsupported`.
        pub fn connect_result(&self) -> io::Result<()> {
            Err(unsupported())
        }
    }

    impl Socket {
        /// Does nothing.
        ///
        /// # Errors
        ///
        /// None.
        pub fn set_reset_on_drop(&self) -> io::Result<()> {
            Ok(())
        }

        #[expect(clippy::unused_self, reason = "same signature as on other platforms")]
        pub(crate) const fn probe_silent_peer(&self) {}

        /// Returns `false`: no socket exists.
        #[must_use]
        pub fn has_input(&self) -> bool {
            false
        }
    }

    fn unsupported() -> io::Error {
        io::Error::new(ErrorKind::Unsupported, "this platform cannot wait for several sockets at once")
    }
}

pub(super) mod serial {
    //! Serial lines, which this platform does not support.

    use core::convert::Infallible;
    use core::time::Duration;
    use std::io::{self, ErrorKind};

    use super::super::SerialConfig;
    use crate::io::Duplex;
    use crate::poll::{Interest, Ready};

    /// An open serial line; it cannot be created on this platform.
    #[derive(Debug)]
    pub struct SerialPort(Infallible);

    impl SerialPort {
        /// Fails on this platform.
        ///
        /// # Errors
        ///
        /// Always `Unsupported`.
        pub fn open(_: &SerialConfig) -> io::Result<Self> {
            Err(io::Error::new(ErrorKind::Unsupported, "serial lines need a Unix system"))
        }
    }

    impl Duplex for SerialPort {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0 {}
        }

        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }

        fn wait(&mut self, _: Interest, _: Option<Duration>) -> io::Result<Ready> {
            match self.0 {}
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            match self.0 {}
        }
    }
}

pub(super) mod stdio {
    //! Stdin and stdout of this process as one byte stream, where they cannot be polled.

    use std::io;

    use crate::io::Threaded;

    /// Stdin and stdout of this process, through one thread each (see [`Threaded`]).
    ///
    /// Call [`flush`](crate::io::Duplex::flush) before the process ends.
    #[derive(Debug)]
    pub struct Stdio(Threaded);

    impl Stdio {
        /// Opens stdin and stdout as they are; other output of the program to stdout mixes with the stream.
        ///
        /// # Errors
        ///
        /// The error of the operating system if a thread cannot be started.
        pub fn open() -> io::Result<Self> {
            Threaded::new(io::stdin(), io::stdout()).map(Self)
        }

        /// The same as [`open`](Self::open); stdout cannot be guarded on this platform.
        ///
        /// # Errors
        ///
        /// The same as [`open`](Self::open).
        pub fn guarded() -> io::Result<Self> {
            Self::open()
        }

        /// Does nothing: a thread waits for stdin, and `read` never blocks.
        ///
        /// # Errors
        ///
        /// None.
        pub fn set_read_nonblocking(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    macro_rules! threads {
        ($self:ident, $($call:tt)*) => { $self.0.$($call)* };
    }

    crate::io::forward_duplex!(threads: impl[] Stdio);
}

pub(super) mod stream_listener {
    //! Listeners for byte streams, which this platform does not support.

    use core::convert::Infallible;
    use std::io::{self, ErrorKind};

    use crate::io::{Socket, StreamAddress};

    /// A listener for byte streams; it cannot be created on this platform.
    #[derive(Debug)]
    pub struct StreamListener(Infallible);

    impl StreamListener {
        /// Fails on this platform: accept connections with `std`, and serve each [`Socket`] on a thread of its own.
        ///
        /// # Errors
        ///
        /// Always `Unsupported`.
        pub fn bind(address: &StreamAddress) -> io::Result<Self> {
            let why =
                format!("cannot listen at {address}: this platform cannot wait for several sockets at once");
            Err(io::Error::new(ErrorKind::Unsupported, why))
        }

        /// Returns the address that the listener is bound to.
        ///
        /// # Errors
        ///
        /// None.
        pub fn address(&self) -> io::Result<StreamAddress> {
            match self.0 {}
        }

        /// Returns whether other machines can reach the address.
        ///
        /// # Errors
        ///
        /// None.
        pub fn is_reachable_from_outside(&self) -> io::Result<bool> {
            match self.0 {}
        }

        /// Accepts the next connection.
        ///
        /// # Errors
        ///
        /// None.
        pub fn accept(&self) -> io::Result<Option<Socket>> {
            match self.0 {}
        }
    }
}
