//! The tests of every store, on a server; keys, and tasks.

use alloc::sync::Arc;
use core::time::Duration;
use std::time::Instant;

use mcp_redis_store::session_store::{PROCESSES, SessionName, SessionStore, StoredSession, Swap};
use mcp_redis_store::task_store::{StoredTask, TaskStore, TaskStoreError};
use mcp_std::testing::session_store::Store;

use crate::support::{A, DEADLINE, LONG, Redis, record, set, watch};

impl Store for Redis {
    fn create() -> Option<Self> {
        Self::start(&[])
    }

    fn open(&self) -> Arc<dyn SessionStore> {
        Arc::new(self.store())
    }

    fn damage(&self, session: &SessionName) -> bool {
        let () = self.run(&["SET", &format!("mcp:session:{}", session.to_hex()), "anything"]);
        true
    }
}

mcp_std::session_store_tests!(Redis);

#[test]
fn stores_with_different_prefixes_or_databases_are_apart() {
    let Some(server) = Redis::start(&[]) else { return };
    let other_database = mcp_redis_store::Settings::new(&server.url("db=3")).unwrap();
    let stores = [
        server.store(),
        mcp_redis_store::RedisStore::new(server.settings().prefix("other")),
        mcp_redis_store::RedisStore::new(other_database),
    ];
    let watches: Vec<_> = stores.iter().map(watch).collect();
    for (i, store) in stores.iter().enumerate() {
        assert_eq!(record(store), None);
        set(store, &[i as u8]).unwrap();
        store.publish(&[i as u8]).unwrap();
    }
    for (i, (store, (_watch, received))) in stores.iter().zip(&watches).enumerate() {
        assert_eq!(record(store), Some(vec![i as u8]));
        assert_eq!(received.recv_timeout(LONG).unwrap(), Some(vec![i as u8]));
        assert!(received.try_recv().is_err());
    }
    let mut keys: Vec<String> = server.run(&["KEYS", "*"]);
    keys.sort();
    assert_eq!(keys, [format!("mcp:session:{}", A.to_hex()), format!("other:session:{}", A.to_hex())]);
}

#[test]
fn values_that_the_script_did_not_write_have_version_0() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let key = format!("mcp:session:{}", A.to_hex());
    for value in [
        "",
        "0",
        "00000000000000000000",
        "99999999999999999999x",
        "-0000000000000000001x",
        "0000000000000000001",
    ] {
        let () = server.run(&["SET", &key, value]);
        let damaged = StoredSession { version: 0, record: value.into() };
        assert_eq!(store.load(&A).unwrap(), Some(damaged.clone()), "{value}");
        assert_eq!(store.compare_and_set(&A, None, b"", LONG).unwrap(), Swap::Conflict(Some(damaged)));
        assert!(matches!(
            store.compare_and_set(&A, Some(0), b"new", LONG).unwrap(),
            Swap::Stored(1_000_000_000..)
        ));
    }
    // A version beyond the clock grows nevertheless.
    let () = server.run(&["SET", &key, "00009000000000000000record"]);
    let swap = store.compare_and_set(&A, Some(9_000_000_000_000_000), b"new", LONG).unwrap();
    assert_eq!(swap, Swap::Stored(9_000_000_000_000_001));
    assert_eq!(store.load(&A).unwrap().unwrap().version, 9_000_000_000_000_001);
    let () = server.run(&["DEL", &key]);
    let () = server.run(&["LPUSH", &key, "a list"]);
    let refused = store.load(&A).unwrap_err().to_string();
    assert!(refused.contains("it refused a command: WRONGTYPE"), "{refused}");
    // A key without a lifetime gets one.
    let () = server.run(&["DEL", &key]);
    set(&store, b"record").unwrap();
    let left: i64 = server.run(&["PTTL", &key]);
    assert!((1..=600_000).contains(&left), "{left}");
}

#[test]
fn numbers_of_processes_do_not_return_after_the_server_lost_its_data() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let first = store.join().unwrap();
    for garbage in ["garbage", "inf", "nan", "-5", "99999999999999"] {
        std::thread::sleep(Duration::from_millis(1001));
        let () = server.run(&["SET", "mcp:processes", garbage]);
        assert!(store.join().unwrap() > first, "{garbage}");
    }
    let last = store.join().unwrap() + 1000;
    let () = server.run(&["SET", "mcp:processes", &last.to_string()]);
    assert_eq!(store.join().unwrap(), last + 1);
}

