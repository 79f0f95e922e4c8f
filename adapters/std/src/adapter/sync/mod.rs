//! Queues, wakers and containers that event loops share with other threads and tasks.

mod blocking;
mod erased_box;
mod inbox;
mod inline_map;
mod token_bucket;
mod wakers;

pub use blocking::{BlockingJob, BlockingPool, run_on_thread};
pub use erased_box::ErasedBox;
pub use inbox::{Inbox, SendError, Sender};
pub use inline_map::InlineMap;
pub(crate) use token_bucket::TokenRate;
pub use wakers::{CoalescingWaker, FlagWaker, IndexedWaker};
