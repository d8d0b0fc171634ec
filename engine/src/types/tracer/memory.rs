//! Memory and live blocks, word by word, as they are followed: in no order, but mostly near to each other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bits::Bits;
use crate::blocks::{Blocks, NONE};
use crate::failure::{filled, Result};
use crate::image::{Image, Span};
use crate::pointer_strength::{sds, Sds, LONGEST_SDS, SDS_HEADERS};

/// Bytes of a file that are read at once.
const WINDOW: u64 = 1 << WINDOW_BITS;
const WINDOW_BITS: u32 = 12;
/// Windows of files that are kept.
const WINDOWS: usize = 1 << 12;
/// Elements of an array in a variable.
const MOST_ELEMENTS: u64 = 1 << 24;
/// Addresses below, and as far from the top, are a program's own marks for nothing.
const NULL_PAGE: u64 = 4096;
/// Bytes that lie before a string's characters at most, for its length and flags.
const LARGEST_HEADER: u64 = 17;
/// Bytes of a text at the end of a struct.
const LONGEST_TEXT: u64 = 1 << 14;

/// What a vtable says of the object that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VtableClass {
    /// The whole object's class, demangled, with all template arguments.
    pub name: Rc<str>,
    /// How far it is from where the vtable's address lies to the object's own start: 0 or less.
    pub top: i64,
}

/// What modules have besides types, as far as it is asked for.
pub trait Modules {
    /// The demangled name of the function or variable that begins there.
    fn symbol(&self, _: u64) -> Option<Rc<str>> {
        None
    }

    /// Whether a function or variable begins there, whatever its name.
    fn has_symbol(&self, _: u64) -> bool {
        false
    }

    /// None: no vtable is there.
    fn vtable(&self, _: u64) -> Option<VtableClass> {
        None
    }

    /// Reads what does not change, which not every image has; false where there is none.
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

/// Nothing is asked for.
impl Modules for () {}

/// How malloc rounds sizes.
#[derive(Clone, Copy)]
pub struct Malloc {
    word: u64,
    mask: u64,
    /// The smallest chunk: one is larger than asked for by less than this, as what is left has to be a chunk itself.
    pub least: u64,
    /// What a mapping may have beside the block: a page, and malloc's own words.
    spare: u64,
}

impl Malloc {
    /// `align`: of blocks, a power of 2.
    pub fn new(word: u64, align: u64, page: u64) -> Malloc {
        let mask = align - 1;
        Malloc { word, mask, least: (4 * word + mask) & !mask, spare: page + 4 * word }
    }

    /// What sizes of chunks are multiples of.
    pub fn align(&self) -> u64 {
        self.mask + 1
    }

    /// The chunk that malloc takes for so many bytes, if it can split one off.
    #[inline]
    pub fn chunk_for(&self, size: u64) -> u64 {
        (size.saturating_add(self.word + self.mask) & !self.mask).max(self.least)
    }
}

/// Part of a piece of the image.
#[derive(Clone, Copy)]
struct Window {
    start: u64,
    size: u64,
    /// The number of the piece; FILE: its bytes are among those that were read from files.
    piece: usize,
}

const FILE: usize = usize::MAX;
const NOWHERE: Window = Window { start: 0, size: 0, piece: FILE };

/// Memory and live blocks, as containers and the tracer need them.
pub struct Memory<'a> {
    pub blocks: &'a Blocks,
    pub malloc: Malloc,
    image: &'a Image,
    modules: &'a dyn Modules,
    /// All that is mapped, in order; empty: not known.
    mapped: &'a [Span],
    /// The blocks that malloc mapped by themselves.
    alone: Bits,
    word: u64,
    last: Cell<Window>,
    windows: RefCell<Vec<Window>>,
    read: RefCell<Vec<u8>>,
}

