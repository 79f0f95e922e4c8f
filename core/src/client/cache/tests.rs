use super::*;
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::version::Version;
use alloc::vec::Vec;

const SECOND: Duration = Duration::from_secs(1);

fn raw(text: impl Into<String>) -> RawJson {
    RawJson::new(text.into()).expect("JSON")
}

fn peer(version: Version, info: &'static str) -> Peer {
    Peer {
        version,
        info: Some(raw(info)),
        capabilities: raw("{}"),
        instructions: None,
        declared: Capabilities::new(),
    }
}

fn config() -> Config {
    Config::new("test", "1")
}

fn scope(principal: &str) -> CacheScope {
    CacheScope::new(&config(), &peer(Version::V2026_07_28, "{}"), "here", principal)
}

fn tools_key(cursor: Option<&str>) -> CacheKey {
    CacheKey::List(EntryKind::Tool, cursor.map(Into::into))
}

fn resource_key(uri: &str) -> CacheKey {
    CacheKey::Read(uri.into())
}

fn page(ttl: &str, scope: &str) -> RawJson {
    raw(format!(r#"{{"resultType":"complete","tools":[],"ttlMs":{ttl},"cacheScope":"{scope}"}}"#))
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn insert(cache: &mut Cache, now: Instant, scope: &CacheScope, key: &CacheKey, result: &RawJson) {
    let ticket = cache.ticket(scope, key.clone());
    cache.insert(now, ticket, result);
}

fn updated(uri: &str) -> Change {
    Change::Resource(uri.into())
}

// covers: CACHE-005, CACHE-006, CACHE-007
#[test]
fn result_is_fresh_for_its_ttl_from_receipt() {
    let (mut cache, me) = (Cache::new(), scope(""));
    insert(&mut cache, at(500), &me, &tools_key(None), &page("1000", "private"));
    assert_eq!(cache.get(at(1_499), &me, &tools_key(None)), Some(page("1000", "private")));
    assert_eq!(cache.get(at(1_500), &me, &tools_key(None)), None, "an expired result is not returned");
    assert!(cache.is_empty(), "an expired result is removed");
    // Each result has a lifetime of its own.
    insert(&mut cache, at(2_000), &me, &tools_key(None), &page("1000", "private"));
    insert(&mut cache, at(2_900), &me, &tools_key(None), &page("200", "private"));
    assert_eq!(cache.get(at(3_050), &me, &tools_key(None)), Some(page("200", "private")));
    assert_eq!(cache.get(at(3_100), &me, &tools_key(None)), None);
}

// covers: CACHE-002, CACHE-003, CACHE-006
#[test]
fn invalid_ttl_counts_as_zero() {
    let (mut cache, me) = (Cache::new(), scope(""));
    for none in ["0", "-0", "-1", "-1e9", "1.5", "\"1000\"", "null", "true", "[]", "{}", "1e400"] {
        insert(&mut cache, at(0), &me, &tools_key(None), &page("1000", "private"));
        insert(&mut cache, at(0), &me, &tools_key(None), &page(none, "private"));
        assert!(cache.is_empty(), "{none}: the older result is removed as well");
    }
    insert(&mut cache, at(0), &me, &tools_key(None), &raw(r#"{"tools":[]}"#));
    assert!(cache.is_empty(), "absent");
    for long in ["18446744073709551615", "18446744073709551616", "1e300", "9223372036854775808"] {
        insert(&mut cache, at(7), &me, &tools_key(None), &page(long, "private"));
        assert!(cache.get(at(u64::MAX / 2_000), &me, &tools_key(None)).is_some(), "{long}");
    }
    insert(&mut cache, at(0), &me, &tools_key(None), &page("2000.0", "private"));
    assert!(cache.get(at(1_999), &me, &tools_key(None)).is_some(), "an integral float is an integer");
    assert!(cache.get(at(2_000), &me, &tools_key(None)).is_none());
    // At the end of the time scale nothing is fresh and nothing wraps around.
    insert(&mut cache, Instant::FAR_FUTURE, &me, &tools_key(None), &page("1000", "private"));
    assert!(cache.is_empty());
}

// covers: CACHE-010, CACHE-011, CACHE-020
#[test]
fn cache_key_contains_all_parameters_of_the_result() {
    let of = |method, params: &str| CacheKey::from_request(method, &raw(params));
    assert_eq!(of("tools/list", "{}"), Some(tools_key(None)));
    assert_eq!(of("tools/list", r#"{"cursor":""}"#), Some(tools_key(Some(""))));
    assert_eq!(
        of("prompts/list", r#"{"cursor":"a"}"#),
        Some(CacheKey::List(EntryKind::Prompt, Some("a".into())))
    );
    let spelt = of("resources/read", r#"{"_meta":{"progressToken":1},"\u0075ri":"a\u003ab"}"#);
    assert_eq!(spelt, Some(resource_key("a:b")));
    assert_eq!(spelt, of("resources/read", r#"{"uri":"a:b"}"#));
    assert_ne!(of("resources/list", "{}"), of("resources/templates/list", "{}"));
    for (method, params) in [
        ("resources/read", r#"{"uri":"a:b","inputResponses":{}}"#),
        ("resources/read", r#"{"uri":"a:b","requestState":"s"}"#),
        ("resources/read", r#"{"uri":7}"#),
        ("resources/read", "{}"),
        ("tools/list", r#"{"cursor":null}"#),
        ("tools/list", r#"{"filter":"x"}"#),
        ("tools/list", "[]"),
        ("tools/call", r#"{"name":"x"}"#),
        ("prompts/get", r#"{"name":"x"}"#),
        ("server/discover", "{}"),
        ("mine/list", "{}"),
        ("resources/directory/read", r#"{"uri":"a:b"}"#),
        ("mine/read", r#"{"uri":"a:b"}"#),
    ] {
        assert_eq!(of(method, params), None, "{method} {params}");
    }
}

// covers: CACHE-010, CACHE-016, CACHE-018
#[test]
fn pages_of_a_list_are_cached_separately() {
    let (mut cache, me) = (Cache::new(), scope(""));
    let pages = [(None, "5000"), (Some("a"), "1000"), (Some("b"), "3000")];
    for (n, (cursor, ttl)) in (0..).zip(pages) {
        insert(&mut cache, at(n * 500), &me, &tools_key(cursor), &page(ttl, "private"));
    }
    let fresh = |cache: &mut Cache, now| {
        pages.map(|(cursor, _)| cache.get(at(now), &me, &tools_key(cursor)).is_some())
    };
    assert_eq!(fresh(&mut cache, 1_499), [true, true, true]);
    // The page in the middle is requested again by its cursor; the others stay.
    assert_eq!(fresh(&mut cache, 1_500), [true, false, true]);
    assert_eq!(fresh(&mut cache, 4_000), [true, false, false]);
    assert!(cache.get(at(0), &me, &CacheKey::List(EntryKind::Prompt, None)).is_none());
    cache.invalidate_list(&me, EntryKind::Tool);
    assert!(cache.is_empty());
}

// covers: CACHE-012, CACHE-013, CACHE-020
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn results_are_shared_by_cache_scope_only() {
    let [a, b] = ["alice", "bob"].map(scope);
    let mut cache = Cache::new();
    for scope in ["private", "odd", ""] {
        insert(&mut cache, at(0), &a, &tools_key(None), &page("1000", scope));
        assert!(cache.get(at(1), &a, &tools_key(None)).is_some());
        assert!(cache.get(at(1), &b, &tools_key(None)).is_none(), "{scope}");
    }
    insert(&mut cache, at(0), &a, &tools_key(None), &raw(r#"{"tools":[],"ttlMs":1000}"#));
    assert!(cache.get(at(1), &b, &tools_key(None)).is_none(), "results without a scope are private");
    insert(&mut cache, at(0), &a, &resource_key("a:b"), &page("1000", "public"));
    assert!(cache.get(at(1), &b, &resource_key("a:b")).is_some());
    // The private result takes precedence, and does not affect those of others.
    insert(&mut cache, at(0), &b, &tools_key(None), &page("2000", "private"));
    assert_eq!(cache.get(at(1), &b, &tools_key(None)), Some(page("2000", "private")));
    assert!(cache.get(at(1), &a, &tools_key(None)).is_some());
    // A result that has become private is not returned to others any more.
    insert(&mut cache, at(2), &a, &resource_key("a:b"), &page("1000", "private"));
    assert!(cache.get(at(3), &b, &resource_key("a:b")).is_none());
    assert!(cache.get(at(3), &a, &resource_key("a:b")).is_some());

    // Other servers, clients and revisions have other scopes.
    let modern = peer(Version::V2026_07_28, "{}");
    let able = config().capabilities(Capabilities::new().with(Capability::Sampling));
    let others = [
        CacheScope::new(&config(), &modern, "there", "alice"),
        CacheScope::new(&config(), &peer(Version::V2026_07_28, r#"{"name":"x"}"#), "here", "alice"),
        CacheScope::new(&able, &modern, "here", "alice"),
        CacheScope::new(&config(), &peer(Version::V2025_11_25, "{}"), "here", "alice"),
    ];
    insert(&mut cache, at(0), &a, &resource_key("c:d"), &page("1000", "public"));
    for other in &others {
        assert!(cache.get(at(1), other, &resource_key("c:d")).is_none(), "{other:?}");
    }
    assert!(cache.get(at(1), &scope("alice"), &resource_key("c:d")).is_some());
}

// covers: CACHE-004, CACHE-011
#[test]
fn incomplete_results_are_not_cached() {
    let (mut cache, me) = (Cache::new(), scope(""));
    for kind in [r#""input_required""#, r#""x/later""#, "7"] {
        let result = raw(format!(r#"{{"resultType":{kind},"ttlMs":1000,"cacheScope":"public"}}"#));
        insert(&mut cache, at(0), &me, &resource_key("a:b"), &result);
        assert!(cache.is_empty(), "{kind}");
    }
}

// covers: CACHE-014
#[test]
fn change_invalidates_affected_results() {
    let me = scope("");
    let other = CacheScope::new(&config(), &peer(Version::V2026_07_28, "{}"), "there", "");
    let friend = scope("friend");
    let list = |kind| CacheKey::List(kind, None);
    let keys = [
        tools_key(None),
        tools_key(Some("a")),
        list(EntryKind::Prompt),
        list(EntryKind::Resource),
        list(EntryKind::ResourceTemplate),
        resource_key("a:b"),
        resource_key("a:b/c"),
        resource_key("a:x"),
    ];
    let left = |change: Change| -> String {
        let mut cache = Cache::new();
        for key in &keys {
            for scope in [&me, &friend, &other] {
                insert(&mut cache, at(0), scope, key, &page("1000", "private"));
            }
        }
        cache.handle_change(&me, &change);
        let has = |cache: &mut Cache, scope, key| cache.get(at(1), scope, key).is_some();
        for key in &keys {
            assert!(has(&mut cache, &other, key), "result of another server: {key:?}");
            assert_eq!(has(&mut cache, &me, key), has(&mut cache, &friend, key), "{key:?}");
        }
        keys.iter().map(|key| if has(&mut cache, &me, key) { '#' } else { '.' }).collect()
    };
    assert_eq!(left(Change::Tools), "..######");
    assert_eq!(left(Change::Prompts), "##.#####");
    assert_eq!(left(Change::Resources), "###..###");
    assert_eq!(left(updated("a:x")), "#######.");
    // A part of the resource has changed, and so has the resource (RES-013).
    assert_eq!(left(updated("a:b/c")), "#####..#");
    assert_eq!(left(updated("elsewhere:")), "########");
}

// covers: CACHE-014
#[test]
fn result_awaited_during_a_change_is_not_cached() {
    let (mut cache, me) = (Cache::new(), scope(""));
    let changed = Change::Tools;
    let late = |cache: &mut Cache, meanwhile: &dyn Fn(&mut Cache)| {
        let ticket = cache.ticket(&me, tools_key(None));
        meanwhile(cache);
        cache.insert(at(0), ticket, &page("1000", "private"));
        cache.get(at(1), &me, &tools_key(None)).is_some()
    };
    assert!(late(&mut cache, &|_| {}));
    assert!(!late(&mut cache, &|cache| cache.handle_change(&me, &changed)));
    assert!(late(&mut cache, &|cache| cache.handle_change(&me, &Change::Prompts)));
    assert!(!late(&mut cache, &|cache| cache.invalidate_server(&me)));
    assert!(!late(&mut cache, &Cache::clear));
    // More invalidations than are remembered: the result is not inserted.
    assert!(!late(&mut cache, &|cache| {
        for _ in 0..=Cache::MAX_INVALIDATIONS {
            cache.handle_change(&me, &Change::Prompts);
        }
    }));
    assert!(late(&mut cache, &|_| {}), "a later change has the same effect");
    let elsewhere = CacheScope::new(&config(), &peer(Version::V2026_07_28, "{}"), "there", "");
    assert!(late(&mut cache, &|cache| cache.handle_change(&elsewhere, &changed)));
    cache.handle_change(&me, &updated(&format!("a:{}", "x".repeat(Cache::MAX_URI))));
    assert_eq!(
        cache.invalidations.back().map(|(_, invalidation)| invalidation),
        Some(&Invalidation::Resources)
    );
}

#[test]
fn legacy_lists_are_cached_only_with_legacy_ttl() {
    let mut cache = Cache::new();
    let legacy = CacheScope::new(&config(), &peer(Version::V2025_11_25, "{}"), "", "");
    // Even if such a server sends a hint: its revision does not have it.
    insert(&mut cache, at(0), &legacy, &tools_key(None), &page("1000", "public"));
    assert!(cache.is_empty());
    let legacy = legacy.with_legacy_ttl(SECOND);
    insert(&mut cache, at(0), &legacy, &tools_key(None), &raw(r#"{"tools":[]}"#));
    insert(&mut cache, at(0), &legacy, &resource_key("a:b"), &raw(r#"{"contents":[]}"#));
    assert!(cache.get(at(999), &legacy, &tools_key(None)).is_some());
    assert!(
        cache.get(at(999), &legacy, &resource_key("a:b")).is_none(),
        "without a subscription there is no change notification"
    );
    cache.handle_change(&legacy, &Change::Tools);
    assert!(cache.get(at(999), &legacy, &tools_key(None)).is_none());
    let forever = legacy.with_legacy_ttl(Duration::MAX);
    insert(&mut cache, at(0), &forever, &tools_key(None), &raw(r#"{"tools":[]}"#));
    assert!(cache.get(at(1 << 50), &forever, &tools_key(None)).is_some());
}

#[test]
fn cache_bounds_entries_and_bytes() {
    let me = scope("");
    let uri = |n: usize| resource_key(&format!("a:{n}"));
    let kept = |cache: &mut Cache, now, n| cache.get(at(now), &me, &uri(n)).is_some();
    let mut cache = Cache::with_limits(3, 1 << 20);
    insert(&mut cache, at(0), &me, &uri(0), &page("9000", "private"));
    insert(&mut cache, at(0), &me, &uri(1), &page("1000", "private"));
    insert(&mut cache, at(0), &me, &uri(2), &page("9000", "private"));
    assert!(kept(&mut cache, 1, 0));
    insert(&mut cache, at(1), &me, &uri(3), &page("9000", "private"));
    assert_eq!(
        [0, 1, 2, 3].map(|n| kept(&mut cache, 2, n)),
        [true, false, true, true],
        "the least recently used entry is evicted"
    );
    insert(&mut cache, at(2), &me, &uri(2), &page("10", "private"));
    assert!(kept(&mut cache, 3, 2) && kept(&mut cache, 3, 2));
    insert(&mut cache, at(12), &me, &uri(4), &page("9000", "private"));
    let left: Vec<_> = (0..5).filter(|n| kept(&mut cache, 21, *n)).collect();
    assert_eq!(left, [0, 3, 4], "expired entries are evicted first");

    let size = Cache::ENTRY_OVERHEAD + 3 + page("9000", "private").as_bytes().len();
    let mut cache = Cache::with_limits(100, 2 * size);
    for n in 0..9 {
        insert(&mut cache, at(0), &me, &uri(n), &page("9000", "private"));
        assert!(cache.bytes <= 2 * size && kept(&mut cache, 1, n));
    }
    assert_eq!(cache.len(), 2);
    // Too large for the whole cache: other results stay, and the old one of this key is removed.
    let large = raw(format!(r#"{{"ttlMs":9000,"text":"{}"}}"#, "x".repeat(2 * size)));
    insert(&mut cache, at(1), &me, &uri(8), &large);
    assert_eq!((cache.len(), kept(&mut cache, 2, 7)), (1, true));
    cache.invalidate_server(&me);
    assert_eq!((cache.len(), cache.bytes), (0, 0));
    for key in [uri(0), tools_key(Some("xyz"))] {
        for (spare, is_kept) in [(0, true), (1, false)] {
            let mut cache = Cache::with_limits(1, size - spare);
            insert(&mut cache, at(0), &me, &key, &page("9000", "private"));
            assert_eq!(!cache.is_empty(), is_kept, "{key:?}");
        }
    }
    let mut none = Cache::with_limits(0, 1 << 20);
    insert(&mut none, at(0), &me, &uri(0), &page("9000", "private"));
    assert!(none.is_empty());
}

/// Checks that no random sequence returns a stale or foreign result, and that the totals are right.
#[test]
fn cache_agrees_with_a_simple_model_in_random_steps() {
    let mut state = 1_u64;
    let mut roll = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let scopes = ["a", "b"].map(scope);
    let mut cache = Cache::with_limits(5, 4_000);
    // The results that may be returned: key, expiry, principal, text.
    let mut allowed: Vec<(CacheKey, Instant, Option<usize>, RawJson)> = Vec::new();
    for step in 0..20_000 {
        let (now, principal) = (at(step * 10), usize::try_from(roll(2)).expect("small"));
        let key = if roll(2) == 0 { tools_key(None) } else { resource_key(&format!("r:{}", roll(6))) };
        match roll(8) {
            0 => {
                let changed = if let CacheKey::Read(uri) = &key { updated(uri) } else { Change::Tools };
                cache.handle_change(&scopes[principal], &changed);
                allowed.retain(|(other, ..)| *other != key);
            }
            1..=3 => {
                let (ttl, public) = (roll(200), roll(3) == 0);
                let text = raw(format!(
                    r#"{{"ttlMs":{ttl},"cacheScope":"{}","step":{step}}}"#,
                    if public { "public" } else { "private" }
                ));
                insert(&mut cache, now, &scopes[principal], &key, &text);
                allowed.retain(|(other, _, owner, _)| {
                    *other != key || owner.is_some_and(|owner| owner != principal)
                });
                let until = now + Duration::from_millis(ttl);
                allowed.push((key, until, (!public).then_some(principal), text));
            }
            _ => {
                if let Some(found) = cache.get(now, &scopes[principal], &key) {
                    let fits = allowed.iter().any(|(other, until, owner, text)| {
                        *other == key
                            && now < *until
                            && owner.is_none_or(|w| w == principal)
                            && *text == found
                    });
                    assert!(fits, "step {step}: {found}");
                }
            }
        }
        let cost: usize = cache.entries.values().map(|entry| entry.cost).sum();
        assert_eq!(cost, cache.bytes);
        assert!(cache.len() <= 5 && cache.bytes <= 4_000);
    }
}

#[test]
fn result_that_is_awaited_when_the_cache_is_cleared_is_not_cached() {
    let (mut cache, me) = (Cache::new(), scope(""));
    let ticket = cache.ticket(&me, tools_key(None));
    cache.clear();
    cache.insert(at(0), ticket, &page("9000", "private"));
    assert!(cache.is_empty());
}

#[test]
fn change_of_a_resource_with_a_very_long_uri_invalidates_all_resources() {
    let me = scope("");
    for (length, is_kept) in [(Cache::MAX_URI, true), (Cache::MAX_URI + 1, false)] {
        let mut cache = Cache::new();
        // Requested before the change, answered after it.
        let ticket = cache.ticket(&me, resource_key("other"));
        cache.handle_change(&me, &updated(&"u".repeat(length)));
        cache.insert(at(0), ticket, &page("9000", "private"));
        assert_eq!(!cache.is_empty(), is_kept, "{length}");
    }
}
