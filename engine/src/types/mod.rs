//! What blocks are by the program's debug information: types read from files, and blocks named by them.

pub mod dwarf;
pub mod facts;
pub mod frames;
pub mod mangled;
pub mod spelling;
pub mod tracer;
