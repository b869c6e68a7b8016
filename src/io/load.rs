//! Loads state dicts into values.

use super::convention::Convention;
use super::paths::{Found, owners, path, prepare, slots};
use super::state_dict::StateDict;
use ms_core::error::in_op;
use ms_core::tensor::Type;
use ms_core::trace::Arg;
use ms_core::{Code, Error, Parameter, Result, Tensor, ops};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The options for loading a state dict: accepted differences and entry names.
///
/// ```
/// use ms::prelude::*;
/// // A file of PyTorch, of a model that was wrapped in another one.
/// let mut file = StateDict::new();
/// file.insert("model.0.weight", Tensor::ones([2, 3]));
/// let net = nn::sequential![nn::Dense::new(3, 2)];
/// let options = LoadOptions::new().convention(Convention::PyTorch).rename(|name| format!("model.{name}"));
/// let report = net.load_state_dict(&file, &options.strict(false))?;
/// assert_eq!(report.loaded, ["layers[0].weight"]);
/// assert_eq!(report.missing, ["layers[0].bias"]);
/// # Ok::<(), ms::Error>(())
/// ```
pub struct LoadOptions {
    strict: bool,
    partial: bool,
    cast: bool,
    convention: Convention,
    rename: Box<Rename>,
    transposed: Box<Select>,
}

/// Maps the name of a slot in the dict's convention to its name in the dict.
type Rename = dyn Fn(&str) -> String;

/// Selects slots by path.
type Select = dyn Fn(&str) -> bool;

impl LoadOptions {
    /// Creates strict options: every entry has to fit, with the names of [`Stateful::state_dict`].
    ///
    /// [`Stateful::state_dict`]: super::Stateful::state_dict
    pub fn new() -> Self {
        Self {
            strict: true,
            partial: false,
            cast: false,
            convention: Convention::Ms,
            rename: Box::new(str::to_owned),
            transposed: Box::new(|_| false),
        }
    }

    /// Sets whether missing and unexpected entries are errors. If not, they are only reported, and slots without an
    /// entry retain their values.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Sets whether all entries that fit are loaded. Missing, unexpected and misshaped entries are then only reported,
    /// even if [`LoadOptions::strict`] is set.
    pub fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Sets whether floats are converted to the dtype of their slot. If not, an entry of another dtype is misshaped.
    pub fn cast(self, cast: bool) -> Self {
        Self { cast, ..self }
    }

    /// Sets the naming convention of the entries.
    pub fn convention(self, convention: Convention) -> Self {
        Self { convention, ..self }
    }

    /// Sets a function that renames slots: `rename` maps a name in the convention to a name in the dict.
    pub fn rename(self, rename: impl Fn(&str) -> String + 'static) -> Self {
        Self { rename: Box::new(rename), ..self }
    }

    /// Sets which matrices are stored transposed, by the paths of their slots. `Dense` and `torch.nn.Linear` store
    /// `[out, in]`; the layers of Keras, JAX and the first GPTs store `[in, out]`.
    pub fn transposed(self, transposed: impl Fn(&str) -> bool + 'static) -> Self {
        Self { transposed: Box::new(transposed), ..self }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strict, partial, cast, convention, .. } = self;
        let mut out = f.debug_struct("LoadOptions");
        out.field("strict", strict).field("partial", partial).field("cast", cast).field("convention", convention);
        out.finish_non_exhaustive()
    }
}

/// An entry with a shape or dtype different from its slot.
///
/// ```
/// use ms::prelude::*;
/// let (net, mut state) = (nn::Dense::new(3, 2), StateDict::new());
/// state.insert("weight", Tensor::ones([3, 2]));
/// let report = net.load_state_dict(&state, &LoadOptions::new().partial(true))?;
/// let wrong = &report.misshaped[0];
/// assert_eq!((wrong.expected.to_string(), wrong.found.to_string()), ("f32[2, 3]".into(), "f32[3, 2]".into()));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Misshaped {
    /// The path of the slot.
    pub name: String,
    /// The shape and dtype of the slot.
    pub expected: Type,
    /// The shape and dtype of the entry.
    pub found: Type,
}

/// The result of loading a state dict: loaded slots and differences.
///
/// ```
/// use ms::prelude::*;
/// let (net, mut state) = (nn::Dense::new(3, 2), StateDict::new());
/// state.insert("weight", Tensor::ones([2, 3]));
/// state.insert("scale", Tensor::ones([2]));
/// let report = net.load_state_dict(&state, &LoadOptions::new().strict(false))?;
/// assert!(!report.is_complete());
/// assert_eq!(report.to_string(), "`bias` is missing; `scale` is unexpected");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LoadReport {
    /// The paths of the slots that were loaded, sorted.
    pub loaded: Vec<String>,
    /// The paths of slots without an entry, sorted.
    pub missing: Vec<String>,
    /// The names of entries without a slot, sorted.
    pub unexpected: Vec<String>,
    /// Slots with entries that do not fit, sorted by path.
    pub misshaped: Vec<Misshaped>,
}

