#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<T: ::ms::__rt::Tree> ::ms::__rt::Arg for State<T> {
    #[inline]
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        match self {
            Self { value: __field0, step: __field1 } => {
                __sink.begin(::ms::__rt::Name::Field("value"));
                <T as ::ms::__rt::Arg>::visit(__field0, __sink);
                __sink.end();
                __sink.begin(::ms::__rt::Name::Field("step"));
                <i64 as ::ms::__rt::Arg>::visit(__field1, __sink);
                __sink.end();
            }
        }
    }
    fn enter(
        &self,
        next: &mut dyn FnMut(&::ms::__rt::Tensor) -> ::ms::__rt::Tensor,
    ) -> ::core::option::Option<::std::boxed::Box<Self>> {
        ::core::option::Option::Some(
            ::std::boxed::Box::new(::ms::__rt::Tree::rebuild(self, next)),
        )
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<T: ::ms::__rt::Tree> ::ms::__rt::Tree for State<T> {
    fn rebuild(
        &self,
        __next: &mut dyn FnMut(&::ms::__rt::Tensor) -> ::ms::__rt::Tensor,
    ) -> Self {
        match self {
            Self { value: __field0, step: __field1 } => {
                Self {
                    value: <T as ::ms::__rt::Tree>::rebuild(__field0, __next),
                    step: <i64 as ::ms::__rt::Tree>::rebuild(__field1, __next),
                }
            }
        }
    }
    fn as_template(&self) -> Self {
        match self {
            Self { value: __field0, step: __field1 } => {
                Self {
                    value: <T as ::ms::__rt::Tree>::as_template(__field0),
                    step: <i64 as ::ms::__rt::Tree>::as_template(__field1),
                }
            }
        }
    }
    fn store(&self, __words: &mut ::std::vec::Vec<u64>) -> bool {
        match self {
            Self { value: __field0, step: __field1 } => {
                true && <T as ::ms::__rt::Tree>::store(__field0, __words)
                    && <i64 as ::ms::__rt::Tree>::store(__field1, __words)
            }
        }
    }
    fn restore(
        __words: &mut dyn ::core::iter::Iterator<Item = u64>,
        __next: &mut dyn FnMut() -> ::core::option::Option<::ms::__rt::Tensor>,
    ) -> ::core::option::Option<Self> {
        ::core::option::Option::Some(Self {
            value: <T as ::ms::__rt::Tree>::restore(__words, __next)?,
            step: <i64 as ::ms::__rt::Tree>::restore(__words, __next)?,
        })
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<T: ::ms::__rt::Tree> ::ms::__rt::Differentiable for State<T> {
    type Gradient = Self;
    fn collect(&self, wrt: &mut ::ms::__rt::Wrt) {
        wrt.tree(self);
    }
    fn substitute(
        &self,
        next: &mut dyn FnMut(&::ms::__rt::Tensor) -> ::ms::__rt::Tensor,
    ) -> ::core::option::Option<::std::boxed::Box<Self>> {
        ::core::option::Option::Some(
            ::std::boxed::Box::new(::ms::__rt::Tree::rebuild(self, next)),
        )
    }
    fn gradient(&self, next: &mut dyn FnMut() -> ::ms::__rt::Tensor) -> Self {
        ::ms::__rt::Tree::rebuild(self, &mut |_| next())
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl ::ms::__rt::Arg for Plan {
    #[inline]
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        match self {
            Self::Keep {} => {
                __sink.fixed(0u64);
            }
            Self::Repeat { 0: __field0 } => {
                __sink.fixed(1u64);
                __sink.begin(::ms::__rt::Name::Index(0usize));
                <usize as ::ms::__rt::Arg>::visit(__field0, __sink);
                __sink.end();
            }
            Self::Named { name: __field0 } => {
                __sink.fixed(2u64);
                __sink.begin(::ms::__rt::Name::Field("name"));
                <String as ::ms::__rt::Arg>::visit(__field0, __sink);
                __sink.end();
            }
        }
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl ::ms::__rt::Tree for Plan {
    fn rebuild(
        &self,
        _: &mut dyn FnMut(&::ms::__rt::Tensor) -> ::ms::__rt::Tensor,
    ) -> Self {
        ::core::clone::Clone::clone(self)
    }
}
