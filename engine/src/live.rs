//! A process that stands still: follows its lists of free chunks, or those of another image, and copies its memory.
//! Each link of a list waits for memory, so that a thread follows many lists at a time.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::os::unix::io::FromRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::failure::{filled, push, with_room, Control, Failure, Result};
use crate::image::{in_all_threads, Image};

/// Lists that one thread follows at a time. Two chunks of each are read by one call, which takes at most 1,024 places.
const TOGETHER: usize = 512;
/// PREV_INUSE, and all flags of a size word.
const IN_USE: u64 = 1;
const FLAGS: u64 = 7;
/// PROTECT_PTR: a link is stored XORed with its own address shifted by that.
const PROTECTED: u32 = 12;

#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    base: u64,
    bytes: usize,
}

extern "C" {
    fn madvise(address: u64, bytes: usize, advice: i32) -> i32;
    fn process_vm_readv(
        pid: i32,
        own: *const Part,
        owns: usize,
        theirs: *const Part,
        count: usize,
        flags: usize,
    ) -> isize;
}

/// A list of free chunks, by its chunks' addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct List {
    /// The bin, as if it were a chunk; 0 for a list that is linked one way.
    pub bin: u64,
    pub first: u64,
    /// A ring's last chunk.
    pub last: u64,
    /// The sizes of chunks that belong there.
    pub least: u64,
    pub most: u64,
    /// The most chunks that it can have.
    pub limit: u64,
    /// How far behind the chunk's address its links lead.
    pub inside: u64,
}

/// How chunks are laid out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Layout {
    /// From a chunk to what malloc returned, which has the alignment of `mask`.
    pub header: u64,
    pub mask: u64,
    /// 1 if links of lists that are linked one way are protected.
    pub safe: u64,
    /// The most chunks of all lists together.
    pub limit: u64,
}

/// What became of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub chunks: u64,
    pub state: u64,
}

pub const WHOLE: u64 = 0;
/// A word is not as it must be. Who asked finds out which, link by link.
pub const ODD: u64 = 1;
/// The call was ended before.
pub const UNREAD: u64 = 2;

/// Addresses and sizes of the chunks of all whole lists, one list after the other.
pub struct Lists {
    pub followed: Vec<Followed>,
    pub chunks: Vec<u64>,
    pub sizes: Vec<u64>,
}

enum Step {
    On,
    Ends(u64),
}

type Words = [u64; 3];
type Chunk = (u64, u64);

/// A list on the way. A ring is followed from both ends, until they meet.
struct Walk {
    number: usize,
    front: u64,
    back: u64,
    before: u64,
    after: u64,
    met: Vec<Chunk>,
    /// From the back.
    met_last: Vec<Chunk>,
    /// For a list that is linked one way: a chunk that is met again only in a cycle, and at which one to take the next.
    mark: u64,
    next_mark: usize,
}

impl Walk {
    fn new(number: usize, list: &List) -> Walk {
        let (front, back) = (list.first, list.last);
        let (met, met_last) = (Vec::new(), Vec::new());
        Walk { number, front, back, before: list.bin, after: list.bin, met, met_last, mark: 0, next_mark: 1 }
    }

    fn step(&mut self, list: &List, layout: &Layout, front: Option<Words>, back: Option<Words>) -> Result<Step> {
        if list.bin == 0 {
            return self.step_one_way(list, layout, front);
        }
        let (Some(front), Some(back)) = (front, back) else { return Ok(Step::Ends(ODD)) };
        let fits = |chunk: u64, raw: u64| {
            let size = raw.wrapping_sub(IN_USE);
            raw & (layout.mask | FLAGS) == IN_USE
                && (list.least..=list.most).contains(&size)
                && chunk.wrapping_add(layout.header) & layout.mask == 0
        };
        let leads_back = front[2] == self.before && back[1] == self.after;
        if !(leads_back && fits(self.front, front[0]) && fits(self.back, back[0])) {
            return Ok(Step::Ends(ODD));
        }
        push(&mut self.met, (self.front, front[0] - IN_USE))?;
        if self.front == self.back {
            return Ok(Step::Ends(WHOLE));
        }
        push(&mut self.met_last, (self.back, back[0] - IN_USE))?;
        if front[1] == self.back {
            return Ok(Step::Ends(if back[2] == self.front { WHOLE } else { ODD }));
        }
        (self.before, self.after) = (self.front, self.back);
        (self.front, self.back) = (front[1], back[2]);
        let chunks = (self.met.len() + self.met_last.len()) as u64;
        Ok(if chunks > list.limit { Step::Ends(ODD) } else { Step::On })
    }

