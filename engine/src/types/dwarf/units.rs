//! Debug information as it lies in files: sections, units, and access to each entry.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use gimli::{
    constants as dw, Abbreviations, AttributeValue, DebugAddrBase, DebugAddrIndex, DebugInfoOffset, DebugLocListsBase,
    DebugRngListsBase, DebugStrOffsetsBase, DebuggingInformationEntry, DwAt, DwTag, Dwarf, EndianSlice, Reader,
    RunTimeEndian, Section, SectionId, UnitHeader, UnitOffset, UnitSectionOffset, UnitType,
};

use super::elf_file::Binary;
use super::index::Scope;
use crate::failure::Result;
use crate::types::facts::Language;

/// SAFETY, for all of them: they are slices of `Debug::held`, which only grows, and lives as long as what has them.
pub type R = EndianSlice<'static, RunTimeEndian>;
pub type Entry<'a> = DebuggingInformationEntry<'a, 'a, R>;

const SECTIONS: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLineStr,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// An entry of debug information: the number of its unit, and where it is in the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Die {
    pub unit: u32,
    pub at: u32,
}

/// A module of the program, as its door tells.
pub struct Module {
    /// Its first address.
    pub base: u64,
    /// What the loader added to the addresses that it was linked for.
    pub bias: u64,
    pub is_program: bool,
    /// Whether it is the C library.
    pub is_libc: bool,
    /// Its own file, for unwinding.
    pub own: Option<Binary>,
    /// Files with more of its debug information and symbols.
    pub others: Vec<Binary>,
    /// Whether there is debug information of it.
    pub is_described: bool,
    /// The file that has this, which is opened again for tables of lines.
    pub described_in: PathBuf,
}

/// The sections of one file, or of one unit in a package (.dwp).
pub struct Source {
    pub dwarf: Arc<Dwarf<R>>,
    /// Number of its module.
    pub module: u32,
    /// Number of the source that dwz's references lead to.
    pub shared: Option<u32>,
    /// Its units.
    first: u32,
    end: u32,
}

pub struct Unit {
    pub source: u32,
    pub inner: gimli::Unit<R>,
    /// Where it begins in its section, and where it ends.
    start: usize,
    end: usize,
    in_types: bool,
    pub language: Language,
    pub is_big: bool,
    /// The unit in its own file that has this one's code addresses.
    pub skeleton: Option<u32>,
    /// Entries that others lie in.
    pub(super) scopes: Vec<Scope>,
}

