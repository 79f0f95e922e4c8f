//! Words that people use for what tools call otherwise.

use super::words::words;

/// Returns the words of the same meaning as a word, in the form of [`words`], without itself.
pub(crate) fn synonyms(word: &str) -> Vec<String> {
    let groups = GROUPS.iter().map(|group| words(group)).filter(|group| group.iter().any(|w| *w == word));
    let mut others: Vec<String> = groups.flatten().filter(|other| *other != word).collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// Groups of general words: of what is done, and of what it is done to. Names of products are none.
const GROUPS: [&str; 36] = [
    "create new add make insert start",
    "write save put create store",
    "delete remove drop erase clear destroy forget",
    "get show read view retrieve fetch display see open",
    "list show enumerate get",
    "update edit change modify set replace rewrite",
    "rename move",
    "find search look query locate lookup",
    "run execute invoke trigger start launch",
    "stop end cancel close quit terminate",
    "connect login log join",
    "send post publish write",
    "reply answer respond",
    "press click tap hit push",
    "copy duplicate clone fork",
    "merge combine join",
    "compare diff difference",
    "check status verify validate",
    "upload attach import",
    "download export save",
    "picture image photo screenshot media",
    "folder directory",
    "size large big statistics storage space",
    "row record entry",
    "column field property",
    "repository repo project",
    "pr pull request",
    "web internet online website url",
    "person people user member colleague teammate",
    "bug issue problem ticket",
    "error failure fail crash",
    "history log past recent",
    "todo task",
    "spreadsheet workbook excel sheet",
    "text content contents body",
    "place location address",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_of_all_groups_of_a_word() {
        assert_eq!(synonyms("folder"), ["directory"]);
        for (word, other) in [("delet", "remov"), ("record", "row"), ("creat", "writ"), ("creat", "new")] {
            assert!(synonyms(word).iter().any(|found| found == other), "{word}: {:?}", synonyms(word));
        }
        assert!(synonyms("zebra").is_empty());
    }
}
