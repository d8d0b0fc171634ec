//! Follows the pointers of typed variables from block to block, and names what they lead to.

mod alike;
pub mod claims;
pub mod containers;
mod counted;
mod counts;
mod duplicates;
pub mod interface;
pub mod layouts;
mod lists;
mod lost;
pub mod memory;
pub mod modules;
pub mod names;
pub mod objects;
pub mod reading;
pub mod rows;
pub mod rules;
#[cfg(test)]
mod tests;
pub mod trace;
mod unlisted;
pub mod values;
pub mod waste;
mod words;
