//! Tests of the table of transitions: each role, state and trigger. They write `docs/h1-states.md`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::table::{
    CLIENT, CLIENT_RECEIVES, CLIENT_RECV_IGNORES, CLIENT_SEND_IGNORES, CLIENT_SENDS, RecvState, Refusal,
    Rule, SERVER, SERVER_RECEIVES, SERVER_RECV_IGNORES, SERVER_SEND_IGNORES, SERVER_SENDS, SendState, State,
    TRIGGERS, Table, Trigger,
};

pub(super) const DOCUMENT: &str = include_str!("../../docs/h1-states.md");

/// Every trigger with its description, in the order of the enum.
pub(super) const MEANINGS: [(Trigger, &str); TRIGGERS] = [
    (Trigger::Input, "bytes arrived"),
    (Trigger::Overrun, "bytes arrived although the buffer is full"),
    (Trigger::Blank, "an empty line was skipped, and the buffer is empty"),
    (Trigger::Eof, "more input is needed, and it has ended"),
    (Trigger::Timeout, "more input is needed, and the time for it has passed"),
    (Trigger::RecvHead, "a head was received"),
    (Trigger::RecvExpecting, "the head of a request was received that expects `100 Continue`"),
    (Trigger::RecvEnd, "the peer's message is complete"),
    (Trigger::Sent, "bytes were written to the peer"),
    (Trigger::Continue, "`100 Continue` is sent"),
    (Trigger::SendHead, "the application begins its message"),
    (Trigger::SendUntilClose, "the same, with a body that the end of the connection delimits"),
    (Trigger::SendData, "the application continues the body"),
    (Trigger::SendEnd, "the application completes its message"),
    (Trigger::WriteFailed, "nothing more can be written to the peer"),
    (Trigger::Reject, "the connection responds to a faulty request itself"),
    (Trigger::Fail, "a faulty request ends the connection without a response"),
    (Trigger::Abort, "the application aborts; for a client also a faulty response"),
    (Trigger::Reuse, "the exchange is complete, and another one may follow"),
    (Trigger::Close, "no exchange is open, and none may follow"),
    (Trigger::EndEarly, "the response is complete before its request, and no other exchange may follow"),
];

/// One side of a role, as it is written in the source.
struct Side<S: 'static> {
    rules: &'static [Rule<S>],
    ignores: &'static [Trigger],
    cells: &'static [[Result<S, Refusal>; TRIGGERS]],
}

/// The outcome of every trigger, in the order of the triggers.
type Outcomes = Vec<(Trigger, Result<State, Refusal>)>;

struct Role {
    name: &'static str,
    table: &'static Table,
    recv: Side<RecvState>,
    send: Side<SendState>,
}

fn server() -> Role {
    Role {
        name: "Server",
        table: &SERVER,
        recv: Side { rules: &SERVER_RECEIVES, ignores: SERVER_RECV_IGNORES, cells: &SERVER.recv },
        send: Side { rules: &SERVER_SENDS, ignores: SERVER_SEND_IGNORES, cells: &SERVER.send },
    }
}

fn client() -> Role {
    Role {
        name: "Client",
        table: &CLIENT,
        recv: Side { rules: &CLIENT_RECEIVES, ignores: CLIENT_RECV_IGNORES, cells: &CLIENT.recv },
        send: Side { rules: &CLIENT_SENDS, ignores: CLIENT_SEND_IGNORES, cells: &CLIENT.send },
    }
}

fn triggers() -> impl Iterator<Item = Trigger> {
    MEANINGS.into_iter().map(|(trigger, _)| trigger)
}

impl Role {
    /// Returns the states that a connection of this role can reach, each with the outcome of every trigger.
    fn reachable(&self) -> BTreeMap<State, Outcomes> {
        let (mut seen, mut open) = (BTreeMap::new(), Vec::from([State::IDLE]));
        while let Some(from) = open.pop() {
            let outcomes: Vec<_> = triggers().map(|t| (t, from.next(self.table, t))).collect();
            open.extend(
                outcomes.iter().filter_map(|(_, next)| next.ok()).filter(|to| !seen.contains_key(to)),
            );
            seen.insert(from, outcomes);
        }
        seen
    }

    /// Runs a check on each transition between states that this role can reach.
    fn for_each_transition(&self, check: impl Fn(State, Trigger, State)) {
        for (from, outcomes) in self.reachable() {
            for (trigger, next) in outcomes {
                if let Ok(to) = next {
                    check(from, trigger, to);
                }
            }
        }
    }
}

