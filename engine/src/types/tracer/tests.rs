//! What blocks are by types that were declared: in heaps built in memory, where it is known what each block is.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::claims::Strength;
use super::containers::forms::{between, one_way, Buckets, Container, Library, Node, NodesForm, OfBody, OfNodes};
use super::containers::LIBRARIES;
use super::layouts::{Layouts, TypeTable};
use super::memory::tests::{Heap, DATA, GARBAGE, WORD};
use super::memory::Memory;
use super::names::{BlockName, NameForm, CONTESTED, NONE};
use super::objects::Objects;
use super::rows::{rows, Elements, Known, Row, RowForm};
use super::rules::{ConditionRow, RuleRow, Rules, CHARACTERS};
use super::trace::{Named, Start, Tracer};
use super::values::{
    matching, values, ways_to, Asked, Comparison, Condition, Key, Measured, Member, MemberForm, Operand, Question,
    Step, Tally, Use, Uses, Value, Ways, MATCHES, NO_OBJECT, OTHER, UNKNOWN,
};
use super::waste::{waste, Reason, Waste};
use crate::failure::{Control, Failure, Result};
use crate::image::Span;
use crate::types::facts::{Argument, Facts, Field, Form, Language, TypeId, TypeSource};

/// Types that a test declares by hand, as debug information would tell them.
#[derive(Clone, Default)]
pub(super) struct Declared {
    all: Rc<RefCell<Vec<Rc<Facts>>>>,
    beside: Rc<RefCell<Vec<TypeId>>>,
    asked: Rc<RefCell<u32>>,
    /// The classes of methods, by where these begin.
    pub(super) methods: Rc<RefCell<HashMap<u64, Vec<TypeId>>>>,
}

impl Declared {
    pub(super) fn add(&self, facts: Facts) -> TypeId {
        self.all.borrow_mut().push(Rc::new(facts));
        self.all.borrow().len() as TypeId - 1
    }

    pub(super) fn number(&self, name: &str, form: Form, size: u64) -> TypeId {
        self.add(Facts::new(name, form, size))
    }

    pub(super) fn structure(&self, name: &str, size: u64, fields: &[(&str, u64, TypeId)]) -> TypeId {
        let made = self.number(name, Form::Struct, size);
        self.set(made, fields);
        made
    }

    pub(super) fn change(&self, of: TypeId, change: impl FnOnce(&mut Facts)) {
        change(Rc::make_mut(&mut self.all.borrow_mut()[of as usize]));
    }

    pub(super) fn set(&self, of: TypeId, fields: &[(&str, u64, TypeId)]) {
        let field = |(name, offset, of): &(&str, u64, TypeId)| Field {
            name: (*name).into(),
            offset: *offset,
            of: *of,
            is_base: false,
        };
        self.change(of, |facts| facts.fields = fields.iter().map(field).collect());
    }

    pub(super) fn to(&self, target: TypeId) -> TypeId {
        self.add(Facts { target: Some(target), ..Facts::new("", Form::Pointer, WORD) })
    }

    pub(super) fn array(&self, target: TypeId, length: Option<u64>) -> TypeId {
        let size = self.all.borrow()[target as usize].size * length.unwrap_or(0);
        self.add(Facts { target: Some(target), length, ..Facts::new("", Form::Array, size) })
    }
}

impl TypeSource for Declared {
    fn facts(&self, of: TypeId) -> Result<Rc<Facts>> {
        self.all.borrow().get(of as usize).cloned().ok_or(Failure::BadInput)
    }

    fn by_name(&self, name: &str) -> Result<Option<TypeId>> {
        let all = self.all.borrow();
        let mut found = (0..).zip(all.iter()).filter(|(_, facts)| &*facts.name == name).map(|(of, _)| of);
        Ok(found.next().filter(|_| found.next().is_none()))
    }

    fn classes_at(&self, code: u64) -> Result<Vec<TypeId>> {
        Ok(self.methods.borrow().get(&code).cloned().unwrap_or_default())
    }

    fn pointer_to(&self, of: TypeId) -> Result<TypeId> {
        Ok(self.to(of))
    }

    fn structs(&self, _: bool) -> Result<Vec<(TypeId, u64)>> {
        *self.asked.borrow_mut() += 1;
        let all = self.all.borrow();
        let structs = (0..).zip(all.iter()).filter(|(_, facts)| facts.form == Form::Struct);
        Ok(structs.map(|(of, facts)| (of, facts.size)).collect())
    }

    fn structs_of_source_file(&self, _: u64, least: u64, most: u64) -> Result<Vec<TypeId>> {
        let size = |of: &TypeId| self.all.borrow()[*of as usize].size;
        Ok(self.beside.borrow().iter().copied().filter(|of| (least..=most).contains(&size(of))).collect())
    }
}

/// A heap, variables, and types.
pub(super) struct Program {
    pub types: Declared,
    pub heap: Heap,
    starts: Vec<Start>,
    end: u64,
    libraries: &'static [Library],
    rules: Vec<(RuleRow, &'static str)>,
    conditions: Vec<ConditionRow>,
    pub char: TypeId,
    pub int: TypeId,
    pub long: TypeId,
}

const MODULE: u64 = 0x7f00_0000_0000;

/// What blocks are, by where they begin.
struct Found {
    names: Vec<BlockName>,
    steps: Vec<Rc<str>>,
    starts: Vec<u64>,
    named: Named,
    contradicted: Vec<u64>,
    damaged: u64,
}

impl Program {
    pub fn new() -> Program {
        let types = Declared::default();
        let char = types.number("char", Form::Character, 1);
        let int = types.number("int", Form::Integer, 4);
        let long = types.number("long", Form::Integer, 8);
        Program {
            types,
            heap: Heap::default(),
            starts: Vec::new(),
            end: DATA,
            libraries: &[],
            rules: Vec::new(),
            conditions: Vec::new(),
            char,
            int,
            long,
        }
    }

    fn with_types() -> (Program, Declared) {
        let program = Program::new();
        let types = program.types.clone();
        (program, types)
    }

    /// A variable with these words.
    fn variable(&mut self, name: &str, of: TypeId, words: &[u64]) {
        self.heap.put(self.end, words);
        self.starts.push(Start { place: Some(self.end), ..Start::new(name, of) });
        self.end += words.len() as u64 * WORD;
    }

    pub fn malloc(&mut self, size: u64, words: &[u64]) -> u64 {
        let block = self.heap.malloc(size);
        self.heap.put(block, words);
        block
    }

    /// Has each lead to the next one by its first word.
    fn chain(&mut self, nodes: &[u64]) {
        for pair in nodes.windows(2) {
            self.heap.put(pair[0], &[pair[1]]);
        }
    }

    fn look<R>(&self, look: impl FnOnce(&Memory, &mut Tracer) -> R) -> R {
        let rows: Vec<RuleRow> = self.rules.iter().map(|(row, _)| *row).collect();
        let members: Vec<Rc<str>> = self.rules.iter().map(|(_, member)| (*member).into()).collect();
        let rules = Rules::new(&rows, &members, &self.conditions).unwrap();
        let ruled = rules.members().map(Box::from).collect::<HashSet<Box<str>>>();
        let types = Rc::new(TypeTable::new(Rc::new(self.types.clone()), WORD));
        let layouts = Rc::new(Layouts::new(types, self.libraries, ruled));
        let modules = [Span { start: MODULE, end: MODULE + 4096 }];
        let control = Control::default();
        self.heap.look(|memory| {
            let mut tracer = Tracer::new(memory, layouts, &modules, Rc::new(rules), &control).unwrap();
            tracer.trace(&self.starts).unwrap();
            assert!(!tracer.named.name.contains(&CONTESTED));
            look(memory, &mut tracer)
        })
    }

    fn trace(&self) -> Found {
        self.look(|memory, tracer| Found {
            contradicted: tracer.contradicted().unwrap(),
            named: std::mem::take(&mut tracer.named),
            names: tracer.objects.names.names.clone(),
            steps: tracer.objects.names.steps.all.clone(),
            starts: memory.blocks.starts.clone(),
            damaged: tracer.objects.damaged.values().sum(),
        })
    }

    /// What is not needed.
    fn waste(&self) -> Vec<Waste> {
        self.known(|known, objects, _| waste(known, objects, None, &Control::default()).unwrap())
    }

    /// What is found of the blocks' objects, by names.
    fn known<R>(&self, ask: impl FnOnce(&Known, &mut Objects, &dyn Fn(&str) -> u32) -> R) -> R {
        self.look(|memory, tracer| {
            let (layouts, names) = (tracer.objects.layouts.clone(), tracer.objects.names.names.clone());
            let (steps, starts) = (tracer.objects.names.steps.all.clone(), &self.starts);
            let named = std::mem::take(&mut tracer.named);
            let known = Known { memory, layouts: &layouts, named: &named, names: &names, steps: &steps, starts };
            let number = |text: &str| names.iter().position(|name| &*name.text == text).expect("a name") as u32;
            ask(&known, &mut tracer.objects, &number)
        })
    }

    /// The containers of each way.
    fn rows(&self) -> Vec<Row> {
        self.known(|known, _, _| rows(known, &[], &Ways::default(), &Control::default()).unwrap())
    }
}

impl Found {
    fn block(&self, start: u64) -> usize {
        self.starts.binary_search(&start).expect("a block begins there")
    }

    fn name(&self, start: u64) -> Option<&BlockName> {
        let name = *self.named.name.get(self.block(start))?;
        (name != NONE).then(|| &self.names[name as usize])
    }

    fn level(&self, start: u64) -> u8 {
        self.named.level[self.block(start)]
    }

    fn parent(&self, start: u64) -> i32 {
        self.named.parent[self.block(start)]
    }

    fn number(&self, start: u64) -> u32 {
        self.named.number[self.block(start)]
    }

    /// "" for a block that has none.
    fn text(&self, start: u64) -> &str {
        self.name(start).map_or("", |name| &name.text)
    }

    fn is_certain(&self, start: u64) -> bool {
        let form = self.name(start).map(|name| name.form);
        self.level(start) <= Strength::Rule as u8 && matches!(form, Some(NameForm::Object | NameForm::Array))
    }

    /// What it is for certain.
    fn sure(&self, start: u64) -> &str {
        if self.is_certain(start) {
            self.text(start)
        } else {
            ""
        }
    }

    fn step(&self, start: u64) -> &str {
        &self.steps[self.named.step[self.block(start)] as usize]
    }

