//! Containers as the libraries make them, in heaps built in memory: what they claim, and that damaged ones end and
//! claim nothing wrongly.

use std::collections::HashSet;
use std::rc::Rc;

use super::LIBRARIES;
use crate::types::facts::{Argument, Facts, Field, Form, TypeId};
use crate::types::tracer::claims::Claim;
use crate::types::tracer::layouts::{Layouts, TypeTable};
use crate::types::tracer::memory::tests::{DATA, WORD};
use crate::types::tracer::reading::{contents, nature, Contents, Nature};
use crate::types::tracer::tests::Program;

/// What is claimed: where, the name or the type, how many elements, what lies before them, and which of all it is.
type Claimed = (u64, String, Option<u64>, u64, Option<u64>);

/// A container in a variable.
impl Program {
    /// A class template with types as arguments.
    fn template(&self, name: &str, size: u64, fields: &[(&str, u64, TypeId)], arguments: &[TypeId]) -> TypeId {
        let made = self.types.structure(name, size, fields);
        self.types.change(made, |facts| facts.arguments = arguments.iter().map(|of| Argument::Type(*of)).collect());
        made
    }

    /// A struct in which members of members lie: "a.b" is b in a.
    fn nested(&self, size: u64, members: &[(&str, u64, TypeId)]) -> TypeId {
        let made = self.types.structure("", size, &[]);
        let fields = self.fields(size, members);
        self.types.change(made, |facts| facts.fields = fields);
        made
    }

    fn fields(&self, size: u64, members: &[(&str, u64, TypeId)]) -> Vec<Field> {
        let mut firsts: Vec<&str> = members.iter().map(|(path, ..)| path.split('.').next().unwrap()).collect();
        firsts.dedup();
        let field = |first: &&str| {
            let inner: Vec<(&str, u64, TypeId)> = members
                .iter()
                .filter_map(|(path, offset, of)| Some((path.strip_prefix(first)?.strip_prefix('.')?, *offset, *of)))
                .collect();
            let whole = members.iter().find(|(path, ..)| path == first);
            let (offset, of) = match whole {
                Some((_, offset, of)) => (*offset, *of),
                None => (0, self.nested(size, &inner)),
            };
            Field { name: (*first).into(), offset, of, is_base: false }
        };
        firsts.iter().map(field).collect()
    }

    /// The same as a template.
    fn made(&self, name: &str, size: u64, members: &[(&str, u64, TypeId)], arguments: &[TypeId]) -> TypeId {
        let made = self.template(name, size, &[], arguments);
        let fields = self.fields(size, members);
        self.types.change(made, |facts| facts.fields = fields);
        made
    }

    fn to(&self, of: TypeId) -> TypeId {
        self.types.to(of)
    }

    fn put(&mut self, words: &[u64]) {
        self.heap.put(DATA, words);
    }

    fn layouts(&self) -> Layouts {
        let types = Rc::new(TypeTable::new(Rc::new(self.types.clone()), WORD));
        Layouts::new(types, LIBRARIES, HashSet::new())
    }

    /// What the container of this type claims and how many elements it has; None: it has not proved itself.
    fn ask(&self, layouts: &Layouts, of: TypeId) -> Option<(Vec<Claimed>, u64)> {
        let container = layouts.container(of).unwrap().expect("it is a container");
        self.heap.look(|memory| {
            let mut found = Vec::new();
            let mut take = |claim: &Claim| {
                let name = if claim.name.is_empty() {
                    layouts.types.facts(claim.of)?.name.to_string()
                } else {
                    claim.name.into()
                };
                let name = if claim.inline { format!("{name} inside") } else { name };
                assert!(claim.elements.unwrap_or(1) <= claim.capacity.or(claim.elements).unwrap_or(1));
                found.push((claim.address, name, claim.elements, claim.front, claim.number));
                Ok(())
            };
            let is_proved = container.claims(memory, DATA, &mut take).unwrap();
            let elements = container.elements(memory, DATA).unwrap();
            assert!(is_proved || found.is_empty());
            is_proved.then(|| (found, elements.unwrap()))
        })
    }

    /// The names and elements of what a container in a variable claims in blocks, in order.
    fn claims(&self, of: TypeId) -> (Vec<Claimed>, u64) {
        self.ask(&self.layouts(), of).expect("it proves itself")
    }

    fn is_proven(&self, of: TypeId) -> bool {
        self.ask(&self.layouts(), of).is_some()
    }

    /// With these words it does not prove itself.
    #[track_caller]
    fn refuses(&mut self, of: TypeId, words: &[u64]) {
        self.put(words);
        assert!(!self.is_proven(of), "{words:x?}");
    }

    /// With these words it has so many elements, and no block.
    #[track_caller]
    fn has_no_block(&mut self, of: TypeId, words: &[u64], elements: u64) {
        self.put(words);
        assert_eq!(self.claims(of), (vec![], elements), "{words:x?}");
    }

    /// Changes each word of the container and of its blocks in many ways: what is claimed then is what was claimed
    /// before, or lies where the changed word leads.
    fn damage(&mut self, of: TypeId, size: u64) {
        let (before, _) = self.claims(of);
        let layouts = self.layouts();
        let known: HashSet<(u64, String)> = before.into_iter().map(|(at, name, ..)| (at, name)).collect();
        let blocks = self.heap.blocks();
        let mut places: Vec<u64> = (0..size / WORD).map(|at| DATA + at * WORD).collect();
        for (start, size) in blocks.iter().take(3) {
            places.extend((0..(size / WORD).min(6)).map(|at| start + at * WORD));
        }
        for place in places {
            let word = self.heap.look(|memory| memory.word(place)).unwrap();
            let mut others = vec![0, 1, word ^ 1, word ^ 1 << 40, word.wrapping_add(8), word.wrapping_mul(2), place];
            others.extend([1 << 63, u64::MAX]);
            others.extend(blocks.iter().map(|(start, _)| start).take(2));
            for other in others {
                self.heap.put(place, &[other]);
                for (at, name, elements, ..) in self.ask(&layouts, of).map(|(found, _)| found).unwrap_or_default() {
                    let is_there = known.contains(&(at, name.clone())) || at == other || name.ends_with("inside");
                    assert!(is_there, "{other:x} at {place:x} instead of {word:x}: {name} at {at:x}");
                    assert!(elements.unwrap_or(1) < 1 << 20);
                }
            }
            self.heap.put(place, &[word]);
        }
    }

