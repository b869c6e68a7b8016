#[cell]
struct Net<L> {
    fc: L,
    parameters: Parameter,
    #[cell(skip)]
    log: File,
}

#[cell]
impl<L: Call> Net<L> {
    #[lazy_inline]
    fn new(fc: L) -> Self {
        make(fc)
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(x)
    }
}

#[cell]
struct Relu;
