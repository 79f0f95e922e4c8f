//! A blocking client and a server of this package, in two threads, in both eras

extern crate alloc;

use mcp_proto::RpcError;
use mcp_proto::server::Notification;
use mcp_threads::{Answered, Call, Cx, Failure, Handler};

#[path = "../../blocking/tests/shared/pair.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;

use support::Tools;

impl Handler for Tools {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.answer(cx, call)
    }

    fn notification(&self, notification: &Notification) {
        self.hear(notification);
    }

    fn failed(&self, _: &Call, failure: &Failure) {
        self.note(failure);
    }
}

mod adapter {
    use std::thread::{self, JoinHandle};

    use mcp_blocking::{Client, Error};
    use mcp_proto::Era;

    use crate::support::{Tools, only, server, speaks};

    /// A client and a server of one era, on a stream that holds `capacity` bytes each way
    pub(crate) fn pair(era: Era, capacity: usize, tools: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
        let (near, far) = mcp_std::memory_pair(capacity);
        let server = thread::spawn(move || mcp_threads::serve(server(), near, tools));
        let client = Client::connect(speaks(only(era)), far).expect("a connection");
        assert_eq!(client.peer().era(), era);
        (client, server)
    }
}