/// Checks that each cell of a side is what the source says, and that the source says it once.
fn check_cells<S: Copy + PartialEq + Debug>(side: &Side<S>, position: fn(S) -> usize) {
    assert_eq!(side.rules.len(), side.cells.len());
    for (at, (state, refusal, transitions)) in side.rules.iter().enumerate() {
        assert_eq!(position(*state), at, "{state:?} is not in the order of the states");
        for trigger in triggers() {
            let listed: Vec<_> = transitions.iter().filter(|(t, _)| *t == trigger).collect();
            let cell = side.cells[at][trigger as usize];
            match (side.ignores.contains(&trigger), &*listed) {
                (true, []) => assert_eq!(cell, Ok(*state), "{state:?} {trigger:?}"),
                (false, [(_, next)]) => assert_eq!(cell, *next, "{state:?} {trigger:?}"),
                (false, []) => assert_eq!(cell, Err(*refusal), "{state:?} {trigger:?}"),
                _ => panic!("{state:?}: {trigger:?} has several transitions"),
            }
        }
    }
}

#[test]
fn table_has_one_outcome_for_each_role_state_and_trigger() {
    for (at, trigger) in triggers().enumerate() {
        assert_eq!(trigger as usize, at, "{trigger:?} is not in the order of the triggers");
    }
    for role in [server(), client()] {
        check_cells(&role.recv, |state| state as usize);
        check_cells(&role.send, |state| state as usize);
    }
}

#[test]
fn every_state_and_transition_of_the_source_is_reachable() {
    for role in [server(), client()] {
        let reachable = role.reachable();
        let (mut recv, mut send) = (BTreeSet::new(), BTreeSet::new());
        for (from, outcomes) in &reachable {
            for (trigger, next) in outcomes {
                // A fault of the receiving side decides alone.
                let is_fault = matches!(next, Err(Refusal::Fault(_)));
                if next.is_ok() || is_fault {
                    recv.insert((from.recv, *trigger));
                    send.insert((from.send, *trigger));
                }
            }
        }
        for (state, refusal, transitions) in role.recv.rules {
            let has_rule =
                !transitions.is_empty() || *refusal == Refusal::Over && *state == RecvState::Closed;
            assert_eq!(reachable.keys().any(|s| s.recv == *state), has_rule, "{} {state:?}", role.name);
            for (trigger, _) in *transitions {
                assert!(recv.contains(&(*state, *trigger)), "{} {state:?} {trigger:?}", role.name);
            }
        }
        for (state, _, transitions) in role.send.rules {
            for (trigger, _) in *transitions {
                assert!(send.contains(&(*state, *trigger)), "{} {state:?} {trigger:?}", role.name);
            }
        }
    }
}

#[test]
fn ended_connection_stays_ended() {
    for role in [server(), client()] {
        for (state, outcomes) in role.reachable() {
            let is_closed = matches!(state.send, SendState::Closed | SendState::Reset);
            assert_eq!(state.is_over(), is_closed, "{}: both sides end together: {state:?}", role.name);
            for (trigger, next) in outcomes.into_iter().filter(|_| is_closed) {
                match next {
                    Ok(to) => assert_eq!(to, state, "{} {trigger:?}", role.name),
                    Err(refusal) => assert_eq!(refusal, Refusal::Over, "{} {state:?} {trigger:?}", role.name),
                }
            }
        }
    }
}

#[test]
fn every_open_state_can_end() {
    for role in [server(), client()] {
        for (state, outcomes) in role.reachable().into_iter().filter(|(state, _)| !state.is_over()) {
            let ends = |(_, next): &(Trigger, Result<State, Refusal>)| next.is_ok_and(State::is_over);
            // A complete exchange is followed by the next one, which can end.
            let is_complete = (state.recv, state.send) == (RecvState::Done, SendState::Done);
            assert!(is_complete || outcomes.iter().any(ends), "{} {state:?}", role.name);
        }
    }
}

