//! Prepares steps of single ops, and runs them.

use super::check::{Check, DenseCheck};
use super::code::{self, Ready, ready};
use super::key::{Class, Key, OPERANDS};
use super::{Arrays, Operands, check_op, contiguous, infer};
use crate::session::context::settings;
use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::{self, Call, StepKey};
use ms_compile::target::Target;
use ms_ir::error::{Result, in_op};
use ms_ops::ops::host::{Axis, replace_axis};
use ms_ops::ops::{Lowering, OpDef};
use ms_ops::tensor::{Array, DType, Layout, MemorySpace, OpCall, Outputs, Shape, Tensor, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// An op on operands of a [key](Key): everything but addresses and the values of host scalars.
#[expect(clippy::large_enum_variant, reason = "each step is alone in an `Rc`, so that boxes would only add loads")]
pub(super) enum Step {
    /// An elementwise op on [dense operands](Class::Elementwise). One loop covers all elements: each operand advances
    /// by one element or, if it is a single element, not at all. Host scalars are immediates.
    Elementwise {
        /// The dtype of the result.
        dtype: DType,
        code: Arc<dyn StepCode>,
    },
    /// A gather from a [dense operand](Class::Gather). It has three loops: over the elements before the axis, over the
    /// indices, and over the elements after the axis. The last is omitted if there is one such element.
    Gather { code: Arc<dyn StepCode>, check: DenseCheck },
    /// A kernel with the loops of the operands' layouts.
    Kernel {
        /// The type of the result.
        result: (Shape, DType),
        call: Call,
        ready: Ready,
        /// Whether operands are copied to row-major memory first. Some reductions need this to preserve their order of
        /// terms.
        is_dense: bool,
        /// The check of a gather's indices.
        check: Option<Check>,
    },
    /// A check of an operand. The result is the first operand.
    Check(Check),
    /// An op that the device runs as a whole, on operands of a class other than [`Class::Layouts`].
    Op {
        /// The dtype of the result.
        dtype: DType,
        code: Arc<dyn StepCode>,
    },
    /// A contraction, a library op, or an op that the device runs as a whole.
    Whole {
        /// The types of the results.
        results: SmallVec<[(Shape, DType); 1]>,
        code: Arc<dyn StepCode>,
    },
    /// A result without elements, which needs no code: a loop around an empty one takes time, too.
    Empty { result: (Shape, DType), check: Option<Check> },
    /// An op of several kernels, or of one with an operand for each element, which each call prepares.
    Apart,
}

/// Words in the argument block of a gather with three loops, and with two.
const ROW_WORDS: usize = 17;
const ELEMENT_WORDS: usize = 13;

impl Step {
    /// Prepares the step of an op on operands of this key.
    ///
    /// # Errors
    /// The errors of the op's type rule, and of compiling code.
    #[cold]
    #[inline(never)]
    pub fn prepare(
        backend: &dyn Backend,
        def: &'static OpDef,
        call: &OpCall<'_>,
        key: &Key<'_>,
        operands: &Operands<'_>,
    ) -> Result<Self> {
        in_op(|| {
            let types = infer(def, call)?;
            if let Some(code) = code::whole(backend, operands.eager_op(call))? {
                return Ok(match key.class {
                    Class::Layouts => Self::Whole { results: shapes(&types), code },
                    Class::Elementwise | Class::Gather => Self::Op { dtype: types[0].dtype, code },
                });
            }
            match key.class {
                Class::Layouts if matches!(def.lowering, Lowering::Slices(_) | Lowering::Position(_)) => {
                    Ok(Self::Apart)
                }
                Class::Layouts => Self::of_layouts(backend, def, call, &types, operands),
                _ => Self::of_class(backend, def, call, types[0].dtype, key, operands),
            }
        })
    }

    /// Prepares the step of an op on operands of a class, with a result of this dtype.
    fn of_class(
        backend: &dyn Backend,
        def: &'static OpDef,
        call: &OpCall<'_>,
        dtype: DType,
        key: &Key<'_>,
        operands: &Operands<'_>,
    ) -> Result<Self> {
        // Two elements represent any number of them. With only one, every operand would be a single element.
        let (single, several) = (Layout::contiguous(&[]), Layout::contiguous(&[2]));
        if key.class == Class::Elementwise {
            let sources = operands.sources(&|i| if key.is_single(i) { &single } else { &several });
            let call = eager::prepare_map(def, call.attrs, &sources, &Type::of(dtype, &[2]));
            let ready = ready(backend, &call.expect("the shape is constant").key)?;
            debug_assert_eq!(ready.words, elementwise_words(operands), "elementwise kernels read no position");
            return Ok(Self::Elementwise { dtype, code: ready.code });
        }
        // The axis is the second one.
        let operand: &[usize] = if key.is_single(0) { &[2, 2, 2] } else { &[2, 2] };
        let from = (&Layout::contiguous(operand), operands.arrays[0].dtype());
        let gather = eager::prepare_gather(def, from, (&several, operands.arrays[1].dtype()), 1);
        let ready = ready(backend, &gather.key)?;
        let words = if key.is_single(0) { ROW_WORDS } else { ELEMENT_WORDS };
        debug_assert_eq!(ready.words, words, "a block has what the kernel reads");
        let check = DenseCheck::new(backend, def, call.attrs, operands.arrays[1].dtype())?;
        Ok(Self::Gather { code: ready.code, check })
    }

    /// Prepares the step of an op on operands of these layouts, with results of these types.
    fn of_layouts(
        backend: &dyn Backend,
        def: &'static OpDef,
        call: &OpCall<'_>,
        types: &[Type],
        operands: &Operands<'_>,
    ) -> Result<Self> {
        use Lowering::{Contraction, Gather, Generate, Map, Reduce};
        let mut results = shapes(types);
        let is_kernel = matches!(def.lowering, Gather(_) | Generate(_) | Map(_) | Reduce(_));
        if (is_kernel || matches!(def.lowering, Contraction(_))) && results[0].0.contains(&0) {
            let check = Check::new(backend, def, call.attrs, &operands.arrays)?;
            return Ok(Self::Empty { result: results.remove(0), check });
        }
        let check = Check::new(backend, def, call.attrs, &operands.arrays)?;
        let check = match (&def.lowering, check) {
            (Lowering::Check(_), Some(check)) => return Ok(Self::Check(check)),
            (_, check) => check,
        };
        if !is_kernel {
            check_op(backend, def, &operands.arrays)?;
            let key = StepKey::whole(def, call.attrs, &operands.arrays, settings().precision);
            return Ok(Self::Whole { results, code: ready(backend, &key)?.code });
        }
        let layouts: SmallVec<[&Layout; 3]> = operands.arrays.iter().map(|it| it.layout()).collect();
        let (prepared, is_dense) = match kernel(backend.target(), def, call, &layouts, operands, &types[0]) {
            Some(prepared) => (prepared, false),
            None => {
                let dense: SmallVec<[Layout; 3]> = layouts.iter().map(|it| Layout::contiguous(it.shape())).collect();
                let layouts: SmallVec<[&Layout; 3]> = dense.iter().collect();
                let prepared = kernel(backend.target(), def, call, &layouts, operands, &types[0]);
                (prepared.expect("row-major operands have a nest"), true)
            }
        };
        let ready = ready(backend, &prepared.key)?;
        Ok(Self::Kernel { result: results.remove(0), call: prepared, ready, is_dense, check })
    }

    /// Runs the step on operands of its key.
    ///
    /// # Errors
    /// The errors of the op and of the device.
    #[inline(always)]
    pub fn run(
        &self,
        backend: &dyn Backend,
        space: MemorySpace,
        key: &Key<'_>,
        operands: &Operands<'_>,
    ) -> Result<Outputs> {
        match self {
            Self::Elementwise { dtype, code } => elementwise(space, *dtype, &**code, key, operands),
            Self::Gather { code, check } => gather(space, &**code, check, key, operands),
            Self::Op { dtype, code } => op(space, *dtype, &**code, key, operands),
            _ => self.run_on_layouts(backend, space, operands),
        }
    }

    /// Implements [`Step::run`] for operands of [`Class::Layouts`].
    #[inline(never)]
    fn run_on_layouts(&self, backend: &dyn Backend, space: MemorySpace, operands: &Operands<'_>) -> Result<Outputs> {
        in_op(|| {
            let one = |out| Ok(Outputs::from_buf([Tensor::from_array(out)]));
            match self {
                Self::Kernel { result: (shape, dtype), call, ready, is_dense, check } => {
                    check.as_ref().map_or(Ok(()), |it| it.run(&operands.arrays))?;
                    // SAFETY: the kernel writes every element before the array is returned.
                    let out = unsafe { Array::uninit_in(space, shape, *dtype)? };
                    let copies: SmallVec<[Array; 3]>;
                    let dense: Arrays<'_>;
                    let arrays = if *is_dense {
                        copies =
                            operands.arrays.iter().map(|it| contiguous(Some(backend), it)).collect::<Result<_>>()?;
                        dense = copies.iter().collect();
                        &dense[..]
                    } else {
                        &operands.arrays[..]
                    };
                    let addresses = arrays.iter().map(|it| it.device_ptr() as u64);
                    // SAFETY: the call was prepared for operands of these layouts, which are live, and for a fresh
                    // result of this type.
                    unsafe { ready.launch(call, addresses, &operands.bits(), out.device_ptr())? };
                    one(out)
                }
                Self::Check(check) => {
                    check.run(&operands.arrays)?;
                    one(operands.arrays[0].clone())
                }
                Self::Whole { results, code } => {
                    let mut outputs: SmallVec<[Array; 1]> = SmallVec::with_capacity(results.len());
                    for (shape, dtype) in results {
                        // SAFETY: the code writes every element before the array is returned.
                        outputs.push(unsafe { Array::uninit_in(space, shape, *dtype)? });
                    }
                    // SAFETY: the type rule accepted operands of these types, which are live, and returned the types of
                    // the fresh results.
                    unsafe { code.run(&operands.bits(), &operands.arrays, &outputs)? };
                    Ok(outputs.into_iter().map(Tensor::from_array).collect())
                }
                Self::Empty { result: (shape, dtype), check } => {
                    check.as_ref().map_or(Ok(()), |it| it.run(&operands.arrays))?;
                    // SAFETY: the array has no elements.
                    one(unsafe { Array::uninit_in(space, shape, *dtype)? })
                }
                Self::Elementwise { .. } | Self::Gather { .. } | Self::Op { .. } => {
                    unreachable!("steps of classes have no layouts")
                }
                Self::Apart => unreachable!("each call prepares such an op"),
            }
        })
    }
}

/// Returns the shapes and dtypes of results.
fn shapes(types: &[Type]) -> SmallVec<[(Shape, DType); 1]> {
    types.iter().map(|ty| (ty.shape().expect("arrays have constant shapes"), ty.dtype)).collect()
}

/// Runs a step of an op that the device runs as a whole, on operands of a class.
#[inline(never)]
fn op(
    space: MemorySpace,
    dtype: DType,
    code: &dyn StepCode,
    key: &Key<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let arrays = &operands.arrays;
    let shape = match key.axis {
        Some(axis) => replace_axis(arrays[0].shape(), axis, arrays[1].shape()),
        None => key.shape.into(),
    };
    // SAFETY: the code writes every element before the array is returned.
    let out = unsafe { Array::uninit_in(space, &shape, dtype)? };
    // SAFETY: the type rule accepts operands of this class, which are live, and infers the type of the fresh result.
    unsafe { code.run(&operands.bits(), arrays, std::slice::from_ref(&out))? };
    Ok(Outputs::from_buf([Tensor::from_array(out)]))
}

/// Prepares the call of an op that is one kernel, on operands of these layouts, with a result of type `out`. Returns
/// `None` if its operands must be row-major.
fn kernel(
    target: &Target,
    def: &'static OpDef,
    call: &OpCall<'_>,
    layouts: &[&Layout],
    operands: &Operands<'_>,
    out: &Type,
) -> Option<Call> {
    if let Lowering::Map(_) = def.lowering {
        return eager::prepare_map(def, call.attrs, &operands.sources(&|i| layouts[i]), out);
    }
    let mut described: SmallVec<[(&Layout, DType); 3]> = SmallVec::new();
    for (layout, array) in layouts.iter().zip(&operands.arrays) {
        described.push((layout, array.dtype()));
    }
    eager::prepare(def, call.attrs, &described, out, settings().precision, target)
}

/// Returns the number of words in the argument block of a step of [`Class::Elementwise`].
fn elementwise_words(operands: &Operands<'_>) -> usize {
    1 + 2 * (operands.arrays.len() + 1) + operands.numbers.len()
}

/// Runs a step of [`Class::Elementwise`] with a result of this dtype.
#[inline(always)]
fn elementwise(
    space: MemorySpace,
    dtype: DType,
    code: &dyn StepCode,
    key: &Key<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let arrays = &operands.arrays;
    // SAFETY: the kernel writes every element before the array is returned.
    let out = unsafe { Array::uninit_in(space, key.shape, dtype)? };
    let mut block = [0; 1 + 2 * (OPERANDS + 1)];
    block[0] = out.numel() as u64;
    for (i, operand) in arrays.iter().enumerate() {
        block[1 + 2 * i] = operand.device_ptr() as u64;
        block[2 + 2 * i] = if key.is_single(i) { 0 } else { operand.dtype().size() as u64 };
    }
    let mut words = 1 + 2 * (arrays.len() + 1);
    block[words - 2] = out.device_ptr() as u64;
    block[words - 1] = dtype.size() as u64;
    for (_, number) in &operands.numbers {
        block[words] = number.bits();
        words += 1;
    }
    // SAFETY: every operand in memory is dense with as many elements as `out`, or is one element that does not advance.
    // All are live during the call, and `out` is fresh.
    unsafe { code.run(&block[..words], &[], &[])? };
    Ok(Outputs::from_buf([Tensor::from_array(out)]))
}

/// Runs a step of [`Class::Gather`].
#[inline(never)]
fn gather(
    space: MemorySpace,
    code: &dyn StepCode,
    check: &DenseCheck,
    key: &Key<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let (operand, index) = (operands.arrays[0], operands.arrays[1]);
    let axis = key.axis.expect("a gather has an axis");
    check.run(&operands.arrays, operand.shape()[axis])?;
    let (count, bytes) = (index.numel(), operand.dtype().size());
    let sizes = replace_axis(operand.shape(), axis, index.shape());
    // SAFETY: the kernel writes every element before the array is returned.
    let out = unsafe { Array::uninit_in(space, &sizes, operand.dtype())? };
    if out.numel() == 0 {
        return Ok(Outputs::from_buf([Tensor::from_array(out)]));
    }
    let Axis { outer, size, inner } = Axis::of(operand.shape(), axis);
    let [from, at, to] = [operand.device_ptr() as usize, index.device_ptr() as usize, out.device_ptr() as usize];
    let step = index.dtype().size();
    // Extents, then addresses and strides of the operand, the indices and the result, then the axis.
    let block: [usize; ROW_WORDS] = if key.is_single(0) {
        let (plane, row) = (size * inner * bytes, inner * bytes);
        let operands = [from, plane, 0, bytes, at, 0, step, 0, to, count * row, row, bytes];
        concat([outer, count, inner], operands, [row, size])
    } else {
        let operands = [from, size * bytes, 0, at, 0, step, to, count * bytes, bytes];
        concat([outer, count], operands, [bytes, size])
    };
    let block = block.map(|it| it as u64);
    let length = if key.is_single(0) { ROW_WORDS } else { ELEMENT_WORDS };
    // SAFETY: both operands are dense, contain all elements that the loops and the axis access, and are live during the
    // call; `out` is fresh.
    unsafe { code.run(&block[..length], &[], &[])? };
    Ok(Outputs::from_buf([Tensor::from_array(out)]))
}

/// Concatenates the parts of an argument block, padded with zeros.
fn concat<const L: usize, const O: usize, const N: usize>(
    extents: [usize; L],
    operands: [usize; O],
    axis: [usize; 2],
) -> [usize; N] {
    let mut words = extents.into_iter().chain(operands).chain(axis);
    std::array::from_fn(|_| words.next().unwrap_or(0))
}
