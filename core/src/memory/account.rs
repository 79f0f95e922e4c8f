//! The account of what a server holds for its peers, in all engines that share its configuration (`DESIGN-93`).
//!
//! Whoever holds bytes has a [`Charge`], which gives them back when it is dropped, so the account cannot drift. Holdings below
//! [`STEP`] are not charged one by one: the entries of the tables are charged with that much besides. A charge follows its
//! holding within the same step, so short messages never touch the account, which all shards share.
//!
//! On bare metal nothing is counted: the heap is a fixed region there, and `Limits::memory_reserve` asks the allocator.

use bytes::Bytes;

/// Smallest holding, and smallest change of one, that is charged.
pub(crate) const STEP: usize = 1 << 10;

/// Length from which a message, a head or an unfinished line counts as new and large, whoever sends it.
pub(crate) const LONG: usize = 4 << 10;

#[cfg(not(target_os = "none"))]
pub(crate) use counted::{Charge, MemoryAccount};
#[cfg(target_os = "none")]
pub(crate) use uncounted::{Charge, MemoryAccount};

#[cfg(not(target_os = "none"))]
mod counted {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::{Bytes, STEP};
    use crate::memory::is_available;
    use crate::sync::Arc;

    #[derive(Debug)]
    struct Totals {
        max: AtomicUsize,
        used: AtomicUsize,
        /// The allocator is asked before each allocation (`Limits::memory_reserve`).
        asks_heap: bool,
    }

    /// Bytes that `Bytes` allocates at most for an owner.
    const OWNER_COST: usize = size_of::<Held>() + 4 * size_of::<usize>();

    /// A handle of an account; the default one has no bound and counts nothing.
    ///
    /// Each engine has a pointer of its own: holders are many, and a count of all of them would be shared by all shards.
    #[derive(Clone, Debug, Default)]
    #[expect(clippy::redundant_allocation, reason = "the outer count is that of one engine")]
    pub(crate) struct MemoryAccount(Option<Arc<Arc<Totals>>>);

    impl MemoryAccount {
        pub(crate) fn new(max: usize, asks_heap: bool) -> Self {
            let (max, used) = (AtomicUsize::new(max), AtomicUsize::new(0));
            Self(Some(Arc::new(Arc::new(Totals { max, used, asks_heap }))))
        }

        /// Returns a handle for one engine and its holders.
        pub(crate) fn for_engine(&self) -> Self {
            Self(self.0.as_ref().map(|totals| Arc::new(Arc::clone(&**totals))))
        }

        /// Changes the bound, for all who share the account.
        pub(crate) fn set_max(&self, max: usize) {
            if let Some(totals) = &self.0 {
                totals.max.store(max, Ordering::Relaxed);
            }
        }

        /// Returns the bytes that are charged.
        pub(crate) fn used(&self) -> usize {
            self.0.as_ref().map_or(0, |totals| totals.used.load(Ordering::Relaxed))
        }

        /// Returns whether `more` bytes leave `1 / share` of the bound free.
        fn leaves_free(&self, more: usize, share: usize) -> bool {
            self.0.as_ref().is_none_or(|totals| {
                let max = totals.max.load(Ordering::Relaxed);
                let free = max.checked_div(share).unwrap_or(0);
                totals.used.load(Ordering::Relaxed).saturating_add(more) <= max - free
            })
        }

        /// Returns whether `more` bytes may be taken for something new: a session, a subscription, a large message. The last
        /// eighth is left to what there is already.
        #[inline]
        pub(crate) fn takes_new(&self, more: usize) -> bool {
            self.leaves_free(more, 8)
        }

        /// Returns whether a short request may be taken. The last sixteenth is left to the results of those that run.
        #[inline]
        pub(crate) fn takes_request(&self) -> bool {
            self.leaves_free(0, 16)
        }

        /// Returns whether `more` bytes of a result may be kept until they are sent.
        #[inline]
        pub(crate) fn takes_result(&self, more: usize) -> bool {
            self.leaves_free(more, 0)
        }

        /// Charges bytes for as long as any part of them is held. Short ones are returned as they are.
        #[inline]
        pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
            let allocated = bytes.len();
            self.hold_allocated(bytes, allocated)
        }

        /// Does so for bytes whose allocation is longer than they are.
        #[inline]
        pub(crate) fn hold_allocated(&self, bytes: Bytes, allocated: usize) -> Bytes {
            if allocated < STEP || self.0.is_none() { bytes } else { self.hold_long(bytes, allocated) }
        }

        /// Does so for bytes that are kept for long, and are seldom: short ones are charged, too.
        pub(crate) fn hold_kept(&self, bytes: Bytes) -> Bytes {
            let allocated = bytes.len();
            if allocated < STEP / 8 || self.0.is_none() { bytes } else { self.hold_long(bytes, allocated) }
        }

        #[cold]
        fn hold_long(&self, bytes: Bytes, allocated: usize) -> Bytes {
            // What is not counted is better than the end of the program.
            let asks_heap = self.0.as_ref().is_some_and(|totals| totals.asks_heap);
            if asks_heap && !is_available(OWNER_COST) {
                return bytes;
            }
            let mut charge = self.open();
            charge.set(allocated);
            Bytes::from_owner(Held { bytes, _charge: charge })
        }

