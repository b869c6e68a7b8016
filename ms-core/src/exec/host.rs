//! Running a [`Plan`] on the host: over one arena, with everything that does not depend on
//! addresses prepared when the plan is loaded.

use super::backend::{Executable, KernelCode};
use super::product::MatrixProduct;
use crate::error::{Code, Error, Result};
use crate::ir::{Kernel, Lanes, Param, Role};
use crate::lower::{Argument, Buffer, BufferId, Place, Plan, PlanStep, View};
use crate::tensor::{Array, Attrs, DType, Layout, Op, Shape, Storage, Type};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What a backend on the host gives to its executables, besides the code of kernels.
pub trait Host: Send + Sync {
    /// Runs a product.
    ///
    /// # Safety
    /// Every element that the product's sizes and strides reach from the three addresses lies
    /// in memory that lives during the call; nobody writes `a` and `b` or touches `out` meanwhile.
    ///
    /// # Errors
    /// [`Code::Backend`] when the device cannot run it.
    unsafe fn product(&self, product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()>;

    /// Runs an op as a whole, writing its row-major `outputs`, whose memory nobody else uses.
    ///
    /// # Errors
    /// What the op refuses.
    fn library(&self, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()>;
}

/// A loaded plan of a backend on the host.
///
/// The blocks of all kernel calls stand one after the other in one template of words. Addresses
/// in the arena and in constants are written into a copy of it once per arena, those of inputs
/// and outputs once per run.
pub struct HostExecutable {
    host: Arc<dyn Host>,
    inputs: Vec<InputType>,
    outputs: Vec<(Layout, DType)>,
    constants: Vec<Array>,
    arena_bytes: usize,
    template: Vec<u64>,
    /// Words that hold addresses in the arena.
    arena_words: Vec<Address>,
    /// Words that hold addresses in inputs and outputs.
    call_words: Vec<Address>,
    steps: Vec<Step>,
    idle: Mutex<Vec<Scratch>>,
}

/// What an input must be.
struct InputType {
    dtype: DType,
    shape: Shape,
}

/// A word of the template that holds the address of a place.
struct Address {
    word: u32,
    place: Place,
    offset: usize,
}

/// What one run needs and the next one can use again.
struct Scratch {
    arena: Arc<Storage>,
    words: Vec<u64>,
}

enum Step {
    /// A call with a block of the template.
    Kernel { code: Arc<dyn KernelCode>, words: Range<usize> },
    /// A product whose three addresses stand in the template.
    Product { product: Box<MatrixProduct>, words: Range<usize> },
    /// An op on arrays.
    Library { op: Op, attrs: Attrs, inputs: Vec<PlacedView>, outputs: Vec<PlacedView> },
}

/// A view whose layout counts from the start of its place's memory.
struct PlacedView {
    place: Place,
    dtype: DType,
    layout: Layout,
}

/// Templates up to this many words are copied to the stack by plans without an arena.
const STACK_WORDS: usize = 64;

impl HostExecutable {
    /// Prepares a plan. `kernels` are the plan's, in order.
    ///
    /// # Errors
    /// [`Code::Verify`] when the plan is not well formed: numbers out of range, or a step that
    /// reaches outside its buffers.
    pub fn new(plan: &Plan, kernels: &[Arc<dyn KernelCode>], host: Arc<dyn Host>) -> Result<Self> {
        let constants: Vec<Array> = plan.constants.iter().map(|it| it.to_array()).collect();
        let mut loader = Loader {
            plan,
            constants: &constants,
            template: Vec::new(),
            arena_words: Vec::new(),
            call_words: Vec::new(),
        };
        for buffer in &plan.buffers {
            loader.check_buffer(buffer)?;
        }
        let steps = plan.steps.iter().map(|step| loader.step(step, kernels)).collect::<Result<_>>()?;
        let Loader { template, arena_words, call_words, .. } = loader;
        let shape = |ty: &Type| {
            ty.shape().ok_or_else(|| Error::new(Code::Verify, format!("a plan's type {ty} has constant dimensions")))
        };
        let input = |ty: &Type| Ok(InputType { dtype: ty.dtype, shape: shape(ty)? });
        let output = |ty: &Type| Ok((Layout::contiguous(&shape(ty)?), ty.dtype));
        Ok(Self {
            host,
            inputs: plan.inputs.iter().map(input).collect::<Result<_>>()?,
            outputs: plan.outputs.iter().map(output).collect::<Result<_>>()?,
            arena_bytes: plan.arena_bytes,
            constants,
            template,
            arena_words,
            call_words,
            steps,
            idle: Mutex::new(Vec::new()),
        })
    }

    fn check_inputs(&self, inputs: &[&Array]) -> Result<()> {
        let fits = |(ty, array): (&InputType, &&Array)| {
            array.dtype() == ty.dtype && array.shape() == &ty.shape[..] && array.layout().is_contiguous()
        };
        if inputs.len() == self.inputs.len() && self.inputs.iter().zip(inputs).all(fits) {
            return Ok(());
        }
        Err(self.refuse(inputs))
    }

    #[cold]
    fn refuse(&self, inputs: &[&Array]) -> Error {
        let want: Vec<_> = self.inputs.iter().map(|it| Type::of(it.dtype, &it.shape).to_string()).collect();
        Error::new(Code::Argument, format!("the plan takes row-major ({})", want.join(", ")))
            .with_operands(inputs.iter().map(|it| it.ty().to_string()))
    }

    /// A scratch of the pool, or a fresh one.
    fn take(&self) -> Scratch {
        if let Some(scratch) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return scratch;
        }
        let arena = Arc::new(Storage::uninit(self.arena_bytes));
        let mut words = self.template.clone();
        for address in &self.arena_words {
            words[address.word as usize] = arena.as_ptr() as u64 + address.offset as u64;
        }
        Scratch { arena, words }
    }

    fn execute(
        &self,
        words: &mut [u64],
        arena: Option<&Arc<Storage>>,
        inputs: &[&Array],
        outputs: &[Array],
    ) -> Result<()> {
        for address in &self.call_words {
            let base = match address.place {
                Place::Input(i) => inputs[i as usize].as_ptr(),
                Place::Output(i) => outputs[i as usize].as_ptr(),
                Place::Constant(_) | Place::Arena(_) => unreachable!("the loader wrote these already"),
            };
            words[address.word as usize] = base as u64 + address.offset as u64;
        }
        for step in &self.steps {
            match step {
                // SAFETY: the loader checked that every argument stays inside its buffer.
                // Buffers are inputs of checked types, fresh outputs, constants, and the arena,
                // which belongs to this run; a well-formed plan gives a kernel overlapping
                // arguments only where its contract allows them.
                Step::Kernel { code, words: range } => unsafe { code.call(&words[range.clone()]) },
                Step::Product { product, words: range } => {
                    let at = &words[range.clone()];
                    // SAFETY: as above.
                    unsafe { self.host.product(product, at[0] as *const u8, at[1] as *const u8, at[2] as *mut u8)? }
                }
                Step::Library { op, attrs, inputs: from, outputs: to } => {
                    let array = |view: &PlacedView| self.array(view, arena, inputs, outputs);
                    let from: SmallVec<[Array; 4]> = from.iter().map(array).collect();
                    let from: SmallVec<[&Array; 4]> = from.iter().collect();
                    let to: SmallVec<[Array; 1]> = to.iter().map(array).collect();
                    self.host.library(*op, attrs, &from, &to)?;
                }
            }
        }
        Ok(())
    }

    /// The array that a view names in this run.
    fn array(&self, view: &PlacedView, arena: Option<&Arc<Storage>>, inputs: &[&Array], outputs: &[Array]) -> Array {
        let base = match view.place {
            Place::Input(i) => inputs[i as usize],
            Place::Output(i) => &outputs[i as usize],
            Place::Constant(i) => &self.constants[i as usize],
            Place::Arena(_) => {
                let arena = arena.expect("a plan with arena buffers has an arena");
                return Array::new(arena.clone(), view.layout.clone(), view.dtype);
            }
        };
        // The base is row-major; its own first element need not be the storage's.
        let first = base.layout().offset() * base.dtype().size() / view.dtype.size();
        let (shape, strides) = (view.layout.shape().into(), view.layout.strides().into());
        let layout = Layout::new(shape, strides, first + view.layout.offset());
        Array::new(base.storage().clone(), layout, view.dtype)
    }
}

impl Executable for HostExecutable {
    fn run(&self, inputs: &[&Array]) -> Result<Vec<Array>> {
        self.check_inputs(inputs)?;
        let fresh = |(layout, dtype): &(Layout, DType)| {
            let storage = Storage::uninit(layout.numel() * dtype.size());
            Array::new(Arc::new(storage), layout.clone(), *dtype)
        };
        let outputs: Vec<Array> = self.outputs.iter().map(fresh).collect();
        let len = self.template.len();
        if self.arena_bytes == 0 && len <= STACK_WORDS {
            let mut words = [0; STACK_WORDS];
            words[..len].copy_from_slice(&self.template);
            self.execute(&mut words[..len], None, inputs, &outputs)?;
        } else {
            let mut scratch = self.take();
            let Scratch { arena, words } = &mut scratch;
            let done = self.execute(words, Some(arena), inputs, &outputs);
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
            done?;
        }
        Ok(outputs)
    }
}

/// Turns the steps of a plan into prepared ones.
struct Loader<'a> {
    plan: &'a Plan,
    constants: &'a [Array],
    template: Vec<u64>,
    arena_words: Vec<Address>,
    call_words: Vec<Address>,
}

