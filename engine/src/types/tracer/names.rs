//! What blocks are called, by numbers: there are millions of blocks, and few names and steps.

use std::collections::HashMap;
use std::rc::Rc;

use super::claims::{Claim, Strength};
use super::layouts::{Embedded, Layouts, Slot, Target};
use super::memory::Malloc;
use super::trace::Named;
use crate::failure::{insert, push, Result};
use crate::types::facts::{Form, TypeId};

/// In place of a name: there is none, or two claims contradict each other.
pub const NONE: u32 = u32::MAX;
pub const CONTESTED: u32 = u32::MAX - 1;
/// A step without a number.
pub const UNNUMBERED: u32 = u32::MAX;
/// The level of a block that has no name.
pub const NO_LEVEL: u8 = u8::MAX;
/// In place of a parent: the block's own vtable told what it is.
pub const NOBODY: i32 = i32::MIN;
/// At the end of a step: the block has an element of a container, or several from this one on.
pub const ELEMENT: &str = "[#]";
/// What is behind them is called "...".
const MOST_STEPS: usize = (1 << 16) - 1;
const MOST_TEXTS: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NameForm {
    /// One object.
    Object,
    /// Several.
    Array,
    /// An object with more behind it.
    Tail,
    /// What one alternative of a union leads to.
    Union,
    /// What a member leads to whose type tells nothing.
    Field,
}

/// What some blocks are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    /// "Session", "Session[]", "Session and a tail", "one of Shape", "void at dictEntry.v.val".
    pub text: Rc<str>,
    pub form: NameForm,
    /// Of one element, where it is an array, or of a text's characters; None: not known.
    pub of: Option<TypeId>,
    /// So many bytes lie before the (first) object.
    pub front: u64,
    /// Whether it holds anything that leads to other blocks.
    pub words: bool,
    /// What members' names follow: "Session", "server.names[]".
    pub label: Rc<str>,
}

/// Texts by numbers; 0 is "".
pub struct Texts {
    pub all: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
    most: usize,
}

impl Texts {
    fn new(most: usize) -> Texts {
        let mut texts = Texts { all: Vec::new(), numbers: HashMap::new(), most };
        texts.all.push("".into());
        texts.numbers.insert("".into(), 0);
        texts
    }

    pub fn number(&mut self, text: &str) -> Result<u32> {
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        if self.all.len() >= self.most && text != "..." {
            return self.number("...");
        }
        let (number, text) = (self.all.len() as u32, Rc::<str>::from(text));
        push(&mut self.all, text.clone())?;
        insert(&mut self.numbers, text, number)?;
        Ok(number)
    }
}

/// What is known of a slot once something was claimed by it. Prefixes and labels are mostly the same.
#[derive(Clone, Copy)]
struct Learned {
    prefix: u32,
    step: u16,
    label: u32,
    field: u32,
    object: u32,
    /// The size of a block for one object; 0: more than that has to be looked at.
    chunk: u64,
}

const NOTHING: Learned = Learned { prefix: NONE, step: 0, label: NONE, field: NONE, object: NONE, chunk: u64::MAX };

/// What a container claims, as far as its name depends on it.
#[derive(PartialEq, Eq, Hash)]
struct InContainer {
    container: u32,
    label: u32,
    of: TypeId,
    is_array: bool,
    front: u64,
    words: bool,
    step: &'static str,
}

