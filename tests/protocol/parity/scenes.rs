//! The client's script, scene by scene; each is played on a connection of its own.

use core::time::Duration;

use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallOptions, Capabilities, Change, Limits};
use mcp_tests::harness::Rng;
use serde_json::json;

use super::stage::Stage;
use crate::common::{limits, ms, secs};

/// What a scene plays
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) play: fn(&mut Stage),
    /// How long bytes are under way
    pub(super) latency: Duration,
    /// The client's capabilities are these instead of all
    pub(super) declares: Option<fn() -> Capabilities>,
    /// The client's limits
    pub(super) limits: fn() -> Limits,
}

const fn scene(name: &'static str, play: fn(&mut Stage)) -> Scene {
    Scene { name, play, latency: Duration::ZERO, declares: None, limits: Limits::default }
}

fn all_news() -> SubscriptionFilter {
    SubscriptionFilter::new()
        .tools_list_changed(true)
        .prompts_list_changed(true)
        .resources_list_changed(true)
        .resource_subscriptions(["tide://1".into(), "tide://2".into()])
}

fn each_change() -> [Change; 4] {
    [Change::Tools, Change::Prompts, Change::Resources, Change::Resource("tide://1".into())]
}

fn quick() -> CallOptions {
    CallOptions::new().timeout(secs(30))
}

/// Every scene
pub(super) fn all() -> Vec<Scene> {
    [questions(), elicitation(), reports(), news(), cancelled(), late(), ends()]
        .into_iter()
        .flatten()
        .collect()
}

fn questions() -> Vec<Scene> {
    vec![
        scene("a call without questions", |s| s.call("plain")),
        scene("a list with hints for a cache", Stage::list),
        scene("a ping", Stage::ping),
        scene("words of the applications' own", |s| {
            s.call("plain");
            s.tell_server();
            s.tell_client();
            s.ask_client();
        }),
        scene("one question", |s| s.call("line")),
        scene("two questions, one after the other", |s| s.call("twice")),
        scene("the same question again and again", |s| s.call("again")),
        scene("several questions at once", |s| s.call("several")),
        scene("several questions, answered the other way round", |s| {
            s.wait();
            s.call("several");
            s.answer(1);
            s.answer(0);
        }),
        scene("a call within the question of another", |s| {
            s.wait();
            s.call("line");
            s.call("dirs");
            assert_eq!(s.open_inputs(), 2);
            s.answer(1);
            s.answer(0);
        }),
        scene("a pause without a question", |s| {
            s.call("pause");
            s.pass(secs(1));
        }),
        scene("an answer of the wrong shape", |s| {
            s.wait();
            s.call("line");
            s.answer_with(0, &json!({"roots": []}));
            s.answer_with(0, &json!({"content": 7}));
            s.answer(0);
        }),
        scene("a model that uses a tool", |s| s.call("tool")),
        scene("a model that is refused", |s| {
            s.wait();
            s.call("line");
            s.refuse(0);
        }),
        scene("a server that asks for ever", |s| s.call("forever")),
        Scene {
            limits: || limits(|l| l.max_input_rounds = 9),
            ..scene("a client that is asked too often", |s| s.call("forever"))
        },
        Scene {
            declares: Some(Capabilities::new),
            ..scene("a client that declared nothing", |s| {
                for tool in ["line", "dirs", "form", "page", "tool"] {
                    s.call(tool);
                }
            })
        },
    ]
}

fn elicitation() -> Vec<Scene> {
    vec![
        scene("a form that is filled in", |s| s.call("form")),
        scene("a form that is declined, and one that is closed", |s| {
            s.wait();
            for action in ["decline", "cancel"] {
                s.call("form");
                if s.open_inputs() > 0 {
                    s.answer_with(0, &json!({"action": action}));
                }
            }
        }),
        scene("a page", |s| s.call("page")),
    ]
}

fn reports() -> Vec<Scene> {
    vec![
        scene("progress through the rounds", |s| {
            s.send("busy", &CallOptions::new().with_progress());
            s.settle();
        }),
        scene("progress that nobody wants", |s| s.call("busy")),
        scene("logs before anything was said about them", |s| s.call("chatty")),
        scene("logs of a level", |s| {
            s.log_level(Some(LoggingLevel::Warning));
            s.call("chatty");
            s.log_level(Some(LoggingLevel::Debug));
            s.call("chatty");
        }),
        scene("no logs", |s| {
            s.log_level(None);
            s.call("chatty");
        }),
    ]
}

