//! Ranking of tools by a query: BM25F over their names, titles, descriptions and arguments.
//!
//! A word counts the more the rarer it is among the tools, the more often a tool has it, up to a bound, and the shorter the field is
//! that has it. Nothing depends on the order of the tools or on that of a hash.

use alloc::collections::BTreeMap;
use core::cmp::Reverse;

use mcp_proto::RawJson;
use mcp_proto::model::Extra;

use super::words::{MAX_TEXT, clip, plain_words, synonyms, words};

/// Fields of a tool.
#[derive(Clone, Copy)]
enum Field {
    /// The name of the server.
    Server,
    Name,
    Title,
    /// The first sentence of the description.
    Summary,
    Description,
    ArgumentNames,
    ArgumentDescriptions,
}

const FIELDS: usize = 7;

/// What the words of each field count.
const WEIGHTS: [f64; FIELDS] = [4.0, 2.0, 1.5, 2.0, 1.0, 0.5, 0.3];

/// How much the length of a field counts, from 0 to 1.
const LENGTH: [f64; FIELDS] = [0.0, 0.4, 0.4, 0.4, 0.6, 0.6, 0.6];

/// Number of weighted occurrences at which a word counts half of what it can.
const SATURATION: f64 = 1.2;

/// What a word counts that means the same as one of the query.
const SYNONYM: f64 = 0.6;

/// The words of one tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    /// Occurrences by word and field.
    words: BTreeMap<Box<str>, [u16; FIELDS]>,
    lengths: [u32; FIELDS],
    /// The name in words, with and without the name of its server.
    names: [String; 2],
}

impl Document {
    /// Reads an entry of a list. `shown` is its name, `name` the one at its server.
    pub(crate) fn new(shown: &str, name: &str, entry: &RawJson) -> Self {
        let mut document = Self { names: [shown, name].map(spelled), ..Self::default() };
        let text = |object: &RawJson, member: &str| {
            let value = object.member(member).and_then(|value| value.string()).unwrap_or_default();
            clip(&value, MAX_TEXT).to_owned()
        };
        document.add(Field::Server, shown.strip_suffix(name).unwrap_or_default());
        document.add(Field::Name, name);
        document.add(Field::Title, &text(entry, "title"));
        let description = text(entry, "description");
        let end = description.find(['\n', '。']).unwrap_or(description.len());
        let end = description.find(". ").unwrap_or(end).min(end);
        document.add(Field::Summary, description.get(..end).unwrap_or_default());
        document.add(Field::Description, description.get(end..).unwrap_or_default());
        let arguments = entry.member("inputSchema").and_then(|schema| schema.member("properties"));
        let arguments: Extra = arguments.and_then(|arguments| arguments.parse().ok()).unwrap_or_default();
        for (name, schema) in arguments.iter().take(MAX_ARGUMENTS) {
            document.add(Field::ArgumentNames, name);
            let description = text(schema, "description");
            document.add(Field::ArgumentDescriptions, clip(&description, MAX_ARGUMENT_TEXT));
        }
        document
    }

