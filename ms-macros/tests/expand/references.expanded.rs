#[track_caller]
fn handed_on(y: &mut Tensor, x: &Tensor) {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "handed_on",
        ::core::file!(),
        ::core::line!(),
        13670908079709649557u64,
    );
    let __own0 = <Tensor as ::ms::__rt::Mutable<_>>::own(&*y);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("y");
                ::ms::__rt::Arg::visit((__own0.get)(&*y), __sink);
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
            },
        );
    if let ::core::option::Option::Some((__result, (__copy0,))) = __call
        .lending(
            &mut [&mut |__next| (__own0.replace)(&mut *y, __next)],
            &mut ::core::option::Option::None::<()>,
        )
    {
        *y = (__own0.back)(__copy0);
        return __result;
    }
    let mut __copy0 = ::core::clone::Clone::clone(&*__call.enter((__own0.get)(&*y)));
    let __arg1 = __call.enter(x);
    let (__result, (__copy0,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> () {
                let y = &mut __copy0;
                let x = &*__arg1;
                {
                    use ::ms::__rt::Compare as _;
                    let t = (&mut *y, 1);
                    {
                        let mut __region = ::ms::__rt::branch();
                        let mut __t_0 = ::ms::__rt::held("`t.0`");
                        <_ as ::ms::__rt::Carry<
                            _,
                        >>::accept(
                            __region.kind(),
                            ::core::option::Option::Some(&(*t.0)),
                        );
                        #[allow(unreachable_code)]
                        'join4: {
                            if __region.test(::ms::__rt::Subject(&x).gt(&1.0)) {
                                __region.save(&mut __t_0, &(*t.0));
                                __region.begin();
                                {
                                    put(&mut *t.0, x);
                                }
                                __region.carry(&mut __t_0, &mut (*t.0));
                                if __region.is_decided() {
                                    break 'join4;
                                }
                                __region.turn();
                            }
                            __region.carry(&mut __t_0, &mut (*t.0));
                            if __region.is_decided() {
                                break 'join4;
                            }
                            __region.join();
                            __region.carry(&mut __t_0, &mut (*t.0));
                        }
                    }
                    {
                        let mut __region = ::ms::__rt::branch();
                        let mut __value = ::ms::__rt::held("the value");
                        let mut __y = ::ms::__rt::held("`y`");
                        <_ as ::ms::__rt::Carry<
                            _,
                        >>::accept(__region.kind(), ::core::option::Option::Some(&(*y)));
                        #[allow(unreachable_code, unused_labels)]
                        let __result = 'join8: {
                            if __region.test(::ms::__rt::Subject(&x).gt(&2.0)) {
                                __region.save(&mut __y, &(*y));
                                __region.begin();
                                let __arm = {
                                    apply({
                                        let y = &mut *y;
                                        move || put(&mut *y, x)
                                    });
                                };
                                let __arm = ::core::option::Option::Some(__arm);
                                <_ as ::ms::__rt::Carry<
                                    _,
                                >>::accept(__region.kind(), __arm.as_ref());
                                __region.first(&mut __value, __arm);
                                __region.carry(&mut __y, &mut (*y));
                                if __region.is_decided() {
                                    break 'join8 __region.alone(&mut __value);
                                }
                                __region.turn();
                            }
                            let __arm = {};
                            let mut __arm = ::core::option::Option::Some(
                                ::ms::__rt::Alike {
                                    first: &__value,
                                    value: __arm,
                                }
                                    .value,
                            );
                            __region.second(&mut __value, &mut __arm);
                            __region.carry(&mut __y, &mut (*y));
                            if __region.is_decided() {
                                break 'join8 __arm;
                            }
                            __region.join();
                            __region.carry(&mut __y, &mut (*y));
                            __region.value(__value, __arm)
                        };
                        ::ms::__rt::given(__result)
                    }
                }
            });
            (__result, (__copy0,))
        });
    *y = (__own0.back)(__copy0);
    __result
}
#[track_caller]
fn items(all: &mut Vec<Tensor>, x: &Tensor) {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "items",
        ::core::file!(),
        ::core::line!(),
        17460661283895607972u64,
    );
    let __own0 = <Vec<Tensor> as ::ms::__rt::Mutable<_>>::own(&*all);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("all");
                ::ms::__rt::Arg::visit((__own0.get)(&*all), __sink);
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
            },
        );
    if let ::core::option::Option::Some((__result, (__copy0,))) = __call
        .lending(
            &mut [&mut |__next| (__own0.replace)(&mut *all, __next)],
            &mut ::core::option::Option::None::<()>,
        )
    {
        *all = (__own0.back)(__copy0);
        return __result;
    }
    let mut __copy0 = ::core::clone::Clone::clone(&*__call.enter((__own0.get)(&*all)));
    let __arg1 = __call.enter(x);
    let (__result, (__copy0,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> () {
                let all = &mut __copy0;
                let x = &*__arg1;
                {
                    use ::ms::__rt::Compare as _;
                    for (i, t) in all.iter_mut().enumerate() {
                        {
                            let mut __region = ::ms::__rt::branch();
                            let mut __t = ::ms::__rt::held("`t`");
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(
                                __region.kind(),
                                ::core::option::Option::Some(&(*t)),
                            );
                            #[allow(unreachable_code)]
                            'join5: {
                                if __region.test(::ms::__rt::Subject(&&*t).gt(&1.0)) {
                                    __region.save(&mut __t, &(*t));
                                    __region.begin();
                                    {
                                        put(&mut *t, &(x * i));
                                    }
                                    __region.carry(&mut __t, &mut (*t));
                                    if __region.is_decided() {
                                        break 'join5;
                                    }
                                    __region.turn();
                                }
                                __region.carry(&mut __t, &mut (*t));
                                if __region.is_decided() {
                                    break 'join5;
                                }
                                __region.join();
                                __region.carry(&mut __t, &mut (*t));
                            }
                        }
                    }
                }
            });
            (__result, (__copy0,))
        });
    *all = (__own0.back)(__copy0);
    __result
}
#[track_caller]
fn right_side(y: &mut Tensor, x: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "right_side",
        ::core::file!(),
        ::core::line!(),
        18264724633771975754u64,
    );
    let __own0 = <Tensor as ::ms::__rt::Mutable<_>>::own(&*y);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("y");
                ::ms::__rt::Arg::visit((__own0.get)(&*y), __sink);
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some((__result, (__copy0,))) = __call
        .lending(
            &mut [&mut |__next| (__own0.replace)(&mut *y, __next)],
            &mut ::core::option::Option::None::<()>,
        )
    {
        *y = (__own0.back)(__copy0);
        return __result;
    }
    let mut __copy0 = ::core::clone::Clone::clone(&*__call.enter((__own0.get)(&*y)));
    let __arg1 = __call.enter(x);
    let (__result, (__copy0,)) = __call
        .finish(move || {
            let __result = ::ms::__rt::body(|| -> Tensor {
                let y = &mut __copy0;
                let x = &*__arg1;
                {
                    use ::ms::__rt::Compare as _;
                    let mut w = x.clone();
                    {
                        let mut __region = ::ms::__rt::branch();
                        let mut __y = ::ms::__rt::held("`y`");
                        <_ as ::ms::__rt::Carry<
                            _,
                        >>::accept(__region.kind(), ::core::option::Option::Some(&(*y)));
                        let mut __w = ::ms::__rt::held("`w`");
                        <_ as ::ms::__rt::Carry<
                            _,
                        >>::accept(__region.kind(), ::core::option::Option::Some(&w));
                        #[allow(unreachable_code)]
                        'join7: {
                            if __region
                                .test({
                                    let mut __region = ::ms::__rt::branch();
                                    let mut __value = ::ms::__rt::held("the value");
                                    let mut __y = ::ms::__rt::held("`y`");
                                    <_ as ::ms::__rt::Carry<
                                        _,
                                    >>::accept(
                                        __region.kind(),
                                        ::core::option::Option::Some(&(*y)),
                                    );
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join6: {
                                        if __region.test(::ms::__rt::Subject(&x).gt(&1.0)) {
                                            __region.save(&mut __y, &(*y));
                                            __region.begin();
                                            let __arm = {
                                                ::ms::__rt::truth(&__region, yes(&mut *y, x))
                                            };
                                            let __arm = ::core::option::Option::Some(__arm);
                                            <_ as ::ms::__rt::Carry<
                                                _,
                                            >>::accept(__region.kind(), __arm.as_ref());
                                            __region.first(&mut __value, __arm);
                                            __region.carry(&mut __y, &mut (*y));
                                            if __region.is_decided() {
                                                break 'join6 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        let __arm = { ::ms::__rt::known(false) };
                                        let mut __arm = ::core::option::Option::Some(
                                            ::ms::__rt::Alike {
                                                first: &__value,
                                                value: __arm,
                                            }
                                                .value,
                                        );
                                        __region.second(&mut __value, &mut __arm);
                                        __region.carry(&mut __y, &mut (*y));
                                        if __region.is_decided() {
                                            break 'join6 __arm;
                                        }
                                        __region.join();
                                        __region.carry(&mut __y, &mut (*y));
                                        __region.value(__value, __arm)
                                    };
                                    ::ms::__rt::given(__result)
                                })
                            {
                                __region.save(&mut __y, &(*y));
                                __region.save(&mut __w, &w);
                                __region.begin();
                                {
                                    w += 1.0;
                                }
                                __region.carry(&mut __y, &mut (*y));
                                __region.carry(&mut __w, &mut w);
                                if __region.is_decided() {
                                    break 'join7;
                                }
                                __region.turn();
                            }
                            __region.carry(&mut __y, &mut (*y));
                            __region.carry(&mut __w, &mut w);
                            if __region.is_decided() {
                                break 'join7;
                            }
                            __region.join();
                            __region.carry(&mut __y, &mut (*y));
                            __region.carry(&mut __w, &mut w);
                        }
                    }
                    w
                }
            });
            (__result, (__copy0,))
        });
    *y = (__own0.back)(__copy0);
    __result
}
#[track_caller]
fn asked(x: &Tensor, cache: &Cache) {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "asked",
        ::core::file!(),
        ::core::line!(),
        11595009999103954721u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("cache");
                <Cache as ::ms::__rt::Arg>::visit(cache, __sink);
            },
        );
    if let ::core::option::Option::Some(__result) = __call.cached::<()>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(cache);
    __call
        .finish::<
            (),
        >(move || -> () {
            let x = &*__arg0;
            let cache = &*__arg1;
            {
                use ::ms::__rt::Compare as _;
                use ::ms::__rt::Iterate as _;
                use ::ms::__rt::reach::*;
                let w = pick(x);
                {
                    let mut __region = ::ms::__rt::branch();
                    #[allow(unreachable_code)]
                    'join4: {
                        if __region.test(::ms::__rt::Subject(&x).gt(&1.0)) {
                            __region.begin();
                            __region.uses("`w`", (&&&&::ms::__rt::Probe(&w)).hands());
                            __region
                                .uses(
                                    "`cache.best`",
                                    (&&::ms::__rt::Probe(&cache.best)).asks(),
                                );
                            {
                                put(w, x);
                                cache.best.set(1);
                            }
                            if __region.is_decided() {
                                break 'join4;
                            }
                            __region.turn();
                        }
                        if __region.is_decided() {
                            break 'join4;
                        }
                        __region.join();
                    }
                }
                {
                    match ::ms::__rt::Over(ms::range(0, 3)).iterate() {
                        mut __repeat => {
                            'repeat5: loop {
                                __repeat.head();
                                if __repeat.is_over() {
                                    break;
                                }
                                let ::core::option::Option::Some(_) = __repeat.next() else {
                                    break
                                };
                                __repeat.uses("`w`", (&&::ms::__rt::Probe(&w)).asks());
                                {
                                    w.step(x);
                                }
                            }
                        }
                    }
                }
            }
        })
}
