//! The scenarios, each of which runs on a connection of its own.

use core::time::Duration;

use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallOptions, Capabilities, Change, Limits};
use mcp_tests::harness::Rng;
use serde_json::json;

use super::scenario_runner::ScenarioRunner;
use crate::protocol::common::{limits, ms, secs};

/// A named sequence of actions, and the settings it needs.
pub(super) struct ParityScenario {
    pub(super) name: &'static str,
    pub(super) play: fn(&mut ScenarioRunner),
    /// Latency of the link.
    pub(super) latency: Duration,
    /// Capabilities of the client instead of all.
    pub(super) declares: Option<fn() -> Capabilities>,
    /// Limits of the client.
    pub(super) limits: fn() -> Limits,
    /// Whether both sides know tasks. A revision without tasks runs the tool as usual.
    pub(super) tasks: bool,
}

const fn scenario(name: &'static str, play: fn(&mut ScenarioRunner)) -> ParityScenario {
    ParityScenario {
        name,
        play,
        latency: Duration::ZERO,
        declares: None,
        limits: Limits::default,
        tasks: false,
    }
}

fn all_changes_filter() -> SubscriptionFilter {
    SubscriptionFilter::new()
        .tools_list_changed(true)
        .prompts_list_changed(true)
        .resources_list_changed(true)
        .resource_subscriptions(["tide://1".into(), "tide://2".into()])
}

fn each_change() -> [Change; 4] {
    [Change::Tools, Change::Prompts, Change::Resources, Change::Resource("tide://1".into())]
}

fn short_timeout() -> CallOptions {
    CallOptions::new().timeout(secs(30))
}

/// Returns every scenario.
pub(super) fn all() -> Vec<ParityScenario> {
    [
        input_scenarios(),
        elicitation_scenarios(),
        progress_scenarios(),
        subscription_scenarios(),
        cancellation_scenarios(),
        late_response_scenarios(),
        vec![task_scenario()],
        shutdown_scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn input_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("a call without input requests", |s| s.call("plain")),
        scenario("a list with cache hints", ScenarioRunner::list),
        scenario("a ping", ScenarioRunner::ping),
        scenario("custom methods", |s| {
            s.call("plain");
            s.notify_server();
            s.notify_client();
            s.request_client();
        }),
        scenario("invalid tool arguments", |s| s.call("count")),
        scenario("a method of an extension", ScenarioRunner::call_extension),
        ParityScenario {
            declares: Some(Capabilities::new),
            ..scenario(
                "a method of an extension that the client did not declare",
                ScenarioRunner::call_extension,
            )
        },
        scenario("one input request", |s| s.call("line")),
        scenario("two input requests in sequence", |s| s.call("twice")),
        scenario("the same input request repeated", |s| s.call("again")),
        scenario("several input requests at once", |s| s.call("several")),
        scenario("several input requests answered in reverse", |s| {
            s.defer_inputs();
            s.call("several");
            s.answer(1);
            s.answer(0);
        }),
        scenario("a call while the input of another is open", |s| {
            s.defer_inputs();
            s.call("line");
            s.call("dirs");
            assert_eq!(s.open_inputs(), 2);
            s.answer(1);
            s.answer(0);
        }),
        scenario("a round without input requests", |s| {
            s.call("pause");
            s.advance(secs(1));
        }),
        scenario("a malformed input response", |s| {
            s.defer_inputs();
            s.call("line");
            s.answer_with(0, &json!({"roots": []}));
            s.answer_with(0, &json!({"content": 7}));
            s.answer(0);
        }),
        scenario("sampling with a tool", |s| s.call("tool")),
        scenario("refused sampling", |s| {
            s.defer_inputs();
            s.call("line");
            s.decline(0);
        }),
        scenario("an endless sequence of input requests", |s| s.call("forever")),
        ParityScenario {
            limits: || limits(|l| l.max_input_rounds = 9),
            ..scenario("more rounds than the client allows", |s| s.call("forever"))
        },
        ParityScenario {
            declares: Some(Capabilities::new),
            ..scenario("a client without capabilities", |s| {
                for tool in ["line", "dirs", "form", "page", "tool"] {
                    s.call(tool);
                }
            })
        },
    ]
}

fn elicitation_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("an accepted form", |s| s.call("form")),
        scenario("a declined and a cancelled form", |s| {
            s.defer_inputs();
            for action in ["decline", "cancel"] {
                s.call("form");
                if s.open_inputs() > 0 {
                    s.answer_with(0, &json!({"action": action}));
                }
            }
        }),
        scenario("URL elicitation", |s| s.call("page")),
    ]
}

fn progress_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("progress in several rounds", |s| {
            s.send("busy", &CallOptions::new().with_progress());
            s.settle();
        }),
        scenario("progress without a token", |s| s.call("busy")),
        scenario("logs before a level is set", |s| s.call("chatty")),
        scenario("logs of a set level", |s| {
            s.set_log_level(Some(LoggingLevel::Warning));
            s.call("chatty");
            s.set_log_level(Some(LoggingLevel::Debug));
            s.call("chatty");
        }),
        scenario("logging turned off", |s| {
            s.set_log_level(None);
            s.call("chatty");
        }),
    ]
}

