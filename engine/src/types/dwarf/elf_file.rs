//! An ELF file, read part by part into memory of our own: a mapped file that is cut meanwhile would end the process.

use std::fs::{File, OpenOptions};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use object::read::{
    CompressedFileRange, CompressionFormat, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolIndex,
};

use crate::failure::{append, filled, push, with_room, Result};

/// Opening a FIFO does not wait for who writes to it.
const O_NONBLOCK: i32 = 0o4000;
/// A section inflates to at most so many times its size (zlib reaches 1,032, with zeros; genuine ones 5), and `SMALL`.
const MOST_INFLATED: u64 = 64;
const SMALL: u64 = 1 << 20;
const READ_AT_ONCE: usize = 16 << 20;

struct Section {
    name: String,
    address: u64,
    range: CompressedFileRange,
}

/// A section of a file, whole and inflated, and the address that it was linked for.
pub struct Contents {
    pub bytes: Vec<u8>,
    pub address: u64,
}

/// Another file that a file names.
pub struct Link {
    pub name: Vec<u8>,
    pub build_id: Vec<u8>,
}

/// A symbol that other files of the module can use.
pub struct GlobalSymbol {
    pub address: u64,
    /// The hash of its name.
    pub name: u64,
    /// Whether other modules can use it, too.
    pub is_exported: bool,
}

pub struct Binary {
    pub path: PathBuf,
    pub little: bool,
    /// Bytes of a pointer.
    pub word: u64,
    pub machine: object::Architecture,
    pub build_id: Vec<u8>,
    /// The address that the file's first byte was linked for.
    pub first_address: u64,
    /// Where the block of thread-local variables was linked, and its bytes.
    pub thread_block: (u64, u64),
    /// What dwz moved to a file that several have in common.
    pub shared: Option<Link>,
    sections: Vec<Section>,
    file: File,
}

impl Binary {
    /// None: there is no such file, or it is no ELF file.
    pub fn open(path: &Path) -> Option<Binary> {
        let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        file.seek(SeekFrom::Start(0)).ok()?;
        let cache = ReadCache::new(file.try_clone().ok()?);
        let parsed = object::read::File::parse(&cache).ok()?;
        let of_threads = parsed.sections().filter(|each| matches!(each.name(), Ok(".tdata" | ".tbss")));
        let spans: Vec<_> =
            of_threads.map(|each| (each.address(), each.address().saturating_add(each.size()))).collect();
        let start = spans.iter().map(|span| span.0).min().unwrap_or(0);
        let thread_block = (start, spans.iter().map(|span| span.1).max().unwrap_or(0) - start);
        let mut sections = Vec::new();
        for each in parsed.sections() {
            let (Ok(name), Ok(range)) = (each.name(), each.compressed_file_range()) else { continue };
            if range.format == CompressionFormat::Unknown {
                continue;
            }
            sections.push(Section { name: name.to_owned(), address: each.address(), range });
        }
        let first = parsed.segments().next();
        let made = Binary {
            path: path.to_owned(),
            little: parsed.is_little_endian(),
            word: if parsed.is_64() { 8 } else { 4 },
            machine: parsed.architecture(),
            build_id: parsed.build_id().ok().flatten().unwrap_or_default().to_owned(),
            first_address: first.map_or(0, |each| each.address().wrapping_sub(each.file_range().0)),
            thread_block,
            shared: parsed
                .gnu_debugaltlink()
                .ok()
                .flatten()
                .map(|(name, build_id)| Link { name: name.to_owned(), build_id: build_id.to_owned() }),
            sections,
            file,
        };
        Some(made)
    }

    fn find(&self, name: &'static str) -> impl Iterator<Item = &Section> {
        // compressed in the old way a section is called so
        let old = move |other: &str| other.strip_prefix(".z") == name.strip_prefix('.');
        self.sections.iter().filter(move |each| each.name == name || old(&each.name))
    }

    /// How many bytes a section has in memory; 0: none.
    pub fn size_of(&self, name: &'static str) -> u64 {
        self.find(name).map(|each| each.range.uncompressed_size).fold(0, u64::saturating_add)
    }

