//! Defines the settings of the process, which threads can override.

use crate::optimize::{PASSES, pass_by_name};
use ms_compile::exec;
use ms_ir::MapVec;
use ms_ir::Precision;
use ms_ir::environment::{Variable, number};
use ms_ir::environment_variables;
use ms_ir::error::OrRaise;
use ms_ops::tensor::{Device, DeviceKind, use_device};
use ms_trace::effects::Level;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

/// The execution mode of a call of a cell.
///
/// See the example of [`Context`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Ops run eagerly; only `#[jit]` compiles. The default.
    #[default]
    PyNative,
    /// Every call of a cell is compiled as a whole.
    Graph,
}

/// The settings.
///
/// ```
/// use ms_core::session::{Context, Mode, context, set_context};
/// set_context(Context { mode: Mode::Graph, ..context() });
/// # set_context(Context { mode: Mode::PyNative, ..context() });
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    /// The execution mode of calls of cells.
    pub mode: Mode,
    /// The permitted deviations of compiled arithmetic. `MS_PRECISION` sets it by name.
    pub precision: Precision,
    /// The kind of device for new tensors, and for ops without operands: `cpu`, or a kind that the backends of the
    /// program add. `MS_DEVICE_TARGET` sets it by name, with a number if it is not the first device: `sim:1`.
    pub device_target: DeviceKind,
    /// The number of the device within its kind.
    pub device_id: u16,
    /// Whether annotated code compiles at all; `MS_JIT=0` turns it off for debugging.
    pub jit: bool,
    /// Whether equal calls of cells share a graph; otherwise every call is inlined first. Sharing changes no result,
    /// except, under [`Precision::Highest`] and below, by the order in which gradients are added.
    /// `MS_DEV_SHARE_GRAPHS=0` disables it.
    pub share_graphs: bool,
    /// The level of copies of old parameter values before a write. No level changes a result.
    /// `MS_DEV_SIDE_EFFECT_LOAD_ELIM` sets it.
    pub load_elim: Level,
    /// The level of graphs that are saved as files. 0 saves none, 1 one per stage, 2 also the plan, and 3 every pass
    /// and each stage for Graphviz and as an HTML page. `MS_DEV_SAVE_GRAPHS` sets it.
    pub save_graphs: u8,
    /// The folder for these files; default: `ms_graphs`. `MS_DEV_SAVE_GRAPHS_PATH`.
    pub save_graphs_path: Option<PathBuf>,
    /// The passes that are saved at level 3; if empty, all. `MS_DEV_DUMP_IR_PASSES`, separated by
    /// commas.
    pub save_graphs_passes: Vec<String>,
    /// Whether compiled functions are stored on disk for later processes;
    /// `MS_COMPILER_CACHE_ENABLE=1` enables it.
    pub enable_compile_cache: bool,
    /// The directory of the cache, created if it is missing; a relative path is relative to the
    /// working directory. Default: `MS_COMPILER_CACHE_PATH`, or `ms` in the user's cache directory.
    pub compile_cache_path: Option<PathBuf>,
}

environment_variables! {
    static DEVICE_TARGET: Variable<Device> = Variable::new(
        "MS_DEVICE_TARGET",
        |it| it.to_str()?.trim().parse().ok(),
        || "a device: cpu, cuda:0, GPU, Ascend:1".to_owned(),
    );
    static PRECISION: Variable<Precision> = Variable::new(
        "MS_PRECISION",
        |it| Precision::from_name(it.to_str()?.trim()),
        || Precision::ALL.map(Precision::name).join(", "),
    );
    static JIT: Variable<bool> = Variable::switch("MS_JIT");
    static SHARE_GRAPHS: Variable<bool> = Variable::switch("MS_DEV_SHARE_GRAPHS");
    static LOAD_ELIM: Variable<Level> = Variable::new(
        "MS_DEV_SIDE_EFFECT_LOAD_ELIM",
        |it| Level::from_number(number(it)?),
        || "a level from 0 to 3".to_owned(),
    );
    static SAVE_GRAPHS: Variable<u8> = Variable::new(
        "MS_DEV_SAVE_GRAPHS",
        |it| number(it).filter(|it| *it <= MAX_SAVE_GRAPHS),
        || format!("a level from 0 to {MAX_SAVE_GRAPHS}"),
    );
    static SAVE_GRAPHS_PATH: Variable<PathBuf> = Variable::path("MS_DEV_SAVE_GRAPHS_PATH");
    static SAVE_GRAPHS_PASSES: Variable<Vec<String>> = Variable::new("MS_DEV_DUMP_IR_PASSES", passes, || {
        let names: Vec<&str> = PASSES.map_vec(|it| it.name());
        format!("passes with commas between: {}", names.join(", "))
    });
    static ENABLE_COMPILE_CACHE: Variable<bool> = Variable::switch("MS_COMPILER_CACHE_ENABLE");
    static COMPILE_CACHE_PATH: Variable<PathBuf> = Variable::path("MS_COMPILER_CACHE_PATH");
}

/// The maximal level of saved graphs.
const MAX_SAVE_GRAPHS: u8 = 3;

/// Parses names of passes, separated by commas.
fn passes(text: &OsStr) -> Option<Vec<String>> {
    let names = text.to_str()?.split(',').map(str::trim).filter(|it| !it.is_empty());
    names.map(|it| pass_by_name(it).map(|_| it.to_owned())).collect()
}

