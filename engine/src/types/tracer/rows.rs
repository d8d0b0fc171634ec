//! The containers of a program by the way to them, with how many elements they have and what lies below them.
//!
//! Containers of libraries have proved themselves before the tracer took what they claim. What C programs write
//! themselves is told by its form: an array, a struct that leads to its own kind (list, tree), an array of pointers to
//! such (chained hash table). Their elements are counted by following the links, as some may have been reached in
//! another way first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::claims::{Strength, PAIR};
use super::layouts::{FlatType, Layouts, Slot, TypeTable};
use super::memory::Memory;
use super::names::{BlockName, NameForm, ELEMENT, NOBODY, NONE};
use super::trace::{Named, Start};
use super::unlisted::without_link;
use super::values::Ways;
use crate::bits::Bits;
use crate::failure::{entry, filled, insert, push, Control, Pace, Result};
use crate::types::facts::{Form, TypeId};

/// Patterns of one image.
const MOST: usize = 1 << 14;
/// Of so many containers in one row the longest chain is looked for.
const FEW: usize = 1 << 14;
/// So many pointers and nodes in each other are followed to the struct that they lead to.
const DEEPEST: u32 = 8;
/// Of so many nodes in one row it is looked at whether what their links lead to leads back.
const FEW_NODES: usize = 1 << 8;
/// Words of an array that are read at once.
const PIECE: usize = 1 << 9;
/// Behind the step to a hash table's buckets.
const BUCKETS: &str = " (buckets)";
/// No pattern: of a block that has no name.
const UNKNOWN: u32 = u32::MAX;

/// What is known of the live blocks of one image.
pub struct Known<'a> {
    pub memory: &'a Memory<'a>,
    pub layouts: &'a Layouts,
    pub named: &'a Named,
    pub names: &'a [BlockName],
    pub steps: &'a [Rc<str>],
    pub starts: &'a [Start],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RowForm {
    Container,
    HashTable,
    Array,
    List,
    Tree,
    ChainedHashTable,
}

/// How many elements, and how they are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    pub number: u64,
    /// In one container.
    pub largest: u64,
    /// Of hash tables.
    pub buckets: Option<u64>,
    /// None: not a hash table, or too many of them.
    pub longest_chain: Option<u64>,
}

/// All containers that are reached in one way.
#[derive(Clone, Debug)]
pub struct Row {
    pub path: String,
    /// Of lists, trees: of one element.
    pub of: Rc<str>,
    pub form: RowForm,
    /// The members by which elements lead to each other, where the program links them itself.
    pub links: BTreeSet<Rc<str>>,
    /// Those that have blocks.
    pub containers: u64,
    pub elements: Elements,
    /// With all that lies below them.
    pub held_blocks: u64,
    pub held_bytes: u64,
    /// Those of which a condition holds, as the caller says, and to which the path leads, if not first.
    pub matching_blocks: u64,
    pub matching_bytes: u64,
    /// Where a block of the largest one begins.
    pub sample: u64,
    pub certain: bool,
    /// The struct of the program's own that an element is, or leads to; "": none is known.
    pub element: Rc<str>,
}

/// What holds most first. `matching`: a byte for each block, 1 if a condition holds of it; or none. `ways`: to blocks
/// of the names that these have.
pub fn rows(known: &Known, matching: &[u8], ways: &Ways, control: &Control) -> Result<Vec<Row>> {
    let patterns = Patterns::new(known, control)?;
    let seen = Bits::new(known.named.name.len())?;
    let matching = Matching::new(known, &patterns, matching, ways)?;
    let mut rows = Rows { known, patterns, matching, blocks: HashMap::new(), seen, control, found: Vec::new() };
    rows.find_blocks()?;
    for pattern in 0..rows.patterns.all.len() as u32 {
        rows.of_libraries(pattern)?;
        let chained = if rows.is_array(pattern)? {
            let chained = rows.chained_below(pattern)?;
            rows.array(pattern, chained)?;
            chained
        } else {
            None
        };
        rows.linked(pattern, chained)?;
    }
    rows.found.sort_by(|one, other| (other.held_bytes, &one.path).cmp(&(one.held_bytes, &other.path)));
    Ok(rows.found)
}

/// A step between blocks.
struct Edge {
    text: Rc<str>,
    /// The step to the container that leads there; None: a pointer does.
    container: Option<Rc<str>>,
    /// Or it is a part of the container that has no elements.
    is_element: bool,
}

impl Edge {
    fn new(text: Rc<str>) -> Edge {
        let is_word = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
        let part = text.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
        let part = part.filter(|(_, word)| !word.is_empty() && word.bytes().all(is_word));
        let element = text.strip_suffix(ELEMENT);
        let container = element.or(part.map(|(container, _)| container)).map(Rc::from);
        Edge { is_element: element.is_some(), container, text }
    }
}

