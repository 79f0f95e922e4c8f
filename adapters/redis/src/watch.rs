//! A watch: a thread with a connection of its own, which is made anew when it is lost.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;
use std::{io, thread};

use mcp_std::session_store::{Watch, WatchReceiver, Watched};
use redis::{RedisError, Value, cmd};

use crate::RedisStoreError;
use crate::connections::Connections;

/// Passes the messages of the first channel to a receiver, and subscribes to the other one. Returns once the server sends
/// them.
pub(crate) fn watch(
    connections: &Arc<Connections>,
    channels: [String; 2],
    receiver: WatchReceiver,
) -> Result<Watch, RedisStoreError> {
    // Dropping the guard is the end of the watch.
    let (guard, ended) = mpsc::channel();
    let (report, first) = mpsc::sync_channel(1);
    let watcher = Watcher { connections: connections.clone(), channels, receiver, ended };
    let started = thread::Builder::new().name("mcp-redis-watch".into()).spawn(move || watcher.run(report));
    started.map_err(|error| connections.error(&error.into()))?;
    match first.recv() {
        Ok(Ok(())) => Ok(Watch::new(guard)),
        Ok(Err(error)) => Err(connections.error(&error)),
        Err(mpsc::RecvError) => Err(connections.error(&io::Error::other("panic").into())),
    }
}

struct Watcher {
    connections: Arc<Connections>,
    channels: [String; 2],
    receiver: WatchReceiver,
    ended: mpsc::Receiver<()>,
}

impl Watcher {
    fn run(&self, report: mpsc::SyncSender<Result<(), RedisError>>) {
        let mut report = Some(report);
        let mut pause = FIRST_PAUSE;
        loop {
            let mut is_subscribed = false;
            let result = self.listen(|| {
                is_subscribed = true;
                match report.take() {
                    Some(report) => drop(report.send(Ok(()))),
                    // What was published since the last connection was lost is lost, too.
                    None => (self.receiver)(Watched::Gap),
                }
            });
            match (result, report.take()) {
                (Ok(()), _) => return,
                (Err(error), Some(report)) => return drop(report.send(Err(error))),
                (Err(_), None) => {}
            }
            if is_subscribed {
                pause = FIRST_PAUSE;
            }
            if self.has_ended_after(pause) {
                return;
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Receives messages until the watch ends.
    fn listen(&self, subscribed: impl FnOnce()) -> Result<(), RedisError> {
        let mut connection = self.connections.connect()?;
        // `PubSub::subscribe` takes a refusal for an answer.
        cmd("SUBSCRIBE").arg(&self.channels).query::<Value>(&mut connection)?;
        let mut messages = connection.as_pubsub();
        subscribed();
        let mut heard = Instant::now();
        loop {
            messages.set_read_timeout(Some(LOOK_INTERVAL))?;
            match messages.get_message() {
                Ok(message) => {
                    heard = Instant::now();
                    if self.has_ended_after(Duration::ZERO) {
                        return Ok(());
                    }
                    if message.get_channel_name() == self.channels[0] {
                        (self.receiver)(Watched::Message(message.get_payload_bytes()));
                    }
                }
                Err(error) if !error.is_timeout() && !is_interrupted(&error) => return Err(error),
                Err(_) if self.has_ended_after(Duration::ZERO) => return Ok(()),
                Err(_) if heard.elapsed() < PING_INTERVAL => {}
                Err(_) => {
                    // Otherwise nothing would tell of a connection that is gone without an end.
                    messages.set_read_timeout(Some(self.connections.settings.answer_timeout))?;
                    messages.ping::<Value>()?;
                    heard = Instant::now();
                }
            }
        }
    }

    fn has_ended_after(&self, time: Duration) -> bool {
        matches!(self.ended.recv_timeout(time), Err(mpsc::RecvTimeoutError::Disconnected))
    }
}

/// Returns whether a signal has ended a wait, after which nothing is lost.
fn is_interrupted(error: &RedisError) -> bool {
    let cause = core::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::Interrupted)
}

/// Time between two looks whether the watch has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Silence after which the server is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The first pause before a lost connection is made anew; then they double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
