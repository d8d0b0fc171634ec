//! Tables that contradict each other, by the C interface: each call says so, or gives tables that can be read to their
//! ends.
#![no_main]

use std::ptr::null_mut;

use arbitrary::{Result, Unstructured};
use arenascope::failure::Control;
use arenascope::graph::Graph;
use arenascope::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    arenascope_interface();
    // SAFETY: tables are as long as they say, and the caller's
    let _ = unsafe { call(&mut Unstructured::new(data)) };
});

/// A table of the caller's.
struct Numbers(Vec<u64>);

impl Numbers {
    fn some(input: &mut Unstructured, most: usize) -> Result<Numbers> {
        let count = input.int_in_range(0..=most)?;
        let kind = input.int_in_range(0..=3)?;
        let mut at = 0x1000u64;
        let mut values = Vec::new();
        for _ in 0..count {
            at = at.wrapping_add(8 * u64::from(input.arbitrary::<u8>()?));
            values.push(match kind {
                0 => input.arbitrary()?,
                1 => input.arbitrary::<u8>()?.into(),
                _ => at,
            });
        }
        Ok(Numbers(values))
    }

    /// As values of so many bytes.
    fn table(&mut self, bytes: usize) -> Table {
        let words = [self.0.as_mut_ptr() as u64, (self.0.len() * 8 / bytes) as u64];
        // SAFETY: this is what the C interface says of a table
        unsafe { std::mem::transmute::<[u64; 2], Table>(words) }
    }
}

/// Nodes of an expression that refer to earlier ones, mostly.
fn nodes_of(values: &[u64]) -> Numbers {
    let mut nodes = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let earlier = |shift: u32| (value >> shift) % (at as u64 + u64::from(value >> 60 == 0)).max(1);
        nodes.extend([value % 24 | earlier(8) << 32, earlier(16) | earlier(24) << 32, value >> 32 & 0xff]);
    }
    Numbers(nodes)
}

fn nothing() -> [Given; 8] {
    // SAFETY: a table of no values
    unsafe { std::mem::zeroed() }
}

unsafe fn look_through(given: &[Given]) {
    for each in given {
        // where it is, values, bytes, alignment
        let [at, _, bytes, _] = std::mem::transmute_copy::<Given, [u64; 4]>(each);
        for place in 0..bytes.min(1 << 16) {
            std::hint::black_box(*(at as *const std::mem::MaybeUninit<u8>).add(place as usize));
        }
        arenascope_free(each);
    }
}

