//! For tests alone, with the feature `broken`: a function for C panics if the environment says so.

use std::panic::Location;

use crate::failure::Result;

/// The work of a function for C, or a panic if ARENASCOPE_BROKEN is the FILE:LINE where that function has it guarded.
#[track_caller]
pub fn instead_of(work: impl FnOnce() -> Result<()>) -> impl FnOnce() -> Result<()> {
    let here = Location::caller();
    move || {
        let broken = std::env::var("ARENASCOPE_BROKEN").unwrap_or_default();
        assert!(broken != format!("{}:{}", here.file(), here.line()), "broken for a test");
        work()
    }
}