impl<'a> Memory<'a> {
    /// `alone`: where the blocks begin that malloc mapped by themselves.
    pub fn new(
        image: &'a Image,
        blocks: &'a Blocks,
        malloc: Malloc,
        modules: &'a dyn Modules,
        mapped: &'a [Span],
        alone: &[u64],
    ) -> Result<Memory<'a>> {
        let mut found = Bits::new(blocks.len())?;
        for address in alone {
            if let (number, true) = blocks.nearest(*address) {
                found.add(number as usize);
            }
        }
        Ok(Memory {
            blocks,
            malloc,
            image,
            modules,
            mapped,
            alone: found,
            word: image.word,
            last: Cell::new(NOWHERE),
            windows: RefCell::new(filled(WINDOWS, NOWHERE)?),
            read: RefCell::new(if image.is_in_memory() { Vec::new() } else { filled(WINDOWS << WINDOW_BITS, 0)? }),
        })
    }

    pub fn is_little(&self) -> bool {
        self.image.is_little()
    }

    /// Hands over the bytes at an address, if all are in one window.
    #[inline]
    fn with<R>(&self, address: u64, size: u64, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let last = self.last.get();
        let within = address.wrapping_sub(last.start);
        if within < last.size && last.size - within >= size {
            if let Some(bytes) = self.image.piece_bytes(last.piece) {
                return Some(take(&bytes[within as usize..(within + size) as usize]));
            }
        }
        self.elsewhere(address, size, take)
    }

    fn elsewhere<R>(&self, address: u64, size: u64, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let number = (address >> WINDOW_BITS) as usize % WINDOWS;
        let mut windows = self.windows.borrow_mut();
        let window = &mut windows[number];
        if address.wrapping_sub(window.start) >= window.size {
            *window = self.load(address, number)?;
        }
        let within = address - window.start;
        if window.size - within < size {
            return None;
        }
        let (from, to) = (within as usize, (within + size) as usize);
        match self.image.piece_bytes(window.piece) {
            Some(bytes) => {
                self.last.set(*window);
                Some(take(&bytes[from..to]))
            }
            None => {
                let read = self.read.borrow();
                Some(take(&read[number << WINDOW_BITS..][from..to]))
            }
        }
    }

    #[cold]
    fn load(&self, address: u64, number: usize) -> Option<Window> {
        let (place, piece) = self.image.piece_at(address)?;
        if self.image.piece_bytes(place).is_some() {
            return Some(Window { start: piece.start, size: piece.end - piece.start, piece: place });
        }
        let start = (address - address % WINDOW).max(piece.start);
        let size = (piece.end - start).min(WINDOW - start % WINDOW);
        let mut read = self.read.borrow_mut();
        let to = &mut read[number << WINDOW_BITS..][..size as usize];
        if self.image.fill(start, to) {
            return Some(Window { start, size, piece: FILE });
        }
        // a file may end within the window
        let size = (address + self.word).min(start + size) - start;
        self.image.fill(start, &mut to[..size as usize]).then_some(Window { start, size, piece: FILE })
    }

    /// How many of `count` objects side by side lie in one mapping.
    pub fn most(&self, address: u64, size: u64, count: u64) -> u64 {
        let end = match self.mapping(address) {
            Some(span) => span.end,
            None => self.image.piece_at(address).map_or(address, |(_, piece)| piece.end),
        };
        ((end - address) / size.max(1)).min(count).min(MOST_ELEMENTS)
    }

    /// The first part from an address on that the image has.
    pub fn readable(&self, address: u64) -> Option<Span> {
        self.image.piece_from(address).map(|piece| Span { start: piece.start.max(address), ..piece })
    }

    pub fn image(&self) -> &Image {
        self.image
    }

    fn mapping(&self, address: u64) -> Option<Span> {
        let number = self.mapped.partition_point(|span| span.end <= address);
        self.mapped.get(number).filter(|span| span.start <= address).copied()
    }

    /// Whether a word is no pointer at all, nor a program's mark for none. A tag may be in its low bits; a `void *` may
    /// be a small number as well.
    pub fn leads_nowhere(&self, value: u64, is_void: bool) -> bool {
        let top = if self.word == 8 { u64::MAX } else { u64::from(u32::MAX) };
        // only a program without PIE has anything so low
        let numbers = if self.word == 8 { 1 << 44 } else { 1 << 24 };
        let least = if is_void { numbers } else { NULL_PAGE };
        let is_address = least <= value && value <= top - least;
        is_address && !self.mapped.is_empty() && self.mapping(value & !(self.word - 1)).is_none()
    }

    /// Which block begins there.
    #[inline]
    pub fn at(&self, address: u64) -> Option<u32> {
        let (number, begins) = self.blocks.nearest(address);
        begins.then_some(number)
    }

    /// The last block that begins at or before an address in a place where blocks are, and whether it begins there.
    #[inline]
    pub fn before(&self, address: u64) -> Option<(u32, bool)> {
        let (number, begins) = self.blocks.nearest(address);
        (number != NONE).then_some((number, begins))
    }

    #[inline]
    pub fn start(&self, block: u32) -> u64 {
        self.blocks.starts[block as usize]
    }

    /// How many bytes of the heap the block takes.
    #[inline]
    pub fn size(&self, block: u32) -> u64 {
        self.blocks.sizes[block as usize]
    }

    /// How many bytes the block has for its user.
    #[inline]
    pub fn room(&self, block: u32) -> u64 {
        self.blocks.ends[block as usize] - self.start(block) + u64::from(self.is_alone(block))
    }

    /// Whether malloc mapped it by itself.
    #[inline]
    pub fn is_alone(&self, block: u32) -> bool {
        self.alone.has(block as usize)
    }

    /// Whether malloc gives this block for exactly this size.
    #[inline]
    pub fn fits(&self, block: u32, size: u64) -> bool {
        self.fits_within(block, size, 1)
    }

    /// Whether malloc gives this block for this size, or one that is larger by as much as malloc cannot split off.
    #[inline]
    pub fn fits_about(&self, block: u32, size: u64) -> bool {
        self.fits_within(block, size, self.malloc.least)
    }

    #[inline]
    fn fits_within(&self, block: u32, size: u64, slack: u64) -> bool {
        if self.is_alone(block) {
            // a mapping has whole pages
            return self.room(block).checked_sub(size).is_some_and(|more| more < self.malloc.spare);
        }
        self.size(block).checked_sub(self.malloc.chunk_for(size)).is_some_and(|more| more < slack)
    }

    /// The block in which a pointer leads behind a string's header, its length and flags. What lies at an even offset
    /// may as well be a member of a struct.
    pub fn behind_header(&self, value: u64) -> Option<u32> {
        let (block, _) = self.before(value)?;
        let header = value - self.start(block);
        (header % 2 == 1 && header <= LARGEST_HEADER && header < self.room(block)).then_some(block)
    }

    /// Whether a block is as large as malloc makes it for the text that it ends with, which begins at `offset`.
    pub fn ends_with_text(&self, block: u32, offset: u64) -> Result<bool> {
        let most = self.room(block).saturating_sub(offset).min(LONGEST_TEXT);
        let mut text = filled(most as usize, 0)?;
        if !self.bytes(self.start(block).wrapping_add(offset), &mut text) {
            return Ok(false);
        }
        let Some(length) = text.iter().position(|byte| *byte == 0).filter(|length| *length > 0) else {
            return Ok(false);
        };
        let is_text = text[..length].iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
        Ok(is_text && self.fits(block, offset + length as u64 + 1))
    }

    /// Whether a block has a text of redis behind its header: it ends in a zero, and the block is as large as malloc
    /// makes it for the text's room.
    pub fn has_sds(&self, block: u32) -> bool {
        let start = self.start(block);
        SDS_HEADERS.iter().any(|past| {
            let mut header = [0; LONGEST_SDS];
            let header = &mut header[..*past as usize];
            if *past >= self.room(block) || !self.bytes(start, header) {
                return false;
            }
            let Some(Sds { length, room }) = sds(header, |bytes| self.image.number(bytes)) else { return false };
            length > 0
                && self.fits(block, room.saturating_add(past + 1))
                && self.number(start.wrapping_add(past + length), 1) == Some(0)
        })
    }

    /// Bytes of a pointer.
    pub fn word_size(&self) -> u64 {
        self.word
    }

    /// None where it cannot be read.
    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        self.with(address, self.word, |bytes| self.image.number(bytes))
    }

    /// Fills `to` with the words from an address on; false where not all can be read.
    #[inline]
    pub fn words(&self, address: u64, to: &mut [u64]) -> bool {
        let word = self.word as usize;
        let size = to.len() as u64 * self.word;
        let at_once = self.with(address, size, |bytes| {
            for (word, bytes) in to.iter_mut().zip(bytes.chunks_exact(word)) {
                *word = self.image.number(bytes);
            }
        });
        at_once.is_some() || self.words_apart(address, to)
    }

    fn words_apart(&self, address: u64, to: &mut [u64]) -> bool {
        to.iter_mut().zip(0u64..).all(|(to, number)| {
            let place = address.checked_add(number * self.word);
            place.and_then(|place| self.word(place)).map(|word| *to = word).is_some()
        })
    }

    /// Fills `to` with the bytes from an address on; false where not all can be read.
    pub fn bytes(&self, address: u64, to: &mut [u8]) -> bool {
        self.with(address, to.len() as u64, |bytes| to.copy_from_slice(bytes)).is_some() || self.image.fill(address, to)
    }

    /// The same of what modules have, too.
    pub fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.bytes(address, to) || self.modules.read(address, to)
    }

    /// The bytes from an address on up to a 0, `longest` at most; None where no 0 ends what can be read.
    pub fn text(&self, address: u64, longest: usize) -> Result<Option<Vec<u8>>> {
        text(address, longest, |at, to| self.read(at, to))
    }

    /// An unsigned number of 1 to 8 bytes.
    pub fn number(&self, address: u64, size: u64) -> Option<u64> {
        let number = |bytes: &[u8]| match size {
            1 | 2 | 4 | 8 => self.image.number(bytes),
            _ => self.image.wide(bytes) as u64,
        };
        if !(1..=8).contains(&size) {
            return None;
        }
        self.with(address, size, number).or_else(|| {
            let mut apart = [0; 8];
            let bytes = &mut apart[..size as usize];
            self.bytes(address, bytes).then(|| number(bytes))
        })
    }

    /// The live block that begins there, if malloc gives it for exactly this size. The chunk may be larger by as much
    /// as malloc cannot split off.
    #[inline]
    pub fn holds(&self, address: u64, size: u64) -> Option<u32> {
        self.at(address).filter(|block| self.fits_about(*block, size))
    }

    /// The demangled name of the function or variable that begins there.
    pub fn symbol(&self, address: u64) -> Option<Rc<str>> {
        self.modules.symbol(address)
    }

    /// Whether a function or variable begins there.
    pub fn has_symbol(&self, address: u64) -> bool {
        self.modules.has_symbol(address)
    }

    pub fn vtable(&self, table: u64) -> Option<VtableClass> {
        self.modules.vtable(table)
    }

    /// The class of which complete objects begin with this word, demangled. None: it is no vtable's address.
    pub fn class_of(&self, table: u64) -> Option<Rc<str>> {
        self.vtable(table).filter(|told| told.top == 0).map(|told| told.name)
    }
}

