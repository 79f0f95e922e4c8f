//! What may differ, and nothing else: the table that users read (`core/src/eras.md`), as data.

use mcp_proto::Version::{self, V2025_03_26, V2025_06_18, V2025_11_25};

use super::record::Side::{Client, Server};
use super::record::{Facet as F, Facet, Line, Side};
use What::{Has, Lacks, Lines, Part, Scene};

/// Why something may differ
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// The row of the published table that begins so, in all revisions of the legacy era
    CannotBeHidden(&'static str),
    /// Revisions before this one lack something
    Since(Version, &'static str),
    /// This revision alone has something
    Only(Version, &'static str),
}

impl Why {
    /// Whether two applications in `version` may differ from two in the reference because of this
    pub(super) fn holds_in(self, version: Version) -> bool {
        match self {
            Self::CannotBeHidden(_) => version < Version::V2026_07_28,
            Self::Since(since, _) => version < since,
            Self::Only(only, _) => version == only,
        }
    }
}

/// What may differ
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A part of lines is another
    Part(Facet),
    /// A part of lines that the reference has is lacking
    Lacks(Facet),
    /// There is a part of lines that the reference lacks
    Has(Facet),
    /// There are lines that begin so, where the reference has none
    Lines(Side, &'static str),
    /// In a scene, lines of the reference, and those that stand in their place wherever they occur
    Scene(&'static str, Side, &'static [&'static str], &'static [&'static str]),
}

pub(super) type Row = (Why, What);

/// The published table
const PUBLISHED: &str = include_str!("../../../core/src/eras.md");

/// The first cells of the published table
pub(super) fn published() -> Vec<&'static str> {
    let cells = PUBLISHED.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.skip(1).collect()
}

/// Whether two applications were told the same, but for what `rows` permit
pub(super) fn compare(scene: &str, reference: &[Line], actual: &[Line], rows: &[Row]) -> Result<(), String> {
    for side in [Client, Server] {
        let of = |lines: &[Line]| lines.iter().filter(|l| l.side == side).cloned().collect::<Vec<_>>();
        let (mut want, mut got) = (of(reference), of(actual));
        for (_, what) in rows {
            match *what {
                Part(facet) => {
                    want.iter_mut().for_each(|line| line.drop(facet));
                    got.iter_mut().for_each(|line| line.drop(facet));
                }
                Lacks(facet) => want.iter_mut().for_each(|line| line.drop(facet)),
                Has(facet) => got.iter_mut().for_each(|line| line.drop(facet)),
                Lines(of, prefix) if of == side => got.retain(|line| !line.text.starts_with(prefix)),
                Scene(of, whose, here, instead) if of == scene && whose == side => {
                    let mut found = 0;
                    let mut at = 0;
                    while let Some(window) = want.get(at..at + here.len()) {
                        if window.iter().map(|line| &*line.text).eq(here.iter().copied()) {
                            let lines = instead.iter().map(|text| Line::new(side, *text));
                            want.splice(at..at + here.len(), lines);
                            found += 1;
                            at += instead.len();
                        } else {
                            at += 1;
                        }
                    }
                    if found == 0 {
                        return Err(format!("the reference of {scene:?} lacks {here:?}: {want:#?}"));
                    }
                }
                _ => {}
            }
        }
        if want != got {
            return Err(format!("{scene}: the {side:?} is told {got:#?}\ninstead of {want:#?}"));
        }
    }
    Ok(())
}

// ---- why -----------------------------------------------------------------------------------------------------

const REVISION: Why = Why::CannotBeHidden("the revision");
const SESSION: Why = Why::CannotBeHidden("sessions");
const RESULTS: Why = Why::CannotBeHidden("a result as JSON");
const OWN: Why = Why::CannotBeHidden("requests of a server's own");
const PURPOSE: Why = Why::CannotBeHidden("which call an input is for");
const REFUSED: Why = Why::CannotBeHidden("an input that is refused, or not given in time");
const ROUNDS: Why = Why::CannotBeHidden("a client's limit on rounds");
const LEAVING: Why = Why::CannotBeHidden("a call that waits for input when the client leaves");
const DROPPED: Why = Why::CannotBeHidden("a call that is given up while it waits for input");
const PROGRESS: Why = Why::CannotBeHidden("progress in a later round");
const LISTS: Why = Why::CannotBeHidden("changes of lists");
const FAREWELL: Why = Why::CannotBeHidden("a server that ends subscriptions");
const LEVEL: Why = Why::CannotBeHidden("log messages, as long as no level was set");
const MUTE: Why = Why::CannotBeHidden("no log messages");
const ROOTS: Why = Why::CannotBeHidden("changes of roots");
const FORMS: Why = Why::Since(V2025_06_18, "elicitation");
const PAGES: Why = Why::Since(V2025_11_25, "elicitation by web pages");
const TOOLS: Why = Why::Since(V2025_11_25, "tools for models");
const SENTENCE: Why = Why::Since(V2025_03_26, "sentences in progress reports");
const PAGE_ID: Why = Why::Only(V2025_11_25, "ids of web pages");

// ---- lines that several rows need ----------------------------------------------------------------------------

const UNHEARD: &str = "log of no call: Dropped";
const HEARD: &str = "log of no call: Queued";
const GONE: &str = "no longer needed";
const CANCELLED: &str = "line ended: not answered: cancelled";
const NO_FISH: &str = r#"line ended: {"content":[{"text":"no - - - - -","type":"text"}]}"#;
const ASKED: &str = r#"needs a model: Some("{\"text\":\"A fish?\",\"type\":\"text\"}") with [], 1 messages"#;
const WAITING: &str = "too late while the input of another is open";
const HOLD_LATE: &str = "hold ended: not answered: no answer in time";
const HOLD_LEFT: &str = r#"hold cancelled: by the client, Some("no answer in time")"#;
const FISH: &str = r#"line ended: {"content":[{"text":"yes - - - - -","type":"text"}]}"#;
const FISHED: &str = r#"line, delivery 1, state after 0, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const NINTH: &str = r#"forever, delivery 9, state after 8, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const TENTH: &str = r#"forever, delivery 10, state after 9, fish: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#;
const FORM: [&str; 2] = [
    r#"needs a form: Who are you? {"properties":{"name":{"type":"string"}},"required":["name"],"type":"object"}"#,
    r#"form ended: {"content":[{"text":"- - - yes - -","type":"text"}]}"#,
];
const NO_FORM: &str = "form ended: error -32603: cannot be asked";
const UNDECLARED: &str = "a client that declared nothing";
const CANNOT_FORM: &str = "cannot ask: elicitation/create is not in the revision";
const CANNOT_PAGE: &str = "cannot ask: elicitation by a web page is not in the revision";
const CANNOT_TOOL: &str = "cannot ask: sampling with tools is not in the revision";
const DONE_UNANSWERED: &str =
    "line ended: not answered: the server needed something first, which was not given in time";
const DISCOVERED: &str = r#"the ping ended: {"capabilities":{"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"instructions":"Ask for a berth first.","supportedVersions":["2026-07-28"]}"#;
const CHATTY: &str = r#"chatty ended: {"content":[{"text":"- - - - - -","type":"text"}]}"#;

/// The table: every difference that is permitted
pub(super) const ROWS: &[Row] = &[
    (REVISION, Part(F::Revision)),
    (SESSION, Lines(Server, "session opened")),
    (SESSION, Lines(Client, "log error None")),
    (RESULTS, Lacks(F::Stamps)),
    (RESULTS, Lacks(F::Hints)),
    (RESULTS, Scene("a ping", Client, &[DISCOVERED], &["the ping ended: {}"])),
    (OWN, Lines(Client, "asked on its own")),
    (
        OWN,
        Scene(
            "words of the applications' own",
            Server,
            &["cannot ask on its own: the connection is not ready yet"],
            &[r#"answered on its own: Ok({"metres":4})"#],
        ),
    ),
    // ---- questions -------------------------------------------------------------------------------------------
    (PURPOSE, Lacks(F::Purpose)),
    (PURPOSE, Scene("cancelled while an input is open", Client, &[GONE, CANCELLED], &[CANCELLED, GONE])),
    (
        PURPOSE,
        Scene(
            "cancelled with one of two inputs answered",
            Client,
            &[GONE, "several ended: not answered: cancelled"],
            &["several ended: not answered: cancelled", GONE],
        ),
    ),
    (PURPOSE, Scene("cancelled while another is in work", Client, &[GONE, CANCELLED], &[CANCELLED, GONE])),
    (
        PURPOSE,
        Scene(
            "too late in all while an input is open",
            Client,
            &[GONE, "line ended: not answered: not finished in the total time allowed"],
            &["line ended: not answered: not finished in the total time allowed", GONE],
        ),
    ),
    (PURPOSE, Scene(WAITING, Client, &[HOLD_LATE, FISH], &[FISH, HOLD_LATE])),
    (PURPOSE, Scene(WAITING, Server, &[HOLD_LEFT, FISHED], &[FISHED, HOLD_LEFT])),
    (
        REFUSED,
        Scene(
            "a model that is refused",
            Client,
            &[
                "line ended: not answered: the server needed something first, which was refused: the user says no (code -1)",
            ],
            &[NO_FISH],
        ),
    ),
    (
        REFUSED,
        Scene(
            "a model that is refused",
            Server,
            &["line, delivery 0"],
            &["line, delivery 0", "line, delivery 1, state after 0, fish: none, the user says no (code -1)"],
        ),
    ),
    (
        REFUSED,
        Scene("an input that nobody answers", Client, &[DONE_UNANSWERED], &["odd: UnknownCancel", NO_FISH]),
    ),
    (
        REFUSED,
        Scene(
            "an input that nobody answers",
            Server,
            &["line, delivery 0"],
            &[
                "line, delivery 0",
                "line, delivery 1, state after 0, fish: none, not finished in the total time allowed",
                "odd: LateResponse",
            ],
        ),
    ),
    (
        ROUNDS,
        Scene(
            "a client that is asked too often",
            Client,
            &["forever ended: not answered: the server needed something more than 9 times"],
            &[ASKED, "forever ended: error -32603: cannot be asked"],
        ),
    ),
    (
        ROUNDS,
        Scene(
            "a client that is asked too often",
            Server,
            &[NINTH],
            &[NINTH, TENTH, "cannot ask: limit reached: max_input_rounds"],
        ),
    ),
    (DROPPED, Lines(Server, "Dropped")),
    (
        LEAVING,
        Scene(
            "a client that leaves with an input open",
            Client,
            &[
                "line ended: not answered: the connection ended before the answer: the peer closed the connection",
            ],
            &["line ended: error -32603: the input ended before the answers came"],
        ),
    ),
    // ---- news ------------------------------------------------------------------------------------------------
    (PROGRESS, Part(F::Fate)),
    (LISTS, Part(F::Audience)),
    (LISTS, Lines(Client, "told unasked")),
    (
        FAREWELL,
        Scene(
            "a server that ends subscriptions",
            Client,
            &["all ended, gracefully true"],
            &[r#"all told: Resource("tide://1")"#],
        ),
    ),
    (
        FAREWELL,
        Scene(
            "a server that ends subscriptions",
            Server,
            &["interest in tide://1: false", "interest in tide://2: false"],
            &[],
        ),
    ),
    (
        LEVEL,
        Scene(
            "logs before anything was said about them",
            Client,
            &[CHATTY],
            &[
                r#"log debug Some("berths") {"at":"debug"} None"#,
                r#"log warning Some("berths") {"at":"warning"} None"#,
                r#"log emergency Some("berths") {"at":"emergency"} None"#,
                CHATTY,
            ],
        ),
    ),
    (
        LEVEL,
        Scene(
            "logs before anything was said about them",
            Server,
            &["log debug: Dropped", "log warning: Dropped", "log emergency: Dropped"],
            &["log debug: Queued", "log warning: Queued", "log emergency: Queued"],
        ),
    ),
    (SESSION, Scene("logs before anything was said about them", Server, &[UNHEARD], &[HEARD])),
    (SESSION, Scene("logs of a level", Server, &[UNHEARD], &[HEARD])),
    (MUTE, Scene("no logs", Server, &["log emergency: Dropped"], &["log emergency: Queued"])),
    (ROOTS, Lines(Server, "heard notifications/roots/list_changed")),
    // ---- what revisions lack ---------------------------------------------------------------------------------
    (SENTENCE, Lacks(F::Sentence)),
    (PAGE_ID, Has(F::PageId)),
    (PAGE_ID, Lines(Client, "the page p-1 is done with")),
    (
        PAGE_ID,
        Scene(
            "a page",
            Server,
            &["the end of the page was told: false"],
            &["the end of the page was told: true"],
        ),
    ),
    (FORMS, Scene("a form that is filled in", Client, &FORM, &[NO_FORM])),
    (
        FORMS,
        Scene(
            "a form that is filled in",
            Server,
            &[r#"form, delivery 1, state after 0, who: {"action":"accept","content":{"name":"Mara"}}"#],
            &[CANNOT_FORM],
        ),
    ),
    (
        FORMS,
        Scene(
            "a form that is declined, and one that is closed",
            Client,
            &[FORM[0], FORM[1], FORM[0], FORM[1]],
            &[NO_FORM, NO_FORM],
        ),
    ),
    (
        FORMS,
        Scene(
            "a form that is declined, and one that is closed",
            Server,
            &[
                r#"form, delivery 1, state after 0, who: {"action":"decline"}"#,
                "form, delivery 0",
                r#"form, delivery 1, state after 0, who: {"action":"cancel"}"#,
            ],
            &[CANNOT_FORM, "form, delivery 0", CANNOT_FORM],
        ),
    ),
    (
        PAGES,
        Scene(
            "a page",
            Client,
            &[
                "needs a page: Pay https://harbour.example/pay",
                r#"page ended: {"content":[{"text":"- - - - yes -","type":"text"}]}"#,
            ],
            &["page ended: error -32603: cannot be asked"],
        ),
    ),
    (
        PAGES,
        Scene(
            "a page",
            Server,
            &[
                r#"page, delivery 1, state after 0, page: {"action":"accept"}"#,
                "the end of the page was told: false",
            ],
            &[CANNOT_PAGE],
        ),
    ),
    (
        TOOLS,
        Scene(
            "a model that uses a tool",
            Client,
            &[
                r#"needs a model: Some("{\"text\":\"When is high water?\",\"type\":\"text\"}") with ["tide"], 1 messages"#,
                r#"needs a model: Some("[{\"content\":[{\"text\":\"at noon\",\"type\":\"text\"}],\"toolUseId\":\"u1\",\"type\":\"tool_result\"}]") with ["tide"], 3 messages"#,
                r#"tool ended: {"content":[{"text":"- - - - - yes","type":"text"}]}"#,
            ],
            &["tool ended: error -32603: cannot be asked"],
        ),
    ),
    (
        TOOLS,
        Scene(
            "a model that uses a tool",
            Server,
            &[
                r#"tool, delivery 1, state after 0, tool: {"content":[{"id":"u1","input":{},"name":"tide","type":"tool_use"}],"model":"m","role":"assistant","stopReason":"toolUse"}"#,
                r#"tool, delivery 2, state after 1, tool: {"content":{"text":"cod","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}"#,
            ],
            &[CANNOT_TOOL],
        ),
    ),
    (
        FORMS,
        Scene(
            UNDECLARED,
            Server,
            &["cannot ask: the peer does not have the capability `elicitation.form`"],
            &[CANNOT_FORM],
        ),
    ),
    (
        PAGES,
        Scene(
            UNDECLARED,
            Server,
            &["cannot ask: the peer does not have the capability `elicitation.url`"],
            &[CANNOT_PAGE],
        ),
    ),
    (
        TOOLS,
        Scene(
            UNDECLARED,
            Server,
            &["cannot ask: the peer does not have the capability `sampling.tools`"],
            &[CANNOT_TOOL],
        ),
    ),
];