        /// Returns whether more than half of the bound is in use, so that spare memory should be released.
        #[inline]
        pub(crate) fn is_short(&self) -> bool {
            !self.leaves_free(0, 2)
        }

        /// Returns a charge of nothing.
        pub(crate) fn open(&self) -> Charge {
            Charge { account: self.clone(), bytes: 0 }
        }
    }

    struct Held {
        bytes: Bytes,
        _charge: Charge,
    }

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    /// The bytes of one holder. They are given back when it is dropped.
    #[derive(Debug, Default)]
    pub(crate) struct Charge {
        account: MemoryAccount,
        bytes: usize,
    }

    impl Charge {
        /// Sets the bytes that are held, if they differ by a step from those that are charged.
        #[inline]
        pub(crate) fn follow(&mut self, bytes: usize) {
            if bytes.abs_diff(self.bytes) >= STEP {
                self.set(bytes);
            }
        }

        /// Does so for holdings that change with each message, by larger steps.
        #[inline]
        pub(crate) fn follow_coarsely(&mut self, bytes: usize) {
            if bytes.abs_diff(self.bytes) >= 8 * STEP {
                self.set(bytes);
            }
        }

        /// Returns whether a holding that never falls below `least` may have fallen by so much that
        /// [`follow_coarsely`](Self::follow_coarsely) would tell.
        #[inline]
        pub(crate) const fn is_beyond(&self, least: usize) -> bool {
            self.bytes >= least + 8 * STEP
        }

        /// Sets the bytes that are held.
        #[cold]
        pub(crate) fn set(&mut self, bytes: usize) {
            let Some(totals) = &self.account.0 else { return };
            if bytes >= self.bytes {
                totals.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            } else {
                totals.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            }
            self.bytes = bytes;
        }

        pub(crate) const fn account(&self) -> &MemoryAccount {
            &self.account
        }

        /// Charges an account from now on, if none is charged yet.
        #[inline]
        pub(crate) fn attach(&mut self, account: &MemoryAccount) {
            if self.account.0.is_none() {
                self.account = account.clone();
            }
        }
    }

    impl Drop for Charge {
        fn drop(&mut self) {
            if self.bytes > 0 {
                self.set(0);
            }
        }
    }
}

#[cfg(target_os = "none")]
#[allow(clippy::unused_self, clippy::trivially_copy_pass_by_ref, reason = "as where bytes are counted")]
mod uncounted {
    use super::Bytes;

    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct MemoryAccount;

    impl MemoryAccount {
        #[inline(always)]
        pub(crate) const fn new(_max: usize, _asks_heap: bool) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) const fn for_engine(&self) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) const fn set_max(&self, _max: usize) {}

        #[inline(always)]
        pub(crate) const fn used(&self) -> usize {
            0
        }

        #[inline(always)]
        pub(crate) const fn takes_new(&self, _more: usize) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) const fn takes_request(&self) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) const fn takes_result(&self, _more: usize) -> bool {
            true
        }

        #[inline(always)]
        pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
            bytes
        }

        #[inline(always)]
        pub(crate) fn hold_allocated(&self, bytes: Bytes, _allocated: usize) -> Bytes {
            bytes
        }

        #[inline(always)]
        pub(crate) fn hold_kept(&self, bytes: Bytes) -> Bytes {
            bytes
        }

        #[inline(always)]
        pub(crate) const fn is_short(&self) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) const fn open(&self) -> Charge {
            Charge
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Charge;

    impl Charge {
        #[inline(always)]
        pub(crate) const fn follow(&mut self, _bytes: usize) {}

        #[inline(always)]
        pub(crate) const fn is_beyond(&self, _least: usize) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) const fn follow_coarsely(&mut self, _bytes: usize) {}

        #[inline(always)]
        pub(crate) const fn set(&mut self, _bytes: usize) {}

        #[inline(always)]
        pub(crate) const fn account(&self) -> &MemoryAccount {
            &MemoryAccount
        }

        #[inline(always)]
        pub(crate) const fn attach(&mut self, _account: &MemoryAccount) {}
    }
}

impl MemoryAccount {
    /// Charges a text with the spare room of its allocation, as `hold` charges bytes.
    #[inline]
    pub(crate) fn hold_text(&self, text: alloc::vec::Vec<u8>) -> Bytes {
        let allocated = text.capacity();
        self.hold_allocated(text.into(), allocated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_follow_their_holding_and_are_given_back() {
        let account = MemoryAccount::new(160 << 10, false);
        let mut charge = account.open();
        charge.follow(STEP - 1);
        assert_eq!(account.used(), 0);
        charge.follow(100 << 10);
        charge.follow((100 << 10) + STEP - 1);
        assert_eq!(account.used(), 100 << 10);
        let held = account.hold(alloc::vec![0; 30 << 10].into());
        let part = held.slice(5..6);
        assert!(account.takes_new(10 << 10) && !account.takes_new((10 << 10) + 1));
        drop(held);
        assert_eq!(account.used(), 130 << 10, "a part keeps the whole");
        charge.follow(130 << 10);
        assert!(!account.takes_request() && !account.takes_result(20 << 10));
        charge.follow(120 << 10);
        assert!(account.takes_result(10 << 10) && !account.takes_result((10 << 10) + 1));
        assert!(!account.takes_result(usize::MAX) && !account.takes_new(usize::MAX));
        drop((part, charge));
        assert_eq!(account.used(), 0);
    }
}
