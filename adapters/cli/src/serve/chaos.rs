//! `serve --chaos`: a server whose messages are disturbed on their way to the client, the same way for the same seed.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use mcp_blocking::Handle;
#[cfg(unix)]
use mcp_mock::chaos;
use mcp_mock::chaos::Kind;
use mcp_std::io::{Duplex, SerialConfig, Stdio};

use crate::args::duration;
use crate::endpoint::streams;
use crate::failure::CommandFailure;
use crate::output::{print, print_value};

/// Options of disturbed messages.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChaosArgs {
    /// Disturbs messages to the client, the same ones in the same way for the same seed.
    ///
    /// What becomes of a message follows from the seed, the number of its connection and its own number. Each disturbance is
    /// told on stderr. On stdio, --listen and --serial.
    #[arg(long, value_name = "SEED")]
    pub(crate) chaos: Option<u64>,
    /// Selects the kinds of disturbances; all of them unless it is given.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', requires = "chaos", hide_short_help = true)]
    #[arg(hide_possible_values = true, value_parser = kind())]
    chaos_kinds: Vec<Kind>,
    /// Sets how many messages of 100 are disturbed.
    #[arg(long, value_name = "N%", default_value = "10%", value_parser = percentage, requires = "chaos", hide_short_help = true)]
    chaos_rate: u64,
    /// Sets how long a late message waits.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration, requires = "chaos", hide_short_help = true)]
    chaos_delay: Duration,
    /// Leaves the first messages of each connection alone, for example those of the handshake.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "chaos", hide_short_help = true)]
    chaos_after: u64,
    /// Prints the kinds of disturbances: what each does, which rule it violates, and what a client should do.
    #[arg(long)]
    list: bool,
    /// Prints the list as a JSON array.
    ///
    /// Members of an element: kind, does, rules (ids of `mcp-probe check`), client.
    #[arg(long, requires = "list")]
    json: bool,
}

/// Parses the name of a kind.
fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::all().map(Kind::name)).try_map(|name| Kind::from_name(&name).ok_or(name))
}

/// Parses a percentage: `10%`, `10`.
fn percentage(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| *percent <= 100).ok_or_else(|| "must be from 0% to 100%: write 10%".into())
}

impl ChaosArgs {
    /// Prints the table of kinds if it is asked for. Returns whether it was.
    ///
    /// # Errors
    ///
    /// Fails if stdout cannot be written to.
    pub(super) fn print_list(&self) -> Result<bool, CommandFailure> {
        if !self.list {
            return Ok(false);
        }
        if self.json {
            print_value(&Kind::table())?;
        } else {
            print(&Kind::list())?;
        }
        Ok(true)
    }
}

/// What disturbs the connections of a server, if anything does.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has a relay"))]
pub(super) struct Chaos {
    args: ChaosArgs,
    /// Number of connections so far.
    connections: AtomicU64,
    is_numbered: bool,
    /// A signal has come: a client that does not read is not waited for.
    is_signalled: Arc<AtomicBool>,
}

impl Chaos {
    /// Returns what the options ask for. Disturbances name their connection if there may be several.
    pub(super) fn new(args: &ChaosArgs, is_numbered: bool) -> Self {
        let (args, connections) = (args.clone(), AtomicU64::new(0));
        Self { args, connections, is_numbered, is_signalled: Arc::default() }
    }

    /// Lets the only server end when a signal arrives.
    pub(super) fn shut_down_on_signal(&self, handle: Handle) {
        let is_signalled = Arc::clone(&self.is_signalled);
        crate::stop::run_on_signal(move || {
            is_signalled.store(true, Ordering::Release);
            handle.shutdown(crate::stop::GRACE_PERIOD);
        });
    }

    /// Opens the stream of the only client: the serial line of the options, or stdin and stdout.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be opened.
    pub(super) fn open_stream(
        &self,
        serial: Option<&SerialConfig>,
    ) -> Result<Box<dyn Duplex + Send>, CommandFailure> {
        if let Some(serial) = serial {
            return Ok(Box::new(streams::open_serial(serial)?));
        }
        let unusable = |error: std::io::Error| CommandFailure::from_serve_error(&error.into());
        #[cfg_attr(not(unix), expect(unused_mut, reason = "nothing is set"))]
        let mut stdio = Stdio::guarded().map_err(unusable)?;
        #[cfg(unix)]
        if self.args.chaos.is_some() {
            // The relay reads before it waits.
            stdio.set_read_nonblocking().map_err(unusable)?;
        }
        Ok(Box::new(stdio))
    }

    /// Runs `serve` on the stream of a client, or on one to a relay that disturbs what goes to the client.
    ///
    /// # Errors
    ///
    /// Fails if `serve` does, or if there can be no relay: only Unix has one.
    pub(super) fn around(
        &self,
        client: Box<dyn Duplex + Send>,
        serve: impl FnOnce(Box<dyn Duplex + Send>) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        match self.args.chaos {
            None => serve(client),
            #[cfg(not(unix))]
            Some(_) => Err(CommandFailure::usage("--chaos needs a Unix system")),
            #[cfg(unix)]
            Some(seed) => {
                let connection = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let print = crate::notes::print_stderr;
                let kinds = match &*self.args.chaos_kinds {
                    [] => Kind::all().collect(),
                    kinds => kinds.to_vec(),
                };
                let (rate, delay) = (self.args.chaos_rate, self.args.chaos_delay);
                let chaos = chaos::Chaos { seed, kinds, rate, delay, after: self.args.chaos_after };
                let filter = chaos::Filter::new(&chaos, connection, self.is_numbered, print);
                let end =
                    chaos::End { is_signalled: Arc::clone(&self.is_signalled), ..chaos::End::default() };
                let failed = |error: std::io::Error| CommandFailure::failed(format!("--chaos: {error}"));
                let (server, relay) = chaos::start(client, filter, end.clone()).map_err(failed)?;
                let served = serve(Box::new(server));
                // What is on its way comes before the end of the program, but nothing is late any more.
                end.is_server_gone.store(true, Ordering::Release);
                match relay.join() {
                    Ok(relayed) => served.and_then(|()| relayed.map_err(failed)),
                    Err(_) => served,
                }
            }
        }
    }
}
