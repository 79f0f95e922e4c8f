//! The bindings of both roles: against each other, under hostile peers and random schedules, and on real sockets.

mod edges;
mod exchanges;
mod simulation;
mod sockets;
