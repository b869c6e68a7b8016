struct Inner {
    number: i64,
}
#[automatically_derived]
impl ::ms::__rt::Arg for Inner {
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.begin(::ms::__rt::Name::Field("number"));
        <i64 as ::ms::__rt::Arg>::visit(&self.number, __sink);
        __sink.end();
    }
}
impl Inner {
    fn call(&self, x: &Tensor, y: (&Tensor, i64)) -> Tensor {
        make(x, y)
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<'__a> ::ms::__rt::Callable<(&'__a Tensor, (&'__a Tensor, i64))> for Inner {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn call_with(&self, arguments: (&'__a Tensor, (&'__a Tensor, i64))) -> Tensor {
        self.call(arguments.0, arguments.1)
    }
}
