#[track_caller]
fn labelled_block(x: &Tensor, y: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "labelled_block",
        ::core::file!(),
        ::core::line!(),
        942911438805535599u64,
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
                let larger = {
                    let __vote1 = ::ms::__rt::vote();
                    let mut __flow1: ::ms::__rt::Flow<_, _> = ::ms::__rt::flow((
                        __vote1,
                        (),
                    ));
                    #[allow(unreachable_code, unused_labels)]
                    let __value = 'found: {
                        let __value: _ = {
                            {
                                let mut __region = ::ms::__rt::branch();
                                __region.votes(__vote1);
                                let mut __value = ::ms::__rt::held("the value");
                                let mut __was1 = ::ms::__rt::held_flow();
                                #[allow(unreachable_code, unused_labels)]
                                let __result = 'join4: {
                                    if __region.test(::ms::__rt::Subject(&x).gt(&y)) {
                                        __region.save_flow(&mut __was1, &__flow1);
                                        __region.begin();
                                        let __arm = 'arm2: {
                                            let __arm = {
                                                {
                                                    __flow1.give(x * 2.0);
                                                    if __flow1.is_near() {
                                                        break 'found ::core::option::Option::None;
                                                    }
                                                    __flow1.leave();
                                                    break 'arm2 ::core::option::Option::None;
                                                };
                                            };
                                            ::core::option::Option::Some(__arm)
                                        };
                                        <_ as ::ms::__rt::Carry<
                                            _,
                                        >>::accept(__region.kind(), __arm.as_ref());
                                        __region.first(&mut __value, __arm);
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        if __region.is_decided() {
                                            break 'join4 __region.alone(&mut __value);
                                        }
                                        __region.turn();
                                    }
                                    let mut __arm = 'arm3: {
                                        let __arm = { x + y };
                                        ::core::option::Option::Some(
                                            ::ms::__rt::Alike {
                                                first: &__value,
                                                value: __arm,
                                            }
                                                .value,
                                        )
                                    };
                                    __region.second(&mut __value, &mut __arm);
                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                    if __region.is_decided() {
                                        break 'join4 __arm;
                                    }
                                    __region.join();
                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                    __region.value(__value, __arm)
                                };
                                match __result {
                                    ::core::option::Option::Some(__arm) => __arm,
                                    ::core::option::Option::None => {
                                        break 'found ::core::option::Option::None;
                                    }
                                }
                            }
                        };
                        ::core::option::Option::Some(__value)
                    };
                    ::ms::__rt::given(__flow1.result(__value))
                };
                larger + 1.0
            }
        })
}
