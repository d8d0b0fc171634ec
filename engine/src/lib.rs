//! What touches every block of a process image: bytes in, tables out. It knows no text for people, no releases of
//! glibc.
//!
//! The C interface: each call returns one of `CODES`; tables of the caller's are read during the call alone, except the
//! bytes of pieces, which stay in place until the engine is closed; tables of the engine's are the caller's to let go.
//! No call ends the process: a panic is caught, and memory that grows with the image is asked for and may be refused.

// the functions for C take raw pointers, which `Table` describes
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

pub mod bits;
pub mod blocks;
#[cfg(feature = "broken")]
mod broken;
pub mod container_bodies;
pub mod contents;
pub mod dominators;
pub mod edges;
pub mod encoded_pointers;
pub mod failure;
pub mod graph;
pub mod groups;
pub mod holders;
pub mod image;
pub mod interior_pointers;
pub mod live;
mod messages;
pub mod ownership;
pub mod pointer_strength;
pub mod python;
pub mod resident_pages;
pub mod selection;
pub mod stale;
pub mod sweep;
pub mod types;

use std::alloc::Layout;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::blocks::{Blocks, Mapped};
use crate::container_bodies::Bodies;
use crate::contents::Ground;
use crate::dominators::Dominators;
use crate::failure::{Control, Failure, Result};
use crate::graph::{Further, Graph};
use crate::groups::Groups;
use crate::holders::{Held, Lead};
use crate::image::{Image, Piece, Span};
use crate::live::Lists;
use crate::ownership::Tree;
use crate::resident_pages::{Join, Rules};
use crate::selection::{Expression, Rows};
use crate::stale::{Excluded, Stale};
use crate::sweep::{Chunks, Listed, Stretch, Swept};

/// Raised whenever a function, a table or a meaning changes.
pub const INTERFACE: u32 = 2;

pub const OK: i32 = 0;
pub const STOPPED: i32 = 1;
pub const BAD_INPUT: i32 = 2;
pub const NO_MEMORY: i32 = 3;
pub const PANICKED: i32 = 4;

/// `count` values of whatever type the function says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    at: *const u8,
    count: u64,
}

impl Table {
    /// SAFETY: the caller promises that so many values of this type lie there, aligned, and stay during the call.
    unsafe fn of<'a, T>(self) -> &'a [T] {
        if self.count == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.at.cast(), self.count as usize)
    }

    /// SAFETY: as of `of`, and nobody else looks at them meanwhile.
    unsafe fn of_mut<'a, T>(self) -> &'a mut [T] {
        if self.count == 0 {
            return &mut [];
        }
        std::slice::from_raw_parts_mut(self.at.cast_mut().cast(), self.count as usize)
    }

    fn from<T>(values: &[T]) -> Table {
        Table { at: values.as_ptr().cast(), count: values.len() as u64 }
    }
}

pub struct Engine {
    image: Image,
    blocks: Blocks,
    stale: Stale,
    /// Of sweeps that are not yet in the table of blocks.
    swept: Vec<Swept>,
}

/// A table that the caller owns, and gives back by `arenascope_free`.
#[repr(C)]
pub struct Given {
    at: *mut u8,
    count: u64,
    bytes: u64,
    align: u64,
}

impl Given {
    fn of<T>(values: Vec<T>) -> Given {
        let mut values = std::mem::ManuallyDrop::new(values);
        Given {
            at: values.as_mut_ptr().cast(),
            count: values.len() as u64,
            bytes: (values.capacity() * std::mem::size_of::<T>()) as u64,
            align: std::mem::align_of::<T>() as u64,
        }
    }
}

fn boxed<T>(made: T) -> *mut T {
    Box::into_raw(Box::new(made))
}

/// SAFETY: it was made by `boxed`, and nobody uses it any more; or it is null.
#[cfg_attr(feature = "broken", track_caller)]
unsafe fn close<T>(made: *mut T) {
    if !made.is_null() {
        guarded(|| {
            drop(Box::from_raw(made));
            Ok(())
        });
    }
}

