//! What blocks hold where nothing tells whose they are: zeros, text, links that lead back, addresses; and blocks that
//! begin with an address of a module, as objects with virtual functions do.

use crate::blocks::Blocks;
use crate::failure::{joined, push, with_room, Control, Failure, Result};
use crate::image::{in_threads, Cursor, Image, Span};
use crate::selection::is_plain;

/// Kinds of contents.
pub const UNTOLD: u8 = 0;
pub const ZEROS: u8 = 1;
/// All that is looked at is zero; there is more.
pub const BEGINS_WITH_ZEROS: u8 = 2;
pub const ASCII: u8 = 3;
pub const UTF_8: u8 = 4;
pub const UTF_16: u8 = 5;
pub const UTF_32: u8 = 6;
pub const TREE: u8 = 7;
pub const LIST: u8 = 8;
pub const PAGES: u8 = 9;
pub const POINTERS: u8 = 10;

/// So much of a block is looked at, from its start.
const LOOKED_AT: usize = 256;
/// Letters: fewer are a number as well.
const SHORTEST: usize = 4;
/// A node is no larger: linked pages are.
const LARGEST_NODE: u64 = 1024;
/// A rest too small for another block is handed out with one.
const SLACK: u64 = 32;
const SIZE_BITS: u64 = 7;
const LONGEST_ARRAY: u64 = 64 << 10;
/// Blocks that one thread looks at together.
const TOGETHER: usize = 1 << 14;

/// Where the words of a tree's node are: of libstdc++ colour, parent, left, right; of libc++ left, right, parent,
/// colour.
struct TreeWords {
    parent: usize,
    left: usize,
    right: usize,
    root: usize,
    has_colour: bool,
}

const LIBSTDCXX: TreeWords = TreeWords { parent: 1, left: 2, right: 3, root: 1, has_colour: true };
const LIBCXX: TreeWords = TreeWords { parent: 2, left: 0, right: 1, root: 0, has_colour: false };

/// The image that blocks are in.
pub struct Ground<'a> {
    pub image: &'a Image,
    pub blocks: &'a Blocks,
    /// All heaps lie from `low` to in front of `high`.
    pub low: u64,
    pub high: u64,
    /// What can be written to, in order.
    pub data: &'a [Span],
}

/// Whether text can begin with it: 0 is the upper half of a wide letter.
fn begins_text(byte: u8) -> bool {
    byte == 0 || byte >= 0xC2 || is_plain(byte)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// What follows text up to `stop` is less, or nothing: a number in front of other things can look like letters.
fn fills(data: &[u8], stop: usize) -> bool {
    2 * stop >= data.len() || is_zero(&data[stop..])
}

/// The encoding of the text that takes up most of a block, which begins so.
fn text(data: &[u8]) -> u8 {
    let stop = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    if stop >= SHORTEST {
        return if fills(data, stop) { narrow(&data[..stop], stop == data.len()) } else { UNTOLD };
    }
    if data.len() > 8 {
        wide(data)
    } else {
        UNTOLD
    }
}

/// `cut`: it may go on.
fn narrow(text: &[u8], cut: bool) -> u8 {
    let mut others = text.iter().filter(|byte| !is_plain(**byte)).peekable();
    if others.peek().is_none() {
        return ASCII;
    }
    if others.all(u8::is_ascii) || letters_in(text) < SHORTEST {
        return UNTOLD;
    }
    match std::str::from_utf8(text) {
        Ok(_) => UTF_8,
        // what is looked at may end within a letter
        Err(error) if cut && error.error_len().is_none() && error.valid_up_to() + 3 >= text.len() => UTF_8,
        Err(_) => UNTOLD,
    }
}

fn letters_in(mut text: &[u8]) -> usize {
    let mut count = 0;
    loop {
        match std::str::from_utf8(text) {
            Ok(valid) => return count + valid.chars().count(),
            Err(error) => {
                let valid = std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or("");
                count += valid.chars().count();
                match error.error_len() {
                    Some(bad) => text = &text[error.valid_up_to() + bad..],
                    None => return count,
                }
            }
        }
    }
}

/// Latin letters of two or four bytes; in either order, as their own is not this machine's for sure.
fn wide(data: &[u8]) -> u8 {
    let begins_with_letter =
        data[0] != 0 && (data[2] != 0 || data[4] != 0) && data[1..8].iter().step_by(2).all(|b| *b == 0);
    let begins_with_zero = data[0] == 0 && !is_zero(&data[1..4]);
    if !begins_with_letter && !begins_with_zero {
        return UNTOLD;
    }
    for (size, name) in [(2, UTF_16), (4, UTF_32)] {
        let whole = data.len() / size * size;
        for low in [0, size - 1] {
            let letters: Vec<u8> =
                data[low..whole].iter().step_by(size).copied().take_while(|byte| *byte != 0).collect();
            // small numbers have the form of letters, too
            let mut different = [false; 256];
            letters.iter().filter(|byte| byte.is_ascii_alphabetic()).for_each(|byte| different[*byte as usize] = true);
            let count = different.iter().filter(|one| **one).count();
            if !letters.iter().all(|byte| is_plain(*byte)) || count < SHORTEST {
                continue;
            }
            let end = size * letters.len();
            let others = data[..end].iter().enumerate().filter(|(at, _)| at % size != low);
            if others.into_iter().all(|(_, byte)| *byte == 0) && fills(data, end) {
                return name;
            }
        }
    }
    UNTOLD
}

struct Look<'a> {
    ground: &'a Ground<'a>,
    word: u64,
    /// Where the blocks are, and where their pointers lead.
    near: Cursor<'a>,
    far: Cursor<'a>,
}

