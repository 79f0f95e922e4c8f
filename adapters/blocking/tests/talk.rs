//! A router and a client of callbacks, with handlers and callbacks on the thread of a loop

extern crate alloc;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "shared/talk.rs"]
mod shared;
mod support;

use core::time::Duration;
use std::thread;

use mcp_blocking::{Client, ClientHandler, Cx};
use mcp_proto::Change;
use mcp_proto::client::Config;
use mcp_proto::model::SubscriptionFilter;
use serde_json::Value;
use shared::{call, router, tool};
use support::{Notes, in_time};

// covers: TOOL-019
#[test]
fn what_is_changed_between_calls_is_told_after_the_next_one() {
    in_time(|| {
        let (near, far) = mcp_std::memory_pair(1 << 16);
        let (changes, changed) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            let router = router(Notes::default());
            let config = router.config().unwrap();
            let mut server = mcp_blocking::Server::new(config, near, router);
            while server.poll(Duration::from_millis(5)).unwrap() {
                for name in changed.try_iter() {
                    let name: &str = name;
                    server.handler().tool_with(tool(name), |_: &mut Cx<'_>, _: Value| "there");
                }
            }
        });
        struct Tells(Notes);
        impl ClientHandler for Tells {
            fn changed(&mut self, change: &Change) {
                self.0.note(format!("{change:?}"));
            }
        }
        let notes = Notes::default();
        let mut client =
            Client::options(Config::new("test", "1")).handler(Tells(notes.clone())).connect(far).unwrap();
        client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).unwrap();
        assert_eq!(call(&mut client, "tide"), "0");
        client.poll(Duration::from_millis(50)).unwrap();
        notes.take();
        changes.send("buoy").unwrap();
        thread::sleep(Duration::from_millis(50));
        // A handler that asks for a change of its own does not make the other one old.
        assert_eq!(call(&mut client, "buoy"), "there");
        while notes.take() != ["Tools"] {
            client.poll(Duration::from_secs(10)).unwrap();
        }
        client.close().unwrap();
        server.join().unwrap();
    });
}
