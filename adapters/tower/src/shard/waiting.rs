//! The futures and bodies that wait for a shard.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::task::Waker;

/// The wakers of the futures and bodies that wait for a shard.
///
/// A waker is removed when it is used: whoever was woken polls, and waits again.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Those of `McpService::run` and of shutdowns, by number.
    drivers: BTreeMap<u64, Waker>,
    next_driver: u64,
    /// The number of drivers, waiting or not.
    driver_count: usize,
    /// Those of responses, by exchange.
    responses: BTreeMap<usize, Waker>,
    /// Those of bodies, by exchange.
    bodies: BTreeMap<usize, Waker>,
}

/// A future or body that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    Driver(u64),
    Response(usize),
    Body(usize),
}

impl Waiting {
    pub(super) fn add_driver(&mut self) -> u64 {
        self.next_driver += 1;
        self.driver_count += 1;
        self.next_driver
    }

    /// Removes a driver. Returns whether it was the last one.
    pub(super) fn remove_driver(&mut self) -> bool {
        self.driver_count = self.driver_count.saturating_sub(1);
        self.driver_count == 0
    }

    #[cfg(feature = "tokio")]
    pub(super) const fn has_driver(&self) -> bool {
        self.driver_count > 0
    }

    /// Removes the waker of one driver.
    pub(super) fn take_driver(&mut self) -> Option<Waker> {
        self.drivers.pop_last().map(|(_, waker)| waker)
    }

    pub(super) fn insert(&mut self, waiter: Waiter, waker: &Waker) {
        match waiter {
            Waiter::Driver(number) => self.drivers.insert(number, waker.clone()),
            Waiter::Response(exchange) => self.responses.insert(exchange, waker.clone()),
            Waiter::Body(exchange) => self.bodies.insert(exchange, waker.clone()),
        };
    }

    pub(super) fn remove(&mut self, waiter: Waiter) -> Option<Waker> {
        match waiter {
            Waiter::Driver(number) => self.drivers.remove(&number),
            Waiter::Response(exchange) => self.responses.remove(&exchange),
            Waiter::Body(exchange) => self.bodies.remove(&exchange),
        }
    }

    /// Removes what waits for an exchange.
    pub(super) fn remove_exchange(&mut self, exchange: usize) -> Option<Waker> {
        let response = self.responses.remove(&exchange);
        self.bodies.remove(&exchange).or(response)
    }

    /// Removes one that does the work of a shard: the one of an exchange, if it waits, or the likeliest to be polled soon.
    ///
    /// A body may wait for a slow reader and not be polled although it was woken, so bodies come last.
    pub(super) fn pick(&mut self, exchange: Option<usize>) -> Option<Waker> {
        let home = exchange.and_then(|exchange| self.remove_exchange(exchange));
        home.or_else(|| self.take_driver())
            .or_else(|| self.responses.pop_last().map(|(_, waker)| waker))
            .or_else(|| self.bodies.pop_last().map(|(_, waker)| waker))
    }

    /// Removes those that are to know of a deadline: one that does nothing but drive, or all.
    pub(super) fn take_for_timer(&mut self) -> Vec<Waker> {
        self.drivers.pop_last().map_or_else(|| self.take_all(), |(_, waker)| Vec::from([waker]))
    }

    /// Removes those of `McpService::run` and of shutdowns.
    pub(super) fn take_drivers(&mut self) -> Vec<Waker> {
        core::mem::take(&mut self.drivers).into_values().collect()
    }

    /// Removes all.
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        let mut all: Vec<_> = core::mem::take(&mut self.drivers).into_values().collect();
        all.extend(core::mem::take(&mut self.responses).into_values());
        all.extend(core::mem::take(&mut self.bodies).into_values());
        all
    }
}
