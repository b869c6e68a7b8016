#[track_caller]
fn step(x: Tensor, rate: &Tensor, state: (Tensor, Tensor)) -> (Tensor, Tensor) {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "step",
        ::core::file!(),
        ::core::line!(),
        16980840936505459325u64,
    );
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
            },
        );
    <(Tensor, Tensor) as ::ms::__rt::JitReturn>::accept();
    let mut __given = ::core::option::Option::Some((x, state));
    if let ::core::option::Option::Some(__result) = __call
        .donating::<(Tensor, Tensor)>(&mut __given)
    {
        return __result;
    }
    let (__arg0, __arg2) = ::ms::__rt::kept(__given);
    let __arg0 = __call.take(__arg0);
    let __arg1 = __call.enter(rate);
    let __arg2 = __call.take(__arg2);
    __call
        .finish::<
            (Tensor, Tensor),
        >(move || -> (Tensor, Tensor) {
            let mut x = __arg0;
            let rate = &*__arg1;
            let state = __arg2;
            {
                x = x * rate;
                (x + &state.0, state.1)
            }
        })
}
#[track_caller]
fn counted(x: Tensor, calls: &mut Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "counted",
        ::core::file!(),
        ::core::line!(),
        6105723174903774049u64,
    );
    let __own1 = <Tensor as ::ms::__rt::Mutable<_>>::own(&*calls);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(&x, __sink);
                __sink.argument("calls");
                ::ms::__rt::Arg::visit((__own1.get)(&*calls), __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    let mut __given = ::core::option::Option::Some((x,));
    if let ::core::option::Option::Some((__result, (__copy1,))) = __call
        .lending(
            &mut [&mut |__next| (__own1.replace)(&mut *calls, __next)],
            &mut __given,
        )
    {
        *calls = (__own1.back)(__copy1);
        return __result;
    }
    let (__arg0,) = ::ms::__rt::kept(__given);
    let __arg0 = __call.take(__arg0);
    let mut __copy1 = ::core::clone::Clone::clone(&*__call.enter((__own1.get)(&*calls)));
    let (__result, (__copy1,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> Tensor {
                let x = __arg0;
                let calls = &mut __copy1;
                {
                    *calls = &*calls + 1;
                    x + 1
                }
            });
            (__result, (__copy1,))
        });
    *calls = (__own1.back)(__copy1);
    __result
}
