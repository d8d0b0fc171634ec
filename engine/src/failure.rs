//! Why a call ends early, and how it is told to.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, TryReserveError};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The caller set `Control::stop`.
    Stopped,
    /// The caller's tables contradict each other.
    BadInput,
    NoMemory,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl From<TryReserveError> for Failure {
    fn from(_: TryReserveError) -> Self {
        Failure::NoMemory
    }
}

/// The caller's words: it reads `done` and sets `stop` while a call is running; `lost` are bytes that could not be
/// read.
#[repr(C)]
#[derive(Default)]
pub struct Control {
    done: AtomicU64,
    stop: AtomicU64,
    lost: AtomicU64,
}

impl Control {
    pub fn advance(&self, steps: u64) -> Result<()> {
        self.done.fetch_add(steps, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) != 0 {
            return Err(Failure::Stopped);
        }
        Ok(())
    }

    /// One that was told to stop.
    #[cfg(test)]
    pub fn stopped() -> Control {
        Control { stop: AtomicU64::new(1), ..Control::default() }
    }

    pub fn lose(&self, bytes: u64) {
        self.lost.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Looks at the caller's words now and then, in a loop of many short steps.
pub struct Pace<'a> {
    control: &'a Control,
    left: u64,
}

impl<'a> Pace<'a> {
    const STEPS: u64 = 1 << 14;

    pub fn new(control: &'a Control) -> Pace<'a> {
        Pace { control, left: Pace::STEPS }
    }

    #[inline]
    pub fn step(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = Pace::STEPS;
            self.control.advance(Pace::STEPS)?;
        }
        Ok(())
    }
}

/// An empty vector with room for `count` values. A `Vec` that grows by itself aborts the process when memory is short.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    made.try_reserve_exact(count)?;
    Ok(made)
}

pub fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>> {
    let mut made = with_room(count)?;
    made.resize(count, value);
    Ok(made)
}

pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut made = with_room(values.len())?;
    made.extend_from_slice(values);
    Ok(made)
}

#[inline]
pub fn push<T>(to: &mut Vec<T>, value: T) -> Result<()> {
    if to.len() == to.capacity() {
        to.try_reserve(1)?;
    }
    to.push(value);
    Ok(())
}

pub fn append<T>(to: &mut Vec<T>, mut more: Vec<T>) -> Result<()> {
    to.try_reserve(more.len())?;
    to.append(&mut more);
    Ok(())
}

/// The value that the key had before.
pub fn insert<K: Eq + Hash, V>(to: &mut HashMap<K, V>, key: K, value: V) -> Result<Option<V>> {
    to.try_reserve(1)?;
    Ok(to.insert(key, value))
}

/// The key's value; a default one is made where there is none.
pub fn entry<K: Eq + Hash, V: Default>(of: &mut HashMap<K, V>, key: K) -> Result<&mut V> {
    of.try_reserve(1)?;
    Ok(of.entry(key).or_default())
}

/// What was found for the key before, or what is found now and kept.
pub fn kept<K: Eq + Hash, V: Clone>(
    known: &RefCell<HashMap<K, V>>,
    key: K,
    find: impl FnOnce() -> Result<V>,
) -> Result<V> {
    if let Some(known) = known.borrow().get(&key) {
        return Ok(known.clone());
    }
    let found = find()?;
    insert(&mut known.borrow_mut(), key, found.clone())?;
    Ok(found)
}

/// The same by number.
pub fn kept_at<V: Clone>(known: &mut [Option<V>], number: usize, find: impl FnOnce() -> Result<V>) -> Result<V> {
    if let Some(known) = &known[number] {
        return Ok(known.clone());
    }
    let found = find()?;
    known[number] = Some(found.clone());
    Ok(found)
}

/// False: it was there.
pub fn include<T: Eq + Hash>(to: &mut HashSet<T>, value: T) -> Result<bool> {
    to.try_reserve(1)?;
    Ok(to.insert(value))
}

/// Whether a sum of these is one, whichever of them are added.
pub fn add_up(sizes: &[u64]) -> bool {
    sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size)).is_some()
}

/// One after the other; each is let go when it was taken.
pub fn joined<T>(parts: Vec<Vec<T>>) -> Result<Vec<T>> {
    let mut all = with_room(parts.iter().map(Vec::len).sum())?;
    for part in parts {
        all.extend(part);
    }
    Ok(all)
}
