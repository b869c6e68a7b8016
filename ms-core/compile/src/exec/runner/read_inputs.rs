//! Finds the inputs of a run that writes none of them by addresses in their memory.

use ms_ir::data::{Array, Storage};
use std::cell::OnceCell;
use std::sync::Arc;

/// The maximum number of inputs that are compared one by one, which is faster than sorting them.
const FEW: usize = 16;

/// The inputs of a run that writes none of them.
#[derive(Default)]
pub(super) struct ReadInputs<'a> {
    inputs: &'a [&'a Array],
    /// Blocks of memory by address, sorted on the first lookup among many. A routine that runs many times then does not
    /// search all parameters of a model for each product.
    sorted: OnceCell<Vec<&'a Arc<Storage>>>,
}

impl<'a> ReadInputs<'a> {
    pub fn new(inputs: &'a [&'a Array]) -> Self {
        Self { inputs, sorted: OnceCell::new() }
    }

    /// Returns the block of an input that contains an address.
    pub fn block_at(&self, address: usize) -> Option<&'a Arc<Storage>> {
        let has = |it: &&'a Arc<Storage>| address.wrapping_sub(it.device_ptr().addr()) < it.len();
        let mut blocks = self.inputs.iter().map(|it| it.storage());
        if self.inputs.len() <= FEW {
            return blocks.find(has);
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut all: Vec<&Arc<Storage>> = blocks.filter(|it| !it.is_empty()).collect();
            all.sort_unstable_by_key(|it| it.device_ptr().addr());
            all
        });
        let after = sorted.partition_point(|it| it.device_ptr().addr() <= address);
        sorted[..after].last().copied().filter(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::{DType, Scalar};

    #[test]
    fn blocks_contain_their_addresses() {
        for count in [0, 1, FEW, FEW + 1, 100] {
            // Blocks without elements among the others, and inputs that share a block.
            let arrays: Vec<Array> =
                (0..count).map(|it| Array::full(&[it % 3], Scalar::Float(0.0), DType::F32)).collect();
            let inputs: Vec<&Array> = arrays.iter().chain(&arrays).collect();
            let read = ReadInputs::new(&inputs);
            for storage in arrays.iter().map(|it| it.storage()) {
                let (first, len) = (storage.device_ptr().addr(), storage.len());
                let want = |at: usize| {
                    arrays
                        .iter()
                        .map(|it| &**it.storage())
                        .find(|it| (it.device_ptr().addr()..it.device_ptr().addr() + it.len()).contains(&at))
                };
                for at in [first.wrapping_sub(1), first, first + len / 2, first + len.max(1) - 1, first + len] {
                    let [given, want] =
                        [read.block_at(at).map(|it| &**it), want(at)].map(|it| it.map(|it| it.device_ptr()));
                    assert_eq!(given, want, "{count} inputs, address {at} of {first} and {len} bytes");
                }
            }
        }
    }
}
