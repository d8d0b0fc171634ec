//! The variables in the frames of threads: where they are, or what they are.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    constants as dw, AttributeValue, DebugAddrIndex, Expression, Location, Operation, Piece, Register, UnitOffset,
    ValueType,
};

use crate::failure::{filled, kept, push, Control, Result};
use crate::types::dwarf::program::Program;
use crate::types::dwarf::units::{Debug, Die, R};
use crate::types::facts::{Form, TypeId, TypeSource};
use crate::types::frames::expression::{computed, evaluate, Ground};
use crate::types::frames::lines::LineTables;
use crate::types::frames::names::function_name;
use crate::types::frames::scopes::{Call, Line, Scope, Variable};
use crate::types::frames::unwind::{Frame, StackMemory};

/// At most so many innermost frames of a thread, inlined ones among them.
pub const FRAMES: usize = 64;
/// A larger value in registers is left out.
const LARGEST_IN_REGISTERS: u64 = 256;
/// What a function was called with may be what its caller was called with.
const MOST_CALLERS: usize = 4;
/// Expressions that a variable's refers to.
const MOST_EXPRESSIONS: u32 = 64;
/// Genuine stacks have no more variables. What is hostile could have many in each frame.
const MOST_LOCALS: usize = 1 << 20;
/// The caller of this one is the C library, whose function that calls it is called like the other.
const FIRST: &str = "main";
const BEFORE_FIRST: &str = "__libc_start_";

/// A variable or argument in a function on a thread's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub name: Rc<str>,
    pub of: TypeId,
    pub tid: u64,
    /// 0: the innermost, counting inlined ones.
    pub frame: u32,
    /// With its parameters, if its language has them in names: "main()".
    pub function: Rc<str>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Address(u64),
    /// It is in registers.
    Data(Vec<u8>),
    /// It is optimised out, and as long as a pointer: its possible places.
    Within(Rc<VariableFrame>),
    /// It is optimised out, and only its type is known.
    Nowhere,
}

/// The frame of a thread in a function, which may hold a variable whose place is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableFrame {
    /// Where it goes on.
    pub code: u64,
    /// The part of the stack that is the function's own, up to `high`.
    pub low: u64,
    pub high: u64,
    /// The registers in that frame, restored from what its callees have saved.
    pub registers: Vec<u64>,
}

/// A function at an address of code, with its variables that may have a value there.
struct Function {
    /// Without parameters.
    is_first: bool,
    name: Rc<str>,
    variables: Vec<Known>,
}

struct Known {
    variable: Die,
    name: Rc<str>,
    of: TypeId,
    form: Form,
    size: u64,
    /// Whether a value may be one, or a struct that has one alone.
    may_be_pointer: bool,
    /// Of an array whose length a variable has: the entry of its type.
    dynamic: Option<Die>,
}

/// The functions at an address of code.
struct Code {
    /// The one that is not inlined.
    outermost: Die,
    bias: u64,
    /// The innermost first.
    functions: Vec<Function>,
}

/// Reads the variables of frames.
pub struct Locals<'a> {
    program: &'a Program,
    memory: &'a StackMemory<'a>,
    lines: LineTables,
    codes: RefCell<HashMap<u64, Option<Rc<Code>>>>,
    /// Calls of a function, by the addresses of its file that they return to.
    calls: RefCell<HashMap<(Die, u64), Rc<Call>>>,
}

impl<'a> Locals<'a> {
    pub fn new(program: &'a Program, memory: &'a StackMemory<'a>) -> Self {
        Locals { program, memory, lines: LineTables::default(), codes: RefCell::default(), calls: RefCell::default() }
    }

