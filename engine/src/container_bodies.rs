//! Blocks that are named by what holds them: bodies of strings, vectors, deques and hash tables, by the words of the
//! container that points to them.
//!
//! Each form is one of libstdc++'s, libc++'s or Rust's. A container says how large its body is, which must be what was
//! asked of malloc for it: so close a fit is no coincidence where a container may lie. Elsewhere, in a block of which
//! nothing is known, what it was before may have left a container's words: one that proves itself has as many nodes as
//! it counts, that lead back to it, or text that ends where it says.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::blocks::Blocks;
use crate::failure::{append, entry, filled, include, insert, push, Control, Failure, Pace, Result};
use crate::image::{Image, Span};
use crate::selection::is_plain;

// what a body is called
pub const STDIO: u32 = 0;
pub const VEC_BYTES: u32 = 1;
pub const VEC: u32 = 2;
pub const STRING: u32 = 3;
pub const STRING_16: u32 = 4;
pub const STRING_32: u32 = 5;
pub const VECTOR: u32 = 6;
pub const DEQUE: u32 = 7;
pub const BUCKETS: u32 = 8;
pub const HASHED: u32 = 9;
pub const TREE: u32 = 10;
pub const LIST: u32 = 11;
pub const TABLE: u32 = 12;
pub const POOL: u32 = 13;
pub const FUNCTION: u32 = 14;
/// What a member points to that Python knows by its class.
pub const MEMBER: u32 = 15;
/// The object of a control block that stands apart from it.
pub const APART: u32 = 16;

// what is known of a kind
pub const WEAK: u32 = 1;
pub const HOLDER: u32 = 2;
pub const PLAIN: u32 = 4;
pub const CONTROL: u32 = 8;
pub const NODE: u32 = 16;
/// It is one thing, in which each place has its meaning.
pub const SINGLE: u32 = 32;
/// Its first word points to a block, whose bytes the second one counts.
pub const HAS_MEMBER: u32 = 64;
/// Its object may stand apart from it, and may be such a holder itself.
pub const HAS_APART: u32 = 128;
pub const APART_HAS_MEMBER: u32 = 256;
/// Above these: so many words in front of what a node is for.
pub const LINKS: u32 = 16;

// the program
pub const OF_CPLUSPLUS: u32 = 1;
pub const OF_RUST: u32 = 2;
pub const MAY_HAVE_LIBCXX: u32 = 4;

// what a symbol says of a function's manager
pub const NO_MANAGER: u64 = 0;
pub const MANAGER: u64 = 1;
pub const NAMELESS: u64 = 2;

// names are numbers: kinds, a stack, then `Name`s
const NOBODY: u64 = u64::MAX;
const NAMES: u64 = 1 << 32;
const STACK: u64 = NAMES - 1;

/// A block has less than that to use besides what was asked for.
const SLACK: u64 = 32;
/// The same of one that malloc may have mapped by itself.
const PAGE_SLACK: u64 = 4096;
const MAPPED: u64 = 128 << 10;
/// _IO_MAGIC, in the upper half of a FILE's flags.
const STREAM: u64 = 0xFBAD;
/// Pointers that follow them: read_ptr, read_end, read_base, write_base, write_ptr, write_end, buf_base, buf_end.
const STREAM_WORDS: usize = 8;
const MOST_NODES: u64 = 1 << 24;
const MOST_ROOM: u64 = 1 << 40;
/// So far apart are functions of one module at most, mostly.
const MOST_CODE: u64 = 1 << 30;
/// Letters that libstdc++'s strings have inside.
const LOCAL: u64 = 15;
/// 1.0 as a float: the load factor that hash tables begin with, which hardly anybody changes.
const ONE: u64 = 0x3F80_0000;
const TEXT: u64 = 256;
const SHORTEST: u64 = 4;
/// Of a usual emergency pool: GLIBCXX_TUNABLES can make it smaller, and then nothing tells it from another buffer.
const LEAST_POOL: u64 = 16 << 10;
/// Of a Vec that is known by its words: fewer elements, and larger ones, fit too many blocks.
const LEAST_ROOM: u64 = 4;
const MOST_ELEMENT: u64 = 1024;
/// Control bytes that are looked at together, and repeated after their end: with SSE2, and without.
const GROUP: u64 = 16;
const GROUPS: [u64; 2] = [GROUP, 8];
/// Empty or deleted; a smaller one is of an entry.
const FREE: u8 = 0x80;
const LEAST_PLACES: u64 = 4;
const MOST_PLACES: u64 = 1 << 32;

/// So much of a holder is looked through, and of what a container has.
const LARGEST: u64 = 64 << 10;
const ELEMENTS: u64 = 1 << 20;
/// Words of a container: one may lie across the end of what is read at once.
const LONGEST_FORM: u64 = 16;
/// So much of a block of which nothing is known, and so many of a size, where none of these has a container.
const LARGEST_PLAIN: u64 = 4 << 10;
const TRIED: u64 = 1 << 12;
/// Containers that do not prove themselves are believed where so many blocks of a size have one at the same place, and
/// two thirds of those that have a pointer there.
const ALIKE: usize = 8;

/// Memory with holders that are no blocks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Fixed {
    pub start: u64,
    pub bytes: u64,
    /// 0 where variables lie, each with a name.
    pub is_stack: u64,
}

/// A holder whose block has the name of its type already, with the kind that it had before.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Known {
    pub start: u64,
    pub bytes: u64,
    pub kind: u64,
}

/// What a symbol says of the function that manages a std::function's body.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Manager {
    pub address: u64,
    pub verdict: u64,
}

/// A name that is made of others.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    /// Whose part it is: a name, or the address of a variable that has no other name.
    pub of: u64,
    /// 0: the variable. 1: what lies so many bytes behind the start. 2: the elements.
    pub part: u64,
    /// So many bytes; the form of elements whose container has no name.
    pub number: u64,
}