    // libstdc++

    fn vector(&self, of: TypeId) -> TypeId {
        let to = self.to(of);
        let names = ["_M_impl._M_start", "_M_impl._M_finish", "_M_impl._M_end_of_storage"];
        let members = [(names[0], 0, to), (names[1], 8, to), (names[2], 16, to)];
        self.made("std::vector<T, std::allocator<T>>", 24, &members, &[of])
    }

    fn string(&self) -> TypeId {
        let (to, long, char) = (self.to(self.char), self.long, self.char);
        let members = [("_M_dataplus._M_p", 0, to), ("_M_string_length", 8, long), ("_M_local_buf", 16, char)];
        let members = [&members[..], &[("_M_allocated_capacity", 16, long)]].concat();
        self.made("std::__cxx11::basic_string<char>", 32, &members, &[char])
    }

    fn tree(&self, name: &str, value: TypeId) -> TypeId {
        let (to, long) = (self.to(self.long), self.long);
        let inner = self.made(
            "std::_Rb_tree<K, V>",
            48,
            &[
                (
                    "_M_impl._M_header",
                    8,
                    self.nested(32, &[("_M_parent", 8, to), ("_M_left", 16, to), ("_M_right", 24, to)]),
                ),
                ("_M_impl._M_node_count", 40, long),
            ],
            &[long, value],
        );
        self.template(name, 48, &[("_M_t", 0, inner)], &[long])
    }

    /// A map of so many in which the key is twice the number: a root with all others to its right.
    fn put_tree(&mut self, count: u64) -> Vec<u64> {
        let nodes: Vec<u64> = (0..count).map(|_| self.malloc(48, &[])).collect();
        let header = DATA + 8;
        for (at, node) in nodes.iter().enumerate() {
            let parent = if at == 0 { header } else { nodes[at - 1] };
            let right = nodes.get(at + 1).copied().unwrap_or(0);
            self.heap.put(*node, &[0, parent, 0, right, at as u64, 7]);
        }
        let ends = [nodes.first(), nodes.last()].map(|each| each.copied().unwrap_or(header));
        self.put(&[0, 0, nodes.first().copied().unwrap_or(0), ends[0], ends[1], count]);
        nodes
    }

    fn hash(&self, keeps_code: bool) -> TypeId {
        let (to, long) = (self.to(self.long), self.long);
        let traits = self.types.structure("std::__detail::_Hashtable_traits<true, false, true>", 1, &[]);
        self.types.change(traits, |facts| facts.arguments = vec![Argument::Value(i64::from(keeps_code))]);
        let members = [
            ("_M_buckets", 0, to),
            ("_M_bucket_count", 8, long),
            ("_M_before_begin", 16, to),
            ("_M_element_count", 24, long),
            ("_M_single_bucket", 48, to),
        ];
        let table = self.made("std::_Hashtable<K, V>", 56, &members, &[long, long, traits]);
        self.template("std::unordered_set<long>", 56, &[("_M_h", 0, table)], &[long])
    }

    fn shared(&self, held: TypeId) -> TypeId {
        let base = self.types.structure("std::_Sp_counted_base<2>", 16, &[]);
        self.types.set(base, &[("_M_use_count", 8, self.int), ("_M_weak_count", 12, self.int)]);
        let members = [("_M_ptr", 0, self.to(held)), ("_M_refcount._M_pi", 8, self.to(base))];
        self.made("std::shared_ptr<T>", 16, &members, &[held])
    }

    // Rust

    fn vec(&self, of: TypeId) -> TypeId {
        let members =
            [("buf.inner.ptr", 8, self.to(self.char)), ("buf.inner.cap", 0, self.long), ("len", 16, self.long)];
        self.made("alloc::vec::Vec<T>", 24, &members, &[of])
    }
}

fn blocks(claims: &[Claimed]) -> Vec<u64> {
    claims.iter().map(|(at, ..)| *at).collect()
}

#[test]
fn a_vector_has_elements_to_its_finish() {
    let mut program = Program::new();
    let vector = program.vector(program.long);
    let block = program.malloc(80, &[]);
    program.malloc(80, &[]);
    program.put(&[block, block + 24, block + 80]);
    assert_eq!(program.claims(vector), (vec![(block, "long".into(), Some(3), 0, Some(0))], 3));
    program.damage(vector, 24);
    // the capacity is not the block's; the finish is behind the end; elements are cut; another's memory
    for words in [[block, block + 24, block + 40], [block, block + 88, block + 80], [block, block + 20, block + 80]] {
        program.refuses(vector, &words);
    }
    program.has_no_block(vector, &[0, 0, 0], 0);
}

#[test]
fn a_string_lies_inside_or_is_ended_by_a_zero() {
    let mut program = Program::new();
    let string = program.string();
    let block = program.malloc(31, &[u64::from_le_bytes(*b"a text t"), u64::from_le_bytes(*b"hat is l")]);
    program.put(&[block, 16, 30]);
    let body = "std::__cxx11::basic_string<char> body".to_owned();
    assert_eq!(program.claims(string), (vec![(block, body, Some(17), 0, None)], 16));
    program.damage(string, 32);
    program.refuses(string, &[block, 15, 30]);
    program.has_no_block(string, &[DATA + 16, 5, 0], 5);
    program.refuses(string, &[DATA + 16, 16, 0]);
}

