//! One spelling for names of types, which compilers write differently: what symbols and RTTI have.
//!
//! `Ring<const char *, (Color)5U, 'x'>` is `Ring<char const*, (Color)5, (char)120>`. Numbers have no suffixes, which
//! debug information does not always have. A name that is no C++ keeps its spelling, except for spaces.

const DEEPEST: u32 = 64;
const LONGEST: usize = 16 << 10;

/// It is no type of C++.
struct NotCplusplus;

type Read<T> = Result<T, NotCplusplus>;

/// The common spelling of a name.
pub fn spelled(name: &str) -> String {
    if name.len() > LONGEST {
        return name.to_owned();
    }
    at_depth(name.trim(), 0)
}

/// A name's namespace or class, which may be empty, and its own name in it: ("ns::Ring<ns::T>", "Node").
pub fn within(name: &str) -> (&str, &str) {
    let covered = brackets(name);
    let mut at = name.len();
    while let Some(found) = name[..at].rfind("::") {
        at = found;
        if !covered.iter().any(|(start, end)| *start < at && at < *end) {
            return (&name[..at], &name[at + 2..]);
        }
    }
    ("", name)
}

/// A class template's name, and its arguments as they are written: ("ns::Ring", ["ns::T", "5"]). None if the name does
/// not end in arguments.
pub fn parts_of(name: &str) -> Option<(&str, Vec<&str>)> {
    let is_last = |(start, end): &(usize, usize)| *end == name.len() && name[*start..].starts_with('<');
    let (start, _) = brackets(name).into_iter().find(is_last)?;
    Some((&name[..start], split(name.get(start + 1..name.len() - 1)?)))
}

/// A number among a template's arguments, of the type of that name.
pub fn literal(of: &str, value: &str) -> String {
    match of {
        "bool" => if value.trim_start_matches('0').is_empty() { "false" } else { "true" }.to_owned(),
        "int" | "unsigned int" | "long" | "unsigned long" | "long long" | "unsigned long long" => value.to_owned(),
        _ => format!("({of}){value}"),
    }
}

fn at_depth(name: &str, depth: u32) -> String {
    if depth > DEEPEST {
        return name.to_owned();
    }
    if let Some(text) = character(name).or_else(|| cast(name, depth)).or_else(|| number(name).map(str::to_owned)) {
        return text;
    }
    let mut reader = Reader { text: name, depth, at: 0 };
    if let Ok(kind) = reader.kind() {
        reader.skip();
        if reader.at == name.len() {
            return kind.text();
        }
    }
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").replace("> >", ">>").replace("> >", ">>")
}

/// "-5ul" is "-5".
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = digits[count..].to_ascii_lowercase();
    let is_number = count > 0 && matches!(suffix.as_str(), "" | "u" | "l" | "ul" | "ll" | "ull");
    is_number.then(|| &text[..text.len() - suffix.len()])
}

/// "(Color)5", "(ns::Color) 5u".
fn cast(text: &str, depth: u32) -> Option<String> {
    let close = text.rfind(')')?;
    let of = text[..close].strip_prefix('(').filter(|of| !of.is_empty())?;
    let is_type = |letter: char| letter.is_alphanumeric() || "_:<>, ()*&".contains(letter);
    let value = number(text[close + 1..].strip_prefix(' ').unwrap_or(&text[close + 1..]))?;
    of.chars().all(is_type).then(|| literal(&at_depth(of, depth + 1), value))
}

/// "'x'", "(char) '\\n'".
fn character(text: &str) -> Option<String> {
    let (of, quoted) = match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((of, quoted)) if of.bytes().all(|each| each.is_ascii_lowercase() || each == b' ') => {
            (of, quoted.strip_prefix(' ').unwrap_or(quoted))
        }
        Some(_) => return None,
        None => ("char", text),
    };
    let inside = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
    let code = match inside.strip_prefix('\\') {
        Some(octal)
            if octal.len() <= 3 && !octal.is_empty() && octal.bytes().all(|each| matches!(each, b'0'..=b'7')) =>
        {
            u32::from_str_radix(octal, 8).ok()?
        }
        Some(hex) if hex.len() > 1 && hex.starts_with('x') => u32::from_str_radix(&hex[1..], 16).ok()?,
        Some("n") => 10,
        Some("t") => 9,
        Some("r") => 13,
        Some("a") => 7,
        Some("b") => 8,
        Some("v") => 11,
        Some("f") => 12,
        escaped => {
            let mut letters = escaped.unwrap_or(inside).chars();
            let one = letters.next()?;
            u32::from(letters.next().map_or(Some(one), |_| None)?)
        }
    };
    Some(format!("({of}){code}"))
}

