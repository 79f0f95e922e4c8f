//! Serial lines as byte streams: terminal devices in raw mode.

use core::task::Waker;
use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{ControlModes, OptionalActions, QueueSelector, Termios};

use super::SerialConfig;
use crate::io::{Duplex, HungUp, retry_on_interrupt};
use crate::poll::{Descriptors, Interest, LazyNotifier, Ready, hung_up, wait_stream};

/// An open serial line: a terminal device in raw mode with eight data bits, no parity, one stop bit, no echo and no flow
/// control.
///
/// The line has no end that one side could send. It ends when the device is unplugged. Bytes that are lost on the way
/// damage one line, which the receiver skips or refuses.
#[derive(Debug)]
pub struct SerialPort {
    device: File,
    /// Settings that the device had before.
    before: Termios,
    /// True after [`shutdown_write`](Duplex::shutdown_write).
    is_write_closed: bool,
    notifier: LazyNotifier,
}

impl SerialPort {
    /// Opens a serial line and discards what it has received so far.
    ///
    /// The device is locked against other programs that lock serial lines (`flock`, `TIOCEXCL`). When it is closed, it gets back
    /// the settings that it had before.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: the file is no terminal device, or it is the terminal that controls this process.
    /// - `ResourceBusy`: another program uses the device.
    /// - `Unsupported`: the device does not have this baud rate.
    /// - Otherwise the error of the operating system.
    pub fn open(config: &SerialConfig) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = match rustix::fs::open(&config.device, flags, Mode::empty()) {
            Ok(device) => device,
            Err(Errno::BUSY) => return Err(busy()),
            Err(error) => return Err(error.into()),
        };
        let before = match rustix::termios::tcgetattr(&device) {
            Ok(settings) => settings,
            Err(Errno::NOTTY) => return Err(invalid("it is no serial line (no terminal device)")),
            Err(error) => return Err(error.into()),
        };
        if rustix::termios::tcgetsid(&device).is_ok() {
            return Err(invalid("it is the terminal of this process"));
        }
        // Some devices have no locks, which is another error.
        if rustix::fs::flock(&device, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(busy());
        }
        let mut settings = before.clone();
        set_raw(&mut settings);
        let unsupported = |_| {
            let text = format!("it does not have the baud rate {}", config.baud);
            io::Error::new(ErrorKind::Unsupported, text)
        };
        settings.set_speed(config.baud).map_err(unsupported)?;
        // Dropped after an error, too: some settings may have changed.
        let port =
            Self { device: device.into(), before, is_write_closed: false, notifier: LazyNotifier::default() };
        // It only keeps other programs away, so a system without it serves as well.
        let _ = rustix::termios::ioctl_tiocexcl(&port.device);
        rustix::termios::tcsetattr(&port.device, OptionalActions::Now, &settings)?;
        // `tcsetattr` succeeds if it could change anything at all.
        if rustix::termios::tcgetattr(&port.device)?.output_speed() != config.baud {
            return Err(unsupported(Errno::INVAL));
        }
        // Bytes that arrived with other settings are damaged.
        rustix::termios::tcflush(&port.device, QueueSelector::IFlush)?;
        Ok(port)
    }
}

impl Drop for SerialPort {
    /// Restores the settings of the device. Output that the device has not sent by then may be damaged.
    fn drop(&mut self) {
        // Not `Drain`: a device that takes no more bytes would block this thread for ever. It fails if the device was unplugged.
        let _ = rustix::termios::tcsetattr(&self.device, OptionalActions::Now, &self.before);
        // The mark is that of the device, and outlives this descriptor while another program has the device open.
        let _ = rustix::termios::ioctl_tiocnxcl(&self.device);
        // A child that another thread has just forked shares the open device, and its lock, until its `exec`.
        let _ = rustix::fs::flock(&self.device, FlockOperation::Unlock);
    }
}

fn set_raw(settings: &mut Termios) {
    settings.make_raw();
    settings
        .control_modes
        .remove(ControlModes::CSIZE | ControlModes::PARENB | ControlModes::CSTOPB | ControlModes::CRTSCTS);
    // Without `CLOCAL` a line without modem signals counts as hung up.
    settings.control_modes.insert(ControlModes::CS8 | ControlModes::CREAD | ControlModes::CLOCAL);
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

fn busy() -> io::Error {
    io::Error::new(ErrorKind::ResourceBusy, "another program uses it")
}

/// Returns whether `error` means that the device was unplugged, or the other end of a pseudo-terminal closed.
fn is_unplugged(error: &io::Error) -> bool {
    let gone = [Errno::IO, Errno::NXIO, Errno::NODEV];
    gone.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Duplex for SerialPort {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match retry_on_interrupt(|| self.device.read(buf)) {
            Err(error) if is_unplugged(&error) => Ok(0),
            outcome => outcome,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_write_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        match retry_on_interrupt(|| self.device.write(bytes)) {
            Err(error) if is_unplugged(&error) => Err(ErrorKind::BrokenPipe.into()),
            outcome => outcome,
        }
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        if interest.write && self.is_write_closed {
            return Ok(Ready { readable: false, writable: true });
        }
        wait_stream(self.device.as_fd(), interest, timeout, self.notifier.notifier())
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.notifier.waker()
    }

    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors::both(self.device.as_fd())
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        let fd = self.device.as_fd();
        hung_up(fd, Some(fd))
    }

    /// Ends the outgoing direction here. The peer does not notice: a serial line has no end.
    fn shutdown_write(&mut self) -> io::Result<()> {
        self.is_write_closed = true;
        Ok(())
    }
}