#[test]
fn faulty_message_always_ends_the_connection() {
    for role in [server(), client()] {
        for (state, outcomes) in role.reachable() {
            let outcome = |trigger: Trigger| outcomes[trigger as usize].1;
            let may_fail = matches!(
                state.recv,
                RecvState::Head
                    | RecvState::Body
                    | RecvState::Discard
                    | RecvState::Unsolicited
                    | RecvState::Overrun
            );
            if may_fail {
                let endings = [Trigger::Reject, Trigger::Fail, Trigger::Abort].map(outcome);
                assert!(endings.iter().any(|n| n.is_ok_and(State::is_over)), "{} {state:?}", role.name);
            }
            // The connection responds only if the application has not begun to, and only a server does.
            if outcome(Trigger::Reject).is_ok() {
                assert!(matches!(state.send, SendState::Idle | SendState::Expected | SendState::Due));
                assert!(outcome(Trigger::Fail).is_err(), "{state:?} has two endings");
                assert_eq!(role.name, "Server");
            }
            for trigger in triggers() {
                let is_fault = matches!(outcome(trigger), Err(Refusal::Fault(_)));
                assert!(
                    !is_fault || matches!(trigger, Trigger::Eof | Trigger::Timeout),
                    "{state:?} {trigger:?}"
                );
            }
        }
    }
}

#[test]
fn next_exchange_needs_both_sides_done() {
    let both_done = State { recv: RecvState::Done, send: SendState::Done };
    for role in [server(), client()] {
        assert_eq!(both_done.next(role.table, Trigger::Reuse), Ok(State::IDLE));
        role.for_each_transition(|from, trigger, to| {
            if trigger == Trigger::Reuse {
                assert_eq!(from, both_done, "{}", role.name);
            }
            // There is no other way back. An empty line begins no exchange.
            let rank = |state: State| (state.send as usize, state.recv as usize);
            let is_back = rank(to) < rank(from) && to.send == SendState::Idle;
            assert!(!is_back || matches!(trigger, Trigger::Reuse | Trigger::Blank), "{from:?} {trigger:?}");
        });
    }
}

#[test]
fn sides_follow_the_order_of_a_message() {
    for role in [server(), client()] {
        role.for_each_transition(|from, trigger, to| {
            let context = format!("{}: {from:?} {trigger:?}", role.name);
            match trigger {
                Trigger::RecvHead | Trigger::RecvExpecting => {
                    assert_eq!(from.recv, RecvState::Head, "{context}")
                }
                Trigger::RecvEnd => {
                    assert!(matches!(from.recv, RecvState::Body | RecvState::Discard), "{context}");
                    assert_eq!(to.recv, RecvState::Done, "{context}");
                    assert_ne!(from.send, SendState::Expected, "{context}: nobody asked for this body");
                }
                // No body after the end: the way back to a body leads over a head.
                Trigger::SendData | Trigger::SendEnd => {
                    assert!(matches!(from.send, SendState::Body | SendState::UntilClose), "{context}");
                    assert!(trigger == Trigger::SendEnd || from == to, "{context}");
                }
                Trigger::SendHead | Trigger::SendUntilClose => {
                    let is_due = matches!(from.send, SendState::Due | SendState::Expected);
                    assert!(if role.name == "Server" { is_due } else { from == State::IDLE }, "{context}");
                }
                _ => {}
            }
            // A body is entered by its head alone.
            if to.recv == RecvState::Body && from.recv != RecvState::Body {
                assert!(matches!(trigger, Trigger::RecvHead | Trigger::RecvExpecting), "{context}");
            }
            if matches!(to.send, SendState::Body | SendState::UntilClose) && from.send != to.send {
                assert!(matches!(trigger, Trigger::SendHead | Trigger::SendUntilClose), "{context}");
            }
        });
    }
}

#[test]
fn response_follows_its_request() {
    server().for_each_transition(|from, _, to| {
        let has_request = |s: State| !matches!(s.recv, RecvState::Idle | RecvState::Head);
        assert!(has_request(to) || to.send == SendState::Idle, "{from:?} to {to:?}");
    });
    client().for_each_transition(|from, trigger, to| {
        let has_response = matches!(to.recv, RecvState::Head | RecvState::Body | RecvState::Done);
        assert!(!has_response || to.send != SendState::Idle, "{from:?} to {to:?}");
        // Input before a request, or before a byte of it was written, answers another request.
        if trigger == Trigger::Input && matches!(from.recv, RecvState::Idle | RecvState::Unsent) {
            assert_eq!(to.recv, RecvState::Unsolicited);
        }
    });
}