fn closing(letter: u8) -> Option<u8> {
    match letter {
        b'(' => Some(b')'),
        b'<' => Some(b'>'),
        b'[' => Some(b']'),
        b'{' => Some(b'}'),
        _ => None,
    }
}

fn is_word(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'$' || letter >= 0x80
}

/// The length of an operator's name whose signs are brackets or look like them: "operator<<".
fn operator(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("operator")?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let signs = ["<=>", "<<=", "<<", ">>=", ">>", "->*", "->", "<=", ">=", "<", ">", "()", "[]"];
    let sign = signs.iter().find(|sign| rest.starts_with(**sign))?;
    Some(text.len() - rest.len() + sign.len())
}

/// Each outermost pair of brackets.
fn brackets(name: &str) -> Vec<(usize, usize)> {
    let (bytes, mut found, mut at) = (name.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let begins = at == 0 || !is_word(bytes[at - 1]);
        let length = if begins && bytes[at] == b'o' { operator(&name[at..]) } else { None };
        if let Some(length) = length {
            at += length;
        } else if closing(bytes[at]).is_some() {
            let end = end_of(name, at);
            found.push((at, end));
            at = end;
        } else if bytes[at] == b'\'' {
            at = end_of_quotes(name, at);
        } else {
            at += 1;
        }
    }
    found
}

/// The place behind the bracket that closes the one at `start`; the name's end if none does.
fn end_of(name: &str, start: usize) -> usize {
    let (bytes, mut waiting, mut at) = (name.as_bytes(), Vec::new(), start);
    while at < bytes.len() {
        let letter = bytes[at];
        if letter == b'\'' {
            at = end_of_quotes(name, at);
            continue;
        }
        if let Some(closed) = closing(letter) {
            waiting.push(closed);
        } else if waiting.last() == Some(&letter) && !(letter == b'>' && bytes[at - 1] == b'-') {
            waiting.pop();
            if waiting.is_empty() {
                return at + 1;
            }
        }
        at += 1;
    }
    name.len()
}