#[test]
fn the_text_of_a_string_is_where_its_letters_are() {
    let mut program = Program::new();
    let string = program.string();
    let layouts = program.layouts();
    let container = layouts.container(string).unwrap().unwrap();
    let super::forms::Container::Body(body) = &*container else { panic!("it has no body") };
    let block = program.malloc(31, &[u64::from_le_bytes(*b"a text\0\0")]);
    let mut text = |words: &[u64]| {
        program.heap.put(DATA, words);
        program.heap.look(|memory| body.text(memory, DATA)).map(|text| (text.start, text.length, text.size))
    };
    assert_eq!(text(&[block, 6, 30]), Some((block, 6, 1)));
    assert_eq!(text(&[DATA + 16, 3, 0]), Some((DATA + 16, 3, 1)));
    assert_eq!(text(&[block, 5, 30]), None);
}

#[test]
fn objects_are_read_by_their_types() {
    let mut program = Program::new();
    let (string, bytes) = (program.string(), program.types.number("u8", Form::Integer, 1));
    let owned = program.types.structure("alloc::string::String", 24, &[("vec", 0, program.vec(bytes))]);
    let flexible = program.types.structure("packet", 8, &[("data", 8, program.types.array(program.int, None))]);
    let vector = program.vector(program.long);
    let block = program.malloc(31, &[u64::from_le_bytes(*b"a text\0\0")]);
    let layouts = program.layouts();
    let read = |program: &Program, of| {
        program.heap.look(|memory| {
            let Nature { is_container, is_of_numbers, is_flexible } = nature(&layouts, of).unwrap();
            let Contents { elements, text } = contents(&layouts, memory, of, DATA).unwrap();
            (elements, text.map(|text| (text.start, text.length)), [is_container, is_of_numbers, is_flexible])
        })
    };
    program.put(&[block, 6, 30]);
    assert_eq!(read(&program, string), (Some(6), Some((block, 6)), [true, true, false]));
    program.put(&[30, block, 6]);
    assert_eq!(read(&program, owned), (None, Some((block, 6)), [false, false, false]));
    assert_eq!(read(&program, flexible), (None, None, [false, false, true]));
    assert_eq!(read(&program, vector), (None, None, [true, false, false]));
}

#[test]
fn old_strings_have_their_counts_in_front() {
    let mut program = Program::new();
    let to = program.to(program.char);
    let string = program.made("std::basic_string<char>", 8, &[("_M_dataplus._M_p", 0, to)], &[program.char]);
    let block = program.malloc(24 + 11, &[4, 10, 0, u64::from_le_bytes(*b"text\0\0\0\0")]);
    program.put(&[block + 24]);
    let body = "std::basic_string<char> body".to_owned();
    assert_eq!(program.claims(string), (vec![(block, body, Some(5), 24, None)], 4));
    program.damage(string, 8);
    // the one that all empty ones share
    program.has_no_block(string, &[DATA + 64], 0);
}

#[test]
fn bits_end_amid_a_word() {
    let mut program = Program::new();
    let (to, int) = (program.to(program.long), program.int);
    let start = program.nested(16, &[("_M_p", 0, to), ("_M_offset", 8, int)]);
    let inner = program.nested(40, &[("_M_start", 0, start), ("_M_finish", 16, start), ("_M_end_of_storage", 32, to)]);
    let boolean = program.types.number("bool", Form::Boolean, 1);
    let vector = program.template("std::vector<bool>", 40, &[("_M_impl", 0, inner)], &[boolean]);
    let block = program.malloc(16, &[u64::MAX, 1]);
    program.put(&[block, 0, block + 8, 5, block + 16]);
    assert_eq!(program.claims(vector), (vec![(block, "long".into(), Some(2), 0, None)], 69));
    program.damage(vector, 40);
}

#[test]
fn a_tree_has_as_many_nodes_as_it_counts() {
    let mut program = Program::new();
    let pair = program.types.structure(
        "std::pair<long const, long>",
        16,
        &[("first", 0, program.long), ("second", 8, program.long)],
    );
    let map = program.tree("std::map<long, long>", pair);
    let nodes = program.put_tree(40);
    let (claims, elements) = program.claims(map);
    assert_eq!((blocks(&claims), elements), (nodes.clone(), 40));
    assert_eq!(claims[3], (nodes[3], "std::map<long, long> node".into(), None, 0, Some(3)));
    program.damage(map, 48);
    // a child that leads to its grandparent; one node twice; more nodes than are counted
    for (node, words) in [(30, [nodes[29], nodes[2], nodes[31]]), (30, [nodes[29], nodes[31], nodes[31]])] {
        program.put_tree_node(nodes[node], words);
        assert!(!program.is_proven(map));
        program.put_tree_node(nodes[node], [nodes[node - 1], 0, nodes[node + 1]]);
    }
    program.put_tree(0);
    assert_eq!(program.claims(map), (vec![], 0));
    // higher than a balanced one can be
    let nodes = program.put_tree(200);
    for pair in nodes.windows(2) {
        program.put_tree_node(pair[1], [pair[0], 0, 0]);
        let above = if pair[0] == nodes[0] { DATA + 8 } else { nodes[nodes.binary_search(&pair[0]).unwrap() - 1] };
        program.put_tree_node(pair[0], [above, pair[1], 0]);
    }
    program.refuses(map, &[0, 0, nodes[0], nodes[199], nodes[0], 200]);
}

