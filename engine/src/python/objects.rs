//! What an object leads to, and which memory it has beside itself.

use std::ops::Range;

use super::types::{Class, Release, Shape, Types, Values, DICT, INLINE_VALUES, MANAGED_DICT, NONE};
use crate::failure::Result;

/// The way from one object to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A root, by its number.
    Root(u32),
    /// What goes by the name that this str is.
    Name(u64),
    /// A slot of a class, by the class's address and the offset.
    Slot(u64, u64),
    /// An element, or the value of a key.
    Item,
    /// An element of a tuple.
    Place(u8),
    Key,
    /// A variable that a function captured, by the str that is its name; 0: not known.
    Captured(u64),
    /// The dict of an object's attributes.
    Own,
    /// What a cell holds, the dict of a cache, the result in one of its entries.
    Content,
    Class,
    /// A word of an object of which no more is known.
    Field(u16),
    /// The same word, of memory that it leads to.
    Beside(u16),
}

/// What is to be done with what an object leads to.
pub trait Visitor {
    fn meet(&mut self, object: u64, step: Step) -> Result<()>;

    /// Memory that the object has beside itself, by any address in it; false if another object was known to have it.
    fn keep(&mut self, _: u64) -> Result<bool> {
        Ok(true)
    }
}

impl<F: FnMut(u64, Step) -> Result<()>> Visitor for F {
    fn meet(&mut self, object: u64, step: Step) -> Result<()> {
        self(object, step)
    }
}

/// Places of tuples that are told apart.
const PLACES: u64 = 8;
/// Entries of one table, elements of one list: no process has more.
const MOST: u64 = 1 << 32;
/// Words of an object of which nothing is known.
const MOST_WORDS: u64 = 1 << 10;
/// Of memory beside an object of a module in C, so many words are looked at for the first object; and so many steps are
/// gone on from there.
const FIRST_WORDS: u64 = 16;
const INNER: u32 = 1;
const DEQUE_LENGTH: u64 = 64;
/// To one object; from here on it is one that is never freed (3.12).
const MOST_REFERENCES: u64 = 1 << 26;
const IMMORTAL: u64 = 0x3fff_ffff;
/// Dimensions of an array of numpy's: 32, and 64 since 2.0.
const MOST_DEPTH: u64 = 64;
/// Of shared keys: no instance has more.
const MOST_SHARED: u64 = 1 << 8;

/// A table of keys.
#[derive(Clone, Copy)]
struct Keys {
    entries: u64,
    number: u64,
    /// Bytes of an entry, and from there to its key; the value is behind.
    size: u64,
    key: u64,
}