    fn step_one_way(&mut self, list: &List, layout: &Layout, words: Option<Words>) -> Result<Step> {
        let user = self.front.wrapping_add(layout.header);
        let Some([raw, stored, _]) = words.filter(|_| user & layout.mask == 0) else { return Ok(Step::Ends(ODD)) };
        let size = raw & !FLAGS;
        if !(list.least..=list.most).contains(&size) {
            return Ok(Step::Ends(ODD));
        }
        push(&mut self.met, (self.front, size))?;
        if self.met.len() == self.next_mark {
            self.mark = self.front;
            self.next_mark *= 2;
        }
        let link = if layout.safe != 0 { stored ^ (user >> PROTECTED) } else { stored };
        if link == 0 {
            return Ok(Step::Ends(WHOLE));
        }
        self.front = link.wrapping_sub(list.inside);
        let goes_round = self.front == self.mark || self.met.len() as u64 > list.limit;
        Ok(if goes_round { Step::Ends(ODD) } else { Step::On })
    }
}

/// Reads the words of chunks, many at a time.
struct Reader<'a> {
    /// 0: none, but the image.
    pid: i32,
    image: &'a Image,
    places: Vec<Part>,
    bytes: Vec<u8>,
    words: Vec<Option<Words>>,
}

impl<'a> Reader<'a> {
    fn new(pid: i32, image: &'a Image) -> Result<Self> {
        let most = 2 * TOGETHER;
        let bytes = filled(most * 3 * image.word as usize, 0)?;
        Ok(Reader { pid, image, places: with_room(most)?, bytes, words: with_room(most)? })
    }

    fn ask(&mut self, chunk: u64) {
        let word = self.image.word;
        self.places.push(Part { base: chunk.wrapping_add(word), bytes: 3 * word as usize });
    }

    /// Reads what was asked for: the size word of each chunk and the two behind it.
    fn read(&mut self) {
        let (size, word) = (3 * self.image.word as usize, self.image.word as usize);
        self.words.clear();
        while self.words.len() < self.places.len() {
            let first = self.words.len();
            let own = &mut self.bytes[size * first..size * self.places.len()];
            let read = if self.pid == 0 {
                usize::from(self.image.fill(self.places[first].base, &mut own[..size]))
            } else {
                let (to, left) = (Part { base: own.as_mut_ptr() as u64, bytes: own.len() }, &self.places[first..]);
                // SAFETY: the kernel writes into `own`, and no more than that.
                let got = unsafe { process_vm_readv(self.pid, &to, 1, left.as_ptr(), left.len(), 0) };
                got.max(0) as usize / size
            };
            for chunk in self.bytes[size * first..].chunks_exact(size).take(read) {
                let each = |at: usize| self.image.decoded(&chunk[at * word..]).unwrap_or(0);
                self.words.push(Some([each(0), each(1), each(2)]));
            }
            if read == 0 {
                self.words.push(None);
            }
        }
        self.places.clear();
    }
}