impl Program {
    fn put_tree_node(&mut self, node: u64, [parent, left, right]: [u64; 3]) {
        self.heap.put(node + 8, &[parent, left, right]);
    }
}

#[test]
fn keys_lie_where_a_container_finds_its_elements_by_them() {
    let program = Program::new();
    let (int, long) = (program.int, program.long);
    let pair = program.types.structure("std::pair<int const, long>", 16, &[("first", 0, int), ("second", 8, long)]);
    for (name, value, expected) in [
        ("std::map<int, long>", pair, Some((32, int))),
        ("std::set<long>", long, Some((32, long))),
        ("std::multimap<int, long>", pair, None),
    ] {
        let map = program.tree(name, value);
        let layouts = program.layouts();
        let container = layouts.container(map).unwrap().unwrap();
        let super::forms::Container::Nodes(nodes) = &*container else { panic!("it has no nodes") };
        assert_eq!(layouts.types.key(nodes.node.of).map(|key| (key.offset, key.of)), expected);
        assert_eq!(nodes.node.size, 48 - if value == long { 8 } else { 0 });
    }
}

#[test]
fn a_hash_tables_buckets_lead_to_what_is_before_their_nodes() {
    for keeps_code in [true, false] {
        let mut program = Program::new();
        let set = program.hash(keeps_code);
        let nodes: Vec<u64> = (0..6).map(|_| program.malloc(if keeps_code { 24 } else { 16 }, &[])).collect();
        let buckets = program.malloc(8 * 13, &[]);
        let mut before = DATA + 16;
        for (at, node) in nodes.iter().enumerate() {
            let (code, next) = (3 + at as u64 / 2, nodes.get(at + 1).copied().unwrap_or(0));
            let words = [next, at as u64, code + 13 * 5];
            program.heap.put(*node, &words[..if keeps_code { 3 } else { 2 }]);
            if at % 2 == 0 {
                program.heap.put(buckets + 8 * code, &[before]);
            }
            before = *node;
        }
        program.put(&[buckets, 13, nodes[0], 6]);
        let (claims, elements) = program.claims(set);
        assert_eq!((blocks(&claims), elements), ([&nodes[..], &[buckets]].concat(), 6));
        assert_eq!(claims[6], (buckets, "std::unordered_set<long> buckets".into(), Some(13), 0, None));
        program.damage(set, 56);
        // a bucket that leads elsewhere, a chain that comes to itself, more than are counted
        program.heap.put(buckets + 8 * 3, &[nodes[5]]);
        assert!(!program.is_proven(set));
        program.heap.put(buckets + 8 * 3, &[DATA + 16]);
        assert!(program.is_proven(set));
        program.heap.put(nodes[5], &[nodes[2]]);
        for count in [6, 7, 1 << 60] {
            program.refuses(set, &[buckets, 13, nodes[0], count]);
        }
        // an empty one has one bucket, which lies inside
        program.has_no_block(set, &[DATA + 48, 1, 0, 0], 0);
        program.refuses(set, &[DATA + 48, 2, 0, 0]);
    }
}

#[test]
fn a_list_is_a_ring_and_a_forward_list_a_chain() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let members = [("_M_next", 0, to), ("_M_prev", 8, to), ("_M_size", 16, long)];
    let inner = program.nested(24, &[("_M_node", 0, program.nested(24, &members))]);
    let list = program.template("std::__cxx11::list<long>", 24, &[("_M_impl", 0, inner)], &[long]);
    let nodes: Vec<u64> = (0..5).map(|_| program.malloc(24, &[])).collect();
    for at in 0..5 {
        let [next, previous] = [nodes.get(at + 1), nodes.get(at.wrapping_sub(1))].map(|each| *each.unwrap_or(&DATA));
        program.heap.put(nodes[at], &[next, previous, at as u64]);
    }
    program.put(&[nodes[0], nodes[4], 5]);
    let (claims, elements) = program.claims(list);
    assert_eq!((blocks(&claims), elements), (nodes.clone(), 5));
    program.damage(list, 24);
    program.heap.put(nodes[3], &[nodes[1]]);
    assert!(!program.is_proven(list));

    let chain = program.made("std::forward_list<long>", 8, &[("_M_impl._M_head._M_next", 0, to)], &[long]);
    let nodes: Vec<u64> = (0..9).map(|_| program.malloc(16, &[])).collect();
    for pair in nodes.windows(2) {
        program.heap.put(pair[0], &[pair[1]]);
    }
    program.put(&[nodes[0]]);
    assert_eq!(blocks(&program.claims(chain).0), nodes);
    // one that comes to itself, from which nobody counts
    program.heap.put(nodes[8], &[nodes[4]]);
    assert!(!program.is_proven(chain));
}