    fn elements(&self, start: u64) -> u32 {
        self.named.elements[self.block(start)]
    }
}

/// A struct with a pointer to the next of its kind in front.
fn node(types: &Declared, name: &str, size: u64) -> TypeId {
    let made = types.structure(name, size, &[]);
    types.set(made, &[("next", 0, types.to(made))]);
    made
}

#[test]
fn a_list_is_followed_to_its_end() {
    let mut program = Program::new();
    let node = node(&program.types, "node", 40);
    let other = program.malloc(40, &[]);
    let mut nodes = vec![0];
    for at in 0..100 {
        nodes.push(program.malloc(40, &[nodes[at]]));
    }
    program.variable("first", program.types.to(node), &[nodes[100]]);
    let found = program.trace();
    assert!(nodes[1..].iter().all(|each| found.sure(*each) == "node"));
    assert_eq!((found.text(other), found.step(nodes[100]), found.step(nodes[7])), ("", "", ".next"));
    assert_eq!(found.parent(nodes[100]), -1);
    assert_eq!(found.parent(nodes[7]), found.block(nodes[8]) as i32);
}

#[test]
fn a_chunk_that_is_larger_proves_nothing() {
    for (larger, certain) in [(0, "node"), (16, "")] {
        let mut program = Program::new();
        let node = node(&program.types, "node", 40);
        let block = program.heap.malloc_larger(40, larger);
        program.variable("first", program.types.to(node), &[block]);
        assert_eq!(program.trace().sure(block), certain);
    }
}

#[test]
fn a_pointer_leads_to_the_start_of_a_block() {
    let mut program = Program::new();
    let (node, other) = (node(&program.types, "node", 40), node(&program.types, "other", 24));
    let (whole, small) = (program.malloc(40, &[]), program.malloc(24, &[]));
    program.variable("inside", program.types.to(other), &[whole + 16]);
    program.variable("too large", program.types.to(node), &[small]);
    let found = program.trace();
    assert_eq!((found.text(whole), found.text(small)), ("", ""));
}

#[test]
fn the_strongest_claim_counts_and_what_it_leads_to_is_no_stronger() {
    let (mut program, types) = Program::with_types();
    let (base, inner) = (node(&types, "base", 40), node(&types, "inner", 24));
    let larger = types.structure("larger", 56, &[("base", 0, base), ("inner", 40, types.to(inner))]);
    let last = program.malloc(24, &[]);
    // of what is only known to begin with a base nothing is certain, whoever leads there first
    let block = program.malloc(56, &[0, 0, 0, 0, 0, last]);
    program.variable("weak", types.to(base), &[block]);
    program.variable("exact", types.to(larger), &[block]);
    let found = program.trace();
    assert_eq!((found.sure(block), found.sure(last)), ("larger", "inner"));

    let (mut program, types) = Program::with_types();
    let (base, next) = (node(&types, "base", 40), node(&types, "next", 24));
    types.set(base, &[("next", 0, types.to(next)), ("more", 8, types.to(next))]);
    let last = program.malloc(24, &[]);
    let block = program.malloc(88, &[last]);
    program.variable("weak", types.to(base), &[block]);
    let found = program.trace();
    assert_eq!((found.text(block), found.is_certain(block)), ("base and a tail", false));
    assert_eq!((found.text(last), found.is_certain(last)), ("next", false));
}

#[test]
fn two_claims_that_contradict_each_other_are_none() {
    let (mut program, types) = Program::with_types();
    let (one, other, below) = (node(&types, "one", 40), node(&types, "other", 40), node(&types, "below", 24));
    types.set(one, &[("below", 0, types.to(below))]);
    types.set(other, &[("below", 0, types.to(below))]);
    let last = program.malloc(24, &[]);
    let block = program.malloc(40, &[last]);
    program.variable("first", types.to(one), &[block]);
    program.variable("second", types.to(other), &[block]);
    let found = program.trace();
    assert_eq!((found.text(block), found.text(last)), ("", ""));
}

#[test]
fn what_extends_a_struct_is_no_array_of_it() {
    let (mut program, types) = Program::with_types();
    let base = node(&types, "base", 40);
    let fields = [("base", 0, base), ("a", 40, types.to(base)), ("b", 80, types.to(base))];
    let derived = types.structure("derived", 120, &fields);
    let sure = program.malloc(120, &[]);
    let unsure = program.malloc(120, &[sure]);
    program.variable("first", types.to(base), &[unsure]);
    program.variable("known", types.to(derived), &[sure]);
    let found = program.trace();
    assert_eq!((found.sure(unsure), found.sure(sure)), ("", "derived"));
}

#[test]
fn a_string_behind_a_struct_is_no_element() {
    let (mut program, types) = Program::with_types();
    let entry = node(&types, "entry", 24);
    let block = program.heap.malloc(24 * 3);
    program.heap.put_bytes(block + 24, b"a text that is longer than the entry is");
    program.variable("first", types.to(entry), &[block]);
    let found = program.trace();
    assert!(!found.is_certain(block) && found.text(block) != "entry[]");
}

#[test]
fn elements_with_pointers_that_are_right_prove_an_array() {
    let (mut program, types) = Program::with_types();
    let (inner, entry) = (node(&types, "inner", 40), node(&types, "entry", 24));
    types.set(entry, &[("inner", 0, types.to(inner)), ("n", 8, program.long)]);
    let inners: Vec<u64> = (0..5).map(|_| program.malloc(40, &[])).collect();
    let words: Vec<u64> = inners.iter().flat_map(|inner| [*inner, 7, 0]).collect();
    let block = program.malloc(24 * 5, &words);
    program.variable("table", types.to(entry), &[block]);
    let found = program.trace();
    assert_eq!((found.sure(block), found.elements(block)), ("entry[]", 4));
    assert_eq!((found.sure(inners[3]), found.step(inners[3]), found.number(inners[3])), ("inner", "[].inner", 3));
}

#[test]
fn an_array_is_counted_by_the_number_in_front_of_it_or_beside_the_pointer() {
    let (mut program, types) = Program::with_types();
    let (long, point) = (program.long, types.structure("point", 24, &[("x", 0, program.long)]));
    let holder = types.structure("holder", 16, &[("points", 0, types.to(point)), ("count", 8, long)]);
    let made = program.malloc(8 + 24 * 4, &[4]);
    let counted = program.malloc(24 * 6, &[]);
    let uncounted = program.malloc(24 * 8, &[]);
    program.variable("made", types.to(point), &[made + 8]);
    program.variable("holder", holder, &[counted, 6]);
    program.variable("other", holder, &[uncounted, 5]);
    let found = program.trace();
    assert_eq!((found.sure(made), found.elements(made), found.name(made).unwrap().front), ("point[]", 4, 8));
    assert_eq!((found.sure(counted), found.elements(counted)), ("point[]", 6));
    assert_eq!(found.sure(uncounted), "");
}

#[test]
fn a_word_that_leads_nowhere_contradicts_a_type() {
    for (word, certain) in [(GARBAGE, ""), (0, "node"), (1, "node")] {
        let mut program = Program::new();
        let node = node(&program.types, "node", 40);
        let block = program.malloc(40, &[word]);
        program.variable("first", program.types.to(node), &[block]);
        assert_eq!(program.trace().sure(block), certain);
    }
}

fn vectors(types: &Rc<TypeTable>, _: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let Some(field) = facts.fields.first().filter(|_| &*facts.name == "Vector") else { return Ok(None) };
    let element = types.facts(field.of)?.target.unwrap();
    // start, finish, end
    let own = OfBody::new(types, element, |own, memory, address| {
        let mut words = [0; 3];
        memory.words(address, &mut words).then_some(())?;
        between(memory, words, own.size)
    })?;
    Ok(Some(Container::Body(own)))
}

#[test]
fn a_container_proves_itself_and_stale_words_behind_its_end_never_count() {
    let (mut program, types) = Program::with_types();
    program.libraries = &[vectors];
    let inner = node(&types, "inner", 40);
    let pointer = types.to(inner);
    let vector = types.structure("Vector", 24, &[("start", 0, types.to(pointer)), ("rest", 8, pointer)]);
    let (used, stale) = (program.malloc(40, &[]), program.malloc(40, &[]));
    let body = program.malloc(8 * 6, &[used, used, stale]);
    let other = program.malloc(8 * 6, &[stale]);
    program.variable("right", vector, &[body, body + 16, body + 48]);
    // its capacity is not the block's
    program.variable("wrong", vector, &[other, other + 8, other + 16]);
    let found = program.trace();
    assert_eq!((found.sure(body), found.elements(body), found.step(body)), ("inner *[]", 2, "[#]"));
    assert_eq!((found.sure(used), found.text(stale), found.text(other), found.damaged), ("inner", "", "", 1));
    assert_eq!(found.level(body), Strength::Container as u8);
}

/// A class with a vtable and a member.
fn class(types: &Declared, name: &str, size: u64, member: TypeId) -> TypeId {
    let made = types.structure(name, size, &[("member", 8, member)]);
    types.change(made, |facts| facts.polymorphic = true);
    made
}

#[test]
fn a_vtable_tells_the_type_and_the_start() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 24);
    let shape = class(&types, "Shape", 16, types.to(inner));
    class(&types, "Circle", 40, types.to(inner));
    class(&types, "Both", 56, types.to(inner));
    class(&types, "Small", 16, types.to(inner));
    program.heap.vtables.extend([(MODULE, ("Circle", 0)), (MODULE + 64, ("Both", -16)), (MODULE + 128, ("Small", 0))]);
    let below = program.malloc(24, &[]);
    let circle = program.malloc(40, &[MODULE, below]);
    let both = program.malloc(56, &[7, 0, MODULE + 64]);
    // the dynamic type's size does not fit
    let odd = program.malloc(88, &[MODULE + 128]);
    program.variable("circle", types.to(shape), &[circle]);
    program.variable("second base", types.to(shape), &[both + 16]);
    program.variable("odd", types.to(shape), &[odd]);
    let found = program.trace();
    assert_eq!([circle, both, below].map(|each| found.sure(each)), ["Circle", "Both", "inner"]);
    assert_eq!(found.text(odd), "");
    assert_eq!(found.level(circle), Strength::Vtable as u8);
}

#[test]
fn objects_with_vtables_are_found_though_nothing_leads_to_them() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 24);
    class(&types, "Circle", 40, types.to(inner));
    program.heap.vtables.insert(MODULE, ("Circle", 0));
    let below = program.malloc(24, &[]);
    let circle = program.malloc(40, &[MODULE, below]);
    let found = program.trace();
    assert_eq!((found.sure(circle), found.sure(below), found.step(below)), ("Circle", "inner", ".member"));
}

/// A struct with a union of pointers to these.
fn with_union(types: &Declared, targets: &[TypeId]) -> TypeId {
    let names = ["a", "b", "c"];
    let fields: Vec<_> = names.iter().zip(targets).map(|(name, of)| (*name, 0, types.to(*of))).collect();
    let union = types.number("", Form::Union, 8);
    types.set(union, &fields);
    types.structure("value", 8, &[("as", 0, union)])
}

