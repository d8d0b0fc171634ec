//! What the members of all objects of a type have in them: which values there are, how often, and by which paths the
//! objects with one value are reached, and those with another. And for which objects a condition on members holds.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use super::claims::Strength;
use super::containers::forms::{Container, Text};
use super::counts::Counts;
use super::names::{NameForm, NONE};
use super::objects::Objects;
use super::reading;
use super::rows::{Known, Patterns};
use super::unlisted::{lists_of, pointers, text_of};
use crate::failure::{entry, filled, insert, kept_at, push, Control, Failure, Pace, Result};
use crate::types::facts::TypeId;

/// Values of one member that are counted.
const MOST_VALUES: usize = 1 << 14;
/// Numbers of one member that are counted beside the others, as few are met again and again.
const RECENT: usize = 16;
/// The most frequent ones that are told.
const FREQUENT: usize = 3;
/// Bytes of a text that are read.
const MOST_TEXT: u64 = 1 << 16;
/// Of a longer text so much is kept, and what tells it from others.
const LONG_TEXT: usize = 48;
/// A member with more values keeps no objects apart.
const MOST_PARTS: usize = 4;
/// One of so many objects has to have the second value.
const RARE: u64 = 100;
/// Paths by which objects are reached.
const MOST_PATHS: usize = 32;
/// Combinations of paths that are told of objects with one value.
const MOST_WAYS: usize = 3;

/// How a member is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberForm {
    Unsigned,
    Signed,
    Float,
    /// So many bits from the `first` bit of the member's first byte on.
    Bits {
        first: u64,
        count: u64,
        signed: bool,
    },
    /// A pointer to characters that end with a 0.
    Characters,
    /// An array of characters; of no size: up to the end of the block.
    Array,
    /// A string, or how many elements a container has.
    Contents(TypeId),
    /// The number of the value's type, of which there are several.
    Variant(TypeId),
    /// The number of elements behind an object of that type, which begins at the member.
    Flexible(TypeId),
    /// A pointer to characters, and how far from the object their number is.
    View {
        length: u64,
        letter: u64,
    },
}

/// A member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub form: MemberForm,
    pub offset: u64,
    /// In bytes.
    pub size: u64,
    /// Whether it may keep objects apart.
    pub splits: bool,
}

/// What is in a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(i128),
    Float(f64),
    Text(Vec<u8>),
    /// Of a pointer to characters: there are none.
    Null,
}

/// An object of the type that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Object {
    block: u32,
    address: u64,
    /// Its block is named by a guess.
    is_guess: bool,
}

impl Member {
    /// None where it cannot be read.
    fn value(&self, known: &Known, object: Object) -> Result<Option<Value>> {
        let memory = known.memory;
        let at = object.address.wrapping_add(self.offset);
        Ok(match self.form {
            MemberForm::Unsigned => {
                wide(known, at, self.size).and_then(|number| i128::try_from(number).ok()).map(Value::Number)
            }
            MemberForm::Signed => wide(known, at, self.size).map(|number| Value::Number(signed(number, 8 * self.size))),
            MemberForm::Float => wide(known, at, self.size).and_then(|bits| float(bits, self.size)).map(Value::Float),
            MemberForm::Bits { first, count, signed: is_signed } => {
                let bytes = (first + count).div_ceil(8);
                wide(known, at, bytes).map(|whole| {
                    let shift = if memory.is_little() { first } else { 8 * bytes - first - count };
                    let number = whole >> shift & ((1 << count) - 1);
                    Value::Number(if is_signed { signed(number, count) } else { number as i128 })
                })
            }
            MemberForm::Characters => match memory.word(at) {
                Some(0) => Some(Value::Null),
                Some(start) => memory.text(start, MOST_TEXT as usize)?.map(Value::Text),
                None => None,
            },
            MemberForm::Array if self.size == 0 => {
                let left = memory.blocks.ends[object.block as usize].saturating_sub(at).min(MOST_TEXT);
                memory.text(at, left as usize)?.map(Value::Text)
            }
            MemberForm::Array => characters(known, at, self.size, 1)?.map(|text| Value::Text(ended(text))),
            MemberForm::Contents(of) => {
                let found = reading::contents(known.layouts, memory, of, at)?;
                match found.text {
                    Some(Text { start, length, size }) => characters(known, start, length, size)?.map(Value::Text),
                    None => found.elements.map(|count| Value::Number(i128::from(count))),
                }
            }
            MemberForm::Variant(of) => match known.layouts.container(of)?.as_deref() {
                Some(Container::Value(own)) => own.which(memory, at).map(|which| Value::Number(which as i128)),
                _ => None,
            },
            MemberForm::Flexible(of) => {
                let layout = known.layouts.of(of)?;
                let (types, block) = (&known.layouts.types, object.block);
                let count = Counts { memory, types, layout: &layout, place: Some(at), block }.flexible()?;
                Some(count).filter(|count| *count > 0).map(|count| Value::Number(i128::from(count)))
            }
            MemberForm::View { length, letter } => {
                let count = memory.word(object.address.wrapping_add(length));
                match (memory.word(at), count) {
                    (Some(_), Some(0)) => Some(Value::Text(Vec::new())),
                    (Some(start), Some(count)) => characters(known, start, count, letter)?.map(Value::Text),
                    _ => None,
                }
            }
        })
    }
}

