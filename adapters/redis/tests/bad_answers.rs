//! Servers that answer anything: an error that does not show it, and no panic.

use core::time::Duration;
use std::time::Instant;

use mcp_redis_store::session_store::{SessionStore, SessionStoreError, Swap};
use mcp_redis_store::task_store::TaskStore;

use crate::support::{A, DEADLINE, Fake, LONG, set, watch};

#[test]
fn answer_that_is_not_one_of_redis_is_an_error_that_does_not_show_it() {
    let garbage: [&[u8]; 20] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\nsecret",
        b"\r\n",
        b"\0\xff\xfe secret\r\n",
        b"$-5\r\n",
        b"$9999999999999999999\r\n",
        b"$9223372036854775807\r\nsecret",
        b"$3\r\nsecret\r\n",
        b"*1000000000\r\n:1\r\n",
        b"*-1\r\n",
        b"*2\r\n$6\r\nsecret\r\n",
        b":not a number\r\n",
        b":-1\r\n",
        b"%9223372036854775807\r\n",
        b"%-1\r\n",
        b"|-1\r\n",
        b">0\r\n",
        b"~2\r\n:1\r\n:2\r\n",
        b"+secret\r\n",
        b"*2\r\n*0\r\n:7\r\n",
        b"-\r\n",
    ];
    for answer in garbage {
        let fake = Fake::start(vec![vec![answer]; 4], Duration::ZERO);
        let store = fake.hasty_store();
        let begun = Instant::now();
        let results = [
            store.load(&A).map(|stored| format!("{stored:?}")).map_err(|error| format!("{error} {error:?}")),
            store
                .compare_and_set(&A, None, b"r", LONG)
                .map(|swap| format!("{swap:?}"))
                .map_err(|error| format!("{error} {error:?}")),
            store.join().map(|number| format!("{number:?}")).map_err(|error| format!("{error} {error:?}")),
            store
                .tasks("one")
                .load()
                .map(|tasks| format!("{tasks:?}"))
                .map_err(|error| format!("{error} {error:?}")),
            store
                .tasks("one")
                .save("a", 1, b"")
                .map(|()| String::new())
                .map_err(|error| format!("{error} {error:?}")),
        ];
        assert!(begun.elapsed() < DEADLINE);
        let shown = String::from_utf8_lossy(answer);
        assert!(results[3].is_err(), "{shown:?}: {results:?}");
        for result in results {
            assert!(!format!("{result:?}").contains("secret"), "{shown:?}: {result:?}");
        }
    }
    let fake = Fake::start(vec![vec![b"HTTP/1.1 400 Bad Request\r\n\r\n"]], Duration::ZERO);
    let error = fake.store().load(&A).unwrap_err().to_string();
    assert!(
        error.starts_with("Redis at 127.0.0.1:") && error.ends_with(": its answer is not one of Redis"),
        "{error}"
    );
}

#[test]
fn nested_answer_does_not_end_the_process() {
    let nested: &'static [u8] = Box::leak(b"*1\r\n".repeat(100_000).into_boxed_slice());
    let fake = Fake::start(vec![vec![nested]], Duration::ZERO);
    assert!(fake.hasty_store().load(&A).is_err());
}

