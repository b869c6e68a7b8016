#[track_caller]
fn f(x: &Tensor, n: usize, names: &[String]) -> Result<Tensor> {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "f",
        ::core::file!(),
        ::core::line!(),
        7462673186057410174u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("n");
                <usize as ::ms::__rt::Arg>::visit(&n, __sink);
                __sink.argument("names");
                <[String] as ::ms::__rt::Arg>::visit(names, __sink);
            },
        );
    <Result<Tensor> as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Result<Tensor>>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(&n);
    let __arg2 = __call.enter(names);
    __call
        .finish::<
            Result<Tensor>,
        >(move || -> Result<Tensor> {
            let x = &*__arg0;
            let n = ::core::clone::Clone::clone(&*__arg1);
            let names = &*__arg2;
            {
                use ::ms::__rt::Compare as _;
                use ::ms::__rt::reach::*;
                let mut i = 0;
                {
                    let mut __repeat = ::ms::__rt::repeat();
                    let mut __i = ::ms::__rt::held("`i`");
                    <_ as ::ms::__rt::Carry<
                        _,
                    >>::accept(__repeat.kind(), ::core::option::Option::Some(&i));
                    'repeat2: loop {
                        __repeat.head();
                        __repeat.carry(&mut __i, &mut i);
                        if __repeat.is_over() {
                            __repeat.carry(&mut __i, &mut i);
                            break;
                        }
                        if !__repeat
                            .test({
                                let __logic = ::ms::__rt::and(i < names.len());
                                let mut __right = ::core::option::Option::None;
                                if __logic.runs_right() {
                                    __right = ::core::option::Option::Some(
                                        ::ms::__rt::Subject(&check(&names[i])?).gt(&2),
                                    );
                                }
                                __logic.end(__right)
                            })
                        {
                            break;
                        }
                        __repeat.carry(&mut __i, &mut i);
                        {
                            i += 1;
                        }
                    }
                }
                if n == "4".parse()? && i != n {
                    return Ok(x.clone());
                }
                {
                    let mut __region = ::ms::__rt::branch();
                    #[allow(unreachable_code)]
                    'join5: {
                        if __region
                            .test({
                                let __logic = ::ms::__rt::or(
                                    ::ms::__rt::Subject(&x).gt(&0.5),
                                );
                                let mut __right = ::core::option::Option::None;
                                if __logic.runs_right() {
                                    __right = ::core::option::Option::Some(flag);
                                }
                                __logic.end(__right)
                            })
                        {
                            __region.begin();
                            {
                                assert!(
                                    ::ms::__rt::holds(::ms::__rt::Subject(& x).lt(& n),
                                    "assertion failed: x < n"), "{}", "assertion failed: x < n"
                                );
                                assert!(n < 9, "never {n}");
                            }
                            if __region.is_decided() {
                                break 'join5;
                            }
                            __region.turn();
                        }
                        if __region.is_decided() {
                            break 'join5;
                        }
                        __region.join();
                    }
                }
                let mask = ::ms::__rt::Subject(&x).is(&1.0);
                for k in 0..n {
                    if k == n - 1 {
                        break;
                    }
                }
                {
                    let mut __region = ::ms::__rt::branch();
                    let mut __value = ::ms::__rt::held("the value");
                    #[allow(unreachable_code, unused_labels)]
                    let __result = 'join16: {
                        if let Some(first) = names.first() && first < "a"
                            && __region.test(::ms::__rt::Subject(&x).le(&n))
                        {
                            __region.begin();
                            let __arm: Result<Tensor> = { fail(first) };
                            let __arm = ::core::option::Option::Some(__arm);
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(__region.kind(), __arm.as_ref());
                            __region.first(&mut __value, __arm);
                            if __region.is_decided() {
                                break 'join16 __region.alone(&mut __value);
                            }
                            __region.turn();
                        }
                        __region.other();
                        let __arm: Result<Tensor> = {
                            {
                                let __scrutinee = ::ms::__rt::matched(&n);
                                {
                                    let mut __region = ::ms::__rt::branch();
                                    let mut __value = ::ms::__rt::held("the value");
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join15: {
                                        if __region
                                            .test({
                                                let __logic = ::ms::__rt::and(
                                                    ::ms::__rt::case(&__scrutinee, 3),
                                                );
                                                let mut __right = ::core::option::Option::None;
                                                if __logic.runs_right() {
                                                    __right = ::core::option::Option::Some(
                                                        ::ms::__rt::Subject(&x).ge(&&mask),
                                                    );
                                                }
                                                __logic.end(__right)
                                            })
                                        {
                                            __region.begin();
                                            let __arm: Result<Tensor> = { make(x) };
                                            let __arm = ::core::option::Option::Some(__arm);
                                            <_ as ::ms::__rt::Carry<
                                                _,
                                            >>::accept(__region.kind(), __arm.as_ref());
                                            __region.first(&mut __value, __arm);
                                            if __region.is_decided() {
                                                break 'join15 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        let __arm: Result<Tensor> = {
                                            {
                                                let mut __region = ::ms::__rt::branch();
                                                let mut __value = ::ms::__rt::held("the value");
                                                #[allow(unreachable_code, unused_labels)]
                                                let __result = 'join14: {
                                                    if __region
                                                        .test({
                                                            #[allow(unused_variables, unused_mut)]
                                                            let m = ::ms::__rt::Copied::copy(&__scrutinee);
                                                            ::ms::__rt::Subject(&m).gt(&2)
                                                        })
                                                    {
                                                        __region.begin();
                                                        let __arm: Result<Tensor> = {
                                                            #[allow(unused_variables, unused_mut)]
                                                            let m = ::ms::__rt::Copied::copy(&__scrutinee);
                                                            (0..m)
                                                                .map(|k| {
                                                                    let __logic = ::ms::__rt::and(
                                                                        ::ms::__rt::Subject(&k).lt(&m),
                                                                    );
                                                                    let mut __right = ::core::option::Option::None;
                                                                    if __logic.runs_right() {
                                                                        __logic.uses("`k`", (&&&&::ms::__rt::Probe(&k)).hands());
                                                                        __right = ::core::option::Option::Some(
                                                                            ::ms::__rt::Subject(&x.shape()).ne(&[k]),
                                                                        );
                                                                    }
                                                                    __logic.end(__right)
                                                                })
                                                                .collect()
                                                        };
                                                        let __arm = ::core::option::Option::Some(__arm);
                                                        <_ as ::ms::__rt::Carry<
                                                            _,
                                                        >>::accept(__region.kind(), __arm.as_ref());
                                                        __region.first(&mut __value, __arm);
                                                        if __region.is_decided() {
                                                            break 'join14 __region.alone(&mut __value);
                                                        }
                                                        __region.turn();
                                                    }
                                                    let __arm: Result<Tensor> = { Ok(x.clone()) };
                                                    let mut __arm = ::core::option::Option::Some(__arm);
                                                    __region.second(&mut __value, &mut __arm);
                                                    if __region.is_decided() {
                                                        break 'join14 __arm;
                                                    }
                                                    __region.join();
                                                    __region.value(__value, __arm)
                                                };
                                                ::ms::__rt::given(__result)
                                            }
                                        };
                                        let mut __arm = ::core::option::Option::Some(__arm);
                                        __region.second(&mut __value, &mut __arm);
                                        if __region.is_decided() {
                                            break 'join15 __arm;
                                        }
                                        __region.join();
                                        __region.value(__value, __arm)
                                    };
                                    ::ms::__rt::given(__result)
                                }
                            }
                        };
                        let mut __arm = ::core::option::Option::Some(__arm);
                        __region.second(&mut __value, &mut __arm);
                        if __region.is_decided() {
                            break 'join16 __arm;
                        }
                        __region.join();
                        __region.value(__value, __arm)
                    };
                    ::ms::__rt::given(__result)
                }
            }
        })
}
