//! Follows the pointers of typed variables from block to block, and names what they lead to.

pub mod claims;
pub mod containers;
pub mod layouts;
pub mod memory;
