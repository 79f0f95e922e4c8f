//! Every change of one byte of snapshots of sessions, and every cut.

use super::{ReplayEntry, RequestId, Server, SessionState, Snapshot, Version, session};
use crate::entropy::Entropy;
use crate::http::server::Config;
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::sync::Arc;
use crate::testing::exhaustive;
use crate::time::Instant;
use alloc::vec::Vec;
use bytes::Bytes;

const ID: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Returns snapshots, each with more parts than the one before.
fn snapshots() -> [Vec<u8>; 5] {
    let json = Bytes::from_static;
    let mut snapshot = Snapshot {
        id: &ID[..session::ID_LEN],
        principal: None,
        state: SessionState {
            version: Version::V2025_11_25,
            is_initialized: false,
            info: json(b"{}"),
            capabilities: json(b"{}"),
            log_level: None,
            resources: Vec::new(),
            newest_request: 0,
        },
        last_stream_number: 0,
        get_streams: Vec::new(),
        lost: Vec::new(),
        sent: Vec::new(),
        returned: Vec::new(),
    };
    let bare = snapshot.write();
    (snapshot.principal, snapshot.state.log_level) = (Some("al"), Some(3));
    (snapshot.state.is_initialized, snapshot.state.newest_request) = (true, 300);
    (snapshot.state.info, snapshot.state.resources) =
        (json(br#"{"name":"x"}"#), Vec::from([Arc::from("a:1")]));
    let open = snapshot.write();
    (snapshot.last_stream_number, snapshot.get_streams) = (3, Vec::from([(2, 1)]));
    snapshot.returned.push(json(br#"{"a":1}"#));
    let streaming = snapshot.write();
    let event = |event, is_last, message| ReplayEntry { stream: 1, event, is_last, message: json(message) };
    snapshot.sent.extend([event(1, false, b"{}"), event(2, true, br#"{"b":[]}"#)]);
    let resumable = snapshot.write();
    snapshot
        .lost
        .extend([(3, 0, RequestId::int(7)), (3, 0, RequestId::from_json(b"\"q\"", 9).expect("an id"))]);
    [bare, open, streaming, resumable, snapshot.write()]
}

#[test]
fn exhaustive_snapshot_is_refused_or_restored_as_it_is() {
    exhaustive(
        "snapshots: what is restored is written down again as it was read, or the snapshot is refused",
        "every byte in place of each, before and without each, and cuts, of snapshots of more and more parts, of which",
        [1, 4, 5],
        |most| {
            // A server without them drops the subscriptions of a session.
            let capabilities = Capabilities::new().with(Capability::ResourceSubscriptions);
            let config = crate::server::Config::new("s", "1").capabilities(capabilities);
            let configs = (Arc::new(config), Arc::new(Config::new().replay_bytes(1 << 10)));
            let new_server = || Server::new(configs.0.clone(), configs.1.clone(), Entropy::new([3; 32], 0));
            let mut server = new_server();
            let (mut accepted, mut count) = (0_u64, 0);
            let mut check = |bytes: &[u8]| {
                count += 1;
                if server.snapshots().restore(Instant::ZERO, bytes).is_err() {
                    assert_eq!((server.session_count(), server.poll_timeout()), (0, None), "{bytes:x?}");
                    return;
                }
                accepted += 1;
                let read = Snapshot::read(bytes).expect("it was restored");
                let mut server = core::mem::replace(&mut server, new_server());
                let saved = server.snapshots().save(read.id).expect("a session that is open");
                if read.lost.is_empty() {
                    assert_eq!(saved, bytes);
                }
                // The calls that were lost have an answer by now.
                let mut other = new_server();
                assert_eq!(other.snapshots().restore(Instant::ZERO, &saved), Ok(()), "{bytes:x?}");
                assert_eq!(other.snapshots().save(read.id).as_ref(), Some(&saved), "{bytes:x?}");
            };
            for snapshot in snapshots().into_iter().take(most) {
                check(&snapshot);
                for at in 0..snapshot.len() {
                    check(&snapshot[..at]);
                    check(&[&snapshot[..at], &snapshot[at + 1..]].concat());
                    for byte in 0..=u8::MAX {
                        check(&[&snapshot[..at], &[byte], &snapshot[at..]].concat());
                        if byte != snapshot[at] {
                            check(&[&snapshot[..at], &[byte], &snapshot[at + 1..]].concat());
                        }
                    }
                }
            }
            assert!(accepted >= most as u64 && accepted < count / 2, "{accepted} of {count}");
            count
        },
    );
}
