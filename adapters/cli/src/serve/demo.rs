//! The four tools of the demonstration

use core::time::Duration;
use std::thread;

use mcp_proto::router::schema::{self, NoArguments, Typed, schemars};
use mcp_proto::{Progress, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::Router;
use crate::demo::Step;
use crate::serve::harmless;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    /// What to answer
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// One number
    a: Number,
    /// Another one
    b: Number,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// a + b
    sum: Number,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    /// Where to stop
    #[serde(deserialize_with = "whole")]
    #[schemars(with = "u32", range(max = 1_000_000))]
    to: u32,
    /// Milliseconds before each step
    #[serde(deserialize_with = "whole", default = "Count::default_delay")]
    #[schemars(with = "u32", range(max = 3_600_000))]
    delay_ms: u32,
}

impl Count {
    const fn default_delay() -> u32 {
        100
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.into())
    }

    fn progress(&self, counted: u32) -> Progress {
        Progress::new(counted.into()).of(self.to.into()).saying(format!("{counted} of {}", self.to))
    }
}

/// Registers them; `broken` is what the tour wants to be done wrong
pub(super) fn register(router: &mut Router, broken: Option<Step>) {
    let tool = harmless(schema::tool::<Echo>("echo"));
    let tool = tool.title("Echo").description("Answers with the text that it is given");
    router.tool_with(tool, handler!(|_, Echo { text }: Echo| text));

    let tool = harmless(schema::tool::<Add>("add"));
    let tool = tool.title("Add").description("Adds two numbers; whole ones exactly");
    router.tool_with(
        tool,
        handler!(|_, Add { a, b }: Add| {
            let a = if broken == Some(Step::Call) { Number::from(-1) } else { a };
            let sum = sum(&a, &b).ok_or("the sum of `a` and `b` is too large for a number")?;
            Ok::<_, &str>(Typed(Sum { sum }))
        }),
    );

    if broken != Some(Step::List) {
        let tool = harmless(schema::tool::<Count>("count"));
        let about = "Counts from 1, slowly, and reports progress; can be cancelled";
        let tool = tool.title("Count").description(about);
        router.tool_with(
            tool,
            handler!(|cx, count: Count| {
                let mut counted = 0;
                while counted < count.to
                    && !(broken == Some(Step::Timeout) && count.delay() >= Duration::from_secs(1))
                {
                    // Time passes and input is read only in here; the error says that the call was cancelled, and ends it.
                    let slept = wait!(cx.sleep(count.delay()));
                    if broken == Some(Step::Cancel) {
                        if slept.is_err() {
                            thread::sleep(count.delay());
                        }
                    } else {
                        slept?;
                    }
                    counted += 1;
                    match broken {
                        Some(Step::Progress) => {}
                        Some(Step::Cancel) => _ = cx.progress(count.progress(counted)),
                        _ => cx.progress(count.progress(counted))?,
                    }
                }
                Ok::<_, RpcError>(format!("counted to {counted}"))
            }),
        );
    }

    let tool = harmless(schema::tool::<NoArguments>("fail"));
    let tool = tool.title("Fail").description("Always reports an error, as a tool does");
    router.tool_with(
        tool,
        handler!(|_, _: NoArguments| {
            let text = "this tool always fails";
            if broken == Some(Step::Error) { Ok(text) } else { Err(text) }
        }),
    );
}

/// A whole number however it is spelt: `5`, `5.0` and `5e0` are the same number in JSON
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        // In range and whole, so nothing is lost.
        Ok(number as u32)
    } else {
        Err(serde::de::Error::custom("not a whole number in range"))
    }
}

/// The sum; none when it is no number that JSON has
fn sum(a: &Number, b: &Number) -> Option<Number> {
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    exact.map(Number::from).or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_where_they_can_be() {
        let number = |text: &str| serde_json::from_str::<Number>(text).expect("a number");
        let cases = [
            ("20", "22", Some("42")),
            ("2", "3.5", Some("5.5")),
            ("9007199254740993", "0", Some("9007199254740993")),
            ("9223372036854775807", "1", Some("9223372036854775808.0")),
            ("1e308", "1e308", None),
        ];
        for (a, b, want) in cases {
            assert_eq!(sum(&number(a), &number(b)), want.map(number), "{a} + {b}");
        }
    }

    #[test]
    fn whole_numbers_may_be_spelt_in_any_way() {
        let to = |text: &str| serde_json::from_str::<Count>(&format!("{{\"to\":{text}}}")).ok().map(|c| c.to);
        assert_eq!([to("5"), to("5.0"), to("5e0")], [Some(5); 3]);
        assert_eq!([to("-1"), to("1.5"), to("1e300"), to("\"5\"")], [None; 4]);
    }
}