#[test]
fn a_member_of_a_union_names_a_block_only_where_it_alone_fits() {
    let (mut program, types) = Program::with_types();
    let (one, alike, other) = (node(&types, "one", 40), node(&types, "alike", 40), node(&types, "other", 72));
    let (first, second) = (with_union(&types, &[one, other]), with_union(&types, &[one, alike]));
    let with_text = with_union(&types, &[other, program.char]);
    let (fits, unsure, text) = (program.malloc(40, &[]), program.malloc(40, &[]), program.malloc(24, &[]));
    program.variable("first", first, &[fits]);
    program.variable("second", second, &[unsure]);
    program.variable("third", with_text, &[text]);
    let found = program.trace();
    assert_eq!((found.text(fits), found.is_certain(fits)), ("one of one", false));
    assert_eq!((found.text(unsure), found.text(text)), ("", "char[] of value.as.b"));
}

#[test]
fn a_flexible_array_has_as_many_elements_as_the_block_leaves_or_a_number_counts() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 40);
    let elements = types.array(types.to(inner), None);
    let frame = types.structure("frame", 8, &[("count", 0, program.long), ("items", 8, elements)]);
    let inners: Vec<u64> = (0..6).map(|_| program.malloc(40, &[])).collect();
    let mut words = vec![6];
    words.extend(&inners);
    let counted = program.malloc(8 + 8 * 6, &words);
    words[0] = 40;
    words[3] = GARBAGE;
    let wrong = program.malloc(8 + 8 * 6, &words);
    program.variable("counted", types.to(frame), &[counted]);
    program.variable("wrong", types.to(frame), &[wrong]);
    let found = program.trace();
    assert_eq!((found.sure(counted), found.text(wrong), found.is_certain(wrong)), ("frame", "frame", false));
    assert_eq!((found.sure(inners[5]), found.number(inners[5])), ("inner", 5));
}

#[test]
fn members_outside_of_a_struct_and_values_that_an_enum_lacks_contradict() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 24);
    let outside = types.structure("outside", 40, &[("far", 40, types.to(inner))]);
    let below = program.malloc(24, &[]);
    let block = program.malloc(48, &[0, 0, 0, 0, 0, below]);
    program.variable("block", types.to(outside), &[block]);
    // of two structs without a name each has its own members
    let unnamed = [16, 8].map(|at| types.structure("", 24, &[("inner", at, types.to(inner))]));
    let blocks = [program.malloc(24, &[0, 0, block]), program.malloc(24, &[0, below])];
    program.variable("first", types.to(unnamed[0]), &[blocks[0]]);
    program.variable("second", types.to(unnamed[1]), &[blocks[1]]);
    let kind = types.number("kind", Form::Enum, 4);
    types.change(kind, |facts| facts.enumerators = vec![("A".into(), 1), ("B".into(), 2)]);
    let tagged = types.structure("tagged", 16, &[("kind", 0, kind), ("inner", 8, types.to(inner))]);
    let two = with_union(&types, &[tagged, node(&types, "plain", 24)]);
    let values = [3, 4].map(|kind| program.malloc(16, &[kind, below]));
    program.variable("three", two, &[values[0]]);
    program.variable("four", two, &[values[1]]);
    let found = program.trace();
    assert_eq!(found.sure(below), "inner");
    assert_eq!(found.parent(below), found.block(blocks[1]) as i32);
    assert_eq!((found.text(values[0]), found.text(values[1])), ("one of tagged", "one of plain"));
}

#[test]
fn what_has_no_definition_names_nothing() {
    let (mut program, types) = Program::with_types();
    let opaque = types.structure("opaque", 0, &[]);
    let holder = types.structure("holder", 24, &[("opaque", 8, types.to(opaque))]);
    let below = program.malloc(40, &[]);
    let block = program.malloc(24, &[0, below]);
    program.variable("holder", types.to(holder), &[block]);
    let found = program.trace();
    assert_eq!((found.sure(block), found.sure(below)), ("holder", ""));
    assert_eq!(found.text(below), "void at holder.opaque");
}

#[test]
fn a_class_without_a_name_that_can_be_found_is_what_the_pointer_says() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 24);
    let lambdas = [24, 40].map(|size| class(&types, "main()::{lambda()#1}", size, types.to(inner)));
    program.heap.vtables.insert(MODULE, ("main()::{lambda()#1}", 0));
    let known = program.malloc(40, &[MODULE]);
    let alone = program.malloc(24, &[MODULE]);
    program.variable("known", types.to(lambdas[1]), &[known]);
    let found = program.trace();
    // two share one spelling: nothing tells which the other is
    assert_eq!((found.sure(known), found.sure(alone)), ("main()::{lambda()#1}", ""));
}

/// first, count
struct Chain;

impl NodesForm for Chain {
    fn nodes(&self, node: &Node, memory: &Memory, address: u64, to: &mut Vec<u32>) -> Result<Option<Buckets>> {
        let mut words = [0; 2];
        let is_read = memory.words(address, &mut words);
        let is_proven = is_read && one_way(memory, words[0], node.size, Some(words[1]), to, |_| true)?;
        Ok(is_proven.then(Buckets::default))
    }
}

fn chains(types: &Rc<TypeTable>, _: TypeId, facts: &Facts) -> Result<Option<Container>> {
    let Some(field) = facts.fields.first().filter(|_| &*facts.name == "Chain") else { return Ok(None) };
    let of = types.facts(field.of)?.target.unwrap();
    let node = Node { of, size: types.facts(of)?.size, value: 0, tail: 0 };
    Ok(Some(Container::Nodes(OfNodes::new(node, Box::new(Chain)))))
}

#[test]
fn a_lost_local_is_found_where_its_structure_proves_it() {
    for (count, odd, certain) in [(2, false, "book"), (3, false, ""), (2, true, "")] {
        let (mut program, types) = Program::with_types();
        program.libraries = &[chains];
        let order = node(&types, "order", 40);
        let chain = types.structure("Chain", 16, &[("first", 0, types.to(order)), ("count", 8, program.long)]);
        let book = types.structure("book", 24, &[("orders", 8, chain)]);
        let last = program.malloc(40, &[]);
        let first = program.malloc(40, &[last]);
        let block = program.malloc(24, &[1, first, count]);
        let other = program.malloc(24, &[GARBAGE]);
        let words = vec![other, block, last];
        let start = Start::new("main(): book (place unknown)", types.to(book));
        program.starts.push(Start { frame: Some(0), code: 1, words, ..start });
        if odd {
            // the function's file has another struct that is proven as well
            let alike = types.structure("alike", 24, &[("n", 0, program.long), ("orders", 8, chain)]);
            program.types.beside.borrow_mut().push(alike);
        }
        let found = program.trace();
        assert_eq!((found.sure(block), found.text(other)), (certain, ""));
        let below = if certain.is_empty() { "" } else { "order" };
        assert_eq!((found.sure(first), found.sure(last)), (below, below));
    }
}

#[test]
fn bytes_are_told_by_the_number_that_counts_them() {
    for (count, level) in [(100, Strength::Words), (40, Strength::Field)] {
        let (mut program, types) = Program::with_types();
        let answer = [("data", 0, types.to(program.char)), ("length", 8, program.long)];
        let answer = types.structure("answer", 16, &answer);
        // no text: its bytes have no end
        let data = program.malloc(100, &[u64::MAX; 13]);
        let first = program.malloc(16, &[data, count]);
        program.variable("answer", types.to(answer), &[first]);
        let found = program.trace();
        assert_eq!((found.text(data), found.level(data)), ("char[] of answer.data", level as u8));
    }
}

#[test]
fn a_local_that_may_not_be_set_has_to_be_proven() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 40);
    let table = types.structure("table", 24, &[("first", 0, types.to(inner))]);
    let below = program.malloc(40, &[]);
    let (proven, empty) = (program.malloc(24, &[below]), program.malloc(24, &[]));
    for (label, value) in [("proven", proven), ("empty", empty)] {
        let start = Start::new(label, types.to(table));
        program.starts.push(Start { value: Some(value), frame: Some(1), ..start });
    }
    let found = program.trace();
    assert_eq!((found.sure(proven), found.text(empty)), ("table", ""));
    assert_eq!(found.level(proven), Strength::Local as u8);
}

#[test]
fn iterators_that_lead_to_nodes_contradict_no_container() {
    for is_ahead in [false, true] {
        let (mut program, types) = Program::with_types();
        program.libraries = LIBRARIES;
        let base = types.structure("std::__detail::_List_node_base", 16, &[]);
        types.set(base, &[("_M_next", 0, types.to(base)), ("_M_prev", 8, types.to(base))]);
        let header = types.structure("", 24, &[("_M_next", 0, types.to(base)), ("_M_size", 16, program.long)]);
        let implementation = types.structure("", 24, &[("_M_node", 0, header)]);
        let list = types.structure("std::__cxx11::list<long>", 24, &[("_M_impl", 0, implementation)]);
        types.change(list, |facts| facts.arguments.push(Argument::Type(program.long)));
        let iterator = types.structure("std::_List_iterator<long>", 8, &[("_M_node", 0, types.to(base))]);
        let (place, of_list) = if is_ahead { (0, 8) } else { (24, 0) };
        let book = types.structure("book", 32, &[("last", place, iterator), ("orders", of_list, list)]);
        let (first, last) = (program.malloc(24, &[]), program.malloc(24, &[]));
        let block = program.malloc(32, &[]);
        let ring = block + of_list;
        program.heap.put(first, &[last, ring, 1]);
        program.heap.put(last, &[ring, first, 2]);
        program.heap.put(ring, &[first, last, 2]);
        program.heap.put(block + place, &[last]);
        let start = Start::new("main(): book", types.to(book));
        // so nothing that it leads to is surer than what a local's pointer leads to
        program.starts.push(Start { value: Some(block), frame: Some(0), ..start });
        let found = program.trace();
        let name = "std::__cxx11::list<long> node";
        assert_eq!([block, first, last].map(|each| found.sure(each)), ["book", name, name]);
        assert!([first, last].iter().all(|each| found.parent(*each) == found.block(block) as i32));
    }
}

#[test]
fn what_has_a_list_head_is_told_by_where_that_lies() {
    for language in [Language::C, Language::CPlusPlus] {
        let (mut program, types) = Program::with_types();
        let head = types.structure("head", 16, &[]);
        types.set(head, &[("next", 0, types.to(head)), ("prev", 8, types.to(head))]);
        types.change(head, |facts| facts.language = language);
        types.structure("task", 40, &[("name", 0, types.to(program.char)), ("list", 16, head)]);
        types.structure("large", 88, &[("list", 16, head)]);
        let tasks = [0; 3].map(|_| {
            let name = program.malloc(10, &[]);
            program.malloc(40, &[name])
        });
        let links = tasks.map(|task| task + 16);
        for at in 0..3 {
            let (next, before) = (*links.get(at + 1).unwrap_or(&DATA), if at > 0 { links[at - 1] } else { DATA });
            program.heap.put(links[at], &[next, before]);
        }
        program.variable("list", head, &[links[0], links[2]]);
        let found = program.trace();
        let is_c = language == Language::C;
        assert!(tasks.iter().all(|task| found.text(*task) == if is_c { "task" } else { "" }));
        assert_eq!(found.named.enclosing.len(), if is_c { 3 } else { 0 });
        assert_eq!(*program.types.asked.borrow(), u32::from(is_c));
        assert!(tasks.iter().all(|task| found.is_certain(*task) == is_c));
    }
}

