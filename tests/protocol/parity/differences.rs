//! The permitted differences between revisions: the table that users read (`core/src/eras.md`), as data.

use mcp_proto::Version::{self, V2025_03_26, V2025_06_18, V2025_11_25};

use super::record::RecordSide::{Client, Server};
use super::record::{Facet as F, Facet, RecordLine, RecordSide};
use Allowed::{Differs, ExtraLines, HasFacet, LacksFacet, ScenarioLines};

/// The reason for a permitted difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// The row of the published table with this first cell; holds in all legacy revisions.
    CannotBeHidden(&'static str),
    /// Revisions before this one lack a feature.
    Since(Version, &'static str),
    /// Only this revision has a feature.
    Only(Version, &'static str),
}

impl Reason {
    /// Returns whether applications in `version` may differ from the reference for this reason.
    pub(super) fn holds_in(self, version: Version) -> bool {
        match self {
            Self::CannotBeHidden(_) => version < Version::V2026_07_28,
            Self::Since(since, _) => version < since,
            Self::Only(only, _) => version == only,
        }
    }
}

/// A permitted difference.
#[derive(Clone, Copy, Debug)]
pub(super) enum Allowed {
    /// A facet of lines has another value.
    Differs(Facet),
    /// A facet of lines in the reference is missing.
    LacksFacet(Facet),
    /// Lines have a facet that the reference lacks.
    HasFacet(Facet),
    /// There are extra lines with this prefix.
    ExtraLines(RecordSide, &'static str),
    /// In one scenario, lines of the reference are replaced by others wherever they occur.
    ScenarioLines(&'static str, RecordSide, &'static [&'static str], &'static [&'static str]),
}

pub(super) type AllowedDifference = (Reason, Allowed);

/// The published table.
const PUBLISHED: &str = include_str!("../../../core/src/eras.md");

/// Returns the first cells of the published table.
pub(super) fn published() -> Vec<&'static str> {
    let cells = PUBLISHED.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.skip(1).collect()
}

/// Compares the lines of both applications with the reference, up to the differences in `rows`.
pub(super) fn compare(
    scenario: &str,
    reference: &[RecordLine],
    actual: &[RecordLine],
    rows: &[AllowedDifference],
) -> Result<(), String> {
    for side in [Client, Server] {
        let of = |lines: &[RecordLine]| lines.iter().filter(|l| l.side == side).cloned().collect::<Vec<_>>();
        let (mut want, mut got) = (of(reference), of(actual));
        for (_, allowed) in rows {
            match *allowed {
                Differs(facet) => {
                    want.iter_mut().for_each(|line| line.remove_facet(facet));
                    got.iter_mut().for_each(|line| line.remove_facet(facet));
                }
                LacksFacet(facet) => want.iter_mut().for_each(|line| line.remove_facet(facet)),
                HasFacet(facet) => got.iter_mut().for_each(|line| line.remove_facet(facet)),
                ExtraLines(of, prefix) if of == side => got.retain(|line| !line.text.starts_with(prefix)),
                ScenarioLines(of, line_side, replaced, replacement)
                    if of == scenario && line_side == side =>
                {
                    let mut found = 0;
                    let mut at = 0;
                    while let Some(window) = want.get(at..at + replaced.len()) {
                        if window.iter().map(|line| &*line.text).eq(replaced.iter().copied()) {
                            let lines = replacement.iter().map(|text| RecordLine::new(side, *text));
                            want.splice(at..at + replaced.len(), lines);
                            found += 1;
                            at += replacement.len();
                        } else {
                            at += 1;
                        }
                    }
                    if found == 0 {
                        return Err(format!("the reference of {scenario:?} lacks {replaced:?}: {want:#?}"));
                    }
                }
                _ => {}
            }
        }
        if want != got {
            return Err(format!("{scenario}: the {side:?} recorded {got:#?}\nexpected {want:#?}"));
        }
    }
    Ok(())
}

// ---- reasons -------------------------------------------------------------------------------------------------

const REVISION: Reason = Reason::CannotBeHidden("the revision");
const SESSION: Reason = Reason::CannotBeHidden("sessions");
const RESULTS: Reason = Reason::CannotBeHidden("a result as JSON");
const SERVER_REQUESTS: Reason = Reason::CannotBeHidden("requests of a server");
const EXTENSION: Reason =
    Reason::CannotBeHidden("a method of an extension that needs the client's declaration, without it");
const PURPOSE: Reason = Reason::CannotBeHidden("the call of an input request");
const REFUSED: Reason = Reason::CannotBeHidden("an input request that is refused or times out");
const ROUNDS: Reason = Reason::CannotBeHidden("a client's limit on rounds");
const CLIENT_EXIT: Reason = Reason::CannotBeHidden("a call that waits for input when the client leaves");
const ABANDONED_CALL: Reason = Reason::CannotBeHidden("a call that ends while it waits for input");
const PROGRESS: Reason = Reason::CannotBeHidden("progress in a later round");
const LISTS: Reason = Reason::CannotBeHidden("changes of lists");
const SUBSCRIPTIONS_ENDED: Reason = Reason::CannotBeHidden("a server that ends subscriptions");
const LEVEL: Reason = Reason::CannotBeHidden("log messages before a level is set");
const LOGGING_OFF: Reason = Reason::CannotBeHidden("logging turned off");
const ROOTS: Reason = Reason::CannotBeHidden("changes of roots");
const FORMS: Reason = Reason::Since(V2025_06_18, "elicitation");
const URL_ELICITATION: Reason = Reason::Since(V2025_11_25, "URL elicitation");
const TOOLS: Reason = Reason::Since(V2025_11_25, "sampling with tools");
const ARGUMENTS: Reason = Reason::Since(V2025_11_25, "invalid tool arguments in a result");
const PROGRESS_MESSAGES: Reason = Reason::Since(V2025_03_26, "messages in progress notifications");
const TASK_RESULTS: Reason = Reason::Only(V2025_11_25, "results that name their task");
const SUCCESS_FLAG: Reason = Reason::Only(V2025_03_26, "`isError` of a success");
const ELICITATION_ID: Reason = Reason::Only(V2025_11_25, "ids of URL elicitations");

// ---- lines that several rows use -----------------------------------------------------------------------------

const LOG_DROPPED: &str = "session log: Dropped";
const LOG_QUEUED: &str = "session log: Queued";
const INPUT_CANCELLED: &str = "input withdrawn";
const CANCELLED: &str = "line ended: not answered: cancelled";
const NO_FISH: &str = r#"line ended: {"content":[{"text":"no - - - - -","type":"text"}]}"#;
const SAMPLING_INPUT: &str =
    r#"needs a model: Some("{\"text\":\"A fish?\",\"type\":\"text\"}") with [], 1 messages"#;
const TIMEOUT_SCENARIO: &str = "timeout while the input of another is open";
const HOLD_LATE: &str = "hold ended: not answered: no answer in time";
const HOLD_CANCELLED: &str = r#"hold cancelled: by the client, Some("no answer in time")"#;
const FISH: &str = r#"line ended: {"content":[{"text":"yes - - - - -","type":"text"}]}"#;
const FISH_DELIVERY: &str = r#"line, delivery 1, state after 0, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const NINTH: &str = r#"forever, delivery 9, state after 8, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const TENTH: &str = r#"forever, delivery 10, state after 9, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const FORM: [&str; 2] = [
    r#"needs a form: Who are you? {"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}"#,
    r#"form ended: {"content":[{"text":"- - - yes - -","type":"text"}]}"#,
];
const NO_FORM: &str = "form ended: error -32603: input is not available";
const UNDECLARED: &str = "a client without capabilities";
const FORM_REFUSED: &str = "input refused: elicitation/create is not in the revision";
const URL_REFUSED: &str = "input refused: elicitation by a web page is not in the revision";
const TOOL_REFUSED: &str = "input refused: sampling with tools is not in the revision";
const LINE_INPUT_TIMED_OUT: &str =
    "line ended: not answered: the server asked for input, which was not given in time";
const DISCOVERED: &str = r#"the ping ended: {"capabilities":{"extensions":{"org.example/tides":{"unit":"metres"}},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"instructions":"Ask for a berth first.","supportedVersions":["2026-07-28"]}"#;
const CHATTY_ENDED: &str = r#"chatty ended: {"content":[{"text":"- - - - - -","type":"text"}]}"#;

/// Every permitted difference.
pub(super) const ROWS: &[AllowedDifference] = &[
    (REVISION, Differs(F::Revision)),
    (SESSION, ExtraLines(Server, "session opened")),
    (SESSION, ExtraLines(Client, "log error None")),
    (RESULTS, LacksFacet(F::Stamps)),
    (RESULTS, LacksFacet(F::Hints)),
    (RESULTS, ScenarioLines("a ping", Client, &[DISCOVERED], &["the ping ended: {}"])),
    (SERVER_REQUESTS, ExtraLines(Client, "custom request")),
    (
        SERVER_REQUESTS,
        ScenarioLines(
            "custom methods",
            Server,
            &["custom request refused: the connection is not ready yet"],
            &[r#"custom request ended: Ok({"metres":4})"#],
        ),
    ),
    (
        EXTENSION,
        ScenarioLines(
            "a method of an extension that the client did not declare",
            Client,
            &[
                "the tides ended: error -32021: `tides/next` needs the extension `org.example/tides`, which the client did not declare",
            ],
            &["the tides ended: error -32601: method not found: tides/next"],
        ),
    ),
    (
        ARGUMENTS,
        ScenarioLines(
            "invalid tool arguments",
            Client,
            &[
                r#"count ended: {"content":[{"text":"The arguments of `count` are not valid: missing field `berths`","type":"text"}],"isError":true}"#,
            ],
            &["count ended: error -32602: The arguments of `count` are not valid: missing field `berths`"],
        ),
    ),
    // ---- input requests --------------------------------------------------------------------------------------
    (PURPOSE, LacksFacet(F::Purpose)),
    (
        PURPOSE,
        ScenarioLines(
            "cancelled while an input is open",
            Client,
            &[INPUT_CANCELLED, CANCELLED],
            &[CANCELLED, INPUT_CANCELLED],
        ),
    ),
    (
        PURPOSE,
        ScenarioLines(
            "cancelled with one of two inputs answered",
            Client,
            &[INPUT_CANCELLED, "several ended: not answered: cancelled"],
            &["several ended: not answered: cancelled", INPUT_CANCELLED],
        ),
    ),
    (
        PURPOSE,
        ScenarioLines(
            "cancelled while another call is running",
            Client,
            &[INPUT_CANCELLED, CANCELLED],
            &[CANCELLED, INPUT_CANCELLED],
        ),
    ),
    (
        PURPOSE,
        ScenarioLines(
            "total timeout while an input is open",
            Client,
            &[INPUT_CANCELLED, "line ended: not answered: not finished in the total time allowed"],
            &["line ended: not answered: not finished in the total time allowed", INPUT_CANCELLED],
        ),
    ),
    (PURPOSE, ScenarioLines(TIMEOUT_SCENARIO, Client, &[HOLD_LATE, FISH], &[FISH, HOLD_LATE])),
    (
        PURPOSE,
        ScenarioLines(
            TIMEOUT_SCENARIO,
            Server,
            &[HOLD_CANCELLED, FISH_DELIVERY],
            &[FISH_DELIVERY, HOLD_CANCELLED],
        ),
    ),
    (
        REFUSED,
        ScenarioLines(
            "refused sampling",
            Client,
            &[
                "line ended: not answered: the server asked for input, which was refused: the user says no (code -1)",
            ],
            &[NO_FISH],
        ),
    ),
    (
        REFUSED,
        ScenarioLines(
            "refused sampling",
            Server,
            &["line, delivery 0"],
            &["line, delivery 0", "line, delivery 1, state after 0, fish: none, the user says no (code -1)"],
        ),
    ),
    (
        REFUSED,
        ScenarioLines(
            "an unanswered input request",
            Client,
            &[LINE_INPUT_TIMED_OUT],
            &["diagnostic: UnknownCancellation", NO_FISH],
        ),
    ),
    (
        REFUSED,
        ScenarioLines(
            "an unanswered input request",
            Server,
            &["line, delivery 0"],
            &[
                "line, delivery 0",
                "line, delivery 1, state after 0, fish: none, not finished in the total time allowed",
                "diagnostic: LateResponse",
            ],
        ),
    ),
    (
        ROUNDS,
        ScenarioLines(
            "more rounds than the client allows",
            Client,
            &["forever ended: not answered: the server asked for input more than 9 times"],
            &[SAMPLING_INPUT, "forever ended: error -32603: input is not available"],
        ),
    ),
    (
        ROUNDS,
        ScenarioLines(
            "more rounds than the client allows",
            Server,
            &[NINTH],
            &[NINTH, TENTH, "input refused: limit reached: max_input_rounds"],
        ),
    ),
    (ABANDONED_CALL, ExtraLines(Server, "ParkedCallDropped")),
    (
        CLIENT_EXIT,
        ScenarioLines(
            "a client that disconnects with an open input",
            Client,
            &[
                "line ended: not answered: the connection ended before the answer: the peer closed the connection",
            ],
            &["line ended: error -32603: the input ended before the answers came"],
        ),
    ),
    // ---- changes and logs ------------------------------------------------------------------------------------
    (PROGRESS, Differs(F::ProgressStatus)),
    (LISTS, Differs(F::PublishCount)),
    (LISTS, ExtraLines(Client, "changed without a subscription")),
    (
        SUBSCRIPTIONS_ENDED,
        ScenarioLines(
            "a server that ends subscriptions",
            Client,
            &["all ended, gracefully true"],
            &[r#"all changed: Resource("tide://1")"#],
        ),
    ),
    (
        SUBSCRIPTIONS_ENDED,
        ScenarioLines(
            "a server that ends subscriptions",
            Server,
            &["interest in tide://1: false", "interest in tide://2: false"],
            &[],
        ),
    ),
    (
        LEVEL,
        ScenarioLines(
            "logs before a level is set",
            Client,
            &[CHATTY_ENDED],
            &[
                r#"log debug Some("berths") {"at":"debug"} None"#,
                r#"log warning Some("berths") {"at":"warning"} None"#,
                r#"log emergency Some("berths") {"at":"emergency"} None"#,
                CHATTY_ENDED,
            ],
        ),
    ),
    (
        LEVEL,
        ScenarioLines(
            "logs before a level is set",
            Server,
            &["log debug: Dropped", "log warning: Dropped", "log emergency: Dropped"],
            &["log debug: Queued", "log warning: Queued", "log emergency: Queued"],
        ),
    ),
    (SESSION, ScenarioLines("logs before a level is set", Server, &[LOG_DROPPED], &[LOG_QUEUED])),
    (SESSION, ScenarioLines("logs of a set level", Server, &[LOG_DROPPED], &[LOG_QUEUED])),
    (
        LOGGING_OFF,
        ScenarioLines("logging turned off", Server, &["log emergency: Dropped"], &["log emergency: Queued"]),
    ),
    (ROOTS, ExtraLines(Server, "notification notifications/roots/list_changed")),
    // ---- features that some revisions lack -------------------------------------------------------------------
    (PROGRESS_MESSAGES, LacksFacet(F::ProgressMessage)),
    (TASK_RESULTS, HasFacet(F::Stamps)),
    (SUCCESS_FLAG, HasFacet(F::SuccessFlag)),
    (ELICITATION_ID, HasFacet(F::PageId)),
    (ELICITATION_ID, ExtraLines(Client, "elicitation p-1 complete")),
    (
        ELICITATION_ID,
        ScenarioLines(
            "URL elicitation",
            Server,
            &["elicitation complete sent: false"],
            &["elicitation complete sent: true"],
        ),
    ),
    (FORMS, ScenarioLines("an accepted form", Client, &FORM, &[NO_FORM])),
    (
        FORMS,
        ScenarioLines(
            "an accepted form",
            Server,
            &[r#"form, delivery 1, state after 0, who: {"action":"accept","content":{"name":"Mara"}}"#],
            &[FORM_REFUSED],
        ),
    ),
    (
        FORMS,
        ScenarioLines(
            "a declined and a cancelled form",
            Client,
            &[FORM[0], FORM[1], FORM[0], FORM[1]],
            &[NO_FORM, NO_FORM],
        ),
    ),
    (
        FORMS,
        ScenarioLines(
            "a declined and a cancelled form",
            Server,
            &[
                r#"form, delivery 1, state after 0, who: {"action":"decline"}"#,
                "form, delivery 0",
                r#"form, delivery 1, state after 0, who: {"action":"cancel"}"#,
            ],
            &[FORM_REFUSED, "form, delivery 0", FORM_REFUSED],
        ),
    ),
    (
        URL_ELICITATION,
        ScenarioLines(
            "URL elicitation",
            Client,
            &[
                "needs a page: Pay https://harbour.example/pay",
                r#"page ended: {"content":[{"text":"- - - - yes -","type":"text"}]}"#,
            ],
            &["page ended: error -32603: input is not available"],
        ),
    ),
    (
        URL_ELICITATION,
        ScenarioLines(
            "URL elicitation",
            Server,
            &[
                r#"page, delivery 1, state after 0, page: {"action":"accept"}"#,
                "elicitation complete sent: false",
            ],
            &[URL_REFUSED],
        ),
    ),
    (
        TOOLS,
        ScenarioLines(
            "sampling with a tool",
            Client,
            &[
                r#"needs a model: Some("{\"text\":\"When is high water?\",\"type\":\"text\"}") with ["tide"], 1 messages"#,
                r#"needs a model: Some("[{\"content\":[{\"text\":\"at noon\",\"type\":\"text\"}],\"toolUseId\":\"u1\",\"type\":\"tool_result\"}]") with ["tide"], 3 messages"#,
                r#"tool ended: {"content":[{"text":"- - - - - yes","type":"text"}]}"#,
            ],
            &["tool ended: error -32603: input is not available"],
        ),
    ),
    (
        TOOLS,
        ScenarioLines(
            "sampling with a tool",
            Server,
            &[
                r#"tool, delivery 1, state after 0, tool: {"content":[{"id":"u1","input":{},"name":"tide","type":"tool_use"}],"model":"m","role":"assistant","stopReason":"toolUse"}"#,
                r#"tool, delivery 2, state after 1, tool: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#,
            ],
            &[TOOL_REFUSED],
        ),
    ),
    (
        FORMS,
        ScenarioLines(
            UNDECLARED,
            Server,
            &["input refused: the peer does not have the capability `elicitation.form`"],
            &[FORM_REFUSED],
        ),
    ),
    (
        URL_ELICITATION,
        ScenarioLines(
            UNDECLARED,
            Server,
            &["input refused: the peer does not have the capability `elicitation.url`"],
            &[URL_REFUSED],
        ),
    ),
    (
        TOOLS,
        ScenarioLines(
            UNDECLARED,
            Server,
            &["input refused: the peer does not have the capability `sampling.tools`"],
            &[TOOL_REFUSED],
        ),
    ),
];
