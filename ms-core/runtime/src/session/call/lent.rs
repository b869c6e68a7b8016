//! `&mut` arguments while a compiled function runs on them: results are written over their tensors.

use crate::tensor::{DType, Scalar, Tensor};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// Replaces each tensor of a `&mut` argument by the result of a function, in the order of
/// [`Arg::visit`](crate::trace::Arg::visit).
pub type Place<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Tensor) -> Tensor);

/// `&mut` arguments without their tensors, in whose places is a number. The tensors are put back when this is dropped,
/// unless the run has succeeded.
pub(super) struct Lent<'a, 'p> {
    places: &'a mut [Place<'p>],
    pub tensors: LentTensors,
}

/// The tensors of `&mut` arguments.
#[derive(Default)]
pub(super) struct LentTensors {
    /// In order; `None` for those that a run has.
    kept: SmallVec<[Option<Tensor>; 8]>,
    /// For each of them its position among the arguments.
    arguments: SmallVec<[usize; 8]>,
    /// Whether results replace them.
    replaced: bool,
}

impl<'a, 'p> Lent<'a, 'p> {
    /// Takes the tensors of these places, which are among the arguments.
    pub fn take(places: &'a mut [Place<'p>], arguments: &[Tensor]) -> Self {
        static BLANK: LazyLock<Tensor> = LazyLock::new(|| Tensor::from_number(Scalar::Float(0.0), DType::F32));
        let mut tensors = LentTensors::default();
        let mut next = 0;
        for place in &mut *places {
            place(&mut |tensor| {
                // They are consecutive, except for those that occur several times.
                let same = |at: &usize| arguments[*at].identity() == tensor.identity();
                let at = (next..arguments.len()).chain(0..next).find(same).expect("the signature has the tensors");
                next = at + 1;
                tensors.arguments.push(at);
                tensors.kept.push(Some(tensor.clone()));
                BLANK.clone()
            });
        }
        Self { places, tensors }
    }
}

impl LentTensors {
    /// Gives each tensor to a run for which `input` finds an input by the position among the arguments. Returns, for
    /// each of them, its number and the input.
    pub fn give(&mut self, input: impl Fn(usize) -> Option<usize>) -> SmallVec<[(usize, usize); 8]> {
        let mut given = SmallVec::new();
        for (number, (&at, kept)) in self.arguments.iter().zip(&mut self.kept).enumerate() {
            if let Some(input) = input(at) {
                *kept = None;
                given.push((number, input));
            }
        }
        given
    }

    /// Takes a tensor back from a run that failed.
    pub fn put_back(&mut self, number: usize, tensor: Tensor) {
        self.kept[number] = Some(tensor);
    }

    /// Leaves the places to the results of the run.
    pub fn replaced(&mut self) {
        self.replaced = true;
    }
}

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        if self.tensors.replaced {
            return;
        }
        let mut kept = self.tensors.kept.drain(..);
        for place in &mut *self.places {
            place(&mut |blank| kept.next().flatten().unwrap_or_else(|| blank.clone()));
        }
    }
}
