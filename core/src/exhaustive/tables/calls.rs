//! All short histories of the table of inbound calls.

use super::inbound::{InboundCall, InboundCalls, InboundIndex};
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::testing::{exhaustive, for_each_sequence};
use crate::version::Version;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

fn call(channel: usize, id: i64) -> InboundCall {
    let channel = Key { slot: u32::try_from(channel).expect("few"), generation: 0 };
    InboundCall {
        is_long_lived: id == 0,
        ..InboundCall::new(RequestId::int(id), channel, Version::V2025_11_25)
    }
}

#[test]
fn exhaustive_call_is_found_by_its_channel_and_id_while_it_is_open() {
    let property =
        "A call is found by its channel and id alone until it ends, and no earlier key reaches it.";
    exhaustive(
        property,
        "calls of 3 ids on 2 channels, ends and new keys of the oldest, up to",
        [4, 5, 6],
        |most| {
            for_each_sequence(9, most, |steps| {
                let (mut table, mut indexes) =
                    (InboundCalls::new(), [InboundIndex::new(), InboundIndex::new()]);
                let mut model: BTreeMap<(usize, i64), Key> = BTreeMap::new();
                let mut stale: Vec<(usize, Key)> = Vec::new();
                for step in steps {
                    if *step < 6 {
                        let of @ (channel, id) = (step / 3, (step % 3) as i64);
                        let key = table.insert(&mut indexes[channel], call(channel, id));
                        assert_eq!(key.is_some(), !model.contains_key(&of), "{steps:?}");
                        key.map(|key| model.insert(of, key));
                        continue;
                    }
                    let chosen = if *step == 7 { model.last_key_value() } else { model.first_key_value() };
                    let Some((of @ (channel, id), key)) = chosen.map(|(of, key)| (*of, *key)) else {
                        continue;
                    };
                    stale.push((channel, key));
                    if *step == 8 {
                        let key = table.rekey(&mut indexes[channel], key).expect("open");
                        model.insert(of, key);
                    } else {
                        let ended = table.remove(&mut indexes[channel], key).map(|call| call.id);
                        assert_eq!(ended, Some(RequestId::int(id)), "{steps:?}");
                        model.remove(&of);
                    }
                }
                for (channel, key) in stale {
                    assert!(table.remove(&mut indexes[channel], key).is_none(), "{steps:?}");
                    assert!(table.rekey(&mut indexes[channel], key).is_none(), "{steps:?}");
                }
                for (channel, index) in indexes.iter_mut().enumerate() {
                    let own = model.iter().filter(|((other, _), _)| *other == channel).map(|(_, key)| *key);
                    assert!(table.keys(index).into_iter().eq(own), "the order of the ids: {steps:?}");
                    for id in 0..3 {
                        let found = table.find(index, &RequestId::int(id));
                        assert_eq!(found, model.get(&(channel, id)).copied(), "{steps:?}");
                    }
                }
                assert_eq!(table.long_lived, model.keys().filter(|(_, id)| *id == 0).count());
                assert_eq!(table.calls.len(), model.len());
            })
        },
    );
}