/// Follows the lists to their ends. What was not finished when the caller ended the call is UNREAD.
pub fn follow(
    image: &Image,
    pid: i32,
    lists: &[List],
    layout: &Layout,
    threads: usize,
    control: &Control,
) -> Result<Lists> {
    let next = AtomicUsize::new(0);
    let left = AtomicU64::new(layout.limit);
    let mut slots: Vec<(u64, Vec<Chunk>, Vec<Chunk>)> = with_room(lists.len())?;
    slots.resize_with(lists.len(), || (UNREAD, Vec::new(), Vec::new()));
    let results = Mutex::new(slots);
    let threads = threads.clamp(1, lists.len().max(1));
    let together = lists.len().div_ceil(threads).min(TOGETHER);
    in_all_threads(threads, || {
        let mut walks: Vec<Walk> = with_room(together)?;
        let mut reader = Reader::new(pid, image)?;
        loop {
            while walks.len() < together {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(list) = lists.get(number) else { break };
                walks.push(Walk::new(number, list));
            }
            if walks.is_empty() {
                return Ok(());
            }
            for walk in &walks {
                reader.ask(walk.front);
                if lists[walk.number].bin != 0 {
                    reader.ask(walk.back);
                }
            }
            reader.read();
            let mut bytes = 0u64;
            let (mut place, mut kept) = (0, 0);
            let too_many = left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(reader.words.len() as u64))
                .is_err();
            for at in 0..walks.len() {
                let list = &lists[walks[at].number];
                let (front, is_ring) = (reader.words[place], list.bin != 0);
                let back = if is_ring { reader.words[place + 1] } else { None };
                place += 1 + usize::from(is_ring);
                // any number may stand there
                for [raw, ..] in front.iter().chain(&back) {
                    bytes = bytes.saturating_add(*raw & !FLAGS);
                }
                let step = if too_many { Step::Ends(ODD) } else { walks[at].step(list, layout, front, back)? };
                if let Step::Ends(state) = step {
                    let walk = &mut walks[at];
                    let met = (state, std::mem::take(&mut walk.met), std::mem::take(&mut walk.met_last));
                    results.lock().expect("no thread panicked")[walk.number] = met;
                } else {
                    walks.swap(kept, at);
                    kept += 1;
                }
            }
            walks.truncate(kept);
            match control.advance(bytes) {
                Err(Failure::Stopped) => return Ok(()),
                other => other?,
            }
        }
    })?;
    joined(results.into_inner().expect("no thread panicked"))
}

fn joined(walked: Vec<(u64, Vec<Chunk>, Vec<Chunk>)>) -> Result<Lists> {
    let count = |met: &(u64, Vec<Chunk>, Vec<Chunk>)| if met.0 == WHOLE { met.1.len() + met.2.len() } else { 0 };
    let all = walked.iter().map(count).sum();
    let mut lists = Lists { followed: with_room(walked.len())?, chunks: with_room(all)?, sizes: with_room(all)? };
    for met in walked {
        lists.followed.push(Followed { chunks: count(&met) as u64, state: met.0 });
        if met.0 == WHOLE {
            for (chunk, size) in met.1.iter().chain(met.2.iter().rev()) {
                lists.chunks.push(*chunk);
                lists.sizes.push(*size);
            }
        }
    }
    Ok(lists)
}

/// Bytes that are copied, or made room for, at a time.
const STEP: u64 = 8 << 20;
const PAGE: usize = 4096;
/// Since Linux 5.14.
const MADV_POPULATE_WRITE: i32 = 23;

/// Bytes to copy, and the place where room for them is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copied {
    pub address: u64,
    pub bytes: u64,
    pub to: u64,
}

/// SAFETY: nobody else looks at the bytes at `to` meanwhile.
unsafe fn room<'a>(part: &Copied) -> &'a mut [u8] {
    std::slice::from_raw_parts_mut(part.to as *mut u8, part.bytes as usize)
}

/// What is left to copy, a step at a time, for all threads.
struct Steps<'a> {
    parts: &'a [Copied],
    next: Mutex<(usize, u64)>,
}

impl Steps<'_> {
    fn take(&self) -> Option<Copied> {
        let mut next = self.next.lock().expect("no thread panicked");
        loop {
            let part = self.parts.get(next.0)?;
            if next.1 < part.bytes {
                let (done, bytes) = (next.1, STEP.min(part.bytes - next.1));
                next.1 += bytes;
                return Some(Copied { address: part.address.wrapping_add(done), bytes, to: part.to + done });
            }
            *next = (next.0 + 1, 0);
        }
    }
}

/// Has pages made for what will be copied: the copy then goes at the speed of memory.
///
/// # Safety
/// The room of each part is the caller's, and nobody else looks at it.
pub unsafe fn make_room(parts: &[Copied], threads: usize, control: &Control) -> Result<()> {
    let steps = Steps { parts, next: Mutex::new((0, 0)) };
    in_all_threads(threads, || {
        while let Some(step) = steps.take() {
            if madvise(step.to, step.bytes as usize, MADV_POPULATE_WRITE) != 0 {
                room(&step).iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
            }
            control.advance(step.bytes)?;
        }
        Ok(())
    })
}

