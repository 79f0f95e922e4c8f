//! A trace is played against a program that runs: as the client that was recorded, or as the server.

use alloc::collections::VecDeque;

use mcp_proto::{Instant, RawJson};

use crate::compare::Replayed;
use crate::compare::comparison::Comparison;
use crate::compare::steps::{Action, Step, Steps};
use crate::message::Message;
use crate::record::{Content, Side};
use crate::trace::Trace;

/// Plays one side of a trace, line by line and in the recorded order, and compares what the other side says.
///
/// It performs no I/O and has no clock. Before each line it waits for all that the other side had said by then. Ids, progress
/// tokens and states that the other side allots itself are translated.
#[derive(Debug)]
pub struct Playback<'t> {
    comparison: Comparison<'t>,
    steps: Steps,
    next: VecDeque<Step>,
    /// Bytes of a line of this side whose reads are not complete.
    line: Option<usize>,
}

impl<'t> Playback<'t> {
    /// Plays `side` of a trace.
    #[must_use]
    pub fn new(trace: &'t Trace, side: Side) -> Self {
        let mut steps = Steps::new(trace, side.other());
        let next = core::mem::take(&mut steps.steps).into();
        Self { comparison: Comparison::new(trace), steps, next, line: None }
    }

    /// Returns the next bytes to send, if it is this side's turn.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.awaited().is_some() {
                return None;
            }
            match self.next.pop_front()?.action {
                Action::Read(pieces) => {
                    let mut bytes = Vec::new();
                    // A whole line at once: its parts would only wait for each other.
                    for piece in pieces {
                        if self.line.replace(piece.line) == Some(piece.line) {
                            continue;
                        }
                        let Some(line) = self.steps.lines.get(piece.line) else { continue };
                        bytes.extend_from_slice(&self.comparison.translate(&line.text, &mut |_| {}));
                        bytes.push(b'\n');
                    }
                    if !bytes.is_empty() {
                        return Some(bytes);
                    }
                }
                Action::InputEnds => {}
                Action::Expect { record, text } => self.expect(record, &text),
            }
        }
    }

    /// Takes a line of the other side, without its newline.
    pub fn handle_line(&mut self, line: &[u8]) {
        self.comparison.say(Instant::ZERO, line.to_vec());
        self.comparison.settle_awaited(Instant::ZERO);
    }

    /// Returns the index of the first record that the other side has yet to say before this side goes on.
    #[must_use]
    pub fn awaited(&self) -> Option<usize> {
        self.comparison.awaited().next()
    }

    /// Waits no longer for what is [awaited](Self::awaited): each message of it is a difference.
    pub fn give_up(&mut self) {
        self.comparison.give_up(Instant::ZERO);
    }

    /// Returns whether all was said on both sides.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next.is_empty() && self.awaited().is_none()
    }

    /// Returns what was found. What the other side has said besides is a difference, too.
    #[must_use]
    pub fn finish(mut self) -> Replayed {
        self.comparison.report_extra();
        self.comparison.outcome
    }

    fn expect(&mut self, record: usize, text: &[u8]) {
        // A line that was no message is not expected again.
        let Some(message) = Message::parse(text) else { return };
        if !self.comparison.settle(Instant::ZERO, record, &message) {
            self.comparison.await_message(record, message);
        }
    }
}

/// A server made of a trace: it answers each request as the recorded server has answered one with the same method and parameters.
///
/// The order does not matter, and a request may come any number of times: when there were several responses, they come in their order,
/// and then the last one again. Notifications that the recorded server has sent between the request and its response come
/// before the response. The members of a batch are answered one by one. What the protocol adds to parameters (`_meta`) does not count, and the parameters of `initialize` and
/// `server/discover` do not either.
#[derive(Debug)]
pub struct RecordedServer {
    exchanges: Vec<Exchange>,
}

#[derive(Debug)]
struct Exchange {
    method: String,
    /// Parameters without `_meta`, in canonical form.
    params: String,
    id: RawJson,
    token: Option<RawJson>,
    /// Notifications, then the response.
    answers: Vec<Message>,
    uses: usize,
}

