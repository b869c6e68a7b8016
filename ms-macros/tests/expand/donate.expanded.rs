#[track_caller]
fn step(
    x: Tensor,
    rate: &Tensor,
    state: (Tensor, Tensor),
    calls: &mut Tensor,
) -> (Tensor, Tensor) {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "step",
        ::core::file!(),
        ::core::line!(),
        4947278837879085173u64,
    );
    let __own3 = <Tensor as ::ms::__rt::Mutable<_>>::own(&*calls);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(&x, __sink);
                __sink.argument("rate");
                <Tensor as ::ms::__rt::Arg>::visit(rate, __sink);
                __sink.argument("state");
                <(Tensor, Tensor) as ::ms::__rt::Arg>::visit(&state, __sink);
                __sink.argument("calls");
                ::ms::__rt::Arg::visit((__own3.get)(&*calls), __sink);
            },
        );
    <(Tensor, Tensor) as ::ms::__rt::JitReturn>::accept();
    let mut __given = ::core::option::Option::Some((x, state));
    if let ::core::option::Option::Some((__result, (__copy3,))) = __call
        .lending(
            &mut [&mut |__next| (__own3.replace)(&mut *calls, __next)],
            &mut __given,
        )
    {
        *calls = (__own3.back)(__copy3);
        return __result;
    }
    let (__arg0, __arg2) = ::ms::__rt::take_donated(__given);
    let __arg0 = __call.take(__arg0);
    let __arg1 = __call.enter(rate);
    let __arg2 = __call.take(__arg2);
    let mut __copy3 = ::core::clone::Clone::clone(&*__call.enter((__own3.get)(&*calls)));
    let (__result, (__copy3,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> (Tensor, Tensor) {
                let mut x = __arg0;
                let rate = &*__arg1;
                let state = __arg2;
                let calls = &mut __copy3;
                {
                    *calls = &*calls + 1;
                    x = x * rate;
                    (x + &state.0, state.1)
                }
            });
            (__result, (__copy3,))
        });
    *calls = (__own3.back)(__copy3);
    __result
}