/// With "[]" in place of each "[3]".
pub(super) fn without_numbers(step: &str) -> String {
    let (mut made, mut rest) = (String::new(), step);
    while let Some(open) = rest.find('[') {
        let (before, behind) = rest.split_at(open + 1);
        let inside = behind.split(']').next().unwrap_or(behind);
        let is_number = !inside.is_empty() && inside.bytes().all(|each| each.is_ascii_digit()) || inside == "...";
        made.push_str(before);
        rest = if is_number && inside.len() < behind.len() { &behind[inside.len()..] } else { behind };
    }
    made + rest
}

/// The blocks that are reached in one way and have one name.
#[derive(Default)]
pub(super) struct Pattern {
    parent: Option<u32>,
    edge: u32,
    /// NONE: a variable.
    pub name: u32,
    pub text: String,
    blocks: u64,
    pub bytes: u64,
    /// Of arrays those in use, of others one each.
    elements: u64,
    /// How many are the first of their container, or are not reached from the same struct.
    begun: u64,
    /// The elements of the largest container, and a block of it.
    largest: u64,
    sample: u32,
    /// Of the weakest claim; None: no block has just that name.
    level: Option<u8>,
    /// Likewise of blocks that are larger than their type.
    level_of_tails: Option<u8>,
    /// By which members the same struct is reached from itself, and how often.
    again: Vec<(u32, u64)>,
    /// One struct leads to several.
    forks: bool,
    below: Vec<u32>,
}

impl Pattern {
    pub fn is_certain(&self) -> bool {
        self.level.or(self.level_of_tails).map_or(true, |level| level <= Strength::Local as u8)
    }
}

pub(super) struct Patterns {
    pub all: Vec<Pattern>,
    /// By a block's number.
    pub of: Vec<u32>,
    edges: Vec<Edge>,
    /// By a step's number.
    edge_of: Vec<u32>,
    /// Of names that say the same of a block's beginning one.
    same: Vec<u32>,
    /// By the pattern above, the edge and the name.
    to: HashMap<[u32; 3], u32>,
    roots: HashMap<(Rc<str>, TypeId), u32>,
    /// The structs that lead to one of their own.
    led: Bits,
}

impl Patterns {
    pub fn new(known: &Known, control: &Control) -> Result<Patterns> {
        let (named, count) = (known.named, known.named.name.len());
        let mut edges = vec![Edge::new("".into())];
        let mut numbers: HashMap<Rc<str>, u32> = HashMap::from([("".into(), 0)]);
        let mut edge_of = Vec::new();
        for step in known.steps {
            let text: Rc<str> = without_numbers(step).into();
            let number = *numbers.entry(text.clone()).or_insert(edges.len() as u32);
            if number as usize == edges.len() {
                push(&mut edges, Edge::new(text))?;
            }
            push(&mut edge_of, number)?;
        }
        let mut patterns = Patterns {
            all: Vec::new(),
            of: filled(count, UNKNOWN)?,
            edges,
            edge_of,
            same: same_objects(known.names)?,
            to: HashMap::new(),
            roots: HashMap::new(),
            led: Bits::new(count)?,
        };
        let (mut pace, mut way) = (Pace::new(control), Vec::new());
        for block in 0..count {
            pace.step()?;
            // the way to it from where it is known
            let mut each = block;
            while known.name(each) != NONE && patterns.of[each] == UNKNOWN && way.len() <= count {
                push(&mut way, each)?;
                let Ok(parent) = usize::try_from(named.parent[each]) else { break };
                each = parent;
            }
            while let Some(each) = way.pop() {
                patterns.add(known, each)?;
            }
        }
        Ok(patterns)
    }

    fn add(&mut self, known: &Known, block: usize) -> Result<()> {
        let (named, parent) = (known.named, known.named.parent[block]);
        let name = self.same[named.name[block] as usize];
        let edge = self.edge_of[named.step[block] as usize];
        let holder = usize::try_from(parent).ok();
        let above = match holder.map(|holder| self.of[holder]).filter(|above| *above != UNKNOWN) {
            Some(above) => above,
            None => self.root(known, parent, name)?,
        };
        let number = match self.to.get(&[above, edge, name]) {
            Some(number) => *number,
            None => {
                let number = self.reached(known, above, edge, name)?;
                insert(&mut self.to, [above, edge, name], number)?;
                number
            }
        };
        self.of[block] = number;
        let (is_element, is_array) =
            (self.edges[edge as usize].is_element, known.names[name as usize].form == NameForm::Array);
        let mut elements = if is_array { u64::from(named.elements[block]) } else { 1 };
        let pattern = &mut self.all[number as usize];
        pattern.blocks += 1;
        pattern.bytes += known.memory.size(block as u32);
        let level = if named.name[block] == name { &mut pattern.level } else { &mut pattern.level_of_tails };
        *level = Some(level.map_or(named.level[block], |known| known.max(named.level[block])));
        pattern.elements += elements;
        if is_element {
            pattern.begun += u64::from(named.number[block] == 0);
            elements += u64::from(named.number[block]);
        } else if let (Some(holder), true) = (holder, number == above) {
            match pattern.again.iter_mut().find(|(each, _)| *each == edge) {
                Some((_, count)) => *count += 1,
                None => push(&mut pattern.again, (edge, 1))?,
            }
            pattern.forks |= !self.led.add(holder);
        } else {
            pattern.begun += 1;
        }
        if elements > pattern.largest {
            (pattern.largest, pattern.sample) = (elements, block as u32);
        }
        Ok(())
    }