impl RecordedServer {
    /// Takes the exchanges of a trace.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for record in &trace.records {
            let Content::Line(line) = &record.content else { continue };
            let Some(message) = line.text.to_bytes().and_then(|text| Message::parse(&text)) else { continue };
            match (record.from, &message.id, &message.method) {
                (Side::Client, Some(id), Some(method)) => {
                    open.push(exchanges.len());
                    exchanges.push(Exchange {
                        method: method.clone(),
                        params: canonical_params(&message),
                        id: id.clone(),
                        token: token(&message),
                        answers: Vec::new(),
                        uses: 0,
                    });
                }
                (Side::Server, Some(id), None) => {
                    let position = open
                        .iter()
                        .position(|index| exchanges.get(*index).is_some_and(|open| open.id == *id));
                    if let Some(index) = position.map(|position| open.remove(position)) {
                        exchanges
                            .get_mut(index)
                            .into_iter()
                            .for_each(|exchange| exchange.answers.push(message.clone()));
                    }
                }
                // To the youngest call, unless it names another one.
                (Side::Server, None, Some(_)) => {
                    let named = message.param("progressToken");
                    let is_named = |index: &&usize| {
                        exchanges.get(**index).is_some_and(|open| named.is_none() || open.token == named)
                    };
                    let index = open.iter().rev().find(is_named).copied();
                    if let Some(exchange) = index.and_then(|index| exchanges.get_mut(index)) {
                        exchange.answers.push(message.clone());
                    }
                }
                _ => {}
            }
        }
        // A request that was not answered has nothing to play.
        exchanges.retain(|exchange| exchange.answers.last().is_some_and(Message::is_response));
        Self { exchanges }
    }

    /// Takes a line of the client, and returns the lines that answer it.
    pub fn handle_line(&mut self, line: &[u8]) -> Vec<String> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        let Some(message) = Message::parse(line) else {
            return vec![
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#.into(),
            ];
        };
        if let Some(members) = message.json.elements() {
            return members.iter().flat_map(|member| self.handle_line(member.as_bytes())).collect();
        }
        let (Some(id), Some(method)) = (&message.id, &message.method) else { return Vec::new() };
        let params = canonical_params(&message);
        let is_handshake = matches!(method.as_str(), "initialize" | "server/discover");
        let same = |exchange: &&mut Exchange| {
            exchange.method == *method && (is_handshake || exchange.params == params)
        };
        // One that was not used yet, else the last one.
        let fresh = self.exchanges.iter_mut().find(|exchange| exchange.uses == 0 && same(exchange));
        let chosen = match fresh {
            Some(exchange) => Some(exchange),
            None => self.exchanges.iter_mut().rev().find(same),
        };
        let Some(exchange) = chosen else {
            if method == "ping" {
                return vec![format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)];
            }
            let knows = self.exchanges.iter().any(|exchange| exchange.method == *method);
            let (code, text) = match knows {
                true => (-32602, format!("the trace has no `{method}` with these parameters")),
                false => (-32601, format!("the trace has no `{method}`")),
            };
            let text = RawJson::encode(&text).unwrap_or_else(|_| RawJson::empty_object());
            return vec![format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}}}}}"#
            )];
        };
        exchange.uses += 1;
        let asked = token(&message);
        let answers = exchange.answers.iter().filter_map(|answer| readdress(answer, id, asked.as_ref()));
        answers.collect()
    }
}

fn token(message: &Message) -> Option<RawJson> {
    message.param("_meta")?.member("progressToken")
}

fn canonical_params(message: &Message) -> String {
    let params = message.params.as_ref().and_then(|params| params.retain_members(|name| name != "_meta"));
    params.and_then(|params| params.to_canonical().ok()).unwrap_or_else(|| "{}".into())
}