/// A number of 1 to 16 bytes.
fn wide(known: &Known, at: u64, size: u64) -> Option<u128> {
    if size <= 8 {
        return known.memory.number(at, size).map(u128::from);
    }
    let mut bytes = [0; 16];
    let bytes = bytes.get_mut(..usize::try_from(size).ok()?)?;
    if !known.memory.bytes(at, bytes) {
        return None;
    }
    Some(known.memory.image().wide(bytes))
}

fn signed(number: u128, bits: u64) -> i128 {
    let above = 128u64.saturating_sub(bits).min(127);
    ((number << above) as i128) >> above
}

fn float(bits: u128, size: u64) -> Option<f64> {
    Some(match size {
        2 => {
            let (exponent, rest) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
            let size = match exponent {
                31 if rest > 0.0 => f64::NAN,
                31 => f64::INFINITY,
                0 => rest * 2f64.powi(-24),
                _ => (1024.0 + rest) * 2f64.powi(exponent - 25),
            };
            if bits >> 15 & 1 == 1 {
                -size
            } else {
                size
            }
        }
        4 => f64::from(f32::from_bits(bits as u32)),
        8 => f64::from_bits(bits as u64),
        _ => return None,
    })
}

/// As UTF-8, if letters have more than a byte; None where they cannot be read.
fn characters(known: &Known, start: u64, count: u64, letter: u64) -> Result<Option<Vec<u8>>> {
    let memory = known.memory;
    let size = count.saturating_mul(letter).min(MOST_TEXT);
    let mut bytes = filled(size as usize, 0)?;
    if !memory.read(start, &mut bytes) {
        return Ok(None);
    }
    let unit = |piece: &[u8]| memory.image().number(piece);
    let text: String = match letter {
        2 => String::from_utf16_lossy(&bytes.chunks_exact(2).map(|piece| unit(piece) as u16).collect::<Vec<_>>()),
        4 => {
            let letters = bytes.chunks_exact(4).map(|piece| char::from_u32(unit(piece) as u32));
            letters.map(|each| each.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        _ => return Ok(Some(bytes)),
    };
    Ok(Some(text.into_bytes()))
}

/// Up to its 0.
fn ended(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

/// Where objects lie in blocks of one name.
#[derive(Clone, Debug, Default)]
pub struct Use {
    /// From the block's start on, or of an array from each element's.
    pub offsets: Vec<u64>,
    /// Of an array: bytes of an element.
    pub element: u64,
    /// The whole block is one text.
    pub is_text: bool,
}

/// By the numbers of names.
pub type Uses = HashMap<u32, Use>;

/// Hands over all objects, in the order of their addresses.
fn each_object(
    known: &Known,
    uses: &Uses,
    control: &Control,
    take: &mut dyn FnMut(Object, &Use) -> Result<()>,
) -> Result<()> {
    let mut pace = Pace::new(control);
    let mut by_name: Vec<Option<&Use>> = filled(known.names.len(), None)?;
    for (name, each) in uses {
        *by_name.get_mut(*name as usize).ok_or(Failure::BadInput)? = Some(each);
    }
    for block in 0..known.named.name.len() {
        pace.step()?;
        let name = known.name(block);
        let Some(Some(own)) = by_name.get(name as usize) else { continue };
        let form = known.names[name as usize].form;
        let is_guess = known.named.level[block] > Strength::Rule as u8 || form == NameForm::Tail;
        let start = known.memory.start(block as u32);
        let is_array = form == NameForm::Array && !own.is_text;
        let count = if is_array { u64::from(known.named.elements[block]) } else { 1 };
        for number in 0..count {
            let element = start.wrapping_add(number.wrapping_mul(own.element));
            for offset in &own.offsets {
                pace.step()?;
                take(Object { block: block as u32, address: element.wrapping_add(*offset), is_guess }, own)?;
            }
        }
    }
    Ok(())
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Member(Member),
    Value(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Greater,
        Comparison::AtLeast,
    ];

    /// `None`: they cannot be ordered, as a number that is none.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// A part of a condition, after those that it joins.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Compare(Operand, Comparison, Operand),
    And,
    Or,
    Not,
}

/// Comparisons of members, joined.
#[derive(Clone, Debug)]
pub struct Condition {
    steps: Vec<Step>,
}

impl Condition {
    pub fn new(steps: Vec<Step>) -> Result<Condition> {
        let mut high = 0usize;
        for step in &steps {
            high = match step {
                Step::Compare(..) => high + 1,
                Step::Not if high > 0 => high,
                Step::And | Step::Or if high > 1 => high - 1,
                _ => return Err(Failure::BadInput),
            };
        }
        match high {
            1 => Ok(Condition { steps }),
            _ => Err(Failure::BadInput),
        }
    }

    /// None: what it asks for cannot be read.
    fn of(&self, known: &Known, object: Object, stack: &mut Vec<Option<bool>>) -> Result<Option<bool>> {
        stack.clear();
        for step in &self.steps {
            let found = match step {
                Step::Compare(left, comparison, right) => {
                    let value = |operand: &Operand| match operand {
                        Operand::Member(member) => member.value(known, object),
                        Operand::Value(value) => Ok(Some(value.clone())),
                    };
                    match (value(left)?, value(right)?) {
                        (Some(left), Some(right)) => compared(&left, *comparison, &right),
                        _ => None,
                    }
                }
                Step::Not => stack.pop().flatten().map(|known| !known),
                Step::And | Step::Or => {
                    let (one, other) = (stack.pop().flatten(), stack.pop().flatten());
                    // what decides alone
                    let decides = Some(matches!(step, Step::Or));
                    match (one, other) {
                        _ if one == decides || other == decides => decides,
                        (Some(_), Some(_)) => decides.map(|known| !known),
                        _ => None,
                    }
                }
            };
            push(stack, found)?;
        }
        Ok(stack.pop().flatten())
    }
}

/// None: they are not of one kind. A text's number is its length.
fn compared(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    let length = |text: &Vec<u8>| text.len() as i128;
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Number(right)) => Some(length(left).cmp(right)),
        (Value::Number(left), Value::Text(right)) => Some(left.cmp(&length(right))),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Null, Value::Text(_)) | (Value::Text(_), Value::Null) => {
            return match comparison {
                Comparison::Equal => Some(false),
                Comparison::NotEqual => Some(true),
                _ => None,
            };
        }
        _ => plain(left)?.partial_cmp(&plain(right)?),
    };
    Some(comparison.holds(order))
}

