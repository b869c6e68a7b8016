#[track_caller]
fn labels_and_return(x: &Tensor) -> Tensor {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "labels_and_return",
        ::core::file!(),
        ::core::line!(),
        6889525388038968912u64,
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
                let __vote2 = ::ms::__rt::vote();
                let __vote3 = ::ms::__rt::vote();
                let __vote4 = ::ms::__rt::vote();
                let __vote5 = ::ms::__rt::vote();
                let __vote6 = ::ms::__rt::vote();
                let mut __flow0: ::ms::__rt::Flow<_, Tensor> = ::ms::__rt::flow((
                    __vote2,
                    (__vote3, (__vote4, (__vote5, (__vote6, ())))),
                ));
                #[allow(unreachable_code, unused_labels)]
                let __value = 'body1: {
                    let __value: Tensor = {
                        let mut x = x.clone();
                        {
                            let __vote1 = ::ms::__rt::vote();
                            let mut __flow1: ::ms::__rt::Flow<_, ()> = ::ms::__rt::flow((
                                __vote1,
                                (__vote2, (__vote3, (__vote4, (__vote6, ())))),
                            ));
                            let mut __repeat = ::ms::__rt::repeat();
                            __repeat.votes(__vote6);
                            let mut __x = ::ms::__rt::held("`x`");
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(
                                __repeat.kind(),
                                ::core::option::Option::Some(&x),
                            );
                            let mut __was0 = ::ms::__rt::held_flow();
                            let mut __was1 = ::ms::__rt::held_flow();
                            'outer: loop {
                                __repeat.head();
                                __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                                __repeat.carry(&mut __x, &mut x);
                                if __repeat.is_over() {
                                    __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                    __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                                    __repeat.carry(&mut __x, &mut x);
                                    break;
                                }
                                if __flow1.ends() {
                                    break;
                                }
                                if !__repeat.test(true) {
                                    break;
                                }
                                __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                                __repeat.carry(&mut __x, &mut x);
                                __flow1.begin(&__repeat);
                                {
                                    let mut __region = ::ms::__rt::branch();
                                    __region.votes(__vote5);
                                    let mut __value = ::ms::__rt::held("the value");
                                    let mut __x = ::ms::__rt::held("`x`");
                                    <_ as ::ms::__rt::Carry<
                                        _,
                                    >>::accept(
                                        __region.kind(),
                                        ::core::option::Option::Some(&x),
                                    );
                                    let mut __was0 = ::ms::__rt::held_flow();
                                    let mut __was1 = ::ms::__rt::held_flow();
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join14: {
                                        if __region.test(__flow1.goes_on()) {
                                            __region.save(&mut __x, &x);
                                            __region.save_flow(&mut __was0, &__flow0);
                                            __region.save_flow(&mut __was1, &__flow1);
                                            __region.begin();
                                            let __arm = 'rest2: {
                                                let __arm: () = {
                                                    {
                                                        let mut __flow2: ::ms::__rt::Flow<_, ()> = ::ms::__rt::flow((
                                                            __vote1,
                                                            (__vote2, (__vote4, ())),
                                                        ));
                                                        let mut __repeat = ::ms::__rt::repeat();
                                                        __repeat.votes(__vote4);
                                                        let mut __x = ::ms::__rt::held("`x`");
                                                        <_ as ::ms::__rt::Carry<
                                                            _,
                                                        >>::accept(
                                                            __repeat.kind(),
                                                            ::core::option::Option::Some(&x),
                                                        );
                                                        let mut __was0 = ::ms::__rt::held_flow();
                                                        let mut __was1 = ::ms::__rt::held_flow();
                                                        let mut __was2 = ::ms::__rt::held_flow();
                                                        'repeat3: loop {
                                                            __repeat.head();
                                                            __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                            __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                            __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                            __repeat.carry(&mut __x, &mut x);
                                                            if __repeat.is_over() {
                                                                __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                                __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                                __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                                __repeat.carry(&mut __x, &mut x);
                                                                break;
                                                            }
                                                            if __flow2.ends() {
                                                                break;
                                                            }
                                                            if !__repeat
                                                                .test_unless(::ms::__rt::Subject(&x).lt(&100.0), &__flow2)
                                                            {
                                                                break;
                                                            }
                                                            __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                            __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                            __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                            __repeat.carry(&mut __x, &mut x);
                                                            __flow2.begin(&__repeat);
                                                            {
                                                                let mut __region = ::ms::__rt::branch();
                                                                __region.votes(__vote3);
                                                                let mut __value = ::ms::__rt::held("the value");
                                                                let mut __x = ::ms::__rt::held("`x`");
                                                                <_ as ::ms::__rt::Carry<
                                                                    _,
                                                                >>::accept(
                                                                    __region.kind(),
                                                                    ::core::option::Option::Some(&x),
                                                                );
                                                                let mut __was0 = ::ms::__rt::held_flow();
                                                                let mut __was1 = ::ms::__rt::held_flow();
                                                                let mut __was2 = ::ms::__rt::held_flow();
                                                                #[allow(unreachable_code, unused_labels)]
                                                                let __result = 'join11: {
                                                                    if __region.test(__flow2.goes_on()) {
                                                                        __region.save(&mut __x, &x);
                                                                        __region.save_flow(&mut __was0, &__flow0);
                                                                        __region.save_flow(&mut __was1, &__flow1);
                                                                        __region.save_flow(&mut __was2, &__flow2);
                                                                        __region.begin();
                                                                        let __arm = 'rest4: {
                                                                            let __arm: () = {
                                                                                x = <_ as ::ms::__rt::Copied>::copy(&x) * 2.0;
                                                                                {
                                                                                    let mut __region = ::ms::__rt::branch();
                                                                                    __region.votes(__vote2);
                                                                                    let mut __value = ::ms::__rt::held("the value");
                                                                                    let mut __was0 = ::ms::__rt::held_flow();
                                                                                    let mut __was1 = ::ms::__rt::held_flow();
                                                                                    let mut __was2 = ::ms::__rt::held_flow();
                                                                                    #[allow(unreachable_code, unused_labels)]
                                                                                    let __result = 'join10: {
                                                                                        if __region.test(::ms::__rt::Subject(&x).is(&64.0)) {
                                                                                            __region.save_flow(&mut __was0, &__flow0);
                                                                                            __region.save_flow(&mut __was1, &__flow1);
                                                                                            __region.save_flow(&mut __was2, &__flow2);
                                                                                            __region.begin();
                                                                                            let __arm = 'arm5: {
                                                                                                let __arm: () = {
                                                                                                    {
                                                                                                        let __left: Tensor = <_ as ::ms::__rt::Copied>::copy(&x);
                                                                                                        if __flow0.is_near() {
                                                                                                            return __left;
                                                                                                        }
                                                                                                        __flow0.give(__left);
                                                                                                        __flow2.leave();
                                                                                                        __flow1.leave();
                                                                                                        __flow0.leave();
                                                                                                        break 'arm5 ::core::option::Option::None;
                                                                                                    };
                                                                                                };
                                                                                                ::core::option::Option::Some(__arm)
                                                                                            };
                                                                                            <_ as ::ms::__rt::Carry<
                                                                                                _,
                                                                                            >>::accept(__region.kind(), __arm.as_ref());
                                                                                            __region.first(&mut __value, __arm);
                                                                                            __region.carry_flow(&mut __was0, &mut __flow0);
                                                                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                            __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                            if __region.is_decided() {
                                                                                                break 'join10 __region.alone(&mut __value);
                                                                                            }
                                                                                            __region.turn();
                                                                                        }
                                                                                        let mut __arm = 'arm6: {
                                                                                            let __arm: () = {
                                                                                                {
                                                                                                    let mut __region = ::ms::__rt::branch();
                                                                                                    __region.votes(__vote1);
                                                                                                    let mut __value = ::ms::__rt::held("the value");
                                                                                                    let mut __was1 = ::ms::__rt::held_flow();
                                                                                                    let mut __was2 = ::ms::__rt::held_flow();
                                                                                                    #[allow(unreachable_code, unused_labels)]
                                                                                                    let __result = 'join9: {
                                                                                                        if __region.test(::ms::__rt::Subject(&x).gt(&50.0)) {
                                                                                                            __region.save_flow(&mut __was1, &__flow1);
                                                                                                            __region.save_flow(&mut __was2, &__flow2);
                                                                                                            __region.begin();
                                                                                                            let __arm = 'arm7: {
                                                                                                                let __arm: () = {
                                                                                                                    {
                                                                                                                        if __flow1.is_inside() {
                                                                                                                            continue 'outer;
                                                                                                                        }
                                                                                                                        __flow2.leave();
                                                                                                                        __flow1.skip();
                                                                                                                        break 'arm7 ::core::option::Option::None;
                                                                                                                    };
                                                                                                                };
                                                                                                                ::core::option::Option::Some(__arm)
                                                                                                            };
                                                                                                            <_ as ::ms::__rt::Carry<
                                                                                                                _,
                                                                                                            >>::accept(__region.kind(), __arm.as_ref());
                                                                                                            __region.first(&mut __value, __arm);
                                                                                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                                            __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                                            if __region.is_decided() {
                                                                                                                break 'join9 __region.alone(&mut __value);
                                                                                                            }
                                                                                                            __region.turn();
                                                                                                        }
                                                                                                        let mut __arm = 'arm8: {
                                                                                                            let __arm: () = {};
                                                                                                            ::core::option::Option::Some(__arm)
                                                                                                        };
                                                                                                        __region.second(&mut __value, &mut __arm);
                                                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                                        if __region.is_decided() {
                                                                                                            break 'join9 __arm;
                                                                                                        }
                                                                                                        __region.join();
                                                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                                        __region.value(__value, __arm)
                                                                                                    };
                                                                                                    match __result {
                                                                                                        ::core::option::Option::Some(__arm) => __arm,
                                                                                                        ::core::option::Option::None => {
                                                                                                            break 'arm6 ::core::option::Option::None;
                                                                                                        }
                                                                                                    }
                                                                                                }
                                                                                            };
                                                                                            ::core::option::Option::Some(__arm)
                                                                                        };
                                                                                        __region.second(&mut __value, &mut __arm);
                                                                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                        if __region.is_decided() {
                                                                                            break 'join10 __arm;
                                                                                        }
                                                                                        __region.join();
                                                                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                        __region.value(__value, __arm)
                                                                                    };
                                                                                    match __result {
                                                                                        ::core::option::Option::Some(__arm) => __arm,
                                                                                        ::core::option::Option::None => {
                                                                                            break 'rest4 ::core::option::Option::None;
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
                                                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                        __region.carry(&mut __x, &mut x);
                                                                        if __region.is_decided() {
                                                                            break 'join11 __region.alone(&mut __value);
                                                                        }
                                                                        __region.turn();
                                                                    }
                                                                    __region.leaves(&__was2, &mut __flow2);
                                                                    let mut __arm = ::core::option::Option::None;
                                                                    __region.second(&mut __value, &mut __arm);
                                                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                                    __region.carry_flow(&mut __was2, &mut __flow2);
                                                                    __region.carry(&mut __x, &mut x);
                                                                    if __region.is_decided() {
                                                                        break 'join11 __arm;
                                                                    }
                                                                    __region.join();
                                                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                                    __region.carry_flow(&mut __was2, &mut __flow2);
                                                                    __region.carry(&mut __x, &mut x);
                                                                    __region.value(__value, __arm)
                                                                };
                                                                match __result {
                                                                    ::core::option::Option::Some(__arm) => __arm,
                                                                    ::core::option::Option::None => continue 'repeat3,
                                                                }
                                                            }
                                                        }
                                                        if __flow1.is_left() {
                                                            break 'rest2 ::core::option::Option::None;
                                                        }
                                                    }
                                                    {
                                                        let mut __region = ::ms::__rt::branch();
                                                        let mut __value = ::ms::__rt::held("the value");
                                                        let mut __was1 = ::ms::__rt::held_flow();
                                                        #[allow(unreachable_code, unused_labels)]
                                                        let __result = 'join13: {
                                                            if __region.test(__flow1.goes_on()) {
                                                                __region.save_flow(&mut __was1, &__flow1);
                                                                __region.begin();
                                                                let __arm = 'rest12: {
                                                                    let __arm: () = {
                                                                        {
                                                                            if __flow1.is_near() {
                                                                                break 'outer;
                                                                            }
                                                                            __flow1.leave();
                                                                            break 'rest12 ::core::option::Option::None;
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
                                                                    break 'join13 __region.alone(&mut __value);
                                                                }
                                                                __region.turn();
                                                            }
                                                            let mut __arm = ::core::option::Option::None;
                                                            __region.second(&mut __value, &mut __arm);
                                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                                            if __region.is_decided() {
                                                                break 'join13 __arm;
                                                            }
                                                            __region.join();
                                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                                            __region.value(__value, __arm)
                                                        };
                                                        match __result {
                                                            ::core::option::Option::Some(__arm) => __arm,
                                                            ::core::option::Option::None => {
                                                                break 'rest2 ::core::option::Option::None;
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
                                            __region.carry_flow(&mut __was0, &mut __flow0);
                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                            __region.carry(&mut __x, &mut x);
                                            if __region.is_decided() {
                                                break 'join14 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        __region.leaves(&__was1, &mut __flow1);
                                        let mut __arm = ::core::option::Option::None;
                                        __region.second(&mut __value, &mut __arm);
                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        __region.carry(&mut __x, &mut x);
                                        if __region.is_decided() {
                                            break 'join14 __arm;
                                        }
                                        __region.join();
                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        __region.carry(&mut __x, &mut x);
                                        __region.value(__value, __arm)
                                    };
                                    match __result {
                                        ::core::option::Option::Some(__arm) => __arm,
                                        ::core::option::Option::None => continue 'outer,
                                    }
                                }
                            }
                            if __flow0.is_left() {
                                break 'body1 ::core::option::Option::None;
                            }
                        }
                        {
                            let mut __region = ::ms::__rt::branch();
                            let mut __value = ::ms::__rt::held("the value");
                            #[allow(unreachable_code, unused_labels)]
                            let __result = 'join16: {
                                if __region.test(__flow0.goes_on()) {
                                    __region.begin();
                                    let __arm = 'rest15: {
                                        let __arm: Tensor = { x };
                                        ::core::option::Option::Some(__arm)
                                    };
                                    <_ as ::ms::__rt::Carry<
                                        _,
                                    >>::accept(__region.kind(), __arm.as_ref());
                                    __region.first(&mut __value, __arm);
                                    if __region.is_decided() {
                                        break 'join16 __region.alone(&mut __value);
                                    }
                                    __region.turn();
                                }
                                let mut __arm = ::core::option::Option::None;
                                __region.second(&mut __value, &mut __arm);
                                if __region.is_decided() {
                                    break 'join16 __arm;
                                }
                                __region.join();
                                __region.value(__value, __arm)
                            };
                            match __result {
                                ::core::option::Option::Some(__arm) => __arm,
                                ::core::option::Option::None => {
                                    break 'body1 ::core::option::Option::None;
                                }
                            }
                        }
                    };
                    ::core::option::Option::Some(__value)
                };
                ::ms::__rt::given(__flow0.result(__value))
            }
        })
}
