//! The types of objects, as type objects describe them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::failure::{push, Result};
use crate::image::Span;
use crate::types::tracer::memory::Memory;

/// What differs between releases, in bytes if nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// The address of `type`.
    pub type_type: u64,
    /// From a str to its letters, if all are ASCII.
    pub letters: u64,
    /// Whether tables of keys tell their size by logarithms (3.11).
    pub has_logs: bool,
    pub values: Values,
    pub function_code: u64,
    pub function_closure: u64,
    /// The names of a code object's variables: one tuple of all (3.11), or three, of which the last is that of captured
    /// ones.
    pub code_names: [u64; 3],
    pub code_qualname: u64,
    pub type_keys: u64,
    /// Of generators.
    pub generator_frame: u64,
    /// From a frame to its variables.
    pub frame_variables: u64,
    pub frame_code: u64,
}

/// Where an instance has the values of its attributes, as long as it has no dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// It always has one.
    None,
    /// In front of it: a pointer, and next to it one to the dict (3.11).
    Beside,
    /// In front of it: one word for both, which is odd if it is the values' (3.12).
    Odd,
    /// Behind it (3.13).
    Inline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Its words lead to others, if anything.
    Plain,
    Leaf,
    List,
    Tuple,
    Dict,
    Set,
    Deque,
    Cache,
    /// An entry of such a cache.
    Link,
    Function,
    Cell,
    Module,
    Generator,
    Type,
    Weak,
    Bytearray,
    /// An ndarray of numpy's.
    Array,
}

/// A type, as its objects need it.
#[derive(Clone, Debug)]
pub struct Class {
    pub address: u64,
    pub name: Rc<str>,
    pub shape: Shape,
    /// A class statement made it.
    pub is_python: bool,
    pub basic: u64,
    pub item: u64,
    pub flags: u64,
    pub dict_offset: i64,
    pub weak_offset: i64,
    /// Where the part ends that `shape` describes: behind it are the slots of classes.
    pub own: u64,
    pub slots: Vec<(u64, Rc<str>)>,
    /// Where the names of attributes are of instances without a dict.
    pub keys: u64,
}

impl Class {
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

pub const INLINE_VALUES: u64 = 1 << 2;
pub const MANAGED_DICT: u64 = 1 << 4;
const HEAP_TYPE: u64 = 1 << 9;
const SUBCLASSES: [(u64, Shape); 7] = [
    (1 << 24, Shape::Leaf),
    (1 << 25, Shape::List),
    (1 << 26, Shape::Tuple),
    (1 << 27, Shape::Leaf),
    (1 << 28, Shape::Leaf),
    (1 << 29, Shape::Dict),
    (1 << 31, Shape::Type),
];
const NAMES: [(&str, Shape); 26] = [
    ("set", Shape::Set),
    ("frozenset", Shape::Set),
    ("collections.deque", Shape::Deque),
    ("functools._lru_cache_wrapper", Shape::Cache),
    ("functools._lru_list_elem", Shape::Link),
    ("function", Shape::Function),
    ("cell", Shape::Cell),
    ("module", Shape::Module),
    ("generator", Shape::Generator),
    ("coroutine", Shape::Generator),
    ("async_generator", Shape::Generator),
    ("weakref", Shape::Weak),
    ("weakproxy", Shape::Weak),
    ("weakcallableproxy", Shape::Weak),
    ("weakref.ReferenceType", Shape::Weak),
    ("weakref.ProxyType", Shape::Weak),
    ("weakref.CallableProxyType", Shape::Weak),
    ("bytearray", Shape::Bytearray),
    ("float", Shape::Leaf),
    ("complex", Shape::Leaf),
    ("NoneType", Shape::Leaf),
    ("ellipsis", Shape::Leaf),
    ("NotImplementedType", Shape::Leaf),
    ("array.array", Shape::Leaf),
    ("memoryview", Shape::Plain),
    ("numpy.ndarray", Shape::Array),
];

/// Words of a type object.
const NAME: usize = 3;
const BASIC: usize = 4;
const ITEM: usize = 5;
const FLAGS: usize = 21;
const WEAK: usize = 26;
const MEMBERS: usize = 30;
const BASE: usize = 32;
pub const DICT: u64 = 33 * 8;
const DICT_OFFSET: usize = 36;
const WORDS: usize = 37;
/// A type's type is `type` in so many steps.
const METACLASSES: usize = 4;
/// Classes whose base is the next.
const BASES: usize = 64;
const LONGEST_NAME: u64 = 256;
const LARGEST: u64 = 1 << 20;
/// Members of one class; bytes of a PyMemberDef, its words; the kinds of those that hold objects.
const SLOTS: u64 = 256;
const MEMBER: u64 = 40;
const OBJECTS: [u64; 2] = [6, 16];
/// Bytes of a pool, which begins at a multiple of that: since 3.10, and before.
pub const POOLS: [u64; 2] = [16 << 10, 4 << 10];
const POOL_HEADER: u64 = 48;
const POOL_GRAIN: u64 = 16;
const LARGEST_POOLED: u64 = 512;
/// Known types of one image.
const MOST: usize = 1 << 20;

/// The types of one image.
pub struct Types<'a> {
    pub memory: &'a Memory<'a>,
    pub release: Release,
    /// What never changes and the image lacks: where it begins, and its bytes; in order.
    constants: &'a [(u64, &'a [u8])],
    numbers: RefCell<HashMap<u64, u32>>,
    classes: RefCell<Vec<Rc<Class>>>,
    /// So many elements of containers may be looked at: damaged ones may claim each other's.
    elements: Cell<u64>,
}

