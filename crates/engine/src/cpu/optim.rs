//! AdamW on the CPU: the update of all parameters and the norm of a gradient, on all threads.

#![expect(unsafe_code, reason = "tasks write disjoint runs of parameters")]

use crate::backend::GradientNorm;
use crate::cpu::kernels::adamw::{self, Factors};
use crate::cpu::{Cpu, Shared};
use crate::optim::AdamWStep;
use crate::weights::{Param, Table};

/// Parameters that one task updates.
const RUN: usize = 1 << 16;

/// AdamW update of `values`, with moments `m` and `v`.
pub fn update(cpu: &Cpu, table: &Table, values: &mut [f32], grads: &[f32], [m, v]: [&mut [f32]; 2], step: &AdamWStep) {
    let factors = |param: &Param| Factors {
        beta1: step.beta1,
        beta2: step.beta2,
        eps: step.eps,
        keep: if param.shape.len() > 1 { step.keep } else { 1.0 },
        step: step.step,
        root: step.root,
        scale: step.scale,
    };
    let runs: Vec<_> = table
        .params
        .iter()
        .flat_map(|p| p.range.clone().step_by(RUN).map(move |at| (at, RUN.min(p.range.end - at), factors(p))))
        .collect();
    let (values, m, v) = (Shared::new(values), Shared::new(m), Shared::new(v));
    cpu.parallel(runs.len(), |task| {
        let (at, n, factors) = runs[task];
        // SAFETY: runs do not overlap.
        let (values, m, v) = unsafe { (values.slice(at, n), m.slice(at, n), v.slice(at, n)) };
        adamw::update(cpu.isa(), values, &grads[at..at + n], m, v, factors);
    });
}

/// Global gradient norm.
pub fn global_norm(cpu: &Cpu, table: &Table, grads: &[f32]) -> GradientNorm {
    let mut sums = vec![0.0f64; table.params.len()];
    let shared = Shared::new(&mut sums);
    cpu.parallel(table.params.len(), |i| {
        // SAFETY: each task has its own parameter.
        unsafe { shared.slice(i, 1)[0] = adamw::squares(cpu.isa(), &grads[table.params[i].range.clone()]) };
    });
    match sums.iter().position(|s| !s.is_finite()) {
        // The squares of finite values may overflow; that gradient is useless too.
        Some(bad) => GradientNorm::NotFinite(table.params[bad].name.clone()),
        None => GradientNorm::Finite(sums.iter().sum::<f64>().sqrt()),
    }
}