    /// A variable; or, of what its own vtable told, its class.
    fn root(&mut self, known: &Known, parent: i32, name: u32) -> Result<u32> {
        let (label, of) = match known.start(parent) {
            Some(start) => (start.label.clone(), start.of),
            None => (format!("({})", known.names[name as usize].text).into(), TypeId::MIN),
        };
        if let Some(root) = self.roots.get(&(label.clone(), of)) {
            return Ok(*root);
        }
        let root = self.make(None, 0, NONE, label.to_string())?;
        self.roots.insert((label, of), root);
        Ok(root)
    }

    /// None: nothing is reached from it.
    pub fn root_of(&self, start: &Start) -> Option<u32> {
        self.roots.get(&(start.label.clone(), start.of)).copied()
    }

    fn reached(&mut self, known: &Known, above: u32, edge: u32, name: u32) -> Result<u32> {
        if known.names[name as usize].form == NameForm::Object {
            let mut again = Some(above);
            while let Some(number) = again {
                let pattern = &self.all[number as usize];
                if pattern.name == name {
                    return Ok(number);
                }
                again = pattern.parent;
            }
        }
        if self.all.len() >= MOST {
            // what is left belongs to what it was reached from
            return Ok(above);
        }
        let pattern = &self.all[above as usize];
        let text = format!("{}{}", pattern.text, known.step(pattern, &self.edges[edge as usize].text, Some(name))?);
        let made = self.make(Some(above), edge, name, text)?;
        push(&mut self.all[above as usize].below, made)?;
        Ok(made)
    }

    fn make(&mut self, parent: Option<u32>, edge: u32, name: u32, text: String) -> Result<u32> {
        push(&mut self.all, Pattern { parent, edge, name, text, ..Pattern::default() })?;
        Ok(self.all.len() as u32 - 1)
    }
}

/// malloc leaves a block larger where the rest could be no chunk: "T and a tail" may be a T.
fn same_objects(names: &[BlockName]) -> Result<Vec<u32>> {
    let is_object = |name: &&BlockName| name.form == NameForm::Object && name.words;
    let objects: HashMap<Option<TypeId>, u32> =
        (0..).zip(names).filter(|(_, name)| is_object(name)).map(|(number, name)| (name.of, number)).collect();
    let mut same = filled(names.len(), 0)?;
    for ((number, name), same) in (0..).zip(names).zip(&mut same) {
        let object = objects.get(&name.of).filter(|_| name.form == NameForm::Tail);
        *same = object.copied().unwrap_or(number);
    }
    Ok(same)
}

/// How blocks of one name are looked at.
pub(super) struct Look {
    pub layout: Rc<FlatType>,
    /// Bytes in front of the first object.
    pub front: u64,
    pub is_array: bool,
}

impl Known<'_> {
    /// None: blocks of that name are of no one type that may lead on.
    pub(super) fn look(&self, name: u32) -> Result<Option<Look>> {
        let BlockName { form, of, front, words, .. } = &self.names[name as usize];
        let is_known = *words && matches!(form, NameForm::Object | NameForm::Array | NameForm::Tail);
        let Some(of) = of.filter(|_| is_known) else { return Ok(None) };
        Ok(Some(Look { layout: self.layouts.of(of)?, front: *front, is_array: *form == NameForm::Array }))
    }

    fn types(&self) -> &TypeTable {
        &self.layouts.types
    }

    /// NONE where it has none, or a contested one.
    pub(super) fn name(&self, block: usize) -> u32 {
        let name = self.named.name[block];
        if (name as usize) < self.names.len() {
            name
        } else {
            NONE
        }
    }

    /// "" where there is no such name.
    pub(super) fn text(&self, name: u32) -> Rc<str> {
        self.names.get(name as usize).map_or_else(|| "".into(), |name| name.text.clone())
    }

    fn start(&self, parent: i32) -> Option<&Start> {
        usize::try_from(-1 - i64::from(parent)).ok().filter(|_| parent != NOBODY).and_then(|at| self.starts.get(at))
    }

    /// As a programmer writes it, from a block of that pattern on; `name`: of what it leads to.
    pub(super) fn step(&self, above: &Pattern, text: &str, name: Option<u32>) -> Result<String> {
        let is_body = name.is_some_and(|name| self.names[name as usize].form == NameForm::Array);
        let text = match text.strip_suffix(ELEMENT) {
            Some(text) => format!("{text}{}", if is_body { "" } else { "[]" }),
            None => text.to_owned(),
        };
        match text.strip_prefix('.') {
            Some(member) if above.name != NONE && self.is_pointed_to(&self.names[above.name as usize])? => {
                Ok(format!("->{member}"))
            }
            _ => Ok(text),
        }
    }

    /// A node that a container makes up stands for its element; a control block for the object that lies in it.
    fn is_pointed_to(&self, holder: &BlockName) -> Result<bool> {
        let Some(of) = holder.of.filter(|_| holder.form != NameForm::Array) else { return Ok(false) };
        if of >= 0 {
            return Ok(true);
        }
        let facts = self.types().facts(of)?;
        Ok(facts.fields.len() == 1 && facts.fields[0].name.is_empty())
    }

    /// The struct that blocks by that name have, or lead to.
    fn structure(&self, name: u32) -> Result<Rc<str>> {
        const OWNERS: [&str; 3] = ["std::shared_ptr<", "std::unique_ptr<", "std::weak_ptr<"];
        let mut of = self.names[name as usize].of;
        for _ in 0..DEEPEST {
            let Some(known) = of else { break };
            let facts = self.types().facts(known)?;
            let field = |name: &str| facts.fields.iter().find(|each| &*each.name == name).map(|each| each.of);
            of = if matches!(facts.form, Form::Pointer | Form::Reference | Form::Array) {
                facts.target
            } else if known < 0 {
                // a node: its links, and what it has
                field("")
            } else if facts.name.starts_with(PAIR) {
                field("second")
            } else if OWNERS.iter().any(|owner| facts.name.starts_with(owner)) {
                super::containers::forms::type_argument(&facts, 0)
            } else {
                let is_own = facts.form == Form::Struct && self.layouts.container(known)?.is_none();
                return Ok(if is_own { facts.name.clone() } else { "".into() });
            };
        }
        Ok("".into())
    }

    /// The words of an array of pointers that are in use.
    fn words(&self, block: u32, mut take: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let name = self.name(block as usize);
        let front = self.names.get(name as usize).map_or(0, |name| name.front);
        let (mut at, mut left) =
            (self.memory.start(block).saturating_add(front), self.named.elements[block as usize] as usize);
        let mut words = [0; PIECE];
        while left > 0 {
            let some = &mut words[..left.min(PIECE)];
            if self.memory.words(at, some) {
                some.iter().try_for_each(|word| take(*word))?;
            }
            at = at.saturating_add(some.len() as u64 * self.memory.word_size());
            left -= some.len();
        }
        Ok(())
    }
}

