//! Loads: programs that act as the clients of a server.

pub mod sysbench;
