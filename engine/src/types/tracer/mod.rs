//! Follows the pointers of typed variables from block to block, and names what they lead to.

pub mod memory;
