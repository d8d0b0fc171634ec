//! Rules of the user's: what members lead to, and which objects pointers lead into. The caller has read them.

use std::collections::HashMap;
use std::rc::Rc;

use super::claims::Strength;
use super::layouts::{Slot, Target};
use super::memory::Memory;
use super::names::{At, Claimed, NameForm, Proof};
use super::objects::{Objects, Pointer};
use crate::failure::{filled, include, push, with_room, Failure, Result};
use crate::types::facts::TypeId;

/// In place of a type: characters.
pub const CHARACTERS: TypeId = TypeId::MIN;

/// A line, as the caller has it. Lines are numbered as they come.
#[derive(Clone, Copy, Debug)]
pub struct RuleRow {
    /// Of a line about what objects pointers lead into: the type of the member that they lead to.
    pub inside: TypeId,
    /// What a member leads to, or CHARACTERS; or the whole object.
    pub target: TypeId,
    /// Of the member in the type that has it.
    pub offset: u64,
    /// So many bytes in front of where the member leads the object begins.
    pub back: u64,
    /// 0: a line about what a member leads to; 1: about what objects pointers lead into.
    pub is_inside: u32,
    pub is_array: u32,
    /// There is more behind the object.
    pub and_more: u32,
}

/// What a number in an object has to be, so that a line counts.
#[derive(Clone, Copy, Debug)]
pub struct ConditionRow {
    /// In bits; on big-endian machines from the highest bit of the first byte.
    pub offset: u64,
    /// In bits, 64 at most.
    pub size: u64,
    /// Negative ones in two's complement.
    pub value: u64,
    /// The number of the line.
    pub line: u32,
    /// Of the object that is led to, not of the one that leads there.
    pub of_target: u32,
    pub signed: u32,
    /// ==, !=, <, >, <=, >=.
    pub sign: u32,
}

impl ConditionRow {
    /// Of the object that begins there.
    fn is_there(&self, memory: &Memory, place: u64) -> bool {
        let (first, last) = (self.offset / 8, (self.offset + self.size - 1) / 8);
        let bytes = last + 1 - first;
        let mut buffer = [0; 16];
        let Some(buffer) = buffer.get_mut(..bytes as usize) else { return false };
        if !memory.bytes(place.wrapping_add(first), buffer) {
            return false;
        }
        let within = self.offset % 8;
        let shift = if memory.is_little() { within } else { 8 * bytes - within - self.size };
        let number = memory.image().wide(buffer) >> shift;
        let number = self.extended(number as u64);
        let value = self.extended(self.value);
        match self.sign {
            0 => number == value,
            1 => number != value,
            2 => number < value,
            3 => number > value,
            4 => number <= value,
            _ => number >= value,
        }
    }

    fn extended(&self, number: u64) -> i128 {
        let above = 64 - self.size as u32;
        let number = number << above;
        if self.signed != 0 {
            i128::from(number as i64 >> above)
        } else {
            i128::from(number >> above)
        }
    }
}

/// A line about what a member leads to, or about what objects pointers lead into.
struct Rule {
    row: RuleRow,
    line: u32,
    conditions: Vec<ConditionRow>,
}

/// All lines of one program.
#[derive(Default)]
pub struct Rules {
    /// By the member, as slots have it.
    pointers: HashMap<Rc<str>, Vec<Rule>>,
    inside: HashMap<TypeId, Vec<Rule>>,
    /// Of each line, whether it is about what objects pointers lead into.
    pub lines: Vec<bool>,
}

impl Rules {
    /// `members`: of each line, the member as slots have it.
    pub fn new(rows: &[RuleRow], members: &[Rc<str>], conditions: &[ConditionRow]) -> Result<Rules> {
        if rows.len() != members.len() {
            return Err(Failure::BadInput);
        }
        let mut rules = Rules { lines: filled(rows.len(), false)?, ..Rules::default() };
        let mut of_lines: Vec<Vec<ConditionRow>> = with_room(rows.len())?;
        of_lines.resize_with(rows.len(), Vec::new);
        for each in conditions {
            if each.size == 0 || each.size > 64 || each.offset > u64::MAX - 64 {
                return Err(Failure::BadInput);
            }
            push(of_lines.get_mut(each.line as usize).ok_or(Failure::BadInput)?, *each)?;
        }
        for (line, ((row, member), conditions)) in rows.iter().zip(members).zip(of_lines).enumerate() {
            rules.lines[line] = row.is_inside != 0;
            let rule = Rule { row: *row, line: line as u32, conditions };
            if row.is_inside != 0 {
                push(rules.inside.entry(row.inside).or_default(), rule)?;
            } else {
                push(rules.pointers.entry(member.clone()).or_default(), rule)?;
            }
        }
        Ok(rules)
    }

    /// The members that lines are about.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.pointers.keys().map(|member| &**member)
    }

    pub fn lead_into(&self, of: TypeId) -> bool {
        self.inside.contains_key(&of)
    }
}