fn plain(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// A condition on the objects of one type.
pub struct Asked {
    pub uses: Uses,
    pub condition: Condition,
}

/// How many objects a condition holds for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    pub objects: u64,
    pub matching: u64,
    /// Those of which a member cannot be read.
    pub unknown: u64,
    /// Of those that match, those in blocks that are named by a guess.
    pub guessed: u64,
}

/// Of each block: it has none of the objects; a number for what is known of those that it has, the most of all of them.
pub const NO_OBJECT: u8 = 0;
pub const OTHER: u8 = 1;
pub const UNKNOWN: u8 = 2;
pub const MATCHES: u8 = 3;

pub fn matching(known: &Known, asked: &[Asked], control: &Control) -> Result<(Vec<u8>, Vec<Matches>)> {
    let mut flags = filled(known.named.name.len(), NO_OBJECT)?;
    let mut found = Vec::new();
    for each in asked {
        let (mut sum, mut stack) = (Matches::default(), Vec::new());
        each_object(known, &each.uses, control, &mut |object, _| {
            sum.objects += 1;
            let flag = match each.condition.of(known, object, &mut stack)? {
                Some(true) => MATCHES,
                Some(false) => OTHER,
                None => UNKNOWN,
            };
            sum.matching += u64::from(flag == MATCHES);
            sum.unknown += u64::from(flag == UNKNOWN);
            sum.guessed += u64::from(flag == MATCHES && object.is_guess);
            let block = &mut flags[object.block as usize];
            *block = (*block).max(flag);
            Ok(())
        })?;
        push(&mut found, sum)?;
    }
    Ok((flags, found))
}