/// The names of one image.
pub struct Names {
    layouts: Rc<Layouts>,
    pub names: Vec<BlockName>,
    numbers: HashMap<BlockName, u32>,
    pub steps: Texts,
    /// Prefixes of steps, and labels.
    pub texts: Texts,
    objects: HashMap<TypeId, u32>,
    tails: HashMap<TypeId, u32>,
    claims: HashMap<(TypeId, bool, u64, bool, Rc<str>), u32>,
    container_steps: HashMap<(u32, u32, &'static str, bool), u16>,
    in_containers: HashMap<InContainer, u32>,
    /// By a container, the prefix before it, and the step behind its element.
    inline_prefixes: HashMap<(u32, u32, &'static str), u32>,
    /// By the numbers of slots and containers.
    learned: Vec<Learned>,
}

impl Names {
    pub fn new(layouts: Rc<Layouts>) -> Names {
        Names {
            layouts,
            names: Vec::new(),
            numbers: HashMap::new(),
            steps: Texts::new(MOST_STEPS),
            texts: Texts::new(MOST_TEXTS),
            objects: HashMap::new(),
            tails: HashMap::new(),
            claims: HashMap::new(),
            container_steps: HashMap::new(),
            in_containers: HashMap::new(),
            inline_prefixes: HashMap::new(),
            learned: Vec::new(),
        }
    }

    fn number(&mut self, name: BlockName) -> Result<u32> {
        if let Some(number) = self.numbers.get(&name) {
            return Ok(*number);
        }
        let number = self.names.len() as u32;
        push(&mut self.names, name.clone())?;
        insert(&mut self.numbers, name, number)?;
        Ok(number)
    }

    /// The type of the object that a block is, where it is certain.
    pub fn sure_object(&self, named: &Named, block: u32) -> Option<TypeId> {
        let block = block as usize;
        let name = self.names.get(named.name[block] as usize).filter(|name| name.form == NameForm::Object)?;
        name.of.filter(|_| named.level[block] <= Strength::Rule as u8)
    }

    /// The step behind a prefix; "[]" in it stands for a block's number.
    pub fn step(&mut self, prefix: u32, step: &str) -> Result<u16> {
        let prefix = self.texts.all[prefix as usize].clone();
        let number =
            if prefix.is_empty() { self.steps.number(step) } else { self.steps.number(&format!("{prefix}{step}")) };
        number.map(|number| number as u16)
    }

    /// The step to a container's block, or to its elements, which have numbers of their own.
    pub fn container_step(&mut self, each: &Embedded, prefix: u32, number: u32, elements: bool) -> Result<u16> {
        if elements && number != UNNUMBERED {
            return self.claim_step(each, prefix, number, "", elements);
        }
        let known = *self.learned(each.number)?;
        if known.prefix == prefix {
            return Ok(known.step);
        }
        let step = self.claim_step(each, prefix, number, "", elements)?;
        let known = self.learned(each.number)?;
        (known.prefix, known.step) = (prefix, step);
        Ok(step)
    }

    /// The same of a container that has several kinds of blocks.
    pub fn claim_step(
        &mut self,
        each: &Embedded,
        prefix: u32,
        number: u32,
        step: &'static str,
        elements: bool,
    ) -> Result<u16> {
        let key = (each.number, prefix, step, elements);
        let is_known = !elements || number == UNNUMBERED;
        if let Some(known) = self.container_steps.get(&key).filter(|_| is_known) {
            return Ok(*known);
        }
        let (prefix, element) = if elements {
            (self.numbered(prefix, number), ELEMENT)
        } else {
            (self.texts.all[prefix as usize].clone(), "")
        };
        let found = self.steps.number(&format!("{prefix}{}{step}{element}", each.step))? as u16;
        if is_known {
            insert(&mut self.container_steps, key, found)?;
        }
        Ok(found)
    }

    /// Of what lies within a container. An element that has a number shows it, unless it lies in another that does.
    pub fn inline_element(&mut self, each: &Embedded, claim: &Claim, at: &At) -> Result<At> {
        let Some(number) = claim.number else {
            return Ok(At { prefix: self.prefix(at.prefix, [&each.step, claim.step])?, ..*at });
        };
        let (number, brackets) = match at.number {
            UNNUMBERED => (number.min(u64::from(UNNUMBERED) - 1) as u32, "[]"),
            outer => (outer, "[...]"),
        };
        let key = (each.number, at.prefix, claim.step);
        if let Some(prefix) = self.inline_prefixes.get(&key) {
            return Ok(At { prefix: *prefix, number, ..*at });
        }
        let text = format!("{}{}{brackets}{}", self.texts.all[at.prefix as usize], each.step, claim.step);
        let prefix = self.texts.number(&text)?;
        insert(&mut self.inline_prefixes, key, prefix)?;
        Ok(At { prefix, number, ..*at })
    }

    /// Another prefix behind one that has no number yet.
    pub fn prefix(&mut self, prefix: u32, steps: [&str; 2]) -> Result<u32> {
        let text = format!("{}{}{}", self.texts.all[prefix as usize], steps[0], steps[1]);
        self.texts.number(&text)
    }

    /// Another prefix behind one, in which further steps have numbers of their own.
    pub fn numbered_prefix(&mut self, prefix: u32, number: u32, step: &str) -> Result<u32> {
        let text = format!("{}{step}", self.numbered(prefix, number));
        self.texts.number(&text)
    }

    fn numbered(&self, prefix: u32, number: u32) -> Rc<str> {
        let prefix = &self.texts.all[prefix as usize];
        if number == UNNUMBERED {
            return prefix.clone();
        }
        prefix.replacen("[]", &format!("[{number}]"), 1).into()
    }

    fn learned(&mut self, number: u32) -> Result<&mut Learned> {
        let number = number as usize;
        if number >= self.learned.len() {
            self.learned.try_reserve(number + 1 - self.learned.len())?;
            self.learned.resize(number + 1, NOTHING);
        }
        Ok(&mut self.learned[number])
    }

    /// The step by a member.
    #[inline]
    pub fn slot_step(&mut self, prefix: u32, slot: &Slot) -> Result<u16> {
        let known = *self.learned(slot.number)?;
        if known.prefix == prefix {
            return Ok(known.step);
        }
        let step = self.step(prefix, &slot.step)?;
        let known = self.learned(slot.number)?;
        (known.prefix, known.step) = (prefix, step);
        Ok(step)
    }

    /// What a block of just that size is called to which a slot leads.
    #[inline]
    pub fn slot_object(&mut self, slot: &Slot, target: TypeId) -> Result<u32> {
        let known = self.learned(slot.number)?.object;
        if known != NONE {
            return Ok(known);
        }
        let name = self.object(target)?;
        self.learned(slot.number)?.object = name;
        Ok(name)
    }

    /// The size of a block for one object to which a slot leads; 0 where such a block may hold several, or where more
    /// than the size has to be looked at.
    #[inline]
    pub fn slot_chunk(&mut self, slot: &Slot, target: TypeId, malloc: &Malloc) -> Result<u64> {
        let known = self.learned(slot.number)?.chunk;
        if known != u64::MAX {
            return Ok(known);
        }
        let layout = self.layouts.of(target)?;
        let chunk = malloc.chunk_for(layout.size);
        let is_sure = !layout.polymorphic && malloc.chunk_for(layout.size.saturating_mul(2)) != chunk;
        let chunk = if is_sure { chunk } else { 0 };
        self.learned(slot.number)?.chunk = chunk;
        Ok(chunk)
    }

    #[inline]
    pub fn object(&mut self, of: TypeId) -> Result<u32> {
        if let Some(number) = self.objects.get(&of) {
            return Ok(*number);
        }
        let text: Rc<str> = self.layouts.types.text(Some(of))?.into();
        let name = BlockName { label: text.clone(), text, form: NameForm::Object, of: Some(of), front: 0, words: true };
        let number = self.number(name)?;
        self.objects.insert(of, number);
        Ok(number)
    }

    /// `label`: None: the type's name.
    pub fn array(&mut self, of: TypeId, front: u64, label: Option<&str>) -> Result<u32> {
        let (name, words) = (self.layouts.types.text(Some(of))?, self.layouts.of(of)?.leads_on());
        let (text, label) = (format!("{name}[]").into(), label.unwrap_or(&name).into());
        self.number(BlockName { text, form: NameForm::Array, of: Some(of), front, words, label })
    }

    pub fn tail(&mut self, of: TypeId) -> Result<u32> {
        if let Some(number) = self.tails.get(&of) {
            return Ok(*number);
        }
        let name = self.layouts.types.text(Some(of))?;
        let (text, label) = (format!("{name} and a tail").into(), name.into());
        let number =
            self.number(BlockName { text, form: NameForm::Tail, of: Some(of), front: 0, words: true, label })?;
        self.tails.insert(of, number);
        Ok(number)
    }

    /// What may be of several types, which begin alike.
    pub fn one_of(&mut self, of: TypeId, several: &[TypeId]) -> Result<u32> {
        let types = &self.layouts.types;
        let mut names = Vec::new();
        for each in several {
            push(&mut names, types.text(Some(*each))?)?;
        }
        names.sort_unstable();
        let (text, label) = (names.join(" or ").into(), types.text(Some(of))?.into());
        self.number(BlockName { text, form: NameForm::Union, of: Some(of), front: 0, words: true, label })
    }

    pub fn one_of_a_union(&mut self, of: TypeId) -> Result<u32> {
        let object = self.object(of)?;
        let BlockName { text, of, label, .. } = self.names[object as usize].clone();
        let text = format!("one of {text}").into();
        self.number(BlockName { text, form: NameForm::Union, of, front: 0, words: true, label })
    }

    /// Named by the member that leads there, or by `label` where a variable or an element does.
    #[inline]
    pub fn field(&mut self, slot: &Slot, label: u32) -> Result<u32> {
        let known = *self.learned(slot.number)?;
        if known.label == label {
            return Ok(known.field);
        }
        let name = self.field_of(slot, slot.to, label)?;
        let known = self.learned(slot.number)?;
        (known.label, known.field) = (label, name);
        Ok(name)
    }

    /// The same where it leads to something else than its type says.
    pub fn field_of(&mut self, slot: &Slot, to: Target, label: u32) -> Result<u32> {
        let label = if slot.member.is_empty() { self.texts.all[label as usize].clone() } else { slot.member.clone() };
        let text = match to {
            Target::Text => format!("char[] of {label}"),
            Target::Numbers | Target::Pointers => format!("{}[] of {label}", self.layouts.types.text(slot.target)?),
            Target::Object | Target::Anything => format!("void at {label}"),
        };
        let of = slot.target.filter(|_| to == Target::Text);
        self.number(BlockName {
            text: text.into(),
            form: NameForm::Field,
            of,
            front: 0,
            words: false,
            label: "".into(),
        })
    }

    /// What a container claims. `label`: of what has the container.
    pub fn in_container(&mut self, each: &Embedded, claim: &Claim, label: u32) -> Result<u32> {
        let key = InContainer {
            container: each.number,
            label,
            of: claim.of,
            is_array: claim.elements.is_some(),
            front: claim.front,
            words: claim.words,
            step: claim.step,
        };
        if let Some(known) = self.in_containers.get(&key) {
            return Ok(*known);
        }
        let number = self.claimed(claim, label)?;
        insert(&mut self.in_containers, key, number)?;
        Ok(number)
    }

    fn claimed(&mut self, claim: &Claim, label: u32) -> Result<u32> {
        let types = &self.layouts.types;
        let facts = types.facts(claim.of)?;
        let label: Rc<str> = match facts.form {
            Form::Pointer => self.texts.all[label as usize].clone(),
            _ if !facts.name.is_empty() => facts.name.clone(),
            _ => claim.name.into(),
        };
        let is_array = claim.elements.is_some();
        let said: Rc<str> = if claim.name.is_empty() { label.clone() } else { claim.name.into() };
        let key = (claim.of, is_array, claim.front, claim.words, said);
        if let Some(number) = self.claims.get(&key) {
            return Ok(*number);
        }
        let name = types.text(Some(claim.of))?;
        let text = match (claim.name, is_array) {
            ("", false) => name.into(),
            ("", true) => format!("{name}[]").into(),
            (name, _) => name.into(),
        };
        let form = if is_array { NameForm::Array } else { NameForm::Object };
        let (of, front, words) = (Some(claim.of), claim.front, claim.words);
        let number = self.number(BlockName { text, form, of, front, words, label })?;
        self.claims.insert(key, number);
        Ok(number)
    }
}

/// That a block has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub block: u32,
    pub name: u32,
    /// Of an array: how many are in use.
    pub elements: u32,
    /// Another block, or of a variable -1 - its number among the starts.
    pub parent: i32,
    pub number: u32,
    pub step: u16,
    pub level: Strength,
    /// A pointer alone says so: what the block holds must agree.
    pub plain: bool,
}

impl Claimed {
    /// What a block is to which nothing leads that tells it.
    pub fn of(block: u32, name: u32) -> Claimed {
        Claimed {
            block,
            name,
            elements: 0,
            parent: NOBODY,
            number: UNNUMBERED,
            step: 0,
            level: Strength::Vtable,
            plain: false,
        }
    }
}

/// What proves a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// Nothing is to be proved.
    None,
    /// Pointers to blocks of just the size of theirs.
    Typed,
    /// Pointers to blocks' starts as well, where what they lead to has no size: characters, void.
    Starts,
    /// Whatever leads to blocks' starts.
    Any,
    /// Pointers into blocks, to members that lead to their own kind.
    Links,
}

/// Where words are looked at, and what they are called.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub parent: i32,
    /// What is found here is no stronger.
    pub level: Strength,
    /// The same of plain pointers.
    pub plain: Strength,
    pub label: u32,
    /// In front of the steps from here; "[]" in it stands for `number`.
    pub prefix: u32,
    pub number: u32,
    /// A local: what it leads to has to be proven.
    pub may_be_unset: bool,
    /// Only what proves a type is looked for, at this object alone.
    pub proof: Proof,
    /// The bytes of the object that prove nothing: those by which a list led there.
    pub known: (u64, u64),
}

impl At {
    pub fn proving(proof: Proof) -> At {
        let (level, plain) = (Strength::Container, Strength::Exact);
        At {
            parent: NOBODY,
            level,
            plain,
            label: 0,
            prefix: 0,
            number: UNNUMBERED,
            may_be_unset: false,
            proof,
            known: (0, 0),
        }
    }
}
