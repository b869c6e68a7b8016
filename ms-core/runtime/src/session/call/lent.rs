//! Lends the tensors of `&mut` arguments to a run of a compiled function, which overwrites them with results.

use ms_ops::tensor::{DType, Scalar, Tensor};
use smallvec::SmallVec;
use std::sync::LazyLock;

/// Replaces each tensor of a `&mut` argument by the result of a function, in the order of
/// [`Arg::visit`](ms_trace::trace::Arg::visit).
pub type ReplaceTensors<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Tensor) -> Tensor);

/// `&mut` arguments from which the tensors were taken and replaced by a blank scalar. Dropping this returns the
/// tensors, unless the run has succeeded.
pub(super) struct Lent<'a, 'p> {
    places: &'a mut [ReplaceTensors<'p>],
    pub tensors: LentTensors,
}

/// The tensors of `&mut` arguments.
#[derive(Default)]
pub(super) struct LentTensors {
    /// The tensors in order; `None` for those lent to a run.
    kept: SmallVec<[Option<Tensor>; 8]>,
    /// The position of each tensor among the arguments.
    arguments: SmallVec<[usize; 8]>,
    /// Whether results replace the tensors.
    replaced: bool,
}

impl<'a, 'p> Lent<'a, 'p> {
    /// Takes the tensors of these places, which are among the arguments.
    pub fn take(places: &'a mut [ReplaceTensors<'p>], arguments: &[Tensor]) -> Self {
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
    /// Lends each tensor to a run, if `input` maps its position among the arguments to an input. Returns pairs of the
    /// tensor's number and the input.
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

    /// Takes back a tensor from a run that failed.
    pub fn put_back(&mut self, number: usize, tensor: Tensor) {
        self.kept[number] = Some(tensor);
    }

    /// Leaves the arguments to the results of the run.
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
