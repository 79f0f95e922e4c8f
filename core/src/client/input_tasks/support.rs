//! The part of a configuration for tasks that the client hosts.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;

use crate::sync::Arc;

/// Makes the table of hosted tasks.
type MakeTable = dyn Fn() -> Box<dyn Any> + Send + Sync;

/// The maker of the table, which only a configuration with such tasks holds: other programs link none of it.
///
/// It makes a `Box<dyn InputTaskTable>`. The trait is not named here: it refers to the state of the client, which refers
/// to the configuration.
#[derive(Clone)]
pub(crate) struct InputTaskSupport {
    pub(in crate::client) new_table: Arc<MakeTable>,
}

impl fmt::Debug for InputTaskSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputTaskSupport").finish_non_exhaustive()
    }
}
