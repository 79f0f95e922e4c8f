//! Rules of this repository that its files keep.

extern crate alloc;

mod conformance_next;
mod guide;
#[cfg(unix)]
mod hours;
mod layering;
mod security_manual;
mod troubleshooting;