/// Each is looked at so often: when it is followed, and thrice for what only leads to itself.
const LOOKS: u64 = 6;

/// No class.
pub const NONE: u32 = u32::MAX;

impl<'a> Types<'a> {
    pub fn new(memory: &'a Memory<'a>, release: Release, constants: &'a [(u64, &'a [u8])]) -> Types<'a> {
        let all = memory.image().bytes_in(&[Span { start: 0, end: u64::MAX }]);
        let elements = Cell::new((all / 8).saturating_mul(LOOKS));
        Types { memory, release, constants, numbers: RefCell::default(), classes: RefCell::default(), elements }
    }

    /// How many of so many elements may be looked at.
    pub fn at_most(&self, elements: u64) -> u64 {
        let left = self.elements.get();
        let found = elements.min(left);
        self.elements.set(left - found);
        found
    }

    /// Of the elements that were to be looked at so many were not there.
    pub fn give_back(&self, elements: u64) {
        self.elements.set(self.elements.get().saturating_add(elements));
    }

    /// "" of NONE.
    pub fn class_name(&self, number: u32) -> String {
        match number {
            NONE => String::new(),
            number => self.class(number).name.to_string(),
        }
    }

    pub fn class(&self, number: u32) -> Rc<Class> {
        self.classes.borrow()[number as usize].clone()
    }

    /// The number of the class of an object; NONE: there is no object.
    pub fn of(&self, object: u64) -> Result<u32> {
        if object % 8 != 0 || object < 4096 {
            return Ok(NONE);
        }
        let Some(address) = object.checked_add(8).and_then(|place| self.memory.word(place)) else { return Ok(NONE) };
        self.at(address)
    }

    fn at(&self, address: u64) -> Result<u32> {
        if let Some(number) = self.numbers.borrow().get(&address) {
            return Ok(*number);
        }
        let mut numbers = self.numbers.borrow_mut();
        if numbers.len() >= MOST {
            return Ok(NONE);
        }
        numbers.try_reserve(1)?;
        let number = match self.read(address)? {
            Some(class) => {
                let mut classes = self.classes.borrow_mut();
                push(&mut classes, Rc::new(class))?;
                classes.len() as u32 - 1
            }
            None => NONE,
        };
        numbers.insert(address, number);
        Ok(number)
    }

    /// A class that has been met, or could be.
    pub fn class_at(&self, address: u64) -> Result<Option<Rc<Class>>> {
        let number = self.at(address)?;
        Ok((number != NONE).then(|| self.class(number)))
    }

    fn words(&self, address: u64) -> Option<[u64; WORDS]> {
        let mut words = [0; WORDS];
        (address % 8 == 0 && address >= 4096 && self.memory.words(address, &mut words)).then_some(words)
    }

    fn read(&self, address: u64) -> Result<Option<Class>> {
        let Some(words) = self.words(address) else { return Ok(None) };
        let mut meta = words[1];
        let mut steps = 0;
        while meta != self.release.type_type {
            steps += 1;
            match meta.checked_add(8).and_then(|place| self.memory.word(place)) {
                Some(next) if steps < METACLASSES && meta % 8 == 0 => meta = next,
                _ => return Ok(None),
            }
        }
        let (basic, item) = (words[BASIC], words[ITEM]);
        let Some(name) = self.text(words[NAME])? else { return Ok(None) };
        if !(16..=LARGEST).contains(&basic) || item > LARGEST {
            return Ok(None);
        }
        let flags = words[FLAGS];
        let mut class = Class {
            address,
            is_python: flags & HEAP_TYPE != 0 && !name.contains('.'),
            name: name.into(),
            shape: Shape::Plain,
            basic,
            item,
            flags,
            dict_offset: words[DICT_OFFSET] as i64,
            weak_offset: words[WEAK] as i64,
            own: basic,
            slots: Vec::new(),
            keys: 0,
        };
        let base = self.base(&mut class, words)?;
        if class.is_python {
            class.keys = self.memory.word(address.saturating_add(self.release.type_keys)).unwrap_or(0);
        }
        let by_flags = SUBCLASSES.iter().find(|(flag, _)| class.has(*flag)).map(|(_, shape)| *shape);
        let by_name = || NAMES.iter().find(|(known, _)| *known == &*base).map(|(_, shape)| *shape);
        class.shape = by_flags.or_else(by_name).unwrap_or(Shape::Plain);
        Ok(Some(class))
    }

    /// The name of the nearest type that no class statement made; what those in between add to it.
    fn base(&self, class: &mut Class, mut words: [u64; WORDS]) -> Result<Rc<str>> {
        let mut name = class.name.clone();
        for _ in 0..BASES {
            if words[FLAGS] & HEAP_TYPE == 0 || name.contains('.') {
                break;
            }
            self.add_slots(class, words[MEMBERS])?;
            let Some(next) = self.words(words[BASE]) else { break };
            let Some(text) = self.text(next[NAME])? else { break };
            (words, name) = (next, text.into());
            class.own = words[BASIC].min(class.basic);
        }
        Ok(name)
    }

    fn add_slots(&self, class: &mut Class, members: u64) -> Result<()> {
        for number in 0..if members == 0 { 0 } else { SLOTS } {
            let mut words = [0; 3];
            let there = members.checked_add(number * MEMBER).is_some_and(|place| self.memory.words(place, &mut words));
            if !there || words[0] == 0 {
                break;
            }
            if OBJECTS.contains(&(words[1] & 0xffff_ffff)) {
                if let Some(name) = self.text(words[0])? {
                    push(&mut class.slots, (words[2], name.into()))?;
                }
            }
        }
        Ok(())
    }

    /// The block of a pool that has an address: where it begins, and its bytes.
    pub fn pooled(&self, address: u64) -> Option<(u64, u64)> {
        POOLS.into_iter().find_map(|pool| {
            let start = address & !(pool - 1);
            let within = (address - start).checked_sub(POOL_HEADER)?;
            let (size, _) = self.pool(start, pool)?;
            Some((address - within % size, size))
        })
    }

    /// Bytes of each block in the pool that begins there, and how many blocks are handed out (`struct pool_header`).
    pub fn pool(&self, start: u64, bytes: u64) -> Option<(u64, u64)> {
        let mut words = [0; 2];
        if !self.memory.words(start.checked_add(32)?, &mut words) {
            return None;
        }
        let size = ((words[0] >> 32) + 1) * POOL_GRAIN;
        // where the last block begins
        let is_pool = size <= LARGEST_POOLED && size + (words[1] >> 32) == bytes;
        let number = self.memory.word(start).filter(|_| is_pool)? & 0xffff_ffff;
        (number <= (bytes - POOL_HEADER) / size).then_some((size, number))
    }

    /// A name that C code has; None: that is none.
    fn text(&self, address: u64) -> Result<Option<String>> {
        let mut text = Vec::new();
        for place in address..address.saturating_add(LONGEST_NAME) {
            let mut byte = [0];
            if !self.memory.bytes(place, &mut byte) && !self.constant(place, &mut byte) {
                return Ok(None);
            }
            if byte[0] == 0 {
                break;
            }
            push(&mut text, byte[0])?;
        }
        let is_name = text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || b"_<".contains(byte));
        let is_plain = text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ' || *byte >= 0x80);
        Ok(String::from_utf8(text).ok().filter(|_| is_name && is_plain))
    }

    fn constant(&self, address: u64, to: &mut [u8; 1]) -> bool {
        let number = self.constants.partition_point(|(start, _)| *start <= address);
        let found = number.checked_sub(1).map(|number| self.constants[number]);
        found.and_then(|(start, bytes)| bytes.get((address - start) as usize)).map(|byte| to[0] = *byte).is_some()
    }

    /// The text of a str, if it is a name: all of its letters are ASCII.
    pub fn string(&self, object: u64) -> Result<Option<String>> {
        let number = self.of(object)?;
        if number == NONE || !self.class(number).has(1 << 28) {
            return Ok(None);
        }
        let length = object.checked_add(16).and_then(|place| self.memory.word(place)).unwrap_or(u64::MAX);
        if length > LONGEST_NAME {
            return Ok(None);
        }
        let mut letters = [0; LONGEST_NAME as usize + 1];
        let letters = &mut letters[..length as usize + 1];
        let there = object.checked_add(self.release.letters).is_some_and(|place| self.memory.bytes(place, letters));
        let Some((0, letters)) = letters.split_last().filter(|_| there) else { return Ok(None) };
        let is_plain = letters.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        Ok(std::str::from_utf8(letters).ok().filter(|_| is_plain).map(str::to_owned))
    }
}
