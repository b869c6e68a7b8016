#[jit_class]
struct Inner {
    number: i64,
}

#[jit_class]
impl Inner {
    fn call(&self, x: &Tensor, y: (&Tensor, i64)) -> Tensor {
        make(x, y)
    }
}
