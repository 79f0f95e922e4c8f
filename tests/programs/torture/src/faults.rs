//! The functions of libc that the adapters call, with one fault: the n-th call of a class fails, is short, late or interrupted.
//!
//! The program defines them, so they come before those of libc. `rustix` calls them because of its feature `use-libc`.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use core::time::Duration;

use libc::{iovec, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Calls that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Reads of sockets and pipes.
    Read,
    /// Writes to sockets and pipes.
    Write,
    Accept,
    Connect,
    /// Calls that make descriptors, but for `accept` and pipes to processes.
    Descriptor,
    Spawn,
    Thread,
    /// Waits for descriptors, with their timeouts.
    Wait,
    Clock,
    Entropy,
    /// Accesses of files.
    Store,
    /// Those of them that signals interrupt: not the changes of names.
    File,
}

const CLASSES: usize = Class::File as usize + 1;

/// Outcome of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The call does nothing and reports this error.
    Error(c_int),
    /// At most one byte passes.
    Short,
    /// The call takes 30 ms longer.
    Late,
    /// A wait ends at once, with nothing ready.
    Early,
    /// The clock stands an hour later from this reading on.
    Jump,
}

/// A fault of the table.
pub(crate) struct Fault {
    pub(crate) class: Class,
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    /// No step of the tour may notice it.
    pub(crate) is_invisible: bool,
}

const fn fault(class: Class, name: &'static str, effect: Effect, is_invisible: bool) -> Fault {
    Fault { class, name, effect, is_invisible }
}

pub(crate) const FAULTS: [Fault; 33] = [
    fault(Class::Read, "read-fails", Effect::Error(libc::EIO), false),
    fault(Class::Read, "read-short", Effect::Short, true),
    fault(Class::Read, "read-late", Effect::Late, true),
    fault(Class::Read, "read-interrupted", Effect::Error(libc::EINTR), true),
    fault(Class::Write, "write-fails", Effect::Error(libc::EIO), false),
    fault(Class::Write, "write-short", Effect::Short, true),
    fault(Class::Write, "write-late", Effect::Late, true),
    fault(Class::Write, "write-interrupted", Effect::Error(libc::EINTR), true),
    fault(Class::Accept, "accept-without-descriptors", Effect::Error(libc::EMFILE), true),
    fault(Class::Accept, "accept-aborted", Effect::Error(libc::ECONNABORTED), true),
    fault(Class::Accept, "accept-late", Effect::Late, true),
    fault(Class::Accept, "accept-interrupted", Effect::Error(libc::EINTR), true),
    fault(Class::Connect, "connect-fails", Effect::Error(libc::ENETUNREACH), false),
    fault(Class::Connect, "connect-late", Effect::Late, true),
    fault(Class::Descriptor, "descriptor-refused", Effect::Error(libc::EMFILE), false),
    fault(Class::Descriptor, "descriptor-late", Effect::Late, true),
    fault(Class::Spawn, "spawn-fails", Effect::Error(libc::EAGAIN), false),
    fault(Class::Spawn, "spawn-late", Effect::Late, true),
    fault(Class::Thread, "thread-fails", Effect::Error(libc::EAGAIN), false),
    fault(Class::Thread, "thread-late", Effect::Late, true),
    fault(Class::Wait, "wait-early", Effect::Early, true),
    fault(Class::Wait, "wait-late", Effect::Late, true),
    fault(Class::Wait, "wait-interrupted", Effect::Error(libc::EINTR), true),
    fault(Class::Clock, "clock-jumps", Effect::Jump, false),
    fault(Class::Clock, "clock-late", Effect::Late, true),
    fault(Class::Entropy, "entropy-fails", Effect::Error(libc::EIO), false),
    fault(Class::Entropy, "entropy-short", Effect::Short, true),
    fault(Class::Entropy, "entropy-late", Effect::Late, true),
    fault(Class::Entropy, "entropy-interrupted", Effect::Error(libc::EINTR), true),
    fault(Class::Store, "store-fails", Effect::Error(libc::ENOSPC), false),
    fault(Class::Store, "store-short", Effect::Short, true),
    fault(Class::Store, "store-late", Effect::Late, true),
    fault(Class::File, "store-interrupted", Effect::Error(libc::EINTR), true),
];

/// Index of the fault that is armed, plus one.
static ARMED: AtomicUsize = AtomicUsize::new(0);
/// Calls of its class before the fault.
static NTH: AtomicUsize = AtomicUsize::new(0);
static FIRED: AtomicBool = AtomicBool::new(false);
/// The fault met a server over HTTP, of which its client sees the end of the connection alone.
static AT_SERVER: AtomicBool = AtomicBool::new(false);
/// Port of that server.
static PORT: AtomicUsize = AtomicUsize::new(0);
static COUNTS: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];
static IS_COUNTING: AtomicBool = AtomicBool::new(false);
/// Seconds that the clock was put forward. It never goes back.
static OFFSET: AtomicI64 = AtomicI64::new(0);

