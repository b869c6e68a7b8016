//! Implements callable graphs: compiled at their first call, once per content.

mod derived;
mod located;
mod on_device;
mod recorded;

use super::interner::GraphInterner;
use super::source::Source;
use super::symbolic::Sized;
use crate::optimize::PassContext;
use crate::session::cache::disk::verifies;
use crate::session::cache::entry::{CacheSlot, Making, Site, Split};
use crate::session::cache::footprint::Footprint;
use crate::session::cache::lru::{Cached, Lru};
use crate::session::context::settings;
use crate::session::devices;
use crate::session::report;
pub use derived::{Derivative, Hiding, Partial};
use located::located;
use ms_cache::Digest;
use ms_compile::exec::{self, Artifact, Backend, CompileOptions, Donation, Executable};
use ms_compile::lower::{fail_at_same_locations, have_same_locations};
use ms_ir::error::{Error, Result};
use ms_ir::{Graph, Precision, canonical_bytes};
use ms_ops::ops;
use ms_ops::tensor::{Array, Device, Outputs, Tensor, is_host_only};
use once_cell::sync::OnceCell;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// The maximum size of the cache of compiled graphs. They serve other functions or models with the same graph.
const CACHED_BYTES: usize = 64 << 20;

/// A graph of constant sizes, for a graph of symbolic ones.
#[derive(Clone)]
struct AtSizes(Arc<Compiled>);

impl Cached for AtSizes {
    fn bytes(&self) -> usize {
        self.0.own_bytes()
    }
}

/// A graph, its compiled code, and its derivatives.
pub struct Compiled {
    pub(in crate::session) source: Arc<Source>,
    precision: Precision,
    /// The device that its code runs on.
    device: Device,
    /// This graph on other devices.
    elsewhere: Mutex<FxHashMap<Device, Arc<Compiled>>>,
    /// The symbols that a call determines, if sizes are symbolic.
    sized: Option<Sized<AtSizes>>,
    /// The location on disk.
    place: Option<CacheSlot>,
    /// Whether it was looked up on disk.
    sought: AtomicBool,
    footprint: Footprint,
    /// An initialisation that fails is retried at the next call.
    executable: OnceCell<Arc<dyn Executable>>,
    derivatives: Mutex<FxHashMap<Vec<usize>, Arc<Derivative>>>,
    tangents: Mutex<FxHashMap<[Vec<usize>; 2], Arc<Compiled>>>,
    partial: Mutex<FxHashMap<[Vec<usize>; 2], Arc<Partial>>>,
}

impl Compiled {
    fn of(
        source: Arc<Source>,
        precision: Precision,
        device: Device,
        sized: Option<Sized<AtSizes>>,
        place: Option<CacheSlot>,
        footprint: Footprint,
    ) -> Arc<Self> {
        Arc::new(Self {
            source,
            precision,
            device,
            elsewhere: Mutex::default(),
            sized,
            place,
            sought: AtomicBool::new(false),
            footprint,
            executable: OnceCell::new(),
            derivatives: Mutex::default(),
            tangents: Mutex::default(),
            partial: Mutex::default(),
        })
    }

    /// Creates a callable graph. Its transforms are expanded here. Code is generated at the first call on a device, and
    /// stays in this process.
    ///
    /// # Errors
    /// [`Code::Verify`](crate::Code::Verify) for a graph that is not well formed: its code would access memory that its
    /// types do not describe. [`Code::NoGradient`](crate::Code::NoGradient) and similar, from expanding transforms.
    pub fn new(graph: &Graph, precision: Precision) -> Result<Arc<Self>> {
        ops::verify(graph)?;
        Self::sound(graph, precision, settings().device, Footprint::new())
    }

    /// Implements [`Compiled::new`] for a graph from tracing or a transform.
    fn sound(graph: &Graph, precision: Precision, device: Device, footprint: Footprint) -> Result<Arc<Self>> {
        let (sized, in_order) = (Sized::of(graph)?, precision == Precision::Strict);
        let source = match sized {
            None => Source::given(graph, in_order)?,
            // A call finds out whether it can be expanded for all sizes at once.
            Some(_) => Source::of_trace(graph.clone(), in_order),
        };
        footprint.add_graph(graph);
        Ok(Self::of(source, precision, device, sized, None, footprint))
    }