/// Returns an answer for another request: with its id, and its progress token. Progress that was not asked for is left out.
fn readdress(answer: &Message, id: &RawJson, token: Option<&RawJson>) -> Option<String> {
    use mcp_proto::MemberEdit;
    if answer.is_response() {
        let edited = answer.json.edit_members(|name, _| match name {
            "id" => MemberEdit::Replace(id.clone()),
            _ => MemberEdit::Keep,
        });
        return edited.map(|json| json.as_str().to_owned());
    }
    if answer.method.as_deref() != Some("notifications/progress") {
        return Some(answer.json.as_str().to_owned());
    }
    let token = token?;
    let params = answer.params.as_ref()?.edit_members(|name, _| match name {
        "progressToken" => MemberEdit::Replace(token.clone()),
        _ => MemberEdit::Keep,
    })?;
    let edited = answer.json.edit_members(|name, _| match name {
        "params" => MemberEdit::Replace(params.clone()),
        _ => MemberEdit::Keep,
    });
    edited.map(|json| json.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Header, Line, Record, Text};

    fn trace(lines: &[(Side, &str)]) -> Trace {
        let records = lines.iter().enumerate().map(|(index, (from, text))| {
            Record::new(index as u64, *from, Content::Line(Line::new(Text::new(text.as_bytes()))))
        });
        Trace::new(Header::new("test 1", 0), records.collect())
    }

    const SESSION: [(Side, &str); 6] = [
        (
            Side::Client,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}"#,
        ),
        (
            Side::Server,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        ),
        (Side::Server, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}"#),
        (Side::Server, r#"{"jsonrpc":"2.0","id":1,"result":{"n":1}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#),
    ];

    fn sent(playback: &mut Playback<'_>) -> Vec<String> {
        let lines = core::iter::from_fn(|| playback.poll_output());
        lines.map(|bytes| String::from_utf8(bytes).expect("UTF-8").trim_end().to_owned()).collect()
    }

    #[test]
    fn a_client_is_played_against_a_server_that_allots_other_ids() {
        let trace = trace(&SESSION);
        let mut playback = Playback::new(&trace, Side::Client);
        assert_eq!(sent(&mut playback), [SESSION[0].1]);
        assert_eq!(playback.awaited(), Some(1));
        playback.handle_line(SESSION[1].1.as_bytes());
        assert_eq!(sent(&mut playback), [""; 0]);
        // Its own id, and members in another order.
        playback.handle_line(br#"{"method":"roots/list","id":77,"jsonrpc":"2.0"}"#);
        assert_eq!(sent(&mut playback), [SESSION[3].1.replace("\"q\"", "77")]);
        playback.handle_line(br#"{"jsonrpc":"2.0","id":1,"result":{"n":2}}"#);
        assert_eq!(sent(&mut playback), [SESSION[5].1]);
        assert!(playback.is_done());
        let outcome = playback.finish();
        assert_eq!((outcome.identical, outcome.equal, outcome.differences.len()), (1, 1, 1));
        assert_eq!(outcome.differences[0].reason, "`/result/n`: recorded 1, replayed 2");
    }

    #[test]
    fn what_does_not_come_is_a_difference_and_so_is_what_was_not_recorded() {
        let trace = trace(&SESSION);
        let mut playback = Playback::new(&trace, Side::Client);
        let _ = sent(&mut playback);
        playback.handle_line(br#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
        playback.give_up();
        assert_eq!(sent(&mut playback).len(), 0, "the request for roots is awaited");
        playback.give_up();
        assert_eq!(sent(&mut playback).len(), 1);
        let outcome = playback.finish();
        let reasons: Vec<_> = outcome.differences.iter().map(|difference| difference.record).collect();
        assert_eq!(reasons, [Some(1), Some(2), None]);
    }

    #[test]
    fn a_recorded_server_answers_by_method_and_parameters_in_any_order() {
        let call = |id: u32, name: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#)
        };
        let (first, second, third) = (call(1, "a"), call(2, "b"), call(3, "a"));
        let trace = trace(&[
            (Side::Client, &first),
            (Side::Server, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#),
            (Side::Server, r#"{"jsonrpc":"2.0","id":1,"result":{"n":1}}"#),
            (Side::Client, &second),
            (Side::Server, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1}}"#),
            (Side::Client, &third),
            (Side::Server, r#"{"jsonrpc":"2.0","id":3,"result":{"n":3}}"#),
        ]);
        let mut server = RecordedServer::new(&trace);
        let mut answer = |id, name: &str| server.handle_line(call(id, name).as_bytes());
        assert_eq!(answer(9, "b"), [r#"{"jsonrpc":"2.0","id":9,"error":{"code":-1}}"#]);
        assert_eq!(answer(8, "a").len(), 2);
        for id in [7, 6] {
            assert_eq!(answer(id, "a"), [format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":3}}}}"#)]);
        }
        assert!(answer(5, "c")[0].contains("no `tools/call` with these parameters"));
        assert!(server.handle_line(br#"{"id":4,"method":"x"}"#)[0].contains("-32601"));
        assert!(server.handle_line(br#"{"id":4,"method":"ping"}"#)[0].contains(r#""result":{}"#));
        assert!(server.handle_line(br#"{"method":"notifications/x"}"#).is_empty());
        assert!(server.handle_line(b"\r").is_empty());
        assert_eq!(server.handle_line(br#"[{"id":1,"method":"ping"},{"id":2,"method":"ping"}]"#).len(), 2);
        assert!(server.handle_line(b"nonsense")[0].contains("-32700"));
    }

    #[test]
    fn progress_goes_to_the_token_of_the_request_that_asks() {
        let trace = trace(&[SESSION[0], SESSION[1], SESSION[4]]);
        let mut server = RecordedServer::new(&trace);
        let asked = SESSION[0].1.replace("\"progressToken\":1", "\"progressToken\":\"t\"");
        assert!(server.handle_line(asked.as_bytes())[0].contains(r#""progressToken":"t""#));
        let silent = br#"{"id":3,"method":"tools/call","params":{"name":"a"}}"#;
        assert_eq!(server.handle_line(silent), [r#"{"jsonrpc":"2.0","id":3,"result":{"n":1}}"#]);
    }
}
