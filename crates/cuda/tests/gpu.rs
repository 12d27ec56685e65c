//! Kernel checks on a GPU: `cargo test -p hone-cuda -- --ignored`.

use hone_cuda::Gpu;
use hone_cuda::check::{CHECKS, Check};

fn run(name: &str) {
    let gpu = Gpu::open(0).unwrap_or_else(|e| panic!("{e}"));
    let check: &Check = CHECKS.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no check {name}"));
    let all = (check.body)(&gpu).unwrap_or_else(|e| panic!("{e}"));
    assert!(!all.is_empty());
    for m in &all {
        assert!(m.passes(), "{name}, {}: error {} over {}", m.what, m.error, m.bound);
    }
}

macro_rules! on_gpu {
    ($($name:ident)*) => {
        $(
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $name() {
                run(stringify!($name));
            }
        )*

        #[test]
        fn every_check_has_a_test() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(CHECKS.map(|c| c.name), tested);
        }
    };
}

on_gpu! {
    matmul
    rms_norm_bf16
    rms_norm_f32
    rope_bf16
    rope_f32
    swiglu_bf16
    swiglu_f32
    embed
    head_bf16
    head_f32
    adamw
    packed_moments
    host_moments
    attention_forward
    attention_backward
    attention_portable
    attention_small
    attention_f32
    decode
    repeats_bit_for_bit
    model_bf16
    model_f32
    sampling
    generation
    growth
    not_finite
}