#[test]
fn store_tells_which_processes_watch() {
    let Some(mut server) = Redis::start(&[]) else { return };
    let (store, other) = (server.store(), server.store());
    let own = store.join().unwrap();
    let number = |process| process % PROCESSES;
    assert_eq!(store.is_watching(number(own + 1)).unwrap(), None);
    // Who does not watch cannot tell.
    assert_eq!(other.is_watching(number(own)).unwrap(), None);
    let (_watches, _) = watch(&other);
    assert_eq!(other.is_watching(number(own)).unwrap(), Some(false));
    let (watching, received) = watch(&store);
    // Its shards are that process.
    let shard = store.join().unwrap();
    let is_watching = || [own, shard].map(|process| other.is_watching(number(process)).unwrap());
    assert_eq!(is_watching(), [Some(true); 2]);
    // Who asks is not heard.
    other.publish(b"x").unwrap();
    assert_eq!(received.recv_timeout(LONG).unwrap(), Some(b"x".to_vec()));
    // A process that joins 1,024 times while this one lives does not get its number.
    let () = server.run(&["SET", "mcp:processes", &(own + PROCESSES - 1).to_string()]);
    assert_eq!(other.join().unwrap(), own + PROCESSES + 2);
    assert_eq!(is_watching(), [Some(true); 2]);
    // A key of another program is no process.
    let () = server.run(&["SADD", &format!("mcp:process:{}", number(own + 3)), "x"]);
    assert_eq!(other.join().unwrap(), own + PROCESSES + 3);
    server.kill();
    server.restart();
    assert_eq!(received.recv_timeout(LONG).unwrap(), None, "a gap");
    assert_eq!(store.is_watching(number(own)).unwrap(), None, "its data is lost");
    let own = store.join().unwrap();
    assert_eq!(other.is_watching(number(own)).unwrap(), Some(true));
    drop(watching);
    let begun = Instant::now();
    // Its own watch is made anew, too.
    while other.is_watching(number(own)).unwrap() != Some(false) {
        assert!(begun.elapsed() < DEADLINE);
    }
}

#[test]
fn records_and_messages_that_are_too_large_are_refused() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let large = vec![7; (16 << 20) + 1];
    let text = "a record or message of sessions has 16777217 bytes, and the store takes 16777216";
    assert_eq!(set(&store, &large).unwrap_err(), text);
    assert_eq!(store.publish(&large).unwrap_err().to_string(), text);
    set(&store, &large[1..]).unwrap();
    assert!(record(&store).unwrap() == large[1..]);
}

fn stored(store: &dyn TaskStore) -> Vec<(String, u64, Vec<u8>)> {
    let loaded = store.load().unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let mut all: Vec<_> = loaded
        .tasks
        .into_iter()
        .map(|StoredTask { id, version, record, .. }| (id, version, record))
        .collect();
    all.sort();
    all
}

/// Returns the number of MiB that the server has sent.
fn sent(server: &Redis) -> u64 {
    let stats: String = server.run(&["INFO", "stats"]);
    let bytes = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
    bytes.trim().parse::<u64>().unwrap() >> 20
}

#[test]
fn values_of_other_programs_are_not_read_beyond_what_a_store_writes() {
    const HUGE: usize = 200 << 20;
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let key = format!("mcp:session:{}", A.to_hex());
    let own = store.join().unwrap();
    let end = (HUGE - 1).to_string();
    for key in [&*key, "mcp:other", &format!("mcp:process:{}", own % PROCESSES)] {
        let () = server.run(&["SETRANGE", key, &end, "x"]);
    }
    // In a hash, whose fields no command can fill on the server's side alone.
    let fill = "local value = redis.call('GET', 'mcp:other') \
        redis.call('HSET', 'mcp:tasks:one', 'huge', value) \
        redis.call('HSET', 'mcp:tasks:one', 'whole', '00000000000000000001' .. string.sub(value, 1, 3000000)) \
        redis.call('HSET', 'mcp:tasks:one', string.sub(value, 1, 1000), 'x') \
        redis.call('PUBLISH', 'mcp:0:messages', value)";
    let (_watch, messages) = watch(&store);
    let () = server.run(&["EVAL", fill, "0"]);
    assert_eq!(messages.recv_timeout(DEADLINE).unwrap(), None, "a gap");
    let found = store.load(&A).unwrap().unwrap();
    assert!(
        (found.version, found.record.len()) == (0, (16 << 20) + 21),
        "{} {}",
        found.version,
        found.record.len()
    );
    let Swap::Conflict(Some(found)) = store.compare_and_set(&A, None, b"new", LONG).unwrap() else {
        panic!()
    };
    assert_eq!((found.version, found.record.len()), (0, (16 << 20) + 21));
    // It can be replaced.
    assert!(matches!(store.compare_and_set(&A, Some(0), b"new", LONG).unwrap(), Swap::Stored(_)));
    assert_eq!(record(&store).unwrap(), b"new");
    // A name that nobody has.
    assert_eq!(store.is_watching(own % PROCESSES).unwrap(), Some(false));
    let loaded = store.tasks("one").load().unwrap();
    assert_eq!(
        loaded.tasks.iter().map(|task| (&*task.id, task.record.len())).collect::<Vec<_>>(),
        [("whole", 3_000_000)]
    );
    let mut problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    problems.sort();
    assert!(problems[0].contains("is not a task") && problems[1].contains("209715180 bytes"), "{problems:?}");
    assert!(problems.len() == 2, "{problems:?}");
    // Two records, and a task.
    assert_eq!(sent(&server), 32 + 2);
}

