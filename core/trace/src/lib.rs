#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
//! Traces of the Model Context Protocol: recorded with times and cuts, replayed, and reduced to a test.
//!
//! A trace holds what a client and a server said to each other: each line with its time in microseconds, and where reads cut it.
//! That is all that an engine without I/O gets, so its replay is exact: the same input at the same instants gives the same output,
//! byte for byte.
//!
//! ```
//! use mcp_proto_trace::{Header, Mask, Recorder, Side, Trace, engine};
//!
//! // What passes is recorded…
//! let mut recorder = Recorder::new(Vec::new(), Header::new("my-program 1.0", 0), Mask::default(), 1 << 20)?;
//! recorder.bytes(10, Side::Client, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"met");
//! recorder.bytes(25, Side::Client, b"hod\":\"ping\"}\n");
//! recorder.bytes(40, Side::Server, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
//! let file = recorder.finish();
//!
//! // … and played again: the engine of a server says the same.
//! let trace = Trace::read(&*file, 1 << 20)?;
//! let outcome = engine::replay(&trace, Side::Server);
//! assert_eq!((outcome.identical, outcome.difference()), (1, None));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | what it enables |
//! |---|---|
//! | `io` | `io`: a recording proxy over HTTP, a loop between two streams, a trace played against a peer; on `std` |
//! | `tls` | `https` in `io::serve_http`; enables `io`; the build needs a C compiler |
//! | `views` | `views`: the differences of two traces, a page, HTTP exchanges and spans |
//!
//! # Format
//!
//! A trace is NDJSON. Its first line is the header, `{"mcpTrace":1,"by":…,"unixMillis":…,"command":[…],"masked":true}`; each other line
//! is a record with the members `t` (microseconds since the recording began), `from` (`client` or `server`) and one of these:
//!
//! | member | meaning |
//! |---|---|
//! | `line` | a line of the stream without its newline; over HTTP a body, or the data of an event |
//! | `base64` | the same, if it is not UTF-8 |
//! | `omitted` | the number of bytes of a line that is longer than [`MAX_LINE`] |
//! | `head` | the head of an HTTP message |
//! | `end` | the end of what this side says, and how it ended |
//! | `stderr` | a line of the server's stderr |
//! | `lost` | the number of bytes that passed and were not recorded |
//!
//! A line may also have `cuts`, an array of `[offset, t]` at which further reads began; `joined`, if it came in the same read as the line
//! before it from the same side; `open`, if its newline never came; `event`, the other fields of an event. Over HTTP each record has
//! the number of its `exchange`. Lines stand in the order in which they were complete. Readers ignore members that they do not
//! know; another number in `mcpTrace` is refused.
//!
//! # Secrets
//!
//! A [`Mask`] replaces values by [`REPLACEMENT`] before they are written: those of members such as `password` and `slackBotToken`,
//! at any depth and in JSON within texts, those of variables, header fields, parameters and arguments of commands with such names
//! ([`is_secret_name`]), also apart from them (`["--password", "…"]`, `{"name": "API_KEY", "value": "…"}`), passwords in URLs, and texts that look like tokens or keys (`ghp_…`, JWTs, PEM) wherever they stand
//! ([`find_secret`]). It knows usual names and forms, and no others: an object under such a name is taken for a schema,
//! whose members have names of their own. Look at a trace before you give it away, and name your own members by [`Mask::name`].
//! [`Header::seal_seed`] is a secret that no mask can hide, because a replay needs it.
//!
//! # Bounds
//!
//! | what | at most | beyond |
//! |---|---|---|
//! | a line | [`MAX_LINE`] | recorded by its length |
//! | cuts of a line | 1,024 | the last one has the rest |
//! | a trace that is written | `max_bytes` of [`Recorder::new`] | the recording ends with a whole line, and what is lost is counted |
//! | a trace that is read | `max_bytes` of [`Trace::read`] | [`TraceError::TooLarge`] |
//! | attempts of [`shrink`] | `max_attempts` | what is left then |
//!
//! # What an engine cannot be made to say
//!
//! What an application did is not in a trace. It follows from its messages: a response that was recorded is what the application
//! answered. Where the engines have no command for a message, it is counted in [`Replayed::unplayed`] and not compared: questions of a
//! legacy server outside of a call, responses to calls that were cancelled, tasks of a server. A message that they refuse to send, such as an
//! elicitation for a client that has not declared it, is a difference. Over HTTP the messages
//! of all exchanges are one stream: a trace has to be of one client.
extern crate alloc;

mod calls;
mod compare;
pub mod engine;
pub mod escape;
#[cfg(feature = "io")]
pub mod io;
mod known_secrets;
mod mask;
mod message;
mod playback;
mod record;
mod recorder;
mod secrets;
mod shrink;
mod trace;
#[cfg(feature = "views")]
pub mod views;

pub use calls::{Call, Calls, Outcome};
pub use compare::{Difference, Replayed};
pub use known_secrets::{Secrets, masked, rewrite_texts};
pub use mask::{Mask, REPLACEMENT};
pub use message::Message;
pub use playback::{Playback, RecordedServer};
pub use record::{Content, Cut, FORMAT_VERSION, Header, Line, Record, Side, Text};
pub use recorder::{MAX_LINE, Recorder};
pub use secrets::{FoundSecret, find_secret, is_secret_name};
pub use shrink::shrink;
pub use trace::{Trace, TraceError};
