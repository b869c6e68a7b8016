#[track_caller]
fn scaled(v: &Tensor, by: f64) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::part(
        "scaled",
        ::core::file!(),
        ::core::line!(),
        10490662016430303902u64,
    );
    let mut __call = __FUNCTION
        .begin_graph(
            ::ms::__rt::type_key(&|| {}),
            ::ms::__rt::Marks {
                lazy_inline: false,
                no_inline: true,
            },
            |__sink| {
                __sink.argument("v");
                <Tensor as ::ms::__rt::Arg>::visit(v, __sink);
                __sink.argument("by");
                <f64 as ::ms::__rt::Arg>::visit(&by, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(v);
    let __arg1 = __call.enter(&by);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let v = &*__arg0;
            let by = ::core::clone::Clone::clone(&*__arg1);
            v * by + 2.0
        })
}
#[track_caller]
fn halved(v: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
            "halved",
            ::core::file!(),
            ::core::line!(),
            17045998404855984872u64,
        )
        .pure();
    let mut __call = __FUNCTION
        .begin_graph(
            ::ms::__rt::type_key(&|| {}),
            ::ms::__rt::Marks {
                lazy_inline: false,
                no_inline: true,
            },
            |__sink| {
                __sink.argument("v");
                <Tensor as ::ms::__rt::Arg>::visit(v, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(v);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let v = &*__arg0;
            v * 0.5
        })
}
#[cell]
struct Gain {
    gain: Parameter,
}
impl Gain {
    #[doc(hidden)]
    pub const NO_INLINE: bool = true;
}
