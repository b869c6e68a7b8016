//! State dicts: the values of slots by their names.

use super::bytes::read;
use super::convention::Convention;
use super::load::{LoadOptions, LoadReport};
use super::paths::{owners, slots};
use super::replace::replace;
use super::{ckpt, pytorch, safetensors};
use ms_core::error::{in_op, raise};
use ms_core::tensor::{Array, HostArray};
use ms_core::trace::Arg;
use ms_core::{Code, Error, Result, Tensor};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

/// The values of parameters, buffers and states of generators, by their names, in the order of the
/// names.
///
/// The values are those of the time when the dict is made: later training changes none of them.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::Dense::new(3, 2);
/// let mut state = net.state_dict();
/// state.insert("bias", Tensor::zeros([2]));
/// let report = net.load_state_dict(&state, &LoadOptions::new())?;
/// assert_eq!(report.loaded, ["bias", "weight"]);
/// assert_eq!(net.call(&Tensor::zeros([1, 3])).to_vec::<f32>(), [0.0, 0.0]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    entries: BTreeMap<String, Tensor>,
}

/// Values whose state can be saved and loaded: cells, optimisers, generators, counters, loaders of
/// data, and tuples of them.
///
/// ```
/// use ms::prelude::*;
/// let (net, epoch) = (nn::Dense::new(3, 2), Counter::new(7));
/// let state = (&net, &epoch).state_dict();
/// epoch.set(0);
/// (&net, &epoch).load_state_dict(&state, &LoadOptions::new())?;
/// assert_eq!(epoch.get(), 7);
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Stateful: Arg {
    /// The value of every slot inside, by its path: `fc1.weight`, `norm.moving_mean`; in a tuple
    /// the paths begin with the position, `[0].fc1.weight`. A slot with several paths has the first.
    ///
    /// # Panics
    /// As for [`StateDict::named`].
    #[track_caller]
    fn state_dict(&self) -> StateDict {
        StateDict::named(self, Convention::Ms)
    }

    /// Writes the values of a dict into the slots inside. The state that an optimiser keeps for
    /// parameters is created where the dict has it.
    ///
    /// # Errors
    /// [`Code::Argument`] with all names when entries are missing, unexpected or misshaped and the
    /// options do not accept that. Nothing is changed then.
    fn load_state_dict(&self, state: &StateDict, options: &LoadOptions) -> Result<LoadReport> {
        super::load::load(self, state, options)
    }
}

impl<T: Arg + ?Sized> Stateful for T {}

/// From the content of a file to its arrays; an error describes the defect of the file.
type Decode = fn(&[u8]) -> Result<BTreeMap<String, Array>, String>;