#[cfg_attr(feature = "broken", track_caller)]
fn guarded(work: impl FnOnce() -> Result<()>) -> i32 {
    #[cfg(feature = "broken")]
    let work = broken::instead_of(work);
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => OK,
        Ok(Err(Failure::Stopped)) => STOPPED,
        Ok(Err(Failure::BadInput)) => BAD_INPUT,
        Ok(Err(Failure::NoMemory)) => NO_MEMORY,
        Err(_) => PANICKED,
    }
}

/// The work of a function that gives something.
#[cfg_attr(feature = "broken", track_caller)]
fn gives<T>(to: &mut T, work: impl FnOnce() -> Result<T>) -> i32 {
    guarded(|| {
        *to = work()?;
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn arenascope_interface() -> u32 {
    // a panic is the caller's to tell of: nothing is printed into a debugger
    std::panic::set_hook(Box::new(|_| ()));
    INTERFACE
}

/// `word`: bytes of a pointer, 4 or 8.
#[no_mangle]
pub unsafe extern "C" fn arenascope_open(word: u32, big_endian: u32, to: &mut *mut Engine) -> i32 {
    gives(to, || {
        if word != 4 && word != 8 {
            return Err(Failure::BadInput);
        }
        let engine = Engine {
            image: Image::new(u64::from(word), big_endian != 0),
            blocks: Blocks::default(),
            stale: Stale::default(),
            swept: Vec::new(),
        };
        Ok(boxed(engine))
    })
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_close(engine: *mut Engine) {
    close(engine);
}

/// `pieces` of `Piece`, in place of those before.
#[no_mangle]
pub unsafe extern "C" fn arenascope_pieces(engine: &mut Engine, pieces: &Table) -> i32 {
    guarded(|| engine.image.set(pieces.of::<Piece>()))
}

/// The live blocks in order of their addresses: three tables of 64 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_blocks(engine: &mut Engine, starts: &Table, ends: &Table, sizes: &Table) -> i32 {
    guarded(|| {
        engine.blocks = Blocks::new(starts.of(), ends.of(), sizes.of())?;
        engine.stale = Stale::default();
        Ok(())
    })
}

/// Sweeps rows of `Stretch`; chunks in lists and malloc's own of 64 bits, `fast` of bytes. What else is not free, as
/// rows of `Span`, and where each sweep stopped, of `Stopped`. The blocks wait for `arenascope_swept`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_sweep(
    engine: &mut Engine,
    stretches: &Table,
    least: u32,
    header: u32,
    listed: &Table,
    fast: &Table,
    threads: u32,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    gives(to, || {
        let rules = Chunks { least: u64::from(least), header: u64::from(header) };
        let listed = Listed { chunks: listed.of(), fast: fast.of() };
        let (swept, besides, stopped) =
            sweep::sweep(&engine.image, stretches.of::<Stretch>(), rules, &listed, threads as usize, control)?;
        failure::append(&mut engine.swept, swept)?;
        Ok([Given::of(besides), Given::of(stopped)])
    })
}

/// Follows lists of free chunks, rows of `live::List`, in the memory of process `pid`, or of the image where that is 0.
/// Gives rows of `live::Followed`, and the addresses and the sizes of the chunks of whole lists.
#[no_mangle]
pub unsafe extern "C" fn arenascope_follow(
    engine: &Engine,
    pid: i32,
    lists: &Table,
    layout: &live::Layout,
    threads: u32,
    control: &Control,
    to: &mut [Given; 3],
) -> i32 {
    gives(to, || {
        let found = live::follow(&engine.image, pid, lists.of(), layout, threads as usize, control)?;
        let Lists { followed, chunks, sizes } = found;
        Ok([Given::of(followed), Given::of(chunks), Given::of(sizes)])
    })
}

/// See `sweep::follow`: size words, rows of `Count`, `End` and `Mark`; where it ended, and 1 where no chunk is there.
#[no_mangle]
pub unsafe extern "C" fn arenascope_chunks(
    engine: &Engine,
    start: u64,
    until: u64,
    limit: u64,
    least: u32,
    watched: &Table,
    to: &mut [Given; 4],
    ended: &mut [u64; 2],
) -> i32 {
    guarded(|| {
        let trail = sweep::follow(&engine.image, start, until, limit, u64::from(least), watched.of())?;
        *to = [Given::of(trail.raws), Given::of(trail.counts), Given::of(trail.free), Given::of(trail.marks)];
        *ended = [trail.end, u64::from(trail.broken)];
        Ok(())
    })
}

/// Has pages made for `parts` of `live::Copied`: see `live::make_room`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_room(_: &Engine, parts: &Table, threads: u32, control: &Control) -> i32 {
    guarded(|| live::make_room(parts.of(), threads as usize, control))
}

/// Copies `parts` of `live::Copied` of a process, and gives those that could not be read: see `live::copy`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_copy(
    _: &Engine,
    pid: i32,
    memory: i32,
    parts: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || live::copy(pid, memory, parts.of(), threads as usize, control).map(Given::of))
}

