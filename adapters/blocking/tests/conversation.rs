//! A router and a client with callbacks, all on the thread of a loop.

use core::time::Duration;
use std::thread;

use crate::suites::conversation::{call, router, tool};
use crate::support::{NoteLog, with_timeout};
use mcp_blocking::{Client, ClientHandler, Cx};
use mcp_proto::Change;
use mcp_proto::client::Config;
use mcp_proto::model::SubscriptionFilter;
use serde_json::Value;

// covers: TOOL-019
#[test]
fn change_between_calls_is_published_after_next_call() {
    with_timeout(|| {
        let (near, far) = mcp_std::io::memory_pair(1 << 16);
        let (changes, changed) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            let router = router(NoteLog::default());
            let config = router.config().unwrap();
            let mut server = mcp_blocking::Server::new(config, near, router);
            while server.poll(Duration::from_millis(5)).unwrap() {
                for name in changed.try_iter() {
                    let name: &str = name;
                    server.handler().tool_with(tool(name), |_: &mut Cx<'_>, _: Value| "there");
                }
            }
        });
        struct ChangeRecorder(NoteLog);
        impl ClientHandler for ChangeRecorder {
            fn changed(&self, change: &Change) {
                self.0.record(format!("{change:?}"));
            }
        }
        let notes = NoteLog::default();
        let mut client = Client::options(Config::new("test", "1"))
            .handler(ChangeRecorder(notes.clone()))
            .connect(far)
            .unwrap();
        client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).unwrap();
        assert_eq!(call(&mut client, "tide"), "0");
        client.poll(Duration::from_millis(50)).unwrap();
        notes.take();
        changes.send("buoy").unwrap();
        thread::sleep(Duration::from_millis(50));
        // The handler's own request for a change does not drop the change that is pending.
        assert_eq!(call(&mut client, "buoy"), "there");
        while notes.take() != ["Tools"] {
            client.poll(Duration::from_secs(10)).unwrap();
        }
        client.close().unwrap();
        server.join().unwrap();
    });
}
