//! The device: four registers, a sensor, and a resource that follows the sensor.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_embedded::Application;
use mcp_proto::model::{CallToolResult, Resource, Tool};
use mcp_proto::router::{CallTarget, HandlerError, IntoReadResult, IntoToolResult, Route, Router};
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{CallId, Capability, Change, Instant, Progress, RawJson, RpcError, UseError};
use serde::Deserialize;

/// The resource that changes.
const TEMPERATURE: &str = "device://temperature";
/// Interval of its changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(500);
/// Time of one sample of the sensor.
const SAMPLE_TIME: Duration = Duration::from_millis(10);

/// The entries that the device serves.
#[derive(Clone, Copy)]
enum Entry {
    Register,
    Sensor,
    Temperature,
}

#[derive(Deserialize)]
struct RegisterArguments<'a> {
    address: usize,
    /// The new value; the register is only read without it.
    value: Option<u32>,
    /// A note that is kept for nothing: it makes calls of any length.
    note: Option<&'a str>,
}

#[derive(Deserialize)]
struct SensorArguments {
    samples: Option<u32>,
}

/// A measurement that is under way.
struct Measurement {
    call: CallId,
    samples: u32,
    done: u32,
    sum: u64,
    next: Instant,
}

/// The device and its measurements; as many as there may be calls.
pub struct Device {
    router: Router<Entry>,
    state: State,
    next_change: Instant,
}

struct State {
    registers: [u32; 4],
    measurements: Vec<Measurement>,
}

impl Device {
    /// Creates the device. All registers are 0.
    pub fn new() -> Self {
        let mut router = Router::new("device", env!("CARGO_PKG_VERSION"));
        // A text that is no JSON, or a name that is taken, shows at the first start.
        let added = add_entries(&mut router);
        debug_assert!(added.is_some(), "an entry is not valid");
        let state = State { registers: [0; 4], measurements: Vec::new() };
        Self { router, state, next_change: Instant::ZERO }
    }

    /// Returns the configuration of the server.
    pub fn config(&self) -> Config {
        self.router.config()
    }

    fn answer(&mut self, now: Instant, engine: &mut Engine, call: &Call) -> Result<(), UseError> {
        let routed = match self.router.route(call) {
            Route::Answer(answer) => return engine.complete(now, call.id(), &answer),
            Route::Refuse(error) => return engine.fail(now, call.id(), &error),
            Route::Handle(routed) => routed,
            _ => return engine.fail(now, call.id(), &RpcError::method_not_found(call.method())),
        };
        match (routed.handler, &routed.target) {
            (Entry::Register, CallTarget::Tool(tool)) => {
                let result = match tool.parse::<RegisterArguments<'_>>() {
                    Ok(arguments) => self.state.register(&arguments),
                    Err(invalid) => return complete(now, engine, call, invalid.into_result()),
                };
                complete(now, engine, call, result.into_tool_result())
            }
            (Entry::Sensor, CallTarget::Tool(tool)) => {
                let samples = match tool.parse::<SensorArguments>() {
                    Ok(arguments) => arguments.samples.unwrap_or(1).max(1),
                    Err(invalid) => return complete(now, engine, call, invalid.into_result()),
                };
                let next = now + SAMPLE_TIME;
                self.state.measurements.push(Measurement { call: call.id(), samples, done: 0, sum: 0, next });
                Ok(())
            }
            (Entry::Temperature, CallTarget::Resource(read)) => {
                let text = format!("{:.1}", celsius(now));
                match text.into_read_result(&read.uri, read.mime_type) {
                    Ok(result) => engine.complete(now, call.id(), &result),
                    Err(error) => engine.fail(now, call.id(), &error.into_rpc_error()),
                }
            }
            _ => engine.fail(now, call.id(), &RpcError::internal("an entry of another kind")),
        }
    }
}

fn add_entries(router: &mut Router<Entry>) -> Option<()> {
    let schema = RawJson::new(
        r#"{"type":"object","properties":{"address":{"type":"integer","minimum":0,"maximum":3},"value":{"type":"integer"},"note":{"type":"string"}},"required":["address"]}"#,
    );
    let tool =
        Tool::new("register", schema.ok()?).description("Reads a register, or writes it and reads it back");
    router.tool(tool, Entry::Register).ok()?;
    let schema = RawJson::new(r#"{"type":"object","properties":{"samples":{"type":"integer","minimum":1}}}"#);
    let tool =
        Tool::new("sensor", schema.ok()?).description("Measures the temperature, 10 ms for each sample");
    router.tool(tool, Entry::Sensor).ok()?;
    let resource = Resource::new(TEMPERATURE, "temperature").description("Changes twice in a second");
    router.declare(Capability::ResourceSubscriptions);
    router.resource(resource.mime_type("text/plain"), Entry::Temperature).ok()?;
    Some(())
}

fn complete(
    now: Instant,
    engine: &mut Engine,
    call: &Call,
    result: Result<CallToolResult<'static>, HandlerError>,
) -> Result<(), UseError> {
    match result.or_else(HandlerError::into_result) {
        Ok(result) => engine.complete(now, call.id(), &result),
        Err(error) => engine.fail(now, call.id(), &error),
    }
}

impl State {
    fn register(&mut self, arguments: &RegisterArguments<'_>) -> Result<String, String> {
        let RegisterArguments { address, value, note } = arguments;
        let Some(register) = self.registers.get_mut(*address) else {
            return Err(format!("there is no register {address}: they are 0 to 3"));
        };
        if let Some(value) = value {
            *register = *value;
        }
        let noted = note.map_or(0, str::len);
        Ok(if noted == 0 { format!("{register}") } else { format!("{register} ({noted} bytes noted)") })
    }
}

/// Returns the simulated temperature.
fn celsius(now: Instant) -> f64 {
    // Up and down by half a degree in eight seconds.
    let phase = (now.as_micros() / 1_000) % 8_000;
    20.0 + (if phase < 4_000 { phase } else { 8_000 - phase }) as f64 / 8_000.0
}

impl Application for Device {
    fn handle_event(&mut self, now: Instant, engine: &mut Engine, event: Event) {
        match event {
            // A result that cannot be written. A call that has ended meanwhile needs no answer.
            Event::Call(call) if self.answer(now, engine, &call).is_err() => {
                let _ = engine.fail(now, call.id(), &RpcError::internal("the result cannot be written"));
            }
            Event::Cancelled { call, .. } => self.state.measurements.retain(|m| m.call != call),
            _ => {}
        }
    }

    fn poll(&mut self, now: Instant, engine: &mut Engine) -> Option<Instant> {
        if self.next_change <= now {
            self.next_change = now + CHANGE_INTERVAL;
            engine.publish(now, &Change::Resource(TEMPERATURE.into()));
        }
        for m in self.state.measurements.iter_mut().filter(|m| m.next <= now) {
            m.next = now + SAMPLE_TIME;
            m.done += 1;
            m.sum += (celsius(now) * 1_000.0) as u64;
            let progress = Progress::new(m.done.into()).with_total(m.samples.into());
            let _ = engine.progress(now, m.call, progress);
            if m.done == m.samples {
                let mean = m.sum as f64 / f64::from(m.done) / 1_000.0;
                let result = CallToolResult::text(format!("{mean:.2}"));
                if engine.complete(now, m.call, &result).is_err() {
                    let _ = engine.fail(now, m.call, &RpcError::internal("the result cannot be written"));
                }
            }
        }
        self.state.measurements.retain(|m| m.done < m.samples);
        self.state.measurements.iter().map(|m| m.next).chain([self.next_change]).min()
    }
}