#[test]
fn tasks_that_are_not_in_the_list_are_read_one_by_one() {
    let Some(server) = Redis::start(&[]) else { return };
    let tasks = server.store().tasks("one");
    let record = vec![7; 7 << 20];
    let all: Vec<_> = ["a", "b", "c"].map(|id| (id.to_owned(), 1, record.clone())).into();
    all.iter().for_each(|(id, version, record)| tasks.save(id, *version, record).unwrap());
    assert!(stored(&tasks) == all);
    // Three, of which the list had two.
    assert_eq!(sent(&server), 21);
}

#[test]
fn tasks_without_number_are_an_error() {
    let Some(server) = Redis::start(&[]) else { return };
    let fill = "for i = 0, 262144 do redis.call('HSET', 'mcp:tasks:one', i, 'x') end";
    let () = server.run(&["EVAL", fill, "0"]);
    let error = server.store().tasks("one").load().unwrap_err().to_string();
    assert!(error.contains("mcp:tasks:one has more than 262144 tasks"), "{error}");
}

#[test]
fn task_store_has_the_last_version_of_each_task() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let (tasks, other) = (store.tasks("one"), store.tasks("other"));
    let every_byte: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    tasks.save("a", 1, b"one").unwrap();
    tasks.save("b", 1, b"").unwrap();
    tasks.save("a", 2, &every_byte).unwrap();
    // A change that came late.
    tasks.save("a", 1, b"late").unwrap();
    tasks.delete("a", 1).unwrap();
    let all = [("a".to_owned(), 2, every_byte), ("b".to_owned(), 1, Vec::new())];
    assert_eq!(stored(&server.store().tasks("one")), all);
    assert_eq!(stored(&other), []);
    tasks.delete("a", 2).unwrap();
    tasks.delete("a", 3).unwrap();
    // Versions that the numbers of Lua do not have.
    for version in [u64::MAX - 1, u64::MAX, u64::MAX - 2] {
        tasks.save("b", version, version.to_string().as_bytes()).unwrap();
    }
    assert_eq!(stored(&tasks), [("b".to_owned(), u64::MAX, u64::MAX.to_string().into_bytes())]);
    let many: Vec<String> = (0..1000).map(|i| format!("task-{i:04}")).collect();
    for id in &many {
        other.save(id, 7, &[7; 100]).unwrap();
    }
    assert_eq!(stored(&other).into_iter().map(|(id, ..)| id).collect::<Vec<_>>(), many);
    let error = tasks.save("c", 1, &vec![0; (64 << 20) + 1]).unwrap_err();
    assert!(matches!(error, TaskStoreError::TooLarge { size: 67_108_865, max: 67_108_864 }));
}

// covers: TASK-131
#[test]
fn damaged_task_is_a_problem_that_does_not_tell_its_id() {
    let Some(server) = Redis::start(&[]) else { return };
    let tasks = server.store().tasks("one");
    tasks.save("whole", 1, b"record").unwrap();
    let () = server.run(&["HSET", "mcp:tasks:one", "secret-id", "secret record"]);
    let loaded = tasks.load().unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    let [problem] = &loaded.problems[..] else { panic!("{:?}", loaded.problems) };
    assert_eq!(problem.to_string(), "a value in the hash mcp:tasks:one in Redis is not a task");
    // It can be stored anew.
    tasks.save("secret-id", 1, b"new").unwrap();
    assert_eq!(stored(&tasks).len(), 2);
    let () = server.run(&["SET", "mcp:tasks:two", "secret"]);
    let error = server.store().tasks("two").save("secret-id", 1, b"secret record").unwrap_err();
    assert!(
        error.to_string().contains("WRONGTYPE") && !format!("{error} {error:?}").contains("secret"),
        "{error:?}"
    );
}
