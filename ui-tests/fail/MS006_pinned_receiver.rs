use ms::prelude::*;

use std::pin::Pin;
use std::sync::Arc;

#[cell]
struct Net {
    weight: Parameter,
}

impl Net {
    #[jit]
    fn pinned(self: Pin<&Self>, x: &Tensor) -> Tensor {
        x.clone()
    }

    #[jit]
    fn shared(self: Arc<Self>, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