impl LoadReport {
    /// Returns whether every slot was loaded, and every entry used.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshaped.is_empty()
    }
}

/// Formats the differences, separated by semicolons.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing.iter().map(|it| format!("`{it}` is missing"));
        let unexpected = self.unexpected.iter().map(|it| format!("`{it}` is unexpected"));
        let misshaped = self.misshaped.iter();
        let misshaped = misshaped.map(|it| format!("`{}` is {}, the entry {}", it.name, it.expected, it.found));
        f.write_str(&missing.chain(misshaped).chain(unexpected).collect::<Vec<_>>().join("; "))
    }
}

/// Loads a dict into the slots of a value; see [`Stateful::load_state_dict`].
///
/// [`Stateful::load_state_dict`]: super::Stateful::load_state_dict
pub(super) fn load(value: &(impl Arg + ?Sized), state: &StateDict, options: &LoadOptions) -> Result<LoadReport> {
    prepare(value, &slots(value), &|path| state.get(&(options.rename)(path)).is_some());
    let found = slots(value);
    let mut plan = Plan::default();
    in_op(|| plan.read(&found, state, options)).map_err(|it| it.with_op("load_state_dict"))?;
    let report = plan.report;
    let accepted = match (options.partial, options.strict) {
        (true, _) => true,
        (false, true) => report.is_complete(),
        (false, false) => report.misshaped.is_empty(),
    };
    if !accepted {
        let error = Error::new(Code::Argument, format!("the state does not fit: {report}"));
        return Err(error.with_op("load_state_dict"));
    }
    for (parameter, value) in plan.writes {
        parameter.try_set(&value)?;
    }
    Ok(report)
}

/// The planned writes and the report. Nothing is written until all entries have been checked.
#[derive(Default)]
struct Plan {
    writes: Vec<(Parameter, Tensor)>,
    report: LoadReport,
}

impl Plan {
    fn read(&mut self, found: &[Found], state: &StateDict, options: &LoadOptions) -> Result<()> {
        let owners = owners(found);
        let mut places: HashMap<u64, usize> = HashMap::new();
        // Each slot with its first path, and the existing entries under any of its paths.
        let mut wanted: Vec<(String, &Parameter, Vec<String>)> = Vec::new();
        for it in found {
            let place = *places.entry(it.parameter.id()).or_insert_with(|| {
                wanted.push((path(&it.steps, &owners), &it.parameter, Vec::new()));
                wanted.len() - 1
            });
            let name = (options.rename)(&options.convention.name(&it.steps, &owners));
            if state.get(&name).is_some() && !wanted[place].2.contains(&name) {
                wanted[place].2.push(name);
            }
        }
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        let mut used = HashSet::new();
        for (path, parameter, names) in &wanted {
            let Some((first, aliases)) = names.split_first() else {
                self.report.missing.push(path.clone());
                continue;
            };
            let entry = state.get(first).expect("names are of entries");
            used.insert(first.as_str());
            // Some programs save a shared slot once, others under each of its paths. Alias entries with different
            // values do not belong to the slot.
            let same = |name: &&String| state.get(name).is_some_and(|it| bytes(it) == bytes(entry));
            used.extend(aliases.iter().filter(same).map(String::as_str));
            self.fit(path, parameter, entry, options)?;
        }
        let unused = state.names().filter(|it| !used.contains(it) && !options.convention.is_without_meaning(it));
        self.report.unexpected = unused.map(str::to_owned).collect();
        Ok(())
    }

    fn fit(&mut self, path: &str, parameter: &Parameter, entry: &Tensor, options: &LoadOptions) -> Result<()> {
        let before = parameter.load();
        let expected = before.ty();
        let mut value = entry.clone();
        if (options.transposed)(path) && value.shape().len() == 2 {
            value = Tensor::from_array(ops::transpose(&value, 0, 1).try_array()?.on_host()?.to_contiguous());
        }
        let found = value.ty();
        if options.cast && found.dims == expected.dims && found.dtype.is_float() && expected.dtype.is_float() {
            value = value.cast(expected.dtype);
        }
        if value.ty() == expected {
            self.report.loaded.push(path.to_owned());
            let value = value.try_array()?.to_space(before.array()?.space())?;
            self.writes.push((parameter.clone(), Tensor::from_array(value)));
        } else {
            self.report.misshaped.push(Misshaped { name: path.to_owned(), expected, found: entry.ty() });
        }
        Ok(())
    }
}

/// Returns the type and the bytes of an array.
fn bytes(value: &Tensor) -> Option<(Type, Vec<u8>)> {
    let array = value.try_array().ok()?;
    Some((array.ty(), array.on_host().ok()?.to_bytes()))
}