    /// Returns the callable graph of a traced function. Graphs are interned: if a graph of the same content is in use
    /// or was used recently, returns that. A hit in the cache on disk loads the code. Then nothing is expanded, and
    /// errors of expanding are reported when it is called.
    ///
    /// # Errors
    /// See [`Compiled::new`].
    pub(in crate::session) fn shared(graph: Graph, precision: Precision, site: Option<Site>) -> Result<Arc<Self>> {
        static MADE: LazyLock<Mutex<GraphInterner<Compiled>>> = LazyLock::new(Mutex::default);
        let lock = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
        // Locations are not part of the content, but are reported if a run fails.
        let same_lines = |it: &Arc<Self>| it.source.traced().is_some_and(|it| fail_at_same_locations(it, &graph));
        // A call with inputs on another device runs there.
        let device = settings().device;
        let backend = backend(device)?;
        let (key, known, place) = report::stage("key", || {
            let mut key = canonical_bytes(&graph);
            key.push(precision as u8);
            let known = lock().get(&key).filter(same_lines);
            let bytes = &key[..key.len() - 1];
            let backend = backend.filter(|_| known.is_none());
            let place = backend.and_then(|it| CacheSlot::of(&graph, bytes, || making(precision, &**it), site));
            (key, known, place)
        });
        if let Some(known) = known {
            if !known.source.traced().is_some_and(|it| have_same_locations(it, &graph)) {
                known.source.share_lines();
            }
            return Ok(known.kept());
        }
        let sized = Sized::of(&graph)?;
        let footprint = Footprint::new();
        footprint.add_graph(&graph);
        let source = Source::of_trace(graph, precision == Precision::Strict);
        if place.is_none() && sized.is_none() {
            source.graph()?;
        }
        let made = Self::of(source, precision, device, sized, place, footprint);
        lock().insert(key, &made);
        Ok(made.kept())
    }

    /// Caches the graph for a while, since another model of the same structure may follow.
    fn kept(self: Arc<Self>) -> Arc<Self> {
        // The key is the address, which is unique as long as the graph is cached.
        static KEPT: Lru<usize, Arc<Compiled>, CACHED_BYTES> = Lru::new();
        let address = Arc::as_ptr(&self).addr();
        KEPT.get(&address).unwrap_or_else(|| KEPT.insert(address, self))
    }

    /// Returns the size in memory, including derivatives and graphs at other sizes.
    pub(in crate::session) fn bytes(&self) -> usize {
        self.footprint.bytes()
    }

    /// Returns the size in memory, without derivatives and graphs at other sizes.
    pub(in crate::session) fn own_bytes(&self) -> usize {
        self.footprint.own_bytes()
    }

    /// Loads the entry at this location of the cache: a graph with these numbers of inputs and outputs, traced by
    /// another process. It has no derivatives.
    pub(in crate::session) fn stored(
        place: CacheSlot,
        precision: Precision,
        inputs: usize,
        outputs: usize,
    ) -> Option<Arc<Self>> {
        let (source, device) = (Source::unknown(inputs, outputs), settings().device);
        let compiled = Self::of(source, precision, device, None, Some(place), Footprint::new());
        let (executable, _) = compiled.find()?;
        let _first = compiled.executable.set(executable);
        Some(compiled)
    }

    /// Returns the key in the cache, if there is one. A graph with symbolic sizes has many.
    pub(in crate::session) fn key(&self) -> Option<Digest> {
        if self.sized.is_some() { None } else { self.place.as_ref().map(CacheSlot::key) }
    }

    /// Returns the number of outputs.
    ///
    /// # Errors
    /// See [`Compiled::new`].
    pub fn results(&self) -> Result<usize> {
        self.source.results()
    }

    /// Returns this graph on the device of its inputs, and at their sizes if sizes are symbolic.
    ///
    /// # Errors
    /// [`Code::Devices`](crate::Code::Devices) for inputs on different devices; the errors of expanding at these sizes.
    pub(in crate::session) fn fitted(self: &Arc<Self>, inputs: &[Tensor]) -> Result<Arc<Self>> {
        if self.sized.is_none() && is_host_only() {
            return Ok(self.clone());
        }
        let inputs = arrays(inputs)?;
        let device = if is_host_only() { None } else { Some(devices::gathered(&inputs, |_| false)?.0) };
        Ok(self.other(inputs, device)?.unwrap_or_else(|| self.clone()))
    }

