//! The shared pointer of the public interface.
//!
//! It is [`alloc::sync::Arc`] wherever the processor can change a pointer in one step. Cortex-M0 and RISC-V without the
//! A extension cannot, and `alloc` has no `Arc` there. It is
//! `portable_atomic_util::Arc` on these targets, which does the step in a critical section: the program supplies an
//! implementation of `critical-section`, or sets the cfg `portable_atomic_unsafe_assume_single_core`. The target alone
//! decides; no feature is needed.
//!
//! The two types have the same methods. Only the compiler turns an `Arc<T>` into an `Arc<dyn Trait>` by itself, and only
//! that of `alloc`. Code for every target converts a box, which allocates twice and is otherwise the same:
//!
//! ```
//! use mcp_proto::sync::Arc;
//! let name: Box<dyn ToString> = Box::new("device");
//! let shared: Arc<dyn ToString> = Arc::from(name);
//! assert_eq!(shared.to_string(), "device");
//! ```

#[cfg(target_has_atomic = "ptr")]
pub use alloc::sync::Arc;
#[cfg(not(target_has_atomic = "ptr"))]
pub use portable_atomic_util::Arc;

/// Moves a value into an `Arc` of a trait object: `share!(value, dyn Trait)`.
macro_rules! share {
    ($value:expr, $object:ty) => {{
        #[cfg(target_has_atomic = "ptr")]
        let shared: $crate::sync::Arc<$object> = $crate::sync::Arc::new($value);
        #[cfg(not(target_has_atomic = "ptr"))]
        let shared: $crate::sync::Arc<$object> =
            $crate::sync::Arc::from(alloc::boxed::Box::new($value) as alloc::boxed::Box<$object>);
        shared
    }};
}
pub(crate) use share;
