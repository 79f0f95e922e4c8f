//! Suite: a blocking client and an asynchronous server, in two threads, in both eras.
//!
//! `crate::adapter` names the adapter under test.

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use mcp_blocking::{Client, Error};
use mcp_proto::Era;
use mcp_std::io::Socket;

use crate::adapter::{async_stream, serve_handler};
use crate::support::{INITIALIZE, Tools, client_config, server_config, version_set, with_timeout};

/// Connects a client to a server over a Unix stream, whose capacity the system chooses.
pub(crate) fn pair(era: Era, _capacity: usize, tools: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || serve_handler(server_config(), async_stream(near), tools));
    let client =
        Client::connect(client_config(version_set(era)), Socket::unix(far).unwrap()).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}

// covers: PING-003, PING-005
#[test]
fn server_ends_when_its_client_answers_no_pings() {
    use std::io::Write as _;

    use mcp_proto::Fault;
    with_timeout(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(INITIALIZE.as_bytes()).unwrap();
        let config = server_config().keep_alive_ping(core::time::Duration::from_secs(1), 0);
        let ended = serve_handler(config, async_stream(near), Tools::new().0);
        let Err(Error::Closed(closed)) = ended else { panic!("{ended:?}") };
        assert_eq!(closed.fault, Fault::PingTimeout { misses: 1 });
    });
}
