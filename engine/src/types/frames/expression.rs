//! DWARF's expressions, as unwind tables and variables have them.

use gimli::{DebugAddrIndex, Encoding, EvaluationResult, Expression, Piece, Reader, UnitOffset, Value, ValueType};

/// An expression may loop: at most so many of its operations are done.
const MOST_OPERATIONS: u32 = 1 << 12;

/// Answers what an expression asks for. None ends it.
pub trait Ground<R: Reader<Offset = usize>> {
    fn register(&self, number: u16) -> Option<u64>;

    /// The number of so many bytes in memory.
    fn memory(&self, address: u64, size: u8) -> Option<u64>;

    /// Where the frame is, as its unwind table computes it.
    fn frame_address(&self) -> Option<u64> {
        None
    }

    /// From what the function's variables are counted.
    fn frame_base(&self) -> Option<u64> {
        None
    }

    /// What an expression was when the function was called.
    fn entry_value(&self, _of: Expression<R>) -> Option<u64> {
        None
    }

    /// The address that a file's address has in memory.
    fn relocated(&self, _address: u64) -> Option<u64> {
        None
    }

    fn indexed(&self, _index: DebugAddrIndex) -> Option<u64> {
        None
    }

    fn base_type(&self, _of: UnitOffset) -> Option<ValueType> {
        None
    }
}

/// What an expression says where something is, in pieces; `first` is on the stack before it.
pub fn evaluate<R: Reader<Offset = usize>>(
    of: Expression<R>,
    encoding: Encoding,
    first: Option<u64>,
    ground: &impl Ground<R>,
) -> Option<Vec<Piece<R>>> {
    let mut evaluation = of.evaluation(encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    // 0 stands for numbers without a type
    let typed = |of: UnitOffset| {
        if of.0 == 0 {
            Some(ValueType::Generic)
        } else {
            ground.base_type(of)
        }
    };
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => return Some(evaluation.result()),
            EvaluationResult::RequiresRegister { register, base_type } => {
                let value = Value::from_u64(typed(base_type)?, ground.register(register.0)?);
                evaluation.resume_with_register(value.ok()?)
            }
            EvaluationResult::RequiresMemory { address, size, space: None, base_type } => {
                let value = Value::from_u64(typed(base_type)?, ground.memory(address, size)?);
                evaluation.resume_with_memory(value.ok()?)
            }
            EvaluationResult::RequiresCallFrameCfa => evaluation.resume_with_call_frame_cfa(ground.frame_address()?),
            EvaluationResult::RequiresFrameBase => evaluation.resume_with_frame_base(ground.frame_base()?),
            EvaluationResult::RequiresEntryValue(of) => {
                evaluation.resume_with_entry_value(Value::Generic(ground.entry_value(of)?))
            }
            EvaluationResult::RequiresRelocatedAddress(address) => {
                evaluation.resume_with_relocated_address(ground.relocated(address)?)
            }
            EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                let address = ground.indexed(index)?;
                let address = if relocate { ground.relocated(address)? } else { address };
                evaluation.resume_with_indexed_address(address)
            }
            EvaluationResult::RequiresBaseType(of) => evaluation.resume_with_base_type(typed(of)?),
            // thread-local, in another address space, or told elsewhere
            _ => return None,
        }
        .ok()?;
    }
}

/// What an expression computes: a number, or where it says that something is.
pub fn computed<R: Reader<Offset = usize>>(
    of: Expression<R>,
    encoding: Encoding,
    first: Option<u64>,
    ground: &impl Ground<R>,
) -> Option<u64> {
    match evaluate(of, encoding, first, ground)?.as_slice() {
        [Piece { location: gimli::Location::Address { address }, .. }] => Some(*address),
        [Piece { location: gimli::Location::Value { value }, .. }] => value.to_u64(u64::MAX).ok(),
        [Piece { location: gimli::Location::Register { register }, .. }] => ground.register(register.0),
        _ => None,
    }
}
