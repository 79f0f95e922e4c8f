//! The tools of the demonstration server that answer at once.

use mcp_proto::model::ToolAnnotations;
use mcp_proto::router::schema::{NoArguments, Typed, schemars};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::TourStep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoToolArguments {
    /// Text to answer with.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddToolArguments {
    /// First summand.
    a: Number,
    /// Second summand.
    b: Number,
}

#[derive(Serialize, JsonSchema)]
struct AddToolResult {
    /// The sum of `a` and `b`.
    sum: Number,
}

/// Registers the tools that answer at once; `broken` is the step of the tour to perform wrongly.
pub(crate) fn register(router: &mut impl RegisterFunctions, broken: Option<TourStep>) {
    router
        .tool("echo", |_, EchoToolArguments { text }: EchoToolArguments| text)
        .title("Echo")
        .description("Returns the given text")
        .annotations(read_only());

    let add = move |_: &mut Cx<'_>, AddToolArguments { a, b }: AddToolArguments| {
        let a = if broken == Some(TourStep::Call) { Number::from(-1) } else { a };
        let sum = add_numbers(&a, &b).ok_or("the sum of `a` and `b` is too large for a number")?;
        Ok::<_, &str>(Typed(AddToolResult { sum }))
    };
    router
        .tool("add", add)
        .title("Add")
        .description("Adds two numbers; integers exactly")
        .annotations(read_only());
}

/// Registers the tool that always fails, which is the last one of the list.
pub(crate) fn register_fail(router: &mut impl RegisterFunctions, broken: Option<TourStep>) {
    let fail = move |_: &mut Cx<'_>, _: NoArguments| {
        let text = "this tool always fails";
        if broken == Some(TourStep::Error) { Ok(text) } else { Err(text) }
    };
    router
        .tool("fail", fail)
        .title("Fail")
        .description("Always reports a tool error")
        .annotations(read_only());
}

/// Returns the sum, or `None` if JSON cannot represent it.
fn add_numbers(a: &Number, b: &Number) -> Option<Number> {
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    exact.map(Number::from).or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
}

/// Returns the hints of a tool that is read-only, idempotent and closed-world.
pub(crate) fn read_only() -> ToolAnnotations {
    ToolAnnotations::new().read_only_hint(true).idempotent_hint(true).open_world_hint(false)
}

/// Instructions of the server without further content.
pub(crate) const INSTRUCTIONS: &str = "Four small tools to try a client on: echo and add answer at once, count takes its time and \
                            reports progress, fail always fails.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_sum_is_exact_within_range() {
        let number = |text: &str| serde_json::from_str::<Number>(text).expect("a number");
        let cases = [
            ("20", "22", Some("42")),
            ("2", "3.5", Some("5.5")),
            ("9007199254740993", "0", Some("9007199254740993")),
            ("9223372036854775807", "1", Some("9223372036854775808.0")),
            ("1e308", "1e308", None),
        ];
        for (a, b, want) in cases {
            assert_eq!(add_numbers(&number(a), &number(b)), want.map(number), "{a} + {b}");
        }
    }
}