#[test]
fn a_deque_has_buffers_in_its_map() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let spot = program.nested(32, &[("_M_cur", 0, to), ("_M_first", 8, to), ("_M_last", 16, to), ("_M_node", 24, to)]);
    let members = [("_M_map", 0, to), ("_M_map_size", 8, long), ("_M_start", 16, spot), ("_M_finish", 48, spot)];
    let deque = program.template("std::deque<long>", 80, &[("_M_impl", 0, program.nested(80, &members))], &[long]);
    let buffers: Vec<u64> = (0..3).map(|_| program.malloc(512, &[])).collect();
    let map = program.malloc(64, &[0, 0, buffers[0], buffers[1], buffers[2]]);
    let [first, last] = [buffers[0], buffers[2]];
    program.put(&[map, 8, first + 480, first, first + 512, map + 16, last + 16, last, last + 512, map + 32]);
    let (claims, elements) = program.claims(deque);
    assert_eq!(claims[0], (map, "std::deque<long> map".into(), Some(3), 16, None));
    assert_eq!(claims[1], (first, "long".into(), Some(4), 480, Some(0)));
    assert_eq!(claims[3], (last, "long".into(), Some(2), 0, Some(68)));
    assert_eq!((claims.len(), elements), (4, 70));
    program.damage(deque, 80);
    let tiny = |program: &Program| {
        let container = program.layouts().container(deque).unwrap().unwrap();
        program.heap.look(|memory| container.tiny(memory, DATA).unwrap())
    };
    assert_eq!(tiny(&program), None);
    // one buffer, of which an eighth is in use at most
    for (count, is_tiny) in [(0, true), (1, true), (8, true), (9, false)] {
        let spot = |at: u64| [first + 8 * at, first, first + 512, map + 16];
        program.put(&[&[map, 8], &spot(3)[..], &spot(3 + count)].concat());
        let held = tiny(&program).map(|tiny| (tiny.elements, tiny.held, tiny.blocks));
        assert_eq!(held, is_tiny.then_some((count, 8 * count, 80 + 528)));
    }
    program.heap.put(map + 24, &[buffers[0]]);
    program.refuses(deque, &[map, 8, first + 480, first, first + 512, map + 16, last + 16, last, last + 512, map + 32]);
    program.put(&[0; 10]);
    assert_eq!(program.claims(deque), (vec![], 0));
}

#[test]
fn pointers_that_own_lead_to_one_object_or_to_an_array() {
    let mut program = Program::new();
    let (long, session) = (program.long, program.types.structure("Session", 40, &[]));
    let several = program.types.array(session, None);
    for (owned, front) in [(session, 0), (several, 8)] {
        let head =
            program.template("std::_Head_base<0ul, T*, false>", 8, &[("_M_head_impl", 0, program.to(session))], &[]);
        let pointer = program.template("std::unique_ptr<T>", 8, &[("_M_t", 0, head)], &[owned, long]);
        let block = program.malloc(front + 80, &[2]);
        program.put(&[block + front]);
        let (claims, elements) = program.claims(pointer);
        let expected = if front > 0 { (block, Some(2), 8, Some(0)) } else { (block, None, 0, None) };
        let (at, name, count, before, number) = claims[0].clone();
        assert_eq!((at, count, before, number), expected);
        assert_eq!((name.as_str(), elements), ("Session", count.unwrap_or(1)));
        program.has_no_block(pointer, &[0], 0);
        // the number in front is another, and there is no such block
        program.put(&[block + 16]);
        assert_eq!(program.ask(&program.layouts(), pointer).is_some(), front == 0);
    }
}

#[test]
fn a_control_block_says_what_it_is() {
    const TABLE: u64 = 0x7f00_0000_1000;
    let mut program = Program::new();
    let session = program.types.structure("Session", 40, &[]);
    let shared = program.shared(session);
    program.heap.vtables.insert(TABLE, ("std::_Sp_counted_ptr_inplace<Session, std::allocator<void>, 2>", 0));
    program.heap.vtables.insert(TABLE + 64, ("std::_Sp_counted_ptr<Session*, 2>", 0));
    let inside = program.malloc(16 + 40, &[TABLE, 1 | 2 << 32]);
    program.put(&[inside + 16, inside]);
    let name = "std::_Sp_counted_ptr_inplace<Session, std::allocator<void>, 2>".to_owned();
    assert_eq!(program.claims(shared), (vec![(inside, name, None, 0, None)], 1));
    program.damage(shared, 16);
    let apart = program.malloc(40, &[]);
    let control = program.malloc(24, &[TABLE + 64, 1 | 1 << 32, apart]);
    program.put(&[apart, control]);
    let (claims, _) = program.claims(shared);
    assert_eq!(blocks(&claims), [control, apart]);
    // nobody shares the object any more, but somebody knows the block
    program.heap.put(control + 8, &[1 << 32]);
    let (claims, elements) = program.claims(shared);
    assert_eq!((blocks(&claims), elements), (vec![control], 0));
    program.heap.put(control + 8, &[0]);
    assert!(!program.is_proven(shared));
    program.has_no_block(shared, &[0, 0], 0);
}

#[test]
fn a_number_tells_which_value_there_is() {
    let mut program = Program::new();
    let (char, long, boolean) = (program.char, program.long, program.types.number("bool", Form::Boolean, 1));
    let members = [("_M_payload._M_payload._M_value", 0, long), ("_M_payload._M_engaged", 8, boolean)];
    let optional = program.made("std::optional<long>", 16, &members, &[long]);
    let told = |program: &mut Program, of, words: &[u64]| {
        program.put(words);
        let found = program.ask(&program.layouts(), of);
        found.map(|(claims, elements)| (claims.first().map(|(at, name, ..)| (*at - DATA, name.clone())), elements))
    };
    assert_eq!(told(&mut program, optional, &[5, 1]), Some((Some((0, "long inside".into())), 1)));
    assert_eq!(told(&mut program, optional, &[5, 0]), Some((None, 0)));
    assert_eq!(told(&mut program, optional, &[5, 2]), None);

    let alternative = |of| program.template("std::__detail::__variant::_Uninitialized<T>", 8, &[], &[of]);
    let rest = program.nested(8, &[("_M_first", 0, alternative(char))]);
    let union = program.nested(8, &[("_M_first", 0, alternative(long)), ("_M_rest", 0, rest)]);
    let variant = program.template(
        "std::variant<long, char>",
        16,
        &[("_M_u", 0, union), ("_M_index", 8, boolean)],
        &[long, char],
    );
    assert_eq!(told(&mut program, variant, &[0, 0]), Some((Some((0, "long inside".into())), 1)));
    assert_eq!(told(&mut program, variant, &[0, 1]), Some((Some((0, "char inside".into())), 1)));
    assert_eq!((told(&mut program, variant, &[0, 255]), told(&mut program, variant, &[0, 2])), (Some((None, 0)), None));
}

