struct Net<L> {
    fc: L,
    parameters: Parameter,
    log: File,
}
#[automatically_derived]
impl<L: ::ms::__rt::Arg> ::ms::__rt::Arg for Net<L> {
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.cell("Net", &raw const *self as *const () as usize);
        __sink.begin(::ms::__rt::Name::Field("fc"));
        <L as ::ms::__rt::Arg>::visit(&self.fc, __sink);
        __sink.end();
        __sink.begin(::ms::__rt::Name::Field("parameters"));
        <Parameter as ::ms::__rt::Arg>::visit(&self.parameters, __sink);
        __sink.end();
    }
}
#[automatically_derived]
impl<L: ::ms::__rt::Arg> ::ms::__rt::Cell for Net<L> {}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __NetFields<L> {
    fn fc<'__a>(
        &self,
        argument: <L as ::ms::__rt::Apply<'__a>>::Argument,
    ) -> <L as ::ms::__rt::Apply<'__a>>::Output
    where
        L: ::ms::__rt::Apply<'__a>;
}
#[automatically_derived]
impl<L> __NetFields<L> for Net<L> {
    #[inline]
    #[track_caller]
    fn fc<'__a>(
        &self,
        argument: <L as ::ms::__rt::Apply<'__a>>::Argument,
    ) -> <L as ::ms::__rt::Apply<'__a>>::Output
    where
        L: ::ms::__rt::Apply<'__a>,
    {
        ::ms::__rt::Apply::apply(&self.fc, argument)
    }
}
impl<L: Call> Net<L> {
    fn new(fc: L) -> Self {
        make(fc)
    }
    #[track_caller]
    fn construct(&self, x: &Tensor) -> Tensor {
        static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::cell(
            "Net::construct",
            ::core::file!(),
            ::core::line!(),
            6409571306616923490u64,
        );
        let mut __call = __FUNCTION
            .begin_graph(
                ::ms::__rt::type_key(&|| {}),
                {
                    use ::ms::__rt::Marked as _;
                    ::ms::__rt::Marks {
                        lazy_inline: Self::LAZY_INLINE,
                        no_inline: Self::NO_INLINE,
                    }
                },
                |__sink| {
                    __sink.argument("self");
                    ::ms::__rt::Arg::visit(self, __sink);
                    __sink.argument("x");
                    ::ms::__rt::Arg::visit(x, __sink);
                },
            );
        if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
            return __result;
        }
        let __arg0 = __call.enter(self);
        let __arg1 = __call.enter(x);
        __call
            .finish::<
                Tensor,
            >(move || -> Tensor {
                let __self = &*__arg0;
                let x = &*__arg1;
                __self.fc(x)
            })
    }
}
impl<L: Call> Net<L> {
    #[doc(hidden)]
    pub const LAZY_INLINE: bool = true;
}
impl<L: Call> Net<L> {
    /// Runs the cell: see `construct`.
    #[inline]
    #[track_caller]
    #[allow(dead_code)]
    pub fn call(&self, x: &Tensor) -> Tensor {
        self.construct(x)
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<'__a, L: Call> ::ms::__rt::Apply<'__a> for Net<L> {
    type Argument = &'__a Tensor;
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn apply(&self, argument: &'__a Tensor) -> Tensor {
        self.construct(argument)
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<'__a, L: Call> ::ms::__rt::Callable<(&'__a Tensor,)> for Net<L> {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn call_with(&self, arguments: (&'__a Tensor,)) -> Tensor {
        self.call(arguments.0)
    }
}
struct Relu;
#[automatically_derived]
impl ::ms::__rt::Arg for Relu {
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.cell("Relu", &raw const *self as *const () as usize);
    }
}
#[automatically_derived]
impl ::ms::__rt::Cell for Relu {}