unsafe fn call(input: &mut Unstructured) -> Result<()> {
    let mut engine = null_mut();
    let wide = input.ratio(3, 4)?;
    assert_eq!(arenascope_open(if wide { 8 } else { 4 }, input.ratio(1, 4)?.into(), &mut engine), OK);
    let engine = &mut *engine;
    let control = Control::default();
    let mut memory = Numbers::some(input, 600)?;
    let mut pieces = Numbers(vec![0x1000, 8 * memory.0.len() as u64, memory.0.as_mut_ptr() as u64, 0, 0]);
    arenascope_pieces(engine, &pieces.table(40));
    let mut graph: *mut Graph = null_mut();
    for _ in 0..input.int_in_range(1..=8)? {
        let mut numbers = [(); 6].map(|()| Numbers(Vec::new()));
        for each in &mut numbers {
            *each = Numbers::some(input, 24)?;
        }
        let [a, b, c, d, e, f] = &mut numbers;
        let (word, small): (u64, u32) = (input.arbitrary()?, input.arbitrary::<u8>()?.into());
        let mut given = nothing();
        let of = |given: &mut [Given; 8], code: i32| {
            assert_ne!(code, PANICKED);
            if code == OK {
                look_through(given);
            }
        };
        macro_rules! into {
            ($count:literal) => {
                &mut *given.as_mut_ptr().cast::<[Given; $count]>()
            };
        }
        let code = match input.int_in_range(0..=21)? {
            0 => arenascope_blocks(engine, &a.table(8), &b.table(8), &c.table(8)),
            1 => {
                let tables = (&a.table(40), &b.table(8), &c.table(1));
                arenascope_sweep(engine, tables.0, small, 16, tables.1, tables.2, 2, &control, into!(2))
            }
            2 => arenascope_swept(engine, &a.table(24), word as i64 >> 32, &control, &mut 0),
            3 => arenascope_pointers(engine, &a.table(16), 2, &control, &mut given[0]),
            4 => arenascope_exclude(engine, &a.table(24)),
            5 => {
                let tables = (&a.table(8), &b.table(8), &c.table(1));
                arenascope_declare(engine, tables.0, tables.1, tables.2, word, small, small)
            }
            6 => arenascope_why(engine, word, small.into(), small, &mut 0),
            7 => {
                arenascope_graph_close(graph);
                graph = null_mut();
                arenascope_edges(engine, &a.table(16), small, 2, &control, &mut graph, &mut given[0])
            }
            8 => arenascope_encoded(engine, &a.table(4), &b.table(16), 2, &control, &mut given[0]),
            9 => arenascope_search(engine, word, word | 0xff, &a.table(16), 2, &control, &mut given[0]),
            10 => {
                let rules = [1 << (small % 64), d.0.first().copied().unwrap_or(48), 16];
                let tables = (&a.table(16), &b.table(16), &c.table(16), &e.table(4), &f.table(4));
                let (heaps, present, besides, whose, above) = tables;
                let count = u64::from(small);
                arenascope_pages(
                    engine,
                    heaps,
                    present,
                    besides,
                    whose,
                    count,
                    &rules,
                    small % 4,
                    above,
                    &control,
                    into!(2),
                )
            }
            11 => {
                let tables = (&a.table(16), &b.table(4));
                arenascope_contents(engine, word, word | 0xffff, tables.0, tables.1, 2, &control, &mut given[0])
            }
            12 => arenascope_beginning_with(engine, &a.table(16), 2, &control, &mut given[0]),
            13 => {
                arenascope_graph_close(graph);
                graph = null_mut();
                arenascope_graph(&a.table(8), &b.table(4), &mut graph)
            }
            18 => {
                let mut nodes = nodes_of(&a.0);
                let places = [&b.table(8), &c.table(8), &d.table(8)];
                let tables = (&nodes.table(24), &e.table(16), &f.table(4));
                let [at, sizes, bases] = places;
                let values = small & 1;
                let to = &mut given[0];
                arenascope_select(engine, tables.0, tables.1, at, sizes, bases, tables.2, values, 2, &control, to)
            }
            19 => arenascope_grouped(engine, &a.table(4), &b.table(8), &control, into!(3)),
            21 => {
                let least = u64::from(small);
                arenascope_stretches(engine, &a.table(4), &b.table(8), least, &control, into!(3))
            }
            20 => arenascope_fill(&a.table(4), &b.table(4), small as i32),
            _ if graph.is_null() => arenascope_equal(&a.table(8), small, word, &mut given[0]),
            14 => arenascope_graph_groups(&*graph, &a.table(4), small & 1, &control, into!(6)),
            15 => {
                let (leads, first) = (&a.table(16), &b.table(4));
                let rest = (&c.table(4), &d.table(4), &e.table(1));
                arenascope_graph_hold(&*graph, leads, small, first, rest.0, rest.1, rest.2, &control)
            }
            16 => {
                let code = arenascope_graph_dominators(&*graph, &a.table(8), &b.table(4), &control, into!(2));
                let tables = (&c.table(4), &d.table(4), &e.table(8), &f.table(4));
                of(&mut given, code);
                given = nothing();
                let (nodes, above, sizes, whose) = tables;
                let (offsets, held) = (&a.table(8), &b.table(4));
                arenascope_graph_ownership(
                    &*graph,
                    nodes,
                    above,
                    offsets,
                    held,
                    sizes,
                    whose,
                    whose,
                    &control,
                    into!(8),
                )
            }
            _ => {
                let (first, marks, parents) = (&a.table(4), &b.table(1), &c.table(4));
                arenascope_graph_mark(&*graph, first, marks, small, small & 1, parents, &control, &mut given[0])
            }
        };
        of(&mut given, code);
    }
    arenascope_graph_close(graph);
    arenascope_close(engine);
    Ok(())
}