fn subscription_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("every change", |s| {
            s.subscribe("all", &all_changes_filter());
            for change in each_change() {
                s.publish(&change);
            }
            s.publish(&Change::Resource("tide://3".into()));
            s.unsubscribe("all");
            s.publish(&Change::Resource("tide://1".into()));
        }),
        scenario("a list change after unsubscribe", |s| {
            s.subscribe("all", &all_changes_filter());
            s.unsubscribe("all");
            s.publish(&Change::Tools);
        }),
        scenario("two subscriptions", |s| {
            s.subscribe("all", &all_changes_filter());
            s.subscribe("one", &SubscriptionFilter::new().resource_subscriptions(["tide://1".into()]));
            s.publish(&Change::Resource("tide://1".into()));
            s.unsubscribe("all");
            s.publish(&Change::Resource("tide://1".into()));
            s.publish(&Change::Resource("tide://2".into()));
            s.unsubscribe("one");
        }),
        scenario("a change without subscriptions", |s| s.publish(&Change::Resource("tide://1".into()))),
        scenario("a list change without a subscription", |s| {
            s.call("plain");
            s.publish(&Change::Prompts);
        }),
        scenario("a server that ends subscriptions", |s| {
            s.subscribe("all", &all_changes_filter());
            s.end_subscriptions();
            s.publish(&Change::Resource("tide://1".into()));
        }),
        scenario("changed roots", ScenarioRunner::notify_roots_changed),
        scenario("an input request and a change at once", |s| {
            s.defer_inputs();
            s.subscribe("all", &all_changes_filter());
            s.call("several");
            s.publish(&Change::Tools);
            s.answer(0);
            s.answer(0);
        }),
    ]
}

fn cancellation_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("cancelled before the first round", |s| {
            s.call("hold");
            s.cancel("hold");
        }),
        scenario("cancelled while an input is open", |s| {
            s.defer_inputs();
            s.call("line");
            s.cancel("line");
        }),
        scenario("cancelled with one of two inputs answered", |s| {
            s.defer_inputs();
            s.call("several");
            s.answer(0);
            s.cancel("several");
        }),
        scenario("cancelled between the rounds", |s| {
            s.defer_inputs();
            s.call("hold");
            s.release_calls();
            s.try_answer(0);
            s.cancel("hold");
        }),
        scenario("cancelled during the second delivery", |s| {
            s.call("hold");
            s.release_calls();
            s.cancel("hold");
        }),
        scenario("cancelled while another call is running", |s| {
            s.call("hold");
            s.defer_inputs();
            s.call("line");
            s.cancel("line");
            s.release_calls();
            s.answer(0);
            s.release_calls();
        }),
    ]
}

fn late_response_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("timeout before the first round", |s| {
            s.send("hold", &short_timeout());
            s.advance(secs(31));
        }),
        scenario("a slow input response", |s| {
            s.defer_inputs();
            s.send("line", &short_timeout());
            s.advance(secs(600));
            s.answer(0);
        }),
        scenario("timeout while the input of another is open", |s| {
            s.defer_inputs();
            s.send("hold", &short_timeout());
            s.call("line");
            s.advance(secs(31));
            s.answer(0);
            s.advance(secs(31));
        }),
        scenario("an unanswered input request", |s| {
            s.defer_inputs();
            s.send("line", &short_timeout());
            s.advance(secs(3_601));
            s.advance(secs(3_601));
        }),
        scenario("total timeout while an input is open", |s| {
            s.defer_inputs();
            s.send("line", &CallOptions::new().total_timeout(secs(40)));
            s.advance(secs(41));
        }),
        ParityScenario {
            latency: secs(2),
            ..scenario("timeout between the rounds", |s| {
                s.defer_inputs();
                s.send("hold", &CallOptions::new().total_timeout(secs(5)));
                s.settle();
                s.release_calls();
                s.answer(0);
                s.advance(secs(5));
            })
        },
        scenario("timeout during the second delivery", |s| {
            s.send("hold", &short_timeout());
            s.settle();
            s.advance(secs(20));
            s.release_calls();
            s.advance(secs(31));
        }),
    ]
}

/// A tool that may run as a task, with questions in the middle.
pub(super) fn task_scenario() -> ParityScenario {
    let play: fn(&mut ScenarioRunner) = |s| {
        s.call("twice");
        // Polls take time.
        s.advance(secs(30));
        s.call("plain");
        s.advance(secs(30));
    };
    ParityScenario {
        tasks: true,
        ..scenario("a tool that may run as a task, with questions in the middle", play)
    }
}

fn shutdown_scenarios() -> Vec<ParityScenario> {
    vec![
        scenario("a client that disconnects with a running call", |s| {
            s.call("hold");
            s.hang_up();
        }),
        scenario("a client that disconnects with an open input", |s| {
            s.defer_inputs();
            s.call("line");
            s.hang_up();
        }),
        scenario("a server that dies", |s| {
            s.defer_inputs();
            s.subscribe("all", &all_changes_filter());
            s.call("line");
            s.kill_server();
        }),
    ]
}

/// Tools that need input responses only.
const TOOLS: [&str; 6] = ["plain", "line", "twice", "several", "dirs", "again"];

/// Runs random calls, input requests, responses and changes, without those that differ by more than a facet.
pub(super) fn run_random(s: &mut ScenarioRunner, seed: u64) {
    let mut rng = Rng::new(seed);
    s.defer_inputs();
    let (mut subscribed, mut holding) = (false, false);
    for _ in 0..60 {
        match rng.below(12) {
            0..=2 => s.call(TOOLS[rng.below(TOOLS.len())]),
            3..=6 if s.open_inputs() > 0 => s.answer(rng.below(s.open_inputs())),
            7 if !holding => {
                holding = true;
                s.call("hold");
            }
            8 if s.is_holding() => s.release_calls(),
            9 if s.is_holding() && rng.percent(30) => {
                holding = false;
                s.cancel("hold");
            }
            10 if subscribed => s.publish(rng.pick(&each_change())),
            10 => {
                subscribed = true;
                s.subscribe("all", &all_changes_filter());
            }
            11 => s.advance(ms(300)),
            _ => {}
        }
    }
    while s.open_inputs() > 0 || s.is_holding() {
        if s.is_holding() {
            s.release_calls();
        } else {
            s.answer(0);
        }
    }
}