impl Objects<'_> {
    /// Adds what the lines about a member claim; false where none fits, or several do.
    pub(super) fn by_rules(&mut self, pointer: &Pointer, found: &mut Vec<Claimed>) -> Result<bool> {
        let Pointer { slot, value, at, .. } = *pointer;
        // a number, or what somebody else has
        let Some((block, _)) = self.memory.blocks.find(value) else { return Ok(false) };
        let rules = self.rules.clone();
        let Some(lines) = rules.pointers.get(&slot.member) else { return Ok(false) };
        let at = At { plain: at.plain.max(Strength::Rule), level: at.level.max(Strength::Rule), ..*at };
        let pointer = Pointer { at: &at, ..*pointer };
        let (before, mut fitting) = (found.len(), 0);
        for rule in lines {
            if !self.applies(rule, &pointer) {
                continue;
            }
            let from = found.len();
            self.claims_by(rule, &pointer, found)?;
            fitting += u32::from(found.len() > from);
        }
        if fitting == 0 {
            for rule in lines {
                if self.applies(rule, &pointer) {
                    self.note_against(rule, block)?;
                }
            }
        }
        if fitting > 1 {
            found.truncate(before);
        }
        Ok(fitting == 1)
    }

    fn note_against(&mut self, rule: &Rule, block: u32) -> Result<()> {
        include(&mut self.against[rule.line as usize], block).map(|_| ())
    }

    /// Whether its conditions hold.
    fn applies(&self, rule: &Rule, pointer: &Pointer) -> bool {
        let Pointer { slot, value, place, .. } = *pointer;
        let target = value.wrapping_sub(rule.row.back);
        rule.conditions.iter().all(|each| {
            let holder = place.map(|place| place.wrapping_add(slot.offset).wrapping_sub(rule.row.offset));
            let place = if each.of_target != 0 { Some(target) } else { holder };
            place.is_some_and(|place| each.is_there(self.memory, place))
        })
    }

    fn claims_by(&mut self, rule: &Rule, pointer: &Pointer, found: &mut Vec<Claimed>) -> Result<()> {
        let (Pointer { slot, value, .. }, target) = (*pointer, rule.row.target);
        if target == CHARACTERS {
            let slot = self.derived(slot, rule, Target::Text)?;
            self.follow(&Pointer { slot: &slot, ..*pointer }, found)?;
            return Ok(());
        }
        if rule.row.is_array != 0 {
            return self.array_by(target, pointer, found);
        }
        let start = value.wrapping_sub(rule.row.back);
        if !self.agrees(target, start)? {
            return Ok(());
        }
        if rule.row.and_more != 0 {
            let size = self.layouts.of(target)?.size;
            if let Some(block) = self.memory.at(start).filter(|block| self.memory.room(*block) > size) {
                let name = self.names.tail(target)?;
                push(found, self.claim(Strength::Weak, block, name, pointer, 0)?)?;
            }
            return Ok(());
        }
        let slot = self.derived(slot, rule, Target::Object)?;
        let from = found.len();
        self.follow(&Pointer { slot: &slot, value: start, ..*pointer }, found)?;
        let mut kept = from;
        for number in from..found.len() {
            if matches!(self.names.names[found[number].name as usize].form, NameForm::Object | NameForm::Array) {
                found[kept] = found[number];
                kept += 1;
            }
        }
        found.truncate(kept);
        Ok(())
    }

    /// The slot as the line says it is.
    fn derived(&mut self, slot: &Slot, rule: &Rule, to: Target) -> Result<Rc<Slot>> {
        if let Some(known) = self.ruled.get(&(slot.number, rule.line)) {
            return Ok(known.clone());
        }
        let target = if to == Target::Object { Some(rule.row.target) } else { slot.target };
        let is_void = to == Target::Text && slot.is_void;
        let number = self.layouts.next_number();
        let made = Rc::new(Slot { to, target, is_void, is_ruled: false, number, ..slot.clone() });
        self.ruled.insert((slot.number, rule.line), made.clone());
        Ok(made)
    }

    fn array_by(&mut self, target: TypeId, pointer: &Pointer, found: &mut Vec<Claimed>) -> Result<()> {
        let value = pointer.value;
        let (memory, size) = (self.memory, self.layouts.of(target)?.size);
        let Some(block) = memory.at(value).filter(|_| size > 0) else { return Ok(()) };
        let mut count = memory.room(block) / size;
        // the last word may be there for the chunk's alignment alone
        if !memory.fits(block, count * size) {
            count = memory.room(block).saturating_sub(memory.word_size()) / size;
        }
        for number in 0..memory.most(value, size, count) {
            if !self.agrees(target, value.wrapping_add(number * size))? {
                return Ok(());
            }
        }
        if count > 0 {
            let name = self.names.array(target, 0, None)?;
            push(found, self.claim(pointer.at.plain, block, name, pointer, count)?)?;
        }
        Ok(())
    }

    /// By the lines about objects that have a member of this type: of a pointer to such a member.
    pub(super) fn inside_by_rules(&mut self, of: TypeId, block: u32, pointer: &Pointer) -> Result<Option<Claimed>> {
        let rules = self.rules.clone();
        let Some(lines) = rules.inside.get(&of) else { return Ok(None) };
        let start = self.memory.start(block);
        let mut fitting = Vec::new();
        for rule in lines {
            let size = self.layouts.of(rule.row.target)?.size;
            let is_there = pointer.value - start == rule.row.offset && self.memory.fits(block, size);
            if is_there && self.agrees(rule.row.target, start)? {
                push(&mut fitting, rule.row.target)?;
            }
        }
        if fitting.is_empty() {
            for rule in lines {
                self.note_against(rule, block)?;
            }
        }
        let [whole] = fitting[..] else { return Ok(None) };
        let name = self.names.object(whole)?;
        self.claim(pointer.at.plain.max(Strength::Rule), block, name, pointer, 0).map(Some)
    }

    /// Whether no word there contradicts the type.
    fn agrees(&mut self, of: TypeId, place: u64) -> Result<bool> {
        let layout = self.layouts.of(of)?;
        Ok(self.proofs(&layout, place, Proof::Any, 0)?.is_some())
    }
}
