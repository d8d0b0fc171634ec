//! Types and variables by debug information (DWARF 4 and 5) in the files of a program's modules.

pub mod elf_file;
pub mod files;
pub mod index;
pub mod interface;
mod members;
mod names;
pub mod program;
pub mod units;
pub mod variables;