    fn add(&mut self, field: Field, text: &str) {
        let field = field as usize;
        for word in words(text) {
            if let Some(length) = self.lengths.get_mut(field) {
                *length += 1;
            }
            let has_room = self.words.len() < MAX_WORDS;
            let counts = match self.words.get_mut(&*word) {
                Some(counts) => counts,
                None if has_room => self.words.entry(word.into()).or_default(),
                None => continue,
            };
            if let Some(count) = counts.get_mut(field) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// Returns the weighted occurrences of a word.
    fn frequency(&self, word: &str, mean_lengths: &[f64; FIELDS]) -> f64 {
        let Some(counts) = self.words.get(word) else { return 0.0 };
        let fields = counts.iter().zip(&self.lengths).zip(mean_lengths).zip(WEIGHTS).zip(LENGTH);
        let counted = fields.map(|((((count, length), mean), weight), counts)| {
            let length = f64::from(*length) / mean.max(1.0);
            weight * f64::from(*count) / (1.0 - counts + counts * length)
        });
        counted.sum()
    }
}

/// Returns the name in words of a text, to compare names that are spelled `createIssue` and `create issue`.
fn spelled(text: &str) -> String {
    plain_words(text).join(" ")
}

/// Returns the positions of the best tools for a query, the best first: one that has the name, then those whose name in words, with
/// or without their server, is the query, then by rank. Tools that rank equal are in the order of their names; those without any
/// word of the query are left out.
pub(crate) fn rank(query: &str, tools: &[(&str, &Document)], limit: usize) -> Vec<usize> {
    let query = clip(query.trim(), MAX_QUERY);
    let mut asked = words(query);
    asked.truncate(MAX_ASKED);
    // Two words may be one in a name: `clean up`.
    let joined = asked.iter().zip(asked.iter().skip(1)).map(|(word, next)| format!("{word}{next}"));
    let mut asked: Vec<_> = asked.iter().cloned().zip(joined.map(Some).chain([None])).collect();
    asked.sort_unstable();
    asked.dedup_by(|one, other| one.0 == other.0);
    let count = tools.len() as f64;
    let mut mean_lengths = [0.0; FIELDS];
    for (_, document) in tools {
        for (mean, length) in mean_lengths.iter_mut().zip(&document.lengths) {
            *mean += f64::from(*length) / count;
        }
    }
    let rarity = |word: String, weight: f64| {
        let having = tools.iter().filter(|(_, document)| document.words.contains_key(&*word)).count() as f64;
        let rarity = ((count - having + 0.5) / (having + 0.5)).ln_1p();
        (word, weight * rarity)
    };
    // Each word with those that may stand for it.
    let asked: Vec<Vec<(String, f64)>> = asked
        .into_iter()
        .map(|(word, joined)| {
            let others = synonyms(&word).into_iter().map(|other| rarity(other, SYNONYM));
            let mut group: Vec<_> = others.collect();
            group.extend([Some(word), joined].into_iter().flatten().map(|word| rarity(word, 1.0)));
            group
        })
        .collect();
    let spelled = spelled(query);
    let ranked = tools.iter().enumerate().filter_map(|(at, (name, document))| {
        let scores = asked.iter().map(|group| {
            let scores = group.iter().map(|(word, rarity)| {
                let frequency = document.frequency(word, &mean_lengths);
                rarity * frequency / (SATURATION + frequency)
            });
            scores.fold(0.0, f64::max)
        });
        // Whole numbers: the last bit of a logarithm is not the same everywhere.
        let score = (scores.sum::<f64>() * 1e6).round() as u64;
        let likeness = match document.names.iter().position(|name| !spelled.is_empty() && *name == spelled) {
            _ if *name == query => 3,
            Some(0) => 2,
            Some(_) => 1,
            None => 0,
        };
        (likeness > 0 || score > 0).then_some((Reverse((likeness, score)), *name, at))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    ranked.into_iter().take(limit).map(|(_, _, at)| at).collect()
}

/// Arguments of a tool that are read.
const MAX_ARGUMENTS: usize = 64;
/// Bytes of the description of an argument that are read.
const MAX_ARGUMENT_TEXT: usize = 512;
/// Different words of a tool that are kept.
const MAX_WORDS: usize = 1_024;
/// Words of a query that are compared, without those that say nothing.
const MAX_ASKED: usize = 32;
/// Bytes of a query that are read.
const MAX_QUERY: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the tools that a query finds among some with names and descriptions.
    fn found<'a>(query: &str, tools: &[(&'a str, &str)]) -> Vec<&'a str> {
        let documents = tools.iter().map(|(name, description)| {
            let entry =
                RawJson::encode(&Extra::from([("description", RawJson::encode(description).unwrap())]));
            (
                *name,
                Document::new(name, name.split_once('_').map_or(*name, |(_, rest)| rest), &entry.unwrap()),
            )
        });
        let documents: Vec<_> = documents.collect();
        let tools: Vec<_> = documents.iter().map(|(name, document)| (*name, document)).collect();
        rank(query, &tools, 20).into_iter().map(|at| tools[at].0).collect()
    }

    const TOOLS: [(&str, &str); 4] = [
        ("git_log", "Shows the commits of a branch"),
        ("files_read", "Reads a file"),
        ("files_write", "Writes a file, and reads nothing. Commits no branch"),
        ("tide_heights", "Predicts heights of the water"),
    ];

    #[test]
    fn rare_words_in_short_fields_come_first() {
        assert_eq!(found("how high is the water", &TOOLS), ["tide_heights"]);
        assert_eq!(found("commits of the branch", &TOOLS), ["git_log", "files_write"]);
        assert_eq!(found("reading files", &TOOLS)[0], "files_read");
        assert!(found("the of a", &TOOLS).is_empty() && found("", &TOOLS).is_empty());
        assert!(found("zebra", &TOOLS).is_empty() && found("water", &[]).is_empty());
    }

    #[test]
    fn exact_name_comes_first_in_any_spelling() {
        let tools = [
            ("a_get", "open issue open issue open issue"),
            ("b_open_issue", "-"),
            ("c_openIssue", "-"),
            ("d_issue", "b_open_issue b open issue"),
        ];
        assert_eq!(found("b_open_issue", &tools)[0], "b_open_issue");
        assert_eq!(found("B open issue", &tools)[0], "b_open_issue");
        assert_eq!(found(" openIssue ", &tools)[..2], ["b_open_issue", "c_openIssue"]);
        // Also one that is a stop word.
        assert_eq!(found("the_of", &[("the_of", "")]), ["the_of"]);
    }

    #[test]
    fn equal_ranks_are_in_the_order_of_names() {
        let tools = [("x_c", "same words"), ("x_a", "same words"), ("x_b", "same words")];
        let reversed: Vec<_> = tools.iter().rev().copied().collect();
        assert_eq!(found("words", &tools), ["x_a", "x_b", "x_c"]);
        assert_eq!(found("words", &reversed), ["x_a", "x_b", "x_c"]);
    }

    #[test]
    fn arguments_are_found_by_names_and_descriptions() {
        let entry = RawJson::new(
            r#"{"inputSchema":{"properties":{"berthNumber":{"description":"Place at the quay"},"x":7}}}"#,
        );
        let document = Document::new("d_book", "book", &entry.unwrap());
        for query in ["berth", "quay"] {
            assert_eq!(rank(query, &[("d_book", &document)], 5), [0], "{query}");
        }
    }

    #[test]
    fn hostile_descriptions_are_bounded_and_gain_nothing() {
        let (repeated, long) = ("water ".repeat(1_000_000), "x".repeat(4 << 20));
        let many: String = (0..500_000).map(|number| format!("w{number} ")).collect();
        let tools = [TOOLS[3], ("bad_a", &*repeated), ("bad_b", &*long), ("bad_c", &*many)];
        assert_eq!(found("heights of the water", &tools)[0], "tide_heights");
        assert_eq!(found("\u{0}\u{1b}[2J\u{202e}", &tools), Vec::<&str>::new());
        let entry = RawJson::encode(&Extra::from([("description", RawJson::encode(&many).unwrap())]));
        let document = Document::new("bad_c", "c", &entry.unwrap());
        // A query is bounded, too.
        assert!(rank(&format!("{}w1", "z ".repeat(MAX_ASKED)), &[("bad_c", &document)], 5).is_empty());
        assert_eq!(rank("w1 zebra", &[("bad_c", &document)], 5), [0]);
        assert!(document.words.len() <= MAX_WORDS);
        let words: usize = document.words.keys().map(|word| word.len()).sum();
        assert!(words <= 2 * MAX_TEXT, "{words}");
    }
}
