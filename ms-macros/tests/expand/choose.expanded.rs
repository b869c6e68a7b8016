#[track_caller]
fn choose(x: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "choose",
        ::core::file!(),
        ::core::line!(),
        14635741609005387893u64,
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
                let __scrutinee = ::ms::__rt::matched(&x);
                {
                    let mut __region = ::ms::__rt::branch();
                    let mut __value = ::ms::__rt::held("the value");
                    #[allow(unreachable_code, unused_labels)]
                    let __result = 'join7: {
                        if __region.test(::ms::__rt::case(&__scrutinee, 0)) {
                            __region.begin();
                            let __arm: Tensor = { x + 1 };
                            let __arm = ::core::option::Option::Some(__arm);
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(__region.kind(), __arm.as_ref());
                            __region.first(&mut __value, __arm);
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
                                    if __region
                                        .test({
                                            let __logic = ::ms::__rt::or(
                                                ::ms::__rt::case(&__scrutinee, 2),
                                            );
                                            let mut __right = ::core::option::Option::None;
                                            if __logic.runs_right() {
                                                __right = ::core::option::Option::Some(
                                                    ::ms::__rt::case(&__scrutinee, 3),
                                                );
                                            }
                                            __logic.end(__right)
                                        })
                                    {
                                        __region.begin();
                                        let __arm: Tensor = { x * 10 };
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
                                    let __arm: Tensor = {
                                        let other = ::ms::__rt::Copied::copy(&__scrutinee);
                                        -other
                                    };
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
                        if __region.is_decided() {
                            break 'join7 __arm;
                        }
                        __region.join();
                        __region.value(__value, __arm)
                    };
                    ::ms::__rt::given(__result)
                }
            }
        })
}
