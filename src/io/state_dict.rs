//! State dicts: named values of parameters, buffers and generators.

use super::bytes::{read, refuse};
use super::convention::Convention;
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

/// The values of parameters, buffers and generator states by name, sorted by name.
///
/// The values are a snapshot: later training changes none of them.
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

/// Decodes the content of a file; an error describes the defect.
type Decode = fn(&[u8]) -> Result<BTreeMap<String, Array>, String>;

/// Encodes arrays to a file.
type Encode = fn(&BTreeMap<String, HostArray<'_>>, &mut dyn Write) -> io::Result<()>;

impl StateDict {
    /// Creates an empty dict.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of every slot, with the names of a convention.
    ///
    /// # Panics
    /// Raises [`Code::DuplicateName`] if two slots have one name. This is possible only for a hand-written [`Arg`].
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

    /// Reads a safetensors file. Tensors are placed on the device of the context.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be read or has a different format, [`Code::Memory`] if the system has no memory
    /// for it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path.as_ref(), safetensors::deserialize)
    }

    /// Reads a MindSpore checkpoint (`.ckpt`), with entries named after [`Convention::MindSpore`].
    ///
    /// # Errors
    /// The errors of [`StateDict::read`]. An encrypted file has a different format.
    pub fn read_mindspore(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path.as_ref(), ckpt::read)
    }

    /// Reads the tensors of a `torch.save` file (`.pt`, `.pth`), such as a `state_dict()`, with entries named after
    /// [`Convention::PyTorch`]. Tensors in nested dicts and lists have paths such as `model.fc.weight`;
    /// [`StateDict::part`] selects a subtree. Numbers and text are ignored. No code that the file names is run.
    ///
    /// # Errors
    /// The errors of [`StateDict::read`]. A file with anything but dicts, lists, numbers, text and dense tensors has a
    /// different format; an example is a whole module.
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

    /// Writes a safetensors file. An existing file is replaced atomically and durably. A reader sees the old file or
    /// the new one, also after a crash or with concurrent writers.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be written, or if `path` is not a regular file or a link to one.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.write_as(path.as_ref(), safetensors::write)
    }

    /// Writes a MindSpore checkpoint (`.ckpt`), which `mindspore.load_checkpoint` reads.
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
    /// The errors of [`StateDict::write`]; [`Code::Argument`] for a tensor of shape `[0]`, which MindSpore reads as a
    /// scalar.
    pub fn write_mindspore(&self, path: impl AsRef<Path>) -> Result<()> {
        if let Some((name, _)) = self.iter().find(|it| it.1.shape() == [0]) {
            let message = format!("`{name}` has the shape [0], which MindSpore takes for a scalar");
            return Err(Error::new(Code::Argument, message).with_op("save_checkpoint"));
        }
        self.write_as(path.as_ref(), ckpt::write)
    }

    /// Writes a PyTorch file (`.pt`): a dict that `torch.load` reads, also with `weights_only=True`.
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
    /// The errors of [`StateDict::write`]; [`Code::DType`] for unsigned integers of more than one byte, which have no
    /// storage class in PyTorch.
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

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.entries.get(name)
    }

    /// Adds an entry. Returns the value that it replaces.
    pub fn insert(&mut self, name: impl Into<String>, value: Tensor) -> Option<Tensor> {
        self.entries.insert(name.into(), value)
    }

    /// Removes and returns an entry.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.entries.remove(name)
    }

    /// Iterates over the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Iterates over names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries below a path, with the rest of their paths as names. For example, it selects the network in
    /// the checkpoint of a training run.
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

    /// Returns the same values under different names.
    ///
    /// # Errors
    /// [`Code::DuplicateName`] if two entries get one name.
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

/// Copies a tensor to host memory in row-major order.
///
/// # Errors
/// The errors of computing and copying the tensor.
pub(crate) fn row_major(value: &Tensor) -> Result<HostArray<'static>> {
    value.try_array()?.into_host()?.to_contiguous().into_host()
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}
