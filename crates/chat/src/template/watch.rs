//! Metered instructions: the meter's calls between the instructions of a template.
//!
//! The engine counts steps, but has no hook to inspect what a step has built. So each instruction that can build or
//! traverse something large is followed by a call of the meter, and jumps are adjusted.

use std::collections::BTreeMap;

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::meter;

const BUILT: &str = "hone_built";
const CUT: &str = "hone_cut";
const STORED: &str = "hone_stored";
const WRITTEN: &str = "hone_written";
const ABSENT: &str = "hone_absent";

/// No slot in the engine's filter cache.
const UNCACHED: u8 = !0;

/// The meter as filters, which instructions can call.
pub(super) fn install(env: &mut Environment<'static>) {
    env.add_filter(BUILT, |value: Value| meter::built(&value).map(|()| value));
    env.add_filter(CUT, |value: Value| meter::cut(&value).map(|()| value));
    env.add_filter(STORED, |value: Value| meter::stored(&value).map(|()| value));
    env.add_filter(WRITTEN, |bytes: usize| meter::charge(bytes).map_err(Error::from));
    env.add_filter(ABSENT, |name: &Value| -> Result<Value, Error> {
        let message = format!("there is no template {name} beside a chat template");
        Err(Error::new(ErrorKind::TemplateNotFound, message))
    });
}

/// A compiled template, watched.
pub(super) struct Watched<'source> {
    pub(super) root: Instructions<'source>,
    pub(super) blocks: BTreeMap<&'source str, Instructions<'source>>,
}

impl<'source> Watched<'source> {
    pub(super) fn new(compiled: &CompiledTemplate<'source>) -> Self {
        let blocks = compiled.blocks.iter().map(|(name, block)| (*name, watch(block))).collect();
        Self { root: watch(&compiled.instructions), blocks }
    }
}

fn watch<'source>(original: &Instructions<'source>) -> Instructions<'source> {
    let mut watched = Instructions::new(original.name(), original.source());
    // New position of each instruction, and the end.
    let mut places = vec![0];
    let mut at = 0;
    while let Some(instruction) = original.get(at) {
        let line = original.get_line(at).and_then(|line| u16::try_from(line).ok()).unwrap_or(0);
        let last = steps(instruction).into_iter().map(|step| watched.add_with_line(step, line)).last();
        places.push(last.map_or(0, |last| last + 1));
        at += 1;
    }
    let end = places.last().copied().unwrap_or(0);
    for at in 0..end {
        if let Some(target) = watched.get_mut(at).and_then(target) {
            *target = places.get(*target as usize).copied().unwrap_or(end);
        }
    }
    watched
}

/// Jump target of an instruction.
fn target<'i>(instruction: &'i mut Instruction<'_>) -> Option<&'i mut u32> {
    match instruction {
        Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target)
        | Instruction::Iterate(target)
        | Instruction::BuildMacro(_, target, _) => Some(target),
        _ => None,
    }
}

fn filter<'source>(name: &'static str) -> Instruction<'source> {
    Instruction::ApplyFilter(name, Some(1), UNCACHED)
}

/// An instruction and the meter calls around it.
fn steps<'source>(instruction: &Instruction<'source>) -> Vec<Instruction<'source>> {
    let same = instruction.clone();
    match instruction {
        // Text of the template inside a capture is written without a call.
        Instruction::EmitRaw(text) => {
            vec![Instruction::LoadConst(Value::from(text.len())), filter(WRITTEN), Instruction::DiscardTop, same]
        }
        Instruction::SetAttr(_) => vec![Instruction::Swap, filter(STORED), Instruction::Swap, same],
        // A character of a string is found by walking there.
        Instruction::GetItem | Instruction::Slice => vec![same, filter(CUT)],
        Instruction::Include(_) | Instruction::LoadBlocks => vec![filter(ABSENT), same],
        Instruction::Add
        | Instruction::Mul
        | Instruction::StringConcat
        | Instruction::BuildMap(_)
        | Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::CompareAndPreserve(_)
        | Instruction::ApplyFilter(..)
        | Instruction::PerformTest(..)
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_)
        | Instruction::EndCapture => vec![same, filter(BUILT)],
        _ => vec![same],
    }
}
