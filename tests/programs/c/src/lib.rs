//! Tests of the C library (`adapters/c`), in `tests/c`.
