#[track_caller]
fn while_loop(x: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "while_loop",
        ::core::file!(),
        ::core::line!(),
        5591829126984091267u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            {
                use ::ms::__rt::Compare as _;
                let mut x = x.clone();
                {
                    let mut __repeat = ::ms::__rt::repeat();
                    let mut __x = ::ms::__rt::held("`x`");
                    <_ as ::ms::__rt::Carry<
                        _,
                    >>::accept(__repeat.kind(), ::core::option::Option::Some(&x));
                    'repeat2: loop {
                        __repeat.head();
                        __repeat.carry(&mut __x, &mut x);
                        if __repeat.is_over() {
                            __repeat.carry(&mut __x, &mut x);
                            break;
                        }
                        if !__repeat.test(::ms::__rt::Subject(&x).gt(&1.0)) {
                            break;
                        }
                        __repeat.carry(&mut __x, &mut x);
                        {
                            x = x / 2.0;
                        }
                    }
                }
                x
            }
        })
}
#[track_caller]
fn range_loop(x: &Tensor, n: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "range_loop",
        ::core::file!(),
        ::core::line!(),
        2454052801440765614u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("n");
                <Tensor as ::ms::__rt::Arg>::visit(n, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(n);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let n = &*__arg1;
            {
                use ::ms::__rt::Iterate as _;
                let mut sum = x.clone();
                {
                    match ::ms::__rt::Over(ms::range(0, n).step(2)).iterate() {
                        mut __repeat => {
                            let mut __sum = ::ms::__rt::held("`sum`");
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(
                                __repeat.kind(),
                                ::core::option::Option::Some(&sum),
                            );
                            'repeat2: loop {
                                __repeat.head();
                                __repeat.carry(&mut __sum, &mut sum);
                                if __repeat.is_over() {
                                    __repeat.carry(&mut __sum, &mut sum);
                                    break;
                                }
                                let ::core::option::Option::Some(i) = __repeat.next() else {
                                    break
                                };
                                {
                                    sum += i;
                                }
                            }
                        }
                    }
                }
                sum
            }
        })
}
#[track_caller]
fn host_loops(x: &Tensor, names: &[String]) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "host_loops",
        ::core::file!(),
        ::core::line!(),
        10069193010797684141u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("names");
                <[String] as ::ms::__rt::Arg>::visit(names, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(names);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let names = &*__arg1;
            {
                let mut sum = x.clone();
                for (i, name) in names.iter().enumerate() {
                    if name.is_empty() {
                        continue;
                    }
                    sum += i;
                }
                let mut n = 0;
                while n < 3 {
                    n += 1;
                }
                loop {
                    if n > 5 {
                        break sum;
                    }
                    n += 1;
                }
            }
        })
}