impl Unit {
    pub(super) fn length(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

#[derive(Default)]
pub struct Debug {
    pub modules: Vec<Module>,
    pub(super) sources: Vec<Source>,
    pub units: Vec<Unit>,
    /// Type units, by module and signature.
    signatures: HashMap<(u32, u64), Die>,
    held: Vec<Box<[u8]>>,
}

impl Debug {
    /// Numbers of sources come in the order of files.
    pub(super) fn add_source(&mut self, dwarf: Dwarf<R>, module: u32, shared: Option<u32>) -> u32 {
        self.sources.push(Source { dwarf: Arc::new(dwarf), module, shared, first: 0, end: 0 });
        self.sources.len() as u32 - 1
    }

    /// The sections of a file, or of its split part.
    pub(super) fn load(&mut self, binary: &Binary, split: bool) -> Result<Dwarf<R>> {
        let names = SECTIONS.map(|each| if split { each.dwo_name().unwrap_or(each.name()) } else { each.name() });
        // inflating takes longer than anything else
        let read = std::thread::scope(|scope| {
            let work = names.map(|name| scope.spawn(move || binary.read(name)));
            work.map(|each| each.join().unwrap_or(Ok(None)))
        });
        let mut slices = HashMap::new();
        for (id, contents) in SECTIONS.into_iter().zip(read) {
            let bytes = contents?.map_or_else(Vec::new, |contents| contents.bytes);
            slices.insert(id, self.hold(bytes, binary.little));
        }
        let empty = self.hold(Vec::new(), binary.little);
        let section = |id| Ok::<R, gimli::Error>(slices.get(&id).copied().unwrap_or(empty));
        let mut dwarf = Dwarf::load(section).unwrap_or_default();
        if split {
            dwarf.file_type = gimli::DwarfFileType::Dwo;
        }
        Ok(dwarf)
    }

    pub(super) fn hold(&mut self, bytes: Vec<u8>, little: bool) -> R {
        let bytes = bytes.into_boxed_slice();
        // SAFETY: what `bytes` points to stays where it is when it is moved, and as long as `self` lives
        let slice: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        self.held.push(bytes);
        EndianSlice::new(slice, if little { RunTimeEndian::Little } else { RunTimeEndian::Big })
    }

    /// Units of a source, in the order of its sections.
    pub(super) fn add_units(&mut self, source: u32, skeleton: Option<u32>) {
        let dwarf = self.sources[source as usize].dwarf.clone();
        let first = self.units.len() as u32;
        // type units have one table in common
        let mut tables = HashMap::new();
        let mut add = |header: UnitHeader<R>| {
            let (start, in_types) = match header.offset() {
                UnitSectionOffset::DebugInfoOffset(at) => (at.0, false),
                UnitSectionOffset::DebugTypesOffset(at) => (at.0, true),
            };
            let end = start.saturating_add(header.length_including_self());
            if u32::try_from(end - start).is_err() {
                return;
            }
            let table = tables.entry(header.debug_abbrev_offset().0);
            let table =
                table.or_insert_with(|| dwarf.debug_abbrev.abbreviations(header.debug_abbrev_offset()).map(Arc::new));
            let Ok(abbreviations) = table.clone() else { return };
            let Ok((mut inner, language)) = parse_unit(&dwarf, header, abbreviations) else { return };
            if let Some(skeleton) = skeleton {
                inner.copy_relocated_attributes(&self.units[skeleton as usize].inner);
            }
            let number = self.units.len() as u32;
            if let UnitType::Type { type_signature, type_offset }
            | UnitType::SplitType { type_signature, type_offset } = header.type_()
            {
                let module = self.sources[source as usize].module;
                let die = Die { unit: number, at: type_offset.0 as u32 };
                self.signatures.entry((module, type_signature.0)).or_insert(die);
            }
            let is_big = dwarf.debug_info.reader().endian() == RunTimeEndian::Big;
            let scopes = Vec::new();
            self.units.push(Unit { source, inner, start, end, in_types, language, is_big, skeleton, scopes });
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            add(header);
        }
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            add(header);
        }
        let end = self.units.len() as u32;
        let each = &mut self.sources[source as usize];
        (each.first, each.end) = (first, end);
    }

    /// The sections of a unit in a package or a file of its own, with what they take from where its skeleton is. False
    /// if they are of another build.
    pub(super) fn add_split(&mut self, mut dwarf: Dwarf<R>, skeleton: u32) -> bool {
        let source = self.units[skeleton as usize].source;
        let Source { module, shared, .. } = self.sources[source as usize];
        dwarf.make_dwo(&self.sources[source as usize].dwarf);
        let wanted = self.units[skeleton as usize].inner.dwo_id;
        let (before, added) = (self.units.len(), self.add_source(dwarf, module, shared));
        self.add_units(added, Some(skeleton));
        let is_same = self.units[before..].iter().any(|unit| unit.inner.dwo_id == wanted);
        if !is_same {
            self.units.truncate(before);
            self.sources.pop();
            self.signatures.retain(|_, die| (die.unit as usize) < before);
        }
        is_same
    }

    /// A type unit of a package.
    pub(super) fn add_types(&mut self, dwarf: Dwarf<R>, beside: u32) {
        let Source { module, shared, .. } = self.sources[self.units[beside as usize].source as usize];
        let added = self.add_source(dwarf, module, shared);
        self.add_units(added, None);
    }

    pub fn unit(&self, die: Die) -> &Unit {
        &self.units[die.unit as usize]
    }

    pub fn dwarf(&self, unit: u32) -> &Dwarf<R> {
        &self.sources[self.units[unit as usize].source as usize].dwarf
    }

    /// The number of a unit's module.
    pub fn module_of(&self, unit: u32) -> u32 {
        self.sources[self.units[unit as usize].source as usize].module
    }

    pub fn module(&self, unit: u32) -> &Module {
        &self.modules[self.module_of(unit) as usize]
    }

    /// None: it is damaged.
    pub fn entry(&self, die: Die) -> Option<Entry<'_>> {
        self.unit(die).inner.entry(UnitOffset(die.at as usize)).ok()
    }

