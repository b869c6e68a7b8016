struct Inner {
    number: i64,
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl ::ms::__rt::Arg for Inner {
    #[inline]
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.begin(::ms::__rt::Name::Field("number"));
        <i64 as ::ms::__rt::Arg>::visit(&self.number, __sink);
        __sink.end();
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __InnerFields {
    fn number<'__a>(
        &self,
        argument: <i64 as ::ms::__rt::Apply<'__a>>::Argument,
    ) -> <i64 as ::ms::__rt::Apply<'__a>>::Output
    where
        i64: ::ms::__rt::Apply<'__a>;
}
#[automatically_derived]
impl<'__s> __InnerFields for &'__s Inner {
    #[inline]
    #[track_caller]
    fn number<'__a>(
        &self,
        argument: <i64 as ::ms::__rt::Apply<'__a>>::Argument,
    ) -> <i64 as ::ms::__rt::Apply<'__a>>::Output
    where
        i64: ::ms::__rt::Apply<'__a>,
    {
        ::ms::__rt::Apply::apply(&self.number, argument)
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
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<'__a> ::ms::__rt::ApplyAll<'__a> for Inner {
    type Arguments = (&'__a Tensor, (&'__a Tensor, i64));
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn apply_all(&self, arguments: (&'__a Tensor, (&'__a Tensor, i64))) -> Tensor {
        self.call(arguments.0, arguments.1)
    }
}