/// A kind of bodies.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyKind {
    pub form: u64,
    pub certain: u64,
    /// Whose they are, as `Name::of`; u64::MAX: nobody's. Of what stands apart the control block's kind; of a pool the
    /// address of its container.
    pub owner: u64,
}

/// A pointer that is in no container.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Plain {
    pub to: u64,
    pub address: u64,
    /// The holder in which it lies.
    pub start: u64,
    /// Its kind; u64::MAX: it is a variable.
    pub kind: u64,
}

/// Where holders are looked for, and what is known of blocks.
pub struct Ground<'a> {
    pub image: &'a Image,
    pub blocks: &'a Blocks,
    /// Of each kind.
    pub flags: &'a [u32],
    /// Bytes of an allocator's own in front of each block; empty: there are none.
    pub fronts: &'a [u32],
    /// The starts of blocks with a mapping of their own, in order: these are no holders.
    pub mapped: &'a [u64],
    pub fixed: &'a [Fixed],
    pub known: &'a [Known],
    /// Where functions lie.
    pub code: &'a [Span],
    /// In order.
    pub managers: &'a [Manager],
    /// Heaps lie from `low` to in front of `high`.
    pub low: u64,
    pub high: u64,
    /// Where a block may begin, `skew` behind a multiple of `mask` and one.
    pub skew: u64,
    pub mask: u64,
    pub program: u32,
}

/// What the pass has found; the kinds of blocks are the caller's.
#[derive(Default)]
pub struct Bodies {
    /// From the number of the given kinds on.
    pub kinds: Vec<BodyKind>,
    pub names: Vec<Name>,
    pub plain: Vec<Plain>,
    /// How many objects of each kind were looked through, of given and new ones.
    pub objects: Vec<u64>,
    /// Managers of which nothing was known: their containers were left out.
    pub asked: Vec<u64>,
}

pub fn fits(asked: u64, usable: u64) -> bool {
    let slack = if usable >= MAPPED { PAGE_SLACK } else { SLACK };
    0 < asked && asked <= usable && usable - asked < slack
}

#[derive(Clone, Copy)]
enum Called {
    /// By the variable at the place.
    Variable,
    Nobody,
    As(u64),
}

#[derive(Clone, Copy)]
struct Area {
    start: u64,
    bytes: u64,
    called: Called,
    single: bool,
    /// So many bytes in front only link it to others.
    links: u64,
    kind: Option<u32>,
}

struct Body {
    user: u64,
    form: u32,
    /// Where in the holder the container is.
    offset: u64,
    /// So many bytes of it, from `start` on, hold the container's elements.
    inside: u64,
    start: u64,
    proven: bool,
    sure: bool,
}

impl Body {
    fn of(form: u32, user: u64, offset: u64) -> Body {
        Body { user, form, offset, inside: 0, start: 0, proven: false, sure: true }
    }

    fn proven(self, proven: bool) -> Body {
        Body { proven, ..self }
    }

    fn inside(self, inside: u64) -> Body {
        Body { inside, ..self }
    }
}

/// Bodies, and whether each is a container's: else a plain pointer leads to it.
type Containers = Vec<(Body, bool)>;

fn is_node(form: u32) -> bool {
    matches!(form, BUCKETS | HASHED | TREE | LIST)
}

/// Words in front of what a node is for; None of what is no node that holds an element.
fn links_of(form: u32) -> Option<u64> {
    match form {
        TREE => Some(4),
        LIST => Some(2),
        HASHED => Some(1),
        _ => None,
    }
}

/// The pass itself: each area is looked through once, and what it names may hold others.
struct Pass<'a> {
    ground: &'a Ground<'a>,
    word: u64,
    kinds: &'a mut [i32],
    left: VecDeque<Area>,
    found: Bodies,
    numbers: HashMap<BodyKind, u32>,
    names: HashMap<Name, u64>,
    asked: HashSet<u64>,
    /// So many nodes, or places of a table, are followed at most that are none in the end: damage could have each word
    /// lead through all.
    in_vain: u64,
    pace: Pace<'a>,
}

/// `kinds` has the number of each block's kind, and gets those of bodies.
pub fn bodies(ground: &Ground, kinds: &mut [i32], control: &Control) -> (Bodies, Result<()>) {
    let mut pass = Pass {
        ground,
        word: ground.image.word,
        kinds,
        left: VecDeque::new(),
        found: Bodies::default(),
        numbers: HashMap::new(),
        names: HashMap::new(),
        asked: HashSet::new(),
        in_vain: MOST_NODES,
        pace: Pace::new(control),
    };
    let ended = pass.run();
    let asked = std::mem::take(&mut pass.asked);
    pass.found.asked = asked.into_iter().collect();
    pass.found.asked.sort_unstable();
    (pass.found, ended)
}