#[test]
fn a_function_says_by_its_manager_what_it_holds() {
    const MANAGER: u64 = 0x7f00_0000_1000;
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let members = [("_M_functor", 0, long), ("_M_manager", 16, to)];
    let function = program.made("std::function<void ()>", 32, &members, &[]);
    let (small, large) =
        (program.types.structure("", 8, &[("n", 0, long)]), program.types.structure("", 40, &[("n", 0, long)]));
    let symbol = "std::_Function_base::_Base_manager<main::{lambda()#1}>::_M_manager(std::_Any_data&, int)";
    let class = |of| program.template("std::_Function_base::_Base_manager<main()::<lambda()> >", 1, &[], &[of]);
    let (of_small, of_large) = (class(small), class(large));
    program.heap.symbols.insert(MANAGER, symbol);
    let block = program.malloc(40, &[]);
    program.put(&[block, 0, MANAGER]);
    program.types.methods.borrow_mut().insert(MANAGER, vec![of_large]);
    assert_eq!(program.claims(function), (vec![(block, "main::{lambda()#1}".into(), None, 0, None)], 1));
    // two lambdas of one name: only one of them fits
    program.types.methods.borrow_mut().insert(MANAGER, vec![of_large, of_small]);
    assert_eq!(blocks(&program.claims(function).0), [block]);
    program.put(&[5, 0, MANAGER]);
    assert_eq!(blocks(&program.claims(function).0), [DATA]);
    program.types.methods.borrow_mut().insert(MANAGER, vec![of_large]);
    assert!(!program.is_proven(function));
    program.has_no_block(function, &[5, 0, 0], 0);
}

#[test]
fn libcxx_marks_long_strings() {
    let mut program = Program::new();
    let (to, long, char) = (program.to(program.char), program.long, program.char);
    let members = [
        ("__rep_.__s.__data_", 0, char),
        ("__rep_.__l.__data_", 0, to),
        ("__rep_.__l.__size_", 8, long),
        ("__rep_.__l.__cap_", 16, long),
    ];
    let string = program.made("std::__2::basic_string<char>", 24, &members, &[char]);
    let block = program.malloc(32, &[u64::from_le_bytes(*b"text\0\0\0\0")]);
    program.put(&[block, 4, 32 | 1 << 63]);
    let body = "std::__2::basic_string<char> body".to_owned();
    assert_eq!(program.claims(string), (vec![(block, body, Some(5), 0, None)], 4));
    program.damage(string, 24);
    program.has_no_block(string, &[u64::from_le_bytes(*b"a short "), 0, 7 << 56], 7);
    program.refuses(string, &[0, 0, 24 << 56]);
}

#[test]
fn libcxx_begins_its_deques_amid_a_buffer() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let members = [
        ("__map_.__first_", 0, to),
        ("__map_.__begin_", 8, to),
        ("__map_.__end_", 16, to),
        ("__map_.__end_cap_", 24, to),
        ("__start_", 32, long),
        ("__size_", 40, long),
    ];
    let deque = program.made("std::__1::deque<long>", 48, &members, &[long]);
    let buffers: Vec<u64> = (0..2).map(|_| program.malloc(4096, &[])).collect();
    let map = program.malloc(64, &[0, buffers[0], buffers[1]]);
    program.put(&[map, map + 8, map + 24, map + 64, 500, 20]);
    let (claims, elements) = program.claims(deque);
    assert_eq!(claims[0], (map, "std::__1::deque<long> map".into(), Some(2), 8, None));
    assert_eq!(claims[1], (buffers[0], "long".into(), Some(12), 4000, Some(0)));
    assert_eq!(claims[2], (buffers[1], "long".into(), Some(8), 0, Some(12)));
    assert_eq!((claims.len(), elements), (3, 20));
    program.damage(deque, 48);
}

#[test]
fn libcxx_has_the_root_in_its_header() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let members = [("__begin_node_", 0, to), ("__end_node_.__left_", 8, to), ("__size_", 16, long)];
    let tree = program.made("std::__1::__tree<V>", 24, &members, &[long]);
    let set = program.template("std::__1::set<long>", 24, &[("__tree_", 0, tree)], &[long]);
    let [low, root, high] = [(); 3].map(|()| program.malloc(40, &[]));
    program.heap.put(low, &[0, 0, root, 1, 4]);
    program.heap.put(root, &[low, high, DATA + 8, 1, 5]);
    program.heap.put(high, &[0, 0, root, 1, 6]);
    program.put(&[low, root, 3]);
    let (claims, elements) = program.claims(set);
    assert_eq!((blocks(&claims), elements), (vec![low, root, high], 3));
    program.damage(set, 24);
    program.has_no_block(set, &[DATA + 8, 0, 0], 0);
}

#[test]
fn libcxx_has_no_buckets_before_the_first_element() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.long), program.long);
    let deleter = program.template("std::__1::__bucket_list_deallocator<A>", 8, &[("__size_", 0, long)], &[]);
    let members = [
        ("__bucket_list_.__ptr_", 0, to),
        ("__bucket_list_.__deleter_", 8, deleter),
        ("__first_node_", 16, to),
        ("__size_", 24, long),
    ];
    let table = program.made("std::__1::__hash_table<V>", 40, &members, &[long]);
    let set = program.template("std::__1::unordered_set<long>", 40, &[("__table_", 0, table)], &[long]);
    program.has_no_block(set, &[0, 0, 0, 0], 0);
    program.refuses(set, &[0, 0, 0, 1]);
    let second = program.malloc(24, &[0, 7, 2]);
    let first = program.malloc(24, &[second, 6, 5]);
    let buckets = program.malloc(32, &[0, 0, first, DATA + 16]);
    program.refuses(set, &[buckets, 4, first, 2]);
    program.heap.put(buckets, &[0, 0, DATA + 16, first]);
    let (claims, elements) = program.claims(set);
    assert_eq!((blocks(&claims), elements), (vec![first, second, buckets], 2));
    program.damage(set, 40);
}

