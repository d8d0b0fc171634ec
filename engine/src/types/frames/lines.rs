//! Which line of which source file an address of code is of.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    constants as dw, AttributeValue, DebugLine, EndianSlice, IncompleteLineProgram, Reader, RunTimeEndian, Section,
};

use crate::failure::{copied, kept, push, Result};
use crate::types::dwarf::elf_file::{Binary, Contents};
use crate::types::dwarf::units::Debug;
use crate::types::frames::scopes::Line;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// A unit's table of lines.
#[derive(Default)]
struct Lines {
    /// Names of source files without folders, by their numbers: a file may have several.
    files: Vec<Vec<u8>>,
    /// In order of addresses.
    rows: Vec<Row>,
}

#[derive(Clone, Copy)]
struct Row {
    address: u64,
    file: u32,
    /// 0: none.
    line: u32,
}

impl Lines {
    fn new(debug: &Debug, unit: u32, program: IncompleteLineProgram<Slice>) -> Result<Lines> {
        let (mut files, mut rows): (Vec<Vec<u8>>, Vec<Row>) = (Vec::new(), Vec::new());
        let header = program.header();
        // before DWARF 5 the first one has number 1
        files.resize(usize::from(header.version() < 5), Vec::new());
        for file in header.file_names() {
            let dwarf = debug.dwarf(unit);
            let name = match file.path_name() {
                AttributeValue::String(name) => name.slice(),
                AttributeValue::DebugLineStrRef(at) => dwarf.line_string(at).map_or(&[][..], |name| name.slice()),
                AttributeValue::DebugStrRef(at) => dwarf.string(at).map_or(&[][..], |name| name.slice()),
                _ => &[],
            };
            let own = name.iter().rposition(|letter| *letter == b'/').map_or(0, |slash| slash + 1);
            push(&mut files, copied(&name[own..])?)?;
        }
        let mut found = program.rows();
        while let Ok(Some((_, row))) = found.next_row() {
            let line = if row.end_sequence() { 0 } else { row.line().map_or(0, |line| line.get()) };
            let (file, line) = (row.file_index() as u32, u32::try_from(line).unwrap_or(0));
            // code that the compiler made up belongs to what is before it
            if line > 0 || row.end_sequence() {
                push(&mut rows, Row { address: row.address(), file, line })?;
            }
        }
        // of several at one address the last counts; where a sequence ends another may begin
        rows.sort_by_key(|row| (row.address, row.line > 0));
        Ok(Lines { files, rows })
    }

    fn at(&self, code: u64) -> Option<Row> {
        let at = self.rows.partition_point(|row| row.address <= code).checked_sub(1)?;
        Some(self.rows[at]).filter(|row| row.line > 0)
    }

    fn file(&self, number: u64) -> Option<&[u8]> {
        self.files.get(usize::try_from(number).ok()?).map(Vec::as_slice)
    }
}

/// The tables of lines that were needed.
#[derive(Default)]
pub struct LineTables {
    /// Sections, by modules' numbers.
    sections: RefCell<HashMap<u32, Option<Rc<Contents>>>>,
    units: RefCell<HashMap<u32, Rc<Lines>>>,
}

impl LineTables {
    /// The line of an address of the file, which is in this unit.
    pub fn at(&self, debug: &Debug, unit: u32, code: u64) -> Result<Option<Line>> {
        let row = self.of(debug, unit)?.at(code);
        Ok(row.map(|row| Line { unit, file: row.file.into(), line: row.line.into() }))
    }

    /// Whether something is declared in this line's source file, and behind it.
    pub fn is_behind(&self, debug: &Debug, declared: Line, here: Line) -> Result<bool> {
        if declared.unit != here.unit || declared.line <= here.line {
            return Ok(false);
        }
        let lines = self.of(debug, here.unit)?;
        Ok(lines.file(here.file).is_some_and(|name| lines.file(declared.file) == Some(name)))
    }

    fn of(&self, debug: &Debug, unit: u32) -> Result<Rc<Lines>> {
        kept(&self.units, unit, || Ok(Rc::new(self.read(debug, unit)?.unwrap_or_default())))
    }

    fn read(&self, debug: &Debug, unit: u32) -> Result<Option<Lines>> {
        // that of a part in a file of its own is where the rest of the unit is
        let whole = debug.units[unit as usize].skeleton.unwrap_or(unit);
        let Some(AttributeValue::DebugLineRef(at)) = debug.value(debug.root(whole), dw::DW_AT_stmt_list) else {
            return Ok(None);
        };
        let Some(section) = self.section(debug, debug.module_of(whole))? else { return Ok(None) };
        let inner = &debug.units[whole as usize].inner;
        let endian = debug.dwarf(whole).debug_info.reader().endian();
        let program = DebugLine::new(&section.bytes, endian).program(at, inner.header.address_size(), None, None);
        program.ok().map(|program| Lines::new(debug, whole, program)).transpose()
    }

    fn section(&self, debug: &Debug, module: u32) -> Result<Option<Rc<Contents>>> {
        kept(&self.sections, module, || {
            let file = Binary::open(&debug.modules[module as usize].described_in);
            Ok(file.map_or(Ok(None), |file| file.read(".debug_line"))?.map(Rc::new))
        })
    }
}