impl<'a> Look<'a> {
    fn new(ground: &'a Ground<'a>) -> Result<Look<'a>> {
        Ok(Look { ground, word: ground.image.word, near: Cursor::new()?, far: Cursor::leaping()? })
    }

    fn inside(&self, value: u64) -> bool {
        value.wrapping_sub(self.ground.low) < self.ground.high - self.ground.low
    }

    fn word_at(&mut self, address: u64) -> Option<u64> {
        self.ground.image.word_at(address, &mut self.far)
    }

    fn four(&mut self, address: u64) -> Option<[u64; 4]> {
        let mut words = [0; 4];
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.word_at(address.checked_add(at as u64 * self.word)?)?;
        }
        Some(words)
    }

    fn first_byte(&self, word: u64) -> u64 {
        if self.ground.image.is_little() {
            word & 0xFF
        } else {
            word >> (8 * (self.word - 1))
        }
    }

    /// Whether one of these words at a pointer is the node's own address.
    fn back(&mut self, pointer: u64, places: std::ops::RangeInclusive<u64>, own: u64) -> bool {
        if pointer == 0 || pointer % self.word != 0 {
            return false;
        }
        for place in places {
            // either all of them are there or none
            let Some(address) = pointer.checked_add(place * self.word) else { return false };
            match self.word_at(address) {
                Some(word) if word == own => return true,
                Some(_) => (),
                None => return false,
            }
        }
        false
    }

    /// Whether the node after this one, by the link in that place, leads back to it.
    fn goes_on(&mut self, node: u64, place: u64) -> bool {
        let following = node.checked_add(place * self.word).and_then(|address| self.word_at(address));
        following.is_some_and(|following| self.back(following, 1 - place..=1 - place, node))
    }

    fn is_as_large(&mut self, node: u64, usable: u64) -> bool {
        let size = node.checked_sub(self.word).and_then(|address| self.word_at(address));
        size.is_some_and(|size| (size & !SIZE_BITS).wrapping_sub(self.word).abs_diff(usable) < SLACK)
    }

    /// Whether a node's parent is one itself, which is its own parent's child or the root, or the tree's header: the
    /// root is what the header leads to, and the header leads to its first and last node besides.
    fn is_child(&mut self, own: u64, words: [u64; 4], tree: &TreeWords) -> bool {
        let (above, first, last) = (words[tree.parent], words[tree.left], words[tree.right]);
        if above == own {
            return false;
        }
        let Some(near) = self.four(above) else { return false };
        if !self.may_be_node(near, tree) {
            return false;
        }
        let grand = near[tree.parent];
        if (near[tree.left] == own || near[tree.right] == own) && ![0, above, own].contains(&grand) {
            if let Some(over) = self.four(grand) {
                // a root's parent is the header
                if above == over[tree.left] || above == over[tree.right] || above == over[tree.root] {
                    return self.may_be_node(over, tree);
                }
            }
        }
        if tree.has_colour {
            let ends = (near[tree.left] == own) == (first == 0) && (near[tree.right] == own) == (last == 0);
            return near[tree.root] == own && ends && near[1..].iter().all(|word| *word != 0);
        }
        // where the first node is, the root, how many there are
        let Some(front) = above.checked_sub(self.word) else { return false };
        let words = [self.word_at(front), Some(near[0]), Some(near[1])];
        let [Some(begin), Some(root), Some(count)] = words else { return false };
        root == own && begin != 0 && count != 0 && (begin == own) == (first == 0)
    }

    fn may_be_node(&self, words: [u64; 4], tree: &TreeWords) -> bool {
        !tree.has_colour || self.ground.image.first_half(words[0]) < 2
    }

    /// What a block is a node of, by its first words.
    fn node(&mut self, own: u64, words: &[u64], usable: u64) -> u8 {
        let [first, second, third] = [words[0], words[1], words[2]];
        let fourth = words.get(3).copied();
        let may_be = |look: &Look, word: u64| word == 0 || look.inside(word);
        let of_tree = [first, second, third, fourth.unwrap_or(1)];
        if self.ground.image.first_half(first) < 2
            && may_be(self, third)
            && may_be(self, of_tree[3])
            && self.back(second, 1..=3, own)
            && (third == 0 || self.back(third, 1..=1, own))
            && (of_tree[3] == 0 || self.back(of_tree[3], 1..=1, own))
            && self.is_child(own, of_tree, &LIBSTDCXX)
        {
            return TREE;
        }
        // the neighbours' links lie across: next and previous, in either order
        let linked = self.inside(first) || self.inside(second);
        if linked && self.back(first, 1..=1, own) && self.back(second, 0..=0, own) {
            if first == own || !self.goes_on(first, 0) || !self.goes_on(second, 1) {
                return UNTOLD;
            }
            if usable >= LARGEST_NODE {
                return PAGES;
            }
            let is_one = self.is_as_large(first, usable) || self.is_as_large(second, usable);
            return if is_one { LIST } else { UNTOLD };
        }
        if fourth.is_some_and(|fourth| self.first_byte(fourth) < 2)
            && may_be(self, first)
            && may_be(self, second)
            && self.back(third, 0..=1, own)
            && (first == 0 || self.back(first, 2..=2, own))
            && (second == 0 || self.back(second, 2..=2, own))
            && self.is_child(own, of_tree, &LIBCXX)
        {
            return TREE;
        }
        UNTOLD
    }

    /// Whether most of a block's words that are not 0 point into the heaps, and enough of them.
    fn are_addresses(&self, words: &[u64]) -> bool {
        if !words[..3].iter().any(|word| self.inside(*word)) {
            return false;
        }
        let some = words.iter().filter(|word| **word != 0).count();
        let inside = |word: &&u64| self.inside(**word) && **word % self.word == 0;
        let count = words.iter().filter(inside).count();
        if count < 3 || 4 * count < 3 * some || 2 * some < words.len() {
            return false;
        }
        let is_data = |word: &&u64| {
            let at = self.ground.data.partition_point(|span| span.start <= **word);
            at > 0 && **word < self.ground.data[at - 1].end
        };
        4 * words.iter().filter(inside).filter(is_data).count() >= 3 * some
    }

    fn kind(&mut self, number: usize) -> u8 {
        let Ground { image, blocks, .. } = *self.ground;
        let start = blocks.starts[number];
        let usable = blocks.ends[number] - start;
        let size = (usable as usize).min(LOOKED_AT);
        let mut head = [0u8; LOOKED_AT];
        match image.bytes_at(start, size, &mut self.near) {
            Some(bytes) => head[..size].copy_from_slice(bytes),
            None => return UNTOLD,
        }
        let data = &head[..size];
        let word = self.word as usize;
        let count = size / word;
        if count == 0 {
            return UNTOLD;
        }
        let mut words = [0u64; LOOKED_AT / 4];
        for (to, bytes) in words.iter_mut().zip(data.chunks_exact(word)) {
            *to = image.decoded(bytes).unwrap_or(0);
        }
        let words = &words[..count];
        let first = words[0];
        let least_text = if image.is_little() && word == 8 { 256 } else { 1 };
        if first == 0 {
            if is_zero(data) {
                return if usable as usize <= LOOKED_AT { ZEROS } else { BEGINS_WITH_ZEROS };
            }
        } else if !self.inside(first) && first >= least_text && begins_text(data[0]) {
            let encoding = text(data);
            if encoding != UNTOLD {
                return encoding;
            }
        }
        if count < 3 {
            return UNTOLD;
        }
        // most have none: neither a colour, nor a pointer in front
        let may_link = words[..3].iter().any(|word| self.inside(*word))
            || (first == 0 && words[1] == 0)
            || self.ground.image.first_half(first) < 2;
        if may_link {
            let node = self.node(start, words, usable);
            if node != UNTOLD {
                return node;
            }
            if self.are_addresses(words) {
                return POINTERS;
            }
        }
        UNTOLD
    }
}