    /// The unit's own entry.
    pub fn root(&self, unit: u32) -> Die {
        Die { unit, at: self.units[unit as usize].inner.header.size_of_header() as u32 }
    }

    pub fn tag(&self, die: Die) -> Option<DwTag> {
        self.entry(die).map(|entry| entry.tag())
    }

    pub fn value(&self, die: Die, name: DwAt) -> Option<AttributeValue<R>> {
        self.entry(die)?.attr_value(name).ok().flatten()
    }

    pub fn flag(&self, die: Die, name: DwAt) -> bool {
        matches!(self.value(die, name), Some(AttributeValue::Flag(true)))
    }

    pub fn number(&self, die: Die, name: DwAt) -> Option<u64> {
        self.value(die, name)?.udata_value()
    }

    pub fn text_of(&self, unit: u32, value: AttributeValue<R>) -> Option<R> {
        self.dwarf(unit).attr_string(&self.units[unit as usize].inner, value).ok()
    }

    pub fn text(&self, die: Die, name: DwAt) -> Option<R> {
        self.text_of(die.unit, self.value(die, name)?)
    }

    pub fn name(&self, die: Die) -> Option<String> {
        self.text(die, dw::DW_AT_name).map(|name| name.to_string_lossy().into_owned())
    }

    /// The entry that an attribute leads to.
    pub fn referred(&self, die: Die, name: DwAt) -> Option<Die> {
        self.reference(die.unit, self.value(die, name)?)
    }

    pub fn reference(&self, unit: u32, value: AttributeValue<R>) -> Option<Die> {
        let source = self.units[unit as usize].source;
        match value {
            AttributeValue::UnitRef(at) => Some(Die { unit, at: u32::try_from(at.0).ok()? }),
            AttributeValue::DebugInfoRef(at) => self.at_offset(source, at),
            AttributeValue::DebugInfoRefSup(at) => self.at_offset(self.sources[source as usize].shared?, at),
            AttributeValue::DebugTypesRef(signature) => {
                self.signatures.get(&(self.sources[source as usize].module, signature.0)).copied()
            }
            _ => None,
        }
    }

    fn at_offset(&self, source: u32, at: DebugInfoOffset) -> Option<Die> {
        let Source { first, end, .. } = self.sources[source as usize];
        let units = &self.units[first as usize..end as usize];
        let place = units.partition_point(|unit| !unit.in_types && unit.start <= at.0).checked_sub(1)?;
        let unit = &units[place];
        (at.0 < unit.end).then(|| Die { unit: first + place as u32, at: (at.0 - unit.start) as u32 })
    }

