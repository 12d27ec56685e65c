//! Matrix products: all three forms, both inputs and outputs, strides, accumulation.

use half::bf16;

use super::{Measured, grain, measure, rounded, upload};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};
use crate::random::Random;
use crate::reference::{matmul_ab, matmul_abt, matmul_atb, transpose};

pub(super) fn matmul(gpu: &Gpu) -> Result<Vec<Measured>> {
    let blas = Matmul::new(gpu)?;
    let mut all = Vec::new();
    for shape in [(8, 8, 8), (72, 40, 200), (264, 136, 1000)] {
        all.extend(forms::<bf16, bf16>(gpu, &blas, shape)?);
        all.extend(forms::<bf16, f32>(gpu, &blas, shape)?);
    }
    // f32 has no alignment to keep.
    all.extend(forms::<f32, f32>(gpu, &blas, (37, 53, 71))?);
    Ok(all)
}

fn forms<T: Float, O: Float>(gpu: &Gpu, blas: &Matmul, (m, n, k): (usize, usize, usize)) -> Result<Vec<Measured>> {
    let mut random = Random((m * 1000 + n) as u64);
    let (a, b) = (rounded::<T>(&random.normal(m * k, 1.0)), rounded::<T>(&random.normal(k * n, 1.0)));
    let start = rounded::<O>(&random.normal(m * n, 3.0));
    let (at, bt) = (transpose(&a, k), transpose(&b, n));
    let cases = [
        (Product::AB, &a, (m, k), &b, (k, n), matmul_ab(&a, &b, k)),
        (Product::ABt, &a, (m, k), &bt, (n, k), matmul_abt(&a, &bt, k)),
        (Product::AtB, &at, (k, m), &b, (k, n), matmul_atb(&at, &b, k)),
    ];
    let mut all = Vec::new();
    for (product, a, (ar, ac), b, (br, bc), expected) in cases {
        for into in [Store::Set, Store::Add] {
            let (a, b) = (upload::<T>(gpu, a)?, upload::<T>(gpu, b)?);
            // A result inside wider rows: the gaps must not change.
            let stride = n + 8;
            let fill = if into == Store::Add { 0.0 } else { f64::NAN };
            let mut wide = vec![7.0; m * stride];
            let mut want = wide.clone();
            for row in 0..m {
                for col in 0..n {
                    let before = if into == Store::Add { start[row * n + col] } else { fill };
                    wide[row * stride + col] = before;
                    want[row * stride + col] = expected[row * n + col] + if into == Store::Add { before } else { 0.0 };
                }
            }
            let mut c: Buffer<O> = upload(gpu, &wide)?;
            let out = MatrixMut::strided(c.view_mut(), m, n, stride);
            blas.run(product, Matrix::new(a.view(), ar, ac), Matrix::new(b.view(), br, bc), out, into)?;
            let what = format!("{product:?} {into:?} {m}x{n}x{k} {}->{}", T::SUFFIX, O::SUFFIX);
            all.push(measure(what, &c, &want, grain::<O>())?);
        }
    }
    Ok(all)
}
