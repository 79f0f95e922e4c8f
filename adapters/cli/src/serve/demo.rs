//! The four tools of the demonstration server.

use core::time::Duration;
use std::thread;

use mcp_proto::router::schema::{self, NoArguments, Typed, schemars};
use mcp_proto::{Progress, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::Router;
use crate::demo::TourStep;
use crate::serve::read_only;

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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountToolArguments {
    /// Number to count to.
    #[serde(deserialize_with = "deserialize_integer")]
    #[schemars(with = "u32", range(max = 1_000_000))]
    to: u32,
    /// Milliseconds before each step.
    #[serde(deserialize_with = "deserialize_integer", default = "CountToolArguments::default_delay")]
    #[schemars(with = "u32", range(max = 3_600_000))]
    delay_ms: u32,
}

impl CountToolArguments {
    const fn default_delay() -> u32 {
        100
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.into())
    }

    fn progress(&self, counted: u32) -> Progress {
        Progress::new(counted.into())
            .with_total(self.to.into())
            .with_message(format!("{counted} of {}", self.to))
    }
}

/// Registers the tools; `broken` is the step of the tour to perform wrongly.
pub(super) fn register(router: &mut Router, broken: Option<TourStep>) {
    let tool = read_only(schema::tool::<EchoToolArguments>("echo"));
    let tool = tool.title("Echo").description("Returns the given text");
    router.tool_with(tool, handler!(|_, EchoToolArguments { text }: EchoToolArguments| text));

    let tool = read_only(schema::tool::<AddToolArguments>("add"));
    let tool = tool.title("Add").description("Adds two numbers; integers exactly");
    router.tool_with(
        tool,
        handler!(|_, AddToolArguments { a, b }: AddToolArguments| {
            let a = if broken == Some(TourStep::Call) { Number::from(-1) } else { a };
            let sum = add_numbers(&a, &b).ok_or("the sum of `a` and `b` is too large for a number")?;
            Ok::<_, &str>(Typed(AddToolResult { sum }))
        }),
    );

    if broken != Some(TourStep::List) {
        let tool = read_only(schema::tool::<CountToolArguments>("count"));
        let about = "Counts from 1, slowly, and reports progress; can be cancelled";
        let tool = tool.title("Count").description(about);
        router.tool_with(
            tool,
            handler!(|cx, count: CountToolArguments| {
                let mut counted = 0;
                while counted < count.to
                    && !(broken == Some(TourStep::Timeout) && count.delay() >= Duration::from_secs(1))
                {
                    // Input is read only during this sleep. It fails if the call was cancelled, which ends the call.
                    let slept = wait!(cx.sleep(count.delay()));
                    if broken == Some(TourStep::Cancel) {
                        if slept.is_err() {
                            thread::sleep(count.delay());
                        }
                    } else {
                        slept?;
                    }
                    counted += 1;
                    match broken {
                        Some(TourStep::Progress) => {}
                        Some(TourStep::Cancel) => _ = cx.progress(count.progress(counted)),
                        _ => cx.progress(count.progress(counted))?,
                    }
                }
                Ok::<_, RpcError>(format!("counted to {counted}"))
            }),
        );
    }

    let tool = read_only(schema::tool::<NoArguments>("fail"));
    let tool = tool.title("Fail").description("Always reports a tool error");
    router.tool_with(
        tool,
        handler!(|_, _: NoArguments| {
            let text = "this tool always fails";
            if broken == Some(TourStep::Error) { Ok(text) } else { Err(text) }
        }),
    );
}

/// Deserializes an integer in any notation: `5`, `5.0` and `5e0` are the same JSON number.
fn deserialize_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        // In range and integral, so nothing is lost.
        Ok(number as u32)
    } else {
        Err(serde::de::Error::custom("not a whole number in range"))
    }
}

/// Returns the sum, or `None` if JSON cannot represent it.
fn add_numbers(a: &Number, b: &Number) -> Option<Number> {
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    exact.map(Number::from).or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
}

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

    #[test]
    fn integer_argument_accepts_any_json_notation() {
        let to = |text: &str| {
            serde_json::from_str::<CountToolArguments>(&format!("{{\"to\":{text}}}")).ok().map(|c| c.to)
        };
        assert_eq!([to("5"), to("5.0"), to("5e0")], [Some(5); 3]);
        assert_eq!([to("-1"), to("1.5"), to("1e300"), to("\"5\"")], [None; 4]);
    }
}
