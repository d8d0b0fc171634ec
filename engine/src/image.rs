//! The bytes of a process image: pieces of memory or of files, by address.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::os::unix::io::FromRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::failure::{filled, push, with_room, Control, Failure, Result};

/// Bytes that are looked at together: small enough for the processor's cache.
const WINDOW: usize = 256 << 10;
/// Pages are at least as long.
const PAGE: u64 = 4096;
/// Bytes of a task for one thread.
const TASK: u64 = 8 << 20;

/// Bytes from an address on, as the caller has them: at `data`, or in the file `fd` from `offset` on where `data` is
/// null. A file may be cut while it is read, which would end a process that had mapped it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Piece {
    pub address: u64,
    pub bytes: u64,
    pub data: *const u8,
    pub fd: i64,
    pub offset: u64,
}

// SAFETY: the caller leaves the bytes in place until the engine is closed, and nobody writes them.
unsafe impl Send for Piece {}
unsafe impl Sync for Piece {}

impl Piece {
    /// Of bytes in memory, which stay in place as long as an image has the piece.
    pub fn of(address: u64, bytes: &[u8]) -> Piece {
        Piece { address, bytes: bytes.len() as u64, data: bytes.as_ptr(), fd: -1, offset: 0 }
    }

    fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Its bytes from an address on, where they are in memory.
    fn in_memory(&self, address: u64) -> Option<&[u8]> {
        let within = address - self.address;
        // SAFETY: the bytes are the piece's, which stay until the engine is closed.
        (!self.data.is_null()).then(|| unsafe {
            std::slice::from_raw_parts(self.data.add(within as usize), (self.bytes - within) as usize)
        })
    }

