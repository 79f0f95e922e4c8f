use alloc::string::String;

use super::*;
use crate::calls::endpoint::tests::{Counting, endpoint, queue, sent, set_memory};
use crate::memory::MemoryAccount;

/// Starts a batch in an endpoint.
fn open(endpoint: &mut Endpoint<Counting>, channel: Key, members: usize) -> BatchKey {
    endpoint.open_batch(Legacy::get().expect("the feature"), channel, members).expect("memory")
}

/// Adds a response of `length` bytes, with its newline.
fn answer(endpoint: &mut Endpoint<Counting>, key: BatchKey, length: usize) {
    endpoint.add_to_batch(key, Some(&RequestId::int(7)), 0, |out| {
        out.extend(core::iter::repeat_n(b'1', length - 1).chain([b'\n']));
    });
}

/// Adds a batch that waits for memory if `pending` is 0.
fn insert(endpoint: &mut Endpoint<Counting>, channel: Key, pending: usize) {
    let (charge, out) = (endpoint.memory.open(), alloc::vec![b'['; 4_096]);
    endpoint.batches.insert(Batch { channel, out, charge, pending, unanswered: 0 });
    endpoint.owed += usize::from(pending == 0);
}

// covers: BATCH-008
#[test]
fn batch_is_split_at_commas_outside_of_its_members() {
    let cases: &[(&str, Option<&[&str]>)] = &[
        ("[1]", Some(&["1"])),
        ("[]", Some(&[""])),
        (" [ 1 , {\"a\":[2,{}]},[[4],5] ] \r\n\t", Some(&[" 1 ", " {\"a\":[2,{}]}", "[[4],5] "])),
        (r#"["],[{",2]"#, Some(&[r#""],[{""#, "2"])),
        (r#"["\",","\ ","\\",3]"#, Some(&[r#""\",""#, r#""\ ""#, r#""\\""#, "3"])),
        // A backslash escapes nothing outside of a string; its member is refused by itself.
        (r#"[\,1,\"]",2]"#, Some(&["\\", "1", r#"\"]""#, "2"])),
        ("[1,2,3,4]", Some(&["1", "2", "3", "4"])),
        ("[1,2,3,4,5]", None),
        ("[1}]", None),
        ("1]", None),
        ("[1] 2", None),
        ("[1]]", None),
        ("[[1]", None),
        ("[\"]", None),
    ];
    for (text, expected) in cases {
        let members = split_by_commas(&Bytes::from_static(text.as_bytes()), 4);
        let members: Option<Vec<&[u8]>> = members.as_ref().map(|all| all.iter().map(|one| &**one).collect());
        let expected = expected.map(|all| all.iter().map(|one| one.as_bytes()).collect());
        assert_eq!(members, expected, "{text}");
    }
}

// covers: BATCH-004
#[test]
fn refused_batch_names_the_requests_that_can_be_read_in_it() {
    let limits = Limits { max_depth: 4, max_batch: 2, ..Limits::default() };
    let request = |id: u8| alloc::format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let (one, two, three) = (request(1), request(2), request(3));
    for (text, reason, ids) in [
        (alloc::format!("[{one},{two}]"), MalformedMessage::Batch, &[1, 2][..]),
        (alloc::format!("[{one},{two},{three}]"), MalformedMessage::Batch, &[1, 2]),
        (alloc::format!("[{one},7]"), MalformedMessage::Batch, &[1]),
        (alloc::format!("[{one},{{]"), MalformedMessage::Json { at: one.len() + 3 }, &[1]),
        (alloc::format!("[{one}]]"), MalformedMessage::Json { at: one.len() + 2 }, &[1]),
        // What is beside a member that is nested too deep is read, too.
        (alloc::format!("[[[[[[]]]]],{two}]"), MalformedMessage::Batch, &[2]),
    ] {
        let rejected = reject_batch(split_batch(&text.clone().into(), &limits), &limits);
        let expected: Vec<_> = ids.iter().map(|id| RequestId::int(*id)).collect();
        assert_eq!((rejected.reason, rejected.batched), (reason, expected), "{text}");
    }
    let broken = Bytes::from([b"[", one.as_bytes(), b",\"\xff\"]"].concat());
    let rejected = reject_batch(split_batch(&broken, &limits), &limits);
    let reason = MalformedMessage::Utf8 { at: one.len() + 3 };
    assert_eq!((rejected.reason, rejected.batched), (reason, [RequestId::int(1)].into()));
}

#[test]
fn batch_in_a_bounded_heap_has_room_for_errors_of_all_members_commas_and_its_end() {
    let (mut endpoint, channel) = endpoint(Limits { memory_reserve: 1, ..Limits::default() });
    let key = open(&mut endpoint, channel, 2);
    let batch = endpoint.batches.get(key.key()).expect("open");
    assert!(batch.out.capacity() >= 1 + endpoint.limits.error_room() * 2 + 1 + END.len());
    set_memory(&mut endpoint, false);
    assert!(endpoint.open_batch(Legacy::get().expect("the feature"), channel, 1).is_none());
}

#[test]
fn batch_takes_max_batch_bytes_between_its_brackets_and_one_more_is_an_error() {
    for (second, fits) in [(4, true), (5, true), (6, false)] {
        let (mut endpoint, channel) = endpoint(Limits { max_batch_bytes: 10, ..Limits::default() });
        let key = open(&mut endpoint, channel, 2);
        // Four bytes, a comma, and at most five.
        answer(&mut endpoint, key, 4 + 1);
        answer(&mut endpoint, key, second + 1);
        endpoint.close_batch(key);
        let text = sent(&mut endpoint, channel);
        assert!(text.starts_with("[1111,") && text.ends_with(']'), "{text}");
        assert_eq!(text.contains("the answer to the batch would be too long"), !fits, "{text}");
    }
}

#[test]
fn each_response_of_a_batch_must_fit_into_the_memory_by_itself() {
    let (mut endpoint, channel) = endpoint(Limits::default());
    endpoint.memory = MemoryAccount::new(100, false);
    let key = open(&mut endpoint, channel, 3);
    for length in [100, 101, 100] {
        answer(&mut endpoint, key, length);
    }
    endpoint.close_batch(key);
    let text = sent(&mut endpoint, channel);
    let result = String::from("1").repeat(99);
    assert!(text.starts_with(&alloc::format!("[{result},{{")), "{text}");
    assert!(text.ends_with(&alloc::format!("}},{result}]")) && text.contains(NO_MEMORY_FOR_ANSWER), "{text}");
}

#[cfg(all(feature = "http", feature = "server"))]
#[test]
fn answers_of_an_unfinished_batch_are_those_of_its_channel() {
    let (mut endpoint, first) = endpoint(Limits::default());
    let second = endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, Counting::default());
    open(&mut endpoint, first, 2);
    let key = open(&mut endpoint, second, 2);
    answer(&mut endpoint, key, 1 + 1);
    assert_eq!(batch_answers(&endpoint, first), None, "no answer is there");
    assert_eq!(batch_answers(&endpoint, second).as_deref(), Some(&b"[1]"[..]));
}

#[test]
fn complete_batches_of_an_ended_channel_alone_are_dropped() {
    let (mut endpoint, first) = endpoint(Limits::default());
    let second = endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, Counting::default());
    for (channel, pending) in [(first, 0), (first, 1), (second, 0), (first, 0), (second, 1)] {
        insert(&mut endpoint, channel, pending);
    }
    drop_owed_batches(&mut endpoint, first);
    let left: Vec<_> = endpoint.batches.iter().map(|(_, batch)| (batch.channel, batch.pending)).collect();
    assert_eq!((left, endpoint.owed), (alloc::vec![(first, 1), (second, 0), (second, 1)], 1));
}

#[test]
fn batch_that_waits_for_memory_is_sent_once_there_is_some_or_nothing_would_free_it() {
    for (is_queued, is_closed, has_memory, is_due) in [
        (true, false, false, false),
        (true, false, true, true),
        (false, false, false, true),
        (true, true, false, true),
        (false, true, false, true),
    ] {
        let (mut endpoint, channel) = endpoint(Limits::default());
        insert(&mut endpoint, channel, 0);
        insert(&mut endpoint, channel, 0);
        if is_queued {
            queue(&mut endpoint, channel, 10);
        }
        let c = endpoint.channels.get_mut(channel).expect("a channel");
        (c.closed, c.role.open_requests) = (is_closed, 2);
        set_memory(&mut endpoint, has_memory);
        assert_eq!(send_owed_batch(&mut endpoint), is_due.then_some(channel));
        let left = if is_due { 1 } else { 2 };
        assert_eq!((endpoint.owed, endpoint.batches.len()), (left, left));
        let c = endpoint.channels.get(channel).expect("a channel");
        assert_eq!(usize::try_from(c.role.open_requests), Ok(left));
        let length = usize::from(is_queued) * 10;
        assert_eq!(c.outbox.len(), length + if is_due && !is_closed { 4_096 + END.len() } else { 0 });
    }
    let (mut endpoint, channel) = endpoint(Limits::default());
    insert(&mut endpoint, channel, 1);
    assert_eq!(send_owed_batch(&mut endpoint), None, "it is not complete");
}
