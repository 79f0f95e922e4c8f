//! All short histories of the cache of a client, and all small lists that its paginator can walk.

use super::cache::{Cache, CacheKey, CacheScope};
use super::config::Config;
use super::event::Peer;
use super::list::Paginator;
use crate::change::Change;
use crate::identity::Capabilities;
use crate::methods::EntryKind;
use crate::raw::RawJson;
use crate::testing::{exhaustive, for_each_sequence};
use crate::time::Instant;
use crate::version::Version;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

fn scope(principal: &str) -> CacheScope {
    let peer = Peer {
        version: Version::V2026_07_28,
        info: None,
        capabilities: RawJson::new("{}").expect("JSON"),
        instructions: None,
        declared: Capabilities::new(),
    };
    CacheScope::new(&Config::new("test", "1"), &peer, "here", principal)
}

fn result(number: usize, secs: u64, scope: &str) -> RawJson {
    let ttl = 1_000 * secs;
    RawJson::new(format!(r#"{{"resultType":"complete","n":{number},"ttlMs":{ttl},"cacheScope":"{scope}"}}"#))
        .expect("JSON")
}

fn number_of(result: Option<RawJson>) -> Option<usize> {
    result.and_then(|result| result.member("n")?.parse().ok())
}

fn at(secs: u64) -> Instant {
    Instant::from_micros(secs * 1_000_000)
}

#[test]
fn exhaustive_cached_result_reaches_only_those_who_may_see_it_while_it_is_fresh() {
    let property = "A cached result is found by its principal, or by all if it is public, until it expires or is replaced.";
    exhaustive(
        property,
        "results of 2 principals and 2 scopes, and passing time, up to",
        [4, 5, 7],
        |most| {
            let (scopes, tools) = ([scope("a"), scope("b")], CacheKey::List(EntryKind::Tool, None));
            for_each_sequence(5, most, |steps| {
                let (mut cache, mut secs) = (Cache::new(), 0);
                // Who may see it, until when, and its number. A new one of a principal replaces its own and the public one.
                let mut model: Vec<(Option<usize>, u64, usize)> = Vec::new();
                for (number, step) in steps.iter().enumerate() {
                    if *step == 4 {
                        secs += 1;
                    } else {
                        let (who, is_public) = (step / 2, step % 2 == 1);
                        let (ttl, name) = if is_public { (1, "public") } else { (2, "private") };
                        let ticket = cache.ticket(&scopes[who], tools.clone());
                        cache.insert(at(secs), ticket, &result(number, ttl, name));
                        model.retain(|(owner, ..)| owner.is_some_and(|owner| owner != who));
                        model.push(((!is_public).then_some(who), secs + ttl, number));
                    }
                    model.retain(|(_, until, _)| *until > secs);
                    for (who, scope) in scopes.iter().enumerate() {
                        let of = |owner| {
                            model.iter().find(|(other, ..)| *other == owner).map(|(.., number)| *number)
                        };
                        let found = number_of(cache.get(at(secs), scope, &tools));
                        assert_eq!(found, of(Some(who)).or_else(|| of(None)), "{who} {steps:?}");
                    }
                }
            })
        },
    );
}

#[test]
fn exhaustive_result_that_a_change_overtook_is_not_cached() {
    let property = "A result is found exactly if no change that concerns it came after its request.";
    let keys = [CacheKey::List(EntryKind::Tool, None), CacheKey::Read("x:1/a".into())];
    let changes = ["", "x:1/a", "x:1/a/b", "x:1", "x:2"].map(|uri| match uri {
        "" => Change::Tools,
        uri => Change::Resource(uri.into()),
    });
    // A change of a resource concerns it, and what it is part of.
    let concerns = [[true, false], [false, true], [false, true], [false, false], [false, false]];
    exhaustive(property, "requests of 2 results, their arrival, and 5 changes, up to", [4, 5, 6], |most| {
        let me = scope("a");
        for_each_sequence(9, most, |steps| {
            let mut cache = Cache::new();
            // The number of the request whose result is on its way, and whether it is valid still.
            let mut requested: [Option<(usize, bool)>; 2] = [None, None];
            let (mut tickets, mut stored) = ([None, None], [None, None]);
            for (number, step) in steps.iter().enumerate() {
                let of = step % 2;
                match step {
                    0 | 1 => {
                        tickets[of] = Some(cache.ticket(&me, keys[of].clone()));
                        requested[of] = Some((number, true));
                    }
                    2 | 3 => {
                        let (Some(ticket), Some((number, is_valid))) =
                            (tickets[of].take(), requested[of].take())
                        else {
                            continue;
                        };
                        cache.insert(at(0), ticket, &result(number, 60, "private"));
                        if is_valid {
                            stored[of] = Some(number);
                        }
                    }
                    _ => {
                        cache.handle_change(&me, &changes[step - 4]);
                        for of in 0..2 {
                            if concerns[step - 4][of] {
                                stored[of] = None;
                                requested[of] = requested[of].map(|(number, _)| (number, false));
                            }
                        }
                    }
                }
                let found = [0, 1].map(|of: usize| number_of(cache.get(at(0), &me, &keys[of])));
                assert_eq!(found, stored, "{steps:?}");
            }
        })
    });
}

#[test]
fn exhaustive_full_cache_drops_what_was_used_least_recently() {
    let property = "A cache of two results holds those two that were used last, of all that were stored.";
    let keys = ["x:1", "x:2", "x:3"].map(|uri| CacheKey::Read(uri.into()));
    exhaustive(property, "results and uses of 3 resources, up to", [5, 6, 7], |most| {
        let me = scope("a");
        for_each_sequence(6, most, |steps| {
            let mut cache = Cache::with_limits(2, 1 << 20);
            // The one that was used last is the last.
            let mut model: Vec<usize> = Vec::new();
            for step in steps {
                let of = step % 3;
                let is_stored = model.contains(&of);
                if *step < 3 {
                    let ticket = cache.ticket(&me, keys[of].clone());
                    cache.insert(at(0), ticket, &result(of, 60, "private"));
                } else {
                    let found = number_of(cache.get(at(0), &me, &keys[of]));
                    assert_eq!(found, is_stored.then_some(of), "{steps:?}");
                    if !is_stored {
                        continue;
                    }
                }
                model.retain(|other| *other != of);
                model.push(of);
                model.drain(..model.len().saturating_sub(2));
                assert_eq!(cache.len(), model.len(), "{steps:?}");
            }
        })
    });
}

#[test]
fn exhaustive_paginator_visits_each_page_once_whatever_cursors_a_server_names() {
    let property = "A walk of pages ends, asks for no page twice, has all entries that can be reached once, and is cut exactly by a cycle.";
    exhaustive(property, "each successor of each page, pages beside the first", [3, 4, 5], |pages| {
        let mut count = 0;
        // The successor of page n: 0 is the end, another number a page. The first page has no cursor.
        for_each_sequence(pages + 1, pages + 1, |next| {
            if next.len() <= pages {
                return;
            }
            count += 1;
            let mut walk = Paginator::new(EntryKind::Tool, usize::MAX);
            let (mut page, mut visited) = (0, vec![0]);
            let is_cut = loop {
                let cursor = match next[page] {
                    0 => String::new(),
                    // An empty cursor is a cursor.
                    1 => r#","nextCursor":"""#.into(),
                    other => format!(r#","nextCursor":"{other}""#),
                };
                let text = format!(r#"{{"tools":[{{"name":"{page}"}}]{cursor}}}"#);
                let goes_on = walk.take(&RawJson::new(text).expect("JSON")).expect("a list");
                let is_new = next[page] != 0 && !visited.contains(&next[page]);
                assert_eq!(goes_on, is_new, "{next:?}");
                if !goes_on {
                    break next[page] != 0;
                }
                page = next[page];
                let expected = if page == 1 { String::new() } else { format!("{page}") };
                assert_eq!(walk.cursor(), Some(&*expected), "{next:?}");
                visited.push(page);
            };
            assert_eq!((walk.is_cut(), walk.diagnostic().is_some()), (is_cut, is_cut), "{next:?}");
            let entries: Vec<RawJson> = walk.into_entries();
            let names: BTreeSet<&[u8]> = entries.iter().map(RawJson::as_bytes).collect();
            assert_eq!((entries.len(), names.len()), (visited.len(), visited.len()), "{next:?}");
        });
        count
    });
}
