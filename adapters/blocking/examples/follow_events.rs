//! Follows the events of a server, and prints each as a line: `follow_events URL [TYPE [ARGUMENTS]]`. Without a type it lists them.
//!
//! With the example `events` as the server: `follow_events http://127.0.0.1:8080/mcp tide.turned '{"harbour":"Cobh"}'`.

use std::env;

use mcp_blocking::Client;
use mcp_events::client::BlockingEventsClient;
use mcp_events::follow::FollowEvent;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().ok_or("usage: follow_events URL [TYPE [ARGUMENTS]]")?;
    let (name, filter) = (arguments.next(), arguments.next());
    let client = Client::connect_url(&url)?;
    let events = BlockingEventsClient::new(&client);
    let Some(name) = name else {
        for described in events.list()? {
            println!("{} {:?}", described.name, described.delivery);
        }
        return Ok(());
    };
    let filter: serde_json::Value = serde_json::from_str(filter.as_deref().unwrap_or("{}"))?;
    let follower = events.follow(&name, &filter)?;
    eprintln!("follows {name} by {:?}", follower.mode());
    // A lost stream, or a server that starts anew, does not end the loop.
    for event in follower {
        match event? {
            FollowEvent::Event(event) => println!("{} {} {}", event.timestamp, event.event_id, event.data),
            FollowEvent::Gap { reason, .. } => eprintln!("events may be missing: {reason:?}"),
            FollowEvent::Error(error) => eprintln!("goes on after: {error}"),
            FollowEvent::Ended(error) => eprintln!("the end: {error}"),
            _ => {}
        }
    }
    Ok(())
}