fn parts(count: usize) -> Result<Vec<Span>> {
    let mut made = with_room(count / TOGETHER + 1)?;
    let ends = (0..count).step_by(TOGETHER);
    made.extend(ends.map(|at| Span { start: at as u64, end: count.min(at + TOGETHER) as u64 }));
    Ok(made)
}

/// The kind of contents of each block of which nothing is `told`, which is -1.
pub fn contents(ground: &Ground, told: &[i32], threads: usize, control: &Control) -> Result<Vec<u8>> {
    if told.len() != ground.blocks.len() {
        return Err(Failure::BadInput);
    }
    if ground.low > ground.high || ground.data.windows(2).any(|two| two[0].end > two[1].start) {
        return Err(Failure::BadInput);
    }
    let found = in_threads(&parts(ground.blocks.len())?, threads, |part, _| {
        let mut look = Look::new(ground)?;
        let mut kinds = with_room((part.end - part.start) as usize)?;
        for number in part.start..part.end {
            let is_told = told[number as usize] != -1;
            kinds.push(if is_told { UNTOLD } else { look.kind(number as usize) });
        }
        control.advance(part.end - part.start)?;
        Ok(kinds)
    })?;
    joined(found)
}

/// A block that begins with an address of a module.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Begins {
    pub first: u64,
    pub block: u32,
    /// How far it is from one place where that word stands to the next, if it stands again at equal steps; else 0.
    pub step: u32,
}

