//! Containers of standard libraries, in debug information: a file for each library.
//!
//! A container is recognised by its template's name and by the members that it really has there; all offsets are debug
//! information's. It proves itself by its own words before it claims anything.

pub mod forms;
pub mod libcxx;
pub mod libstdcxx;
pub mod rust;

use forms::Library;

pub const LIBRARIES: &[Library] = &[libstdcxx::container, libcxx::container, rust::container];

#[cfg(test)]
mod tests;