    /// Fills the buffer from an address in the piece on, and returns how many bytes there were.
    fn read(&self, address: u64, to: &mut [u8]) -> usize {
        let within = address - self.address;
        let size = to.len().min((self.bytes - within) as usize);
        if let Some(bytes) = self.in_memory(address) {
            to[..size].copy_from_slice(&bytes[..size]);
            return size;
        }
        // SAFETY: the descriptor is the caller's, who keeps it open and closes it.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(self.fd as i32) });
        let mut read = 0;
        while read < size {
            match file.read_at(&mut to[read..size], self.offset + within + read as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        read
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

/// Part of a span that one thread looks at.
#[derive(Clone, Copy)]
pub struct Task {
    pub start: u64,
    pub end: u64,
    /// The number of the span.
    pub span: u32,
    /// Where what the piece has of it ends: to read on would make pages of a live process.
    limit: u64,
    piece: usize,
}

pub struct Image {
    pieces: Vec<Piece>,
    /// Bytes of a word: 4 or 8.
    pub word: u64,
    swapped: bool,
}

/// Words in memory. `behind` is the word behind them, of the same span.
pub struct Window<'a> {
    pub address: u64,
    pub words: &'a [u64],
    pub behind: u64,
}

impl Image {
    pub fn new(word: u64, big_endian: bool) -> Image {
        Image { pieces: Vec::new(), word, swapped: big_endian != cfg!(target_endian = "big") }
    }

    /// Of a word the 32 bits that come first in memory.
    pub fn first_half(&self, word: u64) -> u64 {
        if self.is_little() || self.word == 4 {
            word & 0xFFFF_FFFF
        } else {
            word >> 32
        }
    }

    pub fn is_little(&self) -> bool {
        self.swapped == cfg!(target_endian = "big")
    }

    /// Takes the pieces in place of those before. They must not overlap.
    pub fn set(&mut self, pieces: &[Piece]) -> Result<()> {
        let mut sorted: Vec<Piece> = with_room(pieces.len())?;
        sorted.extend(pieces.iter().filter(|each| each.bytes > 0));
        sorted.sort_unstable_by_key(|each| each.address);
        let ends_well = |each: &Piece| each.address.checked_add(each.bytes).is_some();
        if !sorted.iter().all(ends_well) || sorted.windows(2).any(|two| two[0].end() > two[1].address) {
            return Err(Failure::BadInput);
        }
        self.pieces = sorted;
        Ok(())
    }

    pub fn bytes_in(&self, spans: &[Span]) -> u64 {
        let mut bytes = 0;
        for span in spans {
            self.parts(*span, |_, start, end| bytes += end - start);
        }
        bytes
    }

    fn parts(&self, span: Span, mut each: impl FnMut(usize, u64, u64)) {
        let first = self.pieces.partition_point(|piece| piece.end() <= span.start);
        for (number, piece) in self.pieces.iter().enumerate().skip(first) {
            if piece.address >= span.end {
                break;
            }
            each(number, piece.address.max(span.start), piece.end().min(span.end));
        }
    }

    /// The parts of the spans that the image has, cut for several threads, in order. A span may claim any size: what
    /// the image lacks makes no task.
    pub fn tasks(&self, spans: &[Span]) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for (number, span) in spans.iter().enumerate() {
            let mut failed = Ok(());
            self.parts(*span, |piece, start, end| {
                let mut at = start;
                while at < end && failed.is_ok() {
                    // cut at multiples, so that no word is cut
                    let next = ((at / TASK + 1) * TASK).min(end);
                    failed = push(&mut tasks, Task { start: at, end: next, span: number as u32, limit: end, piece });
                    at = next;
                }
            });
            failed?;
        }
        Ok(tasks)
    }

    /// Hands the words of a task to `look`, window by window. What cannot be read is left out, page by page.
    pub fn each_window(
        &self,
        task: &Task,
        control: &Control,
        buffer: &mut Buffer,
        mut look: impl FnMut(Window) -> Result<()>,
    ) -> Result<()> {
        let piece = &self.pieces[task.piece];
        let word = self.word;
        let mut at = task.start + (word - task.start % word) % word;
        let end = task.end - task.end % word;
        while at < end {
            let size = ((end - at) as usize).min(WINDOW);
            // with the word behind, where there is one
            let with_it = (size + word as usize).min((task.limit - at) as usize);
            let read = piece.read(at, &mut buffer.bytes[..with_it]);
            let words = read.min(size) / word as usize;
            let behind = usize::from(read >= (words + 1) * word as usize);
            buffer.decode(words + behind, word as usize, self.swapped);
            if words > 0 {
                let behind = if behind > 0 { buffer.words[words] } else { 0 };
                look(Window { address: at, words: &buffer.words[..words], behind })?;
            }
            let mut next = at + words as u64 * word;
            if words * (word as usize) < size {
                let page = (next / PAGE + 1) * PAGE;
                control.lose(page.min(end) - next);
                next = page.min(end);
            }
            control.advance(next - at)?;
            at = next;
        }
        Ok(())
    }

    /// The word at an address, by the bytes that `cursor` has from around it.
    #[inline]
    pub fn word_at<'a>(&'a self, address: u64, cursor: &mut Cursor<'a>) -> Option<u64> {
        self.bytes_at(address, self.word as usize, cursor).map(|bytes| self.number(bytes))
    }

    /// So many bytes from an address on, few enough for the cursor; None where not all can be read.
    #[inline]
    pub fn bytes_at<'a, 'c>(&'a self, address: u64, size: usize, cursor: &'c mut Cursor<'a>) -> Option<&'c [u8]> {
        let within = address.wrapping_sub(cursor.start);
        if within >= cursor.size || cursor.size - within < size as u64 {
            self.move_to(address, size as u64, cursor)?;
        }
        cursor.bytes((address - cursor.start) as usize)?.get(..size)
    }

    /// Fills the buffer from an address on; false where the image lacks any of that.
    pub fn fill(&self, address: u64, to: &mut [u8]) -> bool {
        let number = self.pieces.partition_point(|piece| piece.end() <= address);
        let piece = self.pieces.get(number).filter(|piece| piece.address <= address);
        piece.is_some_and(|piece| piece.read(address, to) == to.len())
    }

    /// The same of what may lie in several pieces.
    pub fn fill_across(&self, address: u64, to: &mut [u8]) -> bool {
        let (mut at, mut done) = (address, 0);
        while done < to.len() {
            let Some(piece) = self.piece_from(at).filter(|piece| piece.start <= at) else { return false };
            let size = usize::try_from(piece.end - at).unwrap_or(usize::MAX).min(to.len() - done);
            if !self.fill(at, &mut to[done..done + size]) {
                return false;
            }
            done += size;
            match at.checked_add(size as u64) {
                Some(next) => at = next,
                None => return done == to.len(),
            }
        }
        true
    }

    /// Where the first piece lies that ends behind an address.
    pub fn piece_from(&self, address: u64) -> Option<Span> {
        let number = self.pieces.partition_point(|piece| piece.end() <= address);
        self.pieces.get(number).map(|piece| Span { start: piece.address, end: piece.end() })
    }

    /// The number of the piece that has an address, and where it lies.
    pub fn piece_at(&self, address: u64) -> Option<(usize, Span)> {
        let number = self.pieces.partition_point(|piece| piece.end() <= address);
        let piece = self.pieces.get(number).filter(|piece| piece.address <= address)?;
        Some((number, Span { start: piece.address, end: piece.end() }))
    }

    /// All bytes of a piece that is in memory.
    #[inline]
    pub fn piece_bytes(&self, number: usize) -> Option<&[u8]> {
        self.pieces.get(number).and_then(|piece| piece.in_memory(piece.address))
    }

    /// Whether no piece is in a file.
    pub fn is_in_memory(&self) -> bool {
        self.pieces.iter().all(|piece| !piece.data.is_null())
    }

    /// A word by its bytes.
    #[inline]
    pub fn decoded(&self, bytes: &[u8]) -> Option<u64> {
        bytes.get(..self.word as usize).map(|bytes| self.number(bytes))
    }

    /// A number by its 1, 2, 4 or 8 bytes.
    #[inline]
    pub fn number(&self, bytes: &[u8]) -> u64 {
        let little = self.is_little();
        match *bytes {
            [byte] => u64::from(byte),
            [first, second] => {
                let bytes = [first, second];
                u64::from(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
            }
            [first, second, third, fourth] => {
                let bytes = [first, second, third, fourth];
                u64::from(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
            }
            _ => {
                let bytes = bytes.try_into().expect("eight bytes");
                if little {
                    u64::from_le_bytes(bytes)
                } else {
                    u64::from_be_bytes(bytes)
                }
            }
        }
    }

    /// A number by its bytes, of which there are 16 at most.
    pub fn wide(&self, bytes: &[u8]) -> u128 {
        let add = |sum: u128, byte: &u8| sum << 8 | u128::from(*byte);
        if self.is_little() {
            bytes.iter().rev().fold(0, add)
        } else {
            bytes.iter().fold(0, add)
        }
    }

    /// Has the cursor hold a window around there, at least so many bytes from there on. After a long step it is no more
    /// than a page: what lies beside it may never have been touched.
    #[cold]
    fn move_to<'a>(&'a self, address: u64, least: u64, cursor: &mut Cursor<'a>) -> Option<()> {
        let window = cursor.own.len() as u64;
        let is_near = address.wrapping_sub(cursor.start) < 2 * window;
        let number = self.pieces.partition_point(|piece| piece.end() <= address);
        let piece = self.pieces.get(number).filter(|piece| piece.address <= address)?;
        let page = (address - address % PAGE).max(piece.address);
        let start = if address - page + least <= window { page } else { address };
        cursor.start = start;
        cursor.direct = piece.in_memory(start);
        cursor.size = match cursor.direct {
            Some(bytes) => bytes.len() as u64,
            None => {
                let size =
                    if is_near { window } else { (address - start + least).max(PAGE - start % PAGE).min(window) };
                piece.read(start, &mut cursor.own[..size as usize]) as u64
            }
        };
        Some(())
    }
}

/// Bytes of the image around the place where a walk is.
pub struct Cursor<'a> {
    start: u64,
    size: u64,
    direct: Option<&'a [u8]>,
    own: Vec<u8>,
}

impl Cursor<'_> {
    /// For a walk that goes on and on.
    pub fn new() -> Result<Self> {
        Cursor::of(WINDOW)
    }

    /// For one that leaps.
    pub fn leaping() -> Result<Self> {
        Cursor::of(PAGE as usize)
    }

    fn of(window: usize) -> Result<Self> {
        Ok(Cursor { start: 0, size: 0, direct: None, own: filled(window, 0)? })
    }

    fn bytes(&self, from: usize) -> Option<&[u8]> {
        match self.direct {
            Some(bytes) => bytes.get(from..),
            None => self.own.get(from..self.size as usize),
        }
    }
}

/// A thread's room for the words of a window.
pub struct Buffer {
    bytes: Vec<u8>,
    words: Vec<u64>,
}

impl Buffer {
    pub fn new() -> Result<Buffer> {
        Ok(Buffer { bytes: filled(WINDOW + 8, 0)?, words: filled(WINDOW / 4 + 1, 0)? })
    }