    /// Adds the variables of a thread's frames, of which the innermost comes first.
    pub fn of_thread(
        &self,
        tid: u64,
        frames: &[Frame],
        stack: u16,
        control: &Control,
        to: &mut Vec<Local>,
    ) -> Result<()> {
        let mut number = 0;
        for (at, frame) in frames.iter().enumerate() {
            control.advance(1)?;
            let Some(code) = self.code_at(frame.code())? else {
                number += 1;
                continue;
            };
            let mut within: Option<Rc<VariableFrame>> = None;
            for function in &code.functions {
                if number >= FRAMES || function.name.starts_with(BEFORE_FIRST) {
                    return Ok(());
                }
                for known in function.variables.iter().take(MOST_LOCALS.saturating_sub(to.len())) {
                    control.advance(0)?;
                    let left = Cell::new(MOST_EXPRESSIONS);
                    let here =
                        Here { all: self, frames: &frames[at..], code: &code, left: &left, depth: 0, in_base: false };
                    let (of, place) = here.place_of(known)?;
                    let place = place.unwrap_or_else(|| match known.may_be_pointer {
                        true => Place::Within(within.get_or_insert_with(|| Rc::new(frame_of(frame, stack))).clone()),
                        false => Place::Nowhere,
                    });
                    let (name, frame, function) = (known.name.clone(), number as u32, function.name.clone());
                    push(to, Local { name, of, tid, frame, function, place })?;
                }
                number += 1;
                if function.is_first {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn code_at(&self, code: u64) -> Result<Option<Rc<Code>>> {
        kept(&self.codes, code, || {
            let Some((die, bias)) = function_at(self.program, code) else { return Ok(None) };
            Ok(Some(Rc::new(self.functions(die, bias, code.wrapping_sub(bias))?)))
        })
    }

    fn call(&self, function: Die, returns: u64) -> Result<Rc<Call>> {
        kept(&self.calls, (function, returns), || self.program.debug.call(function, returns).map(Rc::new))
    }

    fn functions(&self, outermost: Die, bias: u64, code: u64) -> Result<Code> {
        let debug = &self.program.debug;
        let mut line = self.lines.at(debug, outermost.unit, code)?;
        let mut functions = Vec::new();
        for scope in debug.scopes(outermost, code)?.into_iter().rev() {
            let call = scope.call;
            push(&mut functions, self.function(scope, line)?)?;
            line = call.filter(|call| call.line > 0);
        }
        Ok(Code { outermost, bias, functions })
    }

    fn function(&self, scope: Scope, line: Option<Line>) -> Result<Function> {
        let debug = &self.program.debug;
        let mut variables = Vec::new();
        for each in scope.variables {
            // a variable that is declared further down has a place but no value yet
            let is_behind = match (line, declared(debug, each.die)) {
                (Some(line), Some(declared)) if !each.is_argument => self.lines.is_behind(debug, declared, line)?,
                _ => false,
            };
            if !is_behind {
                if let Some(known) = self.known(each)? {
                    push(&mut variables, known)?;
                }
            }
        }
        let is_first = *self.program.name(scope.die) == *FIRST;
        Ok(Function { is_first, name: function_name(self.program, scope.die), variables })
    }

    fn known(&self, variable: Variable) -> Result<Option<Known>> {
        let debug = &self.program.debug;
        let die = variable.die;
        let name = debug.said(die, dw::DW_AT_name).and_then(|(die, value)| debug.text_of(die.unit, value));
        let of = debug.said(die, dw::DW_AT_type).and_then(|(die, value)| debug.reference(die.unit, value));
        let (Some(name), Some(of)) = (name, of) else { return Ok(None) };
        if is_static(debug, die) {
            return Ok(None);
        }
        let number = self.program.number(Some(of));
        let (form, size) = form_of(self.program, number)?;
        let dynamic = if form == Form::Array && size == 0 { dynamic_array(debug, of) } else { None };
        let name = name.to_string_lossy().as_ref().into();
        let is_number = matches!(form, Form::Integer | Form::Character | Form::Boolean | Form::Enum | Form::Float);
        let may_be_pointer = size == self.memory.image().word && !is_number;
        Ok(Some(Known { variable: die, name, of: number, form, size, may_be_pointer, dynamic }))
    }
}

/// The function that has an address of code, and what addresses in memory are more than in its file.
fn function_at(program: &Program, code: u64) -> Option<(Die, u64)> {
    program.code_at(code).map(|(module, found)| (found.die, program.debug.modules[module].bias))
}

fn form_of(program: &Program, of: TypeId) -> Result<(Form, u64)> {
    let facts = program.facts(of)?;
    Ok((facts.form, facts.size))
}

/// Where an entry is declared.
fn declared(debug: &Debug, die: Die) -> Option<Line> {
    let (holder, line) = debug.said(die, dw::DW_AT_decl_line)?;
    let (_, file) = debug.said(die, dw::DW_AT_decl_file)?;
    let file = match file {
        AttributeValue::FileIndex(file) => file,
        other => other.udata_value()?,
    };
    Some(Line { unit: holder.unit, file, line: line.udata_value()? })
}

/// Whether a variable is on no stack.
fn is_static(debug: &Debug, die: Die) -> bool {
    let Some((holder, value)) = debug.said(die, dw::DW_AT_location) else { return false };
    let Some(expression) = value.exprloc_value() else { return false };
    let mut operations = expression.operations(debug.unit(holder).inner.encoding());
    let (mut is_first, mut is_static) = (true, false);
    while let Ok(Some(operation)) = operations.next() {
        match operation {
            Operation::TLS => return true,
            // a static variable's address is its value
            Operation::StackValue => return false,
            Operation::Address { .. } | Operation::AddressIndex { .. } if is_first => is_static = true,
            _ => {}
        }
        is_first = false;
    }
    is_static
}

/// An array's type with one length, which a variable has.
fn dynamic_array(debug: &Debug, of: Die) -> Option<Die> {
    let plain = |die: &Die| {
        let passes = matches!(debug.tag(*die)?, dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type);
        debug.referred(*die, dw::DW_AT_type).filter(|_| passes)
    };
    let array = std::iter::successors(Some(of), plain).take(64).last()?;
    let mut lengths = Vec::new();
    debug.children(array, |die, entry| {
        if entry.tag() == dw::DW_TAG_subrange_type {
            lengths.push(die);
        }
        lengths.len() < 2
    });
    (debug.tag(array)? == dw::DW_TAG_array_type && lengths.len() == 1).then_some(array)
}

fn frame_of(frame: &Frame, stack: u16) -> VariableFrame {
    let low = frame.registers.get(stack).unwrap_or(0);
    let high = frame.end.map_or(low, |end| end.max(low));
    VariableFrame { code: frame.registers.counter, low, high, registers: frame.registers.known().collect() }
}

/// A frame, in which expressions are computed.
struct Here<'a> {
    all: &'a Locals<'a>,
    /// This one, and its callers.
    frames: &'a [Frame],
    code: &'a Code,
    /// How many expressions may still be computed for a variable.
    left: &'a Cell<u32>,
    /// How many frames of callers it is from where a variable was asked for.
    depth: usize,
    /// Whether the function's frame base is computed, which cannot be counted from itself.
    in_base: bool,
}

impl<'a> Here<'a> {
    /// A variable's type and its place, if it has any.
    fn place_of(&self, known: &Known) -> Result<(TypeId, Option<Place>)> {
        let (mut of, mut size) = (known.of, known.size);
        if let Some(array) = known.dynamic {
            if let Some(length) = self.length(array) {
                let element = self.all.program.type_of(array);
                let (_, each) = form_of(self.all.program, element)?;
                of = self.all.program.array_of(element, Some(length), array);
                size = each.saturating_mul(length);
            }
        }
        let place = self.place(known.variable, size);
        if let (Some(Place::Address(address)), Form::Reference) = (&place, known.form) {
            let mut data = filled(self.all.memory.image().word as usize, 0)?;
            let is_there = self.all.memory.fill(*address, &mut data);
            return Ok((of, is_there.then_some(Place::Data(data))));
        }
        Ok((of, place))
    }

    /// The length of an array, as variables have it.
    fn length(&self, array: Die) -> Option<u64> {
        let debug = &self.all.program.debug;
        let mut range = None;
        debug.children(array, |die, entry| {
            range = range.or((entry.tag() == dw::DW_TAG_subrange_type).then_some(die));
            range.is_none()
        });
        let range = range?;
        let (value, more) = match debug.value(range, dw::DW_AT_count) {
            Some(count) => (count, 0),
            None => (debug.value(range, dw::DW_AT_upper_bound)?, 1),
        };
        let bound = match (value.exprloc_value(), debug.reference(range.unit, value)) {
            (Some(expression), _) => self.computed(range.unit, expression),
            (None, Some(variable)) => {
                let (_, size) = form_of(self.all.program, self.all.program.type_of(variable)).ok()?;
                match self.place(variable, Some(size).filter(|size| matches!(size, 1 | 2 | 4 | 8))?)? {
                    Place::Address(address) => self.all.memory.number(address, size as u8),
                    Place::Data(data) => Some(self.all.memory.image().number(&data)),
                    _ => None,
                }
            }
            _ => None,
        };
        bound?.checked_add(more)
    }

    /// Where so many bytes of a variable are.
    fn place(&self, variable: Die, size: u64) -> Option<Place> {
        let debug = &self.all.program.debug;
        if let Some((_, value)) = debug.said(variable, dw::DW_AT_const_value) {
            return self.constant(value, size).map(Place::Data);
        }
        let (holder, value) = debug.said(variable, dw::DW_AT_location)?;
        let expression = self.expression(holder.unit, value)?;
        let pieces = evaluate(expression, debug.unit(holder).inner.encoding(), None, &self.ground(holder.unit))?;
        if let [Piece { location: Location::Address { address }, size_in_bits, .. }] = pieces.as_slice() {
            if size_in_bits.map_or(true, |bits| bits == size.saturating_mul(8)) {
                return Some(Place::Address(*address));
            }
        }
        self.data(&pieces, size).map(Place::Data)
    }

    /// The expression that counts at this frame's code.
    fn expression(&self, unit: u32, value: AttributeValue<R>) -> Option<Expression<R>> {
        let debug = &self.all.program.debug;
        let found = match value.exprloc_value() {
            Some(expression) => expression,
            None => {
                let code = self.frames.first()?.code().wrapping_sub(self.code.bias);
                let mut list = debug.dwarf(unit).attr_locations(&debug.units[unit as usize].inner, value).ok()??;
                loop {
                    let entry = list.next().ok()??;
                    if (entry.range.begin..entry.range.end).contains(&code) {
                        break entry.data;
                    }
                }
            }
        };
        Some(found).filter(|expression| !expression.0.is_empty())
    }

    /// What a register was when the function was called, if its caller says it.
    fn when_called(&self, register: Register) -> Option<u64> {
        let [_, frames @ ..] = self.frames else { return None };
        let caller = frames.first().filter(|caller| !caller.is_exact && self.depth < MOST_CALLERS)?;
        let (outermost, bias) = function_at(self.all.program, caller.code())?;
        let code = Code { outermost, bias, functions: Vec::new() };
        let there = Here { frames, code: &code, depth: self.depth + 1, in_base: false, ..*self };
        let call = self.all.call(outermost, caller.registers.counter.wrapping_sub(bias)).ok()?;
        let (_, value) = call.arguments.iter().find(|(place, _)| *place == register)?;
        // the caller may have called another function, which jumped to this one
        let debug = &self.all.program.debug;
        let is_called = match call.calls {
            Some(called) => debug.is_same_function(called, self.code.outermost),
            None => {
                let start = debug.start_of(self.code.outermost)?.wrapping_add(self.code.bias);
                there.computed(outermost.unit, call.target?) == Some(start)
            }
        };
        there.computed(outermost.unit, *value).filter(|_| is_called)
    }

    fn ground(&self, unit: u32) -> InUnit<'_> {
        InUnit { here: self, unit }
    }

    fn computed(&self, unit: u32, expression: Expression<R>) -> Option<u64> {
        self.left.set(self.left.get().checked_sub(1)?);
        let encoding = self.all.program.debug.units[unit as usize].inner.encoding();
        computed(expression, encoding, None, &self.ground(unit))
    }

    /// A value that is put together from registers, memory, and what the compiler knows.
    fn data(&self, pieces: &[Piece<R>], size: u64) -> Option<Vec<u8>> {
        if size == 0 || size > LARGEST_IN_REGISTERS {
            return None;
        }
        let mut data: Vec<u8> = filled(size as usize, 0).ok()?;
        let mut left = data.as_mut_slice();
        for piece in pieces {
            let bytes = match (piece.size_in_bits, piece.bit_offset) {
                (None, _) => left.len() as u64,
                (Some(bits), None | Some(0)) if bits % 8 == 0 => (bits / 8).min(left.len() as u64),
                _ => return None,
            };
            let (part, rest) = left.split_at_mut(bytes as usize);
            left = rest;
            match &piece.location {
                Location::Empty => return None,
                Location::Register { register } => {
                    self.put(self.frames.first()?.registers.get(register.0)?, part)?;
                }
                Location::Address { address } => self.all.memory.fill(*address, part).then_some(())?,
                Location::Value { value } => self.put(value.to_u64(u64::MAX).ok()?, part)?,
                Location::Bytes { value } => part.copy_from_slice(value.slice().get(..part.len())?),
                // it leads to what is not in memory
                Location::ImplicitPointer { .. } => {}
            }
        }
        left.is_empty().then_some(data)
    }

    /// The low bytes of a number.
    fn put(&self, number: u64, to: &mut [u8]) -> Option<()> {
        let start = 8usize.checked_sub(to.len())?;
        if self.all.memory.image().is_little() {
            to.copy_from_slice(&number.to_le_bytes()[..to.len()]);
        } else {
            to.copy_from_slice(&number.to_be_bytes()[start..]);
        }
        Some(())
    }

    fn constant(&self, value: AttributeValue<R>, size: u64) -> Option<Vec<u8>> {
        let mut data: Vec<u8> = filled(usize::try_from(size.min(LARGEST_IN_REGISTERS)).ok()?, 0).ok()?;
        match value {
            AttributeValue::Block(bytes) | AttributeValue::String(bytes) => {
                let size = data.len();
                data.copy_from_slice(bytes.slice().get(..size)?);
            }
            other => {
                let number = other.udata_value().or_else(|| other.sdata_value().map(|value| value as u64))?;
                self.put(number, &mut data)?;
            }
        }
        (!data.is_empty()).then_some(data)
    }
}

/// For the expressions that a unit has.
struct InUnit<'a> {
    here: &'a Here<'a>,
    unit: u32,
}

impl Ground<R> for InUnit<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        self.here.frames.first()?.registers.get(number)
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        self.here.all.memory.number(address, size)
    }

    fn frame_address(&self) -> Option<u64> {
        self.here.frames.first()?.end
    }

    fn frame_base(&self) -> Option<u64> {
        if self.here.in_base {
            return None;
        }
        let here = Here { in_base: true, ..*self.here };
        let (holder, value) = here.all.program.debug.said(here.code.outermost, dw::DW_AT_frame_base)?;
        here.computed(holder.unit, here.expression(holder.unit, value)?)
    }

    fn entry_value(&self, of: Expression<R>) -> Option<u64> {
        let mut operations = of.operations(self.here.all.program.debug.units[self.unit as usize].inner.encoding());
        match (operations.next(), operations.next()) {
            (Ok(Some(Operation::Register { register })), Ok(None)) => self.here.when_called(register),
            _ => None,
        }
    }

    fn relocated(&self, address: u64) -> Option<u64> {
        Some(address.wrapping_add(self.here.code.bias))
    }

    fn indexed(&self, index: DebugAddrIndex) -> Option<u64> {
        self.here.all.program.debug.address(self.unit, index)
    }

    fn base_type(&self, of: UnitOffset) -> Option<ValueType> {
        let debug = &self.here.all.program.debug;
        ValueType::from_entry(&debug.entry(Die { unit: self.unit, at: u32::try_from(of.0).ok()? })?).ok()?
    }
}
