//! The tool of the demonstration server that takes its time.

use core::time::Duration;
use std::thread;

use mcp_proto::router::schema::schemars;
use mcp_proto::{Progress, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::Router;
use crate::TourStep;
use crate::demonstration::read_only;

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

/// Registers the tool; `broken` is the step of the tour to perform wrongly.
pub(super) fn register(router: &mut Router, broken: Option<TourStep>) {
    if broken == Some(TourStep::List) {
        return;
    }
    let count = handler!(|cx, count: CountToolArguments| {
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
    });
    router
        .tool("count", count)
        .title("Count")
        .description("Counts from 1, slowly, and reports progress; can be cancelled")
        .annotations(read_only())
        .repeatable();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_argument_accepts_any_json_notation() {
        let to = |text: &str| {
            serde_json::from_str::<CountToolArguments>(&format!("{{\"to\":{text}}}")).ok().map(|c| c.to)
        };
        assert_eq!([to("5"), to("5.0"), to("5e0")], [Some(5); 3]);
        assert_eq!([to("-1"), to("1.5"), to("1e300"), to("\"5\"")], [None; 4]);
    }
}
