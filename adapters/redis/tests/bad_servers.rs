//! Servers that are down, slow, started again, full, closed, or read-only: the error says so, and later calls succeed.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Instant;

use mcp_redis_store::session_store::{SessionStore, SessionStoreError, Swap};
use mcp_redis_store::task_store::TaskStore;
use mcp_redis_store::{RedisStore, Settings};

use crate::support::{A, DEADLINE, Fake, LONG, Redis, record, set, watch};

/// Returns the error of each method.
fn errors(store: &RedisStore) -> Vec<String> {
    let tasks = store.tasks("one");
    let results = [
        store.load(&A).map(drop).map_err(|error| error.to_string()),
        store.compare_and_set(&A, None, b"", LONG).map(drop).map_err(|error| error.to_string()),
        store.touch(&[A], LONG).map_err(|error| error.to_string()),
        store.remove(&A).map_err(|error| error.to_string()),
        store.join().map(drop).map_err(|error| error.to_string()),
        store.publish(b"").map_err(|error| error.to_string()),
        store.watch(Arc::new(|_| {})).map(drop).map_err(|error| error.to_string()),
        tasks.load().map(drop).map_err(|error| error.to_string()),
        tasks.save("a", 1, b"").map_err(|error| error.to_string()),
        tasks.delete("a", 1).map_err(|error| error.to_string()),
    ];
    results.into_iter().filter_map(Result::err).collect()
}

#[test]
fn server_that_was_killed_is_an_error_until_it_is_back() {
    let Some(mut server) = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let store = server.store();
    let (watch, messages) = watch(&store);
    for round in 0..3_u8 {
        // Several connections are kept.
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| store.touch(&[A], LONG).unwrap());
            }
        });
        set(&store, &[round]).unwrap();
        store.publish(&[round]).unwrap();
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), Some(vec![round]));
        server.kill();
        let found = errors(&store);
        assert_eq!(found.len(), 10);
        for error in found {
            assert!(
                error.starts_with("Redis at /") && error.contains("/socket: the connection failed: "),
                "{error}"
            );
        }
        server.restart();
        // Without help, and without an error of an old connection.
        assert_eq!(record(&store), Some(vec![round]));
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), None, "a gap");
    }
    drop(watch);
    assert_eq!(messages.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn kept_connections_that_the_server_closed_are_made_anew_within_the_call() {
    let Some(mut server) = Redis::start(&[]) else { return };
    let store = server.store();
    for _ in 0..5 {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(store.load(&A).is_ok()));
            }
        });
        server.kill();
        server.restart();
        // A compare-and-set, too: the script is not there any more.
        assert!(matches!(store.compare_and_set(&A, None, b"", LONG), Ok(Swap::Stored(_))));
    }
}

#[test]
fn server_that_does_not_answer_is_a_timeout_and_a_late_answer_is_not_that_of_the_next_call() {
    let Some(server) = Redis::start(&[]) else { return };
    let time = Duration::from_millis(200);
    let store = RedisStore::new(server.settings().answer_timeout(time).connect_timeout(time));
    let begun = Instant::now();
    while set(&store, b"record").is_err() {
        assert!(begun.elapsed() < DEADLINE, "nothing is stored");
    }
    server.signal("-STOP");
    let begun = Instant::now();
    assert!(matches!(store.load(&A), Err(SessionStoreError::TimedOut)));
    assert!(matches!(store.join(), Err(SessionStoreError::TimedOut)));
    assert_eq!(
        store.tasks("one").delete("a", 1).unwrap_err().to_string().split(": ").last(),
        Some("it did not answer in time")
    );
    assert!(store.watch(Arc::new(|_| {})).is_err());
    assert!((4 * time..DEADLINE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    server.signal("-CONT");
    // On a busy machine some of these, too, are not answered in time.
    let begun = Instant::now();
    let mut answered = 0;
    while answered < 20 {
        assert!(begun.elapsed() < DEADLINE, "{answered} answers");
        match store.load(&A) {
            Ok(stored) => assert_eq!(stored.unwrap().record, b"record"),
            Err(SessionStoreError::TimedOut) => continue,
            Err(error) => panic!("{error}"),
        }
        answered += 1;
    }
}

#[test]
fn connection_of_a_watch_that_is_silent_is_made_anew() {
    // The subscription, and then nothing: as behind a router that has forgotten the connection.
    let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$14\r\nmcp:0:messages\r\n:1\r\n";
    let fake = Fake::start(vec![vec![subscribed], vec![]], Duration::ZERO);
    let (_watch, messages) = watch(&fake.hasty_store());
    assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), None, "a gap");
    let received = String::from_utf8(fake.received.lock().unwrap().clone()).unwrap();
    assert_eq!(received.matches("SUBSCRIBE").count() - received.matches("UNSUBSCRIBE").count(), 2);
    assert_eq!(received.matches("PING").count(), 1);
}