/// The blocks that begin with a word in one of these ranges, in order.
pub fn beginning_with(
    image: &Image,
    blocks: &Blocks,
    ranges: &[Span],
    threads: usize,
    control: &Control,
) -> Result<Vec<Begins>> {
    if ranges.windows(2).any(|two| two[0].end > two[1].start) {
        return Err(Failure::BadInput);
    }
    let found = in_threads(&parts(blocks.len())?, threads, |part, _| {
        let mut cursor = Cursor::new()?;
        let mut rows = Vec::new();
        for number in part.start..part.end {
            let start = blocks.starts[number as usize];
            let Some(first) = image.word_at(start, &mut cursor) else { continue };
            let at = ranges.partition_point(|range| range.start <= first);
            if at > 0 && first < ranges[at - 1].end {
                let usable = blocks.ends[number as usize] - start;
                let step = step_of(image, start, usable.min(LONGEST_ARRAY), first, &mut cursor);
                push(&mut rows, Begins { first, block: number as u32, step })?;
            }
        }
        control.advance(part.end - part.start)?;
        Ok(rows)
    })?;
    joined(found)
}

/// How far it is from the first word to where it stands again, as often as there is room for.
fn step_of<'a>(image: &'a Image, start: u64, usable: u64, first: u64, cursor: &mut Cursor<'a>) -> u32 {
    let word = image.word;
    let (mut step, mut again, mut places) = (0, 0, 0);
    let mut at = word;
    while at + word <= usable {
        match image.word_at(start + at, cursor) {
            Some(value) if value == first => {
                if step == 0 {
                    step = at;
                }
                again += 1;
                places += u64::from(at % step == 0);
            }
            Some(_) => (),
            None => break,
        }
        at += word;
    }
    if again == places {
        step as u32
    } else {
        0
    }
}