/// Copies memory of a process; returns the parts that could not be read. `memory` is its /proc/PID/mem, which also
/// reads what the process itself may not, and stays this program's: where nothing can be read of it any more, the
/// process is gone, and BAD_INPUT says so.
///
/// # Safety
/// As of `make_room`.
pub unsafe fn copy(pid: i32, memory: i32, parts: &[Copied], threads: usize, control: &Control) -> Result<Vec<Copied>> {
    let steps = Steps { parts, next: Mutex::new((0, 0)) };
    let lost = Mutex::new(Vec::new());
    let file = ManuallyDrop::new(File::from_raw_fd(memory));
    in_all_threads(threads, || {
        while let Some(step) = steps.take() {
            let to = room(&step);
            let own = Part { base: step.to, bytes: to.len() };
            let theirs = Part { base: step.address, bytes: to.len() };
            let mut done = process_vm_readv(pid, &own, 1, &theirs, 1, 0).max(0) as usize;
            if done == to.len() {
                // the number may be another program's by now
                if file.read_at(&mut [0], step.address).is_ok_and(|read| read == 0) {
                    return Err(Failure::BadInput);
                }
            } else {
                done = 0;
                while done < to.len() {
                    match file.read_at(&mut to[done..], step.address + done as u64) {
                        Ok(0) => return Err(Failure::BadInput),
                        Ok(read) => done += read,
                        Err(_) => break,
                    }
                }
            }
            if done < to.len() {
                let Copied { address, bytes, to } = step;
                let rest = Copied { address: address + done as u64, bytes: bytes - done as u64, to: to + done as u64 };
                push(&mut lost.lock().expect("no thread panicked"), rest)?;
            }
            control.advance(step.bytes)?;
        }
        Ok(())
    })?;
    Ok(lost.into_inner().expect("no thread panicked"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::io::AsRawFd;

    use super::*;
    use crate::image::Piece;

    const LAYOUT: Layout = Layout { header: 16, mask: 15, safe: 1, limit: 100_000 };

    /// Chunks of 32 bytes, four words each, as this process has them.
    struct Heap(Vec<[u64; 4]>);

    impl Heap {
        fn new(chunks: usize) -> Heap {
            let mut heap = Heap(vec![[0, 33, 0, 0]; chunks]);
            // malloc aligns as our own chunks must be
            assert_eq!(heap.0.as_mut_ptr() as u64 % 16, 0);
            heap
        }

        fn at(&self, number: usize) -> u64 {
            self.0.as_ptr() as u64 + 32 * number as u64
        }

        /// A ring of these, through chunk 0, which is the bin.
        fn ring(&mut self, numbers: &[usize]) -> List {
            let all: Vec<usize> = [&[0], numbers].concat();
            for (at, number) in all.iter().enumerate() {
                let (next, before) = (all[(at + 1) % all.len()], all[(at + all.len() - 1) % all.len()]);
                (self.0[*number][2], self.0[*number][3]) = (self.at(next), self.at(before));
            }
            let (first, last) = (self.0[0][2], self.0[0][3]);
            List { bin: self.at(0), first, last, least: 32, most: 32, limit: 1000, inside: 0 }
        }

        fn one_way(&mut self, numbers: &[usize]) -> List {
            for (at, number) in numbers.iter().enumerate() {
                let next = numbers.get(at + 1).map_or(0, |next| self.at(*next));
                self.0[*number][2] = next ^ ((self.at(*number) + 16) >> PROTECTED);
            }
            List { bin: 0, first: self.at(numbers[0]), last: 0, least: 32, most: 32, limit: 1000, inside: 0 }
        }

        fn followed(&self, list: List) -> Vec<Lists> {
            let data = self.0.as_ptr().cast::<u8>();
            let mut image = Image::new(8, false);
            let bytes = 32 * self.0.len() as u64;
            image.set(&[Piece { address: data as u64, bytes, data, fd: -1, offset: 0 }]).unwrap();
            let ways = [std::process::id() as i32, 0];
            ways.iter().map(|pid| follow(&image, *pid, &[list; 3], &LAYOUT, 2, &Control::default()).unwrap()).collect()
        }

        fn states(&self, list: List) -> Vec<u64> {
            self.followed(list).iter().flat_map(|each| each.followed.iter().map(|one| one.state)).collect()
        }
    }

    #[test]
    fn whole_lists_are_in_order_of_process_and_image() {
        for count in [1, 2, 3, 8, 500] {
            let mut heap = Heap::new(1000);
            let numbers: Vec<usize> = (0..count).map(|at| 1 + at * 7 % 997).collect();
            for is_ring in [true, false] {
                let list = if is_ring { heap.ring(&numbers) } else { heap.one_way(&numbers) };
                let expected: Vec<u64> = numbers.iter().map(|number| heap.at(*number)).collect();
                for found in heap.followed(list) {
                    assert_eq!(found.followed, [Followed { chunks: count as u64, state: WHOLE }; 3]);
                    assert_eq!(found.chunks, expected.repeat(3));
                    assert_eq!(found.sizes, vec![32; 3 * count]);
                }
            }
        }
    }

    #[test]
    fn whatever_is_wrong_is_odd() {
        let numbers: Vec<usize> = (1..12).collect();
        let wounds: [(usize, u64); 6] = [(1, 49), (1, 37), (1, 0), (2, 8), (2, u64::MAX), (3, 0)];
        for (word, value) in wounds {
            for wounded in 1..12 {
                let mut heap = Heap::new(12);
                let list = heap.ring(&numbers);
                heap.0[wounded][word] = value;
                assert_eq!(heap.states(list), [ODD; 6], "{wounded} {word}");
            }
        }
    }

    #[test]
    fn circles_end() {
        let mut heap = Heap::new(12);
        let list = heap.one_way(&[3, 5, 7, 9, 2, 4]);
        heap.0[4][2] = heap.at(5) ^ ((heap.at(4) + 16) >> PROTECTED);
        assert_eq!(heap.states(list), [ODD; 6]);
        let list = heap.ring(&[1, 2, 3, 4, 5, 6]);
        heap.0[3][2] = heap.at(1);
        assert_eq!(heap.states(list), [ODD; 6]);
    }

    #[test]
    fn what_was_not_finished_is_unread() {
        let mut heap = Heap::new(12);
        let list = heap.ring(&[1, 2, 3, 4, 5, 6]);
        let control = Control::stopped();
        let found = follow(&Image::new(8, false), std::process::id() as i32, &[list], &LAYOUT, 1, &control).unwrap();
        assert_eq!(found.followed, [Followed { chunks: 0, state: UNREAD }]);
    }

    #[test]
    fn more_chunks_than_there_can_be_are_odd() {
        let mut heap = Heap::new(12);
        let list = heap.ring(&[1, 2, 3, 4, 5, 6]);
        let layout = Layout { limit: 3, ..LAYOUT };
        let found = follow(&Image::new(8, false), std::process::id() as i32, &[list], &layout, 1, &Control::default());
        assert_eq!(found.unwrap().followed, [Followed { chunks: 0, state: ODD }]);
    }

    #[test]
    fn copies_what_can_be_read_and_tells_what_cannot() {
        const PAGES: usize = 4;
        let memory = File::open("/proc/self/mem").unwrap();
        let mut area = vec![7u8; (PAGES + 1) * PAGE];
        area.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 100) as u8);
        let mut taken = vec![1u8; PAGES * PAGE];
        let (address, to) = (area.as_ptr() as u64, taken.as_mut_ptr() as u64);
        let parts = [
            Copied { address, bytes: PAGE as u64, to },
            Copied { address: 1 << 12, bytes: PAGE as u64, to: to + PAGE as u64 },
            Copied { address: address + 100, bytes: 2 * PAGE as u64, to: to + 2 * PAGE as u64 },
        ];
        let (pid, control) = (std::process::id() as i32, Control::default());
        let lost = unsafe {
            make_room(&parts, 2, &control).unwrap();
            copy(pid, memory.as_raw_fd(), &parts, 2, &control).unwrap()
        };
        assert_eq!(taken[..PAGE], area[..PAGE]);
        assert_eq!(taken[2 * PAGE..], area[100..100 + 2 * PAGE]);
        let lost: Vec<(u64, u64)> = lost.iter().map(|each| (each.address, each.bytes)).collect();
        assert_eq!(lost, [(1 << 12, PAGE as u64)]);
    }

    #[test]
    fn a_process_that_is_gone_is_told() {
        let nothing = File::open("/dev/null").unwrap();
        let mut taken = vec![1u8; PAGE];
        let (address, to) = (BYTES.as_ptr() as u64, taken.as_mut_ptr() as u64);
        let parts = [Copied { address, bytes: BYTES.len() as u64, to }];
        let pid = std::process::id() as i32;
        let copied = unsafe { copy(pid, nothing.as_raw_fd(), &parts, 1, &Control::default()) };
        assert_eq!(copied.err(), Some(Failure::BadInput));
    }

    const BYTES: &[u8] = b"some bytes";
}