/// Makes the table of blocks of all sweeps and of `others`, rows of `Mapped`: see `Blocks::of_sweep`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_swept(
    engine: &mut Engine,
    others: &Table,
    beyond: i64,
    control: &Control,
    twice: &mut u64,
) -> i32 {
    guarded(|| {
        let swept = std::mem::take(&mut engine.swept);
        (engine.blocks, *twice) = Blocks::of_sweep(swept, others.of::<Mapped>(), beyond, control)?;
        engine.stale = Stale::default();
        Ok(())
    })
}

/// The starts, ends and sizes of the live blocks, which stay until there are others.
#[no_mangle]
pub unsafe extern "C" fn arenascope_tables(engine: &Engine, to: &mut [Table; 3]) -> i32 {
    gives(to, || {
        let Blocks { starts, ends, sizes, .. } = &engine.blocks;
        Ok([Table::from(starts), Table::from(ends), Table::from(sizes)])
    })
}

/// The bytes of the image in `spans` of `Span`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_bytes(engine: &Engine, spans: &Table, to: &mut u64) -> i32 {
    gives(to, || Ok(engine.image.bytes_in(spans.of::<Span>())))
}

/// The pointers to blocks in `spans`, as rows of `Found`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_pointers(
    engine: &Engine,
    spans: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let spans = spans.of::<Span>();
        edges::pointers(&engine.image, &engine.blocks, spans, threads as usize, control).map(Given::of)
    })
}

/// See `pointer_strength::reach`; `constants` are rows of `Constant`, `fronts` of `Front`, `seeds` of `Judged`, and
/// `marks` are the caller's and change. Gives numbers of blocks (of 32 bits): all that is reached inside, and what is
/// reached alike.
#[no_mangle]
pub unsafe extern "C" fn arenascope_reach(
    engine: &Engine,
    graph: &Graph,
    constants: &Table,
    fronts: &Table,
    seeds: &Table,
    marks: &Table,
    mark: u32,
    threads: u32,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, .. } = engine;
        let ground = pointer_strength::Ground { image, blocks, constants: constants.of(), fronts: fronts.of() };
        let (seeds, marks, threads) = (seeds.of(), marks.of_mut(), threads as usize);
        let reached = pointer_strength::reach(&ground, graph, seeds, marks, mark as u8, threads, control)?;
        Ok([Given::of(reached.inside), Given::of(reached.alike)])
    })
}

/// See `pointer_strength::judge`: a byte for each of `judged`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_judge(
    engine: &Engine,
    constants: &Table,
    fronts: &Table,
    judged: &Table,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, .. } = engine;
        let ground = pointer_strength::Ground { image, blocks, constants: constants.of(), fronts: fronts.of() };
        pointer_strength::judge(&ground, judged.of()).map(Given::of)
    })
}

/// `ranges` of `Excluded`, in place of those before.
#[no_mangle]
pub unsafe extern "C" fn arenascope_exclude(engine: &mut Engine, ranges: &Table) -> i32 {
    guarded(|| engine.stale.exclude(ranges.of::<Excluded>()))
}

/// See `Stale::declare`: `starts` and `used` of 64 bits, `may` of bytes.
#[no_mangle]
pub unsafe extern "C" fn arenascope_declare(
    engine: &mut Engine,
    starts: &Table,
    used: &Table,
    may: &Table,
    begins: u64,
    why: u32,
    beyond: u32,
) -> i32 {
    guarded(|| {
        let Engine { stale, blocks, .. } = engine;
        stale.declare(blocks, starts.of(), used.of(), may.of(), begins, why as u8, beyond as u8)
    })
}

