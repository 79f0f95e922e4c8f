//! A blocking client and a server of `mcp-threads`, in two threads, in both eras.

use std::thread::{self, JoinHandle};

use crate::support::{Tools, client_config, server_config, version_set};
use mcp_blocking::{Client, Error};
use mcp_proto::Era;

/// Connects a client to a server over a stream that holds `capacity` bytes in each direction.
pub(crate) fn pair(era: Era, capacity: usize, tools: Tools) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::io::memory_pair(capacity);
    let server = thread::spawn(move || mcp_threads::serve(server_config(), near, tools));
    let client = Client::connect(client_config(version_set(era)), far).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}

// covers: PING-003, PING-005
#[cfg(unix)]
#[test]
fn server_ends_when_its_client_answers_no_pings() {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use mcp_proto::Fault;
    use mcp_std::io::Socket;
    crate::support::with_timeout(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(crate::support::INITIALIZE.as_bytes()).unwrap();
        let config = server_config().keep_alive_ping(core::time::Duration::from_secs(1), 0);
        let ended = mcp_threads::serve(config, Socket::unix(near).unwrap(), Tools::new().0);
        let Err(Error::Closed(closed)) = ended else { panic!("{ended:?}") };
        assert_eq!(closed.fault, Fault::PingTimeout { misses: 1 });
    });
}