#[test]
fn rust_vectors_and_queues_have_room() {
    let mut program = Program::new();
    let long = program.long;
    let vec = program.vec(long);
    let block = program.malloc(64, &[]);
    program.put(&[8, block, 3]);
    assert_eq!(program.claims(vec), (vec![(block, "long".into(), Some(3), 0, Some(0))], 3));
    program.damage(vec, 24);
    program.has_no_block(vec, &[0, 8, 0], 0);

    let members = [("buf.cap", 0, long), ("buf.ptr", 8, program.to(long)), ("head", 16, long), ("len", 24, long)];
    let queue = program.made("alloc::collections::vec_deque::VecDeque<T>", 32, &members, &[long]);
    program.put(&[8, block, 6, 4]);
    let (claims, elements) = program.claims(queue);
    assert_eq!(claims[0], (block, "long".into(), Some(2), 48, Some(0)));
    assert_eq!(claims[2], (block + 8, "long inside".into(), None, 0, Some(3)));
    assert_eq!((claims.len(), elements), (3, 4));
    program.damage(queue, 32);
    program.refuses(queue, &[8, block, 8, 0]);
}

#[test]
fn rust_tables_have_a_byte_for_each_place() {
    let mut program = Program::new();
    let (to, long) = (program.to(program.char), program.long);
    let members = [("table.ctrl", 0, to), ("table.bucket_mask", 8, long), ("table.items", 24, long)];
    let raw = program.made("hashbrown::raw::RawTable<(long, long)>", 32, &members, &[long]);
    let map = program.template("std::collections::hash::map::HashMap<K, V>", 32, &[("base", 0, raw)], &[long]);
    let block = program.malloc(8 * 8 + 8 + 16, &[]);
    let control = block + 64;
    program.heap.put(control, &[0xffff_ff12_ffff_05ff, u64::MAX, 0xffff_ff12_ffff_05ff]);
    program.put(&[control, 7, 5, 2]);
    let (claims, elements) = program.claims(map);
    let name = "std::collections::hash::map::HashMap<K, V> table".to_owned();
    assert_eq!((claims[0].clone(), elements), ((block, name, None, 0, None), 2));
    assert_eq!(blocks(&claims[1..]), [control - 16, control - 40]);
    program.damage(map, 32);
    // a byte is not repeated; a number of places that is no power of 2; more than memory has
    program.heap.put(control + 16, &[u64::MAX]);
    assert!(!program.is_proven(map));
    for mask in [6, u64::MAX, 1 << 40, (1 << 33) - 1] {
        program.refuses(map, &[control, mask, 5, 2]);
    }
    program.has_no_block(map, &[DATA, 0, 0, 0], 0);
}

#[test]
fn rust_trees_know_where_their_nodes_hang() {
    let mut program = Program::new();
    let (long, short) = (program.long, program.types.number("u16", Form::Integer, 2));
    let (several, leaf_name) = (program.types.array(long, Some(11)), "alloc::collections::btree::node::LeafNode<K, V>");
    let leaf = program.types.structure(leaf_name, 200, &[]);
    let fields = [
        ("parent", 0, long),
        ("keys", 8, several),
        ("vals", 96, several),
        ("parent_idx", 184, short),
        ("len", 186, short),
    ];
    program.types.set(leaf, &fields);
    let inner = program.types.structure(&leaf_name.replace("Leaf", "Internal"), 296, &[]);
    program.types.set(inner, &[("data", 0, leaf), ("edges", 200, program.types.array(long, Some(12)))]);
    let members = [("node.pointer", 0, program.to(leaf)), ("height", 8, long)];
    let reference = program.made("alloc::collections::btree::node::NodeRef<K>", 16, &members, &[]);
    let map = program.template(
        "alloc::collections::btree::map::BTreeMap<K, V>",
        24,
        &[("root", 0, reference), ("length", 16, long)],
        &[long, long],
    );
    let root = program.malloc(296, &[]);
    let leaves = [0u64, 1].map(|at| {
        let leaf = program.malloc(200, &[root]);
        program.heap.put_bytes(leaf + 184, &[at as u8, 0, 2, 0]);
        program.heap.put(root + 200 + 8 * at, &[leaf]);
        leaf
    });
    program.heap.put_bytes(root + 184, &[0, 0, 1, 0]);
    program.put(&[root, 1, 5]);
    let (claims, elements) = program.claims(map);
    let nodes: Vec<u64> = claims.iter().filter(|(_, name, ..)| !name.ends_with("inside")).map(|(at, ..)| *at).collect();
    assert_eq!((nodes, elements, claims.len()), (vec![root, leaves[1], leaves[0]], 5, 3 + 2 * 5));
    // values in the order of their keys
    let values = [leaves[0] + 96, leaves[0] + 96 + 8, root + 96, leaves[1] + 96, leaves[1] + 96 + 8];
    for (value, number) in values.into_iter().zip(0..) {
        assert!(claims.contains(&(value, "long inside".into(), None, 0, Some(number))));
    }
    program.damage(map, 24);
    for words in [[root, 1, 6], [root, 2, 5], [root, u64::MAX, 5], [leaves[0], 0, 5]] {
        program.refuses(map, &words);
    }
    // more than a node can have, a root that is its own child
    program.put(&[root, 1, 5]);
    program.heap.put_bytes(leaves[0] + 186, &[200]);
    assert!(!program.is_proven(map));
    program.heap.put(root + 200, &[root, root]);
    assert!(!program.is_proven(map));
    program.has_no_block(map, &[0, 0, 0], 0);
}