/// Writes a file of arrays.
type Encode = fn(&BTreeMap<String, HostArray<'_>>, &mut dyn Write) -> io::Result<()>;

impl StateDict {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of every slot of a value, by the names of a convention.
    ///
    /// # Panics
    /// Raises [`Code::DuplicateName`] when two slots have the same name, which an [`Arg`] written by
    /// hand may give.
    #[track_caller]
    pub fn named(value: &(impl Arg + ?Sized), convention: Convention) -> Self {
        let found = slots(value);
        let owners = owners(&found);
        let mut met = HashSet::new();
        let mut made = Self::new();
        for it in found.iter().filter(|it| met.insert(it.parameter.id())) {
            let name = convention.name(&it.steps, &owners);
            if made.insert(name.clone(), it.parameter.load()).is_some() {
                raise(Error::new(Code::DuplicateName, format!("two slots are named `{name}`")));
            }
        }
        made
    }

    /// Reads a safetensors file. Its tensors are on the device of the settings, as new ones are.
    ///
    /// # Errors
    /// [`Code::Io`] when the file cannot be read or has another format, [`Code::Memory`] when the
    /// system has no memory for it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path.as_ref(), safetensors::deserialize)
    }

    /// Reads a checkpoint of MindSpore (`.ckpt`). [`Convention::MindSpore`] says what its entries are called.
    ///
    /// # Errors
    /// As [`StateDict::read`]; a file that is encrypted has another format.
    pub fn read_mindspore(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path.as_ref(), ckpt::read)
    }

    /// Reads the tensors of a file of `torch.save` (`.pt`, `.pth`), such as a `state_dict()`.
    /// [`Convention::PyTorch`] says what its entries are called. Tensors in dicts and lists of a dict have paths, of
    /// which [`StateDict::part`] selects some: `model.fc.weight`. Numbers and text are left out. Nothing that the file
    /// names is run.
    ///
    /// # Errors
    /// As [`StateDict::read`]; a file of anything but dicts, lists, numbers, text and dense tensors, such as a whole
    /// module, has another format.
    pub fn read_pytorch(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path.as_ref(), pytorch::read)
    }

    fn read_as(path: &Path, decode: Decode) -> Result<Self> {
        let arrays = in_op(|| {
            let bytes = read(path)?;
            decode(&bytes).map_err(|why| refuse(path, "read", why))
        });
        let arrays = arrays.map_err(|it| it.with_op("load_checkpoint"))?;
        arrays.into_iter().map(|(name, array)| Ok((name, Tensor::placed(array)?))).collect()
    }

    /// Writes a safetensors file. An existing file is replaced atomically, and durably when this
    /// returns: a reader sees the old file or the new one, also after a crash, whatever other
    /// threads or processes write there.
    ///
    /// # Errors
    /// [`Code::Io`] when the file cannot be written, or when `path` is not a regular file or a link
    /// to one.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.write_as(path.as_ref(), safetensors::write)
    }

    /// Writes a checkpoint of MindSpore (`.ckpt`), which `mindspore.load_checkpoint` reads.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::io::{Convention, StateDict};
    /// # let path = std::env::temp_dir().join(format!("ms doc ckpt {}", std::process::id()));
    /// let net = nn::sequential![nn::Dense::new(4, 2), nn::BatchNorm::new(2)];
    /// StateDict::named(&net, Convention::MindSpore).write_mindspore(&path)?;
    /// let options = LoadOptions::new().convention(Convention::MindSpore);
    /// net.load_state_dict(&StateDict::read_mindspore(&path)?, &options)?;
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`StateDict::write`]; [`Code::Argument`] for a tensor of shape `[0]`, which MindSpore takes for a scalar.
    pub fn write_mindspore(&self, path: impl AsRef<Path>) -> Result<()> {
        if let Some((name, _)) = self.iter().find(|it| it.1.shape() == [0]) {
            let message = format!("`{name}` has the shape [0], which MindSpore takes for a scalar");
            return Err(Error::new(Code::Argument, message).with_op("save_checkpoint"));
        }
        self.write_as(path.as_ref(), ckpt::write)
    }

    /// Writes a file of PyTorch (`.pt`): a dict that `torch.load` reads, also with `weights_only=True`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::io::{Convention, StateDict};
    /// # let path = std::env::temp_dir().join(format!("ms doc pt {}", std::process::id()));
    /// let net = nn::sequential![nn::Dense::new(4, 2), nn::BatchNorm::new(2)];
    /// StateDict::named(&net, Convention::PyTorch).write_pytorch(&path)?;
    /// let options = LoadOptions::new().convention(Convention::PyTorch);
    /// net.load_state_dict(&StateDict::read_pytorch(&path)?, &options)?;
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`StateDict::write`]; [`Code::DType`] for unsigned integers of more than a byte,
    /// of which PyTorch has no storages.
    pub fn write_pytorch(&self, path: impl AsRef<Path>) -> Result<()> {
        if let Some((name, value)) = self.iter().find(|it| pytorch::storage_class(it.1.dtype()).is_none()) {
            let message = format!("`{name}` is of {}, of which PyTorch has no storages", value.dtype());
            return Err(Error::new(Code::DType, message).with_op("save_checkpoint"));
        }
        self.write_as(path.as_ref(), pytorch::write)
    }

    fn write_as(&self, path: &Path, encode: Encode) -> Result<()> {
        let mut arrays = BTreeMap::new();
        for (name, value) in &self.entries {
            arrays.insert(name.clone(), row_major(value)?);
        }
        replace(path, |out| encode(&arrays, out)).map_err(|error| refuse(path, "write", error))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.entries.get(name)
    }

    /// Adds an entry; returns the value that it replaces.
    pub fn insert(&mut self, name: impl Into<String>, value: Tensor) -> Option<Tensor> {
        self.entries.insert(name.into(), value)
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.entries.remove(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Each name with its value, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries below a path, by their paths from there on: the network in the checkpoint of a
    /// training run.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let (net, opt) = (nn::Dense::new(3, 2), SGD::new(0.1));
    /// let all = (&net, &opt).state_dict();
    /// assert!(all.part("[0]").names().eq(net.state_dict().names()));
    /// ```
    pub fn part(&self, path: &str) -> Self {
        let below = |name: &str| {
            let rest = name.strip_prefix(path)?;
            match rest.strip_prefix('.') {
                Some(rest) => Some(rest.to_owned()),
                None => rest.starts_with('[').then(|| rest.to_owned()),
            }
        };
        self.iter().filter_map(|(name, value)| Some((below(name)?, value.clone()))).collect()
    }

    /// The same values under other names.
    ///
    /// # Errors
    /// [`Code::DuplicateName`] when two entries get one name.
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Result<Self> {
        let mut made = Self::new();
        for (name, value) in self.iter() {
            let new = rename(name);
            if made.entries.insert(new.clone(), value.clone()).is_some() {
                return Err(Error::new(Code::DuplicateName, format!("two entries are renamed to `{new}`")));
            }
        }
        Ok(made)
    }
}

/// The elements of a tensor in memory of the host, in row-major order.
///
/// # Errors
/// Those of computing and copying the tensor.
pub(crate) fn row_major(value: &Tensor) -> Result<HostArray<'static>> {
    value.try_array()?.into_host()?.to_contiguous().into_host()
}

/// The error of a file that cannot be read or written.
pub(crate) fn refuse(path: &Path, what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{}`: {why}", path.display()))
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}
