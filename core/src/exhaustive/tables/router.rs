//! All short histories of the lists of a router: numbers, and pages with changes between them; all texts near a cursor.

use super::page::CursorCodec;
use super::registry::NumberIndex;
use super::tests::{RouterHarness, TestRouter, names, target_text, tool};
use crate::exhaustive::for_each_str;
use crate::methods::EntryKind;
use crate::slab::Key;
use crate::testing::{exhaustive, for_each_sequence};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::json;

#[test]
fn exhaustive_number_index_is_an_ordered_map_at_the_edges_of_its_chunks() {
    let property =
        "An index of growing numbers is an ordered map, also where one of its chunks fills or empties.";
    exhaustive(
        property,
        "additions, and removals at 4 places, beside 0, 63, 64 and 128 numbers, up to",
        [4, 5, 6],
        |most| {
            [0, 63, 64, 128]
                .map(|before| {
                    for_each_sequence(5, most, |steps| {
                        let (mut index, mut model, mut next) =
                            (NumberIndex::default(), BTreeMap::new(), 0_u64);
                        let mut add = |index: &mut NumberIndex, model: &mut BTreeMap<u64, Key>| {
                            next += 2;
                            let key = Key { slot: u32::try_from(next).expect("few"), generation: 0 };
                            index.push(next, key);
                            model.insert(next, key);
                        };
                        (0..before).for_each(|_| add(&mut index, &mut model));
                        for step in steps {
                            let at = [0, 63, 64, usize::MAX].get(step.wrapping_sub(1));
                            match at
                                .map(|at| model.keys().nth(*at.min(&model.len().saturating_sub(1))).copied())
                            {
                                None => add(&mut index, &mut model),
                                Some(Some(number)) => {
                                    index.remove(number);
                                    model.remove(&number);
                                }
                                Some(None) => index.remove(2),
                            }
                        }
                        let edges = [0, 1, 2, 125, 126, 127, 128, 129, 130, 255, 256, 257, 258, u64::MAX];
                        for number in edges {
                            assert_eq!(index.find(number), model.get(&number).copied(), "{before} {steps:?}");
                            let after = model.range(number.saturating_add(1)..).map(|(_, key)| *key);
                            assert!(
                                number == u64::MAX || index.keys_after(number).eq(after),
                                "{before} {steps:?}"
                            );
                        }
                    })
                })
                .into_iter()
                .sum()
        },
    );
}

#[test]
fn exhaustive_walk_of_pages_has_each_lasting_entry_once_whatever_changes_in_between() {
    let property = "A walk of pages lists each tool that stays once, in order, and none twice, with any change between two pages.";
    exhaustive(
        property,
        "page sizes, numbers of tools and changes after any page, tools",
        [4, 5, 7],
        |most| {
            let mut cases = 0;
            for (count, size, when) in (0..=most)
                .flat_map(|count| (1..=most).map(move |size| (count, size)))
                .flat_map(|(count, size)| (0..=count / size).map(move |when| (count, size, when)))
            {
                // A removal of each tool, or a new one.
                for change in 0..=count {
                    cases += 1;
                    let mut router = TestRouter::new("r", "1");
                    router.page_size_of(EntryKind::Tool, size).declare(crate::methods::Capability::Tools);
                    for n in 0..count {
                        router.tool(tool(&format!("t{n}")), target_text).expect("a tool");
                    }
                    let mut harness = RouterHarness::new(&router);
                    let (mut seen, mut cursor, mut page_number) = (Vec::new(), None::<String>, 0);
                    loop {
                        let params =
                            cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
                        let page = harness.ask(&router, "tools/list", params);
                        let listed = names(&page, "tools");
                        assert!(listed.len() <= size, "{count} {size}");
                        seen.extend(listed);
                        cursor = page["result"]["nextCursor"].as_str().map(String::from);
                        if cursor.is_none() {
                            break;
                        }
                        if page_number == when && change < count {
                            router.remove(EntryKind::Tool, &format!("t{change}"));
                        } else if page_number == when {
                            router.tool(tool("new"), target_text).expect("a tool");
                        }
                        page_number += 1;
                        assert!(page_number <= count + 1, "no end: {count} {size} {when} {change}");
                    }
                    let names_of_old = seen.iter().filter(|name| **name != "new");
                    let lasting = |n: &usize| *n != change || seen.contains(&format!("t{n}"));
                    let expected: Vec<String> = (0..count).filter(lasting).map(|n| format!("t{n}")).collect();
                    assert!(names_of_old.eq(&expected), "{count} {size} {when} {change}: {seen:?}");
                    assert!(seen.iter().filter(|name| **name == "new").count() <= 1);
                }
            }
            cases
        },
    );
}

