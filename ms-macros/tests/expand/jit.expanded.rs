#[track_caller]
pub fn f(x: &Tensor, n: usize, lr: f32) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "f",
        ::core::file!(),
        ::core::line!(),
        1340796325147171527u64,
    );
    let __scalar2 = ::ms::__rt::dynamic(lr);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("n");
                <usize as ::ms::__rt::Arg>::visit(&n, __sink);
                __sink.argument("lr");
                ::ms::__rt::Arg::visit(&__scalar2, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(&n);
    let __arg2 = __call.enter(&__scalar2);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let mut n = ::core::clone::Clone::clone(&*__arg1);
            let lr = ::core::clone::Clone::clone(&*__arg2);
            {
                n += 1;
                helper(x, n, &lr)
            }
        })
}
