use super::*;
use crate::identity::Capabilities;
use crate::version::Version;
use crate::vocab::Capability;
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
        flags: Capabilities::new(),
    }
}

fn config() -> Config {
    Config::new("test", "1")
}

fn asker(principal: &str) -> Asker {
    Asker::new(&config(), &peer(Version::V2026_07_28, "{}"), "here", principal)
}

fn tools(cursor: Option<&str>) -> Question {
    Question::List(Kind::Tool, cursor.map(Into::into))
}

fn read(uri: &str) -> Question {
    Question::Read(uri.into())
}

fn page(ttl: &str, scope: &str) -> RawJson {
    raw(format!(r#"{{"resultType":"complete","tools":[],"ttlMs":{ttl},"cacheScope":"{scope}"}}"#))
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn put(cache: &mut Cache, now: Instant, asker: &Asker, question: &Question, result: &RawJson) {
    let ticket = cache.ticket(asker, question.clone());
    cache.put(now, ticket, result);
}

fn updated(uri: &str) -> Change {
    Change::Resource(uri.into())
}

// covers: CACHE-005, CACHE-006, CACHE-007
#[test]
fn a_result_is_fresh_until_its_time_has_passed_since_it_came() {
    let (mut cache, me) = (Cache::new(), asker(""));
    put(&mut cache, at(500), &me, &tools(None), &page("1000", "private"));
    assert_eq!(cache.get(at(1_499), &me, &tools(None)), Some(page("1000", "private")));
    assert_eq!(cache.get(at(1_500), &me, &tools(None)), None, "it is asked for again");
    assert!(cache.is_empty(), "and not kept any longer");
    // The clock of a newer one is its own.
    put(&mut cache, at(2_000), &me, &tools(None), &page("1000", "private"));
    put(&mut cache, at(2_900), &me, &tools(None), &page("200", "private"));
    assert_eq!(cache.get(at(3_050), &me, &tools(None)), Some(page("200", "private")));
    assert_eq!(cache.get(at(3_100), &me, &tools(None)), None);
}

// covers: CACHE-002, CACHE-003, CACHE-006
#[test]
fn what_is_no_time_is_none() {
    let (mut cache, me) = (Cache::new(), asker(""));
    for none in ["0", "-0", "-1", "-1e9", "1.5", "\"1000\"", "null", "true", "[]", "{}", "1e400"] {
        put(&mut cache, at(0), &me, &tools(None), &page("1000", "private"));
        put(&mut cache, at(0), &me, &tools(None), &page(none, "private"));
        assert!(cache.is_empty(), "{none}: neither it nor the older one");
    }
    put(&mut cache, at(0), &me, &tools(None), &raw(r#"{"tools":[]}"#));
    assert!(cache.is_empty(), "absent");
    for long in ["18446744073709551615", "18446744073709551616", "1e300", "9223372036854775808"] {
        put(&mut cache, at(7), &me, &tools(None), &page(long, "private"));
        assert!(cache.get(at(u64::MAX / 2_000), &me, &tools(None)).is_some(), "{long}");
    }
    put(&mut cache, at(0), &me, &tools(None), &page("2000.0", "private"));
    assert!(cache.get(at(1_999), &me, &tools(None)).is_some(), "an integer, too");
    assert!(cache.get(at(2_000), &me, &tools(None)).is_none());
    // At the end of time nothing is fresh, and nothing wraps around.
    put(&mut cache, Instant::FAR, &me, &tools(None), &page("1000", "private"));
    assert!(cache.is_empty());
}

// covers: CACHE-010, CACHE-011, CACHE-020
#[test]
fn questions_are_what_their_results_depend_on() {
    let of = |method, params: &str| Question::of(method, &raw(params));
    assert_eq!(of("tools/list", "{}"), Some(tools(None)));
    assert_eq!(of("tools/list", r#"{"cursor":""}"#), Some(tools(Some(""))));
    assert_eq!(of("prompts/list", r#"{"cursor":"a"}"#), Some(Question::List(Kind::Prompt, Some("a".into()))));
    let spelt = of("resources/read", r#"{"_meta":{"progressToken":1},"\u0075ri":"a\u003ab"}"#);
    assert_eq!(spelt, Some(read("a:b")));
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
    ] {
        assert_eq!(of(method, params), None, "{method} {params}");
    }
}

// covers: CACHE-010, CACHE-016, CACHE-018
#[test]
fn each_page_is_kept_for_itself() {
    let (mut cache, me) = (Cache::new(), asker(""));
    let pages = [(None, "5000"), (Some("a"), "1000"), (Some("b"), "3000")];
    for (n, (cursor, ttl)) in (0..).zip(pages) {
        put(&mut cache, at(n * 500), &me, &tools(cursor), &page(ttl, "private"));
    }
    let fresh =
        |cache: &mut Cache, now| pages.map(|(cursor, _)| cache.get(at(now), &me, &tools(cursor)).is_some());
    assert_eq!(fresh(&mut cache, 1_499), [true, true, true]);
    // The one in the middle is asked for again, with its cursor; the others stay.
    assert_eq!(fresh(&mut cache, 1_500), [true, false, true]);
    assert_eq!(fresh(&mut cache, 4_000), [true, false, false]);
    assert!(cache.get(at(0), &me, &Question::List(Kind::Prompt, None)).is_none());
    cache.forget_list(&me, Kind::Tool);
    assert!(cache.is_empty());
}

// covers: CACHE-012, CACHE-013, CACHE-020
#[test]
fn results_are_given_to_whom_they_may_be_given() {
    let [a, b] = ["alice", "bob"].map(asker);
    let mut cache = Cache::new();
    for scope in ["private", "odd", ""] {
        put(&mut cache, at(0), &a, &tools(None), &page("1000", scope));
        assert!(cache.get(at(1), &a, &tools(None)).is_some());
        assert!(cache.get(at(1), &b, &tools(None)).is_none(), "{scope}");
    }
    put(&mut cache, at(0), &a, &tools(None), &raw(r#"{"tools":[],"ttlMs":1000}"#));
    assert!(cache.get(at(1), &b, &tools(None)).is_none(), "nothing said");
    put(&mut cache, at(0), &a, &read("a:b"), &page("1000", "public"));
    assert!(cache.get(at(1), &b, &read("a:b")).is_some());
    // One's own goes before it, and does not touch what others have.
    put(&mut cache, at(0), &b, &tools(None), &page("2000", "private"));
    assert_eq!(cache.get(at(1), &b, &tools(None)), Some(page("2000", "private")));
    assert!(cache.get(at(1), &a, &tools(None)).is_some());
    // What has become private is not given to anybody else any more.
    put(&mut cache, at(2), &a, &read("a:b"), &page("1000", "private"));
    assert!(cache.get(at(3), &b, &read("a:b")).is_none());
    assert!(cache.get(at(3), &a, &read("a:b")).is_some());

    // Other servers, clients and revisions are others.
    let modern = peer(Version::V2026_07_28, "{}");
    let able = config().capabilities(Capabilities::new().with(Capability::Sampling));
    let others = [
        Asker::new(&config(), &modern, "there", "alice"),
        Asker::new(&config(), &peer(Version::V2026_07_28, r#"{"name":"x"}"#), "here", "alice"),
        Asker::new(&able, &modern, "here", "alice"),
        Asker::new(&config(), &peer(Version::V2025_11_25, "{}"), "here", "alice"),
    ];
    put(&mut cache, at(0), &a, &read("c:d"), &page("1000", "public"));
    for other in &others {
        assert!(cache.get(at(1), other, &read("c:d")).is_none(), "{other:?}");
    }
    assert!(cache.get(at(1), &asker("alice"), &read("c:d")).is_some());
}

// covers: CACHE-004, CACHE-011
#[test]
fn what_is_no_complete_result_is_not_kept() {
    let (mut cache, me) = (Cache::new(), asker(""));
    for kind in [r#""input_required""#, r#""x/later""#, "7"] {
        let result = raw(format!(r#"{{"resultType":{kind},"ttlMs":1000,"cacheScope":"public"}}"#));
        put(&mut cache, at(0), &me, &read("a:b"), &result);
        assert!(cache.is_empty(), "{kind}");
    }
}

// covers: CACHE-014
#[test]
fn news_end_what_they_are_about() {
    let me = asker("");
    let other = Asker::new(&config(), &peer(Version::V2026_07_28, "{}"), "there", "");
    let friend = asker("friend");
    let list = |kind| Question::List(kind, None);
    let questions = [
        tools(None),
        tools(Some("a")),
        list(Kind::Prompt),
        list(Kind::Resource),
        list(Kind::ResourceTemplate),
        read("a:b"),
        read("a:b/c"),
        read("a:x"),
    ];
    let left = |change: Change| -> String {
        let mut cache = Cache::new();
        for question in &questions {
            for asker in [&me, &friend, &other] {
                put(&mut cache, at(0), asker, question, &page("1000", "private"));
            }
        }
        cache.notice(&me, &change);
        let has = |cache: &mut Cache, asker, question| cache.get(at(1), asker, question).is_some();
        for question in &questions {
            assert!(has(&mut cache, &other, question), "another server's {question:?}");
            assert_eq!(has(&mut cache, &me, question), has(&mut cache, &friend, question), "{question:?}");
        }
        questions.iter().map(|question| if has(&mut cache, &me, question) { '#' } else { '.' }).collect()
    };
    assert_eq!(left(Change::Tools), "..######");
    assert_eq!(left(Change::Prompts), "##.#####");
    assert_eq!(left(Change::Resources), "###..###");
    assert_eq!(left(updated("a:x")), "#######.");
    // A part of it has changed, so it has, too (RES-013).
    assert_eq!(left(updated("a:b/c")), "#####..#");
    assert_eq!(left(updated("elsewhere:")), "########");
}

// covers: CACHE-014
#[test]
fn a_result_that_was_under_way_when_news_came_is_not_kept() {
    let (mut cache, me) = (Cache::new(), asker(""));
    let changed = Change::Tools;
    let late = |cache: &mut Cache, meanwhile: &dyn Fn(&mut Cache)| {
        let ticket = cache.ticket(&me, tools(None));
        meanwhile(cache);
        cache.put(at(0), ticket, &page("1000", "private"));
        cache.get(at(1), &me, &tools(None)).is_some()
    };
    assert!(late(&mut cache, &|_| {}));
    assert!(!late(&mut cache, &|cache| cache.notice(&me, &changed)));
    assert!(late(&mut cache, &|cache| cache.notice(&me, &Change::Prompts)));
    assert!(!late(&mut cache, &|cache| cache.forget(&me)));
    assert!(!late(&mut cache, &Cache::clear));
    // More than is remembered: better not.
    assert!(!late(&mut cache, &|cache| {
        for _ in 0..=Cache::NEWS {
            cache.notice(&me, &Change::Prompts);
        }
    }));
    assert!(late(&mut cache, &|_| {}), "and then again");
    let elsewhere = Asker::new(&config(), &peer(Version::V2026_07_28, "{}"), "there", "");
    assert!(late(&mut cache, &|cache| cache.notice(&elsewhere, &changed)));
    cache.notice(&me, &updated(&format!("a:{}", "x".repeat(Cache::URI))));
    assert_eq!(cache.news.back().map(|(_, news)| news), Some(&News::Resources));
}

#[test]
fn legacy_lists_are_kept_only_if_asked_for() {
    let mut cache = Cache::new();
    let legacy = Asker::new(&config(), &peer(Version::V2025_11_25, "{}"), "", "");
    // Even if such a server says something: its revision does not know the word.
    put(&mut cache, at(0), &legacy, &tools(None), &page("1000", "public"));
    assert!(cache.is_empty());
    let legacy = legacy.keep_legacy(SECOND);
    put(&mut cache, at(0), &legacy, &tools(None), &raw(r#"{"tools":[]}"#));
    put(&mut cache, at(0), &legacy, &read("a:b"), &raw(r#"{"contents":[]}"#));
    assert!(cache.get(at(999), &legacy, &tools(None)).is_some());
    assert!(cache.get(at(999), &legacy, &read("a:b")).is_none(), "who has not subscribed gets no news");
    cache.notice(&legacy, &Change::Tools);
    assert!(cache.get(at(999), &legacy, &tools(None)).is_none());
    let forever = legacy.keep_legacy(Duration::MAX);
    put(&mut cache, at(0), &forever, &tools(None), &raw(r#"{"tools":[]}"#));
    assert!(cache.get(at(1 << 50), &forever, &tools(None)).is_some());
}

#[test]
fn entries_and_bytes_are_bounded() {
    let me = asker("");
    let uri = |n: usize| read(&format!("a:{n}"));
    let kept = |cache: &mut Cache, now, n| cache.get(at(now), &me, &uri(n)).is_some();
    let mut cache = Cache::with_limits(3, 1 << 20);
    put(&mut cache, at(0), &me, &uri(0), &page("9000", "private"));
    put(&mut cache, at(0), &me, &uri(1), &page("1000", "private"));
    put(&mut cache, at(0), &me, &uri(2), &page("9000", "private"));
    assert!(kept(&mut cache, 1, 0));
    put(&mut cache, at(1), &me, &uri(3), &page("9000", "private"));
    assert_eq!(
        [0, 1, 2, 3].map(|n| kept(&mut cache, 2, n)),
        [true, false, true, true],
        "not used for longest"
    );
    put(&mut cache, at(2), &me, &uri(2), &page("10", "private"));
    assert!(kept(&mut cache, 3, 2) && kept(&mut cache, 3, 2));
    put(&mut cache, at(20), &me, &uri(4), &page("9000", "private"));
    let left: Vec<_> = (0..5).filter(|n| kept(&mut cache, 21, *n)).collect();
    assert_eq!(left, [0, 3, 4], "what has expired goes first");

    let size = Cache::OVERHEAD + 3 + page("9000", "private").as_bytes().len();
    let mut cache = Cache::with_limits(100, 2 * size);
    for n in 0..9 {
        put(&mut cache, at(0), &me, &uri(n), &page("9000", "private"));
        assert!(cache.bytes <= 2 * size && kept(&mut cache, 1, n));
    }
    assert_eq!(cache.len(), 2);
    // Too large for all of it: the others stay, and the old one of this question goes.
    let large = raw(format!(r#"{{"ttlMs":9000,"text":"{}"}}"#, "x".repeat(2 * size)));
    put(&mut cache, at(1), &me, &uri(8), &large);
    assert_eq!((cache.len(), kept(&mut cache, 2, 7)), (1, true));
    cache.forget(&me);
    assert_eq!((cache.len(), cache.bytes), (0, 0));
    let mut none = Cache::with_limits(0, 1 << 20);
    put(&mut none, at(0), &me, &uri(0), &page("9000", "private"));
    assert!(none.is_empty());
}

/// Whatever happens, nothing stale or foreign is given out, and the books are right
#[test]
fn random_steps_against_a_simple_model() {
    let mut state = 1_u64;
    let mut roll = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let askers = ["a", "b"].map(asker);
    let mut cache = Cache::with_limits(5, 4_000);
    // What the server would allow: question, until when, for whom, which text.
    let mut allowed: Vec<(Question, Instant, Option<usize>, RawJson)> = Vec::new();
    for step in 0..20_000 {
        let (now, who) = (at(step * 10), usize::try_from(roll(2)).expect("small"));
        let question = if roll(2) == 0 { tools(None) } else { read(&format!("r:{}", roll(6))) };
        match roll(8) {
            0 => {
                let changed = if let Question::Read(uri) = &question { updated(uri) } else { Change::Tools };
                cache.notice(&askers[who], &changed);
                allowed.retain(|(other, ..)| *other != question);
            }
            1..=3 => {
                let (ttl, public) = (roll(200), roll(3) == 0);
                let text = raw(format!(
                    r#"{{"ttlMs":{ttl},"cacheScope":"{}","step":{step}}}"#,
                    if public { "public" } else { "private" }
                ));
                put(&mut cache, now, &askers[who], &question, &text);
                allowed.retain(|(other, _, whose, _)| {
                    *other != question || whose.is_some_and(|whose| whose != who)
                });
                let until = now + Duration::from_millis(ttl);
                allowed.push((question, until, (!public).then_some(who), text));
            }
            _ => {
                if let Some(found) = cache.get(now, &askers[who], &question) {
                    let fits = allowed.iter().any(|(other, until, whose, text)| {
                        *other == question && now < *until && whose.is_none_or(|w| w == who) && *text == found
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