/// The bytes from an address on, as they are read, up to a 0, about `longest` at most; None where no 0 ends what can be
/// read.
pub fn text(address: u64, longest: usize, read: impl Fn(u64, &mut [u8]) -> bool) -> Result<Option<Vec<u8>>> {
    const PIECE: usize = 256;
    let (mut text, mut piece) = (Vec::new(), [0; PIECE]);
    while text.len() < longest {
        let Some(at) = address.checked_add(text.len() as u64) else { return Ok(None) };
        let mut size = PIECE - at as usize % PIECE;
        // nothing says what follows
        while size > 0 && !read(at, &mut piece[..size]) {
            size /= 2;
        }
        let piece = &piece[..size];
        let end = piece.iter().position(|byte| *byte == 0);
        text.try_reserve(size)?;
        text.extend_from_slice(&piece[..end.unwrap_or(size)]);
        if end.is_some() || size == 0 {
            return Ok(Some(text).filter(|_| end.is_some()));
        }
    }
    Ok(Some(text))
}

#[cfg(test)]
pub mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::image::Piece;

    pub const WORD: u64 = 8;

    /// A program's memory, made by hand: one heap of blocks that lie back to back, and pages of variables.
    #[derive(Default)]
    pub struct Heap {
        bytes: Vec<u8>,
        data: Vec<u8>,
        starts: Vec<u64>,
        ends: Vec<u64>,
        sizes: Vec<u64>,
        pub symbols: HashMap<u64, &'static str>,
        pub vtables: HashMap<u64, (&'static str, i64)>,
    }

    pub const HEAP: u64 = 0x5555_0000_0000;
    pub const DATA: u64 = 0x5554_0000_0000;
    /// Nothing is mapped there.
    pub const GARBAGE: u64 = 0x0123_4567_89ab_cde0;
    const DATA_SIZE: usize = 1 << 16;

    impl Heap {
        /// A block for so many bytes, with a chunk that is `larger` than need be.
        pub fn malloc_larger(&mut self, size: u64, larger: u64) -> u64 {
            let chunk = Malloc::new(WORD, 16, 4096).chunk_for(size) + larger;
            let start = HEAP + 16 + self.bytes.len() as u64;
            self.bytes.resize(self.bytes.len() + chunk as usize, 0);
            self.starts.push(start);
            self.ends.push(start + chunk - WORD);
            self.sizes.push(chunk);
            start
        }

        pub fn malloc(&mut self, size: u64) -> u64 {
            self.malloc_larger(size, 0)
        }

        /// Where each block begins, and how many bytes it has.
        pub fn blocks(&self) -> Vec<(u64, u64)> {
            self.starts.iter().zip(&self.ends).map(|(start, end)| (*start, end - start)).collect()
        }

        pub fn put(&mut self, address: u64, words: &[u64]) {
            for (number, word) in words.iter().enumerate() {
                self.put_bytes(address + number as u64 * WORD, &word.to_le_bytes());
            }
        }

        pub fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
            self.data.resize(DATA_SIZE, 0);
            let place = match address.checked_sub(HEAP + 16) {
                Some(at) => &mut self.bytes[at as usize..],
                None => &mut self.data[(address - DATA) as usize..],
            };
            place[..bytes.len()].copy_from_slice(bytes);
        }

        pub fn look<R>(&self, look: impl FnOnce(&Memory) -> R) -> R {
            let mut image = Image::new(WORD, false);
            image.set(&[Piece::of(HEAP + 16, &self.bytes), Piece::of(DATA, &self.data)]).unwrap();
            let blocks = Blocks::new(&self.starts, &self.ends, &self.sizes).unwrap();
            let mapped = [
                Span { start: DATA, end: DATA + DATA_SIZE as u64 },
                Span { start: HEAP, end: HEAP + 4096 + self.bytes.len() as u64 },
            ];
            look(&Memory::new(&image, &blocks, Malloc::new(WORD, 16, 4096), self, &mapped, &[]).unwrap())
        }
    }

    impl Modules for Heap {
        fn symbol(&self, address: u64) -> Option<Rc<str>> {
            self.symbols.get(&address).map(|name| Rc::from(*name))
        }

        fn has_symbol(&self, address: u64) -> bool {
            self.symbols.contains_key(&address)
        }

        fn vtable(&self, table: u64) -> Option<VtableClass> {
            self.vtables.get(&table).map(|(name, top)| VtableClass { name: Rc::from(*name), top: *top })
        }
    }

    #[test]
    fn a_block_fits_what_malloc_gives_it_for() {
        let mut heap = Heap::default();
        let (exact, larger) = (heap.malloc(40), heap.malloc_larger(40, 16));
        heap.look(|memory| {
            let [exact, larger] = [exact, larger].map(|each| memory.at(each).unwrap());
            assert!(memory.fits(exact, 40) && memory.fits(exact, 25) && !memory.fits(exact, 24));
            assert!(!memory.fits(larger, 40) && memory.fits_about(larger, 40) && !memory.fits_about(larger, 8));
            assert!(!memory.fits(exact, u64::MAX) && !memory.fits_about(exact, u64::MAX));
            assert_eq!((memory.room(exact), memory.room(larger)), (40, 56));
        });
    }

    #[test]
    fn words_and_numbers_are_read_where_they_are() {
        let mut heap = Heap::default();
        let block = heap.malloc(40);
        heap.put(block, &[1, 2, 3, 4, 0x8877_6655_4433_2211]);
        heap.put(DATA, &[block]);
        heap.look(|memory| {
            assert_eq!((memory.word(DATA), memory.word(block + 8)), (Some(block), Some(2)));
            assert_eq!((memory.number(block + 32, 1), memory.number(block + 34, 4)), (Some(0x11), Some(0x6655_4433)));
            assert_eq!((memory.number(block, 9), memory.word(GARBAGE), memory.word(u64::MAX)), (None, None, None));
            let mut words = [0; 5];
            assert!(memory.words(block, &mut words) && words[..4] == [1, 2, 3, 4]);
            assert!(!memory.words(HEAP, &mut words) && !memory.words(u64::MAX - 8, &mut words));
        });
    }

    #[test]
    fn the_same_is_read_from_a_file() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let path = std::env::temp_dir().join(format!("arenascope-memory-{}", std::process::id()));
        let mut file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words: Vec<u8> = (0..10_000u64).flat_map(u64::to_le_bytes).collect();
        file.write_all(&words).unwrap();
        let piece =
            |bytes| Piece { address: HEAP + 8, bytes, data: std::ptr::null(), fd: file.as_raw_fd().into(), offset: 0 };
        let mut image = Image::new(WORD, false);
        // the file has less than the piece says
        image.set(&[piece(90_000)]).unwrap();
        let (blocks, none) = (Blocks::default(), Heap::default());
        let memory = Memory::new(&image, &blocks, Malloc::new(WORD, 16, 4096), &none, &[], &[]).unwrap();
        for number in [0, 1, 509, 510, 511, 512, 9_999, 5, 9_998] {
            assert_eq!(memory.word(HEAP + 8 + number * 8), Some(number));
        }
        assert_eq!(memory.word(HEAP + 8 + 10_000 * 8), None);
        let mut some = [0; 5000];
        assert!(memory.words(HEAP + 8 + 8 * 100, &mut some) && some[4999] == 5099);
    }

    #[test]
    fn what_leads_nowhere_is_neither_mapped_nor_a_mark_for_nothing() {
        let mut heap = Heap::default();
        heap.malloc(40);
        heap.look(|memory| {
            assert!(memory.leads_nowhere(GARBAGE, false) && memory.leads_nowhere(GARBAGE, true));
            assert!(!memory.leads_nowhere(DATA, false) && !memory.leads_nowhere(HEAP + 3, false));
            assert!(!memory.leads_nowhere(1, false) && !memory.leads_nowhere(u64::MAX, false));
            assert!(memory.leads_nowhere(70_000, false) && !memory.leads_nowhere(70_000, true));
        });
    }
}
