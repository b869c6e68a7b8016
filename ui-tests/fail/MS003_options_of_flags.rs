use ms::prelude::*;

#[lazy_inline(always)]
#[cell]
struct Net {
    weight: Parameter,
}

#[cell(fast)]
struct Other {
    weight: Parameter,
}

#[cell]
impl Other {
    #[jit(pura)]
    fn construct(&self, #[dynamic(f32)] rate: f32) -> Tensor {
        &self.weight * rate
    }
}

#[jit_class(pure)]
struct Plain {
    size: usize,
}

fn main() {}