impl Pass<'_> {
    fn run(&mut self) -> Result<()> {
        let ground = self.ground;
        let many = ground.flags.len() as i64;
        let right = self.kinds.len() == ground.blocks.len()
            && (ground.fronts.is_empty() || ground.fronts.len() == self.kinds.len())
            && self.kinds.iter().all(|kind| i64::from(*kind) < many)
            && ground.known.iter().all(|each| each.kind < many as u64);
        if !right {
            return Err(Failure::BadInput);
        }
        self.found.objects = filled(ground.flags.len(), 0)?;
        self.look_into_fixed()?;
        self.look_into_holders()?;
        if ground.program & (OF_CPLUSPLUS | OF_RUST) != 0 {
            self.look_into_plain()?;
        }
        Ok(())
    }

    // blocks

    /// The block that begins there, or so far before it, in front of what it is for.
    fn find(&self, user: u64) -> Option<(usize, u64)> {
        let (number, past) = self.ground.blocks.find(user)?;
        let number = number as usize;
        let front = self.ground.fronts.get(number).copied().unwrap_or(0);
        (past == 0 || past == u64::from(front)).then_some((number, past))
    }

    fn usable_of(&self, number: usize) -> u64 {
        let blocks = self.ground.blocks;
        blocks.ends[number].wrapping_sub(blocks.starts[number]).wrapping_add(1) & self.word.wrapping_neg()
    }

    fn flags(&self, kind: i32) -> u32 {
        let kind = kind as usize;
        match self.ground.flags.get(kind) {
            Some(flags) => *flags,
            None => self.found.kinds.get(kind.wrapping_sub(self.ground.flags.len())).map_or(0, |each| {
                match each.form as u32 {
                    APART if self.flags_of_given(each.owner) & APART_HAS_MEMBER != 0 => SINGLE | HAS_MEMBER,
                    form if is_node(form) => SINGLE | NODE,
                    _ => SINGLE,
                }
            }),
        }
    }

    fn flags_of_given(&self, kind: u64) -> u32 {
        self.ground.flags.get(kind as usize).copied().unwrap_or(0)
    }

    fn is_weak(&self, number: usize) -> bool {
        self.kinds[number] >= 0 && self.flags(self.kinds[number]) & WEAK != 0
    }

    /// How much can be used of what holders may name.
    fn usable(&self, user: u64) -> Option<u64> {
        let (number, front) = self.find(user)?;
        self.is_weak(number).then(|| self.usable_of(number).saturating_sub(front))
    }

    fn put(&mut self, user: u64, kind: u32) {
        if let Some((number, _)) = self.find(user) {
            self.kinds[number] = kind as i32;
        }
    }

    // memory

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.ground.image.fill_across(address, bytes)
    }

    /// So many words; None where not all can be read.
    fn words(&self, address: u64, count: u64) -> Result<Option<Vec<u64>>> {
        // what a header claims may be more than there is
        let size = count.saturating_mul(self.word);
        if size > ELEMENTS + LARGEST {
            return self.long_words(address, count);
        }
        if address.checked_add(size).is_none() {
            return Ok(None);
        }
        let mut bytes = filled(size as usize, 0u8)?;
        if !self.read(address, &mut bytes) {
            return Ok(None);
        }
        let mut words = filled(count as usize, 0u64)?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(self.word as usize)) {
            *word = self.ground.image.number(bytes);
        }
        Ok(Some(words))
    }

    /// The same of a table that may be long: nothing is made for more than the image has.
    fn long_words(&self, address: u64, count: u64) -> Result<Option<Vec<u64>>> {
        let mut words = Vec::new();
        let step = LARGEST / self.word;
        let (mut at, mut left) = (address, count);
        while left > 0 {
            let now = left.min(step);
            let Some(some) = self.words(at, now)? else { return Ok(None) };
            append(&mut words, some)?;
            left -= now;
            match at.checked_add(now * self.word) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(words))
    }

    fn some_words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let mut bytes = [0u8; 64];
        let size = N * self.word as usize;
        if !self.read(address, bytes.get_mut(..size)?) {
            return None;
        }
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(self.word as usize)) {
            *word = self.ground.image.number(bytes);
        }
        Some(words)
    }

    /// Whether there is nothing but letters of ASCII.
    fn is_text(&self, address: u64, length: u64) -> bool {
        let mut bytes = [0u8; TEXT as usize];
        let bytes = &mut bytes[..length.min(TEXT) as usize];
        length >= SHORTEST && self.read(address, bytes) && bytes.iter().all(|byte| is_plain(*byte))
    }

    fn is_code(&self, address: u64) -> bool {
        let code = self.ground.code;
        let at = code.partition_point(|span| span.end <= address);
        code.get(at).is_some_and(|span| span.start <= address)
    }

    // areas

    fn look_into_fixed(&mut self) -> Result<()> {
        for fixed in self.ground.fixed {
            let called = if fixed.is_stack != 0 { Called::As(STACK) } else { Called::Variable };
            let end = fixed.start.saturating_add(fixed.bytes);
            let mut start = fixed.start;
            while start < end {
                self.pace.step()?;
                let bytes = LARGEST.min(end - start);
                let area = Area { start, bytes, called, single: fixed.is_stack == 0, links: 0, kind: None };
                let own = bytes / self.word;
                let words = match self.words(start, own + LONGEST_FORM)? {
                    Some(words) => Some(words),
                    None => self.words(start, own)?,
                };
                if let Some(words) = words {
                    self.look_at(&area, start, &words, own as usize)?;
                    self.follow()?;
                }
                start += bytes;
            }
        }
        Ok(())
    }

    fn area(&self, start: u64, usable: u64, kind: u32) -> Area {
        let flags = self.flags(kind as i32);
        Area {
            start,
            bytes: usable.min(LARGEST),
            called: Called::As(u64::from(kind)),
            single: flags & SINGLE != 0,
            links: u64::from(flags >> LINKS) * self.word,
            kind: Some(kind),
        }
    }

    /// The blocks of kinds that have this flag, without those that have a mapping of their own.
    fn areas(&self, flag: u32) -> Result<Vec<Area>> {
        let mut areas = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            let start = self.ground.blocks.starts[number];
            if *kind >= 0 && self.flags(*kind) & flag != 0 && self.ground.mapped.binary_search(&start).is_err() {
                push(&mut areas, self.area(start, self.usable_of(number), *kind as u32))?;
            }
        }
        Ok(areas)
    }

    fn look_into_holders(&mut self) -> Result<()> {
        let mut areas = self.areas(HOLDER)?;
        for known in self.ground.known {
            push(&mut areas, self.area(known.start, known.bytes, known.kind as u32))?;
        }
        areas.sort_by_key(|area| area.start);
        for area in areas {
            self.pace.step()?;
            self.count_object(area.kind)?;
            if let Some(words) = self.words_of(&area)? {
                self.look_at(&area, area.start.saturating_add(area.links), &words, words.len())?;
                self.follow()?;
            }
        }
        Ok(())
    }

    fn count_object(&mut self, kind: Option<u32>) -> Result<()> {
        if let Some(kind) = kind {
            while self.found.objects.len() <= kind as usize {
                push(&mut self.found.objects, 0)?;
            }
            self.found.objects[kind as usize] += 1;
        }
        Ok(())
    }

    fn words_of(&self, area: &Area) -> Result<Option<Vec<u64>>> {
        let count = area.bytes.saturating_sub(area.links) / self.word;
        self.words(area.start.saturating_add(area.links), count)
    }

    fn follow(&mut self) -> Result<()> {
        while let Some(area) = self.left.pop_front() {
            let end = area.start.saturating_add(area.bytes);
            let mut start = area.start.saturating_add(area.links);
            while start < end {
                self.pace.step()?;
                let count = (LARGEST + LONGEST_FORM * self.word).min(end - start) / self.word;
                if let Some(words) = self.words(start, count)? {
                    self.look_at(&area, start, &words, words.len())?;
                }
                start = start.saturating_add(LARGEST);
            }
        }
        Ok(())
    }

    /// Blocks of which nothing is known, as structs without a vtable are, for containers that prove themselves; for
    /// others where many blocks of a size agree.
    fn look_into_plain(&mut self) -> Result<()> {
        let many = self.ground.flags.len();
        let (mut tried, mut fruitful) = (filled(many, 0u64)?, filled(many, false)?);
        let mut likely_at: HashMap<(u64, u64), usize> = HashMap::new();
        let mut places: HashMap<(u64, u64, u32), usize> = HashMap::new();
        let mut doubtful: Vec<Vec<(Area, Body)>> = Vec::new();
        // structs that have a container which proves itself: another one in it is no older than that
        let mut proven: HashSet<u64> = HashSet::new();
        let mut proven_of: HashMap<u64, usize> = HashMap::new();
        for area in self.areas(PLAIN)? {
            self.pace.step()?;
            let kind = area.kind.map_or(0, |kind| kind as usize).min(many.saturating_sub(1));
            if tried[kind] > TRIED {
                continue;
            }
            tried[kind] += u64::from(!fruitful[kind]);
            let Some(mut words) = self.words_of(&area)? else { continue };
            words.truncate((LARGEST_PLAIN / self.word) as usize);
            let (mut has_streams, mut found) = (None, Vec::new());
            for index in 0..words.len() {
                if self.may_be_body(&words, index) {
                    self.bodies_at(&words, index, &mut has_streams, &mut found)?;
                }
            }
            let holder = Area { called: Called::Nobody, single: false, kind: None, ..area };
            for body in found {
                let (body, is_body) = body;
                let place = (area.bytes, body.offset);
                *entry(&mut likely_at, place)? += 1;
                if !is_body {
                    continue;
                }
                fruitful[kind] = true;
                if body.proven {
                    if include(&mut proven, area.start)? {
                        *entry(&mut proven_of, area.bytes)? += 1;
                    }
                    self.take(&holder, area.start, &body)?;
                    self.follow()?;
                } else {
                    let next = doubtful.len();
                    places.try_reserve(1)?;
                    let group = *places.entry((place.0, place.1, body.form)).or_insert(next);
                    if group == next {
                        push(&mut doubtful, Vec::new())?;
                    }
                    push(&mut doubtful[group], (holder, body))?;
                }
            }
        }
        for group in doubtful {
            let Some((area, body)) = group.first() else { continue };
            let likely = likely_at.get(&(area.bytes, body.offset)).copied().unwrap_or(0);
            let agree = group.len() >= ALIKE
                && 3 * group.len() >= 2 * likely
                && proven_of.get(&area.bytes).copied().unwrap_or(0) < ALIKE;
            for (area, body) in &group {
                self.pace.step()?;
                if (agree || proven.contains(&area.start)) && self.usable(body.user).is_some() {
                    self.take(area, area.start, body)?;
                    self.follow()?;
                }
            }
        }
        Ok(())
    }

    /// Takes what the first `own` words of an area lead to; those behind them may belong to its last container.
    fn look_at(&mut self, area: &Area, start: u64, words: &[u64], own: usize) -> Result<()> {
        let flags = area.kind.map_or(0, |kind| self.flags(kind as i32));
        let mut skipped = usize::MAX;
        if flags & HAS_MEMBER != 0 && words.len() > 1 && self.usable(words[0]).is_some() {
            // other forms would take a pointer, a length and how much room there is for a string
            skipped = 0;
            self.take_member(words[0], words[1])?;
        }
        let (mut has_streams, mut found) = (None, Vec::new());
        for index in 0..own.min(words.len()) {
            if index == skipped {
                continue;
            }
            found.clear();
            self.bodies_at(words, index, &mut has_streams, &mut found)?;
            for (body, is_body) in &found {
                if *is_body {
                    self.take(area, start, body)?;
                } else if matches!(area.called, Called::Variable) || area.kind.is_some() {
                    let kind = area.kind.map_or(u64::MAX, u64::from);
                    let address = start.saturating_add(body.offset);
                    push(&mut self.found.plain, Plain { to: body.user, address, start: area.start, kind })?;
                }
            }
        }
        if let (Some(kind), true) = (area.kind, flags & (CONTROL | HAS_APART) == CONTROL | HAS_APART) {
            self.name_what_is_shared(kind, words)?;
        }
        Ok(())
    }

    // what is taken

    fn name(&mut self, name: Name) -> Result<u64> {
        if let Some(number) = self.names.get(&name) {
            return Ok(*number);
        }
        let number = NAMES + self.found.names.len() as u64;
        push(&mut self.found.names, name)?;
        insert(&mut self.names, name, number)?;
        Ok(number)
    }

    fn owner(&mut self, area: &Area, address: u64) -> Result<Option<u64>> {
        Ok(match area.called {
            Called::Nobody => None,
            Called::Variable => Some(self.name(Name { of: address, part: 0, number: 0 })?),
            Called::As(name) if !area.single => Some(name),
            Called::As(of) => Some(self.name(Name { of, part: 1, number: address.saturating_sub(area.start) })?),
        })
    }

    fn kind(&mut self, form: u32, certain: bool, owner: Option<u64>) -> Result<u32> {
        let kind = BodyKind { form: form.into(), certain: certain.into(), owner: owner.unwrap_or(NOBODY) };
        if let Some(number) = self.numbers.get(&kind) {
            return Ok(*number);
        }
        let number = (self.ground.flags.len() + self.found.kinds.len()) as u32;
        push(&mut self.found.kinds, kind)?;
        insert(&mut self.numbers, kind, number)?;
        Ok(number)
    }

    fn wait(&mut self, area: Area) -> Result<()> {
        self.left.try_reserve(1)?;
        self.left.push_back(area);
        Ok(())
    }

    fn take(&mut self, area: &Area, start: u64, body: &Body) -> Result<()> {
        let address = start.saturating_add(body.offset);
        let owner = self.owner(area, address)?;
        // the nodes of a hash table are as many as it says; of others the words alone tell
        let certain = matches!(body.form, STDIO | BUCKETS | HASHED | TREE | LIST | TABLE | FUNCTION) && body.sure;
        if !certain && self.find(body.user).is_some_and(|(number, _)| self.flags(self.kinds[number]) & NODE != 0) {
            return Ok(());
        }
        // whether a pool is libstdc++'s the symbol at its container tells
        let kind = match body.form {
            POOL => self.kind(POOL, false, Some(address))?,
            form => self.kind(form, certain, owner)?,
        };
        self.put(body.user, kind);
        if body.inside == 0 {
            return Ok(());
        }
        let bytes = body.inside.min(ELEMENTS);
        if let Some(links) = links_of(body.form) {
            let called = Called::As(kind.into());
            self.count_object(Some(kind))?;
            let links = links * self.word;
            return self.wait(Area { start: body.user, bytes, called, single: true, links, kind: Some(kind) });
        }
        let of = owner.unwrap_or(NOBODY);
        let called = Called::As(self.name(Name { of, part: 2, number: body.form.into() })?);
        let start = body.user.saturating_add(body.start);
        self.wait(Area { start, bytes, called, single: false, links: 0, kind: None })
    }

    fn take_member(&mut self, user: u64, length: u64) -> Result<()> {
        // of none malloc gives a byte
        if self.usable(user).is_some_and(|usable| fits(length.max(1), usable)) {
            let kind = self.kind(MEMBER, true, None)?;
            self.put(user, kind);
        }
        Ok(())
    }

    /// The object of a control block that stands apart from it, where that has no other pointer.
    fn name_what_is_shared(&mut self, kind: u32, words: &[u64]) -> Result<()> {
        let Ground { low, high, skew, mask, .. } = *self.ground;
        let mut pointers =
            words.iter().copied().filter(|word| low <= *word && *word < high && word.wrapping_sub(skew) & mask == 0);
        let (Some(user), None) = (pointers.next(), pointers.next()) else { return Ok(()) };
        if let Some(usable) = self.usable(user) {
            let number = self.kind(APART, true, Some(kind.into()))?;
            self.put(user, number);
            self.count_object(Some(number))?;
            let called = Called::As(number.into());
            let bytes = usable.min(LARGEST);
            self.wait(Area { start: user, bytes, called, single: true, links: 0, kind: Some(number) })?;
        }
        Ok(())
    }

    // forms

    /// What the container at a word points to; false: no container is there, and the pointer is a plain one.
    fn bodies_at(
        &mut self,
        words: &[u64],
        index: usize,
        has_streams: &mut Option<bool>,
        found: &mut Containers,
    ) -> Result<()> {
        let user = words[index];
        if user % self.word != 0 || !(self.ground.low..self.ground.high).contains(&user) {
            return Ok(());
        }
        let program = self.ground.program;
        let Some(usable) = self.usable(user) else {
            if program & OF_RUST != 0 && program & OF_CPLUSPLUS == 0 {
                self.table(words, index, found)?;
            }
            return Ok(());
        };
        let streams = *has_streams.get_or_insert_with(|| may_have_streams(words, self));
        let before = found.len();
        if streams {
            self.stdio(words, index, usable, found)?;
        }
        if found.len() == before && (streams || self.may_fit(words, index, usable)) {
            if program & OF_CPLUSPLUS != 0 {
                self.of_cplusplus(words, index, usable, found)?;
            } else if program & OF_RUST != 0 {
                self.vec(words, index, usable, found)?;
            }
        }
        if found.len() == before {
            push(found, (Body::of(0, user, self.offset(index)), false))?;
        }
        Ok(())
    }

    fn of_cplusplus(&mut self, words: &[u64], at: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let libcxx = self.ground.program & MAY_HAVE_LIBCXX != 0;
        let before = found.len();
        for number in 0..10 {
            match number {
                0 => self.hash(words, at, usable, found)?,
                1 => self.map(words, at, found)?,
                2 => self.list(words, at, found)?,
                3 => self.deque(words, at, usable, found)?,
                4 if libcxx => self.other_deque(words, at, usable, found)?,
                5 => self.vector(words, at, usable, found)?,
                6 => self.string(words, at, usable, found)?,
                7 if libcxx => self.other_string(words, at, usable, found)?,
                8 => self.function(words, at, usable, found)?,
                9 => self.pool(words, at, usable, found)?,
                _ => (),
            }
            if found.len() > before {
                break;
            }
        }
        Ok(())
    }

    fn offset(&self, index: usize) -> u64 {
        index as u64 * self.word
    }

    /// Whether a form but a stream's may, by numbers alone: in tables of pointers, which are long, none does.
    fn may_fit(&self, words: &[u64], index: usize, usable: u64) -> bool {
        let Some(&[user, second, third, fourth]) = words.get(index..index + 4) else { return true };
        // what is as long as the block or less; how many nodes; where it ends; what manages a function's body
        second <= usable
            || third <= MOST_NODES
            || fourth <= MOST_NODES
            || (user <= second && second <= user.saturating_add(usable))
            || (self.ground.program & MAY_HAVE_LIBCXX != 0 && index > 1 && words[index - 1] <= usable)
            || self.is_code(third)
    }

    /// Whether one of the forms may fit that is looked for where nothing is known.
    fn may_be_body(&self, words: &[u64], index: usize) -> bool {
        let Some(&[first, second, third]) = words.get(index..index + 3) else { return false };
        let before = if index > 0 { words[index - 1] } else { words[words.len() - 1] };
        if self.ground.program & OF_CPLUSPLUS == 0 {
            let room = if index > 0 { before } else { 0 };
            return (0 < second && second <= room && room < MOST_ROOM)
                || (0 < second && second < MOST_ROOM && second & (second + 1) == 0);
        }
        let calls = words.get(index + 3).is_some_and(|fourth| third ^ fourth < MOST_CODE);
        if second < MOST_ROOM {
            // a string, a hash table, a deque's map
            return second > 0 || calls;
        }
        // a vector, a tree, a list
        (first <= second && second <= third && third < first.saturating_add(MOST_ROOM))
            || (0 < third && third < MOST_ROOM)
            || before & 0xFFFF_FFFF < 2
            || calls
    }

    /// struct _IO_FILE: a magic number, where it reads, where it writes, and where the buffer for both begins and ends.
    /// The number alone is no evidence: a pointer into a heap of gigabytes has it, too.
    fn stdio(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        for at in index.saturating_sub(STREAM_WORDS)..index {
            if self.ground.image.first_half(words[at]) >> 16 != STREAM {
                continue;
            }
            let Some(&[.., start, end]) = words.get(at + 1..at + 1 + STREAM_WORDS) else { continue };
            let places = &words[at + 1..at + STREAM_WORDS - 1];
            let within = places.iter().all(|place| *place == 0 || (start <= *place && *place <= end));
            if start == words[index] && start < end && end - start <= usable && within {
                return push(found, (Body::of(STDIO, start, self.offset(at)), true));
            }
        }
        Ok(())
    }

    /// Rust's Vec, String and VecDeque: how much room, where it is, how many elements.
    fn vec(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[room, user, length]) = index.checked_sub(1).and_then(|first| words.get(first..first + 3)) else {
            return Ok(());
        };
        if !(0 < length && length <= room && room <= usable) {
            return Ok(());
        }
        let offset = self.offset(index - 1);
        if fits(room, usable) {
            // a small block would have room for as many of two bytes and more as well
            let text = self.is_text(user, length);
            let told = text || !fits(2 * room, usable);
            let form = if told { VEC_BYTES } else { VEC };
            return push(found, (Body::of(form, user, offset).proven(text && length > LOCAL / 2), true));
        }
        let size = usable / room / self.word * self.word;
        if room < LEAST_ROOM || size == 0 || size > MOST_ELEMENT || !fits(room.saturating_mul(size), usable) {
            return Ok(());
        }
        push(found, (Body::of(VEC, user, offset).inside(length.saturating_mul(size)), true))
    }

    /// libstdc++'s: where it is, how long, how much room.
    fn string(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        match words.get(index..index + 3) {
            Some(&[user, length, room]) if room > LOCAL => self.text(user, length, room, usable, index, found),
            _ => Ok(()),
        }
    }

    /// libc++'s: how much room, with a mark in its lowest bit (or highest), how long, where it is.
    fn other_string(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[room, length, user]) = index.checked_sub(2).and_then(|first| words.get(first..first + 3)) else {
            return Ok(());
        };
        let mark = if self.ground.image.is_little() { 1 } else { 1 << (8 * self.word - 1) };
        match (room & !mark).checked_sub(1) {
            Some(rest) if room & mark != 0 => self.text(user, length, rest, usable, index - 2, found),
            _ => Ok(()),
        }
    }

    fn text(&self, user: u64, length: u64, room: u64, usable: u64, index: usize, found: &mut Containers) -> Result<()> {
        for (width, form) in [(1, STRING), (2, STRING_16), (4, STRING_32)] {
            let all = room.saturating_add(1).saturating_mul(width);
            if length > room || !fits(all, usable) {
                continue;
            }
            // all of a short one is read at once, with the zero after it
            let mut bytes = [0u8; TEXT as usize + 4];
            let seen = (width * length).min(TEXT) as usize;
            let bytes = &mut bytes[..seen + width as usize];
            let start = user.saturating_add(width * length - seen as u64);
            if self.read(start, bytes) && bytes[seen..].iter().all(|byte| *byte == 0) {
                let proven = width == 1 && length > LOCAL / 2 && bytes[..seen].iter().all(|byte| is_plain(*byte));
                return push(found, (Body::of(form, user, self.offset(index)).proven(proven), true));
            }
        }
        Ok(())
    }

    fn vector(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        match words.get(index..index + 3) {
            Some(&[start, end, limit]) if start <= end && end <= limit && fits(limit - start, usable) => {
                push(found, (Body::of(VECTOR, start, self.offset(index)).inside(end - start), true))
            }
            _ => Ok(()),
        }
    }

    /// libstdc++'s: the map and its size, then where the elements begin and end: cur, first, last, node.
    fn deque(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(words) = words.get(index..index + 10) else { return Ok(()) };
        let (table, size) = (words[0], words[1].saturating_mul(self.word));
        let (first, last) = (words[5], words[9]);
        if !fits(size, usable) || table > first || first > last || last >= table.saturating_add(size) {
            return Ok(());
        }
        if (last - first) % self.word != 0 {
            return Ok(());
        }
        let Some(nodes) = self.words(first, (last - first) / self.word + 1)? else { return Ok(()) };
        if nodes.first() != Some(&words[3]) || nodes.last() != Some(&words[7]) {
            return Ok(());
        }
        if nodes.iter().any(|node| self.usable(*node).is_none()) {
            return Ok(());
        }
        let (offset, room) = (self.offset(index), words[4].saturating_sub(words[3]).min(usable));
        push(found, (Body::of(DEQUE, table, offset).proven(true), true))?;
        for node in nodes {
            push(found, (Body::of(DEQUE, node, offset).inside(room).proven(true), true))?;
        }
        Ok(())
    }

    /// libc++'s: the map, and where in it the blocks begin and end, and its own end; the first element's number, and
    /// how many there are.
    fn other_deque(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[table, first, end, limit, _, size]) = words.get(index..index + 6) else { return Ok(()) };
        if !(table <= first && first < end && end <= limit && size != 0 && fits(limit - table, usable)) {
            return Ok(());
        }
        let Some(nodes) = self.words(first, (end - first) / self.word)? else { return Ok(()) };
        let Some(room) = nodes.first().and_then(|node| self.usable(*node)) else { return Ok(()) };
        if nodes.iter().any(|node| self.usable(*node) != Some(room)) {
            return Ok(());
        }
        let offset = self.offset(index);
        push(found, (Body::of(DEQUE, table, offset), true))?;
        for node in nodes {
            push(found, (Body::of(DEQUE, node, offset).inside(room), true))?;
        }
        Ok(())
    }

    /// libstdc++'s: buckets and how many, the first node, how many elements, the load factor.
    fn hash(&mut self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[buckets, size, first, count, load]) = words.get(index..index + 5) else { return Ok(()) };
        if !fits(size.saturating_mul(self.word), usable)
            || self.ground.image.first_half(load) != ONE
            || count > MOST_NODES
        {
            return Ok(());
        }
        if (first == 0) != (count == 0) {
            return Ok(());
        }
        let (before, offset) = (found.len(), self.offset(index));
        push(found, (Body::of(BUCKETS, buckets, offset).proven(count > 0), true))?;
        let (mut node, mut met) = (first, HashSet::new());
        for _ in 0..count {
            self.pace.step()?;
            let room = if met.contains(&node) { None } else { self.usable(node) };
            let following = room.and_then(|_| self.some_words::<1>(node));
            let (Some(room), Some([following])) = (room, following) else {
                return self.in_vain(before, met.len() as u64, found);
            };
            if met.len() as u64 > self.in_vain {
                return self.in_vain(before, met.len() as u64, found);
            }
            include(&mut met, node)?;
            push(found, (Body::of(HASHED, node, offset).inside(room).proven(true), true))?;
            node = following;
        }
        // as many as are counted, and not one more
        if node != 0 {
            return self.in_vain(before, count, found);
        }
        Ok(())
    }

    /// Nothing was found, after so many nodes.
    fn in_vain(&mut self, before: usize, nodes: u64, found: &mut Containers) -> Result<()> {
        self.in_vain = self.in_vain.saturating_sub(nodes);
        found.truncate(before);
        Ok(())
    }

    /// libstdc++'s std::map and set: in the header a colour, the root, the first and the last node, and how many.
    fn map(&mut self, words: &[u64], index: usize, found: &mut Containers) -> Result<()> {
        let Some(&[root, first, last, count]) = words.get(index..index + 4) else { return Ok(()) };
        if index == 0 || count == 0 || count > MOST_NODES {
            return Ok(());
        }
        // the root's parent is the header, in these very words
        let Some([_, up, _, _]) = self.some_words::<4>(root) else { return Ok(()) };
        let Some([colour, rest @ ..]) = self.some_words::<5>(up) else { return Ok(()) };
        if rest != [root, first, last, count] || self.ground.image.first_half(colour) != 0 {
            return Ok(());
        }
        let (before, offset) = (found.len(), self.offset(index));
        let mut left = Vec::new();
        push(&mut left, (root, up))?;
        let (mut has_first, mut has_last) = (false, false);
        while let Some((node, parent)) = left.pop() {
            self.pace.step()?;
            let nodes = (found.len() - before) as u64;
            let room = self.usable(node);
            let own = room.filter(|_| nodes < count.min(self.in_vain)).and_then(|_| self.some_words::<4>(node));
            let (Some(room), Some([colour, above, one, other])) = (room, own) else {
                return self.in_vain(before, nodes, found);
            };
            if above != parent || self.ground.image.first_half(colour) > 1 {
                return self.in_vain(before, nodes, found);
            }
            push(found, (Body::of(TREE, node, offset).inside(room).proven(true), true))?;
            if one == 0 || other == 0 {
                has_first |= node == first;
                has_last |= node == last;
            }
            for each in [one, other] {
                if each != 0 {
                    push(&mut left, (each, node))?;
                }
            }
        }
        let nodes = (found.len() - before) as u64;
        if nodes != count {
            return self.in_vain(before, nodes, found);
        }
        if !(has_first && has_last) {
            found.truncate(before);
        }
        Ok(())
    }

    /// std::list, or one like it: the next one, the one before, and how many; libc++ has the first two the other way
    /// round.
    fn list(&mut self, words: &[u64], index: usize, found: &mut Containers) -> Result<()> {
        let Some(&[first, last, count]) = words.get(index..index + 3) else { return Ok(()) };
        if count == 0 || count > MOST_NODES {
            return Ok(());
        }
        let Some([_, header]) = self.some_words::<2>(first) else { return Ok(()) };
        if header == 0 || self.some_words::<3>(header) != Some([first, last, count]) {
            return Ok(());
        }
        let (start, offset) = (found.len(), self.offset(index));
        let (mut node, mut before) = (first, header);
        while node != header {
            self.pace.step()?;
            let nodes = (found.len() - start) as u64;
            let room = self.usable(node);
            let links = room.filter(|_| nodes < count.min(self.in_vain)).and_then(|_| self.some_words::<2>(node));
            let (Some(room), Some([next, back])) = (room, links) else { return self.in_vain(start, nodes, found) };
            if back != before {
                return self.in_vain(start, nodes, found);
            }
            push(found, (Body::of(LIST, node, offset).inside(room).proven(true), true))?;
            (before, node) = (node, next);
        }
        if (found.len() - start) as u64 != count || before != last {
            found.truncate(start);
        }
        Ok(())
    }

    /// Rust's hash tables, whose holder has the address of their control bytes: where these are, how many places but
    /// one, how many may yet be filled, how many are.
    fn table(&mut self, words: &[u64], index: usize, found: &mut Containers) -> Result<()> {
        let Some(&[control, mask, left, entries]) = words.get(index..index + 4) else { return Ok(()) };
        let Some(places) = mask.checked_add(1) else { return Ok(()) };
        let room = if mask < 8 { mask } else { places / 8 * 7 };
        if mask & places != 0 || !(LEAST_PLACES..=MOST_PLACES).contains(&places) || entries == 0 {
            return Ok(());
        }
        if left > room || entries > room - left || places > self.in_vain {
            return Ok(());
        }
        let Some((number, _)) = self.ground.blocks.find(control) else { return Ok(()) };
        let number = number as usize;
        let (start, usable) = (self.ground.blocks.starts[number], self.usable_of(number));
        if !self.is_weak(number) || control - start >= usable || places > usable || control == start {
            return Ok(());
        }
        let mut bytes = filled((places + GROUP) as usize, 0u8)?;
        let own = places as usize;
        let taken = |bytes: &[u8]| bytes[..own].iter().filter(|byte| **byte < FREE).count() as u64;
        if !self.read(control, &mut bytes) || taken(&bytes) != entries || !repeats(&bytes, own, control - start, usable)
        {
            self.in_vain -= places;
            return Ok(());
        }
        let (size, offset) = ((control - start) / places, self.offset(index));
        let mut at = 0;
        while at < own {
            let free = bytes[at] >= FREE;
            let count = bytes[at..own].iter().take_while(|byte| (**byte >= FREE) == free).count();
            if !free {
                let end = (control - start).saturating_sub(at as u64 * size);
                let begin = end.saturating_sub(count as u64 * size);
                let body = Body { start: begin, ..Body::of(TABLE, start, offset).inside(end - begin).proven(true) };
                push(found, (body, true))?;
            }
            at += count;
        }
        Ok(())
    }

    /// What libstdc++ throws from once malloc has nothing left: each entry begins with its size and the next one.
    fn pool(&self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[free, arena, size]) = index.checked_sub(1).and_then(|first| words.get(first..first + 3)) else {
            return Ok(());
        };
        let end = arena.saturating_add(size);
        if size < LEAST_POOL || !fits(size, usable) || free < arena || free >= end {
            return Ok(());
        }
        match self.some_words::<2>(free) {
            Some([own, next]) if 0 < own && own <= end - free && (next == 0 || (free < next && next < end)) => {
                push(found, (Body::of(POOL, arena, self.offset(index)), true))
            }
            _ => Ok(()),
        }
    }

    /// libstdc++'s std::function: what it calls, unless that is small, and two functions that know how: one manages it,
    /// which its symbol says where there is one. A table of commands has as many functions, after a text mostly.
    fn function(&mut self, words: &[u64], index: usize, usable: u64, found: &mut Containers) -> Result<()> {
        let Some(&[user, _, manager, invoker]) = words.get(index..index + 4) else { return Ok(()) };
        if !self.is_code(manager) || !self.is_code(invoker) {
            return Ok(());
        }
        let known = self.ground.managers.binary_search_by_key(&manager, |each| each.address);
        let Ok(at) = known else {
            include(&mut self.asked, manager)?;
            return Ok(());
        };
        let named = match self.ground.managers[at].verdict {
            MANAGER => true,
            NAMELESS if !self.begins_with_text(user, usable) => false,
            _ => return Ok(()),
        };
        let body = Body { sure: named, ..Body::of(FUNCTION, user, self.offset(index)).proven(named) };
        push(found, (body, true))
    }

    fn begins_with_text(&self, user: u64, usable: u64) -> bool {
        let mut bytes = [0u8; TEXT as usize];
        let bytes = &mut bytes[..usable.min(TEXT) as usize];
        if !self.read(user, bytes) {
            return false;
        }
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
        !text.is_empty() && text.iter().all(|byte| is_plain(*byte))
    }
}

/// Whether the first control bytes stand again after the last one, and the block ends there.
fn repeats(bytes: &[u8], places: usize, control: u64, usable: u64) -> bool {
    GROUPS.iter().any(|group| {
        let again = &bytes[places.max(*group as usize)..];
        let again = &again[..again.len().min(places.min(*group as usize))];
        fits(control + places as u64 + group, usable) && *again == bytes[..again.len()]
    })
}

/// Whether one of the words has the magic number of struct _IO_FILE in it.
fn may_have_streams(words: &[u64], pass: &Pass) -> bool {
    words.iter().any(|word| pass.ground.image.first_half(*word) >> 16 == STREAM)
}
