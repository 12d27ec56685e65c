//! Launch arguments of a kernel: grid, arguments in the width it declares, and tensor maps for fetches of tiles.

#![expect(unsafe_code, reason = "tensor maps are made by the driver's C interface")]

use std::ffi::c_void;

use cudarc::driver::sys;

use crate::buffer::{View, ViewMut};
use crate::error::{CudaError, Result};
use crate::gpu::Gpu;

/// Grid, block and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// Name of the kernel's file, without extension.
    pub module: &'static str,
    pub kernel: &'a str,
    pub grid: (u32, u32),
    pub block: u32,
    pub shared: u32,
}

/// Argument of a kernel, in the width the kernel declares.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg {
    Pointer(u64),
    I32(i32),
    I64(i64),
    F32(f32),
    Map(TensorMap),
}

/// Tensor map: the driver's description of a tensor for asynchronous copies of its tiles (Hopper).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorMap([u64; 16]);

impl<T> From<View<'_, T>> for Arg {
    fn from(view: View<'_, T>) -> Self {
        Self::Pointer(view.pointer)
    }
}
impl<T> From<&ViewMut<'_, T>> for Arg {
    fn from(view: &ViewMut<'_, T>) -> Self {
        Self::Pointer(view.pointer)
    }
}
impl<T> From<Option<View<'_, T>>> for Arg {
    fn from(view: Option<View<'_, T>>) -> Self {
        Self::Pointer(view.map_or(0, |v| v.pointer))
    }
}
impl<T> From<Option<&ViewMut<'_, T>>> for Arg {
    fn from(view: Option<&ViewMut<'_, T>>) -> Self {
        Self::Pointer(view.map_or(0, |v| v.pointer))
    }
}
impl From<i32> for Arg {
    fn from(x: i32) -> Self {
        Self::I32(x)
    }
}
/// Counts are 32-bit in the kernels' parameters.
impl From<usize> for Arg {
    fn from(x: usize) -> Self {
        Self::I32(x as i32)
    }
}
impl From<i64> for Arg {
    fn from(x: i64) -> Self {
        Self::I64(x)
    }
}
impl From<f32> for Arg {
    fn from(x: f32) -> Self {
        Self::F32(x)
    }
}

impl Arg {
    pub(crate) fn address(&mut self) -> *mut c_void {
        match self {
            Self::Pointer(x) => std::ptr::from_mut(x).cast(),
            Self::I32(x) => std::ptr::from_mut(x).cast(),
            Self::I64(x) => std::ptr::from_mut(x).cast(),
            Self::F32(x) => std::ptr::from_mut(x).cast(),
            Self::Map(x) => std::ptr::from_mut(&mut x.0).cast(),
        }
    }
}

impl Gpu {
    /// Tensor map of `[tokens, heads, dim]` bf16 with `stride` elements from token to token; a copy takes `rows` tokens by
    /// 64 columns of one head.
    pub(crate) fn tensor_map(
        &self,
        address: u64,
        [tokens, heads, dim]: [usize; 3],
        stride: usize,
        rows: usize,
    ) -> Result<TensorMap> {
        use sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        use sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
        use sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE;
        use sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
        use sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B;
        self.bind()?;
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let sizes = [dim as u64, heads as u64, tokens as u64];
        let strides = [dim as u64 * 2, stride as u64 * 2];
        let (tile, steps) = ([64u32, 1, rows as u32], [1u32; 3]);
        // SAFETY: every array has the three dimensions (two strides) announced; the map outlives the call.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                3,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .map_err(CudaError::driver("cuTensorMapEncodeTiled"))?;
        Ok(TensorMap(map.opaque))
    }
}
