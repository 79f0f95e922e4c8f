//! Dialogues with somebody whose lines are known beforehand

use alloc::collections::VecDeque;

use super::*;

/// Types these lines, and keeps what is shown
#[derive(Default)]
struct Script {
    lines: VecDeque<String>,
    shown: String,
}

impl Terminal for Script {
    fn show(&mut self, text: &str) {
        self.shown.push_str(text);
    }

    fn line(&mut self) -> Option<String> {
        let line = self.lines.pop_front();
        self.shown.push_str(&line.as_ref().map_or_else(|| "^D\n".into(), |line| format!("{line}\n")));
        line
    }
}

/// What comes of a question when these lines are typed: the answer as JSON or `refused`, and what was shown
fn asked(question: &str, typed: &[&str]) -> (String, String) {
    let request = serde_json::from_str::<InputRequest<'_>>(question).expect("a question").into_owned();
    let lines = typed.iter().copied().map(str::to_owned).collect();
    let mut dialogue = Dialogue::new(Script { lines, shown: String::new() }, "my-server");
    let answer = dialogue.ask(Some("who\u{1b}"), &request).expect("something for a person");
    if let Some(answer) = &answer {
        request.check(answer).expect("an answer that fits");
    }
    assert!(dialogue.terminal.lines.is_empty(), "not all was read: {}", dialogue.terminal.shown);
    let answer =
        answer.map_or_else(|| "refused".into(), |answer| serde_json::to_string(&answer).expect("JSON"));
    (answer, dialogue.terminal.shown)
}

const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"Who are\u001b[2J you?\nTell us.","requestedSchema":{
    "type":"object","properties":{
        "name":{"type":"string","title":"Your name","description":"As on the door","minLength":2},
        "age":{"type":"integer","minimum":0,"default":30},
        "pier":{"type":"string","oneOf":[{"const":"n","title":"North"},{"const":"s","title":"South"}]},
        "news":{"type":"boolean","default":true}
    },"required":["name"]}}}"#;

// covers: ELIC-017, ELIC-018, ELIC-020, ELIC-024
#[test]
fn a_form_is_filled_in_field_by_field() {
    let (answer, shown) = asked(FORM, &["", "A", "Alice", "minus one", "-1", "", "2", "n", "y"]);
    assert_eq!(answer, r#"{"action":"accept","content":{"age":30,"news":false,"name":"Alice","pier":"s"}}"#);
    let want = "
? my-server asks you (`who\\u001b`)
    | Who are\\u001b[2J you?
    | Tell us.
  An empty line takes what stands in [ ], or leaves out what need not be there; :none leaves it out in any case, \
:back goes back, :decline and :cancel end it.

  1/4  name (text, 2 characters or more; needed)
       Your name
       As on the door
  > 
  ✗ must be filled in
  > A
  ✗ must have 2 characters or more
  > Alice

  2/4  age (a whole number, 0 or more; may be left out)
  [30] > minus one
  ✗ must be a number
  [30] > -1
  ✗ must be 0 or more
  [30] > 

  3/4  pier (one of these; may be left out)
        1  n  North
        2  s  South
  > 2

  4/4  news (y or n; may be left out)
  [y] > n

  To be sent:
    name: Alice
    age: 30
    pier: s
    news: n
  Send it? [y]es, [e]dit, [d]ecline, [c]ancel: y
";
    assert_eq!(shown, want);
}

#[test]
fn a_form_can_be_changed_before_it_is_sent() {
    // Back in the middle, and once more from the beginning; what was typed stands there.
    let (answer, shown) =
        asked(FORM, &["Alice", ":back", "Bob", ":none", "", "", "what", "e", "", "7", "", ":none", "y"]);
    assert_eq!(answer, r#"{"action":"accept","content":{"name":"Bob","age":7}}"#);
    assert!(shown.contains("    age: (left out)\n") && shown.contains("  [Bob] > "), "{shown}");
}

// covers: ELIC-018, ELIC-024
#[test]
fn a_form_can_be_left_at_any_time() {
    let (decline, cancel) = (r#"{"action":"decline"}"#, r#"{"action":"cancel"}"#);
    for (typed, want) in [
        (&[":decline"][..], decline),
        (&["Alice", "1", ":cancel"], cancel),
        (&["Alice"], cancel),
        (&["Alice", "", "", "", "d"], decline),
        (&["Alice", "", "", "", "c"], cancel),
        (&["Alice", "", "", "", ":decline"], decline),
    ] {
        assert_eq!(asked(FORM, typed).0, want, "{typed:?}");
    }
}

#[test]
fn a_form_without_fields_is_a_question_of_yes_or_no() {
    let form = r#"{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}"#;
    assert_eq!(asked(form, &["y"]).0, r#"{"action":"accept","content":{}}"#);
}

// covers: ELIC-024, ELIC-034, ELIC-039, ELIC-040, ELIC-041
#[test]
fn a_page_is_shown_and_not_opened() {
    let page = |url: &str| {
        format!(
            r#"{{"method":"elicitation/create","params":{{"mode":"url","message":"Sign in","url":"{url}"}}}}"#
        )
    };
    let (answer, shown) = asked(&page("https://bank.example@evil.example/x?y=1#z"), &["perhaps", "y"]);
    assert_eq!(answer, r#"{"action":"accept"}"#);
    let want = "
? my-server wants you to visit a web page (`who\\u001b`)
    | Sign in

  host: evil.example
  page: https://bank.example@evil.example/x?y=1#z
  beware: what stands before the @ is no part of the host
  Nothing is opened by itself. If you agree, open it yourself.
  Agree? [y]es, [d]ecline, [c]ancel: perhaps
  Agree? [y]es, [d]ecline, [c]ancel: y
";
    assert_eq!(shown, want);
    for (typed, want) in [("d", "decline"), (":decline", "decline"), ("c", "cancel"), (":cancel", "cancel")] {
        assert_eq!(asked(&page("https://a.example"), &[typed]).0, format!(r#"{{"action":"{want}"}}"#));
    }
    assert_eq!(asked(&page("https://a.example"), &[]).0, r#"{"action":"cancel"}"#);
}

// covers: SAMP-005, SAMP-015, SAMP-021
#[test]
fn a_person_takes_the_place_of_the_model() {
    let question = r#"{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","maxTokens":100,"messages":[
        {"role":"user","content":{"type":"text","text":"What is the capital of France?\u202e"}},
        {"role":"user","content":{"type":"image","mimeType":"image/png","data":"AAAA"}}]}}"#;
    let (answer, shown) = asked(question, &["Pari", ".", "e", "Paris,", "of course", ".", "y"]);
    let message = r#"{"role":"assistant","content":{"type":"text","text":"Paris,\nof course"},"model":"mcp-probe","stopReason":"endTurn"}"#;
    assert_eq!(answer, message);
    let want = "
? my-server asks your model, which you are now (`who\\u001b`)
    | Be brief.
  user:
    | What is the capital of France?\\u202e
  user:
    | {\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}
  At most 100 tokens. The answer ends with a line that is a dot; :decline refuses.
  > Pari
  > .

  To be sent:
    | Pari
  Send it? [y]es, [e]dit, [d]ecline: e
";
    assert!(shown.starts_with(want), "{shown}");
    for typed in [&[":decline"][..], &["x", ":cancel"], &["x", ".", "d"], &["x"]] {
        assert_eq!(asked(question, typed).0, "refused", "{typed:?}");
    }
}