#[test]
fn a_variable_that_is_an_array_of_structs_is_followed_element_by_element() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 40);
    let entry = types.structure("entry", 16, &[("n", 0, program.int), ("inner", 8, types.to(inner))]);
    let inners: Vec<u64> = (0..30).map(|_| program.malloc(40, &[])).collect();
    let words: Vec<u64> = inners.iter().flat_map(|inner| [1, *inner]).collect();
    program.variable("table", types.array(entry, Some(30)), &words);
    let found = program.trace();
    assert!(inners.iter().all(|inner| found.sure(*inner) == "inner" && found.step(*inner) == "[].inner"));
    assert_eq!(found.number(inners[17]), 17);
}

fn rule(target: TypeId) -> RuleRow {
    RuleRow { inside: 0, target, offset: 0, back: 0, is_inside: 0, is_array: 0, and_more: 0 }
}

#[test]
fn rules_tell_what_members_lead_to() {
    let (mut program, types) = Program::with_types();
    let void = types.add(Facts { target: None, ..Facts::new("", Form::Pointer, WORD) });
    let value = types.structure("value", 24, &[("kind", 0, program.int), ("data", 8, void)]);
    let (one, other) = (node(&types, "one", 40), node(&types, "other", 40));
    let list = types.array(value, Some(4));
    let blocks = [0; 4].map(|_| program.malloc(40, &[]));
    program.heap.put(blocks[3], &[GARBAGE]);
    let words: Vec<u64> = [1, 2, 3, 1].iter().zip(blocks).flat_map(|(kind, block)| [*kind, block, 0]).collect();
    program.variable("values", list, &words);
    for (line, (kind, target)) in [(1, one), (2, other), (3, CHARACTERS)].into_iter().enumerate() {
        program.rules.push((RuleRow { offset: 8, ..rule(target) }, "value.data"));
        let (line, size) = (line as u32, 32);
        let condition = ConditionRow { offset: 0, size, value: kind, line, of_target: 0, signed: 1, sign: 0 };
        program.conditions.push(condition);
    }
    let found = program.trace();
    assert_eq!((found.sure(blocks[0]), found.sure(blocks[1])), ("one", "other"));
    assert_eq!((found.text(blocks[2]), found.text(blocks[3])), ("char[] of value.data", "void at value.data"));
    assert_eq!(found.contradicted, [1, 0, 0]);
    assert_eq!(found.level(blocks[0]), Strength::Rule as u8);
}

#[test]
fn rules_tell_which_objects_pointers_lead_into() {
    let (mut program, types) = Program::with_types();
    let link = node(&types, "link", 8);
    let task = types.structure("task", 40, &[("link", 16, link)]);
    let tasks = [0; 2].map(|_| program.malloc(40, &[]));
    program.heap.put(tasks[0] + 16, &[tasks[1] + 16]);
    let odd = program.malloc(72, &[]);
    program.variable("first", types.to(link), &[tasks[0] + 16, odd + 16]);
    program.variable("odd", types.to(link), &[odd + 16]);
    program.rules.push((RuleRow { is_inside: 1, inside: link, offset: 16, ..rule(task) }, ""));
    let found = program.trace();
    assert_eq!((found.sure(tasks[0]), found.sure(tasks[1]), found.text(odd)), ("task", "task", ""));
    assert_eq!(found.contradicted, [1]);
}

#[test]
fn a_call_that_is_stopped_ends() {
    let mut program = Program::new();
    let node = node(&program.types, "node", 40);
    let block = program.malloc(40, &[]);
    program.variable("first", program.types.to(node), &[block]);
    let types = Rc::new(TypeTable::new(Rc::new(program.types.clone()), WORD));
    let layouts = Rc::new(Layouts::new(types, &[], HashSet::new()));
    let control = Control::stopped();
    program.heap.look(|memory| {
        let mut tracer = Tracer::new(memory, layouts, &[], Rc::default(), &control).unwrap();
        assert_eq!(tracer.trace(&program.starts), Err(Failure::Stopped));
    });
}

/// Path, form, links, containers and elements: how many, in the largest one, buckets and the longest chain.
fn shown(row: &Row) -> (&str, RowForm, Vec<&str>, u64, Elements) {
    (&row.path, row.form, row.links.iter().map(|link| &**link).collect(), row.containers, row.elements)
}

fn counted(number: u64, largest: u64) -> Elements {
    Elements { number, largest, ..Elements::default() }
}

#[test]
fn lists_and_trees_are_counted_by_their_links() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let leaf = types.structure("leaf", 24, &[]);
    types.set(leaf, &[("left", 0, types.to(leaf)), ("right", 8, types.to(leaf))]);
    let mut last = 0;
    for _ in 0..5 {
        last = program.malloc(40, &[last]);
    }
    let leaves: Vec<u64> = (0..4).map(|_| program.malloc(24, &[])).collect();
    program.heap.put(leaves[0], &[leaves[1], leaves[2]]);
    program.heap.put(leaves[2], &[0, leaves[3]]);
    program.variable("list", types.to(node), &[last]);
    program.variable("tree", types.to(leaf), &[leaves[0]]);
    let rows = program.rows();
    assert_eq!(shown(&rows[0]), ("list", RowForm::List, vec!["next"], 1, counted(5, 5)));
    assert_eq!(shown(&rows[1]), ("tree", RowForm::Tree, vec!["left", "right"], 1, counted(4, 4)));
    assert_eq!((rows.len(), rows[0].held_blocks, rows[0].held_bytes), (2, 5, 5 * 48));
    assert_eq!((&*rows[0].of, &*rows[0].element, rows[0].certain), ("node", "node", true));
}

#[test]
fn lists_of_one_type_in_one_struct_are_told_apart() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let pool = types.structure("pool", 24, &[("idle", 0, types.to(node)), ("busy", 8, types.to(node))]);
    let lists = [5, 3].map(|length| (0..length).fold(0, |last, _| program.malloc(40, &[last])));
    let block = program.malloc(24, &lists);
    program.variable("pool", types.to(pool), &[block]);
    let rows = program.rows();
    let expected = [("pool->idle", 5), ("pool->busy", 3)];
    assert_eq!(rows.iter().map(|row| (&*row.path, row.elements.number)).collect::<Vec<_>>(), expected);
    assert!(rows.iter().all(|row| (row.containers, row.elements.largest) == (1, row.elements.number)));
}

#[test]
fn the_ends_of_a_list_are_one_list() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let queue = types.structure("queue", 24, &[("first", 0, types.to(node)), ("last", 8, types.to(node))]);
    let last = program.malloc(40, &[]);
    let first = (0..4).fold(last, |next, _| program.malloc(40, &[next]));
    let block = program.malloc(24, &[first, last]);
    program.variable("queue", types.to(queue), &[block]);
    let rows = program.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(shown(&rows[0]), ("queue->first", RowForm::List, vec!["next"], 1, counted(5, 5)));
}

#[test]
fn a_list_with_links_back_is_no_tree() {
    let (mut program, types) = Program::with_types();
    let node = types.structure("node", 40, &[]);
    types.set(node, &[("next", 0, types.to(node)), ("back", 8, types.to(node))]);
    let nodes: Vec<u64> = (0..7).map(|_| program.malloc(40, &[])).collect();
    for pair in nodes.windows(2) {
        program.heap.put(pair[0], &[pair[1]]);
        program.heap.put(pair[1] + 8, &[pair[0]]);
    }
    program.variable("current", types.to(node), &[nodes[3]]);
    let rows = program.rows();
    assert_eq!(shown(&rows[0]), ("current", RowForm::List, vec!["back", "next"], 1, counted(7, 7)));
}

#[test]
fn a_tree_of_which_two_links_are_met_is_no_list() {
    let (mut program, types) = Program::with_types();
    let node = types.structure("node", 40, &[]);
    let fields = [("left", 0, types.to(node)), ("right", 8, types.to(node)), ("parent", 16, types.to(node))];
    types.set(node, &fields);
    let nodes: Vec<u64> = (0..5).map(|_| program.malloc(40, &[])).collect();
    for pair in nodes.windows(2) {
        program.heap.put(pair[0] + 8, &[pair[1]]);
        program.heap.put(pair[1] + 16, &[pair[0]]);
    }
    program.variable("current", types.to(node), &[nodes[2]]);
    let rows = program.rows();
    assert_eq!(shown(&rows[0]), ("current", RowForm::Tree, vec!["parent", "right"], 1, counted(5, 5)));
}

#[test]
fn a_list_of_what_is_larger_than_its_type_is_not_certain() {
    for size in [24, 100] {
        let (mut program, types) = Program::with_types();
        let node = node(&types, "node", 24);
        let only = program.malloc(24, &[]);
        let first = (0..4).fold(0, |next, _| program.malloc(size, &[next]));
        program.variable("list", types.to(node), &[first]);
        program.variable("other", types.to(node), &[only]);
        let found = program.trace();
        let name = if size == 24 { "node" } else { "node and a tail" };
        assert_eq!((found.text(first), found.sure(only)), (name, "node"));
        let rows = program.rows();
        assert_eq!((&*rows[0].path, rows[0].certain), ("list", size == 24));
    }
}

#[test]
fn arrays_that_lead_to_chains_are_hash_tables() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let mut heads = [0; 6];
    for (at, length) in [(1, 4), (3, 1), (4, 2)] {
        for _ in 0..length {
            heads[at] = program.malloc(40, &[heads[at]]);
        }
    }
    let table = program.malloc(6 * 8, &heads);
    let other: Vec<u64> = (0..3).map(|_| program.malloc(40, &[])).collect();
    let index = program.malloc(5 * 8, &[other[0], 0, other[1], other[2], 0]);
    program.variable("table", types.to(types.to(node)), &[table]);
    program.variable("index", types.to(types.to(node)), &[index]);
    let rows = program.rows();
    let chained = Elements { buckets: Some(6), longest_chain: Some(4), ..counted(7, 7) };
    assert_eq!(shown(&rows[0]), ("table", RowForm::ChainedHashTable, vec!["next"], 1, chained));
    assert_eq!(shown(&rows[1]), ("index", RowForm::Array, vec![], 1, counted(3, 3)));
    assert_eq!((rows.len(), rows[0].sample, &*rows[0].element), (2, table, "node"));
}

#[test]
fn an_array_of_lists_in_a_variable_is_a_hash_table() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let lists = types.array(types.to(node), Some(3));
    let second = program.malloc(40, &[]);
    let (first, only) = (program.malloc(40, &[second]), program.malloc(40, &[]));
    program.variable("lists", lists, &[first, 0, only]);
    let rows = program.rows();
    let chained = Elements { longest_chain: Some(2), ..counted(3, 3) };
    assert_eq!(shown(&rows[0]), ("lists", RowForm::ChainedHashTable, vec!["next"], 1, chained));
    assert_eq!(rows.len(), 1);
}

