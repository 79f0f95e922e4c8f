//! The bindings of both roles: against each other, under hostile peers and random schedules, and on real sockets.

mod exchanges;
mod hostile_peers;
mod simulation;
mod sockets;