    /// Returns this graph at the sizes of inputs, if sizes are symbolic, and on `device`, if it is set. Returns `None`
    /// if this graph fits already.
    #[inline]
    fn other<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Array>,
        device: Option<Device>,
    ) -> Result<Option<Arc<Self>>> {
        let sized = match &self.sized {
            None => None,
            Some(sized) => Some(self.at(sized, &inputs.into_iter().collect::<SmallVec<[&Array; 8]>>())?),
        };
        match device {
            None => Ok(sized),
            Some(device) => Ok(sized.as_deref().unwrap_or(self).on(device)?.or(sized)),
        }
    }

    /// Returns this graph on another device; `None` for its own.
    #[cold]
    fn on(&self, device: Device) -> Result<Option<Arc<Self>>> {
        if device == self.device {
            return Ok(None);
        }
        let mut elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = elsewhere.get(&device) {
            return Ok(Some(known.clone()));
        }
        debug_assert!(self.sized.is_none(), "sizes are constant where a graph runs");
        let place = match (&self.place, backend(device)?) {
            (Some(place), Some(backend)) => place.on(making(self.precision, &**backend)),
            _ => None,
        };
        let made = Self::of(self.source.clone(), self.precision, device, None, place, self.footprint.part());
        elsewhere.insert(device, made.clone());
        Ok(Some(made))
    }

    /// Returns the device that its code runs on, if its inputs are there.
    pub(in crate::session) fn device(&self) -> Device {
        self.device
    }

    /// Runs the graph like [`Compiled::run`], with donated inputs: a result may reuse the memory of an input that is
    /// not shared.
    ///
    /// # Errors
    /// See [`Compiled::run`].
    pub fn run_owned(self: &Arc<Self>, inputs: Vec<Tensor>) -> Result<Outputs> {
        let array = |it: Tensor| match it.into_array()? {
            array if array.space().is_host() => Ok(array.on_host()?.to_contiguous()),
            array => Ok(array),
        };
        let mut arrays = inputs.into_iter().map(array).collect::<Result<SmallVec<[Array; 8]>>>()?;
        self.run_donated(&mut arrays, &[])
    }

    /// Runs the graph on donated inputs: see [`Executable::run_donated`].
    ///
    /// # Errors
    /// See [`Compiled::run`].
    pub(in crate::session) fn run_donated(&self, inputs: &mut [Array], donations: &[Donation]) -> Result<Outputs> {
        let device = if is_host_only() { None } else { Some(devices::gather(inputs, |_| false)?) };
        let other = self.other(&*inputs, device)?;
        let known = other.as_deref().unwrap_or(self);
        let executable = known.executable()?;
        let outputs = match device {
            None => executable.run_donated(inputs, donations),
            Some(device) => self.submit_donated(device, executable, inputs, donations),
        };
        Ok(tensors(outputs.map_err(|error| known.located(error))?))
    }

    /// Runs the graph on tensors that are not traced.
    ///
    /// # Errors
    /// The errors of lowering and of ops.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Outputs> {
        let mut outputs = Outputs::new();
        self.run_arrays(&mut outputs, &arrays(inputs)?)?;
        Ok(outputs)
    }

    /// Runs the graph and stores its outputs in `to`.
    ///
    /// # Errors
    /// The errors of lowering and of ops.
    pub(in crate::session) fn run_arrays(&self, to: &mut Outputs, inputs: &[&Array]) -> Result<()> {
        if !is_host_only() {
            return self.run_on_any(inputs).map(|it| *to = it);
        }
        let other = self.other(inputs.iter().copied(), None)?;
        let known = other.as_deref().unwrap_or(self);
        match known.executable()?.run(inputs) {
            Ok(outputs) => {
                *to = tensors(outputs);
                Ok(())
            }
            Err(error) => Err(known.located(error)),
        }
    }

    #[cold]
    fn located(&self, error: Error) -> Error {
        located(&self.source, error)
    }

    /// Returns this graph of symbolic sizes at the sizes of its inputs.
    fn at(&self, sized: &Sized<AtSizes>, inputs: &[&Array]) -> Result<Arc<Self>> {
        let known = sized.at(inputs, |sizes| {
            let place = self.place.as_ref().map(|it| it.piece(format!("sizes {sizes:?}")));
            let known =
                Self::of(self.source.at(sizes), self.precision, self.device, None, place, self.footprint.part());
            if known.place.is_none() {
                known.source.graph()?;
            }
            Ok(AtSizes(known))
        })?;
        Ok(known.0)
    }

    fn executable(&self) -> Result<&Arc<dyn Executable>> {
        let make = || match backend(self.device)? {
            Some(backend) => match self.find() {
                Some((executable, _)) => Ok(executable),
                None => self.compile(backend, Split::default()),
            },
            None => Ok(exec::reference(self.source.optimized(&PassContext::default())?)),
        };
        self.executable.get_or_try_init(make)
    }

    /// Compiles the graph and stores it in the cache, with the split of a forward part.
    fn compile(&self, backend: &'static Arc<dyn Backend>, split: Split) -> Result<Arc<dyn Executable>> {
        let start = Instant::now();
        let graph = self.optimized(&**backend)?;
        let options = self.options();
        let artifact = report::stage("compile", || backend.compile(&graph, &options))?;
        report::compiled(&artifact.interface, || backend.describe(&graph, &options));
        // Loading can reuse the memory of the graph.
        drop(graph);
        // SAFETY: this backend has just compiled the artifact from a verified graph.
        let executable = report::stage("load", || unsafe { self.load(&**backend, &artifact) })?;
        report::finished(artifact.interface.outputs.len(), &*executable);
        if let Some(place) = &self.place {
            let took = start.elapsed() + self.source.took();
            place.put(artifact, split, took);
        }
        Ok(executable)
    }

    /// # Safety
    /// This build of the backend compiled the artifact from a valid graph, as [`Backend::load`] requires.
    unsafe fn load(&self, backend: &dyn Backend, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        self.footprint.add_code(artifact);
        // SAFETY: this build of the backend compiled the artifact from a valid graph, by this method's contract.
        unsafe { backend.load(artifact) }
    }

    /// Returns the graph in the form that the backend compiles, with its legal composites.
    fn optimized(&self, backend: &dyn Backend) -> Result<Graph> {
        let (target, precision) = (backend.target(), self.precision);
        let (kept, images) = (target.composites.to_vec(), target.images);
        self.source.optimized(&PassContext { legal_composites: kept, images, precision, ..PassContext::default() })
    }

    fn options(&self) -> CompileOptions<'_> {
        let Self { precision, ref source, .. } = *self;
        CompileOptions { precision, fresh: false, traced: source.traced(), family: source.family() }
    }

    /// Returns the executable from the cache on disk, with the split of a forward part. Looks it up once.
    fn find(&self) -> Option<(Arc<dyn Executable>, Split)> {
        let (place, backend) = (self.place.as_ref()?, backend(self.device).ok()??);
        if self.sought.swap(true, Ordering::Relaxed) {
            return None;
        }
        let start = Instant::now();
        let found = report::stage("look up", || place.get())?;
        if !self.source.fits(&found.artifact.interface, &found.split) {
            place.refused("an entry is ignored: its program is of another graph");
            return None;
        }
        if verifies() && !self.source.is_unknown() && !self.is_reproduced(&found.artifact, &**backend) {
            place.refused("an entry is not what compiling gives now; it is replaced");
            return None;
        }
        // SAFETY: the key identifies this compiler, this backend and this graph. Hashes prove that nothing changed, and
        // the owner of the files that nobody else wrote them. So this backend compiled the artifact from this graph.
        let load = || unsafe { self.load(&**backend, &found.artifact) };
        match report::stage("load", load) {
            Ok(executable) => {
                report::finished(found.artifact.interface.outputs.len(), &*executable);
                place.used(start.elapsed(), found.took);
                Some((executable, found.split))
            }
            Err(error) => {
                place.refused(&format!("an entry is ignored: {}", error.report().message));
                None
            }
        }
    }

    /// Returns whether a compilation without this process's kernel code reproduces the artifact.
    fn is_reproduced(&self, stored: &Artifact, backend: &dyn Backend) -> bool {
        let options = CompileOptions { fresh: true, ..self.options() };
        let fresh = self.optimized(backend).and_then(|graph| backend.compile(&graph, &options));
        fresh.is_ok_and(|fresh| {
            fresh.interface == stored.interface
                && fresh.program.to_bytes() == stored.program.to_bytes()
                && fresh.code.as_ref() == stored.code.as_ref()
        })
    }
}