#[test]
fn an_index_of_a_list_has_no_chains() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let nodes: Vec<u64> = (0..4).map(|_| program.malloc(40, &[])).collect();
    program.chain(&nodes);
    let index = program.malloc(4 * 8, &[nodes[3], nodes[1], nodes[2], nodes[0]]);
    program.variable("index", types.to(types.to(node)), &[index]);
    program.variable("list", types.to(node), &[nodes[0]]);
    let rows = program.rows();
    assert!(rows.iter().all(|row| row.form != RowForm::ChainedHashTable), "{rows:?}");
}

fn wasted(row: &Waste) -> (Reason, &str, u64, u64, u64, u64) {
    let sum = &row.sum;
    (row.reason, &row.path, row.total, sum.number, sum.used, sum.room)
}

#[test]
fn room_that_growth_does_not_explain_is_wasted() {
    let (mut program, types) = Program::with_types();
    program.libraries = &[vectors];
    let vector = types.structure("Vector", 24, &[("start", 0, types.to(program.long))]);
    let whole = types.structure("whole", 48, &[("sparse", 0, vector), ("grown", 24, vector)]);
    let mut wholes = Vec::new();
    for number in 0..4 {
        let (sparse, grown) = (program.malloc(800, &[1]), program.malloc(800, &[1]));
        // the last one is empty, the first one full
        let used = [800, 80, 160, 0][number];
        let words = [sparse, sparse + used, sparse + 800, grown, grown + 400, grown + 800];
        wholes.push(program.malloc(48, &words));
    }
    let index = program.malloc(32, &wholes);
    program.variable("index", types.to(types.to(whole)), &[index]);
    let rows = program.waste();
    let expected =
        [(Reason::UnusedRoom, "index[]->sparse", 4, 2, 240, 1600), (Reason::Emptied, "index[]->sparse", 4, 1, 0, 800)];
    assert_eq!(rows.iter().map(wasted).collect::<Vec<_>>(), expected);
    assert!(rows.iter().all(|row| row.certain && row.resident.is_none()));
}

/// A chain of items of which an array has the first 20, and what keeps these apart; and the items. `in_variable`: the
/// array lies in a variable, and has that many places.
fn two_lists(member: &str, is_kept_apart: bool, in_variable: Option<u64>) -> (Program, Vec<u64>) {
    let (mut program, types) = Program::with_types();
    let item = types.structure("item", 40, &[]);
    types.set(item, &[("next", 0, types.to(item)), (member, 8, program.int), ("number", 16, program.long)]);
    let value = |number: u64| if is_kept_apart { u64::from(number >= 20) } else { number % 2 };
    let items: Vec<u64> = (0..200).map(|number| program.malloc(40, &[0, value(number), number, 1])).collect();
    program.chain(&items);
    program.variable("all", types.to(item), &[items[0]]);
    match in_variable {
        Some(places) => program.variable("open", types.array(types.to(item), Some(places)), &items[..20]),
        None => {
            let some = program.malloc(8 * 20, &items[..20]);
            program.variable("open", types.to(types.to(item)), &[some]);
        }
    }
    (program, items)
}

#[test]
fn objects_in_one_list_alone_are_told_where_a_member_keeps_them_apart() {
    for (is_kept_apart, in_variable) in [(true, None), (false, None), (true, Some(30))] {
        let rows = two_lists("closed", is_kept_apart, in_variable).0.waste();
        let unlisted: Vec<_> = rows.iter().filter(|row| row.reason == Reason::Unlisted).collect();
        assert_eq!(unlisted.len(), usize::from(is_kept_apart));
        for row in unlisted {
            let each = row.unlisted.as_ref().unwrap();
            assert_eq!((&*row.path, &*each.other, &*each.member, each.values), ("all", "open", "closed", [0, 1]));
            assert_eq!((row.total, row.sum.number, row.sum.elements, row.sum.room), (200, 180, 20, 180 * 48));
        }
    }
}

fn member(form: MemberForm, offset: u64, size: u64) -> Member {
    Member { form, offset, size, splits: true }
}

#[test]
fn a_member_tells_by_which_paths_objects_are_reached() {
    let (program, _) = two_lists("closed", true, None);
    program.known(|known, objects, number| {
        let uses = Uses::from([(number("item"), Use { offsets: vec![0], ..Use::default() })]);
        let members = vec![member(MemberForm::Signed, 8, 4), member(MemberForm::Unsigned, 16, 8)];
        let question = Question { uses, members, condition: None };
        let found = values(known, objects, &question, &Control::default()).unwrap();
        assert_eq!((found.objects, found.blocks, found.guessed_objects, found.unknown), (200, 200, 0, 0));
        let [closed, counted] = &found.tallies[..] else { panic!("two members") };
        assert_eq!(
            (closed.objects, closed.unreadable, closed.distinct(), counted.distinct()),
            (200, 0, Some(2), Some(200))
        );
        assert_eq!(counted.measured, Measured::Numbers { least: 0, greatest: 199, sum: (0..200).sum() });
        let most = closed.frequent();
        assert_eq!((&most[0].key, most[0].objects, most[0].guessed), (&Key::Number(1), 180, 0));
        let [split] = &found.splits[..] else { panic!("{:?}", found.splits) };
        let told: Vec<_> = split
            .parts
            .iter()
            .map(|part| {
                let paths = part.ways[0].0.iter().map(|path| &*found.paths[*path as usize]).collect::<Vec<_>>();
                (part.key.clone(), part.objects, part.ways[0].1, paths)
            })
            .collect();
        let expected = [(Key::Number(1), 180, 180, vec!["all"]), (Key::Number(0), 20, 20, vec!["all", "open"])];
        assert_eq!((split.member, &told[..]), (0, &expected[..]));
    });
}

#[test]
fn what_matches_is_in_each_container_that_has_it() {
    let (program, items) = two_lists("closed", true, None);
    program.known(|known, objects, number| {
        let control = Control::default();
        let ways = ways_to(known, objects, &HashSet::from([number("item")]), &control).unwrap();
        for (chosen, of_all, of_open) in [(&items[..20], 20, 20), (&items[20..], 180, 0), (&items[10..30], 20, 10)] {
            let is_chosen = |block: usize| chosen.contains(&known.memory.start(block as u32));
            let matching: Vec<u8> = (0..known.named.name.len()).map(|block| u8::from(is_chosen(block))).collect();
            let found = rows(known, &matching, &ways, &control).unwrap();
            let told = |path: &str| {
                let row = found.iter().find(|row| row.path.starts_with(path)).expect("a row");
                (row.matching_blocks, row.matching_bytes)
            };
            assert_eq!((told("all"), told("open")), ((of_all, of_all * 48), (of_open, of_open * 48)));
        }
    });
}

#[test]
fn conditions_hold_or_not_or_are_unknown() {
    let (mut program, types) = Program::with_types();
    let item_type = types.structure("item", 40, &[("next", 0, types.to(program.long)), ("a", 8, program.int)]);
    let text = program.malloc(24, &[u64::from_le_bytes(*b"hello\0\0\0")]);
    let words = [(1, -5i64, text), (2, -5, 0), (3, 7, GARBAGE)];
    let items: Vec<u64> =
        words.iter().map(|(a, b, name)| program.malloc(40, &[0, a | 0xab << 32, *b as u64, *name])).collect();
    for (name, item) in ["one", "two", "three"].iter().zip(items) {
        program.variable(name, types.to(item_type), &[item]);
    }
    let a = Operand::Member(member(MemberForm::Signed, 8, 4));
    let b = Operand::Member(member(MemberForm::Signed, 16, 8));
    let name = Operand::Member(member(MemberForm::Characters, 24, 8));
    let bits = Operand::Member(member(MemberForm::Bits { first: 4, count: 4, signed: false }, 12, 0));
    let number = |number: i128| Operand::Value(Value::Number(number));
    let is = |one: &Operand, sign: Comparison, other: Operand| Step::Compare(one.clone(), sign, other);
    let hello = || Operand::Value(Value::Text(b"hello".to_vec()));
    let flags = [OTHER, UNKNOWN, MATCHES];
    let told = |steps: Vec<Step>| {
        program.known(|known, _, number| {
            let uses = Uses::from([(number("item"), Use { offsets: vec![0], ..Use::default() })]);
            let asked = Asked { uses, condition: Condition::new(steps).unwrap() };
            let (all, sums) = matching(known, &[asked], &Control::default()).unwrap();
            let own: Vec<u8> = all.into_iter().filter(|flag| *flag != NO_OBJECT).collect();
            assert_eq!(sums[0].objects, 3);
            assert_eq!(sums[0].matching, own.iter().filter(|flag| **flag == MATCHES).count() as u64);
            assert_eq!(sums[0].unknown, own.iter().filter(|flag| **flag == UNKNOWN).count() as u64);
            own
        })
    };
    let [no, unknown, yes] = flags;
    assert_eq!(told(vec![is(&a, Comparison::AtLeast, number(2))]), [no, yes, yes]);
    assert_eq!(told(vec![is(&b, Comparison::Less, number(0))]), [yes, yes, no]);
    assert_eq!(told(vec![is(&a, Comparison::Less, b.clone())]), [no, no, yes]);
    assert_eq!(told(vec![is(&bits, Comparison::Equal, number(0xa))]), [yes, yes, yes]);
    assert_eq!(told(vec![is(&name, Comparison::Equal, hello())]), [yes, no, unknown]);
    assert_eq!(told(vec![is(&name, Comparison::Equal, Operand::Value(Value::Null))]), [no, yes, unknown]);
    assert_eq!(told(vec![is(&name, Comparison::Equal, hello()), Step::Not]), [no, yes, unknown]);
    let both = |last: Step| vec![is(&name, Comparison::Equal, hello()), is(&a, Comparison::Equal, number(3)), last];
    assert_eq!(told(both(Step::Or)), [yes, no, yes]);
    assert_eq!(told(both(Step::And)), [no, no, unknown]);
    assert!(Condition::new(vec![Step::And]).is_err() && Condition::new(vec![Step::Not]).is_err());
    assert!(Condition::new(vec![is(&a, Comparison::Equal, number(1)), is(&a, Comparison::Equal, number(2))]).is_err());
}

#[test]
fn of_too_many_values_the_frequent_ones_are_kept() {
    let mut tally = Tally::new(true);
    for number in 0..100_000i128 {
        let value = if number % 3 == 0 { 7 } else { 1000 + 8 * number };
        tally.add(Some(Value::Number(value)), number % 2 == 0).unwrap();
    }
    tally.add(None, false).unwrap();
    tally.end().unwrap();
    assert_eq!((tally.distinct(), tally.objects, tally.unreadable), (None, 100_000, 1));
    let most = &tally.frequent()[0];
    assert_eq!(most.key, Key::Number(7));
    assert!((33_000..=33_334).contains(&most.objects) && most.guessed <= most.objects);
    assert_eq!(
        (tally.apart, tally.measured),
        (1, Measured::Numbers { least: 7, greatest: 800_984, sum: 26_733_032_674 })
    );
}