/// Why the word at an address is no pointer; `block` is -1 for a root's.
#[no_mangle]
pub unsafe extern "C" fn arenascope_why(engine: &Engine, address: u64, block: i64, odd: u32, to: &mut u32) -> i32 {
    gives(to, || {
        if block >= engine.blocks.len() as i64 {
            return Err(Failure::BadInput);
        }
        let mut cursor = engine.stale.cursor(address);
        let block = u32::try_from(block).ok();
        if block.is_some_and(|block| address < engine.blocks.starts[block as usize]) {
            return Err(Failure::BadInput);
        }
        let word = engine.image.word;
        Ok(u32::from(engine.stale.why(&engine.blocks, &mut cursor, address, block, word, odd as u8)))
    })
}

/// The edges of all blocks, which lie in `spans`, as a graph, and rows of `StaleEdge` for those of words
/// that hold no pointers.
#[no_mangle]
pub unsafe extern "C" fn arenascope_edges(
    engine: &Engine,
    spans: &Table,
    odd: u32,
    threads: u32,
    control: &Control,
    to: &mut *mut Graph,
    stale_edges: &mut Given,
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, stale, .. } = engine;
        let (graph, excluded) = edges::edges(image, blocks, stale, spans.of(), odd as u8, threads as usize, control)?;
        *stale_edges = Given::of(excluded);
        Ok(boxed(graph))
    })
}

/// Encoded pointers to `suspects`, blocks by their numbers, as rows of `Encoded`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_encoded(
    engine: &Engine,
    suspects: &Table,
    spans: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, .. } = engine;
        encoded_pointers::encoded(image, blocks, blocks, suspects.of(), spans.of(), threads as usize, control)
            .map(Given::of)
    })
}

/// Encoded pointers to what lies from `start` to `end`, both included, as rows of `Encoded`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_encoded_to(
    engine: &Engine,
    start: u64,
    end: u64,
    spans: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let goal = Blocks::new(&[start], &[end], &[0])?;
        let Engine { image, blocks, .. } = engine;
        encoded_pointers::encoded(image, blocks, &goal, &[0], spans.of(), threads as usize, control).map(Given::of)
    })
}

/// The words in `spans` that lead from `start` to `end`, both included, as rows of `Word`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_search(
    engine: &Engine,
    start: u64,
    end: u64,
    spans: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let goal = Span { start, end };
        edges::search(&engine.image, goal, spans.of(), threads as usize, control).map(Given::of)
    })
}

/// See `resident_pages::pages`: what is in memory and what would leave it, of 64 bits, by owners. `join`: 0 where a
/// page of two is nobody's, 1 for sets, 2 for a tree, of which `above` tells.
#[no_mangle]
pub unsafe extern "C" fn arenascope_pages(
    engine: &Engine,
    heaps: &Table,
    present: &Table,
    besides: &Table,
    whose: &Table,
    owners: u64,
    rules: &[u64; 3],
    join: u32,
    above: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    gives(to, || {
        let join = match join {
            0 => Join::Nobody,
            1 => Join::Sets,
            2 => Join::tree(above.of())?,
            _ => return Err(Failure::BadInput),
        };
        let [page, kept, header] = *rules;
        let rules = Rules { page, kept, header };
        let (heaps, present, besides) = (heaps.of(), present.of(), besides.of());
        let found = resident_pages::pages(
            &engine.blocks,
            heaps,
            present,
            besides,
            whose.of(),
            owners as usize,
            rules,
            &join,
            control,
        )?;
        Ok([Given::of(found.resident), Given::of(found.returns)])
    })
}

/// The places, as numbers of 32 bits, of the values that are this one; they have 1, 4 or 8 bytes.
#[no_mangle]
pub unsafe extern "C" fn arenascope_equal(values: &Table, bytes: u32, value: u64, to: &mut Given) -> i32 {
    fn places<T: Copy + PartialEq>(values: &[T], value: T) -> Result<Vec<u32>> {
        if values.len() > u32::MAX as usize {
            return Err(Failure::BadInput);
        }
        let mut found = failure::with_room(values.iter().filter(|each| **each == value).count())?;
        found.extend(values.iter().enumerate().filter(|(_, each)| **each == value).map(|(place, _)| place as u32));
        Ok(found)
    }
    gives(to, || {
        Ok(Given::of(match bytes {
            1 => places(values.of::<u8>(), value as u8)?,
            4 => places(values.of::<u32>(), value as u32)?,
            8 => places(values.of::<u64>(), value)?,
            _ => return Err(Failure::BadInput),
        }))
    })
}