std::thread_local! {
    static IS_EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Runs what belongs to the harness: its calls are neither counted nor fail.
pub(crate) fn exempt<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_EXEMPT.replace(true);
    let outcome = work();
    IS_EXEMPT.set(before);
    outcome
}

/// Begins to count, with a fault at the `nth` call of its class if one is named.
pub(crate) fn arm(fault: Option<(usize, usize)>) {
    COUNTS.iter().for_each(|count| count.store(0, SeqCst));
    FIRED.store(false, SeqCst);
    AT_SERVER.store(false, SeqCst);
    NTH.store(fault.map_or(0, |(_, nth)| nth), SeqCst);
    ARMED.store(fault.map_or(0, |(index, _)| index + 1), SeqCst);
    IS_COUNTING.store(true, SeqCst);
}

/// Ends counting. Returns whether the fault was reached.
pub(crate) fn disarm() -> bool {
    IS_COUNTING.store(false, SeqCst);
    FIRED.load(SeqCst)
}

/// Says where the server over HTTP listens.
pub(crate) fn set_server(port: u16) {
    PORT.store(port.into(), SeqCst);
}

/// Returns whether the fault met the server over HTTP.
pub(crate) fn is_at_server() -> bool {
    AT_SERVER.load(SeqCst)
}

/// Returns the port of the own end of a socket.
fn own_port(fd: c_int) -> Option<u16> {
    // SAFETY: the address has room for one of IPv4, and its length says so.
    unsafe {
        let mut address: libc::sockaddr_in = core::mem::zeroed();
        let mut size = size_of::<libc::sockaddr_in>() as socklen_t;
        let outcome = libc::syscall(libc::SYS_getsockname, fd, &raw mut address, &raw mut size);
        (outcome == 0 && c_int::from(address.sin_family) == libc::AF_INET)
            .then(|| u16::from_be(address.sin_port))
    }
}

/// Returns the calls of a class since [`arm`].
pub(crate) fn count(class: Class) -> usize {
    COUNTS[class as usize].load(SeqCst)
}

/// Counts a call. Returns the effect if it is the one that was chosen.
fn strike(class: Class) -> Option<Effect> {
    if !IS_COUNTING.load(SeqCst) || IS_EXEMPT.get() {
        return None;
    }
    let number = COUNTS[class as usize].fetch_add(1, SeqCst);
    let fault = &FAULTS[ARMED.load(SeqCst).checked_sub(1)?];
    if fault.class != class || number != NTH.load(SeqCst) || FIRED.swap(true, SeqCst) {
        return None;
    }
    if std::env::var_os("MCP_TORTURE_TRACE").is_some() {
        exempt(|| eprintln!("{}", std::backtrace::Backtrace::force_capture()));
    }
    if fault.effect == Effect::Late {
        // Of the system itself: no other call is changed by it.
        let time = timespec { tv_sec: 0, tv_nsec: 30_000_000 };
        // SAFETY: a valid time, and nothing is returned.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
    }
    Some(fault.effect)
}

fn fail(errno: c_int) -> ssize_t {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Returns the class of a descriptor: `None` if it is neither a stream nor a file.
fn stream(fd: c_int, class: Class) -> Option<Class> {
    if !IS_COUNTING.load(SeqCst) || IS_EXEMPT.get() {
        return None;
    }
    // SAFETY: `fstat` writes the whole value, or fails.
    let mode = unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        if libc::syscall(libc::SYS_fstat, fd, &raw mut stat) < 0 {
            return None;
        }
        stat.st_mode & libc::S_IFMT
    };
    match mode {
        libc::S_IFSOCK | libc::S_IFIFO => Some(class),
        libc::S_IFREG => Some(Class::Store),
        _ => None,
    }
}

/// Returns the effect on a call with a descriptor, and for an error what the call returns.
fn strike_fd(fd: c_int, class: Class) -> Result<bool, ssize_t> {
    let effect = match stream(fd, class) {
        Some(Class::Store) => strike(Class::File).or_else(|| strike(Class::Store)),
        class => class.and_then(strike),
    };
    if effect.is_some() {
        AT_SERVER.store(own_port(fd).is_some_and(|port| usize::from(port) == PORT.load(SeqCst)), SeqCst);
    }
    match effect {
        Some(Effect::Error(errno)) => Err(fail(errno)),
        effect => Ok(effect == Some(Effect::Short)),
    }
}

/// As [`strike_fd`], for calls without one.
fn strike_other(class: Class) -> Result<bool, c_int> {
    match strike(class) {
        Some(Effect::Error(errno)) => Err(fail(errno) as c_int),
        Some(Effect::Early) => Err(0),
        effect => Ok(effect == Some(Effect::Short)),
    }
}

