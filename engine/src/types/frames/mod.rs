//! Threads' frames, and the variables in them.

pub mod expression;
pub mod registers;
pub mod unwind;