/// What two objects have in common that have the same value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Null,
    Number(i128),
    /// Its bits.
    Float(u64),
    /// So much of it, and what tells it from others that begin alike.
    Text(Box<[u8]>, u64),
}

impl Key {
    fn of(value: &Value) -> Key {
        match value {
            Value::Null => Key::Null,
            Value::Number(number) => Key::Number(*number),
            Value::Float(number) => Key::Float(if *number == 0.0 { 0 } else { number.to_bits() }),
            Value::Text(text) if text.len() <= LONG_TEXT => Key::Text(text[..].into(), 0),
            Value::Text(text) => {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                Key::Text(text[..LONG_TEXT].into(), hasher.finish())
            }
        }
    }
}

/// The least, the greatest and the sum of what is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Measured {
    #[default]
    Nothing,
    Numbers {
        least: i128,
        greatest: i128,
        sum: i128,
    },
    Floats {
        least: f64,
        greatest: f64,
        sum: f64,
    },
}

/// A value that many objects have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frequent {
    pub key: Key,
    pub objects: u64,
    /// Those of them in blocks that are named by a guess.
    pub guessed: u64,
}

/// A member of all objects.
#[derive(Default)]
pub struct Tally {
    pub objects: u64,
    pub unreadable: u64,
    /// Pointers to nothing.
    pub nulls: u64,
    /// There was a text, of which the length is measured.
    pub is_text: bool,
    pub measured: Measured,
    /// What all differences between numbers are a multiple of.
    pub apart: u128,
    /// There were more values than are counted: what is told of them may be too low by a little.
    pub forgotten: bool,
    /// Numbers are compared, so that their distances are known.
    compares: bool,
    first: Option<i128>,
    counts: HashMap<Key, [u64; 2]>,
    /// Numbers that were met last, which are not yet among the counts.
    recent: [(i128, [u64; 2]); RECENT],
}

impl Tally {
    pub(super) fn new(compares: bool) -> Tally {
        Tally { compares, ..Tally::default() }
    }

    pub(super) fn add(&mut self, value: Option<Value>, is_guess: bool) -> Result<()> {
        let Some(value) = value else {
            self.unreadable += 1;
            return Ok(());
        };
        self.objects += 1;
        match &value {
            Value::Null => self.nulls += 1,
            Value::Number(number) => {
                self.nulls += u64::from(*number == 0);
                self.measure(*number);
                let first = *self.first.get_or_insert(*number);
                if self.compares && self.apart != 1 {
                    self.apart = common_divisor(number.abs_diff(first), self.apart);
                }
                return self.meet(*number, is_guess);
            }
            Value::Float(number) if number.is_nan() => (),
            Value::Float(number) => {
                self.measured = match self.measured {
                    Measured::Floats { least, greatest, sum } => Measured::Floats {
                        least: least.min(*number),
                        greatest: greatest.max(*number),
                        sum: sum + number,
                    },
                    _ => Measured::Floats { least: *number, greatest: *number, sum: *number },
                };
            }
            Value::Text(text) => {
                self.is_text = true;
                self.measure(text.len() as i128);
            }
        }
        self.count(Key::of(&value), [1, u64::from(is_guess)])
    }

