//! The words of names, descriptions and queries, in the form in which they are compared.

/// Returns the words of a text, in order, in lower case and without endings and stop words. Only its first [`MAX_TEXT`] bytes count.
///
/// Words are runs of letters and digits. They end where an upper-case letter follows a lower-case letter or a digit, and before the
/// last of several upper-case letters that a lower-case one follows (`readHTMLPage` has three). An ideograph, a kana or a syllable of
/// Hangul is a word, as these are written without spaces.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = plain_words(text);
    words.retain(|word| STOP_WORDS.binary_search(&&**word).is_err());
    words.into_iter().map(stem).collect()
}

/// As [`words`], but with endings and stop words.
pub(crate) fn plain_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = None;
    let mut characters = clip(text, MAX_TEXT).chars().peekable();
    while let Some(c) = characters.next() {
        let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        let begins = match before {
            _ if !c.is_alphanumeric() || is_word_alone(c) => true,
            Some(before) if is_word_alone(before) => true,
            Some(before) => c.is_uppercase() && (!before.is_uppercase() || next_is_lower),
            None => true,
        };
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        before = Some(c).filter(|c| c.is_alphanumeric());
        if let (Some(c), Some(word)) = (before, words.last_mut()) {
            if word.len() < MAX_WORD {
                word.extend(c.to_lowercase());
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the beginning of a text with at most `bytes` bytes.
pub(crate) fn clip(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

fn is_word_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Removes the ending of an English word, so that forms of one word are equal. The rest need not be a word.
///
/// 1. `-ies`, `-ied` and `-ie` become `-y`; `-es` goes after `ss`, `x`, `z`, `ch` and `sh`; otherwise `-s` goes, unless after `s`, `u` or `i`.
/// 2. `-ion` goes after `s` or `t` if 5 letters stay (`deletion`); `-ing` and `-ed` go if 3 letters with a vowel stay, and a
///    doubled consonant before them becomes one, but `l`, `s` and `z` stay (`stopped`, `pulling`).
/// 3. A final `-e` goes if 3 letters stay (`create`, `creating`).
///
/// Words with less than 4 letters, and those with others than ASCII letters, stay as they are.
fn stem(mut word: String) -> String {
    if word.len() < 4 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word;
    }
    let cut = |word: &mut String, ending: &str| word.truncate(word.len() - ending.len());
    if let Some(rest) = word.strip_suffix("ies").or_else(|| word.strip_suffix("ied")) {
        word = format!("{rest}y");
    } else if ["sses", "xes", "zes", "ches", "shes"].iter().any(|ending| word.ends_with(ending)) {
        cut(&mut word, "es");
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        cut(&mut word, "s");
    }
    if (word.ends_with("sion") || word.ends_with("tion")) && word.len() >= 8 {
        cut(&mut word, "ion");
    }
    for ending in ["ing", "ed"] {
        let Some(rest) = word.strip_suffix(ending) else { continue };
        if rest.len() >= 3 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']) {
            let mut last = rest.chars().rev();
            let doubled = last.next().filter(|c| last.next() == Some(*c));
            let is_doubled = doubled.is_some_and(|c| !"aeiouylsz".contains(c));
            word.truncate(rest.len() - usize::from(is_doubled));
            break;
        }
    }
    if word.ends_with("ie") && word.len() > 3 {
        cut(&mut word, "ie");
        word.push('y');
    }
    if word.ends_with('e') && word.len() > 3 {
        cut(&mut word, "e");
    }
    word
}

/// Returns the words of the same meaning as a word, as [`words`] gives them, without itself.
///
/// People use others than tools do. The groups have general words of what is done, and of what it is done to; names of products are none.
pub(crate) fn synonyms(word: &str) -> Vec<String> {
    let groups = include_str!("synonyms.txt").lines().map(words);
    let groups = groups.filter(|group| group.iter().any(|other| *other == word));
    let mut others: Vec<String> = groups.flatten().filter(|other| *other != word).collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// Bytes of one text that are read.
pub(crate) const MAX_TEXT: usize = 4_096;
/// Bytes of a word that are compared, up to one character more.
const MAX_WORD: usize = 32;

/// Words that say nothing about a tool, in order.
const STOP_WORDS: [&str; 60] = [
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "its", "me", "my", "need", "of", "on", "or", "our", "out", "please", "s", "so", "some", "t", "that",
    "the", "their", "them", "there", "these", "this", "to", "was", "we", "what", "which", "with", "would",
    "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_changes_of_case_and_other_characters() {
        for (text, expected) in [
            ("create_pull-request.v2/now", "create pull request v2 now"),
            ("readHTMLPage getURL ec2Instances k8s", "read html page get url ec2 instances k8s"),
            ("Größe ÉTAT naïve", "größe état naïve"),
            ("查询12306车票", "查 询 12306 车 票"),
            ("  \u{0}\u{1b}[31m\u{202e}..__--", "31m"),
            ("", ""),
        ] {
            assert_eq!(plain_words(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn forms_of_a_word_are_equal() {
        for forms in [
            &["file", "files"][..],
            &["query", "queries", "querying", "queried"],
            &["branch", "branches"],
            &["cache", "caches", "cached", "caching"],
            &["create", "creates", "created", "creating", "creation"],
            &["delete", "deleted", "deletion"],
            &["stop", "stopped", "stopping"],
            &["pull", "pulling", "pulled"],
            &["movie", "movies"],
            &["process", "processes", "processing"],
            &["box", "boxes"],
            &["database", "databases"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem((*form).to_owned())).collect();
            assert!(stems.iter().all(|other| *other == stems[0]), "{forms:?}: {stems:?}");
        }
        for word in ["status", "access", "analysis", "string", "red", "bed", "größen", "v2s"] {
            assert_eq!(stem(word.to_owned()), word);
        }
        assert_ne!(stem("station".to_owned()), stem("state".to_owned()));
    }

    #[test]
    fn stop_words_are_in_order_and_left_out() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(words("Which of the files are in my folder?"), ["fil", "folder"]);
    }

    #[test]
    fn text_and_words_are_bounded() {
        let text = format!("{} end", "é".repeat(MAX_TEXT));
        let found = plain_words(&text);
        assert_eq!(found.len(), 1);
        assert!(found[0].len() <= MAX_WORD + 2, "{}", found[0].len());
        assert_eq!(clip("aé", 2), "a");
    }

    #[test]
    fn synonyms_are_of_all_groups_of_a_word() {
        assert_eq!(synonyms("folder"), ["directory", "path"]);
        for (word, other) in [("delet", "remov"), ("record", "row"), ("creat", "writ"), ("creat", "new")] {
            assert!(synonyms(word).iter().any(|found| found == other), "{word}: {:?}", synonyms(word));
        }
        assert!(synonyms("zebra").is_empty());
    }
}
