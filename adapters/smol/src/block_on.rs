//! Running a future on this thread

use core::future::Future;

/// Runs a future on this thread until it is done, and waits for the servers and clients in it by one system call
///
/// For programs that are one server or one client: `async_io::block_on` and `smol::block_on` do the same in five system
/// calls for each wait, which cost more than most calls of a server do. What else the future waits for, such as timers
/// and sockets of `async-io`, is looked at by the reactor's own thread and works as always. An executor can run inside;
/// one that runs on several threads had better be left to the reactor, because what waits on a thread here goes on only
/// when that thread has nothing else to do.
///
/// ```
/// let four = mcp_smol::block_on(async { 2 + 2 });
/// assert_eq!(four, 4);
/// ```
///
/// Where there is no `poll(2)`, it is `async_io::block_on`.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    #[cfg(unix)]
    return local::block_on(future);
    #[cfg(not(unix))]
    return async_io::block_on(future);
}

#[cfg(unix)]
pub(crate) use local::{here, spot};

/// Everywhere is the same place
#[cfg(not(unix))]
pub(crate) const fn spot() -> Option<usize> {
    None
}

#[cfg(unix)]
mod local {
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::cell::{Cell, RefCell};
    use core::future::{Future, poll_fn};
    use core::pin::pin;
    use core::sync::atomic::{AtomicU8, Ordering};
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;

    use mcp_std::Waits;

    /// What a thread waits by, and how its wait is ended
    #[derive(Debug)]
    struct Thread {
        state: Arc<State>,
        waker: Waker,
    }

    #[derive(Debug)]
    struct State {
        state: AtomicU8,
        waits: Arc<Waits>,
    }

    /// The future is polled, or about to be
    const AWAKE: u8 = 0;
    /// The thread waits
    const ASLEEP: u8 = 1;
    /// It was woken, and not polled since
    const WOKEN: u8 = 2;

    impl Wake for State {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
                self.waits.ring();
            }
        }
    }

    impl Thread {
        fn new() -> Option<Self> {
            let waits = Arc::new(Waits::new().ok()?);
            let state = Arc::new(State { state: AtomicU8::new(AWAKE), waits });
            Some(Self { waker: Waker::from(state.clone()), state })
        }

        fn run(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
            let mut cx = Context::from_waker(&self.waker);
            let State { state, waits } = &*self.state;
            loop {
                state.store(AWAKE, Ordering::SeqCst);
                if poll(&mut cx).is_ready() {
                    return;
                }
                let sleeps =
                    state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                // While a future wants to go on, the others of an executor are to get what they wait for.
                let timeout = if sleeps { None } else { Some(Duration::ZERO) };
                let awake = || _ = state.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
                if waits.wait(timeout, awake).is_err() {
                    // The system is short of memory.
                    std::thread::sleep(SHORT);
                }
            }
        }
    }

    std::thread_local! {
        /// Of the last future that ran here, for the next one
        static SPARE: Cell<Option<Thread>> = const { Cell::new(None) };
        /// Of the future that runs here
        static HERE: RefCell<Option<Arc<Waits>>> = const { RefCell::new(None) };
    }

    /// What this thread waits by while it runs a future
    pub(crate) fn here() -> Option<Arc<Waits>> {
        HERE.try_with(|here| here.borrow().clone()).ok().flatten()
    }

    /// A number for what this thread waits by while it runs a future, as long as that is asked for something
    pub(crate) fn spot() -> Option<usize> {
        HERE.try_with(|here| here.borrow().as_ref().map(|here| Arc::as_ptr(here).addr())).ok().flatten()
    }

    /// While it lives, the thread waits by `thread`; then as before
    struct Entered<'a> {
        before: Option<Arc<Waits>>,
        thread: &'a Thread,
    }

    impl<'a> Entered<'a> {
        fn new(thread: &'a Thread) -> Self {
            let before = HERE.with(|here| here.replace(Some(thread.state.waits.clone())));
            Self { before, thread }
        }
    }

    impl Drop for Entered<'_> {
        fn drop(&mut self) {
            let _ = HERE.try_with(|here| here.replace(self.before.take()));
            // What goes on elsewhere has to ask there.
            self.thread.state.waits.leave();
        }
    }

    pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut output = None;
        run(&mut |cx| future.as_mut().poll(cx).map(|done| output = Some(done)));
        output.expect("it was run until it had one")
    }

    /// Polls until that is ready; once in a program, whatever futures it runs
    fn run(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        // Without a descriptor to be woken by, all waiting is left to the reactor's thread.
        let Some(thread) = spare.or_else(Thread::new) else {
            return futures_lite::future::block_on(poll_fn(poll));
        };
        let entered = Entered::new(&thread);
        thread.run(poll);
        drop(entered);
        let _ = SPARE.try_with(|spare| spare.set(Some(thread)));
    }

    /// Before what failed is tried again
    const SHORT: Duration = Duration::from_millis(1);
}
