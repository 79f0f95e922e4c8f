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
const GROUPS: [&str; 58] = [
    "create new add make insert start open",
    "write save put create store",
    "delete remove drop erase clear destroy forget discard",
    "get show read view retrieve fetch display see open load print",
    "list show enumerate which what",
    "update edit change modify set replace rewrite adjust",
    "rename move relocate",
    "find search look query locate lookup discover",
    "run execute invoke trigger start launch",
    "stop end cancel close quit terminate leave disconnect",
    "connect login log join",
    "navigate go visit browse open",
    "send post publish write tell say",
    "reply answer respond",
    "press click tap hit push",
    "copy duplicate clone fork",
    "merge combine join unite",
    "compare diff difference",
    "check status verify validate test state",
    "upload attach import",
    "download export save",
    "install deploy apply release",
    "picture image photo screenshot media",
    "folder directory path",
    "size large big statistics storage space disk",
    "row record entry",
    "column field property",
    "repository repo project",
    "pr pull request",
    "review approve reviewer",
    "web internet online website url site",
    "person people user member colleague teammate collaborator",
    "bug issue problem ticket",
    "error failure fail crash",
    "history log past recent lately latest",
    "todo task",
    "done finish complete",
    "tag label",
    "priority urgent important",
    "recurring repeat",
    "spreadsheet workbook excel sheet",
    "color format font bold style highlight",
    "choice option dropdown select",
    "text content contents body paragraph",
    "place location address",
    "height elevation high altitude",
    "route direction way drive car",
    "coordinate latitude longitude",
    "reaction emoji thumb",
    "memory remember recall knowledge",
    "link relation connection edge",
    "fact observation note",
    "time date hour clock pm",
    "description describe detail",
    "field type schema mapping",
    "order sort arrange",
    "javascript script code",
    "namespace cluster kubernetes pod",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_of_all_groups_of_a_word() {
        assert_eq!(synonyms("folder"), ["directory", "path"]);
        for (word, other) in [("delet", "remov"), ("record", "row"), ("creat", "writ"), ("creat", "new")] {
            assert!(synonyms(word).iter().any(|found| found == other), "{word}: {:?}", synonyms(word));
        }
        assert!(synonyms("zebra").is_empty());
    }
}