    fn meet(&mut self, number: i128, is_guess: bool) -> Result<()> {
        let (known, counts) = &mut self.recent[number as usize % RECENT];
        let before = (*known, *counts);
        if *known == number {
            (counts[0], counts[1]) = (counts[0] + 1, counts[1] + u64::from(is_guess));
            return Ok(());
        }
        (*known, *counts) = (number, [1, u64::from(is_guess)]);
        match before.1[0] {
            0 => Ok(()),
            _ => self.count(Key::Number(before.0), before.1),
        }
    }

    /// Once all objects have been met.
    pub(super) fn end(&mut self) -> Result<()> {
        for at in 0..RECENT {
            let (number, counts) = std::mem::take(&mut self.recent[at]);
            if counts[0] > 0 {
                self.count(Key::Number(number), counts)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, key: Key, times: [u64; 2]) -> Result<()> {
        if let Some(count) = self.counts.get_mut(&key) {
            (count[0], count[1]) = (count[0] + times[0], count[1] + times[1]);
            return Ok(());
        }
        insert(&mut self.counts, key, times)?;
        if self.counts.len() > MOST_VALUES {
            self.forget()?;
        }
        Ok(())
    }

    fn measure(&mut self, number: i128) {
        self.measured = match self.measured {
            Measured::Numbers { least, greatest, sum } => Measured::Numbers {
                least: least.min(number),
                greatest: greatest.max(number),
                sum: sum.saturating_add(number),
            },
            _ => Measured::Numbers { least: number, greatest: number, sum: number },
        };
    }

    /// As Misra and Gries do: what is taken from all was counted for as many that are gone.
    fn forget(&mut self) -> Result<()> {
        self.forgotten = true;
        let mut all = Vec::new();
        for [count, _] in self.counts.values() {
            push(&mut all, *count)?;
        }
        all.sort_unstable();
        let least = all[all.len() / 2];
        self.counts.retain(|_, [count, guessed]| {
            *count = count.saturating_sub(least);
            *guessed = (*guessed).min(*count);
            *count > 0
        });
        Ok(())
    }

    /// None: more than are counted.
    pub fn distinct(&self) -> Option<u64> {
        (!self.forgotten).then_some(self.counts.len() as u64)
    }

    /// The most frequent values first, where one is had more than once.
    pub fn frequent(&self) -> Vec<Frequent> {
        let mut found = self.sorted(FREQUENT);
        found.retain(|each| each.objects > 1 || self.counts.len() <= FREQUENT);
        found
    }

    fn sorted(&self, most: usize) -> Vec<Frequent> {
        let mut best: Vec<(Reverse<u64>, &Key, u64)> = Vec::with_capacity(most + 1);
        for (key, [objects, guessed]) in &self.counts {
            let each = (Reverse(*objects), key, *guessed);
            let at = best.partition_point(|other| *other < each);
            if at < most {
                best.insert(at, each);
                best.truncate(most);
            }
        }
        let made = |(objects, key, guessed): (Reverse<u64>, &Key, u64)| Frequent {
            key: key.clone(),
            objects: objects.0,
            guessed,
        };
        best.into_iter().map(made).collect()
    }

    /// The values by which it may keep objects apart; none: it does not.
    fn parts(&self) -> Vec<Key> {
        let found = self.sorted(MOST_PARTS + 1);
        let is_split = !self.forgotten
            && (2..=MOST_PARTS).contains(&found.len())
            && found[1].objects.saturating_mul(RARE) >= self.objects;
        if is_split {
            found.into_iter().map(|each| each.key).collect()
        } else {
            Vec::new()
        }
    }
}

fn common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = match (u64::try_from(one), u64::try_from(other)) {
            // which is many times as fast
            (Ok(small), Ok(smaller)) => (other, u128::from(small % smaller)),
            _ => (other, one % other),
        };
    }
    one
}

