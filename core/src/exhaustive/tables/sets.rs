//! All small sets of scopes, revisions and reported features, and all short histories of a token bucket.

use crate::calls::inbound::TokenBucket;
use crate::deprecation::{DeprecatedFeature, ReportedFeatures};
use crate::scope::{ScopeError, Scopes};
use crate::testing::{exhaustive, for_each_sequence};
use crate::time::Instant;
use crate::version::{Era, Version, VersionSet};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Three scopes, and texts that are none.
const WORDS: [&str; 6] = ["a", "b", "a:b", "", "a b", "é"];

fn model_of(words: &[&'static str]) -> Vec<&'static str> {
    let mut kept = Vec::new();
    for word in words.iter().filter(|word| WORDS[..3].contains(word)) {
        if !kept.contains(word) {
            kept.push(*word);
        }
    }
    kept
}

#[test]
fn exhaustive_scopes_are_the_set_of_the_tokens_that_were_given() {
    let property =
        "Scopes hold each token once, in the order of its first place, and nothing that is no token.";
    exhaustive(property, "sequences of 3 tokens and 3 other texts, up to", [4, 5, 7], |most| {
        for_each_sequence(WORDS.len(), most, |sequence| {
            let words: Vec<&str> = sequence.iter().map(|at| WORDS[*at]).collect();
            let (scopes, model) = (words.iter().collect::<Scopes>(), model_of(&words));
            assert!(scopes.iter().eq(model.iter().copied()), "{words:?}");
            assert_eq!((scopes.as_str(), scopes.is_empty()), (&*model.join(" "), model.is_empty()));
            for word in WORDS {
                assert_eq!(scopes.contains(word), model.contains(&word), "{word:?} in {words:?}");
            }
            assert_eq!(Scopes::parse(scopes.as_str()).as_ref(), Ok(&scopes));
            let strict =
                if sequence.iter().any(|at| *at >= 3) { Err(ScopeError::Character) } else { Ok(scopes) };
            assert_eq!(Scopes::try_collect(words.iter().copied()), strict, "{words:?}");
        })
    });
}

#[test]
fn exhaustive_union_of_scopes_is_the_smallest_set_that_contains_both() {
    let property = "A union of scopes has those of the first set, then the others of the second; inclusion is that of sets.";
    exhaustive(property, "pairs of sequences of 3 tokens, each up to", [3, 4, 5], |most| {
        let mut sets = Vec::new();
        for_each_sequence(3, most, |sequence| {
            let words: Vec<&str> = sequence.iter().map(|at| WORDS[*at]).collect();
            sets.push((words.iter().collect::<Scopes>(), model_of(&words)));
        });
        for (a, in_a) in &sets {
            for (b, in_b) in &sets {
                let added = in_b.iter().filter(|word| !in_a.contains(word));
                assert!(a.union(b).iter().eq(in_a.iter().chain(added).copied()), "{a:?} and {b:?}");
                assert_eq!(a.contains_all(b), in_b.iter().all(|word| in_a.contains(word)));
            }
        }
        (sets.len() * sets.len()) as u64
    });
}

#[test]
fn exhaustive_version_set_is_a_set_in_order_of_preference() {
    let property =
        "A set of revisions has those that were added, newest first, and splits into its two eras.";
    exhaustive(property, "sequences of the 5 revisions, up to", [5, 6, 8], |most| {
        for_each_sequence(Version::ALL.len(), most, |sequence| {
            let set = sequence.iter().fold(VersionSet::NONE, |set, at| set.with(Version::ALL[*at]));
            let mut model: BTreeSet<&str> = sequence.iter().map(|at| Version::ALL[*at].as_str()).collect();
            assert!(set.iter().map(Version::as_str).eq(model.iter().rev().copied()), "{sequence:?}");
            assert_eq!(set.newest().map(Version::as_str), model.last().copied());
            assert_eq!(set.is_empty(), model.is_empty());
            let has_modern = model.remove("2026-07-28");
            assert_eq!(set.era(Era::Modern).iter().count(), usize::from(has_modern));
            assert!(set.era(Era::Legacy).iter().map(Version::as_str).eq(model.iter().rev().copied()));
            assert_eq!(set.is_dual_era(), has_modern && !model.is_empty());
        })
    });
}

#[test]
fn exhaustive_deprecated_feature_is_reported_once_for_each_principal() {
    let property = "A deprecated feature is new once for each principal, and once for those without one.";
    exhaustive(property, "uses of 3 features by 3 kinds of peers, up to", [4, 5, 6], |most| {
        let peers = [None, Some("a"), Some("b")];
        for_each_sequence(9, most, |steps| {
            let (mut reported, mut seen) = (ReportedFeatures::default(), BTreeSet::new());
            for step in steps {
                let (peer, feature) = (peers[step / 3], DeprecatedFeature::ALL[step % 3 * 2]);
                assert_eq!(reported.insert(peer, feature), seen.insert((peer, feature)), "{steps:?}");
            }
        })
    });
}

/// Whether a take after `ticks` quarters of a second keeps to the rate in each window that ends then.
///
/// A window that begins with the bucket has its first level, one that begins with an earlier take at most its size.
fn is_within_rate(taken_at: &[u64], ticks: u64, burst: u64, rate: u64) -> bool {
    let number = taken_at.len() as u64;
    4 * (number + 1) <= 4 * burst + rate * ticks
        && (0..)
            .zip(taken_at)
            .all(|(at, begun)| 4 * (number - at + 1) <= 4 * burst.max(1) + rate * (ticks - begun))
}

#[test]
fn exhaustive_token_bucket_gives_all_that_the_rate_allows_and_no_more() {
    let property =
        "A bucket gives a token exactly if no window of time has more than its burst and its rate.";
    exhaustive(property, "takes after 0 to 3 quarters of a second, 16 rates, up to", [5, 6, 8], |most| {
        (0..16_u16)
            .map(|settings| {
                let (burst, rate) = (settings / 4, settings % 4);
                for_each_sequence(4, most, |waits| {
                    let (mut bucket, mut ticks, mut taken_at) =
                        (TokenBucket::new(Instant::ZERO, burst, rate), 0, Vec::new());
                    for wait in waits {
                        ticks += *wait as u64;
                        let allowed = is_within_rate(&taken_at, ticks, burst.into(), rate.into());
                        assert_eq!(
                            bucket.take(Instant::from_micros(ticks * 250_000)),
                            allowed,
                            "{settings} {waits:?}"
                        );
                        if allowed {
                            taken_at.push(ticks);
                        }
                    }
                })
            })
            .sum()
    });
}

#[test]
fn exhaustive_token_bucket_is_ready_exactly_when_it_says() {
    let property =
        "A bucket that refused a token has none a microsecond before the time that it names, and one then.";
    exhaustive(property, "takes after 0 to 3 odd times, 9 rates, up to", [5, 6, 8], |most| {
        (0..9_u16)
            .map(|settings| {
                let (burst, rate) = (settings / 3, [1, 3, 7][usize::from(settings % 3)]);
                for_each_sequence(4, most, |waits| {
                    let (mut bucket, mut now) = (TokenBucket::new(Instant::ZERO, burst, rate), 0);
                    for wait in waits {
                        now += *wait as u64 * 33_331;
                        bucket.take(Instant::from_micros(now));
                    }
                    while bucket.take(Instant::from_micros(now)) {}
                    let ready = bucket.ready_at().expect("a rate").saturating_duration_since(Instant::ZERO);
                    let ready = u64::try_from(ready.as_micros()).expect("soon");
                    assert!(ready > now, "{settings} {waits:?}");
                    assert!(!bucket.take(Instant::from_micros(ready - 1)), "{settings} {waits:?}");
                    assert!(bucket.take(Instant::from_micros(ready)), "{settings} {waits:?}");
                })
            })
            .sum()
    });
}