#[test]
fn errors_of_a_server_are_named_without_the_arguments_that_it_repeats() {
    for (answer, cause) in [
        (&b"-LOADING Redis is loading the dataset in memory\r\n"[..], "it is still loading its data"),
        (b"-MOVED 3999 127.0.0.1:6381\r\n", "it is a part of a cluster"),
        (b"-CLUSTERDOWN Hash slot not served\r\n", "it is a part of a cluster"),
        (
            b"-ERR max number of clients reached\r\n",
            "it refused a command: ERR max number of clients reached",
        ),
        (
            b"-MISCONF Redis is configured\x07 to save\r\n",
            "it refused a command: MISCONF Redis is configured to save",
        ),
        (
            b"-ERR unknown command 'GET', with args beginning with: 'secret'\r\n",
            "it refused a command: ERR unknown command 'GET'",
        ),
        (
            b"-ERR Error running script (call to f_0): @user_script:9: -READONLY You can't write.\r\n",
            "it is a replica, which stores nothing",
        ),
        (b"-NOAUTH Authentication required.\r\n", "it needs a password"),
    ] {
        let fake = Fake::start(vec![vec![answer]], Duration::ZERO);
        let error = fake.store().load(&A).unwrap_err();
        assert!(error.to_string().ends_with(&format!(": {cause}")), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let fake = Fake::start(
        vec![vec![b"-ERR Error running script (call to f_0): @user_script:9: -OOM command not allowed.\r\n"]],
        Duration::ZERO,
    );
    assert!(matches!(fake.store().load(&A), Err(SessionStoreError::Full)));
}

#[test]
fn answer_that_ends_in_the_middle_is_an_error_and_its_rest_is_not_read() {
    // The time passes in the middle of the answer; the rest comes much later.
    let late =
        Fake::start(vec![vec![b"$6\r\nrec", b"ord\r\n"], vec![b"$5\r\nother\r\n"]], Duration::from_secs(10));
    let store = late.hasty_store();
    for _ in 0..2 {
        let loaded = store.load(&A);
        assert!(matches!(loaded, Err(SessionStoreError::TimedOut)), "{:?}", loaded.err());
    }
    // The end of the connection in the middle.
    let cut = Fake::start(vec![vec![b"$6\r\nrec"]], Duration::ZERO);
    let error = cut.store().load(&A).unwrap_err().to_string();
    assert!(error.contains(": the connection failed: "), "{error}");
}

#[test]
fn compare_and_set_whose_answer_was_lost_is_not_a_conflict_with_itself() {
    let stored = b"$26\r\n00000000000000000042record\r\n";
    let other = b"$26\r\n00000000000000000042wrecks\r\n";
    // A connection that is kept; then one whose answer is lost with it; then what is stored.
    for (found, is_own) in [(stored, true), (other, false)] {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", server.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let mut buffer = [0; 4096];
            let (mut first, _) = server.accept().unwrap();
            let _ = first.read(&mut buffer).unwrap();
            first.write_all(b"$-1\r\n").unwrap();
            // The command arrives, and no answer.
            let _ = first.read(&mut buffer).unwrap();
            drop(first);
            let (mut second, _) = server.accept().unwrap();
            let _ = second.read(&mut buffer).unwrap();
            second.write_all(found).unwrap();
            let _ = second.read(&mut buffer);
        });
        let store = mcp_redis_store::RedisStore::new(mcp_redis_store::Settings::new(&url).unwrap());
        assert_eq!(store.load(&A).unwrap(), None);
        let swap = store.compare_and_set(&A, None, b"record", LONG).unwrap();
        assert_eq!(matches!(swap, Swap::Stored(42)), is_own, "{swap:?}");
        drop(store);
        serving.join().unwrap();
    }
    // On the first run the same bytes are those of another one.
    let fake = Fake::start(vec![vec![stored]], Duration::ZERO);
    let swap = fake.store().compare_and_set(&A, None, b"record", LONG).unwrap();
    assert!(matches!(swap, Swap::Conflict(Some(_))), "{swap:?}");
    assert!(set(&fake.store(), b"record").is_err());
}

#[test]
fn message_in_pieces_arrives_whole_and_garbage_on_a_watch_is_a_gap() {
    let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$14\r\nmcp:0:messages\r\n:1\r\n";
    let head = b"*3\r\n$7\r\nmessage\r\n$14\r\nmcp:0:messages\r\n$6\r\nhal";
    // Longer pauses than the watch looks for its end.
    let fake =
        Fake::start(vec![vec![subscribed, head, b"ves\r\n", b"garbage\r\n"]], Duration::from_millis(400));
    let (watch, messages) = watch(&fake.store());
    for _ in 0..2 {
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), Some(b"halves".to_vec()));
        assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), None);
    }
    drop(watch);
}