impl Cached for Arc<Compiled> {
    fn bytes(&self) -> usize {
        Compiled::bytes(self)
    }
}

#[inline(always)]
fn tensors(mut outputs: SmallVec<[Array; 1]>) -> Outputs {
    match (outputs.len(), outputs.pop()) {
        // The usual case needs no loop.
        (1, Some(only)) => Outputs::from_buf([Tensor::from_array(only)]),
        (_, last) => outputs.into_iter().chain(last).map(Tensor::from_array).collect(),
    }
}

fn arrays(inputs: &[Tensor]) -> Result<SmallVec<[&Array; 8]>> {
    inputs.iter().map(|it| it.array()).collect()
}

/// Returns the backend of a device; `None` for the host if none is linked.
///
/// # Errors
/// See [`exec::backend`].
pub(in crate::session) fn backend(device: Device) -> Result<Option<&'static Arc<dyn Backend>>> {
    if device.is_cpu() { Ok(exec::host_backend()) } else { exec::backend(device).map(Some) }
}

/// Returns everything besides the graph that determines its code, computed once for each precision and device.
pub(in crate::session) fn making(precision: Precision, backend: &dyn Backend) -> &'static Making {
    static MAKING: Mutex<FxHashMap<(Precision, Device), &'static Making>> =
        Mutex::new(FxHashMap::with_hasher(rustc_hash::FxBuildHasher));
    let mut known = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry((precision, backend.memory().device())).or_insert_with(|| {
        let settings = [("precision", format!("{precision:?}")), ("optimize", format!("{:?}", PassContext::default()))];
        Box::leak(Box::new(Making::new(backend, settings)))
    })
}
