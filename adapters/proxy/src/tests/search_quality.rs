//! Quality of the ranking: questions of users over the tools of 20 published servers.
//!
//! `servers.json` has what the servers list, with their packages and licences. `questions.tsv` has a question and the one right tool a
//! line. Weights and rules were chosen by `tuning.tsv` alone.

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

/// Returns how many right tools are first, and how many among the first five.
fn measure(name: &str, text: &str) -> (usize, usize) {
    let tools = tools();
    let tools: Vec<(&str, &Document)> = tools.iter().map(|(name, document)| (&**name, document)).collect();
    let questions = questions(text);
    let (mut first, mut five) = (0, 0);
    for (question, right) in &questions {
        assert!(tools.iter().any(|(name, _)| name == right), "{right} is a tool");
        let found: Vec<&str> = rank(question, &tools, 5).into_iter().map(|at| tools[at].0).collect();
        first += usize::from(found.first() == Some(right));
        five += usize::from(found.contains(right));
        // Those of the questions stay unseen: a rule that is made for them would make their figure worthless.
        if name == "tuning" && !found.contains(right) {
            println!("{name}: {question:?} finds {found:?}, not {right}");
        }
    }
    println!(
        "{name}: of {} questions over {} tools {first} first, {five} among five",
        questions.len(),
        tools.len()
    );
    (first, five)
}

#[test]
fn right_tool_is_among_the_first_five() {
    let (first, five) = measure("questions", QUESTIONS);
    assert!(five >= 180, "{five} of 200");
    assert!(first >= 100, "{first} of 200");
}

#[test]
fn rules_fit_the_questions_they_were_chosen_by() {
    let (_, five) = measure("tuning", TUNING);
    assert!(five >= 54, "{five} of 60");
}

#[test]
fn questions_are_200_and_half_lack_the_name_of_the_tool() {
    let (asked, tuning) = (questions(QUESTIONS), questions(TUNING));
    assert_eq!((asked.len(), tuning.len()), (200, 260));
    // In any form of its words, without its server.
    let lacks = |(question, tool): &&(&str, &str)| {
        let question = words(question);
        let name = tool.split_once('_').expect("a server").1;
        !words(name).iter().all(|word| question.contains(word))
    };
    let lacking = asked.iter().filter(lacks).count();
    println!("{lacking} questions lack the name");
    assert!(lacking >= 100, "{lacking}");
    assert!(asked.iter().all(|(question, _)| tuning.iter().all(|(other, _)| question != other)));
}