/// The blocks of which a condition holds.
struct Matching<'a> {
    /// How many, and their bytes: by the pattern, the name, and the ways to them.
    sums: HashMap<(u32, u32, u32), (u64, u64)>,
    /// By the name of a block all ways to such ones.
    of_name: HashMap<u32, u32>,
    paths: &'a [String],
}

impl Matching<'_> {
    fn new<'a>(known: &Known, patterns: &Patterns, matching: &[u8], ways: &'a Ways) -> Result<Matching<'a>> {
        let (mut sums, mut of_name) = (HashMap::new(), HashMap::new());
        for (block, (pattern, is_match)) in patterns.of.iter().zip(matching).enumerate() {
            let (name, way) = (known.name(block), ways.of.get(block).copied().unwrap_or(0));
            if way != 0 {
                *entry(&mut of_name, name)? |= way;
            }
            if *is_match == 1 {
                let (blocks, bytes): &mut (u64, u64) = entry(&mut sums, (*pattern, name, way))?;
                (*blocks, *bytes) = (*blocks + 1, *bytes + known.memory.size(block as u32));
            }
        }
        Ok(Matching { sums, of_name, paths: &ways.paths })
    }

    /// Those to which a path leads, or one that begins with it; where none does to their kind, those below the
    /// patterns.
    fn at(&self, path: &str, below: &HashSet<u32>) -> (u64, u64) {
        let path = without_link(path);
        let leads = |each: &String| {
            let rest = each.strip_prefix(path);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        };
        let here = (0..).zip(self.paths).filter(|(_, each)| leads(each)).fold(0u32, |here, (at, _)| here | 1 << at);
        let mut sum = (0, 0);
        for ((pattern, name, way), (blocks, bytes)) in &self.sums {
            let is_told = *way != 0 && self.of_name.get(name).is_some_and(|all| all & here != 0);
            let is_here = if is_told { way & here != 0 } else { below.contains(pattern) };
            if is_here {
                sum = (sum.0 + blocks, sum.1 + bytes);
            }
        }
        sum
    }
}

struct Rows<'a> {
    known: &'a Known<'a>,
    patterns: Patterns,
    matching: Matching<'a>,
    /// Of those patterns of which the blocks are looked at again.
    blocks: HashMap<u32, Vec<u32>>,
    /// The blocks that were met on a walk; none outside of one.
    seen: Bits,
    control: &'a Control,
    found: Vec<Row>,
}

