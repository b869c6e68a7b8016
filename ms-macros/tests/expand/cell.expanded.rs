struct Net<L> {
    fc: L,
    parameters: Parameter,
    log: File,
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<L: ::ms::__rt::Arg> ::ms::__rt::Arg for Net<L> {
    #[inline]
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.cell("Net", self);
        __sink.begin(::ms::__rt::Name::Field("fc"));
        <L as ::ms::__rt::Arg>::visit(&self.fc, __sink);
        __sink.end();
        __sink.begin(::ms::__rt::Name::Field("parameters"));
        <Parameter as ::ms::__rt::Arg>::visit(&self.parameters, __sink);
        __sink.end();
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl<L: ::ms::__rt::Arg> ::ms::__rt::Cell for Net<L> {}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_1<'__a> {
    type Argument;
    type Output;
    fn fc(&self, argument0: Self::Argument) -> Self::Output;
}
#[automatically_derived]
impl<'__a, L> __Net_fc_1<'__a> for Net<L>
where
    L: ::ms::__rt::Apply<'__a>,
{
    type Argument = <L as ::ms::__rt::Apply<'__a>>::Argument;
    type Output = <L as ::ms::__rt::Apply<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(&self, argument0: Self::Argument) -> Self::Output {
        ::ms::__rt::Apply::apply(&self.fc, argument0)
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_0<'__a> {
    type Output;
    fn fc(&self) -> Self::Output;
}
#[automatically_derived]
impl<'__a, L> __Net_fc_0<'__a> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = ()>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(&self) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(&self.fc, ())
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_2<'__a, __A0, __A1> {
    type Output;
    fn fc(&self, argument0: __A0, argument1: __A1) -> Self::Output;
}
#[automatically_derived]
impl<'__a, L, __A0, __A1> __Net_fc_2<'__a, __A0, __A1> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = (__A0, __A1)>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(&self, argument0: __A0, argument1: __A1) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(&self.fc, (argument0, argument1))
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_3<'__a, __A0, __A1, __A2> {
    type Output;
    fn fc(&self, argument0: __A0, argument1: __A1, argument2: __A2) -> Self::Output;
}
#[automatically_derived]
impl<'__a, L, __A0, __A1, __A2> __Net_fc_3<'__a, __A0, __A1, __A2> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = (__A0, __A1, __A2)>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(&self, argument0: __A0, argument1: __A1, argument2: __A2) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(&self.fc, (argument0, argument1, argument2))
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_4<'__a, __A0, __A1, __A2, __A3> {
    type Output;
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
    ) -> Self::Output;
}
#[automatically_derived]
impl<'__a, L, __A0, __A1, __A2, __A3> __Net_fc_4<'__a, __A0, __A1, __A2, __A3> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = (__A0, __A1, __A2, __A3)>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
    ) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(
            &self.fc,
            (argument0, argument1, argument2, argument3),
        )
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_5<'__a, __A0, __A1, __A2, __A3, __A4> {
    type Output;
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
        argument4: __A4,
    ) -> Self::Output;
}
#[automatically_derived]
impl<
    '__a,
    L,
    __A0,
    __A1,
    __A2,
    __A3,
    __A4,
> __Net_fc_5<'__a, __A0, __A1, __A2, __A3, __A4> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = (__A0, __A1, __A2, __A3, __A4)>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
        argument4: __A4,
    ) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(
            &self.fc,
            (argument0, argument1, argument2, argument3, argument4),
        )
    }
}
#[doc(hidden)]
#[allow(dead_code, non_camel_case_types)]
trait __Net_fc_6<'__a, __A0, __A1, __A2, __A3, __A4, __A5> {
    type Output;
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
        argument4: __A4,
        argument5: __A5,
    ) -> Self::Output;
}
#[automatically_derived]
impl<
    '__a,
    L,
    __A0,
    __A1,
    __A2,
    __A3,
    __A4,
    __A5,
> __Net_fc_6<'__a, __A0, __A1, __A2, __A3, __A4, __A5> for Net<L>
where
    L: ::ms::__rt::ApplyAll<'__a, Arguments = (__A0, __A1, __A2, __A3, __A4, __A5)>,
{
    type Output = <L as ::ms::__rt::ApplyAll<'__a>>::Output;
    #[inline]
    #[track_caller]
    fn fc(
        &self,
        argument0: __A0,
        argument1: __A1,
        argument2: __A2,
        argument3: __A3,
        argument4: __A4,
        argument5: __A5,
    ) -> Self::Output {
        ::ms::__rt::ApplyAll::apply_all(
            &self.fc,
            (argument0, argument1, argument2, argument3, argument4, argument5),
        )
    }
}
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
impl<'__s, L> __NetFields<L> for &'__s Net<L> {
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
        let __own = <Net<L> as ::ms::__rt::Own<_>>::own(self);
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
                    ::ms::__rt::Arg::visit(__own, __sink);
                    __sink.argument("x");
                    <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                },
            );
        <Tensor as ::ms::__rt::JitReturn>::accept();
        if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
            return __result;
        }
        let __arg0 = __call.enter(__own);
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
#[diagnostic::do_not_recommend]
impl ::ms::__rt::Arg for Relu {
    #[inline]
    fn visit(&self, __sink: &mut ::ms::__rt::Sink<'_>) {
        __sink.cell("Relu", self);
    }
}
#[automatically_derived]
#[diagnostic::do_not_recommend]
impl ::ms::__rt::Cell for Relu {}
