#[track_caller]
fn assertions(x: &Tensor, n: usize) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "assertions",
        ::core::file!(),
        ::core::line!(),
        1095299101690851027u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("n");
                <usize as ::ms::__rt::Arg>::visit(&n, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(&n);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let n = ::core::clone::Clone::clone(&*__arg1);
            {
                use ::ms::__rt::Compare as _;
                assert!(
                    ::ms::__rt::holds(::ms::__rt::Subject(& x).gt(& 0.0),
                    "assertion failed: x > 0.0"), "x is not positive"
                );
                assert!(n > 2);
                x / n
            }
        })
}