#[test]
fn full_server_is_an_error_and_stores_again_after_there_is_room() {
    let Some(server) = Redis::start(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]) else {
        return;
    };
    let store = server.store();
    set(&store, b"record").unwrap();
    let filling = "x".repeat(4 << 20);
    let () = server.run(&["CONFIG", "SET", "maxmemory", "100mb"]);
    let () = server.run(&["SET", "filling", &filling]);
    let () = server.run(&["CONFIG", "SET", "maxmemory", "3mb"]);
    assert_eq!(set(&store, b"new").unwrap_err(), "the store of sessions has no room for the record");
    let version = store.load(&A).unwrap().map(|stored| stored.version);
    assert!(matches!(store.compare_and_set(&A, version, b"new", LONG), Err(SessionStoreError::Full)));
    let error = store.tasks("one").save("a", 1, b"record").unwrap_err().to_string();
    assert!(error.ends_with("socket: it has no memory left"), "{error}");
    // Reading, removing and touching go on.
    assert_eq!(record(&store).unwrap(), b"record");
    store.touch(&[A], LONG).unwrap();
    store.remove(&A).unwrap();
    let () = server.run(&["DEL", "filling"]);
    // The buffers of the connections that have filled it are counted, too, until the server looks at them.
    let begun = Instant::now();
    while let Err(error) = set(&store, b"new") {
        assert!(begun.elapsed() < DEADLINE, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn password_is_needed_checked_and_never_shown() {
    let Some(server) = Redis::start(&["--requirepass", "S3cret/%"]) else { return };
    let expect = |store: &RedisStore, cause: &str| {
        let found = errors(store);
        assert_eq!(found.len(), 10);
        for error in found {
            assert!(error.ends_with(&format!("socket: {cause}")), "{error}");
        }
    };
    expect(&server.store(), "it needs a password");
    let wrong = Settings::new(&server.url("pass=S3cret")).unwrap();
    expect(&RedisStore::new(wrong), "it does not accept the user or the password");
    let wrong = Settings::new(&server.url("user=somebody&pass=S3cret")).unwrap();
    expect(&RedisStore::new(wrong), "it does not accept the user or the password");
    let right = Settings::new(&server.url("pass=S3cret%2F%25")).unwrap();
    let shown = format!("{right:?}");
    let store = RedisStore::new(right);
    set(&store, b"record").unwrap();
    let error = store.tasks("one").load();
    for shown in [shown, format!("{store:?} {:?} {error:?}", store.tasks("one"))] {
        assert!(!shown.contains("S3cret") && shown.contains("socket"), "{shown}");
    }
    for url in [
        "redis://u:S3cret@",
        "redis://u:S3cret@h/x",
        "http://u:S3cret@h",
        "S3cret",
        "redis://u:S3cret@0.0.0.0",
        "redis://u:S3cret@h:port",
    ] {
        let error = Settings::new(url).unwrap_err();
        assert!(error.to_string().starts_with("the URL does not name a Redis server: "), "{error}");
        assert!(!format!("{error} {error:?}").contains("S3cret"), "{error:?}");
    }
}

#[test]
fn user_without_permission_for_a_command_is_told() {
    let Some(server) = Redis::start(&[]) else { return };
    let () = server.run(&["ACL", "SETUSER", "reader", "on", ">pw", "~mcp:*", "+get"]);
    let store = RedisStore::new(Settings::new(&server.url("user=reader&pass=pw")).unwrap());
    let found = errors(&store);
    assert_eq!(found.len(), 10);
    for error in found {
        assert!(error.ends_with("socket: it does not allow the user what the store needs"), "{error}");
    }
    // What the documentation names suffices.
    let rights = "+get +getrange +exists +set +del +pexpire +hget +hset +hdel +hkeys +hlen +hstrlen +time +evalsha +script|load +publish +subscribe +unsubscribe +punsubscribe +ping";
    let mut words = vec!["ACL", "SETUSER", "server", "on", ">pw", "~mcp:*", "&mcp:*"];
    words.extend(rights.split(' '));
    let () = server.run(&words);
    let store = RedisStore::new(Settings::new(&server.url("user=server&pass=pw")).unwrap());
    assert!(errors(&store).is_empty(), "{:?}", errors(&store));
}

#[test]
fn replica_reads_and_names_itself_when_it_is_written_to() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    set(&store, b"record").unwrap();
    let () = server.run(&["REPLICAOF", "127.0.0.1", "1"]);
    let found = errors(&store);
    // Reads, messages and watches are possible, and what changes nothing.
    assert!(found.len() >= 4, "{found:?}");
    for error in &found {
        assert!(error.ends_with("socket: it is a replica, which stores nothing"), "{error}");
    }
    assert!(set(&store, b"new").is_err());
    let () = server.run(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(record(&store).unwrap(), b"record");
    set(&store, b"new").unwrap();
}

#[test]
fn watch_that_the_server_cut_off_is_made_anew_with_a_gap() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let (_watch, messages) = watch(&store);
    for round in 0..3_u8 {
        store.publish(&[round]).unwrap();
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), Some(vec![round]));
        let () = server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), None);
    }
}