/// What is asked of the objects of a type.
pub struct Question {
    pub uses: Uses,
    pub members: Vec<Member>,
    /// Only of those objects for which it holds.
    pub condition: Option<Condition>,
}

/// Objects that have one value of a member, and by which paths they are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub key: Key,
    pub objects: u64,
    /// Numbers of paths, and how many objects all of these lead to and no other; the most frequent first.
    pub ways: Vec<(Vec<u32>, u64)>,
}

/// What a member keeps apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Its number.
    pub member: usize,
    pub parts: Vec<Part>,
}

/// All objects of a type.
#[derive(Default)]
pub struct Found {
    pub objects: u64,
    pub blocks: u64,
    /// Those in blocks that are named by a guess.
    pub guessed_objects: u64,
    pub guessed_blocks: u64,
    /// Those of which the condition cannot be read.
    pub unknown: u64,
    /// Names of blocks that have any.
    pub names: Vec<u32>,
    pub tallies: Vec<Tally>,
    pub splits: Vec<Split>,
    pub paths: Vec<String>,
}

/// `objects`: what follows pointers.
pub fn values(known: &Known, objects: &mut Objects, question: &Question, control: &Control) -> Result<Found> {
    let tallies = question.members.iter().map(|member| Tally::new(member.splits)).collect();
    let mut found = Found { tallies, ..Found::default() };
    let (mut used, mut last) = (HashSet::new(), NONE);
    chosen(known, question, control, &mut |object, own, is_chosen| {
        let Some(true) = is_chosen else {
            found.unknown += u64::from(is_chosen.is_none());
            return Ok(());
        };
        found.objects += 1;
        found.guessed_objects += u64::from(object.is_guess);
        if object.block != last {
            last = object.block;
            found.blocks += 1;
            found.guessed_blocks += u64::from(object.is_guess);
            used.insert(known.name(object.block as usize));
        }
        for (member, tally) in question.members.iter().zip(&mut found.tallies) {
            let value = match own.is_text {
                true => whole_text(known, object)?,
                false => member.value(known, object)?,
            };
            tally.add(value, object.is_guess)?;
        }
        Ok(())
    })?;
    found.tallies.iter_mut().try_for_each(Tally::end)?;
    found.names = used.into_iter().collect();
    found.names.sort_unstable();
    split(known, objects, question, &mut found, control)?;
    Ok(found)
}

/// An object, and whether the condition holds for it.
type TakeChosen<'a> = dyn FnMut(Object, &Use, Option<bool>) -> Result<()> + 'a;

/// Hands over all objects, each with whether the condition holds for it.
fn chosen(known: &Known, question: &Question, control: &Control, take: &mut TakeChosen) -> Result<()> {
    let mut stack = Vec::new();
    each_object(known, &question.uses, control, &mut |object, own| {
        let holds = match &question.condition {
            Some(condition) => condition.of(known, object, &mut stack)?,
            None => Some(true),
        };
        take(object, own, holds)
    })
}

fn whole_text(known: &Known, object: Object) -> Result<Option<Value>> {
    let count = u64::from(known.named.elements[object.block as usize]);
    Ok(characters(known, object.address, count, 1)?.map(|text| Value::Text(ended(text))))
}

