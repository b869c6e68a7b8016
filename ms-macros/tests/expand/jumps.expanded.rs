fn guards(x: &Tensor) -> Result<Tensor> {
    use __rt::Compare as _;
    let y = parse(x)?;
    {
        let mut __region = __rt::branch();
        let mut __value = __rt::held("the value");
        #[allow(unreachable_code, unused_labels)]
        let __result = 'join4: {
            if __region.test(__rt::Subject(&y).gt(&8.0)) {
                __region.begin();
                let __arm: Result<Tensor> = { Ok(<_ as __rt::Copied>::copy(&y)) };
                let __arm = ::core::option::Option::Some(__arm);
                <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                __region.first(&mut __value, __arm);
                if __region.is_decided() {
                    break 'join4 __region.alone(&mut __value);
                }
                __region.turn();
            }
            let __arm: Result<Tensor> = { Ok(y + 1.0) };
            let mut __arm = ::core::option::Option::Some(__arm);
            __region.second(&mut __value, &mut __arm);
            if __region.is_decided() {
                break 'join4 __arm;
            }
            __region.join();
            __region.value(__value, __arm)
        };
        __rt::branch_value(__result)
    }
}
fn labels_and_return(x: &Tensor) -> Tensor {
    use __rt::Compare as _;
    use __rt::Iterate as _;
    let __vote1 = __rt::vote();
    let __vote2 = __rt::vote();
    let __vote3 = __rt::vote();
    let __vote4 = __rt::vote();
    let __vote5 = __rt::vote();
    let mut __flow0: __rt::Flow<_, Tensor> = __rt::flow((
        __vote1,
        (__vote2, (__vote3, (__vote4, (__vote5, ())))),
    ));
    #[allow(unreachable_code, unused_labels)]
    let __value = 'body1: {
        let __value: Tensor = {
            {
                let mut __flow1: __rt::Flow<_, ()> = __rt::flow((
                    __vote1,
                    (__vote2, (__vote3, (__vote5, ()))),
                ));
                match __rt::Over(0..3).iterate() {
                    mut __repeat => {
                        __repeat.votes(__vote5);
                        let mut __was0 = __rt::held_flow();
                        let mut __was1 = __rt::held_flow();
                        'outer: loop {
                            __repeat.head();
                            __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                            __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                            if __repeat.is_over() {
                                __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                                break;
                            }
                            if __flow1.ends() {
                                break;
                            }
                            let ::core::option::Option::Some(_) = __repeat.next() else {
                                break
                            };
                            __flow1.begin(__repeat.region());
                            {
                                let mut __region = __rt::branch();
                                __region.votes(__vote4);
                                let mut __value = __rt::held("the value");
                                let mut __was0 = __rt::held_flow();
                                let mut __was1 = __rt::held_flow();
                                #[allow(unreachable_code, unused_labels)]
                                let __result = 'join11: {
                                    if __region.test(__flow1.goes_on()) {
                                        __region.save_flow(&mut __was0, &__flow0);
                                        __region.save_flow(&mut __was1, &__flow1);
                                        __region.begin();
                                        let __arm = 'rest2: {
                                            let __arm: () = {
                                                {
                                                    let mut __flow2: __rt::Flow<_, ()> = __rt::flow((
                                                        __vote1,
                                                        (__vote3, ()),
                                                    ));
                                                    let mut __repeat = __rt::repeat();
                                                    __repeat.votes(__vote3);
                                                    let mut __was0 = __rt::held_flow();
                                                    let mut __was1 = __rt::held_flow();
                                                    let mut __was2 = __rt::held_flow();
                                                    'repeat3: loop {
                                                        __repeat.head();
                                                        __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                        __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                        __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                        if __repeat.is_over() {
                                                            __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                            __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                            __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                            break;
                                                        }
                                                        if __flow2.ends() {
                                                            break;
                                                        }
                                                        if !__repeat
                                                            .test_unless(__rt::Subject(&x).lt(&100.0), &__flow2)
                                                        {
                                                            break;
                                                        }
                                                        __repeat.carry_flow(&mut __was0, &mut __flow0, false);
                                                        __repeat.carry_flow(&mut __was1, &mut __flow1, false);
                                                        __repeat.carry_flow(&mut __was2, &mut __flow2, true);
                                                        __flow2.begin(&__repeat);
                                                        {
                                                            let mut __region = __rt::branch();
                                                            __region.votes(__vote2);
                                                            let mut __value = __rt::held("the value");
                                                            let mut __was0 = __rt::held_flow();
                                                            let mut __was1 = __rt::held_flow();
                                                            let mut __was2 = __rt::held_flow();
                                                            #[allow(unreachable_code, unused_labels)]
                                                            let __result = 'join8: {
                                                                if __region.test(__flow2.goes_on()) {
                                                                    __region.save_flow(&mut __was0, &__flow0);
                                                                    __region.save_flow(&mut __was1, &__flow1);
                                                                    __region.save_flow(&mut __was2, &__flow2);
                                                                    __region.begin();
                                                                    let __arm = 'rest4: {
                                                                        let __arm: () = {
                                                                            {
                                                                                let mut __region = __rt::branch();
                                                                                __region.votes(__vote1);
                                                                                let mut __value = __rt::held("the value");
                                                                                let mut __was0 = __rt::held_flow();
                                                                                let mut __was1 = __rt::held_flow();
                                                                                let mut __was2 = __rt::held_flow();
                                                                                #[allow(unreachable_code, unused_labels)]
                                                                                let __result = 'join7: {
                                                                                    if __region.test(__rt::Subject(&x).is(&64.0)) {
                                                                                        __region.save_flow(&mut __was0, &__flow0);
                                                                                        __region.save_flow(&mut __was1, &__flow1);
                                                                                        __region.save_flow(&mut __was2, &__flow2);
                                                                                        __region.begin();
                                                                                        let __arm = 'arm5: {
                                                                                            let __arm: () = {
                                                                                                {
                                                                                                    let __left: Tensor = x * 2.0;
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
                                                                                        <_ as __rt::Carry<
                                                                                            _,
                                                                                        >>::accept(__region.kind(), __arm.as_ref());
                                                                                        __region.first(&mut __value, __arm);
                                                                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                        __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                        if __region.is_decided() {
                                                                                            break 'join7 __region.alone(&mut __value);
                                                                                        }
                                                                                        __region.turn();
                                                                                    }
                                                                                    let mut __arm = 'arm6: {
                                                                                        let __arm: () = {
                                                                                            {
                                                                                                if __flow1.is_inside() {
                                                                                                    continue 'outer;
                                                                                                }
                                                                                                __flow2.leave();
                                                                                                __flow1.skip();
                                                                                                break 'arm6 ::core::option::Option::None;
                                                                                            };
                                                                                        };
                                                                                        ::core::option::Option::Some(__arm)
                                                                                    };
                                                                                    __region.second(&mut __value, &mut __arm);
                                                                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                                                    __region.carry_flow(&mut __was2, &mut __flow2);
                                                                                    if __region.is_decided() {
                                                                                        break 'join7 __arm;
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
                                                                    <_ as __rt::Carry<
                                                                        _,
                                                                    >>::accept(__region.kind(), __arm.as_ref());
                                                                    __region.first(&mut __value, __arm);
                                                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                                                    __region.carry_flow(&mut __was2, &mut __flow2);
                                                                    if __region.is_decided() {
                                                                        break 'join8 __region.alone(&mut __value);
                                                                    }
                                                                    __region.turn();
                                                                }
                                                                __region.leaves(&__was2, &mut __flow2);
                                                                let mut __arm = ::core::option::Option::None;
                                                                __region.second(&mut __value, &mut __arm);
                                                                __region.carry_flow(&mut __was0, &mut __flow0);
                                                                __region.carry_flow(&mut __was1, &mut __flow1);
                                                                __region.carry_flow(&mut __was2, &mut __flow2);
                                                                if __region.is_decided() {
                                                                    break 'join8 __arm;
                                                                }
                                                                __region.join();
                                                                __region.carry_flow(&mut __was0, &mut __flow0);
                                                                __region.carry_flow(&mut __was1, &mut __flow1);
                                                                __region.carry_flow(&mut __was2, &mut __flow2);
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
                                                    let mut __region = __rt::branch();
                                                    let mut __value = __rt::held("the value");
                                                    let mut __was1 = __rt::held_flow();
                                                    #[allow(unreachable_code, unused_labels)]
                                                    let __result = 'join10: {
                                                        if __region.test(__flow1.goes_on()) {
                                                            __region.save_flow(&mut __was1, &__flow1);
                                                            __region.begin();
                                                            let __arm = 'rest9: {
                                                                let __arm: () = {
                                                                    {
                                                                        if __flow1.is_near() {
                                                                            break 'outer;
                                                                        }
                                                                        __flow1.leave();
                                                                        break 'rest9 ::core::option::Option::None;
                                                                    };
                                                                };
                                                                ::core::option::Option::Some(__arm)
                                                            };
                                                            <_ as __rt::Carry<
                                                                _,
                                                            >>::accept(__region.kind(), __arm.as_ref());
                                                            __region.first(&mut __value, __arm);
                                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                                            if __region.is_decided() {
                                                                break 'join10 __region.alone(&mut __value);
                                                            }
                                                            __region.turn();
                                                        }
                                                        let mut __arm = ::core::option::Option::None;
                                                        __region.second(&mut __value, &mut __arm);
                                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                                        if __region.is_decided() {
                                                            break 'join10 __arm;
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
                                        <_ as __rt::Carry<
                                            _,
                                        >>::accept(__region.kind(), __arm.as_ref());
                                        __region.first(&mut __value, __arm);
                                        __region.carry_flow(&mut __was0, &mut __flow0);
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        if __region.is_decided() {
                                            break 'join11 __region.alone(&mut __value);
                                        }
                                        __region.turn();
                                    }
                                    __region.leaves(&__was1, &mut __flow1);
                                    let mut __arm = ::core::option::Option::None;
                                    __region.second(&mut __value, &mut __arm);
                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                    __region.carry_flow(&mut __was1, &mut __flow1);
                                    if __region.is_decided() {
                                        break 'join11 __arm;
                                    }
                                    __region.join();
                                    __region.carry_flow(&mut __was0, &mut __flow0);
                                    __region.carry_flow(&mut __was1, &mut __flow1);
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
                }
            }
            {
                let mut __region = __rt::branch();
                let mut __value = __rt::held("the value");
                #[allow(unreachable_code, unused_labels)]
                let __result = 'join13: {
                    if __region.test(__flow0.goes_on()) {
                        __region.begin();
                        let __arm = 'rest12: {
                            let __arm: Tensor = { x };
                            ::core::option::Option::Some(__arm)
                        };
                        <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                        __region.first(&mut __value, __arm);
                        if __region.is_decided() {
                            break 'join13 __region.alone(&mut __value);
                        }
                        __region.turn();
                    }
                    let mut __arm = ::core::option::Option::None;
                    __region.second(&mut __value, &mut __arm);
                    if __region.is_decided() {
                        break 'join13 __arm;
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
    __rt::branch_value(__flow0.result(__value))
}
fn labelled_block(x: &Tensor, y: &Tensor) -> Tensor {
    use __rt::Compare as _;
    let larger = {
        let __vote1 = __rt::vote();
        let mut __flow1: __rt::Flow<_, _> = __rt::flow((__vote1, ()));
        #[allow(unreachable_code, unused_labels)]
        let __value = 'found: {
            let __value: _ = {
                {
                    let mut __region = __rt::branch();
                    __region.votes(__vote1);
                    let mut __value = __rt::held("the value");
                    let mut __was1 = __rt::held_flow();
                    #[allow(unreachable_code, unused_labels)]
                    let __result = 'join4: {
                        if __region.test(__rt::Subject(&x).gt(&y)) {
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
                            <_ as __rt::Carry<
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
                                __rt::SecondArm {
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
        __rt::branch_value(__flow1.result(__value))
    };
    larger + 1.0
}
