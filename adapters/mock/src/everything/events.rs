//! Event types whose events happen by themselves.
//!
//! All servers of this process have the same events, so that the cursors of one connection are valid on another.

use core::time::Duration;
use std::sync::OnceLock;
use std::thread;

use mcp_events::server::{AddEventError, Event, Events, Publisher};
use mcp_events::source::SourceConfig;
use mcp_events::wire::{DeliveryMode, Profile};
use mcp_proto::router::schema::schemars::{self, JsonSchema};
use mcp_runtime::server::router::RegisterFunctions;
use serde::{Deserialize, Serialize};

/// Chooses whose tides are told.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TideArguments {
    /// Harbour whose tides are wanted: `Cobh` or `Kinsale`; both without it.
    harbour: Option<String>,
}

/// The water has risen or fallen in a harbour.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Tide {
    /// Name of the harbour.
    harbour: String,
    /// Height of the water in centimetres.
    height: u32,
}

/// Chooses nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AllShips {}

/// A ship has arrived.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Arrival {
    /// Name of the ship.
    ship: String,
    /// Number of its berth.
    berth: u32,
}

/// A lighthouse was lit, which is only told to those who listen.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Lit {
    /// Name of the lighthouse.
    lighthouse: String,
}

/// Adds the events of this process to a router. The first one that does so is told by `note` what fails.
pub(super) fn register(router: &mut impl RegisterFunctions, note: fn(&str)) {
    static EVENTS: OnceLock<Option<Events>> = OnceLock::new();
    let events = EVENTS
        .get_or_init(|| start(note).inspect_err(|error| note(&format!("there are no events: {error}"))).ok());
    if let Some(events) = events {
        router.as_router().extension(events.clone());
    }
}

/// Creates the types, and the thread that publishes their events.
///
/// # Errors
///
/// The operating system has no randomness or no thread.
fn start(note: fn(&str)) -> Result<Events, Box<dyn core::error::Error>> {
    let mut profile = Profile::SEP;
    // So that clients of each era have something to try.
    profile.is_legacy_allowed = true;
    let mut config = SourceConfig::default();
    config.next_poll = 2 * TICK;
    let events = Events::with(config, profile)?;
    let mut harbour = Harbour::add_to(&events)?;
    thread::Builder::new().name("events".into()).spawn(move || {
        loop {
            thread::sleep(TICK);
            harbour.tick(note);
        }
    })?;
    Ok(events)
}

/// What happens in the harbours, second by second.
struct Harbour {
    tides: Publisher<Tide>,
    arrivals: Publisher<Arrival>,
    lights: Publisher<Lit>,
    seconds: u32,
}

impl Harbour {
    fn add_to(events: &Events) -> Result<Self, AddEventError> {
        let tides = Event::<TideArguments, Tide>::typed("tide.changed")
            .matching(|wanted, tide| wanted.harbour.as_ref().is_none_or(|harbour| *harbour == tide.harbour));
        let lights = Event::<AllShips, Lit>::typed("lighthouse.lit").modes([DeliveryMode::Push]);
        Ok(Self {
            tides: events.add(tides)?,
            arrivals: events.add(Event::<AllShips, Arrival>::typed("ship.arrived"))?,
            lights: events.add(lights)?,
            seconds: 0,
        })
    }

    fn tick(&mut self, note: fn(&str)) {
        self.seconds = self.seconds.wrapping_add(1);
        let height = 200 + self.seconds % 12 * 10;
        let published = ["Cobh", "Kinsale"]
            .into_iter()
            .try_for_each(|harbour| self.tides.publish(&Tide { harbour: harbour.into(), height }))
            .and_then(|()| match self.seconds % 2 {
                0 => {
                    let ship = if self.seconds % 4 == 0 { "Asgard" } else { "Ilen" };
                    self.arrivals.publish(&Arrival { ship: ship.into(), berth: self.seconds % 8 + 1 })
                }
                _ => self.lights.publish(&Lit { lighthouse: "Roches Point".into() }),
            });
        // The types are never removed, and nothing is stored.
        if let Err(error) = published {
            note(&format!("an event was not published: {error}"));
        }
    }
}

/// Time between two steps of the harbour.
const TICK: Duration = Duration::from_secs(1);