impl Loader<'_> {
    fn step(&mut self, step: &PlanStep, kernels: &[Arc<dyn KernelCode>]) -> Result<Step> {
        match step {
            PlanStep::Kernel { kernel, extents, args } => {
                let at = kernel.0 as usize;
                let (Some(kernel), Some(code)) = (self.plan.kernels.get(at), kernels.get(at)) else {
                    return Err(malformed("a step names a kernel that is not there"));
                };
                let loops = kernel.loops();
                if extents.len() != loops || args.len() != kernel.params.len() {
                    return Err(malformed("a call fits its kernel"));
                }
                let first = self.template.len();
                self.template.extend(extents.iter().map(|&it| it as u64));
                for (arg, param) in args.iter().zip(&kernel.params) {
                    if arg.strides.len() != loops {
                        return Err(malformed("an argument has a stride for every loop"));
                    }
                    self.check_argument(arg, kernel, param, extents)?;
                    self.push_address(arg.buffer, arg.offset);
                    self.template.extend(arg.strides.iter().map(|&it| it as u64));
                }
                Ok(Step::Kernel { code: code.clone(), words: first..self.template.len() })
            }
            PlanStep::Product { a, b, out } => {
                if a.dtype != out.dtype || b.dtype != out.dtype {
                    return Err(malformed("a product has one dtype"));
                }
                let product = Box::new(MatrixProduct::new(out.dtype, &a.layout, &b.layout, &out.layout)?);
                let first = self.template.len();
                for view in [a, b, out] {
                    self.check_view(view)?;
                    self.push_address(view.buffer, view.layout.offset() * view.dtype.size());
                }
                Ok(Step::Product { product, words: first..self.template.len() })
            }
            PlanStep::Library { op, attrs, inputs, outputs } => Ok(Step::Library {
                op: *op,
                attrs: attrs.clone(),
                inputs: inputs.iter().map(|it| self.placed(it)).collect::<Result<_>>()?,
                outputs: outputs.iter().map(|it| self.placed(it)).collect::<Result<_>>()?,
            }),
        }
    }

    /// A view whose layout counts from the start of the arena, where it lies there.
    fn placed(&self, view: &View) -> Result<PlacedView> {
        self.check_view(view)?;
        let place = self.buffer(view.buffer)?.place;
        let first = match place {
            Place::Arena(at) => at / view.dtype.size(),
            _ => 0,
        };
        let (shape, strides) = (view.layout.shape().into(), view.layout.strides().into());
        let layout = Layout::new(shape, strides, first + view.layout.offset());
        Ok(PlacedView { place, dtype: view.dtype, layout })
    }

    fn push_address(&mut self, buffer: BufferId, offset: usize) {
        let word = self.template.len() as u32;
        let place = self.plan.buffers[buffer.0 as usize].place;
        let mut known = 0;
        match place {
            Place::Constant(i) => known = self.constants[i as usize].as_ptr() as u64 + offset as u64,
            Place::Arena(at) => self.arena_words.push(Address { word, place, offset: at + offset }),
            Place::Input(_) | Place::Output(_) => self.call_words.push(Address { word, place, offset }),
        }
        self.template.push(known);
    }

    fn buffer(&self, id: BufferId) -> Result<&Buffer> {
        self.plan.buffers.get(id.0 as usize).ok_or_else(|| malformed("a step names a buffer that is not there"))
    }

    /// A buffer lies inside its place.
    fn check_buffer(&self, buffer: &Buffer) -> Result<()> {
        let bytes =
            |types: &[Type], i: u32| types.get(i as usize)?.numel().map(|it| it * types[i as usize].dtype.size());
        let room = match buffer.place {
            Place::Input(i) => bytes(&self.plan.inputs, i),
            Place::Output(i) => bytes(&self.plan.outputs, i),
            Place::Constant(i) => self.plan.constants.get(i as usize).map(|it| it.bytes().len()),
            Place::Arena(at) => self.plan.arena_bytes.checked_sub(at),
        };
        match room {
            Some(room) if buffer.bytes <= room => Ok(()),
            _ => Err(malformed("a buffer lies outside its place")),
        }
    }

    fn check_argument(&self, arg: &Argument, kernel: &Kernel, param: &Param, extents: &[usize]) -> Result<()> {
        // A result is written once per point even where there is nothing to reduce.
        let points = kernel.par as usize + usize::from(kernel.lanes == Lanes::Parallel);
        let written = |axis: usize| param.role == Role::Output && axis >= points;
        let steps = extents
            .iter()
            .zip(&arg.strides)
            .enumerate()
            .map(|(axis, (&extent, &stride))| (if written(axis) { extent.max(1) } else { extent }, stride as i128));
        self.check_reach(arg.buffer, arg.offset as i128, steps, param.dtype.size())
    }

    fn check_view(&self, view: &View) -> Result<()> {
        let size = view.dtype.size();
        let steps = view.layout.shape().iter().zip(view.layout.strides());
        let steps = steps.map(|(&extent, &stride)| (extent, stride as i128 * size as i128));
        self.check_reach(view.buffer, (view.layout.offset() * size) as i128, steps, size)
    }

    /// What is reached by these extents and byte strides lies inside the buffer.
    fn check_reach(
        &self,
        buffer: BufferId,
        first: i128,
        steps: impl Iterator<Item = (usize, i128)>,
        size: usize,
    ) -> Result<()> {
        let bytes = self.buffer(buffer)?.bytes as i128;
        let (mut low, mut high) = (first, first + size as i128);
        for (extent, stride) in steps {
            if extent == 0 {
                return Ok(());
            }
            let reach = (extent as i128 - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        if low < 0 || high > bytes {
            return Err(malformed("a step reaches outside its buffer"));
        }
        Ok(())
    }
}

fn malformed(what: &str) -> Error {
    Error::new(Code::Verify, format!("the plan is not well formed: {what}"))
}