/// Renders a side as a table and as a diagram.
fn render_side<S: Copy + PartialEq + Ord + Debug>(title: &str, side: &Side<S>, used: &BTreeSet<S>) -> String {
    let columns: Vec<Trigger> = triggers()
        .filter(|t| side.rules.iter().any(|(_, _, rule)| rule.iter().any(|(listed, _)| listed == t)))
        .collect();
    let mut out = format!("### {title}\n\n| |");
    columns.iter().for_each(|t| out += &format!(" {t:?} |"));
    out += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    let mut edges: Vec<((S, S), Vec<String>)> = Vec::new();
    for (from, _, _) in side.rules.iter().filter(|(state, ..)| used.contains(state)) {
        let at = side.rules.iter().position(|(state, ..)| state == from).expect("a rule");
        out += &format!("| **{from:?}** |");
        for trigger in &columns {
            let cell = side.cells[at][*trigger as usize];
            out += &match cell {
                Ok(to) if to == *from => String::from(" = |"),
                Ok(to) => format!(" {to:?} |"),
                Err(Refusal::Fault(reason)) => format!(" *{reason:?}* |"),
                Err(Refusal::Over) => String::from(" × |"),
                Err(Refusal::OutOfOrder) => String::from(" |"),
            };
            let Some(to) = cell.ok().filter(|to| to != from) else { continue };
            match edges.iter_mut().find(|(edge, _)| *edge == (*from, to)) {
                Some((_, labels)) => labels.push(format!("{trigger:?}")),
                None => edges.push(((*from, to), Vec::from([format!("{trigger:?}")]))),
            }
        }
        out += "\n";
    }
    out += "\n```mermaid\nstateDiagram-v2\n    [*] --> Idle\n";
    for ((from, to), labels) in edges {
        out += &format!("    {from:?} --> {to:?}: {}\n", labels.join(", "));
    }
    out + "```\n\n"
}

fn render() -> String {
    let mut out = String::from(
        "# States of an HTTP/1.1 connection\n\n\
        The test `h1::table_tests` writes this page from the table in `core/src/h1/table.rs`. After a change there run\n\
        `UPDATE_H1_STATES=1 cargo test -p mcp-proto --lib h1::table`.\n\n\
        A connection has two sides: it receives the peer's message and sends its own. A trigger has a transition if both\n\
        sides have one. In the tables `=` keeps the state, *italics* are a fault in the peer's message, `×` means that the\n\
        connection has ended, and an empty cell that the trigger is impossible there: a command is refused and changes\n\
        nothing. A trigger without a column keeps every state of that side.\n\n\
        | trigger | meaning |\n|---|---|\n",
    );
    for (trigger, meaning) in MEANINGS {
        out += &format!("| {trigger:?} | {meaning} |\n");
    }
    for role in [server(), client()] {
        let reachable = role.reachable();
        let recv: BTreeSet<_> = reachable.keys().map(|s| s.recv).collect();
        let send: BTreeSet<_> = reachable.keys().map(|s| s.send).collect();
        let (received, sent) =
            if role.name == "Server" { ("request", "response") } else { ("response", "request") };
        out += &format!("\n## {}\n\n", role.name);
        out += &render_side(&format!("Receiving: the {received}"), &role.recv, &recv);
        out += &render_side(&format!("Sending: the {sent}"), &role.send, &send);
        out += "### Both sides\n\nPairs of states that occur, the receiving side in rows:\n\n| |";
        send.iter().for_each(|s| out += &format!(" {s:?} |"));
        out += &format!("\n|---|{}\n", "---|".repeat(send.len()));
        for r in recv {
            out += &format!("| **{r:?}** |");
            for s in &send {
                out += if reachable.contains_key(&State { recv: r, send: *s }) { " ● |" } else { " |" };
            }
            out += "\n";
        }
    }
    out
}

#[test]
fn document_is_as_the_table() {
    let rendered = render();
    if std::env::var_os("UPDATE_H1_STATES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/h1-states.md");
        std::fs::write(path, rendered).expect("the document");
        return;
    }
    for (line, (want, got)) in rendered.lines().zip(DOCUMENT.lines()).enumerate() {
        assert_eq!(got, want, "docs/h1-states.md:{}: run this test with UPDATE_H1_STATES=1", line + 1);
    }
    assert_eq!(rendered, DOCUMENT, "docs/h1-states.md: run this test with UPDATE_H1_STATES=1");
}