    /// Its global symbols, in order, each name once at an address.
    pub fn global_symbols(&self, hash: impl Fn(&[u8]) -> u64) -> Vec<GlobalSymbol> {
        let found = self.parsed(|file| {
            let exported = file.dynamic_symbols().map(|each| (each, true));
            let all = exported.chain(file.symbols().map(|each| (each, false)));
            let global = all.filter(|(each, _)| each.is_global() && each.is_definition());
            let named = global.filter_map(|(each, is_exported)| {
                Some(GlobalSymbol { address: each.address(), name: hash(each.name_bytes().ok()?), is_exported })
            });
            Some(named.collect())
        });
        let mut found: Vec<GlobalSymbol> = found.unwrap_or_default();
        found.sort_unstable_by_key(|each| (each.address, each.name, !each.is_exported));
        found.dedup_by_key(|each| (each.address, each.name));
        found
    }

    /// One after the other, if several are called so: a split file has type units in sections of their own. None: there
    /// is none, or the file is cut or damaged.
    pub fn read(&self, name: &'static str) -> Result<Option<Contents>> {
        let mut all: Option<Contents> = None;
        for section in self.find(name) {
            let Some(bytes) = self.read_section(section)? else { return Ok(None) };
            match &mut all {
                Some(all) => {
                    append(&mut all.bytes, bytes)?;
                }
                None => all = Some(Contents { bytes, address: section.address }),
            }
        }
        Ok(all)
    }

    fn read_section(&self, section: &Section) -> Result<Option<Vec<u8>>> {
        let length = self.file.metadata().map_or(0, |about| about.len());
        let CompressedFileRange { format, offset, compressed_size: size, uncompressed_size: whole } = section.range;
        let end = offset.checked_add(size);
        let bound = size.saturating_mul(MOST_INFLATED).saturating_add(SMALL);
        if end.map_or(true, |end| end > length) || whole > bound || usize::try_from(bound).is_err() {
            return Ok(None);
        }
        let mut raw = with_room(size as usize)?;
        while raw.len() < size as usize {
            let done = raw.len();
            raw.resize(size.min((done + READ_AT_ONCE) as u64) as usize, 0);
            if self.file.read_exact_at(&mut raw[done..], offset + done as u64).is_err() {
                return Ok(None);
            }
        }
        match format {
            CompressionFormat::None => Ok(Some(raw)),
            _ => inflated(&raw, whole, format),
        }
    }

    /// Fills `to` with what was linked for an address on; false where the file has no such bytes.
    pub fn read_linked(&self, address: u64, to: &mut [u8]) -> bool {
        let has = |section: &&Section| {
            let within = address.checked_sub(section.address).filter(|_| section.address > 0);
            let rest = within.and_then(|within| section.range.compressed_size.checked_sub(within));
            section.range.format == CompressionFormat::None && rest.is_some_and(|rest| rest >= to.len() as u64)
        };
        let Some(section) = self.sections.iter().find(has) else { return false };
        let place = section.range.offset.checked_add(address - section.address);
        place.is_some_and(|place| self.file.read_exact_at(to, place).is_ok())
    }

    /// The addresses that symbols were linked for, in order, each with the symbol's number.
    pub fn symbols(&self) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        self.parsed(|file| {
            for each in file.symbols().filter(|each| each.is_definition() && each.address() != 0) {
                if push(&mut found, (each.address(), each.index().0 as u32)).is_err() {
                    break;
                }
            }
            Some(())
        });
        found.sort_unstable();
        found
    }

    pub fn symbol_name(&self, number: u32) -> Option<String> {
        self.parsed(|file| Some(file.symbol_by_index(SymbolIndex(number as usize)).ok()?.name().ok()?.to_owned()))
    }

    fn parsed<T>(&self, look: impl FnOnce(&object::read::File<'_, &ReadCache<File>>) -> Option<T>) -> Option<T> {
        let cache = ReadCache::new(self.file.try_clone().ok()?);
        let parsed = object::read::File::parse(&cache).ok()?;
        look(&parsed)
    }
}

/// None: it is damaged, or packed in a way that nobody here knows.
fn inflated(raw: &[u8], size: u64, format: CompressionFormat) -> Result<Option<Vec<u8>>> {
    let mut room = filled(size as usize, 0u8)?;
    let is_whole = match format {
        CompressionFormat::Zlib => {
            decompress_slice_iter_to_slice(&mut room, std::iter::once(raw), true, true) == Ok(room.len())
        }
        CompressionFormat::Zstandard => ruzstd::StreamingDecoder::new(Cursor::new(raw))
            .is_ok_and(|mut decoder| decoder.read_exact(&mut room).is_ok()),
        _ => false,
    };
    Ok(is_whole.then_some(room))
}