/// Which paths lead to objects with one value of a member, and which to those with another, where these differ.
fn split(
    known: &Known,
    objects: &mut Objects,
    question: &Question,
    found: &mut Found,
    control: &Control,
) -> Result<()> {
    let mut parts: Vec<(usize, Vec<Key>)> = Vec::new();
    for (number, (member, tally)) in question.members.iter().zip(&found.tallies).enumerate() {
        let keys = if member.splits { tally.parts() } else { Vec::new() };
        if !keys.is_empty() {
            push(&mut parts, (number, keys))?;
        }
    }
    if parts.is_empty() {
        return Ok(());
    }
    let Ways { paths, of: ways } = ways_to(known, objects, &question.uses.keys().copied().collect(), control)?;
    if paths.len() < 2 {
        return Ok(());
    }
    // of each member, by its value and the paths
    let mut counts: Vec<HashMap<(usize, u32), u64>> = parts.iter().map(|_| HashMap::new()).collect();
    chosen(known, question, control, &mut |object, _, is_chosen| {
        if is_chosen != Some(true) {
            return Ok(());
        }
        for ((number, keys), counts) in parts.iter().zip(&mut counts) {
            let Some(value) = question.members[*number].value(known, object)? else { continue };
            let key = Key::of(&value);
            let Some(at) = keys.iter().position(|each| *each == key) else { continue };
            *entry(counts, (at, ways[object.block as usize]))? += 1;
        }
        Ok(())
    })?;
    for ((member, keys), counts) in parts.into_iter().zip(counts) {
        let mut made: Vec<Part> = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            let mut own: Vec<(u32, u64)> =
                counts.iter().filter(|((which, _), _)| *which == at).map(|((_, way), count)| (*way, *count)).collect();
            own.sort_by_key(|(way, count)| (Reverse(*count), *way));
            let objects = own.iter().map(|(_, count)| count).sum();
            own.truncate(MOST_WAYS);
            let numbers = |way: u32| (0..paths.len() as u32).filter(|number| way >> number & 1 == 1).collect();
            let ways = own.into_iter().map(|(way, count)| (numbers(way), count)).collect();
            push(&mut made, Part { key, objects, ways })?;
        }
        let mut first = made.iter().filter_map(|part| part.ways.first().map(|(way, _)| way));
        let one = first.next();
        if one.is_some() && first.any(|other| Some(other) != one) {
            push(&mut found.splits, Split { member, parts: made })?;
        }
    }
    found.paths = paths;
    Ok(())
}

/// The paths that lead to objects, and of each block those that lead to it, a bit for each.
#[derive(Default)]
pub struct Ways {
    pub paths: Vec<String>,
    pub of: Vec<u32>,
}

/// To blocks with these names.
pub fn ways_to(known: &Known, objects: &mut Objects, names: &HashSet<u32>, control: &Control) -> Result<Ways> {
    let patterns = Patterns::new(known, control)?;
    let mut paths: Vec<String> = Vec::new();
    let mut ways = filled(known.named.name.len(), 0u32)?;
    let number = |paths: &mut Vec<String>, text: &str| -> Result<Option<u32>> {
        let at = match paths.iter().position(|path| path == text) {
            Some(at) => at,
            None if paths.len() < MOST_PATHS => {
                push(paths, text.to_owned())?;
                paths.len() - 1
            }
            None => return Ok(None),
        };
        Ok(Some(at as u32))
    };
    let is_object = |name: &u32| known.names.get(*name as usize).is_some_and(|name| name.form == NameForm::Object);
    let wanted: HashSet<u32> = names.iter().copied().filter(is_object).collect();
    let pointers = pointers(known, &patterns, objects, Some(&wanted), control)?;
    for edges in pointers.by_type()? {
        let listed = lists_of(&pointers.classes, edges, control)?;
        // what leads to one of very many objects has been there by chance
        let least = listed.blocks.len() / RARE as usize;
        for list in listed.lists.iter().filter(|list| list.count >= least.max(1)) {
            let text = text_of(known, &patterns, &pointers.classes, list)?;
            let Some(number) = number(&mut paths, &text)? else { continue };
            for (block, is_member) in listed.blocks.iter().zip(&list.members) {
                ways[*block as usize] |= u32::from(*is_member) << number;
            }
        }
    }
    // objects in what a container has made are reached as that is
    let mut of_pattern: Vec<Option<Option<u32>>> = filled(patterns.all.len(), None)?;
    let mut pace = Pace::new(control);
    for (block, way) in ways.iter_mut().enumerate() {
        pace.step()?;
        let name = known.name(block);
        if *way != 0 || !names.contains(&name) {
            continue;
        }
        let pattern = patterns.of[block] as usize;
        if pattern >= of_pattern.len() {
            continue;
        }
        let path = kept_at(&mut of_pattern, pattern, || number(&mut paths, &patterns.all[pattern].text))?;
        *way = path.map_or(0, |number| 1 << number);
    }
    Ok(Ways { paths, of: ways })
}
