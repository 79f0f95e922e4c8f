use alloc::format;
use alloc::string::ToString as _;

use super::*;

fn event(number: u64) -> EventOccurrence {
    // White space of the application, with line ends.
    let data = RawJson::new(format!("{{\"n\":\r\n{number}, \"text\":\"a\\nb\"}}")).expect("JSON");
    EventOccurrence::new(format!("evt-{number}"), "mail", "2026-11-25T10:00:00Z", data)
}

fn subscription(principal: &str) -> StoredSubscription {
    StoredSubscription {
        principal: principal.into(),
        scopes: "mail:read".into(),
        url: "https://hooks.example/a?token=marker".into(),
        name: "mail".into(),
        arguments: RawJson::new(r#"{"folder":"marker"}"#).expect("JSON"),
        secret: Secret::from_entropy([7; 32]),
        older: [(Secret::from_entropy([8; 32]), 1_795_600_900)].into(),
        granted_at: 1_795_600_000,
        expires_at: None,
        proved_until: Some(1_795_687_200),
        profile: Profile::CHATGPT,
        terminated: None,
        progress: Progress { cursor: Some("7.3".into()), ..Progress::default() },
    }
}

fn records() -> [Record; 7] {
    let limits = LogLimits { events: 2, ..LogLimits::default() };
    [
        Record::Log { name: "mail".into(), epoch: 7, first: 3, limits },
        Record::Event { position: 3, at: 5, event: event(3) },
        Record::Gap { name: "mail".into(), position: 4, at: 6 },
        Record::Subscription(subscription("ann").into()),
        Record::Progress {
            id: subscription("ann").key().expect("a key").id(),
            progress: Progress {
                cursor: Some("7.5".into()),
                starts_truncated: true,
                is_suspended: true,
                last_delivery_at: Some(1),
                last_error: Some(CallbackFailure::Timeout),
                failed_since: Some(2),
            },
        },
        Record::SubscriptionEnded { id: "sub_x".into() },
        Record::LogRemoved { name: "other".into() },
    ]
}

#[test]
fn record_is_one_line_and_is_read_back() {
    for record in records() {
        let line = record.to_line().expect("text");
        assert!(!line.contains(['\n', '\r']), "{line:?}");
        let read = Record::read(&line).expect("a record");
        match (&read, &record) {
            // Its white space is another one.
            (Record::Event { event: read, .. }, Record::Event { event, .. }) => {
                assert!(read.data.has_value_of(&event.data));
            }
            _ => assert_eq!(read, record),
        }
        assert_eq!(record.is_promise(), !matches!(record, Record::Progress { .. }));
    }
    for wrong in ["", "{}", r#"{"later":{}}"#, r#"{"log":{"name":"a"}}"#, r#"{"logRemoved":{"name":"a"}}x"#] {
        assert!(Record::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn debug_output_has_no_secret() {
    let secret = Secret::from_entropy([7; 32]).reveal();
    for record in records() {
        let shown = format!("{record:?}");
        for hidden in ["marker", "whsec", &secret, "a\\nb"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
    assert!(!format!("{:?}", records().into_iter().collect::<Snapshot>()).contains("marker"));
}

// covers: EVT-145
#[test]
fn snapshot_is_what_records_add_up_to() {
    let mut snapshot: Snapshot = records().into_iter().collect();
    let stored = snapshot.subscriptions.values().next().expect("one").clone();
    assert_eq!((stored.progress.cursor.as_deref(), stored.progress.is_suspended), (Some("7.5"), true));
    let positions = |snapshot: &Snapshot| -> Vec<(u64, bool)> {
        let of = |record| match record {
            Record::Event { position, .. } => Some((position, true)),
            Record::Gap { position, .. } => Some((position, false)),
            _ => None,
        };
        log_records("mail", &snapshot.logs["mail"]).filter_map(of).collect()
    };
    assert_eq!(positions(&snapshot), [(3, true), (4, false)]);
    // Twice; of another type; and over the bound.
    for (position, number) in [(3, 3), (4, 4), (5, 5)] {
        snapshot.apply(Record::Event { position, at: 9, event: event(number) });
    }
    snapshot.apply(Record::Gap { name: "none".into(), position: 0, at: 9 });
    assert_eq!(positions(&snapshot), [(4, false), (5, true)]);
    // With a hole, the log begins behind it: readers in front are told that something is missing.
    snapshot.apply(Record::Event { position: 8, at: 9, event: event(8) });
    assert_eq!(positions(&snapshot), [(8, true)]);
    // Other bounds, and then another log.
    let limits = LogLimits { events: 1, ..LogLimits::default() };
    snapshot.apply(Record::Log { name: "mail".into(), epoch: 7, first: 0, limits });
    snapshot.apply(Record::Event { position: 9, at: 9, event: event(9) });
    assert_eq!(positions(&snapshot), [(9, true)]);
    snapshot.apply(Record::Log { name: "mail".into(), epoch: 8, first: 0, limits });
    assert_eq!(positions(&snapshot), []);
    // A subscription ends, and comes again.
    let id = stored.key().expect("a key").id().to_string();
    snapshot.apply(Record::SubscriptionEnded { id: id.clone() });
    snapshot.apply(Record::Progress { id: id.clone(), progress: Progress::default() });
    assert!(snapshot.subscriptions.is_empty());
    snapshot.apply(Record::Subscription(stored.into()));
    snapshot.apply(Record::LogRemoved { name: "mail".into() });
    assert!(snapshot.logs.is_empty() && snapshot.subscriptions.contains_key(&id));
}