#[test]
fn what_an_object_is_for_keeps_no_lists_apart_and_from_a_full_array_nothing_has_gone() {
    for member in ["refs", "refcount", "count", "is_server", "do_toggle", "shared", "speed"] {
        let rows = two_lists(member, true, None).0.waste();
        assert!(rows.iter().all(|row| row.reason != Reason::Unlisted), "{member}");
    }
    let rows = two_lists("closed", true, Some(20)).0.waste();
    assert!(rows.iter().all(|row| row.reason != Reason::Unlisted));
}

#[test]
fn equal_contents_are_counted_by_the_way_to_them() {
    let (mut program, types) = Program::with_types();
    let item = types.structure("item", 120, &[("next", 0, types.to(program.long)), ("number", 8, program.long)]);
    let mut items = Vec::new();
    for number in 0..100u64 {
        // three different contents, one of them twice, and one of zeros
        let first = [7, 8, 8, 0][number.min(3) as usize] + if number > 3 { 9 } else { 0 };
        items.push(program.malloc(120, &[0, first, if number == 3 { 0 } else { 5 }]));
    }
    let index = program.malloc(8 * 100, &items);
    program.variable("index", types.to(types.to(item)), &[index]);
    let rows = program.waste();
    let copies: Vec<_> = rows.iter().filter(|row| row.reason == Reason::Duplicates).collect();
    assert_eq!(copies.len(), 1, "{rows:?}");
    let sum = &copies[0].sum;
    assert_eq!((&*copies[0].path, copies[0].total, sum.number, sum.elements), ("index[]", 100, 96, 2));
    assert_eq!((sum.used, sum.room), (2 * 128, 98 * 128));
    let numbers: Vec<u64> = copies[0].frequent.iter().map(|same| same.number).collect();
    assert_eq!(numbers, [96, 2]);
}

#[test]
fn arrays_whose_elements_are_counted_beside_them() {
    let (mut program, types) = Program::with_types();
    let item = types.structure("item", 16, &[("a", 0, program.long), ("b", 8, program.long)]);
    let table = |name: &str, used: &str, room: &str| {
        let made = types.structure(
            name,
            32,
            &[("items", 0, types.to(item)), (used, 8, program.long), (room, 16, program.long)],
        );
        types.change(made, |facts| facts.language = Language::C);
        made
    };
    let tables = [
        table("table", "len", "cap"),
        table("size", "count", "size"),
        // nothing tells that it counts these
        table("other", "flags", "cap"),
        // what is in use has nothing in it: a hash table
        table("hash", "used", "size"),
    ];
    for (number, table) in tables.iter().enumerate() {
        let full: Vec<u64> = (1..=800).map(|word| if number == 3 { word % 4 / 3 } else { word }).collect();
        let items = program.malloc(16 * 400, &full);
        let block = program.malloc(32, &[items, 10, 400]);
        program.variable(["one", "two", "three", "four"][number], types.to(*table), &[block]);
    }
    let rows = program.waste();
    let expected =
        [(Reason::UnusedRoom, "one->items", 1, 1, 160, 6400), (Reason::UnusedRoom, "two->items", 1, 1, 160, 6400)];
    assert_eq!(rows.iter().map(wasted).collect::<Vec<_>>(), expected);
}

#[test]
fn one_that_another_extends_by_no_more_than_the_chunk_has_is_not_certain() {
    let (mut program, types) = Program::with_types();
    let base = node(&types, "base", 16);
    let more = types.structure("more", 24, &[("base", 0, base), ("n", 16, program.long)]);
    let (block, other) = (program.malloc(24, &[]), program.malloc(24, &[]));
    program.variable("base", types.to(base), &[block]);
    program.variable("more", types.to(more), &[other]);
    let found = program.trace();
    assert_eq!((found.text(block), found.is_certain(block), found.sure(other)), ("base and a tail", false, "more"));
}

#[test]
fn ways_into_objects_of_several_types_are_told_apart() {
    let (mut program, types) = Program::with_types();
    let item = types.structure("item", 16, &[("a", 0, program.long), ("b", 8, program.long)]);
    let full: Vec<u64> = (1..=800).collect();
    for (name, member) in [("one", "rows"), ("two", "columns")] {
        let fields = [(member, 0, types.to(item)), ("len", 8, program.long), ("cap", 16, program.long)];
        let table = types.structure(name, 24, &fields);
        types.change(table, |facts| facts.language = Language::C);
        let several = types.structure(&format!("several {name}"), 24 * 40, &[(name, 0, types.array(table, Some(40)))]);
        let items = [0; 2].map(|_| program.malloc(16 * 400, &full));
        let block = program.malloc(24, &[items[0], 10, 400]);
        program.variable(name, types.to(table), &[block]);
        let block = program.malloc(24 * 40, &[items[1], 20, 400]);
        program.variable(&format!("all_{name}"), types.to(several), &[block]);
    }
    let rows = program.waste();
    let mut paths: Vec<&str> = rows.iter().map(|row| &*row.path).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["all_one->one[].rows", "all_two->two[].columns", "one->rows", "two->columns"]);
}

#[test]
fn only_heads_of_lists_are_an_array_of_them() {
    let (mut program, types) = Program::with_types();
    let head = types.structure("head", 16, &[]);
    types.set(head, &[("next", 0, types.to(head)), ("prev", 8, types.to(head))]);
    // what begins with a link, and has pointers behind it
    let rules = [0; 3].map(|_| {
        let more: Vec<u64> = (0..6).map(|_| program.malloc(16, &[])).collect();
        let rule = program.malloc(80, &[]);
        program.heap.put(rule + 32, &more);
        rule
    });
    for (at, rule) in rules.iter().enumerate() {
        let (next, prev) = (*rules.get(at + 1).unwrap_or(&DATA), if at > 0 { rules[at - 1] } else { DATA });
        program.heap.put(*rule, &[next, prev]);
    }
    program.variable("rules", head, &[rules[0], rules[2]]);
    // a list in each, the first ones empty
    let table = program.malloc(16 * 5, &[]);
    for at in 0..5 {
        let place = table + 16 * at;
        let entry = if at < 2 { place } else { program.malloc(16, &[place, place]) };
        program.heap.put(place, &[entry, entry]);
    }
    program.variable("table", types.to(head), &[table]);
    let found = program.trace();
    assert!(rules.iter().all(|rule| !found.is_certain(*rule)), "{}", found.text(rules[0]));
    assert_eq!(found.sure(table), "head[]");
}

#[test]
fn an_element_with_a_pointer_that_leads_nowhere_is_none() {
    let (mut program, types) = Program::with_types();
    let inner = node(&types, "inner", 40);
    let entry = types.structure("entry", 24, &[("key", 0, program.long), ("inner", 8, types.to(inner))]);
    let inners: Vec<u64> = (0..10).map(|at| if at == 5 { GARBAGE } else { program.malloc(40, &[]) }).collect();
    let words: Vec<u64> = inners.iter().flat_map(|inner| [1, *inner, 0]).collect();
    let block = program.malloc(240, &words);
    program.variable("entries", types.to(entry), &[block]);
    let found = program.trace();
    assert!(found.name(block).map_or(true, |name| matches!(name.form, NameForm::Tail | NameForm::Field)));
}

#[test]
fn a_count_proves_nothing_of_what_extends_what_is_pointed_to() {
    // as Lua's objects begin: three times the base has room, three are counted, all that follows leads to others
    let (mut program, types) = Program::with_types();
    let base = node(&types, "base", 16);
    let holder = types.structure("holder", 64, &[("base", 0, types.to(base)), ("count", 8, program.int)]);
    let others = program.malloc(200, &[]);
    let block = program.malloc(48, &[others, 0, others, 0, others]);
    let start = program.malloc(64, &[block, 3]);
    program.variable("holder", types.to(holder), &[start]);
    assert_eq!(program.trace().name(block).map(|name| name.form), Some(NameForm::Tail));
}

#[test]
fn of_two_that_begin_with_the_same_members_it_is_the_one_that_has_more() {
    let (mut program, types) = Program::with_types();
    let (base, more) = (types.structure("base", 16, &[]), types.structure("more", 24, &[]));
    let (next, long) = (types.to(base), program.long);
    types.set(base, &[("next", 0, next), ("kind", 8, long)]);
    types.set(more, &[("next", 0, next), ("kind", 8, long), ("number", 16, long)]);
    let block = program.malloc(24, &[]);
    program.variable("base", types.to(base), &[block]);
    program.variable("more", types.to(more), &[block]);
    assert_eq!(program.trace().sure(block), "more");
}

#[test]
fn the_link_back_of_a_list_is_no_array() {
    let (mut program, types) = Program::with_types();
    let element = types.structure("element", 40, &[]);
    let pointer = types.to(element);
    types.set(element, &[("next", 0, pointer), ("back", 8, types.to(pointer))]);
    let (first, head) = (program.malloc(40, &[]), program.malloc(40, &[]));
    program.heap.put(first, &[0, head]);
    program.heap.put(head, &[first]);
    program.variable("first", pointer, &[first]);
    let found = program.trace();
    assert_eq!((found.sure(first), found.text(head)), ("element", "void at element.back"));
}

#[test]
fn buckets_are_proven_by_several_nodes_or_by_a_power_of_two_and_one() {
    for (power, count, certain) in [(0, 4, "node *[]"), (0, 1, ""), (6, 1, "node *[]"), (5, 1, "")] {
        let (mut program, types) = Program::with_types();
        let node = node(&types, "node", 40);
        let powers = types.array(program.char, Some(2));
        let fields = [("rows", 0, types.to(types.to(node))), ("powers", 8, powers)];
        let table = types.structure("table", 40, &fields);
        let mut words = [0; 64];
        for at in 0..count {
            words[3 + 14 * at] = program.malloc(40, &[]);
        }
        let buckets = program.malloc(8 * 64, &words);
        let block = program.malloc(40, &[buckets, power]);
        program.variable("table", types.to(table), &[block]);
        let found = program.trace();
        let node = if certain.is_empty() { "" } else { "node" };
        assert_eq!((found.sure(buckets), found.sure(words[3])), (certain, node));
        assert_eq!(found.text(block), "table");
    }
}

