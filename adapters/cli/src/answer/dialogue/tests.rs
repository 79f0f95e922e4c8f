//! Dialogues with scripted input.

use alloc::collections::VecDeque;

use super::*;

/// A terminal that types given lines and records the output.
#[derive(Default)]
struct ScriptedTerminal {
    lines: VecDeque<String>,
    shown: String,
}

impl Terminal for ScriptedTerminal {
    fn show(&mut self, text: &str) {
        self.shown.push_str(text);
    }

    fn read_line(&mut self) -> Option<String> {
        let line = self.lines.pop_front();
        self.shown.push_str(&line.as_ref().map_or_else(|| "^D\n".into(), |line| format!("{line}\n")));
        line
    }
}

/// Asks a question with scripted input. Returns the answer as JSON or `refused`, and the output.
fn ask_scripted(question: &str, typed: &[&str]) -> (String, String) {
    let request = serde_json::from_str::<InputRequest<'_>>(question).expect("a question").into_owned();
    let lines = typed.iter().copied().map(str::to_owned).collect();
    let mut dialogue = Dialogue::new(ScriptedTerminal { lines, shown: String::new() }, "my-server");
    let answer = match dialogue.ask(Some("who\u{1b}"), &request) {
        DialogueOutcome::Answered(answer) => {
            request.check_response(&answer).expect("an answer that fits");
            serde_json::to_string(&answer).expect("JSON")
        }
        DialogueOutcome::Refused => "refused".into(),
        DialogueOutcome::Failed(why) => format!("failed: {why}"),
        DialogueOutcome::NotAsked => panic!("something for a person"),
    };
    assert!(dialogue.terminal.lines.is_empty(), "not all was read: {}", dialogue.terminal.shown);
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
fn form_is_filled_in_field_by_field() {
    let (answer, shown) = ask_scripted(FORM, &["", "A", "Alice", "minus one", "-1", "", "2", "n", "y"]);
    assert_eq!(answer, r#"{"action":"accept","content":{"age":30,"news":false,"name":"Alice","pier":"s"}}"#);
    let want = "
? my-server asks you (`who\\u001b`)
    | Who are\\u001b[2J you?
    | Tell us.
  An empty line takes the value in [ ], or leaves an optional field out; :none always leaves it out, :back goes back, \
:decline and :cancel end the form.

  1/4  name (text, 2 characters or more; required)
       Your name
       As on the door
  > 
  ✗ `name` must be filled in (attempt 1 of 5)
  > A
  ✗ `name` must have 2 characters or more (attempt 2 of 5)
  > Alice

  2/4  age (a whole number, 0 or more; optional)
  [30] > minus one
  ✗ `age` must be a number (attempt 1 of 5)
  [30] > -1
  ✗ `age` must be 0 or more (attempt 2 of 5)
  [30] > 

  3/4  pier (one of these; optional)
        1  n  North
        2  s  South
  > 2

  4/4  news (y or n; optional)
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

// covers: ELIC-020
#[test]
fn form_filled_in_wrongly_too_often_fails_with_the_field() {
    let (answer, shown) = ask_scripted(FORM, &["Alice", "a", "b", "-1", "1.5", "x"]);
    assert_eq!(answer, "failed: the form was filled in wrongly 5 times: `age` must be a number");
    assert!(shown.contains("`age` must be 0 or more (attempt 3 of 5)"), "{shown}");
    // Each field has its own attempts, and the end of the input is a cancellation, not an attempt.
    let (answer, _) =
        ask_scripted(FORM, &["A", "A", "A", "A", "Alice", "a", "a", "a", "a", "7", "", "", "y"]);
    assert_eq!(answer, r#"{"action":"accept","content":{"age":7,"news":true,"name":"Alice"}}"#);
    assert_eq!(ask_scripted(FORM, &["A", "A", "A", "A"]).0, r#"{"action":"cancel"}"#);
    // A default that does not fit its own form is refused like a typed value.
    let odd = FORM.replace("\"default\":30", "\"default\":-7");
    let (answer, shown) = ask_scripted(&odd, &["Alice", "", "", "", "", ""]);
    assert_eq!(answer, "failed: the form was filled in wrongly 5 times: `age` must be 0 or more");
    assert!(shown.contains("[-7] > "), "{shown}");
}

#[test]
fn form_can_be_changed_before_it_is_sent() {
    // Goes back once in the middle and once from the end; earlier input is kept as the default.
    let (answer, shown) = ask_scripted(
        FORM,
        &["Alice", ":back", "Bob", ":none", "", "", "what", "e", "", "7", "", ":none", "y"],
    );
    assert_eq!(answer, r#"{"action":"accept","content":{"name":"Bob","age":7}}"#);
    assert!(shown.contains("    age: (left out)\n") && shown.contains("  [Bob] > "), "{shown}");
}

// covers: ELIC-018, ELIC-024
#[test]
fn form_can_be_declined_or_cancelled_at_any_time() {
    let (decline, cancel) = (r#"{"action":"decline"}"#, r#"{"action":"cancel"}"#);
    for (typed, want) in [
        (&[":decline"][..], decline),
        (&["Alice", "1", ":cancel"], cancel),
        (&["Alice"], cancel),
        (&["Alice", "", "", "", "d"], decline),
        (&["Alice", "", "", "", "c"], cancel),
        (&["Alice", "", "", "", ":decline"], decline),
    ] {
        assert_eq!(ask_scripted(FORM, typed).0, want, "{typed:?}");
    }
}

#[test]
fn form_without_fields_asks_only_for_confirmation() {
    let form = r#"{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}"#;
    assert_eq!(ask_scripted(form, &["y"]).0, r#"{"action":"accept","content":{}}"#);
}

// covers: ELIC-024, ELIC-034, ELIC-039, ELIC-040, ELIC-041
#[test]
fn url_is_shown_and_not_opened() {
    let page = |url: &str| {
        format!(
            r#"{{"method":"elicitation/create","params":{{"mode":"url","message":"Sign in","url":"{url}"}}}}"#
        )
    };
    let (answer, shown) = ask_scripted(&page("https://bank.example@evil.example/x?y=1#z"), &["perhaps", "y"]);
    assert_eq!(answer, r#"{"action":"accept"}"#);
    let want = "
? my-server wants you to visit a web page (`who\\u001b`)
    | Sign in

  host: evil.example
  page: https://bank.example@evil.example/x?y=1#z
  warning: the text before the @ is not part of the host
  Nothing is opened automatically. If you agree, open it yourself.
  Agree? [y]es, [d]ecline, [c]ancel: perhaps
  Agree? [y]es, [d]ecline, [c]ancel: y
";
    assert_eq!(shown, want);
    for (typed, want) in [("d", "decline"), (":decline", "decline"), ("c", "cancel"), (":cancel", "cancel")] {
        assert_eq!(ask_scripted(&page("https://a.example"), &[typed]).0, format!(r#"{{"action":"{want}"}}"#));
    }
    assert_eq!(ask_scripted(&page("https://a.example"), &[]).0, r#"{"action":"cancel"}"#);
}

// covers: SAMP-005, SAMP-015, SAMP-021
#[test]
fn sampling_request_is_answered_by_the_user() {
    let question = r#"{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","maxTokens":100,"messages":[
        {"role":"user","content":{"type":"text","text":"What is the capital of France?\u202e"}},
        {"role":"user","content":{"type":"image","mimeType":"image/png","data":"AAAA"}}]}}"#;
    let (answer, shown) = ask_scripted(question, &["Pari", ".", "e", "Paris,", "of course", ".", "y"]);
    let message = r#"{"role":"assistant","content":{"type":"text","text":"Paris,\nof course"},"model":"mcp-probe","stopReason":"endTurn"}"#;
    assert_eq!(answer, message);
    let want = "
? my-server asks your model, whose place you take (`who\\u001b`)
    | Be brief.
  user:
    | What is the capital of France?\\u202e
  user:
    | {\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}
  At most 100 tokens. End the answer with a line that is a single dot; :decline refuses.
  > Pari
  > .

  To be sent:
    | Pari
  Send it? [y]es, [e]dit, [d]ecline: e
";
    assert!(shown.starts_with(want), "{shown}");
    for typed in [&[":decline"][..], &["x", ":cancel"], &["x", ".", "d"], &["x"]] {
        assert_eq!(ask_scripted(question, typed).0, "refused", "{typed:?}");
    }
}
