//! Which files have a module's debug information: its own, one that it names, one with its build-id, parts of these.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gimli::{constants as dw, DwarfPackage, SectionId};

use super::elf_file::{Binary, Link};
use super::units::{Debug, Module, R};
use crate::failure::{Failure, Result};
use crate::types::facts::Language;

/// What a door tells of a module.
pub struct GivenModule {
    /// Files that are proven to be its, the likeliest to have debug information first, and its own last.
    pub files: Vec<PathBuf>,
    pub build_id: Vec<u8>,
    pub base: u64,
    pub is_program: bool,
    /// Whether it is the C library.
    pub is_libc: bool,
}

/// Where else files may be.
#[derive(Default)]
pub struct Places {
    /// With separate debug information, such as /usr/lib/debug.
    pub folders: Vec<PathBuf>,
    /// debuginfod's, which is only read.
    pub cache: PathBuf,
    /// Whether files that files name are opened.
    pub follows: bool,
}

impl Places {
    fn by_build_id(&self, build_id: &[u8]) -> Vec<PathBuf> {
        let mut digits = String::new();
        for byte in build_id {
            let _ = write!(digits, "{byte:02x}");
        }
        if digits.len() < 4 {
            return Vec::new();
        }
        let name = format!(".build-id/{}/{}.debug", &digits[..2], &digits[2..]);
        let in_folders = self.folders.iter().map(|folder| folder.join(&name));
        in_folders.chain(std::iter::once(self.cache.join(&digits).join("debuginfo"))).collect()
    }

    /// What dwz has moved to another file.
    fn shared(&self, of: &Binary) -> Result<Option<Binary>> {
        let told = match of.read(".debug_sup")? {
            Some(contents) => supplement(&contents.bytes),
            None => None,
        };
        let Some(Link { name, build_id }) = told.as_ref().or(of.shared.as_ref()) else { return Ok(None) };
        let mut paths = vec![folder_of(&of.path).join(OsStr::from_bytes(name))];
        paths.extend(self.by_build_id(build_id));
        // its checksum is its build-id
        let proven = |each: &Binary| !build_id.is_empty() && each.build_id == *build_id || told.is_some();
        Ok(paths.iter().filter_map(|path| Binary::open(path)).filter(is_described).find(proven))
    }
}

fn is_described(file: &Binary) -> bool {
    file.size_of(".debug_info") > 0
}

