//! Names of functions, variables and classes as their symbols have them, in the spelling of programmers.

use crate::{guarded, Given, Table};

const LONGEST: usize = 64 << 10;
/// How the crate spells them, and how everybody else does.
const SPECIAL: [(&str, &str); 2] = [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")];

/// Of an empty pack among a template's arguments the crate leaves the comma.
const SPELLINGS: [(&str, &str); 9] = [
    (", , ", ", "),
    ("<, ", "<"),
    (", >", ">"),
    ("> >", ">>"),
    ("_GLOBAL__N_1", "(anonymous namespace)"),
    (" const const", " const"),
    ("std::nullptr_t", "decltype(nullptr)"),
    ("std::basic_istream<char, std::char_traits<char>>", "std::istream"),
    ("std::basic_iostream<char, std::char_traits<char>>", "std::iostream"),
];
/// Numbers of these types have suffixes, where the crate writes casts.
const SUFFIXES: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(long)", "l"),
    ("(unsigned long)", "ul"),
    ("(long long)", "ll"),
    ("(unsigned long long)", "ull"),
];

/// Parts of names whose parameters the crate misreads: packs, and templates' constructors.
const MISREAD: [&str; 3] = ["Dp", "C1I", "C2I"];

/// A name as a program has it, of a function without what it returns; what is not mangled stays as it is.
pub fn demangled(name: &str) -> String {
    let mut bounded = Bounded(String::new());
    // without a hash a name is rather of C++
    let may_be_rusts = name.starts_with("_R") || name.contains("17h");
    let rust = may_be_rusts.then(|| rustc_demangle::try_demangle(without_suffix(name)).ok()).flatten();
    let written = match rust {
        Some(rust) => std::fmt::write(&mut bounded, format_args!("{rust:#}")).ok(),
        None => of_cplusplus(name, &mut bounded),
    };
    match written {
        Some(()) => bounded.0,
        None => name.to_owned(),
    }
}

/// The same of UTF-8 text, as a table of bytes.
#[no_mangle]
pub unsafe extern "C" fn arenascope_demangled(name: &Table, to: &mut Given) -> i32 {
    guarded(|| {
        *to = Given::of(demangled(&String::from_utf8_lossy(name.of())).into_bytes());
        Ok(())
    })
}

/// A name of Rust's without what LLVM has behind it (`MAIN.0`).
fn without_suffix(name: &str) -> &str {
    let from = if name.starts_with("_R") { 0 } else { name.rfind("E.").map_or(name.len(), |end| end + 1) };
    &name[..name[from..].find('.').map_or(name.len(), |at| from + at)]
}

fn of_cplusplus(name: &str, to: &mut Bounded) -> Option<()> {
    let mut options = cpp_demangle::DemangleOptions::new().no_return_type();
    if MISREAD.iter().any(|each| name.contains(each)) {
        options = options.no_params();
    }
    cpp_demangle::Symbol::new(name).ok()?.structured_demangle(to, &options).ok()?;
    for (ours, usual) in SPECIAL {
        if let Some(inner) = to.0.strip_prefix(ours).and_then(|text| text.strip_suffix(")}")) {
            to.0 = format!("{usual}{inner}");
        }
    }
    for (ours, usual) in SPELLINGS {
        while to.0.contains(ours) {
            to.0 = to.0.replace(ours, usual);
        }
    }
    for (cast, suffix) in SUFFIXES {
        to.0 = with_suffixes(&to.0, cast, suffix);
    }
    Some(())
}

fn with_suffixes(text: &str, cast: &str, suffix: &str) -> String {
    let mut parts = text.split(cast);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        all += &if number.is_empty() { format!("{cast}{rest}") } else { format!("{number}{suffix}{rest}") };
    }
    all
}

/// What is mangled can be very much longer.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_as_they_are_spelled() {
        assert_eq!(demangled("_ZN3app4core17h0123456789abcdefE"), "app::core");
        assert_eq!(demangled("_ZN3app5InnerI3FooIiEE3runEv"), "app::Inner<Foo<int>>::run()");
        assert_eq!(demangled("_ZTVN3app5InnerI3FooIiEEE"), "vtable for app::Inner<Foo<int>>");
        assert_eq!(demangled("_ZN3app3runIiEEbT_"), "app::run<int>(int)");
        assert_eq!(demangled("_ZN3app3runILm8ELin1EEEvPFvlE"), "app::run<8ul, -1>(void (*)(long))");
        assert_eq!(demangled("_ZN12_GLOBAL__N_15tableE"), "(anonymous namespace)::table");
        assert_eq!(demangled("_RNvNtC3std6thread4MAIN.0"), "std::thread::MAIN");
        assert_eq!(
            demangled("_ZTS4PassI6ModuleJEJEiS_I4UnitJEEJEE"),
            "typeinfo name for Pass<Module, int, Pass<Unit>>"
        );
        assert_eq!((&*demangled("main"), &*demangled("_Zwrong")), ("main", "_Zwrong"));
        // each argument is twice as long as the one before
        let arguments = "0123456789ABCDEFGHIJKLMNOPQRS".chars().map(|each| format!("S_IS{each}_S{each}_E"));
        let long = format!("_Z1fSt4pairIiiE{}", arguments.collect::<String>());
        assert_eq!(demangled(&long), long);
    }
}
