//! Quality of the ranking: questions of users over the tools of 20 published servers.
//!
//! `servers.json` has what the servers list, with their packages and licences. `questions.tsv` has a question and the one right tool a
//! line; they were written before any was asked. Weights and synonyms were chosen by `tuning.tsv` alone.

use mcp_proto::RawJson;
use serde_json::Value;

use crate::search::{Document, rank, words};

const SERVERS: &str = include_str!("search/servers.json");
const QUESTIONS: &str = include_str!("search/questions.tsv");
const TUNING: &str = include_str!("search/tuning.tsv");

/// Returns all tools, by the names that clients of a gateway know.
fn tools() -> Vec<(String, Document)> {
    let servers: Vec<Value> = serde_json::from_str(SERVERS).expect("JSON");
    assert_eq!(servers.len(), 20);
    let tools = servers.iter().flat_map(|server| {
        let tools = server["tools"].as_array().expect("a list").iter();
        tools.map(|tool| {
            let name = tool["name"].as_str().expect("a name");
            let shown = format!("{}_{name}", server["server"].as_str().expect("a name"));
            let document = Document::new(&shown, name, &RawJson::new(tool.to_string()).expect("JSON"));
            (shown, document)
        })
    });
    tools.collect()
}

fn questions(text: &str) -> Vec<(&str, &str)> {
    text.lines().map(|line| line.split_once('\t').expect("a question and a tool")).collect()
}

/// Returns whether a question has not all words of the name of its tool, in any form, without the server.
fn lacks_name((question, tool): &(&str, &str)) -> bool {
    let question = words(question);
    let name = tool.split_once('_').expect("a server").1;
    !words(name).iter().all(|word| question.contains(word))
}

/// Returns how many right tools are first, how many among the first five, and how many of these of questions that lack the name.
fn measure(name: &str, text: &str) -> [usize; 3] {
    let tools = tools();
    let tools: Vec<(&str, &Document)> = tools.iter().map(|(name, document)| (&**name, document)).collect();
    let questions = questions(text);
    let (mut first, mut five, mut lacking) = (0, 0, 0);
    for (question, right) in &questions {
        assert!(tools.iter().any(|(name, _)| name == right), "{right} is a tool");
        let found: Vec<&str> = rank(question, &tools, 5).into_iter().map(|at| tools[at].0).collect();
        first += usize::from(found.first() == Some(right));
        five += usize::from(found.contains(right));
        lacking += usize::from(found.contains(right) && lacks_name(&(question, right)));
        // Those of the questions stay unseen: a rule that is made for them would make their figure worthless.
        if name == "tuning" && !found.contains(right) {
            println!("{name}: {question:?} finds {found:?}, not {right}");
        }
    }
    println!(
        "{name}: of {} questions over {} tools {first} first, {five} among five; of {} that lack the name {lacking}",
        questions.len(),
        tools.len(),
        questions.iter().filter(|question| lacks_name(question)).count()
    );
    [first, five, lacking]
}

#[test]
fn right_tool_is_among_the_first_five() {
    let [first, five, lacking] = measure("questions", QUESTIONS);
    assert!(five >= 180, "{five} of 200");
    assert!(first >= 150, "{first} of 200");
    assert!(lacking >= 117, "{lacking} of 130");
}

#[test]
fn rules_fit_the_questions_they_were_chosen_by() {
    let [_, five, _] = measure("tuning", TUNING);
    assert!(five >= 234, "{five} of 260");
}

#[test]
fn questions_are_200_and_half_lack_the_name_of_the_tool() {
    let (asked, tuning) = (questions(QUESTIONS), questions(TUNING));
    assert_eq!((asked.len(), tuning.len()), (200, 260));
    assert_eq!(asked.iter().filter(|question| lacks_name(question)).count(), 130);
    assert!(asked.iter().all(|(question, _)| tuning.iter().all(|(other, _)| question != other)));
}