impl Default for Context {
    /// Reads the settings from the environment.
    ///
    /// # Panics
    /// Raises [`Code::Environment`](crate::Code::Environment) if a variable has an invalid value.
    fn default() -> Self {
        let device = DEVICE_TARGET.value().unwrap_or(Device::CPU);
        Self {
            mode: Mode::default(),
            precision: PRECISION.value().unwrap_or_default(),
            device_target: device.kind(),
            device_id: device.id(),
            jit: JIT.value().unwrap_or(true),
            share_graphs: SHARE_GRAPHS.value().unwrap_or(true),
            load_elim: LOAD_ELIM.value().unwrap_or_default(),
            save_graphs: SAVE_GRAPHS.value().unwrap_or(0),
            save_graphs_path: SAVE_GRAPHS_PATH.value(),
            save_graphs_passes: SAVE_GRAPHS_PASSES.value().unwrap_or_default(),
            enable_compile_cache: ENABLE_COMPILE_CACHE.value().unwrap_or(false),
            compile_cache_path: COMPILE_CACHE_PATH.value(),
        }
    }
}

impl Context {
    /// Returns the device on which new tensors are placed.
    pub fn device(&self) -> Device {
        Device::new(self.device_target, self.device_id)
    }
}

fn process() -> &'static RwLock<Context> {
    static PROCESS: OnceLock<RwLock<Context>> = OnceLock::new();
    PROCESS.get_or_init(RwLock::default)
}

thread_local! {
    static THREAD: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
    /// The cached settings of this thread, with the number of changes when they were read.
    static SETTINGS: Cell<(u64, Settings)> = const { Cell::new((0, Settings::UNKNOWN)) };
}

/// The number of changes of settings so far, on any thread.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// The settings that every call of a compiled function reads.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub mode: Mode,
    pub precision: Precision,
    pub jit: bool,
    pub share_graphs: bool,
    pub load_elim: Level,
    pub device: Device,
}

impl Settings {
    const UNKNOWN: Self = Self {
        mode: Mode::PyNative,
        precision: Precision::Highest,
        jit: true,
        share_graphs: true,
        load_elim: Level::Needed,
        device: Device::CPU,
    };

    fn of(context: &Context) -> Self {
        let Context { mode, precision, jit, share_graphs, load_elim, .. } = *context;
        Self { mode, precision, jit, share_graphs, load_elim, device: context.device() }
    }

    /// Returns the settings that determine the compiled code, as a number.
    #[inline]
    pub fn key(self) -> u64 {
        self.precision as u64 | (self.load_elim as u64) << 8 | (self.share_graphs as u64) << 16
    }
}

/// Returns the current settings that every call reads. They are reread only after a change.
#[inline]
pub(super) fn settings() -> Settings {
    let changes = CHANGES.load(Ordering::Acquire);
    match SETTINGS.get() {
        (known, settings) if known == changes => settings,
        _ => read_settings(changes),
    }
}

#[cold]
fn read_settings(changes: u64) -> Settings {
    let settings = read(Settings::of);
    use_device(settings.device);
    SETTINGS.set((changes, settings));
    settings
}

/// Marks [`settings`] of all threads as possibly changed.
fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Checks that a device can be used, and records its use.
#[track_caller]
fn check_device(device: Device) {
    if !device.is_cpu() {
        exec::backend(device).or_raise();
        use_device(device);
    }
}

/// Returns the current settings.
///
/// ```
/// use ms_core::session::{Mode, context};
/// assert_eq!(context().mode, Mode::PyNative);
/// ```
pub fn context() -> Context {
    read(Context::clone)
}

/// Passes the current settings to `f`.
pub(crate) fn read<R>(f: impl FnOnce(&Context) -> R) -> R {
    THREAD.with(|stack| match stack.borrow().last() {
        Some(context) => f(context),
        None => f(&process().read().unwrap_or_else(PoisonError::into_inner)),
    })
}

/// Sets the settings of the process, or of the innermost [`with_context`] of this thread.
///
/// All threads use the settings of the process. Tests, which run concurrently, use [`with_context`].
///
/// See the example of [`Context`].
///
/// # Panics
/// Raises [`Code::DeviceUnavailable`](crate::Code::DeviceUnavailable) for a device that this machine or this
/// program does not have.
#[track_caller]
pub fn set_context(context: Context) {
    check_device(context.device());
    THREAD.with(|stack| match stack.borrow_mut().last_mut() {
        Some(innermost) => *innermost = context,
        None => *process().write().unwrap_or_else(PoisonError::into_inner) = context,
    });
    changed();
}

/// Runs `f` with separate settings on this thread. Threads that `f` starts use the settings of the process. To share
/// these settings, pass a clone of [`context`] to a thread.
///
/// ```
/// use ms_core::session::{Context, Precision, context, with_context};
/// let strict = Context { precision: Precision::Strict, ..context() };
/// let inside = with_context(strict, || context().precision);
/// assert_eq!((inside, context().precision), (Precision::Strict, Precision::Highest));
/// ```
///
/// # Panics
/// See [`set_context`].
#[track_caller]
pub fn with_context<R>(context: Context, f: impl FnOnce() -> R) -> R {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            THREAD.with(|stack| stack.borrow_mut().pop());
            changed();
        }
    }
    check_device(context.device());
    THREAD.with(|stack| stack.borrow_mut().push(context));
    changed();
    let _pop = Pop;
    f()
}