/// As [`strike_other`], for an access of a file that signals interrupt.
fn strike_file() -> Result<bool, c_int> {
    strike_other(Class::File)?;
    strike_other(Class::Store)
}

/// Looks up a function of libc that has no plain system call.
fn real(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends in a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Vectors of a call, cut to one byte if it is short.
fn cut(vectors: *const iovec, count: usize, is_short: bool) -> (iovec, *const iovec, usize) {
    let empty = iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    if !is_short || count == 0 {
        return (empty, vectors, count);
    }
    // SAFETY: the caller gives `count` vectors.
    let all = unsafe { core::slice::from_raw_parts(vectors, count) };
    let first = all.iter().find(|vector| vector.iov_len > 0).copied().unwrap_or(empty);
    (iovec { iov_len: first.iov_len.min(1), ..first }, core::ptr::null(), 1)
}

macro_rules! replace {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the arguments of the caller are passed on, with a smaller length at most.
                unsafe { $body }
            }
        )*
    };
}

macro_rules! bytes {
    ($fd:ident, $class:ident, $length:ident, $call:expr) => {
        match strike_fd($fd, Class::$class) {
            Err(failed) => failed,
            Ok(is_short) => {
                let $length = if is_short { $length.min(1) } else { $length };
                let outcome = $call;
                outcome as ssize_t
            }
        }
    };
}

macro_rules! vectors {
    ($fd:ident, $class:ident, $vectors:ident, $count:ident, $call:expr) => {
        match strike_fd($fd, Class::$class) {
            Err(failed) => failed,
            Ok(is_short) => {
                let (one, $vectors, $count) = cut($vectors, $count as usize, is_short);
                let $vectors = if $vectors.is_null() { &raw const one } else { $vectors };
                let outcome = $call;
                outcome as ssize_t
            }
        }
    };
}

macro_rules! other {
    ($class:ident, $call:expr) => {
        outcome!(strike_other(Class::$class), $call)
    };
}

macro_rules! outcome {
    ($strike:expr, $call:expr) => {
        match $strike {
            Err(failed) => failed,
            Ok(_) => {
                let outcome = $call;
                outcome as c_int
            }
        }
    };
}

