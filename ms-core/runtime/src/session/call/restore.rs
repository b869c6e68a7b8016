//! Restores versions of pure functions that another process traced.

use super::compiled::Compiled;
use super::version::{Parts, Source, Version, template as template_of};
use super::{Call, JitReturn, Sign};
use crate::session::cache::disk::verifies;
use crate::session::cache::entry::CacheSlot;
use crate::session::cache::pure::{Input, PureEntry, PureSlot, Traced};
use crate::session::report;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, warn};
use ms_ops::tensor::{DType, DispatchMode, Parameter, Scalar, Tensor};
use ms_trace::trace::Tree;
use std::sync::Arc;

/// The stored trace of another process.
pub(super) struct Stored {
    entry: PureEntry,
    compiled: Arc<Compiled>,
}

impl Call {
    /// Returns the location of the function in the cache, if it is pure.
    pub(super) fn place(&self, sign: Sign<'_>) -> Option<PureSlot> {
        if !self.function.pure || self.mode == DispatchMode::Tape {
            return None;
        }
        report::stage("key", || {
            PureSlot::of(self.function.name(), self.function.site(), self.monomorph, self.settings, sign)
        })
    }

    /// Returns the stored trace of another process.
    pub(super) fn stored(&self, place: &PureSlot) -> Option<Stored> {
        // Verification needs the trace.
        if verifies() {
            return None;
        }
        let entry = report::stage("look up", || place.get(self.signature.tensors().len()))?;
        let at = CacheSlot::with_key(place.disk.clone(), entry.compiled()?);
        let outputs = entry.results.checked_add(entry.writes.len())?;
        let compiled = Compiled::stored(at, self.settings.precision, entry.inputs.len(), outputs)?;
        Some(Stored { entry, compiled })
    }

    /// Restores the version that another process traced, if its result can be rebuilt.
    pub(super) fn restore<R: JitReturn>(&self, place: &PureSlot, stored: Stored) -> Option<Arc<Version>> {
        let Stored { entry, compiled } = stored;
        let slot = |at: &usize| place.parameters[*at].clone();
        let (mut words, mut left) = (entry.template.iter().copied(), entry.results);
        let mut next = || {
            left = left.checked_sub(1)?;
            Some(Tensor::from_number(Scalar::Float(0.0), DType::F32))
        };
        let template = R::Tree::restore(&mut words, &mut next)?;
        if left > 0 || words.next().is_some() {
            return None;
        }
        let input = |it: &Input| match it {
            Input::Argument(at) => Source::Argument(*at),
            Input::Slot(at) => Source::Slot(slot(at)),
        };
        let template = template_of(&template);
        let inputs = entry.inputs.map_vec(input);
        let writes: Vec<Parameter> = entry.writes.map_vec(slot);
        let results = entry.results;
        let parts = Parts { compiled, backward_slots: None, inputs, results, writes, untraced: true, template };
        let version = Version::new(&self.function.versions, &self.signature, &place.parameters, parts);
        self.insert(&version);
        Some(version)
    }

    /// Stores a version of a pure function for later processes, if it refers only to its arguments and their
    /// parameters.
    pub(super) fn keep(place: PureSlot, parts: &Parts, words: Vec<u64>) {
        let input = |it: &Source| match it {
            Source::Argument(at) => Some(Input::Argument(*at)),
            Source::Slot(parameter) => place.position(parameter).map(Input::Slot),
            Source::Captured(_) => None,
        };
        let inputs: Option<Vec<Input>> = parts.inputs.iter().map(input).collect();
        let writes: Option<Vec<usize>> = parts.writes.iter().map(|it| place.position(it)).collect();
        let (Some(inputs), Some(writes), Some(key)) = (inputs, writes, parts.compiled.key()) else { return };
        let compiled = key.as_bytes().to_vec();
        if verifies() && place.get(usize::MAX).is_some_and(|it| it.compiled != compiled) {
            let message = "a function is declared pure and is now traced to another graph than before";
            warn(Error::new(Code::Cache, message).help("remove `pure`, or pass what it reads as an argument"));
        }
        let results = parts.results;
        place.put(PureEntry { compiled, inputs, writes, results, template: words, build: Traced::default() });
    }
}