/// A number of 32 bits for each block: by its owner, where this alone leads to it, or by who does. `whose`, `by_owner`
/// and `by_sharing` have 32 bits, `sharing` bytes: see `ownership`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_chosen(
    whose: &Table,
    sharing: &Table,
    by_owner: &Table,
    by_sharing: &Table,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let (whose, sharing) = (whose.of::<i32>(), sharing.of::<u8>());
        let (by_owner, by_sharing) = (by_owner.of::<i32>(), by_sharing.of::<i32>());
        let mut chosen = failure::with_room(whose.len())?;
        for (owner, sharing) in whose.iter().zip(sharing) {
            let number = match *sharing {
                ownership::ALONE => by_owner.get(*owner as usize),
                sharing => by_sharing.get(usize::from(sharing)),
            };
            chosen.push(*number.ok_or(Failure::BadInput)?);
        }
        Ok(Given::of(chosen))
    })
}

/// The sum of the values of 64 bits at some places, numbers of 32 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_sum(values: &Table, places: &Table, to: &mut u64) -> i32 {
    gives(to, || {
        let values = values.of::<u64>();
        let mut sum = 0u64;
        for place in places.of::<u32>() {
            sum = sum.wrapping_add(*values.get(*place as usize).ok_or(Failure::BadInput)?);
        }
        Ok(sum)
    })
}

/// The kind of contents of each block, of bytes: see `contents`. Heaps lie from `low` to in front of `high`; `data` are
/// rows of `Span`, what can be written to; `told` has of each block -1 (of 32 bits) if nothing is known of it.
#[no_mangle]
pub unsafe extern "C" fn arenascope_contents(
    engine: &Engine,
    low: u64,
    high: u64,
    data: &Table,
    told: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, .. } = engine;
        let ground = Ground { image, blocks, low, high, data: data.of() };
        contents::contents(&ground, told.of(), threads as usize, control).map(Given::of)
    })
}

/// Blocks by what holds them: see `container_bodies::Ground`. `kinds` has each block's (of 32 bits) and gets new ones,
/// also if the call is ended; `rules` are low, high, skew, mask and the program. Gives `BodyKind`, `Name`, `Plain`, the
/// counts of objects (of 64 bits), and the managers that were asked for.
#[no_mangle]
pub unsafe extern "C" fn arenascope_bodies(
    engine: &Engine,
    kinds: &Table,
    flags: &Table,
    fronts: &Table,
    mapped: &Table,
    fixed: &Table,
    known: &Table,
    code: &Table,
    managers: &Table,
    rules: &[u64; 5],
    control: &Control,
    to: &mut [Given; 5],
) -> i32 {
    guarded(|| {
        let Engine { image, blocks, .. } = engine;
        let (flags, fronts, mapped, fixed) = (flags.of(), fronts.of(), mapped.of(), fixed.of());
        let (known, code, managers) = (known.of(), code.of(), managers.of());
        let [low, high, skew, mask, program] = *rules;
        let program = program as u32;
        let ground = container_bodies::Ground {
            image,
            blocks,
            flags,
            fronts,
            mapped,
            fixed,
            known,
            code,
            managers,
            low,
            high,
            skew,
            mask,
            program,
        };
        let (found, ended) = container_bodies::bodies(&ground, kinds.of_mut(), control);
        let Bodies { kinds, names, plain, objects, asked } = found;
        *to = [Given::of(kinds), Given::of(names), Given::of(plain), Given::of(objects), Given::of(asked)];
        ended
    })
}

/// The blocks that begin with a word in one of `ranges`, rows of `Span`: rows of `Begins`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_beginning_with(
    engine: &Engine,
    ranges: &Table,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let Engine { image, blocks, .. } = engine;
        contents::beginning_with(image, blocks, ranges.of(), threads as usize, control).map(Given::of)
    })
}