impl Rows<'_> {
    fn pattern(&self, number: u32) -> &Pattern {
        &self.patterns.all[number as usize]
    }

    fn edge(&self, number: u32) -> &Edge {
        &self.patterns.edges[self.pattern(number).edge as usize]
    }

    fn find_blocks(&mut self) -> Result<()> {
        for number in 0..self.patterns.all.len() as u32 {
            let (edge, pattern) = (self.edge(number), self.pattern(number));
            let is_part = edge.container.is_some() && !edge.is_element;
            if pattern.name != NONE && (is_part || !pattern.again.is_empty() || self.is_array(number)?) {
                self.blocks.insert(number, Vec::new());
            }
        }
        let mut pace = Pace::new(self.control);
        for (block, number) in (0..).zip(&self.patterns.of) {
            pace.step()?;
            if let Some(blocks) = self.blocks.get_mut(number) {
                push(blocks, block)?;
            }
        }
        Ok(())
    }

    /// And neither a container's nor a text.
    fn is_array(&self, number: u32) -> Result<bool> {
        let pattern = self.pattern(number);
        if pattern.name == NONE || self.edge(number).container.is_some() {
            return Ok(false);
        }
        let name = &self.known.names[pattern.name as usize];
        let Some(of) = name.of.filter(|_| name.form == NameForm::Array) else { return Ok(false) };
        Ok(self.known.types().facts(of)?.form != Form::Character)
    }

    /// Blocks and bytes, with all that is below, and those of which a condition holds to which the path leads.
    fn held(&self, path: &str, patterns: &[u32]) -> [(u64, u64); 2] {
        let (mut held, mut waiting, mut below) = ((0, 0), patterns.to_vec(), HashSet::new());
        while let Some(each) = waiting.pop() {
            let pattern = self.pattern(each);
            held = (held.0 + pattern.blocks, held.1 + pattern.bytes);
            waiting.extend(&pattern.below);
            if !self.matching.sums.is_empty() {
                below.insert(each);
            }
        }
        [held, self.matching.at(path, &below)]
    }

    /// A row of these patterns, whose elements have the name of the first.
    fn row(
        &self,
        path: String,
        of: Rc<str>,
        form: RowForm,
        containers: u64,
        elements: Elements,
        patterns: &[u32],
        first: u32,
    ) -> Result<Row> {
        let [(held_blocks, held_bytes), (matching_blocks, matching_bytes)] = self.held(&path, patterns);
        let largest = patterns.iter().rev().map(|each| self.pattern(*each)).max_by_key(|each| each.largest);
        let certain = patterns.iter().all(|each| self.pattern(*each).is_certain());
        let sample = largest.map_or(0, |largest| self.known.memory.start(largest.sample));
        let element = self.known.structure(self.pattern(first).name)?;
        let links = BTreeSet::new();
        Ok(Row {
            path,
            of,
            form,
            links,
            containers,
            elements,
            held_blocks,
            held_bytes,
            matching_blocks,
            matching_bytes,
            sample,
            certain,
            element,
        })
    }

    /// The members by which structs of these patterns lead to their own kind.
    fn links(&self, patterns: &[u32]) -> BTreeSet<Rc<str>> {
        let edges = patterns.iter().flat_map(|each| &self.pattern(*each).again);
        let text = |edge: &u32| self.patterns.edges[*edge as usize].text.clone();
        edges.map(|(edge, _)| text(edge)).map(|text| text.strip_prefix('.').map(Rc::from).unwrap_or(text)).collect()
    }

    // containers of libraries

    fn of_libraries(&mut self, above: u32) -> Result<()> {
        let mut of: Vec<(Rc<str>, u32)> = Vec::new();
        for each in &self.pattern(above).below {
            if let Some(step) = &self.edge(*each).container {
                of.push((step.clone(), *each));
            }
        }
        of.sort_by(|one, other| one.0.cmp(&other.0));
        while let Some((step, _)) = of.first().cloned() {
            let end = of.partition_point(|(each, _)| *each <= step);
            let every: Vec<u32> = of.drain(..end).map(|(_, each)| each).collect();
            let (elements, parts): (Vec<u32>, Vec<u32>) = every.iter().partition(|each| self.edge(**each).is_element);
            let Some(first) = elements.first().copied() else { continue };
            let number = elements.iter().map(|each| self.pattern(*each).elements).sum();
            let largest = elements.iter().map(|each| self.pattern(*each).largest).max().unwrap_or(0);
            let tables: Vec<u32> = parts.into_iter().filter(|each| self.edge(*each).text.ends_with(BUCKETS)).collect();
            let mut counted = Elements { number, largest, ..Elements::default() };
            let mut form = RowForm::Container;
            if !tables.is_empty() {
                form = RowForm::HashTable;
                (counted.buckets, counted.longest_chain) = self.hashed(&tables, &elements)?;
            }
            let pattern = self.pattern(above);
            let path = format!("{}{}", pattern.text, self.known.step(pattern, &step, None)?);
            let containers = elements.iter().map(|each| self.pattern(*each).begun).sum();
            let of = self.container_type(above, &step, first)?;
            let row = self.row(path, of, form, containers, counted, &every, first)?;
            push(&mut self.found, row)?;
        }
        Ok(())
    }

    /// As it is declared; where it lies in another container, by what it has.
    fn container_type(&self, above: u32, step: &str, element: u32) -> Result<Rc<str>> {
        let (above, element) = (self.pattern(above), self.pattern(element));
        let (of, inner) = match self.known.names.get(above.name as usize) {
            Some(name) => (name.of, step.strip_prefix("[]").unwrap_or(step)),
            None => (self.known.start(self.known.named.parent[element.sample as usize]).map(|start| start.of), step),
        };
        if let Some(of) = of {
            if let Some(each) = self.known.layouts.of(of)?.containers.iter().find(|each| &*each.step == inner) {
                return Ok(each.name.clone());
            }
        }
        let name = &self.known.names[element.name as usize].text;
        let name = name.strip_suffix(" node").unwrap_or(name);
        Ok(name.strip_suffix(" body").unwrap_or(name).into())
    }

    /// How many buckets tables have, and their longest chain. The nodes are one chain, of which each bucket leads to
    /// the node before its first one.
    fn hashed(&self, tables: &[u32], elements: &[u32]) -> Result<(Option<u64>, Option<u64>)> {
        let (named, of) = (self.known.named, &self.patterns.of);
        let buckets: Vec<u32> = tables.iter().flat_map(|each| &self.blocks[each]).copied().collect();
        let size = buckets.iter().map(|each| u64::from(named.elements[*each as usize])).sum();
        if buckets.len() > FEW {
            return Ok((Some(size), None));
        }
        let owner = |block: usize, behind: &str| {
            let step = &*self.known.steps[named.step[block] as usize];
            (named.parent[block], step.strip_suffix(behind).unwrap_or(step))
        };
        // by table which nodes of its chain are the first of their bucket, and how many it has
        let mut chains: HashMap<(i32, &str), BTreeSet<u64>> = HashMap::new();
        for table in buckets {
            let begins = chains.entry(owner(table as usize, BUCKETS)).or_default();
            begins.clear();
            begins.insert(0);
            self.known.words(table, |word| {
                let before = self.known.memory.at(word).map(|block| block as usize);
                if let Some(before) = before.filter(|before| word != 0 && elements.contains(&of[*before])) {
                    begins.insert(u64::from(named.number[before]) + 1);
                }
                Ok(())
            })?;
        }
        let mut ends: HashMap<(i32, &str), u64> = HashMap::new();
        let mut pace = Pace::new(self.control);
        for (block, number) in of.iter().enumerate() {
            pace.step()?;
            if elements.contains(number) && chains.contains_key(&owner(block, ELEMENT)) {
                let end = ends.entry(owner(block, ELEMENT)).or_default();
                *end = (*end).max(u64::from(named.number[block]) + 1);
            }
        }
        let mut longest = 0;
        for (owner, mut begins) in chains {
            begins.insert(ends.get(&owner).copied().unwrap_or(0));
            let behind = begins.iter().skip(1);
            longest = begins.iter().zip(behind).map(|(before, after)| after - before).fold(longest, u64::max);
        }
        Ok((Some(size), Some(longest)))
    }

    // arrays, and what links its own kind

    fn array(&mut self, number: u32, chained: Option<u32>) -> Result<()> {
        let pattern = self.pattern(number);
        let name = &self.known.names[pattern.name as usize];
        let (path, text, containers) = (pattern.text.clone(), name.text.clone(), pattern.blocks);
        let mut counted = Elements { number: pattern.elements, largest: pattern.largest, ..Elements::default() };
        let (mut form, mut links) = (RowForm::Array, BTreeSet::new());
        let is_of_pointers = match name.of {
            Some(of) => self.known.types().facts(of)?.form == Form::Pointer,
            None => false,
        };
        if let Some(chained) = chained {
            form = RowForm::ChainedHashTable;
            let (mut tables, mut slots) = (Vec::new(), 0);
            for block in &self.blocks[&number] {
                let mut heads = Vec::new();
                slots += u64::from(self.known.named.elements[*block as usize]);
                self.known.words(*block, |word| push(&mut heads, word))?;
                push(&mut tables, heads)?;
            }
            // a struct that is in a list as well has that one's links, too: chains are the shorter ones
            let mut shortest: Option<(Walk, Rc<str>)> = None;
            for link in self.links_by_use(chained) {
                let walk = self.walk(chained, Some(&link), &tables)?;
                let is_shorter = |best: &Walk| (walk.longest, best.elements) < (best.longest, walk.elements);
                if shortest.as_ref().map_or(true, |(best, _)| is_shorter(best)) {
                    shortest = Some((walk, link));
                }
            }
            let Some((walk, link)) = shortest else { return Ok(()) };
            links = BTreeSet::from([link.strip_prefix('.').map(Rc::from).unwrap_or(link)]);
            counted = Elements { number: walk.elements, largest: walk.largest, ..counted };
            (counted.buckets, counted.longest_chain) = (Some(slots), Some(walk.longest));
        } else if is_of_pointers {
            (counted.number, counted.largest) = (0, 0);
            for block in &self.blocks[&number] {
                let mut used = 0;
                self.known.words(*block, |word| {
                    used += u64::from(word != 0);
                    Ok(())
                })?;
                (counted.number, counted.largest) = (counted.number + used, counted.largest.max(used));
            }
        }
        let row = self.row(path, text, form, containers, counted, &[number], number)?;
        push(&mut self.found, Row { links, ..row })
    }

    /// What an array's pointers lead to, where it chains.
    fn chained_below(&mut self, number: u32) -> Result<Option<u32>> {
        let chains = |each: &&u32| {
            let pattern = self.pattern(**each);
            &*self.edge(**each).text == "[]" && !pattern.again.is_empty() && !pattern.forks
        };
        let mut below = self.pattern(number).below.iter().filter(chains);
        let (Some(only), None) = (below.next().copied(), below.next()) else { return Ok(None) };
        // an index of what is in a list as well has no chains of its own
        let (mut heads, seen) = (Vec::new(), &mut self.seen);
        for block in &self.blocks[&number] {
            self.known.words(*block, |word| match self.known.memory.at(word).filter(|_| word != 0) {
                Some(head) => mark(seen, head, &mut heads).map(|_| ()),
                None => Ok(()),
            })?;
        }
        let holder = |block: &u32| usize::try_from(self.known.named.parent[*block as usize]).ok();
        let is_link = |block: &u32| holder(block).is_some_and(|holder| self.patterns.of[holder] == only);
        let is_head = |block: &&u32| seen.has(**block as usize);
        let is_index = self.blocks[&only].iter().filter(is_head).any(is_link);
        unmark(&mut self.seen, &heads);
        Ok((!is_index).then_some(only))
    }

    /// Lists and trees.
    fn linked(&mut self, above: u32, chained: Option<u32>) -> Result<()> {
        let is_linked = |each: &u32| chained != Some(*each) && self.edge(*each).container.is_none();
        let mut of: Vec<u32> = self.pattern(above).below.iter().copied().filter(is_linked).collect();
        of.sort_by_key(|each| self.pattern(*each).name);
        while let Some(name) = of.first().map(|each| self.pattern(*each).name) {
            let end = of.partition_point(|each| self.pattern(*each).name <= name);
            let mut left: Vec<u32> = of.drain(..end).collect();
            while !left.iter().all(|each| self.pattern(*each).again.is_empty()) {
                left = self.linked_by_one(above, left)?;
            }
        }
        Ok(())
    }

    /// The list or the tree to which most of these patterns' blocks belong; what is left of them.
    fn linked_by_one(&mut self, above: u32, every: Vec<u32>) -> Result<Vec<u32>> {
        // patterns of many lists of one type are gone through once for each
        self.control.advance(0)?;
        let main = every.iter().rev().copied().max_by_key(|each| self.pattern(*each).blocks).unwrap_or(0);
        let mut links = self.links_by_use(main);
        for link in every.iter().flat_map(|each| self.links_by_use(*each)) {
            if !links.contains(&link) {
                push(&mut links, link)?;
            }
        }
        let forks = every.iter().any(|each| self.pattern(*each).forks) && !self.leads_back(main, &links)?;
        let (mut own, mut others, mut walks) = (every, Vec::new(), Vec::new());
        if !forks {
            let mut heads = Vec::new();
            for block in self.blocks.get(&main).into_iter().flatten() {
                let holder = usize::try_from(self.known.named.parent[*block as usize]).ok();
                if holder.map_or(true, |holder| self.patterns.of[holder] != main) {
                    push(&mut heads, self.known.memory.start(*block))?;
                }
            }
            // from a node in the middle there are two ways
            let ways = if self.pattern(main).forks { links.len() } else { 1 };
            for link in links.iter().map(Some).chain([None]).take(ways) {
                push(&mut walks, self.walk(main, link, std::slice::from_ref(&heads))?)?;
            }
            // a list may be reached by its first and its last node
            let nodes = walks.iter().flat_map(|walk| &walk.met);
            let met: BTreeSet<u32> = nodes.map(|block| self.patterns.of[*block as usize]).collect();
            let text = |each: u32| &*self.edge(each).text;
            let ends: BTreeSet<&str> = links.iter().map(|link| split_member(link).1).collect();
            let head = split_member(text(main)).0;
            let is_end = |each: u32| {
                let (before, member) = split_member(text(each));
                before == head && [member, split_member(text(main)).1].iter().all(|member| ends.contains(member))
            };
            (own, others) = own.into_iter().partition(|each| *each == main || met.contains(each) || is_end(*each));
        }
        let number = own.iter().map(|each| self.pattern(*each).blocks).sum();
        let mut counted = Elements { number, ..Elements::default() };
        let pattern = self.pattern(main);
        for walk in &walks {
            counted.number = counted.number.max(walk.elements);
            counted.largest = counted.largest.max(walk.longest);
        }
        if walks.len() != 1 {
            counted.largest = if pattern.begun == 1 { counted.number } else { counted.largest.max(pattern.largest) };
        }
        let (path, begun) = (pattern.text.clone(), pattern.begun);
        let text = self.known.names[pattern.name as usize].text.clone();
        let form = if forks { RowForm::Tree } else { RowForm::List };
        let row = self.row(path, text, form, begun, counted, &own, main)?;
        let row = Row { links: self.links(&own), ..row };
        let row = if self.pattern(above).name == NONE { in_variable(row) } else { row };
        push(&mut self.found, row)?;
        Ok(others)
    }

    /// Whether structs of one pattern have two links, and what one leads to has the other one back: a list, not a tree.
    fn leads_back(&self, number: u32, links: &[Rc<str>]) -> Result<bool> {
        let [one, other] = links else { return Ok(false) };
        let (Some(first), Some(second)) = (self.link(number, one)?, self.link(number, other)?) else {
            return Ok(false);
        };
        // a tree's node may lead to one below it and to the one above
        let Some(of) = self.known.names[self.pattern(number).name as usize].of else { return Ok(false) };
        let layout = self.known.layouts.of(of)?;
        let target = layout.slots.iter().find(|slot| slot.offset == first).map(|slot| slot.target);
        let beside = |slot: &&Slot| Some(slot.target) == target && split_member(&slot.step).0 == split_member(one).0;
        if layout.slots.iter().filter(beside).count() > 2 {
            return Ok(false);
        }
        let memory = self.known.memory;
        let mut right = 0;
        for block in self.blocks.get(&number).into_iter().flatten().take(FEW_NODES) {
            let start = memory.start(*block);
            for (there, back) in [(first, second), (second, first)] {
                let value = memory.word(start.wrapping_add(there)).unwrap_or(0);
                let Some((next, _)) = memory.before(value) else { continue };
                if self.patterns.of[next as usize] != number || next == *block {
                    continue;
                }
                // the link may lead to the member that has the next link
                let value = memory.word(memory.start(next).wrapping_add(back)).unwrap_or(0);
                if memory.before(value).map(|(block, _)| block) != Some(*block) {
                    return Ok(false);
                }
                right += 1;
            }
        }
        Ok(right > 0)
    }

    /// Where structs of one pattern have that member, if it is a pointer of their own.
    fn link(&self, number: u32, link: &Rc<str>) -> Result<Option<u64>> {
        let name = self.pattern(number).name;
        let Some(of) = self.known.names[name as usize].of else { return Ok(None) };
        let layout = self.known.layouts.of(of)?;
        let found = layout.slots.iter().find(|slot| slot.step == *link).map(|slot| slot.offset);
        Ok(found)
    }

    /// The members by which structs of one pattern lead to each other, the one that most do by first.
    fn links_by_use(&self, number: u32) -> Vec<Rc<str>> {
        let mut again: Vec<_> = self.pattern(number).again.iter().collect();
        again.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        again.into_iter().map(|(edge, _)| self.patterns.edges[*edge as usize].text.clone()).collect()
    }

    /// Follows a member by which structs of one pattern chain, from the heads that each container has.
    fn walk(&mut self, number: u32, link: Option<&Rc<str>>, containers: &[Vec<u64>]) -> Result<Walk> {
        // none: it is none of the struct's own pointers
        let offset = match link {
            Some(link) => self.link(number, link)?,
            None => None,
        };
        let (name, known) = (self.pattern(number).name, &self.known);
        let mut walk = Walk::default();
        let (seen, mut met, mut pace) = (&mut self.seen, Vec::new(), Pace::new(self.control));
        for heads in containers {
            let begun = walk.elements;
            for head in heads {
                let (mut value, mut length) = (*head, 0);
                while value != 0 {
                    pace.step()?;
                    // the link may lead to the member that has the next link
                    let Some((block, _)) = known.memory.before(value) else { break };
                    let own = known.name(block as usize);
                    let is_within = value <= known.memory.blocks.ends[block as usize];
                    if !is_within
                        || own == NONE
                        || self.patterns.same[own as usize] != name
                        || !mark(seen, block, &mut met)?
                    {
                        break;
                    }
                    length += 1;
                    let Some(offset) = offset else { break };
                    value = known.memory.word(known.memory.start(block).wrapping_add(offset)).unwrap_or(0);
                }
                walk.elements += length;
                walk.longest = walk.longest.max(length);
            }
            walk.largest = walk.largest.max(walk.elements - begun);
        }
        unmark(seen, &met);
        Ok(Walk { met, ..walk })
    }
}

