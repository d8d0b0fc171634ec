//! Types as debug information describes them, and what can be asked of a source of types.

use std::rc::Rc;

use crate::failure::Result;

/// The number of a type without `const` and typedefs: a source's own from 0 on, those that containers make up below 0.
pub type TypeId = i32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// A class, too.
    Struct,
    Union,
    Array,
    Pointer,
    Reference,
    Integer,
    Character,
    Boolean,
    Float,
    Enum,
    Function,
    Void,
    /// A pointer to a member, a complex number: it has a size alone.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Language {
    #[default]
    Unknown,
    C,
    CPlusPlus,
    Rust,
}

/// A member of a struct or union, or a base class, that has a fixed place and whole bytes: no bit-field, no static
/// member, no virtual base.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Empty for an anonymous struct or union.
    pub name: Rc<str>,
    pub offset: u64,
    pub of: TypeId,
    pub is_base: bool,
}

/// A member that does not fill whole bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BitField {
    pub name: Rc<str>,
    /// In bits; on big-endian machines from the highest bit of the first byte.
    pub offset: u64,
    /// In bits.
    pub size: u64,
    pub signed: bool,
}

/// A template's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    Type(TypeId),
    Value(i64),
    /// Neither a type nor a number.
    Other,
}

#[derive(Clone, Debug)]
pub struct Facts {
    /// As in the program: without "struct" or "class", with all template arguments; empty if it has none.
    pub name: Rc<str>,
    pub form: Form,
    /// 0: no module has its definition.
    pub size: u64,
    /// The type that a pointer or a reference leads to, or of an array's elements; None: void, or not known.
    pub target: Option<TypeId>,
    /// An array's length; None: it is flexible (T[]), as T[0] is.
    pub length: Option<u64>,
    pub fields: Vec<Field>,
    pub arguments: Vec<Argument>,
    /// Whether its objects have a vtable.
    pub polymorphic: bool,
    pub signed: bool,
    pub enumerators: Vec<(Rc<str>, i64)>,
    pub language: Language,
    pub bits: Vec<BitField>,
    /// For a union that is an enum of Rust's: the number that tells which of its fields is in use.
    pub tag: Option<Field>,
}

impl Facts {
    pub fn new(name: &str, form: Form, size: u64) -> Facts {
        Facts {
            name: name.into(),
            form,
            size,
            target: None,
            length: None,
            fields: Vec::new(),
            arguments: Vec::new(),
            polymorphic: false,
            signed: false,
            enumerators: Vec::new(),
            language: Language::Unknown,
            bits: Vec::new(),
            tag: None,
        }
    }
}

/// What is known of a program's types. Answers are kept: the same question has the same answer during one command.
/// Only modules whose file has the build-id in memory count.
pub trait TypeSource {
    /// A forward declaration is completed from any module that has the type by this name.
    fn facts(&self, of: TypeId) -> Result<Rc<Facts>>;

    /// A struct, union or enum, spelled as symbols and RTTI spell it. None if there is none, or two modules have
    /// different ones.
    fn by_name(&self, name: &str) -> Result<Option<TypeId>>;

    /// The class whose method the function that begins there is. Several if they have one name, as templates of a
    /// function's lambdas do; none if not known.
    fn classes_at(&self, code: u64) -> Result<Vec<TypeId>>;

    /// The type T* of T.
    fn pointer_to(&self, of: TypeId) -> Result<TypeId>;

    /// All named structs of all modules, or of the program's own file, with their sizes: for what needs all of them.
    fn structs(&self, of_program: bool) -> Result<Vec<(TypeId, u64)>>;

    /// The structs of `least` to `most` bytes in the source file of the function at this address.
    fn structs_of_source_file(&self, code: u64, least: u64, most: u64) -> Result<Vec<TypeId>>;
}
