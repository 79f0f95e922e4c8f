//! Wake-ups of an HTTP server by its sockets.

#[cfg(all(target_os = "linux", not(mcp_portable)))]
mod platform {
    use core::task::{Context, Poll};
    use std::io;
    use std::os::fd::AsFd;

    use crate::adapter::runtime::{DescriptorWatch, Runtime};
    use crate::io::Interest;

    /// One descriptor that becomes readable when any socket is ready.
    #[derive(Debug)]
    pub(in super::super) struct SocketWatch<R: Runtime>(R::Watch);

    impl<R: Runtime> SocketWatch<R> {
        /// Whether [`poll`](Self::poll) has to be repeated before a wait: it learns of new sockets only then.
        pub(in super::super) const FOLLOWS_SOURCES: bool = false;

        pub(in super::super) fn new(server: &impl AsFd) -> io::Result<Self> {
            R::Watch::new(server.as_fd()).map(Self)
        }

        /// Returns whether a socket may be ready; otherwise the future is woken later.
        pub(in super::super) fn poll<S>(&mut self, cx: &mut Context<'_>, _: &S) -> io::Result<bool> {
            match self.0.poll(cx, Interest::READ, false) {
                Poll::Ready(outcome) => outcome.map(|()| true),
                Poll::Pending => Ok(false),
            }
        }
    }
}

#[cfg(all(unix, any(not(target_os = "linux"), mcp_portable)))]
mod platform {
    use alloc::collections::BTreeMap;
    use alloc::collections::btree_map::Entry;
    use alloc::sync::Arc;
    use core::task::{Context, Poll};
    use std::io;
    use std::os::fd::OwnedFd;

    use crate::adapter::runtime::http::InnerServer;
    use crate::adapter::runtime::{DescriptorWatch, Runtime};
    use crate::io::Interest;

    /// A watch for each socket: here a selector has no descriptor of its own.
    ///
    /// A poll walks all sockets, as the `poll(2)` that follows it does.
    #[derive(Debug)]
    pub(in super::super) struct SocketWatch<R: Runtime> {
        /// By the token of the socket. The descriptor is that of the selector, closed as soon as both have dropped it.
        sockets: BTreeMap<u64, (Arc<OwnedFd>, R::Watch)>,
        /// The notifier of the selector, which never changes.
        notifier: Option<R::Watch>,
    }

    impl<R: Runtime> SocketWatch<R> {
        /// Whether [`poll`](Self::poll) has to be repeated before a wait: it learns of new sockets only then.
        pub(in super::super) const FOLLOWS_SOURCES: bool = true;

        #[expect(clippy::unnecessary_wraps, reason = "same signature as with a descriptor")]
        pub(in super::super) const fn new<S>(_: &S) -> io::Result<Self> {
            Ok(Self { sockets: BTreeMap::new(), notifier: None })
        }

        /// Returns whether a socket may be ready; otherwise the future is woken later.
        pub(in super::super) fn poll<H>(
            &mut self,
            cx: &mut Context<'_>,
            server: &InnerServer<H>,
        ) -> io::Result<bool> {
            let selector = server.selector();
            // Closed sockets first, as their peers see the end only without this watch. A token may be used again.
            self.sockets.retain(|token, (watched, _)| {
                selector.source(*token).is_some_and(|source| Arc::ptr_eq(source, watched))
            });
            if let (None, Some(notifier)) = (&self.notifier, selector.notifier()) {
                self.notifier = Some(R::Watch::new(notifier)?);
            }
            if let Some(notifier) = &mut self.notifier {
                if let Poll::Ready(outcome) = notifier.poll(cx, Interest::READ, false) {
                    return outcome.map(|()| true);
                }
            }
            let mut is_ready = false;
            for (token, source, interest) in selector.sources() {
                let (_, watch) = match self.sockets.entry(token) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        entry.insert((source.clone(), R::Watch::from_shared(source.clone())?))
                    }
                };
                for (wanted, direction) in
                    [(interest.read, Interest::READ), (interest.write, Interest::WRITE)]
                {
                    if wanted {
                        if let Poll::Ready(outcome) = watch.poll(cx, direction, false) {
                            outcome?;
                            is_ready = true;
                        }
                    }
                }
            }
            Ok(is_ready)
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use core::marker::PhantomData;
    use core::task::Context;
    use std::io;

    use crate::adapter::runtime::Runtime;

    /// Nothing: on this platform no server can be bound.
    #[derive(Debug)]
    pub(in super::super) struct SocketWatch<R: Runtime>(PhantomData<fn() -> R>);

    impl<R: Runtime> SocketWatch<R> {
        /// Whether [`poll`](Self::poll) has to be repeated before a wait: it learns of new sockets only then.
        pub(in super::super) const FOLLOWS_SOURCES: bool = false;

        #[expect(clippy::unnecessary_wraps, reason = "same signature as on other platforms")]
        pub(in super::super) const fn new<S>(_: &S) -> io::Result<Self> {
            Ok(Self(PhantomData))
        }

        /// Never returns that a socket is ready.
        #[expect(clippy::unnecessary_wraps, reason = "same signature as on other platforms")]
        pub(in super::super) fn poll<S>(&mut self, _: &mut Context<'_>, _: &S) -> io::Result<bool> {
            Ok(false)
        }
    }
}

pub(super) use platform::SocketWatch;
