//! `events follow`: prints the events of a type as they come.

use core::time::Duration;
use std::time::Instant;

use mcp_events::client::{Error, EventsClient, FollowOptions};
use mcp_events::follow::{FollowError, FollowEvent, GapReason};
use mcp_events::wire::DeliveryMode;
use mcp_proto::RawJson;
use mcp_runtime::client::{AsyncCalls, ClientBackend};

use super::args::EventsFollowArgs;
use super::{arguments, failure, note_gap, print_event};
use crate::client::ClientOperation;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes;
use crate::session::ClientSession;

pub(super) fn run(session: &ClientSession, args: &EventsFollowArgs) -> Result<(), CommandFailure> {
    let begun = Instant::now();
    let arguments = arguments(session, &args.event)?;
    let until = args.end.time.map(|time| begun + time);
    let outcome = session.client.run(Follow { args, arguments, until });
    match outcome.map_err(|error| failure(session, &error))? {
        FollowEnd::Limit => Ok(()),
        FollowEnd::Server(error) => {
            Err(CommandFailure::failed(format!("the subscription has ended: {error}")))
        }
        FollowEnd::Output(failure) => Err(failure),
    }
}

struct Follow<'a> {
    args: &'a EventsFollowArgs,
    arguments: RawJson,
    until: Option<Instant>,
}

/// Reason why following ends.
enum FollowEnd {
    /// `--count` is reached, or `--for` has elapsed.
    Limit,
    /// The server has ended it.
    Server(FollowError),
    /// Nothing can be printed.
    Output(CommandFailure),
}

impl ClientOperation for Follow<'_> {
    type Value = FollowEnd;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, Error> {
        let Self { args, arguments, until } = self;
        let mut options = FollowOptions::new();
        if let Some(cursor) = &args.event.cursor {
            options = options.cursor(cursor);
        }
        if args.poll {
            options = options.only_polls();
        }
        let mut follower =
            EventsClient::new(calls).follow_with(&args.event.name, &arguments, options).await?;
        let how = if *follower.mode() == DeliveryMode::Push { "a stream" } else { "polls" };
        notes::print_stderr(&format!("following by {how}"));
        let mut count = 0;
        let mut cursor = args.event.cursor.clone();
        loop {
            // The events of a poll have one position, behind the last of them.
            follower.set_max_events(args.end.count.map(|limit| limit - count));
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let event = match follower.next_within(left.unwrap_or(LONG_WAIT)).await? {
                Some(event) => event,
                None if left.is_some_and(|left| left <= LONG_WAIT) => break,
                None => continue,
            };
            cursor = follower.cursor().map(String::from).or(cursor);
            match event {
                FollowEvent::Event(event) => {
                    if let Err(failure) = print_event(&event, args.json) {
                        return Ok(FollowEnd::Output(failure));
                    }
                    count += 1;
                    if args.end.count.is_some_and(|limit| count >= limit) {
                        break;
                    }
                }
                FollowEvent::Gap { reason, .. } => note_gap(describe(reason)),
                FollowEvent::Error(error) => notes::print_note(&error.to_string()),
                FollowEvent::Ended(error) => return Ok(FollowEnd::Server(error)),
                _ => {}
            }
        }
        if let Some(cursor) = cursor {
            notes::print_stderr(&escape::line(&format!("cursor {cursor}")));
            if follower.cursor().is_none() && count > 0 {
                notes::print_note(
                    "the server sent more events at once than --count: the last ones come again from this cursor",
                );
            }
        }
        Ok(FollowEnd::Limit)
    }
}

/// Returns the cause of a gap.
pub(super) const fn describe(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Truncated => "the server has skipped some",
        GapReason::CursorRefused => "the server did not take the cursor",
        GapReason::NoReplay => "the stream was interrupted, and the type has no replay",
        GapReason::TypeChanged => "the type was removed or changed, and is there again",
        _ => "there was a gap",
    }
}

/// Wait of a command without `--for`.
const LONG_WAIT: Duration = Duration::from_secs(3600);
