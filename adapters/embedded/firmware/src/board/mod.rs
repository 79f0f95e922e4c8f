//! The machines that the program runs on.

#[cfg(target_arch = "arm")]
mod mps2;
#[cfg(target_arch = "riscv32")]
mod virt;

#[cfg(target_arch = "arm")]
pub use mps2::*;
#[cfg(target_arch = "riscv32")]
pub use virt::*;
