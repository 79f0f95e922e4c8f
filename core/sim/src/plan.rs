//! The plan of a world: its binding, its size and its faults.

use core::fmt::Write as _;

/// The binding that carries the messages of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// A byte stream between each client and a server process of its own, as on stdio.
    #[default]
    Pipe,
    /// HTTP: one server, and clients that authenticate with a token each. A client that is started again has another number and
    /// another token.
    Http,
    /// HTTP+SSE of 2024-11-05: as [`Http`](Self::Http), but all messages to a client come on one event stream, which is its
    /// connection and is never resumed. A client that does not speak 2024-11-05 finds no server.
    HttpSse,
}

/// Declares the plan with the values of [`Plan::new`], a method for each field that sets it, and the list of fields that were set.
macro_rules! plan {
    ($($(#[doc = $about:literal])* $(#[cfg(feature = $feature:literal)])? $name:ident: $kind:ty = $calm:expr,)*) => {
        /// Size and faults of a world. A fault has a weight: how often it is chosen, while all else together has 100; 0 is never.
        /// The sum of all weights is below 2^31.
        ///
        /// A plan begins as one of the constants, or as [`Plan::new`], and each field is set by its name:
        ///
        /// ```
        /// use mcp_sim::Plan;
        ///
        /// // A storm for one client, and a plan with one fault.
        /// let _ = [Plan::STORM.clients(1), Plan::new().steps(50).reset(10)];
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Plan {
            $($(#[doc = $about])* $(#[cfg(feature = $feature)])? pub $name: $kind,)*
        }

        impl Plan {
            /// Returns the plan of one client on a byte stream, without steps and without faults.
            ///
            /// A later release adds a fault as one that never happens here, so a test that was kept means what it meant.
            #[must_use]
            pub const fn new() -> Self {
                Self { $($(#[cfg(feature = $feature)])? $name: $calm,)* }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](field@Self::", stringify!($name), ").")]
                $(#[cfg(feature = $feature)])?
                #[must_use]
                pub const fn $name(self, $name: $kind) -> Self {
                    Self { $name, ..self }
                }
            )*

            /// Returns the fields that are not those of [`new`](Self::new), and their values.
            fn changes_to_new(&self) -> impl Iterator<Item = (&'static str, String)> {
                let new = Self::new();
                let all = [$(
                    $(#[cfg(feature = $feature)])?
                    (stringify!($name), self.$name != new.$name, format!("{:?}", self.$name)),
                )*];
                all.into_iter().filter(|(_, is_set, _)| *is_set).map(|(name, _, value)| (name, value))
            }
        }
    };
}

plan! {
    /// The binding of all connections.
    binding: Binding = Binding::Pipe,
    /// Number of clients; 0 counts as 1. On a pipe each has a server process of its own.
    clients: u32 = 1,
    /// Number of steps before the world is left to come to rest. A replay has as many as its decisions.
    steps: usize = 0,
    /// Most milliseconds by which bytes are late.
    delay: u32 = 0,
    /// Whether writes are cut at any byte.
    cuts: bool = false,
    /// Weight of a link that breaks, where bytes under way are lost and both sides see the end, or of a server that aborts or shuts
    /// down. Over HTTP one exchange, those of a client, or all of them break.
    reset: u32 = 0,
    /// Weight of the death of a server, or of a client. Both are started again with the next call. A server over HTTP sometimes has
    /// written down its sessions before, and goes on with them.
    death: u32 = 0,
    /// Weight of a side that stops or begins to read.
    stall: u32 = 0,
    /// Weight of a line that none of the sides has written. Over HTTP it is the request of a stranger, who has a token of his own.
    hostile: u32 = 0,
    /// Weight of a clock that jumps forward, by up to two hours.
    clock_jump: u32 = 0,
    /// Weight of a request that its server never answers.
    silence: u32 = 0,
    /// Weight of a resource that changes, or that a client begins or ends to follow.
    changes: u32 = 0,
    /// Weight of a request about which the server asks its client. Clients answer with twice this weight.
    questions: u32 = 0,
    /// Weight of a request that becomes a task. Half of the calls of tools may become one, unless this is 0.
    tasks: u32 = 0,
    /// Whether both sides have the limits of a tiny device, and a link holds 2 KB.
    tight: bool = false,
    /// Weight of memory that runs out, or is there again. Unless this is 0, both sides have [`MEMORY_RESERVE`](Self::MEMORY_RESERVE) as
    /// [`Limits::memory_reserve`](mcp_proto::Limits::memory_reserve), and all else of their limits is the default, or that of a tiny device.
    ///
    /// Memory is the program's: its allocator refuses what is as large as the reserve while the world has
    /// [said](crate::Application::set_out_of_memory) so. Without such an allocator nothing happens.
    out_of_memory: u32 = 0,
    /// [`Limits::max_memory`](mcp_proto::Limits::max_memory) of servers, or 0 for the default, which no world reaches.
    max_memory: usize = 0,
    /// Whether each exchange over HTTP is the bytes of HTTP/1.1 on a connection of its own, so that heads are cut, too. Otherwise a head
    /// arrives whole.
    http1: bool = false,
    /// Weight of events: one is published, a client begins or ends to follow some, a delivery arrives, late, twice or not at all, or
    /// a stranger forges one, or a server loses its store.
    #[cfg(feature = "events")]
    events: u32 = 0,
}

impl Plan {
    /// Bytes that both sides want to be free before they take, answer or send anything, in a world where memory may
    /// [run out](field@Self::out_of_memory): more than a world itself ever needs in one piece.
    pub const MEMORY_RESERVE: usize = 1 << 30;

    /// Two clients without faults.
    pub const CALM: Self = Self { clients: 2, steps: 120, changes: 5, ..Self::new() };
    /// Three clients with every fault.
    pub const STORM: Self = Self {
        clients: 3,
        steps: 200,
        delay: 40,
        cuts: true,
        reset: 2,
        death: 3,
        stall: 4,
        hostile: 6,
        clock_jump: 1,
        silence: 8,
        changes: 10,
        questions: 5,
        tasks: 4,
        ..Self::new()
    };
    /// Three clients with every fault, on devices whose limits are reached all the time.
    pub const TIGHT: Self =
        Self { reset: 1, death: 1, stall: 8, clock_jump: 0, silence: 10, tight: true, ..Self::STORM };
    /// Two clients over HTTP without faults.
    pub const HTTP_CALM: Self = Self { binding: Binding::Http, ..Self::CALM };
    /// Three clients over HTTP with every fault.
    pub const HTTP_STORM: Self =
        Self { binding: Binding::Http, steps: 400, reset: 6, death: 1, silence: 4, ..Self::STORM };
    /// Three clients over HTTP with every fault, on devices whose limits are reached all the time.
    pub const HTTP_TIGHT: Self = Self { binding: Binding::Http, steps: 300, ..Self::TIGHT };
    /// Two clients over HTTP+SSE without faults.
    pub const HTTP_SSE_CALM: Self = Self { binding: Binding::HttpSse, ..Self::HTTP_CALM };
    /// Three clients over HTTP+SSE with every fault.
    pub const HTTP_SSE_STORM: Self = Self { binding: Binding::HttpSse, reset: 2, ..Self::HTTP_STORM };
    /// Three clients over HTTP+SSE with every fault, on devices whose limits are reached all the time.
    pub const HTTP_SSE_TIGHT: Self = Self { binding: Binding::HttpSse, ..Self::HTTP_TIGHT };

    /// [`STORM`](Self::STORM) with events.
    #[cfg(feature = "events")]
    pub const EVENTS: Self = Self { steps: 300, events: 60, ..Self::STORM };
    /// [`HTTP_STORM`](Self::HTTP_STORM) with events.
    #[cfg(feature = "events")]
    pub const HTTP_EVENTS: Self = Self { events: 60, ..Self::HTTP_STORM };

    /// Writes the plan as an expression, as a test that is kept has it: without what was not set, so that it compiles and means the
    /// same after a field was added.
    pub(crate) fn to_source(self) -> String {
        let mut text = "mcp_sim::Plan::new()".to_owned();
        for (name, value) in self.changes_to_new() {
            let path = if name == "binding" { "mcp_sim::Binding::" } else { "" };
            let _ = write!(text, "\n        .{name}({path}{value})");
        }
        text
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}