/// Behind 'x', '\\n', ''' and 'lambda1' alike.
fn end_of_quotes(name: &str, start: usize) -> usize {
    let rest = &name[start + 1..];
    let mut letters = rest.chars();
    let length = match letters.next() {
        Some('\\') => {
            let digits = |from: usize, is: fn(&u8) -> bool| rest.bytes().skip(from).take_while(is).count();
            match letters.next() {
                Some('x') if digits(2, |each| each.is_ascii_hexdigit()) > 0 => 2 + digits(2, u8::is_ascii_hexdigit),
                Some('0'..='7') => 1 + digits(1, |each| matches!(each, b'0'..=b'7')).min(3),
                Some(other) => 1 + other.len_utf8(),
                None => return start + 1,
            }
        }
        Some(one) if rest[one.len_utf8()..].starts_with('\'') => one.len_utf8(),
        _ => {
            let word = ["lambda", "unnamed"].iter().find(|word| rest.starts_with(**word));
            let Some(word) = word else { return start + 1 };
            word.len() + rest[word.len()..].bytes().take_while(u8::is_ascii_digit).count()
        }
    };
    if rest.as_bytes().get(length) == Some(&b'\'') {
        start + length + 2
    } else {
        start + 1
    }
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let covered = brackets(text);
    let mut covered = covered.iter().peekable();
    let (mut items, mut start) = (Vec::new(), 0);
    for (at, letter) in text.bytes().enumerate() {
        while covered.peek().is_some_and(|(_, end)| *end <= at) {
            covered.next();
        }
        let is_covered = covered.peek().is_some_and(|(first, _)| *first < at);
        let is_quoted = at > 0 && text.as_bytes()[at - 1..].starts_with(b"','");
        if letter == b',' && !is_covered && !is_quoted {
            items.push(text[start..at].trim());
            start = at + 1;
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() || !items.is_empty() {
        items.push(last);
    }
    items
}

/// A type as the text in front of and behind a name that is declared with it: "void (*" and ")(int)".
struct Declared {
    left: String,
    right: String,
    /// Whether it is a function or array: a pointer to it needs brackets.
    open: bool,
}

impl Declared {
    fn new(left: String) -> Declared {
        Declared { left, right: String::new(), open: false }
    }

    fn text(self) -> String {
        self.left + &self.right
    }

    fn pointing(self, mark: &str) -> Declared {
        let Declared { mut left, right, open } = self;
        if open {
            let space = if right.starts_with('[') { " " } else { "" };
            return Declared { left: format!("{left}({mark}"), right: format!("){space}{right}"), open: false };
        }
        if mark != "*" && left.ends_with('&') {
            // references collapse
            if mark == "&" && left.ends_with("&&") {
                left.pop();
            }
        } else {
            left.push_str(mark);
        }
        Declared { left, right, open }
    }
}

/// A parser of names: each method reads one thing at `at`.
struct Reader<'a> {
    text: &'a str,
    depth: u32,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().bytes().take_while(|each| *each == b' ').count();
    }

    fn peek(&mut self) -> u8 {
        self.skip();
        self.rest().bytes().next().unwrap_or(0)
    }

    fn take(&mut self, text: &str) -> bool {
        self.skip();
        let is_there = self.rest().starts_with(text);
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let rest = self.rest();
        if rest.starts_with(|letter: char| letter.is_ascii_digit()) {
            return "";
        }
        &rest[..rest.bytes().take_while(|each| is_word(*each)).count()]
    }

    /// What is in the brackets that begin here.
    fn inside(&mut self) -> Read<&'a str> {
        let start = self.at;
        let Some(closed) = self.text.as_bytes().get(start).and_then(|letter| closing(*letter)) else {
            return Err(NotCplusplus);
        };
        self.at = end_of(self.text, start);
        if self.at - 1 == start || self.text.as_bytes()[self.at - 1] != closed {
            return Err(NotCplusplus);
        }
        Ok(&self.text[start + 1..self.at - 1])
    }

    fn kind(&mut self) -> Read<Declared> {
        let mut words: Vec<&str> = Vec::new();
        let (mut name, mut found) = (String::new(), Qualifiers::default());
        loop {
            let word = self.word();
            if matches!(word, "const" | "volatile") {
                self.qualifiers(&mut found);
            } else if name.is_empty() && matches!(word, "struct" | "class" | "union" | "enum") {
                self.at += word.len();
            } else if name.is_empty() && is_builtin(word) {
                words.push(word);
                self.at += word.len();
            } else if name.is_empty() && words.is_empty() {
                name = self.path()?;
                if name.is_empty() {
                    return Err(NotCplusplus);
                }
            } else {
                break;
            }
        }
        let name = if words.is_empty() { known_as(&name).to_owned() } else { builtin(&words) };
        self.declared(Declared::new(name + found.text()))
    }

    fn qualifiers(&mut self, found: &mut Qualifiers) {
        loop {
            let word = self.word();
            match word {
                "const" => found.is_const = true,
                "volatile" => found.is_volatile = true,
                "restrict" | "__restrict" | "__restrict__" => {}
                _ => return,
            }
            self.at += word.len();
        }
    }

    fn more_qualifiers(&mut self) -> &'static str {
        let mut found = Qualifiers::default();
        self.qualifiers(&mut found);
        found.text()
    }

    /// A name with its namespaces, classes and functions.
    fn path(&mut self) -> Read<String> {
        let mut steps = String::new();
        self.take("::");
        loop {
            let step = self.step()?;
            if step.is_empty() {
                return Ok(steps);
            }
            if !steps.is_empty() {
                steps.push_str("::");
            }
            steps.push_str(&step);
            let before = self.at;
            if !self.take("::") {
                return Ok(steps);
            }
            if self.peek() == b'*' {
                self.at = before;
                return Ok(steps);
            }
        }
    }

    fn step(&mut self) -> Read<String> {
        self.skip();
        let is_nameless = ["(anonymous namespace)", "(unnamed ", "(anonymous "].iter();
        if is_nameless.clone().any(|each| self.rest().starts_with(each)) || matches!(self.peek(), b'{' | b'<' | b'\'') {
            return self.nameless();
        }
        let (start, operator) = (self.at, operator(self.rest()));
        self.take("~");
        let word = self.word();
        let length = operator.unwrap_or(word.len());
        if length == 0 {
            return Err(NotCplusplus);
        }
        self.at += length;
        if operator.is_none() && word == "decltype" && self.peek() == b'(' {
            self.inside()?;
        }
        while self.rest().starts_with("[abi:") {
            self.inside()?;
        }
        let mut step = self.text[start..self.at].to_owned();
        if self.peek() == b'<' {
            let arguments: Vec<String> =
                split(self.inside()?).iter().map(|each| at_depth(each, self.depth + 1)).collect();
            step = format!("{step}<{}>", arguments.join(", "));
        }
        Ok(self.of_function(step))
    }

    fn nameless(&mut self) -> Read<String> {
        let start = self.at;
        if self.text.as_bytes()[start] == b'\'' {
            // clang's lambdas: 'lambda'(int)
            self.at = end_of_quotes(self.text, start);
        }
        self.inside()?;
        Ok(self.text[start..self.at].to_owned())
    }

    /// `main(int, char**)` or `Ring::push() const`, if a class in the function follows.
    fn of_function(&mut self, step: String) -> String {
        let before = self.at;
        if self.peek() == b'(' {
            if let Ok(inside) = self.inside() {
                let parameters = self.parameters(inside);
                let suffix = self.more_qualifiers();
                if self.rest().starts_with("::") && !self.rest().starts_with("::*") {
                    return format!("{step}({parameters}){suffix}");
                }
            }
        }
        self.at = before;
        step
    }

    fn parameters(&self, text: &str) -> String {
        let mut given: Vec<String> = split(text).iter().map(|each| at_depth(each, self.depth + 1)).collect();
        if given.len() == 1 && given[0] == "void" {
            given.clear();
        }
        given.retain(|each| !each.is_empty());
        given.join(", ")
    }

    /// What follows a type: `*`, `(&)[3]`, `(int)`.
    fn declared(&mut self, of: Declared) -> Read<Declared> {
        if self.depth > DEEPEST {
            return Err(NotCplusplus);
        }
        let mut of = self.pointers(of)?;
        if self.peek() == b'(' && self.is_nested() {
            let mut nested = Reader { text: self.inside()?, depth: self.depth + 1, at: 0 };
            of = nested.declared(self.suffixes(of)?)?;
            nested.skip();
            return if nested.at == nested.text.len() { Ok(of) } else { Err(NotCplusplus) };
        }
        self.suffixes(of)
    }

    fn pointers(&mut self, mut of: Declared) -> Read<Declared> {
        loop {
            if matches!(self.peek(), b'*' | b'&') {
                let mark = if self.take("&&") {
                    "&&"
                } else if self.take("&") {
                    "&"
                } else {
                    self.at += 1;
                    "*"
                };
                of = of.pointing(mark);
            } else if matches!(self.word(), "" | "const" | "volatile" | "noexcept") {
                return Ok(of);
            } else {
                let owner = self.path()?;
                if owner.is_empty() || !self.take("::*") {
                    return Err(NotCplusplus);
                }
                of = if of.open {
                    Declared { left: format!("{}({owner}::*", of.left), right: format!("){}", of.right), open: false }
                } else {
                    Declared { left: format!("{} {owner}::*", of.left), right: of.right, open: false }
                };
            }
            of.left.push_str(self.more_qualifiers());
        }
    }

    /// Whether a declarator is in these brackets, and not parameters.
    fn is_nested(&self) -> bool {
        let text = self.text[self.at + 1..].trim_start();
        let owner = text.find("::*").map(|end| &text[..end]);
        let is_path = |letter: char| letter.is_alphanumeric() || "_:<>, ".contains(letter);
        text.starts_with(['*', '&']) || owner.is_some_and(|owner| owner.chars().all(is_path))
    }

    fn suffixes(&mut self, mut of: Declared) -> Read<Declared> {
        if self.peek() == b'(' {
            let inside = self.inside()?;
            let parameters = self.parameters(inside);
            let mut suffix = self.more_qualifiers().to_owned();
            suffix.push_str(if self.take("&&") {
                " &&"
            } else if self.take("&") {
                " &"
            } else {
                ""
            });
            suffix.push_str(if self.take("noexcept") { " noexcept" } else { "" });
            let space = if of.left.ends_with("(*") { "" } else { " " };
            let right = format!("({parameters}){suffix}{}", of.right);
            return Ok(Declared { left: of.left + space, right, open: true });
        }
        let mut sizes = Vec::new();
        while self.peek() == b'[' {
            sizes.push(self.inside()?.trim());
        }
        for size in sizes.iter().rev() {
            let rest = if of.open { of.right.strip_prefix(' ').unwrap_or(&of.right) } else { &of.right };
            let right = format!("[{size}]{rest}");
            of = Declared { left: if of.open { of.left } else { of.left + " " }, right, open: true };
        }
        Ok(of)
    }
}

