//! Implements the level above the compile cache. The user of a function may promise that its arguments alone determine
//! the graph (`#[jit(pure)]`). A later process of the same build then does not even trace it.

use super::build_id::Build;
use super::disk::Disk;
use super::entry::{Making, Notes, Site};
use crate::session::call::compiled::{backend, making};
use crate::session::context::Settings;
use ms_cache::{Digest, Key};
use ms_ir::MapVec;
use ms_ir::stored::{Stored, stored};
use ms_ops::tensor::{Parameter, Tensor, Type};
use ms_trace::trace::{Name, Sink, Sizes, TypeKey, Visitor};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The stored data of a traced function.
#[derive(Clone)]
pub(in crate::session) struct PureEntry {
    /// The key of the entry with its program and its code.
    pub compiled: Vec<u8>,
    /// The sources of its inputs.
    pub inputs: Vec<Input>,
    /// The parameters that it writes, by their positions among the arguments' parameters.
    pub writes: Vec<usize>,
    /// The number of tensors in the result.
    pub results: usize,
    /// The structure of the result.
    pub template: Vec<u64>,
    /// The build that traced it: the identities and the content of its files.
    pub build: Traced,
}

/// The stored identity of the build that traced a function: see [`Build`].
#[derive(Clone, Default)]
pub(in crate::session) struct Traced {
    identity: Vec<u8>,
    content: Vec<u8>,
}

/// An input, by its position among the parts of the arguments.
#[derive(Clone, Copy)]
pub(in crate::session) enum Input {
    /// A tensor.
    Argument(usize),
    /// A parameter.
    Slot(usize),
}

stored! {
    struct PureEntry {
        compiled: Vec<u8>,
        inputs: Vec<Input>,
        writes: Vec<usize>,
        results: usize,
        template: Vec<u64>,
        build: Traced,
    }
    struct Traced { identity: Vec<u8>, content: Vec<u8> }
}

stored! { enum Input { 0 = Argument(at: usize), 1 = Slot(at: usize) } }

/// The location of a pure function's call in a cache.
pub(crate) struct PureSlot {
    pub disk: Arc<Disk>,
    pub key: Key,
    build: Arc<Build>,
    /// The parameters of the arguments.
    pub parameters: Vec<Parameter>,
    /// The index of each parameter, by its identity.
    places: FxHashMap<u64, usize>,
    making: &'static Making,
    name: &'static str,
    site: Site,
    /// The types of the tensors of the arguments.
    types: Vec<Type>,
}

impl PureSlot {
    /// Returns the location of a call of a function with this name and site; `None` if the cache is disabled, or for
    /// arguments with symbolic sizes.
    pub fn of(
        name: &'static str,
        site: Site,
        monomorph: TypeKey,
        settings: Settings,
        sign: &dyn Fn(&mut Sink<'_>),
    ) -> Option<Self> {
        let disk = Disk::current()?;
        let mut shown = Shown::default();
        sign(&mut Sink::new(&mut shown));
        if shown.symbolic {
            return None;
        }
        let build = Build::current()?;
        let making = making(settings.precision, &**backend(settings.device).ok()??);
        let mut of = Vec::new();
        for text in [name, &monomorph.text(), site.file] {
            of.extend_from_slice(&text.len().to_le_bytes());
            of.extend_from_slice(text.as_bytes());
        }
        of.extend_from_slice(&site.line.to_le_bytes());
        let settings = [settings.mode as u8, settings.load_elim as u8, u8::from(settings.share_graphs)];
        let words: Vec<u8> = shown.words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let key = (making.key.clone())
            .part("level", b"pure")
            .part("build", build.notes().as_bytes())
            .part("function", &of)
            .part("settings", &settings)
            .part("source", &site.source.to_le_bytes())
            .part("arguments", &words)
            .finish();
        let Shown { parameters, parameter_places: places, types, .. } = shown;
        Some(Self { disk, key, build, parameters, places, making, name, site, types })
    }

    /// Returns the entry of the function by this build, if there is one with valid indices.
    pub fn get(&self, tensors: usize) -> Option<PureEntry> {
        let entry: PureEntry = self.disk.read(&self.key)?;
        let fits = |it: &Input| match *it {
            Input::Argument(at) => at < tensors,
            Input::Slot(at) => at < self.parameters.len(),
        };
        let fit = entry.inputs.iter().all(fits) && entry.writes.iter().all(|&at| at < self.parameters.len());
        if !fit || *entry.build.identity == *self.build.identity().as_bytes() {
            return fit.then_some(entry);
        }
        // Either another build with the same notes, or another copy of this build. For a copy, the entry is stored
        // again.
        let same = *entry.build.content == *self.build.content()?.as_bytes();
        same.then(|| {
            self.put(entry.clone());
            entry
        })
    }

    /// Stores the entry in the background.
    pub fn put(&self, mut entry: PureEntry) {
        let types: Vec<_> = self.types.map_vec(Type::to_string);
        let notes = Notes {
            making: self.making,
            signature: types.join(", "),
            function: self.name.to_owned(),
            site: Some(self.site),
            level: "pure",
        };
        let (disk, key, build) = (self.disk.clone(), self.key.clone(), self.build.clone());
        ms_cache::in_background(move || {
            let Some(content) = build.content() else { return };
            let [identity, content] = [build.identity(), content].map(|it| it.as_bytes().to_vec());
            entry.build = Traced { identity, content };
            let mut data = Vec::new();
            entry.write(&mut data);
            disk.put(&key, &notes.texts(), &data, &[]);
        });
    }

    /// Returns the position of a parameter among the arguments' parameters.
    pub fn position(&self, parameter: &Parameter) -> Option<usize> {
        self.places.get(&parameter.id()).copied()
    }
}

impl PureEntry {
    /// Returns the key of program and code.
    pub fn compiled(&self) -> Option<Digest> {
        Some(Digest::from_bytes((*self.compiled).try_into().ok()?))
    }
}

/// The process-independent content of the arguments: tensors and parameters by their types and aliases, host values by
/// content.
#[derive(Default)]
struct Shown {
    words: Vec<u64>,
    /// The number of tensors, and the first index of each one, by identity.
    tensors: usize,
    tensor_places: FxHashMap<usize, usize>,
    parameters: Vec<Parameter>,
    /// The index of each parameter, by its identity.
    parameter_places: FxHashMap<u64, usize>,
    /// The parameters after which parts are named, numbered in the order of their first names.
    owners: FxHashMap<u64, usize>,
    /// The types of the tensors.
    types: Vec<Type>,
    symbolic: bool,
}

impl Shown {
    fn type_of(&mut self, ty: &Type) {
        self.words.extend([ty.dtype as u64, ty.rank() as u64]);
        match ty.shape() {
            Some(shape) => self.words.extend(shape.iter().map(|&it| it as u64)),
            None => self.symbolic = true,
        }
    }
}

/// Tags of the parts. They ensure that different structures never encode to the same words.
#[derive(Clone, Copy)]
enum Mark {
    Tensor = 1,
    SameTensor,
    Parameter,
    SameParameter,
    Fixed,
    Field,
    Index,
    Key,
    Type,
    End,
    Of,
    Owner,
}

impl Shown {
    fn text(&mut self, mark: Mark, text: &str) {
        self.words.extend([mark as u64, text.len() as u64]);
        self.words.extend(text.bytes().map(u64::from));
    }
}

impl Visitor for Shown {
    fn tensor(&mut self, tensor: &Tensor) {
        match self.tensor_places.get(&tensor.identity()).copied() {
            Some(first) => self.words.extend([Mark::SameTensor as u64, first as u64]),
            None => {
                let ty = tensor.ty();
                self.words.push(Mark::Tensor as u64);
                self.type_of(&ty);
                self.types.push(ty);
                self.tensor_places.insert(tensor.identity(), self.tensors);
            }
        }
        self.tensors += 1;
    }

