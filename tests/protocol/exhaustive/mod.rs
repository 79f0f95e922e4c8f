//! All short conversations of the two engines and a peer, judged by rules that share no code with them.

mod calls;
mod negotiation;