/// An expression, `nodes` of `Node` with their sets in `ranges` of `Span`, of blocks or, where `places` has any, of
/// these with `sizes` and `bases` (of 64 bits); of those alone that are `asked` (of 32 bits), if any is. Its values (of
/// 64 bits), or the numbers of those where it is not 0 (of 32 bits).
#[no_mangle]
pub unsafe extern "C" fn arenascope_select(
    engine: &Engine,
    nodes: &Table,
    ranges: &Table,
    places: &Table,
    sizes: &Table,
    bases: &Table,
    asked: &Table,
    values: u32,
    threads: u32,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let expression = Expression::new(nodes.of(), ranges.of())?;
        let (places, sizes, bases) = (places.of::<u64>(), sizes.of::<u64>(), bases.of::<u64>());
        if places.len() != sizes.len() || places.len() != bases.len() {
            return Err(Failure::BadInput);
        }
        let rows = if places.is_empty() { Rows::Blocks(&engine.blocks) } else { Rows::Places(places, sizes, bases) };
        let (image, asked, threads) = (&engine.image, asked.of(), threads as usize);
        Ok(if values != 0 {
            Given::of(selection::column(image, &expression, &rows, asked, threads, control)?)
        } else {
            Given::of(selection::select(image, &expression, &rows, asked, threads, control)?)
        })
    })
}

/// See `selection::grouped`: `numbers` of 32 bits, `of` of 64; what `Grouped` has, in its order.
#[no_mangle]
pub unsafe extern "C" fn arenascope_grouped(
    _: &Engine,
    numbers: &Table,
    of: &Table,
    control: &Control,
    to: &mut [Given; 3],
) -> i32 {
    gives(to, || {
        let found = selection::grouped(numbers.of(), of.of(), control)?;
        Ok([Given::of(found.numbers), Given::of(found.values), Given::of(found.ends)])
    })
}

/// See `selection::stretches`: `kinds` of 32 bits, `ranges` of two numbers of 32 bits; what `Stretches` has, in its
/// order.
#[no_mangle]
pub unsafe extern "C" fn arenascope_stretches(
    engine: &Engine,
    kinds: &Table,
    ranges: &Table,
    least: u64,
    control: &Control,
    to: &mut [Given; 3],
) -> i32 {
    gives(to, || {
        let found = selection::stretches(&engine.blocks, kinds.of(), ranges.of(), least, control)?;
        Ok([Given::of(found.rows), Given::of(found.ends), Given::of(found.bytes)])
    })
}

/// See `selection::fill`: `values` and `places` of 32 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_fill(values: &Table, places: &Table, value: i32) -> i32 {
    guarded(|| selection::fill(values.of_mut(), places.of(), value))
}

/// Lets go of a table.
#[no_mangle]
pub unsafe extern "C" fn arenascope_free(given: &Given) {
    guarded(|| {
        if given.bytes > 0 {
            let layout = Layout::from_size_align(given.bytes as usize, given.align as usize);
            std::alloc::dealloc(given.at, layout.map_err(|_| Failure::BadInput)?);
        }
        Ok(())
    });
}

/// A graph that the caller made: offsets and edges of 32 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph(offsets: &Table, edges: &Table, to: &mut *mut Graph) -> i32 {
    gives(to, || Graph::given(offsets.of(), edges.of()).map(boxed))
}

#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_close(graph: *mut Graph) {
    close(graph);
}

/// Another graph, with `further` of `Further`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_with(
    graph: &Graph,
    further: &Table,
    control: &Control,
    to: &mut *mut Graph,
) -> i32 {
    gives(to, || graph.with(further.of::<Further>(), control).map(boxed))
}

/// Another graph, without `fewer` of `Further`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_without(
    graph: &Graph,
    fewer: &Table,
    control: &Control,
    to: &mut *mut Graph,
) -> i32 {
    gives(to, || graph.without(fewer.of::<Further>(), control).map(boxed))
}

/// Changes the graph: see `Graph::deepen`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_deepen(graph: &mut Graph, targets: &Table, control: &Control) -> i32 {
    guarded(|| graph.deepen(targets.of(), control))
}