    /// The entries in this one, each with its tag; `each` ends the search by false.
    pub fn children(&self, die: Die, mut each: impl FnMut(Die, Entry<'_>) -> bool) {
        let unit = &self.unit(die).inner;
        let Ok(mut cursor) = unit.entries_at_offset(UnitOffset(die.at as usize)) else { return };
        let mut depth = 0isize;
        loop {
            let Ok(Some((delta, entry))) = cursor.next_dfs() else { return };
            let (offset, entry) = (entry.offset().0, entry.clone());
            depth += delta;
            if depth <= 0 && offset != die.at as usize {
                return;
            }
            if depth == 1 && !each(Die { unit: die.unit, at: offset as u32 }, entry) {
                return;
            }
        }
    }

    /// The innermost namespace, type or function that it lies in.
    pub fn parent(&self, die: Die) -> Option<Die> {
        let scopes = &self.unit(die).scopes;
        let mut scope = scopes.get(scopes.partition_point(|scope| scope.at < die.at).checked_sub(1)?)?;
        while scope.end <= die.at {
            scope = scopes.get(scope.parent as usize)?;
        }
        Some(Die { unit: die.unit, at: scope.at })
    }

    /// The address that an attribute is.
    pub fn address_of(&self, unit: u32, value: AttributeValue<R>) -> Option<u64> {
        self.dwarf(unit).attr_address(&self.units[unit as usize].inner, value).ok().flatten()
    }

    /// Where code ends that begins at `low`.
    pub fn end_of_code(&self, unit: u32, low: u64, high: AttributeValue<R>) -> Option<u64> {
        match high.udata_value() {
            Some(size) => low.checked_add(size),
            None => self.address_of(unit, high),
        }
    }

    pub fn address(&self, unit: u32, index: DebugAddrIndex) -> Option<u64> {
        self.dwarf(unit).address(&self.units[unit as usize].inner, index).ok()
    }
}

/// What `gimli::Unit::new` does, without the table of lines.
fn parse_unit(
    dwarf: &Dwarf<R>,
    header: UnitHeader<R>,
    abbreviations: Arc<Abbreviations>,
) -> gimli::Result<(gimli::Unit<R>, Language)> {
    let (encoding, kind) = (header.encoding(), dwarf.file_type);
    let mut unit = gimli::Unit {
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
        addr_base: DebugAddrBase(0),
        loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
        rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
        line_program: None,
        dwo_id: match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    };
    let (mut name, mut folder, mut low, mut language) = (None, None, None, Language::Unknown);
    let abbreviations = unit.abbreviations.clone();
    let mut entries = unit.header.entries(&abbreviations);
    entries.next_dfs()?;
    let root = entries.current().ok_or(gimli::Error::MissingUnitDie)?;
    let mut attributes = root.attrs();
    while let Some(each) = attributes.next()? {
        match (each.name(), each.value()) {
            (dw::DW_AT_name, value) => name = Some(value),
            (dw::DW_AT_comp_dir, value) => folder = Some(value),
            (dw::DW_AT_low_pc, value) => low = Some(value),
            (dw::DW_AT_language, AttributeValue::Language(told)) => language = language_of(told),
            (_, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
            (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
            (_, AttributeValue::DebugLocListsBase(base)) => unit.loclists_base = base,
            (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
            (dw::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => unit.dwo_id = unit.dwo_id.or(Some(id)),
            _ => {}
        }
    }
    unit.name = name.and_then(|value| dwarf.attr_string(&unit, value).ok());
    unit.comp_dir = folder.and_then(|value| dwarf.attr_string(&unit, value).ok());
    unit.low_pc = low.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten()).unwrap_or(0);
    Ok((unit, language))
}

fn language_of(told: gimli::DwLang) -> Language {
    match told {
        dw::DW_LANG_C | dw::DW_LANG_C89 | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17 => Language::C,
        dw::DW_LANG_C_plus_plus
        | dw::DW_LANG_C_plus_plus_03
        | dw::DW_LANG_C_plus_plus_11
        | dw::DW_LANG_C_plus_plus_14
        | dw::DW_LANG_C_plus_plus_17
        | dw::DW_LANG_C_plus_plus_20 => Language::CPlusPlus,
        dw::DW_LANG_Rust => Language::Rust,
        gimli::DwLang(0x3a) => Language::CPlusPlus, // C++23
        gimli::DwLang(0x3e) => Language::C,         // C23
        _ => Language::Unknown,
    }
}