#[test]
fn arrays_in_each_of_several_objects() {
    let (mut program, types) = Program::with_types();
    let node = node(&types, "node", 40);
    let pair = types.structure("pair", 16, &[("key", 0, types.to(program.char)), ("value", 8, types.to(node))]);
    let to = types.array(types.to(node), Some(20));
    let piece = types.structure("piece", 320, &[("to", 0, to), ("pairs", 160, types.array(pair, Some(10)))]);
    let nodes: Vec<u64> = (0..4).map(|_| program.malloc(40, &[])).collect();
    let text = program.malloc(30, &[]);
    let odd = 0x0101_0101_0101_0101;
    let right = program.malloc(320, &[0, 0, nodes[0], nodes[0] + 8]);
    program.heap.put(right + 160 + 16 * 3, &[text, nodes[1]]);
    // this one has more that contradicts its type than what agrees
    let wrong = program.malloc(320, &[nodes[2], odd, odd]);
    program.variable("all", types.array(types.to(piece), Some(2)), &[right, wrong]);
    let found = program.trace();
    assert_eq!((found.sure(right), found.text(wrong), found.text(nodes[2])), ("piece", "", ""));
    assert_eq!((found.sure(nodes[0]), found.step(nodes[0]), found.number(nodes[0])), ("node", ".to[]", 2));
    assert_eq!((found.sure(nodes[1]), found.step(nodes[1])), ("node", ".pairs[].value"));
    assert_eq!((found.text(text), found.step(text), found.number(text)), ("char[] of pair.key", ".pairs[].key", 3));
}

#[test]
fn a_flexible_array_without_elements_is_as_sure_as_any_struct() {
    let (mut program, types) = Program::with_types();
    let entry = node(&types, "entry", 40);
    let void = types.add(Facts::new("", Form::Pointer, WORD));
    types.set(entry, &[("next", 32, types.to(entry)), ("rest", 40, types.array(void, None))]);
    let next = program.malloc(40, &[]);
    let block = program.malloc(40, &[0, 0, 0, 0, next]);
    program.variable("entry", types.to(entry), &[block]);
    let found = program.trace();
    assert_eq!((found.sure(block), found.sure(next)), ("entry", "entry"));
}

#[test]
fn members_that_tell_no_type_name_what_they_lead_to() {
    // a string's length lies in front of it; at an even offset may be a member of any struct
    for (header, is_named) in [(0, true), (3, true), (17, true), (8, false), (19, false)] {
        let (mut program, types) = Program::with_types();
        let void = types.add(Facts::new("", Form::Pointer, WORD));
        let holder = types.structure("holder", 40, &[("text", 0, types.to(program.char)), ("any", 8, void)]);
        let (text, any) = (program.malloc(100, &[]), program.malloc(200, &[]));
        let block = program.malloc(40, &[text + header, any + header]);
        program.variable("holder", types.to(holder), &[block]);
        let found = program.trace();
        let names = if is_named { ("char[] of holder.text", "void at holder.any") } else { ("", "") };
        assert_eq!(((found.text(text), found.text(any)), found.is_certain(text)), (names, false));
        assert_eq!(found.sure(block), "holder");
    }
}

#[test]
fn a_struct_with_its_own_text_behind_it_has_a_tail() {
    for (within, form) in [(19, NameForm::Tail), (3, NameForm::Field)] {
        let (mut program, types) = Program::with_types();
        let void = types.add(Facts::new("", Form::Pointer, WORD));
        let value = types.structure("value", 16, &[("count", 0, program.long), ("any", 8, void)]);
        let block = program.malloc(100, &[]);
        program.heap.put(block, &[1, block + within]);
        program.variable("first", types.to(value), &[block]);
        let found = program.trace();
        assert_eq!((found.name(block).map(|name| name.form), found.is_certain(block)), (Some(form), false));
    }
}

#[test]
fn a_struct_may_be_as_long_as_its_text_needs() {
    for (language, text, name) in
        [(Language::C, &b"as long as this"[..], "host"), (Language::C, b"no", ""), (Language::CPlusPlus, b"other", "")]
    {
        let (mut program, types) = Program::with_types();
        let own = types.array(types.number("char", Form::Character, 1), Some(50));
        let host = types.structure("host", 72, &[]);
        types.set(host, &[("next", 0, types.to(host)), ("expires", 8, program.long), ("name", 16, own)]);
        types.change(host, |facts| facts.language = language);
        // the last one has room for a longer text than it has
        let last = program.malloc(if text == b"no" { 56 } else { 16 + text.len() as u64 + 1 }, &[0, 17]);
        program.heap.put_bytes(last + 16, text);
        program.variable("first", types.to(host), &[last]);
        let found = program.trace();
        assert_eq!((found.sure(last), found.is_certain(last)), (name, !name.is_empty()), "{language:?}");
    }
}

#[test]
fn characters_in_a_union_have_to_be_the_only_ones() {
    for (larger, form) in [(0, Some(NameForm::Union)), (16, None)] {
        let (mut program, types) = Program::with_types();
        let node = node(&types, "node", 40);
        let either = with_union(&types, &[program.char, node]);
        let next = program.malloc(40, &[]);
        let block = program.heap.malloc_larger(40, larger);
        program.heap.put(block, &[next]);
        program.variable("either", either, &[block]);
        assert_eq!(program.trace().name(block).map(|name| name.form), form);
    }
}

#[test]
fn a_node_whose_link_is_in_a_union_is_not_proven_by_all_that_follow() {
    let (mut program, types) = Program::with_types();
    let node = types.structure("node", 40, &[]);
    let link = types.number("", Form::Union, 8);
    types.set(link, &[("next", 0, types.to(node)), ("other", 0, types.to(node))]);
    types.set(node, &[("a", 0, link), ("b", 8, link), ("c", 16, link), ("d", 24, link)]);
    let mut nodes = vec![0];
    for at in 0..200 {
        nodes.push(program.malloc(40, &[nodes[at]; 4]));
    }
    program.variable("first", types.to(node), &[nodes[200]]);
    let found = program.trace();
    assert_eq!((found.sure(nodes[200]), found.text(nodes[1])), ("node", "one of node"));
}

#[test]
fn what_holds_itself_ends() {
    let (mut program, types) = Program::with_types();
    let circle = types.structure("circle", 40, &[]);
    types.set(circle, &[("self", 0, circle), ("next", 8, types.to(circle))]);
    let huge = types.structure("huge", 48, &[("all", 0, types.array(circle, Some(1 << 40)))]);
    let blocks = [0; 3].map(|_| program.malloc(40, &[]));
    for at in 0..3 {
        program.heap.put(blocks[at], &[blocks[(at + 1) % 3]; 2]);
    }
    let large = program.malloc(48, &[]);
    program.variable("circle", types.to(circle), &[blocks[0]]);
    program.variable("huge", types.to(huge), &[large]);
    let all = types.array(types.to(circle), Some(1 << 60));
    program.variable("all", all, &[blocks[1]]);
    let found = program.trace();
    assert!(blocks.iter().all(|block| found.sure(*block) == "circle"));
}

#[test]
fn a_lost_local_is_taken_only_where_one_block_and_one_type_fit() {
    #[derive(PartialEq, Clone, Copy, Debug)]
    enum Case {
        Right,
        TwoBlocks,
        TwoVariables,
        Known,
        Odd,
    }
    for case in [Case::Right, Case::TwoBlocks, Case::TwoVariables, Case::Known, Case::Odd] {
        let (mut program, types) = Program::with_types();
        program.libraries = &[chains];
        let order = node(&types, "order", 40);
        let chain = types.structure("Chain", 16, &[("first", 0, types.to(order)), ("count", 8, program.long)]);
        let books = ["book", "twin"].map(|name| types.structure(name, 24, &[("orders", 0, chain)]));
        let blocks = [0; 2].map(|_| {
            let last = program.malloc(40, &[if case == Case::Odd { GARBAGE } else { 0 }]);
            let first = program.malloc(40, &[last]);
            program.malloc(24, &[first, 2])
        });
        let words = if case == Case::TwoBlocks { blocks.to_vec() } else { vec![0, blocks[0]] };
        if case == Case::Known {
            program.variable("known", types.to(books[0]), &[blocks[0]]);
        }
        for book in &books[..if case == Case::TwoVariables { 2 } else { 1 }] {
            let start = Start::new("main(): mine", types.to(*book));
            program.starts.push(Start { frame: Some(2), code: 1, words: words.clone(), ..start });
        }
        let found = program.trace();
        let is_named = matches!(case, Case::Right | Case::Known);
        assert_eq!((case, found.text(blocks[0])), (case, if is_named { "book" } else { "" }));
        if case == Case::Known {
            assert_eq!(found.parent(blocks[0]), -1);
        }
    }
}

/// Numbers that look as if they were by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

/// Types and memory that nobody made: sizes and offsets without sense, types that contain themselves.
fn odd_program(seed: u64) -> Program {
    let mut chance = Chance(seed);
    let (mut program, types) = Program::with_types();
    let names = ["a", "b", "", "std::vector<int, std::allocator<int>>", "alloc::string::String", "std::pair<a, b>"];
    let forms =
        [Form::Struct, Form::Struct, Form::Union, Form::Array, Form::Pointer, Form::Enum, Form::Void, Form::Float];
    let sizes = [0, 1, 8, 16, 24, 40, 64, 1 << 20, 1 << 40, u64::MAX];
    let count = 24;
    for _ in 0..count {
        types.number(chance.of(&names), chance.of(&forms), chance.of(&sizes));
    }
    let all = count as TypeId + program.long + 1;
    for of in program.long + 1..all {
        let mut member = || chance.below(all as u64) as TypeId;
        let (target, fields) = (member(), [member(), member(), member(), member()]);
        let offsets = [0; 4].map(|_| chance.of(&[0, 0, 8, 16, 24, 32, 56, 1 << 33, u64::MAX - 8]));
        let length = chance.of(&[None, Some(0), Some(2), Some(20), Some(1 << 50), Some(u64::MAX)]);
        let (name, is_polymorphic) = (chance.of(&["x", "y", "next", ""]), chance.below(4) == 0);
        types.change(of, |facts| {
            let field = |(offset, of)| Field { name: name.into(), offset, of, is_base: false };
            facts.fields = offsets.into_iter().zip(fields).map(field).collect();
            (facts.target, facts.length, facts.polymorphic) = (Some(target), length, is_polymorphic);
            facts.enumerators = vec![("A".into(), target.into())];
        });
    }
    let blocks: Vec<u64> = (0..60).map(|_| program.malloc(chance.of(&[8, 16, 24, 40, 64, 200, 1000]), &[])).collect();
    let word = |chance: &mut Chance| match chance.below(8) {
        0 => 0,
        1 => chance.of(&blocks) + chance.below(40),
        2 => GARBAGE,
        3 => chance.below(100),
        4 => MODULE + 8 * chance.below(4),
        5 => u64::MAX - chance.below(64),
        _ => chance.of(&blocks),
    };
    for block in &blocks {
        let word = word(&mut chance);
        program.heap.put(*block, &[word]);
    }
    for pair in blocks.windows(2) {
        for place in (pair[0]..pair[1] - 16).step_by(8) {
            let word = word(&mut chance);
            program.heap.put(place, &[word]);
        }
    }
    program.heap.vtables.extend([(MODULE, ("a", 0)), (MODULE + 8, ("b", i64::MIN)), (MODULE + 16, ("a", -8))]);
    for _ in 0..12 {
        let words = [0; 6].map(|_| word(&mut chance));
        program.variable("v", chance.below(all as u64) as TypeId, &words);
    }
    for _ in 0..6 {
        let start = Start::new("local", chance.below(all as u64) as TypeId);
        let (value, words) = (Some(word(&mut chance)).filter(|_| chance.below(2) > 0), vec![word(&mut chance); 2]);
        program.starts.push(Start { value, words, frame: Some(1), code: 1, ..start });
    }
    let of = |chance: &mut Chance| chance.below(all as u64) as TypeId;
    let row = RuleRow { inside: of(&mut chance), is_inside: 1, offset: 8, ..rule(of(&mut chance)) };
    program.rules.push((row, ""));
    for member in ["a.x", "b.y", "x"] {
        let (is_array, and_more) = (chance.below(2) as u32, chance.below(2) as u32);
        let (offset, back) = (chance.of(&sizes), chance.of(&sizes));
        program.rules.push((RuleRow { offset, back, is_array, and_more, ..rule(of(&mut chance)) }, member));
    }
    program.libraries = LIBRARIES;
    program
}