/// The folder of a file behind links.
fn folder_of(path: &Path) -> PathBuf {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// DWARF 5's own way to name a supplementary file: version, whether it is one itself, name, checksum.
fn supplement(bytes: &[u8]) -> Option<Link> {
    let rest = bytes.get(3..).filter(|_| bytes[2] == 0)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(Link { name: rest[..end].to_owned(), build_id: rest.get(end + 2..)?.to_owned() })
}

impl Debug {
    /// Opens what there is of a module; the numbers of its units come behind those of modules before.
    pub fn add_module(&mut self, given: &GivenModule, places: &Places) -> Result<()> {
        if self.modules.len() > usize::from(u16::MAX) {
            return Err(Failure::BadInput);
        }
        let mut files: Vec<Binary> = given.files.iter().filter_map(|path| Binary::open(path)).collect();
        files.retain(|file| file.build_id == given.build_id);
        let described = files.iter().position(is_described);
        let first_address = files.last().map_or(given.base, |file| file.first_address);
        let (number, first) = (self.modules.len() as u32, self.units.len());
        self.modules.push(Module {
            base: given.base,
            bias: given.base.wrapping_sub(first_address),
            is_program: given.is_program,
            is_libc: given.is_libc,
            own: None,
            others: Vec::new(),
            is_described: described.is_some(),
            described_in: described.map_or_else(PathBuf::new, |at| files[at].path.clone()),
        });
        if let Some(described) = described {
            let file = &files[described];
            let mut dwarf = self.load(file, false)?;
            let mut shared = None;
            if places.follows {
                if let Some(supplement) = places.shared(file)? {
                    let sections = self.load(&supplement, false)?;
                    shared = Some(self.add_source(sections, number, None));
                    self.add_units(self.sources.len() as u32 - 1, None);
                    dwarf.sup = Some(self.sources[self.sources.len() - 1].dwarf.clone());
                }
            }
            let source = self.add_source(dwarf, number, shared);
            let first = self.units.len();
            self.add_units(source, None);
            if places.follows {
                self.add_parts(first..self.units.len(), &files, file)?;
            }
        }
        self.modules[number as usize].own = files.pop();
        self.modules[number as usize].others = files;
        self.adopt_languages(first);
        Ok(())
    }

    /// Units of which others are a part, as dwz makes them, say no language.
    fn adopt_languages(&mut self, first: usize) {
        let mut left: Vec<u32> = (first..self.units.len()).map(|number| number as u32).collect();
        left.retain(|number| self.units[*number as usize].language != Language::Unknown);
        while let Some(number) = left.pop() {
            let mut parts = Vec::new();
            self.children(self.root(number), |die, entry| {
                parts.extend(self.referred(die, dw::DW_AT_import));
                entry.tag() == dw::DW_TAG_imported_unit
            });
            let language = self.units[number as usize].language;
            for part in parts {
                let of = &mut self.units[part.unit as usize].language;
                if *of == Language::Unknown {
                    *of = language;
                    left.push(part.unit);
                }
            }
        }
    }

    /// The parts of units in files of their own (.dwo), or in a package of them.
    fn add_parts(&mut self, units: std::ops::Range<usize>, files: &[Binary], file: &Binary) -> Result<()> {
        let mut package: Option<Option<DwarfPackage<R>>> = None;
        for number in units {
            let root = self.root(number as u32);
            let named = self.text(root, dw::DW_AT_dwo_name).or_else(|| self.text(root, dw::DW_AT_GNU_dwo_name));
            let (Some(name), Some(id)) = (named, self.units[number].inner.dwo_id) else { continue };
            if package.is_none() {
                package = Some(self.package(files)?);
            }
            if let Some(Some(package)) = &package {
                let parent = self.dwarf(number as u32);
                let found = package.find_cu(id, parent).ok().flatten();
                if found.is_some_and(|dwarf| self.add_split(dwarf, number as u32)) {
                    continue;
                }
            }
            let name = Path::new(OsStr::from_bytes(name.slice()));
            let folder = self.units[number]
                .inner
                .comp_dir
                .map_or_else(PathBuf::new, |folder| Path::new(OsStr::from_bytes(folder.slice())).to_owned());
            let beside = folder_of(&file.path);
            let last = name.file_name().map_or_else(PathBuf::new, PathBuf::from);
            for path in [folder.join(name), beside.join(name), beside.join(last)] {
                let Some(part) = Binary::open(&path) else { continue };
                let dwarf = self.load(&part, true)?;
                if self.add_split(dwarf, number as u32) {
                    break;
                }
            }
        }
        if let Some(Some(package)) = &package {
            let skeleton = self.units.iter().rposition(|unit| unit.skeleton.is_some());
            let parent = skeleton.and_then(|number| self.units[number].skeleton);
            for index in 1..=package.tu_index.unit_count() {
                let Some(skeleton) = parent else { break };
                if let Ok(dwarf) = package.tu_sections(index, self.dwarf(skeleton)) {
                    self.add_types(dwarf, skeleton);
                }
            }
        }
        Ok(())
    }

    fn package(&mut self, files: &[Binary]) -> Result<Option<DwarfPackage<R>>> {
        for file in files {
            // that of a live process may be one of /proc/PID/map_files
            let real = file.path.canonicalize();
            let mut path = real.unwrap_or_else(|_| file.path.clone()).into_os_string();
            path.push(".dwp");
            let Some(binary) = Binary::open(Path::new(&path)) else { continue };
            let mut slices = HashMap::new();
            let ids = [
                SectionId::DebugCuIndex,
                SectionId::DebugTuIndex,
                SectionId::DebugAbbrev,
                SectionId::DebugInfo,
                SectionId::DebugLine,
                SectionId::DebugLoc,
                SectionId::DebugLocLists,
                SectionId::DebugRngLists,
                SectionId::DebugStr,
                SectionId::DebugStrOffsets,
                SectionId::DebugTypes,
            ];
            for id in ids {
                let contents = binary.read(id.dwo_name().unwrap_or(id.name()))?;
                slices.insert(id, self.hold(contents.map_or_else(Vec::new, |contents| contents.bytes), binary.little));
            }
            let empty = self.hold(Vec::new(), binary.little);
            let section = |id| Ok::<R, gimli::Error>(slices.get(&id).copied().unwrap_or(empty));
            if let Ok(package) = DwarfPackage::load(section, empty) {
                return Ok(Some(package));
            }
        }
        Ok(None)
    }
}