replace! {
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
        bytes!(fd, Read, length, libc::syscall(libc::SYS_read, fd, buffer, length))
    }
    fn readv(fd: c_int, all: *const iovec, count: c_int) -> ssize_t {
        vectors!(fd, Read, all, count, libc::syscall(libc::SYS_readv, fd, all, count))
    }
    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
        bytes!(fd, Read, length, libc::syscall(libc::SYS_recvfrom, fd, buffer, length, flags, 0, 0))
    }
    fn recvfrom(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int, from: *mut sockaddr, size: *mut socklen_t) -> ssize_t {
        bytes!(fd, Read, length, libc::syscall(libc::SYS_recvfrom, fd, buffer, length, flags, from, size))
    }
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        match strike_fd(fd, Class::Read) {
            Err(failed) => failed,
            Ok(_) => libc::syscall(libc::SYS_recvmsg, fd, message, flags) as ssize_t,
        }
    }
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
        bytes!(fd, Write, length, libc::syscall(libc::SYS_write, fd, buffer, length))
    }
    fn writev(fd: c_int, all: *const iovec, count: c_int) -> ssize_t {
        vectors!(fd, Write, all, count, libc::syscall(libc::SYS_writev, fd, all, count))
    }
    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
        bytes!(fd, Write, length, libc::syscall(libc::SYS_sendto, fd, buffer, length, flags, 0, 0))
    }
    fn sendto(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, size: socklen_t) -> ssize_t {
        bytes!(fd, Write, length, libc::syscall(libc::SYS_sendto, fd, buffer, length, flags, to, size))
    }
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        let mut copy = *message;
        let (all, count) = (copy.msg_iov.cast_const(), copy.msg_iovlen);
        vectors!(fd, Write, all, count, {
            copy.msg_iov = all.cast_mut();
            copy.msg_iovlen = count as _;
            libc::syscall(libc::SYS_sendmsg, fd, &raw const copy, flags)
        })
    }
    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
        other!(Accept, libc::syscall(libc::SYS_accept4, fd, address, size, flags))
    }
    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int {
        other!(Connect, libc::syscall(libc::SYS_connect, fd, address, size))
    }
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_socket, domain, kind, protocol))
    }
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_socketpair, domain, kind, protocol, pair))
    }
    fn eventfd(value: c_uint, flags: c_int) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_eventfd2, value, flags))
    }
    fn epoll_create1(flags: c_int) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_epoll_create1, flags))
    }
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_pipe2, pair, flags))
    }
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        other!(Descriptor, libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode))
    }
    fn fsync(fd: c_int) -> c_int {
        outcome!(strike_file(), libc::syscall(libc::SYS_fsync, fd))
    }
    fn rename(from: *const c_char, to: *const c_char) -> c_int {
        other!(Store, libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0))
    }
    fn unlink(path: *const c_char) -> c_int {
        other!(Store, libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0))
    }
    fn posix_spawnp(pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: *const c_void, environment: *const c_void) -> c_int {
        type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, *const c_void, *const c_void) -> c_int;
        match strike(Class::Spawn) {
            Some(Effect::Error(errno)) => errno,
            _ => transmute::<*mut c_void, Spawn>(real(c"posix_spawnp"))(pid, path, actions, attributes, argv, environment),
        }
    }
    fn pthread_create(thread: *mut c_void, attributes: *const c_void, main: *const c_void, argument: *mut c_void) -> c_int {
        type Create = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut c_void) -> c_int;
        match strike(Class::Thread) {
            Some(Effect::Error(errno)) => errno,
            _ => transmute::<*mut c_void, Create>(real(c"pthread_create"))(thread, attributes, main, argument),
        }
    }
    fn epoll_wait(fd: c_int, events: *mut libc::epoll_event, count: c_int, timeout: c_int) -> c_int {
        other!(Wait, libc::syscall(libc::SYS_epoll_pwait, fd, events, count, timeout, 0, 8))
    }
    fn epoll_pwait2(fd: c_int, events: *mut libc::epoll_event, count: c_int, timeout: *const timespec, mask: *const c_void) -> c_int {
        other!(Wait, libc::syscall(libc::SYS_epoll_pwait2, fd, events, count, timeout, mask, 8))
    }
    fn poll(all: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        clear(all, count);
        let time = timespec { tv_sec: i64::from(timeout) / 1_000, tv_nsec: i64::from(timeout) % 1_000 * 1_000_000 };
        let time = if timeout < 0 { core::ptr::null() } else { &raw const time };
        other!(Wait, libc::syscall(libc::SYS_ppoll, all, count, time, 0, 8))
    }
    fn ppoll(all: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const c_void) -> c_int {
        let copy = timeout.as_ref().copied();
        let timeout = copy.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        clear(all, count);
        other!(Wait, libc::syscall(libc::SYS_ppoll, all, count, timeout, mask, 8))
    }
    fn clock_gettime(clock: c_int, time: *mut timespec) -> c_int {
        if strike(Class::Clock) == Some(Effect::Jump) {
            OFFSET.fetch_add(HOUR.as_secs() as i64, SeqCst);
        }
        let outcome = libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int;
        // The harness measures with the clock of the system.
        if clock == libc::CLOCK_MONOTONIC && !IS_EXEMPT.get() {
            (*time).tv_sec += OFFSET.load(SeqCst);
        }
        outcome
    }
    fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
        // A length of 0 asks whether the kernel has the call. `std` asks for 16 bytes, the keys of a map, and panics without them.
        match if matches!(length, 0 | 16) { Ok(false) } else { strike_other(Class::Entropy) } {
            Err(failed) => failed as ssize_t,
            Ok(is_short) => libc::syscall(libc::SYS_getrandom, buffer, if is_short { 1 } else { length }, flags) as ssize_t,
        }
    }
}

/// A plain system call, with as many arguments as there can be. Waits for a lock end at a time of the clock, which the kernel has not
/// put forward.
///
/// # Safety
///
/// That of `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    mut fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    type Call = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    if REAL.load(SeqCst).is_null() {
        REAL.store(real(c"syscall"), SeqCst);
    }
    let kind = second as c_int & !libc::FUTEX_PRIVATE_FLAG;
    let is_timed = number == libc::SYS_futex && kind == libc::FUTEX_WAIT_BITSET && fourth != 0;
    let mut until = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the arguments of the caller are passed on, with another time at most; the function is the one of libc.
    unsafe {
        if is_timed && !IS_EXEMPT.get() {
            until = *(fourth as *const timespec);
            until.tv_sec = (until.tv_sec - OFFSET.load(SeqCst)).max(0);
            fourth = &raw const until as c_long;
        }
        let outcome = transmute::<*mut c_void, Call>(REAL.load(SeqCst))(
            number, first, second, third, fourth, fifth, sixth,
        );
        core::hint::black_box(&until);
        outcome
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Clears the outcomes of an earlier wait, as a wait does that ends without any.
unsafe fn clear(all: *mut pollfd, count: nfds_t) {
    if !all.is_null() {
        // SAFETY: the caller gives `count` entries.
        unsafe { core::slice::from_raw_parts_mut(all, count as usize) }
            .iter_mut()
            .for_each(|one| one.revents = 0);
    }
}
