//! What modules have besides types: functions' names by their files' symbols, classes of objects by their vtables.
//!
//! Of the Itanium C++ ABI: an object's first word points past two words, how far it lies from the object's own start (0
//! for a whole object), and its type_info. That is an object itself, whose class is one of three of the ABI's; after
//! its own vtable's address it has the mangled name.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{text, Modules, VtableClass};
use crate::image::Image;
use crate::types::dwarf::elf_file::Binary;
use crate::types::dwarf::units::Module;
use crate::types::mangled::demangled;
use crate::types::spelling::spelled;

/// The classes that type_infos of classes are of: without bases, with a single one, with several or virtual ones.
const TYPE_INFOS: [&[u8]; 3] = [
    b"N10__cxxabiv117__class_type_infoE",
    b"N10__cxxabiv120__si_class_type_infoE",
    b"N10__cxxabiv121__vmi_class_type_infoE",
];
const VTABLE: &str = "vtable for ";
const TYPE_NAME: &str = "typeinfo name for ";
const LONGEST_NAME: usize = 4096;

/// The modules of one image.
pub struct LoadedModules<'a> {
    image: &'a Image,
    modules: Vec<Loaded<'a>>,
    metas: RefCell<HashMap<u64, bool>>,
}

struct Loaded<'a> {
    module: &'a Module,
    /// The file that has the most symbols, and these in order of their addresses.
    symbols: OnceCell<Option<Symbols<'a>>>,
}

struct Symbols<'a> {
    file: &'a Binary,
    all: Vec<(u64, u32)>,
}

impl<'a> LoadedModules<'a> {
    pub fn new(image: &'a Image, modules: &'a [Module]) -> LoadedModules<'a> {
        let mut modules: Vec<_> = modules.iter().map(|module| Loaded { module, symbols: OnceCell::new() }).collect();
        modules.sort_by_key(|each| each.module.base);
        LoadedModules { image, modules, metas: RefCell::default() }
    }

    /// The module that may have an address, and the address that it was linked for.
    fn at(&self, address: u64) -> Option<(&Loaded<'a>, u64)> {
        let number = self.modules.partition_point(|each| each.module.base <= address);
        let loaded = self.modules.get(number.checked_sub(1)?)?;
        Some((loaded, address.wrapping_sub(loaded.module.bias)))
    }

    /// From memory or, as not every image has what does not change, from a module's file.
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        if self.image.fill(address, to) {
            return true;
        }
        let found = self.at(address).and_then(|(loaded, linked)| Some((loaded.module.own.as_ref()?, linked)));
        found.is_some_and(|(file, linked)| file.read_linked(linked, to))
    }

    fn words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let word = self.image.word as usize;
        let (mut bytes, mut words) = ([0; 32], [0; N]);
        let bytes = bytes.get_mut(..N * word)?;
        if address % self.image.word != 0 || !self.read(address, bytes) {
            return None;
        }
        for (to, bytes) in words.iter_mut().zip(bytes.chunks_exact(word)) {
            *to = self.image.number(bytes);
        }
        Some(words)
    }

    fn string(&self, address: u64) -> Option<Vec<u8>> {
        let found = text(address, LONGEST_NAME, |at, to| self.read(at, to)).ok().flatten();
        found.filter(|name| name.len() < LONGEST_NAME)
    }

    fn by_type_info(&self, address: u64) -> Option<Rc<str>> {
        let [meta, name] = self.words(Some(address).filter(|address| *address != 0)?)?;
        if !self.is_meta(meta) {
            return None;
        }
        let mangled = String::from_utf8(self.string(name)?).ok()?;
        // GCC's mark of a class that no other file knows
        let mangled = mangled.trim_start_matches('*');
        let is_mangled = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
        if mangled.is_empty() || !mangled.bytes().all(is_mangled) {
            return None;
        }
        let name = demangled(&format!("_ZTS{mangled}"));
        Some(name.strip_prefix(TYPE_NAME).map_or_else(|| mangled.into(), |name| spelled(name).into()))
    }

    /// Whether that is the vtable of a class that describes classes.
    fn is_meta(&self, table: u64) -> bool {
        if let Some(known) = self.metas.borrow().get(&table) {
            return *known;
        }
        let name = || {
            let [meta] = self.words(table.wrapping_sub(self.image.word))?;
            let [_, name] = self.words(meta)?;
            self.string(name)
        };
        let found = table != 0 && name().is_some_and(|name| TYPE_INFOS.contains(&&name[..]));
        self.metas.borrow_mut().insert(table, found);
        found
    }
}

