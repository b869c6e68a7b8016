#[track_caller]
fn while_let(x: &Tensor, layers: &[Dense]) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "while_let",
        ::core::file!(),
        ::core::line!(),
        15816822753595862782u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
                __sink.argument("layers");
                <[Dense] as ::ms::__rt::Arg>::visit(layers, __sink);
            },
        );
    <Tensor as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Tensor>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    let __arg1 = __call.enter(layers);
    __call
        .finish::<
            Tensor,
        >(move || -> Tensor {
            let x = &*__arg0;
            let layers = &*__arg1;
            {
                use ::ms::__rt::Compare as _;
                use ::ms::__rt::Invoke as _;
                use ::ms::__rt::reach::*;
                let mut x = x.clone();
                let mut rest = layers.iter();
                {
                    let __vote1 = ::ms::__rt::vote();
                    let __vote2 = ::ms::__rt::vote();
                    let mut __flow1: ::ms::__rt::Flow<_, ()> = ::ms::__rt::flow((
                        __vote1,
                        (__vote2, ()),
                    ));
                    let mut __repeat = ::ms::__rt::repeat();
                    __repeat.votes(__vote2);
                    let mut __rest = ::ms::__rt::held("`rest`");
                    <_ as ::ms::__rt::Carry<
                        _,
                    >>::accept(__repeat.kind(), ::core::option::Option::Some(&rest));
                    let mut __x = ::ms::__rt::held("`x`");
                    <_ as ::ms::__rt::Carry<
                        _,
                    >>::accept(__repeat.kind(), ::core::option::Option::Some(&x));
                    let mut __was1 = ::ms::__rt::held_flow();
                    'repeat2: loop {
                        __repeat.head();
                        __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                        __repeat.carry(&mut __rest, &mut rest);
                        __repeat.carry(&mut __x, &mut x);
                        if __repeat.is_over() {
                            __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                            __repeat.carry(&mut __rest, &mut rest);
                            __repeat.carry(&mut __x, &mut x);
                            break;
                        }
                        if __flow1.ends() {
                            break;
                        }
                        if !__repeat.test(true) {
                            break;
                        }
                        __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                        __repeat.carry(&mut __rest, &mut rest);
                        __repeat.carry(&mut __x, &mut x);
                        let Some(layer) = rest.next() else { break };
                        __flow1.begin(&__repeat);
                        {
                            let mut __region = ::ms::__rt::branch();
                            let mut __value = ::ms::__rt::held("the value");
                            let mut __x = ::ms::__rt::held("`x`");
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(
                                __region.kind(),
                                ::core::option::Option::Some(&x),
                            );
                            let mut __was1 = ::ms::__rt::held_flow();
                            #[allow(unreachable_code, unused_labels)]
                            let __result = 'join7: {
                                if __region.test(__flow1.goes_on()) {
                                    __region.save(&mut __x, &x);
                                    __region.save_flow(&mut __was1, &__flow1);
                                    __region.begin();
                                    __region
                                        .uses("`layer`", (&&::ms::__rt::Probe(&layer)).asks());
                                    let __arm = 'rest3: {
                                        let __arm: () = {
                                            {
                                                let mut __region = ::ms::__rt::branch();
                                                __region.votes(__vote1);
                                                let mut __value = ::ms::__rt::held("the value");
                                                let mut __x = ::ms::__rt::held("`x`");
                                                <_ as ::ms::__rt::Carry<
                                                    _,
                                                >>::accept(
                                                    __region.kind(),
                                                    ::core::option::Option::Some(&x),
                                                );
                                                let mut __was1 = ::ms::__rt::held_flow();
                                                #[allow(unreachable_code, unused_labels)]
                                                let __result = 'join6: {
                                                    if __region.test(!(::ms::__rt::Subject(&x).lt(&10.0))) {
                                                        __region.save(&mut __x, &x);
                                                        __region.save_flow(&mut __was1, &__flow1);
                                                        __region.begin();
                                                        let __arm = 'arm4: {
                                                            let __arm: () = {
                                                                {
                                                                    if __flow1.is_near() {
                                                                        break 'repeat2;
                                                                    }
                                                                    __flow1.leave();
                                                                    break 'arm4 ::core::option::Option::None;
                                                                };
                                                            };
                                                            ::core::option::Option::Some(__arm)
                                                        };
                                                        <_ as ::ms::__rt::Carry<
                                                            _,
                                                        >>::accept(__region.kind(), __arm.as_ref());
                                                        __region.first(&mut __value, __arm);
                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                        __region.carry(&mut __x, &mut x);
                                                        if __region.is_decided() {
                                                            break 'join6 __region.alone(&mut __value);
                                                        }
                                                        __region.turn();
                                                    }
                                                    __region
                                                        .uses("`layer`", (&&::ms::__rt::Probe(&layer)).asks());
                                                    let mut __arm = 'arm5: {
                                                        let __arm: () = {
                                                            x = layer
                                                                .invoke(::ms::__rt::Given {
                                                                    arguments: (&x,),
                                                                });
                                                        };
                                                        ::core::option::Option::Some(__arm)
                                                    };
                                                    __region.second(&mut __value, &mut __arm);
                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                    __region.carry(&mut __x, &mut x);
                                                    if __region.is_decided() {
                                                        break 'join6 __arm;
                                                    }
                                                    __region.join();
                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                    __region.carry(&mut __x, &mut x);
                                                    __region.value(__value, __arm)
                                                };
                                                match __result {
                                                    ::core::option::Option::Some(__arm) => __arm,
                                                    ::core::option::Option::None => {
                                                        break 'rest3 ::core::option::Option::None;
                                                    }
                                                }
                                            }
                                        };
                                        ::core::option::Option::Some(__arm)
                                    };
                                    <_ as ::ms::__rt::Carry<
                                        _,
                                    >>::accept(__region.kind(), __arm.as_ref());
                                    __region.first(&mut __value, __arm);
                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                    __region.carry(&mut __x, &mut x);
                                    if __region.is_decided() {
                                        break 'join7 __region.alone(&mut __value);
                                    }
                                    __region.turn();
                                }
                                __region.leaves(&__was1, &mut __flow1);
                                let mut __arm = ::core::option::Option::None;
                                __region.second(&mut __value, &mut __arm);
                                __region.carry_flow(&mut __was1, &mut __flow1);
                                __region.carry(&mut __x, &mut x);
                                if __region.is_decided() {
                                    break 'join7 __arm;
                                }
                                __region.join();
                                __region.carry_flow(&mut __was1, &mut __flow1);
                                __region.carry(&mut __x, &mut x);
                                __region.value(__value, __arm)
                            };
                            match __result {
                                ::core::option::Option::Some(__arm) => __arm,
                                ::core::option::Option::None => continue 'repeat2,
                            }
                        }
                    }
                }
                x
            }
        })
}
