//! News from another thread: subscribers are told what has changed in the database.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mcp_blocking::Handle;
use mcp_blocking::mcp_proto::Change;

use crate::entries::{INDEX, note_uri};
use crate::store::{NoteError, Store};

/// Time between two looks at the database.
const INTERVAL: Duration = Duration::from_millis(50);

/// Starts a thread that publishes the changes of the database until the server is over.
///
/// The [`Handle`] is the same type in every adapter. The engine sends a change to those clients that subscribed to it.
pub fn watch(store: Arc<Store>, server: Handle) -> Result<(), NoteError> {
    let mut seen = store.latest_change()?;
    thread::spawn(move || {
        while !server.is_over() {
            match store.changes_after(seen) {
                Ok(changes) => {
                    for (seq, note) in changes {
                        seen = seq;
                        // Refused if the server has just ended.
                        let _ = server.publish(&Change::Resource(note_uri(note)));
                        let _ = server.publish(&Change::Resource(INDEX.into()));
                    }
                }
                Err(error) => eprintln!("notes: {error}: {:?}", std::error::Error::source(&error)),
            }
            thread::sleep(INTERVAL);
        }
    });
    Ok(())
}