impl<'a> Loaded<'a> {
    /// The symbols of what begins at an address, as it was linked for.
    fn symbols_at(&self, linked: u64) -> Option<(&'a Binary, &[(u64, u32)])> {
        let symbols = self.symbols.get_or_init(|| {
            let files = self.module.own.iter().chain(&self.module.others);
            let all = files.map(|file| Symbols { file, all: file.symbols() });
            all.max_by_key(|symbols| symbols.all.len())
        });
        let symbols = symbols.as_ref()?;
        let first = symbols.all.partition_point(|(address, _)| *address < linked);
        let count = symbols.all[first..].partition_point(|(address, _)| *address == linked);
        Some((symbols.file, &symbols.all[first..first + count]))
    }

    /// The mangled name of what begins there; of several the first.
    fn symbol(&self, linked: u64) -> Option<String> {
        let (file, here) = self.symbols_at(linked)?;
        here.iter().find_map(|(_, number)| file.symbol_name(*number).filter(|name| name.starts_with('_')))
    }
}

impl Modules for LoadedModules<'_> {
    fn symbol(&self, address: u64) -> Option<Rc<str>> {
        let (loaded, linked) = self.at(address)?;
        loaded.symbol(linked).map(|name| demangled(&name).into())
    }

    fn has_symbol(&self, address: u64) -> bool {
        let symbols = self.at(address).and_then(|(loaded, linked)| loaded.symbols_at(linked));
        symbols.is_some_and(|(_, here)| !here.is_empty())
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        LoadedModules::read(self, address, to)
    }

    fn vtable(&self, table: u64) -> Option<VtableClass> {
        let word = self.image.word;
        let [top, info, _] = self.words(table.checked_sub(2 * word)?)?;
        let top = if word == 8 { top as i64 } else { i64::from(top as u32 as i32) };
        if top > 0 {
            return None;
        }
        let mut name = self.by_type_info(info);
        if name.is_none() && top == 0 && info == 0 {
            // compiled with -fno-rtti
            let symbol = self.symbol(table - 2 * word)?;
            name = symbol.strip_prefix(VTABLE).map(|name| spelled(name).into());
        }
        name.map(|name| VtableClass { name, top })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Piece;

    const BASE: u64 = 0x7f00_0000_0000;

    /// An image of one piece with these words, and texts from 2048 on, each 256 bytes behind the one before.
    fn with_image<R>(words: &[(usize, u64)], texts: &[&str], look: impl FnOnce(&LoadedModules) -> R) -> R {
        let mut bytes = vec![0; 4096];
        for (at, word) in words {
            bytes[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        for (number, text) in texts.iter().enumerate() {
            bytes[2048 + 256 * number..][..text.len()].copy_from_slice(text.as_bytes());
        }
        let mut image = Image::new(8, false);
        image.set(&[Piece::of(BASE, &bytes)]).unwrap();
        look(&LoadedModules::new(&image, &[]))
    }

    fn text(number: u64) -> u64 {
        BASE + 2048 + 256 * number
    }

    #[test]
    fn a_vtable_tells_its_class_by_rtti() {
        let top = (-16i64) as u64;
        let words = [
            // the ABI's own vtable, and its type_info
            (1, BASE + 8 * 4),
            (4, 0),
            (5, text(0)),
            // the class's type_info
            (8, BASE + 8 * 2),
            (9, text(1)),
            // its vtable, and that of its second base
            (17, BASE + 8 * 8),
            (20, top),
            (21, BASE + 8 * 8),
            // what is no class's
            (25, BASE + 8 * 4),
            (28, 7),
            (29, BASE + 8 * 8),
        ];
        let texts = ["N10__cxxabiv120__si_class_type_infoE", "N3app4RingIPKcLi5ESt6vectorIiSaIiEEEE"];
        with_image(&words, &texts, |modules| {
            let name: Rc<str> = "app::Ring<char const*, 5, std::vector<int, std::allocator<int>>>".into();
            let class = |top| Some(VtableClass { name: name.clone(), top });
            assert_eq!(modules.vtable(BASE + 8 * 18), class(0));
            assert_eq!(modules.vtable(BASE + 8 * 22), class(-16));
            for other in [BASE + 8 * 26, BASE + 8 * 30, BASE + 8 * 18 + 4, BASE, 8, u64::MAX - 7] {
                assert_eq!(modules.vtable(other), None);
            }
        });
    }
}
