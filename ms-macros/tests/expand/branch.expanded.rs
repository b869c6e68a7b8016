#[track_caller]
fn statement(x: &Tensor, y: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "statement",
        ::core::file!(),
        ::core::line!(),
        5301804517475319640u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("y");
                <Tensor as ::ms::__rt::Arg>::visit(y, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(y);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let y = &*__arg1;
            {
                use ::ms::__rt::Compare as _;
                let mut sum = x + y;
                {
                    let mut __region = ::ms::__rt::branch();
                    let mut __sum = ::ms::__rt::held("`sum`");
                    <_ as ::ms::__rt::Carry<
                        _,
                    >>::accept(__region.kind(), ::core::option::Option::Some(&sum));
                    #[allow(unreachable_code)]
                    'join4: {
                        if __region.test(::ms::__rt::Subject(&x).lt(&y)) {
                            __region.save(&mut __sum, &sum);
                            __region.begin();
                            {
                                sum += 1.0;
                            }
                            __region.carry(&mut __sum, &mut sum);
                            if __region.is_decided() {
                                break 'join4;
                            }
                            __region.turn();
                        }
                        __region.carry(&mut __sum, &mut sum);
                        if __region.is_decided() {
                            break 'join4;
                        }
                        __region.join();
                        __region.carry(&mut __sum, &mut sum);
                    }
                }
                sum
            }
        })
}
#[track_caller]
fn value(x: &Tensor, pair: &mut Pair) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "value",
        ::core::file!(),
        ::core::line!(),
        12960522117318602165u64,
    );
    let __own1 = <Pair as ::ms::__rt::Mutable<_>>::own(&*pair);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("pair");
                ::ms::__rt::Arg::visit((__own1.get)(&*pair), __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some((__result, (__copy1,))) = __call
        .lending(
            &mut [&mut |__next| (__own1.replace)(&mut *pair, __next)],
            &mut ::core::option::Option::None::<()>,
        )
    {
        *pair = (__own1.back)(__copy1);
        return __result;
    }
    let __arg0 = __call.enter(x);
    let mut __copy1 = ::core::clone::Clone::clone(&*__call.enter((__own1.get)(&*pair)));
    let (__result, (__copy1,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> Tensor {
                let x = &*__arg0;
                let pair = &mut __copy1;
                {
                    use ::ms::__rt::Compare as _;
                    let half: Tensor = {
                        let mut __region = ::ms::__rt::branch();
                        let mut __value = ::ms::__rt::held("the value");
                        let mut __pair = ::ms::__rt::held("`pair`");
                        <_ as ::ms::__rt::Carry<
                            _,
                        >>::accept(
                            __region.kind(),
                            ::core::option::Option::Some(&(*pair)),
                        );
                        #[allow(unreachable_code, unused_labels)]
                        let __result = 'join7: {
                            if __region
                                .test({
                                    let __logic = ::ms::__rt::and(
                                        ::ms::__rt::Subject(&x).gt(&0.5),
                                    );
                                    let mut __right = ::core::option::Option::None;
                                    if __logic.runs_right() {
                                        __right = ::core::option::Option::Some(pair.flag);
                                    }
                                    __logic.end(__right)
                                })
                            {
                                __region.save(&mut __pair, &(*pair));
                                __region.begin();
                                let __arm: Tensor = {
                                    pair.left = x * 2.0;
                                    combine(x.clone(), &mut *pair)
                                };
                                let __arm = ::core::option::Option::Some(__arm);
                                <_ as ::ms::__rt::Carry<
                                    _,
                                >>::accept(__region.kind(), __arm.as_ref());
                                __region.first(&mut __value, __arm);
                                __region.carry(&mut __pair, &mut (*pair));
                                if __region.is_decided() {
                                    break 'join7 __region.alone(&mut __value);
                                }
                                __region.turn();
                            }
                            let __arm: Tensor = {
                                {
                                    let mut __region = ::ms::__rt::branch();
                                    let mut __value = ::ms::__rt::held("the value");
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join6: {
                                        if let Some(other) = pair.other.as_ref()
                                            && __region.test(::ms::__rt::Subject(&other).eq(&x))
                                        {
                                            __region.begin();
                                            let __arm: Tensor = { other.clone() };
                                            let __arm = ::core::option::Option::Some(__arm);
                                            <_ as ::ms::__rt::Carry<
                                                _,
                                            >>::accept(__region.kind(), __arm.as_ref());
                                            __region.first(&mut __value, __arm);
                                            if __region.is_decided() {
                                                break 'join6 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        __region.other();
                                        let __arm: Tensor = { -x };
                                        let mut __arm = ::core::option::Option::Some(__arm);
                                        __region.second(&mut __value, &mut __arm);
                                        if __region.is_decided() {
                                            break 'join6 __arm;
                                        }
                                        __region.join();
                                        __region.value(__value, __arm)
                                    };
                                    ::ms::__rt::given(__result)
                                }
                            };
                            let mut __arm = ::core::option::Option::Some(__arm);
                            __region.second(&mut __value, &mut __arm);
                            __region.carry(&mut __pair, &mut (*pair));
                            if __region.is_decided() {
                                break 'join7 __arm;
                            }
                            __region.join();
                            __region.carry(&mut __pair, &mut (*pair));
                            __region.value(__value, __arm)
                        };
                        ::ms::__rt::given(__result)
                    };
                    half
                }
            });
            (__result, (__copy1,))
        });
    *pair = (__own1.back)(__copy1);
    __result
}
#[track_caller]
fn deferred(x: &Tensor, config: &Config) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "deferred",
        ::core::file!(),
        ::core::line!(),
        3203856635800816804u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("config");
                <Config as ::ms::__rt::Arg>::visit(config, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(config);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let config = &*__arg1;
            {
                #[allow(unused_mut)]
                let mut scale;
                {
                    let mut __region = ::ms::__rt::branch();
                    <_ as ::ms::__rt::Deferring>::accept(__region.kind());
                    #[allow(unreachable_code)]
                    'join4: {
                        if __region.test(config.large) {
                            __region.begin();
                            {
                                scale = 2.0;
                            }
                            if __region.is_decided() {
                                break 'join4;
                            }
                            __region.turn();
                        }
                        {
                            scale = 1.0;
                        }
                        if __region.is_decided() {
                            break 'join4;
                        }
                        __region.join();
                    }
                }
                x * scale
            }
        })
}
