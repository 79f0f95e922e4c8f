//! Search in place of lists: the tools of all upstreams behind two, `search` and `call`.

mod ranking;
mod synonyms;
mod words;

pub(crate) use ranking::{Document, rank};
#[cfg(test)]
pub(crate) use words::plain_words;
