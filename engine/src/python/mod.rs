//! CPython's objects: what leads to what from modules and frames on, and what each way holds.
//!
//! Objects of up to 512 bytes lie in pools that CPython maps by itself, larger ones in malloc's blocks. What differs
//! from release to release the caller says (`Release`).

pub mod cycles;
pub mod interface;
pub mod objects;
pub mod paths;
#[cfg(test)]
mod tests;
pub mod types;
pub mod walk;
