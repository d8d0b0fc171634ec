//! Names of functions, variables and classes as their symbols have them, in the spelling of programmers.

const LONGEST: usize = 64 << 10;
/// How the crate spells them, and how everybody else does.
const SPECIAL: [(&str, &str); 2] = [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")];

/// Of an empty pack among a template's arguments the crate leaves the comma.
const SPELLINGS: [(&str, &str); 4] = [(", , ", ", "), ("<, ", "<"), (", >", ">"), ("> >", ">>")];

/// A name as a program has it, of a function without what it returns; what is not mangled stays as it is.
pub fn demangled(name: &str) -> String {
    let mut bounded = Bounded(String::new());
    let written = match rustc_demangle::try_demangle(name) {
        Ok(rust) => std::fmt::write(&mut bounded, format_args!("{rust:#}")).ok(),
        Err(_) => of_cplusplus(name, &mut bounded),
    };
    match written {
        Some(()) => bounded.0,
        None => name.to_owned(),
    }
}

fn of_cplusplus(name: &str, to: &mut Bounded) -> Option<()> {
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
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
    Some(())
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