/// An enum of variants that each have at the tag's place: a pointer, a capacity, a number, or nothing.
fn made_enum(program: &Program, variants: &[&str]) -> TypeId {
    let long = program.long;
    let capacity = program.types.structure("alloc::raw_vec::Cap", 8, &[("__0", 0, long)]);
    let to = program.to(program.char);
    let whole = program.types.number("Made", Form::Union, 16);
    let field = |name: &&str| {
        let members = match *name {
            "pointer" => vec![("__0", 0, to)],
            "capacity" => vec![("__0", 0, capacity)],
            "number" => vec![("__0", 0, long)],
            "behind" => vec![("__0", 8, long)],
            _ => vec![],
        };
        Field { name: (*name).into(), offset: 0, of: program.types.structure("Made::V", 16, &members), is_base: false }
    };
    let fields: Vec<Field> = variants.iter().map(field).collect();
    program.types.change(whole, |facts| {
        facts.fields = fields;
        facts.tag = Some(Field { name: "".into(), offset: 0, of: long, is_base: false });
    });
    whole
}

/// Tags, and the variant that each stands for.
type Told<'a> = &'a [(u64, Option<usize>)];

#[test]
fn a_rust_enum_has_the_variant_that_its_tag_says() {
    const HALF: u64 = 1 << 63;
    let cases: [(&[&str], Told); 5] = [
        (&["", "pointer"], &[(0, Some(0)), (1, Some(1)), (DATA, Some(1)), (HALF, Some(1))]),
        (&["pointer", "behind"], &[(0, Some(1)), (DATA, Some(0))]),
        (&["behind", "", "behind"], &[(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, None), (HALF, None)]),
        (&["", "capacity"], &[(0, Some(1)), (HALF - 1, Some(1)), (HALF, Some(0)), (HALF + 1, None)]),
        // one in the middle has a number that is never used
        (
            &["", "behind", "capacity", ""],
            &[
                (5, Some(2)),
                (HALF, Some(0)),
                (HALF + 1, Some(1)),
                (HALF + 2, None),
                (HALF + 3, Some(3)),
                (HALF + 4, None),
            ],
        ),
    ];
    for (variants, told) in cases {
        let mut program = Program::new();
        let of = made_enum(&program, variants);
        let layouts = program.layouts();
        let container = layouts.container(of).unwrap().unwrap();
        let super::forms::Container::Value(value) = &*container else { panic!("it has no value") };
        for (tag, which) in told {
            program.put(&[*tag]);
            assert_eq!(program.heap.look(|memory| value.which(memory, DATA)), *which, "{variants:?} {tag:x}");
        }
    }
}

#[test]
fn nobody_can_tell_the_variants_of_some_enums() {
    let cases: [&[&str]; 6] =
        [&["", "number"], &["pointer", "pointer"], &["", "", "pointer"], &["capacity", "number"], &["pointer"], &[]];
    for variants in cases {
        let program = Program::new();
        let of = made_enum(&program, variants);
        assert!(program.layouts().container(of).unwrap().is_none(), "{variants:?}");
    }
}

#[test]
fn a_box_of_a_trait_is_what_two_functions_name() {
    const TABLE: u64 = DATA + 512;
    let mut program = Program::new();
    let to = program.to(program.char);
    let boxed =
        program.template("alloc::boxed::Box<dyn app::Shape>", 16, &[("pointer", 0, to), ("vtable", 8, to)], &[]);
    program.types.structure("app::Circle", 24, &[]);
    program.heap.symbols.insert(0x1000, "core::ptr::drop_in_place<app::Circle>");
    program.heap.symbols.insert(0x2000, "<app::Circle as app::Shape>::area");
    program.heap.symbols.insert(0x3000, "<app::Square as app::Shape>::area");
    let block = program.malloc(24, &[]);
    program.put(&[block, TABLE]);
    program.heap.put(TABLE, &[0x1000, 24, 8, 0x2000]);
    assert_eq!(program.claims(boxed), (vec![(block, "app::Circle".into(), None, 0, None)], 1));
    for words in [[0x1000, 24, 8, 0x3000], [0x1000, 32, 8, 0x2000], [0, 24, 8, 0x2000]] {
        program.heap.put(TABLE, &words);
        assert_eq!(program.claims(boxed).0, vec![]);
    }
}

#[test]
fn types_that_contain_themselves_end() {
    let program = Program::new();
    let (long, circle) = (program.long, program.types.structure("std::vector<circle>", 40, &[]));
    let fields: Vec<(String, u64, TypeId)> = (0..60).map(|at| (format!("m{at}"), 0, circle)).collect();
    let bases = |facts: &mut Facts| {
        let base = |(name, offset, of): &(String, u64, TypeId)| Field {
            name: name.as_str().into(),
            offset: *offset,
            of: *of,
            is_base: true,
        };
        facts.fields = fields.iter().map(base).collect();
        facts.arguments = vec![Argument::Type(long)];
    };
    for name in
        ["vector", "map", "shared_ptr", "function", "deque", "variant", "unique_ptr", "__1::map", "__1::unordered_map"]
    {
        program.types.change(circle, |facts| facts.name = format!("std::{name}<circle>").into());
        program.types.change(circle, bases);
        let layouts = program.layouts();
        assert!(layouts.container(circle).unwrap().is_none());
        assert!(!layouts.of(circle).unwrap().leads_on());
    }
}