#[test]
fn types_and_memory_without_sense_end() {
    for seed in 0..50 {
        odd_program(seed).trace();
        odd_program(seed).waste();
        odd_program(seed).known(|known, objects, _| {
            let forms = [
                MemberForm::Signed,
                MemberForm::Float,
                MemberForm::Bits { first: 7, count: 64, signed: true },
                MemberForm::Characters,
                MemberForm::Array,
                MemberForm::View { length: u64::MAX, letter: 4 },
            ];
            let offsets = [0, 3, 16, u64::MAX, u64::MAX - 7];
            let of = |form: &MemberForm| offsets.map(|offset| member(*form, offset, (offset ^ 8) & 31));
            let members = forms.iter().flat_map(of).collect();
            let own = Use { offsets: offsets.to_vec(), element: u64::MAX - seed, is_text: seed % 5 == 0 };
            let uses = (0..known.names.len() as u32).map(|name| (name, own.clone())).collect();
            values(known, objects, &Question { uses, members, condition: None }, &Control::default()).unwrap();
        });
    }
}

/// Entries in a variable, each with a number and a pointer to anything, and values to which they may lead.
fn with_entries(program: &mut Program, rows: &[(u64, u64)]) -> (TypeId, TypeId) {
    let types = program.types.clone();
    let void = types.add(Facts::new("", Form::Pointer, WORD));
    let entry = types.structure("entry", 16, &[("kind", 0, program.int), ("any", 8, void)]);
    let leaf = node(&types, "leaf", 72);
    let value = types.structure("value", 40, &[("count", 0, program.int), ("leaf", 8, types.to(leaf))]);
    let words: Vec<u64> = rows.iter().flat_map(|(kind, any)| [*kind, *any]).collect();
    program.variable("all", types.array(entry, Some(rows.len() as u64)), &words);
    (value, leaf)
}

fn condition(line: u32, of_target: u32, sign: u32, value: i64) -> ConditionRow {
    ConditionRow { offset: 0, size: 32, value: value as u64, line, of_target, signed: 1, sign }
}

#[test]
fn a_rule_counts_only_where_its_conditions_hold() {
    let kinds = [1, 2, u64::from(u32::MAX)];
    let cases = [
        (condition(0, 0, 0, 2), [false, true, false]),
        (condition(0, 0, 1, 2), [true, false, true]),
        (condition(0, 0, 2, 0), [false, false, true]),
        (condition(0, 0, 3, 1), [false, true, false]),
        (condition(0, 0, 4, 1), [true, false, true]),
        (condition(0, 0, 5, 1), [true, true, false]),
        (condition(0, 1, 0, 7), [false, true, true]),
        (ConditionRow { offset: 1, size: 2, signed: 0, ..condition(0, 0, 0, 1) }, [false, true, false]),
        (ConditionRow { offset: 1, size: 1, ..condition(0, 0, 0, -1) }, [false, true, true]),
    ];
    for (condition, certain) in cases {
        let mut program = Program::new();
        let blocks = [6, 7, 7].map(|count| program.malloc(40, &[count]));
        let rows: Vec<_> = kinds.into_iter().zip(blocks).collect();
        let (value, _) = with_entries(&mut program, &rows);
        program.rules.push((RuleRow { offset: 8, ..rule(value) }, "entry.any"));
        program.conditions.push(condition);
        let found = program.trace();
        assert_eq!(blocks.map(|block| found.sure(block) == "value"), certain, "{condition:?}");
        // a condition that does not hold contradicts nothing
        assert_eq!(found.contradicted, [0]);
    }
}

#[test]
fn what_rules_say_has_to_fit() {
    let mut program = Program::new();
    let right = program.malloc(40, &[1]);
    let small = program.malloc(24, &[]);
    let stale = program.malloc(40, &[1, GARBAGE]);
    let inside = program.malloc(40, &[]);
    let (value, _) = with_entries(&mut program, &[(0, right), (0, small), (0, stale), (0, inside + 16), (0, 99)]);
    program.rules.push((RuleRow { offset: 8, ..rule(value) }, "entry.any"));
    let found = program.trace();
    assert_eq!((found.sure(right), found.text(inside)), ("value", ""));
    assert_eq!((found.text(small), found.text(stale)), ("void at entry.any", "void at entry.any"));
    assert_eq!(found.contradicted, [3]);
}

#[test]
fn of_two_rules_that_fit_neither_counts() {
    let mut program = Program::new();
    let block = program.malloc(40, &[]);
    let (value, _) = with_entries(&mut program, &[(0, block)]);
    let other = program.types.structure("other", 36, &[("count", 0, program.int)]);
    for target in [value, other] {
        program.rules.push((RuleRow { offset: 8, ..rule(target) }, "entry.any"));
    }
    let found = program.trace();
    assert_eq!((found.text(block), &found.contradicted[..]), ("void at entry.any", &[0, 0][..]));
}

#[test]
fn rules_tell_arrays_members_and_objects_with_more_behind_them() {
    let mut program = Program::new();
    let several = program.malloc(8 * 5, &[]);
    let (within, other) = (program.malloc(72, &[]), program.malloc(40, &[]));
    let (more, alone) = (program.malloc(100, &[]), program.malloc(40, &[]));
    let rows = [(1, several), (2, within + 8), (2, other + 8), (3, more), (3, alone)];
    let (value, leaf) = with_entries(&mut program, &rows);
    let pair = program.types.structure("pair", 8, &[("a", 0, program.int)]);
    let lines = [
        RuleRow { is_array: 1, ..rule(pair) },
        RuleRow { back: 8, ..rule(leaf) },
        RuleRow { and_more: 1, ..rule(value) },
    ];
    for (line, row) in lines.into_iter().enumerate() {
        program.rules.push((RuleRow { offset: 8, ..row }, "entry.any"));
        program.conditions.push(condition(line as u32, 0, 0, line as i64 + 1));
    }
    let found = program.trace();
    assert_eq!((found.sure(several), found.elements(several)), ("pair[]", 5));
    assert_eq!((found.sure(within), found.text(other)), ("leaf", ""));
    assert_eq!((found.text(more), found.is_certain(more), found.sure(alone)), ("value and a tail", false, ""));
    assert_eq!(found.contradicted, [0, 1, 1]);
}

const DONE: u64 = DATA + 0x8000;

/// Requests, each with a header and a target; a variable leads to the first so many.
fn requests(program: &mut Program, held: usize, others: usize) -> Vec<u64> {
    let types = &program.types;
    let header = types.structure("header", 24, &[]);
    types
        .set(header, &[("next", 0, types.to(header)), ("value", 8, types.to(program.char)), ("kind", 16, program.int)]);
    let function = types.to(types.number("", Form::Function, 0));
    let fields = [("headers", 0, types.to(header)), ("target", 8, types.to(program.char)), ("id", 16, program.long)];
    let request = types.structure("request", 40, &[fields[0], fields[1], fields[2], ("done", 24, function)]);
    let array = types.array(types.to(request), Some(held as u64));
    program.heap.symbols.insert(DONE, "done");
    let mut made = Vec::new();
    for id in 0..(held + others) as u64 {
        let (text, target) = (program.malloc(24, &[]), program.malloc(32, &[]));
        program.heap.put_bytes(text, b"agent/1 (like others)");
        program.heap.put_bytes(target, b"/items/1234?page=17&all");
        let header = program.malloc(24, &[0, text, id % 3]);
        made.push(program.malloc(40, &[header, target, id, DONE]));
    }
    program.variable("recent", array, &made[..held]);
    made
}

#[test]
fn what_nothing_leads_to_is_called_as_others_that_hold_the_same() {
    let mut program = Program::new();
    let made = requests(&mut program, 5, 3);
    let found = program.trace();
    for (number, block) in made.into_iter().enumerate() {
        let header = program.look(|memory, _| memory.word(block).unwrap());
        let levels = [block, header].map(|each| found.level(each) == Strength::Alike as u8);
        assert_eq!((found.text(block), found.text(header)), ("request", "header"));
        assert_eq!((found.is_certain(block), levels), (number < 5, [number >= 5; 2]));
    }
}

#[test]
fn what_is_otherwise_than_others_is_not_called_so() {
    // a pointer in place of a number, another function, what is no pointer, nothing, a block that is no header
    for (offset, words) in [
        (16, vec![None]),
        (24, vec![Some(DONE + 16)]),
        (8, vec![Some(GARBAGE)]),
        (0, vec![Some(0); 2]),
        (0, vec![None]),
    ] {
        let mut program = Program::new();
        let made = requests(&mut program, 5, 1);
        let other = program.malloc(200, &[]);
        let words: Vec<u64> = words.into_iter().map(|word| word.unwrap_or(other)).collect();
        program.heap.put(made[5] + offset, &words);
        assert_eq!(program.trace().text(made[5]), "", "{offset}: {words:x?}");
    }
}

#[test]
fn where_two_structs_do_as_well_none_counts() {
    for (size, text) in [(40, ""), (56, "request")] {
        let mut program = Program::new();
        let made = requests(&mut program, 5, 1);
        let text_pointer = program.types.to(program.char);
        let fields = [("one", 0, text_pointer), ("two", 8, text_pointer), ("number", 16, program.long)];
        program.types.structure("reply", size, &fields);
        assert_eq!(program.trace().text(made[5]), text);
    }
}

#[test]
fn few_others_prove_little() {
    for (held, text) in [(0, ""), (1, "request")] {
        let mut program = Program::new();
        let made = requests(&mut program, held, 2);
        assert_eq!(program.trace().text(made[held]), text);
        // with one pointer less
        let mut program = Program::new();
        let made = requests(&mut program, held, 1);
        program.heap.put(made[held] + 8, &[0]);
        assert_eq!(program.trace().text(made[held]), "");
    }
}