    fn parameter(&mut self, parameter: &Parameter) {
        match self.parameter_places.get(&parameter.id()).copied() {
            Some(first) => self.words.extend([Mark::SameParameter as u64, first as u64]),
            None => {
                self.words.extend([Mark::Parameter as u64, u64::from(parameter.requires_grad())]);
                self.type_of(&parameter.load().ty());
                if let Some(&number) = self.owners.get(&parameter.id()) {
                    self.words.extend([Mark::Owner as u64, number as u64]);
                }
                self.parameter_places.insert(parameter.id(), self.parameters.len());
                self.parameters.push(parameter.clone());
            }
        }
    }

    fn fixed(&mut self, bits: u64) {
        self.words.extend([Mark::Fixed as u64, bits]);
    }

    fn ty(&mut self, ty: TypeKey) {
        self.text(Mark::Type, &ty.text());
    }

    fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        self.symbolic |= sizes.is_some();
    }

    fn begin(&mut self, name: Name<'_>) {
        match name {
            Name::Field(name) => self.text(Mark::Field, name),
            Name::Index(at) => self.words.extend([Mark::Index as u64, at as u64]),
            Name::Key(key) => self.text(Mark::Key, &format!("{key:?}")),
            Name::Of(parameter, _) => match self.parameter_places.get(&parameter.id()) {
                Some(&place) => self.words.extend([Mark::Of as u64, place as u64]),
                // If the parameter is visited later, it gets this number.
                None => {
                    let next = self.owners.len();
                    let number = *self.owners.entry(parameter.id()).or_insert(next);
                    self.words.extend([Mark::Owner as u64, number as u64]);
                }
            },
        }
    }

    fn end(&mut self) {
        self.words.push(Mark::End as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State for parameters is distinguished by the parameters that it belongs to, whether they are visited before it
    /// or after.
    #[test]
    fn state_is_told_apart_by_its_parameters() {
        let [a, b] = [1.0, 2.0].map(|it| Parameter::new(Tensor::scalar(it), ""));
        let [x, y] = [3.0, 4.0].map(|it| Parameter::new(Tensor::scalar(it), ""));
        let words = |owners: [&Parameter; 2], state_first: bool| {
            let mut shown = Shown::default();
            let mut sink = Sink::new(&mut shown);
            let parameters = |sink: &mut Sink<'_>| [&a, &b].into_iter().for_each(|it| sink.parameter(it));
            if !state_first {
                parameters(&mut sink);
            }
            for (at, (owner, slot)) in owners.into_iter().zip([&x, &y]).enumerate() {
                sink.begin(Name::Of(owner, at));
                sink.parameter(slot);
                sink.end();
            }
            if state_first {
                parameters(&mut sink);
            }
            shown.words
        };
        for state_first in [false, true] {
            assert_ne!(words([&a, &b], state_first), words([&b, &a], state_first), "{state_first}");
            assert_eq!(words([&a, &b], state_first), words([&a, &b], state_first), "{state_first}");
        }
    }
}
