//! Tests of the C library (`adapters/c`), in the folder `tests`.