impl Types<'_> {
    fn word(&self, address: u64, offset: u64) -> Option<u64> {
        address.checked_add(offset).and_then(|place| self.memory.word(place))
    }

    /// How many elements it has; None: it is no container.
    pub fn elements(&self, object: u64, class: &Class) -> Option<u64> {
        match class.shape {
            Shape::List | Shape::Tuple | Shape::Deque | Shape::Dict => self.word(object, 16),
            Shape::Set => self.word(object, 24),
            Shape::Cache => self.word(self.word(object, 72)?, 16),
            Shape::Array => self.objects_of_array(object).map(|(_, count)| count),
            _ => None,
        }
        .filter(|number| *number < MOST)
    }

    /// Hands everything to the visitor that an object leads to. With `is_namespace` the keys of a dict are names of
    /// attributes.
    pub fn visit(&self, object: u64, class: &Class, is_namespace: bool, to: &mut impl Visitor) -> Result<()> {
        match class.shape {
            Shape::Leaf => {}
            Shape::List => self.list(object, to)?,
            Shape::Tuple => self.tuple(object, class, to)?,
            Shape::Dict => self.dict(object, is_namespace, to)?,
            Shape::Set => self.set(object, to)?,
            Shape::Deque => self.deque(object, to)?,
            Shape::Cache => self.cache(object, class, to)?,
            Shape::Link => {
                self.meet_at(object, 40, Step::Key, to)?;
                self.meet_at(object, 48, Step::Content, to)?;
            }
            Shape::Cell => self.meet_at(object, 16, Step::Content, to)?,
            Shape::Module => self.meet_at(object, 16, Step::Own, to)?,
            Shape::Weak => self.meet_at(object, 24, Step::Field(24), to)?,
            Shape::Bytearray => {
                if let Some(bytes) = self.word(object, 32).filter(|bytes| *bytes != 0) {
                    to.keep(bytes)?;
                }
            }
            Shape::Type => self.type_object(object, to)?,
            Shape::Function => self.function(object, class, to)?,
            Shape::Generator => self.generator(object, class, to)?,
            Shape::Array => {
                let first = match self.objects_of_array(object) {
                    Some((start, count)) => {
                        to.keep(start)?;
                        self.array(start, count, |_| Step::Item, to)?;
                        24
                    }
                    None => 16,
                };
                self.fields(object, class, first..class.own, to)?;
            }
            Shape::Plain => self.fields(object, class, 16..class.own, to)?,
        }
        self.attributes(object, class, to)
    }

    fn meet_at(&self, object: u64, offset: u64, step: Step, to: &mut impl Visitor) -> Result<()> {
        match self.word(object, offset) {
            Some(value) if value != 0 => to.meet(value, step),
            _ => Ok(()),
        }
    }

    fn list(&self, object: u64, to: &mut impl Visitor) -> Result<()> {
        let (Some(size), Some(items)) = (self.word(object, 16), self.word(object, 24)) else { return Ok(()) };
        if items == 0 {
            return Ok(());
        }
        to.keep(items)?;
        self.array(items, size, |_| Step::Item, to)
    }

    /// Where an array of numpy's has its elements, and how many, if they are objects and no other array has them
    /// (`PyArrayObject_fields`, `PyArray_Descr`).
    fn objects_of_array(&self, object: u64) -> Option<(u64, u64)> {
        let mut words = [0; 6];
        if !self.memory.words(object.saturating_add(16), &mut words) {
            return None;
        }
        let [start, depth, lengths, _, base, kind] = words;
        let letter = self.memory.number(kind.checked_add(24)?, 1)?;
        if base != 0 || letter != u64::from(b'O') || depth > MOST_DEPTH {
            return None;
        }
        let length = |number| self.word(lengths, number * 8);
        let count = (0..depth).try_fold(1u64, |product, number| product.checked_mul(length(number)?))?;
        Some((start, count))
    }

    /// Objects side by side, as far as there is memory.
    fn array(&self, start: u64, count: u64, step: impl Fn(u64) -> Step, to: &mut impl Visitor) -> Result<()> {
        let count = self.at_most(count.min(MOST));
        for number in 0..count {
            let Some(value) = start.checked_add(number * 8).and_then(|place| self.memory.word(place)) else {
                self.give_back(count - number);
                break;
            };
            if value != 0 {
                to.meet(value, step(number))?;
            }
        }
        Ok(())
    }

    fn tuple(&self, object: u64, class: &Class, to: &mut impl Visitor) -> Result<()> {
        let Some(size) = self.word(object, 16) else { return Ok(()) };
        let step = |number| if size <= PLACES { Step::Place(number as u8) } else { Step::Item };
        // a named tuple has no slots
        self.array(object.saturating_add(class.own), size, step, to)
    }

    fn dict(&self, object: u64, is_namespace: bool, to: &mut impl Visitor) -> Result<()> {
        let (Some(table), Some(values)) = (self.word(object, 32), self.word(object, 40)) else { return Ok(()) };
        let Some(keys) = self.keys(table) else { return Ok(()) };
        if values == 0 {
            to.keep(table)?;
            return self.entries(keys, is_namespace, to);
        }
        if !(object..object.saturating_add(48)).contains(&values) {
            to.keep(values)?;
        }
        self.values(keys, values, to)
    }

    /// The entries of a table that has the values, too.
    fn entries(&self, keys: Keys, is_namespace: bool, to: &mut impl Visitor) -> Result<()> {
        let count = self.at_most(keys.number);
        for number in 0..count {
            let entry = keys.entries.saturating_add(number * keys.size + keys.key);
            let mut words = [0; 2];
            if !self.memory.words(entry, &mut words) {
                self.give_back(count - number);
                break;
            }
            let [key, value] = words;
            if value == 0 {
                continue;
            }
            let step = if is_namespace && key != 0 { Step::Name(key) } else { Step::Item };
            to.meet(value, step)?;
            if key != 0 {
                to.meet(key, Step::Key)?;
            }
        }
        Ok(())
    }

    /// Values of attributes, whose names are in a table that others share.
    fn values(&self, keys: Keys, values: u64, to: &mut impl Visitor) -> Result<()> {
        let first = if self.release.values == Values::Inline { 8 } else { 0 };
        for number in 0..self.at_most(keys.number.min(MOST_SHARED)) {
            let place = values.checked_add(first + number * 8);
            let Some(value) = place.and_then(|place| self.memory.word(place)) else { break };
            let key = self.word(keys.entries, number * keys.size + keys.key);
            if let (true, Some(key)) = (value != 0, key) {
                to.meet(value, Step::Name(key))?;
            }
        }
        Ok(())
    }

    fn keys(&self, table: u64) -> Option<Keys> {
        let mut words = [0; 5];
        if table % 8 != 0 || !self.memory.words(table, &mut words) {
            return None;
        }
        if !self.release.has_logs {
            let (size, room, number) = (words[1], words[3], words[4]);
            let width = match size {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            };
            let is_right = size.is_power_of_two() && size <= MOST && number <= size && room <= size;
            let entries = table.checked_add(40 + size.checked_mul(width)?)?;
            return is_right.then_some(Keys { entries, number, size: 24, key: 8 });
        }
        let bytes = self.memory.number(table + 8, 4)?;
        let (log, index, kind) = (bytes & 0xff, bytes >> 8 & 0xff, bytes >> 16 & 0xff);
        let (room, number) = (words[2], words[3]);
        let is_right = log <= 32 && index <= 36 && kind <= 2 && number <= 1 << log && room <= 1 << log;
        let (size, key) = if kind == 0 { (24, 8) } else { (16, 0) };
        let entries = table.checked_add(32 + (1 << index.min(36)))?;
        is_right.then_some(Keys { entries, number, size, key })
    }

    /// Hands over the values of a dict whose keys are names.
    pub fn each_pair(&self, dict: u64, to: &mut impl Visitor) -> Result<()> {
        match self.shape(dict)? {
            Some(Shape::Dict) => self.dict(dict, true, to),
            _ => Ok(()),
        }
    }

    /// The value of a name in a dict.
    pub fn named(&self, dict: u64, name: &str) -> Result<Option<u64>> {
        let mut found = None;
        self.each_pair(dict, &mut |object: u64, step: Step| {
            if let (None, Step::Name(key)) = (found, step) {
                let is_it = self.string(key)?.as_deref() == Some(name);
                found = is_it.then_some(object);
            }
            Ok(())
        })?;
        Ok(found)
    }

    pub fn shape(&self, object: u64) -> Result<Option<Shape>> {
        let number = self.of(object)?;
        Ok((number != NONE).then(|| self.class(number).shape))
    }

    fn set(&self, object: u64, to: &mut impl Visitor) -> Result<()> {
        let (Some(mask), Some(table)) = (self.word(object, 32), self.word(object, 40)) else { return Ok(()) };
        if mask >= MOST || table == 0 {
            return Ok(());
        }
        if !(object..object.saturating_add(200)).contains(&table) {
            to.keep(table)?;
        }
        let count = self.at_most(mask + 1);
        for number in 0..count {
            let Some(key) = self.word(table, number * 16) else {
                self.give_back(count - number);
                break;
            };
            // what was removed leaves a mark, which is an object as well
            if key != 0 && self.word(table, number * 16 + 8) != Some(u64::MAX) {
                to.meet(key, Step::Item)?;
            }
        }
        Ok(())
    }

    fn deque(&self, object: u64, to: &mut impl Visitor) -> Result<()> {
        let mut words = [0; 5];
        if !self.memory.words(object.saturating_add(16), &mut words) {
            return Ok(());
        }
        let [length, left, _, first, _] = words;
        let most = self.at_most(length);
        self.give_back(most);
        let (mut block, mut at, mut left_over) = (left, first, most);
        if at >= DEQUE_LENGTH {
            return Ok(());
        }
        if length == 0 && block != 0 {
            to.keep(block)?;
        }
        while left_over > 0 && block != 0 {
            to.keep(block)?;
            let here = left_over.min(DEQUE_LENGTH - at);
            self.array(block.saturating_add(8 + at * 8), here, |_| Step::Item, to)?;
            (left_over, at) = (left_over - here, 0);
            block = self.word(block, 8 + DEQUE_LENGTH * 8).unwrap_or(0);
        }
        Ok(())
    }

    fn cache(&self, object: u64, class: &Class, to: &mut impl Visitor) -> Result<()> {
        self.meet_at(object, 72, Step::Content, to)?;
        self.fields(object, class, 88..96, to)?;
        self.fields(object, class, 112..class.own, to)
    }

    fn type_object(&self, object: u64, to: &mut impl Visitor) -> Result<()> {
        self.meet_at(object, DICT, Step::Own, to)?;
        // bases, and the order in which they are asked
        for offset in [256, 336, 344] {
            self.meet_at(object, offset, Step::Field(offset as u16), to)?;
        }
        Ok(())
    }

    fn function(&self, object: u64, class: &Class, to: &mut impl Visitor) -> Result<()> {
        let Types { release, .. } = self;
        if let Some(closure) = self.word(object, release.function_closure).filter(|closure| *closure != 0) {
            if self.shape(closure)? == Some(Shape::Tuple) {
                let code = self.word(object, release.function_code).unwrap_or(0);
                let (names, last) = self.captured(code)?;
                let size = self.word(closure, 16).unwrap_or(0);
                let own = self.class(self.of(closure)?).own;
                // the names of what was captured are the last
                let first = last.saturating_sub(size);
                let name = |number: u64| names.and_then(|start| self.word(start, (first + number) * 8)).unwrap_or(0);
                self.array(closure.saturating_add(own), size, |number| Step::Captured(name(number)), to)?;
            }
        }
        self.fields(object, class, 16..class.own, to)
    }

    /// Where the names are of what a function captured, which are the last of so many.
    fn captured(&self, code: u64) -> Result<(Option<u64>, u64)> {
        let names = self.word(code, self.release.code_names[2]).unwrap_or(0);
        if self.shape(names)? != Some(Shape::Tuple) {
            return Ok((None, 0));
        }
        let own = self.class(self.of(names)?).own;
        Ok((names.checked_add(own), self.word(names, 16).unwrap_or(0)))
    }

    fn generator(&self, object: u64, class: &Class, to: &mut impl Visitor) -> Result<()> {
        let Types { release, .. } = self;
        self.fields(object, class, 16..class.own, to)?;
        // since 3.11 the frame lies in it
        let place = object.saturating_add(release.generator_frame);
        let frame = if release.has_logs { place } else { self.memory.word(place).unwrap_or(0) };
        if frame == 0 {
            return Ok(());
        }
        let variables = frame.saturating_add(release.frame_variables);
        self.variables(self.word(frame, release.frame_code).unwrap_or(0) & !3, variables, to)?;
        let Some((start, end)) = self.value_stack(frame) else { return Ok(()) };
        // what it waits for, and what it works on; variables are met by their names
        for number in 0..self.at_most((end.saturating_sub(start) / 8).min(MOST_WORDS)) {
            match self.word(start, number * 8) {
                Some(value) if value & !3 != 0 => {
                    to.meet(value & !3, Step::Field((start - frame + number * 8) as u16))?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a suspended frame has the values that its code works on; since 3.11 its variables are in front of them.
    fn value_stack(&self, frame: u64) -> Option<(u64, u64)> {
        let Release { has_logs, frame_variables, .. } = self.release;
        let start = if has_logs { frame.checked_add(frame_variables)? } else { self.word(frame, 64)? };
        let number = |offset| Some(self.memory.number(frame.checked_add(offset)?, 4)? as u32 as i32);
        let end = match (has_logs, frame_variables) {
            // 3.11 to 3.13, 3.14; 3.8 and 3.9, 3.10
            (true, 72) => start.checked_add(8 * u64::try_from(number(64)?).ok()?)?,
            (true, _) => self.word(frame, 64)?,
            (false, 360) => self.word(frame, 72)?,
            (false, _) => start.checked_add(8 * u64::try_from(number(80)?).ok()?)?,
        };
        (frame..=end).contains(&start).then_some((start, end))
    }

    /// The variables of a frame, by the names that its code has.
    pub fn variables(&self, code: u64, start: u64, to: &mut impl Visitor) -> Result<()> {
        let mut at = start;
        for (number, offset) in self.release.code_names.into_iter().enumerate() {
            if number > 0 && self.release.code_names[number - 1] == offset {
                continue;
            }
            let names = self.word(code, offset).unwrap_or(0);
            if self.shape(names)? != Some(Shape::Tuple) {
                break;
            }
            let (own, count) = (self.class(self.of(names)?).own, self.word(names, 16).unwrap_or(0).min(1 << 16));
            for number in 0..count {
                let Some(value) = self.memory.word(at) else { return Ok(()) };
                let name = self.word(names, own + number * 8).unwrap_or(0);
                // since 3.14 the low bits say who counts it
                if value & !3 != 0 {
                    to.meet(value & !3, Step::Name(name))?;
                }
                at = at.saturating_add(8);
            }
        }
        Ok(())
    }

    /// Words of an object of which no more is known.
    fn fields(&self, object: u64, class: &Class, range: Range<u64>, to: &mut impl Visitor) -> Result<()> {
        for offset in range.step_by(8).take(MOST_WORDS as usize) {
            let is_known = offset as i64 == class.dict_offset || offset as i64 == class.weak_offset;
            let Some(value) = self.word(object, offset).filter(|_| !is_known) else { continue };
            if value % 8 != 0 || value < 4096 {
                continue;
            }
            if self.is_object(value)? {
                to.meet(value, Step::Field(offset as u16))?;
            } else if let Some(size) = self.block(value) {
                let is_new = to.keep(value)?;
                if is_new {
                    self.beside(value, size, Step::Beside(offset as u16), INNER, to)?;
                }
            }
        }
        Ok(())
    }

    /// The objects to which memory leads that an object of a module in C has beside itself, and, by so many steps, what
    /// that leads to. Numbers have no objects among the first.
    fn beside(&self, start: u64, size: u64, step: Step, steps: u32, to: &mut impl Visitor) -> Result<bool> {
        let mut has_any = false;
        let count = self.at_most(size / 8);
        for number in 0..count {
            let value = self.word(start, number * 8).filter(|_| has_any || number < FIRST_WORDS);
            let Some(value) = value else {
                self.give_back(count - number);
                break;
            };
            if value % 8 != 0 || value < 4096 {
                continue;
            }
            if self.is_object(value)? {
                has_any = true;
                to.meet(value, step)?;
            } else if let Some(size) = self.block(value).filter(|_| steps > 0 && number < FIRST_WORDS) {
                if self.beside(value, size, step, steps - 1, to)? {
                    has_any = true;
                    to.keep(value)?;
                }
            }
        }
        Ok(has_any)
    }

    /// Bytes of what malloc or CPython has handed out, if it begins there.
    fn block(&self, address: u64) -> Option<u64> {
        match self.memory.at(address) {
            Some(block) => Some(self.memory.size(block)),
            None => self.pooled(address).filter(|(start, _)| *start == address).map(|(_, size)| size),
        }
    }

    fn is_object(&self, address: u64) -> Result<bool> {
        Ok(self.is_counted(address) && self.of(address)? != NONE)
    }

    /// Whether a count of references can be there: no pointer can. A stack of CPython's may have a type as its second
    /// word.
    fn is_counted(&self, object: u64) -> bool {
        self.memory.word(object).is_some_and(|word| {
            let count = word & 0xffff_ffff;
            word >> 32 & 0xffff == 0 && count != 0 && (count <= MOST_REFERENCES || count >= IMMORTAL)
        })
    }

    /// An instance's dict, or its values, and the slots of its class.
    fn attributes(&self, object: u64, class: &Class, to: &mut impl Visitor) -> Result<()> {
        for (offset, _) in &class.slots {
            self.meet_at(object, *offset, Step::Slot(class.address, *offset), to)?;
        }
        if !class.has(MANAGED_DICT) || self.release.values == Values::None {
            // negative: from the end of what is of variable length
            let end = || {
                let length = self.word(object, 16).unwrap_or(0) as i64;
                class
                    .basic
                    .checked_add(length.unsigned_abs().checked_mul(class.item)?)?
                    .checked_add(7)
                    .map(|end| end & !7)
            };
            let offset = match class.dict_offset {
                0 => None,
                offset if offset > 0 => Some(offset as u64),
                offset => end().and_then(|end| end.checked_sub(offset.unsigned_abs())),
            };
            return offset.map_or(Ok(()), |offset| self.own_dict(self.word(object, offset).unwrap_or(0), to));
        }
        let Some(first) = object.checked_sub(24).and_then(|place| self.memory.word(place)) else { return Ok(()) };
        let values = match self.release.values {
            Values::Beside => object.checked_sub(32).and_then(|place| self.memory.word(place)).unwrap_or(0),
            Values::Odd if first & 1 == 1 => first.wrapping_add(1),
            Values::Inline if first == 0 && class.has(INLINE_VALUES) => object.saturating_add(class.basic),
            _ => 0,
        };
        if values == 0 {
            return self.own_dict(first, to);
        }
        if self.release.values != Values::Inline {
            to.keep(values)?;
        }
        self.keys(class.keys).map_or(Ok(()), |keys| self.values(keys, values, to))
    }

    fn own_dict(&self, dict: u64, to: &mut impl Visitor) -> Result<()> {
        if dict != 0 && self.shape(dict)? == Some(Shape::Dict) {
            to.meet(dict, Step::Own)?;
        }
        Ok(())
    }
}