#[derive(Default)]
struct Qualifiers {
    is_const: bool,
    is_volatile: bool,
}

impl Qualifiers {
    fn text(&self) -> &'static str {
        match (self.is_const, self.is_volatile) {
            (true, true) => " const volatile",
            (true, false) => " const",
            (false, true) => " volatile",
            (false, false) => "",
        }
    }
}

fn is_builtin(word: &str) -> bool {
    let words =
        ["unsigned", "signed", "long", "short", "int", "char", "double", "float", "__int128", "_Complex", "complex"];
    words.contains(&word)
}

fn known_as(name: &str) -> &str {
    match name {
        "_Bool" => "bool",
        "std::nullptr_t" | "nullptr_t" => "decltype(nullptr)",
        "std::string" => "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
        "std::istream" => "std::basic_istream<char, std::char_traits<char>>",
        "std::ostream" => "std::basic_ostream<char, std::char_traits<char>>",
        "std::iostream" => "std::basic_iostream<char, std::char_traits<char>>",
        _ => name,
    }
}

/// `long unsigned int` is "unsigned long".
fn builtin(words: &[&str]) -> String {
    let has = |word: &str| words.contains(&word);
    let mut name = String::new();
    name.push_str(if has("_Complex") || has("complex") { "_Complex " } else { "" });
    name.push_str(if has("unsigned") { "unsigned " } else { "" });
    let longs = vec!["long"; words.iter().filter(|word| **word == "long").count()];
    match ["double", "float", "char", "short", "__int128"].into_iter().find(|rest| has(rest)) {
        Some(rest) => {
            name.push_str(if rest == "char" && has("signed") { "signed " } else { "" });
            longs.iter().for_each(|long| name = format!("{name}{long} "));
            name + rest
        }
        None if longs.is_empty() => name + "int",
        None => name + &longs.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compiler_has_the_same_spelling() {
        for (name, expected) in [
            ("Ring<const char *, (Color)5U, 'x'>", "Ring<char const*, (Color)5, (char)120>"),
            ("A<'\\n', '\\'', (char)'\\x41', true, -5ul>", "A<(char)10, (char)39, (char)65, true, -5>"),
            ("long long unsigned int", "unsigned long long"),
            ("const volatile struct ns::T", "ns::T const volatile"),
            ("std::function<void (int,const T &)>", "std::function<void (int, T const&)>"),
            ("Held<int (*)[3], char(T::*)(void) const>", "Held<int (*) [3], char (T::*)() const>"),
            (
                "f(int)::Local<std::string>",
                "f(int)::Local<std::basic_string<char, std::char_traits<char>, std::allocator<char>>>",
            ),
            ("alloc::vec::Vec<&mut [u8], A>", "alloc::vec::Vec<&mut [u8], A>"),
            ("Own<(ns::E)3, (bool)1>", "Own<(ns::E)3, true>"),
        ] {
            assert_eq!(spelled(name), expected);
        }
        assert_eq!(within("ns::Ring<ns::T>::Node"), ("ns::Ring<ns::T>", "Node"));
        assert_eq!(parts_of("ns::Ring<A<B, C>, (char)','>"), Some(("ns::Ring", vec!["A<B, C>", "(char)','"])));
        assert_eq!((parts_of("A<B>::C"), parts_of("operator<"), parts_of("A<")), (None, None, None));
    }

    #[test]
    fn what_is_damaged_ends() {
        let deep = "A<".repeat(8000);
        for name in ["'", "A<'", "operator<<", "x::", "f(", "((((", "A<B>>", "*", "é<'é'>", &deep, &"(".repeat(9000)]
        {
            spelled(name);
            within(name);
            parts_of(name);
        }
    }
}