    fn decode(&mut self, count: usize, word: usize, swapped: bool) {
        let from = self.bytes.chunks_exact(word);
        for (word, bytes) in self.words[..count].iter_mut().zip(from) {
            *word = match bytes.len() {
                8 => {
                    let value = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                    if swapped {
                        value.swap_bytes()
                    } else {
                        value
                    }
                }
                _ => {
                    let value = u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
                    u64::from(if swapped { value.swap_bytes() } else { value })
                }
            };
        }
    }
}

/// Does the same work in so many threads, of which this is one. The first failure counts.
pub fn in_all_threads(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    let failed = Mutex::new(None);
    let run = || {
        if let Err(failure) = work() {
            failed.lock().expect("no thread panicked").get_or_insert(failure);
        }
    };
    if threads == 1 {
        run();
    } else {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // where no thread can be made this one does all
                let _ = std::thread::Builder::new().spawn_scoped(scope, run);
            }
            run();
        });
    }
    failed.into_inner().expect("no thread panicked").map_or(Ok(()), Err)
}

/// Has every task done by one of `threads`; the results are in the order of the tasks.
pub fn in_threads<T: Sync, R: Send>(
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T, &mut Buffer) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let mut slots: Vec<Option<R>> = with_room(tasks.len())?;
    slots.resize_with(tasks.len(), || None);
    let results = Mutex::new(slots);
    in_all_threads(threads.clamp(1, tasks.len().max(1)), || {
        let outcome = Buffer::new().and_then(|mut buffer| loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(at) else { return Ok(()) };
            let result = work(task, &mut buffer)?;
            results.lock().expect("no thread panicked")[at] = Some(result);
        });
        if outcome.is_err() {
            // nobody needs the rest
            next.store(tasks.len(), Ordering::Relaxed);
        }
        outcome
    })?;
    let slots = results.into_inner().expect("no thread panicked");
    let mut made = with_room(slots.len())?;
    made.extend(slots.into_iter().flatten());
    Ok(made)
}