/// Another graph: see `Graph::lasting`.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_lasting(
    graph: &Graph,
    passing: &Table,
    control: &Control,
    to: &mut *mut Graph,
) -> i32 {
    gives(to, || graph.lasting(passing.of(), control).map(boxed))
}

/// See `Graph::mark`; `marks` and `parents` are the caller's and change. What was met, as
/// numbers of 32 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_mark(
    graph: &Graph,
    first: &Table,
    marks: &Table,
    mark: u32,
    starts_only: u32,
    parents: &Table,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || {
        let (marks, parents) = (marks.of_mut(), parents.of_mut());
        graph.mark(first.of(), marks, mark as u8, starts_only != 0, parents, control).map(Given::of)
    })
}

/// See `groups::groups`: heads, leading, ends (of 64 bits), others, ends of ways round (of 64 bits), and these.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_groups(
    graph: &Graph,
    nodes: &Table,
    starts_only: u32,
    control: &Control,
    to: &mut [Given; 6],
) -> i32 {
    gives(to, || {
        let found = groups::groups(graph, nodes.of(), starts_only != 0, control)?;
        let Groups { heads, leading, ends, others, way_ends, ways } = found;
        let (heads, leading, others) = (Given::of(heads), Given::of(leading), Given::of(others));
        Ok([heads, leading, Given::of(ends), others, Given::of(way_ends), Given::of(ways)])
    })
}

/// See `holders::hold`: `leads` of `Lead`; the others are the caller's and change.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_hold(
    graph: &Graph,
    leads: &Table,
    skipped: u32,
    whose: &Table,
    parents: &Table,
    ties: &Table,
    ranks: &Table,
    control: &Control,
) -> i32 {
    guarded(|| {
        let mut held =
            Held { whose: whose.of_mut(), parents: parents.of_mut(), ties: ties.of_mut(), ranks: ranks.of_mut() };
        holders::hold(graph, leads.of::<Lead>(), skipped, &mut held, control)
    })
}

/// See `holders::below`: numbers of 64 bits.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_below(
    graph: &Graph,
    parents: &Table,
    sizes: &Table,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || holders::below(graph, parents.of(), sizes.of(), control).map(Given::of))
}

/// See `holders::costs`: `above` and `kinds` have 32 bits, the others 64.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_costs(
    graph: &Graph,
    above: &Table,
    kinds: &Table,
    sizes: &Table,
    control: &Control,
    to: &mut Given,
) -> i32 {
    gives(to, || holders::costs(graph, above.of(), kinds.of(), sizes.of(), control).map(Given::of))
}

/// See `dominators::dominators`: offsets of 64 bits, `held` of 32; nodes and those above them.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_dominators(
    graph: &Graph,
    offsets: &Table,
    held: &Table,
    control: &Control,
    to: &mut [Given; 2],
) -> i32 {
    gives(to, || {
        let Dominators { nodes, above } = dominators::dominators(graph, offsets.of(), held.of(), control)?;
        Ok([Given::of(nodes), Given::of(above)])
    })
}

/// See `ownership::ownership`: `nodes` and `above` as `arenascope_graph_dominators` gave them; what `Ownership` has, in
/// its order.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_ownership(
    graph: &Graph,
    nodes: &Table,
    above: &Table,
    offsets: &Table,
    held: &Table,
    sizes: &Table,
    whose: &Table,
    ties: &Table,
    control: &Control,
    to: &mut [Given; 8],
) -> i32 {
    gives(to, || {
        let tree = Tree::new(graph, nodes.of(), above.of(), offsets.of(), held.of())?;
        let found = ownership::ownership(tree, sizes.of(), whose.of(), ties.of(), control)?;
        Ok([
            Given::of(found.whose),
            Given::of(found.above),
            Given::of(found.sharing),
            Given::of(found.rows),
            Given::of(found.steps),
            Given::of(found.others),
            Given::of(found.joints),
            Given::of(found.joint_owners),
        ])
    })
}

/// The graph's offsets and edges, which stay as long as it does.
#[no_mangle]
pub unsafe extern "C" fn arenascope_graph_tables(graph: &Graph, to: &mut [Table; 2]) -> i32 {
    gives(to, || Ok([Table::from(&graph.offsets), Table::from(&graph.edges)]))
}