fn news() -> Vec<Scene> {
    vec![
        scene("every change", |s| {
            s.subscribe("all", &all_news());
            for change in each_change() {
                s.publish(&change);
            }
            s.publish(&Change::Resource("tide://3".into()));
            s.unsubscribe("all");
            s.publish(&Change::Resource("tide://1".into()));
        }),
        scene("lists that change when it is over", |s| {
            s.subscribe("all", &all_news());
            s.unsubscribe("all");
            s.publish(&Change::Tools);
        }),
        scene("two who want to know", |s| {
            s.subscribe("all", &all_news());
            s.subscribe("one", &SubscriptionFilter::new().resource_subscriptions(["tide://1".into()]));
            s.publish(&Change::Resource("tide://1".into()));
            s.unsubscribe("all");
            s.publish(&Change::Resource("tide://1".into()));
            s.publish(&Change::Resource("tide://2".into()));
            s.unsubscribe("one");
        }),
        scene("nobody who wants to know", |s| s.publish(&Change::Resource("tide://1".into()))),
        scene("lists that change unasked", |s| {
            s.call("plain");
            s.publish(&Change::Prompts);
        }),
        scene("a server that ends subscriptions", |s| {
            s.subscribe("all", &all_news());
            s.end_subscriptions();
            s.publish(&Change::Resource("tide://1".into()));
        }),
        scene("roots that change", Stage::roots_changed),
        scene("a question and a change at once", |s| {
            s.wait();
            s.subscribe("all", &all_news());
            s.call("several");
            s.publish(&Change::Tools);
            s.answer(0);
            s.answer(0);
        }),
    ]
}

fn cancelled() -> Vec<Scene> {
    vec![
        scene("cancelled before the first round", |s| {
            s.call("hold");
            s.cancel("hold");
        }),
        scene("cancelled while an input is open", |s| {
            s.wait();
            s.call("line");
            s.cancel("line");
        }),
        scene("cancelled with one of two inputs answered", |s| {
            s.wait();
            s.call("several");
            s.answer(0);
            s.cancel("several");
        }),
        scene("cancelled between the rounds", |s| {
            s.wait();
            s.call("hold");
            s.go();
            s.answer_soon(0);
            s.cancel("hold");
        }),
        scene("cancelled while the second delivery is in work", |s| {
            s.call("hold");
            s.go();
            s.cancel("hold");
        }),
        scene("cancelled while another is in work", |s| {
            s.call("hold");
            s.wait();
            s.call("line");
            s.cancel("line");
            s.go();
            s.answer(0);
            s.go();
        }),
    ]
}

fn late() -> Vec<Scene> {
    vec![
        scene("too late before the first round", |s| {
            s.send("hold", &quick());
            s.pass(secs(31));
        }),
        scene("an answer that takes its time", |s| {
            s.wait();
            s.send("line", &quick());
            s.pass(secs(600));
            s.answer(0);
        }),
        scene("too late while the input of another is open", |s| {
            s.wait();
            s.send("hold", &quick());
            s.call("line");
            s.pass(secs(31));
            s.answer(0);
            s.pass(secs(31));
        }),
        scene("an input that nobody answers", |s| {
            s.wait();
            s.send("line", &quick());
            s.pass(secs(3_601));
            s.pass(secs(3_601));
        }),
        scene("too late in all while an input is open", |s| {
            s.wait();
            s.send("line", &CallOptions::new().total(secs(40)));
            s.pass(secs(41));
        }),
        Scene {
            latency: secs(2),
            ..scene("too late between the rounds", |s| {
                s.wait();
                s.send("hold", &CallOptions::new().total(secs(5)));
                s.settle();
                s.go();
                s.answer(0);
                s.pass(secs(5));
            })
        },
        scene("too late while the second delivery is in work", |s| {
            s.send("hold", &quick());
            s.settle();
            s.pass(secs(20));
            s.go();
            s.pass(secs(31));
        }),
    ]
}

fn ends() -> Vec<Scene> {
    vec![
        scene("a client that leaves with a call in work", |s| {
            s.call("hold");
            s.hang_up();
        }),
        scene("a client that leaves with an input open", |s| {
            s.wait();
            s.call("line");
            s.hang_up();
        }),
        scene("a server that dies", |s| {
            s.wait();
            s.subscribe("all", &all_news());
            s.call("line");
            s.kill_server();
        }),
    ]
}

/// Tools that need nothing but answers
const TOOLS: [&str; 6] = ["plain", "line", "twice", "several", "dirs", "again"];

/// A scene by chance: calls, questions, answers and news in any order, without what may differ by more than a part
pub(super) fn by_chance(s: &mut Stage, seed: u64) {
    let mut rng = Rng::new(seed);
    s.wait();
    let (mut subscribed, mut holding) = (false, false);
    for _ in 0..60 {
        match rng.below(12) {
            0..=2 => s.call(TOOLS[rng.below(TOOLS.len())]),
            3..=6 if s.open_inputs() > 0 => s.answer(rng.below(s.open_inputs())),
            7 if !holding => {
                holding = true;
                s.call("hold");
            }
            8 if s.is_holding() => s.go(),
            9 if s.is_holding() && rng.chance(30) => {
                holding = false;
                s.cancel("hold");
            }
            10 if subscribed => s.publish(rng.pick(&each_change())),
            10 => {
                subscribed = true;
                s.subscribe("all", &all_news());
            }
            11 => s.pass(ms(300)),
            _ => {}
        }
    }
    while s.open_inputs() > 0 || s.is_holding() {
        if s.is_holding() {
            s.go();
        } else {
            s.answer(0);
        }
    }
}