#[test]
fn exhaustive_cursor_is_refused_unless_its_own_list_and_server_made_it() {
    const KINDS: [EntryKind; 4] =
        [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::ResourceTemplate];
    exhaustive(
        "cursors: a text names a page exactly if it is the cursor that this list of this server makes for this page",
        "texts of 7 pieces, and every change of one character of the cursors of 4 lists, numbers up to 16 times, and a length of",
        [4, 5, 7],
        |most| {
            let codec = CursorCodec::new("n", "1");
            let others = [CursorCodec::new("n", "2"), CursorCodec::new("n1", ""), codec.of_subject("s")];
            // A text that is read as a number is the cursor of this number, and of one list alone.
            let check = |text: &str, of: Option<(EntryKind, u64)>| {
                for kind in KINDS {
                    let expected = of.filter(|(own, _)| *own == kind).map(|(_, number)| number);
                    assert_eq!(codec.decode(kind, text), expected, "{kind:?} {text:?}");
                }
            };
            let pieces = ["0", "1", "f", ".", "+", "-", "é"];
            let mut count = for_each_str(&pieces, most, |text| check(text, None));
            let number_of_pages = most as u64 * 16;
            let edges = [u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX];
            for (kind, number) in
                KINDS.into_iter().flat_map(|kind| (0..number_of_pages).chain(edges).map(move |n| (kind, n)))
            {
                let cursor = codec.encode(kind, number);
                check(&cursor, Some((kind, number)));
                for other in others {
                    assert_eq!(other.decode(kind, &cursor), None, "{cursor}");
                }
                for at in 0..cursor.len() {
                    check(&cursor[..at], None);
                    check(&format!("{}{}", &cursor[..at], &cursor[at + 1..]), None);
                    for byte in 0..0x80_u8 {
                        let byte = char::from(byte);
                        let (before, after) = cursor.split_at(at);
                        check(&format!("{before}{byte}{after}"), None);
                        if !after.starts_with(byte) {
                            check(&format!("{before}{byte}{}", &after[1..]), None);
                        }
                    }
                    count += 2 + 0x80 + 0x7f;
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_list_with_a_changed_cursor_is_refused_or_is_the_page_of_that_cursor() {
    let property = "A list of tools with any cursor is the page for which the server made it, or an error with the code -32602.";
    exhaustive(
        property,
        "every change of one character of each cursor of lists, pages of one of all tools, up to",
        [3, 4, 8],
        |most| {
            let mut count = 0;
            for tools in 2..=most {
                let mut router = TestRouter::new("r", "1");
                router.page_size_of(EntryKind::Tool, 1).declare(crate::methods::Capability::Tools);
                for n in 0..tools {
                    router.tool(tool(&format!("t{n}")), target_text).expect("a tool");
                }
                let mut harness = RouterHarness::new(&router);
                let mut cursors: Vec<String> = Vec::new();
                while let Some(next) = {
                    let params = cursors.last().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
                    let page = harness.ask(&router, "tools/list", params);
                    assert_eq!(names(&page, "tools"), [format!("t{}", cursors.len())]);
                    page["result"]["nextCursor"].as_str().map(String::from)
                } {
                    cursors.push(next);
                }
                assert_eq!(cursors.len(), tools - 1);
                for (cursor, at) in cursors.iter().flat_map(|c| (0..c.len()).map(move |at| (c, at))) {
                    for byte in 0..0x80_u8 {
                        let text = format!("{}{}{}", &cursor[..at], char::from(byte), &cursor[at + 1..]);
                        let page = harness.ask(&router, "tools/list", json!({"cursor": text}));
                        match cursors.iter().position(|own| *own == text) {
                            Some(before) => {
                                assert_eq!(names(&page, "tools"), [format!("t{}", before + 1)], "{text:?}");
                            }
                            None => assert_eq!(page["error"]["code"], -32602, "{text:?}"),
                        }
                        count += 1;
                    }
                }
            }
            count
        },
    );
}