/// What was counted.
#[derive(Default)]
struct Walk {
    elements: u64,
    longest: u64,
    largest: u64,
    /// The blocks.
    met: Vec<u32>,
}

/// A step's last member, and what is in front of it.
fn split_member(step: &str) -> (&str, &str) {
    step.rsplit_once('.').unwrap_or((step, ""))
}

/// Whether a block was not marked before.
fn mark(seen: &mut Bits, block: u32, marked: &mut Vec<u32>) -> Result<bool> {
    let is_new = seen.add(block as usize);
    if is_new {
        push(marked, block)?;
    }
    Ok(is_new)
}

fn unmark(seen: &mut Bits, marked: &[u32]) {
    marked.iter().for_each(|block| seen.remove(*block as usize));
}

/// An array of lists that is a variable, or lies in one, is a hash table.
fn in_variable(row: Row) -> Row {
    let path = row.path.rsplit_once("[]").map(|(path, _)| path.to_owned());
    let Some(path) = path.filter(|path| row.form == RowForm::List && !path.contains('[')) else { return row };
    let Elements { number, largest, .. } = row.elements;
    let elements = Elements { number, largest: number, buckets: None, longest_chain: Some(largest) };
    Row { path, form: RowForm::ChainedHashTable, containers: 1, elements, ..row }
}
